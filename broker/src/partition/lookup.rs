//! Looking for a time: which record is the first at or after it.

use std::io;

use super::Partition;
use crate::disk::Disk;
use crate::error::Error;
use crate::segment::{Sealed, TimeLookup};
use crate::units::{Offset, Timestamp};

impl<D: Disk> Partition<D> {
    /// The first record whose timestamp is `at` or later; `None` where there is none. An error where damaged records come
    /// before it: clocks jump, so any of them may be the one that was asked for.
    pub fn first_at_or_after(&self, at: Timestamp) -> Result<Option<(Offset, Timestamp)>, Error> {
        let found = self.first_readable_at_or_after(at)?;
        let end = found.map_or(Offset::new(u64::MAX), |(offset, _)| offset);
        self.lock().damage_before(end).map_or(Ok(found), Err)
    }

    fn first_readable_at_or_after(&self, at: Timestamp) -> Result<Option<(Offset, Timestamp)>, Error> {
        let late_enough =
            |latest: Option<(Timestamp, Offset)>| latest.is_some_and(|(latest, _)| latest >= at);
        let bases: Vec<Offset> = {
            let state = self.lock();
            state.range(&self.0.config)?;
            // Of a segment that could not be read nobody knows how late its records are: they are not passed over.
            let unknown = |s: &Sealed| s.latest.is_none() && s.bytes > 0;
            let kept = state.sealed.iter().filter(|s| s.end > state.start);
            let sealed = kept.filter(|s| late_enough(s.latest) || unknown(s)).map(|s| s.base);
            let active = state.active.iter().filter(|a| late_enough(a.meter.latest)).map(|a| a.base);
            sealed.chain(active).collect()
        };
        for base in bases {
            // One at a time: a partition may have more segments than a process may have files open.
            let location = self.locate(&self.lock(), base);
            let view = match self.view(location) {
                Ok(view) => view,
                Err(e) if e.kind() == io::ErrorKind::NotFound && self.taken_by_retention(base) => continue,
                // Where nobody deletes it, its records are lost, and none behind them may be named in their place.
                Err(e) => return Err(self.unreadable(base, e)),
            };
            // And so it was where the segment that is there now is a later one.
            if view.base != base {
                continue;
            }
            match view.first_at_or_after(at).map_err(|e| self.unreadable(base, e))? {
                TimeLookup::Found(offset, timestamp) => return Ok(Some((offset, timestamp))),
                TimeLookup::Damaged { offset, position, next } => {
                    return Err(Error::Corrupt { segment: view.path, position, offset, next });
                }
                TimeLookup::None => {}
            }
        }
        Ok(None)
    }
}
