//! The program, as people use it.
#![allow(clippy::disallowed_methods)] // on the real machine

mod common;

use std::io::{Read, Write};
use std::process::Stdio;

use common::process::{Process, broker, complaint, lines, run, stopped, text, verdict, verify};

/// The commands of the first page from `broker` on, in the order in which a reader types them.
fn commands_of_the_first_page() -> Vec<(Vec<&'static str>, Option<&'static str>)> {
    let page = include_str!("../../README.md");
    let (_, section) = page.split_once("## The broker, for real").expect("the page has it");
    let section = section.split("\n## ").next().expect("there is a first part");
    let blocks = section.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    let lines = blocks.flat_map(str::lines).filter_map(|line| {
        let line = line.split('#').next().unwrap_or_default();
        line.split_once("-p broker -- ").map(|(_, rest)| rest).or(line.strip_prefix("broker "))
    });
    let parsed = lines.map(|line| {
        let (command, input) = line.split_once('<').map_or((line, None), |(c, file)| (c, Some(file.trim())));
        (command.split_whitespace().collect(), input)
    });
    parsed.collect()
}

/// Each is run as it is written, one after the other; only the directory is another.
#[test]
fn the_commands_of_the_first_page_work() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let commands = commands_of_the_first_page();
    let (mut commands, first) = (commands.iter().peekable(), &commands[0].0);
    assert_eq!(first[..], ["serve", "--data", "/var/tmp/log"]);
    commands.next();
    let server = Process::start(&data, &[]);
    let mut said = Vec::new();
    while let Some((args, input)) = commands.next_if(|(args, _)| args[0] != "verify") {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let input = input.map(|file| std::fs::read(root.join(file)).unwrap()).unwrap_or_default();
        said.push((args[0], text(&server.run_with(args, &input))));
    }
    let page = include_str!("../../README.md");
    let records = 1 + page.lines().count();
    let mut said = said.iter();
    let mut next = |command: &str| match said.next() {
        Some((name, text)) if *name == command => text.as_str(),
        other => panic!("{command} is not next: {other:?}"),
    };
    assert_eq!(next("topic"), "created orders with 3 partitions\n");
    assert_eq!(next("produce"), "orders/1 offset 0\n");
    assert_eq!(next("produce"), "");
    assert_eq!(next("consume").lines().count(), records);
    let json: serde_json::Value = serde_json::from_str(next("consume").lines().next().unwrap()).unwrap();
    assert_eq!(
        (&json["key"], &json["value"], &json["offset"]),
        (&"user-1".into(), &"hello".into(), &0.into())
    );

    assert!(server.stop().0.success());
    let offline: Vec<_> = commands.map(|(args, _)| &args[..]).collect();
    assert_eq!(offline, [["verify", "/var/tmp/log"]]);
    let said = text(&verify(&data));
    assert!(said.contains(&format!("1 topic, 3 partitions, 3 segments, {records} records")), "{said}");
}

#[test]
fn topics_and_offsets_are_shown() {
    let dir = tempfile::tempdir().unwrap();
    let server = Process::start(&dir.path().join("data"), &[]);
    server.output(&["topic", "create", "orders", "--partitions", "3"]);
    assert_eq!(server.output(&["produce", "orders", "--key", "user-1", "hello"]), "orders/1 offset 0\n");
    assert_eq!(server.output(&["produce", "orders", "--key", "user-1", ""]), "orders/1 offset 1\n");
    assert_eq!(server.output(&["consume", "orders", "--all"]), "hello\n\n");
    assert_eq!(server.output(&["topic", "list"]), "orders  3 partitions\n");
    assert!(server.output(&["topic", "show", "orders"]).contains("1          0      2     2"));
    assert_eq!(server.output(&["offsets", "orders", "--partition", "1", "--at", "latest"]), "2\n");
    assert_eq!(server.output(&["offsets", "orders", "--partition", "1", "--at", "@0"]), "0\n");
    assert_eq!(
        server.output(&["offsets", "orders", "--partition", "1", "--at", "@2100-01-01"]),
        "none, the next will be 2\n"
    );
    let found = server.output(&["offsets", "orders", "--at", "@0"]);
    assert!(found.contains("0          none, the next will be 0\n1          0\n"), "{found}");
    assert_eq!(server.output(&["topic", "delete", "orders"]), "deleted orders\n");
    assert_eq!(server.output(&["topic", "list"]), "");
}

/// An offset that no record has is not the end of the log: who asks for it has lost count.
#[test]
fn consuming_from_an_offset_that_is_not_there_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let server = Process::start(&dir.path().join("data"), &[]);
    server.output(&["topic", "create", "t"]);
    server.output(&["produce", "t", "a"]);
    assert_eq!(server.output(&["consume", "t", "--from", "1"]), "");
    for how in [&[][..], &["--follow"], &["--partition", "0"], &["--partition", "0", "--follow"]] {
        let args = [&["consume", "t", "--from", "2"], how].concat();
        let why = complaint(&server.run(&args));
        assert!(why.contains("partition 0 has offsets 0 to 1 (the next one); 2 is outside"), "{why}");
    }
}

/// A second server on an address that is taken has touched no file when it says so.
#[test]
fn an_address_that_is_taken_is_noticed_before_the_data_is_opened() {
    let dir = tempfile::tempdir().unwrap();
    let server = Process::start(&dir.path().join("first"), &[]);
    let data = dir.path().join("second");
    for addrs in [
        ["--listen", &server.addr, "--metrics", "127.0.0.1:0"],
        ["--metrics", &server.addr, "--listen", "127.0.0.1:0"],
    ] {
        let second = broker().arg("serve").args(addrs).arg("--data").arg(&data).output().unwrap();
        let why = complaint(&second);
        assert!(
            why.contains(&format!("cannot listen on {}", server.addr)) && why.contains(addrs[0]),
            "{why}"
        );
        assert!(!data.exists());
    }
}

#[test]
fn the_log_says_when_and_answers_do_not_say_where_the_data_lies() {
    let dir = tempfile::tempdir().unwrap();
    let partition = stopped(dir.path()).join("t/0");
    let log = partition.join("00000000000000000000.log");
    let mut bytes = std::fs::read(&log).unwrap();
    bytes[50] ^= 1;
    std::fs::write(&log, &bytes).unwrap();
    let server = Process::start(&dir.path().join("data"), &["--segment-bytes", "100"]);
    let why = complaint(&server.run(&["consume", "t", "--partition", "0"]));
    assert!(why.contains(" t/0/00000000000000000000.log: offset 1, at byte 39, is damaged"), "{why}");
    let (_, said) = server.stop();
    for line in said.lines() {
        assert!(
            line.starts_with("20") && line.contains("Z  INFO ")
                || line.contains("Z ERROR ")
                || line.contains("Z  WARN "),
            "{said}"
        );
    }
}

/// Nobody reads what is said, or the disk that it goes to is full: that stops neither the server nor a command.
#[test]
fn what_cannot_be_said_stops_nothing() {
    fn nobody() -> Stdio {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        writer.into()
    }
    fn full() -> Stdio {
        std::fs::File::options().write(true).open("/dev/full").unwrap().into()
    }
    let dir = tempfile::tempdir().unwrap();
    for (name, sink) in [("nobody", nobody as fn() -> Stdio), ("full", full)] {
        if name == "full" && !std::path::Path::new("/dev/full").exists() {
            continue;
        }
        let data = dir.path().join(name);
        let server = Process::start_heard_by(&data, sink());
        server.output(&["topic", "create", "t"]);
        let mut produce = broker();
        produce.args(["produce", "t", "--addr", &server.addr]).stdin(Stdio::piped()).stderr(sink());
        let mut producer = produce.spawn().unwrap();
        producer.stdin.take().unwrap().write_all(b"a\nb\n").unwrap();
        assert!(producer.wait().unwrap().success());
        assert_eq!(server.output(&["consume", "t"]), "a\nb\n");
        let mut fails = broker();
        fails.args(["produce", "u", "x", "--addr", &server.addr]).stderr(sink());
        assert_eq!(fails.status().unwrap().code(), Some(1));
        assert!(server.stop().0.success());
        assert_eq!(verdict(&data).records, 2);
        assert!(data.join("clean").exists(), "the stop was clean");
    }
}

/// Help is read in terminals.
#[test]
fn help_is_no_wider_than_a_terminal() {
    for command in [
        &[][..],
        &["serve"],
        &["produce"],
        &["consume"],
        &["verify"],
        &["topic", "create"],
        &["bench", "produce"],
    ] {
        let help = text(&broker().args(command).arg("--help").env("COLUMNS", "300").output().unwrap());
        for line in help.lines() {
            assert!(line.chars().count() <= 100, "{command:?}: {line}");
        }
    }
}

#[test]
fn keys_are_split_from_lines_and_partitions_are_merged_by_time() {
    let dir = tempfile::tempdir().unwrap();
    let server = Process::start(&dir.path().join("data"), &[]);
    server.output(&["topic", "create", "t", "--partitions", "3"]);
    let input: String = (0..50).map(|i| format!("user-{}:value {i}:x\n", i % 5)).collect();
    text(&server.run_with(
        &["produce", "t", "--key-separator", ":", "--batch", "1", "--in-flight", "1"],
        input.as_bytes(),
    ));
    let json = server.output(&["consume", "t", "--format", "json"]);
    let records: Vec<serde_json::Value> =
        json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(records.len(), 50);
    let times: Vec<_> = records.iter().map(|r| r["timestamp_ms"].as_u64().unwrap()).collect();
    assert!(times.is_sorted(), "merged by time");
    for key in ["user-0", "user-4"] {
        let values: Vec<_> =
            records.iter().filter(|r| r["key"] == key).map(|r| r["value"].as_str().unwrap()).collect();
        let start: usize = key[5..].parse().unwrap();
        let expected: Vec<_> = (start..50).step_by(5).map(|i| format!("value {i}:x")).collect();
        assert_eq!(values, expected, "the order of one key is that of its lines");
    }
    assert_eq!(server.output(&["consume", "t", "--count", "7"]).lines().count(), 7);
}

#[test]
fn a_file_comes_back_byte_for_byte() {
    let dir = tempfile::tempdir().unwrap();
    let server = Process::start(&dir.path().join("data"), &["--segment-bytes", "1MiB"]);
    server.output(&["topic", "create", "t"]);
    let file = lines(100_000);
    let produced = server.run_with(&["produce", "t"], &file);
    assert_eq!(String::from_utf8_lossy(&produced.stderr), "100000 lines acknowledged\n");
    let consumed = server.run(&["consume", "t"]);
    assert!(consumed.stdout == file, "the bytes are those of the file");
}

/// Killed half way and started again: the producer goes on, and no line is missing or there twice.
#[test]
fn a_file_comes_back_byte_for_byte_through_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = Process::start(&data, &["--segment-bytes", "1MiB"]);
    let addr = server.addr.clone();
    server.output(&["topic", "create", "t"]);
    let file = lines(100_000);

    let mut producer = broker()
        // It may come back so fast that nobody sees that it was away: then the lines in flight are waited for.
        .args(["produce", "t", "--batch", "100", "--retry", "60s", "--timeout", "3s", "--addr", &addr])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = producer.stdin.take().unwrap();
    let (half, rest) = file.split_at(file.len() / 2);
    stdin.write_all(half).unwrap();
    server.kill();
    #[allow(clippy::disallowed_methods)] // a test's own thread, not the broker's
    let feeder = std::thread::spawn({
        let rest = rest.to_vec();
        move || stdin.write_all(&rest).unwrap()
    });
    let server = Process::start_at(&data, &addr, &["--segment-bytes", "1MiB"]);
    feeder.join().unwrap();
    let mut said = String::new();
    producer.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(producer.wait().unwrap().success(), "{said}");
    assert!(said.ends_with("100000 lines acknowledged\n"), "{said}");
    assert!(server.run(&["consume", "t"]).stdout == file, "the bytes are those of the file; {said}");
}

/// A producer that gives up says how far it came, and another goes on from there, with the line mended or without it.
#[test]
fn a_producer_that_gives_up_says_where_to_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = Process::start(&data, &["--max-record-bytes", "1000"]);
    server.output(&["topic", "create", "t"]);
    let (head, tail) = (lines(550), lines(300));
    let mut file = [&head[..], "x".repeat(2000).as_bytes(), b"\n", &tail].concat();
    let why = complaint(&server.run_with(&["produce", "t", "--batch", "100", "--in-flight", "1"], &file));
    for expected in [
        "lines 501 to 600 were refused: a record of 2000 bytes is over the limit of 1000 (max-record-bytes); \
         the longest of them is line 551\n",
        "  stored: lines 1 to 500\n  sent, and not stored: lines 501 to 600\n  not sent: whatever follows line 600\n",
        "  to go on with the same input: --skip 500 when line 551 is mended, or --skip 500,551 without it\n",
    ] {
        assert!(why.contains(expected), "{why}");
    }
    let long = head.len()..head.len() + 2000;
    file.drain(long);
    text(&server.run_with(&["produce", "t", "--skip", "500"], &file));
    assert!(server.run(&["consume", "t"]).stdout == file);
}

/// As large a line as there is no end to.
#[test]
fn a_line_that_no_server_stores_is_refused_before_it_is_in_memory() {
    let dir = tempfile::tempdir().unwrap();
    let server = Process::start(&dir.path().join("data"), &[]);
    server.output(&["topic", "create", "t"]);
    let script = "ulimit -v 1000000; { echo a; cat /dev/zero; } | \"$0\" produce t --addr \"$1\"";
    let mut shell = std::process::Command::new("sh");
    let output = shell.args(["-c", script, env!("CARGO_BIN_EXE_broker"), &server.addr]).output().unwrap();
    let why = complaint(&output);
    assert!(
        why.contains("line 2 is longer than 67108864 bytes") && why.contains("stored: line 1\n"),
        "{why}"
    );
    assert!(why.contains("--skip 1 when line 2 is mended, or --skip 2 without it"), "{why}");
    assert_eq!(server.output(&["consume", "t"]), "a\n");
}

#[test]
fn an_ordinary_restart_says_nothing_alarming_and_a_second_server_is_told_why_not() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = Process::start(&data, &[]);
    server.output(&["topic", "create", "t"]);
    text(&server.run_with(&["produce", "t"], &lines(1000)));
    let second = broker().args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(&data).output().unwrap();
    assert!(complaint(&second).contains("another process has this data directory"), "{second:?}");
    let (status, first) = server.stop();
    assert!(status.success());

    let (status, again) = Process::start(&data, &[]).stop();
    assert!(status.success());
    assert!(again.contains("opened after a clean stop: 1 partition, 1000 records"), "{again}");
    for said in [first, again] {
        let said = said.to_lowercase();
        for word in ["error", "warn", "fail", "corrupt", "damage", "lost", "panic", "unclean", "cut"] {
            assert!(!said.contains(word), "{word:?} in an ordinary run: {said}");
        }
    }
}

#[test]
fn complaints_say_what_where_and_what_to_do() {
    let nobody = run("127.0.0.1:1", &["topic", "list"], b"");
    let why = complaint(&nobody);
    assert!(why.contains("127.0.0.1:1") && why.contains("broker serve"), "{why}");

    let dir = tempfile::tempdir().unwrap();
    let server = Process::start(&dir.path().join("data"), &[]);
    let why = complaint(&server.run(&["produce", "nope", "v"]));
    assert!(why.contains("nope") && why.contains("topic create"), "{why}");
    let why = complaint(&server.run(&["consume", "nope"]));
    assert!(why.contains("nope"), "{why}");
    server.output(&["topic", "create", "t", "--partitions", "2"]);
    let why = complaint(&server.run(&["consume", "t", "--partition", "2"]));
    assert!(why.contains("has no partition 2"), "{why}");
    let usage = server.run(&["consume", "t", "--from", "yesterday"]);
    assert_eq!(usage.status.code(), Some(2));
    let usage = server.run(&["consume", "t", "--partition", "one"]);
    let why = String::from_utf8(usage.stderr).unwrap();
    assert!(why.contains("expected a whole number, 0 or more"), "{why}");
    let why = complaint(&server.run_with(&["produce", "t", "--batch", "1"], &vec![b'x'; 2 << 20]));
    assert!(why.contains("line 1 was refused"), "{why}");
}

/// Numbers that would be left unheeded, or would be more than anything takes.
#[test]
fn what_a_measurement_cannot_do_is_refused() {
    let usage = |args: &[&str]| {
        let output = run("127.0.0.1:1", args, b"");
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    for unheeded in [["--records", "10"], ["--record-bytes", "10"]] {
        let why = usage(&[&["bench", "consume"][..], &unheeded].concat());
        assert!(why.contains("--durability <MODE>"), "{why}");
    }
    let why = usage(&["bench", "produce", "--records", "0"]);
    assert!(why.contains("--records"), "{why}");
    for command in [&["bench", "produce"][..], &["bench", "consume", "--durability", "os"]] {
        let why = usage(&[command, &["--record-bytes", "5GiB"]].concat());
        assert!(why.contains("no server stores a record of more than 67108864 bytes"), "{why}");
    }
}

/// As what is wrong by itself: nothing has been touched by then.
#[test]
fn settings_that_serve_nobody_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    for (args, named) in [
        (&["--max-connections", "0"][..], "--max-connections 0 would serve nobody"),
        (&["--max-request-records", "0"], "--max-request-records 0 would serve nobody"),
        (&["--idle-timeout", "0s"], "--idle-timeout 0 would serve nobody"),
        (&["--frame-timeout", "0"], "--frame-timeout 0 would serve nobody"),
        (&["--write-timeout", "0"], "--write-timeout 0 would serve nobody"),
        (&["--max-record-bytes", "4MiB", "--max-frame-bytes", "4MiB"], "leaves no room for a record"),
        (&["--index-interval", "0"], "index-interval must be at least 1"),
        (&["--segment-bytes", "-1"], "is not a size"),
        (&["--durability", "interval=0"], "`always` syncs each append"),
    ] {
        let output = broker().arg("serve").arg("--data").arg(&data).args(args).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let why = String::from_utf8(output.stderr).unwrap();
        assert!(why.contains(named), "{why}");
        assert!(!data.exists());
    }
}

/// What was done is said, also where the place for it takes nothing.
#[test]
fn what_was_done_is_told_where_standard_output_is_full() {
    if !std::path::Path::new("/dev/full").exists() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let server = Process::start(&dir.path().join("data"), &[]);
    for (args, done) in [
        (&["topic", "create", "t"][..], "created t with 1 partition"),
        (&["produce", "t", "hello"], "t/0 offset 0"),
        (&["topic", "delete", "t"], "deleted t"),
    ] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let output = broker().args(args).env("BROKER_ADDR", &server.addr).stdout(full).output().unwrap();
        let why = complaint(&output);
        assert!(why.contains("cannot write to standard output") && why.contains(done), "{why}");
    }
}

/// Where no answer comes, nobody knows whether it was done.
#[test]
fn no_answer_to_a_change_of_topics_is_not_called_a_refusal() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = silent.local_addr().unwrap().to_string();
    for (change, look) in [("create", "broker topic show t"), ("delete", "broker topic list")] {
        let why = complaint(&run(&addr, &["topic", change, "t", "--timeout", "10ms"], b""));
        assert!(why.contains("it is unknown whether topic \"t\" was") && why.contains(look), "{why}");
    }
}

#[test]
fn an_empty_separator_is_refused() {
    let output = run("127.0.0.1:1", &["produce", "t", "--key-separator", ""], b"");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

/// Whoever follows ends with its reader, and not with the next record.
#[test]
fn who_follows_ends_when_its_reader_has_gone() {
    let dir = tempfile::tempdir().unwrap();
    let server = Process::start(&dir.path().join("data"), &[]);
    for partitions in ["1", "2"] {
        let topic = &format!("t{partitions}");
        server.output(&["topic", "create", topic, "--partitions", partitions]);
        server.output(&["produce", topic, "--partition", "0", "only"]);
        let mut follows = broker();
        follows.args(["consume", topic, "--follow"]).env("BROKER_ADDR", &server.addr);
        let mut follows = follows.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = [0; 5];
        let mut out = follows.stdout.take().unwrap();
        out.read_exact(&mut line).unwrap();
        assert_eq!(&line, b"only\n");
        drop(out);
        let begun = std::time::Instant::now();
        let status = loop {
            match follows.try_wait().unwrap() {
                Some(status) => break status,
                None if begun.elapsed() > common::LONG => {
                    follows.kill().unwrap();
                    panic!("it waits");
                }
                None => std::thread::sleep(std::time::Duration::from_millis(5)),
            }
        };
        assert!(status.success(), "{status}");
    }
}

/// Each by itself can be reserved, and only one be listened on: that is told before anything is made.
#[test]
fn one_address_for_clients_and_metrics_is_refused_before_the_data_is_touched() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for metrics in [free.to_string(), format!("0.0.0.0:{}", free.port())] {
        let mut serve = broker();
        serve.args(["serve", "--listen", &free.to_string(), "--metrics", &metrics, "--data"]).arg(&data);
        let why = complaint(&serve.output().unwrap());
        assert!(why.contains("for both clients and metrics"), "{why}");
        assert!(!data.exists());
    }
}

/// A time that is less than any two records can be apart would be none at all, and everything be deleted.
#[test]
fn an_age_of_less_than_a_millisecond_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    for command in [vec!["topic", "create", "t"], vec!["serve", "--data", dir.path().to_str().unwrap()]] {
        let output = broker().args(command).args(["--retention-age", "500us"]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let why = String::from_utf8(output.stderr).unwrap();
        assert!(why.contains("at least 1ms"), "{why}");
    }
}
