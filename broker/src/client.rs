//! The client: what a program needs to use a broker, over any [`Connector`].
//!
//! Of a request, a client knows one of three things, and [`Outcome`] keeps them apart: it was **acknowledged**; it was
//! **refused**, and certainly changed nothing; or the connection went, or the time ran out, and it is **unknown**. A
//! record whose produce is unknown may be in the log once, or not at all, so the client never sends it again by itself:
//! that is for the caller to decide.
//!
//! A [`Client`] has one request in flight and connects when it needs to. After a failure, the next call connects anew,
//! no sooner than the backoff allows. [`Connection`] is the layer below, for pipelines: send many, then receive.
//!
//! Timers are tokio's and there is no randomness: in a simulation, a client's behaviour is a function of the seed.

mod connection;
mod types;

pub use connection::{Connection, Produced};
pub use types::{
    At, Consumed, Doubt, Failure, Fetch, FoundOffset, Options, Outcome, PartitionInfo, Placed, Refusal,
    TopicInfo,
};

use std::time::Duration;

use tokio::sync::Mutex;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep_until, timeout};

use crate::error::Code;
use crate::net::Connector;
use crate::record::NewRecord;
use crate::settings::TopicSettings;
use crate::wire::proto::{self, list_offsets_request, request, response};

/// A broker's client. Calls may come from several tasks; each waits for the one before.
#[derive(Debug)]
pub struct Client<C: Connector> {
    connector: C,
    addr: String,
    options: Options,
    link: Mutex<Link<C::Stream>>,
}

/// The connection, where there is one, and when the next attempt at one may be.
#[derive(Debug)]
struct Link<S> {
    connection: Option<Connection<S>>,
    failures: u32,
    not_before: Option<Instant>,
}

impl<C: Connector> Client<C> {
    /// A client of the server at `addr` (`host:port`). Connects at the first call.
    pub fn new(connector: C, addr: impl Into<String>, options: Options) -> Self {
        let link = Link { connection: None, failures: 0, not_before: None };
        Self { connector, addr: addr.into(), options, link: Mutex::new(link) }
    }

    /// Appends one record: to `partition`, or where its key says, or, without a key, to the partitions in turn.
    pub async fn produce(&self, topic: &str, partition: Option<u32>, record: NewRecord) -> Outcome<Placed> {
        let mut outcomes = self.produce_batch(topic, partition, std::slice::from_ref(&record)).await;
        outcomes.pop().unwrap_or_else(|| Outcome::unanswered("no record, no answer"))
    }

    /// Appends records in one request. The outcomes are theirs, in their order: those of one partition share one, but
    /// the partitions of one request may fare differently.
    pub async fn produce_batch(
        &self,
        topic: &str,
        partition: Option<u32>,
        records: &[NewRecord],
    ) -> Vec<Outcome<Placed>> {
        let pairs = records.iter().map(|r| (r.key.as_deref(), &r.value[..]));
        if let Some(message) = connection::too_long(topic, pairs.clone()) {
            return vec![Outcome::Refused(Refusal { code: Code::FrameTooLarge, message }); records.len()];
        }
        let answer = self
            .exchange(Duration::ZERO, |connection| connection.send_produce(topic, partition, pairs.clone()))
            .await;
        types::produce_outcomes(answer, records.len())
    }

    /// Reads records of a partition.
    pub async fn consume(&self, topic: &str, partition: u32, fetch: Fetch) -> Outcome<Consumed> {
        let request = fetch.request(topic, partition);
        self.call(fetch.max_wait, request::Kind::Consume(request), |kind| match kind {
            response::Kind::Consume(consumed) => Some(consumed.into()),
            _ => None,
        })
        .await
    }

    /// Makes a topic.
    pub async fn create_topic(&self, name: &str, settings: &TopicSettings) -> Outcome<()> {
        let request = proto::CreateTopicRequest::new(name, settings);
        self.call(Duration::ZERO, request::Kind::CreateTopic(request), |kind| {
            matches!(kind, response::Kind::CreateTopic(_)).then_some(())
        })
        .await
    }

    /// Deletes a topic and all it holds.
    pub async fn delete_topic(&self, name: &str) -> Outcome<()> {
        let request = proto::DeleteTopicRequest { name: name.to_owned() };
        self.call(Duration::ZERO, request::Kind::DeleteTopic(request), |kind| {
            matches!(kind, response::Kind::DeleteTopic(_)).then_some(())
        })
        .await
    }

    /// All topics, by name.
    pub async fn topics(&self) -> Outcome<Vec<TopicInfo>> {
        let request = proto::ListTopicsRequest {};
        self.call(Duration::ZERO, request::Kind::ListTopics(request), |kind| match kind {
            response::Kind::ListTopics(list) => Some(list.topics.into_iter().map(TopicInfo::from).collect()),
            _ => None,
        })
        .await
    }

    /// The partitions of a topic, by number.
    pub async fn partitions(&self, topic: &str) -> Outcome<Vec<PartitionInfo>> {
        let request = proto::ListPartitionsRequest { topic: topic.to_owned() };
        self.call(Duration::ZERO, request::Kind::ListPartitions(request), |kind| match kind {
            response::Kind::ListPartitions(list) => {
                Some(list.partitions.into_iter().map(PartitionInfo::from).collect())
            }
            _ => None,
        })
        .await
    }

    /// Finds an offset.
    pub async fn list_offsets(&self, topic: &str, partition: u32, at: At) -> Outcome<FoundOffset> {
        let at = match at {
            At::Earliest => list_offsets_request::At::Earliest(proto::Earliest {}),
            At::Latest => list_offsets_request::At::Latest(proto::Latest {}),
            At::Timestamp(timestamp) => list_offsets_request::At::TimestampMs(timestamp.get()),
        };
        let request = proto::ListOffsetsRequest { topic: topic.to_owned(), partition, at: Some(at) };
        self.call(Duration::ZERO, request::Kind::ListOffsets(request), |kind| match kind {
            response::Kind::ListOffsets(found) => Some(found.into()),
            _ => None,
        })
        .await
    }

    async fn call<T>(
        &self,
        wait: Duration,
        request: request::Kind,
        read: impl FnOnce(response::Kind) -> Option<T>,
    ) -> Outcome<T> {
        let request = request.into();
        let answer = self.exchange(wait, |connection| connection.send(&request)).await;
        answer.and_then(|kind| {
            let answer = read(kind);
            answer.map_or_else(
                || Outcome::unanswered("the answer is not one to the request"),
                Outcome::Acknowledged,
            )
        })
    }

    /// Sends one request and waits for its answer: the request timeout, and `wait` on top.
    ///
    /// On a connection that has been used before, the server may have said already that it was idle for too long, or say so while
    /// the request is on its way. Then nothing was done of this one, and it is sent once more; also where the server has given it up for
    /// coming in too slowly, which it says in the same words.
    async fn exchange(
        &self,
        wait: Duration,
        send: impl Fn(&mut Connection<C::Stream>),
    ) -> Outcome<response::Kind> {
        let mut link = self.link.lock().await;
        // Taken out while in use: when this call is dropped half way, an answer that nobody reads goes with it.
        let mut used = link.connection.take();
        if used.is_some() {
            // A program that has done something else meanwhile, such as to wait until its output is taken, has not heard of anything
            // that came of the network: that takes a turn of the runtime.
            yield_now().await;
        }
        if let Some(connection) = used.take_if(|connection| connection.is_fresh()) {
            match self.exchange_over(connection, &mut link, wait, &send).await {
                Outcome::Refused(refusal) if refusal.code == Code::Timeout => link.connection = None,
                outcome => return outcome,
            }
        }
        match self.connect(&mut link).await {
            Ok(connection) => self.exchange_over(connection, &mut link, wait, &send).await,
            Err(refusal) => Outcome::Refused(refusal),
        }
    }

    /// The same over this connection, which is kept where an answer comes.
    async fn exchange_over(
        &self,
        mut connection: Connection<C::Stream>,
        link: &mut Link<C::Stream>,
        wait: Duration,
        send: impl Fn(&mut Connection<C::Stream>),
    ) -> Outcome<response::Kind> {
        send(&mut connection);
        let limit = self.options.request_timeout.saturating_add(wait);
        match timeout(limit, connection.receive()).await {
            Ok(Ok(response)) => {
                link.connection = Some(connection);
                Outcome::of(response)
            }
            Ok(Err(e)) => Outcome::unanswered(format!("the connection to {} was lost: {e}", self.addr)),
            Err(_) => Outcome::unanswered(format!("no answer from {} within {limit:?}", self.addr)),
        }
    }

    /// Connects, no sooner than the backoff allows.
    async fn connect(&self, link: &mut Link<C::Stream>) -> Result<Connection<C::Stream>, Refusal> {
        if let Some(not_before) = link.not_before {
            sleep_until(not_before).await;
        }
        let attempt = timeout(self.options.connect_timeout, self.connector.connect(&self.addr)).await;
        let reason = match attempt {
            Ok(Ok(stream)) => {
                (link.failures, link.not_before) = (0, None);
                return Ok(Connection::new(stream, self.options.frame_bytes));
            }
            Ok(Err(e)) => e.to_string(),
            Err(_) => format!("no answer within {:?}", self.options.connect_timeout),
        };
        link.not_before = Some(Instant::now() + self.options.backoff(link.failures));
        link.failures = link.failures.saturating_add(1);
        let message = format!("cannot connect to {}: {reason}", self.addr);
        Err(Refusal { code: Code::Unavailable, message })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;
    use std::sync::{Arc, Mutex as SyncMutex};

    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

    /// Whether somebody is there, at each attempt; who is answers one request and goes. Keeps when the attempts were.
    #[derive(Clone, Debug)]
    struct NowAndThen(Arc<SyncMutex<(Vec<bool>, Vec<Instant>)>>);

    impl Connector for NowAndThen {
        type Stream = DuplexStream;

        async fn connect(&self, _: &str) -> io::Result<DuplexStream> {
            let is_there = {
                let (there, attempts) = &mut *self.0.lock().expect("it is free");
                attempts.push(Instant::now());
                there.remove(0)
            };
            let (ours, mut theirs) = tokio::io::duplex(1 << 10);
            let answers = async move {
                let len = theirs.read_u32().await?;
                theirs.read_exact(&mut vec![0; len as usize]).await?;
                let mut frame = Vec::new();
                let none = response::Kind::ListTopics(proto::ListTopicsResponse::default());
                crate::wire::put(&mut frame, &proto::Response::from(none));
                theirs.write_all(&frame).await
            };
            if !is_there {
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            tokio::spawn(answers);
            Ok(ours)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_pauses_between_attempts_grow_until_one_succeeds() {
        let there = vec![false, false, false, true, false, false];
        let connector = NowAndThen(Arc::new(SyncMutex::new((there, Vec::new()))));
        let client = Client::new(connector.clone(), "there:1", Options::default());
        for is_there in [false, false, false, true, false, false] {
            assert_eq!(matches!(client.topics().await, Outcome::Acknowledged(_)), is_there);
        }
        let attempts = connector.0.lock().expect("it is free").1.clone();
        let pauses: Vec<_> = attempts.windows(2).map(|two| (two[1] - two[0]).as_millis()).collect();
        assert_eq!(pauses, [50, 100, 200, 0, 50]);
    }
}
