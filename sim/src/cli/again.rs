//! `sim again FILE`: the other process of `sim sweep --double-check`. Not for people.

use std::io::{stdin, stdout};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::interrupt::Interrupt;
use super::out::complain;
use sim::sweep::again;

/// Runs the seeds that another process asks for, and answers with hashes.
#[derive(Debug, Args)]
pub struct Again {
    file: PathBuf,
}

impl Again {
    /// Exit code 0, or 4 where the other side cannot be understood.
    pub fn run(&self) -> ExitCode {
        // Ctrl-C reaches it, too; the one that asks says when it is over.
        let _ = Interrupt::watch();
        let scenario = match super::load(&self.file) {
            Ok(scenario) => scenario,
            Err(code) => return code,
        };
        match again::serve(&scenario, stdin().lock(), stdout().lock()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(e) => {
                complain!("{e}");
                ExitCode::from(4)
            }
        }
    }
}
