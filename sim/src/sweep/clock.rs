//! How long a run has taken, for people: the time that its thread was on a core. Whatever else the machine does is not
//! counted, and figures from a shared machine can be compared.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// A stopwatch that stands still while its thread waits for a core.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch {
    began: Duration,
}

impl Stopwatch {
    /// Begins to measure this thread.
    pub fn start() -> Self {
        Self { began: on_core() }
    }

    /// What this thread has spent since then.
    pub fn elapsed(&self) -> Duration {
        on_core().saturating_sub(self.began)
    }
}

/// What this thread has spent on a core.
fn on_core() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_at_work_is_measured() {
        let watch = Stopwatch::start();
        let mut sum = 0u64;
        while watch.elapsed() == Duration::ZERO {
            sum = std::hint::black_box(sum + 1); // a watch that stood still would keep this test here
        }
        assert!(watch.elapsed() > Duration::ZERO);
    }
}
