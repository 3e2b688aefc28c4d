//! Connections between the nodes, over the transport of availability groups: TLS with certificates known by their SHA-256.
//!
//! Theory: of two nodes the one with the lower number connects. Its certificate says which one it is, on both sides; the places
//! in the greeting only tell which one dials. A connection carries packets and promises nothing: what is lost is asked again. Of two
//! connections between the same nodes the newer one counts.
//!
//! Who shows the join certificate may ask to be let in, and nothing else.

use super::{ClusterError, Input, Shared};
use crate::command::{Command, Outcome};
use crate::packet::Packet;
use crate::state::{ClusterState, NodeState};
use daruma_group::commit::ReplicaId;
use daruma_group::transport::{
    Dialer, Door, Endpoint, EndpointConfig, Fingerprint, Handler, Identity, Link, LinkError,
    Target, Wanted,
};
use daruma_group::wire::{Codecs, Hello, Message};
use daruma_quorum::MemberId;
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Weak};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// A connection without a sign of life for so long is over.
pub(crate) const SESSION_TIMEOUT: Duration = Duration::from_secs(2);
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(2);
/// No blocks are sent on these connections.
const WINDOW_BYTES: u32 = 1;

const fn place(number: u8) -> ReplicaId {
    match ReplicaId::new(number) {
        Some(id) => id,
        None => panic!("a group has at least two places"),
    }
}

/// The side that connects.
pub(crate) const DIALS: ReplicaId = place(0);
/// The side that is connected to.
pub(crate) const LISTENS: ReplicaId = place(1);

pub(crate) fn endpoint_config(
    cluster: u128,
    side: ReplicaId,
    name: &str,
    identity: Identity,
    session_timeout: Duration,
) -> EndpointConfig {
    EndpointConfig {
        group: cluster,
        me: side,
        name: name.to_string(),
        identity,
        members: Vec::new(),
        codecs: Codecs::OURS,
        window_bytes: WINDOW_BYTES,
        session_timeout,
        handshake_timeout: HANDSHAKE_TIMEOUT,
    }
}

/// All connections of a node.
pub(super) struct Links {
    shared: Weak<Shared>,
    up: Mutex<BTreeMap<u8, Arc<Link>>>,
    todo: Mutex<Todo>,
    changed: Condvar,
    endpoint: Mutex<Option<Endpoint>>,
    keeper: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Todo {
    follow: bool,
    stopped: bool,
}

impl Links {
    /// Listens, and begins to connect to the others.
    pub(super) fn open(
        shared: &Arc<Shared>,
        listen: Option<SocketAddr>,
    ) -> Result<Arc<Links>, ClusterError> {
        let links = Arc::new(Links {
            shared: Arc::downgrade(shared),
            up: Mutex::default(),
            todo: Mutex::new(Todo {
                follow: true,
                stopped: false,
            }),
            changed: Condvar::new(),
            endpoint: Mutex::new(None),
            keeper: Mutex::new(None),
        });
        let state = shared.state();
        let mine = state.node(shared.me.number()).map(|n| n.address.clone());
        let address = listen.map_or_else(|| mine.unwrap_or_default(), |l| l.to_string());
        let failed = |error| ClusterError::Listen {
            address: address.clone(),
            error,
        };
        let found = match listen {
            Some(listen) => listen,
            None => resolve(&address).map_err(failed)?,
        };
        let door = Arc::new(ClusterDoor(Arc::downgrade(&links)));
        let endpoint = Endpoint::open(found, door, HANDSHAKE_TIMEOUT).map_err(failed)?;
        *links.endpoint.lock() = Some(endpoint);
        let keeping = Arc::downgrade(&links);
        let builder = Builder::new().name("cluster links".into());
        let keeper = builder.spawn(move || keep(&keeping));
        *links.keeper.lock() = Some(keeper.map_err(ClusterError::Thread)?);
        Ok(links)
    }

    /// Sends a packet, if there is a connection to that node.
    pub(super) fn send(&self, to: MemberId, packet: &Packet) {
        let link = self.up.lock().get(&to.number()).cloned();
        if let Some(link) = link {
            link.send(Message::Packet {
                bytes: Arc::from(packet.encode()),
            });
        }
    }

    /// The members may be others than before.
    pub(super) fn follow(&self) {
        self.todo.lock().follow = true;
        self.changed.notify_all();
    }

    /// Closes everything.
    pub(super) fn stop(&self) {
        self.stop_in_background();
        if let Some(keeper) = self.keeper.lock().take() {
            // A thread that panicked has stopped as well.
            let _ = keeper.join();
        }
    }

    pub(super) fn stop_in_background(&self) {
        self.todo.lock().stopped = true;
        self.changed.notify_all();
        let links: Vec<_> = self.up.lock().values().cloned().collect();
        links.iter().for_each(|l| l.close());
    }

    fn is_stopped(&self) -> bool {
        self.todo.lock().stopped
    }

    /// Whoever is no member any more is heard no more.
    fn close_strangers(&self, state: &ClusterState) {
        let strangers: Vec<Arc<Link>> = {
            let up = self.up.lock();
            let gone = up.iter().filter(|(n, _)| state.node(**n).is_none());
            gone.map(|(_, link)| link.clone()).collect()
        };
        strangers.iter().for_each(|l| l.close());
    }

    fn target(&self, to: u8) -> Wanted {
        let shared = self.shared.upgrade().filter(|_| !self.is_stopped());
        let Some(shared) = shared else {
            return Ok(None);
        };
        let state = shared.state();
        let (Some(node), Some(mine)) = (state.node(to), state.node(shared.me.number())) else {
            return Ok(None);
        };
        let address = resolve(&node.address).map_err(|e| format!("{}: {e}", node.address))?;
        Ok(Some(Target {
            address,
            to: LISTENS,
            pinned: vec![Fingerprint(node.fingerprint)],
            config: endpoint_config(
                state.id,
                DIALS,
                &mine.name,
                shared.pair.identity(),
                SESSION_TIMEOUT,
            ),
        }))
    }
}

fn resolve(address: &str) -> io::Result<SocketAddr> {
    let found = address.to_socket_addrs()?.next();
    found.ok_or_else(|| io::Error::new(ErrorKind::NotFound, "it has no address"))
}

/// Keeps a dialer for each node that this one has to connect to.
fn keep(links: &Weak<Links>) {
    let mut dialers: Vec<(NodeState, Dialer)> = Vec::new();
    loop {
        let Some(links) = links.upgrade() else { return };
        let shared = links.shared.upgrade();
        let Some(shared) = shared.filter(|_| !links.is_stopped()) else {
            break;
        };
        let state = shared.state();
        links.close_strangers(&state);
        dialers.retain(|(known, _)| state.nodes.contains(known));
        let later = state.nodes.iter().filter(|n| n.number > shared.me.number());
        for node in later {
            if dialers.iter().any(|(known, _)| known == node) {
                continue;
            }
            match dialer(&links, node.number) {
                Ok(dialer) => dialers.push((node.clone(), dialer)),
                Err(error) => shared.say(&format!("No thread to connect to a node: {error}.")),
            }
        }
        drop(shared);
        let mut todo = links.todo.lock();
        while !todo.follow && !todo.stopped {
            links.changed.wait(&mut todo);
        }
        todo.follow = false;
    }
    drop(dialers);
    if let Some(links) = links.upgrade() {
        let endpoint = links.endpoint.lock().take();
        drop(endpoint);
    }
}

fn dialer(links: &Arc<Links>, to: u8) -> io::Result<Dialer> {
    let target = Arc::downgrade(links);
    let target = move || target.upgrade().map_or(Ok(None), |l| l.target(to));
    let handler = Conversation {
        links: Arc::downgrade(links),
        with: to,
    };
    Dialer::start(Box::new(target), Arc::new(handler))
}

/// A connection with a member, which its certificate has proved to be that one.
struct Conversation {
    links: Weak<Links>,
    with: u8,
}

impl Handler for Conversation {
    fn connected(&self, link: &Arc<Link>) {
        let Some(links) = self.links.upgrade().filter(|l| !l.is_stopped()) else {
            return link.close();
        };
        let before = links.up.lock().insert(self.with, link.clone());
        if let Some(before) = before {
            before.close();
        }
    }

    fn received(&self, link: &Arc<Link>, message: Message) -> Result<(), LinkError> {
        let links = self.links.upgrade().ok_or(LinkError::Closed)?;
        let shared = links.shared.upgrade().ok_or(LinkError::Closed)?;
        let is_newest = links
            .up
            .lock()
            .get(&self.with)
            .is_some_and(|newest| Arc::ptr_eq(newest, link));
        let from = MemberId::node(self.with).filter(|_| is_newest);
        let from = from.ok_or(LinkError::Closed)?;
        if shared.state().node(self.with).is_none() {
            return Err(LinkError::Protocol("no member of this cluster".into()));
        }
        match decode(message)? {
            Packet::Join { .. } | Packet::Joined(_) => {
                Err(LinkError::Protocol("members are in already".into()))
            }
            packet => {
                // Too many wait: as on any network, one may be lost.
                shared.inbox.push(Input::Packet(from, packet));
                Ok(())
            }
        }
    }

    fn closed(&self, link: &Arc<Link>, _: &LinkError) {
        if let Some(links) = self.links.upgrade() {
            let mut up = links.up.lock();
            if up.get(&self.with).is_some_and(|l| Arc::ptr_eq(l, link)) {
                up.remove(&self.with);
            }
        }
    }
}

fn decode(message: Message) -> Result<Packet, LinkError> {
    match message {
        Message::Packet { bytes } => {
            Packet::decode(&bytes).map_err(|e| LinkError::Protocol(e.to_string()))
        }
        _ => Err(LinkError::Protocol("no packet of a cluster".into())),
    }
}

/// Who comes in.
struct ClusterDoor(Weak<Links>);

impl Door for ClusterDoor {
    fn pins(&self) -> Option<(Identity, Vec<Fingerprint>)> {
        let shared = self.0.upgrade()?.shared.upgrade()?;
        let state = shared.state();
        let others = state.nodes.iter().filter(|n| n.number < shared.me.number());
        let pinned = others.map(|n| n.fingerprint).chain(state.join);
        let pinned = pinned.map(Fingerprint).collect();
        Some((shared.pair.identity(), pinned))
    }

    fn admit(
        &self,
        _: &Hello,
        fingerprint: Fingerprint,
    ) -> Result<(EndpointConfig, Arc<dyn Handler>), String> {
        let links = self.0.upgrade().ok_or("the node stops")?;
        let shared = links.shared.upgrade().ok_or("the node stops")?;
        let state = shared.state();
        let mine = state.node(shared.me.number());
        let name = mine.map_or("", |n| n.name.as_str());
        let identity = shared.pair.identity();
        let config = endpoint_config(state.id, LISTENS, name, identity, SESSION_TIMEOUT);
        if let Some(member) = state.with_certificate(fingerprint) {
            let handler = Conversation {
                links: self.0.clone(),
                with: member.number(),
            };
            return Ok((config, Arc::new(handler)));
        }
        match state.join == Some(fingerprint.0) {
            true => {
                let shared = Arc::downgrade(&shared);
                let shown = fingerprint.0;
                Ok((config, Arc::new(Doorman { shared, shown })))
            }
            false => Err("the server is no member of this cluster".into()),
        }
    }
}

/// Passes on who asks to be let in.
struct Doorman {
    shared: Weak<Shared>,
    /// SHA-256 of the join certificate that was shown.
    shown: [u8; 32],
}

impl Handler for Doorman {
    fn connected(&self, _: &Arc<Link>) {}

    fn received(&self, link: &Arc<Link>, message: Message) -> Result<(), LinkError> {
        let shared = self.shared.upgrade().ok_or(LinkError::Closed)?;
        if shared.state().join != Some(self.shown) {
            return Err(LinkError::Protocol("the join token is void".into()));
        }
        let Packet::Join {
            name,
            address,
            fingerprint,
        } = decode(message)?
        else {
            return Err(LinkError::Protocol("who is not in may only join".into()));
        };
        let outcome = shared.wish(Command::AddNode {
            name,
            address,
            fingerprint,
        });
        if let Outcome::Added { number, .. } = &outcome {
            shared.say(&format!("Node {number} has joined the cluster."));
        }
        link.send(Message::Packet {
            bytes: Arc::from(Packet::Joined(outcome).encode()),
        });
        Ok(())
    }

    fn closed(&self, _: &Arc<Link>, _: &LinkError) {}
}
