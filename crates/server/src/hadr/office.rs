//! The right to lead a group whose primary a manager outside names (CLUSTER_TYPE = EXTERNAL): how a server gets it of the voters, and loses it.
//!
//! | FAILOVER, on a replica | done |
//! |---|---|
//! | it knows that it could not lead a database | 41142, and nobody is asked |
//! | too few voters answer, or the newest word that they have does not list it | 41142, and nothing has changed |
//! | listed | it asks for promises of a new epoch, reads the newest word once more, from those that promise, and leads |
//! | listed, and too few promise, or have a newer word that does not list it | 41131: the reign of whoever led may have ended |
//! | the newest word is the claim of a FORCE that was cut short, as far as they know | 41142: nobody has given up what was acknowledged; FORCE again |
//! | FORCE_FAILOVER_ALLOW_DATA_LOSS | whatever it lacks, it leads when enough voters keep a claim that lists it alone; if fewer answer it leads without them, and the error log says what that means |
//! | either, on a replica with the configuration only | 41142 |
//!
//! Who fails to lead after that without force leaves office, and the voters hear of no list of it: it would be one of this server alone.

use super::ballots::{Ballots, voters};
use super::failover::not_online;
use super::group::Group;
use super::owner::owner_epoch;
use super::warrant::Warrant;
use daruma_group::commit::{
    Call, ReplicaId, Replicas, Vote, Voters, Word, is_credible, newest_word, next_epoch,
};
use daruma_tsql::error::Result;
use daruma_tsql::messages;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Another may ask for promises while this server leads by force, which has it begin again.
const FORCE_TRIES: usize = 5;

/// The right to lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Office {
    pub epoch: u64,
    pub list: FirstList,
    /// What cannot be led is given up.
    pub is_forced: bool,
}

/// The list with which a reign begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FirstList {
    /// This replica alone, and that counts: the group begins here.
    Counts,
    /// Read from those who promised, or claimed by force with enough of them: it is said anew before anything is acknowledged.
    Read(Replicas),
    /// This replica alone by force, where too few voters are there to agree to anything.
    Alone,
}

impl Office {
    /// Are voters told who has everything, after the attempt to lead each database? Where it failed the list is of this server alone.
    pub(super) fn speaks(&self, leads_each: bool) -> bool {
        leads_each || self.is_forced
    }
}

/// Why a replica is not promoted.
#[derive(Debug, PartialEq, Eq)]
enum Refusal {
    /// Nothing has changed.
    Before(String),
    /// Others have promised, so that nobody may lead now.
    After(String),
}

/// What asks all voters: the votes of those that have agreed. There are none where this server itself refuses.
type Ask<'a> = dyn FnMut(Call) -> BTreeMap<ReplicaId, Vote> + 'a;

/// The office that enough voters have promised, from whom it has who has everything. `heard`: the newest epoch that this replica knows, and they may not.
fn by_promises(
    me: ReplicaId,
    voters: Voters,
    heard: u64,
    ask: &mut Ask<'_>,
) -> std::result::Result<Office, Refusal> {
    let looked = ask(Call::Look);
    // A promise that comes to nothing would end the present primary's reign as well.
    listed(me, voters, &looked).map_err(Refusal::Before)?;
    let known = looked.values().map(|v| v.promised).fold(heard, u64::max);
    let epoch = next_epoch(known, me);
    let epoch = epoch.ok_or_else(|| Refusal::Before("no number of an epoch is left".into()))?;
    let promised = ask(Call::Promise(epoch));
    if promised.is_empty() {
        let why = "another has asked it for a later promise";
        return Err(Refusal::Before(why.into()));
    }
    let listed = listed(me, voters, &promised).map_err(Refusal::After)?;
    Ok(Office {
        epoch,
        list: FirstList::Read(listed),
        is_forced: false,
    })
}

/// The newest list of those votes. `Err`: why this replica is not promoted by it.
fn listed(
    me: ReplicaId,
    voters: Voters,
    votes: &BTreeMap<ReplicaId, Vote>,
) -> std::result::Result<Replicas, String> {
    let by: Replicas = votes.keys().copied().collect();
    let word = newest_word(votes.values()).filter(|_| voters.is_promised(by));
    Err(match word {
        Some(word) if word.is_claim() => {
            "a promotion by force was cut short before anything was acknowledged, and only another one by force goes on"
                .into()
        }
        Some(word) if word.replicas.contains(me) => return Ok(word.replicas),
        Some(_) => {
            "the newest list of replicas that have everything does not have this one".into()
        }
        None => format!(
            "{} of {} replicas that vote have answered, and {} are needed",
            by.intersection(voters.0).count(),
            voters.0.count(),
            voters.promises()
        ),
    })
}

impl Group {
    /// By order of the manager, on this server.
    pub(super) fn take_office_by_vote(
        self: &Arc<Self>,
        warrant: &Warrant,
        ballots: &Ballots,
        forced: bool,
    ) -> Result<()> {
        let name = self.def().name.clone();
        if warrant.leads().is_some() && self.leads_each() && !forced {
            return Err(messages::error(41122, &[&name]));
        }
        let office = match forced {
            true => self
                .office_by_force(ballots)
                .ok_or_else(|| not_online(&name))?,
            false => self.office_by_vote(ballots)?,
        };
        ballots.take(office);
        // Who promised to another before it had an office has not left it.
        let promised = self.kept_vote().map_or(0, |vote| vote.promised);
        if promised > office.epoch {
            ballots.leave();
            return Err(not_online(&name));
        }
        warrant.news().tell();
        let led = self.take_office(warrant, office.epoch);
        if led.is_err() && !forced {
            // The manager has it tried again, or elsewhere.
            self.leave_office(warrant, ballots);
        }
        if led.is_ok() {
            self.is_offline.store(false, Ordering::Release);
        }
        led
    }

    /// A database that is led fell back to being followed, or could not be led: the manager may have it tried again here.
    fn leads_each(&self) -> bool {
        self.parts.lock().iter().all(|p| p.role().is_some())
    }

    /// Is each database of the group here, and able to be led, as far as is known?
    pub(super) fn could_lead_each(&self) -> bool {
        let def = self.def();
        let parts = self.parts.lock().clone();
        let able = |id: [u8; 16]| parts.iter().any(|p| p.id == id && p.could_be_led());
        def.databases.iter().all(|d| able(d.group_database_id))
    }

    fn office_by_vote(&self, ballots: &Ballots) -> Result<Office> {
        let name = self.def().name.clone();
        let voters = voters(&self.def());
        let mut ask = |call| self.poll(ballots, call, |by| voters.is_promised(by));
        let office = match self.could_lead_each() {
            true => by_promises(self.me, voters, self.newest_epoch(), &mut ask),
            false => Err(Refusal::Before(
                "a database is not here, or could not be led".into(),
            )),
        };
        let told = |why: &str| {
            self.common.log(&format!(
                "This server is not promoted in availability group '{name}': {why}."
            ));
        };
        office.map_err(|refusal| match refusal {
            Refusal::Before(why) => {
                told(&why);
                messages::error(41142, &[&name])
            }
            Refusal::After(why) => {
                told(&why);
                not_online(&name)
            }
        })
    }

    /// The newest epoch that this server knows, which voters may not: a database may have heard of a reign of which the group has not.
    fn newest_epoch(&self) -> u64 {
        let known = self.known_epoch();
        let parts = self.parts.lock().clone();
        let of_logs = parts.iter().map(|p| owner_epoch(p.epoch_number()));
        let of_logs = of_logs.filter(|epoch| is_credible(*epoch, known));
        of_logs.fold(known, u64::max)
    }

    /// Whoever answers keeps a claim that lists this server alone, which whoever is promoted later reads; what those know who do not answer may be
    /// lost. A server that has no vote yet begins with one; one with asynchronous commits has none.
    ///
    /// Enough voters that answer have to agree. Where fewer are left, this server leads without them: nothing else would bring the databases back.
    fn office_by_force(&self, ballots: &Ballots) -> Option<Office> {
        let voters = voters(&self.def());
        let forced = |epoch, list| Office {
            epoch,
            list,
            is_forced: true,
        };
        for _ in 0..FORCE_TRIES {
            let looked = self.poll(ballots, Call::Look, |_| false);
            let promised = looked.values().map(|v| v.promised);
            let epoch = next_epoch(promised.fold(self.newest_epoch(), u64::max), self.me)?;
            let word = Word::claim(epoch, self.me);
            let votes = self.poll_all(ballots, Call::Keep(word), |_| false);
            let alive: Replicas = votes.keys().copied().collect();
            let kept = votes.iter().filter(|(_, v)| v.grants(Call::Keep(word)));
            let kept: Replicas = kept.map(|(r, _)| *r).collect();
            if voters.0.contains(self.me) && !kept.contains(self.me) {
                continue;
            }
            // As many as to a promise, so that what is forced later comes after it.
            if voters.is_promised(kept) {
                return Some(forced(epoch, FirstList::Read(word.replicas)));
            }
            if !voters.is_promised(alive) {
                self.tell_that_it_is_alone(voters, kept);
                return Some(forced(epoch, FirstList::Alone));
            }
        }
        None
    }

    fn tell_that_it_is_alone(&self, voters: Voters, kept: Replicas) {
        self.common.log(&format!(
            "Availability group '{}' is led by force where {} of {} replicas that vote answer, and {} are needed. It acknowledges alone: where another replica \
             is promoted before they have heard of it, with or without force, what was acknowledged here is lost.",
            self.def().name,
            kept.intersection(voters.0).count(),
            voters.0.count(),
            voters.promises()
        ));
    }

    /// SET (ROLE = SECONDARY) and OFFLINE: this server leads no more, until it is promoted.
    pub(super) fn leave_office(self: &Arc<Self>, warrant: &Warrant, ballots: &Ballots) {
        ballots.leave();
        warrant.news().tell();
        self.step_down(warrant);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(numbers: &[u8]) -> Replicas {
        let replicas = numbers.iter().filter_map(|n| ReplicaId::new(*n));
        replicas.collect()
    }

    fn vote(promised: u64, said: u64, replicas: &[u8]) -> Vote {
        Vote {
            promised,
            word: Word {
                epoch: 16,
                said,
                replicas: set(replicas),
            },
        }
    }

    /// What three voters answer, one list of answers after the other, to the first of them.
    fn asked(answers: &[&[(u8, Vote)]]) -> std::result::Result<Office, Refusal> {
        let me = ReplicaId::new(0).expect("a replica");
        let mut answers = answers.iter();
        let mut ask = |_: Call| -> BTreeMap<ReplicaId, Vote> {
            let votes = answers.next().copied().unwrap_or_default().iter();
            votes
                .filter_map(|(n, vote)| Some((ReplicaId::new(*n)?, *vote)))
                .collect()
        };
        by_promises(me, Voters(set(&[0, 1, 2])), 0, &mut ask)
    }

    #[test]
    fn whoever_is_listed_leads_in_an_epoch_after_all_that_was_promised() {
        let looked = [(0, vote(16, 3, &[0, 1])), (1, vote(33, 4, &[0, 2]))];
        let promised = [(0, vote(48, 3, &[0, 1])), (2, vote(48, 5, &[0]))];
        let office = Office {
            epoch: 48,
            list: FirstList::Read(set(&[0])),
            is_forced: false,
        };
        assert_eq!(asked(&[&looked, &promised]), Ok(office));
    }

    #[test]
    fn a_promotion_that_fails_says_whether_the_old_primary_leads_on() {
        let before = |answers: &[&[(u8, Vote)]]| matches!(asked(answers), Err(Refusal::Before(_)));
        let after = |answers: &[&[(u8, Vote)]]| matches!(asked(answers), Err(Refusal::After(_)));
        let looked = [(0, vote(16, 3, &[0, 1])), (1, vote(16, 3, &[0, 1]))];
        assert!(before(&[&looked[..1]]), "too few answer");
        let newer = (2, vote(16, 4, &[1]));
        assert!(before(&[&[looked[0], newer]]), "it is not listed");
        assert!(before(&[&looked, &[]]), "it has promised itself away");
        let own = (0, vote(32, 3, &[0, 1]));
        assert!(after(&[&looked, &[own]]), "too few promise");
        let newer = (2, vote(32, 4, &[1]));
        assert!(after(&[&looked, &[own, newer]]), "it is listed no more");
    }

    #[test]
    fn who_could_not_lead_says_nothing_of_who_has_everything_but_by_force() {
        let office = |is_forced| Office {
            epoch: 48,
            list: FirstList::Read(set(&[0, 1])),
            is_forced,
        };
        assert!(office(false).speaks(true) && !office(false).speaks(false));
        assert!(office(true).speaks(true) && office(true).speaks(false));
    }
}
