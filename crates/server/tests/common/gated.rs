//! The machine's disk with a gate before one file: whoever reads from it waits until the gate is opened.

use daruma_base::{Disk, DiskFile, OpenMode};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};

/// See the module. It is shut at first.
pub struct Gate {
    file: &'static str,
    is_open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    /// Before the file of this name, in whatever folder.
    pub fn of(file: &'static str) -> Gate {
        Gate {
            file,
            is_open: Mutex::new(false),
            opened: Condvar::new(),
        }
    }

    /// From now on nobody waits.
    pub fn open(&self) {
        *self.is_open.lock().expect("no panic") = true;
        self.opened.notify_all();
    }

    fn pass(&self) {
        let is_open = self.is_open.lock().expect("no panic");
        let passed = self.opened.wait_while(is_open, |is_open| !*is_open);
        drop(passed.expect("no panic"));
    }
}

/// See the module.
pub struct GatedDisk {
    inner: Arc<dyn Disk>,
    gate: Arc<Gate>,
}

impl GatedDisk {
    /// A gate before a file of this disk.
    pub fn new(inner: Arc<dyn Disk>, gate: Arc<Gate>) -> GatedDisk {
        GatedDisk { inner, gate }
    }
}

impl Disk for GatedDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        let file = self.inner.open(path, mode)?;
        let is_gated = path.file_name().is_some_and(|name| name == self.gate.file);
        Ok(match is_gated {
            true => Arc::new(GatedFile {
                inner: file,
                gate: self.gate.clone(),
            }),
            false => file,
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.inner.remove(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.rename(from, to)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.inner.exists(path)
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.inner.create_dir_all(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        self.inner.list(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.inner.sync_dir(dir)
    }

    fn identity(&self, path: &Path) -> daruma_base::FileIdentity {
        self.inner.identity(path)
    }
}

struct GatedFile {
    inner: Arc<dyn DiskFile>,
    gate: Arc<Gate>,
}

impl DiskFile for GatedFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.gate.pass();
        self.inner.read_at(buf, offset)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.inner.write_at(buf, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.inner.sync_data()
    }

    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.inner.set_len(len)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.inner.allocate(len)
    }

    fn release(&self) {
        self.inner.release();
    }
}
