//! The process as the system sees it.

use rustix::param::clock_ticks_per_second;
use std::fs;

/// Processor time of the process so far, in the kernel and outside, in milliseconds; `None` where the system does not tell.
pub fn processor_ms() -> Option<(u64, u64)> {
    times(&fs::read_to_string("/proc/self/stat").ok()?)
}

/// Kernel and user time of a line of /proc/PID/stat. The name in brackets may hold anything.
fn times(stat: &str) -> Option<(u64, u64)> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let kernel: u64 = fields.next()?.parse().ok()?;
    let ms = |ticks: u64| ticks.saturating_mul(1_000) / clock_ticks_per_second().max(1);
    Some((ms(kernel), ms(user)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_behind_the_name() {
        let ticks = clock_ticks_per_second();
        let stat = format!(
            "77 (a) b) S 1 77 77 0 -1 4194560 100 0 0 0 {} {} 0 0",
            2 * ticks,
            3 * ticks
        );
        assert_eq!(times(&stat), Some((3_000, 2_000)));
        assert_eq!(times("77"), None);
    }
}
