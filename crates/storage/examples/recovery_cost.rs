//! What recovery costs the storage layer: the log of one kind of work is repeated several times from the same files, and the best
//! times are printed. Memory is the largest that the process took in the last of them.
//! Run: cargo run --release -p daruma-storage --example recovery_cost [directory] [thousands of rows] [kind]
//!
//! Kinds: `small` (one inserted and one changed row in each transaction), `bulk` (all rows changed by each of four
//! transactions), `open` (the same, and the last is open at the end).

use daruma_base::DatabaseId;
use daruma_storage::*;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

const REPEATS: usize = 5;

fn specs(dir: &Path) -> Vec<FileSpec> {
    let spec = |id: u16, filegroup: u16, name: &str, pages: u64| FileSpec {
        id,
        filegroup,
        logical_name: name.into(),
        path: dir.join(name),
        size_pages: pages,
        growth: Growth::Pages(8_192),
        max_pages: None,
    };
    vec![spec(1, 1, "r.mdf", 16_384), spec(2, 0, "r.ldf", 40_000)]
}

fn engine() -> Arc<Engine> {
    let config = EngineConfig {
        buffer_pool_pages: 65_536,
        ..EngineConfig::default()
    };
    Engine::new(daruma_platform::env(), config)
}

fn put(tree: &Arc<Tree>, txn: &Txn, keys: std::ops::Range<u32>) -> Result<()> {
    for key in keys {
        tree.insert(txn, &key.to_be_bytes(), &[7; 200])?;
    }
    Ok(())
}

fn change(tree: &Arc<Tree>, txn: &Txn, keys: std::ops::Range<u32>, content: u8) -> Result<()> {
    let view = txn.view(Isolation::Current);
    for key in keys {
        let key = key.to_be_bytes();
        if let Some(entry) = tree.get(&view, &key)? {
            let mut payload = [7; 200];
            payload[..20].fill(content);
            tree.update(txn, &key, entry.stamp, &payload)?;
        }
    }
    Ok(())
}

/// The work whose log is to be repeated.
fn work(db: &Arc<Database>, tree: &Arc<Tree>, kind: &str, rows: u32) -> Result<()> {
    let owner = Owner::new(1, Default::default());
    match kind {
        "small" => {
            for row in 0..rows {
                let txn = db.begin(&owner);
                put(tree, &txn, rows + row..rows + row + 1)?;
                change(tree, &txn, row..row + 1, 9)?;
                txn.commit(Durability::Delayed)?;
            }
        }
        _ => {
            for content in 0..4 {
                let txn = db.begin(&owner);
                change(tree, &txn, 0..rows, content)?;
                if content == 3 && kind == "open" {
                    std::mem::forget(txn);
                } else {
                    txn.commit(Durability::Delayed)?;
                }
            }
        }
    }
    db.flush_log()
}

/// Files as a crash leaves them: the log is there, the pages are not.
fn make(dir: &Path, kind: &str, rows: u32, accelerated: bool) -> Result<()> {
    let settings = Settings {
        accelerated_recovery: accelerated,
        recovery_model: RecoveryModel::Full,
        delayed_durability: DelayedDurability::Allowed,
        ..Settings::default()
    };
    let db = engine().create_database(DatabaseId(5), "r", specs(dir), settings)?;
    let owner = Owner::new(1, Default::default());
    let txn = db.begin(&owner);
    let tree = db.create_tree(&txn, 1)?;
    let tree = db.tree(tree)?;
    put(&tree, &txn, 0..rows)?;
    txn.commit(Durability::Full)?;
    db.checkpoint()?;
    work(&db, &tree, kind, rows)
}

fn memory_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    let kb = peak.and_then(|p| p.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kb.unwrap_or(0) >> 10
}

fn measure(from: &Path, to: &Path) -> Result<()> {
    let mut best: Option<RecoveryReport> = None;
    let time = |r: &RecoveryReport| r.analysis_ms + r.redo_ms;
    for _ in 0..REPEATS {
        for spec in specs(from) {
            let name = spec.path.file_name().expect("a file");
            std::fs::copy(&spec.path, to.join(name)).expect("copies");
        }
        let opening = Opening {
            registration: None,
            watch: None,
            stop: None::<&AtomicBool>,
            epoch: None,
        };
        let engine = engine();
        // From here on the largest memory is counted anew.
        let _ = std::fs::write("/proc/self/clear_refs", "5");
        let (db, report) = engine.open_database_as(DatabaseId(5), "r", specs(to), opening)?;
        drop(db);
        if best.as_ref().is_none_or(|b| time(b) > time(&report)) {
            best = Some(report);
        }
    }
    let Some(best) = best else { return Ok(()) };
    println!(
        "log {:>5} MB  analysis {:>5} ms  redo {:>5} ms  together {:>5} ms  undo {:>5} ms  memory {:>5} MB",
        best.log_bytes >> 20,
        best.analysis_ms,
        best.redo_ms,
        time(&best),
        best.undo_ms,
        memory_mb()
    );
    Ok(())
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let dir = args.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let rows = args.next().and_then(|a| a.parse().ok()).unwrap_or(200) * 1_000;
    let only = args.next();
    for kind in ["small", "bulk", "open"] {
        for accelerated in [false, true] {
            if only.as_deref().is_some_and(|o| o != kind) {
                continue;
            }
            let (from, to) = (dir.join("recovery_from"), dir.join("recovery_to"));
            for dir in [&from, &to] {
                let _ = std::fs::remove_dir_all(dir);
                std::fs::create_dir_all(dir).expect("a directory");
            }
            make(&from, kind, rows, accelerated)?;
            print!("{kind:<6} accelerated {accelerated:<6}");
            measure(&from, &to)?;
            for dir in [&from, &to] {
                let _ = std::fs::remove_dir_all(dir);
            }
        }
    }
    Ok(())
}
