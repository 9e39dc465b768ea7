//! P1: offsets are 0, 1, 2 … without gap or repeat; each segment starts where the one before ended.
//!
//! Checked on every answer to a consume (its records follow one another from the offset that was asked for), on every look
//! (each offset between start and end is a record or an error), and on the files themselves.

use super::decode::{self, Piece};
use super::look::{Look, PartitionLook, name};
use super::model::Model;
use super::{Findings, Promise};
use crate::trace::Seen;

/// One answer to a consume.
pub(super) fn answer(f: &mut Findings, what: &str, from: u64, records: &[Seen]) {
    for (record, expected) in records.iter().zip(from..) {
        if record.offset != expected {
            let found = format!("offset {}", record.offset);
            f.broke(Promise::Dense, "gap in an answer", what, (format!("offset {expected}"), found), &[]);
            return;
        }
    }
}

/// One partition in a look.
pub(super) fn look(f: &mut Findings, model: &Model, topic: &str, partition: u32, look: &PartitionLook) {
    let Some(known) = model.partition(topic, partition) else { return };
    if look.disturbed || !look.ranged {
        return;
    }
    if let Some(offset) = look.missing() {
        let expected = format!("each offset from {} to {} is a record or an error", look.start, look.end);
        f.broke(
            Promise::Dense,
            "gap in a log",
            name(topic, partition),
            (expected, format!("nothing at {offset}")),
            &[],
        );
    }
    let may_go = model.topics.get(topic).is_none_or(|t| t.retention) || known.harm.is_changed();
    if look.start != 0 && !may_go {
        let found = format!("the log starts at {}", look.start);
        f.broke(Promise::Dense, "start", name(topic, partition), ("the log starts at 0", found), &[]);
    }
    if let Some(latest) = look.latest.filter(|latest| *latest > look.end) {
        let expected = format!("the latest offset is {}, where reads end", look.end);
        let found = format!("it is said to be {latest}");
        f.broke(Promise::Dense, "latest", name(topic, partition), (expected, found), &[]);
    }
    if look.end < look.start {
        let found = format!("start {}, end {}", look.start, look.end);
        f.broke(
            Promise::Dense,
            "range",
            name(topic, partition),
            ("the end is not before the start", found),
            &[],
        );
    }
}

/// The files of one partition.
pub(super) fn files(f: &mut Findings, model: &Model, topic: &str, partition: u32, look: &Look) {
    let (Some(known), Some(image)) = (model.partition(topic, partition), &look.image) else { return };
    if known.harm.is_changed() || known.failures.allow_a_fence() {
        return; // p02 and p09 look at what is left
    }
    let segments = decode::segments(image, topic, partition);
    let (mut end, mut shown): (Option<u64>, Vec<u64>) = (None, Vec::new());
    // A disk that lies may have lost more than the broker knows of.
    let lost = known.harm.is_shaken() && model.lying;
    let holes = lost || model.may_have_holes(known);
    for (i, segment) in segments.iter().enumerate() {
        let what = format!("{}.log", segment.stem);
        let pieces = segment.pieces();
        let bad = |piece: &Piece<'_>| matches!(piece, Piece::Bad { .. });
        if holes {
            // But a tail that is no record, and holds none, is always cut, unless a lying disk has kept nothing of what it was told
            // to.
            let is_torn = |piece: &Piece<'_>| matches!(piece, Piece::Bad { position, len } if !decode::holds_a_record(segment.log, *position, position + len));
            let tail = i + 1 == segments.len() && !model.lying && pieces.last().is_some_and(is_torn);
            if tail && pieces.iter().filter(|piece| bad(piece)).count() == 1 {
                pieces.last().into_iter().for_each(|piece| no_record(f, &what, piece));
            }
        }
        let goes_on = |end: u64| end == segment.base || shown.contains(&segment.base);
        if let Some(end) = end.filter(|end| !goes_on(*end) && !lost) {
            let expected = format!("the segment after offset {end} starts there");
            f.broke(
                Promise::Dense,
                "segments",
                what.clone(),
                (expected, format!("base {}", segment.base)),
                &[],
            );
        }
        let mut next = segment.base;
        for piece in &pieces {
            match piece {
                Piece::Record(record) => next = record.offset + 1,
                Piece::Bad { .. } if holes => {}
                Piece::Bad { .. } => no_record(f, &what, piece),
            }
        }
        // Where a header is lost, a record in the value behind it may as well be one that shows how far the log had come.
        let stretches = pieces.iter().filter_map(|piece| match piece {
            Piece::Bad { position, len } if holes => Some((*position, position + len)),
            _ => None,
        });
        let found = stretches.flat_map(|(from, to)| decode::records_between(segment.log, from, to));
        shown = found.map(|record| record.offset.saturating_add(1)).collect();
        // How many records were in a hole at the end, the next segment says.
        end = (!(holes && pieces.last().is_some_and(bad))).then_some(next);
    }
}

fn no_record(f: &mut Findings, what: &str, piece: &Piece<'_>) {
    if let Piece::Bad { position, len } = piece {
        let found = format!("{len} bytes at {position} that are no record");
        f.broke(Promise::Dense, "bad bytes", what, ("nothing but records", found), &[]);
    }
}
