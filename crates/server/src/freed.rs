//! Memory that statements have freed goes back to the system.
//!
//! Theory: the allocator keeps what is freed for the next who asks, and after one statement that took a gigabyte it keeps
//! most of a gigabyte. Giving it back costs milliseconds, and whoever needs memory again has to fault it in again. So a look
//! is taken now and then: where the server has for a whole while not come near what it had allocated before, that is given
//! back. A server that takes as much again and again keeps it.
//!
//! Many threads that each take and free a little leave as much behind, although the server as a whole never took more than before:
//! so the process's resident memory is compared with what is allocated, too. What stays when it was given back (pieces of pages, the
//! allocator's own) counts no more.

use daruma_base::memory;
use std::time::Duration;

/// Time between two looks.
const LOOK: Duration = Duration::from_secs(1);
/// What is worth giving back.
const WORTH_BYTES: i64 = 64 << 20;

/// Looks one after the other that must see resident memory which nobody uses.
const IDLE_LOOKS: u32 = 5;

/// What was allocated at most, and when that was looked at.
pub(crate) struct FreedMemory {
    /// Since memory was last given back.
    most: i64,
    looked: Duration,
    /// The least that was resident beyond what was allocated, since then.
    least_idle: i64,
    idle_looks: u32,
}

impl Default for FreedMemory {
    fn default() -> FreedMemory {
        FreedMemory {
            most: 0,
            looked: Duration::ZERO,
            least_idle: i64::MAX,
            idle_looks: 0,
        }
    }
}

impl FreedMemory {
    /// Gives back what is worth it, if a look is due.
    pub fn look(&mut self, now: Duration) {
        if now.saturating_sub(self.looked) < LOOK {
            return;
        }
        self.looked = now;
        let is_much = self.is_much(memory::take_peak_bytes());
        let resident = daruma_platform::resident_bytes();
        let is_idle = resident.is_some_and(|bytes| self.is_idle(bytes - memory::total_bytes()));
        if is_much || is_idle {
            daruma_platform::give_back();
            self.least_idle = i64::MAX;
            self.idle_looks = 0;
        }
    }

    /// Was so much more resident than allocated, for a while, than is so at rest?
    fn is_idle(&mut self, idle: i64) -> bool {
        self.least_idle = self.least_idle.min(idle);
        self.idle_looks = match idle.saturating_sub(self.least_idle) >= WORTH_BYTES {
            true => self.idle_looks + 1,
            false => 0,
        };
        self.idle_looks >= IDLE_LOOKS
    }

    /// Was so much less allocated at any time since the last look than there had been before?
    fn is_much(&mut self, lately: i64) -> bool {
        self.most = self.most.max(lately);
        let is_much = self.most - lately >= WORTH_BYTES;
        if is_much {
            self.most = lately;
        }
        is_much
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_needed_for_a_while_is_given_back_once() {
        let mut freed = FreedMemory::default();
        assert!(!freed.is_much(WORTH_BYTES / 2));
        assert!(!freed.is_much(20 * WORTH_BYTES));
        // Freed and taken again between two looks.
        assert!(!freed.is_much(20 * WORTH_BYTES));
        assert!(freed.is_much(2 * WORTH_BYTES));
        assert!(!freed.is_much(2 * WORTH_BYTES));
        assert!(!freed.is_much(2 * WORTH_BYTES - 1));
    }

    #[test]
    fn what_many_freed_a_little_of_is_given_back_when_it_stays() {
        let mut freed = FreedMemory::default();
        // Pages that nobody has touched are allocated and not resident.
        assert!(!freed.is_idle(-WORTH_BYTES));
        for _ in 1..IDLE_LOOKS {
            assert!(!freed.is_idle(WORTH_BYTES));
        }
        // In use again for a moment.
        assert!(!freed.is_idle(-WORTH_BYTES));
        for _ in 1..IDLE_LOOKS {
            assert!(!freed.is_idle(WORTH_BYTES));
        }
        assert!(freed.is_idle(WORTH_BYTES));
    }
}
