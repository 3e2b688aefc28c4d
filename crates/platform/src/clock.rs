//! Monotonic and wall clock, and randomness from the kernel.

use daruma_base::{Clock, Random};
use std::cell::RefCell;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A tenth of the processor time of a thread that is not in the background, where both want it.
const BACKGROUND_NICE: i32 = 10;

/// The machine's clock.
#[derive(Debug)]
pub struct RealClock {
    start: Instant,
}

impl RealClock {
    /// A clock whose monotonic time begins now.
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

/// Names of the zone that a machine without files of zones has: images that are small set one of them.
const UTC_NAMES: [&str; 5] = ["", "UTC", "Etc/UTC", "Etc/UCT", "Etc/Zulu"];

/// Looks up the time zone that the variable `TZ` names; an error says what is wrong with it. Without the variable there is no error: a
/// machine that has no time zone has UTC.
pub fn local_time_zone() -> Result<(), String> {
    let is_found_without_files = |name: &std::ffi::OsString| {
        let name = name.to_string_lossy();
        UTC_NAMES.iter().any(|utc| name.eq_ignore_ascii_case(utc))
    };
    if std::env::var_os("TZ").is_none_or(|name| is_found_without_files(&name)) {
        return Ok(());
    }
    let found = jiff::tz::TimeZone::try_system();
    found.map(|_| ()).map_err(|error| error.to_string())
}

/// `getrandom(2)`: cryptographic quality.
///
/// Unique identifiers and seeds (up to 16 bytes) come from a stock that each thread asks the kernel for: a row may
/// take a dozen of them, and a call for each costs more than the row. Keys are asked for as they are needed, so that no
/// copy of one stays in memory.
#[derive(Debug)]
pub struct RealRandom;

/// What the stock serves: a unique identifier.
const SMALL_BYTES: usize = 16;
/// One call of the kernel then serves 64 identifiers.
const STOCK_BYTES: usize = 1024;

/// Random bytes of one thread; those before `used` were given away.
struct Stock {
    bytes: [u8; STOCK_BYTES],
    used: usize,
}

thread_local! {
    static STOCK: RefCell<Stock> = const {
        RefCell::new(Stock {
            bytes: [0; STOCK_BYTES],
            used: STOCK_BYTES,
        })
    };
}

impl Random for RealRandom {
    fn fill(&self, buf: &mut [u8]) {
        if buf.len() > SMALL_BYTES {
            return from_kernel(buf);
        }
        STOCK.with_borrow_mut(|stock| {
            if stock.used + buf.len() > STOCK_BYTES {
                from_kernel(&mut stock.bytes);
                stock.used = 0;
            }
            let given = &mut stock.bytes[stock.used..][..buf.len()];
            buf.copy_from_slice(given);
            given.fill(0);
            stock.used += buf.len();
        });
    }
}

fn from_kernel(mut buf: &mut [u8]) {
    while !buf.is_empty() {
        match rustix::rand::getrandom(&mut *buf, rustix::rand::GetRandomFlags::empty()) {
            Ok(filled) => buf = &mut buf[filled..],
            Err(rustix::io::Errno::INTR) => {}
            // Without randomness there are no safe passwords, keys or ids.
            Err(error) => panic!("the kernel gives no randomness: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn ids(count: usize) -> Vec<[u8; 16]> {
        let id = || {
            let mut id = [0; 16];
            RealRandom.fill(&mut id);
            id
        };
        std::iter::repeat_with(id).take(count).collect()
    }

    #[test]
    fn no_identifier_is_given_twice_whatever_was_asked_between() {
        let here = ids(STOCK_BYTES);
        RealRandom.fill(&mut [0; 7]);
        RealRandom.fill(&mut [0; 2 * STOCK_BYTES]);
        RealRandom.fill(&mut []);
        let later = ids(STOCK_BYTES);
        let other = std::thread::spawn(|| ids(STOCK_BYTES)).join().unwrap();
        let all: HashSet<[u8; 16]> = here.into_iter().chain(later).chain(other).collect();
        assert_eq!(all.len(), 3 * STOCK_BYTES);
        assert!(!all.contains(&[0; 16]));
    }
}
