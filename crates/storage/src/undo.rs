//! Taking back what a transaction did, record by record backwards, with compensation records (ARIES, Mohan et al.
//! 1992): used by ROLLBACK, by savepoints and failed statements, and by recovery for the transactions a crash left.
//!
//! Undo is logical: an entry is found by its key, for splits may have moved it. Each compensation record says where
//! undo goes on, so a crash during rollback never takes anything back twice.

use crate::database::Database;
use crate::delta;
use crate::error::{Result, StorageError};
use crate::log::record::{
    self, Kind, LeafOp, Ops, OpsWriter, RECORD_HEADER_BYTES, Record, Space, UndoNext,
};
use crate::log::{AppendKind, UndoReader};
use crate::pause::pause;
use crate::planted::{Bug, planted};
use crate::redo;
use crate::status::After;
use crate::txn::TxnState;
use daruma_base::{Lsn, reached};
use std::sync::Arc;

/// Takes back everything after `target` (`Lsn::NONE`: all, and logs the end of the transaction). What is left of an
/// accelerated transaction that was to end is for the caller to mark, when this fails.
pub fn roll_back(db: &Arc<Database>, state: &mut TxnState, target: Lsn) -> Result<()> {
    let mut undo = Undo {
        db,
        reader: UndoReader::new(&db.store().log),
        record: Vec::new(),
    };
    let result = undo.walk(state, target);
    if let Err(error) = &result {
        if target != Lsn::NONE || !state.is_accelerated() || db.store().log.is_fenced() {
            // Half taken back and unable to go on: only recovery can put this right.
            db.txns().unresolved(state.id());
            db.store().log.fence(&format!("rollback failed: {error}"));
        }
        return result;
    }
    if target == Lsn::NONE {
        state.append_end(db)?;
        pause("undo.ended");
    }
    Ok(())
}

struct Undo<'a> {
    db: &'a Arc<Database>,
    reader: UndoReader<'a>,
    record: Vec<u8>,
}

impl Undo<'_> {
    fn walk(&mut self, state: &mut TxnState, target: Lsn) -> Result<()> {
        let mut at = UndoNext {
            lsn: state.last(),
            remaining: UndoNext::ALL,
        };
        while at.lsn > target {
            let bytes = match state.kept(at.lsn) {
                Some(bytes) => bytes,
                None => self.reader.read(at.lsn)?,
            };
            let damaged = |what: &str| self.damaged(at.lsn, what);
            let record = Record::parse(&bytes).ok_or_else(|| damaged("unreadable record"))?;
            if record.txn != state.id() {
                return Err(damaged("a record of another transaction"));
            }
            at = match record.kind {
                Kind::Ops => self.undo_ops(state, at, record)?,
                Kind::Owned | Kind::Defer => self.undo_space(state, record)?,
                Kind::Clr if planted(Bug::ForgetUndoPosition) => UndoNext {
                    lsn: record.previous,
                    remaining: UndoNext::ALL,
                },
                Kind::Clr | Kind::ClrSpace => {
                    reached!("undo.compensation.skipped");
                    record::parse_clr(record.body)
                        .ok_or_else(|| damaged("unreadable compensation"))?
                        .0
                }
                _ => UndoNext {
                    lsn: record.previous,
                    remaining: UndoNext::ALL,
                },
            };
        }
        Ok(())
    }

    fn damaged(&self, lsn: Lsn, what: &str) -> StorageError {
        StorageError::DamagedLog {
            path: self.db.log_path(),
            lsn,
            what: what.into(),
        }
    }

    /// Takes back the operations of one record, last first. Operations on one leaf share a compensation record.
    fn undo_ops(
        &mut self,
        state: &mut TxnState,
        at: UndoNext,
        record: Record<'_>,
    ) -> Result<UndoNext> {
        let unreadable = || self.damaged(at.lsn, "unreadable leaf operations");
        let ops = Ops::parse(record.body).ok_or_else(unreadable)?;
        let ops_list: Option<Vec<LeafOp<'_>>> = ops.iter().collect();
        let list = ops_list.ok_or_else(unreadable)?;
        let tree = self.db.tree(crate::api::TreeId(ops.tree))?;
        let mut remaining = list.len().min(usize::from(at.remaining));
        let done = UndoNext {
            lsn: record.previous,
            remaining: UndoNext::ALL,
        };
        while remaining > 0 {
            remaining = tree.undo_leaf(
                self.db,
                state,
                &list[..remaining],
                &mut self.record,
                |left| {
                    if left == 0 {
                        done
                    } else {
                        UndoNext {
                            lsn: at.lsn,
                            remaining: left as u16,
                        }
                    }
                },
            )?;
        }
        Ok(done)
    }

    fn undo_space(&mut self, state: &mut TxnState, record: Record<'_>) -> Result<UndoNext> {
        let mut reader = crate::bytes::Reader::new(record.body);
        let space = Space::read(&mut reader)
            .ok_or_else(|| self.damaged(state.last(), "unreadable space record"))?;
        let owned = record.kind == Kind::Owned;
        let next = UndoNext {
            lsn: record.previous,
            remaining: UndoNext::ALL,
        };
        // No checkpoint may lie behind the record and tell how things were before it.
        let _no_checkpoint = self.db.no_checkpoint();
        log_space_undo(self.db, state, next, owned, space)?;
        pause("undo.space.logged");
        if owned {
            state.disown(space);
            let now = After::Moment(self.db.txns().moment());
            self.db.add_pending(now, vec![space]);
        } else {
            state.forget_defer(space);
        }
        Ok(next)
    }
}

fn log_space_undo(
    db: &Database,
    state: &mut TxnState,
    next: UndoNext,
    owned: bool,
    space: Space,
) -> Result<()> {
    let mut body = std::mem::take(&mut state.scratch);
    state.start_record(&mut body, Kind::ClrSpace);
    next.write(&mut body);
    body.push(u8::from(owned));
    space.write(&mut body);
    record::finish(&mut body);
    let result = state.append_as(db, &body, AppendKind::Completion);
    state.scratch = body;
    result.map(|_| ())
}

/// Body of a `ClrSpace` record after its undo position: was the space owned (free it) or deferred (keep it)?
pub fn parse_clr_space(rest: &[u8]) -> Option<(bool, Space)> {
    let mut reader = crate::bytes::Reader::new(rest);
    let owned = reader.u8()? != 0;
    Some((owned, Space::read(&mut reader)?))
}

impl crate::tree::Tree {
    /// Takes back as many of the last operations of `list` as lie on one leaf; how many are left.
    fn undo_leaf(
        self: &Arc<Self>,
        db: &Database,
        state: &mut TxnState,
        list: &[LeafOp<'_>],
        body: &mut Vec<u8>,
        next: impl Fn(usize) -> UndoNext,
    ) -> Result<usize> {
        let Some(last) = list.last() else {
            return Ok(0);
        };
        let key = last.key().unwrap_or_default();
        let mut leaf = self.leaf_for_undo(db, key)?;
        state.start_record(body, Kind::Clr);
        let undo_at = body.len();
        next(0).write(body);
        let mut writer = OpsWriter::new(body, leaf.id(), self.id().0);
        let mut left = list.len();
        let mut removed: Vec<usize> = Vec::new();
        let (mut free, mut live) = (leaf.free_bytes(), 0i64);
        let mut seen: Vec<&[u8]> = Vec::new();
        let mut old = Vec::new();
        while let Some(op) = left.checked_sub(1).map(|i| &list[i]) {
            let key = op.key().unwrap_or_default();
            // A key is planned once per record: the page still shows it as it was.
            if writer.len() > 40_000
                || seen.last() == Some(&key)
                || !(seen.is_empty() || inside(&leaf, key))
            {
                break;
            }
            let Ok(slot) = leaf.search(key) else {
                return Err(self.undo_failed(db, &leaf, "an entry to be rolled back is missing"));
            };
            if leaf.head(slot).writer != state.id() {
                // A later id of the transaction, rolled back by a mark: what it left is put right first.
                if seen.is_empty() && db.is_reverting(leaf.head(slot).writer) {
                    reached!("undo.below_a_mark");
                    drop(leaf);
                    self.revert_leaf_of(db, key)?;
                    return Ok(list.len());
                }
                if seen.is_empty() {
                    return Err(self.undo_failed(
                        db,
                        &leaf,
                        "an entry to be rolled back has changed",
                    ));
                }
                break;
            }
            let shift = removed.iter().filter(|r| **r < slot).count();
            let current = leaf.payload(slot);
            match op {
                LeafOp::Insert { .. } => {
                    writer.remove(slot - shift);
                    removed.push(slot);
                    live -= 1;
                }
                LeafOp::Update { before, delta, .. } => {
                    old.clear();
                    if delta.revert(current, &mut old).is_none() {
                        return Err(self.undo_failed(
                            db,
                            &leaf,
                            "an entry to be rolled back has changed",
                        ));
                    }
                    let more = old.len().saturating_sub(current.len());
                    if more > free {
                        break;
                    }
                    free -= more;
                    writer.restore(slot - shift, *before, current, &old);
                    live -= i64::from(before.is_deleted());
                }
                LeafOp::Delete { before, .. } => {
                    writer.restore(slot - shift, *before, current, current);
                    live += 1;
                }
                LeafOp::Remove { .. } | LeafOp::Restore { .. } => {
                    return Err(self.undo_failed(
                        db,
                        &leaf,
                        "a compensation cannot be rolled back",
                    ));
                }
            }
            seen.push(key);
            left -= 1;
        }
        if seen.is_empty() {
            // The old entry no longer fits, for nobody kept its room: split, then try again.
            drop(leaf);
            self.make_room_for_undo(db, key, last)?;
            return Ok(list.len());
        }
        writer.finish();
        let mut position = Vec::new();
        next(left).write(&mut position);
        body[undo_at..undo_at + position.len()].copy_from_slice(&position);
        leaf.prepare(&db.store().log);
        let lsn = state.append_as(db, body, AppendKind::Completion)?;
        db.shrink_notes().forget_found(leaf.id());
        let rest = record::parse_clr(&body[RECORD_HEADER_BYTES..]).map(|(_, rest)| rest);
        let ops = rest
            .and_then(Ops::parse)
            .ok_or_else(|| self.undo_failed(db, &leaf, "unreadable compensation"))?;
        if let Err(what) = redo::apply_ops(&mut leaf, &ops, state.id()) {
            panic!(
                "applying a planned compensation to page {}: {what}",
                leaf.id()
            );
        }
        leaf.set_lsn(lsn);
        let id = leaf.id();
        let is_empty = leaf.slots() == 0 && id != self.id().0;
        drop(leaf);
        if is_empty {
            db.note_dead(self, key.to_vec());
        }
        state.note_work(self.id(), id, key, key, live);
        self.add_count(live);
        Ok(left)
    }
}

fn inside(leaf: &crate::page::Page, key: &[u8]) -> bool {
    leaf.slots() > 0 && key >= leaf.key(0) && key <= leaf.key(leaf.slots() - 1)
}

/// Size of the payload before an update, to know how much room its restoration needs.
pub fn payload_before(current: &[u8], delta: &delta::Delta<'_>) -> usize {
    let mut old = Vec::new();
    delta.revert(current, &mut old).map_or(0, |()| old.len())
}
