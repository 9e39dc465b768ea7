//! What the disk does, and fails to do.

use faults::{Errno, Op};

use super::Walk;
use crate::oracle::decode;
use crate::oracle::model::{Causes, Partition};
use crate::oracle::paths::{self, InPartition};
use crate::oracle::retained::{self, Removed};
use crate::oracle::rotten_records;
use crate::trace::{DiskOp, Event};

/// Whether a disk operation can change what has to be found after a crash. Most of what the disk does tells nobody anything: it
/// does what it is asked to.
fn tells(op: &DiskOp) -> bool {
    let of_a_mark = match op.op {
        Op::Open => paths::is_log(&op.path),
        Op::Remove if paths::is_note_of_the_run(&op.path) => true,
        Op::Write | Op::Remove if paths::is_mark_of_a_failed_sync(&op.path) => true,
        Op::Rename if notes(op, paths::is_note_of_the_run) => true,
        Op::Rename if notes(op, paths::is_mark_of_a_clean_stop) => true,
        Op::Rename | Op::Remove => paths::is_mark_of_a_clean_stop(&op.path),
        _ => false,
    };
    op.fault.is_some() || op.lies || op.rots || op.drops || op.result.is_err() || of_a_mark
}

/// Whether the broker has noted something in a file of this name, which it takes once all of it is written. Whether that lasts is
/// another matter.
fn notes(op: &DiskOp, is_name: impl Fn(&str) -> bool) -> bool {
    op.op == Op::Rename && op.result.is_ok() && op.to.as_ref().is_some_and(|to| is_name(to))
}

/// An error, and what it may leave behind.
struct Failure<'a> {
    op: &'a DiskOp,
    errno: Errno,
    /// Whether something has failed at all: that somebody else holds the lock is what a lock is for, and to find nothing is an
    /// answer.
    counts: bool,
    /// Whether a fault is behind it, or one that struck before.
    by_fault: bool,
    /// Whether it may leave something broken behind, so that a fence is legal.
    breaks: bool,
}

impl<'a> Failure<'a> {
    fn of(op: &'a DiskOp) -> Option<Self> {
        let errno = op.result.err()?;
        let is_taken = op.op == Op::Lock && errno == Errno::EAGAIN;
        // Where the file system has turned read-only, a write is refused whole; what was written before can be neither synced nor
        // undone.
        let is_stuck = errno == Errno::EROFS && op.op != Op::Write;
        let by_fault = op.fault.is_some() || is_stuck;
        // A sync that is interrupted again and again has failed in the end.
        let is_passing = is_passing(errno) && !matches!(op.op, Op::Sync | Op::SyncDir);
        let (counts, breaks) = (!is_taken && errno != Errno::ENOENT, by_fault && !is_passing);
        Some(Self { op, errno, counts, by_fault, breaks })
    }

    /// What it may be the cause of.
    fn causes(&self) -> Causes {
        Causes::of(self.op.op, self.errno)
    }

    /// What it says of the partition that it has come to. `entry`: of the trace.
    fn strikes(&self, known: &mut Partition, path: InPartition<'_>, entry: usize) {
        if self.counts {
            known.last_seen.disturb();
            known.failures.failed(self.causes());
        }
        let is_unread = self.counts && known.harm.is_unreadable() && !path.is_index();
        // What the system has failed to write back, whoever syncs next is told, and each of those who had the log open.
        let is_told_late =
            self.counts && self.op.op == Op::Sync && path.is_log() && known.durable.has_failed();
        if self.breaks || is_unread || is_told_late {
            known.failures.may_fence();
        }
        if path.is_index() && self.counts {
            known.indexes.failed(path.file, self.errno);
            if self.op.op == Op::Sync {
                known.indexes.sync_failed(&self.op.path);
            }
        }
        // Unless what lies behind it can be set aside, a hole stays: as damage, and with what was in it.
        if path.is_set_aside() && self.counts {
            known.harm.hurt();
        }
        if path.is_log() && (self.by_fault || is_told_late) {
            match self.op.op {
                Op::Sync => known.sync_failed(entry),
                Op::SetLen => known.harm.cut_failed(),
                _ => {}
            }
        }
    }

    /// What it says of any partition, where it has come to a directory above them.
    fn strikes_above(&self, known: &mut Partition) {
        if self.counts {
            known.failures.failed(self.causes());
        }
        if self.breaks {
            known.failures.may_fence();
            known.last_seen.disturb();
        }
    }
}

/// An error that leaves nothing broken behind.
fn is_passing(errno: Errno) -> bool {
    matches!(errno, Errno::ENOSPC | Errno::EDQUOT | Errno::EINTR)
}

impl Walk {
    /// A call that a signal has interrupted is made again at once: only where it is not has it failed. Gives whether that can change
    /// what has to be found after a crash.
    pub(super) fn disk(&mut self, op: &DiskOp) -> bool {
        let is_retried = matches!(op.op, Op::Sync | Op::SyncDir | Op::SetLen);
        if is_retried && op.result == Err(Errno::EINTR) {
            self.interrupted = Some(op.clone());
        } else {
            self.done(op);
        }
        self.lost_names.disk(op, self.model.lying) || tells(op)
    }

    /// An event that is not the same call once more tells that there was none. Gives whether a call had been interrupted.
    pub(super) fn interruption(&mut self, event: &Event) -> bool {
        let Some(before) = &self.interrupted else { return false };
        if matches!(event, Event::Disk(op) if op.op == before.op && op.path == before.path) {
            self.interrupted = None;
        }
        self.given_up();
        true
    }

    /// What was interrupted is not made again.
    pub(super) fn given_up(&mut self) {
        if let Some(interrupted) = self.interrupted.take() {
            self.done(&interrupted);
        }
    }

    /// The disk has done something, or has failed to.
    fn done(&mut self, op: &DiskOp) {
        let path = InPartition::of(&op.path);
        if tells(op) {
            self.told(op, path);
        }
        self.last_stop.done(op);
        match (path, op.result) {
            (Some(path), Ok(done)) if path.is_log() => self.log_changed(op, done, path),
            (None, Ok(_)) if op.op == Op::Rename => {
                self.logs.renamed(&op.path);
                // Also where one of its name went with an error, after which nobody knew.
                op.to.iter().for_each(|to| self.logs.renamed(to));
            }
            _ => {}
        }
    }

    /// The same, where it can change what has to be found after a crash.
    fn told(&mut self, op: &DiskOp, path: Option<InPartition<'_>>) {
        let failure = Failure::of(op);
        let fails = failure.as_ref().is_some_and(|failure| failure.counts);
        if op.fault.is_some() {
            self.disk_errors.strikes();
            if failure.is_none() {
                self.obstacles.changed(); // it may have taken its time
            }
        }
        if fails {
            self.disk_errors.fails();
        }
        self.last_stop.disk(op, fails);
        if op.op == Op::Remove && paths::is_note_of_the_run(&op.path) {
            (self.model.notes_lost, self.model.noted) = (true, false);
        }
        self.model.noted |= notes(op, paths::is_note_of_the_run);
        self.model.marked |= notes(op, paths::is_mark_of_a_clean_stop);
        if let (Ok(_), Some(of)) = (op.result, path)
            && paths::is_mark_of_a_failed_sync(&op.path)
            && let Some(known) = self.model.partition_mut(of.topic, of.partition)
        {
            match op.op {
                Op::Write => known.durable.failure_noted(),
                Op::Remove => known.durable.copied(),
                _ => {}
            }
        }
        if op.lies {
            self.lied(&op.path);
            // A write that went elsewhere has hit somebody else's bytes.
            op.hit.iter().for_each(|(hit, _)| self.strayed_into(&op.path, hit));
        }
        if op.rots {
            self.rotted(op);
        }
        if op.drops {
            self.dropped(&op.path);
        }
        if op.stalled_ms > 0 {
            self.stalled(op, path);
        }
        let entry = self.findings.entry;
        match (path, failure) {
            (Some(path), Some(failure)) => {
                let known = self.model.partition_mut(path.topic, path.partition);
                known.into_iter().for_each(|known| failure.strikes(known, path, entry));
            }
            (None, Some(failure)) => {
                self.model.all_mut().for_each(|known| failure.strikes_above(known));
            }
            (Some(path), None) if op.op == Op::Open && path.is_log() => {
                let base = decode::base_offset(path.file.trim_end_matches(".log"));
                let known = self.model.partition_mut(path.topic, path.partition);
                known.zip(base).into_iter().for_each(|(known, base)| known.durable.segment_opened(base));
            }
            (_, None) => {}
        }
    }

    /// Somebody has to wait for the disk: who syncs a partition, for that one, and all of the broker for anything else.
    fn stalled(&mut self, op: &DiskOp, path: Option<InPartition<'_>>) {
        let (now, ms) = (self.now, op.stalled_ms);
        match path.filter(|_| matches!(op.op, Op::Sync | Op::SyncDir)) {
            Some(of) => {
                let known = self.model.partition_mut(of.topic, of.partition);
                known.into_iter().for_each(|known| known.stalls.stalled(now, ms));
            }
            None => self.model.all_mut().for_each(|known| known.stalls.stalled(now, ms)),
        }
    }

    /// Keeps account of how long each log is, and of those that go.
    fn log_changed(&mut self, op: &DiskOp, done: u64, path: InPartition<'_>) {
        match op.op {
            Op::Open => self.logs.opened(&op.path),
            Op::Write => self.logs.written(&op.path, op.position + done),
            Op::SetLen => self.logs.resized(&op.path, op.len),
            Op::Remove => {
                let is_leaving = self.topic_changes.is_leaving(path.topic);
                let base = path.file.strip_suffix(".log").and_then(decode::base_offset);
                if let Some(base) = base
                    && self.logs.holds_any(&op.path)
                    && self.obstacles.serves()
                    && !is_leaving
                {
                    let (at, process_began) = (self.now, self.process_began);
                    let (topic, partition) = (path.topic, path.partition);
                    let removed = Removed { topic, partition, base, at, process_began };
                    retained::removes(&mut self.findings, &self.model, &self.logs, &removed);
                }
                self.logs.removed(&op.path);
            }
            _ => {}
        }
    }

    /// The disk did not do what it said it did.
    fn lied(&mut self, path: &str) {
        match InPartition::of(path) {
            // What an index says, the log says too: that it is wrong excuses no answer, and no loss.
            Some(of) if of.is_index() => {
                let starts = self.model.starts;
                let known = self.model.partition_mut(of.topic, of.partition);
                known.into_iter().for_each(|known| known.indexes.tamper(path, starts));
            }
            Some(of) => {
                let known = self.model.partition_mut(of.topic, of.partition);
                known.into_iter().for_each(Partition::lied);
            }
            None => {
                self.disk_errors.lies_above();
                self.model.all_mut().for_each(Partition::lied);
            }
        }
    }

    /// A write that was meant for another file has landed in this one. Only what was meant for the log of another partition can be
    /// taken for a record of this one that it never had.
    fn strayed_into(&mut self, meant_for: &str, path: &str) {
        self.lied(path);
        let log_of = |path| InPartition::of(path).filter(|of: &InPartition<'_>| of.is_log());
        if let (Some(from), Some(of)) = (log_of(meant_for), log_of(path))
            && (from.topic, from.partition) != (of.topic, of.partition)
            && let Some(known) = self.model.partition_mut(of.topic, of.partition)
        {
            known.harm.strayed_into();
        }
    }

    /// The system has failed to write a file back, and says so to whoever syncs it next: that is a sync that has failed, and no lie.
    fn dropped(&mut self, path: &str) {
        let entry = self.findings.entry;
        let Some(of) = InPartition::of(path) else {
            return self.model.all_mut().for_each(Partition::troubled);
        };
        let Some(known) = self.model.partition_mut(of.topic, of.partition) else { return };
        known.troubled();
        if of.is_log() {
            known.sync_failed(entry);
        } else if of.is_index() {
            known.indexes.failed(of.file, Errno::EIO);
            known.indexes.sync_failed(path);
        }
    }

    /// Bytes of a file are no longer what they were. Of a log, all the others are, and stay. A start may cut off what it was given
    /// before anybody sees the file again: of what it has found, it is one of the records that it was reading.
    fn rotted(&mut self, op: &DiskOp) {
        let Some(of) = InPartition::of(&op.path).filter(|of| of.is_log()) else { return self.lied(&op.path) };
        let before = self.down.as_ref().map(|image| decode::segments(image, of.topic, of.partition));
        let segment = before.into_iter().flatten().find(|segment| op.path.starts_with(segment.stem));
        let read = op.position..op.position.saturating_add(op.len);
        let offsets = segment.map(|segment| rotten_records::within(&segment, &read)).unwrap_or_default();
        if let Some(known) = self.model.partition_mut(of.topic, of.partition) {
            known.rotted();
            known.damaged(&offsets);
            if self.down.is_none() {
                known.harm.rotted_unseen();
            }
        }
    }

    /// A sector of a file cannot be read. The bytes are still what they were: they can be read again when the disk is well.
    pub(super) fn unreadable(&mut self, path: &str) {
        match InPartition::of(path) {
            // A start builds it anew from the log.
            Some(of) if of.is_index() => {}
            Some(of) if of.is_log() => {
                if let Some(known) = self.model.partition_mut(of.topic, of.partition) {
                    known.unreadable();
                    self.model.readable = false;
                }
            }
            _ => self.lied(path),
        }
    }
}
