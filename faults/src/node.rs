//! Inodes. Each has two halves: what processes see, and what the medium holds; between them, in order, what is pending.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use crate::content::{Content, PAGE, SECTOR, ix, pieces};
use crate::errno::Errno;

/// An inode's number. Never used twice.
pub(crate) type Ino = u64;
/// The root directory.
pub(crate) const ROOT: Ino = 1;
/// Counts the changes a file system has seen: what is pending knows when it was asked for.
pub(crate) type Seq = u64;
/// The name of a directory entry.
pub(crate) type Name = Arc<str>;
/// The most bytes in a name.
const NAME_MAX: usize = 255;

#[derive(Clone)]
pub(crate) enum Node {
    File(FileNode),
    Dir(DirNode),
}

/// A change of a file's data or length that was made in the cache and not yet on the medium.
#[derive(Clone)]
pub(crate) struct DataOp {
    pub(crate) seq: Seq,
    pub(crate) change: DataChange,
    /// The file's length after it.
    pub(crate) len: u64,
    /// Up to where the file's bytes had been synced by then, and never cut off since.
    pub(crate) synced: u64,
}

#[derive(Clone)]
pub(crate) enum DataChange {
    Write {
        position: u64,
        data: Arc<[u8]>,
    },
    /// Only the length: what is cut off becomes zeros.
    SetLen,
}

#[derive(Clone, Default)]
pub(crate) struct FileNode {
    /// What processes read: the page cache.
    pub(crate) seen: Content,
    /// What the medium holds.
    pub(crate) durable: Content,
    /// Applied to `durable` in order, it gives `seen`, but for the pages in `differs`.
    pub(crate) log: Vec<DataOp>,
    /// Pages that the cache holds to be clean although the medium has something else: after a failed sync, a lost
    /// or a misdirected write. The whole page is written anew once any byte of it changes.
    pub(crate) differs: BTreeSet<u64>,
    /// Sectors that cannot be read.
    pub(crate) bad_sectors: BTreeSet<u64>,
    /// Up to where bytes were synced, and never cut off since; where the device lies, it may not hold them all the same.
    pub(crate) synced: u64,
    /// How many names it has.
    pub(crate) links: u32,
    /// Made, and never synced: its inode itself is pending.
    pub(crate) young: bool,
    /// How many writeback errors there were: a descriptor that has seen fewer tells its owner at the next sync.
    pub(crate) errors: u64,
    pub(crate) last_error: Option<Errno>,
    /// Whether anybody was told of the last one; if not, the next to open the file is.
    pub(crate) error_told: bool,
}

impl FileNode {
    pub(crate) fn new() -> FileNode {
        FileNode { links: 1, young: true, error_told: true, ..FileNode::default() }
    }

    /// A file that was always there.
    pub(crate) fn settled(content: Content) -> FileNode {
        FileNode {
            synced: content.len(),
            seen: content.clone(),
            durable: content,
            error_told: true,
            ..FileNode::default()
        }
    }

    /// Nothing is pending, and cache and medium agree.
    pub(crate) fn is_settled(&self) -> bool {
        self.log.is_empty() && self.differs.is_empty() && !self.young && self.errors == 0
    }

    pub(crate) fn write(&mut self, seq: Seq, position: u64, data: &Arc<[u8]>) {
        if data.is_empty() {
            return;
        }
        self.seen.write(position, data);
        self.mend(position, data.len() as u64);
        let heals = |page: u64| self.differs.contains(&page);
        if !self.differs.is_empty() && pieces(position, data.len() as u64, PAGE).any(|(page, ..)| heals(page))
        {
            self.rewrite_pages(seq, position / PAGE, (position + data.len() as u64 - 1) / PAGE);
        } else {
            self.push(seq, DataChange::Write { position, data: data.clone() }, self.seen.len());
        }
    }

    fn push(&mut self, seq: Seq, change: DataChange, len: u64) {
        self.log.push(DataOp { seq, change, len, synced: self.synced });
    }

    /// A sector that is written whole can be read again: the device has put it elsewhere.
    fn mend(&mut self, position: u64, len: u64) {
        if !self.bad_sectors.is_empty() {
            let whole = pieces(position, len, SECTOR).filter(|(.., piece)| *piece == SECTOR);
            for (sector, ..) in whole {
                self.bad_sectors.remove(&sector);
            }
        }
    }

    /// The same of what somebody writes to the medium itself, in a file that is this long then: its last sector need not be full.
    pub(crate) fn mend_by_hand(&mut self, written: &Range<u64>, len: u64) {
        self.bad_sectors.retain(|sector| {
            let (from, to) = (sector * SECTOR, len.min((sector + 1) * SECTOR));
            from < to && !(written.start <= from && to <= written.end)
        });
    }

    /// Bits of one byte flip, in the cache, on the medium and on the way there.
    pub(crate) fn rot(&mut self, at: u64, xor: u8) {
        for content in [&mut self.seen, &mut self.durable] {
            if at < content.len() {
                let byte = content.slice(at, 1)[0] ^ xor;
                content.write(at, &[byte]);
            }
        }
        for op in &mut self.log {
            if let DataChange::Write { position, data } = &mut op.change
                && let Some(index) = at.checked_sub(*position).filter(|index| *index < data.len() as u64)
            {
                Arc::make_mut(data)[ix(index)] ^= xor;
            }
        }
    }

    /// Makes whole pages pending, as the page cache does with a page of which any byte changed.
    fn rewrite_pages(&mut self, seq: Seq, first: u64, last: u64) {
        let start = first * PAGE;
        let end = ((last + 1) * PAGE).min(self.seen.len());
        if start < end {
            let data = self.seen.slice(start, end - start).into();
            self.push(seq, DataChange::Write { position: start, data }, self.seen.len());
        }
        self.differs = self.differs.iter().copied().filter(|page| *page < first || *page > last).collect();
    }

    /// A write of which only the first `kept` bytes are on their way to the medium, while the cache has all of it.
    pub(crate) fn write_losing(&mut self, seq: Seq, position: u64, data: &Arc<[u8]>, kept: usize) {
        if data.is_empty() {
            return;
        }
        let reached = self.seen.len().max(if kept > 0 { position + kept as u64 } else { 0 });
        self.seen.write(position, data);
        if kept > 0 {
            self.push(seq, DataChange::Write { position, data: data[..kept].into() }, reached);
        }
        if self.seen.len() != reached {
            self.push(seq, DataChange::SetLen, self.seen.len());
        }
        let lost = (data.len() - kept) as u64;
        self.differs.extend(pieces(position + kept as u64, lost, PAGE).map(|(page, ..)| page));
    }

    pub(crate) fn set_len(&mut self, seq: Seq, len: u64) {
        let shrinks = len < self.seen.len();
        self.seen.set_len(len);
        self.push(seq, DataChange::SetLen, len);
        self.synced = self.synced.min(len);
        if shrinks {
            let past = len.div_ceil(PAGE);
            self.differs.split_off(&past);
            self.bad_sectors.split_off(&len.div_ceil(SECTOR));
            if !len.is_multiple_of(PAGE) && self.differs.contains(&(len / PAGE)) {
                self.rewrite_pages(seq, len / PAGE, len / PAGE);
            }
        }
    }

    /// Everything asked for up to `upto` reaches the medium.
    pub(crate) fn settle(&mut self, upto: Seq) {
        let count = self.log.partition_point(|op| op.seq <= upto);
        for op in self.log.drain(..count) {
            op.apply(&mut self.durable);
        }
        self.young = false;
    }

    /// Whether one of the first so many pending changes moves the length.
    pub(crate) fn len_pending(&self, count: usize) -> bool {
        self.log[..count].iter().any(|op| op.len != self.durable.len())
    }

    /// Up to where bytes are synced once the first so many pending changes are, and not cut off by those behind them.
    pub(crate) fn reach(&self, count: usize) -> u64 {
        let (covered, rest) = self.log.split_at(count);
        let len = match covered.last() {
            _ if rest.is_empty() => self.seen.len(),
            Some(last) => last.len,
            None => self.synced,
        };
        rest.iter().map(|op| op.len).fold(len, u64::min).max(self.synced)
    }

    /// A sync of the first so many pending changes failed as on Linux: their pages stay in the cache, count as clean, and never
    /// reach the medium unless somebody writes to them again. What came after them may have done so: such a page is written whole.
    /// The length is not data, and stays pending.
    pub(crate) fn drop_dirty(&mut self, count: usize) {
        let rest = self.log.split_off(count);
        let Some(last) = self.log.last().map(|op| DataOp { change: DataChange::SetLen, ..op.clone() }) else {
            self.log = rest;
            return;
        };
        let mut cache = self.durable.clone();
        let mut dropped = BTreeSet::new();
        for op in &self.log {
            dropped.extend(op.pages(cache.len()));
            op.apply(&mut cache);
        }
        dropped.split_off(&last.len.div_ceil(PAGE));
        // A cut is not data either: the zeros behind it are the file system's business.
        self.log.retain(|op| matches!(op.change, DataChange::SetLen));
        if self.log.last().map_or(self.durable.len(), |op| op.len) != last.len {
            self.log.push(last);
        }
        for op in rest {
            let pages = op.pages(cache.len()).collect();
            op.apply(&mut cache);
            self.keep_after_a_drop(op, pages, &mut dropped, &cache);
        }
        self.differs.append(&mut dropped);
    }

    /// A change that came after those that were dropped is pending still, and brings back the pages that it touches as a whole.
    fn keep_after_a_drop(
        &mut self,
        op: DataOp,
        pages: Vec<u64>,
        dropped: &mut BTreeSet<u64>,
        cache: &Content,
    ) {
        if matches!(op.change, DataChange::SetLen) {
            dropped.split_off(&op.len.div_ceil(PAGE));
        }
        let whole = pages.iter().any(|page| dropped.contains(page)).then(|| {
            let start = pages[0] * PAGE;
            let end = ((pages[pages.len() - 1] + 1) * PAGE).min(cache.len());
            let data = cache.slice(start, end.saturating_sub(start)).into();
            DataOp { change: DataChange::Write { position: start, data }, ..op.clone() }
        });
        dropped.retain(|page| !pages.contains(page));
        let replaced = whole.is_some() && matches!(op.change, DataChange::Write { .. });
        self.log.extend((!replaced).then_some(op));
        self.log.extend(whole);
    }

    /// Notes a failed writeback: each descriptor open now is told once.
    pub(crate) fn raise_error(&mut self, errno: Errno) {
        self.errors += 1;
        self.last_error = Some(errno);
        self.error_told = false;
    }

    /// Clean pages leave the cache: the next read finds what the medium has.
    pub(crate) fn drop_cache(&mut self) {
        let mut dirty = BTreeSet::new();
        for op in &self.log {
            if let DataChange::Write { position, data } = &op.change {
                dirty.extend(pieces(*position, data.len() as u64, PAGE).map(|(page, ..)| page));
            }
        }
        let (stay, go) = self.differs.iter().partition(|page| dirty.contains(page));
        self.differs = stay;
        let go: BTreeSet<u64> = go;
        for page in go {
            self.seen.reload_page(page, &self.durable);
        }
    }
}

impl DataOp {
    /// The pages that it makes dirty in a file that was so long: of a cut, the one that it goes through. A file that only grows
    /// longer, as under a lost write that extends it, has no byte changed.
    fn pages(&self, before: u64) -> impl Iterator<Item = u64> + use<> {
        let (position, len) = match &self.change {
            DataChange::Write { position, data } => (*position, data.len() as u64),
            DataChange::SetLen => (self.len, u64::from(self.len < before && !self.len.is_multiple_of(PAGE))),
        };
        pieces(position, len, PAGE).map(|(page, ..)| page)
    }

    /// Makes the change on the medium.
    pub(crate) fn apply(&self, durable: &mut Content) {
        match &self.change {
            DataChange::Write { position, data } => durable.write(*position, data),
            DataChange::SetLen => durable.set_len(self.len),
        }
    }
}

/// A directory entry that was made, changed or removed in the cache and not yet on the medium.
#[derive(Clone)]
pub(crate) struct EntryOp {
    /// The two entries that a rename changes have the same.
    pub(crate) seq: Seq,
    pub(crate) name: Name,
    pub(crate) target: Option<Ino>,
}

#[derive(Clone)]
pub(crate) struct DirNode {
    pub(crate) seen: BTreeMap<Name, Ino>,
    pub(crate) durable: BTreeMap<Name, Ino>,
    /// Applied to `durable` in order, it gives `seen`.
    pub(crate) log: Vec<EntryOp>,
    /// The directory it is in; the root is in itself.
    pub(crate) parent: Ino,
}

impl DirNode {
    pub(crate) fn new(parent: Ino) -> DirNode {
        DirNode { seen: BTreeMap::new(), durable: BTreeMap::new(), log: Vec::new(), parent }
    }

    /// What a name leads to, as processes see it.
    pub(crate) fn find(&self, name: &str) -> Result<Option<Ino>, Errno> {
        if name.len() > NAME_MAX { Err(Errno::ENAMETOOLONG) } else { Ok(self.seen.get(name).copied()) }
    }

    pub(crate) fn set(&mut self, seq: Seq, name: &Name, target: Option<Ino>) {
        set_entry(&mut self.seen, name, target);
        self.log.push(EntryOp { seq, name: name.clone(), target });
    }

    /// Everything asked for up to `upto` reaches the medium.
    pub(crate) fn settle(&mut self, upto: Seq) {
        let count = self.log.partition_point(|op| op.seq <= upto);
        for op in self.log.drain(..count) {
            set_entry(&mut self.durable, &op.name, op.target);
        }
    }
}

/// Puts an entry, or takes it away.
pub(crate) fn set_entry(entries: &mut BTreeMap<Name, Ino>, name: &Name, target: Option<Ino>) {
    match target {
        Some(ino) => entries.insert(name.clone(), ino),
        None => entries.remove(name),
    };
}
