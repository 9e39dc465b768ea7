//! P6: every index entry names the exact start of the record with that offset; ascending; rebuilt = written; a broken index
//! changes no answer.
//!
//! What the entries of a segment must be follows from its log alone: one for each record whose count in the segment is a
//! multiple of the interval. Right after recovery an index is exactly that, whether it was written by appending or rebuilt.
//! While the broker runs it may be behind, where a write to it failed: it is derived, and caught up later. An index that the
//! scenario itself has changed proves nothing until a start says that it has built it anew; that no answer changes is what all
//! other promises check.

use super::decode::{self, Piece, Segment, Stored};
use super::model::Model;
use super::{Findings, Promise};
use crate::trace::Image;

/// How complete an index has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Complete {
    /// The broker has just recovered.
    Exactly,
    /// It is running.
    MayLag,
    /// It could not be built anew: entries whose checksum fails are as good as none, and it may have been ahead of its log when the
    /// lights went out.
    MayBeBroken,
}

/// The indexes of one partition.
pub(super) fn files(
    f: &mut Findings,
    model: &Model,
    topic: &str,
    partition: u32,
    image: &Image,
    complete: Complete,
) {
    let Some(known) = model.partition(topic, partition).filter(|known| !known.failures.left_it_fenced())
    else {
        return;
    };
    // Of a log that has rotted, the segments without bad bytes are as good as any.
    if known.harm.is_lied_about() || known.harm.is_unreadable() {
        return;
    }
    let segments = decode::segments(image, topic, partition);
    let last = segments.last().map(|segment| segment.base);
    for segment in &segments {
        let records = records(segment);
        let Some(records) = records else { continue };
        // One that is written to has the interval of this broker, and one that is closed may have been left as it was.
        let current = model.index_interval;
        let others =
            model.index_intervals.iter().copied().filter(|n| *n != current && Some(segment.base) != last);
        let intervals: Vec<u64> = std::iter::once(current).chain(others).collect();
        let lag = match known {
            known if known.indexes.may_be_broken() => Complete::MayBeBroken,
            known if known.failures.allow_a_fence() || known.indexes.may_be_behind() => Complete::MayLag,
            _ => complete,
        };
        let expected = |entry: fn(&[Stored<'_>], usize) -> (u64, u64)| {
            let each = intervals.iter().map(|n| {
                let counts = 1..=records.len();
                let due = counts.filter(|count| (*count as u64).is_multiple_of(*n));
                due.map(|count| entry(&records, count - 1)).collect()
            });
            each.collect::<Vec<_>>()
        };
        let index = format!("{}.index", segment.stem);
        if known.indexes.is_trusted(&index) {
            compare(f, &index, segment.index, expected(|r, i| (r[i].offset, r[i].position)), lag);
            if lag != Complete::MayBeBroken {
                each_names_its_record(f, &index, segment.index, &records);
            }
        }
        let timeindex = format!("{}.timeindex", segment.stem);
        if known.indexes.is_trusted(&timeindex) {
            compare(f, &timeindex, segment.timeindex, expected(latest), lag);
        }
    }
}

/// The time index's entry at a record: the largest timestamp so far, and the first record that has it.
fn latest(records: &[Stored<'_>], at: usize) -> (u64, u64) {
    let most = records[..=at].iter().map(|r| r.timestamp).max().unwrap_or(0);
    let first = records[..=at].iter().find(|r| r.timestamp == most);
    (most, first.map_or(0, |r| r.offset))
}

/// The records of a segment without bad bytes.
fn records<'a>(segment: &Segment<'a>) -> Option<Vec<Stored<'a>>> {
    segment
        .pieces()
        .into_iter()
        .map(|piece| match piece {
            Piece::Record(record) => Some(record),
            Piece::Bad { .. } => None,
        })
        .collect()
}

/// One of these has to be what the file says.
fn compare(
    f: &mut Findings,
    file: &str,
    bytes: Option<&[u8]>,
    expected: Vec<Vec<(u64, u64)>>,
    lag: Complete,
) {
    let bytes = bytes.unwrap_or_default();
    let mut differences = expected.iter().map(|expected| difference(bytes, expected, lag));
    let first = differences.next().flatten();
    if let Some(said) = first.filter(|_| !differences.any(|difference| difference.is_none())) {
        f.broke(Promise::Derived, "entries", file, said, &[]);
    }
}

/// What was expected, and what was found, where that is not the same.
fn difference(bytes: &[u8], expected: &[(u64, u64)], lag: Complete) -> Option<(String, String)> {
    let found = decode::entries(bytes);
    let whole = bytes.len().is_multiple_of(decode::ENTRY);
    let fits = |found: &Option<(u64, u64)>, expected: &(u64, u64)| match found {
        Some(found) => found == expected,
        None => lag == Complete::MayBeBroken,
    };
    let differs = found.iter().zip(expected).position(|(found, expected)| !fits(found, expected));
    let enough = match lag {
        Complete::Exactly => found.len() == expected.len() && whole,
        Complete::MayLag => found.len() <= expected.len(),
        Complete::MayBeBroken => true,
    };
    match differs {
        Some(i) => {
            Some((format!("entry {i} is {}", entry(expected[i])), found[i].map_or("broken".into(), entry)))
        }
        None if enough => None,
        None => Some((
            format!("{} entries of {} bytes", expected.len(), decode::ENTRY),
            format!("{} entries, {} bytes", found.len(), bytes.len()),
        )),
    }
}

fn entry((what, place): (u64, u64)) -> String {
    format!("{what} at {place}")
}

/// Whatever the interval: offsets ascend, and each entry names the start of its record.
fn each_names_its_record(f: &mut Findings, file: &str, bytes: Option<&[u8]>, records: &[Stored<'_>]) {
    let mut before = None;
    for entry in decode::entries(bytes.unwrap_or_default()) {
        let Some((offset, position)) = entry else { continue };
        let named = records.iter().find(|r| r.offset == offset);
        let ascends = before.is_none_or(|before| offset > before);
        before = Some(offset);
        if !(ascends && named.is_some_and(|r| r.position == position)) {
            let expected = named.map_or("a record that is there".into(), |r| format!("byte {}", r.position));
            let found = format!("offset {offset} at byte {position}");
            f.broke(Promise::Derived, "entry names another place", file, (expected, found), &[]);
            return;
        }
    }
}
