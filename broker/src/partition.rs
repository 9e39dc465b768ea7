//! A partition: the ordered segments of one log, behind one lock.
//!
//! What always holds, whenever the lock is free:
//!
//! - offsets are dense: each segment starts where the one before ended, and the next record gets [`Range::end`] or,
//!   under `always`, an offset behind it;
//! - an append is in the log whole, or not at all;
//! - what can be read is never taken back by a crash of the process, nor, under `always`, by one of the machine;
//! - after anything that leaves the files in doubt the partition is *fenced*: it serves reads and takes no writes until
//!   it is opened anew. What it acknowledged before is synced in time all the same, unless it was a sync of its log that failed.
//!
//! Appends and reads run on the caller's thread. Whatever waits for a device (syncs, rolls, the cut of what a failed write left)
//! runs in one background task for each partition, one thing after another, so that the failure of a sync cannot be told to
//! one and hidden from another. The task exists only while there is something to do.

mod append;
mod background;
mod log_lines;
mod lookup;
mod state;

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use state::{Life, State};
use tokio::sync::Notify;

use crate::clock::Clock;
use crate::disk::Disk;
use crate::error::Error;
use crate::files::{self, Kind};
use crate::gaps::Gaps;
use crate::home::Home;
use crate::markers::Closed;
use crate::recovery::Recovered;
use crate::room::{Room, Spares};
use crate::segment::{self, Active, Read, Sealed, View};
use crate::settings::Durability;
use crate::stats::Stats;
use crate::units::{Offset, Position};
use crate::work::{Work, off_thread};

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
pub(crate) struct Config<D: Disk> {
    /// `topic/number`.
    pub name: String,
    /// Its directory.
    pub dir: PathBuf,
    /// Files.
    pub disk: D,
    /// The data directory that all of them are in.
    pub home: Arc<Home<D>>,
    /// What to do where the disk is full.
    pub room: Arc<Room>,
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
    /// When to sync whatever the durability.
    pub max_unsynced_bytes: u64,
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

/// Where a record lies.
enum Location<F> {
    /// In the segment that is appended to.
    Active(View<F>),
    /// In a sealed one, up to this offset. Its files are opened without the lock: a slow disk would hold up the appends.
    Sealed(Sealed, Offset),
    Nowhere,
}

#[derive(Debug)]
struct Shared<D: Disk> {
    config: Config<D>,
    state: Mutex<State<D>>,
    gaps: Arc<Gaps>,
    /// Told when something became durable, a roll ended, the partition was fenced or closed.
    settled: Notify,
    /// Told when there is more to read, or nothing more to wait for.
    more: Notify,
}

impl<D: Disk> Spares for Shared<D> {
    fn give_back(&self) {
        let mut state = self.lock();
        state.is_listed = false;
        if let Some(active) = state.active.as_mut().filter(|active| active.has_spare_blocks()) {
            active.preallocated.give_back(&*active.log);
        }
    }
}

impl<D: Disk> Shared<D> {
    fn lock(&self) -> MutexGuard<'_, State<D>> {
        // A panic under the lock is a bug; what it left is what a crash would leave, and is served no further.
        self.state.lock().unwrap_or_else(|poisoned| {
            let mut state = poisoned.into_inner();
            state.fence("an earlier operation panicked".into());
            state.may_sync = false;
            state
        })
    }
}

impl<D: Disk> Partition<D> {
    /// A partition as recovery left it.
    pub(crate) fn new(config: Config<D>, recovered: Recovered<D::File>) -> Self {
        let state = State::new(recovered);
        let (settled, more) = (Notify::new(), Notify::new());
        Self(Arc::new(Shared { config, state: Mutex::new(state), gaps: Arc::default(), settled, more }))
    }

    /// `topic/number`.
    pub fn name(&self) -> &str {
        &self.0.config.name
    }

    pub(crate) fn config(&self) -> &Config<D> {
        &self.0.config
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State<D>> {
        self.0.lock()
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
            let (range, location, hint) = {
                let state = self.lock();
                let range = state.range(&self.0.config)?;
                if let Some(hidden) = state.hidden(&self.0.config, from) {
                    return Err(hidden);
                }
                if from == range.end {
                    return Ok(Fetched { bytes: Bytes::new(), next: from, range });
                }
                if from < range.start || from > range.end {
                    return Err(self.out_of_range(from, range));
                }
                let hint = state.read_to.filter(|(offset, _)| *offset == from).map(|(_, at)| at);
                (range, self.locate(&state, from), hint)
            };
            let read = self.view(location).and_then(|view| {
                let read = view.read(from, max_bytes, hint)?;
                Ok((view, read))
            });
            match read {
                Ok((view, read)) => return self.fetched(from, range, view, read, hint),
                // Look again at what there is.
                Err(e) if e.kind() == io::ErrorKind::NotFound && self.taken_by_retention(from) => {}
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
                self.tell_damage(&view, position, from, next);
                Err(Error::Corrupt { segment: view.path, position, offset: from, next })
            }
        }
    }

    /// Whether retention has taken what was at this offset; nobody else may.
    fn taken_by_retention(&self, offset: Offset) -> bool {
        let state = self.lock();
        state.life != Life::Deleted && state.start > offset
    }

    fn out_of_range(&self, asked: Offset, Range { start, end }: Range) -> Error {
        Error::OffsetOutOfRange { partition: self.name().into(), asked, start, end }
    }

    fn deleted(&self) -> Error {
        Error::Deleted { partition: self.name().into() }
    }

    pub(super) fn unreadable(&self, from: Offset, source: io::Error) -> Error {
        if source.kind() == io::ErrorKind::NotFound && self.is_being_deleted() {
            return self.deleted();
        }
        Error::Unreadable { partition: self.name().into(), offset: from, source: source.into() }
    }

    /// Where the record with this offset lies.
    fn locate(&self, state: &State<D>, offset: Offset) -> Location<D::File> {
        let config = &self.0.config;
        let end = state.readable_end(config.durability);
        match &state.active {
            Some(active) if offset >= active.base => Location::Active(View {
                path: files::segment_path(&config.dir, active.base, Kind::Log),
                log: active.log.clone(),
                base: active.base,
                end,
                bytes: active.position.get(),
                index: Some(active.index.reader()),
                time_index: Some(active.time_index.reader()),
                gaps: self.0.gaps.clone(),
            }),
            _ => {
                let i = state.sealed.partition_point(|s| s.end <= offset);
                state.sealed.get(i).map_or(Location::Nowhere, |sealed| Location::Sealed(*sealed, end))
            }
        }
    }

    /// The segment, open for reading. `NotFound`: retention or a deletion was faster.
    fn view(&self, location: Location<D::File>) -> io::Result<View<D::File>> {
        let config = &self.0.config;
        match location {
            Location::Active(view) => Ok(view),
            Location::Sealed(sealed, end) => {
                let mut view = segment::open_sealed(&config.disk, &config.dir, &sealed, self.0.gaps.clone())?;
                view.end = view.end.min(end);
                // By then, what has its names may be another broker's, or another topic's.
                config.home.check()?;
                if self.lock().life == Life::Deleted { Err(io::ErrorKind::NotFound.into()) } else { Ok(view) }
            }
            Location::Nowhere => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Waits until the record at `offset` can be read, or the partition is closed.
    pub async fn readable(&self, offset: Offset) {
        loop {
            let more = self.0.more.notified();
            {
                let state = self.lock();
                if state.life.is_ending() || state.readable_end(self.0.config.durability) > offset {
                    return;
                }
            }
            more.await;
        }
    }

    /// The offset after the last that can be read; an error where there are more, and they cannot be shown.
    pub fn latest(&self) -> Result<Offset, Error> {
        let state = self.lock();
        let end = state.range(&self.0.config)?.end;
        state.hidden(&self.0.config, end).map_or(Ok(end), Err)
    }

    /// The offsets that can be read now. [`Error::Unopened`]: recovery could not open it, and nobody knows.
    pub fn range(&self) -> Result<Range, Error> {
        self.lock().range(&self.0.config)
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

    /// In how many places it is damaged, as far as a start has found that or a reader has met it.
    pub fn damaged_places(&self) -> usize {
        let state = self.lock();
        let log = |base| files::segment_path(&self.0.config.dir, base, Kind::Log);
        let is_found = |(base, position): &&(Offset, Position)| {
            state.damage.iter().any(|found| found.position == *position && found.segment == log(*base))
        };
        state.damage.len() + state.damage_told.iter().filter(|met| !is_found(met)).count()
    }

    /// Why it takes no writes, where it takes none.
    pub fn fenced(&self) -> Option<String> {
        self.lock().fenced.clone()
    }

    /// Why the disk has refused the last records, where it has: another try may work.
    pub fn refusing(&self) -> Option<String> {
        self.lock().refusals.now.clone()
    }

    /// Takes no more writes, and lets everything that was started end. Gives what a clean stop records of it, or `None`
    /// where it is not in order.
    pub async fn close(&self) -> Option<Closed> {
        {
            let mut state = self.lock();
            state.life = Life::Closing;
            let gives_back = state.active.as_ref().is_some_and(Active::has_spare_blocks);
            state.sync_wanted = state.end > state.durable || gives_back;
            self.look_after(state);
        }
        self.wake_all();
        self.idle().await;
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
            (state.active.as_ref().map(Active::handles), state.closed(config))
        };
        let Some(handles) = handles else { return Some(closed) };
        let synced = off_thread(&*config.work, move || handles.sync_indexes()).await;
        synced.then_some(closed)
    }

    /// A start has found that it can take no writes, for a reason that is told to whoever tries.
    pub(crate) fn fence_as_found(&self, reason: &str) {
        self.lock().fence_as_found(reason.into());
    }

    /// Its topic is about to be deleted. Until it is, it serves, as long as its files have their names.
    pub(crate) fn begin_deletion(&self) {
        let mut state = self.lock();
        if state.life == Life::Open {
            state.life = Life::Deleting;
        }
    }

    /// Whether its topic is about to be deleted, or was: its files may have lost their names.
    pub(crate) fn is_being_deleted(&self) -> bool {
        matches!(self.lock().life, Life::Deleting | Life::Deleted)
    }

    /// Its topic could not be deleted.
    pub(crate) fn end_deletion(&self) {
        let mut state = self.lock();
        if state.life == Life::Deleting {
            state.life = Life::Open;
        }
    }

    /// Serves nothing any more: its topic was deleted. `in_doubt`: why a restart may find that it was not.
    pub(crate) fn retire(&self, in_doubt: Option<String>) {
        {
            let mut state = self.lock();
            state.life = Life::Deleted;
            state.is_gone_for_good = in_doubt.is_none();
            state.fence(in_doubt.unwrap_or_else(|| "its topic was deleted".into()));
        }
        self.wake_all();
    }

    /// Waits until nothing is under way in the background.
    pub async fn idle(&self) {
        loop {
            let settled = self.0.settled.notified();
            let is_idle = {
                let state = self.lock();
                !state.busy && state.removing.is_none()
            };
            if is_idle {
                return;
            }
            settled.await;
        }
    }
}
