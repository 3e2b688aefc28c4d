//! The real disk, clock and randomness: the only room that calls the operating system for the engine.
//!
//! Read next: `disk`, `clock`, `limited`.

mod clock;
mod disk;
mod limited;
mod memory;
mod process;
mod volume;

pub use clock::{RealClock, RealRandom, local_time_zone};
pub use disk::RealDisk;
pub use limited::{FolderLimit, LimitedDisk};
pub use memory::{give_back, machine_bytes, resident_bytes};
pub use process::processor_ms;
pub use volume::volume_space;

use daruma_base::Env;
use std::sync::Arc;

/// The environment of an experiment: some folders behave like slow devices.
pub fn env_with_limits(limits: Vec<FolderLimit>) -> Env {
    Env {
        disk: Arc::new(LimitedDisk::new(Arc::new(RealDisk), limits)),
        ..env()
    }
}

/// The environment of a server process.
pub fn env() -> Env {
    Env {
        disk: Arc::new(RealDisk),
        clock: Arc::new(RealClock::new()),
        random: Arc::new(RealRandom),
    }
}
