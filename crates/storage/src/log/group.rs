//! Group commit: one thread writes the log, and others wait for it.
//!
//! Theory: the first thread that needs a position hard becomes the leader and writes for all. One that comes meanwhile joins a
//! cohort: the one that the write under way covers, or the next. When the leader is done, its whole cohort wakes by one
//! call, then the lead goes to one of the next. So nobody wakes to find that it must go on waiting, and no lock is passed
//! from one sleeper to the next. A lone committer switches no thread.
//!
//! A committer with nothing else to do leaves a job instead of waiting. The helpers of its cohort run it, its leader or
//! those who wait, when their own commit is hard: so a cohort costs few thread switches, however large it is.
//!
//! States of a cohort
//! | state | entered by | left by |
//! |---|---|---|
//! | next | the seal of the one before | its leader's seal |
//! | in flight | seal | finish, which tells all of it |
//!
//! Invariants
//! 1. While someone waits, someone leads.
//! 2. A thread that joined before the seal has appended before it, so the write covers the whole cohort.
//! 3. A job is left only in a cohort that has a helper, and is run once, whatever happens.

use crate::error::Result;
use crate::sync::Mutex;
use crate::sync::plain::{Condvar, Mutex as PlainMutex};
use daruma_base::Lsn;
use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};

/// Jobs that a helper is left with, at most; then the next one who comes waits, and helps.
const JOBS_FOR_EACH: usize = 8;

/// Work that one thread does for others when a cohort is through.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Helps {
    Yes,
    /// It may hold what a job needs.
    No,
}

/// Job to be done once the record at `lsn` is hard, or will never be.
pub(super) struct Job {
    pub lsn: Lsn,
    pub run: Box<dyn FnOnce(Result<()>) + Send>,
}

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
    flight_helpers: usize,
    flight_jobs: usize,
    flight_end: Lsn,
    next: Arc<Cohort>,
    next_members: usize,
    /// Among them, and the leader of now before the seal.
    next_helpers: usize,
    next_jobs: usize,
    failed: Option<String>,
}

/// Those who wake together. The standard library's condition wakes all of them by one system call; `parking_lot`'s
/// would hand the mutex from one to the next, with a call for each.
#[derive(Default)]
pub(super) struct Cohort {
    told: PlainMutex<Told>,
    changed: Condvar,
    jobs: Mutex<VecDeque<Job>>,
}

#[derive(Default)]
struct Told {
    is_over: bool,
    /// The lead waits for one of the cohort to take it.
    offers_lead: bool,
}

/// Role of a thread that needs a position which is not hard yet.
pub(super) enum Turn {
    /// Write the log: call [`Group::seal`] when it is known how far, then [`Group::finish`].
    Lead,
    /// Somebody else has written: look again. The jobs of the cohort are to be run.
    Over(Option<Arc<Cohort>>),
    /// The job was left here.
    Left,
    Failed(String),
}

/// End of a flight: the cohort whose jobs are to be run, and the next to lead.
pub(super) struct Finished {
    /// Its jobs are to be run.
    pub flight: Option<Arc<Cohort>>,
    /// They wait for a leader: the old one goes on, or offers them the lead.
    pub heirs: Option<Arc<Cohort>>,
}

impl Cohort {
    fn wait(self: Arc<Self>) -> Turn {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if told.is_over {
                drop(told);
                return Turn::Over(Some(self));
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

    /// The next job that nobody has taken.
    pub fn job(&self) -> Option<Job> {
        self.jobs.lock().pop_front()
    }

    /// The first that waits leads the next cohort.
    pub fn offer_lead(&self) {
        let told = self.told.lock();
        told.unwrap_or_else(PoisonError::into_inner).offers_lead = true;
        self.changed.notify_one();
    }
}

impl Group {
    /// Joins those who need `lsn` hard, unless `is_hard` says that it has become so. With a job it may leave that instead
    /// of waiting.
    pub fn join(
        &self,
        lsn: Lsn,
        helps: Helps,
        job: &mut Option<Job>,
        is_hard: impl Fn() -> bool,
    ) -> Turn {
        let helper = usize::from(helps == Helps::Yes);
        let cohort = {
            let mut state = self.state.lock();
            if is_hard() {
                return Turn::Over(None);
            }
            if let Some(cause) = &state.failed {
                return Turn::Failed(cause.clone());
            }
            if !state.has_leader {
                state.has_leader = true;
                state.next_helpers += helper;
                return Turn::Lead;
            }
            match state.flight.clone() {
                Some(flight) if lsn < state.flight_end => {
                    if let Some(job) = job.take_if(|_| state.flight_helpers > 0) {
                        state.flight_jobs += 1;
                        flight.jobs.lock().push_back(job);
                        return Turn::Left;
                    }
                    state.flight_members += 1;
                    state.flight_helpers += helper;
                    flight
                }
                _ => {
                    let has_room = state.next_jobs < JOBS_FOR_EACH * state.next_helpers;
                    if let Some(job) = job.take_if(|_| has_room) {
                        state.next_jobs += 1;
                        state.next.jobs.lock().push_back(job);
                        return Turn::Left;
                    }
                    state.next_members += 1;
                    state.next_helpers += helper;
                    state.next.clone()
                }
            }
        };
        cohort.wait()
    }

    /// The leader writes everything below `end`: threads that wait until now are covered. To be called before anything can be
    /// appended behind `end`.
    pub fn seal(&self, end: Lsn) {
        let mut state = self.state.lock();
        state.flight = Some(std::mem::take(&mut state.next));
        state.flight_end = end;
        state.flight_members = std::mem::take(&mut state.next_members);
        state.flight_helpers = std::mem::take(&mut state.next_helpers);
        state.flight_jobs = std::mem::take(&mut state.next_jobs);
    }

    /// Is the next cohort less than half as large as the one before? Then most of those who commit are still on their way, and a
    /// write for the few would leave them to the one after.
    pub fn is_thin(&self) -> bool {
        let state = self.state.lock();
        2 * (state.next_members + state.next_jobs) < state.flight_members + state.flight_jobs
    }

    /// The leader is done: what it sealed is hard, or everything has failed for good.
    pub fn finish(&self, failure: Option<String>) -> Finished {
        let (flight, is_awaited, next, has_failed) = {
            let mut state = self.state.lock();
            if state.failed.is_none() {
                state.failed = failure;
            }
            state.has_leader = state.failed.is_none() && state.next_members > 0;
            let next = (state.next_members > 0).then(|| state.next.clone());
            let is_awaited = state.flight_members > 0;
            let flight = state.flight.take();
            (flight, is_awaited, next, state.failed.is_some())
        };
        // In this order: those who are woken first may commit again before the next leader seals his group, which makes
        // larger groups (docs/decisions/2026-11-22-group-commit.md).
        if let Some(over) = flight.as_ref().filter(|_| is_awaited) {
            over.end();
        }
        let heirs = next.filter(|next| {
            if has_failed {
                next.end();
            }
            !has_failed
        });
        Finished { flight, heirs }
    }

    /// Nothing will be hardened any more. The first cause stays; the leader, if there is one, ends the waits.
    pub fn fail(&self, cause: &str) {
        let mut state = self.state.lock();
        state.failed.get_or_insert_with(|| cause.to_string());
    }

    /// The failure, once the log is fenced.
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
                match group.join(Lsn(lsn), Helps::Yes, &mut None, || {
                    hard.load(Ordering::Acquire) > lsn
                }) {
                    Turn::Over(_) => {}
                    Turn::Left => panic!("no job"),
                    Turn::Failed(cause) => panic!("{cause}"),
                    Turn::Lead => {
                        assert_eq!(leading.fetch_add(1, Ordering::SeqCst), 0);
                        let to = end.load(Ordering::Acquire);
                        group.seal(Lsn(to));
                        thread::yield_now();
                        hard.store(to, Ordering::Release);
                        writes.fetch_add(1, Ordering::Relaxed);
                        leading.fetch_sub(1, Ordering::SeqCst);
                        group.finish(None).heirs.iter().for_each(|h| h.offer_lead());
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
    fn a_job_is_left_with_whoever_helps_and_run_once() {
        let group = Group::default();
        let job = |lsn| {
            let run = Box::new(|_: Result<()>| {});
            Some(Job { lsn, run })
        };
        let leave = |lsn| group.join(lsn, Helps::Yes, &mut job(lsn), || false);
        assert!(matches!(leave(Lsn(5)), Turn::Lead));
        assert!(matches!(leave(Lsn(6)), Turn::Left));
        group.seal(Lsn(10));
        assert!(matches!(leave(Lsn(7)), Turn::Left));
        // Behind the seal nobody helps yet: the first one waits, and may be left with so many jobs.
        thread::scope(|scope| {
            let waits = scope.spawn(|| leave(Lsn(11)));
            while group.state.lock().next_helpers == 0 {
                thread::yield_now();
            }
            (0..JOBS_FOR_EACH).for_each(|_| assert!(matches!(leave(Lsn(12)), Turn::Left)));
            assert_eq!(group.state.lock().next_jobs, JOBS_FOR_EACH);
            let Finished { flight, heirs } = group.finish(None);
            let flight = flight.expect("was sealed");
            let lsns: Vec<Lsn> = std::iter::from_fn(|| flight.job()).map(|j| j.lsn).collect();
            assert_eq!(lsns, [Lsn(6), Lsn(7)]);
            heirs.expect("one waits").offer_lead();
            assert!(matches!(waits.join().expect("no panic"), Turn::Lead));
        });
        group.seal(Lsn(20));
        let flight = group.finish(None).flight.expect("was sealed");
        assert_eq!(std::iter::from_fn(|| flight.job()).count(), JOBS_FOR_EACH);
        let state = group.state.lock();
        assert!(!state.has_leader && state.next_helpers == 0);
    }

    #[test]
    fn a_failure_reaches_all() {
        let group = Group::default();
        assert!(matches!(
            group.join(Lsn(5), Helps::Yes, &mut None, || false),
            Turn::Lead
        ));
        thread::scope(|scope| {
            let waits = scope.spawn(|| {
                loop {
                    match group.join(Lsn(6), Helps::Yes, &mut None, || false) {
                        Turn::Failed(cause) => return cause,
                        Turn::Over(_) => {}
                        Turn::Left => panic!("no job"),
                        Turn::Lead => panic!("nobody leads after a failure"),
                    }
                }
            });
            group.seal(Lsn(6));
            assert!(group.finish(Some("no disk".into())).heirs.is_none());
            assert_eq!(waits.join().expect("no panic"), "no disk");
        });
        assert_eq!(group.failure().as_deref(), Some("no disk"));
    }
}
