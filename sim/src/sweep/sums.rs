//! What many runs add up to: seeds, failures by kind, states with their counts. A sweep adds up its own runs, `sim merge`
//! those of many shards; both print the same tables and come to the same verdict.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::record::{Failed, Head, Promised, Record};
use crate::sometimes::State;

/// What runs add up to.
#[derive(Clone, Debug, Default)]
pub struct Sums {
    heads: Vec<Head>,
    /// The hash of each run: the same seed in two shards must have the same one.
    hashes: BTreeMap<(String, u64), String>,
    /// Whether no run can come twice, so that none has to be remembered.
    once: bool,
    runs: u64,
    states: BTreeMap<State, u64>,
    /// The states that each generator has reached.
    reached: BTreeMap<String, BTreeMap<String, u64>>,
    failures: BTreeMap<String, Kind>,
    simulated_ms: u64,
    requests: u64,
    busy_us: u64,
}

/// Failures of one kind.
#[derive(Clone, Debug)]
struct Kind {
    exit_code: u8,
    count: u64,
    generator: String,
    seed: u64,
}

impl Sums {
    /// Of one sweep, in which no run comes twice: however many there are, they take no more memory.
    pub fn of_one_sweep() -> Self {
        Self { once: true, ..Self::default() }
    }

    /// Adds what a shard was asked to do.
    pub fn asked(&mut self, head: Head) {
        self.heads.push(head);
    }

    /// Adds one run; one that is there already counts once, and must have come to the same.
    pub fn add(&mut self, record: &Record) {
        if !self.once && self.is_known(record) {
            return;
        }
        self.runs += 1;
        self.simulated_ms += record.simulated_ms;
        self.requests += record.requests;
        self.busy_us += record.took_us;
        for state in record.states() {
            *self.states.entry(state).or_default() += 1;
        }
        let reached = self.reached.entry(record.generator.clone()).or_default();
        for name in &record.reached {
            *reached.entry(name.clone()).or_default() += 1;
        }
        if let Some(failure) = &record.failure {
            self.failed(record, failure);
        }
    }

    /// Whether a run is there already; it must have come to the same then.
    fn is_known(&mut self, record: &Record) -> bool {
        let key = (record.generator.clone(), record.seed);
        let Some(hash) = self.hashes.insert(key, record.hash.clone()) else { return false };
        if hash != record.hash {
            let text = format!("hash {hash} and hash {}", record.hash);
            self.failed(record, &Failed { kind: "not deterministic".to_owned(), exit_code: 3, text });
        }
        true
    }

    fn failed(&mut self, record: &Record, failure: &Failed) {
        let kind = self.failures.entry(failure.kind.clone()).or_insert_with(|| Kind {
            exit_code: failure.exit_code,
            count: 0,
            generator: record.generator.clone(),
            seed: record.seed,
        });
        kind.count += 1;
        if record.seed < kind.seed {
            (kind.seed, kind.generator) = (record.seed, record.generator.clone());
        }
    }

    /// How many runs.
    pub fn runs(&self) -> u64 {
        self.runs
    }

    /// How many of them failed.
    pub fn failures(&self) -> u64 {
        self.failures.values().map(|kind| kind.count).sum()
    }

    /// How much simulated time went by.
    pub fn simulated_ms(&self) -> u64 {
        self.simulated_ms
    }

    /// Runs that were asked for, and that no shard has brought.
    pub fn missing(&self) -> u64 {
        let mut asked: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        for head in &self.heads {
            for generator in &head.generators {
                let range = asked.entry(generator.name.as_str()).or_insert((head.start, head.end));
                *range = (range.0.min(head.start), range.1.max(head.end));
            }
        }
        let all: u64 = asked.values().map(|(start, end)| end - start).sum();
        all.saturating_sub(self.runs())
    }

    /// States that a generator promises, and none of its runs reached.
    pub fn unreached(&self) -> Vec<(String, String)> {
        let mut unreached: Vec<(String, String)> = self
            .promised()
            .flat_map(|generator| {
                let reached = self.reached.get(&generator.name);
                let missed =
                    generator.states.iter().filter(move |s| reached.is_none_or(|r| !r.contains_key(*s)));
                missed.map(|state| (generator.name.clone(), state.clone())).collect::<Vec<_>>()
            })
            .collect();
        unreached.sort();
        unreached.dedup();
        unreached
    }

    fn promised(&self) -> impl Iterator<Item = &Promised> {
        self.heads.iter().flat_map(|head| &head.generators)
    }

    /// What `sim` ends with. A verdict about the harness outranks one about the broker: nothing else means anything then.
    pub fn exit_code(&self) -> u8 {
        self.failures.values().map(|kind| kind.exit_code).max().unwrap_or(0)
    }

    /// The states with their counts; those that were never reached last.
    pub fn table_of_states(&self) -> String {
        let mut out = format!("{:<42} {:>8} {:>7}\n", "sometimes", "seeds", "");
        let runs = self.runs().max(1);
        let mut rows: Vec<(State, u64)> =
            State::ALL.iter().map(|state| (*state, self.states.get(state).copied().unwrap_or(0))).collect();
        rows.sort_by_key(|(state, count)| (*count == 0, *state));
        for (state, count) in rows {
            let share = match count {
                0 => "never".to_owned(),
                _ => format!("{:.1} %", count as f64 * 100.0 / runs as f64),
            };
            let _ = writeln!(out, "{:<42} {count:>8} {share:>7}", state.name());
        }
        out
    }

    /// The kinds of failure, with the first seed of each.
    pub fn table_of_failures(&self) -> String {
        let mut out = format!("{:<58} {:>8} {:>12}\n", "failure", "seeds", "first seed");
        for (name, kind) in &self.failures {
            let name: String = name.chars().take(58).collect();
            let _ = writeln!(out, "{name:<58} {:>8} {:>12}  {}", kind.count, kind.seed, kind.generator);
        }
        out
    }

    /// Runs, failures, simulated time.
    pub fn summary(&self) -> String {
        let mut out = String::new();
        let mut line = |name: &str, value: String| _ = writeln!(out, "{name:<24} {value:>14}");
        line("runs", self.runs().to_string());
        line("failed", self.failures().to_string());
        line("requests", self.requests.to_string());
        line("simulated time", format!("{:.1} s", self.simulated_ms as f64 / 1e3));
        line("time on a core", format!("{:.1} s", self.busy_us as f64 / 1e6));
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(seed: u64, hash: &str, reached: &[&str]) -> Record {
        Record {
            generator: "g".into(),
            seed,
            hash: hash.into(),
            simulated_ms: 10,
            requests: 1,
            took_us: 1,
            reached: reached.iter().map(|s| (*s).to_owned()).collect(),
            failure: None,
        }
    }

    fn sums() -> Sums {
        let mut sums = Sums::default();
        let states = vec!["torn tail cut".to_owned(), "damage found".to_owned()];
        let generators = vec![Promised { name: "g".into(), path: "g.kdl".into(), states }];
        sums.asked(Head { generators, start: 0, end: 3 });
        sums
    }

    #[test]
    fn what_no_run_reached_is_named() {
        let mut sums = sums();
        sums.add(&record(0, "a", &["torn tail cut"]));
        assert_eq!(sums.unreached(), [("g".to_owned(), "damage found".to_owned())]);
        assert_eq!(sums.missing(), 2);
        sums.add(&record(1, "a", &["damage found"]));
        assert_eq!(sums.unreached(), []);
    }

    #[test]
    fn a_run_counts_once_and_must_come_to_the_same() {
        let mut sums = sums();
        sums.add(&record(0, "a", &[]));
        sums.add(&record(0, "a", &[]));
        assert_eq!((sums.runs(), sums.exit_code()), (1, 0));
        sums.add(&record(0, "b", &[]));
        assert_eq!((sums.runs(), sums.exit_code()), (1, 3));
    }
}
