//! A disk in memory that forgets what was not synced, tears writes and fails on demand.

use crate::SimRandom;
use daruma_base::{Disk, DiskFile, OpenMode};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const SECTOR_BYTES: usize = 512;

/// What shall go wrong.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// Fail this write-side call (write, sync, allocate, set_len; counted from 0) with an I/O error, once.
    pub fail_at: Option<u64>,
    /// From this call on every call fails: the machine has stopped. Crash and reopen.
    pub stop_at: Option<u64>,
    /// Total bytes of all files; beyond that the disk is full.
    pub capacity_bytes: Option<u64>,
}

#[derive(Default)]
struct Content {
    /// What reads see: everything written.
    now: Vec<u8>,
    /// What a power loss leaves for certain.
    durable: Vec<u8>,
    /// Writes since the last sync: offset and bytes.
    pending: Vec<(u64, Vec<u8>)>,
    locked: bool,
}

struct Shared {
    calls: AtomicU64,
    syncs: AtomicU64,
    stopped: AtomicBool,
    faults: Mutex<Faults>,
}

pub struct SimDisk {
    files: Mutex<BTreeMap<PathBuf, Arc<Mutex<Content>>>>,
    shared: Arc<Shared>,
    random: SimRandom,
}

impl SimDisk {
    pub fn new(seed: u64) -> Arc<SimDisk> {
        let shared = Shared {
            calls: AtomicU64::new(0),
            syncs: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
            faults: Mutex::default(),
        };
        Arc::new(SimDisk {
            files: Mutex::default(),
            shared: Arc::new(shared),
            random: SimRandom::new(seed),
        })
    }

    pub fn set_faults(&self, faults: Faults) {
        *self.shared.faults.lock() = faults;
    }

    /// Write-side calls so far.
    pub fn calls(&self) -> u64 {
        self.shared.calls.load(Ordering::Relaxed)
    }

    pub fn syncs(&self) -> u64 {
        self.shared.syncs.load(Ordering::Relaxed)
    }

    /// Power loss: each file keeps its durable bytes and any subset of the sectors written since. All handles of
    /// before must be dropped. Clears faults and counters.
    pub fn crash(&self) {
        for content in self.files.lock().values() {
            let mut content = content.lock();
            let pending = std::mem::take(&mut content.pending);
            let mut durable = std::mem::take(&mut content.durable);
            for (offset, bytes) in pending {
                self.keep_some(&mut durable, offset as usize, &bytes);
            }
            content.now.clone_from(&durable);
            content.durable = durable;
            content.locked = false;
        }
        *self.shared.faults.lock() = Faults::default();
        self.shared.calls.store(0, Ordering::Relaxed);
        self.shared.stopped.store(false, Ordering::Relaxed);
    }

    /// Applies none, all, or a random subset of the sectors of one write.
    fn keep_some(&self, durable: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
        let mode = self.random.below(3);
        if mode == 0 {
            return;
        }
        let mut at = 0;
        while at < bytes.len() {
            let len = (SECTOR_BYTES - (offset + at) % SECTOR_BYTES).min(bytes.len() - at);
            if mode == 1 || self.random.below(2) == 0 {
                let end = offset + at + len;
                if durable.len() < end {
                    durable.resize(end, 0);
                }
                durable[offset + at..end].copy_from_slice(&bytes[at..at + len]);
            }
            at += len;
        }
    }

    /// Flips one bit of the durable and visible content.
    pub fn flip(&self, path: &Path, offset: u64, mask: u8) {
        if let Some(content) = self.files.lock().get(path) {
            let content = &mut *content.lock();
            for bytes in [&mut content.now, &mut content.durable] {
                if let Some(byte) = bytes.get_mut(offset as usize) {
                    *byte ^= mask;
                }
            }
        }
    }

    pub fn len_of(&self, path: &Path) -> Option<u64> {
        self.files
            .lock()
            .get(path)
            .map(|c| c.lock().now.len() as u64)
    }

    fn used_bytes(&self) -> u64 {
        self.files
            .lock()
            .values()
            .map(|c| c.lock().now.len() as u64)
            .sum()
    }
}

impl Shared {
    /// Counts a write-side call and decides whether it fails.
    fn admit(&self) -> io::Result<()> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        let mut faults = self.faults.lock();
        if self.stopped.load(Ordering::Relaxed) || faults.stop_at.is_some_and(|n| call >= n) {
            self.stopped.store(true, Ordering::Relaxed);
            return Err(io::Error::other("the simulated machine has stopped"));
        }
        if faults.fail_at == Some(call) {
            faults.fail_at = None;
            return Err(io::Error::other("simulated I/O error"));
        }
        Ok(())
    }

    fn alive(&self) -> io::Result<()> {
        if self.stopped.load(Ordering::Relaxed) {
            return Err(io::Error::other("the simulated machine has stopped"));
        }
        Ok(())
    }
}

impl Disk for SimDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        self.shared.alive()?;
        let mut files = self.files.lock();
        let content = match (files.get(path), mode) {
            (Some(_), OpenMode::CreateNew) => return Err(io::ErrorKind::AlreadyExists.into()),
            (None, OpenMode::ReadOnly | OpenMode::ReadWrite) => {
                return Err(io::ErrorKind::NotFound.into());
            }
            (Some(content), _) => content.clone(),
            (None, OpenMode::CreateNew) => files.entry(path.to_path_buf()).or_default().clone(),
        };
        let exclusive = mode != OpenMode::ReadOnly;
        if exclusive {
            let mut inner = content.lock();
            if inner.locked {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            inner.locked = true;
        }
        let capacity = self.shared.faults.lock().capacity_bytes.map(|c| {
            c.saturating_sub({
                drop(files);
                self.used_bytes()
            })
        });
        Ok(Arc::new(SimFile {
            content,
            shared: self.shared.clone(),
            exclusive,
            room: capacity.map(AtomicU64::new),
        }))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.shared.alive()?;
        self.files
            .lock()
            .remove(path)
            .map(|_| ())
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.shared.alive()?;
        let mut files = self.files.lock();
        let content = files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        files.insert(to.to_path_buf(), content);
        Ok(())
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        Ok(self.files.lock().contains_key(path))
    }

    fn create_dir_all(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        Ok(self
            .files
            .lock()
            .keys()
            .filter(|p| p.parent() == Some(dir))
            .cloned()
            .collect())
    }

    fn sync_dir(&self, _dir: &Path) -> io::Result<()> {
        self.shared.alive()
    }
}

struct SimFile {
    content: Arc<Mutex<Content>>,
    shared: Arc<Shared>,
    exclusive: bool,
    /// Bytes the file may still grow by.
    room: Option<AtomicU64>,
}

impl Drop for SimFile {
    fn drop(&mut self) {
        if self.exclusive {
            self.content.lock().locked = false;
        }
    }
}

impl SimFile {
    fn grow(&self, content: &Content, end: usize) -> io::Result<()> {
        let by = end.saturating_sub(content.now.len()) as u64;
        if let Some(room) = &self.room
            && room
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |r| r.checked_sub(by))
                .is_err()
        {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }
}

impl DiskFile for SimFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.shared.alive()?;
        let content = self.content.lock();
        let start = offset as usize;
        let bytes = content
            .now
            .get(start..start + buf.len())
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        buf.copy_from_slice(bytes);
        Ok(())
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.shared.admit()?;
        let mut content = self.content.lock();
        let end = offset as usize + buf.len();
        self.grow(&content, end)?;
        if content.now.len() < end {
            content.now.resize(end, 0);
        }
        content.now[offset as usize..end].copy_from_slice(buf);
        content.pending.push((offset, buf.to_vec()));
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.shared.admit()?;
        self.shared.syncs.fetch_add(1, Ordering::Relaxed);
        let content = &mut *self.content.lock();
        for (offset, bytes) in content.pending.drain(..) {
            let end = offset as usize + bytes.len();
            if content.durable.len() < end {
                content.durable.resize(end, 0);
            }
            content.durable[offset as usize..end].copy_from_slice(&bytes);
        }
        let len = content.now.len();
        content.durable.resize(len, 0);
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        self.shared.alive()?;
        Ok(self.content.lock().now.len() as u64)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.shared.admit()?;
        let mut content = self.content.lock();
        self.grow(&content, len as usize)?;
        content.now.resize(len as usize, 0);
        Ok(())
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        if self.len()? < len {
            self.set_len(len)
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn synced_bytes_survive_and_unsynced_ones_may_not() {
        let (mut lost, mut kept) = (0, 0);
        for seed in 0..64 {
            let disk = SimDisk::new(seed);
            let path = Path::new("/f");
            let file = disk.open(path, OpenMode::CreateNew).expect("creates");
            file.write_at(&[1; 1024], 0).expect("writes");
            file.sync_data().expect("syncs");
            file.write_at(&[2; 1024], 1024).expect("writes");
            drop(file);
            disk.crash();
            let file = disk.open(path, OpenMode::ReadWrite).expect("opens");
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
}
