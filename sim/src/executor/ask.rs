//! One call of a client: asked through the broker's own client, answered, written down.

use std::sync::Arc;
use std::time::Duration;

use broker::client::{self, Client, Connection, Doubt, Fetch, Options, Outcome};
use broker::error::Code;
use broker::record::NewRecord;
use broker::settings::TopicSettings;
use broker::units::{Offset, Timestamp};
use broker::wire::proto::{self, list_offsets_request, request, response};

use crate::trace::{Answer, At, Placed, Request, Seen, Sent};
use crate::world::net::{PORT, WorldConnector, WorldStream};
use crate::world::observe::with_relative_paths;

/// A client in the world.
pub(super) type WorldClient = Client<WorldConnector>;

/// Where the broker listens.
pub(super) fn address() -> String {
    format!("{}:{PORT}", crate::world::BROKER)
}

/// How long a client waits for an answer.
pub(super) fn timeout_of(given: Option<Duration>) -> Duration {
    given.unwrap_or(Duration::from_secs(2))
}

/// How long a client waits: short, since simulated time is what a run costs.
pub(super) fn options(timeout: Option<Duration>) -> Options {
    Options {
        connect_timeout: Duration::from_millis(500),
        request_timeout: timeout_of(timeout),
        backoff_min: Duration::from_millis(2),
        backoff_max: Duration::from_millis(50),
        ..Options::default()
    }
}

/// Asks through the client.
pub(super) async fn ask(client: &WorldClient, request: &Request) -> Answer {
    match request {
        Request::CreateTopic { topic, partitions, retention_bytes, retention_ms } => {
            let settings = TopicSettings {
                partitions: *partitions,
                retention_bytes: *retention_bytes,
                retention_age: retention_ms.map(Duration::from_millis),
            };
            answer(client.create_topic(topic, &settings).await, |()| Answer::Done)
        }
        Request::DeleteTopic { topic } => answer(client.delete_topic(topic).await, |()| Answer::Done),
        Request::Produce { topic, partition, records } => {
            let records: Vec<NewRecord> = records.iter().map(new_record).collect();
            produced(client.produce_batch(topic, *partition, &records).await)
        }
        Request::Consume { topic, partition, from, max_bytes, wait_ms } => {
            let fetch = Fetch {
                offset: Offset::new(*from),
                max_bytes: *max_bytes,
                max_wait: Duration::from_millis((*wait_ms).into()),
            };
            answer(client.consume(topic, *partition, fetch).await, |consumed| Answer::Fetched {
                records: consumed.records.into_iter().map(seen).collect(),
                start: consumed.log_start.get(),
                end: consumed.log_end.get(),
            })
        }
        Request::Offsets { topic, partition, at } => {
            let asked = match at {
                At::Earliest => client::At::Earliest,
                At::Latest => client::At::Latest,
                At::Time(t) => client::At::Timestamp(Timestamp::from_millis(*t)),
            };
            let found = client.list_offsets(topic, *partition, asked).await;
            answer(found, |found| offset(*at, found.offset.get(), found.timestamp.map(Timestamp::get)))
        }
        Request::ListTopics => answer(client.topics().await, |topics| {
            Answer::Topics(topics.into_iter().map(|t| (t.name, t.settings.partitions)).collect())
        }),
        Request::ListPartitions { topic } => answer(client.partitions(topic).await, |partitions| {
            let each = partitions.into_iter();
            Answer::Partitions(each.map(|p| (p.number, p.log_start.get(), p.log_end.get())).collect())
        }),
        Request::Raw { .. } => Answer::Done, // raw bytes go their own way
    }
}

fn answer<T>(outcome: Outcome<T>, done: impl FnOnce(T) -> Answer) -> Answer {
    match outcome {
        Outcome::Acknowledged(value) => done(value),
        Outcome::Refused(refusal) => refused(refusal.code, refusal.message),
        Outcome::Unknown(doubt) => lost(&doubt),
    }
}

/// No answer, or one that says that nobody knows.
fn lost(doubt: &Doubt) -> Answer {
    Answer::Lost { why: with_relative_paths(&doubt.why), sent: true, told: doubt.is_told }
}

/// An error, with the offset that a CORRUPT names in its sentence.
fn refused(code: Code, message: String) -> Answer {
    let named = message.split_once("offset ").map(|(_, rest)| rest);
    let digits = named.map(|rest| rest.chars().take_while(char::is_ascii_digit).collect::<String>());
    let offset = digits.and_then(|d| d.parse().ok()).filter(|_| code == Code::Corrupt);
    if code == Code::OutcomeUnknown {
        return Answer::Lost { why: with_relative_paths(&message), sent: true, told: true };
    }
    Answer::Refused { code, message: with_relative_paths(&message), offset }
}

fn produced(outcomes: Vec<Outcome<client::Placed>>) -> Answer {
    let all_same = outcomes.windows(2).all(|w| w[0] == w[1]);
    match outcomes.first() {
        Some(Outcome::Refused(refusal)) if all_same => refused(refusal.code, refusal.message.clone()),
        Some(Outcome::Unknown(doubt)) if all_same => lost(doubt),
        _ => Answer::Produced(outcomes.into_iter().map(placed).collect()),
    }
}

fn placed(outcome: Outcome<client::Placed>) -> Placed {
    match outcome {
        Outcome::Acknowledged(placed) => Placed::At(placed.partition, placed.offset.get()),
        Outcome::Refused(refusal) => Placed::Refused(refusal.code),
        Outcome::Unknown(_) => Placed::Unknown,
    }
}

fn offset(at: At, offset: u64, timestamp: Option<u64>) -> Answer {
    match (at, timestamp) {
        (At::Time(_), None) => Answer::Offset(None),
        (_, timestamp) => Answer::Offset(Some((offset, timestamp.unwrap_or(0)))),
    }
}

fn new_record(sent: &Sent) -> NewRecord {
    NewRecord { key: sent.key.clone(), value: sent.value.clone() }
}

fn seen(record: broker::record::Record) -> Seen {
    Seen {
        offset: record.offset.get(),
        timestamp: record.timestamp.get(),
        key: record.key,
        value: record.value,
    }
}

/// Puts a request on a connection.
pub(super) fn send(connection: &mut Connection<WorldStream>, request: &Request) {
    let kind = match request {
        Request::Produce { topic, partition, records } => {
            let records = records.iter().map(|r| (r.key.as_deref(), &r.value[..]));
            return connection.send_produce(topic, *partition, records);
        }
        Request::CreateTopic { topic, partitions, retention_bytes, retention_ms } => {
            request::Kind::CreateTopic(proto::CreateTopicRequest {
                name: topic.to_string(),
                partitions: *partitions,
                retention_bytes: *retention_bytes,
                retention_ms: *retention_ms,
            })
        }
        Request::DeleteTopic { topic } => {
            request::Kind::DeleteTopic(proto::DeleteTopicRequest { name: topic.to_string() })
        }
        Request::Consume { topic, partition, from, max_bytes, wait_ms } => {
            request::Kind::Consume(proto::ConsumeRequest {
                topic: topic.to_string(),
                partition: *partition,
                offset: *from,
                max_bytes: *max_bytes,
                max_wait_ms: *wait_ms,
            })
        }
        Request::Offsets { topic, partition, at } => {
            let at = Some(match at {
                At::Earliest => list_offsets_request::At::Earliest(proto::Earliest {}),
                At::Latest => list_offsets_request::At::Latest(proto::Latest {}),
                At::Time(t) => list_offsets_request::At::TimestampMs(*t),
            });
            let (topic, partition) = (topic.to_string(), *partition);
            request::Kind::ListOffsets(proto::ListOffsetsRequest { topic, partition, at })
        }
        Request::ListTopics => request::Kind::ListTopics(proto::ListTopicsRequest {}),
        Request::ListPartitions { topic } => {
            request::Kind::ListPartitions(proto::ListPartitionsRequest { topic: topic.to_string() })
        }
        Request::Raw { .. } => return,
    };
    connection.send(&kind.into());
}

/// What an answer from a connection says to a request.
pub(super) fn read(request: &Request, response: proto::Response) -> Answer {
    let kind = match Outcome::of(response) {
        Outcome::Acknowledged(kind) => kind,
        Outcome::Refused(refusal) => return refused(refusal.code, refusal.message),
        Outcome::Unknown(doubt) => return lost(&doubt),
    };
    match (request, kind) {
        (Request::Produce { records, .. }, response::Kind::Produce(p)) => appended(records.len(), p),
        (_, response::Kind::Consume(consumed)) => Answer::Fetched {
            start: consumed.log_start_offset,
            end: consumed.log_end_offset,
            records: consumed.records.into_iter().map(|r| seen(r.into())).collect(),
        },
        (Request::Offsets { at, .. }, response::Kind::ListOffsets(found)) => {
            offset(*at, found.offset, found.timestamp_ms)
        }
        (_, response::Kind::ListTopics(list)) => {
            Answer::Topics(list.topics.into_iter().map(|t| (t.name, t.partitions)).collect())
        }
        (_, response::Kind::ListPartitions(list)) => {
            let each = list.partitions.into_iter();
            Answer::Partitions(each.map(|p| (p.number, p.log_start_offset, p.log_end_offset)).collect())
        }
        (_, response::Kind::CreateTopic(_) | response::Kind::DeleteTopic(_)) => Answer::Done,
        _ => Answer::Lost { why: "the answer is not one to the request".into(), sent: true, told: false },
    }
}

/// What came of each record of a produce that was sent on a connection.
fn appended(records: usize, response: proto::ProduceResponse) -> Answer {
    let mut used = vec![0u64; response.appends.len()];
    let mut one = |partition: Option<u32>| -> Option<Placed> {
        let at = response.appends.iter().position(|a| partition.is_none_or(|p| a.partition == p))?;
        let append = &response.appends[at];
        let nth = used[at];
        used[at] += 1;
        Some(match append.error.as_ref().map(|e| e.code().known()) {
            None => Placed::At(append.partition, append.base_offset + nth),
            Some(Some(code)) if !code.leaves_outcome_unknown() => Placed::Refused(code),
            Some(_) => Placed::Unknown,
        })
    };
    let placed: Option<Vec<Placed>> =
        (0..records).map(|i| one(response.partitions.get(i).copied())).collect();
    let Some(placed) = placed else {
        return Answer::Lost { why: "the answer does not fit the records".into(), sent: true, told: false };
    };
    let same = placed.windows(2).all(|w| w[0] == w[1]);
    let message = response.appends.iter().find_map(|a| a.error.as_ref()).map(|e| e.message.clone());
    match placed.first() {
        Some(Placed::Refused(code)) if same => refused(*code, message.unwrap_or_default()),
        Some(Placed::Unknown) if same => {
            Answer::Lost { why: message.unwrap_or_default(), sent: true, told: true }
        }
        _ => Answer::Produced(placed),
    }
}

/// `topic` as the trace keeps it.
pub(super) fn name(topic: &str) -> Arc<str> {
    topic.into()
}
