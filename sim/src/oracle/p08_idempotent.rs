//! P8: recovery after a crash during recovery ends in the same bytes; offsets never go back.
//!
//! Each time the broker starts, copies of its files are recovered beside the run: once; once more from what that left; and once
//! after a recovery that was killed before one of its disk operations. All must come to the same, but for the markers of the
//! session itself. That offsets never go back is P2's and P5's.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::model::Model;
use super::paths::{self, InPartition};
use super::{Findings, Promise};
use crate::trace::{Again, Image};

/// What one recovery left, and what the other way left. Where the scenario has damaged files, a recovery that trusts a clean
/// stop may see less than one that does not.
pub(super) fn again(f: &mut Findings, model: &Model, how: Again, once: &Image, other: Result<&Image, &str>) {
    if model.lying && matches!(how, Again::Killed { .. }) {
        // What the killed recovery synced may be gone as well: the next one starts from something else.
        return;
    }
    let other = match other {
        Ok(other) => other,
        Err(why) => {
            return differs(f, how, "start", "the broker starts".into(), format!("it does not: {why}"));
        }
    };
    let (mut once, mut other) = (files(once), files(other));
    for files in [&mut once, &mut other] {
        files.retain(|path, _| !is_left_to_do(model, path));
    }
    // Only the first one can have trusted a clean stop; one that was taken back can be there again on a disk that lies.
    if model.marked || model.lying {
        for files in [&mut once, &mut other] {
            files.retain(|path, _| !is_damaged(model, path));
        }
    }
    for (path, bytes) in &once {
        match other.get(path) {
            None => differs(f, how, path, format!("{} bytes", bytes.len()), "no such file".into()),
            Some(again) if again != bytes => {
                let at = bytes.iter().zip(again.iter()).position(|(a, b)| a != b);
                let at = at.unwrap_or(bytes.len().min(again.len()));
                let found = format!("{} bytes, different from byte {at} on", again.len());
                differs(f, how, path, format!("{} bytes", bytes.len()), found);
            }
            Some(_) => {}
        }
    }
    // A cut that the lights going out have half undone leaves bytes that are no longer those that were set aside before it: they
    // are set aside too.
    let set_aside_again = |path: &str| matches!(how, Again::Killed { .. }) && path.contains(".log.aside-");
    for path in other.keys().filter(|path| !once.contains_key(*path) && !set_aside_again(path)) {
        differs(f, how, path, "no such file".into(), "it is there".into());
    }
}

/// What the system has failed to write back, it tells one of the recoveries, which leaves word of it; the next one does what
/// is to be done, and takes the word away.
fn is_left_to_do(model: &Model, path: &str) -> bool {
    let known = InPartition::of(path).and_then(|of| model.partition(of.topic, of.partition));
    paths::is_mark_of_a_failed_sync(path) && known.is_some_and(|known| known.durable.is_left_to_copy())
}

/// Of a topic that nobody knows of, nobody knows that either.
fn is_damaged(model: &Model, path: &str) -> bool {
    let Some(of) = InPartition::of(path) else { return false };
    let known = model.partition(of.topic, of.partition);
    known.is_none_or(|known| known.harm.may_be_damaged() || !known.indexes.are_trusted())
}

fn files(image: &Image) -> BTreeMap<Arc<str>, Arc<[u8]>> {
    // A replacement that was begun and not finished is nobody's file, and stays.
    let kept = image.0.iter().filter(|f| !paths::is_of_the_session(&f.path) && !f.path.ends_with(".tmp"));
    kept.map(|f| (f.path.clone(), f.bytes.clone())).collect()
}

fn differs(f: &mut Findings, how: Again, path: &str, expected: String, found: String) {
    let (kind, found) = match how {
        Again::Twice => ("second recovery", format!("{found} after a second recovery")),
        Again::Killed { operation } => (
            "killed recovery",
            format!("{found} after a recovery that was killed before operation {operation}"),
        ),
    };
    let expected = format!("{expected}, as after one recovery");
    f.broke(Promise::Idempotent, kind, path, (expected, found), &[]);
}
