//! How far a partition's log is known to be durable, and what a sync that failed leaves open.

use crate::trace::Mode;

/// What of a log is synced.
#[derive(Clone, Debug, Default)]
pub struct Durable {
    /// All offsets below are synced, by the roll or the clean stop that came after them.
    to: u64,
    /// The base offset of the newest segment whose creation the disk has seen.
    newest_base: u64,
    /// The trace's entry of the last sync that has failed.
    sync_failed_at: Option<usize>,
    /// What has become of the copy that this asks for.
    copy: Copying,
    /// Who knows of it.
    known: Known,
}

/// Who knows of a sync that has failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Known {
    /// Whoever starts next: it is noted. Or there is none.
    #[default]
    Noted,
    /// The process that was told so.
    Told,
    /// Nobody: that process has died. The syncs of the next one succeed, and do not bring back what was dropped.
    Forgotten,
}

/// What a sync that failed leaves to do: a start copies the log, and takes away the mark that says so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Copying {
    /// There is nothing to copy.
    #[default]
    NotDue,
    /// No start has done it.
    Due,
    /// The start under way has: whether it comes to its end is open.
    Made,
    /// One that came to its end has.
    Done,
}

impl Durable {
    /// Whether this offset is certainly synced.
    pub fn covers(&self, offset: u64) -> bool {
        offset < self.to
    }

    /// The first offset of which that is not certain.
    pub fn end(&self) -> u64 {
        self.to
    }

    /// The disk has made, or opened, the log of a segment.
    pub fn segment_opened(&mut self, base: u64) {
        self.newest_base = self.newest_base.max(base);
    }

    /// The first acknowledgement out of a new segment says that the one before it is synced.
    pub fn acknowledged(&mut self, offset: u64) {
        if offset >= self.newest_base {
            self.to = self.to.max(self.newest_base);
        }
    }

    /// A clean stop has synced the log, which ends here.
    pub fn stopped(&mut self, end: u64) {
        self.to = end;
        self.known = Known::Noted;
    }

    /// The log ends here now: what was promised beyond it is no longer.
    pub fn ends_at(&mut self, end: u64) {
        self.to = self.to.min(end);
        if self.newest_base > end {
            self.newest_base = self.to;
        }
    }

    /// A sync has failed, at this entry of the trace.
    pub fn sync_failed(&mut self, entry: usize) {
        self.sync_failed_at = Some(entry);
        self.copy = Copying::Due;
        self.known = Known::Told;
    }

    /// The broker has noted that a sync has failed.
    pub fn failure_noted(&mut self) {
        self.known = Known::Noted;
    }

    /// The process has died, with what it alone knew.
    pub fn process_died(&mut self) {
        if self.known == Known::Told {
            self.known = Known::Forgotten;
        }
    }

    /// Whether nobody knows any more that a sync has failed.
    pub fn is_failure_forgotten(&self) -> bool {
        self.known == Known::Forgotten
    }

    /// A start has taken away the mark of a sync that failed.
    pub fn copied(&mut self) {
        if self.copy == Copying::Due {
            self.copy = Copying::Made;
        }
    }

    /// A start begins: what the one before it has copied, it finds in order.
    pub fn start_begins(&mut self) {
        self.copy = match self.copy {
            Copying::Due | Copying::Made => Copying::Due,
            Copying::NotDue | Copying::Done => Copying::NotDue,
        };
    }

    /// A start has come to its end.
    pub fn started(&mut self) {
        if self.copy == Copying::Made {
            self.copy = Copying::Done;
        }
    }

    /// Whether a sync has failed, and no start before this one has copied the log since.
    pub fn is_left_to_copy(&self) -> bool {
        self.copy != Copying::NotDue
    }

    /// Whether a sync ever has.
    pub fn has_failed(&self) -> bool {
        self.sync_failed_at.is_some()
    }

    /// Whether what was called at this entry, and promised to be durable in this mode, may have been written before a sync failed.
    pub fn was_written_before_a_failure(&self, called: usize, durability: Mode) -> bool {
        durability != Mode::Always && self.sync_failed_at.is_some_and(|failed| failed > called)
    }
}
