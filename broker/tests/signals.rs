//! What SIGTERM and SIGINT do to a server, and to a measurement that has started one.
#![allow(clippy::disallowed_methods)] // on the real machine

mod common;

use std::fs;
use std::io::{PipeWriter, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use broker::client::{Client, Options};
use broker::net::TcpConnector;
use broker::settings::TopicSettings;
use common::process::{Process, broker};
use common::{LONG, consume, framed, ok};
use rustix::fs::{OFlags, fcntl_setfl};

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

/// As behind a terminal that is stopped, or a pager that waits.
#[tokio::test]
async fn a_server_whose_log_nobody_reads_serves_and_stops() {
    let dir = tempfile::tempdir().unwrap();
    let (_unread, stderr) = std::io::pipe().unwrap();
    let full = stderr.try_clone().unwrap();
    let mut server = Process::start_heard_by(dir.path(), stderr.into());
    fill(full);
    let client = Client::new(TcpConnector, &server.addr, Options::default());
    for n in 0..10 {
        // Each tells a line.
        ok(client.create_topic(&format!("t{n}"), &TopicSettings::with_partitions(1)).await);
    }
    server.signal("TERM");
    let mut status = None;
    until("it stops", || {
        status = server.has_ended();
        status.is_some()
    });
    assert!(status.is_some_and(|status| status.success()), "{status:?}");
}

/// Puts into a pipe what fits in.
fn fill(mut pipe: PipeWriter) {
    // Both ends of a clone share how they wait.
    fcntl_setfl(&pipe, OFlags::NONBLOCK).unwrap();
    for piece in [4096, 1] {
        while pipe.write(&[b'x'; 4096][..piece]).is_ok() {}
    }
    fcntl_setfl(&pipe, OFlags::empty()).unwrap();
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

/// Nor does one that has no server.
#[test]
fn a_measurement_of_the_machine_that_is_ended_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut limits = broker();
    limits.args(["bench", "limits", "--time", "1h", "--data"]).arg(dir.path()).stdout(Stdio::null());
    let mut limits = Measurement { bench: limits.spawn().unwrap(), server: None };
    let files = format!("/proc/{}/fd", limits.bench.id());
    let is_open = |file: &fs::DirEntry| {
        fs::read_link(file.path()).is_ok_and(|to| to.to_string_lossy().contains("broker-bench-limits"))
    };
    until("it has made its file", || {
        fs::read_dir(&files).is_ok_and(|mut files| files.any(|file| file.is_ok_and(|file| is_open(&file))))
    });
    // Long enough for the next one.
    until("it measures", || fs::read_dir(dir.path()).unwrap().count() == 0);
    signal(limits.bench.id(), &["INT"]);
    limits.ended();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}
