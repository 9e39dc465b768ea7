//! What the disk did, and to what the broker was doing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use faults::{Errno, Op};

use super::life::{Doing, Life};
use super::{State, States};
use crate::trace::{DiskOp, Event, Request, Sent};

/// From so many segments on, lookups have a choice.
const MANY: usize = 4;

/// Of requests that came back to back, the broker reads so much at once, or less; and more where it has memory for it. The
/// rest is for what records have more of on the disk than in a request.
const READ_AT_ONCE: u64 = (256 << 10) + (64 << 10);

/// The disk so far.
#[derive(Default)]
pub(super) struct Disk {
    logs: BTreeSet<Arc<str>>,
    /// Segments of each partition's directory.
    segments: BTreeMap<Arc<str>, usize>,
    /// The log that was made last, until its first record is in it.
    rolling: Option<Arc<str>>,
    /// Writes to each log since its last sync.
    unsynced: BTreeMap<Arc<str>, u32>,
    wrote: bool,
    /// Bytes of the longest request so far: one that is not whole may have been read before.
    longest: u64,
}

impl Disk {
    /// Whether a new segment has no record yet.
    pub(super) fn is_rolling(&self) -> bool {
        self.rolling.is_some()
    }

    /// Whether a log was written to since the broker started.
    pub(super) fn wrote(&self) -> bool {
        self.wrote
    }

    /// Something else than the disk.
    pub(super) fn saw(&mut self, event: &Event) {
        if let Event::Call { request: Request::Produce { records, .. }, .. } = event {
            let bytes = |record: &Sent| record.value.len() + record.key.as_ref().map_or(0, Bytes::len);
            self.longest = self.longest.max(records.iter().map(bytes).sum::<usize>() as u64);
        }
        if matches!(event, Event::Crash { .. } | Event::NotStarted { .. }) {
            (self.rolling, self.wrote) = (None, false);
            self.unsynced.clear();
        }
    }

    pub(super) fn did(&mut self, op: &DiskOp, life: &Life, states: &mut States) {
        let serves = life.doing == Doing::Serving;
        let is_log = op.path.ends_with(".log");
        let failed = op.result.err();
        states.add_if(State::Lied, op.lies);
        states.add_if(State::Rotted, op.rots);
        states.add_if(State::Dropped, op.drops);
        states.add_if(State::RecoveryFault, op.fault.is_some() && life.doing == Doing::Recovering);
        if let Some(errno) = failed {
            self.failed(op, errno, is_log, serves, states);
        }
        match op.op {
            Op::Open if is_log && serves => self.opened(op, failed.is_none(), states),
            Op::Open if is_log => _ = self.known(&op.path),
            Op::Write if is_log && failed.is_none() => {
                self.wrote = true;
                *self.unsynced.entry(op.path.clone()).or_default() += 1;
                if self.rolling.as_ref() == Some(&op.path) {
                    self.rolling = None;
                }
            }
            Op::Sync if is_log => {
                let covered = self.unsynced.insert(op.path.clone(), 0).unwrap_or_default();
                states.add_if(State::GroupCommit, covered > 1 && life.always && failed.is_none());
            }
            Op::SetLen if is_log && serves => states.add_if(State::CutBack, failed.is_none()),
            // The logs of a topic that is deleted are removed under another name.
            Op::Remove if is_log && serves && !op.path.contains('~') => {
                states.add_if(State::Retention, failed.is_none());
            }
            _ => {}
        }
        let is_long = op.op == Op::Write && op.len > READ_AT_ONCE + self.longest;
        states.add_if(State::ReadAhead, is_log && serves && is_long);
        let short = op.op == Op::Write && op.result.is_ok_and(|done| done < op.len);
        states.add_if(State::ShortWrite, short);
    }

    fn failed(&mut self, op: &DiskOp, errno: Errno, is_log: bool, serves: bool, states: &mut States) {
        states.add_if(State::Interrupted, errno == Errno::EINTR);
        states.add_if(State::ReadOnly, errno == Errno::EROFS);
        let full = matches!(errno, Errno::ENOSPC | Errno::EDQUOT);
        match op.op {
            Op::Write if is_log => {
                states.add_if(State::FullAppend, full);
                states.add_if(State::FullRoll, full && self.rolling.as_ref() == Some(&op.path));
                states.add_if(State::WriteFailed, errno == Errno::EIO);
            }
            Op::Write => states.add_if(State::FullIndex, full && op.path.ends_with("index")),
            Op::Open => {
                states.add_if(State::OpenFailed, errno != Errno::ENOENT);
                states.add_if(State::FullRoll, full && is_log && serves);
            }
            Op::Read => states.add_if(State::ReadFailed, errno == Errno::EIO),
            Op::Sync => states.add_if(State::SyncFailed, errno != Errno::EINTR),
            Op::SyncDir => states.add_if(State::DirSyncFailed, errno != Errno::EINTR),
            Op::SetLen => states.add(State::CutFailed),
            _ => {}
        }
        states.add_if(State::FullRoll, full && self.rolling.is_some());
    }

    /// A log was opened while the broker serves: a segment that was not there before, unless a topic is new.
    fn opened(&mut self, op: &DiskOp, made: bool, states: &mut States) {
        let first = op.path.ends_with("/00000000000000000000.log");
        if !made || !self.known(&op.path) {
            return;
        }
        let directory = op.path.rsplit_once('/').map_or("", |(directory, _)| directory);
        let count = self.segments.get(directory).copied().unwrap_or_default();
        states.add_if(State::ManySegments, count >= MANY);
        if !first {
            states.add(State::Rolled);
            self.rolling = Some(op.path.clone());
        }
    }

    /// Remembers a log, and says whether it is new.
    fn known(&mut self, path: &Arc<str>) -> bool {
        let new = self.logs.insert(path.clone());
        if new && let Some((directory, _)) = path.rsplit_once('/') {
            *self.segments.entry(directory.into()).or_default() += 1;
        }
        new
    }
}
