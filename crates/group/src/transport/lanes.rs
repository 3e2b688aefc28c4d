//! What leaves next: control before blocks, databases in turn.
//!
//! Theory: deficit round robin (Shreedhar and Varghese, 1996). Each database that has something may send 64 KiB in its turn; what it
//! sends beyond that is taken off its next turn. The length of a block is known only when it is there, so a turn ends when its bytes are
//! used up, not before. Blocks wait in their feeds and not here, so a lane costs no memory.

use crate::wire::Message;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Bytes that a database may send in its turn.
const TURN_BYTES: i64 = 64 << 10;
/// Control messages that may wait; a peer that lets more gather takes nothing.
const CONTROL_MAX: usize = 4096;

/// What a database has to send.
pub enum Pull {
    /// This.
    Send(Message),
    /// Nothing yet; in so long there is something, if nothing else comes before.
    Later(Duration),
    /// Nothing, until the link is woken.
    Nothing,
}

/// A database that is shipped over a link.
pub trait Source: Send + Sync {
    /// The next message. Called by the link's writer, which takes it before anything else of this link: it does not wait for others,
    /// and may take the latch of a log.
    fn pull(&self) -> Pull;
}

struct Lane {
    source: Arc<dyn Source>,
    left: i64,
}

/// Control messages that wait to leave.
#[derive(Default)]
pub struct Control(VecDeque<Message>);

impl Control {
    /// Adds one. `false`: too many wait.
    pub fn push(&mut self, message: Message) -> bool {
        self.0.push_back(message);
        self.0.len() <= CONTROL_MAX
    }

    /// All that wait.
    pub fn take(&mut self) -> VecDeque<Message> {
        std::mem::take(&mut self.0)
    }
}

/// The lanes of the databases on one link.
#[derive(Default)]
pub struct Lanes {
    lanes: Vec<Lane>,
    turn: usize,
    has_ended: bool,
}

impl Lanes {
    /// Adds a database, unless the link has ended.
    pub fn add(&mut self, source: Arc<dyn Source>) {
        if self.has_ended {
            return;
        }
        self.lanes.push(Lane {
            source,
            left: TURN_BYTES,
        });
    }

    /// The link has ended: its databases, each of which may hold log and the link itself, are to be let go of, outside any latch.
    #[must_use]
    pub fn end(&mut self) -> Vec<Arc<dyn Source>> {
        self.has_ended = true;
        let lanes = std::mem::take(&mut self.lanes);
        lanes.into_iter().map(|lane| lane.source).collect()
    }

    /// Takes a database out.
    pub fn remove(&mut self, source: &Arc<dyn Source>) {
        self.lanes.retain(|lane| !Arc::ptr_eq(&lane.source, source));
        self.turn = 0;
    }

    /// The next message of the databases. [`Lanes::used`] says afterwards how long it was.
    pub fn pull(&mut self) -> Pull {
        let mut later: Option<Duration> = None;
        for _ in 0..self.lanes.len() {
            self.turn %= self.lanes.len();
            let Some(lane) = self.lanes.get_mut(self.turn) else {
                break;
            };
            if lane.left > 0 {
                match lane.source.pull() {
                    Pull::Send(message) => return Pull::Send(message),
                    Pull::Later(wait) => later = Some(later.map_or(wait, |l| l.min(wait))),
                    Pull::Nothing => {}
                }
                // Bytes that were not used are not kept for later.
                lane.left = TURN_BYTES;
            } else {
                lane.left += TURN_BYTES;
            }
            self.turn += 1;
        }
        match later {
            Some(wait) => Pull::Later(wait),
            None if self.lanes.iter().any(|l| l.left <= 0) => Pull::Later(Duration::ZERO),
            None => Pull::Nothing,
        }
    }

    /// The message that was pulled last took so many bytes.
    pub fn used(&mut self, bytes: usize) {
        if let Some(lane) = self.lanes.get_mut(self.turn) {
            lane.left -= bytes as i64;
            if lane.left <= 0 {
                lane.left += TURN_BYTES;
                self.turn += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;

    /// Messages of one database; its name is what they grant.
    struct Bulk {
        name: u32,
        left: Mutex<usize>,
    }

    impl Source for Bulk {
        fn pull(&self) -> Pull {
            let mut left = self.left.lock();
            match left.checked_sub(1) {
                Some(less) => {
                    *left = less;
                    Pull::Send(Message::Grant { bytes: self.name })
                }
                None => Pull::Nothing,
            }
        }
    }

    fn bulk(name: u32, messages: usize) -> Arc<dyn Source> {
        Arc::new(Bulk {
            name,
            left: Mutex::new(messages),
        })
    }

    fn pulled(lanes: &mut Lanes) -> Option<u32> {
        loop {
            match lanes.pull() {
                Pull::Send(Message::Grant { bytes }) => return Some(bytes),
                Pull::Later(_) => {}
                _ => return None,
            }
        }
    }

    #[test]
    fn a_small_commit_waits_for_one_turn_of_a_bulk_load() {
        let mut lanes = Lanes::default();
        lanes.add(bulk(1, 1000));
        lanes.add(bulk(2, 3));
        let mut before_others = 0;
        let mut small = Vec::new();
        for sent in 0.. {
            let Some(name) = pulled(&mut lanes) else {
                break;
            };
            lanes.used(if name == 1 { 60 << 10 } else { 300 });
            if name == 2 {
                small.push(sent);
                before_others = sent;
            }
        }
        assert_eq!(
            small,
            [2, 3, 4],
            "after one turn: two blocks, the second of which begins in it"
        );
        assert!(before_others < 5);
    }

    #[test]
    fn a_link_that_has_ended_holds_nothing() {
        let mut lanes = Lanes::default();
        let (early, late) = (bulk(1, 3), bulk(2, 3));
        lanes.add(early.clone());
        drop(lanes.end());
        lanes.add(late.clone());
        assert_eq!(
            (Arc::strong_count(&early), Arc::strong_count(&late)),
            (1, 1)
        );
        assert_eq!(pulled(&mut lanes), None);
    }

    #[test]
    fn databases_share_by_bytes() {
        let mut lanes = Lanes::default();
        lanes.add(bulk(1, 10_000));
        lanes.add(bulk(2, 10_000));
        let mut bytes = [0usize; 2];
        for _ in 0..2000 {
            let name = pulled(&mut lanes).expect("there is more");
            let length = if name == 1 { 60 << 10 } else { 7 << 10 };
            lanes.used(length);
            bytes[name as usize - 1] += length;
        }
        let share = bytes[0] as f64 / (bytes[0] + bytes[1]) as f64;
        assert!((0.48..0.52).contains(&share), "{share}");
    }

    #[test]
    fn control_is_bounded() {
        let mut control = Control::default();
        assert!((0..CONTROL_MAX).all(|_| control.push(Message::Grant { bytes: 1 })));
        assert!(!control.push(Message::Grant { bytes: 1 }));
        assert_eq!(control.take().len(), CONTROL_MAX + 1);
        assert!(control.take().is_empty());
    }
}
