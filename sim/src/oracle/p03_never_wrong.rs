//! P3: a read gives the record appended at that offset, or an error. Never other bytes, never another record.
//!
//! A read also teaches: a record of which nobody knew whether it was stored is known to be there once it was read.

use super::look::{name, show};
use super::model::{Content, Fate, Model, Partition, Produced, RecordId, Slot};
use super::{Findings, Promise, decode, p07_time, p10_routed};
use crate::trace::{Millis, Seen, Sent};

/// When a client was given a record.
#[derive(Clone, Copy)]
pub(super) struct Given {
    pub at: Millis,
    /// How many crashes there were when it was asked for.
    pub epoch: u32,
}

/// One record that a client was given.
pub(super) fn read(
    f: &mut Findings,
    model: &mut Model,
    topic: &str,
    partition: u32,
    seen: &Seen,
    given: Given,
) {
    let Some(known) = model.partition(topic, partition) else { return };
    let content = (seen.key.clone(), seen.value.clone());
    // Most reads give what they must: words are made where they are needed.
    let what = || format!("{} offset {}", name(topic, partition), seen.offset);
    let found = || format!("{} with timestamp {}", show(seen.key.as_deref(), &seen.value), seen.timestamp);
    match known.slots.get(&seen.offset) {
        Some(slot) if is_replaced_by_its_like(model, topic, slot, seen) => {
            learn(f, model, topic, partition, seen, given, (what(), found()));
        }
        Some(slot) if model.has_content(slot.id, seen.key.as_ref(), &seen.value) => {
            if let Some(timestamp) = slot.timestamp.filter(|t| *t != seen.timestamp) {
                let expected = format!("the timestamp {timestamp}, as read before");
                f.broke(
                    Promise::NeverWrong,
                    "timestamp",
                    what(),
                    (expected, found()),
                    &model.entries_of(slot.id),
                );
            }
            if slot.timestamp.is_none() {
                p07_time::appended(f, model, topic, (partition, seen), slot.id, given.at);
            }
            if let Some(slot) = slot_mut(model, topic, partition, seen.offset) {
                slot.timestamp = Some(seen.timestamp);
            }
        }
        _ if known.harm.is_planted(seen.offset, &content) => {}
        Some(slot) if !slot.at_risk && has_strayed(model, (topic, partition), seen.offset, &content) => {}
        Some(slot) if !slot.at_risk => {
            let (key, value) = model.content(slot.id);
            let expected = show(key.as_deref(), &value);
            let known_record = model.topics[topic].by_content.contains_key(&content);
            let (promise, kind) = match known_record {
                true => (Promise::NoReuse, "another record"),
                false => (Promise::NeverWrong, "other bytes"),
            };
            // Nobody can know of a record that such a disk had lost, and brings back under an offset that was free again.
            if known_record && model.lying && known.harm.is_lied_about() {
                return;
            }
            if may_be_of_a_value(model, (topic, partition), seen) {
                return;
            }
            f.broke(promise, kind, what(), (expected, found()), &model.entries_of(slot.id));
        }
        _ => learn(f, model, topic, partition, seen, given, (what(), found())),
    }
}

/// Whether a record that a crash may have taken was replaced by another one with the same content: it has another timestamp.
fn is_replaced_by_its_like(model: &Model, topic: &str, slot: &Slot, seen: &Seen) -> bool {
    let other = |id: &RecordId| *id != slot.id && model.fate(*id) == Fate::Open;
    let is_other = slot.at_risk && slot.timestamp.is_some_and(|timestamp| timestamp != seen.timestamp);
    is_other
        && model.has_content(slot.id, seen.key.as_ref(), &seen.value)
        && model.alike(topic, &model.content(slot.id)).iter().any(other)
}

fn slot_mut<'a>(model: &'a mut Model, topic: &str, partition: u32, offset: u64) -> Option<&'a mut Slot> {
    model.partition_mut(topic, partition)?.slots.get_mut(&offset)
}

/// An offset of which nobody knew what it names.
fn learn(
    f: &mut Findings,
    model: &mut Model,
    topic: &str,
    partition: u32,
    seen: &Seen,
    given: Given,
    (what, found): (String, String),
) {
    let content = (seen.key.clone(), seen.value.clone());
    if let Some(id) = candidate(model, topic, partition, seen.offset, &content) {
        fill(f, model, topic, (partition, seen), id, given);
        return;
    }
    // It is in the place of one record, and has taken nothing of those behind it.
    if has_strayed(model, (topic, partition), seen.offset, &content) {
        return;
    }
    if may_be_of_a_value(model, (topic, partition), seen) {
        return;
    }
    let Misplaced { promise, kind, expected, id } = misplaced(model, topic, &content);
    // A device that lies about syncs can bring back what was cut off or deleted: bytes that somebody sent here once.
    let was_sent = || match id {
        Some(_) => promise == Promise::RefusedAbsent,
        None => model.produced.values().any(|call| *call.topic == *topic && has(&call.records, &content)),
    };
    if model.lying && was_sent() {
        return replaced(model, topic, partition, seen.offset);
    }
    let because = id.map_or(Vec::new(), |id| model.entries_of(id).to_vec());
    f.broke(promise, kind, what, (expected, found), &because);
}

/// From here on, the offset names this record.
fn fill(
    f: &mut Findings,
    model: &mut Model,
    topic: &str,
    (partition, seen): (u32, &Seen),
    id: RecordId,
    given: Given,
) {
    replaced(model, topic, partition, seen.offset);
    p07_time::appended(f, model, topic, (partition, seen), id, given.at);
    model.set_fate(id, Fate::Found(partition, seen.offset));
    let (durability, called) = (model.durability, model.produced[&id.call].entry);
    // An answer that was on its way when the lights went out tells of what was there before.
    let at_risk = model.may_have_lost((topic, partition), given.epoch);
    if let Some(known) = model.partition_mut(topic, partition) {
        let doubtful = known.durable.was_written_before_a_failure(called, durability);
        let (timestamp, acknowledged, damaged) = (Some(seen.timestamp), false, false);
        let slot = Slot { id, acknowledged, at: given.at, durability, timestamp, doubtful, at_risk, damaged };
        known.slots.insert(seen.offset, slot);
    }
    p10_routed::found(f, model, topic, partition, id);
}

/// What a power loss may have taken, and another record has replaced, is gone.
fn replaced(model: &mut Model, topic: &str, partition: u32, offset: u64) {
    let known = model.partition_mut(topic, partition);
    let old =
        known.filter(|known| known.slots.contains_key(&offset)).map(|known| known.replaced_from(offset));
    old.into_iter().flatten().for_each(|old| model.set_fate(old, Fate::Lost));
}

/// Whether this may be a record of another log that a stray write has put here. Where a record goes, its offset goes with it: it was
/// that of its own log too, unless nobody knows where it was to lie, or it is not there any more.
fn has_strayed(model: &Model, (topic, partition): (&str, u32), offset: u64, content: &Content) -> bool {
    let here = model.partition(topic, partition);
    if !here.is_some_and(|known| known.harm.is_strayed_into()) {
        return false;
    }
    let came_from = |call: &Produced, fate: Fate| {
        let is_here = |p: u32| *call.topic == *topic && p == partition;
        match fate {
            Fate::Found(p, o) | Fate::Acknowledged(p, o) => o == offset && !is_here(p),
            Fate::Open | Fate::Refused | Fate::Lost => !call.partition.is_some_and(is_here),
        }
    };
    model.produced.values().any(|call| {
        let mut records = call.records.iter().zip(&call.fates);
        records.any(|(sent, fate)| sent.key == content.0 && sent.value == content.1 && came_from(call, *fate))
    })
}

/// Whether this lies in the value of a record that somebody has sent, as a client does that copies a log, and that record's header
/// may be lost: then nothing shows that it is none of this log. A write that was torn, or a bit that has rotted, leaves enough of
/// the header to tell.
fn may_be_of_a_value(model: &Model, (topic, partition): (&str, u32), seen: &Seen) -> bool {
    let loses_headers = |known: &Partition| known.harm.loses_sectors() || model.may_have_holes(known);
    let is_it = |value: &[u8], at: usize| {
        decode::record_at(value, at).is_some_and(|inner| {
            inner.offset == seen.offset && inner.key == seen.key.as_deref() && inner.value == &seen.value[..]
        })
    };
    let holds = |sent: &Sent| (0..sent.value.len()).any(|at| is_it(&sent.value, at));
    let of_topic = |call: &&Produced| *call.topic == *topic;
    model.partition(topic, partition).is_some_and(loses_headers)
        && model.produced.values().filter(of_topic).any(|call| call.records.iter().any(holds))
}

/// Why bytes must not be where they are: the promise, and the record that they are of, if they are of one.
struct Misplaced {
    promise: Promise,
    kind: &'static str,
    expected: &'static str,
    id: Option<RecordId>,
}

/// What is wrong with bytes that no record can be whose outcome is unknown.
fn misplaced(model: &Model, topic: &str, content: &Content) -> Misplaced {
    let ids = model.alike(topic, content);
    let of_fate = |fate: Fate| ids.iter().copied().find(|id| model.fate(*id) == fate);
    let back = |kind, expected, id| Misplaced { promise: Promise::RefusedAbsent, kind, expected, id };
    let wrong = |kind, expected, id| Misplaced { promise: Promise::NeverWrong, kind, expected, id };
    if let id @ Some(_) = of_fate(Fate::Refused) {
        back("refused is there", "nothing: this record was refused", id)
    } else if let id @ Some(_) = of_fate(Fate::Lost) {
        back("came back", "nothing: this record was gone before", id)
    } else if let id @ Some(_) = of_fate(Fate::Open) {
        back("came back", "nothing: this record was not there when all was looked at", id)
    } else if let id @ Some(_) = ids.first().copied() {
        wrong("a second copy", "nothing: this record lies elsewhere", id)
    } else {
        wrong("nobody's bytes", "a record that somebody produced", None)
    }
}

fn has(records: &[Sent], content: &Content) -> bool {
    records.iter().any(|record| record.key == content.0 && record.value == content.1)
}

/// The record of unknown outcome that this can be; of several with the same content, the one whose neighbour in its
/// request lies right before, or else one that goes to this partition, rather one that was produced alone, and rather one of
/// whose request nothing was found.
fn candidate(
    model: &mut Model,
    topic: &str,
    partition: u32,
    offset: u64,
    content: &Content,
) -> Option<RecordId> {
    let ids = model.alike(topic, content);
    let place = (partition, offset);
    let open = |id: &&RecordId| {
        let chosen = model.produced[&id.call].partition;
        model.fate(**id) == Fate::Open
            && chosen.is_none_or(|p| p == partition)
            && model.in_time(**id, topic, place)
    };
    let is_there = |fate: &Fate| matches!(fate, Fate::Found(..) | Fate::Acknowledged(..));
    let follows = |id: &&RecordId| {
        let fates = &model.produced[&id.call].fates;
        let before = id.index.checked_sub(1).map(|i| fates[i]);
        matches!(before, Some(Fate::Found(p, o) | Fate::Acknowledged(p, o)) if p == partition && o + 1 == offset)
    };
    let right = |id: &&RecordId| p10_routed::goes_to(model, topic, partition, **id);
    let alone = |id: &&RecordId| model.produced[&id.call].records.len() == 1;
    let fresh = |id: &&RecordId| !model.produced[&id.call].fates.iter().any(is_there);
    let open = || ids.iter().filter(open);
    let right = || open().filter(right);
    let found = right()
        .find(follows)
        .or_else(|| right().find(alone))
        .or_else(|| right().find(fresh))
        .or_else(|| right().next());
    match found.copied() {
        Some(id) => Some(id),
        None => {
            let elsewhere = open().next().copied();
            model.make_free(topic, content, place, None).or(elsewhere)
        }
    }
}
