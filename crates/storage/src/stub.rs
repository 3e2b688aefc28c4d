//! In-memory stand-in with the final signatures, until the real rooms land: one version per entry, undo by list.

use crate::api::*;
use crate::error::{Result, StorageError};
use daruma_base::{CancelFlag, DatabaseId, Env, PageId, TxnId, WaitRegistry};
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};

/// Sizes that bound what the engine may use.
#[derive(Clone, Copy, Debug)]
pub struct EngineConfig {
    pub buffer_pool_pages: usize,
}

/// What all databases of a server share.
pub struct Engine {
    env: Env,
    waits: WaitRegistry,
}

impl Engine {
    pub fn new(env: Env, _config: EngineConfig) -> Arc<Engine> {
        Arc::new(Engine {
            env,
            waits: WaitRegistry::default(),
        })
    }

    pub fn env(&self) -> &Env {
        &self.env
    }

    pub fn waits(&self) -> &WaitRegistry {
        &self.waits
    }

    /// Creates the files (the first data file is the primary one, one must be the log: filegroup 0) and opens them.
    pub fn create_database(
        self: &Arc<Self>,
        id: DatabaseId,
        name: &str,
        files: Vec<FileSpec>,
        settings: Settings,
    ) -> Result<Arc<Database>> {
        Ok(Database::stub(id, name, files, settings))
    }

    /// Opens the files of a database and recovers it. The report says what recovery did.
    pub fn open_database(
        self: &Arc<Self>,
        id: DatabaseId,
        name: &str,
        files: Vec<FileSpec>,
    ) -> Result<(Arc<Database>, RecoveryReport)> {
        Ok((
            Database::stub(id, name, files, Settings::default()),
            RecoveryReport::default(),
        ))
    }

    /// Releases every lock of `owner`: at the end of its transaction.
    pub fn release_locks(&self, _owner: &Owner) {}

    /// All granted and waiting locks, for `sys.dm_tran_locks`.
    pub fn locks(&self) -> Vec<LockInfo> {
        Vec::new()
    }

    /// Owner id that `owner` waits for at this moment, for `blocking_session_id`.
    pub fn blocked_by(&self, _owner: &Owner) -> Option<u64> {
        None
    }

    /// Logical and physical reads of the calling thread so far.
    pub fn thread_io(&self) -> IoCounters {
        IoCounters::default()
    }
}

/// Holder of locks: one per session. `id` is unique in the server.
pub struct Owner {
    pub id: u64,
    pub cancel: CancelFlag,
    /// SET LOCK_TIMEOUT in ms; -1 waits for ever.
    pub lock_timeout_ms: AtomicI64,
    /// SET DEADLOCK_PRIORITY, -10..=10.
    pub deadlock_priority: AtomicI64,
}

impl Owner {
    pub fn new(id: u64, cancel: CancelFlag) -> Arc<Owner> {
        Arc::new(Owner {
            id,
            cancel,
            lock_timeout_ms: AtomicI64::new(-1),
            deadlock_priority: AtomicI64::new(0),
        })
    }
}

/// One database: its files, log and trees.
pub struct Database {
    id: DatabaseId,
    name: Mutex<String>,
    files: Mutex<Vec<FileSpec>>,
    settings: Mutex<Settings>,
    trees: Mutex<HashMap<TreeId, Arc<Tree>>>,
    blobs: Mutex<HashMap<PageId, Arc<Vec<u8>>>>,
    next_page: AtomicU32,
    next_txn: AtomicU64,
}

impl Database {
    fn stub(id: DatabaseId, name: &str, files: Vec<FileSpec>, settings: Settings) -> Arc<Database> {
        let db = Database {
            id,
            name: Mutex::new(name.to_string()),
            files: Mutex::new(files),
            settings: Mutex::new(settings),
            trees: Mutex::default(),
            blobs: Mutex::default(),
            next_page: AtomicU32::new(100),
            next_txn: AtomicU64::new(1),
        };
        db.trees
            .lock()
            .insert(db.catalog_tree(), Arc::new(Tree::new(db.catalog_tree())));
        Arc::new(db)
    }

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
        DatabaseState::Online
    }

    pub fn settings(&self) -> Settings {
        *self.settings.lock()
    }

    /// Writes the boot page before it returns.
    pub fn set_settings(&self, settings: Settings) -> Result<()> {
        *self.settings.lock() = settings;
        Ok(())
    }

    pub fn files(&self) -> Vec<FileInfo> {
        let info = |s: &FileSpec| FileInfo {
            spec: s.clone(),
            size_pages: s.size_pages,
            used_pages: 0,
        };
        self.files.lock().iter().map(info).collect()
    }

    /// Adds a data file (and its filegroup, when new).
    pub fn add_file(&self, spec: FileSpec) -> Result<()> {
        self.files.lock().push(spec);
        Ok(())
    }

    /// Starts a transaction. It costs nothing until its first write.
    pub fn begin(self: &Arc<Self>, owner: &Arc<Owner>) -> Txn {
        Txn(Arc::new(TxnInner {
            db: self.clone(),
            owner: owner.clone(),
            id: AtomicU64::new(0),
            undo: Mutex::default(),
            ended: AtomicBool::new(false),
        }))
    }

    /// The tree in which the catalog is stored; exists from the first day.
    pub fn catalog_tree(&self) -> TreeId {
        TreeId(PageId::new(1, 16))
    }

    /// Allocates an empty tree in `filegroup` (1 = PRIMARY). Undone with the transaction.
    pub fn create_tree(&self, _txn: &Txn, _filegroup: u16) -> Result<TreeId> {
        let id = TreeId(PageId::new(
            1,
            self.next_page.fetch_add(1, Ordering::Relaxed),
        ));
        self.trees.lock().insert(id, Arc::new(Tree::new(id)));
        Ok(id)
    }

    /// Frees all pages of the tree once the transaction has committed and no snapshot can need it.
    pub fn drop_tree(&self, _txn: &Txn, _tree: TreeId) -> Result<()> {
        Ok(())
    }

    pub fn tree(&self, id: TreeId) -> Result<Arc<Tree>> {
        self.trees
            .lock()
            .get(&id)
            .cloned()
            .ok_or(StorageError::DamagedPage {
                page: id.0,
                path: Default::default(),
                what: "no such tree".into(),
            })
    }

    /// Stores a value on overflow pages. Undone with the transaction.
    pub fn put_blob(&self, _txn: &Txn, bytes: &[u8]) -> Result<BlobRef> {
        let first = PageId::new(1, self.next_page.fetch_add(1, Ordering::Relaxed));
        self.blobs.lock().insert(first, Arc::new(bytes.to_vec()));
        Ok(BlobRef {
            first,
            bytes: bytes.len() as u64,
        })
    }

    pub fn get_blob(&self, blob: BlobRef) -> Result<Vec<u8>> {
        Ok(self
            .blobs
            .lock()
            .get(&blob.first)
            .map(|b| b.to_vec())
            .unwrap_or_default())
    }

    /// Part of a blob: at most `len` bytes from `offset`.
    pub fn read_blob(&self, blob: BlobRef, offset: u64, len: usize) -> Result<Vec<u8>> {
        Ok(self
            .get_blob(blob)?
            .into_iter()
            .skip(offset as usize)
            .take(len)
            .collect())
    }

    /// Frees the pages once the transaction has committed and no snapshot can need them.
    pub fn free_blob(&self, _txn: &Txn, _blob: BlobRef) -> Result<()> {
        Ok(())
    }

    /// Waits for and takes a lock; it stays until [`Engine::release_locks`] or [`Database::unlock`].
    pub fn lock(
        &self,
        _owner: &Arc<Owner>,
        _resource: LockResource,
        _mode: LockMode,
    ) -> Result<()> {
        Ok(())
    }

    pub fn unlock(&self, _owner: &Arc<Owner>, _resource: &LockResource, _mode: LockMode) {}

    pub fn checkpoint(&self) -> Result<()> {
        Ok(())
    }

    /// Makes every commit so far durable (`sys.sp_flush_log`).
    pub fn flush_log(&self) -> Result<()> {
        Ok(())
    }

    /// Checkpoints and closes the files. No transaction may be open.
    pub fn close(&self) -> Result<()> {
        Ok(())
    }

    pub fn log_stats(&self) -> LogStats {
        LogStats {
            reuse_wait: "NOTHING",
            ..LogStats::default()
        }
    }

    /// Ids and start positions of transactions that have written and not ended.
    pub fn active_transactions(&self) -> Vec<(TxnId, u64)> {
        Vec::new()
    }
}

struct TxnInner {
    db: Arc<Database>,
    owner: Arc<Owner>,
    id: AtomicU64,
    undo: Mutex<Vec<(Arc<Tree>, Vec<u8>, Option<Vec<u8>>)>>,
    ended: AtomicBool,
}

/// A transaction in one database. Clones are the same transaction.
#[derive(Clone)]
pub struct Txn(Arc<TxnInner>);

impl Txn {
    pub fn database(&self) -> &Arc<Database> {
        &self.0.db
    }

    pub fn owner(&self) -> &Arc<Owner> {
        &self.0.owner
    }

    /// `TxnId::NONE` until the first write.
    pub fn id(&self) -> TxnId {
        TxnId(self.0.id.load(Ordering::Relaxed))
    }

    pub fn has_written(&self) -> bool {
        self.id() != TxnId::NONE
    }

    /// Opens a view of the data. Statement-level isolation levels take a new one per statement; `Snapshot` gives
    /// the same snapshot for the whole transaction. Keep it only as long as it is read.
    pub fn view(&self, isolation: Isolation) -> ReadView {
        ReadView {
            txn: self.clone(),
            isolation,
        }
    }

    /// Ends the transaction; with `Durability::Full` only after its log is on disk.
    pub fn commit(&self, _durability: Durability) -> Result<()> {
        self.0.ended.store(true, Ordering::Relaxed);
        self.0.undo.lock().clear();
        Ok(())
    }

    pub fn rollback(&self) -> Result<()> {
        self.rollback_to(Savepoint {
            lsn: Default::default(),
            position: 0,
        })?;
        self.0.ended.store(true, Ordering::Relaxed);
        Ok(())
    }

    pub fn savepoint(&self) -> Savepoint {
        Savepoint {
            lsn: Default::default(),
            position: self.0.undo.lock().len() as u64,
        }
    }

    /// Takes back everything written since the savepoint. Locks stay.
    pub fn rollback_to(&self, savepoint: Savepoint) -> Result<()> {
        loop {
            let mut undo = self.0.undo.lock();
            if undo.len() as u64 <= savepoint.position {
                return Ok(());
            }
            let Some((tree, key, old)) = undo.pop() else {
                return Ok(());
            };
            match old {
                Some(payload) => tree.map.lock().insert(key, payload),
                None => tree.map.lock().remove(&key),
            };
        }
    }

    fn write(&self, tree: &Arc<Tree>, key: &[u8], old: Option<Vec<u8>>) {
        if !self.has_written() {
            self.0.id.store(
                self.0.db.next_txn.fetch_add(1, Ordering::Relaxed),
                Ordering::Relaxed,
            );
        }
        self.0.undo.lock().push((tree.clone(), key.to_vec(), old));
    }
}

/// What a reader may see.
#[derive(Clone)]
pub struct ReadView {
    txn: Txn,
    isolation: Isolation,
}

impl ReadView {
    pub fn txn(&self) -> &Txn {
        &self.txn
    }

    pub fn isolation(&self) -> Isolation {
        self.isolation
    }
}

/// A B+tree.
pub struct Tree {
    id: TreeId,
    map: Mutex<BTreeMap<Vec<u8>, Vec<u8>>>,
}

impl Tree {
    fn new(id: TreeId) -> Tree {
        Tree {
            id,
            map: Mutex::default(),
        }
    }

    pub fn id(&self) -> TreeId {
        self.id
    }

    /// Entries, without deleted ones; approximate while transactions are open.
    pub fn approximate_count(&self) -> u64 {
        self.map.lock().len() as u64
    }

    /// Pages of the tree, approximately.
    pub fn approximate_pages(&self) -> u64 {
        self.map.lock().len() as u64 / 50 + 1
    }

    pub fn get(&self, _view: &ReadView, key: &[u8]) -> Result<Option<Entry>> {
        Ok(self.map.lock().get(key).map(|p| Entry {
            payload: p.clone(),
            stamp: Stamp::default(),
        }))
    }

    pub fn scan(self: &Arc<Self>, view: &ReadView, spec: ScanSpec) -> Scan {
        Scan {
            tree: self.clone(),
            _view: view.clone(),
            spec,
            last: None,
            done: false,
        }
    }

    /// Fails with `DuplicateKey` when a live entry has the key (after waiting for the transaction that wrote it).
    pub fn insert(self: &Arc<Self>, txn: &Txn, key: &[u8], payload: &[u8]) -> Result<()> {
        if self.map.lock().contains_key(key) {
            return Err(StorageError::DuplicateKey { key: key.to_vec() });
        }
        txn.write(self, key, None);
        self.map.lock().insert(key.to_vec(), payload.to_vec());
        Ok(())
    }

    /// Inserts the entries of `rows` in order; fastest when they come in key order. Stops at the first error:
    /// the caller rolls back to its savepoint.
    pub fn insert_batch(self: &Arc<Self>, txn: &Txn, rows: &Batch) -> Result<()> {
        (0..rows.len()).try_for_each(|i| self.insert(txn, rows.key(i), rows.payload(i)))
    }

    pub fn update(
        self: &Arc<Self>,
        txn: &Txn,
        key: &[u8],
        _stamp: Stamp,
        payload: &[u8],
    ) -> Result<WriteOutcome> {
        let old = self.map.lock().insert(key.to_vec(), payload.to_vec());
        if old.is_none() {
            self.map.lock().remove(key);
            return Ok(WriteOutcome::Gone);
        }
        txn.write(self, key, old);
        Ok(WriteOutcome::Done)
    }

    /// Updates many entries, in key order, page by page. Fills `refused` with the positions that were not `Done`.
    pub fn update_batch(
        self: &Arc<Self>,
        txn: &Txn,
        rows: &UpdateBatch,
        refused: &mut Vec<(usize, WriteOutcome)>,
    ) -> Result<()> {
        for i in 0..rows.len() {
            let outcome =
                self.update(txn, rows.key(i), rows.batch.stamp(i), rows.batch.payload(i))?;
            if outcome != WriteOutcome::Done {
                refused.push((i, outcome));
            }
        }
        Ok(())
    }

    pub fn delete(self: &Arc<Self>, txn: &Txn, key: &[u8], _stamp: Stamp) -> Result<WriteOutcome> {
        let Some(old) = self.map.lock().remove(key) else {
            return Ok(WriteOutcome::Gone);
        };
        txn.write(self, key, Some(old));
        Ok(WriteOutcome::Done)
    }

    /// Deletes many entries, in key order (payloads ignored). Fills `refused` like `update_batch`.
    pub fn delete_batch(
        self: &Arc<Self>,
        txn: &Txn,
        rows: &Batch,
        refused: &mut Vec<(usize, WriteOutcome)>,
    ) -> Result<()> {
        for i in 0..rows.len() {
            let outcome = self.delete(txn, rows.key(i), rows.stamp(i))?;
            if outcome != WriteOutcome::Done {
                refused.push((i, outcome));
            }
        }
        Ok(())
    }
}

/// A running scan. Holds no latch between steps; sees entries inserted or deleted meanwhile as its view allows.
pub struct Scan {
    tree: Arc<Tree>,
    _view: ReadView,
    spec: ScanSpec,
    last: Option<Vec<u8>>,
    done: bool,
}

impl Scan {
    /// Replaces the content of `batch` with the next entries (usually one page). False at the end.
    pub fn next(&mut self, batch: &mut Batch) -> Result<bool> {
        batch.clear();
        if self.done {
            return Ok(false);
        }
        let map = self.tree.map.lock();
        let forward = self.spec.direction == Direction::Forward;
        let fresh = |k: &Vec<u8>| {
            self.last
                .as_ref()
                .is_none_or(|l| if forward { k > l } else { k < l })
        };
        let wanted = map
            .iter()
            .filter(|(k, _)| inside(k, &self.spec) && fresh(k));
        let wanted: Vec<_> = if forward {
            wanted.take(100).collect()
        } else {
            wanted.rev().take(100).collect()
        };
        for (key, payload) in &wanted {
            batch.push(key, payload, Stamp::default());
        }
        self.last = wanted.last().map(|(k, _)| (*k).clone());
        self.done = wanted.len() < 100;
        Ok(!batch.is_empty())
    }
}

fn inside(key: &[u8], spec: &ScanSpec) -> bool {
    let low = match &spec.low {
        Bound::Unbounded => true,
        Bound::Included(b) => key >= b.as_slice(),
        Bound::Excluded(b) => key > b.as_slice(),
        Bound::PrefixIncluded(b) => key >= b.as_slice(),
        Bound::PrefixExcluded(b) => key > b.as_slice() && !key.starts_with(b),
    };
    let high = match &spec.high {
        Bound::Unbounded => true,
        Bound::Included(b) => key <= b.as_slice(),
        Bound::Excluded(b) => key < b.as_slice(),
        Bound::PrefixIncluded(b) => key <= b.as_slice() || key.starts_with(b),
        Bound::PrefixExcluded(b) => key < b.as_slice(),
    };
    low && high
}
