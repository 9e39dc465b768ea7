//! What the last stop has left: where it was clean and nothing came between, all that the next start finds is in order.

use faults::{Errno, Op};

use crate::oracle::paths;
use crate::trace::{CrashKind, DiskOp};

/// Whether the last stop was clean, and whether the next one can be.
#[derive(Clone, Debug, Default)]
pub(super) struct LastStop {
    /// The last start, the run and its clean stop went without trouble, and nothing has changed since.
    in_order: bool,
    /// A start has taken that back, and has not come to its end.
    taken_back: bool,
    /// Whether its mark is gone, since the last start began.
    gone: Gone,
    /// Something was in the way of a stop that leaves everything in order, since the last start began.
    trouble: bool,
    /// The broker has found that the disk cannot be written: such a run leaves no mark when it stops.
    read_only: bool,
}

/// What has become of the mark of a clean stop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Gone {
    /// It is where it was, if there was one.
    #[default]
    Not,
    /// It has lost its name, and a power loss may give it back.
    ForNow,
    /// For good.
    Durably,
}

impl LastStop {
    /// Whether the next start has to find everything in order.
    pub(super) fn left_order(&self) -> bool {
        self.in_order
    }

    /// Whether the broker has found that the disk cannot be written.
    pub(super) fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Whether its mark is gone for good, since the last start began.
    pub(super) fn is_mark_gone(&self) -> bool {
        self.gone == Gone::Durably
    }

    /// The disk has done something. `fails`: whether that is in the way of a clean stop.
    pub(super) fn disk(&mut self, op: &DiskOp, fails: bool) {
        self.trouble |= fails;
        self.read_only |= op.result == Err(Errno::EROFS);
        self.taken_back |= takes_back(op);
        // What the stop has noted is no longer what it was.
        let is_note = paths::is_mark_of_a_clean_stop(&op.path) || paths::is_note_of_the_run(&op.path);
        self.in_order &= !(op.rots && is_note);
    }

    /// The same, of a call that may have done nothing but to make durable what another one did.
    pub(super) fn done(&mut self, op: &DiskOp) {
        self.gone = match op.op {
            _ if op.result.is_err() => self.gone,
            _ if takes_back(op) => Gone::ForNow,
            Op::SyncDir if op.path.is_empty() && self.gone == Gone::ForNow => Gone::Durably,
            _ => self.gone,
        };
    }

    /// The scenario has changed files.
    pub(super) fn touched(&mut self) {
        (self.in_order, self.trouble) = (false, true);
    }

    /// The broker begins to start.
    pub(super) fn start_begins(&mut self) {
        (self.trouble, self.read_only, self.gone) = (false, false, Gone::Not);
        // A second broker that ran while none did has left no crash to tell of it.
        self.in_order &= !std::mem::take(&mut self.taken_back);
    }

    /// It has come to the end of that, and has taken back what the stop left. What has failed meanwhile may be in the way of the
    /// next.
    pub(super) fn started(&mut self) {
        (self.in_order, self.taken_back) = (false, false);
        self.trouble |= self.read_only;
    }

    /// It began to start and did not come to the end: it may have taken that back.
    pub(super) fn start_was_disturbed(&mut self) {
        self.in_order = false;
    }

    /// It went down. What happens to the machine when the broker is down changes nothing in what a stop made durable.
    /// `cramped`: whether a full disk kept an index from being written, which may then be missing; a start mends it.
    pub(super) fn went_down(&mut self, kind: CrashKind, cramped: bool) {
        self.in_order = match kind {
            CrashKind::Stop => !self.trouble && !cramped,
            CrashKind::Process | CrashKind::Power | CrashKind::FailedStop => {
                self.in_order && !self.taken_back
            }
        };
    }
}

/// Whether it takes the mark of a clean stop away, if it does what it should.
fn takes_back(op: &DiskOp) -> bool {
    matches!(op.op, Op::Rename | Op::Remove) && paths::is_mark_of_a_clean_stop(&op.path)
}
