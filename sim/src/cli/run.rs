//! `sim run [PATH…]`: scenarios, executed and judged; one line each, a table, and what a failure needs to be understood.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};

use super::find::find;
use super::out::say;
use super::{duration, hurry, number};
use sim::outcome::{Outcome, worst};
use sim::report;
use sim::scenario::Seeds;
use sim::snapshot;
use sim::source_line::SourceLine;
use sim::suite::{self, ScenarioFile};

/// Runs scenarios.
#[derive(Debug, Args)]
pub struct Run {
    /// Scenario files, or directories of them.
    #[arg(default_value = "scenarios")]
    paths: Vec<PathBuf>,
    /// Run only this seed, instead of those that the scenario names.
    #[arg(long, value_parser = number::<u64>)]
    seed: Option<u64>,
    /// Switch off one of the broker's syncs, as in broker/src/topic.rs:42.
    #[arg(long, value_name = "FILE:LINE")]
    without: Option<SourceLine>,
    /// How long a single run may take.
    #[arg(long, default_value = "60s", value_parser = duration)]
    patience: Duration,
    /// Show each step with what came of it: as its snapshot does, and also what timing decided.
    #[arg(long, short)]
    verbose: bool,
}

#[derive(Default)]
struct Sums {
    scenarios: usize,
    runs: u64,
    failed: usize,
    simulated_ms: u64,
    worst: u8,
}

impl Run {
    /// Exit code 0: all held. 1: a promise was broken. 2: a scenario is wrong. 4: the harness failed.
    #[allow(clippy::disallowed_methods)] // how long it took is told to a person, and nothing depends on it
    pub fn run(&self) -> ExitCode {
        if let Err(code) = super::syncs(self.without.as_ref()) {
            return code;
        }
        let files = match find(&self.paths) {
            Ok(files) => files,
            Err(code) => return code,
        };
        let began = Instant::now();
        let bar = progress(files.len() as u64);
        let mut sums = Sums::default();
        let mut after_block = false;
        for file in &files {
            bar.set_message(file.name.clone());
            let line = self.one(file, &mut sums);
            // What has several lines stands between empty ones.
            after_block = line.contains('\n');
            bar.suspend(|| say!("{}{}", line.trim_end(), if after_block { "\n" } else { "" }));
            bar.inc(1);
        }
        bar.finish_and_clear();
        if !after_block {
            say!();
        }
        sums.print(began.elapsed());
        ExitCode::from(sums.worst)
    }

    fn one(&self, file: &ScenarioFile, sums: &mut Sums) -> String {
        sums.scenarios += 1;
        let mut scenario = match suite::load(&file.path) {
            Ok(scenario) => scenario,
            Err(e) => {
                sums.fail(2);
                return match e {
                    suite::LoadError::Mistakes(mistakes) => {
                        format!("WRONG   {}\n\n{}", file.name, mistakes.shown())
                    }
                    other => format!("WRONG   {other}"),
                };
            }
        };
        if let Some(seed) = self.seed {
            scenario.seeds = Seeds::one(seed);
        }
        let watch = |seed| hurry(self.patience, &file.path, seed);
        let ran = suite::run_seeds_watched(&scenario, self.without.as_slice(), watch);
        sums.runs += ran.seeds;
        sums.simulated_ms += ran.simulated_ms;
        let mut text = match &ran.failed {
            None if ran.seeds > 1 => format!("ok      {} ({} seeds)", file.name, ran.seeds),
            None => format!("ok      {}", file.name),
            Some(outcome) => {
                sums.fail(outcome.exit_code());
                self.failed(file, outcome)
            }
        };
        if self.verbose {
            let shown = ran.failed.as_ref().unwrap_or(&ran.first);
            text += &format!("\n\n{}", snapshot::render_facts(shown));
            if scenario.seeds.count() > 1 {
                let (seed, seeds) = (shown.seed(), scenario.seeds);
                text +=
                    &format!("this is seed {seed} of {}..{}; another: --seed N\n", seeds.start, seeds.end);
            }
        }
        text
    }

    /// What a failure needs to be understood, and seen again.
    fn failed(&self, file: &ScenarioFile, outcome: &Outcome) -> String {
        let seed = outcome.seed();
        format!(
            "FAILED  {} with seed {seed}\n{}\n  see it again: {}\n",
            file.name,
            report::explained(outcome, self.verbose),
            report::replay(&file.path, seed, self.without.as_slice())
        )
    }
}

/// On a terminal only.
fn progress(len: u64) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {wide_msg}");
    ProgressBar::new(len).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

impl Sums {
    fn fail(&mut self, code: u8) {
        self.failed += 1;
        self.worst = worst([self.worst, code]);
    }

    fn print(&self, took: Duration) {
        say!("scenarios        {:>10}", self.scenarios);
        say!("runs             {:>10}", self.runs);
        say!("failed           {:>10}", self.failed);
        say!("simulated time   {:>10.1} s", self.simulated_ms as f64 / 1e3);
        say!("real time        {:>10.1} s", took.as_secs_f64());
    }
}
