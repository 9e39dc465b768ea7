//! Calls and their answers: what clients have been promised.

use std::sync::Arc;

use broker::error::Code;

use super::{Open, Walk};
use crate::oracle::answered::{Grounds, Said, ranges};
use crate::oracle::look::name;
use crate::oracle::model::{Causes, Fate, Produced, RecordId, Successor, Topic};
use crate::oracle::p03_never_wrong::{self, Given};
use crate::oracle::{Promise, p01_dense, p05_no_reuse, p12_bounded};
use crate::trace::{Answer, CallId, Millis, Placed, Request, Retention, Sent};

/// What an answer is judged by; the findings stay free.
macro_rules! grounds {
    ($walk:expr) => {
        Grounds {
            model: &$walk.model,
            obstacles: &$walk.obstacles,
            disk: &$walk.disk_errors,
            topic_changes: &$walk.topic_changes,
            logs: &$walk.logs,
            raw: $walk.raw,
        }
    };
}

impl Walk {
    pub(super) fn call(&mut self, id: CallId, client: &Arc<str>, request: &Request, at: Millis) {
        if let Request::Produce { topic, partition, records } = request {
            let (entry, epoch) = (self.findings.entry, self.model.epoch);
            self.model.under_way += records.len() as u64;
            *self.model.sent.entry((topic.clone(), *partition)).or_default() += records.len() as u64;
            let produced = Produced {
                topic: topic.clone(),
                client: client.clone(),
                partition: *partition,
                records: records.clone(),
                fates: vec![Fate::Open; records.len()],
                entry,
                at,
                over: None,
                answer: entry,
                answered: false,
                epoch,
                answered_in: 0,
            };
            if let Some(topic) = self.model.topics.get_mut(topic) {
                for (index, sent) in records.iter().enumerate() {
                    let content = (sent.key.clone(), sent.value.clone());
                    topic.by_content.entry(content).or_default().push(RecordId { call: id, index });
                }
            }
            self.model.produced.insert(id, produced);
        }
        let waits = matches!(request, Request::Consume { wait_ms: 1.., .. });
        let behind = waits && self.calls.values().any(|open| open.client == *client);
        let mut asked = grounds!(self).asked(client, request, at, behind);
        let mut was_deleted = false;
        match request {
            Request::CreateTopic { topic, .. } => {
                was_deleted = self.model.deleted.remove(topic);
                self.topic_changes.creation_begins(topic);
                asked.creations = self.topic_changes.creations();
            }
            Request::DeleteTopic { topic } => self.topic_changes.deletion_begins(topic),
            _ => {}
        }
        let (client, request, entry) = (client.clone(), request.clone(), self.findings.entry);
        let (epoch, struck) = (self.model.epoch, self.disk_errors.struck());
        let open = Open { client, request, entry, epoch, struck, asked, was_deleted };
        self.calls.insert(id, open);
    }

    /// Whether an answer says what it must: a look judges for itself what it was told.
    fn judge(&mut self, open: &Open, answer: &Answer, now: Millis) {
        let (asked, request) = (&open.asked, &open.request);
        let (grounds, said) = (grounds!(self), Said { asked, request, answer, now });
        if !grounds.unanswered(&mut self.findings, said) {
            grounds.starts(&mut self.findings, said);
            if self.look.is_none() {
                grounds.answered(&mut self.findings, said);
            }
        }
        self.obstacles.answered(&open.client, answer, open.asked.before);
    }

    pub(super) fn answer(&mut self, id: CallId, answer: &Answer, now: Millis) {
        let Some(open) = self.calls.remove(&id) else { return };
        let disturbed = open.struck != self.disk_errors.struck();
        self.judge(&open, answer, now);
        let undone = Answer::Lost { why: "power loss".into(), sent: true, told: false };
        let answer = if *answer == Answer::Done && self.may_be_undone(&open) { &undone } else { answer };
        let contested = match &open.request {
            Request::CreateTopic { topic, .. } | Request::DeleteTopic { topic } => {
                self.topic_changes.is_contested(topic)
            }
            _ => false,
        };
        match &open.request {
            Request::CreateTopic { topic, .. } => self.topic_changes.creation_ends(topic),
            Request::DeleteTopic { topic } => self.topic_changes.deletion_ends(topic),
            _ => {}
        }
        match &open.request {
            Request::CreateTopic { topic, partitions, retention_bytes, retention_ms } => {
                let own = Retention { bytes: *retention_bytes, age_ms: *retention_ms };
                match contested {
                    true => self.created_or_deleted(topic, *partitions, own, answer, open.entry),
                    false => {
                        self.created(topic, *partitions, own, answer, open.entry);
                        self.not_created(topic, &open, answer);
                    }
                }
                if open.asked.errors != self.disk_errors.failed()
                    && let Some(known) = self.model.topics.get_mut(topic)
                {
                    // What failed while it was made may have failed under one of its partitions, or of the one that it may be.
                    if let Some(successor) = &mut known.successor {
                        (successor.failed, successor.struck) = (true, successor.struck || disturbed);
                    }
                    for known in &mut known.partitions {
                        known.failures.failed(Causes::ALL);
                        if disturbed {
                            known.failures.may_fence();
                        }
                    }
                }
            }
            Request::DeleteTopic { topic } => self.deleted(topic, answer, now, contested),
            Request::Produce { topic, records, .. } => {
                let of_old = open.asked.gone_since.is_some();
                self.produced((id, topic), records, answer, now, of_old);
            }
            Request::Consume { topic, partition, from, max_bytes, .. } => {
                if let Answer::Fetched { records, .. } = answer {
                    let what = format!("{}, asked by {}", name(topic, *partition), open.client);
                    p01_dense::answer(&mut self.findings, &what, *from, records);
                    p12_bounded::answer(&mut self.findings, &what, *max_bytes, records);
                    let is_open = self.model.topics.get(topic).is_some_and(|known| known.successor.is_some());
                    for seen in records.iter().filter(|_| !is_open) {
                        p03_never_wrong::read(
                            &mut self.findings,
                            &mut self.model,
                            topic,
                            *partition,
                            seen,
                            Given { at: now, epoch: open.epoch },
                        );
                    }
                }
            }
            _ => {}
        }
        self.told_where_it_starts(&open, answer);
        if let Some(look) = &mut self.look {
            look.answer(&open.request, answer, disturbed);
        }
        // A look also meets what no healing mends.
        match self.look {
            Some(_) => self.liveness.probed(&mut self.findings, &open.request, answer),
            None => self.liveness.answer(&mut self.findings, &self.model, &open.request, answer),
        }
    }

    /// What a partition has lost of its beginning does not come back while the broker runs.
    fn told_where_it_starts(&mut self, open: &Open, answer: &Answer) {
        let request = &open.request;
        let (Request::Consume { topic, .. }
        | Request::Offsets { topic, .. }
        | Request::ListPartitions { topic }) = request
        else {
            return;
        };
        let is_same = self.model.topics.get(topic).is_some_and(|known| known.born < open.entry);
        if !is_same || !self.obstacles.is_unchanged(open.asked.before) {
            return;
        }
        for (partition, start, _) in ranges(request, answer) {
            if let (Some(known), Some(start)) = (self.model.partition_mut(topic, partition), start) {
                known.start = known.start.max(start);
            }
        }
    }

    /// A topic was made, or may have been, since it was asked for at this entry of the trace.
    fn created(&mut self, topic: &Arc<str>, partitions: u32, own: Retention, answer: &Answer, since: usize) {
        let uncertain = match answer {
            Answer::Done => false,
            Answer::Lost { sent: true, .. } | Answer::Refused { code: Code::OutcomeUnknown, .. } => true,
            _ => return,
        };
        if !uncertain {
            self.topic_changes.is_certain(topic);
        } else if self.topic_changes.is_doubtful(topic) && !self.model.topics.contains_key(topic) {
            return; // it may be one that nobody knows of
        }
        // What was made now is new: one of its name whose deletion nobody answered is gone.
        if !uncertain && self.model.topics.get(topic).is_none_or(|known| known.uncertain) {
            self.model.topics.remove(topic);
            self.routing.forget(topic);
        }
        let Some(known) = self.model.topics.get_mut(topic) else {
            let born = self.findings.entry;
            self.model.appears(topic, Topic::new(born, partitions, own, uncertain), since);
            return;
        };
        if uncertain && known.uncertain {
            known.successor = Some(Successor { partitions, own, since, failed: false, struck: false });
        }
        known.uncertain &= uncertain;
    }

    /// A topic was made, or may have been, while somebody else was deleting one of its name: that was the one before it, or this one.
    fn created_or_deleted(
        &mut self,
        topic: &Arc<str>,
        partitions: u32,
        own: Retention,
        answer: &Answer,
        since: usize,
    ) {
        match answer {
            // There was none of its name then: what there is of it came with this one, unless that was deleted.
            Answer::Done => {
                self.routing.forget(topic);
                let born = self.findings.entry;
                self.model.appears(topic, Topic::new(born, partitions, own, true), since);
            }
            answer => {
                if let Some(known) = self.model.topics.get_mut(topic) {
                    known.uncertain = true;
                }
                self.created(topic, partitions, own, answer, since);
            }
        }
    }

    /// A topic that was deleted is still gone where it was not made anew, and nobody else has asked for it meanwhile.
    fn not_created(&mut self, topic: &Arc<str>, open: &Open, answer: &Answer) {
        let refused = match answer {
            Answer::Refused { code, .. } => *code != Code::OutcomeUnknown,
            answer => matches!(answer, Answer::Lost { sent: false, .. }),
        };
        let is_gone = open.was_deleted && !self.topic_changes.is_doubtful(topic);
        if refused && is_gone && open.asked.creations == self.topic_changes.creations() {
            self.model.deleted.insert(topic.clone());
        }
    }

    /// `contested`: somebody was making one of its name meanwhile, which may be there now.
    fn deleted(&mut self, topic: &Arc<str>, answer: &Answer, now: Millis, contested: bool) {
        match answer {
            Answer::Done => {
                let open = self.calls.values_mut();
                open.filter(|open| {
                    matches!(&open.request, Request::Consume { topic: of, .. } | Request::Produce { topic: of, .. } if of == topic)
                })
                .for_each(|open| _ = open.asked.gone_since.get_or_insert(now));
                self.routing.forget(topic);
                match self.model.topics.get_mut(topic) {
                    _ if !contested => {
                        self.topic_changes.is_certain(topic);
                        self.model.topics.remove(topic);
                        self.model.deleted.insert(topic.clone());
                    }
                    Some(known) => known.uncertain = true,
                    None => {}
                }
            }
            Answer::Lost { sent: true, .. } | Answer::Refused { code: Code::OutcomeUnknown, .. } => {
                if let Some(topic) = self.model.topics.get_mut(topic) {
                    topic.uncertain = true;
                }
            }
            _ => {}
        }
    }

    /// `of_old`: its topic was deleted meanwhile. What is stored went with it, or is in one of its name.
    fn produced(
        &mut self,
        (id, topic): (CallId, &Arc<str>),
        records: &[Sent],
        answer: &Answer,
        now: Millis,
        of_old: bool,
    ) {
        let entry = self.findings.entry;
        let Some(produced) = self.model.produced.get_mut(&id) else { return };
        produced.answer = entry;
        produced.answered = true;
        produced.over = matches!(answer, Answer::Produced(_)).then_some(now);
        produced.answered_in = self.model.starts;
        let chosen = produced.partition;
        match answer {
            Answer::Produced(placed) => {
                for (index, placed) in placed.iter().enumerate() {
                    let is_stored = matches!(placed, Placed::At(..));
                    let placed = if of_old && is_stored { Placed::Unknown } else { *placed };
                    self.placed(RecordId { call: id, index }, topic, placed, now);
                }
            }
            Answer::Refused { code, .. } if !code.leaves_outcome_unknown() => {
                (0..records.len()).for_each(|index| self.refused(RecordId { call: id, index }));
            }
            Answer::Lost { sent: false, .. } => {
                (0..records.len()).for_each(|index| self.refused(RecordId { call: id, index }));
            }
            _ => {}
        }
        if !matches!(answer, Answer::Produced(_)) && chosen.is_none() {
            let keyless = records.iter().filter(|r| r.key.is_none()).count();
            (0..keyless).for_each(|_| self.routing.unclear(topic));
        }
        self.model.under_way -= records.len() as u64;
    }

    /// What became of one record.
    fn placed(&mut self, id: RecordId, topic: &Arc<str>, placed: Placed, now: Millis) {
        match placed {
            Placed::At(partition, offset) => {
                let at = (partition, offset);
                self.placed_before_it_is_known(topic);
                if !self.tells_which_one(topic, at) {
                    return self.routing.unclear(topic);
                }
                p05_no_reuse::acknowledged(&mut self.findings, &mut self.model, topic, at, id, now);
                self.routing.acknowledged(&mut self.findings, &self.model, topic, at, id);
            }
            Placed::Refused(code) => {
                if !code.leaves_outcome_unknown() {
                    self.refused(id);
                }
                self.routing.unclear(topic);
            }
            Placed::Unknown => self.routing.unclear(topic),
        }
    }

    /// Who makes a topic may be told of it later than who uses it. Of several that differ, it is not known which one was made.
    fn placed_before_it_is_known(&mut self, topic: &Arc<str>) {
        if self.model.topics.contains_key(topic) || self.topic_changes.is_doubtful(topic) {
            return;
        }
        let asked = self.asked_for(topic);
        let alike = |a: &Successor, b: &Successor| (a.partitions, a.own) == (b.partitions, b.own);
        if let Some(last) = asked.iter().max_by_key(|asked| asked.since)
            && asked.iter().all(|other| alike(other, last))
        {
            let born = self.findings.entry;
            self.model.appears(topic, Topic::new(born, last.partitions, last.own, false), last.since);
        }
    }

    fn refused(&mut self, id: RecordId) {
        let fate = self.model.produced.get(&id.call).map(|produced| produced.fates[id.index]);
        // What was read may have been another record with the same content.
        if let Some(Fate::Found(partition, offset)) = fate
            && let Some(other) = self.model.double(id, (partition, offset))
        {
            self.model.exchange(id, other);
        }
        let Some(produced) = self.model.produced.get(&id.call) else { return };
        if let Fate::Found(partition, offset) = produced.fates[id.index] {
            let what = format!("{} offset {offset}", name(&produced.topic, partition));
            let because = self.model.entries_of(id);
            let said = ("a refused record was never there", "it had been read");
            self.findings.broke(Promise::RefusedAbsent, "read, then refused", what, said, &because);
        }
        self.model.set_fate(id, Fate::Refused);
    }
}
