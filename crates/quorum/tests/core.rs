//! Every order of events of small clusters, searched completely.
#![cfg(not(feature = "planted-bugs"))]

mod search;

use search::{Harm, Scope, visit_all};

fn complete(nodes: u8, witness: bool, terms: u64, changes: u8, crashes: u8) {
    search(nodes, witness, terms, changes, crashes, false);
}

fn search(nodes: u8, witness: bool, terms: u64, changes: u8, crashes: u8, adopts: bool) {
    let scope = Scope {
        adopts,
        nodes,
        witness,
        terms,
        changes,
        crashes,
        harm: Harm::None,
    };
    let states = visit_all(&scope).unwrap_or_else(|violation| panic!("{scope:?}: {violation}"));
    println!("{scope:?}: {states} states");
    assert!(states > 1000, "{states} states are no search");
}

#[test]
fn two_nodes() {
    complete(2, false, 5, 2, 2);
}

#[test]
fn two_nodes_and_a_witness() {
    complete(2, true, 3, 1, 0);
    complete(2, true, 3, 2, 0);
    complete(2, true, 3, 2, 1);
}

#[test]
fn three_nodes() {
    complete(3, false, 3, 1, 0);
    complete(3, false, 3, 2, 0);
    complete(3, false, 3, 1, 1);
}

#[test]
fn three_nodes_and_a_witness() {
    complete(3, true, 3, 1, 0);
}

#[test]
fn newer_configurations_may_be_adopted() {
    search(2, true, 3, 2, 0, true);
    search(2, true, 3, 1, 1, true);
    search(3, false, 3, 1, 0, true);
}
