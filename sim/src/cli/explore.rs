//! `sim explore FILE`: every crash point of a scenario.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;

use super::bar::Bar;
use super::find::find;
use super::interrupt::{self, Interrupt};
use super::keep::keep;
use super::out::{complain, say};
use super::{duration, hurry, images, number};
use sim::explore::{Bounds, Report, Run, Violation, Whereabouts, explore_telling, locate, witness};
use sim::outcome::{self, Failure};
use sim::patience::{Watch, watch_for};
use sim::report::SIM;
use sim::scenario::Profile;
use sim::scenario::syntax::print;
use sim::source_line::SourceLine;
use sim::suite::ScenarioFile;

/// So many images of each crash point have to hold before a sync is said to mend them.
const LOCATE_IMAGES: u64 = 512;

/// Loses power at every point of a scenario, recovers every image that could be left there, and judges it.
#[derive(Debug, Args)]
pub struct Explore {
    /// Scenario files, or directories of them.
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// What a power loss may leave: strict, ordered, writeback or lying [default: the scenario's own].
    #[arg(long, value_parser = profile)]
    profile: Option<Profile>,
    /// The seed [default: the scenario's first].
    #[arg(long, value_parser = number::<u64>)]
    seed: Option<u64>,
    /// 1: crash the run. 2: crash the recoveries, too.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=2))]
    depth: u32,
    /// Images per crash point, at most; of more, so many are drawn at random, and the report says so.
    #[arg(long, default_value_t = 256, value_parser = images)]
    limit: u64,
    /// Threads; 0: one per core.
    #[arg(long, visible_alias = "jobs", default_value_t = 0, value_parser = super::threads)]
    threads: usize,
    /// Switch off one of the broker's syncs, as in broker/src/topic.rs:42, to see what notices.
    #[arg(long, value_name = "FILE:LINE")]
    without: Option<SourceLine>,
    /// How long the run that is explored may take, and the recovery of each image.
    #[arg(long, default_value = "60s", value_parser = duration)]
    patience: Duration,
    /// Say which missing sync explains the first violation.
    #[arg(long)]
    locate: bool,
    /// Where to write the scenario that shows the first violation again.
    #[arg(long, value_name = "DIR", default_value = "target/explore")]
    failures: PathBuf,
}

/// What many scenarios came to.
fn sums(explored: usize, broken: &[&str]) -> String {
    match broken {
        [] => format!("{explored} explored, none failed"),
        some => format!("{explored} explored, {} failed: {}", some.len(), some.join(", ")),
    }
}

fn profile(name: &str) -> Result<Profile, String> {
    name.parse().map_err(|_| "strict, ordered, writeback or lying".into())
}

impl Explore {
    /// Exit code 0: all held. 1: a promise was broken, or the run itself failed. 2: the scenario is wrong. 4: the harness failed,
    /// or what was found could not be kept. 130: it was interrupted, and all had held until then.
    pub fn run(&self) -> ExitCode {
        if let Err(code) = super::syncs(self.without.as_ref()) {
            return code;
        }
        let interrupt = Interrupt::watch().ok();
        let go_on = || interrupt.as_ref().map_or(ControlFlow::Continue(()), Interrupt::go_on);
        let mut codes = Vec::new();
        let files = match find(&self.paths) {
            Ok(files) => files,
            Err(code) => return code,
        };
        let (mut explored, mut broken, mut is_interrupted) = (0, Vec::new(), false);
        for file in &files {
            if go_on().is_break() {
                is_interrupted = true;
                break;
            }
            let Ok(scenario) = super::load(&file.path) else {
                codes.push(2);
                continue;
            };
            let seed = self.seed.unwrap_or(scenario.seeds.start);
            let watch = hurry(self.patience, &file.path, seed);
            let run = Run::new(&scenario, seed, self.profile);
            drop(watch);
            let run = match run {
                Ok(run) => run,
                Err(e) => {
                    complain!("{}: {e}", file.name);
                    codes.push(e.0.exit_code());
                    continue;
                }
            };
            let run = self.without.as_ref().map_or_else(|| run.clone(), |off| run.without(off));
            say!("explore {} ({}, seed {seed})\n", file.name, run.profile);
            // Before the exploration, which may take long.
            for failure in &run.failures {
                say!("FAILED without any crash of the explorer's\n{failure}\n");
            }
            codes.extend(run.failures.first().map(Failure::exit_code));
            let whereabouts = Arc::new(Whereabouts::default());
            let watch = self.hurry_images(file, seed, &whereabouts);
            let report = self.explored(file, &run, &whereabouts, &go_on);
            say!("{report}");
            is_interrupted |= report.is_interrupted;
            if !(run.failures.is_empty() && report.holds()) {
                broken.push(file.name.as_str());
            }
            if let Some(violation) = &report.first {
                codes.push(1);
                say!("\nFAILED {violation}");
                if !self.show(file, &run, violation, &whereabouts) {
                    codes.push(4);
                }
            }
            drop(watch);
            if let Some(panicked) = &report.panicked {
                complain!("FAILED  seed {seed} of {}: {panicked}", file.path.display());
                codes.push(4);
            }
            explored += 1;
            say!();
        }
        if files.len() > 1 {
            say!("{}", sums(explored, &broken));
        }
        if is_interrupted {
            codes.extend(codes.is_empty().then_some(interrupt::CODE));
        }
        ExitCode::from(outcome::worst(codes))
    }

    fn explored(
        &self,
        file: &ScenarioFile,
        run: &Run,
        whereabouts: &Whereabouts,
        go_on: &(dyn Fn() -> ControlFlow<()> + Sync),
    ) -> Report {
        let (images, inner) = (self.limit, self.limit.min(Bounds::default().inner));
        let threads = NonZeroUsize::new(self.threads);
        let bounds = Bounds { images, inner, depth: self.depth, threads, ..Bounds::default() };
        let bar = Bar::new(run.len as u64 + 1);
        bar.name(format!("crash points of {}", file.name));
        let report = explore_telling(run, bounds, whereabouts, &|| {
            bar.step();
            go_on()
        });
        bar.clear();
        report
    }

    /// Ends the program where the recovery of an image does not come to its end in time.
    fn hurry_images(&self, file: &ScenarioFile, seed: u64, whereabouts: &Arc<Whereabouts>) -> Watch {
        let (path, patience) = (file.path.display().to_string(), self.patience);
        let whereabouts = whereabouts.clone();
        watch_for(
            Whereabouts::every(patience),
            move || whereabouts.late(patience),
            move |crash| {
                let seconds = patience.as_secs();
                complain!(
                    "FAILED  seed {seed} of {path}: the recovery has not come to its end after {seconds} s; \
                 `--patience` waits longer\n{crash}"
                );
                std::process::exit(4);
            },
        )
    }

    /// What a violation needs to be seen again, and understood. Gives whether it could be kept in a file, where there is one.
    fn show(&self, file: &ScenarioFile, run: &Run, violation: &Violation, whereabouts: &Whereabouts) -> bool {
        let watch = hurry(self.patience, &file.path, run.scenario.seeds.start);
        let witness = witness(run, violation);
        drop(watch);
        let mut kept = true;
        match witness {
            None => say!("\nthe crash comes before the first step: no fault can be aimed at it"),
            Some(found) => {
                say!("\n{}", print(&found.scenario));
                match keep(&self.failures, &file.name, run.scenario.seeds.start, &found.scenario) {
                    Ok(path) => {
                        let off =
                            run.off.as_ref().map_or_else(String::new, |off| format!(" --without {off}"));
                        say!("see it again: {SIM} run {}{off}", path.display());
                    }
                    Err(why) => {
                        complain!("that scenario is not kept: {why}");
                        kept = false;
                    }
                }
                if !found.shows {
                    say!(
                        "the executor has not shown it with this scenario: the crash could not be placed as finely"
                    );
                }
            }
        }
        if self.locate {
            match locate(run, violation, self.limit.max(LOCATE_IMAGES), whereabouts) {
                Some(mend) => say!("\n{mend}"),
                None => say!("\nno single sync mends it"),
            }
        }
        kept
    }
}
