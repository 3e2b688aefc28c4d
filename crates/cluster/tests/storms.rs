//! Faults by chance, in simulated time. More of them: DARUMA_CLUSTER_FAULTS (in all), DARUMA_CLUSTER_SEED.
#![cfg(not(feature = "planted-bugs"))]

#[allow(dead_code, reason = "each test uses a part of it")]
mod simulation;

use daruma_cluster::{Command, Timing};
use simulation::{FAIR, LATE, Net, Plan, World, forced, hasty, member, ms, storm};

const FAULTS_PER_STORM: u64 = 200;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|v| v.parse().ok())
}

fn storms(net: Net, timing: Timing, seed: u64) {
    storms_with(net, timing, seed, false);
}

/// Storms; how many members left for good.
fn storms_with(net: Net, timing: Timing, seed: u64, departures: bool) -> usize {
    let shapes = [
        (2, false),
        (2, true),
        (3, false),
        (3, true),
        (4, true),
        (5, false),
    ];
    let faults = number("DARUMA_CLUSTER_FAULTS").unwrap_or(FAULTS_PER_STORM * shapes.len() as u64);
    let seed = number("DARUMA_CLUSTER_SEED").unwrap_or(seed);
    let (mut done, mut failovers, mut steps, mut departed) = (0, 0, 0, 0);
    for n in 0.. {
        let (nodes, witness) = shapes[n as usize % shapes.len()];
        let plan = Plan {
            nodes,
            witness,
            net,
            timing,
            faults: FAULTS_PER_STORM,
            departures,
            seed: seed + n,
        };
        let world = storm(&plan).unwrap_or_else(|e| panic!("{e}"));
        done += FAULTS_PER_STORM;
        failovers += world.failovers;
        steps += world.steps;
        departed += world.count() - world.remaining();
        if done >= faults {
            break;
        }
    }
    println!("{done} faults, {failovers} epochs of the group, {steps} events");
    assert!(failovers > done / 40, "{failovers} failovers are no test");
    departed
}

#[test]
fn one_acts_on_a_fair_network() {
    storms(FAIR, Timing::default(), 1);
}

#[test]
fn one_acts_where_only_the_fence_keeps_owners_apart() {
    storms(FAIR, hasty(), 2_000_000);
}

#[test]
fn one_acts_while_members_leave_for_good() {
    let departed = storms_with(FAIR, Timing::default(), 3_000_000, true);
    assert!(departed > 0, "nobody left");
    let departed = storms_with(LATE, Timing::default(), 4_000_000, true);
    assert!(departed > 0, "nobody left");
}

#[test]
fn one_acts_when_a_quarter_of_the_messages_is_late() {
    storms(LATE, Timing::default(), 1_000_000);
}

/// The node that is left may be the last to know who owns the group: nobody acts before an administrator says who, and then in an epoch
/// that none of those who are gone was given.
#[test]
fn a_forced_quorum_gives_groups_to_nobody() {
    for seed in 0..60 {
        let (nodes, witness) = [(2, true), (3, false), (3, true), (4, true), (5, false)][seed % 5];
        forced(nodes, witness, seed as u64).unwrap_or_else(|e| panic!("{e}"));
    }
}

/// Whoever had everything has it until the new owner acknowledges something, before which it says who has that.
#[test]
fn a_successor_that_dies_before_its_first_word_is_replaced() {
    for seed in 0..20 {
        let mut world =
            World::with_group(5, false, FAIR, Timing::default(), seed).expect("a cluster");
        let first = world.owner().expect("an owner");
        let all = |w: &World| {
            let groups = &w.machine(first).state().groups;
            groups.iter().all(|g| g.in_sync.len() == 5)
        };
        assert_eq!(world.run_until(ms(20_000), all), Ok(true));
        world.crash(first);
        let next = |w: &World| w.owner().is_some_and(|owner| owner != first);
        assert_eq!(world.run_until(ms(20_000), next), Ok(true));
        let second = world.owner().expect("an owner");
        world.crash(second);
        let last = |w: &World| w.owner().is_some_and(|o| o != first && o != second);
        assert_eq!(world.run_until(ms(20_000), last), Ok(true), "seed {seed}");
    }
}

/// The seed that found it: a node with the only vote settled two configurations in one step, wrote the second, and crashed before it
/// told of the first. The checker took the first for one that never settled.
#[test]
fn a_step_is_on_disk_whole() {
    let plan = Plan {
        nodes: 2,
        witness: true,
        net: FAIR,
        timing: Timing::default(),
        faults: FAULTS_PER_STORM,
        departures: false,
        seed: 20_000_553,
    };
    storm(&plan).unwrap_or_else(|e| panic!("{e}"));
}

/// The same in few events: what such a step wrote is what the node goes on with.
#[test]
fn what_settled_in_a_step_that_was_cut_short_stays() {
    let mut world = World::with_group(2, false, FAIR, Timing::default(), 5).expect("a cluster");
    world.leave(1).expect("nothing is broken");
    world.run(ms(4000)).expect("nothing is broken");
    let alone = std::iter::once(member(0)).collect();
    assert_eq!(world.votes(), Some(alone));
    world.crash(0);
    world.start(0);
    for node in [Some(1), None, Some(0)] {
        world
            .wish(0, Command::Priority { node })
            .expect("nothing is broken");
    }
    world.cut_short = Some(0);
    world.run(ms(4000)).expect("nothing is broken");
    assert_eq!(world.cut_short, None, "a step was cut short");
    assert!(!world.is_up(0));
    world.start(0);
    let leads = world.run_until(ms(20_000), |w| w.leader() == Some(0));
    assert_eq!(leads, Ok(true));
    assert_eq!(world.machine(0).state().lower_priority, Some(0));
}
