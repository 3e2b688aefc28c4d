//! The simulation against deliberate bugs: each must be caught, or the simulation proves nothing.
//!
//! `cargo test --profile sim -p daruma-proof --features planted-bugs --test planted`
#![cfg(feature = "planted-bugs")]

use daruma_proof::{Mode, copies, run, several};
use daruma_storage::{Bug, plant};

/// Seeds tried before a bug counts as missed.
const SEEDS: u64 = 1500;

/// The first seed that notices the bug, and what it says.
fn catches(bug: Bug, mode: Mode) -> Option<(u64, String)> {
    plant(Some(bug));
    let caught = (0..SEEDS).find_map(|seed| {
        let (_, result) = run(seed, mode, None);
        result.err().map(|violation| (seed, violation.0))
    });
    plant(None);
    caught
}

fn all_are_caught(mode: Mode, bugs: impl Iterator<Item = Bug>) {
    // A planted bug may well end in a panic of the engine, which the run reports as a violation.
    std::panic::set_hook(Box::new(|_| {}));
    let mut missed = Vec::new();
    for bug in bugs {
        match catches(bug, mode) {
            Some((seed, what)) => {
                let what: String = what.chars().take(150).collect();
                println!("{mode:?}, {bug:?}: caught by seed {seed}: {what}");
            }
            None => missed.push(bug),
        }
    }
    let _ = std::panic::take_hook();
    assert!(
        missed.is_empty(),
        "{mode:?}: not caught in {SEEDS} seeds: {missed:?}"
    );
}

#[test]
fn every_planted_bug_is_caught_in_classic_mode() {
    all_are_caught(
        Mode::Classic,
        Bug::ALL.into_iter().filter(|b| b.is_classic()),
    );
}

#[test]
fn every_planted_bug_is_caught_in_accelerated_mode() {
    let bugs = Bug::ALL.into_iter().filter(|b| b.is_accelerated());
    all_are_caught(Mode::Accelerated, bugs);
}

#[test]
fn committing_in_each_database_in_turn_is_caught() {
    plant(Some(Bug::CommitInTurn));
    let caught = several(1, 1_000);
    plant(None);
    let violation = caught.expect_err("not caught");
    println!("CommitInTurn: caught: {}", violation.0);
}

#[test]
fn a_copy_whose_word_is_taken_for_its_origins_is_caught() {
    std::panic::set_hook(Box::new(|_| {}));
    for bug in [Bug::BelieveCopies, Bug::AskCopies] {
        plant(Some(bug));
        let caught = (0..SEEDS).find_map(|seed| copies(seed).err());
        plant(None);
        let violation = caught.unwrap_or_else(|| panic!("{bug:?}: not caught in {SEEDS} seeds"));
        println!("{bug:?}: caught: {}", violation.0);
    }
    let _ = std::panic::take_hook();
}

/// Caught by the check that a disk which is only full ends no database.
#[test]
fn taking_the_room_that_ends_need_is_caught() {
    all_are_caught(Mode::Classic, [Bug::LeaveNoRoom].into_iter());
}
