//! Without a leader: asking around first, standing then.

use super::Machine;
use crate::packet::Packet;
use daruma_quorum::{Ballot, Configuration, MemberId, Members, Version, WITNESS};
use std::time::Duration;

/// What a node without the lead knows.
pub(super) struct Follow {
    pub leader: Option<MemberId>,
    /// When a leader was heard of last.
    heard: Duration,
    /// A candidacy begins so much after S.
    pub wait: Duration,
    next_try: Duration,
    pre: Option<PreVotes>,
}

/// A candidacy that is only asked about.
struct PreVotes {
    ballot: Ballot,
    votes: Members,
    /// What leaders had counted at the witness, and when that was read.
    alive: Option<(u64, Duration)>,
}

impl Follow {
    pub(super) fn new(now: Duration) -> Follow {
        Follow {
            leader: None,
            heard: now,
            wait: Duration::ZERO,
            next_try: now,
            pre: None,
        }
    }
}

impl Machine {
    pub(super) fn is_quiet(&self, for_so_long: Duration) -> bool {
        self.follow.heard + for_so_long <= self.now
    }

    /// Is there a leader, as far as this node was told of late?
    pub(super) fn hears_leader(&self) -> bool {
        self.follow.leader.is_some() && !self.is_quiet(self.timing.suspicion)
    }

    /// When this node asks around, if it hears of no leader until then.
    pub(super) fn next_candidacy(&self) -> Duration {
        self.follow.heard + self.timing.suspicion
    }

    pub(super) fn hear_leader(&mut self, leader: MemberId) {
        if self.follow.leader != Some(leader) {
            // Who led before may have lost them.
            self.wishes.values_mut().for_each(|w| w.2 = false);
        }
        self.follow.leader = Some(leader);
        self.follow.heard = self.now;
        self.follow.pre = None;
        self.pass_on_wishes();
    }

    /// This node led until now, or would not go on: it waits like any other.
    pub(super) fn wait_for_leader(&mut self) {
        let wait = self.chance(self.timing.suspicion / 2);
        self.follow = Follow::new(self.now);
        self.follow.wait = wait;
    }

    pub(super) fn look_for_leader(&mut self) {
        if !self.is_quiet(self.timing.suspicion + self.follow.wait)
            || self.now < self.follow.next_try
        {
            return;
        }
        self.follow.leader = None;
        let spread = self.chance(self.timing.suspicion / 2);
        self.follow.next_try = self.now + self.timing.suspicion * 3 / 4 + spread;
        if self.leaving {
            return;
        }
        let register = self.node.register();
        let (ballot, version) = (register.ballot.next(), register.held.version);
        let alive = self.follow.pre.take().and_then(|p| p.alive);
        self.follow.pre = Some(PreVotes {
            ballot,
            votes: Members::NONE.with(self.me()),
            alive,
        });
        self.send_all(&Packet::PreVote { ballot, version });
        self.watch.look();
        self.count_pre_votes();
    }

    /// Would this node vote for that one?
    pub(super) fn pre_vote(&mut self, from: MemberId, ballot: Ballot, version: Version) {
        let register = self.node.register();
        let no_leader = self.lead.is_none() && self.is_quiet(self.timing.suspicion);
        let granted = no_leader && version >= register.held.version && ballot > register.ballot;
        let newer =
            (version < register.held.version).then(|| (register.held.clone(), register.settled));
        let reply = Packet::PreVoted {
            asked: ballot,
            ballot: register.ballot,
            granted,
            newer,
        };
        self.send(from, reply);
    }

    pub(super) fn take_pre_vote(
        &mut self,
        from: MemberId,
        asked: Ballot,
        ballot: Ballot,
        granted: bool,
        newer: Option<(Configuration, bool)>,
    ) {
        if self.lead.is_some() {
            return;
        }
        if let Some(newer) = newer {
            self.adopt(&newer);
            self.try_again_soon();
            return;
        }
        if ballot >= asked {
            self.hear_ballot(ballot);
            self.try_again_soon();
            return;
        }
        if let Some(pre) = self.follow.pre.as_mut().filter(|p| p.ballot == asked)
            && granted
        {
            pre.votes = pre.votes.with(from);
            self.count_pre_votes();
        }
    }

    /// What the witness says to a candidate, as far as it can: its record promises nothing to anybody later, and no leader has counted
    /// on there meanwhile.
    pub(super) fn take_witness_pre_vote(
        &mut self,
        asked: Duration,
        ballot: Ballot,
        version: Version,
        alive: u64,
    ) {
        let held = self.node.register().held.version;
        // A leader counts on as often as the witness answers it, which takes it as long.
        let patience = self.timing.suspicion / 2 + self.now.saturating_sub(asked);
        let now = self.now;
        let Some(pre) = self.follow.pre.as_mut() else {
            return;
        };
        let (first, at) = *pre.alive.get_or_insert((alive, now));
        if first != alive {
            // Somebody leads and reaches the witness; this node is the one that is cut off.
            self.follow.pre = None;
            self.follow.heard = now;
            return;
        }
        if ballot >= pre.ballot {
            self.hear_ballot(ballot);
            self.try_again_soon();
            return;
        }
        if now < at + patience {
            self.watch.look_at(at + patience);
            return;
        }
        if version <= held {
            pre.votes = pre.votes.with(WITNESS);
            self.count_pre_votes();
        }
    }

    fn try_again_soon(&mut self) {
        let spread = self.chance(self.timing.suspicion / 4);
        self.follow.next_try = self.follow.next_try.min(self.now + spread);
    }

    fn count_pre_votes(&mut self) {
        let register = self.node.register();
        let Some(pre) = &self.follow.pre else { return };
        let enough = register.held.has_quorum(pre.votes, register.settled);
        if !enough || !self.node.may_stand() || self.lead.is_some() {
            return;
        }
        self.follow.pre = None;
        let outputs = self.node.stand();
        self.absorb(outputs);
    }
}
