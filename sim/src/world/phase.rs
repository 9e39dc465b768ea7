//! What the broker is at, as far as the disk can tell: so that a fault can be aimed at a recovery, a roll or a stop.
//!
//! The executor knows when a recovery or a stop begins and ends. A roll shows on the disk: it begins when a log that has
//! reached its size is synced, or a new log is made, and it has ended when a log is written to again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// A phase of the broker's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// None in particular.
    Serving = 0,
    /// Between the start of the process and its first answer.
    Recovery = 1,
    /// While a segment is closed and the next one made.
    Roll = 2,
    /// While it stops cleanly.
    Stop = 3,
}

impl Phase {
    /// The tag that faults are aimed at.
    pub fn tag(self) -> &'static str {
        match self {
            Phase::Serving => "",
            Phase::Recovery => "recovery",
            Phase::Roll => "roll",
            Phase::Stop => "stop",
        }
    }
}

/// Keeps the disk told of the phase. Clones keep the same one.
#[derive(Clone, Debug)]
pub struct Phases(Arc<State>);

#[derive(Debug)]
struct State {
    disk: faults::Disk,
    phase: AtomicU8,
    segment_bytes: AtomicU64,
}

impl Phases {
    /// Of the broker on this disk.
    pub fn new(disk: faults::Disk) -> Self {
        let segment_bytes = AtomicU64::new(u64::MAX);
        Self(Arc::new(State { disk, phase: AtomicU8::new(Phase::Serving as u8), segment_bytes }))
    }

    /// The size at which the broker begins a new segment.
    pub fn set_segment_bytes(&self, bytes: u64) {
        self.0.segment_bytes.store(bytes, Ordering::Relaxed);
    }

    /// It is in this phase now.
    pub fn set(&self, phase: Phase) {
        if self.0.phase.swap(phase as u8, Ordering::Relaxed) != phase as u8 {
            self.0.disk.set_phase(phase.tag());
        }
    }

    fn go(&self, from: Phase, to: Phase) {
        if self.0.phase.load(Ordering::Relaxed) == from as u8 {
            self.set(to);
        }
    }

    /// A log of this length is about to be synced.
    pub(super) fn log_synced(&self, len: u64) {
        if len >= self.0.segment_bytes.load(Ordering::Relaxed) {
            self.go(Phase::Serving, Phase::Roll);
        }
    }

    /// A log is about to be made.
    pub(super) fn log_made(&self) {
        self.go(Phase::Serving, Phase::Roll);
    }

    /// A log is about to be written to.
    pub(super) fn log_written(&self) {
        self.go(Phase::Roll, Phase::Serving);
    }
}
