//! Which lengths and bytes a power loss may leave of a file.
//!
//! A file is left with a length that it had since it was last durable, and each of its sectors with a content that it
//! had. Where data comes before length, the two are bound together: a sector is no older than the length asks for, and
//! no younger than the last moment at which its block was the file's.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use rand::Rng;

use crate::content::{Content, PAGE, SECTOR, ix, ix128, pieces};
use crate::legal::{Shared, Style};
use crate::node::{DataChange, FileNode, Node, Seq};
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

/// An operation that changes a sector.
#[derive(Clone, Copy)]
struct Touch {
    op: usize,
    /// Whether it puts bytes there that were never synced before: those that a length may have to wait for.
    adds: bool,
}

/// What data must wait for, and for how long it may come.
struct Order {
    /// Data before length.
    strict: bool,
    /// The operations that cut the file off, and where.
    cuts: Vec<(usize, u64)>,
}

impl Order {
    fn new(file: &FileNode, profile: Profile) -> Order {
        let cut = |(index, op): (usize, &crate::node::DataOp)| {
            matches!(op.change, DataChange::SetLen).then_some((index, op.len))
        };
        Order {
            strict: profile.data_before_length(),
            cuts: file.log.iter().enumerate().filter_map(cut).collect(),
        }
    }

    /// After how many operations a sector may be left, for one of its versions to go with a length.
    fn window(&self, sector: u64, touches: &[Touch], length: Length) -> std::ops::RangeInclusive<usize> {
        if !self.strict {
            return 0..=usize::MAX;
        }
        let start = sector * SECTOR;
        let needed = |touch: &&Touch| {
            touch.adds && (touch.op < length.done || (touch.op == length.done && start < length.partly))
        };
        let first = touches.iter().filter(needed).map(|touch| touch.op + 1).max().unwrap_or(0);
        // A block that a cut gives back is not written any more; the block that the cut goes through is.
        let gone = |(op, len): &&(usize, u64)| *op >= length.done && start >= len.div_ceil(PAGE) * PAGE;
        let last = self.cuts.iter().find(gone).map_or(usize::MAX, |(op, _)| *op);
        first..=last
    }
}

/// What may happen to one file with something pending.
pub(crate) struct FilePlan {
    order: Order,
    lengths: Vec<(Length, u128)>,
    sectors: Vec<Sector>,
    count: u128,
    /// The images of the file that were built already; empty where there are too many to keep.
    nodes: Vec<OnceLock<Shared>>,
}

/// A sector with something pending, and the contents it has had: after how many operations, and which.
struct Sector {
    number: u64,
    touches: Vec<Touch>,
    versions: Vec<(usize, [u8; ix(SECTOR)])>,
}

/// More images of one file than this are built anew each time.
const KEPT_NODES: u128 = 4096;

impl FilePlan {
    pub(crate) fn new(file: &FileNode, profile: Profile) -> FilePlan {
        let order = Order::new(file, profile);
        let sectors: Vec<Sector> = touches(file)
            .into_iter()
            .map(|(number, touches)| Sector::new(file, number, touches))
            .filter(|sector| order.strict || sector.versions.len() > 1)
            .collect();
        let mut plan = FilePlan { order, lengths: Vec::new(), sectors, count: 0, nodes: Vec::new() };
        for length in lengths(file, plan.order.strict) {
            let ways = plan.visible(length).map(|(_, versions)| versions.len() as u128);
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
    fn visible(&self, length: Length) -> impl Iterator<Item = (u64, Vec<usize>)> + '_ {
        let below = self.sectors.partition_point(|sector| sector.number * SECTOR < length.len);
        self.sectors[..below].iter().map(move |sector| {
            let seen = ix(SECTOR.min(length.len - sector.number * SECTOR));
            let window = self.order.window(sector.number, &sector.touches, length);
            let mut distinct: Vec<&(usize, [u8; ix(SECTOR)])> = Vec::new();
            for version in sector.versions.iter().filter(|(done, _)| window.contains(done)) {
                if !distinct.iter().any(|known| known.1[..seen] == version.1[..seen]) {
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
        for (sector, versions) in self.visible(chosen) {
            let ways = versions.len() as u128;
            done.insert(sector, versions[ix128(index % ways)]);
            index /= ways;
        }
        build(file, chosen.len, |sector| done.get(&sector).copied().unwrap_or(0))
    }
}

impl Sector {
    fn new(file: &FileNode, number: u64, touches: Vec<Touch>) -> Sector {
        let start = number * SECTOR;
        let mut bytes = [0; ix(SECTOR)];
        file.durable.read(&mut bytes, start);
        let mut versions = vec![(0, bytes)];
        for touch in &touches {
            let op = &file.log[touch.op];
            match &op.change {
                DataChange::Write { position, data } => {
                    let from = start.max(*position);
                    let to = (start + SECTOR).min(position + data.len() as u64);
                    bytes[ix(from - start)..ix(to - start)]
                        .copy_from_slice(&data[ix(from - position)..ix(to - position)]);
                }
                DataChange::SetLen => bytes[ix(op.len.saturating_sub(start).min(SECTOR))..].fill(0),
            }
            if versions.last().is_none_or(|(_, known)| *known != bytes) || touch.adds {
                versions.push((touch.op + 1, bytes));
            }
        }
        Sector { number, touches, versions }
    }
}

/// Which operations change each sector.
fn touches(file: &FileNode) -> BTreeMap<u64, Vec<Touch>> {
    let mut touches: BTreeMap<u64, Vec<Touch>> = BTreeMap::new();
    for (op, pending) in file.log.iter().enumerate() {
        match &pending.change {
            DataChange::Write { position, data } => {
                for (sector, start, piece) in pieces(*position, data.len() as u64, SECTOR) {
                    let adds = sector * SECTOR + start + piece > pending.synced;
                    touches.entry(sector).or_default().push(Touch { op, adds });
                }
            }
            DataChange::SetLen => {
                // A cut changes what was stored behind it, and nothing where there is a hole.
                let behind = touches.range(pending.len / SECTOR..).map(|(sector, _)| *sector);
                let mut cut: BTreeSet<u64> = behind.collect();
                cut.extend(file.durable.stored_from(pending.len).map(|(sector, ..)| sector));
                cut.into_iter()
                    .for_each(|sector| touches.entry(sector).or_default().push(Touch { op, adds: true }));
            }
        }
    }
    touches
}

/// The lengths that a file may be left with; the moment counts only where data must have come by then.
fn lengths(file: &FileNode, moments_count: bool) -> Vec<Length> {
    let mut before = file.durable.len();
    let mut lengths = vec![Length { len: before, seq: 0, done: 0, partly: 0 }];
    for (index, op) in file.log.iter().enumerate() {
        if let DataChange::Write { position, data } = &op.change {
            let end = position + data.len() as u64;
            let mut page = (before.max(*position) / PAGE + 1) * PAGE;
            while page < end {
                lengths.push(Length { len: page, seq: op.seq, done: index, partly: page });
                page += PAGE;
            }
        }
        if op.len != before {
            lengths.push(Length { len: op.len, seq: op.seq, done: index + 1, partly: 0 });
        }
        before = op.len;
    }
    if !moments_count {
        let mut known = BTreeSet::new();
        lengths.retain(|length| known.insert(length.len));
    }
    lengths
}

/// What the medium holds: of each sector, the first so many operations.
fn build(file: &FileNode, len: u64, done: impl Fn(u64) -> usize) -> Content {
    let mut content = file.durable.clone();
    for (index, op) in file.log.iter().enumerate() {
        match &op.change {
            DataChange::Write { position, data } => {
                for (sector, start, piece) in pieces(*position, data.len() as u64, SECTOR) {
                    if done(sector) > index {
                        let at = sector * SECTOR + start;
                        content.write(at, &data[ix(at - position)..ix(at - position + piece)]);
                    }
                }
            }
            DataChange::SetLen => {
                let behind: Vec<_> =
                    content.stored_from(op.len).filter(|(sector, ..)| done(*sector) > index).collect();
                for (sector, start, piece) in behind {
                    content.zero(sector * SECTOR + start, piece);
                }
            }
        }
    }
    content.set_len(len);
    content
}

/// One choice at random. Of what is certain, the sectors are as the cache has them, and a length covers it.
pub(crate) fn draw(
    file: &FileNode,
    profile: Profile,
    style: Style,
    certain: Option<&Range<u64>>,
    rng: &mut impl Rng,
) -> Content {
    let (order, touches, all) = (Order::new(file, profile), touches(file), file.log.len());
    let is_certain = |sector: u64| {
        certain.is_some_and(|bytes| bytes.start < (sector + 1) * SECTOR && sector * SECTOR < bytes.end)
    };
    let mut lengths = lengths(file, order.strict);
    if let Some(bytes) = certain {
        let goes_with = |length: Length| {
            let mut sectors = touches.iter().filter(|(sector, _)| is_certain(**sector));
            sectors.all(|(sector, touches)| order.window(*sector, touches, length).contains(&all))
        };
        // The length that the file had then is always one of them.
        lengths.retain(|length| bytes.end <= length.len && goes_with(*length));
    }
    let since: Vec<Seq> = lengths.iter().map(|length| length.seq).collect();
    let length = lengths[style.pick(&since, rng)];
    let mut done = BTreeMap::new();
    for (sector, touches) in touches {
        if is_certain(sector) {
            done.insert(sector, all);
            continue;
        }
        let window = order.window(sector, &touches, length);
        let versions: Vec<usize> = std::iter::once(0)
            .chain(touches.iter().map(|touch| touch.op + 1))
            .filter(|done| window.contains(done))
            .collect();
        let since: Vec<Seq> =
            versions.iter().map(|done| done.checked_sub(1).map_or(0, |op| file.log[op].seq)).collect();
        done.insert(sector, versions[style.pick(&since, rng)]);
    }
    build(file, length.len, |sector| done.get(&sector).copied().unwrap_or(0))
}

/// A file with this on the medium and nothing pending; sectors that cannot be read stay so.
pub(crate) fn settled(file: &FileNode, content: Content, links: u32) -> Shared {
    let mut bad_sectors = file.bad_sectors.clone();
    bad_sectors.split_off(&content.len().div_ceil(SECTOR));
    Arc::new(Node::File(FileNode { links, bad_sectors, ..FileNode::settled(content) }))
}
