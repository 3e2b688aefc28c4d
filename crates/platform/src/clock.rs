//! Monotonic and wall clock, and randomness from the kernel.

use daruma_base::{Clock, Random};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A tenth of the processor time of a thread that is not in the background, where both want it.
const BACKGROUND_NICE: i32 = 10;

#[derive(Debug)]
pub struct RealClock {
    start: Instant,
}

impl RealClock {
    pub fn new() -> RealClock {
        RealClock {
            start: Instant::now(),
        }
    }
}

impl Default for RealClock {
    fn default() -> RealClock {
        RealClock::new()
    }
}

impl Clock for RealClock {
    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }

    fn thread_cpu(&self) -> Duration {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
    }

    fn run_in_background(&self) {
        // On Linux 0 means this thread alone. Without the right to it the thread goes on as it was.
        let _ = rustix::process::setpriority_process(None, BACKGROUND_NICE);
    }

    fn utc_100ns(&self) -> i64 {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        i64::try_from(since.as_nanos() / 100).unwrap_or(i64::MAX)
    }

    fn local_offset_minutes(&self) -> i16 {
        let offset = jiff::Zoned::now().offset().seconds() / 60;
        i16::try_from(offset).unwrap_or(0)
    }

    fn sleep(&self, duration: Duration) {
        std::thread::sleep(duration);
    }
}

/// `getrandom(2)`: cryptographic quality.
#[derive(Debug)]
pub struct RealRandom;

impl Random for RealRandom {
    fn fill(&self, mut buf: &mut [u8]) {
        while !buf.is_empty() {
            match rustix::rand::getrandom(&mut *buf, rustix::rand::GetRandomFlags::empty()) {
                Ok(filled) => buf = &mut buf[filled..],
                Err(rustix::io::Errno::INTR) => {}
                // Without randomness there are no safe passwords, keys or ids.
                Err(error) => panic!("the kernel gives no randomness: {error}"),
            }
        }
    }
}
