//! What is said of topics and partitions besides where they begin and end: what a topic was made with, the bytes of a log, and
//! whether it is written to.

use std::sync::Arc;

use super::{Answer, Asked, Code, Findings, Grounds, Promise, Said, Topic, has_cause, name, ranges};
use crate::oracle::model::Partition;
use crate::trace::{ListedPartition, ListedTopic};

impl Grounds<'_> {
    /// All topics.
    pub(super) fn topics(&self, f: &mut Findings, asked: &Asked, answer: &Answer) {
        let Answer::Topics(listed) = answer else { return };
        for topic in asked.topics.iter().filter(|topic| self.is_still_there(topic)) {
            let found = listed.iter().find(|listed| listed.name == *topic.name);
            let count = found.map(|listed| listed.partitions as usize);
            found.into_iter().for_each(|listed| self.made_with(f, topic, listed));
            if count != Some(topic.ends.len()) {
                let found = count.map_or("nothing".to_owned(), |count| format!("{count} partitions"));
                let said = (format!("listed, with {} partitions", topic.ends.len()), found);
                f.broke(Promise::Kept, "topic not listed", topic.name.as_ref(), said, &[]);
            }
        }
        let is_back = |topic: &&Arc<str>| listed.iter().any(|listed| listed.name == ***topic);
        if asked.creations == self.topic_changes.creations()
            && let Some(topic) = asked.gone.iter().find(is_back)
        {
            let said = ("not listed: it was deleted", "it is listed");
            f.broke(Promise::RefusedAbsent, "deleted topic listed", topic.as_ref(), said, &[]);
        }
    }

    /// What a topic keeps is what it was made with, unless what it has noted of that is lost.
    fn made_with(&self, f: &mut Findings, topic: &Topic, listed: &ListedTopic) {
        let Some(known) = self.model.topics.get(&topic.name).filter(|known| !known.unsettled) else { return };
        if listed.own != known.own && !self.disk.failed_since_start() {
            let said = (format!("made to keep {:?}", known.own), format!("listed to keep {:?}", listed.own));
            f.broke(Promise::Kept, "settings differ", topic.name.as_ref(), said, &[]);
        }
    }

    /// The partitions of a topic.
    pub(super) fn partitions(
        &self,
        f: &mut Findings,
        topic: &Topic,
        asked: &Asked,
        listed: &[ListedPartition],
    ) {
        if listed.len() != topic.ends.len() {
            let said = (format!("{} partitions", topic.ends.len()), listed.len().to_string());
            f.broke(Promise::Kept, "partitions not listed", topic.name.as_ref(), said, &[]);
        }
        for listed in listed {
            let Some(known) = self.model.partition(&topic.name, listed.number) else { continue };
            fence(f, &name(&topic.name, listed.number), known, listed);
            if !listed.unopened && self.knows_its_logs(asked, known) {
                self.bytes(f, topic, listed);
            }
        }
    }

    /// Whether the logs of a partition are what the disk has told of them, and were all the time since this was asked.
    fn knows_its_logs(&self, asked: &Asked, known: &Partition) -> bool {
        let untouched =
            !(known.failures.has_any() || known.failures.left_it_fenced() || known.harm.is_unreadable());
        untouched && !known.harm.explains_missing_records() && self.logs.changes() == asked.logs
    }

    /// The bytes of a partition are those of its logs; what retention has just removed may still be counted.
    fn bytes(&self, f: &mut Findings, topic: &Topic, listed: &ListedPartition) {
        let bytes = self.logs.bytes_of(&topic.name, listed.number);
        if listed.bytes < bytes || (listed.bytes > bytes && self.keeps_all(topic)) {
            let said = (format!("the {bytes} bytes of its logs"), format!("{} bytes", listed.bytes));
            f.broke(Promise::Kept, "bytes differ", name(&topic.name, listed.number), said, &[]);
        }
    }

    /// Where a partition is said to begin, a segment of it does.
    pub(in crate::oracle) fn starts(&self, f: &mut Findings, said: Said<'_>) {
        let Said { asked, request, answer, .. } = said;
        let Some(topic) = asked.topics.first().filter(|topic| self.is_still_there(topic)) else { return };
        if self.model.lying || self.disk.failed() != asked.errors || self.disk.has_lied_above() {
            return;
        }
        for (number, start, _) in ranges(request, answer) {
            let known =
                self.model.partition(&topic.name, number).filter(|known| self.knows_its_logs(asked, known));
            let (Some(_), Some(start)) = (known, start) else { continue };
            if !self.logs.may_begin_at(&topic.name, number, start) {
                let said = ("the base offset of one of its segments", format!("start {start}"));
                f.broke(Promise::Dense, "start inside a segment", name(&topic.name, number), said, &[]);
            }
        }
    }
}

/// That a partition takes no writes is said where it is so, and nowhere else.
fn fence(f: &mut Findings, what: &str, known: &Partition, listed: &ListedPartition) {
    let (kind, expected, found) = if known.failures.left_it_fenced() && !listed.fenced {
        ("fence not told", "fenced, as the start has said", "it is listed as if it took writes")
    } else if listed.fenced && !has_cause(known, Code::Fenced) {
        (
            "fenced for nothing",
            "not fenced: nothing has failed since the broker started",
            "it is listed as fenced",
        )
    } else if listed.unopened && !known.failures.left_it_fenced() {
        (
            "unopened for nothing",
            "open, as the start has said",
            "it is listed as one that could not be opened",
        )
    } else {
        return;
    };
    f.broke(Promise::Live, kind, what, (expected, found), &[]);
}
