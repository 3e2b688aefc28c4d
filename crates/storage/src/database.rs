//! One database: its files, log, trees, transactions, and what runs over them in the background.

use crate::alloc::{Allocation, Allocator};
use crate::api::*;
use crate::buffer::{PageWrite, Pool, Store};
use crate::datafile::{Boot, CATALOG_ROOT, FileSet};
use crate::engine::Engine;
use crate::error::{Result, StorageError};
use crate::lock::{LockKey, LockManager, Owner};
use crate::log::record::{
    self, ACTIVE_TXN_BYTES, ActiveTxn, CHECKPOINT_PART_BYTES, Checkpoint, Kind, PartsWriter, Space,
};
use crate::log::{AppendKind, Log, VlfInfo};
use crate::page::{Page, PageType};
use crate::recovery::{self, Recovered};
use crate::status::TxnTable;
use crate::tree::Tree;
use crate::txn::{Progress, Txn};
use crate::undo;
use crate::version::VersionStore;
use daruma_base::{DatabaseId, Env, Lsn, PageId, TxnId};
use parking_lot::{Mutex, RwLock};
use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Dead leaves remembered for cleaning; beyond that, splits and scans find them later.
const DEAD_LEAVES_MAX: usize = 100_000;
/// Redo is kept below this many bytes of log by writing old dirty pages.
const REDO_BYTES_TARGET: u64 = 64 << 20;
/// A checkpoint record follows at the latest after so much log.
const CHECKPOINT_LOG_BYTES: u64 = 16 << 20;
const FLUSH_PAGES_PER_STEP: usize = 1024;
/// A delayed commit is hard after this time at the latest.
const DELAYED_FLUSH: Duration = Duration::from_millis(10);

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
    versions: VersionStore,
    trees: RwLock<HashMap<TreeId, Arc<Tree>>>,
    active: Mutex<HashMap<TxnId, Arc<Progress>>>,
    /// Space to free once everyone sees the transaction.
    pending: Mutex<Vec<(TxnId, Space)>>,
    dead: Mutex<VecDeque<(TreeId, Vec<u8>)>>,
    checkpointing: Mutex<CheckpointState>,
    closed: AtomicBool,
    last_flush_ns: AtomicU64,
}

#[derive(Default)]
struct CheckpointState {
    at: Duration,
    end: Lsn,
}

impl Database {
    fn assemble(
        engine: &Arc<Engine>,
        id: DatabaseId,
        name: &str,
        store: Arc<Store>,
        log_spec: FileSpec,
        next_txn: u64,
    ) -> Arc<Database> {
        Arc::new_cyclic(|me| Database {
            me: me.clone(),
            id,
            name: Mutex::new(name.to_string()),
            engine: engine.clone(),
            store,
            log_spec: Mutex::new(log_spec),
            durable: !is_temporary(id),
            allocator: Allocator::default(),
            txns: TxnTable::new(next_txn),
            versions: VersionStore::default(),
            trees: RwLock::default(),
            active: Mutex::default(),
            pending: Mutex::default(),
            dead: Mutex::default(),
            checkpointing: Mutex::default(),
            closed: AtomicBool::new(false),
            last_flush_ns: AtomicU64::new(0),
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
        };
        let log = Log::create(&log_spec, boot.guid, durable, env, engine.waits_arc())?;
        let files = FileSet::create(&data, boot, durable, env)?;
        let store = Arc::new(Store::new(engine.next_store_id(), files, log));
        engine.pool().add_store(&store);
        let db = Database::assemble(engine, id, name, store, log_spec, 1);
        db.format_catalog_root()?;
        db.checkpoint()?;
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
        id: DatabaseId,
        name: &str,
        files: Vec<FileSpec>,
    ) -> Result<(Arc<Database>, RecoveryReport)> {
        let env = engine.env();
        let clock = &env.clock;
        let (log_spec, data) = split_specs(files)?;
        let start = clock.monotonic();
        let files = FileSet::open(&data, env)?;
        let torn = files.restore_torn()?;
        let log = Log::open(&log_spec, files.guid(), env, engine.waits_arc())?;
        let store = Arc::new(Store::new(engine.next_store_id(), files, log));
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
        let analysis_end = clock.monotonic();
        let Recovered {
            losers,
            pending,
            next_txn,
            end,
            rolled_forward,
            log_bytes,
        } = recovery::redo(engine.pool(), store)?;
        let redo_end = clock.monotonic();
        let keep = losers
            .iter()
            .map(|l| l.first)
            .min()
            .unwrap_or(end)
            .min(store.files.boot().redo_start);
        store.log.resume(end, keep)?;
        let db = Database::assemble(engine, id, name, store.clone(), log_spec, next_txn);
        db.pending
            .lock()
            .extend(pending.into_iter().map(|s| (TxnId::NONE, s)));
        let rolled_back = losers.len() as u64;
        let clean = store.files.boot().clean;
        // Newest first, as one backward pass over the log would meet them.
        for loser in losers.iter().rev() {
            let mut state = crate::txn::TxnState::loser(loser.id, loser.last);
            undo::roll_back(&db, &mut state, Lsn::NONE)?;
        }
        let undo_end = clock.monotonic();
        store.files.write_boot(|b| b.clean = false)?;
        db.checkpoint()?;
        let report = RecoveryReport {
            rolled_forward,
            rolled_back,
            analysis_ms: ms(start, analysis_end),
            redo_ms: ms(analysis_end, redo_end),
            undo_ms: ms(redo_end, undo_end),
            system_undo_ms: 0,
            log_bytes,
            torn_pages_restored: 0,
            needed: !clean,
        };
        Ok((db, report))
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
    pub(crate) fn txns(&self) -> &TxnTable {
        &self.txns
    }
    pub(crate) fn versions(&self) -> &VersionStore {
        &self.versions
    }
    pub(crate) fn allocator(&self) -> &Allocator {
        &self.allocator
    }
    pub(crate) fn is_durable(&self) -> bool {
        self.durable
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

    pub(crate) fn enter(&self, id: TxnId) -> Arc<Progress> {
        let first = self.store.log.block_start();
        let progress = Arc::new(Progress {
            id,
            first,
            last: AtomicU64::new(0),
            defers: Mutex::default(),
        });
        self.active.lock().insert(id, progress.clone());
        progress
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
        self.versions.drop_below(base);
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
        let parts_at = match record::Record::parse(body).map(|r| r.kind) {
            Some(Kind::FreeDone) => record::RECORD_HEADER_BYTES + record::SPACE_BYTES,
            _ => record::RECORD_HEADER_BYTES,
        };
        self.apply_parts(&body[parts_at..], lsn, pages);
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
        self.store.files.write_boot(|b| b.settings = settings)
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
            used_pages: log.used_bytes() / 8192,
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

    pub fn log_stats(&self) -> LogStats {
        let log = &self.store.log;
        LogStats {
            size_bytes: log.size_bytes(),
            used_bytes: log.used_bytes(),
            min_lsn: log.min_lsn(),
            end_lsn: log.end(),
            hardened_lsn: log.hardened(),
            checkpoint_lsn: self.store.files.boot().checkpoint,
            flushes: log.flushes(),
            flushed_bytes: log.flushed_bytes(),
            reuse_wait: log.reuse_wait(),
        }
    }

    /// Virtual log files for `sys.dm_db_log_info`.
    pub fn vlfs(&self) -> Vec<VlfInfo> {
        self.store.log.vlfs()
    }

    /// Bytes of row versions kept for snapshots.
    pub fn version_bytes(&self) -> u64 {
        self.versions.bytes()
    }

    /// Writes all dirty pages and a checkpoint record, then cuts the log.
    pub fn checkpoint(&self) -> Result<()> {
        if self.durable {
            // Seals the open block, so that redo begins behind what is flushed here.
            self.store.log.harden_all()?;
        }
        let begin = self.store.log.block_start();
        if self.durable {
            self.pool().flush(&self.store, begin, usize::MAX)?;
        }
        self.checkpoint_record(false)
    }

    /// Fuzzy checkpoint: notes where redo must begin, without writing pages.
    fn checkpoint_record(&self, clean: bool) -> Result<()> {
        let mut last = self.checkpointing.lock();
        let log = &self.store.log;
        let begin = log.block_start();
        let redo_start = self
            .pool()
            .min_rec_lsn(&self.store)
            .map_or(begin, |l| l.min(begin));
        let active: Vec<ActiveTxn> = {
            let active = self.active.lock();
            let describe = |p: &Arc<Progress>| ActiveTxn {
                id: p.id,
                first: p.first,
                last: Lsn(p.last.load(Ordering::Acquire)),
                defers: p.defers.lock().clone(),
            };
            active.values().map(describe).collect()
        };
        let pending: Vec<Space> = self.pending.lock().iter().map(|(_, s)| *s).collect();
        let oldest = active.iter().map(|t| t.first).min();
        let checkpoint = self.write_checkpoint(redo_start, &active, &pending)?;
        if self.durable {
            log.harden(checkpoint)?;
            self.store.files.write_boot(|b| {
                b.redo_start = redo_start;
                b.checkpoint = checkpoint;
                b.clean = clean;
            })?;
        }
        let keep = if self.durable { redo_start } else { begin };
        log.set_reuse_wait(if oldest.is_some_and(|o| o < keep) {
            "ACTIVE_TRANSACTION"
        } else {
            "NOTHING"
        });
        log.truncate(oldest.map_or(keep, |o| o.min(keep)));
        *last = CheckpointState {
            at: self.env().clock.monotonic(),
            end: log.end(),
        };
        Ok(())
    }

    fn write_checkpoint(
        &self,
        redo_start: Lsn,
        active: &[ActiveTxn],
        pending: &[Space],
    ) -> Result<Lsn> {
        let mut parts = vec![Checkpoint {
            redo_start,
            next_txn: self.txns.next_id(),
            ..Checkpoint::default()
        }];
        let mut bytes = 0;
        let mut room_for = |more: usize, parts: &mut Vec<Checkpoint>| {
            if bytes + more > CHECKPOINT_PART_BYTES {
                bytes = 0;
                parts.push(Checkpoint {
                    redo_start,
                    next_txn: self.txns.next_id(),
                    ..Checkpoint::default()
                });
            }
            bytes += more;
            parts.len() - 1
        };
        for txn in active {
            // A transaction with very many deferred frees is told in several pieces; analysis joins them.
            for defers in pieces(&txn.defers) {
                let part = room_for(
                    ACTIVE_TXN_BYTES + defers.len() * record::SPACE_BYTES,
                    &mut parts,
                );
                parts[part].active.push(ActiveTxn {
                    defers: defers.to_vec(),
                    ..txn.clone()
                });
            }
        }
        for space in pending {
            let part = room_for(record::SPACE_BYTES, &mut parts);
            parts[part].pending_frees.push(*space);
        }
        let mut lsn = Lsn::NONE;
        let count = parts.len();
        for (i, mut part) in parts.into_iter().enumerate() {
            part.is_last = i + 1 == count;
            let mut body = Vec::new();
            part.write(&mut body);
            lsn = self.store.log.append(&body, AppendKind::Completion)?;
        }
        Ok(lsn)
    }

    /// One round of background work; true when there may be more to do at once.
    pub fn background_step(&self) -> Result<bool> {
        if self.store.log.is_fenced() || self.closed.load(Ordering::Acquire) {
            return Ok(false);
        }
        self.flush_delayed()?;
        let mut busy = self.free_pending()?;
        busy |= self.clean_dead()?;
        busy |= self.bound_redo()?;
        self.checkpoint_if_due()?;
        Ok(busy)
    }

    fn flush_delayed(&self) -> Result<()> {
        let log = &self.store.log;
        if !self.durable || log.hardened() >= log.end() {
            return Ok(());
        }
        let now = self.env().clock.monotonic().as_nanos() as u64;
        if now.saturating_sub(self.last_flush_ns.load(Ordering::Relaxed))
            >= DELAYED_FLUSH.as_nanos() as u64
        {
            self.last_flush_ns.store(now, Ordering::Relaxed);
            log.harden_all()?;
        }
        Ok(())
    }

    /// Frees what committed transactions dropped, once everyone sees them.
    fn free_pending(&self) -> Result<bool> {
        self.advance_watermark();
        let base = self.txns.base();
        let ready: Vec<Space> = {
            let pending = self.pending.lock();
            pending
                .iter()
                .filter(|(id, _)| *id < base)
                .map(|(_, s)| *s)
                .take(64)
                .collect()
        };
        for space in &ready {
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
    fn clean_dead(&self) -> Result<bool> {
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

    /// Writes the oldest dirty pages so that redo stays short.
    fn bound_redo(&self) -> Result<bool> {
        if !self.durable {
            return Ok(false);
        }
        let end = self.store.log.end().0;
        let Some(oldest) = self.pool().min_rec_lsn(&self.store) else {
            return Ok(false);
        };
        if end.saturating_sub(oldest.0) < REDO_BYTES_TARGET {
            return Ok(false);
        }
        let written = self.pool().flush(
            &self.store,
            Lsn(end - REDO_BYTES_TARGET / 2),
            FLUSH_PAGES_PER_STEP,
        )?;
        Ok(written == FLUSH_PAGES_PER_STEP)
    }

    fn checkpoint_if_due(&self) -> Result<()> {
        let (at, checkpoint_end) = {
            let last = self.checkpointing.lock();
            (last.at, last.end)
        };
        let end = self.store.log.end();
        let log_since = end.0.saturating_sub(checkpoint_end.0);
        let interval =
            Duration::from_secs(u64::from(self.settings().target_recovery_seconds.max(10)));
        let waited = self.env().clock.monotonic().saturating_sub(at);
        let tight = self.store.log.used_bytes() * 10 > self.store.log.size_bytes() * 7;
        if log_since >= CHECKPOINT_LOG_BYTES || (log_since > 4096 && (waited >= interval || tight))
        {
            if tight && self.durable {
                self.pool().flush(&self.store, end, usize::MAX)?;
            }
            self.checkpoint_record(false)?;
        }
        Ok(())
    }

    /// Checkpoints and closes the files. No transaction may be open.
    pub fn close(&self) -> Result<()> {
        if self.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let result = if self.store.log.is_fenced() || !self.durable {
            Ok(())
        } else {
            let begin = Lsn::MAX;
            let clean = self.active.lock().is_empty();
            self.pool()
                .flush(&self.store, begin, usize::MAX)
                .and_then(|_| self.checkpoint_record(clean))
        };
        self.pool().remove_store(&self.store);
        result
    }
}

/// Pieces of at most 4,000 entries; one empty piece for an empty list.
fn pieces(spaces: &[Space]) -> impl Iterator<Item = &[Space]> {
    let empty = spaces.is_empty().then_some(&spaces[..0]);
    empty.into_iter().chain(spaces.chunks(4_000))
}

fn is_temporary(id: DatabaseId) -> bool {
    // tempdb: created anew at each start, so nothing in it needs to survive.
    id == DatabaseId(2)
}

fn split_specs(files: Vec<FileSpec>) -> Result<(FileSpec, Vec<FileSpec>)> {
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
