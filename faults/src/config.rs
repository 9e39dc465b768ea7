//! What a disk is like.

use crate::profile::Profile;

/// What a disk is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// What a power loss may leave.
    pub profile: Profile,
    /// Where every random choice comes from: what a power loss leaves, and random faults, each from its own stream.
    pub seed: u64,
    /// How many bytes it holds, in whole blocks of 4 KiB; no end where there is none. Directories take a block each;
    /// inodes and names are not counted, nor are holes.
    pub capacity: Option<u64>,
    /// How many files and locks one process may hold open.
    pub max_open: Option<usize>,
    /// How many of the last syncs a power loss may undo; by default 3 under [`Profile::Lying`], and 0 under the others.
    pub lies: Option<usize>,
}

impl Config {
    /// A disk of that profile, without end, with seed 0.
    pub fn new(profile: Profile) -> Config {
        Config { profile, seed: 0, capacity: None, max_open: None, lies: None }
    }

    pub(crate) fn lies(&self) -> usize {
        self.lies.unwrap_or(self.profile.default_lies())
    }
}

impl Default for Config {
    fn default() -> Config {
        Config::new(Profile::Strict)
    }
}
