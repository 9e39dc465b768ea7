//! Faults aimed at one operation of the disk. A fault that was aimed and never struck fails the run, unless the
//! scenario says that it may miss.

use std::time::Duration;

pub use faults::{Errno, Keep};

use super::Rate;

/// `fault OP "PATTERN" nth= during= … KIND`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Which operation.
    pub op: Op,
    /// Which path, relative to the data directory: `*` stands for anything but `/`, `**` for anything. A pattern
    /// without `/` is compared with the file's name only.
    pub pattern: String,
    /// Which one of those that match.
    pub aim: Aim,
    /// What happens to it.
    pub kind: FaultKind,
    /// `into="orders/1/@last.log"`: the file that a misdirected write lands in; its own where there is none.
    pub into: Option<String>,
    /// `may-miss`: that it never strikes is no failure.
    pub may_miss: bool,
}

/// Which of the operations that match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aim {
    /// `nth=3`: the third from here on; the next, by default. Not with `rate`.
    pub nth: u32,
    /// `times=2`: so many in a row, 1 by default; `None`, written `times=all`: until `calm`. Not with `rate`.
    pub times: Option<u32>,
    /// `rate=0.05`: each with this probability, until `calm`.
    pub rate: Option<Rate>,
    /// `at-byte=512`: only a read or write that covers this byte of the file.
    pub at_byte: Option<u64>,
    /// `after="2s"`: not before this time has passed.
    pub after: Option<Duration>,
    /// `during=recovery`: only then.
    pub during: Option<Phase>,
}

impl Default for Aim {
    fn default() -> Self {
        Self { nth: 1, times: Some(1), rate: None, at_byte: None, after: None, during: None }
    }
}

/// An operation of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Any of them.
    Any,
    /// Opening a file, and making one.
    Open,
    /// Opening a file that is not there, which makes it.
    Create,
    /// A read.
    Read,
    /// A write.
    Write,
    /// A change of length.
    Truncate,
    /// A sync of a file.
    Sync,
    /// A sync of a directory.
    SyncDir,
    /// A rename; the pattern is for the old or the new name.
    Rename,
    /// The removal of a file or directory.
    Remove,
    /// The making of a directory.
    MakeDir,
    /// The listing of a directory.
    List,
    /// The taking of a lock.
    Lock,
}

impl Op {
    /// All of them.
    #[cfg(test)]
    pub const ALL: [Op; 13] = [
        Op::Any,
        Op::Open,
        Op::Create,
        Op::Read,
        Op::Write,
        Op::Truncate,
        Op::Sync,
        Op::SyncDir,
        Op::Rename,
        Op::Remove,
        Op::MakeDir,
        Op::List,
        Op::Lock,
    ];
}

/// A phase of the broker's life, apart from serving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Between the start of the process and its first answer.
    Recovery,
    /// While a segment is closed and the next one made.
    Roll,
    /// While it stops cleanly.
    Stop,
}

impl Phase {
    /// Its name in a scenario, and the tag by which the disk knows it.
    pub const fn name(self) -> &'static str {
        match self {
            Phase::Recovery => "recovery",
            Phase::Roll => "roll",
            Phase::Stop => "stop",
        }
    }
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// `error=EIO when=before`: it fails with this errno (`EIO`, `ENOSPC`, `EINTR`, `EMFILE`, `EROFS` …).
    Error {
        /// The errno.
        errno: Errno,
        /// Whether the effect happened all the same.
        when: When,
    },
    /// `tear=15`: of a write, so many bytes get down, and it fails with EIO.
    Tear {
        /// How many.
        bytes: u64,
    },
    /// `short=15`: of a read or write, so many bytes are done, and that is what it answers.
    Short {
        /// How many.
        bytes: u64,
    },
    /// `full` or `full=15`: no room: so many bytes get down (0 by default), and then it fails with ENOSPC. The
    /// disk stays full until a line `disk capacity=` gives it room again.
    Full {
        /// How many.
        bytes: u64,
    },
    /// `lost`: a write or sync that answers yes and does nothing.
    Lost,
    /// `torn=15`: a write that answers yes, and of which only so many bytes reach the disk.
    Torn {
        /// How many.
        bytes: u64,
    },
    /// `misdirect=512`: a write that lands at this byte of its file, or of another, and not where it should have.
    Misdirect {
        /// The byte.
        at: u64,
    },
    /// `flip=3`: just before a read, bit 3 of what it asks for (from the first byte's lowest) rots on the disk, for good.
    Flip {
        /// The bit.
        bit: u64,
    },
    /// `unreadable=512`: the sector under this byte of what a read asks for goes bad just before: it cannot be read until all of it
    /// is written, or `calm`.
    Unreadable {
        /// The byte.
        byte: u64,
    },
    /// `read-only`: the file system turns read-only, as ext4 does after an error of its own (`errors=remount-ro`): from this
    /// operation on, every change fails with EROFS, until a line `disk read-only=no` or a power loss.
    ReadOnly,
    /// `drop`: a sync fails with EIO, and the pages it should have written are dropped and called clean, as Linux
    /// does it.
    Drop,
    /// `writeback-error`: a write succeeds, and the kernel fails to write it back in the background: what was pending on the file is
    /// dropped and called clean, and the next sync fails with EIO.
    WritebackError,
    /// `stall="3s"`: it takes so long.
    Stall {
        /// How long.
        lasts: Duration,
    },
    /// `crash` or `crash=15`: so many bytes of a write are done (all, by default, and then the operation has
    /// happened); then the process is gone, as by kill -9.
    Crash {
        /// How many.
        bytes: Option<u64>,
    },
    /// `power-loss` or `power-loss=15`: so many bytes of a write get down, for good; then the lights go out.
    PowerLoss {
        /// How many; without a number, what becomes of the operation is part of the choice.
        bytes: Option<u64>,
        /// What else survives: `keep=some`, the default, is a legal choice that the seed draws; `nothing`, `all`, `names` and
        /// `data` are extremes; `"image 17"` and `"draw 17"` are what `sim explore` calls by these names.
        keep: Keep,
    },
}

/// Before or after the effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum When {
    /// Nothing happened.
    #[default]
    Before,
    /// It happened, and the answer says that it did not.
    After,
}
