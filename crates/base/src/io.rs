//! The outside world as traits: disk, clock, randomness.
//!
//! What the engine assumes of a disk (docs/format.md says more): a write is atomic at most per 512-byte sector;
//! unsynced writes may be lost in any subset; after `sync_data` returned Ok, everything written before survives a
//! power loss; after it returned an error nothing is known and the file must be fenced, never synced again as if
//! nothing had happened.

use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// What memory, length and place of a write are to be multiples of for [`DiskFile::write_direct_at`] to be what it says.
pub const DIRECT_BYTES: usize = 4096;

/// How a file is opened, and whether it must be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// Must exist.
    ReadWrite,
    /// Must exist.
    ReadOnly,
    /// Must not exist.
    CreateNew,
    /// As `CreateNew`, and nobody but the server's own user may read it.
    CreatePrivate,
}

/// What tells one file from another, by whatever paths and links they are reached.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum FileIdentity {
    /// Device and inode of a file that is there.
    There { device: u64, inode: u64 },
    /// A file that is not there: device and inode of its folder, and its name.
    Missing {
        device: u64,
        inode: u64,
        name: OsString,
    },
    /// On disks without links, and where not even the folder is there: the path without detours.
    Path(PathBuf),
}

impl FileIdentity {
    /// Is it a file that is not there, and would be in this folder?
    pub fn is_missing_in(&self, folder: &FileIdentity) -> bool {
        match (self, folder) {
            (
                FileIdentity::Missing { device, inode, .. },
                FileIdentity::There {
                    device: of,
                    inode: number,
                },
            ) => device == of && inode == number,
            _ => false,
        }
    }

    /// By the path alone.
    pub fn of_path(path: &Path) -> FileIdentity {
        let mut plain = PathBuf::new();
        for part in path.components() {
            match part {
                Component::CurDir => {}
                Component::ParentDir => drop(plain.pop()),
                part => plain.push(part),
            }
        }
        FileIdentity::Path(plain)
    }
}

/// A file system and its room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeSpace {
    pub mount_point: PathBuf,
    pub total_bytes: u64,
    /// To those who are not root.
    pub available_bytes: u64,
}

/// A directory tree of files. Paths are absolute or relative to the working directory of the server.
pub trait Disk: Send + Sync {
    /// Opens a file. All but `ReadOnly` take an exclusive advisory lock; a second opener gets
    /// `ErrorKind::WouldBlock`.
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>>;
    /// Deletes a file; not durable before `sync_dir`. A file that is not there is `NotFound`.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Gives a file another name, replacing what has it; at once for everybody, durable after `sync_dir`.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Is there a file or folder of this name?
    fn exists(&self, path: &Path) -> io::Result<bool>;
    /// Makes the folder and those above it; one that is there is no error.
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;
    /// Paths of everything in the folder, in no order.
    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>>;
    /// Is there a folder of this name, or a link to one?
    fn is_folder(&self, path: &Path) -> bool {
        self.list(path).is_ok()
    }
    /// Is it a link to something else?
    fn is_link(&self, _path: &Path) -> bool {
        false
    }
    /// Makes creations, removals and renames in `dir` durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Which file a path leads to, if it is there or not.
    fn identity(&self, path: &Path) -> FileIdentity {
        FileIdentity::of_path(path)
    }
}

/// Makes the folder and those above it that are missing, each durable in the one that holds it. `gate` is asked for every one of them
/// before the first is made.
///
/// # Errors
/// Those of the gate and of the disk.
pub fn make_folders(
    disk: &dyn Disk,
    path: &Path,
    gate: &dyn Fn(&Path) -> io::Result<()>,
) -> io::Result<()> {
    let is_named = |p: &&Path| !p.as_os_str().is_empty();
    let named = || path.ancestors().take_while(is_named);
    let missing: Vec<&Path> = named().take_while(|p| !disk.is_folder(p)).collect();
    missing.iter().try_for_each(|folder| gate(folder))?;
    disk.create_dir_all(path)?;
    let holder = |folder: &Path| folder.parent().unwrap_or(Path::new("")).to_path_buf();
    for folder in missing.iter().rev() {
        disk.sync_dir(&holder(folder))?;
    }
    if !missing.is_empty() {
        // Another may have made these just now, and not synced them yet. Folders that cannot be opened are none of the server's.
        named().skip(missing.len()).for_each(|folder| {
            let _ = disk.sync_dir(&holder(folder));
        });
    }
    Ok(())
}

/// An open file. All calls are positioned, so that threads share one handle.
pub trait DiskFile: Send + Sync {
    /// Fills `buf` or fails; reading past the end is `UnexpectedEof`.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()>;
    /// Writes all of `buf` or fails; the file grows if it must. Durable with the next sync.
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()>;
    /// Writes adjacent parts, as one write of them all.
    fn write_parts_at(&self, parts: &[&[u8]], offset: u64) -> io::Result<()> {
        match parts {
            [one] => self.write_at(one, offset),
            parts => self.write_at(&parts.concat(), offset),
        }
    }
    /// As `write_parts_at`, and durable when it returns: these bytes, in space that was written before, not others.
    fn write_synced_at(&self, parts: &[&[u8]], offset: u64) -> io::Result<()> {
        self.write_parts_at(parts, offset)?;
        self.sync_data()
    }
    /// As `write_at`, past the system's cache where the disk can do that: for bytes that nobody will read soon. It needs
    /// `buf`, its length and `offset` to be multiples of [`DIRECT_BYTES`]; otherwise it only begins to write at once. Durable
    /// with the next sync, like any other write.
    fn write_direct_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.write_at(buf, offset)?;
        self.start_writing(offset, buf.len() as u64);
        Ok(())
    }
    /// Durable content and length (fdatasync).
    fn sync_data(&self) -> io::Result<()>;
    /// Says that these bytes will be synced and not written again soon: a disk that gathers writes may begin with them, so
    /// that a later sync finds little to do. No promise; what goes wrong shows at the sync.
    fn start_writing(&self, _offset: u64, _len: u64) {}
    /// Length in bytes, as other handles see it too.
    fn len(&self) -> io::Result<u64>;
    /// Is the length 0?
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Cuts the file off, or lengthens it by zeroes for which no space is reserved.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Grows the file to `len` with space really reserved (ENOSPC now rather than later). New bytes read as zero.
    fn allocate(&self, len: u64) -> io::Result<()>;
    /// Lets others open the file although this handle still exists; nothing may be written through it any more.
    fn release(&self);
}

/// Time, as the engine sees it. Handed in, so that a simulation can stand in for the machine.
pub trait Clock: Send + Sync {
    /// Time since an arbitrary start; never goes back.
    fn monotonic(&self) -> Duration;
    /// Processor time of the calling thread so far. A clock without one gives the time that went by.
    fn thread_cpu(&self) -> Duration {
        self.monotonic()
    }
    /// From here on the work of the calling thread may wait for that of others.
    fn run_in_background(&self) {}
    /// Wall clock: time since 1970-01-01 UTC, in units of 100 ns.
    fn utc_100ns(&self) -> i64;
    /// Offset of local time from UTC in minutes at this moment.
    fn local_offset_minutes(&self) -> i16;
    /// Lets the calling thread rest; simulated clocks go on instead.
    fn sleep(&self, duration: Duration);
}

/// Randomness, as the engine sees it: seeded in a simulation, the system's otherwise.
pub trait Random: Send + Sync {
    /// Fills `buf` with evenly distributed bytes; the system's are fit for keys.
    fn fill(&self, buf: &mut [u8]);

    /// 64 bits of the same.
    fn u64(&self) -> u64 {
        let mut buf = [0; 8];
        self.fill(&mut buf);
        u64::from_le_bytes(buf)
    }
}

/// Everything the engine is handed by the program that runs it.
#[derive(Clone)]
pub struct Env {
    pub disk: Arc<dyn Disk>,
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
}
