//! Where the threads of an exploration are. A recovery that never yields cannot be stopped from within, and one that panics does not
//! say of what: so each thread notes the crash whose image it takes up.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::report::Crash;

/// By the number of the thread: since when it has been at the image of which crash.
#[derive(Debug, Default)]
pub struct Whereabouts(Mutex<BTreeMap<usize, (Instant, Crash)>>);

#[allow(clippy::disallowed_methods)] // patience is real time; no recovery sees it
impl Whereabouts {
    /// A thread takes up an image of this crash.
    pub(super) fn arrives(&self, thread: usize, crash: Crash) {
        self.lock().insert(thread, (Instant::now(), crash));
    }

    /// A thread has come to its end: gives the crash that it was at last.
    pub(super) fn leaves(&self, thread: usize) -> Option<Crash> {
        self.lock().remove(&thread).map(|(_, crash)| crash)
    }

    /// A crash whose image has been with a thread for longer than this.
    pub fn late(&self, patience: Duration) -> Option<Crash> {
        let threads = self.lock();
        let late = threads.values().filter(|(since, _)| since.elapsed() > patience);
        late.map(|(_, crash)| *crash).min()
    }

    /// How often to ask who is late.
    pub fn every(patience: Duration) -> Duration {
        (patience / 4).clamp(Duration::from_millis(10), Duration::from_secs(1))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<usize, (Instant, Crash)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::{Choice, Point};
    use super::*;

    #[test]
    fn only_who_has_been_long_at_an_image_is_late() {
        let crash =
            |steps| Crash { point: Point { steps, bytes: None, choice: Choice::Process }, nested: None };
        let whereabouts = Whereabouts::default();
        assert_eq!(whereabouts.late(Duration::ZERO), None);
        whereabouts.arrives(0, crash(7));
        whereabouts.arrives(1, crash(6));
        whereabouts.arrives(0, crash(8));
        assert_eq!(whereabouts.late(Duration::from_secs(60)), None);
        while whereabouts.late(Duration::ZERO).is_none() {}
        assert_eq!(whereabouts.leaves(1), Some(crash(6)));
        while whereabouts.late(Duration::ZERO) != Some(crash(8)) {}
        whereabouts.leaves(0);
        assert_eq!(whereabouts.late(Duration::ZERO), None);
    }
}
