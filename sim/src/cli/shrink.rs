//! `sim shrink FILE --seed S -o small.kdl`: a failing scenario, made as small as it gets.

use std::fs::OpenOptions;
use std::io::{self, IsTerminal};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use indicatif::ProgressBar;

use super::interrupt::{self, Interrupt};
use super::out::{complain, say_on};
use super::{duration, number};
use sim::report::SIM;
use sim::scenario::Scenario;
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
    /// Where to write the result, `-` for standard output [default: standard output].
    #[arg(long = "out", short, visible_alias = "output", value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Shrink {
    /// Exit code 0: it is as small as it gets. 2: the scenario is wrong, or nothing fails. 4: a run does not come to its end, so
    /// that it may not be, or the result cannot be written. 130: it was interrupted, and what was found by then is written.
    #[allow(clippy::disallowed_methods)] // how long it took is told to a person, and nothing depends on it
    pub fn run(&self) -> ExitCode {
        let scenario = match super::load(&self.scenario) {
            Ok(scenario) => scenario,
            Err(code) => return code,
        };
        // A search may take long: that its result would have nowhere to go is better known before.
        if let Some(Err(e)) = self.file().map(try_out) {
            complain!("{}: {e}", self.file().unwrap_or(Path::new("")).display());
            return ExitCode::from(4);
        }
        let began = Instant::now();
        // Where it cannot be had, a signal ends the program as it does any other.
        let interrupt = Interrupt::watch().ok();
        let bar =
            if std::io::stderr().is_terminal() { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
        let seed = self.seed.unwrap_or(scenario.seeds.start);
        let shrunk = shrink(&scenario, seed, self.patience, |tries, steps| {
            bar.set_message(format!("{steps} steps left after {tries} tries"));
            bar.tick();
            interrupt.as_ref().map_or(ControlFlow::Continue(()), Interrupt::go_on)
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
        let mut written = match self.file() {
            None => {
                say_on!("{}", print(&shrunk.scenario));
                true
            }
            Some(output) => write(&shrunk.scenario, output, &format!("see it: {SIM} replay")),
        };
        if let Some(why) = &shrunk.hangs {
            self.beside(why);
            written = false;
        }
        if shrunk.is_interrupted {
            complain!("\ninterrupted: it may become smaller still");
        }
        match (written, shrunk.is_interrupted) {
            (false, _) => ExitCode::from(4),
            (true, true) => ExitCode::from(interrupt::CODE),
            (true, false) => ExitCode::SUCCESS,
        }
    }

    /// Where to write to, but for standard output.
    fn file(&self) -> Option<&Path> {
        self.output.as_deref().filter(|file| *file != Path::new("-"))
    }

    /// A smaller scenario that hangs is another failure than the one that was looked for: it is written beside that.
    fn beside(&self, why: &NotShrunk) {
        complain!("\n{why}");
        let NotShrunk::Hangs { scenario, .. } = why else { return };
        match self.file() {
            None => complain!("\n  with `-o` that run is written to a file, too"),
            Some(output) => {
                let stem = output.file_stem().unwrap_or_default().to_string_lossy();
                write(scenario, &output.with_file_name(format!("{stem}-hangs.kdl")), "the run that hangs:");
            }
        }
    }

    /// Says why; a scenario that hangs itself is written in the place of a smaller one.
    fn not_shrunk(&self, why: &NotShrunk) -> ExitCode {
        complain!("{why}");
        match why {
            NotShrunk::NothingFails { .. } => ExitCode::from(2),
            NotShrunk::NoThread(_) => ExitCode::from(4),
            NotShrunk::Hangs { scenario, .. } => {
                match self.file() {
                    None => say_on!("{}", print(scenario)),
                    Some(output) => _ = write(scenario, output, "the run that hangs:"),
                }
                ExitCode::from(4)
            }
        }
    }
}

/// Whether a file can be written, which is left as it is.
fn try_out(path: &Path) -> io::Result<()> {
    let is_new = !path.exists();
    OpenOptions::new().append(true).create(true).open(path)?;
    if is_new { std::fs::remove_file(path) } else { Ok(()) }
}

/// Whether it could be written, which is said. Where it could not, that and why is said, and it goes to standard output: it may have
/// taken long to find.
fn write(scenario: &Scenario, to: &Path, said: &str) -> bool {
    let text = print(scenario);
    match std::fs::write(to, &text) {
        Ok(()) => {
            complain!("\n  {said} {}", to.display());
            true
        }
        Err(e) => {
            complain!("\n{}: {e}", to.display());
            say_on!("{text}");
            false
        }
    }
}
