//! What stands before a record's value in a consume answer.

use std::ops::Range;

use super::consume::{RECORD, RECORD_OFFSET, RECORD_TIMESTAMP, RECORD_VALUE, record_len};
use super::{number_len, put_number, put_tagged};
use crate::record::RecordRef;
use crate::units::Offset;

/// Numbers below this have seven bytes at most.
const NUMBERS: u64 = 1 << 49;
/// Four tags, two such numbers, and two lengths of at most five bytes.
const BYTES: usize = 28;

/// Kept from one record to the next: those that were appended together differ in their offsets alone. To put all of it together
/// for each takes as long as the rest of encoding a record of 100 bytes.
#[derive(Debug)]
pub(super) struct Head {
    /// What it is right for: a record without a key, with one of these offsets, which have as many bytes, and with a value that is so
    /// long, of this time. No offset: it is right for none.
    offsets: Range<u64>,
    value: usize,
    timestamp: u64,
    bytes: [u8; BYTES],
    len: usize,
    /// Where the offset stands.
    offset_at: Range<usize>,
}

impl Default for Head {
    fn default() -> Self {
        Self { offsets: 0..0, value: 0, timestamp: 0, bytes: [0; BYTES], len: 0, offset_at: 0..0 }
    }
}

impl Head {
    /// Whether this record has such a head. It is made anew where it differs from the last one.
    #[inline]
    pub fn fits(&mut self, found: &RecordRef<'_>) -> bool {
        let (offset, timestamp) = (found.offset.get(), found.timestamp.get());
        let is_alike = self.offsets.contains(&offset)
            && self.timestamp == timestamp
            && self.value == found.value.len()
            && found.key.is_none();
        is_alike || self.make(found)
    }

    #[cold]
    fn make(&mut self, found: &RecordRef<'_>) -> bool {
        let (offset, timestamp) = (found.offset.get(), found.timestamp.get());
        if found.key.is_some() || found.value.is_empty() || offset == 0 || offset.max(timestamp) >= NUMBERS {
            return false;
        }
        let mut bytes = Vec::with_capacity(BYTES);
        put_tagged(&mut bytes, RECORD, record_len(found) as u64);
        // Behind its tag.
        let offset_at = bytes.len() + 1;
        let offset_len = number_len(offset) - 1;
        self.offset_at = offset_at..offset_at + offset_len;
        put_number(&mut bytes, RECORD_OFFSET, offset);
        put_number(&mut bytes, RECORD_TIMESTAMP, timestamp);
        put_tagged(&mut bytes, RECORD_VALUE << 3 | 2, found.value.len() as u64);
        self.len = bytes.len();
        self.bytes[..self.len].copy_from_slice(&bytes);
        let first = if offset_len == 1 { 1 } else { 1 << (7 * (offset_len - 1)) };
        (self.offsets, self.timestamp, self.value) =
            (first..1 << (7 * offset_len), timestamp, found.value.len());
        true
    }

    /// How many bytes it has.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Adds it to `out`, with an offset that it is right for.
    #[inline]
    pub fn put(&mut self, out: &mut Vec<u8>, offset: Offset) {
        let mut left = offset.get();
        for byte in &mut self.bytes[self.offset_at.clone()] {
            let [low, ..] = left.to_le_bytes();
            *byte = low | 0x80;
            left >>= 7;
        }
        self.bytes[self.offset_at.end - 1] &= 0x7f;
        // All of it and then without what it has too many, since a copy of a fixed length is cheaper.
        let end = out.len() + self.len;
        out.extend_from_slice(&self.bytes);
        out.truncate(end);
    }
}
