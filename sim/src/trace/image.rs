//! What lies in the data directory.

use std::sync::Arc;

/// One file as it lay on the disk.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ImageFile {
    /// Relative to the data directory.
    pub path: Arc<str>,
    /// Its bytes.
    pub bytes: Arc<[u8]>,
}

/// The files of the data directory at one moment, sorted by path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Image(pub Vec<ImageFile>);

impl Image {
    /// The bytes of one file.
    pub fn get(&self, path: &str) -> Option<&Arc<[u8]>> {
        let at = self.0.binary_search_by(|f| f.path.as_ref().cmp(path)).ok()?;
        Some(&self.0[at].bytes)
    }

    /// Where a hand has taken files of a topic away, and of its settings, which say how many partitions it has, none are left
    /// afterwards: how many there still are. The executor and the oracle share this: whom the one does not ask any more, the other
    /// must not miss.
    pub fn partitions_left(&self, after: &Image, topic: &str) -> Option<usize> {
        let left = after.of_topic(topic);
        if left.len() >= self.of_topic(topic).len() || after.get(&format!("{topic}/topic")).is_some() {
            return None;
        }
        let numbers = left.iter().filter_map(|path| path.split('/').next()?.parse::<u32>().ok());
        Some(numbers.map(|number| number as usize + 1).max().unwrap_or(0))
    }

    /// The paths of a topic's files, below its directory.
    fn of_topic(&self, topic: &str) -> Vec<&str> {
        let inside = format!("{topic}/");
        self.0.iter().filter_map(|file| file.path.strip_prefix(&inside)).collect()
    }
}

/// When an [`super::Event::Image`] was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Moment {
    /// The broker is about to start on them.
    Down,
    /// The scenario is about to do something to files.
    Untouched,
    /// The scenario has done something to files.
    Touched,
    /// The broker has recovered and has not yet answered anybody.
    Recovered,
    /// The broker is up, nothing is in flight, and the oracle asks.
    Check,
}
