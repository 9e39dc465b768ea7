//! Looking at one segment: what is in it, what of that is cut, what is named as damage, which indexes are rebuilt.

use std::io;
use std::path::{Path, PathBuf};

use super::{Instructions, Recovery, name_of};
use crate::disk::{self, Disk, DiskFile, Open};
use crate::files::{self, Kind};
use crate::index::{self, ENTRY_BYTES, Entry, Named};
use crate::markers::{Closed, Evidence};
use crate::meter::Meter;
use crate::report::Damage;
use crate::scan::{self, Hole, Known, Misplaced, Scan, Tail, Window};
use crate::segment::Sealed;
use crate::synced::SyncedTo;
use crate::units::{Offset, Position, Timestamp};

/// A segment after it was looked at.
pub(super) struct Looked {
    pub sealed: Sealed,
    /// Records in it, for the index interval.
    pub meter: Meter,
    /// Whether it can be appended to.
    pub whole: bool,
    /// Whether some of it is served behind damage.
    pub damaged: bool,
    /// Bytes behind its last record that look like a torn tail and were synced: they are not cut off.
    pub torn: u64,
}

/// A segment to look at.
struct Segment<F> {
    base: Offset,
    /// The base offset of the segment behind it; `None`: it is the last.
    next: Option<Offset>,
    path: PathBuf,
    log: F,
    /// Bytes of the log.
    len: u64,
    /// Whether an earlier start has found damage in it, and served it as that.
    is_marked: bool,
}

impl<'a, D: Disk> Recovery<'a, D> {
    /// Looks at the segment with this base offset, that is followed by one with the base offset `next`, if by any.
    pub(super) fn look_at(&mut self, base: Offset, next: Option<Offset>) -> io::Result<Looked> {
        let path = self.path(base, Kind::Log);
        let log = self.disk.open(&path, Open::Read)?;
        let len = log.len()?;
        let is_marked = self.found.damaged.contains(&base);
        let segment = Segment { base, next, path, log, len, is_marked };
        let ends = self.ends(&segment);
        self.is_end_known = next.is_none() && ends.is_some();
        if !is_marked {
            if let Some(looked) = self.trusted(&segment) {
                return Ok(looked);
            }
            if let Some(looked) = self.proven(&segment)? {
                return Ok(looked);
            }
        }
        let index = self.named(&segment);
        let names = |offset, position| index.has(offset, position);
        let scan =
            Scan::run(&segment.log, len, base, self.told.index_interval, Known { ends, names: &names });
        self.report.scanned += scan.records;
        Ok(self.settle(segment, scan))
    }

    /// Where a segment ends, if that is known: where the next one begins, or where what was synced of it does, if it has no more bytes
    /// than that.
    fn ends(&self, segment: &Segment<D::File>) -> Option<Offset> {
        segment.next.or_else(|| self.synced_to?.ends(segment.base, segment.len))
    }

    /// The places that its index names.
    fn named(&self, segment: &Segment<D::File>) -> Named<'a, D> {
        Named::new(self.disk, self.path(segment.base, Kind::Index), segment.len)
    }

    /// A segment that is as a clean stop left it, without reading it.
    fn trusted(&self, segment: &Segment<D::File>) -> Option<Looked> {
        let &Segment { base, next, len, .. } = segment;
        let Evidence::Clean(Closed { index_interval, segments }) = self.told.evidence else { return None };
        let sealed = *segments.iter().find(|s| s.base == base)?;
        // Where another interval counts from now on, what is asked of an index is asked of each, as after a crash: whichever start
        // comes first builds the same ones anew.
        let same_interval = *index_interval == self.told.index_interval;
        // A last segment was written on only where the stop found it so: it may as well have been the last whole one before
        // damage.
        let follows = next.map_or(segments.last() == Some(&sealed), |next| next == sealed.end);
        // Where the latest time is not known, a start could not read all of it, and left indexes without the rest; or nothing is left
        // of it.
        let was_read = sealed.latest.is_some() || sealed.base == sealed.end;
        let fits = sealed.bytes == len && follows && same_interval && was_read;
        let unsynced = self.found.unsynced.contains(&base);
        let index = self.index_entries(base, Kind::Index, sealed.end, len)?;
        let time_index = self.index_entries(base, Kind::TimeIndex, sealed.end, len)?;
        let complete = [index.len(), time_index.len()].iter().all(|n| *n as u64 == sealed.entries);
        let meter = Meter::after(sealed.end.since(base), self.told.index_interval, sealed.latest);
        (fits && !unsynced && complete).then_some(Looked {
            sealed,
            meter,
            whole: true,
            damaged: false,
            torn: 0,
        })
    }

    /// A sealed segment whose indexes are in order and lead to a tail that reaches the next segment.
    fn proven(&mut self, segment: &Segment<D::File>) -> io::Result<Option<Looked>> {
        let &Segment { base, next: Some(next), ref log, len, .. } = segment else { return Ok(None) };
        let Some(index) = self.index_entries(base, Kind::Index, next, len) else { return Ok(None) };
        let Some(times) = self.index_entries(base, Kind::TimeIndex, next, len) else { return Ok(None) };
        if index.len() != times.len() {
            return Ok(None);
        }
        let mut meter = Meter::new(u64::MAX);
        let (from, expected) = match (index.last(), times.last()) {
            (Some(place), Some(time)) => {
                // What cannot be read proves nothing: a scan names it.
                if !is_time_of(log, len, base, &index, *time) {
                    return Ok(None);
                }
                let holder = Offset::new(time.value);
                meter.latest = Some((Timestamp::from_millis(time.key), holder));
                (Position::new(place.value), Offset::new(place.key))
            }
            _ => (Position::ZERO, base),
        };
        let scan = Scan::run_from(log, len, base, (from, expected), meter, Known::end(Some(next)));
        self.report.scanned += scan.records;
        // One interval of records lies behind the last entry, that entry's own record included; one less, where there
        // is no entry yet.
        let most = self.told.index_interval.max(interval_of(&index, base));
        let covered = scan.records <= most - u64::from(index.is_empty());
        let reaches = scan.tail == Tail::Clean && scan.holes.is_empty() && scan.end == next;
        let entries = index.len() as u64;
        let sealed = Sealed { base, end: next, bytes: len, latest: scan.latest, entries };
        Ok((reaches && covered).then_some(Looked {
            sealed,
            meter: scan_meter(&scan, base, &self.told),
            whole: true,
            damaged: false,
            torn: 0,
        }))
    }

    /// The entries of an index file, where all of them are possible in this segment.
    fn index_entries(&self, base: Offset, kind: Kind, end: Offset, bytes: u64) -> Option<Vec<Entry>> {
        let file = files::read_small(self.disk, &self.path(base, kind), index::bytes_max(bytes)).ok()??;
        let entries = index::decode_all(&file, kind == Kind::Index)?;
        let within = |offset: u64| (base.get()..end.get()).contains(&offset);
        let possible = |e: &Entry| match kind {
            Kind::Index => within(e.key) && e.value < bytes,
            _ => within(e.value),
        };
        entries.iter().all(possible).then_some(entries)
    }

    /// Draws the conclusions from a scan: what is cut, what is named as damage, which indexes are rebuilt.
    fn settle(&mut self, mut segment: Segment<D::File>, mut scan: Scan) -> Looked {
        let base = segment.base;
        self.believe_roll(&segment, &scan);
        let torn_out = scan.torn_out().find(|(from, first)| self.was_never_synced(&segment, *from, *first));
        if let Some((from, _)) = torn_out
            && let Some(prefix) = self.keep_prefix(&segment, from)
        {
            // What lies behind it is no part of the log any more.
            (scan, segment.len) = (prefix, from.get());
        }
        self.name_faults(&segment.path, &scan);
        // Where the log has gone on behind damage, an earlier start has judged how far it had come: as it grows, what lies in there
        // tells nothing new.
        if !(segment.is_marked && segment.next.is_some()) {
            self.strays.extend(&scan.misplaced);
        }
        let (mut sealed, whole) = self.settle_end(&segment, &scan);
        let is_cut_short = segment.next.is_some_and(|next| scan.end < next || scan.tail != Tail::Clean);
        let damaged = !scan.holes.is_empty() || matches!(scan.tail, Tail::Damaged(_)) || is_cut_short;
        let restored = (!damaged || self.remember_damage(base)) && self.restore_indexes(base, &scan);
        if restored && !damaged && scan.unreadable.is_empty() {
            self.forget_damage(&segment);
        }
        if (segment.is_marked || damaged) && !restored {
            // Its indexes may be those of an earlier start, which leave out records that can be read now: a lookup by time
            // must not pass over them. And where it has no mark, no start may trust it.
            sealed.latest = None;
        }
        let stays = scan.tail == Tail::Torn && self.was_synced_beyond(scan.end);
        let torn = if stays { segment.len - scan.end_at.get() } else { 0 };
        Looked { sealed, meter: scan_meter(&scan, base, &self.told), whole, damaged, torn }
    }

    /// What is left of a segment behind the last log shows how far that was synced.
    fn believe_roll(&mut self, segment: &Segment<D::File>, scan: &Scan) {
        let rest = segment.len - scan.end_at.get();
        let behind = self.found.segments.keys().chain(&self.found.damaged).copied();
        let shown =
            SyncedTo::by_roll(segment.base, (scan.end, rest), behind).filter(|_| segment.next.is_none());
        self.synced_to = self.synced_to.into_iter().chain(shown).reduce(SyncedTo::and);
    }

    /// Where the segment ends, and whether it can be appended to.
    fn settle_end(&mut self, segment: &Segment<D::File>, scan: &Scan) -> (Sealed, bool) {
        let Segment { base, next, path, len, .. } = segment;
        let (end, bytes, entries) = (scan.end, scan.end_at.get(), scan.index.len() as u64);
        // Where something cannot be read, nobody knows how late the records there are.
        let latest = scan.latest.filter(|_| scan.unreadable.is_empty());
        let mut sealed = Sealed { base: *base, end, bytes, latest, entries };
        let mut whole = scan.holes.is_empty();
        if let Tail::Disorder(Misplaced { found, position }) = scan.tail {
            let name = name_of(path);
            self.fence(format!("{name} has offset {found} at byte {position}, where {end} should follow"));
        }
        if let Tail::Disorder(_) | Tail::Damaged(_) = scan.tail {
            // Nor here: a lookup by time must not pass over the records behind that.
            sealed.latest = None;
        }
        match (&scan.tail, next) {
            (_, Some(next)) => self.join(segment, &mut sealed, scan, *next),
            (Tail::Unreadable(why), None) => {
                self.fence(format!("{} cannot be read behind byte {bytes}: {why}", name_of(path)));
                self.is_end_unseen = !matches!(self.told.evidence, Evidence::Clean(_));
                sealed.bytes = *len;
                whole = false;
            }
            // It is named where the end of the log is looked for.
            (Tail::Torn, None) if self.was_synced_beyond(end) => {}
            (Tail::Torn, None) if whole => {
                if self.told.read_only.is_none() {
                    self.cut(segment, scan.end_at);
                }
            }
            (Tail::Torn | Tail::Disorder(_) | Tail::Damaged(_), None) => {
                // Damage, or behind it: nothing is written there any more, nor cut.
                sealed.end = self.end_by_strays(end, len - bytes).unwrap_or(end);
                if matches!(scan.tail, Tail::Damaged(_)) {
                    // The next segment needs a name of its own: what there is held one record at least, or was to.
                    sealed.end = sealed.end.max(base.next());
                }
                let (position, next) = (scan.end_at, sealed.end);
                self.damage(path, Hole { position, bytes: len - bytes, first: end, next });
                sealed.bytes = *len;
                whole = false;
            }
            (Tail::Clean, None) => {}
        }
        (sealed, whole)
    }

    /// How far the log had come beyond `end`, as what lies in the damage, and in `more` bytes, shows.
    pub(super) fn end_by_strays(&self, end: Offset, more: u64) -> Option<Offset> {
        if self.is_end_known {
            return None;
        }
        let damaged: u64 = self.report.damage.iter().map(|found| found.bytes).sum();
        scan::end_by_strays(&self.strays, end, damaged + more)
    }

    /// Whether records behind this offset were synced once.
    fn was_synced_beyond(&self, end: Offset) -> bool {
        self.synced_to.is_some_and(|synced| synced.end > end)
    }

    /// Whether a sealed segment reaches the next one; what is between them is damage.
    fn join(&mut self, segment: &Segment<D::File>, sealed: &mut Sealed, scan: &Scan, next: Offset) {
        let Segment { path, len, .. } = segment;
        (sealed.bytes, sealed.end) = (*len, next);
        if scan.end > next {
            let (name, end) = (name_of(path), scan.end);
            self.fence(format!("{name} reaches offset {end}, but the next segment begins at {next}"));
        } else if scan.end < next || scan.tail != Tail::Clean {
            let (position, bytes) = (scan.end_at, len - scan.end_at.get());
            self.damage(path, Hole { position, bytes, first: scan.end, next });
        }
    }

    /// Cuts a torn tail off, durably: a power loss must not bring it back behind what is appended now. Where that fails,
    /// the partition takes no writes.
    fn cut(&mut self, segment: &Segment<D::File>, end: Position) {
        let owned = self.own(&segment.path);
        let cut = owned.and_then(|()| self.disk.open(&segment.path, Open::Write)).and_then(|file| {
            disk::set_len(&file, end.get())?;
            self.sync(segment.base, &file)
        });
        match cut {
            Ok(()) => {
                self.report.cut += segment.len - end.get();
                self.is_durable = true;
            }
            Err(e) => self.fence(format!("its torn tail cannot be cut: {e}")),
        }
    }

    /// Whether the bytes from `position` on, where the record with the offset `first` begins, may have been in the page cache only when the
    /// machine went down. What an earlier start has served as damaged stays as it was.
    fn was_never_synced(&self, segment: &Segment<D::File>, position: Position, first: Offset) -> bool {
        *self.told.evidence == Evidence::PowerLossUnsynced
            && segment.next.is_none()
            && !segment.is_marked
            && !self.was_synced_beyond(first)
            && !self.synced_to.is_some_and(|synced| synced.covers(segment.base, position))
    }

    /// A hole that a power loss left in what was never synced: what lies behind it is set aside, so that what is left
    /// is a prefix, and then cut off like any torn tail. `None`: it cannot be set aside, and stays, as damage, behind
    /// which writes go on: a later start must not cut what this one has served.
    fn keep_prefix(&mut self, segment: &Segment<D::File>, from: Position) -> Option<Scan> {
        let Segment { base, log, len, .. } = segment;
        if self.told.read_only.is_none() {
            match self.set_aside(*base, log, from) {
                Ok(aside) => {
                    let aside = name_of(&aside);
                    self.note(format!("{aside} holds what lay behind a hole that the power loss left"));
                    self.cut(segment, from);
                    if log.len().is_ok_and(|now| now == *len) {
                        // It is fenced for that, and what is still there is served: it must not come back later.
                        return None;
                    }
                    self.report.set_aside += len - from.get();
                }
                Err(e) => {
                    self.note(format!("what lies behind a hole cannot be set aside, and stays: {e}"));
                    return None;
                }
            }
        }
        let (interval, ends) = (self.told.index_interval, self.ends(segment));
        let index = self.named(segment);
        let names = |offset, position| index.has(offset, position);
        Some(Scan::run(log, from.get(), *base, interval, Known { ends, names: &names }))
    }

    /// Keeps what lies from a byte on under a name of its own. If a recovery that was interrupted has done it already, it is
    /// not done twice.
    fn set_aside(&self, base: Offset, log: &D::File, from: Position) -> io::Result<PathBuf> {
        let path = |n| files::aside_path(self.told.dir, base, n);
        let mut n = 0;
        loop {
            match self.disk.open(&path(n), Open::Read) {
                Ok(aside) if files::is_copy(log, from.get(), &aside)? => return Ok(path(n)),
                Ok(_) => n += 1,
                Err(e) if e.kind() == io::ErrorKind::NotFound && n < self.found.asides => n += 1,
                Err(e) if e.kind() == io::ErrorKind::NotFound => break,
                Err(e) => return Err(e),
            }
        }
        files::replace_with(self.disk, &path(n), |to| files::copy(log, from.get(), to))?;
        Ok(path(n))
    }

    /// Whole indexes would make a segment with holes look like any other: so that the next start looks again, it gets a mark
    /// first. Without the mark its indexes stay as they are.
    fn remember_damage(&mut self, base: Offset) -> bool {
        if self.told.read_only.is_some() {
            return true;
        }
        let mark = files::damaged_path(self.told.dir, base);
        // Durable before the indexes are: a power loss must not keep them and take the mark. Also one that is there, since
        // whoever made it may have been killed before it was durable.
        let made = self.make_mark(&mark);
        if let Err(e) = &made {
            self.is_noted = false;
            self.note(format!("{} could not be made: {e}", name_of(&mark)));
        }
        made.is_ok()
    }

    /// It was mended, or its damage has become a torn tail: its indexes are whole again, durably, and the mark can go. Where it
    /// stays, the next start looks again.
    fn forget_damage(&self, segment: &Segment<D::File>) {
        if self.told.read_only.is_none() && segment.is_marked {
            let _ = self.disk.remove_file(&files::damaged_path(self.told.dir, segment.base));
        }
    }

    fn make_mark(&self, mark: &Path) -> io::Result<()> {
        self.disk.open(mark, Open::Create)?;
        disk::sync_dir(self.disk, &self.disk.open_dir(self.told.dir)?)
    }

    fn name_faults(&mut self, path: &Path, scan: &Scan) {
        for hole in &scan.holes {
            self.damage(path, *hole);
        }
        for bad in &scan.unreadable {
            let (name, at, bytes) = (name_of(path), bad.position, bad.end - bad.position);
            self.note(format!("{name}: {bytes} bytes from byte {at} on cannot be read: {}", bad.why));
        }
    }

    pub(super) fn damage(&mut self, path: &Path, hole: Hole) {
        let segment = path.to_owned();
        let Hole { position, bytes, first, next } = hole;
        self.report.damage.push(Damage { segment, position, bytes, first, next });
    }

    /// Replaces the indexes that are not what appending would have written; whether they are that now.
    fn restore_indexes(&mut self, base: Offset, scan: &Scan) -> bool {
        if self.told.read_only.is_some() {
            return false;
        }
        let mut restored = true;
        let right = [(Kind::Index, &scan.index), (Kind::TimeIndex, &scan.time_index)]
            .map(|(kind, entries)| (kind, index::encode_all(entries)));
        let wrong = right.iter().filter(|(kind, right)| !self.has_index(base, *kind, right));
        let wrong: Vec<Kind> = wrong.map(|(kind, _)| *kind).collect();
        for (kind, right) in right.into_iter().filter(|_| !wrong.is_empty()) {
            let path = self.path(base, kind);
            // Where one of them is wrong, neither was synced when it was sealed: the other may be right in the page cache only.
            if !wrong.contains(&kind) && self.sync_index(&path).is_ok() {
                continue;
            }
            match files::replace(self.disk, &path, &right) {
                Ok(()) => self.report.rebuilt.push(name_of(&path)),
                // Without it, lookups scan. The active segment's is written with the next append; a sealed one's is
                // tried again at the next start.
                Err(e) => {
                    self.note(format!("{} could not be rebuilt: {e}", name_of(&path)));
                    self.unbuilt.push((base, kind, right));
                    restored = false;
                }
            }
        }
        restored
    }

    fn sync_index(&self, index: &Path) -> io::Result<()> {
        disk::sync_file(&self.disk.open(index, Open::Read)?)
    }

    /// Whether an index holds these bytes and no others.
    fn has_index(&self, base: Offset, kind: Kind, right: &[u8]) -> bool {
        let limit = right.len() as u64 + ENTRY_BYTES as u64;
        files::read_small(self.disk, &self.path(base, kind), limit)
            .ok()
            .flatten()
            .is_some_and(|is| is == right)
    }
}

fn scan_meter(scan: &Scan, base: Offset, told: &Instructions<'_>) -> Meter {
    Meter::after(scan.end.since(base), told.index_interval, scan.latest)
}

/// Whether the record that a time entry names has that time: what retention and lookups go by must be the log's.
fn is_time_of<F: DiskFile>(log: &F, len: u64, base: Offset, index: &[Entry], time: Entry) -> bool {
    let before = index.partition_point(|e| e.key <= time.value).checked_sub(1).map(|i| index[i]);
    let start = (base, Position::ZERO);
    let mut place = before.map_or(start, |e| (Offset::new(e.key), Position::new(e.value)));
    let mut window = Window::small(log, len);
    window.confirms_time(&mut place, Offset::new(time.value), time.key).is_ok_and(|confirmed| confirmed)
}

/// The interval that an index was written with, as far as its entries show.
fn interval_of(index: &[Entry], base: Offset) -> u64 {
    index.first().map_or(0, |e| e.key - base.get() + 1)
}
