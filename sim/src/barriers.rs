//! Which of the broker's syncs carry load? Each place that syncs a file or a directory is switched off alone; the scenarios that
//! reach it are run again, and the crash points of those that say `explore` are visited again: one of them has to fail.
//!
//! For the crash points nothing is executed again. A sync changes nothing that a process sees, so it is left out of the recorded
//! history ([`crate::explore::Run::without`]); only in recoveries, which do run, it is switched off at the disk.
//!
//! A place is known by its line in the source, as the disk is told by its caller; and the source is read for calls that sync
//! ([`source`]), so that one which no scenario reaches is not forgotten.

pub mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::explore::{Bounds, Report, Run, explore_within};
use crate::outcome::{Failure, Outcome};
use crate::patience::within;
use crate::scenario::Scenario;
use crate::source_line::SourceLine;
use crate::suite::{Ran, run_seeds_without};

/// A scenario, and how it is tried.
#[derive(Clone, Debug)]
pub struct Subject {
    /// Its name.
    pub name: String,
    /// What is run.
    pub scenario: Scenario,
    /// Its run with the first seed, where its crash points are visited.
    pub run: Option<Run>,
}

impl Subject {
    /// A scenario by its name. Its crash points are visited where it says `explore`.
    pub fn new(name: &str, scenario: &Scenario) -> Result<Subject, crate::explore::Unexplorable> {
        let seed = scenario.seeds.start;
        let run = scenario.explore.then(|| Run::new(scenario, seed, None)).transpose()?;
        Ok(Subject { name: name.to_owned(), scenario: scenario.clone(), run })
    }
}

/// How much is tried.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Of each exploration.
    pub bounds: Bounds,
    /// Whether all scenarios are tried for each place, and not only until one notices.
    pub all: bool,
    /// How many threads.
    pub threads: usize,
    /// How long a single run may take, or the recovery of one image.
    pub patience: Duration,
}

/// A scenario that notices.
#[derive(Clone, Debug)]
pub struct Noticed {
    /// Which.
    pub name: String,
    /// By its crash points, and not by the run itself.
    pub explored: bool,
    /// What it sees.
    pub what: String,
}

/// One place in the broker that syncs.
#[derive(Clone, Debug)]
pub struct Barrier {
    /// Its file and line.
    pub place: SourceLine,
    /// In how many scenarios it syncs.
    pub reached: usize,
    /// The scenarios that notice when it does not.
    pub noticed: Vec<Noticed>,
}

/// A scenario that does not come to its end when a place does not sync. Nobody has looked at the rest of its seeds, or images.
#[derive(Clone, Debug)]
pub struct Hung {
    /// The place.
    pub place: SourceLine,
    /// The scenario.
    pub name: String,
    /// What hangs, and for how long: its runs, or the recovery from which crash.
    pub why: String,
}

/// What became of all of them.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// By place.
    pub barriers: Vec<Barrier>,
    /// Scenarios that fail with every sync in place, and how: nothing can be said about barriers with them.
    pub broken: Vec<(String, String)>,
    /// Runs and recoveries that have not come to their end with a sync switched off.
    pub hung: Vec<Hung>,
    /// Calls in the source that no scenario reaches.
    pub unreached: Vec<SourceLine>,
    /// Whether somebody has put an end to it before each place was tried: then nothing is said of those that were not, nor of those that
    /// are not reached.
    pub is_interrupted: bool,
}

impl Table {
    /// Whether every place is noticed by some scenario.
    pub fn holds(&self) -> bool {
        let noticed = self.barriers.iter().all(|b| !b.noticed.is_empty());
        self.broken.is_empty() && self.hung.is_empty() && self.unreached.is_empty() && noticed
    }
}

/// A subject, and where it syncs: while it runs, and, with that, in all recoveries of its crash points.
struct Reached<'a> {
    subject: &'a Subject,
    running: BTreeSet<SourceLine>,
    exploring: BTreeSet<SourceLine>,
}

/// Switches off each place in turn. `each` is told of every place when it is done; `go_on` is asked before each place, and before each
/// scenario is looked at for the first time.
pub fn barriers(
    subjects: &[Subject],
    effort: Effort,
    each: &(dyn Fn(&Barrier) + Sync),
    go_on: &(dyn Fn() -> ControlFlow<()> + Sync),
) -> Table {
    let mut table = Table::default();
    let mut reached = Vec::new();
    let found = on_all((effort.threads, go_on), subjects, |s| reach(s, effort));
    let were_all_reached = found.len() == subjects.len();
    for (subject, found) in subjects.iter().zip(found) {
        match found {
            Ok(found) => reached.push(found),
            Err(what) => table.broken.push((subject.name.clone(), what)),
        }
    }
    let mut places: BTreeMap<SourceLine, Vec<&Reached<'_>>> = BTreeMap::new();
    for found in &reached {
        for place in found.running.union(&found.exploring) {
            places.entry(place.clone()).or_default().push(found);
        }
    }
    let places: Vec<(SourceLine, Vec<&Reached<'_>>)> = places.into_iter().collect();
    let tried = on_all((effort.threads, go_on), &places, |(place, reached)| {
        let Tried { noticed, hung } = without(place, reached, effort);
        let barrier = Barrier { place: place.clone(), reached: reached.len(), noticed };
        each(&barrier);
        (barrier, hung)
    });
    for (barrier, hung) in tried {
        table.hung.extend(hung);
        table.barriers.push(barrier);
    }
    if !were_all_reached || table.barriers.len() < places.len() {
        table.is_interrupted = true;
        return table;
    }
    let known: BTreeSet<&SourceLine> = places.iter().map(|(place, _)| place).collect();
    table.unreached = source::places().into_iter().filter(|place| !known.contains(place)).collect();
    table
}

/// Where a subject syncs, or how it fails already.
fn reach(subject: &Subject, effort: Effort) -> Result<Reached<'_>, String> {
    let Some(ran) = run(&subject.scenario, &[], effort.patience) else {
        return Err(endless(effort));
    };
    if let Some(what) = ran.failed.as_ref().and_then(failure) {
        return Err(what);
    }
    let running = ran.syncs.into_iter().map(SourceLine::from).collect();
    let mut exploring = BTreeSet::new();
    if let Some(run) = &subject.run {
        let bounds = Bounds { depth: 1, cuts: effort.all, ..effort.bounds };
        let report = visited(run, bounds, effort.patience)?;
        if let Some(what) = broken(&report) {
            return Err(what);
        }
        exploring = report.sites.into_iter().map(SourceLine::from).collect();
    }
    Ok(Reached { subject, running, exploring })
}

/// That a scenario hangs, in words.
fn endless(effort: Effort) -> String {
    format!("its runs have not come to their end after {} s for each seed", effort.patience.as_secs())
}

/// The crash points of a run; where a recovery does not come to its end, which.
fn visited(run: &Run, bounds: Bounds, patience: Duration) -> Result<Report, String> {
    match explore_within(run, bounds, patience, || ControlFlow::Continue(())) {
        Ok(Ok(report)) => Ok(report),
        Ok(Err(crash)) => {
            Err(format!("the recovery has not come to its end after {} s {crash}", patience.as_secs()))
        }
        Err(e) => Err(format!("no thread to visit its crash points: {e}")),
    }
}

/// All seeds of a scenario; `None` where they do not come to their end, or the system has no thread for them. A thread that hangs
/// cannot be stopped: it is left behind.
fn run(scenario: &Scenario, off: &[SourceLine], patience: Duration) -> Option<Ran> {
    let seeds = u32::try_from(scenario.seeds.count()).unwrap_or(u32::MAX);
    let (scenario, off) = (scenario.clone(), off.to_vec());
    within(patience.saturating_mul(seeds), move || run_seeds_without(&scenario, &off)).ok().flatten()
}

/// What the scenarios that reach a place make of it when it does not sync.
#[derive(Default)]
struct Tried {
    noticed: Vec<Noticed>,
    hung: Vec<Hung>,
}

/// The scenarios that notice when a place does not sync: first the runs, which are cheap, then the crash points, those of small
/// histories first, and crashes inside recovery last. Beside them, those that hang, which is no noticing.
fn without(place: &SourceLine, reached: &[&Reached<'_>], effort: Effort) -> Tried {
    let mut tried = Tried::default();
    for found in reached.iter().filter(|found| found.running.contains(place)) {
        let name = &found.subject.name;
        match run(&found.subject.scenario, std::slice::from_ref(place), effort.patience) {
            Some(ran) => tried.noticed.extend(ran.failed.as_ref().and_then(missed).map(|what| Noticed {
                name: name.clone(),
                explored: false,
                what,
            })),
            None => tried.hung.push(Hung { place: place.clone(), name: name.clone(), why: endless(effort) }),
        }
        if !(tried.noticed.is_empty() || effort.all) {
            return tried;
        }
    }
    for (bounds, found) in tries(place, reached, effort) {
        let Some(run) = &found.subject.run else { continue };
        let name = &found.subject.name;
        // What hangs once hangs again, and takes a core.
        if tried.hung.iter().any(|hung| hung.name == *name) {
            continue;
        }
        match visited(&run.without(place), bounds, effort.patience) {
            Ok(report) => tried.noticed.extend(broken(&report).map(|what| Noticed {
                name: name.clone(),
                explored: true,
                what,
            })),
            Err(why) => tried.hung.push(Hung { place: place.clone(), name: name.clone(), why }),
        }
        if !(tried.noticed.is_empty() || effort.all) {
            return tried;
        }
    }
    tried
}

/// The explorations that may notice, in the order in which they are tried: those of scenarios that sync there as they run come
/// before those where only a recovery does, and small histories before large ones.
fn tries<'a>(
    place: &SourceLine,
    reached: &[&'a Reached<'a>],
    effort: Effort,
) -> Vec<(Bounds, &'a Reached<'a>)> {
    let explored = reached.iter().copied().filter(|found| found.exploring.contains(place));
    let (mut as_it_runs, mut in_recovery): (Vec<_>, Vec<_>) =
        explored.partition(|found| found.running.contains(place));
    let mut tries = Vec::new();
    for group in [&mut as_it_runs, &mut in_recovery] {
        group.sort_by_key(|found| found.subject.run.as_ref().map(|run| run.len));
        for bounds in passes(effort) {
            tries.extend(group.iter().map(|found| (bounds, *found)));
        }
    }
    tries
}

/// Where the first scenario that notices is enough, what costs little comes first: the extremes between two operations, then
/// the images of all crash points, then crashes inside recovery.
fn passes(effort: Effort) -> Vec<Bounds> {
    let bounds = effort.bounds;
    let least = Bounds { images: bounds.images.min(EXTREMES), cuts: false, depth: 1, ..bounds };
    let passes = [least, Bounds { depth: 1, ..bounds }, bounds];
    if effort.all { vec![bounds] } else { passes.to_vec() }
}

/// So many images of a crash point are its extremes: see [`crate::explore::Choice`].
const EXTREMES: u64 = 4;

/// What is done to each of them, on so many threads, in their order; to the first ones only, where it does not go on to the end.
fn on_all<'a, T: Sync, R: Send>(
    (threads, go_on): (usize, &(dyn Fn() -> ControlFlow<()> + Sync)),
    all: &'a [T],
    work: impl Fn(&'a T) -> R + Sync,
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, R)>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                let taken = || {
                    if go_on().is_break() {
                        return None;
                    }
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    all.get(at).map(|one| (at, one))
                };
                while let Some((at, one)) = taken() {
                    let result = work(one);
                    done.lock().unwrap_or_else(|e| e.into_inner()).push((at, result));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(|e| e.into_inner());
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

/// How a run with every sync in place fails.
fn failure(outcome: &Outcome) -> Option<String> {
    worst(outcome.failures.iter())
}

/// What a run with a sync switched off shows of it: a broken promise, or something that did not come as it must. That a fault has
/// found nothing to strike, or that a step has become impossible, says that the run took another way; and that it came to no end,
/// or that something panicked, that nobody has looked: nothing of what the sync is for.
fn missed(outcome: &Outcome) -> Option<String> {
    let noticed = |failure: &&Failure| matches!(failure, Failure::Broken(_) | Failure::Unmet { .. });
    worst(outcome.failures.iter().filter(noticed))
}

fn worst<'a>(mut failures: impl Iterator<Item = &'a Failure> + Clone) -> Option<String> {
    let broken = failures.clone().find(|failure| matches!(failure, Failure::Broken(_)));
    broken.or(failures.next()).map(Failure::kind)
}

fn broken(report: &Report) -> Option<String> {
    let panicked = || report.panicked.as_ref().map(ToString::to_string);
    let first = report.first.as_ref();
    first.map(|first| format!("{} ({})", first.broken.promise, first.broken.kind)).or_else(panicked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome;
    use crate::scenario::parse;

    fn scenario(steps: &str) -> Scenario {
        parse("t.kdl", &format!("scenario \"t\"\ntopic orders\n{steps}\n")).expect("it can be read")
    }

    /// Only what a run has shown of the broker says anything about a sync.
    #[test]
    fn a_run_that_went_wrong_in_another_way_has_noticed_nothing() {
        let of = |steps: &str| outcome::run(&scenario(steps), 0);
        let impossible = of("delete \"nothing\"");
        assert_eq!((impossible.exit_code(), missed(&impossible)), (2, None));
        let unmet = of("delete \"nothing\"\nconsume orders expect-count=1");
        assert_eq!(missed(&unmet).as_deref(), Some("unmet expectation"));
        for failure in
            [Failure::Stuck(String::new()), Failure::Panic(String::new()), Failure::Harness(String::new())]
        {
            assert_eq!(missed(&Outcome { failures: vec![failure], ..impossible.clone() }), None);
        }
    }

    #[test]
    fn a_scenario_that_does_not_end_is_left_out() {
        let subject = Subject::new("long", &scenario("advance \"59m\"")).expect("it is not explored");
        let patience = Duration::from_millis(1);
        let effort = Effort { bounds: Bounds::quick(), all: false, threads: 1, patience };
        let why = reach(&subject, effort).err().expect("it takes longer");
        assert!(why.contains("have not come to their end"), "{why}");
    }

    #[test]
    fn a_scenario_that_does_not_end_without_a_sync_has_noticed_nothing_and_hangs() {
        let subject = Subject::new("long", &scenario("advance \"59m\"")).expect("it is not explored");
        let patience = Duration::from_millis(1);
        let effort = Effort { bounds: Bounds::quick(), all: false, threads: 1, patience };
        let place = SourceLine::from(faults::Site { file: "files.rs", line: 1, column: 1 });
        let running = BTreeSet::from([place.clone()]);
        let reached = Reached { subject: &subject, running, exploring: BTreeSet::new() };
        let tried = without(&place, &[&reached], effort);
        assert!(tried.noticed.is_empty());
        let [hung] = &tried.hung[..] else { panic!("{:?}", tried.hung) };
        assert_eq!((&hung.place, hung.name.as_str()), (&place, "long"));
        assert!(hung.why.contains("have not come to their end"), "{}", hung.why);
    }
}
