//! Members of a cluster as a set of bits, and what a majority of votes is.

use std::fmt;

/// Nodes that a cluster can have. Availability groups stop at nine replicas; the rest is room for nodes without one.
pub const MEMBERS_MAX: u8 = 15;

/// The witness: it votes and stores, and has no process of its own.
pub const WITNESS: MemberId = MemberId(MEMBERS_MAX);

/// A node's number, from 0 to [`MEMBERS_MAX`] - 1, or [`WITNESS`]. A number is never given to another node: a node whose disk was wiped
/// joins under a new one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberId(u8);

impl MemberId {
    /// The node with this number; `None` from [`MEMBERS_MAX`] on.
    pub fn node(number: u8) -> Option<MemberId> {
        (number < MEMBERS_MAX).then_some(MemberId(number))
    }

    /// The member with this number: a node, or the witness at [`MEMBERS_MAX`].
    pub fn from_number(number: u8) -> Option<MemberId> {
        (number <= MEMBERS_MAX).then_some(MemberId(number))
    }

    /// The number of a node; [`MEMBERS_MAX`] for the witness.
    pub fn number(self) -> u8 {
        self.0
    }
}

impl fmt::Debug for MemberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            WITNESS => f.write_str("W"),
            MemberId(n) => write!(f, "{n}"),
        }
    }
}

/// A set of members.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Members(u16);

impl Members {
    /// Nobody.
    pub const NONE: Members = Members(0);

    /// The set of the witness alone.
    pub const WITNESS: Members = Members(1 << MEMBERS_MAX);

    /// Nodes 0 to `count` - 1. Panics above [`MEMBERS_MAX`].
    pub fn nodes(count: u8) -> Members {
        assert!(count <= MEMBERS_MAX, "{count} nodes");
        Members(((1u32 << count) - 1) as u16)
    }

    /// The set as bits, a member's number being its place.
    pub fn bits(self) -> u16 {
        self.0
    }

    /// The set of these bits.
    pub fn from_bits(bits: u16) -> Members {
        Members(bits)
    }

    /// Whether `member` is one of them.
    pub fn contains(self, member: MemberId) -> bool {
        self.0 & (1 << member.0) != 0
    }

    /// The set with `member`.
    #[must_use]
    pub fn with(self, member: MemberId) -> Members {
        Members(self.0 | 1 << member.0)
    }

    /// The set without `member`.
    #[must_use]
    pub fn without(self, member: MemberId) -> Members {
        Members(self.0 & !(1 << member.0))
    }

    /// Members of either.
    #[must_use]
    pub fn union(self, other: Members) -> Members {
        Members(self.0 | other.0)
    }

    /// Members of both.
    #[must_use]
    pub fn intersection(self, other: Members) -> Members {
        Members(self.0 & other.0)
    }

    /// Members that `other` does not have.
    #[must_use]
    pub fn difference(self, other: Members) -> Members {
        Members(self.0 & !other.0)
    }

    /// The set without the witness.
    #[must_use]
    pub fn only_nodes(self) -> Members {
        self.difference(Members::WITNESS)
    }

    /// Whether it is nobody.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// How many they are, the witness counted.
    pub fn count(self) -> u32 {
        self.0.count_ones()
    }

    /// Whether these members have more than half of `votes`. Of no votes nobody has a majority.
    pub fn is_majority_of(self, votes: Members) -> bool {
        2 * self.intersection(votes).count() > votes.count()
    }

    /// The members in the order of their numbers, the witness last.
    pub fn iter(self) -> impl DoubleEndedIterator<Item = MemberId> {
        (0..=MEMBERS_MAX)
            .map(MemberId)
            .filter(move |m| self.contains(*m))
    }
}

impl FromIterator<MemberId> for Members {
    fn from_iter<I: IntoIterator<Item = MemberId>>(members: I) -> Members {
        members.into_iter().fold(Members::NONE, Members::with)
    }
}

impl fmt::Debug for Members {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_half_is_a_majority() {
        let three = Members::nodes(3);
        assert!(Members::nodes(2).is_majority_of(three));
        assert!(!Members::nodes(1).is_majority_of(three));
        assert!(!Members::nodes(1).is_majority_of(Members::nodes(2)));
        assert!(!three.is_majority_of(Members::NONE));
    }

    #[test]
    fn members_outside_the_votes_do_not_count() {
        let votes = Members::nodes(1).union(Members::WITNESS);
        assert!(!Members::nodes(5).is_majority_of(votes));
        assert!(votes.is_majority_of(votes));
    }

    #[test]
    fn numbers_end_before_the_witness() {
        assert_eq!(MemberId::node(MEMBERS_MAX), None);
        assert_eq!(Members::nodes(MEMBERS_MAX).with(WITNESS).count(), 16);
    }
}
