//! `broker offsets`.

use broker::client::At;
use broker::units::Offset;

use super::output::{Output, table};
use super::{Server, Stop, acknowledged, quantity};

/// Print where each partition starts and ends, or the first offset at or after a time
#[derive(Debug, clap::Args)]
#[command(after_help = "\
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
    let mut output = Output::new();
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
    let mut rows = Vec::new();
    match at {
        None => {
            rows.push(["partition", "first", "next"].map(str::to_owned).to_vec());
            rows.extend(chosen.map(|p| {
                let offset = |offset: Offset| if p.unopened { "?".into() } else { offset.to_string() };
                vec![p.number.to_string(), offset(p.log_start), offset(p.log_end)]
            }));
        }
        Some(at) => {
            for p in chosen {
                let found = acknowledged(&what, client.list_offsets(&topic, p.number, at).await)?;
                if partition.is_some() {
                    output.line(format_args!("{}", found.offset))?;
                    return output.flush();
                }
                rows.push(vec![p.number.to_string(), found.offset.to_string()]);
            }
            rows.insert(0, ["partition", "offset"].map(str::to_owned).to_vec());
        }
    }
    output.write(|out| out.write_all(table(&rows).as_bytes()))?;
    output.flush()
}
