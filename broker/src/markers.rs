//! What the last run left behind about itself: small files in the data directory.
//!
//! `running` is written, durably, when a run begins to serve: which start of the machine it ran under, and with which
//! durability. `clean` is written, durably, at the end of a clean stop: for each partition what its segments are, so that
//! a clean restart need not read the logs. Before anything else changes it is durably taken back, and lives on as `was-clean`.
//!
//! In a partition's own directory, `synced` notes how far syncs have come under `os` and `interval`, and in any mode where a
//! damaged log ends; and a log's `.unsynced` that a sync of it has failed. A `synced` that is there and cannot be read has said
//! more than anybody knows: of that partition, nothing counts as never synced then.
//!
//! Those of the data directory end with a line that checks the others. One that is cut or changed is known to be lost: that costs a
//! longer scan, nothing else, and so does a `running` that is missing. But where a `clean` or a `was-clean` is missing, there was no
//! such stop: what only it said was synced counts, after a power loss under `os` or `interval`, as perhaps never synced.
//!
//! `running` speaks for every partition: after a power loss it says of `os` and `interval` that nothing is known to be synced but
//! what is noted elsewhere. So it is there only as long as all that was synced for somebody is noted. Where a note cannot be made,
//! `running` goes, and the next start, which knows nothing, cuts nothing that has a good record behind it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::io;
use std::path::Path;

use crate::disk::{self, Disk, DiskFile, Open};
use crate::files::{self, Kind};
use crate::index::{self, ENTRY_BYTES, Entry};
use crate::report::Gone;
use crate::segment::Sealed;
use crate::settings::Durability;
use crate::units::{Offset, Position, Timestamp};

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
        Err(e) if disk::is_full(&e) => {
            // A name needs less room than a file. But the file that it takes the name of may say more.
            let says_all = last.clean.as_ref() == Some(&stops);
            rename_clean(disk, data, says_all)?
        }
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
fn rename_clean<D: Disk>(disk: &D, data: &Path, says_all: bool) -> io::Result<Stops> {
    let clean = data.join(CLEAN);
    forget_run(disk, data)?;
    match disk.rename(&clean, &data.join(WAS_CLEAN)) {
        Err(e) if disk::is_full(&e) => {
            disk.remove_file(&clean)?;
            Ok(Stops::Forgotten)
        }
        renamed => renamed.map(|()| if says_all { Stops::Kept } else { Stops::Forgotten }),
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

/// Durably forgets what was said of a topic, before one is made under its name: that is another.
pub fn forget_topic<D: Disk>(disk: &D, data: &Path, topic: &str) -> io::Result<()> {
    let path = data.join(WAS_CLEAN);
    let Some(bytes) = files::read_if_small(disk, &path, MARKER_BYTES_MAX)? else { return Ok(()) };
    let mut stop = files::read_checked_text(&bytes).and_then(parse_clean).unwrap_or_default();
    let before = stop.len();
    stop.retain(|name, _| name.rsplit_once('/').is_none_or(|(of, _)| of != topic));
    if stop.len() == before { Ok(()) } else { files::replace(disk, &path, print_clean(&stop).as_bytes()) }
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

/// Up to where a partition is known to be on the disk. In order: of two, the one that comes further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SyncedTo {
    /// The base offset of the segment; those before it are synced whole.
    pub segment: Offset,
    /// The byte in it.
    pub bytes: Position,
    /// The offset that follows there, or one behind it: see [`read_unsynced`].
    pub end: Offset,
}

impl SyncedTo {
    /// All of a segment.
    pub fn at_end_of(last: Sealed) -> Self {
        Self { segment: last.base, bytes: Position::new(last.bytes), end: last.end }
    }

    /// What two notes say together. One that knows more offsets may know fewer bytes.
    pub fn and(self, other: Self) -> Self {
        let (segment, bytes) = (self.segment, self.bytes).max((other.segment, other.bytes));
        Self { segment, bytes, end: self.end.max(other.end) }
    }

    /// Whether a byte of this segment lies before it.
    pub fn covers(&self, base: Offset, position: Position) -> bool {
        self.segment > base || (self.segment == base && self.bytes > position)
    }
}

/// What is noted of how far a partition's syncs have come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noted {
    /// Nothing: no sync has been noted.
    Nothing,
    /// As far as this.
    To(SyncedTo),
    /// There is a note, and nobody can read it: they may have come as far as anything.
    Lost,
}

/// Bytes of a note: the place and the end, each with a checksum of its own.
const NOTE_BYTES: usize = 2 * ENTRY_BYTES;
/// Where the two notes lie: what is torn of one, or rots, is at most the sector or the page that it lies in.
const SLOTS: [u64; 2] = [0, 4096];

impl SyncedTo {
    fn encode(self) -> Vec<u8> {
        let place = Entry { key: self.segment.get(), value: self.bytes.get() };
        let end = Entry { key: self.end.get(), value: self.bytes.get() };
        index::encode_all(&[place, end])
    }

    /// `None` where it is torn or has rotted: a checksum does not fit, or the two parts do not fit each other.
    fn decode(bytes: &[u8]) -> Option<Self> {
        let (place, end) = bytes.split_at_checked(ENTRY_BYTES)?;
        let (place, end) = (Entry::decode(place)?, Entry::decode(end)?);
        let fits = place.value == end.value;
        fits.then(|| Self {
            segment: Offset::new(place.key),
            bytes: Position::new(place.value),
            end: Offset::new(end.key),
        })
    }
}

/// What each slot of `synced` says, as far as it can be read.
fn slots<F: DiskFile>(file: &F) -> [Option<SyncedTo>; 2] {
    SLOTS.map(|at| {
        let mut note = [0; NOTE_BYTES];
        let n = disk::read_full_at(file, &mut note, at).ok()?;
        SyncedTo::decode(&note[..n])
    })
}

/// Notes, durably, up to where a partition is known to be on the disk.
///
/// The file has two slots and appears with both of them written, so that no crash leaves it without a note. From then on each
/// note is written in place, which costs one sync, and over the one that says less. What was synced stays synced: so both are
/// true, the one that says more is the later one, and a crash that tears a note leaves that.
pub fn write_synced<D: Disk>(disk: &D, dir: &Path, to: SyncedTo) -> io::Result<()> {
    let path = dir.join(files::SYNCED);
    let file = match disk.open(&path, Open::Write) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            let write = |at: u64, file: &_| disk::write_full_at(file, &to.encode(), at);
            let noted =
                files::replace_with(disk, &path, |file| SLOTS.into_iter().try_for_each(|at| write(at, file)));
            if noted.is_err() {
                // It may have a name that does not last. Then the next one is the first.
                let _ = disk.remove_file(&path);
            }
            return noted;
        }
        file => file?,
    };
    let [first, second] = slots(&file);
    let slot = if first <= second { SLOTS[0] } else { SLOTS[1] };
    disk::write_full_at(&file, &to.encode(), slot)?;
    disk::sync_file(&file)
}

/// What [`write_synced`] noted last. No crash takes both slots, so where neither can be read, that is rot. Earlier brokers wrote the
/// first slot only, where a crash may have torn it; that counts as lost like any other, and the next note is a second slot.
pub fn read_synced<D: Disk>(disk: &D, dir: &Path) -> Noted {
    match disk.open(&dir.join(files::SYNCED), Open::Read) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Noted::Nothing,
        Err(_) => Noted::Lost,
        Ok(file) => slots(&file).into_iter().max().flatten().map_or(Noted::Lost, Noted::To),
    }
}

/// Leaves a mark that a log's sync failed, so that the next recovery writes it anew; and what was durable before: nothing of
/// that is torn off by a crash. Best effort, on a failing disk. The mark need not outlive the machine: the cache that it warns
/// of does not either.
///
/// What has failed the sync may be that there is no room, and then there is none for a mark: a full disk often still makes the
/// file, and refuses what is to be in it. A name needs less room than a file, and an index is derived: the log's own index becomes
/// the mark then. It does for any other error, too, such as too many open files: the name alone is a mark, if one that says nothing.
/// Whoever has the index open still reads entries that lead nowhere, and searches from the segment's beginning.
pub fn write_unsynced<D: Disk>(disk: &D, dir: &Path, base: Offset, durable: Offset) {
    let entry = Entry { key: durable.get(), value: 0 }.encode();
    let path = files::unsynced_path(dir, base);
    let say = |mark: D::File| {
        disk::write_full_at(&mark, &entry, 0)?;
        if mark.len()? > ENTRY_BYTES as u64 { disk::set_len(&mark, ENTRY_BYTES as u64) } else { Ok(()) }
    };
    let _ = disk.open(&path, Open::Create).and_then(say).or_else(|_| {
        disk.rename(&files::segment_path(dir, base, Kind::Index), &path)?;
        say(disk.open(&path, Open::Write)?)
    });
}

/// What the mark says was durable; nothing of the segment, where it says nothing. What is left of an index says nothing, too:
/// only the entry of the segment's first record has the value 0.
pub fn read_unsynced<D: Disk>(disk: &D, dir: &Path, base: Offset) -> SyncedTo {
    let bytes = files::read_small(disk, &files::unsynced_path(dir, base), ENTRY_BYTES as u64);
    let entry = bytes.ok().flatten().and_then(|bytes| Entry::decode(&bytes)).filter(|entry| entry.value == 0);
    let end = entry.map_or(base, |entry| Offset::new(entry.key));
    // How many bytes that were, it does not say.
    SyncedTo { segment: base, bytes: Position::ZERO, end }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::OsDisk;

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

    fn synced(n: u64) -> SyncedTo {
        SyncedTo { segment: Offset::new(n / 3), bytes: Position::new(30 * n), end: Offset::new(n) }
    }

    #[test]
    fn a_note_of_a_sync_that_is_torn_leaves_the_one_before() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(files::SYNCED);
        let read = || read_synced(&OsDisk, dir.path());
        assert_eq!(read(), Noted::Nothing);
        write_synced(&OsDisk, dir.path(), synced(1)).unwrap();
        for n in 2..6 {
            let before = std::fs::read(&path).unwrap();
            write_synced(&OsDisk, dir.path(), synced(n)).unwrap();
            assert_eq!(read(), Noted::To(synced(n)));
            let after = std::fs::read(&path).unwrap();
            let slot = if n % 2 == 0 { 0 } else { after.len() - NOTE_BYTES };
            for torn in slot..slot + NOTE_BYTES {
                std::fs::write(&path, [&after[..torn], &before[torn..]].concat()).unwrap();
                let says = [n - 1, n].map(|n| Noted::To(synced(n)));
                assert!(says.contains(&read()), "{n}, torn at {torn}: {:?}", read());
            }
            std::fs::write(&path, after).unwrap();
        }
    }

    #[test]
    fn a_note_of_a_sync_of_which_neither_slot_can_be_read_is_lost() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(files::SYNCED);
        let (read, note) =
            (|| read_synced(&OsDisk, dir.path()), |n| write_synced(&OsDisk, dir.path(), synced(n)));
        note(1).unwrap();
        note(2).unwrap();
        let whole = std::fs::read(&path).unwrap();
        for byte in 0..NOTE_BYTES {
            let mut rotten = whole.clone();
            rotten[byte] ^= 1;
            std::fs::write(&path, &rotten).unwrap();
            assert_eq!(read(), Noted::To(synced(1)), "byte {byte}");
            rotten[usize::try_from(SLOTS[1]).unwrap() + byte] ^= 1;
            std::fs::write(&path, &rotten).unwrap();
            assert_eq!(read(), Noted::Lost, "byte {byte}");
        }
        // The next note is one again, and so is one over it.
        note(3).unwrap();
        assert_eq!(read(), Noted::To(synced(3)));
        note(4).unwrap();
        assert_eq!(read(), Noted::To(synced(4)));
        for nothing in [&[][..], &[0; NOTE_BYTES], &[0; 2 * NOTE_BYTES]] {
            std::fs::write(&path, nothing).unwrap();
            assert_eq!(read(), Noted::Lost);
        }
    }

    /// As brokers wrote it that knew one slot.
    #[test]
    fn a_note_of_a_sync_in_one_slot_is_read_and_stays_until_there_is_another() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(files::SYNCED);
        std::fs::write(&path, synced(7).encode()).unwrap();
        assert_eq!(read_synced(&OsDisk, dir.path()), Noted::To(synced(7)));
        write_synced(&OsDisk, dir.path(), synced(8)).unwrap();
        assert_eq!(read_synced(&OsDisk, dir.path()), Noted::To(synced(8)));
        assert_eq!(std::fs::read(&path).unwrap()[..NOTE_BYTES], synced(7).encode());
    }

    /// An index may have given its name for the mark, and not have been written over: whatever its entries are, they are not what
    /// was durable.
    #[test]
    fn an_index_in_the_place_of_a_mark_says_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let base = Offset::new(7);
        let mark = files::unsynced_path(dir.path(), base);
        let read = || read_unsynced(&OsDisk, dir.path(), base).end.get();
        for index in [&[][..], &[(7, 0)], &[(9, 60)], &[(9, 60), (12, 150)]] {
            let entries: Vec<_> = index.iter().map(|&(key, value)| Entry { key, value }).collect();
            std::fs::write(&mark, index::encode_all(&entries)).unwrap();
            assert_eq!(read(), 7, "{index:?}");
        }
        write_unsynced(&OsDisk, dir.path(), base, Offset::new(11));
        assert_eq!(read(), 11);
        assert_eq!(std::fs::read(&mark).unwrap().len(), ENTRY_BYTES);
    }
}
