//! Locks between transactions: tables, keys, names; and waits for a transaction to end.
//!
//! Theory: a row that a transaction wrote needs no lock of its own, for it carries the writer's id; a transaction that needs it
//! waits for that id, which its transaction holds exclusively from its first write to its end. So a statement that
//! changes a million rows holds one lock. Explicit key locks exist for readers that must keep what they read
//! (REPEATABLE READ, foreign keys), range locks for SERIALIZABLE.
//!
//! Deadlocks are found when a wait begins: the wait-for graph is searched from the newcomer. The victim is the one
//! with the lowest priority, then with the least log written.
//!
//! Queues are served in the order of arrival. A session that waits for a row's writer to end queues up at the row first
//! (`Turn`): of those that one commit wakes, only the head of each queue comes for its row, and newcomers find the queue.
//!
//! Latches: shard, then nothing; the graph is taken alone. No page latch is held while waiting here.

use crate::ahead::OwnerAhead;
use crate::api::{LockDescription, LockInfo, LockMode, LockResource, TreeId};
use crate::error::{Result, StorageError};
use crate::sync::{Condvar, Mutex};
use crate::tree::{CountedKey, Tree};
use daruma_base::{CancelFlag, Clock, DatabaseId, FastHash, TxnId, WaitKind, WaitRegistry};
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hash};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

const SHARDS: usize = 32;
/// Empty queues of objects that a shard keeps, so that every statement need not make them anew.
const KEPT_QUEUES: usize = 64;
/// Room for so many locks stays with an owner from one transaction to the next.
const HELD_KEPT: usize = 64;
/// A shard's table that is larger shrinks when it has become nearly empty.
const SHARD_KEPT: usize = 1024;
/// Bits of the ids of owners that are no sessions: what a short transaction needs for itself.
const PASSING: u64 = 3 << 62;
/// How long a waiter sleeps before it looks at its cancel flag again.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// The same while a cycle is suspected.
const SUSPICIOUS_INTERVAL: Duration = Duration::from_millis(1);

/// Holder of locks: one per session. `id` is unique in the server.
pub struct Owner {
    pub id: u64,
    pub cancel: CancelFlag,
    /// SET LOCK_TIMEOUT in ms; -1 waits for ever.
    pub lock_timeout_ms: AtomicI64,
    /// SET DEADLOCK_PRIORITY, -10..=10.
    pub deadlock_priority: AtomicI64,
    /// Log written by the current transaction: the cost of choosing it as victim.
    pub(crate) log_bytes: AtomicU64,
    /// What it is to those who may be held back (`crate::ahead`).
    pub(crate) ahead: OwnerAhead,
    victim: AtomicBool,
    /// Owners of the deadlock that it was chosen to end.
    cycle: Mutex<Vec<DeadlockOwner>>,
    /// When its wait began, in ns of the clock.
    waits_since_ns: AtomicU64,
    woken: Mutex<bool>,
    wake: Condvar,
    held: Mutex<Vec<LockKey>>,
    turn: Mutex<Option<Turn>>,
    has_turn: AtomicBool,
    /// Trees on which this owner keeps a key lock or range locks.
    pub(crate) read_locks: Mutex<Vec<(Arc<Tree>, ReadLock)>>,
}

impl Owner {
    /// An owner without locks. `id` is unique in the server, `cancel` ends its waits. What it writes belongs to no session, and is never held
    /// back: others may wait for it.
    pub fn new(id: u64, cancel: CancelFlag) -> Arc<Owner> {
        Owner::made(id, cancel, OwnerAhead::default())
    }

    /// The owner of what a session writes: beside synchronous replicas that lack much log it waits before it writes more.
    pub fn of_session(id: u64, cancel: CancelFlag) -> Arc<Owner> {
        Owner::made(id, cancel, OwnerAhead::of_session())
    }

    fn made(id: u64, cancel: CancelFlag, ahead: OwnerAhead) -> Arc<Owner> {
        Arc::new(Owner {
            id,
            cancel,
            lock_timeout_ms: AtomicI64::new(-1),
            deadlock_priority: AtomicI64::new(0),
            log_bytes: AtomicU64::new(0),
            ahead,
            victim: AtomicBool::new(false),
            cycle: Mutex::default(),
            waits_since_ns: AtomicU64::new(0),
            woken: Mutex::new(false),
            wake: Condvar::new(),
            held: Mutex::default(),
            turn: Mutex::default(),
            has_turn: AtomicBool::new(false),
            read_locks: Mutex::default(),
        })
    }

    /// When its wait for a lock or for replicas began, on the engine's clock; of one that waits for nothing, its last.
    pub fn waits_since(&self) -> Duration {
        Duration::from_nanos(self.waits_since_ns.load(Ordering::Relaxed))
    }

    pub(crate) fn note_wait(&self, since: Duration) {
        let since_ns = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
        self.waits_since_ns.store(since_ns, Ordering::Relaxed);
    }

    /// Does it wait because commit participants lack too much log?
    pub fn is_held_back(&self) -> bool {
        self.ahead.is_held_back()
    }

    fn in_deadlock(&self, now: Duration) -> DeadlockOwner {
        let since = self.waits_since();
        DeadlockOwner {
            id: self.id,
            priority: self.deadlock_priority.load(Ordering::Relaxed),
            log_bytes: self.log_bytes.load(Ordering::Relaxed),
            waited: now.saturating_sub(since),
        }
    }

    fn wake(&self) {
        *self.woken.lock() = true;
        self.wake.notify_one();
    }

    fn sleep(&self, at_most: Duration) {
        let mut woken = self.woken.lock();
        if !*woken {
            self.wake.wait_for(&mut woken, at_most);
        }
        *woken = false;
    }
}

/// The head of the queue at an entry, or a place in it: an update lock on its key, of one who waits for the entry's
/// writer and will write it then.
struct Turn {
    tree: Arc<Tree>,
    lock: LockKey,
    counted: CountedKey,
}

/// Kinds of locks that a tree counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadLock {
    Key(CountedKey),
    Range,
}

/// Resource of a lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum LockKey {
    Resource(DatabaseId, LockResource),
    Txn(DatabaseId, TxnId),
    /// Held by an owner of range locks: waiting for it is waiting for that owner's transaction.
    Ranges(u64, TreeId),
}

struct Grant {
    owner: u64,
    mode: LockMode,
    count: u32,
}

struct Waiter {
    owner: Arc<Owner>,
    mode: LockMode,
    ticket: u64,
}

#[derive(Default)]
struct Queue {
    granted: Vec<Grant>,
    waiting: Vec<Waiter>,
}

type Shard = HashMap<LockKey, Queue, FastHash>;

#[derive(Default)]
struct Graph {
    edges: HashMap<u64, Edge>,
}

/// A cycle that may be a deadlock, as an owner found it.
struct Suspicion {
    /// Looks with a higher number began after it was found.
    since: u64,
    /// Owners on it with the tickets of their waits; each waits for the next, the last for the first.
    cycle: Vec<(u64, u64)>,
}

/// Whom an owner waits for, as of its last look.
struct Edge {
    owner: Arc<Owner>,
    blockers: Vec<u64>,
    look: u64,
    /// Of the wait.
    ticket: u64,
}

/// Locks of all databases, with detection of deadlocks.
pub struct LockManager {
    shards: Vec<Mutex<Shard>>,
    graph: Mutex<Graph>,
    /// Numbers of looks and of suspicions, in one order.
    looks: AtomicU64,
    tickets: AtomicU64,
    waits: Arc<WaitRegistry>,
    clock: Arc<dyn Clock>,
    on_deadlock: OnceLock<DeadlockWatch>,
}

/// Who is told of deadlocks: on the thread of the victim, while all owners still wait and hold what they hold.
pub type DeadlockWatch = Box<dyn Fn(&Deadlock) + Send + Sync>;

/// A deadlock that was found.
#[derive(Clone, Debug)]
pub struct Deadlock {
    /// Id of the owner that gives way.
    pub victim: u64,
    /// All owners on the cycle.
    pub owners: Vec<DeadlockOwner>,
}

/// One of the owners that wait for each other.
#[derive(Clone, Debug)]
pub struct DeadlockOwner {
    pub id: u64,
    pub priority: i64,
    /// Log of its transaction.
    pub log_bytes: u64,
    pub waited: Duration,
}

/// May `a` be granted beside `b` held by someone else? (SQL Server's matrix for these modes.)
fn compatible(a: LockMode, b: LockMode) -> bool {
    use LockMode::*;
    match (a, b) {
        (SchS, SchM) | (SchM, _) | (_, SchM) => false,
        (SchS, _) | (_, SchS) => true,
        (IntentShared, Exclusive) | (Exclusive, _) | (_, Exclusive) => false,
        (IntentShared, _) | (_, IntentShared) => true,
        (IntentExclusive, IntentExclusive) => true,
        (IntentExclusive, _) | (_, IntentExclusive) => false,
        (Shared, Shared | Update) | (Update, Shared) => true,
        (Shared, _) | (_, Shared) | (Update, _) | (_, Update) => false,
        (SharedIntentExclusive, SharedIntentExclusive) => false,
    }
}

fn wait_kind(mode: LockMode) -> WaitKind {
    match mode {
        LockMode::SchS => WaitKind::LockSchS,
        LockMode::SchM => WaitKind::LockSchM,
        LockMode::IntentShared => WaitKind::LockIs,
        LockMode::IntentExclusive => WaitKind::LockIx,
        LockMode::Shared => WaitKind::LockS,
        LockMode::Update => WaitKind::LockU,
        LockMode::SharedIntentExclusive | LockMode::Exclusive => WaitKind::LockX,
    }
}

pub(crate) fn mode_name(mode: LockMode) -> &'static str {
    match mode {
        LockMode::SchS => "Sch-S",
        LockMode::SchM => "Sch-M",
        LockMode::IntentShared => "IS",
        LockMode::IntentExclusive => "IX",
        LockMode::Shared => "S",
        LockMode::Update => "U",
        LockMode::SharedIntentExclusive => "SIX",
        LockMode::Exclusive => "X",
    }
}

impl Queue {
    /// Owners that keep `owner` from getting `mode`, with those who wait before `ticket`.
    fn blockers(&self, owner: u64, mode: LockMode, ticket: u64) -> Vec<u64> {
        let holds = self.granted.iter().any(|g| g.owner == owner);
        let held = self
            .granted
            .iter()
            .filter(|g| g.owner != owner && !compatible(mode, g.mode))
            .map(|g| g.owner);
        // An owner that holds something here already does not queue behind newcomers (conversion).
        let ahead = self.waiting.iter().filter(|w| {
            !holds
                && w.ticket < ticket
                && w.owner.id != owner
                && !(compatible(mode, w.mode) && compatible(w.mode, mode))
        });
        held.chain(ahead.map(|w| w.owner.id)).collect()
    }

    /// True when the owner had no grant of this mode before.
    fn grant(&mut self, owner: u64, mode: LockMode) -> bool {
        if let Some(grant) = self
            .granted
            .iter_mut()
            .find(|g| g.owner == owner && g.mode == mode)
        {
            grant.count += 1;
            return false;
        }
        self.granted.push(Grant {
            owner,
            mode,
            count: 1,
        });
        true
    }

    /// Wakes those who may go on now, in order.
    fn wake_next(&self) {
        let mut ahead: Vec<LockMode> = Vec::new();
        for w in &self.waiting {
            let mine = |g: &&Grant| g.owner == w.owner.id;
            let holds = self.granted.iter().any(|g| mine(&g));
            let kept_out = self
                .granted
                .iter()
                .any(|g| !mine(&g) && !compatible(w.mode, g.mode));
            let behind = ahead
                .iter()
                .any(|m| !(compatible(w.mode, *m) && compatible(*m, w.mode)));
            if !kept_out && (holds || !behind) {
                w.owner.wake();
            }
            if !ahead.contains(&w.mode) {
                ahead.push(w.mode);
            }
        }
    }
}

/// Takes away the queue of a resource that nobody holds or wants. Those of objects stay: the next statement needs them.
fn drop_if_empty(shard: &mut Shard, key: &LockKey) {
    let stays =
        matches!(key, LockKey::Resource(_, LockResource::Object(_))) && shard.len() <= KEPT_QUEUES;
    if !stays
        && let Some(queue) = shard.get(key)
        && queue.granted.is_empty()
        && queue.waiting.is_empty()
    {
        shard.remove(key);
        // A transaction that had very many locks leaves no table of their size behind.
        if shard.capacity() > SHARD_KEPT && shard.len() < shard.capacity() / 8 {
            shard.shrink_to(SHARD_KEPT.max(shard.len() * 2));
        }
    }
}

impl LockManager {
    /// A manager without locks.
    pub fn new(clock: Arc<dyn Clock>, waits: Arc<WaitRegistry>) -> LockManager {
        LockManager {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            graph: Mutex::default(),
            looks: AtomicU64::new(1),
            tickets: AtomicU64::new(1),
            waits,
            clock,
            on_deadlock: OnceLock::new(),
        }
    }

    fn shard(&self, key: &LockKey) -> &Mutex<Shard> {
        // The map inside uses the low and the highest bits of the same hash.
        &self.shards[(FastHash::default().hash_one(key) >> 32) as usize % SHARDS]
    }

    /// An owner whose id no other has, for one short transaction that belongs to no session.
    pub fn passing_owner(&self, cancel: CancelFlag) -> Arc<Owner> {
        let number = self.tickets.fetch_add(1, Ordering::Relaxed);
        // The low 16 bits are a session's number: none has 0.
        Owner::new(PASSING | ((number << 16) & !PASSING), cancel)
    }

    /// Takes a lock, waiting for it if need be. It stays until `release` or `release_all`. A turn at another entry is given
    /// up before the wait: nobody behind it has to wait for that as well.
    pub fn acquire(&self, owner: &Arc<Owner>, key: &LockKey, mode: LockMode) -> Result<()> {
        if owner.has_turn.load(Ordering::Relaxed) {
            if self.try_acquire(owner, key, mode) {
                return Ok(());
            }
            if !owner.turn.lock().as_ref().is_some_and(|t| t.lock == *key) {
                self.end_turn(owner);
            }
        }
        self.acquire_in_turn(owner, key, mode)
    }

    /// As `acquire`, keeping the turn.
    fn acquire_in_turn(&self, owner: &Arc<Owner>, key: &LockKey, mode: LockMode) -> Result<()> {
        let ticket = {
            let mut shard = self.shard(key).lock();
            let queue = match shard.get_mut(key) {
                Some(queue) => queue,
                None => shard.entry(key.clone()).or_default(),
            };
            let ticket = self.tickets.fetch_add(1, Ordering::Relaxed);
            if queue.blockers(owner.id, mode, ticket).is_empty() {
                if queue.grant(owner.id, mode) {
                    owner.held.lock().push(key.clone());
                }
                return Ok(());
            }
            // Before others see it wait.
            owner.note_wait(self.clock.monotonic());
            queue.waiting.push(Waiter {
                owner: owner.clone(),
                mode,
                ticket,
            });
            ticket
        };
        let start = self.clock.monotonic();
        let result = self.wait(owner, key, mode, ticket, start);
        self.waits.record(
            wait_kind(mode),
            self.clock.monotonic().saturating_sub(start),
        );
        result
    }

    /// Takes a lock if that needs no waiting.
    pub fn try_acquire(&self, owner: &Owner, key: &LockKey, mode: LockMode) -> bool {
        let mut shard = self.shard(key).lock();
        let ticket = self.tickets.fetch_add(1, Ordering::Relaxed);
        let queue = shard.entry(key.clone()).or_default();
        let free = queue.blockers(owner.id, mode, ticket).is_empty();
        if free && queue.grant(owner.id, mode) {
            owner.held.lock().push(key.clone());
        }
        free
    }

    /// Does the owner hold the lock in this mode until its transaction ends? Its turn at the key goes before that.
    pub(crate) fn keeps(&self, owner: &Owner, key: &LockKey, mode: LockMode) -> bool {
        if owner.turn.lock().as_ref().is_some_and(|t| t.lock == *key) {
            return false;
        }
        let shard = self.shard(key).lock();
        let is_kept = |g: &Grant| g.owner == owner.id && g.mode == mode;
        shard
            .get(key)
            .is_some_and(|q| q.granted.iter().any(is_kept))
    }

    fn wait(
        &self,
        owner: &Arc<Owner>,
        key: &LockKey,
        mode: LockMode,
        ticket: u64,
        start: Duration,
    ) -> Result<()> {
        owner.victim.store(false, Ordering::Release);
        owner.note_wait(start);
        let timeout = owner.lock_timeout_ms.load(Ordering::Relaxed);
        let mut suspected: Option<Suspicion> = None;
        let outcome = loop {
            let look = self.begin_look();
            let blockers = {
                let mut shard = self.shard(key).lock();
                let Some(queue) = shard.get_mut(key) else {
                    break Ok(());
                };
                let blockers = queue.blockers(owner.id, mode, ticket);
                if blockers.is_empty() {
                    queue.waiting.retain(|w| w.ticket != ticket);
                    if queue.grant(owner.id, mode) {
                        owner.held.lock().push(key.clone());
                    }
                    self.forget(owner);
                    return Ok(());
                }
                blockers
            };
            if owner.cancel.get().is_some() {
                break Err(StorageError::Cancelled);
            }
            let closes = self.closes_cycle(owner, ticket, (look, blockers), &mut suspected);
            if owner.victim.swap(false, Ordering::AcqRel) || closes {
                self.tell_deadlock(owner);
                break Err(StorageError::Deadlock {
                    wait: wait_kind(mode),
                });
            }
            let waited = self.clock.monotonic().saturating_sub(start);
            let mut nap = match suspected {
                Some(_) => SUSPICIOUS_INTERVAL,
                None => LOOK_INTERVAL,
            };
            if let Ok(limit) = u64::try_from(timeout) {
                let limit = Duration::from_millis(limit);
                if waited >= limit {
                    break Err(StorageError::LockTimeout);
                }
                nap = nap.min(limit - waited);
            }
            owner.sleep(nap);
        };
        self.forget(owner);
        self.leave(key, ticket);
        outcome
    }

    /// Tells who watches of the deadlock that `owner` ends, before anybody on it goes on.
    fn tell_deadlock(&self, owner: &Owner) {
        let owners = std::mem::take(&mut *owner.cycle.lock());
        if let Some(watch) = self.on_deadlock.get() {
            let victim = owner.id;
            watch(&Deadlock { victim, owners });
        }
    }

    /// Names who is told of deadlocks. Once.
    pub(crate) fn watch_deadlocks(&self, watch: DeadlockWatch) {
        let _first = self.on_deadlock.set(watch);
    }

    /// A waiter gives up: those behind it may go.
    fn leave(&self, key: &LockKey, ticket: u64) {
        let mut shard = self.shard(key).lock();
        if let Some(queue) = shard.get_mut(key) {
            queue.waiting.retain(|w| w.ticket != ticket);
            queue.wake_next();
            drop_if_empty(&mut shard, key);
        }
    }

    fn forget(&self, owner: &Owner) {
        self.graph.lock().edges.remove(&owner.id);
    }

    /// Number of a look that begins now: to be taken before the blockers are.
    fn begin_look(&self) -> u64 {
        self.looks.fetch_add(1, Ordering::AcqRel)
    }

    /// Enters what a look saw into the graph. True when `owner` itself must give way; another victim is told.
    ///
    /// The edges of the others are as old as their last look: one of them may have been granted its lock since. So a
    /// cycle is first only suspected, and believed when every member has begun another look after that, in the same wait,
    /// and this very cycle still stands: nobody on it can have released anything meanwhile, so all its edges hold at once.
    /// That some cycle is seen at every look proves nothing, nor does a look that began before the suspicion and was
    /// entered after it.
    fn closes_cycle(
        &self,
        owner: &Arc<Owner>,
        ticket: u64,
        (look, blockers): (u64, Vec<u64>),
        suspected: &mut Option<Suspicion>,
    ) -> bool {
        let mut graph = self.graph.lock();
        let edge = Edge {
            owner: owner.clone(),
            blockers,
            look,
            ticket,
        };
        graph.edges.insert(owner.id, edge);
        if suspected.as_ref().is_some_and(|s| !graph.stands(&s.cycle)) {
            *suspected = None;
        }
        let suspicion = match suspected {
            Some(suspicion) => suspicion,
            None => match graph.find_cycle(owner.id) {
                Some(found) => suspected.insert(Suspicion {
                    since: self.begin_look(),
                    cycle: graph.waits_of(&found),
                }),
                None => return false,
            },
        };
        let since = suspicion.since;
        let members = suspicion.cycle.iter();
        let cycle: Vec<Arc<Owner>> = members
            .filter_map(|(id, _)| graph.edges.get(id).map(|e| e.owner.clone()))
            .collect();
        let others = cycle.iter().filter(|o| o.id != owner.id);
        let looked_again = |o: &&Arc<Owner>| graph.edges.get(&o.id).is_some_and(|e| e.look > since);
        if look < since || !others.clone().all(|o| looked_again(&o)) {
            others.for_each(|o| o.wake());
            return false;
        }
        let cost = |o: &Arc<Owner>| {
            (
                o.deadlock_priority.load(Ordering::Relaxed),
                o.log_bytes.load(Ordering::Relaxed),
                u64::MAX - o.id,
            )
        };
        let Some(victim) = cycle.iter().min_by_key(|o| cost(o)).cloned() else {
            return false;
        };
        let now = self.clock.monotonic();
        *victim.cycle.lock() = cycle.iter().map(|o| o.in_deadlock(now)).collect();
        if victim.id == owner.id {
            return true;
        }
        victim.victim.store(true, Ordering::Release);
        victim.wake();
        false
    }

    /// Gives back one grant of `mode`.
    pub fn release(&self, owner: &Owner, key: &LockKey, mode: LockMode) {
        let gone = {
            let mut shard = self.shard(key).lock();
            let Some(queue) = shard.get_mut(key) else {
                return;
            };
            let Some(at) = queue
                .granted
                .iter()
                .position(|g| g.owner == owner.id && g.mode == mode)
            else {
                return;
            };
            queue.granted[at].count -= 1;
            let gone = queue.granted[at].count == 0;
            if gone {
                queue.granted.swap_remove(at);
                queue.wake_next();
                drop_if_empty(&mut shard, key);
            }
            gone
        };
        if gone {
            let mut held = owner.held.lock();
            if let Some(at) = held.iter().rposition(|k| k == key) {
                held.swap_remove(at);
            }
        }
    }

    /// Gives back everything the owner holds.
    pub fn release_all(&self, owner: &Owner) {
        self.end_turn(owner);
        for (tree, kind) in std::mem::take(&mut *owner.read_locks.lock()) {
            tree.release_read_lock(owner.id, kind);
        }
        let mut held = std::mem::take(&mut *owner.held.lock());
        for key in &held {
            let mut shard = self.shard(key).lock();
            if let Some(queue) = shard.get_mut(key) {
                queue.granted.retain(|g| g.owner != owner.id);
                queue.wake_next();
                drop_if_empty(&mut shard, key);
            }
        }
        held.clear();
        let mut slot = owner.held.lock();
        if slot.is_empty() && held.capacity() <= HELD_KEPT {
            *slot = held;
        }
        drop(slot);
        owner.log_bytes.store(0, Ordering::Relaxed);
    }

    /// Returns when the transaction has ended.
    pub fn wait_for_txn(
        &self,
        owner: &Arc<Owner>,
        database: DatabaseId,
        txn: TxnId,
        mode: LockMode,
    ) -> Result<()> {
        let key = LockKey::Txn(database, txn);
        self.acquire(owner, &key, mode)?;
        self.release(owner, &key, mode);
        Ok(())
    }

    /// The same at the head of the queue of an entry that the transaction wrote.
    pub(crate) fn wait_in_turn(
        &self,
        owner: &Arc<Owner>,
        database: DatabaseId,
        txn: TxnId,
    ) -> Result<()> {
        let key = LockKey::Txn(database, txn);
        self.acquire_in_turn(owner, &key, LockMode::Update)?;
        self.release(owner, &key, LockMode::Update);
        Ok(())
    }

    /// Queues up for an entry: returns when those who came before have had their turns. Nothing happens if it is the
    /// owner's turn there already.
    pub(crate) fn take_turn(
        &self,
        owner: &Arc<Owner>,
        (tree, lock): (&Arc<Tree>, &LockKey),
        count: impl FnOnce() -> CountedKey,
        uncount: impl FnOnce(CountedKey),
    ) -> Result<()> {
        if owner.turn.lock().as_ref().is_some_and(|t| t.lock == *lock) {
            return Ok(());
        }
        self.end_turn(owner);
        let counted = count();
        if let Err(error) = self.acquire_in_turn(owner, lock, LockMode::Update) {
            uncount(counted);
            return Err(error);
        }
        *owner.turn.lock() = Some(Turn {
            tree: tree.clone(),
            lock: lock.clone(),
            counted,
        });
        owner.has_turn.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Lets those go on who queue behind the owner, if it has a turn somewhere: at the end of its statement.
    #[inline]
    pub fn end_turn(&self, owner: &Owner) {
        // Each statement comes here, and few have a turn.
        if owner.has_turn.load(Ordering::Relaxed) {
            self.give_up_turn(owner);
        }
    }

    #[cold]
    fn give_up_turn(&self, owner: &Owner) {
        owner.has_turn.store(false, Ordering::Relaxed);
        let turn = owner.turn.lock().take();
        if let Some(turn) = turn {
            self.release(owner, &turn.lock, LockMode::Update);
            let counted = ReadLock::Key(turn.counted);
            turn.tree.release_read_lock(owner.id, counted);
        }
    }

    /// Does anyone else hold a lock on this key that conflicts with `mode`, or wait for one? Whoever waits has its lock as soon as it
    /// wakes: until then nobody holds one, and newcomers must not slip in. An owner that holds something here is not a newcomer.
    pub fn conflicts(&self, owner: &Owner, key: &LockKey, mode: LockMode) -> bool {
        let shard = self.shard(key).lock();
        let Some(queue) = shard.get(key) else {
            return false;
        };
        let in_the_way = |other: u64, its: LockMode| other != owner.id && !compatible(mode, its);
        let is_newcomer = || queue.granted.iter().all(|g| g.owner != owner.id);
        queue.granted.iter().any(|g| in_the_way(g.owner, g.mode))
            || queue.waiting.iter().any(|w| in_the_way(w.owner.id, w.mode)) && is_newcomer()
    }

    /// Owner that `owner` is waiting for.
    pub fn blocked_by(&self, owner: &Owner) -> Option<u64> {
        self.graph
            .lock()
            .edges
            .get(&owner.id)
            .and_then(|edge| edge.blockers.first().copied())
    }

    /// Locks granted and waited for, for sys.dm_tran_locks. Not one moment's picture: shards are read one after the
    /// other.
    pub fn list(&self) -> Vec<LockInfo> {
        let mut out = Vec::new();
        for shard in &self.shards {
            for (key, queue) in shard.lock().iter() {
                let (database, resource) = match key {
                    LockKey::Resource(db, r) => (db.0, LockDescription::Resource(r.clone())),
                    LockKey::Txn(db, id) => (db.0, LockDescription::Transaction(*id)),
                    LockKey::Ranges(_, tree) => (0, LockDescription::Range { tree: *tree }),
                };
                let info = |owner, mode, granted| LockInfo {
                    database,
                    owner,
                    resource: resource.clone(),
                    mode: mode_name(mode),
                    granted,
                };
                out.extend(queue.granted.iter().map(|g| info(g.owner, g.mode, true)));
                out.extend(
                    queue
                        .waiting
                        .iter()
                        .map(|w| info(w.owner.id, w.mode, false)),
                );
            }
        }
        out
    }
}

impl Graph {
    fn waits_of(&self, owners: &[Arc<Owner>]) -> Vec<(u64, u64)> {
        let wait = |o: &Arc<Owner>| self.edges.get(&o.id).map(|e| (o.id, e.ticket));
        owners.iter().filter_map(wait).collect()
    }

    /// Does each owner of the cycle still wait for the next, in the same wait?
    fn stands(&self, cycle: &[(u64, u64)]) -> bool {
        let next = cycle.iter().cycle().skip(1);
        cycle.iter().zip(next).all(|((id, ticket), (next, _))| {
            let edge = self.edges.get(id);
            edge.is_some_and(|e| e.ticket == *ticket && e.blockers.contains(next))
        })
    }

    /// Owners on a cycle through `start`.
    fn find_cycle(&self, start: u64) -> Option<Vec<Arc<Owner>>> {
        let mut seen = HashSet::new();
        let mut path = Vec::new();
        self.search(start, start, &mut seen, &mut path)
            .then_some(path)
    }

    fn search(
        &self,
        at: u64,
        start: u64,
        seen: &mut HashSet<u64>,
        path: &mut Vec<Arc<Owner>>,
    ) -> bool {
        let Some(edge) = self.edges.get(&at) else {
            return false;
        };
        path.push(edge.owner.clone());
        for next in &edge.blockers {
            if *next == start {
                return true;
            }
            // Depth is bounded by the number of waiting sessions, each of which has a thread of its own.
            if seen.insert(*next) && self.search(*next, start, seen, path) {
                return true;
            }
        }
        path.pop();
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Waiting {
        owner: Arc<Owner>,
        blocker: u64,
        suspected: Option<Suspicion>,
    }

    impl Waiting {
        fn new(id: u64, blocker: u64) -> Waiting {
            Waiting {
                owner: Owner::new(id, CancelFlag::default()),
                blocker,
                suspected: None,
            }
        }

        /// Enters look number `look`; true when the owner must give way or was told to.
        fn enter(&mut self, locks: &LockManager, look: u64) -> bool {
            let seen = (look, vec![self.blocker]);
            locks.closes_cycle(&self.owner, self.owner.id, seen, &mut self.suspected)
                || self.owner.victim.load(Ordering::Acquire)
        }
    }

    #[test]
    fn a_newcomer_waits_behind_one_that_has_not_woken_yet() {
        let clock = Arc::new(daruma_sim::SimClock::default());
        let locks = LockManager::new(clock, Arc::default());
        let owners = [1, 2, 3].map(|id| Owner::new(id, CancelFlag::default()));
        let [holder, waiter, newcomer] = &owners;
        let key = LockKey::Txn(DatabaseId(5), TxnId(1));
        let update = LockMode::Update;
        locks.acquire(holder, &key, update).expect("nobody has it");
        let waiting = Waiter {
            owner: waiter.clone(),
            mode: update,
            ticket: u64::MAX,
        };
        let mut shard = locks.shard(&key).lock();
        shard.get_mut(&key).expect("a queue").waiting.push(waiting);
        drop(shard);
        assert!(!locks.conflicts(holder, &key, update), "its own turn");
        locks.release(holder, &key, update);
        assert!(locks.conflicts(newcomer, &key, update));
        assert!(!locks.conflicts(waiter, &key, update), "its own place");
        assert!(!locks.conflicts(newcomer, &key, LockMode::Shared));
    }

    #[test]
    fn very_many_locks_leave_no_large_table_behind() {
        let clock = Arc::new(daruma_sim::SimClock::default());
        let locks = LockManager::new(clock, Arc::default());
        let owner = Owner::new(1, CancelFlag::default());
        let capacity = || -> usize {
            locks
                .shards
                .iter()
                .map(|shard| shard.lock().capacity())
                .sum()
        };
        for number in 0..100_000 {
            let key = LockKey::Txn(DatabaseId(5), TxnId(number));
            locks
                .acquire(&owner, &key, LockMode::Shared)
                .expect("nobody else has it");
        }
        assert!(capacity() >= 100_000);
        locks.release_all(&owner);
        let most = locks.shards.len() * 2 * SHARD_KEPT;
        assert!(capacity() <= most, "{} of {most}", capacity());
    }

    #[test]
    fn a_look_from_before_the_suspicion_does_not_confirm_it() {
        let clock = Arc::new(daruma_sim::SimClock::default());
        let locks = LockManager::new(clock, Arc::default());
        let (mut a, mut b) = (Waiting::new(1, 2), Waiting::new(2, 1));
        assert!(!b.enter(&locks, locks.begin_look()));
        let stale = locks.begin_look();
        assert!(!a.enter(&locks, locks.begin_look()), "only suspected");
        assert!(!b.enter(&locks, stale));
        assert!(
            !a.enter(&locks, locks.begin_look()),
            "b has not looked since"
        );
        let given_up = b.enter(&locks, locks.begin_look()) | a.enter(&locks, locks.begin_look());
        assert!(given_up, "both have looked again: a deadlock");
    }
}
