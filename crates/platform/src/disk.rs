//! Files of the operating system: positioned reads and writes, direct ones among them, fdatasync, fallocate, advisory locks.

use daruma_base::{DIRECT_BYTES, Disk, DiskFile, FileIdentity, OpenMode};
use rustix::fs::{Advice, FallocateFlags, FlockOperation, OFlags, fadvise};
use rustix::io::{Errno, ReadWriteFlags, pwritev2};
use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSlice};
use std::num::NonZeroU64;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// A page of the system's cache, or a multiple of it.
const CACHE_PAGE_BYTES: u64 = 4096;
/// So many links in a row are followed, as the system does.
const LINKS_MAX: usize = 40;

/// The operating system's files; `O_DIRECT` is used where a write asks for it.
#[derive(Debug)]
pub struct RealDisk;

struct RealFile {
    file: File,
    /// A handle past the system's cache, opened when it is first needed; `None` where the file system has none.
    direct: OnceLock<Option<File>>,
}

impl Disk for RealDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        // A pipe that nobody writes to would be waited for without end.
        let flags = i32::try_from(OFlags::NONBLOCK.bits()).map_err(io::Error::other)?;
        options.read(true).custom_flags(flags);
        match mode {
            OpenMode::ReadOnly => {}
            OpenMode::ReadWrite => {
                options.write(true);
            }
            OpenMode::CreateNew => {
                options.write(true).create_new(true);
            }
            OpenMode::CreatePrivate => {
                options.write(true).create_new(true).mode(0o600);
            }
        }
        let file = options.open(path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "it is not a regular file",
            ));
        }
        if mode != OpenMode::ReadOnly {
            rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        }
        Ok(Arc::new(RealFile {
            file,
            direct: OnceLock::new(),
        }))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        path.try_exists()
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        fs::read_dir(dir)?.map(|entry| Ok(entry?.path())).collect()
    }

    fn is_folder(&self, path: &Path) -> bool {
        fs::metadata(path).is_ok_and(|m| m.is_dir())
    }

    fn is_link(&self, path: &Path) -> bool {
        fs::symlink_metadata(path).is_ok_and(|m| m.is_symlink())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let dir = if dir.as_os_str().is_empty() {
            Path::new(".")
        } else {
            dir
        };
        File::open(dir)?.sync_all()
    }

    fn identity(&self, path: &Path) -> FileIdentity {
        if let Ok(there) = fs::metadata(path) {
            return FileIdentity::There {
                device: there.dev(),
                inode: there.ino(),
            };
        }
        missing_identity(&behind_links(path))
    }
}

/// Where a path leads when nothing is there: a link to what is not there yet is that.
fn behind_links(path: &Path) -> PathBuf {
    let mut path = path.to_path_buf();
    for _ in 0..LINKS_MAX {
        match fs::read_link(&path) {
            Ok(target) => path = path.parent().unwrap_or(Path::new("")).join(target),
            Err(_) => break,
        }
    }
    path
}

fn missing_identity(path: &Path) -> FileIdentity {
    let folder = match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Some(Path::new(".")),
        parent => parent,
    };
    match (folder.map(fs::metadata), path.file_name()) {
        (Some(Ok(folder)), Some(name)) => FileIdentity::Missing {
            device: folder.dev(),
            inode: folder.ino(),
            name: name.to_os_string(),
        },
        _ => FileIdentity::of_path(path),
    }
}

impl RealFile {
    /// The same file by another handle: the lock stays with the first.
    fn direct(&self) -> Option<&File> {
        let open = || {
            let flags = i32::try_from(OFlags::DIRECT.bits()).ok()?;
            let same = format!("/proc/self/fd/{}", self.file.as_raw_fd());
            let mut options = OpenOptions::new();
            options.write(true).custom_flags(flags).open(same).ok()
        };
        self.direct.get_or_init(open).as_ref()
    }

    /// One call in the usual case; the rest of a write that the system cut short follows with the same flags.
    fn write_vectored(
        &self,
        parts: &[&[u8]],
        offset: u64,
        flags: ReadWriteFlags,
    ) -> io::Result<()> {
        let mut slices: Vec<IoSlice<'_>> = parts.iter().map(|p| IoSlice::new(p)).collect();
        let mut rest = slices.as_mut_slice();
        let mut at = offset;
        while !rest.is_empty() {
            match pwritev2(&self.file, rest, at, flags) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    at += written as u64;
                    IoSlice::advance_slices(&mut rest, written);
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

impl DiskFile for RealFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(buf, offset)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(buf, offset)
    }

    fn write_parts_at(&self, parts: &[&[u8]], offset: u64) -> io::Result<()> {
        self.write_vectored(parts, offset, ReadWriteFlags::empty())
    }

    fn write_synced_at(&self, parts: &[&[u8]], offset: u64) -> io::Result<()> {
        match self.write_vectored(parts, offset, ReadWriteFlags::DSYNC) {
            // File systems without the flag.
            Err(error) if error.raw_os_error() == Some(Errno::OPNOTSUPP.raw_os_error()) => {
                self.write_parts_at(parts, offset)?;
                self.file.sync_data()
            }
            result => result,
        }
    }

    fn write_direct_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        if is_direct(buf, offset)
            && let Some(direct) = self.direct()
        {
            match direct.write_all_at(buf, offset) {
                // A device of larger sectors.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => {}
                result => return result,
            }
        }
        self.file.write_all_at(buf, offset)?;
        self.start_writing(offset, buf.len() as u64);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// On Linux this advice starts the writing of dirty pages without waiting for them, and drops clean ones (`fadvise64(2)`,
    /// `mm/fadvise.c`). A page of which only a part is meant is left out: its other part may be under way still.
    fn start_writing(&self, offset: u64, len: u64) {
        let first = offset
            .div_ceil(CACHE_PAGE_BYTES)
            .saturating_mul(CACHE_PAGE_BYTES);
        let end = offset.saturating_add(len) / CACHE_PAGE_BYTES * CACHE_PAGE_BYTES;
        if let Some(whole) = NonZeroU64::new(end.saturating_sub(first)) {
            // Advice only: file systems without it write at the sync.
            let _ = fadvise(&self.file, first, Some(whole), Advice::DontNeed);
        }
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        let now = self.len()?;
        if len <= now {
            return Ok(());
        }
        match rustix::fs::fallocate(&self.file, FallocateFlags::empty(), now, len - now) {
            Ok(()) => Ok(()),
            // File systems without fallocate: length only; a full disk then shows at the write.
            Err(rustix::io::Errno::OPNOTSUPP) => self.file.set_len(len),
            Err(error) => Err(error.into()),
        }
    }

    fn release(&self) {
        // A lock that cannot be given up ends with the handle.
        let _ = rustix::fs::flock(&self.file, FlockOperation::Unlock);
    }
}

/// Are memory, length and place such that a direct write can take them?
fn is_direct(buf: &[u8], offset: u64) -> bool {
    let each = [buf.as_ptr().addr() as u64, buf.len() as u64, offset];
    each.iter().all(|n| n.is_multiple_of(DIRECT_BYTES as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_opener_is_refused() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let path = dir.path().join("data.mdf");
        let first = RealDisk.open(&path, OpenMode::CreateNew).expect("creates");
        let second = RealDisk
            .open(&path, OpenMode::ReadWrite)
            .map(|_| ())
            .map_err(|e| e.kind());
        assert_eq!(second, Err(io::ErrorKind::WouldBlock));
        drop(first);
        assert!(RealDisk.open(&path, OpenMode::ReadWrite).is_ok());
    }

    #[test]
    fn a_file_is_the_same_by_every_path() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("folder")).expect("creates");
        fs::write(at("folder/file"), "one").expect("writes");
        fs::write(at("other"), "two").expect("writes");
        fs::hard_link(at("folder/file"), at("hard")).expect("links");
        std::os::unix::fs::symlink(at("folder/file"), at("soft")).expect("links");
        std::os::unix::fs::symlink(at("folder"), at("way")).expect("links");
        let id = |name: &str| RealDisk.identity(&at(name));
        let file = id("folder/file");
        for same in ["hard", "soft", "way/file", "folder/../way/./file"] {
            assert_eq!(id(same), file, "{same}");
        }
        assert_ne!(id("other"), file);
        let missing = id("folder/none");
        assert_eq!(id("way/../folder/none"), missing);
        assert_eq!(id("way/none"), missing);
        assert_ne!(id("none"), missing);
        assert_eq!(id("no/such/../folder"), id("no/folder"));
        std::os::unix::fs::symlink("folder/none", at("later")).expect("links");
        std::os::unix::fs::symlink(at("later"), at("much_later")).expect("links");
        assert_eq!(id("later"), missing);
        assert_eq!(id("much_later"), missing);
        std::os::unix::fs::symlink("loop", at("loop")).expect("links");
        assert_ne!(id("loop"), missing);
    }

    #[test]
    fn parts_land_side_by_side() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let file = RealDisk
            .open(&dir.path().join("f"), OpenMode::CreateNew)
            .expect("creates");
        let long: Vec<u8> = (0..100_000u32).map(|n| n as u8).collect();
        file.write_parts_at(&[b"ab", b"", &long], 10)
            .expect("writes");
        file.write_synced_at(&[b"cd", b"ef"], 12 + 100_000)
            .expect("writes");
        let mut found = vec![0; 100_006];
        file.read_at(&mut found, 10).expect("reads");
        assert_eq!(&found[..2], b"ab");
        assert_eq!(&found[2..100_002], long);
        assert_eq!(&found[100_002..], b"cdef");
    }

    #[test]
    fn bytes_on_their_way_to_the_disk_are_read_as_before() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let file = RealDisk
            .open(&dir.path().join("f"), OpenMode::CreateNew)
            .expect("creates");
        let bytes: Vec<u8> = (0..50_000u32).map(|n| (n / 7) as u8).collect();
        file.write_at(&bytes, 100).expect("writes");
        for (offset, len) in [(100, 50_000), (0, 10), (u64::MAX - 5_000, 4_000)] {
            file.start_writing(offset, len);
        }
        let mut found = vec![0; bytes.len()];
        file.read_at(&mut found, 100).expect("reads");
        assert_eq!(found, bytes);
        file.sync_data().expect("syncs");
    }

    #[test]
    fn direct_writes_and_others_see_each_other() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let file = RealDisk
            .open(&dir.path().join("f"), OpenMode::CreateNew)
            .expect("creates");
        let bytes: Vec<u8> = (0..9 * DIRECT_BYTES).map(|n| (n / 7) as u8).collect();
        let begin = bytes.as_ptr().align_offset(DIRECT_BYTES);
        let aligned = &bytes[begin..begin + 8 * DIRECT_BYTES];
        let mut found = vec![0; aligned.len()];
        file.allocate(aligned.len() as u64).expect("allocates");
        file.write_at(&found, 0).expect("writes");
        file.write_direct_at(aligned, 0)
            .expect("writes past the cache");
        file.read_at(&mut found, 0).expect("reads");
        assert_eq!(found, aligned);
        // Not at a place for direct writes: it is written all the same.
        file.write_direct_at(&aligned[1..100], 5_000)
            .expect("writes");
        file.sync_data().expect("syncs");
        file.read_at(&mut found, 0).expect("reads");
        assert_eq!(found[..5_000], aligned[..5_000]);
        assert_eq!(found[5_000..5_099], aligned[1..100]);
        assert_eq!(found[5_099..], aligned[5_099..]);
    }

    #[test]
    fn what_is_no_regular_file_is_refused_at_once() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let pipe = dir.path().join("pipe");
        rustix::fs::mkfifoat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        )
        .expect("makes a pipe");
        let socket = dir.path().join("socket");
        let _bound = std::os::unix::net::UnixListener::bind(&socket).expect("binds");
        for path in [pipe.as_path(), &socket, Path::new("/dev/zero"), dir.path()] {
            for mode in [OpenMode::ReadOnly, OpenMode::ReadWrite] {
                assert!(RealDisk.open(path, mode).is_err(), "{}", path.display());
            }
        }
    }

    #[test]
    fn allocated_space_reads_as_zero() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let file = RealDisk
            .open(&dir.path().join("f"), OpenMode::CreateNew)
            .expect("creates");
        file.write_at(b"abc", 0).expect("writes");
        file.allocate(8192).expect("allocates");
        let mut tail = [1u8; 8];
        file.read_at(&mut tail, 8184).expect("reads");
        assert_eq!((file.len().expect("length"), tail), (8192, [0; 8]));
    }
}
