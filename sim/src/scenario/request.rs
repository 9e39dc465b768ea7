//! What clients ask, and what they expect.

use std::time::Duration;

use super::placeholder;

pub use broker::error::Code;

/// What must come of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expect {
    /// It succeeds.
    #[default]
    Ok,
    /// It fails, and certainly nothing was stored.
    Refused,
    /// Whether it was stored is open: the connection went, or the broker says so.
    Unknown,
    /// Whatever comes; the oracle still judges it.
    Any,
    /// It fails with this code, written as in the protocol: `STORAGE_FULL`.
    Code(Code),
}

/// The bytes of a key or value.
///
/// In a text, `{n}` is the number of the record within its step, and `{i}` the round of the innermost `repeat`;
/// both begin at 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// `value="hello"`.
    Text(String),
    /// `value-hex="00ff"`.
    Hex(Vec<u8>),
    /// `size=100`: so many bytes, that differ from record to record.
    Size(u64),
}

impl Content {
    /// Whether it is no byte at all.
    pub fn is_empty(&self) -> bool {
        match self {
            Content::Text(text) => text.is_empty(),
            Content::Hex(bytes) => bytes.is_empty(),
            Content::Size(size) => *size == 0,
        }
    }

    /// The bytes for record `n` of a step in round `i` of a loop.
    pub fn bytes(&self, n: u64, i: u64) -> Vec<u8> {
        match self {
            Content::Text(text) => placeholder::filled(text, n, i).into_bytes(),
            Content::Hex(bytes) => bytes.clone(),
            Content::Size(size) => {
                let label = format!("{i}.{n}:");
                let filler = (b'a'..=b'z').cycle().skip((n % 26) as usize);
                label.bytes().chain(filler).take(usize::try_from(*size).unwrap_or(usize::MAX)).collect()
            }
        }
    }
}

/// `topic NAME partitions=N retention-bytes= retention-age= expect=`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateTopic {
    /// Its name.
    pub name: String,
    /// How many partitions; 1 by default.
    pub partitions: u32,
    /// Bytes a partition keeps.
    pub retention_bytes: Option<u64>,
    /// How long a record is kept.
    pub retention_age: Option<Duration>,
    /// What must come of it.
    pub expect: Expect,
}

impl Default for CreateTopic {
    fn default() -> Self {
        Self {
            name: String::new(),
            partitions: 1,
            retention_bytes: None,
            retention_age: None,
            expect: Expect::Ok,
        }
    }
}

/// `list-partitions TOPIC`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListPartitions {
    /// The topic.
    pub topic: String,
    /// What must come of it.
    pub expect: Expect,
    /// How many there must be.
    pub expect_count: Option<u32>,
}

/// `produce TOPIC partition= key= value= count= batch= expect=`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Produce {
    /// The topic.
    pub topic: String,
    /// The partition; the broker chooses where there is none.
    pub partition: Option<u32>,
    /// The key; without one, the broker takes partitions in turn.
    pub key: Option<Content>,
    /// The value.
    pub value: Content,
    /// How many records; 1 by default.
    pub count: u32,
    /// How many records a request carries; 1 by default.
    pub batch: u32,
    /// What must come of each request.
    pub expect: Expect,
    /// The partition that must be answered for each record.
    pub expect_partition: Option<u32>,
    /// The offset that must be answered for the first record.
    pub expect_offset: Option<u64>,
}

impl Default for Produce {
    fn default() -> Self {
        Self {
            topic: String::new(),
            partition: None,
            key: None,
            value: Content::Text(String::new()),
            count: 1,
            batch: 1,
            expect: Expect::Ok,
            expect_partition: None,
            expect_offset: None,
        }
    }
}

/// `consume TOPIC …` asks until the end; `fetch TOPIC …` asks once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Consume {
    /// The topic.
    pub topic: String,
    /// The partition; where there is none, all are found and read, and shown merged by time, each in its own order.
    pub partition: Option<u32>,
    /// The first offset; the log's start by default.
    pub from: Option<u64>,
    /// The offset to stop before; the log's end by default.
    pub until: Option<u64>,
    /// The byte limit of a request.
    pub max_bytes: Option<u32>,
    /// How long a request waits for a record at the log's end.
    pub wait: Option<Duration>,
    /// What must come of it. With an error code: what came before it is shown too.
    pub expect: Expect,
    /// How many records must come.
    pub expect_count: Option<u64>,
    /// The value that each record must have; with `{n}`, counted from the first that came.
    pub expect_value: Option<Content>,
    /// The log start offset that must be answered.
    pub expect_start: Option<u64>,
    /// The log end offset that must be answered.
    pub expect_end: Option<u64>,
}

/// `offsets TOPIC partition= at= expect=`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookUp {
    /// The topic.
    pub topic: String,
    /// The partition; 0 by default.
    pub partition: u32,
    /// Which offset.
    pub at: OffsetAt,
    /// What must come of it.
    pub expect: LookUpExpect,
}

impl Default for LookUp {
    fn default() -> Self {
        Self { topic: String::new(), partition: 0, at: OffsetAt::Latest, expect: LookUpExpect::Any }
    }
}

/// Which offset is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffsetAt {
    /// `at=earliest`: the log's start.
    Earliest,
    /// `at=latest`: the log's end.
    Latest,
    /// `at=4` or `at="2024-01-01T00:00:00Z"`: the first at or after this time, in milliseconds.
    Time(u64),
}

/// What must come of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LookUpExpect {
    /// Whatever comes; the oracle still judges it.
    #[default]
    Any,
    /// `expect=3`: this offset.
    Offset(u64),
    /// `expect=none`: there is no such record.
    None,
    /// `expect=UNKNOWN_TOPIC`: this error.
    Code(Code),
}

/// `open count=N`: raw connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Open {
    /// How many; 1 by default.
    pub count: u32,
}

impl Default for Open {
    fn default() -> Self {
        Self { count: 1 }
    }
}

/// `send hex="…" length= chunk-bytes= every=`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Send {
    /// The bytes: `hex=`, `text=`, `size=`.
    pub bytes: Content,
    /// A 4-byte length prefix before them, or none.
    pub length: Option<SendLength>,
    /// Sent in pieces of this size …
    pub chunk_bytes: Option<u32>,
    /// … with this time after each.
    pub every: Option<Duration>,
}

impl Default for Send {
    fn default() -> Self {
        Self { bytes: Content::Text(String::new()), length: None, chunk_bytes: None, every: None }
    }
}

/// A length prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendLength {
    /// `length=right`: that of the bytes.
    Right,
    /// `length=0x7fffffff`: this one, whatever follows.
    Is(u32),
}

/// `receive expect= within=`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receive {
    /// What must come.
    pub expect: ReceiveExpect,
    /// How long to wait for it; a second by default.
    pub within: Duration,
}

impl Default for Receive {
    fn default() -> Self {
        Self { expect: ReceiveExpect::Any, within: Duration::from_secs(1) }
    }
}

/// What must come on a raw connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReceiveExpect {
    /// Anything.
    #[default]
    Any,
    /// `expect=ok`: an answer that is no error.
    Ok,
    /// `expect=FRAME_TOO_LARGE`: this error.
    Code(Code),
    /// `expect=closed`: the end of the stream.
    Closed,
    /// `expect=nothing`: neither, in this time.
    Nothing,
}
