//! Distance between the end of the log and what commit participants have, and the wait until it is small.
//!
//! Theory: what is sealed goes to the participants at once, so it counts from there on, hard here or not. What they have counts as
//! far as it is hard here: where that is what is lacking, whoever waits writes it.
//!
//! Latches: `waiting` is the last of all.
//!
//! Read next: `crate::ahead`, which says who waits.

use super::Log;
use crate::error::Result;
use crate::sync::{Condvar, Mutex};
use daruma_base::{Lsn, WaitKind, reached};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// How long a waiter sleeps before it looks at its cancel flag again.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

pub(super) struct Ahead {
    /// End of the last sealed block, as far as appenders have seen it.
    sealed: AtomicU64,
    bytes_max: AtomicU64,
    /// Is there a participant that anybody could wait for?
    holds_back: AtomicBool,
    /// Threads that wait.
    waiting: Mutex<usize>,
    moved: Condvar,
}

impl Default for Ahead {
    fn default() -> Ahead {
        Ahead {
            sealed: AtomicU64::new(0),
            bytes_max: AtomicU64::new(u64::MAX),
            holds_back: AtomicBool::new(false),
            waiting: Mutex::default(),
            moved: Condvar::new(),
        }
    }
}

impl Ahead {
    /// Blocks are sealed up to here.
    #[inline]
    pub fn sealed_to(&self, end: u64) {
        self.sealed.store(end, Ordering::Relaxed);
    }

    fn wake(&self) {
        if *self.waiting.lock() > 0 {
            self.moved.notify_all();
        }
    }
}

impl Log {
    /// Bytes that participants may lack; `u64::MAX`: no bound.
    pub fn set_unacknowledged_max(&self, bytes: u64) {
        self.ahead.bytes_max.store(bytes, Ordering::Relaxed);
        self.wake_held_back();
    }

    /// Whether the bound counts: only where a participant could bring the quorum nearer.
    pub fn hold_writers_back(&self, are_held: bool) {
        self.ahead.holds_back.store(are_held, Ordering::Relaxed);
        self.wake_held_back();
    }

    /// Those who wait for room look again, if there is some, or none is to come.
    pub(super) fn wake_held_back(&self) {
        if !self.is_far_ahead() || self.is_fenced() {
            self.ahead.wake();
        }
    }

    /// Do participants lack more than they may? Never without participants: they have all there can be.
    #[inline]
    pub fn is_far_ahead(&self) -> bool {
        self.ahead.holds_back.load(Ordering::Relaxed) && self.is_far_from(self.acknowledged())
    }

    #[inline]
    fn is_far_from(&self, to: Lsn) -> bool {
        let sealed = self.ahead.sealed.load(Ordering::Relaxed);
        sealed.saturating_sub(to.0) > self.ahead.bytes_max.load(Ordering::Relaxed)
    }

    /// Returns when participants lack no more than they may, or the caller does not want to wait any longer (`false`). An error when
    /// the log is fenced. The caller holds no latch.
    pub fn await_participants(&self, is_cancelled: impl Fn() -> bool) -> Result<bool> {
        reached!("log.ahead.waited");
        let start = self.env.clock.monotonic();
        let awaited = self.await_near(&is_cancelled);
        let waited = self.env.clock.monotonic().saturating_sub(start);
        self.waits.record(WaitKind::HadrThrottleSendQueue, waited);
        awaited
    }

    fn await_near(&self, is_cancelled: &dyn Fn() -> bool) -> Result<bool> {
        while self.is_far_ahead() {
            self.check()?;
            if is_cancelled() {
                return Ok(false);
            }
            if self.is_far_from(self.hardened()) {
                // Nobody else may be about to: those who have written it need not commit.
                self.harden_all_here()?;
                continue;
            }
            self.sleep_held_back();
        }
        self.check().map(|()| true)
    }

    fn sleep_held_back(&self) {
        let mut waiting = self.ahead.waiting.lock();
        *waiting += 1;
        if self.is_far_ahead() && !self.is_fenced() {
            self.ahead.moved.wait_for(&mut waiting, LOOK_INTERVAL);
        }
        *waiting -= 1;
    }
}
