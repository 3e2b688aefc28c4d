//! One database: its files, log, trees, transactions, and what runs over them in the background.

mod checkpoint;

use crate::alloc::{Allocation, Allocator};
use crate::api::*;
use crate::buffer::{PageWrite, Pool, Store};
use crate::datafile::{Boot, CATALOG_ROOT, FileSet};
use crate::engine::Engine;
use crate::error::{Result, StorageError};
use crate::kept::Kept;
use crate::lock::{LockKey, LockManager, Owner};
use crate::log::record::{self, Kind, PartsWriter, Space};
use crate::log::{AppendKind, CommitPoint, DelayedStats, Log, Need, VlfInfo};
use crate::page::{Page, PageType};
use crate::planted::{Bug, planted};
use crate::recovery::{self, Loser, Recovered};
use crate::revert::{Aborted, AbortedMap};
use crate::status::TxnTable;
use crate::tree::Tree;
use crate::txn::{Progress, Txn, TxnState};
use crate::undo;
use crate::unit::Decisions;
use crate::version::{Chunk, Content, VersionStore};
use checkpoint::CheckpointState;
use daruma_base::{Clock, DatabaseId, Env, Lsn, PageId, TxnId, reached};
use parking_lot::{Mutex, RwLock};
use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Dead leaves remembered for cleaning; beyond that, splits and scans find them later.
const DEAD_LEAVES_MAX: usize = 100_000;

/// One database: its files, log and trees.
pub struct Database {
    me: Weak<Database>,
    id: DatabaseId,
    name: Mutex<String>,
    engine: Arc<Engine>,
    store: Arc<Store>,
    log_spec: Mutex<FileSpec>,
    durable: bool,
    allocator: Allocator,
    txns: TxnTable,
    trees: RwLock<HashMap<TreeId, Arc<Tree>>>,
    active: Mutex<HashMap<TxnId, Arc<Progress>>>,
    aborted: AbortedMap,
    /// Space to free once everyone sees the transaction.
    pending: Mutex<Vec<(TxnId, Space)>>,
    /// Freeing trees excludes reverting, which may be in the middle of one.
    reclaim: RwLock<()>,
    dead: Mutex<VecDeque<(TreeId, Vec<u8>)>>,
    checkpointing: Mutex<CheckpointState>,
    engine_needs: EngineNeeds,
    /// Held by who makes room in a log that is nearly full.
    relief: Mutex<()>,
    closed: AtomicBool,
    undo_at_once_bytes: AtomicU64,
    /// Memory that running statements keep for their rollback.
    kept_bytes: Arc<AtomicU64>,
    /// Transactions that ended here, and those of them that had written.
    transactions: AtomicU64,
    write_transactions: AtomicU64,
    /// Of transactions over several databases that this one coordinates.
    decisions: Decisions,
}

/// What recovery and rollback needed of the log when it was last cut.
type EngineNeeds = Mutex<Vec<Need>>;

impl Database {
    fn assemble(
        engine: &Arc<Engine>,
        id: DatabaseId,
        name: &str,
        store: Arc<Store>,
        log_spec: FileSpec,
        txns: TxnTable,
    ) -> Arc<Database> {
        let settings = store.files.boot().settings;
        store.log.set_delayed_bound(settings.delayed_bound());
        store
            .versions
            .set_megabytes_max(settings.version_store_megabytes);
        Arc::new_cyclic(|me| Database {
            me: me.clone(),
            id,
            name: Mutex::new(name.to_string()),
            engine: engine.clone(),
            store,
            log_spec: Mutex::new(log_spec),
            durable: !is_temporary(id),
            allocator: Allocator::default(),
            txns,
            trees: RwLock::default(),
            active: Mutex::default(),
            aborted: AbortedMap::default(),
            reclaim: RwLock::default(),
            pending: Mutex::default(),
            dead: Mutex::default(),
            checkpointing: Mutex::default(),
            engine_needs: Mutex::default(),
            relief: Mutex::default(),
            closed: AtomicBool::new(false),
            undo_at_once_bytes: AtomicU64::new(crate::txn::UNDO_AT_ONCE_BYTES),
            kept_bytes: Arc::default(),
            transactions: AtomicU64::new(0),
            write_transactions: AtomicU64::new(0),
            decisions: Decisions::default(),
        })
    }

    pub(crate) fn create(
        engine: &Arc<Engine>,
        id: DatabaseId,
        name: &str,
        files: Vec<FileSpec>,
        settings: Settings,
    ) -> Result<Arc<Database>> {
        let env = engine.env();
        let (log_spec, data) = split_specs(files)?;
        if is_temporary(id) {
            for spec in data.iter().chain([&log_spec]) {
                if env.disk.exists(&spec.path).unwrap_or(false) {
                    let remove = env.disk.remove(&spec.path);
                    remove.map_err(|source| StorageError::Io {
                        action: "remove",
                        path: spec.path.clone(),
                        source,
                    })?;
                }
            }
        }
        let durable = !is_temporary(id);
        let boot = Boot {
            sequence: 0,
            guid: env.random.u64(),
            redo_start: Lsn::NONE,
            checkpoint: Lsn::NONE,
            clean: false,
            settings,
            collation_version: 0,
            log_backup: Lsn::NONE,
            last_commit: CommitPoint::default(),
        };
        let log = Log::create(&log_spec, boot.guid, durable, env, engine.log_shared())?;
        let files = FileSet::create(&data, boot, durable, env)?;
        let store = Arc::new(Store::new(engine.next_store_id(), files, log));
        engine.pool().add_store(&store);
        let txns = TxnTable::new(1, &[]);
        let db = Database::assemble(engine, id, name, store, log_spec, txns);
        db.format_catalog_root()?;
        db.checkpoint()?;
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
    ) -> Result<(Arc<Database>, RecoveryReport)> {
        let clock = &env.clock;
        let (log_spec, data) = split_specs(files)?;
        let start = clock.monotonic();
        let files = FileSet::open(&data, env)?;
        let torn = files.restore_torn()?;
        let log = Log::open(&log_spec, files.guid(), env, engine.log_shared())?;
        let store = Arc::new(Store::new(engine.next_store_id(), files, log));
        let mut scratch = store.files.path(1).into_os_string();
        scratch.push(".aside");
        store.aside.open(&env.disk, scratch.into());
        engine.pool().add_store(&store);
        let result = Database::recover(engine, id, name, &store, log_spec, start);
        match result {
            Ok((db, mut report)) => {
                report.torn_pages_restored = torn;
                Ok((db, report))
            }
            Err(error) => {
                store.log.fence("recovery failed");
                engine.pool().remove_store(&store);
                // Best effort: the next recovery removes what is left.
                let _ = store.aside.close();
                Err(error)
            }
        }
    }

    fn recover(
        engine: &Arc<Engine>,
        id: DatabaseId,
        name: &str,
        store: &Arc<Store>,
        log_spec: FileSpec,
        start: Duration,
    ) -> Result<(Arc<Database>, RecoveryReport)> {
        let clock = &engine.env().clock;
        let ms = |from: Duration, to: Duration| to.saturating_sub(from).as_millis() as u64;
        let mut recovered = recovery::analyse(store, &|unit| engine.outcome(unit))?;
        let analysis_end = clock.monotonic();
        recovery::redo(engine.pool(), store, &mut recovered)?;
        let redo_end = clock.monotonic();
        let boot = store.files.boot();
        let classic = |l: &&Loser| !l.is_accelerated;
        let keep = recovered
            .losers
            .iter()
            .filter(classic)
            .map(|l| l.first)
            .min();
        let keep = keep.unwrap_or(recovered.end).min(boot.redo_start);
        let keep = match boot.log_backup {
            Lsn::NONE => keep,
            chain => keep.min(chain),
        };
        store.log.resume(recovered.end, keep)?;
        store.log.set_last_commit(recovered.last_commit);
        let marked: Vec<TxnId> = recovered
            .losers
            .iter()
            .filter(|l| l.is_accelerated && !planted(Bug::ForgetLoser))
            .map(|l| l.id)
            .collect();
        let txns = TxnTable::new(recovered.next_txn, &marked);
        let db = Database::assemble(engine, id, name, store.clone(), log_spec, txns);
        db.decisions
            .restore(std::mem::take(&mut recovered.decisions));
        recovery::log_commits(&db, &recovered.resolved)?;
        let mut report = RecoveryReport {
            rolled_forward: recovered.rolled_forward,
            rolled_back: recovered.losers.iter().filter(|l| !l.is_aborted).count() as u64,
            analysis_ms: ms(start, analysis_end),
            redo_ms: ms(analysis_end, redo_end),
            log_bytes: recovered.log_bytes,
            to_revert: marked.len() as u64,
            is_accelerated: boot.settings.accelerated_recovery,
            needed: !boot.clean,
            last_commit: recovered.last_commit,
            resolved: recovered.resolved.clone(),
            ..RecoveryReport::default()
        };
        db.take_over(recovered)?;
        report.undo_ms = ms(redo_end, clock.monotonic());
        store.files.write_boot(|b| b.clean = false)?;
        db.checkpoint()?;
        engine.enroll(&db);
        Ok((db, report))
    }

    /// Undo: accelerated losers are marked, classic ones rolled back from the log, newest first, as one backward pass
    /// would meet them.
    fn take_over(self: &Arc<Self>, recovered: Recovered) -> Result<()> {
        self.allocator.resume(recovered.end);
        let pending = recovered.pending.into_iter().map(|s| (TxnId::NONE, s));
        self.pending.lock().extend(pending);
        self.take_over_chunks(&recovered.chunks);
        self.settle_aside()?;
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
                *progress.owned.lock() = loser.owned;
                *progress.work.lock() = loser.work;
                self.add_aborted(Arc::new(progress), loser.chunks);
            } else {
                let mut state = TxnState::loser(loser.id, loser.last);
                undo::roll_back(self, &mut state, Lsn::NONE)?;
            }
        }
        Ok(())
    }

    /// Redo is over: versions can get pages now, so pages that had to wait for them, in frames or put aside, need not
    /// wait any longer.
    fn settle_aside(&self) -> Result<()> {
        let aside = &self.store.aside;
        if aside.is_used() || self.pool().is_full() {
            let mut chunks = self.versions().all_chunks();
            chunks.sort_unstable_by_key(|c| c.id);
            for chunk in chunks {
                if self.versions().is_unplaced(chunk.id) {
                    self.place_chunks(std::slice::from_ref(&chunk))?;
                    self.versions().forget_memory(&chunk);
                }
            }
        }
        aside.shut();
        while let Some(page) = aside.next_page() {
            drop(self.pool().read(&self.store, page)?);
        }
        aside.close()
    }

    /// Chunks of transactions that need no versions any more give their pages back.
    fn take_over_chunks(&self, chunks: &[recovery::PlacedChunk]) {
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

    // --- what the other rooms of storage reach ------------------------------------------------------------------

    pub(crate) fn env(&self) -> &Env {
        self.engine.env()
    }
    pub(crate) fn pool(&self) -> &Pool {
        self.engine.pool()
    }
    pub(crate) fn store(&self) -> &Store {
        &self.store
    }
    pub(crate) fn locks(&self) -> &LockManager {
        self.engine.lock_manager()
    }
    /// For those who only want to know how far its log is.
    pub(crate) fn store_handle(&self) -> &Arc<Store> {
        &self.store
    }
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }
    pub(crate) fn decisions(&self) -> &Decisions {
        &self.decisions
    }
    pub(crate) fn txns(&self) -> &TxnTable {
        &self.txns
    }
    pub(crate) fn versions(&self) -> &VersionStore {
        &self.store.versions
    }
    pub(crate) fn aborted(&self) -> &AbortedMap {
        &self.aborted
    }
    /// While the guard lives, no checkpoint is written.
    pub(crate) fn no_checkpoint(&self) -> impl Drop + '_ {
        self.checkpointing.lock()
    }
    /// While the guard lives, no tree is freed.
    pub(crate) fn no_reclaim(&self) -> impl Drop + '_ {
        self.reclaim.read()
    }
    pub(crate) fn allocator(&self) -> &Allocator {
        &self.allocator
    }
    pub(crate) fn count_transaction(&self, wrote: bool) {
        self.transactions.fetch_add(1, Ordering::Relaxed);
        self.write_transactions
            .fetch_add(u64::from(wrote), Ordering::Relaxed);
    }
    /// Transactions that have ended since the database was opened, and those of them that had written.
    pub fn transaction_counts(&self) -> (u64, u64) {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (count(&self.transactions), count(&self.write_transactions))
    }
    pub(crate) fn relief(&self) -> &Mutex<()> {
        &self.relief
    }
    /// End of the log when the last checkpoint was over.
    pub(crate) fn checkpoint_end(&self) -> Lsn {
        self.checkpointing.lock().end
    }
    pub(crate) fn remember_needs(&self, needs: &[Need]) {
        *self.engine_needs.lock() = needs.to_vec();
    }
    pub(crate) fn remembered_needs(&self) -> Vec<Need> {
        self.engine_needs.lock().clone()
    }
    pub(crate) fn undo_at_once_bytes(&self) -> u64 {
        self.undo_at_once_bytes.load(Ordering::Relaxed)
    }
    pub(crate) fn log_path(&self) -> PathBuf {
        self.log_spec.lock().path.clone()
    }

    pub(crate) fn choose_pages(&self, near_file: u16, count: usize) -> Result<Allocation<'_>> {
        self.choose_in_filegroup(self.store.files.filegroup_of(near_file), count)
    }

    pub(crate) fn choose_in_filegroup(
        &self,
        filegroup: u16,
        count: usize,
    ) -> Result<Allocation<'_>> {
        self.allocator
            .choose(self.pool(), &self.store, filegroup, count)
    }

    pub(crate) fn is_online(&self) -> bool {
        !self.store.log.is_fenced() && !self.closed.load(Ordering::Acquire)
    }

    pub(crate) fn check_writable(&self) -> Result<()> {
        if self.store.log.is_fenced() {
            return Err(StorageError::Fenced {
                cause: "an earlier failure of the log".into(),
            });
        }
        if self.closed.load(Ordering::Acquire) {
            return Err(StorageError::NotOnline { state: "closed" });
        }
        if self.settings().read_only {
            return Err(StorageError::NotOnline { state: "read-only" });
        }
        Ok(())
    }

    pub(crate) fn enter(&self, id: TxnId, owner: u64) -> Arc<Progress> {
        let first = self.store.log.block_start();
        let accelerated = self.durable && self.settings().accelerated_recovery;
        let progress = Arc::new(Progress {
            owner,
            begun_utc_100ns: self.env().clock.utc_100ns(),
            kept: Mutex::new(Kept::new(&self.kept_bytes)),
            ..Progress::new(id, first, accelerated)
        });
        self.active.lock().insert(id, progress.clone());
        progress
    }

    /// The transaction is rolled back by a mark: from here on what it wrote counts for nothing.
    pub(crate) fn add_aborted(&self, progress: Arc<Progress>, chunks: Vec<u32>) {
        let id = progress.id;
        for (tree, work) in &progress.work.lock().trees {
            if work.live != 0
                && let Ok(tree) = self.tree(*tree)
            {
                tree.add_count(-work.live);
            }
        }
        if planted(Bug::DropAbortedVersions) {
            self.versions().discard(&chunks);
        }
        let aborted = Arc::new(Aborted::new(progress, self.store.log.end(), chunks));
        // A checkpoint finds it here or among the active ones: it holds both latches while it looks.
        let mut active = self.active.lock();
        // Before the reverter can find it: to him, what is not aborted is done.
        self.txns.reverting(id);
        self.aborted.map.lock().insert(id, aborted);
        active.remove(&id);
    }

    /// Is the log from `first` on still there? A hold that was set before the call keeps it so.
    pub(crate) fn log_is_kept(&self, first: Lsn) -> bool {
        let _no_truncation = self.active.lock();
        self.store.log.min_lsn() <= first
    }

    /// Keeps versions from taking too much memory, and pages from waiting for versions when frames are scarce. The
    /// caller holds no latch.
    pub(crate) fn bound_versions(&self, state: &mut TxnState) -> Result<()> {
        let segment = &mut state.versions;
        let frames = self.pool().frame_count();
        let is_scarce = self.pool().is_full()
            && segment.is_accelerated
            && (!segment.unplaced.is_empty() || segment.unplaced_versions > frames / 16);
        let memory_max = (frames * crate::page::PAGE_BYTES / 4) as u64;
        let is_large = self.versions().memory_bytes() > memory_max && !segment.unplaced.is_empty();
        if !is_scarce && !is_large {
            return Ok(());
        }
        let chunks = if is_scarce {
            segment.take_unplaced()
        } else {
            std::mem::take(&mut segment.unplaced)
        };
        self.place_chunks(&chunks)?;
        if is_large {
            chunks.iter().for_each(|c| self.versions().forget_memory(c));
        }
        Ok(())
    }

    pub(crate) fn leave(&self, id: TxnId) {
        self.active.lock().remove(&id);
    }

    pub(crate) fn add_pending(&self, id: TxnId, spaces: Vec<Space>) {
        if !spaces.is_empty() {
            self.pending
                .lock()
                .extend(spaces.into_iter().map(|s| (id, s)));
        }
    }

    pub(crate) fn advance_watermark(&self) {
        let base = self.txns.advance();
        let settled = match planted(Bug::DropVersionsEarly) {
            true => u64::MAX,
            false => self.txns.settled(),
        };
        self.versions().drop_settled(settled, base);
    }

    /// A leaf whose entries are all deleted was seen.
    pub(crate) fn note_dead(&self, tree: &Tree, key: Vec<u8>) {
        let mut dead = self.dead.lock();
        if dead.len() < DEAD_LEAVES_MAX {
            dead.push_back((tree.id(), key));
        }
    }

    /// Logs a system record and applies its parts to the latched pages, which must be all it names.
    pub(crate) fn apply_system<'a>(
        &self,
        body: &[u8],
        pages: &mut [&mut PageWrite<'a>],
        kind: AppendKind,
    ) -> Result<Lsn> {
        pages.iter().for_each(|p| p.prepare(&self.store.log));
        let lsn = self.store.log.append(body, kind)?;
        let Some(parts) = record::Record::parse(body).and_then(|r| record::parts_of(&r)) else {
            panic!("a system record that was just written has no parts")
        };
        self.apply_parts(parts, lsn, pages);
        Ok(lsn)
    }

    pub(crate) fn apply_parts<'a>(&self, parts: &[u8], lsn: Lsn, pages: &mut [&mut PageWrite<'a>]) {
        for part in record::parts(parts) {
            let Some((id, action)) = part else {
                panic!("a system record that was just written is unreadable")
            };
            let Some(page) = pages.iter_mut().find(|p| p.location() == id) else {
                panic!("a system record names page {id}, which is not latched")
            };
            page.keep_back(self.versions(), &action);
            if let Err(what) = crate::redo::apply_part(page, id, &action) {
                panic!("applying a planned change to page {id}: {what}");
            }
            page.set_lsn(lsn);
        }
    }

    // --- public: identity and state -----------------------------------------------------------------------------

    pub fn id(&self) -> DatabaseId {
        self.id
    }

    /// The clock that the server runs by.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.env().clock
    }

    pub fn name(&self) -> String {
        self.name.lock().clone()
    }

    pub fn rename(&self, name: &str) {
        *self.name.lock() = name.to_string();
    }

    pub fn state(&self) -> DatabaseState {
        if self.store.log.is_fenced() {
            DatabaseState::Suspect
        } else if self.closed.load(Ordering::Acquire) {
            DatabaseState::Offline
        } else {
            DatabaseState::Online
        }
    }

    pub fn settings(&self) -> Settings {
        self.store.files.boot().settings
    }

    /// Writes the boot page before it returns.
    pub fn set_settings(&self, settings: Settings) -> Result<()> {
        self.store.files.write_boot(|b| {
            b.settings = settings;
            if settings.recovery_model == RecoveryModel::Simple {
                b.log_backup = Lsn::NONE;
            }
        })?;
        self.store.log.set_delayed_bound(settings.delayed_bound());
        self.versions()
            .set_megabytes_max(settings.version_store_megabytes);
        if settings.delayed_durability == DelayedDurability::Disabled {
            self.flush_log()?;
        }
        Ok(())
    }

    pub fn files(&self) -> Vec<FileInfo> {
        let mut infos = self.store.files.infos();
        for info in &mut infos {
            info.used_pages = self.used_pages(info.spec.id).unwrap_or(0);
        }
        let log = &self.store.log;
        infos.push(FileInfo {
            spec: self.log_spec.lock().clone(),
            size_pages: log.size_bytes() / 8192,
            used_pages: log.stats().used_bytes.div_ceil(8192),
            io: log.io_stats(),
        });
        infos
    }

    fn used_pages(&self, file: u16) -> Result<u64> {
        let size = self.store.files.size_pages(file) as u32;
        let mut used = 0;
        for first in (0..size).step_by(crate::alloc::INTERVAL_PAGES as usize) {
            if first + 1 < size {
                let map = self
                    .pool()
                    .read(&self.store, PageId::new(file, first + 1))?;
                used +=
                    crate::alloc::count_set(&map, (size - first).min(crate::alloc::INTERVAL_PAGES));
            }
        }
        Ok(used)
    }

    /// Adds a data file (and its filegroup, when new).
    pub fn add_file(&self, spec: FileSpec) -> Result<()> {
        self.check_writable()?;
        self.store.files.create_file(&spec)
    }

    // --- public: transactions, trees, blobs ---------------------------------------------------------------------

    /// Makes a data or log file at least so large and sets how it may grow from here. Files never shrink here.
    pub fn modify_file(
        &self,
        id: u16,
        size_pages: u64,
        growth: crate::Growth,
        max_pages: Option<u64>,
    ) -> Result<()> {
        self.check_writable()?;
        let mut log_spec = self.log_spec.lock();
        if id != log_spec.id {
            return self.store.files.modify(id, size_pages, growth, max_pages);
        }
        self.store.log.modify(size_pages, growth, max_pages)?;
        (log_spec.growth, log_spec.max_pages) = (growth, max_pages);
        Ok(())
    }

    /// Starts a transaction. It costs nothing until its first write.
    pub fn begin(self: &Arc<Self>, owner: &Arc<Owner>) -> Txn {
        Txn::new(self, owner)
    }

    /// The tree in which the catalog is stored; exists from the first day.
    pub fn catalog_tree(&self) -> TreeId {
        TreeId(CATALOG_ROOT)
    }

    /// Allocates an empty tree in `filegroup` (1 = PRIMARY). Undone with the transaction.
    pub fn create_tree(&self, txn: &Txn, filegroup: u16) -> Result<TreeId> {
        let mut state = txn.start_write()?;
        let mut space = self.choose_in_filegroup(filegroup, 1)?;
        let id = space.pages[0];
        let mut page = self.pool().write_new(&self.store, id)?;
        let mut root = Page::zeroed();
        root.format(id, PageType::Tree, 0, id);
        let mut body = Vec::new();
        state.own(Space::Tree(id));
        state.start_record(&mut body, Kind::Owned);
        Space::Tree(id).write(&mut body);
        space.write_parts(&mut body);
        PartsWriter::new(&mut body).image(&root);
        record::finish(&mut body);
        space.bitmap.prepare(&self.store.log);
        page.prepare(&self.store.log);
        let lsn = state.append(self, &body)?;
        let parts_at = record::RECORD_HEADER_BYTES + record::SPACE_BYTES;
        self.apply_parts(&body[parts_at..], lsn, &mut [&mut space.bitmap, &mut page]);
        // The page may have belonged to another tree in an earlier life.
        self.trees.write().remove(&TreeId(id));
        Ok(TreeId(id))
    }

    /// Frees all pages of the tree once the transaction has committed and no snapshot can need it.
    pub fn drop_tree(&self, txn: &Txn, tree: TreeId) -> Result<()> {
        self.defer(txn, Space::Tree(tree.0))
    }

    fn defer(&self, txn: &Txn, space: Space) -> Result<()> {
        let mut state = txn.start_write()?;
        let mut body = Vec::new();
        state.start_record(&mut body, Kind::Defer);
        space.write(&mut body);
        record::finish(&mut body);
        state.append(self, &body)?;
        state.defer(space);
        Ok(())
    }

    pub fn tree(&self, id: TreeId) -> Result<Arc<Tree>> {
        if let Some(tree) = self.trees.read().get(&id) {
            return Ok(tree.clone());
        }
        let mut trees = self.trees.write();
        Ok(trees
            .entry(id)
            .or_insert_with(|| Arc::new(Tree::new(id, self.me.clone())))
            .clone())
    }

    /// Stores a value on overflow pages. Undone with the transaction.
    pub fn put_blob(&self, txn: &Txn, bytes: &[u8]) -> Result<BlobRef> {
        crate::blob::put(self, txn, 1, bytes)
    }

    pub fn get_blob(&self, blob: BlobRef) -> Result<Vec<u8>> {
        crate::blob::read(self, blob, 0, usize::MAX)
    }

    /// Part of a blob: at most `len` bytes from `offset`.
    pub fn read_blob(&self, blob: BlobRef, offset: u64, len: usize) -> Result<Vec<u8>> {
        crate::blob::read(self, blob, offset, len)
    }

    /// Frees the pages once the transaction has committed and no snapshot can need them.
    pub fn free_blob(&self, txn: &Txn, blob: BlobRef) -> Result<()> {
        self.defer(txn, Space::Blob(blob.first))
    }

    /// Waits for and takes a lock; it stays until [`Engine::release_locks`] or [`Database::unlock`].
    pub fn lock(&self, owner: &Arc<Owner>, resource: LockResource, mode: LockMode) -> Result<()> {
        self.locks()
            .acquire(owner, &LockKey::Resource(self.id, resource), mode)
    }

    pub fn unlock(&self, owner: &Arc<Owner>, resource: &LockResource, mode: LockMode) {
        self.locks()
            .release(owner, &LockKey::Resource(self.id, resource.clone()), mode);
    }

    pub(crate) fn active_progress(&self) -> Vec<Arc<Progress>> {
        self.active.lock().values().cloned().collect()
    }

    /// Ids and log positions of transactions that have written and not ended.
    pub fn active_transactions(&self) -> Vec<(TxnId, u64)> {
        self.active
            .lock()
            .values()
            .map(|p| (p.id, p.first.0))
            .collect()
    }

    // --- public: log and background -----------------------------------------------------------------------------

    /// Makes every commit so far durable (`sys.sp_flush_log`).
    pub fn flush_log(&self) -> Result<()> {
        self.store.log.harden_all()
    }

    /// Log writer's step: makes delayed commits durable that are due; how long until the next ones are.
    pub fn flush_due(&self) -> Result<Option<Duration>> {
        self.store.log.flush_due()
    }

    /// What a crash at this moment would cost.
    pub fn delayed_stats(&self) -> DelayedStats {
        self.store.log.delayed_stats()
    }

    pub fn last_commit(&self) -> CommitPoint {
        self.store.log.last_commit()
    }

    pub fn log_stats(&self) -> LogStats {
        let boot = self.store.files.boot();
        let mut recovery_lsn = boot.redo_start;
        self.with_log_needed_by_transactions(|oldest| {
            recovery_lsn = oldest.map_or(recovery_lsn, |oldest| oldest.min(recovery_lsn));
        });
        LogStats {
            checkpoint_lsn: boot.checkpoint,
            recovery_lsn,
            ..self.store.log.stats()
        }
    }

    /// Space that is no part of a table: waiting to be freed, or owned by a transaction that is being reverted.
    pub(crate) fn pending_spaces(&self) -> Vec<Space> {
        let mut spaces: Vec<Space> = self.pending.lock().iter().map(|(_, s)| *s).collect();
        for aborted in self.aborted.map.lock().values() {
            spaces.extend(aborted.progress.owned.lock().iter());
        }
        spaces
    }

    /// Pages that hold versions.
    pub(crate) fn version_pages(&self) -> Vec<PageId> {
        let _settled = self.versions().placing.lock();
        let dropped = self.versions().dropped.lock().clone();
        let chunks = self.versions().all_chunks();
        let pages = chunks
            .iter()
            .chain(&dropped)
            .map(|c| c.content.read().pages.clone());
        pages.flatten().collect()
    }

    /// Virtual log files for `sys.dm_db_log_info`.
    pub fn vlfs(&self) -> Vec<VlfInfo> {
        self.store.log.vlfs()
    }

    /// Bytes of row versions in memory.
    pub fn version_bytes(&self) -> u64 {
        self.versions().memory_bytes()
    }

    /// Accelerated transactions that wrote at most so many bytes of log are undone at once when they roll back; larger
    /// ones are marked and reverted in the background.
    pub fn set_undo_at_once_bytes(&self, bytes: u64) {
        self.undo_at_once_bytes.store(bytes, Ordering::Relaxed);
    }

    pub fn version_stats(&self) -> VersionStats {
        // Not under the other latch: who aborts takes the active ones first.
        let oldest_active = self.active.lock().keys().min().copied();
        let aborted = self.aborted.map.lock();
        let (snapshots, oldest_snapshot) = self.txns.snapshots_in_use();
        VersionStats {
            memory_bytes: self.versions().memory_bytes(),
            pages: self.versions().page_count(),
            chunks: self.versions().chunk_count(),
            filegroup: self.settings().version_store_filegroup,
            aborted: aborted.len() as u64,
            oldest_active,
            oldest_aborted: aborted.keys().next().copied(),
            snapshots: snapshots as u64,
            oldest_snapshot,
            rows_reverted: self.aborted.rows.load(Ordering::Relaxed),
            pages_reverted: self.aborted.pages.load(Ordering::Relaxed),
        }
    }

    /// One round of background work; true when there may be more to do at once.
    pub fn background_step(&self) -> Result<bool> {
        if !self.is_online() {
            return Ok(false);
        }
        self.flush_due()?;
        let mut busy = self.clean_versions()?;
        busy |= self.clean_dead()?;
        busy |= self.bound_redo()?;
        self.checkpoint_if_due()?;
        Ok(busy)
    }

    /// One round of reverting aborted transactions and freeing versions and dropped space; true when there may be more
    /// to do at once.
    pub fn clean_versions(&self) -> Result<bool> {
        let mut busy = self.free_pending()?;
        self.note_sweeps();
        busy |= self.revert_step()?;
        busy |= self.free_versions()?;
        self.note_sweeps();
        Ok(busy)
    }

    /// Frees what committed transactions dropped, once everyone sees them.
    fn free_pending(&self) -> Result<bool> {
        self.advance_watermark();
        let ready: Vec<Space> = {
            let pending = self.pending.lock();
            pending
                .iter()
                .filter(|(id, _)| self.txns.is_settled(*id))
                .map(|(_, s)| *s)
                .take(64)
                .collect()
        };
        for space in &ready {
            let _no_revert = self.reclaim.write();
            match space {
                Space::Tree(root) => {
                    self.tree(TreeId(*root))?.free_all(self)?;
                    self.trees.write().remove(&TreeId(*root));
                }
                Space::Blob(first) => crate::blob::free(self, *first)?,
            }
            let mut pending = self.pending.lock();
            if let Some(at) = pending.iter().position(|(_, s)| s == space) {
                pending.swap_remove(at);
            }
        }
        Ok(!ready.is_empty())
    }

    /// Removes deleted entries that nobody can see any more, and the leaves they leave empty.
    pub(crate) fn clean_dead(&self) -> Result<bool> {
        let batch: Vec<(TreeId, Vec<u8>)> = {
            let mut dead = self.dead.lock();
            let count = dead.len().min(256);
            dead.drain(..count).collect()
        };
        let (full, mut cleaned) = (batch.len() == 256, 0);
        for (id, key) in batch {
            let root = id.0;
            let is_tree = self
                .pool()
                .read(&self.store, root)
                .is_ok_and(|p| p.page_type() == Some(PageType::Tree) && p.tree() == root);
            if is_tree && !self.tree(id)?.clean(self, &key)? {
                self.dead.lock().push_back((id, key));
            } else {
                cleaned += 1;
            }
        }
        // What could not be cleaned waits for a snapshot to end: no use in trying again at once.
        Ok(full && cleaned > 0)
    }

    /// Checkpoints and closes the files. No transaction may be open.
    pub fn close(&self) -> Result<()> {
        if self.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let result = if self.store.log.is_fenced() || !self.durable {
            Ok(())
        } else {
            self.harden_others();
            let begin = Lsn::MAX;
            let clean = self.active.lock().is_empty();
            self.flush_pages(begin, usize::MAX)
                .and_then(|_| self.checkpoint_record(clean))
        };
        self.pool().remove_store(&self.store);
        // Kept plans may hold this database for long.
        self.store.log.fence("the database is closed");
        self.store.files.release();
        self.store.log.release();
        result
    }
}

fn is_temporary(id: DatabaseId) -> bool {
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
