//! The broker starts, and goes down: what a start says of the stop before it, and of the files that it found.

use super::Walk;
use crate::oracle::look::name;
use crate::oracle::model::Partition;
use crate::oracle::{Promise, named_stretches, p09_damage, whole_records};
use crate::trace::{CrashKind, Millis, Mode, Recovered, Starting};

/// How long a stop may take besides what it has to wait for the disk: who waits for the broker is answered at once, and has a while
/// to take that in.
const STOP_MS: Millis = 2000;

impl Walk {
    /// The broker has come up, and serves.
    pub(super) fn started(&mut self, clean: bool, said: &[Recovered]) {
        self.obstacles.started();
        self.came_up(clean, said);
        self.last_stop.started();
        self.model.notes_lost &= !self.model.noted;
        let failed = self.disk_errors.struck_since_start() || self.last_stop.is_read_only();
        // One that could not be taken back is there for the next start, too.
        self.model.marked &= failed && !self.last_stop.is_mark_gone();
        for said in said {
            let known = self.model.partition(&said.topic, said.partition);
            let may_fence = failed || known.is_some_and(|known| known.harm.at_odds());
            let lacks_its_copy = known.is_some_and(Partition::may_lack_its_copy);
            if !(failed || self.model.lying || lacks_its_copy || self.may_be_fenced(said)) {
                self.takes_writes(said);
            }
            self.recovered(said, may_fence);
            if let Some(known) = self.model.partition_mut(&said.topic, said.partition) {
                known.start = said.start;
                known.durable.started();
                known.last_seen.named(said.damage.iter().map(|(_, _, _, from, to)| (*from, *to)));
            }
        }
        // A start that can read all leaves nothing of one before it that could not.
        if self.model.readable {
            self.model.all_mut().for_each(|known| known.harm.readable());
        }
    }

    /// What a start says it found, beside what lay there.
    fn kept_whole(&mut self, said: &[Recovered]) {
        let Some(before) = self.down.take() else { return };
        let was_well = !self.disk_errors.struck_since_start();
        for said in said {
            whole_records::started(&mut self.findings, &self.model, &before, said);
            if was_well {
                named_stretches::started(&mut self.findings, &self.model, &before, said);
            }
        }
    }

    /// A start that came to its end: what it says of the stop before it, and of the files that it found.
    pub(super) fn came_up(&mut self, clean: bool, said: &[Recovered]) {
        let went_down = self.model.down_since.take();
        let began = self.process_began;
        self.model.all_mut().for_each(|known| known.stalls.forget_before(began));
        if self.model.notes_lost {
            self.model.all_mut().for_each(|known| known.harm.unnoted());
        }
        self.after_a_stop(clean, said);
        self.kept_whole(said);
        self.left_closed(said, went_down);
    }

    /// What a start could not open, and says nothing of, is left as it is until the next: what was young when the broker went down,
    /// nobody syncs.
    fn left_closed(&mut self, said: &[Recovered], went_down: Option<(Millis, Millis)>) {
        for (topic, known) in &mut self.model.topics {
            for (number, known) in (0..).zip(&mut known.partitions) {
                let is_told = said.iter().any(|said| said.topic == *topic && said.partition == number);
                if !is_told && known.failures.allow_a_fence() {
                    known.failures.started(true, true);
                    went_down.into_iter().for_each(|(at, slack)| known.left_unsynced(slack, at));
                }
            }
        }
    }

    /// Nothing excuses a partition from taking writes.
    pub(super) fn takes_writes(&mut self, said: &Recovered) {
        if let Some(why) = &said.fenced {
            let expected = ("the partition takes writes after a restart", why.as_str());
            let what = name(&said.topic, said.partition);
            self.findings.broke(Promise::Live, "fenced", what, expected, &[]);
        }
    }

    /// Whether what was done to a partition, or what became of its topic, excuses it from taking writes after a start in which
    /// nothing has failed.
    pub(super) fn may_be_fenced(&self, said: &Recovered) -> bool {
        let is_harmed =
            |known: &Partition| known.harm.explains_missing_records() || known.harm.is_unreadable();
        let known = self.model.partition(&said.topic, said.partition);
        let came_back = known.is_none() && self.topic_changes.is_doubtful(&said.topic);
        came_back || known.is_some_and(is_harmed)
    }

    /// What a start says of one partition. `may_fence`: whether something excuses it from taking writes.
    pub(super) fn recovered(&mut self, said: &Recovered, may_fence: bool) {
        p09_damage::started(&mut self.findings, &self.model, said);
        let (starts, mended) = (self.model.starts, self.model.readable);
        if let Some(known) = self.model.partition_mut(&said.topic, said.partition) {
            let readable = !known.harm.is_unreadable() || mended;
            for file in said.rebuilt.iter().filter(|_| readable) {
                known.indexes.rebuilt(&format!("{}/{}/{file}", said.topic, said.partition), starts);
            }
            known.failures.started(said.fenced.is_some(), may_fence);
        }
    }

    /// What a clean stop left in order is found in order: the stop is known, and no index has to be built anew.
    fn after_a_stop(&mut self, clean: bool, said: &[Recovered]) {
        let was_struck = self.disk_errors.struck_since_start() || self.model.lying;
        if !self.last_stop.left_order() || was_struck {
            return;
        }
        if !clean {
            let expected = ("the last stop is known to have been clean", "it is not");
            self.findings.broke(Promise::Damage, "clean stop forgotten", "the broker", expected, &[]);
        }
        for said in said {
            let known = self.model.partition(&said.topic, said.partition);
            let is_whole = |p: &Partition| p.indexes.are_trusted() && !p.indexes.may_be_lost();
            // Some are built anew where another interval counts from now on, be it by a start that did not come to its end.
            let in_order = known.is_some_and(|p| !p.harm.is_changed() && is_whole(p));
            let in_order = in_order && !self.model.interval_changed;
            if in_order && !said.rebuilt.is_empty() {
                let found = format!("built anew: {}", said.rebuilt.join(", "));
                let expected = ("the indexes are there after a clean stop", found.as_str());
                let what = name(&said.topic, said.partition);
                self.findings.broke(Promise::Derived, "rebuilt after a clean stop", what, expected, &[]);
            }
        }
    }

    /// The broker begins to start.
    pub(super) fn starting(&mut self, starting: &Starting) {
        self.obstacles.starting(starting);
        self.disk_errors.start_begins();
        self.process_began = self.now;
        self.last_stop.start_begins();
        let model = &mut self.model;
        model.interval_changed |=
            self.connections_max != 0 && model.index_interval != starting.index_interval;
        model.index_interval = starting.index_interval;
        model.index_intervals.insert(starting.index_interval);
        model.durability = starting.durability;
        model.was_always |= starting.durability == Mode::Always;
        model.retention = starting.retention;
        model.slack_ms = starting.sync_slack_ms;
        (model.record_bytes_max, model.frame_bytes_max) =
            (starting.record_bytes_max, starting.frame_bytes_max);
        model.records_max = starting.records_max;
        model.lying |= starting.lying;
        model.starts += 1;
        model.noted = false;
        self.connections_max = starting.connections_max;
        for topic in model.topics.values_mut() {
            topic.retention |= starting.retention.any();
            topic.partitions.iter_mut().for_each(Partition::start_begins);
        }
        self.routing.restarted();
    }

    /// The broker is gone.
    pub(super) fn crash(&mut self, kind: CrashKind, now: Millis) {
        if let Some((asked, before)) = self.stopping.take().filter(|_| kind == CrashKind::Stop) {
            let quiet = self.obstacles.is_quiet(before);
            let bound = STOP_MS + self.obstacles.bound() * (1 + self.model.all().count() as Millis);
            let took = now - asked;
            if quiet && took > bound {
                let said =
                    (format!("it comes to its end within {bound} ms"), format!("it has taken {took} ms"));
                self.findings.broke(Promise::Live, "stops late", "broker", said, &[]);
            }
        }
        self.obstacles.down(now);
        if kind == CrashKind::Power {
            self.names_may_be_lost(); // and with them what is in them
        }
        self.down = None; // what a start has found that did not come to its end
        self.last_stop.went_down(kind, self.model.all().any(|known| known.indexes.are_cramped()));
        self.model.marked |= kind == CrashKind::Stop;
        self.model.interval_changed &= kind != CrashKind::Stop;
        match kind {
            // A stop on a disk that cannot be written syncs nothing.
            CrashKind::Stop if !self.last_stop.is_read_only() => self.model.stopped(),
            CrashKind::Stop => self.model.crash(false, now),
            CrashKind::Process | CrashKind::FailedStop => self.model.crash(false, now),
            CrashKind::Power => self.model.crash(true, now),
        }
        self.routing.restarted();
    }
}
