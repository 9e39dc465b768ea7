//! What the system grants a process, open files and the size of files, and what the server makes of it.
#![allow(clippy::disallowed_methods)] // on the real machine

mod common;

use std::process::{Command, Output, Stdio};

use common::process::{Process, broker, complaint, lines, text, verdict};

/// Partitions keep files open; what that leaves for connections is kept for them, and who asks for more is told.
#[test]
fn partitions_leave_files_for_connections() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let few = "ulimit -n 400 && exec \"$0\" \"$@\"";
    let server = Process::start_by(few, &data, &[]);
    server.output(&["topic", "create", "t", "--partitions", "50"]);
    let why = complaint(&server.run(&["topic", "create", "u", "--partitions", "100"]));
    assert!(why.contains("ulimit -n"), "{why}");
    text(&server.run_with(&["produce", "t"], "a line\n".repeat(100).as_bytes()));
    assert_eq!(server.output(&["consume", "t"]).lines().count(), 100);
    server.stop();

    let server = Process::start(&data, &[]);
    server.output(&["topic", "create", "u", "--partitions", "100"]);
    server.stop();
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", few, env!("CARGO_BIN_EXE_broker"), "serve", "--listen", "127.0.0.1:0", "--data"]);
    let why = complaint(&shell.arg(&data).output().unwrap());
    assert!(why.contains("150 partitions keep 450 files open") && why.contains("ulimit -n"), "{why}");
    let (_, said) = Process::start(&data, &[]).stop();
    assert!(said.contains("after a clean stop"), "the start that was refused changed nothing: {said}");
}

/// Clients that connect and stay do not take the files that the log needs.
#[test]
fn connections_leave_files_for_partitions() {
    let dir = tempfile::tempdir().unwrap();
    let few = "ulimit -n 200 && exec \"$0\" \"$@\"";
    let server = Process::start_by(few, &dir.path().join("data"), &["--segment-bytes", "1KiB"]);
    let mut idle: Vec<_> = (0..190).map(|_| std::net::TcpStream::connect(&server.addr).unwrap()).collect();
    // As long as it is telling others, it just closes.
    let told = (0..20).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(500));
        let why = complaint(&server.run(&["topic", "list", "--timeout", "1s"]));
        why.contains("the server has 50 connections, which is its limit")
    });
    assert!(told);
    idle.truncate(40);
    // The server hears of it soon.
    while !server.run(&["topic", "list"]).status.success() {}
    server.output(&["topic", "create", "t", "--partitions", "6"]);
    text(&server.run_with(&["produce", "t"], "a line\n".repeat(1000).as_bytes()));
    assert_eq!(server.output(&["consume", "t"]).lines().count(), 1000);
    let (status, said) = server.stop();
    assert!(status.success());
    assert!(
        said.contains("leaves room for 50 connections, of --max-connections 1024, and 7 partitions"),
        "{said}"
    );
}

/// Where many partitions get keys evenly, they are full at about the same time.
#[test]
fn partitions_that_roll_at_the_same_time_leave_files_for_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let rolls = ["--segment-bytes", "1", "--max-connections", "100"];
    let server = Process::start_by("ulimit -n 400 && exec \"$0\" \"$@\"", &dir.path().join("data"), &rolls);
    server.output(&["topic", "create", "bench", "--partitions", "55"]);
    server.output(&["bench", "produce", "--connections", "95", "--records", "500"]);
    let (status, said) = server.stop();
    assert!(status.success() && !said.contains("Too many open files"), "{said}");
}

/// The system lets no file grow beyond a size: segments end there, and nothing ends the process.
#[test]
fn a_limit_on_the_size_of_files_ends_segments_and_not_the_process() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    // 4 or 8 MiB, as the shell counts: more than is appended at once, and less than comes.
    let large = ["--max-record-bytes", "16MiB", "--max-frame-bytes", "32MiB"];
    let server = Process::start_by("ulimit -f 8192 && exec \"$0\" \"$@\"", &data, &large);
    server.output(&["topic", "create", "t"]);
    let sent = lines(150_000);
    text(&server.run_with(&["produce", "t"], &sent));
    let why = complaint(&server.run_with(&["produce", "t"], &vec![b'x'; 12 << 20]));
    assert!(why.contains("File too large") && why.contains("nothing was stored"), "{why}");
    server.output(&["produce", "t", "and on it goes"]);
    let got = server.run(&["consume", "t"]).stdout;
    assert!(got == [&sent[..], b"and on it goes\n"].concat());
    let (status, said) = server.stop();
    assert!(status.success(), "{said}");
    assert!(verdict(&data).faults.is_empty());
}

/// Runs a command that is granted no thread: no memory holds a stack of that size.
fn without_threads(addr: &str, args: &[&str]) -> Output {
    let mut command = broker();
    command.env("RUST_MIN_STACK", (1_u64 << 60).to_string()).env("BROKER_ADDR", addr).args(args);
    command.stdin(Stdio::null()).output().unwrap()
}

/// In a moment in which the system grants no thread, a command says so, and does nothing.
#[test]
fn a_command_that_is_granted_no_thread_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let server = Process::start(&dir.path().join("data"), &[]);
    server.output(&["topic", "create", "t"]);
    let why = complaint(&without_threads(&server.addr, &["produce", "t"]));
    assert!(why.starts_with("broker: cannot start a thread that reads the input: "), "{why}");
    let why = complaint(&without_threads("localhost:1", &["topic", "list"]));
    assert!(why.contains("no thread can be started that looks up its address: "), "{why}");
    let why = complaint(&without_threads(&server.addr, &["bench", "limits", "--time", "1ms"]));
    assert!(why.contains("no thread can be started: "), "{why}");
    assert_eq!(text(&without_threads(&server.addr, &["topic", "list"])), "t  1 partition\n", "it needs none");
}

/// A server whose threads are not all granted does not start: it would wait for those that are missing.
#[test]
fn a_server_that_is_granted_too_few_threads_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let few = "ulimit -v 2097152 && RUST_MIN_STACK=268435456 exec \"$0\" \"$@\"";
    let mut shell = Command::new("sh");
    shell.args([
        "-c",
        few,
        env!("CARGO_BIN_EXE_broker"),
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--threads",
        "7",
    ]);
    let why = complaint(&shell.arg("--data").arg(dir.path().join("data")).output().unwrap());
    assert!(why.starts_with("broker: cannot start threads: "), "{why}");
    assert!(!dir.path().join("data").exists(), "it has touched no file");
}
