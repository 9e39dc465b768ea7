//! What there is to do, and threads that do it.

use std::ops::{ControlFlow, Range};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::again::{Difference, Other};
use super::clock::Stopwatch;
use crate::executor::panics::caught;
use crate::outcome::{Outcome, run};
use crate::report::SIM;
use crate::scenario::Scenario;
use crate::sometimes::{self, States};

/// A scenario whose seeds are run.
#[derive(Clone, Debug)]
pub struct Generator {
    /// Its file.
    pub path: PathBuf,
    /// Its name, as in `generators::everyday`.
    pub name: String,
    /// What is in it.
    pub scenario: Scenario,
}

/// What to do.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Each of these …
    pub generators: Vec<Generator>,
    /// … with each of these seeds …
    pub seeds: Range<u64>,
    /// … of which this shard takes those that leave the first number when divided by the second.
    pub shard: (u64, u64),
    /// How many at the same time.
    pub jobs: usize,
    /// No run begins after this time.
    pub budget: Option<Duration>,
    /// A single run that takes longer is a failure of the harness.
    pub patience: Duration,
    /// The program that runs each seed a second time, where that is asked for.
    pub double_check: Option<PathBuf>,
    /// Whether to go on after a failure.
    pub keep_going: bool,
}

impl Plan {
    /// How many runs that is.
    pub fn runs(&self) -> u64 {
        let first = self.first().filter(|first| *first < self.seeds.end);
        let seeds = first.map_or(0, |first| (self.seeds.end - 1 - first) / self.shard.1 + 1);
        seeds.saturating_mul(self.generators.len() as u64)
    }

    /// The first seed of this shard, where one is a number.
    fn first(&self) -> Option<u64> {
        let (shard, of) = self.shard;
        let before = self.seeds.start % of;
        let ahead = if before <= shard { shard - before } else { of - (before - shard) };
        self.seeds.start.checked_add(ahead)
    }

    /// The nth run: all generators take a seed before any takes the next.
    fn nth(&self, n: u64) -> (usize, u64) {
        let count = self.generators.len() as u64;
        let first = self.first().unwrap_or(self.seeds.start);
        (usize::try_from(n % count).unwrap_or(0), first + n / count * self.shard.1)
    }
}

/// What came of one run.
#[derive(Debug)]
pub struct Ran {
    /// The generator's place in the plan.
    pub generator: usize,
    /// The seed.
    pub seed: u64,
    /// The hash of its trace.
    pub hash: u64,
    /// How much simulated time went by.
    pub simulated_ms: u64,
    /// How many requests clients made, the oracle's own not counted.
    pub requests: u64,
    /// The states that it was in.
    pub states: States,
    /// How long its thread was on a core.
    pub took: Duration,
    /// The run itself, where it failed.
    pub failed: Option<Box<Outcome>>,
    /// How the other process came to something else, where it did.
    pub differs: Option<Difference>,
}

impl Ran {
    fn has_failed(&self) -> bool {
        self.failed.is_some() || self.differs.is_some()
    }
}

/// How a sweep ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// All is done.
    Done,
    /// The time was up.
    Budget,
    /// Whoever looks on wanted no more.
    Interrupted,
    /// A run failed.
    Failed,
    /// A run did not come to its end, or the other process did not answer.
    Harness(String),
}

/// What the threads share. They are not waited for where one of them hangs, so it is theirs.
struct Shared {
    plan: Plan,
    next: AtomicU64,
    stop: AtomicBool,
    /// What each thread is at, and since when.
    at: Vec<Mutex<Option<(usize, u64, Instant)>>>,
}

/// What a thread tells.
enum Told {
    Ran(Box<Ran>),
    Broken(String),
}

/// How often the one who waits looks at the clock.
const TICK: Duration = Duration::from_millis(100);

/// Runs them all; `each` sees each result as it comes, and `None` now and then in between, and says whether to begin more. A thread
/// that hangs cannot be stopped: it is left behind, and ends with the process.
pub fn sweep(plan: &Plan, each: impl FnMut(Option<Ran>) -> ControlFlow<()>) -> End {
    let shared = Arc::new(Shared {
        plan: plan.clone(),
        next: AtomicU64::new(0),
        stop: AtomicBool::new(false),
        at: (0..plan.jobs).map(|_| Mutex::default()).collect(),
    });
    let (tell, told) = mpsc::sync_channel(1024);
    let mut threads = Vec::new();
    let mut unstarted = None;
    for job in 0..plan.jobs {
        let (mine, tell) = (shared.clone(), tell.clone());
        match std::thread::Builder::new().spawn(move || mine.work(job, &tell)) {
            Ok(thread) => threads.push(thread),
            Err(e) => {
                shared.stop.store(true, Ordering::Relaxed);
                let jobs = plan.jobs;
                unstarted = Some(format!("thread {} of {jobs} does not start: {e}; lower `--jobs`", job + 1));
                break;
            }
        }
    }
    drop(tell);
    let end = match shared.wait(&told, each) {
        Ok(end) => end,
        Err(stuck) => return End::Harness(stuck),
    };
    for thread in threads {
        if let Err(panic) = thread.join() {
            std::panic::resume_unwind(panic);
        }
    }
    unstarted.map_or(end, End::Harness)
}

impl Shared {
    /// Hears all that the threads tell; an error where one of them hangs.
    #[allow(clippy::disallowed_methods)] // budget and patience are real time; no run sees them
    fn wait(
        &self,
        told: &mpsc::Receiver<Told>,
        mut each: impl FnMut(Option<Ran>) -> ControlFlow<()>,
    ) -> Result<End, String> {
        let (began, mut looked) = (Instant::now(), Instant::now());
        let mut end = End::Done;
        loop {
            let more = match told.recv_timeout(TICK) {
                Ok(Told::Ran(ran)) => {
                    if ran.has_failed() && !self.plan.keep_going {
                        end = End::Failed;
                    }
                    each(Some(*ran))
                }
                Ok(Told::Broken(why)) => {
                    end = End::Harness(why);
                    self.stop.store(true, Ordering::Relaxed);
                    ControlFlow::Continue(())
                }
                Err(RecvTimeoutError::Timeout) => each(None),
                Err(RecvTimeoutError::Disconnected) => return Ok(end),
            };
            if more.is_break() && !self.stop.swap(true, Ordering::Relaxed) {
                end = End::Interrupted;
            }
            if looked.elapsed() >= TICK {
                looked = Instant::now();
                self.stuck().map_or(Ok(()), Err)?;
            }
            let over = self.plan.budget.is_some_and(|budget| began.elapsed() >= budget);
            if over && !self.stop.swap(true, Ordering::Relaxed) {
                end = End::Budget;
            }
        }
    }

    /// Takes one run after the other, until there is none or somebody says stop.
    fn work(&self, job: usize, tell: &mpsc::SyncSender<Told>) {
        let mut others: Vec<Option<Other>> = self.plan.generators.iter().map(|_| None).collect();
        self.work_by(tell, |generator, seed| self.one(job, generator, seed, &mut others));
    }

    fn work_by(&self, tell: &mpsc::SyncSender<Told>, mut one: impl FnMut(usize, u64) -> Result<Ran, String>) {
        let runs = self.plan.runs();
        while !self.stop.load(Ordering::Relaxed) {
            let n = self.next.fetch_add(1, Ordering::Relaxed);
            if n >= runs {
                break;
            }
            let (generator, seed) = self.plan.nth(n);
            let told = match caught(|| one(generator, seed)) {
                Ok(Ok(ran)) => Told::Ran(Box::new(ran)),
                Ok(Err(why)) => Told::Broken(why),
                Err(words) => Told::Broken(self.panicked(generator, seed, &words)),
            };
            if matches!(&told, Told::Ran(ran) if ran.has_failed()) && !self.plan.keep_going {
                // At once: who hears of it is behind.
                self.stop.store(true, Ordering::Relaxed);
            }
            if tell.send(told).is_err() {
                break;
            }
        }
    }

    #[allow(clippy::disallowed_methods)] // how long it took is told to a person, and nothing depends on it
    fn one(&self, job: usize, number: usize, seed: u64, others: &mut [Option<Other>]) -> Result<Ran, String> {
        let began = Instant::now();
        let set = |at| *self.at[job].lock().unwrap_or_else(PoisonError::into_inner) = at;
        set(Some((number, seed, began)));
        let generator = &self.plan.generators[number];
        let watch = Stopwatch::start();
        let outcome = run(&generator.scenario, seed);
        let hash = outcome.trace.hash();
        let differs = match &self.plan.double_check {
            Some(program) => check(&mut others[number], program, generator, &outcome, hash)?,
            None => None,
        };
        set(None);
        Ok(Ran {
            generator: number,
            seed,
            hash,
            simulated_ms: outcome.trace.duration(),
            requests: super::record::requests(&outcome.trace),
            states: sometimes::of(&outcome.trace),
            took: watch.elapsed(),
            failed: (!outcome.holds()).then(|| Box::new(outcome)),
            differs,
        })
    }

    /// What is said of a panic that nothing has made a failure of the run.
    fn panicked(&self, generator: usize, seed: u64, words: &str) -> String {
        let path = self.plan.generators[generator].path.display();
        format!(
            "the harness failed with seed {seed} of {path}: {words}\n\n  see it again: {SIM} replay {path} --seed {seed}"
        )
    }

    /// The run that takes longer than it may.
    fn stuck(&self) -> Option<String> {
        let late = self.at.iter().find_map(|at| {
            let at = *at.lock().unwrap_or_else(PoisonError::into_inner);
            at.filter(|(_, _, since)| since.elapsed() > self.plan.patience)
        })?;
        let (generator, seed, since) = late;
        let path = self.plan.generators[generator].path.display();
        Some(format!(
            "seed {seed} of {path} has not come to its end after {} s\n\n  see it again: {SIM} replay {path} --seed {seed}",
            since.elapsed().as_secs()
        ))
    }
}

/// Runs the seed in the other process too.
fn check(
    other: &mut Option<Other>,
    program: &std::path::Path,
    generator: &Generator,
    outcome: &Outcome,
    hash: u64,
) -> Result<Option<Difference>, String> {
    let started = match other.take() {
        Some(other) => other,
        None => Other::start(program, &generator.path)?,
    };
    other.insert(started).compare(outcome, hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(seeds: Range<u64>, shard: (u64, u64)) -> Plan {
        let generator = Generator { path: "a.kdl".into(), name: "a".into(), scenario: Scenario::default() };
        Plan {
            generators: vec![generator.clone(), generator],
            seeds,
            shard,
            jobs: 1,
            budget: None,
            patience: Duration::MAX,
            double_check: None,
            keep_going: false,
        }
    }

    /// What counts a run may panic as well as what runs it.
    #[test]
    fn a_panic_on_a_thread_of_the_sweep_names_the_seed() {
        let plan = plan(7..9, (0, 1));
        let (next, stop) = (AtomicU64::new(0), AtomicBool::new(false));
        let shared = Shared { plan, next, stop, at: Vec::new() };
        let (tell, told) = mpsc::sync_channel(9);
        shared.work_by(&tell, |_, _| panic!("it cannot be counted"));
        let Ok(Told::Broken(why)) = told.recv() else { panic!("a panic is told") };
        assert!(why.contains("seed 7 of a.kdl") && why.contains("it cannot be counted"), "{why}");
        assert!(why.contains("replay a.kdl --seed 7"), "{why}");
    }

    #[test]
    fn a_thread_begins_nothing_more_once_a_run_has_failed() {
        let ran = |keep_going: bool| {
            let plan = Plan { keep_going, ..plan(0..3, (0, 1)) };
            let runs = plan.runs();
            let (next, stop) = (AtomicU64::new(0), AtomicBool::new(false));
            let shared = Shared { plan, next, stop, at: Vec::new() };
            let (tell, told) = mpsc::sync_channel(9);
            let failing = |generator, seed| {
                let outcome = run(&Scenario::default(), seed);
                Ok(Ran {
                    generator,
                    seed,
                    hash: 0,
                    simulated_ms: 0,
                    requests: 0,
                    states: States::default(),
                    took: Duration::ZERO,
                    failed: Some(Box::new(outcome)),
                    differs: None,
                })
            };
            shared.work_by(&tell, failing);
            (told.try_iter().count() as u64, runs)
        };
        assert_eq!(ran(false).0, 1);
        let (all, runs) = ran(true);
        assert_eq!(all, runs);
    }

    #[test]
    fn shards_take_each_seed_once() {
        let mut all = Vec::new();
        for shard in 0..3 {
            let plan = plan(5..25, (shard, 3));
            all.extend((0..plan.runs()).map(|n| plan.nth(n)));
        }
        all.sort_unstable();
        let whole: Vec<(usize, u64)> = (0..2).flat_map(|g| (5..25).map(move |seed| (g, seed))).collect();
        assert_eq!(all, whole);
    }

    /// Whoever gives a budget asks for more seeds than anybody could run.
    #[test]
    fn runs_are_counted_and_not_tried_out() {
        for (seeds, shard, runs) in [
            (0..1_000_000_000_000, (0, 1), 2_000_000_000_000),
            (0..10, (2, 3), 6),
            (0..10, (0, 3), 8),
            (7..8, (0, 3), 0),
            (0..u64::MAX, (1, 2), u64::MAX - 1),
            (0..u64::MAX, (0, 1), u64::MAX),
            (u64::MAX - 2..u64::MAX, (7, 1 << 40), 0),
            (0..5, (u64::MAX - 1, u64::MAX), 0),
        ] {
            assert_eq!(plan(seeds.clone(), shard).runs(), runs, "{seeds:?} {shard:?}");
        }
    }
}
