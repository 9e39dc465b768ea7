//! Lists of steps, wherever they are nested. A list is known by its number in the order in which [`visit`] comes to it; so
//! is a step.

use std::ops::{ControlFlow, Range};

use crate::scenario::placeholder::in_round;
use crate::scenario::{Branch, Scenario, Step};

/// The steps of a scenario, with those in blocks; a block itself counts as none.
pub fn count(scenario: &Scenario) -> usize {
    count_of(&scenario.steps)
}

fn count_of(steps: &[Step]) -> usize {
    let one = |step: &Step| match step {
        Step::Client(Branch { steps, .. }) | Step::Repeat { steps, .. } | Step::Pipeline(steps) => {
            count_of(steps)
        }
        Step::Parallel(branches) => branches.iter().map(|branch| count_of(&branch.steps)).sum(),
        _ => 1,
    };
    steps.iter().map(one).sum()
}

/// Comes to every list of steps, the outer ones first.
fn visit(steps: &mut Vec<Step>, see: &mut dyn FnMut(&mut Vec<Step>) -> ControlFlow<()>) -> ControlFlow<()> {
    see(steps)?;
    for step in steps {
        match step {
            Step::Client(Branch { steps, .. }) | Step::Repeat { steps, .. } | Step::Pipeline(steps) => {
                visit(steps, see)?;
            }
            Step::Parallel(branches) => {
                for branch in branches {
                    visit(&mut branch.steps, see)?;
                }
            }
            _ => {}
        }
    }
    ControlFlow::Continue(())
}

/// The length of a list, where there is one of this number.
pub(super) fn len_of_list(scenario: &Scenario, list: usize) -> Option<usize> {
    let mut len = None;
    edit_list(&mut scenario.clone(), list, |steps| len = Some(steps.len()));
    len
}

/// Without these steps of a list.
pub(super) fn without_range(scenario: &Scenario, list: usize, range: Range<usize>) -> Scenario {
    let mut scenario = scenario.clone();
    edit_list(&mut scenario, list, |steps| _ = steps.drain(range));
    scenario
}

fn edit_list(scenario: &mut Scenario, list: usize, edit: impl FnOnce(&mut Vec<Step>)) {
    let mut edit = Some(edit);
    let mut number = 0;
    let _ = visit(&mut scenario.steps, &mut |steps| {
        number += 1;
        if number <= list {
            return ControlFlow::Continue(());
        }
        if let Some(edit) = edit.take() {
            edit(steps);
        }
        ControlFlow::Break(())
    });
}

/// The scenario with something else in the place of a step, for each thing that `instead` gives; `None` where there is no
/// step of this number.
pub(super) fn replacing(
    scenario: &Scenario,
    number: usize,
    instead: impl Fn(&Step) -> Vec<Vec<Step>>,
) -> Option<Vec<Scenario>> {
    let (list, at, step) = find(scenario, number)?;
    let replaced = instead(&step).into_iter().map(|steps| {
        let mut scenario = scenario.clone();
        edit_list(&mut scenario, list, |all| _ = all.splice(at..=at, steps));
        scenario
    });
    Some(replaced.collect())
}

/// The list that a step is in, its place there, and the step.
fn find(scenario: &Scenario, number: usize) -> Option<(usize, usize, Step)> {
    let mut found = None;
    let (mut before, mut list) = (0, 0);
    let _ = visit(&mut scenario.steps.clone(), &mut |steps| {
        if let Some(step) = number.checked_sub(before).and_then(|at| steps.get(at)) {
            found = Some((list, number - before, step.clone()));
            return ControlFlow::Break(());
        }
        before += steps.len();
        list += 1;
        ControlFlow::Continue(())
    });
    found
}

/// A block gives way to what is in it, or to a smaller block.
pub(super) fn without_block(scenario: &Scenario, number: usize) -> Option<Vec<Scenario>> {
    replacing(scenario, number, |step| match step {
        Step::Repeat { times, steps } => {
            let mut instead = vec![in_round(steps, 0)];
            let fewer = [times / 2, times.saturating_sub(1)].into_iter().filter(|n| *n > 0 && n < times);
            instead.extend(fewer.map(|times| vec![Step::Repeat { times, steps: steps.clone() }]));
            instead
        }
        Step::Pipeline(steps) => vec![steps.clone()],
        Step::Client(branch) => vec![branch.steps.clone()],
        Step::Parallel(branches) => {
            let all = branches.iter().flat_map(|branch| branch.steps.clone()).collect();
            let without = |i: usize| {
                let others = branches.iter().enumerate().filter(|(j, _)| i != *j);
                vec![Step::Parallel(others.map(|(_, branch)| branch.clone()).collect())]
            };
            let mut instead = vec![all];
            instead.extend((0..branches.len()).filter(|_| branches.len() > 1).map(without));
            instead
        }
        _ => Vec::new(),
    })
}
