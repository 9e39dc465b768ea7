//! A run that failed, for whoever has to understand it: what failed, what explains it, the events that led to it, and the
//! command that shows the same run again. The command line and the tests of scenarios show the same.

use std::path::Path;

use crate::outcome::{Failure, Outcome};
use crate::source_line::SourceLine;
use crate::trace::{self, Event};

/// How many events before a failure are shown.
const EVENTS: usize = 40;
/// So many failures of a run are shown, where not all are asked for: the first ones have often caused the others.
const FAILURES: usize = 3;

/// What runs this program again, built as this one is, so that a hash it printed comes again.
pub const SIM: &str =
    if cfg!(debug_assertions) { "cargo run -p sim --" } else { "cargo run --release -p sim --" };

/// The command that shows a run again, event by event.
pub fn replay(path: &Path, seed: u64, off: &[SourceLine]) -> String {
    let off: String = off.iter().map(|place| format!(" --without {place}")).collect();
    format!("{SIM} replay {} --seed {seed} --trace{off}", path.display())
}

/// What failed, what explains it, and the events before it: of several failures the first few, or all.
pub fn explained(outcome: &Outcome, all: bool) -> String {
    let mut text = String::new();
    let shown = if all { outcome.failures.len() } else { FAILURES };
    for failure in outcome.failures.iter().take(shown) {
        text += &format!("\n{}\n", indented(&failure.to_string()));
        if let Failure::Broken(broken) = failure {
            for entry in broken.because.iter().filter_map(|i| outcome.trace.entries.get(*i)) {
                text += &format!("  because   {}\n", trace::print::line(entry).trim());
            }
        }
    }
    if outcome.failures.len() > shown {
        text += &format!("\n  and {} more, which a replay shows\n", outcome.failures.len() - shown);
    }
    text + &format!("\n  the last events:\n{}", trace::print::last(&outcome.trace, until(outcome), EVENTS))
}

/// Which event the first failure is: what led to it is shown, and not what came after.
fn until(outcome: &Outcome) -> usize {
    let said = |number: u32| {
        outcome.trace.entries.iter().position(|entry| match &entry.event {
            Event::Unmet { step, .. } | Event::Impossible { step, .. } | Event::Inert { step, .. } => {
                *step == number
            }
            _ => false,
        })
    };
    let first = outcome.failures.first().and_then(|failure| match failure {
        Failure::Broken(broken) => Some(broken.entry),
        Failure::Unmet { step, .. } | Failure::Impossible { step, .. } | Failure::Inert { step, .. } => {
            said(*step)
        }
        Failure::Panic(_) | Failure::Stuck(_) | Failure::Harness(_) => None,
    });
    first.unwrap_or(outcome.trace.entries.len().saturating_sub(1))
}

/// Each line a little to the right.
pub fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{outcome, scenario};

    fn explained_run(steps: &str) -> String {
        let text = format!("scenario \"t\"\ntopic orders\n{steps}\n");
        let scenario = scenario::parse("t.kdl", &text).expect("it can be read");
        explained(&outcome::run(&scenario, 0), false)
    }

    #[test]
    fn the_events_end_with_the_failure_and_not_with_the_run() {
        let text =
            explained_run("produce orders value=\"v\" expect-offset=7\nadvance \"40ms\"\ncrash\nstart");
        let last = text.trim_end().lines().last().unwrap_or_default();
        assert!(last.contains("UNMET: expected offset 7, found offset 0"), "{text}");
    }

    #[test]
    fn the_oracles_own_questions_do_not_hide_what_happened() {
        let text = explained_run(
            "produce orders value=\"v\" count=9\nrepeat 2 {\n    crash\n    start\n}\nconsume orders expect-count=7",
        );
        assert!(text.contains("produce orders") && text.contains("has looked"), "{text}");
        assert!(!text.contains("at or after"), "{text}");
    }

    #[test]
    fn what_is_left_out_is_counted_and_can_be_had() {
        let steps = "produce orders value=\"v\" expect-offset=7\n".repeat(5);
        assert!(explained_run(&steps).contains("and 2 more"));
        let text = format!("scenario \"t\"\ntopic orders\n{steps}");
        let outcome = outcome::run(&scenario::parse("t.kdl", &text).expect("it can be read"), 0);
        assert_eq!(explained(&outcome, true).matches("line ").count(), 5);
    }
}
