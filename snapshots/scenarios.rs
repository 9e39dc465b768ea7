//! One test for each scenario file, found when the tests run and named by its path:
//! `cargo test -p sim --test scenarios -- recovery::torn_tail`.
//!
//! A test executes its scenario with all its seeds, asks the oracle, and compares what came of each step with the snapshot
//! beside this file. With `SIM_SEED=17` it executes that seed alone, and prints the hash. Where the scenario says `explore`,
//! the test also visits its crash points. A scenario without a snapshot fails, and so does a snapshot without a scenario.
//! After a change, `cargo insta review` shows what became different, and accepts it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use libtest_mimic::{Arguments, Failed, Trial};
use sim::explore::{Bounds, Run, explore};
use sim::patience::{PATIENCE, watch};
use sim::report::{self, SIM};
use sim::scenario::Scenario;
use sim::suite::{self, ScenarioFile};
use walkdir::WalkDir;

fn main() {
    let args = Arguments::from_args();
    let files = suite::find(&top().join("scenarios")).expect("they can be read");
    let mut trials = vec![orphans(&files)];
    // Two tests that fail at once would mix what they print.
    let printing = Arc::new(Mutex::new(()));
    for file in files {
        let printing = printing.clone();
        trials.push(Trial::test(file.name.clone(), move || test(&file, &printing)));
    }
    libtest_mimic::run(&args, trials).exit();
}

/// The repository's top level.
fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate lies in the workspace").to_owned()
}

/// A path as it is typed at the top level.
fn below_top(path: &Path) -> &Path {
    path.strip_prefix(top()).unwrap_or(path)
}

fn test(file: &ScenarioFile, printing: &Mutex<()>) -> Result<(), Failed> {
    let mut scenario = suite::load(&file.path).map_err(|e| match e {
        suite::LoadError::Mistakes(mistakes) => Failed::from(mistakes.shown()),
        other => Failed::from(other),
    })?;
    let chosen = std::env::var("SIM_SEED").ok().and_then(|seed| seed.parse().ok());
    if let Some(seed) = chosen {
        scenario.seeds = sim::scenario::Seeds::one(seed);
    }
    let patience = PATIENCE.saturating_mul(u32::try_from(scenario.seeds.count()).unwrap_or(u32::MAX));
    let name = file.name.clone();
    let watch = watch(patience, move || {
        eprintln!("{name} has not come to its end after {} s", patience.as_secs());
        std::process::exit(4);
    });
    let ran = suite::run_seeds(&scenario);
    drop(watch);
    if let Some(seed) = chosen {
        println!("{} seed {seed}  hash {:016x}", file.name, ran.first.trace.hash());
    }
    if let Some(outcome) = &ran.failed {
        let seed = outcome.seed();
        let again = report::replay(below_top(&file.path), seed, &[]);
        return Err(Failed::from(format!(
            "seed {seed}\n{}\n  see it again: {again}",
            report::explained(outcome, false)
        )));
    }
    if scenario.explore {
        crash_points(file, &scenario)?;
    }
    // A snapshot shows the seeds that the scenario names.
    if file.is_generator() || chosen.is_some() {
        return Ok(());
    }
    let text = ran.snapshot(&scenario);
    let _printing = printing.lock().unwrap_or_else(PoisonError::into_inner);
    if compare(file, &text) {
        return Ok(());
    }
    let name = &file.name;
    Err(Failed::from(format!(
        "it prints something else than its snapshot says (the difference is shown above)\n\
         if the new output is right: INSTA_UPDATE=always cargo test -p sim --test scenarios -- {name}"
    )))
}

/// Visits the crash points of a scenario that asks for it, at a size for every day; `sim explore` and the soak visit more.
fn crash_points(file: &ScenarioFile, scenario: &Scenario) -> Result<(), Failed> {
    let run = Run::new(scenario, scenario.seeds.start, None).map_err(|e| e.to_string())?;
    let report = explore(&run, Bounds::quick());
    if let Some(panicked) = report.panicked {
        return Err(Failed::from(panicked.to_string()));
    }
    match report.first {
        None => Ok(()),
        Some(first) => Err(Failed::from(format!(
            "{} images broke a promise; the first, {first}\n  see it again: {SIM} explore {}",
            report.violations,
            below_top(&file.path).display(),
        ))),
    }
}

/// Whether the snapshot says this; where it says something else, the difference is shown, or accepted. That insta lets every
/// snapshot pass (`.cargo/config.toml`) spares whoever reads the difference its advice, which is for other kinds of tests.
fn compare(file: &ScenarioFile, text: &str) -> bool {
    let (folder, name) = file.snapshot();
    let folder = top().join("snapshots").join(folder);
    let accepted = folder.join(format!("{name}.snap"));
    let mut settings = insta::Settings::clone_current();
    settings.set_prepend_module_to_snapshot(false);
    settings.set_snapshot_path(folder);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, text));
    let accepted = insta::Snapshot::from_file(&accepted).ok();
    accepted.is_some_and(|snapshot| snapshot.as_text().is_some_and(|is| is.to_string() == text.trim_end()))
}

/// Every snapshot has a scenario.
fn orphans(files: &[ScenarioFile]) -> Trial {
    let known: BTreeSet<PathBuf> = files
        .iter()
        .filter(|file| !file.is_generator())
        .map(|file| {
            let (folder, name) = file.snapshot();
            folder.join(format!("{name}.snap"))
        })
        .collect();
    Trial::test("every_snapshot_has_a_scenario", move || {
        let root = top().join("snapshots");
        let snapshots = WalkDir::new(&root).into_iter().flatten().map(walkdir::DirEntry::into_path);
        let orphans: Vec<String> = snapshots
            .filter(|path| path.extension().is_some_and(|e| e == "snap"))
            .filter_map(|path| path.strip_prefix(&root).ok().map(Path::to_owned))
            .filter(|path| !known.contains(path))
            .map(|path| path.display().to_string())
            .collect();
        match orphans.is_empty() {
            true => Ok(()),
            false => Err(Failed::from(format!("snapshots without a scenario: {}", orphans.join(", ")))),
        }
    })
}
