//! The bytes of a file: pages that are shared until somebody writes to them.
//!
//! A hole costs nothing, a clone costs one pointer a page, and a write copies no more than the pages it touches: a
//! thousand images of one disk share all that they have in common.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use crate::hash::Hasher;

/// What the page cache and the block allocator deal in.
pub const PAGE: u64 = 4096;
/// What a device writes whole or not at all.
pub const SECTOR: u64 = 512;
/// The largest file: that of ext4 with 4 KiB blocks.
pub(crate) const MAX_LEN: u64 = 16 << 40;

/// A file's bytes. Whatever lies beyond `len`, or in no page, is zero.
#[derive(Clone, Default)]
pub(crate) struct Content {
    len: u64,
    /// By page number. A page is stored up to its last written byte; the rest of it is zeros.
    pages: BTreeMap<u64, Arc<Vec<u8>>>,
    hash: OnceLock<u128>,
}

/// The pieces of `position..position + len` that lie in one unit of `size` each: unit, start within the unit, length.
pub(crate) fn pieces(position: u64, len: u64, size: u64) -> impl Iterator<Item = (u64, u64, u64)> {
    let end = position + len;
    let mut at = position;
    std::iter::from_fn(move || {
        if at >= end {
            return None;
        }
        let unit = at / size;
        let start = at % size;
        let piece = (size - start).min(end - at);
        at += piece;
        Some((unit, start, piece))
    })
}

/// A number of bytes in memory, as an index.
#[allow(clippy::cast_possible_truncation)] // lengths here are of slices or within a page
pub(crate) const fn ix(n: u64) -> usize {
    n as usize
}

/// A number below a count that fits in memory, as an index.
#[allow(clippy::cast_possible_truncation)]
pub(crate) fn ix128(n: u128) -> usize {
    n as usize
}

impl Content {
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// How many blocks hold it: holes are free.
    pub(crate) fn blocks(&self) -> u64 {
        self.pages.len() as u64
    }

    /// The parts of sectors from a position on that are stored: sector, start within it, length. Everything else there
    /// is zeros already.
    pub(crate) fn stored_from(&self, position: u64) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        self.pages.range(position / PAGE..).flat_map(move |(page, bytes)| {
            let end = page * PAGE + bytes.len() as u64;
            let from = position.max(page * PAGE).min(end);
            pieces(from, end - from, SECTOR)
        })
    }

    /// How many blocks a write would have to allocate.
    pub(crate) fn missing_blocks(&self, position: u64, len: u64) -> impl Iterator<Item = u64> + '_ {
        pieces(position, len, PAGE).map(|(page, ..)| page).filter(|page| !self.pages.contains_key(page))
    }

    /// Reads what there is, up to the end of the file; gives the number of bytes.
    pub(crate) fn read(&self, buf: &mut [u8], position: u64) -> usize {
        let n = (buf.len() as u64).min(self.len.saturating_sub(position));
        let mut done = 0;
        for (page, start, piece) in pieces(position, n, PAGE) {
            let out = &mut buf[done..done + ix(piece)];
            match self.pages.get(&page) {
                None => out.fill(0),
                Some(bytes) => {
                    let from = bytes.len().min(ix(start));
                    let stored = &bytes[from..bytes.len().min(ix(start + piece))];
                    out[..stored.len()].copy_from_slice(stored);
                    out[stored.len()..].fill(0);
                }
            }
            done += ix(piece);
        }
        done
    }

    /// A copy of `position..position + len`, with zeros beyond the end of the file.
    pub(crate) fn slice(&self, position: u64, len: u64) -> Vec<u8> {
        let mut bytes = vec![0; ix(len)];
        self.read(&mut bytes, position);
        bytes
    }

    /// All of it.
    pub(crate) fn to_vec(&self) -> Vec<u8> {
        self.slice(0, self.len)
    }

    /// Writes, and extends the file where it ends before the last byte written.
    pub(crate) fn write(&mut self, position: u64, data: &[u8]) {
        if data.is_empty() {
            return;
        }
        self.hash = OnceLock::new();
        let mut done = 0;
        for (page, start, piece) in pieces(position, data.len() as u64, PAGE) {
            let bytes = Arc::make_mut(self.pages.entry(page).or_default());
            let end = ix(start + piece);
            let part = &data[done..done + ix(piece)];
            if bytes.len() == ix(start) {
                bytes.extend_from_slice(part);
            } else {
                if bytes.len() < end {
                    bytes.resize(end, 0);
                }
                bytes[ix(start)..end].copy_from_slice(part);
            }
            done += ix(piece);
        }
        self.len = self.len.max(position + data.len() as u64);
    }

    /// Makes a range zeros without changing the length; what lies beyond the end stays beyond it.
    pub(crate) fn zero(&mut self, position: u64, len: u64) {
        let end = position + len.min(self.len.saturating_sub(position));
        self.hash = OnceLock::new();
        for (page, bytes) in self.pages.range_mut(position / PAGE..end.div_ceil(PAGE)) {
            let within = |at: u64| ix(at.saturating_sub(page * PAGE).min(PAGE)).min(bytes.len());
            let (from, to) = (within(position), within(end));
            Arc::make_mut(bytes)[from..to].fill(0);
        }
    }

    /// Cuts off, or extends with a hole.
    pub(crate) fn set_len(&mut self, len: u64) {
        self.hash = OnceLock::new();
        if len < self.len {
            let tail = len.div_ceil(PAGE);
            self.pages.split_off(&tail);
            if !len.is_multiple_of(PAGE)
                && let Some(bytes) = self.pages.get_mut(&(len / PAGE))
                && bytes.len() > ix(len % PAGE)
            {
                Arc::make_mut(bytes).truncate(ix(len % PAGE));
            }
        }
        self.len = len;
    }

    /// Takes one page from another content: what a reader finds after its page was evicted from the cache.
    pub(crate) fn reload_page(&mut self, page: u64, from: &Content) {
        self.hash = OnceLock::new();
        match from.pages.get(&page) {
            Some(bytes) => {
                let visible = ix(self.len.saturating_sub(page * PAGE).min(PAGE));
                let mut bytes = bytes.clone();
                if bytes.len() > visible {
                    Arc::make_mut(&mut bytes).truncate(visible);
                }
                self.pages.insert(page, bytes);
            }
            None => {
                self.pages.remove(&page);
            }
        }
    }

    /// A hash of length and bytes: equal for equal bytes, however they were written.
    pub(crate) fn hash(&self) -> u128 {
        *self.hash.get_or_init(|| {
            let mut hasher = Hasher::default();
            hasher.number(self.len);
            for (page, bytes) in &self.pages {
                let end = bytes.iter().rposition(|&b| b != 0).map_or(0, |last| last + 1);
                if end > 0 {
                    hasher.number(*page);
                    hasher.bytes(&bytes[..end]);
                }
            }
            hasher.finish()
        })
    }
}
