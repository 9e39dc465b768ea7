//! Reads plain protobuf in place.

use std::ops::Range;

/// Reads protobuf from a place in `bytes`; everything is `None` where the bytes do not fit.
pub struct Cursor<'a> {
    pub bytes: &'a [u8],
    pub at: usize,
}

impl<'a> Cursor<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Goes past this tag; stays where another is.
    pub fn tag(&mut self, tag: u8) -> Option<()> {
        (*self.bytes.get(self.at)? == tag).then(|| self.at += 1)
    }

    pub fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = *self.bytes.get(self.at)?;
            self.at += 1;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                // Of the tenth byte, one bit is left.
                return (shift < 63 || byte <= 1).then_some(value);
            }
        }
        None
    }

    /// Goes past a length and what has that length.
    pub fn content(&mut self) -> Option<Range<usize>> {
        let len = usize::try_from(self.varint()?).ok()?;
        let start = self.at;
        let end = start.checked_add(len).filter(|&end| end <= self.bytes.len())?;
        self.at = end;
        Some(start..end)
    }

    /// The number of a field that is left out where it is 0.
    pub fn number(&mut self, tag: u8) -> Option<u64> {
        match self.tag(tag) {
            Some(()) => self.varint(),
            None => Some(0),
        }
    }
}
