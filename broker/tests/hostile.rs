//! No client can make the server panic, hang, hold more than its limits, or stop serving the others.

mod common;

use std::time::Duration;

use broker::client::{Fetch, Outcome};
use broker::error::Code;
use broker::server::Limits;
use broker::settings::TopicSettings;
use broker::units::Offset;
use broker::wire::proto::{self, ErrorCode, request, response};
use bytes::Bytes;
use common::{LONG, Raw, Server, consume, frame_of, framed, ok, produce, record};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use prost::Message;
use tokio::io::AsyncWriteExt;

const SHORT: Duration = Duration::from_millis(150);

/// A small server, and limits that are reached soon.
fn limits() -> Limits {
    Limits { frame_bytes: 4096, wait: SHORT, ..Limits::default() }
}

/// On a topic of its own: one changed byte can make a valid request that deletes another.
async fn assert_serves(server: &Server) {
    let client = server.client();
    let created = client.create_topic("of-the-others", &TopicSettings::with_partitions(1)).await;
    if let Outcome::Refused(refusal) = created {
        assert_eq!(refusal.code, Code::TopicExists);
    }
    ok(client.produce("of-the-others", None, record("still here")).await);
}

#[tokio::test]
async fn a_length_over_the_limit_is_refused_before_anything_is_reserved() {
    let server = Server::with_limits(limits()).await;
    server.topic("t", 1).await;
    for prefix in [4097u32, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, u32::from_be_bytes(*b"GET "), 0x1603_0100]
    {
        let mut raw = server.connect().await;
        raw.send(&prefix.to_be_bytes()).await;
        assert_eq!(raw.error().await, ErrorCode::FrameTooLarge, "{prefix:#x}");
        raw.assert_closed().await;
    }
    for prefix in [1u32, 4095, 4096] {
        let mut raw = server.connect().await;
        raw.send(&prefix.to_be_bytes()).await;
        raw.send(&vec![0; prefix as usize]).await;
        assert_eq!(raw.error().await, ErrorCode::InvalidRequest, "{prefix}: no message is made of zeros");
        raw.request(request::Kind::ListTopics(proto::ListTopicsRequest {})).await;
        assert!(
            matches!(raw.answer().await, Some(response::Kind::ListTopics(_))),
            "the frame was whole: it goes on"
        );
    }
    assert_serves(&server).await;
    server.stop().await;
}

#[tokio::test]
async fn a_message_of_no_known_kind_is_an_error_and_the_connection_goes_on() {
    let server = Server::start().await;
    let mut raw = server.connect().await;
    // Nothing, and a kind of request that a later version may have.
    for message in [&b""[..], &[14 << 3 | 2, 2, 8, 1]] {
        raw.send(&frame_of(message)).await;
        assert_eq!(raw.error().await, ErrorCode::InvalidRequest);
    }
    raw.request(request::Kind::ListTopics(proto::ListTopicsRequest {})).await;
    assert!(matches!(raw.answer().await, Some(response::Kind::ListTopics(_))));
    server.stop().await;
}

fn any_request() -> impl Strategy<Value = request::Kind> {
    let name = || prop_oneof![Just("t".to_owned()), "[a-z./é]{0,6}"];
    let record = (proptest::option::of(any::<Vec<u8>>()), any::<Vec<u8>>())
        .prop_map(|(key, value)| proto::NewRecord { key: key.map(Bytes::from), value: Bytes::from(value) });
    let produce = (name(), proptest::option::of(0..4u32), proptest::collection::vec(record, 0..3))
        .prop_map(|(topic, partition, records)| proto::ProduceRequest { topic, partition, records });
    let consume =
        (name(), 0..4u32, 0..9u64, any::<u32>()).prop_map(|(topic, partition, offset, max_bytes)| {
            proto::ConsumeRequest { topic, partition, offset, max_bytes, max_wait_ms: 1 }
        });
    prop_oneof![
        produce.prop_map(request::Kind::Produce),
        consume.prop_map(request::Kind::Consume),
        name().prop_map(|topic| request::Kind::ListPartitions(proto::ListPartitionsRequest { topic })),
        name().prop_map(|topic| request::Kind::ListOffsets(proto::ListOffsetsRequest {
            topic,
            partition: 0,
            at: None
        })),
        Just(request::Kind::ListTopics(proto::ListTopicsRequest {})),
    ]
}

/// What one frame of a hostile client is.
#[derive(Clone, Debug)]
enum Hostile {
    Valid(request::Kind),
    /// A whole frame whose message was cut off.
    Cut(request::Kind, prop::sample::Index),
    /// A whole frame with a byte changed.
    Changed(request::Kind, prop::sample::Index, u8),
    /// A whole frame with bytes behind its message.
    Trailing(request::Kind, Vec<u8>),
    Noise(Vec<u8>),
}

fn hostile() -> impl Strategy<Value = Hostile> {
    prop_oneof![
        any_request().prop_map(Hostile::Valid),
        (any_request(), any::<prop::sample::Index>()).prop_map(|(r, at)| Hostile::Cut(r, at)),
        (any_request(), any::<prop::sample::Index>(), any::<u8>())
            .prop_map(|(r, at, b)| Hostile::Changed(r, at, b)),
        (any_request(), proptest::collection::vec(any::<u8>(), 1..4))
            .prop_map(|(r, t)| Hostile::Trailing(r, t)),
        proptest::collection::vec(any::<u8>(), 0..100).prop_map(Hostile::Noise),
    ]
}

impl Hostile {
    fn message(&self) -> Vec<u8> {
        let encoded = |kind: &request::Kind| proto::Request::from(kind.clone()).encode_to_vec();
        match self {
            Hostile::Valid(kind) => encoded(kind),
            Hostile::Cut(kind, at) => {
                let mut message = encoded(kind);
                message.truncate(at.index(message.len() + 1));
                message
            }
            Hostile::Changed(kind, at, byte) => {
                let mut message = encoded(kind);
                if !message.is_empty() {
                    let at = at.index(message.len());
                    message[at] = *byte;
                }
                message
            }
            Hostile::Trailing(kind, more) => [encoded(kind), more.clone()].concat(),
            Hostile::Noise(noise) => noise.clone(),
        }
    }
}

/// Each whole frame is answered once, whatever is in it, in whatever pieces it comes; and the others are served.
#[test]
fn each_whole_frame_gets_one_answer_whatever_is_in_it() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let server = runtime.block_on(async {
        let server = Server::with_limits(limits()).await;
        server.topic("t", 2).await;
        server
    });
    let frames = proptest::collection::vec(hostile(), 1..12);
    let cuts = proptest::collection::vec(any::<prop::sample::Index>(), 0..6);
    let mut runner = TestRunner::new(Config { cases: 128, ..Config::default() });
    runner
        .run(&(frames, cuts), |(frames, cuts)| {
            runtime.block_on(async {
                let bytes: Vec<u8> = frames.iter().flat_map(|f| frame_of(&f.message())).collect();
                let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(bytes.len())).collect();
                cuts.extend([0, bytes.len()]);
                cuts.sort_unstable();
                let mut raw = server.connect().await;
                for piece in cuts.windows(2) {
                    raw.send(&bytes[piece[0]..piece[1]]).await;
                    tokio::task::yield_now().await;
                }
                for frame in &frames {
                    let answer = raw.answer().await;
                    prop_assert!(answer.is_some(), "no answer to {frame:?}");
                    if matches!(frame, Hostile::Valid(request::Kind::ListTopics(_))) {
                        prop_assert!(
                            matches!(answer, Some(response::Kind::ListTopics(_))),
                            "out of order: {answer:?}"
                        );
                    }
                }
                raw.0.shutdown().await.expect("the connection is open");
                raw.assert_closed().await;
                Ok(())
            })
        })
        .unwrap();
    runtime.block_on(async {
        assert_serves(&server).await;
        server.stop().await;
    });
}

/// Bytes that are not even frames: the connection ends, the server does not.
#[test]
fn any_bytes_at_all_end_in_answers_and_a_close() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let server = runtime.block_on(async {
        let server = Server::with_limits(limits()).await;
        server.topic("t", 1).await;
        server
    });
    let mut runner = TestRunner::new(Config { cases: 64, ..Config::default() });
    runner
        .run(&proptest::collection::vec(any::<u8>(), 0..300), |bytes| {
            runtime.block_on(async {
                let mut raw = server.connect().await;
                // The server may close before it has taken everything.
                let _ = raw.0.write_all(&bytes).await;
                let _ = raw.0.shutdown().await;
                while raw.answer().await.is_some() {}
                Ok(())
            })
        })
        .unwrap();
    runtime.block_on(async {
        assert_serves(&server).await;
        server.stop().await;
    });
}

#[tokio::test]
async fn a_stream_that_ends_within_a_message_is_told_apart_from_one_that_ends() {
    let server = Server::start().await;
    let mut clean = server.connect().await;
    clean.request(request::Kind::ListTopics(proto::ListTopicsRequest {})).await;
    clean.0.shutdown().await.unwrap();
    assert!(
        matches!(clean.answer().await, Some(response::Kind::ListTopics(_))),
        "a half-closed client is answered"
    );
    clean.assert_closed().await;

    let mut broken = server.connect().await;
    let frame = framed(produce("t", &["value"]));
    broken.send(&frame[..frame.len() - 1]).await;
    broken.0.shutdown().await.unwrap();
    assert_eq!(broken.error().await, ErrorCode::InvalidRequest);
    broken.assert_closed().await;
    server.stop().await;
}

#[tokio::test]
async fn idle_and_slow_connections_are_told_and_closed_and_a_good_client_gets_their_place() {
    let limits = Limits { connections: 3, idle: SHORT, frame_time: SHORT, ..Limits::default() };
    let server = Server::with_limits(limits).await;
    let mut idle = server.connect().await;
    let mut slow = server.connect().await;
    slow.send(&[0, 0, 1]).await;
    let mut slower = server.connect().await;
    slower.send(&frame_of(&[0; 100])[..50]).await;

    let mut one_more = server.connect().await;
    assert_eq!(one_more.error().await, ErrorCode::TooManyConnections);
    one_more.assert_closed().await;
    let counted = || (server.metrics.connections.get(), server.metrics.connections_accepted.get());
    assert_eq!((counted(), server.metrics.connections_refused.get()), ((3, 3), 1));

    for raw in [&mut idle, &mut slow, &mut slower] {
        assert_eq!(raw.error().await, ErrorCode::Timeout);
        raw.assert_closed().await;
    }
    drop((idle, slow, slower));
    assert_has_place(&server).await;
    let metrics = server.metrics.clone();
    server.stop().await;
    assert_eq!(metrics.connections.get(), 0, "none is open any more");
    assert!(metrics.connections_accepted.get() > 3);
    let text = metrics.text(&broker::stats::Stats::default());
    assert!(text.contains("\nbroker_errors_total{code=\"TIMEOUT\"} 3\n"), "{text}");
}

async fn refused_for_now(server: &Server) -> bool {
    matches!(server.client().topics().await, Outcome::Refused(r) if r.code == Code::TooManyConnections)
}

async fn assert_has_place(server: &Server) {
    let free = async {
        while refused_for_now(server).await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(LONG, free).await.expect("places are given back");
}

/// A wait for records that may still take hours.
fn patient() -> Limits {
    Limits { connections: 4, wait: Duration::from_secs(36_000), ..Limits::default() }
}

/// Closed or reset, with nothing or much behind the request: nobody waits for records on behalf of a client that is gone.
#[tokio::test]
async fn a_client_that_goes_while_it_waits_for_records_gives_its_place_back() {
    let server = Server::with_limits(patient()).await;
    server.topic("t", 1).await;
    let request = framed(consume("t", 0, 0, u32::MAX));
    for resets in [false, true] {
        for requests in [1, 1000] {
            let mut waiting = Vec::new();
            for _ in 0..4 {
                let mut raw = server.connect().await;
                raw.send(&request.repeat(requests)).await;
                waiting.push(raw);
            }
            while server.metrics.connections.get() < 4 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            for Raw(stream) in waiting {
                if resets {
                    stream.set_zero_linger().unwrap();
                }
            }
            assert_has_place(&server).await;
        }
    }
    server.stop().await;
}

/// What comes while a consume waits is kept, and a client that only sends no more gets all its answers.
#[tokio::test]
async fn a_client_that_ends_its_side_while_it_waits_for_records_is_answered() {
    let server = Server::with_limits(patient()).await;
    server.topic("t", 1).await;
    let long = "x".repeat(300_000);
    let mut raw = server.connect().await;
    raw.request(consume("t", 0, 0, u32::MAX)).await;
    while !server.metrics.text(server.broker.stats()).contains("\"consume\"") {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // More than is read meanwhile.
    raw.request(produce("t", &["short"])).await;
    raw.request(produce("t", &[&long])).await;
    ok(server.client().produce("t", None, record("awaited")).await);
    raw.request(consume("t", 0, 3, u32::MAX)).await;
    raw.request(consume("t", 0, 2, u32::MAX)).await;
    raw.0.shutdown().await.unwrap();

    let mut answers = Vec::new();
    while let Some(answer) = raw.answer().await {
        answers.push(match answer {
            response::Kind::Produce(produced) => format!("at {}", produced.appends[0].base_offset),
            response::Kind::Consume(consumed) => format!("{} read", consumed.records.len()),
            other => panic!("{other:?}"),
        });
    }
    assert_eq!(answers, ["1 read", "at 1", "at 2", "0 read", "1 read"]);
    server.stop().await;
}

/// A trickle of bytes does not push the deadline of a message.
#[tokio::test]
async fn a_message_has_one_deadline_however_it_trickles() {
    let server = Server::with_limits(Limits { frame_time: SHORT, ..Limits::default() }).await;
    let Raw(stream) = server.connect().await;
    let (mut read, mut write) = stream.into_split();
    let trickle = tokio::spawn(async move {
        // A message of 16 MB, which at this pace takes a day.
        write.write_all(&(16u32 << 20).to_be_bytes()).await?;
        while write.write_all(&[1]).await.is_ok() {
            tokio::time::sleep(SHORT / 10).await;
        }
        std::io::Result::Ok(())
    });
    let mut said = Vec::new();
    let read = tokio::io::AsyncReadExt::read_to_end(&mut read, &mut said);
    // A reset closes as well.
    let _ = tokio::time::timeout(LONG, read).await.expect("it is closed");
    trickle.abort();
    server.stop().await;
}

/// A client that never reads its answers is read from no more, and in the end closed; the others do not notice.
#[tokio::test]
async fn a_client_that_does_not_listen_is_slowed_down_and_then_closed() {
    let limits =
        Limits { write_time: Duration::from_millis(300), in_flight_bytes: 64 << 10, ..Limits::default() };
    let server = Server::with_limits(limits).await;
    server.topic("t", 1).await;
    let big = "x".repeat(100_000);
    ok(server.client().produce("t", Some(0), record(big)).await);

    let mut raw = server.connect().await;
    let request = framed(consume("t", 0, 0, 0));
    // 100 KB an answer: ten thousand of them would be 1 GB.
    let flood = async {
        for _ in 0..10_000 {
            if raw.0.write_all(&request).await.is_err() {
                return;
            }
        }
        let mut sink = vec![0; 1 << 20];
        tokio::time::sleep(Duration::from_secs(1)).await;
        while tokio::io::AsyncReadExt::read(&mut raw.0, &mut sink).await.is_ok_and(|n| n > 0) {}
    };
    let (_, ()) = tokio::join!(tokio::time::timeout(LONG, flood), assert_serves(&server));
    let sent = server.metrics.bytes_consumed.get();
    assert!(sent < 100 << 20, "{sent} bytes were read for a client that takes none");
    server.stop().await;
}

/// Who takes nothing of long answers holds memory that another needs: not for all the time that an answer may take.
#[tokio::test]
async fn a_client_that_does_not_listen_gives_way_to_one_that_waits() {
    let limits = Limits { write_time: 2 * LONG, answer_bytes: 1 << 20, ..Limits::default() };
    let server = Server::with_limits(limits).await;
    server.topic("t", 1).await;
    ok(server.client().produce("t", Some(0), record("x".repeat(1 << 20))).await);
    let mut deaf = server.connect().await;
    deaf.send(&framed(consume("t", 0, 0, 0)).repeat(50)).await;
    // All that the system takes for it is taken, and then all the room.
    let mut before = 0;
    while before == 0 || before < server.metrics.bytes_consumed.get() {
        before = server.metrics.bytes_consumed.get();
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    let consumed = ok(server.client().consume("t", 0, Fetch::from(Offset::ZERO)).await);
    assert_eq!(consumed.records.len(), 1);
    server.stop().await;
}

/// Who takes nothing of its short answers is not given the memory for a long one behind them.
#[tokio::test]
async fn what_others_need_is_not_kept_for_what_cannot_be_sent_yet() {
    let limits = Limits {
        write_time: Duration::from_secs(3600),
        answer_bytes: 1 << 20,
        in_flight_bytes: 64 << 20,
        ..Limits::default()
    };
    let server = Server::with_limits(limits).await;
    server.topic("t", 1).await;
    for bytes in [60_000, 60_000, 60_000, 60_000, 1 << 20] {
        ok(server.client().produce("t", Some(0), record("x".repeat(bytes))).await);
    }
    let short = Fetch { max_bytes: 1, ..Fetch::from(Offset::ZERO) };
    let many_records = Fetch { max_bytes: 1 << 20, ..Fetch::from(Offset::ZERO) };
    let long_record = Fetch { max_bytes: 1, ..Fetch::from(Offset::new(4)) };
    let framed = |fetch: Fetch| framed(request::Kind::Consume(fetch.request("t", 0)));
    for (long, consumes) in [(many_records, 201), (long_record, 403)] {
        let mut deaf = server.connect_taking_little().await;
        // More than the system takes for it.
        deaf.send(&framed(short).repeat(200)).await;
        deaf.send(&framed(long)).await;
        let all = format!("requests_total{{kind=\"consume\"}} {consumes}\n");
        let begun = async {
            while !server.metrics.text(server.broker.stats()).contains(&all) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(LONG, begun).await.expect("all are executed");
        let consumed = ok(server.client().consume("t", 0, long_record).await);
        assert_eq!(consumed.records.len(), 1);
    }
    server.stop().await;
}
