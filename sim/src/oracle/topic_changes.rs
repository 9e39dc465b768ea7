//! Topics that somebody makes or deletes just now: what is on its way, no answer can be held to.

use std::sync::Arc;

/// What clients have asked for.
#[derive(Clone, Debug, Default)]
pub(super) struct TopicChanges {
    /// Topics that somebody is deleting.
    leaving: Vec<Arc<str>>,
    /// How often somebody has asked for a topic to be made.
    creations: u64,
}

impl TopicChanges {
    /// Somebody asks for a topic to be made.
    pub(super) fn creation_begins(&mut self) {
        self.creations += 1;
    }

    /// Somebody asks for this one to be deleted.
    pub(super) fn deletion_begins(&mut self, topic: &Arc<str>) {
        self.leaving.push(topic.clone());
    }

    /// Who asked for that has an answer, or has given up.
    pub(super) fn deletion_ends(&mut self, topic: &Arc<str>) {
        if let Some(at) = self.leaving.iter().position(|leaving| leaving == topic) {
            self.leaving.remove(at);
        }
    }

    /// Whether somebody is deleting it.
    pub(super) fn is_leaving(&self, topic: &str) -> bool {
        self.leaving.iter().any(|leaving| **leaving == *topic)
    }

    /// How often somebody has asked for a topic to be made.
    pub(super) fn creations(&self) -> u64 {
        self.creations
    }
}
