//! Holds the two indexes of a segment against its log, entry by entry: an index of any length is read in pieces.
//!
//! That entries are missing from the end shows where a clean stop has counted them, where one index has more than the other,
//! and where more records follow the last entry than lie between the others. Of the last segment after a crash it says nothing:
//! entries are written after their records.

use std::io;
use std::path::{Path, PathBuf};

use super::{Log, Segment, Verifier};
use crate::disk::{Disk, DiskFile, Open};
use crate::files::{self, Kind};
use crate::index::{ENTRY_BYTES, Entry};
use crate::meter::Meter;
use crate::scan::{Tail, Window};
use crate::units::{Offset, Position};

const REBUILT: &str = "the index costs time where it is wrong, and is rebuilt when a start finds out";

/// An index file that is read from front to back.
struct Entries<'a, F> {
    path: &'a Path,
    window: Window<'a, F>,
    len: u64,
    /// The byte of the next entry.
    at: u64,
    first: Option<Entry>,
    last: Option<Entry>,
    /// Whether keys and values ascend; otherwise they do not descend.
    strict: bool,
    /// What is wrong with the next one, and with that all behind it.
    broken: Option<String>,
}

impl<'a, F: DiskFile> Entries<'a, F> {
    fn new(path: &'a Path, file: &'a F, kind: Kind) -> io::Result<Self> {
        let len = file.len()?;
        let (window, strict) = (Window::new(file, len), kind == Kind::Index);
        Ok(Self { path, window, len, at: 0, first: None, last: None, strict, broken: None })
    }

    /// The next entry, if it is a good one.
    fn peek(&mut self) -> Option<Entry> {
        if self.at >= self.len || self.broken.is_some() {
            return None;
        }
        let to = self.at + ENTRY_BYTES as u64;
        let decoded = self
            .window
            .bytes(self.at, ENTRY_BYTES)
            .map(|bytes| bytes.get(..ENTRY_BYTES).and_then(Entry::decode));
        let broken = match decoded {
            Ok(Some(entry)) if self.last.is_none_or(|last| self.follows(last, entry)) => return Some(entry),
            Ok(Some(_)) => format!("the entry is out of order; {REBUILT}"),
            Ok(None) => match self.window.unreadable_in(self.at, to) {
                Some(bad) => format!("the index cannot be read: {}", bad.why),
                None => format!("this is no whole, valid entry; {REBUILT}"),
            },
            Err(e) => format!("the index cannot be read: {e}"),
        };
        self.broken = Some(broken);
        None
    }

    fn follows(&self, last: Entry, entry: Entry) -> bool {
        let in_order = |a: u64, b: u64| if self.strict { a < b } else { a <= b };
        in_order(last.key, entry.key) && in_order(last.value, entry.value)
    }

    /// The next entry, if it is a good one, and its byte; the one behind it is the next then.
    fn take(&mut self) -> Option<(u64, Entry)> {
        let entry = self.peek()?;
        let byte = self.at;
        self.first.get_or_insert(entry);
        self.last = Some(entry);
        self.at += ENTRY_BYTES as u64;
        Some((byte, entry))
    }

    /// How many entries were taken.
    fn taken(&self) -> u64 {
        self.at / ENTRY_BYTES as u64
    }

    /// How many are left, good or not.
    fn left(&self) -> u64 {
        (self.len - self.at).div_ceil(ENTRY_BYTES as u64)
    }
}

impl<D: Disk> Verifier<'_, D> {
    pub(super) fn indexes(&mut self, segment: Segment<'_>, log: &Log<D::File>, kinds: &[Kind]) {
        let [places, times] = [Kind::Index, Kind::TimeIndex].map(|kind| {
            let path = files::segment_path(segment.dir, segment.base, kind);
            let file =
                if kinds.contains(&kind) { self.open(&path) } else { self.missing(&path, segment, log) };
            (path, kind, file)
        });
        let (mut places, mut times) = (self.entries(&places), self.entries(&times));
        if let (Some(places), Some(times)) = (&mut places, &mut times) {
            self.compare(segment, log, places, times);
            self.complete(segment, log, places, times);
        }
        for entries in [places, times].iter_mut().flatten() {
            while entries.take().is_some() {}
            if let Some(what) = entries.broken.take() {
                self.fault(entries.path, Some(entries.at), None, what);
            }
        }
    }

    fn open(&mut self, path: &Path) -> Option<D::File> {
        let file = self.disk.open(path, Open::Read);
        file.map_err(|e| self.fault(path, None, None, format!("the index cannot be read: {e}"))).ok()
    }

    fn missing(&mut self, path: &Path, segment: Segment<'_>, log: &Log<D::File>) -> Option<D::File> {
        // A roll that a crash interrupted.
        let is_begun = segment.next.is_none() && log.len == 0 && segment.recorded.is_none();
        if !is_begun {
            self.fault(path, None, None, "the index is missing: it is rebuilt at the next start");
        }
        None
    }

    fn entries<'f>(
        &mut self,
        (path, kind, file): &'f (PathBuf, Kind, Option<D::File>),
    ) -> Option<Entries<'f, D::File>> {
        let entries = Entries::new(path, file.as_ref()?, *kind);
        entries.map_err(|e| self.fault(path, None, None, format!("the index cannot be read: {e}"))).ok()
    }

    /// Holds the entries of both indexes, which are made in pairs, against the records.
    fn compare(
        &mut self,
        segment: Segment<'_>,
        log: &Log<D::File>,
        places: &mut Entries<'_, D::File>,
        times: &mut Entries<'_, D::File>,
    ) {
        let end_at = log.scan.end_at.get();
        let mut window = Window::new(&log.file, end_at);
        let mut holes = log.scan.holes.iter().peekable();
        let mut meter = Meter::new(u64::MAX);
        let mut at = 0;
        while at < end_at && places.peek().is_some() {
            if let Some(hole) = holes.next_if(|hole| hole.position.get() == at) {
                at += hole.bytes;
                continue;
            }
            let Ok(Ok(found)) = window.record(at) else {
                return self.fault(&log.path, Some(at), None, "what could be read before cannot be read now");
            };
            let (offset, timestamp, len) = (found.offset, found.timestamp, found.len() as u64);
            let _ = meter.record(offset, timestamp, Position::new(at));
            while places.peek().is_some_and(|entry| entry.key < offset.get()) {
                self.skipped(log, places, times);
            }
            if places.peek().is_some_and(|entry| entry.key == offset.get()) {
                let place = Entry { key: offset.get(), value: at };
                let latest = meter.latest.map(|(at, offset)| Entry { key: at.get(), value: offset.get() });
                self.pair(log, places, times, place, latest);
            }
            at += len;
        }
        if places.peek().is_some() {
            self.behind_the_end(places, segment, |entry| entry.key);
        }
        // Those that the other index lacks are compared with nothing: they are behind the end, or not.
        while let Some(entry) = times.peek() {
            if entry.value >= log.scan.end.get() {
                return self.behind_the_end(times, segment, |entry| entry.value);
            }
            times.take();
        }
    }

    /// The next entries have no record. Where it is one that is damaged, they may be right.
    fn skipped(
        &mut self,
        log: &Log<D::File>,
        places: &mut Entries<'_, D::File>,
        times: &mut Entries<'_, D::File>,
    ) {
        if let Some((byte, entry)) = places.take()
            && !log.is_damaged_at(entry.value)
        {
            self.no_place(places.path, byte, entry);
        }
        times.take();
    }

    fn no_place(&mut self, path: &Path, byte: u64, entry: Entry) {
        let what = format!("the entry {} → {} is not the place of a record", entry.key, entry.value);
        self.fault(path, Some(byte), Some(Offset::new(entry.key)), what);
    }

    /// Compares the next entry of each index with what it should be.
    fn pair(
        &mut self,
        log: &Log<D::File>,
        places: &mut Entries<'_, D::File>,
        times: &mut Entries<'_, D::File>,
        place: Entry,
        latest: Option<Entry>,
    ) {
        if let Some((byte, entry)) = places.take()
            && entry != place
        {
            self.no_place(places.path, byte, entry);
        }
        if let Some((byte, entry)) = times.take()
            && Some(entry) != latest
            && !log.may_be_latest(entry, latest)
        {
            let what = format!("the entry {} → {} is not the latest time so far", entry.key, entry.value);
            self.fault(times.path, Some(byte), Some(Offset::new(entry.value)), what);
        }
    }

    fn behind_the_end(
        &mut self,
        entries: &mut Entries<'_, D::File>,
        segment: Segment<'_>,
        offset: impl Fn(Entry) -> u64,
    ) {
        let (byte, left) = (entries.at, entries.left());
        let offset = entries.peek().map_or(segment.base, |entry| Offset::new(offset(entry)));
        self.fault(
            entries.path,
            Some(byte),
            Some(offset),
            format!("{left} entries lead behind the end of the log"),
        );
        // However many there are.
        entries.len = entries.at;
    }

    /// Whether entries are missing from the end of an index.
    fn complete(
        &mut self,
        segment: Segment<'_>,
        log: &Log<D::File>,
        places: &Entries<'_, D::File>,
        times: &Entries<'_, D::File>,
    ) {
        let scan = &log.scan;
        let is_whole = scan.tail == Tail::Clean && scan.holes.is_empty() && scan.unreadable.is_empty();
        let is_read = [places, times].iter().all(|entries| entries.at == entries.len);
        let recorded = segment.recorded.filter(|recorded| recorded.bytes == log.len);
        if !is_whole || !is_read || (segment.next.is_none() && recorded.is_none()) {
            return;
        }
        let expected = recorded.map_or(places.taken().max(times.taken()), |recorded| recorded.entries);
        let too_far = interval_too_long(places, segment.base, scan.end)
            .filter(|_| recorded.is_none() && places.taken() == times.taken());
        for entries in [places, times] {
            let (at, taken) = (Some(entries.at), entries.taken());
            if taken != expected {
                let known = if recorded.is_some() {
                    "there were at the last clean stop"
                } else {
                    "the other index has"
                };
                let what = format!("the index has {taken} entries, of {expected} that {known}; {REBUILT}");
                self.fault(entries.path, at, None, what);
            } else if let Some(records) = too_far {
                let what = format!("{records} records at the end have no entry; {REBUILT}");
                self.fault(entries.path, at, None, what);
            }
        }
    }
}

/// How many records follow the last entry, where there are more than lie between two entries.
fn interval_too_long<F>(places: &Entries<'_, F>, base: Offset, end: Offset) -> Option<u64> {
    let (first, last) = (places.first?, places.last?);
    let interval = first.key.checked_sub(base.get())? + 1;
    let behind = end.get().checked_sub(last.key)?.checked_sub(1)?;
    (behind >= interval).then_some(behind)
}
