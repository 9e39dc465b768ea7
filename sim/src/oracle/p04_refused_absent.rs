//! P4: what was refused is never read later; what was unknown is there whole, or never.
//!
//! That a read gives a refused record is noticed where reads are judged (P3). Here: the records of one request that went to
//! one partition lie there together. After a crash, or a cut that failed, they may end early, since the log has no frame around
//! them: then what is left is their beginning.

use super::look::{Look, name};
use super::model::{Fate, Model, Produced};
use super::rows::{Arranged, arrange, shape};
use super::{Findings, Promise, round_robin};
use crate::trace::{CallId, Image, TopicPartition};

/// All requests with several records, after a look. Where that was disturbed, the rest of a request may only not have been seen.
pub(super) fn look(f: &mut Findings, model: &mut Model, look: &Look) {
    let is_seen = |place: &TopicPartition| look.partitions.get(place).is_none_or(|found| !found.disturbed);
    let several = |(_, produced): &(&CallId, &Produced)| produced.records.len() > 1 && produced.answered;
    let ids: Vec<CallId> = model.produced.iter().filter(several).map(|(id, _)| *id).collect();
    for id in ids {
        for (topic, partition) in places(model, &model.produced[&id]).into_iter().filter(is_seen) {
            // Which of several records with the same content lies where, nobody can see: if requests can lie so that each lies
            // as it must, they do.
            let Some(index) = apart(model, &model.produced[&id], &topic, partition) else { continue };
            if arrange(model, id, &topic, partition) != Arranged::No
                || round_robin::settle(model, id, |m| is_whole(m, id))
                || round_robin::exchange(model, id, is_whole)
            {
                continue;
            }
            let produced = &model.produced[&id];
            let what = format!("request {} to {}", id.0, name(&topic, partition));
            let expected = "its records lie together, all of them, or from the first on".to_owned();
            let said = (expected, format!("record {index} apart"));
            f.broke(Promise::RefusedAbsent, "half there", what, said, &[produced.entry, produced.answer]);
        }
    }
}

/// Whether all of a request lies where it must.
fn is_whole(model: &Model, id: CallId) -> bool {
    let produced = &model.produced[&id];
    let places = places(model, produced);
    places.iter().all(|(topic, partition)| apart(model, produced, topic, *partition).is_none())
}

/// The files that a start has left: a topic whose deletion was acknowledged is not among them.
pub(super) fn deleted(f: &mut Findings, model: &Model, image: &Image) {
    if model.lying {
        return;
    }
    for topic in &model.deleted {
        let dir = format!("{topic}/");
        let first = image.0.partition_point(|file| *file.path < *dir);
        if let Some(file) = image.0.get(first).filter(|file| file.path.starts_with(&dir)) {
            let expected = ("nothing of it: it was deleted", &*file.path);
            f.broke(Promise::RefusedAbsent, "topic back", topic.as_ref(), expected, &[]);
        }
    }
}

fn places(model: &Model, produced: &Produced) -> Vec<TopicPartition> {
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

/// The first record of a request that does not lie where it must.
fn apart(model: &Model, produced: &Produced, topic: &str, partition: u32) -> Option<usize> {
    let known = model.partition(topic, partition)?;
    let shape = shape(model, produced, topic, partition);
    // Where the first of them lies, or would, and what is missing since the last one that is there.
    let mut begin: Option<u64> = None;
    let mut missing: Option<(u64, usize)> = None;
    for (place, index) in (0..).zip(records_to(model, produced, topic, partition)) {
        let Fate::Found(_, offset) = produced.fates[index] else {
            missing = missing.or(Some((place, index)));
            continue;
        };
        let Some(first) = offset.checked_sub(place) else { return Some(index) };
        let in_row = begin.is_none_or(|begin| begin == first);
        let hole = |(from, _)| shape.may_miss && known.slots.range(first + from..offset).next().is_none();
        if !(in_row && missing.is_none_or(hole)) {
            return Some(index);
        }
        (begin, missing) = (Some(first), None);
    }
    missing.filter(|_| begin.is_some() && !shape.may_end).map(|(_, index)| index)
}

/// The records of a request that lie in this partition, or would if they lay anywhere.
fn records_to(model: &Model, produced: &Produced, topic: &str, partition: u32) -> Vec<usize> {
    let here = |index: &usize| match produced.fates[*index] {
        Fate::Found(p, _) => p == partition,
        // Where a record without a key would have gone is not known.
        Fate::Open => goes_to(model, produced, topic, *index) == Some(partition),
        _ => false,
    };
    (0..produced.fates.len()).filter(here).collect()
}

/// The partition of a record, where it can be told.
fn goes_to(model: &Model, produced: &Produced, topic: &str, index: usize) -> Option<u32> {
    let count = u32::try_from(model.topics.get(topic)?.partitions.len()).ok()?;
    if count == 1 {
        return Some(0);
    }
    let key = produced.records[index].key.as_ref();
    produced.partition.or_else(|| key.map(|key| super::p10_routed::partition_of(key, count)))
}
