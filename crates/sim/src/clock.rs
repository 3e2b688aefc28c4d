//! A clock that moves only when someone sleeps or looks, and a small seeded generator.

use daruma_base::{Clock, Random};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Each look advances time by a microsecond, so that durations are never zero and never depend on the machine.
#[derive(Debug, Default)]
pub struct SimClock {
    nanos: AtomicU64,
}

impl Clock for SimClock {
    fn monotonic(&self) -> Duration {
        Duration::from_nanos(self.nanos.fetch_add(1_000, Ordering::Relaxed))
    }

    fn utc_100ns(&self) -> i64 {
        // 2026-01-01 00:00:00 UTC and on.
        17_672_256_000_000_000 + (self.nanos.load(Ordering::Relaxed) / 100) as i64
    }

    fn local_offset_minutes(&self) -> i16 {
        0
    }

    fn sleep(&self, duration: Duration) {
        self.nanos
            .fetch_add(duration.as_nanos() as u64, Ordering::Relaxed);
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014): tiny, and good enough to choose faults.
#[derive(Debug)]
pub struct SimRandom(Mutex<u64>);

impl SimRandom {
    /// A generator that repeats itself for the same seed.
    pub fn new(seed: u64) -> SimRandom {
        SimRandom(Mutex::new(seed))
    }

    /// The next number.
    pub fn next(&self) -> u64 {
        step(&mut self.0.lock())
    }

    /// Below `bound` (which is not 0).
    pub fn below(&self, bound: u64) -> u64 {
        self.next() % bound
    }
}

fn step(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

impl Random for SimRandom {
    fn fill(&self, buf: &mut [u8]) {
        let mut state = self.0.lock();
        for chunk in buf.chunks_mut(8) {
            let bytes = step(&mut state).to_le_bytes();
            chunk.copy_from_slice(&bytes[..chunk.len()]);
        }
    }
}
