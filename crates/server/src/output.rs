//! A reply on its way out: framed into packets, written in as few system calls as possible.

use crate::error::ConnectionError;
use crate::reply::ResultShapes;
use crate::transport::Transport;
use daruma_tds::packet::{MessageWriter, PACKET_BYTES_DEFAULT, PacketType};

/// Beyond this much a result is sent while it is still being made.
const SEND_BYTES: usize = 32 * 1024;
/// A buffer that grew beyond this for a large value is given back afterwards.
pub(crate) const KEPT_BYTES: usize = 128 * 1024;

pub(crate) struct Output {
    writer: MessageWriter,
    framed: Vec<u8>,
    shapes: ResultShapes,
}

impl Output {
    pub(crate) fn new() -> Output {
        Output {
            writer: MessageWriter::new(PacketType::Reply, PACKET_BYTES_DEFAULT, 0),
            framed: Vec::new(),
            shapes: ResultShapes::default(),
        }
    }

    /// After login: the negotiated packet size, and the session's id in every header.
    pub(crate) fn set_session(&mut self, packet_bytes: usize, spid: u16) {
        self.writer = MessageWriter::new(PacketType::Reply, packet_bytes, spid);
    }

    /// Handshake records travel in packets of their own type.
    pub(crate) fn set_packet_type(&mut self, packet_type: PacketType) {
        self.writer.set_packet_type(packet_type);
    }

    /// Where tokens are appended.
    pub(crate) fn tokens(&mut self) -> &mut Vec<u8> {
        self.writer.buffer()
    }

    /// The same, with what is known of earlier results.
    pub(crate) fn tokens_and_shapes(&mut self) -> (&mut Vec<u8>, &mut ResultShapes) {
        (self.writer.buffer(), &mut self.shapes)
    }

    /// Is there enough to be worth a system call?
    pub(crate) fn is_full(&self) -> bool {
        self.writer.pending() >= SEND_BYTES
    }

    /// Sends whole packets and keeps the rest.
    pub(crate) fn send_full(&mut self, transport: &mut Transport) -> Result<(), ConnectionError> {
        self.writer.drain_full(&mut self.framed);
        self.send(transport)
    }

    /// Sends everything so far without ending the message.
    pub(crate) fn send_now(&mut self, transport: &mut Transport) -> Result<(), ConnectionError> {
        self.writer.drain_partial(&mut self.framed);
        self.send(transport)
    }

    /// Ends the message and sends what is left of it.
    pub(crate) fn finish(&mut self, transport: &mut Transport) -> Result<(), ConnectionError> {
        self.writer.finish(&mut self.framed);
        self.writer.buffer().shrink_to(KEPT_BYTES);
        self.send(transport)
    }

    /// Ends the message and gives what is left of it, to be sent by somebody else; `spare` is a buffer for the next one.
    pub(crate) fn take_finished(&mut self, spare: Vec<u8>) -> Vec<u8> {
        self.writer.finish(&mut self.framed);
        self.writer.buffer().shrink_to(KEPT_BYTES);
        std::mem::replace(&mut self.framed, spare)
    }

    fn send(&mut self, transport: &mut Transport) -> Result<(), ConnectionError> {
        let sent = transport.send(&self.framed);
        self.framed.clear();
        self.framed.shrink_to(KEPT_BYTES);
        sent
    }
}
