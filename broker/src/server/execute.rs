//! Requests other than produce.

use std::future::Future;
use std::time::Duration;

use prost::Message;
use tokio::time::sleep;

use super::answer_memory::Reserved;
use super::answers::Answers;
use super::connection::Context;
use super::limits::OWN_BYTES;
use super::send::Answer;
use crate::disk::Disk;
use crate::error::Error;
use crate::metrics::Kind;
use crate::partition::{Fetched, Partition};
use crate::settings::TopicSettings;
use crate::units::{Offset, Timestamp};
use crate::wire::proto::{self, list_offsets_request::At, request, response};
use crate::wire::{self, PREFIX_BYTES};

/// What came of a request.
pub(super) enum Other {
    /// Records, still as they lie in the log, and the room that they take.
    Consumed(Fetched, Reserved),
    /// The frame of a list, and the room that it takes.
    List(Vec<u8>, Reserved),
    Response(proto::Response),
}

impl From<response::Kind> for Other {
    fn from(kind: response::Kind) -> Self {
        Self::Response(kind.into())
    }
}

/// Executes one request, behind these answers. It waits for records no longer than until `unwaited` ends, as it does when the
/// client sends no more: maybe it does not listen any more either.
pub(super) async fn other<D: Disk>(
    kind: request::Kind,
    context: &Context<D>,
    answers: &Answers<Answer<D>>,
    unwaited: impl Future<Output = ()>,
) -> Other {
    let (metric, answer) = match kind {
        request::Kind::Consume(request) => {
            context.metrics.requests(Kind::consume, 1);
            return match consume(request, context, answers, unwaited).await {
                Ok((fetched, share)) => {
                    context.metrics.bytes_consumed.inc_by(fetched.bytes.len() as u64);
                    Other::Consumed(fetched, share)
                }
                Err(e) => error(e, context),
            };
        }
        request::Kind::CreateTopic(request) => (Kind::create_topic, create_topic(request, context).await),
        request::Kind::DeleteTopic(request) => (Kind::delete_topic, delete_topic(request, context).await),
        request::Kind::ListTopics(_) => {
            (Kind::list_topics, list(|| Ok(list_topics(context)), context, answers).await)
        }
        request::Kind::ListPartitions(request) => {
            (Kind::list_partitions, list(|| list_partitions(&request, context), context, answers).await)
        }
        request::Kind::ListOffsets(request) => (Kind::list_offsets, list_offsets(request, context)),
        request::Kind::Produce(_) => unreachable!("produces are gathered by their connection"),
    };
    context.metrics.requests(metric, 1);
    answer.unwrap_or_else(|e| error(e, context))
}

fn error<D: Disk>(error: Error, context: &Context<D>) -> Other {
    context.metrics.error(error.code());
    Other::Response(proto::ErrorResponse::from(&error).into())
}

/// Reads; where there is nothing to read yet, waits for it, as long as the client wants and the limits allow.
///
/// A client that has gone and one that only sends no more look the same. Neither is waited for: the second gets its answer at
/// once, and with the first, the answer finds out.
async fn consume<D: Disk>(
    request: proto::ConsumeRequest,
    context: &Context<D>,
    answers: &Answers<Answer<D>>,
    unwaited: impl Future<Output = ()>,
) -> Result<(Fetched, Reserved), Error> {
    let topic = context.broker.topic(&request.topic)?;
    let partition = topic.partition(request.partition)?;
    let offset = Offset::new(request.offset);
    let max_bytes = (request.max_bytes as usize).min(context.limits.fetch_bytes);
    let (fetched, share) = fetch(partition, offset, max_bytes, context, answers).await?;
    let wait = Duration::from_millis(request.max_wait_ms.into()).min(context.limits.wait);
    if !fetched.bytes.is_empty() || wait.is_zero() {
        return Ok((fetched, share));
    }
    tokio::select! {
        biased;
        () = context.stop.cancelled() => {}
        () = partition.readable(offset) => {}
        () = sleep(wait) => {}
        () = unwaited => {}
    }
    fetch(partition, offset, max_bytes, context, answers).await
}

/// Reads what there is room for. Nothing takes room before all answers before it have been sent: a client that is slow to take
/// those would keep it from others meanwhile.
async fn fetch<D: Disk>(
    partition: &Partition<D>,
    offset: Offset,
    max_bytes: usize,
    context: &Context<D>,
    answers: &Answers<Answer<D>>,
) -> Result<(Fetched, Reserved), Error> {
    if max_bytes > OWN_BYTES && !answers.all_sent() {
        // What is there may be little, and needs no room then.
        let fetched = partition.read(offset, OWN_BYTES)?;
        if fetched.next == fetched.range.end && fetched.bytes.len() <= OWN_BYTES {
            return Ok((fetched, Reserved::default()));
        }
        drop(fetched);
        answers.until_all_sent().await;
    }
    let (max_bytes, mut share) = context.room.take(max_bytes);
    let fetched = partition.read(offset, max_bytes)?;
    let bytes = fetched.bytes.len();
    if share.fit(bytes) {
        return Ok((fetched, share));
    }
    // A single record, longer than what was asked for or there was room for. While it waits, its memory is not taken.
    drop((fetched, share));
    let share = wait_for_room(bytes, context, answers).await?;
    Ok((partition.read(offset, bytes)?, share))
}

/// Answers with a list, encoded at once: it takes many times as much memory until it is. A long one waits for room.
async fn list<D: Disk>(
    make: impl Fn() -> Result<response::Kind, Error>,
    context: &Context<D>,
    answers: &Answers<Answer<D>>,
) -> Result<Other, Error> {
    let mut response = proto::Response::from(make()?);
    let bytes = response.encoded_len();
    let mut room = Reserved::default();
    if bytes > OWN_BYTES {
        // While it waits, its memory is not taken.
        drop(response);
        room = wait_for_room(bytes, context, answers).await?;
        response = make()?.into();
    }
    let mut frame = Vec::with_capacity(PREFIX_BYTES + bytes);
    wire::put(&mut frame, &response);
    Ok(Other::List(frame, room))
}

/// Waits until all answers before have been sent, and then for room for one that cannot be shorter.
async fn wait_for_room<D: Disk>(
    bytes: usize,
    context: &Context<D>,
    answers: &Answers<Answer<D>>,
) -> Result<Reserved, Error> {
    answers.until_all_sent().await;
    tokio::select! {
        biased;
        () = context.stop.cancelled() => Err(Error::ShuttingDown),
        room = context.room.wait(bytes) => Ok(room),
    }
}

async fn create_topic<D: Disk>(
    request: proto::CreateTopicRequest,
    context: &Context<D>,
) -> Result<Other, Error> {
    let name = request.name.clone();
    context.broker.create_topic(&name, TopicSettings::from(request)).await?;
    tracing::info!("topic {name:?} was created");
    Ok(response::Kind::CreateTopic(proto::CreateTopicResponse {}).into())
}

async fn delete_topic<D: Disk>(
    request: proto::DeleteTopicRequest,
    context: &Context<D>,
) -> Result<Other, Error> {
    context.broker.delete_topic(&request.name).await?;
    tracing::info!("topic {:?} was deleted", request.name);
    Ok(response::Kind::DeleteTopic(proto::DeleteTopicResponse {}).into())
}

fn list_topics<D: Disk>(context: &Context<D>) -> response::Kind {
    let topics = context.broker.topics();
    let topics = topics.iter().map(|topic| proto::Topic::new(topic.name(), topic.settings())).collect();
    response::Kind::ListTopics(proto::ListTopicsResponse { topics })
}

fn list_partitions<D: Disk>(
    request: &proto::ListPartitionsRequest,
    context: &Context<D>,
) -> Result<response::Kind, Error> {
    let topic = context.broker.topic(&request.topic)?;
    let partition = |number| {
        let partition = topic.partition(number)?;
        let range = match partition.range() {
            Err(gone @ Error::Deleted { .. }) => return Err(gone),
            range => range.ok(),
        };
        Ok(proto::Partition {
            number,
            log_start_offset: range.map_or(0, |range| range.start.get()),
            log_end_offset: range.map_or(0, |range| range.end.get()),
            bytes: partition.bytes(),
            fenced: partition.fenced(),
            unopened: range.is_none(),
            refusing: partition.refusing(),
        })
    };
    let partitions = (0..topic.partition_count()).map(partition).collect::<Result<_, Error>>()?;
    Ok(response::Kind::ListPartitions(proto::ListPartitionsResponse { partitions }))
}

fn list_offsets<D: Disk>(request: proto::ListOffsetsRequest, context: &Context<D>) -> Result<Other, Error> {
    let topic = context.broker.topic(&request.topic)?;
    let partition = topic.partition(request.partition)?;
    let (offset, timestamp) = match request.at {
        Some(At::Earliest(_)) => (partition.range()?.start, None),
        Some(At::Latest(_)) => (partition.latest()?, None),
        Some(At::TimestampMs(at)) => {
            // Before the lookup: whoever reads on from there must not miss a record that comes meanwhile.
            let latest = partition.latest();
            match partition.first_at_or_after(Timestamp::from_millis(at))? {
                Some((offset, timestamp)) => (offset, Some(timestamp)),
                None => (latest?, None),
            }
        }
        None => {
            let what = "which offset? one of earliest, latest, timestamp_ms has to be set".into();
            return Err(Error::InvalidRequest { what });
        }
    };
    let found =
        proto::ListOffsetsResponse { offset: offset.get(), timestamp_ms: timestamp.map(Timestamp::get) };
    Ok(response::Kind::ListOffsets(found).into())
}
