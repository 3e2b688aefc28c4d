//! Anomalies, and which of them a level excludes, permits and can be expected to show.
//!
//! Names and definitions: A. Adya, "Weak Consistency: A Generalized Theory and Optimistic Implementations for Distributed
//! Transactions" (MIT, 1999), for cycles G0 to G2; H. Berenson and others, "A Critique of ANSI SQL Isolation Levels"
//! (SIGMOD 1995) for the lost update P4; A. Cerone and others, "A Framework for Transactional Consistency Models with Atomic
//! Visibility" (CONCUR 2015) for snapshot isolation as: no cycle without two adjacent anti-dependencies.

/// The anomalies that histories are searched for, worst cycles first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Anomaly {
    /// Writes interleaved: a cycle of ww.
    G0,
    /// A value of an aborted transaction was read.
    G1a,
    /// A value that its transaction overwrote later was read.
    G1b,
    /// A cycle of ww and wr.
    G1c,
    /// A cycle with one anti-dependency, on a row.
    GSingleItem,
    /// A cycle with one anti-dependency, on a predicate.
    GSingle,
    /// A cycle with several anti-dependencies, no two of them adjacent.
    GNonadjacent,
    /// A cycle with several anti-dependencies, all on rows: write skew.
    G2Item,
    /// A cycle with several anti-dependencies, some of them on predicates.
    G2,
    /// A write that was based on an older version than the one it replaced.
    LostUpdate,
    /// One statement saw parts of two states.
    StatementSkew,
    /// A transaction did not see what it wrote itself.
    Internal,
    /// Reads that no order of versions explains.
    IncompatibleOrder,
    /// The write of an aborted transaction is there at the end.
    AbortedWrite,
    /// An acknowledged write is not there at the end.
    LostWrite,
    /// A value that nobody wrote.
    Garbage,
    /// A version was read that had been replaced before the transaction began.
    StaleRead,
}

use Anomaly as A;

impl Anomaly {
    /// In the order in which reports list them.
    pub const ALL: [Anomaly; 17] = [
        A::G0,
        A::G1a,
        A::G1b,
        A::G1c,
        A::GSingleItem,
        A::GSingle,
        A::GNonadjacent,
        A::G2Item,
        A::G2,
        A::LostUpdate,
        A::StatementSkew,
        A::Internal,
        A::IncompatibleOrder,
        A::AbortedWrite,
        A::LostWrite,
        A::Garbage,
        A::StaleRead,
    ];

    /// As reports name it, with its letter in Adya's thesis where it has one.
    pub const fn title(self) -> &'static str {
        match self {
            A::G0 => "G0 dirty write",
            A::G1a => "G1a aborted read",
            A::G1b => "G1b intermediate read",
            A::G1c => "G1c circular information flow",
            A::GSingleItem => "G-single read skew, rows",
            A::GSingle => "G-single read skew, predicates",
            A::GNonadjacent => "G-nonadjacent",
            A::G2Item => "G2-item write skew",
            A::G2 => "G2 write skew by phantoms",
            A::LostUpdate => "P4 lost update",
            A::StatementSkew => "statement saw two states",
            A::Internal => "own write not seen",
            A::IncompatibleOrder => "incompatible orders",
            A::AbortedWrite => "aborted write kept",
            A::LostWrite => "lost write",
            A::Garbage => "value nobody wrote",
            A::StaleRead => "stale read",
        }
    }
}

/// Isolation levels; READ COMMITTED counts twice, for READ_COMMITTED_SNAPSHOT off and on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    ReadUncommitted,
    ReadCommittedLocks,
    ReadCommittedVersions,
    RepeatableRead,
    Snapshot,
    Serializable,
}

/// What no database may ever show.
const NEVER: &[Anomaly] = &[
    A::G0,
    A::Internal,
    A::IncompatibleOrder,
    A::AbortedWrite,
    A::LostWrite,
    A::Garbage,
    A::StaleRead,
];

impl Level {
    /// From the weakest.
    pub const ALL: [Level; 6] = [
        Level::ReadUncommitted,
        Level::ReadCommittedLocks,
        Level::ReadCommittedVersions,
        Level::RepeatableRead,
        Level::Snapshot,
        Level::Serializable,
    ];

    /// As reports name it.
    pub const fn title(self) -> &'static str {
        match self {
            Level::ReadUncommitted => "READ UNCOMMITTED",
            Level::ReadCommittedLocks => "READ COMMITTED, locks",
            Level::ReadCommittedVersions => "READ COMMITTED, versions",
            Level::RepeatableRead => "REPEATABLE READ",
            Level::Snapshot => "SNAPSHOT",
            Level::Serializable => "SERIALIZABLE",
        }
    }

    /// As SET TRANSACTION ISOLATION LEVEL takes it.
    pub const fn option(self) -> &'static str {
        match self {
            Level::ReadUncommitted => "READ UNCOMMITTED",
            Level::ReadCommittedLocks | Level::ReadCommittedVersions => "READ COMMITTED",
            Level::RepeatableRead => "REPEATABLE READ",
            Level::Snapshot => "SNAPSHOT",
            Level::Serializable => "SERIALIZABLE",
        }
    }

    /// Does the level promise that this is never seen?
    pub fn excludes(self, anomaly: Anomaly) -> bool {
        NEVER.contains(&anomaly) || self.excluded().contains(&anomaly)
    }

    const fn excluded(self) -> &'static [Anomaly] {
        match self {
            Level::ReadUncommitted => &[],
            Level::ReadCommittedLocks => &[A::G1a, A::G1b, A::G1c],
            Level::ReadCommittedVersions => &[A::G1a, A::G1b, A::G1c, A::StatementSkew],
            // PL-2.99: everything but phantoms.
            Level::RepeatableRead => &[
                A::G1a,
                A::G1b,
                A::G1c,
                A::GSingleItem,
                A::G2Item,
                A::LostUpdate,
            ],
            Level::Snapshot => &[
                A::G1a,
                A::G1b,
                A::G1c,
                A::GSingleItem,
                A::GSingle,
                A::GNonadjacent,
                A::LostUpdate,
                A::StatementSkew,
            ],
            Level::Serializable => &Anomaly::ALL,
        }
    }

    /// What a run must find, or it has shown nothing: the level permits these and the work provokes them.
    pub const fn shows(self) -> &'static [Anomaly] {
        match self {
            Level::ReadUncommitted => &[A::G1a, A::G1b, A::GSingleItem, A::LostUpdate],
            Level::ReadCommittedLocks | Level::ReadCommittedVersions => {
                &[A::GSingleItem, A::LostUpdate]
            }
            Level::RepeatableRead => &[A::GSingle],
            Level::Snapshot => &[A::G2Item],
            Level::Serializable => &[],
        }
    }
}
