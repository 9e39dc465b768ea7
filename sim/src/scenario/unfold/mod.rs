//! `generate : seed → scenario`. What a scenario leaves open (`draw`, `each`, `random`) is written out as explicit steps: a pure
//! function of the scenario and the seed, with nothing of a world in it. The result is printed, edited, shrunk and committed
//! like any scenario, and outlives a change of this file.
//!
//! Randomness comes in independent streams, so that a new kind of step does not shift the sizes of all records after it:
//!
//! | stream | draws |
//! | --- | --- |
//! | 0 | the world: values of drawn lines, weights and sizes of a random block |
//! | 1 | which move comes next |
//! | 2 | the workload: topics, keys, sizes, counts |
//! | 3 | faults: what strikes, where, how much of it |
//!
//! A random block writes only what can be executed and judged: files are changed only while the broker is down, every crash
//! is followed by a start, every fault may miss and is gone before the next move, and every wait is short.

mod failing;
mod moves;

pub use moves::MOVES;

use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use self::moves::Mover;
use super::random::alternatives;
use super::syntax::{drawn_head, drawn_step};
use super::{Branch, Draw, DrawHow, Lines, Random, Scenario, Seeds, Step, lines};

/// One stream of random numbers for each of the subsystems in the table above.
struct Streams {
    world: ChaCha8Rng,
    moves: ChaCha8Rng,
    workload: ChaCha8Rng,
    faults: ChaCha8Rng,
}

impl Streams {
    fn new(seed: u64) -> Self {
        let stream = |number| {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            rng.set_stream(number);
            rng
        };
        Self { world: stream(0), moves: stream(1), workload: stream(2), faults: stream(3) }
    }
}

/// The explicit scenario that this seed makes of a scenario. One that leaves nothing open comes back as it is, with this
/// seed as its only one.
#[must_use]
pub fn unfold(scenario: &Scenario, seed: u64) -> Scenario {
    let mut unfolding = Unfolding {
        streams: Streams::new(seed),
        turn: seed,
        topics: Vec::new(),
        standing: scenario.lines.0.iter(),
        lines: Vec::new(),
    };
    let mut explicit = Scenario {
        seeds: Seeds::one(seed),
        draws: Vec::new(),
        steps: Vec::new(),
        // An explicit scenario is too small to be held to what many seeds must reach.
        sometimes: if is_explicit(scenario) { scenario.sometimes.clone() } else { Vec::new() },
        ..scenario.clone()
    };
    for draw in &scenario.draws {
        let choice = unfolding.choice(draw);
        merge(&mut explicit, &drawn_head(draw, &choice));
    }
    explicit.steps = unfolding.steps(&scenario.steps);
    explicit.lines = Lines(unfolding.lines);
    explicit
}

/// Whether a seed has nothing to write out.
#[must_use]
pub fn is_explicit(scenario: &Scenario) -> bool {
    fn all(steps: &[Step]) -> bool {
        steps.iter().all(|step| match step {
            Step::Draw(_) | Step::Random(_) => false,
            Step::Client(Branch { steps, .. }) | Step::Repeat { steps, .. } | Step::Pipeline(steps) => {
                all(steps)
            }
            Step::Parallel(branches) => branches.iter().all(|branch| all(&branch.steps)),
            _ => true,
        })
    }
    scenario.draws.is_empty() && all(&scenario.steps)
}

/// Adds what a drawn line of the head says to what the head says already.
fn merge(into: &mut Scenario, head: &Scenario) {
    into.broker = into.broker.with(&head.broker);
    let (disk, change) = (&mut into.disk, head.disk.clone());
    disk.profile = change.profile.or(disk.profile);
    disk.capacity = change.capacity.or(disk.capacity);
    disk.latency = change.latency.or(disk.latency);
    disk.sync_latency = change.sync_latency.or(disk.sync_latency);
    disk.read_only = change.read_only.or(disk.read_only);
    disk.max_open_files = change.max_open_files.or(disk.max_open_files);
    let (net, change) = (&mut into.net, head.net.clone());
    net.latency = change.latency.or(net.latency);
    net.chunk_bytes = change.chunk_bytes.or(net.chunk_bytes);
    net.fail_rate = change.fail_rate.or(net.fail_rate);
    net.repair_rate = change.repair_rate.or(net.repair_rate);
    net.timeout = change.timeout.or(net.timeout);
    net.accept_errors = change.accept_errors.or(net.accept_errors);
    into.clock.at = head.clock.at.or(into.clock.at);
    into.clock.frozen = head.clock.frozen.or(into.clock.frozen);
}

/// A topic that a random block may use.
#[derive(Clone, Debug)]
struct Topic {
    name: String,
    partitions: u32,
}

/// What a seed has written so far.
struct Unfolding<'a> {
    streams: Streams,
    /// What is left of the seed for lines that take their values in turn.
    turn: u64,
    /// The topics that the steps so far have created.
    topics: Vec<Topic>,
    /// The lines of the steps that are still to be unfolded.
    standing: std::slice::Iter<'a, u32>,
    /// Of each step that was written, the line that it comes from.
    lines: Vec<u32>,
}

impl Unfolding<'_> {
    fn steps(&mut self, steps: &[Step]) -> Vec<Step> {
        let mut out = Vec::new();
        for step in steps {
            self.step(step, &mut out);
        }
        out
    }

    fn step(&mut self, step: &Step, out: &mut Vec<Step>) {
        match step {
            Step::Draw(draw) => {
                let choice = self.choice(draw);
                let line = self.next_line();
                if let Some(step) = drawn_step(draw, &choice) {
                    self.remember(&step);
                    self.lines.extend(line);
                    out.push(step);
                }
            }
            Step::Random(random) => {
                let line = self.next_line();
                let before = out.len();
                self.random(random, out);
                let written = out[before..].iter().map(lines::count).sum();
                self.lines.extend(line.into_iter().flat_map(|line| std::iter::repeat_n(line, written)));
            }
            Step::Client(branch) => out.push(Step::Client(self.branch(branch))),
            Step::Parallel(branches) => {
                self.stays();
                out.push(Step::Parallel(branches.iter().map(|branch| self.branch(branch)).collect()));
            }
            Step::Repeat { times, steps } => {
                self.stays();
                out.push(Step::Repeat { times: *times, steps: self.steps(steps) });
            }
            Step::Pipeline(steps) => {
                self.stays();
                out.push(Step::Pipeline(self.steps(steps)));
            }
            step => {
                self.stays();
                self.remember(step);
                out.push(step.clone());
            }
        }
    }

    fn next_line(&mut self) -> Option<u32> {
        self.standing.next().copied()
    }

    /// The next step is written as it stands.
    fn stays(&mut self) {
        let line = self.next_line();
        self.lines.extend(line);
    }

    fn branch(&mut self, branch: &Branch) -> Branch {
        self.stays();
        Branch { client: branch.client.clone(), steps: self.steps(&branch.steps) }
    }

    fn remember(&mut self, step: &Step) {
        match step {
            Step::Topic(topic) => {
                self.topics.push(Topic { name: topic.name.clone(), partitions: topic.partitions.max(1) });
            }
            Step::DeleteTopic { name, .. } => self.topics.retain(|topic| topic.name != *name),
            _ => {}
        }
    }

    /// Which value each property of a drawn line gets.
    fn choice(&mut self, draw: &Draw) -> Vec<usize> {
        let mut choice = Vec::new();
        for (_, values) in &draw.props {
            let count = alternatives(values).len().max(1);
            choice.push(match draw.how {
                DrawHow::AtRandom => self.streams.world.random_range(0..count),
                DrawHow::InTurn => {
                    let this = self.turn % count as u64;
                    self.turn /= count as u64;
                    usize::try_from(this).unwrap_or(0)
                }
            });
        }
        choice
    }

    fn random(&mut self, random: &Random, out: &mut Vec<Step>) {
        if self.topics.is_empty() {
            let step = Step::Topic(super::CreateTopic { name: "orders".to_owned(), ..Default::default() });
            self.remember(&step);
            out.push(step);
        }
        let world = &mut self.streams.world;
        let steps = random.steps.choose(world).copied().unwrap_or(0);
        let keys = random.keys.choose(world).copied().unwrap_or(1).max(1);
        let size = random.size.choose(world).copied().unwrap_or(0);
        let weights: Vec<(&str, u32)> = random
            .weights
            .iter()
            .map(|(name, weights)| (name.as_str(), weights.choose(world).copied().unwrap_or(0)))
            .filter(|(_, weight)| *weight > 0)
            .collect();
        let copied = random.copied.choose(world).copied().unwrap_or(0);
        let (streams, topics) = (&mut self.streams, &mut self.topics);
        let mut mover = Mover { streams, topics, keys, size, copied, made: 0 };
        // A scenario that was read has no more; of one that was not, the last moves come less often.
        let sum = weights.iter().fold(0, |sum: u32, (_, weight)| sum.saturating_add(*weight));
        for _ in 0..steps {
            if sum > 0 {
                let drawn = mover.streams.moves.random_range(0..sum);
                mover.go(weighted(&weights, drawn), out);
            }
        }
    }
}

/// The name in whose share of the sum a number falls.
fn weighted<'a>(weights: &[(&'a str, u32)], mut drawn: u32) -> &'a str {
    for (name, weight) in weights {
        match drawn.checked_sub(*weight) {
            Some(rest) => drawn = rest,
            None => return name,
        }
    }
    ""
}

#[cfg(test)]
mod tests;
