//! The hash of a trace: FNV-1a, 64 bits, over every field of every entry. No address, no random state of a hash map and
//! no real time goes into it, so it is the same in every process of the same build.

use std::hash::{Hash, Hasher};

use super::Entry;

/// FNV over eight bytes a step instead of one: images of whole segments go through it.
#[derive(Clone, Copy)]
pub(super) struct Fnv(u64);

/// Lanes are worth their beginning and end from so many blocks on.
const LANES_FROM: usize = 4;

const PRIME: u64 = 0x0000_0100_0000_01b3;

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    fn step(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(PRIME);
        self.0 ^= self.0 >> 29; // a multiplication moves bits up only
    }

    /// Four words at a time, each in a lane of its own, since a processor multiplies side by side. Gives what is left.
    fn long<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let mut blocks = bytes.chunks_exact(32 * LANES_FROM);
        let mut lanes = [0u64, 1, 2, 3].map(|lane| Self(self.0 ^ lane));
        let mut any = false;
        for block in blocks.by_ref() {
            any = true;
            for words in block.chunks_exact(32) {
                for (lane, word) in lanes.iter_mut().zip(words.chunks_exact(8)) {
                    lane.step(u64::from_le_bytes(word.try_into().expect("chunks of eight")));
                }
            }
        }
        if any {
            lanes.iter().for_each(|lane| self.step(lane.0));
        }
        blocks.remainder()
    }
}

impl Hasher for Fnv {
    fn write(&mut self, bytes: &[u8]) {
        let bytes = self.long(bytes);
        let mut words = bytes.chunks_exact(8);
        for word in &mut words {
            self.step(u64::from_le_bytes(word.try_into().expect("chunks of eight")));
        }
        let rest = words.remainder();
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.step(u64::from_le_bytes(last) ^ (bytes.len() as u64) << 56);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// The hash of these entries.
pub(super) fn of(entries: &[Entry]) -> u64 {
    let mut hasher = Fnv::default();
    entries.hash(&mut hasher);
    hasher.finish()
}
