//! Records without a key go round the partitions in turn. Where several of one request have the same bytes, which of them was read
//! in which partition cannot be seen when it is read, and the first guess may put two neighbours into one partition, where only every
//! second record can be. Here they change places, so that each lies where its turn puts it.

use std::collections::BTreeMap;

use super::model::{Fate, Model, RecordId};
use crate::trace::CallId;

/// Records of a request, and the partition and offset where each lies.
type Places = Vec<(usize, (u32, u64))>;

/// Gives the records of a request, of those with the same bytes, to the places where their turns put them. `is_right`: whether the
/// request then lies as it must. Where no first partition makes it so, all stays as it was.
pub(super) fn settle(model: &mut Model, call: CallId, is_right: impl Fn(&Model) -> bool) -> bool {
    let produced = &model.produced[&call];
    let count = model.topics.get(&produced.topic).map_or(0, |topic| topic.partitions.len());
    if produced.partition.is_some() || count < 2 {
        return false;
    }
    let in_turn: Vec<usize> =
        (0..produced.records.len()).filter(|index| produced.records[*index].key.is_none()).collect();
    let place = |index: usize| match produced.fates[index] {
        Fate::Found(partition, offset) => Some((index, (partition, offset))),
        _ => None,
    };
    let before: Places = in_turn.iter().filter_map(|index| place(*index)).collect();
    for first in 0..count {
        if let Some(after) = by_turn(model, call, &in_turn, &before, (first, count)) {
            write(model, call, &before, &after);
            if is_right(model) {
                return true;
            }
            write(model, call, &after, &before);
        }
    }
    false
}

/// Who lies where, where the first of the records went to the partition `first` of `count`.
fn by_turn(
    model: &Model,
    call: CallId,
    in_turn: &[usize],
    before: &Places,
    (first, count): (usize, usize),
) -> Option<Places> {
    let mut free: BTreeMap<usize, usize> = in_turn.iter().copied().zip(first..).collect();
    let mut places: Vec<((u32, u64), usize)> = before.iter().map(|(index, place)| (*place, *index)).collect();
    places.sort_unstable();
    let mut after = Places::new();
    for (place, reader) in places {
        let content = model.content(RecordId { call, index: reader });
        let fits = |(index, turn): &(&usize, &usize)| {
            **turn % count == place.0 as usize && model.content(RecordId { call, index: **index }) == content
        };
        let index = free.iter().find(fits).map(|(index, _)| *index)?;
        free.remove(&index);
        after.push((index, place));
    }
    Some(after)
}

fn write(model: &mut Model, call: CallId, before: &Places, after: &Places) {
    let Some(topic) = model.produced.get(&call).map(|produced| produced.topic.clone()) else { return };
    for (index, _) in before {
        model.set_fate(RecordId { call, index: *index }, Fate::Open);
    }
    for (index, (partition, offset)) in after {
        let id = RecordId { call, index: *index };
        model.set_fate(id, Fate::Found(*partition, *offset));
        let known = model.partition_mut(&topic, *partition);
        if let Some(slot) = known.and_then(|known| known.slots.get_mut(offset)) {
            slot.id = id;
        }
    }
}
