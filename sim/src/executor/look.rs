//! The oracle's own questions: while nothing else is in flight, it asks every partition for its range, all its records, and
//! what comes first at or after a handful of times. It asks as any client would, over the network, so the promises are checked
//! where users stand.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::pipe::{Pipe, back_to_back};
use super::stage::Stage;
use crate::oracle::look::{HOLES_MAX, name};
use crate::scenario::request::Code;
use crate::trace::{Answer, At, Event, Moment, Request, TopicPartition};
use crate::world::host::State;

/// At most so many times are asked about in each partition.
const TIMES: usize = 8;
const MAX_BYTES: u32 = 1 << 20;

/// How far the questions about one partition have come.
#[derive(Default)]
struct Progress {
    next: u64,
    /// The end that an answer with records, or without any, has told.
    end: Option<u64>,
    /// The end that the broker tells who asks for nothing else.
    listed: Option<u64>,
    holes: u64,
    times: BTreeSet<u64>,
    failed: bool,
    /// Whether there is no such partition.
    unknown: bool,
    /// Whether there is more behind what cannot be read than is asked for.
    gave_up: bool,
    /// Whether retention has taken what was asked for: where the log begins now has to be asked again.
    overtaken: bool,
}

/// Looks at the whole broker, where it serves. Gives what it could not look at.
pub(super) async fn look(stage: &Stage) -> Vec<String> {
    if stage.host.state() != State::Up {
        return vec!["the broker".to_owned()];
    }
    let crashes = stage.crashes();
    let pipe = &mut Pipe::oracle(stage);
    stage.recorder.add(Event::LookBegins);
    let topics = stage.topics.borrow().clone();
    let places: Vec<TopicPartition> =
        topics.iter().flat_map(|(topic, count)| (0..*count).map(move |p| (topic.clone(), p))).collect();
    let mut progress: BTreeMap<TopicPartition, Progress> = BTreeMap::new();
    let earliest: Vec<Request> = places.iter().map(|place| offsets(place, At::Earliest)).collect();
    let latest = places.iter().map(|place| offsets(place, At::Latest));
    let both: Vec<Request> = earliest.iter().cloned().chain(latest).collect();
    let answers = ask(stage, pipe, &both).await;
    let (starts, ends) = answers.split_at(places.len());
    for (place, (start, end)) in places.iter().zip(starts.iter().zip(ends)) {
        progress.insert(place.clone(), Progress::new(start, end));
    }
    list_ends(stage, pipe, &mut progress).await;
    read_all(stage, pipe, &mut progress).await;
    ask_times(stage, pipe, &progress).await;
    if stage.has_retention() {
        // Once more: it may have been at work meanwhile.
        ask(stage, pipe, &earliest).await;
    }
    stage.host.record_image(Moment::Check);
    let complete = stage.crashes() == crashes && stage.host.state() == State::Up;
    let those = |which: fn(&Progress) -> bool| progress.iter().filter(move |(_, found)| which(found));
    let unseen = those(|found| found.gave_up).map(|(place, _)| place.clone()).collect();
    stage.recorder.add(Event::LookEnds { complete, unseen });
    match complete {
        true => those(Progress::is_in_the_dark).map(|((topic, p), _)| name(topic, *p)).collect(),
        false => vec!["the broker".to_owned()],
    }
}

pub(super) async fn ask(stage: &Stage, pipe: &mut Pipe, requests: &[Request]) -> Vec<Answer> {
    if requests.is_empty() {
        return Vec::new();
    }
    let answers = back_to_back(stage, pipe, requests).await;
    answers.into_iter().map(|(answer, _)| answer).collect()
}

fn offset(answer: &Answer) -> Option<u64> {
    match answer {
        Answer::Offset(Some((offset, _))) => Some(*offset),
        _ => None,
    }
}

/// Where a partition does not say what its latest offset is, since there may be more than it can show, the list says how far it can.
async fn list_ends(stage: &Stage, pipe: &mut Pipe, progress: &mut BTreeMap<TopicPartition, Progress>) {
    let untold = progress.iter().filter(|(_, found)| !found.failed && found.listed.is_none());
    let topics: BTreeSet<Arc<str>> = untold.map(|((topic, _), _)| topic.clone()).collect();
    let requests: Vec<Request> =
        topics.iter().map(|topic| Request::ListPartitions { topic: topic.clone() }).collect();
    for (topic, answer) in topics.iter().zip(ask(stage, pipe, &requests).await) {
        let Answer::Partitions(listed) = answer else { continue };
        for listed in listed {
            if let Some(found) = progress.get_mut(&(topic.clone(), listed.number)) {
                found.listed = found.listed.or(Some(listed.end));
            }
        }
    }
}

fn offsets((topic, partition): &TopicPartition, at: At) -> Request {
    Request::Offsets { topic: topic.clone(), partition: *partition, at }
}

/// Reads every partition to its end, all of them side by side; steps over what cannot be read.
async fn read_all(stage: &Stage, pipe: &mut Pipe, progress: &mut BTreeMap<TopicPartition, Progress>) {
    loop {
        let open: Vec<TopicPartition> = progress
            .iter()
            .filter(|(_, p)| !p.failed && p.end.is_none_or(|end| p.next < end))
            .map(|(place, _)| place.clone())
            .collect();
        if open.is_empty() {
            return;
        }
        let consume = |place: &TopicPartition| match progress[place].overtaken {
            true => offsets(place, At::Earliest),
            false => Request::Consume {
                topic: place.0.clone(),
                partition: place.1,
                from: progress[place].next,
                max_bytes: MAX_BYTES,
                wait_ms: 0,
            },
        };
        let requests: Vec<Request> = open.iter().map(consume).collect();
        for (place, answer) in open.iter().zip(ask(stage, pipe, &requests).await) {
            if let Some(found) = progress.get_mut(place) {
                found.read(&answer);
            }
        }
    }
}

impl Progress {
    /// What is known where nothing but where it begins and ends was asked for.
    fn new(start: &Answer, end: &Answer) -> Self {
        let (next, listed) = (offset(start), offset(end));
        let unknown = |code: &Code| matches!(code, Code::UnknownTopic | Code::UnknownPartition);
        Self {
            next: next.unwrap_or(0),
            listed,
            failed: next.is_none(),
            unknown: matches!(start, Answer::Refused { code, .. } if unknown(code)),
            ..Self::default()
        }
    }

    fn read(&mut self, answer: &Answer) {
        match answer {
            Answer::Fetched { records, end, .. } => {
                self.end = Some(*end);
                self.times.extend(records.iter().map(|r| r.timestamp));
                match records.last() {
                    Some(last) => self.next = last.offset + 1,
                    None => self.failed |= self.next < *end,
                }
            }
            Answer::Offset(Some((start, _))) if self.overtaken => {
                self.overtaken = false;
                self.failed |= *start < self.next;
                self.next = *start;
            }
            Answer::Refused { code: Code::OffsetOutOfRange, .. } if self.holes < HOLES_MAX => {
                self.holes += 1;
                self.overtaken = true;
            }
            Answer::Refused { code, .. } => self.step_over(*code, answer.next_readable()),
            _ => self.failed = true,
        }
    }

    /// Whether nothing, or not all, of what there may be was found out.
    fn is_in_the_dark(&self) -> bool {
        self.gave_up || (self.end.is_none() && !self.unknown)
    }

    /// Asks for the next offset, as long as there are few that cannot be read, and then for the one that the error names. There are
    /// none behind the end.
    fn step_over(&mut self, code: Code, named: Option<u64>) {
        if self.end.or(self.listed).is_some_and(|end| self.next >= end) {
            self.failed = true;
            return;
        }
        let behind = named.filter(|next| *next > self.next);
        self.holes += 1;
        match behind {
            _ if self.holes <= HOLES_MAX && code != Code::OffsetOutOfRange => self.next += 1,
            Some(next) => self.next = next,
            // What is said to be where the log begins, and out of range there, contradicts itself.
            None => (self.failed, self.gave_up) = (true, code != Code::OffsetOutOfRange),
        }
    }

    /// Before the first time, on some, between them, and after the last.
    fn asked_times(&self) -> BTreeSet<u64> {
        let all: Vec<u64> = self.times.iter().copied().collect();
        let (Some(first), Some(last)) = (all.first(), all.last()) else { return BTreeSet::from([0]) };
        let step = all.len().div_ceil(TIMES / 2).max(1);
        let some = all.iter().step_by(step).flat_map(|t| [*t, t.saturating_add(1)]);
        some.chain([first.saturating_sub(1), *last, last.saturating_add(1)]).collect()
    }
}

async fn ask_times(stage: &Stage, pipe: &mut Pipe, progress: &BTreeMap<TopicPartition, Progress>) {
    let requests: Vec<Request> = progress
        .iter()
        .filter(|(_, p)| !p.failed)
        .flat_map(|(place, p)| p.asked_times().into_iter().map(|t| offsets(place, At::Time(t))))
        .collect();
    ask(stage, pipe, &requests).await;
}
