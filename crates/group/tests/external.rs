//! Groups whose primary a manager outside names: nothing that was acknowledged is lost, whomever it names. More: DARUMA_BALLOT_WALKS, DARUMA_BALLOT_SEED.
#![cfg(not(feature = "planted-bugs"))]

mod ballots;

use ballots::{Walk, walk};

const STEPS: usize = 1_500;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|v| v.parse().ok())
}

fn walks(data: usize, without: usize) {
    let count = number("DARUMA_BALLOT_WALKS").unwrap_or(150);
    let seed = number("DARUMA_BALLOT_SEED").unwrap_or(1);
    let mut all = Walk::default();
    for n in 0..count {
        let done = walk(data, without, STEPS, seed + n).unwrap_or_else(|e| panic!("{e}"));
        all.reigns += done.reigns;
        all.acknowledged += done.acknowledged;
        all.shrunk += done.shrunk;
        all.forced += done.forced;
        all.forgotten += done.forgotten;
    }
    println!("{data} + {without}: {all:?}");
    let least = usize::try_from(count).unwrap_or(0);
    assert!(
        all.reigns > 2 * least
            && all.acknowledged > least
            && all.shrunk > least / 4
            && all.forced > least / 16
            && all.forgotten > least / 16,
        "{all:?} is no test"
    );
}

/// A list that only two had heard, of whom one had said it, was read by that one and acted upon at once; others knew nothing of it, and promoted another.
/// The seed found it in the walks of that time; the planted bug `BelieveWhatWasRead` does the same.
#[test]
fn a_list_that_does_not_count_yet_is_not_acted_upon() {
    let done = walk(2, 1, STEPS, 114);
    assert!(done.is_ok(), "{done:?}");
}

#[test]
fn nothing_is_lost_among_three() {
    walks(3, 0);
}

#[test]
fn nothing_is_lost_between_two_and_one_without_data() {
    walks(2, 1);
}

#[test]
fn nothing_is_lost_between_two() {
    walks(2, 0);
}

#[test]
fn nothing_is_lost_among_four_or_five() {
    walks(4, 0);
    walks(4, 1);
}
