//! Records without a key go round the partitions in turn. Where several of one request have the same bytes, which of them
//! was read in which partition cannot be seen when it is read, and the first guess may put two neighbours into one
//! partition, where only every second record can be. Here they change places, so that each lies where its turn puts it.

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

/// How many records with the same bytes are tried.
const ALIKE_MAX: usize = 100;

/// Where a record of this request and one of another have the same bytes and lie in two partitions, either may be the one that lies
/// in either: they change places where both requests then lie as they must.
pub(super) fn exchange(model: &mut Model, call: CallId, is_right: impl Fn(&Model, CallId) -> bool) -> bool {
    for index in 0..model.produced[&call].records.len() {
        let id = RecordId { call, index };
        let Some(mine) = exchangeable(model, id) else { continue };
        let alike = model.alike(&model.produced[&call].topic, &model.content(id));
        let others: Vec<RecordId> =
            alike.iter().copied().filter(|other| other.call != call).take(ALIKE_MAX).collect();
        for other in others {
            let Some(theirs) = exchangeable(model, other).filter(|theirs| theirs.0 != mine.0) else {
                continue;
            };
            lie_at(model, (id, theirs), (other, mine));
            if is_right(model, call) && is_right(model, other.call) {
                return true;
            }
            lie_at(model, (id, mine), (other, theirs));
        }
    }
    false
}

/// Where a record was found, if nothing but its bytes told which one it is: no key, no partition that was asked for, no answer.
fn exchangeable(model: &Model, id: RecordId) -> Option<(u32, u64)> {
    let produced = &model.produced[&id.call];
    let Fate::Found(partition, offset) = produced.fates[id.index] else { return None };
    let slot = model.partition(&produced.topic, partition)?.slots.get(&offset)?;
    let is_told =
        slot.acknowledged || produced.partition.is_some() || produced.records[id.index].key.is_some();
    (!is_told).then_some((partition, offset))
}

fn lie_at(model: &mut Model, (a, a_at): (RecordId, (u32, u64)), (b, b_at): (RecordId, (u32, u64))) {
    write(model, a.call, &Places::new(), &vec![(a.index, a_at)]);
    write(model, b.call, &Places::new(), &vec![(b.index, b_at)]);
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
