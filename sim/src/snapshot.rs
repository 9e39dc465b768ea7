//! The readable part of a trace: each step with what came of it. A person accepts it once; a test compares it for ever.
//! Nothing in it depends on time, on ports, or on how often the disk was asked, so that a harmless change leaves it alone.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use crate::executor::plan::{Node, plan};
use crate::oracle::Promise;
use crate::outcome::{Failure, Outcome};
use crate::scenario::{Check, Step};
use crate::trace::{Event, Trace};

/// What came of a step begins here.
const COLUMN: usize = 50;
/// Of a step that came round so often, each round is shown.
const ROUNDS: usize = 4;

/// Each step of a run, and what certainly comes of it.
pub fn render(outcome: &Outcome) -> String {
    render_as(outcome, false)
}

/// Each step of a run, and what came of it this time, whatever decided that.
pub fn render_facts(outcome: &Outcome) -> String {
    render_as(outcome, true)
}

fn render_as(outcome: &Outcome, facts: bool) -> String {
    let said = said(&outcome.trace, facts);
    let mut out = String::new();
    if let Some(error) = first_start_failed(&outcome.trace) {
        lines(&mut out, "(the start before the first step)", &format!("→ does not start: {error}"), 0);
    }
    for node in &plan(&outcome.scenario.steps) {
        show(&mut out, node, &said, outcome, 0);
    }
    out
}

/// Why the broker does not run when the first step begins, where it does not: no step says so.
fn first_start_failed(trace: &Trace) -> Option<&str> {
    let before = trace.entries.iter().take_while(|entry| !matches!(entry.event, Event::Step { .. }));
    before.into_iter().find_map(|entry| match &entry.event {
        Event::NotStarted { error } => Some(&**error),
        _ => None,
    })
}

fn said(trace: &Trace, facts: bool) -> BTreeMap<u32, Vec<Arc<str>>> {
    let mut said: BTreeMap<u32, Vec<Arc<str>>> = BTreeMap::new();
    for entry in &trace.entries {
        if let Event::Said { step, text, fact } = &entry.event {
            said.entry(*step).or_default().push(if facts { fact.clone() } else { text.clone() });
        }
    }
    said
}

fn show(out: &mut String, node: &Node, said: &BTreeMap<u32, Vec<Arc<str>>>, outcome: &Outcome, depth: usize) {
    let came = said.get(&node.id).map(|rounds| rounds_of(rounds)).unwrap_or_default();
    let text = match &node.step {
        Step::Check(check) if came.is_empty() => checked(node.id, check, outcome),
        Step::Check(check) => format!("{}\n{came}", checked(node.id, check, outcome)),
        _ => came,
    };
    let line = format!("{:indent$}{}", "", node.text, indent = depth * 2);
    lines(out, &line, &text, depth);
    for inner in &node.inside {
        show(out, inner, said, outcome, depth + 1);
    }
}

/// A step, and beside it what came of it; what has several lines goes below.
fn lines(out: &mut String, line: &str, text: &str, depth: usize) {
    let mut parts = text.split('\n');
    let first = parts.next().unwrap_or_default();
    let _ = match first {
        "" => writeln!(out, "{line}"),
        _ if line.chars().count() > COLUMN => writeln!(out, "{line}  {first}"),
        _ => writeln!(out, "{line:<COLUMN$} {first}"),
    };
    for part in parts {
        let indent = if first.is_empty() { depth * 2 + 2 } else { COLUMN + 1 };
        let _ = writeln!(out, "{:indent$}{part}", "");
    }
}

/// What came of each round of a step, shortened.
fn rounds_of(rounds: &[Arc<str>]) -> String {
    match rounds {
        [] => String::new(),
        [one] => one.to_string(),
        all if all.iter().all(|said| said == &all[0]) => format!("{} (each of {} rounds)", all[0], all.len()),
        all if all.len() <= ROUNDS => all.join("\n"),
        all => format!("{}\n{}\n… {} rounds …\n{}", all[0], all[1], all.len() - 3, all[all.len() - 1]),
    }
}

/// What is known of the promises that a check asks for. That they hold is known only where the run has come to the check, could look
/// at the broker there each time, and was judged.
fn checked(step: u32, check: &Check, outcome: &Outcome) -> String {
    let asked = |number: u8| check.promises.is_empty() || check.promises.contains(&number);
    let broken = outcome.failures.iter().filter_map(|failure| match failure {
        Failure::Broken(broken) if asked(broken.promise.number()) => Some(broken.promise),
        _ => None,
    });
    let mut broken: Vec<Promise> = broken.collect();
    broken.sort_unstable();
    broken.dedup();
    let names = |promises: &[Promise]| {
        promises.iter().map(|p| format!("P{}", p.number())).collect::<Vec<_>>().join(" ")
    };
    if !broken.is_empty() {
        return format!("{} broken", names(&broken));
    }
    let came = outcome
        .trace
        .entries
        .iter()
        .any(|entry| matches!(entry.event, Event::Step { step: s, .. } if s == step));
    let unjudged = outcome.failures.iter().any(|failure| match failure {
        Failure::Impossible { step: impossible, .. } => *impossible == step,
        Failure::Harness(_) | Failure::Stuck(_) => true,
        _ => false,
    });
    if !came || unjudged {
        return "not checked".to_owned();
    }
    if check.promises.is_empty() {
        return "P1..P12 hold".to_owned();
    }
    let held: Vec<Promise> = Promise::ALL.into_iter().filter(|p| asked(p.number())).collect();
    format!("{} {}", names(&held), if held.len() == 1 { "holds" } else { "hold" })
}

#[cfg(test)]
mod tests {
    use crate::outcome::{self, Failure};
    use crate::scenario::parse;
    use crate::trace::Trace;

    /// The row of the first check in what comes of these steps.
    fn row_of_check(steps: &str) -> String {
        let text = format!("scenario \"t\"\ntopic a\n{steps}\n");
        let outcome = outcome::run(&parse("t.kdl", &text).expect("it can be read"), 0);
        let shown = super::render_facts(&outcome);
        let row = shown.lines().find(|line| line.trim_start().starts_with("check"));
        row.expect("there is one").split_whitespace().skip(1).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_check_says_that_promises_hold_only_where_it_could_look() {
        assert_eq!(row_of_check("check"), "P1..P12 hold");
        for steps in [
            "crash\ncheck",
            "parallel { client a { check; }; client b { list-topics; }; }",
            "repeat 2 { check; crash; }",
        ] {
            assert_eq!(row_of_check(steps), "not checked", "{steps}");
        }
        assert_eq!(row_of_check("crash\ncheck P2"), "P2 not checked");
    }

    #[test]
    fn a_run_that_nobody_has_judged_has_kept_no_promise() {
        let mut outcome = outcome::run(&parse("t.kdl", "scenario \"t\"\ncheck").expect("it can be read"), 0);
        outcome.failures = vec![Failure::Harness("judging the run".to_owned())];
        assert!(super::render(&outcome).contains("not checked"));
        outcome.failures.clear();
        outcome.trace = Trace::default();
        assert!(super::render(&outcome).contains("not checked"));
    }

    #[test]
    fn why_the_broker_did_not_start_is_shown_where_no_step_started_it() {
        let text = "scenario \"t\"\ndisk capacity=0\ntopic orders expect=UNAVAILABLE\ndisk capacity=unlimited\nstart";
        let outcome = outcome::run(&parse("t.kdl", text).expect("it can be read"), 0);
        assert!(outcome.holds(), "{:#?}", outcome.failures);
        let shown = super::render(&outcome);
        let first = shown.lines().next().unwrap_or_default();
        assert!(first.contains("does not start") && first.contains("No space left"), "{shown}");
    }
}
