//! What a cluster may know of who has everything, where it names the owner of a group.
//!
//! Where a manager outside names it, the group's own voters are what is called the cluster here ([`super::Vote`]).
//!
//! Theory: whoever the cluster lists has all that was acknowledged, so that it may name any of them. Its list is at any time a part of `most`, and
//! that is a part of what the record of every database lists, for whom commits wait.
//!
//! | a replica | order |
//! |---|---|
//! | comes onto the list | into the records, then into `most`, then the records are looked at again, then the cluster is told |
//! | leaves it | the cluster has agreed, then out of `most`, then out of the records; commits wait for it meanwhile |
//!
//! A word to the cluster that nobody answered may be carried out yet, so it counts as said; words are numbered, and an earlier one does not
//! count after a later one.
//!
//! An owner that begins finds a list of the reign before: those have everything as long as nothing new is acknowledged. So nothing is, and no session
//! comes, before the first word of its own reign is agreed to. If it dies before, or cannot lead, one of the list is named.

use super::planted::{Bug, planted};
use super::replica::{ReplicaId, Replicas};
use std::collections::BTreeMap;

/// What the owner of a group knows of the cluster's list.
#[derive(Clone, Debug)]
pub struct Listing {
    me: ReplicaId,
    /// The epoch, as the cluster counts, under which this replica leads.
    leads: Option<u64>,
    /// The epoch of what follows.
    epoch: u64,
    /// All databases are led that can be: the cluster may be told who has everything.
    may_speak: bool,
    /// The cluster's list is one of this reign.
    has_word: bool,
    /// The cluster lists no replica but these.
    most: Replicas,
    /// Words that were said in this epoch.
    said: u64,
    /// The list of the last word, once it is agreed to, or the one that counts without any.
    told: Option<Replicas>,
    /// What records are to list from now on, where that is less.
    fewer: BTreeMap<u128, Replicas>,
}

/// Something that the cluster, or the voters of a group, are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Word {
    /// The epoch in which it is said.
    pub epoch: u64,
    /// Its number within the epoch.
    pub said: u64,
    /// These have everything.
    pub replicas: Replicas,
}

/// The number of a claim.
const CLAIM: u64 = 0;

impl Word {
    /// Its place among all words: a later one takes the place of an earlier one.
    pub fn place(&self) -> (u64, u64) {
        (self.epoch, self.said)
    }

    /// The claim of a replica that is to lead by force.
    pub fn claim(epoch: u64, me: ReplicaId) -> Word {
        Word {
            epoch,
            said: CLAIM,
            replicas: Replicas::NONE.with(me),
        }
    }

    /// Is it a claim? Nobody has led by it yet, so what its replica lacks is not given up: it may have been cut short.
    pub fn is_claim(&self) -> bool {
        self.said == CLAIM
    }
}

impl Listing {
    /// Of a replica that does not lead.
    pub fn new(me: ReplicaId) -> Listing {
        Listing {
            me,
            leads: None,
            epoch: 0,
            may_speak: false,
            has_word: false,
            most: Replicas::NONE,
            said: 0,
            told: None,
            fewer: BTreeMap::new(),
        }
    }

    /// The epoch under which this replica leads.
    pub fn leads(&self) -> Option<u64> {
        self.leads
    }

    /// The epoch under which it may acknowledge, and let sessions come, while its lease lasts.
    pub fn acts(&self) -> Option<u64> {
        self.leads
            .filter(|_| self.has_word || planted(Bug::ActBeforeWord))
    }

    /// The epoch in which the cluster may be told who has everything.
    pub fn speaks(&self) -> Option<u64> {
        self.leads.filter(|_| self.may_speak)
    }

    /// Does the cluster's list come from this reign?
    pub fn has_word(&self) -> bool {
        self.has_word
    }

    /// The replica begins to lead in this epoch, with records that list it alone. The cluster lists `listed`, by its word number `said`.
    pub fn begin(&mut self, epoch: u64, listed: Replicas, said: u64) {
        if self.epoch != epoch {
            *self = Listing {
                epoch,
                said,
                ..Listing::new(self.me)
            };
        }
        self.most = self.most.union(listed).with(self.me);
        self.leads = Some(epoch);
        self.may_speak = false;
        // A list of this replica alone holds in any reign of its own.
        self.has_word = self.most == Replicas::NONE.with(self.me);
        self.told = self.has_word.then_some(self.most);
    }

    /// The same, with a list that was read from voters. It may be one that only they have heard, so it holds nothing before it is said anew: another
    /// replica may have been promoted by others since, who had not.
    pub fn begin_read(&mut self, epoch: u64, listed: Replicas) {
        self.begin(epoch, listed, 0);
        self.has_word = planted(Bug::BelieveWhatWasRead) && self.has_word;
        self.told = None;
    }

    /// The same by force, where so few voters answer that no word can count: it acts alone, and says so until enough have heard it.
    pub fn begin_alone(&mut self, epoch: u64) {
        self.begin(epoch, Replicas::NONE, 0);
        self.told = None;
    }

    /// It leads no more.
    pub fn end(&mut self) {
        self.leads = None;
        self.fewer.clear();
    }

    /// It leads no more in this epoch, if it did. `false`: it leads in another.
    pub fn end_epoch(&mut self, epoch: u64) -> bool {
        let is_another = self.leads.is_some_and(|leads| leads != epoch);
        if !is_another {
            self.end();
        }
        !is_another
    }

    /// All databases are led that can be.
    pub fn speak(&mut self) {
        self.may_speak = true;
    }

    /// A database is led anew, or no more: what was wanted of its record is void.
    pub fn forget(&mut self, database: u128) {
        self.fewer.remove(&database);
    }

    /// No replica but these is in the cluster's list.
    pub fn most(&self) -> Replicas {
        self.most
    }

    /// What the record of a database is to list, as far as that is less than it does.
    pub fn fewer(&self, database: u128) -> Option<Replicas> {
        self.fewer.get(&database).copied()
    }

    /// May the record of a database list these alone? If not, they are what it wants.
    pub fn may_list(&mut self, database: u128, members: Replicas) -> bool {
        if self.most.is_subset_of(members) || planted(Bug::ShrinkUnasked) {
            self.fewer.remove(&database);
            return true;
        }
        self.fewer.insert(database, members);
        false
    }

    /// These may be listed from now on.
    pub fn widen(&mut self, to: Replicas) {
        self.most = self.most.union(to);
    }

    /// Is this what the last word said, and is that agreed to?
    pub fn is_told(&self, replicas: Replicas) -> bool {
        self.has_word && self.told == Some(replicas) && self.most == replicas
    }

    /// The next word, that these have everything. `None`: this replica leads no more.
    pub fn say(&mut self, epoch: u64, replicas: Replicas) -> Option<Word> {
        if self.leads != Some(epoch) {
            return None;
        }
        assert!(
            replicas.is_subset_of(self.most),
            "it is widened before it is told"
        );
        self.said += 1;
        self.told = None;
        Some(Word {
            epoch,
            said: self.said,
            replicas,
        })
    }

    /// Was this the last word of the reign, and no claim, so that it may be told again instead of another that says the same?
    pub fn is_last(&self, word: Word) -> bool {
        !word.is_claim()
            && self.leads == Some(word.epoch)
            && (self.epoch, self.said) == word.place()
    }

    /// The cluster has agreed to a word. It counts if nothing was said since.
    pub fn agreed(&mut self, word: Word) {
        if self.epoch == word.epoch && self.said == word.said {
            self.most = word.replicas;
            self.told = Some(word.replicas);
            self.has_word |= self.leads == Some(word.epoch);
        }
    }

    /// The cluster lists these already, and so do all records.
    pub fn confirm(&mut self, epoch: u64, listed: Replicas) {
        self.has_word |= self.leads == Some(epoch) && self.most == listed;
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{replica, set};
    use super::*;

    fn begun(epoch: u64, listed: &[u8]) -> Listing {
        let mut listing = Listing::new(replica(0));
        listing.begin(epoch, set(listed), 0);
        listing
    }

    #[test]
    fn a_record_keeps_whom_the_cluster_may_list() {
        let mut listing = begun(3, &[1]);
        assert!(!listing.may_list(1, set(&[0])), "the cluster may list 1");
        assert_eq!(listing.fewer(1), Some(set(&[0])));
        assert!(listing.may_list(1, set(&[0, 1, 2])));
        assert_eq!(listing.fewer(1), None);
        listing.widen(set(&[2]));
        assert!(!listing.may_list(2, set(&[0, 1])), "it may be told of 2");
        // A word that was not agreed to may be carried out yet.
        let word = listing.say(3, set(&[0])).expect("it leads");
        assert!(!listing.may_list(2, set(&[0, 1])));
        listing.agreed(word);
        assert!(listing.may_list(2, set(&[0, 1])));
    }

    #[test]
    fn a_list_that_was_read_is_said_before_anything_is_acknowledged() {
        let mut listing = Listing::new(replica(0));
        listing.begin_read(3, set(&[0]));
        assert_eq!(listing.acts(), None);
        listing.speak();
        let word = listing.say(3, set(&[0])).expect("it leads");
        listing.agreed(word);
        assert_eq!(listing.acts(), Some(3));
    }

    #[test]
    fn a_list_that_grows_is_said_as_one_that_shrinks() {
        let mut listing = begun(3, &[]);
        assert!(listing.is_told(set(&[0])), "a founder's list counts");
        listing.widen(set(&[0, 1]));
        assert!(!listing.is_told(set(&[0, 1])), "nobody has heard of it");
        let word = listing.say(3, set(&[0, 1])).expect("it leads");
        assert!(!listing.is_told(set(&[0, 1])), "nobody has agreed yet");
        listing.agreed(word);
        assert!(listing.is_told(set(&[0, 1])));
        assert!(!listing.is_told(set(&[0])));
        let lost = listing.say(3, set(&[0])).expect("it leads");
        assert!(!listing.is_told(set(&[0, 1])), "the other may count by now");
        assert!(listing.is_last(lost) && !listing.is_last(word));
        let again = listing.say(3, set(&[0, 1])).expect("it leads");
        listing.agreed(lost);
        assert!(!listing.is_told(set(&[0])));
        listing.agreed(again);
        assert!(listing.is_told(set(&[0, 1])));
    }

    #[test]
    fn a_claim_is_not_said_again_as_the_word_of_a_reign() {
        let mut listing = Listing::new(replica(0));
        listing.begin_read(3, set(&[0]));
        let claim = Word::claim(3, replica(0));
        assert!(!listing.is_last(claim));
        let word = listing.say(3, set(&[0])).expect("it leads");
        assert!(listing.is_last(word) && !word.is_claim());
    }

    #[test]
    fn who_leads_alone_by_force_acts_at_once_and_says_so_until_it_counts() {
        let mut listing = Listing::new(replica(0));
        listing.begin_alone(3);
        assert_eq!(listing.acts(), Some(3));
        assert!(!listing.is_told(set(&[0])));
        listing.speak();
        let word = listing.say(3, set(&[0])).expect("it leads");
        listing.agreed(word);
        assert!(listing.is_told(set(&[0])));
    }

    #[test]
    fn an_epoch_that_goes_on_forgets_nothing_and_a_new_one_begins_with_what_is_listed() {
        let mut listing = begun(3, &[]);
        listing.widen(set(&[2]));
        listing.end();
        assert_eq!(listing.leads(), None);
        assert_eq!(listing.acts(), None);
        listing.begin(3, Replicas::NONE, 0);
        assert_eq!(listing.most(), set(&[0, 2]));
        listing.begin(4, Replicas::NONE, 0);
        assert_eq!(listing.most(), set(&[0]));
        assert_eq!(listing.say(3, set(&[0])), None, "it leads another epoch");
    }

    #[test]
    fn nothing_is_acknowledged_before_the_first_word() {
        assert_eq!(begun(3, &[]).acts(), Some(3), "nobody else is listed");
        let mut listing = begun(3, &[1, 2]);
        assert_eq!((listing.acts(), listing.speaks()), (None, None));
        listing.speak();
        assert_eq!(listing.speaks(), Some(3));
        let early = listing.say(3, set(&[0])).expect("it leads");
        let word = listing.say(3, set(&[0, 1])).expect("it leads");
        listing.agreed(early);
        assert_eq!(listing.acts(), None, "another word may come after it");
        listing.agreed(word);
        assert_eq!(listing.acts(), Some(3));
        // The same epoch, with records that are new again.
        listing.begin(3, set(&[0, 1]), 2);
        assert_eq!(listing.acts(), None);
        listing.confirm(3, set(&[0]));
        assert_eq!(listing.acts(), None, "the cluster may list more");
        listing.confirm(3, set(&[0, 1]));
        assert_eq!(listing.acts(), Some(3));
    }
}
