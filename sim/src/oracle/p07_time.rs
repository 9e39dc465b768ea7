//! P7: "first at or after t" gives the right record for every t: before, between, on and after the records' times, whatever
//! the clock did. And a record's time is one that the broker's clock showed while it was appended.

use super::look::{PartitionLook, name};
use super::model::{Model, RecordId};
use super::{Findings, Promise};
use crate::trace::{Millis, Seen};

/// The times that a look asked about, against the records that the same look has read.
pub(super) fn look(f: &mut Findings, model: &Model, topic: &str, partition: u32, look: &PartitionLook) {
    if look.disturbed || !look.ranged || holds_a_stray(model, topic, partition, look) {
        return;
    }
    for (t, answer) in &look.times {
        let right = look.records.values().find(|r| r.timestamp >= *t).map(|r| (r.offset, r.timestamp));
        // A record that cannot be read, or not be shown, has no time: it may be the first, and an error is then as good an
        // answer.
        let hidden = right.map_or(u64::MAX, |(offset, _)| offset);
        // While it was asked, retention may have moved the start, up to where it is now: onto damage, too.
        let later = look.records.range(look.start..).map(|(_, r)| r).find(|r| r.timestamp >= *t);
        let later = later.map(|r| (r.offset, r.timestamp));
        let upto = later.map_or(u64::MAX, |(offset, _)| offset);
        let may_differ = look.errors.keys().any(|o| *o < hidden)
            || look.unread().range(..look.start).next().is_some() // it may have begun there for a moment
            || look.unread().range(look.start..).next().is_some_and(|o| *o < upto)
            || (look.hides && right.is_none());
        let between = |found: (u64, u64)| {
            let named =
                look.records.get(&found.0).is_some_and(|r| r.timestamp == found.1 && r.timestamp >= *t);
            named && (hidden..=upto).contains(&found.0)
        };
        let fits = match answer {
            Some(found) => *found == right || *found == later || found.is_some_and(between),
            None => may_differ,
        };
        if !fits {
            let show = |found: Option<(u64, u64)>| {
                found.map_or("none".to_owned(), |(offset, time)| format!("offset {offset} (time {time})"))
            };
            let found = answer.map_or("an error".to_owned(), show);
            let what = format!("{}, first at or after {t}", name(topic, partition));
            f.broke(Promise::Time, "wrong record", what, (show(right), found), &[]);
            return;
        }
    }
}

/// Whether one of the records is of another log, put there by a stray write: its time is that of its own log, and no index of this
/// one knows of it.
fn holds_a_stray(model: &Model, topic: &str, partition: u32, look: &PartitionLook) -> bool {
    let Some(known) = model.partition(topic, partition).filter(|known| known.harm.is_strayed_into()) else {
        return false;
    };
    let is_own = |seen: &Seen| {
        let slot = known.slots.get(&seen.offset);
        slot.is_some_and(|slot| model.has_content(slot.id, seen.key.as_ref(), &seen.value))
    };
    !look.records.values().all(is_own)
}

/// The time of a record that is read for the first time.
pub(super) fn appended(
    f: &mut Findings,
    model: &Model,
    topic: &str,
    (partition, seen): (u32, &Seen),
    id: RecordId,
    now: Millis,
) {
    let produced = &model.produced[&id.call];
    let lied = model.partition(topic, partition).is_none_or(|known| known.harm.is_deceptive());
    // Of several records with the same bytes, nobody can say which this one is.
    if model.lying || lied || model.alike(topic, &model.content(id)).len() > 1 {
        return;
    }
    let Some((from, to)) = model.broker_clock.between(produced.at, produced.over.unwrap_or(now)) else {
        return;
    };
    if !(from..=to).contains(&seen.timestamp) {
        let what = format!("{} offset {}", name(topic, partition), seen.offset);
        let expected =
            format!("a time from {from} to {to}, as the broker's clock showed while it was appended");
        let found = format!("the time {}", seen.timestamp);
        f.broke(Promise::Time, "not its time", what, (expected, found), &model.entries_of(id));
    }
}
