//! The clock seam: wall-clock time for record timestamps and retention. It may stand still, jump, and run backwards.
//!
//! Timers (deadlines, sync intervals) do not use it: they are tokio's, which a simulation controls.

use std::fmt::Debug;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::units::Timestamp;

/// Where the broker's wall-clock time comes from.
pub trait Clock: Debug + Send + Sync + 'static {
    /// Milliseconds since the Unix epoch.
    fn now(&self) -> Timestamp;
}

/// The machine's wall clock.
#[derive(Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods)] // the one place where the broker reads the real clock
    fn now(&self) -> Timestamp {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_millis(u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX))
    }
}
