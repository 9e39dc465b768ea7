//! A scenario, executed and judged: what went wrong, if anything did, and how to see it again.

use std::fmt;
use std::sync::Arc;

use crate::executor::{self, ExecuteError};
use crate::oracle::{self, Broken};
use crate::place::Place;
use crate::scenario::{Scenario, unfold};
use crate::trace::{Event, Trace};

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
}

impl Failure {
    /// What `sim` ends with: 1, a promise was broken; 2, the scenario is wrong; 4, the harness failed.
    pub fn exit_code(&self) -> u8 {
        match self {
            Failure::Panic(words) if is_of_the_harness(words) => 4,
            Failure::Broken(_) | Failure::Unmet { .. } | Failure::Inert { .. } | Failure::Panic(_) => 1,
            Failure::Impossible { .. } => 2,
            Failure::Stuck(_) => 4,
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
        }
    }
}

/// Whether a panic was raised by the world around the broker, and not in the broker.
fn is_of_the_harness(words: &str) -> bool {
    let place = words.strip_prefix("panicked at ").unwrap_or(words).lines().next().unwrap_or_default();
    place.starts_with("sim/src/") || place.contains("/turmoil-")
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
            Failure::Inert { line, text, struck: 0, .. } => write!(
                f,
                "{}a fault never struck: {text}\n  what it was aimed at did not happen; aim it elsewhere, or say `may-miss`",
                at(*line)
            ),
            Failure::Inert { line, text, struck, due, .. } => write!(
                f,
                "{}a fault struck {struck} of {due} times: {text}\n  what it was aimed at did not happen more often; lower `times=`, or say `may-miss`",
                at(*line)
            ),
            Failure::Panic(what) => write!(f, "panicked: {what}"),
            Failure::Impossible { line, text, why, .. } => {
                write!(f, "{}a step is impossible here: {text}\n  {why}", at(*line))
            }
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
pub fn run_without(scenario: &Scenario, seed: u64, off: &[Place]) -> Outcome {
    let scenario = unfold(scenario, seed);
    match executor::execute_without(&scenario, off) {
        Ok(executed) => {
            let verdict = oracle::judge(&executed.trace);
            let mut failures: Vec<Failure> = executed.panic.into_iter().map(Failure::Panic).collect();
            failures.extend(verdict.broken.into_iter().map(Failure::Broken));
            failures.extend(of_steps(&scenario, &executed.trace));
            failures.sort_by_key(|failure| !matches!(failure, Failure::Impossible { .. }));
            Outcome { scenario, trace: executed.trace, syncs: executed.syncs, failures }
        }
        Err(ExecuteError::Stuck(why)) => Outcome {
            scenario,
            trace: Trace::default(),
            syncs: Vec::new(),
            failures: vec![Failure::Stuck(why)],
        },
    }
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
    let failure = |event: &Event| match event {
        Event::Unmet { step, expected, found } => {
            let (expected, found) = (expected.clone(), found.clone());
            Some(Failure::Unmet { step: *step, line: line(*step), text: text_of(*step), expected, found })
        }
        Event::Inert { step, text, struck, due } => {
            let (text, struck, due) = (text.clone(), *struck, *due);
            Some(Failure::Inert { step: *step, line: line(*step), text, struck, due })
        }
        Event::Impossible { step, text } => Some(Failure::Impossible {
            step: *step,
            line: line(*step),
            text: text_of(*step),
            why: text.clone(),
        }),
        _ => None,
    };
    trace.entries.iter().filter_map(|entry| failure(&entry.event)).collect()
}
