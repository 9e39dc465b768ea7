//! The lights go out over a disk that has lied about which topics there are, and what is in them.

use super::{Open, Walk};
use crate::oracle::lost_names::Lost;
use crate::oracle::model::Partition;
use crate::trace::Request;

impl Walk {
    /// Topics may be gone, or back, or lack what was put into them.
    pub(super) fn names_may_be_lost(&mut self) {
        let Lost { undone, hollow, hollow_partitions } = self.lost_names.power_lost();
        for (topic, undone) in undone {
            self.topic_changes.doubt(&topic);
            self.model.deleted.remove(&topic);
            match self.model.topics.get_mut(&topic) {
                // The one that was there before it, or neither of them.
                Some(_) if undone.made && undone.deleted => {
                    self.model.topics.remove(&topic);
                    self.routing.forget(&topic);
                }
                Some(known) => known.uncertain |= undone.made,
                None => {}
            }
        }
        for topic in &hollow {
            let Some(known) = self.model.topics.get_mut(topic) else { continue };
            (known.uncertain, known.unsettled, known.may_have_fewer) = (true, true, true);
            known.partitions.iter_mut().for_each(Partition::lied);
        }
        for (topic, partition) in &hollow_partitions {
            self.model.partition_mut(topic, *partition).into_iter().for_each(Partition::lied);
        }
    }

    /// Whether an answer was on its way when such a power loss may have undone what it tells of.
    pub(super) fn may_be_undone(&self, open: &Open) -> bool {
        let (Request::CreateTopic { topic, .. } | Request::DeleteTopic { topic }) = &open.request else {
            return false;
        };
        open.epoch != self.model.epoch && self.topic_changes.is_doubtful(topic)
    }
}
