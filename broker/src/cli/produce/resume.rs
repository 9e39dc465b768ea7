//! Going on after a lost connection: which of the lines that were on their way are in the log?
//!
//! The records of one connection are appended in the order in which they were sent. So what a partition holds behind the
//! last acknowledged offset is, as long as nobody else appends, a part of what was sent, in that order.
//!
//! A line that is found is stored. That one is not found shows nothing as long as the server may still have it: received
//! and not appended, or appended and not shown, as under `always` until a sync ends. Two things show that it has not:
//!
//! - Nobody listened at its address meanwhile. Then the process that had the lines has ended, and the log shows what
//!   it has left. (Unless it was a proxy that was away, and not the server.)
//! - The time that any answer may take (`--timeout`) has passed since the connection was lost, and since the last line was
//!   found. This is a measure and no proof: a sync that takes longer than that, over a connection which something
//!   between has ended for us, leads to lines that are there twice. No request of the protocol tells of records that are not
//!   durable yet, so a client cannot know better.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::time::Duration;

use broker::client::{Connection, Consumed, Fetch, Outcome};
use broker::error::Code;
use broker::record::{NewRecord, Record};
use broker::topic::partition_of;
use broker::units::Offset;
use broker::wire::proto::{Earliest, ListOffsetsRequest, list_offsets_request::At, request, response};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout_at};

use super::input::{Batch, Line};
use super::{Args, try_connect};
use crate::cli::is_away;
use crate::cli::output::say;

/// Between two attempts.
pub const PAUSE: Duration = Duration::from_millis(100);

/// Looks for lines in the log.
pub struct LookUp<'a> {
    args: &'a Args,
    /// Those that are found are removed.
    sent: &'a mut VecDeque<Batch>,
    /// Where each partition is read on from.
    ends: &'a mut BTreeMap<u32, Offset>,
    /// The last line found in each partition: the next one is behind it.
    last: BTreeMap<u32, u64>,
    pub found: Vec<u64>,
    /// How long was looked, and waited, for lines to turn up: all that time, the server was there.
    pub waited: Duration,
    /// The server that had the lines has ended.
    has_ended: bool,
    /// What has not turned up by then will not.
    quiet_at: Instant,
    /// How long the server may be away, and until when. While it gives records, it is not: there may be many that others have appended.
    patience: Duration,
    late_at: Instant,
}

/// Why a partition could not be read to its end.
enum Missed {
    /// The server is not there, for the moment.
    Away,
    /// It has not been there for too long.
    Late,
    /// Nothing can be found out.
    For(String),
}

impl<'a> LookUp<'a> {
    /// The connection was lost just now.
    pub fn new(args: &'a Args, sent: &'a mut VecDeque<Batch>, ends: &'a mut BTreeMap<u32, Offset>) -> Self {
        let now = Instant::now();
        let (last, found, waited, has_ended) = (BTreeMap::new(), Vec::new(), Duration::ZERO, false);
        let (quiet_at, patience, late_at) = (now + args.server.timeout, Duration::ZERO, now);
        Self { args, sent, ends, last, found, waited, has_ended, quiet_at, patience, late_at }
    }

    /// From now on, the server may be away for as long as this.
    fn wait_up_to(&mut self, patience: Duration) {
        (self.patience, self.late_at) = (patience, Instant::now() + patience);
    }

    /// Finds out which lines are stored. Gives a new connection, or says why it cannot be found out. `patience` is how long
    /// the server may be away.
    pub async fn run(&mut self, patience: Duration, lost: &str) -> Result<Connection<TcpStream>, String> {
        self.wait_up_to(patience);
        let (mut connection, mut is_told) = (None, false);
        loop {
            let (begun, before) = (Instant::now(), self.waited);
            let done = self.pass(connection).await.map_err(|missed| match missed {
                Missed::For(why) => why,
                Missed::Away | Missed::Late => format!("the server did not come back in time: {lost}"),
            })?;
            if self.has_ended || begun >= self.quiet_at || self.left() == 0 {
                return Ok(done);
            }
            if !std::mem::replace(&mut is_told, true) {
                say(format_args!(
                    "{} of the lines in flight are not in the log; waiting {:?} for them, since the server may still be storing \
                     them",
                    self.left(),
                    self.args.server.timeout
                ));
            }
            sleep(PAUSE).await;
            self.waited = before + begun.elapsed();
            self.wait_up_to(self.args.retry.max(PAUSE));
            connection = Some(done);
        }
    }

    fn left(&self) -> usize {
        self.sent.iter().map(Batch::len).sum()
    }

    /// Reads every partition to its end, over this connection or a new one.
    async fn pass(
        &mut self,
        mut connection: Option<Connection<TcpStream>>,
    ) -> Result<Connection<TcpStream>, Missed> {
        loop {
            let mut current = match connection.take() {
                Some(connection) => connection,
                None => self.reach().await?,
            };
            match self.read_all(&mut current).await {
                Ok(()) => return Ok(current),
                Err(Missed::Away) => sleep(PAUSE).await,
                Err(missed) => return Err(missed),
            }
        }
    }

    /// Connects, as soon as that can be done.
    async fn reach(&mut self) -> Result<Connection<TcpStream>, Missed> {
        while Instant::now() < self.late_at {
            match timeout_at(self.late_at, try_connect(&self.args.server)).await {
                Ok(Ok(connection)) => return Ok(connection),
                Ok(Err(e)) => self.has_ended |= e.kind() == io::ErrorKind::ConnectionRefused,
                Err(_) => break,
            }
            sleep(PAUSE).await;
        }
        Err(Missed::Late)
    }

    async fn read_all(&mut self, connection: &mut Connection<TcpStream>) -> Result<(), Missed> {
        if self.left() == 0 {
            return Ok(());
        }
        for partition in self.partitions() {
            self.read(connection, partition).await?;
        }
        Ok(())
    }

    /// Those in which the lines can be: whatever is wrong with any other shows nothing of them.
    fn partitions(&self) -> BTreeSet<u32> {
        let all = || self.ends.keys().copied().collect();
        let count = u32::try_from(self.ends.len()).unwrap_or(u32::MAX);
        let of = |line: &Line| line.record.key.as_ref().map(|key| partition_of(key, count));
        match self.args.partition {
            Some(partition) => BTreeSet::from([partition]),
            // Without a key, any takes its turn.
            None => self.sent.iter().flatten().map(of).collect::<Option<_>>().unwrap_or_else(all),
        }
    }

    /// Reads what is new in a partition, up to where it ends at first: others may append faster than this reads.
    async fn read(&mut self, connection: &mut Connection<TcpStream>, partition: u32) -> Result<(), Missed> {
        let mut log_end = None;
        loop {
            let from = self.ends.get(&partition).copied().unwrap_or_default();
            let request = Fetch::from(from).request(&self.args.topic, partition);
            let asked = Instant::now();
            let outcome = self.ask(connection, request::Kind::Consume(request)).await?;
            if is_out_of_range(&outcome)
                && let Some(start) = self.start(connection, partition).await?.filter(|start| *start > from)
            {
                // What others have appended since is so much that retention has taken what lies between.
                self.ends.insert(partition, start);
                continue;
            }
            let consumed = consumed(outcome)?;
            for record in &consumed.records {
                self.take(partition, record);
                self.ends.insert(partition, record.offset.next());
            }
            if !consumed.records.is_empty() {
                self.waited += asked.elapsed();
                self.wait_up_to(self.patience);
            }
            let end = consumed.records.last().map_or(from, |last| last.offset.next());
            if end >= *log_end.get_or_insert(consumed.log_end) || consumed.records.is_empty() {
                return Ok(());
            }
        }
    }

    /// Where a partition starts, if the server says so.
    async fn start(
        &self,
        connection: &mut Connection<TcpStream>,
        partition: u32,
    ) -> Result<Option<Offset>, Missed> {
        let (topic, at) = (self.args.topic.clone(), Some(At::Earliest(Earliest {})));
        let request = request::Kind::ListOffsets(ListOffsetsRequest { topic, partition, at });
        Ok(match self.ask(connection, request).await? {
            Outcome::Acknowledged(response::Kind::ListOffsets(found)) => Some(Offset::new(found.offset)),
            _ => None,
        })
    }

    async fn ask(
        &self,
        connection: &mut Connection<TcpStream>,
        request: request::Kind,
    ) -> Result<Outcome<response::Kind>, Missed> {
        connection.send(&request.into());
        let until = self.late_at.min(Instant::now() + self.args.server.timeout);
        let answer = timeout_at(until, connection.receive()).await;
        let Ok(Ok(response)) = answer else { return Err(Missed::Away) };
        Ok(Outcome::of(response))
    }

    /// Takes the line that this record was, if it was one.
    fn take(&mut self, partition: u32, record: &Record) {
        let behind = self.last.get(&partition).copied().unwrap_or(0);
        let is_it = |new: &NewRecord| new.key == record.key && new.value == record.value;
        if let Some(line) = take(self.sent, behind, is_it) {
            self.last.insert(partition, line);
            self.found.push(line);
            self.quiet_at = Instant::now() + self.args.server.timeout;
        }
    }
}

fn is_out_of_range(outcome: &Outcome<response::Kind>) -> bool {
    matches!(outcome, Outcome::Refused(refusal) if refusal.code == Code::OffsetOutOfRange)
}

fn consumed(outcome: Outcome<response::Kind>) -> Result<Consumed, Missed> {
    match outcome {
        Outcome::Acknowledged(response::Kind::Consume(consumed)) => Ok(consumed.into()),
        Outcome::Refused(refusal) if is_away(refusal.code) => Err(Missed::Away),
        Outcome::Refused(refusal) if refusal.code == Code::OffsetOutOfRange => Err(Missed::For(format!(
            "{refusal}; acknowledged records are gone: a power loss may do that under --durability os and interval"
        ))),
        Outcome::Refused(refusal) => Err(Missed::For(refusal.to_string())),
        Outcome::Unknown(doubt) => Err(Missed::For(doubt.why)),
        Outcome::Acknowledged(_) => Err(Missed::For("the server's answer is not one to a consume".into())),
    }
}

/// Removes the first line behind number `behind` whose record is `wanted`, and gives its number.
fn take(sent: &mut VecDeque<Batch>, behind: u64, wanted: impl Fn(&NewRecord) -> bool) -> Option<u64> {
    for batch in sent {
        let from = batch.partition_point(|line| line.number <= behind);
        if let Some(ahead) = batch.range(from..).position(|line| wanted(&line.record)) {
            return batch.remove(from + ahead).map(|line| line.number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(batches: &[&[&'static str]]) -> VecDeque<Batch> {
        let mut number = 0;
        let mut line = |value: &&'static str| {
            number += 1;
            Line { number, record: NewRecord { key: None, value: (*value).into() } }
        };
        batches.iter().map(|batch| batch.iter().map(&mut line).collect()).collect()
    }

    fn left(mut sent: VecDeque<Batch>, found: &[&str]) -> Vec<String> {
        let mut behind = 0;
        for value in found {
            behind = take(&mut sent, behind, |r| r.value == *value).unwrap_or(behind);
        }
        let text = |line: &Line| String::from_utf8_lossy(&line.record.value).into_owned();
        sent.iter().flatten().map(text).collect()
    }

    #[test]
    fn what_is_in_the_log_is_taken_in_the_order_in_which_it_was_sent() {
        let lines: &[&[&str]] = &[&["a", "b"], &["a", "c", "a"]];
        assert_eq!(left(sent(lines), &[]), ["a", "b", "a", "c", "a"]);
        assert_eq!(left(sent(lines), &["a", "b", "a"]), ["c", "a"]);
        // One of several partitions.
        assert_eq!(left(sent(lines), &["b", "c"]), ["a", "a", "a"]);
        // What others appended between is not ours.
        assert_eq!(left(sent(lines), &["a", "x", "b"]), ["a", "c", "a"]);
    }
}
