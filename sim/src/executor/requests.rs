//! Steps that are requests: what they ask.

use super::actor::Actor;
use super::ask;
use super::came::came;
use super::pipe::{Answered, Pipe, back_to_back};
use super::plan::Node;
use super::reads::{fetch, fetched, read_all};
use crate::scenario::{Content, OffsetAt, Produce, Step};
use crate::trace::{At, Event, Request, Sent};

/// A step that is a request of its own.
pub(super) async fn one(actor: &mut Actor, node: &Node) {
    match &node.step {
        Step::Consume(consume) => read_all(actor, node.id, consume).await,
        Step::Fetch(consume) => {
            let answered = actor.ask(fetch(consume)).await;
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
            Step::Fetch(consume) => vec![fetch(consume)],
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

/// What a step asks, but for reads.
fn requests(step: &Step, round: u64) -> Vec<Request> {
    match step {
        Step::Topic(topic) => vec![Request::CreateTopic {
            topic: ask::name(&topic.name),
            partitions: topic.partitions,
            retention_bytes: topic.retention_bytes,
            retention_ms: topic.retention_age.map(ask::millis),
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

/// The requests of a produce, one for each batch.
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
