//! The program `sim`, as people use it.
#![allow(clippy::disallowed_methods)] // on the real machine

use std::path::Path;
use std::process::{Command, Output, Stdio};

use sim::barriers::source::places;

fn sim(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sim")).args(args).env("COLUMNS", "300").output().expect("it starts")
}

/// What it complained of, which is a wrong command line or a wrong file.
fn complaint(args: &[&str]) -> String {
    let output = sim(args);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {output:?}");
    String::from_utf8(output.stderr).expect("it complains in UTF-8")
}

/// A file with this text, by its path.
fn written(dir: &Path, name: &str, text: &str) -> String {
    let path = dir.join(name);
    std::fs::write(&path, text).expect("a file");
    path.display().to_string()
}

/// A path that names no scenario is never passed over: what was not looked at has not been found good.
#[test]
fn a_path_without_scenarios_is_an_error_that_says_which() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = |name: &str| dir.path().join(name).display().to_string();
    std::fs::write(file("notes.txt"), "").expect("a file");
    std::fs::create_dir(file("empty")).expect("a directory");
    for command in ["check", "run", "list", "explore", "barriers", "sweep"] {
        let why = complaint(&[command, &file("nope.kdl")]);
        assert!(why.contains("nope.kdl: No such file"), "{command}: {why}");
        assert_eq!(why.matches("nope.kdl").count(), 1, "{command}: {why}");
        let why = complaint(&[command, &file("notes.txt")]);
        assert!(why.contains("its name does not end with .kdl"), "{command}: {why}");
        let why = complaint(&[command, &file("empty")]);
        assert!(why.contains("empty: no scenario (*.kdl) here"), "{command}: {why}");
    }
}

#[test]
fn a_file_that_is_not_text_is_named_with_line_and_byte() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("a.kdl");
    std::fs::write(&file, b"scenario \"t\"\ntopic \xff\n").expect("a file");
    let file = file.display().to_string();
    let why = complaint(&["check", &file]);
    assert!(why.contains(&format!("{file}:2: byte 7 of this line, 0xff, is not UTF-8")), "{why}");
}

#[test]
fn a_number_that_is_none_is_explained() {
    for args in [
        ["run", "--seed", "abc"],
        ["replay", "--seed", "-1"],
        ["shrink", "--seed", "1.5"],
        ["explore", "--threads", "two"],
        ["barriers", "--limit", "99999999999999999999"],
        ["sweep", "--jobs", "x"],
    ] {
        let why = complaint(&[args[0], &format!("{}={}", args[1], args[2]), "x.kdl"]);
        assert!(why.contains("expected a whole number, 0 or more"), "{why}");
    }
}

#[test]
fn more_threads_than_a_machine_has_are_refused_and_not_started() {
    for (command, option) in [
        ("explore", "--threads"),
        ("explore", "--jobs"),
        ("barriers", "--threads"),
        ("sweep", "--jobs"),
        ("sweep", "--threads"),
    ] {
        let why = complaint(&[command, &format!("{option}=100000"), "x.kdl"]);
        assert!(why.contains("at most 1024 at the same time"), "{command}: {why}");
    }
}

/// Whoever reads no further than the first lines must not turn a failure into a success.
#[test]
fn what_a_command_found_decides_its_exit_code_when_nobody_reads_what_it_prints() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = |name: &str, text: &str| written(dir.path(), name, text);
    let good = file("a.kdl", "scenario \"t\"\nfiles\n");
    let bad = file("b.kdl", "scenario \"t\"\ntopic orders\nconsume orders expect-count=1\n");
    let wrong = file("c.kdl", "scenario \"t\"\ntopik orders\n");
    for (args, code) in [
        (&["run", &good][..], 0),
        (&["run", &good, &bad], 1),
        (&["run", &good, &bad, &wrong], 1),
        (&["check", &good, &wrong], 2),
        (&["list", &good, &wrong], 2),
        (&["replay", &bad], 1),
        (&["explore", "--depth=1", &bad], 1),
        (&["explore", "--depth=1", &good, &bad], 1),
    ] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_sim"))
            .args(args)
            .current_dir(dir.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        drop(child.stdout.take());
        let status = child.wait().expect("it ends");
        assert_eq!(status.code(), Some(code), "{args:?}");
    }
}

#[test]
fn a_scenario_that_is_printed_can_be_kept_and_read_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = |name: &str| dir.path().join(name).display().to_string();
    let text = "scenario \"t\" seeds=\"0..2\"\ntopic orders\neach consume orders expect-count=\"1 | 2\"\n";
    std::fs::write(file("a.kdl"), text).expect("a file");
    for with in [&[][..], &["--trace"]] {
        let scenario = file("a.kdl");
        let output = sim(&[&["replay", &scenario, "--seed=1", "--print"], with].concat());
        assert_eq!(output.status.code(), Some(1));
        std::fs::write(file("printed.kdl"), &output.stdout).expect("a file");
        let checked = sim(&["check", &file("printed.kdl")]);
        assert_eq!(checked.status.code(), Some(0), "{checked:?}");
        let rest = String::from_utf8(output.stderr).expect("UTF-8");
        for part in ["FAILED", "records: 2", "seed 1  hash "] {
            assert!(rest.contains(part), "{part} is missing: {rest}");
        }
    }
}

/// What fails without any crash is known before the exploration, which may take long, and is told then.
#[test]
fn an_exploration_tells_first_what_fails_without_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = |name: &str, text: &str| written(dir.path(), name, text);
    let bad = file("a.kdl", "scenario \"t\"\ntopic orders\nconsume orders expect-count=1\n");
    let wrong = file("b.kdl", "scenario \"t\"\ntopik orders\n");
    let output = sim(&["explore", "--depth=1", &bad, &wrong]);
    let said = String::from_utf8(output.stdout).expect("UTF-8");
    let failed = said.find("FAILED without any crash").expect("it says so");
    assert!(said.find("crash points").is_some_and(|report| failed < report), "{said}");
    assert_eq!(output.status.code(), Some(1), "a broken expectation outranks a wrong scenario");
}

/// Help is read in terminals.
#[test]
fn help_is_no_wider_than_a_terminal() {
    for command in
        ["run", "list", "check", "new", "sweep", "merge", "replay", "shrink", "explore", "barriers"]
    {
        let output = sim(&[command, "--help"]);
        let help = String::from_utf8(output.stdout).expect("UTF-8");
        for line in help.lines() {
            assert!(line.chars().count() <= 100, "{command}: {line}");
        }
    }
}

/// Whoever reads that all syncs are noticed, and an exit code that says otherwise, learns what else was wrong.
#[test]
fn scenarios_that_say_nothing_about_barriers_are_counted() {
    let dir = tempfile::tempdir().expect("a directory");
    let bad = written(dir.path(), "a.kdl", "scenario \"t\"\ntopic orders\nconsume orders expect-count=1\n");
    let output = sim(&["barriers", &bad]);
    let said = String::from_utf8(output.stdout).expect("UTF-8");
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("fails with every sync in place (unmet expectation): left out"), "{said}");
    assert!(said.contains("(1 scenarios; 1 left out, which fail with every sync in place, "), "{said}");
}

/// Fails with some of its seeds, without any crash.
const FAILS: &str =
    "scenario \"t\" seeds=\"0..2\"\ntopic orders\neach consume orders expect-count=\"0 | 1\"\n";

/// What it printed, and what it complained of.
fn said(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
    (text(&output.stdout), text(&output.stderr))
}

/// Where a failure cannot be kept, it is told all the same, with all that the runs add up to.
#[test]
fn a_sweep_that_cannot_write_tells_what_it_has_found() {
    let dir = tempfile::tempdir().expect("a directory");
    let generator = written(dir.path(), "a.kdl", FAILS);
    let taken = written(dir.path(), "taken", "no directory");
    let below = format!("{taken}/below");
    let sweep = |args: &[&str]| {
        let fixed = ["sweep", &generator, "--seeds=0..6", "--jobs=1", "--allow-unreached"];
        Command::new(env!("CARGO_BIN_EXE_sim"))
            .args([&fixed, args].concat())
            .current_dir(dir.path())
            .output()
            .expect("it starts")
    };
    for (args, path, failed) in [
        (&["--failures", &below][..], &*below, 1),
        (&["--failures", &below, "--keep-going"], &below, 3),
        (&["--out=/dev/full"], "/dev/full", 1),
        (&["--out=/dev/full", "--keep-going"], "/dev/full", 3),
    ] {
        let output = sweep(args);
        let (told, complained) = said(&output);
        assert_eq!(output.status.code(), Some(4), "{args:?}: {told}{complained}");
        assert!(told.contains("FAILED  a with seed 1"), "{args:?}: {told}");
        let sum = told.lines().find_map(|line| line.strip_prefix("failed ")?.trim().parse().ok());
        assert_eq!(sum, Some(failed), "{args:?}: {told}");
        assert!(complained.contains(path), "{args:?}: {complained}");
    }
    let output = sweep(&["--out", &below]);
    let (told, complained) = said(&output);
    assert_eq!(output.status.code(), Some(4), "{told}");
    assert!(told.is_empty() && complained.starts_with(&format!("{below}: ")), "{told}{complained}");
}

#[test]
fn an_exploration_that_cannot_keep_what_it_has_found_tells_it_and_offers_no_file() {
    let dir = tempfile::tempdir().expect("a directory");
    let text = "scenario \"t\"\nbroker durability=always\ntopic orders\nproduce orders value=\"v\"\n";
    let file = written(dir.path(), "a.kdl", text);
    let taken = written(dir.path(), "taken", "no directory");
    let failures = format!("{taken}/below");
    let log = places().into_iter().find(|place| place.file.ends_with("segment.rs"));
    let off = log.expect("a log is synced").to_string();
    let output = sim(&["explore", "--depth=1", "--without", &off, "--failures", &failures, &file]);
    let (told, complained) = said(&output);
    assert_eq!(output.status.code(), Some(4), "{told}{complained}");
    assert!(told.contains("\nFAILED ") && told.contains("power-loss keep=nothing"), "{told}");
    assert!(!told.contains("see it again"), "{told}");
    assert!(complained.contains(&format!("{failures}/a-0.kdl: ")), "{complained}");
}

/// A search may take long: where its result cannot go is found before, and what could not be known before loses nothing.
#[test]
fn what_was_made_smaller_is_never_lost() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = written(dir.path(), "a.kdl", FAILS);
    let nowhere = dir.path().join("none/small.kdl").display().to_string();
    let output = sim(&["shrink", &file, "--seed=1", "--out", &nowhere]);
    let (told, complained) = said(&output);
    assert_eq!((output.status.code(), told.as_str()), (Some(4), ""), "{complained}");
    assert!(complained.starts_with(&format!("{nowhere}: ")) && !complained.contains("tries"), "{complained}");

    let output = sim(&["shrink", &file, "--seed=1", "--out=/dev/full"]);
    let (told, complained) = said(&output);
    assert_eq!(output.status.code(), Some(4), "{complained}");
    assert!(complained.contains("/dev/full: "), "{complained}");
    let kept = written(dir.path(), "small.kdl", &told);
    assert_eq!(sim(&["check", &kept]).status.code(), Some(0), "{told}");

    // Where nothing is found, nothing is left behind, and nothing is overwritten.
    let new = dir.path().join("new.kdl").display().to_string();
    for out in [&new, &kept] {
        assert_eq!(sim(&["shrink", &file, "--seed=0", "--out", out]).status.code(), Some(2));
    }
    assert!(!Path::new(&new).exists());
    assert_eq!(std::fs::read_to_string(&kept).ok(), Some(told));
}

/// One file that is none hides nothing that the others tell of.
#[test]
fn a_merge_tells_what_the_other_files_hold() {
    let dir = tempfile::tempdir().expect("a directory");
    let generator = written(dir.path(), "a.kdl", FAILS);
    let file = |name: &str| dir.path().join(name).display().to_string();
    let sweep = |seeds: &str, out: &str| {
        let failures = file("failures");
        let args = ["sweep", &generator, seeds, "--keep-going", "--failures", &failures, "--out", out];
        sim(&args).status.code()
    };
    assert_eq!(sweep("--seeds=0..2", &file("fails")), Some(1));
    assert_eq!(sweep("--seeds=2", &file("holds")), Some(0));
    let wrong = written(dir.path(), "wrong", "nothing\n");
    for (other, code, failed) in [("fails", 1, Some(1)), ("holds", 2, Some(0))] {
        for files in [[&wrong, &file(other)], [&file(other), &wrong]] {
            let output = sim(&["merge", files[0], files[1]]);
            let (told, complained) = said(&output);
            assert_eq!(output.status.code(), Some(code), "{other}: {told}{complained}");
            let sum = told.lines().find_map(|line| line.strip_prefix("failed ")?.trim().parse().ok());
            assert_eq!(sum, failed, "{other}: {told}");
            assert!(complained.contains(&format!("{wrong}: line 1: ")), "{complained}");
        }
    }
    assert_eq!(sim(&["merge", &wrong]).status.code(), Some(2));
}

/// What the table of barriers shows can be pasted behind `--without`: also a call that syncs only by way of other functions.
#[test]
fn each_place_that_syncs_can_be_switched_off() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = written(dir.path(), "a.kdl", "scenario \"t\"\ntopic orders\n");
    for place in places() {
        let output = sim(&["run", &file, "--without", &place.to_string()]);
        assert_ne!(output.status.code(), Some(2), "{place}: {output:?}");
    }
}
