//! The world of a scenario: broker, disk, network, clock. `None` leaves a thing at its default, or, in a step that
//! changes the world, as it is.

use std::time::Duration;

pub use broker::settings::Durability;
pub use faults::Profile;

/// The broker's own settings, by its own names; see `broker serve --help`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BrokerSettings {
    /// `durability=os`, `=always`, `="interval=50ms"`.
    pub durability: Option<Durability>,
    /// `segment-bytes=`.
    pub segment_bytes: Option<u64>,
    /// `max-unsynced-bytes=`.
    pub max_unsynced_bytes: Option<u64>,
    /// `index-interval=`.
    pub index_interval: Option<u64>,
    /// `max-record-bytes=`.
    pub max_record_bytes: Option<u32>,
    /// `retention-bytes=`.
    pub retention_bytes: Option<u64>,
    /// `retention-age="7d"`.
    pub retention_age: Option<Duration>,
    /// `retention-check="1s"`: how often retention looks.
    pub retention_check: Option<Duration>,
    /// `recovery-threads=`.
    pub recovery_threads: Option<u32>,
    /// `max-frame-bytes=`.
    pub max_frame_bytes: Option<u32>,
    /// `max-connections=`.
    pub max_connections: Option<u32>,
    /// `max-in-flight-bytes=`.
    pub max_in_flight_bytes: Option<u64>,
    /// `max-buffer-bytes=`: what long requests may take of memory, together.
    pub max_buffer_bytes: Option<u64>,
    /// `idle-timeout="60s"`.
    pub idle_timeout: Option<Duration>,
    /// `frame-timeout="10s"`: to finish a started frame.
    pub frame_timeout: Option<Duration>,
    /// `write-timeout="10s"`: to take an answer.
    pub write_timeout: Option<Duration>,
}

impl BrokerSettings {
    /// These settings, with those of `change` in the place of what they name.
    #[must_use]
    pub fn with(&self, change: &Self) -> Self {
        Self {
            durability: change.durability.or(self.durability),
            segment_bytes: change.segment_bytes.or(self.segment_bytes),
            max_unsynced_bytes: change.max_unsynced_bytes.or(self.max_unsynced_bytes),
            index_interval: change.index_interval.or(self.index_interval),
            max_record_bytes: change.max_record_bytes.or(self.max_record_bytes),
            retention_bytes: change.retention_bytes.or(self.retention_bytes),
            retention_age: change.retention_age.or(self.retention_age),
            retention_check: change.retention_check.or(self.retention_check),
            recovery_threads: change.recovery_threads.or(self.recovery_threads),
            max_frame_bytes: change.max_frame_bytes.or(self.max_frame_bytes),
            max_connections: change.max_connections.or(self.max_connections),
            max_in_flight_bytes: change.max_in_flight_bytes.or(self.max_in_flight_bytes),
            max_buffer_bytes: change.max_buffer_bytes.or(self.max_buffer_bytes),
            idle_timeout: change.idle_timeout.or(self.idle_timeout),
            frame_timeout: change.frame_timeout.or(self.frame_timeout),
            write_timeout: change.write_timeout.or(self.write_timeout),
        }
    }
}

/// The disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskSettings {
    /// `profile=strict`, the default.
    pub profile: Option<Profile>,
    /// `capacity="64KiB"`; without limit by default, and again with `capacity=unlimited`.
    pub capacity: Option<Capacity>,
    /// `latency="1ms"` or `"0ms..5ms"`: of each read and write; none by default.
    pub latency: Option<Span>,
    /// `sync-latency="2ms"`: of each sync; none by default.
    pub sync_latency: Option<Span>,
    /// `read-only=yes`: every change fails with EROFS.
    pub read_only: Option<bool>,
    /// `max-open-files=`: above it, opening fails with EMFILE.
    pub max_open_files: Option<u32>,
}

/// How much a disk holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capacity {
    /// So many bytes, with what is there already.
    Bytes(u64),
    /// What is there already and so many more.
    Free(u64),
    /// Without limit.
    Unlimited,
}

/// The network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetSettings {
    /// `latency="1ms"` or `"0ms..5ms"`: one way.
    pub latency: Option<Span>,
    /// `chunk-bytes=7`: streams are cut into pieces that a seed draws, of at most so many bytes where a burst begins, and
    /// longer ones where it goes on.
    pub chunk_bytes: Option<u32>,
    /// `fail-rate=0.01`: the chance that a message breaks its link.
    pub fail_rate: Option<Rate>,
    /// `repair-rate=0.1`: the chance that a broken link comes back with a message.
    pub repair_rate: Option<Rate>,
    /// `timeout="2s"`: how long clients wait for an answer before its outcome is unknown.
    pub timeout: Option<Duration>,
    /// `accept-errors=3`: the next so many accepts fail with EMFILE.
    pub accept_errors: Option<u32>,
}

/// The broker's clock at the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClockSettings {
    /// `at="2024-01-01T00:00:00Z"` or `at=2`: milliseconds since the Unix epoch.
    pub at: Option<u64>,
    /// `frozen=yes`: it stands still, and only steps move it.
    pub frozen: Option<bool>,
}

/// A change of the broker's clock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClockChange {
    /// `at=`: sets it, to milliseconds since the Unix epoch.
    pub at: Option<u64>,
    /// `jump="-1h"`: moves it, by milliseconds; not together with `at`.
    pub jump: Option<i64>,
    /// `frozen=`: stops it, or lets it run.
    pub frozen: Option<bool>,
}

/// A duration, or a range of durations to draw from. Both ends belong to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The shortest.
    pub min: Duration,
    /// The longest; not below `min`.
    pub max: Duration,
}

/// A probability, in millionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate {
    /// 0 to 1,000,000.
    pub millionths: u32,
}

impl Rate {
    /// Between 0 and 1.
    pub fn as_f64(self) -> f64 {
        f64::from(self.millionths) / 1e6
    }
}
