//! The judge's record: which epoch is the present one, who leads it and who may be promoted without loss.
//!
//! Theory: the record changes by comparing and swapping alone. Its holder (the primary itself where the group has no cluster,
//! a quorum service, an external manager) runs [`Record::answer`] and makes the record durable before the reply leaves. A reply
//! repeats its request, so that a late one cannot be taken for the answer to another.

use super::epoch::EpochId;
use super::replica::{ReplicaId, Replicas};

/// What the judge knows of one database of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Record {
    /// The present epoch.
    pub epoch: EpochId,
    /// Who leads it.
    pub primary: ReplicaId,
    /// `S`: who may be promoted without loss, the primary among them.
    pub members: Replicas,
    /// Raised with every change: the `sequence_number` that an external manager compares.
    pub sequence: u64,
}

/// A change that somebody asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Request {
    /// The primary of `epoch` changes `S`.
    Change {
        /// The epoch it leads.
        epoch: EpochId,
        /// The sequence that it knows.
        sequence: u64,
        /// `S` from now on.
        members: Replicas,
    },
    /// A member of `S` takes over, or the primary itself begins anew.
    Promote {
        /// The epoch that it followed or led.
        from: EpochId,
        /// The epoch that it will lead.
        to: EpochId,
        /// Who.
        replica: ReplicaId,
    },
    /// An administrator makes a replica primary that may lack acknowledged commits.
    Force {
        /// The epoch that it will lead.
        to: EpochId,
        /// Who.
        replica: ReplicaId,
    },
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The record is as asked.
    Granted,
    /// The record had changed, or the asker may not ask for this.
    Refused,
}

/// The judge's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reply {
    /// What was asked.
    pub request: Request,
    /// What became of it.
    pub verdict: Verdict,
    /// The record afterwards.
    pub record: Record,
}

impl Record {
    /// The record of a database that one replica leads and nobody else holds yet.
    pub fn first(epoch: EpochId, primary: ReplicaId) -> Record {
        Record {
            epoch,
            primary,
            members: Replicas::NONE.with(primary),
            sequence: 1,
        }
    }

    /// Compares and swaps. A request that was carried out before is granted again: its first reply may have been lost.
    pub fn answer(&mut self, request: Request) -> Reply {
        let verdict = match self.after(request) {
            Some(record) => {
                *self = record;
                Verdict::Granted
            }
            None => Verdict::Refused,
        };
        Reply {
            request,
            verdict,
            record: *self,
        }
    }

    fn after(&self, request: Request) -> Option<Record> {
        match request {
            Request::Change {
                epoch,
                sequence,
                members,
            } => self.changed(epoch, sequence, members),
            Request::Promote { from, to, replica } => self.promoted(from, to, replica),
            Request::Force { to, replica } => self.forced(to, replica),
        }
    }

    fn changed(&self, epoch: EpochId, sequence: u64, members: Replicas) -> Option<Record> {
        if epoch != self.epoch || !members.contains(self.primary) {
            return None;
        }
        if sequence.checked_add(1) == Some(self.sequence) && members == self.members {
            return Some(*self);
        }
        (sequence == self.sequence).then(|| Record {
            members,
            ..self.next()
        })
    }

    fn promoted(&self, from: EpochId, to: EpochId, replica: ReplicaId) -> Option<Record> {
        if self.is_led(to, replica) {
            return Some(*self);
        }
        if from != self.epoch || to.number <= from.number || !self.members.contains(replica) {
            return None;
        }
        let members = match replica == self.primary {
            true => self.members,
            false => self.members.without(self.primary),
        };
        Some(Record {
            epoch: to,
            primary: replica,
            members,
            ..self.next()
        })
    }

    fn forced(&self, to: EpochId, replica: ReplicaId) -> Option<Record> {
        if self.is_led(to, replica) {
            return Some(*self);
        }
        (to.number > self.epoch.number).then(|| Record {
            epoch: to,
            primary: replica,
            members: Replicas::NONE.with(replica),
            ..self.next()
        })
    }

    fn is_led(&self, epoch: EpochId, by: ReplicaId) -> bool {
        self.epoch == epoch && self.primary == by
    }

    fn next(&self) -> Record {
        Record {
            sequence: self.sequence + 1,
            ..*self
        }
    }
}
