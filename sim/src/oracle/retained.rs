//! P2: retention takes no more than it must. The oldest segment of a partition goes while all of them together are over the bytes
//! that are to be kept, and none where nothing is to go. How old a segment is, is left to scenarios: two looks at a clock that
//! jumps decide that.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::look::name;
use super::model::Model;
use super::{Findings, Promise};

/// A broker that serves has removed a log. `logs`: the bytes of all that there were.
pub(super) fn removed(
    f: &mut Findings,
    model: &Model,
    logs: &BTreeMap<Arc<str>, u64>,
    (topic, partition): (&str, u32),
) {
    let Some(known) = model.topics.get(topic).filter(|known| !known.uncertain && !model.lying) else {
        return;
    };
    let Some(log) = known.partitions.get(partition as usize) else { return };
    let keep = known.own.or(model.retention);
    if log.hurt || log.at_odds() || keep.age_ms.is_some() {
        return;
    }
    let dir = format!("{topic}/{partition}/");
    let within = logs.range(Arc::<str>::from(dir.as_str())..).take_while(|(path, _)| path.starts_with(&dir));
    let bytes: u64 = within.map(|(_, bytes)| bytes).sum();
    let (expected, found) = match keep.bytes {
        Some(kept) if bytes > kept => return,
        Some(kept) => {
            (format!("all of it: up to {kept} bytes are kept"), format!("a segment goes of {bytes} bytes"))
        }
        None => ("all of it: nothing is to go".to_owned(), "a segment goes".to_owned()),
    };
    f.broke(Promise::Kept, "removed too soon", name(topic, partition), (expected, found), &[]);
}
