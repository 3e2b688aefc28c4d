//! Cost of the storage layer alone: bulk insert, full-table update, point reads, commits. Prints one line each.
//! Run: cargo run --release -p daruma-storage --example layer_cost [directory]

use daruma_base::DatabaseId;
use daruma_storage::*;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

const ROWS: u64 = 121_317;

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

fn per(label: &str, start: Instant, count: u64) {
    let elapsed = start.elapsed();
    println!(
        "{label:<28} {:>9.1} ms {:>9.0} ns each",
        elapsed.as_secs_f64() * 1e3,
        elapsed.as_nanos() as f64 / count as f64
    );
}

fn main() -> Result<()> {
    let dir = std::env::args().nth(1).unwrap_or_else(|| ".".into());
    let dir = tempfile::tempdir_in(dir).expect("scratch directory");
    let engine = Engine::new(
        daruma_platform::env(),
        EngineConfig {
            buffer_pool_pages: 65_536,
            ..EngineConfig::default()
        },
    );
    let files = vec![
        spec(1, 1, &dir.path().join("t.mdf"), 8192),
        spec(2, 0, &dir.path().join("t.ldf"), 8192),
    ];
    let db = engine.create_database(DatabaseId(5), "t", files, Settings::default())?;
    let owner = Owner::new(1, Default::default());
    let txn = db.begin(&owner);
    let tree = db.tree(db.create_tree(&txn, 1)?)?;
    insert(&tree, &txn)?;
    let start = Instant::now();
    txn.commit(Durability::Full)?;
    per("commit of the load", start, 1);
    for _ in 0..4 {
        update(&db, &tree, &owner, &mut |p| p.insert(90, b'x'))?;
        update(&db, &tree, &owner, &mut |p| {
            p.remove(90);
        })?;
        let start = Instant::now();
        while db.background_step()? {}
        per("background", start, 1);
    }
    rollback(&db, &tree, &owner)?;
    points(&db, &tree, &owner)?;
    commits(&engine, &db, &tree)?;
    let log = db.log_stats();
    println!(
        "log: {} MB flushed in {} flushes, file {} MB",
        log.flushed_bytes >> 20,
        log.flushes,
        log.size_bytes >> 20
    );
    db.close()
}

fn insert(tree: &Arc<Tree>, txn: &Txn) -> Result<()> {
    let start = Instant::now();
    let mut batch = Batch::new();
    let payload: Vec<u8> = (0..100).collect();
    for row in 0..ROWS {
        batch.push(&row.to_be_bytes(), &payload, Stamp::default());
        if batch.len() == 500 || row + 1 == ROWS {
            tree.insert_batch(txn, &batch)?;
            batch.clear();
        }
    }
    per("insert", start, ROWS);
    Ok(())
}

fn update(
    db: &Arc<Database>,
    tree: &Arc<Tree>,
    owner: &Arc<Owner>,
    tail: &mut dyn FnMut(&mut Vec<u8>),
) -> Result<()> {
    let start = Instant::now();
    let txn = db.begin(owner);
    change_all(tree, &txn, tail)?;
    txn.commit(Durability::Full)?;
    per("update of every row", start, ROWS);
    Ok(())
}

fn change_all(tree: &Arc<Tree>, txn: &Txn, tail: &mut dyn FnMut(&mut Vec<u8>)) -> Result<()> {
    let mut scan = tree.scan(&txn.view(Isolation::Current), ScanSpec::all());
    let (mut batch, mut updates, mut refused) = (Batch::new(), UpdateBatch::new(), Vec::new());
    let mut row = Vec::new();
    while scan.next(&mut batch)? {
        updates.clear();
        for i in 0..batch.len() {
            row.clear();
            row.extend_from_slice(batch.payload(i));
            for at in [10, 20, 28] {
                row[at] = row[at].wrapping_add(1);
            }
            tail(&mut row);
            updates.push(batch.key(i), batch.stamp(i), &row);
        }
        tree.update_batch(txn, &updates, &mut refused)?;
        assert!(refused.is_empty());
    }
    Ok(())
}

fn rollback(db: &Arc<Database>, tree: &Arc<Tree>, owner: &Arc<Owner>) -> Result<()> {
    let txn = db.begin(owner);
    change_all(tree, &txn, &mut |_| {})?;
    let start = Instant::now();
    txn.rollback()?;
    per("rollback", start, ROWS);
    Ok(())
}

fn points(db: &Arc<Database>, tree: &Arc<Tree>, owner: &Arc<Owner>) -> Result<()> {
    let start = Instant::now();
    let count = 500_000;
    for i in 0..count {
        let txn = db.begin(owner);
        let view = txn.view(Isolation::ReadCommittedSnapshot);
        assert!(tree.get(&view, &(i * 7919 % ROWS).to_be_bytes())?.is_some());
    }
    per("point read", start, count);
    Ok(())
}

fn commits(engine: &Arc<Engine>, db: &Arc<Database>, tree: &Arc<Tree>) -> Result<()> {
    for threads in [1u64, 4, 16, 64] {
        let start = Instant::now();
        let each = if threads == 1 {
            5_000
        } else {
            20_000 / threads
        };
        std::thread::scope(|scope| {
            for t in 0..threads {
                scope.spawn(move || {
                    let owner = Owner::new(100 + t, Default::default());
                    for i in 0..each {
                        let txn = db.begin(&owner);
                        let key = (1u64 << 40 | threads << 32 | t << 24 | i).to_be_bytes();
                        tree.insert(&txn, &key, &[1; 100]).expect("inserts");
                        txn.commit(Durability::Full).expect("commits");
                        engine.release_locks(&owner);
                    }
                });
            }
        });
        let rate = (each * threads) as f64 / start.elapsed().as_secs_f64();
        println!("durable commits, {threads:>2} threads  {rate:>9.0} per second");
    }
    Ok(())
}
