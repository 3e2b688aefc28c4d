//! A folder that the nodes share: a record for each write, each under a name of its own.
//!
//! ```text
//! <path>/daruma-<witness id>/witness.log            the lock, and a line for each write
//!                            w.<n, 20 digits>       the record of write n; older ones are cut to nothing and keep their names
//!                            alive.<node>           counted on by the leader, so that a challenger waits
//! ```
//! Theory: a lock on a share is courtesy. A holder may have been paused, its lease may have run out, and another may hold it now. What
//! arbitrates is the *name*: a write creates `w.<n+1>` and fails if that is there, so whoever slept cannot replace what came
//! in between. The lock keeps nodes from trying at once, and makes clients of a share look at the server. A holder that is frozen may
//! keep it for hours: whoever cannot have it goes on without, and writes a record even where nothing changed, as only a new name proves
//! then that nothing newer is there.
//!
//! | found | done |
//! |---|---|
//! | the lock is held for longer than is waited | the exchange is a write, whatever it asks |
//! | the highest record is damaged, or of another cluster or witness | refused |
//! | a count below what the node has seen, or another `witness.log` than the record was written beside | refused: restored from an old copy |
//! | `w.<n+1>` is there when it is to be written, or more after it was | read again from the start |
//! | `t.*`, a write that was cut short | ignored: it never got a name |
//!
//! A write is synced before it gets its name, and the folder after. No user data is ever here.

use super::{
    RECORD_BYTES_MAX, Record, WitnessAsk, WitnessFault, WitnessOp, WitnessStore, WitnessView,
};
use crate::planted::{Bug, planted};
use rustix::fs::{AtFlags, CWD, FlockOperation, RenameFlags, flock, linkat, renameat_with};
use rustix::io::Errno;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, UNIX_EPOCH};

/// The lock is waited for so long.
const LOCK_WAIT: Duration = Duration::from_millis(300);
const LOCK_POLL: Duration = Duration::from_millis(10);
/// A write that another was faster with is tried again.
const TRIES_MAX: usize = 8;
/// Records that stay whole.
const RECORDS_KEPT: u64 = 4;
/// `witness.log` begins anew at this length.
const LOG_BYTES_MAX: u64 = 1 << 20;
/// More names are in no folder of ours.
const NAMES_MAX: usize = 1_000_000;

const LOCK_FILE: &str = "witness.log";

/// Witnesses in folders that this machine reaches.
#[derive(Default)]
pub struct FileShare {
    /// Called between reading the record and writing the next, where a process may be paused.
    between: Option<Box<dyn FnMut() + Send>>,
    /// Somebody kept the lock for longer than is waited: it is not waited for again until it was free once.
    was_held: bool,
}

/// The folder of one witness.
struct Folder {
    path: PathBuf,
    lock: File,
    is_locked: bool,
}

fn unknown(what: &str, error: &io::Error) -> WitnessFault {
    WitnessFault::Unknown(format!("{what}: {error}"))
}

impl FileShare {
    /// With something that happens between reading and writing, for tests.
    pub fn with_pause(between: Box<dyn FnMut() + Send>) -> FileShare {
        FileShare {
            between: Some(between),
            was_held: false,
        }
    }
}

impl WitnessStore for FileShare {
    fn exchange(&mut self, ask: &WitnessAsk) -> Result<WitnessView, WitnessFault> {
        let path = folder(ask);
        if let WitnessOp::Create(register) = &ask.op {
            create(&path, ask, register)?;
        }
        let wait = match self.was_held {
            true => Duration::ZERO,
            false => LOCK_WAIT,
        };
        let folder = Folder::open(&path, wait)?;
        self.was_held = !folder.is_locked;
        let alive = folder.count_alive(ask);
        for _ in 0..TRIES_MAX {
            let (mut record, newest) = folder.newest()?;
            check_place(&record, &folder)?;
            let before = record.n;
            let mut view = record.serve(ask, alive)?;
            match (record.n == before, folder.is_locked) {
                (true, true) => return Ok(view),
                (true, false) => {
                    record.n += 1;
                    record.writer = ask.me.number();
                    view.n = record.n;
                }
                (false, _) => {}
            }
            if let Some(pause) = &mut self.between {
                pause();
            }
            match folder.publish(&record) {
                Ok(true) => {}
                Ok(false) => continue,
                Err(error) => return Err(unknown("write the record", &error)),
            }
            // What came meanwhile came after this; but a holder that slept could have been first in a name that was free again.
            let (_, last) = folder.newest()?;
            if last != record.n && !planted(Bug::WitnessBlindWrite) {
                continue;
            }
            folder.cut_old(newest);
            folder.note(&record);
            return Ok(view);
        }
        Err(WitnessFault::Unknown("others were faster".into()))
    }
}

fn folder(ask: &WitnessAsk) -> PathBuf {
    Path::new(ask.place.path()).join(format!("daruma-{:032x}", ask.place.id))
}

/// The first record, in a folder that nobody knows of yet.
fn create(
    path: &Path,
    ask: &WitnessAsk,
    register: &daruma_quorum::Register,
) -> Result<(), WitnessFault> {
    let failed = |e: &io::Error| unknown("make the witness' folder", e);
    match fs::create_dir(path) {
        Err(e) if e.kind() == ErrorKind::AlreadyExists => return Ok(()),
        made => made.map_err(|e| failed(&e))?,
    }
    let lock = path.join(LOCK_FILE);
    File::create_new(&lock)
        .and_then(|f| f.sync_all())
        .map_err(|e| failed(&e))?;
    let folder = Folder::open(path, LOCK_WAIT)?;
    let record = Record::first(ask, register, folder.identity()?);
    let written = folder.publish(&record).map_err(|e| failed(&e))?;
    File::open(path.parent().unwrap_or(path))
        .and_then(|parent| parent.sync_all())
        .map_err(|e| failed(&e))?;
    match written {
        true => folder.prove(),
        false => Err(WitnessFault::Foreign("somebody else writes there".into())),
    }
}

/// A copy that was put back lies beside another file of this name.
fn check_place(record: &Record, folder: &Folder) -> Result<(), WitnessFault> {
    match record.beside == folder.identity()? {
        true => Ok(()),
        false => Err(WitnessFault::Regressed(
            "its witness.log is another file than it was written beside".into(),
        )),
    }
}

impl Folder {
    /// Opens it, and locks it if that can be had.
    fn open(path: &Path, wait: Duration) -> Result<Folder, WitnessFault> {
        let opened = OpenOptions::new()
            .read(true)
            .write(true)
            .open(path.join(LOCK_FILE));
        let lock = opened.map_err(|e| unknown("open witness.log", &e))?;
        let until = Instant::now() + wait;
        let is_locked = loop {
            match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => break true,
                Err(Errno::WOULDBLOCK | Errno::INTR) if Instant::now() < until => {
                    std::thread::sleep(LOCK_POLL);
                }
                Err(Errno::WOULDBLOCK | Errno::INTR) => break false,
                Err(e) => return Err(unknown("lock witness.log", &e.into())),
            }
        };
        Ok(Folder {
            path: path.to_path_buf(),
            lock,
            is_locked,
        })
    }

    /// Which file witness.log is: numbers of files are given again, so its time of birth tells as well, where the share has one. A
    /// change of owner or rights changes neither.
    fn identity(&self) -> Result<u64, WitnessFault> {
        let found = self.lock.metadata();
        let found = found.map_err(|e| unknown("look at witness.log", &e))?;
        let born = found.created().ok();
        let born = born.and_then(|t| t.duration_since(UNIX_EPOCH).ok());
        let born = born.map_or(0, |t| t.as_nanos() as u64);
        Ok(found.ino() ^ born.wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    /// Can this share do what arbitration needs? A second name is refused where one is, and what was written is there.
    fn prove(&self) -> Result<(), WitnessFault> {
        let (record, n) = self.newest()?;
        let again = self.publish(&record);
        match (again, n) {
            (Ok(false), 1) => Ok(()),
            (Ok(true), _) => Err(WitnessFault::Foreign(
                "this share lets a file replace another that has its name: it cannot arbitrate"
                    .into(),
            )),
            (Ok(false), _) => Err(WitnessFault::Foreign(
                "what was written is not there".into(),
            )),
            (Err(e), _) => Err(unknown("try the share", &e)),
        }
    }

    /// The record with the highest count, and that count.
    fn newest(&self) -> Result<(Record, u64), WitnessFault> {
        let highest = self.highest()?;
        let name = self.record_path(highest);
        let mut bytes = Vec::new();
        File::open(&name)
            .and_then(|f| f.take(RECORD_BYTES_MAX as u64 + 1).read_to_end(&mut bytes))
            .map_err(|e| unknown("read the record", &e))?;
        let record = Record::decode(&bytes)
            .map_err(|e| WitnessFault::Foreign(format!("w.{highest} is damaged: {e}")))?;
        match record.n == highest {
            true => Ok((record, highest)),
            false => Err(WitnessFault::Foreign(format!(
                "w.{highest} holds write {}",
                record.n
            ))),
        }
    }

    fn highest(&self) -> Result<u64, WitnessFault> {
        let listed = fs::read_dir(&self.path).map_err(|e| unknown("list the folder", &e))?;
        let mut highest = None;
        for (count, entry) in listed.enumerate() {
            let entry = entry.map_err(|e| unknown("list the folder", &e))?;
            if count >= NAMES_MAX {
                return Err(WitnessFault::Foreign("too many files".into()));
            }
            let name = entry.file_name();
            let number = name.to_str().and_then(|n| n.strip_prefix("w."));
            let number = number
                .filter(|n| n.len() == 20)
                .and_then(|n| n.parse().ok());
            highest = highest.max(number);
        }
        highest.ok_or_else(|| WitnessFault::Foreign("there is no record".into()))
    }

    fn record_path(&self, n: u64) -> PathBuf {
        self.path.join(format!("w.{n:020}"))
    }

    /// Writes a record under its own name. `false`: the name is taken.
    fn publish(&self, record: &Record) -> io::Result<bool> {
        // Of its own: another life of this node may have slept in the middle of this.
        static WRITES: AtomicU64 = AtomicU64::new(0);
        let (process, write) = (std::process::id(), WRITES.fetch_add(1, Ordering::Relaxed));
        let beside = self
            .path
            .join(format!("t.{}.{process}.{write}", record.writer));
        let mut file = File::create_new(&beside)?;
        file.write_all(&record.encode())?;
        file.sync_all()?;
        drop(file);
        let name = self.record_path(record.n);
        let named = match planted(Bug::WitnessBlindWrite) {
            true => fs::rename(&beside, &name).map(|()| true)?,
            false => name_without_replacing(&beside, &name)?,
        };
        // Already renamed where the share has no links.
        match fs::remove_file(&beside) {
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        File::open(&self.path)?.sync_all()?;
        Ok(named)
    }

    /// Older records are cut to nothing. Their names stay: a holder that slept for long must not find one free.
    fn cut_old(&self, newest: u64) {
        let Some(last) = newest.checked_sub(RECORDS_KEPT) else {
            return;
        };
        // A record that stays whole only takes room.
        let cut = OpenOptions::new()
            .write(true)
            .open(self.record_path(last))
            .and_then(|file| file.set_len(0));
        let _ = cut;
    }

    /// A line that people can read.
    fn note(&self, record: &Record) {
        let version = record.register.held.version;
        let line = format!(
            "write {} by node {}: generation {} term {}, configuration {}.{}.{}\n",
            record.n,
            record.writer,
            record.register.ballot.generation,
            record.register.ballot.term,
            version.ballot.generation,
            version.ballot.term,
            version.index
        );
        let mut file = &self.lock;
        let mut write = || -> io::Result<()> {
            if self.lock.metadata()?.len() > LOG_BYTES_MAX {
                self.lock.set_len(0)?;
            }
            file.seek(SeekFrom::End(0))?;
            file.write_all(line.as_bytes())
        };
        // For people alone.
        let _ = write();
    }

    /// Counts on for a leader; gives the sum of all that was counted. A count that cannot be read or written keeps nobody waiting.
    fn count_alive(&self, ask: &WitnessAsk) -> u64 {
        let mine = self.path.join(format!("alive.{}", ask.me.number()));
        if ask.alive {
            let next = read_count(&mine).wrapping_add(1);
            let _ = fs::write(&mine, next.to_string());
        }
        (0..daruma_quorum::MEMBERS_MAX)
            .map(|n| read_count(&self.path.join(format!("alive.{n}"))))
            .fold(0, u64::wrapping_add)
    }
}

fn read_count(path: &Path) -> u64 {
    let mut text = String::new();
    let read = File::open(path).and_then(|f| f.take(32).read_to_string(&mut text));
    read.ok().and_then(|_| text.parse().ok()).unwrap_or(0)
}

/// Gives a file a name that nothing has. `false`: something has it.
fn name_without_replacing(from: &Path, to: &Path) -> io::Result<bool> {
    match linkat(CWD, from, CWD, to, AtFlags::empty()) {
        Ok(()) => return Ok(true),
        Err(Errno::EXIST) => return Ok(false),
        // No links on this share.
        Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS | Errno::MLINK) => {}
        Err(e) => return Err(e.into()),
    }
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(true),
        Err(Errno::EXIST) => Ok(false),
        Err(e) => Err(e.into()),
    }
}
