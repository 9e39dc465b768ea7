//! Topics that a power loss may take, or bring back, since the disk has lied about what lies above their partitions. A topic comes and
//! goes with a name in the top directory, which the next sync of that directory makes durable: where that sync was a lie, so is
//! what it was to keep, until one comes that is none. What lies in a topic is synced once, while the topic is made.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use faults::Op;

use super::paths::{InPartition, topic_at};
use crate::trace::DiskOp;

/// What a power loss may undo.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Undone {
    /// That a topic was made.
    pub(super) made: bool,
    /// That one was deleted.
    pub(super) deleted: bool,
}

/// What a power loss may have taken, or brought back.
#[derive(Clone, Debug, Default)]
pub(super) struct Lost {
    /// By topic, what it may have undone.
    pub(super) undone: BTreeMap<Arc<str>, Undone>,
    /// Topics that may lack what was put into them.
    pub(super) hollow: BTreeSet<Arc<str>>,
    /// Partitions that may.
    pub(super) hollow_partitions: BTreeSet<(Arc<str>, u32)>,
}

/// What the disk has lied about since the lights went out for the last time.
#[derive(Clone, Debug, Default)]
pub(super) struct LostNames {
    /// By topic, what has become of its name since the top directory was synced.
    unsynced: BTreeMap<Arc<str>, Undone>,
    /// Whether the disk has said since that it was.
    lied: bool,
    /// Topics that may lack what was put into them when they were made.
    hollow: BTreeSet<Arc<str>>,
    /// And partitions of others that do.
    hollow_partitions: BTreeSet<(Arc<str>, u32)>,
}

impl LostNames {
    /// The disk has done something, or says so. `lying`: whether any sync may be a lie, without a word of it. Gives whether that can
    /// change what a power loss undoes.
    pub(super) fn disk(&mut self, op: &DiskOp, lying: bool) -> bool {
        let lies = op.lies || lying && matches!(op.op, Op::Sync | Op::SyncDir);
        let had_lied = self.lied;
        match op.op {
            Op::SyncDir if op.path.is_empty() && op.result.is_ok() => {
                self.lied = lies;
                if !lies {
                    self.unsynced.clear();
                }
            }
            Op::Rename if op.result.is_ok() && !op.path.contains('/') => self.renamed(op),
            _ if lies => self.lied(&op.path),
            _ => return false,
        }
        lies || had_lied
    }

    /// A topic that is in the making gets its name; one that is to go loses it, with all that is in it.
    fn renamed(&mut self, op: &DiskOp) {
        let (Some(topic), Some(to)) = (topic_at(&op.path), op.to.as_deref()) else { return };
        let undone = self.unsynced.entry(topic.into()).or_default();
        if to == topic {
            undone.made = true;
        } else {
            undone.deleted = true;
            self.hollow.remove(topic);
            self.hollow_partitions.retain(|(of, _)| **of != *topic);
        }
    }

    /// The disk has lied about something else. What lies in a partition that has its name, its log tells.
    fn lied(&mut self, path: &str) {
        let Some(topic) = topic_at(path) else { return };
        match InPartition::of(path) {
            Some(of) if of.topic == topic => {}
            Some(of) => _ = self.hollow_partitions.insert((topic.into(), of.partition)),
            None => _ = self.hollow.insert(topic.into()),
        }
    }

    /// The lights go out: what there is then is all that there is to lose.
    pub(super) fn power_lost(&mut self) -> Lost {
        let Self { unsynced, lied, hollow, hollow_partitions } = std::mem::take(self);
        Lost { undone: if lied { unsynced } else { BTreeMap::new() }, hollow, hollow_partitions }
    }
}
