//! What the register is made of, as bytes: for the node's file, the witness' record and the wire.
//!
//! Invariants
//! 1. A decoder returns a value or an error, for any bytes; every length is bounded by what is left.
//! 2. What is encoded decodes to the same.
//!
//! Integers are little-endian.

use daruma_quorum::{Ballot, Configuration, MemberId, Members, Message, Register, Version};
use std::sync::Arc;

/// Bytes of a configuration's body at most.
pub const BODY_BYTES_MAX: usize = 128 << 10;

/// Bytes that are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a bad {0}")]
pub struct CodecError(pub &'static str);

type Result<T> = std::result::Result<T, CodecError>;

/// Bytes that are read from the front.
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader(bytes)
    }

    pub(crate) fn end(&self) -> Result<()> {
        match self.0.is_empty() {
            true => Ok(()),
            false => Err(CodecError("end")),
        }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(CodecError("length"))?;
        self.0 = rest;
        Ok(*taken)
    }

    pub(crate) fn u8(&mut self) -> Result<u8> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    pub(crate) fn u16(&mut self) -> Result<u16> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(crate) fn u128(&mut self) -> Result<u128> {
        Ok(u128::from_le_bytes(self.array()?))
    }

    pub(crate) fn flag(&mut self) -> Result<bool> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(CodecError("flag")),
        }
    }

    pub(crate) fn bytes(&mut self, bytes_max: usize) -> Result<&'a [u8]> {
        let length = usize::try_from(self.u32()?).unwrap_or(usize::MAX);
        if length > bytes_max || length > self.0.len() {
            return Err(CodecError("length"));
        }
        let (taken, rest) = self.0.split_at(length);
        self.0 = rest;
        Ok(taken)
    }

    pub(crate) fn ballot(&mut self) -> Result<Ballot> {
        Ok(Ballot {
            generation: self.u64()?,
            term: self.u64()?,
        })
    }

    pub(crate) fn version(&mut self) -> Result<Version> {
        Ok(Version {
            ballot: self.ballot()?,
            index: self.u64()?,
        })
    }

    pub(crate) fn member(&mut self) -> Result<MemberId> {
        MemberId::from_number(self.u8()?).ok_or(CodecError("member"))
    }

    fn members(&mut self) -> Result<Members> {
        Ok(Members::from_bits(self.u16()?))
    }

    pub(crate) fn configuration(&mut self) -> Result<Configuration> {
        let configuration = Configuration {
            version: self.version()?,
            origin: self.version()?,
            base: self.version()?,
            old: self.members()?,
            new: self.members()?,
            body: Arc::from(self.bytes(BODY_BYTES_MAX)?),
        };
        match configuration.new.is_empty() || configuration.old.is_empty() {
            true => Err(CodecError("set of votes")),
            false => Ok(configuration),
        }
    }

    pub(crate) fn stored(&mut self) -> Result<(Configuration, bool)> {
        Ok((self.configuration()?, self.flag()?))
    }

    pub(crate) fn optional<T>(
        &mut self,
        read: impl FnOnce(&mut Reader<'a>) -> Result<T>,
    ) -> Result<Option<T>> {
        match self.flag()? {
            true => read(self).map(Some),
            false => Ok(None),
        }
    }

    pub(crate) fn register(&mut self) -> Result<Register> {
        let register = Register {
            ballot: self.ballot()?,
            voted_for: self.optional(Reader::member)?,
            held: self.configuration()?,
            settled: self.flag()?,
        };
        match register.held.version.ballot <= register.ballot {
            true => Ok(register),
            false => Err(CodecError("ballot")),
        }
    }

    pub(crate) fn message(&mut self) -> Result<Message> {
        Ok(match self.u8()? {
            0 => Message::RequestVote {
                ballot: self.ballot()?,
                version: self.version()?,
            },
            1 => Message::Vote {
                ballot: self.ballot()?,
                granted: self.flag()?,
                newer: self.optional(Reader::stored)?,
            },
            2 => {
                let (configuration, settled) = self.stored()?;
                Message::Put {
                    configuration,
                    settled,
                }
            }
            3 => Message::Stored {
                version: self.version()?,
            },
            4 => Message::Outdated {
                ballot: self.ballot()?,
            },
            _ => return Err(CodecError("message")),
        })
    }
}

/// Bytes that grow at their end.
#[derive(Default)]
pub(crate) struct Writer(pub(crate) Vec<u8>);

impl Writer {
    pub(crate) fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    pub(crate) fn u16(&mut self, value: u16) {
        self.0.extend(value.to_le_bytes());
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.0.extend(value.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.0.extend(value.to_le_bytes());
    }

    pub(crate) fn u128(&mut self, value: u128) {
        self.0.extend(value.to_le_bytes());
    }

    pub(crate) fn flag(&mut self, value: bool) {
        self.u8(u8::from(value));
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        // What is written here is bounded where it is made.
        self.u32(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
        self.0.extend(bytes);
    }

    pub(crate) fn ballot(&mut self, ballot: Ballot) {
        self.u64(ballot.generation);
        self.u64(ballot.term);
    }

    pub(crate) fn version(&mut self, version: Version) {
        self.ballot(version.ballot);
        self.u64(version.index);
    }

    pub(crate) fn configuration(&mut self, configuration: &Configuration) {
        self.version(configuration.version);
        self.version(configuration.origin);
        self.version(configuration.base);
        self.u16(configuration.old.bits());
        self.u16(configuration.new.bits());
        self.bytes(&configuration.body);
    }

    pub(crate) fn stored(&mut self, (configuration, settled): &(Configuration, bool)) {
        self.configuration(configuration);
        self.flag(*settled);
    }

    pub(crate) fn optional<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Writer, T)) {
        self.flag(value.is_some());
        if let Some(value) = value {
            write(self, value);
        }
    }

    pub(crate) fn register(&mut self, register: &Register) {
        self.ballot(register.ballot);
        self.optional(register.voted_for, |w, m| w.u8(m.number()));
        self.configuration(&register.held);
        self.flag(register.settled);
    }

    pub(crate) fn message(&mut self, message: &Message) {
        match message {
            Message::RequestVote { ballot, version } => {
                self.u8(0);
                self.ballot(*ballot);
                self.version(*version);
            }
            Message::Vote {
                ballot,
                granted,
                newer,
            } => {
                self.u8(1);
                self.ballot(*ballot);
                self.flag(*granted);
                self.optional(newer.as_ref(), Writer::stored);
            }
            Message::Put {
                configuration,
                settled,
            } => {
                self.u8(2);
                self.configuration(configuration);
                self.flag(*settled);
            }
            Message::Stored { version } => {
                self.u8(3);
                self.version(*version);
            }
            Message::Outdated { ballot } => {
                self.u8(4);
                self.ballot(*ballot);
            }
        }
    }
}

/// Bytes behind a magic number and before their checksum: what a file of this room holds.
pub(crate) fn seal(magic: &[u8; 8], content: Writer) -> Vec<u8> {
    let mut bytes = magic.to_vec();
    bytes.extend(content.0);
    let sum = crc32c::crc32c(&bytes);
    bytes.extend(sum.to_le_bytes());
    bytes
}

/// What [`seal`] was given.
pub(crate) fn unseal<'a>(magic: &[u8; 8], bytes: &'a [u8]) -> Result<Reader<'a>> {
    let (content, sum) = bytes.split_last_chunk::<4>().ok_or(CodecError("length"))?;
    if crc32c::crc32c(content) != u32::from_le_bytes(*sum) {
        return Err(CodecError("checksum"));
    }
    let content = content.strip_prefix(magic).ok_or(CodecError("magic"))?;
    Ok(Reader::new(content))
}
