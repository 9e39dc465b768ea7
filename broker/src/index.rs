//! The two indexes of a segment: where to look, never what is there.
//!
//! An entry is 20 bytes, big-endian: `key u64`, `value u64`, and the CRC-32 of those 16 bytes, so that zeros and rot are
//! not entries. A segment's indexes get one entry each whenever the number of its records reaches a multiple of the
//! interval:
//!
//! | file         | key                                         | value                                            |
//! | ------------ | ------------------------------------------- | ------------------------------------------------ |
//! | `.index`     | the record's offset                         | its byte position in the log                     |
//! | `.timeindex` | the largest timestamp of the segment so far | the offset of the first record that had it       |
//!
//! The keys of `.index` ascend; those of `.timeindex` never descend, even where the clock ran backwards.
//!
//! Both files are derived from the log. Whoever looks something up checks the record that it leads to; where the entry
//! was wrong, the search starts at the segment's beginning. That costs time, never an answer.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::disk::{self, Disk, DiskFile};
use crate::files;
use crate::record::HEADER_BYTES;
use crate::units::{Offset, Position};

/// Bytes of an entry.
pub const ENTRY_BYTES: usize = 20;

/// One line of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What is looked up.
    pub key: u64,
    /// What it leads to.
    pub value: u64,
}

impl Entry {
    /// Its bytes in the file.
    pub fn encode(self) -> [u8; ENTRY_BYTES] {
        let mut bytes = [0; ENTRY_BYTES];
        bytes[0..8].copy_from_slice(&self.key.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.value.to_be_bytes());
        let crc = crc32fast::hash(&bytes[..16]);
        bytes[16..].copy_from_slice(&crc.to_be_bytes());
        bytes
    }

    /// The entry in these bytes, if the checksum fits.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; ENTRY_BYTES] = bytes.try_into().ok()?;
        let word = |at: usize| u64::from_be_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        let crc = u32::from_be_bytes(bytes[16..].try_into().expect("4 bytes"));
        (crc == crc32fast::hash(&bytes[..16])).then(|| Entry { key: word(0), value: word(8) })
    }
}

/// The bytes of all these entries.
pub fn encode_all(entries: &[Entry]) -> Vec<u8> {
    entries.iter().flat_map(|e| e.encode()).collect()
}

/// All entries of an index file's bytes; `None` if it is not made of whole, valid entries in order. `strict`: keys must
/// ascend, otherwise they must not descend. Values must ascend in the same way.
pub fn decode_all(bytes: &[u8], strict: bool) -> Option<Vec<Entry>> {
    if !bytes.len().is_multiple_of(ENTRY_BYTES) {
        return None;
    }
    let entries: Vec<_> = bytes.chunks_exact(ENTRY_BYTES).map(Entry::decode).collect::<Option<_>>()?;
    let in_order = |a: u64, b: u64| if strict { a < b } else { a <= b };
    let ordered =
        entries.windows(2).all(|w| in_order(w[0].key, w[1].key) && in_order(w[0].value, w[1].value));
    ordered.then_some(entries)
}

/// The places that an index file names, whatever else is in it; it is read when somebody asks.
pub struct Named<'a, D> {
    disk: &'a D,
    path: PathBuf,
    limit: u64,
    places: OnceCell<BTreeMap<u64, u64>>,
}

impl<'a, D: Disk> Named<'a, D> {
    /// Those of this file, which belongs to a log of so many bytes.
    pub fn new(disk: &'a D, path: PathBuf, log: u64) -> Self {
        Self { disk, path, limit: bytes_max(log), places: OnceCell::new() }
    }

    /// Whether one of them is the place of the record with this offset.
    pub fn has(&self, offset: Offset, position: Position) -> bool {
        self.places.get_or_init(|| self.read()).get(&offset.get()) == Some(&position.get())
    }

    fn read(&self) -> BTreeMap<u64, u64> {
        let bytes = files::read_small(self.disk, &self.path, self.limit).ok().flatten().unwrap_or_default();
        let entries = bytes.chunks(ENTRY_BYTES).filter_map(Entry::decode);
        entries.map(|entry| (entry.key, entry.value)).collect()
    }
}

/// The most bytes that an index can have whose log has so many.
pub fn bytes_max(log: u64) -> u64 {
    (log / HEADER_BYTES as u64 + 1) * ENTRY_BYTES as u64
}

/// An index file that is being read. It may lack its newest entries, which costs time only.
#[derive(Clone, Debug)]
pub struct Reader<F> {
    file: Arc<F>,
    entries: u64,
}

impl<F: DiskFile> Reader<F> {
    /// Reads the first `entries` entries of a file.
    pub fn new(file: Arc<F>, entries: u64) -> Self {
        Self { file, entries }
    }

    /// The last entry that `before` holds for, where it holds for all entries up to some point and for none behind it.
    /// `None`: there is none, or the file is not what it should be.
    pub fn last_where(&self, before: impl Fn(Entry) -> bool) -> Option<Entry> {
        let (mut low, mut high, mut best) = (0, self.entries, None);
        while low < high {
            let middle = low + (high - low) / 2;
            let entry = self.get(middle)?;
            if before(entry) {
                best = Some(entry);
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        best
    }

    fn get(&self, i: u64) -> Option<Entry> {
        let mut bytes = [0; ENTRY_BYTES];
        let n = disk::read_full_at(&*self.file, &mut bytes, i * ENTRY_BYTES as u64).ok()?;
        Entry::decode(&bytes[..n])
    }
}

/// An index file that grows with its segment. Entries that could not be written wait, and are written later.
#[derive(Debug)]
pub struct Writer<F> {
    path: PathBuf,
    file: Arc<F>,
    /// Bytes that are in the file.
    len: u64,
    pending: Vec<u8>,
}

impl<F: DiskFile> Writer<F> {
    /// Goes on behind the `len` bytes that are in the file.
    pub fn new(path: PathBuf, file: F, len: u64) -> Self {
        Self { path, file: Arc::new(file), len, pending: Vec::new() }
    }

    /// Has all of `pending` to write, in the place of what is in the file.
    pub fn waiting(path: PathBuf, file: F, pending: Vec<u8>) -> Self {
        Self { path, file: Arc::new(file), len: 0, pending }
    }

    /// Where it is.
    pub fn path(&self) -> &PathBuf {
        &self.path
    }

    /// Takes one more entry, which [`Writer::flush`] writes.
    pub fn push(&mut self, entry: Entry) {
        self.pending.extend_from_slice(&entry.encode());
    }

    /// Writes what waits. After an error it waits on; a part that was written is written over.
    pub fn flush(&mut self) -> io::Result<()> {
        if !self.pending.is_empty() {
            disk::write_full_at(&*self.file, &self.pending, self.len)?;
            self.len += self.pending.len() as u64;
            self.pending.clear();
        }
        Ok(())
    }

    /// The file.
    pub fn file(&self) -> &Arc<F> {
        &self.file
    }

    /// The bytes that are in the file.
    pub fn file_len(&self) -> u64 {
        self.len
    }

    /// Whether every entry is in the file.
    pub fn is_complete(&self) -> bool {
        self.pending.is_empty()
    }

    /// For looking up among the entries that are in the file.
    pub fn reader(&self) -> Reader<F> {
        Reader::new(self.file.clone(), self.len / ENTRY_BYTES as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{Open, OsDisk};

    #[test]
    fn zeros_and_every_flipped_bit_are_not_entries() {
        assert_eq!(Entry::decode(&[0; ENTRY_BYTES]), None);
        let entry = Entry { key: 2, value: 78 };
        let bytes = entry.encode();
        assert_eq!(Entry::decode(&bytes), Some(entry));
        for bit in 0..ENTRY_BYTES * 8 {
            let mut broken = bytes;
            broken[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Entry::decode(&broken), None, "bit {bit}");
        }
    }

    #[test]
    fn the_entry_of_offset_0_at_position_0_is_an_entry_like_any_other() {
        let first = Entry { key: 0, value: 0 };
        assert_eq!(decode_all(&first.encode(), true), Some(vec![first]));
    }

    #[test]
    fn order_is_checked() {
        let of = |pairs: &[(u64, u64)]| {
            encode_all(&pairs.iter().map(|&(key, value)| Entry { key, value }).collect::<Vec<_>>())
        };
        assert!(decode_all(&of(&[(1, 10), (2, 20)]), true).is_some());
        assert!(decode_all(&of(&[(1, 10), (1, 20)]), true).is_none());
        assert!(decode_all(&of(&[(1, 10), (1, 10)]), false).is_some());
        assert!(decode_all(&of(&[(2, 10), (1, 10)]), false).is_none());
        assert!(decode_all(&of(&[(1, 10)])[..19], true).is_none());
    }

    #[test]
    fn a_lookup_finds_the_last_entry_at_or_below() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.index");
        let file = OsDisk.open(&path, Open::Create).unwrap();
        let mut writer = Writer::new(path, file, 0);
        for i in 1..=9 {
            writer.push(Entry { key: i * 10, value: i * 100 });
            writer.flush().unwrap();
        }
        let reader = writer.reader();
        for wanted in 0..120 {
            let found = reader.last_where(|e| e.key <= wanted).map(|e| e.key);
            let right = (wanted / 10).min(9) * 10;
            assert_eq!(found, (right > 0).then_some(right), "{wanted}");
        }
    }
}
