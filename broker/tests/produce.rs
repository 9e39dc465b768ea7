//! `broker produce`, where the server goes away, is silent or ends the connection: each line is stored, once.
#![allow(clippy::disallowed_methods)] // on the real machine

mod common;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc;
use std::thread::sleep;
use std::time::Duration;

use broker::error::Code;
use broker::wire::{self, proto};
use common::process::{Process, broker, complaint, run, text};
use common::told::{Connection, now, request, told};
use proto::{request, response};
use rustix::process::Signal;

fn one_partition() -> Connection {
    let partitions = vec![proto::Partition::default()];
    vec![now(response::Kind::ListPartitions(proto::ListPartitionsResponse { partitions }))]
}

fn refused(code: Code) -> Connection {
    vec![now(response::Kind::Error(proto::ErrorResponse::new(code, "not now")))]
}

fn appended(count: u32) -> response::Kind {
    let appends = vec![proto::PartitionAppend { count, ..Default::default() }];
    response::Kind::Produce(proto::ProduceResponse { appends, partitions: Vec::new() })
}

fn error(code: Code) -> response::Kind {
    response::Kind::Error(proto::ErrorResponse::new(code, "no"))
}

/// What is said of these lines, each sent in a request of its own and answered so.
fn said_of(lines: &str, answers: Vec<response::Kind>) -> String {
    let mut answers: Connection = answers.into_iter().map(now).collect();
    // So that all have been sent before the first is answered.
    answers[0].0 = Duration::from_secs(1);
    let (addr, _) = told(vec![one_partition(), answers]);
    complaint(&run(&addr, &["produce", "t", "--batch", "1", "--retry", "1s"], lines.as_bytes()))
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
        let restart = vec![one_partition(), refused(code), refused(code), vec![now(appended(2))]];
        let (addr, asked) = told(restart);
        let produced = run(&addr, &["produce", "t"], b"a\nb\n");
        text(&produced);
        let said = String::from_utf8(produced.stderr).unwrap();
        assert!(said.ends_with("\n2 lines acknowledged\n"), "{code:?}: {said}");
        assert_eq!(produces(&asked.join().unwrap()), 3);
    }
}

/// What passes does not go on for ever, if it never passes.
#[test]
fn a_refusal_that_does_not_pass_is_given_up_in_time() {
    let mut always = vec![one_partition()];
    always.extend((0..100).map(|_| refused(Code::Timeout)));
    let (addr, _) = told(always);
    let why = complaint(&run(&addr, &["produce", "t", "--retry", "500ms"], b"a\n"));
    let expected = "did not come back in time: not now\n  no line stored\n  sent, and not stored: line 1\n";
    assert!(why.contains(expected), "{why}");
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
        why.contains("lines 1 to 2 may be stored or not: no answer within 500ms\n  no line stored\n"),
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
    assert!(why.contains("line 1 may be stored or not: an answer cannot be understood: "), "{why}");
    garbled.join().unwrap();
}

/// What was sent behind a line that is refused is stored, or not: that is known only when it has been answered.
#[test]
fn what_is_under_way_behind_a_refused_line_is_waited_for() {
    let why = said_of("a\nb\nc\n", vec![appended(1), error(Code::RecordTooLarge), appended(1)]);
    assert_eq!(
        why,
        "broker: line 2 was refused: no\n  stored: lines 1, 3\n  sent, and not stored: line 2\n  \
         not sent: whatever follows line 3\n  \
         to go on with the same input: --skip 1,3 when line 2 is mended, or --skip 3 without it\n"
    );
    let why = said_of("a\nb\nc\n", vec![appended(1), error(Code::StorageFull), error(Code::StorageFull)]);
    assert!(why.starts_with("broker: lines 2 to 3 were refused: no\n  stored: line 1\n"), "{why}");
    assert!(why.ends_with("to go on with the same input: --skip 1\n"), "{why}");
    let why = said_of("a\nb\nc\n", vec![error(Code::StorageFull), error(Code::OutcomeUnknown), appended(1)]);
    assert!(why.ends_with("--skip 0,2-3, if line 2 is stored; if not: --skip 0,3\n"), "{why}");
}

/// A server that cannot find the end of a message does nothing of what follows.
#[test]
fn what_follows_a_message_that_is_too_long_is_not_stored() {
    let why = said_of("a\nb\nc\n", vec![appended(1), error(Code::FrameTooLarge)]);
    assert!(why.contains("stored: line 1\n  sent, and not stored: lines 2 to 3\n"), "{why}");
    assert!(why.ends_with("--skip 1 when line 2 is mended, or --skip 2 without it\n"), "{why}");
}

/// The partitions of one request may fare differently.
#[test]
fn a_request_that_is_refused_in_part_is_told_line_by_line() {
    let append =
        |partition, error| proto::PartitionAppend { partition, count: 2, error, ..Default::default() };
    let fenced = proto::ErrorResponse::new(Code::Fenced, "no");
    let appends = vec![append(0, None), append(1, Some(fenced))];
    let answer = proto::ProduceResponse { appends, partitions: vec![0, 1, 0, 1] };
    let (addr, _) = told(vec![one_partition(), vec![now(response::Kind::Produce(answer))]]);
    let why = complaint(&run(&addr, &["produce", "t"], b"a\nb\nc\nd\n"));
    assert!(why.contains("lines 2, 4 were refused: no\n  stored: lines 1, 3\n"), "{why}");
    assert!(why.ends_with("to go on with the same input: --skip 1,3\n"), "{why}");
}

/// Produces this input, and goes on as is said, without the lines that cannot be stored, until all others are. Gives how
/// often it had to be gone on.
fn follow_the_hints(server: &Process, args: &[&str], input: &[u8]) -> usize {
    let mut skip = "0".to_owned();
    for times in 0.. {
        let output = server.run_with(&[&["produce", "t", "--skip", &skip], args].concat(), input);
        if output.status.success() {
            return times;
        }
        let why = complaint(&output);
        let (_, hint) = why.rsplit_once("--skip ").expect(&why);
        skip = hint.split_whitespace().next().expect("it says what to skip").to_owned();
    }
    unreachable!("it ends")
}

#[test]
fn who_follows_the_hints_has_every_good_line_stored_once() {
    let dir = tempfile::tempdir().unwrap();
    for (partitions, batch, in_flight) in
        [("1", "100", "8"), ("3", "100", "8"), ("3", "1", "100"), ("1", "7", "1")]
    {
        let server =
            Process::start(&dir.path().join([partitions, batch].concat()), &["--max-record-bytes", "1000"]);
        server.output(&["topic", "create", "t", "--partitions", partitions]);
        let (mut input, mut good) = (Vec::new(), Vec::new());
        for i in 0..3000 {
            let line = match i {
                5 | 6 | 700 | 2999 => format!("k:{}\n", "x".repeat(1000)),
                0 | 1500 | 1501 => format!("{i} is no key and value\n"),
                _ => format!("{}:line {i}\n", i % 5),
            };
            input.extend_from_slice(line.as_bytes());
            if let Some((_, value)) = line.split_once(':').filter(|(_, value)| value.len() < 1000) {
                good.push(value.to_owned());
            }
        }
        let args = ["--key-separator", ":", "--batch", batch, "--in-flight", in_flight];
        assert!((1..=7).contains(&follow_the_hints(&server, &args, &input)));
        let stored = server.output(&["consume", "t"]);
        let mut stored: Vec<_> = stored.split_inclusive('\n').collect();
        stored.sort_unstable();
        good.sort_unstable();
        assert!(stored == good, "{partitions} partitions, batches of {batch}");
    }
}

fn producer(addr: &str, timeout: &str) -> Child {
    let mut produce = broker();
    produce.args(["produce", "t", "--timeout", timeout, "--addr", addr]);
    produce.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// `tail -f app.log | broker produce logs`: between two lines there may be any time, and the server ends what is idle.
#[test]
fn a_producer_may_be_idle_for_longer_than_the_server_lets() {
    let dir = tempfile::tempdir().unwrap();
    let server = Process::start(&dir.path().join("data"), &["--idle-timeout", "300ms"]);
    server.output(&["topic", "create", "t"]);
    let mut producer = producer(&server.addr, "30s");
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

/// A producer that goes on, and its input, when its first line is stored.
fn producer_of_a(server: &Process) -> (Child, ChildStdin) {
    server.output(&["topic", "create", "t"]);
    let mut producer = producer(&server.addr, "30s");
    let mut input = producer.stdin.take().unwrap();
    input.write_all(b"a\n").unwrap();
    while server.output(&["consume", "t"]) != "a\n" {}
    (producer, input)
}

/// That it has waited for nothing, and all is stored.
fn has_not_waited(producer: Child, server: &Process, stored: &str) -> String {
    let output = producer.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let acknowledged = format!("\n{} lines acknowledged\n", stored.lines().count());
    assert!(output.status.success() && said.ends_with(&acknowledged), "{said}");
    assert!(!said.contains("waiting"), "{said}");
    assert_eq!(server.output(&["consume", "t"]), stored);
    said
}

/// What had the lines has ended: what is not in the log will not turn up.
#[test]
fn lines_that_a_killed_server_has_not_stored_are_sent_again_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let server = Process::start(&dir.path().join("data"), &[]);
    let addr = server.addr.clone();
    let (producer, mut input) = producer_of_a(&server);
    server.signal("STOP");
    input.write_all(b"b\nc\n").unwrap();
    drop(input);
    sleep(Duration::from_millis(500));
    server.kill();
    sleep(Duration::from_millis(500));
    let server = Process::start_at(&dir.path().join("data"), &addr, &[]);
    has_not_waited(producer, &server, "a\nb\nc\n");
}

/// Others may have appended so much since the last line was acknowledged that the log begins behind it by now.
#[test]
fn lines_are_looked_up_though_retention_has_taken_what_lies_before_them() {
    let dir = tempfile::tempdir().unwrap();
    let kept = ["--segment-bytes", "1KiB", "--retention-bytes", "2KiB", "--retention-check", "50ms"];
    let server = Process::start(&dir.path().join("data"), &kept);
    let addr = server.addr.clone();
    let (producer, mut input) = producer_of_a(&server);
    text(&server.run_with(&["produce", "t", "--batch", "10"], &b"others\n".repeat(1000)));
    while server.output(&["offsets", "t", "--partition", "0", "--at", "earliest"]) == "0\n" {}
    server.signal("STOP");
    input.write_all(b"b\nc\n").unwrap();
    drop(input);
    sleep(Duration::from_millis(500));
    server.kill();
    sleep(Duration::from_millis(500));
    let server = Process::start_at(&dir.path().join("data"), &addr, &[]);
    text(&producer.wait_with_output().unwrap());
    assert!(server.output(&["consume", "t"]).ends_with("\nb\nc\n"));
}

/// A server that gives what others have appended meanwhile, however much that is, has come back.
#[test]
fn a_long_look_for_lines_is_no_sign_that_the_server_is_away() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        let answer = |stream: &mut TcpStream, answer: response::Kind| {
            let mut frame = Vec::new();
            wire::put(&mut frame, &proto::Response::from(answer));
            stream.write_all(&frame).unwrap();
        };
        let accept = || {
            let (mut stream, _) = listener.accept().unwrap();
            request(&mut stream);
            stream
        };
        answer(&mut accept(), one_partition().remove(0).1);
        // With the line in flight.
        drop(accept());
        let mut looks = accept();
        for (offset, value) in (0..).zip(["x", "y", "z", "others'", "a"]) {
            sleep(Duration::from_millis(400));
            let records = vec![proto::Record { offset, value: value.into(), ..Default::default() }];
            let consumed = proto::ConsumeResponse { records, log_end_offset: 5, ..Default::default() };
            answer(&mut looks, response::Kind::Consume(consumed));
            if value != "a" {
                request(&mut looks);
            }
        }
        let _ = looks.read(&mut [0]);
    });
    text(&run(&addr, &["produce", "t", "--retry", "1s"], b"a\n"));
}

/// A partition in which none of the lines can be may be damaged, or not be served at all: nobody has to look there.
#[test]
fn lines_are_looked_for_only_where_they_can_be() {
    for (args, line, found_in) in
        [(&["--key-separator", ":"][..], "user-1:a\n", 1), (&["--key", "user-3"][..], "a\n", 2)]
    {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap().to_string();
        std::thread::spawn(move || {
            let asked = || {
                let (mut stream, _) = listener.accept().unwrap();
                let asked = request(&mut stream);
                (stream, asked)
            };
            let answer = |stream: &mut TcpStream, answer: response::Kind| {
                let mut frame = Vec::new();
                wire::put(&mut frame, &proto::Response::from(answer));
                stream.write_all(&frame).unwrap();
            };
            let partitions = (0..3).map(|number| proto::Partition { number, ..Default::default() }).collect();
            let three = response::Kind::ListPartitions(proto::ListPartitionsResponse { partitions });
            answer(&mut asked().0, three);
            // With the line in flight.
            let (_, request::Kind::Produce(produce)) = asked() else { panic!("a produce") };
            let proto::NewRecord { key, value } = produce.records[0].clone();
            let (mut looks, mut asked) = asked();
            while let request::Kind::Consume(consume) = asked {
                let damaged = proto::ErrorResponse::new(Code::Corrupt, "damaged");
                let records =
                    vec![proto::Record { key: key.clone(), value: value.clone(), ..Default::default() }];
                let consumed = proto::ConsumeResponse { records, log_end_offset: 1, ..Default::default() };
                answer(
                    &mut looks,
                    match consume.partition == found_in {
                        true => response::Kind::Consume(consumed),
                        false => response::Kind::Error(damaged),
                    },
                );
                asked = request(&mut looks);
            }
        });
        let produced = run(&addr, &[&["produce", "t", "--retry", "1s"], args].concat(), line.as_bytes());
        let said = String::from_utf8_lossy(&produced.stderr).into_owned();
        assert!(produced.status.success() && said.ends_with("\n1 line acknowledged\n"), "{args:?}: {said}");
    }
}

/// `tail -f` never ends by itself: whoever ends it wants to know what was stored, and how to go on.
#[test]
fn who_ends_a_producer_is_told_what_it_has_stored() {
    let dir = tempfile::tempdir().unwrap();
    let server = Process::start(&dir.path().join("data"), &[]);
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        server.run(&["topic", "delete", "t"]);
        let (producer, _input) = producer_of_a(&server);
        send(&producer, signal);
        let output = producer.wait_with_output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{said}");
        let rest = "\n  stored: line 1\n  not sent: whatever follows line 1\n  to go on with the same input: --skip 1\n";
        assert!(said.contains("ended by SIG") && said.ends_with(rest), "{said}");
    }
}

/// A server that takes the first line of a producer and does not answer before it is told to; and the producer.
fn producer_under_way() -> (Child, ChildStdin, mpsc::Sender<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap().to_string();
    let ((taken, is_taken), (answer, may_answer)) = (mpsc::channel(), mpsc::channel());
    std::thread::spawn(move || {
        for answers in [one_partition(), vec![now(appended(1))]] {
            let (mut stream, _) = listener.accept().unwrap();
            let is_produced = matches!(request(&mut stream), request::Kind::Produce(_));
            if is_produced {
                taken.send(()).unwrap();
                // Nobody will tell it to, where the producer is to end without.
                may_answer.recv().unwrap_or_default();
            }
            let mut frame = Vec::new();
            answers.into_iter().for_each(|(_, answer)| wire::put(&mut frame, &proto::Response::from(answer)));
            let _ = stream.write_all(&frame);
            // Until the producer goes.
            let _ = stream.read(&mut [0]);
        }
    });
    let mut producer = producer(&addr, "30s");
    let mut input = producer.stdin.take().unwrap();
    input.write_all(b"a\n").unwrap();
    is_taken.recv().unwrap();
    (producer, input, answer)
}

#[test]
fn what_is_under_way_is_waited_for_when_a_producer_is_ended() {
    let (producer, _input, answer) = producer_under_way();
    send(&producer, Signal::INT);
    sleep(Duration::from_millis(300));
    answer.send(()).unwrap();
    let output = producer.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.ends_with("to go on with the same input: --skip 1\n"), "{said}");
}

/// A server that does not answer is waited for, until the signal comes again.
#[test]
fn who_ends_a_producer_twice_does_not_wait_for_the_server() {
    let (mut producer, _input, _answer) = producer_under_way();
    while producer.try_wait().unwrap().is_none() {
        send(&producer, Signal::INT);
        sleep(Duration::from_millis(100));
    }
    let output = producer.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{said}");
    let rest = "to go on with the same input: --skip 1, if line 1 is stored; if not: --skip 0\n";
    assert!(said.ends_with(rest), "{said}");
}

fn send(producer: &Child, signal: Signal) {
    rustix::process::kill_process(rustix::process::Pid::from_child(producer), signal).unwrap();
}

/// Nothing was under way when the server went, so nothing has to be looked for when it is back.
#[test]
fn a_restart_between_two_lines_holds_up_none() {
    let dir = tempfile::tempdir().unwrap();
    let server = Process::start(&dir.path().join("data"), &[]);
    let addr = server.addr.clone();
    let (producer, mut input) = producer_of_a(&server);
    server.kill();
    let server = Process::start_at(&dir.path().join("data"), &addr, &[]);
    sleep(Duration::from_millis(500));
    input.write_all(b"b\n").unwrap();
    drop(input);
    let said = has_not_waited(producer, &server, "a\nb\n");
    assert!(said.contains("1 line acknowledged, 0 in flight and 1 to be sent"), "{said}");
    assert!(said.contains("\nreconnected\n"), "{said}");
}

/// What came when nobody was there to take it was not sent.
#[test]
fn lines_that_came_after_the_server_had_gone_are_told_as_not_sent() {
    let dir = tempfile::tempdir().unwrap();
    let server = Process::start(&dir.path().join("data"), &[]);
    server.output(&["topic", "create", "t"]);
    let mut produce = broker();
    produce.args(["produce", "t", "--retry", "300ms", "--addr", &server.addr]).stdin(Stdio::piped());
    let mut producer = produce.stderr(Stdio::piped()).spawn().unwrap();
    let mut input = producer.stdin.take().unwrap();
    input.write_all(b"a\n").unwrap();
    while server.output(&["consume", "t"]) != "a\n" {}
    server.kill();
    sleep(Duration::from_millis(500));
    input.write_all(b"b\nc\n").unwrap();
    drop(input);
    let why = complaint(&producer.wait_with_output().unwrap());
    let rest =
        "\n  stored: line 1\n  not sent: whatever follows line 1\n  to go on with the same input: --skip 1\n";
    assert!(why.ends_with(rest), "{why}");
}

/// One of two partitions takes nothing, and every other line is stored: there is no command line for so many numbers.
#[test]
fn a_long_list_of_lines_is_skipped_by_way_of_a_file() {
    let lines = 20_000;
    let input: String = (1..=lines).map(|n| format!("{n}\n")).collect();
    let append = |partition, error| proto::PartitionAppend {
        partition,
        count: lines / 2,
        error,
        ..Default::default()
    };
    let full = proto::ErrorResponse::new(Code::StorageFull, "no");
    let appends = vec![append(0, None), append(1, Some(full))];
    let answer = proto::ProduceResponse { appends, partitions: (0..lines).map(|n| n % 2).collect() };
    let (addr, _) = told(vec![one_partition(), vec![now(response::Kind::Produce(answer))]]);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("list");
    // Of a file all lines are there at once, and go into one request.
    std::fs::write(&file, &input).unwrap();
    let mut produce = broker();
    produce.args(["produce", "t", "--batch", "100000", "--addr", &addr]);
    let why = complaint(&produce.stdin(std::fs::File::open(&file).unwrap()).output().unwrap());
    let (_, list) = why.split_once("--skip @FILE with a file that holds ").expect(&why);
    assert!(list.starts_with("1,3,5,"), "{list}");

    std::fs::write(&file, list).unwrap();
    let server = Process::start(&dir.path().join("data"), &[]);
    server.output(&["topic", "create", "t"]);
    let skip = format!("@{}", file.display());
    text(&server.run_with(&["produce", "t", "--skip", &skip], input.as_bytes()));
    let rest: String = (1..=lines).filter(|n| n % 2 == 0).map(|n| format!("{n}\n")).collect();
    assert!(server.output(&["consume", "t"]) == rest);
    for wrong in ["1,2-", ""] {
        std::fs::write(&file, wrong).unwrap();
        let refused = server.run(&["produce", "t", "--skip", &skip]);
        let why = String::from_utf8(refused.stderr).unwrap();
        assert!(why.contains("does not hold a number of lines"), "{why}");
    }
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
    // It may come back so fast that nobody sees that it was away: then the lines in flight are waited for.
    let mut producer = producer(&addr, "3s");
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
