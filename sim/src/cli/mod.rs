//! The commands, one a file.

use std::path::Path;
use std::process::ExitCode;

use sim::outcome::{Failure, Outcome};
use sim::scenario::Scenario;
use sim::trace::Event;
use sim::{suite, trace};

pub mod again;
mod bar;
pub mod barriers;
pub mod check;
pub mod explore;
mod figures;
pub mod list;
pub mod merge;
pub mod new;
mod out;
pub mod replay;
pub mod run;
pub mod shrink;
pub mod sweep;

/// How many events before a failure are shown.
const EVENTS: usize = 40;

/// A scenario from a file; where it cannot be read, what is wrong with it has been said.
fn load(path: &Path) -> Result<Scenario, ExitCode> {
    suite::load(path).map_err(|e| {
        match e {
            suite::LoadError::Mistakes(mistakes) => eprint!("{}", mistakes.shown()),
            other => eprintln!("{other}"),
        }
        ExitCode::from(2)
    })
}

/// What failed, what explains it, and the events before it.
fn explained(outcome: &Outcome) -> String {
    let mut text = String::new();
    for failure in outcome.failures.iter().take(3) {
        text += &format!("\n{}\n", indented(&failure.to_string()));
        if let Failure::Broken(broken) = failure {
            for entry in broken.because.iter().filter_map(|i| outcome.trace.entries.get(*i)) {
                text += &format!("  because   {}\n", trace::print::line(entry).trim());
            }
        }
    }
    if outcome.failures.len() > 3 {
        text += &format!("\n  and {} more\n", outcome.failures.len() - 3);
    }
    // A step that came out otherwise is shown with what led to it, and not with what came after.
    let unmet = |step: u32| {
        outcome.trace.entries.iter().position(|entry| match &entry.event {
            Event::Unmet { step: number, .. } | Event::Impossible { step: number, .. } => *number == step,
            _ => false,
        })
    };
    let until = outcome.failures.iter().find_map(|failure| match failure {
        Failure::Broken(broken) => Some(broken.entry),
        Failure::Unmet { step, .. } | Failure::Impossible { step, .. } => unmet(*step),
        _ => None,
    });
    let until = until.unwrap_or(outcome.trace.entries.len().saturating_sub(1));
    text + &format!("\n  the last events:\n{}", trace::print::last(&outcome.trace, until, EVENTS))
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}
