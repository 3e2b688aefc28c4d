//! Keepers of log: guards that a reader takes, and the engine's own needs as of the last cut.
//!
//! Theory: the log is cut at the lowest position that anybody needs. The engine's needs (redo, active transactions,
//! the next log backup) are told anew with every cut; a reader outside (backup, shipping) takes a [`LogHold`] and
//! keeps everything from its position on until it drops it. What holds the log is also what `log_reuse_wait_desc`
//! and error 9002 say.
//!
//! Invariant: a position is held only while the log there still exists, because both taking a hold and cutting happen
//! under the log's state latch.

use crate::sync::Mutex;
use daruma_base::Lsn;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A position from which on the log is needed, and what for, in the words of `log_reuse_wait_desc`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    pub from: Lsn,
    pub reason: &'static str,
}

/// Positions held, by position and then by order of taking.
#[derive(Default)]
pub struct Holds {
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    next: u64,
    by_position: BTreeMap<(Lsn, u64), &'static str>,
}

impl Holds {
    pub(super) fn take(self: &Arc<Holds>, from: Lsn, reason: &'static str) -> LogHold {
        let mut taken = self.taken.lock();
        let number = taken.next;
        taken.next += 1;
        taken.by_position.insert((from, number), reason);
        LogHold {
            holds: self.clone(),
            from,
            number,
        }
    }

    /// The lowest position held.
    pub fn lowest(&self) -> Option<Need> {
        let taken = self.taken.lock();
        let (key, reason) = taken.by_position.first_key_value()?;
        Some(Need {
            from: key.0,
            reason,
        })
    }
}

/// Keeps the log from a position on. Dropping it lets the next cut go further.
pub struct LogHold {
    holds: Arc<Holds>,
    from: Lsn,
    number: u64,
}

impl LogHold {
    /// Oldest position that is held.
    pub fn from(&self) -> Lsn {
        self.from
    }

    /// Gives up what lies below `to`; a reader that has read so far. Never moves back.
    pub fn advance(&mut self, to: Lsn) {
        if to <= self.from {
            return;
        }
        let mut taken = self.holds.taken.lock();
        if let Some(reason) = taken.by_position.remove(&(self.from, self.number)) {
            taken.by_position.insert((to, self.number), reason);
            self.from = to;
        }
    }
}

impl Drop for LogHold {
    fn drop(&mut self) {
        let mut taken = self.holds.taken.lock();
        taken.by_position.remove(&(self.from, self.number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_hold_counts_and_goes_with_its_guard() {
        let holds = Arc::new(Holds::default());
        let mut first = holds.take(Lsn(100), "a");
        let second = holds.take(Lsn(200), "b");
        assert_eq!(holds.lowest().map(|n| n.from), Some(Lsn(100)));
        first.advance(Lsn(300));
        first.advance(Lsn(50));
        assert_eq!(first.from(), Lsn(300));
        assert_eq!(
            holds.lowest(),
            Some(Need {
                from: Lsn(200),
                reason: "b"
            })
        );
        drop(second);
        assert_eq!(holds.lowest().map(|n| n.from), Some(Lsn(300)));
        drop(first);
        assert_eq!(holds.lowest(), None);
    }
}
