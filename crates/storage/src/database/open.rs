//! How a database comes to be and how it ends: created, opened with recovery, closed.
//!
//! Recovery ends with a fuzzy checkpoint, which writes no page: redo of a restart after it would begin where this one began.
//! The pages are written when the database is in use again ([`Database::checkpoint_in_steps`]).

use super::Database;
use super::checkpoint::Wanted;
use crate::api::*;
use crate::buffer::Store;
use crate::coordinator::Claim;
use crate::datafile::{Boot, CATALOG_ROOT, FileSet};
use crate::engine::Engine;
use crate::error::{Result, StorageError};
use crate::log::record::{self, Kind, PartsWriter};
use crate::log::{AppendKind, CommitPoint, Log};
use crate::page::{Page, PageType};
use crate::planted::{Bug, planted};
use crate::replay::{self, Ahead, Recovered};
use crate::status::{After, TxnTable};
use crate::sync::RwLock;
use crate::txn::{Progress, TxnState};
use crate::undo;
use crate::unit::{Decision, Unit};
use crate::version::{Chunk, Content};
use daruma_base::{DatabaseId, Env, Lsn, TxnId, reached};
use std::cell::Cell;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Between two reports of a redo under way.
const TOLD_EVERY: Duration = Duration::from_secs(1);
/// Blocks of log between two looks at the clock.
const BLOCKS_PER_LOOK: u32 = 16;

impl Database {
    pub(crate) fn create(
        engine: &Arc<Engine>,
        id: DatabaseId,
        name: &str,
        files: Vec<FileSpec>,
        settings: Settings,
        guid: u64,
        registered: Registration,
    ) -> Result<Arc<Database>> {
        let env = engine.env();
        let (log_spec, data) = split_specs(files)?;
        let durable = !is_temporary(id);
        let boot = Boot {
            sequence: 0,
            guid,
            redo_start: Lsn::NONE,
            checkpoint: Lsn::NONE,
            clean: false,
            settings,
            collation_version: 0,
            log_backup: Lsn::NONE,
            last_commit: CommitPoint::default(),
            hard: Lsn::NONE,
            is_copy: false,
            registered,
        };
        let log = Log::create(&log_spec, boot.guid, durable, env, engine.log_shared())?;
        let files = FileSet::create(&data, boot, durable, env)?;
        let store = Arc::new(Store::new(engine.next_store_id(), files, log));
        engine.pool().add_store(&store);
        let txns = TxnTable::new(1, &[], &[], store.log.shown().clone());
        let db = Database::assemble(engine, id, name, store, log_spec, txns);
        let made = db.format_catalog_root().and_then(|()| db.checkpoint());
        if let Err(error) = made {
            // Its files are about to be deleted: nobody writes to them any more.
            db.store.log.fence("the database could not be created");
            engine.pool().remove_store(&db.store);
            return Err(error);
        }
        engine.enroll(&db);
        Ok(db)
    }

    fn format_catalog_root(&self) -> Result<()> {
        let mut page = self.pool().write_new(&self.store, CATALOG_ROOT)?;
        let mut root = Page::zeroed();
        root.format(CATALOG_ROOT, PageType::Tree, 0, CATALOG_ROOT);
        let mut body = Vec::new();
        record::start(&mut body, Kind::System, TxnId::NONE, Lsn::NONE);
        PartsWriter::new(&mut body).image(&root);
        record::finish(&mut body);
        self.apply_system(&body, &mut [&mut page], AppendKind::System)?;
        Ok(())
    }

    pub(crate) fn open(
        engine: &Arc<Engine>,
        env: &Env,
        id: DatabaseId,
        name: &str,
        files: Vec<FileSpec>,
        opening: Opening<'_>,
    ) -> Result<(Arc<Database>, RecoveryReport)> {
        let clock = &env.clock;
        let (log_spec, data) = split_specs(files)?;
        // Given up when the database is open, and can be asked as such.
        let claim = engine.claims.take(id);
        let start = clock.monotonic();
        let files = FileSet::open(&data, env)?;
        check_registration(&files, opening.registration)?;
        let torn = files.restore_torn()?;
        let log = Log::open(&log_spec, files.guid(), env, engine.log_shared())?;
        if files.boot().is_copy {
            log.set_copy();
        }
        let store = Arc::new(Store::new(engine.next_store_id(), files, log));
        let mut scratch = store.files.path(1).into_os_string();
        scratch.push(".aside");
        store.aside.open(&env.disk, scratch.into());
        engine.pool().add_store(&store);
        let report = RecoveryReport {
            torn_pages_restored: torn,
            files_ms: ms(start, clock.monotonic()),
            ..RecoveryReport::default()
        };
        let recovery = Recovery {
            engine,
            id,
            store: &store,
            opening,
            claim: &claim,
        };
        let result = recovery.run(name, log_spec, report);
        match result {
            Ok(opened) => Ok(opened),
            Err(error) => {
                store.log.fence("recovery failed");
                engine.pool().remove_store(&store);
                store.aside.close();
                Err(error)
            }
        }
    }

    /// Goes on where a replay has ended that had readers beside it: from here on the database writes its own log.
    ///
    /// In an epoch that a group has granted nothing here may depend on the log that follows until others have it: there is no
    /// checkpoint then, and the earlier restart point remains good.
    pub(crate) fn lead(
        self: &Arc<Self>,
        mut recovered: Recovered,
        granted: Option<(u64, u128)>,
    ) -> Result<()> {
        continue_log(&self.store, &recovered)?;
        if granted.is_some() {
            self.store.log.set_participants(true);
        }
        self.begin_epoch_of(granted)?;
        self.decisions
            .restore(std::mem::take(&mut recovered.decisions));
        replay::log_commits(self, &recovered.resolved)?;
        let moment = self.txns.moment();
        self.take_over(recovered, Undo::Later { moment })?;
        self.store.write_boot(|b| b.clean = false)?;
        self.set_follows(false);
        if granted.is_none() {
            self.checkpoint_record(Wanted::Room)?;
        }
        self.engine.enroll(self);
        Ok(())
    }

    /// The first record of what this node adds; the boot page has it when it says that the database is open.
    fn begin_epoch_of(&self, granted: Option<(u64, u128)>) -> Result<()> {
        match granted {
            Some((number, id)) => self.begin_epoch(number, id).map(|_| ()),
            None => {
                self.await_own_epoch(&self.store);
                Ok(())
            }
        }
    }

    /// Undo: accelerated losers are marked, classic ones rolled back from the log, newest first, as one backward pass
    /// would meet them. Later means in the background, but for those of which readers could not tell what was before.
    fn take_over(self: &Arc<Self>, recovered: Recovered, undo: Undo) -> Result<()> {
        let moment = match undo {
            Undo::Now => 0,
            Undo::Later { moment } => moment,
        };
        self.shrink_notes.forget_before(self.txns.next_id());
        let pending = recovered.pending.into_iter();
        let pending = pending.map(|s| (After::Moment(moment), s));
        self.pending.lock().extend(pending);
        self.take_over_chunks(&recovered.chunks);
        self.settle_aside()?;
        let mut later = Vec::new();
        for loser in recovered.losers.into_iter().rev() {
            if planted(Bug::ForgetLoser) {
                break;
            }
            reached!("recovery.loser");
            if loser.is_accelerated {
                let progress = Progress {
                    begun_utc_100ns: loser.abort.begun_utc_100ns,
                    is_nested: AtomicBool::new(loser.abort.is_nested),
                    ..Progress::new(loser.id, loser.first, true)
                };
                progress.last.store(loser.last.0, Ordering::Release);
                *progress.owned.lock() = loser.owned.into_iter().collect();
                *progress.work.lock() = loser.work;
                self.add_aborted(Arc::new(progress), loser.chunks);
            } else if undo == Undo::Now || loser.is_blind {
                let mut state = TxnState::loser(loser.id, loser.last, None);
                undo::roll_back(self, &mut state, Lsn::NONE)?;
                self.txns().gone(loser.id);
                self.discard_versions(&loser.chunks);
            } else {
                later.push(loser);
            }
        }
        // The newest one is the last of the list, and the first to be rolled back.
        later
            .into_iter()
            .rev()
            .try_for_each(|loser| self.undo_later(loser))?;
        self.store.log.reserve_room();
        Ok(())
    }

    /// Chunks of transactions that need no versions any more give their pages back.
    fn take_over_chunks(&self, chunks: &[replay::PlacedChunk]) {
        for chunk in chunks {
            if self.versions().chunk(chunk.id).is_some() {
                continue;
            }
            self.versions().add_pages(chunk.pages.len() as i64);
            self.versions().skip_number(chunk.id);
            let content = Content {
                is_sealed: true,
                pages: chunk.pages.clone(),
                is_dropped: true,
                ..Content::default()
            };
            self.versions().dropped.lock().push(Arc::new(Chunk {
                id: chunk.id,
                txn: chunk.txn,
                guards_pages: AtomicBool::new(false),
                content: RwLock::new(content),
            }));
        }
    }

    /// Checkpoints and closes the files. No transaction may be open.
    pub fn close(&self) -> Result<()> {
        if self.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        // Steps under way end first: none writes behind the last checkpoint, nor to files that others have opened.
        self.end_steps();
        let log = &self.store.log;
        let result = if log.is_fenced() || !self.durable || self.is_secondary() {
            Ok(())
        } else if !log.settles_within(Duration::ZERO).unwrap_or(true) || log.has_participants() {
            // Participants lack some of it, and no page may have that, or would have to have what is written now, and may be gone. The
            // next recovery repeats it, if it is to be.
            reached!("close.above_quorum");
            Ok(())
        } else {
            self.harden_others();
            // What cannot come back now is redone by the next start.
            let is_aside = !matches!(self.bring_back_aside(), Ok(true));
            let begin = Lsn::MAX;
            let flushed = self.flush_pages(begin, usize::MAX);
            // Pages of what is still to be reverted wait for versions that find no page: the next start redoes them.
            let is_waiting = matches!(flushed, Err(StorageError::FilegroupFull { .. }));
            let wanted = match self.active.lock().is_empty() && !is_waiting && !is_aside {
                true => Wanted::Close,
                false => Wanted::Room,
            };
            let ended = match flushed {
                Err(error) if !is_waiting => Err(error),
                _ => self.checkpoint_record(wanted),
            };
            // Where that was passed over, the boot page says how far the log is on disk all the same.
            match ended {
                Ok(()) if self.store.files.boot().hard < log.hardened() => {
                    self.store.write_boot(|_| {})
                }
                ended => ended,
            }
        };
        self.store.log.close();
        self.pool().remove_store(&self.store);
        self.store.aside.close();
        self.store.files.release();
        self.store.log.release();
        result
    }
}

/// When classic transactions that a replay found open are rolled back.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Undo {
    Now,
    /// Snapshots are in use that reach to the moment.
    Later {
        moment: u64,
    },
}

/// The log goes on behind what was replayed; the boot page gets the properties that the log knows.
fn continue_log(store: &Store, recovered: &Recovered) -> Result<()> {
    let boot = store.files.boot();
    let mut wanted = boot;
    recovered.properties.apply(&mut wanted);
    wanted.is_copy = false;
    if wanted.log_backup < store.log.min_lsn() {
        // A secondary has let go of the log where a full backup of its primary began: there is no chain before the next one.
        wanted.log_backup = Lsn::NONE;
    }
    let classic = recovered.losers.iter().filter(|l| !l.is_accelerated);
    let keep = classic.map(|l| l.first).min();
    let keep = keep.unwrap_or(recovered.end).min(boot.redo_start);
    let keep = match wanted.log_backup {
        Lsn::NONE => keep,
        chain => keep.min(chain),
    };
    store.log.resume(recovered.end, keep)?;
    if wanted != boot {
        store.write_boot(|b| *b = wanted)?;
    }
    let (found, end) = (&recovered.properties, recovered.end);
    store
        .files
        .change_epochs(|epochs| found.complete(epochs, end));
    store.log.set_last_commit(recovered.last_commit);
    Ok(())
}

/// Files of another database are refused before anything is written to them.
pub(crate) fn check_registration(files: &FileSet, wanted: Option<Registration>) -> Result<()> {
    let found = files.boot().registered;
    match wanted {
        Some(wanted) if found != Registration::default() && found != wanted => {
            Err(StorageError::BadFile {
                path: files.path(1),
                what: format!(
                    "the files belong to another database, which had ID {}: they were exchanged, or copied to this place",
                    found.database
                ),
            })
        }
        _ => Ok(()),
    }
}

fn ms(from: Duration, to: Duration) -> u64 {
    to.saturating_sub(from).as_millis() as u64
}

/// A recovery under way.
struct Recovery<'a> {
    engine: &'a Arc<Engine>,
    id: DatabaseId,
    store: &'a Arc<Store>,
    opening: Opening<'a>,
    claim: &'a Claim<'a>,
}

impl Recovery<'_> {
    fn run(
        self,
        name: &str,
        log_spec: FileSpec,
        mut report: RecoveryReport,
    ) -> Result<(Arc<Database>, RecoveryReport)> {
        let (engine, store) = (self.engine, self.store);
        let clock = &engine.env().clock;
        let boot = store.files.boot();
        report.is_accelerated = boot.settings.accelerated_recovery;
        report.needed = !boot.clean;
        self.tell(RecoveryPhase::Analysis, 0, 0, &report);
        let begin = clock.monotonic();
        let mut ahead = replay::look_ahead(store)?;
        if self.opening.epoch.is_some() || boot.is_copy {
            ahead = ahead.without_commits();
        }
        let analysis_end = clock.monotonic();
        report.analysis_ms = ms(begin, analysis_end);
        report.log_bytes = ahead.end.0 - boot.redo_start.0;
        self.tell(RecoveryPhase::Redo, 0, 0, &report);
        let mut recovered = self.replay(ahead, &report)?;
        report.rolled_forward = recovered.rolled_forward;
        report.rolled_back = recovered.losers.iter().filter(|l| !l.is_aborted).count() as u64;
        report.last_commit = recovered.last_commit;
        report.resolved.clone_from(&recovered.resolved);
        let redo_end = clock.monotonic();
        report.redo_ms = ms(analysis_end, redo_end);
        self.tell(RecoveryPhase::Undo, 0, 0, &report);
        let db = self.assemble(name, log_spec, &mut recovered)?;
        report.to_revert = recovered.losers.iter().filter(|l| l.is_accelerated).count() as u64;
        db.take_over(recovered, Undo::Now)?;
        let undo_end = clock.monotonic();
        report.undo_ms = ms(redo_end, undo_end);
        store.write_boot(|b| {
            b.clean = false;
            b.registered = self.opening.registration.unwrap_or(b.registered);
        })?;
        if self.opening.epoch.is_none() {
            self.end_with_checkpoint(&db)?;
        }
        engine.enroll(&db);
        report.settle_ms = ms(undo_end, clock.monotonic());
        Ok((db, report))
    }

    /// In a log that is full the pages are written at once: restarts that come soon after each other would leave less room each
    /// time. Where there is no room for it at all, the next recovery begins where this one began, and the database is open to be read.
    fn end_with_checkpoint(&self, db: &Database) -> Result<()> {
        let ended = match self.store.log.is_used_up() {
            false => db.checkpoint_record(Wanted::Room),
            true => {
                reached!("recovery.log.used_up");
                db.flush_pages(Lsn::MAX, usize::MAX)
                    .and_then(|_| db.checkpoint_record(Wanted::Room))
            }
        };
        match ended {
            Err(StorageError::LogFull { .. } | StorageError::FilegroupFull { .. }) => Ok(()),
            ended => ended,
        }
    }

    fn tell(&self, phase: RecoveryPhase, percent: u8, remaining_ms: u64, report: &RecoveryReport) {
        if let Some(watch) = self.opening.watch {
            watch(RecoveryProgress {
                phase,
                percent,
                remaining_ms,
                report,
            });
        }
    }

    /// Tells how far it is, once in a while.
    fn replay(&self, ahead: Ahead, report: &RecoveryReport) -> Result<Recovered> {
        let clock = &self.engine.env().clock;
        let start = clock.monotonic();
        let boot = self.store.files.boot();
        let first = boot.redo_start.0;
        let bytes = report.log_bytes.max(1);
        let (blocks, told) = (Cell::new(0_u32), Cell::new(start));
        let at_block = |lsn: Lsn| {
            if self.opening.stop.is_some_and(|s| s.load(Ordering::Acquire)) {
                return Err(StorageError::Cancelled);
            }
            blocks.set(blocks.get().wrapping_add(1));
            if self.opening.watch.is_none() || !blocks.get().is_multiple_of(BLOCKS_PER_LOOK) {
                return Ok(());
            }
            let now = clock.monotonic();
            if now.saturating_sub(told.get()) < TOLD_EVERY {
                return Ok(());
            }
            told.set(now);
            let done = lsn.0.saturating_sub(first).clamp(1, bytes);
            let remaining = ms(start, now).saturating_mul(bytes - done) / done;
            let percent = u8::try_from(done * 100 / bytes).unwrap_or(100);
            self.tell(RecoveryPhase::Redo, percent, remaining, report);
            Ok(())
        };
        let decided = |decisions: Vec<Decision>| self.claim.read(boot.guid, &decisions);
        let ask = |unit: &Unit| self.engine.outcome(unit, self.id);
        let pool = self.engine.pool();
        replay::recover(pool, self.store, ahead, &at_block, &decided, &ask)
    }

    /// The database over files to which redo has brought all there is.
    fn assemble(
        &self,
        name: &str,
        log_spec: FileSpec,
        recovered: &mut Recovered,
    ) -> Result<Arc<Database>> {
        let store = self.store;
        continue_log(store, recovered)?;
        let marked: Vec<TxnId> = recovered
            .losers
            .iter()
            .filter(|l| l.is_accelerated && !planted(Bug::ForgetLoser))
            .map(|l| l.id)
            .collect();
        // Until it is rolled back, nothing that it deleted may count as dead.
        let active: Vec<TxnId> = recovered
            .losers
            .iter()
            .filter(|l| !l.is_accelerated)
            .filter(|_| !planted(Bug::ForgetLoser) && !planted(Bug::BuryForLosers))
            .map(|l| l.id)
            .collect();
        let shown = store.log.shown().clone();
        let txns = TxnTable::new(recovered.next_txn, &marked, &active, shown);
        let db = Database::assemble(self.engine, self.id, name, store.clone(), log_spec, txns);
        db.decisions
            .restore(std::mem::take(&mut recovered.decisions));
        if self.opening.epoch.is_some() {
            store.log.set_participants(true);
        }
        db.begin_epoch_of(self.opening.epoch)?;
        replay::log_commits(&db, &recovered.resolved)?;
        Ok(db)
    }
}

pub(super) fn is_temporary(id: DatabaseId) -> bool {
    // tempdb: created anew at each start, so nothing in it needs to survive.
    id == DatabaseId(2)
}

pub(crate) fn split_specs(files: Vec<FileSpec>) -> Result<(FileSpec, Vec<FileSpec>)> {
    let (log, data): (Vec<_>, Vec<_>) = files.into_iter().partition(|f| f.filegroup == 0);
    let missing = |what: &str| StorageError::BadFile {
        path: PathBuf::new(),
        what: what.into(),
    };
    let log = log
        .into_iter()
        .next()
        .ok_or_else(|| missing("the database has no log file"))?;
    if !data.iter().any(|f| f.id == 1) {
        return Err(missing("the database has no primary data file"));
    }
    Ok((log, data))
}
