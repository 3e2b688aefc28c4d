//! Deliberate bugs: the searches are only worth what they catch, so each of these must make one fail.
//!
//! Without the feature `planted-bugs`, [`planted`] is the constant `false` and nothing of this is in the program.

/// A bug to plant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A participant that leaves is no longer waited for while the judge still lists it.
    LeaveWaitedFirst,
    /// The judge is asked to list a participant that has not acknowledged everything.
    ListTooEarly,
    /// A secondary acknowledges what it has received and not synced.
    AcknowledgeUnsynced,
    /// A secondary takes blocks of an epoch older than its promise.
    FollowOlder,
    /// A primary counts acknowledgements of another epoch.
    CountOtherEpoch,
    /// A primary that begins anew opens before the others have its epoch.
    OpenAlone,
    /// Epochs are compared by their numbers.
    CompareNumbers,
    /// A secondary keeps its tail when a new epoch begins below it.
    KeepTail,
    /// A primary whose change the judge refused goes on.
    GoOnWhenRefused,
    /// A primary that asked the judge forgets the question when a new one comes up.
    ForgetTheQuestion,
    /// The primary's own unsynced log counts.
    RaiseUnsynced,
    /// A promoted node waits for nobody.
    PromotedWaitsForNobody,
    /// Whoever answers pings is no longer watched for progress.
    NoProgressClock,
    /// A primary whose lease has run out goes on.
    LeaseForgotten,
    /// An owner acknowledges before its first word, while the cluster lists others.
    ActBeforeWord,
    /// A record lists fewer before the cluster has let them go.
    ShrinkUnasked,
    /// A word counts that one voter less than needed has.
    WordOfTooFew,
    /// A replica leads to whom one voter less than needed has promised.
    PromiseOfTooFew,
    /// A voter keeps a word of an epoch older than its promise.
    KeepOlder,
    /// A replica acts on a list that it read, and that may not count.
    BelieveWhatWasRead,
    /// Who writes much goes on waiting for a replica that commits wait for no more.
    HoldBackForTheLost,
}

#[cfg(feature = "planted-bugs")]
impl Bug {
    /// Every bug there is.
    pub const ALL: [Bug; 21] = [
        Bug::LeaveWaitedFirst,
        Bug::ListTooEarly,
        Bug::AcknowledgeUnsynced,
        Bug::FollowOlder,
        Bug::CountOtherEpoch,
        Bug::OpenAlone,
        Bug::CompareNumbers,
        Bug::KeepTail,
        Bug::GoOnWhenRefused,
        Bug::ForgetTheQuestion,
        Bug::RaiseUnsynced,
        Bug::PromotedWaitsForNobody,
        Bug::NoProgressClock,
        Bug::LeaseForgotten,
        Bug::ActBeforeWord,
        Bug::ShrinkUnasked,
        Bug::WordOfTooFew,
        Bug::PromiseOfTooFew,
        Bug::KeepOlder,
        Bug::BelieveWhatWasRead,
        Bug::HoldBackForTheLost,
    ];
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
pub const fn planted(_bug: Bug) -> bool {
    false
}
