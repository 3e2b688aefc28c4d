//! The two clocks of a participant: does it answer, and does it get anywhere?
//!
//! | clock | starts again when | runs |
//! |---|---|---|
//! | link | anything arrives | always |
//! | progress | what it has hard moves | while something that was sent to it is not hard there |
//!
//! A peer whose disk hangs answers every ping, so the link alone would keep commits waiting. Times are milliseconds of a monotonic clock.

use super::planted::{Bug, planted};
use super::replica::ReplicaId;
use daruma_base::Lsn;

/// The clock that ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Clock {
    /// Nothing was received for too long.
    Link,
    /// What is hard there has not moved for too long.
    Progress,
}

/// Clocks of one replica.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Clocks {
    replica: ReplicaId,
    timeout_ms: u64,
    heard_ms: u64,
    here: Lsn,
    /// Since when something is outstanding and `here` stands still.
    stuck_since_ms: Option<u64>,
}

impl Clocks {
    /// Clocks that start now.
    pub fn new(replica: ReplicaId, timeout_ms: u64, now_ms: u64) -> Clocks {
        Clocks {
            replica,
            timeout_ms,
            heard_ms: now_ms,
            here: Lsn::NONE,
            stuck_since_ms: None,
        }
    }

    /// Whose they are.
    pub fn replica(&self) -> ReplicaId {
        self.replica
    }

    /// A message arrived.
    pub fn heard(&mut self, now_ms: u64) {
        self.heard_ms = self.heard_ms.max(now_ms);
    }

    /// SESSION_TIMEOUT was changed.
    pub fn set_timeout(&mut self, timeout_ms: u64) {
        self.timeout_ms = timeout_ms;
    }

    /// Position that was sent to it, and what it says is hard there.
    pub fn progress(&mut self, sent: Lsn, here: Lsn, now_ms: u64) {
        let outstanding = sent > here;
        if !outstanding {
            self.stuck_since_ms = None;
        } else if here != self.here || self.stuck_since_ms.is_none() {
            self.stuck_since_ms = Some(now_ms);
        }
        self.here = here;
    }

    /// The clock that has run out, if one has.
    pub fn expired(&self, now_ms: u64) -> Option<Clock> {
        let past = |since: u64| now_ms.saturating_sub(since) >= self.timeout_ms;
        if past(self.heard_ms) {
            return Some(Clock::Link);
        }
        let stuck = self.stuck_since_ms.is_some_and(past) && !planted(Bug::NoProgressClock);
        stuck.then_some(Clock::Progress)
    }

    /// A ping is due each third of the timeout.
    pub fn ping_every_ms(&self) -> u64 {
        (self.timeout_ms / 3).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clocks() -> Clocks {
        Clocks::new(ReplicaId::new(1).expect("a replica"), 10_000, 0)
    }

    #[test]
    fn silence_ends_the_link() {
        let mut clocks = clocks();
        assert_eq!(clocks.expired(9_999), None);
        assert_eq!(clocks.expired(10_000), Some(Clock::Link));
        clocks.heard(5_000);
        assert_eq!(clocks.expired(14_999), None);
    }

    /// Scenarios 10 and 11: data or acknowledgements are cut off one way, or the disk hangs; pings go on.
    #[test]
    fn a_peer_that_answers_and_hardens_nothing_is_found_out() {
        let mut clocks = clocks();
        for now in (0..12_000).step_by(1000) {
            clocks.heard(now);
            clocks.progress(Lsn(100 + now), Lsn(50), now);
            let expected = (now >= 10_000).then_some(Clock::Progress);
            assert_eq!(clocks.expired(now), expected, "at {now}");
        }
    }

    #[test]
    fn a_peer_that_moves_or_has_all_is_not_stuck() {
        let mut clocks = clocks();
        for now in (0..60_000).step_by(1000) {
            clocks.heard(now);
            clocks.progress(Lsn(100 + now), Lsn(50 + now), now);
            assert_eq!(clocks.expired(now), None);
        }
        for now in (60_000..90_000).step_by(1000) {
            clocks.heard(now);
            clocks.progress(Lsn(70_000), Lsn(70_000), now);
            assert_eq!(clocks.expired(now), None);
        }
    }
}
