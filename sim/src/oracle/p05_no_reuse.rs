//! P5: an offset that was acknowledged, or read, never comes to name other bytes, within the same loss window.
//!
//! Checked on every acknowledgement here, and on every read where P3 looks at what it gave.

use super::look::{name, show};
use super::model::{Fate, Model, RecordId, Slot};
use super::{Findings, Promise};
use crate::trace::{Millis, Mode};

/// A record was acknowledged under an offset.
pub(super) fn acknowledged(
    f: &mut Findings,
    model: &mut Model,
    topic: &str,
    (partition, offset): (u32, u64),
    id: RecordId,
    now: Millis,
) {
    // An answer that was on its way when the broker crashed: what it says was true before the crash.
    let crossed = model.produced[&id.call].epoch != model.epoch;
    settle_doubles(model, topic, (partition, offset), id);
    let durability = model.durability;
    let crossed_risk = crossed && model.lights_went_out && durability != Mode::Always;
    let Some(known) = model.partition(topic, partition) else { return };
    let before = known.slots.get(&offset);
    match before {
        Some(slot) if slot.id == id => {}
        Some(_) if crossed_risk => {
            model.set_fate(id, Fate::Lost);
            return;
        }
        Some(slot) if !(slot.at_risk || slot.damaged) => {
            let (key, value) = model.content(slot.id);
            let expected = format!("it goes on naming {}", show(key.as_deref(), &value));
            let (key, value) = model.content(id);
            let found = format!("it was given to {}", show(key.as_deref(), &value));
            let because: Vec<usize> = [model.entries_of(slot.id), model.entries_of(id)].concat();
            let what = format!("{} offset {offset}", name(topic, partition));
            f.broke(Promise::NoReuse, "given twice", what, (expected, found), &because);
        }
        _ => {}
    }
    if let Fate::Found(p, o) = model.produced[&id.call].fates[id.index]
        && (p, o) != (partition, offset)
    {
        let expected = format!("{} offset {o}, where it was read", name(topic, p));
        let found = format!("acknowledged as {} offset {offset}", name(topic, partition));
        f.broke(
            Promise::NeverWrong,
            "two offsets",
            name(topic, partition),
            (expected, found),
            &model.entries_of(id),
        );
    }
    if before.is_some_and(|slot| slot.id != id && slot.at_risk)
        && let Some(known) = model.partition_mut(topic, partition)
    {
        let gone = known.replaced_from(offset);
        gone.into_iter().for_each(|old| model.set_fate(old, Fate::Lost));
    }
    model.set_fate(id, Fate::Acknowledged(partition, offset));
    let called = model.produced[&id.call].entry;
    if let Some(known) = model.partition_mut(topic, partition) {
        let doubtful = known.was_written_before_a_failure(called, durability);
        let timestamp = known.slots.get(&offset).filter(|s| s.id == id).and_then(|s| s.timestamp);
        let at_risk = crossed_risk;
        let slot = Slot {
            id,
            acknowledged: true,
            at: now,
            durability,
            timestamp,
            doubtful,
            at_risk,
            damaged: false,
        };
        known.slots.insert(offset, slot);
        // The first acknowledgement out of a new segment says that the one before it is synced.
        if offset >= known.newest_base && !crossed {
            known.durable_to = known.durable_to.max(known.newest_base);
        }
    }
}

/// The answer tells apart what reads before it could not: records with the same content.
fn settle_doubles(model: &mut Model, topic: &str, (partition, offset): (u32, u64), id: RecordId) {
    let slot = model.partition(topic, partition).and_then(|known| known.slots.get(&offset));
    let (key, value) = model.content(id);
    match slot.filter(|slot| !slot.acknowledged).map(|slot| slot.id) {
        Some(other) if other != id && model.has_content(other, key.as_ref(), &value) => {
            model.exchange(other, id)
        }
        _ => {}
    }
    if let Fate::Found(p, o) = model.produced[&id.call].fates[id.index]
        && (p, o) != (partition, offset)
        && let Some(other) = model.double(id, (p, o))
    {
        model.exchange(id, other);
    }
}
