//! What the last run left behind about itself: small files in the data directory.
//!
//! `running` is written, durably, when a run begins to serve: which start of the machine it ran under, and with which
//! durability. `clean` is written, durably, at the end of a clean stop: for each partition what its segments are, so that
//! a clean restart need not read the logs. Before anything else changes it is durably taken back, and lives on as `was-clean`.
//!
//! They end with a line that checks the others. One that is cut or changed is known to be lost: that costs a
//! longer scan, nothing else, and so does a `running` that is missing. But where a `clean` or a `was-clean` is missing, there was no
//! such stop: what only it said was synced counts, after a power loss under `os` or `interval`, as perhaps never synced.
//!
//! `running` speaks for every partition: after a power loss it says of `os` and `interval` that nothing is known to be synced but
//! what is noted elsewhere, in each partition's own directory: see [`crate::synced`]. So it is there only as long as all that was synced for somebody is noted. Where a note cannot be made,
//! `running` goes, and the next start, which knows nothing, cuts nothing that has a good record behind it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::io;
use std::path::Path;

use crate::disk::{self, Disk};
use crate::files;
use crate::report::Gone;
use crate::segment::Sealed;
use crate::settings::Durability;
use crate::units::{Offset, Timestamp};

const CLEAN: &str = "clean";
const WAS_CLEAN: &str = "was-clean";
const RUNNING: &str = "running";
/// The files of this module: where one is, a broker has served.
pub const MARKERS: [&str; 3] = [CLEAN, WAS_CLEAN, RUNNING];
/// A marker longer than this is not read: about a million segments.
pub(crate) const MARKER_BYTES_MAX: u64 = 128 << 20;

/// What recovery may assume of the bytes it finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// A clean stop, which left this partition so.
    Clean(Closed),
    /// Everything written is there as far as a crash is concerned: the process died, the machine did not.
    ProcessCrash {
        /// Whether it ran under `always` or `interval`: what it acknowledged was to be synced, whatever mode comes next.
        promised: bool,
    },
    /// The machine went down under `os` or `interval`: unsynced sectors may be missing in any order.
    PowerLossUnsynced,
    /// The machine went down under `always`, or nobody knows: what was acknowledged may lie anywhere.
    Unknown,
}

/// A partition at a clean stop.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Closed {
    /// Every how many records its indexes had an entry.
    pub index_interval: u64,
    /// Its segments in order, the last one the active one.
    pub segments: Vec<Sealed>,
}

impl Closed {
    /// The records in all its segments.
    pub fn records(&self) -> u64 {
        self.segments.iter().map(|s| s.end.since(s.base)).sum()
    }
}

/// All partitions at a clean stop, by `topic/number`.
pub type CleanStop = BTreeMap<String, Closed>;

/// The durability that a run had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ran {
    Os,
    Interval,
    Always,
}

impl Ran {
    const ALL: [(Ran, &str); 3] = [(Ran::Os, "os"), (Ran::Interval, "interval"), (Ran::Always, "always")];
}

/// What the last run left.
#[derive(Clone, Debug, Default)]
pub struct LastRun {
    /// What its clean stop recorded, if it had one.
    pub clean: Option<CleanStop>,
    /// Whether there is a `clean` file, readable or not.
    pub clean_file: bool,
    /// What the last clean stop before it recorded.
    was_clean: Option<CleanStop>,
    /// Whether there is one of those that cannot be read: what it says was synced, nobody knows.
    is_stop_lost: bool,
    running: Option<(String, Ran)>,
}

impl LastRun {
    /// Reads both files.
    pub fn read<D: Disk>(disk: &D, data: &Path) -> io::Result<Self> {
        let read = |name| files::read_small(disk, &data.join(name), MARKER_BYTES_MAX);
        let clean = match read(CLEAN) {
            // There is one, and it says nothing: that costs a scan.
            Err(e) if e.kind() != io::ErrorKind::NotFound => Some(Vec::new()),
            clean => clean?,
        };
        let running = read(RUNNING).unwrap_or_default();
        let was_clean = read(WAS_CLEAN).unwrap_or_else(|_| Some(Vec::new()));
        let stop = |bytes: Option<&[u8]>| bytes.and_then(files::read_checked_text).and_then(parse_clean);
        let earlier = stop(was_clean.as_deref());
        Ok(Self {
            clean_file: clean.is_some(),
            clean: stop(clean.as_deref()),
            is_stop_lost: was_clean.is_some() && earlier.is_none(),
            was_clean: earlier,
            running: running.as_deref().and_then(files::read_checked_text).and_then(parse_running),
        })
    }

    /// The last segment of a partition at the last clean stop that recorded it, of the last run or of one before it: all of it
    /// was synced.
    pub fn stopped_at(&self, partition: &str) -> Option<Sealed> {
        let closed =
            [&self.clean, &self.was_clean].into_iter().find_map(|stop| stop.as_ref()?.get(partition));
        closed?.segments.last().copied()
    }

    /// What clean stops have recorded, of each partition the last that did: a stop leaves out what takes no writes. But what
    /// only an earlier one has recorded of a topic that is not there goes: there would be ever more of it.
    fn stops(&self, is_there: impl Fn(&str) -> bool) -> CleanStop {
        let is_kept = |partition: &str| partition.rsplit_once('/').is_some_and(|(topic, _)| is_there(topic));
        let earlier = self.was_clean.iter().flatten().filter(|(partition, _)| is_kept(partition));
        let stops = earlier.chain(self.clean.iter().flatten());
        stops.map(|(partition, closed)| (partition.clone(), closed.clone())).collect()
    }

    /// The topics that its clean stop has recorded, and what they held.
    pub fn topics(&self) -> BTreeMap<String, Gone> {
        let mut topics: BTreeMap<String, Gone> = BTreeMap::new();
        for (name, closed) in self.clean.iter().flatten() {
            let Some((topic, _)) = name.rsplit_once('/') else { continue };
            let held = topics.entry(topic.to_owned()).or_default();
            held.partitions += 1;
            held.records += closed.records();
        }
        topics
    }

    /// What recovery may assume of a partition.
    pub fn evidence<D: Disk>(&self, disk: &D, partition: &str) -> Evidence {
        if self.clean_file {
            let closed = self.clean.as_ref().and_then(|c| c.get(partition));
            return closed.map_or(Evidence::Unknown, |c| Evidence::Clean(c.clone()));
        }
        match (&self.running, disk.boot_id()) {
            (Some((boot, ran)), Some(now)) if *boot == now => {
                Evidence::ProcessCrash { promised: *ran != Ran::Os }
            }
            (Some((_, Ran::Os | Ran::Interval)), Some(_)) if !self.is_stop_lost => {
                Evidence::PowerLossUnsynced
            }
            _ => Evidence::Unknown,
        }
    }
}

/// What has become of what clean stops have recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stops {
    /// It is all there, under one name or another.
    Kept,
    /// There was no room for all of it.
    Forgotten,
}

/// Durably takes the clean stop back, before anything changes. It is kept under another name: what it says was synced
/// stays synced, and there is no moment at which nothing says so. To rename it is not enough, since a power loss may leave
/// neither of the two names.
pub fn revoke_clean<D: Disk>(disk: &D, data: &Path, last: &LastRun) -> io::Result<Stops> {
    let (clean, was_clean) = (data.join(CLEAN), data.join(WAS_CLEAN));
    if last.clean.is_none() || last.is_stop_lost {
        // What it said is lost, or one before it. Without that, the note of the run before would speak of a crash where there was
        // none, and of what was never synced where it was.
        forget_run(disk, data)?;
    }
    let there = last.was_clean.as_ref().and_then(|_| names(disk, data));
    // One that is half deleted may come back; and where nobody knows what is there, all is.
    let is_there = |topic: &str| {
        let names = [topic.to_owned(), format!("{topic}{}", files::DELETED_SUFFIX)];
        there.as_ref().is_none_or(|there| names.iter().any(|name| there.contains(name)))
    };
    let stops = last.stops(is_there);
    let kept = if stops.is_empty() {
        Ok(())
    } else if last.was_clean.as_ref() == Some(&stops) {
        // A start that was killed here may have given it that name, and not made the name durable.
        disk.open_dir(data).and_then(|dir| disk::sync_dir(disk, &dir))
    } else {
        files::replace(disk, &was_clean, print_clean(&stops).as_bytes())
    };
    let stops = match kept {
        Err(e) if disk::is_full(&e) && last.clean.is_none() => {
            // Where it says nothing, its name is for nothing that does. What is there says more than has to be kept, of topics that
            // are gone.
            disk.remove_file(&clean)?;
            Stops::Kept
        }
        // A name needs less room than a file.
        Err(e) if disk::is_full(&e) => rename_clean(disk, data)?,
        kept => {
            kept.and_then(|()| disk.remove_file(&clean))?;
            Stops::Kept
        }
    };
    disk::sync_dir(disk, &disk.open_dir(data)?)?;
    Ok(stops)
}

/// Gives the clean stop its other name as it is; without room for a name, to forget the stop is possible still. The note of
/// the run before has to go first: it would speak without what the stop says, where a power loss leaves neither name.
///
/// The file that it takes the name of may say more: of partitions that this stop has left out. The start that comes assumes nothing of
/// those; what it finds of them it notes itself, or this run does not speak.
fn rename_clean<D: Disk>(disk: &D, data: &Path) -> io::Result<Stops> {
    let clean = data.join(CLEAN);
    forget_run(disk, data)?;
    match disk.rename(&clean, &data.join(WAS_CLEAN)) {
        Err(e) if disk::is_full(&e) => {
            disk.remove_file(&clean)?;
            Ok(Stops::Forgotten)
        }
        renamed => renamed.map(|()| Stops::Kept),
    }
}

/// Durably forgets which run this is, or was: the next start assumes nothing.
pub fn forget_run<D: Disk>(disk: &D, data: &Path) -> io::Result<()> {
    files::remove_if_there(disk, &data.join(RUNNING))?;
    disk::sync_dir(disk, &disk.open_dir(data)?)
}

/// The names in a directory, where it can be listed.
fn names<D: Disk>(disk: &D, dir: &Path) -> Option<BTreeSet<String>> {
    Some(disk.list(dir).ok()?.into_iter().map(|entry| entry.name).collect())
}

/// Durably forgets what was said of a topic, before one is made under its name: that is another. Where it was deleted and nobody knows
/// whether that lasts, it is made to last first: what comes back is to be known.
pub fn forget_topic<D: Disk>(disk: &D, data: &Path, topic: &str) -> io::Result<()> {
    let path = data.join(WAS_CLEAN);
    let Some(bytes) = files::read_if_small(disk, &path, MARKER_BYTES_MAX)? else { return Ok(()) };
    let mut stop = files::read_checked_text(&bytes).and_then(parse_clean).unwrap_or_default();
    let before = stop.len();
    stop.retain(|name, _| name.rsplit_once('/').is_none_or(|(of, _)| of != topic));
    if stop.len() == before {
        return Ok(());
    }
    disk::sync_dir(disk, &disk.open_dir(data)?)?;
    files::replace(disk, &path, print_clean(&stop).as_bytes())
}

/// Why it is not written down that a run has begun.
#[derive(Debug)]
pub enum Unnoted {
    /// Nothing is written down: the next recovery assumes nothing.
    Nothing(io::Error),
    /// What is written down is about an earlier run, and would mislead the next recovery about what this one acknowledges.
    Stale(io::Error),
}

/// Durably says that a run has begun. Where that cannot be written, at least nothing wrong should be left to be read.
/// `speaks_for_all`: of what a run has not opened, or has synced without noting it, that would be wrong; then nothing is
/// said, and the next recovery assumes nothing.
pub fn write_running<D: Disk>(
    disk: &D,
    data: &Path,
    durability: Durability,
    speaks_for_all: bool,
) -> Result<(), Unnoted> {
    let forget = || forget_run(disk, data);
    let Some(boot) = disk.boot_id().filter(|_| speaks_for_all) else {
        return forget().map_err(Unnoted::Stale);
    };
    let ran = match durability {
        Durability::Os => Ran::Os,
        Durability::Interval(_) => Ran::Interval,
        Durability::Always => Ran::Always,
    };
    let (_, durability) = Ran::ALL[ran as usize];
    let text = files::checked_text(&format!("boot {boot}\ndurability {durability}\n"));
    files::replace(disk, &data.join(RUNNING), text.as_bytes()).map_err(|e| match forget() {
        Ok(()) => Unnoted::Nothing(e),
        Err(_) => Unnoted::Stale(e),
    })
}

/// Durably says that everything is closed and synced.
pub fn write_clean<D: Disk>(disk: &D, data: &Path, stop: &CleanStop) -> io::Result<()> {
    files::replace(disk, &data.join(CLEAN), print_clean(stop).as_bytes())
}

fn parse_running(lines: &str) -> Option<(String, Ran)> {
    let (boot, durability) = lines.split_once('\n')?;
    let boot = boot.strip_prefix("boot ")?.to_owned();
    let durability = durability.strip_prefix("durability ")?.trim_end();
    let (ran, _) = Ran::ALL.into_iter().find(|(_, name)| *name == durability)?;
    Some((boot, ran))
}

fn print_clean(stop: &CleanStop) -> String {
    let mut text = String::from("clean 1\n");
    for (name, closed) in stop {
        let _ = writeln!(text, "partition {name} {}", closed.index_interval);
        for Sealed { base, end, bytes, latest, entries } in &closed.segments {
            let _ = match latest {
                Some((at, holder)) => writeln!(text, "segment {base} {end} {bytes} {entries} {at} {holder}"),
                None => writeln!(text, "segment {base} {end} {bytes} {entries}"),
            };
        }
    }
    files::checked_text(&text)
}

fn parse_clean(lines: &str) -> Option<CleanStop> {
    let mut lines = lines.lines();
    if lines.next()? != "clean 1" {
        return None;
    }
    let mut stop = CleanStop::new();
    let mut current: Option<&mut Closed> = None;
    for line in lines {
        let mut words = line.split(' ');
        match words.next()? {
            "partition" => {
                let closed = stop.entry(words.next()?.to_owned()).or_default();
                closed.index_interval = words.next()?.parse().ok()?;
                current = Some(closed);
            }
            "segment" => {
                let numbers: Vec<u64> = words.map(|w| w.parse().ok()).collect::<Option<_>>()?;
                current.as_mut()?.segments.push(segment(&numbers)?);
            }
            _ => return None,
        }
    }
    Some(stop)
}

fn segment(numbers: &[u64]) -> Option<Sealed> {
    let (&[base, end, bytes, entries], latest) = numbers.split_first_chunk::<4>()?;
    let latest = match *latest {
        [] => None,
        [at, holder] => Some((Timestamp::from_millis(at), Offset::new(holder))),
        _ => return None,
    };
    Some(Sealed { base: Offset::new(base), end: Offset::new(end), bytes, latest, entries })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clean_stop_is_read_back_as_it_was_written() {
        let latest = Some((Timestamp::from_millis(9), Offset::new(4)));
        let sealed = Sealed { base: Offset::new(3), end: Offset::new(7), bytes: 130, latest, entries: 2 };
        let empty = Sealed { base: Offset::new(7), end: Offset::new(7), bytes: 0, latest: None, entries: 0 };
        let segments = vec![sealed, empty];
        let stop = CleanStop::from([
            ("a/0".to_owned(), Closed { index_interval: 3, segments }),
            ("b/1".to_owned(), Closed::default()),
        ]);
        let text = print_clean(&stop);
        assert_eq!(files::read_checked_text(text.as_bytes()).and_then(parse_clean), Some(stop));
        assert_eq!(parse_clean("clean 2\n"), None);
    }
}
