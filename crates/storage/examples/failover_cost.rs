//! What a failover costs the storage layer: a primary with many rows open in one accelerated transaction is copied as a stop would
//! leave it, a secondary redoes the log, and is promoted. Prints the rate of redo, and the time from the promotion to the first
//! commit that is on disk.
//! Run: cargo run --release -p daruma-storage --example failover_cost [directory] [rows]

use daruma_base::{DatabaseId, Lsn};
use daruma_storage::*;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const DB: DatabaseId = DatabaseId(7);
const POOL_PAGES: usize = 32 << 10;
const BATCH: u64 = 1_000;

fn spec(id: u16, filegroup: u16, path: &Path, pages: u64) -> FileSpec {
    FileSpec {
        id,
        filegroup,
        logical_name: format!("f{id}"),
        path: path.to_path_buf(),
        size_pages: pages,
        growth: Growth::Pages(8192),
        max_pages: None,
    }
}

fn files(dir: &Path) -> Vec<FileSpec> {
    vec![
        spec(1, 1, &dir.join("f.mdf"), 8192),
        spec(2, 0, &dir.join("f.ldf"), 64 << 10),
    ]
}

fn engine() -> Arc<Engine> {
    let config = EngineConfig {
        buffer_pool_pages: POOL_PAGES,
        ..EngineConfig::default()
    };
    Engine::new(daruma_platform::env(), config)
}

/// Rows of one transaction that does not end, with the background work of a server.
fn fill(db: &Arc<Database>, txn: &Txn, tree: TreeId, rows: u64) -> Result<()> {
    let tree = db.tree(tree)?;
    let mut batch = Batch::new();
    for first in (0..rows).step_by(BATCH as usize) {
        batch.clear();
        for row in first..(first + BATCH).min(rows) {
            batch.push(&row.to_be_bytes(), &[7; 40], Stamp::default());
        }
        tree.insert_batch(txn, &batch)?;
        while db.background_step()? {}
    }
    db.flush_log()
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let dir = args.next().unwrap_or_else(|| "failover_cost.tmp".into());
    let rows: u64 = args.next().map_or(Ok(10_000_000), |n| n.parse())?;
    let (one, other) = (Path::new(&dir).join("one"), Path::new(&dir).join("other"));
    std::fs::create_dir_all(&one)?;
    std::fs::create_dir_all(&other)?;
    let settings = Settings {
        accelerated_recovery: true,
        ..Settings::default()
    };
    let db = engine().create_database(DB, "f", files(&one), settings)?;
    let owner = Owner::new(1, Default::default());
    let txn = db.begin(&owner);
    let tree = db.create_tree(&txn, 1)?;
    txn.commit(Durability::Full)?;
    let start = Instant::now();
    let open = db.begin(&owner);
    fill(&db, &open, tree, rows)?;
    println!(
        "{rows} rows open after {:.1} s",
        start.elapsed().as_secs_f64()
    );
    for file in ["f.mdf", "f.ldf"] {
        std::fs::copy(one.join(file), other.join(file))?;
    }
    let engine = engine();
    let secondary = Secondary::open(&engine, DB, "f", files(&other), None, Opening::default())?;
    let (start, from) = (Instant::now(), secondary.applied());
    let end = secondary.apply(Lsn::MAX)?;
    let (took, bytes) = (start.elapsed(), end.0 - from.0);
    let rate = bytes as f64 / took.as_secs_f64() / 1e6;
    println!(
        "redo: {} MB in {:.1} s, {rate:.0} MB/s",
        bytes >> 20,
        took.as_secs_f64()
    );
    let start = Instant::now();
    let promoted = secondary.promote(&|_| Ok(Outcome::RolledBack))?;
    println!("promotion: {:.1} ms", milliseconds(start.elapsed()));
    let txn = promoted.begin(&Owner::new(2, Default::default()));
    promoted.tree(tree)?.insert(&txn, b"first", b"write")?;
    txn.commit(Durability::Full)?;
    println!(
        "first commit on disk after {:.1} ms",
        milliseconds(start.elapsed())
    );
    let txn = promoted.begin(&Owner::new(2, Default::default()));
    let view = txn.view(Isolation::ReadCommittedSnapshot);
    let found = promoted.tree(tree)?.get(&view, &5u64.to_be_bytes())?;
    assert!(found.is_none(), "a row that was not committed");
    drop((view, txn));
    promoted.close()?;
    open.rollback()?;
    drop(open);
    db.close()?;
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}
