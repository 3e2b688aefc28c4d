//! What the groups of a server share: the endpoint, whom it lets in, and invitations to groups that the server is not in yet.
//!
//! Theory: the primary of a group connects to every replica that its definition names. A server that knows the group takes that
//! connection as the group's; one that does not keeps the definition as an invitation, for ALTER AVAILABILITY GROUP .. JOIN, and closes.
//! Other replicas connect too, and bring none: their connections end when this server is in the group, and are made anew as the group's.
//! A peer that shows a certificate that a login with CONNECT on the endpoint stands for may greet; which replica it is it says itself.

use super::diagnosis::Diagnosis;
use super::group::Group;
use super::listen::Ports;
use super::wire::Definition;
use daruma_base::Disk;
use daruma_catalog::{EndpointDef, EndpointState, names_equal};
use daruma_cluster::Cluster;
use daruma_group::commit::ReplicaId;
use daruma_group::compress::{Defaults, Mode, ModeOf, TraceFlags};
use daruma_group::transport::{
    Door, Endpoint, EndpointConfig, Fingerprint, Handler, Identity, Link, LinkError,
};
use daruma_group::wire::{Codecs, Hello, Message, Purpose};
use daruma_tsql::error::{Result, SqlError};
use daruma_tsql::instance::Instance;
use daruma_tsql::instance::hadr::{EndpointIdentity, OpenPort, PortKind};
use daruma_tsql::messages;
use parking_lot::{Condvar, Mutex, RwLock};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// A connection proves itself within so long.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of log that a connection takes before it grants more.
const WINDOW_BYTES: u32 = 4 << 20;
/// Invitations that are kept; the oldest goes first.
const INVITATIONS_MAX: usize = 16;
/// One that has not been repeated for so long counts no longer.
const INVITATION_AGE: Duration = Duration::from_secs(60);

/// See the module.
pub(super) struct Common {
    pub instance: Arc<Instance>,
    cluster: Option<Arc<Cluster>>,
    compression: Defaults,
    listening: Mutex<Listening>,
    pub groups: RwLock<Vec<Arc<Group>>>,
    pub ports: Ports,
    pub diagnosis: Diagnosis,
    invitations: Mutex<Vec<Invitation>>,
    invited: Condvar,
    /// Connections of groups that this server is not in, as far as they stand.
    strangers: Mutex<Vec<([u8; 16], Weak<Link>)>>,
}

#[derive(Default)]
struct Listening {
    /// Where and since when, while it does.
    endpoint: Option<(SocketAddr, i64, Endpoint)>,
    identity: Option<(Identity, Vec<Fingerprint>)>,
}

#[derive(Clone)]
struct Invitation {
    definition: Definition,
    at: Instant,
}

impl Common {
    pub(super) fn new(
        instance: &Arc<Instance>,
        cluster: Option<Arc<Cluster>>,
        compression: Defaults,
    ) -> Arc<Common> {
        Arc::new(Common {
            instance: instance.clone(),
            cluster,
            compression,
            listening: Mutex::default(),
            groups: RwLock::default(),
            ports: Ports::default(),
            diagnosis: Diagnosis::default(),
            invitations: Mutex::default(),
            invited: Condvar::new(),
            strangers: Mutex::default(),
        })
    }

    pub(super) fn server_name(&self) -> &str {
        &self.instance.options().server_name
    }

    /// The cluster that the server is a node of.
    pub(super) fn cluster(&self) -> Option<&Arc<Cluster>> {
        self.cluster.as_ref()
    }

    /// How log goes to replicas: by the server's defaults, and by the trace flags that are on when it is asked.
    pub(super) fn modes(&self) -> ModeOf {
        let (defaults, instance) = (self.compression, Arc::downgrade(&self.instance));
        Arc::new(move |synchronous| {
            let flags = instance.upgrade().map(|i| trace_flags(&i));
            Mode::of_log(defaults, flags.unwrap_or_default(), synchronous)
        })
    }

    /// How a copy goes to a new replica, likewise.
    pub(super) fn seeding_mode(&self) -> Mode {
        Mode::of_seeding(self.compression, trace_flags(&self.instance))
    }

    pub(super) fn disk(&self) -> &Arc<dyn Disk> {
        &self.instance.env().disk
    }

    /// Where the server keeps what it must remember of groups.
    pub(super) fn folder(&self) -> PathBuf {
        self.instance.data_dir().join("hadr")
    }

    pub(super) fn random_id(&self) -> [u8; 16] {
        let mut id = [0; 16];
        self.instance.env().random.fill(&mut id);
        id
    }

    pub(super) fn log(&self, text: &str) {
        self.instance.log.write("hadr", text);
    }

    /// A group, for those who may outlive it.
    pub(super) fn weak(&self, id: [u8; 16]) -> Weak<Group> {
        let group = self.group(id);
        group.map_or_else(Weak::new, |group| Arc::downgrade(&group))
    }

    pub(super) fn group(&self, id: [u8; 16]) -> Option<Arc<Group>> {
        self.groups.read().iter().find(|g| g.id() == id).cloned()
    }

    /// This server is in the group from now on. Connections of before know nothing of it, and whoever made them believes that they do.
    pub(super) fn take_in(&self, group: Arc<Group>) {
        let id = group.id();
        self.groups.write().push(group);
        let of_it: Vec<Weak<Link>> = {
            let mut strangers = self.strangers.lock();
            let of_it = strangers.extract_if(.., |(of, _)| *of == id);
            of_it.map(|(_, link)| link).collect()
        };
        of_it
            .iter()
            .filter_map(Weak::upgrade)
            .for_each(|l| l.close());
    }

    /// A connection of a group that this server was not in when it let it in.
    fn note_stranger(&self, group: [u8; 16], link: &Arc<Link>) {
        {
            let mut strangers = self.strangers.lock();
            strangers.retain(|(_, known)| known.strong_count() > 0);
            strangers.push((group, Arc::downgrade(link)));
        }
        // It may be in it by now, and have looked at the strangers before this one was among them.
        if self.group(group).is_some() {
            link.close();
        }
    }

    /// Those that this server believes from now on, while its endpoint is started.
    pub(super) fn set_peers(&self, peers: &[Vec<u8>]) {
        if let Some((_, known)) = &mut self.listening.lock().identity {
            *known = fingerprints(peers);
        }
    }

    /// The endpoint is to be as defined; `None`: there is none.
    pub(super) fn set_endpoint(
        self: &Arc<Self>,
        wanted: Option<(&EndpointDef, EndpointIdentity)>,
    ) -> Result<()> {
        let mut listening = self.listening.lock();
        let Some((def, identity)) = wanted else {
            *listening = Listening::default();
            return Ok(());
        };
        let peers = fingerprints(&identity.peers);
        let certificate = CertificateDer::from(identity.certificate);
        let key = PrivateKeyDer::Pkcs8(identity.private_key.into());
        if def.state != EndpointState::Started {
            *listening = Listening::default();
            return Ok(());
        }
        listening.identity = Some((Identity::new(certificate, key), peers));
        let any = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        let address = def.address.as_ref().and_then(|a| a.parse().ok());
        let address = SocketAddr::new(address.unwrap_or(any), def.port);
        if listening
            .endpoint
            .as_ref()
            .is_some_and(|(at, ..)| *at == address)
        {
            return Ok(());
        }
        listening.endpoint = None;
        let door = Arc::new(Reception(Arc::downgrade(self)));
        match Endpoint::open(address, door, HANDSHAKE_TIMEOUT) {
            Ok(endpoint) => {
                let now = self.instance.now_utc();
                listening.endpoint = Some((address, now, endpoint));
                Ok(())
            }
            Err(error) => {
                self.log(&format!(
                    "The endpoint cannot listen on {address}: {error}."
                ));
                Err(messages::error(9692, &[&"Database Mirroring", &def.port]))
            }
        }
    }

    /// Where the endpoint listens, while it is started.
    pub(super) fn endpoint_port(&self) -> Option<OpenPort> {
        let listening = self.listening.lock();
        let (address, since_utc, _) = listening.endpoint.as_ref()?;
        Some(OpenPort {
            address: *address,
            kind: PortKind::Mirroring,
            since_utc: *since_utc,
        })
    }

    /// Certificate of this server and those that it believes, while its endpoint is started.
    pub(super) fn identity(&self) -> Option<(Identity, Vec<Fingerprint>)> {
        self.listening.lock().identity.clone()
    }

    /// This side of a connection of a group.
    pub(super) fn config(
        &self,
        group: u128,
        me: ReplicaId,
        session_timeout: Duration,
    ) -> Option<EndpointConfig> {
        let (identity, _) = self.identity()?;
        Some(EndpointConfig {
            group,
            me,
            name: self.server_name().to_string(),
            identity,
            members: Vec::new(),
            codecs: Codecs::OURS,
            window_bytes: WINDOW_BYTES,
            session_timeout,
            handshake_timeout: HANDSHAKE_TIMEOUT,
        })
    }

    fn invite(&self, definition: Definition) {
        let mut invitations = self.invitations.lock();
        let order = |d: &Definition| (d.reign, d.group.sequence_number);
        let of_it = |i: &Invitation| i.definition.group.group_id == definition.group.group_id;
        let mut known = invitations.iter().filter(|i| of_it(i));
        if known.any(|i| order(&i.definition) > order(&definition)) {
            return;
        }
        invitations.retain(|i| !of_it(i));
        let excess = (invitations.len() + 1).saturating_sub(INVITATIONS_MAX);
        invitations.drain(..excess);
        invitations.push(Invitation {
            definition,
            at: Instant::now(),
        });
        self.invited.notify_all();
    }

    /// The newest invitation to a group of this name, waited for so long at most.
    pub(super) fn invitation(&self, name: &str, limit: Duration) -> Option<Definition> {
        let until = Instant::now() + limit;
        let mut invitations = self.invitations.lock();
        loop {
            invitations.retain(|i| i.at.elapsed() < INVITATION_AGE);
            let fits = |i: &&Invitation| names_equal(&i.definition.group.name, name);
            let found = invitations.iter().filter(fits);
            if let Some(found) = found.max_by_key(|i| i.definition.reign) {
                return Some(found.definition.clone());
            }
            if self.invited.wait_until(&mut invitations, until).timed_out() {
                return None;
            }
        }
    }

    /// Nobody comes in any more.
    pub(super) fn stop(&self) {
        self.diagnosis.stop();
        *self.listening.lock() = Listening::default();
    }
}

/// Those of the trace flags that say how log travels.
fn trace_flags(instance: &Instance) -> TraceFlags {
    let on = instance.trace_flags.lock();
    TraceFlags {
        to_synchronous: on.contains(&9592),
        not_to_asynchronous: on.contains(&1462),
        seeding: on.contains(&9567),
    }
}

/// Errors of files that a group keeps.
pub(super) fn file_error(path: &std::path::Path, error: &std::io::Error) -> SqlError {
    messages::error(5123, &[error, &path.display()])
}

fn fingerprints(certificates: &[Vec<u8>]) -> Vec<Fingerprint> {
    certificates
        .iter()
        .map(|der| Fingerprint::of(der))
        .collect()
}

struct Reception(Weak<Common>);

impl Door for Reception {
    fn pins(&self) -> Option<(Identity, Vec<Fingerprint>)> {
        self.0.upgrade()?.identity()
    }

    fn admit(
        &self,
        hello: &Hello,
        _: Fingerprint,
    ) -> std::result::Result<(EndpointConfig, Arc<dyn Handler>), String> {
        let common = self.0.upgrade().ok_or("the server stops")?;
        let group = common.group(hello.group.to_be_bytes());
        if let Some(group) = group {
            return group.admit(hello);
        }
        if hello.purpose != Purpose::Member {
            return Err("the server is not in this group".into());
        }
        let config = common.config(hello.group, hello.to, HANDSHAKE_TIMEOUT);
        let config = config.ok_or("the server has no endpoint")?;
        let common = self.0.clone();
        let group = hello.group.to_be_bytes();
        Ok((config, Arc::new(Stranger { common, group })))
    }
}

/// A connection of a group that this server has not joined: the primary's brings an invitation.
struct Stranger {
    common: Weak<Common>,
    group: [u8; 16],
}

impl Handler for Stranger {
    fn connected(&self, link: &Arc<Link>) {
        match self.common.upgrade() {
            Some(common) => common.note_stranger(self.group, link),
            None => link.close(),
        }
    }

    fn received(&self, link: &Arc<Link>, message: Message) -> std::result::Result<(), LinkError> {
        let Message::Define { definition } = message else {
            return Ok(());
        };
        let definition = Definition::decode(&definition)
            .ok_or_else(|| LinkError::Protocol("a definition that is none".into()))?;
        if let Some(common) = self.common.upgrade() {
            common.invite(definition);
        }
        link.send(Message::Bye {
            reason: "the server has not joined the group".into(),
        });
        Ok(())
    }

    fn closed(&self, _: &Arc<Link>, _: &LinkError) {}
}
