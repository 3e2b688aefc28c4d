//! Log blocks: the unit of checksum, writing and shipping.
//!
//! ```text
//! 0 magic u32 | 4 checksum u32 (of everything after) | 8 lsn u64 | 16 length u32 (without padding) | 20 incarnation u32
//! 24 hardened u64 (position known to be hard when the block was sealed) | 32 records .. padded to 4 KiB
//! ```
//! The incarnation grows with every recovery, so that blocks which a crash left beyond the end of the good stream can
//! never be taken for its continuation.

use crate::bytes::*;

const MAGIC: u32 = 0x4B4C_4244; // "DBLK"
/// Bytes of a block before its records.
pub const BLOCK_HEADER_BYTES: usize = 32;
/// Blocks start and end at multiples of this, so a hard byte is never rewritten (also on 4 KiB sectors).
pub const BLOCK_ALIGN_BYTES: usize = 4096;
/// Longest block: one write and, with others, one sync.
pub const BLOCK_BYTES_MAX: usize = 60 << 10;
/// Longest record; larger changes take several.
pub const RECORD_BYTES_MAX: usize = BLOCK_BYTES_MAX - BLOCK_HEADER_BYTES;

/// The block that records are being appended to.
pub struct OpenBlock {
    lsn: u64,
    offset: u64,
    /// It takes no more bytes.
    limit: usize,
    bytes: Vec<u8>,
}

impl OpenBlock {
    /// `bytes` is an empty buffer, perhaps one that another block has used.
    pub fn new(lsn: u64, offset: u64, mut bytes: Vec<u8>) -> OpenBlock {
        bytes.resize(BLOCK_HEADER_BYTES, 0);
        let limit = BLOCK_BYTES_MAX;
        OpenBlock {
            lsn,
            offset,
            limit,
            bytes,
        }
    }

    /// One that lies in `room` bytes, a multiple of the alignment.
    pub fn within(self, room: u64) -> OpenBlock {
        debug_assert!(room.is_multiple_of(BLOCK_ALIGN_BYTES as u64));
        let limit = BLOCK_BYTES_MAX.min(usize::try_from(room).unwrap_or(BLOCK_BYTES_MAX));
        OpenBlock { limit, ..self }
    }

    /// Position of its first byte in the log.
    pub fn lsn(&self) -> u64 {
        self.lsn
    }
    /// Where it will lie in the file.
    pub fn offset(&self) -> u64 {
        self.offset
    }
    /// Bytes so far, header included.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }
    /// Header, not filled in yet, and records.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
    /// Has it room for a record of this length?
    pub fn fits(&self, record_bytes: usize) -> bool {
        self.bytes.len() + record_bytes <= self.limit
    }

    /// Adds a record; its LSN. The buffer grows to what a padded block may take and no further: blocks stay in memory for a while.
    pub fn push(&mut self, record: &[u8]) -> u64 {
        let lsn = self.lsn + self.bytes.len() as u64;
        let needed = padded_bytes(self.bytes.len() + record.len());
        if needed > self.bytes.capacity() {
            let roomy = (2 * self.bytes.capacity()).min(BLOCK_BYTES_MAX);
            self.bytes
                .reserve_exact(needed.max(roomy) - self.bytes.len());
        }
        self.bytes.extend_from_slice(record);
        lsn
    }

    /// The block with length, checksum and padding: it never changes again.
    pub fn seal(mut self, incarnation: u32, hardened: u64) -> Vec<u8> {
        let len = self.bytes.len();
        self.bytes
            .resize(len.next_multiple_of(BLOCK_ALIGN_BYTES), 0);
        put_u32(&mut self.bytes, 0, MAGIC);
        put_u64(&mut self.bytes, 8, self.lsn);
        put_u32(&mut self.bytes, 16, len as u32);
        put_u32(&mut self.bytes, 20, incarnation);
        put_u64(&mut self.bytes, 24, hardened);
        let sum = crc32c::crc32c(&self.bytes[8..]);
        put_u32(&mut self.bytes, 4, sum);
        self.bytes
    }
}

/// Finding about the bytes at a block's place.
#[derive(Debug, PartialEq, Eq)]
pub enum Found {
    /// Length with and without padding.
    Block { padded: usize, used: usize },
    /// Not a block, or one of an earlier cycle.
    Nothing,
    /// Has this block's header but a wrong checksum: torn or damaged.
    Torn,
}

/// Looks at `bytes` where block `lsn` should start. `bytes` may be longer than the block.
pub fn inspect(bytes: &[u8], lsn: u64, incarnation: u32) -> Found {
    if claimed_lsn(bytes) != Some(lsn) || get_u32(bytes, 20) != incarnation {
        return Found::Nothing;
    }
    let used = get_u32(bytes, 16) as usize;
    if !(BLOCK_HEADER_BYTES..=BLOCK_BYTES_MAX).contains(&used) {
        return Found::Torn;
    }
    let padded = padded_bytes(used);
    match bytes.get(8..padded) {
        Some(content) if crc32c::crc32c(content) == get_u32(bytes, 4) => {
            Found::Block { padded, used }
        }
        _ => Found::Torn,
    }
}

/// LSN that a block header claims, if these bytes look like one at all.
pub fn claimed_lsn(bytes: &[u8]) -> Option<u64> {
    (bytes.len() >= BLOCK_HEADER_BYTES && get_u32(bytes, 0) == MAGIC).then(|| get_u64(bytes, 8))
}

/// Length with padding of a block that uses so many bytes.
pub fn padded_bytes(used: usize) -> usize {
    used.next_multiple_of(BLOCK_ALIGN_BYTES)
}

/// Length without padding of a block that is known to be whole.
pub fn used_bytes(bytes: &[u8]) -> usize {
    (get_u32(bytes, 16) as usize).min(bytes.len())
}

/// Incarnation that a block header claims.
pub fn incarnation_of(bytes: &[u8]) -> u32 {
    get_u32(bytes, 20)
}

/// Position that was known to be hard when this block was sealed.
pub fn hardened_before(bytes: &[u8]) -> u64 {
    get_u64(bytes, 24)
}

/// The record that starts at `at` within a block.
pub fn record_at(block: &[u8], at: usize) -> Option<&[u8]> {
    let len = get_u32(block.get(at..at + 4)?, 0) as usize;
    if len < super::record::RECORD_HEADER_BYTES {
        return None;
    }
    block.get(at..at.checked_add(len)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_takes_no_more_than_a_block() {
        for record_bytes in [40, 4_000, 8_200, 20_000, 31_000, RECORD_BYTES_MAX] {
            let mut open = OpenBlock::new(8192, 0, Vec::with_capacity(BLOCK_ALIGN_BYTES));
            while open.fits(record_bytes) {
                open.push(&vec![1; record_bytes]);
            }
            let sealed = open.seal(3, 0);
            assert!(
                sealed.capacity() <= BLOCK_BYTES_MAX,
                "{record_bytes}: {} bytes",
                sealed.capacity()
            );
        }
    }

    #[test]
    fn any_flipped_byte_is_noticed() {
        let mut open = OpenBlock::new(8192, 0, Vec::new());
        open.push(&[
            40, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20,
        ]);
        let sealed = open.seal(3, 0);
        assert_eq!(
            inspect(&sealed, 8192, 3),
            Found::Block {
                padded: 4096,
                used: 56
            }
        );
        for at in 0..sealed.len() {
            let mut bad = sealed.clone();
            bad[at] ^= 0x10;
            assert!(
                !matches!(inspect(&bad, 8192, 3), Found::Block { .. }),
                "byte {at}"
            );
        }
        assert_eq!(inspect(&sealed, 4096, 3), Found::Nothing);
        assert_eq!(inspect(&sealed, 8192, 4), Found::Nothing);
    }
}
