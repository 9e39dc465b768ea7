//! What becomes of the run beside it: a crash at any point, and a broker that is started on what that leaves. A crash point is
//! judged on a clone of the walk, which then goes on by itself.

use std::sync::Arc;

use faults::Errno;

use super::Walk;
use crate::oracle::look::Look;
use crate::oracle::model::{Partition, Topic};
use crate::oracle::p03_never_wrong::{self, Given};
use crate::oracle::{Promise, p08_idempotent};
use crate::trace::{Again, Answer, CrashKind, DiskOp, Image, Millis, Moment, Recovered};

/// What a start of the broker has come to that is no part of the run.
#[derive(Clone, Copy)]
pub(crate) struct StartBeside<'a> {
    /// Whether it took the last stop for clean.
    pub(crate) clean: bool,
    /// Whether it has noted which run it begins.
    pub(crate) noted: bool,
    /// Whether the device could fail it.
    pub(crate) failing: bool,
    /// What the disk refused it, though it does not fail.
    pub(crate) refused: &'a [(DiskOp, usize)],
    /// What it said, by topic and partition.
    pub(crate) said: &'a [Recovered],
    /// What was found in it.
    pub(crate) look: &'a Look,
}

impl Walk {
    /// The process dies, or the machine: whoever waits for an answer gets none.
    pub(crate) fn goes_down(&mut self, kind: CrashKind, at: Millis) {
        self.given_up();
        self.obstacles.changed();
        let why = if kind == CrashKind::Power { "power loss" } else { "crash" };
        for id in self.calls.keys().copied().collect::<Vec<_>>() {
            let answer = Answer::Lost { why: why.into(), sent: true, told: false };
            self.answer(id, &answer, at);
        }
        self.look = None;
        self.crash(kind, at);
    }

    /// A broker that was started on what is left, beside the run.
    pub(crate) fn started_beside(&mut self, start: &StartBeside<'_>, at: Millis) {
        self.model.starts += 1;
        // A device that fails does so again, and nobody says where.
        if !start.failing {
            self.disk_errors.start_begins();
            self.model.all_mut().for_each(Partition::start_begins);
        }
        // What there is no room for harms a partition, and is no reason to fence it.
        let excused: Vec<bool> = start.said.iter().map(|said| self.may_be_fenced(said)).collect();
        self.disk_refused(start.refused, usize::MAX);
        self.came_up(start.clean, start.said);
        self.model.notes_lost &= !start.noted;
        let is_read_only = start.refused.iter().any(|(op, _)| op.result == Err(Errno::EROFS));
        let may_fence = start.failing || is_read_only;
        for (said, excused) in start.said.iter().zip(excused) {
            let known = self.model.partition(&said.topic, said.partition);
            let lacks_its_copy = known.is_some_and(Partition::may_lack_its_copy);
            self.recovered(said, may_fence);
            if !(may_fence || lacks_its_copy || excused) {
                self.takes_writes(said);
            }
        }
        let look = start.look;
        for ((topic, partition), found) in &look.partitions {
            let unheard_of = !self.model.topics.contains_key(topic) && !self.raw;
            let may_be_there = self.disk_errors.struck_since_start() || self.topic_changes.is_doubtful(topic);
            if unheard_of && !may_be_there {
                let expected = ("no such topic: it was deleted, or never made", "the broker serves it");
                self.findings.broke(Promise::RefusedAbsent, "topic back", topic.as_ref(), expected, &[]);
            }
            if self.model.topics.get(topic).is_some_and(|known| known.successor.is_some()) {
                continue; // which one it is, all of the look together shows
            }
            let given = Given { at, epoch: self.model.epoch };
            for seen in found.records.values() {
                p03_never_wrong::read(&mut self.findings, &mut self.model, topic, *partition, seen, given);
            }
        }
        if let Some(image) = &look.image {
            self.image(Moment::Recovered, image);
        }
        self.looked(look);
    }

    /// What the disk refused a start beside the run, up to so many steps of what that did to it.
    pub(crate) fn disk_refused(&mut self, refused: &[(DiskOp, usize)], until: usize) {
        for (op, _) in refused.iter().filter(|(_, steps)| *steps <= until) {
            self.disk(op);
        }
    }

    /// A start that did not come to its end has taken back what a clean stop left. It may have found one that nobody was told
    /// of yet.
    pub(crate) fn disturbed(&mut self, found_clean: bool) {
        self.last_stop.start_was_disturbed();
        self.model.marked |= found_clean;
    }

    /// Another way to recover the same files must come to the same.
    pub(crate) fn again(&mut self, how: Again, once: &Image, other: Result<&Image, &str>) {
        p08_idempotent::again(&mut self.findings, &self.model, how, once, other);
    }

    /// Whether records of this partition, `topic/number`, can contradict each other: the disk has lied about it, or somebody has
    /// written into it.
    pub(crate) fn has_at_odds(&self, partition: &str) -> bool {
        let (topic, number) = partition.rsplit_once('/').unwrap_or((partition, ""));
        let known = number.parse().ok().and_then(|number| self.model.partition(topic, number));
        self.model.lying || known.is_some_and(|known| known.harm.at_odds())
    }

    /// Topics that clients know of, with their partitions.
    pub(crate) fn topics(&self) -> Vec<(Arc<str>, u32)> {
        let count = |topic: &Topic| u32::try_from(topic.partitions.len()).unwrap_or(u32::MAX);
        self.model.topics.iter().map(|(name, topic)| (name.clone(), count(topic))).collect()
    }
}
