//! P4: what was refused is never read later; what was unknown is there whole, or never.
//!
//! That a read gives a refused record is noticed where reads are judged (P3). Here: the records of one request that went to
//! one partition lie there together. After a crash, or a cut that failed, they may end early, since the log has no frame around them: then what is
//! left is their beginning.

use super::look::name;
use super::model::{Fate, Model, Produced};
use super::{Findings, Promise};
use crate::trace::CallId;

/// All requests with several records, after a look.
pub(super) fn look(f: &mut Findings, model: &Model) {
    for (id, produced) in &model.produced {
        if produced.records.len() > 1 && produced.answered {
            for (topic, partition) in places(model, produced) {
                request(f, model, *id, produced, &topic, partition);
            }
        }
    }
}

fn places(model: &Model, produced: &Produced) -> Vec<(std::sync::Arc<str>, u32)> {
    let mut partitions: Vec<u32> = produced
        .fates
        .iter()
        .filter_map(|fate| match fate {
            Fate::Found(p, _) => Some(*p),
            _ => None,
        })
        .collect();
    partitions.dedup();
    partitions.sort_unstable();
    partitions.dedup();
    let known = model.topics.contains_key(&produced.topic);
    partitions.into_iter().filter(|_| known).map(|p| (produced.topic.clone(), p)).collect()
}

fn request(f: &mut Findings, model: &Model, id: CallId, produced: &Produced, topic: &str, partition: u32) {
    let mut last: Option<u64> = None;
    let mut ended = false;
    let cut_failed = model.partition(topic, partition).is_some_and(|known| known.cut_failed);
    for (index, fate) in produced.fates.iter().enumerate() {
        let found = match fate {
            Fate::Found(p, offset) if *p == partition => Some(*offset),
            // Where a record without a key would have gone is not known.
            Fate::Open if goes_to(model, produced, topic, index) == Some(partition) => None,
            _ => continue,
        };
        let broken = match found {
            Some(offset) => ended || last.is_some_and(|last| offset != last + 1),
            None => last.is_some() && produced.epoch == model.epoch && !cut_failed,
        };
        if broken {
            let what = format!("request {} to {}", id.0, name(topic, partition));
            let expected = "its records lie together, all of them, or from the first on".to_owned();
            let because = [produced.entry, produced.answer];
            f.broke(
                Promise::RefusedAbsent,
                "half there",
                what,
                (expected, format!("record {index} apart")),
                &because,
            );
            return;
        }
        last = found.or(last);
        ended |= found.is_none();
    }
}

/// The partition of a record, where it can be told.
fn goes_to(model: &Model, produced: &Produced, topic: &str, index: usize) -> Option<u32> {
    let count = u32::try_from(model.topics.get(topic)?.partitions.len()).ok()?;
    let key = produced.records[index].key.as_ref();
    produced.partition.or_else(|| key.map(|key| super::p10_routed::partition_of(key, count)))
}
