//! Steps that are requests: what they ask, and what has to come.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use broker::client::{Connection, Options};
use broker::net::Connector;
use tokio::time::timeout;

use super::actor::{Actor, fits};
use super::plan::Node;
use super::stage::Stage;
use super::{ask, say};
use crate::scenario::request::Code;
use crate::scenario::{Consume, Content, Expect, LookUp, LookUpExpect, OffsetAt, Produce, Step};
use crate::trace::{Answer, At, Event, Placed, Request, Seen, Sent};
use crate::world::net::{WorldConnector, WorldStream};

/// An answer, and the crash that took it, if one did.
type Answered = (Answer, Option<String>);

/// What a consume asks for at once, where the scenario does not say.
const MAX_BYTES: u32 = 1 << 20;

/// Keeps what the oracle has to ask about later.
pub(super) fn remember(stage: &Stage, request: &Request, answer: &Answer) {
    let lost = matches!(answer, Answer::Lost { .. });
    match request {
        Request::CreateTopic { topic, partitions, retention_bytes, retention_ms }
            if lost || *answer == Answer::Done =>
        {
            let own = retention_bytes.is_some() || retention_ms.is_some();
            stage.retention.set(stage.retention.get() || own);
            let mut topics = stage.topics.borrow_mut();
            if lost {
                topics.entry(topic.clone()).or_insert(*partitions);
            } else {
                topics.insert(topic.clone(), *partitions);
            }
        }
        Request::DeleteTopic { topic } if *answer == Answer::Done => {
            stage.topics.borrow_mut().remove(topic);
        }
        _ => {}
    }
}

/// A step that is a request of its own.
pub(super) async fn one(actor: &mut Actor, node: &Node) {
    match &node.step {
        Step::Consume(consume) => read_all(actor, node.id, consume).await,
        Step::Fetch(consume) => {
            let from = consume.from.unwrap_or(0);
            let request = fetch(consume, consume.partition.unwrap_or(0), from);
            let answered = actor.ask(request).await;
            fetched(actor, node.id, consume, answered);
        }
        step => {
            let mut answers = Vec::new();
            for request in requests(step, actor.round) {
                answers.push(actor.ask(request).await);
            }
            came(actor, node.id, step, &answers);
        }
    }
}

/// Requests sent back to back on one connection; then the answers, in order.
pub(super) async fn pipeline(actor: &mut Actor, node: &Node) {
    let mut asked = Vec::new();
    for (at, inner) in node.inside.iter().enumerate() {
        actor.stage.recorder.add(Event::Step { step: inner.id, text: inner.text.clone() });
        let requests = match &inner.step {
            Step::Fetch(consume) => {
                vec![fetch(consume, consume.partition.unwrap_or(0), consume.from.unwrap_or(0))]
            }
            step => requests(step, actor.round),
        };
        asked.extend(requests.into_iter().map(|request| (at, request)));
    }
    let requests: Vec<Request> = asked.iter().map(|(_, request)| request.clone()).collect();
    let mut pipe = Pipe::new(actor.connector.clone(), actor.name.clone());
    let answers = back_to_back(&actor.stage, &mut pipe, &requests).await;
    for (at, inner) in node.inside.iter().enumerate() {
        let mine = asked.iter().zip(&answers).filter(|((of, _), _)| *of == at);
        let mine: Vec<Answered> = mine.map(|(_, answer)| answer.clone()).collect();
        match &inner.step {
            Step::Fetch(consume) => mine.into_iter().for_each(|a| fetched(actor, inner.id, consume, a)),
            step => came(actor, inner.id, step, &mine),
        }
    }
}

/// A connection for pipelines.
pub(super) struct Pipe {
    connector: WorldConnector,
    name: Arc<str>,
    /// Whether it asks the oracle's questions.
    probe: bool,
    connection: Option<Connection<WorldStream>>,
}

impl Pipe {
    /// For this client; connects when it needs to.
    pub(super) fn new(connector: WorldConnector, name: Arc<str>) -> Self {
        Self { connector, name, probe: false, connection: None }
    }

    /// For the oracle.
    pub(super) fn oracle(stage: &Stage) -> Self {
        let connector = WorldConnector::new(stage.host.shape.plain());
        Self { connector, name: "oracle".into(), probe: true, connection: None }
    }

    async fn connect(&mut self, options: &Options) -> Result<Connection<WorldStream>, String> {
        if let Some(connection) = self.connection.take() {
            return Ok(connection);
        }
        match timeout(options.connect_timeout, self.connector.connect(&ask::address())).await {
            Ok(Ok(stream)) => Ok(Connection::new(stream, options.frame_bytes)),
            Ok(Err(e)) => Err(e.to_string()),
            Err(_) => Err("no connection".to_owned()),
        }
    }
}

/// Sends all requests at once, and reads the answers.
pub(super) async fn back_to_back(stage: &Stage, pipe: &mut Pipe, requests: &[Request]) -> Vec<Answered> {
    let crashes = stage.crashes();
    let call = |request: &Request| stage.call(&pipe.name, request.clone(), pipe.probe);
    let ids: Vec<_> = requests.iter().map(call).collect();
    let options = ask::options(stage.net.borrow().timeout);
    let limit = options.request_timeout;
    let lost = |why: String, sent| Answer::Lost { why, sent, told: false };
    let mut connection = pipe.connect(&options).await;
    if let Ok(connection) = &mut connection {
        requests.iter().for_each(|request| ask::send(connection, request));
    }
    let mut broken: Option<Answer> = connection.as_ref().err().map(|why| lost(why.clone(), false));
    let mut answers = Vec::new();
    for (id, request) in ids.into_iter().zip(requests) {
        let answer = match (&broken, &mut connection) {
            (None, Ok(connection)) => match timeout(limit + wait(request), connection.receive()).await {
                Ok(Ok(response)) => ask::read(request, response),
                Ok(Err(e)) => lost(e.to_string(), true),
                Err(_) => lost(format!("no answer within {limit:?}"), true),
            },
            (Some(broken), _) => broken.clone(),
            (None, Err(why)) => lost(why.clone(), false),
        };
        // After an answer that did not come, the next ones cannot be told apart.
        if matches!(&answer, Answer::Lost { told: false, .. }) && broken.is_none() {
            broken = Some(answer.clone());
        }
        remember(stage, request, &answer);
        stage.recorder.add(Event::Answer { id, answer: answer.clone() });
        answers.push(answer);
    }
    if broken.is_none() {
        pipe.connection = connection.ok();
    }
    let crash = (stage.crashes() != crashes).then(|| stage.last_crash().to_string());
    answers.into_iter().map(|answer| (answer, crash.clone())).collect()
}

/// How long the broker may wait before it answers, since it was asked to.
fn wait(request: &Request) -> Duration {
    match request {
        Request::Consume { wait_ms, .. } => Duration::from_millis((*wait_ms).into()),
        _ => Duration::ZERO,
    }
}

/// What a step asks, but for reads.
fn requests(step: &Step, round: u64) -> Vec<Request> {
    match step {
        Step::Topic(topic) => vec![Request::CreateTopic {
            topic: ask::name(&topic.name),
            partitions: topic.partitions,
            retention_bytes: topic.retention_bytes,
            retention_ms: topic.retention_age.map(millis),
        }],
        Step::DeleteTopic { name, .. } => vec![Request::DeleteTopic { topic: ask::name(name) }],
        Step::ListTopics { .. } => vec![Request::ListTopics],
        Step::ListPartitions(list) => vec![Request::ListPartitions { topic: ask::name(&list.topic) }],
        Step::Produce(produce) => produces(produce, round),
        Step::Offsets(look_up) => vec![Request::Offsets {
            topic: ask::name(&look_up.topic),
            partition: look_up.partition,
            at: match look_up.at {
                OffsetAt::Earliest => At::Earliest,
                OffsetAt::Latest => At::Latest,
                OffsetAt::Time(t) => At::Time(t),
            },
        }],
        _ => Vec::new(),
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn produces(produce: &Produce, round: u64) -> Vec<Request> {
    let bytes = |content: &Content, n: u64| bytes::Bytes::from(content.bytes(n, round));
    let record =
        |n: u64| Sent { key: produce.key.as_ref().map(|key| bytes(key, n)), value: bytes(&produce.value, n) };
    let records: Vec<Sent> = (0..u64::from(produce.count)).map(record).collect();
    let batch = usize::try_from(produce.batch.max(1)).unwrap_or(usize::MAX);
    let request = |records: &[Sent]| Request::Produce {
        topic: ask::name(&produce.topic),
        partition: produce.partition,
        records: records.into(),
    };
    records.chunks(batch).map(request).collect()
}

/// Says what came of a step, and whether it is what had to come.
fn came(actor: &Actor, id: u32, step: &Step, answers: &[Answered]) {
    let expect = match step {
        Step::Topic(topic) => topic.expect,
        Step::DeleteTopic { expect, .. } => *expect,
        Step::ListPartitions(list) => list.expect,
        Step::Produce(produce) => produce.expect,
        Step::Offsets(look_up) => return looked_up(actor, id, look_up, answers),
        _ => Expect::Ok,
    };
    let said = match (step, answers.first()) {
        (Step::Produce(_), _) => say::produced(answers),
        (_, Some((answer, crash))) => match say::trouble(answer, crash.as_deref()) {
            Some(trouble) => format!("→ {trouble}"),
            None => done(answer),
        },
        (_, None) => String::new(),
    };
    if let Some((answer, _)) = answers.iter().find(|(answer, _)| !fits(expect, answer)) {
        actor.unmet(id, expect.to_string(), why(&actor.stage, answer, &said));
    }
    let fact = said.clone();
    let races = &actor.stage.races;
    let said = match step {
        Step::Topic(topic) => {
            if answers.iter().any(|(answer, _)| *answer == Answer::Done) {
                races.renewed(&topic.name, false);
            }
            races.answered(expect, said)
        }
        Step::DeleteTopic { name, .. } => {
            races.renewed(name, true);
            races.answered(expect, said)
        }
        Step::Produce(p) => {
            races.wrote(&p.topic, p.expect);
            races.produced(&p.topic, p.expect, p.expect_offset.is_some(), answers, said)
        }
        Step::ListTopics { expect_count } => races.counted(None, *expect_count, "topic", said),
        Step::ListPartitions(list) if expect == Expect::Ok => {
            races.counted(Some(&list.topic), list.expect_count, "partition", said)
        }
        _ => races.answered(expect, said),
    };
    match step {
        Step::Produce(produce) => placed_right(actor, id, produce, answers),
        Step::ListTopics { expect_count } => counted(actor, id, expect, *expect_count, answers),
        Step::ListPartitions(list) => counted(actor, id, expect, list.expect_count, answers),
        _ => {}
    }
    actor.say_if(id, said, fact);
}

fn done(answer: &Answer) -> String {
    match answer {
        Answer::Topics(topics) => {
            let each: Vec<String> = topics.iter().map(|(name, n)| format!("{name} ({n})")).collect();
            format!("→ {}", if each.is_empty() { "none".to_owned() } else { each.join(" · ") })
        }
        Answer::Partitions(partitions) => {
            let each: Vec<String> =
                partitions.iter().map(|(n, start, end)| format!("{n}: {start}..{end}")).collect();
            format!("→ {}", each.join(" · "))
        }
        _ => "done".to_owned(),
    }
}

/// Of an answer that is not the one that had to come, nothing more is expected.
fn counted(actor: &Actor, id: u32, expect: Expect, count: Option<u32>, answers: &[Answered]) {
    let Some(count) = count.filter(|_| answers.iter().all(|(answer, _)| fits(expect, answer))) else {
        return;
    };
    let found = answers.iter().find_map(|(answer, _)| match answer {
        Answer::Topics(topics) => Some(topics.len()),
        Answer::Partitions(partitions) => Some(partitions.len()),
        _ => None,
    });
    if found != usize::try_from(count).ok() {
        actor.unmet(id, count.to_string(), found.map_or_else(|| "no list".to_owned(), |n| n.to_string()));
    }
}

/// Where each record was placed; `None` of one that was not.
fn places(answers: &[Answered]) -> Vec<Option<(u32, u64)>> {
    let place = |placed: &Placed| match placed {
        Placed::At(partition, offset) => Some((*partition, *offset)),
        _ => None,
    };
    let of = |answer: &Answer| match answer {
        Answer::Produced(placed) => placed.iter().map(place).collect(),
        _ => vec![None],
    };
    answers.iter().flat_map(|(answer, _)| of(answer)).collect()
}

fn placed_right(actor: &Actor, id: u32, produce: &Produce, answers: &[Answered]) {
    // Of an answer that is not the one that had to come, nothing more is expected.
    if !answers.iter().all(|(answer, _)| fits(produce.expect, answer)) {
        return;
    }
    let places = places(answers);
    if let Some(expected) = produce.expect_partition {
        let mut placed = places.iter().flatten().peekable();
        if placed.peek().is_none() {
            actor.unmet(id, format!("partition {expected}"), "no record was acknowledged");
        }
        for (partition, _) in placed.filter(|(partition, _)| *partition != expected) {
            actor.unmet(id, format!("partition {expected}"), format!("partition {partition}"));
        }
    }
    let first = places.first().copied().flatten().map(|(_, offset)| offset);
    if let Some(expected) = produce.expect_offset.filter(|expected| first != Some(*expected)) {
        let found = first.map_or_else(
            || "the first record was not acknowledged".to_owned(),
            |offset| format!("offset {offset}"),
        );
        actor.unmet(id, format!("offset {expected}"), found);
    }
}

/// What came in the place of what had to: where nobody was there to answer, why.
fn why(stage: &Stage, answer: &Answer, said: &str) -> String {
    let down = || stage.why_down().map(|why| format!("{said}: {why}"));
    match answer {
        Answer::Refused { code: Code::Unavailable, message, .. } => {
            down().unwrap_or_else(|| format!("{said}: {message}"))
        }
        Answer::Lost { why, sent: false, .. } => down().unwrap_or_else(|| format!("{said}: {why}")),
        Answer::Refused { message, .. } => format!("{said}: {message}"),
        Answer::Lost { why, .. } => format!("{said}: {why}"),
        _ => said.to_owned(),
    }
}

fn looked_up(actor: &Actor, id: u32, look_up: &LookUp, answers: &[Answered]) {
    let Some((answer, crash)) = answers.first() else { return };
    let said = match answer {
        Answer::Offset(Some((offset, _))) => format!("→ {offset}"),
        Answer::Offset(None) => "→ none".to_owned(),
        other => format!("→ {}", say::trouble(other, crash.as_deref()).unwrap_or_default()),
    };
    let fits = match (look_up.expect, answer) {
        (LookUpExpect::Any, _) => true,
        (LookUpExpect::Offset(expected), Answer::Offset(Some((offset, _)))) => expected == *offset,
        (LookUpExpect::None, Answer::Offset(None)) => true,
        (LookUpExpect::Code(expected), Answer::Refused { code, .. }) => expected == *code,
        _ => false,
    };
    if !fits {
        actor.unmet(id, look_up.expect.to_string(), why(&actor.stage, answer, &said));
    }
    let expected = look_up.expect != LookUpExpect::Any;
    let certain = actor.stage.races.looked_up(&look_up.topic, expected, said.clone());
    actor.say_if(id, certain, said);
}

fn fetch(consume: &Consume, partition: u32, from: u64) -> Request {
    Request::Consume {
        topic: ask::name(&consume.topic),
        partition,
        from,
        max_bytes: consume.max_bytes.unwrap_or(MAX_BYTES),
        wait_ms: consume.wait.map_or(0, |wait| u32::try_from(millis(wait)).unwrap_or(u32::MAX)),
    }
}

/// One answer to one fetch.
fn fetched(actor: &Actor, id: u32, consume: &Consume, (answer, crash): Answered) {
    let read = match &answer {
        Answer::Fetched { records, start, end } => {
            let until = consume.until.unwrap_or(u64::MAX);
            let records = records.iter().filter(|r| r.offset < until).cloned().collect();
            Read { records, start: Some(*start), end: Some(*end), answer: None, crash }
        }
        _ => Read { answer: Some(answer), crash, ..Read::default() },
    };
    read.came(actor, id, consume);
}

/// What a consume has read.
#[derive(Default)]
struct Read {
    records: Vec<Seen>,
    /// The log's start, where an answer said it.
    start: Option<u64>,
    /// The log's end; none where an error came first.
    end: Option<u64>,
    /// The answer that ended it, where that was no records.
    answer: Option<Answer>,
    crash: Option<String>,
}

/// Requests until the end.
async fn read_all(actor: &mut Actor, id: u32, consume: &Consume) {
    let read = match consume.partition {
        Some(partition) => read_partition(actor, consume, partition).await,
        None => read_topic(actor, consume).await,
    };
    read.came(actor, id, consume);
}

/// All partitions, merged as `broker consume` merges them.
async fn read_topic(actor: &Actor, consume: &Consume) -> Read {
    let (answer, crash) = actor.ask(Request::ListPartitions { topic: ask::name(&consume.topic) }).await;
    let Answer::Partitions(partitions) = answer else {
        return Read { answer: Some(answer), crash, ..Read::default() };
    };
    let mut all = Read { end: Some(0), ..Read::default() };
    let mut logs = Vec::new();
    for (partition, ..) in partitions {
        let read = read_partition(actor, consume, partition).await;
        logs.push(VecDeque::from(read.records));
        all.end = all.end.zip(read.end).map(|(sum, end)| sum + end);
        all.answer = all.answer.or(read.answer);
        all.crash = all.crash.or(read.crash);
    }
    all.records = merged(logs);
    all
}

/// Always the earliest of the records that come next in their logs: where the clock ran backwards, the order within a log
/// is not that of its times, and it is the one that clients rely on.
fn merged(mut logs: Vec<VecDeque<Seen>>) -> Vec<Seen> {
    let mut records = Vec::new();
    loop {
        logs.retain(|log| !log.is_empty());
        let next = logs.iter_mut().min_by_key(|log| log.front().map(|record| record.timestamp));
        match next.and_then(VecDeque::pop_front) {
            Some(record) => records.push(record),
            None => return records,
        }
    }
}

async fn read_partition(actor: &Actor, consume: &Consume, partition: u32) -> Read {
    let mut read = Read::default();
    let mut from = match consume.from {
        Some(from) => from,
        None => {
            let topic = ask::name(&consume.topic);
            match actor.ask(Request::Offsets { topic, partition, at: At::Earliest }).await {
                (Answer::Offset(Some((start, _))), _) => start,
                (answer, crash) => return Read { answer: Some(answer), crash, ..Read::default() },
            }
        }
    };
    loop {
        let (answer, crash) = actor.ask(fetch(consume, partition, from)).await;
        let Answer::Fetched { records, start, end } = answer else {
            (read.end, read.answer, read.crash) = (None, Some(answer), crash);
            return read;
        };
        (read.start, read.end) = (Some(start), Some(end));
        let until = consume.until.unwrap_or(u64::MAX).min(end);
        let none = records.is_empty();
        from = records.last().map_or(from, |r| r.offset + 1);
        read.records.extend(records.into_iter().filter(|r| r.offset < until));
        if from >= until || none {
            return read;
        }
    }
}

impl Read {
    fn came(&self, actor: &Actor, id: u32, consume: &Consume) {
        let ending = match &self.answer {
            Some(answer) => say::trouble(answer, self.crash.as_deref()).unwrap_or_default(),
            None => format!("end {}", self.end.unwrap_or(0)),
        };
        let said = say::records(&self.records, &ending);
        let answer = self.answer.clone().unwrap_or(Answer::Done);
        let came = fits(consume.expect, &answer);
        if !came {
            actor.unmet(id, consume.expect.to_string(), why(&actor.stage, &answer, &said));
        }
        // Of an answer that is not the one that had to come, nothing more is expected.
        if came {
            self.numbers(actor, id, consume);
            self.values(actor, id, consume);
        }
        let (expected, found) = ((consume.expect, consume.expect_count), (&self.records[..], self.end));
        let certain = actor.stage.races.read(&consume.topic, expected, found, said.clone());
        actor.say_if(id, certain, said);
    }

    fn numbers(&self, actor: &Actor, id: u32, consume: &Consume) {
        let check = |what: &str, expected: Option<u64>, found: Option<u64>| {
            if let Some(expected) = expected.filter(|expected| found != Some(*expected)) {
                let found = found.map_or_else(|| "no answer that says it".to_owned(), |n| n.to_string());
                actor.unmet(id, format!("{what} {expected}"), found);
            }
        };
        check("records:", consume.expect_count, Some(self.records.len() as u64));
        check("start", consume.expect_start, self.start);
        check("end", consume.expect_end, self.end);
    }

    /// Of no record, no value is the right one: a read that finds nothing must not pass for one that found it.
    fn values(&self, actor: &Actor, id: u32, consume: &Consume) {
        let Some(content) = &consume.expect_value else { return };
        let unmet = |n: u64, found: String| {
            let expected = say::bytes(&content.bytes(n, actor.round));
            actor.unmet(id, format!("value {expected}"), found);
        };
        if self.records.is_empty() {
            return unmet(0, "no record was read".to_owned());
        }
        let wrong = (0..).zip(&self.records).find(|(n, r)| content.bytes(*n, actor.round) != r.value);
        if let Some((n, record)) = wrong {
            unmet(n, say::bytes(&record.value));
        }
    }
}
