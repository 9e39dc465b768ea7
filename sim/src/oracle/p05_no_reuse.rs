//! P5: an offset that was acknowledged, or read, never comes to name other bytes, within the same loss window.
//!
//! Checked on every acknowledgement here, and on every read where P3 looks at what it gave.

use super::identical_records::Place;
use super::look::{name, show};
use super::model::{Fate, Model, RecordId, Slot};
use super::{Findings, Promise};
use crate::trace::Millis;

/// A record was acknowledged under an offset.
pub(super) fn acknowledged(
    f: &mut Findings,
    model: &mut Model,
    topic: &str,
    place: Place,
    id: RecordId,
    now: Millis,
) {
    settle_doubles(model, topic, place, id);
    let answer = Answered { topic, place, id, at: now };
    let Some(known) = model.partition(topic, place.0) else { return };
    let before = known.slots.get(&place.1).filter(|slot| slot.id != id);
    let is_free = before.is_some_and(|slot| slot.at_risk);
    match before {
        Some(slot) if answer.is_at_risk(model) && !answer.came_after(model, slot) => {
            // Two power losses: one may have taken the record before it, and the other this one.
            if !slot.may_be_gone() {
                model.set_fate(id, Fate::Lost);
            }
            return;
        }
        Some(slot) if !slot.may_be_gone() => answer.given_twice(f, model, slot),
        _ => {}
    }
    if let Fate::Found(partition, offset) = model.fate(id)
        && (partition, offset) != place
    {
        answer.two_offsets(f, model, (partition, offset));
    }
    if is_free && let Some(known) = model.partition_mut(topic, place.0) {
        let gone = known.replaced_from(place.1);
        gone.into_iter().for_each(|old| model.set_fate(old, Fate::Lost));
    }
    model.set_fate(id, Fate::Acknowledged(place.0, place.1));
    answer.fill(model);
}

/// An acknowledgement of one record.
struct Answered<'a> {
    topic: &'a str,
    place: Place,
    id: RecordId,
    at: Millis,
}

impl Answered<'_> {
    /// Whether it was on its way when the broker crashed: what it says was true before the crash.
    fn crossed(&self, model: &Model) -> bool {
        model.produced[&self.id.call].epoch != model.epoch
    }

    /// Whether that crash may have taken what it speaks of.
    fn is_at_risk(&self, model: &Model) -> bool {
        model.may_have_lost((self.topic, self.place.0), model.produced[&self.id.call].epoch)
    }

    /// Whether it is about a record that was sent when the one that has the offset was known already: then it has taken its place,
    /// however late the answer comes.
    fn came_after(&self, model: &Model, slot: &Slot) -> bool {
        let sent = &model.produced[&self.id.call];
        let was_answered = slot.acknowledged && model.produced[&slot.id.call].answer < sent.entry;
        was_answered || slot.at < sent.at
    }

    /// The offset names another record already.
    fn given_twice(&self, f: &mut Findings, model: &Model, slot: &Slot) {
        let (key, value) = model.content(slot.id);
        let expected = format!("it goes on naming {}", show(key.as_deref(), &value));
        let (key, value) = model.content(self.id);
        let found = format!("it was given to {}", show(key.as_deref(), &value));
        let because: Vec<usize> = [model.entries_of(slot.id), model.entries_of(self.id)].concat();
        let what = format!("{} offset {}", name(self.topic, self.place.0), self.place.1);
        f.broke(Promise::NoReuse, "given twice", what, (expected, found), &because);
    }

    /// The record was read under another offset.
    fn two_offsets(&self, f: &mut Findings, model: &Model, (partition, offset): Place) {
        let expected = format!("{} offset {offset}, where it was read", name(self.topic, partition));
        let what = name(self.topic, self.place.0);
        let found = format!("acknowledged as {what} offset {}", self.place.1);
        f.broke(Promise::NeverWrong, "two offsets", what, (expected, found), &model.entries_of(self.id));
    }

    /// From here on, the offset names the record.
    fn fill(&self, model: &mut Model) {
        let Self { topic, place: (partition, offset), id, at } = *self;
        let (crossed, at_risk) = (self.crossed(model), self.is_at_risk(model));
        let (durability, called) = (model.durability, model.produced[&id.call].entry);
        let Some(known) = model.partition_mut(topic, partition) else { return };
        let doubtful = known.durable.was_written_before_a_failure(called, durability);
        let timestamp = known.slots.get(&offset).filter(|s| s.id == id).and_then(|s| s.timestamp);
        let (acknowledged, damaged) = (true, false);
        let slot = Slot { id, acknowledged, at, durability, timestamp, doubtful, at_risk, damaged };
        known.slots.insert(offset, slot);
        if !crossed {
            known.durable.acknowledged(offset);
        }
    }
}

/// The answer tells apart what reads before it could not: records with the same content.
fn settle_doubles(model: &mut Model, topic: &str, (partition, offset): Place, id: RecordId) {
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
