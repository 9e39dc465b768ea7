//! Calls and answers, as a client sees them.

use std::sync::Arc;

use broker::error::Code;
use bytes::Bytes;

use super::Retention;

/// Ties an answer to its call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId(pub u32);

/// A record that a client sends.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sent {
    /// Its key, if it has one.
    pub key: Option<Bytes>,
    /// Its value.
    pub value: Bytes,
}

/// A record that a client was given.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Seen {
    /// Under which offset.
    pub offset: u64,
    /// When the broker says it was appended.
    pub timestamp: u64,
    /// Its key, if it has one.
    pub key: Option<Bytes>,
    /// Its value.
    pub value: Bytes,
}

/// Which offset is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum At {
    /// The first there is.
    Earliest,
    /// The one after the last.
    Latest,
    /// The first at or after this time, in milliseconds since the Unix epoch.
    Time(u64),
}

/// What a client asks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Request {
    /// Make a topic.
    CreateTopic {
        /// Its name.
        topic: Arc<str>,
        /// How many partitions.
        partitions: u32,
        /// Bytes a partition keeps.
        retention_bytes: Option<u64>,
        /// Milliseconds a record is kept.
        retention_ms: Option<u64>,
    },
    /// Delete a topic.
    DeleteTopic {
        /// Its name.
        topic: Arc<str>,
    },
    /// Append records.
    Produce {
        /// The topic.
        topic: Arc<str>,
        /// The partition, where the client chooses it.
        partition: Option<u32>,
        /// The records.
        records: Arc<[Sent]>,
    },
    /// Read records.
    Consume {
        /// The topic.
        topic: Arc<str>,
        /// The partition.
        partition: u32,
        /// The first offset.
        from: u64,
        /// The most bytes.
        max_bytes: u32,
        /// How long to wait for a record where there is none.
        wait_ms: u32,
    },
    /// Ask for an offset.
    Offsets {
        /// The topic.
        topic: Arc<str>,
        /// The partition.
        partition: u32,
        /// Which.
        at: At,
    },
    /// Ask for all topics.
    ListTopics,
    /// Ask for the partitions of a topic.
    ListPartitions {
        /// The topic.
        topic: Arc<str>,
    },
    /// Raw bytes on a connection.
    Raw {
        /// The bytes.
        bytes: Bytes,
    },
}

/// What a client was told of one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Placed {
    /// It has this offset in this partition.
    At(u32, u64),
    /// It is certainly not stored.
    Refused(Code),
    /// It may be stored, or not.
    Unknown,
}

/// What a list says of a topic.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ListedTopic {
    /// Its name.
    pub name: String,
    /// How many partitions it has.
    pub partitions: u32,
    /// What it keeps, by its own settings.
    pub own: Retention,
}

/// What a list says of a partition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ListedPartition {
    /// Its number.
    pub number: u32,
    /// The first offset there is.
    pub start: u64,
    /// The offset after the last.
    pub end: u64,
    /// How many bytes its logs have.
    pub bytes: u64,
    /// Whether it takes no writes.
    pub fenced: bool,
    /// Whether it could not be opened: start and end say nothing.
    pub unopened: bool,
}

/// What a client was told.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// It was done, and there is nothing to say.
    Done,
    /// What came of the records of a produce, in the order of the request.
    Produced(Vec<Placed>),
    /// Records.
    Fetched {
        /// The records.
        records: Vec<Seen>,
        /// The first offset there is.
        start: u64,
        /// The offset after the last readable one.
        end: u64,
    },
    /// An offset; `None` where there is none at or after that time.
    Offset(Option<(u64, u64)>),
    /// The topics.
    Topics(Vec<ListedTopic>),
    /// The partitions of a topic.
    Partitions(Vec<ListedPartition>),
    /// The broker said no.
    Refused {
        /// The stable code.
        code: Code,
        /// The sentence.
        message: String,
        /// The offset a CORRUPT answer names, where it names one.
        offset: Option<u64>,
    },
    /// The connection went, or the time ran out: it may have happened or not.
    Lost {
        /// How.
        why: String,
        /// Whether the request can have reached the broker at all.
        sent: bool,
        /// Whether the broker itself has answered, that nobody knows.
        told: bool,
    },
}

impl Answer {
    /// The first offset behind damage that can be read, where a CORRUPT answer names one.
    pub fn next_readable(&self) -> Option<u64> {
        let Answer::Refused { code: Code::Corrupt, message, .. } = self else { return None };
        let (_, next) = message.rsplit_once("can be read is ")?;
        next.parse().ok()
    }
}
