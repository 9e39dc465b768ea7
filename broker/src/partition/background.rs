//! A partition's background task: it syncs, it rolls, one thing after another, and ends when there is nothing to do.
//!
//! The kernel tells the failure of a sync once for each open file. If two syncs of one file were under way, one could be
//! told of the other's failure, and the other believe that all is well: so there is only ever one.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, MutexGuard, Weak};
use std::time::Duration;

use tokio::time::Instant;

use super::state::{Life, Roll, State};
use super::{Config, Partition, Shared};
use crate::disk::{self, Disk};
use crate::error::Error;
use crate::files::{self, Kind};
use crate::segment::{self, Active, Removed, Sealed};
use crate::settings::Durability;
use crate::synced::{self, SyncedTo};
use crate::units::Offset;
use crate::work::off_thread;

/// Where a panic ends what others wait for, they are told instead: it is noted as ended, and the partition is fenced.
pub(crate) struct OnPanic<'a, D: Disk>(&'a Partition<D>, fn(&mut State<D>));

impl<D: Disk> Drop for OnPanic<'_, D> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        let Self(partition, note_the_end) = self;
        let mut state = partition.lock();
        note_the_end(&mut state);
        // It may have come as far as the disk, or not: only a start shows. It may have been a sync.
        state.may_sync = false;
        partition.fence_now(&mut state, "its background work panicked".into());
        drop(state);
        partition.wake_all();
    }
}

/// Has what was appended synced when an interval is over. A partition that nobody has any more is not kept for that long: its files
/// would stay open.
async fn sync_after<D: Disk>(interval: Duration, partition: Weak<Shared<D>>) {
    tokio::time::sleep(interval).await;
    if let Some(partition) = partition.upgrade().map(Partition) {
        let mut state = partition.lock();
        state.timer = false;
        // Closing syncs what is left; behind it, the directory may be another broker's.
        state.sync_wanted |= !state.life.is_ending();
        partition.look_after(state);
    }
}

/// A log that is to be synced, and what is synced then.
pub(super) struct ToSync<F> {
    pub handles: segment::Handles<F>,
    pub mark: SyncedTo,
}

/// What the background task does next.
pub(super) enum Chore<F> {
    Roll { old: Option<ToSync<F>>, base: Offset },
    Sync(ToSync<F>),
    SyncCut { handles: segment::Handles<F>, base: Offset },
}

impl<D: Disk> Partition<D> {
    pub(super) fn wake_all(&self) {
        self.0.settled.notify_waiters();
        self.0.more.notify_waiters();
    }

    pub(super) fn start_timer(&self, state: &mut State<D>, after: Duration) {
        if !state.timer {
            state.timer = true;
            tokio::spawn(sync_after(after, Arc::downgrade(&self.0)));
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
    pub(super) fn look_after(&self, mut state: MutexGuard<'_, State<D>>) {
        if !state.busy && state.has_chores() {
            state.busy = true;
            drop(state);
            tokio::spawn(self.clone().chores());
        }
    }

    pub(super) async fn chores(self) {
        let _guard = OnPanic(&self, |state| state.busy = false);
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
                Some(Chore::Roll { old, base }) => self.do_roll(old, base).await,
                Some(Chore::Sync(synced)) => self.do_sync(synced).await,
                Some(Chore::SyncCut { handles, base }) => self.do_sync_cut(handles, base).await,
                None => return self.wake_all(),
            }
            self.wake_all();
        }
    }

    /// Syncs the log. Whatever goes wrong is final: the kernel may have dropped the pages, and would say yes next time.
    pub(super) async fn do_sync(&self, ToSync { handles, mark }: ToSync<D::File>) {
        let (config, partition) = (self.0.config.clone(), self.clone());
        let closing = self.lock().life == Life::Closing;
        let started = Instant::now();
        let result = off_thread(&*config.work.clone(), move || {
            if closing {
                handles.give_back_blocks();
            }
            handles.sync_log()?;
            // What a clean stop under `os` syncs, the stop records.
            if !(closing && config.durability == Durability::Os) {
                partition.note_synced(mark);
            }
            Ok(())
        })
        .await;
        let mut state = self.lock();
        if let Some(active) = &mut state.active {
            active.preallocated.sync_ends();
        }
        match result {
            Ok(()) if state.may_sync => {
                self.0.config.stats.synced(started.elapsed());
                state.durable = state.durable.max(mark.end);
            }
            Ok(()) => {}
            Err(e) => self.sync_failed(state, mark.segment, &e),
        }
    }

    /// Notes what is synced. Without that, what this run says of itself would have recovery take what is synced for what is not. Where not
    /// even that can be taken back, the next sync tries again. Under `always` all that can be read is synced anyway; and of what is
    /// being deleted nothing has to be known: where that fails, it is synced once more.
    fn note_synced(&self, mark: SyncedTo) {
        let config = &self.0.config;
        if config.durability != Durability::Always && config.home.check().is_ok() {
            let note = || synced::write_synced(&config.disk, &config.dir, mark);
            let _ = config.room.with(note).or_else(|e| {
                let is_deleted = e.kind() == io::ErrorKind::NotFound && self.is_being_deleted();
                if is_deleted { Ok(()) } else { config.home.forget_run() }
            });
        }
    }

    /// A power loss must not bring back what a failed write left, once that is said to have been refused.
    async fn do_sync_cut(&self, handles: segment::Handles<D::File>, base: Offset) {
        let work = self.0.config.work.clone();
        let synced = off_thread(&*work, move || handles.sync_cut()).await;
        let mut state = self.lock();
        match synced {
            Ok(()) => {
                state.cuts_ended += 1;
                state.cutting = false;
            }
            Err(e) => self.sync_failed(state, base, &e),
        }
    }

    pub(super) fn sync_failed(&self, mut state: MutexGuard<'_, State<D>>, base: Offset, error: &io::Error) {
        let config = &self.0.config;
        config.stats.syncs_failed.add(1);
        state.may_sync = false;
        self.fence_now(&mut state, format!("a sync of its log failed: {error}"));
        let durable = state.durable;
        drop(state);
        if config.home.check().is_ok() {
            synced::write_unsynced(&config.disk, &config.dir, base, durable);
        }
    }

    /// The oldest segment, where it ends at or before `offset`, to be removed. `None` too where the partition comes to an end:
    /// what has its names then may be another topic's; and where it would leave no log to tell where the offsets go on.
    pub(crate) fn begin_removal(&self, offset: Offset) -> Option<Sealed> {
        let mut state = self.lock();
        let another_stays = state.active.is_some() || state.sealed.len() > 1;
        let may = another_stays && state.fenced.is_none() && state.life == Life::Open;
        state.removing = state.sealed.first().copied().filter(|s| may && s.end <= offset);
        state.start = state.removing.map_or(state.start, |going| going.end.max(state.start));
        state.removing
    }

    /// To be held during a removal.
    pub(crate) fn watch_removal(&self) -> OnPanic<'_, D> {
        OnPanic(self, |state| state.removing = None)
    }

    /// What became of it.
    pub(crate) fn end_removal(&self, oldest: Sealed, removed: &Removed) {
        let mut state = self.lock();
        state.removing = None;
        if !matches!(removed, Removed::Not(_)) {
            state.sealed.retain(|s| s.base != oldest.base);
            state.seen.remove(&oldest.base);
            let log = files::segment_path(&self.0.config.dir, oldest.base, Kind::Log);
            state.damage.retain(|found| found.segment != log);
            state.damage_told.retain(|(base, _)| *base >= oldest.end);
        }
        if let Removed::InDoubt(e) = removed {
            self.fence_now(&mut state, format!("a sync of its directory failed: {e}"));
        }
        drop(state);
        self.wake_all();
    }

    /// Seals the active segment and makes the next one. On failure the old one stays, and the next append tries again.
    pub(super) async fn do_roll(&self, old: Option<ToSync<D::File>>, base: Offset) {
        let config = self.0.config.clone();
        let started = Instant::now();
        let (partition, mark) = (self.clone(), old.as_ref().map(|old| old.mark));
        let rolled = off_thread(&*config.work.clone(), move || {
            let rolled = roll(&config, old.map(|old| old.handles), base);
            let is_next_there = !matches!(rolled, Err(RollFailed::Create { .. } | RollFailed::SyncDir(_)));
            if let Some(mark) = mark.filter(|_| !is_next_there) {
                // Nothing but this says then that the old one is synced.
                partition.note_synced(mark);
            }
            rolled
        })
        .await;
        let mut state = self.lock();
        state.roll = Roll::No;
        state.rolls_ended += 1;
        let n = state.rolls_ended;
        if mark.is_some() && state.may_sync && !matches!(rolled, Err(RollFailed::Sync(_))) {
            // Whatever came of the next one, or of anything else meanwhile, the old one is synced: the sync that an append has asked
            // for was this one.
            self.0.config.stats.synced(started.elapsed());
            state.durable = state.durable.max(base);
        }
        match rolled {
            Ok(rolled) if state.fenced.is_none() => {
                self.0.config.stats.rolls.add(1);
                state.next_is_there = false;
                state.indexes_in_order &= rolled.indexes_synced;
                if let Some(old) = state.active.replace(rolled.active) {
                    let sealed = old.as_sealed();
                    state.sealed.push(sealed);
                }
                state.durable = base;
            }
            Ok(_) => {}
            Err(RollFailed::Sync(e)) => self.sync_failed(state, mark.map_or(base, |mark| mark.segment), &e),
            Err(RollFailed::Create { path, error: e, is_left, indexes_failed }) => {
                let error = match (state.life, e.kind()) {
                    (Life::Deleting | Life::Deleted, io::ErrorKind::NotFound) => self.deleted(),
                    _ => {
                        self.tell_failing(&mut state, &path, &e);
                        Error::Storage { path, source: e.into() }
                    }
                };
                state.next_is_there = is_left.unwrap_or(state.next_is_there);
                state.roll_failed = Some((n, error));
                state.indexes_in_order &= !indexes_failed;
            }
            Err(RollFailed::SyncDir(e)) => {
                self.fence_now(&mut state, format!("a sync of its directory failed: {e}"));
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
    Create {
        path: PathBuf,
        error: io::Error,
        /// Whether its log may be there all the same; `None` where it was not tried to make one.
        is_left: Option<bool>,
        /// Whether a sync of the old one's indexes has failed: what the next one says of them is not to be believed.
        indexes_failed: bool,
    },
    SyncDir(io::Error),
}

/// The old segment is durable before the new one's name is; the new one's name is before anything in it is acknowledged.
fn roll<D: Disk>(
    config: &Config<D>,
    from: Option<segment::Handles<D::File>>,
    base: Offset,
) -> Result<Rolled<D::File>, RollFailed> {
    let (mut indexes_synced, mut indexes_failed) = (true, false);
    if let Some(old) = from {
        old.give_back_blocks();
        old.sync_log().map_err(RollFailed::Sync)?;
        indexes_synced = old.sync_indexes();
        indexes_failed = old.are_indexes_complete() && !indexes_synced;
    }
    let disk = &config.disk;
    let failed = |error, is_left| {
        let path = files::segment_path(&config.dir, base, Kind::Log);
        RollFailed::Create { path, error, is_left, indexes_failed }
    };
    config.home.check().map_err(|e| failed(e, None))?;
    let dir = disk.open_dir(&config.dir).map_err(|e| failed(e, None))?;
    let create = || segment::create(disk, &config.dir, base, config.index_interval);
    let active = match config.room.with(create) {
        Ok(active) => active,
        Err(e) => {
            // What was made and removed again must stay away, since the old segment may still grow past its base.
            disk::sync_dir(disk, &dir).map_err(RollFailed::SyncDir)?;
            let name = files::segment_name(base, Kind::Log);
            return Err(failed(e, Some(is_there(disk, &config.dir, &name))));
        }
    };
    disk::sync_dir(disk, &dir).map_err(RollFailed::SyncDir)?;
    Ok(Rolled { active, indexes_synced })
}

/// Whether a directory holds a file of this name, or may. A directory of the name is none of ours, and no log either.
fn is_there<D: Disk>(disk: &D, dir: &Path, name: &str) -> bool {
    disk.list(dir).map_or(true, |entries| entries.iter().any(|entry| !entry.is_dir && entry.name == name))
}
