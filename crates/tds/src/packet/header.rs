//! The eight bytes before every packet.

use crate::wire::Reader;
use crate::{Result, TdsError};

/// Bytes of a packet before its payload.
pub const HEADER_BYTES: usize = 8;

/// Bits of the status byte.
pub mod status {
    /// More packets of the message follow.
    pub const NORMAL: u8 = 0;
    /// Last packet of the message.
    pub const EOM: u8 = 0x01;
    /// With EOM: the sender gives the message up; the receiver drops it.
    pub const IGNORE: u8 = 0x02;
    /// Reset the session before this request.
    pub const RESET: u8 = 0x08;
    /// Reset the session but keep the transaction.
    pub const RESET_KEEP_TRANSACTION: u8 = 0x10;
}

/// What a message is ([MS-TDS] 2.2.3.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum PacketType {
    /// SQL text.
    Batch = 0x01,
    /// Calls of procedures with typed parameters.
    Rpc = 0x03,
    /// Everything a server sends.
    Reply = 0x04,
    /// Cancels the request under way; a message without body.
    Attention = 0x06,
    /// COLMETADATA, rows and DONE of a bulk load.
    Bulk = 0x07,
    /// A token of federated authentication.
    FedAuthToken = 0x08,
    /// Begin, commit, roll back, save.
    TransactionManager = 0x0E,
    /// LOGIN7.
    Login = 0x10,
    /// A step of integrated authentication.
    Sspi = 0x11,
    /// PRELOGIN, and TLS handshake records wrapped in packets.
    Prelogin = 0x12,
}

impl PacketType {
    /// The type with this number; an error for one that no peer may send.
    pub fn from_byte(byte: u8) -> Result<PacketType> {
        Ok(match byte {
            0x01 => PacketType::Batch,
            0x03 => PacketType::Rpc,
            0x04 => PacketType::Reply,
            0x06 => PacketType::Attention,
            0x07 => PacketType::Bulk,
            0x08 => PacketType::FedAuthToken,
            0x0E => PacketType::TransactionManager,
            0x10 => PacketType::Login,
            0x11 => PacketType::Sspi,
            0x12 => PacketType::Prelogin,
            found => {
                let expected = "a packet type of TDS 7 or 8";
                return Err(TdsError::Unexpected {
                    what: "packet type",
                    expected,
                    found: found.into(),
                });
            }
        })
    }
}

/// The first eight bytes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The same in all packets of a message.
    pub packet_type: PacketType,
    /// `status` bits.
    pub status: u8,
    /// Of the whole packet, these eight bytes included.
    pub length: u16,
    /// Session id of the server's side; clients send 0.
    pub spid: u16,
    /// Counts packets modulo 256; nobody checks it.
    pub packet_id: u8,
}

impl Header {
    /// Reads a header; its length is at least its own eight bytes.
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Header> {
        let mut reader = Reader::new(bytes);
        let packet_type = PacketType::from_byte(reader.u8("packet type")?)?;
        let status = reader.u8("packet status")?;
        let length = reader.u16_be("packet length")?;
        let spid = reader.u16_be("packet spid")?;
        let packet_id = reader.u8("packet id")?;
        if usize::from(length) < HEADER_BYTES {
            let expected = "at least 8";
            return Err(TdsError::Unexpected {
                what: "packet length",
                expected,
                found: length.into(),
            });
        }
        Ok(Header {
            packet_type,
            status,
            length,
            spid,
            packet_id,
        })
    }

    /// The eight bytes on the wire.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let [length_high, length_low] = self.length.to_be_bytes();
        let [spid_high, spid_low] = self.spid.to_be_bytes();
        let kind = self.packet_type as u8;
        [
            kind,
            self.status,
            length_high,
            length_low,
            spid_high,
            spid_low,
            self.packet_id,
            0,
        ]
    }

    /// Is it the last packet of its message?
    pub const fn is_last(&self) -> bool {
        self.status & status::EOM != 0
    }
}
