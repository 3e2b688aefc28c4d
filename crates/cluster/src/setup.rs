//! How a server becomes a member: it makes a cluster of its own, or is let into one by a token.
//!
//! | a crash | leaves |
//! |---|---|
//! | before the certificate is on disk | nothing |
//! | before the cluster has agreed | a certificate, which the next attempt takes |
//! | before the register is on disk | a member without a file: the next attempt asks with the same certificate and is given the same number |
//! | later | a member |
//!
//! A server whose folder holds a register joins nothing: it would forget what it has promised.

use crate::codec::{CodecError, Reader};
use crate::command::Outcome;
use crate::identity::Pair;
use crate::packet::Packet;
use crate::runtime::{DIALS, LISTENS, SESSION_TIMEOUT, endpoint_config};
use crate::state::{ClusterState, NodeState};
use crate::store::{Store, Stored};
use crate::token::Token;
use crate::witness::Counts;
use daruma_base::{DiskFile, Env};
use daruma_group::transport::{Fingerprint, Handler, Link, LinkError, dial_for};
use daruma_group::wire::{Message, Purpose};
use daruma_quorum::{Configuration, MemberId, Members, Register};
use parking_lot::Mutex;
use std::io::{self, ErrorKind};
use std::net::ToSocketAddrs;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

/// The cluster has so long to agree on a new node.
const JOIN_TIMEOUT: Duration = Duration::from_secs(20);

/// Why a server did not become a member.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    #[error("the server is a member of a cluster already")]
    Member,
    #[error(
        "the server was a member of a cluster, and what it promised there is lost with its register: \
         evict it from that cluster, if it is still there, and remove its folder 'cluster'"
    )]
    Lost,
    #[error("the folder of the cluster: {0}")]
    Folder(#[from] io::Error),
    #[error("a certificate: {0}")]
    Certificate(#[from] rcgen::Error),
    #[error("a name or an address is empty or too long")]
    Text,
    #[error("{0}")]
    Token(#[from] CodecError),
    #[error("the member at {address}: {why}")]
    Unreachable { address: String, why: String },
    #[error("the cluster refused: {0}")]
    Refused(String),
    #[error("the cluster has not agreed, or it is not known whether it has: {0}; try again")]
    Unknown(String),
}

/// What a server is called in the cluster, and where the others reach it.
#[derive(Clone, Debug)]
pub struct Newcomer {
    pub name: String,
    /// `host:port` of its cluster service.
    pub address: String,
}

/// Makes a cluster of one node, in a folder that begins with it, and the token by which others join.
pub fn create(
    env: &Env,
    folder: &Path,
    cluster: &str,
    node: &Newcomer,
) -> Result<Token, SetupError> {
    let (store, _lock) = store_of_no_member(env, folder)?;
    let pair = Pair::keep(&*env.disk, folder)?;
    let join = Pair::make()?;
    let mut id = [0; 16];
    env.random.fill(&mut id);
    let first = NodeState {
        number: 0,
        name: node.name.clone(),
        address: node.address.clone(),
        fingerprint: pair.fingerprint().0,
        weight: true,
        left: false,
        gone: false,
    };
    let mut state = ClusterState::first(cluster.to_string(), u128::from_le_bytes(id), first);
    state.join = Some(join.fingerprint().0);
    let body = state.encode();
    ClusterState::decode(&body).ok_or(SetupError::Text)?;
    let register = Register::new(Configuration::first(Members::nodes(1), body));
    let me = MemberId::node(0).ok_or(SetupError::Text)?;
    store.save(&Stored {
        me,
        register,
        seen: Counts::default(),
    })?;
    Pair::settle(&*env.disk, folder)?;
    Ok(Token {
        cluster: state.id,
        address: node.address.clone(),
        fingerprint: pair.fingerprint().0,
        join,
    })
}

/// Asks the member that a token tells of to be let in; the number that the cluster gave.
pub fn join(env: &Env, folder: &Path, token: &str, node: &Newcomer) -> Result<u8, SetupError> {
    let token = Token::decode(token)?;
    let (store, _lock) = store_of_no_member(env, folder)?;
    let pair = Pair::keep(&*env.disk, folder)?;
    let ask = Packet::Join {
        name: node.name.clone(),
        address: node.address.clone(),
        fingerprint: pair.fingerprint().0,
    };
    match ask_member(&token, node, &ask)? {
        Outcome::Added {
            number,
            configuration,
        } => {
            let stored = newcomer(&token, number, &configuration, pair.fingerprint())?;
            store.save(&stored)?;
            Pair::settle(&*env.disk, folder)?;
            Ok(number)
        }
        Outcome::Refused(why) => Err(SetupError::Refused(why)),
        Outcome::Unknown(why) => Err(SetupError::Unknown(why)),
        Outcome::Done | Outcome::Shown(_) => {
            Err(SetupError::Unknown("an answer to something else".into()))
        }
    }
}

fn store_of_no_member(env: &Env, folder: &Path) -> Result<(Store, Arc<dyn DiskFile>), SetupError> {
    env.disk.create_dir_all(folder)?;
    if let Some(parent) = folder.parent() {
        env.disk.sync_dir(parent)?;
    }
    let store = Store::new(env.disk.clone(), folder);
    let lock = match store.lock() {
        Err(e) if e.kind() == ErrorKind::WouldBlock => return Err(SetupError::Member),
        lock => lock?,
    };
    store.finish_forgetting()?;
    match (store.load()?, Pair::load(&*env.disk, folder)?) {
        (None, None) => Ok((store, lock)),
        (None, Some(_)) => Err(SetupError::Lost),
        (Some(_), _) => Err(SetupError::Member),
    }
}

/// What the new node begins with, if it is what the cluster must have said.
fn newcomer(
    token: &Token,
    number: u8,
    configuration: &[u8],
    mine: Fingerprint,
) -> Result<Stored, SetupError> {
    let mut reader = Reader::new(configuration);
    let held = reader.configuration()?;
    reader.end()?;
    let bad = CodecError("configuration of the cluster");
    let state = ClusterState::decode(&held.body).ok_or(bad)?;
    let me = MemberId::node(number).ok_or(bad)?;
    match state.id == token.cluster && state.with_certificate(mine) == Some(me) {
        true => Ok(Stored {
            me,
            register: Register::new(held),
            seen: Counts::default(),
        }),
        false => Err(bad.into()),
    }
}

fn ask_member(token: &Token, node: &Newcomer, ask: &Packet) -> Result<Outcome, SetupError> {
    let unreachable = |why: String| SetupError::Unreachable {
        address: token.address.clone(),
        why,
    };
    let mut found = token
        .address
        .to_socket_addrs()
        .map_err(|e| unreachable(e.to_string()))?;
    let address = found
        .next()
        .ok_or_else(|| unreachable("it has no address".into()))?;
    let identity = token.join.identity();
    // A wish that waits for a quorum says nothing for long.
    let config = endpoint_config(token.cluster, DIALS, &node.name, identity, SESSION_TIMEOUT);
    let pinned = [Fingerprint(token.fingerprint)];
    let link = dial_for(address, LISTENS, &pinned, &config, Purpose::Member)
        .map_err(|e| unreachable(e.to_string()))?;
    let (told, outcome) = channel();
    let asking = Arc::new(Asking(Mutex::new(told)));
    let serving = link.clone();
    let thread = std::thread::Builder::new().name("cluster join".into());
    let thread = thread.spawn(move || serving.serve(&*asking))?;
    link.send(Message::Packet {
        bytes: Arc::from(ask.encode()),
    });
    let outcome = outcome.recv_timeout(JOIN_TIMEOUT);
    link.close();
    // A thread that panicked has told nothing.
    let _ = thread.join();
    outcome.unwrap_or_else(|_| Err(SetupError::Unknown("no answer in time".into())))
}

/// Waits for the answer on a connection of its own.
struct Asking(Mutex<Sender<Result<Outcome, SetupError>>>);

impl Asking {
    fn tell(&self, outcome: Result<Outcome, SetupError>) {
        // Who asked may have given up.
        let _ = self.0.lock().send(outcome);
    }
}

impl Handler for Asking {
    fn connected(&self, _: &Arc<Link>) {}

    fn received(&self, _: &Arc<Link>, message: Message) -> Result<(), LinkError> {
        let answer = match message {
            Message::Packet { bytes } => Packet::decode(&bytes).ok(),
            _ => None,
        };
        match answer {
            Some(Packet::Joined(outcome)) => {
                self.tell(Ok(outcome));
                Ok(())
            }
            _ => Err(LinkError::Protocol("no answer to who joins".into())),
        }
    }

    fn closed(&self, _: &Arc<Link>, why: &LinkError) {
        self.tell(Err(SetupError::Unknown(why.to_string())));
    }
}
