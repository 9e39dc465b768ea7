//! What a valid request may name and carry, what comes back of it, and which errors say that it is none.

mod common;

use broker::client::{At, Fetch, Outcome};
use broker::error::Code;
use broker::record::{NewRecord, Record};
use broker::server::Limits;
use broker::settings::{Settings, TopicSettings};
use broker::units::Offset;
use broker::wire::proto::{self, ErrorCode, request};
use bytes::Bytes;
use common::{Server, keyed, ok, produce, record, refused, values};

#[tokio::test]
async fn a_name_that_is_too_long_is_not_told_back() {
    let server = Server::start().await;
    let client = server.client();
    let name = "\u{1}é".repeat(1 << 19);
    let answers = [
        client.produce(&name, None, record("v")).await.and_then(|_| Outcome::Acknowledged(())),
        client.produce(&name, Some(3), record("v")).await.and_then(|_| Outcome::Acknowledged(())),
        client.partitions(&name).await.and_then(|_| Outcome::Acknowledged(())),
        client.create_topic(&name, &TopicSettings::with_partitions(1)).await,
        client.delete_topic(&name).await,
    ];
    for answer in answers {
        let Outcome::Refused(refusal) = answer else { panic!("{answer:?}") };
        assert!(matches!(refusal.code, Code::UnknownTopic | Code::InvalidTopic));
        assert!(refusal.message.len() < 2000, "{} bytes", refusal.message.len());
        assert!(refusal.message.contains('…'));
    }
}

#[tokio::test]
async fn topic_names_cannot_leave_the_directory() {
    let server = Server::start().await;
    let client = server.client();
    let long = "x".repeat(250);
    let names = [
        "../../x", "..", ".", "", "a/b", "a\\b", "a\0b", "/etc", "é", "e\u{301}", " a", "a ", "a\n", "a~new",
        &long,
    ];
    for name in names {
        let created = client.create_topic(name, &TopicSettings::with_partitions(1)).await;
        assert_eq!(refused(created), Code::InvalidTopic, "{name:?}");
        let code = refused(client.produce(name, None, record("v")).await);
        assert!(matches!(code, Code::UnknownTopic | Code::InvalidTopic), "{name:?}: {code:?}");
        let code = refused(client.delete_topic(name).await);
        assert!(matches!(code, Code::UnknownTopic | Code::InvalidTopic), "{name:?}: {code:?}");
    }
    for name in ["CON", "A", "a", "a.b_c-9", &long[..249], "..."] {
        ok(client.create_topic(name, &TopicSettings::with_partitions(1)).await);
    }
    assert_eq!(ok(client.topics().await).len(), 6);
    let dir = server.stop().await;
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing but the data directory was made");
}

/// Absent, empty, and both: each comes back as it went in, and is routed by what it is.
#[tokio::test]
async fn an_empty_key_is_a_key_and_no_key_is_none() {
    let server = Server::start().await;
    server.topic("t", 3).await;
    let client = server.client();
    let records = [
        record("v"),
        record(""),
        NewRecord { key: Some(Bytes::new()), value: "v".into() },
        NewRecord { key: Some(Bytes::new()), value: Bytes::new() },
    ];
    for kind in &records {
        for _ in 0..30 {
            let placed = ok(client.produce("t", None, kind.clone()).await);
            if kind.key.is_some() {
                assert_eq!(placed.partition, 1, "0x811c9dc5 % 3");
            }
        }
    }
    let mut counts = Vec::new();
    for partition in 0..3 {
        let consumed = ok(client.consume("t", partition, Fetch::from(Offset::ZERO)).await);
        for kind in &records {
            let same = |r: &&Record| r.key == kind.key && r.value == kind.value;
            counts.push(consumed.records.iter().filter(same).count());
        }
    }
    assert_eq!(counts, [10, 10, 0, 0, 10, 10, 30, 30, 10, 10, 0, 0]);
    server.stop().await;
}

#[tokio::test]
async fn keys_choose_their_partition_and_records_without_one_go_round() {
    let server = Server::start().await;
    let client = server.client();
    server.topic("orders", 3).await;
    for (key, partition) in [("user-1", 1), ("user-2", 1), ("user-3", 2)] {
        assert_eq!(
            ok(client.produce("orders", None, keyed(key, "hello")).await).partition,
            partition,
            "{key}"
        );
    }
    for (partitions, expected) in [(1, 0), (2, 0), (3, 2), (5, 3), (6, 2), (7, 2), (10, 8)] {
        let topic = format!("t{partitions}");
        server.topic(&topic, partitions).await;
        // Its hash is 0x80000000.
        assert_eq!(ok(client.produce(&topic, None, keyed("1468509572224", "v")).await).partition, expected);
    }
    server.topic("round", 3).await;
    let mut seen = Vec::new();
    for _ in 0..6 {
        seen.push(ok(client.produce("round", None, record("v")).await).partition);
    }
    assert_eq!(seen[..3], seen[3..]);
    seen.truncate(3);
    seen.sort_unstable();
    assert_eq!(seen, [0, 1, 2]);
    let none = client.create_topic("none", &TopicSettings::with_partitions(0)).await;
    assert_eq!(refused(none), Code::InvalidRequest);
    server.stop().await;
}

/// A consumer gets past every record, whatever it asks for.
#[tokio::test]
async fn a_record_larger_than_the_limit_of_a_consume_comes_whole() {
    let settings = Settings { max_record_bytes: 3 << 20, ..Settings::default() };
    let server = Server::with(settings, Limits { fetch_bytes: 1 << 20, ..Limits::default() }).await;
    server.topic("t", 1).await;
    let client = server.client();
    let big = "x".repeat(2 << 20);
    for i in 0..8 {
        let value = if i == 5 { big.clone() } else { format!("v{i}") };
        ok(client.produce("t", Some(0), record(value)).await);
    }
    for max_bytes in [0, 1, 1 << 20, u32::MAX] {
        let fetch = Fetch { max_bytes, ..Fetch::from(Offset::new(5)) };
        let consumed = ok(client.consume("t", 0, fetch).await);
        assert_eq!(consumed.records[0].value, big, "max_bytes {max_bytes}");
    }
    assert_eq!(values(&client, "t", 0).await.len(), 8);
    let too_large = client.produce("t", Some(0), record("x".repeat((3 << 20) + 1))).await;
    assert_eq!(refused(too_large), Code::RecordTooLarge);
    server.stop().await;
}

/// One record over the limit, and nothing of its request is stored.
#[tokio::test]
async fn a_request_that_is_refused_is_refused_whole() {
    let settings = Settings { max_record_bytes: 10, ..Settings::default() };
    let server = Server::with(settings, Limits::default()).await;
    server.topic("t", 2).await;
    let client = server.client();
    let records = [record("a"), record("b"), record("12345678901"), record("c")];
    for outcome in client.produce_batch("t", None, &records).await {
        assert_eq!(refused(outcome), Code::RecordTooLarge);
    }
    assert_eq!(refused(client.produce("t", Some(2), record("v")).await), Code::UnknownPartition);
    assert_eq!(refused(client.produce("nope", None, record("v")).await), Code::UnknownTopic);
    for partition in 0..2 {
        assert_eq!(ok(client.list_offsets("t", partition, At::Latest).await).offset, Offset::ZERO);
    }
    server.stop().await;
}

#[tokio::test]
async fn errors_have_stable_codes() {
    let server = Server::start().await;
    server.topic("t", 1).await;
    let client = server.client();
    let again = client.create_topic("t", &TopicSettings::with_partitions(1)).await;
    assert_eq!(refused(again), Code::TopicExists);
    assert_eq!(refused(client.consume("t", 1, Fetch::from(Offset::ZERO)).await), Code::UnknownPartition);
    assert_eq!(refused(client.consume("t", 0, Fetch::from(Offset::new(1))).await), Code::OffsetOutOfRange);
    assert_eq!(
        refused(client.consume("t", 0, Fetch::from(Offset::new(u64::MAX))).await),
        Code::OffsetOutOfRange
    );
    assert_eq!(refused(client.partitions("u").await), Code::UnknownTopic);
    assert_eq!(refused(client.delete_topic("u").await), Code::UnknownTopic);
    let mut raw = server.connect().await;
    raw.request(produce("t", &[])).await;
    assert_eq!(raw.error().await, ErrorCode::InvalidRequest, "a produce without records");
    raw.request(request::Kind::ListOffsets(proto::ListOffsetsRequest {
        topic: "t".into(),
        partition: 0,
        at: None,
    }))
    .await;
    assert_eq!(raw.error().await, ErrorCode::InvalidRequest, "a place that is not said");
    server.stop().await;
}
