//! Which lengths and bytes a power loss may leave of a file.
//!
//! Where data may come in any order, the length is any that the file had since it was last durable, and of each sector
//! any content that it had. Where data comes before length, that holds only for bytes that were on the medium before and
//! were never cut off; all bytes behind those are as they were at the moment that the length is from.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use rand::Rng;

use crate::content::{Content, PAGE, SECTOR, ix, ix128, pieces};
use crate::legal::{Shared, Style};
use crate::node::{DataChange, DataOp, FileNode, Node, Seq};
use crate::profile::Profile;

/// A length that a file may be left with.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Length {
    len: u64,
    /// When the file had it.
    seq: Seq,
    /// How many of the pending operations were done by then.
    done: usize,
    /// Of the next one, a write, everything below this position was: a length moves page by page.
    partly: u64,
}

/// What may happen to one file with something pending.
pub(crate) struct FilePlan {
    /// Where bytes begin that follow the length instead of coming in any order.
    ordered_from: u64,
    lengths: Vec<(Length, u128)>,
    sectors: Vec<Sector>,
    count: u128,
    /// The images of the file that were built already; empty where there are too many to keep.
    nodes: Vec<OnceLock<Shared>>,
}

/// A sector with writes pending, and the different contents it may have: after how many operations, and which.
struct Sector {
    number: u64,
    versions: Vec<(usize, [u8; ix(SECTOR)])>,
}

/// More images of one file than this are built anew each time.
const KEPT_NODES: u128 = 4096;

impl FilePlan {
    pub(crate) fn new(file: &FileNode, profile: Profile) -> FilePlan {
        let ordered_from = ordered_from(file, profile);
        let sectors: Vec<Sector> = touches(file, ordered_from)
            .into_iter()
            .map(|(number, ops)| Sector::new(file, number, &ops, ordered_from))
            .filter(|sector| sector.versions.len() > 1)
            .collect();
        let mut plan = FilePlan { ordered_from, lengths: Vec::new(), sectors, count: 0, nodes: Vec::new() };
        for length in lengths(file, ordered_from) {
            let ways = plan.visible(length.len).map(|(_, versions)| versions.len() as u128);
            let ways = ways.fold(1, u128::saturating_mul);
            plan.lengths.push((length, ways));
            plan.count = plan.count.saturating_add(ways);
        }
        if plan.count <= KEPT_NODES {
            plan.nodes.resize_with(ix128(plan.count), OnceLock::new);
        }
        plan
    }

    pub(crate) fn count(&self) -> u128 {
        self.count
    }

    /// The sectors of which something is seen below a length, and after how many operations each may be seen.
    fn visible(&self, len: u64) -> impl Iterator<Item = (u64, Vec<usize>)> + '_ {
        let below = self.sectors.partition_point(|sector| sector.number * SECTOR < len);
        self.sectors[..below].iter().map(move |sector| {
            let seen = ix(SECTOR.min(len - sector.number * SECTOR));
            let mut distinct: Vec<&(usize, [u8; ix(SECTOR)])> = Vec::new();
            for version in &sector.versions {
                if seen == ix(SECTOR) || !distinct.iter().any(|known| known.1[..seen] == version.1[..seen]) {
                    distinct.push(version);
                }
            }
            (sector.number, distinct.into_iter().map(|(done, _)| *done).collect())
        })
    }

    /// The file as the choice of this number leaves it.
    pub(crate) fn node(&self, file: &FileNode, index: u128, links: u32) -> Shared {
        let build = || settled(file, self.content(file, index), links);
        match self.nodes.get(usize::try_from(index).unwrap_or(usize::MAX)) {
            Some(kept) => {
                let node = kept.get_or_init(build);
                match &**node {
                    Node::File(known) if known.links != links => build(),
                    _ => node.clone(),
                }
            }
            None => build(),
        }
    }

    fn content(&self, file: &FileNode, mut index: u128) -> Content {
        let mut chosen = self.lengths[0].0;
        for (length, ways) in &self.lengths {
            chosen = *length;
            if index < *ways {
                break;
            }
            index -= ways;
        }
        let mut done = BTreeMap::new();
        for (sector, versions) in self.visible(chosen.len) {
            let ways = versions.len() as u128;
            done.insert(sector, versions[ix128(index % ways)]);
            index /= ways;
        }
        build(file, self.ordered_from, chosen, |sector| done.get(&sector).copied().unwrap_or(0))
    }
}

impl Sector {
    fn new(file: &FileNode, number: u64, ops: &[usize], ordered_from: u64) -> Sector {
        let start = number * SECTOR;
        let mut bytes = [0; ix(SECTOR)];
        file.durable.read(&mut bytes, start);
        let free = ix(ordered_from.saturating_sub(start).min(SECTOR));
        bytes[free..].fill(0);
        let mut versions = vec![(0, bytes)];
        for &op in ops {
            match &file.log[op].change {
                DataChange::Write { position, data } => {
                    let from = start.max(*position);
                    let to = (start + free as u64).min(position + data.len() as u64);
                    if from < to {
                        bytes[ix(from - start)..ix(to - start)]
                            .copy_from_slice(&data[ix(from - position)..ix(to - position)]);
                    }
                }
                DataChange::SetLen => {
                    let from = ix(file.log[op].len.saturating_sub(start).min(free as u64));
                    bytes[from..free].fill(0);
                }
            }
            if versions.iter().all(|(_, known)| *known != bytes) {
                versions.push((op + 1, bytes));
            }
        }
        Sector { number, versions }
    }
}

/// Up to where sectors come in any order.
fn ordered_from(file: &FileNode, profile: Profile) -> u64 {
    if !profile.data_before_length() {
        return u64::MAX;
    }
    let cut = |op: &DataOp| matches!(op.change, DataChange::SetLen).then_some(op.len);
    file.log.iter().filter_map(cut).fold(file.durable.len(), u64::min)
}

/// Which operations change each sector, among the bytes that come in any order.
fn touches(file: &FileNode, ordered_from: u64) -> BTreeMap<u64, Vec<usize>> {
    let mut touches: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for (index, op) in file.log.iter().enumerate() {
        match &op.change {
            DataChange::Write { position, data } => {
                let to = (position + data.len() as u64).min(ordered_from);
                for (sector, ..) in pieces(*position, to.saturating_sub(*position), SECTOR) {
                    touches.entry(sector).or_default().push(index);
                }
            }
            DataChange::SetLen if op.len < ordered_from => {
                // A cut changes what was stored behind it, and nothing where there is a hole.
                let mut cut: BTreeSet<u64> =
                    touches.range(op.len / SECTOR..).map(|(sector, _)| *sector).collect();
                cut.extend(file.durable.stored_from(op.len).map(|(sector, ..)| sector));
                cut.into_iter().for_each(|sector| touches.entry(sector).or_default().push(index));
            }
            DataChange::SetLen => {}
        }
    }
    touches
}

/// The lengths that a file may be left with. Where bytes follow the length, a moment at which only they changed counts.
fn lengths(file: &FileNode, ordered_from: u64) -> Vec<Length> {
    let mut before = file.durable.len();
    let mut lengths = vec![Length { len: before, seq: 0, done: 0, partly: 0 }];
    for (index, op) in file.log.iter().enumerate() {
        let mut bytes_move = false;
        if let DataChange::Write { position, data } = &op.change {
            let end = position + data.len() as u64;
            bytes_move = end > ordered_from;
            let mut page = (before.max(*position) / PAGE + 1) * PAGE;
            while page < end {
                lengths.push(Length { len: page, seq: op.seq, done: index, partly: page });
                page += PAGE;
            }
        }
        if op.len != before || bytes_move {
            lengths.push(Length { len: op.len, seq: op.seq, done: index + 1, partly: 0 });
        }
        before = op.len;
    }
    if ordered_from == u64::MAX {
        // Nothing but the number counts.
        let mut known = BTreeSet::new();
        lengths.retain(|length| known.insert(length.len));
    }
    lengths
}

/// What the medium holds: of each sector, the first so many operations; the bytes that follow the length, as of then.
fn build(file: &FileNode, ordered_from: u64, length: Length, done: impl Fn(u64) -> usize) -> Content {
    let mut content = file.durable.clone();
    for (index, op) in file.log.iter().enumerate() {
        match &op.change {
            DataChange::Write { position, data } => {
                let end = position + data.len() as u64;
                let free_end = end.min(ordered_from);
                if *position < free_end {
                    for (sector, start, piece) in pieces(*position, free_end - position, SECTOR) {
                        if done(sector) > index {
                            let at = sector * SECTOR + start;
                            content.write(at, &data[ix(at - position)..ix(at - position + piece)]);
                        }
                    }
                }
                let known_end = match index {
                    _ if index < length.done => end,
                    _ if index == length.done => end.min(length.partly),
                    _ => 0,
                };
                let from = ordered_from.max(*position);
                if from < known_end {
                    content.write(from, &data[ix(from - position)..ix(known_end - position)]);
                }
            }
            DataChange::SetLen if ordered_from == u64::MAX => {
                let behind: Vec<_> =
                    content.stored_from(op.len).filter(|(sector, ..)| done(*sector) > index).collect();
                for (sector, start, piece) in behind {
                    content.zero(sector * SECTOR + start, piece);
                }
            }
            DataChange::SetLen if index < length.done => content.set_len(op.len),
            DataChange::SetLen => {}
        }
    }
    content.set_len(length.len);
    content
}

/// One choice at random.
pub(crate) fn draw(file: &FileNode, profile: Profile, style: Style, rng: &mut impl Rng) -> Content {
    let ordered_from = ordered_from(file, profile);
    let lengths = lengths(file, ordered_from);
    let since: Vec<Seq> = lengths.iter().map(|length| length.seq).collect();
    let length = lengths[style.pick(&since, rng)];
    let mut done = BTreeMap::new();
    for (sector, ops) in touches(file, ordered_from) {
        let since: Vec<Seq> = std::iter::once(0).chain(ops.iter().map(|op| file.log[*op].seq)).collect();
        let picked = style.pick(&since, rng);
        done.insert(sector, if picked == 0 { 0 } else { ops[picked - 1] + 1 });
    }
    build(file, ordered_from, length, |sector| done.get(&sector).copied().unwrap_or(0))
}

/// A file with this on the medium and nothing pending; sectors that cannot be read stay so.
pub(crate) fn settled(file: &FileNode, content: Content, links: u32) -> Shared {
    let mut bad_sectors = file.bad_sectors.clone();
    bad_sectors.split_off(&content.len().div_ceil(SECTOR));
    Arc::new(Node::File(FileNode { links, bad_sectors, ..FileNode::settled(content) }))
}
