//! What a client knows of each call when a server is away, silent or slow.

mod common;

use std::io::{Read, Write};
use std::time::Duration;

use broker::client::{Client, Fetch, Options, Outcome};
use broker::error::Code;
use broker::net::TcpConnector;
use broker::server::Limits;
use broker::settings::Settings;
use broker::units::Offset;
use broker::wire;
use broker::wire::proto::{self, request, response};
use common::{LONG, Server, ok, open, record, refused};
use prost::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

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

/// The server's word that a connection was idle for too long may cross the next request on its way. It is no answer to that.
#[tokio::test]
async fn a_connection_that_was_idle_for_too_long_costs_no_request() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = Client::new(TcpConnector, listener.local_addr().unwrap().to_string(), Options::default());
    let server = tokio::spawn(async move {
        let (mut first, _) = listener.accept().await.unwrap();
        read_request(&mut first).await;
        first.write_all(&answer(listed())).await.unwrap();
        read_request(&mut first).await;
        let idle = proto::ErrorResponse::new(Code::Timeout, "the connection was idle for too long");
        first.write_all(&answer(idle.into())).await.unwrap();
        first.shutdown().await.unwrap();
        let (mut second, _) = listener.accept().await.unwrap();
        let again = read_request(&mut second).await;
        second.write_all(&answer(produced())).await.unwrap();
        again
    });
    ok(client.topics().await);
    assert_eq!(ok(client.produce("t", Some(0), record("once")).await).offset, Offset::new(7));
    let again = server.await.unwrap();
    assert!(matches!(again.kind, Some(request::Kind::Produce(_))), "{again:?}");
}

/// A program that was stopped for a while, as one whose output goes to a pager, has not seen that the server went meanwhile.
#[tokio::test]
async fn a_connection_that_was_closed_unseen_costs_no_request() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let client = Client::new(TcpConnector, listener.local_addr().unwrap().to_string(), Options::default());
    let (closed, is_closed) = std::sync::mpsc::channel();
    // Closed any sooner, it may be seen with the answer.
    let (answered, is_answered) = std::sync::mpsc::channel();
    #[allow(clippy::disallowed_methods)] // the server's own thread: the client's is stopped
    let server = std::thread::spawn(move || {
        let exchange = |response| {
            let (mut stream, _) = listener.accept().unwrap();
            let mut len = [0; 4];
            stream.read_exact(&mut len).unwrap();
            stream.read_exact(&mut vec![0; u32::from_be_bytes(len) as usize]).unwrap();
            stream.write_all(&answer(response)).unwrap();
            stream
        };
        let stream = exchange(listed());
        is_answered.recv().unwrap();
        drop(stream);
        closed.send(()).unwrap();
        exchange(produced())
    });
    ok(client.topics().await);
    answered.send(()).unwrap();
    is_closed.recv().unwrap();
    assert_eq!(ok(client.produce("t", Some(0), record("once")).await).offset, Offset::new(7));
    drop(server.join().unwrap());
}

async fn read_request(stream: &mut tokio::net::TcpStream) -> proto::Request {
    let len = stream.read_u32().await.unwrap();
    let mut message = vec![0; len as usize];
    stream.read_exact(&mut message).await.unwrap();
    proto::Request::decode(&message[..]).unwrap()
}

fn answer(response: proto::Response) -> Vec<u8> {
    let mut frame = Vec::new();
    wire::put(&mut frame, &response);
    frame
}

fn listed() -> proto::Response {
    response::Kind::ListTopics(proto::ListTopicsResponse { topics: Vec::new() }).into()
}

fn produced() -> proto::Response {
    let append = proto::PartitionAppend { partition: 0, base_offset: 7, count: 1, error: None };
    response::Kind::Produce(proto::ProduceResponse { appends: vec![append], partitions: Vec::new() }).into()
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
