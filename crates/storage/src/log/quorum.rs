//! Quorum: how far the log is on disk here and on every commit participant.
//!
//! Theory: with participants a commit is over when all of them have it. What lies above the quorum may yet be taken back: by then
//! nobody may have seen it, nor may a page, the boot page or a backup depend on it. So everybody outside of the log who asks
//! whether a position is hard is told of the quorum; only the log itself, and the copies that it is sent to, go by what is hard
//! here. Without participants the two are one number, and nothing of this costs anything.
//!
//! The quorum is the lower one of two positions which only grow: what is hard here, and what all participants have, which is the
//! largest number while there are none. A commit waits twice: for the disk, as ever, and then, if it has to, in the second
//! stage. A job there is run by whoever raises the quorum, in the order of the log; nobody waits for it. When the log is fenced
//! all jobs are told that the outcome is not known.
//!
//! Invariants
//! 1. The quorum never falls: participants begin with what is hard here.
//! 2. A job that is left in the second stage finds, under the latch, that the quorum has not come to it; whoever moves the quorum
//!    takes the latch afterwards.
//!
//! Latches: the log's state, then `waiting`. Jobs run under neither.

use super::Log;
use super::group::Job;
use crate::error::Result;
use crate::planted::{Bug, planted};
use crate::sync::{Condvar, Mutex};
use daruma_base::{Lsn, WaitKind, reached};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What all participants have while there are none.
const ALONE: u64 = u64::MAX;
/// Blocks begin at multiples of this.
const ALIGN: u64 = super::block::BLOCK_ALIGN_BYTES as u64;

/// Each time the quorum moves it is seen whether that was enough, so often at most.
const LOOKS: u32 = 8;

pub(super) struct Quorum {
    acked: AtomicU64,
    waiting: Mutex<Waiting>,
    moved: Condvar,
}

impl Default for Quorum {
    fn default() -> Quorum {
        Quorum {
            acked: AtomicU64::new(ALONE),
            waiting: Mutex::default(),
            moved: Condvar::new(),
        }
    }
}

#[derive(Default)]
struct Waiting {
    /// By position, then by order of coming.
    jobs: BTreeMap<(Lsn, u64), Job>,
    next: u64,
    threads: usize,
}

impl Waiting {
    fn leave(&mut self, job: Job) {
        self.next += 1;
        self.jobs.insert((job.lsn, self.next), job);
    }
}

impl Log {
    /// Everything below is on disk here and on every commit participant.
    #[inline]
    pub fn quorum(&self) -> Lsn {
        // In this order: participants begin with what is hard, so one who sees more than that sees them too.
        self.quorum_with(self.hardened())
    }

    /// The quorum when so much is hard here.
    #[inline]
    pub(super) fn quorum_with(&self, here: Lsn) -> Lsn {
        here.min(self.acknowledged())
    }

    /// Participants have more now: commits below are shown before anybody learns that they are hard.
    fn set_acked(&self, change: impl FnOnce(u64) -> u64) {
        // What is hard moves under this latch.
        let mut state = self.state.lock();
        let acked = change(self.quorum.acked.load(Ordering::Acquire));
        self.show_hard(&mut state, self.hardened().min(Lsn(acked)));
        self.quorum.acked.store(acked, Ordering::Release);
    }

    /// What all participants have; no position is beyond it while there are none.
    #[inline]
    pub(super) fn acknowledged(&self) -> Lsn {
        Lsn(self.quorum.acked.load(Ordering::Acquire))
    }

    /// Does a commit wait for others than this node?
    pub fn has_participants(&self) -> bool {
        self.acknowledged().0 != ALONE
    }

    /// From now on commits wait for participants, who have all that is hard here; or they do not any more.
    pub fn set_participants(&self, are_there: bool) {
        self.set_acked(|acked| match are_there {
            true => acked.min(self.hardened().0),
            false => ALONE,
        });
        self.quorum_moved();
    }

    /// Every participant has the log below `lsn`, a block boundary. Ends the commits that have waited for that, on this thread,
    /// which must hold nothing that a transaction's end could need. Never lowers anything.
    pub fn raise_quorum(&self, lsn: Lsn) {
        self.set_acked(|acked| acked.max(lsn.0 / ALIGN * ALIGN));
        self.quorum_moved();
    }

    /// The quorum may have moved, or the log is fenced: those who wait look again.
    pub(super) fn quorum_moved(&self) {
        self.feeds.ring();
        self.wake_held_back();
        loop {
            let mut waiting = self.quorum.waiting.lock();
            if waiting.threads > 0 {
                self.quorum.moved.notify_all();
            }
            let is_due = |lsn: Lsn| lsn < self.quorum() || self.is_fenced();
            let Some(first) = waiting.jobs.first_entry().filter(|e| is_due(e.key().0)) else {
                return;
            };
            let job = first.remove();
            drop(waiting);
            self.end_job(job);
        }
    }

    /// The record of the job is hard here, or will never be: runs it, or leaves it until the quorum has come to it.
    pub(super) fn run_job(&self, job: Job) {
        if self.is_hard(job.lsn) || planted(Bug::AckBeforeQuorum) {
            return self.end_job(job);
        }
        let mut waiting = self.quorum.waiting.lock();
        if self.is_hard(job.lsn) || self.is_fenced() {
            drop(waiting);
            return self.end_job(job);
        }
        reached!("log.quorum.job.left");
        waiting.leave(job);
    }

    /// Second wait of a commit whose record is hard here.
    pub(super) fn await_quorum(&self, lsn: Lsn) -> Result<()> {
        if self.is_hard(lsn) || planted(Bug::AckBeforeQuorum) {
            return Ok(());
        }
        reached!("log.quorum.waited");
        let start = self.env.clock.monotonic();
        let mut waiting = self.quorum.waiting.lock();
        waiting.threads += 1;
        while !self.is_hard(lsn) && !self.is_fenced() {
            self.quorum.moved.wait(&mut waiting);
        }
        waiting.threads -= 1;
        drop(waiting);
        let waited = self.env.clock.monotonic().saturating_sub(start);
        self.waits.record(WaitKind::HadrSyncCommit, waited);
        match self.is_hard(lsn) {
            true => Ok(()),
            false => Err(self.fenced_error()),
        }
    }

    /// Hardens everything so far here, and waits for a while for the participants to have it too. False when they take longer.
    pub fn settles_within(&self, limit: Duration) -> Result<bool> {
        self.harden_all_here()?;
        let end = self.hardened();
        self.quorum_within(limit, || self.quorum() >= end)
    }

    /// Hardens the record at `lsn` here, and waits for a while for the participants to have it too. False when they take longer.
    pub fn harden_within(&self, lsn: Lsn, limit: Duration) -> Result<bool> {
        if self.is_hard(lsn) {
            return Ok(true);
        }
        self.harden_here(lsn)?;
        let start = self.env.clock.monotonic();
        let is_hard = self.quorum_within(limit, || self.is_hard(lsn));
        if self.has_participants() {
            let waited = self.env.clock.monotonic().saturating_sub(start);
            self.waits.record(WaitKind::HadrSyncCommit, waited);
        }
        is_hard
    }

    /// Waits for a while for the quorum to be where it is wanted. False when it takes longer.
    fn quorum_within(&self, limit: Duration, is_there: impl Fn() -> bool) -> Result<bool> {
        if is_there() {
            return Ok(true);
        }
        let mut waiting = self.quorum.waiting.lock();
        waiting.threads += 1;
        for _ in 0..LOOKS {
            if is_there() || self.is_fenced() {
                break;
            }
            self.quorum.moved.wait_for(&mut waiting, limit / LOOKS);
        }
        waiting.threads -= 1;
        drop(waiting);
        self.check()?;
        Ok(is_there())
    }

    /// Returns once everything appended so far is hard here and on every participant.
    pub fn harden_all(&self) -> Result<()> {
        let end = self.end();
        self.harden_all_here()?;
        self.await_quorum(Lsn(end.0 - 1))
    }

    /// Returns once everything appended so far is hard here.
    pub fn harden_all_here(&self) -> Result<()> {
        let end = self.end();
        match self.hardened() >= end {
            true => Ok(()),
            false => self.harden_slow(Lsn(end.0 - 1)),
        }
    }
}
