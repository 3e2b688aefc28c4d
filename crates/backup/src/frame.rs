//! Frames: the unit of checksum, compression and reading.
//!
//! ```text
//! 0 magic u32 | 4 checksum u32 (of bytes 8..64) | 8 kind u8 | 9 codec u8 | 10 family u16 | 12 position u32
//! 16 set u64 | 24 number u64 | 32 plain length u32 | 36 stored length u32 | 40 checksum of the stored payload u32
//! 44 items u32 | 48 seal 16 (of an encrypted set) | 64 payload
//! ```
//! `set`, `position`, `family` and `number` make every frame unique: one from another set or stripe is never taken
//! for this one. Payload checksums cover what is stored, so damage is found before anything is decompressed.

use crate::codec::Compression;

/// Bytes of a frame before its payload.
pub const FRAME_HEADER_BYTES: usize = 64;
/// Authentication tag of an encrypted payload, or of the description of an encrypted set; otherwise zero.
pub const SEAL_BYTES: usize = 16;
const MAGIC: u32 = u32::from_le_bytes(*b"DBK1");
/// Format of the media that this release writes: the last character of the first four bytes.
pub const MEDIUM_FORMAT: char = '1';
/// Longest payload, plain or stored: a bound for what a damaged length can make us read.
pub const PAYLOAD_BYTES_MAX: usize = 64 << 20;

/// Content of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Label of a media family: the first frame of a file.
    Media = 1,
    /// A set begins.
    SetBegin = 2,
    Pages = 3,
    Log = 4,
    /// Where the frames of a set lie in this file.
    Index = 5,
    /// The description of a whole set.
    SetEnd = 6,
    /// The sets of this file.
    Directory = 7,
    /// The last 64 bytes of a whole file; `number` is where its directory begins.
    Tail = 8,
}

impl Kind {
    fn from_u8(v: u8) -> Option<Kind> {
        use Kind::*;
        [Media, SetBegin, Pages, Log, Index, SetEnd, Directory, Tail]
            .into_iter()
            .find(|k| *k as u8 == v)
    }
}

/// Header of a frame, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub kind: Kind,
    pub codec: Compression,
    pub family: u16,
    /// Position of the set in the media, from 1.
    pub position: u32,
    pub set: u64,
    pub number: u64,
    pub plain_bytes: u32,
    pub stored_bytes: u32,
    pub payload_checksum: u32,
    /// Pages or log blocks, for the reader's information.
    pub items: u32,
    pub seal: [u8; SEAL_BYTES],
}

impl Header {
    /// Header of a frame with this payload, stored as it is.
    pub fn plain(kind: Kind, family: u16, position: u32, set: u64, payload: &[u8]) -> Header {
        Header {
            kind,
            codec: Compression::None,
            family,
            position,
            set,
            number: 0,
            plain_bytes: payload.len() as u32,
            stored_bytes: payload.len() as u32,
            payload_checksum: crc32c::crc32c(payload),
            items: 0,
            seal: [0; SEAL_BYTES],
        }
    }

    /// Bytes that an encrypted payload is authenticated with: all but those that depend on the encryption itself.
    pub fn sealed_part(&self) -> [u8; FRAME_HEADER_BYTES] {
        let plain = Header {
            payload_checksum: 0,
            seal: [0; SEAL_BYTES],
            ..*self
        };
        plain.encode()
    }

    /// The header's bytes with their checksum.
    pub fn encode(&self) -> [u8; FRAME_HEADER_BYTES] {
        let mut out = [0; FRAME_HEADER_BYTES];
        let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &MAGIC.to_le_bytes());
        put(8, &[self.kind as u8, self.codec.code()]);
        put(10, &self.family.to_le_bytes());
        put(12, &self.position.to_le_bytes());
        put(16, &self.set.to_le_bytes());
        put(24, &self.number.to_le_bytes());
        put(32, &self.plain_bytes.to_le_bytes());
        put(36, &self.stored_bytes.to_le_bytes());
        put(40, &self.payload_checksum.to_le_bytes());
        put(44, &self.items.to_le_bytes());
        put(48, &self.seal);
        let sum = crc32c::crc32c(&out[8..]);
        out[4..8].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// `None` when these bytes are no intact header.
    pub fn decode(bytes: &[u8]) -> Option<Header> {
        let bytes: &[u8; FRAME_HEADER_BYTES] = bytes.get(..FRAME_HEADER_BYTES)?.try_into().ok()?;
        let u32_at = |at: usize| {
            bytes
                .get(at..at + 4)?
                .try_into()
                .ok()
                .map(u32::from_le_bytes)
        };
        let u64_at = |at: usize| {
            bytes
                .get(at..at + 8)?
                .try_into()
                .ok()
                .map(u64::from_le_bytes)
        };
        if u32_at(0)? != MAGIC || u32_at(4)? != checksum_of(bytes) {
            return None;
        }
        let header = Header {
            kind: Kind::from_u8(bytes[8])?,
            codec: Compression::from_code(bytes[9])?,
            family: u16::from_le_bytes([bytes[10], bytes[11]]),
            position: u32_at(12)?,
            set: u64_at(16)?,
            number: u64_at(24)?,
            plain_bytes: u32_at(32)?,
            stored_bytes: u32_at(36)?,
            payload_checksum: u32_at(40)?,
            items: u32_at(44)?,
            seal: bytes.get(48..)?.try_into().ok()?,
        };
        let bounded = header.plain_bytes.max(header.stored_bytes) as usize <= PAYLOAD_BYTES_MAX;
        bounded.then_some(header)
    }
}

/// Could these be the first bytes of a media family? One that was damaged or not finished begins so too, and one of a later release.
pub fn begins_medium(bytes: [u8; 4]) -> bool {
    medium_format(bytes).is_some()
}

/// The format that the first bytes of a media family name, a digit; `None` when they are no such bytes, but those of somebody else's file.
pub fn medium_format(bytes: [u8; 4]) -> Option<char> {
    let [d, b, k, format] = bytes;
    let is_format = format.is_ascii_digit() && format >= MEDIUM_FORMAT as u8;
    ([d, b, k] == *b"DBK" && is_format).then_some(char::from(format))
}

/// Checksum of a header, as the index of a set keeps it.
pub fn checksum_of(header: &[u8; FRAME_HEADER_BYTES]) -> u32 {
    crc32c::crc32c(&header[8..])
}

/// Where a frame of a set lies, and what it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexEntry {
    pub offset: u64,
    pub stored_bytes: u32,
    pub header_checksum: u32,
    pub kind: Kind,
    pub items: u32,
    /// Lowest and highest page, packed, or first and end position in the log.
    pub first: u64,
    pub last: u64,
}

/// Bytes of an [`IndexEntry`] in the payload of an index frame.
pub const INDEX_ENTRY_BYTES: usize = 40;

impl IndexEntry {
    /// Appends the entry's bytes.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.offset.to_le_bytes());
        out.extend_from_slice(&self.stored_bytes.to_le_bytes());
        out.extend_from_slice(&self.header_checksum.to_le_bytes());
        out.extend_from_slice(&(self.kind as u32).to_le_bytes());
        out.extend_from_slice(&self.items.to_le_bytes());
        out.extend_from_slice(&self.first.to_le_bytes());
        out.extend_from_slice(&self.last.to_le_bytes());
    }

    /// All entries of an index frame's payload; `None` when it is not made of whole, known ones.
    pub fn read_all(bytes: &[u8]) -> Option<Vec<IndexEntry>> {
        let entries = bytes.chunks(INDEX_ENTRY_BYTES).map(|chunk| {
            let u32_at = |at: usize| {
                chunk
                    .get(at..at + 4)?
                    .try_into()
                    .ok()
                    .map(u32::from_le_bytes)
            };
            let u64_at = |at: usize| {
                chunk
                    .get(at..at + 8)?
                    .try_into()
                    .ok()
                    .map(u64::from_le_bytes)
            };
            let stored_bytes = u32_at(8)?;
            (stored_bytes as usize <= PAYLOAD_BYTES_MAX).then_some(())?;
            Some(IndexEntry {
                offset: u64_at(0)?,
                stored_bytes,
                header_checksum: u32_at(12)?,
                kind: Kind::from_u8(u8::try_from(u32_at(16)?).ok()?)?,
                items: u32_at(20)?,
                first: u64_at(24)?,
                last: u64_at(32)?,
            })
        });
        entries.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_changed_byte_of_a_header_is_noticed() {
        let mut header = Header::plain(Kind::Pages, 3, 2, 77, b"payload");
        header.number = 9;
        let bytes = header.encode();
        assert_eq!(Header::decode(&bytes), Some(header));
        for at in 0..FRAME_HEADER_BYTES {
            for bit in 0..8 {
                let mut bad = bytes;
                bad[at] ^= 1 << bit;
                assert_eq!(Header::decode(&bad), None, "byte {at}, bit {bit}");
            }
        }
        assert_eq!(Header::decode(&bytes[..63]), None);
    }

    #[test]
    fn an_index_comes_back() {
        let entry = IndexEntry {
            offset: 1 << 40,
            stored_bytes: 12,
            header_checksum: 5,
            kind: Kind::Log,
            items: 3,
            first: 8,
            last: 9,
        };
        let mut bytes = Vec::new();
        entry.write(&mut bytes);
        entry.write(&mut bytes);
        assert_eq!(IndexEntry::read_all(&bytes), Some(vec![entry; 2]));
        bytes.pop();
        assert_eq!(IndexEntry::read_all(&bytes), None);
    }
}
