//! Deliberate bugs: the simulation is only worth what it catches, so each of these must make it fail.
//!
//! Without the feature `planted-bugs`, [`planted`] is the constant `false` and nothing of this is in the program.

/// A bug to plant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A commit is acknowledged without syncing the log.
    SkipSync,
    /// Redo applies a record to a page that has it already.
    ApplyTwice,
    /// A page is written before the log that describes it.
    PageBeforeLog,
    /// A page whose checksum is wrong is taken as it is.
    IgnoreChecksum,
    /// Pages are written in place without the doublewrite area.
    SkipDoublewrite,
    /// A compensation record does not say where undo goes on: a crash in a rollback takes back twice.
    ForgetUndoPosition,
    /// The checkpoint says that redo begins later than the oldest dirty page needs.
    LateRedoStart,
    /// Log that an open transaction needs for its rollback is reused.
    ReuseLogEarly,
    /// Recovery forgets space that a committed transaction dropped.
    ForgetPendingFree,
    /// A snapshot sees what was committed after it was taken.
    SeeTheFuture,
    /// The version store drops versions that a snapshot still needs.
    DropVersionsEarly,
    /// A transaction without a commit record is not rolled back; in the accelerated mode not marked as aborted either.
    ForgetLoser,
    /// Entries that a transaction deleted count as dead while recovery has still to roll it back. Nothing keeps room either, or nobody
    /// would ever bury them.
    BuryForLosers,
    /// Accelerated: an aborted transaction is forgotten while its changes are still in the trees.
    ForgetAborted,
    /// Accelerated: the versions of an aborted transaction are dropped before it is reverted.
    DropAbortedVersions,
    /// A database whose log has failed goes on answering.
    AnswerFenced,
    /// Accelerated: a page is written before the record is hard that made versions it depended on needless.
    ReleaseUnhard,
    /// Accelerated: a page gets new content and no longer waits for versions that only its old content can bring back.
    ForgetWaits,
    /// Accelerated: versions get pages, and the log does not have them.
    PlaceUnlogged,
    /// Accelerated: replay lets go of the versions of a transaction that was marked as aborted and not reverted yet.
    LetGoAtAbort,
    /// What could not be rolled back counts as rolled back.
    PassUnresolved,
    /// Space that a committed transaction dropped is freed while snapshots may read it.
    FreeUnsettled,
    /// A snapshot reads trees that were made after it.
    ReadYounger,
    /// A copy begins although pages that changed before it are in memory only.
    CopyUnwritten,
    /// Accelerated: version pages look older than the record that allocated them.
    PlaceOld,
    /// A transaction over several databases commits in each in turn, unprepared.
    CommitInTurn,
    /// What one database says that is open, all say that have its guid.
    BelieveCopies,
    /// A copy of the coordinator is asked although the coordinator is there.
    AskCopies,
    /// A copy of a log takes a block that does not begin where the last one ended.
    AcceptGap,
    /// A commit is acknowledged when it is on disk here, and not yet on every participant.
    AckBeforeQuorum,
    /// What others append while the log is being written counts as hard with what is written. No simulation in one thread can see it.
    HardenAppended,
    /// A page is written when its log is on disk here, and not yet on every participant.
    FlushAboveQuorum,
    /// A log that is full goes on in its last virtual log file over what a crash left there.
    ResumeUnzeroed,
    /// Work takes the room that ends of transactions and checkpoints need.
    LeaveNoRoom,
    /// Others take the bytes of a leaf that a running transaction may have to take back.
    TakeKeptRoom,
    /// Of a log's virtual log files only the first few are read.
    ReadFewVlfs,
}

#[cfg(feature = "planted-bugs")]
impl Bug {
    /// Every bug that can be planted.
    pub const ALL: [Bug; 27] = [
        Bug::SkipSync,
        Bug::ApplyTwice,
        Bug::PageBeforeLog,
        Bug::IgnoreChecksum,
        Bug::SkipDoublewrite,
        Bug::ForgetUndoPosition,
        Bug::LateRedoStart,
        Bug::ReuseLogEarly,
        Bug::ForgetPendingFree,
        Bug::SeeTheFuture,
        Bug::DropVersionsEarly,
        Bug::ForgetLoser,
        Bug::BuryForLosers,
        Bug::ForgetAborted,
        Bug::DropAbortedVersions,
        Bug::AnswerFenced,
        Bug::ReleaseUnhard,
        Bug::ForgetWaits,
        Bug::PlaceUnlogged,
        Bug::LetGoAtAbort,
        Bug::PassUnresolved,
        Bug::FreeUnsettled,
        Bug::ReadYounger,
        Bug::CopyUnwritten,
        Bug::PlaceOld,
        Bug::TakeKeptRoom,
        Bug::ReadFewVlfs,
    ];

    /// Can it do harm under classic recovery?
    pub fn is_classic(self) -> bool {
        !matches!(
            self,
            Bug::ForgetAborted
                | Bug::DropAbortedVersions
                | Bug::ReleaseUnhard
                | Bug::ForgetWaits
                | Bug::PlaceUnlogged
                | Bug::LetGoAtAbort
                | Bug::PlaceOld
        )
    }

    /// Can it do harm under accelerated recovery? Rollback there reads no log, and space is kept by other means.
    pub fn is_accelerated(self) -> bool {
        !matches!(
            self,
            Bug::ForgetUndoPosition | Bug::ReuseLogEarly | Bug::BuryForLosers
        )
    }
}

#[cfg(feature = "planted-bugs")]
mod switch {
    use super::Bug;
    use std::cell::Cell;

    thread_local! {
        static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
    }

    /// Plants a bug for the calling thread, or takes it out again.
    pub fn plant(bug: Option<Bug>) {
        PLANTED.set(bug);
    }

    /// Is this the bug that was planted?
    pub fn planted(bug: Bug) -> bool {
        PLANTED.get() == Some(bug)
    }
}

#[cfg(feature = "planted-bugs")]
pub use switch::{plant, planted};

/// No bug is planted in an ordinary build, and the optimizer knows it.
#[cfg(not(feature = "planted-bugs"))]
#[inline(always)]
pub const fn planted(_: Bug) -> bool {
    false
}
