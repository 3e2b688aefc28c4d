//! What a disk can do wrong, how often it shall, and how often it did.

use std::sync::atomic::{AtomicU64, Ordering};

/// Faults by kind, as they are counted and reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(usize)]
pub enum FaultKind {
    /// The machine stopped in the middle of a call.
    PowerLoss,
    /// The process died there, and the machine went on.
    Death,
    LostPageWrite,
    TornPageWrite,
    LostLogWrite,
    TornLogWrite,
    /// A name created, removed or renamed without a sync of its directory came out as it was before.
    LostName,
    ReadError,
    WriteError,
    SyncError,
    GrowError,
    DiskFull,
    SlowCall,
    FlippedRead,
    MisdirectedRead,
    MisdirectedWrite,
    /// Durable bytes that rotted.
    Rot,
}

impl FaultKind {
    /// Every kind, in the order of their numbers.
    pub const ALL: [FaultKind; 17] = [
        FaultKind::PowerLoss,
        FaultKind::Death,
        FaultKind::LostPageWrite,
        FaultKind::TornPageWrite,
        FaultKind::LostLogWrite,
        FaultKind::TornLogWrite,
        FaultKind::LostName,
        FaultKind::ReadError,
        FaultKind::WriteError,
        FaultKind::SyncError,
        FaultKind::GrowError,
        FaultKind::DiskFull,
        FaultKind::SlowCall,
        FaultKind::FlippedRead,
        FaultKind::MisdirectedRead,
        FaultKind::MisdirectedWrite,
        FaultKind::Rot,
    ];

    /// What reports call it.
    pub fn name(self) -> &'static str {
        match self {
            FaultKind::PowerLoss => "power loss",
            FaultKind::Death => "death of the process",
            FaultKind::LostPageWrite => "page write lost",
            FaultKind::TornPageWrite => "page write torn",
            FaultKind::LostLogWrite => "log write lost",
            FaultKind::TornLogWrite => "log write torn",
            FaultKind::LostName => "directory change lost",
            FaultKind::ReadError => "error on read",
            FaultKind::WriteError => "error on write",
            FaultKind::SyncError => "error on sync",
            FaultKind::GrowError => "error on growth",
            FaultKind::DiskFull => "disk full",
            FaultKind::SlowCall => "slow call",
            FaultKind::FlippedRead => "bit flipped on read",
            FaultKind::MisdirectedRead => "read misdirected",
            FaultKind::MisdirectedWrite => "write misdirected",
            FaultKind::Rot => "synced byte rotted",
        }
    }
}

/// What shall go wrong.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// Fail this write-side call (write, sync, allocate, set_len; counted from 0) with an I/O error, once.
    pub fail_at: Option<u64>,
    /// From this write-side call on every call fails: the machine has stopped. Crash and reopen.
    pub stop_at: Option<u64>,
    /// As `fail_at`, counting reads as well.
    pub fail_io_at: Option<u64>,
    /// As `stop_at`, counting reads as well.
    pub stop_io_at: Option<u64>,
    /// Total bytes of all files; beyond that the disk is full.
    pub capacity_bytes: Option<u64>,
    /// Not even what was allocated can be written, as on file systems that never write in place.
    pub no_space: bool,
    pub rates: Rates,
}

/// How many of 100,000 calls of each sort go wrong.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rates {
    pub read_error: u32,
    pub write_error: u32,
    pub sync_error: u32,
    pub grow_error: u32,
    pub slow: u32,
    pub flipped_read: u32,
    pub misdirected_read: u32,
    pub misdirected_write: u32,
}

/// Faults injected, by kind.
#[derive(Debug, Default)]
pub struct FaultCounts([AtomicU64; FaultKind::ALL.len()]);

impl FaultCounts {
    pub(crate) fn add(&self, kind: FaultKind) {
        self.0[kind as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Faults of this kind so far.
    pub fn get(&self, kind: FaultKind) -> u64 {
        self.0[kind as usize].load(Ordering::Relaxed)
    }

    /// Faults of all kinds so far.
    pub fn total(&self) -> u64 {
        FaultKind::ALL.iter().map(|k| self.get(*k)).sum()
    }
}
