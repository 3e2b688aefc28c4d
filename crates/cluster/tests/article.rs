//! What administrators of clusters know, step by step: votes follow losses, and which losses stop the cluster.
#![cfg(not(feature = "planted-bugs"))]

#[allow(dead_code, reason = "each test uses a part of it")]
mod simulation;

use daruma_cluster::{Command, Outcome, Timing, WitnessPlace};
use daruma_quorum::{Members, WITNESS};
use simulation::{FAIR, GROUP, Net, World, member, ms};

/// Longer than anything that follows a loss; a witness that flapped is another matter.
const REST: u64 = 8000;

fn set(nodes: &[usize], witness: bool) -> Option<Members> {
    let nodes: Members = nodes.iter().map(|n| member(*n)).collect();
    Some(if witness { nodes.with(WITNESS) } else { nodes })
}

fn cluster(nodes: usize, witness: bool) -> World {
    let mut world =
        World::with_group(nodes, witness, FAIR, Timing::default(), 11).expect("a cluster");
    rest(&mut world);
    world
}

fn rest(world: &mut World) {
    world.run(ms(REST)).expect("nothing is broken");
}

fn told(world: &mut World, i: usize, command: Command) -> Outcome {
    let id = world.wish(i, command).expect("nothing is broken");
    world.run(ms(12_000)).expect("nothing is broken");
    world.outcomes.get(&id).cloned().expect("an answer")
}

fn windows(world: &mut World) {
    let done = told(world, 0, Command::WindowsRules { on: true });
    assert_eq!(done, Outcome::Done);
}

#[test]
fn windows_keeps_the_vote_of_a_node_that_stops_beside_a_share() {
    let mut world = cluster(2, true);
    windows(&mut world);
    assert_eq!(world.votes(), set(&[0, 1], true));
    world.leave(1).unwrap();
    rest(&mut world);
    assert!(!world.is_up(1));
    assert_eq!(world.votes(), set(&[0, 1], true), "nothing is adjusted");
    world.share_up = false;
    rest(&mut world);
    assert_eq!(world.leader(), None, "one of three");
    assert_eq!(world.owner(), None);
}

#[test]
fn a_node_that_stops_in_order_gives_its_vote_away() {
    for stops in [0, 1] {
        let mut world = cluster(2, true);
        world.leave(stops).unwrap();
        rest(&mut world);
        assert!(!world.is_up(stops));
        assert_eq!(world.votes(), set(&[1 - stops], false));
        world.share_up = false;
        rest(&mut world);
        assert_eq!(world.leader(), Some(1 - stops), "it stays up alone");
        assert_eq!(world.owner(), Some(1 - stops));
        world.share_up = true;
        world.start(stops);
        rest(&mut world);
        rest(&mut world);
        assert_eq!(world.votes(), set(&[0, 1], true), "and back");
    }
}

#[test]
fn a_node_without_weight_costs_nothing() {
    let mut world = cluster(2, true);
    let weight = Command::NodeWeight {
        node: 1,
        weight: false,
    };
    assert_eq!(told(&mut world, 0, weight), Outcome::Done);
    assert_eq!(
        world.votes(),
        set(&[0], false),
        "an odd number needs no witness"
    );
    world.crash(1);
    rest(&mut world);
    assert_eq!(world.votes(), set(&[0], false));
    world.share_up = false;
    rest(&mut world);
    assert_eq!(world.leader(), Some(0));
    let none = Command::NodeWeight {
        node: 0,
        weight: false,
    };
    assert!(matches!(told(&mut world, 0, none), Outcome::Refused(_)));
}

#[test]
fn the_share_first_then_the_voteless_node() {
    let mut world = cluster(2, true);
    world.share_up = false;
    rest(&mut world);
    let leader = world.leader().unwrap();
    assert_eq!(world.votes(), set(&[leader], false));
    world.crash(1 - leader);
    rest(&mut world);
    assert_eq!(world.leader(), Some(leader));
}

#[test]
fn last_man_standing() {
    let mut world = cluster(5, false);
    for left in (1..5).rev() {
        let leader = world.leader().unwrap();
        // With two left it is the voteless one that goes.
        let goes = match left {
            1 => (0..5).find(|i| world.is_up(*i) && *i != leader).unwrap(),
            _ => leader,
        };
        world.crash(goes);
        rest(&mut world);
        let leader = world.leader().expect("the rest goes on");
        assert!(world.owner().is_some());
        assert_eq!(
            world.votes().unwrap().count() % 2,
            1,
            "an odd number, {left} left"
        );
        assert!(world.votes().unwrap().contains(member(leader)));
    }
}

#[test]
fn half_of_four_at_once() {
    for (witness, survives) in [(true, true), (false, false)] {
        let mut world = cluster(4, witness);
        let votes = world.votes().unwrap();
        // Two with votes.
        let goes: Vec<usize> = (0..4)
            .filter(|i| votes.contains(member(*i)))
            .take(2)
            .collect();
        goes.iter().for_each(|i| world.crash(*i));
        rest(&mut world);
        assert_eq!(world.leader().is_some(), survives, "witness {witness}");
    }
}

#[test]
fn an_old_configuration_does_not_form_the_cluster() {
    let mut world = cluster(2, true);
    world.crash(1);
    rest(&mut world);
    let name = Command::Priority { node: Some(0) };
    assert_eq!(told(&mut world, 0, name), Outcome::Done);
    let newest = world.machine(0).register().held.origin;
    world.crash(0);
    rest(&mut world);
    world.start(1);
    rest(&mut world);
    // The witness told it what is newest: it forms the cluster with that, or not at all.
    let leads = world.leader().expect("node 1 and the share");
    assert_eq!(world.machine(leads).state().lower_priority, Some(0));
    assert!(world.machine(1).register().held.origin >= newest);
    assert_eq!(world.owner(), None, "what was acknowledged is not here");
}

#[test]
fn the_side_that_has_the_share_goes_on() {
    let mut world = cluster(2, true);
    let leader = world.leader().unwrap();
    world.cut(0, 1);
    world.cut(1, 0);
    rest(&mut world);
    assert_eq!(
        world.leader(),
        Some(leader),
        "both see the share: nothing moves"
    );
    world.cut_share(leader);
    rest(&mut world);
    assert_eq!(world.leader(), Some(1 - leader));
    assert!(!world.machine(leader).leads());
}

#[test]
fn the_named_node_loses_its_vote_even_if_it_leads() {
    let mut world = cluster(2, false);
    let leader = world.leader().unwrap();
    let named = Command::Priority {
        node: Some(leader as u8),
    };
    assert_eq!(told(&mut world, leader, named), Outcome::Done);
    rest(&mut world);
    assert_eq!(world.votes(), set(&[1 - leader], false));
    assert_eq!(world.leader(), Some(1 - leader));
}

#[test]
fn a_new_witness_takes_office_after_the_old_one_left_it() {
    let mut world = cluster(2, true);
    let place = WitnessPlace {
        path: "/other".into(),
        id: 200,
    };
    let set_witness = Command::SetWitness { place: Some(place) };
    assert_eq!(told(&mut world, 1, set_witness), Outcome::Done);
    rest(&mut world);
    assert_eq!(world.votes(), set(&[0, 1], true));
    world.records.remove(&100);
    world.crash(world.leader().unwrap());
    rest(&mut world);
    assert!(world.leader().is_some(), "the new one votes");
    let none = Command::SetWitness { place: None };
    let up = world.leader().unwrap();
    assert!(matches!(told(&mut world, up, none), Outcome::Unknown(_)));
}

fn other_share() -> WitnessPlace {
    let path = "/other".to_string();
    WitnessPlace { path, id: 200 }
}

#[test]
fn a_witness_that_hangs_is_replaced() {
    let mut world = cluster(2, true);
    world.share_hangs = Some(100);
    rest(&mut world);
    assert!(!world.votes().unwrap().contains(WITNESS), "it has failed");
    let place = Some(other_share());
    let done = told(&mut world, 0, Command::SetWitness { place });
    assert_eq!(done, Outcome::Done);
    rest(&mut world);
    assert_eq!(world.votes(), set(&[0, 1], true));
}

/// The new one hangs: nothing has changed, and the old one is asked as before.
#[test]
fn a_new_witness_that_hangs_leaves_the_old_one_in_office() {
    let mut world = cluster(2, true);
    world.share_hangs = Some(200);
    let place = Some(other_share());
    let id = world.wish(0, Command::SetWitness { place }).unwrap();
    for _ in 0..120 {
        world.run(ms(100)).unwrap();
        assert_eq!(world.votes(), set(&[0, 1], true));
    }
    assert!(!matches!(
        world.outcomes.get(&id),
        None | Some(Outcome::Done)
    ));
}

#[test]
fn a_witness_whose_answers_are_late_has_no_vote() {
    let mut world = cluster(2, true);
    world.share_takes = Some(ms(1400));
    rest(&mut world);
    assert_eq!(world.votes().map(|v| v.contains(WITNESS)), Some(false));
    world.share_takes = None;
    rest(&mut world);
    assert_eq!(world.votes(), set(&[0, 1], true));
}

/// Until another is in office, an old copy of the one that is would be believed.
#[test]
fn what_was_seen_of_a_witness_is_kept_while_another_is_made() {
    let mut world = cluster(2, true);
    let leader = world.leader().unwrap();
    let seen = world.machine(leader).seen().highest(100);
    assert!(seen > 0);
    let place = Some(other_share());
    world.wish(leader, Command::SetWitness { place }).unwrap();
    let mut looked = 0;
    for _ in 0..5000 {
        world.run(ms(1)).unwrap();
        let machine = world.machine(leader);
        if machine
            .state()
            .witness
            .as_ref()
            .is_some_and(|w| w.id == 100)
        {
            assert!(machine.seen().highest(100) >= seen);
            looked += u32::from(world.records.contains_key(&200));
        }
    }
    assert!(looked > 0, "it was in office no more at once");
}

#[test]
fn a_url_with_a_secret_is_no_place_of_a_witness() {
    let mut world = cluster(2, true);
    for path in [
        "https://a.blob.core.windows.net/c?sv=1&sig=secret",
        "s3://name:secret@host/bucket",
        "https://a.blob.core.windows.net/c#secret",
    ] {
        let path = path.to_string();
        let place = Some(WitnessPlace { path, id: 200 });
        let refused = told(&mut world, 0, Command::SetWitness { place });
        assert!(
            matches!(&refused, Outcome::Refused(why) if why.contains("CREDENTIAL")),
            "{refused:?}"
        );
    }
}

/// What monitors ask for is not worth waiting for.
#[test]
fn who_asks_a_dead_leader_is_told_soon() {
    let mut world = cluster(3, false);
    let leader = world.leader().unwrap();
    let other = (leader + 1) % 3;
    (0..3).filter(|i| *i != other).for_each(|i| world.crash(i));
    let id = world.wish(other, Command::Show).unwrap();
    world.run(ms(1500)).unwrap();
    assert!(matches!(world.outcomes.get(&id), Some(Outcome::Unknown(_))));
}

/// It would be counted on when the leader is lost, and nobody else has it.
#[test]
fn a_witness_that_only_the_leader_reaches_has_no_vote() {
    let mut world = cluster(4, true);
    assert_eq!(world.votes(), set(&[0, 1, 2, 3], true));
    let leader = world.leader().unwrap();
    let others: Vec<usize> = (0..4).filter(|i| *i != leader).collect();
    others.iter().skip(1).for_each(|i| world.cut_share(*i));
    world.run(ms(30_000)).unwrap();
    assert_eq!(world.votes(), set(&[0, 1, 2, 3], true), "one other has it");
    world.cut_share(others[0]);
    world.run(ms(30_000)).unwrap();
    assert_eq!(
        world.votes().map(|v| (v.count(), v.contains(WITNESS))),
        Some((3, false))
    );
    world.heal();
    rest(&mut world);
    assert_eq!(world.votes(), set(&[0, 1, 2, 3], true));
}

/// One vote of three is enough then, and neither it nor the witness's comes and goes.
#[test]
fn a_witness_that_the_only_other_node_does_not_reach_changes_the_votes_once() {
    let mut world = cluster(2, true);
    let leader = world.leader().unwrap();
    world.cut_share(1 - leader);
    world.run(ms(30_000)).unwrap();
    let settled = |world: &mut World| {
        world
            .machine(world.leader().unwrap())
            .register()
            .held
            .version
    };
    let version = settled(&mut world);
    world.run(ms(30_000)).unwrap();
    assert_eq!(settled(&mut world), version);
}

/// Two of four are lost at once, and the one that stays beside the leader does not reach the witness: then its vote is needed.
#[test]
fn a_witness_that_the_leader_alone_reaches_votes_where_it_is_needed() {
    let mut world = cluster(4, true);
    let leader = world.leader().unwrap();
    let others: Vec<usize> = (0..4).filter(|i| *i != leader).collect();
    others.iter().skip(1).for_each(|i| world.cut_share(*i));
    world.run(ms(30_000)).unwrap();
    world.crash(others[0]);
    world.crash(others[1]);
    world.run(ms(30_000)).unwrap();
    world.crash(others[2]);
    world.run(ms(30_000)).unwrap();
    assert_eq!(world.leader(), Some(leader), "one node and the witness");
}

#[test]
fn an_evicted_node_is_no_member() {
    let mut world = cluster(3, false);
    let owner = world.owner().unwrap();
    let goes = (0..3).find(|i| *i != owner).unwrap();
    let evict = Command::Evict { node: goes as u8 };
    assert_eq!(told(&mut world, owner, evict), Outcome::Done);
    let state = world.machine(world.leader().unwrap()).state().clone();
    assert_eq!(state.node(goes as u8), None);
    assert_eq!(state.nodes.len(), 2);
    assert_eq!(world.votes().unwrap().count(), 1);
    let owner_evicted = Command::Evict { node: owner as u8 };
    assert!(matches!(
        told(&mut world, owner, owner_evicted),
        Outcome::Refused(_)
    ));
}

#[test]
fn a_forced_quorum_beats_what_was_there() {
    let mut world = cluster(3, false);
    let stays = (0..3).find(|i| Some(*i) != world.leader()).unwrap();
    (0..3).filter(|i| *i != stays).for_each(|i| world.crash(i));
    rest(&mut world);
    assert_eq!(world.leader(), None);
    world.force(stays).unwrap();
    rest(&mut world);
    assert_eq!(world.leader(), Some(stays));
    (0..3).for_each(|i| world.start(i));
    rest(&mut world);
    assert_eq!(world.leader(), Some(stays), "the others follow");
    assert_eq!(world.votes(), set(&[0, 1, 2], false));
}

/// Its word still reaches them, theirs does not reach it: it is silent before long, so that they may elect.
#[test]
fn a_leader_that_hears_nobody_stands_in_nobodys_way() {
    let mut world = cluster(3, false);
    let leader = world.leader().unwrap();
    (0..3).for_each(|i| world.cut(i, leader));
    rest(&mut world);
    assert_ne!(world.leader().expect("two of three"), leader);
}

/// A question may be lost: it is asked again when its time is up.
fn departs(world: &mut World, goes: usize) {
    world.depart(goes).expect("nothing is broken");
    let has_left = world.run_until(ms(60_000), |w| w.has_departed(goes));
    assert_eq!(has_left, Ok(true), "{goes}: {:?}", world.outcomes);
    rest(world);
}

/// Whoever it is, those who stay go on, and need nothing of it.
#[test]
fn who_leaves_for_good_is_no_member() {
    for (nodes, witness) in [(2, false), (2, true), (3, false), (4, false), (5, true)] {
        for who_leads in [true, false] {
            let mut world = cluster(nodes, witness);
            let leader = world.leader().unwrap();
            let goes = match who_leads {
                true => leader,
                false => (0..nodes).rfind(|i| *i != leader).unwrap(),
            };
            // An owner hands over first.
            let entry = world.machine(leader).state().groups[0].clone();
            if entry.owner == Some(goes as u8) {
                let to =
                    (0..nodes as u8).find(|n| usize::from(*n) != goes && entry.in_sync.contains(n));
                let (group, epoch) = (entry.id, entry.epoch);
                let release = Command::Release { group, epoch, to };
                assert_eq!(told(&mut world, goes, release), Outcome::Done);
            }
            departs(&mut world, goes);
            let leader = world.leader().expect("the others go on");
            let state = world.machine(leader).state().clone();
            assert_eq!(state.nodes.len(), nodes - 1);
            assert_eq!(state.node(goes as u8), None);
            assert!(!state.groups[0].in_sync.contains(&(goes as u8)));
            let votes = world.votes().unwrap();
            assert_eq!(votes.count() % 2, 1);
            assert!(!votes.contains(member(goes)));
            assert!(world.owner().is_some());
        }
    }
}

/// The vote goes first, and with it the lead: the next leader finishes what was begun.
#[test]
fn an_evicted_leader_is_no_member() {
    // Every question arrives.
    let net = Net {
        lost_one_in: u64::MAX,
        ..FAIR
    };
    for seed in 0..60 {
        let mut world =
            World::with_group(3, false, net, Timing::default(), seed).expect("a cluster");
        rest(&mut world);
        let owner = world.owner().unwrap();
        let goes = (owner + 1) % 3;
        let others = [owner, (owner + 2) % 3];
        // Only one may lead for a while.
        for weight in [false, true] {
            for node in others.map(|n| n as u8) {
                let command = Command::NodeWeight { node, weight };
                assert_eq!(told(&mut world, owner, command), Outcome::Done);
            }
            rest(&mut world);
            assert_eq!(world.leader(), Some(goes));
        }
        let evict = Command::Evict { node: goes as u8 };
        assert_eq!(told(&mut world, owner, evict), Outcome::Done, "seed {seed}");
        rest(&mut world);
        let leader = world.leader().expect("the others go on");
        assert_ne!(leader, goes);
        assert_eq!(world.machine(leader).state().nodes.len(), 2);
    }
}

#[test]
fn nobody_leaves_whom_the_others_need() {
    let mut world = cluster(3, false);
    let owner = world.owner().unwrap();
    let refused = told(&mut world, owner, Command::Leave);
    assert!(
        matches!(&refused, Outcome::Refused(why) if why.contains("owns availability group 'g'"))
    );
    assert_eq!(
        told(&mut world, owner, Command::DynamicQuorum { on: false }),
        Outcome::Done
    );
    let (goes, lost) = ((owner + 1) % 3, (owner + 2) % 3);
    world.crash(lost);
    rest(&mut world);
    let refused = told(&mut world, goes, Command::Leave);
    assert!(
        matches!(&refused, Outcome::Refused(why) if why.contains("no quorum")),
        "{refused:?}"
    );
    // The last one.
    let mut world = cluster(2, false);
    let owner = world.owner().unwrap();
    departs(&mut world, 1 - owner);
    let group = GROUP;
    let epoch = world.machine(owner).state().groups[0].epoch;
    assert_eq!(
        told(&mut world, owner, Command::DropGroup { group, epoch }),
        Outcome::Done
    );
    let refused = told(&mut world, owner, Command::Leave);
    assert!(
        matches!(&refused, Outcome::Refused(why) if why.contains("no other node")),
        "{refused:?}"
    );
}

/// Whether an owner may leave is known before its group goes anywhere, and asking changes nothing.
#[test]
fn who_may_leave_is_known_before() {
    let mut world = cluster(3, false);
    let owner = world.owner().unwrap();
    let group = |world: &World| world.machine(owner).state().groups[0].clone();
    let before = group(&world);
    assert_eq!(told(&mut world, owner, Command::MayLeave), Outcome::Done);
    // Nobody may take the group.
    let (epoch, said) = (before.epoch, before.said + 1);
    let word = |automatic| Command::SetGroup {
        group: GROUP,
        epoch,
        said,
        in_sync: before.in_sync.clone(),
        automatic,
    };
    assert_eq!(told(&mut world, owner, word(Vec::new())), Outcome::Done);
    let refused = told(&mut world, owner, Command::MayLeave);
    assert!(
        matches!(&refused, Outcome::Refused(why) if why.contains("owns availability group 'g'")),
        "{refused:?}"
    );
    assert_eq!(
        told(&mut world, owner, word(before.automatic.clone())),
        Outcome::Done
    );
    // Those who stay would have no quorum.
    assert_eq!(
        told(&mut world, owner, Command::DynamicQuorum { on: false }),
        Outcome::Done
    );
    world.crash((owner + 1) % 3);
    rest(&mut world);
    let refused = told(&mut world, owner, Command::MayLeave);
    assert!(
        matches!(&refused, Outcome::Refused(why) if why.contains("no quorum")),
        "{refused:?}"
    );
    assert_eq!(world.owner(), Some(owner));
    assert_eq!(group(&world).epoch, epoch);
}
