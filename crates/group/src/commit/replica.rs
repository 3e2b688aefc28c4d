//! Replicas of a group and sets of them.

/// A group has at most this many replicas, as the product's groups.
pub const REPLICAS_MAX: u8 = 9;

/// Number of a replica within its group; it is never given to another server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReplicaId(u8);

impl ReplicaId {
    /// The replica of this number. `None`: a group has no such place.
    pub const fn new(number: u8) -> Option<ReplicaId> {
        if number < REPLICAS_MAX {
            Some(ReplicaId(number))
        } else {
            None
        }
    }

    /// The number.
    pub const fn number(self) -> u8 {
        self.0
    }
}

/// A set of replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Replicas(u16);

impl Replicas {
    /// Nobody.
    pub const NONE: Replicas = Replicas(0);

    /// The set that [`Replicas::bits`] packed; bits that stand for no replica are refused.
    pub const fn from_bits(bits: u16) -> Option<Replicas> {
        if bits >> REPLICAS_MAX == 0 {
            Some(Replicas(bits))
        } else {
            None
        }
    }

    /// One bit for each member.
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// With this member.
    #[must_use]
    pub const fn with(self, replica: ReplicaId) -> Replicas {
        Replicas(self.0 | 1 << replica.0)
    }

    /// Without this member.
    #[must_use]
    pub const fn without(self, replica: ReplicaId) -> Replicas {
        Replicas(self.0 & !(1 << replica.0))
    }

    /// Members of either.
    #[must_use]
    pub const fn union(self, other: Replicas) -> Replicas {
        Replicas(self.0 | other.0)
    }

    /// Members of both.
    #[must_use]
    pub const fn intersection(self, other: Replicas) -> Replicas {
        Replicas(self.0 & other.0)
    }

    /// Is it a member?
    pub const fn contains(self, replica: ReplicaId) -> bool {
        self.0 & 1 << replica.0 != 0
    }

    /// Is every member one of `other`?
    pub const fn is_subset_of(self, other: Replicas) -> bool {
        self.0 & !other.0 == 0
    }

    /// How many.
    pub const fn count(self) -> u32 {
        self.0.count_ones()
    }

    /// Members by number.
    pub fn iter(self) -> impl Iterator<Item = ReplicaId> {
        (0..REPLICAS_MAX)
            .map(ReplicaId)
            .filter(move |r| self.contains(*r))
    }
}

impl FromIterator<ReplicaId> for Replicas {
    fn from_iter<I: IntoIterator<Item = ReplicaId>>(replicas: I) -> Replicas {
        replicas.into_iter().fold(Replicas::NONE, Replicas::with)
    }
}
