//! Whether somebody waits for what others hold: then they have to keep up.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts who waits.
#[derive(Debug, Default)]
pub(super) struct Waiting(AtomicUsize);

impl Waiting {
    pub fn is_any(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }

    /// One more waits, until this is dropped: also where the wait is given up.
    pub fn begin(&self) -> Waits<'_> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Waits(self)
    }
}

/// One that waits.
pub(super) struct Waits<'a>(&'a Waiting);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}
