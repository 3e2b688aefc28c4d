//! Commits that did not wait for the disk: how many, how old, and the bound on both.
//!
//! Theory: a delayed commit is a commit record like any other, in the same order; only its wait for the sync is left
//! out. Every sync hardens all that was appended before it began, so what a crash leaves is always a prefix of the
//! commit order. The log writer syncs when the oldest delayed commit reaches its age; and a commit that would exceed
//! the bound in time or bytes waits for the sync itself, so the bound holds even when the writer falls behind.
//!
//! Invariant: when a delayed commit returns, the log not yet hard is at most `bound.bytes`, and no delayed commit
//! older than `bound.age` is unhard. An age can still grow while a sync of a slow device runs; nothing new is
//! acknowledged meanwhile.

use super::Log;
use crate::error::Result;
use crate::sync::{Condvar, Mutex};
use daruma_base::{Lsn, WaitKind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::time::Duration;

/// Delayed commits of one block.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DelayedCommits {
    pub count: u64,
    /// When the first of them was appended: clock time in nanoseconds.
    pub since_ns: u64,
}

impl DelayedCommits {
    /// Counts a commit that was acknowledged before it is hard; the first one's time counts.
    pub fn add(&mut self, now_ns: u64) {
        if self.count == 0 {
            self.since_ns = now_ns;
        }
        self.count += 1;
    }
}

/// How much a crash may cost a database whose commits are delayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DelayedBound {
    pub age: Duration,
    pub bytes: u64,
}

/// The bound and what is pending, read without the log's latch.
pub(super) struct DelayedState {
    age_ns: AtomicU64,
    bytes: AtomicU64,
    /// Clock time of the oldest delayed commit that is not hard; 0 when there is none.
    pub oldest_ns: AtomicU64,
    /// Delayed commits since the log was opened.
    pub total: AtomicU64,
}

impl DelayedState {
    /// The default bound: 10 ms, 1 MiB.
    pub fn new() -> DelayedState {
        DelayedState {
            age_ns: AtomicU64::new(10_000_000),
            bytes: AtomicU64::new(1 << 20),
            oldest_ns: AtomicU64::new(0),
            total: AtomicU64::new(0),
        }
    }

    fn bound(&self) -> DelayedBound {
        DelayedBound {
            age: Duration::from_nanos(self.age_ns.load(Ordering::Relaxed)),
            bytes: self.bytes.load(Ordering::Relaxed),
        }
    }
}

/// Loss if the machine stopped at this moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DelayedStats {
    /// Commits that were reported and are not on disk.
    pub transactions: u64,
    /// Log appended and not on disk, of whatever kind.
    pub bytes: u64,
    /// Age of the oldest of those commits.
    pub oldest_age: Option<Duration>,
    /// Delayed commits since the database was opened.
    pub total: u64,
}

/// Wakes the thread that syncs delayed commits. One for all databases of a server.
#[derive(Default)]
pub struct LogWriterSignal {
    woken: Mutex<bool>,
    condvar: Condvar,
    /// The writer sleeps without a deadline: the first delayed commit must wake it.
    idle: AtomicBool,
}

impl LogWriterSignal {
    /// For the writer: waits until `deadline` from now, or until woken; without one until there is work.
    pub fn wait(&self, deadline: Option<Duration>) {
        let mut woken = self.woken.lock();
        match deadline {
            _ if *woken => {}
            Some(time) => {
                self.condvar.wait_for(&mut woken, time);
            }
            None => self.condvar.wait(&mut woken),
        }
        *woken = false;
    }

    /// For the writer, before it looks for work the last time: from here on the first delayed commit wakes it.
    pub fn set_idle(&self, idle: bool) {
        self.idle.store(idle, Ordering::SeqCst);
        // Pairs with the one in `wake_if_idle`: either the writer sees the commit, or the commit sees the sleeper.
        fence(Ordering::SeqCst);
    }

    /// Lets the log writer look again at once.
    pub fn wake(&self) {
        *self.woken.lock() = true;
        self.condvar.notify_one();
    }

    fn wake_if_idle(&self) {
        fence(Ordering::SeqCst);
        if self.idle.load(Ordering::Relaxed) && self.idle.swap(false, Ordering::SeqCst) {
            self.wake();
        }
    }
}

impl Log {
    /// Sets how old and how much acknowledged log may be that is not on disk.
    pub fn set_delayed_bound(&self, bound: DelayedBound) {
        let ns = u64::try_from(bound.age.as_nanos()).unwrap_or(u64::MAX);
        self.delayed.age_ns.store(ns, Ordering::Relaxed);
        self.delayed.bytes.store(bound.bytes, Ordering::Relaxed);
    }

    /// Ends a delayed commit whose record is at `lsn`: returns at once unless the bound is reached.
    pub(super) fn keep_bound(&self, lsn: Lsn, now_ns: u64) -> Result<()> {
        self.delayed.total.fetch_add(1, Ordering::Relaxed);
        let bound = self.delayed.bound();
        let unhard = lsn.0.saturating_sub(self.hardened().0);
        let oldest = self.delayed.oldest_ns.load(Ordering::Acquire);
        let too_old = oldest != 0 && now_ns.saturating_sub(oldest) >= bound.age.as_nanos() as u64;
        if unhard < bound.bytes && !too_old {
            self.signal.wake_if_idle();
            if unhard >= bound.bytes / 2 {
                self.signal.wake();
            }
            return Ok(());
        }
        let start = self.env.clock.monotonic();
        let result = self.harden_and_help(lsn, None);
        let waited = self.env.clock.monotonic().saturating_sub(start);
        self.waits.record(WaitKind::LogBuffer, waited);
        result
    }

    /// Log writer's step: syncs when the oldest delayed commit is due or much is unwritten. How long until the next
    /// one is due; `None` when nothing is pending.
    pub fn flush_due(&self) -> Result<Option<Duration>> {
        if !self.durable || self.is_fenced() {
            return Ok(None);
        }
        let bound = self.delayed.bound();
        if self.end().0.saturating_sub(self.hardened().0) >= (bound.bytes / 2).max(1) {
            self.harden_all_here()?;
        }
        let oldest = self.delayed.oldest_ns.load(Ordering::Acquire);
        if oldest == 0 {
            return Ok(None);
        }
        let now = self.env.clock.monotonic().as_nanos() as u64;
        let age = Duration::from_nanos(now.saturating_sub(oldest));
        let start_at = self.flush_age(bound.age);
        if age < start_at {
            return Ok(Some(start_at - age));
        }
        self.harden_all_here()?;
        let more = self.delayed.oldest_ns.load(Ordering::Acquire) != 0;
        Ok(more.then_some(start_at))
    }

    /// Age at which a sync begins so that it is over when the bound is reached.
    fn flush_age(&self, bound: Duration) -> Duration {
        let sync = Duration::from_nanos(self.sync_ns_average.load(Ordering::Relaxed));
        bound - (2 * sync).clamp(bound / 16, bound / 2)
    }

    /// Commits acknowledged and not on disk at this moment.
    pub fn delayed_stats(&self) -> DelayedStats {
        let now = self.env.clock.monotonic().as_nanos() as u64;
        let state = self.state.lock();
        let end = state.end();
        let sealed: u64 = state.sealed.iter().map(|b| b.delayed.count).sum();
        let oldest = self.delayed.oldest_ns.load(Ordering::Acquire);
        DelayedStats {
            transactions: sealed + state.delayed.count,
            bytes: end.saturating_sub(self.hardened().0),
            oldest_age: (oldest != 0).then(|| Duration::from_nanos(now.saturating_sub(oldest))),
            total: self.delayed.total.load(Ordering::Relaxed),
        }
    }
}
