//! `sim barriers`: which of the broker's syncs carry load.

use std::io::IsTerminal;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use indicatif::ProgressBar;

use super::find::find;
use super::interrupt::{self, Interrupt};
use super::out::{complain, say};
use super::{duration, hurry, images};
use sim::barriers::{Barrier, Effort, Hung, Subject, Table, barriers};
use sim::explore::Bounds;

/// Switches off each of the broker's syncs in turn, and says which scenarios notice.
///
/// Each place in the broker that syncs a file or a directory is switched off alone; the scenarios that reach it are run again,
/// and those that say `explore` are explored again. A sync that nothing notices is either not needed or not tested. To try one
/// with one scenario: sim run --without FILE:LINE, sim explore --without FILE:LINE.
#[derive(Debug, Args)]
pub struct Barriers {
    /// Scenario files, or directories of them.
    #[arg(default_value = "scenarios")]
    paths: Vec<PathBuf>,
    /// Images per crash point, at most.
    #[arg(long, default_value_t = 32, value_parser = images)]
    limit: u64,
    /// Try all scenarios for each place, not just until one notices.
    #[arg(long)]
    all: bool,
    /// Use only the scenarios that say `explore`.
    #[arg(long)]
    only_explore: bool,
    /// Threads; 0: one per core.
    #[arg(long, visible_alias = "jobs", default_value_t = 0, value_parser = super::threads)]
    threads: usize,
    /// How long a single run may take, or the recovery of one image.
    #[arg(long, default_value = "60s", value_parser = duration)]
    patience: Duration,
}

impl Barriers {
    /// Exit code 0: some scenario notices each. 1: one is noticed by none, or reached by none, or a scenario fails with every
    /// sync in place. 2: a scenario is wrong. 4: the harness failed, or a run, or a recovery, took too long. 130: it was interrupted, and each that was tried by then
    /// was noticed.
    #[allow(clippy::disallowed_methods)] // how long it took is told to a person, and nothing depends on it
    pub fn run(&self) -> ExitCode {
        let began = Instant::now();
        let interrupt = Interrupt::watch().ok();
        let go_on = || interrupt.as_ref().map_or(ControlFlow::Continue(()), Interrupt::go_on);
        let subjects = match self.subjects() {
            Ok(subjects) => subjects,
            Err(code) => return code,
        };
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        let threads = if self.threads == 0 { cores() } else { self.threads };
        let (images, inner) = (self.limit, self.limit.min(Bounds::default().inner));
        // The scenarios are what is shared out among the threads.
        let alone = Some(NonZeroUsize::MIN);
        let bounds = Bounds { images, inner, threads: alone, nested_cuts: false, ..Bounds::default() };
        let effort = Effort { bounds, all: self.all, threads, patience: self.patience };
        let bar =
            if std::io::stderr().is_terminal() { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
        let each = |barrier: &Barrier| {
            bar.set_message(format!("{} of them done, last {}", bar.position() + 1, barrier.place));
            bar.inc(1);
        };
        let table = barriers(&subjects, effort, &each, &go_on);
        bar.finish_and_clear();
        self.tell(&table, subjects.len(), began.elapsed());
        if !table.hung.is_empty() {
            return ExitCode::from(4);
        }
        match (table.holds(), table.is_interrupted) {
            (true, false) => ExitCode::SUCCESS,
            (true, true) => ExitCode::from(interrupt::CODE),
            (false, _) => ExitCode::FAILURE,
        }
    }

    /// The scenarios that are to notice, each run once with every sync in place.
    fn subjects(&self) -> Result<Vec<Subject>, ExitCode> {
        let mut subjects = Vec::new();
        for file in find(&self.paths)? {
            let scenario = super::load(&file.path)?;
            if file.is_generator() || (self.only_explore && !scenario.explore) {
                continue;
            }
            let watch = hurry(self.patience, &file.path, scenario.seeds.start);
            let subject = Subject::new(&file.name, &scenario);
            drop(watch);
            subjects.push(subject.map_err(|e| {
                complain!("{}: {e}", file.name);
                ExitCode::from(e.0.exit_code())
            })?);
        }
        Ok(subjects)
    }

    /// A line for each sync, and what was left out, for people.
    fn tell(&self, table: &Table, subjects: usize, took: Duration) {
        say!("{:<40} {:>7} {:>7}  first noticed by", "barrier", "reached", "noticed");
        for barrier in &table.barriers {
            say!("{}", line(barrier, self.all));
        }
        for (name, what) in &table.broken {
            say!("{name}: fails with every sync in place ({what}): left out");
        }
        for Hung { place, name, why } in &table.hung {
            say!("{name} without {place}: {why}");
        }
        for place in &table.unreached {
            say!("{:<40} no scenario reaches it", place.to_string());
        }
        if table.is_interrupted {
            say!("interrupted: of the others, nothing is known");
        }
        let all = table.barriers.len() + table.unreached.len();
        let unnoticed = table.barriers.iter().filter(|barrier| barrier.noticed.is_empty()).count();
        let how = match unnoticed + table.unreached.len() {
            0 => "all noticed".to_owned(),
            some => format!("{some} noticed by nobody"),
        };
        let left_out = match table.broken.len() {
            0 => String::new(),
            some => format!("; {some} left out, which fail with every sync in place"),
        };
        let left_out = match table.hung.len() {
            0 => left_out,
            some => format!("{left_out}; {some} hang with a sync switched off"),
        };
        say!("\n{all} barriers, {how} ({subjects} scenarios{left_out}, {:.1} s)", took.as_secs_f64());
    }
}

fn line(barrier: &Barrier, all: bool) -> String {
    let Barrier { place, reached, noticed } = barrier;
    let place = place.to_string();
    let Some(first) = noticed.first() else { return format!("{place:<40} {reached:>7} {:>7}  NOBODY", 0) };
    let more = if all { "" } else { "+" };
    let how = if first.explored { "crash points of " } else { "" };
    let count = format!("{}{more}", noticed.len());
    format!("{place:<40} {reached:>7} {count:>7}  {how}{}: {}", first.name, first.what)
}
