//! Both directions of one connection: packets in, replies out.

use crate::error::ConnectionError;
use crate::output::Output;
use crate::service::Service;
use crate::transport::Transport;
use daruma_tds::packet::{
    Header, LOGIN_BYTES_MAX, Message, MessageAssembler, PACKET_BYTES_MAX, Packet, PacketReader,
    PacketType, Reset, status,
};
use std::net::TcpStream;
use std::sync::Arc;

/// Bytes taken from the socket at once.
const RECEIVE_BYTES: usize = 16 * 1024;
/// No request may be longer, whatever the packet size.
const REQUEST_BYTES_MAX: usize = 1 << 30;
/// The product's bound on a batch: this many packets.
const REQUEST_PACKETS_MAX: usize = 65_536;

/// A packet taken out of the stream.
pub(crate) struct OwnedPacket {
    pub header: Header,
    pub payload: Vec<u8>,
}

impl OwnedPacket {
    pub(crate) const fn is_given_up(&self) -> bool {
        self.header.status & status::IGNORE != 0
    }
}

/// Request of a client.
pub(crate) enum Incoming {
    Message(Message),
    /// First packet of a bulk load, which is read packet by packet.
    Bulk(OwnedPacket, Option<Reset>),
}

/// Packets and messages from the client.
pub(crate) struct Input {
    reader: PacketReader,
    assembler: MessageAssembler,
    /// A packet that arrived before the one before it was answered.
    ahead: Option<OwnedPacket>,
    buffer: Vec<u8>,
    /// Says whether there is memory for a long message; nobody before login, where no message is long.
    service: Option<Arc<dyn Service>>,
}

impl Input {
    fn new() -> Input {
        Input {
            reader: PacketReader::new(PACKET_BYTES_MAX),
            assembler: MessageAssembler::new(LOGIN_BYTES_MAX),
            ahead: None,
            buffer: vec![0; RECEIVE_BYTES],
            service: None,
        }
    }

    /// Waits for the next packet; `None` at the end of the stream.
    pub(crate) fn next_packet(
        &mut self,
        transport: &mut Transport,
    ) -> Result<Option<OwnedPacket>, ConnectionError> {
        if let Some(packet) = self.ahead.take() {
            return Ok(Some(packet));
        }
        loop {
            if let Some(packet) = self.reader.next_packet()? {
                return Ok(Some(OwnedPacket {
                    header: packet.header,
                    payload: packet.payload.to_vec(),
                }));
            }
            if !self.fill(transport)? {
                return Ok(None);
            }
        }
    }

    /// Waits for the next message, or for the beginning of a bulk load.
    pub(crate) fn next(&mut self, transport: &mut Transport) -> Result<Incoming, ConnectionError> {
        loop {
            if let Some(ahead) = self.ahead.take() {
                if let Some(incoming) = self.begin_bulk(&ahead.header, &ahead.payload) {
                    return Ok(incoming);
                }
                let packet = Packet {
                    header: ahead.header,
                    payload: &ahead.payload,
                };
                if let Some(message) = self.assembler.push(&packet)? {
                    return Ok(Incoming::Message(message));
                }
            }
            while let Some(packet) = self.reader.next_packet()? {
                if packet.header.packet_type == PacketType::Bulk && !self.assembler.is_partial() {
                    return Ok(bulk(&packet.header, packet.payload));
                }
                if let Some(service) = &self.service
                    && !service.has_room(self.assembler.kept_bytes(), packet.payload.len())
                {
                    self.assembler.drop_body();
                }
                if let Some(message) = self.assembler.push(&packet)? {
                    return Ok(Incoming::Message(message));
                }
            }
            if !self.fill(transport)? {
                return Err(self.ended());
            }
        }
    }

    /// Meaning of the end of the stream here.
    fn ended(&self) -> ConnectionError {
        match self.assembler.is_partial() || self.reader.has_unread() {
            true => ConnectionError::Cut,
            false => ConnectionError::Closed,
        }
    }

    fn begin_bulk(&self, header: &Header, payload: &[u8]) -> Option<Incoming> {
        let begins = header.packet_type == PacketType::Bulk && !self.assembler.is_partial();
        begins.then(|| bulk(header, payload))
    }

    /// Has an attention arrived together with the request before it? Never waits.
    pub(crate) fn has_attention(
        &mut self,
        transport: &mut Transport,
    ) -> Result<bool, ConnectionError> {
        if self.ahead.is_none() {
            let count = transport.receive_buffered(&mut self.buffer);
            self.reader
                .feed(self.buffer.get(..count).unwrap_or_default());
            let packet = self.reader.next_packet()?;
            self.ahead = packet.map(|p| OwnedPacket {
                header: p.header,
                payload: p.payload.to_vec(),
            });
        }
        Ok(self
            .ahead
            .as_ref()
            .is_some_and(|p| p.header.packet_type == PacketType::Attention))
    }

    fn fill(&mut self, transport: &mut Transport) -> Result<bool, ConnectionError> {
        let count = transport.receive(&mut self.buffer)?;
        self.reader
            .feed(self.buffer.get(..count).unwrap_or_default());
        Ok(count > 0)
    }

    /// Bytes behind the last packet, which belong to another framing.
    pub(crate) fn take_unread(&mut self) -> Vec<u8> {
        self.reader.take_unread()
    }
}

fn bulk(header: &Header, payload: &[u8]) -> Incoming {
    let reset = match header.status {
        s if s & status::RESET_KEEP_TRANSACTION != 0 => Some(Reset::KeepTransaction),
        s if s & status::RESET != 0 => Some(Reset::Full),
        _ => None,
    };
    Incoming::Bulk(
        OwnedPacket {
            header: *header,
            payload: payload.to_vec(),
        },
        reset,
    )
}

pub(crate) struct Wire {
    pub transport: Transport,
    pub input: Input,
    pub output: Output,
}

impl Wire {
    pub(crate) fn new(socket: Arc<TcpStream>) -> Wire {
        Wire {
            transport: Transport::new(socket),
            input: Input::new(),
            output: Output::new(),
        }
    }

    pub(crate) fn next(&mut self) -> Result<Incoming, ConnectionError> {
        self.input.next(&mut self.transport)
    }

    /// A whole message of a kind that is never a bulk load.
    pub(crate) fn next_message(
        &mut self,
        expected: &'static str,
    ) -> Result<Message, ConnectionError> {
        match self.next()? {
            Incoming::Message(message) => Ok(message),
            Incoming::Bulk(packet, _) => Err(ConnectionError::UnexpectedMessage {
                expected,
                found: packet.header.packet_type as u8,
            }),
        }
    }

    pub(crate) fn finish_reply(&mut self) -> Result<(), ConnectionError> {
        self.output.finish(&mut self.transport)
    }

    /// From now on the service's memory bounds what is kept of a message.
    pub(crate) fn bound_by(&mut self, service: Arc<dyn Service>) {
        self.input.service = Some(service);
    }

    /// From login on messages may be long.
    pub(crate) fn set_session(&mut self, packet_bytes: usize, spid: u16) {
        let limit = REQUEST_BYTES_MAX.min(packet_bytes.saturating_mul(REQUEST_PACKETS_MAX));
        self.input.assembler.set_limit(limit);
        self.output.set_session(packet_bytes, spid);
    }
}
