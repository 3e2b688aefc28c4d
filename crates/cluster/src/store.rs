//! A node's register on disk: one small file, written beside the old one, synced and renamed over it.
//!
//! | found at start | done |
//! |---|---|
//! | no file | the server is no member of a cluster |
//! | a file that is whole | the node goes on with it |
//! | a file that cannot be read | refused: a node never guesses what it promised |
//! | `register.new` | a write that was cut short: it was never said to be done, and goes |
//! | `left`, whatever else | the server left for good, and was stopped while it forgot the node: it goes on with that, and is no member |
//!
//! A sync that failed is not repeated: the node ends, and what it has on disk is found out at the next start.

use crate::codec::{CodecError, Reader, Writer, seal, unseal};
use crate::identity::Pair;
use crate::planted::{Bug, planted};
use crate::witness::Counts;
use daruma_base::{Disk, DiskFile, OpenMode};
use daruma_quorum::{MemberId, Register};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

const MAGIC: &[u8; 8] = b"DARUMAN1";
const FILE: &str = "register";
/// While it is there the server is no node any more.
const LEFT_FILE: &str = "left";
const LOCK_FILE: &str = "lock";
const LOCK_TRIES: u32 = 40;
const LOCK_PAUSE: Duration = Duration::from_millis(25);
const FILE_BYTES_MAX: u64 = 256 << 10;

/// What a node has on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    pub me: MemberId,
    pub register: Register,
    /// The highest counts of witnesses' records that were seen.
    pub seen: Counts,
}

/// The file of a node.
pub struct Store {
    disk: Arc<dyn Disk>,
    folder: PathBuf,
}

impl Store {
    /// In this folder, which is there.
    pub fn new(disk: Arc<dyn Disk>, folder: &Path) -> Store {
        Store {
            disk,
            folder: folder.to_path_buf(),
        }
    }

    fn path(&self) -> PathBuf {
        self.folder.join(FILE)
    }

    /// Keeps every other process from running this node as long as what it gives lives. One that is just ending is waited for.
    pub fn lock(&self) -> io::Result<Arc<dyn DiskFile>> {
        let path = self.folder.join(LOCK_FILE);
        let mut tries = LOCK_TRIES;
        loop {
            let opened = match self.disk.open(&path, OpenMode::ReadWrite) {
                Err(e) if e.kind() == ErrorKind::NotFound => {
                    self.disk.open(&path, OpenMode::CreatePrivate)
                }
                other => other,
            };
            match opened {
                Err(e) if e.kind() == ErrorKind::WouldBlock && tries > 0 => tries -= 1,
                other => return other,
            }
            std::thread::sleep(LOCK_PAUSE);
        }
    }

    /// What is on disk. `None`: this server is no member.
    pub fn load(&self) -> io::Result<Option<Stored>> {
        let file = match self.disk.open(&self.path(), OpenMode::ReadOnly) {
            Ok(file) => file,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(e),
        };
        let length = file.len()?;
        if length > FILE_BYTES_MAX {
            return Err(ErrorKind::InvalidData.into());
        }
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
        file.read_at(&mut bytes, 0)?;
        let stored = decode(&bytes).map_err(|e| io::Error::new(ErrorKind::InvalidData, e));
        stored.map(Some)
    }

    /// Writes it; durable when this returns.
    pub fn save(&self, stored: &Stored) -> io::Result<()> {
        let beside = self.folder.join(format!("{FILE}.new"));
        match self.disk.remove(&beside) {
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        let file = self.disk.open(&beside, OpenMode::CreatePrivate)?;
        file.write_at(&encode(stored), 0)?;
        file.sync_data()?;
        drop(file);
        self.disk.rename(&beside, &self.path())?;
        self.disk.sync_dir(&self.folder)
    }

    /// The server has left for good. It says so first and takes that back last: whatever stops this, the files tell a server that left from
    /// one that lost something.
    pub fn forget_node(&self) -> io::Result<()> {
        if planted(Bug::ForgetCertificateFirst) {
            Pair::forget(&*self.disk, &self.folder)?;
        }
        let left = self.folder.join(LEFT_FILE);
        match self.disk.open(&left, OpenMode::CreatePrivate) {
            Err(e) if e.kind() != ErrorKind::AlreadyExists => return Err(e),
            _ => self.disk.sync_dir(&self.folder)?,
        }
        self.finish_forgetting()
    }

    /// Goes on with what was stopped in [`Store::forget_node`], if anything was: before whatever else is looked at.
    pub fn finish_forgetting(&self) -> io::Result<()> {
        let left = self.folder.join(LEFT_FILE);
        if !self.disk.exists(&left)? {
            return Ok(());
        }
        self.remove(&self.path())?;
        Pair::forget(&*self.disk, &self.folder)?;
        self.remove(&left)
    }

    /// A process that is just ending may do the same.
    fn remove(&self, path: &Path) -> io::Result<()> {
        match self.disk.remove(path) {
            Err(e) if e.kind() != ErrorKind::NotFound => Err(e),
            _ => self.disk.sync_dir(&self.folder),
        }
    }
}

fn encode(stored: &Stored) -> Vec<u8> {
    let mut w = Writer::default();
    w.u8(stored.me.number());
    let seen = stored.seen.all();
    w.u8(seen.len() as u8);
    for (witness, n) in seen {
        w.u128(*witness);
        w.u64(*n);
    }
    w.register(&stored.register);
    seal(MAGIC, w)
}

/// What a node's file says.
pub fn decode(bytes: &[u8]) -> Result<Stored, CodecError> {
    let mut r: Reader<'_> = unseal(MAGIC, bytes)?;
    let me = MemberId::node(r.u8()?).ok_or(CodecError("node"))?;
    let seen = (0..r.u8()?).map(|_| Ok((r.u128()?, r.u64()?)));
    let seen = seen.collect::<Result<Vec<_>, CodecError>>()?;
    let seen = Counts::of(seen).ok_or(CodecError("witnesses"))?;
    let register = r.register()?;
    r.end()?;
    Ok(Stored { me, register, seen })
}
