//! A segment: one log file with its two indexes, holding the records from its base offset on.
//!
//! Only the last segment of a partition is active (appended to); the others are sealed and never change. Sealing syncs
//! all three files, so that a sealed segment is durable before the next one exists. Here it is written; `view` reads it.

mod preallocation;
mod view;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::batch::Batch;
use crate::disk::{self, Disk, DiskFile, Open};
use crate::files::{self, Kind};
use crate::index::{ENTRY_BYTES, Writer};
use crate::meter::Meter;
use crate::units::{Offset, Position, Timestamp};

pub use self::preallocation::Preallocation;
pub(crate) use self::view::open_sealed;
pub use self::view::{Read, TimeLookup, View};

/// What is known of a segment that no longer changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// The offset of its first record.
    pub base: Offset,
    /// The offset after its last: the next segment's base.
    pub end: Offset,
    /// Bytes of its log.
    pub bytes: u64,
    /// Its largest timestamp, and the first offset that has it; `None` where it has no readable record, or where that cannot be
    /// told, or not from its index.
    pub latest: Option<(Timestamp, Offset)>,
    /// How many entries each of its indexes has.
    pub entries: u64,
}

/// The segment that is appended to.
#[derive(Debug)]
pub struct Active<F> {
    /// The offset of its first record.
    pub base: Offset,
    /// The offset that the next record gets.
    pub end: Offset,
    /// Where the next record goes.
    pub position: Position,
    /// The log file.
    pub log: Arc<F>,
    /// Counts records, to know when an index entry is due.
    pub meter: Meter,
    /// Offset → position.
    pub index: Writer<F>,
    /// Time → offset.
    pub time_index: Writer<F>,
    /// Blocks for what is appended next.
    pub preallocated: Preallocation,
}

/// How an append failed.
#[derive(Debug)]
pub enum AppendFailed {
    /// The log is as it was.
    Untouched(io::Error),
    /// What the write left was cut off. Without a sync, a power loss could bring it back, since the longer length may reach the
    /// disk and the shorter one not.
    Cut(io::Error),
    /// It could not be cut off: nothing may be written to the log any more.
    Stuck {
        /// Why the write failed.
        write: io::Error,
        /// Why the cut failed.
        cut: io::Error,
    },
}

impl<F: DiskFile> Active<F> {
    /// Appends a sealed batch whose first record has the offset [`Active::end`]. All or nothing.
    pub fn append(&mut self, batch: &Batch, timestamp: Timestamp) -> Result<(), AppendFailed> {
        let end = self.position.plus(batch.byte_len() as u64);
        self.preallocated.extend(&*self.log, self.position.get(), end.get());
        if let Err(write) = disk::write_full_at(&*self.log, batch.bytes(), self.position.get()) {
            return Err(self.undo(write));
        }
        let count = batch.len() as u64;
        for nth in self.meter.batch(self.end, timestamp, count) {
            let at = self.position.plus(batch.start(nth) as u64);
            if let Some((place, time)) = self.meter.entries(self.end.plus(nth), at) {
                self.index.push(place);
                self.time_index.push(time);
            }
        }
        self.end = self.end.plus(count);
        self.position = end;
        // Derived files: what cannot be written now is written with the next append, at the seal, or rebuilt at a start.
        let _ = self.index.flush();
        let _ = self.time_index.flush();
        Ok(())
    }

    /// Cuts off what a failed write left. A write that left nothing needs no cut: a file system that has become read-only would
    /// refuse it.
    fn undo(&self, write: io::Error) -> AppendFailed {
        if self.log.len().is_ok_and(|len| len == self.position.get()) {
            return AppendFailed::Untouched(write);
        }
        match disk::set_len(&*self.log, self.position.get()) {
            Ok(()) => AppendFailed::Cut(write),
            Err(cut) => AppendFailed::Stuck { write, cut },
        }
    }

    /// Whether it has blocks of the disk behind its end.
    pub fn has_spare_blocks(&self) -> bool {
        self.preallocated.is_left(self.position.get())
    }

    /// What it is once it is sealed.
    pub fn as_sealed(&self) -> Sealed {
        Sealed {
            base: self.base,
            end: self.end,
            bytes: self.position.get(),
            latest: self.meter.latest,
            entries: self.index.file_len() / ENTRY_BYTES as u64,
        }
    }

    /// Its files, to be synced without holding the partition's lock.
    pub fn handles(&self) -> Handles<F> {
        Handles {
            log: self.log.clone(),
            index: self.index.file().clone(),
            time_index: self.time_index.file().clone(),
            indexes_complete: self.index.is_complete() && self.time_index.is_complete(),
            blocks_are_left: self.has_spare_blocks(),
        }
    }
}

/// The files of an active segment.
#[derive(Debug)]
pub struct Handles<F> {
    log: Arc<F>,
    index: Arc<F>,
    time_index: Arc<F>,
    indexes_complete: bool,
    blocks_are_left: bool,
}

impl<F: DiskFile> Handles<F> {
    /// Gives back the blocks behind a log that is not written to for now. Before a sync, since the file system may write the last block
    /// anew for it; what cannot be given back is no harm.
    pub fn give_back_blocks(&self) {
        if self.blocks_are_left {
            let _ = self.log.give_back();
        }
    }

    /// Makes what was appended durable.
    pub fn sync_log(&self) -> io::Result<()> {
        disk::sync_file(&*self.log)
    }

    /// Makes it durable that what a failed write left is cut off. Another place than [`Handles::sync_log`], since another promise
    /// hangs on it: each of the broker's syncs can be switched off alone, to see that something notices.
    pub fn sync_cut(&self) -> io::Result<()> {
        disk::sync_file(&*self.log)
    }

    /// Whether the index files hold every entry that they should.
    pub fn are_indexes_complete(&self) -> bool {
        self.indexes_complete
    }

    /// Makes the indexes durable; false where that failed or they lack entries, so that they have to be rebuilt.
    pub fn sync_indexes(&self) -> bool {
        self.indexes_complete
            && disk::sync_file(&*self.index).is_ok()
            && disk::sync_file(&*self.time_index).is_ok()
    }
}

/// Makes the files of a new, empty segment. Where that fails, what was made of it is removed again. Durable after a
/// sync of the directory.
pub fn create<D: Disk>(disk: &D, dir: &Path, base: Offset, interval: u64) -> io::Result<Active<D::File>> {
    let path = |kind| files::segment_path(dir, base, kind);
    let log = disk.open(&path(Kind::Log), Open::Create)?;
    if !log.is_empty()? {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "a log with records has this name"));
    }
    let made = fresh_index(disk, path(Kind::Index))
        .and_then(|index| Ok((log, index, fresh_index(disk, path(Kind::TimeIndex))?)));
    match made {
        Ok((log, index, time_index)) => Ok(Active {
            base,
            end: base,
            position: Position::ZERO,
            log: Arc::new(log),
            meter: Meter::new(interval),
            index,
            time_index,
            preallocated: Preallocation::default(),
        }),
        Err(e) => {
            for kind in [Kind::TimeIndex, Kind::Index, Kind::Log] {
                let _ = disk.remove_file(&path(kind));
            }
            Err(e)
        }
    }
}

fn fresh_index<D: Disk>(disk: &D, path: PathBuf) -> io::Result<Writer<D::File>> {
    let file = disk.open(&path, Open::Create)?;
    disk::set_len(&file, 0)?;
    Ok(Writer::new(path, file, 0))
}

/// What became of an attempt to remove a segment.
#[derive(Debug)]
pub(crate) enum Removed {
    /// It is gone, durably.
    Gone,
    /// It is there, whole.
    Not(io::Error),
    /// Its log is gone, and may come back with a power loss.
    InDoubt(io::Error),
}

/// Removes a segment's files. The log first: an index without a log is a leftover, a log without an index would be served again.
pub(crate) fn remove<D: Disk>(disk: &D, dir: &Path, base: Offset) -> Removed {
    let log = files::segment_path(dir, base, Kind::Log);
    let removed = disk.open_dir(dir).and_then(|dir| files::remove_if_there(disk, &log).map(|()| dir));
    let opened = match removed {
        Ok(opened) => opened,
        Err(e) => return Removed::Not(e),
    };
    if let Err(e) = disk::sync_dir(disk, &opened) {
        return Removed::InDoubt(e);
    }
    let indexes = [Kind::Index, Kind::TimeIndex].map(|kind| files::segment_path(dir, base, kind));
    for path in indexes.into_iter().chain([files::damaged_path(dir, base)]) {
        // What stays of them belongs to nothing, and goes at the next start.
        let _ = files::remove_if_there(disk, &path);
    }
    Removed::Gone
}
