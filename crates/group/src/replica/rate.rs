//! How fast a position moves, for the views: bytes a second over the last period in which it moved at all.

use daruma_base::Lsn;

/// Periods are no shorter.
const PERIOD_MS: u64 = 1000;

/// Looked at again and again; see the module.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rate {
    /// Where and when the present period began.
    begun: Option<(Lsn, u64)>,
    per_second: u64,
}

impl Rate {
    /// The position is here now; `now_ms` never falls. A position that has gone back begins anew.
    pub fn note(&mut self, position: Lsn, now_ms: u64) {
        let Some((from, since_ms)) = self.begun.filter(|(from, _)| *from <= position) else {
            self.begun = Some((position, now_ms));
            return;
        };
        let took_ms = now_ms.saturating_sub(since_ms);
        if took_ms < PERIOD_MS {
            return;
        }
        let moved = u128::from(position.0 - from.0);
        if moved > 0 {
            let per_second = moved * 1000 / u128::from(took_ms);
            self.per_second = u64::try_from(per_second).unwrap_or(u64::MAX);
        }
        self.begun = Some((position, now_ms));
    }

    /// Bytes a second; 0 if it has not moved yet.
    pub fn bytes_per_second(&self) -> u64 {
        self.per_second
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_that_of_the_last_period_in_which_something_moved() {
        let mut rate = Rate::default();
        rate.note(Lsn(4096), 10);
        rate.note(Lsn(50_000), 500);
        assert_eq!(rate.bytes_per_second(), 0, "the period is not over");
        rate.note(Lsn(104_096), 2_010);
        assert_eq!(rate.bytes_per_second(), 50_000);
        rate.note(Lsn(104_096), 9_000);
        assert_eq!(rate.bytes_per_second(), 50_000, "nothing moved");
        rate.note(Lsn(106_096), 10_000);
        assert_eq!(
            rate.bytes_per_second(),
            2_000,
            "the idle time does not count"
        );
    }

    #[test]
    fn a_position_that_goes_back_begins_anew() {
        let mut rate = Rate::default();
        rate.note(Lsn(100_000), 0);
        rate.note(Lsn(50_000), 5_000);
        assert_eq!(rate.bytes_per_second(), 0);
        rate.note(Lsn(51_000), 6_000);
        assert_eq!(rate.bytes_per_second(), 1_000);
    }
}
