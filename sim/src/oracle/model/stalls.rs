//! How long faults have stalled the disk under a partition. A record waits for its sync, which is several operations, each of which
//! may be stalled, and behind another sync; what was over before it came is no excuse.

use crate::trace::Millis;

/// What has stalled, one behind the other.
#[derive(Clone, Debug, Default)]
pub struct Stalls {
    /// When each was over, and how long it took.
    over: Vec<(Millis, Millis)>,
}

impl Stalls {
    /// Somebody has to wait for so long from here on, or from when what stalls already is over.
    pub fn stalled(&mut self, now: Millis, ms: Millis) {
        let begins = self.over.last().map_or(now, |(over, _)| now.max(*over));
        self.over.push((begins.saturating_add(ms), ms));
    }

    /// What was over by then is forgotten.
    pub fn forget_before(&mut self, then: Millis) {
        self.over.retain(|(over, _)| *over > then);
    }

    /// How long what came at this time may have waited for them, all in all.
    pub fn since(&self, then: Millis) -> Millis {
        let after = self.over.iter().filter(|(over, _)| *over >= then);
        after.fold(0, |sum, (_, ms)| sum.saturating_add(*ms))
    }
}
