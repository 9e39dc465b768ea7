//! Records on their way into a partition: encoded once, offsets and checksums set under the partition's lock.

use crate::record::{self, NewRecord};
use crate::units::{Offset, Timestamp};

/// How many records are numbered before their checksums are set.
const AT_ONCE: usize = 16;

/// Encoded records without offsets, appended together or not at all. Can be cleared and used again.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    bytes: Vec<u8>,
    /// Where each record ends in `bytes`.
    ends: Vec<usize>,
}

impl Batch {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a record. The caller has checked its size against the limit.
    pub fn push(&mut self, key: Option<&[u8]>, value: &[u8]) {
        record::encode(&mut self.bytes, key, value);
        self.ends.push(self.bytes.len());
    }

    /// How many records.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether it has no records.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// How many bytes the records take on disk.
    pub fn byte_len(&self) -> usize {
        self.bytes.len()
    }

    /// How many bytes of memory it has, used or not.
    pub(crate) fn memory(&self) -> usize {
        self.bytes.capacity() + self.ends.capacity() * size_of::<usize>()
    }

    /// Removes all records and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Numbers the records from `base`, stamps them, and sets their checksums.
    ///
    /// Some records at a time are numbered first: a checksum that reads what has just been written has to wait for it,
    /// which with records of 100 bytes takes as long as the checksum.
    pub(crate) fn seal(&mut self, base: Offset, timestamp: Timestamp) {
        let (mut first, mut offset) = (0, base);
        for ends in self.ends.chunks(AT_ONCE) {
            let mut start = first;
            for &end in ends {
                record::place(&mut self.bytes[start..end], offset, timestamp);
                (start, offset) = (end, offset.plus(1));
            }
            let mut start = first;
            for &end in ends {
                record::close(&mut self.bytes[start..end]);
                start = end;
            }
            first = start;
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Where the record with this number starts in [`Batch::bytes`].
    pub(crate) fn start(&self, nth: u64) -> usize {
        let before = usize::try_from(nth).ok().and_then(|nth| nth.checked_sub(1));
        before.map_or(0, |before| self.ends[before])
    }
}

impl<'a> FromIterator<&'a NewRecord> for Batch {
    fn from_iter<T: IntoIterator<Item = &'a NewRecord>>(records: T) -> Self {
        let mut batch = Self::new();
        for record in records {
            batch.push(record.key.as_deref(), &record.value);
        }
        batch
    }
}
