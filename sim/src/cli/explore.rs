//! `sim explore FILE`: every crash point of a scenario.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::out::say;
use sim::explore::{Bounds, Run, Violation, explore, locate, witness};
use sim::place::Place;
use sim::report::SIM;
use sim::scenario::Profile;
use sim::scenario::syntax::print;
use sim::suite::ScenarioFile;

/// So many images of each crash point have to hold before a sync is said to mend them.
const LOCATE_IMAGES: u64 = 512;

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
    /// Switch off one of the broker's syncs, as in broker/src/topic.rs:42: does anything notice?
    #[arg(long, value_name = "FILE:LINE")]
    without: Option<Place>,
    /// Of the first violation, say where a sync is missing.
    #[arg(long)]
    locate: bool,
    /// Where the scenario that shows the first violation again is written.
    #[arg(long, value_name = "DIR", default_value = "target/explore")]
    failures: PathBuf,
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
            let run = self.without.as_ref().map_or_else(|| run.clone(), |off| run.without(off));
            let (images, inner) = (self.limit, self.limit.min(Bounds::default().inner));
            let bounds =
                Bounds { images, inner, depth: self.depth, threads: self.threads, ..Bounds::default() };
            let report = explore(&run, bounds);
            say!("explore {} ({}, seed {seed})\n\n{report}", file.name, run.profile);
            if let Some(violation) = &report.first {
                worst = worst.max(1);
                say!("\nFAILED {violation}");
                self.show(&file, &run, violation);
            }
            say!();
        }
        ExitCode::from(worst)
    }

    /// What a violation needs to be seen again, and understood.
    fn show(&self, file: &ScenarioFile, run: &Run, violation: &Violation) {
        match witness(run, violation) {
            None => say!("\nthe crash comes before the first step: no fault can be aimed at it"),
            Some(found) => {
                let text = print(&found.scenario);
                say!("\n{text}");
                let name = file.name.replace("::", "-");
                let path = self.failures.join(format!("{name}-{}.kdl", run.scenario.seeds.start));
                let written =
                    std::fs::create_dir_all(&self.failures).and_then(|()| std::fs::write(&path, text));
                let path = path.display();
                if let Err(e) = written {
                    say!("{path}: {e}");
                }
                let off = run.off.as_ref().map_or_else(String::new, |off| format!(" --without {off}"));
                say!("see it again: {SIM} run {path}{off}");
                if !found.shows {
                    say!(
                        "the executor has not shown it with this scenario: the crash could not be placed as finely"
                    );
                }
            }
        }
        if self.locate {
            match locate(run, violation, self.limit.max(LOCATE_IMAGES)) {
                Some(mend) => say!("\n{mend}"),
                None => say!("\nno single sync mends it"),
            }
        }
    }
}
