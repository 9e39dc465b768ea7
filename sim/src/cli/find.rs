//! The scenario files that a command line names.

use std::path::PathBuf;
use std::process::ExitCode;

use super::out::complain;
use sim::suite::{self, ScenarioFile};

/// All scenarios under these paths. One that names none is an error, which has been said: to pass over it in silence
/// would be to call it good.
pub fn find(paths: &[PathBuf]) -> Result<Vec<ScenarioFile>, ExitCode> {
    let mut files = Vec::new();
    let mut complete = true;
    for path in paths {
        let found = match suite::find(path) {
            Ok(found) => found,
            Err(e) => {
                complain!("{e}");
                complete = false;
                continue;
            }
        };
        if found.is_empty() {
            complete = false;
            match path.metadata() {
                Err(e) => complain!("{}: {e}", path.display()),
                Ok(found) if found.is_dir() => complain!("{}: no scenario (*.kdl) here", path.display()),
                Ok(_) => complain!("{}: not a scenario: its name does not end with .kdl", path.display()),
            }
        }
        files.extend(found);
    }
    if complete { Ok(files) } else { Err(ExitCode::from(2)) }
}
