//! A violation, as a scenario that shows it again through the ordinary executor: what the explored scenario did up to the crash,
//! the crash, a start, and the oracle's questions.
//!
//! The crash is written in the way that reads best among those that break the same promise: the lights go out between two
//! steps, or at one operation of the disk, counted from the step in which it comes; and what is left is said in a word
//! (`keep=nothing`) where a word does, otherwise by its number. Each way is executed and judged before it is given away.

use std::sync::{Arc, Mutex, PoisonError};

use super::report::{Choice, Point, Violation};
use super::{Run, go_on, recover};
use crate::executor::plan::plan;
use crate::outcome::{Failure, Outcome, run_without};
use crate::scenario::{
    Aim, Check, Expect, Fault, FaultKind, Keep, LookUpExpect, Op, ReceiveExpect, Scenario, Seeds, Start,
    StartExpect, Step,
};
use crate::source_line::SourceLine;
use crate::trace::{DiskOp, Event};
use crate::world::{DATA, observe};

/// A scenario that was made of a violation.
#[derive(Clone, Debug)]
pub struct Witness {
    /// The scenario.
    pub scenario: Scenario,
    /// Whether the ordinary executor has shown the violation with it.
    pub shows: bool,
}

/// Writes a violation as a scenario. None where the crash comes before the scenario's first step: there is nothing there to
/// which a fault could be aimed.
pub fn witness(run: &Run, violation: &Violation) -> Option<Witness> {
    let aims = aims(run, violation)?;
    let exact = violation.point.choice;
    let mut ways = Vec::new();
    for aim in &aims {
        let simple = [Keep::Nothing, Keep::Everything, Keep::Names, Keep::Data].map(Choice::Power);
        // An image has its number at one operation only.
        let exact = aim.exact.then_some(exact);
        let power = violation.point.choice != Choice::Process;
        let all = simple.into_iter().filter(|_| power && violation.nested.is_none()).chain(exact);
        ways.extend(all.map(|crash| (aim, crash)));
    }
    let mut last = None;
    for (aim, crash) in ways {
        let mut scenario = written(run, violation, aim, crash)?;
        let mut outcome = run_without(&scenario, scenario.seeds.start, run.off.as_slice());
        if !shows(&outcome, violation) {
            last = Some(scenario);
            continue;
        }
        if outcome.failures.iter().any(|failure| !matches!(failure, Failure::Broken(_))) {
            let mut quiet = scenario.clone();
            quiet.steps.iter_mut().for_each(relax);
            outcome = run_without(&quiet, quiet.seeds.start, run.off.as_slice());
            if shows(&outcome, violation) {
                scenario = quiet;
            }
        }
        return Some(Witness { scenario, shows: true });
    }
    last.map(|scenario| Witness { scenario, shows: false })
}

fn shows(outcome: &Outcome, violation: &Violation) -> bool {
    let same = |failure: &Failure| match failure {
        // What is wrong behind a recovery, the oracle calls by names of its own.
        Failure::Broken(_) if go_on::is_its_own(&violation.broken) => true,
        Failure::Broken(broken) => {
            (broken.promise, broken.kind) == (violation.broken.promise, violation.broken.kind)
        }
        _ => false,
    };
    outcome.failures.iter().any(same)
}

/// A crash between two steps.
fn between_steps(crash: Choice) -> Step {
    match crash {
        Choice::Process => Step::Crash,
        Choice::Power(keep) => Step::PowerLoss { keep },
    }
}

/// A crash at one operation of the disk.
fn at_operation(crash: Choice, at: &Operation) -> Step {
    let bytes = Some(at.bytes.unwrap_or(0));
    let kind = match crash {
        Choice::Process => FaultKind::Crash { bytes },
        Choice::Power(keep) => FaultKind::PowerLoss { bytes, keep },
    };
    let aim = Aim { nth: at.nth, ..Aim::default() };
    Step::Fault(Fault { op: at.op, pattern: at.pattern.clone(), aim, kind, into: None, may_miss: false })
}

/// An operation of the disk that a fault can be aimed at.
struct Operation {
    op: Op,
    pattern: String,
    nth: u32,
    /// A crash after so many bytes of it; before it, where none.
    bytes: Option<u64>,
}

/// One way to place the crash.
struct Placed {
    /// So many of the scenario's steps are gone through.
    steps: usize,
    /// In front of which of them a fault is aimed; none where the crash comes after all of them.
    fault: Option<(usize, Operation)>,
    /// Whether this is the very operation that was explored.
    exact: bool,
}

/// The ways to place the crash, those that read best first.
fn aims(run: &Run, violation: &Violation) -> Option<Vec<Placed>> {
    let between = |steps| Placed { steps, fault: None, exact: false };
    let point = violation.point;
    let Some(entry) = run.entry_after(point.steps) else {
        return Some(vec![Placed { exact: true, ..between(run.scenario.steps.len()) }]);
    };
    let ids: Vec<u32> = plan(&run.scenario.steps).iter().map(|node| node.id).collect();
    let begins = |event: &Event| match event {
        Event::Step { step, .. } => ids.binary_search(step).ok(),
        _ => None,
    };
    let entries = &run.trace.entries;
    let started = |at: &usize| begins(&entries[*at].event).map(|step| (*at, step));
    let (at, step) = (0..entry.min(entries.len())).rev().find_map(|at| started(&at))?;
    let first = (0..entry).find_map(|at| started(&at))?;
    let aimed = |from: usize| {
        let ops = entries[from..=entry].iter().filter_map(|entry| match &entry.event {
            Event::Disk(op) => Some(op),
            _ => None,
        });
        operation(ops, point.bytes)
    };
    let mut ways = Vec::new();
    if point.bytes.is_none() {
        ways.extend([between(step), between(step + 1)]);
    }
    for (from, before) in [(at, step), first] {
        if let Some(at) = aimed(from) {
            ways.push(Placed { steps: step + 1, fault: Some((before, at)), exact: true });
        }
    }
    Some(ways)
}

/// The last of these operations, as a fault names it.
fn operation<'a>(ops: impl Iterator<Item = &'a DiskOp>, bytes: Option<u64>) -> Option<Operation> {
    let ops: Vec<&DiskOp> = ops.collect();
    let last = *ops.last()?;
    let op = named(last.op);
    let same = ops.iter().filter(|other| (op == Op::Any || other.op == last.op) && other.path == last.path);
    let nth = u32::try_from(same.count()).ok()?;
    // The data directory itself has no name below itself.
    let pattern = if last.path.is_empty() { DATA.trim_start_matches('/') } else { &last.path };
    Some(Operation { op, pattern: pattern.to_owned(), nth, bytes })
}

fn named(op: faults::Op) -> Op {
    match op {
        faults::Op::Open => Op::Create,
        faults::Op::Write => Op::Write,
        faults::Op::SetLen => Op::Truncate,
        faults::Op::Sync => Op::Sync,
        faults::Op::SyncDir => Op::SyncDir,
        faults::Op::Rename => Op::Rename,
        faults::Op::Remove => Op::Remove,
        faults::Op::MakeDir => Op::MakeDir,
        _ => Op::Any,
    }
}

fn written(run: &Run, violation: &Violation, placed: &Placed, crash: Choice) -> Option<Scenario> {
    let mut scenario = run.scenario.clone();
    scenario.steps.truncate(placed.steps);
    let start = || Step::Restart(Start { expect: StartExpect::Any, ..Start::default() });
    match &placed.fault {
        None => scenario.steps.push(between_steps(crash)),
        Some((before, at)) => {
            scenario.steps.last_mut().into_iter().for_each(relax);
            scenario.steps.insert(*before, at_operation(crash, at));
        }
    }
    if let Some(nested) = violation.nested {
        match inside_recovery(run, violation, nested)? {
            Some(at) => scenario.steps.extend([at_operation(nested.choice, &at), start()]),
            None => scenario.steps.extend([start(), between_steps(nested.choice)]),
        }
    }
    scenario.steps.extend([start(), Step::Check(Check::default())]);
    if go_on::is_its_own(&violation.broken) {
        scenario.steps.extend(go_on::appends(&violation.broken));
        scenario.steps.extend([Step::Crash, start(), Step::Check(Check::default())]);
    }
    scenario.seeds = Seeds::one(run.scenario.seeds.start);
    scenario.explore = false;
    scenario.sometimes.clear();
    scenario.title = format!("{} after a crash of: {}", kind(violation), run.scenario.title);
    scenario.about = about(violation, run.off.as_ref());
    Some(scenario)
}

fn kind(violation: &Violation) -> String {
    format!("{} ({})", violation.broken.promise, violation.broken.kind)
}

fn about(violation: &Violation, off: Option<&SourceLine>) -> Vec<String> {
    let mut about = vec![format!("Found by exploring: breaks {}.", kind(violation))];
    about.push(format!("{}: expected {}.", violation.broken.what, violation.broken.expected));
    if let Some(off) = off {
        about.push(format!("The broker has this sync switched off: run it with `--without {off}`."));
    }
    about
}

/// The operation before which a crash strikes inside the recovery of the violation's image; `Some(None)`: behind all of them.
fn inside_recovery(run: &Run, violation: &Violation, nested: Point) -> Option<Option<Operation>> {
    let disk = run.image(violation.point)?.to_disk(faults::Config::new(run.profile));
    disk.limit(run.limits(violation.point));
    let ops: Arc<Mutex<Vec<(DiskOp, usize)>>> = Arc::default();
    let told = ops.clone();
    disk.observe(move |event| {
        told.lock().unwrap_or_else(PoisonError::into_inner).push((observe::unharmed(event), event.recorded));
    });
    let settings = run.settings_at(violation.point.steps);
    let _ = recover::open(&disk, &settings, run.boot(violation.point), run.off.as_ref());
    disk.stop_observing();
    let ops = std::mem::take(&mut *ops.lock().unwrap_or_else(PoisonError::into_inner));
    let until = ops.iter().position(|(_, recorded)| *recorded > nested.steps);
    Some(until.and_then(|until| operation(ops[..=until].iter().map(|(op, _)| op), nested.bytes)))
}

/// Whatever comes of a step that a crash may strike is right.
fn relax(step: &mut Step) {
    match step {
        Step::Topic(topic) => topic.expect = Expect::Any,
        Step::DeleteTopic { expect, .. } => *expect = Expect::Any,
        Step::ListTopics { expect, expect_count } => (*expect, *expect_count) = (Expect::Any, None),
        Step::ListPartitions(list) => (list.expect, list.expect_count) = (Expect::Any, None),
        Step::Produce(produce) => {
            produce.expect = Expect::Any;
            (produce.expect_partition, produce.expect_offset) = (None, None);
        }
        Step::Consume(consume) | Step::Fetch(consume) => {
            consume.expect = Expect::Any;
            (consume.expect_count, consume.expect_value) = (None, None);
            (consume.expect_start, consume.expect_end) = (None, None);
        }
        Step::Offsets(look) => look.expect = LookUpExpect::Any,
        Step::Receive(receive) => receive.expect = ReceiveExpect::Any,
        Step::Start(start) | Step::Restart(start) => {
            let settings = std::mem::take(&mut start.settings);
            *start = Start { settings, expect: StartExpect::Any, ..Start::default() };
        }
        Step::SecondBroker { expect } => *expect = StartExpect::Any,
        Step::Verify(verify) => verify.expect_problems = None,
        Step::Fault(fault) => fault.may_miss |= !matches!(fault.kind, FaultKind::PowerLoss { .. }),
        Step::Client(branch) => branch.steps.iter_mut().for_each(relax),
        Step::Parallel(branches) => {
            branches.iter_mut().flat_map(|branch| &mut branch.steps).for_each(relax);
        }
        Step::Pipeline(steps) | Step::Repeat { steps, .. } => steps.iter_mut().for_each(relax),
        _ => {}
    }
}
