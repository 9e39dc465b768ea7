//! Goes through a trace once, keeps the model, and asks each promise where it can be broken.

mod calls;
pub(super) mod files;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::answered::Asked;
use super::look::{Look, PartitionLook, name};
use super::model::{Model, Partition, Topic};
use super::obstacles::Obstacles;
use super::p10_routed::Routing;
use super::p11_live::Liveness;
use super::{
    Findings, Verdict, p01_dense, p02_kept, p03_never_wrong, p04_refused_absent, p07_time, p08_idempotent,
    p09_damage, p12_bounded, whole_records,
};
use crate::trace::{
    Again, Answer, CallId, CrashKind, DiskOp, Entry, Event, Image, Millis, Mode, Moment, Recovered, Request,
    Starting, Trace, World,
};

/// What the promises say about a trace.
pub fn judge(trace: &Trace) -> Verdict {
    let mut walk = Walk::default();
    for (index, entry) in trace.entries.iter().enumerate() {
        walk.findings.entry = index;
        walk.entry(entry);
    }
    walk.findings.into_verdict()
}

/// A trace, walked up to some entry. A clone goes on from there by itself.
#[derive(Clone, Default)]
pub(crate) struct Walk {
    pub(crate) findings: Findings,
    model: Model,
    routing: Routing,
    liveness: Liveness,
    calls: BTreeMap<CallId, Open>,
    look: Option<Look>,
    /// Files before the scenario's hand touched them.
    untouched: Option<Arc<Image>>,
    /// Files that the next start finds.
    down: Option<Arc<Image>>,
    connections_max: u64,
    /// Disk operations that a fault has struck, so far: a call during which it grew was disturbed.
    struck: u64,
    /// What it was when the broker was started.
    struck_before_start: u64,
    /// Whether the last start, the run and its clean stop went without trouble, and nothing has changed since.
    closed: bool,
    /// Whether a start has taken that back, and has not come to its end.
    taken_back: bool,
    /// Whether something was in the way of a stop that leaves everything in order, since the last start.
    trouble: bool,
    /// Whether the broker has found that the disk cannot be written: such a run leaves no mark when it stops.
    read_only: bool,
    /// Whether a client has sent bytes of its own making: what they ask for, nobody has looked at.
    raw: bool,
    obstacles: Obstacles,
    /// Disk operations that have failed, so far.
    errors: u64,
    /// What it was when the broker was started.
    errors_before_start: u64,
    /// What it was when the broker was asked to stop.
    errors_before_stop: Option<u64>,
    /// Whether the disk has ever lied about more than an index.
    lies: bool,
    /// Topics that somebody is deleting.
    leaving: Vec<Arc<str>>,
    /// How often somebody has asked for a topic to be made.
    creations: u64,
    /// A call that a signal has interrupted, and that may be made again.
    interrupted: Option<DiskOp>,
    /// The bytes of each log.
    logs: BTreeMap<Arc<str>, u64>,
}

/// A call without its answer.
#[derive(Clone)]
struct Open {
    client: Arc<str>,
    request: Request,
    /// The entry of the trace.
    entry: usize,
    struck: u64,
    asked: Asked,
}

/// What a start of the broker has come to that is no part of the run.
#[derive(Clone, Copy)]
pub(crate) struct StartBeside<'a> {
    /// Whether it took the last stop for clean.
    pub(crate) clean: bool,
    /// Whether the device could fail it.
    pub(crate) failing: bool,
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
        self.came_up(start.clean, start.said);
        for said in start.said {
            let known = self.model.partition(&said.topic, said.partition);
            let by_hand = known.is_some_and(|known| known.hurt || known.unreadable || known.at_odds());
            self.recovered(said, start.failing);
            if let Some(why) = said.fenced.as_ref().filter(|_| !start.failing && !by_hand) {
                let what = name(&said.topic, said.partition);
                let expected = ("the partition takes writes after a restart", why.as_str());
                self.findings.broke(super::Promise::Live, "fenced", what, expected, &[]);
            }
        }
        let look = start.look;
        for ((topic, partition), found) in &look.partitions {
            let unheard_of = !self.model.topics.contains_key(topic) && !self.raw;
            if unheard_of && !self.model.lying && self.struck == 0 {
                let expected = ("no such topic: it was deleted, or never made", "the broker serves it");
                self.findings.broke(
                    super::Promise::RefusedAbsent,
                    "topic back",
                    topic.as_ref(),
                    expected,
                    &[],
                );
            }
            for seen in found.records.values() {
                p03_never_wrong::read(&mut self.findings, &mut self.model, topic, *partition, seen, at);
            }
        }
        if let Some(image) = &look.image {
            self.image(Moment::Recovered, image);
        }
        self.looked(look);
    }

    /// The files that the next start finds.
    pub(crate) fn down(&mut self, image: Arc<Image>) {
        self.down = Some(image);
    }

    /// What a start says it found, beside what lay there.
    fn kept_whole(&mut self, said: &[Recovered]) {
        let Some(before) = self.down.take() else { return };
        said.iter().for_each(|said| whole_records::started(&mut self.findings, &self.model, &before, said));
    }

    /// A start that did not come to its end has taken back what a clean stop left. It may have found one that nobody was told
    /// of yet.
    pub(crate) fn disturbed(&mut self, found_clean: bool) {
        self.closed = false;
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
        self.model.lying || known.is_some_and(Partition::at_odds)
    }

    /// Topics that clients know of, with their partitions.
    pub(crate) fn topics(&self) -> Vec<(Arc<str>, u32)> {
        let count = |topic: &Topic| u32::try_from(topic.partitions.len()).unwrap_or(u32::MAX);
        self.model.topics.iter().map(|(name, topic)| (name.clone(), count(topic))).collect()
    }

    pub(crate) fn entry(&mut self, entry: &Entry) {
        self.interruption(&entry.event);
        let f = &mut self.findings;
        match &entry.event {
            Event::Call { id, client, request, .. } => {
                self.raw |= matches!(request, Request::Raw { .. });
                self.call(*id, client, request, entry.at);
            }
            Event::Answer { id, answer } => self.answer(*id, answer, entry.at),
            Event::Disk(op) => self.disk(op),
            Event::Fault { path, damages, .. } => {
                self.struck += 1;
                self.obstacles.changed();
                if let Some(path) = path.as_deref().filter(|_| *damages) {
                    self.unreadable(path);
                }
            }
            Event::Starting(starting) => self.starting(starting),
            Event::Started { clean, partitions, .. } => {
                self.obstacles.started();
                self.came_up(*clean, partitions);
                (self.closed, self.trouble, self.taken_back) = (false, self.read_only, false);
                self.model.marked = false;
                let failed = self.struck != self.struck_before_start || self.read_only;
                let readable = self.model.readable;
                for said in partitions {
                    let known = self.model.partition(&said.topic, said.partition);
                    let may_fence = failed || known.is_some_and(Partition::at_odds);
                    self.recovered(said, may_fence);
                    if let Some(known) = self.model.partition_mut(&said.topic, said.partition) {
                        known.named.extend(said.damage.iter().map(|(_, _, _, from, to)| (*from, *to)));
                    }
                }
                // A start that can read all leaves nothing of one before it that could not.
                let all = self.model.topics.values_mut().flat_map(|topic| &mut topic.partitions);
                all.for_each(|known| known.unreadable &= !readable);
            }
            Event::Crash { kind, during } => {
                let no_error_since_asked = self.errors_before_stop.take() == Some(self.errors);
                if no_error_since_asked && *kind == CrashKind::FailedStop {
                    self.liveness.not_stopped(f, &format!("while it stopped: {during}"));
                }
                self.crash(*kind, entry.at);
            }
            Event::Image { moment, image } => self.image(*moment, image),
            Event::Again { how, once, other } => {
                p08_idempotent::again(f, &self.model, *how, once, other.as_deref().map_err(|why| &**why));
            }
            Event::LookBegins => self.look = Some(Look::default()),
            Event::LookEnds { complete } => {
                if let Some(look) = self.look.take().filter(|_| *complete) {
                    self.looked(&look);
                }
            }
            Event::World(change) => {
                if *change == World::Stopping {
                    self.errors_before_stop = Some(self.errors);
                }
                if let World::Clock(clock) = change {
                    self.model.broker_clock.shows(*clock, entry.at);
                }
                if let World::Pace(pace) = change {
                    // Also where syncs get quicker: one that has begun takes as long as it did before.
                    self.model.slack_ms = self.model.slack_ms.max(pace.sync_slack());
                }
                self.model.readable |= *change == World::Readable;
                self.obstacles.world(change);
            }
            Event::Healed => {
                self.obstacles.healed();
                self.liveness.healed();
            }
            Event::Network { connections_max, connections_left } => {
                p12_bounded::connections(f, self.connections_max, *connections_max, *connections_left);
            }
            Event::NotStarted { error } => self.liveness.not_started(f, error),
            Event::NotStopped { error } => self.liveness.not_stopped(f, error),
            Event::Ended => self.liveness.ended(f, &self.model),
            Event::Unmet { .. } | Event::Inert { .. } | Event::Impossible { .. } => {} // failures of their own kind
            Event::Step { .. } | Event::Said { .. } | Event::Surgery { .. } => {}
        }
    }

    /// A start that came to its end: what it says of the stop before it, and of the files that it found.
    fn came_up(&mut self, clean: bool, said: &[Recovered]) {
        self.model.down_since = None;
        self.after_a_stop(clean, said);
        self.kept_whole(said);
    }

    /// What a start says of one partition. `may_fence`: whether something excuses it from taking writes.
    fn recovered(&mut self, said: &Recovered, may_fence: bool) {
        p09_damage::started(&mut self.findings, &self.model, said);
        let (starts, mended) = (self.model.starts, self.model.readable);
        if let Some(known) = self.model.partition_mut(&said.topic, said.partition) {
            let readable = !known.unreadable || mended;
            for file in said.rebuilt.iter().filter(|_| readable) {
                known.rebuilt(&format!("{}/{}/{file}", said.topic, said.partition), starts);
            }
            known.fenced = said.fenced.is_some();
            known.may_fence |= known.fenced && may_fence;
        }
    }

    /// What a clean stop left in order is found in order: the stop is known, and no index has to be built anew.
    fn after_a_stop(&mut self, clean: bool, said: &[Recovered]) {
        if !self.closed || self.struck > 0 || self.model.lying || self.model.index_interval.is_none() {
            return;
        }
        if !clean {
            let expected = ("the last stop is known to have been clean", "it is not");
            self.findings.broke(super::Promise::Damage, "clean stop forgotten", "the broker", expected, &[]);
        }
        for said in said {
            let in_order =
                self.model.partition(&said.topic, said.partition).is_some_and(|p| !p.hurt && !p.lied);
            if in_order && !said.rebuilt.is_empty() {
                let found = format!("built anew: {}", said.rebuilt.join(", "));
                let expected = ("the indexes are there after a clean stop", found.as_str());
                let what = name(&said.topic, said.partition);
                self.findings.broke(
                    super::Promise::Derived,
                    "rebuilt after a clean stop",
                    what,
                    expected,
                    &[],
                );
            }
        }
    }

    fn starting(&mut self, starting: &Starting) {
        self.obstacles.starting(starting);
        self.errors_before_start = self.errors;
        let model = &mut self.model;
        let same = self.connections_max == 0 || model.index_interval == Some(starting.index_interval);
        model.index_interval = same.then_some(starting.index_interval);
        model.durability = starting.durability;
        model.was_always |= starting.durability == Mode::Always;
        model.retention = starting.retention;
        model.slack_ms = starting.sync_slack_ms;
        model.lying |= starting.lying;
        model.starts += 1;
        self.connections_max = starting.connections_max;
        self.struck_before_start = self.struck;
        self.read_only = false;
        for topic in model.topics.values_mut() {
            topic.retention |= starting.retention.any();
            for known in &mut topic.partitions {
                (known.may_fence, known.failed, known.index_behind) = (false, false, false);
                (known.index_cramped, known.index_unbuilt) = (false, false);
            }
        }
        self.routing.restarted();
    }

    fn crash(&mut self, kind: CrashKind, now: Millis) {
        self.obstacles.down(now);
        self.down = None; // what a start has found that did not come to its end
        // What happens to the machine when the broker is down changes nothing in what a stop made durable.
        self.closed = match kind {
            // An index that a full disk kept from being written may be missing; a start mends it.
            CrashKind::Stop => {
                let mut all = self.model.topics.values().flat_map(|t| &t.partitions);
                !self.trouble && !all.any(|known| known.index_cramped)
            }
            CrashKind::Process | CrashKind::Power | CrashKind::FailedStop => self.closed && !self.taken_back,
        };
        self.model.marked |= kind == CrashKind::Stop;
        match kind {
            // A stop on a disk that cannot be written syncs nothing.
            CrashKind::Stop if !self.read_only => self.model.stopped(),
            CrashKind::Stop => self.model.crash(false, now),
            CrashKind::Process | CrashKind::FailedStop => self.model.crash(false, now),
            CrashKind::Power => self.model.crash(true, now),
        }
        self.routing.restarted();
    }

    fn looked(&mut self, look: &Look) {
        self.succeeded(look);
        for ((topic, number), found) in &look.partitions {
            let certain = self.model.topics.get(topic).is_some_and(|t| !t.uncertain);
            if found.unknown {
                // A topic that has taken the place of another may have fewer partitions.
                if certain && self.model.partition(topic, *number).is_none() {
                    continue;
                }
                if certain && !found.disturbed && !self.model.lying {
                    let said = ("the topic is there", "the broker does not know it");
                    self.findings.broke(super::Promise::Kept, "topic lost", topic.as_ref(), said, &[]);
                } else if !certain || self.model.lying {
                    self.model.topics.remove(topic);
                }
                continue;
            }
            // Where nobody answered, nobody knows whether it is there.
            if let Some(topic) =
                self.model.topics.get_mut(topic).filter(|_| found.answered || !found.disturbed)
            {
                topic.uncertain = false;
            }
            let f = &mut self.findings;
            p01_dense::look(f, &self.model, topic, *number, found);
            p01_dense::files(f, &self.model, topic, *number, look);
            p02_kept::look(f, &mut self.model, topic, *number, found);
            p07_time::look(f, topic, *number, found);
            p09_damage::look(f, topic, *number, found);
        }
        p04_refused_absent::look(&mut self.findings, &mut self.model);
        self.seen(look);
    }

    /// Where both a deletion and the creation after it went unanswered, an empty topic is the new one.
    fn succeeded(&mut self, look: &Look) {
        let names: Vec<Arc<str>> = self.model.topics.keys().cloned().collect();
        for name in names {
            let Some(known) = self.model.topics.get_mut(&name) else { continue };
            let Some((partitions, own)) = known.successor else { continue };
            let of_topic = look.partitions.iter().filter(|((topic, _), _)| *topic == name);
            let there: Vec<&PartitionLook> =
                of_topic.map(|(_, found)| found).filter(|p| !p.unknown).collect();
            if there.is_empty() {
                continue;
            }
            known.successor = None;
            let is_new = known.uncertain && there.iter().all(|found| found.ranged && found.end == 0);
            if is_new {
                let born = self.findings.entry;
                self.model.appears(&name, Topic::new(born, partitions, own, false), born);
                self.routing.forget(&name);
            }
        }
    }

    /// What of a request that is over was not there now will never be.
    fn seen(&mut self, look: &Look) {
        if self.model.lying || self.model.under_way > 0 {
            return;
        }
        let start = self.model.starts;
        for ((topic, number), found) in &look.partitions {
            let Some(known) = self.model.partition_mut(topic, *number) else { continue };
            // Where the disk has failed, or is full, a start may hide what it could not read or sync until the next one.
            if found.ranged && !found.disturbed && !found.hides && !known.lied && !known.may_fence {
                known.seen(start, found.end, found.unread());
            }
        }
    }
}
