//! A witness that is an object in a cloud's storage: put only while it is what was read.
//!
//! ```text
//! URL/daruma-WITNESS               the record
//! URL/daruma-WITNESS-alive         counted on by whoever leads; it promises nothing
//! URL/daruma-WITNESS-trial-NODE    with this the storage was tried when the witness was made
//! ```
//! Theory: such storages put an object under a condition: that there is none yet, or that it still has the tag that it was read with. That is the
//! arbitration. Whoever sleeps between reading and writing, or whose request comes late, is refused by the storage, since each record has another
//! content, and so another tag. There is nothing that a dead node could keep; the leases that some storages know are not used: they
//! last for longer than a failover may.
//!
//! | found | done |
//! |---|---|
//! | a storage that puts against the condition, or that takes too long for leases | refused when the witness is made |
//! | the object has another tag by now | read and answered anew, a bounded number of times |
//! | no answer to a put | "unknown": it may have been done. Asked once more, the acceptor says the same to the same node |
//! | no object, another cluster's, longer than a record, damaged | refused |
//! | a count below what the node has seen | refused: restored from an old copy |
//!
//! Assumed of the storage: what was put is what everybody reads from then on, as S3 and Azure promise. The record holds no user data.

use super::{
    RECORD_BYTES_MAX, Record, WitnessAsk, WitnessFault, WitnessOp, WitnessStore, WitnessView,
};
use crate::planted::{Bug, planted};
use std::io;
use std::sync::Arc;
use std::thread::Builder;
use std::time::{Duration, Instant};

/// A write that others were faster with is tried again.
const TRIES_MAX: u32 = 8;
/// Nodes that write at the same time let each other go first, each for another time.
const STEP_ASIDE: Duration = Duration::from_millis(5);

/// A lease of a second is asked for four times; while only the witness' vote makes a quorum, one of these questions and the next have to be answered
/// one after the other within it, with some room.
const ANSWER_MAX: Duration = Duration::from_millis(300);
/// So often that is tried.
const MEASURED: u32 = 3;

/// What an object must be to be replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutIf<'a> {
    /// There is none of this name.
    Absent,
    /// It has this tag.
    Tagged(&'a str),
    /// Whatever it is.
    Always,
}

/// An object as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloudObject {
    pub bytes: Vec<u8>,
    /// It has this tag until it is put anew.
    pub tag: String,
}

/// Objects by URL. Calls may wait for a few seconds, and no longer.
pub trait CloudStore: Send + Sync {
    /// The object `name` in the place of this URL. `None`: there is none. One with more bytes than `bytes_max` is an error.
    fn get(&self, url: &str, name: &str, bytes_max: usize) -> io::Result<Option<CloudObject>>;
    /// Puts it, durable when it returns `true`; `false`: the condition is not met. After an error it may be put, or may yet be.
    fn put(&self, url: &str, name: &str, bytes: &[u8], condition: PutIf<'_>) -> io::Result<bool>;
}

/// Witnesses in a cloud's storage.
pub struct CloudWitness {
    store: Option<Arc<dyn CloudStore>>,
    /// Counted on while this node leads.
    alive: u64,
}

impl CloudWitness {
    /// `None`: this process reaches no clouds, and such a witness does not answer.
    pub fn new(store: Option<Arc<dyn CloudStore>>) -> CloudWitness {
        CloudWitness { store, alive: 0 }
    }
}

impl WitnessStore for CloudWitness {
    fn exchange(&mut self, ask: &WitnessAsk) -> Result<WitnessView, WitnessFault> {
        let store = self.store.clone();
        let store = store.ok_or_else(|| WitnessFault::Unknown("no cloud is reached".into()))?;
        let exchange = Exchange::of(&*store, ask);
        if let WitnessOp::Create(register) = &ask.op {
            exchange.prove()?;
            self.measure(&exchange)?;
            let first = Record::first(ask, register, 0);
            exchange.put("", &first.encode(), PutIf::Absent)?;
        }
        let (alive, mut found) = self.read(&exchange)?;
        for attempt in 1..=TRIES_MAX {
            if let Some(view) = exchange.attempt(alive, found)? {
                return Ok(view);
            }
            let turn = attempt * u32::from(ask.me.number() + 1);
            std::thread::sleep(STEP_ASIDE * turn);
            found = exchange.get("")?;
        }
        Err(WitnessFault::Unknown("others were faster".into()))
    }
}

impl CloudWitness {
    /// What leaders have counted, this one as well if it leads, and the object: both requests at once, as a lease waits for them.
    fn read(
        &mut self,
        exchange: &Exchange<'_>,
    ) -> Result<(u64, Option<CloudObject>), WitnessFault> {
        if exchange.ask.alive {
            self.alive += 1;
        }
        let count = self.alive;
        let alive = || match exchange.ask.alive {
            true => exchange.count(count),
            false => exchange.counted(),
        };
        std::thread::scope(|scope| {
            let beside = Builder::new().name("cluster witness".into());
            let beside = beside.spawn_scoped(scope, alive);
            let found = exchange.get("");
            let alive = match beside {
                Ok(thread) => thread.join().unwrap_or_else(|_| Err(gone())),
                Err(error) => Err(unknown("begin a thread", &error)),
            };
            Ok((alive?, found?))
        })
    }

    /// Is the storage fast enough for leases? The best of some tries tells, as a busy machine may make any of them slow.
    fn measure(&mut self, exchange: &Exchange<'_>) -> Result<(), WitnessFault> {
        let mut best = Duration::MAX;
        for _ in 0..MEASURED {
            let begun = Instant::now();
            self.read(exchange)?;
            best = best.min(begun.elapsed());
        }
        match best <= ANSWER_MAX {
            true => Ok(()),
            false => Err(foreign(&format!(
                "the storage takes {} ms to answer, and a lease can wait for {} ms: choose one that is nearer, or another kind of witness",
                best.as_millis(),
                ANSWER_MAX.as_millis()
            ))),
        }
    }
}

fn gone() -> WitnessFault {
    WitnessFault::Unknown("a thread has ended".into())
}

fn unknown(what: &str, error: &io::Error) -> WitnessFault {
    WitnessFault::Unknown(format!("{what}: {error}"))
}

fn foreign(why: &str) -> WitnessFault {
    WitnessFault::Foreign(why.into())
}

struct Exchange<'a> {
    store: &'a dyn CloudStore,
    ask: &'a WitnessAsk,
    name: String,
}

impl<'a> Exchange<'a> {
    fn of(store: &'a dyn CloudStore, ask: &'a WitnessAsk) -> Exchange<'a> {
        let name = format!("daruma-{:032x}", ask.place.id);
        Exchange { store, ask, name }
    }

    fn get(&self, suffix: &str) -> Result<Option<CloudObject>, WitnessFault> {
        let name = format!("{}{suffix}", self.name);
        let got = self
            .store
            .get(self.ask.place.path(), &name, RECORD_BYTES_MAX);
        got.map_err(|e| match e.kind() {
            io::ErrorKind::InvalidData => WitnessFault::Foreign(e.to_string()),
            _ => unknown("read the object", &e),
        })
    }

    fn put(&self, suffix: &str, bytes: &[u8], condition: PutIf<'_>) -> Result<bool, WitnessFault> {
        let name = format!("{}{suffix}", self.name);
        let put = self
            .store
            .put(self.ask.place.path(), &name, bytes, condition);
        put.map_err(|e| unknown("write the object", &e))
    }

    /// `None`: somebody else has written since this was read.
    fn attempt(
        &self,
        alive: u64,
        found: Option<CloudObject>,
    ) -> Result<Option<WitnessView>, WitnessFault> {
        let found = found.ok_or_else(|| foreign("there is none"))?;
        let decoded = Record::decode(&found.bytes);
        let mut record = decoded.map_err(|e| WitnessFault::Foreign(e.to_string()))?;
        let before = record.n;
        let view = record.serve(self.ask, alive)?;
        if record.n == before {
            return Ok(Some(view));
        }
        let condition = match planted(Bug::CloudBlindWrite) {
            true => PutIf::Always,
            false => PutIf::Tagged(&found.tag),
        };
        let is_put = self.put("", &record.encode(), condition)?;
        Ok(is_put.then_some(view))
    }

    /// The storage keeps to conditions. One that does not could let two nodes have the same vote.
    fn prove(&self) -> Result<(), WitnessFault> {
        let trial = format!("-trial-{}", self.ask.me.number());
        // One may be left from an earlier trial.
        self.put(&trial, b"first", PutIf::Always)?;
        let first = self.get(&trial)?;
        let first = first.ok_or_else(|| foreign("what was put is not there"))?;
        let refuses_new = !self.put(&trial, b"again", PutIf::Absent)?;
        let is_replaced = self.put(&trial, b"second", PutIf::Tagged(&first.tag))?;
        let refuses_old = !self.put(&trial, b"third", PutIf::Tagged(&first.tag))?;
        let is_second = self.get(&trial)?.is_some_and(|o| o.bytes == b"second");
        match refuses_new && is_replaced && refuses_old && is_second {
            true => Ok(()),
            false => Err(foreign(
                "the storage does not keep to the conditions of a put (If-Match, If-None-Match)",
            )),
        }
    }

    /// This node leads, and shows that it reaches the storage.
    fn count(&self, count: u64) -> Result<u64, WitnessFault> {
        let value = (count << 8) | u64::from(self.ask.me.number());
        self.put("-alive", &value.to_le_bytes(), PutIf::Always)?;
        Ok(value)
    }

    fn counted(&self) -> Result<u64, WitnessFault> {
        let found = self.get("-alive")?;
        let value = found.and_then(|o| <[u8; 8]>::try_from(o.bytes).ok());
        Ok(value.map_or(0, u64::from_le_bytes))
    }
}
