//! Opening a partition: from whatever a crash left to a log that is in order, or to a reason why it is not.
//!
//! Every step can be interrupted by another crash and done again, and ends in the same bytes: bytes are removed only where
//! nothing needs them, and after what replaces them is durable.
//!
//! 1. List the directory; sort out leftovers and foreign files.
//! 2. Each segment: trust it (clean stop, or a sealed segment whose index proves that it reaches the next), or scan it.
//! 3. The last segment's tail: cut a torn one; never cut what has a valid record behind it, with one exception: see
//!    [`Evidence::PowerLossUnsynced`].
//! 4. Rebuild indexes that are missing or wrong, by replacing the file.
//! 5. Go on in the last segment, or, where it is damaged, in a new one behind it.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::disk::{self, Disk, DiskFile, Open};
use crate::files::{self, Kind, Name};
use crate::index::{self, ENTRY_BYTES, Entry, Writer};
use crate::report::{Damage, PartitionReport};
use crate::scan::{Hole, Meter, Scan, Tail};
use crate::segment::{Active, Sealed};
use crate::session::{self, Closed, Evidence, SyncedTo};
use crate::settings::Durability;
use crate::units::{Offset, Position};

/// A partition that was opened.
#[derive(Debug)]
pub struct Recovered<F> {
    /// The segments that no longer change, in order.
    pub sealed: Vec<Sealed>,
    /// The one that is appended to. `None`: the first append has to make one, at `end`.
    pub active: Option<Active<F>>,
    /// The log end offset.
    pub end: Offset,
    /// Up to where the log is known to be synced.
    pub durable: Offset,
    /// Whether every sealed segment has the indexes that it should have.
    pub indexes_in_order: bool,
    /// What was found and done.
    pub report: PartitionReport,
}

/// What recovery is told.
#[derive(Clone, Copy, Debug)]
pub struct Instructions<'a> {
    /// The partition's directory.
    pub dir: &'a Path,
    /// Every how many records an index entry.
    pub index_interval: u64,
    /// The durability of the run that begins: under `always`, what can be read is made durable first.
    pub durability: Durability,
    /// What may be assumed.
    pub evidence: &'a Evidence,
    /// Its last segment at the last clean stop: all of it was synced.
    pub stopped_at: Option<Sealed>,
    /// Whether nothing may be changed: the file system cannot be written.
    pub read_only: bool,
}

/// Opens a partition. An error means that nothing of it can be served.
pub fn recover<D: Disk>(disk: &D, told: Instructions<'_>) -> io::Result<Recovered<D::File>> {
    let is_durable = matches!(told.evidence, Evidence::Clean(_));
    let mut recovery =
        Recovery { disk, told, report: PartitionReport::default(), is_durable, unbuilt: Vec::new() };
    let found = recovery.list()?;
    recovery.run(found)
}

/// What a partition's directory holds.
#[derive(Debug, Default)]
struct Found {
    /// Base offset → whether there is a log, an index, a time index.
    segments: BTreeMap<Offset, [bool; 3]>,
    unsynced: Vec<Offset>,
    leftovers: Vec<String>,
    asides: u32,
}

struct Recovery<'a, D> {
    disk: &'a D,
    told: Instructions<'a>,
    report: PartitionReport,
    /// Whether the last segment's log is known to be synced.
    is_durable: bool,
    /// Indexes that could not be built anew, with the bytes that they should have.
    unbuilt: Vec<(Offset, Kind, Vec<u8>)>,
}

/// A segment after it was looked at.
struct Looked {
    sealed: Sealed,
    /// Records in it, for the index interval.
    meter: Meter,
    /// Whether it can be appended to.
    whole: bool,
}

impl<D: Disk> Recovery<'_, D> {
    fn path(&self, base: Offset, kind: Kind) -> PathBuf {
        files::segment_path(self.told.dir, base, kind)
    }

    fn list(&mut self) -> io::Result<Found> {
        let mut found = Found::default();
        for entry in self.disk.list(self.told.dir)? {
            match files::parse(&entry.name) {
                _ if entry.is_dir => self.note(format!("{} is a directory: left alone", entry.name)),
                Name::Segment(base, kind) => found.segments.entry(base).or_default()[kind as usize] = true,
                Name::Unsynced(base) => found.unsynced.push(base),
                Name::Tmp => found.leftovers.push(entry.name),
                Name::Synced => {}
                Name::Aside => found.asides += 1,
                Name::Foreign => self.note(format!("{} is not ours: left alone", entry.name)),
            }
        }
        Ok(found)
    }

    fn note(&mut self, note: String) {
        self.report.notes.push(note);
    }

    fn fence(&mut self, reason: String) {
        self.report.fenced.get_or_insert(reason);
    }

    fn run(mut self, found: Found) -> io::Result<Recovered<D::File>> {
        let logs: Vec<Offset> =
            found.segments.iter().filter(|(_, has)| has[0]).map(|(base, _)| *base).collect();
        if self.told.read_only {
            self.fence("the file system is read-only".into());
        }
        if logs.is_empty() && !found.segments.is_empty() {
            self.fence("its log files are gone and only indexes are left".into());
        }
        if let Err(e) = self.redo_unsynced(&found) {
            self.fence(format!("a log whose last sync had failed cannot be copied: {e}"));
        }
        let mut sealed = Vec::new();
        let mut last = None;
        for (i, &base) in logs.iter().enumerate() {
            let next_base = logs.get(i + 1).copied();
            let looked = self.segment(base, next_base, &found)?;
            match next_base {
                Some(_) => sealed.push(looked.sealed),
                None => last = Some(looked),
            }
        }
        self.tidy(&found, &logs);
        let mut end = last.as_ref().map_or(Offset::ZERO, |l| l.sealed.end);
        if let Some(last) = &mut last
            && let Some(stopped_at) = self.told.stopped_at.filter(|stop| stop.end > end)
        {
            // It was there and synced, and is gone: no tail that a crash tore. Its offsets are not given out again.
            self.damage(
                &self.path(last.sealed.base, Kind::Log),
                Position::new(last.sealed.bytes),
                0,
                end,
                stopped_at.end,
            );
            (end, last.sealed.end, last.whole) = (stopped_at.end, stopped_at.end, false);
        }
        let mut durable = sealed.last().map_or(Offset::ZERO, |s| s.end);
        let mut active = None;
        if let Some(last) = last {
            let synced;
            if last.whole && self.report.fenced.is_none() {
                active = self.activate(&last)?;
                synced = self.is_durable;
            } else {
                // Sealed as it is, and like every sealed segment durable before another follows.
                synced = self.told.read_only || self.sync_sealed(last.sealed.base);
            }
            if active.is_none() {
                sealed.push(last.sealed);
            }
            if synced {
                durable = end;
            }
        }
        self.report.start = sealed.first().map_or(active.as_ref().map_or(end, |a| a.base), |s| s.base);
        self.report.end = end;
        self.report.segments = logs.len();
        let is_active = |base: Offset| active.as_ref().is_some_and(|a| a.base == base);
        let indexes_in_order = self.unbuilt.iter().all(|(base, ..)| is_active(*base));
        Ok(Recovered { sealed, active, end, durable, indexes_in_order, report: self.report })
    }

    fn sync_sealed(&mut self, base: Offset) -> bool {
        let path = self.path(base, Kind::Log);
        let synced = self.disk.open(&path, Open::Read).and_then(|log| self.sync(base, &log));
        if let Err(e) = &synced {
            self.fence(format!("{} cannot be synced: {e}", name_of(&path)));
        }
        synced.is_ok()
    }

    /// After a failed sync the page cache can hold what the disk does not, marked as written. Copying the log writes
    /// it again; only then may it be believed.
    fn redo_unsynced(&mut self, found: &Found) -> io::Result<()> {
        if self.told.read_only {
            return Ok(());
        }
        for &base in &found.unsynced {
            let log = self.path(base, Kind::Log);
            if let Some(bytes) = files::read_small(self.disk, &log, u64::MAX)? {
                files::replace(self.disk, &log, &bytes)?;
                self.note(format!("{} was copied: its last sync had failed", name_of(&log)));
            }
            self.disk.remove_file(&files::unsynced_path(self.told.dir, base))?;
            disk::sync_dir(self.disk, self.told.dir)?;
        }
        Ok(())
    }

    fn segment(&mut self, base: Offset, next: Option<Offset>, found: &Found) -> io::Result<Looked> {
        let path = self.path(base, Kind::Log);
        let log = self.disk.open(&path, Open::Read)?;
        let len = log.len()?;
        if let Some(looked) = self.trusted(base, next, len, found) {
            return Ok(looked);
        }
        if let Some(next) = next
            && let Some(looked) = self.proven(&log, base, next, len)?
        {
            return Ok(looked);
        }
        let scan = Scan::run(&log, len, base, self.told.index_interval);
        self.report.scanned += scan.records;
        let looked = self.settle(&path, &log, base, next, len, scan, found)?;
        Ok(looked)
    }

    /// A segment that is as a clean stop left it, without reading it.
    fn trusted(&self, base: Offset, next: Option<Offset>, len: u64, found: &Found) -> Option<Looked> {
        let Evidence::Clean(Closed { index_interval, segments }) = self.told.evidence else { return None };
        let sealed = *segments.iter().find(|s| s.base == base)?;
        let same_interval = next.is_some() || *index_interval == self.told.index_interval;
        let fits = sealed.bytes == len && next.is_none_or(|next| next == sealed.end) && same_interval;
        let unsynced = found.unsynced.contains(&base);
        let index = self.index_entries(base, Kind::Index, sealed.end, len)?;
        let time_index = self.index_entries(base, Kind::TimeIndex, sealed.end, len)?;
        let complete = [index.len(), time_index.len()].iter().all(|n| *n as u64 == sealed.entries);
        let meter = Meter::after(sealed.end.since(base), self.told.index_interval, sealed.latest);
        (fits && !unsynced && complete).then_some(Looked { sealed, meter, whole: true })
    }

    /// A sealed segment whose indexes are in order and lead to a tail that reaches the next segment.
    fn proven(&mut self, log: &D::File, base: Offset, next: Offset, len: u64) -> io::Result<Option<Looked>> {
        let Some(index) = self.index_entries(base, Kind::Index, next, len) else { return Ok(None) };
        let Some(times) = self.index_entries(base, Kind::TimeIndex, next, len) else { return Ok(None) };
        if index.len() != times.len() {
            return Ok(None);
        }
        let mut meter = Meter::new(u64::MAX);
        let (from, expected) = match (index.last(), times.last()) {
            (Some(place), Some(time)) => {
                let holder = Offset::new(time.value);
                meter.latest = Some((crate::units::Timestamp::from_millis(time.key), holder));
                (Position::new(place.value), Offset::new(place.key))
            }
            _ => (Position::ZERO, base),
        };
        let scan = Scan::run_from(log, len, base, (from, expected), meter);
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
        }))
    }

    /// The entries of an index file, where all of them are possible in this segment.
    fn index_entries(&self, base: Offset, kind: Kind, end: Offset, bytes: u64) -> Option<Vec<Entry>> {
        let limit = (bytes / crate::record::HEADER_BYTES as u64 + 1) * ENTRY_BYTES as u64;
        let file = files::read_small(self.disk, &self.path(base, kind), limit).ok()??;
        let entries = index::decode_all(&file, kind == Kind::Index)?;
        let within = |offset: u64| (base.get()..end.get()).contains(&offset);
        let possible = |e: &Entry| match kind {
            Kind::Index => within(e.key) && e.value < bytes,
            _ => within(e.value),
        };
        entries.iter().all(possible).then_some(entries)
    }

    /// Draws the conclusions from a scan: what is cut, what is named as damage, which indexes are rebuilt.
    #[allow(clippy::too_many_arguments)]
    fn settle(
        &mut self,
        path: &Path,
        log: &D::File,
        base: Offset,
        next: Option<Offset>,
        len: u64,
        mut scan: Scan,
        found: &Found,
    ) -> io::Result<Looked> {
        let hole = scan.holes.iter().find(|hole| self.was_never_synced(base, next, hole.position)).copied();
        if let Some(hole) = hole {
            scan = self.keep_prefix(log, base, len, hole, found);
        }
        self.name_holes(path, &scan);
        let entries = scan.index.len() as u64;
        let mut sealed =
            Sealed { base, end: scan.end, bytes: scan.end_at.get(), latest: scan.latest, entries };
        let mut whole = scan.holes.is_empty();
        match (scan.tail, next) {
            (Tail::Disorder { found, position }, _) => {
                let expected = scan.end;
                let name = name_of(path);
                self.fence(format!(
                    "{name} has offset {found} at byte {position}, where {expected} should follow"
                ));
                self.damage(path, scan.end_at, len - scan.end_at.get(), expected, next.unwrap_or(expected));
                sealed.bytes = len;
                whole = false;
            }
            (Tail::Unreadable(kind), _) => {
                let (name, at) = (name_of(path), scan.end_at);
                self.fence(format!("{name} cannot be read behind byte {at}: {kind}"));
                sealed.bytes = len;
                whole = false;
            }
            (Tail::Torn, None) if whole && !self.told.read_only && !self.is_below_the_stop(&scan) => {
                self.cut(base, scan.end_at, len);
            }
            _ => {}
        }
        if let Some(next) = next {
            self.join(path, &mut sealed, &scan, next, len);
        }
        self.restore_indexes(base, &scan)?;
        Ok(Looked { sealed, meter: scan_meter(&scan, base, &self.told), whole })
    }

    /// Whether a log ends before what was there, and synced, at a clean stop.
    fn is_below_the_stop(&self, scan: &Scan) -> bool {
        self.told.stopped_at.is_some_and(|stop| stop.end > scan.end)
    }

    /// Cuts a torn tail off, durably: a power loss must not bring it back behind what is appended now. Where that fails,
    /// the partition takes no writes.
    fn cut(&mut self, base: Offset, end: Position, len: u64) {
        let cut = self.disk.open(&self.path(base, Kind::Log), Open::Write).and_then(|file| {
            disk::set_len(&file, end.get())?;
            self.sync(base, &file)
        });
        match cut {
            Ok(()) => {
                self.report.cut += len - end.get();
                self.is_durable = true;
            }
            Err(e) => self.fence(format!("its torn tail cannot be cut: {e}")),
        }
    }

    /// Whether the bytes from `position` on may have been in the page cache only when the machine went down.
    fn was_never_synced(&self, base: Offset, next: Option<Offset>, position: Position) -> bool {
        if *self.told.evidence != Evidence::PowerLossUnsynced {
            return false;
        }
        let stopped_at =
            self.told.stopped_at.map(|s| SyncedTo { segment: s.base, bytes: Position::new(s.bytes) });
        let synced = [stopped_at, session::read_synced(self.disk, self.told.dir)];
        let synced_behind = |known: &Option<SyncedTo>| {
            known.is_some_and(|s| s.segment > base || (s.segment == base && s.bytes > position))
        };
        next.is_none() && !synced.iter().any(synced_behind)
    }

    /// A hole that a power loss left in what was never synced: what lies behind it is set aside, so that what is left
    /// is a prefix, and then cut off by the caller like any torn tail.
    fn keep_prefix(&mut self, log: &D::File, base: Offset, len: u64, hole: Hole, found: &Found) -> Scan {
        if !self.told.read_only {
            match self.set_aside_from(log, base, len, hole.position, found) {
                Ok((aside, bytes)) => {
                    self.note(format!("{aside} holds what lay behind a hole that the power loss left"));
                    self.report.set_aside += bytes;
                    self.cut(base, hole.position, len);
                }
                Err(e) => self.fence(format!("what lies behind a hole in its log cannot be set aside: {e}")),
            }
        }
        Scan::run(log, hole.position.get(), base, self.told.index_interval)
    }

    fn set_aside_from(
        &self,
        log: &D::File,
        base: Offset,
        len: u64,
        from: Position,
        found: &Found,
    ) -> io::Result<(String, u64)> {
        let mut bytes = vec![0; usize::try_from(len - from.get()).unwrap_or(0)];
        disk::read_full_at(log, &mut bytes, from.get())?;
        let aside = self.set_aside(base, &bytes, found)?;
        Ok((name_of(&aside), bytes.len() as u64))
    }

    /// Keeps bytes under a name of their own. If a recovery that was interrupted has done it already, it is not done twice.
    fn set_aside(&self, base: Offset, bytes: &[u8], found: &Found) -> io::Result<PathBuf> {
        let path = |n| files::aside_path(self.told.dir, base, n);
        for n in 0..found.asides {
            if files::read_small(self.disk, &path(n), bytes.len() as u64)?.is_some_and(|is| is == bytes) {
                return Ok(path(n));
            }
        }
        let mut n = found.asides;
        while files::read_small(self.disk, &path(n), 0)?.is_some() {
            n += 1;
        }
        files::replace(self.disk, &path(n), bytes)?;
        Ok(path(n))
    }

    fn name_holes(&mut self, path: &Path, scan: &Scan) {
        for hole in &scan.holes {
            self.damage(path, hole.position, hole.bytes, hole.first, hole.next);
        }
    }

    fn damage(&mut self, path: &Path, position: Position, bytes: u64, first: Offset, next: Offset) {
        let segment = path.to_owned();
        self.report.damage.push(Damage { segment, position, bytes, first, next });
    }

    /// Whether a sealed segment reaches the next one; what is between them is damage.
    fn join(&mut self, path: &Path, sealed: &mut Sealed, scan: &Scan, next: Offset, len: u64) {
        sealed.bytes = len;
        sealed.end = next;
        if scan.end < next {
            self.damage(path, scan.end_at, len - scan.end_at.get(), scan.end, next);
        } else if scan.end > next {
            let (name, end) = (name_of(path), scan.end);
            self.fence(format!("{name} reaches offset {end}, but the next segment begins at {next}"));
        } else if scan.tail == Tail::Torn {
            self.damage(path, scan.end_at, len - scan.end_at.get(), scan.end, next);
        }
    }

    /// Replaces the indexes that are not what appending would have written.
    fn restore_indexes(&mut self, base: Offset, scan: &Scan) -> io::Result<()> {
        if self.told.read_only {
            return Ok(());
        }
        for (kind, entries) in [(Kind::Index, &scan.index), (Kind::TimeIndex, &scan.time_index)] {
            let (path, right) = (self.path(base, kind), index::encode_all(entries));
            let limit = right.len() as u64 + ENTRY_BYTES as u64;
            if files::read_small(self.disk, &path, limit).ok().flatten().is_some_and(|is| is == right) {
                continue;
            }
            match files::replace(self.disk, &path, &right) {
                Ok(()) => self.report.rebuilt.push(name_of(&path)),
                // Without it, lookups scan. The active segment's is written with the next append; a sealed one's is
                // tried again at the next start.
                Err(e) => {
                    self.note(format!("{} could not be rebuilt: {e}", name_of(&path)));
                    self.unbuilt.push((base, kind, right));
                }
            }
        }
        Ok(())
    }

    /// Removes what belongs to no segment any more.
    fn tidy(&mut self, found: &Found, logs: &[Offset]) {
        if self.told.read_only || self.report.fenced.is_some() {
            return;
        }
        let mut gone = found.leftovers.clone();
        for (&base, has) in &found.segments {
            if !logs.contains(&base) {
                let orphans = [Kind::Index, Kind::TimeIndex].into_iter().filter(|k| has[*k as usize]);
                gone.extend(orphans.map(|k| name_of(&self.path(base, k))));
            }
        }
        for name in gone {
            if self.disk.remove_file(&self.told.dir.join(&name)).is_ok() {
                self.note(format!("{name} belonged to nothing: removed"));
            }
        }
    }

    /// Opens the last segment for appending. `None`: it cannot be written, and is served as it is.
    fn activate(&mut self, last: &Looked) -> io::Result<Option<Active<D::File>>> {
        let base = last.sealed.base;
        let open = |kind, how| self.disk.open(&files::segment_path(self.told.dir, base, kind), how);
        let opened = (|| {
            let log = open(Kind::Log, Open::Write)?;
            Ok((log, open(Kind::Index, Open::Create)?, open(Kind::TimeIndex, Open::Create)?))
        })();
        let (log, index, time_index) = match opened {
            Ok(files) => files,
            Err(e) => {
                let e: io::Error = e;
                self.fence(format!(
                    "{} cannot be opened for writing: {e}",
                    name_of(&self.path(base, Kind::Log))
                ));
                return Ok(None);
            }
        };
        if let Err(e) = self.make_durable(base, &log, last.sealed.bytes) {
            self.fence(format!("{} cannot be synced: {e}", name_of(&self.path(base, Kind::Log))));
            return Ok(None);
        }
        let writer = |kind, file: D::File| -> io::Result<_> {
            let path = files::segment_path(self.told.dir, base, kind);
            let unbuilt = self.unbuilt.iter().find(|(of, what, _)| (*of, *what) == (base, kind));
            Ok(match unbuilt {
                Some((.., bytes)) => {
                    // Nothing of what is in it may be read before it is written over.
                    let _ = disk::set_len(&file, 0);
                    Writer::waiting(path, file, bytes.clone())
                }
                None => {
                    let len = file.len()?;
                    Writer::new(path, file, len)
                }
            })
        };
        Ok(Some(Active {
            base,
            end: last.sealed.end,
            position: Position::new(last.sealed.bytes),
            log: Arc::new(log),
            meter: last.meter,
            index: writer(Kind::Index, index)?,
            time_index: writer(Kind::TimeIndex, time_index)?,
        }))
    }
}

impl<D: Disk> Recovery<'_, D> {
    /// Syncs a log. What the page cache holds after a failure must not be believed by the next recovery either.
    #[track_caller]
    fn sync(&self, base: Offset, log: &D::File) -> io::Result<()> {
        let synced = disk::sync_file(log);
        if synced.is_err() {
            mark_unsynced(self.disk, self.told.dir, base);
        }
        synced
    }

    /// Under `always`, what can be read is durable. Where the run before this one was `always` and this one is not, the
    /// promise it gave is written down, since later evidence will speak of this run.
    fn make_durable(&mut self, base: Offset, log: &D::File, bytes: u64) -> io::Result<()> {
        let gave_promise = match self.told.evidence {
            Evidence::Clean(_) | Evidence::PowerLossUnsynced => false,
            Evidence::ProcessCrash { was_always } => *was_always,
            Evidence::Unknown => true,
        };
        let always = self.told.durability == Durability::Always;
        // The interval counts from the append, whatever happened since: no append may come that would start a timer.
        let interval = matches!(self.told.durability, Durability::Interval(_)) && !self.is_durable;
        if always || interval || gave_promise {
            self.sync(base, log)?;
            // A roll that a crash interrupted may have made this file without making its name durable.
            disk::sync_dir(self.disk, self.told.dir)?;
            self.is_durable = true;
        }
        if (gave_promise || interval) && !always {
            let mark = SyncedTo { segment: base, bytes: Position::new(bytes) };
            // Without it the next recovery assumes less. A disk that has no room for it can still be read.
            if let Err(e) = session::write_synced(self.disk, self.told.dir, mark) {
                self.note(format!("what is synced could not be noted: {e}"));
            }
        }
        Ok(())
    }
}

/// Leaves a mark that a log's sync failed, so that the next recovery writes it anew. Best effort, on a failing disk.
pub(crate) fn mark_unsynced<D: Disk>(disk: &D, dir: &Path, base: Offset) {
    if disk.open(&files::unsynced_path(dir, base), Open::Create).is_ok() {
        let _ = disk::sync_dir(disk, dir);
    }
}

fn scan_meter(scan: &Scan, base: Offset, told: &Instructions<'_>) -> Meter {
    Meter::after(scan.end.since(base), told.index_interval, scan.latest)
}

/// The interval that an index was written with, as far as its entries show.
fn interval_of(index: &[Entry], base: Offset) -> u64 {
    index.first().map_or(0, |e| e.key - base.get() + 1)
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
