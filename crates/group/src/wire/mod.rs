//! What replicas say to each other, as bytes.
//!
//! ```text
//! 0 magic u32 | 4 version u16 | 6 kind u8 | 7 zero | 8 length u32 of the body | 12 CRC-32C u32 of bytes 0 to 12 and the body | 16 body
//! ```
//! Theory: a frame is one message. Its kind bounds the length of its body before anything is allocated, and every length in a body is
//! bounded by what is left of it. The body of a log block has no padding: the receiver pads with zeros, and the block's own
//! checksum, which covers them, proves what was decompressed as well.
//!
//! Versions: both sides name the versions that they speak in `Hello`, which is the same in all of them, as is `Bye`: both go in frames of
//! [`GREETING_VERSION`], so that builds which cannot speak can say so. They take the highest version that both have.
//! | version | since |
//! |---|---|
//! | 1 | the first; nothing else is read of it any more: log and cluster have states that it does not know |
//! | 2 | pages are asked for and given; a node leaves its cluster for good; the owner's words are counted |
//!
//! Invariants
//! 1. A decoder returns a message or an error, for any bytes.
//! 2. What is encoded decodes to the same.
//!
//! Integers are little-endian. Read next: `message`.

mod bytes;
mod message;

pub use message::{
    Ack, Block, Codec, Codecs, DEFINITION_BYTES_MAX, Hello, LeadTold, Message, NAME_BYTES_MAX,
    PACKET_BYTES_MAX, PAGE_BYTES, PageWanted, Purpose, REASON_BYTES_MAX, SEED_BYTES_MAX, Welcome,
    seed_frame_bytes,
};

use crate::commit::{EpochId, History, Record};
use bytes::{Reader, Writer};

/// The newest version that this build speaks.
pub const VERSION: u16 = 2;
/// The oldest.
pub const VERSION_MIN: u16 = 2;
/// Of frames that every build reads: the greeting, and the word why there is no conversation.
pub const GREETING_VERSION: u16 = 1;
/// Bytes before a body.
pub const FRAME_HEADER_BYTES: usize = 16;
/// Bytes of a log block, header included, at most.
pub const BLOCK_BYTES_MAX: usize = 60 << 10;
/// A body that carries bulk is no longer than this.
const BULK_BODY_BYTES_MAX: usize = BLOCK_BYTES_MAX + 1024;
/// Any other body is no longer than this: a history of 128 epochs and what goes with it.
const CONTROL_BODY_BYTES_MAX: usize = 8 << 10;

const MAGIC: u32 = 0x5052_4744; // "DGRP"

/// Why bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// They do not begin as a frame does.
    #[error("not a frame of this protocol")]
    NotAFrame,
    /// No version that this build speaks.
    #[error("version {0} of the protocol is not spoken here")]
    Version(u16),
    /// No such message.
    #[error("unknown message {0}")]
    Kind(u8),
    /// The body is longer than a message of its kind can be.
    #[error("a body of {found} bytes, and message {kind} has at most {most}")]
    TooLong { kind: u8, found: usize, most: usize },
    /// The checksum is wrong.
    #[error("checksum {found:#010x} instead of {expected:#010x}")]
    Checksum { expected: u32, found: u32 },
    /// The body is not one of its kind.
    #[error("a bad {0}")]
    Body(&'static str),
}

/// The head of a frame, checked as far as it can be without the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    version: u16,
    kind: u8,
    body_bytes: usize,
    checksum: u32,
    summed: u32,
}

impl FrameHeader {
    /// Reads a head.
    pub fn decode(bytes: &[u8; FRAME_HEADER_BYTES]) -> Result<FrameHeader, WireError> {
        let mut reader = Reader::new(bytes);
        if reader.u32()? != MAGIC {
            return Err(WireError::NotAFrame);
        }
        let (version, kind, zero) = (reader.u16()?, reader.u8()?, reader.u8()?);
        let is_of_all =
            version == GREETING_VERSION && [message::KIND_HELLO, message::KIND_BYE].contains(&kind);
        if !is_of_all && !(VERSION_MIN..=VERSION).contains(&version) {
            return Err(WireError::Version(version));
        }
        if zero != 0 {
            return Err(WireError::NotAFrame);
        }
        let body_bytes = usize::try_from(reader.u32()?).unwrap_or(usize::MAX);
        let most = body_bytes_max(kind)?;
        if body_bytes > most {
            let found = body_bytes;
            return Err(WireError::TooLong { kind, found, most });
        }
        let (summed, _) = bytes.split_at(12);
        Ok(FrameHeader {
            version,
            kind,
            body_bytes,
            checksum: reader.u32()?,
            summed: crc32c::crc32c(summed),
        })
    }

    /// Bytes that follow.
    pub fn body_bytes(&self) -> usize {
        self.body_bytes
    }

    /// The version that it was written in.
    pub fn version(&self) -> u16 {
        self.version
    }

    /// The message, from a body of that many bytes.
    pub fn message(&self, body: &[u8]) -> Result<Message, WireError> {
        let expected = crc32c::crc32c_append(self.summed, body);
        if self.checksum != expected {
            let found = self.checksum;
            return Err(WireError::Checksum { expected, found });
        }
        let mut reader = Reader::new(body);
        let message = Message::decode(self.kind, &mut reader)?;
        match reader.is_at_end() {
            true => Ok(message),
            false => Err(WireError::Body("end of a message")),
        }
    }
}

fn body_bytes_max(kind: u8) -> Result<usize, WireError> {
    match kind {
        message::KIND_BLOCK => Ok(BULK_BODY_BYTES_MAX),
        message::KIND_DEFINE => Ok(DEFINITION_BYTES_MAX),
        message::KIND_PACKET => Ok(PACKET_BYTES_MAX),
        message::KIND_SEED => Ok(SEED_BYTES_MAX + 16),
        message::KIND_PAGE_GIVEN => Ok(message::PAGE_GIVEN_BYTES + PAGE_BYTES),
        0..=message::KIND_MAX => Ok(CONTROL_BODY_BYTES_MAX),
        _ => Err(WireError::Kind(kind)),
    }
}

/// Adds a message's frame to `out`.
pub fn encode(version: u16, message: &Message, out: &mut Vec<u8>) {
    let start = out.len();
    let mut writer = Writer(out);
    writer.u32(MAGIC);
    writer.u16(version);
    writer.u8(message.kind());
    writer.u8(0);
    writer.u32(0);
    writer.u32(0);
    message.encode(&mut writer);
    let body_bytes = (out.len() - start - FRAME_HEADER_BYTES) as u32;
    let frame = &mut out[start..];
    frame[8..12].copy_from_slice(&body_bytes.to_le_bytes());
    let (head, body) = frame.split_at(FRAME_HEADER_BYTES);
    let sum = crc32c::crc32c_append(crc32c::crc32c(&head[..12]), body);
    frame[12..16].copy_from_slice(&sum.to_le_bytes());
}

/// A frame around any body, with a head that fits: what a peer that has a certificate could send.
pub fn frame(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(FRAME_HEADER_BYTES + body.len());
    let mut writer = Writer(&mut bytes);
    writer.u32(MAGIC);
    writer.u16(VERSION);
    writer.u8(kind);
    writer.u8(0);
    writer.u32(body.len() as u32);
    let sum = crc32c::crc32c_append(crc32c::crc32c(&bytes), body);
    bytes.extend(sum.to_le_bytes());
    bytes.extend(body);
    bytes
}

/// The message that `bytes` begin with, and the length of its frame. `None`: more bytes are needed.
pub fn decode(bytes: &[u8]) -> Result<Option<(Message, usize)>, WireError> {
    let Some((head, rest)) = bytes.split_first_chunk::<FRAME_HEADER_BYTES>() else {
        return Ok(None);
    };
    let header = FrameHeader::decode(head)?;
    let Some(body) = rest.get(..header.body_bytes()) else {
        return Ok(None);
    };
    let message = header.message(body)?;
    Ok(Some((message, FRAME_HEADER_BYTES + body.len())))
}

/// A node's standing as bytes, for its file.
pub fn encode_standing(promised: &EpochId, history: &History, record: &Record, out: &mut Vec<u8>) {
    let mut writer = Writer(out);
    writer.epoch(*promised);
    writer.history(history);
    writer.record(record);
}

/// What [`encode_standing`] wrote.
pub fn decode_standing(bytes: &[u8]) -> Result<(EpochId, History, Record), WireError> {
    let mut reader = Reader::new(bytes);
    let standing = (reader.epoch()?, reader.history()?, reader.record()?);
    match reader.is_at_end() {
        true => Ok(standing),
        false => Err(WireError::Body("end of a standing")),
    }
}

/// The version that two sides take, from what each of them speaks. `None`: they have none in common.
pub fn common_version(mine: (u16, u16), theirs: (u16, u16)) -> Option<u16> {
    let version = mine.1.min(theirs.1);
    (version >= mine.0.max(theirs.0)).then_some(version)
}

#[cfg(test)]
mod tests;
