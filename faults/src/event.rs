//! What the disk was asked to do and what came of it, for whoever wants to write it down.

use std::fmt;
use std::panic::Location;
use std::time::Duration;

use crate::errno::Errno;
use crate::fault::FaultId;

/// An operation on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Op {
    /// Opening a file, and making it.
    Open,
    /// Reading at a position.
    Read,
    /// Writing at a position.
    Write,
    /// Asking for a length.
    Len,
    /// Truncating or extending.
    SetLen,
    /// Making a file's data durable.
    Sync,
    /// Making a directory's entries durable.
    SyncDir,
    /// Giving another name.
    Rename,
    /// Removing a file's name.
    Remove,
    /// Making a directory.
    MakeDir,
    /// Removing a directory.
    RemoveDir,
    /// Listing a directory.
    List,
    /// Locking a directory.
    Lock,
}

impl Op {
    /// Its name in a scenario or a trace.
    pub fn name(self) -> &'static str {
        match self {
            Op::Open => "open",
            Op::Read => "read",
            Op::Write => "write",
            Op::Len => "len",
            Op::SetLen => "set-len",
            Op::Sync => "sync",
            Op::SyncDir => "sync-dir",
            Op::Rename => "rename",
            Op::Remove => "remove",
            Op::MakeDir => "make-dir",
            Op::RemoveDir => "remove-dir",
            Op::List => "list",
            Op::Lock => "lock",
        }
    }

    /// Whether a fault that is aimed at this operation strikes that one.
    pub(crate) fn takes_in(self, other: Op) -> bool {
        self == other || (self == Op::Remove && other == Op::RemoveDir)
    }

    /// Whether it changes what processes see; a read-only file system refuses it.
    pub fn changes(self) -> bool {
        matches!(self, Op::Write | Op::SetLen | Op::Rename | Op::Remove | Op::MakeDir | Op::RemoveDir)
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A place in a program's source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Site {
    /// The file, as the compiler was told of it.
    pub file: &'static str,
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1.
    pub column: u32,
}

impl From<&'static Location<'static>> for Site {
    fn from(location: &'static Location<'static>) -> Site {
        Site { file: location.file(), line: location.line(), column: location.column() }
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// One operation, after it happened. Borrowed: an observer copies what it wants to keep.
#[derive(Clone, Debug)]
pub struct Event<'a> {
    /// Which run of the program asked, counted from 1 over the life of the disk.
    pub process: u64,
    /// What was asked.
    pub op: Op,
    /// Of which file or directory, by its name at the time.
    pub path: &'a str,
    /// The other name of a rename.
    pub to: Option<&'a str>,
    /// The byte position of a read or write.
    pub position: u64,
    /// The bytes asked for or given; the new length of a [`Op::SetLen`].
    pub len: u64,
    /// Bytes read or written, the length, or the number of entries; 0 where there is nothing to count. Of an operation
    /// that a crash cut short, the death is in `death` and this is what was done by then.
    pub result: Result<u64, Errno>,
    /// The fault that struck.
    pub fault: Option<FaultId>,
    /// The crash that struck.
    pub death: Option<&'a Death>,
    /// Where in the program a change or a sync was asked for.
    pub site: Option<Site>,
    /// Whether that sync was switched off.
    pub barrier_off: bool,
    /// The tag set by [`crate::Disk::set_phase`]; empty where none is.
    pub phase: &'a str,
    /// How long the device made the caller wait.
    pub stalled: Duration,
    /// How many steps the history that is being recorded has by now: this operation belongs to the last of them, if it
    /// changed anything.
    pub recorded: usize,
}

/// How a process ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Death {
    /// Whether the whole machine lost power.
    pub power_loss: bool,
    /// The operation it struck in; none where it came from outside.
    pub inside: Option<Struck>,
}

/// The operation that a crash struck in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Struck {
    /// The fault that did it.
    pub fault: FaultId,
    /// What was being done.
    pub op: Op,
    /// To what.
    pub path: String,
    /// How far it came.
    pub progress: Progress,
}

/// How far an operation came before a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Nothing was done.
    Before,
    /// Of a write, so many of so many bytes.
    Bytes(u64, u64),
    /// All was done, and the caller never knew.
    After,
}

impl fmt::Display for Death {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.power_loss { "power loss" } else { "crash" })?;
        let Some(struck) = &self.inside else { return Ok(()) };
        match struck.progress {
            Progress::Before => write!(f, " before {} {}", struck.op, struck.path),
            Progress::Bytes(done, of) => write!(f, " at byte {done} of {of}, {} {}", struck.op, struck.path),
            Progress::After => write!(f, " after {} {}", struck.op, struck.path),
        }
    }
}

impl std::error::Error for Death {}
