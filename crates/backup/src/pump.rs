//! Threads of one backup or restore: how they run, stop together, and tell how far they are.

use crate::error::{BackupError, Result};
use parking_lot::{Condvar, Mutex};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Interval at which the caller is told how far the work is.
const TICK: Duration = Duration::from_millis(50);
const THREADS_MAX: usize = 128;

/// Bytes (or pages) done of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    pub done: u64,
    pub total: u64,
}

/// The statement was cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cancelled;

/// Told now and then on the calling thread; may cancel the work.
pub type Tick<'a> = &'a mut dyn FnMut(Progress) -> std::result::Result<(), Cancelled>;

/// State that the threads share.
pub struct Crew {
    done: AtomicU64,
    stop: AtomicBool,
    failure: Mutex<Option<BackupError>>,
    running: Mutex<usize>,
    changed: Condvar,
    permits: Mutex<usize>,
    permit_free: Condvar,
}

/// Called now and then on the calling thread, for whoever looks after the pace of the work.
pub type Pace<'a> = &'a mut dyn FnMut();

impl Crew {
    /// Has one of the threads failed, or was the work cancelled? Then the others end too.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Adds to the bytes that progress is told in.
    pub fn add_done(&self, amount: u64) {
        self.done.fetch_add(amount, Ordering::Relaxed);
    }

    fn fail(&self, error: BackupError) {
        self.stop.store(true, Ordering::Release);
        self.failure.lock().get_or_insert(error);
        self.permit_free.notify_all();
    }

    /// Waits until fewer than the allowed number of threads compute.
    pub fn permit(&self) -> Permit<'_> {
        let mut free = self.permits.lock();
        while *free == 0 {
            self.permit_free.wait(&mut free);
        }
        *free -= 1;
        Permit(self)
    }
}

/// Leave to use a processor.
pub struct Permit<'a>(&'a Crew);

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        *self.0.permits.lock() += 1;
        self.0.permit_free.notify_one();
    }
}

/// Runs `work` on `threads` threads until each returns; at most `processors` of them compute at once. The first error
/// stops all. `tick` and `pace` run on the calling thread.
pub fn run(
    threads: usize,
    processors: usize,
    total: u64,
    tick: Tick<'_>,
    pace: Pace<'_>,
    work: impl Fn(&Crew) -> Result<()> + Sync,
) -> Result<()> {
    let threads = threads.clamp(1, THREADS_MAX);
    let crew = Crew {
        done: AtomicU64::new(0),
        stop: AtomicBool::new(false),
        failure: Mutex::new(None),
        running: Mutex::new(threads),
        changed: Condvar::new(),
        permits: Mutex::new(processors.max(1)),
        permit_free: Condvar::new(),
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let _gone = Gone(&crew);
                if let Err(error) = work(&crew) {
                    crew.fail(error);
                }
            });
        }
        wait(&crew, total, tick, pace);
    });
    match crew.failure.into_inner() {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// Counts a thread out even when it panics, so that the caller does not wait for it for ever.
struct Gone<'a>(&'a Crew);

impl Drop for Gone<'_> {
    fn drop(&mut self) {
        *self.0.running.lock() -= 1;
        self.0.changed.notify_all();
    }
}

fn wait(crew: &Crew, total: u64, tick: Tick<'_>, pace: Pace<'_>) {
    let mut running = crew.running.lock();
    while *running > 0 {
        crew.changed.wait_for(&mut running, TICK);
        let done = crew.done.load(Ordering::Relaxed).min(total);
        drop(running);
        if tick(Progress { done, total }).is_err() {
            crew.fail(BackupError::Cancelled);
        }
        pace();
        running = crew.running.lock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_error_stops_all_and_no_more_than_the_permits_compute() {
        let computing = AtomicU64::new(0);
        let most = AtomicU64::new(0);
        let items = AtomicU64::new(0);
        let result = run(8, 2, 100, &mut |_| Ok(()), &mut || {}, |crew| {
            while !crew.is_stopped() {
                if items.fetch_add(1, Ordering::Relaxed) == 50 {
                    return Err(BackupError::Unusable("stop here".into()));
                }
                let _permit = crew.permit();
                let now = computing.fetch_add(1, Ordering::AcqRel) + 1;
                most.fetch_max(now, Ordering::AcqRel);
                std::thread::yield_now();
                computing.fetch_sub(1, Ordering::AcqRel);
            }
            Ok(())
        });
        assert!(matches!(result, Err(BackupError::Unusable(_))));
        assert!(most.load(Ordering::Acquire) <= 2);
    }

    #[test]
    fn a_tick_may_cancel() {
        let result = run(2, 1, 1, &mut |_| Err(Cancelled), &mut || {}, |crew| {
            while !crew.is_stopped() {
                std::thread::yield_now();
            }
            Ok(())
        });
        assert!(matches!(result, Err(BackupError::Cancelled)));
    }
}
