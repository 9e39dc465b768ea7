//! How long a request holds the memory that long requests share. In a simulated network, by a clock that goes on when nobody
//! has anything to do.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use broker::Broker;
use broker::broker::World;
use broker::clock::SystemClock;
use broker::disk::OsDisk;
use broker::server::{Limits, serve};
use broker::settings::{Settings, TopicSettings};
use broker::wire::proto::{self, request, response};
use prost::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use common::bench::Held;
use common::given::Given;
use common::{LONG, consume, framed, produce};

/// A server with two topics, `a` and `b`, and segments of one record.
struct Server {
    wires: UnboundedSender<DuplexStream>,
    work: Held,
    _dir: tempfile::TempDir,
}

impl Server {
    async fn start(limits: Limits) -> Self {
        let (dir, work) = (tempfile::tempdir().unwrap(), Held::default());
        let world = World { disk: OsDisk, clock: Arc::new(SystemClock), work: Arc::new(work.clone()) };
        let settings = Settings { segment_bytes: 1, ..Settings::default() };
        let (broker, _) = Broker::open(world, dir.path(), settings, &|_, _, _| {}).unwrap();
        for topic in ["a", "b"] {
            broker.create_topic(topic, TopicSettings::with_partitions(1)).await.unwrap();
        }
        let (wires, taken) = unbounded_channel();
        tokio::spawn(serve(Given(taken), broker, limits, CancellationToken::new(), Arc::default()));
        Self { wires, work, _dir: dir }
    }

    fn connect(&self) -> Client {
        self.connect_over(1 << 20)
    }

    /// By a wire that holds so many bytes, either way.
    fn connect_over(&self, bytes: usize) -> Client {
        let (ours, theirs) = tokio::io::duplex(bytes);
        self.wires.send(theirs).unwrap();
        Client(ours)
    }
}

struct Client(DuplexStream);

impl Client {
    async fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).await.unwrap();
    }

    async fn answer(&mut self) -> response::Kind {
        let len = self.0.read_u32().await.unwrap();
        let mut message = vec![0; len as usize];
        self.0.read_exact(&mut message).await.unwrap();
        proto::Response::decode(&message[..]).unwrap().kind.unwrap()
    }

    async fn stored(&mut self) {
        assert!(matches!(timeout(LONG, self.answer()).await.unwrap(), response::Kind::Produce(_)));
    }
}

fn produced(topic: &str, bytes: usize) -> Vec<u8> {
    framed(produce(topic, &[&"x".repeat(bytes)]))
}

fn long(topic: &str) -> Vec<u8> {
    produced(topic, 500_000)
}

/// Where an append waits for the disk, its records are in memory, and no other may take that.
#[tokio::test(start_paused = true)]
async fn a_long_request_holds_its_memory_until_it_is_in_the_log() {
    // Room for one.
    let server = Server::start(Limits { frame_bytes: 1 << 20, buffer_bytes: 0, ..Limits::default() }).await;
    let (mut one, mut two) = (server.connect(), server.connect());
    one.send(&framed(produce("a", &["fills the segment"]))).await;
    one.stored().await;

    server.work.holds.store(true, Ordering::Relaxed);
    one.send(&long("a")).await;
    assert!(timeout(Duration::from_secs(5), one.answer()).await.is_err(), "the roll goes on");
    two.send(&long("b")).await;
    assert!(timeout(Duration::from_secs(5), two.answer()).await.is_err(), "there is no room for it");

    server.work.holds.store(false, Ordering::Relaxed);
    server.work.go_on.notify_waiters();
    one.stored().await;
    two.stored().await;
}

/// But not while its client takes no answers.
#[tokio::test(start_paused = true)]
async fn a_long_request_that_is_in_the_log_holds_no_memory() {
    let server = Server::start(Limits {
        frame_bytes: 1 << 20,
        buffer_bytes: 0,
        in_flight_bytes: 1,
        ..Limits::default()
    })
    .await;
    let (mut deaf, mut two) = (server.connect_over(1 << 16), server.connect());
    deaf.send(&produced("a", 60_000)).await;
    deaf.stored().await;
    // Its client takes none of these answers, which are more than the wire holds.
    deaf.send(&framed(consume("a", 0, 0, 0)).repeat(2)).await;
    deaf.send(&long("a")).await;
    two.send(&long("b")).await;
    two.stored().await;
}

#[tokio::test(start_paused = true)]
async fn a_consume_that_waits_holds_none_of_it() {
    let hour = Duration::from_secs(3600);
    let server = Server::start(Limits { wait: hour, idle: 2 * hour, ..Limits::default() }).await;
    let mut client = server.connect();
    // Its buffer is a long one in the end, and all but empty.
    for bytes in [500_000, 300_000, 1] {
        client.send(&produced("a", bytes)).await;
        client.stored().await;
    }
    let list = framed(request::Kind::ListTopics(proto::ListTopicsRequest {}));

    let begun = Instant::now();
    let waits = framed(consume("a", 0, 3, 3_600_000));
    client.send(&[waits.clone(), list.repeat(60_000)].concat()).await;
    assert!(matches!(client.answer().await, response::Kind::Consume(_)));
    assert!(begun.elapsed() < hour, "what came behind it takes up more than its connection's own memory");
    for _ in 0..60_000 {
        client.answer().await;
    }
    client.send(&waits).await;
    assert!(matches!(client.answer().await, response::Kind::Consume(_)));
    assert!(begun.elapsed() >= hour, "nothing came behind it");
}

/// One that sends long requests without a pause gives way after each of them: others that send long ones have their turn, and those
/// that send short ones do not even wait for it.
#[tokio::test]
async fn a_stream_of_long_requests_keeps_out_nobody() {
    const REQUESTS: usize = 150;
    // Room for one long request.
    let server = Server::start(Limits { frame_bytes: 1 << 20, buffer_bytes: 0, ..Limits::default() }).await;
    let stored = Arc::new(AtomicUsize::new(0));
    let (mut answers, mut requests) = tokio::io::split(server.connect().0);
    let streamed = tokio::spawn({
        let stored = stored.clone();
        async move {
            let sends = async {
                for _ in 0..REQUESTS {
                    requests.write_all(&produced("a", 200_000)).await.unwrap();
                }
            };
            let takes = async {
                while stored.fetch_add(1, Ordering::Relaxed) < REQUESTS - 1 {
                    let len = answers.read_u32().await.unwrap();
                    answers.read_exact(&mut vec![0; len as usize]).await.unwrap();
                }
            };
            tokio::join!(sends, takes)
        }
    });
    let begins = async {
        while stored.load(Ordering::Relaxed) == 0 {
            tokio::task::yield_now().await;
        }
    };
    timeout(LONG, begins).await.expect("they are stored");
    let [mut long, mut short] = [server.connect(), server.connect()];
    for _ in 0..3 {
        let mut waited = [0; 2];
        for ((client, bytes), waited) in
            [(&mut long, 100_000), (&mut short, 50_000)].into_iter().zip(&mut waited)
        {
            let before = stored.load(Ordering::Relaxed);
            client.send(&produced("b", bytes)).await;
            client.stored().await;
            *waited = stored.load(Ordering::Relaxed) - before;
        }
        // The short one has waited for its turn of the processor, and so has the long one: for memory it waits for one of them.
        let [long, short] = waited;
        assert!(long <= short + 5, "it has waited for {long} of the others, and a short one for {short}");
    }
    assert!(stored.load(Ordering::Relaxed) < REQUESTS, "the stream goes on");
    streamed.await.unwrap();
}
