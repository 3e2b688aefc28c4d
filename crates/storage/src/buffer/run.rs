//! Runs: entries inserted one right behind the other, noted for each frame.
//!
//! Theory: where keys grow within a prefix (a tenant, a device, a day), each insert follows the one before it on its page, in
//! the middle of the tree. A split at that place leaves full pages behind; one at the middle leaves pages half full for ever.
//! The note is a hint: it is lost with the frame and is written in no log, and a wrong one costs room only.

use super::PageWrite;
use std::sync::atomic::Ordering;

/// Inserts that must have followed each other before a page is split behind them: by chance so many rarely do. Of a page
/// with few entries half are enough, for a split at the middle leaves no room for more; of one with many a quarter must be of the run: the
/// few rows that belong together at a random place are no reason to split there.
const RUN_MIN: usize = 4;

/// The last inserts into a page that followed each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Run {
    /// Slot behind the last one.
    next: u16,
    length: u16,
}

impl Run {
    /// The run after an insert at `slot`.
    pub fn inserted(self, slot: usize) -> Run {
        let slot = slot as u16;
        Run {
            next: slot.saturating_add(1),
            length: match self.next == slot {
                true => self.length.saturating_add(1),
                false => 1,
            },
        }
    }

    /// Does an insert at `slot`, of a page with `slots` entries, go on with a run?
    pub fn goes_on_at(self, slot: usize, slots: usize) -> bool {
        let enough = (slots / 2).clamp(1, RUN_MIN).max(slots / 4);
        self.next as usize == slot && self.length as usize >= enough
    }

    fn pack(self, page: u64) -> u64 {
        page << 32 | (self.next as u64) << 16 | self.length as u64
    }

    fn unpack(word: u64, page: u64) -> Run {
        match word >> 32 == page & u32::MAX as u64 {
            true => Run {
                next: (word >> 16) as u16,
                length: word as u16,
            },
            false => Run::default(),
        }
    }
}

impl PageWrite<'_> {
    /// The last inserts into this page, as far as its frame knows.
    pub fn run(&self) -> Run {
        let frame = self.pin.0;
        Run::unpack(
            frame.run.load(Ordering::Relaxed),
            frame.page.load(Ordering::Relaxed),
        )
    }

    /// Notes them.
    pub fn set_run(&self, run: Run) {
        let frame = self.pin.0;
        let word = run.pack(frame.page.load(Ordering::Relaxed));
        frame.run.store(word, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inserts_behind_each_other_are_a_run_and_others_begin_anew() {
        let mut run = Run::default();
        assert!(!run.goes_on_at(0, 0), "nothing was inserted");
        for slot in 7..11 {
            assert!(!run.goes_on_at(slot, 100), "{slot}");
            run = run.inserted(slot);
        }
        assert!(run.goes_on_at(11, 16));
        assert!(!run.goes_on_at(11, 20), "of fewer than a quarter");
        assert!(!run.goes_on_at(10, 16));
        assert!(!run.inserted(3).goes_on_at(4, 16));
        assert!(run.inserted(3).goes_on_at(4, 1), "of a page with one entry");
    }

    #[test]
    fn the_run_of_another_page_is_not_this_ones() {
        let run = Run::default().inserted(8).inserted(9);
        assert_eq!(Run::unpack(run.pack(0x1_0000_0005), 0x1_0000_0005), run);
        assert_eq!(Run::unpack(run.pack(5), 6), Run::default());
    }
}
