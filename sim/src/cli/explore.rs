//! `sim explore FILE`: every crash point of a scenario.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};

use sim::explore::{Explored, Plan, Violation, explore};
use sim::scenario::unfold;
use sim::trace;

/// How many events before a violation are shown.
const EVENTS: usize = 40;

/// Cuts the power at every point of a scenario, recovers each image that this could leave, and judges it.
#[derive(Debug, Args)]
pub struct Explore {
    /// The scenario's file.
    scenario: PathBuf,
    /// The seed; the scenario's first by default.
    #[arg(long)]
    seed: Option<u64>,
    /// What a power loss may leave; the scenario's own profile by default.
    #[arg(long)]
    profile: Option<Profile>,
    /// 1: one power loss. 2: and another one at each operation of the recovery.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=2))]
    depth: u32,
    /// The most images of one crash point; where there are more, so many are drawn.
    #[arg(long, default_value_t = 64)]
    limit: u64,
    /// The most images of one crash point within a recovery.
    #[arg(long, default_value_t = 2)]
    nested_limit: u64,
    /// Threads; as many as there are cores by default.
    #[arg(long)]
    jobs: Option<usize>,
}

/// What a power loss may leave.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Profile {
    /// POSIX and no more.
    Strict,
    /// Data before length, directory operations in order.
    Ordered,
    /// Length may be ahead of data.
    Writeback,
    /// The last syncs were lies.
    Lying,
}

impl From<Profile> for faults::Profile {
    fn from(profile: Profile) -> Self {
        match profile {
            Profile::Strict => Self::Strict,
            Profile::Ordered => Self::Ordered,
            Profile::Writeback => Self::Writeback,
            Profile::Lying => Self::Lying,
        }
    }
}

impl Explore {
    /// Exit code 0: all held. 1: a promise was broken. 2: the scenario is wrong. 4: the harness failed.
    #[allow(clippy::disallowed_methods)] // the figure is about the real machine
    pub fn run(&self) -> ExitCode {
        let scenario = match super::load(&self.scenario) {
            Ok(scenario) => scenario,
            Err(code) => return code,
        };
        let scenario = unfold(&scenario, self.seed.unwrap_or(scenario.seeds.start));
        let plan = Plan {
            profile: self.profile.map(Into::into),
            depth: self.depth,
            limit: self.limit.max(1),
            nested_limit: self.nested_limit.max(1),
            jobs: self.jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from)),
        };
        let started = Instant::now();
        match explore(&scenario, &plan) {
            Err(e) => {
                eprintln!("{e}");
                ExitCode::from(4)
            }
            Ok(explored) => {
                print_summary(&explored, started.elapsed());
                explored.violations.first().map_or(ExitCode::SUCCESS, |first| {
                    print_violation(first, explored.violations.len());
                    ExitCode::from(1)
                })
            }
        }
    }
}

fn print_summary(explored: &Explored, took: Duration) {
    let all = explored.recoveries + explored.nested;
    let rate = all as f64 / took.as_secs_f64().max(1e-9);
    let how = match explored.sampled {
        0 => "exhaustive".to_owned(),
        n => format!("sampled at {n} of {} crash points", explored.cuts),
    };
    println!("operations         {:>10}", explored.operations);
    println!("crash points       {:>10}", explored.cuts);
    println!("images             {:>10}   {how}", explored.images);
    println!("distinct           {:>10}", explored.distinct);
    println!("recoveries         {:>10}", explored.recoveries);
    println!("nested recoveries  {:>10}", explored.nested);
    println!("judged             {rate:>10.0}   a second, the scenario's own run included");
    println!("violations         {:>10}", explored.violations.len());
}

fn print_violation(violation: &Violation, of: usize) {
    println!("\nthe first of {of}: {}", violation.operation);
    print!("  after {} steps", violation.step);
    if let Some(bytes) = violation.inside {
        print!(" and {bytes} bytes of the next write");
    }
    println!(", image {}", violation.image);
    if let Some(operation) = violation.nested {
        println!("  and again after {operation} operations of the recovery");
    }
    println!("\n{}\n", violation.broken);
    print!("{}", trace::print::last(&violation.trace, violation.broken.entry, EVENTS));
}
