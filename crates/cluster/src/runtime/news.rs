//! That something has changed, for a thread that would look again and again otherwise.

use parking_lot::{Condvar, Mutex};
use std::time::{Duration, Instant};

/// Counts what was told.
#[derive(Default)]
pub struct News {
    count: Mutex<u64>,
    told: Condvar,
}

impl News {
    /// Something has changed.
    pub fn tell(&self) {
        *self.count.lock() += 1;
        self.told.notify_all();
    }

    /// So much was told until now. Whoever looks after this, and waits with it, misses nothing.
    pub fn count(&self) -> u64 {
        *self.count.lock()
    }

    /// Waits for more than `seen`, for so long at most.
    pub fn wait(&self, seen: u64, limit: Duration) {
        let until = Instant::now() + limit;
        let mut count = self.count.lock();
        while *count == seen {
            if self.told.wait_until(&mut count, until).timed_out() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_before_the_wait_ends_it() {
        let news = News::default();
        let seen = news.count();
        news.tell();
        // It would take longer than any test.
        news.wait(seen, Duration::from_hours(1));
        assert_eq!(news.count(), seen + 1);
        news.wait(news.count(), Duration::ZERO);
    }
}
