//! Checksums of any stretch of a log at about the same cost, however long the stretch.
//!
//! What looks like a header announces a record of up to 64 MiB, and a value can be made of nothing but such headers: to
//! compute the checksum of each announced record would take hours. Of CRC-32, though, the checksum of a stretch follows from
//! those of what comes before its two ends, counted from anywhere. Those are computed once for every [`STEP`] bytes.
//!
//! They are computed as far as somebody asks, and kept: a log in which every second record is damaged is passed over once, and
//! not once for each of them.

use std::io;

use super::window::Window;
use crate::disk::DiskFile;
use crate::record::CRC_AT;

/// From one known checksum to the next: the most bytes that are read again for one end of a stretch.
const STEP: usize = 1 << 10;

/// A record of up to this length is worth its own checksum.
pub(super) const SHORT: usize = STEP;

/// The checksums of the bytes from `from` to each step.
#[derive(Debug)]
pub(super) struct Sums<'a, F> {
    from: u64,
    known: Vec<u32>,
    /// Of everything up to the last step.
    hasher: crc32fast::Hasher,
    /// Passes over the log, step by step.
    passing: Window<'a, F>,
    /// Looks at single places.
    places: Window<'a, F>,
}

impl<'a, F: DiskFile> Sums<'a, F> {
    /// Of the first `limit` bytes of a file, from a place on.
    pub fn new(file: &'a F, limit: u64, from: u64) -> Self {
        let (passing, places) = (Window::new(file, limit), Window::small(file, limit));
        Self { from, known: vec![0], hasher: crc32fast::Hasher::new(), passing, places }
    }

    /// From here on nothing before `position` is asked for.
    pub fn go_to(&mut self, position: u64) {
        if !(self.from..=self.covered()).contains(&position) {
            (self.from, self.hasher) = (position, crc32fast::Hasher::new());
            self.known.clear();
            self.known.push(0);
        }
    }

    /// Up to where checksums are known.
    fn covered(&self) -> u64 {
        self.from + ((self.known.len() - 1) * STEP) as u64
    }

    /// Whether the record at `at`, in `len` bytes that are all there, has the checksum that `head`, its first bytes, says it has.
    /// `near`: has read some of it, perhaps.
    pub fn confirm(
        &mut self,
        near: &Window<'_, F>,
        head: &[u8; CRC_AT.end],
        at: u64,
        len: u64,
    ) -> io::Result<bool> {
        let (head, stored) = head.split_at(CRC_AT.start);
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(head);
        let (start, end) = (at + CRC_AT.end as u64, at + len);
        let (before_start, before_end) = (self.upto(near, start)?, self.upto(near, end)?);
        let rest = follow(before_start, 0, end - start) ^ before_end;
        Ok(follow(hasher.finalize(), rest, end - start).to_be_bytes() == *stored)
    }

    /// The checksum of everything before `end`.
    fn upto(&mut self, near: &Window<'_, F>, end: u64) -> io::Result<u32> {
        while self.covered() + STEP as u64 <= end {
            let at = self.covered();
            let Some(step) = self.passing.bytes(at, STEP)?.get(..STEP) else { break };
            self.hasher.update(step);
            self.known.push(self.hasher.clone().finalize());
        }
        let steps = usize::try_from((end - self.from) / STEP as u64).unwrap_or(usize::MAX);
        let steps = steps.min(self.known.len() - 1);
        let before = (steps * STEP) as u64;
        let at = self.from + before;
        let mut hasher = crc32fast::Hasher::new_with_initial_len(self.known[steps], before);
        let rest = usize::try_from(end - at).unwrap_or(usize::MAX);
        match near.held(at, rest) {
            Some(bytes) => hasher.update(bytes),
            None => hasher.update(self.places.bytes(at, rest)?.get(..rest).unwrap_or_default()),
        }
        Ok(hasher.finalize())
    }
}

/// The checksum of bytes with the first checksum followed by `len` bytes with the second.
fn follow(first: u32, second: u32, len: u64) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial_len(first, 0);
    hasher.combine(&crc32fast::Hasher::new_with_initial_len(second, len));
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::batch::Batch;
    use crate::units::{Offset, Timestamp};

    #[test]
    fn a_record_of_any_length_at_any_place_is_confirmed_and_a_changed_one_is_not() {
        for len in [0, 1, 1000, 1024, 5000, 300_000] {
            for before in [0, 1, 1023, 1024, 1025, 4096] {
                let mut batch = Batch::new();
                batch.push(Some(b"key"), &vec![9; len]);
                batch.seal(Offset::new(5), Timestamp::from_millis(7));
                let (from, behind) = (3, 100);
                let mut bytes = vec![1; from + before];
                bytes.extend_from_slice(batch.bytes());
                bytes.resize(bytes.len() + behind, 2);
                let (at, len) = (from + before, batch.byte_len() as u64);
                for flipped in
                    [None, Some(0), Some(14), Some(batch.byte_len() - 1), Some(batch.byte_len() / 2)]
                {
                    let mut bytes = bytes.clone();
                    flipped.into_iter().for_each(|nth| bytes[at + nth] ^= 1);
                    let mut file = tempfile::tempfile().unwrap();
                    file.write_all(&bytes).unwrap();
                    let limit = bytes.len() as u64;
                    let (mut sums, near) =
                        (Sums::new(&file, limit, from as u64), Window::small(&file, limit));
                    let head = bytes[at..].first_chunk().unwrap();
                    let confirmed = sums.confirm(&near, head, at as u64, len).unwrap();
                    assert_eq!(confirmed, flipped.is_none(), "{len} bytes behind {before}, {flipped:?}");
                }
            }
        }
    }
}
