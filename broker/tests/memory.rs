//! What clients can make the server hold. One test in a process of its own: memory is counted by the process.

mod common;

use std::time::Duration;

use broker::client::Fetch;
use broker::server::Limits;
use broker::units::Offset;
use broker::wire::proto::{self, ErrorCode, request};
use common::{Server, frame_of, framed, ok, record};

/// Resident memory of this process, in KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("a Linux system");
    let line = status.lines().find(|l| l.starts_with("VmRSS:")).expect("it has the line");
    line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("a number")
}

#[tokio::test]
async fn memory_is_bounded_by_the_limits() {
    // First, since what others have given back hides what it takes.
    short_lists_that_nobody_takes_are_kept_as_they_are_sent().await;
    memory_grows_with_bytes_received_not_with_bytes_announced().await;
    many_empty_records_are_refused_before_they_are_decoded().await;
    answers_that_nobody_takes_share_a_bounded_room().await;
    long_records_that_nobody_takes_share_it_too().await;
    long_lists_that_nobody_takes_share_it_too().await;
    what_a_connection_keeps_of_a_long_request_is_little().await;
    memory_stays_flat_while_a_client_streams().await;
}

async fn memory_grows_with_bytes_received_not_with_bytes_announced() {
    let server = Server::with_limits(Limits { frame_bytes: 64 << 20, ..Limits::default() }).await;
    server.topic("t", 1).await;
    let before = resident();
    let mut connections = Vec::new();
    for _ in 0..200 {
        let mut raw = server.connect().await;
        raw.send(&(60u32 << 20).to_be_bytes()).await;
        raw.send(b"and then not much").await;
        connections.push(raw);
    }
    ok(server.client().produce("t", None, record("still here")).await);
    let grown = resident().saturating_sub(before);
    assert!(grown < 100 << 10, "{grown} KiB for 200 connections that sent 21 bytes each");
    drop(connections);
    server.stop().await;
}

async fn many_empty_records_are_refused_before_they_are_decoded() {
    let server = Server::start().await;
    server.topic("t", 1).await;
    // 8 million records in 16 MB, in an order of fields that the fast path leaves to others.
    let mut body = [0x1a, 0].repeat(8_000_000);
    body.extend_from_slice(&[0x0a, 1, b't']);
    let mut message = vec![0x0a];
    prost::encoding::encode_varint(body.len() as u64, &mut message);
    message.extend_from_slice(&body);
    let before = resident();
    let mut raw = server.connect().await;
    raw.send(&frame_of(&message)).await;
    assert_eq!(raw.error().await, ErrorCode::InvalidRequest);
    let grown = resident().saturating_sub(before);
    assert!(grown < 120 << 10, "{grown} KiB for a message of 16 MB");
    ok(server.client().produce("t", None, record("still here")).await);
    server.stop().await;
}

async fn answers_that_nobody_takes_share_a_bounded_room() {
    let server = Server::with_limits(Limits { answer_bytes: 32 << 20, ..Limits::default() }).await;
    server.topic("t", 1).await;
    let mut pipeline = server.pipeline().await;
    let value = vec![b'x'; 10_000];
    for _ in 0..20 {
        pipeline.send_produce("t", None, (0..100).map(|_| (None, &value[..])));
    }
    while pipeline.awaited() > 0 {
        pipeline.receive_produced().await.expect("the server answers");
    }

    // Each could hold an answer of 8 MiB.
    let before = resident();
    let mut connections = Vec::new();
    for _ in 0..60 {
        let mut raw = server.connect().await;
        let fetch = Fetch { max_bytes: 8 << 20, ..Fetch::from(Offset::ZERO) };
        let request = framed(request::Kind::Consume(fetch.request("t", 0)));
        for _ in 0..4 {
            raw.send(&request).await;
        }
        connections.push(raw);
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    let grown = resident().saturating_sub(before);
    assert!(grown < 160 << 10, "{grown} KiB for answers that nobody takes");

    // Who listens gets what there is, in smaller pieces.
    let client = server.client();
    let mut next = Offset::ZERO;
    while next < Offset::new(2000) {
        let fetch = Fetch { max_bytes: 8 << 20, ..Fetch::from(next) };
        let records = ok(client.consume("t", 0, fetch).await).records;
        assert_eq!(records.first().expect("one at least").offset, next);
        next = next.plus(records.len() as u64);
    }
    drop(connections);
    server.stop().await;
}

async fn long_records_that_nobody_takes_share_it_too() {
    let server = Server::with_limits(Limits { answer_bytes: 16 << 20, ..Limits::default() }).await;
    server.topic("t", 1).await;
    let mut pipeline = server.pipeline().await;
    let value = vec![b'x'; 1 << 20];
    for _ in 0..4 {
        pipeline.send_produce("t", None, std::iter::once((None, &value[..])));
        pipeline.receive_produced().await.expect("the server answers");
    }

    // One byte is asked for, and a whole record comes.
    let before = resident();
    let mut connections = Vec::new();
    for _ in 0..100 {
        let mut raw = server.connect().await;
        for offset in 0..4 {
            let fetch = Fetch { max_bytes: 1, ..Fetch::from(Offset::new(offset)) };
            raw.send(&framed(request::Kind::Consume(fetch.request("t", 0)))).await;
        }
        connections.push(raw);
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    let grown = resident().saturating_sub(before);
    assert!(grown < 120 << 10, "{grown} KiB for long records that nobody takes");

    // They get theirs when the others have taken theirs, or are gone.
    drop(connections);
    let fetch = Fetch { max_bytes: 1, ..Fetch::from(Offset::new(3)) };
    assert_eq!(ok(server.client().consume("t", 0, fetch).await).records.len(), 1);
    server.stop().await;
}

async fn long_lists_that_nobody_takes_share_it_too() {
    let server = Server::with_limits(Limits { answer_bytes: 4 << 20, ..Limits::default() }).await;
    for n in 0..400 {
        server.topic(&format!("{n:0249}"), 1).await;
    }

    // Each could hold one of 100 KiB, and a megabyte if more than one were made before it is sent.
    let before = resident();
    let mut connections = Vec::new();
    for _ in 0..100 {
        let mut raw = server.connect().await;
        let request = framed(request::Kind::ListTopics(proto::ListTopicsRequest {}));
        raw.send(&request.repeat(100)).await;
        connections.push(raw);
    }
    tokio::time::sleep(Duration::from_millis(1000)).await;
    let grown = resident().saturating_sub(before);
    assert!(grown < 40 << 10, "{grown} KiB for lists that nobody takes");

    drop(connections);
    assert_eq!(ok(server.client().topics().await).len(), 400);
    server.stop().await;
}

async fn short_lists_that_nobody_takes_are_kept_as_they_are_sent() {
    let server = Server::start().await;
    server.topic("t", 200).await;

    // A partition without records is a tenth as long in an answer as in memory.
    let before = resident();
    let mut connections = Vec::new();
    for _ in 0..20 {
        let mut raw = server.connect_taking_little().await;
        let list = request::Kind::ListPartitions(proto::ListPartitionsRequest { topic: "t".into() });
        raw.send(&framed(list).repeat(6000)).await;
        connections.push(raw);
    }
    let (mut listed, mut last) = (String::new(), "none".to_owned());
    while listed != last {
        tokio::time::sleep(Duration::from_millis(500)).await;
        last = std::mem::replace(&mut listed, count_of_lists(&server));
    }
    let grown = resident().saturating_sub(before);
    assert!(grown < 30 << 10, "{grown} KiB for lists that nobody takes");

    drop(connections);
    assert_eq!(ok(server.client().partitions("t").await).len(), 200);
    server.stop().await;
}

/// As the metrics have it.
fn count_of_lists(server: &Server) -> String {
    let metrics = server.metrics.text(server.broker.stats());
    metrics.lines().find(|line| line.contains("list_partitions")).expect("it is counted").to_owned()
}

/// A request for many partitions becomes a batch for each. A connection that goes on with short ones does not keep them.
async fn what_a_connection_keeps_of_a_long_request_is_little() {
    // Where there is no room for more, the request's own memory goes at once.
    let server = Server::with_limits(Limits { buffer_bytes: 0, ..Limits::default() }).await;
    server.topic("t", 16).await;
    let records = vec![proto::NewRecord { key: None, value: vec![b'x'; 250_000].into() }; 16];
    let long = |records| proto::ProduceRequest { topic: "t".into(), partition: None, records };
    let (long, short) =
        (framed(request::Kind::Produce(long(records))), framed(common::produce("t", &["short"])));
    let mut connections = Vec::new();
    let mut before = 0;
    for nth in 0..30 {
        let mut raw = server.connect().await;
        raw.send(&long).await;
        raw.answer().await.expect("it is stored");
        connections.push(raw);
        for raw in &mut connections {
            raw.send(&short).await;
            raw.answer().await.expect("it is stored");
        }
        // What all need at first, one has shown.
        if nth == 9 {
            before = resident();
        }
    }
    let grown = resident().saturating_sub(before);
    assert!(grown < 20 << 10, "{grown} KiB for 20 connections that were answered");
    drop(connections);
    server.stop().await;
}

async fn memory_stays_flat_while_a_client_streams() {
    let server = Server::start().await;
    server.topic("t", 1).await;
    let mut pipeline = server.pipeline().await;
    let value = vec![b'x'; 10_000];
    let mut before = 0;
    for round in 0..20 {
        // 10 MB a round, never waiting for an answer before the next request.
        for _ in 0..10 {
            pipeline.send_produce("t", None, (0..100).map(|_| (None, &value[..])));
            pipeline.flush().await.expect("the server reads");
        }
        while pipeline.awaited() > 5 {
            let outcomes = pipeline.receive_produced().await.expect("the server answers").outcomes(100);
            for outcome in outcomes {
                ok(outcome);
            }
        }
        if round == 4 {
            before = resident();
        }
    }
    let grown = resident().saturating_sub(before);
    assert!(grown < 30 << 10, "{grown} KiB while 150 MB went through");
    server.stop().await;
}
