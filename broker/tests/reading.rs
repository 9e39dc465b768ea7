//! The commands that read: what they show, what they say is missing, and when they end.
#![allow(clippy::disallowed_methods)] // on the real machine

mod common;

use std::io::Read;
use std::process::Stdio;
use std::sync::atomic::Ordering;

use broker::client::Outcome;
use broker::settings::Durability;
use common::failing::server;
use common::process::{Process, broker, complaint, lines, run, text};
use common::{ok, record};

/// Part of what is asked for cannot be served: that is an error, not a shorter answer.
#[test]
fn a_partition_that_cannot_be_opened_is_not_shown_as_empty() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = Process::start(&data, &[]);
    server.output(&["topic", "create", "t", "--partitions", "2"]);
    text(&server.run_with(&["produce", "t"], b"a\nb\n"));
    server.stop();
    std::fs::rename(data.join("t/1"), dir.path().join("elsewhere")).unwrap();

    let server = Process::start(&data, &[]);
    let shown = server.output(&["topic", "show", "t"]);
    assert!(
        shown.contains("1          ?      ?     ?        0 B    is not served: it cannot be opened"),
        "{shown}"
    );
    let offsets = server.run(&["offsets", "t"]);
    let why = complaint(&offsets);
    assert!(why.contains("t/1 cannot be served: it cannot be opened"), "{why}");
    let offsets = String::from_utf8(offsets.stdout).unwrap();
    assert!(offsets.contains("0          0      1\n1          ?      ?\n"), "{offsets}");
    for what in [&["consume", "t"][..], &["consume", "t", "--all"], &["consume", "t", "--partition", "1"]] {
        let why = complaint(&server.run(what));
        assert!(why.contains("t/1 cannot be served: it cannot be opened"), "{why}");
    }
    assert_eq!(server.output(&["consume", "t", "--partition", "0"]), "a\n");
    let why = complaint(&server.run_with(&["produce", "t", "--partition", "1"], b"c\n"));
    assert!(why.contains("line 1 was refused: ") && why.contains("no line stored\n"), "{why}");
}

/// What is not shown because nobody knows whether it is durable is not the same as nothing.
#[tokio::test(flavor = "multi_thread")]
async fn commands_do_not_take_hidden_records_for_the_end() {
    let server = server(Durability::Always).await;
    ok(server.client.produce("t", Some(1), record("before")).await);
    server.disk.0.sync_fails.store(true, Ordering::SeqCst);
    assert!(matches!(server.client.produce("t", Some(1), record("lost?")).await, Outcome::Unknown(_)));
    let server = server.restarted(Durability::Always).await;
    let command = async |args: &'static [&str]| {
        let addr = server.addr.clone();
        tokio::task::spawn_blocking(move || run(&addr, args, b"")).await.unwrap()
    };
    let reason = "t/1 from offset 1 on cannot be served: ";
    for (args, shown) in [
        (&["consume", "t"] as &[_], "before\n"),
        (&["consume", "t", "--partition", "1"], "before\n"),
        (&["consume", "t", "--from", "latest"], ""),
        (
            &["offsets", "t"],
            "partition  first  next\n0          0      0\n1          0      ?\n2          0      0\n",
        ),
        (&["offsets", "t", "--at", "latest"], ""),
    ] {
        let output = command(args).await;
        let why = complaint(&output);
        assert!(why.contains(reason), "{args:?}: {why}");
        assert_eq!(String::from_utf8(output.stdout).unwrap(), shown, "{args:?}");
    }
    assert_eq!(text(&command(&["consume", "t", "--count", "1"]).await), "before\n");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let dir = tempfile::tempdir().unwrap();
    let server = Process::start(&dir.path().join("data"), &[]);
    server.output(&["topic", "create", "t"]);
    text(&server.run_with(&["produce", "t"], &lines(50_000)));
    let mut consumer = broker()
        .args(["consume", "t", "--addr", &server.addr])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut some = [0; 100];
    consumer.stdout.take().unwrap().read_exact(&mut some).unwrap();
    let output = consumer.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

#[test]
fn a_follower_gets_what_comes() {
    let dir = tempfile::tempdir().unwrap();
    let server = Process::start(&dir.path().join("data"), &[]);
    for (topic, partitions) in [("one", "1"), ("three", "3")] {
        server.output(&["topic", "create", topic, "--partitions", partitions]);
        server.output(&["produce", topic, "before"]);
        let mut follower = broker()
            .args(["consume", topic, "--follow", "--count", "3", "--addr", &server.addr])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = follower.stdout.take().unwrap();
        let mut first = [0; 7];
        out.read_exact(&mut first).unwrap();
        assert_eq!(&first, b"before\n");
        server.output(&["produce", topic, "second"]);
        server.output(&["produce", topic, "third"]);
        let mut rest = String::new();
        out.read_to_string(&mut rest).unwrap();
        let mut rest: Vec<_> = rest.lines().collect();
        rest.sort_unstable();
        assert_eq!(rest, ["second", "third"]);
        assert!(follower.wait().unwrap().success());
    }
}
