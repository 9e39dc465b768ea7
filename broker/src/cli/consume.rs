//! `broker consume`.

use std::collections::VecDeque;
use std::io::Write;
use std::time::Duration;

use broker::client::{At, Client, Consumed, Fetch, Outcome, Refusal};
use broker::error::Code;
use broker::net::TcpConnector;
use broker::record::Record;
use broker::units::Offset;
use clap::ValueEnum;
use serde::Serialize;
use tokio::time::sleep;

use super::output::{Output, reader_gone, say};
use super::{Server, Stop, acknowledged, is_away, offsets, quantity};

/// How long to wait before looking again at several partitions that had nothing new.
const PAUSE: Duration = Duration::from_millis(100);

/// How long one request waits for records of one partition.
const WAIT: Duration = Duration::from_secs(10);

/// Records of all partitions together that wait to be printed take about so many bytes.
const AHEAD_BYTES: u32 = 32 << 20;

/// Print records
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Without --partition, all partitions are read and merged by time. The order of records is guaranteed only \
within a partition, and so for each key.

Without --follow it ends at the last record that existed when it started; where the server has records that \
it cannot read, the exit code is 1. With --follow, it ends where the topic is deleted, and where retention removes \
records before they were read. One that \
is deleted and made anew while the server cannot be reached is read on at the same offsets, where it has got that far: \
its first records are passed over.

Text prints each value, byte for byte, and a line feed; JSON prints one object per line, with value_hex or \
key_hex where the bytes are not UTF-8.

Examples:
  broker consume orders                              everything, one value per line
  broker consume orders --partition 1 --from 1000 --count 10
  broker consume orders --from @2026-11-29T13:00:00Z --format json
  broker consume orders --from latest --follow       only new records")]
pub struct Args {
    /// The topic
    topic: String,
    /// Read one partition
    #[arg(long, value_parser = quantity::number::<u32>)]
    partition: Option<u32>,
    /// Read all partitions, merged by time (the default without --partition)
    #[arg(long, conflicts_with = "partition")]
    all: bool,
    /// Where to start: an offset, earliest, latest, or @TIME (milliseconds since 1970, or a date and time in UTC)
    #[arg(long, value_name = "WHERE", default_value = "earliest", value_parser = from)]
    from: From,
    /// Stop after this many records
    #[arg(long, value_name = "N", value_parser = quantity::number::<u64>)]
    count: Option<u64>,
    /// At the end, wait for more
    #[arg(long)]
    follow: bool,
    /// How to print a record
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    #[command(flatten)]
    server: Server,
}

#[derive(Clone, Copy, Debug)]
enum From {
    Offset(Offset),
    At(At),
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// The value and a line feed
    Text,
    /// A JSON object and a line feed
    Json,
}

fn from(text: &str) -> Result<From, String> {
    match text.parse() {
        Ok(offset) => Ok(From::Offset(Offset::new(offset))),
        Err(_) => offsets::at(text).map(From::At).map_err(|e| format!("{e}, and not an offset")),
    }
}

/// A partition that is being read.
struct Source {
    partition: u32,
    /// The offset to ask for next.
    next: Offset,
    /// Without `--follow`: where to end.
    end: Offset,
    records: VecDeque<Record>,
    /// Where to ask anew for its beginning while it has not begun: retention may take what is there.
    begins: Option<At>,
    /// How many bytes of records to ask for at once.
    ahead: u32,
}

pub async fn run(args: Args) -> Result<(), Stop> {
    if !args.follow {
        return print_all(args).await;
    }
    // Whether the reader is still there, the next record would tell, and that may be long in coming.
    tokio::select! {
        biased;
        ended = print_all(args) => ended,
        () = reader_gone() => Err(Stop::OutputClosed),
    }
}

async fn print_all(args: Args) -> Result<(), Stop> {
    let client = args.server.client();
    let mut sources = sources(&args, &client).await?;
    let mut output = Output::new();
    let mut left = args.count.unwrap_or(u64::MAX);
    while left > 0 {
        for source in sources.iter_mut().filter(|source| source.records.is_empty()) {
            if args.follow || source.next < source.end {
                source.fetch(&args, &client, Duration::ZERO).await?;
            }
        }
        if sources.iter().any(|source| !source.records.is_empty()) {
            merge(&mut sources, args.format, &mut left, &mut output)?;
            if args.follow {
                output.flush()?;
            }
            continue;
        }
        match &mut sources[..] {
            _ if !args.follow => {
                output.flush()?;
                return ask_for_more(&args, &client, &sources).await;
            }
            [only] => only.fetch(&args, &client, WAIT).await?,
            _ => sleep(PAUSE).await,
        }
    }
    output.flush()
}

/// Whether the records that were printed are all that there are: the server has an error for who asks where there are more, and
/// they cannot be read.
async fn ask_for_more(args: &Args, client: &Client<TcpConnector>, sources: &[Source]) -> Result<(), Stop> {
    for Source { partition, .. } in sources {
        let what = format!("{}/{partition} cannot be read to its end", args.topic);
        acknowledged(&what, client.list_offsets(&args.topic, *partition, At::Latest).await)?;
    }
    Ok(())
}

/// Prints records by time, until a partition has none left and has to be asked for more. One that had none when it was
/// last asked is not asked again before that: what comes into it meanwhile is later than what was there. So the requests
/// are as many as the batches, times the partitions at most, and not as many as the records.
fn merge(
    sources: &mut [Source],
    format: Format,
    left: &mut u64,
    output: &mut Output<impl Write>,
) -> Result<(), Stop> {
    while *left > 0 {
        let first = sources
            .iter_mut()
            .filter(|source| !source.records.is_empty())
            .min_by_key(|source| source.records.front().map(|record| record.timestamp));
        let Some(source) = first else { return Ok(()) };
        let partition = source.partition;
        if let Some(record) = source.records.pop_front() {
            output.write(|out| print(out, format, partition, &record))?;
            *left -= 1;
        }
        if source.records.is_empty() {
            return Ok(());
        }
    }
    Ok(())
}

async fn sources(args: &Args, client: &Client<TcpConnector>) -> Result<Vec<Source>, Stop> {
    let what = format!("cannot consume {:?}", args.topic);
    let partitions = acknowledged(&what, client.partitions(&args.topic).await)?;
    let count = partitions.len();
    let mut sources = Vec::new();
    for p in partitions.iter().filter(|p| args.partition.is_none_or(|number| p.number == number)) {
        let next = match args.from {
            // The server says why; to leave it out in silence would be to call it empty.
            _ if p.unopened => {
                acknowledged(&what, client.list_offsets(&args.topic, p.number, At::Earliest).await)?.offset
            }
            // An offset that no record has, nor will have next: an empty answer would say that all were read.
            From::Offset(offset) if !(p.log_start..=p.log_end).contains(&offset) => {
                return Err(Stop::Because(format!(
                    "{what}: partition {} has offsets {} to {} (the next one); {offset} is outside",
                    p.number, p.log_start, p.log_end
                )));
            }
            From::Offset(offset) => offset,
            From::At(At::Earliest) => p.log_start,
            From::At(At::Latest) => p.log_end,
            From::At(at) => acknowledged(&what, client.list_offsets(&args.topic, p.number, at).await)?.offset,
        };
        let records = VecDeque::new();
        let begins = match args.from {
            From::At(at @ (At::Earliest | At::Timestamp(_))) => Some(at),
            From::At(At::Latest) | From::Offset(_) => None,
        };
        sources.push(Source { partition: p.number, next, end: p.log_end, records, begins, ahead: 0 });
    }
    let share = AHEAD_BYTES / u32::try_from(sources.len()).unwrap_or(u32::MAX).max(1);
    sources.iter_mut().for_each(|source| source.ahead = share.min(Fetch::BYTES));
    match args.partition {
        Some(number) if sources.is_empty() => Err(Stop::Because(format!(
            "topic {:?} has no partition {number}: it has 0 to {}",
            args.topic,
            count - 1
        ))),
        _ => Ok(sources),
    }
}

impl Source {
    /// Gets the next records, if there are any. Goes on trying where the server is away and a person follows.
    async fn fetch(
        &mut self,
        args: &Args,
        client: &Client<TcpConnector>,
        wait: Duration,
    ) -> Result<(), Stop> {
        let what = format!("cannot consume {}/{}", args.topic, self.partition);
        let mut complained = false;
        let consumed: Consumed = loop {
            let fetch = Fetch { max_bytes: self.ahead, ..Fetch::from(self.next).wait(wait) };
            let outcome = client.consume(&args.topic, self.partition, fetch).await;
            let outcome = match self.begins {
                Some(at) if is_out_of_range(&outcome) => match self.begin_later(args, client, at).await {
                    Ok(true) if !args.follow && self.next >= self.end => return Ok(()),
                    Ok(true) => continue,
                    Ok(false) => outcome,
                    Err(failure) => failure,
                },
                None if is_out_of_range(&outcome) => self.explain_gone(args, client, outcome).await,
                _ => outcome,
            };
            match away(&outcome) {
                Some(reason) if args.follow => {
                    if !complained {
                        say(format_args!("{reason}; retrying until it works"));
                        complained = true;
                    }
                    sleep(PAUSE).await;
                }
                _ => break acknowledged(&what, outcome)?,
            }
        };
        self.begins = None;
        if let Some(last) = consumed.records.last() {
            self.next = last.offset.next();
        } else if !args.follow {
            self.end = self.next;
        }
        let end = self.end;
        self.records.extend(consumed.records.into_iter().filter(|r| args.follow || r.offset < end));
        Ok(())
    }

    /// Nothing is read at this offset. Where that is because retention was faster than the reader, it is told how to go on.
    async fn explain_gone(
        &self,
        args: &Args,
        client: &Client<TcpConnector>,
        outcome: Outcome<Consumed>,
    ) -> Outcome<Consumed> {
        let (next, partition) = (self.next, self.partition);
        let start = match client.list_offsets(&args.topic, partition, At::Earliest).await {
            Outcome::Acknowledged(start) if start.offset > next => start.offset,
            _ => return outcome,
        };
        let Outcome::Refused(Refusal { code, message }) = outcome else { return outcome };
        let message = format!(
            "{message}\n  what was there was removed before it was read, as retention does; what is left begins at \
             offset {start}: go on with --partition {partition} --from {start}"
        );
        Outcome::Refused(Refusal { code, message })
    }

    /// Retention was faster than the first request: what there is may begin later. Whether it does; an error is how the question
    /// came out.
    async fn begin_later(
        &mut self,
        args: &Args,
        client: &Client<TcpConnector>,
        at: At,
    ) -> Result<bool, Outcome<Consumed>> {
        let start = match client.list_offsets(&args.topic, self.partition, at).await {
            Outcome::Acknowledged(start) => start.offset,
            Outcome::Refused(refusal) => return Err(Outcome::Refused(refusal)),
            Outcome::Unknown(doubt) => return Err(Outcome::Unknown(doubt)),
        };
        let is_later = start > self.next;
        self.next = self.next.max(start);
        Ok(is_later)
    }
}

fn is_out_of_range(outcome: &Outcome<Consumed>) -> bool {
    matches!(outcome, Outcome::Refused(refusal) if refusal.code == Code::OffsetOutOfRange)
}

/// Why the server is away, if it is.
fn away(outcome: &Outcome<Consumed>) -> Option<String> {
    match outcome {
        Outcome::Unknown(doubt) => Some(doubt.why.clone()),
        Outcome::Refused(refusal) if is_away(refusal.code) => Some(refusal.message.clone()),
        _ => None,
    }
}

#[derive(Serialize)]
struct Json<'a> {
    partition: u32,
    offset: u64,
    timestamp_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_hex: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value_hex: Option<String>,
}

fn print(out: &mut dyn Write, format: Format, partition: u32, record: &Record) -> std::io::Result<()> {
    match format {
        Format::Text => out.write_all(&record.value)?,
        Format::Json => {
            fn text(bytes: &[u8]) -> Option<&str> {
                std::str::from_utf8(bytes).ok()
            }
            let json = Json {
                partition,
                offset: record.offset.get(),
                timestamp_ms: record.timestamp.get(),
                key: record.key.as_deref().and_then(text),
                key_hex: record.key.as_deref().filter(|k| text(k).is_none()).map(hex),
                value: text(&record.value),
                value_hex: text(&record.value).is_none().then(|| hex(&record.value)),
            };
            serde_json::to_writer(&mut *out, &json)?;
        }
    }
    out.write_all(b"\n")
}

/// Two digits a byte.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use broker::units::Timestamp;

    #[test]
    fn json_tells_no_key_from_an_empty_one_and_keeps_every_byte() {
        let json = |key: Option<&'static [u8]>, value: &'static [u8]| {
            let (offset, timestamp) = (Offset::new(7), Timestamp::from_millis(5));
            let record = Record { offset, timestamp, key: key.map(Into::into), value: value.into() };
            let mut out = Vec::new();
            print(&mut out, Format::Json, 1, &record).unwrap();
            String::from_utf8(out).unwrap()
        };
        let head = r#"{"partition":1,"offset":7,"timestamp_ms":5,"#;
        assert_eq!(json(None, b"v"), format!("{head}\"value\":\"v\"}}\n"));
        assert_eq!(json(Some(b""), b""), format!("{head}\"key\":\"\",\"value\":\"\"}}\n"));
        assert_eq!(
            json(Some(b"\xff"), b"\x00\xfe"),
            format!("{head}\"key_hex\":\"ff\",\"value_hex\":\"00fe\"}}\n")
        );
    }
}
