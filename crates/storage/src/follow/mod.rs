//! A standing secondary: a database that follows the log of another node, block by block, serves snapshot readers meanwhile, and
//! can become the primary at any moment.
//!
//! Theory: redo that never ends (`replay`), over the files of a database that writes no log of its own. Everything below `applied`
//! is redone and published; `apply` is told how far it may go, which is never beyond what is hard here and on the commit
//! participants. A snapshot is one position of the log, so a reader sees here what it would have seen on the primary at that
//! position. The versions that readers need are made by redo from the pages as they were, under the locators that the primary
//! chose, and dropped when no snapshot is left that is older than their commit.
//!
//! A restart point is the secondary's checkpoint: the boot page names a checkpoint record of the primary that is wholly applied,
//! and where redo of the pages here begins. A restart goes on from there. Pages may be newer than the position at which replay
//! then is, so readers are let in when it has come to the end of the log that was found (`floor`): every page is older.
//!
//! | found at start | done |
//! |---|---|
//! | torn pages, end of the log | as in a crash recovery (`replay`) |
//! | log behind the restart point | redone to `floor`, then as far as `apply` is told |
//! | accelerated transaction that is open | its versions are rebuilt, or on pages: readers come at once |
//! | classic transaction that is open, with changes on pages that redo passed by | readers wait until it has ended |
//! | classic transaction that is open, all of it redone here | its versions are rebuilt |
//!
//! Promotion: the log that is here is redone to its end; accelerated transactions that had not ended are marked as aborted, which
//! takes no time; classic ones are rolled back in the background, and their rows stay locked meanwhile; of prepared ones the
//! coordinator is asked. No restart, and readers go on.
//!
//! Invariants
//! 1. No record is written here before the promotion, and no page is allocated: equal `applied` means equal pages.
//! 2. Redo waits for no reader. A reader waits for redo only while it holds the latch of a page.
//! 3. What is shown is applied.
//!
//! Latches: `work`, then those of pages. Read next: `replay`, `status`, docs/decisions/2026-11-24-secondaries.md.

mod beside;
mod pin;
mod promote;
mod tail;

use crate::api::{FileSpec, Opening};
use crate::buffer::Store;
use crate::database::Database;
use crate::database::open::split_specs;
use crate::datafile::FileSet;
use crate::engine::Engine;
use crate::error::{Result, StorageError};
use crate::log::{Block, Log, NOTHING, Need};
use crate::replay::{self, Replay, Site};
use crate::status::TxnTable;
use crate::sync::{Mutex, MutexGuard};
use beside::Readers;
use daruma_base::{DatabaseId, Lsn, TxnId, reached};
pub use pin::StandingPin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
pub use tail::Cut;

/// Blocks applied between two looks at what readers no longer need.
const BLOCKS_PER_SETTLING: u32 = 64;

/// See the module.
pub struct Secondary {
    db: Arc<Database>,
    /// `None` once it is promoted.
    work: Mutex<Option<Replay>>,
    applied: AtomicU64,
    /// Readers may look from here on. A cut may lower it.
    floor: AtomicU64,
    readers: Readers,
    told_definitions: OnceLock<Box<dyn Fn() + Send + Sync>>,
    is_readable: AtomicBool,
    /// One restart point at a time.
    restarting: Mutex<()>,
}

impl Secondary {
    /// Opens files that a copy, a restore or an earlier secondary has left. Nothing is applied yet. `floor`: no page has anything
    /// from this position on, as whoever made the copy knows; `None`: nothing from the end of the log on that is found.
    pub fn open(
        engine: &Arc<Engine>,
        id: DatabaseId,
        name: &str,
        files: Vec<FileSpec>,
        floor: Option<Lsn>,
        opening: Opening<'_>,
    ) -> Result<Arc<Secondary>> {
        let env = engine.env();
        let (log_spec, data) = split_specs(files)?;
        let files = FileSet::open(&data, env)?;
        crate::database::open::check_registration(&files, opening.registration)?;
        files.restore_torn()?;
        let log = Log::open(&log_spec, files.guid(), env, engine.log_shared())?;
        let store = Arc::new(Store::new(engine.next_store_id(), files, log));
        let mut scratch = store.files.path(1).into_os_string();
        scratch.push(".aside");
        store.aside.open(&env.disk, scratch.into());
        engine.pool().add_store(&store);
        store.log.set_copy();
        let found = replay::look_ahead(&store).and_then(|ahead| {
            let end = ahead.end;
            // What a promotion needs of the log is known when redo has come to it.
            store.log.follow(end, Lsn::NONE)?;
            if !store.files.boot().is_copy {
                store.write_boot(|b| (b.is_copy, b.clean) = (true, false))?;
            }
            Ok(end)
        });
        let end = match found {
            Ok(end) => end,
            Err(error) => {
                store.log.fence("the secondary could not be opened");
                engine.pool().remove_store(&store);
                return Err(error);
            }
        };
        let replay = Replay::new(&store);
        let start = store.files.boot().redo_start;
        store.log.shown().store(start.0, Ordering::Release);
        let txns = TxnTable::new(1, &[], &[], store.log.shown().clone());
        let db = Database::assemble(engine, id, name, store, log_spec, txns);
        db.set_follows(true);
        Ok(Arc::new(Secondary {
            readers: Readers::new(&db),
            told_definitions: OnceLock::new(),
            db,
            work: Mutex::new(Some(replay)),
            applied: AtomicU64::new(start.0),
            floor: AtomicU64::new(floor.unwrap_or(end).0),
            is_readable: AtomicBool::new(false),
            restarting: Mutex::default(),
        }))
    }

    /// Everything below is redone and shown here.
    pub fn applied(&self) -> Lsn {
        Lsn(self.applied.load(Ordering::Acquire))
    }

    /// Readers may come when everything up to here is applied.
    pub fn floor(&self) -> Lsn {
        Lsn(self.floor.load(Ordering::Acquire))
    }

    /// A page may get what the primary has changed below `to`, before anything is redone here since the opening: readers wait until
    /// redo is there, as after a restart that finds pages newer than its position.
    pub fn raise_floor(&self, to: Lsn) {
        self.floor.fetch_max(to.0, Ordering::AcqRel);
    }

    /// Everything below is hard here.
    pub fn hardened(&self) -> Lsn {
        self.db.store().log.hardened()
    }

    /// May readers come?
    pub fn is_readable(&self) -> bool {
        self.is_readable.load(Ordering::Acquire)
    }

    /// The database, for readers. Product error 976 before they may come.
    pub fn database(&self) -> Result<&Arc<Database>> {
        match self.is_readable() {
            true => Ok(&self.db),
            false => Err(StorageError::NotOnline {
                state: "recovering",
            }),
        }
    }

    /// The same at any time, for all but reading.
    pub fn unread_database(&self) -> &Arc<Database> {
        &self.db
    }

    /// Log from here on is needed by a restart and by the rollback of classic transactions after a promotion.
    pub fn log_needed(&self) -> Lsn {
        let restart = self.db.store().files.boot().redo_start;
        let work = self.work.lock();
        let undo = work.as_ref().and_then(|r| r.tracker().log_needed());
        undo.map_or(restart, |undo| undo.min(restart))
    }

    /// Redoes whole blocks of the log that is here, up to `limit` at most. Returns how far it is. An error ends it: the database is
    /// suspect then, and stays where it is.
    pub fn apply(&self, limit: Lsn) -> Result<Lsn> {
        let mut work = self.work.lock();
        self.apply_locked(&mut work, limit)
    }

    fn apply_locked(&self, work: &mut MutexGuard<'_, Option<Replay>>, limit: Lsn) -> Result<Lsn> {
        let log = &self.db.store().log;
        let limit = limit.min(log.hardened());
        let replay = work.as_mut().ok_or(StorageError::NotOnline {
            state: "a primary now",
        })?;
        log.check()?;
        if self.applied() >= limit {
            return Ok(self.applied());
        }
        let result = self.apply_blocks(replay, limit);
        if let Err(error) = &result {
            log.fence(&format!("redo: {error}"));
        }
        result?;
        Ok(self.applied())
    }

    fn apply_blocks(&self, replay: &mut Replay, limit: Lsn) -> Result<()> {
        let mut cursor = self.db.store().log.cursor(self.applied())?;
        let mut blocks = 0;
        while let Some(block) = cursor.next_before(limit)? {
            if cursor.position() > limit {
                break;
            }
            self.feed(replay, &block, cursor.position())?;
            blocks += 1;
            if blocks % BLOCKS_PER_SETTLING == 0 {
                self.settle();
            }
        }
        self.settle();
        Ok(())
    }

    fn site(&self) -> Site<'_> {
        Site {
            pool: self.db.pool(),
            store: self.db.store(),
            beside: Some(&self.readers),
        }
    }

    fn feed(&self, replay: &mut Replay, block: &Block, end: Lsn) -> Result<()> {
        replay.feed(self.site(), block)?;
        self.applied.store(end.0, Ordering::Release);
        let has_new_definitions = self.readers.take_new_definitions();
        if has_new_definitions {
            // Before they are shown: whoever sees them knows that they are new.
            self.db.set_definitions_position(end);
        }
        self.db.store().log.shown().store(end.0, Ordering::Release);
        if has_new_definitions && let Some(told) = self.told_definitions.get() {
            told();
        }
        if !self.readers.are_told() && replay.tracker().is_complete() && end >= self.floor() {
            self.tell_readers(replay);
        }
        let tracker = replay.tracker();
        if self.readers.are_told() && !self.is_readable() {
            if tracker.is_blind() {
                reached!("secondary.blind");
            } else {
                self.is_readable.store(true, Ordering::Release);
            }
        }
        Ok(())
    }

    /// From here on readers know who is open, and find the versions that are on pages from before the replay.
    fn tell_readers(&self, replay: &mut Replay) {
        replay.take_placed(self.site());
        self.readers.begin(replay.tracker());
    }

    /// Lets go of what no reader needs any more.
    fn settle(&self) {
        if self.readers.are_told() {
            self.db.advance_watermark();
            self.db.versions().leave_dropped();
        }
    }

    /// Writes what is dirty, and has a restart begin at the newest checkpoint that is wholly applied. False when there is none newer
    /// than the one known. It waits for nobody: pages whose versions have no pages yet stay, and hold the restart point.
    pub fn restart_point(&self) -> Result<bool> {
        let _one_at_a_time = self.restarting.lock();
        let store = self.db.store();
        let (checkpoint, begin, last_commit, properties) = {
            let work = self.work.lock();
            let Some(tracker) = work.as_ref().map(Replay::tracker) else {
                return Ok(false);
            };
            let (checkpoint, begin) = tracker.checkpoint_read();
            let properties = tracker.properties().clone();
            (checkpoint, begin, tracker.last_commit(), properties)
        };
        let boot = store.files.boot();
        if checkpoint.is_none() || checkpoint < boot.checkpoint {
            return Ok(false);
        }
        self.db.pool().flush(store, self.applied(), usize::MAX)?;
        let oldest = self.db.pool().min_rec_lsn(store);
        let redo_start = oldest.map_or(begin, |oldest| oldest.min(begin));
        if (checkpoint, redo_start) == (boot.checkpoint, boot.redo_start) {
            return Ok(false);
        }
        // A promotion that came meanwhile has checkpoints of its own.
        let work = self.work.lock();
        let Some(tracker) = work.as_ref().map(Replay::tracker) else {
            return Ok(false);
        };
        store
            .files
            .change_epochs(|epochs| properties.add_to(epochs));
        store.write_boot(|b| {
            b.redo_start = redo_start;
            b.checkpoint = checkpoint;
            b.clean = false;
            b.last_commit = last_commit;
            properties.apply(b);
        })?;
        self.cut_log(redo_start, tracker.log_needed());
        Ok(true)
    }

    /// Frees the log that neither a restart needs, nor the rollback of classic transactions after a promotion, nor the next log
    /// backup.
    fn cut_log(&self, redo_start: Lsn, undo: Option<Lsn>) {
        let need = |from, reason| Need { from, reason };
        let chain = Some(self.db.log_backup_start()).filter(|chain| *chain != Lsn::NONE);
        let needs: Vec<Need> = [need(redo_start, NOTHING)]
            .into_iter()
            .chain(undo.map(|from| need(from, "ACTIVE_TRANSACTION")))
            .chain(chain.map(|from| need(from, "LOG_BACKUP")))
            .collect();
        self.db.store().log.cut(&needs);
    }

    /// Closes the files. A restart goes on from the last restart point.
    pub fn close(&self) -> Result<()> {
        let work = self.work.lock().take();
        match work {
            // It is a primary, and whoever has it closes it.
            None => Ok(()),
            Some(_) => {
                self.db.store().aside.close();
                self.db.close()
            }
        }
    }
}

/// Ids that the deposed primary may have given, and whose records never came here.
const LOST_TXNS_MAX: u64 = 1 << 20;

/// Ids of open transactions by what they are to the table of states: reverting, active.
fn by_state(open: impl Iterator<Item = (TxnId, bool)>) -> (Vec<TxnId>, Vec<TxnId>) {
    let (reverting, active): (Vec<_>, Vec<_>) = open.partition(|(_, is_aborted)| *is_aborted);
    let ids = |list: Vec<(TxnId, bool)>| list.into_iter().map(|(id, _)| id).collect();
    (ids(reverting), ids(active))
}
