//! Going on after a lost connection: which of the lines that were on their way are in the log?
//!
//! The records of one connection are appended in the order in which they were sent. So what a partition holds behind the
//! last acknowledged offset is, as long as nobody else appends, a part of what was sent, in that order.
//!
//! That holds when the server has done with the old connection: it says so by closing it. Behind one that is silent it may
//! still store what it has received, or have stored it without showing it yet, as under `always` while a sync takes long;
//! so a silent one is waited for and not given up for another (see `produce`). What nobody can see from here is a
//! connection that something in between has ended for us alone.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use broker::client::{Client, Connection, Fetch, Outcome};
use broker::error::Code;
use broker::net::TcpConnector;
use broker::units::Offset;
use tokio::net::TcpStream;
use tokio::time::sleep;

use super::produce::{self, Args, Sent};
use super::{Stop, is_away};

/// Between two attempts.
pub const PAUSE: Duration = Duration::from_millis(100);

/// Connects again, removes the records from `sent` that are in the log, and moves `ends` behind them. Gives the new
/// connection, and how many were found. Tries for as long as it is let.
pub async fn look_up(
    args: &Args,
    sent: &mut VecDeque<Sent>,
    ends: &mut BTreeMap<u32, Offset>,
) -> Result<(Connection<TcpStream>, usize), Stop> {
    let client = args.server.client();
    let mut found = 0;
    let partitions: Vec<u32> = match args.partition {
        Some(partition) => vec![partition],
        None => ends.keys().copied().collect(),
    };
    for partition in partitions {
        found += look_into(args, &client, partition, sent, ends).await?;
    }
    // A server that has hardly any connections left may not have two for us.
    drop(client);
    loop {
        if let Ok(connection) = produce::connect(&args.server).await {
            return Ok((connection, found));
        }
        sleep(PAUSE).await;
    }
}

async fn look_into(
    args: &Args,
    client: &Client<TcpConnector>,
    partition: u32,
    sent: &mut VecDeque<Sent>,
    ends: &mut BTreeMap<u32, Offset>,
) -> Result<usize, Stop> {
    let mut found = 0;
    // The next record sits behind the last one found: (lines, record).
    let mut at = (0, 0);
    loop {
        let end = ends.entry(partition).or_default();
        let consumed = match client.consume(&args.topic, partition, Fetch::from(*end)).await {
            Outcome::Acknowledged(consumed) => consumed,
            Outcome::Refused(refusal) if refusal.code == Code::OffsetOutOfRange => {
                return Err(Stop::Because(format!(
                    "{refusal}\n  acknowledged records are gone: a power loss may do that under --durability os and interval, and so does \
                     retention"
                )));
            }
            Outcome::Refused(refusal) if !is_away(refusal.code) => {
                return Err(Stop::Because(refusal.to_string()));
            }
            Outcome::Refused(_) | Outcome::Unknown(_) => {
                sleep(PAUSE).await;
                continue;
            }
        };
        for record in &consumed.records {
            if take(sent, &mut at, |sent| sent.key == record.key && sent.value == record.value) {
                found += 1;
            }
            *end = record.offset.next();
        }
        if *end >= consumed.log_end || consumed.records.is_empty() {
            return Ok(found);
        }
    }
}

/// Removes the first record from `at` on that is `wanted`; `at` is then where it was.
fn take(
    sent: &mut VecDeque<Sent>,
    at: &mut (usize, usize),
    wanted: impl Fn(&broker::record::NewRecord) -> bool,
) -> bool {
    let (first, record) = *at;
    for (i, lines) in sent.iter_mut().enumerate().skip(first) {
        let from = if i == first { record } else { 0 };
        if let Some(ahead) = lines.records[from..].iter().position(&wanted) {
            lines.records.remove(from + ahead);
            *at = (i, from + ahead);
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use broker::record::NewRecord;

    fn sent(batches: &[&[&'static str]]) -> VecDeque<Sent> {
        let record = |value: &&'static str| NewRecord { key: None, value: (*value).into() };
        batches.iter().map(|b| Sent { last_line: 0, records: b.iter().map(record).collect() }).collect()
    }

    fn left(mut sent: VecDeque<Sent>, found: &[&str]) -> Vec<String> {
        let mut at = (0, 0);
        for value in found {
            take(&mut sent, &mut at, |r| r.value == *value);
        }
        let text = |r: &NewRecord| String::from_utf8_lossy(&r.value).into_owned();
        sent.iter().flat_map(|s| s.records.iter().map(text)).collect()
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
