//! Cycles of the graph, each with the strongest anomaly it is.
//!
//! The search is Elle's (K. Kingsbury and P. Alvaro, "Elle: Inferring Isolation Anomalies from Experimental Observations",
//! VLDB 2020): strongly connected components (Tarjan 1972) of parts of the graph, and in each a breadth-first search for the
//! shortest way back from the end of an edge to its beginning.

use super::anomaly::Anomaly;
use super::graph::{Edge, Graph, Why};
use super::versions::Finding;
use std::collections::VecDeque;

/// Which edges a cycle may have.
type Allowed = fn(Why) -> bool;

const fn is_write(why: Why) -> bool {
    matches!(why, Why::Ww(..) | Why::RealTime)
}

const fn is_dependency(why: Why) -> bool {
    !why.is_anti()
}

const fn is_item(why: Why) -> bool {
    !matches!(why, Why::RwPredicate(..))
}

const fn is_any(_: Why) -> bool {
    true
}

/// All anomalies that the graph shows, of each kind and edge one.
pub fn search(graph: &Graph, findings: &mut Vec<Finding>) {
    let whole = components(graph);
    let in_cycle = |edge: &&Edge| whole.get(edge.from) == whole.get(edge.to);
    for edge in graph.edges().iter().filter(in_cycle) {
        let mut found = |anomaly, allowed| {
            let way = way_back(graph, *edge, allowed);
            findings.extend(way.map(|way| (anomaly, told(*edge, &way))));
        };
        match edge.why {
            Why::RealTime => {}
            Why::Ww(..) => found(Anomaly::G0, is_write),
            Why::Wr(..) => found(Anomaly::G1c, is_dependency),
            Why::Rw(..) | Why::RwPredicate(..) => anti(graph, *edge, findings),
        }
    }
}

/// Statements, the nodes from `first` on, that saw two states: one anti-dependency leads out and dependencies lead back.
pub fn split_statements(graph: &Graph, first: usize, findings: &mut Vec<Finding>) {
    let of_statement = |edge: &&Edge| edge.from >= first && edge.why.is_anti();
    for edge in graph.edges().iter().filter(of_statement) {
        let way = way_back(graph, *edge, is_dependency);
        findings.extend(way.map(|way| (Anomaly::StatementSkew, told(*edge, &way))));
    }
}

/// Cycles through an anti-dependency.
fn anti(graph: &Graph, edge: Edge, findings: &mut Vec<Finding>) {
    let is_row = is_item(edge.why);
    if let Some(way) = way_back(graph, edge, is_dependency) {
        let anomaly = if is_row {
            Anomaly::GSingleItem
        } else {
            Anomaly::GSingle
        };
        findings.push((anomaly, told(edge, &way)));
        return;
    }
    if let Some(way) = nonadjacent(graph, edge) {
        findings.push((Anomaly::GNonadjacent, told(edge, &way)));
    }
    let (anomaly, allowed): (_, Allowed) = match is_row {
        true => (Anomaly::G2Item, is_item),
        false => (Anomaly::G2, is_any),
    };
    let way = way_back(graph, edge, allowed);
    findings.extend(way.map(|way| (anomaly, told(edge, &way))));
}

fn told(edge: Edge, way: &[Edge]) -> String {
    let mut text = format!("T{}", edge.from);
    for edge in std::iter::once(&edge).chain(way) {
        text.push_str(&format!(" -[{}]-> T{}", edge.why, edge.to));
    }
    text
}

/// The shortest way from the end of an edge to its beginning.
fn way_back(graph: &Graph, edge: Edge, allowed: Allowed) -> Option<Vec<Edge>> {
    breadth_first(graph, edge, |_, next| allowed(next.why), |_| true)
}

/// The shortest way back on which no two anti-dependencies follow each other, also at both ends of this one.
///
/// The way may visit a transaction twice. Cut there, one of both parts has no adjacent anti-dependencies either, so a
/// simple cycle of the kind exists.
fn nonadjacent(graph: &Graph, edge: Edge) -> Option<Vec<Edge>> {
    let follows = |last: Why, next: &Edge| !(last.is_anti() && next.why.is_anti());
    breadth_first(graph, edge, follows, |last| !last.is_anti())
}

/// States are a node and whether an anti-dependency led to it, two for each node.
fn breadth_first(
    graph: &Graph,
    first: Edge,
    follows: impl Fn(Why, &Edge) -> bool,
    may_end: impl Fn(Why) -> bool,
) -> Option<Vec<Edge>> {
    let state = |edge: &Edge| edge.to * 2 + usize::from(edge.why.is_anti());
    let mut came_by: Vec<Option<Edge>> = vec![None; graph.nodes * 2];
    let mut parent: Vec<Option<usize>> = vec![None; graph.nodes * 2];
    let mut queue = VecDeque::from([first]);
    while let Some(edge) = queue.pop_front() {
        for next in graph
            .from(edge.to)
            .iter()
            .filter(|next| follows(edge.why, next))
        {
            let at = state(next);
            if came_by.get(at).is_none_or(Option::is_some) {
                continue;
            }
            came_by[at] = Some(*next);
            parent[at] = Some(state(&edge)).filter(|_| edge != first);
            if next.to == first.from && may_end(next.why) {
                return Some(unwind(&came_by, &parent, at));
            }
            queue.push_back(*next);
        }
    }
    None
}

fn unwind(came_by: &[Option<Edge>], parent: &[Option<usize>], end: usize) -> Vec<Edge> {
    let mut way = Vec::new();
    let mut at = Some(end);
    while let Some(state) = at {
        way.extend(came_by[state]);
        at = parent[state];
    }
    way.reverse();
    way
}

/// Number of the strongly connected component of each node (Tarjan, without recursion).
fn components(graph: &Graph) -> Vec<usize> {
    const NONE: usize = usize::MAX;
    let (mut index, mut low) = (vec![NONE; graph.nodes], vec![NONE; graph.nodes]);
    let (mut component, mut open) = (vec![NONE; graph.nodes], Vec::new());
    let (mut counter, mut components) = (0, 0);
    for root in 0..graph.nodes {
        if index[root] != NONE {
            continue;
        }
        let mut calls = vec![(root, 0)];
        while let Some((node, at)) = calls.pop() {
            if at == 0 {
                index[node] = counter;
                low[node] = counter;
                counter += 1;
                open.push(node);
            }
            match graph.from(node).get(at) {
                Some(edge) => {
                    calls.push((node, at + 1));
                    if index[edge.to] == NONE {
                        calls.push((edge.to, 0));
                    } else if component[edge.to] == NONE {
                        low[node] = low[node].min(index[edge.to]);
                    }
                }
                None => {
                    if low[node] == index[node] {
                        while let Some(member) = open.pop() {
                            component[member] = components;
                            if member == node {
                                break;
                            }
                        }
                        components += 1;
                    }
                    if let Some((caller, _)) = calls.last() {
                        low[*caller] = low[*caller].min(low[node]);
                    }
                }
            }
        }
    }
    component
}
