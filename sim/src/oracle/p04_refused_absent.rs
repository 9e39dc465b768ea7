//! P4: what was refused is never read later; what was unknown is there whole, or never.
//!
//! That a read gives a refused record is noticed where reads are judged (P3). Here: the records of one request that went to
//! one partition lie there together. After a crash, or a cut that failed, they may end early, since the log has no frame around them: then what is
//! left is their beginning.

use super::look::name;
use super::model::{Fate, Model, Produced, RecordId};
use super::{Findings, Promise};
use crate::trace::CallId;

/// All requests with several records, after a look.
pub(super) fn look(f: &mut Findings, model: &mut Model) {
    let several = |(_, produced): &(&CallId, &Produced)| produced.records.len() > 1 && produced.answered;
    let ids: Vec<CallId> = model.produced.iter().filter(several).map(|(id, _)| *id).collect();
    for id in &ids {
        for (topic, partition) in places(model, &model.produced[id]) {
            if apart(model, &model.produced[id], &topic, partition).is_some() {
                tell_apart(model, *id, &topic, partition);
            }
        }
    }
    for id in ids {
        for (topic, partition) in places(model, &model.produced[&id]) {
            let produced = &model.produced[&id];
            if let Some(index) = apart(model, produced, &topic, partition) {
                let what = format!("request {} to {}", id.0, name(&topic, partition));
                let expected = "its records lie together, all of them, or from the first on".to_owned();
                let said = (expected, format!("record {index} apart"));
                f.broke(Promise::RefusedAbsent, "half there", what, said, &[produced.entry, produced.answer]);
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

/// The first record of a request that does not lie where it must.
fn apart(model: &Model, produced: &Produced, topic: &str, partition: u32) -> Option<usize> {
    let mut first: Option<(u64, u64)> = None;
    let mut last: Option<u64> = None;
    let mut ended = false;
    let known = model.partition(topic, partition);
    let cut_failed = known.is_some_and(|known| known.cut_failed);
    // What nobody was promised may have holes after a power loss: what is there lies where it would without them.
    let holes = known.is_some_and(|known| known.shaken && model.was_always) && produced.epoch != model.epoch;
    for (place, index) in (0..).zip(records_to(model, produced, topic, partition)) {
        let found = match produced.fates[index] {
            Fate::Found(_, offset) => Some(offset),
            _ => None,
        };
        let broken = match found {
            Some(offset) if holes => {
                let (from, at) = *first.get_or_insert((offset, place));
                offset.checked_sub(from) != Some(place - at)
            }
            Some(offset) => ended || last.is_some_and(|last| offset != last + 1),
            None => last.is_some() && produced.epoch == model.epoch && !cut_failed,
        };
        if broken {
            return Some(index);
        }
        last = found.or(last);
        ended |= found.is_none();
    }
    None
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

/// Which of several records with the same content lies where, nobody can see. If the request can lie together, it does: all of
/// it in one row, or else its beginning, and what is behind that is another request's.
fn tell_apart(model: &mut Model, call: CallId, topic: &str, partition: u32) {
    let indexes = records_to(model, &model.produced[&call], topic, partition);
    let ids: Vec<RecordId> = indexes.into_iter().map(|index| RecordId { call, index }).collect();
    if let Some(first) = row_for(model, &ids, topic, partition) {
        for (&id, offset) in ids.iter().zip(first..) {
            let there = model.partition(topic, partition).and_then(|known| known.slots.get(&offset));
            if let Some(other) = there.map(|slot| slot.id).filter(|other| *other != id) {
                model.exchange(other, id);
            }
        }
        return;
    }
    let lies_at = |id: &RecordId| match model.produced[&id.call].fates[id.index] {
        Fate::Found(_, offset) => Some((*id, offset)),
        _ => None,
    };
    let mut found: Vec<(RecordId, u64)> = ids.iter().filter_map(lies_at).collect();
    found.sort_by_key(|(_, offset)| *offset);
    if let Some(others) = request_for(model, call, &found, topic, partition) {
        found.iter().map(|(id, _)| *id).zip(others).for_each(|(id, other)| model.exchange(id, other));
        return;
    }
    let mut next = None;
    for (place, id) in ids.into_iter().enumerate() {
        let Fate::Found(_, offset) = model.produced[&id.call].fates[id.index] else { continue };
        if place == 0 || next == Some(offset) {
            next = Some(offset + 1);
        } else if let Some(other) = model.double(id, partition).filter(|other| other.call != call) {
            model.exchange(id, other);
        }
    }
}

/// Another request whose first records could be what was found here, in a row, of which nobody knows what became.
fn request_for(
    model: &Model,
    call: CallId,
    found: &[(RecordId, u64)],
    topic: &str,
    partition: u32,
) -> Option<Vec<RecordId>> {
    let in_a_row = found.windows(2).all(|w| w[0].1 + 1 == w[1].1);
    let mut others = model.produced.iter().filter(|(id, other)| {
        **id != call && *other.topic == *topic && other.fates.iter().all(|fate| *fate == Fate::Open)
    });
    let of = |(id, other): (&CallId, &Produced)| {
        let to = records_to(model, other, topic, partition);
        let ids: Vec<RecordId> = to.into_iter().map(|index| RecordId { call: *id, index }).collect();
        let whole = ids.len() == found.len() || other.epoch != model.epoch;
        let same =
            |(mine, other): (&(RecordId, u64), &RecordId)| model.content(mine.0) == model.content(*other);
        (whole && ids.len() >= found.len() && found.iter().zip(&ids).all(same)).then_some(ids)
    };
    if in_a_row { others.find_map(of) } else { None }
}

/// Where all of these could lie in a row: every slot holds the right content, and a record that gives way leaves none of its own
/// request's behind.
fn row_for(model: &Model, ids: &[RecordId], topic: &str, partition: u32) -> Option<u64> {
    let known = model.partition(topic, partition)?;
    let gives_way = |other: RecordId, row: &std::ops::Range<u64>| {
        let mut fates = model.produced[&other.call].fates.iter();
        fates.all(|fate| !matches!(fate, Fate::Found(p, offset) if *p == partition && !row.contains(offset)))
    };
    let fits = |id: &RecordId, offset: u64, row: &std::ops::Range<u64>| {
        let slot = known.slots.get(&offset).filter(|slot| !slot.acknowledged);
        slot.is_some_and(|slot| {
            let (key, value) = model.content(*id);
            let free = slot.id.call == id.call || gives_way(slot.id, row);
            free && model.has_content(slot.id, key.as_ref(), &value)
        })
    };
    known.slots.keys().copied().find(|first| {
        let row = *first..*first + ids.len() as u64;
        ids.iter().zip(row.clone()).all(|(id, offset)| fits(id, offset, &row))
    })
}

/// The partition of a record, where it can be told.
fn goes_to(model: &Model, produced: &Produced, topic: &str, index: usize) -> Option<u32> {
    let count = u32::try_from(model.topics.get(topic)?.partitions.len()).ok()?;
    let key = produced.records[index].key.as_ref();
    produced.partition.or_else(|| key.map(|key| super::p10_routed::partition_of(key, count)))
}
