//! What clients know of the logs: which record was acknowledged at which offset, which was refused, of which the outcome
//! is unknown; and, after each crash, what may legally be gone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use fnv::FnvHashMap;

use super::broker_clock::BrokerClock;
use crate::trace::{CallId, Millis, Mode, Retention, Sent};

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

/// What an offset names.
#[derive(Clone, Debug)]
pub struct Slot {
    /// The record.
    pub id: RecordId,
    /// Whether it was acknowledged (and not only read).
    pub acknowledged: bool,
    /// When it was acknowledged or first read.
    pub at: Millis,
    /// The durability mode at that time.
    pub durability: Mode,
    /// When the broker says it was appended, once a read has told.
    pub timestamp: Option<u64>,
    /// The sync that should have made it durable has failed.
    pub doubtful: bool,
    /// A power loss inside the loss window may have taken it.
    pub at_risk: bool,
    /// The scenario, or a lying disk, has destroyed it; a read may say so, and must not give other bytes.
    pub damaged: bool,
}

/// What the names of index files end with.
const INDEXES: [&str; 2] = ["index", "timeindex"];

/// One partition.
#[derive(Clone, Debug, Default)]
pub struct Partition {
    /// What each offset names.
    pub slots: BTreeMap<u64, Slot>,
    /// All offsets below are synced, by the roll or the clean stop that came after them.
    pub durable_to: u64,
    /// The base offset of the newest segment whose creation the disk has seen.
    pub newest_base: u64,
    /// The disk has lied about this partition's log, its directory, or what is noted of it: what it was told to keep may be
    /// gone.
    pub lied: bool,
    /// A sector of its log cannot be read, or could not when the broker was started for the last time.
    pub unreadable: bool,
    /// Something has failed on an index file since the last start: the index may be behind.
    pub index_behind: bool,
    /// There was no room for an entry of an index since the last start.
    pub index_cramped: bool,
    /// The last start has left it fenced, and says so: it takes no writes until the next, and, where the disk failed while
    /// it was opened, may give nothing either.
    pub fenced: bool,
    /// The last start could not build an index anew: what is left of it may be anything that its checksums tell apart.
    pub index_unbuilt: bool,
    /// Something other than a full disk has failed here since the last start: a fence is legal.
    pub may_fence: bool,
    /// Something has failed here since the last start, or there was no room: an error of the disk has a cause.
    pub failed: bool,
    /// The trace's entry of the last sync of its log that has failed.
    pub sync_failed_at: Option<usize>,
    /// A cut of its log has failed: a request that was to be taken back may have left its beginning.
    pub cut_failed: bool,
    /// Records that the scenario itself has written into the log.
    pub planted: BTreeMap<u64, Content>,
    /// Index files that the scenario or a lying disk has changed, and not been built anew since; and how many starts came before
    /// that.
    pub tampered: BTreeMap<String, u32>,
    /// The scenario has left an index with entries of a segment that has no log, as if that had been taken away.
    pub orphaned: bool,
    /// A power loss came: offsets that nobody was promised may be holes.
    pub shaken: bool,
    /// Since all of it was last seen, something has happened that can leave a hole in it, or damage.
    pub disturbed: bool,
    /// What could not be read when all of it was last seen.
    pub unread: BTreeSet<u64>,
    /// Stretches of damage that starts have named: first offset and next.
    pub named: BTreeSet<(u64, u64)>,
    /// For each start after which all of it was seen: that start, and where the log ended. A request that was over by then
    /// lies below, or nowhere.
    pub seen_to: Vec<(u32, u64)>,
    /// Whether the scenario or the disk has damaged the log at all, or a hole that a power loss left had to stay in it.
    pub hurt: bool,
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
    /// Its creation or deletion was not answered: it may be there or not.
    pub uncertain: bool,
    /// It may have been deleted, and a topic of its name made since: how many partitions, and what it keeps.
    pub successor: Option<(u32, Retention)>,
    /// Which entry of the trace made it known: another topic of its name has another one.
    pub born: usize,
    /// Which records have this content.
    pub by_content: FnvHashMap<Content, Vec<RecordId>>,
}

impl Partition {
    /// Whether what was called at this entry, and promised to be durable in this mode, may have been written before a sync failed.
    pub fn was_written_before_a_failure(&self, called: usize, durability: Mode) -> bool {
        durability != Mode::Always && self.sync_failed_at.is_some_and(|failed| failed > called)
    }

    /// Whether a failed sync leaves it open if this record is durable: what came after that has synced it since, or not.
    pub fn doubts(&self, offset: u64, slot: &Slot) -> bool {
        slot.doubtful && offset >= self.durable_to
    }

    /// Records in it may contradict each other, or what they were is gone: then only a person can say what holds, and until
    /// then it may take no writes.
    pub fn at_odds(&self) -> bool {
        self.lied || !self.planted.is_empty() || self.orphaned
    }

    /// Something other than the broker has changed this file: its index, and those of a log, prove nothing any more.
    pub fn tamper(&mut self, path: &str, starts: u32) {
        let (dir, file) = path.rsplit_once('/').unwrap_or(("", path));
        let (stem, kind) = file.split_once('.').unwrap_or((file, ""));
        for index in
            INDEXES.into_iter().filter(|index| kind == "log" || kind.trim_end_matches(".tmp") == *index)
        {
            self.tampered.insert(format!("{dir}/{stem}.{index}"), starts);
        }
    }

    /// A start has built this index anew: it proves something again, unless it has been
    /// changed since that start began.
    pub fn rebuilt(&mut self, index: &str, starts: u32) {
        if self.tampered.get(index).is_some_and(|before| *before < starts) {
            self.tampered.remove(index);
        }
    }

    /// The log ends at `end` now: what was promised beyond it is no longer.
    pub fn ends_at(&mut self, end: u64) {
        self.durable_to = self.durable_to.min(end);
        if self.newest_base > end {
            self.newest_base = self.durable_to;
        }
        self.seen_to.iter_mut().for_each(|(_, seen)| *seen = (*seen).min(end));
    }

    /// All of it was seen after this start, up to `end`, but for what could not be read.
    pub fn seen(&mut self, start: u32, end: u64, unread: BTreeSet<u64>) {
        (self.disturbed, self.unread) = (false, unread);
        if self.seen_to.last().is_none_or(|(last, _)| *last < start) {
            self.seen_to.push((start, end));
        }
    }

    /// Another record was found at `offset`, whose old one a crash may have taken: it has taken all behind it too. Gives
    /// the records that are gone.
    pub fn replaced_from(&mut self, offset: u64) -> Vec<RecordId> {
        self.ends_at(offset);
        let gone: Vec<u64> = self.slots.range(offset..).filter(|(_, s)| s.at_risk).map(|(o, _)| *o).collect();
        gone.iter().filter_map(|o| self.slots.remove(o)).map(|slot| slot.id).collect()
    }
}

impl Topic {
    /// A topic with this many empty partitions, known since this entry of the trace.
    pub fn new(born: usize, partitions: u32, own: Retention, uncertain: bool) -> Self {
        let partitions = vec![Partition::default(); partitions as usize];
        let (retention, by_content) = (own.any(), FnvHashMap::default());
        Self { partitions, retention, own, uncertain, successor: None, born, by_content }
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
    /// The index interval of the running broker; `None` once it has changed in this run.
    pub index_interval: Option<u64>,
    /// The longest that the disk has taken for a sync since the broker was started: a record may be that much older than the interval.
    pub slack_ms: Millis,
    /// Whether syncs may be lies.
    pub lying: bool,
    /// Whether every sector can be read again: the next start finds all that is there.
    pub readable: bool,
    /// Whether any broker of this run acknowledged after a sync only.
    pub was_always: bool,
    /// Whether the last crash was a power loss.
    pub lights_went_out: bool,
    /// Records of requests that are not answered yet, and of the answer that is being taken in.
    pub under_way: u64,
    /// When the broker went down, while it is.
    pub down_since: Option<Millis>,
    /// How many crashes there were.
    pub epoch: u32,
    /// How many starts there were.
    pub starts: u32,
    /// What the broker keeps of any topic that does not say so itself.
    pub retention: Retention,
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

    /// A partition, if the topic is known and has it.
    pub fn partition(&self, topic: &str, partition: u32) -> Option<&Partition> {
        self.topics.get(topic)?.partitions.get(partition as usize)
    }

    /// A partition, to be changed.
    pub fn partition_mut(&mut self, topic: &str, partition: u32) -> Option<&mut Partition> {
        self.topics.get_mut(topic)?.partitions.get_mut(partition as usize)
    }

    /// A topic becomes known, with what has been sent to it: requests that were not over at this entry of the trace, when
    /// it was asked for, may have found it there.
    pub fn appears(&mut self, name: &Arc<str>, mut topic: Topic, since: usize) {
        let sent = self.produced.iter().filter(|(_, produced)| produced.topic == *name);
        for (call, produced) in sent.filter(|(_, produced)| !produced.answered || produced.answer > since) {
            for (index, sent) in produced.records.iter().enumerate() {
                let content = (sent.key.clone(), sent.value.clone());
                topic.by_content.entry(content).or_default().push(RecordId { call: *call, index });
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
        let now = *self.down_since.get_or_insert(now);
        if !power {
            return;
        }
        let (slack, lying) = (self.slack_ms, self.lying);
        self.topics.values_mut().for_each(|topic| topic.uncertain |= lying);
        for partition in self.topics.values_mut().flat_map(|t| &mut t.partitions) {
            (partition.shaken, partition.disturbed) = (true, true);
            let (durable_to, lied) = (partition.durable_to, partition.lied);
            for (&offset, slot) in &mut partition.slots {
                let promised = match slot.durability {
                    Mode::Always => true,
                    Mode::Os => offset < durable_to,
                    Mode::Interval(window) => {
                        offset < durable_to || slot.at.saturating_add(window).saturating_add(slack) <= now
                    }
                };
                let doubtful = slot.doubtful && offset >= durable_to;
                slot.at_risk |= lying || lied || doubtful || !promised;
            }
        }
    }

    /// A sync of this partition's log has failed at this entry of the trace: what it should have made durable may be gone after a
    /// power loss. Also what was called by then, and whose answer comes later: see [`Partition::was_written_before_a_failure`].
    pub fn sync_failed(&mut self, topic: &str, partition: u32, entry: usize) {
        let Some(partition) = self.partition_mut(topic, partition) else { return };
        partition.sync_failed_at = Some(entry);
        let durable_to = partition.durable_to;
        for (_, slot) in partition.slots.range_mut(durable_to..) {
            slot.doubtful |= slot.durability != Mode::Always;
        }
    }

    /// The broker has stopped cleanly: everything is synced.
    pub fn stopped(&mut self) {
        for partition in self.topics.values_mut().flat_map(|t| &mut t.partitions) {
            // One that takes no writes is not recorded: what kept it from being opened may keep it from being synced.
            if !partition.may_fence && !partition.fenced {
                partition.durable_to = partition.slots.last_key_value().map_or(0, |(o, _)| o + 1);
            }
        }
    }
}
