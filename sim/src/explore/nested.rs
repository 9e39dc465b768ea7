//! Crashes inside recovery: after each of its operations, and inside its writes, what could have been left is recovered again. The
//! first crash and the second are each of the process alone or of the machine. The second recovery is judged like every other,
//! and must come to the same bytes as the one that nobody disturbed.

use std::hash::{Hash, Hasher};
use std::ops::RangeInclusive;
use std::sync::Arc;

use faults::{Cursor, History, Images, Limits};
use fnv::{FnvHashSet, FnvHasher};

use super::recover::Found;
use super::recovered::{Depth, Start, hold};
use super::report::{Choice, Crash, Point};
use super::visit::{Shared, choose, cuts, judge, pick};
use crate::oracle::Broken;
use crate::oracle::walk::Walk;
use crate::trace::{Again, CrashKind, Millis};
use crate::world::host::files_of;

/// Under which name the machine is started after the lights went out inside a recovery.
const BOOT: &str = "explored-2";

/// The most images of a cut inside a write of a recovery.
const CUT_IMAGES: u64 = 4;

/// A recovery that nobody disturbed.
pub(super) struct First<'a> {
    /// On which thread.
    pub(super) thread: usize,
    /// The crash before it.
    pub(super) point: Point,
    pub(super) found: &'a Found,
    /// The run up to the crash before it.
    pub(super) crashed: &'a Walk,
    /// Whether that crash took the machine.
    pub(super) power: bool,
    pub(super) start: &'a Start,
    pub(super) now: Millis,
    /// What has to be found after a crash, as a number.
    pub(super) knowledge: usize,
    /// What it did to the disk.
    pub(super) history: &'a History,
    /// Behind which of its steps it is crashed.
    pub(super) crash_points: RangeInclusive<usize>,
}

/// All that the judgement of a second recovery depends on: the image by its hash; what has to be found; whether the machine
/// went down in the first crash; what the first recovery left, and whether it found a clean stop and a failing device; whether
/// what it found has been read; and what kept the disk from taking changes.
#[derive(PartialEq, Eq, Hash)]
pub(super) struct Judged {
    image: u128,
    knowledge: usize,
    power: bool,
    left: u128,
    clean: bool,
    noted: bool,
    failing: bool,
    ended: bool,
    limits: Limits,
}

impl Judged {
    fn as_number(&self) -> u64 {
        let mut hasher = FnvHasher::default();
        self.hash(&mut hasher);
        hasher.finish()
    }
}

/// How much was visited inside of one recovery.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Visited {
    /// Crash points inside writes.
    pub(super) cuts: u64,
    /// Images built.
    pub(super) images: u64,
    /// Crash points with more images than the bound.
    pub(super) sampled: u64,
    /// Bytes inside of writes that were no crash points.
    pub(super) uncut: u64,
}

/// Goes through the crash points of one recovery; the first violation, and where. Nothing is judged that is in `seen`.
pub(super) fn visit(
    shared: &Shared<'_>,
    (visited, seen): (&mut Visited, &mut FnvHashSet<Judged>),
    first: &First<'_>,
) -> Option<(Point, Broken)> {
    let once = first.found.image();
    let limits = first.start.limits.after_power_loss();
    let after_power = Start { boot: BOOT.into(), limits, ..first.start.clone() };
    let mut inside = Inside { shared, visited, first, once, after_power, seen };
    let mut cursor = first.history.cursor();
    loop {
        let steps = cursor.position();
        if first.crash_points.contains(&steps)
            && let Some(found) = inside.point(&cursor, steps)
        {
            return Some(found);
        }
        if !cursor.advance() {
            return None;
        }
    }
}

struct Inside<'a, 'b> {
    shared: &'a Shared<'a>,
    visited: &'b mut Visited,
    first: &'a First<'a>,
    once: Arc<crate::trace::Image>,
    after_power: Start,
    seen: &'b mut FnvHashSet<Judged>,
}

impl Inside<'_, '_> {
    fn point(&mut self, cursor: &Cursor<'_>, steps: usize) -> Option<(Point, Broken)> {
        let bounds = self.shared.bounds;
        // Before its first operation nothing is left but what it was started on.
        if steps > 0 {
            let found = self.images(&cursor.images(), (steps, None), bounds.inner);
            if found.is_some() {
                return found;
            }
        }
        let len = cursor.next_write_len()?;
        self.visited.uncut += len.saturating_sub(1);
        if !(bounds.cuts && bounds.nested_cuts) {
            return None;
        }
        let position = self.first.history.steps()[steps].position;
        let most = bounds.inner.min(CUT_IMAGES);
        few(cuts(position, len)).into_iter().find_map(|bytes| {
            let images = cursor.images_inside(bytes)?;
            self.visited.cuts += 1;
            self.visited.uncut -= 1;
            self.images(&images, (steps, Some(bytes)), most)
        })
    }

    fn images(
        &mut self,
        images: &Images,
        (steps, bytes): (usize, Option<u64>),
        bound: u64,
    ) -> Option<(Point, Broken)> {
        let salt = steps as u64 ^ bytes.map_or(0, |bytes| (bytes + 1) << 20);
        let (mut choices, sampled) = choose(images, bound, salt);
        self.visited.sampled += u64::from(sampled);
        choices.push(Choice::Process);
        choices.into_iter().find_map(|choice| self.image(images, Point { steps, bytes, choice }))
    }

    fn image(&mut self, images: &Images, point: Point) -> Option<(Point, Broken)> {
        let image = pick(images, point.choice);
        self.visited.images += 1;
        let crash = Crash { point: self.first.point, nested: Some(point) };
        self.shared.whereabouts.arrives(self.first.thread, crash);
        let power = point.choice != Choice::Process;
        // What shows the same files with nothing pending is something else.
        let hash = if power { image.hash() } else { !image.hash() };
        let First { found, power: went_down, knowledge, .. } = *self.first;
        let judged = Judged {
            image: hash,
            knowledge,
            power: went_down,
            left: found.left,
            clean: found.clean,
            noted: found.noted,
            failing: found.failing,
            ended: self.has_ended(point) && !images.process_crash().has_lost_pages(),
            limits: self.first.start.limits,
        };
        let (number, compares) = (judged.as_number(), self.must_be_alike(power));
        if !self.seen.insert(judged) {
            return None;
        }
        let start = if power { &self.after_power } else { self.first.start };
        let found = self.shared.recoveries.recovered(&image, hash, start, Depth::Recovery);
        // Where there is no room, how much is left of it after a crash decides what of the files can be mended.
        let was_refused =
            self.first.found.was_refused() || found.as_ref().as_ref().is_ok_and(Found::was_refused);
        let compares = compares && !was_refused;
        hold(&self.shared.nested).insert(number, compares && found.is_ok());
        let mut walk = self.walk(images, point);
        walk.down(Arc::new(files_of(&image)));
        judge(&mut walk, &found, self.first.now);
        if let Ok(again) = &*found
            && compares
        {
            walk.again(Again::Killed { operation: point.steps as u64 }, &self.once, Ok(&again.image()));
        }
        walk.findings.first().map(|broken| (point, broken.clone()))
    }

    /// Whether the second recovery must come to the same as the first.
    fn must_be_alike(&self, power: bool) -> bool {
        match self.first.power {
            true => true,
            // What was pending before the first crash was pending still: the second may have taken it. And a failure of the
            // device that the first recovery was told of, nobody tells the second.
            false => !power && !self.first.found.failing,
        }
    }

    /// Whether the recovery had come to its end.
    fn has_ended(&self, point: Point) -> bool {
        point.bytes.is_none() && point.steps == self.first.history.len()
    }

    /// The run up to the second crash. What a recovery has come to its end with has been read by then; where the process alone
    /// had died before it, that may not have been durable yet.
    fn walk(&self, images: &Images, point: Point) -> Walk {
        let First { found, crashed, now, power, .. } = self.first;
        let mut walk = (*crashed).clone();
        if !power && point.choice != Choice::Process {
            if self.has_ended(point) && !images.process_crash().has_lost_pages() {
                walk.started_beside(&found.as_start(), *now);
            }
            walk.goes_down(CrashKind::Power, *now);
        }
        walk.disk_refused(&found.refused, point.steps);
        walk.disturbed(found.clean);
        walk
    }
}

/// The first cut, the last, one in the middle, and those at sectors.
fn few(cuts: Vec<u64>) -> Vec<u64> {
    let (last, middle) = (cuts.len().saturating_sub(1), cuts.len() / 2);
    let is_one =
        |at: usize, bytes: u64| at == 0 || at == middle || at == last || bytes.is_multiple_of(faults::SECTOR);
    cuts.into_iter().enumerate().filter(|(at, bytes)| is_one(*at, *bytes)).map(|(_, bytes)| bytes).collect()
}
