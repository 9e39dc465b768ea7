//! What can be chosen about the log, with its defaults and bounds.

use std::time::Duration;

/// When an append is acknowledged, and so what a crash can take away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// When it is written to the page cache. Power loss may take what came since the last roll or close.
    #[default]
    Os,
    /// When it is written; a sync follows within this time. Power loss may take what came since.
    Interval(Duration),
    /// When it is synced. Power loss takes nothing. Concurrent appends share a sync.
    Always,
}

/// The settings of a broker's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// When an append is acknowledged.
    pub durability: Durability,
    /// A segment is closed and the next begun when its log has reached this many bytes. The record that reaches
    /// it still belongs to the old one. From 1 to [`Settings::SEGMENT_BYTES_MAX`].
    pub segment_bytes: u64,
    /// When so many bytes of a partition wait for a sync, one is begun in the background, whatever the durability: a roll,
    /// for which appends wait, then has no more than that to bring to the disk. At least 1.
    pub max_unsynced_bytes: u64,
    /// Every how many records of a segment the indexes get an entry. At least 1.
    pub index_interval: u64,
    /// The most bytes that key and value of one record may have together.
    pub max_record_bytes: u32,
    /// Bytes that a partition keeps before its oldest segments go, where the topic does not say otherwise; `None`
    /// keeps all.
    pub retention_bytes: Option<u64>,
    /// How long a record is kept, where the topic does not say otherwise; `None` keeps it for ever.
    pub retention_age: Option<Duration>,
    /// How often retention looks.
    pub retention_check: Duration,
    /// How many partitions are recovered at the same time.
    pub recovery_threads: usize,
    /// How many partitions there may be, those of all topics together. Each keeps [`Settings::OPEN_FILES`] files open, so
    /// that the process may set a bound. A data directory with more is not opened, and no topic is made beyond it.
    pub max_partitions: usize,
}

impl Settings {
    /// The largest `segment_bytes`. With the largest record on top, a position in a segment stays far below 2^33.
    pub const SEGMENT_BYTES_MAX: u64 = u32::MAX as u64;
    /// The largest `max_record_bytes`, and the largest size that is believed of a record on disk, whatever the limit
    /// for new ones is now.
    pub const RECORD_BYTES_MAX: u32 = 1 << 26;
    /// How many files a partition keeps open: its last segment's log and indexes.
    pub const OPEN_FILES: usize = 3;
    /// The most partitions a topic may have.
    pub const PARTITIONS_MAX: u32 = 10_000;
}

impl Settings {
    /// Checks every setting against its bounds; says which is out of them.
    pub fn check(&self) -> Result<(), String> {
        let within = |name: &str, value: u64, max: u64| match value {
            0 => Err(format!("{name} must be at least 1")),
            v if v > max => Err(format!("{name} is {v}; at most {max} is possible")),
            _ => Ok(()),
        };
        within("segment-bytes", self.segment_bytes, Self::SEGMENT_BYTES_MAX)?;
        within("max-unsynced-bytes", self.max_unsynced_bytes, u64::MAX)?;
        within("index-interval", self.index_interval, u64::from(u32::MAX))?;
        within("max-record-bytes", self.max_record_bytes.into(), Self::RECORD_BYTES_MAX.into())?;
        within("recovery-threads", self.recovery_threads as u64, 1024)?;
        if self.retention_check.is_zero() {
            return Err("retention-check must be longer than 0: it is the time between two looks".into());
        }
        if self.retention_age.is_some_and(|age| age < Duration::from_millis(1)) {
            return Err("retention-age must be at least 1ms: less would keep nothing".into());
        }
        if self.durability == Durability::Interval(Duration::ZERO) {
            return Err("a sync interval must be longer than 0; `always` syncs each append".into());
        }
        Ok(())
    }
}

impl Settings {
    /// The defaults, with this many threads for recovery: to ask the system for the number of its cores takes longer than
    /// to recover a small directory.
    pub const fn with_recovery_threads(recovery_threads: usize) -> Self {
        Self {
            durability: Durability::Os,
            segment_bytes: 1 << 30,
            max_unsynced_bytes: 64 << 20,
            index_interval: 64,
            max_record_bytes: 1 << 20,
            retention_bytes: None,
            retention_age: None,
            retention_check: Duration::from_secs(60),
            recovery_threads,
            max_partitions: usize::MAX,
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self::with_recovery_threads(std::thread::available_parallelism().map_or(1, usize::from))
    }
}

/// What a topic was made with; kept in its directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicSettings {
    /// How many partitions: 1 to [`Settings::PARTITIONS_MAX`].
    pub partitions: u32,
    /// Overrides [`Settings::retention_bytes`].
    pub retention_bytes: Option<u64>,
    /// Overrides [`Settings::retention_age`].
    pub retention_age: Option<Duration>,
}

impl TopicSettings {
    /// This many partitions, and otherwise the broker's defaults.
    pub fn with_partitions(partitions: u32) -> Self {
        Self { partitions, retention_bytes: None, retention_age: None }
    }

    /// For how long it keeps records, in the whole milliseconds that are stored and sent: no less than it was made with.
    pub fn retention_ms(&self) -> Option<u64> {
        let ms = self.retention_age?.as_nanos().div_ceil(1_000_000);
        Some(u64::try_from(ms).unwrap_or(u64::MAX))
    }
}
