//! Crash recovery: reads the log once from the last checkpoint's redo start, repeats history, and finds the losers.
//!
//! | found at start | done |
//! |---|---|
//! | torn page in the doublewrite batch | restored from the doublewrite area (`FileSet::restore_torn`) |
//! | torn boot page | the other copy is used |
//! | bad last block of the log | ends the log |
//! | bad block, but a later one proves it was hard | refused: `DamagedLog` |
//! | record newer than its page | applied |
//! | record not newer than its page | ignored |
//! | transaction without commit or end | rolled back (`undo`), with compensation records |
//! | deferred free of a committed transaction | carried out in the background |
//! | page damaged outside the doublewrite batch | refused: `BadPage`; the other databases come up |

use crate::buffer::{Pool, Store};
use crate::bytes::Reader;
use crate::error::{Result, StorageError};
use crate::log::record::{self, Checkpoint, Kind, Ops, PageAction, Record, Space};
use crate::redo;
use crate::undo::parse_clr_space;
use daruma_base::{Lsn, PageId, TxnId};
use std::collections::{BTreeMap, BTreeSet};

/// A transaction to be rolled back.
#[derive(Clone, Copy, Debug)]
pub struct Loser {
    pub id: TxnId,
    pub first: Lsn,
    pub last: Lsn,
}

pub struct Recovered {
    /// In order of their last records.
    pub losers: Vec<Loser>,
    pub pending: Vec<Space>,
    pub next_txn: u64,
    pub end: Lsn,
    pub rolled_forward: u64,
    pub log_bytes: u64,
}

#[derive(Default)]
struct Analysis {
    active: BTreeMap<TxnId, Loser>,
    ended: BTreeSet<TxnId>,
    defers: BTreeMap<TxnId, Vec<Space>>,
    pending: Vec<Space>,
    done: BTreeSet<Space>,
    next_txn: u64,
    committed: u64,
}

/// Repeats history from the redo start on.
pub fn redo(pool: &Pool, store: &Store) -> Result<Recovered> {
    let boot = store.files.boot();
    let mut cursor = store.log.cursor(boot.redo_start)?;
    let mut analysis = Analysis::default();
    let mut saw_checkpoint = false;
    while let Some(block) = cursor.next()? {
        for (lsn, bytes) in block.records() {
            let record =
                Record::parse(bytes).ok_or_else(|| damaged(store, lsn, "unreadable record"))?;
            analysis
                .note(lsn, block.lsn, &record)
                .ok_or_else(|| damaged(store, lsn, "unreadable record body"))?;
            if record.kind == Kind::Checkpoint {
                saw_checkpoint |= lsn == boot.checkpoint;
            }
            redo_record(pool, store, block.lsn, lsn, &record)?;
        }
    }
    if !saw_checkpoint {
        return Err(damaged(
            store,
            boot.checkpoint,
            "the log ends before the last checkpoint",
        ));
    }
    let end = cursor.position();
    let mut losers: Vec<Loser> = analysis.active.into_values().collect();
    losers.sort_by_key(|l| l.last);
    Ok(Recovered {
        losers,
        pending: analysis.pending,
        next_txn: analysis.next_txn,
        end,
        rolled_forward: analysis.committed,
        log_bytes: end.0 - boot.redo_start.0,
    })
}

fn damaged(store: &Store, lsn: Lsn, what: &str) -> StorageError {
    StorageError::DamagedLog {
        path: store.files.path(1),
        lsn,
        what: what.into(),
    }
}

impl Analysis {
    /// Follows transactions and deferred frees through one record.
    fn note(&mut self, lsn: Lsn, block: Lsn, record: &Record<'_>) -> Option<()> {
        if record.txn != TxnId::NONE {
            self.next_txn = self.next_txn.max(record.txn.0 + 1);
        }
        match record.kind {
            Kind::Commit => {
                self.end(record.txn);
                self.committed += 1;
                let freed = self.defers.remove(&record.txn).unwrap_or_default();
                self.pending.extend(freed);
            }
            Kind::End => {
                self.end(record.txn);
                self.defers.remove(&record.txn);
            }
            Kind::Checkpoint => self.checkpoint(Checkpoint::parse(record.body)?),
            Kind::FreeDone => {
                let space = Space::read(&mut Reader::new(record.body))?;
                self.pending.retain(|s| *s != space);
                self.done.insert(space);
            }
            Kind::System => {}
            Kind::Ops | Kind::Clr | Kind::Owned | Kind::Defer | Kind::ClrSpace => {
                let loser = self.active.entry(record.txn).or_insert(Loser {
                    id: record.txn,
                    first: block,
                    last: lsn,
                });
                loser.last = lsn;
                self.note_space(record)?;
            }
        }
        Some(())
    }

    fn note_space(&mut self, record: &Record<'_>) -> Option<()> {
        match record.kind {
            Kind::Defer => {
                let space = Space::read(&mut Reader::new(record.body))?;
                self.defers.entry(record.txn).or_default().push(space);
            }
            Kind::ClrSpace => {
                let (_, rest) = record::parse_clr(record.body)?;
                let (owned, space) = parse_clr_space(rest)?;
                if owned {
                    self.pending.push(space);
                    self.done.remove(&space);
                } else if let Some(defers) = self.defers.get_mut(&record.txn) {
                    defers.retain(|s| *s != space);
                }
            }
            Kind::Owned => {
                // The page has a new life: what was done to its space before does not count any more.
                self.done
                    .remove(&Space::read(&mut Reader::new(record.body))?);
            }
            _ => {}
        }
        Some(())
    }

    fn end(&mut self, id: TxnId) {
        self.active.remove(&id);
        self.ended.insert(id);
    }

    /// Adds what the checkpoint knew, unless the log read so far says that it is over.
    fn checkpoint(&mut self, checkpoint: Checkpoint) {
        self.next_txn = self.next_txn.max(checkpoint.next_txn);
        for txn in checkpoint.active {
            if self.ended.contains(&txn.id) || txn.last == Lsn::NONE {
                continue;
            }
            let loser = self.active.entry(txn.id).or_insert(Loser {
                id: txn.id,
                first: txn.first,
                last: txn.last,
            });
            loser.first = loser.first.min(txn.first);
            loser.last = loser.last.max(txn.last);
            let defers = self.defers.entry(txn.id).or_default();
            txn.defers.into_iter().for_each(|s| {
                if !defers.contains(&s) {
                    defers.push(s)
                }
            });
        }
        for space in checkpoint.pending_frees {
            if !self.done.contains(&space) && !self.pending.contains(&space) {
                self.pending.push(space);
            }
        }
    }
}

fn redo_record(
    pool: &Pool,
    store: &Store,
    block: Lsn,
    lsn: Lsn,
    record: &Record<'_>,
) -> Result<()> {
    let unreadable = || damaged(store, lsn, "unreadable record body");
    match record.kind {
        Kind::Ops => redo_ops(pool, store, block, lsn, record.txn, record.body),
        Kind::Clr => {
            let (_, ops) = record::parse_clr(record.body).ok_or_else(unreadable)?;
            redo_ops(pool, store, block, lsn, record.txn, ops)
        }
        Kind::System => redo_parts(pool, store, block, lsn, record.body),
        Kind::Owned | Kind::FreeDone => redo_parts(
            pool,
            store,
            block,
            lsn,
            record
                .body
                .get(record::SPACE_BYTES..)
                .ok_or_else(unreadable)?,
        ),
        Kind::Defer | Kind::Commit | Kind::End | Kind::Checkpoint | Kind::ClrSpace => Ok(()),
    }
}

fn redo_ops(
    pool: &Pool,
    store: &Store,
    block: Lsn,
    lsn: Lsn,
    txn: TxnId,
    body: &[u8],
) -> Result<()> {
    let ops = Ops::parse(body).ok_or_else(|| damaged(store, lsn, "unreadable leaf operations"))?;
    store.files.ensure_size(ops.page)?;
    let mut page = pool.write(store, ops.page)?;
    if page.lsn() >= lsn {
        return Ok(());
    }
    page.prepare_at(block);
    redo::apply_ops(&mut page, &ops, txn).map_err(|what| refused(store, ops.page, what))?;
    page.set_lsn(lsn);
    Ok(())
}

fn redo_parts(pool: &Pool, store: &Store, block: Lsn, lsn: Lsn, body: &[u8]) -> Result<()> {
    // Several parts of one record may change one page; whether it needs them is decided at the first.
    let mut decided: Vec<(PageId, bool)> = Vec::new();
    for part in record::parts(body) {
        let (id, action) = part.ok_or_else(|| damaged(store, lsn, "unreadable page parts"))?;
        store.files.ensure_size(id)?;
        let mut page = match action {
            PageAction::Image(_) => pool.write_new(store, id)?,
            _ => pool.write(store, id)?,
        };
        let needed = match decided.iter().find(|(page, _)| *page == id) {
            Some((_, needed)) => *needed,
            None => {
                decided.push((id, page.lsn() < lsn));
                page.lsn() < lsn
            }
        };
        if !needed {
            continue;
        }
        page.prepare_at(block);
        redo::apply_part(&mut page, id, &action).map_err(|what| refused(store, id, what))?;
        page.set_lsn(lsn);
    }
    Ok(())
}

fn refused(store: &Store, page: PageId, what: &str) -> StorageError {
    StorageError::DamagedPage {
        page,
        path: store.files.path(page.file),
        what: format!("redo: {what}"),
    }
}
