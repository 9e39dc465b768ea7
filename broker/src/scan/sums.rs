//! Checksums of any stretch of a log at about the same cost, however long the stretch.
//!
//! What looks like a header announces a record of up to 16 MiB, and a value can be made of nothing but such headers: to
//! compute the checksum of each announced record would take hours. Of CRC-32, though, the checksum of a stretch follows from
//! those of what comes before its two ends. Those are computed once for every [`STEP`] bytes, in one pass.

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
pub(super) struct Sums {
    from: u64,
    known: Vec<u32>,
}

impl Sums {
    /// Of all bytes from `from` on, read through a window of their own.
    pub fn new<F: DiskFile>(window: &mut Window<'_, F>, from: u64) -> io::Result<Self> {
        let mut known = vec![0];
        let mut hasher = crc32fast::Hasher::new();
        let mut at = from;
        loop {
            let bytes = window.bytes(at, STEP)?;
            let Some(step) = bytes.get(..STEP) else { return Ok(Self { from, known }) };
            hasher.update(step);
            known.push(hasher.clone().finalize());
            at += STEP as u64;
        }
    }

    /// Whether the record that is announced at `at`, in `len` bytes that are all there, has the checksum that it says it has.
    pub fn confirm<F: DiskFile>(&self, window: &mut Window<'_, F>, at: u64, len: u64) -> io::Result<bool> {
        let Some(&head) = window.bytes(at, CRC_AT.end)?.first_chunk::<{ CRC_AT.end }>() else {
            return Ok(false);
        };
        let (head, stored) = head.split_at(CRC_AT.start);
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(head);
        let (start, end) = (at + CRC_AT.end as u64, at + len);
        let (before_start, before_end) = (self.upto(window, start)?, self.upto(window, end)?);
        let rest = follow(before_start, 0, end - start) ^ before_end;
        Ok(follow(hasher.finalize(), rest, end - start).to_be_bytes() == *stored)
    }

    /// The checksum of everything before `end`.
    fn upto<F: DiskFile>(&self, window: &mut Window<'_, F>, end: u64) -> io::Result<u32> {
        let steps = usize::try_from((end - self.from) / STEP as u64).unwrap_or(usize::MAX);
        let steps = steps.min(self.known.len() - 1);
        let before = (steps * STEP) as u64;
        let at = self.from + before;
        let mut hasher = crc32fast::Hasher::new_with_initial_len(self.known[steps], before);
        let rest = usize::try_from(end - at).unwrap_or(usize::MAX);
        hasher.update(window.bytes(at, rest)?.get(..rest).unwrap_or_default());
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
                    let mut window = Window::small(&file, bytes.len() as u64);
                    let sums = Sums::new(&mut window, from as u64).unwrap();
                    let confirmed = sums.confirm(&mut window, at as u64, len).unwrap();
                    assert_eq!(confirmed, flipped.is_none(), "{len} bytes behind {before}, {flipped:?}");
                }
            }
        }
    }
}
