//! What can go wrong in the log, where, and what to do about it. Each error has a stable [`Code`] on the wire.

use std::io;
use std::path::PathBuf;

use crate::disk;
use crate::files;
use crate::units::{Offset, Position};

/// The stable name of a kind of error; clients and scenarios act on it. The numbers are those of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(i32)]
pub enum Code {
    /// The request cannot be understood, or asks for something impossible.
    InvalidRequest = 1,
    /// A frame is longer than the server takes.
    FrameTooLarge = 2,
    /// A topic's name breaks the rules.
    InvalidTopic = 3,
    /// There is no topic of this name.
    UnknownTopic = 4,
    /// There is a topic of this name already.
    TopicExists = 5,
    /// The topic has no partition of this number.
    UnknownPartition = 6,
    /// The offset is before the first or after the last.
    OffsetOutOfRange = 7,
    /// A record is longer than the server takes.
    RecordTooLarge = 8,
    /// The bytes on disk are not those that were written.
    Corrupt = 9,
    /// The disk is full. Nothing was stored; it works again when there is room.
    StorageFull = 10,
    /// The disk failed. Nothing was stored; another try may work.
    StorageFailed = 11,
    /// The partition takes no writes until it is reopened. Nothing was stored.
    Fenced = 12,
    /// The disk failed at a moment that leaves open whether the record will be found after a restart.
    OutcomeUnknown = 13,
    /// The server has as many connections as it takes.
    TooManyConnections = 14,
    /// The server is stopping. Nothing was stored.
    ShuttingDown = 15,
    /// The peer was idle, or slow within one frame, for too long.
    Timeout = 16,
    /// The server could not be reached, and nothing was sent. Only a client says this.
    Unavailable = 17,
}

impl Code {
    /// Whether a refused produce with this code may nevertheless have been stored.
    pub fn leaves_outcome_unknown(self) -> bool {
        self == Code::OutcomeUnknown
    }
}

/// What mends what broke while the broker ran, and what mends what a start has found broken.
const RESTART: &str = "restart the broker to recover it";
const MEND: &str = "fix that and restart the broker";

/// An operation of the log that did not succeed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// A topic's name breaks the rules.
    #[error(
        "{name:?} cannot be a topic: 1 to 249 characters of A-Z a-z 0-9 . _ - are allowed, and not . or .."
    )]
    InvalidTopic {
        /// The name that was asked for.
        name: String,
    },
    /// A topic's name is that of a file of the data directory.
    #[error(
        "{name:?} cannot be a topic: a file of the data directory has this name or may have it; choose another"
    )]
    ReservedTopic {
        /// The name that was asked for.
        name: String,
    },
    /// A number in the request is out of its range.
    #[error("{what}")]
    InvalidRequest {
        /// What, and which range is allowed.
        what: String,
    },
    /// There is no topic of this name.
    #[error("there is no topic {name:?}; `topic create` creates one")]
    UnknownTopic {
        /// The name that was asked for.
        name: String,
    },
    /// There is a topic of this name already.
    #[error("topic {name:?} already exists")]
    TopicExists {
        /// The name that was asked for.
        name: String,
    },
    /// The topic has no partition of this number.
    #[error("topic {topic:?} has no partition {partition}: it has 0 to {}", .count.saturating_sub(1))]
    UnknownPartition {
        /// The topic.
        topic: String,
        /// The number that was asked for.
        partition: u32,
        /// How many it has.
        count: u32,
    },
    /// The offset is before the first or after the last.
    #[error("{partition} has offsets {start} to {end} (the next one); {asked} is outside")]
    OffsetOutOfRange {
        /// `topic/partition`.
        partition: String,
        /// The offset that was asked for.
        asked: Offset,
        /// The first offset.
        start: Offset,
        /// The offset after the last readable one.
        end: Offset,
    },
    /// A record is longer than the broker takes.
    #[error("a record of {bytes} bytes is over the limit of {limit} (max-record-bytes)")]
    RecordTooLarge {
        /// Key and value together.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// The bytes on disk are not those that were written.
    #[error(
        "{}: offset {offset}, at byte {position}, is damaged; the next offset that can be read is {next}",
        files::from_topic(.segment).display()
    )]
    Corrupt {
        /// The segment's log file.
        segment: PathBuf,
        /// Where the bad bytes begin.
        position: Position,
        /// The offset that cannot be read.
        offset: Offset,
        /// The first offset behind it that can, or will be.
        next: Offset,
    },
    /// The partition, or all of its topic, could not be opened: nothing is known of its offsets.
    #[error("{what} cannot be served: {reason}; {MEND}")]
    Unopened {
        /// `topic/partition`, or the topic.
        what: String,
        /// What the system said.
        reason: String,
    },
    /// The log cannot be read there.
    #[error("{partition}: offset {offset} cannot be read: {source}")]
    Unreadable {
        /// `topic/partition`.
        partition: String,
        /// Where the read began.
        offset: Offset,
        /// What the system said.
        source: SharedIo,
    },
    /// The disk failed, and nothing was stored.
    #[error("{}: {source}; nothing was stored", files::from_topic(.path).display())]
    Storage {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: SharedIo,
    },
    /// The disk failed at something else than storing records, and that was not done.
    #[error("{what}: {source}")]
    NotDone {
        /// What was not, and what follows from that.
        what: String,
        /// What the system said.
        source: SharedIo,
    },
    /// The partition takes no writes until it is reopened.
    #[error("{what} takes no writes: {reason}; {}", if *is_found_so { MEND } else { RESTART })]
    Fenced {
        /// `topic/partition`, or what was to be done.
        what: String,
        /// Since when and why.
        reason: String,
        /// Whether the start has found it so: then the next one does, too, until somebody has seen to the reason.
        is_found_so: bool,
    },
    /// The topic went while the request was under way.
    #[error("{partition}: its topic has just been deleted")]
    Deleted {
        /// `topic/partition`.
        partition: String,
    },
    /// The disk failed at a moment that leaves open whether the record will be found after a restart.
    #[error("{what}: {reason}; only a restart of the broker shows whether this was done")]
    OutcomeUnknown {
        /// `topic/partition`, or what was to be done.
        what: String,
        /// What failed.
        reason: String,
    },
    /// The broker is closed or closing.
    #[error("the broker is stopping; this was not done")]
    ShuttingDown,
}

/// A name as an error shows it: one that is too long to be a topic's is cut short.
pub(crate) fn shown(name: &str) -> String {
    match name.char_indices().nth(NAME_SHOWN) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
}

/// How many characters of a name an error shows: of each that can be a topic's, all.
const NAME_SHOWN: usize = 249;

impl Error {
    /// The stable code of this error.
    pub fn code(&self) -> Code {
        match self {
            Error::InvalidTopic { .. } | Error::ReservedTopic { .. } => Code::InvalidTopic,
            Error::InvalidRequest { .. } => Code::InvalidRequest,
            Error::UnknownTopic { .. } | Error::Deleted { .. } => Code::UnknownTopic,
            Error::TopicExists { .. } => Code::TopicExists,
            Error::UnknownPartition { .. } => Code::UnknownPartition,
            Error::OffsetOutOfRange { .. } => Code::OffsetOutOfRange,
            Error::RecordTooLarge { .. } => Code::RecordTooLarge,
            Error::Corrupt { .. } => Code::Corrupt,
            Error::Storage { source, .. } | Error::NotDone { source, .. } if source.is_full() => {
                Code::StorageFull
            }
            Error::Unopened { .. }
            | Error::Unreadable { .. }
            | Error::Storage { .. }
            | Error::NotDone { .. } => Code::StorageFailed,
            Error::Fenced { .. } => Code::Fenced,
            Error::OutcomeUnknown { .. } => Code::OutcomeUnknown,
            Error::ShuttingDown => Code::ShuttingDown,
        }
    }
}

/// An [`io::Error`] that several waiters can be told: records that share a sync share its failure.
#[derive(Clone, Debug)]
pub struct SharedIo(std::sync::Arc<io::Error>);

impl SharedIo {
    /// Whether the disk has no room (`ENOSPC`, `EDQUOT`).
    pub fn is_full(&self) -> bool {
        disk::is_full(&self.0)
    }

    /// The kind of the error underneath.
    pub fn kind(&self) -> io::ErrorKind {
        self.0.kind()
    }
}

impl From<io::Error> for SharedIo {
    fn from(error: io::Error) -> Self {
        Self(error.into())
    }
}

impl std::fmt::Display for SharedIo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for SharedIo {}
