//! What timing decides is left out of snapshots. When several clients are at work at once, who comes first depends on every
//! latency, and so does how far each had come when somebody killed the broker: a snapshot that showed it would change with
//! each harmless change of the broker. So the steps in a `parallel`, and later those that see what it left, say only what must
//! be: how many records were acknowledged where all had to be, what was expected and came, and otherwise that [`TIMING`]
//! decides. A topic that one client alone writes to is no race for that client. The trace has all of it (`sim replay FILE
//! --trace`).

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::plan::Node;
use super::say;
use crate::scenario::{Expect, Step};
use crate::trace::{Answer, Placed, Recovered, Seen};

/// What is said of a step whose outcome is open.
pub(super) const TIMING: &str = "→ timing decides";

/// What a race has left open about a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Open {
    /// Which record lies where.
    Order,
    /// How many there are, too.
    Count,
}

/// The races of a run.
#[derive(Debug, Default)]
pub(super) struct Races {
    running: Cell<u32>,
    /// How many of the clients that are at work write to each topic.
    writers: RefCell<BTreeMap<String, u32>>,
    /// Whether one of them makes or deletes topics.
    topics_change: Cell<bool>,
    topics: RefCell<BTreeMap<Arc<str>, Open>>,
}

impl Races {
    /// Several clients begin with these steps.
    pub(super) fn begin(&self, branches: &[Node]) {
        self.running.set(self.running.get() + 1);
        for branch in branches {
            let mut written = BTreeSet::new();
            self.look_ahead(&branch.inside, &mut written);
            let mut writers = self.writers.borrow_mut();
            written.into_iter().for_each(|topic| *writers.entry(topic).or_default() += 1);
        }
    }

    fn look_ahead(&self, nodes: &[Node], written: &mut BTreeSet<String>) {
        for node in nodes {
            match &node.step {
                Step::Produce(produce) => _ = written.insert(produce.topic.clone()),
                Step::Topic(_) | Step::DeleteTopic { .. } => self.topics_change.set(true),
                _ => {}
            }
            self.look_ahead(&node.inside, written);
        }
    }

    /// They are through.
    pub(super) fn end(&self) {
        self.running.set(self.running.get() - 1);
        if !self.running() {
            self.writers.borrow_mut().clear();
            self.topics_change.set(false);
        }
    }

    /// Whether several of the clients that are at work write to this topic.
    fn is_contended(&self, topic: &str) -> bool {
        self.writers.borrow().get(topic).is_some_and(|writers| *writers > 1)
    }

    /// Whether several clients are at work.
    pub(super) fn running(&self) -> bool {
        self.running.get() > 0
    }

    /// A race leaves this open about a topic.
    fn leaves(&self, topic: &str, open: Open) {
        let mut topics = self.topics.borrow_mut();
        let known = topics.entry(topic.into()).or_insert(open);
        *known = (*known).max(open);
    }

    /// Records went to a topic, of which this had to come.
    pub(super) fn wrote(&self, topic: &str, expect: Expect) {
        let certain = !matches!(expect, Expect::Any | Expect::Unknown);
        match (self.running(), certain) {
            (true, false) => self.leaves(topic, Open::Count),
            (true, true) if self.is_contended(topic) => self.leaves(topic, Open::Order),
            _ => {}
        }
    }

    /// A topic was made, and nothing is in it; or deleted, and what goes to it from now on is refused.
    pub(super) fn renewed(&self, topic: &str, deleted: bool) {
        match (self.running(), deleted) {
            (true, true) => self.leaves(topic, Open::Count),
            (true, false) => self.leaves(topic, Open::Order),
            (false, _) => _ = self.topics.borrow_mut().remove(topic),
        }
    }

    /// What is open about a topic.
    pub(super) fn open(&self, topic: &str) -> Option<Open> {
        self.topics.borrow().get(topic).copied()
    }

    /// The most that is open about any topic.
    pub(super) fn most(&self) -> Option<Open> {
        self.topics.borrow().values().max().copied()
    }

    /// What is said of a produce.
    pub(super) fn produced(
        &self,
        topic: &str,
        expect: Expect,
        offset_expected: bool,
        answers: &[(Answer, Option<String>)],
        said: String,
    ) -> String {
        let racing = self.running() && (self.is_contended(topic) || expect != Expect::Ok);
        let open = racing || self.open(topic) == Some(Open::Count);
        if !open || offset_expected {
            return said;
        }
        match expect {
            Expect::Any => TIMING.to_owned(),
            Expect::Unknown => "→ unknown".to_owned(),
            Expect::Ok => format!("→ {} acknowledged", acknowledged(answers)),
            Expect::Refused | Expect::Code(_) => said,
        }
    }

    /// What is said of another request: the words where they say what had to come, or nothing that timing can change.
    pub(super) fn answered(&self, expect: Expect, said: String) -> String {
        if self.running() && expect == Expect::Any { TIMING.to_owned() } else { said }
    }

    /// What is said of a count of things, where there is one that had to come.
    pub(super) fn counted(
        &self,
        topic: Option<&str>,
        count: Option<u32>,
        what: &str,
        said: String,
    ) -> String {
        let open = match topic {
            Some(topic) => self.running() || self.open(topic) == Some(Open::Count),
            None => self.topics_change.get(),
        };
        match count {
            _ if !open => said,
            Some(count) => format!("→ {}", say::count(count.into(), what)),
            None => TIMING.to_owned(),
        }
    }

    /// What is said of a read: these records came, up to `end`.
    pub(super) fn read(
        &self,
        topic: &str,
        (expect, count): (Expect, Option<u64>),
        (records, end): (&[Seen], Option<u64>),
        said: String,
    ) -> String {
        let known = self.open(topic);
        // Of a log that others add to, the records that had to come are certain, and its end is not.
        let certain = known.is_none() && !self.is_contended(topic);
        if self.running() && certain && expect == Expect::Ok && count.is_some_and(|count| count > 0) {
            return say::records(records, "");
        }
        let open = if self.running() { Some(Open::Count) } else { known };
        let records = say::count(records.len() as u64, "record");
        match (open, expect, end) {
            (None, ..) | (_, Expect::Refused | Expect::Code(_), _) => said,
            (Some(Open::Order), Expect::Ok, Some(end)) => format!("→ {records} · end {end}"),
            (Some(Open::Count), Expect::Ok, _) if count.is_some() => format!("→ {records}"),
            (_, Expect::Unknown, _) => "→ unknown".to_owned(),
            _ => TIMING.to_owned(),
        }
    }

    /// What is said of a look-up of which something had to come, or nothing.
    pub(super) fn looked_up(&self, topic: &str, expected: bool, said: String) -> String {
        let open = self.running() || self.open(topic).is_some();
        if open && !expected { TIMING.to_owned() } else { said }
    }

    /// What is said of a start: of partitions about which even the count is open, that they were recovered.
    pub(super) fn recovered(&self, partitions: &[Recovered], notes: &[String]) -> String {
        if self.running() {
            return "started".to_owned();
        }
        let (open, certain): (Vec<&Recovered>, Vec<&Recovered>) =
            partitions.iter().partition(|p| self.open(&p.topic) == Some(Open::Count));
        if open.is_empty() {
            return say::recovered(partitions, notes);
        }
        let mut said: Vec<String> =
            open.iter().map(|p| format!("recovered {}/{}", p.topic, p.partition)).collect();
        if !certain.is_empty() {
            let certain: Vec<Recovered> = certain.into_iter().cloned().collect();
            said.push(say::recovered(&certain, &[]));
        }
        said.join("\n")
    }
}

/// How many records were acknowledged.
fn acknowledged(answers: &[(Answer, Option<String>)]) -> usize {
    let placed = answers.iter().map(|(answer, _)| match answer {
        Answer::Produced(placed) => placed.iter().filter(|p| matches!(p, Placed::At(..))).count(),
        _ => 0,
    });
    placed.sum()
}

#[cfg(test)]
mod tests {
    use crate::scenario::parse;
    use crate::{outcome, snapshot};

    /// Every seed draws other latencies, and so another order of what clients ask at the same time.
    const SCENARIO: &str = r#"
scenario "two clients, a killer, and what they leave"
broker durability=always
net latency="0ms..6ms"
topic orders
topic parcels
topic letters partitions=2
parallel {
    client a {
        produce orders key="a" value="a{n}" count=5
        produce letters key="a" value="{n}" count=3
        list-topics
    }
    client b {
        produce orders key="b" value="b{n}" count=5 batch=2
        fetch letters partition=1 from=0 expect=any
        offsets orders at=latest
        list-partitions orders
        dump
    }
}
consume orders expect-count=10
consume letters expect-count=3
parallel {
    client a {
        produce parcels key="a" value="a{n}" count=9 expect=any
        consume parcels expect=any
    }
    client killer {
        advance "9ms"
        crash
        restart
    }
}
restart
consume parcels expect=any
produce parcels key="k" value="after"
files
"#;

    #[test]
    fn what_is_said_does_not_depend_on_latencies() {
        let scenario = parse("races.kdl", SCENARIO).expect("it can be read");
        let shown = |seed| {
            let outcome = outcome::run(&scenario, seed);
            assert!(outcome.holds(), "{:#?}", outcome.failures);
            (snapshot::render(&outcome), outcome.trace.hash())
        };
        let (first, hash) = shown(0);
        assert!(first.contains("→ 5 acknowledged") && first.contains("recovered parcels/0\n"), "{first}");
        let others: Vec<(String, _)> = (1..6).map(shown).collect();
        assert!(others.iter().any(|(_, other)| *other != hash), "nothing differs between the seeds");
        for (text, _) in others {
            assert_eq!(text, first);
        }
    }
}
