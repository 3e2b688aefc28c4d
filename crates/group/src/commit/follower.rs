//! A node that follows a primary, or stands to become one.
//!
//! | state | event | action |
//! |---|---|---|
//! | any | a primary of an older epoch, or of an equal number with another id | told that it is deposed |
//! | any | a primary of the promised or a later epoch | promise (durable), cut at the fork, acknowledge |
//! | following | blocks that begin where the log ends | append; acknowledged once synced |
//! | following | other blocks | the position is said again: the primary feeds from there |
//! | any | [`FollowerInput::Promote`] | promise (durable), ask the judge |
//! | standing | the judge grants | this node leads |
//! | standing | the judge refuses | the promise is void: nobody can lead that epoch any more |
//!
//! What lies below `min(here, quorum)` may have been applied to pages, so a cut never reaches below it: a log that parts there is
//! fetched page by page, or seeded anew ([`FollowerOutput::Rejoin`]). The same holds for what a node that begins may have acknowledged or
//! applied before (`kept`), until a primary is followed: that one has it.

use super::epoch::{EpochId, Fork, History};
use super::judge::{Record, Reply, Request, Verdict};
use super::planted::{Bug, planted};
use super::replica::ReplicaId;
use daruma_base::Lsn;

/// What happens to a follower.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum FollowerInput {
    /// A connection begins: its primary tells its epoch and its log's history.
    Lead {
        /// The epoch that it leads.
        epoch: EpochId,
        /// Of its log.
        history: History,
    },
    /// Log of a primary.
    Blocks {
        /// The epoch that it leads.
        epoch: EpochId,
        /// Where the blocks begin.
        first: Lsn,
        /// Where they end.
        end: Lsn,
        /// Hard on all participants.
        quorum: Lsn,
    },
    /// A primary's `quorum`, without blocks.
    Quorum {
        /// The epoch that it leads.
        epoch: EpochId,
        /// Hard on all participants.
        quorum: Lsn,
    },
    /// A sync ended: the log is hard up to here.
    Synced(Lsn),
    /// The connection broke.
    Down,
    /// This node shall lead epoch `to`. Everything received is synced.
    Promote {
        /// A number above every one that it knows, a new id.
        to: EpochId,
        /// An administrator accepts that acknowledged commits may be lost.
        forced: bool,
    },
    /// The judge answered.
    Judge(Reply),
    /// The judge did not answer in time: it is asked again.
    AskAgain,
}

/// What a follower wants done, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FollowerOutput {
    /// The promise must be on disk before anything after it is done.
    Persist(EpochId),
    /// The log is cut off here, durably.
    Cut(Lsn),
    /// The log's history up to its end is this primary's from now on.
    Adopt(History),
    /// The blocks of the input are appended.
    Append,
    /// To the primary that is followed.
    Acknowledge {
        /// The promised epoch.
        epoch: EpochId,
        /// End of the log here.
        received: Lsn,
        /// Hard here.
        here: Lsn,
    },
    /// To the primary: a later epoch is promised; `led`: somebody leads it, or has led a later one.
    Depose {
        /// The promise.
        promised: EpochId,
        /// Whether that epoch, or a later one than the primary's, was led.
        led: bool,
    },
    /// The logs part below what may be applied: a cut is not enough.
    Rejoin(Fork),
    /// To the judge.
    Ask(Request),
    /// The judge granted the epoch: this node leads.
    Lead(Record),
    /// The judge refused.
    Remain(Record),
}

/// A node that does not lead.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Follower {
    me: ReplicaId,
    promised: EpochId,
    /// The highest epoch that somebody is known to have led.
    led: EpochId,
    history: History,
    end: Lsn,
    here: Lsn,
    /// As a primary has told it.
    quorum: Lsn,
    /// What was acknowledged or applied here before, perhaps.
    kept: Lsn,
    /// Whether a primary of the promised epoch is connected and its fork is settled.
    following: bool,
    standing: Option<Standing>,
}

/// What no cut may reach; see [`Follower::let_go`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    quorum: Lsn,
    kept: Lsn,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Standing {
    before: EpochId,
    request: Request,
}

impl Follower {
    /// A node that starts with what it finds on disk. Below `kept` its pages and its readers may have seen it, or it may have been
    /// acknowledged here.
    pub fn new(
        me: ReplicaId,
        promised: EpochId,
        history: History,
        here: Lsn,
        kept: Lsn,
    ) -> Follower {
        let led = history.last().map_or(EpochId::default(), |e| e.name);
        Follower {
            me,
            promised,
            led,
            history,
            end: here,
            here,
            quorum: Lsn::NONE,
            kept,
            following: false,
            standing: None,
        }
    }

    /// The promise: nothing older is acknowledged.
    pub fn promised(&self) -> EpochId {
        self.promised
    }

    /// Of the log up to its end.
    pub fn history(&self) -> History {
        self.history.up_to(self.end)
    }

    /// End of the log.
    pub fn end(&self) -> Lsn {
        self.end
    }

    /// Hard here.
    pub fn here(&self) -> Lsn {
        self.here
    }

    /// Hard here and on all participants, as the primary last said.
    pub fn quorum(&self) -> Lsn {
        self.quorum
    }

    /// Redo goes no further than this.
    pub fn may_apply(&self) -> Lsn {
        self.here.min(self.quorum)
    }

    /// Is a primary of the promised epoch connected, and its fork settled?
    pub fn is_following(&self) -> bool {
        self.following
    }

    /// What lies above `applied`, the position up to which pages have the log, is given up where the next primary lacks it: an
    /// administrator has decided so, or that primary has all that was acknowledged. What counted before, for
    /// [`Follower::keep_again`] once that primary is taken.
    pub fn let_go(&mut self, applied: Lsn) -> Kept {
        assert!(!self.following, "a primary's log is not given up");
        let before = Kept {
            quorum: self.quorum,
            kept: self.kept,
        };
        self.quorum = self.quorum.min(applied);
        self.kept = self.kept.min(applied);
        before
    }

    /// One primary was taken, and what was let go of for it counts again: the next one is another. What that one cut off is gone.
    pub fn keep_again(&mut self, before: Kept) {
        self.quorum = self.quorum.max(before.quorum.min(self.end));
        if !self.following {
            self.kept = self.kept.max(before.kept);
        }
    }

    /// Takes an event.
    pub fn step(&mut self, input: FollowerInput) -> Vec<FollowerOutput> {
        let mut outputs = Vec::new();
        match input {
            FollowerInput::Lead { epoch, history } => self.take_lead(epoch, history, &mut outputs),
            FollowerInput::Blocks {
                epoch,
                first,
                end,
                quorum,
            } => {
                if self.is_followed(epoch, &mut outputs) {
                    self.take_blocks(first, end, quorum, &mut outputs);
                }
            }
            FollowerInput::Quorum { epoch, quorum } => {
                if self.is_followed(epoch, &mut outputs) {
                    self.quorum = self.quorum.max(quorum);
                }
            }
            FollowerInput::Synced(to) => {
                // A cut may have come between the start of a sync and its end.
                self.here = self.here.max(to.min(self.end));
                self.acknowledge(&mut outputs);
            }
            FollowerInput::Down => self.following = false,
            FollowerInput::Promote { to, forced } => self.stand(to, forced, &mut outputs),
            FollowerInput::Judge(reply) => self.take_reply(&reply, &mut outputs),
            FollowerInput::AskAgain => {
                outputs.extend(self.standing.map(|s| FollowerOutput::Ask(s.request)));
            }
        }
        outputs
    }

    fn take_lead(&mut self, epoch: EpochId, history: History, outputs: &mut Vec<FollowerOutput>) {
        let same_number = epoch.number == self.promised.number && !epoch.is_same(self.promised);
        // A primary that was passed over, and has not heard of it. Whoever is followed is followed on.
        if epoch.number < self.promised.number || same_number {
            self.depose(epoch, outputs);
            return;
        }
        if !epoch.is_same(self.promised) {
            self.promised = epoch;
            outputs.push(FollowerOutput::Persist(epoch));
        }
        // The judge granted this epoch to somebody else: what this node asked for can no longer be.
        self.standing = None;
        self.led = epoch;
        self.settle_fork(history, outputs);
    }

    fn settle_fork(&mut self, history: History, outputs: &mut Vec<FollowerOutput>) {
        let fork = self.history().fork(self.end, &history);
        let keeps = match fork {
            Fork::At(at) => at >= self.may_apply().max(self.here.min(self.kept)),
            Fork::Nothing => false,
        };
        let (Fork::At(at), true) = (fork, keeps) else {
            self.following = false;
            outputs.push(FollowerOutput::Rejoin(fork));
            return;
        };
        if at < self.end && !planted(Bug::KeepTail) {
            self.end = at;
            self.here = self.here.min(at);
            outputs.push(FollowerOutput::Cut(at));
        }
        self.history = history.clone();
        self.kept = Lsn::NONE;
        self.following = true;
        outputs.push(FollowerOutput::Adopt(history));
        self.acknowledge(outputs);
    }

    fn is_followed(&self, epoch: EpochId, outputs: &mut Vec<FollowerOutput>) -> bool {
        let current = epoch.is_same(self.promised);
        if current || planted(Bug::FollowOlder) {
            return self.following || planted(Bug::FollowOlder);
        }
        self.depose(epoch, outputs);
        false
    }

    fn depose(&self, epoch: EpochId, outputs: &mut Vec<FollowerOutput>) {
        outputs.push(FollowerOutput::Depose {
            promised: self.promised,
            led: self.led.number > epoch.number,
        });
    }

    fn take_blocks(
        &mut self,
        first: Lsn,
        end: Lsn,
        quorum: Lsn,
        outputs: &mut Vec<FollowerOutput>,
    ) {
        self.quorum = self.quorum.max(quorum);
        if first == self.end && end > first {
            self.end = end;
            outputs.push(FollowerOutput::Append);
        } else {
            self.acknowledge(outputs);
        }
        if planted(Bug::AcknowledgeUnsynced) {
            self.here = self.end;
            self.acknowledge(outputs);
        }
    }

    fn acknowledge(&self, outputs: &mut Vec<FollowerOutput>) {
        if self.following {
            outputs.push(FollowerOutput::Acknowledge {
                epoch: self.promised,
                received: self.end,
                here: self.here,
            });
        }
    }

    fn stand(&mut self, to: EpochId, forced: bool, outputs: &mut Vec<FollowerOutput>) {
        assert_eq!(
            self.end, self.here,
            "everything received is synced before a node stands"
        );
        assert!(
            to.number > self.promised.number,
            "{to:?} is not above {:?}",
            self.promised
        );
        let before = self.standing.map_or(self.promised, |s| s.before);
        let request = match forced {
            true => Request::Force {
                to,
                replica: self.me,
            },
            false => Request::Promote {
                from: before,
                to,
                replica: self.me,
            },
        };
        self.following = false;
        self.promised = to;
        self.standing = Some(Standing { before, request });
        outputs.push(FollowerOutput::Persist(to));
        outputs.push(FollowerOutput::Ask(request));
    }

    fn take_reply(&mut self, reply: &Reply, outputs: &mut Vec<FollowerOutput>) {
        let Some(standing) = self.standing.filter(|s| s.request == reply.request) else {
            return;
        };
        self.standing = None;
        match reply.verdict {
            Verdict::Granted if reply.record.primary == self.me => {
                self.led = reply.record.epoch;
                outputs.push(FollowerOutput::Lead(reply.record));
            }
            _ => {
                // Nobody leads the epoch of a void promise, so what was promised before holds again, or what the judge has now.
                let present = reply.record.epoch;
                self.promised = match present.number >= standing.before.number {
                    true => present,
                    false => standing.before,
                };
                outputs.push(FollowerOutput::Persist(self.promised));
                outputs.push(FollowerOutput::Remain(reply.record));
            }
        }
    }
}
