//! What the tests on real sockets share: a server in this process, and the program itself as a process.
#![allow(dead_code, missing_docs, clippy::disallowed_methods)] // each test file uses a part of it, on the real machine

pub mod bench;
pub mod failing;
pub mod given;
pub mod late;
pub mod logged;
pub mod process;
pub mod told;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use broker::Broker;
use broker::broker::World;
use broker::client::{Client, Connection, Options, Outcome};
use broker::clock::SystemClock;
use broker::disk::OsDisk;
use broker::metrics::Metrics;
use broker::net::TcpConnector;
use broker::record::NewRecord;
use broker::server::{Limits, serve};
use broker::settings::{Settings, TopicSettings};
use broker::wire::proto::{self, request, response};
use broker::work::Threads;
use prost::Message;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Longer than anything here takes; a test that hangs fails.
pub const LONG: Duration = Duration::from_secs(20);

/// A server in this process, on a real directory and a real socket.
pub struct Server {
    pub addr: String,
    pub broker: Broker<OsDisk>,
    pub metrics: Arc<Metrics>,
    pub dir: TempDir,
    stop: CancellationToken,
    served: JoinHandle<Result<(), broker::error::Error>>,
}

pub fn open(dir: &Path, settings: Settings) -> Broker<OsDisk> {
    let world = World { disk: OsDisk, clock: Arc::new(SystemClock), work: Arc::new(Threads) };
    Broker::open(world, &dir.join("data"), settings, &|_, _, _| {}).expect("the directory can be opened").0
}

impl Server {
    pub async fn start() -> Self {
        Self::with(Settings::default(), Limits::default()).await
    }

    pub async fn with_limits(limits: Limits) -> Self {
        Self::with(Settings::default(), limits).await
    }

    pub async fn with(settings: Settings, limits: Limits) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let broker = open(dir.path(), settings);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let addr = listener.local_addr().expect("it has an address").to_string();
        let (stop, metrics) = (CancellationToken::new(), Arc::new(Metrics::new()));
        let served = tokio::spawn(serve(listener, broker.clone(), limits, stop.clone(), metrics.clone()));
        Self { addr, broker, metrics, dir, stop, served }
    }

    pub fn client(&self) -> Client<TcpConnector> {
        Client::new(TcpConnector, &self.addr, Options { request_timeout: LONG, ..Options::default() })
    }

    pub async fn topic(&self, name: &str, partitions: u32) {
        ok(self.client().create_topic(name, &TopicSettings::with_partitions(partitions)).await);
    }

    pub async fn connect(&self) -> Raw {
        Raw(TcpStream::connect(&self.addr).await.expect("the server listens"))
    }

    /// A connection of which the system takes little before the client does.
    pub async fn connect_taking_little(&self) -> Raw {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.set_recv_buffer_size(4 << 10).expect("it can be small");
        let addr = self.addr.parse().expect("an address");
        Raw(socket.connect(addr).await.expect("the server listens"))
    }

    pub async fn pipeline(&self) -> Connection<TcpStream> {
        let stream = TcpStream::connect(&self.addr).await.expect("the server listens");
        Connection::new(stream, 64 << 20)
    }

    /// Asks the server to stop, without waiting.
    pub fn begin_stop(&self) {
        self.stop.cancel();
    }

    /// Waits until the server has stopped. Gives its directory, to look into.
    pub async fn stopped(self) -> TempDir {
        let served = tokio::time::timeout(LONG, self.served).await.expect("the stop is bounded");
        served.expect("the server does not panic").expect("the stop is clean");
        self.dir
    }

    pub async fn stop(self) -> TempDir {
        self.begin_stop();
        self.stopped().await
    }
}

/// A connection on which anything can be sent.
pub struct Raw(pub TcpStream);

impl Raw {
    pub async fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).await.expect("the server reads");
    }

    pub async fn request(&mut self, kind: request::Kind) {
        self.send(&framed(kind)).await;
    }

    /// The next answer; `None` where the server has closed the connection.
    pub async fn answer(&mut self) -> Option<response::Kind> {
        let read = async {
            let len = self.0.read_u32().await.ok()?;
            let mut message = vec![0; len as usize];
            self.0.read_exact(&mut message).await.ok()?;
            Some(message)
        };
        let message = tokio::time::timeout(LONG, read).await.expect("the server answers or closes")?;
        let response = proto::Response::decode(&message[..]).expect("an answer is a Response");
        Some(response.kind.expect("an answer is of a kind"))
    }

    /// The code of the next answer, which is an error.
    pub async fn error(&mut self) -> proto::ErrorCode {
        match self.answer().await {
            Some(response::Kind::Error(error)) => {
                assert!(error.message.len() > 10, "an error explains itself");
                error.code()
            }
            other => panic!("an error was expected, and this came: {other:?}"),
        }
    }

    /// The server has closed the connection, and said nothing more.
    pub async fn assert_closed(&mut self) {
        let mut rest = [0; 64];
        let read = tokio::time::timeout(LONG, self.0.read(&mut rest)).await.expect("the server closes");
        // A reset closes as well.
        assert_eq!(read.unwrap_or(0), 0, "the server said more");
    }
}

pub fn framed(kind: request::Kind) -> Vec<u8> {
    let mut frame = Vec::new();
    broker::wire::put(&mut frame, &proto::Request::from(kind));
    frame
}

/// Any bytes, with a length before them.
pub fn frame_of(message: &[u8]) -> Vec<u8> {
    let mut frame = u32::try_from(message.len()).expect("short").to_be_bytes().to_vec();
    frame.extend_from_slice(message);
    frame
}

pub fn produce(topic: &str, values: &[&str]) -> request::Kind {
    let record = |value: &&str| proto::NewRecord { key: None, value: value.to_string().into() };
    let records = values.iter().map(record).collect();
    request::Kind::Produce(proto::ProduceRequest { topic: topic.into(), partition: None, records })
}

pub fn consume(topic: &str, partition: u32, offset: u64, max_wait_ms: u32) -> request::Kind {
    let topic = topic.into();
    request::Kind::Consume(proto::ConsumeRequest {
        topic,
        partition,
        offset,
        max_bytes: 1 << 20,
        max_wait_ms,
    })
}

pub fn record(value: impl Into<bytes::Bytes>) -> NewRecord {
    NewRecord { key: None, value: value.into() }
}

pub fn keyed(key: &'static str, value: &'static str) -> NewRecord {
    NewRecord { key: Some(key.into()), value: value.into() }
}

/// The answer that was acknowledged.
pub fn ok<T: std::fmt::Debug>(outcome: Outcome<T>) -> T {
    outcome.into_result().expect("this is acknowledged")
}

/// The code of what was refused.
pub fn refused<T: std::fmt::Debug>(outcome: Outcome<T>) -> broker::error::Code {
    match outcome {
        Outcome::Refused(refusal) => refusal.code,
        other => panic!("this was to be refused: {other:?}"),
    }
}

/// All values of a partition, from the start.
pub async fn values(client: &Client<TcpConnector>, topic: &str, partition: u32) -> Vec<bytes::Bytes> {
    use broker::client::Fetch;
    use broker::units::Offset;
    let (mut next, mut values) = (Offset::ZERO, Vec::new());
    loop {
        let consumed = ok(client.consume(topic, partition, Fetch::from(next)).await);
        for record in consumed.records {
            assert_eq!(record.offset, next, "offsets are dense");
            next = next.next();
            values.push(record.value);
        }
        if next == consumed.log_end {
            return values;
        }
    }
}
