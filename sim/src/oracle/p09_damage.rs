//! P9: no acknowledged record behind damage is ever cut; the damage is named.
//!
//! That every record on both sides is still served is P2's look, which calls a loss beside damage by this promise's name.
//! Here: the offset that is damaged is the one that the error names, and nobody is told of damage where there is none.

use broker::error::Code;

use super::look::{PartitionLook, name};
use super::model::Model;
use super::{Findings, Promise};
use crate::trace::Recovered;

/// The errors of a look at one partition.
pub(super) fn look(f: &mut Findings, topic: &str, partition: u32, look: &PartitionLook) {
    if look.disturbed {
        return;
    }
    for (asked, (code, named)) in &look.errors {
        if *code == Code::Corrupt && *named != Some(*asked) {
            let expected = format!("CORRUPT names offset {asked}, which was asked for");
            let found = named.map_or("it names none".to_owned(), |n| format!("it names {n}"));
            f.broke(Promise::Damage, "wrong name", name(topic, partition), (expected, found), &[]);
        }
    }
}

/// What a start says about a partition.
pub(super) fn started(f: &mut Findings, model: &Model, said: &Recovered) {
    let Some(known) = model.partition(&said.topic, said.partition) else { return };
    let reason = known.hurt || known.lied || known.shaken || known.may_fence || model.lying;
    if !reason && !said.damage.is_empty() {
        let found = format!("{} stretches", said.damage.len());
        let expected = "no word of damage: nothing has damaged this partition";
        f.broke(Promise::Damage, "false alarm", name(&said.topic, said.partition), (expected, found), &[]);
    }
}
