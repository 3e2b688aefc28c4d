//! A disk whose files do not change: what is written to them goes into one other file.
//!
//! Theory: a database that waits for more backups must be readable in between (STANDBY), which takes a full recovery with
//! redo and rollback; and the next backup must find the files as they were. So recovery runs over this disk. To take it
//! all back nothing is done but to forget the other file. It is worth nothing after a restart and is never synced: the
//! files below still are what they were, and recovery runs again.
//!
//! Invariants
//! 1. The files below are opened for reading only. A new file is in the other file altogether, and gone with it.
//! 2. A block is read from where it was written last.

use crate::sync::{Mutex, RwLock};
use daruma_base::{Disk, DiskFile, FileIdentity, OpenMode};
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const BLOCK_BYTES: u64 = 8192;

/// See the module.
pub struct OverlayDisk {
    below: Arc<dyn Disk>,
    changes: Arc<Changes>,
    files: Mutex<HashMap<PathBuf, Arc<OverlayFile>>>,
}

/// The file that takes what is written, and its next free block.
struct Changes {
    file: Arc<dyn DiskFile>,
    next: AtomicU64,
}

struct OverlayFile {
    /// `None` for a file that is new here.
    below: Option<Arc<dyn DiskFile>>,
    changes: Arc<Changes>,
    state: RwLock<State>,
}

struct State {
    len: u64,
    /// Bytes of the file below that still count.
    below_len: u64,
    /// Changed blocks, and where they are in the other file.
    blocks: HashMap<u64, u64>,
}

impl OverlayDisk {
    /// `changes` is created anew; one that is there is of no use to anybody.
    pub fn create(below: &Arc<dyn Disk>, changes: &Path) -> io::Result<OverlayDisk> {
        if below.exists(changes)? {
            below.remove(changes)?;
        }
        let file = below.open(changes, OpenMode::CreateNew)?;
        let next = AtomicU64::new(0);
        Ok(OverlayDisk {
            below: below.clone(),
            changes: Arc::new(Changes { file, next }),
            files: Mutex::default(),
        })
    }
}

fn refused<T>() -> io::Result<T> {
    Err(io::ErrorKind::ReadOnlyFilesystem.into())
}

impl Disk for OverlayDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        let is_new = matches!(mode, OpenMode::CreateNew | OpenMode::CreatePrivate);
        let mut files = self.files.lock();
        let known = files.get(path);
        if is_new && (known.is_some() || self.below.exists(path)?) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if let Some(open) = known {
            return Ok(open.clone());
        }
        let (below, len) = match is_new {
            true => (None, 0),
            false => {
                let below = self.below.open(path, OpenMode::ReadOnly)?;
                let len = below.len()?;
                (Some(below), len)
            }
        };
        let file = Arc::new(OverlayFile {
            below,
            changes: self.changes.clone(),
            state: RwLock::new(State {
                len,
                below_len: len,
                blocks: HashMap::new(),
            }),
        });
        files.insert(path.to_path_buf(), file.clone());
        Ok(file)
    }

    /// Of a file that is new here.
    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut files = self.files.lock();
        match files.get(path) {
            Some(file) if file.below.is_none() => {
                files.remove(path);
                Ok(())
            }
            _ => refused(),
        }
    }

    fn rename(&self, _from: &Path, _to: &Path) -> io::Result<()> {
        refused()
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        Ok(self.files.lock().contains_key(path) || self.below.exists(path)?)
    }

    fn create_dir_all(&self, _path: &Path) -> io::Result<()> {
        refused()
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        self.below.list(dir)
    }

    fn sync_dir(&self, _dir: &Path) -> io::Result<()> {
        Ok(())
    }

    fn identity(&self, path: &Path) -> FileIdentity {
        self.below.identity(path)
    }
}

/// The pieces of `len` bytes at `offset` by block: block, offset in it, and place in the caller's buffer.
fn pieces(offset: u64, len: usize) -> impl Iterator<Item = (u64, u64, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == len {
            return None;
        }
        let at = offset + done as u64;
        let within = at % BLOCK_BYTES;
        let count = ((BLOCK_BYTES - within) as usize).min(len - done);
        let range = done..done + count;
        done += count;
        Some((at / BLOCK_BYTES, within, range))
    })
}

impl OverlayFile {
    /// Bytes of the file below; zeros behind its end.
    fn read_below(&self, state: &State, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let there = state.below_len.saturating_sub(offset).min(buf.len() as u64);
        let (old, new) = buf.split_at_mut(there as usize);
        new.fill(0);
        match &self.below {
            Some(below) if !old.is_empty() => below.read_at(old, offset),
            _ => Ok(()),
        }
    }

    fn write_block(
        &self,
        state: &mut State,
        block: u64,
        within: u64,
        part: &[u8],
    ) -> io::Result<()> {
        if let Some(slot) = state.blocks.get(&block) {
            let at = slot * BLOCK_BYTES + within;
            return self.changes.file.write_at(part, at);
        }
        let mut whole = [0; BLOCK_BYTES as usize];
        if part.len() < whole.len() {
            self.read_below(state, &mut whole, block * BLOCK_BYTES)?;
        }
        let from = within as usize;
        whole[from..from + part.len()].copy_from_slice(part);
        let slot = self.changes.next.fetch_add(1, Ordering::Relaxed);
        self.changes.file.write_at(&whole, slot * BLOCK_BYTES)?;
        state.blocks.insert(block, slot);
        Ok(())
    }
}

impl DiskFile for OverlayFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let state = self.state.read();
        let end = offset.checked_add(buf.len() as u64);
        if end.is_none_or(|end| end > state.len) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if state.blocks.is_empty() {
            return self.read_below(&state, buf, offset);
        }
        for (block, within, range) in pieces(offset, buf.len()) {
            let part = &mut buf[range];
            match state.blocks.get(&block) {
                Some(slot) => self
                    .changes
                    .file
                    .read_at(part, slot * BLOCK_BYTES + within)?,
                None => self.read_below(&state, part, block * BLOCK_BYTES + within)?,
            }
        }
        Ok(())
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        let mut state = self.state.write();
        for (block, within, range) in pieces(offset, buf.len()) {
            self.write_block(&mut state, block, within, &buf[range])?;
        }
        state.len = state.len.max(offset + buf.len() as u64);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.state.read().len)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.state.write();
        if len < state.len {
            let kept = len.next_multiple_of(BLOCK_BYTES);
            state.blocks.retain(|block, _| block * BLOCK_BYTES < kept);
            state.below_len = state.below_len.min(len);
            let (within, last) = (len % BLOCK_BYTES, len / BLOCK_BYTES);
            if within > 0 && state.blocks.contains_key(&last) {
                let zeros = vec![0; (BLOCK_BYTES - within) as usize];
                self.write_block(&mut state, last, within, &zeros)?;
            }
        }
        state.len = len;
        Ok(())
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        let mut state = self.state.write();
        state.len = state.len.max(len);
        Ok(())
    }

    fn release(&self) {
        if let Some(below) = &self.below {
            below.release();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use daruma_base::Random;
    use daruma_sim::{SimDisk, SimRandom};

    #[test]
    fn a_new_file_leaves_nothing_below_and_an_old_one_cannot_be_removed() {
        let below: Arc<dyn Disk> = SimDisk::new(1);
        let (old, new) = (Path::new("/old"), Path::new("/new"));
        drop(below.open(old, OpenMode::CreateNew).expect("creates"));
        let disk = OverlayDisk::create(&below, Path::new("/changes")).expect("creates");
        assert!(disk.open(old, OpenMode::CreateNew).is_err());
        let file = disk.open(new, OpenMode::CreatePrivate).expect("creates");
        file.write_at(b"scratch", 9_000).expect("writes");
        let mut read = [1; 9];
        file.read_at(&mut read, 8_998).expect("reads");
        assert_eq!(&read, b"\0\0scratch");
        assert!(disk.exists(new).expect("looks") && !below.exists(new).expect("looks"));
        assert!(disk.open(new, OpenMode::CreateNew).is_err());
        disk.remove(new).expect("removes");
        assert!(!disk.exists(new).expect("looks"));
        assert!(disk.remove(old).is_err() && below.exists(old).expect("looks"));
    }

    /// Random reads and writes against a plain vector; the file below stays as it was.
    #[test]
    fn it_reads_as_a_file_and_changes_nothing_below() {
        for seed in 0..20 {
            let random = SimRandom::new(seed);
            let below: Arc<dyn Disk> = SimDisk::new(seed);
            let path = Path::new("/data");
            let base = below.open(path, OpenMode::CreateNew).expect("creates");
            let mut model = vec![0; 50_000 + random.below(9_000) as usize];
            random.fill(&mut model);
            base.write_at(&model, 0).expect("writes");
            let before = model.clone();
            drop(base);
            let disk = OverlayDisk::create(&below, Path::new("/changes")).expect("creates");
            let file = disk.open(path, OpenMode::ReadWrite).expect("opens");
            for _ in 0..60 {
                let at = random.below(model.len() as u64) as usize;
                let mut bytes = vec![0; random.below(20_000) as usize];
                random.fill(&mut bytes);
                match random.below(8) {
                    0 => {
                        model.resize(at.max(1), 0);
                        file.set_len(model.len() as u64).expect("cuts");
                    }
                    1 => {
                        model.resize(model.len() + bytes.len(), 0);
                        file.allocate(model.len() as u64).expect("grows");
                    }
                    _ => {
                        file.write_at(&bytes, at as u64).expect("writes");
                        model.resize(model.len().max(at + bytes.len()), 0);
                        model[at..at + bytes.len()].copy_from_slice(&bytes);
                    }
                }
                let mut read = vec![0; model.len()];
                file.read_at(&mut read, 0).expect("reads");
                assert!(read == model, "seed {seed}");
                assert_eq!(file.len().expect("a length"), model.len() as u64);
            }
            let base = below.open(path, OpenMode::ReadOnly).expect("opens");
            let mut read = vec![0; before.len()];
            base.read_at(&mut read, 0).expect("reads");
            assert!(read == before, "seed {seed}");
            assert!(file.read_at(&mut [0], model.len() as u64).is_err());
        }
    }
}
