//! What happens to files behind the broker's back: bit rot, a repair tool, an operator.
//!
//! Paths are relative to the data directory. In the place of a segment's twenty digits, `@first`, `@last` and `@N`
//! name a partition's first, last and Nth segment (from 0): `orders/0/@last.log`. A change that finds nothing to
//! change (no such file, a place beyond its end) fails the run, unless it says that it may miss.

use super::Content;

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Surgery {
    /// `corrupt FILE at= xor=0xff bytes=1`: flips bits.
    Corrupt {
        /// The file.
        file: String,
        /// Where.
        at: FilePosition,
        /// Which bits of each byte; all by default.
        xor: u8,
        /// How many bytes; 1 by default.
        bytes: u64,
    },
    /// `truncate FILE to=`: cuts it off (or, beyond its end, extends it with zeros).
    Truncate {
        /// The file.
        file: String,
        /// The new end.
        to: FilePosition,
    },
    /// `zeros FILE at= bytes=`: writes zeros; at the end where no place is given.
    Zeros {
        /// The file.
        file: String,
        /// Where.
        at: Option<FilePosition>,
        /// How many.
        bytes: u64,
    },
    /// `write FILE at= hex="…"`: writes bytes; at the end where no place is given. Makes the file (and its
    /// directories) where there is none.
    Write {
        /// The file.
        file: String,
        /// Where.
        at: Option<FilePosition>,
        /// What: `hex=`, `text=`, `size=`.
        bytes: Content,
    },
    /// `write-record FILE at= offset= timestamp= key= value=`: writes a record in the log's format with a CRC that is
    /// right; at the end where no place is given.
    WriteRecord {
        /// The file.
        file: String,
        /// Where.
        at: Option<FilePosition>,
        /// Its offset.
        offset: u64,
        /// Its timestamp, in milliseconds; 0 by default.
        timestamp: u64,
        /// Its key.
        key: Option<Content>,
        /// Its value.
        value: Content,
    },
    /// `write-entry FILE at= offset= position=` (`.index`) or `timestamp= offset=` (`.timeindex`): writes an index
    /// entry with a CRC that is right; at the end where no place is given.
    WriteEntry {
        /// The file.
        file: String,
        /// Where.
        at: Option<FilePosition>,
        /// The entry.
        entry: Entry,
    },
    /// `delete FILE`: a file, or a directory with all in it.
    Delete {
        /// The file.
        file: String,
    },
    /// `copy FILE to="FILE"`: in the place of what had the name.
    Copy {
        /// From.
        file: String,
        /// To.
        to: String,
    },
    /// `rename FILE to="FILE"`: in the place of what had the name.
    Rename {
        /// From.
        file: String,
        /// To.
        to: String,
    },
    /// `make-dir DIR`: and its parents.
    MakeDir {
        /// The directory.
        dir: String,
    },
    /// `unreadable FILE at=`: the 512-byte sector of this byte cannot be read from now on, until it is written, or `calm`.
    Unreadable {
        /// The file.
        file: String,
        /// Where.
        at: FilePosition,
    },
}

/// A place in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilePosition {
    /// `at=15`: this byte; `at=-1`: counted from the end, so the last byte.
    Byte(i64),
    /// `at="50%"`: so far into the file, 0 to 99.
    Percent(u8),
}

/// An entry of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Of `.index`.
    Position {
        /// The record's offset.
        offset: u64,
        /// Where it begins in the log.
        position: u64,
    },
    /// Of `.timeindex`.
    Time {
        /// The largest timestamp so far, in milliseconds.
        timestamp: u64,
        /// The offset of the record that has it.
        offset: u64,
    },
}
