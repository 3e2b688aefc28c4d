//! The witness: an acceptor without a process. A node that reaches its record runs the same function on it as a node runs on its own.
//!
//! Theory: a node asks with [`WitnessAsk`], a store carries it out as one exchange (read, answer, write if that changed anything), and the
//! node gets a [`WitnessView`] or learns why not. "I do not know" is an answer of its own: it is never taken for a no, nor for a yes.
//!
//! A record tells of which cluster and of which witness it is, and counts its writes. Every node keeps the highest count that it has
//! seen on disk; a record with a lower one was restored from an old copy, has forgotten votes that it gave, and counts for nothing until
//! the witness is set anew.
//!
//! | kind | what keeps two nodes from writing the next record |
//! |---|---|
//! | `share`: a folder | its name can be given once |
//! | `disk`: a block device or file that all reach | blocks that one node each writes, and ballots |
//! | `cloud`: an object in S3 or Azure | it is put only while it is what was read |
//!
//! Read next: `share`, `disk`, `cloud`.

mod cloud;
mod counts;
mod device;
mod disk;
mod share;

pub use cloud::{CloudObject, CloudStore, CloudWitness, PutIf};
pub use counts::Counts;
pub use device::{Device, SECTOR_BYTES};
pub use disk::{DISK_BYTES, DiskWitness, exchange as exchange_on_disk};
pub use share::FileShare;

use crate::codec::{CodecError, Reader, Writer, seal, unseal};
use crate::planted::{Bug, planted};
use crate::state::{WitnessKind, WitnessPlace};
use daruma_quorum::{Ballot, Configuration, MemberId, Message, Register, Version};
use std::sync::Arc;

const MAGIC: &[u8; 8] = b"DARUMAW1";
/// Bytes of a record at most.
pub(crate) const RECORD_BYTES_MAX: usize = 192 << 10;

/// What is wanted of the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WitnessOp {
    /// It begins, in a place where nothing is.
    Create(Register),
    /// What does it say? Changes nothing.
    Look,
    /// A question to an acceptor.
    Exchange(Message),
}

/// A question to the witness. It is answered exactly once, however late.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WitnessAsk {
    pub id: u64,
    pub cluster: u128,
    pub place: WitnessPlace,
    pub me: MemberId,
    pub op: WitnessOp,
    /// The highest count of this witness that the node has seen.
    pub seen: u64,
    /// What the node holds: it is told of anything newer.
    pub held: (Version, bool),
    /// The node leads, and says so by counting on.
    pub alive: bool,
    /// The witness that the cluster has: no other is made over it, by whatever path it is reached.
    pub office: Option<u128>,
}

/// What the record says after an exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WitnessView {
    /// Count of its writes.
    pub n: u64,
    pub ballot: Ballot,
    pub version: Version,
    pub settled: bool,
    /// To the question.
    pub answer: Option<Message>,
    pub newer: Option<(Configuration, bool)>,
    /// Sum of what leaders have counted: it moves while one of them reaches the witness.
    pub alive: u64,
}

/// Why there is no view.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WitnessFault {
    /// It cannot be reached, or not in time. A write may have happened.
    #[error("the witness does not answer: {0}")]
    Unknown(String),
    /// It has forgotten what it knew.
    #[error(
        "the witness was restored from an old copy: {0}; set it anew with `daruma cluster set-witness`"
    )]
    Regressed(String),
    /// The record is of another cluster or of another witness, or damaged.
    #[error("what is in the witness' place is not its record: {0}")]
    Foreign(String),
}

/// A kind of place that a record can be in.
pub trait WitnessStore {
    /// Carries out a question, whole or not at all; what has changed is durable, and seen by whoever asks later.
    fn exchange(&mut self, ask: &WitnessAsk) -> Result<WitnessView, WitnessFault>;
}

/// Witnesses of every kind.
pub struct Witnesses {
    share: FileShare,
    disk: DiskWitness,
    cloud: CloudWitness,
}

impl Witnesses {
    /// `cloud`: how objects are reached, if they are.
    pub fn new(cloud: Option<Arc<dyn CloudStore>>) -> Witnesses {
        Witnesses {
            share: FileShare::default(),
            disk: DiskWitness::default(),
            cloud: CloudWitness::new(cloud),
        }
    }
}

impl WitnessStore for Witnesses {
    fn exchange(&mut self, ask: &WitnessAsk) -> Result<WitnessView, WitnessFault> {
        match ask.place.kind() {
            WitnessKind::Share => self.share.exchange(ask),
            WitnessKind::Disk => self.disk.exchange(ask),
            WitnessKind::Cloud => self.cloud.exchange(ask),
        }
    }
}

/// What lies in a witness' place.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Record {
    pub cluster: u128,
    pub id: u128,
    /// Counts writes.
    pub n: u64,
    /// Which file it lies beside: a copy that was put back lies beside another.
    pub beside: u64,
    pub register: Register,
    /// The node that wrote it.
    pub writer: u8,
}

impl Record {
    /// The one with which a witness begins.
    fn first(ask: &WitnessAsk, register: &Register, beside: u64) -> Record {
        Record {
            cluster: ask.cluster,
            id: ask.place.id,
            n: 1,
            beside,
            register: register.clone(),
            writer: ask.me.number(),
        }
    }

    /// Runs the acceptor. The record has changed if its count has; then it must be durable before the view is used.
    pub fn serve(&mut self, ask: &WitnessAsk, alive: u64) -> Result<WitnessView, WitnessFault> {
        if self.cluster != ask.cluster || self.id != ask.place.id {
            return Err(WitnessFault::Foreign(
                "it is of another cluster or witness".into(),
            ));
        }
        if self.n < ask.seen && !planted(Bug::OldWitnessAccepted) {
            return Err(WitnessFault::Regressed(format!(
                "write {} after {} was seen",
                self.n, ask.seen
            )));
        }
        let before = self.register.clone();
        let answer = match &ask.op {
            WitnessOp::Exchange(message) => self.register.answer(ask.me, message),
            WitnessOp::Create(_) | WitnessOp::Look => None,
        };
        if self.register != before {
            self.n += 1;
            self.writer = ask.me.number();
        }
        let held = &self.register.held;
        let known = (held.version, self.register.settled);
        let is_newer = known.0 > ask.held.0 || (known.0 == ask.held.0 && known.1 && !ask.held.1);
        Ok(WitnessView {
            n: self.n,
            ballot: self.register.ballot,
            version: held.version,
            settled: self.register.settled,
            answer,
            newer: is_newer.then(|| (held.clone(), self.register.settled)),
            alive,
        })
    }

    /// As bytes of a file.
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::default();
        w.u128(self.cluster);
        w.u128(self.id);
        w.u64(self.n);
        w.u64(self.beside);
        w.u8(self.writer);
        w.register(&self.register);
        seal(MAGIC, w)
    }

    /// From bytes of a file.
    pub fn decode(bytes: &[u8]) -> Result<Record, CodecError> {
        let mut r: Reader<'_> = unseal(MAGIC, bytes)?;
        let (cluster, id, n, beside, writer) = (r.u128()?, r.u128()?, r.u64()?, r.u64()?, r.u8()?);
        let register = r.register()?;
        r.end()?;
        Ok(Record {
            cluster,
            id,
            n,
            beside,
            register,
            writer,
        })
    }
}
