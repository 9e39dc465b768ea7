//! `sim check FILE…`: what is wrong with scenario files, without running them.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::out::say;
use sim::suite;

/// Reads scenario files and shows all their mistakes, without running them
#[derive(Debug, Args)]
pub struct Check {
    /// Scenario files or directories of them
    #[arg(default_value = "scenarios")]
    paths: Vec<PathBuf>,
}

impl Check {
    /// Exit code 0: all can be read. 2: one cannot, or there is none.
    pub fn run(&self) -> ExitCode {
        let (mut good, mut bad) = (0, 0);
        for path in &self.paths {
            let files = suite::find(path);
            if files.is_empty() {
                eprintln!("no scenario (*.kdl) under {}", path.display());
                bad += 1;
            }
            for file in files {
                match super::load(&file.path) {
                    Ok(_) => good += 1,
                    Err(_) => bad += 1,
                }
            }
        }
        say!("{good} can be read, {bad} cannot");
        ExitCode::from(if bad == 0 { 0 } else { 2 })
    }
}
