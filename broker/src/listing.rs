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

/// Whether a topic with so many partitions has something of this name in its directory.
pub(crate) fn is_of_topic(name: &str, partitions: u32) -> bool {
    name == topic::SETTINGS_FILE || files::partition_number(name).is_some_and(|number| number < partitions)
}

/// So many names of what is not ours are told.
const TOLD: usize = 5;

/// What a start says of what is not ours: one line, however much it is.
pub(crate) fn left_alone(names: &[String]) -> Option<String> {
    let (last, others) = names.split_last()?;
    let names = match others {
        [] => format!("{last} is"),
        _ if names.len() <= TOLD => format!("{} and {last} are", others.join(", ")),
        _ => format!("{} and {} more are", names[..TOLD].join(", "), names.len() - TOLD),
    };
    Some(format!("{names} not ours: left alone"))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_ours_is_told_in_one_line() {
        let told = |count: u32| left_alone(&(1..=count).map(|n| n.to_string()).collect::<Vec<_>>());
        assert_eq!(told(0), None);
        assert_eq!(told(1).unwrap(), "1 is not ours: left alone");
        assert_eq!(told(2).unwrap(), "1 and 2 are not ours: left alone");
        assert_eq!(told(5).unwrap(), "1, 2, 3, 4 and 5 are not ours: left alone");
        assert_eq!(told(6).unwrap(), "1, 2, 3, 4, 5 and 1 more are not ours: left alone");
        assert_eq!(told(9000).unwrap(), "1, 2, 3, 4, 5 and 8995 more are not ours: left alone");
    }

    #[test]
    fn a_topic_has_its_partitions_and_its_settings() {
        for name in ["topic", "0", "2"] {
            assert!(is_of_topic(name, 3), "{name}");
        }
        for name in ["topics", "3", "00", "-1", "x"] {
            assert!(!is_of_topic(name, 3), "{name}");
        }
    }
}
