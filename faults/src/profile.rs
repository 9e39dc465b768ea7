//! What a power loss may leave: the profiles, and where their rules come from.

use std::fmt;
use std::str::FromStr;

/// Which images of the disk a power loss may legally leave. See the crate page for the rules and their sources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Profile {
    /// POSIX and no more: any subset of pending sectors, lengths and directory entries, in any order.
    #[default]
    Strict,
    /// Like ext4 with `data=ordered`: data before length, directory operations in order.
    Ordered,
    /// Like ext4 with `data=writeback`: directory operations in order, but a length may be ahead of its data.
    Writeback,
    /// `Ordered` on a device that says yes to a flush, and has not kept the last few of them.
    Lying,
}

impl Profile {
    /// All of them.
    pub const ALL: [Profile; 4] = [Profile::Strict, Profile::Ordered, Profile::Writeback, Profile::Lying];

    /// Directory operations go through one journal, in order; syncing a file or a directory commits it.
    pub(crate) fn journals(self) -> bool {
        self != Profile::Strict
    }

    /// A file's length is on the medium only after the data below it.
    pub(crate) fn data_before_length(self) -> bool {
        matches!(self, Profile::Ordered | Profile::Lying)
    }

    /// How many of the last syncs the device may not have kept, unless the configuration says otherwise.
    pub(crate) fn default_lies(self) -> usize {
        if self == Profile::Lying { 3 } else { 0 }
    }

    /// Its name, as [`FromStr`] reads it.
    pub const fn name(self) -> &'static str {
        match self {
            Profile::Strict => "strict",
            Profile::Ordered => "ordered",
            Profile::Writeback => "writeback",
            Profile::Lying => "lying",
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that is no profile's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no profile is called `{0}`: strict, ordered, writeback and lying are")]
pub struct UnknownProfile(pub String);

impl FromStr for Profile {
    type Err = UnknownProfile;

    fn from_str(name: &str) -> Result<Profile, UnknownProfile> {
        Profile::ALL.into_iter().find(|p| p.name() == name).ok_or_else(|| UnknownProfile(name.to_owned()))
    }
}
