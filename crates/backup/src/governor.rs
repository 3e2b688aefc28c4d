//! How many writes of a backup may be under way at once, so that the sessions of the database are disturbed little.
//!
//! Theory: what a session notices of a backup is a longer wait for its commit, and what a commit waits for is the flush of the
//! log. So the time of these flushes is watched: while they take longer than they did before, the backup has fewer writes under
//! way; while they do not, one more at each look. Processor time needs no such care: the backup's threads run in the
//! background, so that others come first.

use std::time::Duration;

/// Writes under way at the very least: a backup under load still ends.
const LANES_MIN: usize = 2;
/// An interval with fewer flushes says nothing.
const FLUSHES_MIN: u64 = 3;
/// Flushes may take so many times as long as before the backup, and so much on top.
const SLOWER_TIMES: u32 = 2;
const SLOWER_BY: Duration = Duration::from_millis(1);

/// Flushes of the log so far, and the time they took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    pub flushes: u64,
    pub time: Duration,
}

impl Load {
    /// Mean time of a flush since `before`.
    fn mean_since(&self, before: &Load) -> Option<Duration> {
        let flushes = self.flushes.saturating_sub(before.flushes);
        let time = self.time.saturating_sub(before.time);
        let count = u32::try_from(flushes).unwrap_or(u32::MAX);
        (flushes >= FLUSHES_MIN).then(|| time / count.max(1))
    }
}

/// Chooses the number of lanes from how long log flushes take beside the backup.
pub struct Governor {
    lanes: usize,
    lanes_max: usize,
    last: Load,
    /// Time of a flush when nothing disturbs it.
    quiet: Option<Duration>,
}

impl Governor {
    /// `load` is what the log has done up to now: it says what a flush takes without a backup.
    pub fn new(lanes_max: usize, load: Load) -> Governor {
        Governor {
            lanes: lanes_max,
            lanes_max,
            last: load,
            quiet: load.mean_since(&Load::default()),
        }
    }

    /// How many writes may be under way from now on.
    pub fn observe(&mut self, load: Load) -> usize {
        let mean = load.mean_since(&self.last);
        if mean.is_some() {
            self.last = load;
        }
        let disturbed = match (mean, self.quiet) {
            (Some(mean), Some(quiet)) => mean > quiet * SLOWER_TIMES + SLOWER_BY,
            _ => false,
        };
        if let Some(mean) = mean {
            self.quiet = Some(self.quiet.map_or(mean, |quiet| quiet.min(mean)));
        }
        self.lanes = match disturbed {
            true => (self.lanes * 3 / 4).max(LANES_MIN).min(self.lanes_max),
            false => (self.lanes + 1).min(self.lanes_max),
        };
        self.lanes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten flushes that take `us` each.
    fn later(load: &mut Load, us: u64) -> Load {
        load.flushes += 10;
        load.time += Duration::from_micros(10 * us);
        *load
    }

    #[test]
    fn slow_flushes_make_it_step_back_and_fast_ones_let_it_go_on() {
        let mut load = Load::default();
        let mut governor = Governor::new(16, later(&mut load, 500));
        assert_eq!(governor.observe(later(&mut load, 1_900)), 16);
        let lanes: Vec<usize> = (0..10)
            .map(|_| governor.observe(later(&mut load, 9_000)))
            .collect();
        assert_eq!(lanes[..4], [12, 9, 6, 4]);
        assert_eq!(lanes[9], LANES_MIN);
        assert_eq!(governor.observe(later(&mut load, 600)), 3);
        // Nobody commits: nobody is disturbed.
        assert_eq!(governor.observe(load), 4);
        load.flushes += 1;
        load.time += Duration::from_secs(1);
        assert_eq!(governor.observe(load), 5);
    }

    #[test]
    fn a_small_backup_is_not_made_smaller() {
        let mut load = Load::default();
        let mut governor = Governor::new(1, later(&mut load, 100));
        assert_eq!(governor.observe(later(&mut load, 90_000)), 1);
        assert_eq!(governor.observe(later(&mut load, 90_000)), 1);
    }
}
