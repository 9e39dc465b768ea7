//! The oracle: what a trace must not show. It knows nothing of the broker's code; it knows what clients asked and were
//! told, what the disk and the network did, and what lies on the disk, read by a decoder of its own ([`decode`]).
//!
//! | file | is about |
//! | --- | --- |
//! | [`model`] | what was appended where, as far as clients know: acknowledged, refused, unknown; and what may be lost |
//! | [`broker_clock`] | what the broker's clock showed, and when |
//! | `identical_records` | records with the same bytes: which of them lies where |
//! | `rows` | the same, request by request |
//! | `round_robin` | the same, where they go to partitions in turn |
//! | `obstacles`, `answered` | what is in the way of a request; and where nothing is, what must not be missing from its answer |
//! | `disk_errors`, `topic_changes` | what the disk has done to the broker; and which topics are on their way, or leaving |
//! | `lost_names` | which topics a power loss may take, or bring back, since the disk has lied |
//! | `whole_records` | what lay whole in the files before a start, and is there after it |
//! | `rotten_records` | which records rot has taken |
//! | `named_stretches` | the damage that a start names, byte for byte |
//! | `retained` | what retention may take |
//! | [`look`] | one consistent look at a running broker: all offsets, all records, all times |
//! | [`walk`] | goes through a trace, keeps the model, and asks each promise where it can be broken |
//! | `p01_dense` … `p12_bounded` | the promises, one a file |
//! | [`decode`], [`paths`] | the formats, and what the names of files say, read independently of the broker |

mod answered;
pub mod broker_clock;
pub mod decode;
mod disk_errors;
mod identical_records;
pub mod look;
mod lost_names;
pub mod model;
mod named_stretches;
mod obstacles;
mod p01_dense;
mod p02_kept;
mod p03_never_wrong;
mod p04_refused_absent;
mod p05_no_reuse;
mod p06_derived;
mod p07_time;
mod p08_idempotent;
mod p09_damage;
mod p10_routed;
mod p11_live;
mod p12_bounded;
pub mod paths;
mod retained;
mod rotten_records;
mod round_robin;
mod rows;
#[cfg(test)]
mod tests;
mod topic_changes;
pub mod walk;
mod whole_records;

use std::fmt;

pub use p11_live::WITHIN;
pub use walk::judge;

/// The promises. Their numbers are those of the design.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Promise {
    /// P1: offsets are 0, 1, 2 … without gap or repeat; each segment starts where the one before ended.
    Dense = 1,
    /// P2: what was acknowledged is there, within the loss window of the durability mode, and what is left is a prefix.
    Kept,
    /// P3: a read gives the record appended at that offset, or an error.
    NeverWrong,
    /// P4: what was refused is never read later; what was unknown is there whole, or never.
    RefusedAbsent,
    /// P5: an offset that was acknowledged, or read, never comes to name other bytes.
    NoReuse,
    /// P6: every index entry names the exact start of its record; a broken index changes no answer.
    Derived,
    /// P7: "first at or after t" gives the right record for every t.
    Time,
    /// P8: recovery after recovery ends in the same bytes.
    Idempotent,
    /// P9: no acknowledged record behind damage is ever cut; the damage is named.
    Damage,
    /// P10: same key, same partition; per-key order is append order; round robin is even.
    Routed,
    /// P11: once faults stop, produce and consume work again.
    Live,
    /// P12: no client can make the broker go past its limits.
    Bounded,
}

impl Promise {
    /// All of them, in order.
    pub const ALL: [Promise; 12] = [
        Promise::Dense,
        Promise::Kept,
        Promise::NeverWrong,
        Promise::RefusedAbsent,
        Promise::NoReuse,
        Promise::Derived,
        Promise::Time,
        Promise::Idempotent,
        Promise::Damage,
        Promise::Routed,
        Promise::Live,
        Promise::Bounded,
    ];

    /// 1 to 12.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// One word for it.
    pub fn name(self) -> &'static str {
        match self {
            Promise::Dense => "dense",
            Promise::Kept => "kept",
            Promise::NeverWrong => "never wrong",
            Promise::RefusedAbsent => "refused is absent",
            Promise::NoReuse => "no reuse",
            Promise::Derived => "derived",
            Promise::Time => "time",
            Promise::Idempotent => "idempotent",
            Promise::Damage => "damage is not a tail",
            Promise::Routed => "routed",
            Promise::Live => "live",
            Promise::Bounded => "bounded",
        }
    }
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "P{} {}", self.number(), self.name())
    }
}

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Which.
    pub promise: Promise,
    /// Which way of breaking it; shrinking a failure keeps this the same.
    pub kind: &'static str,
    /// What about: a partition, a file, a client.
    pub what: String,
    /// What was expected.
    pub expected: String,
    /// What was found.
    pub found: String,
    /// Where in the trace it shows.
    pub entry: usize,
    /// The entries that explain it: the call that made the record, its answer, the crash.
    pub because: Vec<usize>,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} ({}): {}", self.promise, self.kind, self.what)?;
        writeln!(f, "  expected  {}", self.expected)?;
        write!(f, "  found     {}", self.found)
    }
}

/// What the oracle says about a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Every promise that was broken, in the order of the trace.
    pub broken: Vec<Broken>,
}

impl Verdict {
    /// Whether all promises held.
    pub fn holds(&self) -> bool {
        self.broken.is_empty()
    }
}

/// Where findings go while a trace is walked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Findings {
    /// The entry that is being looked at.
    pub(crate) entry: usize,
    broken: Vec<Broken>,
}

/// One broken promise usually breaks more behind it; these are enough to understand it.
const FINDINGS_MAX: usize = 50;

impl Findings {
    /// Adds a finding at the current entry.
    pub(crate) fn broke(
        &mut self,
        promise: Promise,
        kind: &'static str,
        what: impl Into<String>,
        (expected, found): (impl Into<String>, impl Into<String>),
        because: &[usize],
    ) {
        let what = what.into();
        let is_told = |broken: &Broken| {
            (broken.promise, broken.kind, broken.entry) == (promise, kind, self.entry) && broken.what == what
        };
        if self.broken.len() < FINDINGS_MAX && !self.broken.last().is_some_and(is_told) {
            let (expected, found) = (expected.into(), found.into());
            let because = because.to_vec();
            self.broken.push(Broken { promise, kind, what, expected, found, entry: self.entry, because });
        }
    }

    /// The first of them.
    pub(crate) fn first(&self) -> Option<&Broken> {
        self.broken.first()
    }

    /// Forgets all of them.
    pub(crate) fn clear(&mut self) {
        self.broken.clear();
    }

    fn into_verdict(self) -> Verdict {
        Verdict { broken: self.broken }
    }
}
