//! Identity values, sequence values, row numbers and ids: counters that never roll back.
//!
//! Theory: a counter hands out values from memory and keeps a high-water mark in the catalog tree. When it reaches the
//! mark it moves it by a block, in a short transaction of its own. That transaction does not wait for the disk: the log
//! is one stream, so whatever a value was used for in the same database hardens after the mark. Who uses it elsewhere, or
//! tells somebody, waits for the mark before (values of sequences). After a crash the rest of a block is lost
//! (SQL Server's identity gap); a clean shutdown writes the exact values.

use crate::error::Result;
use crate::model::{ObjectId, SequenceDef};
use crate::rows;
use daruma_base::Lsn;
use daruma_storage::{Database, Durability, Owner};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::Arc;

/// Which counter of the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CounterId {
    /// Last identity value of a table.
    Identity(ObjectId),
    /// Last value of a sequence.
    Sequence(ObjectId),
    /// Last hidden row number of a table.
    RowNumber(ObjectId),
    /// Last object id given out.
    ObjectId,
    /// Last rowversion value of the database (`@@DBTS`).
    RowVersion,
}

/// Identity values are reserved in blocks of this many.
pub const VALUE_BLOCK: i128 = 1_000;
/// Row numbers and row versions cost nothing when lost, so their blocks are large.
const NUMBER_BLOCK: i128 = 100_000;

/// Values of a sequence without CACHE are reserved in blocks of this many: SQL Server's size.
const SEQUENCE_BLOCK: i128 = 50;

/// How a sequence goes on, which tells what to reserve.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    pub increment: i128,
    pub minimum: i128,
    pub maximum: i128,
    /// Values that a crash may lose, and one.
    pub block: i128,
}

impl From<&SequenceDef> for Pace {
    fn from(def: &SequenceDef) -> Pace {
        Pace {
            increment: def.increment,
            minimum: def.minimum,
            maximum: def.maximum,
            block: def.cache.map_or(SEQUENCE_BLOCK, i128::from).max(1),
        }
    }
}

impl Pace {
    /// The last value of the block that begins with `value`; a sequence does not go beyond its end in it.
    fn mark(&self, value: i128) -> i128 {
        let ahead = self.increment.saturating_mul(self.block - 1);
        let mark = value.saturating_add(ahead);
        mark.clamp(self.minimum.min(value), self.maximum.max(value))
    }
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Stored {
    /// Last value that may have been given out; `None`: none yet.
    last: Option<i128>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counter {
    last: Option<i128>,
    /// Value stored in the tree: `last` may move up to here freely.
    reserved: Option<i128>,
    /// Where the log has it, if this server has stored it since the database was opened.
    stored_at: Option<Lsn>,
}

pub(crate) struct Counters {
    db: Arc<Database>,
    owner: Arc<Owner>,
    map: Mutex<HashMap<CounterId, Counter>>,
}

impl Counters {
    pub(crate) fn load(db: Arc<Database>, owner: Arc<Owner>) -> Result<Counters> {
        let txn = db.begin(&owner);
        let stored: Vec<(Vec<u8>, Stored)> = rows::read_all(&txn, rows::KIND_COUNTER)?;
        txn.commit(Durability::Delayed)?;
        let counter = |s: Stored| Counter {
            last: s.last,
            reserved: s.last,
            stored_at: None,
        };
        let entries = stored.into_iter();
        let map = entries.filter_map(|(key, s)| Some((counter_of(&key)?, counter(s))));
        let map = Mutex::new(map.collect());
        Ok(Counters { db, owner, map })
    }

    /// Last value given out, if any.
    pub(crate) fn last(&self, id: CounterId) -> Option<i128> {
        self.map.lock().get(&id).and_then(|c| c.last)
    }

    /// Gives out the value that `next` computes from the last one, and where the log has the mark that covers it, which may have
    /// been moved for an earlier one. A counter without a `pace` goes on as it came to the value.
    pub(crate) fn advance<E: From<crate::CatalogError>>(
        &self,
        id: CounterId,
        pace: Option<Pace>,
        next: impl FnOnce(Option<i128>) -> std::result::Result<i128, E>,
    ) -> std::result::Result<(i128, Option<Lsn>), E> {
        let mut map = self.map.lock();
        let counter = map.entry(id).or_default();
        let value = next(counter.last)?;
        if !covers(counter, value) {
            self.reserve(id, pace, counter, value)?;
        }
        counter.last = Some(value);
        Ok((value, counter.stored_at))
    }

    /// Sets the last value, whatever it was, durably with the next commit. `None`: as if never used.
    pub(crate) fn set(&self, id: CounterId, last: Option<i128>) -> Result<()> {
        let mut map = self.map.lock();
        let stored_at = Some(self.store(id, last)?);
        map.insert(
            id,
            Counter {
                last,
                reserved: last,
                stored_at,
            },
        );
        Ok(())
    }

    /// Starts a counter afresh in memory: for ids that were never used before.
    pub(crate) fn forget(&self, id: CounterId) {
        self.map.lock().remove(&id);
    }

    /// Writes exact values: at clean shutdown.
    pub(crate) fn save(&self) -> Result<()> {
        let mut map = self.map.lock();
        for (id, counter) in map.iter_mut() {
            if counter.last != counter.reserved {
                counter.stored_at = Some(self.store(*id, counter.last)?);
                counter.reserved = counter.last;
            }
        }
        Ok(())
    }

    fn reserve(
        &self,
        id: CounterId,
        pace: Option<Pace>,
        counter: &mut Counter,
        value: i128,
    ) -> Result<()> {
        let block = match id {
            CounterId::RowNumber(_) | CounterId::RowVersion => NUMBER_BLOCK,
            _ => VALUE_BLOCK,
        };
        let step = counter.last.map_or(1, |last| value.saturating_sub(last));
        let mark = match (id, pace) {
            // Object ids jump and wrap: the exact value is stored, objects are few.
            (CounterId::ObjectId, _) => value,
            (_, Some(pace)) => pace.mark(value),
            _ => value.saturating_add(step.saturating_mul(block)),
        };
        counter.stored_at = Some(self.store(id, Some(mark))?);
        counter.reserved = Some(mark);
        Ok(())
    }

    fn store(&self, id: CounterId, last: Option<i128>) -> Result<Lsn> {
        let txn = self.db.begin(&self.owner);
        let written = rows::put(&txn, &key_of(id), &Stored { last });
        match written {
            Ok(()) => Ok(txn.commit_delayed()?),
            Err(error) => {
                txn.rollback()?;
                Err(error)
            }
        }
    }
}

/// Does the reserved block hold `value`? Blocks grow in either direction.
fn covers(counter: &Counter, value: i128) -> bool {
    match (counter.last, counter.reserved) {
        (Some(last), Some(reserved)) if reserved >= last => value >= last && value <= reserved,
        (Some(last), Some(reserved)) => value <= last && value >= reserved,
        _ => false,
    }
}

fn parts(id: CounterId) -> (u8, ObjectId) {
    match id {
        CounterId::Identity(table) => (1, table),
        CounterId::Sequence(sequence) => (2, sequence),
        CounterId::RowNumber(table) => (3, table),
        CounterId::ObjectId => (4, 0),
        CounterId::RowVersion => (5, 0),
    }
}

pub(crate) fn key_of(id: CounterId) -> Vec<u8> {
    let (kind, object) = parts(id);
    let mut key = vec![rows::KIND_COUNTER, kind];
    key.extend_from_slice(&object.to_be_bytes());
    key
}

fn counter_of(key: &[u8]) -> Option<CounterId> {
    let (&kind, rest) = key.get(1..)?.split_first()?;
    let object = ObjectId::from_be_bytes(rest.try_into().ok()?);
    match kind {
        1 => Some(CounterId::Identity(object)),
        2 => Some(CounterId::Sequence(object)),
        3 => Some(CounterId::RowNumber(object)),
        4 => Some(CounterId::ObjectId),
        5 => Some(CounterId::RowVersion),
        _ => None,
    }
}
