//! Every order of events of a group of three, searched completely.
#![cfg(not(feature = "planted-bugs"))]

mod search;

use search::{Budget, World, find, visit_all};

const NOTHING: Budget = Budget {
    appends: 0,
    breaks: 0,
    losses: 0,
    crashes: 0,
    promotions: 0,
    repeats: 0,
};

fn complete(name: &str, world: World) {
    let states = visit_all(world).unwrap_or_else(|violation| panic!("{name}: {violation}"));
    println!("{name}: {states} states");
    assert!(states > 500, "{states} states are no search");
}

#[test]
fn commits_beside_losses_and_breaks() {
    complete(
        "commits",
        World::joined(Budget {
            appends: 3,
            ..NOTHING
        }),
    );
    complete(
        "loss, break",
        World::joined(Budget {
            appends: 2,
            losses: 1,
            breaks: 1,
            ..NOTHING
        }),
    );
    complete(
        "losses, repeat",
        World::joined(Budget {
            appends: 1,
            losses: 2,
            repeats: 1,
            ..NOTHING
        }),
    );
}

#[test]
fn commits_that_need_secondaries() {
    complete(
        "loss",
        World::joined_requiring(
            2,
            Budget {
                appends: 2,
                losses: 1,
                ..NOTHING
            },
        ),
    );
}

#[test]
fn commits_beside_crashes() {
    complete(
        "crashes",
        World::joined(Budget {
            appends: 1,
            crashes: 2,
            ..NOTHING
        }),
    );
    complete(
        "crash, loss, break",
        World::joined(Budget {
            appends: 1,
            crashes: 1,
            losses: 1,
            breaks: 1,
            ..NOTHING
        }),
    );
}

#[test]
fn commits_beside_a_promotion() {
    let budget = Budget {
        appends: 1,
        promotions: 1,
        ..NOTHING
    };
    complete(
        "promotion, loss",
        World::joined(Budget {
            losses: 1,
            ..budget
        }),
    );
    complete(
        "promotion, break",
        World::joined(Budget {
            breaks: 1,
            ..budget
        }),
    );
    complete(
        "promotion, repeat",
        World::joined(Budget {
            repeats: 1,
            ..budget
        }),
    );
}

#[test]
fn a_loss_and_a_promotion() {
    let budget = Budget {
        appends: 1,
        promotions: 1,
        losses: 1,
        ..NOTHING
    };
    complete("promotion, loss", World::joined(budget));
}

#[test]
fn a_crash_and_a_promotion() {
    let budget = Budget {
        appends: 1,
        promotions: 1,
        crashes: 1,
        ..NOTHING
    };
    complete("crash, promotion", World::joined(budget));
}

/// There and back. With a commit as well it is too much to search completely, so the shortest histories are.
#[test]
fn two_promotions() {
    let budget = Budget {
        promotions: 2,
        ..NOTHING
    };
    complete("promotions", World::joined(budget));
    let found = find(
        World::joined(Budget {
            appends: 1,
            ..budget
        }),
        20_000,
    );
    assert!(found.is_none(), "{found:#?}");
}

#[test]
fn joining() {
    complete(
        "joining",
        World::fresh(Budget {
            appends: 2,
            ..NOTHING
        }),
    );
    complete(
        "joining, loss",
        World::fresh(Budget {
            appends: 1,
            losses: 1,
            ..NOTHING
        }),
    );
    complete(
        "joining, promotion",
        World::fresh(Budget {
            promotions: 1,
            ..NOTHING
        }),
    );
    complete(
        "joining, crash",
        World::fresh(Budget {
            crashes: 1,
            promotions: 1,
            ..NOTHING
        }),
    );
}
