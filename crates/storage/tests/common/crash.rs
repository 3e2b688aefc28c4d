//! The crash harness: work until the simulated machine stops, recover, perhaps with further stops, and compare.

use super::*;
use daruma_sim::Faults;

/// Random work under random stops.
pub struct Crashes {
    /// Databases to try, each with a seed of its own; `DARUMA_CRASH_RUNS` overrides it.
    pub runs: u64,
    pub crashes_per_run: u64,
    /// A stop comes within so many write-side calls.
    pub calls_max: u64,
    pub settings: Settings,
}

impl Crashes {
    /// `work` goes on until a call fails; it returns what a commit without an answer may have made of the model.
    pub fn run(
        &self,
        mut work: impl FnMut(&SimRandom, &Arc<Database>, TreeId, &mut Model) -> Option<Model>,
    ) {
        let first = from_environment("DARUMA_CRASH_SEED").unwrap_or(0);
        let runs = from_environment("DARUMA_CRASH_RUNS").unwrap_or(self.runs);
        for seed in first..first + runs {
            println!("seed {seed}");
            let disk = SimDisk::new(seed);
            let random = SimRandom::new(seed ^ 0xADCA);
            let (mut db, tree) = create(&disk, seed, 64, self.settings);
            let mut model = Model::new();
            for crash in 0..self.crashes_per_run {
                stop_within(&disk, 1 + random.below(self.calls_max));
                let maybe = work(&random, &db, tree, &mut model);
                drop(db);
                disk.crash();
                while random.below(2) == 0 {
                    stop_within(&disk, random.below(14));
                    drop(open(&disk, seed, 64));
                    disk.crash();
                }
                db = match open(&disk, seed, 64) {
                    Ok((db, _)) => db,
                    Err(error) => panic!("seed {seed}, crash {crash}: {error}"),
                };
                let found = dump(&db, tree);
                if Some(&found) == maybe.as_ref() {
                    model = found;
                } else {
                    assert!(
                        found == model,
                        "seed {seed}, crash {crash}: {}",
                        difference(&found, &model)
                    );
                }
            }
            settle(&db);
            assert!(dump(&db, tree) == model, "seed {seed}, after reverting");
        }
    }
}

fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// The machine stops after so many more write-side calls.
pub fn stop_within(disk: &SimDisk, calls: u64) {
    disk.set_faults(Faults {
        stop_at: Some(disk.calls() + calls),
        ..Faults::default()
    });
}

/// A state from which a phase begins: always the same one for the same seed.
pub struct Begun {
    pub disk: Arc<SimDisk>,
    /// `None` after a crash: then the phase opens it.
    pub db: Option<Arc<Database>>,
    pub tree: TreeId,
    /// What is committed, and must be there whatever happens.
    pub committed: Model,
}

/// Carries the phase out once to count its write-side calls; then again and again from the same beginning, stopped at
/// each of them in turn. After each stop recovery must find what was committed, and clean up to the end.
pub fn stop_everywhere(begin: impl Fn() -> Begun, phase: impl Fn(Begun) -> Result<()>) {
    let begun = begin();
    let disk = begun.disk.clone();
    let before = disk.calls();
    phase(begun).expect("nothing stops it");
    let calls = disk.calls() - before;
    assert!(calls > 0, "the phase writes nothing");
    for call in 0..calls {
        let at = format!("stopped at call {call} of {calls}");
        let begun = begin();
        let (disk, tree, committed) = (begun.disk.clone(), begun.tree, begun.committed.clone());
        stop_within(&disk, call);
        assert!(phase(begun).is_err(), "{at}: the phase does not notice");
        disk.crash();
        let (db, _) = open(&disk, 1, 96).unwrap_or_else(|e| panic!("{at}: {e}"));
        assert!(dump(&db, tree) == committed, "{at}");
        settle(&db);
        assert!(dump(&db, tree) == committed, "{at}, then cleaned");
        assert!(db.aborted_transactions().is_empty(), "{at}");
        let stats = db.version_stats();
        assert_eq!((stats.memory_bytes, stats.pages), (0, 0), "{at}: {stats:?}");
    }
}

/// The first few keys in which two states differ.
fn difference(found: &Model, expected: &Model) -> String {
    let keys = found.keys().chain(expected.keys());
    let differs = |key: &&Vec<u8>| found.get(*key) != expected.get(*key);
    let shown = keys.filter(differs).take(8).map(|key| {
        let of = |model: &Model| model.get(key).map(Vec::len);
        format!(
            "{}: found {:?}, expected {:?} bytes",
            String::from_utf8_lossy(key),
            of(found),
            of(expected)
        )
    });
    shown.collect::<Vec<_>>().join("; ")
}
