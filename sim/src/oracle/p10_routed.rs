//! P10: same key, same partition, across restarts; per-key order is append order; round robin is even within one.
//!
//! Append order is the order in which one client sends, and of several clients that of an answer and a request after it.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use fnv::FnvHashMap;

use super::look::{name, show};
use super::model::{Model, RecordId};
use super::{Findings, Promise};

/// The partition of a key: 32-bit FNV-1a, modulo the number of partitions.
pub fn partition_of(key: &[u8], partitions: u32) -> u32 {
    let hash =
        key.iter().fold(0x811c_9dc5u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
    hash % partitions.max(1)
}

/// A client, a topic, and a partition of it.
type FromTo = (Arc<str>, Arc<str>, u32);

/// What routing was seen to do.
#[derive(Clone, Debug, Default)]
pub(super) struct Routing {
    /// The latest acknowledged record of a key: the entry of its answer, its offset.
    latest: FnvHashMap<(Arc<str>, Bytes), (usize, u64)>,
    /// By client, topic and partition, the latest of its acknowledged records in the order of its calls.
    in_turn: BTreeMap<FromTo, (RecordId, u64)>,
    /// Records without a key by topic: how many went to each partition, and of how many it is not known.
    turns: BTreeMap<Arc<str>, (Vec<u64>, u64)>,
}

impl Routing {
    /// The broker begins anew: its round robin may begin anywhere, and a power loss may have taken offsets back.
    pub(super) fn restarted(&mut self) {
        self.latest.clear();
        self.in_turn.clear();
        self.turns.clear();
    }

    /// Another topic has this name now.
    pub(super) fn forget(&mut self, topic: &Arc<str>) {
        self.latest.retain(|(of, _), _| of != topic);
        self.in_turn.retain(|(_, of, _), _| of != topic);
        self.turns.remove(topic);
    }

    /// A record without a key and without a partition was not acknowledged: it may have taken a turn.
    pub(super) fn unclear(&mut self, topic: &Arc<str>) {
        self.turns.entry(topic.clone()).or_default().1 += 1;
    }

    /// A record was acknowledged.
    pub(super) fn acknowledged(
        &mut self,
        f: &mut Findings,
        model: &Model,
        topic: &Arc<str>,
        (partition, offset): (u32, u64),
        id: RecordId,
    ) {
        let produced = &model.produced[&id.call];
        let Some(count) = model.topics.get(topic).map(|t| t.partitions.len()) else { return };
        if partition as usize >= count {
            let expected = format!("one of the partitions 0 to {}", count.saturating_sub(1));
            return misrouted(f, model, "no such partition", (topic, partition), id, expected);
        }
        self.in_order_of_calls(f, model, topic, (partition, offset), id);
        if let Some(chosen) = produced.partition {
            if chosen != partition {
                let expected = format!("partition {chosen}, which its client chose");
                misrouted(f, model, "wrong partition", (topic, partition), id, expected);
            }
            return;
        }
        let Some(key) = produced.records[id.index].key.clone() else {
            self.turn(f, model, topic, partition);
            return;
        };
        right_partition(f, model, topic, partition, id);
        let latest = self.latest.entry((topic.clone(), key.clone())).or_default();
        if produced.entry > latest.0 && offset < latest.1 {
            let expected = format!("key {} at an offset after {}", show(None, &key), latest.1);
            let found = format!("offset {offset}");
            let because = [latest.0, produced.entry, produced.answer];
            f.broke(Promise::Routed, "order", name(topic, partition), (expected, found), &because);
        }
        *latest = (latest.0.max(produced.answer), latest.1.max(offset));
    }

    /// What one client sends is appended in the order in which it sends it, also where it does not wait for the answers.
    fn in_order_of_calls(
        &mut self,
        f: &mut Findings,
        model: &Model,
        topic: &Arc<str>,
        (partition, offset): (u32, u64),
        id: RecordId,
    ) {
        let produced = &model.produced[&id.call];
        // What was sent before a crash, or before the topic was known, may have gone into another log.
        let born = model.topics.get(topic).map_or(0, |topic| topic.born);
        if produced.epoch != model.epoch || produced.entry < born {
            return;
        }
        let place = (produced.client.clone(), topic.clone(), partition);
        let Some((last, highest)) = self.in_turn.insert(place, (id, offset)) else { return };
        if last < id && offset < highest {
            let expected = format!("an offset after {highest}, which {} was given before", produced.client);
            let because: Vec<usize> = [last, id].iter().flat_map(|id| model.entries_of(*id)).collect();
            let found = format!("offset {offset}");
            f.broke(Promise::Routed, "order", name(topic, partition), (expected, found), &because);
        }
    }

    fn turn(&mut self, f: &mut Findings, model: &Model, topic: &Arc<str>, partition: u32) {
        let Some(count) = model.topics.get(topic).map(|t| t.partitions.len()) else { return };
        let (turns, unclear) = self.turns.entry(topic.clone()).or_default();
        turns.resize(count, 0);
        turns.get_mut(partition as usize).into_iter().for_each(|turns| *turns += 1);
        let (most, least) = (turns.iter().max().copied(), turns.iter().min().copied());
        let (most, least) = (most.unwrap_or(0), least.unwrap_or(0));
        // What is still under way may belong to those that seem to have had fewer.
        if most - least > 1 + *unclear + model.under_way {
            let expected = "records without a key go to the partitions in turn";
            let each: Vec<String> = turns.iter().map(u64::to_string).collect();
            let found = format!("so many went to each: {}", each.join(", "));
            f.broke(Promise::Routed, "uneven", topic.as_ref(), (expected, found), &[]);
        }
    }
}

/// A record that was found where nobody had said it was.
pub(super) fn found(f: &mut Findings, model: &Model, topic: &str, partition: u32, id: RecordId) {
    if model.produced[&id.call].partition.is_none() {
        right_partition(f, model, topic, partition, id);
    }
}

/// Whether a record can be in this partition.
pub(super) fn goes_to(model: &Model, topic: &str, partition: u32, id: RecordId) -> bool {
    let produced = &model.produced[&id.call];
    let count = model.topics.get(topic).map_or(1, |t| u32::try_from(t.partitions.len()).unwrap_or(u32::MAX));
    match (produced.partition, &produced.records[id.index].key) {
        (Some(chosen), _) => chosen == partition,
        (None, Some(key)) => partition_of(key, count) == partition,
        (None, None) => true,
    }
}

fn right_partition(f: &mut Findings, model: &Model, topic: &str, partition: u32, id: RecordId) {
    let Some(key) = &model.produced[&id.call].records[id.index].key else { return };
    let count = model.topics.get(topic).map_or(1, |t| u32::try_from(t.partitions.len()).unwrap_or(u32::MAX));
    let right = partition_of(key, count);
    if right != partition {
        let expected = format!("key {} in partition {right} of {count}", show(None, key));
        misrouted(f, model, "wrong partition", (topic, partition), id, expected);
    }
}

/// A record is in a partition where it must not be.
fn misrouted(
    f: &mut Findings,
    model: &Model,
    kind: &'static str,
    (topic, partition): (&str, u32),
    id: RecordId,
    expected: String,
) {
    let found = format!("partition {partition}");
    f.broke(Promise::Routed, kind, topic, (expected, found), &model.entries_of(id));
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_keys_of_the_issue() {
        assert_eq!(super::partition_of(b"user-1", 3), 1);
        assert_eq!(super::partition_of(b"user-2", 3), 1);
        assert_eq!(super::partition_of(b"user-3", 3), 2);
    }
}
