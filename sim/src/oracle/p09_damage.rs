//! P9: no acknowledged record behind damage is ever cut; the damage is named.
//!
//! That every record on both sides is still served is P2's look, which calls a loss beside damage by this promise's name.
//! Here: the offset that is damaged is the one that the error names, whoever goes on where it says comes further, and nobody is told
//! of damage where there is none. Which bytes a start names is the business of [`super::named_stretches`].

use broker::error::Code;

use super::look::{PartitionLook, name};
use super::model::Model;
use super::{Findings, Promise, p02_kept};
use crate::trace::{Image, Recovered};

/// The errors of a look at one partition.
pub(super) fn look(
    f: &mut Findings,
    (topic, partition): (&str, u32),
    look: &PartitionLook,
    image: Option<&Image>,
) {
    if look.disturbed {
        return;
    }
    for (asked, (code, named)) in &look.errors {
        if *code == Code::Corrupt && *named != Some(*asked) {
            let expected = format!("CORRUPT names offset {asked}, which was asked for");
            let found = named.map_or("it names none".to_owned(), |n| format!("it names {n}"));
            f.broke(Promise::Damage, "wrong name", name(topic, partition), (expected, found), &[]);
        }
        if let Some(next) = look.holes.get(asked).filter(|next| *next <= asked) {
            let expected = format!("CORRUPT names an offset behind {asked} that can be read");
            let found = format!("it names {next}");
            f.broke(Promise::Damage, "leads nowhere", name(topic, partition), (expected, found), &[]);
        }
        if *code == Code::OffsetOutOfRange && look.ranged && (look.start..look.end).contains(asked) {
            let expected =
                format!("{asked} is within {} to {}: a record, or what is damaged", look.start, look.end);
            let found = "it is said to be out of range";
            f.broke(Promise::Damage, "not named", name(topic, partition), (expected, found), &[]);
        }
    }
    for (asked, next) in &look.holes {
        let behind = asked.saturating_add(1)..(*next).max(asked.saturating_add(1));
        let is_clear = |offset: &&u64| !p02_kept::is_hidden(image, topic, partition, **offset);
        if let Some(offset) = look.records.range(behind).map(|(offset, _)| offset).find(is_clear) {
            let expected = format!("offset {offset}, the first behind {asked} that can be read");
            let found = format!("CORRUPT names {next}");
            f.broke(Promise::Damage, "record passed over", name(topic, partition), (expected, found), &[]);
        }
    }
}

/// What a start says about a partition.
pub(super) fn started(f: &mut Findings, model: &Model, said: &Recovered) {
    let Some(known) = model.partition(&said.topic, said.partition) else { return };
    let damaged = known.harm.may_be_damaged() || known.failures.allow_a_fence();
    let reason = damaged || model.may_have_holes(known) || model.lying;
    // What there is was seen or named, and since then nothing can have damaged more.
    let is_known = |(_, _, _, from, to): &&(String, u64, u64, u64, u64)| {
        reason && known.last_seen.explains_damage(*from, *to)
    };
    if let Some((file, at, ..)) = said.damage.iter().find(|stretch| !is_known(stretch)) {
        let found = format!("damage in {file} at byte {at}");
        let expected = "no word of it: nothing has damaged this partition there";
        f.broke(Promise::Damage, "false alarm", name(&said.topic, said.partition), (expected, found), &[]);
    }
}
