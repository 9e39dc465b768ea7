//! Which images a power loss may leave: every one of them by number, or one at random.
//!
//! An image is one choice for the names ([`names`]) and one for the data of each file that a name leads to and that has
//! anything pending ([`data`]). Both depend on the profile; the crate page says how, and why.

pub(crate) mod data;
pub(crate) mod names;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::fault::Keep;
use crate::node::{Ino, Node, Seq};
use crate::state::State;
use data::FilePlan;
use names::{NameChoices, Tree};

/// More name choices than this are not gone through one by one to find those that come to the same.
const EXACT_TREES: u128 = 4096;

/// The legal images of a state, numbered.
pub(crate) struct Plan {
    names: NameChoices,
    files: BTreeMap<Ino, FilePlan>,
    /// The distinct trees of names, each with the number of images before it; none where there are too many.
    trees: Option<Vec<(u128, Tree)>>,
    count: u128,
}

impl Plan {
    pub(crate) fn new(state: &State) -> Plan {
        let names = NameChoices::new(state);
        let files: BTreeMap<Ino, FilePlan> = state
            .dirty_files
            .iter()
            .filter_map(|ino| Some((*ino, FilePlan::new(state.file(*ino)?, state.profile))))
            .collect();
        if names.count() > EXACT_TREES {
            let each = files.values().fold(names.count(), |all, file| all.saturating_mul(file.count()));
            return Plan { names, files, trees: None, count: each };
        }
        let (mut trees, mut count, mut known) = (Vec::new(), 0_u128, BTreeSet::new());
        for index in 0..names.count() {
            let tree = Tree::new(state, &names.nth(index));
            if known.insert(tree.hash()) {
                let images = tree.pending.iter().map(|(ino, _)| files.get(ino).map_or(1, FilePlan::count));
                let images = images.fold(1_u128, u128::saturating_mul);
                trees.push((count, tree));
                count = count.saturating_add(images);
            }
        }
        Plan { names, files, trees: Some(trees), count }
    }

    pub(crate) fn count(&self) -> u128 {
        self.count
    }

    /// Whether there are more choices for the names alone than this; known without going through them.
    pub(crate) fn names_exceed(state: &State, bound: u128) -> bool {
        NameChoices::new(state).count() > bound
    }

    /// The image of a number below `count`.
    pub(crate) fn nth(&self, state: &State, index: u128) -> State {
        match &self.trees {
            Some(trees) => {
                let which = trees.partition_point(|(before, _)| *before <= index) - 1;
                let (before, tree) = &trees[which];
                self.fill(state, tree, index - before)
            }
            None => {
                let tree = Tree::new(state, &self.names.nth(index % self.names.count()));
                self.fill(state, &tree, index / self.names.count())
            }
        }
    }

    /// The image of a number, counted round where there are fewer.
    pub(crate) fn nth_round(&self, state: &State, number: u64) -> State {
        self.nth(state, u128::from(number) % self.count.max(1))
    }

    fn fill(&self, state: &State, tree: &Tree, mut index: u128) -> State {
        let mut nodes = tree.nodes.clone();
        for (ino, links) in &tree.pending {
            let Some(file) = state.file(*ino) else { continue };
            let node = match self.files.get(ino) {
                Some(plan) => {
                    let own = index % plan.count();
                    index /= plan.count();
                    plan.node(file, own, *links)
                }
                None => data::settled(file, file.durable.clone(), *links),
            };
            nodes.insert(*ino, node);
        }
        state.settled(nodes)
    }
}

/// How a draw chooses. Choosing each sector by itself would hardly ever keep everything, nothing, or what came first,
/// and those are the images that real crashes leave; each style can be met, and [`Style::Mixed`] reaches every image.
#[derive(Clone, Copy)]
pub(crate) enum Style {
    /// Nothing that was pending is kept.
    Nothing,
    /// Everything is.
    Everything,
    /// What was asked for up to a moment is.
    Until(Seq),
    /// Nearly everything is.
    Holes,
    /// Each thing is, or is not.
    Mixed,
}

impl Style {
    fn draw(moment: Seq, rng: &mut impl Rng) -> Style {
        match rng.random_range(0..8) {
            0 => Style::Nothing,
            1 => Style::Everything,
            2 | 3 => Style::Until(moment),
            4 | 5 => Style::Holes,
            _ => Style::Mixed,
        }
    }

    /// Which of `versions` (by the time each came to be, the first being what is durable) is kept.
    pub(crate) fn pick(self, versions: &[Seq], rng: &mut impl Rng) -> usize {
        let last = versions.len() - 1;
        match self {
            Style::Nothing => 0,
            Style::Everything => last,
            Style::Until(moment) => versions.partition_point(|seq| *seq <= moment).saturating_sub(1),
            Style::Holes if rng.random_range(0..8) != 0 => last,
            Style::Holes | Style::Mixed => rng.random_range(0..=last),
        }
    }
}

/// Bytes of a file that the last change to it wrote, and that are on the medium, whatever else is.
pub(crate) struct Certain {
    pub(crate) ino: Ino,
    pub(crate) bytes: Range<u64>,
}

/// One legal image.
pub(crate) fn draw(state: &State, certain: Option<&Certain>, rng: &mut impl Rng) -> State {
    let moment = rng.random_range(earliest(state)..=state.seq);
    let styles = (Style::draw(moment, rng), Style::draw(moment, rng));
    build(state, styles, certain, rng)
}

/// As little, or as much, as is legal; or a draw. A choice that says all of what is left leaves nothing to be said of what is
/// certain.
pub(crate) fn keep(state: &State, keep: Keep, certain: Option<&Certain>, rng: &mut impl Rng) -> State {
    match keep {
        Keep::Drawn => draw(state, certain, rng),
        Keep::Nothing => build(state, (Style::Nothing, Style::Nothing), certain, rng),
        Keep::Everything => build(state, (Style::Everything, Style::Everything), certain, rng),
        Keep::Names => build(state, (Style::Everything, Style::Nothing), certain, rng),
        Keep::Data => build(state, (Style::Nothing, Style::Everything), certain, rng),
        Keep::Image(number) => Plan::new(state).nth_round(state, number),
        Keep::Draw(seed) => draw(state, None, &mut ChaCha8Rng::seed_from_u64(seed)),
    }
}

fn build(
    state: &State,
    (for_names, for_data): (Style, Style),
    certain: Option<&Certain>,
    rng: &mut impl Rng,
) -> State {
    let tree = Tree::new(state, &names::draw(state, for_names, rng));
    let mut nodes = tree.nodes.clone();
    for (ino, links) in &tree.pending {
        if let Some(file) = state.file(*ino) {
            let certain = certain.filter(|certain| certain.ino == *ino).map(|certain| &certain.bytes);
            let content = data::draw(file, state.profile, for_data, certain, rng);
            nodes.insert(*ino, data::settled(file, content, *links));
        }
    }
    state.settled(nodes)
}

/// When the first thing that is pending was asked for.
fn earliest(state: &State) -> Seq {
    let names = state.dirty_dirs.iter().filter_map(|ino| state.dir(*ino)?.log.first().map(|op| op.seq));
    let data = state.dirty_files.iter().filter_map(|ino| state.file(*ino)?.log.first().map(|op| op.seq));
    names.chain(data).min().unwrap_or(state.seq).saturating_sub(1)
}

/// A shared inode.
pub(crate) type Shared = Arc<Node>;
