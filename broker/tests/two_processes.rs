//! One directory has one broker, whatever the first is doing and whatever the directory is called.

mod common;

use std::fs;
use std::path::Path;
use std::process::Output;

use common::process::{Process, broker, complaint};

/// Every file below a directory, with its bytes.
fn files(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push((path.display().to_string(), fs::read(&path).unwrap()));
        }
    }
    found.sort();
    found
}

fn second(data: &Path) -> Output {
    let args = ["serve", "--listen", "127.0.0.1:0", "--data"];
    broker().args(args).arg(data).output().expect("the program starts")
}

fn produced(server: &Process) {
    server.output(&["topic", "create", "orders"]);
    assert!(server.run_with(&["produce", "orders"], b"one\ntwo\n").status.success());
}

#[test]
fn a_broker_that_is_stopped_keeps_its_directory() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = Process::start(&data, &[]);
    produced(&server);
    // It answers nobody, as if it were gone, and may go on at any moment.
    server.signal("STOP");
    let before = files(&data);
    let refused = complaint(&second(&data));
    assert!(refused.contains("another process"), "{refused}");
    assert_eq!(files(&data), before, "the second has touched nothing");
    server.signal("CONT");
    assert!(server.run_with(&["produce", "orders"], b"three\n").status.success());
    server.kill();
    let next = Process::start(&data, &[]);
    assert_eq!(next.output(&["consume", "orders", "--all"]), "one\ntwo\nthree\n");
}

#[test]
fn another_name_of_a_directory_is_the_same_directory() {
    let dir = tempfile::tempdir().unwrap();
    let (data, moved, link) = (dir.path().join("data"), dir.path().join("moved"), dir.path().join("link"));
    let server = Process::start(&data, &[]);
    produced(&server);
    std::os::unix::fs::symlink(&data, &link).unwrap();
    let before = files(&data);
    for other in [link, dir.path().join("data/../data/."), data.join("orders/..")] {
        let refused = complaint(&second(&other));
        assert!(refused.contains("another process"), "{}: {refused}", other.display());
    }
    assert_eq!(files(&data), before, "none of them has touched anything");
    // Nor does it help to move it away.
    fs::rename(&data, &moved).unwrap();
    let refused = complaint(&second(&moved));
    assert!(refused.contains("another process"), "{refused}");
    server.kill();
    let next = Process::start(&moved, &[]);
    assert_eq!(next.output(&["consume", "orders", "--all"]), "one\ntwo\n");
}

/// Somebody moves the directory away under a server, and starts another in its place.
#[test]
fn a_broker_whose_directory_was_moved_touches_nothing_of_the_one_that_has_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let (data, moved) = (dir.path().join("data"), dir.path().join("moved"));
    let server = Process::start(&data, &["--segment-bytes", "60"]);
    produced(&server);
    assert!(server.run_with(&["produce", "orders"], b"three\nfour\n").status.success());
    fs::rename(&data, &moved).unwrap();
    let other = Process::start(&data, &["--segment-bytes", "60"]);
    other.output(&["topic", "create", "orders"]);
    assert!(other.run_with(&["produce", "orders"], b"1\n2\n3\n4\n5\n6\n").status.success());
    let before = files(&data);

    // What it holds open is its own. Everything else is reached by a name that is the other's.
    let told = |args: &[&str], input: &[u8]| complaint(&server.run_with(args, input));
    let refused = told(&["produce", "orders"], b"five\nsix\nseven\neight\n");
    assert!(refused.contains("is not the data directory that was opened"), "{refused}");
    for args in
        [&["topic", "create", "more"][..], &["topic", "delete", "orders"], &["consume", "orders", "--all"]]
    {
        let refused = told(args, b"");
        assert!(refused.contains("is not the data directory that was opened"), "{refused}");
    }
    let (status, said) = server.stop();
    assert!(!status.success() && said.contains("is not the data directory that was opened"), "{said}");
    assert_eq!(files(&data), before);
    other.kill();
    assert_eq!(Process::start(&data, &[]).output(&["consume", "orders", "--all"]), "1\n2\n3\n4\n5\n6\n");
    let own = Process::start(&moved, &[]).output(&["consume", "orders", "--all"]);
    assert!(own.starts_with("one\ntwo\nthree\nfour\n"), "{own}");
}
