//! `sim explore FILE`: every crash point of a scenario.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use sim::explore::{Bounds, Run, explore};
use sim::scenario::Profile;

/// Crashes a scenario at every point, recovers every image that power loss could have left there, and judges it.
#[derive(Debug, Args)]
pub struct Explore {
    /// Scenario files or directories of them.
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// What power loss may leave: strict, ordered, writeback or lying; the scenario's own by default.
    #[arg(long, value_parser = profile)]
    profile: Option<Profile>,
    /// The seed; the scenario's first by default.
    #[arg(long)]
    seed: Option<u64>,
    /// 1: crashes of the run. 2: crashes inside recovery too.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=2))]
    depth: u32,
    /// The most images of one crash point; where there are more, so many are drawn, and the report says so.
    #[arg(long, default_value_t = 256)]
    limit: u64,
    /// Threads; all cores by default.
    #[arg(long, default_value_t = 0)]
    threads: usize,
}

fn profile(name: &str) -> Result<Profile, String> {
    match name {
        "strict" => Ok(Profile::Strict),
        "ordered" => Ok(Profile::Ordered),
        "writeback" => Ok(Profile::Writeback),
        "lying" => Ok(Profile::Lying),
        _ => Err("strict, ordered, writeback or lying".into()),
    }
}

impl Explore {
    /// Exit code 0: all held. 1: a promise was broken. 2: the scenario is wrong. 4: the harness failed.
    pub fn run(&self) -> ExitCode {
        let mut worst = 0;
        for file in self.paths.iter().flat_map(|path| sim::suite::find(path)) {
            let scenario = match super::load(&file.path) {
                Ok(scenario) => scenario,
                Err(code) => return code,
            };
            let seed = self.seed.unwrap_or(scenario.seeds.start);
            let run = match Run::new(&scenario, seed, self.profile) {
                Ok(run) => run,
                Err(e) => {
                    eprintln!("{}: {e}", file.name);
                    worst = worst.max(4);
                    continue;
                }
            };
            let inner = u128::from(self.limit).min(Bounds::default().inner);
            let images = self.limit.into();
            let bounds =
                Bounds { images, inner, depth: self.depth, threads: self.threads, ..Bounds::default() };
            let report = explore(&run, bounds);
            println!("explore {} ({}, seed {seed})\n\n{report}", file.name, run.profile);
            if let Some(violation) = &report.first {
                worst = worst.max(1);
                println!("\nFAILED {violation}");
            }
            println!();
        }
        ExitCode::from(worst)
    }
}
