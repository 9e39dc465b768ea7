//! Every crash point of a scenario, visited without running the scenario again.
//!
//! The scenario runs once, while the disk records what is done to it and the trace notes how far that has come. Then, for
//! every prefix of the record, and for cuts inside the write that comes next: each image that the disk's profile allows a
//! power loss to leave is built, recovered by the broker's own recovery, read through the broker, and judged by the oracle
//! against the part of the trace that clients had seen by then. Images that are the same, for clients that had seen the same,
//! are visited once.
//!
//! With depth 2, the lights go out again within that recovery: at each of its disk operations, and what that leaves is
//! recovered and judged in the same way.
//!
//! Where one point has more legal images than the limit, as many are drawn from a fixed seed, and the summary says so.

mod look;
mod visit;

use faults::{Config, History, Profile};

use crate::executor::{self, ExecuteError, Recorded};
use crate::oracle::Broken;
use crate::scenario::Scenario;
use crate::trace::Trace;
use visit::Visitor;

/// How much is explored.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Which images are legal; the scenario's own profile by default.
    pub profile: Option<Profile>,
    /// 1: one power loss. 2: and another within the recovery.
    pub depth: u32,
    /// The most images of one crash point.
    pub limit: u64,
    /// The most images of one crash point within a recovery.
    pub nested_limit: u64,
    /// How many threads share the work.
    pub jobs: usize,
}

impl Default for Plan {
    fn default() -> Self {
        Self { profile: None, depth: 2, limit: 64, nested_limit: 2, jobs: 1 }
    }
}

/// What an exploration visited and found.
#[derive(Clone, Debug, Default)]
pub struct Explored {
    /// Steps in the record.
    pub operations: u64,
    /// Crash points: between steps, and inside writes.
    pub cuts: u64,
    /// Crash points with more legal images than were visited.
    pub sampled: u64,
    /// Images that were built.
    pub images: u64,
    /// Of these, those that differ, or that clients had seen different things before.
    pub distinct: u64,
    /// Recoveries after a first power loss.
    pub recoveries: u64,
    /// Recoveries after a second one, within the first.
    pub nested: u64,
    /// What broke, the earliest crash point first.
    pub violations: Vec<Violation>,
}

/// A crash point at which a promise was broken.
#[derive(Clone, Debug)]
pub struct Violation {
    /// How many steps had been taken.
    pub step: usize,
    /// What the last of them, or the one that was cut, did.
    pub operation: String,
    /// Bytes of the next write that had been taken, where it was cut.
    pub inside: Option<u64>,
    /// Which of the point's images.
    pub image: String,
    /// The operation of the recovery at which the lights went out again.
    pub nested: Option<usize>,
    /// What was broken.
    pub broken: Broken,
    /// The trace that shows it: what clients saw, the crash, the recovery, and the oracle's look.
    pub trace: Trace,
}

impl Explored {
    fn add(&mut self, other: Explored) {
        self.cuts += other.cuts;
        self.sampled += other.sampled;
        self.images += other.images;
        self.distinct += other.distinct;
        self.recoveries += other.recoveries;
        self.nested += other.nested;
        self.violations.extend(other.violations);
    }

    /// Whether all promises held.
    pub fn holds(&self) -> bool {
        self.violations.is_empty()
    }
}

/// Images and what clients had seen, by hash: only whether one was there is asked, never their order.
type Seen = fnv::FnvHashSet<(u128, usize)>;

/// Runs a scenario once and visits its crash points.
pub fn explore(scenario: &Scenario, plan: &Plan) -> Result<Explored, ExecuteError> {
    let recorded = executor::record(scenario)?;
    Ok(explore_recorded(scenario, plan, &recorded))
}

/// Visits the crash points of a run.
pub fn explore_recorded(scenario: &Scenario, plan: &Plan, recorded: &Recorded) -> Explored {
    let history = match plan.profile {
        Some(profile) => recorded.history.under(profile),
        None => recorded.history.clone(),
    };
    let jobs = plan.jobs.max(1);
    let mut explored = Explored { operations: history.len() as u64, ..Explored::default() };
    let parts: Vec<Explored> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..jobs)
            .map(|part| {
                let history = &history;
                scope.spawn(move || explore_part(scenario, plan, recorded, history, part))
            })
            .collect();
        // A panic in the broker is a finding that must not be lost.
        threads
            .into_iter()
            .map(|t| t.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    parts.into_iter().for_each(|part| explored.add(part));
    explored.violations.sort_by_key(|v| (v.step, v.inside, v.nested));
    explored
}

/// The crash points whose number, modulo the number of threads, is `part`.
fn explore_part(
    scenario: &Scenario,
    plan: &Plan,
    recorded: &Recorded,
    history: &History,
    part: usize,
) -> Explored {
    let profile = plan.profile.unwrap_or_else(|| visit::profile_of(scenario));
    let mut visitor = Visitor::new(scenario, plan, recorded, Config::new(profile));
    let mut cursor = history.cursor();
    loop {
        if cursor.position() % plan.jobs.max(1) == part {
            visitor.point(history, &cursor);
        }
        if !cursor.advance() {
            return visitor.explored;
        }
    }
}
