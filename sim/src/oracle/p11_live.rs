//! P11: once faults stop, produce and consume work again within a stated simulated time; a full disk serves reads, and takes
//! writes as soon as there is room.
//!
//! After the last step the executor heals everything (no fault armed, a quick disk with room, descriptors enough, all links up),
//! and then asks every partition to take a record and to give it back, within [`WITHIN`]. A partition that a failing disk has
//! fenced says so and may need one restart; one that has only met a full disk must need none, and to answer nobody needs one.

use std::collections::BTreeMap;
use std::time::Duration;

use broker::error::Code;

use super::look::name;
use super::model::{Model, Partition};
use super::{Findings, Promise};
use crate::scenario::syntax::code_name;
use crate::trace::print::answered;
use crate::trace::{Answer, Placed, Request, TopicPartition};

/// How long, in simulated time, a healed broker may take for one request: who asks waits no longer.
pub const WITHIN: Duration = Duration::from_secs(5);

/// What was seen since everything was healed.
#[derive(Clone, Debug, Default)]
pub(super) struct Liveness {
    healed: bool,
    /// By partition: whether it took a record, whether it gave one, and how the last attempt ended.
    seen: BTreeMap<TopicPartition, Seen>,
    /// What the last look could not look at.
    unseen: Vec<String>,
}

#[derive(Clone, Debug, Default)]
struct Seen {
    took: bool,
    gave: bool,
    last: String,
}

impl Liveness {
    /// Everything is healed now.
    pub(super) fn healed(&mut self) {
        self.healed = true;
    }

    /// An answer came, or none.
    pub(super) fn answer(&mut self, f: &mut Findings, model: &Model, request: &Request, answer: &Answer) {
        if !self.healed {
            return;
        }
        let (topic, partition) = match request {
            Request::Produce { topic, partition: Some(partition), .. } => (topic, *partition),
            Request::Consume { topic, partition, .. } => (topic, *partition),
            _ => return,
        };
        let seen = self.seen.entry((topic.clone(), partition)).or_default();
        seen.last = answered(answer);
        match (request, answer) {
            (Request::Produce { .. }, Answer::Produced(placed)) => {
                seen.took |= placed.iter().all(|p| matches!(p, Placed::At(..)));
            }
            (Request::Consume { .. }, Answer::Fetched { records, .. }) => seen.gave |= !records.is_empty(),
            (_, Answer::Refused { .. } | Answer::Lost { .. }) => {
                let known = model.topics.get(topic).filter(|known| !known.uncertain);
                let known = known.and_then(|known| known.partitions.get(partition as usize));
                known.into_iter().for_each(|known| refused(f, known, &name(topic, partition), answer));
            }
            _ => {}
        }
    }

    /// One of the oracle's own questions was answered, or not. What it is answered by is judged with all that the look finds; not
    /// to answer is as bad there as anywhere, and would keep the rest from being judged.
    pub(super) fn probed(&self, f: &mut Findings, request: &Request, answer: &Answer) {
        let (Request::Consume { topic, partition, .. } | Request::Offsets { topic, partition, .. }) = request
        else {
            return;
        };
        if let (true, Answer::Lost { told: false, why, .. }) = (self.healed, answer) {
            no_answer(f, &name(topic, *partition), why);
        }
    }

    /// The oracle has looked, or could not: at all, or at all of these.
    pub(super) fn looked(&mut self, complete: bool, unseen: &[TopicPartition]) {
        self.unseen = match complete && self.healed {
            true => unseen.iter().map(|(topic, partition)| name(topic, *partition)).collect(),
            false if self.healed => vec!["the broker".to_owned()],
            false => Vec::new(),
        };
    }

    /// The broker could not stop.
    pub(super) fn not_stopped(&self, f: &mut Findings, error: &str) {
        let expected = "a broker that is asked to stop comes to its end";
        f.broke(Promise::Live, "does not stop", "broker", (expected, error), &[]);
    }

    /// The broker could not start.
    pub(super) fn not_started(&self, f: &mut Findings, error: &str) {
        if self.healed {
            let expected = "a broker whose disk is whole again starts";
            f.broke(Promise::Live, "does not start", "broker", (expected, error), &[]);
        }
    }

    /// The run has ended.
    pub(super) fn ended(&self, f: &mut Findings, model: &Model) {
        if !self.healed {
            return;
        }
        for what in &self.unseen {
            let expected =
                ("all of it can be looked at once faults have stopped", "the oracle could not look");
            f.broke(Promise::Live, "could not look", what, expected, &[]);
        }
        for (topic, known) in model.topics.iter().filter(|(_, t)| !t.uncertain) {
            for partition in 0..u32::try_from(known.partitions.len()).unwrap_or(u32::MAX) {
                let seen = self.seen.get(&(topic.clone(), partition)).cloned().unwrap_or_default();
                let expected = "it takes a record and gives it back";
                let at_odds = |p: &Partition| p.failures.left_it_fenced() && p.harm.at_odds();
                let at_odds = model.partition(topic, partition).is_some_and(at_odds);
                let (kind, found) = match (seen.took, seen.gave) {
                    (true, true) => continue,
                    (false, _) if at_odds => continue,
                    (false, _) => ("takes nothing", format!("no produce was acknowledged: {}", seen.last)),
                    (true, false) => ("gives nothing", format!("no record came back: {}", seen.last)),
                };
                f.broke(Promise::Live, kind, name(topic, partition), (expected, found), &[]);
            }
        }
    }
}

/// All is well, and a partition does not do what it is asked: for want of a restart, where the disk has failed under it.
fn refused(f: &mut Findings, known: &Partition, what: &str, answer: &Answer) {
    let excused = known.failures.may_stop_writes() || known.harm.at_odds();
    let (kind, expected, found) = match answer {
        Answer::Lost { told: false, why, .. } => return no_answer(f, what, why),
        _ if excused => return,
        Answer::Refused { code: code @ (Code::Fenced | Code::StorageFull), .. } => (
            "no room for ever",
            "a partition that only met a full disk takes writes as soon as there is room",
            code_name(*code).to_owned(),
        ),
        Answer::Refused { code, message, .. } => (
            "refused when all is well",
            "it works again once faults have stopped",
            format!("{}: {message}", code_name(*code)),
        ),
        answer => ("refused when all is well", "it works again once faults have stopped", answered(answer)),
    };
    f.broke(Promise::Live, kind, what, (expected, found), &[]);
}

fn no_answer(f: &mut Findings, what: &str, why: &str) {
    let expected = "an answer: nothing is in the way any more";
    f.broke(Promise::Live, "no answer", what, (expected, why), &[]);
}
