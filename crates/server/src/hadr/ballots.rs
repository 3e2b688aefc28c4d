//! A group whose primary a manager outside names (CLUSTER_TYPE = EXTERNAL): its own voters say who has everything, over its connections.
//!
//! Theory: what is agreed, and by how many, is `daruma_group::commit::ballot`'s to know; here votes have a file, the group's, and polls connections.
//! A server leads from the statement that promotes it to the moment in which it is told to stop, is restarted, or hears of a later promise;
//! it never begins by itself.
//!
//! A primary that promises to another, or hears of a later promise or reign, acknowledges nothing from then on, and steps down.
//!
//! Read next: `office`, which is how it begins.

use super::group::{Group, Task};
use super::office::Office;
use super::owner::owner_epoch;
use super::reign::{KeptVote, Reign};
use super::warrant::Warrant;
use daruma_catalog::{AvailabilityMode, GroupDef};
use daruma_group::commit::{Call, ReplicaId, Replicas, Vote, Voters, Word, is_credible};
use daruma_group::transport::Link;
use daruma_group::wire::Message;
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A voter that has not answered by then does not answer.
const POLL_TIMEOUT: Duration = Duration::from_secs(5);
/// The number of a question for whose answers nobody waits.
const NOBODY_WAITS: u64 = 0;

/// What a server knows of its office, and the polls that are under way.
#[derive(Default)]
pub(super) struct Ballots {
    office: Mutex<Option<Office>>,
    polls: Mutex<Polls>,
    came: Condvar,
}

#[derive(Default)]
struct Polls {
    asked: u64,
    open: BTreeMap<u64, BTreeMap<ReplicaId, Option<Vote>>>,
    told: Option<Told>,
}

/// The word that was told last.
struct Told {
    word: Word,
    /// Those that have it, and have been connected since.
    by: Replicas,
    /// When those were told that have not answered.
    sent: BTreeMap<ReplicaId, Instant>,
}

impl Ballots {
    /// The right to lead, if this server has it.
    pub(super) fn office(&self) -> Option<Office> {
        *self.office.lock()
    }

    /// This server is to lead.
    pub(super) fn take(&self, office: Office) {
        *self.office.lock() = Some(office);
    }

    /// It is not, any more.
    pub(super) fn leave(&self) {
        *self.office.lock() = None;
    }

    /// It leaves an office that is older than this: the office's epoch, if it had such a one.
    fn yield_to(&self, epoch: u64) -> Option<u64> {
        let left = self.office.lock().take_if(|o| o.epoch < epoch);
        left.map(|o| o.epoch)
    }

    fn open(&self) -> u64 {
        let mut polls = self.polls.lock();
        polls.asked += 1;
        let ask = polls.asked;
        polls.open.insert(ask, BTreeMap::new());
        ask
    }

    /// A voter has answered. Who has the newest word is noted however late the answer comes.
    fn answered(&self, from: ReplicaId, ask: u64, vote: Option<Vote>) {
        let mut polls = self.polls.lock();
        if let (Some(told), Some(vote)) = (&mut polls.told, vote)
            && vote.grants(Call::Keep(told.word))
        {
            told.by = told.by.with(from);
        }
        if let Some(poll) = polls.open.get_mut(&ask) {
            poll.insert(from, vote);
            self.came.notify_all();
        }
    }

    /// The votes of a poll, granted or not, when `is_enough` have granted the call, all who were asked have answered, or the time has come.
    fn close(
        &self,
        ask: u64,
        call: Call,
        asked: Replicas,
        is_enough: impl Fn(Replicas) -> bool,
    ) -> BTreeMap<ReplicaId, Vote> {
        let until = Instant::now() + POLL_TIMEOUT;
        let mut polls = self.polls.lock();
        loop {
            let answers = polls.open.get(&ask);
            let answered: Replicas = answers.into_iter().flatten().map(|(r, _)| *r).collect();
            let granted = answers.into_iter().flatten();
            let granted = granted.filter(|(_, vote)| vote.is_some_and(|v| v.grants(call)));
            let granted: Replicas = granted.map(|(r, _)| *r).collect();
            let is_over = is_enough(granted) || asked.is_subset_of(answered);
            if is_over || self.came.wait_until(&mut polls, until).timed_out() {
                break;
            }
        }
        let answers = polls.open.remove(&ask).unwrap_or_default();
        let votes = answers.into_iter();
        votes.filter_map(|(r, vote)| Some((r, vote?))).collect()
    }

    /// This is the word that is told from now on.
    fn begin_to_tell(&self, word: Word) {
        let mut polls = self.polls.lock();
        if polls.told.as_ref().is_none_or(|told| told.word != word) {
            polls.told = Some(Told {
                word,
                by: Replicas::NONE,
                sent: BTreeMap::new(),
            });
        }
    }

    /// The word that was told last.
    fn told(&self) -> Option<Word> {
        self.polls.lock().told.as_ref().map(|told| told.word)
    }

    /// Is the replica to be told that word now? It is, then, and not again before it has had the time to answer.
    fn may_tell(&self, replica: ReplicaId, now: Instant) -> bool {
        let mut polls = self.polls.lock();
        let Some(told) = polls.told.as_mut() else {
            return false;
        };
        let is_early = |at: &Instant| now.saturating_duration_since(*at) < POLL_TIMEOUT;
        if told.by.contains(replica) || told.sent.get(&replica).is_some_and(is_early) {
            return false;
        }
        told.sent.insert(replica, now);
        true
    }

    /// A replica has connected: it may have been away, and have forgotten its vote with the group.
    pub(super) fn connected(&self, replica: ReplicaId) {
        if let Some(told) = &mut self.polls.lock().told {
            told.by = told.by.without(replica);
            told.sent.remove(&replica);
        }
    }
}

/// The replicas that vote.
pub(super) fn voters(def: &GroupDef) -> Voters {
    let votes = def
        .replicas
        .iter()
        .filter(|r| r.availability_mode != AvailabilityMode::Asynchronous);
    Voters(votes.filter_map(|r| ReplicaId::new(r.number)).collect())
}

impl Group {
    /// A voter is asked.
    pub(super) fn polled(&self, link: &Arc<Link>, ask: u64, call: Call) {
        let vote = self.vote(call);
        link.send(Message::Voted { ask, vote });
    }

    /// A voter has answered. What is not to be believed is no vote.
    pub(super) fn voted(&self, from: ReplicaId, ask: u64, vote: Option<Vote>) {
        let known = self.known_epoch();
        let vote = vote.filter(|vote| vote.is_credible(known));
        if let Some(ballots) = self.warrant.as_ref().and_then(|w| w.ballots()) {
            ballots.answered(from, ask, vote);
        }
        if let Some(vote) = vote {
            self.give_way(vote.promised);
        }
    }

    /// Another was promised this epoch, or leads in it: an office that is older ends.
    pub(super) fn give_way(&self, epoch: u64) {
        let Some(warrant) = &self.warrant else { return };
        let left = warrant.ballots().and_then(|b| b.yield_to(epoch));
        if let Some(left) = left {
            warrant.listing().end_epoch(left);
            warrant.news().tell();
            self.tell(Task::LetGo);
        }
    }

    /// This server's vote after that call, on disk. `None`: it has none.
    fn vote(&self, call: Call) -> Option<Vote> {
        if self.is_removed() || !voters(&self.def()).0.contains(self.me) {
            return None;
        }
        let mut vote = None;
        let heard = self.heard();
        let kept = self.keep(|kept| {
            let had = kept.vote.map(Vote::from);
            vote = Vote::after(had, call, heard).or(had);
            kept.vote = vote.map(KeptVote::from);
        });
        if let Err(error) = &kept {
            self.common.log(&error.message);
        }
        let vote = vote.filter(|_| kept.is_ok())?;
        self.give_way(vote.promised);
        Some(vote)
    }

    /// The epoch of the newest reign of the group that this server has heard of.
    pub(super) fn heard(&self) -> u64 {
        owner_epoch(self.reign().number)
    }

    /// The newest epoch that it knows: of a reign, or of a promise.
    pub(super) fn known_epoch(&self) -> u64 {
        let promised = self.kept_vote().map_or(0, |vote| vote.promised);
        promised.max(self.heard())
    }

    /// May a peer tell of this reign? Where voters decide, one that lies could use up the epochs.
    pub(super) fn may_be(&self, reign: Reign) -> bool {
        let decide = self.warrant.as_ref().is_some_and(|w| w.ballots().is_some());
        !decide || is_credible(owner_epoch(reign.number), self.known_epoch())
    }

    /// Asks all voters, until `is_enough` of them have agreed: the votes of those that have.
    pub(super) fn poll(
        &self,
        ballots: &Ballots,
        call: Call,
        is_enough: impl Fn(Replicas) -> bool,
    ) -> BTreeMap<ReplicaId, Vote> {
        let mut votes = self.poll_all(ballots, call, is_enough);
        votes.retain(|_, vote| vote.grants(call));
        votes
    }

    /// The same, with the votes of those that have refused. Where this server refuses itself, nobody else is asked for more than a look.
    pub(super) fn poll_all(
        &self,
        ballots: &Ballots,
        call: Call,
        is_enough: impl Fn(Replicas) -> bool,
    ) -> BTreeMap<ReplicaId, Vote> {
        let voters = voters(&self.def()).0;
        let own = self.vote(call);
        let is_granted = own.is_some_and(|vote| vote.grants(call));
        if !is_granted && call != Call::Look && voters.contains(self.me) {
            return BTreeMap::new();
        }
        let ask = ballots.open();
        ballots.answered(self.me, ask, own);
        let mut asked = Replicas::NONE.with(self.me);
        for (replica, link) in self.node.connections() {
            if voters.contains(replica) {
                asked = asked.with(replica);
                link.send(Message::Poll { ask, call });
            }
        }
        ballots.close(ask, call, asked, is_enough)
    }

    // --- who has everything

    /// Tells the voters that these have everything. `Err`: why it does not count, so far.
    pub(super) fn tell_voters(
        &self,
        warrant: &Warrant,
        ballots: &Ballots,
        epoch: u64,
        replicas: Replicas,
    ) -> std::result::Result<(), String> {
        let word = {
            let mut listing = warrant.listing();
            // What could not be agreed is told again: a new word each time would be a write each time.
            let again = ballots.told().filter(|word| {
                word.epoch == epoch && word.replicas == replicas && listing.is_last(*word)
            });
            again.or_else(|| listing.say(epoch, replicas))
        };
        let word = word.ok_or("this server leads no more")?;
        self.spread(ballots, word)?;
        warrant.listing().agreed(word);
        Ok(())
    }

    fn spread(&self, ballots: &Ballots, word: Word) -> std::result::Result<(), String> {
        let voters = voters(&self.def());
        ballots.begin_to_tell(word);
        let votes = self.poll(ballots, Call::Keep(word), |by| voters.is_agreed(by));
        let by: Replicas = votes.keys().copied().collect();
        match voters.is_agreed(by) {
            true => Ok(()),
            false => Err(format!(
                "{} of {} replicas that vote have agreed, and {} are needed",
                by.count(),
                voters.0.count(),
                voters.words()
            )),
        }
    }

    /// Voters that are connected and have not heard the newest word of this reign are told it: one that has just joined gives no vote before.
    /// Nobody waits for their answers, so that one that is frozen holds nothing up.
    pub(super) fn tell_who_lacks_it(&self, ballots: &Ballots, epoch: u64) {
        let is_of_it = |word: &Word| word.epoch == epoch;
        // A founder has kept its first word, and has told nobody.
        let own = || self.kept_vote().map(|vote| vote.word).filter(is_of_it);
        let Some(word) = ballots.told().filter(is_of_it).or_else(own) else {
            return;
        };
        ballots.begin_to_tell(word);
        let voters = voters(&self.def()).0;
        let now = Instant::now();
        for (replica, link) in self.node.connections() {
            if voters.contains(replica) && ballots.may_tell(replica, now) {
                link.send(Message::Poll {
                    ask: NOBODY_WAITS,
                    call: Call::Keep(word),
                });
            }
        }
    }

    /// What `sys.availability_groups` shows, where voters have a word.
    pub(super) fn vote_number(&self) -> Option<i64> {
        let vote = self.kept_vote()?;
        Some(vote.sequence_number(self.me, self.could_lead_each()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::office::FirstList;
    use super::*;

    fn replica(number: u8) -> ReplicaId {
        ReplicaId::new(number).expect("a replica")
    }

    fn word(said: u64) -> Word {
        Word {
            epoch: 16,
            said,
            replicas: Replicas::NONE.with(replica(0)),
        }
    }

    fn has(word: Word) -> Option<Vote> {
        Some(Vote {
            promised: word.epoch,
            word,
        })
    }

    #[test]
    fn a_late_answer_is_noted_by_its_word_and_a_silent_voter_is_told_again_in_time() {
        let ballots = Ballots::default();
        let now = Instant::now();
        assert!(!ballots.may_tell(replica(1), now), "there is no word");
        ballots.begin_to_tell(word(1));
        assert!(ballots.may_tell(replica(1), now));
        assert!(!ballots.may_tell(replica(1), now), "it may answer yet");
        assert!(ballots.may_tell(replica(1), now + POLL_TIMEOUT));
        ballots.answered(replica(1), NOBODY_WAITS, has(word(0)));
        assert!(ballots.may_tell(replica(1), now + 2 * POLL_TIMEOUT));
        ballots.answered(replica(1), NOBODY_WAITS, has(word(1)));
        assert!(!ballots.may_tell(replica(1), now + 3 * POLL_TIMEOUT));
        // It may have left and joined again.
        ballots.connected(replica(1));
        assert!(ballots.may_tell(replica(1), now + 3 * POLL_TIMEOUT));
        ballots.begin_to_tell(word(2));
        assert!(ballots.may_tell(replica(1), now + 3 * POLL_TIMEOUT));
    }

    #[test]
    fn a_refusal_counts_as_an_answer_and_not_as_a_vote() {
        let ballots = Ballots::default();
        let asked = Replicas::NONE.with(replica(0)).with(replica(1));
        let call = Call::Keep(word(3));
        let ask = ballots.open();
        ballots.answered(replica(0), ask, has(word(3)));
        ballots.answered(replica(1), ask, has(word(4)));
        let votes = ballots.close(ask, call, asked, |_| false);
        let granted = votes.iter().filter(|(_, vote)| vote.grants(call));
        assert_eq!((votes.len(), granted.count()), (2, 1));
    }

    #[test]
    fn an_office_ends_for_a_later_epoch_alone() {
        let ballots = Ballots::default();
        let list = FirstList::Counts;
        let is_forced = false;
        ballots.take(Office {
            epoch: 33,
            list,
            is_forced,
        });
        assert_eq!(ballots.yield_to(33), None);
        assert_eq!(ballots.yield_to(48), Some(33));
        assert!(ballots.office().is_none());
    }
}
