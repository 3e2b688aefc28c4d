//! States of transactions and snapshots of them.
//!
//! Theory: ids are given at the first write and only grow. Below the watermark (`base`) every transaction is resolved
//! and visible to everyone, so most rows are judged by one comparison. Above it a small array holds each state:
//! active, aborted, or the position of the commit record, which is stored before anything can be appended behind that record. A
//! snapshot is one position of the log: it shows the commits up to there, and holds the watermark down. So the order in which
//! commits are seen is that of the log, on every node that has the log, and two readers never see two commits in different order.
//!
//! How far commits are shown is one number, `shown`, which the log raises (`log::shown`): a commit that waits for the disk is
//! shown once its log is hard, in the order of the log. A delayed commit behind such a one is seen at once by its own session
//! only, whose snapshots reach that far; it may see what stands before it a sync early.
//!
//! An aborted transaction is *reverting* while entries may still carry its id (logical revert, `revert`), and gone
//! afterwards. One old transaction must not make the array grow with every younger one: parts of it in which everything
//! is settled are let go of, wherever they are.
//!
//! Invariants
//! 1. `base` passes no active and no reverting transaction, nor one that committed after the oldest snapshot was taken.
//! 2. `base` passes no transaction whose rollback failed: its changes are still there, and recovery has to take them back.
//! 3. A part of the array is let go of only when all its transactions are committed and visible to everyone, or gone.

use crate::sync::{Mutex, RwLock};
use daruma_base::memory::for_all;
use daruma_base::{Lsn, TxnId};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const CHUNK: u64 = 1024;
/// More ids than transactions can have begun before any of them wrote a record.
const JUMP_IDS: u64 = 256 * CHUNK;
const ACTIVE: u64 = 0;
/// Rolled back, and no entry carries the id any more.
const GONE: u64 = u64::MAX;
/// Rolled back, and entries may still carry the id.
const REVERTING: u64 = u64::MAX - 1;
/// Committed before this server started, or so long ago that nobody asks when.
const LONG_AGO: u64 = 1;
/// Beside the position of a commit record: somebody waits for it to be hard, and until it is shown it counts as active. The other
/// two states with this bit are above every position.
const AWAITED: u64 = 1 << 63;

/// State of the transaction whose id an entry carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TxnStatus {
    Active,
    /// Its commit record is at this position, and is not known to be as hard as it has to be.
    Awaited(u64),
    /// Position of the commit record; 0 for those below the watermark.
    Committed(u64),
    /// Rolled back: an entry that still carries its id counts for nothing, its version before does.
    Aborted,
}

/// When something can be given away that readers may still come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// Everyone sees the commit that dropped it.
    Commit(TxnId),
    /// No snapshot is left of this position, or from before: what was rolled back can have been read with the rows that were
    /// not committed.
    Moment(u64),
}

struct Chunks {
    /// Number of the first chunk (id / CHUNK).
    first: u64,
    /// `None`: everything in it is settled for everyone.
    chunks: VecDeque<Option<Arc<Vec<AtomicU64>>>>,
    /// Number of the next chunk to be looked at for letting go.
    settle_next: u64,
}

fn new_chunk(state: u64) -> Arc<Vec<AtomicU64>> {
    Arc::new((0..CHUNK).map(|_| AtomicU64::new(state)).collect())
}

/// States of the transactions from the watermark on, and the snapshots in use.
pub struct TxnTable {
    next: AtomicU64,
    base: AtomicU64,
    chunks: RwLock<Chunks>,
    /// Commits below this position are shown to everyone.
    shown: Arc<AtomicU64>,
    /// Last answer of `oldest`: commits up to it are visible to every snapshot, also to future ones.
    settled: AtomicU64,
    /// Oldest transaction whose rollback failed; `u64::MAX` for none.
    unresolved: AtomicU64,
    /// Positions in use, with their users.
    snapshots: Mutex<BTreeMap<u64, Users>>,
    /// The newest delayed commit of each owner, as far as it is not shown to everyone; and the newest of all.
    ahead: Mutex<HashMap<u64, u64>>,
    ahead_max: AtomicU64,
}

/// Users of a position: how many, and their owners' ids joined by XOR, which is the id when there is one.
#[derive(Default)]
struct Users {
    count: usize,
    owners: u64,
}

/// A position of the log, up to which commits are seen. Registered until dropped through [`TxnTable::release`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snapshot {
    pub position: u64,
    /// Everything below is visible without looking further.
    pub horizon: TxnId,
}

impl TxnTable {
    /// Ids below `next` are resolved, those in `reverting` as aborted with entries left behind; all but those in
    /// `active`, which recovery has still to roll back. Commits below `shown` are seen by everyone.
    pub fn new(
        next: u64,
        reverting: &[TxnId],
        active: &[TxnId],
        shown: Arc<AtomicU64>,
    ) -> TxnTable {
        let table = TxnTable {
            next: AtomicU64::new(1),
            base: AtomicU64::new(1),
            chunks: RwLock::new(Chunks {
                first: 0,
                chunks: VecDeque::new(),
                settle_next: 0,
            }),
            shown,
            settled: AtomicU64::new(LONG_AGO),
            unresolved: AtomicU64::new(u64::MAX),
            snapshots: Mutex::default(),
            ahead: Mutex::default(),
            ahead_max: AtomicU64::new(0),
        };
        table.begin(next, reverting, active);
        table
    }

    /// Begins anew, with the arguments of `new`; nobody has looked yet.
    pub fn begin(&self, next: u64, reverting: &[TxnId], active: &[TxnId]) {
        let next = next.max(1);
        let unsettled = || {
            let reverting = reverting.iter().map(|id| (id.0, REVERTING));
            reverting.chain(active.iter().map(|id| (id.0, ACTIVE)))
        };
        let base = unsettled().map(|(id, _)| id).min().unwrap_or(next);
        let first = base / CHUNK;
        let mut chunks = VecDeque::new();
        if base < next {
            chunks.resize((next / CHUNK - first + 1) as usize, None);
            if let Some(last) = chunks.back_mut() {
                let chunk = new_chunk(LONG_AGO);
                (next % CHUNK..CHUNK)
                    .for_each(|i| chunk[i as usize].store(ACTIVE, Ordering::Relaxed));
                *last = Some(chunk);
            }
        }
        for (id, state) in unsettled() {
            let chunk: &mut Option<_> = &mut chunks[(id / CHUNK - first) as usize];
            let chunk = chunk.get_or_insert_with(|| new_chunk(LONG_AGO));
            chunk[(id % CHUNK) as usize].store(state, Ordering::Relaxed);
        }
        *self.chunks.write() = Chunks {
            first,
            chunks,
            settle_next: next / CHUNK,
        };
        self.base.store(base, Ordering::Release);
        self.next.store(next, Ordering::Release);
    }

    /// The id that the next writing transaction gets.
    pub fn next_id(&self) -> u64 {
        self.next.load(Ordering::Acquire)
    }

    /// The watermark: every transaction below it has committed and is visible to everyone.
    pub fn base(&self) -> TxnId {
        TxnId(self.base.load(Ordering::Acquire))
    }

    /// Gives out the next id, in state active.
    pub fn start(&self) -> TxnId {
        let mut chunks = self.chunks.write();
        let id = self.next.fetch_add(1, Ordering::AcqRel);
        while chunks.first + chunks.chunks.len() as u64 <= id / CHUNK {
            for_all(|| {
                chunks.chunks.push_back(Some(new_chunk(ACTIVE)));
                self.let_go(&mut chunks);
            });
        }
        assert!(id < TxnId::MAX.0, "transaction ids are used up");
        TxnId(id)
    }

    /// In a replay: the id and those below it have been given out. Ids that were not are active until it is known that they have no
    /// record.
    pub fn follow(&self, id: TxnId) {
        if id.0 < self.next_id() {
            return;
        }
        let mut chunks = self.chunks.write();
        let jumps = id.0 - self.next_id() > JUMP_IDS;
        while chunks.first + chunks.chunks.len() as u64 <= id.0 / CHUNK {
            let number = chunks.first + chunks.chunks.len() as u64;
            // A jump, as after a failover: nobody has an id in between.
            let is_passed = jumps && number < id.0 / CHUNK;
            let chunk = (!is_passed).then(|| new_chunk(ACTIVE));
            chunks.chunks.push_back(chunk);
        }
        self.next.store(id.0 + 1, Ordering::Release);
        self.let_go(&mut chunks);
    }

    /// In a replay: of the ids below `next` only those that may be open have records to come.
    pub fn forget_silent(&self, next: u64, may_be_open: impl Fn(TxnId) -> bool) {
        let chunks = self.chunks.read();
        let first = self.base().0;
        let numbers = first / CHUNK..next.div_ceil(CHUNK);
        for number in numbers {
            let index = number.checked_sub(chunks.first).map(|i| i as usize);
            let Some(Some(chunk)) = index.and_then(|i| chunks.chunks.get(i)) else {
                continue;
            };
            for (slot, id) in chunk.iter().zip(number * CHUNK..) {
                if id >= first && id < next && !may_be_open(TxnId(id)) {
                    // One that has ended keeps its state.
                    let _ =
                        slot.compare_exchange(ACTIVE, GONE, Ordering::AcqRel, Ordering::Acquire);
                }
            }
        }
    }

    fn with_slot<R>(&self, id: TxnId, f: impl FnOnce(&AtomicU64) -> R) -> Option<R> {
        let chunks = self.chunks.read();
        let chunk = chunks
            .chunks
            .get((id.0 / CHUNK).checked_sub(chunks.first)? as usize)?
            .as_ref()?;
        Some(f(&chunk[(id.0 % CHUNK) as usize]))
    }

    /// Lets go of a chunk well behind the newest one if all in it is settled. Each is looked at once: a chunk that an
    /// old transaction keeps costs 8 KiB until the watermark passes it.
    fn let_go(&self, chunks: &mut Chunks) {
        let settled = self.settled.load(Ordering::Acquire);
        let last = chunks.first + chunks.chunks.len() as u64;
        chunks.settle_next = chunks.settle_next.max(chunks.first);
        while chunks.settle_next + 4 < last {
            let index = (chunks.settle_next - chunks.first) as usize;
            let old = |s: &AtomicU64| match s.load(Ordering::Acquire) {
                ACTIVE | REVERTING => false,
                GONE => true,
                at => at & !AWAITED <= settled,
            };
            if chunks.chunks[index]
                .as_ref()
                .is_some_and(|c| c.iter().all(old))
            {
                chunks.chunks[index] = None;
            }
            chunks.settle_next += 1;
        }
    }

    /// State of a transaction, one comparison for most.
    pub fn status(&self, id: TxnId) -> TxnStatus {
        if id < self.base() {
            return TxnStatus::Committed(0);
        }
        match self.with_slot(id, |s| s.load(Ordering::Acquire)) {
            Some(ACTIVE) => TxnStatus::Active,
            Some(GONE | REVERTING) => TxnStatus::Aborted,
            Some(at) if at & AWAITED == 0 => TxnStatus::Committed(at),
            Some(at) => match at & !AWAITED {
                at if at <= self.shown() => TxnStatus::Committed(at),
                at => TxnStatus::Awaited(at),
            },
            // Settled for everyone, or an id that was never given out.
            None if id.0 < self.next_id() => TxnStatus::Committed(0),
            None => TxnStatus::Active,
        }
    }

    /// Committed, and visible to every snapshot there is or will be.
    pub fn is_settled(&self, id: TxnId) -> bool {
        id < self.base()
            || match self.status(id) {
                TxnStatus::Committed(at) => at <= self.settled.load(Ordering::Acquire),
                TxnStatus::Active | TxnStatus::Awaited(_) | TxnStatus::Aborted => false,
            }
    }

    /// May it be given away now?
    pub fn is_past(&self, after: After) -> bool {
        match after {
            After::Commit(id) => self.is_settled(id),
            After::Moment(moment) => {
                let snapshots = self.snapshots.lock();
                snapshots
                    .keys()
                    .next()
                    .is_none_or(|oldest| *oldest > moment)
            }
        }
    }

    /// Position up to which commits are shown to everyone.
    fn shown(&self) -> u64 {
        self.shown.load(Ordering::Acquire).saturating_sub(1)
    }

    /// The present moment: no snapshot reaches further.
    pub fn moment(&self) -> u64 {
        let snapshots = self.snapshots.lock();
        let newest = snapshots.keys().next_back().copied();
        newest.unwrap_or_default().max(self.shown())
    }

    /// The commit record of a transaction, with all its ids, is at `lsn`. To be called before anything can be appended behind
    /// it. A commit that is `awaited` counts as active until it is shown.
    pub fn committed(&self, ids: impl Iterator<Item = TxnId>, lsn: Lsn, awaited: bool) {
        let state = match awaited {
            true => lsn.0 | AWAITED,
            false => lsn.0,
        };
        for id in ids {
            self.with_slot(id, |s| s.store(state, Ordering::Release));
        }
    }

    /// The owner's delayed commit at `lsn` is over: its own snapshots reach that far.
    pub fn look_ahead(&self, owner: u64, lsn: Lsn) {
        if lsn.0 > self.shown() {
            self.ahead.lock().insert(owner, lsn.0);
            self.ahead_max.fetch_max(lsn.0, Ordering::AcqRel);
        }
    }

    /// How far a snapshot of the owner reaches while commits up to `shown` are seen by everyone.
    fn reach(&self, owner: u64, shown: u64) -> u64 {
        if self.ahead_max.load(Ordering::Acquire) <= shown {
            return shown;
        }
        let mut ahead = self.ahead.lock();
        ahead.retain(|_, at| *at > shown);
        ahead.get(&owner).map_or(shown, |at| *at)
    }

    /// The transaction has been rolled back completely: no entry carries its id.
    pub fn gone(&self, id: TxnId) {
        self.with_slot(id, |s| s.store(GONE, Ordering::Release));
    }

    /// The transaction is rolled back, and what it wrote is still there, to be reverted.
    pub fn reverting(&self, id: TxnId) {
        self.with_slot(id, |s| s.store(REVERTING, Ordering::Release));
    }

    /// The transaction could not be rolled back: only recovery resolves it.
    pub fn unresolved(&self, id: TxnId) {
        self.unresolved.fetch_min(id.0, Ordering::AcqRel);
    }

    /// A snapshot of everything committed, which cleaning respects until it is released.
    pub fn snapshot(&self, owner: u64) -> Snapshot {
        let mut snapshots = self.snapshots.lock();
        let position = self.reach(owner, self.shown());
        let horizon = self.base();
        let users = snapshots.entry(position).or_default();
        users.count += 1;
        users.owners ^= owner;
        Snapshot { position, horizon }
    }

    /// Registers a position that somebody elsewhere reads at.
    pub fn pin(&self, owner: u64, position: u64) -> Snapshot {
        let mut snapshots = self.snapshots.lock();
        let users = snapshots.entry(position).or_default();
        users.count += 1;
        users.owners ^= owner;
        let horizon = self.base();
        Snapshot { position, horizon }
    }

    /// Gives a snapshot back; `owner` is the one it was taken for.
    pub fn release(&self, snapshot: Snapshot, owner: u64) {
        let mut snapshots = self.snapshots.lock();
        if let Some(users) = snapshots.get_mut(&snapshot.position) {
            users.count -= 1;
            users.owners ^= owner;
            if users.count == 0 {
                snapshots.remove(&snapshot.position);
            }
        }
    }

    /// Oldest position that a reader may still use.
    pub fn oldest(&self) -> u64 {
        let snapshots = self.snapshots.lock();
        let oldest = snapshots.keys().next().copied();
        // Snapshots of sessions with delayed commits may all be ahead of the next one.
        oldest.unwrap_or(u64::MAX).min(self.shown())
    }

    /// Number of snapshots in use and the position of the oldest.
    pub fn snapshots_in_use(&self) -> (usize, Option<u64>) {
        let snapshots = self.snapshots.lock();
        let count = snapshots.values().map(|u| u.count).sum();
        (count, snapshots.keys().next().copied())
    }

    /// Positions in use, oldest first: how many use each, and who, if it is one.
    pub fn snapshot_users(&self) -> Vec<(u64, u64, u64)> {
        let owner = |users: &Users| if users.count == 1 { users.owners } else { 0 };
        let snapshots = self.snapshots.lock();
        let users = |(at, users): (&u64, &Users)| (*at, users.count as u64, owner(users));
        snapshots.iter().map(users).collect()
    }

    /// Commits up to this position are visible to everyone.
    pub fn settled(&self) -> u64 {
        self.settled.load(Ordering::Acquire)
    }

    /// Moves the watermark up as far as it can go; the new watermark.
    pub fn advance(&self) -> TxnId {
        let oldest = self.oldest();
        self.settled.fetch_max(oldest, Ordering::AcqRel);
        let mut chunks = self.chunks.write();
        let mut base = self.base.load(Ordering::Acquire);
        let next = self.next.load(Ordering::Acquire);
        while base < next {
            match chunks.chunks.get((base / CHUNK - chunks.first) as usize) {
                None => break,
                Some(None) => base = ((base / CHUNK + 1) * CHUNK).min(next),
                Some(Some(chunk)) => match chunk[(base % CHUNK) as usize].load(Ordering::Acquire) {
                    ACTIVE | REVERTING => break,
                    GONE => base += 1,
                    at if at & !AWAITED > oldest => break,
                    _ => base += 1,
                },
            }
        }
        let unresolved = self.unresolved.load(Ordering::Acquire);
        if base > unresolved && std::thread::panicking() {
            // This has been told; transactions that end while the thread unwinds must not end the process.
            return self.base();
        }
        assert!(
            base <= unresolved,
            "the watermark moves to {base}, past transaction {unresolved}, which could not be rolled back"
        );
        self.base.store(base, Ordering::Release);
        while chunks.first < base / CHUNK && !chunks.chunks.is_empty() {
            for_all(|| drop(chunks.chunks.pop_front()));
            chunks.first += 1;
        }
        TxnId(base)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table whose commits are shown at once, each at the next position.
    struct Committing {
        table: TxnTable,
        next: AtomicU64,
    }

    impl Committing {
        fn new(next: u64, reverting: &[TxnId], active: &[TxnId]) -> Committing {
            let shown = Arc::new(AtomicU64::new(4096));
            Committing {
                table: TxnTable::new(next, reverting, active, shown),
                next: AtomicU64::new(4096),
            }
        }

        fn commit(&self, id: TxnId) -> u64 {
            let lsn = self.next.fetch_add(1, Ordering::Relaxed);
            self.committed([id].into_iter(), Lsn(lsn), false);
            self.table.shown.store(lsn + 1, Ordering::Release);
            lsn
        }
    }

    impl std::ops::Deref for Committing {
        type Target = TxnTable;

        fn deref(&self) -> &TxnTable {
            &self.table
        }
    }

    #[test]
    fn a_commit_that_is_waited_for_counts_as_active_until_it_is_shown() {
        let table = Committing::new(1, &[], &[]);
        let (full, delayed) = (table.start(), table.start());
        table.committed([full].into_iter(), Lsn(5_000), true);
        table.committed([delayed].into_iter(), Lsn(6_000), false);
        table.look_ahead(7, Lsn(6_000));
        assert_eq!(table.status(full), TxnStatus::Awaited(5_000));
        let (own, other) = (table.snapshot(7), table.snapshot(8));
        assert_eq!((own.position, other.position), (6_000, 4_095));
        assert_eq!(table.advance(), full);
        assert_eq!(table.moment(), 6_000);
        table.release(other, 8);
        assert_eq!(table.advance(), full, "a new snapshot may not see it yet");
        table.shown.store(6_001, Ordering::Release);
        assert_eq!(table.status(full), TxnStatus::Committed(5_000));
        assert_eq!(table.snapshot(8).position, 6_000);
        assert_eq!(table.advance().0, table.next_id());
    }

    #[test]
    fn the_watermark_waits_for_snapshots_and_active_transactions() {
        let table = Committing::new(10, &[], &[]);
        let (a, b, c) = (table.start(), table.start(), table.start());
        table.commit(b);
        assert_eq!(table.advance(), a, "a is active");
        let snapshot = table.snapshot(1);
        table.commit(a);
        assert_eq!(table.advance(), a, "a committed after the snapshot");
        assert!(matches!(table.status(a), TxnStatus::Committed(t) if t > snapshot.position));
        assert!(matches!(table.status(b), TxnStatus::Committed(t) if t <= snapshot.position));
        table.release(snapshot, 1);
        assert_eq!(table.advance(), c);
        assert_eq!(table.status(a), TxnStatus::Committed(0));
        table.gone(c);
        assert_eq!(table.advance(), TxnId(c.0 + 1));
    }

    #[test]
    fn chunks_are_dropped_behind_the_watermark() {
        let table = Committing::new(1, &[], &[]);
        for _ in 0..10 * CHUNK {
            let id = table.start();
            table.commit(id);
            table.advance();
        }
        assert!(table.chunks.read().chunks.len() <= 2);
    }

    /// Below the watermark everything counts as committed.
    #[test]
    #[should_panic(expected = "which could not be rolled back")]
    fn the_watermark_never_passes_what_could_not_be_rolled_back() {
        let table = Committing::new(1, &[], &[]);
        let id = table.start();
        table.unresolved(id);
        assert_eq!(table.advance(), id);
        table.gone(id);
        table.advance();
    }

    #[test]
    fn one_old_transaction_does_not_keep_the_states_of_all_younger_ones() {
        let table = Committing::new(1, &[], &[]);
        let old = table.start();
        let mut ids = Vec::new();
        for _ in 0..20 * CHUNK {
            let id = table.start();
            table.commit(id);
            table.advance();
            ids.push(id);
        }
        assert_eq!(table.base(), old);
        let kept = table.chunks.read().chunks.iter().flatten().count();
        assert!(kept <= 6, "{kept} chunks are kept");
        assert!(ids.iter().all(|id| table.is_settled(*id)));
        assert_eq!(table.status(old), TxnStatus::Active);
        table.commit(old);
        assert_eq!(table.advance().0, table.next_id());
    }

    #[test]
    fn unsettled_transactions_of_before_a_restart_are_known() {
        let reverting = [TxnId(5), TxnId(3000)];
        let active = TxnId(3500);
        let table = Committing::new(4000, &reverting, &[active]);
        assert_eq!(table.base(), TxnId(5));
        for id in [TxnId(4), TxnId(6), TxnId(1500), TxnId(3999)] {
            assert!(table.is_settled(id), "{id:?}");
        }
        assert!(
            reverting
                .iter()
                .all(|id| table.status(*id) == TxnStatus::Aborted)
        );
        assert_eq!(table.status(active), TxnStatus::Active);
        let new = table.start();
        assert_eq!((new, table.status(new)), (TxnId(4000), TxnStatus::Active));
        table.commit(new);
        reverting.iter().for_each(|id| table.gone(*id));
        assert_eq!(table.advance(), active);
        table.gone(active);
        assert_eq!(table.advance(), TxnId(4001));
    }
}
