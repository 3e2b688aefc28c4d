//! One database: its files, log, trees, transactions, and what runs over them in the background.

mod background;
mod checkpoint;
mod dead;
mod failures;
mod files;
mod losers;
pub(crate) mod open;
mod scarce;
mod stats;
mod steps;
#[cfg(test)]
mod tests;

pub use files::FileContent;

use crate::alloc::{Allocation, Allocator, Reach};
use crate::api::*;
use crate::buffer::{PageWrite, Pool, Store};
use crate::datafile::{CATALOG_ROOT, PAST_LIMITS_PAGES_MAX};
use crate::engine::Engine;
use crate::error::{Result, StorageError};
use crate::kept::{Kept, KeptMemory};
use crate::lock::{LockKey, LockManager, Owner};
use crate::log::record::{self, Kind, PartsWriter, Space};
use crate::log::{AppendKind, Need};
use crate::page::{Page, PageType};
use crate::pause::pause;
use crate::planted::{Bug, planted};
use crate::revert::{Aborted, AbortedMap};
use crate::status::{After, TxnTable};
use crate::sync::{Condvar, Mutex, RwLock};
use crate::tree::{ShrinkNotes, Tree};
use crate::txn::{Progress, Txn, TxnState};
use crate::unit::Decisions;
use crate::version::VersionStore;
use checkpoint::CheckpointState;
pub(crate) use checkpoint::LOG_BYTES_WANTED;
use daruma_base::{CancelFlag, Clock, DatabaseId, Env, Lsn, PageId, TxnId, reached};
use dead::DeadLeaves;
pub(crate) use failures::Task;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// One frame in so many may wait for versions that are not on pages, in a full pool, before transactions place theirs.
const WAITING_SHARE: usize = 8;
/// A transaction of which no more pages wait places nothing for that.
const WAITING_PAGES_MIN: usize = 8;

/// One database: its files, log and trees.
pub struct Database {
    me: Weak<Database>,
    id: DatabaseId,
    name: Mutex<String>,
    pub(crate) engine: Arc<Engine>,
    store: Arc<Store>,
    log_spec: Mutex<FileSpec>,
    durable: bool,
    allocator: Allocator,
    txns: TxnTable,
    trees: RwLock<HashMap<TreeId, Arc<Tree>>>,
    active: Mutex<HashMap<TxnId, Arc<Progress>>>,
    aborted: AbortedMap,
    /// Space to free once everyone sees the transaction.
    pending: Mutex<Vec<(After, Space)>>,
    /// Freeing trees excludes reverting, which may be in the middle of one.
    reclaim: RwLock<()>,
    dead: Mutex<DeadLeaves>,
    checkpointing: Mutex<CheckpointState>,
    quiet: Mutex<checkpoint::QuietLog>,
    /// Held from the record of a changed property until the boot page has it.
    changing_property: Mutex<()>,
    engine_needs: EngineNeeds,
    /// Held by who makes room in a log that is nearly full.
    relief: Mutex<()>,
    closed: AtomicBool,
    /// It follows the log of another node: nothing is written here, and nothing cleaned.
    follows: AtomicBool,
    /// Position of the log: see `definitions_position`.
    definitions: AtomicU64,
    /// Classic transactions that have still to be rolled back, newest first, and who holds their locks.
    losers: Mutex<Vec<losers::Waiting>>,
    /// Steps of background work under way, for which closing waits.
    steps: Mutex<usize>,
    step_ended: Condvar,
    undo_at_once_bytes: AtomicU64,
    /// Memory that running statements keep for their rollback.
    kept: Arc<KeptMemory>,
    /// Which leaves may keep room for what is taken back.
    shrink_notes: ShrinkNotes,
    /// Transactions that ended here, and those of them that had written.
    transactions: AtomicU64,
    write_transactions: AtomicU64,
    /// Of transactions over several databases that this one coordinates.
    decisions: Decisions,
    failures: failures::Failures,
}

/// Log that recovery and rollback needed when it was last cut.
type EngineNeeds = Mutex<Vec<Need>>;

/// A step of background work under way (`Database::stay_open`).
pub(crate) struct Step<'a>(&'a Database);

impl Drop for Step<'_> {
    fn drop(&mut self) {
        *self.0.steps.lock() -= 1;
        self.0.step_ended.notify_all();
    }
}

impl Database {
    pub(crate) fn assemble(
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
            durable: !open::is_temporary(id),
            allocator: Allocator::default(),
            txns,
            trees: RwLock::default(),
            active: Mutex::default(),
            aborted: AbortedMap::default(),
            reclaim: RwLock::default(),
            pending: Mutex::default(),
            dead: Mutex::default(),
            checkpointing: Mutex::default(),
            quiet: Mutex::default(),
            changing_property: Mutex::default(),
            engine_needs: Mutex::default(),
            relief: Mutex::default(),
            closed: AtomicBool::new(false),
            follows: AtomicBool::new(false),
            definitions: AtomicU64::new(0),
            losers: Mutex::default(),
            steps: Mutex::default(),
            step_ended: Condvar::default(),
            undo_at_once_bytes: AtomicU64::new(crate::txn::UNDO_AT_ONCE_BYTES),
            kept: Arc::default(),
            shrink_notes: ShrinkNotes::default(),
            transactions: AtomicU64::new(0),
            write_transactions: AtomicU64::new(0),
            decisions: Decisions::default(),
            failures: failures::Failures::default(),
        })
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
    pub(crate) fn shrink_notes(&self) -> &ShrinkNotes {
        &self.shrink_notes
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
    pub(crate) fn relief(&self) -> &Mutex<()> {
        &self.relief
    }
    pub(crate) fn log_bytes_wanted(&self) -> u64 {
        self.engine.log_bytes_wanted
    }
    /// End of the log when the last checkpoint was over.
    pub(crate) fn checkpoint_end(&self) -> Lsn {
        self.checkpointing.lock().end
    }
    /// Where redo would begin after the last checkpoint, if that was not written because it would have let go of nothing.
    pub(crate) fn checkpoint_passed_over(&self) -> Option<Lsn> {
        self.checkpointing.lock().passed_over
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
        self.choose_within_limits(self.store.files.filegroup_of(near_file), count)
    }

    /// As `choose_pages`. A rollback needs a page only where an earlier build let others take what it made free (`tree`, room). It must
    /// not fail for want of one, or the database could not be recovered either, so the file grows past its limits then.
    pub(crate) fn choose_pages_for(
        &self,
        kind: AppendKind,
        near_file: u16,
        count: usize,
    ) -> Result<Allocation<'_>> {
        match kind {
            AppendKind::Completion => {
                let filegroup = self.store.files.filegroup_of(near_file);
                self.choose_past_limits(filegroup, count, u64::MAX)
            }
            _ => self.choose_pages(near_file, count),
        }
    }

    pub(crate) fn choose_within_limits(
        &self,
        filegroup: u16,
        count: usize,
    ) -> Result<Allocation<'_>> {
        self.choose_in_filegroup(filegroup, count, Reach::WithinLimits)
    }

    /// A file grows past its limits where there is no page within, by so many pages and as far as the disk has room. Others do not take
    /// what is behind them, so what is given back there is there for the next one.
    fn choose_past_limits(
        &self,
        filegroup: u16,
        count: usize,
        pages_max: u64,
    ) -> Result<Allocation<'_>> {
        loop {
            match self.choose_in_filegroup(filegroup, count, Reach::PastLimits) {
                Err(StorageError::FilegroupFull { .. }) => {
                    self.store.grow_past_limits(filegroup, pages_max)?;
                }
                chosen => return chosen,
            }
        }
    }

    pub(crate) fn choose_in_filegroup(
        &self,
        filegroup: u16,
        count: usize,
        reach: Reach,
    ) -> Result<Allocation<'_>> {
        self.allocator
            .choose(self.pool(), &self.store, filegroup, count, reach)
    }

    /// Does it follow the log of another node?
    pub fn is_secondary(&self) -> bool {
        self.follows.load(Ordering::Acquire)
    }

    pub(crate) fn set_follows(&self, follows: bool) {
        self.follows.store(follows, Ordering::Release);
    }

    /// Refuses what would add to the log of another node.
    pub(crate) fn check_leads(&self) -> Result<()> {
        match self.is_secondary() {
            true => Err(StorageError::NotOnline { state: "read-only" }),
            false => Ok(()),
        }
    }

    /// The tree with this root is not what it was: whoever asks for it next gets it anew, made by `creator`.
    pub(crate) fn renew_tree(&self, root: PageId, creator: TxnId) {
        let tree = Tree::new(TreeId(root), self.me.clone(), creator);
        self.trees.write().insert(TreeId(root), Arc::new(tree));
    }

    pub(crate) fn forget_tree(&self, root: PageId) {
        self.trees.write().remove(&TreeId(root));
    }

    /// Scans that have left a page of the tree do not rely on where it led to.
    pub(crate) fn note_unlinked(&self, root: PageId) {
        if let Some(tree) = self.trees.read().get(&TreeId(root)) {
            tree.note_unlinked();
        }
    }

    /// Snapshots from `at` on may not read the tree any more; older ones may until its first page is freed.
    pub(crate) fn note_dropped(&self, root: PageId, at: Lsn) {
        if let Ok(tree) = self.tree(TreeId(root)) {
            tree.note_dropped(at);
        }
    }

    /// Nobody may read the tree any more.
    pub(crate) fn note_freed(&self, root: PageId) {
        if let Some(tree) = self.trees.read().get(&TreeId(root)) {
            tree.note_freed();
        }
    }

    /// Where the log was when redo last came to definitions that another node has changed: a snapshot from there on has them.
    pub fn definitions_position(&self) -> Lsn {
        Lsn(self.definitions.load(Ordering::Acquire))
    }

    pub(crate) fn set_definitions_position(&self, to: Lsn) {
        self.definitions.store(to.0, Ordering::Release);
    }

    pub(crate) fn is_online(&self) -> bool {
        !self.store.log.is_fenced() && !self.closed.load(Ordering::Acquire)
    }

    /// While the guard lives the files stay open, and closing waits. `None`: it has begun, or the database is fenced.
    /// Nor does one that follows another have work of its own.
    pub(crate) fn stay_open(&self) -> Option<Step<'_>> {
        let mut steps = self.steps.lock();
        if !self.is_online() || self.is_secondary() {
            return None;
        }
        *steps += 1;
        Some(Step(self))
    }

    /// From here on no step begins; returns when those under way are over. One of them may wait for commit participants that stand
    /// still: then nothing more is to be written here, and the log is closed at once.
    fn end_steps(&self) {
        let log = &self.store.log;
        let mut steps = self.steps.lock();
        while *steps > 0 {
            pause("close.waits");
            self.step_ended
                .wait_for(&mut steps, background::PARTICIPANTS_WAIT);
            if *steps > 0 && log.has_participants() && !log.is_fenced() {
                drop(steps);
                if !log.settles_within(Duration::ZERO).unwrap_or(true) {
                    reached!("close.step.above_quorum");
                    log.close();
                }
                steps = self.steps.lock();
            }
        }
    }

    pub(crate) fn check_writable(&self) -> Result<()> {
        self.check_readable()?;
        self.check_leads()?;
        if self.closed.load(Ordering::Acquire) {
            return Err(StorageError::NotOnline { state: "closed" });
        }
        if self.settings().read_only {
            return Err(StorageError::NotOnline { state: "read-only" });
        }
        Ok(())
    }

    /// Gives a transaction its id. A checkpoint lists it, or was told a next id that is not above it.
    pub(crate) fn enter(&self, owner: u64) -> Arc<Progress> {
        let first = self.store.log.block_start();
        let accelerated = self.durable && self.settings().accelerated_recovery;
        let begun_utc_100ns = self.env().clock.utc_100ns();
        let mut active = self.active.lock();
        let id = self.txns.start();
        let progress = Arc::new(Progress {
            owner,
            begun_utc_100ns,
            kept: Mutex::new(Kept::new(&self.kept)),
            ..Progress::new(id, first, accelerated)
        });
        active.insert(id, progress.clone());
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

    /// Keeps versions from taking too much memory, pages from waiting for versions when frames are scarce, and the log from
    /// having to take more versions at once than a file that cannot grow has room for. The caller holds no latch.
    pub(crate) fn bound_versions(&self, state: &mut TxnState) -> Result<()> {
        let segment = &mut state.versions;
        let frames = self.pool().frame_count();
        let waiting = segment.waiting_pages();
        let is_scarce = segment.is_accelerated
            && self.pool().is_full()
            && (waiting > WAITING_PAGES_MIN || !segment.unplaced.is_empty())
            && (self.pool().is_pressed() || self.has_waiting_pages(frames / WAITING_SHARE));
        // Half of what a request may hold beside pages where a server gives a quarter of its memory to that.
        let memory_max = (frames * crate::page::PAGE_BYTES / 8) as u64;
        let is_large = self.versions().memory_bytes() > memory_max;
        let gives_way = is_large && segment.fills_pages();
        // A checkpoint that makes room in a full log places all of them first.
        let is_owing = segment.is_accelerated
            && !segment.unplaced.is_empty()
            && self.versions().owed_bytes() > self.store.log.versions_max();
        if !is_scarce && !gives_way && !is_owing {
            return Ok(());
        }
        let chunks = if is_scarce || gives_way {
            segment.take_unplaced()
        } else {
            std::mem::take(&mut segment.unplaced)
        };
        if let Err(error) = self.place_chunks(&chunks, AppendKind::System) {
            // What is bounded here stays so when the statement is tried again.
            self.versions().give_back(segment, chunks, waiting);
            return Err(error);
        }
        if is_large {
            chunks.iter().for_each(|c| self.versions().forget_memory(c));
        }
        Ok(())
    }

    /// Do more pages than these wait for versions, of whatever database?
    fn has_waiting_pages(&self, pages: usize) -> bool {
        self.pool().waiting_pages.load(Ordering::Relaxed) > pages
    }

    pub(crate) fn leave(&self, id: TxnId) {
        self.active.lock().remove(&id);
    }

    pub(crate) fn add_pending(&self, after: After, spaces: Vec<Space>) {
        if !spaces.is_empty() {
            self.pending
                .lock()
                .extend(spaces.into_iter().map(|s| (after, s)));
        }
    }

    /// The record that frees the last page of the space is there.
    pub(crate) fn end_pending(&self, space: Space) {
        let mut pending = self.pending.lock();
        if let Some(at) = pending.iter().position(|(_, s)| *s == space) {
            pending.swap_remove(at);
        }
    }

    pub(crate) fn advance_watermark(&self) {
        let base = self.txns.advance();
        let settled = match planted(Bug::DropVersionsEarly) {
            true => u64::MAX,
            false => self.txns.settled(),
        };
        let dropped = self.versions().drop_settled(settled, base);
        self.forget_aside(&dropped);
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

    /// `database_id`, by which locks and waits name it.
    pub fn id(&self) -> DatabaseId {
        self.id
    }

    /// The clock that the server runs by.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.env().clock
    }

    /// The name that messages show.
    pub fn name(&self) -> String {
        self.name.lock().clone()
    }

    /// Changes the name that messages show; nothing is stored here.
    pub fn rename(&self, name: &str) {
        *self.name.lock() = name.to_string();
    }

    /// Offline once closed, suspect once fenced, otherwise online.
    pub fn state(&self) -> DatabaseState {
        if self.closed.load(Ordering::Acquire) {
            DatabaseState::Offline
        } else if self.store.log.is_fenced() {
            DatabaseState::Suspect
        } else {
            DatabaseState::Online
        }
    }

    pub(crate) fn changing_property(&self) -> &Mutex<()> {
        &self.changing_property
    }

    /// False for tempdb.
    pub(crate) fn is_durable(&self) -> bool {
        self.durable
    }

    /// Error when nothing of it may be read any more: its log has failed, or it is closed. What is in memory then may be of
    /// transactions that could not be taken back, or of commits that are not on disk: only recovery can tell.
    pub fn check_readable(&self) -> Result<()> {
        self.store.log.check()
    }

    /// Failure that made a database suspect.
    pub fn failure(&self) -> Option<String> {
        self.store.log.failure()
    }

    /// The settings in the boot page, as they are now.
    pub fn settings(&self) -> Settings {
        self.store.files.boot().settings
    }

    /// Writes the boot page before it returns.
    pub fn set_settings(&self, settings: Settings) -> Result<()> {
        self.check_leads()?;
        self.log_settings(settings, |b| {
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
        self.create_tree_on(txn, || self.choose_within_limits(filegroup, 1))
    }

    /// The same for a tree in the place of one that the transaction has dropped, whose pages are not free before it has ended: where
    /// there is no other page, a file of the filegroup grows past its limits, by 8 MiB at most.
    pub fn create_tree_instead(&self, txn: &Txn, filegroup: u16) -> Result<TreeId> {
        let most = PAST_LIMITS_PAGES_MAX;
        self.create_tree_on(txn, || self.choose_past_limits(filegroup, 1, most))
    }

    fn create_tree_on<'a>(
        &'a self,
        txn: &Txn,
        choose: impl FnOnce() -> Result<Allocation<'a>>,
    ) -> Result<TreeId> {
        let mut state = txn.start_write()?;
        let mut space = choose()?;
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
        let lsn = state.append_owned(self, &body, Space::Tree(id))?;
        let parts_at = record::RECORD_HEADER_BYTES + record::SPACE_BYTES;
        self.apply_parts(&body[parts_at..], lsn, &mut [&mut space.bitmap, &mut page]);
        let tree = Tree::new(TreeId(id), self.me.clone(), state.id());
        // In the place of another tree that the page may have belonged to in an earlier life.
        self.trees.write().insert(TreeId(id), Arc::new(tree));
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
        // None behind the record may miss what is deferred.
        let _no_checkpoint = self.no_checkpoint();
        state.append(self, &body)?;
        pause("defer.logged");
        state.defer(space);
        Ok(())
    }

    /// The tree with this root. Whether there is one shows at the first access.
    pub fn tree(&self, id: TreeId) -> Result<Arc<Tree>> {
        if let Some(tree) = self.trees.read().get(&id) {
            return Ok(tree.clone());
        }
        let mut trees = self.trees.write();
        Ok(trees
            .entry(id)
            .or_insert_with(|| Arc::new(Tree::new(id, self.me.clone(), TxnId::NONE)))
            .clone())
    }

    /// Stores a value on overflow pages. Undone with the transaction.
    pub fn put_blob(&self, txn: &Txn, bytes: &[u8]) -> Result<BlobRef> {
        crate::blob::put(self, txn, 1, bytes)
    }

    /// A whole value that lies outside of its row.
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

    /// Releases a lock before the transaction ends. One that was taken several times goes with the last release.
    pub fn unlock(&self, owner: &Arc<Owner>, resource: &LockResource, mode: LockMode) {
        self.locks()
            .release(owner, &LockKey::Resource(self.id, resource.clone()), mode);
    }

    /// An owner for one short transaction that belongs to no session: its id is nobody else's. [`Database::release_locks`] ends it.
    pub fn passing_owner(&self, cancel: CancelFlag) -> Arc<Owner> {
        self.locks().passing_owner(cancel)
    }

    /// Releases every lock of `owner`, as [`Engine::release_locks`] does.
    pub fn release_locks(&self, owner: &Owner) {
        self.locks().release_all(owner);
    }

    pub(crate) fn active_progress(&self) -> Vec<Arc<Progress>> {
        self.active.lock().values().cloned().collect()
    }

    // --- public: log -------------------------------------------------------------------------------------------

    /// Makes every commit so far durable (`sys.sp_flush_log`).
    pub fn flush_log(&self) -> Result<()> {
        self.store.log.harden_all()
    }

    /// Is the record at `lsn` hard, here and on every commit participant?
    pub fn is_hard(&self, lsn: Lsn) -> bool {
        self.store.log.is_hard(lsn)
    }

    /// Hardens the log up to and including the record at `lsn` here, and waits for a while for the commit participants to have it
    /// too. False when they take longer.
    pub fn harden_within(&self, lsn: Lsn, limit: Duration) -> Result<bool> {
        self.store.log.harden_within(lsn, limit)
    }

    /// Log writer's step: makes delayed commits durable that are due; how long until the next ones are.
    pub fn flush_due(&self) -> Result<Option<Duration>> {
        self.store.log.flush_due()
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
        let chunks = self.versions().chunks_with_dropped();
        let pages = chunks.iter().map(|c| c.content.read().pages.clone());
        pages.flatten().collect()
    }

    /// Accelerated transactions that wrote at most so many bytes of log are undone at once when they roll back; larger
    /// ones are marked and reverted in the background.
    pub fn set_undo_at_once_bytes(&self, bytes: u64) {
        self.undo_at_once_bytes.store(bytes, Ordering::Relaxed);
    }
}
