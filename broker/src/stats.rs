//! Counters of the log, for metrics. One set for each broker.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of the sync latency buckets, in microseconds; the last bucket has none.
pub const SYNC_BUCKETS_US: [u64; 12] =
    [50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 50_000, 100_000, 500_000, 1_000_000];

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds to it.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// What it is now.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What a broker's log has done since it was opened.
#[derive(Debug, Default)]
pub struct Stats {
    /// Records appended.
    pub records_appended: Counter,
    /// Bytes appended, headers included.
    pub bytes_appended: Counter,
    /// Appends that failed and were undone.
    pub appends_failed: Counter,
    /// Bytes read for consumers.
    pub bytes_read: Counter,
    /// Segments closed and followed by another.
    pub rolls: Counter,
    /// Segments deleted by retention.
    pub segments_deleted: Counter,
    /// Syncs of a log that succeeded.
    pub syncs: Counter,
    /// Syncs that failed: each fences a partition.
    pub syncs_failed: Counter,
    /// Reads that met damage.
    pub damage_read: Counter,
    /// How long all syncs took together, in microseconds.
    pub sync_us: Counter,
    sync_buckets: [Counter; SYNC_BUCKETS_US.len() + 1],
}

impl Stats {
    pub(crate) fn synced(&self, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let bucket = SYNC_BUCKETS_US.partition_point(|&bound| bound < us);
        self.sync_buckets[bucket].add(1);
        self.syncs.add(1);
        self.sync_us.add(us);
    }

    /// How many syncs fell into each bucket of [`SYNC_BUCKETS_US`], and beyond.
    pub fn sync_latency(&self) -> [u64; SYNC_BUCKETS_US.len() + 1] {
        self.sync_buckets.each_ref().map(Counter::get)
    }
}
