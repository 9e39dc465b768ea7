//! How often the disk has been struck, and has failed: what an answer or a start may be excused by is whether that has grown.

/// What the disk has done to the broker so far.
#[derive(Clone, Debug, Default)]
pub(super) struct DiskErrors {
    /// What faults have struck: a call during which it grew was disturbed.
    struck: u64,
    /// What it was when the broker was started.
    struck_before_start: u64,
    /// Operations that have failed.
    failed: u64,
    /// What it was when the broker was started.
    failed_before_start: u64,
    /// What it was when the broker was asked to stop.
    failed_before_stop: Option<u64>,
    /// Whether the disk has ever lied about what lies above the partitions: which topics there are.
    lied_above: bool,
}

/// What happens.
impl DiskErrors {
    /// A fault has struck.
    pub(super) fn strikes(&mut self) {
        self.struck += 1;
    }

    /// An operation has failed.
    pub(super) fn fails(&mut self) {
        self.failed += 1;
    }

    /// The disk has lied about what lies above the partitions.
    pub(super) fn lies_above(&mut self) {
        self.lied_above = true;
    }

    /// The broker begins to start.
    pub(super) fn start_begins(&mut self) {
        (self.struck_before_start, self.failed_before_start) = (self.struck, self.failed);
    }

    /// The broker is asked to stop.
    pub(super) fn stop_begins(&mut self) {
        self.failed_before_stop = Some(self.failed);
    }

    /// The broker is gone. Gives whether it was asked to stop, and nothing has failed since.
    pub(super) fn stop_ends(&mut self) -> bool {
        self.failed_before_stop.take() == Some(self.failed)
    }
}

/// What has happened.
impl DiskErrors {
    /// How often a fault has struck.
    pub(super) fn struck(&self) -> u64 {
        self.struck
    }

    /// How many operations have failed.
    pub(super) fn failed(&self) -> u64 {
        self.failed
    }

    /// Whether a fault has struck since the broker began to start.
    pub(super) fn struck_since_start(&self) -> bool {
        self.struck != self.struck_before_start
    }

    /// Whether an operation has failed since the broker began to start.
    pub(super) fn failed_since_start(&self) -> bool {
        self.failed != self.failed_before_start
    }

    /// Whether the disk has ever lied about what lies above the partitions: which topics there are.
    pub(super) fn has_lied_above(&self) -> bool {
        self.lied_above
    }
}
