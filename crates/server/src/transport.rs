//! Bytes to and from a client, in clear or through TLS.

use crate::error::ConnectionError;
use crate::watcher::is_hung_up;
use rustls::{ServerConfig, ServerConnection};
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time to tell a client over TLS that the connection ends.
const FAREWELL: Duration = Duration::from_secs(1);

/// One socket. Reads and writes block.
pub(crate) struct Transport {
    link: Link,
    tls: Option<Box<ServerConnection>>,
}

/// The socket with the time limit of the login.
struct Link {
    socket: Arc<TcpStream>,
    deadline: Option<Instant>,
}

impl Transport {
    pub(crate) fn new(socket: Arc<TcpStream>) -> Transport {
        Transport {
            link: Link {
                socket,
                deadline: None,
            },
            tls: None,
        }
    }

    /// From `deadline` on reads and writes fail.
    pub(crate) fn set_deadline(&mut self, deadline: Instant) {
        self.link.deadline = Some(deadline);
    }

    /// Lets reads wait for ever, and each write until the client has taken nothing for `send_timeout`.
    pub(crate) fn end_deadline(&mut self, send_timeout: Duration) -> Result<(), ConnectionError> {
        self.link.deadline = None;
        self.link.socket.set_read_timeout(None)?;
        self.link.socket.set_write_timeout(Some(send_timeout))?;
        Ok(())
    }

    /// When reads and writes begin to fail.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.link.deadline
    }

    /// Has the deadline not passed, and is the client still there?
    pub(crate) fn is_awaited(&self) -> bool {
        let in_time = self.link.deadline.is_none_or(|d| Instant::now() < d);
        in_time && !is_hung_up(&self.link.socket)
    }

    pub(crate) fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }

    /// The socket, if bytes go to it as they are.
    pub(crate) fn clear_socket(&self) -> Option<&Arc<TcpStream>> {
        self.tls.is_none().then_some(&self.link.socket)
    }

    /// Puts TLS, whose handshake is done, between the socket and what follows.
    pub(crate) fn encrypt(&mut self, tls: ServerConnection) {
        self.tls = Some(Box::new(tls));
    }

    /// Leaves TLS without a farewell, as both sides do after an encrypted login.
    pub(crate) fn decrypt(&mut self) {
        self.tls = None;
    }

    /// The first byte of the stream, left where it is. `None` at the end.
    pub(crate) fn peek(&mut self) -> Result<Option<u8>, ConnectionError> {
        self.link.limit()?;
        let mut first = [0];
        let count = self
            .link
            .socket
            .peek(&mut first)
            .map_err(|error| self.link.error(error))?;
        let [byte] = first;
        Ok((count > 0).then_some(byte))
    }

    /// A TLS handshake on the bare socket, as TDS 8.0 begins.
    pub(crate) fn accept_tls(&mut self, config: Arc<ServerConfig>) -> Result<(), ConnectionError> {
        let mut tls = ServerConnection::new(config)?;
        while tls.is_handshaking() {
            tls.complete_io(&mut self.link)
                .map_err(|error| self.link.error(error))?;
        }
        self.encrypt(tls);
        Ok(())
    }

    /// Waits for bytes; 0 at the end of the stream.
    pub(crate) fn receive(&mut self, buffer: &mut [u8]) -> Result<usize, ConnectionError> {
        let link = &mut self.link;
        let Some(tls) = &mut self.tls else {
            return link.read(buffer).map_err(|error| link.error(error));
        };
        loop {
            match tls.reader().read(buffer) {
                Ok(count) => return Ok(count),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // No close_notify: many clients just close the socket.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(0),
                Err(error) => return Err(error.into()),
            }
            if tls.read_tls(link).map_err(|error| link.error(error))? == 0 {
                return Ok(0);
            }
            let processed = tls.process_new_packets().map(|_| ());
            write_records(tls, link)?;
            processed?;
        }
    }

    /// Bytes that were received already and wait inside the TLS layer; never blocks.
    pub(crate) fn receive_buffered(&mut self, buffer: &mut [u8]) -> usize {
        match &mut self.tls {
            Some(tls) => tls.reader().read(buffer).unwrap_or(0),
            None => 0,
        }
    }

    pub(crate) fn send(&mut self, mut bytes: &[u8]) -> Result<(), ConnectionError> {
        let link = &mut self.link;
        let Some(tls) = &mut self.tls else {
            return link.write_all(bytes).map_err(|error| link.error(error));
        };
        while !bytes.is_empty() {
            let taken = tls.writer().write(bytes)?;
            bytes = bytes.get(taken..).unwrap_or_default();
            write_records(tls, link)?;
        }
        Ok(())
    }

    /// Ends the connection in good order, as far as the client still listens.
    pub(crate) fn close(&mut self) {
        if let Some(tls) = &mut self.tls {
            // A client that reads nothing does not hear it either.
            let _ = self.link.socket.set_write_timeout(Some(FAREWELL));
            tls.send_close_notify();
            let _ = write_records(tls, &mut self.link);
        }
        let _ = self.link.socket.shutdown(Shutdown::Both);
    }
}

fn write_records(tls: &mut ServerConnection, link: &mut Link) -> Result<(), ConnectionError> {
    while tls.wants_write() {
        tls.write_tls(link).map_err(|error| link.error(error))?;
    }
    Ok(())
}

impl Link {
    /// Bounds the next system call by what is left of the login's time.
    fn limit(&self) -> io::Result<()> {
        let Some(deadline) = self.deadline else {
            return Ok(());
        };
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        self.socket.set_read_timeout(Some(left))?;
        self.socket.set_write_timeout(Some(left))
    }

    /// TLS wraps its errors into I/O errors, and a passed deadline looks like a socket that would block.
    fn error(&self, error: io::Error) -> ConnectionError {
        match error.downcast::<rustls::Error>() {
            Ok(error) => error.into(),
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut if self.deadline.is_some() => {
                    ConnectionError::LoginTimeout
                }
                // Reads wait for ever, so it was a write.
                ErrorKind::WouldBlock => ConnectionError::NotReading,
                _ => error.into(),
            },
        }
    }
}

impl Read for Link {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            self.limit()?;
            match (&*self.socket).read(buffer) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }
}

impl Write for Link {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.limit()?;
        (&*self.socket).write(bytes)
    }

    /// Several TLS records go out by one system call.
    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        self.limit()?;
        (&*self.socket).write_vectored(pieces)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
