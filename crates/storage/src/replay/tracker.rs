//! What the log says about transactions: who is open, who has ended and how, what waits to be freed, which version chunks are on
//! pages, and what was decided for other databases.
//!
//! Invariant: what is remembered is bounded by the transactions that are open and by what ended since the last checkpoint but
//! one, however much log is read. Each record and each fact costs as much as the logarithm of that: a transaction may have
//! made or dropped a million long values, and every checkpoint lists them.

use super::damaged;
use crate::buffer::Store;
use crate::bytes::Reader;
use crate::coordinator::{Outcome, ResolvedUnit};
use crate::datafile::Boot;
use crate::error::Result;
use crate::log::record::{self, Abort, Checkpoint, Fact, Kind, Record, Space};
use crate::log::{CommitPoint, commit};
use crate::planted::{Bug, planted};
use crate::properties::{Properties, Property};
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
    pub owned: BTreeSet<Space>,
    pub work: Work,
    /// Its versions, in memory, put aside or on pages.
    pub chunks: Vec<u32>,
    /// A page has changes of it from before the replay, whose versions are not known here.
    pub is_blind: bool,
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

/// Outcome of a replay, which the open database goes on with.
pub struct Recovered {
    /// In order of their last records.
    pub losers: Vec<Loser>,
    pub pending: Vec<Space>,
    pub chunks: Vec<PlacedChunk>,
    pub next_txn: u64,
    pub end: Lsn,
    pub rolled_forward: u64,
    pub last_commit: CommitPoint,
    /// Decisions of this database for others, which these may not have on disk.
    pub decisions: Vec<Decision>,
    pub resolved: Vec<ResolvedUnit>,
    /// What the log says of them.
    pub properties: Properties,
}

/// Asks how a prepared transaction ended.
pub type Ask<'a> = &'a dyn Fn(&Unit) -> Result<Outcome>;

/// Transactions that a checkpoint may list although a record before the checkpoint has ended them: the list was made before
/// the record. No list tells what was ended before the checkpoint began (`database::checkpoint`, invariant 2), so what was
/// put in before the last checkpoint but one is let go of, or a restore of a year of log would need memory for all its
/// transactions.
pub(super) struct Recent<T> {
    /// Since the last checkpoint.
    pub(super) new: BTreeSet<T>,
    /// Between the one before and the last.
    pub(super) old: BTreeSet<T>,
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

/// See the module.
#[derive(Default)]
pub(crate) struct TxnTracker {
    pub(super) active: BTreeMap<TxnId, Loser>,
    pub(super) ended: Recent<TxnId>,
    pub(super) committed_ids: Recent<TxnId>,
    pub(super) rolled_forward: u64,
    defers: BTreeMap<TxnId, BTreeSet<Space>>,
    /// Trees that are to be freed from now on, since this was last taken.
    dropped: Vec<PageId>,
    /// Defers taken back by a rollback to a savepoint.
    forgotten: Recent<(TxnId, Space)>,
    pub(super) pending: BTreeSet<Space>,
    done: Recent<Space>,
    /// Spaces named by `Forget` records whose last part is still to come. Each once: after a crash between two parts the
    /// reverter begins with the first again, and what is freed twice may be somebody else's the second time.
    forgetting: BTreeMap<TxnId, BTreeSet<Space>>,
    chunks: BTreeMap<u32, PlacedChunk>,
    freed_chunks: Recent<u32>,
    next_txn: u64,
    last_commit: CommitPoint,
    /// Where the replay began.
    begun: Lsn,
    /// The one that the boot page names.
    checkpoint: Lsn,
    saw_checkpoint: bool,
    /// Chunks of versions whose transactions have ended.
    released: Vec<u32>,
    /// With the number of checkpoints read when it was last heard of.
    decisions: BTreeMap<UnitKey, (Decision, u64)>,
    checkpoints: u64,
    /// Ids that wait for the decision of their coordinator.
    prepared: BTreeMap<TxnId, Unit>,
    /// Ids that wrote after they were prepared: they are being rolled back.
    given_up: Recent<TxnId>,
    properties: Properties,
    listed: Listed,
}

/// What the last checkpoint says of transactions that have an id and no record: all open ones below its next id are listed, so one
/// that is not listed and has no record will never have one.
#[derive(Default)]
struct Listed {
    next_txn: u64,
    silent: BTreeSet<TxnId>,
    /// Of the checkpoint that is being read.
    coming: BTreeSet<TxnId>,
    /// Last part of the last one.
    checkpoint: Lsn,
    redo_start: Lsn,
}

impl TxnTracker {
    /// Begins at the redo start of the boot page.
    pub(super) fn new(boot: &Boot) -> TxnTracker {
        TxnTracker {
            last_commit: boot.last_commit,
            begun: boot.redo_start,
            checkpoint: boot.checkpoint,
            ..TxnTracker::default()
        }
    }

    /// Parses a record and follows it.
    pub(super) fn read<'r>(
        &mut self,
        store: &Store,
        block: Lsn,
        lsn: Lsn,
        bytes: &'r [u8],
    ) -> Result<Record<'r>> {
        let record = Record::parse(bytes);
        let record = record.ok_or_else(|| damaged(store, lsn, "unreadable record"))?;
        self.note(lsn, block, &record)
            .ok_or_else(|| damaged(store, lsn, "unreadable record body"))?;
        Ok(record)
    }

    /// The log must have the checkpoint that the boot page names: without it nobody knows who was open.
    pub(super) fn check_complete(&self, store: &Store) -> Result<()> {
        match self.saw_checkpoint {
            true => Ok(()),
            false => Err(damaged(
                store,
                self.checkpoint,
                "the log ends before the last checkpoint",
            )),
        }
    }

    /// What this database has decided for others.
    pub(super) fn decisions(&self) -> Vec<Decision> {
        self.decisions.values().map(|(d, _)| d.clone()).collect()
    }

    // --- beside readers -----------------------------------------------------------------------------------------

    /// Has it written, and not ended?
    pub fn is_open(&self, id: TxnId) -> bool {
        self.active.contains_key(&id)
    }

    /// Below the next id of the last checkpoint: may there still come records of it, or are there any without an end?
    pub fn may_be_open(&self, id: TxnId) -> bool {
        self.is_open(id) || self.listed.silent.contains(&id)
    }

    /// Ids below this are open only if they are listed or have a record; the next id that is not known to be given.
    pub fn ids(&self) -> (u64, u64) {
        (self.listed.next_txn, self.next_txn)
    }

    /// Transactions that have not ended, and whether each was rolled back by a mark.
    pub fn open(&self) -> impl Iterator<Item = (TxnId, bool)> + '_ {
        let silent = self.listed.silent.iter().map(|id| (*id, false));
        let silent = silent.filter(|(id, _)| !self.is_open(*id) && !self.ended.contains(id));
        let active = self.active.values().map(|l| (l.id, l.is_aborted));
        active.chain(silent)
    }

    /// Transactions that have ended since the last checkpoint, and maybe before, and whether each has committed.
    pub fn ended(&self) -> impl Iterator<Item = (TxnId, bool)> + '_ {
        let ended = self.ended.new.iter().chain(&self.ended.old);
        ended.map(|id| (*id, self.committed_ids.contains(id)))
    }

    /// Of a classic transaction: the page has this change, and what was there before is not known. Pages wait for the versions of
    /// accelerated ones.
    pub(super) fn skipped(&mut self, id: TxnId) {
        if let Some(open) = self.active.get_mut(&id) {
            open.is_blind |= !open.is_accelerated;
        }
    }

    /// Is there a transaction whose changes a reader would meet without knowing what was there before?
    pub fn is_blind(&self) -> bool {
        self.active.values().any(|l| l.is_blind)
    }

    /// Has the checkpoint been read that the boot page names?
    pub fn is_complete(&self) -> bool {
        self.saw_checkpoint
    }

    /// The last checkpoint that was read to its end, and where redo would begin with it.
    pub fn checkpoint_read(&self) -> (Lsn, Lsn) {
        (self.listed.checkpoint, self.listed.redo_start)
    }

    /// Begin of the oldest transaction that can be undone only from the log.
    pub fn log_needed(&self) -> Option<Lsn> {
        let classic = self.active.values().filter(|l| !l.is_accelerated);
        classic.map(|l| l.first).min()
    }

    /// The newest commit.
    pub fn last_commit(&self) -> CommitPoint {
        self.last_commit
    }

    /// What the log has said of the properties that the boot page keeps.
    pub fn properties(&self) -> &Properties {
        &self.properties
    }

    // --- versions -----------------------------------------------------------------------------------------------

    /// An accelerated transaction that has not ended, as far as has been read.
    pub(super) fn open_accelerated(&mut self, id: TxnId) -> Option<&mut Loser> {
        self.active.get_mut(&id).filter(|l| l.is_accelerated)
    }

    /// A chunk of versions is the transaction's: it goes when that ends.
    pub(super) fn own_chunk(&mut self, id: TxnId, chunk: u32) {
        if let Some(loser) = self.active.get_mut(&id) {
            loser.chunks.push(chunk);
        }
    }

    /// Chunks of transactions that have ended since this was asked last.
    pub(super) fn take_released(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.released)
    }

    /// Chunks on pages whose transactions are accelerated and have not ended.
    pub(super) fn placed_by_losers(&self) -> Vec<(u32, TxnId, Vec<PageId>)> {
        let is_lost = |c: &&PlacedChunk| {
            let loser = self.active.get(&c.txn);
            loser.is_some_and(|l| l.is_accelerated)
        };
        let placed = self.chunks.values().filter(is_lost);
        placed.map(|c| (c.id, c.txn, c.pages.clone())).collect()
    }

    // --- the end ------------------------------------------------------------------------------------------------

    /// Guids of the databases that decide about transactions that are prepared here.
    pub fn coordinators(&self) -> BTreeSet<u64> {
        self.prepared.values().map(|u| u.coordinator).collect()
    }

    /// Prepared transactions are committed or lost from here on, as their coordinators say.
    pub(super) fn resolve(&mut self, ask: Ask<'_>) -> Result<Vec<ResolvedUnit>> {
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
            freed
                .into_iter()
                .for_each(|space| self.will_be_freed(space));
        }
    }

    fn will_be_freed(&mut self, space: Space) {
        self.pending.insert(space);
        if let Space::Tree(root) = space {
            self.dropped.push(root);
        }
    }

    /// Trees that are to be freed since the last call: who dropped them has committed, or who made them has not.
    pub(super) fn take_dropped(&mut self) -> Vec<PageId> {
        std::mem::take(&mut self.dropped)
    }

    pub(super) fn finish(self, resolved: Vec<ResolvedUnit>, end: Lsn) -> Recovered {
        let mut losers: Vec<Loser> = self.active.into_values().collect();
        for loser in losers.iter_mut().filter(|l| l.is_accelerated) {
            for space in &loser.owned {
                if let Space::Tree(root) = space {
                    loser.work.own(crate::api::TreeId(*root));
                }
            }
        }
        losers.sort_by_key(|l| l.last);
        let chunks = self.chunks.into_iter();
        Recovered {
            losers,
            pending: self.pending.into_iter().collect(),
            chunks: chunks.map(|(_, chunk)| chunk).collect(),
            next_txn: self.next_txn,
            end,
            rolled_forward: self.rolled_forward,
            last_commit: self.last_commit,
            decisions: self.decisions.into_values().map(|(d, _)| d).collect(),
            resolved,
            properties: self.properties,
        }
    }

    /// Follows transactions, deferred frees and version chunks through one record.
    pub(super) fn note(&mut self, lsn: Lsn, block: Lsn, record: &Record<'_>) -> Option<()> {
        self.saw_checkpoint |= record.kind == Kind::Checkpoint && lsn == self.checkpoint;
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
            Kind::Checkpoint => self.checkpoint(lsn, Checkpoint::parse(record.body)?),
            Kind::FreeDone => {
                let space = Space::read(&mut Reader::new(record.body))?;
                self.pending.remove(&space);
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
            Kind::Property => self.properties.note(Property::parse(record.body)?),
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
                    if planted(Bug::LetGoAtAbort) {
                        self.released.append(&mut loser.chunks);
                    }
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
                self.defers.entry(id).or_default().insert(space);
            }
            Kind::ClrSpace => {
                let (_, rest) = record::parse_clr(record.body)?;
                let (owned, space) = parse_clr_space(rest)?;
                if owned {
                    self.will_be_freed(space);
                    self.done.remove(&space);
                    if let Some(loser) = self.active.get_mut(&id) {
                        loser.owned.remove(&space);
                    }
                } else {
                    self.forgotten.insert((id, space));
                    if let Some(defers) = self.defers.get_mut(&id) {
                        defers.remove(&space);
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
                    loser.owned.insert(space);
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
                self.will_be_freed(space);
            }
        }
        Some(())
    }

    fn end(&mut self, id: TxnId) {
        if let Some(ended) = self.active.remove(&id) {
            self.released.extend(ended.chunks);
        }
        self.prepared.remove(&id);
        self.ended.insert(id);
    }

    /// Adds what the checkpoint knew, unless the log read so far says that it is over.
    fn checkpoint(&mut self, lsn: Lsn, checkpoint: Checkpoint) {
        self.next_txn = self.next_txn.max(checkpoint.next_txn);
        for fact in checkpoint.facts {
            self.fact(fact);
        }
        if checkpoint.is_last {
            self.let_go();
            self.listed = Listed {
                next_txn: checkpoint.next_txn,
                silent: std::mem::take(&mut self.listed.coming),
                coming: BTreeSet::new(),
                checkpoint: lsn,
                redo_start: checkpoint.redo_start,
            };
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
        self.dropped = Vec::new();
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
                if last == Lsn::NONE {
                    self.listed.coming.insert(id);
                    return;
                }
                if self.ended.contains(&id) {
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
                // Records of it stand before what is read, also where others were read already.
                loser.is_blind |= first < self.begun && !accelerated;
                loser.know(abort);
            }
            Fact::Defer { id, space } if self.forgotten.contains(&(id, space)) => {}
            Fact::Defer { id, space } if self.committed_ids.contains(&id) => {
                // The commit stands before the checkpoint that says what it frees.
                self.fact(Fact::Pending(space));
            }
            Fact::Defer { id, space } if !self.ended.contains(&id) => {
                self.defers.entry(id).or_default().insert(space);
            }
            Fact::Defer { .. } => {}
            Fact::Owned { id, space } => {
                let is_over = self.done.contains(&space) || self.pending.contains(&space);
                if let Some(loser) = self.active.get_mut(&id).filter(|_| !is_over) {
                    loser.owned.insert(space);
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
                if !self.done.contains(&space) {
                    self.pending.insert(space);
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
