//! A topic: its partitions, what it was made with, and which partition a record goes to.
//!
//! A directory with one file, `topic`, and one directory for each partition:
//!
//! ```text
//! partitions 3
//! retention-bytes 1073741824      only where the topic was made with it
//! retention-ms 604800000          likewise
//! crc 1c291ca3                    of the lines above
//! ```
//!
//! A topic is made under another name and renamed when it is complete; it is deleted by being renamed first. So after a
//! crash it is there with all its partitions, or not at all.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::disk::{self, Disk};
use crate::error::{self, Error};
use crate::files;
use crate::markers;
use crate::partition::Partition;
use crate::segment;
use crate::settings::{Settings, TopicSettings};
use crate::units::Offset;
use crate::work::{Job, Work};

/// The file with what a topic was made with.
pub const SETTINGS_FILE: &str = "topic";
const SETTINGS_BYTES_MAX: u64 = 4096;
const NAME_CHARS_MAX: usize = 249;

/// So many partitions of a topic are made at the same time.
const CREATED_AT_ONCE: usize = 16;

/// A topic, as a client sees it. Clones are the same topic.
#[derive(Clone, Debug)]
pub struct Topic<D: Disk>(Arc<Shared<D>>);

#[derive(Debug)]
struct Shared<D: Disk> {
    name: String,
    settings: TopicSettings,
    partitions: Vec<Partition<D>>,
    /// The partition of the next record without a key.
    turn: AtomicU32,
}

impl<D: Disk> Topic<D> {
    pub(crate) fn new(name: String, settings: TopicSettings, partitions: Vec<Partition<D>>) -> Self {
        Self(Arc::new(Shared { name, settings, partitions, turn: AtomicU32::new(0) }))
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// What it was made with.
    pub fn settings(&self) -> &TopicSettings {
        &self.0.settings
    }

    /// How many partitions.
    pub fn partition_count(&self) -> u32 {
        self.0.settings.partitions
    }

    /// All partitions, by number.
    pub fn partitions(&self) -> &[Partition<D>] {
        &self.0.partitions
    }

    /// The partition of this number.
    pub fn partition(&self, number: u32) -> Result<&Partition<D>, Error> {
        self.0.partitions.get(number as usize).ok_or_else(|| Error::UnknownPartition {
            topic: self.name().into(),
            partition: number,
            count: self.partition_count(),
        })
    }

    /// The partition for a record with this key: by 32-bit FNV-1a of the key, or the next in turn where there is none.
    pub fn route(&self, key: Option<&[u8]>) -> u32 {
        match key {
            Some(key) => partition_of(key, self.partition_count()),
            None => {
                let count = self.partition_count();
                let turn =
                    self.0.turn.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |t| Some((t + 1) % count));
                turn.unwrap_or(0)
            }
        }
    }
}

/// The partition of a key: the 32-bit FNV-1a hash, unsigned, modulo the number of partitions (at least 1). Changing this
/// would send a key's next record to another partition than its last.
///
/// <http://www.isthe.com/chongo/tech/comp/fnv/> gives the parameters.
pub fn partition_of(key: &[u8], partitions: u32) -> u32 {
    let hash =
        key.iter().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
    hash % partitions
}

/// Checks a topic's name: 1 to 249 characters of `[A-Za-z0-9._-]`, not `.` or `..`, and none that the data directory needs for itself.
pub fn check_name(name: &str) -> Result<(), Error> {
    let legal = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    let fits =
        (1..=NAME_CHARS_MAX).contains(&name.len()) && name.bytes().all(legal) && name != "." && name != "..";
    // The data directory's own files share its name space.
    let taken =
        markers::MARKERS.iter().any(|own| name.strip_suffix(files::TMP_SUFFIX).unwrap_or(name) == *own);
    match (fits, taken) {
        (true, false) => Ok(()),
        (true, true) => Err(Error::ReservedTopic { name: name.to_owned() }),
        (false, _) => Err(Error::InvalidTopic { name: error::shown(name) }),
    }
}

/// Checks what a topic is to be made with.
pub fn check_settings(settings: &TopicSettings) -> Result<(), Error> {
    check_partitions(settings)?;
    if settings.retention_ms() == Some(0) {
        let what = "records that are kept for 0 ms (retention-ms) would not be kept at all".into();
        return Err(Error::InvalidRequest { what });
    }
    Ok(())
}

fn check_partitions(settings: &TopicSettings) -> Result<(), Error> {
    let (count, max) = (settings.partitions, Settings::PARTITIONS_MAX);
    if count == 0 || count > max {
        let what = format!("a topic has 1 to {max} partitions, not {count}");
        return Err(Error::InvalidRequest { what });
    }
    Ok(())
}

/// How making or deleting a topic failed.
#[derive(Debug)]
pub(crate) enum Unsettled {
    /// Nothing has happened.
    Undone(io::Error),
    /// It has happened, or may have, for this reason: only a restart shows.
    InDoubt(String),
    /// Nothing has happened: the broker is stopping.
    Stopping,
}

impl Unsettled {
    /// A rename told an error, and nobody knows that it has not happened.
    fn renamed(e: &io::Error) -> Self {
        Self::InDoubt(format!("renaming its directory failed, and may have happened all the same: {e}"))
    }

    /// A rename has happened, and may not last.
    fn unsynced(e: &io::Error) -> Self {
        Self::InDoubt(format!("the data directory could not be synced: {e}"))
    }
}

impl From<io::Error> for Unsettled {
    fn from(error: io::Error) -> Self {
        Self::Undone(error)
    }
}

/// Makes a topic's directory with all it holds, durably. That takes a sync for each partition, which a stop does not wait for.
pub(crate) fn create<D: Disk>(
    disk: &D,
    work: &dyn Work,
    data: &Path,
    name: &str,
    settings: &TopicSettings,
    is_stopping: impl Fn() -> bool + Sync,
) -> Result<(), Unsettled> {
    let unfinished = data.join(format!("{name}{}", files::NEW_SUFFIX));
    files::remove_tree(disk, &unfinished)?;
    let made = (|| {
        disk.create_dir(&unfinished)?;
        create_partitions(disk, work, &unfinished, settings.partitions, is_stopping)?;
        files::replace(disk, &unfinished.join(SETTINGS_FILE), print(settings).as_bytes())?;
        check_free(disk, &data.join(name))?;
        // It is not what a stop has recorded of one of its name, which was deleted, or went without a word to us. What is known of
        // that one is not given up for one that cannot be made.
        Ok(markers::forget_topic(disk, data, name)?)
    })();
    if let Err(unsettled) = made {
        let _ = files::remove_tree(disk, &unfinished);
        return Err(unsettled);
    }
    let dir = disk.open_dir(data)?;
    if let Err(e) = disk.rename(&unfinished, &data.join(name)) {
        match is_gone(disk, &unfinished) {
            Ok(true) => {}
            Ok(false) => {
                let _ = files::remove_tree(disk, &unfinished);
                return Err(Unsettled::Undone(e));
            }
            Err(_) => return Err(Unsettled::renamed(&e)),
        }
    }
    // The topic is there, also where an error has come after that; whether it stays is for the disk to say.
    disk::sync_dir(disk, &dir).map_err(|e| Unsettled::unsynced(&e))
}

/// An error where there is something of this name that a directory cannot take the place of.
fn check_free<D: Disk>(disk: &D, dir: &Path) -> io::Result<()> {
    match disk.list(dir) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Ok(entries) if entries.is_empty() => Ok(()),
        Err(e) => Err(e),
        Ok(_) => Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "a directory with something in it has this name",
        )),
    }
}

/// Makes the directories of its partitions, several at the same time: their syncs share what a device does for each. After one has
/// failed, no more are begun.
fn create_partitions<D: Disk>(
    disk: &D,
    work: &dyn Work,
    topic: &Path,
    count: u32,
    is_stopping: impl Fn() -> bool + Sync,
) -> Result<(), Unsettled> {
    let failed = Mutex::new(None);
    let fail = |why| {
        failed.lock().unwrap_or_else(|e| e.into_inner()).get_or_insert(why);
    };
    let has_failed = || failed.lock().unwrap_or_else(|e| e.into_inner()).is_some();
    let create = |number: u32| match has_failed() {
        true => Ok(()),
        false if is_stopping() => Err(Unsettled::Stopping),
        false => create_partition(disk, &topic.join(number.to_string())).map_err(Unsettled::Undone),
    };
    let job = |number| -> Job<'_> { Box::new(move || create(number).unwrap_or_else(fail)) };
    work.run_all((0..count).map(job).collect(), CREATED_AT_ONCE);
    failed.into_inner().unwrap_or_else(|e| e.into_inner()).map_or(Ok(()), Err)
}

fn create_partition<D: Disk>(disk: &D, dir: &Path) -> io::Result<()> {
    disk.create_dir(dir)?;
    segment::create(disk, dir, Offset::ZERO, 1)?;
    disk::sync_dir(disk, &disk.open_dir(dir)?)
}

/// Takes a topic's directory away, durably; what is in it is removed afterwards with [`remove_deleted`]. Not before what was in an
/// earlier one of its name.
pub(crate) fn rename_deleted<D: Disk>(
    disk: &D,
    data: &Path,
    name: &str,
    is_stopping: impl Fn() -> bool,
) -> Result<(), Unsettled> {
    let deleted = deleted_path(data, name);
    match remove_deleted(disk, data, name, &is_stopping) {
        Err(_) if is_stopping() => return Err(Unsettled::Stopping),
        removed => removed?,
    }
    let dir = disk.open_dir(data)?;
    if let Err(e) = disk.rename(&data.join(name), &deleted) {
        // An error after its effect is one too.
        return Err(match is_gone(disk, &data.join(name)) {
            Ok(false) => Unsettled::Undone(e),
            Ok(true) | Err(_) => Unsettled::renamed(&e),
        });
    }
    disk::sync_dir(disk, &dir).map_err(|e| Unsettled::unsynced(&e))
}

/// Removes what a deleted topic has left, up to a stop: the rest goes at the next start.
pub(crate) fn remove_deleted<D: Disk>(
    disk: &D,
    data: &Path,
    name: &str,
    is_stopping: &dyn Fn() -> bool,
) -> io::Result<()> {
    files::remove_tree_unless(disk, &deleted_path(data, name), is_stopping)
}

fn deleted_path(data: &Path, name: &str) -> PathBuf {
    data.join(format!("{name}{}", files::DELETED_SUFFIX))
}

/// Whether a directory has lost its name; an error where nobody can tell.
fn is_gone<D: Disk>(disk: &D, dir: &Path) -> io::Result<bool> {
    match disk.list(dir) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(true),
        listed => listed.map(|_| false),
    }
}

/// What a topic was made with; `None` where its file is missing or not whole.
pub(crate) fn read_settings<D: Disk>(disk: &D, dir: &Path) -> io::Result<Option<TopicSettings>> {
    let bytes = files::read_if_small(disk, &dir.join(SETTINGS_FILE), SETTINGS_BYTES_MAX)?;
    Ok(bytes.as_deref().and_then(files::read_checked_text).and_then(parse))
}

fn print(settings: &TopicSettings) -> String {
    let mut lines = format!("partitions {}\n", settings.partitions);
    if let Some(bytes) = settings.retention_bytes {
        lines += &format!("retention-bytes {bytes}\n");
    }
    if let Some(ms) = settings.retention_ms() {
        lines += &format!("retention-ms {ms}\n");
    }
    files::checked_text(&lines)
}

fn parse(lines: &str) -> Option<TopicSettings> {
    let mut settings = TopicSettings::with_partitions(0);
    for line in lines.lines() {
        let (word, number) = line.split_once(' ')?;
        let number: u64 = number.parse().ok()?;
        match word {
            "partitions" => settings.partitions = u32::try_from(number).ok()?,
            "retention-bytes" => settings.retention_bytes = Some(number),
            "retention-ms" => settings.retention_age = Some(Duration::from_millis(number)),
            _ => return None,
        }
    }
    check_partitions(&settings).ok()?;
    Some(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_go_where_32_bit_fnv_1a_sends_them() {
        assert_eq!(["user-1", "user-2", "user-3"].map(|k| partition_of(k.as_bytes(), 3)), [1, 1, 2]);
        assert_eq!(partition_of(b"", 3), 1, "the empty key is a key");
        // Its hash is 0x80000000: negative as a signed number.
        let of = [1, 2, 3, 5, 6, 7, 10].map(|n| partition_of(b"1468509572224", n));
        assert_eq!(of, [0, 0, 2, 3, 2, 2, 8]);
    }

    #[test]
    fn names_that_could_leave_the_data_directory_or_clash_with_its_files_are_refused() {
        for name in ["a", "orders", "A.b_c-9", "...", &"x".repeat(249)] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        let long = "x".repeat(250);
        for name in [
            "",
            ".",
            "..",
            "a/b",
            "../x",
            "/etc",
            "a\0b",
            "é",
            " a",
            "a ",
            "a~new",
            "clean",
            "running.tmp",
            &long,
        ] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }

    #[test]
    fn a_name_that_the_data_directory_needs_is_not_called_misspelt() {
        for (name, says) in
            [("clean", "data directory"), ("running.tmp", "data directory"), ("a/b", "characters")]
        {
            assert!(check_name(name).is_err_and(|e| e.to_string().contains(says)), "{name}");
        }
    }

    #[test]
    fn a_topic_that_keeps_nothing_is_refused_and_one_that_is_there_is_read() {
        let at_once =
            TopicSettings { retention_age: Some(Duration::ZERO), ..TopicSettings::with_partitions(1) };
        assert!(check_settings(&at_once).is_err());
        assert_eq!(files::read_checked_text(print(&at_once).as_bytes()).and_then(parse), Some(at_once));
    }

    #[test]
    fn settings_are_read_back_as_they_were_written() {
        let all = TopicSettings {
            partitions: 3,
            retention_bytes: Some(1 << 30),
            retention_age: Some(Duration::from_secs(7)),
        };
        for settings in [TopicSettings::with_partitions(1), all] {
            let text = print(&settings);
            assert_eq!(files::read_checked_text(text.as_bytes()).and_then(parse), Some(settings));
        }
        let mut part_of_one = TopicSettings::with_partitions(1);
        part_of_one.retention_age = Some(Duration::from_micros(500));
        assert_eq!(print(&part_of_one).lines().nth(1), Some("retention-ms 1"), "and not nothing");
        assert_eq!(parse("partitions 0\n"), None);
        assert_eq!(parse("partitions 1\ncolour 3\n"), None);
    }
}
