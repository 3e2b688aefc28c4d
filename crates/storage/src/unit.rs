//! Transactions over several databases: how they are named, and what their coordinator keeps of them.
//!
//! Theory: two-phase commit with presumed abort (Mohan, Lindsay, Obermarck, 1986), inside one server. One of the databases
//! is the coordinator: its commit record is the decision for all. The others have a *prepare* record on disk before, so
//! none of them can roll back by itself any more, nor lose what it is about to commit; after a crash it asks the
//! coordinator (`coordinator`), and a coordinator that knows nothing has not decided, so nobody was told of a commit.
//! The decision is kept, also over checkpoints, until every other database has its own commit record on disk.
//!
//! States of a unit at its coordinator
//! | state | entered by | left by |
//! |---|---|---|
//! | preparing | begin | deciding; rolled back when somebody asks: he must not be told otherwise later |
//! | deciding | all are prepared | its commit record, or giving up |
//! | decided | the commit record | the commit records of all others are on disk |
//!
//! Invariants
//! 1. A decision enters the table before anything can be appended behind its record, so every checkpoint behind the record
//!    either lists it or comes after it was forgotten.
//! 2. A decision is forgotten only when no other database can ask for it any more.
//!
//! Latches: the log's state, then this table's; nothing is called under it.
//! Tests: `crates/proof/src/several.rs`, `crates/tsql/tests/several.rs`. Read next: `together`, `coordinator`.

use crate::buffer::Store;
use crate::bytes::*;
use crate::sync::Mutex;
use daruma_base::{Lsn, TxnId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Weak;

/// Names a transaction over several databases, as those of them know it that do not coordinate it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unit {
    /// Guid of the coordinating database, and the id it had.
    pub coordinator: u64,
    pub database: u16,
    /// The transaction's id there.
    pub txn: TxnId,
    /// Random: a database restored to an earlier time gives its ids anew.
    pub salt: u64,
}

impl Unit {
    /// Encoded size.
    pub const BYTES: usize = 24;

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.put_u64(self.coordinator);
        out.put_u16(self.database);
        out.put_u48(self.txn.0);
        out.put_u64(self.salt);
    }

    pub(crate) fn read(r: &mut Reader<'_>) -> Option<Unit> {
        Some(Unit {
            coordinator: r.u64()?,
            database: r.u16()?,
            txn: TxnId(r.u48()?),
            salt: r.u64()?,
        })
    }

    pub(crate) fn key(&self) -> UnitKey {
        (self.txn, self.salt)
    }
}

/// Names a unit at its coordinator.
pub(crate) type UnitKey = (TxnId, u64);

/// A commit for several databases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The coordinator's own transaction.
    pub txn: TxnId,
    pub salt: u64,
    /// Guids of the other databases.
    pub others: Vec<u64>,
}

impl Decision {
    pub(crate) fn key(&self) -> UnitKey {
        (self.txn, self.salt)
    }

    pub(crate) fn encoded_bytes(&self) -> usize {
        10 + 8 * self.others.len()
    }

    /// Everything but the transaction's id, which is written before.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.put_u64(self.salt);
        out.put_u16(self.others.len() as u16);
        self.others.iter().for_each(|guid| out.put_u64(*guid));
    }

    pub(crate) fn read(r: &mut Reader<'_>, txn: TxnId) -> Option<Decision> {
        let salt = r.u64()?;
        let count = r.u16()?;
        let others = (0..count).map(|_| r.u64()).collect::<Option<_>>()?;
        Some(Decision { txn, salt, others })
    }
}

/// Answer of an open coordinator about a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Committed,
    RolledBack,
    /// It is being decided at this moment.
    Undecided,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Preparing,
    Deciding,
}

/// State of one of the other databases after the decision.
enum Other {
    /// It is about to append its commit record.
    Committing,
    /// Its commit record is there.
    Appended(Weak<Store>, Lsn),
    /// Only its next recovery will tell.
    Unknown,
}

struct Entry {
    key: UnitKey,
    /// Those that may still ask.
    others: Vec<(u64, Other)>,
}

impl Entry {
    /// Forgets those that cannot ask any more; true when none is left.
    fn settle(&mut self) -> bool {
        self.others.retain_mut(|(_, other)| match other {
            Other::Appended(store, lsn) => match store.upgrade() {
                Some(store) => store.log.quorum() <= *lsn,
                None => {
                    *other = Other::Unknown;
                    true
                }
            },
            Other::Committing | Other::Unknown => true,
        });
        self.others.is_empty()
    }
}

#[derive(Default)]
struct Table {
    open: BTreeMap<UnitKey, Phase>,
    /// In order of their decision.
    decided: VecDeque<Entry>,
}

/// The units that a database coordinates.
#[derive(Default)]
pub(crate) struct Decisions {
    table: Mutex<Table>,
}

impl Decisions {
    /// Decisions that recovery found: who of the others has them on disk is not known.
    pub fn restore(&self, decisions: Vec<Decision>) {
        let unknown = |d: &Decision| {
            let guids: BTreeSet<u64> = d.others.iter().copied().collect();
            guids.into_iter().map(|g| (g, Other::Unknown)).collect()
        };
        let entries = decisions.iter().map(|d| Entry {
            key: d.key(),
            others: unknown(d),
        });
        self.table.lock().decided.extend(entries);
    }

    /// Notes that this database will decide for the unit.
    pub fn begin(&self, unit: &Unit) {
        self.table.lock().open.insert(unit.key(), Phase::Preparing);
    }

    /// All are prepared. False when somebody asked meanwhile and was told that the unit is rolled back.
    pub fn start_deciding(&self, unit: &Unit) -> bool {
        match self.table.lock().open.get_mut(&unit.key()) {
            Some(phase) => {
                *phase = Phase::Deciding;
                true
            }
            None => false,
        }
    }

    /// The commit record has just been appended.
    pub fn decide(&self, decision: &Decision) {
        let mut table = self.table.lock();
        table.open.remove(&decision.key());
        let others = decision.others.iter().map(|g| (*g, Other::Committing));
        table.decided.push_back(Entry {
            key: decision.key(),
            others: others.collect(),
        });
    }

    /// Is it neither decided nor given up?
    pub fn is_open(&self, unit: &Unit) -> bool {
        self.table.lock().open.contains_key(&unit.key())
    }

    /// The unit is rolled back.
    pub fn give_up(&self, unit: &Unit) {
        self.table.lock().open.remove(&unit.key());
    }

    /// Another database has appended its commit record, or, with `None`, could not. Two of them may have one guid: each tells for itself.
    pub fn appended(&self, unit: &Unit, guid: u64, at: Option<(Weak<Store>, Lsn)>) {
        let mut table = self.table.lock();
        let entries = table.decided.iter_mut().rev();
        let entry = entries.into_iter().find(|e| e.key == unit.key());
        let others = entry.into_iter().flat_map(|e| &mut e.others);
        let waits =
            |(g, other): &&mut (u64, Other)| *g == guid && matches!(other, Other::Committing);
        let mut waiting = others.filter(waits);
        if let Some((_, other)) = waiting.next() {
            *other = match &at {
                Some((store, lsn)) => Other::Appended(store.clone(), *lsn),
                None => Other::Unknown,
            };
        }
        while table.decided.front_mut().is_some_and(Entry::settle) {
            table.decided.pop_front();
        }
    }

    /// A database that is told that a unit is rolled back may rely on it.
    pub fn ask(&self, unit: &Unit) -> Answer {
        let mut table = self.table.lock();
        match table.open.get(&unit.key()) {
            Some(Phase::Deciding) => return Answer::Undecided,
            Some(Phase::Preparing) => {
                table.open.remove(&unit.key());
            }
            None => {}
        }
        match table.decided.iter().any(|e| e.key == unit.key()) {
            true => Answer::Committed,
            false => Answer::RolledBack,
        }
    }

    /// Decisions that a restart must know.
    pub fn list(&self) -> Vec<Decision> {
        let mut table = self.table.lock();
        table.decided.retain_mut(|entry| !entry.settle());
        let guids = |e: &Entry| -> BTreeSet<u64> { e.others.iter().map(|(g, _)| *g).collect() };
        let decision = |e: &Entry| Decision {
            txn: e.key.0,
            salt: e.key.1,
            others: guids(e).into_iter().collect(),
        };
        table.decided.iter().map(decision).collect()
    }

    /// Log positions of other databases that must be on disk before this one may be without its decisions.
    pub fn unhardened(&self) -> Vec<(Weak<Store>, Lsn)> {
        let table = self.table.lock();
        let others = table.decided.iter().flat_map(|e| &e.others);
        let at = |(_, other): &(u64, Other)| match other {
            Other::Appended(store, lsn) => Some((store.clone(), *lsn)),
            Other::Committing | Other::Unknown => None,
        };
        others.filter_map(at).collect()
    }

    /// Guids of databases of which it is not known whether they have a decision on disk.
    pub fn may_be_asked_by(&self) -> BTreeSet<u64> {
        let table = self.table.lock();
        let others = table.decided.iter().flat_map(|e| &e.others);
        let unknown = others.filter(|(_, other)| matches!(other, Other::Unknown));
        unknown.map(|(guid, _)| *guid).collect()
    }

    /// The databases of this guid have the commit records of what they were not known to have, except for the units in `but`: each below
    /// its position, which may not be on its participants' disks yet.
    pub fn all_appended(&self, guid: u64, but: &[UnitKey], at: &[(Weak<Store>, Lsn)]) {
        let mut table = self.table.lock();
        table.decided.retain_mut(|entry| {
            let is_kept = but.contains(&entry.key);
            for (g, other) in std::mem::take(&mut entry.others) {
                if g != guid || is_kept || !matches!(other, Other::Unknown) {
                    entry.others.push((g, other));
                    continue;
                }
                let appended = at
                    .iter()
                    .map(|(store, lsn)| Other::Appended(store.clone(), *lsn));
                entry.others.extend(appended.map(|other| (g, other)));
            }
            !entry.settle()
        });
    }

    /// No database of this guid is there any more: none will ask for what it was not known to have.
    pub fn forget_other(&self, guid: u64) {
        let mut table = self.table.lock();
        table.decided.retain_mut(|entry| {
            entry
                .others
                .retain(|(g, other)| *g != guid || !matches!(other, Other::Unknown));
            !entry.others.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIT: Unit = Unit {
        coordinator: 1,
        database: 5,
        txn: TxnId(7),
        salt: 99,
    };

    fn decision() -> Decision {
        Decision {
            txn: UNIT.txn,
            salt: UNIT.salt,
            others: vec![2, 3],
        }
    }

    #[test]
    fn who_was_told_of_a_rollback_can_rely_on_it() {
        let decisions = Decisions::default();
        decisions.begin(&UNIT);
        assert_eq!(decisions.ask(&UNIT), Answer::RolledBack);
        assert!(!decisions.start_deciding(&UNIT));
        decisions.begin(&UNIT);
        assert!(decisions.start_deciding(&UNIT));
        assert_eq!(decisions.ask(&UNIT), Answer::Undecided);
        decisions.decide(&decision());
        assert_eq!(decisions.ask(&UNIT), Answer::Committed);
    }

    #[test]
    fn a_decision_is_kept_until_none_of_the_others_can_ask() {
        let decisions = Decisions::default();
        decisions.restore(vec![decision()]);
        assert_eq!(decisions.list(), [decision()]);
        decisions.all_appended(2, &[UNIT.key()], &[]);
        assert!(decisions.may_be_asked_by().contains(&2));
        decisions.forget_other(2);
        assert!(!decisions.may_be_asked_by().contains(&2));
        assert_eq!(decisions.list()[0].others, [3]);
        assert_eq!(decisions.ask(&UNIT), Answer::Committed);
        decisions.forget_other(3);
        assert_eq!(decisions.list(), []);
        assert_eq!(decisions.ask(&UNIT), Answer::RolledBack);
    }

    #[test]
    fn a_database_and_its_copy_tell_each_for_itself() {
        let decisions = Decisions::default();
        let both = Decision {
            others: vec![2, 2],
            ..decision()
        };
        decisions.decide(&both);
        let gone = Some((Weak::new(), Lsn(1)));
        decisions.appended(&UNIT, 2, gone.clone());
        let unknown = |d: &Decisions| d.may_be_asked_by().len();
        // Its store is gone, so that only its recovery will tell; the other has not spoken.
        assert_eq!(unknown(&decisions), 1);
        decisions.forget_other(2);
        assert_eq!(decisions.list()[0].others, [2], "the other one");
        decisions.appended(&UNIT, 2, gone);
        decisions.forget_other(2);
        assert_eq!(decisions.list(), []);
    }
}
