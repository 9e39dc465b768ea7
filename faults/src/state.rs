//! A whole file system as a value: inodes, and what is pending on them.
//!
//! Everything that changes it is a [`Change`], applied by [`State::apply`]: a history of changes, applied again to the
//! state it began with, gives the same states, inode numbers and all. Clones share every inode until one changes it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use crate::content::Content;
use crate::errno::Errno;
use crate::node::{DirNode, FileNode, Ino, Name, Node, ROOT, Seq};
use crate::profile::Profile;

/// Something that happens to a file system, with every name already looked up.
#[derive(Clone)]
pub(crate) enum Change {
    MakeFile {
        dir: Ino,
        name: Name,
    },
    MakeDir {
        dir: Ino,
        name: Name,
    },
    Write {
        ino: Ino,
        position: u64,
        data: Arc<[u8]>,
        fate: Fate,
    },
    SetLen {
        ino: Ino,
        len: u64,
    },
    Rename {
        from: (Ino, Name),
        to: (Ino, Name),
    },
    Unlink {
        dir: Ino,
        name: Name,
    },
    /// All that is pending on a file becomes durable, but the last so many of its changes, which have come since the sync began.
    SyncFile {
        ino: Ino,
        all_but: usize,
    },
    SyncDir {
        ino: Ino,
    },
    /// The sync of a file failed, as on Linux: of all that is pending, but of the last so many of its changes, which have come since
    /// the sync began.
    DropDirty {
        ino: Ino,
        errno: Errno,
        all_but: usize,
    },
    /// A process was told of the failure: whoever opens the file next is not.
    TellError {
        ino: Ino,
    },
    /// A hand on the medium itself, while nobody looks: see `surgery`.
    Rewrite {
        ino: Ino,
        content: Content,
        /// The bytes that were written. The rest is what it was, also where it cannot be read.
        written: Range<u64>,
    },
    /// Likewise, on a directory: its entries are durable.
    SettleDir {
        ino: Ino,
    },
    BadSector {
        ino: Ino,
        sector: u64,
    },
    /// Every sector can be read again.
    MendSectors,
    /// Bits of one byte flip, wherever it is.
    Rot {
        ino: Ino,
        at: u64,
        xor: u8,
    },
    DropCaches,
    /// It is another file system now: what a power loss has left.
    Become(Arc<State>),
}

/// What becomes of a write on its way to the medium. The cache has it all in any case.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Arrives,
    /// Only so many of its bytes arrive, whatever a sync says.
    Torn {
        kept: usize,
    },
    /// It arrives somewhere else.
    Misdirected {
        ino: Ino,
        position: u64,
    },
}

/// A sync that was answered with yes. Where the device lies, the last few are only promises.
#[derive(Clone, Copy)]
struct Promise {
    upto: Seq,
    /// Up to where, of a file.
    file: Option<(Ino, Seq)>,
    dirs: PromisedDirs,
}

#[derive(Clone, Copy)]
enum PromisedDirs {
    None,
    One(Ino),
    All,
}

#[derive(Clone)]
pub(crate) struct State {
    pub(crate) profile: Profile,
    /// How many of the last syncs are promises only.
    lies: usize,
    pub(crate) nodes: BTreeMap<Ino, Arc<Node>>,
    next_ino: Ino,
    pub(crate) seq: Seq,
    promises: VecDeque<Promise>,
    /// Directories with pending entries, and files with pending data or lengths.
    pub(crate) dirty_dirs: BTreeSet<Ino>,
    pub(crate) dirty_files: BTreeSet<Ino>,
    /// Blocks that are allocated as processes see it.
    pub(crate) used_blocks: u64,
    /// The lengths of the files that processes see, together.
    pub(crate) used_bytes: u64,
    sweep_at: usize,
}

/// Sweeping for dead inodes is worth its time only above this.
const SWEEP_MIN: usize = 256;

impl State {
    pub(crate) fn new(profile: Profile, lies: usize) -> State {
        let root = Arc::new(Node::Dir(DirNode::new(ROOT)));
        State {
            profile,
            lies,
            nodes: BTreeMap::from([(ROOT, root)]),
            next_ino: ROOT + 1,
            seq: 0,
            promises: VecDeque::new(),
            dirty_dirs: BTreeSet::new(),
            dirty_files: BTreeSet::new(),
            used_blocks: 1,
            used_bytes: 0,
            sweep_at: SWEEP_MIN,
        }
    }

    /// A state with other inodes and the same rules, nothing pending.
    pub(crate) fn settled(&self, nodes: BTreeMap<Ino, Arc<Node>>) -> State {
        let (mut used_blocks, mut used_bytes) = (0, 0);
        for node in nodes.values() {
            match &**node {
                Node::File(file) => {
                    used_blocks += file.seen.blocks();
                    used_bytes += file.seen.len();
                }
                Node::Dir(_) => used_blocks += 1,
            }
        }
        State {
            profile: self.profile,
            lies: self.lies,
            nodes,
            next_ino: self.next_ino,
            seq: self.seq,
            promises: VecDeque::new(),
            dirty_dirs: BTreeSet::new(),
            dirty_files: BTreeSet::new(),
            used_blocks,
            used_bytes,
            sweep_at: SWEEP_MIN,
        }
    }

    pub(crate) fn set_rules(&mut self, profile: Profile, lies: usize) {
        self.profile = profile;
        self.lies = lies;
        self.keep_promises();
    }

    pub(crate) fn dir(&self, ino: Ino) -> Option<&DirNode> {
        match self.nodes.get(&ino).map(|node| &**node) {
            Some(Node::Dir(dir)) => Some(dir),
            _ => None,
        }
    }

    pub(crate) fn file(&self, ino: Ino) -> Option<&FileNode> {
        match self.nodes.get(&ino).map(|node| &**node) {
            Some(Node::File(file)) => Some(file),
            _ => None,
        }
    }

    pub(crate) fn dir_mut(&mut self, ino: Ino) -> Option<&mut DirNode> {
        match self.nodes.get_mut(&ino).map(Arc::make_mut) {
            Some(Node::Dir(dir)) => Some(dir),
            _ => None,
        }
    }

    pub(crate) fn file_mut(&mut self, ino: Ino) -> Option<&mut FileNode> {
        match self.nodes.get_mut(&ino).map(Arc::make_mut) {
            Some(Node::File(file)) => Some(file),
            _ => None,
        }
    }

    /// Makes a change; gives the inode it made, where it made one.
    pub(crate) fn apply(&mut self, change: &Change) -> Option<Ino> {
        self.seq += 1;
        match change {
            Change::MakeFile { dir, name } => {
                return Some(self.make(*dir, name, Node::File(FileNode::new())));
            }
            Change::MakeDir { dir, name } => {
                self.used_blocks += 1;
                return Some(self.make(*dir, name, Node::Dir(DirNode::new(*dir))));
            }
            Change::Write { ino, position, data, fate } => self.write(*ino, *position, data, *fate),
            Change::SetLen { ino, len } => {
                let seq = self.seq;
                self.edit_file(*ino, |file| file.set_len(seq, *len));
            }
            Change::Rename { from, to } => self.rename(from, to),
            Change::Unlink { dir, name } => {
                let gone = self.dir(*dir).and_then(|dir| dir.seen.get(name).copied());
                self.set_entry(*dir, name, None);
                gone.into_iter().for_each(|ino| self.unlinked(ino));
            }
            Change::SyncFile { ino, all_but } => self.sync_file(*ino, *all_but),
            Change::SyncDir { ino } => self.sync_dir(*ino),
            Change::DropDirty { ino, errno, all_but } => self.edit_file(*ino, |file| {
                file.drop_dirty(file.log.len().saturating_sub(*all_but));
                file.raise_error(*errno);
            }),
            Change::TellError { ino } => self.edit_file(*ino, |file| file.error_told = true),
            Change::Rewrite { ino, content, written } => self.edit_file(*ino, |file| {
                file.log.clear();
                file.differs.clear();
                file.mend_by_hand(written, content.len());
                file.seen = content.clone();
                file.durable = content.clone();
                file.synced = content.len();
                file.young = false;
            }),
            Change::SettleDir { ino } => self.settle_dir(*ino, Seq::MAX),
            Change::BadSector { ino, sector } => self.edit_file(*ino, |file| {
                file.bad_sectors.insert(*sector);
            }),
            Change::MendSectors => {
                let bad: Vec<Ino> =
                    self.files().filter(|(_, f)| !f.bad_sectors.is_empty()).map(|(i, _)| i).collect();
                bad.into_iter().for_each(|ino| self.edit_file(ino, |file| file.bad_sectors.clear()));
            }
            Change::Rot { ino, at, xor } => self.edit_file(*ino, |file| file.rot(*at, *xor)),
            Change::Become(state) => *self = (**state).clone(),
            Change::DropCaches => {
                let differing: Vec<Ino> =
                    self.files().filter(|(_, f)| !f.differs.is_empty()).map(|(i, _)| i).collect();
                differing.into_iter().for_each(|ino| self.edit_file(ino, FileNode::drop_cache));
            }
        }
        None
    }

    pub(crate) fn files(&self) -> impl Iterator<Item = (Ino, &FileNode)> {
        self.nodes.iter().filter_map(|(ino, node)| match &**node {
            Node::File(file) => Some((*ino, file)),
            Node::Dir(_) => None,
        })
    }

    /// Changes a file, and keeps the books: blocks in use, and whether anything is pending on it.
    pub(crate) fn edit_file(&mut self, ino: Ino, edit: impl FnOnce(&mut FileNode)) {
        let Some(file) = self.file_mut(ino) else { return };
        let (blocks, bytes) = (file.seen.blocks(), file.seen.len());
        edit(file);
        let (blocks_now, bytes_now) = (file.seen.blocks(), file.seen.len());
        let dirty = !file.log.is_empty();
        self.used_blocks = self.used_blocks + blocks_now - blocks;
        self.used_bytes = self.used_bytes + bytes_now - bytes;
        if dirty {
            self.dirty_files.insert(ino);
        } else {
            self.dirty_files.remove(&ino);
        }
    }

    fn make(&mut self, dir: Ino, name: &Name, node: Node) -> Ino {
        let ino = self.next_ino;
        self.next_ino += 1;
        self.nodes.insert(ino, Arc::new(node));
        self.set_entry(dir, name, Some(ino));
        ino
    }

    fn set_entry(&mut self, dir: Ino, name: &Name, target: Option<Ino>) {
        let seq = self.seq;
        if let Some(node) = self.dir_mut(dir) {
            node.set(seq, name, target);
            self.dirty_dirs.insert(dir);
        }
    }

    fn write(&mut self, ino: Ino, position: u64, data: &Arc<[u8]>, fate: Fate) {
        let seq = self.seq;
        match fate {
            Fate::Arrives => self.edit_file(ino, |file| file.write(seq, position, data)),
            Fate::Torn { kept } => self.edit_file(ino, |file| file.write_losing(seq, position, data, kept)),
            Fate::Misdirected { ino: other, position: elsewhere } => {
                self.edit_file(ino, |file| file.write_losing(seq, position, data, 0));
                self.edit_file(other, |file| {
                    // The device knows nothing of lengths: what lands beyond the end is not in the file.
                    let len = file.durable.len();
                    file.durable.write(elsewhere, data);
                    file.durable.set_len(len);
                    let hit = crate::content::pieces(elsewhere, data.len() as u64, crate::PAGE);
                    file.differs.extend(hit.map(|(page, ..)| page));
                });
            }
        }
    }

    fn rename(&mut self, from: &(Ino, Name), to: &(Ino, Name)) {
        let Some(ino) = self.dir(from.0).and_then(|dir| dir.seen.get(&from.1).copied()) else { return };
        let replaced = self.dir(to.0).and_then(|dir| dir.seen.get(&to.1).copied());
        self.set_entry(from.0, &from.1, None);
        self.set_entry(to.0, &to.1, Some(ino));
        if let Some(dir) = self.dir(ino)
            && dir.parent != to.0
            && let Some(dir) = self.dir_mut(ino)
        {
            dir.parent = to.0;
        }
        replaced.into_iter().for_each(|ino| self.unlinked(ino));
    }

    /// A name of this inode is gone.
    fn unlinked(&mut self, ino: Ino) {
        if self.dir(ino).is_some() {
            self.used_blocks -= 1;
        } else if let Some(file) = self.file_mut(ino) {
            file.links = file.links.saturating_sub(1);
        }
    }

    /// The blocks of a file that has no name and is not open any more are free again.
    pub(crate) fn release(&mut self, ino: Ino) {
        if let Some(file) = self.file(ino)
            && file.links == 0
        {
            let (blocks, bytes) = (file.seen.blocks(), file.seen.len());
            self.used_blocks -= blocks;
            self.used_bytes -= bytes;
            if let Some(file) = self.file_mut(ino) {
                file.seen = Content::default();
            }
        }
    }

    /// Nobody has anything open any more: of files without a name, the blocks are free.
    pub(crate) fn nobody_has_open(&mut self) {
        let nameless: Vec<Ino> =
            self.files().filter(|(_, file)| file.links == 0).map(|(ino, _)| ino).collect();
        nameless.into_iter().for_each(|ino| self.release(ino));
    }

    /// Whether anything of a file, asked for by then, is not on the medium yet; or anything of a directory.
    pub(crate) fn is_pending_until(&self, ino: Ino, upto: Seq) -> bool {
        match self.file(ino) {
            Some(file) => file.young || file.log.first().is_some_and(|op| op.seq <= upto),
            None => self.dirty_dirs.contains(&ino),
        }
    }

    /// How many of the changes that are pending on a file have come since.
    pub(crate) fn pending_since(&self, ino: Ino, since: Seq) -> usize {
        let Some(file) = self.file(ino) else { return 0 };
        file.log.len() - file.log.partition_point(|op| op.seq <= since)
    }

    fn sync_file(&mut self, ino: Ino, all_but: usize) {
        let now = self.seq;
        let Some(file) = self.file_mut(ino) else { return };
        let covered = file.log.len().saturating_sub(all_but);
        if covered == 0 && !file.young {
            return;
        }
        let upto = if covered == file.log.len() {
            now
        } else {
            covered.checked_sub(1).map_or(0, |last| file.log[last].seq)
        };
        file.synced = file.reach(covered);
        let moves_inode = file.young || file.len_pending(covered);
        // ext4 commits its journal when a length or the inode itself must become durable, and all that the journal
        // holds goes with it. A mere overwrite needs no commit.
        let commits = self.profile.journals() && moves_inode;
        let dirs = if commits { PromisedDirs::All } else { PromisedDirs::None };
        self.promise(Promise { upto: now, file: Some((ino, upto)), dirs });
    }

    fn sync_dir(&mut self, ino: Ino) {
        let dirs = if self.profile.journals() { PromisedDirs::All } else { PromisedDirs::One(ino) };
        let pending = match dirs {
            PromisedDirs::One(ino) => self.dirty_dirs.contains(&ino),
            _ => !self.dirty_dirs.is_empty(),
        };
        if pending {
            self.promise(Promise { upto: self.seq, file: None, dirs });
        }
    }

    fn promise(&mut self, promise: Promise) {
        self.promises.push_back(promise);
        self.keep_promises();
    }

    fn keep_promises(&mut self) {
        while self.promises.len() > self.lies
            && let Some(promise) = self.promises.pop_front()
        {
            self.keep(promise);
        }
    }

    fn keep(&mut self, promise: Promise) {
        if let Some((ino, upto)) = promise.file {
            self.edit_file(ino, |file| file.settle(upto));
        }
        let dirs: Vec<Ino> = match promise.dirs {
            PromisedDirs::None => Vec::new(),
            PromisedDirs::One(ino) => vec![ino],
            PromisedDirs::All => self.dirty_dirs.iter().copied().collect(),
        };
        dirs.into_iter().for_each(|ino| self.settle_dir(ino, promise.upto));
    }

    fn settle_dir(&mut self, ino: Ino, upto: Seq) {
        let Some(dir) = self.dir_mut(ino) else { return };
        dir.settle(upto);
        if dir.log.is_empty() {
            self.dirty_dirs.remove(&ino);
        }
    }

    /// Forgets inodes that no name, no pending entry and no open descriptor leads to. Amortised: linear in what was
    /// made.
    pub(crate) fn sweep(&mut self, open: impl Iterator<Item = Ino>) {
        if self.nodes.len() < self.sweep_at {
            return;
        }
        let mut live: BTreeSet<Ino> = open.collect();
        live.insert(ROOT);
        let mut todo: Vec<Ino> = live.iter().copied().collect();
        while let Some(ino) = todo.pop() {
            let Some(dir) = self.dir(ino) else { continue };
            let pending = dir.log.iter().filter_map(|op| op.target);
            for child in dir.seen.values().chain(dir.durable.values()).copied().chain(pending) {
                if live.insert(child) {
                    todo.push(child);
                }
            }
        }
        self.nodes.retain(|ino, _| live.contains(ino));
        self.dirty_dirs.retain(|ino| live.contains(ino));
        self.dirty_files.retain(|ino| live.contains(ino));
        self.sweep_at = SWEEP_MIN.max(self.nodes.len() * 2);
    }

    /// Whether a directory lies in another, or is it.
    pub(crate) fn is_within(&self, mut ino: Ino, ancestor: Ino) -> bool {
        loop {
            if ino == ancestor {
                return true;
            }
            match self.dir(ino) {
                Some(dir) if dir.parent != ino => ino = dir.parent,
                _ => return false,
            }
        }
    }

    /// The inode a path leads to.
    pub(crate) fn lookup(&self, path: &crate::path::Parsed) -> Result<Ino, Errno> {
        let mut ino = ROOT;
        for name in path.names() {
            ino = self.dir(ino).ok_or(Errno::ENOTDIR)?.find(name)?.ok_or(Errno::ENOENT)?;
        }
        Ok(ino)
    }
}
