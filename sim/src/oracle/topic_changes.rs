//! Topics that somebody makes or deletes just now: what is on its way, no answer can be held to.

use std::collections::BTreeSet;
use std::sync::Arc;

/// What clients have asked for.
#[derive(Clone, Debug, Default)]
pub(super) struct TopicChanges {
    /// Topics that somebody is deleting.
    leaving: Vec<Arc<str>>,
    /// Topics that somebody is making.
    arriving: Vec<Arc<str>>,
    /// How often somebody has asked for a topic to be made.
    creations: u64,
    /// Topics that somebody makes while somebody deletes them, until nobody does either: which came first, no answer tells.
    contested: BTreeSet<Arc<str>>,
    /// Topics that a power loss may have taken, or brought back, since the disk has lied.
    doubted: BTreeSet<Arc<str>>,
}

impl TopicChanges {
    /// Somebody asks for this one to be made.
    pub(super) fn creation_begins(&mut self, topic: &Arc<str>) {
        self.creations += 1;
        self.arriving.push(topic.clone());
        self.meet(topic);
    }

    /// Who asked for that has an answer, or has given up.
    pub(super) fn creation_ends(&mut self, topic: &Arc<str>) {
        take(&mut self.arriving, topic);
        self.part(topic);
    }

    /// Somebody asks for this one to be deleted.
    pub(super) fn deletion_begins(&mut self, topic: &Arc<str>) {
        self.leaving.push(topic.clone());
        self.meet(topic);
    }

    /// Who asked for that has an answer, or has given up.
    pub(super) fn deletion_ends(&mut self, topic: &Arc<str>) {
        take(&mut self.leaving, topic);
        self.part(topic);
    }

    fn meet(&mut self, topic: &Arc<str>) {
        if self.is_arriving(topic) && self.is_leaving(topic) {
            self.contested.insert(topic.clone());
        }
    }

    fn part(&mut self, topic: &str) {
        if !self.is_arriving(topic) && !self.is_leaving(topic) {
            self.contested.remove(topic);
        }
    }

    /// Whether somebody who is not answered yet makes it, and somebody deletes it, or did when that was asked for.
    pub(super) fn is_contested(&self, topic: &str) -> bool {
        self.contested.contains(topic)
    }

    /// A power loss may have taken it, or brought it back.
    pub(super) fn doubt(&mut self, topic: &Arc<str>) {
        self.doubted.insert(topic.clone());
    }

    /// It is certain again whether it is there.
    pub(super) fn is_certain(&mut self, topic: &str) {
        self.doubted.remove(topic);
    }

    /// Whether there may be one of this name of which nobody knows, or none though somebody was told that it was made.
    pub(super) fn is_doubtful(&self, topic: &str) -> bool {
        self.doubted.contains(topic)
    }

    /// How many are deleting it.
    pub(super) fn leaving(&self, topic: &str) -> usize {
        self.leaving.iter().filter(|leaving| ***leaving == *topic).count()
    }

    /// Whether somebody is making it.
    pub(super) fn is_arriving(&self, topic: &str) -> bool {
        self.arriving.iter().any(|arriving| **arriving == *topic)
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

/// Takes one of these out.
fn take(from: &mut Vec<Arc<str>>, topic: &Arc<str>) {
    if let Some(at) = from.iter().position(|other| other == topic) {
        from.remove(at);
    }
}
