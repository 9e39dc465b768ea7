//! P9: the damage is named, byte for byte. Of the stretches of a log that a start names, against the files as they lay before it:
//!
//! - no byte of a whole record that was written there lies in one;
//! - what is no record lies in one as a whole. Of a log that a start has not looked through, that holds for what it names; of one
//!   that it has, for each hole. What stands behind the last record of the last log is a torn tail as long as nothing is said of it.

use super::decode::{self, Piece, Segment, Stored};
use super::model::{Model, Partition};
use super::{Findings, Promise};
use crate::trace::{Image, Recovered};

/// A stretch of a log as a start names it: from this byte to that, and from this offset to that; neither end is part of it.
#[derive(Clone, Copy)]
struct Stretch {
    bytes: (u64, u64),
    offsets: (u64, u64),
}

impl Stretch {
    /// Whether it names any of these bytes, or this offset.
    fn names(&self, record: &Stored<'_>) -> bool {
        let (from, to) = (record.position, record.position + record.len);
        let overlaps = self.bytes.0 < self.bytes.1 && self.bytes.0 < to && from < self.bytes.1;
        overlaps || (self.offsets.0..self.offsets.1).contains(&record.offset)
    }
}

/// What a start says of a partition, of which `before` shows the files that it found, and was given to read.
pub(super) fn started(f: &mut Findings, model: &Model, before: &Image, said: &Recovered) {
    let Some(known) = model.partition(&said.topic, said.partition) else { return };
    if said.damage.is_empty() || model.lying || known.harm.at_odds() || known.harm.is_unreadable() {
        return;
    }
    let segments = decode::segments(before, &said.topic, said.partition);
    for (number, segment) in segments.iter().enumerate() {
        let is_last = number + 1 == segments.len();
        let named = stretches(said, segment);
        let mut pieces = segment.pieces();
        let left = segment.log.len() as u64 - if is_last { said.cut } else { 0 };
        pieces.retain(|piece| place(piece).0 < left);
        let what = || format!("{}.log", segment.stem);
        if let Some((record, stretch)) = whole_in(known, model, &pieces, &named) {
            let (from, to) = (record.position, record.position + record.len);
            let expected =
                format!("offset {} is named by no start: it is whole, bytes {from} to {to}", record.offset);
            let ((at, end), (first, next)) = (stretch.bytes, stretch.offsets);
            let found = format!("damage is said to be bytes {at} to {end}, offsets {first} to {next}");
            f.broke(Promise::Damage, "whole record named", what(), (expected, found), &[]);
        }
        // Where a header is lost, nobody can tell whether what lies behind it is of this log.
        let loses_headers = known.harm.loses_sectors() || model.may_have_holes(known);
        let is_unclear =
            |(from, to): &(u64, u64)| loses_headers && decode::holds_a_record(segment.log, *from, *to);
        if let Some((from, to)) = unnamed(&pieces, &named, is_last).filter(|place| !is_unclear(place)) {
            let expected = format!("all of the damage is named: bytes {from} to {to}");
            let said: Vec<String> = named.iter().map(|s| format!("{} to {}", s.bytes.0, s.bytes.1)).collect();
            let found = format!("named are bytes {}", said.join(", "));
            f.broke(Promise::Damage, "not named whole", what(), (expected, found), &[]);
        }
    }
}

/// What a start names in this log.
fn stretches(said: &Recovered, segment: &Segment<'_>) -> Vec<Stretch> {
    let stem = segment.stem.rsplit('/').next().unwrap_or_default();
    let here = said.damage.iter().filter(|(file, ..)| file.strip_suffix(".log") == Some(stem));
    here.map(|&(_, at, bytes, first, next)| Stretch { bytes: (at, at + bytes), offsets: (first, next) })
        .collect()
}

/// From which byte to which.
fn place(piece: &Piece<'_>) -> (u64, u64) {
    let (position, len) = match piece {
        Piece::Record(record) => (record.position, record.len),
        Piece::Bad { position, len } => (*position, *len),
    };
    (position, position + len)
}

/// A record that clients know of, that is whole, and that one of these names.
fn whole_in<'a>(
    known: &Partition,
    model: &Model,
    pieces: &[Piece<'a>],
    named: &[Stretch],
) -> Option<(Stored<'a>, Stretch)> {
    let is_known = |record: &Stored<'_>| {
        known.slots.get(&record.offset).is_some_and(|slot| {
            let (key, value) = model.content(slot.id);
            let same_time = slot.timestamp.is_none_or(|timestamp| timestamp == record.timestamp);
            same_time && key.as_deref() == record.key && value == record.value
        })
    };
    pieces.iter().find_map(|piece| {
        let Piece::Record(record) = piece else { return None };
        let stretch = named.iter().find(|stretch| stretch.names(record))?;
        is_known(record).then_some((*record, *stretch))
    })
}

/// Bytes that are no record, and not named as a whole where they have to be.
fn unnamed(pieces: &[Piece<'_>], named: &[Stretch], is_last: bool) -> Option<(u64, u64)> {
    let is_looked_through = named.iter().any(|stretch| stretch.bytes.0 < stretch.bytes.1);
    let has_to_be = |nth: usize, (from, to): (u64, u64)| {
        let is_tail = is_last && nth + 1 == pieces.len();
        let is_touched = named.iter().any(|s| s.bytes.0 < to && from <= s.bytes.1);
        is_touched || (is_looked_through && !is_tail)
    };
    let is_covered = |(from, to): (u64, u64)| named.iter().any(|s| s.bytes.0 <= from && to <= s.bytes.1);
    let bad = pieces.iter().enumerate().filter(|(_, piece)| matches!(piece, Piece::Bad { .. }));
    let mut bad = bad.map(|(nth, piece)| (nth, place(piece)));
    bad.find(|(nth, place)| has_to_be(*nth, *place) && !is_covered(*place)).map(|(_, place)| place)
}
