//! Changing entries: inserts, updates and deletes, one leaf at a time, each with one log record.
//!
//! A change is planned under the leaf's latch, logged, and then applied by `redo::apply_ops`.

use super::Tree;
use crate::api::{
    Batch, ENTRY_BYTES_MAX, KEY_BYTES_MAX, LockMode, Stamp, UpdateBatch, WriteOutcome,
};
use crate::buffer::{PageWrite, Run};
use crate::database::Database;
use crate::error::{Result, StorageError};
use crate::log::record::{OpsWriter, RECORD_HEADER_BYTES};
use crate::log::{AppendKind, RECORD_BYTES_MAX};
use crate::page::{Head, LEAF_HEAD_BYTES, Page};
use crate::status::TxnStatus;
use crate::txn::{Txn, TxnState};
use daruma_base::{TxnId, reached};
use std::sync::Arc;

/// A record is closed before one more operation could overflow it: an update carries old and new bytes and a key.
const OPS_BYTES_MAX: usize = RECORD_BYTES_MAX - (2 * ENTRY_BYTES_MAX + KEY_BYTES_MAX + 4096);

/// Why a change stopped at an entry.
enum Stop {
    /// Another transaction wrote it and has not ended.
    WaitTxn(TxnId),
    /// Another transaction keeps a lock on the key or a range around it.
    WaitKey,
    WaitRange(u64),
    /// An aborted transaction wrote it: its committed state must be put back first.
    Aborted,
    /// The leaf must be split first.
    NoRoom,
    /// The next key is in another leaf, or the record is full.
    NextLeaf,
    Duplicate,
    Refused(WriteOutcome),
    /// Another transaction deleted what this one's snapshot shows.
    Conflict,
    /// A version that says how much room is kept could not be read.
    Failed(StorageError),
}

/// One requested change.
#[derive(Clone, Copy)]
enum Change<'a> {
    Insert {
        key: &'a [u8],
        payload: &'a [u8],
    },
    Update {
        key: &'a [u8],
        stamp: Stamp,
        payload: &'a [u8],
    },
    Delete {
        key: &'a [u8],
        stamp: Stamp,
    },
}

impl<'a> Change<'a> {
    fn key(&self) -> &'a [u8] {
        match self {
            Change::Insert { key, .. }
            | Change::Update { key, .. }
            | Change::Delete { key, .. } => key,
        }
    }
}

/// Operations planned for one leaf and not yet applied.
struct Plan<'p, 'w, 'c> {
    page: &'p Page,
    writer: OpsWriter<'w>,
    /// Entries inserted so far: later slots shift by as many.
    inserted: usize,
    /// Free bytes that no planned change takes. What changes give back is kept room.
    free: usize,
    /// Bytes that planned changes give back.
    shorter: usize,
    kept: KeptRoom,
    /// Changes planned; a key must not be planned twice against the page as it was.
    last_key: Option<&'c [u8]>,
    live: i64,
    /// The inserts into the leaf that followed each other, with those planned.
    run: Run,
    /// Where the last key was found: the next one is usually right behind it.
    cursor: usize,
}

/// Room of the leaf that only those may use who take something back (`room`).
enum KeptRoom {
    AtMost(usize),
    Exactly(usize),
}

impl Tree {
    /// Fails with `DuplicateKey` when a live entry has the key (after waiting for the transaction that wrote it).
    pub fn insert(self: &Arc<Self>, txn: &Txn, key: &[u8], payload: &[u8]) -> Result<()> {
        self.change_all(txn, 1, |_| Change::Insert { key, payload }, &mut |_, _| {})
    }

    /// Inserts the entries of `rows` in order; fastest when they come in key order. Stops at the first error:
    /// the caller rolls back to its savepoint.
    pub fn insert_batch(self: &Arc<Self>, txn: &Txn, rows: &Batch) -> Result<()> {
        let change = |i| Change::Insert {
            key: rows.key(i),
            payload: rows.payload(i),
        };
        self.change_all(txn, rows.len(), change, &mut |_, _| {})
    }

    /// Gives the entry a new payload, if it is still as `stamp` says; otherwise the outcome says what to wait for or
    /// that it changed.
    pub fn update(
        self: &Arc<Self>,
        txn: &Txn,
        key: &[u8],
        stamp: Stamp,
        payload: &[u8],
    ) -> Result<WriteOutcome> {
        let mut outcome = WriteOutcome::Done;
        self.change_all(
            txn,
            1,
            |_| Change::Update {
                key,
                stamp,
                payload,
            },
            &mut |_, o| outcome = o,
        )?;
        Ok(outcome)
    }

    /// Updates many entries, in key order, page by page. Fills `refused` with the positions that were not `Done`.
    pub fn update_batch(
        self: &Arc<Self>,
        txn: &Txn,
        rows: &UpdateBatch,
        refused: &mut Vec<(usize, WriteOutcome)>,
    ) -> Result<()> {
        let rows = &rows.batch;
        let change = |i| Change::Update {
            key: rows.key(i),
            stamp: rows.stamp(i),
            payload: rows.payload(i),
        };
        self.change_all(txn, rows.len(), change, &mut |i, o| refused.push((i, o)))
    }

    /// Marks the entry as deleted, if it is still as `stamp` says.
    pub fn delete(self: &Arc<Self>, txn: &Txn, key: &[u8], stamp: Stamp) -> Result<WriteOutcome> {
        let mut outcome = WriteOutcome::Done;
        self.change_all(txn, 1, |_| Change::Delete { key, stamp }, &mut |_, o| {
            outcome = o
        })?;
        Ok(outcome)
    }

    /// Deletes many entries, in key order (payloads ignored). Fills `refused` like `update_batch`.
    pub fn delete_batch(
        self: &Arc<Self>,
        txn: &Txn,
        rows: &Batch,
        refused: &mut Vec<(usize, WriteOutcome)>,
    ) -> Result<()> {
        let change = |i| Change::Delete {
            key: rows.key(i),
            stamp: rows.stamp(i),
        };
        self.change_all(txn, rows.len(), change, &mut |i, o| refused.push((i, o)))
    }

    fn change_all<'c>(
        self: &Arc<Self>,
        txn: &Txn,
        count: usize,
        change: impl Fn(usize) -> Change<'c>,
        refused: &mut dyn FnMut(usize, WriteOutcome),
    ) -> Result<()> {
        let db = txn.database();
        let mut at = 0;
        while at < count {
            check_sizes(change(at))?;
            let (done, stop) = self.change_leaf(txn, at, count, &change)?;
            at += done;
            match stop {
                Stop::NextLeaf => {}
                Stop::Refused(outcome) => {
                    if outcome == WriteOutcome::Changed && txn.is_snapshot() {
                        return Err(StorageError::SnapshotConflict);
                    }
                    refused(at, outcome);
                    at += 1;
                }
                Stop::Conflict => return Err(StorageError::SnapshotConflict),
                Stop::Duplicate => {
                    return Err(StorageError::DuplicateKey {
                        key: change(at).key().to_vec(),
                    });
                }
                Stop::Failed(error) => return Err(error),
                Stop::Aborted => self.revert_leaf_of(db, change(at).key())?,
                Stop::NoRoom => {
                    let next = change(at);
                    self.make_room(db, next.key(), needed_bytes(next), AppendKind::System)?
                }
                Stop::WaitTxn(other) => {
                    self.wait_for_writer(db, txn.owner(), change(at).key(), other)?
                }
                Stop::WaitKey => {
                    // Of several who mean to write it, one waits for its readers, and the others for that one.
                    let key = change(at).key();
                    self.take_turn(db, txn.owner(), key)?;
                    let lock = self.key_lock(db, key);
                    db.locks()
                        .acquire(txn.owner(), &lock, LockMode::Exclusive)?;
                }
                Stop::WaitRange(owner) => self.wait_for_ranges(db, txn.owner(), owner)?,
            }
        }
        Ok(())
    }

    /// Carries out as many changes as belong to one leaf, from `first` on. Returns how many, and what stopped it.
    fn change_leaf<'c>(
        self: &Arc<Self>,
        txn: &Txn,
        first: usize,
        count: usize,
        change: &impl Fn(usize) -> Change<'c>,
    ) -> Result<(usize, Stop)> {
        let db = txn.database();
        db.hold_back(txn.owner())?;
        let mut state = txn.start_write()?;
        db.bound_versions(&mut state)?;
        if !matches!(change(first), Change::Insert { .. }) {
            db.press_writer(txn.owner())?;
        }
        let mut leaf = self.leaf_write(db, change(first).key())?;
        let mut record = std::mem::take(&mut state.scratch);
        state.start_record(&mut record, crate::log::record::Kind::Ops);
        let mut plan = Plan {
            page: &leaf,
            writer: OpsWriter::new(&mut record, leaf.id(), self.id().0),
            inserted: 0,
            free: leaf.free_bytes(),
            shorter: 0,
            kept: KeptRoom::AtMost(self.kept_bytes_max(db, leaf.id())),
            last_key: None,
            live: 0,
            run: leaf.run(),
            cursor: 0,
        };
        let mut done = 0;
        let stop = loop {
            if first + done >= count || plan.writer.len() > OPS_BYTES_MAX {
                break Stop::NextLeaf;
            }
            let next = change(first + done);
            if done > 0 && (check_sizes(next).is_err() || !plan.covers(next.key())) {
                break Stop::NextLeaf;
            }
            match self.plan_one(db, txn, &mut state, &mut plan, next) {
                Ok(()) => done += 1,
                Err(stop) => break stop,
            }
        };
        let (live, run) = (plan.live, plan.run);
        let ops = plan.writer.count();
        plan.writer.finish();
        let result = if ops > 0 {
            let (low, high) = (change(first).key(), change(first + done - 1).key());
            state.note_work(self.id(), leaf.id(), low, high, live);
            leaf.set_run(run);
            apply(db, &mut state, &mut leaf, &record)
        } else {
            Ok(())
        };
        let dead = leaf.slots() > 0
            && live < 0
            && leaf.head(leaf.slots() - 1).is_deleted()
            && leaf.head(0).is_deleted();
        let dead_key = dead.then(|| leaf.key(0).to_vec());
        drop(leaf);
        state.scratch = record;
        result?;
        self.add_count(live);
        if let Some(key) = dead_key {
            db.note_dead(self, key);
        }
        Ok((done, stop))
    }

    /// Plans one change against the latched leaf.
    fn plan_one<'c>(
        &self,
        db: &Database,
        txn: &Txn,
        state: &mut TxnState,
        plan: &mut Plan<'_, '_, 'c>,
        change: Change<'c>,
    ) -> std::result::Result<(), Stop> {
        let key = change.key();
        let found = plan.find(key);
        let slot = match found {
            Ok(slot) | Err(slot) => slot,
        };
        if !self.key_locks.is_empty() || !self.ranges.is_empty() {
            let writer = found.ok().map(|slot| plan.page.head(slot).writer);
            self.check_locks(db, txn, writer, key)?;
        }
        match (change, found) {
            (Change::Insert { key, payload }, Err(_)) => {
                plan.insert(self, db, slot, key, payload)?;
            }
            (Change::Insert { key, payload }, Ok(_)) => {
                let head = plan.page.head(slot);
                settled(db, txn, head.writer)?;
                if !head.is_deleted() {
                    return Err(Stop::Duplicate);
                }
                self.plan_update(db, state, plan, slot, head, key, payload)?;
                plan.live += 1;
            }
            (_, Err(_)) => return Err(Stop::Refused(WriteOutcome::Gone)),
            (
                Change::Update {
                    key,
                    stamp,
                    payload,
                },
                Ok(_),
            ) => {
                let head = plan.checked(db, txn, slot, stamp)?;
                self.plan_update(db, state, plan, slot, head, key, payload)?;
            }
            (Change::Delete { key, stamp }, Ok(_)) => {
                let head = plan.checked(db, txn, slot, stamp)?;
                let version = version_of(db, state, plan.page, slot, head);
                plan.writer.delete(slot + plan.inserted, head, version, key);
                plan.live -= 1;
            }
        }
        plan.last_key = Some(key);
        Ok(())
    }

    fn plan_update(
        &self,
        db: &Database,
        state: &mut TxnState,
        plan: &mut Plan<'_, '_, '_>,
        slot: usize,
        head: Head,
        key: &[u8],
        payload: &[u8],
    ) -> std::result::Result<(), Stop> {
        let old = plan.page.payload(slot);
        let mut version = None;
        if payload.len() > old.len() {
            plan.take(self, db, Some(slot), payload.len() - old.len())?;
        } else if payload.len() < old.len() {
            if head.writer == state.id() {
                let longest = self.longest_version(db, head.version);
                if longest.map_err(Stop::Failed)? < old.len() {
                    version = Some(add_version(db, state, plan.page, slot, head));
                }
            }
            let (id, shorter) = (state.id(), old.len() - payload.len());
            let base = db.txns().base();
            db.shrink_notes().add(plan.page.id(), id, shorter, base);
            plan.shorter += shorter;
        }
        let version = version.unwrap_or_else(|| version_of(db, state, plan.page, slot, head));
        plan.writer
            .update(slot + plan.inserted, head, version, key, old, payload);
        Ok(())
    }

    /// Do locks of others on the key, or ranges around it, allow a write? An entry that this transaction wrote is its own
    /// until it ends: a transaction that has locked the key since is waiting for just that.
    fn check_locks(
        &self,
        db: &Database,
        txn: &Txn,
        writer: Option<TxnId>,
        key: &[u8],
    ) -> std::result::Result<(), Stop> {
        if writer.is_some_and(|w| txn.owns(w)) {
            return Ok(());
        }
        if let Some(owner) = self.range_conflict(txn.owner().id, key) {
            return Err(Stop::WaitRange(owner));
        }
        let locked = !self.key_locks.is_empty()
            && self.key_locks.may_have(key)
            && db
                .locks()
                .conflicts(txn.owner(), &self.key_lock(db, key), LockMode::Exclusive);
        match locked {
            true => Err(Stop::WaitKey),
            false => Ok(()),
        }
    }
}

impl Plan<'_, '_, '_> {
    /// Does `key` certainly belong to this leaf, behind the last planned key?
    fn covers(&self, key: &[u8]) -> bool {
        let behind = self.last_key.is_none_or(|last| key > last);
        let slots = self.page.slots();
        // Beyond the last entry only the rightmost leaf is certain to be the right one.
        let inside = self.page.next().is_none() || (slots > 0 && key <= self.page.key(slots - 1));
        behind && inside
    }

    fn find(&mut self, key: &[u8]) -> std::result::Result<usize, usize> {
        if self.cursor < self.page.slots() && self.page.key(self.cursor) == key {
            self.cursor += 1;
            return Ok(self.cursor - 1);
        }
        let found = self.page.search(key);
        self.cursor = match found {
            Ok(slot) => slot + 1,
            Err(slot) => slot,
        };
        found
    }

    /// The head of an entry that may be changed now: settled, unchanged since it was read, not deleted.
    fn checked(
        &self,
        db: &Database,
        txn: &Txn,
        slot: usize,
        stamp: Stamp,
    ) -> std::result::Result<Head, Stop> {
        let head = self.page.head(slot);
        settled(db, txn, head.writer)?;
        if head.is_deleted() {
            let is_conflict = txn.is_snapshot() && !txn.owns(head.writer);
            return Err(match is_conflict {
                true => Stop::Conflict,
                false => Stop::Refused(WriteOutcome::Gone),
            });
        }
        if (Stamp {
            txn: head.writer,
            version: head.version,
        }) != stamp
        {
            return Err(Stop::Refused(WriteOutcome::Changed));
        }
        Ok(head)
    }

    /// Takes `bytes` for a change, of which the entry in `slot` may have kept some for itself.
    fn take(
        &mut self,
        tree: &Tree,
        db: &Database,
        slot: Option<usize>,
        bytes: usize,
    ) -> std::result::Result<(), Stop> {
        let left = self.free.checked_sub(bytes).ok_or(Stop::NoRoom)?;
        let kept = match self.kept {
            KeptRoom::AtMost(kept) if left >= kept => {
                self.free = left;
                return Ok(());
            }
            KeptRoom::AtMost(_) => {
                let kept = tree.kept_bytes(db, self.page, self.shorter);
                kept.map_err(Stop::Failed)?
            }
            KeptRoom::Exactly(kept) => kept,
        };
        let own = match slot {
            Some(slot) => tree.kept_bytes_of(db, self.page, slot),
            None => Ok(0),
        };
        let own = own.map_err(Stop::Failed)?.min(bytes);
        if left + own < kept {
            reached!("tree.room.kept");
            return Err(Stop::NoRoom);
        }
        self.free = left;
        self.kept = KeptRoom::Exactly(kept.saturating_sub(own));
        Ok(())
    }

    fn insert(
        &mut self,
        tree: &Tree,
        db: &Database,
        slot: usize,
        key: &[u8],
        payload: &[u8],
    ) -> std::result::Result<(), Stop> {
        let bytes = Page::leaf_entry_bytes(key, payload.len()) + 2;
        self.take(tree, db, None, bytes)?;
        self.writer.insert(slot + self.inserted, key, payload);
        self.run = self.run.inserted(slot + self.inserted);
        self.inserted += 1;
        self.live += 1;
        Ok(())
    }
}

/// Locator of the version to keep: none is added when this transaction wrote the entry already.
fn version_of(db: &Database, state: &mut TxnState, page: &Page, slot: usize, head: Head) -> u64 {
    match head.writer == state.id() {
        true => head.version,
        false => add_version(db, state, page, slot, head),
    }
}

fn add_version(db: &Database, state: &mut TxnState, page: &Page, slot: usize, head: Head) -> u64 {
    let id = state.id();
    state.versions.note_page(page.id());
    db.versions()
        .add(&mut state.versions, id, head, page.payload(slot))
}

/// May the entry be judged now, or must its writer end first?
fn settled(db: &Database, txn: &Txn, writer: TxnId) -> std::result::Result<(), Stop> {
    if txn.owns(writer) {
        return Ok(());
    }
    match db.txns().status(writer) {
        TxnStatus::Active | TxnStatus::Awaited(_) => Err(Stop::WaitTxn(writer)),
        TxnStatus::Aborted => Err(Stop::Aborted),
        TxnStatus::Committed(_) => Ok(()),
    }
}

/// Logs a planned record and applies it to its leaf.
fn apply(
    db: &Database,
    state: &mut TxnState,
    leaf: &mut PageWrite<'_>,
    record: &[u8],
) -> Result<()> {
    leaf.prepare(&db.store().log);
    let lsn = state.append(db, record)?;
    let ops = crate::log::record::Ops::parse(&record[RECORD_HEADER_BYTES..]);
    let applied = ops
        .ok_or("unreadable record")
        .and_then(|ops| crate::redo::apply_ops(leaf, &ops, state.id()));
    // The plan was checked against this very page: anything else is a bug that must not reach the disk.
    if let Err(what) = applied {
        panic!("applying a planned change to page {}: {what}", leaf.id());
    }
    leaf.set_lsn(lsn);
    Ok(())
}

fn needed_bytes(change: Change<'_>) -> usize {
    match change {
        Change::Insert { key, payload } | Change::Update { key, payload, .. } => {
            LEAF_HEAD_BYTES + key.len() + payload.len() + 2
        }
        Change::Delete { .. } => 0,
    }
}

fn check_sizes(change: Change<'_>) -> Result<()> {
    let (key, payload) = match change {
        Change::Insert { key, payload } | Change::Update { key, payload, .. } => {
            (key.len(), payload.len())
        }
        Change::Delete { key, .. } => (key.len(), 0),
    };
    if key > KEY_BYTES_MAX {
        return Err(StorageError::EntryTooLarge {
            bytes: key,
            limit: KEY_BYTES_MAX,
        });
    }
    if key + payload > ENTRY_BYTES_MAX {
        return Err(StorageError::EntryTooLarge {
            bytes: key + payload,
            limit: ENTRY_BYTES_MAX,
        });
    }
    Ok(())
}

impl Tree {
    pub(crate) fn leaf_for_undo<'a>(&self, db: &'a Database, key: &[u8]) -> Result<PageWrite<'a>> {
        self.leaf_write(db, key)
    }

    /// Splits the leaf of `key` so that its entry can take back its old size.
    pub(crate) fn make_room_for_undo(
        &self,
        db: &Database,
        key: &[u8],
        op: &crate::log::record::LeafOp<'_>,
    ) -> Result<()> {
        let crate::log::record::LeafOp::Update { delta, .. } = op else {
            return Ok(());
        };
        let more = {
            let leaf = self.leaf_read(db, key)?;
            let Ok(slot) = leaf.search(key) else {
                return Ok(());
            };
            let current = leaf.payload(slot);
            crate::undo::payload_before(current, delta).saturating_sub(current.len())
        };
        self.make_room(db, key, more, AppendKind::Completion)
    }

    pub(crate) fn undo_failed(&self, db: &Database, leaf: &Page, what: &str) -> StorageError {
        self.damaged(db, leaf.id(), what)
    }
}
