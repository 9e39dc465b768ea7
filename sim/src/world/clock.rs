//! The broker's wall clock in the world: simulated time, plus what the scenario's jumps add or take away.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use broker::clock::Clock;
use broker::units::Timestamp;

use crate::trace::{self, Event, Recorder, World};

/// When every run begins: 2024-01-01 00:00:00 UTC, in milliseconds since the Unix epoch.
pub const EPOCH_MS: u64 = 1_704_067_200_000;

/// A wall clock that can jump, forwards and back, and stand still.
#[derive(Clone, Debug)]
pub struct WorldClock {
    recorder: Recorder,
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    /// Added to simulated time, in milliseconds.
    skew: AtomicI64,
    /// The time shown while the clock stands still; negative while it runs.
    stopped_at: AtomicI64,
}

impl WorldClock {
    /// A clock that begins at [`EPOCH_MS`] and takes its time from the recorder.
    pub fn new(recorder: Recorder) -> Self {
        let state = State { skew: AtomicI64::new(0), stopped_at: AtomicI64::new(-1) };
        Self { recorder, state: Arc::new(state) }
    }

    /// Jumps by this many milliseconds, backwards where they are negative: from what it shows, and no further than to the first or
    /// the last time that it can show. A later jump the other way, or the time that goes by, would else be lost beyond it.
    pub fn jump(&self, ms: i64) {
        self.set_millis(self.millis().saturating_add(ms).max(0));
    }

    /// Jumps so that it is now this time.
    pub fn set(&self, ms: u64) {
        self.set_millis(i64::try_from(ms).unwrap_or(i64::MAX));
    }

    fn set_millis(&self, ms: i64) {
        self.state.skew.store(ms - self.simulated(), Ordering::Relaxed);
        if self.state.stopped_at.load(Ordering::Relaxed) >= 0 {
            self.state.stopped_at.store(ms, Ordering::Relaxed);
        }
    }

    /// Stops it or lets it run on, from the time it shows.
    pub fn stand_still(&self, still: bool) {
        let now = self.millis();
        let was_still = self.state.stopped_at.load(Ordering::Relaxed) >= 0;
        if still && !was_still {
            self.state.stopped_at.store(now, Ordering::Relaxed);
        } else if !still && was_still {
            self.state.stopped_at.store(-1, Ordering::Relaxed);
            self.set_millis(now);
        }
    }

    /// Writes down what it shows.
    pub fn tell(&self) {
        let runs = self.state.stopped_at.load(Ordering::Relaxed) < 0;
        let clock = trace::Clock { shows: self.now().get(), runs };
        self.recorder.add(Event::World(World::Clock(clock)));
    }

    fn millis(&self) -> i64 {
        let stopped = self.state.stopped_at.load(Ordering::Relaxed);
        if stopped >= 0 {
            return stopped;
        }
        self.simulated().saturating_add(self.state.skew.load(Ordering::Relaxed)).max(0)
    }

    /// What it would show if it had never jumped.
    fn simulated(&self) -> i64 {
        i64::try_from(EPOCH_MS + self.recorder.now()).unwrap_or(i64::MAX)
    }
}

impl Clock for WorldClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.millis().unsigned_abs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jumps_stops_and_runs_on() {
        let recorder = Recorder::default();
        let clock = WorldClock::new(recorder.clone());
        assert_eq!(clock.now().get(), EPOCH_MS);
        clock.jump(-3_600_000);
        recorder.set_now(5);
        assert_eq!(clock.now().get(), EPOCH_MS - 3_600_000 + 5);
        clock.stand_still(true);
        recorder.set_now(50);
        assert_eq!(clock.now().get(), EPOCH_MS - 3_600_000 + 5);
        clock.stand_still(false);
        recorder.set_now(51);
        assert_eq!(clock.now().get(), EPOCH_MS - 3_600_000 + 6);
        clock.set(1_000);
        assert_eq!(clock.now().get(), 1_000);
    }

    #[test]
    fn a_clock_at_its_first_time_can_be_set_and_runs_on() {
        for still in [false, true] {
            let recorder = Recorder::default();
            let clock = WorldClock::new(recorder.clone());
            clock.stand_still(still);
            clock.jump(-3_600_000_000_000);
            assert_eq!(clock.now().get(), 0);
            clock.stand_still(false);
            recorder.set_now(7);
            assert_eq!(clock.now().get(), 7);
            clock.set(1_000);
            recorder.set_now(8);
            assert_eq!(clock.now().get(), 1_001);
            clock.jump(i64::MAX);
            clock.jump(i64::MAX);
            recorder.set_now(50);
            assert_eq!(clock.now().get(), trace::Clock::LAST);
            clock.jump(-1_000);
            assert_eq!(clock.now().get(), trace::Clock::LAST - 1_000);
            clock.set(5);
            assert_eq!(clock.now().get(), 5);
        }
    }
}
