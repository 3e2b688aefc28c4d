//! Each deliberate bug is found: by the search, or by the test that knows it.

mod ballots;
mod search;

use daruma_base::Lsn;
use daruma_group::commit::{
    Bug, Clock, Clocks, Epoch, EpochId, Follower, FollowerInput, FollowerOutput, Fork, History,
    Listing, Primary, PrimaryInput, PrimaryOutput, Record, ReplicaConfig, ReplicaId, Replicas,
    Rules, plant,
};
use search::{Budget, World, find};

/// States that a search may visit: what is looked for lies well within them.
const STATES_MAX: usize = 1_000_000;
/// Walks in which a bug of the votes shows itself.
const WALKS_MAX: u64 = 20_000;

const NOTHING: Budget = Budget {
    appends: 0,
    breaks: 0,
    losses: 0,
    crashes: 0,
    promotions: 0,
    repeats: 0,
};

fn is_found(bug: Bug, start: fn(Budget) -> World, budget: Budget) {
    let start = start(budget);
    plant(Some(bug));
    let events = find(start, STATES_MAX);
    plant(None);
    let events = events.unwrap_or_else(|| panic!("{bug:?} is not found"));
    println!(
        "{bug:?}: {} events\n  {}",
        events.len(),
        events.join("\n  ")
    );
}

/// Scenarios 5, 6 and 7.
#[test]
fn bugs_of_joining_and_leaving_are_found() {
    is_found(
        Bug::LeaveWaitedFirst,
        World::joined,
        Budget {
            losses: 1,
            ..NOTHING
        },
    );
    is_found(
        Bug::ListTooEarly,
        World::fresh,
        Budget {
            appends: 1,
            ..NOTHING
        },
    );
    is_found(
        Bug::ForgetTheQuestion,
        World::fresh,
        Budget {
            losses: 1,
            ..NOTHING
        },
    );
}

/// Scenario 31: a load waits for a replica that is lost.
#[test]
fn writers_who_are_held_back_for_nobody_are_found() {
    is_found(
        Bug::HoldBackForTheLost,
        World::joined,
        Budget {
            losses: 2,
            ..NOTHING
        },
    );
}

/// Commits wait for the lease where nobody else is waited for, and writers do not.
#[test]
fn writers_are_not_held_back_for_a_lease() {
    let record = Record::first(EpochId { number: 2, id: 20 }, replica(0));
    let config = ReplicaConfig {
        replica: replica(1),
        synchronous: false,
    };
    let rules = Rules {
        synchronous: true,
        required: 0,
        window_bytes: 10,
        leased: true,
        replicas: vec![config],
    };
    let mut primary = Primary::new(replica(0), record, Lsn(1), Lsn::NONE, rules.clone());
    let (end, here) = (Lsn(90), Lsn(90));
    let mut told = primary.step(PrimaryInput::Stand(true));
    told.extend(primary.step(PrimaryInput::Log { end, here }));
    told.extend(primary.step(PrimaryInput::Up(replica(1))));
    told.extend(primary.step(PrimaryInput::Ack {
        from: replica(1),
        epoch: record.epoch,
        here: Lsn(85),
    }));
    assert_eq!(told, [PrimaryOutput::Raise(Lsn(90)), PrimaryOutput::Open]);
    let replicas = vec![ReplicaConfig {
        synchronous: true,
        ..config
    }];
    let told = primary.step(PrimaryInput::Configure(Rules { replicas, ..rules }));
    assert!(told.contains(&PrimaryOutput::HoldBack(true)), "{told:?}");
}

/// Scenario 12 and what a commit is.
#[test]
fn bugs_of_acknowledging_are_found() {
    is_found(
        Bug::AcknowledgeUnsynced,
        World::joined,
        Budget {
            appends: 1,
            ..NOTHING
        },
    );
    is_found(
        Bug::RaiseUnsynced,
        World::joined,
        Budget {
            appends: 1,
            ..NOTHING
        },
    );
}

/// Scenarios 4, 8 and 14.
#[test]
fn bugs_of_promotion_are_found() {
    let budget = Budget {
        appends: 1,
        promotions: 1,
        ..NOTHING
    };
    is_found(Bug::PromotedWaitsForNobody, World::joined, budget);
    is_found(Bug::KeepTail, World::joined, budget);
    is_found(Bug::FollowOlder, World::joined, budget);
    is_found(
        Bug::GoOnWhenRefused,
        World::joined,
        Budget {
            losses: 1,
            ..budget
        },
    );
    is_found(
        Bug::OpenAlone,
        World::joined,
        Budget {
            crashes: 1,
            ..budget
        },
    );
}

fn with_bug(bug: Bug, is_right: impl Fn() -> bool) {
    assert!(is_right(), "without a bug");
    plant(Some(bug));
    let right = is_right();
    plant(None);
    assert!(!right, "{bug:?} is not found");
}

fn replica(number: u8) -> ReplicaId {
    ReplicaId::new(number).unwrap()
}

/// Scenario 13: two nodes recovered alone and chose the same number.
#[test]
fn epochs_that_are_compared_by_number_are_found() {
    let epoch = |number, id, start| Epoch {
        name: EpochId { number, id },
        start: Lsn(start),
    };
    with_bug(Bug::CompareNumbers, || {
        let mine = History::new(vec![epoch(1, 10, 0), epoch(2, 20, 5)]).unwrap();
        let theirs = History::new(vec![epoch(1, 10, 0), epoch(2, 21, 5)]).unwrap();
        let mut follower = Follower::new(
            replica(1),
            EpochId { number: 2, id: 20 },
            mine.clone(),
            Lsn(9),
            Lsn(5),
        );
        let lead = FollowerInput::Lead {
            epoch: EpochId { number: 2, id: 21 },
            history: theirs.clone(),
        };
        let refused = matches!(follower.step(lead)[..], [FollowerOutput::Depose { .. }]);
        refused && mine.fork(Lsn(9), &theirs) == Fork::At(Lsn(5))
    });
}

#[test]
fn acknowledgements_of_another_epoch_that_count_are_found() {
    with_bug(Bug::CountOtherEpoch, || {
        let record = Record::first(EpochId { number: 2, id: 20 }, replica(0));
        let record = Record {
            members: record.members.with(replica(1)),
            ..record
        };
        let config = ReplicaConfig {
            replica: replica(1),
            synchronous: true,
        };
        let rules = Rules {
            synchronous: true,
            required: 0,
            window_bytes: 10,
            leased: false,
            replicas: vec![config],
        };
        let mut primary = Primary::new(replica(0), record, Lsn(1), Lsn::NONE, rules);
        primary.step(PrimaryInput::Log {
            end: Lsn(8),
            here: Lsn(8),
        });
        primary.step(PrimaryInput::Up(replica(1)));
        let ack = |id| PrimaryInput::Ack {
            from: replica(1),
            epoch: EpochId { number: 2, id },
            here: Lsn(8),
        };
        primary.step(ack(19)).is_empty()
            && primary
                .step(ack(20))
                .contains(&PrimaryOutput::Raise(Lsn(8)))
    });
}

#[test]
fn a_primary_that_goes_on_without_its_lease_is_found() {
    with_bug(Bug::LeaseForgotten, || {
        let record = Record::first(EpochId { number: 2, id: 20 }, replica(0));
        let rules = Rules {
            synchronous: true,
            required: 0,
            window_bytes: 10,
            leased: true,
            replicas: Vec::new(),
        };
        let mut primary = Primary::new(replica(0), record, Lsn(1), Lsn::NONE, rules);
        let log = |to| PrimaryInput::Log {
            end: Lsn(to),
            here: Lsn(to),
        };
        let before = primary.step(log(4));
        let during = primary.step(PrimaryInput::Stand(true));
        primary.step(PrimaryInput::Stand(false));
        let after = primary.step(log(8));
        let again = primary.step(PrimaryInput::Stand(true));
        let raised = |to| PrimaryOutput::Raise(Lsn(to));
        before.is_empty()
            && during == [raised(4), PrimaryOutput::Open]
            && after.is_empty()
            && again == [raised(8)]
    });
}

/// With all machines around it, `daruma_cluster` finds both as well.
#[test]
fn an_owner_that_forgets_the_clusters_list_is_found() {
    let begun = || {
        let mut listing = Listing::new(replica(0));
        listing.begin(2, Replicas::NONE.with(replica(1)), 0);
        listing
    };
    with_bug(Bug::ActBeforeWord, || begun().acts().is_none());
    with_bug(Bug::ShrinkUnasked, || {
        !begun().may_list(1, Replicas::NONE.with(replica(0)))
    });
}

/// Whoever is promoted by too few, or finds a word that too few have, lacks what was acknowledged.
#[test]
fn bugs_of_votes_are_found_by_walks() {
    let is_found = |bug| {
        let walk = |seed| ballots::walk(3, 0, 1_500, seed).err();
        plant(Some(bug));
        let found = (0..WALKS_MAX).find_map(walk);
        plant(None);
        println!("{bug:?}: {found:?}");
        assert!(found.is_some(), "{bug:?} is not found");
    };
    is_found(Bug::WordOfTooFew);
    is_found(Bug::PromiseOfTooFew);
    is_found(Bug::KeepOlder);
    is_found(Bug::ShrinkUnasked);
    is_found(Bug::ActBeforeWord);
}

/// Walks find it too seldom: one says a word that nobody hears, dies, is promoted, and another is, by those who know nothing of it.
#[test]
fn a_list_that_was_read_and_is_acted_upon_at_once_is_found() {
    with_bug(Bug::BelieveWhatWasRead, || {
        let mut listing = Listing::new(replica(0));
        listing.begin_read(2, Replicas::NONE.with(replica(0)));
        listing.acts().is_none()
    });
}

/// Scenarios 10 and 11.
#[test]
fn a_progress_clock_that_stands_is_found() {
    with_bug(Bug::NoProgressClock, || {
        let mut clocks = Clocks::new(replica(1), 1000, 0);
        clocks.progress(Lsn(9), Lsn(5), 0);
        clocks.heard(999);
        clocks.expired(1000) == Some(Clock::Progress)
    });
}

#[test]
fn every_bug_has_a_test() {
    let text = include_str!("planted.rs");
    for bug in Bug::ALL {
        assert!(text.contains(&format!("Bug::{bug:?}")), "{bug:?}");
    }
}
