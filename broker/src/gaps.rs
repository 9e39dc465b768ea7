//! Where damage ends, as it was found a moment ago: to find it may take reading all of a segment, and whoever cannot read there is
//! likely to try again at once.
//!
//! It is looked for again soon all the same, since what was damaged in memory, or on its way from the disk, may be whole the next
//! time. What could not be read at all is not remembered.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::units::{Offset, Position};

/// For how long a finding is believed.
const BELIEVED: Duration = Duration::from_secs(10);

/// How many are remembered.
const GAPS: usize = 100;

/// A place in a log: a record with this offset begins at this byte, or should.
pub type Place = (Offset, Position);

/// Where the damage of a partition's segments was found to end.
#[derive(Debug, Default)]
pub struct Gaps(Mutex<BTreeMap<Gap, Found>>);

/// Where damage begins: the base of its segment, and where the first damaged record should be.
pub type Gap = (Offset, Place);

#[derive(Clone, Copy, Debug)]
struct Found {
    /// The next good record.
    behind: Option<Place>,
    /// Where the log ended.
    end: Place,
    at: Instant,
}

impl Gaps {
    /// The next good record, or that there is none, where that was found not long ago. `end`: where the segment's log ends.
    pub fn find(&self, gap: Gap, end: Place) -> Option<Option<Place>> {
        let found = self.lock().get(&gap).copied()?;
        // Where there was none, one may have been appended.
        let holds = found.behind.is_some() || found.end == end;
        (holds && found.at.elapsed() < BELIEVED).then_some(found.behind)
    }

    /// Keeps what was found.
    pub fn remember(&self, gap: Gap, end: Place, behind: Option<Place>) {
        let mut gaps = self.lock();
        if gaps.len() >= GAPS {
            gaps.clear();
        }
        gaps.insert(gap, Found { behind, end, at: Instant::now() });
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Gap, Found>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
