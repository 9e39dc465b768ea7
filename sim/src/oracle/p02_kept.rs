//! P2: what was acknowledged is there, under its offset, byte for byte: always after a process crash; after a power loss,
//! within the loss window of the durability mode, and what is left is a prefix.
//!
//! | mode | a power loss may take |
//! | --- | --- |
//! | `os` | what was acknowledged since the last roll or clean stop |
//! | `interval` | that, if it is younger than the interval, and the time that two syncs take |
//! | `always` | nothing |
//!
//! Two syncs: one that is under way when a record is written does not cover it, and it waits for its own behind that.
//!
//! A record that was read counts like one that was acknowledged: in `always` mode nothing is readable before it is durable.
//! What the scenario destroyed, or a lying disk, may be answered by an error, or be gone where nothing good lay behind it.
//! Whether bytes are right is P3's business; here they have to be there.

use std::collections::BTreeSet;

use broker::error::Code;

use super::decode::{self, Piece};
use super::look::{PartitionLook, name, show};
use super::model::{Fate, Model, Slot};
use super::{Findings, Promise};
use crate::scenario::syntax::code_name;
use crate::trace::Image;
use crate::trace::print::durability;

/// One partition in a look: every offset that was promised is there, or may be gone. Those that may be and are, are
/// forgotten: their offsets are free.
pub(super) fn look(
    f: &mut Findings,
    model: &mut Model,
    (topic, partition): (&str, u32),
    look: &PartitionLook,
    image: Option<&Image>,
) {
    if look.disturbed {
        return;
    }
    if !look.ranged {
        return unopened(f, model, topic, partition);
    }
    let retention = model.topics.get(topic).is_some_and(|t| t.retention);
    let Some(known) = model.partition(topic, partition) else { return };
    // Where a start could not read or, under `always`, sync the log, and has fenced it for that, its end is hidden until the
    // next start, and nothing of it is given up.
    let hides_its_end = look.hides && known.may_hide_its_end();
    let left = left_before(image, topic, partition, look.start);
    let mut gone = Vec::new();
    let mut survived = Vec::new();
    let what = name(topic, partition);
    for (&offset, slot) in &known.slots {
        if look.records.contains_key(&offset) {
            survived.push(offset);
        } else if let Some(code) = look.error(offset)
            && !(retention && look.has_gone(offset))
        {
            // Of bytes that rot, it is known which records they were.
            let unreliable = known.harm.may_have_taken_any() || model.lying;
            let destroyed = slot.damaged || unreliable || known.doubts(offset, slot);
            // What a power loss took beside damage lies in the same hole; and where a start cannot know it for a power loss's, it
            // stays.
            let holes_stay = known.harm.is_hurt() || known.harm.is_unnoted();
            let is_hidden = || known.harm.is_hurt() && is_hidden(image, topic, partition, offset);
            let may_fail = destroyed || (holes_stay && slot.at_risk) || is_hidden();
            if !(may_fail && says_so(code)) {
                let found = format!("offset {offset} is answered by {}", code_name(code));
                broke(f, model, "unreadable", &what, slot, offset, found);
            }
        } else if !(hides_its_end && offset >= look.end) {
            let may_go = slot.may_be_gone() || (retention && offset < look.start);
            if !may_go {
                let found = format!("the log is {} to {}", look.start, look.end);
                let kind = if known.harm.may_be_damaged() { "cut behind damage" } else { "lost" };
                broke(f, model, kind, &what, slot, offset, found);
            }
            if !left.contains(&offset) {
                gone.push(offset);
            }
        }
    }
    prefix(f, model, topic, partition, look);
    for offset in gone {
        let id = model.partition_mut(topic, partition).and_then(|p| p.slots.remove(&offset)).map(|s| s.id);
        id.into_iter().for_each(|id| model.set_fate(id, Fate::Lost));
    }
    let Some(known) = model.partition_mut(topic, partition) else { return };
    if !hides_its_end {
        known.ends_at(look.end);
    }
    for offset in survived {
        if let Some(slot) = known.slots.get_mut(&offset) {
            slot.at_risk = false;
        }
    }
}

/// Whether a broken record hides this one: its header says that it reaches beyond the end of the log, which does not end with a good
/// record either. A write that was torn in a value that holds records looks just like that.
pub(super) fn is_hidden(image: Option<&Image>, topic: &str, partition: u32, offset: u64) -> bool {
    let is_it = |piece: &Piece<'_>| matches!(piece, Piece::Record(record) if record.offset == offset);
    let segments = |image| decode::segments(image, topic, partition);
    image.is_some_and(|image| !segments(image).iter().any(|segment| segment.pieces().iter().any(is_it)))
}

/// The offsets before the start of which good records lie in the files: nobody is sent to what retention is to remove, and where that
/// fails, the next start finds it again.
fn left_before(image: Option<&Image>, topic: &str, partition: u32, start: u64) -> BTreeSet<u64> {
    let Some(image) = image.filter(|_| start > 0) else { return BTreeSet::new() };
    let mut left = BTreeSet::new();
    for segment in decode::segments(image, topic, partition).iter().filter(|segment| segment.base < start) {
        for piece in segment.pieces() {
            if let Piece::Record(record) = piece {
                left.insert(record.offset);
            }
        }
    }
    left.split_off(&start);
    left
}

/// Whether an error is one that a destroyed record is answered by: its bytes are others, or cannot be read, or are gone.
fn says_so(code: Code) -> bool {
    matches!(code, Code::Corrupt | Code::StorageFailed | Code::OffsetOutOfRange)
}

/// A partition of which nothing is known, not even its offsets: where no failure of the disk explains it, that is as bad as
/// if all of it were gone.
fn unopened(f: &mut Findings, model: &Model, topic: &str, partition: u32) {
    let Some(known) = model.partition(topic, partition) else { return };
    let explained =
        known.may_fail() || known.may_wait_for_its_copy() || known.harm.is_deceptive() || model.lying;
    let promised = known.slots.iter().find(|(_, slot)| !slot.may_be_gone());
    if let (false, Some((offset, slot))) = (explained, promised) {
        let found = "the partition does not say which offsets it has".to_owned();
        broke(f, model, "unopened", &name(topic, partition), slot, *offset, found);
    }
}

/// A record that should be there and is not. Behind damage, that is P9.
fn broke(
    f: &mut Findings,
    model: &Model,
    kind: &'static str,
    what: &str,
    slot: &Slot,
    offset: u64,
    found: String,
) {
    let (key, value) = model.content(slot.id);
    let how = if slot.acknowledged { "acknowledged" } else { "read" };
    let (record, mode) = (show(key.as_deref(), &value), durability(slot.durability));
    let expected = format!("offset {offset} is {record}, {how} in mode {mode}");
    let promise = if kind == "cut behind damage" { Promise::Damage } else { Promise::Kept };
    f.broke(promise, kind, what, (expected, found), &model.entries_of(slot.id));
}

/// What is left is a prefix: in `os` and `interval` mode a power loss leaves no hole before a record that it spared.
fn prefix(f: &mut Findings, model: &Model, topic: &str, partition: u32, look: &PartitionLook) {
    let Some(known) = model.partition(topic, partition) else { return };
    let holes_are_legal = known.harm.may_be_damaged() || model.may_have_holes(known) || model.lying;
    // A hole does not come by itself: those that are there after a power loss are all there will be until the next.
    let is_legal = |offset: &u64| holes_are_legal && known.last_seen.explains_hole(*offset);
    let retention = model.topics.get(topic).is_some_and(|topic| topic.retention);
    let is_taken = |offset: u64| retention && look.has_gone(offset);
    let holes = look.errors.iter();
    let holes = holes.filter(|(offset, _)| !known.slots.contains_key(offset) && !is_taken(**offset));
    if let Some((offset, (code, _))) = holes.into_iter().find(|(offset, _)| !is_legal(offset)) {
        let found = format!("offset {offset} is answered by {}", code_name(*code));
        let kind = if *code == Code::Corrupt { "hole" } else { "unreadable" };
        let expected = format!("every offset from {} to {} can be read", look.start, look.end);
        f.broke(Promise::Kept, kind, name(topic, partition), (expected, found), &[]);
    }
}
