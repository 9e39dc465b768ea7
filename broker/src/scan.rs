//! Reading a log from front to back, and telling a torn tail from damage.
//!
//! A scan goes from record to record: header within bounds, offset one more than the last, CRC. Where that stops, it
//! looks forward for a complete valid record:
//!
//! - there is none: a **torn tail**, the write that a crash interrupted;
//! - there is one that fits the sequence: a **hole**, with good records behind it;
//! - there is one that does not fit (an offset that was there before, or that is too far on): **disorder**.
//!
//! Looking forward cannot tell a record from a value that holds the bytes of one. That errs on the safe side: bytes are
//! kept that might have been cut.
//!
//! Where the file cannot be read, the scan goes on behind it, as over any other bytes that are no record: a sector that a
//! disk has lost takes the records in it, and not those behind it. Only a tail is never taken for torn on the strength
//! of bytes that nobody has seen.

use std::io;

use crate::disk::{self, DiskFile};
use crate::index::Entry;
use crate::record::{self, Found, HEADER_BYTES, Invalid};
use crate::settings::Settings;
use crate::units::{Offset, Position, Timestamp};

/// How much a scan reads at a time.
const CHUNK: usize = 256 << 10;
/// How much is read to look at single records.
const SMALL_CHUNK: usize = 4 << 10;

/// Where a read fails, it is tried again in pieces of this: what a device reads whole or not at all.
const SECTOR: usize = 512;
/// A file in which more sectors than this fail is not read around: each may cost the device seconds.
const SECTORS_MAX: usize = 64;

/// The largest size that a header is believed to announce.
const BOUND: u32 = Settings::RECORD_BYTES_MAX;

/// A window that moves forward over a file.
#[derive(Debug)]
pub struct Window<'a, F> {
    file: &'a F,
    /// The byte after the last that belongs to the log.
    limit: u64,
    chunk: usize,
    buf: Vec<u8>,
    /// The file position of `buf[0]`.
    buf_at: u64,
    unreadable: Vec<Unreadable>,
    sectors_failed: usize,
}

/// Bytes that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// The first.
    pub position: u64,
    /// The one behind the last.
    pub end: u64,
    /// What the disk said.
    pub why: String,
}

impl<'a, F: DiskFile> Window<'a, F> {
    /// Looks at the first `limit` bytes of a file.
    pub fn new(file: &'a F, limit: u64) -> Self {
        let (buf, unreadable) = (Vec::new(), Vec::new());
        Self { file, limit, chunk: CHUNK, buf, buf_at: 0, unreadable, sectors_failed: 0 }
    }

    /// The same, for a look at few records.
    pub fn small(file: &'a F, limit: u64) -> Self {
        Self { chunk: SMALL_CHUNK, ..Self::new(file, limit) }
    }

    /// Up to `want` bytes from `position` on, or more; fewer only where the log ends.
    #[inline]
    pub fn bytes(&mut self, position: u64, want: usize) -> io::Result<&[u8]> {
        let have_to = self.buf_at + self.buf.len() as u64;
        let want_to = (position + want as u64).min(self.limit);
        if position < self.buf_at || position > have_to || want_to > have_to {
            self.load(position, want)?;
        }
        let skip = usize::try_from(position.saturating_sub(self.buf_at)).unwrap_or(usize::MAX);
        Ok(self.buf.get(skip..).unwrap_or_default())
    }

    fn load(&mut self, position: u64, want: usize) -> io::Result<()> {
        let available = self.limit.saturating_sub(position);
        let available = usize::try_from(available).unwrap_or(usize::MAX);
        self.buf.resize(available.min(want.max(self.chunk)), 0);
        let n = match disk::read_full_at(self.file, &mut self.buf, position) {
            Ok(n) => n,
            Err(_) => self.read_around(position).inspect_err(|_| self.buf.clear())?,
        };
        self.buf.truncate(n);
        self.buf_at = position;
        Ok(())
    }

    /// Fills the buffer sector by sector, with zeros for what cannot be read: those are no record.
    fn read_around(&mut self, position: u64) -> io::Result<usize> {
        let mut done = 0;
        while done < self.buf.len() {
            let at = position + done as u64;
            let in_sector = usize::try_from(at % SECTOR as u64).unwrap_or(0);
            let len = (SECTOR - in_sector).min(self.buf.len() - done);
            let piece = &mut self.buf[done..done + len];
            match disk::read_full_at(self.file, piece, at) {
                Ok(n) if n < len => return Ok(done + n),
                Ok(_) => {}
                Err(e) if self.sectors_failed == SECTORS_MAX => return Err(e),
                Err(e) => {
                    piece.fill(0);
                    self.sectors_failed += 1;
                    self.fails(at, at + len as u64, &e);
                }
            }
            done += len;
        }
        Ok(done)
    }

    fn fails(&mut self, position: u64, end: u64, why: &io::Error) {
        match self.unreadable.last_mut() {
            // The next sector, or the same again.
            Some(last) if (last.position..=last.end).contains(&position) => last.end = last.end.max(end),
            _ => self.unreadable.push(Unreadable { position, end, why: why.to_string() }),
        }
    }

    /// The first bytes from `position` to `end` that could not be read, of those that were tried.
    pub fn unreadable_in(&self, position: u64, end: u64) -> Option<&Unreadable> {
        self.unreadable.iter().find(|bad| bad.end > position && bad.position < end)
    }

    /// The record at `position`, if one is there.
    pub fn record(&mut self, position: u64) -> io::Result<Result<Found<'_>, Invalid>> {
        let need = match record::announced_len(self.bytes(position, HEADER_BYTES)?, BOUND) {
            Ok(len) => len,
            Err(invalid) => return Ok(Err(invalid)),
        };
        let available = self.limit.saturating_sub(position);
        if need as u64 > available {
            return Ok(Err(Invalid::Short { needed: need as u64, available }));
        }
        Ok(record::decode(self.bytes(position, need)?, BOUND))
    }

    /// The first complete valid record that starts after `position`.
    ///
    /// The bytes that are checksummed on the way are bounded, since a value can be made of millions of plausible headers;
    /// where the bound is reached, `Err(position)` says where.
    pub fn look_forward(&mut self, position: u64) -> io::Result<Result<Option<(u64, Offset)>, u64>> {
        let mut budget = 64 * (self.limit.saturating_sub(position)) + (64 << 20);
        let mut at = position + 1;
        while at + HEADER_BYTES as u64 <= self.limit {
            let window = self.bytes(at, HEADER_BYTES)?;
            if window.len() < HEADER_BYTES {
                // The file is shorter than the log was: somebody has cut it behind our back.
                return Ok(Ok(None));
            }
            let Some(ahead) = window.windows(HEADER_BYTES).position(is_plausible) else {
                at += (window.len() - HEADER_BYTES + 1) as u64;
                continue;
            };
            at += ahead as u64;
            if let Ok(found) = self.record(at)? {
                return Ok(Ok(Some((at, found.offset))));
            }
            let len = record::announced_len(self.bytes(at, HEADER_BYTES)?, BOUND).unwrap_or(0) as u64;
            budget = budget.saturating_sub(len.min(self.limit - at));
            if budget == 0 {
                return Ok(Err(at));
            }
            at += 1;
        }
        Ok(Ok(None))
    }
}

/// Whether a header could start here: offset and timestamp below 2^48 (a partition with 281 trillion records, the year
/// 10889), size within the bound, key within the size.
fn is_plausible(header: &[u8]) -> bool {
    header[0..2] == [0, 0] && header[16..18] == [0, 0] && record::announced_len(header, BOUND).is_ok()
}

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
    /// A valid record that does not follow; nothing behind it can be put in order.
    Disorder {
        /// The offset it claims.
        found: Offset,
        /// Where it lies.
        position: Position,
    },
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
    /// What could not be read of them, and of what stands behind.
    pub unreadable: Vec<Unreadable>,
    /// What stands behind them.
    pub tail: Tail,
}

/// Counts a segment's records and says when the indexes get an entry, in appends and scans alike: so a rebuilt index is
/// the one that appending would have written.
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
    fn skip(&mut self, base: Offset, end: Offset) {
        *self = Self::after(end.since(base), self.interval, self.latest);
    }
}

impl Scan {
    /// Scans a segment's log from its start.
    pub fn run<F: DiskFile>(file: &F, len: u64, base: Offset, interval: u64) -> Scan {
        Self::run_from(file, len, base, (Position::ZERO, base), Meter::new(interval))
    }

    /// Scans on from where a record is expected to begin, with what is known of the records before it.
    pub fn run_from<F: DiskFile>(
        file: &F,
        len: u64,
        base: Offset,
        (from, expected): (Position, Offset),
        mut meter: Meter,
    ) -> Scan {
        let mut window = Window::new(file, len);
        let (mut at, mut end) = (from.get(), expected);
        let (mut index, mut time_index, mut holes) = (Vec::new(), Vec::new(), Vec::new());
        let mut records = 0;
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
            // A valid record in the wrong place is the next valid record itself.
            let ahead = match found {
                Some((offset, ..)) => Some((at, offset)),
                None => match window.look_forward(at) {
                    Err(e) => break Tail::Unreadable(e.to_string()),
                    Ok(Ok(ahead)) => ahead,
                    Ok(Err(unsure)) => break Tail::Disorder { found: end, position: Position::new(unsure) },
                },
            };
            let Some((next_at, offset)) = ahead else {
                break window
                    .unreadable_in(at, len)
                    .map_or(Tail::Torn, |bad| Tail::Unreadable(bad.why.clone()));
            };
            let fits = offset >= end && offset.since(end) <= (next_at - at) / HEADER_BYTES as u64;
            if !fits || next_at == at {
                break Tail::Disorder { found: offset, position: Position::new(next_at) };
            }
            holes.push(Hole { position: Position::new(at), bytes: next_at - at, first: end, next: offset });
            meter.skip(base, offset);
            (at, end) = (next_at, offset);
        };
        let (latest, end_at, unreadable) = (meter.latest, Position::new(at), window.unreadable);
        Scan { records, end, end_at, latest, index, time_index, holes, unreadable, tail }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;

    use proptest::prelude::*;

    use super::*;
    use crate::batch::Batch;

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
        Scan::run(&file(bytes), bytes.len() as u64, Offset::ZERO, 3)
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
            assert_eq!(scan.tail, Tail::Disorder { found: Offset::new(second), position: Position::new(32) });
        }
    }

    #[test]
    fn plausible_garbage_costs_bounded_work() {
        // Each 4-byte step looks like a header that announces 65,536 bytes.
        let mut bytes = log(&[b"one"]);
        bytes.extend([0u8, 0, 1, 0].repeat(500_000));
        assert_eq!(scan(&bytes).records, 1);
    }

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
