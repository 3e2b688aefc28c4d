//! Replicas by their numbers, for the tests of this room.

use super::replica::{ReplicaId, Replicas};

pub(super) fn replica(number: u8) -> ReplicaId {
    ReplicaId::new(number).expect("a replica")
}

pub(super) fn set(numbers: &[u8]) -> Replicas {
    numbers.iter().map(|n| replica(*n)).collect()
}
