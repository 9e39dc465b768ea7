//! What keeps a disk from taking changes.

use crate::PAGE;

/// What keeps a disk from taking changes: [`crate::Disk::limits`] says it, [`crate::Step::limits`] what it was earlier, and
/// [`crate::Disk::limit`] puts it on another disk. By default nothing does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Limits {
    /// See [`crate::Config::capacity`].
    pub capacity: Option<u64>,
    /// No file grows while the files together have this many bytes: a disk that [`crate::Kind::Full`] filled.
    pub brim: Option<u64>,
    /// Whether every change is refused: see [`crate::Kind::ReadOnly`].
    pub read_only: bool,
}

impl Limits {
    /// What is left of them once power was lost: a file system that is mounted anew can be written.
    pub fn after_power_loss(self) -> Limits {
        Limits { read_only: false, ..self }
    }

    /// Whether there are any.
    pub fn are_none(&self) -> bool {
        *self == Limits::default()
    }

    /// Blocks that are free where so many are in use; none where there is no end to them.
    pub(crate) fn free_blocks(&self, used: u64) -> Option<u64> {
        self.capacity.map(|capacity| (capacity / PAGE).saturating_sub(used))
    }
}
