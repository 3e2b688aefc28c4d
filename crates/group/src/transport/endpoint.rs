//! Where replicas come in and go out: the mirroring endpoint.
//!
//! A connection that has not proved itself costs one thread for a bounded time, and there are a bounded number of them; the others
//! wait in the kernel's queue.
//!
//! One endpoint serves all groups of a server. A peer that shows a pinned certificate may greet; the [`Door`] says what becomes of it.

use super::link::{Handler, Link, LinkError, Peer, read_greeting};
use super::tls::{Fingerprint, Identity};
use crate::commit::ReplicaId;
use crate::wire::{
    self, Codecs, GREETING_VERSION, Hello, Message, Purpose, VERSION, VERSION_MIN, Welcome,
    common_version,
};
use parking_lot::{Condvar, Mutex};
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, Connection, ServerConnection};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Connections in their handshake at once.
const UNPROVED_MAX: usize = 16;

/// Another replica, as the group's configuration knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its place in the group.
    pub replica: ReplicaId,
    /// Of its certificate.
    pub fingerprint: Fingerprint,
}

/// This replica's side of its connections.
#[derive(Clone)]
pub struct EndpointConfig {
    /// Id of the group.
    pub group: u128,
    /// This replica's place in it.
    pub me: ReplicaId,
    /// This server's name.
    pub name: String,
    /// Its certificate.
    pub identity: Identity,
    /// Everybody else.
    pub members: Vec<Member>,
    /// Codecs that it understands.
    pub codecs: Codecs,
    /// Bytes of blocks that it takes before it grants more.
    pub window_bytes: u32,
    /// A connection without a sign of life for so long is over.
    pub session_timeout: Duration,
    /// A connection that has not proved itself after so long is closed.
    pub handshake_timeout: Duration,
}

/// What a server's endpoint does with those who connect.
pub trait Door: Send + Sync {
    /// This server's certificate, and those that are let in. `None`: nobody is.
    fn pins(&self) -> Option<(Identity, Vec<Fingerprint>)>;
    /// Who has shown a pinned certificate says whom it wants: this side of the connection, and who takes its messages. An error
    /// is told to the other side.
    fn admit(
        &self,
        hello: &Hello,
        fingerprint: Fingerprint,
    ) -> Result<(EndpointConfig, Arc<dyn Handler>), String>;
}

/// The door of a server with one group whose members are known.
struct OneGroup {
    config: EndpointConfig,
    handler: Arc<dyn Handler>,
}

impl Door for OneGroup {
    fn pins(&self) -> Option<(Identity, Vec<Fingerprint>)> {
        let pinned = self.config.members.iter().map(|m| m.fingerprint);
        Some((self.config.identity.clone(), pinned.collect()))
    }

    fn admit(
        &self,
        hello: &Hello,
        fingerprint: Fingerprint,
    ) -> Result<(EndpointConfig, Arc<dyn Handler>), String> {
        let members = &self.config.members;
        let is_it = |m: &Member| m.fingerprint == fingerprint && m.replica == hello.replica;
        match members.iter().any(is_it) {
            true => Ok((self.config.clone(), self.handler.clone())),
            false => Err(STRANGER.into()),
        }
    }
}

const STRANGER: &str = "another group, or another replica of it";

/// Listens for replicas.
pub struct Endpoint {
    shared: Arc<Shared>,
    address: SocketAddr,
    accepting: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    door: Arc<dyn Door>,
    handshake_timeout: Duration,
    stopping: AtomicBool,
    unproved: Mutex<usize>,
    proved: Condvar,
    links: Mutex<Vec<Arc<Link>>>,
}

impl Endpoint {
    /// Listens at `address` for the members of one group.
    pub fn listen(
        address: SocketAddr,
        config: EndpointConfig,
        handler: Arc<dyn Handler>,
    ) -> io::Result<Endpoint> {
        let handshake_timeout = config.handshake_timeout;
        Endpoint::open(
            address,
            Arc::new(OneGroup { config, handler }),
            handshake_timeout,
        )
    }

    /// Listens at `address`; a connection that has not proved itself after `handshake_timeout` is closed.
    pub fn open(
        address: SocketAddr,
        door: Arc<dyn Door>,
        handshake_timeout: Duration,
    ) -> io::Result<Endpoint> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            door,
            handshake_timeout,
            stopping: AtomicBool::new(false),
            unproved: Mutex::new(0),
            proved: Condvar::new(),
            links: Mutex::default(),
        });
        let accepting = {
            let shared = shared.clone();
            let builder = std::thread::Builder::new().name("group listen".into());
            builder.spawn(move || accept_all(&listener, &shared))?
        };
        Ok(Endpoint {
            shared,
            address,
            accepting: Mutex::new(Some(accepting)),
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Closes everything that came in.
    pub fn stop(&self) {
        self.shared.stopping.store(true, Ordering::Release);
        self.shared.proved.notify_all();
        // A connection of our own wakes the listener.
        let _ = TcpStream::connect_timeout(&self.address, Duration::from_secs(1));
        if let Some(accepting) = self.accepting.lock().take() {
            // A listener that panicked has stopped as well.
            let _ = accepting.join();
        }
        let links = std::mem::take(&mut *self.shared.links.lock());
        links.iter().for_each(|link| link.close());
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.stop();
    }
}

fn accept_all(listener: &TcpListener, shared: &Arc<Shared>) {
    loop {
        let accepted = listener.accept();
        if shared.stopping.load(Ordering::Acquire) {
            return;
        }
        let Ok((socket, _)) = accepted else {
            // Out of file descriptors, or the peer left already: others may still come.
            std::thread::yield_now();
            continue;
        };
        shared.wait_for_place();
        let for_thread = shared.clone();
        let builder = std::thread::Builder::new().name("group receive".into());
        if builder.spawn(move || serve(socket, &for_thread)).is_err() {
            shared.leave_place();
        }
    }
}

impl Shared {
    fn wait_for_place(&self) {
        let mut unproved = self.unproved.lock();
        while *unproved >= UNPROVED_MAX && !self.stopping.load(Ordering::Acquire) {
            self.proved.wait(&mut unproved);
        }
        *unproved += 1;
    }

    fn leave_place(&self) {
        *self.unproved.lock() -= 1;
        self.proved.notify_one();
    }
}

fn serve(socket: TcpStream, shared: &Arc<Shared>) {
    let proved = welcome(socket, shared);
    shared.leave_place();
    // Who could not prove itself is told nothing, and everybody may try: there is nothing to be said in a log either.
    let Ok((link, handler)) = proved else {
        return;
    };
    shared.links.lock().push(link.clone());
    if !shared.stopping.load(Ordering::Acquire) {
        handler.connected(&link);
        link.run(&*handler);
    }
    shared.links.lock().retain(|l| !Arc::ptr_eq(l, &link));
}

fn welcome(socket: TcpStream, shared: &Shared) -> Result<(Arc<Link>, Arc<dyn Handler>), LinkError> {
    let deadline = Instant::now() + shared.handshake_timeout;
    let (identity, pinned) = shared.door.pins().ok_or(LinkError::Closed)?;
    let server = identity
        .server(pinned.clone())
        .map_err(|e| LinkError::Protocol(e.to_string()))?;
    let mut tls = Connection::Server(ServerConnection::new(Arc::new(server))?);
    let mut bounded = Bounded {
        socket: &socket,
        deadline,
    };
    let fingerprint = shake_hands(&mut tls, &mut bounded, &pinned)?;
    let mut stream = Greeting {
        tls: &mut tls,
        socket: bounded,
    };
    let hello = match read_greeting(&mut stream)? {
        Message::Hello(hello) => hello,
        other => {
            return Err(LinkError::Protocol(format!(
                "{other:?} instead of a greeting"
            )));
        }
    };
    let admitted = shared.door.admit(&hello, fingerprint);
    let admitted = admitted.and_then(|(config, handler)| {
        let version = check_hello(&hello, &config)?;
        Ok((config, handler, version))
    });
    let (config, handler, version) = match admitted {
        Ok(admitted) => admitted,
        Err(reason) => {
            say(
                &mut stream,
                GREETING_VERSION,
                &Message::Bye {
                    reason: reason.clone(),
                },
            )?;
            return Err(LinkError::Protocol(reason));
        }
    };
    let answer = Welcome {
        version,
        name: config.name.clone(),
        codecs: config.codecs,
        window_bytes: config.window_bytes,
    };
    say(&mut stream, version, &Message::Welcome(answer))?;
    let peer = Peer {
        replica: hello.replica,
        name: hello.name,
        version,
        codecs: config.codecs.and(hello.codecs),
        window_bytes: hello.window_bytes,
        purpose: hello.purpose,
    };
    let link = Link::new(
        socket,
        tls,
        peer,
        config.window_bytes,
        config.session_timeout,
    )?;
    Ok((link, handler))
}

/// The version to speak in; `Err` is what the peer is told.
fn check_hello(hello: &Hello, config: &EndpointConfig) -> Result<u16, String> {
    if hello.group != config.group || hello.to != config.me || hello.replica == config.me {
        return Err(STRANGER.into());
    }
    let ours = (VERSION_MIN, VERSION);
    common_version(ours, hello.versions).ok_or_else(|| {
        let (oldest, newest) = hello.versions;
        format!(
            "you speak versions {oldest} to {newest} of the protocol between replicas, and {VERSION_MIN} to {VERSION} are spoken here: run the same release on all servers"
        )
    })
}

/// Connects to a replica whose certificate is known. The caller runs the link.
pub fn dial(
    address: SocketAddr,
    to: Member,
    config: &EndpointConfig,
) -> Result<Arc<Link>, LinkError> {
    dial_for(
        address,
        to.replica,
        &[to.fingerprint],
        config,
        Purpose::Member,
    )
}

/// Connects to a replica that has one of the pinned certificates. The caller runs the link.
pub fn dial_for(
    address: SocketAddr,
    to: ReplicaId,
    pinned: &[Fingerprint],
    config: &EndpointConfig,
    purpose: Purpose,
) -> Result<Arc<Link>, LinkError> {
    dial_in(address, to, pinned, config, purpose, (VERSION_MIN, VERSION))
}

/// The same, by who speaks these versions.
pub(super) fn dial_in(
    address: SocketAddr,
    to: ReplicaId,
    pinned: &[Fingerprint],
    config: &EndpointConfig,
    purpose: Purpose,
    versions: (u16, u16),
) -> Result<Arc<Link>, LinkError> {
    let deadline = Instant::now() + config.handshake_timeout;
    let socket = TcpStream::connect_timeout(&address, config.handshake_timeout)?;
    let client = config
        .identity
        .client(pinned.to_vec())
        .map_err(|e| LinkError::Protocol(e.to_string()))?;
    let name = ServerName::IpAddress(address.ip().into());
    let mut tls = Connection::Client(ClientConnection::new(Arc::new(client), name)?);
    let mut bounded = Bounded {
        socket: &socket,
        deadline,
    };
    shake_hands(&mut tls, &mut bounded, pinned)?;
    let mut stream = Greeting {
        tls: &mut tls,
        socket: bounded,
    };
    let hello = Hello {
        versions,
        group: config.group,
        replica: config.me,
        to,
        name: config.name.clone(),
        codecs: config.codecs,
        window_bytes: config.window_bytes,
        purpose,
    };
    say(&mut stream, GREETING_VERSION, &Message::Hello(hello))?;
    let welcome = match read_greeting(&mut stream)? {
        Message::Welcome(welcome) => welcome,
        Message::Bye { reason } => return Err(LinkError::Farewell(reason)),
        other => {
            return Err(LinkError::Protocol(format!(
                "{other:?} instead of a greeting"
            )));
        }
    };
    if !(VERSION_MIN..=VERSION).contains(&welcome.version) {
        return Err(LinkError::Protocol(format!(
            "version {} was not offered",
            welcome.version
        )));
    }
    let peer = Peer {
        replica: to,
        name: welcome.name,
        version: welcome.version,
        codecs: config.codecs.and(welcome.codecs),
        window_bytes: welcome.window_bytes,
        purpose,
    };
    Link::new(
        socket,
        tls,
        peer,
        config.window_bytes,
        config.session_timeout,
    )
}

impl Link {
    /// Runs a connection that [`dial`] made, on this thread, until it ends.
    pub fn serve(self: &Arc<Self>, handler: &dyn Handler) {
        self.run(handler);
    }
}

fn say(stream: &mut impl Write, version: u16, message: &Message) -> Result<(), LinkError> {
    let mut bytes = Vec::new();
    wire::encode(version, message, &mut bytes);
    stream.write_all(&bytes)?;
    stream.flush()?;
    Ok(())
}

/// The TLS handshake; which of the pinned certificates the peer has.
fn shake_hands(
    tls: &mut Connection,
    socket: &mut Bounded<'_>,
    pinned: &[Fingerprint],
) -> Result<Fingerprint, LinkError> {
    while tls.is_handshaking() {
        tls.complete_io(socket)?;
    }
    let shown = tls.peer_certificates().and_then(|c| c.first());
    let fingerprint = shown.map(|c| Fingerprint::of(c));
    fingerprint
        .filter(|found| pinned.contains(found))
        .ok_or_else(|| LinkError::Protocol("an unknown certificate".into()))
}

/// The connection until both have greeted each other.
struct Greeting<'a> {
    tls: &'a mut Connection,
    socket: Bounded<'a>,
}

impl Read for Greeting<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.tls.reader().read(buf) {
                Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                other => return other,
            }
            if self.tls.complete_io(&mut self.socket)? == (0, 0) {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

impl Write for Greeting<'_> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.tls.writer().write(buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        while self.tls.wants_write() {
            self.tls.write_tls(&mut self.socket)?;
        }
        self.socket.flush()
    }
}

/// A socket on which nothing takes longer than until the deadline.
struct Bounded<'a> {
    socket: &'a TcpStream,
    deadline: Instant,
}

impl Bounded<'_> {
    fn left(&self) -> io::Result<Duration> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        match left.is_zero() {
            true => Err(ErrorKind::TimedOut.into()),
            false => Ok(left),
        }
    }
}

impl Read for Bounded<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.socket.set_read_timeout(Some(self.left()?))?;
        self.socket.read(buf)
    }
}

impl Write for Bounded<'_> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.socket.set_write_timeout(Some(self.left()?))?;
        self.socket.write(buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}
