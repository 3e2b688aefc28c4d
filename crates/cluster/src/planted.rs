//! Deliberate bugs: the simulation is only worth what it catches, so each of these must make it fail.
//!
//! Without the feature `planted-bugs`, [`planted`] is the constant `false` and nothing of this is in the program.

/// A bug to plant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// An owner believes its lease for longer than a new leader waits.
    LeaseLongerThanFence,
    /// A new leader names another owner at once.
    NewLeaderDoesNotWait,
    /// A leader that moves a group does not wait for the lease that it gave.
    MoveWithoutWait,
    /// A lease counts from its answer instead of its question.
    LeaseFromReply,
    /// A leader answers for a lease without asking a quorum.
    ConfirmWithoutRound,
    /// A proposal leaves rounds in flight, which then count by old votes.
    RoundsOutliveProposals,
    /// An owner that was restarted goes on in the epoch of its past life.
    RestartKeepsEpoch,
    /// A witness that went back is believed.
    OldWitnessAccepted,
    /// A witness is replaced by another while it has a vote.
    WitnessReplacedInOffice,
    /// A write of the witness' record replaces what came in between.
    WitnessBlindWrite,
    /// A write on a disk witness stands whatever others have written meanwhile.
    DiskBlindWrite,
    /// A record that another node has proposed on a disk witness is passed over.
    DiskForgetsProposals,
    /// A write of a cloud witness replaces what came in between.
    CloudBlindWrite,
    /// A leader that hears of no quorum leads on, and keeps the others from electing.
    LeadsWithoutQuorum,
    /// A node is told that it has left for good before those who stay have agreed.
    LeftBeforeAgreed,
    /// A node that left for good gives its certificate up while it still has its register.
    ForgetCertificateFirst,
    /// A forced quorum believes what its node knew of the groups' owners.
    ForcedKeepsOwners,
}

#[cfg(feature = "planted-bugs")]
mod switch {
    use super::Bug;
    use std::cell::Cell;

    thread_local! {
        static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
    }

    /// Plants a bug in what this thread runs from here on, or none.
    pub fn plant(bug: Option<Bug>) {
        PLANTED.set(bug);
    }

    /// Whether `bug` is planted.
    pub fn planted(bug: Bug) -> bool {
        PLANTED.get() == Some(bug)
    }
}

#[cfg(feature = "planted-bugs")]
pub use switch::{plant, planted};

/// Whether `bug` is planted: never, in a program without the feature.
#[cfg(not(feature = "planted-bugs"))]
pub(crate) const fn planted(_bug: Bug) -> bool {
    false
}
