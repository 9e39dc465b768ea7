//! Topics that may have taken the place of others of their name: nobody knows whether one was deleted, nor whether the next was made.

use std::sync::Arc;

use super::Walk;
use crate::oracle::look::{Look, PartitionLook};
use crate::oracle::model::{Causes, Fate, Model, RecordId, Slot, Successor, Topic};
use crate::oracle::p03_never_wrong::{self, Given};
use crate::trace::{Request, Retention, Seen};

impl Walk {
    /// The topics of this name that somebody makes just now.
    pub(super) fn asked_for(&self, topic: &Arc<str>) -> Vec<Successor> {
        let asked = self.calls.values().filter_map(|open| match &open.request {
            Request::CreateTopic { topic: of, partitions, retention_bytes, retention_ms } if of == topic => {
                let own = Retention { bytes: *retention_bytes, age_ms: *retention_ms };
                let (partitions, since, failed, struck) = (*partitions, open.entry, false, false);
                Some(Successor { partitions, own, since, failed, struck })
            }
            _ => None,
        });
        asked.collect()
    }

    /// Whether it is known in which topic a record was stored. Where its offset is that of another record that cannot be gone, or there
    /// was no such partition, it is the new one; and it is the old one where the new one has no such partition.
    pub(super) fn tells_which_one(&mut self, topic: &Arc<str>, (partition, offset): (u32, u64)) -> bool {
        let asked = self.asked_for(topic).into_iter().max_by_key(|asked| (asked.partitions, asked.since));
        let contested = self.topic_changes.is_contested(topic);
        let Some(known) = self.model.topics.get_mut(topic) else { return true };
        let asked = asked.filter(|_| known.uncertain || contested);
        let Some(successor) = known.successor.or(asked) else { return true };
        known.uncertain &= known.successor.is_none(); // it is there in any case
        let of_old = known.partitions.get(partition as usize);
        if of_old.is_none_or(|of_old| of_old.slots.get(&offset).is_some_and(|slot| !slot.may_be_gone())) {
            self.takes_its_place(topic, successor);
            return true;
        }
        let is_old = partition >= successor.partitions;
        if is_old {
            known.successor = None;
        }
        is_old
    }

    /// It is the new one.
    fn takes_its_place(&mut self, topic: &Arc<str>, new: Successor) {
        let mut known = Topic::new(self.findings.entry, new.partitions, new.own, false);
        for partition in known.partitions.iter_mut().filter(|_| new.failed) {
            partition.failures.failed(Causes::ALL);
            if new.struck {
                partition.failures.may_fence();
            }
        }
        self.model.appears(topic, known, new.since);
        self.routing.forget(topic);
    }

    /// A look shows which one is there.
    pub(super) fn succeeded(&mut self, look: &Look) {
        let names: Vec<Arc<str>> = self.model.topics.keys().cloned().collect();
        for name in names {
            let Some(known) = self.model.topics.get_mut(&name) else { continue };
            let Some(successor) = known.successor else { continue };
            let of_topic = look.partitions.iter().filter(|((topic, _), _)| *topic == name);
            let there = of_topic.map(|((_, number), found)| (*number, found));
            let there: Vec<(u32, &PartitionLook)> = there.filter(|(_, found)| !found.unknown).collect();
            if there.is_empty() {
                continue;
            }
            known.successor = None;
            if !is_the_old_one(&self.model, &name, &there, successor.partitions) {
                self.takes_its_place(&name, successor);
            }
            let given = Given { at: self.now, epoch: self.model.epoch };
            for (number, found) in there {
                for seen in found.records.values() {
                    p03_never_wrong::read(&mut self.findings, &mut self.model, &name, number, seen, given);
                }
            }
        }
    }
}

/// Whether what a look has found is the topic that was there before: it has its number of partitions, and one of the records that it
/// must have, which nobody else can have stored there. Where it has to have none, it is the new one if it is empty and has that one's
/// number of partitions.
fn is_the_old_one(model: &Model, name: &str, there: &[(u32, &PartitionLook)], partitions: u32) -> bool {
    let Some(old) = model.topics.get(name) else { return false };
    let could_be_new = there.len() == partitions as usize;
    if there.len() != old.partitions.len() || !could_be_new {
        return !could_be_new;
    }
    let promised = || {
        let all =
            there.iter().filter_map(|(number, found)| Some((old.partitions.get(*number as usize)?, found)));
        let looked_at = all.filter(|(_, found)| found.ranged && !found.disturbed);
        looked_at.flat_map(|(known, found)| {
            let promised = known.slots.iter().filter(|(_, slot)| slot.is_promised());
            promised.map(move |(offset, slot)| (slot, found.records.get(offset)))
        })
    };
    let is_empty = || there.iter().all(|(_, found)| found.ranged && found.end == 0);
    if promised().next().is_none() {
        return !is_empty();
    }
    let is_it = |slot: &Slot, seen: &Seen| {
        let other = |id: &RecordId| *id != slot.id && model.fate(*id) == Fate::Open;
        let is_it = model.has_content(slot.id, seen.key.as_ref(), &seen.value);
        is_it
            && match slot.timestamp {
                Some(timestamp) => timestamp == seen.timestamp,
                None => !model.alike(name, &model.content(slot.id)).iter().any(other),
            }
    };
    promised().any(|(slot, seen)| seen.is_some_and(|seen| is_it(slot, seen)))
}
