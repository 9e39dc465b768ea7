//! Answers that had to be others: none at all, an error without a cause, or less than what was promised when it was asked for.
//!
//! | where nothing is in the way | promise |
//! | --- | --- |
//! | a request is answered | P11 |
//! | who waits for a record is told of it when it is there, and of nothing no sooner than asked for | P11 |
//! | who waits for a record of a topic that is deleted is told so | P11 |
//! | an error of the disk has its cause in the disk, and a stop was asked for | P11 |
//! | a request that keeps to all the rules is not said to break one | P11 |
//! | what was promised when a read was asked for is not out of range, nor missing from the answer | P2 |
//! | an end is not before what was promised when it was asked for, a start not behind it | P2 |
//! | an end is not behind all that was ever sent, a start not before what it was | P1 |
//! | a start is where a segment begins | P1 |
//! | a topic that was there all the time is known, and listed with all of its partitions, and what it was made with | P2 |
//! | a partition is listed with the bytes of its logs, and as fenced where it is | P2, P11 |
//! | a topic that was gone all the time is not listed | P4 |
//!
//! What was promised is written down when the request is made: [`Asked`].

mod listed;
mod waited;

use std::collections::BTreeSet;
use std::sync::Arc;

use broker::error::Code;

use super::disk_errors::DiskErrors;
use super::look::{name, show};
use super::model::{Model, Partition, Slot};
use super::obstacles::{Before, Obstacles};
use super::p10_routed::partition_of;
use super::retained::Logs;
use super::topic_changes::TopicChanges;
use super::{Findings, Promise, paths};
use crate::scenario::syntax::code_name;
use crate::trace::print::answered;
use crate::trace::{Answer, At, Millis, Placed, Request, Sent};

/// More than a request takes for a record, beside its bytes, and for all of them together.
const BESIDE_RECORD: u64 = 64;
const BESIDE_RECORDS: u64 = 1024;

/// So many partitions any topic can be made with.
const PARTITIONS_FEW: u32 = 1000;

/// What was true when a request was made.
#[derive(Clone, Debug, Default)]
pub(super) struct Asked {
    /// What was in the way.
    pub(super) before: Before,
    /// When.
    pub(super) at: Millis,
    /// How many disk operations had failed.
    pub(super) errors: u64,
    /// The topics that were certainly there, and are asked about.
    topics: Vec<Topic>,
    /// The topics that were certainly gone, and how often one had been asked for.
    gone: BTreeSet<Arc<str>>,
    pub(super) creations: u64,
    /// Whether there was no topic of the name that one is to be made of, and nobody else was making one.
    is_free: bool,
    /// Whether the record that is asked for was promised.
    promised: bool,
    /// How often the length of a log had changed.
    logs: u64,
    /// When its topic was deleted, where it was meanwhile.
    pub(super) gone_since: Option<Millis>,
    /// Whether the same client was waiting for something else, which is answered first.
    behind: bool,
}

/// A topic as it was when a request was made.
#[derive(Clone, Debug)]
struct Topic {
    name: Arc<str>,
    born: usize,
    /// Of each partition, the offset after the last record that was promised.
    ends: Vec<u64>,
    /// Of each partition, the first offset that the broker has told of.
    starts: Vec<u64>,
}

/// A request and what came of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Said<'a> {
    pub(super) asked: &'a Asked,
    pub(super) request: &'a Request,
    pub(super) answer: &'a Answer,
    pub(super) now: Millis,
}

/// What a promise is judged by, besides the model.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grounds<'a> {
    pub(super) model: &'a Model,
    pub(super) obstacles: &'a Obstacles,
    pub(super) disk: &'a DiskErrors,
    pub(super) topic_changes: &'a TopicChanges,
    pub(super) logs: &'a Logs,
    /// Whether a client has sent bytes of its own making: nobody knows what they have stored.
    pub(super) raw: bool,
}

/// Whether nothing explains that records are missing.
fn is_in_order(known: &Partition) -> bool {
    !(known.harm.explains_missing_records() || known.failures.left_it_fenced())
}

fn end_of(known: &Partition) -> u64 {
    let last = known.slots.iter().rev().find(|(_, slot)| slot.is_promised());
    last.filter(|_| is_in_order(known)).map_or(0, |(offset, _)| offset + 1)
}

fn topic_of(request: &Request) -> Option<&Arc<str>> {
    match request {
        Request::Produce { topic, .. }
        | Request::Consume { topic, .. }
        | Request::Offsets { topic, .. }
        | Request::ListPartitions { topic } => Some(topic),
        _ => None,
    }
}

impl Grounds<'_> {
    /// What is true now of what this request asks about.
    pub(super) fn asked(&self, client: &Arc<str>, request: &Request, now: Millis, behind: bool) -> Asked {
        let mut asked = Asked {
            before: self.obstacles.before(client, now),
            at: now,
            errors: self.disk.failed(),
            creations: self.topic_changes.creations(),
            logs: self.logs.changes(),
            behind,
            ..Asked::default()
        };
        match request {
            Request::CreateTopic { topic, .. } => {
                asked.is_free = self.is_free(topic) && !self.topic_changes.is_arriving(topic);
            }
            Request::DeleteTopic { topic } => asked.topics.extend(self.there(topic)),
            Request::ListTopics => {
                asked.topics.extend(self.model.topics.keys().filter_map(|topic| self.there(topic)));
                asked.gone = self.model.deleted.clone();
            }
            request => asked.topics.extend(topic_of(request).and_then(|topic| self.there(topic))),
        }
        if let Request::Consume { topic, partition, from, .. } = request {
            let known = self.model.partition(topic, *partition).filter(|known| is_in_order(known));
            asked.promised = known.and_then(|known| known.slots.get(from)).is_some_and(Slot::is_promised);
        }
        asked
    }

    /// Whether there is certainly no topic of this name.
    fn is_free(&self, topic: &Arc<str>) -> bool {
        !self.model.topics.contains_key(topic) && !self.topic_changes.is_leaving(topic)
    }

    /// A topic that is certainly there.
    fn there(&self, topic: &Arc<str>) -> Option<Topic> {
        let known = self.model.topics.get(topic)?;
        let certain = !known.uncertain && known.successor.is_none() && !self.topic_changes.is_leaving(topic);
        let ends = || known.partitions.iter().map(end_of).collect();
        let starts = || known.partitions.iter().map(|known| known.start).collect();
        certain.then(|| Topic { name: topic.clone(), born: known.born, ends: ends(), starts: starts() })
    }

    /// Whether it is the same topic still, and certainly there.
    fn is_still_there(&self, topic: &Topic) -> bool {
        self.there(&topic.name).is_some_and(|now| now.born == topic.born)
    }

    /// Whether it is the same topic still, and nobody deletes it but who asks now.
    fn waits_to_leave(&self, topic: &Topic) -> bool {
        let known = self.model.topics.get(&topic.name).filter(|known| known.born == topic.born);
        let is_certain = known.is_some_and(|known| !known.uncertain && known.successor.is_none());
        is_certain && self.topic_changes.leaving(&topic.name) == 1
    }

    /// Whether no answer has come.
    pub(super) fn unanswered(&self, f: &mut Findings, said: Said<'_>) -> bool {
        let unanswered = matches!(
            said.answer,
            Answer::Lost { told: false, .. } | Answer::Refused { code: Code::Unavailable, .. }
        );
        if unanswered && self.obstacles.is_quiet(said.asked.before) {
            let expected = ("an answer: the broker serves, and nothing is in the way", in_words(said.answer));
            f.broke(Promise::Live, "no answer", subject(said.request), expected, &[]);
        }
        unanswered
    }

    /// An answer has come.
    pub(super) fn answered(&self, f: &mut Findings, said: Said<'_>) {
        let Said { asked, request, answer, .. } = said;
        if !self.obstacles.is_unchanged(asked.before) || self.model.lying || self.disk.has_lied_above() {
            return;
        }
        self.refused(f, request, answer);
        self.refused_by_a_rule(f, said);
        if self.disk.failed() != asked.errors {
            return;
        }
        match asked.topics.first().filter(|topic| self.is_still_there(topic)) {
            _ if *request == Request::ListTopics => self.topics(f, asked, answer),
            Some(topic) => self.kept(f, topic, said),
            None => self.left_waiting(f, said),
        }
    }

    /// An error of the disk needs a disk that has failed.
    fn refused(&self, f: &mut Findings, request: &Request, answer: &Answer) {
        let codes = refusals(answer);
        let of_disk = |code: &&Code| {
            matches!(
                code,
                Code::StorageFailed | Code::StorageFull | Code::Fenced | Code::Corrupt | Code::OutcomeUnknown
            )
        };
        if codes.contains(&Code::ShuttingDown) {
            let said = ("no word of a stop: nobody has asked for one", in_words(answer));
            return f.broke(Promise::Live, "refused for nothing", subject(request), said, &[]);
        }
        let Some(code) = codes.iter().find(of_disk) else { return };
        let partitions = match topic_of(request) {
            // To make and to delete topics, nothing is needed but a disk that works.
            None if self.disk.failed_since_start() => return,
            None => Vec::new(),
            Some(topic) => match self.there(topic) {
                Some(there) => self.asked_of(request, &there),
                None => return,
            },
        };
        let fenced = || self.model.all().any(|known| known.failures.left_it_fenced());
        if partitions.iter().any(|known| has_cause(known, *code)) || (partitions.is_empty() && fenced()) {
            return;
        }
        let expected = "no error of the disk: nothing has failed there since the broker started";
        f.broke(Promise::Live, "refused for nothing", subject(request), (expected, in_words(answer)), &[]);
    }

    /// An error that says what is wrong with a request needs a request with which something is wrong.
    fn refused_by_a_rule(&self, f: &mut Findings, said: Said<'_>) {
        let Said { asked, request, answer, .. } = said;
        let topic = asked.topics.first().filter(|topic| self.is_still_there(topic));
        let is_valid = match request {
            Request::ListTopics => true,
            Request::CreateTopic { topic, partitions, retention_ms, .. } => {
                let nobody_else = asked.creations == self.topic_changes.creations();
                let can_be = paths::can_be_topic(topic) && (1..=PARTITIONS_FEW).contains(partitions);
                let can_be = can_be && *retention_ms != Some(0);
                asked.is_free && nobody_else && self.is_free(topic) && can_be
            }
            Request::DeleteTopic { .. } => {
                asked.topics.first().is_some_and(|topic| self.waits_to_leave(topic))
            }
            request => topic.is_some_and(|topic| self.is_valid(request, topic)),
        };
        let fits = BESIDE_RECORDS <= self.model.frame_bytes_max;
        if !(is_valid && fits && self.obstacles.is_quiet(asked.before)) {
            return;
        }
        let deletes = matches!(request, Request::DeleteTopic { .. });
        let is_wrong = |code| says_what_is_wrong(code) || (deletes && code == Code::UnknownTopic);
        if refusals(answer).into_iter().any(is_wrong) {
            let said = ("no error: the request keeps to all the rules", in_words(answer));
            f.broke(Promise::Live, "refused for nothing", subject(request), said, &[]);
        }
    }

    /// Whether a request about this topic keeps to all the rules, but for the offset that it asks for.
    fn is_valid(&self, request: &Request, topic: &Topic) -> bool {
        let is_there = chosen(request).is_none_or(|partition| (partition as usize) < topic.ends.len());
        match request {
            Request::Produce { records, .. } => is_there && self.can_be_taken(records),
            Request::Consume { max_bytes, .. } => is_there && *max_bytes > 0,
            Request::Offsets { .. } | Request::ListPartitions { .. } => is_there,
            _ => false,
        }
    }

    /// Whether these records are within the limits, beside what else a request holds.
    fn can_be_taken(&self, records: &[Sent]) -> bool {
        let bytes =
            |record: &Sent| (record.key.as_ref().map_or(0, |key| key.len()) + record.value.len()) as u64;
        let all: u64 = records.iter().map(|record| bytes(record) + BESIDE_RECORD).sum();
        let few = (1..=self.model.records_max).contains(&(records.len() as u64));
        few && records.iter().all(|record| bytes(record) <= self.model.record_bytes_max)
            && all + BESIDE_RECORDS <= self.model.frame_bytes_max
    }

    /// The partitions that a request may have to do with.
    fn asked_of(&self, request: &Request, topic: &Topic) -> Vec<&Partition> {
        let count = u32::try_from(topic.ends.len()).unwrap_or(u32::MAX);
        let of = |partition: u32| self.model.partition(&topic.name, partition).into_iter().collect();
        let all = || (0..count).filter_map(|p| self.model.partition(&topic.name, p)).collect();
        match request {
            Request::Consume { partition, .. }
            | Request::Offsets { partition, .. }
            | Request::Produce { partition: Some(partition), .. } => of(*partition),
            Request::Produce { records, .. } => match &records[..] {
                [one] => one.key.as_ref().map_or_else(all, |key| of(partition_of(key, count))),
                _ => all(),
            },
            _ => all(),
        }
    }

    /// What was promised when the request was made.
    fn kept(&self, f: &mut Findings, topic: &Topic, said: Said<'_>) {
        for (partition, start, end) in ranges(said.request, said.answer) {
            self.range(f, topic, partition, (start, end));
        }
        match (said.request, said.answer) {
            (request, Answer::Refused { code: Code::UnknownTopic | Code::UnknownPartition, .. })
                if chosen(request).is_none_or(|partition| (partition as usize) < topic.ends.len()) =>
            {
                let said = ("the topic is there, with its partitions", "the broker does not know it");
                f.broke(Promise::Kept, "topic not known", topic.name.as_ref(), said, &[]);
            }
            (Request::Consume { partition, from, .. }, answer) => {
                self.read(f, topic, (*partition, *from), said.asked, answer);
                self.waited(f, topic, said);
            }
            (Request::ListPartitions { .. }, Answer::Partitions(listed)) => {
                self.partitions(f, topic, said.asked, listed);
            }
            _ => {}
        }
    }

    fn is_in_order(&self, topic: &Topic, partition: u32) -> bool {
        self.model.partition(&topic.name, partition).is_some_and(is_in_order)
    }

    fn keeps_all(&self, topic: &Topic) -> bool {
        self.model.topics.get(&topic.name).is_some_and(|known| !known.retention)
    }

    /// Where a partition is said to begin and to end.
    fn range(
        &self,
        f: &mut Findings,
        topic: &Topic,
        partition: u32,
        (start, end): (Option<u64>, Option<u64>),
    ) {
        if !self.is_in_order(topic, partition) {
            return;
        }
        let promised = topic.ends.get(partition as usize).copied().unwrap_or(0);
        if let Some(end) = end.filter(|end| *end < promised) {
            let said =
                (format!("an end not before {promised}: all below was promised"), format!("end {end}"));
            f.broke(Promise::Kept, "end behind", name(&topic.name, partition), said, &[]);
        }
        let sent = self.model.sent_to(&topic.name, partition);
        if let Some(end) = end.filter(|end| *end > sent && !self.raw) {
            let said =
                (format!("an end not behind {sent}: no more records were ever sent"), format!("end {end}"));
            f.broke(Promise::Dense, "end ahead", name(&topic.name, partition), said, &[]);
        }
        let told = topic.starts.get(partition as usize).copied().unwrap_or(0);
        if let Some(start) = start.filter(|start| *start < told) {
            let said = (format!("a start not before {told}, which it was before"), format!("start {start}"));
            f.broke(Promise::Dense, "start went back", name(&topic.name, partition), said, &[]);
        }
        if let Some(start) = start.filter(|start| *start > 0 && self.keeps_all(topic)) {
            let said = ("the log starts at 0", format!("it starts at {start}"));
            f.broke(Promise::Kept, "start behind", name(&topic.name, partition), said, &[]);
        }
    }

    /// A read of a record that was promised before.
    fn read(&self, f: &mut Findings, topic: &Topic, (p, from): (u32, u64), asked: &Asked, answer: &Answer) {
        let (kind, found) = match answer {
            Answer::Refused { code: Code::OffsetOutOfRange, .. } if self.keeps_all(topic) => {
                ("out of range", "it is said to be out of range")
            }
            Answer::Fetched { records, start, .. } if records.is_empty() && from >= *start => {
                ("empty", "an answer without records")
            }
            _ => return,
        };
        if !self.is_in_order(topic, p) {
            return;
        }
        let slot = self.model.partition(&topic.name, p).and_then(|known| known.slots.get(&from));
        let Some(slot) = slot.filter(|_| asked.promised) else {
            let end = topic.ends.get(p as usize).copied().unwrap_or(0);
            if kind == "out of range" && from <= end {
                let expected = format!("an answer: nothing was taken away, and all up to {end} was promised");
                f.broke(Promise::Kept, kind, name(&topic.name, p), (expected, found), &[]);
            }
            return;
        };
        let (key, value) = self.model.content(slot.id);
        let expected = format!("{}, which was promised before", show(key.as_deref(), &value));
        let what = format!("{} offset {from}", name(&topic.name, p));
        f.broke(Promise::Kept, kind, what, (expected, found), &self.model.entries_of(slot.id));
    }
}

/// The partition that a request names.
fn chosen(request: &Request) -> Option<u32> {
    match request {
        Request::Produce { partition, .. } => *partition,
        Request::Consume { partition, .. } | Request::Offsets { partition, .. } => Some(*partition),
        _ => None,
    }
}

/// Where partitions are said to begin, and to end.
pub(super) fn ranges(request: &Request, answer: &Answer) -> Vec<(u32, Option<u64>, Option<u64>)> {
    match (request, answer) {
        (Request::Consume { partition, .. }, Answer::Fetched { start, end, .. }) => {
            vec![(*partition, Some(*start), Some(*end))]
        }
        (Request::Offsets { partition, at: At::Latest, .. }, Answer::Offset(Some((end, _)))) => {
            vec![(*partition, None, Some(*end))]
        }
        (Request::Offsets { partition, at: At::Earliest, .. }, Answer::Offset(Some((start, _)))) => {
            vec![(*partition, Some(*start), None)]
        }
        (Request::ListPartitions { .. }, Answer::Partitions(listed)) => {
            listed.iter().map(|listed| (listed.number, Some(listed.start), Some(listed.end))).collect()
        }
        _ => Vec::new(),
    }
}

/// Whether something explains that the disk's failure is blamed.
fn has_cause(known: &Partition, code: Code) -> bool {
    let hole = code == Code::Corrupt && (known.harm.is_shaken() || known.last_seen.has_named_damage());
    let causes = known.failures.causes();
    let failed = match code {
        Code::StorageFull => causes.no_room,
        Code::Corrupt => causes.read,
        Code::Fenced => causes.write || causes.sync,
        Code::StorageFailed => causes.read || causes.write || causes.sync,
        _ => causes.any(),
    };
    failed || known.failures.left_it_fenced() || known.harm.explains_missing_records() || hole
}

/// Whether an error says what is wrong with a request, or with who makes it.
fn says_what_is_wrong(code: Code) -> bool {
    matches!(
        code,
        Code::InvalidRequest
            | Code::InvalidTopic
            | Code::RecordTooLarge
            | Code::FrameTooLarge
            | Code::Timeout
            | Code::TooManyConnections
            | Code::TopicExists
    )
}

/// The errors in an answer.
fn refusals(answer: &Answer) -> Vec<Code> {
    match answer {
        Answer::Refused { code, .. } => vec![*code],
        Answer::Lost { told: true, .. } => vec![Code::OutcomeUnknown],
        Answer::Produced(placed) => placed.iter().filter_map(refusal).collect(),
        _ => Vec::new(),
    }
}

fn refusal(placed: &Placed) -> Option<Code> {
    match placed {
        Placed::Refused(code) => Some(*code),
        Placed::Unknown => Some(Code::OutcomeUnknown),
        Placed::At(..) => None,
    }
}

/// What a request is about.
fn subject(request: &Request) -> String {
    match request {
        Request::Produce { topic, partition: Some(partition), .. }
        | Request::Consume { topic, partition, .. }
        | Request::Offsets { topic, partition, .. } => name(topic, *partition),
        Request::Produce { topic, .. }
        | Request::ListPartitions { topic }
        | Request::CreateTopic { topic, .. }
        | Request::DeleteTopic { topic } => topic.to_string(),
        Request::ListTopics | Request::Raw { .. } => "the broker".to_owned(),
    }
}

fn in_words(answer: &Answer) -> String {
    match answer {
        Answer::Refused { code, message, .. } => {
            format!("{}: {message}", code_name(*code))
        }
        Answer::Lost { why, .. } => why.clone(),
        answer => answered(answer),
    }
}
