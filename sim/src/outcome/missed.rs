//! Why a fault that was aimed has not struck: nothing that it was aimed at happened, or what happened was not as it says.

use std::time::Duration;

use crate::scenario::syntax::operation_name;
use crate::scenario::{Fault, FaultKind, Op, Step, parse};
use crate::trace::{DiskOp, Entry, Event};
use crate::world::DATA;

/// Why, in the entries of the trace from where the fault was armed to where it was taken back. `text`: its line.
pub(super) fn why(text: &str, entries: &[Entry]) -> String {
    let read = parse("", &format!("scenario \"\"\n{text}")).ok();
    let fault = read.and_then(|scenario| match scenario.steps.into_iter().next() {
        Some(Step::Fault(fault)) => Some(fault),
        _ => None,
    });
    let Some(fault) = fault else { return nothing() };
    let armed = entries.first().map_or(0, |entry| entry.at);
    let matching: Vec<(Duration, &DiskOp)> = entries
        .iter()
        .filter_map(|entry| match &entry.event {
            Event::Disk(op) if is_aimed_at(&fault, op) => {
                Some((Duration::from_millis(entry.at.saturating_sub(armed)), op))
            }
            _ => None,
        })
        .collect();
    if matching.is_empty() {
        return nothing();
    }
    let what = operation_name(fault.op);
    let seen = match matching.len() {
        1 => format!("1 operation matched `{what} {:?}`, and it was not", fault.pattern),
        n => format!("{n} operations matched `{what} {:?}`, and none was", fault.pattern),
    };
    match &unmet(&fault, &matching)[..] {
        [] => format!(
            "{seen} struck: another fault, or a stop, came first; aim it elsewhere, or say `may-miss`"
        ),
        [one] => format!("{seen} as `{one}` says; change that, or say `may-miss`"),
        several => format!("{seen} as `{}` say; change that, or say `may-miss`", several.join("` and `")),
    }
}

fn nothing() -> String {
    "what it was aimed at did not happen; aim it elsewhere, or say `may-miss`".to_owned()
}

/// Whether a fault is for this operation on this file.
fn is_aimed_at(fault: &Fault, op: &DiskOp) -> bool {
    let same = match fault.op {
        Op::Any => true,
        Op::Truncate => op.op == faults::Op::SetLen,
        Op::Remove => matches!(op.op, faults::Op::Remove | faults::Op::RemoveDir),
        // Whether an opening makes the file, the trace does not say.
        Op::Create => false,
        named => op.op.name() == operation_name(named),
    };
    let names = |path: &str| names(&fault.pattern, &format!("{DATA}/{path}"));
    same && (names(&op.path) || op.to.as_deref().is_some_and(names))
}

/// What the fault says besides, of which no operation was so.
fn unmet(fault: &Fault, matching: &[(Duration, &DiskOp)]) -> Vec<String> {
    let aim = &fault.aim;
    let covers = |op: &DiskOp| {
        aim.at_byte.is_none_or(|byte| (op.position..op.position.saturating_add(op.len)).contains(&byte))
    };
    let is_late = |at: Duration| aim.after.is_none_or(|after| at >= after);
    let long = |op: &DiskOp| match fault.kind {
        FaultKind::Short { bytes } | FaultKind::Tear { bytes } => op.len > bytes,
        _ => true,
    };
    let counted = matching.iter().filter(|(at, op)| is_late(*at) && covers(op)).count() as u64;
    let words = written(fault);
    let word = |name: &str| words.iter().find(|word| word.starts_with(name)).cloned();
    let mut unmet = Vec::new();
    unmet.extend(word("nth=").filter(|_| counted < aim.nth.into()));
    unmet.extend(word("at-byte=").filter(|_| !matching.iter().any(|(_, op)| covers(op))));
    unmet.extend(word("after=").filter(|_| !matching.iter().any(|(at, _)| is_late(*at))));
    // Which operation belongs to which phase, the trace does not say.
    unmet.extend(word("during="));
    unmet.extend(word("tear=").or(word("short=")).filter(|_| !matching.iter().any(|(_, op)| long(op))));
    unmet
}

/// The properties of a fault as they are written.
fn written(fault: &Fault) -> Vec<String> {
    let line = crate::scenario::print_step(&Step::Fault(fault.clone()));
    line.split_whitespace().filter(|word| word.contains('=')).map(str::to_owned).collect()
}

/// Whether a pattern names a path, or the end of one: `*` and `?` stop at a slash, `**` does not.
fn names(pattern: &str, path: &str) -> bool {
    let begins = std::iter::once(0).chain(path.match_indices('/').map(|(at, _)| at + 1));
    begins.into_iter().any(|at| is_like(pattern.as_bytes(), &path.as_bytes()[at..]))
}

fn is_like(pattern: &[u8], text: &[u8]) -> bool {
    let slash = text.iter().position(|byte| *byte == b'/').unwrap_or(text.len());
    match (pattern, text) {
        ([], _) => text.is_empty(),
        ([b'*', b'*', rest @ ..], _) => (0..=text.len()).any(|at| is_like(rest, &text[at..])),
        ([b'*', rest @ ..], _) => (0..=slash).any(|at| is_like(rest, &text[at..])),
        ([b'?', rest @ ..], [byte, others @ ..]) => *byte != b'/' && is_like(rest, others),
        ([one, rest @ ..], [byte, others @ ..]) => one == byte && is_like(rest, others),
        (_, []) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::{Failure, run};

    /// What is said of a fault that has not struck while a record was written.
    fn said(fault: &str) -> String {
        let text = format!("scenario \"t\"\ntopic orders\n{fault}\nproduce orders value=\"v\"\n");
        let outcome = run(&parse("t.kdl", &text).expect("it can be read"), 0);
        match &outcome.failures[..] {
            [failure @ Failure::Inert { .. }] => failure.to_string(),
            other => panic!("{fault}: {other:?}"),
        }
    }

    #[test]
    fn a_fault_that_missed_says_what_it_missed_by() {
        for (fault, words) in [
            (
                "fault write \"*.log\" short=500",
                "1 operation matched `write \"*.log\"`, and it was not as `short=500` says",
            ),
            ("fault write \"orders/?/*.log\" nth=5 full", "and it was not as `nth=5` says"),
            ("fault write \"**\" at-byte=5000 full", "and it was not as `at-byte=5000` says"),
            ("fault write \"*.log\" nth=3 at-byte=5000 full", "as `nth=3` and `at-byte=5000` say"),
            ("fault write \"*.log\" after=\"1h\" full", "and it was not as `after=\"1h\"` says"),
            ("fault write \"*.log\" during=roll full", "and it was not as `during=roll` says"),
            ("fault write \"nope\" full", "what it was aimed at did not happen; aim it elsewhere"),
            ("fault rename \"*.log\" error=EIO", "what it was aimed at did not happen; aim it elsewhere"),
        ] {
            let said = said(fault);
            assert!(said.contains(words), "{said}\n{words}");
        }
    }

    #[test]
    fn a_pattern_names_the_end_of_a_path() {
        for (pattern, yes) in [
            ("*.log", true),
            ("a.log", true),
            ("?.log", true),
            ("0/a.log", true),
            ("*/a.log", true),
            ("orders/*/a.log", true),
            ("orders/**", true),
            ("**", true),
            ("orders/a.log", false),
            ("orders*", false),
            ("*.index", false),
            ("??.log", false),
            ("log", false),
        ] {
            assert_eq!(names(pattern, "/data/orders/0/a.log"), yes, "{pattern}");
        }
    }
}
