//! Every I/O of a scenario goes wrong in turn. Short here; all of them: `cargo xtask sim --every-io`.

use daruma_proof::{Copies, Mode, copies, every_io, several};

fn holds(mode: Mode, stride: u64, recovery_stride: u64) {
    match every_io(mode, 1, stride, recovery_stride) {
        Ok(done) => {
            println!("{mode:?}: {done:?}");
            assert!(done.calls > 150 && done.runs > 40, "{done:?}");
            assert!(done.recoveries_twice > 5, "{done:?}");
        }
        Err(violation) => panic!("{mode:?}: {}", violation.0),
    }
}

#[test]
fn classic_recovery_survives_each_io_going_wrong() {
    holds(Mode::Classic, 11, 5);
}

#[test]
fn accelerated_recovery_survives_each_io_going_wrong() {
    holds(Mode::Accelerated, 11, 5);
}

#[test]
fn a_transaction_over_two_databases_is_in_both_or_in_none() {
    match several(9, 12) {
        Ok(done) => {
            println!("{done:?}");
            assert!(done.calls > 300 && done.runs > 100, "{done:?}");
            assert!(done.recoveries_twice > 10, "{done:?}");
            assert!(done.committed > 0 && done.rolled_back > 0, "{done:?}");
        }
        Err(violation) => panic!("{}", violation.0),
    }
}

#[test]
fn a_restored_copy_beside_its_origin_answers_for_nobody() {
    let mut all = Copies::default();
    for seed in 0..6 {
        match copies(seed) {
            Ok(done) => all.add(&done),
            Err(violation) => panic!("{}", violation.0),
        }
    }
    println!("{all:?}");
    assert!(all.commits > 50 && all.drops > 1, "{all:?}");
    assert!(all.copies > 5 && all.copies_of_crashed > 2, "{all:?}");
    assert!(all.committed > 1 && all.rolled_back > 0, "{all:?}");
}
