//! The value of the register: who votes, and what the cluster agreed on.

use crate::votes::Members;
use std::sync::Arc;

/// The right to write: only one node at a time wins the votes for a ballot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Ballot {
    /// Raised by a forced quorum only: whatever an administrator forced beats everything from before.
    pub generation: u64,
    /// Raised by each candidacy.
    pub term: u64,
}

impl Ballot {
    /// The ballot of the next candidacy. A term cannot run out: at one a microsecond it would take 500,000 years.
    #[must_use]
    pub fn next(self) -> Ballot {
        Ballot {
            term: self.term + 1,
            ..self
        }
    }
}

/// When a configuration was written: newer is greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Version {
    pub ballot: Ballot,
    /// Counts the writes under one ballot.
    pub index: u64,
}

/// One value of the register.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Configuration {
    /// The write that carried it last. A leader that inherits a configuration writes it again under its own ballot.
    pub version: Version,
    /// The write that proposed it: its identity, the same in every rewrite.
    pub origin: Version,
    /// The origin of the settled configuration it builds on.
    pub base: Version,
    /// The votes of the base.
    pub old: Members,
    /// The votes from this configuration on.
    pub new: Members,
    /// Everything else that the cluster agreed on: nodes, weights, groups. Bytes, so that this room knows nothing of it.
    pub body: Arc<[u8]>,
}

impl Configuration {
    /// The configuration of a cluster that is created with these votes: settled where it is made, since nobody else knows of it.
    pub fn first(votes: Members, body: Arc<[u8]>) -> Configuration {
        let version = Version {
            ballot: Ballot {
                generation: 0,
                term: 1,
            },
            index: 0,
        };
        Configuration {
            version,
            origin: version,
            base: Version::default(),
            old: votes,
            new: votes,
            body,
        }
    }

    /// Whether `members` are enough to write it or to be elected with it.
    pub fn has_quorum(&self, members: Members, settled: bool) -> bool {
        members.is_majority_of(self.new) && (settled || members.is_majority_of(self.old))
    }

    /// Members that vote on it.
    pub fn voters(&self, settled: bool) -> Members {
        match settled {
            true => self.new,
            false => self.old.union(self.new),
        }
    }
}
