//! Who has everything, agreed among the replicas themselves, where a manager outside names the primary (CLUSTER_TYPE = EXTERNAL).
//!
//! Theory: each voter keeps one vote, the newest epoch that it has promised and the newest word that it has heard. A word counts when `words` of
//! the voters have it; who is to lead reads it from `promises` of them, and since the two are more than there are voters, it finds the newest that
//! counts, or a later one. What a voter has promised it keeps: no word of an older epoch counts after so many promises, so the list on which
//! an old primary acts can only be the one that was read, or a longer one. Whoever is on that has everything that was acknowledged
//! ([`super::Listing`]), and acknowledges nothing to the old primary once it leads.
//!
//! A replica that is to lead by force has `promises` of the voters keep a claim that lists it alone ([`Word::claim`]), leads, and says so again before it acknowledges anything. Any two
//! claims that are enough have a voter in common, so that the later one counts. Whoever reads a claim as the newest word does not know whether the replica has led, or was cut short
//! and has given up nothing: nobody is promoted then but by force.
//! Only where fewer answer it acts without them, and tells them as they come ([`super::Listing::begin_alone`]); until then whoever they promote knows nothing of it.
//!
//! A voter answers with its vote also where it refuses, so that a primary learns from any answer that it was passed over.
//!
//! What is read may be a word that does not count yet, so a new primary acknowledges nothing before a word of its own counts ([`super::Listing::begin_read`]).
//!
//! | voters | words | promises |
//! |---|---|---|
//! | 2 | 1: the primary goes on alone | 2: nobody leads without the other's word |
//! | 3 | 2 | 2 |
//! | 4 | 2 | 3 |
//! | 5 | 3 | 3 |
//!
//! These are the numbers of sequence numbers that a manager of the product asks for before it promotes.
//!
//! Invariants
//! 1. A vote is durable before anybody hears of it; its epoch and its word only grow.
//! 2. A server that has lost its vote, or has none yet, gives none before the present primary has told it the newest word.
//! 3. No peer has the epochs used up by one number: what is far above what is known is not believed ([`is_credible`]).
//!
//! Source: the two phases are those of Paxos (Lamport, 1998), with quorums of two sizes (Howard, Malkhi and Spiegelman, 2016).

use super::listing::Word;
use super::planted::{Bug, planted};
use super::replica::{REPLICAS_MAX, ReplicaId, Replicas};

/// Epochs and numbers of words are below this.
pub const BALLOT_NUMBER_MAX: u64 = 1 << 31;
/// The number of the word with which a group begins.
pub const FIRST_WORD: u64 = 1;
/// An epoch is a multiple of this and a replica's number: two that ask at once never ask for the same.
const PLACES: u64 = 16;
const _: () = assert!((REPLICAS_MAX as u64) < PLACES);
/// An epoch that a voter is asked to promise, or to keep a word of, may be so far ahead of all that it knows: of so many promotions, divided by
/// [`PLACES`], it may have heard nothing.
const AHEAD_MAX: u64 = 1 << 20;
/// One that a peer tells of may be less far ahead, so that what is asked by it is still believed by those who have heard less.
const TOLD_AHEAD_MAX: u64 = AHEAD_MAX / 2;

/// What a voter says, and keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Vote {
    /// Nothing older counts here.
    pub promised: u64,
    /// The newest word that it has heard.
    pub word: Word,
}

/// What a voter is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Call {
    /// Its vote, as it is.
    Look,
    /// To promise this epoch.
    Promise(u64),
    /// To keep this word.
    Keep(Word),
}

impl Call {
    /// The epoch that it is about; none has this number where it is about none.
    fn epoch(self) -> u64 {
        match self {
            Call::Look => 0,
            Call::Promise(epoch) => epoch,
            Call::Keep(word) => word.epoch,
        }
    }
}

/// The replicas that vote: those whose commits are synchronous, and those that have the configuration only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Voters(pub Replicas);

impl Voters {
    /// So many voters have a word that counts.
    pub fn words(self) -> u32 {
        let least = self.0.count() - self.0.count() / 2;
        match planted(Bug::WordOfTooFew) {
            true => least - 1,
            false => least,
        }
    }

    /// So many promises let a replica lead.
    pub fn promises(self) -> u32 {
        let least = self.0.count() / 2 + 1;
        match planted(Bug::PromiseOfTooFew) {
            true => least - 1,
            false => least,
        }
    }

    /// Does a word count that these have?
    pub fn is_agreed(self, by: Replicas) -> bool {
        by.intersection(self.0).count() >= self.words()
    }

    /// May somebody lead whom these have promised to?
    pub fn is_promised(self, by: Replicas) -> bool {
        by.intersection(self.0).count() >= self.promises()
    }
}

impl Vote {
    /// Of the replica with which a group begins.
    pub fn first(me: ReplicaId) -> Vote {
        let epoch = next_epoch(0, me).unwrap_or(PLACES);
        Vote {
            promised: epoch,
            word: Word {
                epoch,
                said: FIRST_WORD,
                replicas: Replicas::NONE.with(me),
            },
        }
    }

    /// The vote of a server that is asked this, and has heard of a reign of that epoch. `None`: it refuses, and keeps what it had.
    pub fn after(had: Option<Vote>, call: Call, heard: u64) -> Option<Vote> {
        let known = had.map_or(0, |had| had.promised).max(heard);
        match (had, call) {
            _ if call.epoch() > known.saturating_add(AHEAD_MAX) => None,
            (Some(had), Call::Look) => Some(had),
            (Some(had), Call::Promise(epoch)) if epoch >= had.promised => Some(Vote {
                promised: epoch,
                ..had
            }),
            (Some(had), Call::Keep(word))
                if (word.epoch >= had.promised || planted(Bug::KeepOlder))
                    && word.place() >= had.word.place() =>
            {
                Some(Vote {
                    promised: word.epoch,
                    word,
                })
            }
            (None, Call::Keep(word)) => Some(Vote {
                promised: word.epoch,
                word,
            }),
            _ => None,
        }
    }

    /// Is this the vote of a voter that has agreed to the call?
    pub fn grants(&self, call: Call) -> bool {
        match call {
            Call::Look => true,
            Call::Promise(epoch) => self.promised == epoch,
            Call::Keep(word) => self.word == word && self.promised == word.epoch,
        }
    }

    /// May a peer say so, where `known` is the newest epoch that was heard of?
    pub fn is_credible(&self, known: u64) -> bool {
        is_credible(self.promised.max(self.word.epoch), known)
    }

    /// What `sys.availability_groups` shows as sequence number: it grows with each word, and is lower by one on a replica that lacks
    /// something, or cannot lead what it has (`may_lead`), so that a manager promotes none of those.
    pub fn sequence_number(&self, me: ReplicaId, may_lead: bool) -> i64 {
        let bounded = |n: u64| i64::try_from(n.min(BALLOT_NUMBER_MAX - 1)).unwrap_or(0);
        let (epoch, said) = (bounded(self.word.epoch), bounded(self.word.said));
        let has_all = self.word.replicas.contains(me);
        (epoch << 32) + (said << 1) + i64::from(has_all && may_lead)
    }
}

/// The newest word of some votes.
pub fn newest_word<'a>(votes: impl IntoIterator<Item = &'a Vote>) -> Option<Word> {
    let words = votes.into_iter().map(|vote| vote.word);
    words.max_by_key(|word| word.place())
}

/// May a peer tell of this epoch, where `known` is the newest that was heard of? One that lies leaves numbers for those who come after it.
pub fn is_credible(epoch: u64, known: u64) -> bool {
    epoch <= known.saturating_add(TOLD_AHEAD_MAX)
}

/// An epoch of `me` after any that is known. `None`: there is none left.
pub fn next_epoch(known: u64, me: ReplicaId) -> Option<u64> {
    let round = known / PLACES + 1;
    let epoch = round * PLACES + u64::from(me.number());
    (epoch < BALLOT_NUMBER_MAX).then_some(epoch)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{replica, set};
    use super::*;

    fn word(epoch: u64, said: u64, replicas: &[u8]) -> Word {
        Word {
            epoch,
            said,
            replicas: set(replicas),
        }
    }

    #[test]
    fn a_word_that_counts_is_read_by_whoever_may_lead() {
        for count in 1..=REPLICAS_MAX {
            let all: Vec<u8> = (0..count).collect();
            let voters = Voters(set(&all));
            assert_eq!(voters.words() + voters.promises(), u32::from(count) + 1);
            assert!(voters.words() > 0);
        }
        let voters = Voters(set(&[0, 1, 2]));
        assert!(voters.is_agreed(set(&[0, 2])) && !voters.is_agreed(set(&[0, 5])));
        assert!(voters.is_promised(set(&[1, 2])) && !voters.is_promised(set(&[1, 5])));
    }

    #[test]
    fn a_vote_only_grows() {
        let had = Some(Vote {
            promised: 40,
            word: word(20, 3, &[0, 1]),
        });
        let after = |call| Vote::after(had, call, 0);
        assert_eq!(after(Call::Look), had);
        assert_eq!(after(Call::Promise(39)), None);
        assert_eq!(after(Call::Promise(50)).map(|v| v.promised), Some(50));
        assert_eq!(after(Call::Keep(word(20, 4, &[0]))), None, "promised away");
        let kept = after(Call::Keep(word(40, 1, &[2])));
        assert_eq!(kept.map(|v| v.word), Some(word(40, 1, &[2])));
        let earlier = Vote::after(kept, Call::Keep(word(40, 0, &[0, 2])), 0);
        assert_eq!(earlier, None, "a word that comes late");
        let again = Vote::after(kept, Call::Keep(word(40, 1, &[2])), 0);
        assert_eq!(again, kept);
    }

    #[test]
    fn a_vote_shows_whether_a_call_was_granted() {
        let had = Vote {
            promised: 40,
            word: word(20, 3, &[0, 1]),
        };
        let calls = [
            Call::Look,
            Call::Promise(39),
            Call::Promise(50),
            Call::Keep(word(20, 4, &[0])),
            Call::Keep(word(40, 0, &[2])),
            Call::Keep(word(56, 0, &[2])),
        ];
        for call in calls {
            let after = Vote::after(Some(had), call, 0);
            let shown = after.unwrap_or(had);
            assert_eq!(shown.grants(call), after.is_some(), "{call:?}");
        }
    }

    #[test]
    fn who_has_no_vote_gives_none_before_it_has_heard_a_word() {
        assert_eq!(Vote::after(None, Call::Look, 0), None);
        assert_eq!(Vote::after(None, Call::Promise(99), 0), None);
        let vote = Vote::after(None, Call::Keep(word(16, 2, &[0])), 0);
        assert_eq!(vote.map(|v| (v.promised, v.word.said)), Some((16, 2)));
    }

    #[test]
    fn a_peer_that_lies_leaves_epochs_for_others() {
        let had = Vote {
            promised: 40,
            word: word(20, 3, &[0, 1]),
        };
        let last = BALLOT_NUMBER_MAX - 1;
        for call in [Call::Promise(last), Call::Keep(word(last, 1, &[1]))] {
            assert_eq!(Vote::after(Some(had), call, 0), None, "{call:?}");
            assert_eq!(Vote::after(None, call, 32), None, "{call:?}");
        }
        let far = 40 + AHEAD_MAX;
        let after = |epoch, heard| Vote::after(Some(had), Call::Promise(epoch), heard);
        assert!(after(far, 0).is_some() && after(far + 1, 0).is_none());
        assert!(after(far + 1, 41).is_some(), "it has heard of a later one");
        let newcomer = Vote::after(None, Call::Keep(word(far, 1, &[0])), 40);
        assert!(newcomer.is_some());
        let lie = Vote {
            word: word(last, 1, &[1]),
            ..had
        };
        assert!(had.is_credible(0) && !lie.is_credible(40));
        // What is believed of one is promised by others who have heard less.
        let told = 40 + TOLD_AHEAD_MAX;
        assert!(is_credible(told, 40) && !is_credible(told + 1, 40));
        let next = next_epoch(told, replica(0)).map(Call::Promise);
        assert!(next.is_some_and(|call| Vote::after(Some(had), call, 0).is_some()));
    }

    #[test]
    fn epochs_are_nobody_elses_and_end() {
        let epoch = next_epoch(0, replica(2));
        assert_eq!(epoch, Some(18));
        assert_eq!(next_epoch(18, replica(0)), Some(32));
        assert_eq!(next_epoch(BALLOT_NUMBER_MAX - 1, replica(0)), None);
    }

    #[test]
    fn a_replica_that_lacks_something_shows_less_than_those_that_do_not() {
        let vote = Vote {
            promised: 16,
            word: word(16, 7, &[0, 1]),
        };
        let of = |number| vote.sequence_number(replica(number), true);
        assert_eq!(of(0), of(1));
        assert_eq!(of(2), of(1) - 1);
        assert_eq!(vote.sequence_number(replica(1), false), of(1) - 1);
        assert_eq!(vote.sequence_number(replica(2), false), of(2));
        let next = Vote {
            word: word(16, 8, &[2]),
            ..vote
        };
        assert!(next.sequence_number(replica(1), true) > of(1));
    }
}
