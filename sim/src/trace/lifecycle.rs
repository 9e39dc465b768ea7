//! What the broker starts with, what a start has found, and how it goes down.

use std::sync::Arc;

use super::Millis;

/// What the oracle has to know of the settings that a broker starts with.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Starting {
    /// When appends are acknowledged.
    pub durability: Mode,
    /// Every how many records the indexes get an entry.
    pub index_interval: u64,
    /// What of old records is kept.
    pub retention: Retention,
    /// The most connections.
    pub connections_max: u64,
    /// The largest record that it takes.
    pub record_bytes_max: u64,
    /// The longest request that it takes.
    pub frame_bytes_max: u64,
    /// The most records that it takes in one.
    pub records_max: u64,
    /// How long a connection may be silent, or take for a request or an answer, whichever is shortest.
    pub silence_max_ms: Millis,
    /// The longest that a record waits for its sync beyond the interval, with all that may delay it.
    pub sync_slack_ms: Millis,
    /// Whether the disk's syncs may be lies.
    pub lying: bool,
}

/// What of old records is kept: all, or what these leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Retention {
    /// The oldest segment goes while a partition holds more bytes than this.
    pub bytes: Option<u64>,
    /// And when all of it is older than this.
    pub age_ms: Option<Millis>,
}

impl Retention {
    /// Whether anything may go.
    pub fn any(self) -> bool {
        self.bytes.is_some() || self.age_ms.is_some()
    }

    /// A topic's own, or the broker's, each for itself.
    #[must_use]
    pub fn or(self, brokers: Self) -> Self {
        Self { bytes: self.bytes.or(brokers.bytes), age_ms: self.age_ms.or(brokers.age_ms) }
    }
}

/// The durability mode: [`broker::settings::Durability`], in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Acknowledged when written.
    #[default]
    Os,
    /// Acknowledged when written, synced within so many milliseconds.
    Interval(Millis),
    /// Acknowledged when synced.
    Always,
}

/// What one partition's recovery said.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Recovered {
    /// The topic.
    pub topic: Arc<str>,
    /// The partition's number.
    pub partition: u32,
    /// The first offset.
    pub start: u64,
    /// The offset after the last.
    pub end: u64,
    /// Bytes of a torn tail that were cut off.
    pub cut: u64,
    /// Bytes set aside behind a hole.
    pub set_aside: u64,
    /// Index files built anew, by file name.
    pub rebuilt: Vec<String>,
    /// Damaged stretches: segment file name, byte, bytes, first bad offset, first good offset after it.
    pub damage: Vec<(String, u64, u64, u64, u64)>,
    /// Why it takes no writes, where it takes none.
    pub fenced: Option<String>,
    /// Anything else worth knowing.
    pub notes: Vec<String>,
}

/// Another way to recover a disk, which must come to the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Again {
    /// A second recovery of what the first has left.
    Twice,
    /// A recovery that was killed, and then another.
    Killed {
        /// Before which disk operation.
        operation: u64,
    },
}

/// How the broker went down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CrashKind {
    /// The process died (`kill -9`); what was in the page cache is still there.
    Process,
    /// The lights went out; what was not synced may be gone.
    Power,
    /// A clean stop: everything synced and closed.
    Stop,
    /// It was asked to stop, and could not sync or close everything: what it leaves is what the death of its process leaves.
    FailedStop,
}
