//! What the server promises to those who follow the protocol: order, durability, waiting, and a graceful end.

mod common;

use std::time::Duration;

use broker::client::{At, Fetch, Produced};
use broker::error::Code;
use broker::server::Limits;
use broker::settings::{Durability, Settings};
use broker::units::{Offset, Timestamp};
use broker::wire::proto::{self, request, response};
use common::logged::Logged;
use common::{LONG, Server, consume, framed, keyed, ok, open, produce, record, refused, values};
use tokio::io::AsyncWriteExt;

fn always() -> Settings {
    Settings { durability: Durability::Always, ..Settings::default() }
}

fn base(answer: Option<response::Kind>) -> u64 {
    match answer {
        Some(response::Kind::Produce(produced)) => {
            assert!(produced.appends[0].error.is_none(), "{produced:?}");
            produced.appends[0].base_offset
        }
        other => panic!("not an answer to a produce: {other:?}"),
    }
}

/// Requests of all kinds in one write: each answer is the one to the request in its place.
#[tokio::test]
async fn answers_come_in_the_order_of_the_requests() {
    for settings in [Settings::default(), always()] {
        let server = Server::with(settings, Limits::default()).await;
        server.topic("t", 1).await;
        server.topic("u", 1).await;
        let mut raw = server.connect().await;
        let latest = |topic: &str| {
            let at = Some(proto::list_offsets_request::At::Latest(proto::Latest {}));
            request::Kind::ListOffsets(proto::ListOffsetsRequest { topic: topic.into(), partition: 0, at })
        };
        let mut all = Vec::new();
        for round in 0..50u64 {
            for kind in [
                produce("t", &["a", "b"]),
                produce("u", &["c"]),
                latest("t"),
                produce("nope", &["d"]),
                consume("t", 0, round * 2, 0),
            ] {
                all.extend(framed(kind));
            }
        }
        raw.send(&all).await;
        for round in 0..50 {
            assert_eq!(base(raw.answer().await), round * 2);
            assert_eq!(base(raw.answer().await), round);
            match raw.answer().await {
                // What was produced before it on the same connection, and nothing produced after it.
                Some(response::Kind::ListOffsets(found)) => assert_eq!(found.offset, round * 2 + 2),
                other => panic!("{other:?}"),
            }
            assert_eq!(raw.error().await, proto::ErrorCode::UnknownTopic);
            match raw.answer().await {
                Some(response::Kind::Consume(consumed)) => {
                    assert_eq!(consumed.records.len(), 2);
                    assert_eq!(consumed.log_end_offset, round * 2 + 2);
                }
                other => panic!("{other:?}"),
            }
        }
        server.stop().await;
    }
}

#[tokio::test]
async fn what_clients_ask_for_and_get_is_counted() {
    let server = Server::start().await;
    server.topic("t", 1).await;
    let client = server.client();
    ok(client.produce("t", None, record("value")).await);
    ok(client.consume("t", 0, Fetch::from(Offset::ZERO)).await);
    assert_eq!(refused(client.consume("t", 1, Fetch::from(Offset::ZERO)).await), Code::UnknownPartition);
    assert_eq!(refused(client.produce("u", None, record("value")).await), Code::UnknownTopic);
    let text = server.metrics.text(server.broker.stats());
    for line in [
        "broker_requests_total{kind=\"create_topic\"} 1",
        "broker_requests_total{kind=\"produce\"} 2",
        "broker_requests_total{kind=\"consume\"} 2",
        "broker_errors_total{code=\"UNKNOWN_PARTITION\"} 1",
        "broker_errors_total{code=\"UNKNOWN_TOPIC\"} 1",
        "broker_appends_total 1",
        "broker_consumed_bytes_total 33",
        "broker_log_appended_records_total 1",
    ] {
        assert!(text.lines().any(|l| l == line), "{line:?} is missing in\n{text}");
    }
    server.stop().await;
}

/// A consume that waits does not let later answers pass, and holds up nobody else.
#[tokio::test]
async fn a_consume_that_waits_keeps_the_order_and_holds_up_nobody_else() {
    let server = Server::start().await;
    server.topic("t", 1).await;
    let mut raw = server.connect().await;
    let mut all = framed(produce("t", &["first"]));
    all.extend(framed(consume("t", 0, 1, 10_000)));
    all.extend(framed(produce("t", &["third"])));
    all.extend(framed(request::Kind::ListTopics(proto::ListTopicsRequest {})));
    raw.send(&all).await;
    assert_eq!(base(raw.answer().await), 0);

    // Another connection is served, and what it produces wakes the one that waits.
    assert_eq!(ok(server.client().produce("t", None, record("second")).await).offset, Offset::new(1));
    match raw.answer().await {
        Some(response::Kind::Consume(consumed)) => {
            assert_eq!(consumed.records[0].value, "second");
            assert_eq!(
                consumed.records.len(),
                1,
                "the produce behind it on its connection was not executed before"
            );
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(base(raw.answer().await), 2);
    assert!(matches!(raw.answer().await, Some(response::Kind::ListTopics(_))));
    server.stop().await;
}

#[tokio::test]
async fn a_consume_waits_no_longer_than_it_may() {
    let limits = Limits { wait: Duration::from_millis(50), ..Limits::default() };
    let server = Server::with_limits(limits).await;
    server.topic("t", 1).await;
    let fetch = Fetch::from(Offset::ZERO).wait(Duration::from_secs(3600));
    let consumed = tokio::time::timeout(LONG, server.client().consume("t", 0, fetch)).await.expect("it ends");
    assert_eq!(ok(consumed).records, []);
    server.stop().await;
}

/// However much a client asks for, and one record however long it is.
#[tokio::test]
async fn an_answer_has_no_more_records_than_it_may() {
    let server = Server::with_limits(Limits { fetch_bytes: 100, ..Limits::default() }).await;
    server.topic("t", 1).await;
    let client = server.client();
    for len in [10, 10, 10, 1000, 10] {
        ok(client.produce("t", None, record("x".repeat(len))).await);
    }
    let fetch = |from| Fetch { max_bytes: u32::MAX, ..Fetch::from(Offset::new(from)) };
    for (from, count) in [(0, 2), (1, 2), (2, 1), (3, 1), (4, 1)] {
        let consumed = ok(client.consume("t", 0, fetch(from)).await);
        assert_eq!(consumed.records.len(), count, "from {from}: 38 bytes a record, and one of 1028");
    }
    server.stop().await;
}

#[tokio::test]
async fn the_room_of_an_answer_is_there_again_for_the_next() {
    let server = Server::with_limits(Limits { answer_bytes: 1 << 20, ..Limits::default() }).await;
    server.topic("t", 1).await;
    let client = server.client();
    for _ in 0..6 {
        ok(client.produce("t", None, record("x".repeat(50_000))).await);
    }
    let fetch = Fetch { max_bytes: 210_000, ..Fetch::from(Offset::ZERO) };
    for nth in 0..20 {
        assert_eq!(ok(client.consume("t", 0, fetch).await).records.len(), 4, "answer {nth}");
    }
    server.stop().await;
}

/// Thousands of requests on their way: every record once, in order, under the offset that its answer says.
#[tokio::test]
async fn a_pipeline_stores_each_record_once_and_in_order() {
    for settings in [Settings::default(), always(), Settings { segment_bytes: 10_000, ..Settings::default() }]
    {
        let server = Server::with(settings, Limits::default()).await;
        server.topic("t", 1).await;
        let mut pipeline = server.pipeline().await;
        let expected: Vec<String> = (0..5000).map(|i| format!("value {i}")).collect();
        for value in &expected {
            pipeline.send_produce("t", None, [(None, value.as_bytes())].into_iter());
        }
        for i in 0..expected.len() as u64 {
            let answer = pipeline.receive_produced().await.unwrap();
            assert_eq!(answer, Produced::Appended { partition: 0, base: Offset::new(i), count: 1 });
        }
        assert_eq!(values(&server.client(), "t", 0).await, expected);
        server.stop().await;
    }
}

/// A request that is refused in the middle of a pipeline takes no other with it.
#[tokio::test]
async fn a_refused_request_takes_no_other_with_it() {
    let server =
        Server::with(Settings { max_record_bytes: 12, ..Settings::default() }, Limits::default()).await;
    server.topic("t", 3).await;
    let mut pipeline = server.pipeline().await;
    for i in 0..300 {
        let value: &[u8] = if i % 3 == 1 { b"much too long" } else { b"short" };
        let records = [(Some(&b"user-1"[..]), &b"first"[..]), (None, value), (None, b"third")];
        pipeline.send_produce("t", None, records.into_iter());
    }
    let mut stored = 0;
    for i in 0..300 {
        for outcome in pipeline.receive_produced().await.unwrap().outcomes(3) {
            if i % 3 == 1 {
                assert_eq!(refused(outcome), Code::RecordTooLarge);
            } else {
                ok(outcome);
                stored += 1;
            }
        }
    }
    let partitions = ok(server.client().partitions("t").await);
    assert_eq!(partitions.iter().map(|p| p.log_end.get()).sum::<u64>(), stored);
    server.stop().await;
}

/// The answer tells each record's place, whichever way the records of a request go.
#[tokio::test]
async fn a_batch_over_several_partitions_tells_each_record_its_place() {
    let server = Server::start().await;
    server.topic("t", 3).await;
    let client = server.client();
    let mut records = Vec::new();
    for i in 0..30 {
        records.push(if i % 2 == 0 { record(format!("v{i}")) } else { keyed("user-3", "k") });
    }
    for _ in 0..3 {
        for (outcome, sent) in client.produce_batch("t", None, &records).await.into_iter().zip(&records) {
            let placed = ok(outcome);
            let consumed = ok(client.consume("t", placed.partition, Fetch::from(placed.offset)).await);
            assert_eq!((&consumed.records[0].key, &consumed.records[0].value), (&sent.key, &sent.value));
        }
    }
    server.stop().await;
}

/// Many producers, each waiting for its answer: all are durable, and share syncs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn producers_share_syncs() {
    let server = Server::with(always(), Limits::default()).await;
    server.topic("t", 1).await;
    let mut tasks = tokio::task::JoinSet::new();
    for producer in 0..32 {
        let client = server.client();
        tasks.spawn(async move {
            for i in 0..20 {
                ok(client.produce("t", None, record(format!("{producer}/{i}"))).await);
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    let mut all = values(&server.client(), "t", 0).await;
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 640);
    let syncs = server.broker.stats().syncs.get();
    assert!(syncs < 640, "{syncs} syncs for 640 records of 32 producers");
    server.stop().await;
}

#[tokio::test]
async fn offsets_are_found_by_time() {
    let server = Server::start().await;
    server.topic("t", 1).await;
    let client = server.client();
    for i in 0..10 {
        ok(client.produce("t", None, record(format!("v{i}"))).await);
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let records = ok(client.consume("t", 0, Fetch::from(Offset::ZERO)).await).records;
    for record in &records {
        let found = ok(client.list_offsets("t", 0, At::Timestamp(record.timestamp)).await);
        assert_eq!((found.offset, found.timestamp), (record.offset, Some(record.timestamp)));
    }
    assert_eq!(ok(client.list_offsets("t", 0, At::Timestamp(Timestamp::ZERO)).await).offset, Offset::ZERO);
    let later = Timestamp::from_millis(u64::MAX);
    let found = ok(client.list_offsets("t", 0, At::Timestamp(later)).await);
    assert_eq!((found.offset, found.timestamp), (Offset::new(10), None));
    server.stop().await;
}

/// What had been received when the stop began is executed and answered; the log is complete and the stop is clean.
#[tokio::test]
async fn a_stop_finishes_what_was_received() {
    for settings in [Settings::default(), always()] {
        let server = Server::with(settings.clone(), Limits::default()).await;
        server.topic("t", 1).await;
        let mut idle = server.connect().await;
        let mut waiting = server.connect().await;
        // Of a topic to which nothing comes: no record wakes it.
        server.topic("quiet", 1).await;
        waiting.request(consume("quiet", 0, 0, 60_000)).await;
        let mut half = server.connect().await;
        half.send(&framed(produce("t", &["half"]))[..10]).await;
        let mut busy = server.connect().await;
        // Known to be connected; from here on what is sent is in the server's socket before the stop begins.
        busy.request(request::Kind::ListTopics(proto::ListTopicsRequest {})).await;
        busy.answer().await;
        let all: Vec<u8> = (0..1000).flat_map(|_| framed(produce("t", &["v"]))).collect();
        let (mut read, mut write) = busy.0.into_split();
        let wrote = tokio::spawn(async move { write.write_all(&all).await });
        wrote.await.unwrap().unwrap();
        server.begin_stop();

        let mut answers = Vec::new();
        tokio::time::timeout(LONG, tokio::io::AsyncReadExt::read_to_end(&mut read, &mut answers))
            .await
            .expect("the server closes")
            .expect("without a reset");
        let mut answered = 0;
        while let broker::wire::Frame::Whole(len) = broker::wire::frame(&answers, 1 << 20) {
            answered += 1;
            answers.drain(..4 + len);
        }
        assert_eq!(answered, 1000);
        assert!(answers.is_empty(), "the last answer is whole");
        assert!(
            matches!(waiting.answer().await, Some(response::Kind::Consume(_))),
            "a wait ends with the server"
        );
        assert_eq!(half.error().await, proto::ErrorCode::ShuttingDown);
        idle.assert_closed().await;

        let dir = server.stopped().await;
        let broker = open(dir.path(), settings);
        assert_eq!(broker.topic("t").unwrap().partition(0).unwrap().range().unwrap().end, Offset::new(1000));
    }
}

/// A client that takes nothing cannot keep the server from stopping.
#[tokio::test]
async fn a_stop_is_bounded_whatever_clients_do() {
    let limits = Limits { stop_time: Duration::from_millis(200), ..Limits::default() };
    let server = Server::with_limits(limits).await;
    server.topic("t", 1).await;
    ok(server.client().produce("t", None, record("x".repeat(1_000_000))).await);
    let mut deaf = server.connect().await;
    for _ in 0..100 {
        deaf.request(consume("t", 0, 0, 0)).await;
    }
    tokio::time::sleep(Duration::from_millis(50)).await;
    server.stop().await;
}

/// An answer that comes in many pieces, its records looked for meanwhile, and others behind it.
#[tokio::test]
async fn a_long_answer_is_read_while_it_comes() {
    let server = Server::start().await;
    server.topic("t", 1).await;
    let mut pipeline = server.pipeline().await;
    let values: Vec<Vec<u8>> = (0..90u8).map(|n| vec![n; 10_000 + usize::from(n)]).collect();
    pipeline.send_produce("t", None, values.iter().map(|value| (None, &value[..])));
    pipeline.send(&consume("t", 0, 0, 0).into());
    pipeline.send(&consume("none", 0, 0, 0).into());
    pipeline.send(&consume("t", 0, 89, 0).into());
    pipeline.receive_produced().await.unwrap();

    let answer = ok(pipeline.receive_consumed().await.unwrap());
    assert_eq!((answer.count(), answer.log_end), (90, Offset::new(90)));
    for (record, (offset, value)) in answer.records().zip((0..).zip(&values)) {
        let record = record.unwrap();
        assert_eq!((record.offset, &record.value[..]), (Offset::new(offset), &value[..]));
    }
    assert!(pipeline.receive_consumed().await.unwrap().into_result().is_err());
    assert_eq!(ok(pipeline.receive_consumed().await.unwrap()).count(), 1);
    server.stop().await;
}

/// Where long requests have taken all room, one more waits for it; short ones do not, and nothing is lost.
#[tokio::test]
async fn long_requests_share_a_bounded_room() {
    let limits = Limits { frame_bytes: 400_000, buffer_bytes: 400_000, ..Limits::default() };
    let server = Server::with_limits(limits).await;
    server.topic("t", 1).await;
    let long = "x".repeat(300_000);
    let frame = framed(produce("t", &[&long]));
    let mut holder = server.connect().await;
    holder.send(&frame[..200_000]).await;
    // Now that the holder's room is taken for sure, the second waits for it.
    tokio::time::sleep(Duration::from_millis(50)).await;
    let mut waiter = server.connect().await;
    waiter.send(&frame).await;
    for _ in 0..10 {
        ok(server.client().produce("t", None, record("short")).await);
    }
    let early = tokio::time::timeout(Duration::from_millis(50), waiter.answer()).await;
    assert!(early.is_err(), "there is no room for it yet");
    holder.send(&frame[200_000..]).await;
    assert_eq!(base(holder.answer().await), 10);
    assert_eq!(base(waiter.answer().await), 11);
    server.stop().await;
}

/// All have sent more than half, and no two of them fit: they take turns, and none waits for ever.
#[tokio::test]
async fn long_requests_that_have_begun_do_not_wait_for_each_other_for_ever() {
    let limits = Limits { frame_bytes: 400_000, buffer_bytes: 700_000, ..Limits::default() };
    let server = Server::with_limits(limits).await;
    server.topic("t", 1).await;
    let long = "x".repeat(300_000);
    let frame = framed(produce("t", &[&long]));
    let mut clients = Vec::new();
    for _ in 0..8 {
        let mut client = server.connect().await;
        client.send(&frame[..200_000]).await;
        clients.push(client);
    }
    for client in &mut clients {
        client.send(&frame[200_000..]).await;
    }
    for client in &mut clients {
        assert!(base(client.answer().await) < 8);
    }
    server.stop().await;
}

/// Its length would not fit into the four bytes that stand before it.
#[tokio::test]
async fn a_message_of_four_gibibytes_is_refused_before_it_is_made() {
    let server = Server::start().await;
    server.topic("t", 1).await;
    let large = bytes::Bytes::from(vec![0; 64 << 20]);
    let records = vec![record(large.clone()); 64];
    for outcome in server.client().produce_batch("t", None, &records).await {
        assert_eq!(refused(outcome), broker::error::Code::FrameTooLarge);
    }
    let mut pipeline = server.pipeline().await;
    pipeline.send_produce("t", None, [(None, &b"before"[..])].into_iter());
    pipeline.send_produce("t", None, records.iter().map(|r| (None, &r.value[..])));
    let error = pipeline.receive_produced().await.unwrap_err();
    assert!(error.to_string().contains("longer than a message can be"), "{error}");
    server.stop().await;
}

/// A list of more than 64 KiB is sent from where it was encoded, behind the answers before it.
#[tokio::test]
async fn a_long_list_comes_behind_the_answers_before_it() {
    let server = Server::start().await;
    for n in 0..300 {
        server.topic(&format!("{n:0>240}"), 1).await;
    }
    let mut raw = server.connect().await;
    let topic = "0".repeat(240);
    let list = || request::Kind::ListTopics(proto::ListTopicsRequest {});
    let kinds = [produce(&topic, &["a"]), list(), produce(&topic, &["b"]), consume(&topic, 0, 0, 0), list()];
    raw.send(&kinds.map(framed).concat()).await;
    let topics = |answer: Option<response::Kind>| match answer {
        Some(response::Kind::ListTopics(list)) => assert_eq!(list.topics.len(), 300),
        other => panic!("{other:?}"),
    };
    assert_eq!(base(raw.answer().await), 0);
    topics(raw.answer().await);
    assert_eq!(base(raw.answer().await), 1);
    assert!(matches!(raw.answer().await, Some(response::Kind::Consume(_))));
    topics(raw.answer().await);
    server.stop().await;
}

/// A client that has had its answer may say nothing for long, while what it wrote to is deleted.
#[tokio::test]
async fn a_silent_connection_keeps_no_files_of_what_is_deleted() {
    let settings = Settings { durability: Durability::Always, ..Settings::default() };
    let server = Server::with(settings, Limits::default()).await;
    server.topic("t", 1).await;
    let mut raw = server.connect().await;
    raw.request(produce("t", &["durable"])).await;
    assert!(matches!(raw.answer().await, Some(response::Kind::Produce(_))));
    ok(server.client().delete_topic("t").await);
    let is_kept = || {
        let open = std::fs::read_dir("/proc/self/fd").expect("a Linux system");
        let files = open.filter_map(|fd| std::fs::read_link(fd.ok()?.path()).ok());
        files.into_iter().any(|file| {
            file.starts_with(server.dir.path()) && file.to_string_lossy().ends_with("log (deleted)")
        })
    };
    let closed = async {
        while is_kept() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(LONG, closed).await.expect("they are closed");
    drop(raw);
    server.stop().await;
}

/// One that is being turned away is not one that was served and did not finish.
#[tokio::test]
async fn a_stop_does_not_count_who_is_being_turned_away() {
    let (logged, _guard) = Logged::begin();
    let limits = Limits { connections: 0, stop_time: Duration::ZERO, ..Limits::default() };
    let server = Server::with_limits(limits).await;
    let mut turned_away = server.connect().await;
    assert!(matches!(turned_away.answer().await, Some(response::Kind::Error(_))));
    server.stop().await;
    assert_eq!(logged.count("did not finish in time"), 0);
}
