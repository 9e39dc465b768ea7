//! P11: once faults stop, produce and consume work again within a stated simulated time; a full disk serves reads, and takes
//! writes as soon as there is room.
//!
//! After the last step the executor heals everything (no fault armed, room on the disk, all links up), and then asks every
//! partition to take a record and to give it back. A partition that a failing disk has fenced says so and may need one
//! restart; one that has only met a full disk must need none.

use std::collections::BTreeMap;
use std::sync::Arc;

use broker::error::Code;

use super::look::name;
use super::model::{Model, Partition};
use super::{Findings, Promise};
use crate::trace::{Answer, Millis, Placed, Request};

/// How long, in simulated time, a healed broker may take for one request.
pub const WITHIN_MS: Millis = 5_000;

/// What was seen since everything was healed.
#[derive(Clone, Debug, Default)]
pub(super) struct Liveness {
    healed: bool,
    /// By partition: whether it took a record, whether it gave one, and how the last attempt ended.
    seen: BTreeMap<(Arc<str>, u32), Seen>,
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

    /// An answer came.
    pub(super) fn answer(
        &mut self,
        f: &mut Findings,
        model: &Model,
        request: &Request,
        answer: &Answer,
        took: Millis,
    ) {
        if !self.healed {
            return;
        }
        let (topic, partition) = match request {
            Request::Produce { topic, partition: Some(partition), .. } => (topic, *partition),
            Request::Consume { topic, partition, .. } => (topic, *partition),
            _ => return,
        };
        let seen = self.seen.entry((topic.clone(), partition)).or_default();
        seen.last = format!("{answer:?}").chars().take(200).collect();
        let in_time = took <= WITHIN_MS;
        match (request, answer) {
            (Request::Produce { .. }, Answer::Produced(placed)) => {
                seen.took |= placed.iter().all(|p| matches!(p, Placed::At(..))) && in_time;
            }
            (Request::Produce { .. }, Answer::Refused { code: error, .. }) => {
                let may_fence = model.partition(topic, partition).is_none_or(|p| p.may_fence);
                let needless = matches!(error, Code::Fenced | Code::StorageFull);
                if needless && !may_fence {
                    let expected =
                        "a partition that only met a full disk takes writes as soon as there is room";
                    let found = format!("{error:?}");
                    f.broke(
                        Promise::Live,
                        "no room for ever",
                        name(topic, partition),
                        (expected, found),
                        &[],
                    );
                }
            }
            (Request::Consume { .. }, Answer::Fetched { records, .. }) => {
                seen.gave |= !records.is_empty() && in_time;
            }
            _ => {}
        }
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
        for (topic, known) in model.topics.iter().filter(|(_, t)| !t.uncertain) {
            for partition in 0..u32::try_from(known.partitions.len()).unwrap_or(u32::MAX) {
                let seen = self.seen.get(&(topic.clone(), partition)).cloned().unwrap_or_default();
                let expected = "it takes a record and gives it back";
                let at_odds = |p: &Partition| p.fenced && p.at_odds();
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
