//! Transactions and the views they read through.
//!
//! Theory: a transaction has no id and costs nothing until its first write. Its records are chained backwards in the
//! log; rollback, to a savepoint or to the start, walks that chain (`undo`). Commit appends one record, waits for it
//! to be hard, then becomes visible in one step.

use crate::api::{Durability, Isolation, LockMode, Savepoint};
use crate::database::Database;
use crate::error::{Result, StorageError};
use crate::lock::{LockKey, Owner};
use crate::log::AppendKind;
use crate::log::record::{self, Kind, Space};
use crate::status::{Snapshot, TxnStatus};
use crate::version::Segment;
use daruma_base::{Lsn, TxnId};
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Where a transaction is in the log, as checkpoints see it.
pub struct Progress {
    pub id: TxnId,
    /// At or before its first record.
    pub first: Lsn,
    pub last: AtomicU64,
    /// Trees and blobs to free once committed.
    pub defers: Mutex<Vec<Space>>,
}

/// What only the transaction's own thread changes.
#[derive(Default)]
pub struct TxnState {
    id: TxnId,
    last: Lsn,
    progress: Option<Arc<Progress>>,
    /// Log space reserved for the rollback.
    undo_bytes: u64,
    pub versions: Segment,
    /// Record under construction, kept to save allocations.
    pub scratch: Vec<u8>,
    ended: bool,
}

impl TxnState {
    /// A transaction that a crash left behind, for its rollback.
    pub fn loser(id: TxnId, last: Lsn) -> TxnState {
        TxnState {
            id,
            last,
            ..TxnState::default()
        }
    }

    pub fn id(&self) -> TxnId {
        self.id
    }

    pub fn last(&self) -> Lsn {
        self.last
    }

    pub fn start_record(&self, out: &mut Vec<u8>, kind: Kind) {
        record::start(out, kind, self.id, self.last);
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

    fn take_defers(&mut self) -> Vec<Space> {
        self.progress
            .as_ref()
            .map(|p| std::mem::take(&mut *p.defers.lock()))
            .unwrap_or_default()
    }

    /// Appends a record of this transaction that can be undone.
    pub fn append(&mut self, db: &Database, record: &[u8]) -> Result<Lsn> {
        let lsn = self.append_as(db, record, AppendKind::Forward)?;
        self.undo_bytes += 2 * record.len() as u64 + 64;
        Ok(lsn)
    }

    /// Appends a record of this transaction.
    pub fn append_as(&mut self, db: &Database, record: &[u8], kind: AppendKind) -> Result<Lsn> {
        let lsn = db.store().log.append(record, kind)?;
        self.last = lsn;
        if let Some(progress) = &self.progress {
            progress.last.store(lsn.0, Ordering::Release);
        }
        Ok(lsn)
    }
}

pub(crate) struct TxnInner {
    db: Arc<Database>,
    owner: Arc<Owner>,
    id: AtomicU64,
    state: Mutex<TxnState>,
    /// Snapshot of the whole transaction (SNAPSHOT isolation).
    snapshot: Mutex<Option<Arc<HeldSnapshot>>>,
}

/// A transaction in one database. Clones are the same transaction. Dropping it without `commit` rolls it back.
#[derive(Clone)]
pub struct Txn(Arc<TxnInner>);

impl Drop for TxnInner {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        if !state.ended && !state.id.0.eq(&0) {
            let _ = crate::undo::roll_back(&self.db, state, Lsn::NONE);
            finish(&self.db, &self.owner, state, false);
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
            snapshot: Mutex::default(),
        }))
    }

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

    /// Does it read one snapshot for its whole life?
    pub(crate) fn is_snapshot(&self) -> bool {
        self.0.snapshot.lock().is_some()
    }

    /// Opens a view of the data. Statement-level isolation levels take a new one per statement; `Snapshot` gives
    /// the same snapshot for the whole transaction. Keep it only as long as it is read.
    pub fn view(&self, isolation: Isolation) -> ReadView {
        let snapshot = match isolation {
            Isolation::ReadCommittedSnapshot => Some(Arc::new(HeldSnapshot::new(&self.0.db))),
            Isolation::Snapshot => {
                let mut held = self.0.snapshot.lock();
                Some(
                    held.get_or_insert_with(|| Arc::new(HeldSnapshot::new(&self.0.db)))
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
        let mut state = self.0.state.lock();
        if state.id == TxnId::NONE {
            db.check_writable()?;
            state.id = db.txns().start();
            self.0.id.store(state.id.0, Ordering::Relaxed);
            let key = LockKey::Txn(db.id(), state.id);
            db.locks()
                .acquire(&self.0.owner, &key, LockMode::Exclusive)?;
            state.progress = Some(db.enter(state.id));
        }
        assert!(!state.ended, "a write in a transaction that has ended");
        Ok(state)
    }

    /// Ends the transaction; with `Durability::Full` only after its log is on disk. When that fails the database is
    /// fenced and the outcome is known only after its recovery.
    pub fn commit(&self, durability: Durability) -> Result<()> {
        let db = &self.0.db;
        let mut state = self.0.state.lock();
        *self.0.snapshot.lock() = None;
        if state.ended || state.id == TxnId::NONE {
            state.ended = true;
            return Ok(());
        }
        let mut body = std::mem::take(&mut state.scratch);
        state.start_record(&mut body, Kind::Commit);
        body.extend_from_slice(&db.env().clock.utc_100ns().to_le_bytes());
        record::finish(&mut body);
        let lsn = state.append_as(db, &body, AppendKind::Completion)?;
        if durability == Durability::Full && db.is_durable() {
            db.store().log.harden(lsn)?;
        }
        let defers = state.take_defers();
        db.add_pending(state.id, defers);
        db.txns().commit(state.id);
        finish(db, &self.0.owner, &mut state, true);
        Ok(())
    }

    pub fn rollback(&self) -> Result<()> {
        let mut state = self.0.state.lock();
        *self.0.snapshot.lock() = None;
        if state.ended || state.id == TxnId::NONE {
            state.ended = true;
            return Ok(());
        }
        crate::undo::roll_back(&self.0.db, &mut state, Lsn::NONE)?;
        finish(&self.0.db, &self.0.owner, &mut state, false);
        Ok(())
    }

    pub fn savepoint(&self) -> Savepoint {
        Savepoint {
            lsn: self.0.state.lock().last,
        }
    }

    /// Takes back everything written since the savepoint. Locks stay.
    pub fn rollback_to(&self, savepoint: Savepoint) -> Result<()> {
        let mut state = self.0.state.lock();
        if state.ended || state.last <= savepoint.lsn {
            return Ok(());
        }
        crate::undo::roll_back(&self.0.db, &mut state, savepoint.lsn)
    }
}

/// Common end of commit and rollback: leave the active ones, wake who waits, let the watermark move.
fn finish(db: &Arc<Database>, owner: &Arc<Owner>, state: &mut TxnState, committed: bool) {
    state.ended = true;
    if !committed {
        db.txns().abort(state.id);
    }
    db.leave(state.id);
    db.store().log.release_undo(state.undo_bytes);
    db.locks()
        .release(owner, &LockKey::Txn(db.id(), state.id), LockMode::Exclusive);
    state.versions = Segment::default();
    db.advance_watermark();
}

/// A registered snapshot: holds the watermark until the last view of it is gone.
struct HeldSnapshot {
    db: Arc<Database>,
    snapshot: Snapshot,
}

impl HeldSnapshot {
    fn new(db: &Arc<Database>) -> HeldSnapshot {
        HeldSnapshot {
            db: db.clone(),
            snapshot: db.txns().snapshot(),
        }
    }
}

impl Drop for HeldSnapshot {
    fn drop(&mut self) {
        self.db.txns().release(self.snapshot);
    }
}

/// What a reader may see.
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
    pub fn txn(&self) -> &Txn {
        &self.txn
    }

    pub fn isolation(&self) -> Isolation {
        self.isolation
    }

    pub(crate) fn database(&self) -> &Arc<Database> {
        &self.txn.0.db
    }

    pub(crate) fn owner(&self) -> &Arc<Owner> {
        &self.txn.0.owner
    }

    pub(crate) fn key_lock_mode(&self) -> LockMode {
        self.lock_mode
    }

    pub(crate) fn sees(&self, writer: TxnId) -> Sight {
        if writer < self.horizon || writer == self.txn.id() {
            return Sight::Yes;
        }
        if self.isolation == Isolation::ReadUncommitted {
            return Sight::Yes;
        }
        match (self.database().txns().status(writer), &self.snapshot) {
            (TxnStatus::Committed(at), Some(held)) if at > held.snapshot.timestamp => Sight::No,
            (TxnStatus::Committed(_), _) => Sight::Yes,
            (TxnStatus::Aborted, _) => Sight::No,
            (TxnStatus::Active, Some(_)) => Sight::No,
            (TxnStatus::Active, None) if self.isolation == Isolation::Current => Sight::No,
            (TxnStatus::Active, None) => Sight::Wait,
        }
    }

    pub(crate) fn wait_for(&self, writer: TxnId) -> Result<()> {
        let db = self.database();
        db.locks()
            .wait_for_txn(self.owner(), db.id(), writer, LockMode::Shared)?;
        match db.state() {
            crate::api::DatabaseState::Online => Ok(()),
            _ => Err(StorageError::NotOnline {
                state: "not online",
            }),
        }
    }
}
