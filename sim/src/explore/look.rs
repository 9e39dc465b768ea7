//! The oracle's questions, asked of a broker that was opened on an image: the same as in a run, but without a network.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use broker::disk::Disk;
use broker::error::Error;
use broker::partition::Partition;
use broker::record;
use broker::units::{Offset, Timestamp};
use broker::{Broker, error::Code};

use crate::trace::{Answer, At, CallId, Entry, Event, Request, Seen};

/// At most so many times are asked about in each partition.
const TIMES: usize = 8;
/// The bytes of one read.
const READ_BYTES: usize = 1 << 20;

/// Asks, and writes questions and answers down.
pub struct Asker<'a> {
    /// Where they are written.
    pub entries: &'a mut Vec<Entry>,
    /// The simulated time of all of it.
    pub at: u64,
    /// The number of the next question.
    pub next_call: u32,
}

impl Asker<'_> {
    /// Asks every partition of these topics for its range, its records, and some times.
    pub fn look<D: Disk>(&mut self, broker: &Broker<D>, topics: &BTreeMap<Arc<str>, u32>) {
        for (topic, count) in topics {
            for number in 0..*count {
                let partition = broker.topic(topic).and_then(|t| t.partition(number).cloned());
                let earliest = Request::Offsets { topic: topic.clone(), partition: number, at: At::Earliest };
                match partition {
                    Ok(partition) => self.partition(topic, number, &partition, earliest),
                    Err(e) => self.note(earliest, refused(&e)),
                }
            }
        }
    }

    fn partition<D: Disk>(
        &mut self,
        topic: &Arc<str>,
        number: u32,
        partition: &Partition<D>,
        earliest: Request,
    ) {
        let range = partition.range();
        self.note(earliest, Answer::Offset(Some((range.start.get(), 0))));
        let (mut next, mut times) = (range.start, BTreeSet::new());
        loop {
            let from = next;
            let request = Request::Consume {
                topic: topic.clone(),
                partition: number,
                from: from.get(),
                max_bytes: u32::try_from(READ_BYTES).unwrap_or(u32::MAX),
                wait_ms: 0,
            };
            let answer = match partition.read(from, READ_BYTES) {
                Ok(fetched) => {
                    next = fetched.next;
                    let records = seen(&fetched.bytes);
                    times.extend(records.iter().map(|r| r.timestamp));
                    let range = fetched.range;
                    Answer::Fetched { records, start: range.start.get(), end: range.end.get() }
                }
                Err(e) => {
                    next = from.next();
                    refused(&e)
                }
            };
            self.note(request, answer);
            if next >= range.end || next == from {
                break;
            }
        }
        for time in asked_times(&times) {
            let request = Request::Offsets { topic: topic.clone(), partition: number, at: At::Time(time) };
            let answer = match partition.first_at_or_after(Timestamp::from_millis(time)) {
                Ok(found) => Answer::Offset(found.map(|(offset, at)| (offset.get(), at.get()))),
                Err(e) => refused(&e),
            };
            self.note(request, answer);
        }
    }

    fn note(&mut self, request: Request, answer: Answer) {
        let id = CallId(self.next_call);
        self.next_call += 1;
        let client = "oracle".into();
        self.entries.push(Entry { at: self.at, event: Event::Call { id, client, request, probe: true } });
        self.entries.push(Entry { at: self.at, event: Event::Answer { id, answer } });
    }
}

fn seen(log: &bytes::Bytes) -> Vec<Seen> {
    let (mut records, mut at) = (Vec::new(), 0);
    while let Ok(found) = record::decode(&log[at..], u32::MAX) {
        records.push(Seen {
            offset: found.offset.get(),
            timestamp: found.timestamp.get(),
            key: found.key.map(|key| log.slice_ref(key)),
            value: log.slice_ref(found.value),
        });
        at += found.len();
    }
    records
}

fn refused(error: &Error) -> Answer {
    let code = error.code();
    let offset = match error {
        Error::Corrupt { offset, .. } if code == Code::Corrupt => Some(Offset::get(*offset)),
        _ => None,
    };
    Answer::Refused { code, message: error.to_string(), offset }
}

/// Before the first time, on some, between them, and after the last.
fn asked_times(times: &BTreeSet<u64>) -> BTreeSet<u64> {
    let all: Vec<u64> = times.iter().copied().collect();
    let (Some(first), Some(last)) = (all.first(), all.last()) else { return BTreeSet::from([0]) };
    let step = all.len().div_ceil(TIMES / 2).max(1);
    let some = all.iter().step_by(step).flat_map(|t| [*t, t.saturating_add(1)]);
    some.chain([first.saturating_sub(1), *last, last.saturating_add(1)]).collect()
}
