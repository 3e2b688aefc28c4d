//! Simulated disk, clock and randomness, all driven by one seed. Test dependency only.
//!
//! Theory: the disk keeps, per file, what is durable and the writes since the last sync. A crash keeps every durable
//! byte and any subset of the 512-byte sectors of the pending writes, in any order. Faults (errors, slowness, flipped
//! and misdirected reads, a full disk, a stop at the n-th call) are planned by [`Faults`] and counted by kind. The
//! same seed gives the same run. A disk can be photographed before calls of its own choice ([`Image`]): each picture becomes a
//! disk on which the power fails there, while the history on the first one goes on.

mod bytes;
mod clock;
mod disk;
mod fault;
mod file;
mod image;

pub use clock::{SimClock, SimRandom};
pub use disk::SimDisk;
pub use fault::{FaultCounts, FaultKind, Faults, Rates};
pub use image::{Image, Images};

use daruma_base::Env;
use std::sync::Arc;

/// An environment in memory. Keep the disk to crash it and to open it again.
pub fn env(disk: &Arc<SimDisk>, seed: u64) -> Env {
    let clock = Arc::new(SimClock::default());
    disk.set_clock(&clock);
    Env {
        disk: disk.clone(),
        clock,
        random: Arc::new(SimRandom::new(seed)),
    }
}
