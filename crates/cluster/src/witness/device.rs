//! A disk that several machines reach: reads and writes past every cache.

use rustix::fs::{FileType, Mode, OFlags, SeekFrom, fstat, open, seek, stat};
use rustix::io::{Errno, pread, pwrite};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::Duration;

/// What is read and written at once; a multiple of what disks write whole.
pub const SECTOR_BYTES: usize = 4096;

/// Where [`super::DiskWitness`] keeps its blocks. Offsets, lengths and writes are multiples of [`SECTOR_BYTES`].
pub trait Device {
    /// What is there now, whoever wrote it.
    fn read(&mut self, offset: u64, length: usize) -> io::Result<Vec<u8>>;
    /// Durable when it returns, and seen by everybody who reads from then on.
    fn write(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// A number that another file put in its place would not have; 0 where there is none that all nodes see.
    fn identity(&self) -> io::Result<u64>;
    /// Lets others go on.
    fn wait(&mut self, length: Duration);
}

/// A block device, or a file on a file system that several machines have mounted.
pub struct DirectFile {
    file: File,
}

impl DirectFile {
    /// Opens what is there, and makes nothing. A path that does not let caches be passed by is refused: through one, nodes would read what
    /// is old. So is one that has less than `bytes_min`.
    pub fn open(path: &Path, bytes_min: u64) -> io::Result<DirectFile> {
        let flags = OFlags::RDWR | OFlags::DIRECT | OFlags::DSYNC | OFlags::CLOEXEC;
        let opened = open(path, flags, Mode::empty()).map_err(|e| match e {
            Errno::INVAL => unfit("it does not let the system's cache be passed by"),
            e => e.into(),
        })?;
        let file = File::from(opened);
        let kind = FileType::from_raw_mode(fstat(&file)?.st_mode);
        if !matches!(kind, FileType::BlockDevice | FileType::RegularFile) {
            return Err(unfit("it is neither a block device nor a file"));
        }
        match seek(&file, SeekFrom::End(0))? {
            length if length < bytes_min => Err(unfit(&format!(
                "it has {length} bytes, and {bytes_min} are needed"
            ))),
            _ => Ok(DirectFile { file }),
        }
    }

    /// Is this the block device that is at this path now? Of files that is not asked: each is opened anew, as another may have its name.
    pub fn is_device_at(&self, path: &Path) -> bool {
        let is_device = |mode| FileType::from_raw_mode(mode) == FileType::BlockDevice;
        match (fstat(&self.file), stat(path)) {
            (Ok(mine), Ok(there)) => {
                is_device(mine.st_mode) && is_device(there.st_mode) && mine.st_rdev == there.st_rdev
            }
            _ => false,
        }
    }
}

fn unfit(why: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, why.to_string())
}

/// Room for so many bytes that begins where direct reads and writes may: the bytes, and where they begin.
fn aligned(length: usize) -> (Vec<u8>, usize) {
    let bytes = vec![0; length + SECTOR_BYTES];
    let begin = bytes.as_ptr().align_offset(SECTOR_BYTES);
    (bytes, begin)
}

impl Device for DirectFile {
    fn read(&mut self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let (mut bytes, begin) = aligned(length);
        let place = bytes.get_mut(begin..begin + length);
        let place = place.ok_or(ErrorKind::InvalidInput)?;
        // Less than was asked for is the end of the file, or of what can be read of it.
        match pread(&self.file, place, offset)? {
            read if read == length => {
                bytes.truncate(begin + length);
                Ok(bytes.split_off(begin))
            }
            _ => Err(ErrorKind::UnexpectedEof.into()),
        }
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let (mut room, begin) = aligned(bytes.len());
        let place = room.get_mut(begin..begin + bytes.len());
        let place = place.ok_or(ErrorKind::InvalidInput)?;
        place.copy_from_slice(bytes);
        match pwrite(&self.file, place, offset)? {
            written if written == bytes.len() => Ok(()),
            _ => Err(ErrorKind::WriteZero.into()),
        }
    }

    fn identity(&self) -> io::Result<u64> {
        let found = fstat(&self.file)?;
        Ok(match FileType::from_raw_mode(found.st_mode) {
            // Each machine has a number of its own for a device.
            FileType::BlockDevice => 0,
            _ => found.st_ino,
        })
    }

    fn wait(&mut self, length: Duration) {
        std::thread::sleep(length);
    }
}
