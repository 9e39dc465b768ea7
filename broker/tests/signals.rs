//! What SIGTERM and SIGINT do to a server, and to a measurement that has started one.
#![allow(clippy::disallowed_methods)] // on the real machine

mod common;

use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use common::process::{Process, broker};
use common::{LONG, consume, framed};

/// Sends signals, one right after the other.
fn signal(id: u32, names: &[&str]) {
    let script: Vec<String> = names.iter().map(|name| format!("kill -s {name} {id}")).collect();
    assert!(Command::new("sh").args(["-c", &script.join("; ")]).status().unwrap().success());
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < LONG, "{what}");
        sleep(Duration::from_millis(5));
    }
}

/// A server with a client that takes no answers: a clean stop has to wait for it.
fn with_a_deaf_client(data: &Path, stop_timeout: &str) -> (Process, TcpStream) {
    let server = Process::start(data, &["--stop-timeout", stop_timeout]);
    server.output(&["topic", "create", "t"]);
    assert!(server.run_with(&["produce", "t"], &[b'x'; 1_000_000]).status.success());
    let mut deaf = TcpStream::connect(&server.addr).unwrap();
    deaf.write_all(&framed(consume("t", 0, 0, 0)).repeat(100)).unwrap();
    // What is done before this one, with the others' answers in the way, it has no room for.
    assert!(server.run(&["topic", "list"]).status.success());
    (server, deaf)
}

/// Who ends a group of processes may tell one of them twice.
#[test]
fn a_signal_that_comes_twice_at_once_stops_cleanly() {
    let dir = tempfile::tempdir().unwrap();
    let (server, _deaf) = with_a_deaf_client(dir.path(), "1s");
    signal(server.id(), &["TERM", "INT", "TERM"]);
    let (status, said) = server.wait();
    assert!(status.success() && said.contains("INFO stopped"), "{status}: {said}");
}

#[test]
fn a_second_signal_ends_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let (server, _deaf) = with_a_deaf_client(dir.path(), "1h");
    signal(server.id(), &["TERM"]);
    sleep(Duration::from_secs(1));
    signal(server.id(), &["TERM"]);
    let (status, said) = server.wait();
    assert!(status.code() == Some(130) && said.contains("ended at once"), "{status}: {said}");
}

/// A measurement, and the server that it started. Both are killed when it is dropped, so that a server which was left
/// behind fails its test, and does not keep open what the test's own reader waits for.
struct Measurement {
    bench: Child,
    server: Option<u32>,
}

impl Measurement {
    /// Begins one that would go on for hours, and waits for its first record.
    fn begin(command: &str, data: &Path) -> Self {
        let mut bench = broker();
        bench.args(["bench", command, "--durability", "os", "--records", "1000000000", "--data"]);
        bench.arg(data).stdout(Stdio::null()).stderr(Stdio::null());
        let mut measurement = Self { bench: bench.spawn().unwrap(), server: None };
        let id = measurement.bench.id();
        let children = format!("/proc/{id}/task/{id}/children");
        until("the measurement starts a server", || {
            measurement.server = fs::read_to_string(&children).unwrap().trim().parse().ok();
            measurement.server.is_some()
        });
        let topic = data.join(format!("broker-bench-{id}/bench"));
        until("the measurement begins", || topic.exists());
        measurement
    }

    fn ended(&mut self) -> ExitStatus {
        let mut status = None;
        until("the measurement ends", || {
            status = self.bench.try_wait().unwrap();
            status.is_some()
        });
        status.expect("it has ended")
    }

    fn has_server(&self) -> bool {
        self.server.is_some_and(|id| Path::new("/proc").join(id.to_string()).exists())
    }
}

impl Drop for Measurement {
    fn drop(&mut self) {
        let _ = self.bench.kill();
        let _ = self.bench.wait();
        if self.has_server() {
            signal(self.server.expect("it has one"), &["KILL"]);
        }
    }
}

/// The server of a measurement ends with it, and so does its data.
#[test]
fn a_measurement_that_is_ended_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    for (command, name, code) in [("produce", "TERM", 143), ("consume", "INT", 130)] {
        let mut measurement = Measurement::begin(command, dir.path());
        assert!(measurement.has_server());
        signal(measurement.bench.id(), &[name]);
        assert_eq!(measurement.ended().code(), Some(code));
        assert!(!measurement.has_server(), "the server is still there");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
