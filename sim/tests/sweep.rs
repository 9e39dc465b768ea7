//! The commands that people and CI use on seeds, as they use them: their exit codes, their files, and what they print.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;

/// A scenario whose expectation is wrong with every seed.
const WRONG: &str = r#"
scenario "an expectation that nobody can meet"
topic orders partitions=2
produce orders partition=0 value="a" count=3
crash
restart
produce orders partition=1 value="b" count=2 expect-offset=9
consume orders partition=0
"#;

/// A scenario that holds, and promises what it reaches.
const RIGHT: &str = r#"
scenario "a crash between two produces"
sometimes "process crash"
topic orders
produce orders value="a"
crash
restart
produce orders value="b"
"#;

struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path
    }

    fn sim(&self, args: &[&str]) -> (i32, String) {
        let out = Command::new(env!("CARGO_BIN_EXE_sim")).args(args).current_dir(self.0.path()).output();
        let Output { status, stdout, stderr } = out.expect("sim runs");
        let text = String::from_utf8_lossy(&stdout).into_owned() + &String::from_utf8_lossy(&stderr);
        (status.code().expect("it ends by itself"), text)
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.path().join(name)).expect("a file")
    }
}

/// The commands that an output offers to paste, without the part that builds `sim`.
fn pasted(text: &str, command: &str) -> Vec<String> {
    let line =
        text.lines().find_map(|line| line.split_once(&format!("sim -- {command} "))).expect("a command");
    std::iter::once(command).chain(line.1.split_whitespace()).map(str::to_owned).collect()
}

fn hash(text: &str) -> &str {
    text.lines().find_map(|line| line.split_once("hash ")).expect("a hash").1
}

#[test]
fn a_failure_is_replayed_and_shrunk_with_the_commands_that_it_prints() {
    let place = Place::new();
    place.file("wrong.kdl", WRONG);
    let (code, text) = place.sim(&["sweep", "wrong.kdl", "--seeds", "7..9", "--jobs", "1"]);
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("FAILED  wrong with seed 7"), "{text}");

    let replay = pasted(&text, "replay");
    let (code, first) = place.sim(&replay.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(code, 1, "{first}");
    let (_, second) = place.sim(&["replay", "target/sweep/wrong-7.kdl"]);
    assert_eq!(hash(&first), hash(&second), "the file that was written is the same run");

    let shrink = pasted(&text, "shrink");
    let (code, text) = place.sim(&shrink.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(code, 0, "{text}");
    let small = place.read("target/small.kdl");
    assert!(small.contains("expect-offset=9") && !small.contains("crash"), "{small}");
    assert_eq!(place.sim(&["replay", "target/small.kdl"]).0, 1);
}

#[test]
fn shards_add_up_to_the_whole() {
    let place = Place::new();
    place.file("right.kdl", RIGHT);
    let sweep = |shard: &str, out: &str| {
        let (code, text) =
            place.sim(&["sweep", "right.kdl", "--seeds", "0..5", "--shard", shard, "--out", out]);
        assert_eq!(code, 0, "{text}");
    };
    sweep("0/2", "a.jsonl");
    sweep("1/2", "b.jsonl");
    sweep("0/1", "whole.jsonl");
    let (code, shards) = place.sim(&["merge", "a.jsonl", "b.jsonl"]);
    assert_eq!(code, 0, "{shards}");
    let (_, whole) = place.sim(&["merge", "whole.jsonl"]);
    let without_time =
        |text: &str| text.lines().filter(|l| !l.contains("time on")).collect::<Vec<_>>().join("\n");
    assert_eq!(without_time(&shards), without_time(&whole));

    let (code, text) = place.sim(&["merge", "a.jsonl"]);
    assert_eq!(code, 4, "{text}");
    assert!(text.contains("2 runs that were asked for are in none of the files"), "{text}");
}

#[test]
fn what_was_promised_and_never_reached_is_an_error() {
    let place = Place::new();
    place.file("a.kdl", &RIGHT.replace("process crash", "torn tail cut"));
    let (code, text) = place.sim(&["sweep", "a.kdl", "--seeds", "0..2"]);
    assert_eq!(code, 4, "{text}");
    assert!(text.contains("promises \"torn tail cut\""), "{text}");
    assert_eq!(place.sim(&["sweep", "a.kdl", "--seeds", "0..2", "--allow-unreached"]).0, 0);
    place.file("a.kdl", &RIGHT.replace("process crash", "no such thing"));
    assert_eq!(place.sim(&["sweep", "a.kdl", "--seeds", "0..2"]).0, 2);
}

/// Ctrl-C on a terminal goes to the second processes, too.
#[test]
#[allow(clippy::disallowed_methods)] // it waits for another process
fn who_interrupts_a_sweep_is_told_what_has_run() {
    let place = Place::new();
    place.file("right.kdl", RIGHT);
    let args = ["sweep", "right.kdl", "--seeds", "0..1000000", "--double-check", "--out", "a.jsonl"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_sim"));
    command.args(args).current_dir(place.0.path()).process_group(0).stdout(Stdio::piped());
    let sweep = command.stderr(Stdio::piped()).spawn().expect("sim runs");
    let group = Pid::from_child(&sweep);
    let lines =
        || std::fs::read_to_string(place.0.path().join("a.jsonl")).map_or(0, |text| text.lines().count());
    while lines() < 2 {
        std::thread::sleep(Duration::from_millis(20));
    }
    kill_process_group(group, Signal::INT).expect("it runs");
    let Output { status, stdout, stderr } = sweep.wait_with_output().expect("it ends");
    let text = String::from_utf8_lossy(&stdout).into_owned() + &String::from_utf8_lossy(&stderr);
    assert_eq!(status.code(), Some(130), "{text}");
    // The first line says what was asked for.
    assert!(text.contains(&format!("interrupted after {} of 1000000 runs", lines() - 1)), "{text}");
    assert_eq!(place.sim(&["merge", "a.jsonl"]).0, 4, "not all that was asked for has run");
}

/// What was found before a run that does not end is kept: its lines, and a verdict on the rest.
#[test]
fn a_run_that_takes_too_long_loses_no_other() {
    let place = Place::new();
    place.file("a.kdl", RIGHT);
    place.file("b.kdl", "scenario \"long\"\ntopic orders\nadvance \"59m\"\n");
    let args =
        ["sweep", "a.kdl", "b.kdl", "--seeds", "0..3", "--jobs", "1", "--patience", "1s", "--out", "a.jsonl"];
    let (code, text) = place.sim(&args);
    assert_eq!(code, 4, "{text}");
    assert!(text.contains("seed 0 of b.kdl has not come to its end after"), "{text}");
    assert_eq!(place.read("a.jsonl").lines().count(), 2, "the head and the one run that came to its end");
    let (code, text) = place.sim(&["merge", "a.jsonl"]);
    assert_eq!(code, 4, "{text}");
    assert!(text.contains("5 runs that were asked for are in none of the files"), "{text}");

    for command in ["run", "replay", "explore"] {
        let (code, text) = place.sim(&[command, "b.kdl", "--seed", "5", "--patience", "0s"]);
        assert_eq!(code, 4, "{text}");
        assert!(text.contains("seed 5 of b.kdl has not come to its end after 0 s"), "{text}");
    }
    let (code, text) = place.sim(&["shrink", "b.kdl", "--patience", "0s"]);
    assert_eq!(code, 4, "{text}");
    assert!(text.contains("has not come to its end after 0 s"), "{text}");
}

/// Each kind of failure has a file of its own, whichever generators have shown it.
#[test]
fn the_first_failure_of_each_kind_is_written_and_none_over_another() {
    let place = Place::new();
    std::fs::create_dir_all(place.0.path().join("all/g1")).expect("a directory");
    std::fs::create_dir_all(place.0.path().join("all/g2")).expect("a directory");
    place.file("all/g1/a.kdl", WRONG);
    place.file("all/g2/a.kdl", &RIGHT.replace("restart", "delete \"nothing\"\nrestart"));
    let (code, text) = place.sim(&["sweep", "all", "--seeds", "3..5", "--keep-going", "--jobs", "1"]);
    assert_eq!(code, 1, "{text}");
    let mut written: Vec<String> = std::fs::read_dir(place.0.path().join("target/sweep"))
        .expect("the directory that the page names")
        .map(|entry| entry.expect("a file").file_name().to_string_lossy().into_owned())
        .collect();
    written.sort();
    assert_eq!(written, ["g1-a-3.kdl", "g2-a-3.kdl"], "{text}");

    let (code, text) = place.sim(&["sweep", "all/g1/a.kdl", "all/g2/a.kdl", "--seeds", "0..1"]);
    assert_eq!(code, 2, "{text}");
    assert!(text.contains("all/g1/a.kdl and all/g2/a.kdl are both called a: rename one"), "{text}");
}

/// A smaller scenario may hang where the one that is shrunk did not.
#[test]
fn what_was_shrunk_before_a_run_hung_is_kept_and_what_hung_beside_it() {
    let place = Place::new();
    let steps = "fault write \"*.log\" stall=\"59m\" may-miss\ntopic orders\ncalm";
    let wrong = "produce orders value=\"v\" expect-offset=7\ncrash\nstart";
    place.file("a.kdl", &format!("scenario \"wrong\"\n{steps}\n{wrong}\n"));
    let (code, text) = place.sim(&["shrink", "a.kdl", "-o", "small.kdl", "--patience", "1s"]);
    assert_eq!(code, 4, "{text}");
    assert!(text.contains("see it: ") && text.contains("the run that hangs: small-hangs.kdl"), "{text}");
    let (small, hangs) = (place.read("small.kdl"), place.read("small-hangs.kdl"));
    assert!(small.contains("expect-offset=7") && !small.contains("crash"), "{small}");
    assert!(hangs.contains("stall=") && !hangs.contains("calm"), "{hangs}");
    assert_eq!(place.sim(&["replay", "small.kdl"]).0, 1);
}

/// What a shard that was killed has written, and what no shard can have written.
#[test]
fn a_file_that_is_cut_off_is_added_up_as_far_as_it_goes() {
    let place = Place::new();
    place.file("right.kdl", RIGHT);
    let (code, text) =
        place.sim(&["sweep", "right.kdl", "--seeds", "0..3", "--jobs", "1", "--out", "a.jsonl"]);
    assert_eq!(code, 0, "{text}");
    let whole = place.read("a.jsonl");
    place.file("cut.jsonl", &whole[..whole.len() - 20]);
    let (code, text) = place.sim(&["merge", "cut.jsonl"]);
    assert_eq!(code, 4, "{text}");
    assert!(text.contains("line 4 is cut off") && text.contains("\n1 runs that were asked for"), "{text}");
    let (_, runs) = whole.split_once('\n').expect("a head");
    for headless in [runs, ""] {
        place.file("headless.jsonl", headless);
        let (code, text) = place.sim(&["merge", "headless.jsonl"]);
        assert_eq!(code, 2, "{text}");
        assert!(text.contains("no line before the runs says what the sweep was asked for"), "{text}");
    }
    place.file("bad.jsonl", &whole.replace("\"start\":0,\"end\":3", "\"start\":3,\"end\":0"));
    let (code, text) = place.sim(&["merge", "bad.jsonl"]);
    assert_eq!(code, 2, "{text}");
    assert!(text.contains("bad.jsonl: line 1: seeds 3 to 0 are no range"), "{text}");
}

/// The last of all numbers has none after it.
#[test]
fn the_last_of_all_seeds_is_that_seed() {
    let place = Place::new();
    place.file("right.kdl", &RIGHT.replace("topic", "net latency=\"1ms..9ms\"\ntopic"));
    let last = u64::MAX.to_string();
    let (code, text) = place.sim(&["run", "right.kdl", "--seed", &last, "-v"]);
    assert_eq!(code, 0, "{text}");
    place.file("wrong.kdl", WRONG);
    let (_, text) = place.sim(&["run", "wrong.kdl", "--seed", &last]);
    assert!(text.contains(&format!("FAILED  wrong with seed {last}")), "{text}");
    let (code, text) = place.sim(&["sweep", "right.kdl", "--seeds", &last]);
    assert_eq!(code, 2, "{text}");
    assert!(text.contains("`sim run --seed` runs it"), "{text}");
}

#[test]
fn more_jobs_than_any_machine_has_cores_for_are_refused() {
    let place = Place::new();
    for jobs in ["1000000", "1000000000000"] {
        let (code, text) = place.sim(&["sweep", "right.kdl", "--jobs", jobs]);
        assert_eq!(code, 2, "{text}");
        assert!(text.contains("at most 1024 at the same time"), "{text}");
    }
}

#[cfg(unix)]
#[test]
fn another_process_that_comes_to_something_else_is_found_out() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    place.file("right.kdl", RIGHT);
    let same = place.sim(&["sweep", "right.kdl", "--seeds", "0..3", "--double-check"]);
    assert_eq!(same.0, 0, "{}", same.1);
    // Another seed in the place of the one that was asked for stands for a program that is not deterministic.
    let script =
        "#!/bin/sh\nsed -u 's/[0-9]*$/77/' | SIM again \"$2\"\n".replace("SIM", env!("CARGO_BIN_EXE_sim"));
    let other = place.file("other.sh", &script);
    std::fs::set_permissions(&other, std::fs::Permissions::from_mode(0o755)).expect("it can be run");
    // Different seeds show only where something is drawn.
    place.file("drawn.kdl", &RIGHT.replace("topic", "net latency=\"1ms..9ms\"\ntopic"));
    let args = ["sweep", "drawn.kdl", "--seeds", "0..1", "--double-check", "--against", path(&other)];
    let (code, text) = place.sim(&args);
    assert_eq!(code, 3, "{text}");
    assert!(text.contains("two processes differ from event") && text.contains("there  "), "{text}");
}

#[cfg(unix)]
fn path(path: &Path) -> &str {
    path.to_str().expect("a path without surprises")
}
