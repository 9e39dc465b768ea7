//! What lies behind a place where no valid record is: the next one that follows, or what else is to be said of the log.
//!
//! A value may hold the bytes of records: whoever copies logs makes such values. In a record that is whole nobody looks for them. In
//! one that is torn or damaged they must not be taken for the log's own, so the broken record's header is asked first: where it
//! names the offset that belongs there, or nothing but that is wrong with it, it is that record's, and what it says of its
//! length is followed from header to header. Only a length that leads nowhere may be wrong. What lies inside it is the value's
//! then all the same, unless something shows that it is wrong:
//!
//! - the record's own checksum is right if it ends where a header with the next offset begins: that is where it ends;
//! - it is beyond the end of the file, and more of the header cannot be: a key that is longer than the record, or a time after
//!   the year 10889;
//! - a valid record lies across its end, or, where that is beyond the end of the file, ends with the file: a write that was
//!   interrupted stops anywhere, and hardly ever between two records in its value;
//! - between its end and a valid record behind there is no room for those whose offsets lie between.

use std::io;

use super::sums;
use super::unread::{Judged, Known, LedTo};
use super::window::{BOUND, Window};
use crate::disk::DiskFile;
use crate::record::{self, CRC_AT, HEADER_BYTES};
use crate::units::Offset;

/// Records behind a place where none is: where they begin, and their offsets.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ahead {
    /// The first that can follow: its offset leaves no room for more records than bytes.
    pub follows: Option<Place>,
    /// Before it, the one with the highest offset that cannot: a disk has put it in the wrong place.
    pub misplaced: Option<Place>,
}

/// Where a record begins, and its offset.
pub(super) type Place = (u64, Offset);

/// A record that is broken, and what its header says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Broken {
    pub at: u64,
    pub offset: Offset,
    /// Whether its header names the offset.
    pub is_named: bool,
    /// Where it says that it ends, if that can be.
    pub end: Option<u64>,
    /// Whether it must end there: that is where the file ends, or the header behind it begins.
    is_end_right: bool,
    /// Whether it cannot end there.
    pub is_end_wrong: bool,
}

/// What was found behind a broken record.
enum Found {
    /// This follows.
    Follows(Place),
    /// Here the broken record ends: the next begins, or should.
    Next(Place),
    Nothing,
}

impl<F: DiskFile> Window<'_, F> {
    /// What complete valid records there are from `position` on, where the one with the offset `expected` should be and is not.
    ///
    /// One that can follow there is found in any case. What is in the wrong place is found as far as its checksums can be
    /// computed in bounded time, since a value can be made of millions of plausible headers.
    pub fn look_forward(&mut self, position: u64, expected: Offset, known: Known<'_>) -> io::Result<Ahead> {
        self.sum_from(position);
        let budget = 64 * (self.limit().saturating_sub(position)) + (64 << 20);
        let (mut ahead, mut from, mut place) = (Ahead::default(), position + 1, (position, expected));
        if let Ok(stray) = self.record(position)?
            && stray.offset != expected
        {
            ahead.misplaced = Some((position, stray.offset));
            from = position + stray.len() as u64;
        }
        let mut look = Look { window: self, budget, known, led: LedTo::default(), ahead };
        loop {
            let broken = look.window.broken(place)?;
            match look.behind(broken, from)? {
                Found::Follows(place) => return Ok(Ahead { follows: Some(place), ..look.ahead }),
                Found::Nothing => return Ok(look.ahead),
                Found::Next(next) => {
                    let found = look.window.record(next.0)?;
                    if found.is_ok_and(|found| found.offset == next.1) {
                        return Ok(Ahead { follows: Some(next), ..look.ahead });
                    }
                    (place, from) = (next, next.0 + 1);
                }
            }
        }
    }

    /// What the header says of a record that is broken.
    fn broken(&mut self, (at, offset): Place) -> io::Result<Broken> {
        let limit = self.limit();
        let header = self.bytes(at, HEADER_BYTES)?;
        // Zeros name no offset, not even the first.
        let is_header = header.first_chunk().is_some_and(|header| *header != [0; HEADER_BYTES]);
        let names = is_header && record::claimed_offset(header) == Some(offset);
        let is_odd = is_header && !is_plausible_behind_its_size(header);
        // Also where the length of the key cannot be: that may be all that is wrong.
        let size = record::claimed_size(header).filter(|size| is_header && *size <= BOUND);
        // Zeros in the place of what cannot be read say nothing.
        let is_seen = self.unreadable_in(at, at + record::SIZE_AT.end as u64).is_none();
        let (names, size) = (names && is_seen, size.filter(|_| is_seen));
        let end = size.map(|size| at + HEADER_BYTES as u64 + u64::from(size));
        let is_there = end.filter(|end| *end <= limit);
        let (is_named, is_end_right) = match is_there {
            Some(end) if names => (true, self.begins(end, offset.next())?),
            // Where nothing but the offset has rotted, the checksum is right with the one that belongs there.
            Some(end) if self.is_but_for_its_offset(at, offset, end)? => (true, true),
            _ => (names, false),
        };
        let end = end.filter(|_| is_named);
        let is_end_wrong = is_named && end.is_none_or(|end| end > limit && is_odd);
        Ok(Broken { at, offset, is_named, end, is_end_right, is_end_wrong })
    }

    /// What a header holds up to its checksum, if that is there.
    fn head(&mut self, at: u64) -> io::Result<Option<[u8; CRC_AT.end]>> {
        Ok(self.bytes(at, CRC_AT.end)?.first_chunk().copied())
    }

    /// Whether a record that ends there has the right checksum, if it has this offset.
    fn is_but_for_its_offset(&mut self, at: u64, offset: Offset, end: u64) -> io::Result<bool> {
        let Some(mut head) = self.head(at)? else { return Ok(false) };
        head[record::OFFSET_AT].copy_from_slice(&offset.get().to_be_bytes());
        self.confirms_sum(&head, at, usize::try_from(end - at).unwrap_or(usize::MAX))
    }

    /// Whether what is there of a header names this offset.
    fn begins(&mut self, at: u64, offset: Offset) -> io::Result<bool> {
        let name = offset.get().to_be_bytes();
        let there = self.bytes(at, name.len())?;
        Ok(there.iter().zip(name).all(|(is, should)| *is == should))
    }

    /// The next place from `at` on where a header could be whose record is all there, with its offset and length.
    fn next_header(&mut self, mut at: u64) -> io::Result<Option<(u64, Offset, usize)>> {
        while at + HEADER_BYTES as u64 <= self.limit() {
            let left = self.limit() - at;
            let bytes = self.bytes(at, HEADER_BYTES)?;
            if bytes.len() < HEADER_BYTES {
                // The file is shorter than the log was: somebody has cut it behind our back.
                return Ok(None);
            }
            let Some(next) = bytes.windows(HEADER_BYTES).position(is_plausible) else {
                at += (bytes.len() - HEADER_BYTES + 1) as u64;
                continue;
            };
            let (header, left) = (&bytes[next..], left - next as u64);
            let len = record::announced_len(header, BOUND).ok().filter(|len| *len as u64 <= left);
            at += next as u64;
            if let Some((offset, len)) = record::claimed_offset(header).zip(len) {
                return Ok(Some((at, offset, len)));
            }
            at += 1;
        }
        Ok(None)
    }

    /// Whether a record of this length is there.
    fn is_record(&mut self, at: u64, len: usize) -> io::Result<bool> {
        if len > sums::SHORT {
            let Some(&head) = self.bytes(at, HEADER_BYTES)?.first_chunk() else { return Ok(false) };
            if !self.confirms_sum(&head, at, len)? {
                return Ok(false);
            }
        }
        Ok(self.record(at)?.is_ok())
    }

    /// Whether a broken record has the checksum that it says it has, if it ends here.
    fn ends_at(&mut self, broken: Broken, end: u64) -> io::Result<bool> {
        let len = end - broken.at;
        let size = len.checked_sub(HEADER_BYTES as u64).and_then(|size| u32::try_from(size).ok());
        let Some(size) = size.filter(|size| *size <= BOUND) else { return Ok(false) };
        let Some(mut head) = self.head(broken.at)? else { return Ok(false) };
        head[record::SIZE_AT].copy_from_slice(&size.to_be_bytes());
        self.confirms_sum(&head, broken.at, HEADER_BYTES + size as usize)
    }
}

/// A look at what lies behind a place.
pub(super) struct Look<'w, 'a, F> {
    pub window: &'w mut Window<'a, F>,
    /// How many bytes of records in the wrong place may still be checked.
    budget: u64,
    pub known: Known<'w>,
    /// What was found out last of where a record leads to.
    pub led: LedTo,
    ahead: Ahead,
}

impl<F: DiskFile> Look<'_, '_, F> {
    /// Goes from header to header behind a broken record.
    fn behind(&mut self, mut broken: Broken, mut at: u64) -> io::Result<Found> {
        let limit = self.window.limit();
        let (mut first, mut ends_with_file, before) = (None, false, self.ahead.misplaced);
        self.led = LedTo::default();
        // In the wrong place, if they are not in its value.
        let mut inside: Vec<Place> = Vec::new();
        while let Some((next, offset, len)) = self.window.next_header(at)? {
            let looked = first.map_or(0, |(first, _)| next - first);
            if broken.is_over(next, first.is_some()) {
                break;
            } else if looked > self.window.credit && !broken.is_end_right {
                // Good records are served, where it would take too long to prove that they are none.
                broken.is_end_wrong = true;
                break;
            }
            at = next + 1;
            let place = (next, offset);
            if broken.may_end_before(place) && self.window.ends_at(broken, next)? {
                // All that was found before lies in its value, which ends here.
                self.ahead.misplaced = before;
                return Ok(Found::Next(place));
            }
            let fits = self.known.ends.is_none_or(|end| offset < end) && broken.can_be_followed_by(place);
            if !(fits || len as u64 <= self.budget) || !self.window.is_record(next, len)? {
                self.budget = self.budget.saturating_sub(if fits { 0 } else { len as u64 });
                continue;
            }
            let fits = match self.judge(&broken, place, fits)? {
                Judged::Follows(fits) => fits,
                Judged::Unsure { end } => {
                    at = end;
                    continue;
                }
            };
            // What lies in its value is its own.
            at = next + len as u64;
            ends_with_file |= at == limit;
            if !fits {
                self.budget = self.budget.saturating_sub(len as u64);
                match broken.end {
                    Some(end) if next < end => inside.push(place),
                    _ => self.misplaced(place),
                }
            } else if !broken.is_end_right {
                broken.is_end_wrong |= broken.is_disproved_by(place, at);
                if broken.is_followed_by(place) {
                    return Ok(Found::Follows(place));
                }
                first = first.or(Some(place));
            }
        }
        if let Some((first, _)) = first.filter(|_| !broken.is_end_right) {
            self.window.credit = self.window.credit.saturating_sub(at - first);
        }
        Ok(match broken.end {
            // What was found before its end lies in its value.
            Some(end) if broken.is_end_right => Found::Next((end, broken.offset.next())),
            Some(end) if !broken.is_end_wrong && (end <= limit || !ends_with_file) => Found::Nothing,
            _ => {
                inside.into_iter().for_each(|place| self.misplaced(place));
                first.map_or(Found::Nothing, Found::Follows)
            }
        })
    }

    fn misplaced(&mut self, place: Place) {
        let higher = |(_, other): &Place| *other >= place.1;
        self.ahead.misplaced = self.ahead.misplaced.filter(higher).or(Some(place));
    }
}

impl Broken {
    /// Whether nothing from this byte on says more of it. `has_first`: there is one that might follow.
    fn is_over(&self, at: u64, has_first: bool) -> bool {
        match self.end {
            Some(end) if self.is_end_right => at >= end,
            // Behind the longest record there is nothing that shows where this one ends.
            _ => has_first && at > self.at + HEADER_BYTES as u64 + u64::from(BOUND),
        }
    }

    /// Whether it may end where this header begins, and its own checksum has to tell.
    fn may_end_before(&self, (_, offset): Place) -> bool {
        self.is_named && !self.is_end_right && offset == self.offset.next()
    }

    /// Whether a valid record can follow: it has another offset than this one, and one that leaves no room for more records
    /// than bytes.
    fn can_be_followed_by(&self, (at, offset): Place) -> bool {
        let first = if self.is_named { self.offset.next() } else { self.offset };
        offset >= first && offset.since(self.offset) <= (at - self.at) / HEADER_BYTES as u64
    }

    /// Whether a valid record that can follow does.
    fn is_followed_by(&self, (at, _): Place) -> bool {
        !self.is_named || (self.end.is_some_and(|end| at >= end) && !self.is_end_wrong)
    }

    /// Whether a valid record that can follow, and ends at `end`, shows that this one ends elsewhere than it says.
    fn is_disproved_by(&self, (at, offset): Place, end: u64) -> bool {
        let next = self.offset.next();
        let has_no_room = |says| offset.since(next) > (at - says) / HEADER_BYTES as u64;
        let is_wrong_behind = |says| at >= says && ((at > says && offset == next) || has_no_room(says));
        self.end.is_some_and(|says| (at < says && end > says) || is_wrong_behind(says))
    }
}

/// Whether what a header says behind its size can be: its key is no longer than it, and its time has less than 49 bits.
fn is_plausible_behind_its_size(header: &[u8]) -> bool {
    header.len() < HEADER_BYTES || (header[16..18] == [0, 0] && record::announced_len(header, BOUND).is_ok())
}

/// Whether a header could start here: offset below 2^48 (a partition with 281 trillion records), size within the bound, key
/// within the size. Nothing but zeros is none: its checksum would not be zero. A clock may show any time.
fn is_plausible(header: &[u8]) -> bool {
    header[0..2] == [0, 0] && record::announced_len(header, BOUND).is_ok() && header != [0; HEADER_BYTES]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::Batch;
    use crate::disk::counted::Counted;
    use crate::scan::{Hole, Misplaced, Scan, Tail};
    use crate::units::{Position, Timestamp};

    /// Records from this offset on, one of each value.
    fn log(first: u64, values: &[&[u8]]) -> Vec<u8> {
        let mut batch = Batch::new();
        values.iter().for_each(|value| batch.push(Some(b"k"), value));
        batch.seal(Offset::new(first), Timestamp::from_millis(1_700_000_000_000));
        batch.bytes().to_vec()
    }

    fn scan(bytes: &[u8]) -> Scan {
        let (len, file) = (bytes.len() as u64, Counted::new(bytes.to_vec()));
        Scan::run(&file, len, Offset::ZERO, 3, Known::end(None))
    }

    /// Values that hold records: of the offset that is next, of those behind it, of a log's beginning, of another log.
    fn values() -> Vec<Vec<u8>> {
        let (some, long) = ([&b"a"[..], b"bc", b"def", b""], vec![5; 2000]);
        let mut values = Vec::new();
        for first in [0, 1, 2, 3, 7, 5000] {
            let inner = log(first, &some);
            values.push(inner.clone());
            values.push([b"before it", &inner[..], b"behind it"].concat());
        }
        values.push(log(2, &[&long, &long]));
        values
    }

    /// Where the records in a value end, in the value.
    fn ends(value: &[u8]) -> Vec<usize> {
        let found =
            (0..value.len()).filter_map(|at| Some(at + record::decode(&value[at..], BOUND).ok()?.len()));
        found.collect()
    }

    #[test]
    fn a_write_that_is_torn_in_a_value_that_holds_records_is_a_torn_tail() {
        for value in values() {
            let (start, ends) = (32, ends(&value));
            let bytes = log(0, &[b"one", &value, b"three"]);
            let body = start + HEADER_BYTES + 1;
            for cut in start + 1..body + value.len() {
                let found = scan(&bytes[..cut]);
                if ends.iter().any(|end| body + end == cut) {
                    // That could as well be damage in the middle of a log that ends there.
                    assert_ne!(found.tail, Tail::Torn);
                    continue;
                }
                let is = (found.records, found.end_at.get(), found.tail);
                assert_eq!(is, (1, start as u64, Tail::Torn), "cut at {cut}");
            }
        }
    }

    #[test]
    fn a_flipped_bit_takes_its_record_and_none_in_its_value_comes_instead() {
        for value in values().into_iter().filter(|value| value.len() < 1000) {
            let (start, bytes) = (32, log(0, &[b"one", &value, b"three", b"four"]));
            let len = HEADER_BYTES + 1 + value.len();
            let hole = Hole {
                position: Position::new(start as u64),
                bytes: len as u64,
                first: Offset::new(1),
                next: Offset::new(2),
            };
            for bit in start * 8..(start + len) * 8 {
                let mut bytes = bytes.clone();
                bytes[bit / 8] ^= 1 << (bit % 8);
                let found = scan(&bytes);
                assert_eq!((found.end.get(), &found.holes[..]), (4, &[hole][..]), "bit {bit}");
                assert_eq!(found.tail, Tail::Clean, "bit {bit}");
            }
        }
    }

    /// The size of one record and what lies where that size points to have rotted. What is behind shows that more records come before it
    /// than there is room for behind the place that the size points to.
    #[test]
    fn a_size_that_leaves_no_room_for_what_must_follow_hides_nothing() {
        let log = log(0, &[b"one", b"two", b"three", b"four", b"five", b"six", b"seven"]);
        let starts: Vec<usize> =
            (0..log.len()).filter(|at| record::decode(&log[*at..], BOUND).is_ok()).collect();
        let mut bytes = log.clone();
        let says = u32::try_from(starts[5] + 4 - starts[1] - HEADER_BYTES).unwrap();
        bytes[starts[1]..][record::SIZE_AT].copy_from_slice(&says.to_be_bytes());
        bytes[starts[1] + 20] ^= 1;
        bytes[starts[5]..starts[6]].fill(0);
        let found = scan(&bytes);
        let holes: Vec<(u64, u64)> = found.holes.iter().map(|h| (h.first.get(), h.next.get())).collect();
        assert_eq!((holes, found.records, found.end.get()), (vec![(1, 2), (5, 6)], 5, 7));
    }

    /// The size of one record and something else of it have rotted. The next one lies across the place that the size points to,
    /// and there is room for it behind that place as well.
    #[test]
    fn a_size_that_points_into_the_next_record_does_not_hide_it() {
        let mut bytes = log(0, &[b"one", b"two", &[7; 300], b"four", b"five"]);
        let says = u32::try_from(HEADER_BYTES + 100).unwrap();
        bytes[32..][record::SIZE_AT].copy_from_slice(&says.to_be_bytes());
        bytes[32 + 20] ^= 1;
        let found = scan(&bytes);
        let holes: Vec<(u64, u64)> = found.holes.iter().map(|h| (h.first.get(), h.next.get())).collect();
        assert_eq!((holes, found.records, found.end.get()), (vec![(1, 2)], 4, 5));
    }

    /// What lies in a value is no record of the log, though the one that the file ends with is none of its next ones.
    #[test]
    fn a_misplaced_record_at_the_end_makes_no_record_of_what_lies_in_a_value_before_it() {
        for value in values() {
            let mut bytes = log(0, &[b"one", &value]);
            *bytes.last_mut().unwrap() ^= 1;
            let at = Position::new(bytes.len() as u64);
            bytes.extend(log(1 << 40, &[b"stray"]));
            let found = scan(&bytes);
            let tail = Tail::Damaged(Misplaced { found: Offset::new(1 << 40), position: at });
            assert_eq!((found.records, found.holes.len(), found.tail), (1, 0, tail));
        }
    }

    /// Garbage over the length of a record and all that is behind it in the header, and a last record that is lost.
    #[test]
    fn a_header_that_cannot_be_hides_nothing_behind_it() {
        let log = log(0, &[b"one", b"two", b"three", b"four"]);
        for (from, to) in [(9, 26), (9, 18)] {
            let mut bytes = log[..log.len() - 1].to_vec();
            bytes[32 + from..32 + to].fill(0x8c);
            // A length that can be.
            bytes[32 + 8] = 0;
            let found = scan(&bytes);
            assert_eq!((found.records, found.end.get(), found.tail), (2, 3, Tail::Torn), "{from} to {to}");
        }
    }

    #[test]
    fn zeros_before_the_first_record_are_not_its_header() {
        let found = scan(&[&[0; 40][..], &log(0, &[b"one", b"two"])].concat());
        assert_eq!((found.records, found.end.get(), found.tail), (2, 2, Tail::Clean));
    }

    /// A lost sector takes the end of one record and the beginning of the next.
    #[test]
    fn what_lies_before_lost_bytes_in_a_value_is_the_values() {
        let value = [&log(2, &[b"a", b"b"])[..], &[9; 200]].concat();
        let mut bytes = log(0, &[b"one", &value, b"three", b"four"]);
        let third = 32 + HEADER_BYTES + 1 + value.len();
        bytes[third - 100..third + 20].fill(0);
        let found = scan(&bytes);
        let [hole] = found.holes[..] else { panic!("{:?}", found.holes) };
        assert_eq!((hole.position.get(), hole.first.get(), hole.next.get()), (32, 1, 3));
        assert_eq!((found.records, found.end.get(), found.tail), (2, 4, Tail::Clean));
    }

    /// Where the size and something else of a record have rotted, what lies behind it is good as long as the log ends with a good
    /// record.
    #[test]
    fn a_size_that_rots_with_more_hides_nothing_where_the_log_ends_with_a_good_record() {
        let bytes = log(0, &[b"one", b"two", b"three", b"four"]);
        for size in [300, 1_000_000, 1 << 30] {
            let mut bytes = bytes.clone();
            bytes[32..][record::SIZE_AT].copy_from_slice(&u32::to_be_bytes(size));
            bytes[32 + 20] ^= 1;
            let whole = scan(&bytes);
            assert_eq!((whole.records, whole.end.get(), whole.tail), (3, 4, Tail::Clean), "{size}");
        }
    }
}
