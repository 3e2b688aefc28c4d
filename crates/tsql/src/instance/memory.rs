//! The bound on what the server allocates besides pages.
//!
//! Theory: the allocator counts (`daruma_base::memory`); this is where the count meets a bound. Every loop whose length a
//! client decides asks here now and then, and whatever builds a large value asks before it does. A request that holds
//! little always goes on, so that a session that has taken everything is the one that gets error 701, not its neighbours.
//! Near the bound sorts and hashes spill. Nearer still it is crowded: of the requests that hold more than a little one has its turn and
//! goes on, up to the bound, and the others wait until it has ended or there is room again.
//!
//! Invariants
//! 1. Large values are promised before they are allocated, so that many sessions together do not pass the bound by more than
//!    `HELPED_PERCENT` of it. What is refused is never counted: who waits takes no room from whoever has the turn.
//! 2. A request that has the turn does not wait for memory. It may wait for something else, even for one who waits here: then it asks for
//!    nothing, and after a second the turn is the next one's. So nobody waits here for itself.

use daruma_base::memory;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

/// A request that holds less is never refused memory.
pub const SMALL_BYTES: i64 = 1 << 20;
/// Where the bound is near, sorts and hashes spill: part of it in percent.
const SHORT_PERCENT: i64 = 75;
/// Where more of the bound is taken, in percent, requests go on one at a time.
const CROWDED_PERCENT: i64 = 85;
/// Share of the bound that one request may hold, in percent.
const REQUEST_PERCENT: i64 = 75;
/// A request whose turn it is may pass the bound as long as it holds no more than this part of it, in percent, and all that have
/// passed it no more together: so one that needs little comes to its end while others hold everything and wait.
const HELPED_PERCENT: i64 = 12;
/// A turn is over when who has it asks for nothing for so long.
const TURN: Duration = Duration::from_secs(1);
/// Memory that sorts and hashes of a statement may hold before they spill: at most, and as a part of the bound.
const GRANT_BYTES_MAX: i64 = 64 << 20;
const GRANT_PERCENT: i64 = 12;
/// Prepared documents of all sessions may hold one part of so many of the bound, as in the product.
const DOCUMENTS_PART: i64 = 8;
/// `max server memory` leaves everything but pages at least this much.
const LOWERED_BYTES_MIN: i64 = 64 << 20;

/// The server's memory besides pages.
#[derive(Debug)]
pub struct WorkMemory {
    /// As the server was started, and as configured since.
    given: i64,
    bound: AtomicI64,
    /// See [`WorkMemory::grant_bytes`]: every statement asks.
    grant: AtomicI64,
    /// About to be allocated.
    promised: AtomicI64,
    /// Of documents that sessions have prepared.
    documents: AtomicI64,
    /// How many requests have ended with error 701.
    refused: AtomicU64,
    crowd: Mutex<Crowd>,
    /// Somebody has the turn or waits: most requests end without having met the crowd.
    is_crowded: AtomicBool,
}

/// A request that asks for memory.
#[derive(Clone, Copy)]
pub struct Asking<'a> {
    /// Number of the session.
    pub session: i32,
    /// Bytes that the request holds.
    pub held: i64,
    /// Looks at the monotonic clock, where it is crowded.
    pub now: &'a dyn Fn() -> Duration,
}

/// Why a request gets no memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// It is not its turn.
    Crowded,
    /// It holds too much, or the bound is reached.
    Full,
}

/// Requests where memory is nearly used up.
#[derive(Debug, Default)]
struct Crowd {
    /// The one that goes on, and when it asked last.
    turn: Option<(i32, Duration)>,
    /// Those that wait, in the order in which they came.
    waiting: VecDeque<i32>,
}

impl Crowd {
    /// Is it this one's turn? Otherwise it stands in the queue.
    fn lets_go_on(&mut self, session: i32, now: Duration) -> bool {
        let turn = self
            .turn
            .filter(|(_, asked)| now.saturating_sub(*asked) < TURN);
        let goes_on = match turn {
            Some((owner, _)) => owner == session,
            None => self.waiting.front().is_none_or(|first| *first == session),
        };
        if goes_on {
            self.turn = Some((session, now));
            self.waiting.retain(|waiting| *waiting != session);
        } else if !self.waiting.contains(&session) {
            self.waiting.push_back(session);
        }
        goes_on
    }
}

/// Bytes that are about to be allocated; given back when they are, for then they are counted.
#[derive(Debug)]
pub struct Promise {
    memory: Arc<WorkMemory>,
    bytes: i64,
}

impl Drop for Promise {
    fn drop(&mut self) {
        self.memory
            .promised
            .fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Bytes of a prepared document, which count until it is let go of.
#[derive(Debug)]
pub struct KeptDocument {
    memory: Arc<WorkMemory>,
    bytes: i64,
}

impl Drop for KeptDocument {
    fn drop(&mut self) {
        self.memory
            .documents
            .fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl WorkMemory {
    /// `None` is no bound.
    pub fn new(bound: Option<u64>) -> Arc<WorkMemory> {
        let given = bound.and_then(|b| i64::try_from(b).ok());
        let given = given.unwrap_or(i64::MAX);
        Arc::new(WorkMemory {
            given,
            bound: AtomicI64::new(given),
            grant: AtomicI64::new(grant_of(given)),
            promised: AtomicI64::new(0),
            documents: AtomicI64::new(0),
            refused: AtomicU64::new(0),
            crowd: Mutex::default(),
            is_crowded: AtomicBool::new(false),
        })
    }

    /// `max server memory` leaves so many bytes beside pages. It lowers the bound that the server was started with, though not
    /// below what a server needs.
    pub fn lower_to(&self, bytes: i64) {
        let bound = bytes.max(LOWERED_BYTES_MIN).min(self.given);
        self.bound.store(bound, Ordering::Relaxed);
        self.grant.store(grant_of(bound), Ordering::Relaxed);
    }

    fn bound_bytes(&self) -> i64 {
        self.bound.load(Ordering::Relaxed)
    }

    /// Bytes that may be allocated besides pages; `None` without a bound.
    pub fn bound(&self) -> Option<i64> {
        let bound = self.bound_bytes();
        (bound != i64::MAX).then_some(bound)
    }

    /// Bytes allocated or promised.
    fn taken(&self) -> i64 {
        memory::work_bytes() + self.promised.load(Ordering::Relaxed)
    }

    /// May a request that holds `held` bytes take `wanted` more?
    pub fn has_room(&self, held: i64, wanted: i64) -> bool {
        let (request, bound) = (held.saturating_add(wanted), self.bound_bytes());
        if request < SMALL_BYTES || bound == i64::MAX {
            return true;
        }
        request <= bound / 100 * REQUEST_PERCENT && self.taken().saturating_add(wanted) <= bound
    }

    /// A request has ended with error 701.
    pub fn note_refusal(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Is so much of the bound taken that requests wait for each other? And how many have ended with error 701 so far?
    pub fn exhaustion(&self) -> (bool, u64) {
        let bound = self.bound_bytes();
        let is_crowded = bound != i64::MAX && self.taken() > bound / 100 * CROWDED_PERCENT;
        (is_crowded, self.refused.load(Ordering::Relaxed))
    }

    /// May the request take `wanted` more? As `has_room`, and where it is crowded one at a time.
    pub fn ask(&self, asking: Asking<'_>, wanted: i64) -> Result<(), Shortage> {
        match self.ask_at_once(asking, wanted)? {
            true => Ok(()),
            false => self.ask_in_turn(asking, wanted, &mut self.crowd.lock()),
        }
    }

    /// `false`: it is crowded.
    fn ask_at_once(&self, asking: Asking<'_>, wanted: i64) -> Result<bool, Shortage> {
        let (request, bound) = (asking.held.saturating_add(wanted), self.bound_bytes());
        if request < SMALL_BYTES || bound == i64::MAX {
            return Ok(true);
        }
        if request > bound / 100 * REQUEST_PERCENT {
            return Err(Shortage::Full);
        }
        Ok(self.taken().saturating_add(wanted) <= bound / 100 * CROWDED_PERCENT)
    }

    fn ask_in_turn(
        &self,
        asking: Asking<'_>,
        wanted: i64,
        crowd: &mut Crowd,
    ) -> Result<(), Shortage> {
        self.is_crowded.store(true, Ordering::Relaxed);
        if !crowd.lets_go_on(asking.session, (asking.now)()) {
            return Err(Shortage::Crowded);
        }
        let (request, bound) = (asking.held.saturating_add(wanted), self.bound_bytes());
        let help = bound / 100 * HELPED_PERCENT;
        let beyond = self.taken().saturating_add(wanted).saturating_sub(bound);
        match beyond <= 0 || request <= help && beyond <= help {
            true => Ok(()),
            false => Err(Shortage::Full),
        }
    }

    /// As `ask`, and keeps the bytes for the caller.
    pub fn promise(self: &Arc<Self>, asking: Asking<'_>, wanted: i64) -> Result<Promise, Shortage> {
        // Locked from the question on: of two that ask at once the second sees what the first was promised.
        let mut crowd = self.crowd.lock();
        if !self.ask_at_once(asking, wanted)? {
            self.ask_in_turn(asking, wanted, &mut crowd)?;
        }
        self.promised.fetch_add(wanted, Ordering::Relaxed);
        Ok(Promise {
            memory: self.clone(),
            bytes: wanted,
        })
    }

    /// Counts a document that a session prepares: `None` where all sessions' would have more than their part.
    pub fn keep_document(self: &Arc<Self>, bytes: usize) -> Option<KeptDocument> {
        let bytes = i64::try_from(bytes).ok()?;
        let most = self
            .bound()
            .map_or(i64::MAX, |bound| bound / DOCUMENTS_PART);
        let more = |kept: i64| kept.checked_add(bytes).filter(|all| *all <= most);
        let relaxed = Ordering::Relaxed;
        self.documents.fetch_update(relaxed, relaxed, more).ok()?;
        Some(KeptDocument {
            memory: self.clone(),
            bytes,
        })
    }

    /// The session's request waits no more; it may have the turn.
    pub fn stop_waiting(&self, session: i32) {
        self.crowd
            .lock()
            .waiting
            .retain(|waiting| *waiting != session);
    }

    /// The session's request has ended: it neither waits nor has the turn.
    pub fn leave(&self, session: i32) {
        if !self.is_crowded.load(Ordering::Relaxed) {
            return;
        }
        let mut crowd = self.crowd.lock();
        crowd.turn = crowd.turn.filter(|(owner, _)| *owner != session);
        crowd.waiting.retain(|waiting| *waiting != session);
        let has_some = crowd.turn.is_some() || !crowd.waiting.is_empty();
        self.is_crowded.store(has_some, Ordering::Relaxed);
    }

    /// Is the bound near?
    pub fn is_short(&self) -> bool {
        let bound = self.bound_bytes();
        bound != i64::MAX && self.taken() > bound / 100 * SHORT_PERCENT
    }

    /// Memory that sorts and hashes of a statement may hold before they spill.
    pub fn grant_bytes(&self) -> i64 {
        self.grant.load(Ordering::Relaxed)
    }
}

fn grant_of(bound: i64) -> i64 {
    GRANT_BYTES_MAX.min(bound / 100 * GRANT_PERCENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_that_hold_little_go_on_where_others_are_refused() {
        let memory = WorkMemory::new(Some(1));
        assert!(memory.has_room(SMALL_BYTES / 2, 100));
        assert_eq!(memory.exhaustion(), (true, 0));
        assert!(!memory.has_room(SMALL_BYTES, 0));
        assert!(memory.is_short());
        assert_eq!(memory.exhaustion(), (true, 0), "it may spill");
        memory.note_refusal();
        assert_eq!(memory.exhaustion(), (true, 1));
        let wide = WorkMemory::new(None);
        assert!(wide.has_room(SMALL_BYTES, SMALL_BYTES));
        assert_eq!(wide.exhaustion(), (false, 0));
        assert!(WorkMemory::new(None).has_room(i64::MAX, i64::MAX));
    }

    #[test]
    fn max_server_memory_lowers_the_bound_and_gives_it_back() {
        let memory = WorkMemory::new(Some(1 << 30));
        memory.lower_to(100 << 20);
        assert_eq!(memory.bound(), Some(100 << 20));
        memory.lower_to(-5);
        assert_eq!(memory.bound(), Some(LOWERED_BYTES_MIN));
        memory.lower_to(i64::MAX);
        assert_eq!(memory.bound(), Some(1 << 30));
    }

    fn asking(session: i32, held: i64, second: u64) -> Asking<'static> {
        let now: &dyn Fn() -> Duration = match second {
            0 => &|| Duration::ZERO,
            _ => &|| TURN,
        };
        Asking { session, held, now }
    }

    #[test]
    fn promises_count_until_they_are_kept() {
        // Far above what this process allocates itself.
        let memory = WorkMemory::new(Some(100 << 30));
        let first = memory.promise(asking(1, 0, 0), 60 << 30);
        assert!(first.is_ok());
        assert!(memory.promise(asking(1, 0, 0), 60 << 30).is_err());
        drop(first);
        assert!(memory.promise(asking(1, 0, 0), 60 << 30).is_ok());
        let all = memory.promise(asking(1, 0, 0), 80 << 30);
        assert_eq!(all.err(), Some(Shortage::Full));
    }

    #[test]
    fn where_it_is_crowded_one_goes_on_and_the_others_follow_in_turn() {
        let memory = WorkMemory::new(Some(100 << 30));
        let of_somebody = memory.promise(asking(9, 0, 0), 70 << 30).expect("room");
        let mine = memory
            .promise(asking(1, 1 << 30, 0), 20 << 30)
            .expect("its turn");
        assert_eq!(memory.ask(asking(2, 1 << 30, 0), 0), Err(Shortage::Crowded));
        assert_eq!(memory.ask(asking(3, 1 << 30, 0), 0), Err(Shortage::Crowded));
        assert_eq!(memory.ask(asking(4, SMALL_BYTES / 2, 0), 0), Ok(()));
        assert_eq!(memory.ask(asking(1, 1 << 30, 0), 5 << 30), Ok(()));
        assert_eq!(
            memory.ask(asking(1, 1 << 30, 0), 20 << 30),
            Err(Shortage::Full)
        );
        memory.leave(1);
        assert_eq!(memory.ask(asking(3, 1 << 30, 0), 0), Err(Shortage::Crowded));
        assert_eq!(memory.ask(asking(2, 1 << 30, 0), 0), Ok(()));
        // Once there is room nobody asks whose turn it is.
        drop(mine);
        assert_eq!(memory.ask(asking(3, 1 << 30, 0), 0), Ok(()));
        drop(of_somebody);
    }

    #[test]
    fn a_turn_passes_on_when_who_has_it_waits_for_somebody() {
        let memory = WorkMemory::new(Some(100 << 30));
        let first = memory.promise(asking(1, 0, 0), 70 << 30);
        let _all = (first, memory.promise(asking(1, 0, 0), 20 << 30));
        memory.leave(1);
        assert_eq!(memory.ask(asking(2, 1 << 30, 0), 0), Ok(()));
        assert_eq!(memory.ask(asking(3, 1 << 30, 0), 0), Err(Shortage::Crowded));
        assert_eq!(memory.ask(asking(3, 1 << 30, 1), 0), Ok(()));
        assert_eq!(memory.ask(asking(2, 1 << 30, 1), 0), Err(Shortage::Crowded));
        memory.leave(3);
        assert_eq!(memory.ask(asking(2, 1 << 30, 1), 0), Ok(()));
    }

    #[test]
    fn who_needs_little_comes_to_its_end_where_others_hold_everything() {
        let memory = WorkMemory::new(Some(100 << 30));
        let first = memory.promise(asking(1, 0, 0), 70 << 30).expect("room");
        let more = memory.promise(asking(1, 0, 0), 29 << 30).expect("its turn");
        memory.leave(1);
        assert_eq!(memory.ask(asking(2, 1 << 30, 0), 9 << 30), Ok(()));
        assert_eq!(
            memory.ask(asking(2, 1 << 30, 0), 19 << 30),
            Err(Shortage::Full)
        );
        drop((first, more));
    }

    #[test]
    fn who_is_helped_adds_to_what_others_were_helped_to() {
        let memory = WorkMemory::new(Some(100 << 30));
        let first = memory.promise(asking(1, 0, 0), 70 << 30).expect("room");
        let more = memory.promise(asking(1, 0, 0), 29 << 30).expect("its turn");
        memory.leave(1);
        let helped = memory.promise(asking(2, 0, 0), 9 << 30).expect("help");
        // The second has its turn while the first still holds what it got.
        let second = memory.promise(asking(3, 0, 1), 9 << 30);
        assert_eq!(second.err(), Some(Shortage::Full));
        assert_eq!(memory.ask(asking(3, 0, 1), 3 << 30), Ok(()));
        drop(helped);
        assert!(memory.promise(asking(3, 0, 1), 9 << 30).is_ok());
        drop((first, more));
    }

    #[test]
    fn what_is_refused_is_never_counted() {
        let memory = WorkMemory::new(Some(100 << 30));
        let first = memory.promise(asking(1, 0, 0), 70 << 30).expect("room");
        let more = memory.promise(asking(1, 0, 0), 20 << 30).expect("its turn");
        let seen = std::cell::Cell::new(0);
        let now = || {
            seen.set(memory.promised.load(Ordering::Relaxed));
            Duration::ZERO
        };
        let waits = Asking {
            session: 2,
            held: 0,
            now: &now,
        };
        let refused = memory.promise(waits, 50 << 30);
        assert_eq!(refused.err(), Some(Shortage::Crowded));
        assert_eq!(seen.get(), 90 << 30);
        drop((first, more));
    }
}
