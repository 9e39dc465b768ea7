//! `sim`: scenarios from the command line.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod cli;

/// Runs the broker in a simulated world, and says whether it kept its promises.
#[derive(Debug, Parser)]
#[command(name = "sim", version, about, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(cli::run::Run),
    List(cli::list::List),
    Check(cli::check::Check),
    New(cli::new::New),
    Sweep(cli::sweep::Sweep),
    Merge(cli::merge::Merge),
    Replay(cli::replay::Replay),
    Shrink(cli::shrink::Shrink),
    Explore(cli::explore::Explore),
    Barriers(cli::barriers::Barriers),
    #[command(hide = true)]
    Again(cli::again::Again),
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Run(run) => run.run(),
        Command::List(list) => list.run(),
        Command::Check(check) => check.run(),
        Command::New(new) => new.run(),
        Command::Sweep(sweep) => sweep.run(),
        Command::Merge(merge) => merge.run(),
        Command::Replay(replay) => replay.run(),
        Command::Shrink(shrink) => shrink.run(),
        Command::Explore(explore) => explore.run(),
        Command::Barriers(barriers) => barriers.run(),
        Command::Again(again) => again.run(),
    }
}
