//! When the indexes get an entry: counted in appends and scans alike, so that a rebuilt index is the one that appending would
//! have written.

use crate::index::Entry;
use crate::units::{Offset, Position, Timestamp};

/// Counts a segment's records.
#[derive(Clone, Copy, Debug)]
pub struct Meter {
    interval: u64,
    /// Records until the next entry, itself included.
    until_entry: u64,
    /// The largest timestamp so far, and the first offset that had it.
    pub latest: Option<(Timestamp, Offset)>,
}

impl Meter {
    /// For an empty segment that gets an entry every `interval` records.
    pub fn new(interval: u64) -> Self {
        Self::after(0, interval, None)
    }

    /// For a segment that has `count` records.
    pub fn after(count: u64, interval: u64, latest: Option<(Timestamp, Offset)>) -> Self {
        Self { interval, until_entry: interval - count % interval, latest }
    }

    /// Counts one more record; gives the entries for `.index` and `.timeindex` where they are due.
    pub fn record(&mut self, offset: Offset, at: Timestamp, position: Position) -> Option<(Entry, Entry)> {
        if self.latest.is_none_or(|(latest, _)| at > latest) {
            self.latest = Some((at, offset));
        }
        // A count down: a division for every record would show in the time that recovery takes.
        self.until_entry -= 1;
        if self.until_entry > 0 {
            return None;
        }
        self.until_entry = self.interval;
        self.entries(offset, position)
    }

    /// Counts `count` records with one time, from `first` on; says which of them get an entry, counted from 0.
    pub fn batch(&mut self, first: Offset, at: Timestamp, count: u64) -> impl Iterator<Item = u64> + use<> {
        if self.latest.is_none_or(|(latest, _)| at > latest) {
            self.latest = Some((at, first));
        }
        let (due, interval) = (self.until_entry - 1, self.interval);
        self.until_entry = match count.checked_sub(self.until_entry) {
            Some(behind) => interval - behind % interval,
            None => self.until_entry - count,
        };
        std::iter::successors(Some(due), move |due| due.checked_add(interval))
            .take_while(move |due| *due < count)
    }

    /// The entries of a record that was counted and gets some.
    pub fn entries(&self, offset: Offset, position: Position) -> Option<(Entry, Entry)> {
        let (latest, holder) = self.latest?;
        Some((
            Entry { key: offset.get(), value: position.get() },
            Entry { key: latest.get(), value: holder.get() },
        ))
    }

    /// Goes on behind records that cannot be read.
    pub fn skip(&mut self, base: Offset, end: Offset) {
        *self = Self::after(end.since(base), self.interval, self.latest);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_batch_is_counted_as_its_records_are(
            interval in 1..9u64,
            before in 0..20u64,
            batches in prop::collection::vec((0..5u64, 0..30u64), 1..6),
        ) {
            let latest = Some((Timestamp::from_millis(2), Offset::ZERO));
            let mut one = Meter::after(before, interval, latest);
            let mut many = one;
            let mut offset = Offset::new(before);
            for (at, count) in batches {
                let at = Timestamp::from_millis(at);
                let first = offset;
                let mut expected = Vec::new();
                for _ in 0..count {
                    expected.extend(one.record(offset, at, Position::new(offset.get() * 10)));
                    offset = offset.next();
                }
                // An empty batch is none.
                if count > 0 {
                    let due: Vec<u64> = many.batch(first, at, count).collect();
                    let place = |nth: u64| (first.plus(nth), Position::new(first.plus(nth).get() * 10));
                    let entries = due.into_iter().filter_map(|nth| many.entries(place(nth).0, place(nth).1));
                    prop_assert_eq!(entries.collect::<Vec<_>>(), expected);
                }
                prop_assert_eq!(one.latest, many.latest);
                prop_assert_eq!(one.until_entry, many.until_entry);
            }
        }
    }
}
