//! Checks every byte of a data directory that no broker is using, and changes nothing.
//!
//! A fault is what a broker would have to serve around, cut, rebuild or refuse. What is only odd, such as a foreign file, or
//! what a crash may leave anywhere and a start tidies up, is a note. Checked are:
//!
//! - the notes of the last runs: each whole;
//! - each topic's settings, and that it has its partitions;
//! - each partition's segments: each begins where the one before ends, and none is less than at the last clean stop;
//! - each log: records whole, checksums right, offsets without gaps;
//! - each index (`index`): entries whole, ascending, each the place of a record or the latest time up to that record, and none
//!   missing where that can be known.

mod index;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use crate::disk::{self, Disk, DiskFile, Open};
use crate::files::{self, Kind, Name};
use crate::index::{Entry, Named};
use crate::listing::{self, Looked, Twins};
use crate::markers::{self, Closed, Evidence, LastRun};
use crate::scan::{self, Misplaced, Scan, Tail};
use crate::segment::Sealed;
use crate::settings::TopicSettings;
use crate::synced::{self, Noted, SyncedTo};
use crate::topic;
use crate::units::{Offset, Position};

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Topics.
    pub topics: usize,
    /// Partitions.
    pub partitions: usize,
    /// Segments.
    pub segments: usize,
    /// Records that are whole and in order.
    pub records: u64,
    /// Bytes of logs.
    pub bytes: u64,
    /// What is wrong, in the order of names and positions.
    pub faults: Vec<Fault>,
    /// What is odd: foreign files, leftovers.
    pub notes: Vec<String>,
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{}: {what}", .file.display(), place(*.byte, *.offset))]
pub struct Fault {
    /// The file or directory, from the data directory on.
    pub file: PathBuf,
    /// Where in it.
    pub byte: Option<Position>,
    /// The offset that is concerned, or the first of them.
    pub offset: Option<Offset>,
    /// What is wrong, and what it means.
    pub what: String,
}

fn place(byte: Option<Position>, offset: Option<Offset>) -> String {
    let byte = byte.map(|byte| format!(", byte {byte}"));
    let offset = offset.map(|offset| format!(", offset {offset}"));
    byte.unwrap_or_default() + &offset.unwrap_or_default()
}

/// Checks a data directory. An error means that it cannot be looked into at all; `WouldBlock`, that a broker has it.
pub fn verify<D: Disk>(disk: &D, data: &Path) -> io::Result<Verdict> {
    let entries = disk.list(data)?;
    let _lock = disk.lock_dir(data)?;
    let last = LastRun::read(disk, data)?;
    let (verdict, seen) = (Verdict::default(), BTreeSet::new());
    let mut verifier = Verifier { disk, data, last: &last, seen, twins: Twins::new(), verdict };
    verifier.markers();
    let dirs: Vec<_> = entries.into_iter().filter(|entry| entry.is_dir).map(|entry| entry.name).collect();
    let topics: Vec<_> = dirs.iter().filter(|name| topic::check_name(name).is_ok()).collect();
    let mut found: BTreeMap<&String, Found> =
        topics.into_iter().map(|name| (name, find(disk, name, &data.join(name)))).collect();
    let topics = found.iter().filter_map(|(name, found)| Some((*name, found.partitions()?)));
    verifier.twins = listing::twins(disk, data, topics);
    for name in &dirs {
        match found.remove(name) {
            Some(found) => verifier.topic(name, found),
            None => verifier.verdict.notes.push(format!("{name} is no topic")),
        }
    }
    verifier.gone();
    Ok(verifier.verdict)
}

/// What a directory is whose name can be a topic's.
enum Found {
    /// A topic of so many partitions. Where its settings are not what they should be, with what is wrong.
    Topic { entries: Vec<disk::Entry>, partitions: u32, wrong: Option<String> },
    /// Somebody else's, with what a start says of it.
    Others(&'static str),
    /// Nobody can say.
    Unreadable(io::Error),
}

impl Found {
    /// How many, where it is a topic.
    fn partitions(&self) -> Option<u32> {
        if let Found::Topic { partitions, .. } = self { Some(*partitions) } else { None }
    }
}

/// By the rules of a start.
fn find<D: Disk>(disk: &D, name: &str, dir: &Path) -> Found {
    try_to_find(disk, dir).unwrap_or_else(|e| match listing::is_of_others(name, &e) {
        true => Found::Others("cannot be read, and a start leaves it alone"),
        false => Found::Unreadable(e),
    })
}

fn try_to_find<D: Disk>(disk: &D, dir: &Path) -> io::Result<Found> {
    let Looked { entries, settings } = listing::look(disk, dir)?;
    if let Ok(Some(TopicSettings { partitions, .. })) = settings {
        return Ok(Found::Topic { entries, partitions, wrong: None });
    }
    let counted = listing::count(disk, dir, &entries)?;
    let (partitions, wrong) = match settings {
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => return Err(e),
        // A start serves nothing of it. What there is can be checked all the same.
        Err(e) => (counted.unwrap_or(0), format!("the topic's settings cannot be read: {e}")),
        Ok(_) => {
            let Some(partitions) = counted else { return Ok(Found::Others("is no topic")) };
            (partitions, "the topic's settings are missing or changed: a start counts its partitions, and deletes nothing".into())
        }
    };
    Ok(Found::Topic { entries, partitions, wrong: Some(wrong) })
}

struct Verifier<'a, D> {
    disk: &'a D,
    data: &'a Path,
    last: &'a LastRun,
    /// The topics that cannot be looked into, and the partitions that were looked for, as `topic/number`.
    seen: BTreeSet<String>,
    twins: Twins,
    verdict: Verdict,
}

/// Base offset → the files that there are.
type Bases = BTreeMap<Offset, Vec<Kind>>;

/// Where a log belongs, and what is known of it.
#[derive(Clone, Copy)]
struct Segment<'a> {
    dir: &'a Path,
    base: Offset,
    /// Where the next one begins; `None`: it is the partition's last.
    next: Option<Offset>,
    /// What a clean stop left of it, where no run has begun since.
    recorded: Option<Sealed>,
    /// How far its log was on the disk once.
    known: Option<Known>,
    /// Whether a power loss may have torn out what is not known to have been on the disk: a start keeps what lies before it.
    keeps_prefix: bool,
    /// The base offsets of all that the partition has files of: what lies behind the last log shows how far that had come.
    bases: &'a BTreeSet<Offset>,
}

impl Segment<'_> {
    /// From where on a start sets aside what is there.
    fn set_aside_from(&self, scan: &Scan) -> Option<Position> {
        let was_synced = |at: Position, first: Offset| {
            self.known.is_some_and(|known| known.all.covers(self.base, at) || known.all.end > first)
        };
        let torn_out = scan.torn_out().find(|(at, first)| !was_synced(*at, *first));
        torn_out.map(|(at, _)| at).filter(|_| self.keeps_prefix)
    }

    /// Where it ends, if that is known. `len`: its bytes.
    fn ends(&self, len: u64) -> Option<Offset> {
        self.next.or_else(|| self.known?.all.ends(self.base, len))
    }

    /// The same, with what is known once it was read.
    fn read(self, scan: &Scan, len: u64) -> Self {
        let (end, behind) = ((scan.end, len - scan.end_at.get()), self.bases.iter().copied());
        let shown = SyncedTo::by_roll(self.base, end, behind).filter(|_| self.next.is_none());
        let shown = shown.map(|to| Known::new(to, "when the next segment was made"));
        Self { known: self.known.into_iter().chain(shown).reduce(Known::and), ..self }
    }
}

/// How far a partition was on the disk once.
#[derive(Clone, Copy)]
struct Known {
    to: SyncedTo,
    /// When: what says so.
    when: &'static str,
    /// What that and all else that is known says together.
    all: SyncedTo,
}

impl Known {
    fn new(to: SyncedTo, when: &'static str) -> Self {
        Self { to, when, all: to }
    }

    fn and(self, other: Self) -> Self {
        let further = if self.to.end > other.to.end { self } else { other };
        Self { all: self.all.and(other.all), ..further }
    }
}

/// A log that was read, for what its indexes are held against.
struct Log<F> {
    file: F,
    path: PathBuf,
    len: u64,
    scan: Scan,
}

impl<F> Log<F> {
    /// Whether damage is at this byte.
    fn is_damaged_at(&self, byte: u64) -> bool {
        let before = self.scan.holes.partition_point(|hole| hole.position.get() <= byte);
        before.checked_sub(1).is_some_and(|last| {
            let hole = self.scan.holes[last];
            byte - hole.position.get() < hole.bytes
        })
    }

    /// Whether an entry of the time index may name a damaged record that is later than those that can be read.
    fn may_be_latest(&self, entry: Entry, latest: Option<Entry>) -> bool {
        let before = self.scan.holes.partition_point(|hole| hole.first.get() <= entry.value);
        // One that has lost no record may lie right before.
        let mut holes = self.scan.holes[..before].iter().rev();
        let is_lost =
            holes.find(|hole| hole.first < hole.next).is_some_and(|hole| entry.value < hole.next.get());
        is_lost && latest.is_none_or(|latest| latest.key <= entry.key)
    }
}

impl<D: Disk> Verifier<'_, D> {
    fn fault(&mut self, file: &Path, byte: Option<u64>, offset: Option<Offset>, what: impl Into<String>) {
        let file = file.strip_prefix(self.data).unwrap_or(file).to_owned();
        self.verdict.faults.push(Fault { file, byte: byte.map(Position::new), offset, what: what.into() });
    }

    fn note(&mut self, file: &Path, what: &str) {
        let file = file.strip_prefix(self.data).unwrap_or(file);
        self.verdict.notes.push(format!("{} {what}", file.display()));
    }

    /// The notes of the last runs are replaced whole, so that no crash leaves half of one.
    fn markers(&mut self) {
        for path in markers::MARKERS.map(|name| self.data.join(name)) {
            match files::read_small(self.disk, &path, markers::MARKER_BYTES_MAX) {
                Ok(Some(bytes)) if files::read_checked_text(&bytes).is_none() => {
                    let what = "its checksum does not fit: the next start knows less, and checks more";
                    self.fault(&path, None, None, what);
                }
                Ok(_) => {}
                Err(e) => self.fault(&path, None, None, format!("cannot be read: {e}")),
            }
        }
    }

    /// Whether it is served under another name, and so not under this one.
    fn is_twin(&mut self, name: &str) -> bool {
        let Some(other) = self.twins.get(name) else { return false };
        let what = listing::twin_of(other);
        self.fault(&self.data.join(name), None, None, what);
        true
    }

    fn topic(&mut self, name: &str, found: Found) {
        let dir = self.data.join(name);
        let (entries, partitions) = match found {
            Found::Others(why) => return self.note(&dir, why),
            Found::Unreadable(e) => {
                self.seen.insert(name.to_owned());
                return self.fault(&dir, None, None, format!("cannot be read: {e}"));
            }
            Found::Topic { .. } if self.is_twin(name) => {
                self.seen.insert(name.to_owned());
                return;
            }
            Found::Topic { entries, partitions, wrong } => {
                if let Some(wrong) = wrong {
                    self.fault(&dir.join(topic::SETTINGS_FILE), None, None, wrong);
                }
                (entries, partitions)
            }
        };
        self.verdict.topics += 1;
        for number in (0..partitions).map(|number| number.to_string()) {
            let partition = format!("{name}/{number}");
            self.seen.insert(partition.clone());
            // Whatever else has its name is no directory that is missing: to look into it is to find out why not.
            match entries.iter().any(|entry| entry.name == number) {
                true if self.is_twin(&partition) => self.verdict.partitions += 1,
                true => self.partition(&partition, &dir.join(number)),
                false => self.fault(&dir.join(number), None, None, "the partition's directory is missing"),
            }
        }
        for entry in entries.iter().filter(|entry| !listing::is_of_topic(&entry.name, partitions)) {
            self.note(&dir.join(&entry.name), "is not ours");
        }
    }

    /// Partitions that a clean stop has left, no run has begun since, and they are not there.
    fn gone(&mut self) {
        for (name, closed) in self.last.clean.iter().flatten() {
            let topic = name.split('/').next().unwrap_or_default();
            if !self.seen.contains(name) && !self.seen.contains(topic) {
                let held = closed.segments.first().zip(closed.segments.last());
                let lost = held.map_or(String::new(), |(a, b)| format!(": {}", lost(a.base, b.end)));
                let what = format!("the partition was there at the last clean stop, and is gone{lost}");
                self.fault(&self.data.join(name), None, None, what);
            }
        }
    }

    fn partition(&mut self, name: &str, dir: &Path) {
        self.verdict.partitions += 1;
        let entries = match self.disk.list(dir) {
            Ok(entries) => entries,
            Err(e) => return self.fault(dir, None, None, format!("cannot be read: {e}")),
        };
        let mut segments = Bases::new();
        let (mut known, mut marked) = (Vec::new(), Vec::new());
        for entry in entries {
            let path = dir.join(&entry.name);
            match files::parse(&entry.name) {
                _ if entry.is_dir => self.note(&path, "is not ours"),
                Name::Segment(base, kind) => segments.entry(base).or_default().push(kind),
                Name::Synced => {}
                Name::Damaged(base) => marked.push(base),
                Name::Unsynced(base) => {
                    self.fault(&path, None, Some(base), "a sync of this log has failed");
                    let to = synced::read_unsynced(self.disk, dir, base);
                    known.push(Known::new(to, "before a sync of it failed"));
                }
                Name::Tmp => self.note(&path, "is an unfinished replacement"),
                Name::Aside => self.note(&path, "was set aside by a recovery"),
                Name::Foreign => self.note(&path, "is not ours"),
            }
        }
        let bases: BTreeSet<Offset> = segments.keys().chain(&marked).copied().collect();
        let (logs, leftovers): (BTreeMap<_, _>, BTreeMap<_, _>) =
            segments.into_iter().partition(|(_, kinds)| kinds.contains(&Kind::Log));
        let at_stop = self.last.stopped_at(name).map(SyncedTo::at_end_of);
        known.extend(at_stop.map(|to| Known::new(to, "at the last clean stop")));
        let mut lost_power = self.last.evidence(self.disk, name) == Evidence::PowerLossUnsynced;
        match synced::read_synced(self.disk, dir) {
            Noted::Nothing => {}
            Noted::To(to) => known.push(Known::new(to, "when it was last synced")),
            Noted::Lost => {
                let what =
                    "neither of its notes can be read: after a power loss, nothing counts as never synced";
                self.fault(&dir.join(files::SYNCED), None, None, what);
                lost_power = false;
            }
        }
        let known = known.into_iter().reduce(Known::and);
        match (logs.first_key_value(), logs.last_key_value()) {
            (Some((first, _)), Some((last, _))) => {
                let recorded = self.last.clean.as_ref().and_then(|clean| clean.get(name));
                self.front(dir, *first, recorded);
                let keeps_prefix = lost_power && !marked.contains(last);
                let shown = self.logs(dir, (&logs, &bases), recorded, known, keeps_prefix);
                self.leftovers(dir, &leftovers, *last, known, shown);
                for base in marked.into_iter().filter(|base| !logs.contains_key(base)) {
                    self.leftover(&files::damaged_path(dir, base), shown == Some(base));
                }
            }
            _ => self.no_logs(dir, &leftovers, known),
        }
    }

    /// Nothing but retention takes segments away from the front, and that only while a broker runs.
    fn front(&mut self, dir: &Path, first: Offset, recorded: Option<&Closed>) {
        for segment in recorded.iter().flat_map(|closed| &closed.segments) {
            if segment.end <= first && segment.base < segment.end {
                let path = files::segment_path(dir, segment.base, Kind::Log);
                let lost = lost(segment.base, segment.end);
                let what = format!("the log was there at the last clean stop, and is gone: {lost}");
                self.fault(&path, None, Some(segment.base), what);
            }
        }
    }

    /// Gives the offset at which the last one had ended once, where it ends before that now.
    fn logs(
        &mut self,
        dir: &Path,
        (logs, bases): (&Bases, &BTreeSet<Offset>),
        recorded: Option<&Closed>,
        known: Option<Known>,
        keeps_prefix: bool,
    ) -> Option<Offset> {
        let (mut end, mut shown) = (None, None);
        for (&base, kinds) in logs {
            let next = logs.range(base.next()..).next().map(|(next, _)| *next);
            let recorded = recorded.and_then(|closed| closed.segments.iter().find(|s| s.base == base));
            let known = known.filter(|_| next.is_none());
            let keeps_prefix = keeps_prefix && next.is_none();
            let recorded = recorded.copied();
            let segment = Segment { dir, base, next, recorded, known, keeps_prefix, bases };
            if let Some(end) = end
                && end != base
            {
                let path = files::segment_path(dir, base, Kind::Log);
                let what = format!("it begins at offset {base}, and the segment before it ends at {end}");
                self.fault(&path, None, Some(end), what);
            }
            let log = self.log(segment);
            if let Some(log) = &log {
                self.indexes(segment, log, kinds);
                let known = segment.read(&log.scan, log.len).known.map(|known| known.all.end);
                shown = known.filter(|known| *known > log.scan.end);
            }
            end = log.map(|log| log.scan.end);
        }
        shown
    }

    /// Indexes without a log. Retention removes a log before its indexes, and a roll makes one before them: a crash leaves
    /// such, and a start removes them. One behind the last log that has entries tells of records that were there.
    /// `shown`: see [`Self::logs`]. What shows that is to show it again, and stays.
    fn leftovers(
        &mut self,
        dir: &Path,
        leftovers: &Bases,
        last: Offset,
        known: Option<Known>,
        shown: Option<Offset>,
    ) {
        for (&base, kinds) in leftovers {
            // Then it is said already where the log ends too early.
            let is_told = known.is_some_and(|known| known.to.segment >= base);
            for path in kinds.iter().map(|kind| files::segment_path(dir, base, *kind)) {
                let len = || self.disk.open(&path, Open::Read).and_then(|file| file.len());
                if base > last && !is_told && len().is_ok_and(|len| len > 0) {
                    let what = "the index has entries, and its log is gone";
                    self.fault(&path, None, Some(base), what);
                } else {
                    self.leftover(&path, shown == Some(base));
                }
            }
        }
    }

    /// What belongs to no log goes, but for what shows up to where the last one had come.
    fn leftover(&mut self, path: &Path, shows: bool) {
        self.note(
            path,
            match shows {
                true => "belongs to no log, and stays: the log before it had come up to there",
                false => "belongs to no log, and goes at the next start",
            },
        );
    }

    fn no_logs(&mut self, dir: &Path, leftovers: &Bases, known: Option<Known>) {
        match known.filter(|known| known.to.end > Offset::ZERO) {
            Some(Known { to, when, .. }) => {
                let path = files::segment_path(dir, to.segment, Kind::Log);
                let what = format!("all logs are gone; {when} they ended at offset {}", to.end);
                self.fault(&path, None, Some(to.segment), what);
            }
            None if !leftovers.is_empty() => {
                self.fault(dir, None, None, "its log files are gone and only indexes are left");
            }
            // No crash takes the last one: see `recovery`.
            None => self.fault(dir, None, None, "its log files are gone"),
        }
    }

    fn log(&mut self, segment: Segment<'_>) -> Option<Log<D::File>> {
        let path = files::segment_path(segment.dir, segment.base, Kind::Log);
        self.verdict.segments += 1;
        let opened = self.disk.open(&path, Open::Read).and_then(|file| Ok((file.len()?, file)));
        let (len, file) = match opened {
            Ok(opened) => opened,
            Err(e) => {
                self.fault(&path, None, Some(segment.base), format!("the log cannot be read: {e}"));
                return None;
            }
        };
        self.verdict.bytes += len;
        let index = files::segment_path(segment.dir, segment.base, Kind::Index);
        let index = Named::new(self.disk, index, len);
        let names = |offset, position| index.has(offset, position);
        let known = scan::Known { ends: segment.ends(len), names: &names };
        let scan = Scan::run(&file, len, segment.base, u64::MAX, known);
        self.verdict.records += scan.records;
        let segment = segment.read(&scan, len);
        let aside = segment.set_aside_from(&scan);
        for hole in &scan.holes {
            let lost = lost(hole.first, hole.next);
            let follow = match aside {
                Some(from) if from == hole.position => SET_ASIDE,
                Some(from) if from < hole.position => "and they lie in what is set aside",
                _ => "good records follow",
            };
            let what = format!("{} bytes are damaged; {lost}, {follow}", hole.bytes);
            self.fault(&path, Some(hole.position.get()), Some(hole.first), what);
        }
        for bad in &scan.unreadable {
            let what = format!("{} bytes cannot be read: {}", bad.end - bad.position, bad.why);
            self.fault(&path, Some(bad.position), None, what);
        }
        if let Some(what) = tail(&scan, len, segment) {
            self.fault(&path, Some(scan.end_at.get()), Some(scan.end), what);
        }
        Some(Log { file, path, len, scan })
    }
}

/// What becomes of good records behind damage where they are no part of what has to be kept.
const SET_ASIDE: &str = "a power loss may have taken them, and nothing shows that they or what follows were synced: the next start sets \
                         aside what lies from here on";

/// What is wrong with the end of a log.
fn tail(scan: &Scan, len: u64, segment: Segment<'_>) -> Option<String> {
    let rest = len - scan.end_at.get();
    let damaged = rest + scan.holes.iter().map(|hole| hole.bytes).sum::<u64>();
    let by_strays =
        scan::end_by_strays(&scan.misplaced, scan.end, damaged).filter(|_| segment.ends(len).is_none());
    let by_strays = by_strays.map(|end| (end, "as a record in the wrong place shows,"));
    let known = segment.known.map(|known| (known.to.end, known.when));
    let missing = known.into_iter().chain(by_strays).filter(|(end, _)| *end > scan.end).max();
    let missing =
        missing.map(|(end, how)| format!("{how} the log ended at offset {end}: {}", lost(scan.end, end)));
    Some(match (&scan.tail, missing) {
        (Tail::Clean, missing) => format!("nothing follows; {}", missing?),
        (Tail::Torn | Tail::Damaged(_), _) if segment.set_aside_from(scan).is_some() => {
            format!(
                "the last {rest} bytes are no record, and nothing shows that they were synced: the next start sets them aside"
            )
        }
        (Tail::Torn, Some(missing)) => format!("the last {rest} bytes are no record; {missing}"),
        (Tail::Torn, None) if segment.next.is_none() && !scan.holes.is_empty() => {
            format!("the last {rest} bytes are no record, and stay: nothing is written behind damage")
        }
        (Tail::Torn, None) if segment.next.is_none() => {
            format!("the last {rest} bytes are no record: an unfinished write, cut off at the next start")
        }
        (Tail::Torn, None) => format!("the last {rest} bytes are no record, and a later segment follows"),
        (Tail::Unreadable(why), _) => format!("the last {rest} bytes cannot all be read: {why}"),
        (Tail::Disorder(misplaced) | Tail::Damaged(misplaced), missing) => {
            let Misplaced { found, position } = misplaced;
            let missing = missing.map_or_else(String::new, |missing| format!("; {missing}"));
            format!(
                "{rest} bytes cannot be put in order: a record at byte {position} claims offset {found}{missing}"
            )
        }
    })
}

/// The offsets from `first` to before `next`.
fn lost(first: Offset, next: Offset) -> String {
    match next.since(first) {
        0 => "no offset is missing".to_owned(),
        1 => format!("offset {first} is lost"),
        _ => format!("offsets {first} to {} are lost", next.get() - 1),
    }
}
