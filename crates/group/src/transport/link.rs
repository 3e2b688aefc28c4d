//! One connection after its handshake: a thread that reads, a thread that writes.
//!
//! Theory: TLS is one state for both directions, so it lies under a latch that is held while bytes are encrypted or decrypted and
//! never while the socket is waited for. Only the writer writes to the socket, so what TLS makes leaves in its order.
//!
//! Latches: `lanes`, which the writer holds while it pulls (a log's latch may be taken under it); `out`; `bell`, alone. [`Link::wake`] takes
//! `bell` only, so that threads which hold a log's latch may call it.
//!
//! | what | bound |
//! |---|---|
//! | a frame | its kind's length, checked before the body is read |
//! | blocks under way | bytes that the receiver has granted; more is an error |
//! | silence | SESSION_TIMEOUT; a ping leaves each third of it |
//! | a peer that takes nothing | SESSION_TIMEOUT (also TCP_USER_TIMEOUT), 4,096 control messages |

use super::lanes::{Control, Lanes, Pull, Source};
use crate::commit::ReplicaId;
use crate::wire::{self, Codecs, FRAME_HEADER_BYTES, FrameHeader, Message, Purpose, WireError};
use parking_lot::{Condvar, Mutex};
use rustls::Connection;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Bytes that are encrypted and written at once.
const WRITE_BYTES: usize = 64 << 10;
/// Bytes that are read at once.
const READ_BYTES: usize = 64 << 10;

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The socket failed, or nothing came for SESSION_TIMEOUT.
    #[error("connection to a replica: {0}")]
    Socket(#[from] io::Error),
    /// TLS failed.
    #[error("TLS with a replica: {0}")]
    Tls(#[from] rustls::Error),
    /// The peer broke the protocol.
    #[error("a replica sent what is no message: {0}")]
    Wire(#[from] WireError),
    /// The peer does what it may not.
    #[error("a replica broke the protocol: {0}")]
    Protocol(String),
    /// The peer said why it leaves.
    #[error("the replica closed the connection: {0}")]
    Farewell(String),
    /// This side ended it.
    #[error("closed")]
    Closed,
}

/// Who is at the other end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its place in the group, which its certificate proves.
    pub replica: ReplicaId,
    /// Its server's name, as it says.
    pub name: String,
    /// Version that is spoken.
    pub version: u16,
    /// Codecs that both understand.
    pub codecs: Codecs,
    /// Bytes of blocks that it takes at first.
    pub window_bytes: u32,
    /// What the connection is for.
    pub purpose: Purpose,
}

/// What happens on a connection. Called by its reader.
pub trait Handler: Send + Sync {
    /// A connection stands; nothing has been received on it.
    fn connected(&self, link: &Arc<Link>);
    /// A message came. An error ends the connection.
    fn received(&self, link: &Arc<Link>, message: Message) -> Result<(), LinkError>;
    /// It is over.
    fn closed(&self, link: &Arc<Link>, why: &LinkError);
}

/// Bytes of a connection, TLS not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct LinkCounts {
    /// Frames that left.
    pub sent_bytes: u64,
    /// Frames that came.
    pub received_bytes: u64,
    /// Times that blocks waited for the peer to grant more.
    pub flow_control: u64,
}

/// A connection.
pub struct Link {
    peer: Peer,
    socket: TcpStream,
    tls: Mutex<Connection>,
    out: Mutex<Out>,
    lanes: Mutex<Lanes>,
    /// Somebody has more than when the writer looked last.
    bell: Mutex<bool>,
    more: Condvar,
    ping_every: Duration,
    began: Instant,
    sent_bytes: AtomicU64,
    received_bytes: AtomicU64,
    flow_control: AtomicU64,
    heard_us: AtomicU64,
    /// Blocks that may still come; the peer was granted no more.
    window: Mutex<u64>,
}

struct Out {
    control: Control,
    /// Bytes of blocks that may leave.
    credit: i64,
    /// How it ended: the first that was seen.
    end: Option<End>,
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// This side closed it.
    Here,
    /// The peer closed it, or its machine said that nobody is there any more.
    Peer,
    /// Nothing came or went, or what came could not be read.
    Lost,
}

impl End {
    fn of(error: &LinkError) -> End {
        use ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset};
        match error {
            LinkError::Farewell(_) => End::Peer,
            LinkError::Socket(e) => match e.kind() {
                BrokenPipe | ConnectionAborted | ConnectionReset => End::Peer,
                _ => End::Lost,
            },
            _ => End::Lost,
        }
    }
}

impl Link {
    /// A connection whose handshake is done. `window_bytes` is what this side granted in it.
    pub(super) fn new(
        socket: TcpStream,
        mut tls: Connection,
        peer: Peer,
        window_bytes: u32,
        session_timeout: Duration,
    ) -> Result<Arc<Link>, LinkError> {
        tls.set_buffer_limit(None);
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(session_timeout))?;
        socket.set_write_timeout(Some(session_timeout))?;
        let milliseconds = u32::try_from(session_timeout.as_millis()).unwrap_or(u32::MAX);
        rustix::net::sockopt::set_tcp_user_timeout(&socket, milliseconds)
            .map_err(io::Error::from)?;
        let out = Out {
            control: Control::default(),
            credit: i64::from(peer.window_bytes),
            end: None,
        };
        Ok(Arc::new(Link {
            peer,
            socket,
            tls: Mutex::new(tls),
            out: Mutex::new(out),
            lanes: Mutex::default(),
            bell: Mutex::new(false),
            more: Condvar::new(),
            ping_every: session_timeout / 3,
            began: Instant::now(),
            sent_bytes: AtomicU64::new(0),
            received_bytes: AtomicU64::new(0),
            flow_control: AtomicU64::new(0),
            heard_us: AtomicU64::new(0),
            window: Mutex::new(u64::from(window_bytes)),
        }))
    }

    /// Who is at the other end.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Microseconds since the connection began: the clock of pings and blocks.
    pub fn clock_us(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// Milliseconds since anything was received.
    pub fn silent_ms(&self) -> u64 {
        self.clock_us()
            .saturating_sub(self.heard_us.load(Ordering::Acquire))
            / 1000
    }

    /// Bytes so far.
    pub fn counts(&self) -> LinkCounts {
        LinkCounts {
            sent_bytes: self.sent_bytes.load(Ordering::Relaxed),
            received_bytes: self.received_bytes.load(Ordering::Relaxed),
            flow_control: self.flow_control.load(Ordering::Relaxed),
        }
    }

    /// Sends a control message, before any block. It never waits; a peer that takes none is cut off.
    pub fn send(&self, message: Message) {
        let fits = self.out.lock().control.push(message);
        match fits {
            true => self.wake(),
            false => self.close(),
        }
    }

    /// Ships a database over this connection, in turn with others.
    pub fn add(&self, source: Arc<dyn Source>) {
        self.lanes.lock().add(source);
        self.wake();
    }

    /// Ships it no longer.
    pub fn remove(&self, source: &Arc<dyn Source>) {
        self.lanes.lock().remove(source);
    }

    /// A database has something to send.
    pub fn wake(&self) {
        *self.bell.lock() = true;
        self.more.notify_one();
    }

    /// So many bytes of blocks were dealt with: the peer may send as many again.
    pub fn grant(&self, bytes: usize) {
        *self.window.lock() += bytes as u64;
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.send(Message::Grant { bytes });
    }

    /// Bytes of blocks that have left, or are about to, and that the peer has not dealt with.
    pub fn outstanding_bytes(&self) -> u64 {
        let credit = self.out.lock().credit;
        u64::try_from(i64::from(self.peer.window_bytes) - credit).unwrap_or(0)
    }

    /// Has it ended, or is it about to?
    pub fn is_closed(&self) -> bool {
        self.out.lock().end.is_some()
    }

    /// Has the peer ended it, as a process does that ends or is killed? One that is frozen, or cut off, is only not heard of.
    pub fn is_ended_by_peer(&self) -> bool {
        self.out.lock().end == Some(End::Peer)
    }

    /// Ends the connection; its threads notice.
    pub fn close(&self) {
        self.end(End::Here);
    }

    fn end(&self, how: End) {
        self.out.lock().end.get_or_insert(how);
        self.wake();
        // Nothing to be done about a socket that is closed already.
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    /// Runs the connection until it ends. This thread reads.
    pub(super) fn run(self: &Arc<Self>, handler: &dyn Handler) {
        let writer = {
            let link = self.clone();
            let builder = std::thread::Builder::new().name("group send".into());
            builder.spawn(move || link.write_until_closed())
        };
        let read = match &writer {
            Ok(_) => self.read_until_closed(handler),
            Err(_) => Err(LinkError::Closed),
        };
        if let Err(why) = &read {
            self.end(End::of(why));
        }
        let written = writer.ok().and_then(|w| w.join().ok()).unwrap_or(Ok(()));
        let shipped = self.lanes.lock().end();
        drop(shipped);
        let why = match (read, written) {
            (Err(LinkError::Closed), Err(why)) => why,
            (Err(why), _) | (Ok(()), Err(why)) => why,
            (Ok(()), Ok(())) => LinkError::Closed,
        };
        handler.closed(self, &why);
    }

    fn read_until_closed(self: &Arc<Self>, handler: &dyn Handler) -> Result<(), LinkError> {
        let mut cipher = vec![0; READ_BYTES];
        let mut inbox = Inbox::default();
        // What came with the end of the handshake.
        self.decrypt(&[], &mut inbox)?;
        loop {
            while let Some(message) = inbox.next()? {
                self.take(handler, message.0, message.1)?;
            }
            let length = (&self.socket).read(&mut cipher).map_err(silent)?;
            if length == 0 {
                self.end(End::Peer);
            }
            if self.is_closed() {
                return Err(LinkError::Closed);
            }
            self.heard_us.store(self.clock_us(), Ordering::Release);
            self.decrypt(&cipher[..length], &mut inbox)?;
        }
    }

    fn decrypt(&self, mut cipher: &[u8], inbox: &mut Inbox) -> Result<(), LinkError> {
        let mut tls = self.tls.lock();
        loop {
            if !cipher.is_empty() {
                tls.read_tls(&mut cipher)?;
            }
            let state = tls.process_new_packets()?;
            inbox.read(&mut tls.reader(), state.plaintext_bytes_to_read())?;
            if cipher.is_empty() {
                return Ok(());
            }
        }
    }

    fn take(
        self: &Arc<Self>,
        handler: &dyn Handler,
        message: Message,
        frame_bytes: usize,
    ) -> Result<(), LinkError> {
        self.received_bytes
            .fetch_add(frame_bytes as u64, Ordering::Relaxed);
        match message {
            Message::Ping {
                clock_us,
                is_answer: false,
            } => {
                self.send(Message::Ping {
                    clock_us,
                    is_answer: true,
                });
                Ok(())
            }
            Message::Ping {
                is_answer: true, ..
            } => Ok(()),
            Message::Grant { bytes } => {
                let mut out = self.out.lock();
                out.credit = out.credit.saturating_add(i64::from(bytes));
                drop(out);
                self.wake();
                Ok(())
            }
            Message::Bye { reason } => Err(LinkError::Farewell(reason)),
            Message::Hello(_) | Message::Welcome(_) => {
                Err(LinkError::Protocol("a second greeting".into()))
            }
            Message::Block { .. } | Message::Seed { .. } => {
                self.pay(frame_bytes)?;
                handler.received(self, message)
            }
            message => handler.received(self, message),
        }
    }

    /// A block may be longer than what is left, as a sender cannot know before it has packed it; then nothing is left.
    fn pay(&self, frame_bytes: usize) -> Result<(), LinkError> {
        let mut window = self.window.lock();
        if *window == 0 {
            return Err(LinkError::Protocol("more blocks than were granted".into()));
        }
        *window = window.saturating_sub(frame_bytes as u64);
        Ok(())
    }

    fn write_until_closed(&self) -> Result<(), LinkError> {
        let mut plain = Vec::with_capacity(WRITE_BYTES * 2);
        let mut cipher = Vec::new();
        let result = loop {
            plain.clear();
            match self.gather(&mut plain) {
                true => {}
                false => break Ok(()),
            }
            if let Err(e) = self.write(&plain, &mut cipher) {
                break Err(e);
            }
        };
        if let Err(why) = &result {
            self.end(End::of(why));
        }
        result
    }

    fn write(&self, plain: &[u8], cipher: &mut Vec<u8>) -> Result<(), LinkError> {
        cipher.clear();
        {
            let mut tls = self.tls.lock();
            tls.writer().write_all(plain)?;
            while tls.wants_write() {
                tls.write_tls(cipher)?;
            }
        }
        // Counted before the peer can know of them.
        self.sent_bytes
            .fetch_add(plain.len() as u64, Ordering::Relaxed);
        (&self.socket).write_all(cipher).map_err(silent)?;
        Ok(())
    }

    /// Waits for something to send, and puts it into `plain`. `false`: the connection is closed.
    fn gather(&self, plain: &mut Vec<u8>) -> bool {
        let mut ping_at = Instant::now() + self.ping_every;
        loop {
            // A ring from here on is of something that this look may miss.
            *self.bell.lock() = false;
            let Some(control) = self.control() else {
                return false;
            };
            for message in control {
                wire::encode(self.peer.version, &message, plain);
            }
            let wait = self.gather_blocks(plain);
            if !plain.is_empty() {
                return true;
            }
            let until = ping_at.min(Instant::now() + wait.unwrap_or(self.ping_every));
            let mut bell = self.bell.lock();
            if !*bell {
                self.more.wait_until(&mut bell, until);
            }
            drop(bell);
            if Instant::now() >= ping_at {
                ping_at = Instant::now() + self.ping_every;
                let clock_us = self.clock_us();
                let is_answer = false;
                wire::encode(
                    self.peer.version,
                    &Message::Ping {
                        clock_us,
                        is_answer,
                    },
                    plain,
                );
            }
        }
    }

    /// Control messages that wait. `None`: the connection is closed.
    fn control(&self) -> Option<VecDeque<Message>> {
        let mut out = self.out.lock();
        out.end.is_none().then(|| out.control.take())
    }

    fn gather_blocks(&self, plain: &mut Vec<u8>) -> Option<Duration> {
        let mut lanes = self.lanes.lock();
        while plain.len() < WRITE_BYTES {
            if self.out.lock().credit <= 0 {
                self.flow_control.fetch_add(1, Ordering::Relaxed);
                return None;
            }
            match lanes.pull() {
                Pull::Send(message) => {
                    let before = plain.len();
                    wire::encode(self.peer.version, &message, plain);
                    let bytes = plain.len() - before;
                    lanes.used(bytes);
                    if matches!(message, Message::Block { .. } | Message::Seed { .. }) {
                        self.out.lock().credit -= bytes as i64;
                    }
                }
                Pull::Later(wait) => return Some(wait),
                Pull::Nothing => return None,
            }
        }
        None
    }
}

/// A read or write that waited too long, told as what it means.
fn silent(e: io::Error) -> LinkError {
    match e.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => LinkError::Socket(io::Error::new(
            ErrorKind::TimedOut,
            "nothing came or went for the session timeout",
        )),
        _ => LinkError::Socket(e),
    }
}

/// Plain bytes that came and are no whole frame yet.
#[derive(Default)]
struct Inbox {
    bytes: Vec<u8>,
    from: usize,
}

impl Inbox {
    fn read(&mut self, reader: &mut impl Read, length: usize) -> Result<(), LinkError> {
        self.bytes.drain(..self.from);
        self.from = 0;
        let before = self.bytes.len();
        self.bytes.resize(before + length, 0);
        let part = self.bytes.get_mut(before..).unwrap_or_default();
        reader.read_exact(part)?;
        Ok(())
    }

    /// The next message and the length of its frame.
    fn next(&mut self) -> Result<Option<(Message, usize)>, LinkError> {
        let bytes = self.bytes.get(self.from..).unwrap_or_default();
        let found = wire::decode(bytes)?;
        self.from += found.as_ref().map_or(0, |(_, length)| *length);
        Ok(found)
    }
}

/// Reads one message of a greeting, from a stream with a deadline.
pub(super) fn read_greeting(stream: &mut impl Read) -> Result<Message, LinkError> {
    let mut head = [0; FRAME_HEADER_BYTES];
    stream.read_exact(&mut head)?;
    let header = FrameHeader::decode(&head)?;
    let mut body = vec![0; header.body_bytes()];
    stream.read_exact(&mut body)?;
    Ok(header.message(&body)?)
}
