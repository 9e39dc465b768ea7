//! What has failed under a partition since the broker last began to start, and how that start has left it.

/// What has failed since then.
#[derive(Clone, Debug, Default)]
pub struct Failures {
    /// Something has, or there was no room: an error of the disk has a cause.
    any: bool,
    /// Something other than a full disk has: a fence is legal.
    may_fence: bool,
    /// The last start has left the partition fenced, and says so: it takes no writes until the next, and, where the disk failed
    /// while it was opened, may give nothing either.
    fenced: bool,
}

impl Failures {
    /// The broker begins to start. What was fenced is so until that start has said what it has come to.
    pub fn forget(&mut self) {
        (self.any, self.may_fence) = (false, false);
    }

    /// The start has said whether it has left the partition fenced. `excused`: whether something explains that.
    pub fn started(&mut self, fenced: bool, excused: bool) {
        self.fenced = fenced;
        self.may_fence |= fenced && excused;
    }

    /// Something has failed.
    pub fn failed(&mut self) {
        self.any = true;
    }

    /// Something has failed that may fence it.
    pub fn may_fence(&mut self) {
        self.may_fence = true;
    }

    /// Whether an error of the disk has a cause.
    pub fn has_any(&self) -> bool {
        self.any
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
