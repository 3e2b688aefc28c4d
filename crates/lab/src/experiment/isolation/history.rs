//! What the sessions of a run did and saw: transactions of statements, with the state at the end.
//!
//! Every value is written once in a history, so a value names the write, and through it the transaction, it came from.

use std::collections::BTreeMap;
use std::fmt;

/// A written value; 0 is what a register holds at first.
pub type Value = u64;

/// What a key is made of; each shows other anomalies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// One row that grows at its end. A read tells all versions so far, in order.
    List,
    /// One row that is overwritten. A write tells which version it replaced.
    Register,
    /// The rows that satisfy a predicate. They come one by one and never go.
    Set,
}

/// One thing that transactions read and write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub kind: Kind,
    pub number: u64,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::List => "list",
            Kind::Register => "register",
            Kind::Set => "set",
        };
        write!(f, "{kind} {}", self.number)
    }
}

/// One thing that a statement did to one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    Write {
        key: Key,
        value: Value,
        /// Of a register: the version that was replaced.
        before: Option<Value>,
    },
    /// All elements of a list in order, the one value of a register, the members of a set.
    Read { key: Key, values: Vec<Value> },
}

/// What one statement did, in order.
pub type Statement = Vec<Access>;

/// How a transaction ended, as its client knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Committed,
    Aborted,
    /// COMMIT was sent and its answer never came.
    InDoubt,
}

/// What one transaction did, as its client saw it.
#[derive(Clone, Debug)]
pub struct Transaction {
    /// Stamps of one clock: before BEGIN was sent, after the answer to COMMIT or ROLLBACK had come.
    pub begin: u64,
    pub end: u64,
    pub outcome: Outcome,
    pub statements: Vec<Statement>,
}

impl Transaction {
    /// Its accesses, of all statements in order.
    pub fn accesses(&self) -> impl Iterator<Item = &Access> {
        self.statements.iter().flatten()
    }

    /// What it wrote to a key, in order.
    pub fn writes_to(&self, key: Key) -> impl Iterator<Item = Value> {
        self.accesses().filter_map(move |access| match access {
            Access::Write { key: k, value, .. } if *k == key => Some(*value),
            _ => None,
        })
    }
}

/// Everything that a check needs: no server is asked any more.
#[derive(Clone, Debug, Default)]
pub struct History {
    pub transactions: Vec<Transaction>,
    /// What every key holds after the last transaction, read alone.
    pub last: BTreeMap<Key, Vec<Value>>,
}
