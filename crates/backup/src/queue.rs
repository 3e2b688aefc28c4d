//! Pieces on their way to the devices.
//!
//! Theory: whoever compresses hands over a piece and goes on; threads of the queue write, each one piece at a time, so many
//! writes are under way at once, which is what a device with latency needs. No device has to be measured for that: a thread
//! more than it can use costs a little memory. Few pieces wait, so when the devices are the slower part the computing threads
//! wait here, and that they do so is what tells which part it is (`level`).
//!
//! Invariants
//! 1. After the first error nothing more is written; [`WriteQueue::close`] gives the error.
//! 2. No thread outlives `close` or `discard`.

use crate::error::{BackupError, Result};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::JoinHandle;

/// Pieces that wait while all lanes are taken: enough for a lane that becomes free.
const WAITING_MAX: usize = 2;

/// Bytes for one place in one family.
#[derive(Debug)]
pub struct Piece {
    pub family: usize,
    pub bytes: Vec<u8>,
    pub offset: u64,
    pub number: u32,
}

/// Figures of the queue so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Bytes written since the beginning.
    pub written: u64,
    /// Somebody had to wait for room since the last look: the devices are the slower part.
    pub was_full: bool,
}

/// Writes pieces, several at once and in no order.
pub struct WriteQueue {
    shared: Arc<Shared>,
    lanes: usize,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

type Write = dyn Fn(&Piece) -> Result<()> + Send + Sync;

struct Shared {
    write: Box<Write>,
    state: Mutex<State>,
    /// There is a piece, or a lane, or an end.
    work: Condvar,
    room: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Piece>,
    /// Pieces being written, and how many may be.
    writing: usize,
    limit: usize,
    idle: usize,
    closing: bool,
    failed: bool,
    failure: Option<BackupError>,
    written: u64,
    was_full: bool,
    /// Threads that wait for room now.
    blocked: usize,
    /// Buffers of pieces that were written.
    spare: Vec<Vec<u8>>,
}

impl State {
    fn fail(&mut self, error: BackupError) {
        self.failed = true;
        self.failure.get_or_insert(error);
        self.waiting.clear();
    }
}

impl WriteQueue {
    /// A queue with at most `lanes` writes under way. Threads are started when they are needed.
    pub fn new(
        lanes: usize,
        write: impl Fn(&Piece) -> Result<()> + Send + Sync + 'static,
    ) -> WriteQueue {
        let lanes = lanes.max(1);
        WriteQueue {
            shared: Arc::new(Shared {
                write: Box::new(write),
                state: Mutex::new(State {
                    limit: lanes,
                    ..State::default()
                }),
                work: Condvar::new(),
                room: Condvar::new(),
            }),
            lanes,
            threads: Mutex::default(),
        }
    }

    /// Most writes that may ever be under way at once.
    pub fn lanes(&self) -> usize {
        self.lanes
    }

    /// Hands over a piece; waits while too many do so. After an error the piece is dropped: see `has_failed`.
    pub fn push(&self, piece: Piece) {
        let mut state = self.shared.state.lock();
        while state.waiting.len() >= WAITING_MAX && !state.failed {
            state.was_full = true;
            state.blocked += 1;
            self.shared.room.wait(&mut state);
            state.blocked -= 1;
        }
        if state.failed {
            return;
        }
        state.waiting.push_back(piece);
        let more = state.idle < state.waiting.len();
        drop(state);
        self.shared.work.notify_one();
        if more {
            self.start_thread();
        }
    }

    fn start_thread(&self) {
        let mut threads = self.threads.lock();
        if threads.len() >= self.lanes {
            return;
        }
        let shared = self.shared.clone();
        let started = std::thread::Builder::new()
            .name("backup-write".into())
            .spawn(move || shared.run());
        match started {
            Ok(thread) => threads.push(thread),
            // Others do the work, if there are any.
            Err(_) if !threads.is_empty() => {}
            Err(error) => {
                let what = format!("no thread can be started: {error}");
                self.shared.state.lock().fail(BackupError::Unusable(what));
                self.shared.room.notify_all();
            }
        }
    }

    /// An empty buffer, one that was used before if there is one.
    pub fn buffer(&self, capacity: usize) -> Vec<u8> {
        let spare = self.shared.state.lock().spare.pop();
        spare.unwrap_or_else(|| Vec::with_capacity(capacity))
    }

    /// How many writes may be under way from now on.
    pub fn set_limit(&self, limit: usize) {
        self.shared.state.lock().limit = limit.clamp(1, self.lanes);
        self.shared.work.notify_all();
    }

    /// What was written so far, and whether anybody had to wait since the last look.
    pub fn look(&self) -> Look {
        let mut state = self.shared.state.lock();
        Look {
            written: state.written,
            was_full: std::mem::take(&mut state.was_full) || state.blocked > 0,
        }
    }

    /// Has a write failed? The error comes from `close`.
    pub fn has_failed(&self) -> bool {
        self.shared.state.lock().failed
    }

    /// Waits until everything is written. The first error, if there was one.
    pub fn close(&self) -> Result<()> {
        self.end();
        let mut state = self.shared.state.lock();
        match (state.failure.take(), state.failed) {
            (Some(error), _) => Err(error),
            // The error was told before.
            (None, true) => Err(BackupError::Unusable("an earlier write failed".into())),
            (None, false) => Ok(()),
        }
    }

    /// Drops what waits, and waits for the writes under way.
    pub fn discard(&self) {
        self.shared.state.lock().waiting.clear();
        self.end();
    }

    fn end(&self) {
        self.shared.state.lock().closing = true;
        self.shared.work.notify_all();
        for thread in self.threads.lock().drain(..) {
            // A panic was noted where it happened.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn run(&self) {
        while let Some(piece) = self.next() {
            let mut lane = Lane {
                shared: self,
                outcome: Err(BackupError::Unusable("a thread panicked".into())),
                piece,
            };
            lane.outcome = (self.write)(&lane.piece);
        }
    }

    /// The next piece, when a lane is free; `None` at the end.
    fn next(&self) -> Option<Piece> {
        let mut state = self.state.lock();
        loop {
            if state.writing < state.limit
                && let Some(piece) = state.waiting.pop_front()
            {
                state.writing += 1;
                self.room.notify_one();
                return Some(piece);
            }
            if state.failed || (state.closing && state.waiting.is_empty()) {
                return None;
            }
            state.idle += 1;
            self.work.wait(&mut state);
            state.idle -= 1;
        }
    }
}

/// A write under way. It ends even when the device panics.
struct Lane<'a> {
    shared: &'a Shared,
    outcome: Result<()>,
    piece: Piece,
}

impl Drop for Lane<'_> {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.writing -= 1;
        match std::mem::replace(&mut self.outcome, Ok(())) {
            Ok(()) => {
                state.written += self.piece.bytes.len() as u64;
                let mut buffer = std::mem::take(&mut self.piece.bytes);
                buffer.clear();
                if state.spare.len() < WAITING_MAX {
                    state.spare.push(buffer);
                }
            }
            Err(error) => {
                state.fail(error);
                self.shared.room.notify_all();
            }
        }
        if state.closing || state.failed {
            self.shared.work.notify_all();
        } else {
            self.shared.work.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn piece(number: u32) -> Piece {
        Piece {
            family: 0,
            bytes: vec![number as u8; 10],
            offset: u64::from(number) * 10,
            number,
        }
    }

    #[test]
    fn everything_is_written_and_no_more_at_once_than_allowed() {
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let written: Arc<Mutex<Vec<u32>>> = Arc::default();
        let (n, m, w) = (now.clone(), most.clone(), written.clone());
        let queue = WriteQueue::new(3, move |piece| {
            m.fetch_max(n.fetch_add(1, Ordering::AcqRel) + 1, Ordering::AcqRel);
            std::thread::yield_now();
            w.lock().push(piece.number);
            n.fetch_sub(1, Ordering::AcqRel);
            Ok(())
        });
        (0..100).for_each(|number| queue.push(piece(number)));
        queue.close().expect("no error");
        let mut written = written.lock().clone();
        written.sort_unstable();
        assert_eq!(written, (0..100).collect::<Vec<_>>());
        assert!(most.load(Ordering::Acquire) <= 3);
        assert_eq!(queue.look().written, 1_000);
    }

    #[test]
    fn a_queue_whose_device_stands_still_is_full() {
        let gate = Arc::new(Mutex::new(()));
        let closed = gate.clone();
        let queue = WriteQueue::new(2, move |_| {
            drop(closed.lock());
            Ok(())
        });
        let shut = gate.lock();
        std::thread::scope(|scope| {
            scope.spawn(|| (0..5).for_each(|number| queue.push(piece(number))));
            while !queue.look().was_full {
                std::thread::yield_now();
            }
            // It still is, although nobody came since.
            assert!(queue.look().was_full);
            drop(shut);
        });
        queue.close().expect("no error");
        queue.look();
        assert_eq!(
            queue.look(),
            Look {
                written: 50,
                was_full: false
            }
        );
    }

    #[test]
    fn the_first_error_ends_it() {
        let queue = WriteQueue::new(2, |piece| match piece.number {
            7 => Err(BackupError::Unusable("stop here".into())),
            _ => Ok(()),
        });
        (0..1_000).for_each(|number| queue.push(piece(number)));
        assert!(matches!(queue.close(), Err(BackupError::Unusable(what)) if what == "stop here"));
        assert!(queue.has_failed() && queue.close().is_err());
    }

    #[test]
    fn a_panic_of_a_device_is_an_error() {
        let queue = WriteQueue::new(1, |piece| {
            assert_ne!(piece.number, 3, "a device that panics");
            Ok(())
        });
        (0..10).for_each(|number| queue.push(piece(number)));
        assert!(queue.close().is_err());
    }
}
