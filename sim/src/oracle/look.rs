//! A look: what the oracle's own questions found out about a running broker while nothing else was in flight.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use broker::error::Code;

use crate::trace::{Answer, At, Image, Request, Seen, TopicPartition};

/// Behind so many offsets that cannot be read, whoever looks no longer walks through holes offset by offset.
pub const HOLES_MAX: u64 = 1000;

/// An offset and its time, if there is one at or after the time asked for.
pub type Answered = Option<(u64, u64)>;

/// What was found out about one partition.
#[derive(Clone, Debug, Default)]
pub struct PartitionLook {
    /// The first offset there is.
    pub start: u64,
    /// The offset after the last readable one.
    pub end: u64,
    /// What the broker says its latest offset is, where it was asked.
    pub latest: Option<u64>,
    /// Whether start and end are known.
    pub ranged: bool,
    /// Whether the broker says that there may be more behind the end than it can show.
    pub hides: bool,
    /// Every record that could be read.
    pub records: BTreeMap<u64, Seen>,
    /// Every offset whose read was answered by an error, and the offset that the error names.
    pub errors: BTreeMap<u64, (Code, Option<u64>)>,
    /// Stretches that an error called damaged: the offset that was asked for, and the first behind it that can be read.
    pub holes: BTreeMap<u64, u64>,
    /// What was asked about times, and the answers; `None` for an error.
    pub times: Vec<(u64, Option<Answered>)>,
    /// A fault struck one of the questions: what was not found out proves nothing.
    pub disturbed: bool,
    /// Whether the broker has said anything of it.
    pub answered: bool,
    /// The broker knows no such topic or partition.
    pub unknown: bool,
}

/// What was found out about all of them.
#[derive(Clone, Debug, Default)]
pub struct Look {
    /// By topic and number.
    pub partitions: BTreeMap<TopicPartition, PartitionLook>,
    /// The broker's files at that time.
    pub image: Option<Arc<Image>>,
}

impl Look {
    /// Takes in one answer.
    pub fn answer(&mut self, request: &Request, answer: &Answer, disturbed: bool) {
        let (Request::Consume { topic, partition, .. } | Request::Offsets { topic, partition, .. }) = request
        else {
            return;
        };
        let look = self.partitions.entry((topic.clone(), *partition)).or_default();
        look.disturbed |= disturbed || matches!(answer, Answer::Lost { .. });
        look.answered |= !matches!(answer, Answer::Lost { told: false, .. });
        if let Answer::Refused { code: Code::UnknownTopic | Code::UnknownPartition, .. } = answer {
            look.unknown = true;
        }
        match (request, answer) {
            (Request::Consume { .. }, Answer::Fetched { records, start, end }) => {
                (look.start, look.end, look.ranged) = (*start, *end, true);
                look.records.extend(records.iter().map(|r| (r.offset, r.clone())));
            }
            (Request::Consume { from, .. }, Answer::Refused { code, offset, .. }) => {
                look.errors.insert(*from, (*code, *offset));
                look.holes.extend(answer.next_readable().map(|next| (*from, next)));
            }
            (Request::Offsets { at: At::Earliest, .. }, Answer::Offset(Some((offset, _)))) => {
                look.start = *offset;
            }
            (Request::Offsets { at: At::Latest, .. }, Answer::Offset(Some((offset, _)))) => {
                (look.end, look.latest, look.ranged) = (*offset, Some(*offset), true);
            }
            (Request::Offsets { at: At::Latest, .. }, Answer::Refused { code: Code::StorageFailed, .. }) => {
                look.hides = true;
            }
            (Request::Offsets { at: At::Time(t), .. }, Answer::Offset(found)) => {
                look.times.push((*t, Some(*found)));
            }
            (Request::Offsets { at: At::Time(t), .. }, _) => look.times.push((*t, None)),
            _ => {}
        }
    }
}

impl PartitionLook {
    /// The error that an offset was answered by, or would have been: who asks jumps over the rest of a long hole.
    pub fn error(&self, offset: u64) -> Option<Code> {
        let asked = self.errors.get(&offset).map(|(code, _)| *code);
        asked.or_else(|| self.behind_hole(offset).map(|_| Code::Corrupt))
    }

    /// Whether an offset went when its record was asked for, or before: the start has moved behind it.
    pub fn has_gone(&self, offset: u64) -> bool {
        offset < self.start && self.error(offset) == Some(Code::OffsetOutOfRange)
    }

    /// The first offset between start and end of which nothing was found out.
    pub fn missing(&self) -> Option<u64> {
        let mut at = self.start;
        while at < self.end {
            if self.records.contains_key(&at) || self.errors.contains_key(&at) {
                at += 1;
            } else {
                match self.behind_hole(at) {
                    Some(next) => at = next,
                    None => return Some(at),
                }
            }
        }
        None
    }

    /// The offsets that cannot be read, those inside of long holes too.
    pub fn unread(&self) -> BTreeSet<u64> {
        let holes = self.holes.iter().flat_map(|(from, next)| *from..(*next).min(self.end));
        self.errors.keys().copied().chain(holes).collect()
    }

    /// The end of the hole that this offset is in.
    fn behind_hole(&self, offset: u64) -> Option<u64> {
        let (_, next) = self.holes.range(..=offset).next_back()?;
        Some(*next).filter(|next| *next > offset)
    }
}

/// `topic/partition`.
pub fn name(topic: &str, partition: u32) -> String {
    format!("{topic}/{partition}")
}

/// A record for people: key and value, shortened.
pub fn show(key: Option<&[u8]>, value: &[u8]) -> String {
    let short = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        let cut: String = text.chars().take(24).collect();
        if cut.len() < text.len() {
            format!("{cut:?}… ({} bytes)", bytes.len())
        } else {
            format!("{cut:?}")
        }
    };
    key.map_or_else(|| short(value), |key| format!("{} {}", short(key), short(value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_in_a_hole_cannot_be_read_whether_it_was_asked_for_or_not() {
        let look = PartitionLook {
            end: 7,
            errors: BTreeMap::from([(1, (Code::Corrupt, None)), (3, (Code::Corrupt, None))]),
            holes: BTreeMap::from([(3, 6)]),
            ..PartitionLook::default()
        };
        assert_eq!(look.unread(), BTreeSet::from([1, 3, 4, 5]));
    }
}
