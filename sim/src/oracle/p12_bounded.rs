//! P12: no client can make the broker allocate past its limits, hold its file descriptors, or stop the others.
//!
//! Seen from outside: an answer holds no more bytes than were asked for (or one record), the broker holds no more
//! connections than it says, and when all clients have gone it holds none. That others go on is P11's, and each
//! scenario's own `expect`.

use super::{Findings, Promise};
use crate::trace::Seen;

/// Bytes of a record's header on disk.
const HEADER: u64 = 28;

/// How many connections above the limit may be open at the same time for as long as it takes to tell them.
const REFUSED_MAX: u64 = 65;

/// One answer to a consume.
pub(super) fn answer(f: &mut Findings, what: &str, max_bytes: u32, records: &[Seen]) {
    let bytes: u64 = records
        .iter()
        .map(|r| HEADER + r.key.as_ref().map_or(0, |k| k.len() as u64) + r.value.len() as u64)
        .sum();
    if records.len() > 1 && bytes > u64::from(max_bytes) {
        let expected = format!("at most {max_bytes} bytes, or one record");
        let found = format!("{} records, {bytes} bytes", records.len());
        f.broke(Promise::Bounded, "answer", what, (expected, found), &[]);
    }
}

/// The network's counters at the end of a run.
pub(super) fn connections(f: &mut Findings, limit: u64, most: u64, left: u64) {
    if most > limit + REFUSED_MAX {
        let expected = format!("at most {limit} connections, and {REFUSED_MAX} that are being refused");
        f.broke(Promise::Bounded, "connections", "broker", (expected, most.to_string()), &[]);
    }
    if left > 0 {
        let expected = "no connection is held when all clients have gone";
        f.broke(Promise::Bounded, "connections left", "broker", (expected, left.to_string()), &[]);
    }
}
