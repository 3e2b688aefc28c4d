//! Which versions every key had and in what order, and the anomalies that show without a graph.
//!
//! The state at the end settles it: a list holds its versions in order, and from the last value of a register the writes lead
//! back, each naming the version it replaced. A transaction in doubt committed when the state holds what it wrote.

use super::anomaly::Anomaly;
use super::history::{Access, History, Key, Kind, Outcome, Transaction, Value};
use std::collections::{BTreeMap, HashMap, HashSet};

/// An anomaly, with what was seen.
pub type Finding = (Anomaly, String);

/// The order in which the versions of each key replaced each other, and who wrote them.
#[derive(Debug, Default)]
pub struct Versions {
    /// Of lists and registers, oldest first, without the initial version.
    order: BTreeMap<Key, Vec<Value>>,
    position: HashMap<(Key, Value), usize>,
    writer: HashMap<(Key, Value), usize>,
    committed: Vec<bool>,
}

impl Versions {
    /// Finds the order from what was read; what contradicts itself goes to `findings`.
    pub fn of(history: &History, findings: &mut Vec<Finding>) -> Versions {
        let mut versions = Versions::default();
        let mut before = HashMap::new();
        for (number, transaction) in history.transactions.iter().enumerate() {
            for access in transaction.accesses() {
                if let Access::Write {
                    key,
                    value,
                    before: b,
                } = access
                {
                    let former = versions.writer.insert((*key, *value), number);
                    assert!(former.is_none(), "{value} is written once to {key}");
                    before.insert((*key, *value), b.unwrap_or(0));
                }
            }
        }
        for (key, last) in &history.last {
            let order = match key.kind {
                Kind::List | Kind::Set => last.clone(),
                Kind::Register => chain(*key, last, &before, findings),
            };
            for (at, value) in order.iter().enumerate() {
                if versions.position.insert((*key, *value), at).is_some() {
                    findings.push((
                        Anomaly::IncompatibleOrder,
                        format!("{key} holds {value} twice"),
                    ));
                }
            }
            versions.order.insert(*key, order);
        }
        versions.settle(history, findings);
        versions
    }

    /// Did this transaction commit, as its client or its writes tell?
    pub fn is_committed(&self, transaction: usize) -> bool {
        self.committed.get(transaction).copied().unwrap_or(false)
    }

    /// Number of the transaction that wrote the value.
    pub fn writer(&self, key: Key, value: Value) -> Option<usize> {
        self.writer.get(&(key, value)).copied()
    }

    /// Lists and registers with their versions, and sets with their members.
    pub fn keys(&self) -> impl Iterator<Item = (Key, &[Value])> {
        self.order
            .iter()
            .map(|(key, order)| (*key, order.as_slice()))
    }

    /// The versions of a key, oldest first, without the initial one.
    pub fn all(&self, key: Key) -> &[Value] {
        self.order.get(&key).map_or(&[], Vec::as_slice)
    }

    /// Number of the version that `value` made, 0 for the initial one.
    pub fn number(&self, key: Key, value: Value) -> Option<usize> {
        match value {
            0 => Some(0),
            _ => self.position.get(&(key, value)).map(|at| at + 1),
        }
    }

    /// Transactions that committed, and whether exactly their writes are there.
    fn settle(&mut self, history: &History, findings: &mut Vec<Finding>) {
        for (number, transaction) in history.transactions.iter().enumerate() {
            let (mut there, mut gone) = (Vec::new(), Vec::new());
            for access in transaction.accesses() {
                if let Access::Write { key, value, .. } = access {
                    let known = self.position.contains_key(&(*key, *value));
                    if known { &mut there } else { &mut gone }.push(format!("{key}: {value}"));
                }
            }
            let committed = match transaction.outcome {
                Outcome::Committed => true,
                Outcome::Aborted => false,
                Outcome::InDoubt => !there.is_empty(),
            };
            self.committed.push(committed);
            if committed && !gone.is_empty() {
                let text = format!("T{number} committed and {} is gone", gone.join(", "));
                findings.push((Anomaly::LostWrite, text));
            }
            if !committed && !there.is_empty() {
                let text = format!(
                    "T{number} was rolled back and {} is there",
                    there.join(", ")
                );
                findings.push((Anomaly::AbortedWrite, text));
            }
        }
        for (key, value) in self.position.keys() {
            if !self.writer.contains_key(&(*key, *value)) {
                findings.push((Anomaly::Garbage, format!("{key} holds {value}")));
            }
        }
    }
}

/// The versions of a register from its last one back to the first.
fn chain(
    key: Key,
    last: &[Value],
    before: &HashMap<(Key, Value), Value>,
    findings: &mut Vec<Finding>,
) -> Vec<Value> {
    let (mut order, mut seen) = (Vec::new(), HashSet::new());
    let mut value = last.first().copied().unwrap_or(0);
    while value != 0 {
        if !seen.insert(value) {
            findings.push((
                Anomaly::IncompatibleOrder,
                format!("{key}: {value} came before itself"),
            ));
            break;
        }
        order.push(value);
        value = before.get(&(key, value)).copied().unwrap_or(0);
    }
    order.reverse();
    order
}

/// Reads of committed transactions that are wrong by themselves.
pub fn check_reads(history: &History, versions: &Versions, findings: &mut Vec<Finding>) {
    for (number, transaction) in history.transactions.iter().enumerate() {
        if !versions.is_committed(number) {
            continue;
        }
        let mut own: BTreeMap<Key, Vec<Value>> = BTreeMap::new();
        for access in transaction.accesses() {
            match access {
                Access::Write { key, value, .. } => own.entry(*key).or_default().push(*value),
                Access::Read { key, values } => {
                    let reader = Reader {
                        number,
                        history,
                        versions,
                    };
                    reader.check(
                        *key,
                        values,
                        own.get(key).map_or(&[], Vec::as_slice),
                        findings,
                    );
                }
            }
        }
        lost_updates(number, transaction, versions, findings);
    }
}

struct Reader<'a> {
    number: usize,
    history: &'a History,
    versions: &'a Versions,
}

impl Reader<'_> {
    fn check(&self, key: Key, values: &[Value], own: &[Value], findings: &mut Vec<Finding>) {
        let number = self.number;
        if !sees_own(key.kind, values, own) {
            let text = format!("T{number} wrote {own:?} to {key} and read {values:?}");
            findings.push((Anomaly::Internal, text));
        }
        let mut is_known = true;
        for value in values.iter().filter(|value| **value != 0) {
            match self.versions.writer(key, *value) {
                None => {
                    is_known = false;
                    findings.push((Anomaly::Garbage, format!("T{number} read {value} of {key}")));
                }
                Some(writer) if !self.versions.is_committed(writer) => {
                    is_known = false;
                    let text =
                        format!("T{number} read {value} of {key}, which T{writer} rolled back");
                    findings.push((Anomaly::G1a, text));
                }
                Some(_) => {}
            }
        }
        let all = self.versions.all(key);
        if key.kind == Kind::List && is_known && !all.starts_with(values) {
            let text = format!("T{number} read {values:?} of {key}, which became {all:?}");
            findings.push((Anomaly::IncompatibleOrder, text));
        }
        if key.kind != Kind::Set {
            self.intermediate(key, values, findings);
        }
    }

    fn intermediate(&self, key: Key, values: &[Value], findings: &mut Vec<Finding>) {
        let Some(value) = values.last() else { return };
        let Some(writer) = self.versions.writer(key, *value) else {
            return;
        };
        if writer == self.number || !self.versions.is_committed(writer) {
            return;
        }
        let last = self
            .history
            .transactions
            .get(writer)
            .and_then(|t| t.writes_to(key).last());
        if let Some(last) = last.filter(|last| last != value) {
            let text = format!(
                "T{} read {value} of {key}, which T{writer} made {last}",
                self.number
            );
            findings.push((Anomaly::G1b, text));
        }
    }
}

/// Does a read see what the transaction itself wrote before it?
fn sees_own(kind: Kind, values: &[Value], own: &[Value]) -> bool {
    match kind {
        Kind::List => values.ends_with(own),
        Kind::Register => own.last().is_none_or(|last| values.last() == Some(last)),
        Kind::Set => own.iter().all(|value| values.contains(value)),
    }
}

/// P4: the transaction read a version, and what its first write replaced was a later one.
fn lost_updates(
    number: usize,
    transaction: &Transaction,
    versions: &Versions,
    findings: &mut Vec<Finding>,
) {
    let mut read: BTreeMap<Key, Value> = BTreeMap::new();
    let mut written = HashSet::new();
    for access in transaction.accesses() {
        match access {
            Access::Read { key, values } if key.kind != Kind::Set && !written.contains(key) => {
                read.insert(*key, values.last().copied().unwrap_or(0));
            }
            Access::Write { key, value, .. } if written.insert(*key) => {
                let Some(seen) = read.get(key).and_then(|v| versions.number(*key, *v)) else {
                    continue;
                };
                let own = versions.number(*key, *value);
                if own.is_some_and(|own| own > seen + 1) {
                    let text =
                        format!("T{number} read version {seen} of {key} and wrote version {own:?}");
                    findings.push((Anomaly::LostUpdate, text));
                }
            }
            _ => {}
        }
    }
}
