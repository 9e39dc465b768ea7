//! Which images a power loss may leave.

use std::collections::BTreeMap;
use std::sync::Arc;

use rand::{Rng, RngExt};

use crate::node::{DirNode, FileNode, Ino, Node, ROOT, set_entry};
use crate::state::State;

/// One legal image.
pub(crate) fn draw(state: &State, rng: &mut impl Rng) -> State {
    let mut nodes: BTreeMap<Ino, Arc<Node>> = BTreeMap::new();
    let mut todo = vec![(ROOT, ROOT)];
    let cut = rng.random_range(0..=state.seq);
    while let Some((ino, parent)) = todo.pop() {
        match state.nodes.get(&ino).map(|n| &**n) {
            Some(Node::Dir(dir)) => {
                let mut entries = dir.durable.clone();
                for op in dir.log.iter().take_while(|op| op.seq <= cut) {
                    set_entry(&mut entries, &op.name, op.target);
                }
                todo.extend(entries.values().map(|child| (*child, ino)));
                let dir = DirNode { seen: entries.clone(), durable: entries, log: Vec::new(), parent };
                nodes.insert(ino, Arc::new(Node::Dir(dir)));
            }
            Some(Node::File(file)) => {
                let mut content = file.durable.clone();
                for op in file.log.iter().take_while(|op| op.seq <= cut) {
                    op.apply(&mut content);
                }
                let mut node = FileNode::settled(content);
                node.bad_sectors = file.bad_sectors.clone();
                node.links = 1;
                nodes.insert(ino, Arc::new(Node::File(node)));
            }
            None => {}
        }
    }
    state.settled(nodes)
}
