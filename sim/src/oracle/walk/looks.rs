//! What a look at a running broker has found, taken together.

use super::Walk;
use crate::oracle::look::Look;
use crate::oracle::{Promise, p01_dense, p02_kept, p04_refused_absent, p07_time, p09_damage};
use crate::trace::TopicPartition;

impl Walk {
    /// Of what was not asked about to its end, nothing is said; of all others, everything.
    pub(super) fn look_ends(&mut self, complete: bool, unseen: &[TopicPartition]) {
        self.liveness.looked(complete, unseen);
        let Some(mut look) = self.look.take().filter(|_| complete) else { return };
        for place in unseen {
            if let Some(found) = look.partitions.get_mut(place) {
                found.disturbed = true;
            }
        }
        self.looked(&look);
    }

    /// One consistent look at a running broker has come to its end.
    pub(super) fn looked(&mut self, look: &Look) {
        self.succeeded(look);
        self.may_be_fewer(look);
        for ((topic, number), found) in &look.partitions {
            let certain = self.model.topics.get(topic).is_some_and(|t| !t.uncertain);
            if found.unknown {
                // A topic that has taken the place of another may have fewer partitions.
                if certain && self.model.partition(topic, *number).is_none() {
                    continue;
                }
                if certain && !found.disturbed && !self.model.lying {
                    let said = ("the topic is there", "the broker does not know it");
                    self.findings.broke(Promise::Kept, "topic lost", topic.as_ref(), said, &[]);
                } else if !certain || self.model.lying {
                    let mut all = look.partitions.iter().filter(|((of, _), _)| of == topic);
                    if all.all(|(_, found)| found.unknown) {
                        self.topic_changes.is_certain(topic);
                    }
                    self.model.topics.remove(topic);
                }
                continue;
            }
            // Where nobody answered, nobody knows whether it is there.
            if let Some(known) =
                self.model.topics.get_mut(topic).filter(|_| found.answered || !found.disturbed)
            {
                known.uncertain = false;
                self.topic_changes.is_certain(topic);
            }
            let f = &mut self.findings;
            p01_dense::look(f, &self.model, topic, *number, found);
            p01_dense::files(f, &self.model, topic, *number, look);
            p02_kept::look(f, &mut self.model, (topic, *number), found, look.image.as_deref());
            p07_time::look(f, &self.model, topic, *number, found);
            p09_damage::look(f, (topic, *number), found, look.image.as_deref());
        }
        p04_refused_absent::look(&mut self.findings, &mut self.model, look);
        self.seen(look);
    }

    /// Of a topic that may lack what was put into it, a look shows which partitions are left.
    fn may_be_fewer(&mut self, look: &Look) {
        for (name, known) in self.model.topics.iter_mut().filter(|(_, known)| known.may_have_fewer) {
            let of_topic = look.partitions.iter().filter(|((topic, _), _)| topic == name);
            let there =
                of_topic.filter(|(_, found)| !found.unknown).map(|((_, number), _)| *number + 1).max();
            if let Some(there) = there {
                known.partitions.truncate(there as usize);
                known.may_have_fewer = false;
            }
        }
    }

    /// What of a request that is over was not there now will never be.
    fn seen(&mut self, look: &Look) {
        if self.model.lying || self.model.under_way > 0 {
            return;
        }
        let start = self.model.starts;
        for ((topic, number), found) in &look.partitions {
            let Some(known) = self.model.partition_mut(topic, *number) else { continue };
            if found.ranged && !found.disturbed && !found.hides {
                known.seen(start, found.end, found.unread());
            }
        }
    }
}
