//! What clients were told, and what became of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{State, States};
use crate::trace::{Answer, CallId, Event, Placed, Recovered, Request, Seen, Sent, TopicPartition};
use broker::error::Code;

struct Call {
    client: Arc<str>,
    request: Request,
    probe: bool,
}

/// A record whose produce had no answer.
struct Unknown {
    topic: Arc<str>,
    record: Sent,
    found: bool,
}

/// What clients know so far.
#[derive(Default)]
pub(super) struct Clients {
    calls: BTreeMap<CallId, Call>,
    acknowledged: BTreeMap<TopicPartition, BTreeSet<u64>>,
    unknown: Vec<Unknown>,
    was_full: bool,
    lost: bool,
}

impl Clients {
    /// Whether a client, and not the oracle, waits for an answer.
    pub(super) fn in_flight(&self) -> bool {
        self.calls.values().any(|call| !call.probe)
    }

    /// Whether records that were acknowledged before the last start were no longer there after it.
    pub(super) fn lost(&self) -> bool {
        self.lost
    }

    pub(super) fn saw(&mut self, event: &Event, states: &mut States) {
        match event {
            Event::Call { id, client, request, probe } => self.asked(*id, client, request, *probe, states),
            Event::Answer { id, answer } => {
                if let Some(call) = self.calls.remove(id) {
                    self.answered(&call, answer, states);
                }
            }
            Event::Started { partitions, .. } => self.started(partitions),
            Event::Ended => {
                states.add_if(State::UnknownAbsent, self.unknown.iter().any(|record| !record.found));
            }
            _ => {}
        }
    }

    fn started(&mut self, found: &[Recovered]) {
        self.lost = false;
        for partition in found {
            if let Some(known) = self.acknowledged.get_mut(&(partition.topic.clone(), partition.partition)) {
                self.lost |= !known.split_off(&partition.end).is_empty();
            }
        }
    }

    fn asked(&mut self, id: CallId, client: &Arc<str>, request: &Request, probe: bool, states: &mut States) {
        if !probe {
            let others = self.calls.values().filter(|call| !call.probe);
            let (same, other) = others.fold((false, false), |(same, other), call| {
                (same || call.client == *client, other || call.client != *client)
            });
            states.add_if(State::Pipelined, same);
            states.add_if(State::Concurrent, other);
        }
        self.calls.insert(id, Call { client: client.clone(), request: request.clone(), probe });
    }

    fn answered(&mut self, call: &Call, answer: &Answer, states: &mut States) {
        match (&call.request, answer) {
            (Request::Produce { topic, records, .. }, Answer::Produced(placed)) => {
                self.produced(topic, records, placed, call.probe, states);
            }
            (Request::Produce { topic, records, .. }, Answer::Lost { sent: true, .. }) => {
                states.add(State::Lost);
                let unknown =
                    |record: &Sent| Unknown { topic: topic.clone(), record: record.clone(), found: false };
                self.unknown.extend(records.iter().map(unknown));
            }
            (Request::Produce { .. }, Answer::Refused { code, .. }) => self.refused(*code, states),
            (Request::Consume { topic, partition, .. }, Answer::Fetched { records, .. }) => {
                self.read(topic, *partition, records, states);
            }
            (Request::DeleteTopic { topic }, Answer::Done) => {
                states.add(State::TopicDeleted);
                self.acknowledged.retain(|(name, _), _| name != topic);
            }
            (_, Answer::Refused { code: Code::Corrupt, .. }) => states.add(State::Corrupt),
            (_, Answer::Lost { .. }) => states.add(State::Lost),
            _ => {}
        }
    }

    fn produced(
        &mut self,
        topic: &Arc<str>,
        records: &[Sent],
        placed: &[Placed],
        probe: bool,
        states: &mut States,
    ) {
        let mut partitions = BTreeSet::new();
        for (record, placed) in records.iter().zip(placed) {
            match placed {
                Placed::At(partition, offset) => {
                    partitions.insert(*partition);
                    states.add_if(State::FullThenRoom, self.was_full && !probe);
                    self.acknowledged.entry((topic.clone(), *partition)).or_default().insert(*offset);
                }
                Placed::Refused(code) => self.refused(*code, states),
                Placed::Unknown => {
                    self.unknown.push(Unknown { topic: topic.clone(), record: record.clone(), found: false });
                }
            }
        }
        states.add_if(State::Batch, partitions.len() > 1);
    }

    fn refused(&mut self, code: Code, states: &mut States) {
        match code {
            Code::StorageFull => {
                self.was_full = true;
                states.add(State::Full);
            }
            Code::StorageFailed => states.add(State::StorageFailed),
            Code::Fenced => states.add(State::Fenced),
            _ => {}
        }
    }

    fn read(&mut self, topic: &Arc<str>, partition: u32, records: &[Seen], states: &mut States) {
        states.add_if(State::ClockBack, records.windows(2).any(|pair| pair[0].timestamp > pair[1].timestamp));
        if self.unknown.is_empty() {
            return;
        }
        let place = (topic.clone(), partition);
        let known = self.acknowledged.get(&place);
        for record in records.iter().filter(|r| known.is_none_or(|known| !known.contains(&r.offset))) {
            let like = |unknown: &&mut Unknown| {
                unknown.topic == *topic
                    && unknown.record.key == record.key
                    && unknown.record.value == record.value
            };
            if let Some(unknown) = self.unknown.iter_mut().find(like) {
                unknown.found = true;
                states.add(State::UnknownStored);
            }
        }
    }
}
