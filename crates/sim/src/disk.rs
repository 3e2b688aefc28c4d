//! A disk in memory that forgets what was not synced, tears writes and fails on demand.
//!
//! Theory: per file, what is durable and the writes since the last sync; per directory, the names that were synced. A
//! power loss keeps every durable byte, any subset of the 512-byte sectors written since, and for every name changed
//! since its directory was synced either state. Which subset, and which calls go wrong, is drawn from the seed.

use crate::bytes::Bytes;
use crate::fault::{FaultCounts, FaultKind, Faults, Rates};
use crate::file::SimFile;
use crate::image::{Images, Photographer};
use crate::{SimClock, SimRandom};
use daruma_base::{Clock, Disk, DiskFile, OpenMode};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

pub(crate) const SECTOR_BYTES: usize = 512;

/// Offset and bytes.
pub(crate) type Write = (u64, Arc<[u8]>);

#[derive(Clone, Default)]
pub(crate) struct Content {
    /// Number of the file, for the trace.
    id: u64,
    /// What reads see: everything written.
    pub now: Bytes,
    /// What a power loss leaves for certain.
    pub durable: Bytes,
    /// Writes since the last sync.
    pub pending: Vec<Write>,
    /// A failed sync has dropped writes that reads still show.
    pub has_dropped: bool,
    /// The write during which the machine stopped: in part there after a power loss, never begun otherwise.
    pub in_flight: Option<Write>,
    pub locked: bool,
    /// Reads at this place that will still come out flipped.
    pub sticky_flips: u32,
    pub sticky_at: u64,
}

pub(crate) type Names = BTreeMap<PathBuf, Arc<Mutex<Content>>>;

/// Names as a process sees them, and as a power loss leaves them for certain.
#[derive(Default)]
pub(crate) struct Directory {
    pub now: Names,
    pub durable: Names,
}

pub(crate) struct Shared {
    /// Write-side calls, and all calls.
    calls: AtomicU64,
    ios: AtomicU64,
    pub syncs: AtomicU64,
    stopped: AtomicBool,
    pub faults: Mutex<Faults>,
    pub counts: FaultCounts,
    pub used_bytes: AtomicU64,
    trace: AtomicU64,
    pub random: SimRandom,
    clock: Mutex<Option<Arc<SimClock>>>,
    pub names: Mutex<Directory>,
    pub photographer: Photographer,
}

/// A disk in memory that loses, tears and flips what it is told to.
pub struct SimDisk {
    pub(crate) shared: Arc<Shared>,
    files: AtomicU64,
}

impl SimDisk {
    /// An empty disk whose faults are drawn from `seed`.
    pub fn new(seed: u64) -> Arc<SimDisk> {
        let shared = Shared {
            calls: AtomicU64::new(0),
            ios: AtomicU64::new(0),
            syncs: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
            faults: Mutex::default(),
            counts: FaultCounts::default(),
            used_bytes: AtomicU64::new(0),
            trace: AtomicU64::new(seed),
            random: SimRandom::new(seed),
            clock: Mutex::default(),
            names: Mutex::default(),
            photographer: Photographer::default(),
        };
        Arc::new(SimDisk {
            shared: Arc::new(shared),
            files: AtomicU64::new(1),
        })
    }

    /// A disk of its own with the same files, everything on it durable. All handles on this one must be dropped.
    pub fn fork(&self, seed: u64) -> Arc<SimDisk> {
        let copy = SimDisk::new(seed);
        let mut names = copy.shared.names.lock();
        for (path, content) in &self.shared.names.lock().now {
            let content = content.lock();
            let copied = Content {
                id: copy.files.fetch_add(1, Ordering::Relaxed),
                now: content.now.clone(),
                durable: content.now.clone(),
                ..Content::default()
            };
            let bytes = copied.now.len() as u64;
            copy.shared.used_bytes.fetch_add(bytes, Ordering::Relaxed);
            names.now.insert(path.clone(), Arc::new(Mutex::new(copied)));
        }
        names.durable = names.now.clone();
        drop(names);
        copy
    }

    /// From now on these faults happen.
    pub fn set_faults(&self, faults: Faults) {
        *self.shared.faults.lock() = faults;
    }

    /// The clock that slow calls move.
    pub fn set_clock(&self, clock: &Arc<SimClock>) {
        *self.shared.clock.lock() = Some(clock.clone());
    }

    /// From now on every `one_in`th write-side call, as `seed` draws them, is preceded by an image (0: none any more).
    pub fn take_images(&self, one_in: u64, seed: u64) {
        self.shared.photographer.set(one_in, seed);
    }

    /// The images taken since the last call of this.
    pub fn images(&self) -> Images {
        self.shared.photographer.images()
    }

    /// Write-side calls since the start or the last crash.
    pub fn calls(&self) -> u64 {
        self.shared.calls.load(Ordering::Relaxed)
    }

    /// All reads and write-side calls since the start or the last crash.
    pub fn ios(&self) -> u64 {
        self.shared.ios.load(Ordering::Relaxed)
    }

    /// Syncs so far.
    pub fn syncs(&self) -> u64 {
        self.shared.syncs.load(Ordering::Relaxed)
    }

    /// Faults so far, by kind.
    pub fn fault_counts(&self) -> &FaultCounts {
        &self.shared.counts
    }

    /// Has a planned stop been reached?
    pub fn is_stopped(&self) -> bool {
        self.shared.stopped.load(Ordering::Relaxed)
    }

    /// Fingerprint of every call so far: two runs of one seed must agree in it.
    pub fn trace(&self) -> u64 {
        self.shared.trace.load(Ordering::Relaxed)
    }

    /// From now on every call fails, until the crash.
    pub fn stop(&self) {
        self.shared.stopped.store(true, Ordering::Relaxed);
    }

    /// Power loss: each file keeps its durable bytes and any subset of the sectors written since. All handles of
    /// before must be dropped. Clears faults and counters of calls.
    pub fn crash(&self) {
        let mut names = self.shared.names.lock();
        self.shared.counts.add(FaultKind::PowerLoss);
        self.forget_names(&mut names);
        for (path, content) in &names.now {
            self.forget_writes(&mut content.lock(), is_log(path));
        }
        names.durable = names.now.clone();
        let used = names.now.values().map(|c| c.lock().now.len() as u64).sum();
        self.shared.used_bytes.store(used, Ordering::Relaxed);
        self.resume();
    }

    /// The process died, the machine lives on: what was written is still there, synced or not. All older handles
    /// must be dropped. Clears faults and counters of calls.
    pub fn restart(&self) {
        let names = self.shared.names.lock();
        for content in names.now.values() {
            let mut content = content.lock();
            content.locked = false;
            content.in_flight = None;
        }
        self.resume();
    }

    /// As `restart`, counted as a fault.
    pub fn kill(&self) {
        self.shared.counts.add(FaultKind::Death);
        self.restart();
    }

    fn resume(&self) {
        *self.shared.faults.lock() = Faults::default();
        self.shared.calls.store(0, Ordering::Relaxed);
        self.shared.ios.store(0, Ordering::Relaxed);
        self.shared.stopped.store(false, Ordering::Relaxed);
    }

    fn forget_names(&self, names: &mut Directory) {
        let paths: Vec<PathBuf> = names
            .now
            .keys()
            .chain(names.durable.keys())
            .cloned()
            .collect();
        for path in paths {
            let (now, durable) = (names.now.get(&path), names.durable.get(&path));
            let same = match (now, durable) {
                (Some(a), Some(b)) => Arc::ptr_eq(a, b),
                (None, None) => true,
                _ => false,
            };
            if same || self.shared.random.below(2) == 0 {
                continue;
            }
            self.shared.counts.add(FaultKind::LostName);
            match durable.cloned() {
                Some(content) => names.now.insert(path, content),
                None => names.now.remove(&path),
            };
        }
    }

    fn forget_writes(&self, content: &mut Content, log: bool) {
        let (lost, torn) = if log {
            (FaultKind::LostLogWrite, FaultKind::TornLogWrite)
        } else {
            (FaultKind::LostPageWrite, FaultKind::TornPageWrite)
        };
        let mut pending = std::mem::take(&mut content.pending);
        pending.extend(content.in_flight.take());
        let mut durable = std::mem::take(&mut content.durable);
        content.has_dropped = false;
        for (offset, bytes) in pending {
            match self.keep_some(&mut durable, offset as usize, &bytes) {
                0 => self.shared.counts.add(lost),
                kept if kept < bytes.len() => self.shared.counts.add(torn),
                _ => {}
            }
        }
        content.now = durable.clone();
        content.durable = durable;
        content.locked = false;
        content.sticky_flips = 0;
    }

    /// Applies none, all, or a random subset of the sectors of one write. How many bytes arrived.
    fn keep_some(&self, durable: &mut Bytes, offset: usize, bytes: &[u8]) -> usize {
        let mode = self.shared.random.below(3);
        if mode == 0 {
            return 0;
        }
        if mode == 1 {
            durable.write(offset, bytes);
            return bytes.len();
        }
        let (mut at, mut kept) = (0, 0);
        while at < bytes.len() {
            let len = (SECTOR_BYTES - (offset + at) % SECTOR_BYTES).min(bytes.len() - at);
            if self.shared.random.below(2) == 0 {
                durable.write(offset + at, &bytes[at..at + len]);
                kept += len;
            }
            at += len;
        }
        kept
    }

    /// Flips bits of the durable and visible content.
    pub fn flip(&self, path: &Path, offset: u64, mask: u8) {
        if let Some(content) = self.shared.names.lock().now.get(path) {
            self.shared.counts.add(FaultKind::Rot);
            let content = &mut *content.lock();
            for bytes in [&mut content.now, &mut content.durable] {
                bytes.flip(offset as usize, mask);
            }
        }
    }

    /// A write that lost its way, at rest: `len` bytes of one place lie, durable, at another one of the same or another file.
    /// False when either place is not there.
    pub fn misdirect(&self, from: (&Path, u64), to: (&Path, u64), len: usize) -> bool {
        let names = self.shared.names.lock();
        let mut bytes = vec![0; len];
        let source = names.now.get(from.0);
        let is_read = source.is_some_and(|c| c.lock().now.read(from.1 as usize, &mut bytes));
        let (true, Some(target)) = (is_read, names.now.get(to.0)) else {
            return false;
        };
        let target = &mut *target.lock();
        let mut is_there = true;
        for content in [&mut target.now, &mut target.durable] {
            match to.1 as usize + len <= content.len() {
                true => content.write(to.1 as usize, &bytes),
                false => is_there = false,
            }
        }
        self.shared.counts.add(FaultKind::MisdirectedWrite);
        is_there
    }

    /// What reads would see of a file.
    pub fn content_of(&self, path: &Path) -> Option<Vec<u8>> {
        let names = self.shared.names.lock();
        names.now.get(path).map(|c| c.lock().now.to_vec())
    }

    /// Bytes of a file as a process sees it now.
    pub fn len_of(&self, path: &Path) -> Option<u64> {
        let names = self.shared.names.lock();
        names.now.get(path).map(|c| c.lock().now.len() as u64)
    }

    /// Bytes of all files.
    pub fn used_bytes(&self) -> u64 {
        self.shared.used_bytes.load(Ordering::Relaxed)
    }
}

fn is_log(path: &Path) -> bool {
    path.extension().is_some_and(|e| e == "ldf")
}

impl Shared {
    /// Number of the next write-side call.
    pub fn call(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Counts a write-side call and decides whether it fails.
    pub fn admit(&self, kind: FaultKind) -> io::Result<Rates> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        let io = self.ios.fetch_add(1, Ordering::Relaxed);
        let mut faults = self.faults.lock();
        let stop =
            faults.stop_at.is_some_and(|n| call >= n) || faults.stop_io_at.is_some_and(|n| io >= n);
        if stop {
            self.stopped.store(true, Ordering::Relaxed);
        }
        self.alive()?;
        let planned = faults.fail_at == Some(call) || faults.fail_io_at == Some(io);
        if planned {
            (faults.fail_at, faults.fail_io_at) = (None, None);
        }
        let (rates, no_space) = (faults.rates, faults.no_space);
        drop(faults);
        if no_space && kind != FaultKind::SyncError {
            self.counts.add(FaultKind::DiskFull);
            return Err(io::ErrorKind::StorageFull.into());
        }
        let rate = match kind {
            FaultKind::SyncError => rates.sync_error,
            FaultKind::GrowError => rates.grow_error,
            _ => rates.write_error,
        };
        self.dawdle(rates.slow);
        if planned || self.happens(rate) {
            self.counts.add(kind);
            return Err(io::Error::other("simulated I/O error"));
        }
        Ok(rates)
    }

    /// As `admit`, for reads.
    pub fn admit_read(&self) -> io::Result<Rates> {
        let io = self.ios.fetch_add(1, Ordering::Relaxed);
        let mut faults = self.faults.lock();
        if faults.stop_io_at.is_some_and(|n| io >= n) {
            self.stopped.store(true, Ordering::Relaxed);
        }
        self.alive()?;
        let planned = faults.fail_io_at == Some(io);
        if planned {
            faults.fail_io_at = None;
        }
        let rates = faults.rates;
        drop(faults);
        self.dawdle(rates.slow);
        if planned || self.happens(rates.read_error) {
            self.counts.add(FaultKind::ReadError);
            return Err(io::Error::other("simulated I/O error"));
        }
        Ok(rates)
    }

    /// An error once the machine has stopped.
    pub fn alive(&self) -> io::Result<()> {
        if self.stopped.load(Ordering::Relaxed) {
            return Err(io::Error::other("the simulated machine has stopped"));
        }
        Ok(())
    }

    /// Draws once, but only where something can happen, so that plans without rates draw nothing.
    pub fn happens(&self, per_100_000: u32) -> bool {
        per_100_000 > 0 && self.random.below(100_000) < u64::from(per_100_000)
    }

    fn dawdle(&self, rate: u32) {
        if self.happens(rate) {
            self.counts.add(FaultKind::SlowCall);
            if let Some(clock) = &*self.clock.lock() {
                clock.sleep(Duration::from_millis(1 + self.random.below(2000)));
            }
        }
    }

    /// Adds a call to the fingerprint.
    pub fn note(&self, call: u64, content: &Content, offset: u64, len: u64) {
        let mut hash = self.trace.load(Ordering::Relaxed);
        for word in [call, content.id, offset, len] {
            hash = (hash ^ word).wrapping_mul(0x0100_0000_01B3).rotate_left(17);
        }
        self.trace.store(hash, Ordering::Relaxed);
    }
}

impl Disk for SimDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        self.shared.alive()?;
        let mut names = self.shared.names.lock();
        let content = match (names.now.get(path), mode) {
            (Some(_), OpenMode::CreateNew | OpenMode::CreatePrivate) => {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            (None, OpenMode::ReadOnly | OpenMode::ReadWrite) => {
                return Err(io::ErrorKind::NotFound.into());
            }
            (Some(content), _) => content.clone(),
            (None, OpenMode::CreateNew | OpenMode::CreatePrivate) => {
                let content = Content {
                    id: self.files.fetch_add(1, Ordering::Relaxed),
                    ..Content::default()
                };
                let content = Arc::new(Mutex::new(content));
                names.now.insert(path.to_path_buf(), content.clone());
                content
            }
        };
        let exclusive = mode != OpenMode::ReadOnly;
        if exclusive {
            let mut inner = content.lock();
            if inner.locked {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            inner.locked = true;
        }
        Ok(Arc::new(SimFile {
            content,
            shared: self.shared.clone(),
            exclusive: AtomicBool::new(exclusive),
        }))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.shared.alive()?;
        let gone = self.shared.names.lock().now.remove(path);
        let gone = gone.ok_or(io::ErrorKind::NotFound)?;
        let bytes = gone.lock().now.len() as u64;
        self.shared.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.shared.alive()?;
        let mut names = self.shared.names.lock();
        let content = names.now.remove(from).ok_or(io::ErrorKind::NotFound)?;
        if let Some(replaced) = names.now.insert(to.to_path_buf(), content) {
            let bytes = replaced.lock().now.len() as u64;
            self.shared.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
        Ok(())
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        Ok(self.shared.names.lock().now.contains_key(path))
    }

    fn create_dir_all(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        let names = self.shared.names.lock();
        let below = names.now.keys().filter_map(|p| p.strip_prefix(dir).ok());
        let here: BTreeSet<PathBuf> = below
            .filter_map(|p| p.components().next())
            .map(|name| dir.join(name))
            .collect();
        Ok(here.into_iter().collect())
    }

    /// A folder is there when a file is in it, or below.
    fn is_folder(&self, path: &Path) -> bool {
        let names = self.shared.names.lock();
        names.now.keys().any(|p| p != path && p.starts_with(path))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.shared.alive()?;
        let names = &mut *self.shared.names.lock();
        names.durable.retain(|p, _| p.parent() != Some(dir));
        let here = names.now.iter().filter(|(p, _)| p.parent() == Some(dir));
        names
            .durable
            .extend(here.map(|(p, c)| (p.clone(), c.clone())));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn create(disk: &SimDisk, path: &str) -> Arc<dyn DiskFile> {
        let path = Path::new(path);
        let file = disk.open(path, OpenMode::CreateNew).expect("creates");
        disk.sync_dir(path.parent().expect("in a directory"))
            .expect("syncs the directory");
        file
    }

    #[test]
    fn synced_bytes_survive_and_unsynced_ones_may_not() {
        let (mut lost, mut kept) = (0, 0);
        for seed in 0..64 {
            let disk = SimDisk::new(seed);
            let file = create(&disk, "/f");
            file.write_at(&[1; 1024], 0).expect("writes");
            file.sync_data().expect("syncs");
            file.write_at(&[2; 1024], 1024).expect("writes");
            drop(file);
            disk.crash();
            let file = disk
                .open(Path::new("/f"), OpenMode::ReadWrite)
                .expect("opens");
            let mut first = [0; 1024];
            file.read_at(&mut first, 0).expect("reads");
            assert_eq!(first, [1; 1024]);
            if file.len().expect("length") == 2048 {
                kept += 1
            } else {
                lost += 1
            }
        }
        assert!(lost > 0 && kept > 0, "lost {lost}, kept {kept}");
    }

    #[test]
    fn a_name_survives_for_certain_only_when_its_directory_was_synced() {
        let (mut lost, mut kept) = (0, 0);
        for seed in 0..32 {
            let disk = SimDisk::new(seed);
            drop(create(&disk, "/d/synced"));
            let loose = disk.open(Path::new("/d/loose"), OpenMode::CreateNew);
            drop(loose.expect("creates"));
            disk.crash();
            assert!(disk.exists(Path::new("/d/synced")).expect("looks"));
            match disk.exists(Path::new("/d/loose")).expect("looks") {
                true => kept += 1,
                false => lost += 1,
            }
        }
        assert!(lost > 0 && kept > 0, "lost {lost}, kept {kept}");
    }

    /// The history goes on, and the power fails at each of its calls.
    #[test]
    fn an_image_is_the_disk_before_a_call() {
        let (mut lost, mut kept) = (0, 0);
        for seed in 0..64 {
            let disk = SimDisk::new(seed);
            let file = create(&disk, "/f");
            file.write_at(&[1; 512], 0).expect("writes");
            file.sync_data().expect("syncs");
            disk.take_images(1, seed);
            file.write_at(&[2; 512], 0).expect("writes");
            file.sync_data().expect("syncs");
            file.write_at(&[3; 512], 512).expect("writes");
            disk.take_images(0, 0);
            let images = disk.images();
            let calls: Vec<u64> = images.iter().map(|i| i.call).collect();
            assert_eq!(calls, [2, 3, 4]);
            for (at, image) in images.iter().enumerate() {
                let fallen = image.again().into_disk(seed + 100);
                fallen.crash();
                let found = fallen.content_of(Path::new("/f")).expect("is there");
                match (at, found[0], found.len()) {
                    (0 | 1, 1, 512) => lost += 1,
                    (0 | 1, 2, 512) | (2, 2, 1024) => kept += 1,
                    (2, 2, 512) => lost += 1,
                    other => panic!("{other:?}"),
                }
            }
            let whole = images.into_iter().next_back().expect("three").into_disk(1);
            whole.restart();
            let found = whole.content_of(Path::new("/f")).expect("is there");
            assert_eq!(
                found, [2; 512],
                "a process that died had not begun the call"
            );
        }
        assert!(lost > 20 && kept > 20, "lost {lost}, kept {kept}");
    }

    #[test]
    fn rates_inject_faults_and_count_them() {
        let disk = SimDisk::new(9);
        let file = create(&disk, "/f.mdf");
        file.write_at(&[3; 65536], 0).expect("writes");
        disk.set_faults(Faults {
            rates: Rates {
                read_error: 10_000,
                flipped_read: 10_000,
                misdirected_read: 10_000,
                ..Rates::default()
            },
            ..Faults::default()
        });
        let mut buf = [0; 4096];
        let errors = (0..1000)
            .filter(|i| file.read_at(&mut buf, (i % 16) * 4096).is_err())
            .count() as u64;
        let counts = disk.fault_counts();
        assert_eq!(counts.get(FaultKind::ReadError), errors);
        assert!(errors > 0 && counts.get(FaultKind::FlippedRead) > 0);
        assert!(counts.get(FaultKind::MisdirectedRead) > 0);
    }

    #[test]
    fn a_full_disk_refuses_growth_and_recovers_with_room() {
        let disk = SimDisk::new(1);
        let file = create(&disk, "/f");
        let full = |bytes| Faults {
            capacity_bytes: Some(bytes),
            ..Faults::default()
        };
        disk.set_faults(full(8192));
        file.write_at(&[0; 8192], 0).expect("fits");
        let refused = file.write_at(&[0; 1], 8192).expect_err("is full");
        assert_eq!(refused.kind(), io::ErrorKind::StorageFull);
        disk.set_faults(full(16384));
        file.write_at(&[0; 1], 8192).expect("fits");
    }
}
