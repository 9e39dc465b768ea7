//! A partition: the ordered segments of one log, behind one lock.
//!
//! What always holds, whenever the lock is free:
//!
//! - offsets are dense: each segment starts where the one before ended, and the next record gets [`Range::end`] or,
//!   under `always`, an offset behind it;
//! - an append is in the log whole, or not at all;
//! - what can be read is never taken back by a crash of the process, nor, under `always`, by one of the machine;
//! - after anything that leaves the files in doubt the partition is *fenced*: it serves reads and takes no writes until
//!   it is opened anew.
//!
//! Appends and reads run on the caller's thread. Whatever waits for a device (syncs, rolls) runs in one background task
//! for each partition, one thing after another, so that the failure of a sync cannot be told to one and hidden from
//! another. The task exists only while there is something to do.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::batch::Batch;
use crate::clock::Clock;
use crate::disk::{self, Disk, DiskFile, Open};
use crate::error::Error;
use crate::files::{self, Kind};
use crate::index::ENTRY_BYTES;
use crate::recovery::Recovered;
use crate::segment::{self, Active, AppendFailed, Read, Sealed, TimeLookup, View};
use crate::session::{self, Closed, SyncedTo};
use crate::settings::Durability;
use crate::stats::Stats;
use crate::units::{Offset, Position, Timestamp};
use crate::work::Work;

/// Where a batch went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The offset of its first record.
    pub base: Offset,
    /// The offset after its last.
    pub end: Offset,
}

/// The offsets that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The first offset, or the one that the first record will get.
    pub start: Offset,
    /// The offset after the last that can be read.
    pub end: Offset,
}

/// Whole, checked records, as they lie in the log.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// Record after record, each valid; empty where there was nothing to read yet.
    pub bytes: Bytes,
    /// The offset to ask for next.
    pub next: Offset,
    /// What could be read at that moment.
    pub range: Range,
}

/// What a partition needs to be opened.
#[derive(Clone, Debug)]
pub struct Config<D> {
    /// `topic/number`.
    pub name: String,
    /// Its directory.
    pub dir: PathBuf,
    /// Files.
    pub disk: D,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Threads.
    pub work: Arc<dyn Work>,
    /// Counters.
    pub stats: Arc<Stats>,
    /// When an append is acknowledged.
    pub durability: Durability,
    /// When to roll.
    pub segment_bytes: u64,
    /// Every how many records an index entry.
    pub index_interval: u64,
    /// Bytes to keep, see [`crate::retention`].
    pub retention_bytes: Option<u64>,
    /// Age to keep.
    pub retention_age: Option<Duration>,
}

/// One partition. Clones are the same partition.
#[derive(Clone, Debug)]
pub struct Partition<D: Disk>(Arc<Shared<D>>);

#[derive(Debug)]
struct Shared<D: Disk> {
    config: Config<D>,
    state: Mutex<State<D>>,
    /// Told when something became durable, a roll ended, the partition was fenced or closed.
    settled: Notify,
    /// Told when there is more to read, or nothing more to wait for.
    more: Notify,
}

#[derive(Debug)]
pub(crate) struct State<D: Disk> {
    pub(crate) sealed: Vec<Sealed>,
    pub(crate) active: Option<Active<D::File>>,
    /// The log end offset: of what is written, durable or not.
    pub(crate) end: Offset,
    /// The log start offset.
    pub(crate) start: Offset,
    /// Up to where the log is known to be synced.
    durable: Offset,
    fenced: Option<String>,
    closing: bool,
    /// Whether the background task exists.
    busy: bool,
    roll: Roll,
    sync_wanted: bool,
    /// Whether a timer for the next interval sync runs.
    timer: bool,
    /// Counts rolls that ended, one way or the other; with the error of the last one that failed.
    rolls_ended: u64,
    roll_failed: Option<(u64, Error)>,
    /// Where the last read ended, for the reader that goes on from there.
    read_to: Option<(Offset, Position)>,
    /// Whether every sealed segment's indexes are complete and synced.
    indexes_in_order: bool,
    /// For retention: when each sealed segment was first seen by this process, by base offset.
    pub(crate) seen: std::collections::BTreeMap<Offset, Instant>,
}

/// Whether the active segment is to be followed by another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Roll {
    No,
    Wanted,
    UnderWay,
}

/// What the background task does next.
enum Chore<F> {
    Roll { from: Option<segment::Handles<F>>, base: Offset, old: Option<Offset> },
    Sync { handles: segment::Handles<F>, to: Offset, mark: SyncedTo },
}

/// What became of an attempt to append.
enum Attempt {
    Done(Appended),
    /// A roll has to end first: the number of rolls that had ended before it.
    AfterRoll(u64),
}

impl<D: Disk> Partition<D> {
    /// A partition as recovery left it.
    pub(crate) fn new(config: Config<D>, recovered: Recovered<D::File>) -> Self {
        let Recovered { sealed, active, end, durable, report } = recovered;
        let state = State {
            start: report.start,
            sealed,
            active,
            end,
            durable,
            fenced: report.fenced,
            closing: false,
            busy: false,
            roll: Roll::No,
            sync_wanted: false,
            timer: false,
            rolls_ended: 0,
            roll_failed: None,
            read_to: None,
            indexes_in_order: true,
            seen: std::collections::BTreeMap::new(),
        };
        let (settled, more) = (Notify::new(), Notify::new());
        Self(Arc::new(Shared { config, state: Mutex::new(state), settled, more }))
    }

    /// `topic/number`.
    pub fn name(&self) -> &str {
        &self.0.config.name
    }

    pub(crate) fn config(&self) -> &Config<D> {
        &self.0.config
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State<D>> {
        // A panic under the lock is a bug; what it left is what a crash would leave, and is served no further.
        self.0.state.lock().unwrap_or_else(|poisoned| {
            let mut state = poisoned.into_inner();
            state.fence("an earlier operation panicked".into());
            state
        })
    }

    /// Appends all records or none, without waiting. `Ok(None)`: a roll has to end first, see [`Partition::append`]. The
    /// batch is sealed on success: clear it before it is used again.
    pub fn try_append(&self, batch: &mut Batch) -> Result<Option<Appended>, Error> {
        match self.attempt(batch)? {
            Attempt::Done(appended) => Ok(Some(appended)),
            Attempt::AfterRoll(_) => Ok(None),
        }
    }

    /// Appends all records or none; waits while a roll is under way. Not yet acknowledged: see [`Partition::committed`].
    pub async fn append(&self, batch: &mut Batch) -> Result<Appended, Error> {
        loop {
            match self.attempt(batch)? {
                Attempt::Done(appended) => return Ok(appended),
                Attempt::AfterRoll(ended) => self.rolled(ended).await?,
            }
        }
    }

    fn attempt(&self, batch: &mut Batch) -> Result<Attempt, Error> {
        let config = &self.0.config;
        let mut state = self.lock();
        state.writable(&config.name)?;
        if state.needs_roll(config.segment_bytes) {
            state.want_roll();
            let ended = state.rolls_ended;
            self.look_after(state);
            return Ok(Attempt::AfterRoll(ended));
        }
        let State { active, end, .. } = &mut *state;
        let active = active.as_mut().expect("needs_roll made sure");
        let appended = Appended { base: *end, end: end.plus(batch.len() as u64) };
        let now = config.clock.now();
        batch.seal(appended.base, now);
        if let Err(failed) = active.append(batch, now) {
            config.stats.appends_failed.add(1);
            return Err(self.append_failed(state, failed));
        }
        state.end = appended.end;
        config.stats.records_appended.add(batch.len() as u64);
        config.stats.bytes_appended.add(batch.byte_len() as u64);
        match config.durability {
            Durability::Always => state.sync_wanted = true,
            Durability::Interval(after) => self.start_timer(&mut state, after),
            Durability::Os => {}
        }
        if config.durability == Durability::Always {
            self.look_after(state);
        } else {
            drop(state);
            self.0.more.notify_waiters();
        }
        Ok(Attempt::Done(appended))
    }

    fn append_failed(&self, mut state: MutexGuard<'_, State<D>>, failed: AppendFailed) -> Error {
        let base = state.active.as_ref().map_or(state.end, |a| a.base);
        let path = files::segment_path(&self.0.config.dir, base, Kind::Log);
        match failed {
            AppendFailed::Undone(source) => Error::Storage { path, source: source.into() },
            AppendFailed::Stuck { write, cut } => {
                let reason = format!("a write failed ({write}) and could not be cut off again ({cut})");
                state.fence(reason.clone());
                drop(state);
                self.wake_all();
                Error::OutcomeUnknown { partition: self.name().into(), reason }
            }
        }
    }

    /// Waits until one more roll than `before` has ended.
    async fn rolled(&self, before: u64) -> Result<(), Error> {
        loop {
            let settled = self.0.settled.notified();
            {
                let state = self.lock();
                match &state.roll_failed {
                    Some((n, error)) if *n > before => return Err(error.clone()),
                    _ if state.rolls_ended > before => return Ok(()),
                    _ => state.writable(self.name())?,
                }
            }
            settled.await;
        }
    }

    /// Whether what ends before `end` may be acknowledged now, without waiting. `os` and `interval`: always.
    pub fn is_committed(&self, end: Offset) -> Result<bool, Error> {
        if self.0.config.durability != Durability::Always {
            return Ok(true);
        }
        self.lock().committed(self.name(), end)
    }

    /// Waits until what ends before `end` may be acknowledged. An error means that its outcome is unknown.
    pub async fn committed(&self, end: Offset) -> Result<(), Error> {
        if self.0.config.durability != Durability::Always {
            return Ok(());
        }
        loop {
            let settled = self.0.settled.notified();
            if self.lock().committed(self.name(), end)? {
                return Ok(());
            }
            settled.await;
        }
    }

    /// Reads whole records from `from` on: at least one if there is one, and otherwise not more than `max_bytes`.
    /// Nothing where `from` is the end. The bytes were checked; a damaged record ends the answer before it, or is the
    /// error where it is the first.
    pub fn read(&self, from: Offset, max_bytes: usize) -> Result<Fetched, Error> {
        loop {
            let (range, view, hint) = {
                let state = self.lock();
                let range = state.range(self.0.config.durability);
                if from == range.end {
                    return Ok(Fetched { bytes: Bytes::new(), next: from, range });
                }
                if from < range.start || from > range.end {
                    let partition = self.name().into();
                    return Err(Error::OffsetOutOfRange {
                        partition,
                        asked: from,
                        start: range.start,
                        end: range.end,
                    });
                }
                let hint = state.read_to.filter(|(offset, _)| *offset == from).map(|(_, at)| at);
                (range, self.view(&state, from), hint)
            };
            let read = view.and_then(|view| {
                let read = view.read(from, max_bytes, hint)?;
                Ok((view, read))
            });
            match read {
                Ok((view, read)) => return self.fetched(from, range, view, read, hint),
                // Retention was faster: look again at what there is.
                Err(e) if e.kind() == io::ErrorKind::NotFound && self.lock().start > from => {}
                Err(source) => return Err(self.unreadable(from, source)),
            }
        }
    }

    fn fetched(
        &self,
        from: Offset,
        range: Range,
        view: View<D::File>,
        read: Read,
        hint: Option<Position>,
    ) -> Result<Fetched, Error> {
        match read {
            Read::Records { bytes, next, at } => {
                let end = at.plus(bytes.len() as u64);
                let mut state = self.lock();
                if hint.is_some() || state.read_to.is_none_or(|(offset, _)| offset < next) {
                    state.read_to = (next < view.end).then_some((next, end));
                }
                drop(state);
                self.0.config.stats.bytes_read.add(bytes.len() as u64);
                Ok(Fetched { bytes, next, range })
            }
            Read::Damaged { position, next } => {
                self.0.config.stats.damage_read.add(1);
                Err(Error::Corrupt { segment: view.path, position, offset: from, next })
            }
        }
    }

    fn unreadable(&self, from: Offset, source: io::Error) -> Error {
        Error::Unreadable { partition: self.name().into(), offset: from, source: source.into() }
    }

    /// The segment that holds `offset`, open for reading. The caller has checked that there is one.
    fn view(&self, state: &State<D>, offset: Offset) -> io::Result<View<D::File>> {
        let config = &self.0.config;
        match &state.active {
            Some(active) if offset >= active.base => Ok(View {
                path: files::segment_path(&config.dir, active.base, Kind::Log),
                log: active.log.clone(),
                base: active.base,
                end: state.readable_end(config.durability),
                bytes: active.position.get(),
                index: Some(active.index.reader()),
                time_index: Some(active.time_index.reader()),
            }),
            _ => {
                let i = state.sealed.partition_point(|s| s.end <= offset);
                let sealed = state.sealed.get(i).ok_or(io::ErrorKind::NotFound)?;
                let mut view = segment::open_sealed(&config.disk, &config.dir, sealed)?;
                view.end = view.end.min(state.readable_end(config.durability));
                Ok(view)
            }
        }
    }

    /// Waits until the record at `offset` can be read, or the partition is closed.
    pub async fn readable(&self, offset: Offset) {
        loop {
            let more = self.0.more.notified();
            {
                let state = self.lock();
                if state.closing || state.readable_end(self.0.config.durability) > offset {
                    return;
                }
            }
            more.await;
        }
    }

    /// The offsets that can be read now.
    pub fn range(&self) -> Range {
        self.lock().range(self.0.config.durability)
    }

    /// Bytes of its logs on disk.
    pub fn bytes(&self) -> u64 {
        let state = self.lock();
        let active = state.active.as_ref().map_or(0, |a| a.position.get());
        state.sealed.iter().map(|s| s.bytes).sum::<u64>() + active
    }

    /// How many segments it has.
    pub fn segments(&self) -> usize {
        let state = self.lock();
        state.sealed.len() + usize::from(state.active.is_some())
    }

    /// Why it takes no writes, where it takes none.
    pub fn fenced(&self) -> Option<String> {
        self.lock().fenced.clone()
    }

    /// The first record whose timestamp is `at` or later; `None` where there is none.
    pub fn first_at_or_after(&self, at: Timestamp) -> Result<Option<(Offset, Timestamp)>, Error> {
        let late_enough =
            |latest: Option<(Timestamp, Offset)>| latest.is_some_and(|(latest, _)| latest >= at);
        let candidates: Vec<io::Result<View<D::File>>> = {
            let state = self.lock();
            let sealed = state.sealed.iter().filter(|s| late_enough(s.latest)).map(|s| s.base);
            let active = state.active.iter().filter(|a| late_enough(a.meter.latest)).map(|a| a.base);
            sealed.chain(active).map(|base| self.view(&state, base)).collect()
        };
        for view in candidates {
            let view = match view {
                Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                view => view.map_err(|e| self.unreadable(Offset::ZERO, e))?,
            };
            let base = view.base;
            match view.first_at_or_after(at).map_err(|e| self.unreadable(base, e))? {
                TimeLookup::Found(offset, timestamp) => return Ok(Some((offset, timestamp))),
                TimeLookup::Damaged(offset, position) => {
                    let next = offset.next();
                    return Err(Error::Corrupt { segment: view.path, position, offset, next });
                }
                TimeLookup::None => {}
            }
        }
        Ok(None)
    }

    /// Takes no more writes, and lets everything that was started end. Gives what a clean stop records of it, or `None`
    /// where it is not in order.
    pub async fn close(&self) -> Option<Closed> {
        {
            let mut state = self.lock();
            state.closing = true;
            state.sync_wanted = state.end > state.durable;
            self.look_after(state);
        }
        self.wake_all();
        loop {
            let settled = self.0.settled.notified();
            if !self.lock().busy {
                break;
            }
            settled.await;
        }
        self.closed().await
    }

    async fn closed(&self) -> Option<Closed> {
        let config = &self.0.config;
        let (handles, closed) = {
            let mut state = self.lock();
            if state.fenced.is_some() || state.durable < state.end || !state.indexes_in_order {
                return None;
            }
            if let Some(active) = &mut state.active {
                active.index.flush().and_then(|()| active.time_index.flush()).ok()?;
            }
            (state.active.as_ref().map(Active::handles), state.closed(config)?)
        };
        let Some(handles) = handles else { return Some(closed) };
        let synced = off_thread(&*config.work, move || handles.sync_indexes()).await;
        synced.then_some(closed)
    }

    /// Takes no writes any more, for a reason that is told to whoever tries.
    pub(crate) fn retire(&self, reason: &str) {
        {
            let mut state = self.lock();
            state.closing = true;
            state.fence(reason.into());
        }
        self.wake_all();
    }

    /// Waits until no background task is under way.
    pub(crate) async fn idle(&self) {
        loop {
            let settled = self.0.settled.notified();
            if !self.lock().busy {
                return;
            }
            settled.await;
        }
    }

    fn wake_all(&self) {
        self.0.settled.notify_waiters();
        self.0.more.notify_waiters();
    }

    fn start_timer(&self, state: &mut State<D>, after: Duration) {
        if !state.timer {
            state.timer = true;
            let partition = self.clone();
            tokio::spawn(async move {
                tokio::time::sleep(after).await;
                let mut state = partition.lock();
                state.timer = false;
                state.sync_wanted = true;
                partition.look_after(state);
            });
        }
    }

    /// Asks for a roll even where the segment is not full; waits until it has ended.
    pub(crate) async fn roll(&self) -> Result<(), Error> {
        let ended = {
            let mut state = self.lock();
            state.writable(self.name())?;
            if state.active.as_ref().is_some_and(|a| a.end == a.base) {
                return Ok(());
            }
            state.want_roll();
            let ended = state.rolls_ended;
            self.look_after(state);
            ended
        };
        self.rolled(ended).await
    }

    /// Starts the background task where there is something to do and it does not exist.
    fn look_after(&self, mut state: MutexGuard<'_, State<D>>) {
        if !state.busy && state.has_chores() {
            state.busy = true;
            drop(state);
            tokio::spawn(self.clone().chores());
        }
    }

    async fn chores(self) {
        loop {
            let chore = {
                let mut state = self.lock();
                let chore = state.next_chore();
                if chore.is_none() {
                    state.busy = false;
                }
                chore
            };
            match chore {
                Some(Chore::Roll { from, base, old }) => self.do_roll(from, base, old).await,
                Some(Chore::Sync { handles, to, mark }) => self.do_sync(handles, to, mark).await,
                None => return self.wake_all(),
            }
            self.wake_all();
        }
    }

    /// Syncs the log. Whatever goes wrong is final: the kernel may have dropped the pages, and would say yes next time.
    async fn do_sync(&self, handles: segment::Handles<D::File>, to: Offset, mark: SyncedTo) {
        let config = self.0.config.clone();
        let started = Instant::now();
        let result = off_thread(&*config.work.clone(), move || {
            handles.sync_log()?;
            if matches!(config.durability, Durability::Interval(_)) {
                // Evidence for recovery; without it, recovery assumes less.
                let _ = session::write_synced(&config.disk, &config.dir, mark);
            }
            Ok(())
        })
        .await;
        let mut state = self.lock();
        match result {
            Ok(()) if state.fenced.is_none() => {
                self.0.config.stats.synced(started.elapsed());
                state.durable = state.durable.max(to);
            }
            Ok(()) => {}
            Err(e) => self.sync_failed(state, mark.segment, &e),
        }
    }

    fn sync_failed(&self, mut state: MutexGuard<'_, State<D>>, base: Offset, error: &io::Error) {
        let config = &self.0.config;
        config.stats.syncs_failed.add(1);
        state.fence(format!("a sync of its log failed: {error}"));
        drop(state);
        mark_unsynced(&config.disk, &config.dir, base);
    }

    /// Seals the active segment and makes the next one. On failure the old one stays, and the next append tries again.
    async fn do_roll(&self, from: Option<segment::Handles<D::File>>, base: Offset, old: Option<Offset>) {
        let config = self.0.config.clone();
        let started = Instant::now();
        let rolled = off_thread(&*config.work.clone(), move || roll(&config, from, base)).await;
        let mut state = self.lock();
        state.roll = Roll::No;
        state.rolls_ended += 1;
        let n = state.rolls_ended;
        match rolled {
            Ok(rolled) if state.fenced.is_none() => {
                self.0.config.stats.rolls.add(1);
                self.0.config.stats.synced(started.elapsed());
                state.indexes_in_order &= rolled.indexes_synced;
                if let Some(old) = state.active.replace(rolled.active) {
                    let sealed = old.as_sealed();
                    state.sealed.push(sealed);
                }
                state.durable = base;
            }
            Ok(_) => {}
            Err(RollFailed::Sync(e)) => self.sync_failed(state, old.unwrap_or(base), &e),
            Err(RollFailed::Create(path, e)) => {
                state.roll_failed = Some((n, Error::Storage { path, source: e.into() }));
            }
            Err(RollFailed::SyncDir(e)) => {
                state.fence(format!("a sync of its directory failed: {e}"));
            }
        }
    }
}

struct Rolled<F> {
    active: Active<F>,
    indexes_synced: bool,
}

enum RollFailed {
    Sync(io::Error),
    Create(PathBuf, io::Error),
    SyncDir(io::Error),
}

/// The old segment is durable before the new one's name is; the new one's name is before anything in it is acknowledged.
fn roll<D: Disk>(
    config: &Config<D>,
    from: Option<segment::Handles<D::File>>,
    base: Offset,
) -> Result<Rolled<D::File>, RollFailed> {
    let mut indexes_synced = true;
    if let Some(old) = from {
        old.sync_log().map_err(RollFailed::Sync)?;
        indexes_synced = old.sync_indexes();
    }
    let path = || files::segment_path(&config.dir, base, Kind::Log);
    let active = segment::create(&config.disk, &config.dir, base, config.index_interval)
        .map_err(|e| RollFailed::Create(path(), e))?;
    disk::sync_dir(&config.disk, &config.dir).map_err(RollFailed::SyncDir)?;
    Ok(Rolled { active, indexes_synced })
}

/// Leaves a mark that a log's sync failed, so that the next recovery writes it anew. Best effort, on a failing disk.
fn mark_unsynced<D: Disk>(disk: &D, dir: &Path, base: Offset) {
    if disk.open(&files::unsynced_path(dir, base), Open::Create).is_ok() {
        let _ = disk::sync_dir(disk, dir);
    }
}

/// Runs a job through the work seam and gives its result.
pub(crate) async fn off_thread<T: Send + 'static>(
    work: &dyn Work,
    job: impl FnOnce() -> T + Send + 'static,
) -> T {
    let slot = Arc::new(Mutex::new(None));
    let result = slot.clone();
    work.run(Box::new(move || *slot.lock().unwrap_or_else(|e| e.into_inner()) = Some(job()))).await;
    let value = result.lock().unwrap_or_else(|e| e.into_inner()).take();
    value.expect("the work seam runs every job to its end")
}

impl<D: Disk> State<D> {
    fn writable(&self, name: &str) -> Result<(), Error> {
        match &self.fenced {
            Some(reason) => Err(Error::Fenced { partition: name.into(), reason: reason.clone() }),
            None if self.closing => Err(Error::ShuttingDown),
            None => Ok(()),
        }
    }

    /// The first reason counts; the others follow from it.
    fn fence(&mut self, reason: String) {
        self.fenced.get_or_insert(reason);
    }

    fn needs_roll(&self, segment_bytes: u64) -> bool {
        self.roll != Roll::No || self.active.as_ref().is_none_or(|a| a.position.get() >= segment_bytes)
    }

    fn want_roll(&mut self) {
        if self.roll == Roll::No {
            self.roll = Roll::Wanted;
        }
    }

    fn committed(&self, name: &str, end: Offset) -> Result<bool, Error> {
        match &self.fenced {
            _ if self.durable >= end => Ok(true),
            Some(reason) => Err(Error::OutcomeUnknown { partition: name.into(), reason: reason.clone() }),
            None => Ok(false),
        }
    }

    fn readable_end(&self, durability: Durability) -> Offset {
        if durability == Durability::Always { self.durable } else { self.end }
    }

    fn range(&self, durability: Durability) -> Range {
        Range { start: self.start, end: self.readable_end(durability) }
    }

    fn has_chores(&self) -> bool {
        self.fenced.is_none() && (self.roll == Roll::Wanted || self.sync_wanted)
    }

    fn next_chore(&mut self) -> Option<Chore<D::File>> {
        if !self.has_chores() {
            return None;
        }
        if self.roll == Roll::Wanted {
            self.roll = Roll::UnderWay;
            if let Some(active) = &mut self.active {
                // What cannot be written now is missing from the sealed segment, and `sync_indexes` says so.
                let _ = active.index.flush();
                let _ = active.time_index.flush();
            }
            self.sync_wanted = false;
            let from = self.active.as_ref().map(Active::handles);
            return Some(Chore::Roll { from, base: self.end, old: self.active.as_ref().map(|a| a.base) });
        }
        self.sync_wanted = false;
        let active = self.active.as_ref()?;
        let mark = SyncedTo { segment: active.base, bytes: active.position };
        Some(Chore::Sync { handles: active.handles(), to: self.end, mark })
    }

    /// What a clean stop records; `None` where the index files are not what they should be.
    fn closed(&self, config: &Config<D>) -> Option<Closed> {
        let segments: Vec<Sealed> =
            self.sealed.iter().copied().chain(self.active.as_ref().map(Active::as_sealed)).collect();
        let complete = |sealed: &Sealed, kind| {
            let file = config.disk.open(&files::segment_path(&config.dir, sealed.base, kind), Open::Read);
            let len = file.and_then(|f| f.len()).ok();
            len == Some(sealed.entries * ENTRY_BYTES as u64)
        };
        let in_order = segments.iter().all(|s| complete(s, Kind::Index) && complete(s, Kind::TimeIndex));
        in_order.then_some(Closed { index_interval: config.index_interval, segments })
    }
}
