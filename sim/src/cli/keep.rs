//! Scenarios that a command keeps in a directory, for whoever looks into what it found.

use std::fs;
use std::path::{Path, PathBuf};

use sim::scenario::Scenario;
use sim::scenario::syntax::print;

/// Writes a failing scenario into a directory, which is made where it is missing. Gives its path, or why it is not there: what was
/// found is told all the same, and that it was not kept is told beside it.
pub fn keep(dir: &Path, name: &str, seed: u64, scenario: &Scenario) -> Result<PathBuf, String> {
    let path = dir.join(format!("{}-{seed}.kdl", name.replace("::", "-")));
    let written = fs::create_dir_all(dir).and_then(|()| fs::write(&path, print(scenario)));
    match written {
        Ok(()) => Ok(path),
        Err(e) => Err(format!("{}: {e}", path.display())),
    }
}
