//! `sim`: scenarios from the command line.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod cli {
    pub mod run;
}

/// Runs the broker in a simulated world, and says whether it kept its promises.
#[derive(Debug, Parser)]
#[command(name = "sim", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(cli::run::Run),
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Run(run) => run.run(),
    }
}
