//! What a start found and did: for people, for metrics, and for the scenarios that check it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::units::{Offset, Position};

/// What opening a data directory found and did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Whether the last run marked its shutdown as clean.
    pub clean: bool,
    /// One for each partition, by topic and number.
    pub partitions: Vec<PartitionReport>,
    /// Topics whose directories cannot be looked into, with the reason: nothing of them is served.
    pub unserved: BTreeMap<String, String>,
    /// What a clean stop has recorded and that is not there.
    pub missed: Missed,
    /// Why nothing can be written at all, where that is so.
    pub read_only: Option<String>,
    /// Why it is not written down that this run has begun, where it is not: whatever else is to be written may fare no better.
    pub unnoted: Option<String>,
    /// Whether that is for want of room only.
    pub has_no_room: bool,
    /// Foreign files and leftovers, relative to the data directory, and what was done about each.
    pub notes: Vec<String>,
    /// How long it took.
    pub took: Duration,
}

/// What a clean stop has recorded and a start has not found: somebody took it away while no broker ran.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Missed {
    /// Topics, with what they held.
    pub gone: BTreeMap<String, Gone>,
    /// Partitions that their topic does not have any more, by its settings or as they were counted. With how many records they held.
    pub uncounted: BTreeMap<String, u64>,
}

/// What a topic held at the last clean stop, before it was taken away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gone {
    /// Partitions.
    pub partitions: u64,
    /// Records in them.
    pub records: u64,
}

/// What opening one partition found and did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartitionReport {
    /// The topic.
    pub topic: String,
    /// The partition's number.
    pub partition: u32,
    /// The first offset.
    pub start: Offset,
    /// The offset after the last.
    pub end: Offset,
    /// Segments.
    pub segments: usize,
    /// Records that were scanned and checked.
    pub scanned: u64,
    /// Bytes of a torn tail that were cut off.
    pub cut: u64,
    /// Bytes behind a hole that a power loss left, set aside under another name before they were cut off.
    pub set_aside: u64,
    /// Index files that were built anew.
    pub rebuilt: Vec<String>,
    /// What is damaged: it is served around and never deleted.
    pub damage: Vec<Damage>,
    /// Why the partition takes no writes, where it takes none.
    pub fenced: Option<String>,
    /// Whether it serves no reads either: it could not be opened at all.
    pub unopened: bool,
    /// Whether it is written down what of it is synced, and what is damaged: a later start may take any other hole in it for one
    /// that a power loss left.
    pub noted: bool,
    /// Anything else worth knowing: foreign files, leftovers.
    pub notes: Vec<String>,
}

/// A stretch of a log that is not what was written there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The segment's log file.
    pub segment: PathBuf,
    /// Where the bad bytes begin.
    pub position: Position,
    /// How many there are.
    pub bytes: u64,
    /// The first offset that cannot be read.
    pub first: Offset,
    /// The first offset after it that can.
    pub next: Offset,
}

impl Report {
    /// Whether everything is opened that earlier runs have written, as far as this one knows of them.
    pub fn is_complete(&self) -> bool {
        let Missed { gone, uncounted } = &self.missed;
        let is_missed = !(self.unserved.is_empty() && gone.is_empty() && uncounted.is_empty());
        !is_missed && self.partitions.iter().all(|p| !p.unopened)
    }

    /// Whether of every partition it is written down what is synced and what is damaged.
    pub fn is_noted(&self) -> bool {
        self.partitions.iter().all(|p| p.noted)
    }

    /// Records in all partitions.
    pub fn records(&self) -> u64 {
        self.partitions.iter().map(|p| p.end.since(p.start)).sum()
    }
}
