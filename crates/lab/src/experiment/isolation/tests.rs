//! Histories made by hand, each with one anomaly, and histories that look alike and have none.

use super::anomaly::{Anomaly as A, Level};
use super::check::check;
use super::history::{Access, History, Key, Kind, Outcome, Statement, Transaction, Value};
use std::collections::BTreeSet;

const X: Key = Key {
    kind: Kind::Register,
    number: 0,
};
const Y: Key = Key {
    kind: Kind::Register,
    number: 1,
};
const Z: Key = Key {
    kind: Kind::Register,
    number: 2,
};
const L: Key = Key {
    kind: Kind::List,
    number: 0,
};
const M: Key = Key {
    kind: Kind::List,
    number: 1,
};
const S: Key = Key {
    kind: Kind::Set,
    number: 0,
};

fn r(key: Key, values: &[Value]) -> Statement {
    vec![Access::Read {
        key,
        values: values.to_vec(),
    }]
}

/// A write to a list or set.
fn w(key: Key, value: Value) -> Statement {
    vec![Access::Write {
        key,
        value,
        before: None,
    }]
}

/// A write to a register.
fn over(key: Key, before: Value, value: Value) -> Statement {
    vec![Access::Write {
        key,
        value,
        before: Some(before),
    }]
}

/// All transactions run side by side, in the order given.
fn history(transactions: &[(Outcome, Vec<Statement>)], last: &[(Key, &[Value])]) -> History {
    let count = transactions.len() as u64;
    let transaction =
        |(number, (outcome, statements)): (u64, &(Outcome, Vec<Statement>))| Transaction {
            begin: number,
            end: count + number,
            outcome: *outcome,
            statements: statements.clone(),
        };
    History {
        transactions: (0..).zip(transactions).map(transaction).collect(),
        last: last
            .iter()
            .map(|(key, values)| (*key, values.to_vec()))
            .collect(),
    }
}

fn committed(transactions: &[&[Statement]], last: &[(Key, &[Value])]) -> History {
    let all: Vec<_> = transactions
        .iter()
        .map(|t| (Outcome::Committed, t.to_vec()))
        .collect();
    history(&all, last)
}

fn found(history: &History) -> BTreeSet<A> {
    check(history)
        .into_iter()
        .map(|(anomaly, _)| anomaly)
        .collect()
}

fn assert_found(history: &History, expected: &[A]) {
    let findings = check(history);
    assert_eq!(
        found(history),
        expected.iter().copied().collect(),
        "{findings:#?}"
    );
}

#[test]
fn a_serial_history_has_none() {
    let mut serial = committed(
        &[
            &[r(X, &[0]), over(X, 0, 1), w(L, 2), r(L, &[2])],
            &[r(X, &[1]), over(X, 1, 3), w(L, 4), w(S, 5)],
            &[r(L, &[2, 4]), r(S, &[5]), r(X, &[3])],
        ],
        &[(X, &[3]), (L, &[2, 4]), (S, &[5])],
    );
    assert_found(&serial, &[]);
    for (number, transaction) in (0..).zip(&mut serial.transactions) {
        (transaction.begin, transaction.end) = (number * 2, number * 2 + 1);
    }
    assert_found(&serial, &[]);
}

#[test]
fn g0_dirty_write() {
    let writes = committed(
        &[&[w(L, 1), w(M, 2)], &[w(L, 3), w(M, 4)]],
        &[(L, &[1, 3]), (M, &[4, 2])],
    );
    assert_found(&writes, &[A::G0]);
    let registers = committed(
        &[
            &[over(X, 0, 1), over(Y, 4, 2)],
            &[over(X, 1, 3), over(Y, 0, 4)],
        ],
        &[(X, &[3]), (Y, &[2])],
    );
    assert_found(&registers, &[A::G0]);
}

#[test]
fn g1a_aborted_read() {
    for (key, values) in [(X, &[1][..]), (L, &[1]), (S, &[1])] {
        let write = vec![Access::Write {
            key,
            value: 1,
            before: Some(0),
        }];
        let last: &[Value] = if key == X { &[0] } else { &[] };
        let aborted = (Outcome::Aborted, vec![write]);
        let reads = history(
            &[aborted, (Outcome::Committed, vec![r(key, values)])],
            &[(key, last)],
        );
        assert_found(&reads, &[A::G1a]);
    }
}

#[test]
fn what_an_aborted_transaction_read_is_nobodys_business() {
    let reads = [
        (Outcome::Aborted, vec![over(X, 0, 1)]),
        (Outcome::Aborted, vec![r(X, &[1])]),
    ];
    assert_found(&history(&reads, &[(X, &[0])]), &[]);
}

#[test]
fn g1b_intermediate_read() {
    let registers = committed(
        &[&[over(X, 0, 1), over(X, 1, 2)], &[r(X, &[1])]],
        &[(X, &[2])],
    );
    assert!(found(&registers).contains(&A::G1b));
    let lists = committed(&[&[w(L, 1), w(L, 2)], &[r(L, &[1])]], &[(L, &[1, 2])]);
    assert!(found(&lists).contains(&A::G1b));
}

#[test]
fn g1c_circular_information_flow() {
    let flow = committed(
        &[&[over(X, 0, 1), r(Y, &[2])], &[over(Y, 0, 2), r(X, &[1])]],
        &[(X, &[1]), (Y, &[2])],
    );
    assert_found(&flow, &[A::G1c]);
}

#[test]
fn g_single_read_skew() {
    let skew = committed(
        &[&[r(X, &[0]), r(Y, &[2])], &[over(X, 0, 1), over(Y, 0, 2)]],
        &[(X, &[1]), (Y, &[2])],
    );
    assert_found(&skew, &[A::GSingleItem]);
    let lists = committed(
        &[&[r(L, &[]), r(M, &[2])], &[w(L, 1), w(M, 2)]],
        &[(L, &[1]), (M, &[2])],
    );
    assert_found(&lists, &[A::GSingleItem]);
    let twice = committed(&[&[r(X, &[0]), r(X, &[1])], &[over(X, 0, 1)]], &[(X, &[1])]);
    assert_found(&twice, &[A::GSingleItem]);
}

#[test]
fn phantoms_are_told_from_rows() {
    let twice = committed(&[&[r(S, &[]), r(S, &[1])], &[w(S, 1)]], &[(S, &[1])]);
    assert_found(&twice, &[A::GSingle]);
    let skew = committed(
        &[&[r(S, &[1]), w(S, 2)], &[r(S, &[2]), w(S, 1)]],
        &[(S, &[1, 2])],
    );
    assert_found(&skew, &[A::G1c, A::StatementSkew]);
    let blind = committed(
        &[&[r(S, &[]), w(S, 2)], &[r(S, &[]), w(S, 1)]],
        &[(S, &[1, 2])],
    );
    assert_found(&blind, &[A::G2]);
}

#[test]
fn p4_lost_update() {
    let registers = committed(
        &[&[r(X, &[0]), over(X, 0, 1)], &[r(X, &[0]), over(X, 1, 2)]],
        &[(X, &[2])],
    );
    assert_found(&registers, &[A::GSingleItem, A::LostUpdate]);
    let lists = committed(
        &[&[r(L, &[]), w(L, 1)], &[r(L, &[]), w(L, 2)]],
        &[(L, &[1, 2])],
    );
    assert_found(&lists, &[A::GSingleItem, A::LostUpdate]);
    let blind = committed(&[&[over(X, 0, 1)], &[over(X, 1, 2)]], &[(X, &[2])]);
    assert_found(&blind, &[]);
}

#[test]
fn g2_item_write_skew() {
    let skew = committed(
        &[&[r(X, &[0]), over(Y, 0, 1)], &[r(Y, &[0]), over(X, 0, 2)]],
        &[(X, &[2]), (Y, &[1])],
    );
    assert_found(&skew, &[A::G2Item]);
    assert!(!Level::Snapshot.excludes(A::G2Item) && Level::RepeatableRead.excludes(A::G2Item));
}

/// Long fork: two readers see two writes in opposite orders. Parallel snapshot isolation allows it, snapshot isolation does not.
#[test]
fn g_nonadjacent_long_fork() {
    let fork = committed(
        &[
            &[over(X, 0, 1)],
            &[over(Y, 0, 2)],
            &[r(X, &[1]), r(Y, &[0])],
            &[r(X, &[0]), r(Y, &[2])],
        ],
        &[(X, &[1]), (Y, &[2])],
    );
    assert_found(&fork, &[A::GNonadjacent, A::G2Item]);
}

/// A cycle of three with adjacent anti-dependencies: snapshot isolation allows it even though one transaction only reads.
#[test]
fn the_read_only_anomaly_is_write_skew() {
    let only = committed(
        &[
            &[r(X, &[0]), r(Y, &[0]), over(X, 0, 1)],
            &[over(Y, 0, 2)],
            &[r(X, &[0]), r(Y, &[2])],
        ],
        &[(X, &[1]), (Y, &[2])],
    );
    assert_found(&only, &[A::G2Item]);
}

#[test]
fn a_statement_sees_one_state() {
    let both: Statement = [r(X, &[0]), r(Y, &[2])].concat();
    let writer = [over(X, 0, 1), over(Y, 0, 2)];
    let split = committed(&[&[both], &writer], &[(X, &[1]), (Y, &[2])]);
    assert_found(&split, &[A::StatementSkew, A::GSingleItem]);
    let own: Statement = [r(X, &[3]), r(Y, &[2])].concat();
    let with_own = committed(
        &[&[over(X, 0, 3), own], &[over(Y, 0, 2)]],
        &[(X, &[3]), (Y, &[2])],
    );
    assert_found(&with_own, &[]);
}

#[test]
fn a_transaction_sees_its_own_writes() {
    let blind = committed(&[&[over(X, 0, 1), r(X, &[0])]], &[(X, &[1])]);
    assert_found(&blind, &[A::Internal]);
    assert_found(
        &committed(&[&[w(L, 1), r(L, &[])]], &[(L, &[1])]),
        &[A::Internal],
    );
    assert_found(
        &committed(&[&[w(S, 1), r(S, &[])]], &[(S, &[1])]),
        &[A::Internal],
    );
}

#[test]
fn what_cannot_be_is_noticed() {
    assert_found(&committed(&[&[r(X, &[7])]], &[(X, &[0])]), &[A::Garbage]);
    assert_found(&committed(&[], &[(L, &[7])]), &[A::Garbage]);
    assert_found(&committed(&[&[w(L, 1)]], &[(L, &[])]), &[A::LostWrite]);
    assert_found(
        &history(&[(Outcome::Aborted, vec![w(L, 1)])], &[(L, &[1])]),
        &[A::AbortedWrite],
    );
    let orders = committed(&[&[w(L, 1)], &[w(L, 2)], &[r(L, &[2, 1])]], &[(L, &[1, 2])]);
    assert!(found(&orders).contains(&A::IncompatibleOrder));
    let twice = committed(&[&[w(L, 1)]], &[(L, &[1, 1])]);
    assert!(found(&twice).contains(&A::IncompatibleOrder));
    // Both replaced the first version: one of them is not in the chain.
    let fork = committed(&[&[over(X, 0, 1)], &[over(X, 0, 2)]], &[(X, &[2])]);
    assert!(found(&fork).contains(&A::LostWrite));
}

#[test]
fn doubt_is_settled_by_the_last_state() {
    let doubt = |last: &[Value]| {
        history(
            &[(Outcome::InDoubt, vec![w(L, 1), w(M, 2)])],
            &[(L, &[1]), (M, last)],
        )
    };
    assert_found(&doubt(&[2]), &[]);
    assert_found(&doubt(&[]), &[A::LostWrite]);
    let gone = history(&[(Outcome::InDoubt, vec![w(L, 1)])], &[(L, &[])]);
    assert_found(&gone, &[]);
}

#[test]
fn real_time_counts() {
    let mut stale = committed(&[&[over(X, 0, 1)], &[r(X, &[0])]], &[(X, &[1])]);
    assert_found(&stale, &[]);
    for (number, transaction) in (0..).zip(&mut stale.transactions) {
        (transaction.begin, transaction.end) = (number * 2, number * 2 + 1);
    }
    assert_found(&stale, &[A::GSingleItem, A::StaleRead]);
}

/// A cycle that only real time closes, through a transaction that is neither first nor last.
#[test]
fn real_time_passes_through_others() {
    let mut chain = committed(
        &[
            &[over(X, 0, 1)],
            &[over(Y, 0, 2)],
            &[over(Z, 0, 3), r(X, &[0])],
        ],
        &[(X, &[1]), (Y, &[2]), (Z, &[3])],
    );
    for (number, transaction) in (0..).zip(&mut chain.transactions) {
        (transaction.begin, transaction.end) = (number * 2, number * 2 + 1);
    }
    assert!(found(&chain).contains(&A::GSingleItem));
}

#[test]
fn levels_grow_stronger() {
    let excluded = |level: Level| A::ALL.iter().filter(|a| level.excludes(**a)).count();
    assert!(excluded(Level::ReadUncommitted) < excluded(Level::ReadCommittedLocks));
    assert!(excluded(Level::ReadCommittedLocks) < excluded(Level::RepeatableRead));
    assert_eq!(excluded(Level::Serializable), A::ALL.len());
    for level in Level::ALL {
        assert!(
            level
                .shows()
                .iter()
                .all(|anomaly| !level.excludes(*anomaly))
        );
    }
}
