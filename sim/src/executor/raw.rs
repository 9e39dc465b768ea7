//! Raw connections: bytes that a well-behaved client never sends.

use std::time::Duration;

use broker::net::Connector;
use broker::wire::proto::response;
use broker::wire::{self, Frame, proto};
use bytes::{Bytes, BytesMut};
use prost::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{sleep, timeout};

use super::actor::Actor;
use super::plan::Node;
use super::races::TIMING;
use super::{ask, pipe};
use crate::scenario::syntax::code_name;
use crate::scenario::{Expect, Receive, ReceiveExpect, Send, SendLength, Step};
use crate::trace::{Answer, Event, Request, Sent};
use crate::world::net::WorldStream;

/// A client's raw connections; the last one is the one that it sends on.
#[derive(Default)]
pub(super) struct RawConnections {
    streams: Vec<WorldStream>,
    /// What has come on the last one and is not told yet.
    input: BytesMut,
}

/// What is said where there is none.
const NO_CONNECTION: &str = "→ no connection";
/// The longest answer that is read.
const ANSWER_BYTES: usize = 64 << 20;
/// Topics of more partitions that somebody makes with bytes of his own are not looked at.
const PARTITIONS: u32 = 1000;
/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(1);

/// One step on a raw connection.
pub(super) async fn step(actor: &mut Actor, node: &Node) {
    match &node.step {
        Step::Open(open) => {
            let mut opened = 0;
            for _ in 0..open.count {
                opened += u32::from(connect(actor).await);
            }
            if opened < open.count {
                actor.say(node.id, format!("→ {opened} of {} opened", open.count));
            }
        }
        Step::Send(bytes) => send(actor, node.id, bytes).await,
        Step::Receive(receive) => {
            let (said, found) = receive_one(actor, receive).await;
            if !fits(receive.expect, found) {
                actor.unmet(node.id, receive.expect.to_string(), said.as_str());
            }
            let open = actor.stage.races.running() && receive.expect == ReceiveExpect::Any;
            actor.say_if(node.id, if open { TIMING.to_owned() } else { said.clone() }, said);
        }
        Step::HalfClose | Step::Close if actor.raw.streams.is_empty() => actor.say(node.id, NO_CONNECTION),
        Step::HalfClose => {
            if let Some(stream) = actor.raw.streams.last_mut() {
                let _ = stream.shutdown().await;
            }
        }
        _ => actor.raw = RawConnections::default(),
    }
}

async fn connect(actor: &mut Actor) -> bool {
    match timeout(CONNECT, actor.connector.connect(&ask::address())).await {
        Ok(Ok(stream)) => {
            actor.raw.streams.push(stream);
            actor.raw.input.clear();
            true
        }
        _ => false,
    }
}

async fn send(actor: &mut Actor, id: u32, send: &Send) {
    if actor.raw.streams.is_empty() && !connect(actor).await {
        return actor.say(id, NO_CONNECTION);
    }
    let body = send.bytes.bytes(0, actor.round);
    let mut bytes = Vec::new();
    match send.length {
        Some(SendLength::Right) => bytes.extend(u32::try_from(body.len()).unwrap_or(u32::MAX).to_be_bytes()),
        Some(SendLength::Is(length)) => bytes.extend(length.to_be_bytes()),
        None => {}
    }
    bytes.extend(&body);
    note(actor, &bytes, &body);
    let Some(stream) = actor.raw.streams.last_mut() else { return };
    let piece = send.chunk_bytes.map_or(bytes.len(), |n| n as usize).max(1);
    let mut failed = false;
    for piece in bytes.chunks(piece) {
        failed |= stream.write_all(piece).await.is_err();
        if let Some(every) = send.every {
            sleep(every).await;
        }
    }
    if failed {
        actor.say(id, "→ closed");
    }
}

/// Writes the bytes down. A request in them that changes anything is one whose outcome nobody will know.
fn note(actor: &Actor, bytes: &[u8], body: &[u8]) {
    let stage = &actor.stage;
    let raw = Request::Raw { bytes: Bytes::copy_from_slice(bytes) };
    let id = stage.call(&actor.name, raw, false);
    stage.recorder.add(Event::Answer { id, answer: Answer::Done });
    let Some(request) = change(body) else { return };
    match &request {
        Request::Produce { topic, .. } => stage.races.wrote(topic, Expect::Unknown),
        Request::CreateTopic { topic, .. } => stage.races.renewed(topic, false),
        Request::DeleteTopic { topic } => stage.races.renewed(topic, true),
        _ => {}
    }
    let id = stage.call(&actor.name, request.clone(), false);
    let answer = Answer::Lost { why: "sent raw".into(), sent: true, told: false };
    pipe::remember(stage, &request, &answer);
    stage.recorder.add(Event::Answer { id, answer });
}

/// The request that these bytes are, where it changes anything.
fn change(body: &[u8]) -> Option<Request> {
    use proto::request::Kind;
    let request = match proto::Request::decode(body).ok()?.kind? {
        Kind::Produce(produce) => {
            let records = produce.records.into_iter().map(|r| Sent { key: r.key, value: r.value }).collect();
            Request::Produce { topic: ask::name(&produce.topic), partition: produce.partition, records }
        }
        Kind::CreateTopic(create) if create.partitions <= PARTITIONS => Request::CreateTopic {
            topic: ask::name(&create.name),
            partitions: create.partitions,
            retention_bytes: create.retention_bytes,
            retention_ms: create.retention_ms,
        },
        Kind::DeleteTopic(delete) => Request::DeleteTopic { topic: ask::name(&delete.name) },
        _ => return None,
    };
    Some(request)
}

/// What came on a raw connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Came {
    /// What was asked for.
    Answer,
    /// An error; `None` of a code that nobody knows.
    Error(Option<broker::error::Code>),
    /// Bytes that are no answer.
    Garbage,
    /// The end of the connection.
    Closed,
    Nothing,
    /// There is no connection on which anything could come.
    Unconnected,
}

fn fits(expect: ReceiveExpect, came: Came) -> bool {
    match expect {
        ReceiveExpect::Any => true,
        ReceiveExpect::Ok => came == Came::Answer,
        ReceiveExpect::Closed => came == Came::Closed,
        ReceiveExpect::Nothing => came == Came::Nothing,
        ReceiveExpect::Code(code) => came == Came::Error(Some(code)),
    }
}

/// What an answer says, if it can be read.
fn read(answer: Option<response::Kind>) -> (String, Came) {
    match answer {
        Some(response::Kind::Error(error)) => match error.code().known() {
            Some(code) => (format!("→ error {}", code_name(code)), Came::Error(Some(code))),
            None => ("→ an error without a code that is known".into(), Came::Error(None)),
        },
        Some(_) => ("→ answered".into(), Came::Answer),
        None => ("→ an answer that cannot be read".into(), Came::Garbage),
    }
}

async fn receive_one(actor: &mut Actor, receive: &Receive) -> (String, Came) {
    let raw = &mut actor.raw;
    let Some(stream) = raw.streams.last_mut() else { return (NO_CONNECTION.into(), Came::Unconnected) };
    let deadline = tokio::time::Instant::now() + receive.within;
    loop {
        if let Frame::Whole(len) = wire::frame(&raw.input, ANSWER_BYTES) {
            let answer = wire::take::<proto::Response>(&mut raw.input, len);
            return read(answer.ok().and_then(|r| r.kind));
        }
        match tokio::time::timeout_at(deadline, stream.read_buf(&mut raw.input)).await {
            Ok(Ok(0) | Err(_)) => return ("→ closed".into(), Came::Closed),
            Ok(Ok(_)) => {}
            Err(_) => return ("→ nothing".into(), Came::Nothing),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An expectation is met by what it names, and by nothing that is merely like it.
    #[test]
    fn what_cannot_be_read_and_what_cannot_come_meet_no_expectation() {
        let unknown = proto::ErrorResponse { code: 9999, ..proto::ErrorResponse::default() };
        let (_, unknown) = read(Some(response::Kind::Error(unknown)));
        let (_, unreadable) = read(None);
        assert_eq!((unknown, unreadable), (Came::Error(None), Came::Garbage));
        for came in [unknown, unreadable, Came::Unconnected] {
            for expect in [ReceiveExpect::Ok, ReceiveExpect::Closed, ReceiveExpect::Nothing] {
                assert!(!fits(expect, came), "{came:?} is not {expect}");
            }
            assert!(fits(ReceiveExpect::Any, came));
        }
    }
}
