//! Crash recovery: reads the log from the last checkpoint's redo start, finds the losers (analysis), and repeats
//! history (redo). The caller rolls the losers back.
//!
//! Theory: ARIES (Mohan et al., 1992), with logical revert for accelerated transactions (`revert`). Analysis comes
//! first, so that redo knows for which transactions it has to rebuild versions: only for losers, for no snapshot
//! survives a restart. Both passes are bounded by the checkpoints, not by the length of any transaction; a restore reads all of
//! the log that it was given, and remembers of it no more than what ended since the last checkpoint but one.
//!
//! | found at start | done |
//! |---|---|
//! | torn page in the doublewrite batch | restored from the doublewrite area (`FileSet::restore_torn`) |
//! | torn boot page | the other copy is used |
//! | bad last block of the log | ends the log |
//! | blocks of which no later one says that they are hard | written once more and synced (`Log::write_again`) |
//! | bad block, but a later one, or the boot page, proves it was hard | refused: `DamagedLog` |
//! | record newer than its page | applied |
//! | record not newer than its page | ignored |
//! | classic transaction without commit or end | rolled back (`undo`), with compensation records |
//! | accelerated transaction without commit or end | marked as aborted, reverted in the background (`revert`) |
//! | its change is redone | its version is rebuilt from the page as it was |
//! | its change is on disk already | its version is on its pages: the log had them before |
//! | fewer frames than pages that wait for versions | those pages are put aside until the versions are placed (`aside`) |
//! | prepared transaction without commit or end | its coordinator is asked (`coordinator`) |
//! | deferred free of a committed transaction | carried out in the background |
//! | page damaged outside the doublewrite batch | refused: `BadPage`; the other databases come up |

use crate::buffer::{Pool, Store};
use crate::bytes::Reader;
use crate::coordinator::{Outcome, ResolvedUnit};
use crate::database::Database;
use crate::error::{Result, StorageError};
use crate::log::record::{self, Abort, Checkpoint, Fact, Kind, LeafOp, Ops, Record, Space};
use crate::log::{AppendKind, CommitPoint, commit};
use crate::page::{Head, PAGE_BYTES, Page};
use crate::planted::{Bug, planted};
use crate::redo;
use crate::undo::parse_clr_space;
use crate::unit::{Decision, Unit, UnitKey};
use crate::work::Work;
use daruma_base::{Lsn, PageId, TxnId, reached};
use std::collections::{BTreeMap, BTreeSet};

/// A transaction that has not ended.
#[derive(Clone, Debug, Default)]
pub struct Loser {
    pub id: TxnId,
    pub first: Lsn,
    pub last: Lsn,
    pub is_accelerated: bool,
    /// It had been rolled back by a mark before the crash.
    pub is_aborted: bool,
    pub abort: Abort,
    pub owned: Vec<Space>,
    pub work: Work,
    pub chunks: Vec<u32>,
}

impl Loser {
    /// A value that a record or a checkpoint states replaces one that was concluded from other records.
    fn know(&mut self, abort: Abort) {
        if abort.begun_utc_100ns != 0 {
            self.abort.begun_utc_100ns = abort.begun_utc_100ns;
        }
        self.abort.is_nested |= abort.is_nested;
    }
}

/// A chunk of versions on pages.
pub struct PlacedChunk {
    pub id: u32,
    pub txn: TxnId,
    pub pages: Vec<PageId>,
}

/// Outcome of analysis and redo, which the open database goes on with.
pub struct Recovered {
    /// In order of their last records.
    pub losers: Vec<Loser>,
    pub pending: Vec<Space>,
    pub chunks: Vec<PlacedChunk>,
    pub next_txn: u64,
    pub end: Lsn,
    pub rolled_forward: u64,
    pub log_bytes: u64,
    pub last_commit: CommitPoint,
    /// Decisions of this database for others, which these may not have on disk.
    pub decisions: Vec<Decision>,
    pub resolved: Vec<ResolvedUnit>,
}

/// Asks how a prepared transaction ended.
pub type Ask<'a> = &'a dyn Fn(&Unit) -> Result<Outcome>;

/// Transactions that a checkpoint may list although a record before the checkpoint has ended them: the list was made before
/// the record. No list tells what was ended before the checkpoint began (`database::checkpoint`, invariant 2), so what was
/// put in before the last checkpoint but one is let go of, or a restore of a year of log would need memory for all its
/// transactions.
struct Recent<T> {
    /// Since the last checkpoint.
    new: BTreeSet<T>,
    /// Between the one before and the last.
    old: BTreeSet<T>,
}

impl<T: Ord> Default for Recent<T> {
    fn default() -> Recent<T> {
        let (new, old) = Default::default();
        Recent { new, old }
    }
}

impl<T: Ord> Recent<T> {
    fn insert(&mut self, one: T) {
        self.new.insert(one);
    }

    fn remove(&mut self, one: &T) {
        self.new.remove(one);
        self.old.remove(one);
    }

    fn contains(&self, one: &T) -> bool {
        self.new.contains(one) || self.old.contains(one)
    }

    /// A checkpoint has been read to its end.
    fn turn(&mut self) {
        self.old = std::mem::take(&mut self.new);
    }
}

#[derive(Default)]
struct Analysis {
    active: BTreeMap<TxnId, Loser>,
    ended: Recent<TxnId>,
    committed_ids: Recent<TxnId>,
    rolled_forward: u64,
    defers: BTreeMap<TxnId, Vec<Space>>,
    /// Defers taken back by a rollback to a savepoint.
    forgotten: Recent<(TxnId, Space)>,
    pending: Vec<Space>,
    done: Recent<Space>,
    /// Spaces named by `Forget` records whose last part is still to come. Each once: after a crash between two parts the
    /// reverter begins with the first again, and what is freed twice may be somebody else's the second time.
    forgetting: BTreeMap<TxnId, BTreeSet<Space>>,
    chunks: BTreeMap<u32, PlacedChunk>,
    freed_chunks: Recent<u32>,
    next_txn: u64,
    last_commit: CommitPoint,
    saw_checkpoint: bool,
    /// With the number of checkpoints read when it was last heard of.
    decisions: BTreeMap<UnitKey, (Decision, u64)>,
    checkpoints: u64,
    /// Ids that wait for the decision of their coordinator.
    prepared: BTreeMap<TxnId, Unit>,
    /// Ids that wrote after they were prepared: they are being rolled back.
    given_up: Recent<TxnId>,
}

/// First pass: what the log says about transactions. `decided` is told what this database has decided for others before
/// anybody is asked: those who ask each other at the same time need not wait for each other's answers.
pub fn analyse(store: &Store, decided: &dyn Fn(Vec<Decision>), ask: Ask<'_>) -> Result<Recovered> {
    let boot = store.files.boot();
    let mut cursor = store.log.cursor(boot.redo_start)?;
    let mut analysis = Analysis {
        last_commit: boot.last_commit,
        ..Analysis::default()
    };
    let mut hard = boot.redo_start;
    while let Some(block) = cursor.next()? {
        hard = hard.max(block.hardened_before());
        for (lsn, bytes) in block.records() {
            let record =
                Record::parse(bytes).ok_or_else(|| damaged(store, lsn, "unreadable record"))?;
            analysis.saw_checkpoint |= record.kind == Kind::Checkpoint && lsn == boot.checkpoint;
            analysis
                .note(lsn, block.lsn, &record)
                .ok_or_else(|| damaged(store, lsn, "unreadable record body"))?;
        }
    }
    if !analysis.saw_checkpoint {
        return Err(damaged(
            store,
            boot.checkpoint,
            "the log ends before the last checkpoint",
        ));
    }
    let end = cursor.position();
    if end < boot.hard {
        reached!("log.end.before_hard");
        let what = "the log ends before a position up to which it had been written safely";
        return Err(damaged(store, end, what));
    }
    if !boot.clean && hard < end {
        store.log.write_again(hard)?;
    }
    let decisions = analysis.decisions.values();
    decided(decisions.map(|(decision, _)| decision.clone()).collect());
    let resolved = analysis.resolve(ask)?;
    Ok(analysis.finish(resolved, end, end.0 - boot.redo_start.0))
}

/// Second pass: repeats history, and rebuilds versions and work lists of accelerated losers. `at_block` is told of each
/// block of the log; what it refuses ends the recovery.
pub fn redo(
    pool: &Pool,
    store: &Store,
    recovered: &mut Recovered,
    at_block: &dyn Fn(Lsn) -> Result<()>,
) -> Result<()> {
    let accelerated = recovered.losers.iter().filter(|l| l.is_accelerated);
    let losers: BTreeMap<TxnId, Work> = accelerated.map(|l| (l.id, l.work.clone())).collect();
    let mut redo = Redo {
        pool,
        store,
        losers,
        placed: BTreeSet::new(),
        versions_bytes_max: (pool.frame_count() * PAGE_BYTES / 4) as u64,
    };
    // Their pages are on disk, or redo brings them: what depends on them may be written at once.
    for chunk in &recovered.chunks {
        if redo.losers.contains_key(&chunk.txn) {
            let pages = chunk.pages.clone();
            store.versions.restore_chunk(chunk.id, chunk.txn, pages);
            redo.placed.insert(chunk.id);
        }
    }
    let mut cursor = store.log.cursor(store.files.boot().redo_start)?;
    while let Some(block) = cursor.next()? {
        at_block(block.lsn)?;
        for (lsn, bytes) in block.records() {
            let record =
                Record::parse(bytes).ok_or_else(|| damaged(store, lsn, "unreadable record"))?;
            redo.record(block.lsn, lsn, &record)?;
        }
    }
    let mut chunks: BTreeMap<TxnId, Vec<u32>> = BTreeMap::new();
    for chunk in store.versions.all_chunks() {
        chunks.entry(chunk.txn).or_default().push(chunk.id);
    }
    for loser in &mut recovered.losers {
        if let Some(work) = redo.losers.remove(&loser.id) {
            loser.work = work;
            for space in &loser.owned {
                if let Space::Tree(root) = space {
                    loser.work.own(crate::api::TreeId(*root));
                }
            }
            loser.chunks = chunks.remove(&loser.id).unwrap_or_default();
        }
    }
    Ok(())
}

/// Logs the commits of prepared transactions, so that nobody has to be asked again.
pub fn log_commits(db: &Database, resolved: &[ResolvedUnit]) -> Result<()> {
    let committed = resolved.iter().filter(|r| r.outcome != Outcome::RolledBack);
    for ResolvedUnit { ids, .. } in committed {
        let Some((last, earlier)) = ids.split_last() else {
            continue;
        };
        let utc_100ns = db.env().clock.utc_100ns();
        let mut body = Vec::new();
        record::start(&mut body, Kind::Commit, *last, Lsn::NONE);
        commit::write_commit(&mut body, utc_100ns, None, earlier.iter().copied());
        record::finish(&mut body);
        let log = &db.store().log;
        let lsn = log.append(&body, AppendKind::Completion)?;
        log.set_last_commit(CommitPoint { lsn, utc_100ns });
    }
    Ok(())
}

fn damaged(store: &Store, lsn: Lsn, what: &str) -> StorageError {
    StorageError::DamagedLog {
        path: store.files.path(1),
        lsn,
        what: what.into(),
    }
}

impl Analysis {
    /// Prepared transactions are committed or lost from here on, as their coordinators say.
    fn resolve(&mut self, ask: Ask<'_>) -> Result<Vec<ResolvedUnit>> {
        let mut units: BTreeMap<Unit, Vec<TxnId>> = BTreeMap::new();
        for (id, unit) in std::mem::take(&mut self.prepared) {
            if self.active.contains_key(&id) {
                units.entry(unit).or_default().push(id);
            }
        }
        let mut resolved = Vec::new();
        for (unit, ids) in units {
            let outcome = ask(&unit)?;
            if outcome != Outcome::RolledBack {
                reached!("recovery.prepared.committed");
                ids.iter().for_each(|id| self.committed(*id));
                self.rolled_forward += 1;
            }
            resolved.push(ResolvedUnit { unit, ids, outcome });
        }
        Ok(resolved)
    }

    fn committed(&mut self, id: TxnId) {
        self.end(id);
        self.committed_ids.insert(id);
        let freed = self.defers.remove(&id).unwrap_or_default();
        if !planted(Bug::ForgetPendingFree) {
            self.pending.extend(freed);
        }
    }

    fn finish(self, resolved: Vec<ResolvedUnit>, end: Lsn, log_bytes: u64) -> Recovered {
        let mut losers: Vec<Loser> = self.active.into_values().collect();
        losers.sort_by_key(|l| l.last);
        let chunks = self.chunks.into_iter();
        Recovered {
            losers,
            pending: self.pending,
            chunks: chunks.map(|(_, chunk)| chunk).collect(),
            next_txn: self.next_txn,
            end,
            rolled_forward: self.rolled_forward,
            log_bytes,
            last_commit: self.last_commit,
            decisions: self.decisions.into_values().map(|(d, _)| d).collect(),
            resolved,
        }
    }

    /// Follows transactions, deferred frees and version chunks through one record.
    fn note(&mut self, lsn: Lsn, block: Lsn, record: &Record<'_>) -> Option<()> {
        if record.txn != TxnId::NONE {
            self.next_txn = self.next_txn.max(record.txn.0 + 1);
        }
        match record.kind {
            Kind::Commit => {
                self.note_commit(lsn, record.body);
                let (decision, earlier) = commit::parse_commit(record)?;
                earlier
                    .chain([record.txn])
                    .for_each(|id| self.committed(id));
                decision.into_iter().for_each(|d| self.decided(d));
                self.rolled_forward += 1;
            }
            Kind::Prepare => {
                let (unit, earlier) = commit::parse_prepare(record.body)?;
                let ids = earlier.chain([record.txn]);
                self.prepared.extend(ids.map(|id| (id, unit)));
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
            Kind::Versions => {
                let (id, pages, _) = record::parse_versions(record.body)?;
                self.freed_chunks.remove(&id);
                let chunk = PlacedChunk {
                    id,
                    txn: record.txn,
                    pages,
                };
                self.chunks.insert(id, chunk);
            }
            Kind::VersionsFreed => {
                let (chunks, _) = record::parse_versions_freed(record.body)?;
                for chunk in chunks {
                    self.chunks.remove(&chunk);
                    self.freed_chunks.insert(chunk);
                }
            }
            Kind::Forget => self.forget(record)?,
            Kind::System | Kind::Revert => {}
            Kind::Ops | Kind::Clr | Kind::Owned | Kind::Defer | Kind::ClrSpace | Kind::Abort => {
                if self.prepared.remove(&record.txn).is_some() {
                    self.given_up.insert(record.txn);
                }
                // Its beginning has no time of its own: the last commit before it comes nearest.
                let begun_utc_100ns = self.last_commit.utc_100ns;
                let loser = self.active.entry(record.txn).or_insert_with(|| Loser {
                    id: record.txn,
                    first: block,
                    abort: Abort {
                        begun_utc_100ns,
                        ..Abort::default()
                    },
                    ..Loser::default()
                });
                loser.last = lsn;
                loser.is_accelerated |= record.accelerated;
                if record.kind == Kind::Abort {
                    loser.is_aborted = true;
                    loser.know(Abort::parse(record.body));
                }
                self.note_space(record)?;
            }
        }
        Some(())
    }

    fn note_commit(&mut self, lsn: Lsn, body: &[u8]) {
        if let Some(time) = body.first_chunk::<8>()
            && lsn > self.last_commit.lsn
        {
            self.last_commit = CommitPoint {
                lsn,
                utc_100ns: i64::from_le_bytes(*time),
            };
        }
    }

    fn note_space(&mut self, record: &Record<'_>) -> Option<()> {
        let id = record.txn;
        match record.kind {
            Kind::Defer => {
                let space = Space::read(&mut Reader::new(record.body))?;
                self.forgotten.remove(&(id, space));
                self.defers.entry(id).or_default().push(space);
            }
            Kind::ClrSpace => {
                let (_, rest) = record::parse_clr(record.body)?;
                let (owned, space) = parse_clr_space(rest)?;
                if owned {
                    self.pending.push(space);
                    self.done.remove(&space);
                    if let Some(loser) = self.active.get_mut(&id) {
                        loser.owned.retain(|s| *s != space);
                    }
                } else {
                    self.forgotten.insert((id, space));
                    if let Some(defers) = self.defers.get_mut(&id) {
                        defers.retain(|s| *s != space);
                    }
                }
            }
            Kind::Owned => {
                // The page has a new life: what was done to its space before does not count any more.
                let space = Space::read(&mut Reader::new(record.body))?;
                self.done.remove(&space);
                if record.accelerated
                    && let Some(loser) = self.active.get_mut(&id)
                {
                    loser.owned.push(space);
                }
            }
            _ => {}
        }
        Some(())
    }

    fn forget(&mut self, record: &Record<'_>) -> Option<()> {
        let (is_last, spaces) = record::parse_forget(record.body)?;
        self.forgetting
            .entry(record.txn)
            .or_default()
            .extend(spaces);
        if is_last {
            self.end(record.txn);
            self.defers.remove(&record.txn);
            let spaces = self.forgetting.remove(&record.txn).unwrap_or_default();
            for space in spaces {
                self.done.remove(&space);
                self.pending.push(space);
            }
        }
        Some(())
    }

    fn end(&mut self, id: TxnId) {
        self.active.remove(&id);
        self.prepared.remove(&id);
        self.ended.insert(id);
    }

    /// Adds what the checkpoint knew, unless the log read so far says that it is over.
    fn checkpoint(&mut self, checkpoint: Checkpoint) {
        self.next_txn = self.next_txn.max(checkpoint.next_txn);
        for fact in checkpoint.facts {
            self.fact(fact);
        }
        if checkpoint.is_last {
            self.let_go();
        }
    }

    /// No later checkpoint can speak of what is let go of here.
    fn let_go(&mut self) {
        self.ended.turn();
        self.committed_ids.turn();
        self.forgotten.turn();
        self.done.turn();
        self.freed_chunks.turn();
        self.given_up.turn();
        // What this checkpoint did not list, and no record since the one before made, nobody asks for any more.
        let now = self.checkpoints;
        self.decisions.retain(|_, (_, heard)| *heard == now);
        self.checkpoints += 1;
    }

    fn decided(&mut self, decision: Decision) {
        let heard = (decision, self.checkpoints);
        self.decisions.insert(heard.0.key(), heard);
    }

    fn fact(&mut self, fact: Fact) {
        match fact {
            Fact::Txn {
                id,
                first,
                last,
                accelerated,
                aborted,
                abort,
            } => {
                if self.ended.contains(&id) || last == Lsn::NONE {
                    return;
                }
                let loser = self.active.entry(id).or_insert_with(|| Loser {
                    id,
                    first,
                    ..Loser::default()
                });
                loser.first = loser.first.min(first);
                loser.last = loser.last.max(last);
                loser.is_accelerated |= accelerated;
                loser.is_aborted |= aborted;
                loser.know(abort);
            }
            Fact::Defer { id, space } if self.forgotten.contains(&(id, space)) => {}
            Fact::Defer { id, space } if self.committed_ids.contains(&id) => {
                // The commit stands before the checkpoint that says what it frees.
                self.fact(Fact::Pending(space));
            }
            Fact::Defer { id, space } if !self.ended.contains(&id) => {
                let defers = self.defers.entry(id).or_default();
                if !defers.contains(&space) {
                    defers.push(space);
                }
            }
            Fact::Defer { .. } => {}
            Fact::Owned { id, space } => {
                let is_over = self.done.contains(&space) || self.pending.contains(&space);
                if let Some(loser) = self.active.get_mut(&id).filter(|_| !is_over)
                    && !loser.owned.contains(&space)
                {
                    loser.owned.push(space);
                }
            }
            Fact::Work {
                id,
                tree,
                low,
                high,
            } => {
                if let Some(loser) = self.active.get_mut(&id) {
                    loser.work.restore(crate::api::TreeId(tree), low, high);
                }
            }
            Fact::Pending(space) => {
                if !self.done.contains(&space) && !self.pending.contains(&space) {
                    self.pending.push(space);
                }
            }
            Fact::Prepared { id, unit } => {
                if !self.given_up.contains(&id) {
                    self.prepared.insert(id, unit);
                }
            }
            Fact::Decision(decision) => self.decided(decision),
            Fact::Versions { chunk, id, pages } if !self.freed_chunks.contains(&chunk) => {
                let new = || PlacedChunk {
                    id: chunk,
                    txn: id,
                    pages,
                };
                self.chunks.entry(chunk).or_insert_with(new);
            }
            Fact::Versions { .. } => {}
        }
    }
}

struct Redo<'a> {
    pool: &'a Pool,
    store: &'a Store,
    /// Accelerated losers and where they wrote.
    losers: BTreeMap<TxnId, Work>,
    /// Chunks that are on pages, or will be when redo is over: they are not rebuilt.
    placed: BTreeSet<u32>,
    /// Rebuilt versions beyond this are put aside.
    versions_bytes_max: u64,
}

impl Redo<'_> {
    fn record(&mut self, block: Lsn, lsn: Lsn, record: &Record<'_>) -> Result<()> {
        let unreadable = || damaged(self.store, lsn, "unreadable record body");
        match record.kind {
            Kind::Ops => {
                if self.losers.contains_key(&record.txn) {
                    self.note_work(lsn, record)?;
                }
                self.ops(block, lsn, record.txn, record.body)
            }
            Kind::Clr => {
                let (_, ops) = record::parse_clr(record.body).ok_or_else(unreadable)?;
                self.ops(block, lsn, record.txn, ops)
            }
            Kind::Revert => self.ops(block, lsn, TxnId::NONE, record.body),
            Kind::System | Kind::Owned | Kind::FreeDone | Kind::Versions | Kind::VersionsFreed => {
                let parts = record::parts_of(record).ok_or_else(unreadable)?;
                self.parts(block, lsn, parts)
            }
            Kind::Defer
            | Kind::Commit
            | Kind::Prepare
            | Kind::End
            | Kind::Checkpoint
            | Kind::ClrSpace
            | Kind::Abort
            | Kind::Forget => Ok(()),
        }
    }

    /// Where a loser wrote, also when the page has it already.
    fn note_work(&mut self, lsn: Lsn, record: &Record<'_>) -> Result<()> {
        let unreadable = || damaged(self.store, lsn, "unreadable leaf operations");
        let ops = Ops::parse(record.body).ok_or_else(unreadable)?;
        let Some(work) = self.losers.get_mut(&record.txn) else {
            return Ok(());
        };
        for op in ops.iter() {
            let Some(key) = op.ok_or_else(unreadable)?.key() else {
                continue;
            };
            let tree = crate::api::TreeId(ops.tree);
            work.note(tree, ops.page.to_u64(), key, key, 0);
        }
        Ok(())
    }

    fn ops(&self, block: Lsn, lsn: Lsn, txn: TxnId, body: &[u8]) -> Result<()> {
        let store = self.store;
        let ops =
            Ops::parse(body).ok_or_else(|| damaged(store, lsn, "unreadable leaf operations"))?;
        store.files.ensure_size(ops.page)?;
        let mut page = self.pool.write(store, ops.page)?;
        if page.lsn() >= lsn && !planted(Bug::ApplyTwice) {
            return Ok(());
        }
        page.prepare_at(block);
        if self.losers.contains_key(&txn) {
            self.rebuild_versions(&page, &ops, txn)?;
        }
        redo::apply_ops(&mut page, &ops, txn).map_err(|what| refused(store, ops.page, what))?;
        page.set_lsn(lsn);
        Ok(())
    }

    /// The versions that a record's operations made when it was written: the page shows the entries as they were.
    /// Within one record an insert moves later slots, and no entry is changed twice.
    fn rebuild_versions(&self, page: &Page, ops: &Ops<'_>, txn: TxnId) -> Result<()> {
        let refused = |what| refused(self.store, ops.page, what);
        let mut inserted = 0;
        for op in ops.iter() {
            let (slot, before, version) =
                match op.ok_or_else(|| refused("damaged leaf operation"))? {
                    LeafOp::Insert { .. } => {
                        inserted += 1;
                        continue;
                    }
                    LeafOp::Update {
                        slot,
                        before,
                        version,
                        ..
                    }
                    | LeafOp::Delete {
                        slot,
                        before,
                        version,
                        ..
                    } => (slot, before, version),
                    // Compensations make no versions, and come in records of their own.
                    LeafOp::Remove { .. } | LeafOp::Restore { .. } => return Ok(()),
                };
            let slot: usize = slot;
            let slot = slot.checked_sub(inserted);
            let slot = slot.filter(|slot| *slot < page.slots());
            let slot = slot.ok_or_else(|| refused("slot out of range"))?;
            if before.writer == txn || version == 0 {
                continue;
            }
            self.rebuild_version(txn, version, before, page.payload(slot))?;
        }
        Ok(())
    }

    fn rebuild_version(
        &self,
        txn: TxnId,
        version: u64,
        before: Head,
        payload: &[u8],
    ) -> Result<()> {
        let versions = &self.store.versions;
        let chunk = (version >> 16) as u32;
        if !self.placed.contains(&chunk) {
            if let Some(chunk) = versions.chunk(chunk) {
                crate::pvs::bring_back(self.store, &chunk)?;
            }
            versions.restore(txn, version, before, payload);
            crate::pvs::bound_memory(self.store, self.versions_bytes_max)?;
        }
        if self.losers.contains_key(&before.writer) {
            versions.note_below(version, before.version);
        }
        Ok(())
    }

    fn parts(&self, block: Lsn, lsn: Lsn, body: &[u8]) -> Result<()> {
        let store = self.store;
        // Several parts of one record may change one page; whether it needs them is decided at the first.
        let mut decided: Vec<(PageId, bool)> = Vec::new();
        for part in record::parts(body) {
            let (id, action) = part.ok_or_else(|| damaged(store, lsn, "unreadable page parts"))?;
            store.files.ensure_size(id)?;
            let mut page = match action.is_image() {
                true => self.pool.write_new(store, id)?,
                false => self.pool.write(store, id)?,
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
            page.keep_back(&store.versions, &action);
            redo::apply_part(&mut page, id, &action).map_err(|what| refused(store, id, what))?;
            page.set_lsn(lsn);
        }
        Ok(())
    }
}

fn refused(store: &Store, page: PageId, what: &str) -> StorageError {
    StorageError::DamagedPage {
        page,
        path: store.files.path(page.file),
        what: format!("redo: {what}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datafile::FileSet;
    use crate::*;
    use daruma_base::DatabaseId;
    use daruma_sim::SimDisk;

    const FRAMES_MIN: usize = 64;

    fn files() -> (FileSpec, FileSpec) {
        (
            FileSpec::data(1, 1, "/t.mdf", 256),
            FileSpec::log("/t_log.ldf", 4_096),
        )
    }

    fn engine(disk: &std::sync::Arc<SimDisk>, frames: usize) -> std::sync::Arc<Engine> {
        let config = EngineConfig {
            buffer_pool_pages: frames,
            ..EngineConfig::default()
        };
        Engine::new(daruma_sim::env(disk, 1), config)
    }

    /// A transaction in flight that has changed rows of so many bytes, none of which is on a page.
    fn crashed(bytes: usize, rows: u32) -> std::sync::Arc<SimDisk> {
        let disk = SimDisk::new(1);
        let (data, log) = files();
        let settings = Settings {
            accelerated_recovery: true,
            ..Settings::default()
        };
        let db = engine(&disk, 1_024)
            .create_database(DatabaseId(5), "t", vec![data, log], settings)
            .expect("creates");
        let owner = crate::Owner::new(1, Default::default());
        let txn = db.begin(&owner);
        let tree = db.catalog_tree();
        let tree = db.tree(tree).expect("tree");
        for row in 0..rows {
            tree.insert(&txn, &row.to_be_bytes(), &vec![1; bytes])
                .expect("inserts");
        }
        txn.commit(Durability::Full).expect("commits");
        let txn = db.begin(&owner);
        let view = txn.view(Isolation::Current);
        for row in 0..rows {
            let key = row.to_be_bytes();
            let entry = tree.get(&view, &key).expect("reads").expect("is there");
            tree.update(&txn, &key, entry.stamp, &vec![2; bytes])
                .expect("updates");
        }
        db.flush_log().expect("the log is hard");
        drop(view);
        std::mem::forget(txn);
        disk.crash();
        disk
    }

    #[test]
    fn redo_keeps_no_more_versions_in_memory_than_it_may() {
        let disk = crashed(1_000, 1_000);
        let engine = engine(&disk, FRAMES_MIN);
        let (data, log) = files();
        let env = daruma_sim::env(&disk, 1);
        let files = FileSet::open(&[data], &env).expect("opens");
        let log = crate::log::Log::open(&log, files.guid(), &env, engine.log_shared());
        let store = Store::new(engine.next_store_id(), files, log.expect("opens"));
        let store = std::sync::Arc::new(store);
        store.aside.open(&env.disk, "/t.mdf.aside".into());
        engine.pool().add_store(&store);
        let ask = |_: &Unit| Ok(Outcome::RolledBack);
        let mut recovered = analyse(&store, &|_| (), &ask).expect("reads the log");
        redo(engine.pool(), &store, &mut recovered, &|_| Ok(())).expect("repeats it");
        assert_eq!(recovered.losers.len(), 1);
        let memory = store.versions.memory_bytes();
        assert!(
            memory > 0 && memory <= (FRAMES_MIN * PAGE_BYTES / 4) as u64,
            "{memory}"
        );
    }

    /// Power fails between the parts of a `Forget`: the reverter of the next start writes all of them again.
    #[test]
    fn a_space_that_is_named_twice_is_freed_once() {
        let mut analysis = Analysis::default();
        let spaces = [7, 8, 9].map(|page| Space::Blob(PageId::new(1, page)));
        let parts: [(bool, &[Space]); 3] = [
            (false, &spaces[..2]),
            (false, &spaces[..2]),
            (true, &spaces[2..]),
        ];
        for (lsn, (is_last, part)) in (5_000..).zip(parts) {
            let mut body = Vec::new();
            record::start(&mut body, Kind::Forget, TxnId(3), Lsn::NONE);
            record::write_forget(&mut body, is_last, part);
            record::finish(&mut body);
            let record = Record::parse(&body).expect("a record");
            analysis
                .note(Lsn(lsn), Lsn(4_096), &record)
                .expect("a body");
        }
        assert_eq!(analysis.pending, spaces);
    }

    /// A restore reads log without end.
    #[test]
    fn analysis_remembers_what_ended_since_the_last_checkpoints_only() {
        let disk = SimDisk::new(1);
        let (data, log) = files();
        let engine = engine(&disk, FRAMES_MIN);
        let db = engine
            .create_database(DatabaseId(5), "t", vec![data, log], Settings::default())
            .expect("creates");
        let owner = crate::Owner::new(1, Default::default());
        let tree = db.tree(db.catalog_tree()).expect("tree");
        for n in 0..1_000u32 {
            let txn = db.begin(&owner);
            tree.insert(&txn, &n.to_be_bytes(), b"row")
                .expect("inserts");
            match n % 3 {
                0 => txn.rollback().expect("rolls back"),
                _ => txn.commit(Durability::Delayed).expect("commits"),
            }
            if n % 100 == 99 {
                db.checkpoint().expect("checkpoint");
            }
        }
        let open = db.begin(&owner);
        tree.insert(&open, b"open", b"row").expect("inserts");
        db.flush_log().expect("hard");
        let mut cursor = db
            .store()
            .log
            .cursor(Lsn(4_096))
            .expect("from the first block");
        let mut analysis = Analysis::default();
        let mut most = 0;
        while let Some(block) = cursor.next().expect("no damage") {
            for (lsn, bytes) in block.records() {
                let record = Record::parse(bytes).expect("a record");
                analysis.note(lsn, block.lsn, &record).expect("a body");
                let of = |ids: &Recent<TxnId>| ids.new.len() + ids.old.len();
                most = most.max(of(&analysis.ended));
                assert!(of(&analysis.committed_ids) <= of(&analysis.ended));
            }
        }
        assert!((100..=220).contains(&most), "{most}");
        assert_eq!(analysis.rolled_forward, 666);
        let losers: Vec<TxnId> = analysis.active.into_keys().collect();
        assert_eq!(losers, [open.id()]);
    }
}
