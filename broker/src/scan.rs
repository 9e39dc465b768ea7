//! Reading a log from front to back, and telling a torn tail from damage.
//!
//! A scan goes from record to record: header within bounds, offset one more than the last, CRC. Where that stops, it
//! looks forward for a complete valid record:
//!
//! - there is none: a **torn tail**, the write that a crash interrupted;
//! - there is one that fits the sequence: a **hole**, with good records behind it;
//! - there is one that does not fit (an offset that was there before, or that is too far on): **disorder** where it begins right
//!   there, and else damage, unless others behind it fit.
//!
//! A value may hold the bytes of records, of this log's next offsets too. As long as the header of the broken record is there,
//! they are told apart (`ahead`): a write that a kill has interrupted always has one, unless it is too short for any record. In
//! these cases they are not, each of which takes more than one misfortune:
//!
//! - a power loss or rot has taken the offset in the header and something else of it, and left the records in the value: they are served as the log's
//!   own, since nothing shows that they are not, and good records behind damage must not be lost;
//! - an interrupted write ends exactly where a record in its value does, or a size that has rotted points to where the next offset
//!   begins in it: the same;
//! - the size of a record has rotted and points beyond the end of the file, its checksum or body has rotted too, and the file does not
//!   end with a good record: what lies behind it is taken for the rest of a torn write, and cut off where it was not synced;
//! - a disk has put a record of this log into the value of another: it is taken for a part of that value, and if it was the last one,
//!   its offset is given out again;
//! - who knows offset, millisecond and moment of the crash can make a value that deceives: CRC-32 is no signature.
//!
//! Where the file cannot be read, the scan goes on behind it, as over any other bytes that are no record: a sector that a
//! disk has lost takes the records in it, and not those behind it that are known to be the log's own (`unread`). And a tail is never taken for
//! torn on the strength of bytes that nobody has seen.

mod ahead;
mod sums;
mod unread;
mod window;

use crate::disk::DiskFile;
use crate::index::Entry;
use crate::meter::Meter;
use crate::record::HEADER_BYTES;
use crate::units::{Offset, Position, Timestamp};

pub use ahead::Ahead;
pub use unread::Known;
pub use window::{Unreadable, Window};

/// A stretch of a log that holds no valid record, with a valid one behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hole {
    /// Where it begins.
    pub position: Position,
    /// How many bytes it has.
    pub bytes: u64,
    /// The offset that should be there.
    pub first: Offset,
    /// The offset behind it.
    pub next: Offset,
}

/// What stands behind the last record that a scan accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tail {
    /// Nothing: the log ends with it.
    Clean,
    /// The rest of a write that was interrupted.
    Torn,
    /// Bytes that cannot be read, at least in part: nobody knows what they are.
    Unreadable(String),
    /// Another valid record where the next one should begin, and nothing behind it that follows.
    Disorder(Misplaced),
    /// No record begins there, and one that does not follow lies in it: a disk has put it there, or it is in a value.
    Damaged(Misplaced),
}

/// A valid record that does not follow: of several, the one with the highest offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Misplaced {
    /// The offset it claims.
    pub found: Offset,
    /// Where it lies.
    pub position: Position,
}

/// What a scan found.
#[derive(Clone, Debug)]
pub struct Scan {
    /// Records that were accepted.
    pub records: u64,
    /// The offset after the last of them.
    pub end: Offset,
    /// The byte after the last of them.
    pub end_at: Position,
    /// The largest timestamp, and the first offset that has it.
    pub latest: Option<(Timestamp, Offset)>,
    /// What `.index` should hold.
    pub index: Vec<Entry>,
    /// What `.timeindex` should hold.
    pub time_index: Vec<Entry>,
    /// The holes between them.
    pub holes: Vec<Hole>,
    /// Valid records that do not follow, in the holes and behind the last record: for each place the one with the highest offset.
    pub misplaced: Vec<Offset>,
    /// What could not be read of them, and of what stands behind.
    pub unreadable: Vec<Unreadable>,
    /// What stands behind them.
    pub tail: Tail,
}

impl Scan {
    /// Scans a segment's log from its start.
    pub fn run<F: DiskFile>(file: &F, len: u64, base: Offset, interval: u64, known: Known<'_>) -> Scan {
        Self::run_from(file, len, base, (Position::ZERO, base), Meter::new(interval), known)
    }

    /// Scans on from where a record is expected to begin, with what is known of the records before it.
    pub fn run_from<F: DiskFile>(
        file: &F,
        len: u64,
        base: Offset,
        (from, expected): (Position, Offset),
        mut meter: Meter,
        known: Known<'_>,
    ) -> Scan {
        let mut window = Window::new(file, len);
        let (mut at, mut end) = (from.get(), expected);
        let (mut index, mut time_index, mut holes) = (Vec::new(), Vec::new(), Vec::new());
        let (mut records, mut misplaced) = (0, Vec::new());
        let tail = loop {
            if at >= len {
                break Tail::Clean;
            }
            let found = match window.record(at) {
                Ok(found) => found.ok().map(|r| (r.offset, r.timestamp, r.len())),
                Err(e) => break Tail::Unreadable(e.to_string()),
            };
            if let Some((offset, timestamp, bytes)) = found
                && offset == end
            {
                if let Some((place, time)) = meter.record(offset, timestamp, Position::new(at)) {
                    index.push(place);
                    time_index.push(time);
                }
                records += 1;
                end = end.next();
                at += bytes as u64;
                continue;
            }
            let begins = found.is_some();
            let ahead = match window.look_forward(at, end, known) {
                Err(e) => break Tail::Unreadable(e.to_string()),
                Ok(ahead) => ahead,
            };
            misplaced.extend(ahead.misplaced.map(|(_, found)| found));
            let Some((next_at, offset)) = ahead.follows else {
                // What cannot be read may be what follows, whatever lies behind it.
                break match (window.unreadable_in(at, len), ahead.misplaced) {
                    (Some(bad), _) => Tail::Unreadable(bad.why.clone()),
                    (None, Some((position, found))) => {
                        let misplaced = Misplaced { found, position: Position::new(position) };
                        if begins { Tail::Disorder(misplaced) } else { Tail::Damaged(misplaced) }
                    }
                    (None, None) => Tail::Torn,
                };
            };
            holes.push(Hole { position: Position::new(at), bytes: next_at - at, first: end, next: offset });
            meter.skip(base, offset);
            (at, end) = (next_at, offset);
        };
        let (latest, end_at, unreadable) = (meter.latest, Position::new(at), window.into_unreadable());
        Scan { records, end, end_at, latest, index, time_index, holes, misplaced, unreadable, tail }
    }

    /// Where something is missing that a power loss may have torn out of what was never synced, and the first offset that is missing there:
    /// each hole, and what stands behind the last record, unless that is an unfinished write as any crash leaves it.
    pub fn torn_out(&self) -> impl Iterator<Item = (Position, Offset)> + '_ {
        let is_torn = match self.tail {
            // In a torn write, too, there may be what looks like a record. One that begins where another should is no tear.
            Tail::Damaged(_) => true,
            // Behind damage none is cut, but what was never synced.
            Tail::Torn => !self.holes.is_empty(),
            _ => false,
        };
        let holes = self.holes.iter().map(|hole| (hole.position, hole.first));
        holes.chain(is_torn.then_some((self.end_at, self.end)))
    }
}

/// How far a log had come beyond `end`, as records that landed in the wrong place show: what lies between is damaged. They are
/// believed where all the damage has room for those that are missing before them; others are no records of this log.
pub fn end_by_strays(misplaced: &[Offset], end: Offset, damaged: u64) -> Option<Offset> {
    let room = damaged / HEADER_BYTES as u64;
    let shows = |found: &&Offset| **found >= end && found.since(end) <= room;
    misplaced.iter().filter(shows).max().map(|found| found.next())
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;

    use proptest::prelude::*;

    use super::*;
    use crate::batch::Batch;
    use crate::disk::counted::Counted;

    fn log(values: &[&[u8]]) -> Vec<u8> {
        let mut batch = Batch::new();
        for value in values {
            batch.push(Some(b"k"), value);
        }
        batch.seal(Offset::ZERO, Timestamp::from_millis(1_700_000_000_000));
        batch.bytes().to_vec()
    }

    fn file(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    fn scan(bytes: &[u8]) -> Scan {
        Scan::run(&file(bytes), bytes.len() as u64, Offset::ZERO, 3, Known::end(None))
    }

    #[test]
    fn the_third_record_of_the_example_gives_the_first_entry() {
        let mut batch = Batch::new();
        batch.push(Some(b"user-1"), b"hello");
        batch.push(Some(b"user-2"), b"world");
        batch.push(Some(b"user-3"), b"!");
        batch.seal(Offset::ZERO, Timestamp::from_millis(5));
        let scan = scan(batch.bytes());
        assert_eq!([0, 1, 2].map(|nth| batch.start(nth)), [0, 39, 78]);
        assert_eq!(batch.byte_len(), 113);
        assert_eq!(scan.index, [Entry { key: 2, value: 78 }]);
        assert_eq!(scan.time_index, [Entry { key: 5, value: 0 }]);
    }

    #[test]
    fn a_log_cut_at_any_byte_ends_with_the_last_whole_record() {
        let bytes = log(&[b"one", b"", b"three"]);
        let ends = [0, 32, 61, 95];
        for cut in 0..=bytes.len() {
            let scan = scan(&bytes[..cut]);
            let whole = ends.iter().rposition(|&e| e <= cut).unwrap();
            assert_eq!((scan.records, scan.end_at.get()), (whole as u64, ends[whole] as u64), "cut at {cut}");
            assert_eq!(scan.tail, if cut == ends[whole] { Tail::Clean } else { Tail::Torn }, "cut at {cut}");
            assert!(scan.holes.is_empty());
        }
    }

    #[test]
    fn zeros_behind_the_last_record_are_a_torn_tail_however_many() {
        for zeros in [1, 27, 28, 29, 56, 4096, 300_000] {
            let mut bytes = log(&[b"one"]);
            let end = bytes.len() as u64;
            bytes.resize(bytes.len() + zeros, 0);
            let scan = scan(&bytes);
            assert_eq!((scan.records, scan.end_at.get(), scan.tail), (1, end, Tail::Torn), "{zeros} zeros");
        }
        assert_eq!(scan(&[0; 28]).records, 0, "a zero header is no record, not even at offset 0");
    }

    #[test]
    fn a_flipped_bit_anywhere_is_a_hole_when_a_record_follows_and_a_tail_when_none_does() {
        let bytes = log(&[b"one", b"two", b"three"]);
        for bit in 0..bytes.len() * 8 {
            let mut broken = bytes.clone();
            broken[bit / 8] ^= 1 << (bit % 8);
            let scan = scan(&broken);
            if bit / 8 < 64 {
                let hit = (bit / 8 / 32) as u64;
                let hole = Hole {
                    position: Position::new(hit * 32),
                    bytes: 32,
                    first: Offset::new(hit),
                    next: Offset::new(hit + 1),
                };
                assert_eq!((&scan.holes[..], scan.end.get()), (&[hole][..], 3), "bit {bit}");
            } else {
                assert_eq!((scan.end.get(), scan.tail), (2, Tail::Torn), "bit {bit}");
            }
        }
    }

    #[test]
    fn a_record_out_of_sequence_is_disorder_and_never_a_tail_to_cut() {
        let one = log(&[b"one"]);
        for (second, expected) in [(0, 1), (7, 1)] {
            let mut next = Batch::new();
            next.push(None, b"next");
            next.seal(Offset::new(second), Timestamp::ZERO);
            let scan = scan(&[&one[..], next.bytes()].concat());
            assert_eq!(scan.end.get(), expected);
            assert_eq!(
                scan.tail,
                Tail::Disorder(Misplaced { found: Offset::new(second), position: Position::new(32) })
            );
        }
    }

    /// What a write that landed in the wrong place has hit is damaged, and nothing behind it.
    #[test]
    fn a_misplaced_record_does_not_hide_those_that_follow() {
        let misplaced = |value: &[u8]| {
            let mut batch = Batch::new();
            batch.push(None, value);
            batch.seal(Offset::new(9), Timestamp::ZERO);
            batch.bytes().to_vec()
        };
        let (whole, stray) = (log(&[b"0", &[7; 200], b"2", b"3"]), misplaced(b"stray"));
        // In the middle of a record, whose value may have it, and where one begins.
        for at in [100, 30] {
            let mut bytes = whole.clone();
            bytes[at..at + stray.len()].copy_from_slice(&stray);
            let found = scan(&bytes);
            let misplaced_at = Misplaced { found: Offset::new(9), position: Position::new(at as u64) };
            let rest = if at == 30 { Tail::Disorder(misplaced_at) } else { Tail::Damaged(misplaced_at) };
            assert_eq!((found.records, found.end.get(), &found.tail), (3, 4, &Tail::Clean));
            // There it shows that the log had come further.
            let shown = if at == 30 { &[Offset::new(9)][..] } else { &[] };
            assert_eq!(found.misplaced, shown);
            assert_eq!(end_by_strays(&found.misplaced, found.end, 229), shown.first().map(|o| o.next()));
            let [hole] = found.holes[..] else { panic!("{:?}", found.holes) };
            assert_eq!((hole.position.get(), hole.bytes, hole.next.get()), (30, 229, 2));

            // Where none follows, it is what was found; what lies in its value is no record of this log.
            let follows = &whole[259..];
            for stray in [misplaced(b"stray"), misplaced(follows)] {
                let found = scan(&[&whole[..at], &stray].concat());
                assert_eq!((found.records, found.holes.len(), &found.tail), (1, 0, &rest));
            }
        }
    }

    /// A segment ends where the next one begins: records of offsets that are the next one's lie in a value.
    #[test]
    fn what_lies_behind_the_end_of_a_segment_does_not_follow() {
        let mut inner = Batch::new();
        inner.push(None, b"another's");
        inner.seal(Offset::new(3), Timestamp::ZERO);
        let mut bytes = log(&[b"0", &[&[7; 100], inner.bytes()].concat(), b"2"]);
        // Nothing of the header is left to say how long the record is.
        bytes[30..30 + HEADER_BYTES].fill(9);
        let scan = |ends| Scan::run(&file(&bytes), bytes.len() as u64, Offset::ZERO, 3, Known::end(ends));
        let found = scan(Some(Offset::new(3)));
        assert_eq!((found.records, found.end.get(), &found.tail), (2, 3, &Tail::Clean));
        assert_eq!((found.holes[0].first.get(), found.holes[0].next.get()), (1, 2));
        // Where the segment is the last one, it may be what follows.
        assert_eq!(scan(None).end.get(), 4);
    }

    #[test]
    fn a_misplaced_record_tells_of_as_many_as_the_damage_can_have_held() {
        let end_by = |found: &[u64], damaged| {
            let found: Vec<Offset> = found.iter().copied().map(Offset::new).collect();
            end_by_strays(&found, Offset::new(10), damaged).map(Offset::get)
        };
        assert_eq!(end_by(&[9], 1000), None);
        assert_eq!(end_by(&[10], 28), Some(11));
        assert_eq!(end_by(&[12, 5000, 3], 2 * 28), Some(13));
        assert_eq!(end_by(&[12], 2 * 28 - 1), None);
    }

    /// The log had come as far as the furthest of them shows, whatever lies behind that one.
    #[test]
    fn of_several_misplaced_records_the_one_with_the_highest_offset_counts() {
        let whole = log(&[b"0", b"1", b"2", b"3", b"4"]);
        let stray = |offset| {
            let mut batch = Batch::new();
            batch.push(None, b"01");
            batch.seal(Offset::new(offset), Timestamp::ZERO);
            batch.bytes().to_vec()
        };
        let disorder = |at| Tail::Disorder(Misplaced { found: Offset::new(9), position: Position::new(at) });
        let highest = |bytes: &[u8]| scan(bytes).misplaced.into_iter().max().map(Offset::get);
        for (first, second, at) in [(9, 7, 30), (7, 9, 60)] {
            assert_eq!(scan(&[&whole[..30], &stray(first), &stray(second)].concat()).tail, disorder(at));
            let mut bytes = whole.clone();
            bytes[30..60].copy_from_slice(&stray(first));
            bytes[90..120].copy_from_slice(&stray(second));
            assert_eq!(highest(&bytes), Some(9));
        }
        let mut bytes = whole.clone();
        bytes[30..60].copy_from_slice(&stray(9));
        bytes[100] ^= 1;
        assert_eq!(highest(&bytes), Some(9), "a hole without any lies behind it");
    }

    #[test]
    fn an_old_record_between_two_is_bytes_that_are_no_record() {
        let (whole, old) = (log(&[b"0", b"1", b"2"]), log(&[b"0"]));
        let found = scan(&[&whole[..60], &old, &whole[60..]].concat());
        assert_eq!((found.records, found.end.get(), &found.tail), (3, 3, &Tail::Clean));
        let [hole] = found.holes[..] else { panic!("{:?}", found.holes) };
        assert_eq!(
            (hole.position.get(), hole.bytes, hole.first, hole.next),
            (60, 30, hole.next, Offset::new(2))
        );
    }

    #[test]
    fn what_looks_like_headers_is_a_torn_tail_like_anything_else() {
        let numbers = |n: u32| (0..n).flat_map(|i| (i.wrapping_mul(40_503) % 65_536).to_le_bytes());
        // The next offset, and a length that is there: a header for each 28 bytes, as a client can make them.
        let header = |len: u32| [&1u64.to_be_bytes()[..], &len.to_be_bytes(), &[7; 4], &[0; 12]].concat();
        let garbage: [Vec<u8>; 4] = [
            // Each 4-byte step looks like a header that announces 65,536 bytes.
            [0u8, 0, 1, 0].repeat(500_000),
            numbers(20_000).collect(),
            numbers(500_000).collect(),
            header(500_000).repeat(50_000),
        ];
        for garbage in garbage {
            let mut bytes = log(&[b"one"]);
            bytes.extend(garbage);
            let scan = scan(&bytes);
            assert_eq!((scan.records, scan.tail), (1, Tail::Torn));
        }
    }

    /// As a power loss leaves a log of which it takes pages in any order.
    #[test]
    fn a_log_with_a_thousand_holes_is_passed_over_once() {
        // One that is long enough to be worth a checksum that is put together; and one made of what looks like longer records.
        let header = |len: u32| [&[0; 8], &len.to_be_bytes()[..], &[7; 4], &[0; 12]].concat();
        // And one whose header is lost from the size on.
        let (sevens, headers) = (vec![7; 2020], header(60_000).repeat(72));
        for (value, lost, factor) in [(&sevens, 20..21, 3), (&headers, 20..21, 8), (&sevens, 8..100, 5)] {
            let mut bytes = log(&vec![&value[..]; 2000]);
            let record = bytes.len() / 2000;
            let lost = |nth: usize| lost.start + nth * record..lost.end + nth * record;
            (1..2000).step_by(2).for_each(|nth| bytes[lost(nth)].fill(0));
            let (len, file) = (bytes.len() as u64, Counted::new(bytes));
            let scan = Scan::run(&file, len, Offset::ZERO, 64, Known::end(None));
            assert_eq!((scan.holes.len(), scan.end.get(), scan.tail), (999, 1999, Tail::Torn));
            let read = file.read();
            assert!(read < factor * len, "{read} bytes were read of {len}");
        }
    }

    #[test]
    fn a_long_record_behind_what_looks_like_headers_is_found() {
        let mut batch = Batch::new();
        batch.push(None, &[0u8, 0, 1, 0].repeat(100_000));
        batch.push(None, &[5; 300_000]);
        batch.seal(Offset::ZERO, Timestamp::from_millis(1));
        let mut bytes = batch.bytes().to_vec();
        bytes[20] ^= 1;
        let scan = scan(&bytes);
        assert_eq!((scan.holes.len(), scan.end.get(), scan.tail), (1, 2, Tail::Clean));
        assert_eq!(scan.holes[0].next.get(), 1);
    }

    proptest! {
        #[test]
        fn any_bytes_behind_a_log_never_lose_a_record_before_them(garbage in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut bytes = log(&[b"one", b"two"]);
            let end = bytes.len() as u64;
            bytes.extend(garbage);
            let scan = scan(&bytes);
            prop_assert_eq!((scan.records, scan.end_at.get()), (2, end));
        }
    }
}
