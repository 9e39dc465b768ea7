//! A slow disk. The simulated disk never sleeps; it says how long its caller would have waited.
//!
//! A sync is waited for where it was asked for: in [`super::work`]. A read or write happens on the thread that serves
//! connections: while it hangs, nothing of the broker moves, so its connections stand still for as long.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tokio::time::{Instant, Sleep};

/// Durations drawn from a range.
#[derive(Debug)]
pub struct Draw {
    min: Duration,
    max: Duration,
    rng: ChaCha8Rng,
}

impl Draw {
    /// From `min` to `max`, both included, in whole microseconds.
    pub fn new(min: Duration, max: Duration, seed: u64) -> Self {
        Self { min, max, rng: ChaCha8Rng::seed_from_u64(seed) }
    }

    /// Changes the range.
    pub fn set(&mut self, min: Duration, max: Duration) {
        (self.min, self.max) = (min, max);
    }

    /// The longest.
    pub fn longest(&self) -> Duration {
        self.max
    }

    fn draw(&mut self) -> Duration {
        if self.min == self.max {
            return self.min;
        }
        let (min, max) = (self.min.as_micros(), self.max.as_micros());
        let micros = self.rng.random_range(min..=max.max(min));
        Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
    }
}

/// How slow the disk is. Clones are the same.
#[derive(Clone, Debug)]
pub struct Stalls(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    disk: faults::Disk,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    each: Draw,
    sync: Draw,
    /// Owed by reads and writes since it was last asked.
    owed: Duration,
    /// The thread hangs until then.
    until: Option<Instant>,
    /// What was begun takes until then, in simulated time, which is the same for all hosts.
    busy_until: Duration,
}

impl Stalls {
    /// A disk that is not slow, unless a fault stalls it.
    pub fn new(disk: faults::Disk, seed: u64) -> Self {
        let none = |seed| Draw::new(Duration::ZERO, Duration::ZERO, seed);
        let state = State {
            each: none(seed),
            sync: none(seed ^ 1),
            owed: Duration::ZERO,
            until: None,
            busy_until: Duration::ZERO,
        };
        Self(Arc::new(Shared { disk, state: Mutex::new(state) }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// The disk that is slow.
    pub(super) fn disk(&self) -> &faults::Disk {
        &self.0.disk
    }

    /// How long each read and write takes.
    pub fn set_latency(&self, min: Duration, max: Duration) {
        self.lock().each.set(min, max);
    }

    /// How long each sync takes.
    pub fn set_sync_latency(&self, min: Duration, max: Duration) {
        self.lock().sync.set(min, max);
    }

    /// The longest that a read or write takes, without faults.
    pub fn longest(&self) -> Duration {
        self.lock().each.longest()
    }

    /// The longest that a sync takes, without faults.
    pub fn longest_sync(&self) -> Duration {
        self.lock().sync.longest()
    }

    /// A new run of the broker, with a clock of its own.
    pub fn restarted(&self) {
        let mut state = self.lock();
        (state.owed, state.until, state.busy_until) = (Duration::ZERO, None, Duration::ZERO);
        self.0.disk.take_delay();
    }

    /// How long what was begun still takes.
    pub fn left(&self) -> Duration {
        self.lock().busy_until.saturating_sub(simulated())
    }

    /// Something is begun that takes so long.
    fn begun(state: &mut State, takes: Duration) {
        state.busy_until = state.busy_until.max(simulated() + takes);
    }

    /// A read or write has happened.
    pub(super) fn read_or_write(&self) {
        let mut state = self.lock();
        if state.each.max > Duration::ZERO {
            let drawn = state.each.draw();
            state.owed += drawn;
        }
    }

    /// How long the next sync takes.
    pub(super) fn draw_sync(&self) -> Duration {
        let mut state = self.lock();
        let takes = state.sync.draw();
        Self::begun(&mut state, takes);
        takes
    }

    /// How long a sync that has just happened took longer because of a fault.
    pub(super) fn of_sync(&self) -> Duration {
        let takes = self.0.disk.take_delay();
        Self::begun(&mut self.lock(), takes);
        takes
    }

    /// Ready where the thread does not hang. `sleep` is the caller's own, kept between calls.
    pub(super) fn poll(&self, sleep: &mut Option<Pin<Box<Sleep>>>, cx: &mut Context<'_>) -> Poll<()> {
        let until = {
            let mut state = self.lock();
            let owed = std::mem::take(&mut state.owed) + self.0.disk.take_delay();
            if owed > Duration::ZERO {
                let now = Instant::now();
                let until = state.until.map_or(now, |u| u.max(now)) + owed;
                state.until = Some(until);
                Self::begun(&mut state, until.duration_since(now));
            }
            state.until
        };
        let Some(until) = until.filter(|until| *until > Instant::now()) else {
            *sleep = None;
            return Poll::Ready(());
        };
        let sleep = sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
        if sleep.deadline() < until {
            sleep.as_mut().reset(until);
        }
        sleep.as_mut().poll(cx)
    }
}

/// Simulated time since the run began; none outside of one.
fn simulated() -> Duration {
    turmoil::sim_elapsed().unwrap_or_default()
}
