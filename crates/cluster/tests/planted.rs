//! Each deliberate bug is found by the simulation.

mod departure;
#[allow(dead_code, reason = "each test uses a part of it")]
mod simulation;

use daruma_cluster::{Bug, Command, Timing, plant};
use daruma_group::commit::{Bug as GroupBug, plant as plant_in_group};
use simulation::{FAIR, GROUP, LATE, Net, Plan, World, forced, groups, hasty, member, ms, storm};

/// Storms that may pass before a bug is found.
const STORMS_MAX: u64 = 400;

fn is_found(bug: Bug) {
    plant(Some(bug));
    let mut found = None;
    for n in 0..STORMS_MAX {
        let (nodes, witness) = [(2, true), (3, false), (3, true), (4, true)][n as usize % 4];
        let net: Net = if n % 2 == 0 { LATE } else { FAIR };
        let plan = Plan {
            nodes,
            witness,
            net,
            timing: if n % 2 == 0 {
                Timing::default()
            } else {
                hasty()
            },
            faults: 80,
            departures: false,
            seed: n,
        };
        found = storm(&plan).err();
        if found.is_some() {
            break;
        }
    }
    plant(None);
    let found = found.unwrap_or_else(|| panic!("{bug:?} is not found"));
    println!("{bug:?}: {found}");
}

fn is_found_with_data(bug: GroupBug) {
    plant_in_group(Some(bug));
    let found = (0..STORMS_MAX).find_map(|seed| {
        let (nodes, witness) = [(2, true), (3, false), (3, true), (5, false)][seed as usize % 4];
        let plan = Plan {
            nodes,
            witness,
            net: if seed % 2 == 0 { LATE } else { FAIR },
            timing: Timing::default(),
            faults: 80,
            departures: false,
            seed,
        };
        groups(&plan).err()
    });
    plant_in_group(None);
    let found = found.unwrap_or_else(|| panic!("{bug:?} is not found"));
    println!("{bug:?}: {}", found.lines().next().unwrap_or_default());
}

#[test]
fn owners_that_forget_the_clusters_list_are_found() {
    is_found_with_data(GroupBug::ActBeforeWord);
    is_found_with_data(GroupBug::ShrinkUnasked);
}

#[test]
fn primaries_that_forget_their_lease_are_found() {
    is_found_with_data(GroupBug::LeaseForgotten);
}

#[test]
fn leases_that_are_too_long_are_found() {
    is_found(Bug::LeaseLongerThanFence);
    is_found(Bug::LeaseFromReply);
}

#[test]
fn leaders_that_do_not_wait_are_found() {
    is_found(Bug::NewLeaderDoesNotWait);
    is_found(Bug::MoveWithoutWait);
}

#[test]
fn leases_without_a_quorum_are_found() {
    is_found(Bug::ConfirmWithoutRound);
}

#[test]
fn owners_that_forget_that_they_were_restarted_are_found() {
    is_found(Bug::RestartKeepsEpoch);
}

#[test]
fn a_witness_that_is_replaced_in_office_is_found() {
    is_found(Bug::WitnessReplacedInOffice);
}

#[test]
fn forced_quorums_that_believe_old_owners_are_found() {
    let found = || (0..40).find_map(|seed| forced(3, seed % 2 == 0, seed).err());
    assert_eq!(found(), None);
    plant(Some(Bug::ForcedKeepsOwners));
    let told = found();
    plant(None);
    println!("{}", told.expect("the bug is not found"));
}

/// A leader whose word still reaches the others, and theirs does not reach it.
fn another_leads_when_nobody_is_heard() -> bool {
    let timing = Timing::default();
    let mut world = World::with_group(3, false, FAIR, timing, 3).expect("a cluster");
    let leader = world.leader().expect("a leader");
    (0..3).for_each(|i| world.cut(i, leader));
    world.run(ms(8000)).expect("nothing is broken");
    world.leader().is_some_and(|other| other != leader)
}

#[test]
fn leaders_without_a_quorum_that_stay_are_found() {
    assert!(another_leads_when_nobody_is_heard());
    plant(Some(Bug::LeadsWithoutQuorum));
    let other = another_leads_when_nobody_is_heard();
    plant(None);
    assert!(!other, "the bug does nothing");
}

/// Two nodes and a witness whose record goes back to an old copy: what the leader has seen tells it.
fn leads_beside_an_old_witness() -> bool {
    let mut world = World::with_group(2, true, FAIR, Timing::default(), 3).expect("a cluster");
    let leader = world.leader().expect("a leader");
    let old = world.records.clone();
    world.crash(1 - leader);
    world.run(ms(2000)).expect("nothing is broken");
    let on = Command::DropGroup {
        group: [0u8; 16],
        epoch: 0,
    };
    world.wish(leader, on).expect("nothing is broken");
    let weight = Command::Priority {
        node: Some(member(1).number()),
    };
    world.wish(leader, weight).expect("nothing is broken");
    world.run(ms(3000)).expect("nothing is broken");
    assert!(
        world.leader().is_some(),
        "one and the witness are two of three"
    );
    world.records = old;
    world.run(ms(5000)).expect("nothing is broken");
    assert!(world.machine(leader).state().group(&GROUP).is_some());
    world.leader().is_some()
}

#[test]
fn an_old_witness_that_is_believed_is_found() {
    assert!(!leads_beside_an_old_witness());
    plant(Some(Bug::OldWitnessAccepted));
    let leads = leads_beside_an_old_witness();
    plant(None);
    assert!(leads, "the bug does nothing");
}

/// The only vote leaves while nobody hears it, and is gone when the network is whole again.
fn goes_on_without_the_only_vote() -> Result<(), String> {
    let mut world = World::new(2, false, FAIR, Timing::default(), 3);
    world.run(ms(8000)).expect("nothing is broken");
    let leader = world.leader().expect("a leader");
    world.cut(leader, 1 - leader);
    world.depart(leader).expect("nothing is broken");
    world.run(ms(4000)).expect("nothing is broken");
    world.heal();
    world.run(ms(30_000)).expect("nothing is broken");
    match (world.has_departed(leader), world.leader()) {
        (true, Some(next)) if next != leader => Ok(()),
        found => Err(format!("{found:?}, {:?}", world.outcomes)),
    }
}

#[test]
fn nodes_that_leave_before_the_others_agree_are_found() {
    assert_eq!(goes_on_without_the_only_vote(), Ok(()));
    plant(Some(Bug::LeftBeforeAgreed));
    let told = goes_on_without_the_only_vote();
    plant(None);
    println!("{}", told.expect_err("the bug does nothing"));
}

/// Stopped between its certificate's end and its register's, a server is a node that nobody believes.
#[test]
fn a_certificate_that_goes_before_the_register_is_found() {
    plant(Some(Bug::ForgetCertificateFirst));
    let found = departure::each_stop().err();
    plant(None);
    println!(
        "{:?}: {}",
        Bug::ForgetCertificateFirst,
        found.expect("it is found")
    );
}
