//! A server that left for good forgets its node, and is stopped at each call of that in turn.

use daruma_base::{Disk, DiskFile, Env, OpenMode};
use daruma_cluster::{Newcomer, SetupError, Store, create};
use daruma_sim::SimDisk;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A disk whose power goes at a call that changes names, or makes changes of them durable.
struct Stopping {
    disk: Arc<SimDisk>,
    left: AtomicU64,
}

impl Stopping {
    fn call(&self) {
        if self.left.fetch_sub(1, Ordering::Relaxed) == 0 {
            self.disk.stop();
        }
    }
}

impl Disk for Stopping {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        if matches!(mode, OpenMode::CreateNew | OpenMode::CreatePrivate) {
            self.call();
        }
        self.disk.open(path, mode)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.call();
        self.disk.remove(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call();
        self.disk.rename(from, to)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.disk.exists(path)
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.disk.create_dir_all(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        self.disk.list(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.call();
        self.disk.sync_dir(dir)
    }
}

const FOLDER: &str = "/data/cluster";
/// More than there are.
const CALLS_MAX: u64 = 20;
/// Which names a power loss keeps is drawn.
const SEEDS: u64 = 20;

fn make(disk: &Arc<SimDisk>) -> Result<(), SetupError> {
    let node = Newcomer {
        name: "n0".into(),
        address: "127.0.0.1:1".into(),
    };
    let env: Env = daruma_sim::env(disk, 1);
    create(&env, Path::new(FOLDER), "c", &node).map(|_| ())
}

/// What stops a server that forgets its node leaves a whole node, or none. How often each.
pub fn each_stop() -> Result<(u32, u32), String> {
    let (mut nodes, mut none) = (0, 0);
    for (seed, at) in (0..SEEDS).flat_map(|seed| (0..CALLS_MAX).map(move |at| (seed, at))) {
        let disk = SimDisk::new(seed);
        make(&disk).map_err(|e| format!("made: {e}"))?;
        let stopping = Arc::new(Stopping {
            disk: disk.clone(),
            left: AtomicU64::new(at),
        });
        let is_done = Store::new(stopping, Path::new(FOLDER))
            .forget_node()
            .is_ok();
        disk.crash();
        let has_certificate = disk
            .content_of(&Path::new(FOLDER).join("identity"))
            .is_some();
        match make(&disk) {
            Ok(()) => none += 1,
            Err(SetupError::Member) if has_certificate && !is_done => nodes += 1,
            other => {
                return Err(format!(
                    "seed {seed}, call {at}: done {is_done}, certificate {has_certificate}, then {other:?}"
                ));
            }
        }
    }
    Ok((nodes, none))
}
