//! Which names a power loss may leave.
//!
//! Without a journal each entry of a directory is by itself: any of the things it pointed to since it was last durable.
//! With one, the operations on names survive in the order in which they were asked for, a rename whole or not at all.

use std::collections::BTreeMap;
use std::sync::Arc;

use rand::Rng;

use crate::hash::Hasher;
use crate::legal::{Shared, Style, data};
use crate::node::{DirNode, Ino, Name, Node, ROOT, Seq, set_entry};
use crate::state::State;

/// What became of the pending names.
pub(crate) enum Names {
    /// Everything up to then is kept, and nothing after.
    Until(Seq),
    /// Of each pending entry, what it points to.
    Each(BTreeMap<(Ino, Name), Option<Ino>>),
}

/// An entry with changes pending: what it pointed to, one after the other, and since when.
struct Slot {
    dir: Ino,
    name: Name,
    targets: Vec<(Seq, Option<Ino>)>,
}

/// The choices there are.
pub(crate) enum NameChoices {
    Journal(Vec<Seq>),
    Slots(Vec<SlotTargets>),
}

/// An entry, and the different things it may point to.
pub(crate) struct SlotTargets {
    dir: Ino,
    name: Name,
    targets: Vec<Option<Ino>>,
}

impl NameChoices {
    pub(crate) fn new(state: &State) -> NameChoices {
        if state.profile.journals() {
            return NameChoices::Journal(journal(state));
        }
        let distinct = |slot: Slot| {
            let mut targets: Vec<Option<Ino>> = Vec::new();
            for (_, target) in slot.targets {
                if !targets.contains(&target) {
                    targets.push(target);
                }
            }
            SlotTargets { dir: slot.dir, name: slot.name, targets }
        };
        NameChoices::Slots(
            slots(state).into_iter().map(distinct).filter(|slot| slot.targets.len() > 1).collect(),
        )
    }

    pub(crate) fn count(&self) -> u128 {
        match self {
            NameChoices::Journal(moments) => moments.len() as u128,
            NameChoices::Slots(slots) => {
                slots.iter().fold(1, |all, slot| all.saturating_mul(slot.targets.len() as u128))
            }
        }
    }

    pub(crate) fn nth(&self, mut index: u128) -> Names {
        match self {
            NameChoices::Journal(moments) => Names::Until(moments[crate::content::ix128(index)]),
            NameChoices::Slots(slots) => {
                let choose = |slot: &SlotTargets| {
                    let ways = slot.targets.len() as u128;
                    let target = slot.targets[crate::content::ix128(index % ways)];
                    index /= ways;
                    ((slot.dir, slot.name.clone()), target)
                };
                Names::Each(slots.iter().map(choose).collect())
            }
        }
    }
}

/// The moments at which the journal may end: before everything that is pending, and after each of it.
fn journal(state: &State) -> Vec<Seq> {
    let pending = state.dirty_dirs.iter().filter_map(|ino| state.dir(*ino)).flat_map(|dir| &dir.log);
    let mut moments: Vec<Seq> = pending.map(|op| op.seq).collect();
    moments.sort_unstable();
    moments.dedup();
    moments.insert(0, 0);
    moments
}

fn slots(state: &State) -> Vec<Slot> {
    let mut slots = Vec::new();
    for (ino, dir) in state.dirty_dirs.iter().filter_map(|ino| Some((*ino, state.dir(*ino)?))) {
        let mut here: BTreeMap<&Name, Vec<(Seq, Option<Ino>)>> = BTreeMap::new();
        for op in &dir.log {
            let targets =
                here.entry(&op.name).or_insert_with(|| vec![(0, dir.durable.get(&op.name).copied())]);
            targets.push((op.seq, op.target));
        }
        slots.extend(here.into_iter().map(|(name, targets)| Slot { dir: ino, name: name.clone(), targets }));
    }
    slots
}

/// One choice at random.
pub(crate) fn draw(state: &State, style: Style, rng: &mut impl Rng) -> Names {
    if state.profile.journals() {
        let moments = journal(state);
        return Names::Until(moments[style.pick(&moments, rng)]);
    }
    let choose = |slot: Slot| {
        let since: Vec<Seq> = slot.targets.iter().map(|(seq, _)| *seq).collect();
        let (_, target) = slot.targets[style.pick(&since, rng)];
        ((slot.dir, slot.name), target)
    };
    Names::Each(slots(state).into_iter().map(choose).collect())
}

/// A tree of names with every inode that they lead to; the files that have something pending are still to be filled in.
pub(crate) struct Tree {
    pub(crate) nodes: BTreeMap<Ino, Shared>,
    /// Files whose data is not settled, with the number of names each has.
    pub(crate) pending: Vec<(Ino, u32)>,
}

impl Tree {
    pub(crate) fn new(state: &State, names: &Names) -> Tree {
        let mut tree = Tree { nodes: BTreeMap::new(), pending: Vec::new() };
        let mut links: BTreeMap<Ino, u32> = BTreeMap::new();
        let mut todo = vec![(ROOT, ROOT)];
        while let Some((ino, parent)) = todo.pop() {
            let Some(dir) = state.dir(ino) else { continue };
            let mut entries = entries(dir, ino, names);
            entries.retain(|_, child| match state.nodes.get(child).map(|node| &**node) {
                Some(Node::File(_)) => {
                    *links.entry(*child).or_default() += 1;
                    true
                }
                // A directory has one name: a repair keeps the first it meets.
                Some(Node::Dir(_)) => {
                    let new =
                        !tree.nodes.contains_key(child) && !todo.iter().any(|(known, _)| known == child);
                    if new {
                        todo.push((*child, ino));
                    }
                    new
                }
                None => false,
            });
            let dir = DirNode { seen: entries.clone(), durable: entries, log: Vec::new(), parent };
            tree.nodes.insert(ino, Arc::new(Node::Dir(dir)));
        }
        tree.add_files(state, &links);
        tree
    }

    fn add_files(&mut self, state: &State, links: &BTreeMap<Ino, u32>) {
        for (ino, links) in links {
            let Some(file) = state.file(*ino) else { continue };
            if !file.log.is_empty() {
                self.pending.push((*ino, *links));
            } else if file.is_settled() && file.links == *links {
                self.nodes.extend(state.nodes.get(ino).map(|node| (*ino, node.clone())));
            } else {
                self.nodes.insert(*ino, data::settled(file, file.durable.clone(), *links));
            }
        }
    }

    /// Equal for trees of the same names, leading to the same inodes.
    pub(crate) fn hash(&self) -> u128 {
        let mut hasher = Hasher::default();
        for (ino, node) in &self.nodes {
            if let Node::Dir(dir) = &**node {
                hasher.number(*ino);
                for (name, child) in &dir.seen {
                    hasher.bytes(name.as_bytes());
                    hasher.number(*child);
                }
            }
        }
        hasher.finish()
    }
}

/// What a directory holds under a choice.
fn entries(dir: &DirNode, ino: Ino, names: &Names) -> BTreeMap<Name, Ino> {
    let mut entries = dir.durable.clone();
    match names {
        Names::Until(moment) => {
            for op in dir.log.iter().take_while(|op| op.seq <= *moment) {
                set_entry(&mut entries, &op.name, op.target);
            }
        }
        Names::Each(targets) => {
            for op in &dir.log {
                if let Some(target) = targets.get(&(ino, op.name.clone())) {
                    set_entry(&mut entries, &op.name, *target);
                }
            }
        }
    }
    entries
}
