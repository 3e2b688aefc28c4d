//! The graph of a history: which transaction must come before which, and why.
//!
//! | edge | from | to |
//! |---|---|---|
//! | ww | wrote a version | wrote the next one |
//! | wr | wrote a version | read it |
//! | rw | read a version | wrote the next one |
//! | rw by predicate | read a set | added a row the read did not return |
//! | real time | was acknowledged | began afterwards |

use super::anomaly::Anomaly;
use super::history::{Access, History, Key, Kind, Statement, Value};
use super::versions::{Finding, Versions};
use std::collections::{BTreeMap, HashSet};
use std::fmt;

/// Why one transaction comes before another: the dependency, its key, and the value that shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    Ww(Key, Value),
    Wr(Key, Value),
    Rw(Key, Value),
    RwPredicate(Key, Value),
    RealTime,
}

impl Why {
    /// Is it an anti-dependency: a read of a version that the other transaction replaced?
    pub const fn is_anti(self) -> bool {
        matches!(self, Why::Rw(..) | Why::RwPredicate(..))
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::Ww(key, value) => write!(f, "ww {key}: {value}"),
            Why::Wr(key, value) => write!(f, "wr {key}: {value}"),
            Why::Rw(key, value) => write!(f, "rw {key}: {value}"),
            Why::RwPredicate(key, value) => write!(f, "rw by predicate {key}: {value}"),
            Why::RealTime => f.write_str("ended before"),
        }
    }
}

/// `from` comes before `to`; both are numbers of transactions in the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edge {
    pub from: usize,
    pub to: usize,
    pub why: Why,
}

/// The direct serialization graph of a history.
#[derive(Debug, Default)]
pub struct Graph {
    pub nodes: usize,
    edges: Vec<Edge>,
    /// Edges are sorted; those from a node stand at this range.
    ranges: Vec<(usize, usize)>,
}

impl Graph {
    fn new(nodes: usize, mut edges: Vec<Edge>) -> Graph {
        edges.retain(|e| e.from != e.to);
        edges.sort_unstable();
        edges.dedup();
        let at = |node: usize| edges.partition_point(|e| e.from < node);
        let ranges = (0..nodes).map(|node| (at(node), at(node + 1))).collect();
        Graph {
            nodes,
            edges,
            ranges,
        }
    }

    /// All edges, sorted by their start.
    pub fn edges(&self) -> &[Edge] {
        &self.edges
    }

    /// The edges that start at a transaction.
    pub fn from(&self, node: usize) -> &[Edge] {
        let range = self.ranges.get(node).copied().unwrap_or_default();
        self.edges.get(range.0..range.1).unwrap_or_default()
    }
}

/// Every transaction that committed.
pub fn of_transactions(history: &History, versions: &Versions) -> Graph {
    let mut edges = write_edges(versions);
    for (number, transaction) in committed(history, versions) {
        for access in transaction.accesses() {
            read_edges(number, access, versions, &mut edges);
        }
    }
    edges.extend(real_time(history, versions));
    Graph::new(history.transactions.len(), edges)
}

/// Every transaction without what it read, and each statement that read several rows as a reader of its own.
pub fn of_statements(history: &History, versions: &Versions) -> Graph {
    let mut edges = write_edges(versions);
    let mut nodes = history.transactions.len();
    for (number, transaction) in committed(history, versions) {
        let mut own = HashSet::new();
        for statement in &transaction.statements {
            if is_wide(statement) {
                let foreign =
                    |a: &&Access| matches!(a, Access::Read { key, .. } if !own.contains(key));
                for access in statement.iter().filter(foreign) {
                    read_edges(nodes, access, versions, &mut edges);
                }
                nodes += 1;
            }
            for access in statement {
                match access {
                    Access::Write { key, .. } => drop(own.insert(*key)),
                    Access::Read { .. } => read_edges(number, access, versions, &mut edges),
                }
            }
        }
    }
    Graph::new(nodes, edges)
}

/// Does it read more than one row?
fn is_wide(statement: &Statement) -> bool {
    let is_set = |a: &Access| matches!(a, Access::Read { key, .. } if key.kind == Kind::Set);
    statement.len() > 1 || statement.iter().any(is_set)
}

fn committed<'a>(
    history: &'a History,
    versions: &'a Versions,
) -> impl Iterator<Item = (usize, &'a super::history::Transaction)> {
    let all = history.transactions.iter().enumerate();
    all.filter(|(number, _)| versions.is_committed(*number))
}

fn write_edges(versions: &Versions) -> Vec<Edge> {
    let mut edges = Vec::new();
    for (key, order) in versions.keys().filter(|(key, _)| key.kind != Kind::Set) {
        for pair in order.windows(2) {
            let [first, second] = pair else { continue };
            let writers = (versions.writer(key, *first), versions.writer(key, *second));
            if let (Some(from), Some(to)) = writers {
                edges.push(Edge {
                    from,
                    to,
                    why: Why::Ww(key, *second),
                });
            }
        }
    }
    edges
}

/// What a read makes its transaction depend on, and what depends on it.
fn read_edges(reader: usize, access: &Access, versions: &Versions, edges: &mut Vec<Edge>) {
    let Access::Read { key, values } = access else {
        return;
    };
    let is_committed = |writer: &usize| versions.is_committed(*writer);
    let writer = |value: Value| versions.writer(*key, value).filter(is_committed);
    let seen: &[Value] = match key.kind {
        Kind::Set => values,
        Kind::List | Kind::Register => values.last().map_or(&[], std::slice::from_ref),
    };
    for value in seen {
        edges.extend(writer(*value).map(|from| Edge {
            from,
            to: reader,
            why: Why::Wr(*key, *value),
        }));
    }
    if key.kind == Kind::Set {
        for value in versions
            .all(*key)
            .iter()
            .filter(|value| !values.contains(value))
        {
            let why = Why::RwPredicate(*key, *value);
            edges.extend(writer(*value).map(|to| Edge {
                from: reader,
                to,
                why,
            }));
        }
        return;
    }
    let number = versions.number(*key, values.last().copied().unwrap_or(0));
    let next = number.and_then(|number| versions.all(*key).get(number));
    edges.extend(next.and_then(|value| {
        let why = Why::Rw(*key, *value);
        Some(Edge {
            from: reader,
            to: writer(*value)?,
            why,
        })
    }));
}

/// Pairs of which one ended before the other began, without those that follow from others.
fn real_time(history: &History, versions: &Versions) -> Vec<Edge> {
    let mut moments = BTreeMap::new();
    for (number, transaction) in committed(history, versions) {
        moments.insert(transaction.begin, (number, true));
        moments.insert(transaction.end, (number, false));
    }
    let (mut edges, mut frontier) = (Vec::new(), HashSet::new());
    let mut before: BTreeMap<usize, HashSet<usize>> = BTreeMap::new();
    for (number, begins) in moments.into_values() {
        if begins {
            let from_all = frontier.iter().map(|from| Edge {
                from: *from,
                to: number,
                why: Why::RealTime,
            });
            edges.extend(from_all);
            before.insert(number, frontier.clone());
        } else if let Some(older) = before.remove(&number) {
            frontier.retain(|n| !older.contains(n));
            frontier.insert(number);
        }
    }
    edges
}

/// Versions that had been replaced, by a transaction that was acknowledged, before their reader began.
pub fn stale_reads(graph: &Graph, history: &History, findings: &mut Vec<Finding>) {
    for edge in graph.edges().iter().filter(|edge| edge.why.is_anti()) {
        let both = (
            history.transactions.get(edge.from),
            history.transactions.get(edge.to),
        );
        if let (Some(reader), Some(writer)) = both
            && writer.end < reader.begin
        {
            let text = format!(
                "T{} began after T{} had committed: {}",
                edge.from, edge.to, edge.why
            );
            findings.push((Anomaly::StaleRead, text));
        }
    }
}
