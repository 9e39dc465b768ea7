//! Steps that read: one fetch, or fetches up to the end of a partition or of a topic, and what had to come of them.

use std::collections::VecDeque;

use super::actor::{Actor, fits};
use super::came::why;
use super::pipe::Answered;
use super::{ask, say};
use crate::scenario::{Consume, Content};
use crate::trace::{Answer, At, Request, Seen};

/// What a consume asks for at once, where the scenario does not say.
const MAX_BYTES: u32 = 1 << 20;

/// One fetch, as the scenario has it.
pub(super) fn fetch(consume: &Consume) -> Request {
    fetch_from(consume, consume.partition.unwrap_or(0), consume.from.unwrap_or(0))
}

fn fetch_from(consume: &Consume, partition: u32, from: u64) -> Request {
    Request::Consume {
        topic: ask::name(&consume.topic),
        partition,
        from,
        max_bytes: consume.max_bytes.unwrap_or(MAX_BYTES),
        wait_ms: consume.wait.map_or(0, |wait| u32::try_from(ask::millis(wait)).unwrap_or(u32::MAX)),
    }
}

/// One answer to one fetch.
pub(super) fn fetched(actor: &Actor, id: u32, consume: &Consume, (answer, crash): Answered) {
    let read = match &answer {
        Answer::Fetched { records, start, end } => {
            let until = consume.until.unwrap_or(u64::MAX);
            let records = records.iter().filter(|r| r.offset < until).cloned().collect();
            Read { records, start: Some(*start), end: Some(*end), answer: None, crash }
        }
        _ => Read { answer: Some(answer), crash, ..Read::default() },
    };
    read.came(actor, id, consume);
}

/// What a consume has read.
#[derive(Default)]
struct Read {
    records: Vec<Seen>,
    /// The log's start, where an answer said it.
    start: Option<u64>,
    /// The log's end; none where an error came first.
    end: Option<u64>,
    /// The answer that ended it, where that was no records.
    answer: Option<Answer>,
    crash: Option<String>,
}

/// Requests until the end.
pub(super) async fn read_all(actor: &mut Actor, id: u32, consume: &Consume) {
    let read = match consume.partition {
        Some(partition) => read_partition(actor, consume, partition).await,
        None => read_topic(actor, consume).await,
    };
    read.came(actor, id, consume);
}

/// All partitions, merged as `broker consume` merges them.
async fn read_topic(actor: &Actor, consume: &Consume) -> Read {
    let (answer, crash) = actor.ask(Request::ListPartitions { topic: ask::name(&consume.topic) }).await;
    let Answer::Partitions(partitions) = answer else {
        return Read { answer: Some(answer), crash, ..Read::default() };
    };
    let mut all = Read { end: Some(0), ..Read::default() };
    let mut logs = Vec::new();
    for partition in partitions {
        let read = read_partition(actor, consume, partition.number).await;
        logs.push(VecDeque::from(read.records));
        all.end = all.end.zip(read.end).map(|(sum, end)| sum + end);
        all.answer = all.answer.or(read.answer);
        all.crash = all.crash.or(read.crash);
    }
    all.records = merged(logs);
    all
}

/// Always the earliest of the records that come next in their logs: where the clock ran backwards, the order within a log
/// is not that of its times, and it is the one that clients rely on.
fn merged(mut logs: Vec<VecDeque<Seen>>) -> Vec<Seen> {
    let mut records = Vec::new();
    loop {
        logs.retain(|log| !log.is_empty());
        let next = logs.iter_mut().min_by_key(|log| log.front().map(|record| record.timestamp));
        match next.and_then(VecDeque::pop_front) {
            Some(record) => records.push(record),
            None => return records,
        }
    }
}

async fn read_partition(actor: &Actor, consume: &Consume, partition: u32) -> Read {
    let mut read = Read::default();
    let mut from = match consume.from {
        Some(from) => from,
        None => {
            let topic = ask::name(&consume.topic);
            match actor.ask(Request::Offsets { topic, partition, at: At::Earliest }).await {
                (Answer::Offset(Some((start, _))), _) => start,
                (answer, crash) => return Read { answer: Some(answer), crash, ..Read::default() },
            }
        }
    };
    loop {
        let (answer, crash) = actor.ask(fetch_from(consume, partition, from)).await;
        let Answer::Fetched { records, start, end } = answer else {
            (read.end, read.answer, read.crash) = (None, Some(answer), crash);
            return read;
        };
        (read.start, read.end) = (Some(start), Some(end));
        let until = consume.until.unwrap_or(u64::MAX).min(end);
        let none = records.is_empty();
        from = records.last().map_or(from, |r| r.offset + 1);
        read.records.extend(records.into_iter().filter(|r| r.offset < until));
        if from >= until || none {
            return read;
        }
    }
}

impl Read {
    fn came(&self, actor: &Actor, id: u32, consume: &Consume) {
        let ending = match &self.answer {
            Some(answer) => say::trouble(answer, self.crash.as_deref()).unwrap_or_default(),
            None => format!("end {}", self.end.unwrap_or(0)),
        };
        let said = say::records(&self.records, &ending);
        let answer = self.answer.clone().unwrap_or(Answer::Done);
        let came = fits(consume.expect, &answer);
        if !came {
            actor.unmet(id, consume.expect.to_string(), why(&actor.stage, &answer, &said));
        }
        // Of an answer that is not the one that had to come, nothing more is expected.
        if came {
            self.numbers(actor, id, consume);
            self.values(actor, id, consume);
        }
        let (expected, found) = ((consume.expect, consume.expect_count), (&self.records[..], self.end));
        let certain = actor.stage.races.read(&consume.topic, expected, found, said.clone());
        actor.say_if(id, certain, said);
    }

    fn numbers(&self, actor: &Actor, id: u32, consume: &Consume) {
        let check = |what: &str, expected: Option<u64>, found: Option<u64>| {
            if let Some(expected) = expected.filter(|expected| found != Some(*expected)) {
                let found = found.map_or_else(|| "no answer that says it".to_owned(), |n| n.to_string());
                actor.unmet(id, format!("{what} {expected}"), found);
            }
        };
        check("records:", consume.expect_count, Some(self.records.len() as u64));
        check("start", consume.expect_start, self.start);
        check("end", consume.expect_end, self.end);
    }

    /// Of no record, no value is the right one: a read that finds nothing must not pass for one that found it.
    fn values(&self, actor: &Actor, id: u32, consume: &Consume) {
        let Some(content) = &consume.expect_value else { return };
        let size = if let Content::Size(size) = content { Some(*size) } else { None };
        let fits = |n: u64, value: &[u8]| match size {
            Some(size) => value.len() as u64 == size,
            None => content.bytes(n, actor.round) == value,
        };
        let unmet = |n: u64, found: String| {
            let expected = match size {
                Some(size) => format!("value of {size} bytes"),
                None => format!("value {}", say::bytes(&content.bytes(n, actor.round))),
            };
            actor.unmet(id, expected, found);
        };
        if self.records.is_empty() {
            return unmet(0, "no record was read".to_owned());
        }
        let wrong = (0..).zip(&self.records).find(|(n, record)| !fits(*n, &record.value));
        if let Some((n, record)) = wrong {
            let found = say::bytes(&record.value);
            unmet(n, if size.is_some() { format!("{} bytes: {found}", record.value.len()) } else { found });
        }
    }
}
