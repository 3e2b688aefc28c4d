//! Keepers of log: guards that a reader takes, and the engine's own needs as of the last cut.
//!
//! Theory: the log is cut at the lowest position that anybody needs. The engine's needs (redo, active transactions,
//! the next log backup) are told anew with every cut; a reader outside (backup, shipping) takes a [`LogHold`] and
//! keeps everything from its position on until it drops it. What holds the log is also what `log_reuse_wait_desc`
//! and error 9002 say.
//!
//! A hold may have a bound: one that keeps more log than that is broken at the next cut, and its owner finds out when it looks.
//!
//! Invariant: a position is held only while the log there still exists, because both taking a hold and cutting happen
//! under the log's state latch.

use crate::sync::Mutex;
use daruma_base::{Lsn, reached};
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
    by_position: BTreeMap<(Lsn, u64), Held>,
}

#[derive(Clone, Copy)]
struct Held {
    reason: &'static str,
    bytes_max: u64,
}

impl Holds {
    pub(super) fn take(self: &Arc<Holds>, from: Lsn, reason: &'static str) -> LogHold {
        let mut taken = self.taken.lock();
        let number = taken.next;
        taken.next += 1;
        let bytes_max = u64::MAX;
        let held = Held { reason, bytes_max };
        taken.by_position.insert((from, number), held);
        LogHold {
            holds: self.clone(),
            from,
            number,
        }
    }

    /// The lowest position held.
    pub fn lowest(&self) -> Option<Need> {
        let taken = self.taken.lock();
        let (key, held) = taken.by_position.first_key_value()?;
        Some(Need {
            from: key.0,
            reason: held.reason,
        })
    }

    /// Breaks the holds that keep more of a log that ends at `end` than they may.
    pub(super) fn break_beyond(&self, end: Lsn) {
        let mut taken = self.taken.lock();
        let is_within = |from: Lsn, held: &Held| end.0.saturating_sub(from.0) <= held.bytes_max;
        let before = taken.by_position.len();
        taken
            .by_position
            .retain(|(from, _), held| is_within(*from, held));
        if taken.by_position.len() < before {
            reached!("log.hold.broken");
        }
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
        if let Some(held) = taken.by_position.remove(&(self.from, self.number)) {
            taken.by_position.insert((to, self.number), held);
            self.from = to;
        }
    }

    /// It may keep so much log, up to the log's end; with more it is broken.
    pub fn set_bound(&self, bytes_max: u64) {
        let mut taken = self.holds.taken.lock();
        if let Some(held) = taken.by_position.get_mut(&(self.from, self.number)) {
            held.bytes_max = bytes_max;
        }
    }

    /// Did it keep more than it may? Then the log from its position on may be gone.
    pub fn is_broken(&self) -> bool {
        let taken = self.holds.taken.lock();
        !taken.by_position.contains_key(&(self.from, self.number))
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

    #[test]
    fn a_hold_beyond_its_bound_is_broken_and_stays_so() {
        let holds = Arc::new(Holds::default());
        let mut bounded = holds.take(Lsn(100), "a");
        let other = holds.take(Lsn(150), "b");
        bounded.set_bound(50);
        holds.break_beyond(Lsn(150));
        assert!(!bounded.is_broken());
        holds.break_beyond(Lsn(151));
        assert!(bounded.is_broken() && !other.is_broken());
        assert_eq!(holds.lowest().map(|n| n.reason), Some("b"));
        bounded.advance(Lsn(151));
        assert!(bounded.is_broken());
        assert_eq!(bounded.from(), Lsn(100));
    }
}
