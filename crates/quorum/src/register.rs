//! The acceptor: what one member, node or witness, has on disk, and how it answers.

use crate::configuration::{Ballot, Configuration, Version};
use crate::node::Message;
use crate::planted::{Bug, planted};
use crate::votes::MemberId;

/// What a member keeps on disk, always written whole: a ballot without its vote, or a vote without its configuration, would lie
/// after a crash.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Register {
    /// The highest ballot seen.
    pub ballot: Ballot,
    /// The candidate that got this member's vote for `ballot`.
    pub voted_for: Option<MemberId>,
    /// The newest configuration stored.
    pub held: Configuration,
    /// Whether `held` is known to have settled.
    pub settled: bool,
}

impl Register {
    /// The register of a member that was told of `held`, which has settled.
    pub fn new(held: Configuration) -> Register {
        Register {
            ballot: held.version.ballot,
            voted_for: None,
            held,
            settled: true,
        }
    }

    /// Answers a message that asks an acceptor. What changed here must be on disk before the answer leaves.
    /// `None`: the message is no question, or too old to deserve an answer.
    pub fn answer(&mut self, from: MemberId, message: &Message) -> Option<Message> {
        match message {
            Message::RequestVote { ballot, version } => Some(self.vote(from, *ballot, *version)),
            Message::Put {
                configuration,
                settled,
            } => self.put(configuration, *settled),
            Message::Vote { .. } | Message::Stored { .. } | Message::Outdated { .. } => None,
        }
    }

    fn vote(&mut self, candidate: MemberId, ballot: Ballot, version: Version) -> Message {
        if ballot < self.ballot {
            return Message::Outdated {
                ballot: self.ballot,
            };
        }
        self.advance(ballot);
        let free = self.voted_for.is_none_or(|c| c == candidate) || planted(Bug::VoteTwice);
        let granted = free && (version >= self.held.version || planted(Bug::VoteForOlder));
        if granted {
            self.voted_for = Some(candidate);
        }
        // The candidate may take what is newer than its own, and stand again with it.
        let newer =
            (!granted && version < self.held.version).then(|| (self.held.clone(), self.settled));
        Message::Vote {
            ballot,
            granted,
            newer,
        }
    }

    fn put(&mut self, configuration: &Configuration, settled: bool) -> Option<Message> {
        let version = configuration.version;
        if version.ballot < self.ballot {
            return Some(Message::Outdated {
                ballot: self.ballot,
            });
        }
        if version < self.held.version {
            return None;
        }
        self.store(configuration, settled);
        Some(Message::Stored { version })
    }

    /// Stores a configuration that is at least as new as the one held.
    pub(crate) fn store(&mut self, configuration: &Configuration, settled: bool) {
        assert!(
            configuration.version >= self.held.version,
            "a register never goes back"
        );
        self.advance(configuration.version.ballot);
        self.settled = settled || (self.settled && configuration.version == self.held.version);
        self.held = configuration.clone();
    }

    /// Takes note of a ballot: a higher one makes the vote free.
    pub(crate) fn advance(&mut self, ballot: Ballot) {
        if ballot > self.ballot {
            self.ballot = ballot;
            self.voted_for = None;
        }
    }
}
