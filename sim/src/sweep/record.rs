//! One line of JSON for each run, and one before them that says what was asked for: what `--out` writes, and what
//! `sim merge` adds up.

use serde::{Deserialize, Serialize};

use super::{Generator, Plan, Ran};
use crate::sometimes::State;
use crate::trace::{Event, Trace};

/// A line of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "lowercase")]
pub enum Line {
    /// What a shard was asked to do.
    Sweep(Head),
    /// What came of one run.
    Run(Record),
}

/// What a shard was asked to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The generators, by name.
    pub generators: Vec<Promised>,
    /// The first seed.
    pub start: u64,
    /// The one after the last.
    pub end: u64,
}

/// A generator, and the states that it promises to reach.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Promised {
    /// Its name.
    pub name: String,
    /// Its file, for commands to paste.
    pub path: String,
    /// The states.
    pub states: Vec<String>,
}

/// What came of one run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The generator's name.
    pub generator: String,
    /// The seed.
    pub seed: u64,
    /// The hash of its trace, in hexadecimal: a number of 64 bits is more than JSON's readers agree about.
    pub hash: String,
    /// How much simulated time went by.
    pub simulated_ms: u64,
    /// How many requests clients made.
    pub requests: u64,
    /// How long its thread was on a core, in microseconds.
    pub took_us: u64,
    /// The states that it was in.
    pub reached: Vec<String>,
    /// What went wrong.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub failure: Option<Failed>,
}

/// What went wrong in a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    /// Promise and kind.
    pub kind: String,
    /// What `sim` ends with.
    pub exit_code: u8,
    /// In full.
    pub text: String,
}

impl Head {
    /// What this plan asks for.
    pub fn of(plan: &Plan) -> Self {
        let promised = |g: &Generator| Promised {
            name: g.name.clone(),
            path: g.path.display().to_string(),
            states: g.scenario.sometimes.clone(),
        };
        Self {
            generators: plan.generators.iter().map(promised).collect(),
            start: plan.seeds.start,
            end: plan.seeds.end,
        }
    }
}

impl Record {
    /// Of this run.
    pub fn of(plan: &Plan, ran: &Ran) -> Self {
        let generator = plan.generators.get(ran.generator);
        let first = ran.failed.as_ref().and_then(|outcome| outcome.failures.first());
        let broken = first.map(|failure| Failed {
            kind: failure.kind(),
            exit_code: failure.exit_code(),
            text: failure.to_string(),
        });
        let differs = ran.differs.as_ref().map(|difference| Failed {
            kind: "not deterministic".to_owned(),
            exit_code: 3,
            text: difference.to_string(),
        });
        Self {
            generator: generator.map_or_else(String::new, |g| g.name.clone()),
            seed: ran.seed,
            hash: format!("{:016x}", ran.hash),
            simulated_ms: ran.simulated_ms,
            requests: ran.requests,
            took_us: u64::try_from(ran.took.as_micros()).unwrap_or(u64::MAX),
            reached: ran.states.iter().map(|state| state.name().to_owned()).collect(),
            failure: differs.or(broken),
        }
    }

    /// The states of this version that the record names; another version may know others.
    pub fn states(&self) -> impl Iterator<Item = State> + '_ {
        self.reached.iter().filter_map(|name| State::named(name))
    }
}

/// How many requests clients made, the oracle's own not counted.
pub fn requests(trace: &Trace) -> u64 {
    let asked = trace.entries.iter().filter(|e| matches!(e.event, Event::Call { probe: false, .. }));
    asked.count() as u64
}
