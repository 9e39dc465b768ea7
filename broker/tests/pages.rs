//! The pages that a server has for metrics and health.
#![allow(clippy::disallowed_methods)] // on the real machine

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Stdio};

use common::LONG;
use common::process::{Process, broker, run, text};

/// A server with pages, and their address.
struct Pages {
    child: Child,
    addr: String,
}

impl Pages {
    fn serve(data: &Path) -> Self {
        let mut serve = broker();
        serve.args(["serve", "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--data"]).arg(data);
        let child = serve.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut pages = Self { child, addr: String::new() };
        let mut said = BufReader::new(pages.child.stderr.take().unwrap());
        while pages.addr.is_empty() {
            let mut line = String::new();
            assert_ne!(said.read_line(&mut line).unwrap(), 0, "it says where");
            if let Some((_, rest)) = line.split_once("metrics at http://") {
                pages.addr = rest.split('/').next().unwrap().to_owned();
            }
        }
        pages
    }

    fn connect(&self) -> TcpStream {
        TcpStream::connect(&self.addr).unwrap()
    }

    /// What it answers to the beginning of a request.
    fn get(&self, asked: &str) -> String {
        let mut stream = self.connect();
        write!(stream, "{asked} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        rest(stream)
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// All that comes, to the end.
fn rest(mut stream: TcpStream) -> String {
    stream.set_read_timeout(Some(LONG)).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn metrics_and_health_are_served() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let pages = Pages::serve(&data);
    assert!(pages.get("GET /health").starts_with("HTTP/1.1 200 OK\r\n"));
    assert!(pages.get("GET /metrics").contains("\nbroker_recovery_partitions 0\n"));
    assert!(pages.get("GET /other").starts_with("HTTP/1.1 404 "));
    assert!(pages.get("POST /metrics").starts_with("HTTP/1.1 400 "));
    let head = pages.get("HEAD /health");
    assert!(
        head.starts_with("HTTP/1.1 200 OK\r\n") && head.ends_with("\r\n\r\n"),
        "no more than the head: {head}"
    );
    drop(pages);

    let server = Process::start(&data, &[]);
    server.output(&["topic", "create", "t"]);
    server.stop();
    fs::remove_dir_all(data.join("t/0")).unwrap();
    let pages = Pages::serve(&data);
    let health = pages.get("GET /health");
    assert!(health.starts_with("HTTP/1.1 503 ") && health.contains("t/0 serves nothing: "), "{health}");
    assert!(pages.get("GET /metrics").contains("\nbroker_recovery_unopened 1\n"));
    drop(pages);

    // A topic that cannot be looked into has no partitions to tell of it.
    fs::remove_file(data.join("t/topic")).unwrap();
    std::os::unix::fs::symlink("topic", data.join("t/topic")).unwrap();
    let pages = Pages::serve(&data);
    let health = pages.get("GET /health");
    assert!(health.starts_with("HTTP/1.1 503 ") && health.contains("\nt serves nothing: "), "{health}");
    drop(pages);

    // That one is gone keeps nobody from being served.
    fs::remove_dir_all(data.join("t")).unwrap();
    let server = Process::start(&data, &[]);
    server.output(&["topic", "create", "u"]);
    server.stop();
    fs::remove_dir_all(data.join("u")).unwrap();
    let pages = Pages::serve(&data);
    let health = pages.get("GET /health");
    assert!(health.starts_with("HTTP/1.1 200 ") && health.contains("\r\n\r\nok\nu is gone: "), "{health}");
}

/// As somebody types it, who waits for the answer with the connection open.
#[test]
fn a_page_is_given_to_who_ends_lines_without_carriage_returns() {
    let dir = tempfile::tempdir().unwrap();
    let pages = Pages::serve(dir.path());
    let mut asks = pages.connect();
    write!(asks, "GET /health HTTP/1.0\n\n").unwrap();
    let answer = rest(asks);
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
}

/// Whoever connects and says nothing keeps nobody from the pages.
#[test]
fn silent_connections_do_not_keep_others_from_the_pages() {
    let dir = tempfile::tempdir().unwrap();
    let pages = Pages::serve(dir.path());
    let silent: Vec<_> = (0..200).map(|_| pages.connect()).collect();
    let mut asks = pages.connect();
    write!(asks, "GET /health HTTP/1.1\r\n\r\n").unwrap();
    let answer = rest(asks);
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    drop(silent);
}

/// A partition that has nothing new is not asked again for each record of another.
#[test]
fn following_many_partitions_costs_requests_by_the_batch() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let mut pages = Pages::serve(&data);
    let mut line = String::new();
    let mut out = BufReader::new(pages.child.stdout.take().unwrap());
    out.read_line(&mut line).unwrap();
    let addr = line.trim().strip_prefix("listening on ").unwrap();
    text(&run(addr, &["topic", "create", "t", "--partitions", "10"], b""));
    let sent: String = (0..2000).map(|i| format!("line {i}\n")).collect();
    text(&run(addr, &["produce", "t", "--partition", "3"], sent.as_bytes()));
    assert_eq!(text(&run(addr, &["consume", "t", "--follow", "--count", "2000"], b"")), sent);
    let page = pages.get("GET /metrics");
    let asked = page.lines().find_map(|line| line.strip_prefix("broker_requests_total{kind=\"consume\"} "));
    let asked: u64 = asked.unwrap_or_else(|| panic!("{page}")).parse().unwrap();
    assert!((10..100).contains(&asked), "{asked} requests");
}
