//! Appending: at once where that is possible; after a roll, or after what a failed write left has been cut off, where it is not.

use std::io;
use std::sync::{Arc, MutexGuard, Weak};

use super::state::State;
use super::{Appended, Partition, Shared};
use crate::batch::Batch;
use crate::disk::Disk;
use crate::error::Error;
use crate::files::{self, Kind};
use crate::segment::{Active, AppendFailed};
use crate::settings::Durability;
use crate::work::off_thread;

/// What became of a try to append.
enum Tried {
    /// All records are in the log.
    Appended(Appended),
    /// None is, and something has to end first.
    Waits(Wait),
}

/// What an append waits for.
enum Wait {
    /// A roll: the number of those that had ended before it.
    Roll(u64),
    /// A roll that also syncs the cut of what its own write left.
    OwnCutByRoll(u64),
    /// The sync of a cut, likewise.
    Cut(u64),
    /// The sync of the cut of what its own write left: it has failed with this error.
    OwnCut(u64, Error),
    /// Likewise; it was for want of room, and others may give back some.
    OwnCutForRoom(u64),
    /// For that only.
    Room,
}

impl<D: Disk> Partition<D> {
    /// Appends all records or none; waits while a roll is under way. Not yet acknowledged: see [`Partition::committed`].
    pub async fn append(&self, batch: &mut Batch) -> Result<Appended, Error> {
        let mut made_room = false;
        loop {
            match self.try_append(batch, !made_room)? {
                Tried::Appended(appended) => return Ok(appended),
                Tried::Waits(Wait::Roll(before)) => self.rolled(before).await?,
                Tried::Waits(Wait::OwnCutByRoll(before)) => self.cut_by_roll(before).await?,
                // Where another's cut fails, nothing of this append is in doubt: the next try says that the partition is fenced.
                Tried::Waits(Wait::Cut(before)) => drop(self.cut(before).await),
                Tried::Waits(Wait::OwnCut(before, error)) => {
                    return Err(self.cut(before).await.err().unwrap_or(error));
                }
                Tried::Waits(Wait::OwnCutForRoom(before)) => {
                    self.cut(before).await?;
                    made_room = self.make_room().await;
                }
                Tried::Waits(Wait::Room) => made_room = self.make_room().await,
            }
        }
    }

    /// Has all partitions give back what they can do without.
    async fn make_room(&self) -> bool {
        let room = self.0.config.room.clone();
        off_thread(&*self.0.config.work, move || room.make()).await;
        true
    }

    /// Appends all records or none, without waiting. The batch is sealed on success: clear it before it is used again.
    fn try_append(&self, batch: &mut Batch, may_make_room: bool) -> Result<Tried, Error> {
        let config = &self.0.config;
        let mut state = self.lock();
        state.writable(&config.name)?;
        if state.cutting {
            return Ok(Tried::Waits(Wait::Cut(state.cuts_ended)));
        }
        if state.needs_roll(config.segment_bytes) {
            return Ok(Tried::Waits(Wait::Roll(self.ask_for_roll(state))));
        }
        let State { active, end, .. } = &mut *state;
        let active = active.as_mut().expect("needs_roll made sure");
        let appended = Appended { base: *end, end: end.plus(batch.len() as u64) };
        let now = config.clock.now();
        batch.seal(appended.base, now);
        if let Err(failed) = active.append(batch, now) {
            let fits_the_next = batch.byte_len() as u64 <= active.position.get();
            return self.append_failed(state, failed, fits_the_next, may_make_room);
        }
        state.end = appended.end;
        if state.refusals.now.take().is_some() {
            self.tell_refusals(&mut state);
        }
        self.appended(state, batch);
        Ok(Tried::Appended(appended))
    }

    /// Has what was appended synced when it should be, and shown.
    fn appended(&self, mut state: MutexGuard<'_, State<D>>, batch: &Batch) {
        let config = &self.0.config;
        config.stats.records_appended.add(batch.len() as u64);
        config.stats.bytes_appended.add(batch.byte_len() as u64);
        state.unsynced += batch.byte_len() as u64;
        self.list_spares(&mut state);
        match config.durability {
            Durability::Always => state.sync_wanted = true,
            Durability::Interval(after) => self.start_timer(&mut state, after),
            Durability::Os => {}
        }
        state.sync_wanted |= state.unsynced >= config.max_unsynced_bytes;
        self.look_after(state);
        if config.durability != Durability::Always {
            self.0.more.notify_waiters();
        }
    }

    /// Takes note that others may be in want of the blocks that it has ahead.
    fn list_spares(&self, state: &mut State<D>) {
        if !state.is_listed && state.active.as_ref().is_some_and(Active::has_spare_blocks) {
            state.is_listed = true;
            let this: Weak<Shared<D>> = Arc::downgrade(&self.0);
            self.0.config.room.list(this);
        }
    }

    /// Asks for a roll; gives the number of those that have ended.
    fn ask_for_roll(&self, mut state: MutexGuard<'_, State<D>>) -> u64 {
        state.want_roll();
        let ended = state.rolls_ended;
        self.look_after(state);
        ended
    }

    /// Asks for the sync of a cut, likewise.
    fn ask_for_cut(&self, mut state: MutexGuard<'_, State<D>>) -> u64 {
        (state.cutting, state.cut_wanted) = (true, true);
        let ended = state.cuts_ended;
        self.look_after(state);
        ended
    }

    fn append_failed(
        &self,
        mut state: MutexGuard<'_, State<D>>,
        failed: AppendFailed,
        fits_the_next: bool,
        may_make_room: bool,
    ) -> Result<Tried, Error> {
        let room_for = |e: &io::Error| may_make_room && self.0.config.room.may_be_made_for(e);
        let failed = match failed {
            // No file may be longer, as the file system has it, or a limit of the process: the segment is full. The roll syncs
            // the cut with the rest.
            AppendFailed::Untouched(e) if is_too_long(&e) && fits_the_next => {
                return Ok(Tried::Waits(Wait::Roll(self.ask_for_roll(state))));
            }
            AppendFailed::Cut(e) if is_too_long(&e) && fits_the_next => {
                return Ok(Tried::Waits(Wait::OwnCutByRoll(self.ask_for_roll(state))));
            }
            AppendFailed::Untouched(e) if room_for(&e) => return Ok(Tried::Waits(Wait::Room)),
            AppendFailed::Cut(e) if room_for(&e) => {
                return Ok(Tried::Waits(Wait::OwnCutForRoom(self.ask_for_cut(state))));
            }
            final_failure => final_failure,
        };
        self.0.config.stats.appends_failed.add(1);
        let base = state.active.as_ref().map_or(state.end, |a| a.base);
        let path = files::segment_path(&self.0.config.dir, base, Kind::Log);
        match failed {
            AppendFailed::Untouched(source) => {
                self.tell_failing(&mut state, &path, &source);
                Err(Error::Storage { path, source: source.into() })
            }
            AppendFailed::Cut(source) => {
                self.tell_failing(&mut state, &path, &source);
                let error = Error::Storage { path, source: source.into() };
                Ok(Tried::Waits(Wait::OwnCut(self.ask_for_cut(state), error)))
            }
            AppendFailed::Stuck { write, cut } => {
                let reason = format!("a write failed ({write}) and could not be cut off again ({cut})");
                self.fence_now(&mut state, reason.clone());
                drop(state);
                self.wake_all();
                Err(Error::OutcomeUnknown { what: self.name().into(), reason })
            }
        }
    }

    /// Waits until one more roll than `before` has ended.
    pub(super) async fn rolled(&self, before: u64) -> Result<(), Error> {
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

    /// Waits until one more roll than `before` has synced a cut. Where it has not, or nobody waits for it, a power loss may bring
    /// back what was cut off.
    async fn cut_by_roll(&self, before: u64) -> Result<(), Error> {
        let rolled = self.rolled(before).await;
        // One whose sync has failed has ended, too.
        let state = self.lock();
        let reason = match (state.fenced.clone(), rolled) {
            (Some(reason), _) => reason,
            (None, Err(Error::ShuttingDown)) => "the broker is stopping".into(),
            (None, rolled) => return rolled,
        };
        Err(state.in_doubt(self.name(), reason))
    }

    /// Waits until one more cut than `before` is durable. An error means that it may not be.
    async fn cut(&self, before: u64) -> Result<(), Error> {
        loop {
            let settled = self.0.settled.notified();
            {
                let state = self.lock();
                match &state.fenced {
                    _ if state.cuts_ended > before => return Ok(()),
                    Some(reason) => return Err(state.in_doubt(self.name(), reason.clone())),
                    None => {}
                }
            }
            settled.await;
        }
    }
}

fn is_too_long(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::FileTooLarge
}
