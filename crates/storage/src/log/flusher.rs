//! A thread that writes the log while it is busy.
//!
//! Theory: a leader who has written must let the next one begin, who sleeps, and on a busy machine waits for a processor
//! behind all those whose commits have just become hard; the disk is idle meanwhile. So a leader who leaves a next cohort
//! behind hands the lead to this thread. It comes from the disk, finds the next cohort waiting and writes at once; it
//! goes on until nobody waits. With few commits nobody needs it: whoever commits alone writes for itself.
//!
//! One thread serves all logs of a server, one at a time; the other ones are led by those who commit.

use super::Log;
use crate::sync::{Condvar, Mutex};
use std::sync::Arc;

/// Where busy logs ask for a thread that goes on writing; the program's thread runs `LogFlusher::serve`.
#[derive(Default)]
pub struct LogFlusher {
    desk: Mutex<Desk>,
    changed: Condvar,
}

#[derive(Default)]
struct Desk {
    /// The thread waits for a log.
    is_free: bool,
    is_stopped: bool,
    log: Option<Arc<Log>>,
}

impl LogFlusher {
    /// Body of the thread, until [`LogFlusher::stop`].
    pub fn serve(&self) {
        while let Some(log) = self.next() {
            log.lead_while_awaited();
        }
    }

    /// Ends `serve`.
    pub fn stop(&self) {
        self.desk.lock().is_stopped = true;
        self.changed.notify_all();
    }

    fn next(&self) -> Option<Arc<Log>> {
        let mut desk = self.desk.lock();
        desk.is_free = !desk.is_stopped;
        loop {
            match desk.log.take() {
                Some(log) => return Some(log),
                None if desk.is_stopped => {
                    desk.is_free = false;
                    return None;
                }
                None => self.changed.wait(&mut desk),
            }
        }
    }

    /// Hands over the lead of `log`. False: nobody is there to take it.
    pub(super) fn take_over(&self, log: Arc<Log>) -> bool {
        let mut desk = self.desk.lock();
        if !desk.is_free || desk.is_stopped {
            return false;
        }
        desk.is_free = false;
        desk.log = Some(log);
        self.changed.notify_one();
        true
    }
}
