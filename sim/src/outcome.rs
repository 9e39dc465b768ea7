//! A scenario, executed and judged: what went wrong, if anything did, and how to see it again.

use std::fmt;
use std::sync::Arc;

use crate::executor::plan::{numbered, plan};
use crate::executor::{self, ExecuteError, Executed};
use crate::oracle::{self, Broken};
use crate::scenario::{Scenario, Seeds, Step, unfold};
use crate::source_line::SourceLine;
use crate::trace::{Entry, Event, Trace};

mod missed;

/// One way in which a run did not go as it must.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// A promise was broken.
    Broken(Broken),
    /// What a step said must come of it did not.
    Unmet {
        /// The step's number.
        step: u32,
        /// Its line in the file.
        line: Option<u32>,
        /// Its text.
        text: Arc<str>,
        /// What had to come.
        expected: Arc<str>,
        /// What came.
        found: Arc<str>,
    },
    /// A fault that was aimed never struck, or not as often as it should.
    Inert {
        /// The step that aimed it.
        step: u32,
        /// Its line in the file.
        line: Option<u32>,
        /// Its text.
        text: Arc<str>,
        /// How often it has struck.
        struck: u64,
        /// How often it had to.
        due: u64,
        /// Why not, as far as the trace tells.
        why: Arc<str>,
    },
    /// The broker, or the harness, panicked.
    Panic(String),
    /// A step makes no sense where it stands.
    Impossible {
        /// The step.
        step: u32,
        /// Its line in the file.
        line: Option<u32>,
        /// Its text.
        text: Arc<str>,
        /// Why.
        why: Arc<str>,
    },
    /// The run did not come to its end.
    Stuck(String),
    /// The harness panicked before the run, or when it judged it: what it was at, and the panic's words.
    Harness(String),
}

impl From<ExecuteError> for Failure {
    fn from(why: ExecuteError) -> Self {
        match why {
            ExecuteError::Stuck(why) => Failure::Stuck(why),
            ExecuteError::Panic(words) => Failure::Panic(words),
        }
    }
}

impl Failure {
    /// What `sim` ends with: 1, a promise was broken; 2, the scenario is wrong; 4, the harness failed.
    pub fn exit_code(&self) -> u8 {
        match self {
            Failure::Panic(words) if is_of_the_harness(words) => 4,
            Failure::Broken(_) | Failure::Unmet { .. } | Failure::Inert { .. } | Failure::Panic(_) => 1,
            Failure::Impossible { .. } => 2,
            Failure::Stuck(_) | Failure::Harness(_) => 4,
        }
    }

    /// What is told first: a broken promise is one whatever else is wrong with the scenario, and a step that is impossible
    /// explains why others did not go as expected.
    fn rank(&self) -> u8 {
        match self {
            Failure::Stuck(_) | Failure::Harness(_) | Failure::Panic(_) => 0,
            Failure::Broken(_) => 1,
            Failure::Impossible { .. } => 2,
            Failure::Unmet { .. } | Failure::Inert { .. } => 3,
        }
    }

    /// What sort of failure it is.
    pub fn kind(&self) -> String {
        match self {
            Failure::Broken(broken) => format!("{} ({})", broken.promise, broken.kind),
            Failure::Unmet { .. } => "unmet expectation".to_owned(),
            Failure::Inert { .. } => "inert fault".to_owned(),
            Failure::Panic(what) => format!("panic: {}", what.lines().next().unwrap_or_default()),
            Failure::Impossible { .. } => "impossible step".to_owned(),
            Failure::Stuck(_) => "stuck".to_owned(),
            Failure::Harness(what) => format!("harness: {}", what.lines().next().unwrap_or_default()),
        }
    }
}

/// What `sim` ends with after several runs that each end with one of these. A failure of the harness outranks everything, since
/// nothing else means anything then; a broken promise outranks a wrong scenario, since it is one whatever else is wrong.
pub fn worst(codes: impl IntoIterator<Item = u8>) -> u8 {
    let rank = |code: &u8| match code {
        0 => 0,
        2 => 1,
        1 => 2,
        code => *code,
    };
    codes.into_iter().max_by_key(rank).unwrap_or(0)
}

/// Whether a panic was raised by the world around the broker, and not in the broker.
fn is_of_the_harness(words: &str) -> bool {
    let place = words.strip_prefix("panicked at ").unwrap_or(words).lines().next().unwrap_or_default();
    place.starts_with("sim/src/") || place.starts_with("faults/src/") || place.contains("/turmoil-")
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Broken(broken) => write!(f, "{broken}"),
            Failure::Unmet { line, text, expected, found, .. } => {
                writeln!(f, "{}a step did not go as expected: {text}", at(*line))?;
                writeln!(f, "  expected  {expected}")?;
                write!(f, "  found     {found}")
            }
            Failure::Inert { line, text, struck: 0, why, .. } => {
                write!(f, "{}a fault never struck: {text}\n  {why}", at(*line))
            }
            Failure::Inert { line, text, struck, due, .. } => write!(
                f,
                "{}a fault struck {struck} of {due} times: {text}\n  \
                 what it was aimed at did not happen more often; lower `times=`, or say `may-miss`",
                at(*line)
            ),
            Failure::Panic(what) => write!(f, "panicked: {what}"),
            Failure::Impossible { line, text, why, .. } => {
                write!(f, "{}a step is impossible here: {text}\n  {why}", at(*line))
            }
            Failure::Harness(what) => write!(f, "the harness failed while {what}"),
            Failure::Stuck(why) => write!(f, "the harness gave up: {why}"),
        }
    }
}

fn at(line: Option<u32>) -> String {
    line.map_or_else(String::new, |line| format!("line {line}: "))
}

/// What came of a scenario.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The scenario as it was executed: explicit, with one seed.
    pub scenario: Scenario,
    /// What happened.
    pub trace: Trace,
    /// The places in the broker that synced.
    pub syncs: Vec<faults::Site>,
    /// What went wrong, worst and first first.
    pub failures: Vec<Failure>,
}

impl Outcome {
    /// The seed it was run with.
    pub fn seed(&self) -> u64 {
        self.scenario.seeds.start
    }

    /// Whether everything went as it must.
    pub fn holds(&self) -> bool {
        self.failures.is_empty()
    }

    /// What `sim` ends with.
    pub fn exit_code(&self) -> u8 {
        self.failures.first().map_or(0, Failure::exit_code)
    }
}

/// Executes a scenario with one seed, and judges it.
pub fn run(scenario: &Scenario, seed: u64) -> Outcome {
    run_without(scenario, seed, &[])
}

/// As [`run`], on a broker in which these places do not sync.
pub fn run_without(scenario: &Scenario, seed: u64, off: &[SourceLine]) -> Outcome {
    run_by(scenario, seed, off, unfold, failures)
}

/// As [`run_without`], with these for what is the harness's alone. A panic in them is a failure of this run like any other, so
/// that whoever runs many learns which one it was.
fn run_by(
    scenario: &Scenario,
    seed: u64,
    off: &[SourceLine],
    unfold: impl Fn(&Scenario, u64) -> Scenario,
    judge: impl Fn(&Scenario, &Trace, Option<String>) -> Vec<Failure>,
) -> Outcome {
    let failed = |scenario: Scenario, failure| Outcome {
        scenario,
        trace: Trace::default(),
        syncs: Vec::new(),
        failures: vec![failure],
    };
    let scenario = match caught("unfolding the scenario", || unfold(scenario, seed)) {
        Ok(explicit) => explicit,
        Err(what) => {
            let seeded = Scenario { seeds: Seeds::one(seed), ..scenario.clone() };
            return failed(seeded, Failure::Harness(what));
        }
    };
    match executor::execute_without(&scenario, off) {
        Ok(Executed { trace, panic, syncs }) => {
            let judged = caught("judging the run", || judge(&scenario, &trace, panic.clone()));
            let failures = judged.unwrap_or_else(|what| {
                panic.into_iter().map(Failure::Panic).chain([Failure::Harness(what)]).collect()
            });
            Outcome { scenario, trace, syncs, failures }
        }
        Err(why) => failed(scenario, why.into()),
    }
}

/// What this gives, or what the harness panicked at.
fn caught<T>(what: &str, work: impl FnOnce() -> T) -> Result<T, String> {
    executor::panics::caught(work).map_err(|words| format!("{what}: {words}"))
}

/// What went wrong in a run of this scenario, worst and first first.
pub(crate) fn failures(scenario: &Scenario, trace: &Trace, panic: Option<String>) -> Vec<Failure> {
    let mut failures: Vec<Failure> = panic.into_iter().map(Failure::Panic).collect();
    failures.extend(oracle::judge(trace).broken.into_iter().map(Failure::Broken));
    failures.extend(of_steps(scenario, trace));
    failures.sort_by_key(Failure::rank);
    failures
}

/// What the steps themselves said was wrong.
fn of_steps(scenario: &Scenario, trace: &Trace) -> Vec<Failure> {
    let text_of = |step: u32| {
        let texts = trace.entries.iter().find_map(|entry| match &entry.event {
            Event::Step { step: number, text } if *number == step => Some(text.clone()),
            _ => None,
        });
        texts.unwrap_or_else(|| "".into())
    };
    let line = |step: u32| scenario.line_of(step);
    let armed = |until: usize, step: u32| {
        let is_it = |entry: &Entry| matches!(entry.event, Event::Step { step: number, .. } if number == step);
        let entries = &trace.entries[..until];
        &entries[entries.iter().rposition(is_it).unwrap_or(0)..]
    };
    let failure = |(at, entry): (usize, &Entry)| match &entry.event {
        Event::Unmet { step, expected, found } => {
            let (expected, found) = (expected.clone(), found.clone());
            Some(Failure::Unmet { step: *step, line: line(*step), text: text_of(*step), expected, found })
        }
        Event::Inert { step, text, struck, due } => {
            let steps = plan(&scenario.steps);
            let why = match numbered(&steps, *step).map(|node| &node.step) {
                Some(Step::Fault(fault)) => missed::why(fault, armed(at, *step)).into(),
                _ => missed::nothing().into(),
            };
            let (text, struck, due) = (text.clone(), *struck, *due);
            Some(Failure::Inert { step: *step, line: line(*step), text, struck, due, why })
        }
        Event::Impossible { step, text } => Some(Failure::Impossible {
            step: *step,
            line: line(*step),
            text: text_of(*step),
            why: text.clone(),
        }),
        _ => None,
    };
    trace.entries.iter().enumerate().filter_map(failure).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_the_brokers_or_the_harnesss_by_its_place() {
        for (place, code) in [
            ("broker/src/topic.rs:7:1", 1),
            ("sim/src/world/net.rs:7:1", 4),
            ("faults/src/state.rs:7:1", 4),
            ("registry/src/index/turmoil-0.7.2/src/net.rs:7:1", 4),
        ] {
            assert_eq!(Failure::Panic(format!("panicked at {place}:\nwords")).exit_code(), code, "{place}");
        }
    }

    /// Whoever runs thousands of seeds has to be told which of them it was.
    #[test]
    fn a_panic_of_the_harness_is_a_failure_of_the_run_that_it_came_in() {
        let scenario = crate::scenario::parse("t.kdl", "scenario \"t\"\ntopic orders\n").expect("it is one");
        let unfolding = run_by(&scenario, 7, &[], |_, _| panic!("no way to unfold it"), failures);
        let judging = run_by(&scenario, 7, &[], unfold, |_, _, _| panic!("no way to judge it"));
        for (outcome, words) in [
            (&unfolding, "the harness failed while unfolding the scenario: "),
            (&judging, "the harness failed while judging the run: "),
        ] {
            assert_eq!((outcome.seed(), outcome.exit_code()), (7, 4), "{:?}", outcome.failures);
            let said = outcome.failures[0].to_string();
            assert!(said.contains(words) && said.contains("no way to"), "{said}");
        }
        assert!(!judging.trace.entries.is_empty(), "what happened can be looked at");
    }

    /// A record that was lost is told before what is wrong with the scenario.
    #[test]
    fn a_broken_promise_is_told_before_an_impossible_step() {
        let (text, step): (Arc<str>, u32) = ("crash".into(), 0);
        let broken = Broken {
            promise: crate::oracle::Promise::Kept,
            kind: "lost",
            what: String::new(),
            expected: String::new(),
            found: String::new(),
            entry: 0,
            because: Vec::new(),
        };
        let impossible = Failure::Impossible { step, line: None, text: text.clone(), why: text.clone() };
        let why = text.clone();
        let inert = Failure::Inert { step, line: None, text, struck: 0, due: 1, why };
        let mut failures = [inert, impossible, Failure::Broken(broken)];
        failures.sort_by_key(Failure::rank);
        let codes: Vec<u8> = failures.iter().map(Failure::exit_code).collect();
        assert_eq!(codes, [1, 2, 1], "{failures:?}");
    }

    #[test]
    fn the_worst_of_several_runs_is_what_sim_ends_with() {
        assert_eq!(worst([]), 0);
        assert_eq!(worst([0, 2, 0]), 2);
        assert_eq!(worst([2, 1, 2]), 1);
        assert_eq!(worst([1, 4, 3]), 4);
        assert_eq!(worst([3, 1]), 3);
    }
}
