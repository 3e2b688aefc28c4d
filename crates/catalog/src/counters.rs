//! Identity values, sequence values, row numbers and ids: counters that never roll back.
//!
//! Theory: a counter hands out values from memory and keeps a high-water mark in the catalog tree. When it reaches the
//! mark it moves it by a block, in a short transaction of its own. That transaction does not wait for the disk: the log
//! is one stream, so whatever a value was used for in the same database hardens after the mark. Who uses it elsewhere, or
//! tells somebody, waits for the mark before (values of sequences). After a crash the rest of a block is lost
//! (SQL Server's identity gap); a clean shutdown writes the exact values.
//!
//! What TRUNCATE, RESEED and RESTART set is stored as part of their transaction when that commits. Until then the mark from before stays,
//! and values are given out from memory, to that transaction alone, which has the object's lock: a crash takes both back.
//!
//! Nothing waits for another transaction with all counters in hand: that one may need them to end. Who finds that another one has the
//! row of a counter (it dropped the table, and is rolled back after a crash) waits for that without them, and begins anew.

use crate::alone::Alone;
use crate::error::{CatalogError, Result};
use crate::model::{ObjectId, SequenceDef};
use crate::rows;
use daruma_base::{CancelFlag, Lsn};
use daruma_storage::{Database, Durability, Isolation, LockMode, StorageError, Txn};
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

/// Identity values are reserved in blocks of at most this many.
const IDENTITY_BLOCK: i128 = 1_000;
/// A block of identity values is no more than this part of those that are left.
const IDENTITY_SHARE: i128 = 25;
/// Row numbers and row versions cost nothing when lost, so their blocks are large.
const NUMBER_BLOCK: i128 = 100_000;

/// Values of a sequence without CACHE are reserved in blocks of this many: SQL Server's size.
const SEQUENCE_BLOCK: i128 = 50;

/// How a counter goes on, which tells what to reserve.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    increment: i128,
    minimum: i128,
    maximum: i128,
    /// Values that a crash may lose, and one.
    block: i128,
    /// Of few values that are left a block takes fewer.
    is_sparing: bool,
}

impl From<&SequenceDef> for Pace {
    fn from(def: &SequenceDef) -> Pace {
        Pace {
            increment: def.increment,
            minimum: def.minimum,
            maximum: def.maximum,
            block: def.cache.map_or(SEQUENCE_BLOCK, i128::from).max(1),
            is_sparing: false,
        }
    }
}

impl Pace {
    /// Of an identity column, whose type holds what is from `minimum` to `maximum`.
    pub fn of_identity(increment: i128, minimum: i128, maximum: i128) -> Pace {
        Pace {
            increment,
            minimum,
            maximum,
            block: IDENTITY_BLOCK,
            is_sparing: true,
        }
    }

    /// Of numbers that count from 1.
    pub const NUMBERS: Pace = Pace {
        increment: 1,
        minimum: 1,
        maximum: i64::MAX as i128,
        block: NUMBER_BLOCK,
        is_sparing: false,
    };

    /// Of object ids, which jump and wrap: each is stored, objects are few.
    pub(crate) const OBJECT_IDS: Pace = Pace {
        block: 1,
        ..Pace::NUMBERS
    };

    /// The last value of the block that begins with `value`; no counter goes beyond its end in it.
    fn mark(&self, value: i128) -> i128 {
        let end = match self.increment < 0 {
            true => self.minimum,
            false => self.maximum,
        };
        let steps_left = end.abs_diff(value) / self.increment.unsigned_abs().max(1);
        let share = i128::try_from(steps_left).unwrap_or(i128::MAX) / IDENTITY_SHARE;
        let block = match self.is_sparing {
            true => self.block.min(share).max(1),
            false => self.block,
        };
        let ahead = self.increment.saturating_mul(block - 1);
        let mark = value.saturating_add(ahead);
        mark.clamp(self.minimum.min(value), self.maximum.max(value))
    }
}

/// How far a counter has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reached {
    /// The value that the next one follows.
    pub last: i128,
    /// It was given out. Else it only says which is to be the first.
    pub is_given: bool,
}

impl Reached {
    /// A value that was given out.
    pub fn given(last: i128) -> Reached {
        Reached {
            last,
            is_given: true,
        }
    }
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Stored {
    /// Last value that may have been given out; `None`: none yet.
    last: Option<i128>,
    /// `last` was never given out: RESEED of a new table.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_before_first: bool,
}

impl Stored {
    /// The exact value.
    fn of(counter: &Counter) -> Stored {
        Stored {
            last: counter.last,
            is_before_first: counter.is_before_first,
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Counter {
    last: Option<i128>,
    /// See [`Reached::is_given`], of `last`.
    is_before_first: bool,
    /// Value stored in the tree, or to be stored by the transaction that has set it: `last` may move up to here freely.
    reserved: Option<i128>,
    /// A transaction that has set it is open. What the tree holds stays until its commit.
    is_set: bool,
    /// Where the log has it, if this server has stored it since the database was opened.
    stored_at: Option<Lsn>,
}

pub(crate) struct Counters {
    db: Arc<Database>,
    map: Mutex<HashMap<CounterId, Counter>>,
}

impl Counters {
    pub(crate) fn load(db: Arc<Database>) -> Result<Counters> {
        let alone = Alone::new(&db);
        let txn = alone.begin();
        let stored: Vec<(Vec<u8>, Stored)> = rows::read_all(&txn, rows::KIND_COUNTER)?;
        txn.commit(Durability::Delayed)?;
        drop(alone);
        let counter = |s: Stored| Counter {
            last: s.last,
            is_before_first: s.is_before_first,
            reserved: s.last,
            is_set: false,
            stored_at: None,
        };
        let entries = stored.into_iter();
        let map = entries.filter_map(|(key, s)| Some((counter_of(&key)?, counter(s))));
        let map = Mutex::new(map.collect());
        Ok(Counters { db, map })
    }

    /// How far the counter is; `None` where no value was given out, nor the first one named.
    pub(crate) fn reached(&self, id: CounterId) -> Option<Reached> {
        let map = self.map.lock();
        let counter = map.get(&id)?;
        Some(Reached {
            last: counter.last?,
            is_given: !counter.is_before_first,
        })
    }

    /// Gives out the value that `next` computes from the last one, and where the log has the mark that covers it, which may have
    /// been moved for an earlier one. While another transaction has the counter's row it waits, until `cancel`, and `next` is asked again.
    pub(crate) fn advance<E: From<CatalogError>>(
        &self,
        id: CounterId,
        pace: Pace,
        cancel: &CancelFlag,
        mut next: impl FnMut(Option<i128>) -> std::result::Result<i128, E>,
    ) -> std::result::Result<(i128, Option<Lsn>), E> {
        let mut place: Option<Alone<'_>> = None;
        loop {
            if let Some(advanced) = self.advance_now(id, &pace, place.as_ref(), &mut next)? {
                return Ok(advanced);
            }
            drop(place.take());
            place = Some(self.wait_for_row(id, cancel)?);
        }
    }

    /// The same where nothing is to be waited for.
    fn advance_now<E: From<CatalogError>>(
        &self,
        id: CounterId,
        pace: &Pace,
        place: Option<&Alone<'_>>,
        next: &mut impl FnMut(Option<i128>) -> std::result::Result<i128, E>,
    ) -> std::result::Result<Option<(i128, Option<Lsn>)>, E> {
        let mut map = self.map.lock();
        let counter = map.entry(id).or_default();
        let value = next(counter.last)?;
        let is_covered = !counter.is_before_first && covers(counter, value);
        if !is_covered && !self.reserve(id, pace, place, counter, value)? {
            return Ok(None);
        }
        counter.last = Some(value);
        counter.is_before_first = false;
        Ok(Some((value, counter.stored_at)))
    }

    /// Returns with a place at the counter's row before everybody else who waits for it.
    fn wait_for_row(&self, id: CounterId, cancel: &CancelFlag) -> Result<Alone<'_>> {
        let alone = Alone::until(&self.db, cancel.clone());
        let txn = alone.begin();
        let tree = self.db.tree(self.db.catalog_tree())?;
        let view = txn.view(Isolation::ReadCommitted);
        let found = tree.lock_row(&view, &key_of(id), Some(LockMode::Exclusive), true);
        txn.commit(Durability::Delayed)?;
        found?;
        Ok(alone)
    }

    /// Sets how far it is within a transaction that alone uses it, until [`Counters::keep`] makes it part of its commit or
    /// [`Counters::take_back`] undoes it. `None`: as if never used.
    pub(crate) fn set(&self, id: CounterId, reached: Option<Reached>) {
        let mut map = self.map.lock();
        let counter = map.entry(id).or_default();
        *counter = Counter {
            is_set: true,
            ..reaching(reached, counter.stored_at)
        };
    }

    /// As it was before the transaction set it. The next value stores where it is, whatever the tree holds.
    pub(crate) fn take_back(&self, id: CounterId, reached: Option<Reached>) {
        let mut map = self.map.lock();
        let counter = map.entry(id).or_default();
        *counter = reaching(reached, counter.stored_at);
    }

    /// Writes what was set as part of `txn`, which is about to commit. Until [`Counters::is_kept`] others pass the counter by.
    pub(crate) fn keep(&self, txn: &Txn, id: CounterId) -> Result<()> {
        let stored = {
            let map = self.map.lock();
            let Some(counter) = map.get(&id).filter(|c| c.is_set) else {
                return Ok(());
            };
            Stored {
                last: counter.reserved.or(counter.last),
                is_before_first: counter.is_before_first,
            }
        };
        rows::put(txn, &key_of(id), &stored)
    }

    /// The transaction with which it was kept has committed.
    pub(crate) fn is_kept(&self, id: CounterId) {
        let mut map = self.map.lock();
        if let Some(counter) = map.get_mut(&id).filter(|c| c.is_set) {
            counter.reserved = counter.reserved.or(counter.last);
            counter.is_set = false;
        }
    }

    /// Starts a counter afresh in memory: for ids that were never used before.
    pub(crate) fn forget(&self, id: CounterId) {
        self.map.lock().remove(&id);
    }

    /// Writes exact values: at clean shutdown. What a transaction has in hand keeps its mark.
    pub(crate) fn save(&self) -> Result<()> {
        let mut map = self.map.lock();
        for (id, counter) in map.iter_mut() {
            if counter.last == counter.reserved || counter.is_set {
                continue;
            }
            if let Some(at) = self.store(*id, Stored::of(counter), None)? {
                counter.stored_at = Some(at);
                counter.reserved = counter.last;
            }
        }
        Ok(())
    }

    /// False where another transaction has the row.
    fn reserve(
        &self,
        id: CounterId,
        pace: &Pace,
        place: Option<&Alone<'_>>,
        counter: &mut Counter,
        value: i128,
    ) -> Result<bool> {
        let mark = pace.mark(value);
        if !counter.is_set {
            let stored = Stored {
                last: Some(mark),
                is_before_first: false,
            };
            let Some(at) = self.store(id, stored, place)? else {
                return Ok(false);
            };
            counter.stored_at = Some(at);
        }
        counter.reserved = Some(mark);
        Ok(true)
    }

    /// Where the log has it; `None` where another transaction has the row: all counters are in hand.
    /// Whoever has waited for the row has a `place` there: a newcomer would have to wait behind those who came after.
    fn store(
        &self,
        id: CounterId,
        stored: Stored,
        place: Option<&Alone<'_>>,
    ) -> Result<Option<Lsn>> {
        let fresh;
        let hasty = match place {
            Some(place) => place,
            None => {
                fresh = Alone::new(&self.db);
                &fresh
            }
        };
        hasty.wait_at_most(0);
        let write = |txn: &Txn| rows::put(txn, &key_of(id), &stored);
        match hasty.run(write, Txn::commit_delayed) {
            Err(CatalogError::Storage(StorageError::LockTimeout)) => Ok(None),
            stored => stored.map(Some),
        }
    }
}

/// A counter that is so far, of which nothing is reserved.
fn reaching(reached: Option<Reached>, stored_at: Option<Lsn>) -> Counter {
    Counter {
        last: reached.map(|r| r.last),
        is_before_first: reached.is_some_and(|r| !r.is_given),
        reserved: None,
        is_set: false,
        stored_at,
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
