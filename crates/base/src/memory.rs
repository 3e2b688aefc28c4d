//! Memory of the process: how much is allocated, in all and by each thread.
//!
//! Theory: a server's memory goes to values, rows, parse trees, plans, caches, definitions and buffers of a hundred places,
//! and whatever is counted by hand misses some of them. So the allocator itself counts. A thread adds to its own number,
//! which costs a nanosecond, and tells the common one in steps of [`STEP_BYTES`], so that no cache line is shared from
//! allocation to allocation. Pages of the buffer pool have a bound of their own and are set apart.
//!
//! Invariants
//! 1. [`total_bytes`] differs from what is allocated by less than a step for each living thread.
//! 2. A thread's number is what it has allocated less what it has freed, whoever allocated that: it tells how much a piece
//!    of work holds when it is read before and after.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicI64, Ordering};

/// A thread tells the common number of this many bytes at once.
pub const STEP_BYTES: i64 = 64 << 10;
/// The number of a thread that has told nothing yet.
const NOTHING_TOLD: i64 = i64::MIN / 2;

static TOTAL: AtomicI64 = AtomicI64::new(0);
static PAGES: AtomicI64 = AtomicI64::new(0);

thread_local! {
    static OWN: Cell<i64> = const { Cell::new(0) };
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

/// The system's allocator, counting.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: every call goes to the system's allocator as it came; counting allocates nothing but, once for each thread, what
// the registration of `Last` needs, when `TOLD` is set already.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are passed on.
        let place = unsafe { System.alloc(layout) };
        if !place.is_null() {
            note(signed(layout.size()));
        }
        place
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are passed on.
        let place = unsafe { System.alloc_zeroed(layout) };
        if !place.is_null() {
            note(signed(layout.size()));
        }
        place
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(place, layout) };
        note(-signed(layout.size()));
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller's promises are passed on.
        let moved = unsafe { System.realloc(place, layout, new_size) };
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
    let own = OWN.get() + bytes;
    OWN.set(own);
    if (own - TOLD.get()).unsigned_abs() >= STEP_BYTES.unsigned_abs() {
        tell();
    }
}

#[cold]
fn tell() {
    let (own, told) = (OWN.get(), TOLD.get());
    TOLD.set(own);
    match told {
        NOTHING_TOLD => {
            TOTAL.fetch_add(own, Ordering::Relaxed);
            // A thread that is ending already tells nothing more.
            let _ = LAST.try_with(|_| ());
        }
        told => {
            TOTAL.fetch_add(own - told, Ordering::Relaxed);
        }
    }
}

/// Bytes that the process has allocated.
pub fn total_bytes() -> i64 {
    TOTAL.load(Ordering::Relaxed)
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
    OWN.get()
}

/// Takes pages that the calling thread has just allocated out of its number; a negative number when they are freed.
pub fn set_pages_apart(bytes: i64) {
    PAGES.fetch_add(bytes, Ordering::Relaxed);
    OWN.set(OWN.get() - bytes);
    if TOLD.get() != NOTHING_TOLD {
        TOLD.set(TOLD.get() - bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANY: usize = 10 << 20;

    #[test]
    fn allocations_are_counted_and_given_back() {
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
    fn memory_freed_by_another_thread_is_free_in_all() {
        let (mine, all) = (thread_bytes(), total_bytes());
        let bytes = vec![0_u8; MANY];
        let freed = std::thread::spawn(move || {
            drop(bytes);
            thread_bytes()
        });
        assert!(freed.join().expect("no panic") < -(MANY as i64) / 2);
        assert!(thread_bytes() - mine >= MANY as i64);
        // Other tests of this process run beside.
        assert!((total_bytes() - all).abs() < 3 * MANY as i64);
    }

    #[test]
    fn pages_are_no_work_of_the_thread_that_reads_them() {
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
