//! What a client asks with and is answered with.

use std::time::Duration;

use crate::error::Code;
use crate::record::Record;
use crate::settings::TopicSettings;
use crate::units::{Offset, Timestamp};
use crate::wire::proto::{self, response};

/// How long a client waits, and how much it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// For a connection.
    pub connect_timeout: Duration,
    /// For an answer; a consume that waits for records gets its wait on top.
    pub request_timeout: Duration,
    /// From a failed attempt to connect to the next one; doubles with each failure.
    pub backoff_min: Duration,
    /// Where the doubling ends.
    pub backoff_max: Duration,
    /// The longest answer that is read.
    pub frame_bytes: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(5),
            request_timeout: Duration::from_secs(30),
            backoff_min: Duration::from_millis(50),
            backoff_max: Duration::from_secs(2),
            frame_bytes: (1 << 30) + (1 << 20),
        }
    }
}

impl Options {
    /// How long after the failure that follows `failures` others the next attempt may be.
    pub(super) fn backoff(&self, failures: u32) -> Duration {
        self.backoff_min.saturating_mul(1 << failures.min(16)).min(self.backoff_max)
    }
}

/// What is known of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome<T> {
    /// It was done.
    Acknowledged(T),
    /// It was not done, and never will be.
    Refused(Refusal),
    /// No answer came, or one that says that nobody knows: it was done once, or not.
    Unknown(Doubt),
}

/// Why a request was not done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// For programs.
    pub code: Code,
    /// For people.
    pub message: String,
}

/// Why nobody knows whether a request was done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Doubt {
    /// For people.
    pub why: String,
    /// Whether the server has said so. Otherwise its answer did not come, or cannot be understood.
    pub is_told: bool,
}

impl<T> Outcome<T> {
    /// Unknown, since there is no answer that says.
    pub(super) fn unanswered(why: impl Into<String>) -> Self {
        Outcome::Unknown(Doubt { why: why.into(), is_told: false })
    }

    /// Acknowledged: the answer. Otherwise an error that says which of the other two it is.
    pub fn into_result(self) -> Result<T, Failure> {
        match self {
            Outcome::Acknowledged(answer) => Ok(answer),
            Outcome::Refused(refusal) => Err(Failure::Refused(refusal)),
            Outcome::Unknown(doubt) => Err(Failure::Unknown(doubt)),
        }
    }

    /// Goes on with an acknowledged answer.
    pub fn and_then<U>(self, next: impl FnOnce(T) -> Outcome<U>) -> Outcome<U> {
        match self {
            Outcome::Acknowledged(answer) => next(answer),
            Outcome::Refused(refusal) => Outcome::Refused(refusal),
            Outcome::Unknown(doubt) => Outcome::Unknown(doubt),
        }
    }
}

/// An [`Outcome`] that is not an acknowledgement.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// It was not done, and never will be.
    #[error(transparent)]
    Refused(Refusal),
    /// It was done once, or not.
    #[error(transparent)]
    Unknown(Doubt),
}

impl Outcome<response::Kind> {
    /// What an answer says.
    pub fn of(response: proto::Response) -> Self {
        match response.kind {
            Some(response::Kind::Error(error)) => error.into(),
            Some(kind) => Outcome::Acknowledged(kind),
            None => Outcome::unanswered("the server's answer is of a kind that this client does not know"),
        }
    }
}

impl<T> From<proto::ErrorResponse> for Outcome<T> {
    /// A code from a later version says nothing about whether something was done.
    fn from(error: proto::ErrorResponse) -> Self {
        match error.code().known() {
            Some(code) if !code.leaves_outcome_unknown() => {
                Outcome::Refused(Refusal { code, message: error.message })
            }
            code => Outcome::Unknown(Doubt { why: error.message, is_told: code.is_some() }),
        }
    }
}

/// Where a record went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The partition.
    pub partition: u32,
    /// Its offset there.
    pub offset: Offset,
}

/// The outcome of each of `count` records of a produce with this answer.
pub(crate) fn produce_outcomes(answer: Outcome<response::Kind>, count: usize) -> Vec<Outcome<Placed>> {
    let all = |outcome: Outcome<Placed>| vec![outcome; count];
    let produced = match answer {
        Outcome::Acknowledged(response::Kind::Produce(produced)) => produced,
        Outcome::Acknowledged(_) => {
            return all(Outcome::unanswered("the answer is not one to a produce"));
        }
        Outcome::Refused(refusal) => return all(Outcome::Refused(refusal)),
        Outcome::Unknown(doubt) => return all(Outcome::Unknown(doubt)),
    };
    match place(produced, count) {
        Some(outcomes) => outcomes,
        None => all(Outcome::unanswered("the answer does not fit the records")),
    }
}

/// `None` where the answer does not account for exactly `count` records.
fn place(produced: proto::ProduceResponse, count: usize) -> Option<Vec<Outcome<Placed>>> {
    let proto::ProduceResponse { appends, partitions } = produced;
    if partitions.is_empty() {
        let [append] = appends.as_slice() else { return None };
        (append.count as usize == count).then_some(())?;
        return Some((0..count).map(|i| outcome(append, i as u64)).collect());
    }
    (partitions.len() == count).then_some(())?;
    let mut used = vec![0u32; appends.len()];
    let mut outcomes = Vec::with_capacity(count);
    for partition in partitions {
        let at = appends.iter().position(|append| append.partition == partition)?;
        outcomes.push(outcome(&appends[at], used[at].into()));
        used[at] += 1;
    }
    appends.iter().zip(used).all(|(append, used)| append.count == used).then_some(outcomes)
}

fn outcome(append: &proto::PartitionAppend, nth: u64) -> Outcome<Placed> {
    match &append.error {
        Some(error) => error.clone().into(),
        None => Outcome::Acknowledged(Placed {
            partition: append.partition,
            offset: Offset::new(append.base_offset.saturating_add(nth)),
        }),
    }
}

/// What to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// The first offset.
    pub offset: Offset,
    /// About how many bytes; one whole record comes however large it is.
    pub max_bytes: u32,
    /// How long to wait where there is no record yet.
    pub max_wait: Duration,
}

impl Fetch {
    /// How many bytes are asked for where nothing else is said.
    pub const BYTES: u32 = 1 << 20;

    /// A megabyte from this offset on, without waiting.
    pub fn from(offset: Offset) -> Self {
        Self { offset, max_bytes: Self::BYTES, max_wait: Duration::ZERO }
    }

    /// Waits this long where there is no record yet.
    pub fn wait(self, max_wait: Duration) -> Self {
        Self { max_wait, ..self }
    }

    /// The request for it.
    pub fn request(&self, topic: &str, partition: u32) -> proto::ConsumeRequest {
        proto::ConsumeRequest {
            topic: topic.to_owned(),
            partition,
            offset: self.offset.get(),
            max_bytes: self.max_bytes,
            max_wait_ms: u32::try_from(self.max_wait.as_millis()).unwrap_or(u32::MAX),
        }
    }
}

/// What was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Consumed {
    /// In order, without gaps, from the offset that was asked for.
    pub records: Vec<Record>,
    /// The first offset that can be read.
    pub log_start: Offset,
    /// The offset after the last that can be read.
    pub log_end: Offset,
}

impl From<proto::ConsumeResponse> for Consumed {
    fn from(consumed: proto::ConsumeResponse) -> Self {
        Self {
            records: consumed.records.into_iter().map(Record::from).collect(),
            log_start: Offset::new(consumed.log_start_offset),
            log_end: Offset::new(consumed.log_end_offset),
        }
    }
}

/// A topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicInfo {
    /// Its name.
    pub name: String,
    /// What it was made with.
    pub settings: TopicSettings,
}

impl From<proto::Topic> for TopicInfo {
    fn from(topic: proto::Topic) -> Self {
        let settings = TopicSettings {
            partitions: topic.partitions,
            retention_bytes: topic.retention_bytes,
            retention_age: topic.retention_ms.map(Duration::from_millis),
        };
        Self { name: topic.name, settings }
    }
}

/// A partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionInfo {
    /// Its number.
    pub number: u32,
    /// The first offset that can be read.
    pub log_start: Offset,
    /// The offset after the last that can be read.
    pub log_end: Offset,
    /// Bytes of its logs on the server's disk.
    pub bytes: u64,
    /// Why it takes no writes, where it takes none.
    pub fenced: Option<String>,
    /// It could not be opened: its offsets are not known, and read as 0 here.
    pub unopened: bool,
    /// Why the disk has refused the last records, where it has: another try may work.
    pub refusing: Option<String>,
}

impl From<proto::Partition> for PartitionInfo {
    fn from(partition: proto::Partition) -> Self {
        Self {
            number: partition.number,
            log_start: Offset::new(partition.log_start_offset),
            log_end: Offset::new(partition.log_end_offset),
            bytes: partition.bytes,
            fenced: partition.fenced,
            unopened: partition.unopened,
            refusing: partition.refusing,
        }
    }
}

/// Which offset to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// The first that can be read.
    Earliest,
    /// The one after the last that can be read.
    Latest,
    /// That of the first record at or after this time.
    Timestamp(Timestamp),
}

/// An offset that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundOffset {
    /// Where no record is at or after the time that was asked for: the offset after the last.
    pub offset: Offset,
    /// The time of that record, where one was asked for by time and found.
    pub timestamp: Option<Timestamp>,
}

impl From<proto::ListOffsetsResponse> for FoundOffset {
    fn from(found: proto::ListOffsetsResponse) -> Self {
        Self { offset: Offset::new(found.offset), timestamp: found.timestamp_ms.map(Timestamp::from_millis) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn append(partition: u32, base_offset: u64, count: u32) -> proto::PartitionAppend {
        proto::PartitionAppend { partition, base_offset, count, error: None }
    }

    fn outcomes(
        appends: Vec<proto::PartitionAppend>,
        partitions: Vec<u32>,
        count: usize,
    ) -> Vec<Outcome<Placed>> {
        let produced = proto::ProduceResponse { appends, partitions };
        produce_outcomes(Outcome::Acknowledged(response::Kind::Produce(produced)), count)
    }

    fn at(partition: u32, offset: u64) -> Outcome<Placed> {
        Outcome::Acknowledged(Placed { partition, offset: Offset::new(offset) })
    }

    #[test]
    fn each_record_has_its_own_outcome() {
        assert_eq!(outcomes(vec![append(2, 7, 2)], vec![], 2), [at(2, 7), at(2, 8)]);

        let full = proto::ErrorResponse::new(Code::StorageFull, "full");
        let refused = proto::PartitionAppend { error: Some(full), ..append(1, 0, 1) };
        let outcomes = outcomes(vec![append(0, 5, 2), refused], vec![0, 1, 0], 3);
        assert_eq!(outcomes[0], at(0, 5));
        assert_eq!(
            outcomes[1],
            Outcome::Refused(Refusal { code: Code::StorageFull, message: "full".into() })
        );
        assert_eq!(outcomes[2], at(0, 6));
    }

    /// An answer that leaves a record out, or counts one twice, acknowledges nothing.
    #[test]
    fn an_answer_that_does_not_fit_leaves_all_unknown() {
        for (appends, partitions, count) in [
            (vec![], vec![], 1),
            (vec![append(0, 0, 1)], vec![], 2),
            (vec![append(0, 0, 2)], vec![0], 1),
            (vec![append(0, 0, 1), append(1, 0, 1)], vec![0, 0], 2),
            (vec![append(0, 0, 1)], vec![0, 1], 2),
        ] {
            let outcomes = outcomes(appends, partitions, count);
            assert_eq!(outcomes.len(), count);
            assert!(outcomes.iter().all(|o| matches!(o, Outcome::Unknown(_))));
        }
    }

    #[test]
    fn a_code_decides_between_refused_and_unknown() {
        let of = |code: i32| Outcome::<()>::from(proto::ErrorResponse { code, message: String::new() });
        assert!(matches!(of(Code::Fenced as i32), Outcome::Refused(_)));
        assert!(matches!(of(Code::OutcomeUnknown as i32), Outcome::Unknown(Doubt { is_told: true, .. })));
        assert!(matches!(of(4711), Outcome::Unknown(Doubt { is_told: false, .. })));
    }

    #[test]
    fn backoff_doubles_up_to_its_end() {
        let options = Options::default();
        let ms = |failures| options.backoff(failures).as_millis();
        assert_eq!([ms(0), ms(1), ms(2), ms(5), ms(6), ms(u32::MAX)], [50, 100, 200, 1600, 2000, 2000]);
    }
}
