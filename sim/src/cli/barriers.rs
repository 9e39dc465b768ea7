//! `sim barriers`: which of the broker's syncs carry load.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use sim::barriers::{Barrier, barriers};
use sim::explore::{Bounds, Run};

/// Switches off each place in the broker that syncs, and visits the crash points of the scenarios that say `explore`.
#[derive(Debug, Args)]
pub struct Barriers {
    /// Scenario files or directories of them; of these, those that say `explore`.
    #[arg(default_value = "scenarios")]
    paths: Vec<PathBuf>,
    /// The most images of one crash point.
    #[arg(long, default_value_t = 32)]
    limit: u64,
}

impl Barriers {
    /// Exit code 0: some scenario notices each. 1: one is noticed by none, or reached by none. 2: a scenario is wrong.
    pub fn run(&self) -> ExitCode {
        let mut runs = Vec::new();
        for file in self.paths.iter().flat_map(|path| sim::suite::find(path)) {
            let scenario = match super::load(&file.path) {
                Ok(scenario) => scenario,
                Err(code) => return code,
            };
            if !scenario.explore {
                continue;
            }
            match Run::new(&scenario, scenario.seeds.start, None) {
                Ok(run) => runs.push((file.name, run)),
                Err(e) => {
                    eprintln!("{}: {e}", file.name);
                    return ExitCode::from(4);
                }
            }
        }
        let bounds = Bounds { images: self.limit.into(), inner: 4, threads: 0, ..Bounds::default() };
        println!("{:<40} {:>5} {:>8}  first noticed by", "barrier", "runs", "notice");
        let table = barriers(&runs, bounds, &mut |barrier| println!("{}", line(barrier)));
        for (name, what) in &table.broken {
            println!("{name}: breaks {what} with every sync in place: left out");
        }
        for place in &table.unreached {
            println!("{place:<40} no scenario that says `explore` reaches it");
        }
        println!(
            "\n{} barriers, all noticed: {}",
            table.barriers.len() + table.unreached.len(),
            table.holds()
        );
        ExitCode::from(u8::from(!table.holds()))
    }
}

fn line(barrier: &Barrier) -> String {
    let Barrier { place, runs, noticed } = barrier;
    let first = noticed.first().map_or_else(|| "NOBODY".to_owned(), |(name, what)| format!("{name}: {what}"));
    format!("{place:<40} {runs:>5} {:>8}  {first}", noticed.len())
}
