//! The simulation against deliberate bugs: each must be caught, or the simulation proves nothing.
//!
//! `cargo test --profile sim -p daruma-proof --features planted-bugs --test planted`
#![cfg(feature = "planted-bugs")]

use daruma_proof::{Mode, run};
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

#[test]
fn every_planted_bug_is_caught() {
    // A planted bug may well end in a panic of the engine, which the run reports as a violation.
    std::panic::set_hook(Box::new(|_| {}));
    let mut missed = Vec::new();
    for bug in Bug::ALL {
        match catches(bug, Mode::Classic) {
            Some((seed, what)) => {
                let what: String = what.chars().take(150).collect();
                println!("{bug:?}: caught by seed {seed}: {what}");
            }
            None => missed.push(bug),
        }
    }
    let _ = std::panic::take_hook();
    assert!(missed.is_empty(), "not caught in {SEEDS} seeds: {missed:?}");
}
