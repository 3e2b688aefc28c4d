//! Logical revert: aborted transactions whose entries are still in the trees, and putting the committed state back.
//!
//! Theory (Antonopoulos et al., Constant Time Recovery in Azure SQL Database, VLDB 2019): rollback marks the
//! transaction as aborted and lets go of its locks. From then on an entry with its id counts for nothing, and readers
//! follow the version before it. A writer that meets such an entry puts the committed state back first, for the whole
//! leaf. In the background the reverter visits the key ranges the transaction wrote (`work`), leaf by leaf, and at the
//! end the transaction is forgotten.
//!
//! Latches: the active transactions, then the map.
//!
//! Invariants
//! 1. A transaction is in the map before its locks go, and in every checkpoint until its `Forget` record.
//! 2. It is forgotten only when no entry carries its id; its versions are dropped and its space is freed after that.
//! 3. Reverting a leaf is one record, redo only, and needs no transaction: repeating it finds nothing to do.

use crate::alloc;
use crate::api::{AbortedInfo, TreeId};
use crate::buffer::PageWrite;
use crate::database::{Database, Task};
use crate::error::Result;
use crate::log::AppendKind;
use crate::log::record::{self, Kind, Ops, OpsWriter, RECORD_HEADER_BYTES, Space};
use crate::page::{Head, Page, PageType};
use crate::pause::pause;
use crate::planted::{Bug, planted};
use crate::status::{After, TxnStatus};
use crate::sync::Mutex;
use crate::tree::Tree;
use crate::txn::Progress;
use crate::work::Range;
use daruma_base::{Lsn, TxnId};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Leaves reverted in one background step.
const LEAVES_PER_STEP: usize = 512;
/// A record of reverted entries is closed before it grows beyond this.
const REVERT_BYTES_MAX: usize = 40_000;
/// Spaces named by one `Forget` record.
const FORGET_SPACES_MAX: usize = 4_000;

/// A transaction that was rolled back by a mark.
pub struct Aborted {
    pub progress: Arc<Progress>,
    pub abort_lsn: Lsn,
    pub chunks: Vec<u32>,
    /// Where the reverter is; held while it works on this transaction.
    position: Mutex<Position>,
    reverted: AtomicU64,
}

/// Ranges still to be visited, last first; the last one may be visited in part.
struct Position {
    left: Vec<(TreeId, Range)>,
}

impl Aborted {
    /// An aborted transaction with every key range it wrote still to be reverted.
    pub fn new(progress: Arc<Progress>, abort_lsn: Lsn, chunks: Vec<u32>) -> Aborted {
        let left = {
            let work = progress.work.lock();
            let all = work
                .trees
                .iter()
                .flat_map(|(tree, work)| work.ranges.iter().map(|r| (*tree, r.clone())));
            all.collect()
        };
        Aborted {
            progress,
            abort_lsn,
            chunks,
            position: Mutex::new(Position { left }),
            reverted: AtomicU64::new(0),
        }
    }
}

/// The aborted transaction map, with what was done so far.
#[derive(Default)]
pub struct AbortedMap {
    pub map: Mutex<BTreeMap<TxnId, Arc<Aborted>>>,
    pub rows: AtomicU64,
    pub pages: AtomicU64,
    pub sweeps: crate::pins::Sweeps,
}

impl Database {
    /// One round of the reverter; true when there may be more to do. Several threads may call it: each takes a
    /// transaction of its own. One that failed lets the others go first.
    pub fn revert_step(&self) -> Result<bool> {
        let Some(_open) = self.stay_open() else {
            return Ok(false);
        };
        let candidates: Vec<Arc<Aborted>> = self.aborted().map.lock().values().cloned().collect();
        for aborted in candidates {
            let task = Task::Revert(aborted.progress.id);
            if !self.is_due(task) {
                continue;
            }
            let Some(mut position) = aborted.position.try_lock() else {
                continue;
            };
            if !self.aborted().map.lock().contains_key(&aborted.progress.id) {
                continue;
            }
            return self.attempt(task, || {
                if self.revert_some(&aborted, &mut position)? {
                    self.forget(&aborted)?;
                }
                Ok(true)
            });
        }
        Ok(false)
    }

    /// Visits some leaves; true when nothing is left of the transaction.
    fn revert_some(&self, aborted: &Aborted, position: &mut Position) -> Result<bool> {
        if planted(Bug::ForgetAborted) {
            return Ok(true);
        }
        let _no_reclaim = self.no_reclaim();
        let mut budget = LEAVES_PER_STEP;
        while let Some((tree, range)) = position.left.pop() {
            let rest = match self.revert_in(aborted, tree, &range, &mut budget) {
                Ok(rest) => rest,
                Err(error) => {
                    // Not visited to its end: until it is, the transaction may not be forgotten.
                    position.left.push((tree, range));
                    return Err(error);
                }
            };
            if let Some(low) = rest {
                let high = range.high;
                position.left.push((tree, Range { low, high }));
                return Ok(false);
            }
            if budget == 0 {
                break;
            }
        }
        Ok(position.left.is_empty())
    }

    /// Visits leaves of one tree; the key to go on from when the budget ended it.
    fn revert_in(
        &self,
        aborted: &Aborted,
        tree: TreeId,
        range: &Range,
        budget: &mut usize,
    ) -> Result<Option<Vec<u8>>> {
        if !self.is_tree(tree)? {
            return Ok(None);
        }
        let found = self.tree(tree)?;
        found.revert_range(self, range, budget, &aborted.reverted)
    }

    /// Is there (still) a tree of that name? A tree that the transaction or a later one dropped may be gone. A root
    /// that cannot be read says nothing of the kind, nor does what a free page holds.
    pub(crate) fn is_tree(&self, tree: TreeId) -> Result<bool> {
        let (map, bit) = alloc::bit_of(tree.0);
        let map = self.pool().read(self.store(), map)?;
        if !alloc::get_bit(&map, bit) {
            return Ok(false);
        }
        drop(map);
        let page = self.pool().read(self.store(), tree.0)?;
        Ok(page.page_type() == Some(PageType::Tree) && page.tree() == tree.0)
    }

    /// Nothing carries the transaction's id any more: its space is freed, its versions are dropped.
    fn forget(&self, aborted: &Aborted) -> Result<()> {
        let id = aborted.progress.id;
        let spaces = aborted.progress.owned.lock().clone();
        let mut forgotten = Lsn::NONE;
        {
            // Not between the parts of a checkpoint, nor a checkpoint between these parts.
            let _no_checkpoint = self.no_checkpoint();
            let mut pieces: Vec<&[Space]> = spaces.chunks(FORGET_SPACES_MAX).collect();
            if pieces.is_empty() {
                pieces.push(&[]);
            }
            let last = pieces.len() - 1;
            for (i, piece) in pieces.into_iter().enumerate() {
                let mut body = Vec::new();
                record::start(&mut body, Kind::Forget, id, Lsn::NONE);
                record::write_forget(&mut body, i == last, piece);
                record::finish(&mut body);
                forgotten = self.store().log.append(&body, AppendKind::Completion)?;
            }
            // In this order: a check finds the space at every moment in one place or the other.
            self.add_pending(After::Moment(self.txns().moment()), spaces);
            pause("aborted.forgetting");
            self.aborted().map.lock().remove(&id);
        }
        self.versions().release(forgotten);
        self.txns().gone(id);
        self.discard_versions(&aborted.chunks);
        self.advance_watermark();
        Ok(())
    }

    pub(crate) fn is_reverting(&self, id: TxnId) -> bool {
        id >= self.txns().base() && self.txns().status(id) == TxnStatus::Aborted
    }

    /// Was an entry of an aborted transaction there before? Who cannot tell says yes.
    pub(crate) fn was_there_before(&self, mut head: Head) -> bool {
        while self.is_reverting(head.writer) {
            match self.version(head.version) {
                _ if head.version == 0 => return false,
                Ok(Some(version)) => head = version.head,
                _ => return true,
            }
        }
        !head.is_deleted()
    }

    /// Aborted transactions that are not reverted yet.
    pub fn aborted_transactions(&self) -> Vec<AbortedInfo> {
        let map = self.aborted().map.lock();
        let describe = |a: &Arc<Aborted>| AbortedInfo {
            id: a.progress.id,
            first_lsn: a.progress.first,
            abort_lsn: a.abort_lsn,
            begun_utc_100ns: a.progress.begun_utc_100ns,
            is_nested: a.progress.is_nested.load(Ordering::Relaxed),
            trees: a.progress.work.lock().trees.keys().copied().collect(),
            reverted_rows: a.reverted.load(Ordering::Relaxed),
        };
        map.values().map(describe).collect()
    }
}

/// Committed state that an aborted entry goes back to.
enum Before {
    Absent,
    Entry(Head, Vec<u8>),
}

impl Tree {
    /// Reverts the entries of aborted transactions in a range, at most `budget` leaves. `Some(low)`: go on there.
    fn revert_range(
        self: &Arc<Self>,
        db: &Database,
        range: &Range,
        budget: &mut usize,
        reverted: &AtomicU64,
    ) -> Result<Option<Vec<u8>>> {
        let mut low = range.low.clone();
        loop {
            let mut leaf = self.leaf_for_undo(db, &low)?;
            match self.revert_leaf(db, &mut leaf)? {
                Reverted::All(rows) => {
                    reverted.fetch_add(rows, Ordering::Relaxed);
                }
                Reverted::NoRoom { key, more } => {
                    drop(leaf);
                    self.make_room(db, &key, more, AppendKind::Completion)?;
                    low = key;
                    continue;
                }
            }
            self.note_if_emptied(db, leaf, &low);
            match self.key_behind(db, &low)? {
                Some(next) if next <= range.high => low = next,
                _ => return Ok(None),
            }
            *budget = budget.saturating_sub(1);
            if *budget == 0 {
                return Ok(Some(low));
            }
        }
    }

    /// The leaf, which covers `key`, goes back to its file if nothing is left in it. Also one that was empty before: a crash forgets
    /// what was noted.
    fn note_if_emptied(&self, db: &Database, leaf: PageWrite<'_>, key: &[u8]) {
        let is_empty = leaf.slots() == 0 && leaf.id() != self.id().0;
        drop(leaf);
        if is_empty {
            db.note_dead(self, key.to_vec());
        }
    }

    /// A writer met an entry of an aborted transaction: its leaf is put right.
    pub(crate) fn revert_leaf_of(self: &Arc<Self>, db: &Database, key: &[u8]) -> Result<()> {
        loop {
            let mut leaf = self.leaf_for_undo(db, key)?;
            match self.revert_leaf(db, &mut leaf)? {
                Reverted::All(_) => {
                    self.note_if_emptied(db, leaf, key);
                    return Ok(());
                }
                Reverted::NoRoom { key, more } => {
                    drop(leaf);
                    self.make_room(db, &key, more, AppendKind::Completion)?;
                }
            }
        }
    }

    /// Puts back the committed state of all entries of aborted transactions on a leaf.
    fn revert_leaf(&self, db: &Database, leaf: &mut PageWrite<'_>) -> Result<Reverted> {
        let mut rows = 0;
        loop {
            let plan = self.plan_revert(db, leaf)?;
            if plan.count == 0 {
                return Ok(match plan.no_room {
                    Some((key, more)) => Reverted::NoRoom { key, more },
                    None => {
                        db.aborted().rows.fetch_add(rows, Ordering::Relaxed);
                        db.aborted()
                            .pages
                            .fetch_add(u64::from(rows > 0), Ordering::Relaxed);
                        Reverted::All(rows)
                    }
                });
            }
            rows += plan.count as u64;
            leaf.prepare(&db.store().log);
            let lsn = db
                .store()
                .log
                .append(&plan.record, AppendKind::Completion)?;
            db.shrink_notes().forget_found(leaf.id());
            let applied = Ops::parse(&plan.record[RECORD_HEADER_BYTES..])
                .ok_or("unreadable record")
                .and_then(|ops| crate::redo::apply_ops(leaf, &ops, TxnId::NONE));
            if let Err(what) = applied {
                panic!("applying a planned revert to page {}: {what}", leaf.id());
            }
            leaf.set_lsn(lsn);
        }
    }

    /// The operations that revert as many entries of the leaf as fit one record and the page.
    fn plan_revert(&self, db: &Database, leaf: &Page) -> Result<RevertPlan> {
        let mut plan = RevertPlan {
            record: Vec::new(),
            count: 0,
            no_room: None,
        };
        record::start(&mut plan.record, Kind::Revert, TxnId::NONE, Lsn::NONE);
        let mut writer = OpsWriter::new(&mut plan.record, leaf.id(), self.id().0);
        let (mut removed, mut free) = (0, leaf.free_bytes());
        let mut last: Option<(TxnId, bool)> = None;
        for slot in 0..leaf.slots() {
            let head = leaf.head(slot);
            let aborted = match last {
                Some((writer, aborted)) if writer == head.writer => aborted,
                _ => db.is_reverting(head.writer),
            };
            last = Some((head.writer, aborted));
            if !aborted {
                continue;
            }
            if writer.len() > REVERT_BYTES_MAX {
                break;
            }
            match before(db, leaf, head)? {
                Before::Absent => {
                    writer.remove(slot - removed);
                    removed += 1;
                }
                Before::Entry(head, payload) => {
                    let current = leaf.payload(slot);
                    let more = payload.len().saturating_sub(current.len());
                    if more > free {
                        // The first one: the caller goes on from there, and everything before it is done.
                        let no_room = (leaf.key(slot).to_vec(), more);
                        plan.no_room.get_or_insert(no_room);
                        continue;
                    }
                    free -= more;
                    writer.restore(slot - removed, head, current, &payload);
                }
            }
        }
        plan.count = writer.count();
        writer.finish();
        Ok(plan)
    }
}

struct RevertPlan {
    record: Vec<u8>,
    count: usize,
    /// The first entry whose old payload does not fit: its key, and the bytes missing.
    no_room: Option<(Vec<u8>, usize)>,
}

enum Reverted {
    All(u64),
    NoRoom { key: Vec<u8>, more: usize },
}

/// The newest state of an entry that is not of an aborted transaction.
fn before(db: &Database, leaf: &Page, mut head: Head) -> Result<Before> {
    let mut payload = None;
    while db.is_reverting(head.writer) {
        if head.version == 0 {
            return Ok(Before::Absent);
        }
        let version = db
            .version(head.version)?
            .ok_or_else(|| db.missing_version(leaf.id()))?;
        head = version.head;
        payload = Some(version.payload);
    }
    Ok(match payload {
        Some(payload) => Before::Entry(head, payload),
        None => Before::Absent,
    })
}
