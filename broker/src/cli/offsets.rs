//! `broker offsets`.

use broker::client::{At, Client, FoundOffset, PartitionInfo};
use broker::net::TcpConnector;

use super::output::{Output, table};
use super::{Server, Stop, acknowledged, quantity};

/// Print where each partition starts and ends, or the first offset at or after a time
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Where no record is at or after a time, \"none, the next will be N\" stands in place of the offset. An offset that \
the server cannot tell is shown as ?, and the exit code is 1.

Examples:
  broker offsets orders                              first and next offset of each partition
  broker offsets orders --partition 1 --at latest    one number
  broker offsets orders --at @2026-11-29T13:00:00Z   the first record at or after that time")]
pub struct Args {
    /// The topic
    topic: String,
    /// Only this partition
    #[arg(long, value_parser = quantity::number::<u32>)]
    partition: Option<u32>,
    /// earliest, latest, or @TIME (milliseconds since 1970, or a date and time in UTC)
    #[arg(long, value_name = "WHERE", value_parser = at)]
    at: Option<At>,
    #[command(flatten)]
    server: Server,
}

/// Reads `earliest`, `latest` or `@TIME`.
pub fn at(text: &str) -> Result<At, String> {
    match text {
        "earliest" => Ok(At::Earliest),
        "latest" => Ok(At::Latest),
        _ => match text.strip_prefix('@') {
            Some(time) => Ok(At::Timestamp(quantity::timestamp(time)?)),
            None => Err(format!("{text:?} is not earliest, latest or @TIME")),
        },
    }
}

pub async fn run(args: Args) -> Result<(), Stop> {
    let Args { topic, partition, at, server } = args;
    let client = server.client();
    let what = format!("cannot find offsets of {topic:?}");
    let partitions = acknowledged(&what, client.partitions(&topic).await)?;
    if let Some(number) = partition
        && !partitions.iter().any(|p| p.number == number)
    {
        return Err(Stop::Because(format!(
            "topic {topic:?} has no partition {number}: it has 0 to {}",
            partitions.len().saturating_sub(1)
        )));
    }
    let chosen = partitions.iter().filter(|p| partition.is_none_or(|number| p.number == number));
    match at {
        None => ends(&topic, &client, chosen).await,
        Some(at) => {
            let mut found = Vec::new();
            for p in chosen {
                let offset = acknowledged(&what, client.list_offsets(&topic, p.number, at).await)?;
                found.push((p.number, show(at, offset)));
            }
            print(found, partition.is_some())
        }
    }
}

/// Where each partition starts and ends. What is not known is said so, and that is an error.
async fn ends(
    topic: &str,
    client: &Client<TcpConnector>,
    partitions: impl Iterator<Item = &PartitionInfo>,
) -> Result<(), Stop> {
    let mut rows = vec![["partition", "first", "next"].map(str::to_owned).to_vec()];
    let mut unknown = None;
    for p in partitions {
        let first = if p.unopened { "?".into() } else { p.log_start.to_string() };
        let next = match client.list_offsets(topic, p.number, At::Latest).await.into_result() {
            Ok(next) => next.offset.to_string(),
            Err(why) => {
                unknown.get_or_insert(why);
                "?".into()
            }
        };
        rows.push(vec![p.number.to_string(), first, next]);
    }
    let mut output = Output::new();
    output.write(|out| out.write_all(table(&rows).as_bytes()))?;
    output.flush()?;
    unknown.map_or(Ok(()), |why| Err(why.into()))
}

/// What was found, as the help says.
fn show(at: At, found: FoundOffset) -> String {
    match (at, found.timestamp) {
        (At::Timestamp(_), None) => format!("none, the next will be {}", found.offset),
        _ => found.offset.to_string(),
    }
}

fn print(found: Vec<(u32, String)>, only: bool) -> Result<(), Stop> {
    let mut output = Output::new();
    if only {
        found.iter().try_for_each(|(_, offset)| output.line(format_args!("{offset}")))?;
        return output.flush();
    }
    let mut rows = vec![["partition", "offset"].map(str::to_owned).to_vec()];
    rows.extend(found.into_iter().map(|(number, offset)| vec![number.to_string(), offset]));
    output.write(|out| out.write_all(table(&rows).as_bytes()))?;
    output.flush()
}
