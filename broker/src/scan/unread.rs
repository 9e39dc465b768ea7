//! What shows that a record is the log's own, and what lies behind bytes that cannot be read.
//!
//! Bytes that cannot be read are another thing than bytes that are damaged: they may be whole, and the disk may give them back. Where a
//! record may begin in them, nobody knows how far it reaches: what looks like a record behind them may lie in its value, and to serve that, or to
//! count on from it, would be wrong for good. So it is believed only where something shows that it is the log's own:
//!
//! - the index names its place, or that of one that it leads to, each record beginning where the one before it ends;
//! - or it leads to the end of the file in the same way, and that is where the log is known to end.
//!
//! That also shows of a record that it is in its place where there is no room before it for those whose offsets lie between, since a disk has put another
//! one there.
//!
//! What shows nothing of the kind stays unread with the bytes before it: a reader is told that the disk has failed, and where it is the end of the log,
//! nobody knows where that is.

use std::io;

use super::ahead::{Broken, Look, Place};
use super::window::Window;
use crate::disk::DiskFile;
use crate::units::{Offset, Position};

/// What is known of a log besides its bytes.
#[derive(Clone, Copy)]
pub struct Known<'a> {
    /// Where it ends; no record from there on is its own.
    pub ends: Option<Offset>,
    /// Whether its index says that the record with this offset begins at this byte.
    pub names: &'a dyn Fn(Offset, Position) -> bool,
}

impl Known<'_> {
    /// Where it ends, if that, and no place of a record.
    pub fn end(ends: Option<Offset>) -> Self {
        Self { ends, names: &|_, _| false }
    }

    /// Nothing, for whoever wants to see all that may be a record: any place may be one's.
    pub fn nothing() -> Self {
        Self { ends: None, names: &|_, _| true }
    }
}

/// Where a record has led to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LedTo {
    pub position: u64,
    /// Whether that is known to be a place of the log's own.
    pub is_known: bool,
}

/// What is to be said of a valid record behind a broken one.
pub(super) enum Judged {
    /// Whether it follows, as far as the broken one's length does not say otherwise.
    Follows(bool),
    /// It may lie in the value of one that begins in bytes that cannot be read, as all may that it leads to, up to here.
    Unsure { end: u64 },
}

impl<F: DiskFile> Look<'_, '_, F> {
    /// Whether a valid record that `fits`, or does not, follows a broken one, if that can be known.
    pub(super) fn judge(&mut self, broken: &Broken, place: Place, fits: bool) -> io::Result<Judged> {
        let is_unsure = self.window.is_behind_unread(broken, place.0);
        // There may be no room before it since what was taken for the record before the broken one was put there by a disk. Where the broken
        // one's header is there, that one is in its place.
        let is_due =
            !broken.is_named && place.1 >= broken.offset && self.known.ends.is_none_or(|end| place.1 < end);
        if !is_unsure && (fits || !is_due) {
            return Ok(Judged::Follows(fits));
        }
        let led = self.lead(place)?;
        if is_unsure && !led.is_known {
            return Ok(Judged::Unsure { end: led.position });
        }
        Ok(Judged::Follows(fits || is_due && led.is_known))
    }

    /// To where a record leads. The next ones lead to the same.
    fn lead(&mut self, place: Place) -> io::Result<LedTo> {
        if place.0 >= self.led.position {
            self.led = self.window.leads_to(place, self.known)?;
        }
        Ok(self.led)
    }
}

impl<F: DiskFile> Window<'_, F> {
    /// Whether what lies at this byte may lie in the value of a record that begins in bytes that cannot be read.
    fn is_behind_unread(&self, broken: &Broken, at: u64) -> bool {
        let ends = broken.end.filter(|end| !broken.is_end_wrong && *end <= at);
        self.unreadable_in(ends.unwrap_or(broken.at), at).is_some()
    }

    /// Goes from a record to the next, as long as each begins where the one before it ends, to a place that is known or to where that ends.
    fn leads_to(&mut self, (mut at, mut offset): Place, known: Known<'_>) -> io::Result<LedTo> {
        loop {
            let is_end = at == self.limit() && known.ends == Some(offset);
            if is_end || (known.names)(offset, Position::new(at)) {
                return Ok(LedTo { position: at, is_known: true });
            }
            match self.record(at)? {
                Ok(found) if found.offset == offset => {
                    (at, offset) = (at + found.len() as u64, offset.next())
                }
                _ => return Ok(LedTo { position: at, is_known: false }),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::super::window::tests::Bad;
    use super::super::{Scan, Tail};
    use super::*;
    use crate::batch::Batch;
    use crate::record::HEADER_BYTES;
    use crate::units::Timestamp;

    /// Records from this offset on, one of each value.
    fn log(first: u64, values: &[&[u8]]) -> Batch {
        let mut batch = Batch::new();
        values.iter().for_each(|value| batch.push(None, value));
        batch.seal(Offset::new(first), Timestamp::ZERO);
        batch
    }

    /// Holes, where the log ends, and whether it is known what lies behind that.
    fn scan(bytes: &[u8], bad: Range<u64>, known: Known<'_>) -> (Vec<(u64, u64)>, u64, bool) {
        let file = Bad { bytes: bytes.to_vec(), bad };
        let found = Scan::run(&file, bytes.len() as u64, Offset::ZERO, 3, known);
        let holes = found.holes.iter().map(|hole| (hole.first.get(), hole.next.get()));
        (holes.collect(), found.end.get(), !matches!(found.tail, Tail::Unreadable(_)))
    }

    /// The second of four records holds others, and the sector with its header is lost.
    fn holds_others(inner: u64, behind: &[u8]) -> Batch {
        let value = [&[7; 200], log(inner, &[b"a", b"b"]).bytes(), behind].concat();
        log(0, &[&[7; 450], &value, b"three", b"four"])
    }

    #[test]
    fn what_may_lie_in_a_value_is_followed_only_where_it_leads_to_what_is_known() {
        let lost = 0..512;
        for inner in [2, 3, 4, 9] {
            let log = holds_others(inner, b"x");
            let (third, fourth) = (log.start(2) as u64, log.start(3) as u64);
            assert_eq!(scan(log.bytes(), lost.clone(), Known::end(None)), (vec![], 0, false));
            for ends in [4, 40] {
                // What is in the value leads to no end, and what is behind it only to the right one.
                let right = if ends == 4 { (vec![(0, 2)], 4, true) } else { (vec![], 0, false) };
                assert_eq!(
                    scan(log.bytes(), lost.clone(), Known::end(Some(Offset::new(ends)))),
                    right,
                    "{inner}"
                );
            }
            for named in [(2, third), (3, fourth)] {
                let names = |offset: Offset, position: Position| (offset.get(), position.get()) == named;
                let known = Known { ends: None, names: &names };
                assert_eq!(scan(log.bytes(), lost.clone(), known), (vec![(0, 2)], 4, true), "{inner}");
            }
        }
    }

    /// As long as its header is there, nothing else is asked.
    #[test]
    fn what_lies_behind_a_record_whose_length_is_known_follows() {
        let value = [&[7; 800], log(2, &[b"a", b"b"]).bytes(), &[7; 800]].concat();
        let log = log(0, &[b"one", &value, b"three"]);
        for bad in [512..513, 1024..1025, 512..1500] {
            assert_eq!(scan(log.bytes(), bad, Known::end(None)), (vec![(1, 2)], 3, true));
        }
    }

    /// A size of which some bytes are there is none: the others are not zeros.
    #[test]
    fn a_size_that_cannot_be_read_to_its_end_says_nothing() {
        let value = [&[7; 900], log(2, &[b"a", b"b"]).bytes(), &[7; 10]].concat();
        assert!(value.len() > 0x300);
        let log = log(0, &[&[7; 512 - HEADER_BYTES - 11], &value]);
        assert_eq!(scan(log.bytes(), 512..513, Known::end(None)), (vec![], 1, false));
    }

    #[test]
    fn a_record_of_another_place_behind_what_cannot_be_read_shows_nothing() {
        let bytes = [log(0, &[&[7; 1200]]).bytes(), log(5000, &[b"stray"]).bytes()].concat();
        let file = |bad| Bad { bytes: bytes.clone(), bad };
        let stray =
            |file: &Bad| Scan::run(file, bytes.len() as u64, Offset::ZERO, 3, Known::end(None)).misplaced;
        assert_eq!(stray(&file(0..1)), []);
        assert_eq!(stray(&file(512..513)), [Offset::new(5000)]);
    }

    /// One record's end is lost with the next one's header, and what lies in the next one's value does not show that the first ends elsewhere.
    #[test]
    fn what_may_lie_in_a_value_disproves_no_length() {
        let first = [log(5000, &[b"a"]).bytes(), &[7; 500]].concat();
        let second = [&[7; 500], log(2, &[b"a"]).bytes(), b"x"].concat();
        let log = log(0, &[b"one", &first, &second]);
        let file = Bad { bytes: log.bytes().to_vec(), bad: 512..513 };
        let found = Scan::run(&file, log.byte_len() as u64, Offset::ZERO, 3, Known::end(None));
        assert_eq!((found.end.get(), found.misplaced), (1, vec![]));
    }

    /// A disk has written the first record once more, further on, over its end and the next one. What follows whole in its place is found where
    /// it is known that the log ends with it, or where an entry names it.
    #[test]
    fn a_record_that_leaves_no_room_for_the_next_ones_does_not_hide_them() {
        let log = log(0, &[b"one", b"two", b"three", b"four", b"five", b"six"]);
        let bytes = [&[0; 30][..], &log.bytes()[..31], &log.bytes()[61..]].concat();
        let names =
            |offset: Offset, position: Position| (offset.get(), position.get()) == (4, log.start(4) as u64);
        let end = |end| Known::end(Some(Offset::new(end)));
        for known in [end(6), Known { ends: None, names: &names }] {
            assert_eq!(scan(&bytes, 0..0, known), (vec![(0, 0), (1, 2)], 6, true));
        }
        for known in [end(7), Known::end(None)] {
            assert_eq!(scan(&bytes, 0..0, known), (vec![(0, 0)], 1, true));
        }
    }
}
