//! One call of a client: through the broker's own client, or on a connection of which the next layer down is used, so that many
//! can be sent before the first is answered. What an answer says is read in one way.

use std::sync::Arc;
use std::time::Duration;

use broker::client::{
    self, Client, Connection, Consumed, Doubt, Fetch, FoundOffset, Options, Outcome, PartitionInfo, Produced,
    TopicInfo,
};
use broker::error::Code;
use broker::record::NewRecord;
use broker::settings::TopicSettings;
use broker::units::{Offset, Timestamp};
use broker::wire::proto::{self, list_offsets_request, request, response};

use crate::trace::{Answer, At, ListedPartition, ListedTopic, Pace, Placed, Request, Retention, Seen, Sent};
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
        connect_timeout: Duration::from_millis(Pace::CONNECT),
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
            let settings = settings(*partitions, *retention_bytes, *retention_ms);
            answer(client.create_topic(topic, &settings).await, |()| Answer::Done)
        }
        Request::DeleteTopic { topic } => answer(client.delete_topic(topic).await, |()| Answer::Done),
        Request::Produce { topic, partition, records } => {
            let records: Vec<NewRecord> = records.iter().map(new_record).collect();
            produced(client.produce_batch(topic, *partition, &records).await)
        }
        Request::Consume { topic, partition, from, max_bytes, wait_ms } => {
            let fetch = fetch(*from, *max_bytes, *wait_ms);
            answer(client.consume(topic, *partition, fetch).await, fetched)
        }
        Request::Offsets { topic, partition, at } => {
            let asked = match at {
                At::Earliest => client::At::Earliest,
                At::Latest => client::At::Latest,
                At::Time(t) => client::At::Timestamp(Timestamp::from_millis(*t)),
            };
            answer(client.list_offsets(topic, *partition, asked).await, |found| offset(*at, found))
        }
        Request::ListTopics => answer(client.topics().await, topics),
        Request::ListPartitions { topic } => answer(client.partitions(topic).await, partitions),
        Request::Raw { .. } => Answer::Done, // raw bytes go their own way
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
            let settings = settings(*partitions, *retention_bytes, *retention_ms);
            request::Kind::CreateTopic(proto::CreateTopicRequest::new(topic, &settings))
        }
        Request::DeleteTopic { topic } => {
            request::Kind::DeleteTopic(proto::DeleteTopicRequest { name: topic.to_string() })
        }
        Request::Consume { topic, partition, from, max_bytes, wait_ms } => {
            request::Kind::Consume(fetch(*from, *max_bytes, *wait_ms).request(topic, *partition))
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
    if let Request::Produce { records, .. } = request {
        return produced(Produced::Other(response).outcomes(records.len()));
    }
    answer(Outcome::of(response), |kind| match (request, kind) {
        (_, response::Kind::Consume(consumed)) => fetched(consumed.into()),
        (Request::Offsets { at, .. }, response::Kind::ListOffsets(found)) => offset(*at, found.into()),
        (_, response::Kind::ListTopics(list)) => topics(list.topics.into_iter().map(TopicInfo::from)),
        (_, response::Kind::ListPartitions(list)) => {
            partitions(list.partitions.into_iter().map(PartitionInfo::from))
        }
        (_, response::Kind::CreateTopic(_) | response::Kind::DeleteTopic(_)) => Answer::Done,
        _ => Answer::Lost { why: "the answer is not one to the request".into(), sent: true, told: false },
    })
}

fn settings(partitions: u32, retention_bytes: Option<u64>, retention_ms: Option<u64>) -> TopicSettings {
    TopicSettings { partitions, retention_bytes, retention_age: retention_ms.map(Duration::from_millis) }
}

fn fetch(from: u64, max_bytes: u32, wait_ms: u32) -> Fetch {
    Fetch { offset: Offset::new(from), max_bytes, max_wait: Duration::from_millis(wait_ms.into()) }
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

fn fetched(consumed: Consumed) -> Answer {
    Answer::Fetched {
        records: consumed.records.into_iter().map(seen).collect(),
        start: consumed.log_start.get(),
        end: consumed.log_end.get(),
    }
}

fn offset(at: At, found: FoundOffset) -> Answer {
    let timestamp = found.timestamp.map(Timestamp::get);
    match (at, timestamp) {
        (At::Time(_), None) => Answer::Offset(None),
        _ => Answer::Offset(Some((found.offset.get(), timestamp.unwrap_or(0)))),
    }
}

fn topics(topics: impl IntoIterator<Item = TopicInfo>) -> Answer {
    Answer::Topics(topics.into_iter().map(listed_topic).collect())
}

fn partitions(partitions: impl IntoIterator<Item = PartitionInfo>) -> Answer {
    Answer::Partitions(partitions.into_iter().map(listed_partition).collect())
}

fn listed_topic(topic: TopicInfo) -> ListedTopic {
    let TopicSettings { partitions, retention_bytes: bytes, retention_age } = topic.settings;
    ListedTopic { name: topic.name, partitions, own: Retention { bytes, age_ms: retention_age.map(millis) } }
}

fn listed_partition(partition: PartitionInfo) -> ListedPartition {
    ListedPartition {
        number: partition.number,
        start: partition.log_start.get(),
        end: partition.log_end.get(),
        bytes: partition.bytes,
        fenced: partition.fenced.is_some(),
        unopened: partition.unopened,
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

/// `topic` as the trace keeps it.
pub(super) fn name(topic: &str) -> Arc<str> {
    topic.into()
}

/// A duration as the trace keeps it.
pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
