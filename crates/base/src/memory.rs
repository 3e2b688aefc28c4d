//! Memory of the process: how much is allocated, in all and by each thread.
//!
//! Theory: a server's memory goes to values, rows, parse trees, plans, caches, definitions and buffers of a hundred places,
//! and whatever is counted by hand misses some of them. So the allocator itself counts. A thread adds to what it has not
//! told yet, which costs a few instructions, and tells the common number in steps of [`STEP_BYTES`], so that no cache line
//! is shared from allocation to allocation. Pages of the buffer pool have a bound of their own and are set apart.
//! musl's own allocator is slow, so programs for musl have mimalloc ([why](../../../docs/decisions/2026-11-26-allocator-of-static-programs.md)).
//!
//! Invariants
//! 1. [`total_bytes`] differs from what is allocated by less than a step for each living thread.
//! 2. A thread's number is what it has allocated less what it has freed, whoever allocated that: it tells how much a piece
//!    of work holds when it is read before and after. What one thread allocates and another one frees as a rule, like blocks of
//!    the log, is left out on both sides ([`for_all`]): a request that writes for long would else seem to hold all of it.

#[cfg(target_env = "musl")]
use mimalloc::MiMalloc as Under;
#[cfg(not(target_env = "musl"))]
use std::alloc::System as Under;
use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::sync::atomic::{AtomicI64, Ordering};

/// A thread tells the common number of this many bytes at once.
pub const STEP_BYTES: i64 = 64 << 10;
/// What a thread that has told nothing yet begins with, and has told: so much that its first allocation makes it tell.
const NOTHING_TOLD: i64 = 1 << 62;

static TOTAL: AtomicI64 = AtomicI64::new(0);
static PAGES: AtomicI64 = AtomicI64::new(0);
/// The most that `TOTAL` has been since it was last asked for.
static PEAK: AtomicI64 = AtomicI64::new(0);

thread_local! {
    /// Allocated less freed since the thread last told. With `TOLD` it makes the thread's number.
    static UNTOLD: Cell<i64> = const { Cell::new(-NOTHING_TOLD) };
    static TOLD: Cell<i64> = const { Cell::new(NOTHING_TOLD) };
    /// Tells the rest when the thread ends.
    static LAST: Last = const { Last };
}

struct Last;

impl Drop for Last {
    fn drop(&mut self) {
        tell();
    }
}

/// The system's allocator, or what stands in for musl's, counting.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: every call goes to the system's allocator as it came; counting allocates nothing but, once for each thread, what
// the registration of `Last` needs, when `TOLD` is set already.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are passed on.
        let place = unsafe { Under.alloc(layout) };
        if !place.is_null() {
            note(signed(layout.size()));
        }
        place
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are passed on.
        let place = unsafe { Under.alloc_zeroed(layout) };
        if !place.is_null() {
            note(signed(layout.size()));
        }
        place
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // Before, so that the last call can be a jump.
        note(-signed(layout.size()));
        // SAFETY: the caller's promises are passed on.
        unsafe { Under.dealloc(place, layout) };
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller's promises are passed on.
        let moved = unsafe { Under.realloc(place, layout, new_size) };
        if !moved.is_null() {
            note(signed(new_size) - signed(layout.size()));
        }
        moved
    }
}

const fn signed(bytes: usize) -> i64 {
    // An allocation is never larger than `isize::MAX`.
    bytes as i64
}

#[inline]
fn note(bytes: i64) {
    let untold = UNTOLD.get() + bytes;
    UNTOLD.set(untold);
    if untold.unsigned_abs() >= STEP_BYTES.unsigned_abs() {
        tell();
    }
}

#[cold]
fn tell() {
    let (untold, told) = (UNTOLD.replace(0), TOLD.get());
    TOLD.set(told + untold);
    // Every later call finds less than half of it here: no machine has that much memory.
    let is_first = untold < -NOTHING_TOLD / 2;
    let bytes = match is_first {
        true => untold + NOTHING_TOLD,
        false => untold,
    };
    let total = TOTAL.fetch_add(bytes, Ordering::Relaxed) + bytes;
    if total > PEAK.load(Ordering::Relaxed) {
        PEAK.fetch_max(total, Ordering::Relaxed);
    }
    if is_first {
        // A thread that is ending already tells nothing more.
        let _ = LAST.try_with(|_| ());
    }
}

/// Bytes that the process has allocated.
pub fn total_bytes() -> i64 {
    TOTAL.load(Ordering::Relaxed)
}

/// The most that the process had allocated at any time since this was last asked.
pub fn take_peak_bytes() -> i64 {
    let total = total_bytes();
    PEAK.swap(total, Ordering::Relaxed).max(total)
}

/// Bytes of pages, which have a bound of their own.
pub fn page_bytes() -> i64 {
    PAGES.load(Ordering::Relaxed)
}

/// Bytes allocated for anything but pages.
pub fn work_bytes() -> i64 {
    total_bytes() - page_bytes()
}

/// Bytes that the calling thread has allocated and not freed; negative where it freed what others had allocated.
#[inline]
pub fn thread_bytes() -> i64 {
    UNTOLD.get() + TOLD.get()
}

/// Runs what allocates and frees for all of the server: the calling thread's number stays as it is.
#[inline]
pub fn for_all<T>(work: impl FnOnce() -> T) -> T {
    let before = thread_bytes();
    let result = work();
    TOLD.set(TOLD.get() + before - thread_bytes());
    result
}

/// Takes pages that the calling thread has just allocated out of its number; a negative number when they are freed.
pub fn set_pages_apart(bytes: i64) {
    PAGES.fetch_add(bytes, Ordering::Relaxed);
    TOLD.set(TOLD.get() - bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Mutex, MutexGuard, PoisonError};

    const MANY: usize = 10 << 20;

    /// Numbers of all threads are looked at while none of these tests runs beside.
    fn alone() -> MutexGuard<'static, ()> {
        static ALONE: Mutex<()> = Mutex::new(());
        ALONE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[test]
    fn allocations_are_counted_and_given_back() {
        let _alone = alone();
        let before = thread_bytes();
        let mut bytes: Vec<u8> = Vec::with_capacity(MANY);
        assert_eq!(thread_bytes() - before, MANY as i64);
        bytes.push(1);
        bytes.reserve_exact(2 * MANY);
        assert!(thread_bytes() - before > 2 * MANY as i64);
        drop(bytes);
        assert_eq!(thread_bytes(), before);
    }

    #[test]
    fn the_peak_is_what_was_reached_between_two_looks() {
        let _alone = alone();
        // Never touched. Other tests of this process take little.
        let bytes: Vec<u8> = Vec::with_capacity(100 * MANY);
        let with_them = take_peak_bytes();
        assert!(with_them >= 100 * MANY as i64);
        drop(bytes);
        assert!(take_peak_bytes() > with_them - 10 * MANY as i64);
        assert!(take_peak_bytes() < with_them - 90 * MANY as i64);
    }

    #[test]
    fn memory_freed_by_another_thread_is_free_in_all() {
        let _alone = alone();
        let (mine, all) = (thread_bytes(), total_bytes());
        let bytes = vec![0_u8; MANY];
        let freed = std::thread::spawn(move || {
            drop(bytes);
            thread_bytes()
        });
        assert!(freed.join().expect("no panic") < -(MANY as i64) / 2);
        assert!(thread_bytes() - mine >= MANY as i64);
        // Other tests of this process take little.
        assert!((total_bytes() - all).abs() < MANY as i64 / 2);
    }

    #[test]
    fn what_is_allocated_for_all_is_nobodys() {
        let _alone = alone();
        let (mine, all) = (thread_bytes(), total_bytes());
        let bytes = for_all(|| vec![0_u8; MANY]);
        assert_eq!(thread_bytes(), mine);
        // Other tests of this process take little.
        assert!(total_bytes() - all > MANY as i64 / 2);
        let freed = std::thread::spawn(move || {
            let before = thread_bytes();
            for_all(|| drop(bytes));
            thread_bytes() - before
        });
        assert_eq!(freed.join().expect("no panic"), 0);
    }

    #[test]
    fn pages_are_no_work_of_the_thread_that_reads_them() {
        let _alone = alone();
        let before = (thread_bytes(), page_bytes());
        let page = vec![0_u8; MANY];
        set_pages_apart(MANY as i64);
        assert!(thread_bytes() - before.0 < 1 << 10);
        assert!(page_bytes() - before.1 >= MANY as i64);
        drop(page);
        set_pages_apart(-(MANY as i64));
        assert_eq!(thread_bytes(), before.0);
    }
}
