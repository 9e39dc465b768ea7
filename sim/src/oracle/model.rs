//! What clients know of the logs: which record was acknowledged at which offset, which was refused, of which the outcome
//! is unknown; and, after each crash, what may legally be gone.
//!
//! | of a partition | is |
//! | --- | --- |
//! | [`Partition`] | what each offset names, and the rest of these |
//! | `durable` | how far its log is synced |
//! | `harm` | what a power loss, the disk and the scenario have done to its log, for good |
//! | `failures` | what has failed under it since the last start |
//! | `indexes` | what its indexes prove |
//! | `stalls` | how long faults have stalled the disk under it |
//! | `last_seen` | what was found when all of it was last seen |

mod durable;
mod failures;
mod harm;
mod indexes;
mod last_seen;
mod partition;
mod stalls;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use fnv::FnvHashMap;

use super::broker_clock::BrokerClock;
use crate::trace::{CallId, Millis, Mode, Retention, Sent};

pub use failures::Causes;
pub use partition::{Partition, Slot};

/// A record's content, as a client gives it and gets it back.
pub type Content = (Option<Bytes>, Bytes);

/// One record of one produce call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RecordId {
    /// The call.
    pub call: CallId,
    /// Which of its records.
    pub index: usize,
}

/// What became of a record, as far as known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Not answered yet, or the outcome is unknown: it may be found once, or never.
    Open,
    /// Found under this offset before an answer told, or without one.
    Found(u32, u64),
    /// Acknowledged under this partition and offset.
    Acknowledged(u32, u64),
    /// Certainly not stored.
    Refused,
    /// It was there, and a crash has legally taken it.
    Lost,
}

/// A produce call.
#[derive(Clone, Debug)]
pub struct Produced {
    /// The topic.
    pub topic: Arc<str>,
    /// Which client.
    pub client: Arc<str>,
    /// The partition that the client chose.
    pub partition: Option<u32>,
    /// The records.
    pub records: Arc<[Sent]>,
    /// What became of each.
    pub fates: Vec<Fate>,
    /// The trace's entry of the call.
    pub entry: usize,
    /// When it was called.
    pub at: Millis,
    /// When its answer came; there is no saying when it was carried out where nobody knows whether it was.
    pub over: Option<Millis>,
    /// The entry of the answer; that of the call while there is none.
    pub answer: usize,
    /// Whether the client has its answer, or has given up.
    pub answered: bool,
    /// How many crashes came before it.
    pub epoch: u32,
    /// How many starts came before its answer.
    pub answered_in: u32,
}

/// A topic that may have taken the place of another of its name.
#[derive(Clone, Copy, Debug)]
pub struct Successor {
    /// How many partitions it was to have.
    pub partitions: u32,
    /// What is kept by its own settings.
    pub own: Retention,
    /// Which entry of the trace asked for it.
    pub since: usize,
    /// Whether something has failed while it was made.
    pub failed: bool,
    /// And whether a fault was behind that.
    pub struck: bool,
}

/// One topic.
#[derive(Clone, Debug)]
pub struct Topic {
    /// How many partitions.
    pub partitions: Vec<Partition>,
    /// Whether its oldest records may go, or might have before.
    pub retention: bool,
    /// What of them is kept by its own settings.
    pub own: Retention,
    /// Whether what it has noted of its own settings was changed by hand.
    pub unsettled: bool,
    /// Its creation or deletion was not answered: it may be there or not.
    pub uncertain: bool,
    /// What was put into it when it was made may be lost: it may have fewer partitions.
    pub may_have_fewer: bool,
    /// It may have been deleted, and this one made since.
    pub successor: Option<Successor>,
    /// Which entry of the trace made it known: another topic of its name has another one.
    pub born: usize,
    /// Which records have this content.
    pub by_content: FnvHashMap<Content, Vec<RecordId>>,
}

impl Topic {
    /// A topic with this many empty partitions, known since this entry of the trace.
    pub fn new(born: usize, partitions: u32, own: Retention, uncertain: bool) -> Self {
        let partitions = vec![Partition::default(); partitions as usize];
        let (retention, by_content) = (own.any(), FnvHashMap::default());
        let (unsettled, may_have_fewer, successor) = (false, false, None);
        Self { partitions, retention, own, unsettled, uncertain, may_have_fewer, successor, born, by_content }
    }
}

/// What clients know.
#[derive(Clone, Debug, Default)]
pub struct Model {
    /// By name.
    pub topics: BTreeMap<Arc<str>, Topic>,
    /// What the broker's clock showed.
    pub broker_clock: BrokerClock,
    /// All produce calls.
    pub produced: BTreeMap<CallId, Produced>,
    /// The durability mode of the running broker.
    pub durability: Mode,
    /// The index interval of the running broker.
    pub index_interval: u64,
    /// Those that brokers of this run have had.
    pub index_intervals: BTreeSet<u64>,
    /// Whether a broker has begun to start with another one than the last, since the last stop.
    pub interval_changed: bool,
    /// The longest that a record had to wait for its sync since the broker was started: it may be that much older than the interval.
    pub slack_ms: Millis,
    /// Whether syncs may be lies.
    pub lying: bool,
    /// Whether every sector can be read again: the next start finds all that is there.
    pub readable: bool,
    /// Whether any broker of this run acknowledged after a sync only.
    pub was_always: bool,
    /// Whether the broker has taken back the note that says which run it is, or what it noted of its sessions was changed by
    /// hand: the start after that knows nothing of how its records were synced. So it is until a start comes to its end that has
    /// noted its own run; before that, a power loss may take the new note.
    pub notes_lost: bool,
    /// Whether the start under way has noted which run it begins.
    pub noted: bool,
    /// Whether the last crash was a power loss.
    pub lights_went_out: bool,
    /// Records of requests that are not answered yet, and of the answer that is being taken in.
    pub under_way: u64,
    /// When the broker went down, while it is, and how much longer than the interval a record may have waited for its sync then:
    /// a start that does not come to its end makes nothing durable that was not.
    pub down_since: Option<(Millis, Millis)>,
    /// How many crashes there were.
    pub epoch: u32,
    /// How many starts there were.
    pub starts: u32,
    /// What the broker keeps of any topic that does not say so itself.
    pub retention: Retention,
    /// How many records were ever sent to a topic of this name: to this partition of it, or to whichever it is.
    pub sent: BTreeMap<(Arc<str>, Option<u32>), u64>,
    /// The largest record that the running broker takes.
    pub record_bytes_max: u64,
    /// The longest request that the running broker takes.
    pub frame_bytes_max: u64,
    /// The most records that it takes in a request.
    pub records_max: u64,
    /// Topics that are gone: deleted, and not made anew.
    pub deleted: BTreeSet<Arc<str>>,
    /// Whether the mark of a clean stop may lie on the disk.
    pub marked: bool,
}

impl Model {
    /// Content of a record.
    pub fn content(&self, id: RecordId) -> Content {
        let sent = &self.produced[&id.call].records[id.index];
        (sent.key.clone(), sent.value.clone())
    }

    /// Whether a record has this content.
    pub fn has_content(&self, id: RecordId, key: Option<&Bytes>, value: &Bytes) -> bool {
        let sent = &self.produced[&id.call].records[id.index];
        sent.key.as_ref() == key && sent.value == *value
    }

    /// The entries of the trace that made a record: the call, and its answer.
    pub fn entries_of(&self, id: RecordId) -> [usize; 2] {
        let produced = &self.produced[&id.call];
        [produced.entry, produced.answer]
    }

    /// How many records can lie in a partition at most: no more than were ever sent there.
    pub fn sent_to(&self, topic: &Arc<str>, partition: u32) -> u64 {
        let sent = |to: Option<u32>| self.sent.get(&(topic.clone(), to)).copied().unwrap_or(0);
        sent(None) + sent(Some(partition))
    }

    /// A partition, if the topic is known and has it.
    pub fn partition(&self, topic: &str, partition: u32) -> Option<&Partition> {
        self.topics.get(topic)?.partitions.get(partition as usize)
    }

    /// A partition, to be changed.
    pub fn partition_mut(&mut self, topic: &str, partition: u32) -> Option<&mut Partition> {
        self.topics.get_mut(topic)?.partitions.get_mut(partition as usize)
    }

    /// All partitions.
    pub fn all(&self) -> impl Iterator<Item = &Partition> {
        self.topics.values().flat_map(|topic| &topic.partitions)
    }

    /// All partitions, to be changed.
    pub fn all_mut(&mut self) -> impl Iterator<Item = &mut Partition> {
        self.topics.values_mut().flat_map(|topic| &mut topic.partitions)
    }

    /// Whether a power loss may have left holes in this partition: in what nobody was promised, where anything was written to be
    /// promised when synced, where a broker could not know that nothing was, or in a log that is marked as damaged. Anywhere else
    /// they are cut off.
    pub fn may_have_holes(&self, known: &Partition) -> bool {
        known.harm.is_shaken() && (self.was_always || known.harm.is_unnoted() || known.harm.is_scarred())
    }

    /// A topic becomes known, with what has been sent to it: requests that were not over at this entry of the trace, when
    /// it was asked for, may have found it there, and not the one of its name that was known before.
    pub fn appears(&mut self, name: &Arc<str>, mut topic: Topic, since: usize) {
        let sent = self.produced.iter_mut().filter(|(_, produced)| produced.topic == *name);
        for (call, produced) in sent.filter(|(_, produced)| !produced.answered || produced.answer > since) {
            for (index, sent) in produced.records.iter().enumerate() {
                let content = (sent.key.clone(), sent.value.clone());
                topic.by_content.entry(content).or_default().push(RecordId { call: *call, index });
                if matches!(produced.fates[index], Fate::Found(..) | Fate::Acknowledged(..)) {
                    produced.fates[index] = Fate::Open;
                }
            }
        }
        topic.retention |= self.retention.any();
        self.topics.insert(name.clone(), topic);
    }

    /// Sets what became of a record.
    pub fn set_fate(&mut self, id: RecordId, fate: Fate) {
        if let Some(produced) = self.produced.get_mut(&id.call) {
            produced.fates[id.index] = fate;
        }
    }

    /// The broker has crashed. After a power loss, what lies in the loss window may be gone: see the table in
    /// `p02_kept`.
    pub fn crash(&mut self, power: bool, now: Millis) {
        self.epoch += 1;
        self.lights_went_out = power;
        // A broker that is down syncs nothing: what was young when it died stays young.
        let (now, slack) = *self.down_since.get_or_insert((now, self.slack_ms));
        if !power {
            return self.all_mut().for_each(|known| known.durable.process_died());
        }
        let lying = self.lying;
        for topic in self.topics.values_mut() {
            topic.uncertain |= lying;
            topic.partitions.iter_mut().for_each(|known| known.lost_power(slack, lying, now));
        }
    }

    /// Whether a crash may have taken what an answer speaks of that was on its way then. `epoch`: how many crashes there were when
    /// it was asked for.
    pub fn may_have_lost(&self, (topic, partition): (&str, u32), epoch: u32) -> bool {
        let lied = self.partition(topic, partition).is_some_and(|known| known.harm.is_lied_about());
        let promised = self.durability == Mode::Always && !self.lying && !lied;
        epoch != self.epoch && self.lights_went_out && !promised
    }

    /// The broker has stopped cleanly: everything is synced.
    pub fn stopped(&mut self) {
        self.all_mut().for_each(Partition::stopped);
    }
}
