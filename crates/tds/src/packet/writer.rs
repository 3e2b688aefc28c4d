//! From message bytes to packets.

use super::header::{HEADER_BYTES, Header, PacketType, status};
use super::{PACKET_BYTES_MAX, PACKET_BYTES_MIN, Reset};

/// Frames a message while it is being written.
///
/// Append to `buffer()`; call `drain_full` now and then to move whole packets out; `finish` ends the message and leaves
/// the writer ready for the next one.
#[derive(Debug)]
pub struct MessageWriter {
    packet_type: PacketType,
    packet_bytes: usize,
    spid: u16,
    packet_id: u8,
    reset: u8,
    payload: Vec<u8>,
}

impl MessageWriter {
    /// A writer of messages of this type in packets of this size.
    pub fn new(packet_type: PacketType, packet_bytes: usize, spid: u16) -> MessageWriter {
        let mut writer = MessageWriter {
            packet_type,
            packet_bytes,
            spid,
            packet_id: 0,
            reset: 0,
            payload: Vec::new(),
        };
        writer.set_packet_bytes(packet_bytes);
        writer
    }

    /// Size of the packets to come, within what the protocol allows.
    pub fn set_packet_bytes(&mut self, packet_bytes: usize) {
        self.packet_bytes = packet_bytes.clamp(PACKET_BYTES_MIN, PACKET_BYTES_MAX);
    }

    /// Type of the message to come.
    pub fn set_packet_type(&mut self, packet_type: PacketType) {
        self.packet_type = packet_type;
    }

    /// Asks, as a client, for a session reset with the first packet of the coming message.
    pub fn set_reset(&mut self, reset: Option<Reset>) {
        self.reset = match reset {
            None => 0,
            Some(Reset::Full) => status::RESET,
            Some(Reset::KeepTransaction) => status::RESET_KEEP_TRANSACTION,
        };
    }

    /// Where the message's bytes go. Only append.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.payload
    }

    /// Bytes written but not yet moved out.
    pub fn pending(&self) -> usize {
        self.payload.len()
    }

    /// Is there more than one packet's worth, so that `drain_full` would move something?
    pub fn has_full_packet(&self) -> bool {
        self.payload.len() > self.packet_bytes - HEADER_BYTES
    }

    /// Moves full packets to `out`. The last one stays until it is known whether it ends the message.
    pub fn drain_full(&mut self, out: &mut Vec<u8>) {
        if !self.has_full_packet() {
            return;
        }
        let room = self.packet_bytes - HEADER_BYTES;
        let count = (self.payload.len() - 1) / room;
        let payload = std::mem::take(&mut self.payload);
        let (full, rest) = payload
            .split_at_checked(count * room)
            .unwrap_or((&payload, &[]));
        for chunk in full.chunks(room) {
            self.put_packet(chunk, status::NORMAL, out);
        }
        let kept = rest.len();
        self.payload = payload;
        self.payload.copy_within(count * room.., 0);
        self.payload.truncate(kept);
    }

    /// Moves everything to `out` without ending the message, so that the peer sees it now.
    pub fn drain_partial(&mut self, out: &mut Vec<u8>) {
        self.drain_full(out);
        if !self.payload.is_empty() {
            self.put_last(status::NORMAL, out);
        }
    }

    /// Ends the message.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        self.drain_full(out);
        self.put_last(status::EOM, out);
        self.packet_id = 0;
    }

    /// Forgets what was not moved out. Of use only while nothing of the message has left.
    pub fn discard(&mut self) {
        self.payload.clear();
    }

    fn put_last(&mut self, status: u8, out: &mut Vec<u8>) {
        let payload = std::mem::take(&mut self.payload);
        self.put_packet(&payload, status, out);
        self.payload = payload;
        self.payload.clear();
    }

    fn put_packet(&mut self, payload: &[u8], status: u8, out: &mut Vec<u8>) {
        self.packet_id = self.packet_id.wrapping_add(1);
        let length = HEADER_BYTES + payload.len();
        debug_assert!(
            length <= self.packet_bytes,
            "packet of {length} bytes, limit {}",
            self.packet_bytes
        );
        let header = Header {
            packet_type: self.packet_type,
            status: status | std::mem::take(&mut self.reset),
            length: u16::try_from(length).unwrap_or(u16::MAX),
            spid: self.spid,
            packet_id: self.packet_id,
        };
        out.extend_from_slice(&header.encode());
        out.extend_from_slice(payload);
    }
}
