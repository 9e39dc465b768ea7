//! The scenario files of a directory: found, read, run over their seeds, shown.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use walkdir::WalkDir;

use crate::outcome::{Outcome, run_without};
use crate::scenario::Scenario;
use crate::scenario::syntax::{Mistakes, parse};
use crate::snapshot;
use crate::source_line::SourceLine;
use crate::trace::Millis;

/// The folder whose scenarios draw their steps: they have no snapshot, and run in a test only where they name seeds.
const GENERATORS: &str = "generators";

/// A scenario file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ScenarioFile {
    /// Where it lies.
    pub path: PathBuf,
    /// Its name as a test: its path below the directory, as in `recovery::torn_tail_is_cut`.
    pub name: String,
}

impl ScenarioFile {
    /// Whether its steps are drawn anew from each seed.
    pub fn is_generator(&self) -> bool {
        self.name.split("::").any(|part| part == GENERATORS)
    }

    /// Folder and name of its snapshot, below the directory of snapshots.
    pub fn snapshot(&self) -> (PathBuf, String) {
        let mut parts: Vec<&str> = self.name.split("::").collect();
        let name = parts.pop().unwrap_or_default().to_owned();
        (parts.iter().collect(), name)
    }
}

/// Why a file could not be read.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The system said no.
    #[error("{}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// It is not text.
    #[error("{}:{line}: byte {byte} of this line, {value:#04x}, is not UTF-8", .path.display())]
    NotText {
        /// The file.
        path: PathBuf,
        /// The line of the first byte that is none of a text's, from 1.
        line: usize,
        /// Its place in the line, from 1.
        byte: usize,
        /// The byte.
        value: u8,
    },
    /// It is not a scenario.
    #[error(transparent)]
    Mistakes(#[from] Mistakes),
}

/// All scenario files under a file or directory, by name. A directory that cannot be read is an error: there may be some in it.
pub fn find(root: &Path) -> Result<Vec<ScenarioFile>, LoadError> {
    let mut found = Vec::new();
    for entry in WalkDir::new(root) {
        let entry = entry.map_err(|e| unreadable(root, e))?;
        if entry.path().extension().is_some_and(|ending| ending == "kdl") {
            found.push(named(root, entry.path()));
        }
    }
    found.sort();
    Ok(found)
}

fn unreadable(root: &Path, e: walkdir::Error) -> LoadError {
    let path = e.path().unwrap_or(root).to_owned();
    // The error itself, where there is one: around it, the path is said once more.
    let looped = e.to_string();
    LoadError::Io { path, source: e.into_io_error().unwrap_or_else(|| std::io::Error::other(looped)) }
}

fn named(root: &Path, path: &Path) -> ScenarioFile {
    let below = after_scenarios(path).or_else(|| Some(path.strip_prefix(root).ok()?.to_path_buf()));
    let below = below.filter(|p| !p.as_os_str().is_empty());
    let below = below.or_else(|| path.file_name().map(PathBuf::from)).unwrap_or_default().with_extension("");
    let parts: Vec<String> = below.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    ScenarioFile { path: path.to_owned(), name: parts.join("::") }
}

/// A file is named by its place below the nearest `scenarios` directory, where there is one: its test has the same name,
/// whichever part of the library somebody looks at.
fn after_scenarios(path: &Path) -> Option<PathBuf> {
    let parts: Vec<_> = path.iter().collect();
    let at = parts.iter().rposition(|part| *part == "scenarios")?;
    Some(parts[at + 1..].iter().collect())
}

/// Reads a scenario file.
pub fn load(path: &Path) -> Result<Scenario, LoadError> {
    let bytes = std::fs::read(path).map_err(|source| LoadError::Io { path: path.to_owned(), source })?;
    let text =
        String::from_utf8(bytes).map_err(|e| not_text(path, e.as_bytes(), e.utf8_error().valid_up_to()))?;
    Ok(parse(&path.display().to_string(), &text)?)
}

/// The byte at `at` is none of a text's.
fn not_text(path: &Path, bytes: &[u8], at: usize) -> LoadError {
    let before = bytes.get(..at).unwrap_or(bytes);
    let line_start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |i| i + 1);
    LoadError::NotText {
        path: path.to_owned(),
        line: 1 + before.iter().filter(|byte| **byte == b'\n').count(),
        byte: 1 + at - line_start,
        value: bytes.get(at).copied().unwrap_or_default(),
    }
}

/// A scenario, run with all its seeds up to the first that fails.
#[derive(Clone, Debug)]
pub struct Ran {
    /// The run with its first seed: the one that its snapshot shows.
    pub first: Outcome,
    /// The run that failed, where one did.
    pub failed: Option<Outcome>,
    /// How many seeds were run.
    pub seeds: u64,
    /// How much simulated time went by in all of them, in milliseconds.
    pub simulated_ms: Millis,
    /// The places in the broker that synced in any of them.
    pub syncs: BTreeSet<faults::Site>,
}

impl Ran {
    /// What its snapshot says.
    pub fn snapshot(&self, scenario: &Scenario) -> String {
        let mut text = snapshot::render(&self.first);
        let seeds = scenario.seeds;
        if seeds.count() > 1 {
            let how = if self.failed.is_none() { "all hold" } else { "not all hold" };
            text += &format!("seeds {}..{}: {how}\n", seeds.start, seeds.end);
        }
        text
    }
}

/// Runs a scenario with all its seeds, up to the first that fails.
pub fn run_seeds(scenario: &Scenario) -> Ran {
    run_seeds_without(scenario, &[])
}

/// As [`run_seeds`], on a broker in which these places do not sync.
pub fn run_seeds_without(scenario: &Scenario, off: &[SourceLine]) -> Ran {
    run_seeds_watched(scenario, off, |_| ())
}

/// As [`run_seeds_without`]; what `watch` gives for a seed is there for as long as its run lasts.
pub fn run_seeds_watched<W>(scenario: &Scenario, off: &[SourceLine], watch: impl Fn(u64) -> W) -> Ran {
    let run = |scenario: &Scenario, seed| {
        let _watch = watch(seed);
        run_without(scenario, seed, off)
    };
    let mut seeds = scenario.seeds.iter();
    let first = run(scenario, seeds.next().unwrap_or(0));
    let syncs = first.syncs.iter().copied().collect();
    let simulated_ms = first.trace.duration();
    let mut ran =
        Ran { failed: (!first.holds()).then(|| first.clone()), first, seeds: 1, simulated_ms, syncs };
    for seed in seeds {
        if ran.failed.is_some() {
            break;
        }
        let outcome = run(scenario, seed);
        ran.seeds += 1;
        ran.simulated_ms += outcome.trace.duration();
        ran.syncs.extend(&outcome.syncs);
        ran.failed = (!outcome.holds()).then_some(outcome);
    }
    ran
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_each_seed_is_counted() {
        let text = "scenario \"t\" seeds=\"0..3\"\neach net latency=\"0ms | 100ms | 200ms\"\ntopic orders\n";
        let ran = run_seeds(&parse("t.kdl", text).expect("it can be read"));
        assert!(ran.failed.is_none());
        assert!(ran.simulated_ms > ran.first.trace.duration() + 600, "{}", ran.simulated_ms);
    }

    #[test]
    fn what_cannot_be_looked_into_is_no_empty_directory() {
        let gone = find(Path::new("no/such/directory"));
        assert!(matches!(&gone, Err(LoadError::Io { path, .. }) if path.ends_with("directory")), "{gone:?}");
    }
}
