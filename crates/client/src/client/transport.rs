//! Bytes between socket and packets: plain, TLS inside PRELOGIN packets, TLS for the login alone, TLS from the start.
//!
//! Reads return after a tenth of a second without bytes, so that whoever waits for a reply can look at the clock and at
//! Ctrl-C in between.

use super::error::{ClientError, Result};
use super::tls::{self, Trust};
use daruma_tds::packet::{
    MessageWriter, PACKET_BYTES_DEFAULT, PACKET_BYTES_MAX, Packet, PacketReader, PacketType,
};
use rustls::ClientConnection;
use rustls::pki_types::ServerName;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

const TICK: Duration = Duration::from_millis(100);
const READ_BYTES: usize = 64 * 1024;
/// TLS handshake messages are short; a longer one is not a handshake.
const HANDSHAKE_BYTES_MAX: usize = 128 * 1024;

pub(super) struct Transport {
    socket: TcpStream,
    tls: Option<Box<ClientConnection>>,
    packets: PacketReader,
    buffer: Box<[u8]>,
}

impl Transport {
    /// Tries every address of `host` until one accepts.
    pub fn connect(host: &str, port: u16, timeout: Duration) -> io::Result<Transport> {
        let mut failure = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for address in (host, port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, timeout) {
                Ok(socket) => return Transport::over(socket),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    fn over(socket: TcpStream) -> io::Result<Transport> {
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(TICK))?;
        let packets = PacketReader::new(PACKET_BYTES_MAX);
        Ok(Transport {
            socket,
            tls: None,
            packets,
            buffer: vec![0; READ_BYTES].into(),
        })
    }

    /// Sends all bytes, through TLS when that is on.
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<()> {
        let Some(tls) = &mut self.tls else {
            return self.socket.write_all(bytes).map_err(broken);
        };
        while !bytes.is_empty() || tls.wants_write() {
            let taken = tls.writer().write(bytes).map_err(broken)?;
            bytes = bytes.get(taken..).unwrap_or_default();
            while tls.wants_write() {
                tls.write_tls(&mut self.socket).map_err(broken)?;
            }
        }
        Ok(())
    }

    /// The next whole packet among the bytes that have come, if there is one.
    pub fn next_packet(&mut self) -> Result<Option<Packet<'_>>> {
        Ok(self.packets.next_packet()?)
    }

    /// Waits for bytes, a tenth of a second at most. False: none came.
    pub fn fill(&mut self) -> Result<bool> {
        let read = match &mut self.tls {
            None => self.socket.read(&mut self.buffer),
            Some(tls) => read_tls(tls, &mut self.socket, &mut self.buffer),
        };
        match read {
            Ok(0) => Err(ClientError::Closed),
            Ok(count) => {
                self.packets
                    .feed(self.buffer.get(..count).unwrap_or_default());
                Ok(true)
            }
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock
                | io::ErrorKind::TimedOut
                | io::ErrorKind::Interrupted => Ok(false),
                io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => {
                    Err(ClientError::Closed)
                }
                _ => Err(ClientError::Broken(error)),
            },
        }
    }

    /// The handshake on the bare socket, before any packet.
    pub fn strict_tls(&mut self, host: &str, trust: &Trust, deadline: Deadline<'_>) -> Result<()> {
        let mut tls = client_connection(host, trust, true)?;
        while tls.is_handshaking() {
            deadline.check()?;
            while tls.wants_write() {
                tls.write_tls(&mut self.socket).map_err(broken)?;
            }
            match tls.read_tls(&mut self.socket) {
                Ok(0) => return Err(ClientError::Closed),
                Ok(_) => process(&mut tls, host, trust)?,
                Err(error) if is_tick(&error) => {}
                Err(error) => return Err(ClientError::Broken(error)),
            }
        }
        self.tls = Some(Box::new(tls));
        Ok(())
    }

    /// The handshake inside PRELOGIN packets; what follows is packets inside TLS.
    pub fn wrapped_tls(&mut self, host: &str, trust: &Trust, deadline: Deadline<'_>) -> Result<()> {
        let mut tls = client_connection(host, trust, false)?;
        loop {
            self.send_flight(&mut tls)?;
            if !tls.is_handshaking() {
                break;
            }
            let body = self.read_message(deadline)?;
            let mut body = body.as_slice();
            while !body.is_empty() {
                tls.read_tls(&mut body).map_err(broken)?;
                if let Err(error) = process(&mut tls, host, trust) {
                    // The server learns by the alert why the client leaves.
                    let _ = self.send_flight(&mut tls);
                    return Err(error);
                }
            }
        }
        self.tls = Some(Box::new(tls));
        Ok(())
    }

    /// The login has gone out encrypted; everything after it is plain.
    pub fn end_tls(&mut self) {
        self.tls = None;
    }

    fn send_flight(&mut self, tls: &mut ClientConnection) -> Result<()> {
        let mut flight = Vec::new();
        while tls.wants_write() {
            tls.write_tls(&mut flight).map_err(broken)?;
        }
        if flight.is_empty() {
            return Ok(());
        }
        let mut writer = MessageWriter::new(PacketType::Prelogin, PACKET_BYTES_DEFAULT, 0);
        writer.buffer().extend_from_slice(&flight);
        let mut out = Vec::new();
        writer.finish(&mut out);
        self.write(&out)
    }

    /// A whole message of the time before login.
    pub fn read_message(&mut self, deadline: Deadline<'_>) -> Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            while let Some(packet) = self.packets.next_packet()? {
                body.extend_from_slice(packet.payload);
                if packet.header.is_last() {
                    return Ok(body);
                }
                if body.len() > HANDSHAKE_BYTES_MAX {
                    return Err(daruma_tds::TdsError::TooLong {
                        what: "handshake",
                        limit: HANDSHAKE_BYTES_MAX,
                        found: body.len(),
                    }
                    .into());
                }
            }
            deadline.check()?;
            self.fill()?;
        }
    }
}

impl AsFd for Transport {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// By when the login has to be through.
#[derive(Clone, Copy)]
pub(super) struct Deadline<'a> {
    pub at: Option<Instant>,
    pub seconds: u64,
    pub server: &'a str,
}

impl Deadline<'_> {
    /// Is there still time to log in?
    pub fn check(self) -> Result<()> {
        match self.at {
            Some(at) if Instant::now() >= at => Err(ClientError::LoginTimeout {
                server: self.server.into(),
                seconds: self.seconds,
            }),
            _ => Ok(()),
        }
    }
}

fn client_connection(host: &str, trust: &Trust, strict: bool) -> Result<ClientConnection> {
    let name = ServerName::try_from(host.to_string());
    let name = name.map_err(|_| ClientError::ServerName {
        server: host.into(),
    })?;
    ClientConnection::new(tls::config(trust, strict)?, name)
        .map_err(|source| tls_error(host, source))
}

fn process(tls: &mut ClientConnection, host: &str, trust: &Trust) -> Result<()> {
    match tls.process_new_packets() {
        Ok(_) => Ok(()),
        Err(rustls::Error::InvalidCertificate(_)) if *trust == Trust::Nobody => {
            Err(ClientError::UntrustedCertificate {
                server: host.into(),
            })
        }
        Err(source) => Err(tls_error(host, source)),
    }
}

fn tls_error(host: &str, source: rustls::Error) -> ClientError {
    ClientError::Tls {
        server: host.into(),
        source,
    }
}

fn read_tls(
    tls: &mut ClientConnection,
    socket: &mut TcpStream,
    buffer: &mut [u8],
) -> io::Result<usize> {
    loop {
        match tls.reader().read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            done => return done,
        }
        if tls.read_tls(socket)? == 0 {
            return Ok(0);
        }
        tls.process_new_packets().map_err(io::Error::other)?;
    }
}

fn is_tick(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}

fn broken(error: io::Error) -> ClientError {
    match error.kind() {
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => ClientError::Closed,
        _ => ClientError::Broken(error),
    }
}
