//! Where replicas come in and go out: the mirroring endpoint.
//!
//! A connection that has not proved itself costs one thread for a bounded time, and there are a bounded number of them; the others
//! wait in the kernel's queue.

use super::link::{Handler, Link, LinkError, Peer, read_greeting};
use super::tls::{Fingerprint, Identity};
use crate::commit::ReplicaId;
use crate::wire::{self, Codecs, Hello, Message, VERSION, VERSION_MIN, Welcome, common_version};
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

/// Listens for replicas.
pub struct Endpoint {
    shared: Arc<Shared>,
    address: SocketAddr,
    accepting: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    config: Mutex<EndpointConfig>,
    handler: Arc<dyn Handler>,
    stopping: AtomicBool,
    unproved: Mutex<usize>,
    proved: Condvar,
    links: Mutex<Vec<Arc<Link>>>,
}

impl Endpoint {
    /// Listens at `address`.
    pub fn listen(
        address: SocketAddr,
        config: EndpointConfig,
        handler: Arc<dyn Handler>,
    ) -> io::Result<Endpoint> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            config: Mutex::new(config),
            handler,
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

    /// The group was altered. Connections of members that are no longer pinned end.
    pub fn configure(&self, config: EndpointConfig) {
        let stays = |link: &Arc<Link>| {
            config
                .members
                .iter()
                .any(|m| m.replica == link.peer().replica)
        };
        let links = self.shared.links.lock().clone();
        links
            .iter()
            .filter(|link| !stays(link))
            .for_each(|link| link.close());
        *self.shared.config.lock() = config;
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
    let config = shared.config.lock().clone();
    let proved = welcome(socket, &config);
    shared.leave_place();
    // Who could not prove itself is told nothing, and everybody may try: there is nothing to be said in a log either.
    let Ok(link) = proved else {
        return;
    };
    shared.links.lock().push(link.clone());
    if !shared.stopping.load(Ordering::Acquire) {
        shared.handler.connected(&link);
        link.run(&*shared.handler);
    }
    shared.links.lock().retain(|l| !Arc::ptr_eq(l, &link));
}

fn welcome(socket: TcpStream, config: &EndpointConfig) -> Result<Arc<Link>, LinkError> {
    let deadline = Instant::now() + config.handshake_timeout;
    let pinned = config.members.iter().map(|m| m.fingerprint).collect();
    let server = config
        .identity
        .server(pinned)
        .map_err(|e| LinkError::Protocol(e.to_string()))?;
    let mut tls = Connection::Server(ServerConnection::new(Arc::new(server))?);
    let mut bounded = Bounded {
        socket: &socket,
        deadline,
    };
    let member = shake_hands(&mut tls, &mut bounded, config)?;
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
    let version = match check_hello(&hello, member, config) {
        Ok(version) => version,
        Err(reason) => {
            say(
                &mut stream,
                VERSION_MIN,
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
        replica: member,
        name: hello.name,
        version,
        codecs: config.codecs.and(hello.codecs),
        window_bytes: hello.window_bytes,
    };
    Link::new(
        socket,
        tls,
        peer,
        config.window_bytes,
        config.session_timeout,
    )
}

fn check_hello(hello: &Hello, member: ReplicaId, config: &EndpointConfig) -> Result<u16, String> {
    if hello.group != config.group || hello.replica != member || hello.to != config.me {
        return Err("another group, or another replica of it".into());
    }
    let ours = (VERSION_MIN, VERSION);
    common_version(ours, hello.versions).ok_or_else(|| {
        let (oldest, newest) = hello.versions;
        format!("versions {oldest} to {newest} of the protocol, and {VERSION_MIN} to {VERSION} are spoken here")
    })
}

/// Connects to a replica. The caller runs the link.
pub fn dial(
    address: SocketAddr,
    to: Member,
    config: &EndpointConfig,
) -> Result<Arc<Link>, LinkError> {
    let deadline = Instant::now() + config.handshake_timeout;
    let socket = TcpStream::connect_timeout(&address, config.handshake_timeout)?;
    let client = config
        .identity
        .client(to.fingerprint)
        .map_err(|e| LinkError::Protocol(e.to_string()))?;
    let name = ServerName::IpAddress(address.ip().into());
    let mut tls = Connection::Client(ClientConnection::new(Arc::new(client), name)?);
    let mut bounded = Bounded {
        socket: &socket,
        deadline,
    };
    let only = EndpointConfig {
        members: vec![to],
        ..config.clone()
    };
    shake_hands(&mut tls, &mut bounded, &only)?;
    let mut stream = Greeting {
        tls: &mut tls,
        socket: bounded,
    };
    let hello = Hello {
        versions: (VERSION_MIN, VERSION),
        group: config.group,
        replica: config.me,
        to: to.replica,
        name: config.name.clone(),
        codecs: config.codecs,
        window_bytes: config.window_bytes,
    };
    say(&mut stream, VERSION_MIN, &Message::Hello(hello))?;
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
        replica: to.replica,
        name: welcome.name,
        version: welcome.version,
        codecs: config.codecs.and(welcome.codecs),
        window_bytes: welcome.window_bytes,
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

/// The TLS handshake; whose certificate the peer has.
fn shake_hands(
    tls: &mut Connection,
    socket: &mut Bounded<'_>,
    config: &EndpointConfig,
) -> Result<ReplicaId, LinkError> {
    while tls.is_handshaking() {
        tls.complete_io(socket)?;
    }
    let shown = tls.peer_certificates().and_then(|c| c.first());
    let fingerprint = shown.map(|c| Fingerprint::of(c));
    let member = config
        .members
        .iter()
        .find(|m| Some(m.fingerprint) == fingerprint);
    let member = member.ok_or_else(|| LinkError::Protocol("an unknown certificate".into()))?;
    Ok(member.replica)
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
