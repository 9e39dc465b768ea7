//! Opening a partition: from whatever a crash left to a log that is in order, or to a reason why it is not.
//!
//! Every step can be interrupted by another crash and done again, and ends in the same bytes: bytes are removed only where
//! nothing needs them, and after what replaces them is durable.
//!
//! 1. List the directory; sort out leftovers and foreign files. Copy what is written to and has other names, too.
//! 2. Each segment: trust it (clean stop, or a sealed segment whose index proves that it reaches the next), or scan it. One
//!    in which an earlier start found damage is always scanned, so that each start names the damage that there is.
//! 3. The last segment's tail: cut a torn one; never cut what could not be read, nor what has a valid record behind it, with
//!    one exception: see [`Evidence::PowerLossUnsynced`].
//! 4. Rebuild indexes that are missing or wrong, by replacing the file.
//! 5. Go on in the last segment, or, where it is damaged, in a new one behind it, once it is noted where that one ends.

mod copies;
mod look;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use look::Looked;

use crate::disk::{self, Disk, DiskFile, Open};
use crate::files::{self, Kind, Name};
use crate::index::Writer;
use crate::listing;
use crate::markers::Evidence;
use crate::report::PartitionReport;
use crate::scan::Hole;
use crate::segment::{Active, Preallocation, Sealed};
use crate::settings::Durability;
use crate::synced::{self, Noted, SyncedTo};
use crate::units::{Offset, Position};

/// What there is of a log behind the part of it that can be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hidden {
    /// Nothing.
    Nothing,
    /// Under `always`: records up to this offset that could not be made durable.
    Until(Offset),
    /// Nobody knows: its tail could not be read, or its last segment is gone.
    Unknown,
}

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
    /// What lies behind what can be shown.
    pub hidden: Hidden,
    /// Whether every sealed segment has the indexes that it should have.
    pub indexes_in_order: bool,
    /// Why nothing of it can be served, where that is so. What is left of it is unknown then, not empty.
    pub unopened: Option<String>,
    /// What was found and done.
    pub report: PartitionReport,
}

impl<F> Recovered<F> {
    /// A partition that cannot be opened: neither read nor written until a start that succeeds.
    pub fn unopened(error: &io::Error) -> Self {
        let reason = format!("it cannot be opened: {error}");
        Self {
            sealed: Vec::new(),
            active: None,
            end: Offset::ZERO,
            durable: Offset::ZERO,
            hidden: Hidden::Nothing,
            indexes_in_order: false,
            report: PartitionReport {
                fenced: Some(reason.clone()),
                unopened: true,
                ..PartitionReport::default()
            },
            unopened: Some(reason),
        }
    }
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
    /// Why nothing may be changed, where that is so: the data directory cannot be written.
    pub read_only: Option<&'a str>,
}

/// Opens a partition. An error means that nothing of it can be served.
pub fn recover<D: Disk>(disk: &D, told: Instructions<'_>) -> io::Result<Recovered<D::File>> {
    let mut recovery = Recovery {
        disk,
        told,
        found: Found::default(),
        synced_to: None,
        report: PartitionReport::default(),
        is_durable: matches!(told.evidence, Evidence::Clean(_)),
        sync_failed: false,
        is_shared: false,
        durable_before: None,
        unbuilt: Vec::new(),
        is_end_unseen: false,
        is_noted: true,
        strays: Vec::new(),
        is_end_known: false,
        reaches: Offset::ZERO,
    };
    recovery.list()?;
    recovery.synced_to = recovery.known_to_be_synced();
    recovery.run()
}

/// What a partition's directory holds.
#[derive(Debug, Default)]
struct Found {
    /// Base offset → the files that there are.
    segments: BTreeMap<Offset, BTreeSet<Kind>>,
    unsynced: Vec<Offset>,
    damaged: Vec<Offset>,
    leftovers: Vec<String>,
    asides: u32,
}

impl Found {
    /// The base offsets of its logs, in order.
    fn logs(&self) -> Vec<Offset> {
        let with_log = self.segments.iter().filter(|(_, files)| files.contains(&Kind::Log));
        with_log.map(|(base, _)| *base).collect()
    }
}

struct Recovery<'a, D> {
    disk: &'a D,
    told: Instructions<'a>,
    found: Found,
    /// Up to where it was synced once, as the last clean stop, the last sync of an interval or a sync that failed has noted:
    /// what is missing of that was not torn off by a crash.
    synced_to: Option<SyncedTo>,
    report: PartitionReport,
    /// Whether the last segment's log is known to be synced.
    is_durable: bool,
    /// Whether a sync of it has failed: then it is not known to be, whatever a later one says.
    sync_failed: bool,
    /// Whether files that it would write to are another data directory's, too, and stay so.
    is_shared: bool,
    /// What was durable before a sync failed, where the log could not be copied since.
    durable_before: Option<Offset>,
    /// Indexes that could not be built anew, with the bytes that they should have.
    unbuilt: Vec<(Offset, Kind, Vec<u8>)>,
    /// Whether the last segment's tail could not be read, or that segment is gone: nobody knows where the log ends.
    is_end_unseen: bool,
    /// Whether everything that a later start has to know is noted: what is synced, and what is damaged.
    is_noted: bool,
    /// Offsets of records that lie where they do not follow.
    strays: Vec<Offset>,
    /// Whether the log has no more bytes than were synced once: then it ends where that does, since nothing was written behind it, or
    /// a power loss has taken that.
    is_end_known: bool,
    /// The offset behind the last that its logs have, whatever is known of others.
    reaches: Offset,
}

impl<D: Disk> Recovery<'_, D> {
    fn path(&self, base: Offset, kind: Kind) -> PathBuf {
        files::segment_path(self.told.dir, base, kind)
    }

    fn list(&mut self) -> io::Result<()> {
        let mut others = Vec::new();
        for entry in self.disk.list(self.told.dir)? {
            let found = &mut self.found;
            match files::parse(&entry.name) {
                _ if entry.is_dir => others.push(entry.name),
                Name::Segment(base, kind) => _ = found.segments.entry(base).or_default().insert(kind),
                Name::Unsynced(base) => found.unsynced.push(base),
                Name::Damaged(base) => found.damaged.push(base),
                Name::Tmp => found.leftovers.push(entry.name),
                Name::Synced => {}
                Name::Aside => found.asides += 1,
                Name::Foreign => others.push(entry.name),
            }
        }
        self.report.notes.extend(listing::left_alone(&others));
        Ok(())
    }

    /// What was synced before the syncs that have failed.
    fn before_failed_syncs(&self) -> impl Iterator<Item = SyncedTo> + '_ {
        self.found.unsynced.iter().map(|base| synced::read_unsynced(self.disk, self.told.dir, *base))
    }

    /// Where a note of how far syncs have come is lost, it may have been as far as anything: that is no longer a power loss of which
    /// it is known what was never synced.
    fn known_to_be_synced(&mut self) -> Option<SyncedTo> {
        let noted = match synced::read_synced(self.disk, self.told.dir) {
            Noted::To(to) => Some(to),
            Noted::Lost if *self.told.evidence == Evidence::PowerLossUnsynced => {
                self.told.evidence = &Evidence::Unknown;
                self.note(format!("{} cannot be read: nothing counts as never synced", files::SYNCED));
                None
            }
            Noted::Nothing | Noted::Lost => None,
        };
        let at_stop = self.told.stopped_at.map(SyncedTo::at_end_of);
        self.before_failed_syncs().chain(at_stop).chain(noted).reduce(SyncedTo::and)
    }

    fn note(&mut self, note: String) {
        self.report.notes.push(note);
    }

    fn fence(&mut self, reason: String) {
        self.report.fenced.get_or_insert(reason);
    }

    fn run(mut self) -> io::Result<Recovered<D::File>> {
        let logs = self.found.logs();
        self.prepare(&logs);
        let (mut sealed, mut last) = self.look_at_all(&logs)?;
        let end = self.find_end(&logs, last.as_mut());
        self.tidy(&logs);
        let mut durable = sealed.last().map_or(Offset::ZERO, |s| s.end);
        let mut active = None;
        if let Some(last) = last {
            let synced;
            (active, synced) = self.go_on(&last)?;
            if active.is_none() {
                sealed.push(last.sealed);
            }
            if synced {
                durable = end;
            } else if let Some(before) = self.durable_before {
                durable = durable.max(before.min(end));
            }
        }
        self.report.start = sealed.first().map_or(active.as_ref().map_or(end, |a| a.base), |s| s.base);
        self.report.end = end;
        self.report.segments = logs.len();
        // What a fence has kept from being synced or noted, the run before may have promised.
        self.report.noted = self.is_noted && self.report.fenced.is_none();
        let is_active = |base: Offset| active.as_ref().is_some_and(|a| a.base == base);
        let indexes_in_order = self.unbuilt.iter().all(|(base, ..)| is_active(*base));
        let hidden = match self.is_end_unseen {
            true => Hidden::Unknown,
            false if durable < end => Hidden::Until(end),
            false => Hidden::Nothing,
        };
        let (unopened, report) = (None, self.report);
        Ok(Recovered { sealed, active, end, durable, hidden, indexes_in_order, unopened, report })
    }

    /// What has to be known, or done, before a segment is looked at.
    fn prepare(&mut self, logs: &[Offset]) {
        if let Some(why) = self.told.read_only {
            self.fence(format!("the data directory takes no writes: {why}"));
        }
        if logs.is_empty() {
            self.miss_logs();
        }
        if let Err(e) = self.stop_sharing(logs) {
            self.is_shared = true;
            self.fence(e.to_string());
        }
        if let Err(e) = self.redo_unsynced() {
            // What the page cache says is not to be believed, whatever a sync of it says now.
            self.sync_failed = true;
            self.durable_before = self.before_failed_syncs().map(|to| to.end).max();
            self.fence(format!("a log whose last sync had failed cannot be copied: {e}"));
        }
        if let (Evidence::Clean(stop), Some(&first)) = (self.told.evidence, logs.first())
            && let Some(was_first) =
                stop.segments.first().map(|sealed| sealed.base).filter(|base| *base < first)
        {
            // Nobody deletes the oldest while the broker is down, but a person or a disk.
            let gone = Hole { position: Position::ZERO, bytes: 0, first: was_first, next: first };
            self.damage(&self.path(was_first, Kind::Log), gone);
        }
    }

    /// A partition has a log before its topic has its name, and retention leaves it one: no crash takes the last. Only a clean
    /// stop tells where it ended. What an earlier one or a sync has noted may have been followed by records, whose offsets must
    /// not be given out again.
    fn miss_logs(&mut self) {
        let is_end_known = matches!(self.told.evidence, Evidence::Clean(_));
        if !self.found.segments.is_empty() {
            self.fence("its log files are gone and only indexes are left".into());
        } else if !is_end_known {
            self.fence("its log files are gone, and nobody knows where they ended: put them back".into());
        }
        self.is_end_unseen = !is_end_known;
    }

    /// Looks at every segment, in order: those that are followed by another, and the last.
    fn look_at_all(&mut self, logs: &[Offset]) -> io::Result<(Vec<Sealed>, Option<Looked>)> {
        let Some((&last, before)) = logs.split_last() else { return Ok((Vec::new(), None)) };
        let mut sealed = Vec::new();
        for (&base, &next) in before.iter().zip(&logs[1..]) {
            sealed.push(self.look_at(base, Some(next))?.sealed);
        }
        Ok((sealed, Some(self.look_at(last, None)?)))
    }

    /// The log end offset: where the last segment ends, or where the log is known to have ended, if that is further.
    fn find_end(&mut self, logs: &[Offset], last: Option<&mut Looked>) -> Offset {
        let mut end = last.as_ref().map_or(Offset::ZERO, |l| l.sealed.end);
        self.reaches = end;
        let was_synced = self.synced_to.map(|synced| (synced.segment, synced.end));
        let by_strays = last.as_ref().and_then(|l| Some((l.sealed.base, self.end_by_strays(end, 0)?)));
        let known = [was_synced, by_strays].into_iter().flatten().max_by_key(|(_, end)| *end);
        if let Some((segment, known)) = known.filter(|(_, known)| *known > end) {
            // It was there, and synced or put in the wrong place, and is gone: no tail that a crash tore. Its offsets are not given
            // out again.
            let (base, from, bytes) = last.as_ref().map_or((segment, Position::ZERO, 0), |last| {
                (last.sealed.base, Position::new(last.sealed.bytes), last.torn)
            });
            let gone = Hole { position: from, bytes, first: end, next: known };
            self.damage(&self.path(base, Kind::Log), gone);
            end = known;
            // What is left of it is not written on, and has no mark; and what says how far it came may say so in offsets only.
            self.is_noted = false;
            if let Some(last) = last {
                (last.sealed.end, last.whole) = (end, false);
                // What a misplaced record has shown once is noted: the damage that it lies in is not asked again.
                last.damaged |= by_strays.is_some_and(|(_, shown)| shown == end);
                // Nor does anybody know how late those were.
                last.sealed.latest = None;
                last.sealed.bytes += std::mem::take(&mut last.torn);
            }
        }
        if let Some(base) = logs.last().and_then(|last| self.find_lost(*last, end)) {
            let name = files::segment_name(base, Kind::Log);
            self.fence(format!("{name} is gone, and its index shows that it held records: put it back"));
            self.is_end_unseen = true;
        }
        end
    }

    /// Opens the last segment for appending, where it can be; and whether it is durable as far as it can be read.
    fn go_on(&mut self, last: &Looked) -> io::Result<(Option<Active<D::File>>, bool)> {
        if last.whole && self.report.fenced.is_none() {
            let active = self.activate(last)?;
            if active.is_some() || self.is_durable {
                return Ok((active, self.is_durable));
            }
            // It cannot be written on; what the run before has acknowledged is to be durable all the same.
        }
        // Sealed as it is, and like every sealed segment durable before another follows.
        let synced = self.told.read_only.is_some() || self.sync_sealed(last.sealed.base);
        let may_note = self.told.read_only.is_none() && !self.is_shared;
        if synced && last.damaged && !self.is_end_unseen && may_note {
            self.note_end_of_damaged(last.sealed);
        }
        Ok((None, synced))
    }

    /// What is served of a damaged segment may rot as well, and looks like a torn tail then, where nothing good is left behind the
    /// damage: what has been read is neither cut off nor are its offsets given out again.
    fn note_end_of_damaged(&mut self, last: Sealed) {
        let mark = SyncedTo::at_end_of(last);
        let mark = self.synced_to.map_or(mark, |noted| noted.and(mark));
        if self.synced_to != Some(mark)
            && let Err(e) = synced::write_synced(self.disk, self.told.dir, mark)
        {
            self.is_noted = false;
            self.note(format!("where the damaged log ends could not be noted: {e}"));
        }
    }

    /// A segment behind the last log that has an index with anything in it, and no log. A log's name is durable before its
    /// index has any, and retention takes segments from the front: no crash leaves that. How many records it held nobody knows,
    /// nor so which offset is the next; except of those that the clean stop just before this start has recorded.
    fn find_lost(&self, last: Offset, end: Offset) -> Option<Offset> {
        let from = if matches!(self.told.evidence, Evidence::Clean(_)) { end } else { last.next() };
        let holds = |base, kind| {
            let file = self.disk.open(&self.path(base, kind), Open::Read);
            file.and_then(|file| file.len()).is_ok_and(|len| len > 0)
        };
        let behind = self.found.segments.range(from..).filter(|(_, files)| !files.contains(&Kind::Log));
        let mut orphans = behind.map(|(base, _)| *base);
        orphans.find(|base| [Kind::Index, Kind::TimeIndex].into_iter().any(|kind| holds(*base, kind)))
    }

    fn sync_sealed(&mut self, base: Offset) -> bool {
        if self.sync_failed {
            // The kernel tells a failure once: a second sync would say yes of what it has dropped.
            return false;
        }
        let path = self.path(base, Kind::Log);
        let synced = self.disk.open(&path, Open::Read).and_then(|log| self.sync(base, &log));
        if let Err(e) = &synced {
            self.fence(format!("{} cannot be synced: {e}", name_of(&path)));
        }
        synced.is_ok()
    }

    /// Whether something with this base offset shows that the log had come further than it does: it stays, to show it again.
    fn shows_end(&self, base: Offset) -> bool {
        base > self.reaches && self.synced_to.is_some_and(|to| to.end == base)
    }

    /// Removes what belongs to no segment any more.
    fn tidy(&mut self, logs: &[Offset]) {
        if self.told.read_only.is_some() || self.report.fenced.is_some() {
            return;
        }
        let found = &self.found;
        let mut gone = found.leftovers.clone();
        for (&base, files) in &found.segments {
            if !logs.contains(&base) && !self.shows_end(base) {
                let orphans = files.iter().filter(|kind| **kind != Kind::Log);
                gone.extend(orphans.map(|kind| name_of(&self.path(base, *kind))));
            }
        }
        let stale = found.damaged.iter().filter(|base| !logs.contains(base) && !self.shows_end(**base));
        gone.extend(stale.map(|base| name_of(&files::damaged_path(self.told.dir, *base))));
        for name in gone {
            if self.disk.remove_file(&self.told.dir.join(&name)).is_ok() {
                self.note(format!("{name} belonged to nothing: removed"));
            }
        }
    }

    /// Opens the last segment for appending. `None`: it cannot be written, and is served as it is.
    fn activate(&mut self, last: &Looked) -> io::Result<Option<Active<D::File>>> {
        let base = last.sealed.base;
        let owned = self.own(&self.path(base, Kind::Log)).map_err(|e| e.to_string());
        let open = |kind, how| {
            let path = files::segment_path(self.told.dir, base, kind);
            let say = |e| format!("{} cannot be opened for writing: {e}", name_of(&path));
            self.disk.open(&path, how).map_err(say)
        };
        let opened = owned.and_then(|()| {
            let log = open(Kind::Log, Open::Write)?;
            Ok((log, open(Kind::Index, Open::Create)?, open(Kind::TimeIndex, Open::Create)?))
        });
        let (log, index, time_index) = match opened {
            Ok(files) => files,
            Err(why) => {
                self.fence(why);
                return Ok(None);
            }
        };
        if !matches!(self.told.evidence, Evidence::Clean(_)) {
            // What the run before had of the disk ahead of its records. Nobody may ever write to this log again.
            let _ = log.give_back();
        }
        if let Err(e) = self.make_durable(base, &log, &last.sealed) {
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
            preallocated: Preallocation::default(),
        }))
    }
}

impl<D: Disk> Recovery<'_, D> {
    /// Syncs a log. What the page cache holds after a failure must not be believed by the next recovery either.
    #[track_caller]
    fn sync(&mut self, base: Offset, log: &D::File) -> io::Result<()> {
        let synced = disk::sync_file(log);
        if synced.is_err() {
            self.sync_failed = true;
            synced::write_unsynced(self.disk, self.told.dir, base, base);
        }
        synced
    }

    /// Under `always`, what can be read is durable. Where the run before this one was `always` and this one is not, the
    /// promise it gave is written down, since later evidence will speak of this run.
    fn make_durable(&mut self, base: Offset, log: &D::File, last: &Sealed) -> io::Result<()> {
        let gave_promise = match self.told.evidence {
            Evidence::Clean(_) | Evidence::PowerLossUnsynced => false,
            Evidence::ProcessCrash { promised } => *promised,
            Evidence::Unknown => true,
        };
        let always = self.told.durability == Durability::Always;
        // The interval counts from the append, whatever happened since: no append may come that would start a timer.
        let interval = matches!(self.told.durability, Durability::Interval(_));
        // A process that was killed may have cut off what it refused, and not synced that: once it has been seen that it is not
        // there, power loss must not bring it back.
        let killed = matches!(self.told.evidence, Evidence::ProcessCrash { .. } | Evidence::Unknown);
        let syncs = always || interval && !self.is_durable || killed;
        if syncs {
            self.sync(base, log)?;
            self.is_durable = true;
            // A roll that a crash interrupted may have made this file without making its name durable; no later sync of the file
            // would, nor a clean stop. After a power loss, what is there has a name that lasts.
            disk::sync_dir(self.disk, &self.disk.open_dir(self.told.dir)?)?;
        }
        // What a cut has synced is for this run's promise, too. Of what a clean stop left, that stop speaks.
        let promises = interval && !matches!(self.told.evidence, Evidence::Clean(_));
        if (gave_promise || promises) && !always {
            let mark = SyncedTo::at_end_of(*last);
            // A disk that has no room for it can still be read. But without it, what this run says of itself would mislead the next
            // recovery.
            if let Err(e) = synced::write_synced(self.disk, self.told.dir, mark) {
                self.is_noted = false;
                self.note(format!("what is synced could not be noted: {e}"));
            }
        }
        Ok(())
    }
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
