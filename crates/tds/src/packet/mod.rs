//! Packets and messages: the outermost frame of the protocol.
//!
//! Theory: a message is one or more packets of the same type; the last carries EOM. Until login is answered packets
//! are 4,096 bytes, then the negotiated size. Bulk load messages may be endless, so they are handed on packet by
//! packet; every other message is gathered whole under a limit.

mod header;
mod reader;
mod writer;

#[cfg(test)]
mod tests;

pub use header::{HEADER_BYTES, Header, PacketType, status};
pub use reader::{Message, MessageAssembler, Packet, PacketReader, Reset};
pub use writer::MessageWriter;

/// Size of packets until login is answered, and when the client leaves the choice to the server.
pub const PACKET_BYTES_DEFAULT: usize = 4096;
/// Least size that a client may ask for, header included.
pub const PACKET_BYTES_MIN: usize = 512;
/// Greatest size that a client may ask for, header included.
pub const PACKET_BYTES_MAX: usize = 32_767;
/// The product's bound on a LOGIN7 message.
pub const LOGIN_BYTES_MAX: usize = 128 * 1024 - 1;

/// The packet size a server grants for the one asked in LOGIN7: within bounds, a multiple of 4; 0 asks for the default.
pub fn negotiate_packet_bytes(asked: u32) -> usize {
    match usize::try_from(asked).unwrap_or(PACKET_BYTES_MAX) {
        0 => PACKET_BYTES_DEFAULT,
        asked => asked.clamp(PACKET_BYTES_MIN, PACKET_BYTES_MAX) & !3,
    }
}
