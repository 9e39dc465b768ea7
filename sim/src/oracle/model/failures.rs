//! What has failed under a partition since the broker last began to start, and how that start has left it.

use faults::{Errno, Op};

/// What has failed, by what can come of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Causes {
    /// There was no room.
    pub no_room: bool,
    /// Something could not be read, or looked at.
    pub read: bool,
    /// Something could not be written, or changed.
    pub write: bool,
    /// Something could not be synced.
    pub sync: bool,
}

impl Causes {
    /// Nobody knows what it was.
    pub const ALL: Self = Self { no_room: true, read: true, write: true, sync: true };

    /// What it is that this operation fails with this error.
    pub fn of(op: Op, errno: Errno) -> Self {
        let no_room = matches!(errno, Errno::ENOSPC | Errno::EDQUOT);
        let (read, write, sync) = match op {
            Op::Read | Op::Len | Op::List => (true, false, false),
            // To read, or to write.
            Op::Open | Op::Lock => (true, true, false),
            // Another try may work.
            Op::Write => (false, !no_room, false),
            Op::SetLen | Op::Rename | Op::Remove | Op::MakeDir | Op::RemoveDir => (false, true, false),
            Op::Sync | Op::SyncDir => (false, false, true),
        };
        Self { no_room, read, write, sync }
    }

    /// One, and then the other.
    fn and(self, other: Self) -> Self {
        Self {
            no_room: self.no_room || other.no_room,
            read: self.read || other.read,
            write: self.write || other.write,
            sync: self.sync || other.sync,
        }
    }

    /// Whether there is any.
    pub fn any(self) -> bool {
        self.no_room || self.read || self.write || self.sync
    }
}

/// What has failed since then.
#[derive(Clone, Debug, Default)]
pub struct Failures {
    /// What has: an error of the disk has a cause.
    causes: Causes,
    /// Something other than a full disk has: a fence is legal.
    may_fence: bool,
    /// The last start has left the partition fenced, and says so: it takes no writes until the next, and, where the disk failed
    /// while it was opened, may give nothing either.
    fenced: bool,
}

impl Failures {
    /// The broker begins to start. What was fenced is so until that start has said what it has come to.
    pub fn forget(&mut self) {
        (self.causes, self.may_fence) = (Causes::default(), false);
    }

    /// The start has said whether it has left the partition fenced. `excused`: whether something explains that.
    pub fn started(&mut self, fenced: bool, excused: bool) {
        self.fenced = fenced;
        self.may_fence |= fenced && excused;
    }

    /// Something has failed.
    pub fn failed(&mut self, causes: Causes) {
        self.causes = self.causes.and(causes);
    }

    /// Something has failed that may fence it.
    pub fn may_fence(&mut self) {
        self.may_fence = true;
    }

    /// What an error of the disk may come from.
    pub fn causes(&self) -> Causes {
        self.causes
    }

    /// Whether an error of the disk has a cause.
    pub fn has_any(&self) -> bool {
        self.causes.any()
    }

    /// Whether it is legal that the partition is fenced.
    pub fn allow_a_fence(&self) -> bool {
        self.may_fence
    }

    /// Whether the last start has left it fenced.
    pub fn left_it_fenced(&self) -> bool {
        self.fenced
    }

    /// Whether it takes no writes, or may take none.
    pub fn may_stop_writes(&self) -> bool {
        self.may_fence || self.fenced
    }
}
