//! What the index files of a partition prove: they are derived, so what is wrong with one excuses nothing but itself.

use std::collections::{BTreeMap, BTreeSet};

use faults::Errno;

/// What the names of index files end with.
const ENDINGS: [&str; 2] = ["index", "timeindex"];

/// What is known of a partition's index files.
#[derive(Clone, Debug, Default)]
pub struct Indexes {
    /// Those that the scenario or a lying disk has changed, and that were not built anew since; and how many starts came before
    /// that.
    tampered: BTreeMap<String, u32>,
    /// Something has failed on one since the last start: it may be behind.
    behind: bool,
    /// There was no room for an entry of one since the last start.
    cramped: bool,
    /// The last start could not build one anew: what is left of it may be anything that its checksums tell apart.
    unbuilt: bool,
    /// Those of which a sync has failed, or will: the page cache may hold what the disk does not, and no start can tell.
    dropped: BTreeSet<String>,
}

impl Indexes {
    /// The broker begins to start, and mends what it can.
    pub fn forget_failures(&mut self) {
        (self.behind, self.cramped, self.unbuilt) = (false, false, false);
    }

    /// Something has failed on one, or on one in the making.
    pub fn failed(&mut self, file: &str, errno: Errno) {
        self.behind = true;
        self.cramped |= matches!(errno, Errno::ENOSPC | Errno::EDQUOT);
        self.unbuilt |= file.ends_with(".tmp") && errno == Errno::ENOSPC;
    }

    /// This one could not be synced, or written back.
    pub fn sync_failed(&mut self, path: &str) {
        self.dropped.insert(path.to_owned());
    }

    /// Clean pages have left the cache: what is read of those that could not be synced is what the disk has.
    pub fn caches_dropped(&mut self, starts: u32) {
        for path in std::mem::take(&mut self.dropped) {
            self.tamper(&path, starts);
            self.dropped.insert(path);
        }
    }

    /// Whether what was there when the broker stopped may be gone.
    pub fn may_be_lost(&self) -> bool {
        !self.dropped.is_empty()
    }

    /// Something other than the broker has changed this file: it, or the indexes of it if it is a log, prove nothing any more.
    pub fn tamper(&mut self, path: &str, starts: u32) {
        let (dir, file) = path.rsplit_once('/').unwrap_or(("", path));
        let (stem, kind) = file.split_once('.').unwrap_or((file, ""));
        let changed = |index: &&str| kind == "log" || kind.trim_end_matches(".tmp") == *index;
        for index in ENDINGS.into_iter().filter(changed) {
            self.tampered.insert(format!("{dir}/{stem}.{index}"), starts);
        }
    }

    /// A start has built one anew: it proves something again, unless it has been changed since that start began.
    pub fn rebuilt(&mut self, index: &str, starts: u32) {
        if self.tampered.get(index).is_some_and(|before| *before < starts) {
            self.tampered.remove(index);
        }
    }

    /// Whether this one holds what the broker has written.
    pub fn is_trusted(&self, index: &str) -> bool {
        !self.tampered.contains_key(index)
    }

    /// Whether all of them do.
    pub fn are_trusted(&self) -> bool {
        self.tampered.is_empty()
    }

    /// Whether entries may be missing at the end of one.
    pub fn may_be_behind(&self) -> bool {
        self.behind
    }

    /// Whether they may be missing because there was no room.
    pub fn are_cramped(&self) -> bool {
        self.cramped
    }

    /// Whether one may hold entries whose checksums fail.
    pub fn may_be_broken(&self) -> bool {
        self.unbuilt
    }
}
