//! Which request lies where: where several requests hold the same bytes, an assignment of them to what was found in a partition,
//! such that the records of each lie as those of a request must. That is a tiling of the offsets that were found by rows: a
//! request's records in order, all of them, or only as far as a crash let them come.
//!
//! Requests come one after another, and so do their records: laying rows from the lowest offset up and taking requests in the
//! order in which they were made finds the tiling that happened almost without a step back. Where there is none, all others are
//! tried, each state once, and not for ever: what would take longer is as good as not to be told apart.

use std::collections::{BTreeMap, BTreeSet};

use fnv::FnvHashSet;

use super::model::{Content, Fate, Model, Produced, RecordId};
use super::p10_routed::goes_to;
use crate::trace::CallId;

/// States that are looked at before a partition counts as one that nobody can tell apart.
const STATES_MAX: usize = 20_000;

/// How the records of a request may lie in a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Shape {
    /// It may end early: a crash, a cut that failed, or damage has left its beginning.
    pub(super) may_end: bool,
    /// Some may be missing: a power loss, or damage, has left holes. What is there lies where it would without them.
    pub(super) may_miss: bool,
}

/// The shape that this request may have in this partition.
pub(super) fn shape(model: &Model, produced: &Produced, topic: &str, partition: u32) -> Shape {
    let known = model.partition(topic, partition);
    let crashed = produced.epoch != model.epoch;
    let is_cut = known.is_some_and(|known| known.harm.may_keep_a_beginning());
    let has_holes = known.is_some_and(|known| model.may_have_holes(known));
    let is_damaged = known.is_some_and(|known| known.harm.may_be_damaged());
    Shape {
        may_end: crashed || !produced.answered || is_cut || is_damaged,
        may_miss: (crashed && has_holes) || is_damaged,
    }
}

/// What came of looking for another assignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arranged {
    /// All requests lie as they must, now.
    Yes,
    /// However they are laid, one does not.
    No,
    /// Nobody can tell.
    Unclear,
}

/// Looks for another assignment of this request, and of all that could be taken for it or for one another.
pub(super) fn arrange(model: &mut Model, call: CallId, topic: &str, partition: u32) -> Arranged {
    let puzzle = Puzzle::new(model, call, topic, partition);
    let mut laid = Laid::default();
    match puzzle.lay(model, &mut laid, (0, 0)) {
        true => {
            puzzle.write(model, &laid);
            Arranged::Yes
        }
        false if laid.states >= STATES_MAX => Arranged::Unclear,
        false => Arranged::No,
    }
}

/// What is to be assigned.
struct Puzzle<'a> {
    topic: &'a str,
    partition: u32,
    /// The offsets, ascending, and what lies there.
    places: Vec<(u64, Content)>,
    /// The requests, in the order in which they were made.
    requests: Vec<Request>,
    /// Which of the requests hold a content.
    holders: BTreeMap<Content, Vec<usize>>,
}

/// A request, as far as it may lie in this partition.
struct Request {
    call: CallId,
    shape: Shape,
    /// It lies below this offset.
    below: u64,
    /// Each way in which its records can be a row here: those that come to the same have the same number.
    rows: Vec<(usize, Vec<usize>)>,
}

/// An assignment, as far as it has come.
#[derive(Default)]
struct Laid {
    /// By number of the place.
    records: BTreeMap<usize, RecordId>,
    /// By number of the request.
    used: BTreeSet<usize>,
    /// States that lead nowhere.
    dead: FnvHashSet<(usize, u64)>,
    /// What tells states apart: a hash of the places that are taken, and of what the requests in use hold.
    hash: u64,
    states: usize,
}

/// A row: the places that its records take, from one of them on.
type Row = Vec<(usize, RecordId)>;

impl<'a> Puzzle<'a> {
    /// All that could be taken for this request, or for what could be taken for it, and so on.
    fn new(model: &Model, call: CallId, topic: &'a str, partition: u32) -> Self {
        let (mut calls, mut contents) = (BTreeSet::from([call]), BTreeSet::new());
        let mut waiting = vec![call];
        while let Some(call) = waiting.pop() {
            let rows = rows(model, &model.produced[&call], call, topic, partition);
            for index in rows.into_iter().flatten() {
                let content = model.content(RecordId { call, index });
                if contents.contains(&content) {
                    continue;
                }
                for other in model.alike(topic, &content) {
                    let free = matches!(model.fate(*other), Fate::Open | Fate::Found(..));
                    if free && goes_to(model, topic, partition, *other) && calls.insert(other.call) {
                        waiting.push(other.call);
                    }
                }
                contents.insert(content);
            }
        }
        let known = model.partition(topic, partition);
        let slots = known.into_iter().flat_map(|known| &known.slots).filter(|(_, slot)| !slot.acknowledged);
        let places = slots
            .map(|(offset, slot)| (*offset, model.content(slot.id)))
            .filter(|(_, content)| contents.contains(content))
            .collect();
        let mut puzzle = Self { topic, partition, places, requests: Vec::new(), holders: BTreeMap::new() };
        let mut kinds: BTreeMap<(Shape, u64, Vec<Content>), usize> = BTreeMap::new();
        for (number, call) in calls.into_iter().enumerate() {
            let produced = &model.produced[&call];
            let (shape, below) =
                (shape(model, produced, topic, partition), model.below(call, topic, partition));
            let mut numbered = Vec::new();
            for row in rows(model, produced, call, topic, partition) {
                let contents: Vec<Content> =
                    row.iter().map(|index| model.content(RecordId { call, index: *index })).collect();
                for content in contents.iter().collect::<BTreeSet<_>>() {
                    puzzle.holders.entry(content.clone()).or_default().push(number);
                }
                let next = kinds.len();
                numbered.push((*kinds.entry((shape, below, contents)).or_insert(next), row));
            }
            puzzle.requests.push(Request { call, shape, below, rows: numbered });
        }
        puzzle.holders.values_mut().for_each(Vec::dedup);
        puzzle
    }

    /// Lays rows over all places from the first free one on; whether that can be done.
    fn lay(&self, model: &Model, laid: &mut Laid, (from, after): (usize, usize)) -> bool {
        let Some(first) = (from..self.places.len()).find(|place| !laid.records.contains_key(place)) else {
            return true;
        };
        laid.states += 1;
        if laid.states >= STATES_MAX || laid.dead.contains(&(first, laid.hash)) {
            return false;
        }
        let holders = self.holders.get(&self.places[first].1).map_or(&[][..], |holders| holders);
        // Rather one that was made after the one before.
        let from = holders.partition_point(|number| *number < after);
        let mut tried = BTreeSet::new();
        for &number in holders[from..].iter().chain(&holders[..from]) {
            if laid.used.contains(&number) {
                continue;
            }
            let kind = self.requests[number].rows.first().map_or(0, |(kind, _)| *kind);
            for row in self.rows_at(model, laid, first, number, &mut tried) {
                laid.take(number, kind, &row);
                if self.lay(model, laid, (first, number)) {
                    return true;
                }
                laid.give_back(number, kind, &row);
            }
        }
        laid.dead.insert((first, laid.hash));
        false
    }

    /// Each way in which a request can lie so that one of its records is in the first free place: the longest first.
    fn rows_at(
        &self,
        model: &Model,
        laid: &Laid,
        first: usize,
        number: usize,
        tried: &mut BTreeSet<usize>,
    ) -> Vec<Row> {
        let Request { call, shape, rows, .. } = &self.requests[number];
        let wanted = &self.places[first].1;
        let mut found = Vec::new();
        for (kind, indexes) in rows {
            if !tried.insert(*kind) {
                continue;
            }
            let starts = if shape.may_miss { indexes.len() } else { 1 };
            let is_here = |start: &usize| {
                let id = indexes.get(*start).map(|index| RecordId { call: *call, index: *index });
                id.is_some_and(|id| model.has_content(id, wanted.0.as_ref(), &wanted.1))
            };
            for start in (0..starts).filter(is_here) {
                let Some(row) = self.row(model, laid, (first, start), number, indexes) else { continue };
                if row.is_empty() {
                    continue;
                }
                let whole = row.len() == indexes.len();
                if whole || shape.may_end || shape.may_miss {
                    let shortest = if shape.may_end { 1 } else { row.len() };
                    found.extend((shortest..=row.len()).rev().map(|len| row[..len].to_vec()));
                }
            }
        }
        found
    }

    /// The places of a request whose record number `start` lies in the place `first`, as far as they go.
    fn row(
        &self,
        model: &Model,
        laid: &Laid,
        (first, start): (usize, usize),
        number: usize,
        indexes: &[usize],
    ) -> Option<Row> {
        let Request { call, shape, below, .. } = &self.requests[number];
        let known = model.partition(self.topic, self.partition)?;
        let begins = self.places[first].0.checked_sub(start as u64)?;
        // What is missing before it left a hole, and nothing else.
        if (begins..self.places[first].0).any(|offset| known.slots.contains_key(&offset)) {
            return None;
        }
        let mut row = Row::new();
        let mut place = first;
        for (&index, offset) in indexes[start..].iter().zip(self.places[first].0..*below) {
            let id = RecordId { call: *call, index };
            let there = self.places.get(place).filter(|(at, _)| *at == offset);
            match there {
                Some((_, content)) if !laid.records.contains_key(&place) && model.content(id) == *content => {
                    row.push((place, id));
                    place += 1;
                }
                None if shape.may_miss && !known.slots.contains_key(&offset) => {}
                _ => break,
            }
        }
        Some(row)
    }

    /// Tells the model.
    fn write(&self, model: &mut Model, laid: &Laid) {
        let mut left: BTreeSet<RecordId> = BTreeSet::new();
        for (offset, _) in &self.places {
            let slot = model.partition(self.topic, self.partition).and_then(|known| known.slots.get(offset));
            left.extend(slot.map(|slot| slot.id));
        }
        left.into_iter().for_each(|id| model.set_fate(id, Fate::Open));
        for (place, id) in &laid.records {
            let offset = self.places[*place].0;
            model.set_fate(*id, Fate::Found(self.partition, offset));
            let known = model.partition_mut(self.topic, self.partition);
            if let Some(slot) = known.and_then(|known| known.slots.get_mut(&offset)) {
                slot.id = *id;
            }
        }
    }
}

impl Laid {
    fn take(&mut self, number: usize, kind: usize, row: &Row) {
        self.records.extend(row.iter().copied());
        self.used.insert(number);
        self.hash = self.hash.wrapping_add(hash_of(kind, row));
    }

    fn give_back(&mut self, number: usize, kind: usize, row: &Row) {
        for (place, _) in row {
            self.records.remove(place);
        }
        self.used.remove(&number);
        self.hash = self.hash.wrapping_sub(hash_of(kind, row));
    }
}

/// Sums of these tell sets of rows apart, in whatever order they were laid.
fn hash_of(kind: usize, row: &Row) -> u64 {
    let mixed = |n: u64| {
        let n = n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (n ^ (n >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    };
    let places = row.iter().map(|(place, _)| mixed(*place as u64));
    places.fold(mixed(!(kind as u64)), u64::wrapping_add)
}

/// Each way in which what nobody knows of a request can be a row in this partition: one, where it is known what goes there; or
/// every record whose turn it would be, where records go round the partitions.
fn rows(model: &Model, produced: &Produced, call: CallId, topic: &str, partition: u32) -> Vec<Vec<usize>> {
    let may_lie = |index: &usize| {
        let free = match produced.fates[*index] {
            Fate::Open => true,
            Fate::Found(p, _) => p == partition,
            Fate::Acknowledged(..) | Fate::Refused | Fate::Lost => false,
        };
        free && goes_to(model, topic, partition, RecordId { call, index: *index })
    };
    let count = model.topics.get(topic).map_or(1, |topic| topic.partitions.len()).max(1);
    let in_turn =
        |index: &usize| produced.partition.is_none() && produced.records[*index].key.is_none() && count > 1;
    let all: Vec<usize> = (0..produced.fates.len()).filter(may_lie).collect();
    if !all.iter().any(in_turn) {
        return vec![all];
    }
    let turns: Vec<usize> = (0..produced.fates.len()).filter(in_turn).collect();
    let turn = |index: &usize| turns.iter().position(|turn| turn == index);
    let row = |first: usize| {
        all.iter().copied().filter(|index| turn(index).is_none_or(|turn| turn % count == first)).collect()
    };
    (0..count).map(row).collect()
}
