//! Waits, counted where they happen, under SQL Server's names.
//!
//! A wait costs two clock reads and three relaxed additions. Nothing is counted when nobody waits. Each wait counts for the
//! server and for the thread that waited, so that whoever runs a session on one thread knows that session's waits.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

macro_rules! wait_kinds {
    ($($variant:ident = $name:literal),+ $(,)?) => {
        /// What a session may wait for.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum WaitKind { $($variant),+ }

        impl WaitKind {
            /// Every kind, in the order of their numbers.
            pub const ALL: &'static [WaitKind] = &[$(WaitKind::$variant),+];

            /// Name in `sys.dm_os_wait_stats`.
            pub const fn name(self) -> &'static str {
                match self { $(WaitKind::$variant => $name),+ }
            }
        }
    };
}

wait_kinds! {
    WriteLog = "WRITELOG",
    LogBuffer = "LOGBUFFER",
    PageIoLatchSh = "PAGEIOLATCH_SH",
    PageIoLatchEx = "PAGEIOLATCH_EX",
    LockSchM = "LCK_M_SCH_M",
    LockSchS = "LCK_M_SCH_S",
    LockS = "LCK_M_S",
    LockU = "LCK_M_U",
    LockX = "LCK_M_X",
    LockIs = "LCK_M_IS",
    LockIx = "LCK_M_IX",
    LockRangeS = "LCK_M_RS_S",
    LockRangeI = "LCK_M_RIn_X",
    WaitFor = "WAITFOR",
    AsyncNetworkIo = "ASYNC_NETWORK_IO",
    Checkpoint = "CHECKPOINT_QUEUE",
    ResourceSemaphore = "RESOURCE_SEMAPHORE",
    IoCompletion = "IO_COMPLETION",
    HadrSyncCommit = "HADR_SYNC_COMMIT",
}

/// Number of kinds.
pub const WAIT_KINDS: usize = WaitKind::ALL.len();

/// Waits of one kind by one thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadWait {
    pub count: u64,
    pub ns: u64,
    pub max_ns: u64,
}

/// Waits of a thread, by kind.
pub type ThreadWaits = [ThreadWait; WAIT_KINDS];

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
    static BY_KIND: RefCell<ThreadWaits> = const { RefCell::new([ThreadWait { count: 0, ns: 0, max_ns: 0 }; WAIT_KINDS]) };
}

/// How many times the calling thread has waited so far: whether anything is new costs no more than this.
pub fn thread_wait_count() -> u64 {
    COUNT.get()
}

/// What the calling thread has waited for so far.
pub fn thread_waits() -> ThreadWaits {
    BY_KIND.with_borrow(|waits| *waits)
}

fn record_for_thread(kind: WaitKind, ns: u64) {
    COUNT.set(COUNT.get() + 1);
    BY_KIND.with_borrow_mut(|waits| {
        if let Some(wait) = waits.get_mut(kind as usize) {
            wait.count += 1;
            wait.ns = wait.ns.saturating_add(ns);
            wait.max_ns = wait.max_ns.max(ns);
        }
    });
}

#[derive(Debug, Default)]
struct Slot {
    count: AtomicU64,
    total_ns: AtomicU64,
    max_ns: AtomicU64,
}

/// Totals since the server started or the counters were cleared.
#[derive(Debug)]
pub struct WaitRegistry {
    slots: Vec<Slot>,
}

/// One line of `sys.dm_os_wait_stats`.
#[derive(Clone, Copy, Debug)]
pub struct WaitStat {
    pub kind: WaitKind,
    pub count: u64,
    pub total: Duration,
    pub max: Duration,
}

impl Default for WaitRegistry {
    fn default() -> WaitRegistry {
        WaitRegistry {
            slots: WaitKind::ALL.iter().map(|_| Slot::default()).collect(),
        }
    }
}

impl WaitRegistry {
    /// Adds one wait of this length.
    pub fn record(&self, kind: WaitKind, waited: Duration) {
        let Some(slot) = self.slots.get(kind as usize) else {
            return;
        };
        let ns = u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX);
        slot.count.fetch_add(1, Ordering::Relaxed);
        slot.total_ns.fetch_add(ns, Ordering::Relaxed);
        slot.max_ns.fetch_max(ns, Ordering::Relaxed);
        record_for_thread(kind, ns);
    }

    /// Count, total and longest wait of each kind so far.
    pub fn stats(&self) -> Vec<WaitStat> {
        let read = |(kind, slot): (&WaitKind, &Slot)| WaitStat {
            kind: *kind,
            count: slot.count.load(Ordering::Relaxed),
            total: Duration::from_nanos(slot.total_ns.load(Ordering::Relaxed)),
            max: Duration::from_nanos(slot.max_ns.load(Ordering::Relaxed)),
        };
        WaitKind::ALL.iter().zip(&self.slots).map(read).collect()
    }

    /// Starts counting anew (`DBCC SQLPERF ('sys.dm_os_wait_stats', CLEAR)`).
    pub fn clear(&self) {
        for slot in &self.slots {
            slot.count.store(0, Ordering::Relaxed);
            slot.total_ns.store(0, Ordering::Relaxed);
            slot.max_ns.store(0, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_counts_for_its_thread_alone() {
        let registry = WaitRegistry::default();
        let before = (thread_wait_count(), thread_waits());
        registry.record(WaitKind::WriteLog, Duration::from_millis(3));
        let mine = thread_waits()[WaitKind::WriteLog as usize];
        let was = before.1[WaitKind::WriteLog as usize];
        assert_eq!((mine.count - was.count, mine.ns - was.ns), (1, 3_000_000));
        assert_eq!(thread_wait_count() - before.0, 1);
        let other = std::thread::spawn(|| (thread_wait_count(), thread_waits()));
        let (count, waits) = other.join().expect("ends");
        assert_eq!((count, waits), (0, ThreadWaits::default()));
        assert_eq!(registry.stats()[0].count, 1);
    }
}
