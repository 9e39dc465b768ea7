//! What the broker is at, as far as the disk can tell: so that a fault can be aimed at a recovery, a roll or a stop.
//!
//! The executor knows when a recovery or a stop begins and ends. A roll shows on the disk: it begins when a log that has
//! reached its size is synced, or a new log is made, and it has ended when a log is written to again.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::scenario::Phase;

/// Keeps the disk told of the phase. Clones keep the same one.
#[derive(Clone, Debug)]
pub struct Phases(Arc<State>);

#[derive(Debug)]
struct State {
    disk: faults::Disk,
    /// None while it serves.
    phase: Mutex<Option<Phase>>,
    segment_bytes: AtomicU64,
}

impl Phases {
    /// Of the broker on this disk.
    pub fn new(disk: faults::Disk) -> Self {
        let segment_bytes = AtomicU64::new(u64::MAX);
        Self(Arc::new(State { disk, phase: Mutex::new(None), segment_bytes }))
    }

    /// The size at which the broker begins a new segment.
    pub fn set_segment_bytes(&self, bytes: u64) {
        self.0.segment_bytes.store(bytes, Ordering::Relaxed);
    }

    /// It is in this phase now; none: it serves.
    pub fn set(&self, phase: Option<Phase>) {
        let mut now = self.0.phase.lock().unwrap_or_else(PoisonError::into_inner);
        if *now != phase {
            *now = phase;
            self.0.disk.set_phase(phase.map_or("", Phase::name));
        }
    }

    fn go(&self, from: Option<Phase>, to: Option<Phase>) {
        let now = *self.0.phase.lock().unwrap_or_else(PoisonError::into_inner);
        if now == from {
            self.set(to);
        }
    }

    /// A log of this length is about to be synced.
    pub(super) fn log_synced(&self, len: u64) {
        if len >= self.0.segment_bytes.load(Ordering::Relaxed) {
            self.go(None, Some(Phase::Roll));
        }
    }

    /// A log is about to be made.
    pub(super) fn log_made(&self) {
        self.go(None, Some(Phase::Roll));
    }

    /// A log is about to be written to.
    pub(super) fn log_written(&self) {
        self.go(Some(Phase::Roll), None);
    }
}
