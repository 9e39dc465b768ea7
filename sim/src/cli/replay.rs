//! `sim replay SCENARIO --seed S`: one run again, in full, with the hash that says that it is the same one.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::number;
use super::out::{say, say_on};
use sim::outcome::run_without;
use sim::place::Place;
use sim::scenario::syntax::print;
use sim::{report, snapshot, trace};

/// Runs one scenario with one seed again, and shows the outcome.
#[derive(Debug, Args)]
pub struct Replay {
    /// The scenario's file.
    scenario: PathBuf,
    /// The seed [default: the scenario's first].
    #[arg(long, value_parser = number::<u64>)]
    seed: Option<u64>,
    /// Switch off one of the broker's syncs, as in broker/src/topic.rs:42.
    #[arg(long, value_name = "FILE:LINE")]
    without: Option<Place>,
    /// Show every event, instead of each step with its outcome.
    #[arg(long)]
    trace: bool,
    /// Print the scenario itself, with all that the seed chose written out.
    #[arg(long)]
    print: bool,
}

impl Replay {
    /// Exit code 0: all held. 1: a promise was broken. 2: the scenario is wrong. 4: the harness failed.
    pub fn run(&self) -> ExitCode {
        if let Err(code) = super::syncs(self.without.as_ref()) {
            return code;
        }
        let scenario = match super::load(&self.scenario) {
            Ok(scenario) => scenario,
            Err(code) => return code,
        };
        let seed = self.seed.unwrap_or(scenario.seeds.start);
        let outcome = run_without(&scenario, seed, self.without.as_slice());
        if self.print {
            say!("{}", print(&outcome.scenario));
        }
        match self.trace {
            true => say_on!("{}", trace::print::all(&outcome.trace)),
            false if !self.print => say_on!("{}", snapshot::render_facts(&outcome)),
            false => {}
        }
        if !outcome.holds() {
            say_on!("\nFAILED\n{}", report::explained(&outcome, true));
        }
        say!("\nseed {}  hash {:016x}", outcome.seed(), outcome.trace.hash());
        ExitCode::from(outcome.exit_code())
    }
}
