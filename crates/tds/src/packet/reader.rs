//! From received bytes to packets, from packets to messages.

use super::header::{HEADER_BYTES, Header, PacketType, status};
use crate::{Result, TdsError};

/// Cuts a byte stream into packets.
#[derive(Debug)]
pub struct PacketReader {
    bytes: Vec<u8>,
    start: usize,
    packet_bytes_max: usize,
}

/// A whole packet, borrowed from what was received.
#[derive(Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Checked: its length is that of the packet.
    pub header: Header,
    /// The bytes after the header.
    pub payload: &'a [u8],
}

impl PacketReader {
    /// Packets longer than `packet_bytes_max` are refused; `PACKET_BYTES_MAX` fits every client.
    pub fn new(packet_bytes_max: usize) -> PacketReader {
        PacketReader {
            bytes: Vec::new(),
            start: 0,
            packet_bytes_max,
        }
    }

    /// Takes in what the socket gave.
    pub fn feed(&mut self, bytes: &[u8]) {
        if self.start == self.bytes.len() {
            self.bytes.clear();
            self.start = 0;
        } else if self.start > self.packet_bytes_max {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole packet, if it has arrived. Call until `None` after each `feed`.
    pub fn next_packet(&mut self) -> Result<Option<Packet<'_>>> {
        let pending = self.bytes.get(self.start..).unwrap_or_default();
        let Some(header) = pending.first_chunk::<HEADER_BYTES>() else {
            return Ok(None);
        };
        let header = Header::decode(header)?;
        let length = usize::from(header.length);
        if length > self.packet_bytes_max {
            let limit = self.packet_bytes_max;
            return Err(TdsError::TooLong {
                what: "packet length",
                limit,
                found: length,
            });
        }
        let Some(payload) = pending.get(HEADER_BYTES..length) else {
            return Ok(None);
        };
        self.start += length;
        Ok(Some(Packet { header, payload }))
    }

    /// Have bytes arrived that belong to no packet taken so far?
    pub fn has_unread(&self) -> bool {
        self.start < self.bytes.len()
    }

    /// Bytes that belong to no packet taken so far, for switching to another framing (TLS).
    pub fn take_unread(&mut self) -> Vec<u8> {
        let unread = self.bytes.split_off(self.start);
        self.bytes.clear();
        self.start = 0;
        unread
    }
}

/// What the first packet of a request asks to do with the session beforehand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reset {
    /// Reset of everything, an open transaction is rolled back.
    Full,
    /// Reset of everything but the open transaction.
    KeepTransaction,
}

/// A whole message.
#[derive(Debug, PartialEq, Eq)]
pub struct Message {
    /// What the body holds.
    pub packet_type: PacketType,
    /// Of the first packet; to be done before the request.
    pub reset: Option<Reset>,
    /// The sender gave the message up; answer with a lone DONE that has the error bit.
    pub ignored: bool,
    /// The receiver had no room for it: the body was not kept.
    pub dropped: bool,
    received: usize,
    /// Payloads of all packets, joined.
    pub body: Vec<u8>,
}

/// Joins packets to messages of at most `message_bytes_max`.
#[derive(Debug)]
pub struct MessageAssembler {
    message_bytes_max: usize,
    current: Option<Message>,
}

impl MessageAssembler {
    /// An assembler that refuses messages of more than `message_bytes_max` bytes.
    pub fn new(message_bytes_max: usize) -> MessageAssembler {
        MessageAssembler {
            message_bytes_max,
            current: None,
        }
    }

    /// From now on messages may have so many bytes.
    pub fn set_limit(&mut self, message_bytes_max: usize) {
        self.message_bytes_max = message_bytes_max;
    }

    /// Is a message under way whose end has not come?
    pub fn is_partial(&self) -> bool {
        self.current.is_some()
    }

    /// Bytes kept of the message under way.
    pub fn kept_bytes(&self) -> usize {
        self.current.as_ref().map_or(0, |m| m.body.len())
    }

    /// Forgets the message under way: the rest of it is read and not kept.
    pub fn drop_body(&mut self) {
        if let Some(message) = &mut self.current {
            message.dropped = true;
            message.body = Vec::new();
        }
    }

    /// Adds a packet; returns the message it ends. An attention cuts off a message under way, which is dropped.
    pub fn push(&mut self, packet: &Packet<'_>) -> Result<Option<Message>> {
        if packet.header.packet_type == PacketType::Attention {
            self.current = None;
        }
        let mut message = match self.current.take() {
            Some(message) => message,
            None => Message::begun_by(&packet.header),
        };
        if message.packet_type != packet.header.packet_type {
            return Err(TdsError::Unexpected {
                what: "packet type",
                expected: "the type of the message's first packet",
                found: packet.header.packet_type as u64,
            });
        }
        let found = message.received + packet.payload.len();
        if found > self.message_bytes_max {
            let limit = self.message_bytes_max;
            return Err(TdsError::TooLong {
                what: "message",
                limit,
                found,
            });
        }
        message.received = found;
        if !message.dropped {
            message.body.extend_from_slice(packet.payload);
        }
        if !packet.header.is_last() {
            self.current = Some(message);
            return Ok(None);
        }
        if packet.header.status & status::IGNORE != 0 {
            message.ignored = true;
            message.body.clear();
        }
        Ok(Some(message))
    }
}

impl Message {
    fn begun_by(header: &Header) -> Message {
        let reset = if header.status & status::RESET_KEEP_TRANSACTION != 0 {
            Some(Reset::KeepTransaction)
        } else if header.status & status::RESET != 0 {
            Some(Reset::Full)
        } else {
            None
        };
        Message {
            packet_type: header.packet_type,
            reset,
            ignored: false,
            dropped: false,
            received: 0,
            body: Vec::new(),
        }
    }
}
