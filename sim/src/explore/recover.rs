//! One image, opened by the broker's own recovery, and read from beginning to end.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, mpsc};

use broker::Broker;
use broker::broker::{Topic, World};
use broker::clock::Clock;
use broker::error::Error;
use broker::partition::Partition;
use broker::record;
use broker::settings::Settings;
use broker::units::{Offset, Timestamp};
use faults::{Disk, Errno, History};

use crate::oracle::Broken;
use crate::oracle::look::{HOLES_MAX, Look, PartitionLook};
use crate::oracle::paths;
use crate::oracle::walk::StartBeside;
use crate::source_line::SourceLine;
use crate::trace::{DiskOp, Image, Recovered, Seen};
use crate::world::disk::WorldDisk;
use crate::world::observe::{self, relative};
use crate::world::{DATA, host};

/// About what a record, or a step of a history, takes beside its bytes.
const EACH: usize = 256;
/// So many times are asked about in each partition.
const TIMES: usize = 3;

/// What a recovery came to.
#[derive(Debug)]
pub struct Found {
    /// Whether the device could fail in it.
    pub failing: bool,
    /// Whether it found the last stop clean.
    pub clean: bool,
    /// Whether it noted which run it begins.
    pub noted: bool,
    /// What the disk refused it, for want of room or because nothing could be changed on it, and how many steps of its history lay
    /// before that.
    pub refused: Vec<(DiskOp, usize)>,
    /// What it said.
    pub said: Vec<Recovered>,
    /// What the broker serves, and the files that it serves it from.
    pub look: Look,
    /// The hash of the disk that it left.
    pub left: u128,
    /// What it did to the disk, where that was recorded.
    pub history: Option<History>,
    /// What was wrong when it went on from there: see [`super::go_on`].
    pub then: Option<Box<Broken>>,
}

impl Found {
    /// What the oracle has to know of it.
    pub(super) fn as_start(&self) -> StartBeside<'_> {
        let (clean, noted, failing) = (self.clean, self.noted, self.failing);
        StartBeside { clean, noted, failing, refused: &self.refused, said: &self.said, look: &self.look }
    }

    /// Whether the disk has refused it anything.
    pub(super) fn was_refused(&self) -> bool {
        !self.refused.is_empty()
    }

    /// The files that it left.
    pub fn image(&self) -> Arc<Image> {
        self.look.image.clone().unwrap_or_default()
    }

    /// About how much memory it takes: the files, once more as records, and once more where recovery rewrote them.
    pub fn bytes(&self) -> usize {
        let files: usize = self.look.image.iter().flat_map(|image| &image.0).map(|f| f.bytes.len()).sum();
        let records: usize = self.look.partitions.values().map(|look| look.records.len()).sum();
        let steps = self.history.as_ref().map_or(0, |history| history.steps().len());
        3 * files + EACH * (records + steps)
    }
}

/// A clock that stands still: recovery puts no time on anything that lasts.
#[derive(Debug)]
struct Still;

impl Clock for Still {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(crate::world::clock::EPOCH_MS)
    }
}

/// A broker that has recovered. When it is dropped its process dies, and nothing that dropping does reaches the disk.
pub(super) struct Running<'a> {
    pub(super) broker: Broker<WorldDisk>,
    pub(super) disk: &'a Disk,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.disk.kill_all();
    }
}

/// Recovers what is on a disk; `Err` where the broker does not start.
pub fn recover(
    disk: &Disk,
    settings: &Settings,
    boot: Arc<str>,
    off: Option<&SourceLine>,
) -> Result<Found, String> {
    start(disk, settings, boot, off).map(|(found, _)| found)
}

/// As [`recover`]; the broker still runs.
pub(super) fn start<'a>(
    disk: &'a Disk,
    settings: &Settings,
    boot: Arc<str>,
    off: Option<&SourceLine>,
) -> Result<(Found, Running<'a>), String> {
    if disk.limits().are_none() {
        return open(disk, settings, boot, off);
    }
    let (tell, told) = mpsc::channel();
    disk.observe(move |event| {
        if matches!(event.result, Err(Errno::ENOSPC | Errno::EROFS)) {
            let _ = tell.send((observe::unharmed(event), event.recorded)); // somebody listens as long as it is observed
        }
    });
    let opened = open(disk, settings, boot, off);
    disk.stop_observing();
    let (found, running) = opened?;
    Ok((Found { refused: told.try_iter().collect(), ..found }, running))
}

/// As [`start`], where nobody asks what the disk has refused.
pub(super) fn open<'a>(
    disk: &'a Disk,
    settings: &Settings,
    boot: Arc<str>,
    off: Option<&SourceLine>,
) -> Result<(Found, Running<'a>), String> {
    if let Some(off) = off {
        disk.disable_barrier(&off.file, off.line);
    }
    disk.record();
    let world = World {
        disk: WorldDisk::unwatched(disk.process(), boot),
        clock: Arc::new(Still),
        work: Arc::new(broker::work::InLine),
    };
    let opened = Broker::open(world, Path::new(DATA), settings.clone(), &|_, _, _| {});
    let history = disk.take_history();
    let (broker, report) = opened.map_err(|e| {
        disk.kill_all();
        e.to_string()
    })?;
    let running = Running { broker, disk };
    let mut look = Look { image: Some(Arc::new(host::image_of(disk))), ..Look::default() };
    for (name, number, partition) in running.partitions() {
        look.partitions.insert((name, number), read(&partition));
    }
    let said = report.partitions.iter().map(host::recovered).collect();
    Ok((
        Found {
            failing: false,
            clean: report.clean,
            noted: history.as_ref().is_some_and(names_the_run),
            refused: Vec::new(),
            said,
            look,
            left: disk.snapshot().hash(),
            history,
            then: None,
        },
        running,
    ))
}

/// Whether the note that says which run it is has taken its name.
fn names_the_run(history: &History) -> bool {
    let is_note = |path: &str| paths::is_note_of_the_run_in_the_making(relative(path));
    history.steps().iter().any(|step| step.op == faults::Op::Rename && is_note(&step.path))
}

impl Running<'_> {
    /// Every partition, by topic and number.
    pub(super) fn partitions(&self) -> Vec<(Arc<str>, u32, Partition<WorldDisk>)> {
        let topics = self.broker.topics();
        let of_topic = |topic: &Topic<WorldDisk>| -> Vec<_> {
            let (name, all): (Arc<str>, _) = (topic.name().into(), (0..).zip(topic.partitions()));
            all.map(|(number, partition)| (name.clone(), number, partition.clone())).collect()
        };
        topics.iter().flat_map(of_topic).collect()
    }
}

/// Reads a partition to its end, and steps over what cannot be read.
pub(super) fn read(partition: &Partition<WorldDisk>) -> PartitionLook {
    let Ok(range) = partition.range() else { return PartitionLook::default() };
    let (start, end) = (range.start.get(), range.end.get());
    let hides = partition.latest().is_err();
    let mut look = PartitionLook { start, end, ranged: true, hides, ..PartitionLook::default() };
    let (mut next, mut holes) = (start, 0);
    while next < end {
        match partition.read(Offset::new(next), usize::MAX >> 1) {
            Ok(fetched) if !fetched.bytes.is_empty() => {
                records(&fetched.bytes, &mut look.records);
                next = fetched.next.get().max(next + 1);
            }
            Ok(_) => break,
            Err(e) => {
                let (named, behind) = match &e {
                    Error::Corrupt { offset, next: behind, .. } => (Some(offset.get()), behind.get()),
                    _ => (None, next),
                };
                look.errors.insert(next, (e.code(), named));
                holes += 1;
                if holes <= HOLES_MAX {
                    next += 1;
                } else if behind > next {
                    look.holes.insert(next, behind);
                    next = behind;
                } else {
                    look.disturbed = true; // what lies behind was not asked for
                    break;
                }
            }
        }
    }
    let times: Vec<u64> = look.records.values().map(|r| r.timestamp).collect();
    for at in times.iter().step_by(times.len().div_ceil(TIMES).max(1)) {
        let found = partition.first_at_or_after(Timestamp::from_millis(*at));
        let found = found.ok().map(|found| found.map(|(offset, at)| (offset.get(), at.get())));
        look.times.push((*at, found));
    }
    look
}

fn records(bytes: &bytes::Bytes, into: &mut BTreeMap<u64, Seen>) {
    for found in record::trusted(bytes) {
        let seen = Seen {
            offset: found.offset.get(),
            timestamp: found.timestamp.get(),
            key: found.key.map(|key| bytes.slice_ref(key)),
            value: bytes.slice_ref(found.value),
        };
        into.insert(seen.offset, seen);
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::Run;
    use super::super::report::{Choice, Point};
    use super::recover;
    use crate::scenario::syntax::parse;

    #[test]
    fn what_lies_behind_a_long_hole_is_read() {
        let text = "scenario \"t\"\ntopic orders\nproduce orders value=\"v\" count=1400 batch=1400";
        let run = Run::new(&parse("t", text).expect("a scenario"), 0, None).expect("it runs");
        let point = Point { steps: run.len, bytes: None, choice: Choice::Process };
        let disk = run.image(point).expect("a crash point").to_disk(faults::Config::default());
        let (record, log) = (29, "/data/orders/0/00000000000000000000.log");
        disk.zero(log, 10 * record, 1250 * record).expect("a hole");
        let found = recover(&disk, &run.settings_at(point.steps), run.boot(point), None).expect("it starts");
        let look = &found.look.partitions[&("orders".into(), 0)];
        let there: Vec<u64> = look.records.keys().copied().collect();
        // The run has ended with a record of its own.
        assert_eq!(there, (0..10).chain(1260..look.end).collect::<Vec<_>>());
        assert_eq!((look.missing(), look.disturbed), (None, false));
    }
}
