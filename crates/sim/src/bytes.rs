//! The bytes of a file in pieces, which copies share until one of them is changed: a picture of a disk costs no copy of it.

use std::sync::Arc;

const PIECE_BYTES: usize = 4096;

type Piece = [u8; PIECE_BYTES];

/// Invariant: what the last piece has beyond `len` is zero.
#[derive(Clone, Default)]
pub(crate) struct Bytes {
    pieces: Vec<Arc<Piece>>,
    len: usize,
}

impl Bytes {
    /// Length of the file.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Fills `buf` from `at` on. False, and nothing is read, when the file ends before.
    pub fn read(&self, at: usize, buf: &mut [u8]) -> bool {
        if at + buf.len() > self.len {
            return false;
        }
        for (piece, from, part) in parts(at, buf.len()) {
            let end = from + part.len();
            buf[part].copy_from_slice(&self.pieces[piece][from..end]);
        }
        true
    }

    /// Puts `bytes` at `at`; the file grows if it has to.
    pub fn write(&mut self, at: usize, bytes: &[u8]) {
        if self.len < at + bytes.len() {
            self.resize(at + bytes.len());
        }
        for (piece, from, part) in parts(at, bytes.len()) {
            let (end, bytes) = (from + part.len(), &bytes[part]);
            match <&Piece>::try_from(bytes) {
                Ok(whole) => self.pieces[piece] = Arc::new(*whole),
                Err(_) => {
                    Arc::make_mut(&mut self.pieces[piece])[from..end].copy_from_slice(bytes);
                }
            }
        }
    }

    /// Cuts the file or grows it with zeros.
    pub fn resize(&mut self, len: usize) {
        let kept = len % PIECE_BYTES;
        if len < self.len && kept > 0 {
            Arc::make_mut(&mut self.pieces[len / PIECE_BYTES])[kept..].fill(0);
        }
        let count = len.div_ceil(PIECE_BYTES);
        if count > self.pieces.len() {
            self.pieces.resize(count, Arc::new([0; PIECE_BYTES]));
        }
        self.pieces.truncate(count);
        self.len = len;
    }

    /// Flips bits of one byte, if the file has it.
    pub fn flip(&mut self, at: usize, mask: u8) {
        if at < self.len {
            Arc::make_mut(&mut self.pieces[at / PIECE_BYTES])[at % PIECE_BYTES] ^= mask;
        }
    }

    /// Takes over what lies around `at..at + len` in a file of the same length, in whole pieces.
    pub fn share(&mut self, from: &Bytes, at: usize, len: usize) {
        for (piece, ..) in parts(at, len) {
            if let (Some(to), Some(from)) = (self.pieces.get_mut(piece), from.pieces.get(piece)) {
                to.clone_from(from);
            }
        }
    }

    /// A copy of all of it.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut all = self
            .pieces
            .iter()
            .flat_map(|p| p.iter().copied())
            .collect::<Vec<u8>>();
        all.truncate(self.len);
        all
    }
}

/// Number of each piece of `at..at + len`, where in it the range begins, and which part of the range it has.
fn parts(at: usize, len: usize) -> impl Iterator<Item = (usize, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let from = (at + done) % PIECE_BYTES;
        let count = (PIECE_BYTES - from).min(len - done);
        let part = done..done + count;
        done += count;
        (count > 0).then_some(((at + part.start) / PIECE_BYTES, from, part))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SimRandom;

    /// Against plain vectors: two files, written, cut, grown and copied from each other at random.
    #[test]
    fn pieces_are_as_good_as_a_vector() {
        let random = SimRandom::new(4);
        let (mut file, mut plain) = (Bytes::default(), Vec::new());
        let (mut copy, mut plain_copy) = (Bytes::default(), Vec::new());
        for round in 0..2_000u64 {
            let (at, len) = (random.below(20_000) as usize, random.below(9_000) as usize);
            match random.below(5) {
                0 => {
                    file.resize(at);
                    plain.resize(at, 0);
                }
                1 => (copy, plain_copy) = (file.clone(), plain.clone()),
                2 => (file, plain) = (copy.clone(), plain_copy.clone()),
                3 if at < plain.len() => {
                    file.flip(at, 1 << (round % 8));
                    plain[at] ^= 1 << (round % 8);
                }
                _ => {
                    let bytes = vec![round as u8; len];
                    file.write(at, &bytes);
                    plain.resize(plain.len().max(at + len), 0);
                    plain[at..at + len].copy_from_slice(&bytes);
                }
            }
            assert_eq!((file.len(), copy.len()), (plain.len(), plain_copy.len()));
            assert!(
                file.to_vec() == plain && copy.to_vec() == plain_copy,
                "round {round}"
            );
            let mut read = vec![0; len];
            assert_eq!(file.read(at, &mut read), at + len <= plain.len());
            if at + len <= plain.len() {
                assert!(read == plain[at..at + len], "round {round}");
            }
        }
    }

    #[test]
    fn a_shared_range_is_the_others() {
        let mut all = Bytes::default();
        all.write(0, &[1; 30_000]);
        let mut other = Bytes::default();
        other.resize(30_000);
        other.share(&all, 5_000, 4_000);
        let mut read = [0; 4_000];
        assert!(other.read(5_000, &mut read));
        assert_eq!(read, [1; 4_000]);
        let mut beyond = [0; 100];
        assert!(other.read(20_000, &mut beyond));
        assert_eq!(beyond, [0; 100]);
    }
}
