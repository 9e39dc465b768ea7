//! Goes through all crash points of a run, on all cores.

use std::collections::BTreeMap;
use std::collections::hash_map::Entry;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use broker::settings::Settings;
use faults::{Cursor, Image, Images, Keep, Limits, SECTOR};
use fnv::{FnvHashMap, FnvHashSet};

use super::Bounds;
use super::nested;
use super::record::Run;
use super::recover::Found;
use super::recovered::{Depth, Recoveries, Start, hold};
use super::report::{Choice, Crash, Panicked, Point, Report};
use super::whereabouts::Whereabouts;
use crate::executor::panics::caught;
use crate::oracle::look::PartitionLook;
use crate::oracle::walk::{StartBeside, Walk};
use crate::oracle::{Broken, Promise};
use crate::patience::run_unless;
use crate::trace::{CrashKind, Event, Millis, TopicPartition};
use crate::world::host::{files_of, log_settings};

/// A write of no more bytes is cut after each of them; of a longer one, the ends, the header and the sectors are.
const CUT_EVERYWHERE: u64 = 48;

/// All that the judgement of a crash depends on.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Judged {
    /// The image, by its hash.
    image: u128,
    /// What keeps the disk from taking changes.
    limits: Limits,
    /// What has to be found, as a number.
    knowledge: usize,
    /// Whether power was lost.
    power: bool,
    /// Whether the recovery is crashed too.
    deeper: bool,
}

/// Told of each crash point that is done with; says whether to go on.
pub type Done<'a> = &'a (dyn Fn() -> ControlFlow<()> + Sync);

/// What the threads share.
pub(super) struct Shared<'a> {
    pub(super) run: &'a Run,
    pub(super) bounds: Bounds,
    pub(super) recoveries: Recoveries<'a>,
    /// What was judged, the earliest crash point that it was met at, and how much was visited inside its recovery.
    judged: Mutex<FnvHashMap<Judged, (Point, nested::Visited)>>,
    /// What was judged inside recoveries, by hash, and whether it was compared too.
    pub(super) nested: Mutex<FnvHashMap<u64, bool>>,
    /// The first crash point with a violation, as far as known.
    first: AtomicUsize,
    /// A sync that is added to the recovery of one image, the only one that is looked at.
    added_sync: Option<&'a AddedSync>,
    /// Is told which image each thread takes up.
    pub(super) whereabouts: &'a Whereabouts,
    /// Is told of each crash point that is done with, and says whether to go on.
    done: Done<'a>,
}

/// A sync that is added to a recovery.
pub(super) struct AddedSync {
    /// The crash before that recovery.
    pub(super) point: Point,
    /// After so many of its steps.
    pub(super) behind: usize,
    /// Crashes behind more of its steps are not looked at.
    pub(super) until: usize,
    /// What is synced.
    pub(super) path: String,
}

/// Explores a run. With a violation, crash points behind the first that has one are left out.
pub fn explore(run: &Run, bounds: Bounds) -> Report {
    explore_telling(run, bounds, &Whereabouts::default(), &|| ControlFlow::Continue(()))
}

/// As [`explore`]; `done` is called after each crash point, of which there are at most as many as operations, and one. Where it says
/// that it is enough, the others are left out, and the report says so.
pub fn explore_telling(run: &Run, bounds: Bounds, whereabouts: &Whereabouts, done: Done<'_>) -> Report {
    explore_with(run, bounds, None, (whereabouts, done))
}

/// As [`explore_telling`], on threads of its own; where the recovery of one image takes longer than this, the crash that led
/// to it. What hangs there goes on, and ends with the process.
pub fn explore_within(
    run: &Run,
    bounds: Bounds,
    patience: Duration,
    done: impl Fn() -> ControlFlow<()> + Send + Sync + 'static,
) -> std::io::Result<Result<Report, Crash>> {
    let (run, whereabouts) = (run.clone(), Arc::new(Whereabouts::default()));
    let watched = whereabouts.clone();
    run_unless(
        Whereabouts::every(patience),
        move || watched.late(patience),
        move || explore_telling(&run, bounds, &whereabouts, &done),
    )
}

/// As [`explore`]; with a sync that is added to a recovery, nothing but the crash points of that recovery.
#[allow(clippy::disallowed_methods)] // how long it took is told to a person, and nothing depends on it
pub(super) fn explore_with(
    run: &Run,
    bounds: Bounds,
    added_sync: Option<&AddedSync>,
    (whereabouts, done): (&Whereabouts, Done<'_>),
) -> Report {
    let began = Instant::now();
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    let threads = bounds.threads.map_or_else(cores, usize::from);
    let first = AtomicUsize::new(usize::MAX);
    let (recoveries, judged, nested) = (Recoveries::of(run), Mutex::default(), Mutex::default());
    let shared = Shared { run, bounds, recoveries, judged, nested, first, added_sync, whereabouts, done };
    let mut report = Report { operations: run.len, threads, ..Report::default() };
    if threads == 1 {
        report.add(Visit::new(&shared, 0).all(1));
    } else {
        let parts: Vec<Report> = std::thread::scope(|scope| {
            let spawn = |thread| {
                let shared = &shared;
                scope.spawn(move || Visit::new(shared, thread).all(threads))
            };
            let threads: Vec<_> = (0..threads).map(spawn).collect();
            threads.into_iter().map(|t| t.join().unwrap_or_else(|e| std::panic::resume_unwind(e))).collect()
        });
        parts.into_iter().for_each(|part| report.add(part));
    }
    report.sites.extend(run.sites());
    shared.sum_up(&mut report);
    report.took = began.elapsed();
    report
}

/// One thread's way through the crash points.
struct Visit<'a> {
    shared: &'a Shared<'a>,
    /// The number of the thread.
    thread: usize,
    report: Report,
    /// The trace, up to the crash point.
    walk: Walk,
    entry: usize,
    now: Millis,
    /// Which of the run's starts is the last.
    start: Option<usize>,
    settings: BTreeMap<usize, Settings>,
    /// Changes whenever what has to be found after a crash does: an image that was judged before is judged again.
    knowledge: usize,
    /// What was judged inside recoveries.
    nested: FnvHashSet<nested::Judged>,
}

impl<'a> Visit<'a> {
    fn new(shared: &'a Shared<'a>, thread: usize) -> Self {
        let starts = shared.run.starts.iter().enumerate();
        let settings = starts.map(|(i, (_, settings))| (i, log_settings(settings))).collect();
        Self {
            shared,
            thread,
            report: Report::default(),
            walk: Walk::default(),
            entry: 0,
            now: 0,
            start: None,
            settings,
            knowledge: 0,
            nested: FnvHashSet::default(),
        }
    }

    /// All of its crash points; after a panic, those before it.
    fn all(mut self, threads: usize) -> Report {
        let went = caught(|| self.go(threads));
        let crash = self.shared.whereabouts.leaves(self.thread);
        if let Err(words) = went {
            self.shared.first.fetch_min(crash.map_or(0, |crash| crash.point.steps), Ordering::Relaxed);
            self.report.panicked = Some(Panicked { crash, words });
        }
        self.report
    }

    fn go(&mut self, threads: usize) {
        let (run, bounds) = (self.shared.run, self.shared.bounds);
        let last = bounds.to.map_or(run.len, |to| to.min(run.len));
        let mut cursor = run.history.cursor();
        loop {
            let steps = cursor.position();
            if steps > last || self.shared.first.load(Ordering::Relaxed) < steps {
                return;
            }
            self.walk_to(run.marks.get(steps).copied().unwrap_or(run.trace.entries.len()));
            let is_asked = steps >= bounds.from && !self.is_half_done(steps);
            if is_asked && steps % threads == self.thread {
                self.point(&cursor, steps);
                if (self.shared.done)().is_break() {
                    self.report.is_interrupted = true;
                    return;
                }
            }
            if !cursor.advance() {
                return;
            }
        }
    }

    /// Whether this is in the middle of what the scenario does to files itself, or of a sync that fails, which the trace tells as
    /// one thing: no crash comes there.
    fn is_half_done(&self, steps: usize) -> bool {
        let around = self.shared.run.history.steps().get(steps.wrapping_sub(1)..=steps);
        around.is_some_and(|around| {
            around.iter().all(faults::Step::is_by_hand) || around[1].ends_a_failed_sync()
        })
    }

    /// Goes on in the trace up to an entry, which has not happened yet.
    fn walk_to(&mut self, entry: usize) {
        let run = self.shared.run;
        while self.entry < entry.min(run.trace.entries.len()) {
            let next = &run.trace.entries[self.entry];
            if matches!(next.event, Event::Healed) {
                return;
            }
            self.walk.findings.entry = self.entry;
            let told = self.walk.entry(next);
            self.walk.findings.clear();
            if next.at != self.now || told {
                self.knowledge = self.entry + 1;
            }
            self.now = next.at;
            let starts = &run.starts;
            self.start = starts.iter().rposition(|(at, _)| *at <= self.entry).or(self.start);
            self.entry += 1;
        }
    }

    /// The run so far, and then the lights go out; and the same where the process alone dies.
    fn crashed(&self) -> (Walk, Walk) {
        let (mut crashed, mut killed) = (self.walk.clone(), self.walk.clone());
        crashed.goes_down(CrashKind::Power, self.now);
        killed.goes_down(CrashKind::Process, self.now);
        (crashed, killed)
    }

    fn point(&mut self, cursor: &Cursor<'_>, steps: usize) {
        let bounds = self.shared.bounds;
        self.report.points += 1;
        let now = self.now;
        self.now = self.shared.run.under_way(steps).unwrap_or(now);
        let (crashed, killed) = self.crashed();
        let images = cursor.images();
        self.images(&images, &crashed, (steps, None), bounds.images);
        let point = Point { steps, bytes: None, choice: Choice::Process };
        self.image(&images.process_crash(), &killed, point);
        let written = cursor.next_write_len().filter(|_| steps < self.shared.run.len);
        self.report.uncut += written.map_or(0, |len| len.saturating_sub(1));
        if let Some(len) = written.filter(|_| bounds.cuts) {
            // The write is at its own time.
            let at = self.shared.run.trace.entries.get(self.entry).map_or(self.now, |next| next.at);
            let before = std::mem::replace(&mut self.now, at);
            self.inside(cursor, steps, len);
            self.now = before;
        }
        self.now = now;
    }

    /// Crashes within the next write.
    fn inside(&mut self, cursor: &Cursor<'_>, steps: usize, len: u64) {
        let (crashed, killed) = self.crashed();
        let position = self.shared.run.history.steps()[steps].position;
        for bytes in cuts(position, len) {
            let Some(images) = cursor.images_inside(bytes) else { continue };
            self.report.cuts += 1;
            self.report.uncut -= 1;
            self.images(&images, &crashed, (steps, Some(bytes)), self.shared.bounds.inner);
            let point = Point { steps, bytes: Some(bytes), choice: Choice::Process };
            self.image(&images.process_crash(), &killed, point);
        }
    }

    fn images(&mut self, images: &Images, crashed: &Walk, (steps, bytes): (usize, Option<u64>), bound: u64) {
        let (choices, sampled) = choose(images, bound, salt(steps, bytes));
        self.report.sampled += u64::from(sampled);
        for choice in choices {
            self.image(&pick(images, choice), crashed, Point { steps, bytes, choice });
        }
    }

    fn image(&mut self, image: &Image, crashed: &Walk, point: Point) {
        if self.shared.added_sync.is_some_and(|added| added.point != point) {
            return;
        }
        self.shared.whereabouts.arrives(self.thread, Crash { point, nested: None });
        self.report.images += 1;
        let power = point.choice != Choice::Process;
        let bounds = self.shared.bounds;
        let deeper = bounds.depth > 1 && (point.bytes.is_none() || bounds.nested_cuts);
        let hash = match power {
            true => image.hash(),
            // What is pending behind the files that it shows is still there, and differs from point to point.
            false => image.hash() ^ place(point.steps, point.bytes),
        };
        let limits = self.shared.run.limits(point);
        let judged = Judged { image: hash, limits, knowledge: self.knowledge, power, deeper };
        if !self.shared.claims(judged, point) {
            return;
        }
        let number = self.start.unwrap_or(0);
        let Some(settings) = self.settings.get(&number).cloned() else { return };
        let start = Start { number, settings, boot: self.shared.run.boot(point), limits };
        let found = self.shared.recoveries.recovered(image, hash, &start, Depth::Run);
        let mut crashed = crashed.clone();
        crashed.down(Arc::new(files_of(image)));
        let mut walk = crashed.clone();
        walk.findings.entry = self.entry.saturating_sub(1);
        judge(&mut walk, &found, self.now);
        if let Some(broken) = walk.findings.first() {
            self.violated(point, None, broken);
        } else if let Ok(found) = &*found {
            let steps = found.history.iter().flat_map(|history| history.steps());
            self.report.sites.extend(steps.filter(|step| step.is_sync()).filter_map(|step| step.site));
            let first = Crashed { point, found, crashed: &crashed, power, start: &start };
            if deeper {
                let mut visited = nested::Visited::default();
                let violation = self.inside_recovery(&first, &mut visited);
                self.shared.visited_inside(judged, visited);
                if let Some((at, broken)) = violation {
                    self.violated(point, Some(at), &broken);
                }
            }
        }
    }

    fn violated(&mut self, point: Point, nested: Option<Point>, broken: &Broken) {
        self.report.violated(point, nested, broken);
        self.shared.first.fetch_min(point.steps, Ordering::Relaxed);
    }

    /// The crash points of a recovery; the first violation, and where.
    fn inside_recovery(
        &mut self,
        crashed: &Crashed<'_>,
        visited: &mut nested::Visited,
    ) -> Option<(Point, Broken)> {
        let Crashed { point, found, crashed, power, start } = *crashed;
        let recorded = found.history.as_ref()?;
        let mended;
        let (history, crash_points) = match self.shared.added_sync {
            Some(sync) => {
                mended = recorded.with_sync(sync.behind, &sync.path)?;
                (&mended, sync.behind..=sync.until)
            }
            None => (recorded, 0..=recorded.len()),
        };
        let (now, knowledge) = (self.now, self.knowledge);
        let first = nested::First {
            thread: self.thread,
            point,
            found,
            crashed,
            power,
            start,
            now,
            knowledge,
            history,
            crash_points,
        };
        nested::visit(self.shared, (visited, &mut self.nested), &first)
    }
}

/// A recovery, and the run up to the crash before it.
struct Crashed<'a> {
    point: Point,
    found: &'a Found,
    crashed: &'a Walk,
    power: bool,
    start: &'a Start,
}

impl Shared<'_> {
    /// Whether what was met at this crash point is to be judged there: not where an earlier one has come to it. Which thread comes
    /// first does not matter: the earliest crash point always judges it.
    fn claims(&self, what: Judged, point: Point) -> bool {
        match hold(&self.judged).entry(what) {
            Entry::Occupied(earlier) if earlier.get().0 < point => false,
            Entry::Occupied(mut later) => {
                later.get_mut().0 = point;
                true
            }
            Entry::Vacant(free) => {
                free.insert((point, nested::Visited::default()));
                true
            }
        }
    }

    /// How much was visited inside the recovery of what was judged: the same, wherever it was met.
    fn visited_inside(&self, what: Judged, visited: nested::Visited) {
        if let Some((_, inside)) = hold(&self.judged).get_mut(&what) {
            *inside = visited;
        }
    }

    /// Adds what all threads have come to together. Two may do the same at the same time, and so more than one alone: what counts is
    /// how many different things were done.
    fn sum_up(&self, report: &mut Report) {
        let (judged, nested) = (hold(&self.judged), hold(&self.nested));
        for (_, inside) in judged.values() {
            report.cuts += inside.cuts;
            report.images += inside.images;
            report.sampled += inside.sampled;
            report.uncut += inside.uncut;
        }
        report.judged = (judged.len() + nested.len()) as u64;
        report.compared = nested.values().filter(|compared| **compared).count() as u64;
        (report.recoveries, report.nested) = self.recoveries.distinct();
        report.refused = self.recoveries.refused();
        report.gone_on = self.recoveries.results() as u64;
    }
}

/// Asks the oracle.
pub(super) fn judge(walk: &mut Walk, found: &Result<Found, String>, now: Millis) {
    match found {
        Err(why) => {
            let said = ("the broker starts", why.as_str());
            walk.findings.broke(Promise::Live, "does not start", "the broker", said, &[]);
        }
        Ok(found) => {
            let missing = |(topic, number): &TopicPartition| {
                !found.look.partitions.contains_key(&(topic.clone(), *number))
            };
            let topics = walk.topics().into_iter();
            let places = topics.flat_map(|(topic, count)| (0..count).map(move |n| (topic.clone(), n)));
            let missing: Vec<_> = places.filter(missing).collect();
            if missing.is_empty() {
                walk.started_beside(&found.as_start(), now);
            } else {
                let mut look = found.look.clone();
                let unknown = PartitionLook { unknown: true, ..PartitionLook::default() };
                look.partitions.extend(missing.into_iter().map(|place| (place, unknown.clone())));
                walk.started_beside(&StartBeside { look: &look, ..found.as_start() }, now);
            }
            // Where records contradict each other, what is appended next to them may join in.
            if let Some(then) = found.then.as_ref().filter(|then| !walk.has_at_odds(&then.what)) {
                let Broken { promise, kind, what, expected, found, .. } = &**then;
                walk.findings.broke(*promise, kind, what, (expected, found), &[]);
            }
        }
    }
}

/// A number for each crash point, and no other's.
fn place(steps: usize, bytes: Option<u64>) -> u128 {
    (steps as u128) << 64 | u128::from(bytes.map_or(0, |bytes| bytes + 1))
}

/// A seed for what is drawn at a crash point.
fn salt(steps: usize, bytes: Option<u64>) -> u64 {
    (steps as u64) << 20 ^ bytes.map_or(0, |b| (b + 1) << 8)
}

/// Where a write is cut: after each byte where it is short, else at its ends, in its header, and at sectors.
pub(super) fn cuts(position: u64, len: u64) -> Vec<u64> {
    if len <= CUT_EVERYWHERE {
        return (1..len).collect();
    }
    let sectors = (1..len).filter(|bytes| (position + bytes).is_multiple_of(SECTOR));
    let mut cuts: Vec<u64> =
        [1, 8, 12, 16, 27, 28, 29, len / 2, len - 1].into_iter().chain(sectors).collect();
    cuts.retain(|bytes| *bytes < len);
    cuts.sort_unstable();
    cuts.dedup();
    cuts
}

/// All images; or the extremes and a seeded sample, and that it is a sample.
pub(super) fn choose(images: &Images, bound: u64, salt: u64) -> (Vec<Choice>, bool) {
    if let Some(count) = images.count_up_to(bound.into()) {
        let count = u64::try_from(count).unwrap_or(bound);
        return ((0..count).map(Keep::Image).map(Choice::Power).collect(), false);
    }
    let extremes = [Keep::Nothing, Keep::Everything, Keep::Names, Keep::Data];
    let draws = (0..).map(|i| Keep::Draw(salt.wrapping_add(i)));
    let bound = usize::try_from(bound).unwrap_or(usize::MAX);
    (extremes.into_iter().chain(draws).take(bound).map(Choice::Power).collect(), true)
}

/// The image of a choice.
pub(super) fn pick(images: &Images, choice: Choice) -> Image {
    match choice {
        Choice::Process => images.process_crash(),
        Choice::Power(keep) => images.keeping(keep),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What looks the same at two crash points of the process is told apart by this alone.
    #[test]
    fn no_two_crash_points_have_the_same_number() {
        let long = 1 << 20;
        let inside = [1, 47, 4095, 4096, long - 1].map(Some);
        let points =
            (0..300).flat_map(|steps| [None].into_iter().chain(inside).map(move |bytes| place(steps, bytes)));
        let mut points: Vec<u128> = points.collect();
        let all = points.len();
        points.sort_unstable();
        points.dedup();
        assert_eq!(points.len(), all);
    }

    /// A write whose writeback fails changes the disk twice: a record that is there between the two has the time of that write.
    #[test]
    fn what_an_operation_leaves_half_done_has_its_time() {
        let text = "scenario \"t\"\nbroker durability=os\nnet latency=\"3ms\"\ntopic orders\n\
                    produce orders value=\"a\"\nadvance \"1s\"\n\
                    fault write \"*.log\" writeback-error\nproduce orders value=\"b\"";
        let run = Run::new(&crate::scenario::parse("t.kdl", text).expect("it can be read"), 0, None);
        let report = explore(&run.expect("it runs"), Bounds { cuts: false, depth: 1, ..Bounds::quick() });
        assert!(report.holds(), "{report}\n{}", report.first.as_ref().expect("a violation"));
    }

    /// Of what the scenario does to files itself, no crash comes in the middle; between any two other operations, one does.
    #[test]
    fn no_crash_point_is_passed_over_but_those_in_the_middle_of_a_change_by_hand() {
        let flips = "fault read \"*.log\" flip=300\nfault read \"*.log\" flip=40 nth=2\n\
                     fetch orders expect=any\nfetch orders expect=any";
        // A file with a name is made in three steps, and the cache is given up in another.
        let by_hand = "write \"orders/0/other\" text=\"x\"\ndrop-caches";
        let lost = "fault write \"*.log\" lost\nproduce orders value=\"lost\"";
        for (steps, in_the_middle) in [(flips, 0), (by_hand, 2)] {
            let text = format!(
                "scenario \"t\"\ntopic orders\nproduce orders value=\"v\" count=3\n{lost}\n{steps}\n"
            );
            let scenario = crate::scenario::parse("t.kdl", &text).expect("it can be read");
            let run = Run::new(&scenario, 0, None).expect("it runs");
            let report = explore(&run, Bounds { cuts: false, depth: 1, ..Bounds::quick() });
            assert!(report.holds(), "{report}");
            assert_eq!(report.points, run.len as u64 + 1 - in_the_middle, "{steps}");
        }
    }
}
