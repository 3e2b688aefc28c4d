//! A disk whose folders behave like slow devices: a model for experiments, not for production.
//!
//! The model of a device, after a virtual machine's data disk with 60 MB/s and 500 requests a second:
//! * it serves one request after another, each for as long as its bytes take at `bytes_per_s`, or its 256 KiB pieces at
//!   `requests_per_s`, whichever is longer;
//! * a request also takes its own time, its bytes at `stream_bytes_per_s`, from its beginning: who waits for each request
//!   before the next one moves no more than that, and several requests at once fill the device.
//!
//! The real transfer happens first; then the caller waits for what the model says is left.

use daruma_base::{Disk, DiskFile, FileIdentity, OpenMode};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// A larger request counts as several.
const PIECE_BYTES: usize = 256 << 10;

/// The limits of one folder.
#[derive(Clone, Debug, PartialEq)]
pub struct FolderLimit {
    pub folder: PathBuf,
    pub bytes_per_s: f64,
    pub requests_per_s: f64,
    pub stream_bytes_per_s: f64,
}

impl FolderLimit {
    /// How long a request keeps the device busy, and how long it takes at least.
    fn times(&self, bytes: usize) -> (Duration, Duration) {
        let pieces = bytes.div_ceil(PIECE_BYTES).max(1);
        let by_bytes = bytes as f64 / self.bytes_per_s;
        let by_requests = pieces as f64 / self.requests_per_s;
        let own = bytes as f64 / self.stream_bytes_per_s;
        let busy = Duration::from_secs_f64(by_bytes.max(by_requests));
        (busy, Duration::from_secs_f64(own))
    }
}

/// Another disk, slower in some folders.
pub struct LimitedDisk {
    inner: Arc<dyn Disk>,
    devices: Vec<Arc<Device>>,
}

struct Device {
    limit: FolderLimit,
    /// When the device has served everything that was asked of it.
    free_at: Mutex<Instant>,
}

impl Device {
    fn wait(&self, begun: Instant, bytes: usize) {
        let (busy, own) = self.limit.times(bytes);
        let served = {
            let mut free_at = self.free_at.lock().unwrap_or_else(PoisonError::into_inner);
            *free_at = (*free_at).max(begun) + busy;
            *free_at
        };
        let until = served.max(begun + own);
        thread::sleep(until.saturating_duration_since(Instant::now()));
    }
}

impl LimitedDisk {
    /// The disk `inner`, whose folders are as slow as `limits` say.
    pub fn new(inner: Arc<dyn Disk>, limits: Vec<FolderLimit>) -> LimitedDisk {
        let device = |limit| {
            Arc::new(Device {
                limit,
                free_at: Mutex::new(Instant::now()),
            })
        };
        LimitedDisk {
            inner,
            devices: limits.into_iter().map(device).collect(),
        }
    }

    fn device(&self, path: &Path) -> Option<Arc<Device>> {
        let found = self
            .devices
            .iter()
            .find(|d| path.starts_with(&d.limit.folder));
        found.cloned()
    }
}

impl Disk for LimitedDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        let inner = self.inner.open(path, mode)?;
        Ok(match self.device(path) {
            None => inner,
            Some(device) => Arc::new(LimitedFile { inner, device }),
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

    fn is_folder(&self, path: &Path) -> bool {
        self.inner.is_folder(path)
    }

    fn is_link(&self, path: &Path) -> bool {
        self.inner.is_link(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.inner.sync_dir(dir)
    }

    fn identity(&self, path: &Path) -> FileIdentity {
        self.inner.identity(path)
    }
}

struct LimitedFile {
    inner: Arc<dyn DiskFile>,
    device: Arc<Device>,
}

impl DiskFile for LimitedFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let begun = Instant::now();
        self.inner.read_at(buf, offset)?;
        self.device.wait(begun, buf.len());
        Ok(())
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        let begun = Instant::now();
        self.inner.write_at(buf, offset)?;
        self.device.wait(begun, buf.len());
        Ok(())
    }

    fn write_direct_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        let begun = Instant::now();
        self.inner.write_direct_at(buf, offset)?;
        self.device.wait(begun, buf.len());
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.inner.sync_data()
    }

    fn start_writing(&self, offset: u64, len: u64) {
        self.inner.start_writing(offset, len);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn limit() -> FolderLimit {
        FolderLimit {
            folder: "/slow".into(),
            bytes_per_s: 60e6,
            requests_per_s: 500.0,
            stream_bytes_per_s: 15e6,
        }
    }

    #[test]
    fn small_requests_are_bound_by_their_number_large_ones_by_their_bytes() {
        let (busy, own) = limit().times(512);
        assert_eq!(busy, Duration::from_millis(2));
        assert!(own < busy);
        let (busy, own) = limit().times(6_000_000);
        assert_eq!(busy, Duration::from_millis(100));
        assert_eq!(own, Duration::from_millis(400));
    }

    #[test]
    fn the_device_serves_one_request_after_another() {
        let disk = LimitedDisk::new(Arc::new(crate::RealDisk), vec![limit()]);
        let device = disk.device(Path::new("/slow/a.bak")).expect("a device");
        let begun = Instant::now();
        device.wait(begun, 1);
        device.wait(begun, 1);
        let free_at = *device.free_at.lock().expect("no panic");
        assert!(free_at >= begun + Duration::from_millis(4));
        assert!(disk.device(Path::new("/fast/a.bak")).is_none());
    }
}
