//! The steps of a scenario, numbered: what came of each is written down under its number.

use std::sync::Arc;

use crate::scenario::syntax::print_step;
use crate::scenario::{Branch, Step};

/// A step, and the steps in it.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its number, in the order of the file.
    pub id: u32,
    /// What it does.
    pub step: Step,
    /// Its line; of a block, the first.
    pub text: Arc<str>,
    /// The steps in it, if it is a block; of a `parallel`, one node for each client.
    pub inside: Vec<Node>,
}

/// Numbers the steps.
pub fn plan(steps: &[Step]) -> Vec<Node> {
    let mut next = 0;
    number(steps, &mut next)
}

fn number(steps: &[Step], next: &mut u32) -> Vec<Node> {
    steps.iter().map(|step| node(step, next)).collect()
}

fn node(step: &Step, next: &mut u32) -> Node {
    let id = *next;
    *next += 1;
    let inside = match step {
        Step::Client(Branch { steps, .. }) | Step::Repeat { steps, .. } | Step::Pipeline(steps) => {
            number(steps, next)
        }
        Step::Parallel(branches) => {
            branches.iter().map(|branch| node(&Step::Client(branch.clone()), next)).collect()
        }
        _ => Vec::new(),
    };
    let printed = print_step(step);
    let line = printed.lines().next().unwrap_or_default();
    let text = line.trim_end_matches('{').trim().into();
    Node { id, step: step.clone(), text, inside }
}

/// The step of this number.
pub fn numbered(nodes: &[Node], id: u32) -> Option<&Node> {
    // A block has a number before those in it: the last that does not begin behind the step holds it, or is it.
    let node = &nodes[nodes.partition_point(|node| node.id <= id).checked_sub(1)?];
    if node.id == id { Some(node) } else { numbered(&node.inside, id) }
}

/// The names of all clients but the first.
pub fn clients(steps: &[Step]) -> Vec<String> {
    let mut names = Vec::new();
    collect(steps, &mut names);
    names.sort();
    names.dedup();
    names
}

fn collect(steps: &[Step], names: &mut Vec<String>) {
    for step in steps {
        match step {
            Step::Client(branch) => {
                names.push(branch.client.clone());
                collect(&branch.steps, names);
            }
            Step::Parallel(branches) => {
                for branch in branches {
                    names.push(branch.client.clone());
                    collect(&branch.steps, names);
                }
            }
            Step::Repeat { steps, .. } => collect(steps, names),
            _ => {}
        }
    }
}
