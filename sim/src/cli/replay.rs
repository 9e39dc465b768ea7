//! `sim replay SCENARIO --seed S`: one run again, in full, with the hash that says that it is the same one.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;

use super::out::{complain, say, say_on};
use super::{duration, hurry, number};
use sim::outcome::{Outcome, run_without};
use sim::scenario::syntax::print;
use sim::source_line::SourceLine;
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
    without: Option<SourceLine>,
    /// How long the run may take.
    #[arg(long, default_value = "60s", value_parser = duration)]
    patience: Duration,
    /// Show every event, instead of each step with its outcome.
    #[arg(long)]
    trace: bool,
    /// Print the scenario itself, with all that the seed chose written out, and everything else to standard error.
    #[arg(long)]
    print: bool,
}

impl Replay {
    /// Exit code 0: all held. 1: a promise was broken. 2: the scenario is wrong. 4: the harness failed, or the run
    /// does not come to its end.
    pub fn run(&self) -> ExitCode {
        if let Err(code) = super::syncs(self.without.as_ref()) {
            return code;
        }
        let scenario = match super::load(&self.scenario) {
            Ok(scenario) => scenario,
            Err(code) => return code,
        };
        let seed = self.seed.unwrap_or(scenario.seeds.start);
        let watch = hurry(self.patience, &self.scenario, seed);
        let outcome = run_without(&scenario, seed, self.without.as_slice());
        drop(watch);
        let report = self.report(&outcome);
        if self.print {
            // Whoever keeps the scenario in a file wants nothing else in it.
            say_on!("{}", print(&outcome.scenario));
            complain!("{report}");
        } else {
            say!("{report}");
        }
        ExitCode::from(outcome.exit_code())
    }

    /// What came of the run.
    fn report(&self, outcome: &Outcome) -> String {
        let mut text = match (self.trace, self.print) {
            (true, _) => trace::print::all(&outcome.trace),
            (false, false) => snapshot::render_facts(outcome),
            (false, true) => String::new(),
        };
        if !outcome.holds() {
            text += &format!("\nFAILED\n{}", report::explained(outcome, true));
        }
        text + &format!("\nseed {}  hash {:016x}", outcome.seed(), outcome.trace.hash())
    }
}
