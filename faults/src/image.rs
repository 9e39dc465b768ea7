//! What a power loss leaves: the set of legal images of one state, and each image as a value.

use std::sync::OnceLock;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::config::Config;
use crate::disk::Disk;
use crate::fault::Keep;
use crate::hash::Hasher;
use crate::legal::{self, Plan};
use crate::node::{Ino, Node, ROOT};
use crate::state::State;

/// Choices for names may come to the same names: one that is dropped with its directory counts for nothing. So many of
/// them for each image are looked at, to find that there are few images after all.
const NAMES_PER_IMAGE: u128 = 4;

/// The images that a power loss could leave of a disk in one state, numbered from 0.
pub struct Images {
    state: State,
    plan: OnceLock<Plan>,
}

impl Images {
    pub(crate) fn new(state: State) -> Images {
        Images { state, plan: OnceLock::new() }
    }

    pub(crate) fn into_state(self) -> State {
        self.state
    }

    fn plan(&self) -> &Plan {
        self.plan.get_or_init(|| Plan::new(&self.state))
    }

    /// How many choices there are; `u128::MAX` where there are more. Choices that come to the same bytes are mostly
    /// counted once, but not always: [`Image::hash`] tells.
    pub fn count(&self) -> u128 {
        self.plan().count()
    }

    /// [`Images::count`], where that is at most `bound`. What is certain to be far above it is not counted first.
    pub fn count_up_to(&self, bound: u128) -> Option<u128> {
        let planned = self.plan.get().is_some();
        if !planned && Plan::names_exceed(&self.state, bound.saturating_mul(NAMES_PER_IMAGE)) {
            return None;
        }
        Some(self.count()).filter(|count| *count <= bound)
    }

    /// What a power loss leaves that keeps so much. [`Keep::Drawn`] draws from seed 0.
    pub fn keeping(&self, keep: Keep) -> Image {
        let state = match keep {
            // What images have in common is built once.
            Keep::Image(number) => self.plan().nth_round(&self.state, number),
            keep => legal::keep(&self.state, keep, None, &mut ChaCha8Rng::seed_from_u64(0)),
        };
        Image { state }
    }

    /// The image of a number; none from `count` on. What images have in common is built once.
    pub fn nth(&self, index: u128) -> Option<Image> {
        (index < self.count()).then(|| Image { state: self.plan().nth(&self.state, index) })
    }

    /// All of them, in a fixed order. Look at `count` first.
    pub fn all(&self) -> impl Iterator<Item = Image> + '_ {
        (0..self.count()).map(|index| Image { state: self.plan().nth(&self.state, index) })
    }

    /// One of them, drawn from a seed: the same seed draws the same image, and each image can be drawn. Draws favour
    /// what real crashes leave: nothing, everything, what came first, everything but a few holes.
    pub fn draw(&self, seed: u64) -> Image {
        Image { state: legal::draw(&self.state, None, &mut ChaCha8Rng::seed_from_u64(seed)) }
    }

    /// What a crash of the process alone leaves: the cache survives, and what is pending stays pending.
    pub fn process_crash(&self) -> Image {
        Image { state: self.state.clone() }
    }
}

/// A disk as a power loss has left it. Clones, and images of the same history, share what they have in common.
#[derive(Clone)]
pub struct Image {
    state: State,
}

impl Image {
    pub(crate) fn new(state: State) -> Image {
        Image { state }
    }

    /// A disk with this on it, to start a program on.
    pub fn to_disk(&self, config: Config) -> Disk {
        Disk::with_state(config, self.found(config))
    }

    /// What a machine that is started finds, by the rules of a disk like this.
    pub(crate) fn found(&self, config: Config) -> State {
        let mut state = self.state.clone();
        state.set_rules(config.profile, config.lies());
        state.nobody_has_open();
        state
    }

    /// Equal for images in which a program finds the same: files, names, bytes, and errors that nobody was told of yet; the
    /// same on every machine.
    pub fn hash(&self) -> u128 {
        let mut hasher = Hasher::default();
        hash_tree(&self.state, ROOT, &mut hasher);
        hasher.finish()
    }

    /// Whether a program can be told of a failure of the device, though none is aimed at: of one that nobody was told of yet,
    /// or of a sector that cannot be read.
    pub fn is_failing(&self) -> bool {
        let failing = |node: &Node| match node {
            Node::File(file) => !file.bad_sectors.is_empty() || (file.errors > 0 && !file.error_told),
            Node::Dir(_) => false,
        };
        self.state.nodes.values().any(|node| failing(node))
    }

    /// Whether the cache holds as clean what the medium does not have: after a failed sync, or a write that got lost. No sync will
    /// write it, and none says so to whoever was not told of the failure.
    pub fn has_lost_pages(&self) -> bool {
        let lost = |node: &Node| matches!(node, Node::File(file) if !file.differs.is_empty());
        self.state.nodes.values().any(|node| lost(node))
    }

    /// Every file with its bytes, by path; directories end in a slash and have none.
    pub fn files(&self) -> Vec<(String, Vec<u8>)> {
        let mut files = Vec::new();
        list_tree(&self.state, ROOT, "/", &mut |path, node| {
            files.push((path, node.map_or(Vec::new(), |file| file.to_vec())));
        });
        files
    }
}

fn hash_tree(state: &State, dir: Ino, hasher: &mut Hasher) {
    let Some(dir) = state.dir(dir) else { return };
    for (name, ino) in &dir.seen {
        hasher.bytes(name.as_bytes());
        match state.nodes.get(ino).map(|node| &**node) {
            Some(Node::File(file)) => {
                hasher.number(1);
                hasher.wide(file.seen.hash());
                file.bad_sectors.iter().for_each(|sector| hasher.number(*sector));
                if let Some(errno) = file.last_error.filter(|_| !file.error_told) {
                    hasher.number(4);
                    hasher.number(u64::from(errno.0.unsigned_abs()));
                }
            }
            Some(Node::Dir(_)) => {
                hasher.number(2);
                hash_tree(state, *ino, hasher);
            }
            None => hasher.number(0),
        }
    }
    hasher.number(3);
}

/// Visits everything under a directory as processes see it, by path: each file with its content.
pub(crate) fn list_tree(
    state: &State,
    dir: Ino,
    path: &str,
    visit: &mut impl FnMut(String, Option<&crate::content::Content>),
) {
    let Some(dir) = state.dir(dir) else { return };
    for (name, ino) in &dir.seen {
        match state.nodes.get(ino).map(|node| &**node) {
            Some(Node::File(file)) => visit(format!("{path}{name}"), Some(&file.seen)),
            Some(Node::Dir(_)) => {
                let below = format!("{path}{name}/");
                visit(below.clone(), None);
                list_tree(state, *ino, &below, visit);
            }
            None => {}
        }
    }
}

impl std::fmt::Debug for Image {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut map = f.debug_map();
        for (path, bytes) in self.files() {
            map.entry(&path, &format_args!("{} bytes", bytes.len()));
        }
        map.finish()
    }
}
