//! A partition: the ordered segments of one log, behind one lock.
#![allow(clippy::todo, clippy::unused_async, unused_variables)]

use std::sync::Arc;

use bytes::Bytes;

use crate::batch::Batch;
use crate::disk::Disk;
use crate::error::Error;
use crate::units::{Offset, Timestamp};

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

/// One partition. Clones are the same partition.
#[derive(Clone, Debug)]
pub struct Partition<D: Disk>(Arc<Shared<D>>);

#[derive(Debug)]
struct Shared<D: Disk> {
    #[allow(dead_code)]
    disk: D,
}

impl<D: Disk> Partition<D> {
    /// `topic/number`.
    pub fn name(&self) -> &str {
        todo!()
    }

    /// Appends all records or none, without waiting. `Ok(None)`: a roll has to be finished first, see
    /// [`Partition::append`]. The batch is sealed on success: clear it before it is used again.
    pub fn try_append(&self, batch: &mut Batch) -> Result<Option<Appended>, Error> {
        todo!()
    }

    /// Appends all records or none; waits while a roll is under way. Not yet acknowledged: see [`Partition::committed`].
    pub async fn append(&self, batch: &mut Batch) -> Result<Appended, Error> {
        todo!()
    }

    /// Whether what ends before `end` may be acknowledged now, without waiting. `os` and `interval`: always.
    pub fn is_committed(&self, end: Offset) -> Result<bool, Error> {
        todo!()
    }

    /// Waits until what ends before `end` may be acknowledged. An error means that its outcome is unknown.
    pub async fn committed(&self, end: Offset) -> Result<(), Error> {
        todo!()
    }

    /// Reads whole records from `from` on: at least one if there is one, and otherwise not more than `max_bytes`.
    /// Nothing where `from` is the end. The bytes were checked; a damaged record ends the answer before it, or is the
    /// error where it is the first.
    pub fn read(&self, from: Offset, max_bytes: usize) -> Result<Fetched, Error> {
        todo!()
    }

    /// Waits until the record at `offset` can be read, or the partition is closed.
    pub async fn readable(&self, offset: Offset) {
        todo!()
    }

    /// The offsets that can be read now.
    pub fn range(&self) -> Range {
        todo!()
    }

    /// Bytes of its logs on disk.
    pub fn bytes(&self) -> u64 {
        todo!()
    }

    /// Why it takes no writes, where it takes none.
    pub fn fenced(&self) -> Option<String> {
        todo!()
    }

    /// The first record whose timestamp is `at` or later; `None` where there is none.
    pub fn first_at_or_after(&self, at: Timestamp) -> Result<Option<(Offset, Timestamp)>, Error> {
        todo!()
    }
}
