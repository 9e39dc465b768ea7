//! A scenario in which nothing goes wrong: whether what it expects comes from what goes wrong in it, or was never to come.

use crate::scenario::{Branch, Scenario, Step};

/// The scenario without its faults, and without changes of files. What a power loss takes is what it may take.
pub(super) fn undisturbed(scenario: &Scenario) -> Scenario {
    Scenario { steps: calm(&scenario.steps), ..scenario.clone() }
}

fn calm(steps: &[Step]) -> Vec<Step> {
    steps.iter().filter(|step| !matches!(step, Step::Fault(_) | Step::Surgery { .. })).map(without).collect()
}

fn without(step: &Step) -> Step {
    let branch = |branch: &Branch| Branch { client: branch.client.clone(), steps: calm(&branch.steps) };
    match step {
        Step::Client(one) => Step::Client(branch(one)),
        Step::Parallel(several) => Step::Parallel(several.iter().map(branch).collect()),
        Step::Repeat { times, steps } => Step::Repeat { times: *times, steps: calm(steps) },
        other => other.clone(),
    }
}
