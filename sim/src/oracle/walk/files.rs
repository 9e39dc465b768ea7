//! Operations of the disk and what files hold: what may be wrong with them, and why.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use faults::{Errno, Op};

use super::Walk;
use crate::oracle::decode::{self, Piece};
use crate::oracle::model::{Content, Partition};
use crate::oracle::p04_refused_absent;
use crate::oracle::p06_derived::{self, Complete};
use crate::oracle::retained;
use crate::trace::{DiskOp, Event, Image, Moment};

impl Walk {
    /// A call that a signal has interrupted is made again at once: only where it is not has it failed.
    pub(super) fn disk(&mut self, op: &DiskOp) {
        let is_retried = matches!(op.op, Op::Sync | Op::SyncDir | Op::SetLen);
        if is_retried && op.result == Err(Errno::EINTR) {
            self.interrupted = Some(op.clone());
        } else {
            self.done(op);
        }
    }

    /// An event that is not the same call once more tells that there was none.
    pub(super) fn interruption(&mut self, event: &Event) {
        let again = |before: &DiskOp| matches!(event, Event::Disk(op) if op.op == before.op && op.path == before.path);
        if self.interrupted.as_ref().is_some_and(again) {
            self.interrupted = None;
        }
        self.given_up();
    }

    /// What was interrupted is not made again.
    pub(super) fn given_up(&mut self) {
        if let Some(interrupted) = self.interrupted.take() {
            self.done(&interrupted);
        }
    }

    /// The disk has done something, or has failed to.
    fn done(&mut self, op: &DiskOp) {
        self.struck += u64::from(op.fault.is_some());
        if op.fault.is_some() && op.result.is_ok() {
            self.obstacles.changed(); // it may have taken its time
        }
        // That somebody else holds the lock is what a lock is for.
        let is_taken = op.op == Op::Lock && op.result == Err(Errno::EAGAIN);
        let fails = !is_taken && op.result.is_err_and(|errno| errno != Errno::ENOENT);
        self.errors += u64::from(fails);
        self.trouble |= fails;
        self.read_only |= op.result == Err(Errno::EROFS);
        self.taken_back |= matches!(op.op, Op::Rename | Op::Remove) && &*op.path == "clean";
        // A sync that is interrupted again and again has failed in the end.
        let passing = |errno| is_passing(errno) && !matches!(op.op, Op::Sync | Op::SyncDir);
        let failing = op.fault.is_some() && op.result.is_err_and(|errno| !passing(errno));
        if op.lies {
            self.lied(&op.path);
        }
        let Some((topic, partition, file)) = place(&op.path) else {
            if op.op == Op::Rename && op.result.is_ok() {
                let inside = format!("{}/", op.path);
                self.logs.retain(|path, _| !path.starts_with(&inside));
            }
            // A failing directory above them concerns all.
            for known in self.model.topics.values_mut().flat_map(|t| &mut t.partitions) {
                known.may_fence |= failing;
                known.failed |= fails;
                known.disturbed |= failing;
            }
            return;
        };
        let failed = op.result.is_err() && op.fault.is_some();
        if op.result.is_err()
            && let Some(known) = self.model.partition_mut(topic, partition)
        {
            known.disturbed = true;
            known.failed |= fails;
            known.may_fence |= fails && known.unreadable && !is_index(file);
        }
        let is_log = file.ends_with(".log");
        if is_log && let Ok(done) = op.result {
            self.log_changed(op, done, (topic, partition));
        }
        if op.op == Op::Open && is_log && op.result.is_ok() {
            let base = decode::base_offset(file.trim_end_matches(".log"));
            if let (Some(known), Some(base)) = (self.model.partition_mut(topic, partition), base) {
                known.newest_base = known.newest_base.max(base);
            }
        }
        if failed && op.op == Op::Sync && is_log {
            self.model.sync_failed(topic, partition, self.findings.entry);
        }
        if op.result.is_err()
            && is_index(file)
            && let Some(known) = self.model.partition_mut(topic, partition)
        {
            known.index_behind = true;
            known.index_cramped |= matches!(op.result, Err(Errno::ENOSPC | Errno::EDQUOT));
            known.index_unbuilt |= file.ends_with(".tmp") && op.result == Err(Errno::ENOSPC);
        }
        if failed
            && op.op == Op::SetLen
            && is_log
            && let Some(known) = self.model.partition_mut(topic, partition)
        {
            known.cut_failed = true;
            known.hurt |= known.shaken;
        }
        if op.result.is_err()
            && file.contains(".aside-")
            && let Some(known) = self.model.partition_mut(topic, partition)
        {
            // Unless what lies behind it can be set aside, a hole stays: as damage, and with what was in it.
            known.hurt |= fails;
        }
        if failing && let Some(known) = self.model.partition_mut(topic, partition) {
            known.may_fence = true;
        }
    }

    /// Keeps account of how long each log is, and of those that go.
    fn log_changed(&mut self, op: &DiskOp, done: u64, (topic, partition): (&str, u32)) {
        match op.op {
            Op::Write => {
                let bytes = self.logs.entry(op.path.clone()).or_default();
                *bytes = (*bytes).max(op.position + done);
            }
            Op::SetLen => {
                self.logs.insert(op.path.clone(), op.len);
            }
            Op::Remove => {
                let is_leaving = self.leaving.iter().any(|leaving| **leaving == *topic);
                let held = self.logs.get(&op.path).is_some_and(|bytes| *bytes > 0);
                if held && self.obstacles.serves() && !is_leaving {
                    retained::removed(&mut self.findings, &self.model, &self.logs, (topic, partition));
                }
                self.logs.remove(&op.path);
            }
            _ => {}
        }
    }

    /// The disk did not do what it said it did.
    fn lied(&mut self, path: &str) {
        let place = place(path);
        // What an index says, the log says too: that it is wrong excuses no answer, and no loss.
        if let Some((topic, partition, _)) = place.filter(|(_, _, file)| is_index(file)) {
            let starts = self.model.starts;
            let known = self.model.partition_mut(topic, partition);
            known.into_iter().for_each(|known| known.tamper(path, starts));
            return;
        }
        self.lies = true;
        match place {
            Some((topic, partition, _)) => {
                if let Some(known) = self.model.partition_mut(topic, partition) {
                    (known.lied, known.disturbed) = (true, true);
                }
            }
            None => {
                let all = self.model.topics.values_mut().flat_map(|t| &mut t.partitions);
                all.for_each(|known| (known.lied, known.disturbed) = (true, true));
            }
        }
    }

    /// A sector of a file cannot be read. The bytes are still what they were: they can be read again when the disk is well.
    pub(super) fn unreadable(&mut self, path: &str) {
        match place(path) {
            // A start builds it anew from the log.
            Some((_, _, file)) if is_index(file) => {}
            Some((topic, partition, file)) if file.ends_with(".log") => {
                if let Some(known) = self.model.partition_mut(topic, partition) {
                    (known.unreadable, known.disturbed) = (true, true);
                    self.model.readable = false;
                }
            }
            _ => self.lied(path),
        }
    }

    pub(super) fn image(&mut self, moment: Moment, image: &Arc<Image>) {
        match moment {
            Moment::Untouched => self.untouched = Some(image.clone()),
            Moment::Touched => {
                (self.closed, self.trouble) = (false, true);
                self.obstacles.changed();
                if let Some(before) = self.untouched.take() {
                    self.touched(&before, image);
                }
            }
            Moment::Recovered => {
                let logs = image.0.iter().filter(|file| file.path.ends_with(".log"));
                self.logs = logs.map(|file| (file.path.clone(), file.bytes.len() as u64)).collect();
                p04_refused_absent::deleted(&mut self.findings, &self.model, image);
                self.indexes(image, Complete::Exactly);
            }
            Moment::Check => {
                if let Some(look) = &mut self.look {
                    look.image = Some(image.clone());
                }
                self.indexes(image, Complete::MayLag);
            }
            Moment::Down => self.down(image.clone()),
        }
    }

    pub(super) fn indexes(&mut self, image: &Image, complete: Complete) {
        for (topic, known) in &self.model.topics {
            for partition in 0..u32::try_from(known.partitions.len()).unwrap_or(u32::MAX) {
                p06_derived::files(&mut self.findings, &self.model, topic, partition, image, complete);
            }
        }
    }

    /// The scenario has changed files: what it destroyed may be gone, and what it wrote may be read.
    fn touched(&mut self, before: &Image, after: &Image) {
        let starts = self.model.starts;
        for (topic, known) in &mut self.model.topics {
            for (number, partition) in (0..).zip(&mut known.partitions) {
                touched((topic, number), partition, (before, after), starts);
            }
        }
    }
}

/// An error that leaves nothing broken behind.
fn is_passing(errno: Errno) -> bool {
    matches!(errno, Errno::ENOSPC | Errno::EDQUOT | Errno::EINTR)
}

/// Whether a file of a partition is one of its indexes, or one in the making.
fn is_index(file: &str) -> bool {
    file.contains("index")
}

/// A path in a partition: topic, partition, file name (empty for the directory itself).
pub(in crate::oracle) fn place(path: &str) -> Option<(&str, u32, &str)> {
    let (topic, rest) = path.split_once('/')?;
    let (partition, file) = rest.split_once('/').unwrap_or((rest, ""));
    Some((topic, partition.parse().ok()?, file))
}

/// All good records of a partition's files, by offset.
fn good(image: &Image, topic: &str, partition: u32) -> BTreeMap<u64, Content> {
    let mut good = BTreeMap::new();
    for segment in decode::segments(image, topic, partition) {
        for piece in decode::log(segment.log, segment.base) {
            if let Piece::Record(r) = piece {
                let content = (r.key.map(Bytes::copy_from_slice), Bytes::copy_from_slice(r.value));
                good.entry(r.offset).or_insert(content);
            }
        }
    }
    good
}

fn touched(
    (topic, number): (&str, u32),
    partition: &mut Partition,
    (before, after): (&Image, &Image),
    starts: u32,
) {
    let dir = format!("{topic}/{number}/");
    let files = |image: &Image| -> BTreeMap<Arc<str>, Arc<[u8]>> {
        let inside = image.0.iter().filter(|f| f.path.starts_with(&dir));
        inside.map(|f| (f.path.clone(), f.bytes.clone())).collect()
    };
    let (old, new) = (files(before), files(after));
    let names: BTreeSet<&Arc<str>> = old.keys().chain(new.keys()).collect();
    let changed: Vec<&&Arc<str>> = names.iter().filter(|name| old.get(**name) != new.get(**name)).collect();
    if changed.is_empty() {
        return;
    }
    for path in &changed {
        if let Some((stem, _)) = path.rsplit_once('.') {
            let is_index = path.ends_with("index") && new.get(**path).is_some_and(|bytes| !bytes.is_empty());
            partition.orphaned |= is_index && !new.contains_key(&*format!("{stem}.log"));
        }
        partition.tamper(path, starts);
    }
    if !changed.iter().any(|path| path.ends_with(".log")) {
        return;
    }
    (partition.hurt, partition.disturbed) = (true, true);
    let (old, new) = (good(before, topic, number), good(after, topic, number));
    for (offset, slot) in &mut partition.slots {
        slot.damaged |= old.get(offset) != new.get(offset);
    }
    for (offset, content) in new {
        if old.get(&offset) != Some(&content) {
            partition.planted.insert(offset, content);
        }
    }
}
