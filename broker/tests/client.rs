//! What a client knows of each call when a server is away, silent or slow.

mod common;

use std::time::Duration;

use broker::client::{Client, Fetch, Options, Outcome};
use broker::error::Code;
use broker::net::TcpConnector;
use broker::server::Limits;
use broker::settings::Settings;
use broker::units::Offset;
use common::{LONG, Server, ok, open, record, refused};

/// The client connects anew after the server has been away, and says what it knows of each call.
#[tokio::test]
async fn a_client_connects_again_after_the_server_was_away() {
    let server = Server::start().await;
    server.topic("t", 1).await;
    let options = Options { backoff_min: Duration::from_millis(1), ..Options::default() };
    let client = Client::new(TcpConnector, &server.addr, options);
    ok(client.produce("t", None, record("before")).await);
    let addr = server.addr.clone();
    let dir = server.stop().await;

    match client.produce("t", None, record("nobody there")).await {
        Outcome::Refused(refusal) => assert_eq!(refusal.code, Code::Unavailable),
        other => panic!("nothing was sent, and the client knows it: {other:?}"),
    }

    let broker = open(dir.path(), Settings::default());
    let listener = tokio::net::TcpListener::bind(&addr).await.expect("the port is free again");
    let stop = tokio_util::sync::CancellationToken::new();
    let metrics = Default::default();
    let served =
        tokio::spawn(broker::server::serve(listener, broker, Limits::default(), stop.clone(), metrics));
    assert_eq!(ok(client.produce("t", None, record("after")).await).offset, Offset::new(1));
    stop.cancel();
    served.await.unwrap().unwrap();
}

/// A server that was reached and says nothing leaves the outcome unknown; the next call goes on.
#[tokio::test]
async fn no_answer_in_time_leaves_the_outcome_unknown() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = silent.local_addr().unwrap().to_string();
    let options = Options { request_timeout: Duration::from_millis(50), ..Options::default() };
    let client = Client::new(TcpConnector, addr, options);
    let accepted = tokio::spawn(async move {
        let (first, _) = silent.accept().await.unwrap();
        let (second, _) = silent.accept().await.unwrap();
        drop(first);
        drop(second);
    });
    for _ in 0..2 {
        assert!(matches!(client.produce("t", None, record("v")).await, Outcome::Unknown(_)));
    }
    tokio::time::timeout(LONG, accepted).await.expect("each call had a connection of its own").unwrap();
}

/// A server that is away is not asked again at once, however often the caller does.
#[tokio::test]
async fn a_client_waits_between_attempts_to_connect() {
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = Client::new(TcpConnector, taken.local_addr().unwrap().to_string(), Options::default());
    drop(taken);
    let begun = tokio::time::Instant::now();
    for _ in 0..3 {
        assert_eq!(refused(client.topics().await), Code::Unavailable);
    }
    assert!(begun.elapsed() >= Duration::from_millis(50 + 100), "{:?}", begun.elapsed());
}

/// The time for which the server is to wait is not taken from the time that it has to answer.
#[tokio::test]
async fn a_consume_may_wait_for_longer_than_an_answer_may_take() {
    let server = Server::start().await;
    server.topic("t", 1).await;
    let options = Options { request_timeout: Duration::from_millis(500), ..Options::default() };
    let client = Client::new(TcpConnector, &server.addr, options);
    let fetch = Fetch::from(Offset::ZERO).wait(Duration::from_secs(1));
    assert_eq!(ok(client.consume("t", 0, fetch).await).records, []);
    server.stop().await;
}
