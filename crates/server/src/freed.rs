//! Memory that statements have freed goes back to the system.
//!
//! Theory: the allocator keeps what is freed for the next who asks, and after one statement that took a gigabyte it keeps
//! most of a gigabyte. Giving it back costs milliseconds, and whoever needs memory again has to fault it in again. So a look
//! is taken now and then: where the server has for a whole while not come near what it had allocated before, that is given
//! back. A server that takes as much again and again keeps it.

use daruma_base::memory;
use std::time::Duration;

/// Time between two looks.
const LOOK: Duration = Duration::from_secs(1);
/// What is worth giving back.
const WORTH_BYTES: i64 = 64 << 20;

/// What was allocated at most, and when that was looked at.
#[derive(Default)]
pub(crate) struct FreedMemory {
    /// Since memory was last given back.
    most: i64,
    looked: Duration,
}

impl FreedMemory {
    /// Gives back what is worth it, if a look is due.
    pub fn look(&mut self, now: Duration) {
        if now.saturating_sub(self.looked) < LOOK {
            return;
        }
        self.looked = now;
        if self.is_much(memory::take_peak_bytes()) {
            daruma_platform::give_back();
        }
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
}
