//! Records with the same bytes. Which of them lies where nobody can see, so each time one is found, the model takes one that can
//! lie there, and is free to change its mind: what it must be able to name is *some* assignment of records to places that breaks
//! no promise, and only where there is none has the broker broken one.
//!
//! A record can lie
//!
//! - in the partition that its client chose, or that its key chooses, or in any;
//! - at no offset that was first filled after its request was over: one that was answered (or given up) before a start is not
//!   carried out after it, so what of it is not there when all is looked at then, is nowhere.

use std::collections::BTreeMap;

use super::model::{Content, Fate, Model, RecordId};
use super::p10_routed::goes_to;
use crate::trace::CallId;

/// A partition and an offset in it.
pub type Place = (u32, u64);

impl Model {
    /// What became of a record.
    pub fn fate(&self, id: RecordId) -> Fate {
        self.produced[&id.call].fates[id.index]
    }

    /// All records of a topic with this content.
    pub fn alike(&self, topic: &str, content: &Content) -> &[RecordId] {
        self.topics.get(topic).and_then(|topic| topic.by_content.get(content)).map_or(&[], |ids| ids)
    }

    /// The records of a request lie below this offset: when all below it was seen, the request was over.
    pub fn below(&self, call: CallId, topic: &str, partition: u32) -> u64 {
        let produced = &self.produced[&call];
        let Some(known) = self.partition(topic, partition).filter(|_| produced.answered) else {
            return u64::MAX;
        };
        known.last_seen.end_after(produced.answered_in).unwrap_or(u64::MAX)
    }

    /// Whether a record's request was not over yet when this place was filled.
    pub fn in_time(&self, id: RecordId, topic: &str, (partition, offset): Place) -> bool {
        offset < self.below(id.call, topic, partition)
    }

    /// Whether a record can lie in this place.
    pub fn can_lie(&self, id: RecordId, topic: &str, place: Place) -> bool {
        goes_to(self, topic, place.0, id) && self.in_time(id, topic, place)
    }

    /// Two records with the same content, of which one was taken for the other: what became of each was the other's.
    pub fn exchange(&mut self, a: RecordId, b: RecordId) {
        let (of_a, of_b) = (self.fate(a), self.fate(b));
        let topic = self.produced[&a.call].topic.clone();
        for (id, fate) in [(a, of_b), (b, of_a)] {
            if let Fate::Found(partition, offset) = fate
                && let Some(known) = self.partition_mut(&topic, partition)
                && let Some(slot) = known.slots.get_mut(&offset)
            {
                slot.id = id;
            }
            self.set_fate(id, fate);
        }
    }

    /// A record of which nobody knows what became, and which can take the place that `id` is thought to have: one that was
    /// produced alone, or else another request's, or else one of the same request. Where there is none, others with the same
    /// content change places until one is free.
    pub fn double(&mut self, id: RecordId, place: Place) -> Option<RecordId> {
        let topic = self.produced[&id.call].topic.clone();
        let content = self.content(id);
        let open = |other: &&RecordId| {
            **other != id && self.fate(**other) == Fate::Open && self.can_lie(**other, &topic, place)
        };
        let rank = |other: &&RecordId| match other.call == id.call {
            true => 2,
            false => u32::from(self.produced[&other.call].records.len() > 1),
        };
        let same = self.alike(&topic, &content);
        let found = same.iter().filter(open).min_by_key(rank).copied();
        found.or_else(|| self.make_free(&topic, &content, place, Some(id)))
    }

    /// A record with this content that can lie in this place, made free for it: it was thought to lie elsewhere, where another
    /// one can lie as well, and so on (an augmenting path, as in any bipartite matching).
    pub fn make_free(
        &mut self,
        topic: &str,
        content: &Content,
        place: Place,
        but: Option<RecordId>,
    ) -> Option<RecordId> {
        let path = self.path(topic, content, place, but)?;
        for pair in path.windows(2).rev() {
            self.exchange(pair[0], pair[1]);
        }
        path.first().copied()
    }

    /// Records of which the first can lie in the place, each is thought to lie where the next one can, and the last is thought
    /// to lie nowhere.
    fn path(
        &self,
        topic: &str,
        content: &Content,
        place: Place,
        but: Option<RecordId>,
    ) -> Option<Vec<RecordId>> {
        let same = self.alike(topic, content);
        let mut before: BTreeMap<RecordId, Option<RecordId>> = BTreeMap::new();
        let mut waiting = vec![(place, None)];
        while let Some((place, from)) = waiting.pop() {
            for &id in same {
                if Some(id) == but || before.contains_key(&id) || !self.can_lie(id, topic, place) {
                    continue;
                }
                match self.fate(id) {
                    Fate::Open => {
                        let mut path = vec![id];
                        let mut at = from;
                        while let Some(id) = at {
                            path.push(id);
                            at = before.get(&id).copied().flatten();
                        }
                        path.reverse();
                        return Some(path);
                    }
                    Fate::Found(partition, offset) => {
                        before.insert(id, from);
                        waiting.push(((partition, offset), Some(id)));
                    }
                    Fate::Acknowledged(..) | Fate::Refused | Fate::Lost => {}
                }
            }
        }
        None
    }
}
