//! A bound on the speed of copies to new replicas.
//!
//! Theory: each part may leave when the one before it would have gone at the bound, so a stretch is never faster, also where the bound
//! changes meanwhile; time in which nothing could leave is not made up for.

use std::time::Duration;

/// When the next part of a copy may leave, by the copy's own clock.
#[derive(Debug, Default)]
pub(super) struct Pace {
    next: Duration,
}

impl Pace {
    /// How long the next part has to wait; `None`: it may leave.
    pub(super) fn wait(&self, now: Duration) -> Option<Duration> {
        self.next.checked_sub(now).filter(|wait| !wait.is_zero())
    }

    /// A part leaves. `bytes_per_s` is the bound, `u64::MAX` for none.
    pub(super) fn leaves(&mut self, bytes: u64, bytes_per_s: u64, now: Duration) {
        let takes = match bytes_per_s {
            u64::MAX => Duration::ZERO,
            bound => Duration::from_secs_f64(bytes as f64 / bound.max(1) as f64),
        };
        self.next = self.next.max(now) + takes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn parts_leave_at_the_bound_and_lost_time_stays_lost() {
        let mut pace = Pace::default();
        assert_eq!(pace.wait(MS(0)), None);
        pace.leaves(500, 1_000, MS(0));
        assert_eq!(pace.wait(MS(100)), Some(MS(400)));
        assert_eq!(pace.wait(MS(500)), None);
        // It leaves late, and the next one no earlier for that.
        pace.leaves(500, 1_000, MS(2_000));
        assert_eq!(pace.wait(MS(2_000)), Some(MS(500)));
    }

    #[test]
    fn a_bound_counts_from_the_next_part_on_and_none_is_none() {
        let mut pace = Pace::default();
        pace.leaves(57_000, u64::MAX, MS(10));
        assert_eq!(pace.wait(MS(10)), None);
        pace.leaves(2_000, 1_000, MS(10));
        assert_eq!(pace.wait(MS(10)), Some(MS(2_000)));
        pace.leaves(1, 0, MS(2_010));
        assert_eq!(pace.wait(MS(2_010)), Some(MS(1_000)));
    }
}
