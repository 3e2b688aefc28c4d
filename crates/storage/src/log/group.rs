//! Group commit: who writes the log, and who waits for it.
//!
//! Theory: the first who needs a position hard becomes the leader and writes for all. Whoever comes meanwhile joins a
//! cohort: the one that the write under way covers, or the next. When the leader is done, its whole cohort wakes by one
//! call, then the lead goes to one of the next. So nobody wakes to find that it must go on waiting, and no lock is passed
//! from one sleeper to the next. A lone committer switches no thread.
//!
//! States of a cohort
//! | state | entered by | left by |
//! |---|---|---|
//! | next | the seal of the one before | its leader's seal |
//! | in flight | seal | finish, which tells all of it |
//!
//! Invariants
//! 1. While someone waits, someone leads.
//! 2. Whoever joined before the seal has appended before it, so the write covers the whole cohort.

use daruma_base::Lsn;
use parking_lot::Mutex;
use std::sync::{Arc, Condvar, Mutex as PlainMutex, PoisonError};

#[derive(Default)]
pub(super) struct Group {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    has_leader: bool,
    /// The cohort that the write under way covers, and where that write ends.
    flight: Option<Arc<Cohort>>,
    flight_members: usize,
    flight_end: Lsn,
    next: Arc<Cohort>,
    next_members: usize,
    failed: Option<String>,
}

/// Those who wake together. The standard library's condition wakes all of them by one system call; `parking_lot`'s
/// would hand the mutex from one to the next, with a call for each.
#[derive(Default)]
struct Cohort {
    told: PlainMutex<Told>,
    changed: Condvar,
}

#[derive(Default)]
struct Told {
    is_over: bool,
    /// The lead waits for one of the cohort to take it.
    offers_lead: bool,
}

/// What to do about a position that is not hard yet.
pub(super) enum Turn {
    /// Write the log: call [`Group::seal`] when it is known how far, then [`Group::finish`].
    Lead,
    /// Somebody else has written: look again.
    Over,
    Failed(String),
}

impl Cohort {
    fn wait(&self) -> Turn {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if told.is_over {
                return Turn::Over;
            }
            if std::mem::take(&mut told.offers_lead) {
                return Turn::Lead;
            }
            let woken = self.changed.wait(told);
            told = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn end(&self) {
        let told = self.told.lock();
        told.unwrap_or_else(PoisonError::into_inner).is_over = true;
        self.changed.notify_all();
    }

    fn offer_lead(&self) {
        let told = self.told.lock();
        told.unwrap_or_else(PoisonError::into_inner).offers_lead = true;
        self.changed.notify_one();
    }
}

impl Group {
    /// Joins those who need `lsn` hard, unless `is_hard` says that it has become so.
    pub fn join(&self, lsn: Lsn, is_hard: impl Fn() -> bool) -> Turn {
        let cohort = {
            let mut state = self.state.lock();
            if is_hard() {
                return Turn::Over;
            }
            if let Some(cause) = &state.failed {
                return Turn::Failed(cause.clone());
            }
            if !state.has_leader {
                state.has_leader = true;
                return Turn::Lead;
            }
            match state.flight.clone() {
                Some(flight) if lsn < state.flight_end => {
                    state.flight_members += 1;
                    flight
                }
                _ => {
                    state.next_members += 1;
                    state.next.clone()
                }
            }
        };
        cohort.wait()
    }

    /// The leader writes everything below `end`: who waits until now is covered. To be called before anything can be
    /// appended behind `end`.
    pub fn seal(&self, end: Lsn) {
        let mut state = self.state.lock();
        state.flight = Some(std::mem::take(&mut state.next));
        state.flight_end = end;
        state.flight_members = std::mem::take(&mut state.next_members);
    }

    /// The leader is done: what it sealed is hard, or everything has failed for good.
    pub fn finish(&self, failure: Option<String>) {
        let (over, next, has_failed) = {
            let mut state = self.state.lock();
            if state.failed.is_none() {
                state.failed = failure;
            }
            state.has_leader = state.failed.is_none() && state.next_members > 0;
            let next = (state.next_members > 0).then(|| state.next.clone());
            let over = state.flight.take().filter(|_| state.flight_members > 0);
            (over, next, state.failed.is_some())
        };
        // In this order: those who are woken first may commit again before the next leader seals his group, which makes
        // larger groups (docs/decisions/2026-11-22-group-commit.md).
        if let Some(over) = over {
            over.end();
        }
        match next {
            Some(next) if has_failed => next.end(),
            Some(next) => next.offer_lead(),
            None => {}
        }
    }

    /// Nothing will be hardened any more. The first cause stays; the leader, if there is one, ends the waits.
    pub fn fail(&self, cause: &str) {
        let mut state = self.state.lock();
        state.failed.get_or_insert_with(|| cause.to_string());
    }

    pub fn failure(&self) -> Option<String> {
        self.state.lock().failed.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::thread;

    /// Many threads append and harden; every position is written by exactly the leader that covers it.
    #[test]
    fn everyone_is_served_and_one_leads_at_a_time() {
        let (group, end, hard) = (Group::default(), AtomicU64::new(1), AtomicU64::new(1));
        let (leading, writes) = (AtomicU64::new(0), AtomicU64::new(0));
        let harden = |lsn: u64| {
            while hard.load(Ordering::Acquire) <= lsn {
                match group.join(Lsn(lsn), || hard.load(Ordering::Acquire) > lsn) {
                    Turn::Over => {}
                    Turn::Failed(cause) => panic!("{cause}"),
                    Turn::Lead => {
                        assert_eq!(leading.fetch_add(1, Ordering::SeqCst), 0);
                        let to = end.load(Ordering::Acquire);
                        group.seal(Lsn(to));
                        thread::yield_now();
                        hard.store(to, Ordering::Release);
                        writes.fetch_add(1, Ordering::Relaxed);
                        leading.fetch_sub(1, Ordering::SeqCst);
                        group.finish(None);
                    }
                }
            }
        };
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        let lsn = end.fetch_add(1, Ordering::AcqRel);
                        harden(lsn);
                        assert!(hard.load(Ordering::Acquire) > lsn);
                    }
                });
            }
        });
        assert_eq!(hard.load(Ordering::Acquire), 4_001);
        assert!(writes.load(Ordering::Relaxed) <= 4_000);
        let state = group.state.lock();
        assert!(!state.has_leader && state.next_members == 0 && state.flight.is_none());
    }

    #[test]
    fn a_failure_reaches_all() {
        let group = Group::default();
        assert!(matches!(group.join(Lsn(5), || false), Turn::Lead));
        thread::scope(|scope| {
            let waits = scope.spawn(|| {
                loop {
                    match group.join(Lsn(6), || false) {
                        Turn::Failed(cause) => return cause,
                        Turn::Over => {}
                        Turn::Lead => panic!("nobody leads after a failure"),
                    }
                }
            });
            group.seal(Lsn(6));
            group.finish(Some("no disk".into()));
            assert_eq!(waits.join().expect("no panic"), "no disk");
        });
        assert_eq!(group.failure().as_deref(), Some("no disk"));
    }
}
