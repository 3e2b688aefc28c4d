//! Deliberate bugs: the searches are only worth what they catch, so each of these must make one fail.
//!
//! Without the feature `planted-bugs`, [`planted`] is the constant `false` and nothing of this is in the program.

/// A bug to plant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A change of votes settles without a majority of the old votes.
    SettleWithoutOld,
    /// A vote is given to a candidate whose configuration is older.
    VoteForOlder,
    /// A candidate that holds an unsettled configuration counts its new votes only.
    ElectByNewOnly,
    /// A new leader proposes at once and does not write what it inherited.
    SkipRewrite,
    /// A leader replaces a proposal that it inherited.
    ReplaceInherited,
    /// A second candidate gets the vote of the same ballot.
    VoteTwice,
    /// The policy gives votes to members that are absent.
    VotesForTheAbsent,
}

#[cfg(feature = "planted-bugs")]
impl Bug {
    /// Every bug there is.
    pub const ALL: [Bug; 7] = [
        Bug::SettleWithoutOld,
        Bug::VoteForOlder,
        Bug::ElectByNewOnly,
        Bug::SkipRewrite,
        Bug::ReplaceInherited,
        Bug::VoteTwice,
        Bug::VotesForTheAbsent,
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
