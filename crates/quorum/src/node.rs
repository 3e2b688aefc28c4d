//! A node: follower, candidate or leader. Decisions and messages in, actions out.
//!
//! | role | event | action |
//! |---|---|---|
//! | any | a message with a higher ballot | follower |
//! | follower, candidate | [`Node::stand`] | a ballot of its own, its own vote, asks the others |
//! | candidate | a quorum of votes | leader: writes what it holds under its ballot |
//! | leader | its write has a quorum | settled: tells the others, may propose |
//! | leader, settled | [`Node::propose`] | writes a configuration built on the settled one |
//! | leader, own proposal | [`Node::propose`] | replaces it, on the same base |
//! | any | [`Node::adopt`] | holds the newer configuration, as a follower |
//! | any | [`Node::restart`] | follower with what is on disk |
//!
//! A leader writes again with [`Node::repeat`]: messages may be lost, and a witness may have been away.

use crate::configuration::{Ballot, Configuration, Version};
use crate::planted::{Bug, planted};
use crate::register::Register;
use crate::votes::{MemberId, Members};
use std::sync::Arc;

/// What members say to each other. A witness is asked with the same messages, by the node that reaches its record.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Message {
    /// A candidate asks for a vote and says how new its configuration is.
    RequestVote {
        /// What it stands for.
        ballot: Ballot,
        /// How new what it holds is.
        version: Version,
    },
    /// The answer, with the configuration of the member if it is newer (and whether it has settled).
    Vote {
        /// The ballot of the question.
        ballot: Ballot,
        /// Whether the candidate has the vote.
        granted: bool,
        /// A newer configuration, and whether it has settled.
        newer: Option<(Configuration, bool)>,
    },
    /// A leader writes.
    Put {
        /// What is written, under the leader's ballot.
        configuration: Configuration,
        /// Whether it has settled already.
        settled: bool,
    },
    /// The write is on disk.
    Stored {
        /// Of the write.
        version: Version,
    },
    /// The question came with a ballot below this one.
    Outdated {
        /// The highest that the member has seen.
        ballot: Ballot,
    },
}

/// What a node wants done, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// The register must be on disk before anything after it is done.
    Persist,
    /// To a member, or to the witness.
    Send(MemberId, Message),
    /// The configuration that the register holds has settled: it is what the cluster agreed on.
    Settled,
}

/// What a node does just now. None of it survives a restart.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// It answers and asks for nothing.
    Follower,
    /// It stands for leader.
    Candidate {
        /// Members that gave their vote.
        votes: Members,
    },
    /// It won the votes of its ballot and writes.
    Leader {
        /// Members that stored the present write.
        stored: Members,
        /// Whether the present write only repeats what was inherited.
        inherited: bool,
        /// Number of the next write under this ballot.
        next: u64,
    },
}

/// One node of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    me: MemberId,
    register: Register,
    role: Role,
}

impl Node {
    /// A node that starts with what it finds on disk.
    pub fn new(me: MemberId, register: Register) -> Node {
        Node {
            me,
            register,
            role: Role::Follower,
        }
    }

    /// This node's number.
    pub fn id(&self) -> MemberId {
        self.me
    }

    /// What is on disk, or must be before the next message leaves.
    pub fn register(&self) -> &Register {
        &self.register
    }

    /// What the node does just now.
    pub fn role(&self) -> &Role {
        &self.role
    }

    /// Whether this node leads and what it holds has settled, so that it may act for the cluster.
    pub fn leads(&self) -> bool {
        matches!(self.role, Role::Leader { .. }) && self.register.settled
    }

    /// Whether the node may stand for leader: it has a vote in what it holds.
    pub fn may_stand(&self) -> bool {
        self.voters().contains(self.me)
    }

    /// The process has ended and begun again.
    pub fn restart(&mut self) {
        self.role = Role::Follower;
    }

    /// Asks for the votes of a new ballot. Nothing happens if the node has no vote.
    pub fn stand(&mut self) -> Vec<Output> {
        if !self.may_stand() {
            return Vec::new();
        }
        let ballot = self.register.ballot.next();
        self.register.advance(ballot);
        self.register.voted_for = Some(self.me);
        self.role = Role::Candidate {
            votes: Members::NONE.with(self.me),
        };
        let mut outputs = vec![Output::Persist];
        let ask = Message::RequestVote {
            ballot,
            version: self.register.held.version,
        };
        self.send_to(self.voters(), &ask, &mut outputs);
        self.count_votes(&mut outputs);
        outputs
    }

    /// Proposes other votes or another body. `None`: this node may not propose now.
    pub fn propose(&mut self, votes: Members, body: Arc<[u8]>) -> Option<Vec<Output>> {
        let Role::Leader {
            inherited, next, ..
        } = self.role
        else {
            return None;
        };
        let held = &self.register.held;
        let own = !inherited || planted(Bug::ReplaceInherited);
        if !self.register.settled && !own && !planted(Bug::SkipRewrite) {
            return None;
        }
        assert!(
            !votes.is_empty(),
            "a configuration without votes could never be changed"
        );
        let version = Version {
            ballot: self.register.ballot,
            index: next,
        };
        let (base, old) = match self.register.settled || planted(Bug::SkipRewrite) {
            true => (held.origin, held.new),
            false => (held.base, held.old),
        };
        let proposal = Configuration {
            version,
            origin: version,
            base,
            old,
            new: votes,
            body,
        };
        Some(self.write(proposal, false, false))
    }

    /// Writes the present configuration again to members that have not stored it, or that may not know that it has settled.
    pub fn repeat(&self) -> Vec<Output> {
        let mut outputs = Vec::new();
        if matches!(self.role, Role::Leader { .. }) {
            self.put_to(self.audience(), &mut outputs);
        }
        outputs
    }

    /// Forces a quorum of this node alone, by order of an administrator who knows that the others are gone: a new generation beats
    /// whatever they hold. `generation` must be higher than any that this node has seen, and unique in the cluster. `body`: what holds from
    /// then on.
    pub fn force(&mut self, generation: u64, body: Arc<[u8]>) -> Vec<Output> {
        assert!(
            generation > self.register.ballot.generation,
            "generations only grow"
        );
        let ballot = Ballot {
            generation,
            term: self.register.ballot.term + 1,
        };
        self.register.advance(ballot);
        self.register.voted_for = Some(self.me);
        let held = &self.register.held;
        let version = Version { ballot, index: 0 };
        let alone = Members::NONE.with(self.me);
        let forced = Configuration {
            version,
            origin: version,
            base: held.origin,
            old: alone,
            new: alone,
            body,
        };
        self.write(forced, false, false)
    }

    /// Takes a configuration that another member or the witness holds, if it is newer. It counts for nothing that way, as nobody is told
    /// that it is stored here; but the node no longer asks for votes by something older.
    pub fn adopt(&mut self, configuration: &Configuration, settled: bool) -> Vec<Output> {
        let held = &self.register.held;
        let is_newer = configuration.version > held.version;
        let has_settled =
            configuration.version == held.version && settled && !self.register.settled;
        if !is_newer && !has_settled {
            return Vec::new();
        }
        if is_newer {
            self.role = Role::Follower;
        }
        self.register.store(configuration, settled);
        vec![Output::Persist]
    }

    /// Takes a message of another member or of the witness.
    pub fn receive(&mut self, from: MemberId, message: &Message) -> Vec<Output> {
        let before = self.register.clone();
        let mut outputs = Vec::new();
        match message {
            Message::RequestVote { .. } | Message::Put { .. } => {
                let answer = self.register.answer(from, message);
                self.step_down_if_passed(&before, message);
                outputs.extend(answer.map(|a| Output::Send(from, a)));
            }
            Message::Vote {
                ballot,
                granted,
                newer,
            } => {
                self.take_vote(from, *ballot, *granted, newer.as_ref(), &mut outputs);
            }
            Message::Stored { version } => self.take_stored(from, *version, &mut outputs),
            Message::Outdated { ballot } => self.take_ballot(*ballot),
        }
        if self.register != before && !outputs.contains(&Output::Persist) {
            outputs.insert(0, Output::Persist);
        }
        outputs
    }

    /// An asker with a higher ballot, or the leader of this ballot, ends what this node was.
    fn step_down_if_passed(&mut self, before: &Register, message: &Message) {
        let led = matches!(message, Message::Put { configuration, .. } if configuration.version.ballot == before.ballot);
        if self.register.ballot > before.ballot || led {
            self.role = Role::Follower;
        }
    }

    fn take_ballot(&mut self, ballot: Ballot) {
        if ballot > self.register.ballot {
            self.register.advance(ballot);
            self.role = Role::Follower;
        }
    }

    fn take_vote(
        &mut self,
        from: MemberId,
        ballot: Ballot,
        granted: bool,
        newer: Option<&(Configuration, bool)>,
        outputs: &mut Vec<Output>,
    ) {
        let Role::Candidate { votes } = &mut self.role else {
            return;
        };
        if ballot != self.register.ballot {
            return;
        }
        if let Some((configuration, settled)) = newer {
            // What the node holds decides who must vote for it: the candidacy ends, and the next begins with the newer one.
            if configuration.version > self.register.held.version {
                self.register.store(configuration, *settled);
                self.role = Role::Follower;
            }
            return;
        }
        if granted {
            *votes = votes.with(from);
            self.count_votes(outputs);
        }
    }

    fn count_votes(&mut self, outputs: &mut Vec<Output>) {
        let Role::Candidate { votes } = self.role else {
            return;
        };
        let by_new_only = self.register.settled || planted(Bug::ElectByNewOnly);
        if !self.register.held.has_quorum(votes, by_new_only) {
            return;
        }
        if planted(Bug::SkipRewrite) {
            self.role = Role::Leader {
                stored: Members::NONE.with(self.me),
                inherited: false,
                next: 0,
            };
            return;
        }
        self.role = Role::Leader {
            stored: Members::NONE,
            inherited: true,
            next: 0,
        };
        let held = self.register.held.clone();
        let rewrite = Configuration {
            version: Version {
                ballot: self.register.ballot,
                index: 0,
            },
            ..held
        };
        outputs.extend(self.write(rewrite, true, self.register.settled));
    }

    /// Writes a configuration here and asks the others to. `was_settled`: it is a rewrite of a settled one.
    fn write(
        &mut self,
        configuration: Configuration,
        inherited: bool,
        was_settled: bool,
    ) -> Vec<Output> {
        let next = configuration.version.index + 1;
        let configuration = match was_settled {
            // The old votes have done their part when it settled first.
            true => Configuration {
                old: configuration.new,
                ..configuration
            },
            false => configuration,
        };
        self.register.store(&configuration, false);
        self.register.settled = false;
        let mut outputs = vec![Output::Persist];
        self.role = Role::Leader {
            stored: Members::NONE.with(self.me),
            inherited,
            next,
        };
        self.put_to(self.audience(), &mut outputs);
        self.settle(&mut outputs);
        outputs
    }

    fn take_stored(&mut self, from: MemberId, version: Version, outputs: &mut Vec<Output>) {
        let held = self.register.held.version;
        let Role::Leader { stored, .. } = &mut self.role else {
            return;
        };
        if version == held && !self.register.settled {
            *stored = stored.with(from);
            self.settle(outputs);
        }
    }

    /// Settles the present write when enough members have it. Only the leader of its ballot says so.
    fn settle(&mut self, outputs: &mut Vec<Output>) {
        let Role::Leader { stored, .. } = self.role else {
            return;
        };
        let without_old = planted(Bug::SettleWithoutOld);
        if self.register.settled || !self.register.held.has_quorum(stored, without_old) {
            return;
        }
        assert_eq!(
            self.register.held.version.ballot, self.register.ballot,
            "a leader settles its own writes"
        );
        self.register.settled = true;
        outputs.push(Output::Persist);
        outputs.push(Output::Settled);
        self.put_to(self.audience(), outputs);
    }

    fn put_to(&self, members: Members, outputs: &mut Vec<Output>) {
        let put = Message::Put {
            configuration: self.register.held.clone(),
            settled: self.register.settled,
        };
        self.send_to(members, &put, outputs);
    }

    fn send_to(&self, members: Members, message: &Message, outputs: &mut Vec<Output>) {
        outputs.extend(
            members
                .without(self.me)
                .iter()
                .map(|to| Output::Send(to, message.clone())),
        );
    }

    /// Members that vote on what this node holds.
    fn voters(&self) -> Members {
        self.register.held.voters(self.register.settled)
    }

    /// Members that are told of a write: all that had a vote before or have one after it.
    fn audience(&self) -> Members {
        self.register.held.old.union(self.register.held.new)
    }
}
