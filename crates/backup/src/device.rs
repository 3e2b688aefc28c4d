//! Backup devices: where the bytes of one media family go and come from.
//!
//! Theory: a backup is written beside its final name and takes that name only when it is whole and on disk, so an
//! earlier backup of the same name is there until a better one is. Only appending to a media set writes into the file
//! itself, behind everything that counts; see `frame::Kind::Tail`.
//!
//! The maker of a device of a path says with a [`Gate`] which files are not for backups. It is asked before a file is
//! touched, and again before one takes its final name; and only a backup or an empty file is ever replaced.

use crate::frame;
use daruma_base::{Disk, DiskFile, OpenMode, make_folders};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// One family being written. Pieces may be written by several threads at once and in any order, each piece once.
pub trait Target: Send + Sync {
    /// Piece `piece` (counted from 0, without holes) begins at `offset`.
    fn write(&self, bytes: &[u8], offset: u64, piece: u32) -> io::Result<()>;
    /// All pieces are written, `len` bytes in all: make them durable.
    fn seal(&self, len: u64) -> io::Result<()>;
    /// All families are sealed, and none has its name yet: may this one still take its own?
    fn check(&self) -> io::Result<()> {
        Ok(())
    }
    /// All families are sealed and checked: give this one its name.
    fn publish(&self) -> io::Result<()>;
    /// The backup failed: leave nothing behind that was not there before.
    fn abort(&self);
}

/// One family being read.
pub trait Source: Send + Sync {
    /// Bytes of the family, including what lies behind its last tail.
    fn len(&self) -> io::Result<u64>;
    /// Fills `buf` or fails.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()>;
    /// So many bytes are worth a read of their own.
    fn piece_bytes(&self) -> u64 {
        1 << 20
    }
    /// Is there no byte at all?
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
}

/// A place for a media family.
pub trait Device: Send + Sync {
    /// As the statement named it.
    fn name(&self) -> &str;
    /// 2 disk, 9 URL, as `backupmediafamily.device_type`.
    fn device_type(&self) -> u8;
    /// Is there anything under this name?
    fn exists(&self) -> io::Result<bool>;
    /// Opens the family for reading.
    fn source(&self) -> io::Result<Arc<dyn Source>>;
    /// Is nothing there that a new backup must not replace?
    fn is_replaceable(&self) -> io::Result<bool> {
        Ok(true)
    }
    /// A new file, replacing what is there when it is finished.
    fn create(&self) -> io::Result<Arc<dyn Target>>;
    /// Goes on behind the first `len` bytes of the existing file.
    fn append(&self, len: u64) -> io::Result<Arc<dyn Target>>;
    /// Smallest piece that is worth a write of its own.
    fn piece_bytes(&self) -> usize {
        1 << 20
    }
    /// Of a file of the disk.
    fn path(&self) -> Option<&Path> {
        None
    }
    /// Where it is, if writing another file there tells how fast it is.
    fn folder(&self) -> Option<PathBuf> {
        None
    }
    /// Discards everything: nothing can be read back.
    fn is_nul(&self) -> bool {
        false
    }
}

/// Fails for a file that must not be written, replaced or removed.
pub type Gate = Arc<dyn Fn(&Path) -> io::Result<()> + Send + Sync>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    Nothing,
    /// Whole or not.
    Backup,
    Other,
}

fn content(disk: &dyn Disk, path: &Path) -> io::Result<Content> {
    if !disk.exists(path)? {
        return Ok(Content::Nothing);
    }
    let file = disk.open(path, OpenMode::ReadOnly)?;
    Ok(match file.len()? {
        0 => Content::Nothing,
        4.. if frame::begins_medium(first_bytes(file.as_ref())?) => Content::Backup,
        _ => Content::Other,
    })
}

/// Is a backup there, whole or damaged?
pub fn is_backup(disk: &dyn Disk, path: &Path) -> io::Result<bool> {
    Ok(content(disk, path)? == Content::Backup)
}

/// May a backup take the place of what is there? Only of another backup, or of nothing.
fn is_replaceable(disk: &dyn Disk, path: &Path) -> io::Result<bool> {
    Ok(content(disk, path)? != Content::Other)
}

fn first_bytes(file: &dyn DiskFile) -> io::Result<[u8; 4]> {
    let mut bytes = [0; 4];
    file.read_at(&mut bytes, 0)?;
    Ok(bytes)
}

/// Name and secret with which a device is opened.
#[derive(Clone, PartialEq, Eq)]
pub struct Credential {
    pub identity: String,
    pub secret: String,
}

/// Makes devices of URLs; the program that runs the server provides it.
pub trait UrlDevices: Send + Sync {
    /// The device at this URL. A URL of a kind that is not known, or one without a needed credential, is an error.
    fn device(
        &self,
        url: &str,
        credential: Option<&Credential>,
    ) -> crate::error::Result<Arc<dyn Device>>;
}

/// A file of a disk.
pub struct DiskDevice {
    disk: Arc<dyn Disk>,
    name: String,
    path: PathBuf,
    gate: Gate,
}

impl DiskDevice {
    /// `name` as the statement spells it, for messages; `gate` decides whether `path` may be written or read.
    pub fn new(disk: &Arc<dyn Disk>, name: &str, path: &Path, gate: Gate) -> DiskDevice {
        DiskDevice {
            disk: disk.clone(),
            name: name.to_string(),
            path: path.to_path_buf(),
            gate,
        }
    }

    /// Where a backup is until it is whole.
    pub fn partial(path: &Path) -> PathBuf {
        let mut name = path.as_os_str().to_os_string();
        name.push(".partial");
        PathBuf::from(name)
    }

    /// Removes what a backup that was killed left. One that still runs holds its lock; anything else is not ours.
    fn clear(&self, partial: &Path) -> io::Result<()> {
        if !self.disk.exists(partial)? {
            return Ok(());
        }
        let left = self.disk.open(partial, OpenMode::ReadWrite)?;
        // The label may not have been written yet.
        let begins = match left.len()? {
            0..4 => [0; 4],
            _ => first_bytes(left.as_ref())?,
        };
        if begins != [0; 4] && !frame::begins_medium(begins) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        drop(left);
        self.disk.remove(partial)
    }
}

impl Device for DiskDevice {
    fn name(&self) -> &str {
        &self.name
    }

    fn device_type(&self) -> u8 {
        2
    }

    fn exists(&self) -> io::Result<bool> {
        self.disk.exists(&self.path)
    }

    fn path(&self) -> Option<&Path> {
        Some(&self.path)
    }

    fn folder(&self) -> Option<PathBuf> {
        self.path.parent().map(Path::to_path_buf)
    }

    fn source(&self) -> io::Result<Arc<dyn Source>> {
        let file = self.disk.open(&self.path, OpenMode::ReadOnly)?;
        Ok(Arc::new(DiskSource(file)))
    }

    fn is_replaceable(&self) -> io::Result<bool> {
        is_replaceable(self.disk.as_ref(), &self.path)
    }

    fn create(&self) -> io::Result<Arc<dyn Target>> {
        let partial = DiskDevice::partial(&self.path);
        (self.gate)(&self.path)?;
        (self.gate)(&partial)?;
        self.clear(&partial)?;
        let file = match self.disk.open(&partial, OpenMode::CreateNew) {
            // As the product does on Linux, where scripts rely on it.
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                let folder = self.path.parent().unwrap_or(Path::new(""));
                make_folders(self.disk.as_ref(), folder, &*self.gate)?;
                self.disk.open(&partial, OpenMode::CreateNew)?
            }
            opened => opened?,
        };
        Ok(Arc::new(DiskTarget {
            disk: self.disk.clone(),
            file,
            path: self.path.clone(),
            gate: self.gate.clone(),
            written_as: Some(partial),
            kept: 0,
        }))
    }

    fn append(&self, len: u64) -> io::Result<Arc<dyn Target>> {
        (self.gate)(&self.path)?;
        let file = self.disk.open(&self.path, OpenMode::ReadWrite)?;
        Ok(Arc::new(DiskTarget {
            disk: self.disk.clone(),
            file,
            path: self.path.clone(),
            gate: self.gate.clone(),
            written_as: None,
            kept: len,
        }))
    }
}

struct DiskSource(Arc<dyn DiskFile>);

impl Source for DiskSource {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read_at(buf, offset)
    }
}

struct DiskTarget {
    disk: Arc<dyn Disk>,
    file: Arc<dyn DiskFile>,
    path: PathBuf,
    gate: Gate,
    /// Name until it is finished; `None` when an existing file grows.
    written_as: Option<PathBuf>,
    /// Bytes that were there before.
    kept: u64,
}

impl Target for DiskTarget {
    fn write(&self, bytes: &[u8], offset: u64, _piece: u32) -> io::Result<()> {
        self.file.write_at(bytes, offset)?;
        self.file.start_writing(offset, bytes.len() as u64);
        Ok(())
    }

    fn seal(&self, len: u64) -> io::Result<()> {
        if self.file.len()? != len {
            self.file.set_len(len)?;
        }
        self.file.sync_data()
    }

    /// Much may have happened since the backup began.
    fn check(&self) -> io::Result<()> {
        if self.written_as.is_none() {
            return Ok(());
        }
        (self.gate)(&self.path)?;
        match is_replaceable(self.disk.as_ref(), &self.path)? {
            true => Ok(()),
            false => Err(io::ErrorKind::AlreadyExists.into()),
        }
    }

    fn publish(&self) -> io::Result<()> {
        if let Some(partial) = &self.written_as {
            self.disk.rename(partial, &self.path)?;
            if let Some(dir) = self.path.parent() {
                self.disk.sync_dir(dir)?;
            }
        }
        Ok(())
    }

    fn abort(&self) {
        // Best effort: what stays has no tail and is never taken for a backup.
        let _ = match &self.written_as {
            Some(partial) => self.disk.remove(partial),
            None => self.file.set_len(self.kept),
        };
    }
}

/// `DISK = 'NUL'`: takes everything and keeps nothing.
pub struct NulDevice;

impl Device for NulDevice {
    fn name(&self) -> &str {
        "NUL"
    }

    fn device_type(&self) -> u8 {
        2
    }

    fn exists(&self) -> io::Result<bool> {
        Ok(false)
    }

    fn source(&self) -> io::Result<Arc<dyn Source>> {
        Err(io::ErrorKind::NotFound.into())
    }

    fn create(&self) -> io::Result<Arc<dyn Target>> {
        Ok(Arc::new(NulTarget))
    }

    fn append(&self, _len: u64) -> io::Result<Arc<dyn Target>> {
        self.create()
    }

    fn is_nul(&self) -> bool {
        true
    }
}

struct NulTarget;

impl Target for NulTarget {
    fn write(&self, _bytes: &[u8], _offset: u64, _piece: u32) -> io::Result<()> {
        Ok(())
    }

    fn seal(&self, _len: u64) -> io::Result<()> {
        Ok(())
    }

    fn publish(&self) -> io::Result<()> {
        Ok(())
    }

    fn abort(&self) {}
}
