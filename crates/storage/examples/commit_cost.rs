//! Commits per second of the storage layer alone: 1, 4, 16 and 64 sessions, durable and delayed, each commit one inserted
//! row. Prints commits and log flushes per second, commits for each flush, latencies, processor
//! time for each commit.
//! Run: cargo run --release -p daruma-storage --example commit_cost [directory] [seconds] [sessions]

use daruma_base::DatabaseId;
use daruma_storage::*;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

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

/// Inserts and commits until told to stop; nanoseconds of each commit.
fn session(
    db: &Arc<Database>,
    tree: TreeId,
    n: u64,
    durability: Durability,
    stop: &AtomicBool,
) -> Result<Vec<u32>> {
    let owner = Owner::new(n + 1, Default::default());
    let tree = db.tree(tree)?;
    let mut taken = Vec::new();
    let mut key = n << 40;
    while !stop.load(Ordering::Relaxed) {
        key += 1;
        let start = Instant::now();
        let txn = db.begin(&owner);
        tree.insert(&txn, &key.to_be_bytes(), &[7; 100])?;
        txn.commit(durability)?;
        taken.push(u32::try_from(start.elapsed().as_nanos()).unwrap_or(u32::MAX));
    }
    Ok(taken)
}

fn run(
    db: &Arc<Database>,
    tree: TreeId,
    sessions: u64,
    durability: Durability,
    time: Duration,
) -> Result<()> {
    let stop = Arc::new(AtomicBool::new(false));
    let (flushes, start) = (db.log_stats().flushes, Instant::now());
    let processor = processor_time();
    let threads: Vec<_> = (0..sessions)
        .map(|n| {
            let (db, stop) = (db.clone(), stop.clone());
            let first = start.elapsed().as_nanos() as u64;
            let n = n + ((first ^ db.log_stats().end_lsn.0) & 0xFFFF) * 64;
            std::thread::spawn(move || session(&db, tree, n, durability, &stop))
        })
        .collect();
    std::thread::sleep(time);
    stop.store(true, Ordering::Relaxed);
    let mut taken = Vec::new();
    for thread in threads {
        taken.extend(thread.join().expect("a session panicked")?);
    }
    let seconds = start.elapsed().as_secs_f64();
    let flushes = db.log_stats().flushes - flushes;
    taken.sort_unstable();
    let at = |share: f64| {
        let index = (taken.len() as f64 * share) as usize;
        f64::from(taken.get(index).copied().unwrap_or(0)) / 1e3
    };
    let processor = (processor_time() - processor) * 1e6 / taken.len().max(1) as f64;
    println!(
        "{sessions:>8} {:<9} {:>10.0} {:>9.0} {:>8.1} {:>9.1} {:>9.1} {processor:>9.1}",
        format!("{durability:?}"),
        taken.len() as f64 / seconds,
        flushes as f64 / seconds,
        taken.len() as f64 / flushes.max(1) as f64,
        at(0.5),
        at(0.99),
    );
    Ok(())
}

/// Seconds of processor time of this process so far, in user and kernel mode.
fn processor_time() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split(' ').collect();
    let ticks = |at: usize| -> f64 { fields.get(at).and_then(|f| f.parse().ok()).unwrap_or(0.0) };
    (ticks(12) + ticks(13)) / 100.0
}

/// Writes and syncs of 4 KiB in a preallocated file, one after the other: what one session could reach at best.
fn raw(dir: &Path, time: Duration) -> std::io::Result<f64> {
    use std::os::unix::fs::FileExt;
    const FILE_BYTES: u64 = 16 << 20;
    let file = std::fs::File::create_new(dir.join("raw"))?;
    file.write_all_at(&vec![0; FILE_BYTES as usize], 0)?;
    file.sync_all()?;
    let (start, mut count) = (Instant::now(), 0u64);
    while start.elapsed() < time {
        file.write_all_at(&[7; 4096], count * 4096 % FILE_BYTES)?;
        file.sync_data()?;
        count += 1;
    }
    Ok(count as f64 / start.elapsed().as_secs_f64())
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let dir = arguments.next().unwrap_or_else(|| ".".into());
    let seconds = arguments.next().and_then(|s| s.parse().ok()).unwrap_or(2.0);
    let only: Option<u64> = arguments.next().and_then(|n| n.parse().ok());
    let dir = tempfile::tempdir_in(dir).expect("scratch directory");
    let config = EngineConfig {
        buffer_pool_pages: 131_072,
        ..EngineConfig::default()
    };
    let engine = Engine::new(daruma_platform::env(), config);
    let files = vec![
        spec(1, 1, &dir.path().join("t.mdf"), 65_536),
        spec(2, 0, &dir.path().join("t.ldf"), 65_536),
    ];
    let db = engine.create_database(DatabaseId(5), "t", files, Settings::default())?;
    let owner = Owner::new(1, Default::default());
    let txn = db.begin(&owner);
    let tree = db.create_tree(&txn, 1)?;
    txn.commit(Durability::Full)?;
    let stop = Arc::new(AtomicBool::new(false));
    let writer = {
        let (engine, db, stop) = (engine.clone(), db.clone(), stop.clone());
        std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let next = db.flush_due().ok().flatten();
                let pause = next.unwrap_or(Duration::from_millis(5));
                engine.log_writer().wait(Some(pause));
                let _ = db.background_step();
            }
        })
    };
    let time = Duration::from_secs_f64(seconds);
    for _ in 0..2 {
        let rate = raw(dir.path(), time);
        println!(
            "raw 4 KiB write and fdatasync: {:.0} per second",
            rate.unwrap_or(0.0)
        );
        std::fs::remove_file(dir.path().join("raw")).ok();
        if only == Some(1) {
            run(&db, tree, 1, Durability::Full, time)?;
        }
    }
    println!(
        "{:>8} {:<9} {:>10} {:>9} {:>8} {:>9} {:>9} {:>9}",
        "sessions", "", "commits/s", "flushes/s", "shared", "p50 us", "p99 us", "cpu us"
    );
    for durability in [Durability::Full, Durability::Delayed] {
        for sessions in [1, 4, 16, 64]
            .into_iter()
            .filter(|n| only.is_none_or(|o| o == *n))
        {
            run(
                &db,
                tree,
                sessions,
                durability,
                Duration::from_secs_f64(seconds),
            )?;
        }
    }
    stop.store(true, Ordering::Relaxed);
    let _ = writer.join();
    db.close()
}
