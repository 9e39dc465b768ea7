//! `sim shrink FILE --seed S -o small.kdl`: a failing scenario, made as small as it gets.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use indicatif::ProgressBar;

use super::out::{complain, say_on};
use super::{duration, number};
use sim::report::SIM;
use sim::scenario::syntax::print;
use sim::shrink::{NotShrunk, shrink};

/// Makes a failing scenario smaller, as long as it fails in the same way.
#[derive(Debug, Args)]
pub struct Shrink {
    /// The scenario's file.
    scenario: PathBuf,
    /// The seed that fails [default: the scenario's first].
    #[arg(long, value_parser = number::<u64>)]
    seed: Option<u64>,
    /// How long a single run may take.
    #[arg(long, default_value = "60s", value_parser = duration)]
    patience: Duration,
    /// Where to write the result [default: standard output].
    #[arg(long = "out", short, visible_alias = "output", value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Shrink {
    /// Exit code 0: it is smaller. 2: the scenario is wrong, or nothing fails. 4: a run does not come to its end, or the result
    /// cannot be written.
    #[allow(clippy::disallowed_methods)] // how long it took is told to a person, and nothing depends on it
    pub fn run(&self) -> ExitCode {
        let scenario = match super::load(&self.scenario) {
            Ok(scenario) => scenario,
            Err(code) => return code,
        };
        let began = Instant::now();
        let bar =
            if std::io::stderr().is_terminal() { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
        let seed = self.seed.unwrap_or(scenario.seeds.start);
        let shrunk = shrink(&scenario, seed, self.patience, |tries, steps| {
            bar.set_message(format!("{steps} steps left after {tries} tries"));
            bar.tick();
        });
        bar.finish_and_clear();
        let shrunk = match shrunk {
            Ok(shrunk) => shrunk,
            Err(why) => return self.not_shrunk(&why),
        };
        for failure in shrunk.outcome.failures.iter().take(1) {
            complain!("{failure}\n");
        }
        complain!("steps          {:>10} before", shrunk.before);
        complain!("steps          {:>10} now", shrunk.after);
        complain!("tries          {:>10}", shrunk.tries);
        complain!("took           {:>10.1} s", began.elapsed().as_secs_f64());
        let text = print(&shrunk.scenario);
        let Some(output) = &self.output else {
            say_on!("{text}");
            return ExitCode::SUCCESS;
        };
        match std::fs::write(output, text) {
            Ok(()) => {
                complain!("\n  see it: {SIM} replay {}", output.display());
                ExitCode::SUCCESS
            }
            Err(e) => {
                complain!("{}: {e}", output.display());
                ExitCode::from(4)
            }
        }
    }

    /// Says why; a scenario that hangs is worth as much as a smaller one, and is written in its place.
    fn not_shrunk(&self, why: &NotShrunk) -> ExitCode {
        complain!("{why}");
        match why {
            NotShrunk::NothingFails { .. } => ExitCode::from(2),
            NotShrunk::NoThread(_) => ExitCode::from(4),
            NotShrunk::Hangs { scenario, .. } => {
                let text = print(scenario);
                match &self.output {
                    None => say_on!("{text}"),
                    Some(output) => match std::fs::write(output, text) {
                        Ok(()) => complain!("\n  the run that hangs: {}", output.display()),
                        Err(e) => complain!("{}: {e}", output.display()),
                    },
                }
                ExitCode::from(4)
            }
        }
    }
}
