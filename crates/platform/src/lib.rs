//! The real disk, clock and randomness: the only room that calls the operating system for the engine.
//!
//! Read next: `disk`, `clock`.

mod clock;
mod disk;

pub use clock::{RealClock, RealRandom};
pub use disk::RealDisk;

use daruma_base::Env;
use std::sync::Arc;

/// The environment of a server process.
pub fn env() -> Env {
    Env {
        disk: Arc::new(RealDisk),
        clock: Arc::new(RealClock::new()),
        random: Arc::new(RealRandom),
    }
}
