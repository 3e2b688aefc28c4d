//! Waits, counted where they happen, under SQL Server's names.
//!
//! A wait costs two clock reads and three relaxed additions. Nothing is counted when nobody waits.

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
