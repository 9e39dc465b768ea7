//! `broker produce`, where the server goes away, is silent or ends the connection: each line is stored, once.
#![allow(clippy::disallowed_methods)] // on the real machine

mod common;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::thread::{JoinHandle, sleep};
use std::time::Duration;

use broker::error::Code;
use broker::wire::{self, proto};
use common::process::{Process, broker, complaint, run, text};
use prost::Message;
use proto::{request, response};

/// For one connection: after how long each request is answered, and with what. Then the connection is closed.
type Connection = Vec<(Duration, response::Kind)>;

/// A server that takes these connections one after the other. Gives its address, and in the end what it was asked.
fn told(connections: Vec<Connection>) -> (String, JoinHandle<Vec<request::Kind>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap().to_string();
    let serve = move || {
        let mut asked = Vec::new();
        for answers in connections {
            let (mut stream, _) = listener.accept().unwrap();
            for (after, answer) in answers {
                asked.push(request(&mut stream));
                sleep(after);
                let mut frame = Vec::new();
                wire::put(&mut frame, &proto::Response::from(answer));
                stream.write_all(&frame).unwrap();
            }
        }
        asked
    };
    (addr, std::thread::spawn(serve))
}

fn request(stream: &mut TcpStream) -> request::Kind {
    let mut len = [0; 4];
    stream.read_exact(&mut len).unwrap();
    let mut message = vec![0; u32::from_be_bytes(len) as usize];
    stream.read_exact(&mut message).unwrap();
    proto::Request::decode(&message[..]).unwrap().kind.unwrap()
}

fn now(answer: response::Kind) -> (Duration, response::Kind) {
    (Duration::ZERO, answer)
}

fn one_partition() -> Connection {
    let partitions = vec![proto::Partition::default()];
    vec![now(response::Kind::ListPartitions(proto::ListPartitionsResponse { partitions }))]
}

fn refused(code: Code) -> Connection {
    vec![now(response::Kind::Error(proto::ErrorResponse::new(code, "not now")))]
}

fn nothing_there() -> Connection {
    vec![now(response::Kind::Consume(proto::ConsumeResponse::default()))]
}

fn appended(count: u32) -> response::Kind {
    let appends = vec![proto::PartitionAppend { count, ..Default::default() }];
    response::Kind::Produce(proto::ProduceResponse { appends, partitions: Vec::new() })
}

/// How many produces a server was asked for.
fn produces(asked: &[request::Kind]) -> usize {
    asked.iter().filter(|kind| matches!(kind, request::Kind::Produce(_))).count()
}

/// A server that stops says so to whoever it has not heard out, and one that starts may be full for a moment: that is as
/// good as a lost connection.
#[test]
fn a_refusal_that_passes_is_no_reason_to_give_up() {
    for code in [Code::ShuttingDown, Code::Timeout, Code::TooManyConnections] {
        let restart =
            vec![one_partition(), refused(code), refused(code), nothing_there(), vec![now(appended(2))]];
        let (addr, asked) = told(restart);
        let produced = run(&addr, &["produce", "t"], b"a\nb\n");
        text(&produced);
        let said = String::from_utf8(produced.stderr).unwrap();
        assert!(said.ends_with("\n2 lines acknowledged\n"), "{code:?}: {said}");
        assert_eq!(produces(&asked.join().unwrap()), 2);
    }
}

/// What passes does not go on for ever, if it never passes.
#[test]
fn a_refusal_that_does_not_pass_is_given_up_in_time() {
    let mut always = vec![one_partition()];
    always.extend((0..100).flat_map(|_| [refused(Code::Timeout), nothing_there()]));
    let (addr, _) = told(always);
    let why = complaint(&run(&addr, &["produce", "t", "--retry", "500ms"], b"a\n"));
    assert!(why.contains("did not come back in time: not now\n  no line acknowledged"), "{why}");
}

/// While a sync takes long, what was appended cannot be seen yet: sent again, it would be there twice.
#[test]
fn a_silent_server_is_waited_for() {
    let slow = vec![(Duration::from_secs(1), appended(2))];
    let (addr, asked) = told(vec![one_partition(), slow]);
    let produced = run(&addr, &["produce", "t", "--timeout", "200ms"], b"a\nb\n");
    text(&produced);
    let said = String::from_utf8(produced.stderr).unwrap();
    assert!(
        said.starts_with("no answer within 200ms; waiting") && said.ends_with("2 lines acknowledged\n"),
        "{said}"
    );
    assert_eq!(produces(&asked.join().unwrap()), 1);

    let never = vec![(Duration::from_secs(3), appended(2))];
    let (addr, asked) = told(vec![one_partition(), never]);
    let why = complaint(&run(&addr, &["produce", "t", "--timeout", "200ms", "--retry", "300ms"], b"a\nb\n"));
    assert!(
        why.contains("no answer within 500ms\n  no line acknowledged\n  2 lines sent after them"),
        "{why}"
    );
    drop(asked);
}

/// Something else listens there, or its answers are garbled: what it does with the lines is not known.
#[test]
fn an_answer_that_cannot_be_understood_is_no_lost_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap().to_string();
    let garbled = std::thread::spawn(move || {
        let (mut first, _) = listener.accept().unwrap();
        request(&mut first);
        let (_, partitions) = one_partition().remove(0);
        let mut frame = Vec::new();
        wire::put(&mut frame, &proto::Response::from(partitions));
        first.write_all(&frame).unwrap();
        let (mut second, _) = listener.accept().unwrap();
        request(&mut second);
        second.write_all(&[0, 0, 0, 2, 255, 255]).unwrap();
        // Not closed before the other end is.
        let _ = second.read(&mut [0]);
    });
    let why = complaint(&run(&addr, &["produce", "t"], b"a\n"));
    assert!(why.contains("an answer cannot be understood: ") && why.contains("1 line sent"), "{why}");
    garbled.join().unwrap();
}

fn producer(addr: &str) -> Child {
    let mut produce = broker();
    produce.args(["produce", "t", "--addr", addr]).stdin(Stdio::piped()).stderr(Stdio::piped());
    produce.spawn().unwrap()
}

/// `tail -f app.log | broker produce logs`: between two lines there may be any time, and the server ends what is idle.
#[test]
fn a_producer_may_be_idle_for_longer_than_the_server_lets() {
    let dir = tempfile::tempdir().unwrap();
    let server = Process::start(&dir.path().join("data"), &["--idle-timeout", "300ms"]);
    server.output(&["topic", "create", "t"]);
    let mut producer = producer(&server.addr);
    let mut input = producer.stdin.take().unwrap();
    for line in ["a\n", "b\n", "c\n"] {
        input.write_all(line.as_bytes()).unwrap();
        sleep(Duration::from_millis(700));
    }
    drop(input);
    let output = producer.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(server.output(&["consume", "t"]), "a\nb\nc\n");
}

/// Stopped cleanly half way, and started again.
#[test]
fn a_file_comes_back_byte_for_byte_through_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = Process::start(&data, &[]);
    let addr = server.addr.clone();
    server.output(&["topic", "create", "t"]);
    let file: Vec<u8> = (0..200_000).flat_map(|i| format!("line {i}\n").into_bytes()).collect();
    let mut producer = producer(&addr);
    let mut input = producer.stdin.take().unwrap();
    let all = file.clone();
    let feeder = std::thread::spawn(move || input.write_all(&all));
    sleep(Duration::from_millis(50));
    assert!(server.stop().0.success());
    let server = Process::start_at(&data, &addr, &[]);
    let output = producer.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    feeder.join().unwrap().unwrap();
    assert!(server.run(&["consume", "t"]).stdout == file, "the bytes are those of the file; {said}");
}
