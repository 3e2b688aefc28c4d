//! Waits, counted where they happen, under SQL Server's names.
//!
//! A wait costs two clock reads and three relaxed additions. Nothing is counted when nobody waits. Each wait counts for the
//! server and for the thread that waited, so that whoever runs a session on one thread knows that session's waits. A thread
//! that is traced also remembers each of its waits, up to a bound, until somebody takes them.

use crate::Clock;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
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
    HadrThrottleSendQueue = "HADR_THROTTLE_LOG_RATE_SEND_RECV_QUEUE_SIZE",
}

impl WaitKind {
    const fn is_log(self) -> bool {
        matches!(self, WaitKind::WriteLog | WaitKind::LogBuffer)
    }

    const fn is_io(self) -> bool {
        matches!(
            self,
            WaitKind::PageIoLatchSh | WaitKind::PageIoLatchEx | WaitKind::IoCompletion
        )
    }

    const fn is_lock(self) -> bool {
        matches!(
            self,
            WaitKind::LockSchM
                | WaitKind::LockSchS
                | WaitKind::LockS
                | WaitKind::LockU
                | WaitKind::LockX
                | WaitKind::LockIs
                | WaitKind::LockIx
                | WaitKind::LockRangeS
                | WaitKind::LockRangeI
        )
    }
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

impl ThreadWait {
    /// Adds one wait.
    pub fn add(&mut self, ns: u64) {
        self.plus(ThreadWait {
            count: 1,
            ns,
            max_ns: ns,
        });
    }

    /// Adds waits of somebody else.
    pub fn plus(&mut self, other: ThreadWait) {
        self.count += other.count;
        self.ns = self.ns.saturating_add(other.ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }
}

/// Waits of a thread, by kind.
pub type ThreadWaits = [ThreadWait; WAIT_KINDS];

/// Time waited, in ns: for anything but WAITFOR, and of it for the log, for locks and for data files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitSums {
    pub all: u64,
    pub log: u64,
    pub lock: u64,
    pub io: u64,
}

impl WaitSums {
    /// Nothing but this wait.
    pub fn of(kind: WaitKind, ns: u64) -> WaitSums {
        let only = |is: bool| if is { ns } else { 0 };
        WaitSums {
            all: only(kind != WaitKind::WaitFor),
            log: only(kind.is_log()),
            lock: only(kind.is_lock()),
            io: only(kind.is_io()),
        }
    }

    /// Both together.
    pub fn plus(self, other: WaitSums) -> WaitSums {
        WaitSums {
            all: self.all.saturating_add(other.all),
            log: self.log.saturating_add(other.log),
            lock: self.lock.saturating_add(other.lock),
            io: self.io.saturating_add(other.io),
        }
    }

    /// What came after `before`.
    pub fn since(self, before: WaitSums) -> WaitSums {
        WaitSums {
            all: self.all.saturating_sub(before.all),
            log: self.log.saturating_sub(before.log),
            lock: self.lock.saturating_sub(before.lock),
            io: self.io.saturating_sub(before.io),
        }
    }
}

/// A wait of a thread that is traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracedWait {
    pub kind: WaitKind,
    pub ns: u64,
    /// When it was over: UTC, in 100 ns since 1970.
    pub ended_utc: i64,
}

/// Waits that a traced thread remembers until they are taken; more are counted.
pub const TRACED_MAX: usize = 1_024;

struct Trace {
    clock: Arc<dyn Clock>,
    waits: Vec<TracedWait>,
    lost: u64,
}

thread_local! {
    static SUMS: Cell<WaitSums> = const { Cell::new(WaitSums { all: 0, log: 0, lock: 0, io: 0 }) };
    static TRACE: RefCell<Option<Trace>> = const { RefCell::new(None) };
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

/// How long the calling thread has waited so far.
pub fn thread_wait_sums() -> WaitSums {
    SUMS.get()
}

/// From here on each wait of the calling thread is remembered, with its end by this clock; without a clock none is any more.
pub fn trace_thread_waits(clock: Option<Arc<dyn Clock>>) {
    TRACE.set(clock.map(|clock| Trace {
        clock,
        waits: Vec::new(),
        lost: 0,
    }));
}

/// The waits that were remembered since the last call, and how many found no room.
pub fn take_traced_waits() -> (Vec<TracedWait>, u64) {
    TRACE.with_borrow_mut(|trace| match trace {
        Some(trace) => (
            std::mem::take(&mut trace.waits),
            std::mem::take(&mut trace.lost),
        ),
        None => (Vec::new(), 0),
    })
}

fn record_for_thread(kind: WaitKind, ns: u64) {
    COUNT.set(COUNT.get() + 1);
    SUMS.set(SUMS.get().plus(WaitSums::of(kind, ns)));
    TRACE.with_borrow_mut(|trace| {
        if let Some(trace) = trace {
            if trace.waits.len() < TRACED_MAX {
                trace.waits.push(TracedWait {
                    kind,
                    ns,
                    ended_utc: trace.clock.utc_100ns(),
                });
            } else {
                trace.lost += 1;
            }
        }
    });
    BY_KIND.with_borrow_mut(|waits| {
        if let Some(wait) = waits.get_mut(kind as usize) {
            wait.add(ns);
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
    /// Adds one wait of this length, of the calling thread.
    pub fn record(&self, kind: WaitKind, waited: Duration) {
        record_for_thread(kind, self.record_of_another(kind, waited));
    }

    /// Adds a wait that was not the calling thread's own; gives its length in ns.
    pub fn record_of_another(&self, kind: WaitKind, waited: Duration) -> u64 {
        let ns = u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX);
        let Some(slot) = self.slots.get(kind as usize) else {
            return ns;
        };
        slot.count.fetch_add(1, Ordering::Relaxed);
        slot.total_ns.fetch_add(ns, Ordering::Relaxed);
        slot.max_ns.fetch_max(ns, Ordering::Relaxed);
        ns
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
    struct Still;

    impl Clock for Still {
        fn monotonic(&self) -> Duration {
            Duration::ZERO
        }
        fn utc_100ns(&self) -> i64 {
            7
        }
        fn local_offset_minutes(&self) -> i16 {
            0
        }
        fn sleep(&self, _: Duration) {}
    }

    #[test]
    fn a_traced_thread_remembers_its_waits_up_to_a_bound() {
        let registry = WaitRegistry::default();
        let wait = Duration::from_nanos(5);
        registry.record(WaitKind::LockX, wait);
        assert_eq!(take_traced_waits(), (Vec::new(), 0));
        trace_thread_waits(Some(Arc::new(Still)));
        let before = thread_wait_sums();
        registry.record(WaitKind::LockX, wait);
        registry.record(WaitKind::WaitFor, wait);
        registry.record_of_another(WaitKind::WriteLog, wait);
        let (waits, lost) = take_traced_waits();
        let kinds: Vec<_> = waits.iter().map(|w| (w.kind, w.ns, w.ended_utc)).collect();
        assert_eq!(
            (kinds, lost),
            (vec![(WaitKind::LockX, 5, 7), (WaitKind::WaitFor, 5, 7)], 0)
        );
        let sums = thread_wait_sums().since(before);
        assert_eq!((sums.all, sums.lock, sums.log, sums.io), (5, 5, 0, 0));
        for _ in 0..TRACED_MAX + 3 {
            registry.record(WaitKind::LockX, wait);
        }
        let (waits, lost) = take_traced_waits();
        assert_eq!((waits.len(), lost), (TRACED_MAX, 3));
        trace_thread_waits(None);
        registry.record(WaitKind::LockX, wait);
        assert_eq!(take_traced_waits(), (Vec::new(), 0));
    }
}
