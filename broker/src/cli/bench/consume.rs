//! `broker bench consume`.

use std::collections::VecDeque;
use std::time::Instant;

use broker::client::Fetch;
use broker::units::Offset;
use broker::wire::proto::request;

use super::produce::{make_topic, stored};
use super::server::{Own, until_signal};
use super::{Figures, filler, histogram, nanos, record_bytes};
use crate::cli::{Server, Stop, acknowledged, produce, quantity};

/// Read records as fast as the server gives them
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Reads one partition from its start, over one connection: the next request leaves when an answer has come, before its
records are looked at.

Examples:
  broker bench consume --durability os --records 10000000     fill a server of our own, then read it
  broker bench consume --topic orders                         read a server that runs already")]
pub struct Args {
    /// The topic
    #[arg(long, default_value = "bench")]
    topic: String,
    /// The partition
    #[arg(long, default_value_t = 0, value_parser = quantity::number::<u32>)]
    partition: u32,
    /// Records to fill the server started with --durability with
    #[arg(long, value_name = "N", default_value_t = 1_000_000, requires = "durability", value_parser = quantity::number::<u64>)]
    records: u64,
    /// Bytes of each of these records' values
    #[arg(long, value_name = "SIZE", default_value = "100", requires = "durability", value_parser = record_bytes)]
    record_bytes: usize,
    /// Bytes of one answer
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_parser = quantity::size_u32)]
    max_bytes: u32,
    /// Read everything this many times, and report each time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = quantity::number::<u32>)]
    runs: u32,
    /// Print one line of JSON per run
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    own: Own,
    #[command(flatten)]
    server: Server,
}

pub async fn run(mut args: Args) -> Result<(), Stop> {
    let mut running = args.own.start(&mut args.server)?;
    let fills = running.is_some();
    until_signal(running.as_mut(), measure(&args, fills)).await
}

async fn measure(args: &Args, fills: bool) -> Result<(), Stop> {
    if fills {
        make_topic(&args.server, &args.topic, 1).await?;
        fill(args).await?;
    }
    for _ in 0..args.runs {
        read(args).await?.print(args.json)?;
    }
    Ok(())
}

/// Fills a server of our own.
async fn fill(args: &Args) -> Result<(), Stop> {
    let mut connection = produce::connect(&args.server).await?;
    let value = filler(args.record_bytes);
    let batch = (1 << 20) / (args.record_bytes + 32) + 1;
    let mut left = args.records;
    let mut sent = VecDeque::new();
    while left > 0 || !sent.is_empty() {
        while left > 0 && sent.len() < 4 {
            let count = left.min(batch as u64);
            connection.send_produce(&args.topic, Some(0), (0..count).map(|_| (None, &value[..])));
            sent.push_back(count);
            left -= count;
        }
        let answer = connection.receive_produced().await.map_err(|e| e.to_string())?;
        stored(answer, sent.pop_front().unwrap_or(0))?;
    }
    Ok(())
}

async fn read(args: &Args) -> Result<Figures, Stop> {
    let what = format!("cannot consume {}/{}", args.topic, args.partition);
    let partitions = acknowledged(&what, args.server.client().partitions(&args.topic).await)?;
    let Some(partition) = partitions.iter().find(|p| p.number == args.partition) else {
        return Err(Stop::Because(format!("{what}: there is no such partition")));
    };
    let (mut next, end) = (partition.log_start, partition.log_end);
    let mut connection = produce::connect(&args.server).await?;
    let mut latency = histogram();
    let (mut records, mut bytes) = (0, 0);
    let ask = |offset: Offset| {
        let fetch = Fetch { max_bytes: args.max_bytes, ..Fetch::from(offset) };
        request::Kind::Consume(fetch.request(&args.topic, args.partition)).into()
    };
    let begun = Instant::now();
    connection.send(&ask(next));
    while next < end {
        let asked = Instant::now();
        let answer = connection.receive_consumed().await.map_err(|e| e.to_string())?;
        let answer = acknowledged(&what, answer)?;
        latency.saturating_record(nanos(asked.elapsed()));
        if answer.count() == 0 {
            return Err(Stop::Because(format!("{what}: nothing came from offset {next} on")));
        }
        let after = next.plus(answer.count());
        if after < end {
            connection.send(&ask(after));
            connection.flush().await.map_err(|e| e.to_string())?;
        }
        for record in answer.records() {
            let record = record.map_err(|e| e.to_string())?;
            if record.offset != next {
                return Err(Stop::Because(format!(
                    "{what}: offset {} came instead of {next}",
                    record.offset
                )));
            }
            next = next.next();
            records += 1;
            bytes += record.key.map_or(0, |key| key.len() as u64) + record.value.len() as u64;
        }
    }
    let took = begun.elapsed();
    let what = format!(
        "consume: {records} records, up to {} per answer",
        quantity::show_bytes(args.max_bytes.into())
    );
    Ok(Figures::new(what, took, records, bytes, &latency))
}
