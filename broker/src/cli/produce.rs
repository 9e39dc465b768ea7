//! `broker produce`.

use std::collections::VecDeque;
use std::io::{self, BufRead, IsTerminal};
use std::time::Duration;

use broker::client::{Connection, Failure, Outcome, Placed, Produced};
use broker::net::{Connector, TcpConnector};
use broker::record::NewRecord;
use broker::units::Offset;
use bytes::Bytes;
use std::collections::BTreeMap;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

use super::output::{Output, say};
use super::quantity::{self, count};
use super::resume;
use super::{Server, Stop, acknowledged, is_away};

/// A request holds lines up to about this many bytes.
const BATCH_BYTES: usize = 1 << 20;

/// Append records: one value, or each line of standard input
#[derive(Debug, clap::Args)]
#[command(after_help = "\
With VALUE, one record is appended, and its partition and offset are printed. Without it, every line of \
standard input is a record (without its line feed, otherwise byte for byte).

The key decides the partition: a key's records always go to the same one. Records without a key go to the \
partitions in turn.

If the connection is lost, or the server restarts, the lines that were not yet acknowledged are looked up in \
the log before the rest is sent, so that none is missing or duplicated. This is exact as long as nobody else \
appends the same lines at the same time, and the server has lost the connection too: behind a proxy that has \
dropped it, the server may still be storing what it received, and those lines can be there twice. A server \
that is silent may do so as well; so after --timeout it is waited for, and nothing is sent again.

When --retry runs out without another line acknowledged, the exit code is 1, and the last message says which \
lines were acknowledged and how to continue.

Examples:
  broker produce orders hello
  broker produce orders --key user-1 hello
  broker produce orders < lines.txt
  broker produce orders --key-separator : < lines.txt    # user-1:hello
  tail -f app.log | broker produce logs")]
pub struct Args {
    /// The topic
    pub topic: String,
    /// The record's value; without it, each line of standard input is a record
    value: Option<String>,
    /// The key of the record, or of all lines; it may be empty
    #[arg(long, conflicts_with = "key_separator")]
    key: Option<String>,
    /// Split each line at this text into key and value
    #[arg(long, value_name = "TEXT", conflicts_with = "value")]
    key_separator: Option<String>,
    /// Append to this partition, whatever the key
    #[arg(long, value_parser = quantity::number::<u32>)]
    pub partition: Option<u32>,
    /// At most this many lines in a request
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    batch: u32,
    /// At most this many requests in flight
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    in_flight: u32,
    /// Skip this many lines, to continue after a failure
    #[arg(long, value_name = "LINES", default_value_t = 0, conflicts_with = "value", value_parser = quantity::number::<u64>)]
    skip: u64,
    /// How long to try to go on after losing the connection, or to wait on after --timeout
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = quantity::duration)]
    pub retry: Duration,
    #[command(flatten)]
    pub server: Server,
}

pub async fn run(args: Args) -> Result<(), Stop> {
    let Some(value) = &args.value else { return Lines::new(&args).await?.run().await };
    let key = args.key.as_ref().map(|key| Bytes::from(key.clone()));
    let record = NewRecord { key, value: Bytes::from(value.clone()) };
    let outcome = args.server.client().produce(&args.topic, args.partition, record).await;
    let placed = match outcome {
        Outcome::Unknown(reason) => {
            return Err(Stop::Because(format!("it is unknown whether the record was stored: {reason}")));
        }
        outcome => acknowledged("the record was not stored", outcome)?,
    };
    let mut output = Output::new();
    output.line(format_args!("{}/{} offset {}", args.topic, placed.partition, placed.offset))?;
    output.flush()
}

/// Lines that were sent and not answered yet.
pub struct Sent {
    /// The number of the last of them, counting from 1.
    pub last_line: u64,
    pub records: Vec<NewRecord>,
}

/// The lines of standard input on their way.
struct Lines<'a> {
    args: &'a Args,
    input: mpsc::Receiver<Result<Sent, String>>,
    connection: Connection<TcpStream>,
    /// In the order in which they were sent.
    sent: VecDeque<Sent>,
    /// All lines up to this one were acknowledged (or left out).
    done: u64,
    /// Where each partition ends, by what was acknowledged: what lies behind is new.
    ends: BTreeMap<u32, Offset>,
    /// Since when the connection has been lost without a line acknowledged.
    lost_since: Option<Instant>,
}

impl<'a> Lines<'a> {
    async fn new(args: &'a Args) -> Result<Self, Stop> {
        let what = format!("cannot produce to {:?}", args.topic);
        let partitions = acknowledged(&what, args.server.client().partitions(&args.topic).await)?;
        if io::stdin().is_terminal() {
            say(format_args!("each line is a record; end with Ctrl-D"));
        }
        Ok(Self {
            args,
            input: read_lines(args),
            connection: connect(&args.server).await?,
            sent: VecDeque::new(),
            done: args.skip,
            ends: partitions.into_iter().map(|p| (p.number, p.log_end)).collect(),
            lost_since: None,
        })
    }

    async fn run(mut self) -> Result<(), Stop> {
        let mut ended = false;
        while !(ended && self.sent.is_empty()) {
            let room = !ended && self.sent.len() < self.args.in_flight as usize;
            tokio::select! {
                biased;
                lines = self.input.recv(), if room => match lines {
                    Some(Ok(lines)) => self.send(lines),
                    Some(Err(why)) => return Err(self.give_up(&why)),
                    None => ended = true,
                },
                answer = timeout(self.args.server.timeout, self.connection.receive_produced()), if !self.sent.is_empty() => {
                    let answer = match answer {
                        Ok(answer) => answer,
                        Err(_) => self.wait_on().await?,
                    };
                    match answer {
                        Ok(answer) => self.answered(answer).await?,
                        // It goes on behind what cannot be understood, and what it does is not known.
                        Err(e) if e.kind() == io::ErrorKind::InvalidData => {
                            return Err(self.give_up(&format!("an answer cannot be understood: {e}")));
                        }
                        Err(e) => self.resume(&e.to_string()).await?,
                    }
                }
            }
        }
        say(format_args!("{} acknowledged", count(self.done - self.args.skip, "line")));
        Ok(())
    }

    fn send(&mut self, lines: Sent) {
        let records = lines.records.iter().map(|r| (r.key.as_deref(), &r.value[..]));
        self.connection.send_produce(&self.args.topic, self.args.partition, records);
        self.sent.push_back(lines);
    }

    /// The server is silent, and may yet store what it has received: to send that again elsewhere could store it twice.
    async fn wait_on(&mut self) -> Result<io::Result<Produced>, Stop> {
        let (limit, retry) = (self.args.server.timeout, self.args.retry);
        say(format_args!(
            "no answer within {limit:?}; waiting {retry:?} more, since the server may still store the lines"
        ));
        match timeout(retry, self.connection.receive_produced()).await {
            Ok(answer) => Ok(answer),
            Err(_) => {
                let why = format!("no answer within {:?}", limit.saturating_add(retry));
                Err(self.give_up(&why))
            }
        }
    }

    /// Takes the answer to the oldest lines.
    async fn answered(&mut self, answer: Produced) -> Result<(), Stop> {
        let Some(mut lines) = self.sent.pop_front() else {
            return Err(Stop::Because("the server sent an answer to nothing".into()));
        };
        let outcomes = answer.outcomes(lines.records.len());
        let mut failed = None;
        let mut refused = Vec::new();
        for (record, outcome) in std::mem::take(&mut lines.records).into_iter().zip(outcomes) {
            match outcome.into_result() {
                Ok(Placed { partition, offset }) => {
                    let end = self.ends.entry(partition).or_default();
                    *end = (*end).max(offset.next());
                    self.lost_since = None;
                }
                Err(Failure::Refused(refusal)) if is_away(refusal.code) => refused.push((record, refusal)),
                Err(failure) => failed = failed.or(Some(failure)),
            }
        }
        if let Some(failure) = failed {
            return Err(self.give_up(&self.not_stored(&failure, lines.last_line)));
        }
        let Some((_, refusal)) = refused.last() else {
            self.done = lines.last_line;
            return Ok(());
        };
        // It stops, or has ended this connection: as if the connection had been lost before they were sent.
        let why = refusal.message.clone();
        lines.records = refused.into_iter().map(|(record, _)| record).collect();
        self.sent.push_front(lines);
        self.resume(&why).await
    }

    /// Says what is known of the lines up to `last` that are not done.
    fn not_stored(&self, failure: &Failure, last: u64) -> String {
        let first = self.done + 1;
        let range = format!("lines {first} to {last}");
        match failure {
            Failure::Refused(refusal) if first == last => format!("line {last} was refused: {refusal}"),
            Failure::Refused(refusal) => format!("{range} were refused, some or all of them: {refusal}"),
            Failure::Unknown(reason) => format!("{range}: {reason}"),
        }
    }

    /// The connection was lost: looks up what was stored, and sends the rest again.
    async fn resume(&mut self, lost: &str) -> Result<(), Stop> {
        if self.lost_since.is_some() {
            // Again, and nothing came of it.
            sleep(resume::PAUSE).await;
        }
        let since = *self.lost_since.get_or_insert_with(Instant::now);
        let left = self.args.retry.saturating_sub(since.elapsed());
        let unknown: usize = self.sent.iter().map(|lines| lines.records.len()).sum();
        say(format_args!(
            "the connection was lost ({lost}) with {} acknowledged and {unknown} in flight; \
             trying to reconnect for {:?}",
            count(self.done - self.args.skip, "line"),
            self.args.retry
        ));
        let resumed = resume::look_up(self.args, &mut self.sent, &mut self.ends);
        let (connection, found) = match timeout(left, resumed).await {
            Ok(Ok(resumed)) => resumed,
            Ok(Err(Stop::Because(why))) => return Err(self.give_up(&why)),
            Ok(Err(stop)) => return Err(stop),
            Err(_) => return Err(self.give_up(&format!("the server did not come back in time: {lost}"))),
        };
        say(format_args!("reconnected: of the lines in flight, {found} of {unknown} are in the log"));
        if found > 0 {
            self.lost_since = None;
        }
        self.connection = connection;
        for lines in std::mem::take(&mut self.sent) {
            self.send_again(lines);
        }
        Ok(())
    }

    /// Sends what is left of these lines. Where nothing is, they are done as soon as those before them are.
    fn send_again(&mut self, lines: Sent) {
        match self.sent.back_mut() {
            _ if !lines.records.is_empty() => self.send(lines),
            Some(before) => before.last_line = lines.last_line,
            None => self.done = lines.last_line,
        }
    }

    /// Says what is known of each line.
    fn give_up(&self, why: &str) -> Stop {
        let after: usize = self.sent.iter().map(|lines| lines.records.len()).sum();
        let behind = match after {
            0 => String::new(),
            n => format!("\n  {} sent after them, with unknown outcome", count(n as u64, "line")),
        };
        let done = self.done;
        if done == self.args.skip {
            return Stop::Because(format!("{why}\n  no line acknowledged{behind}"));
        }
        Stop::Because(format!(
            "{why}\n  {} acknowledged, the last of them line {done}{behind}\n  \
             to continue after line {done}: --skip {done}, with the same input",
            count(done - self.args.skip, "line")
        ))
    }
}

/// Connects for a pipeline.
pub async fn connect(server: &Server) -> Result<Connection<TcpStream>, Stop> {
    let options = server.options();
    let stream = match timeout(options.connect_timeout, TcpConnector.connect(&server.addr)).await {
        Ok(stream) => stream.map_err(|e| format!("cannot connect to {}: {e}", server.addr))?,
        Err(_) => return Err(Stop::Because(format!("cannot connect to {}: no answer", server.addr))),
    };
    Ok(Connection::new(stream, options.frame_bytes))
}

/// Reads lines on a thread of its own, since standard input can only be waited for by blocking.
fn read_lines(args: &Args) -> mpsc::Receiver<Result<Sent, String>> {
    let (sender, receiver) = mpsc::channel(2);
    let key = args.key.as_ref().map(|key| Bytes::from(key.clone()));
    let separator = args.key_separator.clone();
    let (batch, skip) = (args.batch as usize, args.skip);
    std::thread::spawn(move || {
        let mut input = io::BufReader::with_capacity(256 << 10, io::stdin().lock());
        let mut reader = Reader { key, separator, line: 0, batch, skip };
        // Ends when the input does, or when nobody wants it any more.
        while let Some(read) = reader.next(&mut input).transpose() {
            let failed = read.is_err();
            if sender.blocking_send(read).is_err() || failed {
                break;
            }
        }
    });
    receiver
}

/// Makes records of lines.
struct Reader {
    key: Option<Bytes>,
    separator: Option<String>,
    /// The number of the last line read, counting from 1.
    line: u64,
    batch: usize,
    skip: u64,
}

impl Reader {
    /// The next lines: as many as are there, up to a full batch. A person who types does not wait for a thousand lines.
    fn next(&mut self, input: &mut io::BufReader<impl io::Read>) -> Result<Option<Sent>, String> {
        let mut records = Vec::new();
        let mut bytes = 0;
        while records.len() < self.batch && bytes < BATCH_BYTES {
            if !records.is_empty() && !input.buffer().contains(&b'\n') {
                break;
            }
            let mut line = Vec::new();
            let n = input.read_until(b'\n', &mut line).map_err(|e| format!("cannot read the input: {e}"))?;
            if n == 0 {
                break;
            }
            self.line += 1;
            if self.line <= self.skip {
                continue;
            }
            line.pop_if(|last| *last == b'\n');
            bytes += line.len();
            records.push(self.record(line)?);
        }
        Ok((!records.is_empty()).then_some(Sent { last_line: self.line, records }))
    }

    fn record(&self, line: Vec<u8>) -> Result<NewRecord, String> {
        let line = Bytes::from(line);
        let Some(separator) = &self.separator else {
            return Ok(NewRecord { key: self.key.clone(), value: line });
        };
        let at = line.windows(separator.len().max(1)).position(|w| w == separator.as_bytes());
        let at =
            at.ok_or_else(|| format!("line {} has no {separator:?} between key and value", self.line))?;
        Ok(NewRecord { key: Some(line.slice(..at)), value: line.slice(at + separator.len()..) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(
        text: &str,
        separator: Option<&str>,
        batch: usize,
        skip: u64,
    ) -> Result<Vec<(u64, Vec<NewRecord>)>, String> {
        let mut reader = Reader { key: None, separator: separator.map(str::to_owned), line: 0, batch, skip };
        let mut input = io::BufReader::new(text.as_bytes());
        let mut all = Vec::new();
        while let Some(sent) = reader.next(&mut input)? {
            all.push((sent.last_line, sent.records));
        }
        Ok(all)
    }

    fn value(value: &'static str) -> NewRecord {
        NewRecord { key: None, value: value.into() }
    }

    #[test]
    fn each_line_is_a_record_byte_for_byte() {
        let all = read("a\r\n\n b", None, 2, 0).unwrap();
        assert_eq!(all, [(2, vec![value("a\r"), value("")]), (3, vec![value(" b")])]);
        assert_eq!(read("", None, 2, 0).unwrap(), []);
    }

    #[test]
    fn skipped_lines_are_counted() {
        assert_eq!(
            read("a\nb\nc\nd\n", None, 2, 1).unwrap(),
            [(3, vec![value("b"), value("c")]), (4, vec![value("d")])]
        );
        assert_eq!(read("a\n", None, 2, 5).unwrap(), []);
    }

    #[test]
    fn a_separator_splits_once() {
        let record =
            |key: &'static str, value: &'static str| NewRecord { key: Some(key.into()), value: value.into() };
        let all = read("k::v::w\n::\n", Some("::"), 9, 0).unwrap();
        assert_eq!(all, [(2, vec![record("k", "v::w"), record("", "")])]);
        assert_eq!(
            read("a::b\nno\n", Some("::"), 1, 0).unwrap_err(),
            "line 2 has no \"::\" between key and value"
        );
    }
}
