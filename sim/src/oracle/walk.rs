//! Goes through a trace once, keeps the model, and asks each promise where it can be broken.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use broker::error::Code;
use bytes::Bytes;

use super::decode::{self, Piece};
use super::look::{Look, name};
use super::model::{Content, Fate, Model, Partition, Produced, RecordId, Topic};
use super::p06_derived::Complete;
use super::p10_routed::Routing;
use super::p11_live::Liveness;
use super::{
    Findings, Verdict, p01_dense, p02_kept, p03_never_wrong, p04_refused_absent, p05_no_reuse, p06_derived,
    p07_time, p08_idempotent, p09_damage, p12_bounded,
};
use crate::trace::{
    Again, Answer, CallId, CrashKind, DiskOp, Entry, Event, Image, Millis, Mode, Moment, Placed, Recovered,
    Request, Sent, Starting, Trace,
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
}

/// A call without its answer.
#[derive(Clone)]
struct Open {
    client: Arc<str>,
    request: Request,
    at: Millis,
    struck: u64,
}

impl Walk {
    /// The lights go out: whoever waits for an answer gets none.
    pub(crate) fn lights_out(&mut self, at: Millis) {
        for id in self.calls.keys().copied().collect::<Vec<_>>() {
            let answer = Answer::Lost { why: "power loss".into(), sent: true };
            self.answer(id, &answer, at);
        }
        self.look = None;
        self.crash(CrashKind::Power, at);
    }

    /// A broker that was started on what is left, and what was found in it.
    pub(crate) fn found(&mut self, clean: bool, said: &[Recovered], look: &Look, at: Millis) {
        self.model.down_since = None;
        self.after_a_stop(clean, said);
        for said in said {
            p09_damage::started(&mut self.findings, &self.model, said);
            let what = name(&said.topic, said.partition);
            if let Some(why) = said.fenced.as_ref().filter(|_| self.struck == 0) {
                let expected = ("the partition takes writes after a restart", why.as_str());
                self.findings.broke(super::Promise::Live, "fenced", what, expected, &[]);
            }
        }
        for ((topic, partition), found) in &look.partitions {
            if !self.model.topics.contains_key(topic) && !self.model.lying && self.struck == 0 {
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

    /// The process is gone, and the machine runs on.
    pub(crate) fn killed(&mut self, at: Millis) {
        for id in self.calls.keys().copied().collect::<Vec<_>>() {
            let answer = Answer::Lost { why: "crash".into(), sent: true };
            self.answer(id, &answer, at);
        }
        self.look = None;
        self.crash(CrashKind::Process, at);
    }

    /// A start that did not come to its end has taken back what a clean stop left.
    pub(crate) fn disturbed(&mut self) {
        self.closed = false;
    }

    /// Another way to recover the same files must come to the same.
    pub(crate) fn again(&mut self, how: Again, once: &Image, other: &Image) {
        p08_idempotent::again(&mut self.findings, &self.model, how, once, other);
    }

    /// Topics that clients know of, with their partitions.
    pub(crate) fn topics(&self) -> Vec<(Arc<str>, u32)> {
        let count = |topic: &Topic| u32::try_from(topic.partitions.len()).unwrap_or(u32::MAX);
        self.model.topics.iter().map(|(name, topic)| (name.clone(), count(topic))).collect()
    }

    pub(crate) fn entry(&mut self, entry: &Entry) {
        let f = &mut self.findings;
        match &entry.event {
            Event::Call { id, client, request, .. } => self.call(*id, client, request, entry.at),
            Event::Answer { id, answer } => self.answer(*id, answer, entry.at),
            Event::Disk(op) => self.disk(op),
            Event::Fault { path, damages, .. } => {
                self.struck += 1;
                if *damages {
                    self.lied(path.as_deref());
                }
            }
            Event::Starting(starting) => self.starting(starting),
            Event::Started { clean, partitions, .. } => {
                self.model.down_since = None;
                self.after_a_stop(*clean, partitions);
                (self.closed, self.trouble, self.taken_back) = (false, self.read_only, false);
                let f = &mut self.findings;
                for said in partitions {
                    p09_damage::started(f, &self.model, said);
                    if let Some(known) = self.model.partition_mut(&said.topic, said.partition) {
                        known.fenced = said.fenced.is_some();
                        let at_odds = known.lied || !known.planted.is_empty();
                        let reason = self.struck != self.struck_before_start || at_odds;
                        known.may_fence |= known.fenced && reason;
                    }
                }
            }
            Event::Crash { kind, .. } => self.crash(*kind, entry.at),
            Event::Image { moment, image } => self.image(*moment, image),
            Event::Again { how, once, other } => p08_idempotent::again(f, &self.model, *how, once, other),
            Event::LookBegins => self.look = Some(Look::default()),
            Event::LookEnds { complete } => {
                if let Some(look) = self.look.take().filter(|_| *complete) {
                    self.looked(&look);
                }
            }
            Event::Healed => self.liveness.healed(),
            Event::Network { connections_max, connections_left } => {
                p12_bounded::connections(f, self.connections_max, *connections_max, *connections_left);
            }
            Event::NotStarted { error } => self.liveness.not_started(f, error),
            Event::Ended => self.liveness.ended(f, &self.model),
            Event::Unmet { .. } | Event::Inert { .. } | Event::Impossible { .. } => {} // failures of their own kind
            Event::Step { .. } | Event::Said { .. } | Event::Surgery { .. } | Event::World { .. } => {}
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
        let model = &mut self.model;
        let same = self.connections_max == 0 || model.index_interval == Some(starting.index_interval);
        model.index_interval = same.then_some(starting.index_interval);
        model.durability = starting.durability;
        model.was_always |= starting.durability == Mode::Always;
        model.retention = starting.retention;
        model.slack_ms = starting.sync_slack_ms;
        model.lying |= starting.lying;
        self.connections_max = starting.connections_max;
        self.struck_before_start = self.struck;
        self.read_only = false;
        for topic in model.topics.values_mut() {
            topic.retention |= starting.retention;
            for known in &mut topic.partitions {
                (known.may_fence, known.index_behind) = (false, false);
                (known.index_cramped, known.index_unbuilt) = (false, false);
            }
        }
        self.routing.restarted();
    }

    fn call(&mut self, id: CallId, client: &Arc<str>, request: &Request, at: Millis) {
        if let Request::Produce { topic, partition, records } = request {
            let (entry, epoch) = (self.findings.entry, self.model.epoch);
            self.model.under_way += records.len() as u64;
            let produced = Produced {
                topic: topic.clone(),
                client: client.clone(),
                partition: *partition,
                records: records.clone(),
                fates: vec![Fate::Open; records.len()],
                entry,
                answer: entry,
                answered: false,
                epoch,
            };
            if let Some(topic) = self.model.topics.get_mut(topic) {
                for (index, sent) in records.iter().enumerate() {
                    let content = (sent.key.clone(), sent.value.clone());
                    topic.by_content.entry(content).or_default().push(RecordId { call: id, index });
                }
            }
            self.model.produced.insert(id, produced);
        }
        let open = Open { client: client.clone(), request: request.clone(), at, struck: self.struck };
        self.calls.insert(id, open);
    }

    fn answer(&mut self, id: CallId, answer: &Answer, now: Millis) {
        let Some(open) = self.calls.remove(&id) else { return };
        let disturbed = open.struck != self.struck;
        match &open.request {
            Request::CreateTopic { topic, partitions, retention_bytes, retention_ms } => {
                let retention = retention_bytes.is_some() || retention_ms.is_some() || self.model.retention;
                self.created(topic, *partitions, retention, answer);
            }
            Request::DeleteTopic { topic } => self.deleted(topic, answer),
            Request::Produce { topic, records, .. } => self.produced(id, topic, records, answer, now),
            Request::Consume { topic, partition, from, max_bytes, .. } => {
                if let Answer::Fetched { records, .. } = answer {
                    let what = format!("{}, asked by {}", name(topic, *partition), open.client);
                    p01_dense::answer(&mut self.findings, &what, *from, records);
                    p12_bounded::answer(&mut self.findings, &what, *max_bytes, records);
                    for seen in records {
                        p03_never_wrong::read(
                            &mut self.findings,
                            &mut self.model,
                            topic,
                            *partition,
                            seen,
                            now,
                        );
                    }
                }
            }
            _ => {}
        }
        if let Some(look) = &mut self.look {
            look.answer(&open.request, answer, disturbed);
        }
        let took = now - open.at;
        self.liveness.answer(&mut self.findings, &self.model, &open.request, answer, took);
    }

    fn created(&mut self, topic: &Arc<str>, partitions: u32, retention: bool, answer: &Answer) {
        let uncertain = match answer {
            Answer::Done => false,
            Answer::Lost { sent: true, .. } | Answer::Refused { code: Code::OutcomeUnknown, .. } => true,
            _ => return,
        };
        // What was made now is new: one of its name whose deletion nobody answered is gone.
        if !uncertain && self.model.topics.get(topic).is_none_or(|known| known.uncertain) {
            self.model.topics.remove(topic);
            self.routing.forget(topic);
        }
        let known = self.model.topics.entry(topic.clone());
        known.or_insert_with(|| Topic::new(partitions, retention, uncertain));
        if !uncertain && let Some(topic) = self.model.topics.get_mut(topic) {
            topic.uncertain = false;
        }
    }

    fn deleted(&mut self, topic: &Arc<str>, answer: &Answer) {
        match answer {
            Answer::Done => {
                self.model.topics.remove(topic);
            }
            Answer::Lost { sent: true, .. } | Answer::Refused { code: Code::OutcomeUnknown, .. } => {
                if let Some(topic) = self.model.topics.get_mut(topic) {
                    topic.uncertain = true;
                }
            }
            _ => {}
        }
    }

    fn produced(&mut self, id: CallId, topic: &Arc<str>, records: &[Sent], answer: &Answer, now: Millis) {
        let entry = self.findings.entry;
        let Some(produced) = self.model.produced.get_mut(&id) else { return };
        produced.answer = entry;
        produced.answered = true;
        let chosen = produced.partition;
        match answer {
            Answer::Produced(placed) => {
                for (index, placed) in placed.iter().enumerate() {
                    self.placed(RecordId { call: id, index }, topic, *placed, now);
                }
            }
            Answer::Refused { code, .. } if !code.leaves_outcome_unknown() => {
                (0..records.len()).for_each(|index| self.refused(RecordId { call: id, index }));
            }
            Answer::Lost { sent: false, .. } => {
                (0..records.len()).for_each(|index| self.refused(RecordId { call: id, index }));
            }
            _ => {}
        }
        if !matches!(answer, Answer::Produced(_)) && chosen.is_none() {
            let keyless = records.iter().filter(|r| r.key.is_none()).count();
            (0..keyless).for_each(|_| self.routing.unclear(topic));
        }
        self.model.under_way -= records.len() as u64;
    }

    /// What became of one record.
    fn placed(&mut self, id: RecordId, topic: &Arc<str>, placed: Placed, now: Millis) {
        match placed {
            Placed::At(partition, offset) => {
                let at = (partition, offset);
                p05_no_reuse::acknowledged(&mut self.findings, &mut self.model, topic, at, id, now);
                self.routing.acknowledged(&mut self.findings, &self.model, topic, at, id);
            }
            Placed::Refused(code) => {
                if !code.leaves_outcome_unknown() {
                    self.refused(id);
                }
                self.routing.unclear(topic);
            }
            Placed::Unknown => self.routing.unclear(topic),
        }
    }

    fn refused(&mut self, id: RecordId) {
        let fate = self.model.produced.get(&id.call).map(|produced| produced.fates[id.index]);
        // What was read may have been another record with the same content.
        if let Some(Fate::Found(partition, _)) = fate
            && let Some(other) = self.model.double(id, partition)
        {
            self.model.exchange(id, other);
        }
        let Some(produced) = self.model.produced.get(&id.call) else { return };
        if let Fate::Found(partition, offset) = produced.fates[id.index] {
            let what = format!("{} offset {offset}", name(&produced.topic, partition));
            let because = self.model.entries_of(id);
            let said = ("a refused record was never there", "it had been read");
            self.findings.broke(super::Promise::RefusedAbsent, "read, then refused", what, said, &because);
        }
        self.model.set_fate(id, Fate::Refused);
    }

    fn disk(&mut self, op: &DiskOp) {
        self.struck += u64::from(op.fault.is_some());
        self.trouble |= op.result.as_ref().is_err_and(|e| e != "ENOENT");
        self.read_only |= op.result.as_ref().is_err_and(|e| e == "EROFS");
        self.taken_back |= op.op == "rename" && &*op.path == "clean";
        // A sync that is interrupted again and again has failed in the end.
        let passing = |e: &str| is_passing(e) && !op.op.starts_with("sync");
        let failing = op.fault.is_some() && op.result.as_ref().is_err_and(|e| !passing(e));
        let Some((topic, partition, file)) = place(&op.path) else {
            // A failing directory above them concerns all.
            let all = self.model.topics.values_mut().flat_map(|t| &mut t.partitions);
            all.for_each(|known| known.may_fence |= failing);
            return;
        };
        let failed = op.result.is_err() && op.fault.is_some();
        let is_log = file.ends_with(".log");
        if op.op == "open" && is_log && op.result.is_ok() {
            let base = decode::base_offset(file.trim_end_matches(".log"));
            if let (Some(known), Some(base)) = (self.model.partition_mut(topic, partition), base) {
                known.newest_base = known.newest_base.max(base);
            }
        }
        if failed && op.op == "sync" && is_log {
            self.model.sync_failed(topic, partition);
        }
        if op.result.is_err()
            && file.contains("index")
            && let Some(known) = self.model.partition_mut(topic, partition)
        {
            known.index_behind = true;
            known.index_cramped |=
                op.result.as_ref().is_err_and(|e| matches!(e.as_str(), "ENOSPC" | "EDQUOT"));
            known.index_unbuilt |= file.ends_with(".tmp") && op.result.as_ref().is_err_and(|e| e == "ENOSPC");
        }
        if failed
            && op.op == "set-len"
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
            known.hurt |= op.result.as_ref().is_err_and(|e| e != "ENOENT");
        }
        if op.lies {
            self.lied(Some(&op.path));
        }
        if failing && let Some(known) = self.model.partition_mut(topic, partition) {
            known.may_fence = true;
        }
    }

    /// The disk did not do what it said it did.
    fn lied(&mut self, path: Option<&str>) {
        match path.and_then(place) {
            Some((topic, partition, file)) => {
                if let Some(known) = self.model.partition_mut(topic, partition) {
                    known.lied = true;
                    let stem = file.rsplit_once('.').map_or(file, |(stem, _)| stem);
                    known.tampered.insert(format!("{topic}/{partition}/{stem}"));
                }
            }
            None => {
                self.model.topics.values_mut().flat_map(|t| &mut t.partitions).for_each(|p| p.lied = true)
            }
        }
    }

    fn crash(&mut self, kind: CrashKind, now: Millis) {
        // What happens to the machine when the broker is down changes nothing in what a stop made durable.
        self.closed = match kind {
            // An index that a full disk kept from being written may be missing; a start mends it.
            CrashKind::Stop => {
                let mut all = self.model.topics.values().flat_map(|t| &t.partitions);
                !self.trouble && !all.any(|known| known.index_cramped)
            }
            CrashKind::Process | CrashKind::Power => self.closed && !self.taken_back,
        };
        match kind {
            // A stop on a disk that cannot be written syncs nothing.
            CrashKind::Stop if !self.read_only => self.model.stopped(),
            CrashKind::Stop => self.model.crash(false, now),
            CrashKind::Process => self.model.crash(false, now),
            CrashKind::Power => self.model.crash(true, now),
        }
        self.routing.restarted();
    }

    fn image(&mut self, moment: Moment, image: &Arc<Image>) {
        match moment {
            Moment::Untouched => self.untouched = Some(image.clone()),
            Moment::Touched => {
                (self.closed, self.trouble) = (false, true);
                if let Some(before) = self.untouched.take() {
                    self.touched(&before, image);
                }
            }
            Moment::Recovered => self.indexes(image, Complete::Exactly),
            Moment::Check => {
                if let Some(look) = &mut self.look {
                    look.image = Some(image.clone());
                }
                self.indexes(image, Complete::MayLag);
            }
            Moment::Down => {}
        }
    }

    fn indexes(&mut self, image: &Image, complete: Complete) {
        for (topic, known) in &self.model.topics {
            for partition in 0..u32::try_from(known.partitions.len()).unwrap_or(u32::MAX) {
                p06_derived::files(&mut self.findings, &self.model, topic, partition, image, complete);
            }
        }
    }

    /// The scenario has changed files: what it destroyed may be gone, and what it wrote may be read.
    fn touched(&mut self, before: &Image, after: &Image) {
        for (topic, known) in &mut self.model.topics {
            for (number, partition) in (0..).zip(&mut known.partitions) {
                touched(topic, number, partition, before, after);
            }
        }
    }

    fn looked(&mut self, look: &Look) {
        for ((topic, number), found) in &look.partitions {
            let certain = self.model.topics.get(topic).is_some_and(|t| !t.uncertain);
            if found.unknown {
                if certain && !found.disturbed && !self.model.lying {
                    let said = ("the topic is there", "the broker does not know it");
                    self.findings.broke(super::Promise::Kept, "topic lost", topic.as_ref(), said, &[]);
                } else if !certain || self.model.lying {
                    self.model.topics.remove(topic);
                }
                continue;
            }
            if let Some(topic) = self.model.topics.get_mut(topic) {
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
    }
}

/// An error that leaves nothing broken behind.
fn is_passing(error: &str) -> bool {
    matches!(error, "ENOSPC" | "EDQUOT" | "EINTR")
}

/// A path in a partition: topic, partition, file name (empty for the directory itself).
pub(super) fn place(path: &str) -> Option<(&str, u32, &str)> {
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

fn touched(topic: &str, number: u32, partition: &mut Partition, before: &Image, after: &Image) {
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
            partition.tampered.insert(stem.to_owned());
        }
    }
    if !changed.iter().any(|path| path.ends_with(".log")) {
        return;
    }
    partition.hurt = true;
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
