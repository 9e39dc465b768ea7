//! One crash point: its images, each recovered, read and judged.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use broker::Broker;
use broker::broker::World;
use broker::clock::Clock;
use broker::settings::Settings;
use broker::units::Timestamp;
use broker::work::InLine;
use faults::{Config, Cursor, Disk, History, Image, Images, Profile};

use super::look::Asker;
use super::{Explored, Plan, Seen, Violation};
use crate::executor::Recorded;
use crate::oracle;
use crate::scenario::{self, Scenario};
use crate::trace::{Answer, CrashKind, Entry, Event, Moment, Request, Trace};
use crate::world::DATA;
use crate::world::disk::WorldDisk;
use crate::world::host::{image_of, log_settings, recovered};
use crate::world::phase::Phases;
use crate::world::stall::Stalls;

/// Writes up to this length are cut at every byte; longer ones at sectors and near their ends.
const EVERY_BYTE: u64 = 64;
const SECTOR: u64 = 512;
/// The most violations that are kept of one part.
const VIOLATIONS: usize = 20;
/// Questions of an exploration are numbered from here, far behind those of the run.
const CALLS: u32 = 1 << 30;

/// Recovery stamps no record.
#[derive(Debug)]
struct NoClock;

impl Clock for NoClock {
    fn now(&self) -> Timestamp {
        Timestamp::ZERO
    }
}

/// The profile that a scenario's disk has.
pub fn profile_of(scenario: &Scenario) -> Profile {
    match scenario.disk.profile.unwrap_or_default() {
        scenario::Profile::Strict => Profile::Strict,
        scenario::Profile::Ordered => Profile::Ordered,
        scenario::Profile::Writeback => Profile::Writeback,
        scenario::Profile::Lying => Profile::Lying,
    }
}

/// What clients had seen by some crash point.
struct Before {
    entries: Vec<Entry>,
    topics: BTreeMap<Arc<str>, u32>,
    starting: Option<Event>,
}

/// A crash point, for messages.
struct Point<'a> {
    step: usize,
    operation: &'a dyn Fn() -> String,
    inside: Option<u64>,
}

/// Goes from crash point to crash point.
pub struct Visitor<'a> {
    plan: &'a Plan,
    recorded: &'a Recorded,
    config: Config,
    settings: Settings,
    seen: Seen,
    seen_nested: Seen,
    /// What was found so far.
    pub explored: Explored,
}

impl<'a> Visitor<'a> {
    /// Nothing visited yet.
    pub fn new(scenario: &Scenario, plan: &'a Plan, recorded: &'a Recorded, config: Config) -> Self {
        Self {
            plan,
            recorded,
            config,
            settings: log_settings(&scenario.broker),
            seen: Seen::default(),
            seen_nested: Seen::default(),
            explored: Explored::default(),
        }
    }

    /// Visits the point before the cursor's next step, and the cuts inside that step.
    pub fn point(&mut self, history: &History, cursor: &Cursor<'_>) {
        let step = cursor.position();
        let before = self.before(step);
        if before.starting.is_none() || self.explored.violations.len() >= VIOLATIONS {
            return;
        }
        let steps = history.steps();
        let last = || {
            step.checked_sub(1).map_or_else(|| "the start".to_owned(), |i| format!("after {:?}", steps[i]))
        };
        let point = Point { step, operation: &last, inside: None };
        self.images(&before, &point, &cursor.images(), self.plan.limit);
        let Some(len) = cursor.next_write_len() else { return };
        let within = || format!("within {:?}", steps[step]);
        for bytes in cuts(len) {
            if let Some(images) = cursor.images_inside(bytes) {
                let point = Point { step, operation: &within, inside: Some(bytes) };
                self.images(&before, &point, &images, self.plan.limit.div_ceil(8));
            }
        }
    }

    fn before(&self, step: usize) -> Before {
        let entries = &self.recorded.trace.entries;
        let within = self.recorded.marks.partition_point(|mark| *mark <= step);
        // What the disk did last may lie behind the cut: only the entry after it would say.
        let from_disk = |e: &Entry| matches!(e.event, Event::Disk(_));
        let count = entries[..within].iter().rposition(|e| !from_disk(e)).map_or(0, |last| last + 1);
        let entries = entries[..count].to_vec();
        let starting = entries.iter().rev().find(|e| matches!(e.event, Event::Starting(_)));
        let starting = starting.map(|e| e.event.clone());
        let topics = topics_of(&entries);
        Before { entries, topics, starting }
    }

    fn images(&mut self, before: &Before, point: &Point<'_>, images: &Images, limit: u64) {
        self.explored.cuts += 1;
        let count = images.count();
        let all = count <= u128::from(limit);
        self.explored.sampled += u64::from(!all);
        for n in 0..limit {
            let (image, name) = match all {
                true => match images.nth(n.into()) {
                    Some(image) => (image, format!("{n} of {count}")),
                    None => break,
                },
                false => (images.draw(n), format!("drawn with {n}")),
            };
            self.explored.images += 1;
            if self.seen.insert((image.hash(), before.entries.len())) {
                self.explored.distinct += 1;
                self.image(before, point, &image, &name);
            }
        }
    }

    fn image(&mut self, before: &Before, point: &Point<'_>, image: &Image, name: &str) {
        let disk = image.to_disk(self.config);
        let mut trace = Trace { entries: before.entries.clone() };
        if self.plan.depth > 1 {
            disk.record();
        }
        self.recover(before, &disk, &mut trace.entries);
        self.explored.recoveries += 1;
        let history = disk.take_history();
        self.judge(point, None, name, trace);
        let Some(history) = history else { return };
        let mut cursor = history.cursor();
        while cursor.position() < history.len() {
            self.nested(before, point, &cursor, name);
            cursor.advance();
        }
    }

    /// The lights go out again, within the recovery.
    fn nested(&mut self, before: &Before, point: &Point<'_>, cursor: &Cursor<'_>, name: &str) {
        let images = cursor.images();
        let limit = self.plan.nested_limit;
        let all = images.count() <= u128::from(limit);
        for n in 0..limit {
            let image = match all {
                true => images.nth(n.into()),
                false => Some(images.draw(n)),
            };
            let Some(image) = image else { break };
            if !self.seen_nested.insert((image.hash(), before.entries.len())) {
                continue;
            }
            let disk = image.to_disk(self.config);
            let mut trace = Trace { entries: before.entries.clone() };
            let at = trace.entries.last().map_or(0, |e| e.at);
            let crash = Event::Crash { kind: CrashKind::Power, during: "within the recovery".into() };
            let again = [Event::Crash { kind: CrashKind::Power, during: "".into() }, before.start(), crash];
            trace.entries.extend(again.map(|event| Entry { at, event }));
            self.recover(before, &disk, &mut trace.entries);
            self.explored.nested += 1;
            self.judge(point, Some(cursor.position()), name, trace);
        }
    }

    /// Opens a broker on the disk that a power loss left, and asks it everything.
    fn recover(&self, before: &Before, disk: &Disk, entries: &mut Vec<Entry>) {
        let at = entries.last().map_or(0, |e| e.at);
        let add = |entries: &mut Vec<Entry>, event| entries.push(Entry { at, event });
        let down = !matches!(entries.last().map(|e| &e.event), Some(Event::Crash { .. }));
        if down {
            add(entries, Event::Crash { kind: CrashKind::Power, during: "".into() });
        }
        add(entries, Event::Image { moment: Moment::Down, image: Arc::new(image_of(disk)) });
        add(entries, before.start());
        let process = disk.process();
        let world = World {
            disk: WorldDisk::new(process, Phases::new(disk.clone()), Stalls::new(disk.clone(), 0)),
            clock: Arc::new(NoClock),
            work: Arc::new(InLine),
        };
        match Broker::open(world, Path::new(DATA), self.settings.clone(), &|_, _, _| {}) {
            Err(e) => add(entries, Event::NotStarted { error: e.to_string().into() }),
            Ok((broker, report)) => {
                let partitions = report.partitions.iter().map(recovered).collect();
                add(entries, Event::Started { clean: report.clean, partitions, notes: report.notes.clone() });
                let image = Arc::new(image_of(disk));
                add(entries, Event::Image { moment: Moment::Recovered, image: image.clone() });
                add(entries, Event::LookBegins);
                let mut asker = Asker { entries, at, next_call: CALLS };
                asker.look(&broker, &before.topics);
                add(entries, Event::Image { moment: Moment::Check, image });
                add(entries, Event::LookEnds { complete: true });
                disk.crash_process();
            }
        }
    }

    fn judge(&mut self, point: &Point<'_>, nested: Option<usize>, image: &str, trace: Trace) {
        let verdict = oracle::judge(&trace);
        let Some(broken) = verdict.broken.into_iter().next() else { return };
        if self.explored.violations.len() < VIOLATIONS {
            self.explored.violations.push(Violation {
                step: point.step,
                operation: (point.operation)(),
                inside: point.inside,
                image: image.to_owned(),
                nested,
                broken,
                trace,
            });
        }
    }
}

impl Before {
    fn start(&self) -> Event {
        self.starting.clone().unwrap_or(Event::Ended)
    }
}

/// Where a write of this length is cut.
fn cuts(len: u64) -> Vec<u64> {
    if len <= EVERY_BYTE {
        return (1..len).collect();
    }
    let sectors = (1..).map(|n| n * SECTOR).take_while(|at| *at < len);
    let mut cuts: Vec<u64> = sectors.chain([1, 15, 27, 28, 29, len / 2, len - 1]).collect();
    cuts.sort_unstable();
    cuts.dedup();
    cuts
}

/// The topics that a client knows to be there: made, and not asked to be deleted.
fn topics_of(entries: &[Entry]) -> BTreeMap<Arc<str>, u32> {
    let mut asked = BTreeMap::new();
    let mut topics = BTreeMap::new();
    for entry in entries {
        match &entry.event {
            Event::Call { id, request: Request::CreateTopic { topic, partitions, .. }, .. } => {
                asked.insert(*id, (topic.clone(), *partitions));
            }
            Event::Call { request: Request::DeleteTopic { topic }, .. } => drop(topics.remove(topic)),
            Event::Answer { id, answer: Answer::Done } => {
                if let Some((topic, partitions)) = asked.remove(id) {
                    topics.insert(topic, partitions);
                }
            }
            _ => {}
        }
    }
    topics
}
