//! Checks every byte of a data directory that no broker is using, and changes nothing.
//!
//! A fault is what a broker would have to serve around, cut, rebuild or refuse. What is only odd, such as a foreign file, is
//! a note. Checked are:
//!
//! - each topic's settings, and that it has its partitions;
//! - each partition's segments: each begins where the one before ends;
//! - each log: records whole, checksums right, offsets without gaps;
//! - each index: entries whole, ascending, and each the place of a record, or the latest time up to that record.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use crate::disk::{Disk, DiskFile, Open, read_full_at};
use crate::files::{self, Kind, Name};
use crate::index::{ENTRY_BYTES, Entry};
use crate::meter::Meter;
use crate::scan::{Scan, Tail, Window};
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
    let mut verifier = Verifier { disk, data, verdict: Verdict::default() };
    for entry in entries.iter().filter(|entry| entry.is_dir) {
        match topic::check_name(&entry.name) {
            Ok(()) => verifier.topic(&entry.name),
            Err(_) => verifier.verdict.notes.push(format!("{} is no topic", entry.name)),
        }
    }
    Ok(verifier.verdict)
}

struct Verifier<'a, D> {
    disk: &'a D,
    data: &'a Path,
    verdict: Verdict,
}

/// A log that was read, for what its indexes are held against.
struct Log<F> {
    file: F,
    path: PathBuf,
    base: Offset,
    scan: Scan,
}

impl<D: Disk> Verifier<'_, D> {
    fn fault(&mut self, file: &Path, byte: Option<u64>, offset: Option<Offset>, what: impl Into<String>) {
        let file = file.strip_prefix(self.data).unwrap_or(file).to_owned();
        self.verdict.faults.push(Fault { file, byte: byte.map(Position::new), offset, what: what.into() });
    }

    fn topic(&mut self, name: &str) {
        let dir = self.data.join(name);
        let (settings, entries) = match (topic::read_settings(self.disk, &dir), self.disk.list(&dir)) {
            (Ok(settings), Ok(entries)) => (settings, entries),
            (Err(e), _) | (_, Err(e)) => return self.fault(&dir, None, None, format!("cannot be read: {e}")),
        };
        self.verdict.topics += 1;
        let Some(settings) = settings else {
            return self.fault(&dir.join("topic"), None, None, "the topic's settings are missing or changed");
        };
        for number in 0..settings.partitions {
            let name = number.to_string();
            match entries.iter().any(|entry| entry.is_dir && entry.name == name) {
                true => self.partition(&dir.join(name)),
                false => self.fault(&dir.join(name), None, None, "the partition's directory is missing"),
            }
        }
        let ours = |name: &str| {
            let number = name.parse::<u32>().is_ok_and(|n| n < settings.partitions && n.to_string() == name);
            number || name == "topic"
        };
        for entry in entries.iter().filter(|entry| !ours(&entry.name)) {
            self.verdict.notes.push(format!("{name}/{} is not ours", entry.name));
        }
    }

    fn partition(&mut self, dir: &Path) {
        self.verdict.partitions += 1;
        let entries = match self.disk.list(dir) {
            Ok(entries) => entries,
            Err(e) => return self.fault(dir, None, None, format!("cannot be read: {e}")),
        };
        let mut segments: BTreeMap<Offset, Vec<Kind>> = BTreeMap::new();
        for entry in entries {
            let path = dir.join(&entry.name);
            match files::parse(&entry.name) {
                Name::Segment(base, kind) if !entry.is_dir => segments.entry(base).or_default().push(kind),
                Name::Synced | Name::Damaged(_) => {}
                Name::Unsynced(base) => self.fault(&path, None, Some(base), "a sync of this log has failed"),
                name => {
                    let shown = path.strip_prefix(self.data).unwrap_or(&path).display();
                    let what = match name {
                        Name::Tmp => "is an unfinished replacement",
                        Name::Aside => "was set aside by a recovery",
                        _ => "is not ours",
                    };
                    self.verdict.notes.push(format!("{shown} {what}"));
                }
            }
        }
        let last = segments.keys().next_back().copied();
        let mut end = None;
        for (base, kinds) in segments {
            let path = files::segment_path(dir, base, Kind::Log);
            if let Some(end) = end
                && end != base
            {
                let what = format!("it begins at offset {base}, and the segment before it ends at {end}");
                self.fault(&path, None, Some(end), what);
            }
            end = match self.log(&path, base, Some(base) == last) {
                Some(log) => {
                    self.indexes(dir, &log, &kinds);
                    Some(log.scan.end)
                }
                None => None,
            };
        }
    }

    fn log(&mut self, path: &Path, base: Offset, is_last: bool) -> Option<Log<D::File>> {
        self.verdict.segments += 1;
        let opened = self.disk.open(path, Open::Read).and_then(|file| Ok((file.len()?, file)));
        let (len, file) = match opened {
            Ok(opened) => opened,
            Err(e) => {
                self.fault(path, None, Some(base), format!("the log cannot be read: {e}"));
                return None;
            }
        };
        self.verdict.bytes += len;
        let scan = Scan::run(&file, len, base, u64::MAX);
        self.verdict.records += scan.records;
        for hole in &scan.holes {
            let lost = match hole.next.since(hole.first) {
                0 => "no offset is missing".to_owned(),
                1 => format!("offset {} is lost", hole.first),
                _ => format!("offsets {} to {} are lost", hole.first, hole.next.get() - 1),
            };
            let what = format!("{} bytes are damaged; {lost}, good records follow", hole.bytes);
            self.fault(path, Some(hole.position.get()), Some(hole.first), what);
        }
        for bad in &scan.unreadable {
            let what = format!("{} bytes cannot be read: {}", bad.end - bad.position, bad.why);
            self.fault(path, Some(bad.position), None, what);
        }
        let (at, rest) = (scan.end_at.get(), len - scan.end_at.get());
        let tail = match &scan.tail {
            Tail::Clean => None,
            Tail::Torn if is_last => Some(format!(
                "the last {rest} bytes are no record: an unfinished write, cut off at the next start"
            )),
            Tail::Torn => Some(format!("the last {rest} bytes are no record, and a later segment follows")),
            Tail::Unreadable(why) => Some(format!("the last {rest} bytes cannot all be read: {why}")),
            Tail::Disorder { found, position } => Some(format!(
                "{rest} bytes cannot be put in order: a record at byte {position} claims offset {found}"
            )),
        };
        if let Some(what) = tail {
            self.fault(path, Some(at), Some(scan.end), what);
        }
        Some(Log { file, path: path.to_owned(), base, scan })
    }

    fn indexes(&mut self, dir: &Path, log: &Log<D::File>, kinds: &[Kind]) {
        let mut both = Vec::new();
        for kind in [Kind::Index, Kind::TimeIndex] {
            let path = files::segment_path(dir, log.base, kind);
            if kinds.contains(&kind) {
                let entries = self.entries(&path);
                both.push((path, entries));
            } else {
                self.fault(&path, None, None, "the index is missing: it is rebuilt at the next start");
            }
        }
        if let [(places, index), (times, time_index)] = &both[..] {
            self.compare(log, places, index, times, time_index);
        }
    }

    /// The whole, valid entries of an index file.
    fn entries(&mut self, path: &Path) -> Vec<Entry> {
        const REBUILT: &str = "the index costs time where it is wrong, and is rebuilt when a start finds out";
        let read = self.disk.open(path, Open::Read).and_then(|file| {
            let len = usize::try_from(file.len()?).map_err(io::Error::other)?;
            let mut bytes = vec![0; len];
            let n = read_full_at(&file, &mut bytes, 0)?;
            bytes.truncate(n);
            Ok(bytes)
        });
        let bytes = match read {
            Ok(bytes) => bytes,
            Err(e) => {
                self.fault(path, None, None, format!("the index cannot be read: {e}"));
                return Vec::new();
            }
        };
        let mut entries: Vec<Entry> = Vec::new();
        for (i, piece) in bytes.chunks(ENTRY_BYTES).enumerate() {
            let at = Some((i * ENTRY_BYTES) as u64);
            match Entry::decode(piece) {
                Some(entry)
                    if entries
                        .last()
                        .is_none_or(|last| last.key <= entry.key && last.value <= entry.value) =>
                {
                    entries.push(entry);
                }
                Some(_) => {
                    self.fault(path, at, None, format!("the entry is out of order; {REBUILT}"));
                    break;
                }
                None => {
                    self.fault(path, at, None, format!("this is no whole, valid entry; {REBUILT}"));
                    break;
                }
            }
        }
        entries
    }

    /// Holds the entries of both indexes, which are made in pairs, against the records.
    fn compare(
        &mut self,
        log: &Log<D::File>,
        places: &Path,
        index: &[Entry],
        times: &Path,
        time_index: &[Entry],
    ) {
        let mut window = Window::new(&log.file, log.scan.end_at.get());
        let mut holes = log.scan.holes.iter().peekable();
        let mut meter = Meter::new(u64::MAX);
        let (mut at, mut next) = (0, 0);
        while at < log.scan.end_at.get() && (next < index.len() || next < time_index.len()) {
            if let Some(hole) = holes.next_if(|hole| hole.position.get() == at) {
                at += hole.bytes;
                continue;
            }
            let Ok(Ok(found)) = window.record(at) else {
                return self.fault(&log.path, Some(at), None, "what could be read before cannot be read now");
            };
            let (offset, timestamp, len) = (found.offset, found.timestamp, found.len() as u64);
            let _ = meter.record(offset, timestamp, Position::new(at));
            let due = index.get(next).is_some_and(|entry| entry.key <= offset.get());
            if due {
                let (byte, entry) = ((next * ENTRY_BYTES) as u64, index[next]);
                if (entry.key, entry.value) != (offset.get(), at) {
                    let what =
                        format!("the entry {} → {} is not the place of a record", entry.key, entry.value);
                    self.fault(places, Some(byte), Some(Offset::new(entry.key)), what);
                }
                let latest = meter.latest.map(|(at, offset)| Entry { key: at.get(), value: offset.get() });
                if let Some(entry) = time_index.get(next)
                    && Some(*entry) != latest
                {
                    let what =
                        format!("the entry {} → {} is not the latest time so far", entry.key, entry.value);
                    self.fault(times, Some(byte), Some(Offset::new(entry.value)), what);
                }
                next += 1;
            }
            at += len;
        }
        for (path, entries) in [(places, index), (times, time_index)] {
            if let Some(entry) = entries.get(next) {
                let byte = (next * ENTRY_BYTES) as u64;
                let what = format!("{} entries lead behind the end of the log", entries.len() - next);
                let offset = if path == places { entry.key } else { entry.value };
                self.fault(path, Some(byte), Some(Offset::new(offset)), what);
            }
        }
    }
}
