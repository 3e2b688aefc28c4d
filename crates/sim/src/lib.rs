//! Simulated disk, clock and randomness, all driven by one seed. Test dependency only.
//!
//! Theory: the disk keeps, per file, what is durable and the writes since the last sync. A crash keeps every durable
//! byte and any subset of the 512-byte sectors of the pending writes, in any order. Faults (errors, a full disk, a
//! stop at the n-th call) are planned by [`Faults`]. The same seed gives the same run.

mod clock;
mod disk;

pub use clock::{SimClock, SimRandom};
pub use disk::{Faults, SimDisk};

use daruma_base::Env;
use std::sync::Arc;

/// An environment in memory. Keep the disk to crash it and to open it again.
pub fn env(disk: &Arc<SimDisk>, seed: u64) -> Env {
    Env {
        disk: disk.clone(),
        clock: Arc::new(SimClock::default()),
        random: Arc::new(SimRandom::new(seed)),
    }
}
