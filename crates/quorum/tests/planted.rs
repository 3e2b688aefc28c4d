//! Each deliberate bug is found by the search.

mod search;

use daruma_quorum::{
    Bug, MemberId, Members, Situation, Witness, WitnessRules, plant, wanted_votes,
};
use search::{Harm, Scope, find, visit_all};

/// States that a search may visit: what is looked for lies within a tenth of them.
const STATES_MAX: usize = 3_000_000;

fn scope(harm: Harm, crashes: u8) -> Scope {
    Scope {
        nodes: 2,
        witness: true,
        terms: 3,
        changes: 2,
        crashes,
        adopts: false,
        harm,
    }
}

fn is_found(bug: Option<Bug>, scope: &Scope) {
    plant(bug);
    let events = find(scope, STATES_MAX);
    plant(None);
    let events = events.unwrap_or_else(|| panic!("{bug:?} in {scope:?} is not found"));
    println!(
        "{bug:?}, {:?}: {} events\n  {}",
        scope.harm,
        events.len(),
        events.join("\n  ")
    );
}

#[test]
fn bugs_of_the_machine_are_found() {
    for bug in Bug::ALL
        .into_iter()
        .filter(|b| *b != Bug::VotesForTheAbsent)
    {
        is_found(Some(bug), &scope(Harm::None, 0));
    }
}

/// A driver that breaks its promise: how soon it is found does not matter, so the deep search does.
fn harm_is_found(scope: &Scope) {
    let violation = visit_all(scope).expect_err("a violation");
    println!("{:?}: {violation}", scope.harm);
}

#[test]
fn answers_before_the_register_is_on_disk_are_found() {
    harm_is_found(&scope(Harm::ReplyBeforeFlush, 1));
}

/// No protocol survives this one, so it has to be noticed where the record is read: a record tells which write of which witness it is.
#[test]
fn a_witness_restored_from_an_old_copy_is_found() {
    harm_is_found(&scope(Harm::RestoredWitness, 0));
}

#[test]
fn votes_for_the_absent_are_found() {
    let all = Members::nodes(3);
    let alone = Members::nodes(1);
    let s = Situation {
        weighted: all,
        reachable: alone,
        left: Members::NONE,
        votes: alone,
        leader: MemberId::node(0).unwrap(),
        witness: Witness::None,
        dynamic_quorum: true,
        lower_priority: None,
        rules: WitnessRules::CleanLeave,
    };
    let keeps_quorum =
        |s: &Situation| wanted_votes(s).is_none_or(|v| s.answering().is_majority_of(v));
    assert!(keeps_quorum(&s));
    plant(Some(Bug::VotesForTheAbsent));
    let kept = keeps_quorum(&s);
    plant(None);
    assert!(!kept);
}
