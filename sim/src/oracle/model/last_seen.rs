//! What was found when all of a partition was last seen: what cannot be read then is known, and more of it needs a new cause.

use std::collections::BTreeSet;

/// What was found then, and what has happened since.
#[derive(Clone, Debug, Default)]
pub struct LastSeen {
    /// Something has happened since that can leave a hole, or damage.
    disturbed: bool,
    /// What could not be read.
    unread: BTreeSet<u64>,
    /// Stretches of damage that starts have named: first offset and next.
    named: BTreeSet<(u64, u64)>,
    /// For each start after which all of it was seen: that start, and where the log ended. A request that was over by then
    /// lies below, or nowhere.
    ends: Vec<(u32, u64)>,
}

impl LastSeen {
    /// All of it was seen after this start, up to `end`, but for what could not be read.
    pub fn seen(&mut self, start: u32, end: u64, unread: BTreeSet<u64>) {
        (self.disturbed, self.unread) = (false, unread);
        if self.ends.last().is_none_or(|(last, _)| *last < start) {
            self.ends.push((start, end));
        }
    }

    /// Something has happened that can leave a hole, or damage.
    pub fn disturb(&mut self) {
        self.disturbed = true;
    }

    /// A start has named these stretches damaged.
    pub fn named(&mut self, damage: impl Iterator<Item = (u64, u64)>) {
        self.named.extend(damage);
    }

    /// The log ends here now.
    pub fn ends_at(&mut self, end: u64) {
        self.ends.iter_mut().for_each(|(_, seen)| *seen = (*seen).min(end));
    }

    /// Where the log ended when all of it was first seen after a later start than this one.
    pub fn end_after(&self, start: u32) -> Option<u64> {
        let after = self.ends.partition_point(|(seen_after, _)| *seen_after <= start);
        self.ends.get(after).map(|(_, end)| *end)
    }

    /// Whether it is no news that this offset cannot be read, or something has happened that explains it.
    pub fn explains_hole(&self, offset: u64) -> bool {
        self.disturbed || self.unread.contains(&offset)
    }

    /// The same of a stretch that a start names damaged. Bytes behind the last record have no offset.
    pub fn explains_damage(&self, from: u64, to: u64) -> bool {
        let seen = || (from..to).all(|offset| self.unread.contains(&offset));
        self.disturbed || self.named.contains(&(from, to)) || seen()
    }

    /// Whether a start has named any damage.
    pub fn has_named_damage(&self) -> bool {
        !self.named.is_empty()
    }
}
