//! Transactions and the views they read through.
//!
//! Theory: a transaction has no id and costs nothing until its first write. Its records are chained backwards in the
//! log; rollback, to a savepoint or to the start, walks that chain (`undo`). Commit appends one record, whose position is its
//! place among all commits, and waits for it to be hard; then it is visible, in one step.
//!
//! Under accelerated recovery a transaction does not keep the log: rollback of more than [`UNDO_AT_ONCE_BYTES`] is one
//! record and an entry among the aborted transactions (`revert`), whatever its size. Less than that is undone at once,
//! if the log is still there and the pages can be read. What a savepoint of a statement needs is kept in memory (`kept`) for
//! as long as the caller holds it; a statement that writes more goes on under another id. Behind a lasting savepoint (SAVE
//! TRANSACTION) the next write takes another id at once. Rolling back to either marks the ids behind it as aborted.
//!
//! Invariant: undo from the log meets each entry as its own id left it. A later id of the same transaction that was
//! rolled back by a mark leaves its changes above: an id below it ends by a mark as well, and undo to a savepoint below it
//! reverts the leaves it comes to first.

use crate::api::{Durability, Isolation, LockMode, Savepoint, Stamp, TreeId};
use crate::database::{Database, Task};
use crate::error::{Result, StorageError};
use crate::kept::{Kept, SavepointHold};
use crate::lock::{LockKey, Owner};
use crate::log::record::{self, Abort, Fact, Kind, Space};
use crate::log::{AppendKind, END_BYTES, Log, commit};
use crate::planted::{Bug, planted};
use crate::status::{After, Snapshot, TxnStatus};
use crate::sync::{Mutex, MutexGuard, RwLock};
use crate::unit::{Decision, Unit};
use crate::version::Segment;
use crate::work::Work;
use daruma_base::{Lsn, PageId, TxnId, reached};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// An accelerated transaction that wrote no more log than this is undone at once rather than later, if the database is
/// not told otherwise.
pub const UNDO_AT_ONCE_BYTES: u64 = 64 << 10;

/// With more ids than this a transaction takes none for savepoints any more: they keep the log instead. A commit record
/// names them all.
const IDS_MAX: usize = 4_000;
/// The same for statements.
const IDS_MAX_STATEMENTS: usize = 6_000;

/// Descriptor of a transaction, as checkpoints need it.
pub struct Progress {
    pub id: TxnId,
    /// At or before its first record.
    pub first: Lsn,
    pub last: AtomicU64,
    /// Its first record, 0 before: it may have waited for locks long before that.
    pub wrote_from: AtomicU64,
    pub is_accelerated: bool,
    /// Session that runs it, 0 for one that a restart found; and since when, 0 when that is not known.
    pub owner: u64,
    pub begun_utc_100ns: i64,
    /// Rolled back as a part of a transaction that went on.
    pub is_nested: AtomicBool,
    /// Trees and blobs to free once committed.
    pub defers: Mutex<Vec<Space>>,
    /// Its commit record is in the log: a checkpoint from then on must not call it active.
    pub committed: AtomicBool,
    /// The record is in the log that says that it is rolled back completely: no checkpoint tells of it from then on.
    pub rolled_back: AtomicBool,
    /// Trees and blobs to free once rolled back. Empty in classic mode: there the log says it.
    pub owned: Mutex<Vec<Space>>,
    /// Where to look for what it wrote. Empty in classic mode.
    pub work: Mutex<Work>,
    /// Log positions that undo needs.
    pub holds: Mutex<Vec<Lsn>>,
    /// Records of the running statement.
    pub kept: Mutex<Kept>,
    /// Set before its prepare record is appended: from then on a coordinator may decide for it.
    pub prepared: Mutex<Option<Unit>>,
}

impl Progress {
    /// A transaction that has begun with the record at `first`.
    pub fn new(id: TxnId, first: Lsn, is_accelerated: bool) -> Progress {
        Progress {
            id,
            first,
            last: AtomicU64::new(0),
            wrote_from: AtomicU64::new(0),
            is_accelerated,
            owner: 0,
            begun_utc_100ns: 0,
            is_nested: AtomicBool::new(false),
            defers: Mutex::default(),
            committed: AtomicBool::new(false),
            rolled_back: AtomicBool::new(false),
            owned: Mutex::default(),
            work: Mutex::default(),
            holds: Mutex::default(),
            kept: Mutex::default(),
            prepared: Mutex::default(),
        }
    }

    /// Facts that a checkpoint records of it.
    pub fn facts(&self, aborted: bool, facts: &mut Vec<Fact>) {
        if self.rolled_back.load(Ordering::Acquire) {
            return;
        }
        let id = self.id;
        let defers = self.defers.lock();
        if self.committed.load(Ordering::Acquire) {
            // Its commit record may lie before the position where recovery will begin to read.
            facts.extend(defers.iter().map(|s| Fact::Pending(*s)));
            return;
        }
        facts.push(Fact::Txn {
            id,
            first: self.first,
            last: Lsn(self.last.load(Ordering::Acquire)),
            accelerated: self.is_accelerated,
            aborted,
            abort: self.abort(),
        });
        let prepared = *self.prepared.lock();
        facts.extend(prepared.map(|unit| Fact::Prepared { id, unit }));
        facts.extend(defers.iter().map(|s| Fact::Defer { id, space: *s }));
        let owned = self.owned.lock();
        facts.extend(owned.iter().map(|s| Fact::Owned { id, space: *s }));
        for (tree, work) in &self.work.lock().trees {
            facts.extend(work.ranges.iter().map(|r| Fact::Work {
                id,
                tree: tree.0,
                low: r.low.clone(),
                high: r.high.clone(),
            }));
        }
    }

    /// Body of an `Abort` record about it.
    fn abort(&self) -> Abort {
        Abort {
            begun_utc_100ns: self.begun_utc_100ns,
            is_nested: self.is_nested.load(Ordering::Relaxed),
        }
    }

    /// Is there a savepoint to which it would be undone record by record?
    fn may_be_undone(&self) -> bool {
        self.kept.lock().is_needed() || !self.holds.lock().is_empty()
    }

    /// Oldest log position that the transaction needs.
    pub fn log_needed(&self) -> Option<Lsn> {
        if self.is_accelerated {
            self.holds.lock().iter().min().copied()
        } else {
            Some(self.first)
        }
    }
}

/// State that only the transaction's own thread changes.
#[derive(Default)]
pub struct TxnState {
    id: TxnId,
    last: Lsn,
    progress: Option<Arc<Progress>>,
    /// Log space reserved for the rollback and the end.
    undo_bytes: u64,
    /// Log written under the present id, and how much of it the owner was told of.
    log_bytes: u64,
    told_bytes: u64,
    pub versions: Segment,
    /// Record under construction, kept to save allocations.
    pub scratch: Vec<u8>,
    ended: bool,
    /// A lasting savepoint lies here: the next write takes a new id.
    is_sealed: bool,
    /// A later id of the transaction was rolled back by a mark.
    was_marked: bool,
    /// Ids of the transaction before lasting savepoints, oldest first.
    earlier: Vec<TxnState>,
}

impl TxnState {
    /// A transaction that a crash left behind, for its rollback.
    pub fn loser(id: TxnId, last: Lsn, progress: Option<Arc<Progress>>) -> TxnState {
        TxnState {
            id,
            last,
            progress,
            ..TxnState::default()
        }
    }

    /// Its id, [`TxnId::NONE`] before the first write.
    pub fn id(&self) -> TxnId {
        self.id
    }

    /// Every id of the transaction, the present one last.
    fn all(&self) -> impl Iterator<Item = &TxnState> {
        self.earlier.iter().chain([self])
    }

    /// Is a record in the log that commits it?
    fn has_commit_record(&self) -> bool {
        let progress = self.progress.as_ref();
        progress.is_some_and(|p| p.committed.load(Ordering::Acquire))
    }

    /// Position of its last record.
    pub fn last(&self) -> Lsn {
        self.last
    }

    /// Did it begin to write under accelerated recovery? It stays so to its end.
    pub fn is_accelerated(&self) -> bool {
        self.progress.as_ref().is_some_and(|p| p.is_accelerated)
    }

    /// Begins a record of this transaction, behind its last one.
    pub fn start_record(&self, out: &mut Vec<u8>, kind: Kind) {
        record::start(out, kind, self.id, self.last);
        if self.is_accelerated() {
            record::mark_accelerated(out);
        }
    }

    /// Remembers where the transaction wrote, for the reverter.
    pub fn note_work(&self, tree: TreeId, leaf: PageId, low: &[u8], high: &[u8], live: i64) {
        if let Some(progress) = self.progress.as_ref().filter(|p| p.is_accelerated) {
            progress
                .work
                .lock()
                .note(tree, leaf.to_u64(), low, high, live);
        }
    }

    /// Appends the record by which the transaction comes to own a space. Its pages are latched: a checkpoint that misses the
    /// space begins before the record.
    pub fn append_owned(&mut self, db: &Database, record: &[u8], space: Space) -> Result<Lsn> {
        let lsn = self.append(db, record)?;
        self.own(space);
        Ok(lsn)
    }

    /// Remembers what to free once rolled back.
    fn own(&self, space: Space) {
        if let Some(progress) = self.progress.as_ref().filter(|p| p.is_accelerated) {
            progress.owned.lock().push(space);
            if let Space::Tree(root) = space {
                progress.work.lock().own(TreeId(root));
            }
        }
    }

    /// The space was given back by an undo already. A tree that others make there is theirs.
    pub fn disown(&self, space: Space) {
        if let Some(progress) = &self.progress {
            let mut owned = progress.owned.lock();
            if let Some(at) = owned.iter().rposition(|s| *s == space) {
                owned.remove(at);
            }
            if let Space::Tree(root) = space {
                progress.work.lock().trees.remove(&TreeId(root));
            }
        }
    }

    /// Remembers what to free once committed.
    pub fn defer(&mut self, space: Space) {
        if let Some(progress) = &self.progress {
            progress.defers.lock().push(space);
        }
    }

    /// Forgets it again: the statement that wanted it was rolled back.
    pub fn forget_defer(&mut self, space: Space) {
        if let Some(progress) = &self.progress {
            let mut defers = progress.defers.lock();
            if let Some(at) = defers.iter().rposition(|s| *s == space) {
                defers.remove(at);
            }
        }
    }

    /// Hands what is to be freed to the database. A checkpoint finds it at every moment in one place or the other.
    fn hand_over_defers(&self, db: &Database) {
        if let Some(progress) = &self.progress {
            let defers = progress.defers.lock().clone();
            db.add_pending(After::Commit(self.id), defers);
            progress.defers.lock().clear();
        }
    }

    /// Appends a record of this transaction that can be undone. An accelerated transaction reserves log for that only
    /// as far as it may be undone from the log.
    pub fn append(&mut self, db: &Database, record: &[u8]) -> Result<Lsn> {
        let reserves = match &self.progress {
            Some(p) if p.is_accelerated => {
                self.log_bytes <= db.undo_at_once_bytes() || p.may_be_undone()
            }
            _ => true,
        };
        if !reserves {
            return self.append_as(db, record, AppendKind::System);
        }
        let is_first = self.undo_bytes == 0 && self.earlier.is_empty();
        let kind = match is_first {
            true => AppendKind::First,
            false => AppendKind::Forward,
        };
        let lsn = self.append_as(db, record, kind)?;
        self.undo_bytes += kind.reserves(record.len());
        Ok(lsn)
    }

    /// Gives back what was reserved for statements that are over, all but what a small transaction may need.
    fn release_reserve(&mut self, db: &Database) {
        let Some(progress) = self.progress.as_ref().filter(|p| p.is_accelerated) else {
            return;
        };
        let keep = 4 * db.undo_at_once_bytes() + END_BYTES;
        if self.undo_bytes > keep && !progress.may_be_undone() {
            db.store().log.release_undo(self.undo_bytes - keep);
            self.undo_bytes = keep;
        }
    }

    /// A record of the running statement, if it is kept in memory.
    pub fn kept(&self, lsn: Lsn) -> Option<Vec<u8>> {
        self.progress.as_ref()?.kept.lock().find(lsn)
    }

    /// Has the running statement written more than is kept in memory for its rollback?
    fn is_statement_large(&self, db: &Database) -> bool {
        let pool_bytes = (db.pool().frame_count() * crate::page::PAGE_BYTES) as u64;
        self.earlier.len() <= IDS_MAX_STATEMENTS
            && self
                .progress
                .as_ref()
                .is_some_and(|p| p.is_accelerated && p.kept.lock().is_full(pool_bytes))
    }

    /// Between two statements' records rather than at each: what a deadlock costs is an estimate.
    fn tell_log_bytes(&mut self, db: &Database, owner: &Owner) {
        let more = self.log_bytes - self.told_bytes;
        if more > 0 {
            owner.log_bytes.fetch_add(more, Ordering::Relaxed);
            self.told_bytes = self.log_bytes;
            db.note_ahead(owner, more);
        }
    }

    /// Appends a record of this transaction.
    pub fn append_as(&mut self, db: &Database, record: &[u8], kind: AppendKind) -> Result<Lsn> {
        let lsn = db.store().log.append(record, kind)?;
        self.note_appended(lsn, record);
        Ok(lsn)
    }

    /// Logs that everything was taken back.
    pub fn append_end(&mut self, db: &Database) -> Result<()> {
        let mut body = std::mem::take(&mut self.scratch);
        self.start_record(&mut body, Kind::End);
        record::finish(&mut body);
        // Under the latch of the log: a checkpoint that begins behind the record finds it said.
        let appended = || {
            if let Some(progress) = &self.progress {
                progress.rolled_back.store(true, Ordering::Release);
            }
        };
        let log = &db.store().log;
        let result = log.append_then(&body, AppendKind::Completion, appended);
        if let Ok(lsn) = &result {
            self.note_appended(*lsn, &body);
        }
        self.scratch = body;
        result.map(|_| ())
    }

    fn note_appended(&mut self, lsn: Lsn, record: &[u8]) {
        self.last = lsn;
        self.log_bytes += record.len() as u64;
        if let Some(progress) = &self.progress {
            if progress.last.swap(lsn.0, Ordering::AcqRel) == 0 {
                progress.wrote_from.store(lsn.0, Ordering::Release);
            }
            if progress.is_accelerated {
                progress.kept.lock().note(lsn, record);
            }
        }
    }
}

pub(crate) struct TxnInner {
    db: Arc<Database>,
    owner: Arc<Owner>,
    id: AtomicU64,
    state: Mutex<TxnState>,
    /// Ids in `TxnState::earlier`, ascending, for readers.
    earlier: RwLock<Vec<TxnId>>,
    has_earlier: AtomicBool,
    /// Snapshot of the whole transaction (SNAPSHOT isolation).
    snapshot: Mutex<Option<Arc<HeldSnapshot>>>,
}

/// A transaction in one database. Clones are the same transaction. Dropping it without `commit` rolls it back.
#[derive(Clone)]
pub struct Txn(Arc<TxnInner>);

impl Drop for TxnInner {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        if state.ended || state.id == TxnId::NONE {
            return;
        }
        // Nobody is there to be told. Either the database is fenced, and the error log says why; or all is taken back and only
        // the record that says so found no room, which recovery does without. Where the log could not grow the failure is told
        // in place of the lack of room.
        if let Err(error) = roll_back_all(&self.db, &self.owner, state) {
            let is_over = matches!(
                error,
                StorageError::LogFull { .. } | StorageError::Io { .. }
            );
            debug_assert!(is_over || self.db.check_readable().is_err(), "{error}");
        }
    }
}

impl Txn {
    pub(crate) fn new(db: &Arc<Database>, owner: &Arc<Owner>) -> Txn {
        Txn(Arc::new(TxnInner {
            db: db.clone(),
            owner: owner.clone(),
            id: AtomicU64::new(0),
            state: Mutex::default(),
            earlier: RwLock::default(),
            has_earlier: AtomicBool::new(false),
            snapshot: Mutex::default(),
        }))
    }

    /// The database that it is in; a transaction over several has one part in each.
    pub fn database(&self) -> &Arc<Database> {
        &self.0.db
    }

    /// The session that its locks belong to.
    pub fn owner(&self) -> &Arc<Owner> {
        &self.0.owner
    }

    /// `TxnId::NONE` until the first write.
    pub fn id(&self) -> TxnId {
        TxnId(self.0.id.load(Ordering::Relaxed))
    }

    /// Did this transaction, under whichever of its ids, write the entry?
    pub(crate) fn owns(&self, writer: TxnId) -> bool {
        writer == self.id()
            || (self.0.has_earlier.load(Ordering::Relaxed)
                && self.0.earlier.read().binary_search(&writer).is_ok())
    }

    /// Has it an id, so that its end needs a record?
    pub fn has_written(&self) -> bool {
        self.id() != TxnId::NONE
    }

    /// Does it read one snapshot for its whole life?
    pub(crate) fn is_snapshot(&self) -> bool {
        self.0.snapshot.lock().is_some()
    }

    /// Opens a view of the data. Statement-level isolation levels take a new one per statement; `Snapshot` gives
    /// the same snapshot for the whole transaction. Keep it only as long as it is read.
    pub fn view(&self, isolation: Isolation) -> ReadView {
        let isolation = match isolation {
            // Nobody there holds the locks of those who write: what is to stay as it was read is read from one snapshot.
            Isolation::RepeatableRead | Isolation::Serializable if self.0.db.is_secondary() => {
                Isolation::Snapshot
            }
            isolation if self.0.db.is_secondary() && isolation != Isolation::Snapshot => {
                Isolation::ReadCommittedSnapshot
            }
            isolation => isolation,
        };
        let snapshot = match isolation {
            Isolation::ReadCommittedSnapshot => Some(Arc::new(HeldSnapshot::of(self))),
            Isolation::Snapshot => {
                let mut held = self.0.snapshot.lock();
                Some(
                    held.get_or_insert_with(|| Arc::new(HeldSnapshot::of(self)))
                        .clone(),
                )
            }
            _ => None,
        };
        let horizon = snapshot
            .as_ref()
            .map_or_else(|| self.0.db.txns().base(), |s| s.snapshot.horizon);
        ReadView {
            txn: self.clone(),
            isolation,
            snapshot,
            horizon,
            lock_mode: LockMode::Shared,
        }
    }

    /// A view that locks every row it reads in `mode` until the transaction ends: UPDLOCK, XLOCK hints and the
    /// parents of foreign keys.
    pub fn locking_view(&self, mode: LockMode) -> ReadView {
        ReadView {
            lock_mode: mode,
            ..self.view(Isolation::RepeatableRead)
        }
    }

    /// Begins or continues writing: gives the transaction its id and its place among the active ones.
    pub(crate) fn start_write(&self) -> Result<MutexGuard<'_, TxnState>> {
        let db = &self.0.db;
        db.relieve_log();
        let mut state = self.0.state.lock();
        state.tell_log_bytes(db, &self.0.owner);
        if state.is_sealed || state.is_statement_large(db) {
            self.put_aside(&mut state);
        }
        if state.id == TxnId::NONE {
            db.check_writable()?;
            let progress = db.enter(self.0.owner.id);
            state.id = progress.id;
            self.0.id.store(state.id.0, Ordering::Relaxed);
            let key = LockKey::Txn(db.id(), state.id);
            let locked = db.locks().acquire(&self.0.owner, &key, LockMode::Exclusive);
            if let Err(error) = locked {
                // Nobody knows the id: it never was.
                db.txns().gone(state.id);
                db.leave(state.id);
                state.id = TxnId::NONE;
                self.0.id.store(0, Ordering::Relaxed);
                return Err(error);
            }
            let waiting = &db.pool().waiting_pages;
            let has_earlier = !state.earlier.is_empty();
            state.versions = Segment::new(progress.is_accelerated, has_earlier, waiting);
            state.progress = Some(progress);
        }
        assert!(!state.ended, "a write in a transaction that has ended");
        Ok(state)
    }

    /// Writes from now on can be rolled back on their own: the present id joins the earlier ones.
    fn put_aside(&self, state: &mut TxnState) {
        let earlier = std::mem::take(&mut state.earlier);
        let next = TxnState {
            scratch: std::mem::take(&mut state.scratch),
            was_marked: state.was_marked,
            ..TxnState::default()
        };
        let old = std::mem::replace(state, next);
        state.earlier = earlier;
        state.earlier.push(old);
        self.publish_ids(state);
    }

    /// The latest of the earlier ids becomes the present one again, behind its savepoint.
    fn take_back(&self, state: &mut TxnState) {
        let mut earlier = std::mem::take(&mut state.earlier);
        let was_marked = state.was_marked;
        *state = earlier.pop().unwrap_or_default();
        state.was_marked |= was_marked && state.id != TxnId::NONE;
        state.earlier = earlier;
        self.publish_ids(state);
    }

    fn publish_ids(&self, state: &TxnState) {
        let ids: Vec<TxnId> = state.earlier.iter().map(|s| s.id).collect();
        self.0.has_earlier.store(!ids.is_empty(), Ordering::Relaxed);
        *self.0.earlier.write() = ids;
        self.0.id.store(state.id.0, Ordering::Relaxed);
    }

    /// Ends the transaction; with `Durability::Full` only after its log is on disk. When that fails the database is
    /// fenced and the outcome is known only after its recovery.
    pub fn commit(&self, durability: Durability) -> Result<()> {
        self.commit_as(durability).map(|_| ())
    }

    fn commit_as(&self, durability: Durability) -> Result<Lsn> {
        let append = |log: &Log, body: &[u8], now, appended: &dyn Fn(Lsn)| {
            log.commit(body, now, durability, appended)
        };
        self.commit_by(None, durability == Durability::Full, append)
    }

    /// As `commit` with `Durability::Delayed`; gives the position of its record, for [`Database::harden_within`].
    pub fn commit_delayed(&self) -> Result<Lsn> {
        self.commit_as(Durability::Delayed)
    }

    /// As `commit`, durably, with a record that decides for other databases.
    pub(crate) fn commit_deciding(&self, decision: &Decision) -> Result<Lsn> {
        let append = |log: &Log, body: &[u8], now, appended: &dyn Fn(Lsn)| {
            log.commit(body, now, Durability::Full, appended)
        };
        self.commit_by(Some(decision), true, append)
    }

    /// As `commit` of a prepared transaction, whose coordinator has decided: nobody has to wait for the disk.
    pub(crate) fn commit_decided(&self) -> Result<Lsn> {
        let append = |log: &Log, body: &[u8], now, appended: &dyn Fn(Lsn)| {
            log.append_commit(body, now, Durability::Delayed, appended)
        };
        self.commit_by(None, false, append)
    }

    /// Leaves it to the coordinator of `unit` how the transaction ends, once the record is hard. Nothing may be written
    /// after it.
    pub(crate) fn prepare(&self, unit: &Unit) -> Result<Lsn> {
        let db = &self.0.db;
        let mut state = self.0.state.lock();
        assert!(!state.ended, "prepare of a transaction that has ended");
        for progress in state.all().filter_map(|s| s.progress.as_ref()) {
            *progress.prepared.lock() = Some(*unit);
        }
        let mut body = std::mem::take(&mut state.scratch);
        state.start_record(&mut body, Kind::Prepare);
        let now = db.env().clock.utc_100ns();
        commit::write_prepare(&mut body, now, unit, state.earlier.iter().map(|s| s.id));
        record::finish(&mut body);
        // It ends nothing: what is reserved for the end is for the record that does. Without room for both it is rolled back.
        state.append_as(db, &body, AppendKind::System)
    }

    /// As `commit` with `Durability::Full`, up to the wait for the disk, which is left to the caller: nothing of it may
    /// be told to anybody before. `None`: there is nothing to wait for.
    pub fn commit_unhard(&self) -> Result<Option<UnhardCommit>> {
        let start = self.0.db.env().clock.monotonic();
        let mut state = self.0.state.lock();
        let append = |log: &Log, body: &[u8], now, appended: &dyn Fn(Lsn)| {
            log.append_commit(body, now, Durability::Full, appended)
        };
        let lsn = self.append_commit(&mut state, None, true, append)?;
        Ok(lsn.map(|lsn| UnhardCommit {
            txn: self.clone(),
            lsn,
            start,
            is_over: false,
        }))
    }

    fn commit_by(
        &self,
        decision: Option<&Decision>,
        is_hard: bool,
        append: impl FnOnce(&Log, &[u8], i64, &dyn Fn(Lsn)) -> Result<Lsn>,
    ) -> Result<Lsn> {
        let mut state = self.0.state.lock();
        let Some(lsn) = self.append_commit(&mut state, decision, is_hard, append)? else {
            return Ok(Lsn::NONE);
        };
        self.end_committed(&mut state, lsn, is_hard);
        Ok(lsn)
    }

    /// Appends the commit record of a transaction that has written something. `awaited`: its end waits until it is hard.
    fn append_commit(
        &self,
        state: &mut TxnState,
        decision: Option<&Decision>,
        awaited: bool,
        append: impl FnOnce(&Log, &[u8], i64, &dyn Fn(Lsn)) -> Result<Lsn>,
    ) -> Result<Option<Lsn>> {
        let db = &self.0.db;
        *self.0.snapshot.lock() = None;
        if state.ended || state.id == TxnId::NONE {
            if !std::mem::replace(&mut state.ended, true) {
                db.count_transaction(false);
            }
            return Ok(None);
        }
        let mut body = std::mem::take(&mut state.scratch);
        state.start_record(&mut body, Kind::Commit);
        let now = db.env().clock.utc_100ns();
        if decision.is_some() {
            record::mark_deciding(&mut body);
        }
        commit::write_commit(&mut body, now, decision, state.earlier.iter().map(|s| s.id));
        record::finish(&mut body);
        let appended = |lsn| {
            for progress in state.all().filter_map(|s| s.progress.as_ref()) {
                progress.committed.store(true, Ordering::Release);
            }
            if state.all().any(|s| s.versions.guards_pages()) {
                // The record may be in memory only when somebody takes the transaction for resolved.
                db.versions().release(lsn);
            }
            let awaited = awaited && db.is_durable();
            db.txns().committed(state.all().map(|s| s.id), lsn, awaited);
            if let Some(decision) = decision {
                db.decisions().decide(decision);
            }
        };
        append(&db.store().log, &body, now, &appended).map(Some)
    }

    /// The commit record at `lsn` is as hard as it has to be, and the transaction visible: others go on.
    fn end_committed(&self, state: &mut TxnState, lsn: Lsn, is_hard: bool) {
        let db = &self.0.db;
        assert!(
            !is_hard || db.store().log.is_hard(lsn),
            "a commit at {lsn} is told before it is on disk"
        );
        state.all().for_each(|s| s.hand_over_defers(db));
        match is_hard {
            true => db.forget_ahead(&self.0.owner),
            false => {
                state.tell_log_bytes(db, &self.0.owner);
                db.txns().look_ahead(self.0.owner.id, lsn);
            }
        }
        state.last = lsn;
        db.count_transaction(true);
        for mut earlier in std::mem::take(&mut state.earlier) {
            leave_committed(db, &self.0.owner, &mut earlier, lsn);
        }
        leave_committed(db, &self.0.owner, state, lsn);
        db.advance_watermark();
    }

    /// Takes back everything: by one record under accelerated recovery, by undoing each record otherwise. Twice does
    /// nothing. An error means that its log is lost; the database is fenced then.
    pub fn rollback(&self) -> Result<()> {
        let mut state = self.0.state.lock();
        *self.0.snapshot.lock() = None;
        if state.ended || state.id == TxnId::NONE {
            state.ended = true;
            return Ok(());
        }
        roll_back_all(&self.0.db, &self.0.owner, &mut state)
    }

    /// A point to roll back to, soon. Under accelerated recovery what follows is kept in memory: drop it when it is over.
    pub fn savepoint(&self) -> Savepoint {
        let mut state = self.0.state.lock();
        let (id, lsn) = (state.id, state.last);
        if lsn.is_none() || state.ended || state.is_sealed {
            return Savepoint {
                id,
                lsn,
                _hold: None,
            };
        }
        state.release_reserve(&self.0.db);
        let progress = state.progress.as_ref().filter(|p| p.is_accelerated);
        let hold = |p| match state.earlier.len() < IDS_MAX_STATEMENTS {
            true => SavepointHold::in_memory(p),
            false => SavepointHold::in_log(p, lsn),
        };
        let _hold = progress.map(|p| Arc::new(hold(p)));
        Savepoint { id, lsn, _hold }
    }

    /// A point to roll back to for as long as the transaction lives (SAVE TRANSACTION). Under accelerated recovery it
    /// keeps no log, and rolling back to it is a mark.
    pub fn lasting_savepoint(&self) -> Savepoint {
        {
            let mut state = self.0.state.lock();
            let may = state.is_accelerated() && state.earlier.len() < IDS_MAX;
            if may && !state.ended && !state.last.is_none() {
                state.is_sealed = true;
            }
        }
        self.savepoint()
    }

    /// Takes back everything written since the savepoint. Locks stay.
    pub fn rollback_to(&self, savepoint: Savepoint) -> Result<()> {
        let mut state = self.0.state.lock();
        if state.ended {
            return Ok(());
        }
        let db = &self.0.db;
        while state.id > savepoint.id {
            let mut last = std::mem::take(&mut *state);
            state.earlier = std::mem::take(&mut last.earlier);
            if let Some(progress) = &last.progress {
                progress.is_nested.store(true, Ordering::Relaxed);
            }
            let result = roll_back_one(db, &self.0.owner, &mut last);
            state.was_marked = last.was_marked;
            self.take_back(&mut state);
            result?;
        }
        if state.id != savepoint.id || state.last <= savepoint.lsn {
            return Ok(());
        }
        crate::undo::roll_back(db, &mut state, savepoint.lsn)
    }
}

/// A transaction whose commit record is in the log and not known to be on disk: nobody sees it yet, and its locks stay. To
/// be ended by [`UnhardCommit::wait`] or [`UnhardCommit::when_hard`].
/// Dropped, it waits.
#[must_use]
pub struct UnhardCommit {
    txn: Txn,
    lsn: Lsn,
    /// Monotonic clock at the commit.
    start: Duration,
    is_over: bool,
}

impl UnhardCommit {
    /// Ends the transaction when its record is on disk. An error means what it means for [`Txn::commit`].
    pub fn wait(mut self) -> Result<()> {
        self.wait_here()
    }

    /// The same without waiting, where others commit as well: then `then` runs on the thread of one of them. It must not wait
    /// for anybody who commits. The wait counts for the server, and for no thread: [`UnhardCommit::start`] tells the caller.
    pub fn when_hard(mut self, then: impl FnOnce(Result<()>) + Send + 'static) {
        let (db, lsn) = (self.txn.0.db.clone(), self.lsn);
        let log = &db.store().log;
        log.when_hard(lsn, move |result| {
            let log = &self.txn.0.db.store().log;
            log.count_commit_wait_of_another(self.start);
            then(self.end(result));
        });
    }

    /// When it began to wait, by the monotonic clock.
    pub fn start(&self) -> Duration {
        self.start
    }

    fn wait_here(&mut self) -> Result<()> {
        let log = &self.txn.0.db.store().log;
        let result = log.wait_for_commit(self.lsn);
        log.count_commit_wait(self.start);
        self.end(result)
    }

    fn end(&mut self, result: Result<()>) -> Result<()> {
        self.is_over = true;
        result?;
        let mut state = self.txn.0.state.lock();
        self.txn.end_committed(&mut state, self.lsn, true);
        Ok(())
    }
}

impl Drop for UnhardCommit {
    fn drop(&mut self) {
        if !self.is_over {
            // The caller has dropped the only way to learn the outcome.
            let _ = self.wait_here();
        }
    }
}

/// Keeps the log of a transaction while it is undone from there.
#[derive(Default)]
struct UndoHold {
    _hold: Option<SavepointHold>,
}

impl UndoHold {
    /// `None`: the transaction is too large for that, or its log is gone.
    fn take(db: &Database, state: &TxnState) -> Option<UndoHold> {
        match &state.progress {
            Some(p) if p.is_accelerated => {
                if state.log_bytes > db.undo_at_once_bytes() {
                    return None;
                }
                let hold = SavepointHold::in_log(p, p.first);
                // The log is cut under the same latch that `log_is_kept` takes: the hold was seen, or came too late.
                db.log_is_kept(p.first)
                    .then_some(UndoHold { _hold: Some(hold) })
            }
            _ => Some(UndoHold::default()),
        }
    }
}

/// Ends the transaction by rolling it back, the latest id first.
fn roll_back_all(db: &Arc<Database>, owner: &Arc<Owner>, state: &mut TxnState) -> Result<()> {
    if state.has_commit_record() {
        return leave_in_doubt(db, owner, state);
    }
    db.count_transaction(true);
    state.tell_log_bytes(db, owner);
    for progress in state.all().filter_map(|s| s.progress.as_ref()) {
        *progress.prepared.lock() = None;
    }
    let earlier = std::mem::take(&mut state.earlier);
    let mut result = roll_back_one(db, owner, state);
    let mut was_marked = state.was_marked;
    for mut state in earlier.into_iter().rev() {
        state.was_marked |= was_marked;
        result = result.and(roll_back_one(db, owner, &mut state));
        was_marked = state.was_marked;
    }
    result
}

/// Rolls back what was written under one id, from the log or by a mark, whichever fits.
fn roll_back_one(db: &Arc<Database>, owner: &Arc<Owner>, state: &mut TxnState) -> Result<()> {
    let hold = match state.was_marked {
        true => None,
        false => UndoHold::take(db, state),
    };
    let Some(_hold) = hold else {
        state.was_marked = true;
        return abort(db, owner, state);
    };
    let result = crate::undo::roll_back(db, state, Lsn::NONE);
    if result.is_err() && db.store().log.is_fenced() && !planted(Bug::PassUnresolved) {
        leave_unresolved(db, owner, state);
        return result;
    }
    if let Err(error) = &result
        && state.is_accelerated()
        && !db.store().log.is_fenced()
    {
        // A page that cannot be read hurts what is on it, not the database: the rest is for the reverter.
        reached!("rollback.marked_instead");
        db.note_failure(Task::Revert(state.id), error);
        state.was_marked = true;
        return abort(db, owner, state);
    }
    if state.versions.guards_pages() {
        db.versions().release(state.last());
    }
    db.txns().gone(state.id);
    db.versions().discard(&state.versions.take_chunks());
    leave(db, owner, state);
    db.advance_watermark();
    result
}

/// The rollback could not be logged: some of what it wrote is still there. Nobody may take it for committed, so it stays
/// active, with its versions, until recovery has rolled it back. A session that waits for it wakes and is refused.
fn leave_unresolved(db: &Database, owner: &Owner, state: &mut TxnState) {
    reached!("rollback.unresolved");
    state.ended = true;
    db.locks()
        .release(owner, &LockKey::Txn(db.id(), state.id), LockMode::Exclusive);
}

/// Its commit record is in the log, and nobody came to know that it is hard: only recovery can tell what became of it. Nothing of it
/// is looked at here, for it may be the thread that found the failure which ends it, and that one may hold latches.
fn leave_in_doubt(db: &Database, owner: &Owner, state: &mut TxnState) -> Result<()> {
    reached!("commit.in_doubt");
    state.ended = true;
    for part in state.all() {
        db.locks()
            .release(owner, &LockKey::Txn(db.id(), part.id), LockMode::Exclusive);
    }
    db.check_readable()
}

fn leave_committed(db: &Arc<Database>, owner: &Arc<Owner>, state: &mut TxnState, lsn: Lsn) {
    db.versions().commit(state.versions.take_chunks(), lsn.0);
    leave(db, owner, state);
}

/// Rolls back in one step: what was written stays, and counts for nothing from now on.
fn abort(db: &Arc<Database>, owner: &Arc<Owner>, state: &mut TxnState) -> Result<()> {
    let mut body = std::mem::take(&mut state.scratch);
    state.start_record(&mut body, Kind::Abort);
    let known = state.progress.as_ref().map(|p| p.abort());
    known.unwrap_or_default().write(&mut body);
    record::finish(&mut body);
    let result = state.append_as(db, &body, AppendKind::Completion);
    let chunks = state.versions.take_chunks();
    if let Some(progress) = state.progress.take() {
        progress.defers.lock().clear();
        db.add_aborted(progress, chunks);
    }
    leave(db, owner, state);
    db.advance_watermark();
    result.map(|_| ())
}

/// Common end of commit and rollback: leaves the active ones and wakes those that wait.
fn leave(db: &Arc<Database>, owner: &Arc<Owner>, state: &mut TxnState) {
    state.ended = true;
    db.leave(state.id);
    db.store().log.release_undo(state.undo_bytes);
    db.locks()
        .release(owner, &LockKey::Txn(db.id(), state.id), LockMode::Exclusive);
}

/// A registered snapshot: holds the watermark until the last view of it is gone.
struct HeldSnapshot {
    db: Arc<Database>,
    owner: u64,
    snapshot: Snapshot,
}

impl HeldSnapshot {
    fn of(txn: &Txn) -> HeldSnapshot {
        let (db, owner) = (txn.0.db.clone(), txn.0.owner.id);
        let snapshot = db.txns().snapshot(owner);
        HeldSnapshot {
            db,
            owner,
            snapshot,
        }
    }
}

impl Drop for HeldSnapshot {
    fn drop(&mut self) {
        self.db.txns().release(self.snapshot, self.owner);
    }
}

/// View of a reader: which writers' entries it sees.
#[derive(Clone)]
pub struct ReadView {
    txn: Txn,
    isolation: Isolation,
    snapshot: Option<Arc<HeldSnapshot>>,
    /// Writers below are visible without looking further.
    horizon: TxnId,
    lock_mode: LockMode,
}

/// Is a writer's entry visible?
pub(crate) enum Sight {
    Yes,
    No,
    /// The writer must end before the reader may go on.
    Wait,
}

impl ReadView {
    /// The transaction that reads.
    pub fn txn(&self) -> &Txn {
        &self.txn
    }

    /// Position of the log up to which its snapshot shows commits; `None` for a view without one.
    pub fn position(&self) -> Option<Lsn> {
        let held = self.snapshot.as_ref()?;
        Some(Lsn(held.snapshot.position))
    }

    /// The level that the view was taken for.
    pub fn isolation(&self) -> Isolation {
        self.isolation
    }

    pub(crate) fn database(&self) -> &Arc<Database> {
        &self.txn.0.db
    }

    pub(crate) fn owner(&self) -> &Arc<Owner> {
        &self.txn.0.owner
    }

    /// Writers below are visible without looking further.
    #[inline]
    pub(crate) fn horizon(&self) -> TxnId {
        self.horizon
    }

    /// Does it read as one who means to write? Then it queues up for entries that others have.
    #[inline]
    pub fn is_for_update(&self) -> bool {
        self.isolation == Isolation::Update || self.lock_mode == LockMode::Update
    }

    /// The same view, for one who means to write what it finds.
    pub fn for_update(mut self) -> ReadView {
        self.lock_mode = LockMode::Update;
        self
    }

    /// Was what carries this stamp, and everything else its writer did, committed before the view was opened?
    #[inline]
    pub fn knows(&self, stamp: Stamp) -> bool {
        self.snapshot.is_some() || stamp.txn < self.horizon
    }

    /// Did the transaction commit after the view's snapshot was taken?
    pub(crate) fn is_younger(&self, txn: TxnId) -> bool {
        self.snapshot.is_some() && matches!(self.sees(txn), Sight::No)
    }

    pub(crate) fn key_lock_mode(&self) -> LockMode {
        self.lock_mode
    }

    pub(crate) fn sees(&self, writer: TxnId) -> Sight {
        if writer < self.horizon || self.txn.owns(writer) {
            return Sight::Yes;
        }
        let status = self.database().txns().status(writer);
        if self.isolation == Isolation::ReadUncommitted {
            return match status {
                TxnStatus::Aborted => Sight::No,
                _ => Sight::Yes,
            };
        }
        match (status, &self.snapshot) {
            (TxnStatus::Committed(at) | TxnStatus::Awaited(at), Some(held)) => {
                match at <= held.snapshot.position || planted(Bug::SeeTheFuture) {
                    true => Sight::Yes,
                    false => Sight::No,
                }
            }
            (TxnStatus::Committed(_), None) => Sight::Yes,
            (TxnStatus::Aborted, _) | (TxnStatus::Active, Some(_)) => Sight::No,
            (TxnStatus::Active | TxnStatus::Awaited(_), None) => match self.isolation {
                Isolation::Current => Sight::No,
                _ => Sight::Wait,
            },
        }
    }

    pub(crate) fn wait_for(&self, writer: TxnId) -> Result<()> {
        let db = self.database();
        db.locks()
            .wait_for_txn(self.owner(), db.id(), writer, LockMode::Shared)?;
        db.check_readable()
    }
}
