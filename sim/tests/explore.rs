//! What `sim explore` gives a person who has a violation: a scenario that shows it again through the ordinary executor, and the
//! place where a sync is missing. The broker has none to show, so one of its syncs is switched off.

use std::io::{BufRead, BufReader};
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use faults::{Op, Site};
use rustix::process::{Pid, Signal, kill_process};
use sim::explore::{
    Bounds, Choice, Report, Run, Violation, Whereabouts, explore, explore_telling, explore_within, locate,
};
use sim::scenario::syntax;
use sim::source_line::SourceLine;
use sim::suite;

fn scenario(name: &str) -> PathBuf {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate lies in the workspace");
    top.join("scenarios/explore").join(name).with_extension("kdl")
}

fn recorded(name: &str) -> Run {
    let scenario = suite::load(&scenario(name)).expect("it is a scenario");
    Run::new(&scenario, scenario.seeds.start, None).expect("it runs")
}

/// The place of the last sync of this kind of a path that ends so.
fn place(run: &Run, op: Op, path: &str) -> SourceLine {
    let syncs = run.history.steps().iter().take(run.len).rev();
    let last: Option<Site> = syncs.filter(|s| s.op == op && s.path.ends_with(path)).find_map(|s| s.site);
    last.expect("the run syncs that").into()
}

fn bounds(depth: u32) -> Bounds {
    Bounds { depth, inner: 8, ..Bounds::quick() }
}

fn violation(run: &Run, off: &SourceLine, depth: u32) -> (Run, Violation) {
    let run = run.without(off);
    let first = explore(&run, bounds(depth)).first;
    (run, first.unwrap_or_else(|| panic!("nothing notices that {off} does not sync")))
}

/// What the missing sync is a sync of, and after which change it is missing at the earliest.
fn located(run: &Run, off: &SourceLine) -> (String, String) {
    let (run, violation) = violation(run, off, 1);
    let mend = locate(&run, &violation, 16, &Whereabouts::default()).expect("a single sync mends it");
    (mend.path, mend.after)
}

#[test]
fn the_written_scenario_breaks_the_same_promise_when_it_is_run() {
    for (name, op, path) in [
        ("roll", Op::SyncDir, "orders/0"),
        ("clean_stop", Op::Sync, ".index"),
        ("killed_between_write_and_sync", Op::Sync, ".log"),
    ] {
        let off = place(&recorded(name), op, path);
        let dir = tempfile::tempdir().expect("a directory");
        let sim = |arguments: &[&str], file: &Path| {
            let sim = Command::new(env!("CARGO_BIN_EXE_sim"))
                .args(arguments)
                .arg(file)
                .args(["--without", &off.to_string()])
                .output()
                .expect("sim runs");
            (sim.status.code(), String::from_utf8_lossy(&sim.stdout).into_owned())
        };
        let failures = dir.path().to_str().expect("a path that is text");
        let (code, explored) =
            sim(&["explore", "--limit", "8", "--depth", "1", "--failures", failures], &scenario(name));
        assert_eq!(code, Some(1), "{explored}");
        let broken = explored.lines().find(|line| line.starts_with('P')).expect("a promise");
        let (code, ran) = sim(&["run"], &dir.path().join(format!("explore-{name}-0.kdl")));
        assert_eq!(code, Some(1), "{explored}\n{ran}");
        assert!(ran.lines().any(|line| line.trim() == broken), "{explored}\n{ran}");
    }
}

#[test]
fn a_crash_inside_a_recovery_is_written_too() {
    let run = recorded("failed_sync");
    let off = place(&run, Op::Sync, ".log.tmp");
    let (run, violation) = violation(&run, &off, 2);
    assert!(violation.nested.is_some(), "{violation}");
    let witness = sim::explore::witness(&run, &violation).expect("it comes after the first step");
    assert!(witness.shows, "{}", sim::scenario::syntax::print(&witness.scenario));
    let mend = locate(&run, &violation, 16, &Whereabouts::default()).expect("a single sync mends it");
    assert!(mend.in_recovery && mend.path.ends_with(".log.tmp"), "{mend}");
}

/// The process dies behind a write that is not synced yet, and the cache survives; the next start serves what it finds
/// there, and then the lights go out. No crash is in the scenario.
#[test]
fn what_a_start_after_a_kill_serves_must_last() {
    let run = recorded("torn_tail");
    let synced = |s: &&faults::Step| s.op == Op::Sync && s.path.ends_with(".log") && &*s.phase == "recovery";
    let off = run.history.steps().iter().rev().find(synced).and_then(|step| step.site);
    let (_, violation) = violation(&run, &off.expect("the start syncs the log").into(), 2);
    assert_eq!(violation.point.choice, Choice::Process, "{violation}");
    assert!(violation.nested.is_some_and(|nested| nested.choice != Choice::Process), "{violation}");
    assert_eq!(violation.broken.kind, "lost", "{violation}");
}

/// Which thread meets an image first makes no difference.
#[test]
fn the_first_violation_is_the_same_on_any_number_of_threads() {
    let run = recorded("clean_stop");
    let run = run.without(&place(&run, Op::Sync, ".index"));
    let first = |threads| {
        let threads = NonZeroUsize::new(threads);
        explore(&run, Bounds { threads, ..bounds(2) }).first.map(|first| first.to_string())
    };
    let alone = first(1);
    assert!(alone.is_some());
    assert!((2..6).all(|threads| first(threads) == alone));
}

/// What counts is how many different things were done, and not which thread has done them, or that two have.
#[test]
fn the_figures_are_the_same_on_any_number_of_threads() {
    let run = recorded("torn_tail_and_new_records");
    let figures = |threads| {
        let bounds = Bounds { threads: NonZeroUsize::new(threads), nested_cuts: true, ..bounds(2) };
        let text = explore(&run, bounds).to_string();
        text.lines().filter(|line| !line.starts_with("states/s")).map(str::to_owned).collect::<Vec<_>>()
    };
    let alone = figures(1);
    for threads in 2..6 {
        assert_eq!(figures(threads), alone, "{threads} threads");
    }
}

/// A start on a full disk has no room, one on a read-only disk can change nothing, and a power loss makes only the second writable.
#[test]
fn recoveries_find_the_disk_as_full_or_read_only_as_it_was() {
    let report = |limit: &str, choices: Bounds| {
        let text = format!(
            "scenario \"t\"\nbroker durability=always\ntopic orders\nproduce orders size=3000 count=2\n{limit}\n"
        );
        let run =
            Run::new(&syntax::parse("t.kdl", &text).expect("it can be read"), 0, None).expect("it runs");
        let report = explore(&run, Bounds { from: run.len, ..choices });
        assert!(report.holds(), "{limit}: {report}");
        (report.refused, report.recoveries + report.nested)
    };
    let (of_the_run, inside) = (bounds(1), bounds(2));
    let (refused, all) = report("disk free=0", of_the_run);
    assert_eq!(refused, all, "no start can note that it has begun");
    assert!(report("disk free=0", inside).0 > refused, "nor one that comes after a crash of that");
    let (refused, all) = report("disk read-only=yes", of_the_run);
    assert!(
        (1..all).contains(&refused),
        "{refused} of {all}: where the process died alone, and not after a power loss"
    );
    assert_eq!(report("disk free=0\ndisk capacity=unlimited", inside).0, 0);
}

/// Each byte inside of a write is a crash point, or is counted as none; and then nothing is called exhaustive.
#[test]
fn what_is_no_crash_point_is_told() {
    let run = recorded("roll");
    let report = |cuts: bool| explore(&run, Bounds { cuts, ..bounds(1) });
    let (cut, whole) = (report(true), report(false));
    assert!(cut.cuts > 0 && whole.cuts == 0);
    assert_eq!(cut.cuts + cut.uncut, whole.uncut);
    assert!(explore(&run, bounds(2)).uncut > cut.uncut, "those of recoveries too");
    let says = |sampled, uncut| Report { sampled, uncut, ..Report::default() }.to_string();
    assert!(says(0, 0).contains("exhaustive"));
    assert!(!says(0, 7).contains("exhaustive") && says(0, 7).contains("inside of longer writes, 7 bytes"));
    assert!(!says(1, 7).contains("exhaustive") && says(1, 7).contains("sampled: 1 "));
}

/// Whatever panics on a thread of the explorer: the report says where it was.
#[test]
fn a_panic_is_told_with_the_crash_that_was_looked_at() {
    let run = recorded("torn_tail");
    let calls = AtomicUsize::new(0);
    let panics = || {
        assert!(calls.fetch_add(1, Ordering::Relaxed) < 3, "what it says");
        ControlFlow::Continue(())
    };
    for threads in [1, 2] {
        calls.store(0, Ordering::Relaxed);
        let bounds = Bounds { threads: NonZeroUsize::new(threads), ..bounds(1) };
        let report = explore_telling(&run, bounds, &Whereabouts::default(), &panics);
        let panicked = report.panicked.as_ref().expect("it has panicked").to_string();
        assert!(!report.holds() && report.points < run.len as u64, "{report}");
        assert!(panicked.starts_with("a panic after disk operation "), "{panicked}");
        assert!(panicked.contains("what it says"), "{panicked}");
    }
}

/// Nothing is called exhaustive that somebody has put an end to.
#[test]
fn who_has_enough_is_told_how_much_was_visited() {
    let run = recorded("torn_tail");
    for threads in [1, 2] {
        let calls = AtomicUsize::new(0);
        let third_is_enough = || match calls.fetch_add(1, Ordering::Relaxed) {
            0 | 1 => ControlFlow::Continue(()),
            _ => ControlFlow::Break(()),
        };
        let bounds = Bounds { threads: NonZeroUsize::new(threads), cuts: false, ..bounds(1) };
        let report = explore_telling(&run, bounds, &Whereabouts::default(), &third_is_enough);
        assert!(report.is_interrupted && report.holds());
        assert!((3..=2 + threads as u64).contains(&report.points), "{report}");
        let says = format!("interrupted after {} of at most {} crash points", report.points, run.len + 1);
        assert!(report.to_string().contains(&says), "{report}");
        assert!(!report.to_string().contains("exhaustive"), "{report}");
    }
}

/// Ctrl-C ends the scenario under way, too, and leaves those out that come after it.
#[test]
#[allow(clippy::disallowed_methods)] // it waits for another process
fn who_interrupts_an_exploration_is_told_what_it_came_to() {
    let dir = tempfile::tempdir().expect("a directory");
    // Minutes of work each.
    let text =
        "scenario \"t\"\ntopic orders\nproduce orders size=2000 count=40\nrestart\nproduce orders count=40";
    let files = ["a.kdl", "b.kdl"].map(|name| dir.path().join(name));
    files.iter().for_each(|file| std::fs::write(file, text).expect("it is written"));
    let mut sim = Command::new(env!("CARGO_BIN_EXE_sim"))
        .arg("explore")
        .args(&files)
        .stdout(Stdio::piped())
        .spawn()
        .expect("sim runs");
    let mut out = BufReader::new(sim.stdout.take().expect("it is piped")).lines();
    let mut until = |what: &str| {
        let mut lines = out.by_ref().map(|line| line.expect("it is text"));
        lines.find(|line| line.starts_with(what)).unwrap_or_else(|| panic!("it does not say: {what}"))
    };
    until("explore a");
    // It says so before it begins; the signals were waited for before that.
    kill_process(Pid::from_child(&sim), Signal::INT).expect("it runs");
    until("interrupted after ");
    assert_eq!(until("1 explored"), "1 explored, none failed");
    assert_eq!(sim.wait().expect("it ends").code(), Some(130));
}

/// A thread that does not go on is seen from outside, and at which crash.
#[test]
fn a_thread_that_hangs_is_late() {
    let run = recorded("torn_tail");
    let whereabouts = Whereabouts::default();
    let (hangs, goes_on) = (Barrier::new(2), Barrier::new(2));
    let is_first = AtomicBool::new(true);
    let hang = || {
        if is_first.swap(false, Ordering::Relaxed) {
            hangs.wait();
            goes_on.wait();
        }
        ControlFlow::Continue(())
    };
    std::thread::scope(|scope| {
        let explored = scope.spawn(|| explore_telling(&run, bounds(1), &whereabouts, &hang));
        hangs.wait();
        let patience = Duration::from_millis(1);
        let late = std::iter::repeat_with(|| whereabouts.late(patience)).flatten().next();
        assert_eq!(late.expect("it is late").point.steps, 0);
        assert_eq!(whereabouts.late(Duration::from_secs(3600)), None);
        goes_on.wait();
        assert!(explored.join().expect("it ends").holds());
    });
    assert_eq!(whereabouts.late(Duration::ZERO), None, "nobody is on the way any more");
}

/// Who waits for an exploration goes on without what hangs, and knows where.
#[test]
fn an_image_that_hangs_is_left_behind() {
    let run = recorded("torn_tail");
    let explored = |hangs: bool| {
        let patience = if hangs { Duration::from_millis(1) } else { Duration::from_secs(3600) };
        let done = move || {
            if hangs {
                loop {
                    std::thread::park();
                }
            }
            ControlFlow::Continue(())
        };
        explore_within(&run, bounds(1), patience, done).expect("there are threads")
    };
    assert_eq!(explored(true).expect_err("it hangs at the first").point.steps, 0);
    assert!(explored(false).expect("it ends").holds());
}

/// What the explorer is asked about is the scenario, and not only what comes of its crashes.
#[test]
fn a_run_that_fails_without_any_crash_is_told() {
    let dir = tempfile::tempdir().expect("a directory");
    let code = |steps: &str, arguments: &[&str]| {
        let file = dir.path().join("t.kdl");
        std::fs::write(&file, format!("scenario \"t\"\nbroker durability=always\ntopic orders\n{steps}"))
            .expect("it is written");
        let sim = Command::new(env!("CARGO_BIN_EXE_sim"))
            .args(["explore", "--depth", "1", "--threads", "1"])
            .args(arguments)
            .arg(file)
            .output()
            .expect("sim runs");
        sim.status.code()
    };
    assert_eq!(code("produce orders value=\"a\"", &[]), Some(0));
    assert_eq!(code("produce orders value=\"a\" expect-offset=7", &[]), Some(1), "an expectation is not met");
    assert_eq!(code("fault write \"*.log\" error=EIO", &[]), Some(1), "a fault never strikes");
    assert_eq!(code("corrupt \"orders/7/@last.log\" at=0", &[]), Some(2), "a step is impossible");
    assert_eq!(code("produce orders value=\"a\"", &["--limit=0"]), Some(2), "nothing would be explored");

    let wrong = "produce orders value=\"a\"\ncorrupt \"orders/7/@last.log\" at=0";
    assert_eq!(code(wrong, &[]), Some(2), "a step is impossible");
    let run = suite::load(&dir.path().join("t.kdl")).expect("it is a scenario");
    let off =
        place(&Run::new(&run, 0, None).expect("it runs"), Op::Sync, "orders/0/00000000000000000000.log");
    let failures = dir.path().to_str().expect("a path that is text");
    let arguments = ["--without", &off.to_string(), "--failures", failures];
    assert_eq!(code(wrong, &arguments), Some(1), "a broken promise comes before a wrong scenario");
}

#[test]
fn the_missing_sync_is_named() {
    let run = recorded("roll");
    let (path, after) = located(&run, &place(&run, Op::SyncDir, "orders/0"));
    assert!(path.ends_with("/orders/0"), "{path}");
    assert!(after.starts_with("open ") && after.ends_with(".log"), "{after}");

    let run = recorded("refused_append");
    let cut = run.history.steps().iter().position(|s| s.op == Op::SetLen && s.path.ends_with(".log"));
    let sync = cut.and_then(|cut| run.history.steps().get(cut + 1)).and_then(|step| step.site);
    let (path, after) = located(&run, &sync.expect("the cut is synced").into());
    assert!(path.ends_with(".log") && after.starts_with("set-len "), "{path}, {after}");
}
