//! Reading a segment: by offset and by time, by way of its indexes, and past what is damaged.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Sealed;
use crate::disk::{self, Disk, DiskFile, Open};
use crate::files::{self, Kind};
use crate::gaps::{Gaps, Place};
use crate::index::{ENTRY_BYTES, Entry, Reader};
use crate::record;
use crate::scan::{Known, Window};
use crate::settings::Settings;
use crate::units::{Offset, Position, Timestamp};

/// A segment's files, open for reading.
#[derive(Debug)]
pub struct View<F> {
    /// The log's path, for messages.
    pub path: PathBuf,
    /// The log.
    pub log: Arc<F>,
    /// The first offset.
    pub base: Offset,
    /// The offset after the last that may be read.
    pub end: Offset,
    /// The byte after the last that belongs to the log.
    pub bytes: u64,
    /// Offset → position, where there is one.
    pub index: Option<Reader<F>>,
    /// Time → offset, where there is one.
    pub time_index: Option<Reader<F>>,
    /// Where damage of the partition's segments was found to end.
    pub(crate) gaps: Arc<Gaps>,
}

/// Opens a sealed segment for reading.
pub(crate) fn open_sealed<D: Disk>(
    disk: &D,
    dir: &Path,
    sealed: &Sealed,
    gaps: Arc<Gaps>,
) -> io::Result<View<D::File>> {
    let path = files::segment_path(dir, sealed.base, Kind::Log);
    let log = Arc::new(disk.open(&path, Open::Read)?);
    let index = |kind| {
        let file = disk.open(&files::segment_path(dir, sealed.base, kind), Open::Read).ok()?;
        let entries = file.len().ok()? / ENTRY_BYTES as u64;
        Some(Reader::new(Arc::new(file), entries))
    };
    Ok(View {
        path,
        log,
        base: sealed.base,
        end: sealed.end,
        bytes: sealed.bytes,
        index: index(Kind::Index),
        // Where nobody knows the latest time, the index may leave out times that could not be read.
        time_index: sealed.latest.and_then(|_| index(Kind::TimeIndex)),
        gaps,
    })
}

/// What reading at an offset met.
#[derive(Debug)]
pub enum Read {
    /// Valid records, one after another, from the offset that was asked for.
    Records {
        /// Their bytes.
        bytes: bytes::Bytes,
        /// The offset after the last.
        next: Offset,
        /// Where the first begins.
        at: Position,
    },
    /// The record asked for lies in a stretch that is damaged.
    Damaged {
        /// Where the bad bytes begin.
        position: Position,
        /// The first offset behind them.
        next: Offset,
    },
}

impl<F: DiskFile> View<F> {
    /// Whole records from `from` on, which lies within the view: at least one, and otherwise at most `max_bytes`. `hint`
    /// is where the record before it was seen to end; what is there is checked, like everything else.
    pub fn read(&self, from: Offset, max_bytes: usize, hint: Option<Position>) -> io::Result<Read> {
        let mut place = hint.map_or_else(|| self.locate(from), |position| (from, position));
        let mut window = Window::small(&*self.log, self.bytes);
        while place.0 < from && !window.walk(&mut place, |found| found.offset == from)? {
            match self.behind_damage(&mut window, place)? {
                Some(behind) if behind.0 <= from => place = behind,
                behind => {
                    readable(&window, place.1, behind)?;
                    let next = behind.map_or(self.end, |(next, _)| next);
                    return Ok(Read::Damaged { position: place.1, next });
                }
            }
        }
        drop(window);
        loop {
            if let Some(read) = self.collect(from, place.1.get(), max_bytes)? {
                return Ok(read);
            }
            match self.behind_damage(&mut Window::new(&*self.log, self.bytes), place)? {
                // Bytes that are no record lie before it, and none is missing.
                Some(behind) if behind.0 == from => place = behind,
                behind => {
                    let next = behind.map_or(self.end, |(next, _)| next);
                    return Ok(Read::Damaged { position: place.1, next });
                }
            }
        }
    }

    /// The valid records from a boundary on, in one piece of memory. `None`: there is none.
    fn collect(&self, from: Offset, at: u64, max_bytes: usize) -> io::Result<Option<Read>> {
        let available = usize::try_from(self.bytes.saturating_sub(at)).unwrap_or(usize::MAX);
        let mut bytes = vec![0; available.min(max_bytes.max(4 << 10))];
        let got = match disk::read_full_at(&*self.log, &mut bytes, at) {
            // What cannot be read may lie behind the first record: that one alone, then.
            Err(_) if bytes.len() > record::HEADER_BYTES => {
                bytes.truncate(record::HEADER_BYTES);
                disk::read_full_at(&*self.log, &mut bytes, at)?
            }
            read => read?,
        };
        bytes.truncate(got);
        let (mut done, mut next) = (0, from);
        while next < self.end {
            let rest = &bytes[done..];
            let first = next == from;
            match record::decode(rest, Settings::RECORD_BYTES_MAX) {
                Ok(found) if found.offset == next && (first || done + found.len() <= max_bytes) => {
                    done += found.len();
                    next = next.next();
                }
                Ok(found) if found.offset == next => break,
                Err(record::Invalid::Short { needed, .. }) if first && needed <= available as u64 => {
                    let needed = usize::try_from(needed).unwrap_or(available);
                    bytes.resize(needed, 0);
                    let got = disk::read_full_at(&*self.log, &mut bytes, at)?;
                    bytes.truncate(got);
                    if got < needed {
                        return Ok(None);
                    }
                }
                _ if first => return Ok(None),
                _ => break,
            }
        }
        bytes.truncate(done);
        if done < bytes.capacity() / 2 {
            // Whoever keeps the records pays for what they take, not for what was looked at.
            bytes.shrink_to_fit();
        }
        Ok(Some(Read::Records { bytes: bytes.into(), next, at: Position::new(at) }))
    }

    /// The next valid record that can follow where there is none at `place`.
    fn behind_damage(&self, window: &mut Window<'_, F>, place: Place) -> io::Result<Option<Place>> {
        let (expected, at) = place;
        let (gap, end) = ((self.base, place), (self.end, Position::new(self.bytes)));
        if let Some(behind) = self.gaps.find(gap, end).filter(|behind| behind.is_none_or(|it| self.holds(it)))
        {
            return Ok(behind);
        }
        let names = |offset, position| self.is_named(offset, position);
        let known = Known { ends: Some(self.end), names: &names };
        let ahead = window.look_forward(at.get(), expected, known)?;
        let found = ahead.follows.map(|(next_at, next)| (next, Position::new(next_at)));
        let behind = found.filter(|(next, _)| *next < self.end);
        if readable(window, at, found).is_ok() {
            self.gaps.remember(gap, end, behind);
        }
        Ok(behind)
    }

    /// Whether the index says that the record with this offset begins there.
    fn is_named(&self, offset: Offset, position: Position) -> bool {
        let entry = self.index.as_ref().and_then(|i| i.last_where(|e| e.key <= offset.get()));
        entry == Some(Entry { key: offset.get(), value: position.get() })
    }

    /// Where to start looking for an offset: the last index entry at or below it, if the log confirms it.
    fn locate(&self, offset: Offset) -> Place {
        let start = (self.base, Position::ZERO);
        let entry = self.index.as_ref().and_then(|i| i.last_where(|e| e.key <= offset.get()));
        let Some(entry) = entry else { return start };
        let place = (Offset::new(entry.key), Position::new(entry.value));
        if self.holds(place) { place } else { start }
    }

    /// Whether the record with this offset really begins there, as far as that can be read.
    fn holds(&self, (offset, position): Place) -> bool {
        if offset < self.base || position.get() >= self.bytes {
            return false;
        }
        let mut header = [0; record::HEADER_BYTES];
        let Ok(n) = disk::read_full_at(&*self.log, &mut header, position.get()) else { return false };
        if record::claimed_offset(&header[..n]) != Some(offset) {
            return false;
        }
        Window::small(&*self.log, self.bytes).record(position.get()).is_ok_and(|found| found.is_ok())
    }

    /// The first record whose timestamp is `at` or later.
    pub fn first_at_or_after(&self, at: Timestamp) -> io::Result<TimeLookup> {
        let mut window = Window::new(&*self.log, self.bytes);
        let mut place = self.locate_before(at)?;
        let mut timestamp = Timestamp::from_millis(0);
        loop {
            let is_late = window.walk(&mut place, |found| {
                timestamp = found.timestamp;
                timestamp >= at || found.offset >= self.end
            })?;
            let (offset, position) = place;
            if offset >= self.end {
                return Ok(TimeLookup::None);
            }
            if position.get() >= self.bytes {
                // The log has lost records at its end, and any of them may be the one.
                return Ok(TimeLookup::Damaged { offset, position, next: self.end });
            }
            if is_late {
                return Ok(TimeLookup::Found(offset, timestamp));
            }
            let behind = self.behind_damage(&mut window, place)?;
            readable(&window, position, behind)?;
            match behind {
                // No record is missing there.
                Some(behind) if behind.0 == offset => place = behind,
                // The bad record may be the one that was asked for, so none behind it may be named.
                behind => {
                    let next = behind.map_or(self.end, |(next, _)| next);
                    return Ok(TimeLookup::Damaged { offset, position, next });
                }
            }
        }
    }

    /// Where to start looking for a time: at the record that the last index entry earlier than `at` names. Neither it nor anything
    /// before it is as late as `at`.
    fn locate_before(&self, at: Timestamp) -> io::Result<Place> {
        let start = (self.base, Position::ZERO);
        let entry = self.time_index.as_ref().and_then(|i| i.last_where(|e| e.key < at.get()));
        let Some(Entry { key, value }) = entry else { return Ok(start) };
        let holder = Offset::new(value);
        if holder < self.base || holder >= self.end {
            return Ok(start);
        }
        let mut place = self.locate(holder);
        let mut window = Window::new(&*self.log, self.bytes);
        Ok(if window.confirms_time(&mut place, holder, key)? { place } else { start })
    }
}

/// An error where bytes between `position` and the next record are none because they could not be read: the disk may give
/// them back.
fn readable<F: DiskFile>(window: &Window<'_, F>, position: Position, next: Option<Place>) -> io::Result<()> {
    let end = next.map_or(u64::MAX, |(_, at)| at.get());
    window.unreadable_in(position.get(), end).map_or(Ok(()), |bad| Err(io::Error::other(bad.why.clone())))
}

/// What looking for a time met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeLookup {
    /// This record, with its timestamp.
    Found(Offset, Timestamp),
    /// A damaged record first, which may be the one.
    Damaged {
        /// Its offset.
        offset: Offset,
        /// Where the bad bytes begin.
        position: Position,
        /// The first offset behind them.
        next: Offset,
    },
    /// No record as late as that.
    None,
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::batch::Batch;
    use crate::disk::counted::Counted;

    const RECORD: usize = 10_000;

    /// A log of a hundred records, of which those between the first and the last are damaged.
    fn damaged() -> View<Counted> {
        let mut batch = Batch::new();
        (0..100).for_each(|_| batch.push(None, &[7; RECORD - record::HEADER_BYTES]));
        batch.seal(Offset::ZERO, Timestamp::ZERO);
        let mut bytes = batch.bytes().to_vec();
        (1..99).for_each(|nth| bytes[nth * RECORD + 100] ^= 1);
        View {
            path: PathBuf::new(),
            base: Offset::ZERO,
            end: Offset::new(100),
            bytes: bytes.len() as u64,
            log: Arc::new(Counted::new(bytes)),
            index: None,
            time_index: None,
            gaps: Arc::default(),
        }
    }

    /// The offset after what a read at this one gave, or behind the damage that it met; and whether that was so.
    fn read(view: &View<Counted>, from: u64) -> (u64, bool) {
        match view.read(Offset::new(from), 1, None).unwrap() {
            Read::Records { next, .. } => (next.get(), false),
            Read::Damaged { next, .. } => (next.get(), true),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_of_damage_is_not_looked_for_each_time() {
        let view = damaged();
        let cost = |from| {
            let before = view.log.read();
            (read(&view, from), view.log.read() - before)
        };
        let (first, dear) = cost(50);
        assert!(first == (99, true) && dear > 900_000, "{first:?}, {dear} bytes read");
        for (from, expected) in [(50, (99, true)), (1, (99, true)), (99, (100, false)), (0, (1, false))] {
            let (again, cheap) = cost(from);
            assert!(again == expected && cheap < 100_000, "{from}: {again:?}, {cheap} bytes read");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_read_behind_many_holes_reads_what_lies_before_it_once() {
        let mut view = damaged();
        let mut batch = Batch::new();
        (0..2000).for_each(|_| batch.push(None, &[7; 2020]));
        batch.seal(Offset::ZERO, Timestamp::ZERO);
        let mut bytes = batch.bytes().to_vec();
        (1..2000).step_by(2).for_each(|nth| bytes[nth * 2048 + 100] ^= 1);
        (view.bytes, view.end) = (bytes.len() as u64, Offset::new(2000));
        view.log = Arc::new(Counted::new(bytes));
        assert_eq!(read(&view, 1998), (1999, false));
        let cost = view.log.read();
        assert!(cost < 4 * view.bytes, "{cost} bytes were read of {}", view.bytes);
    }

    #[tokio::test(start_paused = true)]
    async fn what_can_be_read_again_is_found_soon() {
        let view = damaged();
        assert_eq!(read(&view, 50), (99, true));
        view.log.bytes()[50 * RECORD + 100] ^= 1;
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(read(&view, 50), (51, false));
        assert_eq!(read(&view, 1), (50, true));
        // And what is remembered is checked.
        view.log.bytes()[50 * RECORD + 100] ^= 1;
        assert_eq!(read(&view, 1), (99, true));
    }

    /// Where a record of another place stands, only the checksum is right: it may be another partition's.
    #[tokio::test(start_paused = true)]
    async fn a_misplaced_record_is_not_given() {
        let mut view = damaged();
        let bytes = view.log.bytes().clone();
        let last = &bytes[99 * RECORD..];
        for kept in [RECORD, RECORD + 100] {
            let bytes = [&bytes[..kept], last].concat();
            view.bytes = bytes.len() as u64;
            *view.log.bytes() = bytes;
            view.gaps = Arc::default();
            assert_eq!(
                (read(&view, 0), read(&view, 1), read(&view, 99)),
                ((1, false), (100, true), (100, true))
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_appended_behind_damage_is_found_at_once() {
        let mut view = damaged();
        let all = view.bytes;
        view.end = Offset::new(70);
        assert_eq!(read(&view, 50), (70, true), "nobody is sent to what is not to be read yet");
        (view.bytes, view.end) = (all - RECORD as u64, Offset::new(99));
        assert_eq!(read(&view, 50), (99, true), "the end");
        (view.bytes, view.end) = (all, Offset::new(100));
        assert_eq!(read(&view, 99), (100, false));
    }
}
