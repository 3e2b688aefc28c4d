//! The bound on what the server allocates besides pages.
//!
//! Theory: the allocator counts (`daruma_base::memory`); this is where the count meets a bound. Every loop whose length a
//! client decides asks here now and then, and whatever builds a large value asks before it does. A request that holds
//! little always goes on, so that a session that has taken everything is the one that gets error 701, not its neighbours.
//! Nothing waits for memory: a statement that finds none spills, or ends.
//!
//! Invariants
//! 1. Large values are promised before they are allocated, so that many sessions together do not pass the bound.

use daruma_base::memory;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// A request that holds less is never refused memory.
pub const SMALL_BYTES: i64 = 1 << 20;
/// Where the bound is near, sorts and hashes spill: part of it in percent.
const SHORT_PERCENT: i64 = 75;
/// Share of the bound that one request may hold, in percent.
const REQUEST_PERCENT: i64 = 75;
/// Memory that sorts and hashes of a statement may hold before they spill: at most, and as a part of the bound.
const GRANT_BYTES_MAX: i64 = 64 << 20;
const GRANT_PERCENT: i64 = 12;
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
        request < SMALL_BYTES
            || bound == i64::MAX
            || request <= bound / 100 * REQUEST_PERCENT
                && self.taken().saturating_add(wanted) <= bound
    }

    /// As `has_room`, and keeps the bytes for the caller.
    pub fn promise(self: &Arc<Self>, held: i64, wanted: i64) -> Option<Promise> {
        // Taken first: of two that ask at once, one at least sees the other.
        let promise = Promise {
            memory: self.clone(),
            bytes: wanted,
        };
        self.promised.fetch_add(wanted, Ordering::Relaxed);
        self.has_room(held.saturating_add(wanted), 0)
            .then_some(promise)
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
        assert!(!memory.has_room(SMALL_BYTES, 0));
        assert!(memory.is_short());
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

    #[test]
    fn promises_count_until_they_are_kept() {
        // Far above what this process allocates itself.
        let memory = WorkMemory::new(Some(100 << 30));
        let first = memory.promise(0, 60 << 30);
        assert!(first.is_some());
        assert!(memory.promise(0, 60 << 30).is_none());
        drop(first);
        assert!(memory.promise(0, 60 << 30).is_some());
        assert!(memory.promise(0, 80 << 30).is_none());
    }
}
