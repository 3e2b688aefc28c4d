//! A fast hash for maps that are asked for every statement and keyed by numbers of the server's own making.
//!
//! Theory: each word is mixed in by one wide multiplication, whose halves are folded together. It spreads well and costs
//! a few cycles, but whoever chooses the keys can make them collide, so maps keyed by text from clients keep the
//! standard library's hash.

use std::hash::{BuildHasherDefault, Hasher};

/// Builds [`FastHasher`]s: for keys that no stranger chooses.
pub type FastHash = BuildHasherDefault<FastHasher>;

/// Folds each word into a product of 128 bits. A stranger who chooses keys can make them collide.
#[derive(Clone, Copy, Debug, Default)]
pub struct FastHasher(u64);

/// Odd, without a pattern: the fraction of the golden ratio, and one of pi.
const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
const START: u64 = 0x243F_6A88_85A3_08D3;

impl FastHasher {
    #[inline]
    fn mix(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word ^ START) * u128::from(FACTOR);
        self.0 = (product as u64) ^ ((product >> 64) as u64);
    }
}

impl Hasher for FastHasher {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|w| self.mix(u64::from_le_bytes(*w)));
        let mut last = [0; 8];
        last.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
        self.mix(u64::from_le_bytes(last) ^ (bytes.len() as u64) << 56);
    }

    #[inline]
    fn write_u8(&mut self, n: u8) {
        self.mix(u64::from(n));
    }

    #[inline]
    fn write_u16(&mut self, n: u16) {
        self.mix(u64::from(n));
    }

    #[inline]
    fn write_u32(&mut self, n: u32) {
        self.mix(u64::from(n));
    }

    #[inline]
    fn write_u64(&mut self, n: u64) {
        self.mix(n);
    }

    #[inline]
    fn write_i32(&mut self, n: i32) {
        self.mix(n as u32 as u64);
    }

    #[inline]
    fn write_usize(&mut self, n: usize) {
        self.mix(n as u64);
    }

    #[inline]
    fn write_isize(&mut self, n: isize) {
        self.mix(n as u64);
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::hash::BuildHasher;

    #[test]
    fn neighbours_part() {
        let hash = FastHash::default();
        let all: HashSet<u64> = (0..100_000u64).map(|n| hash.hash_one(n)).collect();
        assert_eq!(all.len(), 100_000);
        for bits in [0, 57] {
            let part: HashSet<u64> = (0..4_096u64)
                .map(|n| (hash.hash_one(n) >> bits) & 127)
                .collect();
            assert_eq!(part.len(), 128, "bits from {bits}");
        }
    }

    #[test]
    fn lengths_and_ends_count() {
        let hash = FastHash::default();
        let texts = ["", "a", "a\0", "aaaaaaaa", "aaaaaaaa\0", "aaaaaaab"];
        let all: HashSet<u64> = texts.iter().map(|t| hash.hash_one(t.as_bytes())).collect();
        assert_eq!(all.len(), texts.len());
    }
}
