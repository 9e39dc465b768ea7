//! The broker: all topics of one data directory.
#![allow(clippy::todo, clippy::unused_async, unused_variables)]

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::clock::Clock;
use crate::disk::Disk;
use crate::error::Error;
use crate::partition::Partition;
use crate::report::{PartitionReport, Report};
use crate::settings::{Settings, TopicSettings};
use crate::work::Work;

/// The world that a broker lives in: its seams.
#[derive(Clone, Debug)]
pub struct World<D> {
    /// Files.
    pub disk: D,
    /// Wall-clock time.
    pub clock: Arc<dyn Clock>,
    /// Threads.
    pub work: Arc<dyn Work>,
}

/// Told about each partition as its recovery is done, from whatever thread did it: `(done, of, what was found)`.
pub type Progress<'a> = &'a (dyn Fn(usize, usize, &PartitionReport) + Sync);

/// Why a data directory cannot be opened at all.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has it.
    #[error("{}: another process has this data directory; stop it, or choose another with --data", .0.display())]
    InUse(PathBuf),
    /// The directory cannot be made or listed.
    #[error("{}: {source}", .path.display())]
    Io {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A setting is out of its range.
    #[error("{0}")]
    Settings(String),
}

/// All topics of one data directory. Clones are the same broker.
#[derive(Clone, Debug)]
pub struct Broker<D: Disk>(Arc<Shared<D>>);

#[derive(Debug)]
struct Shared<D: Disk> {
    #[allow(dead_code)]
    world: World<D>,
}

/// A topic, as a client sees it. Clones are the same topic.
#[derive(Clone, Debug)]
pub struct Topic<D: Disk>(Arc<TopicShared<D>>);

#[derive(Debug)]
struct TopicShared<D: Disk> {
    #[allow(dead_code)]
    disk: D,
}

impl<D: Disk> Broker<D> {
    /// Locks the data directory (making it where it is missing), recovers every partition, and opens it. Blocks;
    /// needs no runtime.
    pub fn open(
        world: World<D>,
        data: &Path,
        settings: Settings,
        progress: Progress<'_>,
    ) -> Result<(Self, Report), OpenError> {
        todo!()
    }

    /// The settings it was opened with.
    pub fn settings(&self) -> &Settings {
        todo!()
    }

    /// Makes a topic; durable when it returns.
    pub async fn create_topic(&self, name: &str, settings: TopicSettings) -> Result<(), Error> {
        todo!()
    }

    /// Deletes a topic and all it holds; durable when it returns.
    pub async fn delete_topic(&self, name: &str) -> Result<(), Error> {
        todo!()
    }

    /// All topics, by name.
    pub fn topics(&self) -> Vec<Topic<D>> {
        todo!()
    }

    /// The topic of this name.
    pub fn topic(&self, name: &str) -> Result<Topic<D>, Error> {
        todo!()
    }

    /// Looks after retention and interval syncs until the broker is closed. To be spawned once.
    pub async fn housekeeping(self) {
        todo!()
    }

    /// Stops taking writes, syncs and closes everything, and marks the shutdown as clean if all of that worked.
    pub async fn close(&self) -> Result<(), Error> {
        todo!()
    }
}

impl<D: Disk> Topic<D> {
    /// The name.
    pub fn name(&self) -> &str {
        todo!()
    }

    /// What it was made with.
    pub fn settings(&self) -> &TopicSettings {
        todo!()
    }

    /// How many partitions.
    pub fn partition_count(&self) -> u32 {
        todo!()
    }

    /// The partition of this number.
    pub fn partition(&self, number: u32) -> Result<&Partition<D>, Error> {
        todo!()
    }

    /// The partition for a record with this key: by 32-bit FNV-1a of the key, or the next in turn where there is none.
    pub fn route(&self, key: Option<&[u8]>) -> u32 {
        todo!()
    }
}
