//! A 128-bit hash that is the same on every machine and in every build: what duplicate images are told by.
//!
//! Two lanes of multiply-and-fold over 8-byte words, each lane with its own odd constants. Not for adversaries; a
//! chance collision among a billion images is out of reach.

/// Hashes a sequence of numbers and byte strings.
#[derive(Clone)]
pub(crate) struct Hasher {
    a: u64,
    b: u64,
}

const A: u64 = 0x9e37_79b9_7f4a_7c15;
const B: u64 = 0xc2b2_ae3d_27d4_eb4f;

/// The 128-bit product of two words, its halves xored.
#[allow(clippy::cast_possible_truncation)] // the two halves are what is wanted
fn fold(x: u64, y: u64) -> u64 {
    let product = u128::from(x) * u128::from(y);
    (product as u64) ^ ((product >> 64) as u64)
}

impl Default for Hasher {
    fn default() -> Hasher {
        Hasher { a: A, b: B }
    }
}

impl Hasher {
    pub(crate) fn number(&mut self, n: u64) {
        self.a = fold(self.a ^ n, A).wrapping_add(n.rotate_left(23));
        self.b = fold(self.b.wrapping_add(n) | 1, B ^ n.rotate_left(32)) ^ self.b.rotate_left(17);
    }

    pub(crate) fn wide(&mut self, n: u128) {
        #[allow(clippy::cast_possible_truncation)]
        self.number(n as u64);
        #[allow(clippy::cast_possible_truncation)]
        self.number((n >> 64) as u64);
    }

    /// Length first, so that two strings never run into each other.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.number(u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.number(u64::from_le_bytes(last));
    }

    pub(crate) fn finish(&self) -> u128 {
        let mut end = self.clone();
        end.number(0x5eed);
        end.number(end.b);
        u128::from(end.a) << 64 | u128::from(end.b)
    }
}
