//! `sim check FILE…`: the mistakes in scenario files, without running them.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::find::find;
use super::out::say;

/// Shows all mistakes in scenario files, without running them
#[derive(Debug, Args)]
pub struct Check {
    /// Scenario files, or directories of them
    #[arg(default_value = "scenarios")]
    paths: Vec<PathBuf>,
}

impl Check {
    /// Exit code 0: all can be read. 2: one cannot, or there is none.
    pub fn run(&self) -> ExitCode {
        let files = match find(&self.paths) {
            Ok(files) => files,
            Err(code) => return code,
        };
        let (mut good, mut bad) = (0, 0);
        for file in files {
            match super::load(&file.path) {
                Ok(_) => good += 1,
                Err(_) => bad += 1,
            }
        }
        say!("{good} without mistakes, {bad} with mistakes");
        ExitCode::from(if bad == 0 { 0 } else { 2 })
    }
}
