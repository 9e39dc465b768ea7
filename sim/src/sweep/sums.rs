//! What many runs add up to: seeds, failures by kind, states with their counts. A sweep adds up its own runs, `sim merge`
//! those of many shards; both print the same tables and come to the same verdict.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::Range;

use super::record::{Failed, Head, Promised, Record};
use crate::outcome::worst;
use crate::sometimes::State;

/// What runs add up to.
#[derive(Clone, Debug, Default)]
pub struct Sums {
    heads: Vec<Head>,
    /// Each run by generator and seed: the same one in two shards must have come to the same.
    known: BTreeMap<String, BTreeMap<u64, Known>>,
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

/// What is known of a run.
#[derive(Clone, Debug)]
struct Known {
    hash: String,
    /// How it failed, where it did.
    failure: Option<String>,
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
        self.simulated_ms = self.simulated_ms.saturating_add(record.simulated_ms);
        self.requests = self.requests.saturating_add(record.requests);
        self.busy_us = self.busy_us.saturating_add(record.took_us);
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
        let kind = record.failure.as_ref().map(|failure| failure.kind.clone());
        let runs = self.known.entry(record.generator.clone()).or_default();
        let Some(known) = runs.get_mut(&record.seed) else {
            runs.insert(record.seed, Known { hash: record.hash.clone(), failure: kind });
            return false;
        };
        let hash = known.hash.clone();
        // A shard that asked another process too, or had less patience, has found out more.
        let news = record.failure.as_ref().filter(|_| known.failure != kind);
        if news.is_some() {
            known.failure = kind;
        }
        if let Some(failure) = news {
            self.failed(record, failure);
        }
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

    /// Runs that were asked for, and that no shard has brought: of each generator, seeds in the ranges of its shards. Of runs
    /// that are added up as [`Sums::of_one_sweep`] none is remembered, so all are missing.
    pub fn missing(&self) -> u64 {
        let mut asked: BTreeMap<&str, Vec<Range<u64>>> = BTreeMap::new();
        for head in &self.heads {
            for generator in &head.generators {
                asked.entry(generator.name.as_str()).or_default().push(head.start..head.end);
            }
        }
        let missing = |(generator, ranges): (&str, Vec<Range<u64>>)| -> u64 {
            let runs = self.known.get(generator);
            let of = |range: Range<u64>| {
                let brought = runs.map_or(0, |runs| runs.range(range.clone()).count() as u64);
                (range.end - range.start).saturating_sub(brought)
            };
            apart(ranges).into_iter().map(of).fold(0, u64::saturating_add)
        };
        asked.into_iter().map(missing).fold(0, u64::saturating_add)
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
        worst(self.failures.values().map(|kind| kind.exit_code))
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

/// The same numbers in ranges that do not overlap.
fn apart(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.retain(|range| !range.is_empty());
    ranges.sort_by_key(|range| range.start);
    let mut apart: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match apart.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => apart.push(range),
        }
    }
    apart
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

    fn head(generator: &str, start: u64, end: u64) -> Head {
        let states = vec!["torn tail cut".to_owned(), "damage found".to_owned()];
        let generators = vec![Promised { name: generator.into(), path: "g.kdl".into(), states }];
        Head { generators, start, end }
    }

    fn sums() -> Sums {
        let mut sums = Sums::default();
        sums.asked(head("g", 0, 3));
        sums
    }

    fn failing(seed: u64, kind: &str, exit_code: u8) -> Record {
        let failure = Failed { kind: kind.into(), exit_code, text: String::new() };
        Record { failure: Some(failure), ..record(seed, "a", &[]) }
    }

    /// Asked for are the seeds of each generator that are in one of its ranges, and not those between.
    #[test]
    fn what_is_missing_is_counted_for_each_generator_and_range() {
        for (asked, brought, missing) in [
            (vec![("g", 0, 10), ("g", 100, 110)], vec![("g", 0, 10), ("g", 100, 110)], 0),
            (vec![("g", 0, 10), ("g", 100, 110)], vec![("g", 0, 10)], 10),
            (vec![("g", 0, 10), ("g", 5, 15), ("g", 15, 20)], vec![("g", 0, 18)], 2),
            (vec![("g", 0, 10), ("h", 0, 10)], vec![("g", 0, 20)], 10),
            (vec![("g", 0, 10)], vec![("h", 0, 10)], 10),
            (vec![("g", 10, 0)], vec![("g", 0, 1)], 0),
            (vec![("g", 0, u64::MAX), ("h", 0, u64::MAX)], vec![("g", 0, 1)], u64::MAX),
        ] {
            let mut sums = Sums::default();
            asked.iter().for_each(|(generator, start, end)| sums.asked(head(generator, *start, *end)));
            for (generator, start, end) in brought {
                for seed in start..end {
                    sums.add(&Record { generator: generator.into(), ..record(seed, "a", &[]) });
                }
            }
            assert_eq!(sums.missing(), missing, "{asked:?}");
        }
    }

    #[test]
    fn a_failure_counts_whichever_shard_comes_first() {
        let ok = record(0, "a", &[]);
        let failed = failing(0, "P2 (lost)", 1);
        for order in [[&ok, &failed], [&failed, &ok], [&failed, &failed]] {
            let mut sums = sums();
            order.into_iter().for_each(|record| sums.add(record));
            assert_eq!((sums.runs(), sums.failures(), sums.exit_code()), (1, 1, 1));
        }
    }

    #[test]
    fn a_wrong_scenario_hides_no_broken_promise() {
        let mut sums = sums();
        sums.add(&failing(0, "impossible step", 2));
        sums.add(&failing(1, "P2 (lost)", 1));
        assert_eq!(sums.exit_code(), 1);
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

    /// A file may say anything.
    #[test]
    fn what_is_more_than_a_number_can_say_is_as_much_as_it_can() {
        let mut sums = sums();
        for seed in 0..2 {
            let most = u64::MAX;
            sums.add(&Record { simulated_ms: most, requests: most, took_us: most, ..record(seed, "a", &[]) });
        }
        assert_eq!((sums.runs(), sums.simulated_ms()), (2, u64::MAX));
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
