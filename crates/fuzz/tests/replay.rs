//! Every input that was kept, and mutations of them from a seed, on the stable toolchain.
//!
//! `DARUMA_FUZZ_SEED` is another seed than the one that CI has, `DARUMA_FUZZ_RUNS` makes it longer. An input that fails is written out in hex; put it
//! into `fuzz/corpus/TARGET` as a file, with a name that says what it found.

use daruma_fuzz::mutate::Chance;
use daruma_fuzz::{TARGETS, Target};
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

const RUNS: u64 = 3000;

fn corpus(target: &Target) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(target.name);
    let mut paths: Vec<PathBuf> = fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.sort();
    let read = |path: PathBuf| {
        let bytes = fs::read(&path).expect("an input");
        (path, bytes)
    };
    paths.into_iter().map(read).collect()
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn seed() -> u64 {
    number("DARUMA_FUZZ_SEED").unwrap_or(1)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Deep recursion is part of what is tried; the stack is what a connection has.
fn on_a_connections_stack(work: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(8 << 20).spawn(work);
    let joined = thread.expect("a thread").join();
    if let Err(panic) = joined {
        std::panic::resume_unwind(panic);
    }
}

#[test]
fn kept_inputs_are_harmless() {
    on_a_connections_stack(|| {
        for target in TARGETS {
            let inputs = corpus(target);
            assert!(inputs.len() >= 2, "{} has inputs", target.name);
            for (path, bytes) in inputs {
                let done = catch_unwind(AssertUnwindSafe(|| (target.run)(&bytes)));
                assert!(done.is_ok(), "{}", path.display());
            }
        }
    });
}

#[test]
fn mutated_inputs_are_harmless() {
    on_a_connections_stack(|| {
        let seed = seed();
        println!("DARUMA_FUZZ_SEED={seed}");
        for target in TARGETS {
            let inputs: Vec<Vec<u8>> = corpus(target).into_iter().map(|(_, bytes)| bytes).collect();
            let mut chance = Chance::new(seed);
            for run in 0..number("DARUMA_FUZZ_RUNS").unwrap_or(RUNS) {
                let bytes = chance.mutate(&inputs);
                let done = catch_unwind(AssertUnwindSafe(|| (target.run)(&bytes)));
                let name = target.name;
                assert!(
                    done.is_ok(),
                    "{name}, seed {seed}, run {run}: {}",
                    hex(&bytes)
                );
            }
        }
    });
}

#[test]
fn a_seed_makes_the_same_inputs() {
    let inputs = [b"one".to_vec(), b"another".to_vec()];
    let made = |seed| {
        let mut chance = Chance::new(seed);
        (0..50).map(|_| chance.mutate(&inputs)).collect::<Vec<_>>()
    };
    assert_eq!(made(7), made(7));
    assert_ne!(made(7), made(8));
}
