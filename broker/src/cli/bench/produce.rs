//! `broker bench produce`.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use broker::client::{Connection, Outcome, Produced};
use broker::settings::TopicSettings;
use hdrhistogram::Histogram;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::server::{Own, until_signal};
use super::{Figures, filler, histogram, nanos, record_bytes};
use crate::cli::{Server, Stop, acknowledged, produce, quantity, quantity::count};

/// Requests are written to the socket in pieces of about this many bytes.
const SEND_BYTES: usize = 64 << 10;

/// Append records as fast as the server takes them
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  broker bench produce --durability os                          one record per request, one request at a time
  broker bench produce --durability os --in-flight 1000         one record per request, 1000 requests in flight
  broker bench produce --durability os --batch 1000 --in-flight 8
  broker bench produce --durability always --connections 64
  broker bench produce --addr 10.0.0.5:7070 --topic bench       a server that is already running")]
pub struct Args {
    /// The topic; created if missing
    #[arg(long, default_value = "bench")]
    topic: String,
    /// Partitions of the topic, if it is created
    #[arg(long, default_value_t = 1, value_parser = quantity::number::<u32>)]
    partitions: u32,
    /// Records to append, rounded up so that each connection has as many full requests
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    records: u64,
    /// Bytes of each record's value
    #[arg(long, value_name = "SIZE", default_value = "100", value_parser = record_bytes)]
    record_bytes: usize,
    /// Records in a request
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    batch: u64,
    /// Requests in flight on each connection
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    in_flight: u32,
    /// Connections
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    connections: u64,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    own: Own,
    #[command(flatten)]
    server: Server,
}

pub async fn run(mut args: Args) -> Result<(), Stop> {
    let mut running = args.own.start(&mut args.server)?;
    until_signal(running.as_mut(), fill(&args)).await?.print(args.json)
}

/// What a connection does.
struct Share {
    topic: String,
    requests: u64,
    batch: u64,
    in_flight: usize,
    value: Vec<u8>,
}

async fn fill(args: &Args) -> Result<Figures, Stop> {
    make_topic(&args.server, &args.topic, args.partitions).await?;
    let requests = args.records.div_ceil(args.batch).div_ceil(args.connections);
    let mut connections = Vec::new();
    for _ in 0..args.connections {
        connections.push(produce::connect(&args.server).await?);
    }
    let begun = Instant::now();
    let mut tasks = JoinSet::new();
    for connection in connections {
        let share = Share {
            topic: args.topic.clone(),
            requests,
            batch: args.batch,
            in_flight: args.in_flight as usize,
            value: filler(args.record_bytes),
        };
        tasks.spawn(pipeline(connection, share));
    }
    let mut latency = histogram();
    while let Some(done) = tasks.join_next().await {
        let one = done.map_err(|e| e.to_string())??;
        latency.add(one).map_err(|e| e.to_string())?;
    }
    let took = begun.elapsed();
    let records = requests * args.batch * args.connections;
    let what = format!(
        "produce: {records} records of {} B, {} per request, {} in flight, {}, durability {}",
        args.record_bytes,
        args.batch,
        args.in_flight,
        count(args.connections, "connection"),
        args.own.durability.as_deref().unwrap_or("as the server's"),
    );
    Ok(Figures::new(what, took, records, records * args.record_bytes as u64, &latency))
}

/// Makes the topic, if it is not there.
pub async fn make_topic(server: &Server, topic: &str, partitions: u32) -> Result<(), Stop> {
    let settings = TopicSettings::with_partitions(partitions);
    match server.client().create_topic(topic, &settings).await {
        Outcome::Refused(refusal) if refusal.code == broker::error::Code::TopicExists => Ok(()),
        outcome => acknowledged(&format!("cannot make topic {topic:?}"), outcome),
    }
}

/// Whether all records of a request were stored.
pub fn stored(produced: Produced, count: u64) -> Result<(), String> {
    if matches!(produced, Produced::Appended { count: appended, .. } if u64::from(appended) == count) {
        return Ok(());
    }
    for outcome in produced.outcomes(usize::try_from(count).unwrap_or(usize::MAX)) {
        outcome.into_result().map_err(|e| format!("a record was not stored: {e}"))?;
    }
    Ok(())
}

async fn pipeline(mut connection: Connection<TcpStream>, share: Share) -> Result<Histogram<u64>, String> {
    let mut latency = histogram();
    let mut begun: VecDeque<Instant> = VecDeque::with_capacity(share.in_flight);
    let records = (0..share.batch).map(|_| (None, &share.value[..]));
    let mut left = share.requests;
    while left > 0 || !begun.is_empty() {
        if left > 0 && begun.len() < share.in_flight {
            let now = Instant::now();
            while left > 0 && begun.len() < share.in_flight && connection.unsent() < SEND_BYTES {
                connection.send_produce(&share.topic, None, records.clone());
                begun.push_back(now);
                left -= 1;
            }
        }
        // A full piece leaves before the next is made; waiting for an answer instead would keep only one piece in flight.
        let mut answer = if left > 0 && begun.len() < share.in_flight {
            connection.flush().await.map_err(|e| e.to_string())?;
            connection.try_receive_produced()
        } else {
            connection.receive_produced().await.map(Some)
        }
        .map_err(|e| e.to_string())?;
        let now = Instant::now();
        while let Some(produced) = answer {
            stored(produced, share.batch)?;
            let since = begun.pop_front().map_or(Duration::ZERO, |begun| now - begun);
            latency.saturating_record(nanos(since));
            answer = connection.try_receive_produced().map_err(|e| e.to_string())?;
        }
    }
    Ok(latency)
}
