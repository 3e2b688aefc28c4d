//! Ids, units and the traits through which the engine meets the outside world.
//!
//! Theory: no room above `platform` calls the operating system. Disk, clock and randomness are handed in through the
//! traits of this crate, so that a simulated disk and clock can stand in for the real ones and one thread can run
//! the whole engine. No I/O happens here.
//!
//! Read next: `io`, `ids`, `waits`.

pub mod cancel;
pub mod hash;
pub mod ids;
pub mod io;
pub mod memory;
pub mod probe;
pub mod waits;

pub use cancel::CancelFlag;
pub use hash::{FastHash, FastHasher};
pub use ids::{DatabaseId, Lsn, PageId, TxnId};
pub use io::{
    Clock, DIRECT_BYTES, Disk, DiskFile, Env, FileIdentity, OpenMode, Random, VolumeSpace,
    make_folders,
};
pub use waits::{
    ThreadWait, ThreadWaits, TracedWait, WAIT_KINDS, WaitKind, WaitRegistry, WaitSums,
    take_traced_waits, thread_wait_count, thread_wait_sums, thread_waits, trace_thread_waits,
};
