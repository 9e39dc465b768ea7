//! What lies in the data directory: which directories are topics, which are other people's, and which are one directory under
//! two names. A start serves by these rules, and `verify` checks by them.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use crate::disk::{Disk, Entry, Identity};
use crate::files;
use crate::settings::{Settings, TopicSettings};
use crate::topic;

/// A directory whose name can be a topic's.
pub(crate) struct Looked {
    /// What is in it.
    pub entries: Vec<Entry>,
    /// What it was made with; `None` where the file that says so is missing or not whole.
    pub settings: io::Result<Option<TopicSettings>>,
}

/// Looks into a directory whose name can be a topic's.
pub(crate) fn look<D: Disk>(disk: &D, dir: &Path) -> io::Result<Looked> {
    let entries = disk.list(dir)?;
    Ok(Looked { entries, settings: topic::read_settings(disk, dir) })
}

/// How many partitions a directory with these entries seems to have, where its settings are lost; `None`: it is no topic of ours.
pub(crate) fn count<D: Disk>(disk: &D, dir: &Path, entries: &[Entry]) -> io::Result<Option<u32>> {
    let numbers = entries.iter().filter(|e| e.is_dir).filter_map(|e| files::partition_number(&e.name));
    let numbers: Vec<u32> = numbers.filter(|n| *n < Settings::PARTITIONS_MAX).collect();
    // Other people's directories have names that are numbers, too.
    let mut is_ours = false;
    for number in &numbers {
        is_ours |= holds_a_segment(disk, &dir.join(number.to_string()))?;
    }
    Ok(numbers.into_iter().max().filter(|_| is_ours).map(|last| last + 1))
}

fn holds_a_segment<D: Disk>(disk: &D, dir: &Path) -> io::Result<bool> {
    let entries = disk.list(dir)?;
    Ok(entries.iter().any(|entry| matches!(files::parse(&entry.name), files::Name::Segment(..))))
}

/// Whether a directory that cannot be looked into is somebody else's: what others keep in the root of a file system is hidden as a
/// rule, and not to be looked into.
pub(crate) fn is_of_others(name: &str, error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied && name.starts_with('.')
}

/// Topics, and partitions as `topic/number`, that are another one under a second name, with the name of that one.
pub(crate) type Twins = BTreeMap<String, String>;

/// Which of these topics, with so many partitions, are twins, and which partitions of the others. Whoever served both would write
/// over its own records.
pub(crate) fn twins<'a, D: Disk>(
    disk: &D,
    data: &Path,
    topics: impl Iterator<Item = (&'a String, u32)> + Clone,
) -> Twins {
    let mut twins = twins_among(disk, topics.clone().map(|(name, _)| (name.clone(), data.join(name))));
    let of = |(name, partitions): (&String, u32)| {
        let (name, dir) = (name.clone(), data.join(name));
        (0..partitions).map(move |n| (format!("{name}/{n}"), dir.join(n.to_string())))
    };
    let partitions = twins_among(disk, topics.filter(|(name, _)| !twins.contains_key(*name)).flat_map(of));
    twins.extend(partitions);
    twins
}

/// The first of several is the one that is no link, or else the one that comes first.
fn twins_among<D: Disk>(disk: &D, dirs: impl Iterator<Item = (String, PathBuf)>) -> Twins {
    let mut same: BTreeMap<Identity, Vec<(String, PathBuf)>> = BTreeMap::new();
    for (name, dir) in dirs {
        // One that cannot be asked for cannot be opened either, and whoever tries says why.
        if let Ok(Some(identity)) = disk.identity(&dir) {
            same.entry(identity).or_default().push((name, dir));
        }
    }
    let mut twins = Twins::new();
    for mut names in same.into_values().filter(|names| names.len() > 1) {
        names.sort_by_cached_key(|(_, dir)| disk.is_link(dir).unwrap_or(false));
        let mut names = names.into_iter().map(|(name, _)| name);
        let first = names.next().unwrap_or_default();
        twins.extend(names.map(|name| (name, first.clone())));
    }
    twins
}

/// Why a directory is not served that is another one under a second name.
pub(crate) fn twin_of(other: &str) -> String {
    format!("it leads to the directory of {other}, which is served under that name only")
}
