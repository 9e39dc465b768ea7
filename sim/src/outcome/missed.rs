//! Why a fault that was aimed has not struck: nothing that it was aimed at happened, or what happened was not as it says.

use std::time::Duration;

use crate::scenario::syntax::operation_name;
use crate::scenario::{Fault, FaultKind, Step};
use crate::trace::{DiskOp, Entry, Event};
use crate::world::{DATA, aim};

/// Why, in the entries of the trace from where the fault was armed to where it was taken back.
pub(super) fn why(fault: &Fault, entries: &[Entry]) -> String {
    let aimed = aim::aim(fault, Duration::ZERO);
    let armed = entries.first().map_or(0, |entry| entry.at);
    let matching: Vec<(Duration, &DiskOp)> = entries
        .iter()
        .filter_map(|entry| match &entry.event {
            Event::Disk(op) if is_aimed_at(&aimed, op) => {
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
    match &unmet(fault, &matching)[..] {
        [] => format!(
            "{seen} struck: another fault, or a stop, came first; aim it elsewhere, or say `may-miss`"
        ),
        [one] => format!("{seen} as `{one}` says; change that, or say `may-miss`"),
        several => format!("{seen} as `{}` say; change that, or say `may-miss`", several.join("` and `")),
    }
}

pub(super) fn nothing() -> String {
    "what it was aimed at did not happen; aim it elsewhere, or say `may-miss`".to_owned()
}

/// Whether a fault is for this operation on this file.
fn is_aimed_at(aimed: &faults::Fault, op: &DiskOp) -> bool {
    let full = |path: &str| format!("{DATA}/{path}");
    // Whether an opening makes the file, the trace does not say.
    let renamed = op.to.as_deref().filter(|_| op.op == faults::Op::Rename);
    !aimed.making && aimed.is_for(op.op, &full(&op.path), renamed.map(full).as_deref())
}

/// What the fault says besides, of which no operation was so.
fn unmet(fault: &Fault, matching: &[(Duration, &DiskOp)]) -> Vec<String> {
    let aim = &fault.aim;
    let covers = |op: &DiskOp| {
        aim.at_byte.is_none_or(|byte| (op.position..op.position.saturating_add(op.len)).contains(&byte))
    };
    let is_late = |at: Duration| aim.after.is_none_or(|after| at >= after);
    let long = |op: &DiskOp| match fault.kind {
        FaultKind::Short { bytes } | FaultKind::Tear { bytes } | FaultKind::Torn { bytes } => op.len > bytes,
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
    // Which bytes of a read there are, its result says.
    let reads = |byte: u64| matching.iter().any(|(_, op)| op.result.is_ok_and(|read| byte < read));
    match fault.kind {
        FaultKind::Flip { bit } => unmet.extend(word("flip=").filter(|_| !reads(bit / 8))),
        FaultKind::Unreadable { byte } => unmet.extend(word("unreadable=").filter(|_| !reads(byte))),
        _ => {}
    }
    let length = word("tear=").or(word("torn=")).or(word("short="));
    unmet.extend(length.filter(|_| !matching.iter().any(|(_, op)| long(op))));
    // A write goes astray only into bytes that are on the disk, and not into its own place. What the disk has, no entry says.
    let is_free = |op: &DiskOp| op.fault.is_none() && op.result.is_ok();
    if unmet.is_empty() && matching.iter().any(|(_, op)| is_free(op)) {
        unmet.extend(word("misdirect=").into_iter().chain(word("into=")));
    }
    unmet
}

/// The properties of a fault as they are written.
fn written(fault: &Fault) -> Vec<String> {
    let line = crate::scenario::print_step(&Step::Fault(fault.clone()));
    line.split_whitespace().filter(|word| word.contains('=')).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use crate::outcome::{Failure, run};
    use crate::scenario::parse;

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
            (
                "produce orders value=\"old\"\nfault read \"*.log\" flip=1000\nconsume orders",
                "1 operation matched `read \"*.log\"`, and it was not as `flip=1000` says",
            ),
            (
                "produce orders value=\"old\"\nfault read \"*.log\" unreadable=1000\nconsume orders",
                "and it was not as `unreadable=1000` says",
            ),
            ("fault write \"*.log\" misdirect=500", "and it was not as `misdirect=500` says"),
            (
                "fault write \"*.log\" misdirect=0 into=\"nope/0/a.log\"",
                "and it was not as `misdirect=0` and `into=\"nope/0/a.log\"` say",
            ),
            ("fault write \"nope\" full", "what it was aimed at did not happen; aim it elsewhere"),
            ("fault rename \"*.log\" error=EIO", "what it was aimed at did not happen; aim it elsewhere"),
        ] {
            let said = said(fault);
            assert!(said.contains(words), "{said}\n{words}");
        }
    }
}
