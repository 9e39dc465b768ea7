//! The same scenario gives the same trace, in another process too. Without this no seed means anything.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use sim::outcome::run;
use sim::suite;

/// Seeds of one scenario that are compared, at most.
const SEEDS: usize = 2;
/// What a line of the other process begins with.
const MARK: &str = "trace-hash ";

fn scenarios() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate lies in the workspace").join("scenarios")
}

/// Scenario and seed, with the hash of the trace.
fn hashes() -> BTreeMap<String, u64> {
    let mut hashes = BTreeMap::new();
    for file in suite::find(&scenarios()).expect("they can be read") {
        let Ok(scenario) = suite::load(&file.path) else { continue };
        for seed in scenario.seeds.iter().take(SEEDS) {
            hashes.insert(format!("{} {seed}", file.name), run(&scenario, seed).trace.hash());
        }
    }
    hashes
}

/// Set in the other process, which is this test once more: it prints instead of comparing.
const OTHER: &str = "SIM_PRINT_HASHES";

#[test]
fn every_scenario_has_the_same_trace_in_another_process() {
    let here = hashes();
    assert!(!here.is_empty(), "there are scenarios");
    if std::env::var_os(OTHER).is_some() {
        here.iter().for_each(|(name, hash)| println!("\n{MARK}{name} {hash:016x}"));
        return;
    }
    let exe = std::env::current_exe().expect("a test has a file");
    let out = Command::new(exe).arg("--nocapture").env(OTHER, "1").output().expect("a test can be run again");
    let printed = String::from_utf8_lossy(&out.stdout);
    let there: BTreeMap<String, u64> = printed
        .lines()
        .filter_map(|line| line.strip_prefix(MARK)?.rsplit_once(' '))
        .map(|(name, hash)| (name.to_owned(), u64::from_str_radix(hash, 16).expect("a hash")))
        .collect();
    // Of hundreds, only those that differ are shown.
    let all: BTreeSet<&String> = here.keys().chain(there.keys()).collect();
    let differing: Vec<&String> =
        all.into_iter().filter(|name| here.get(*name) != there.get(*name)).collect();
    assert!(differing.is_empty(), "{differing:?}");
}

/// Three clients that wait for an answer when the broker is killed, and a latency for each connection that goes then.
const KILLED: &str = r#"
scenario "killed with three connections"
net latency="0ms..9ms"
topic orders
repeat 4 {
    parallel {
        client a { produce orders count=3 expect=any; }
        client b { produce orders count=3 expect=any; }
        client c { produce orders count=3 expect=any; }
        client d { advance "17ms"; crash; }
    }
    start
}
"#;

/// What the process has done before tells nothing to a run: not what tasks it has made either, of which tokio drops those of
/// a killed broker in an order of its own.
#[test]
fn a_run_is_the_same_after_any_others() {
    let scenario = sim::scenario::syntax::parse("killed.kdl", KILLED).expect("it is one");
    let once = run(&scenario, 0);
    assert_eq!(once.failures, []);
    for nth in 0..12 {
        assert_eq!(run(&scenario, 0).trace.hash(), once.trace.hash(), "the run {nth} behind it");
    }
}
