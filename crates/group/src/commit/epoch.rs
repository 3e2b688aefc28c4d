//! Epochs: which primary made which part of a log.

use super::planted::{Bug, planted};
use daruma_base::Lsn;

/// Epochs that a history keeps; older ones belong to log that nobody has any more.
pub const HISTORY_MAX: usize = 128;

/// Name of an epoch. Two that share a number and not the id are different epochs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct EpochId {
    /// Orders epochs; two nodes that were promoted apart may choose the same.
    pub number: u64,
    /// Drawn at random by the node that leads it.
    pub id: u128,
}

impl EpochId {
    /// Do both names mean the same epoch?
    pub fn is_same(self, other: EpochId) -> bool {
        match planted(Bug::CompareNumbers) {
            true => self.number == other.number,
            false => self == other,
        }
    }
}

/// An epoch and where in the log it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Epoch {
    /// Its name.
    pub name: EpochId,
    /// Position of its first record.
    pub start: Lsn,
}

/// Where two logs part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fork {
    /// They are the same below this position.
    At(Lsn),
    /// They share no epoch: nothing of the one log says anything about the other.
    Nothing,
}

/// The epochs of a log, in the order of their starts.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct History(Vec<Epoch>);

impl History {
    /// The history with these epochs. `None`: starts or numbers do not grow, or there are too many.
    pub fn new(epochs: Vec<Epoch>) -> Option<History> {
        let grows = |pair: &[Epoch]| match pair {
            [a, b] => a.start <= b.start && a.name.number < b.name.number,
            _ => true,
        };
        let good = epochs.len() <= HISTORY_MAX && epochs.windows(2).all(grows);
        good.then_some(History(epochs))
    }

    /// Every epoch, the oldest first.
    pub fn epochs(&self) -> &[Epoch] {
        &self.0
    }

    /// The epoch that the end of the log belongs to.
    pub fn last(&self) -> Option<Epoch> {
        self.0.last().copied()
    }

    /// The history of a log that goes on with `epoch`. The oldest epoch goes when there are too many.
    #[must_use]
    pub fn followed_by(&self, epoch: Epoch) -> History {
        let excess = (self.0.len() + 1).saturating_sub(HISTORY_MAX);
        let mut epochs = self.0[excess..].to_vec();
        epochs.push(epoch);
        History(epochs)
    }

    /// The history of the log up to `end`: epochs of which nothing lies below it are left out.
    #[must_use]
    pub fn up_to(&self, end: Lsn) -> History {
        History(self.0.iter().filter(|e| e.start < end).copied().collect())
    }

    /// Does the log with this history hold position `at` of the epoch of that name?
    pub fn holds(&self, name: EpochId, at: Lsn) -> bool {
        let found = self.0.iter().position(|e| e.name.is_same(name));
        found.is_some_and(|i| self.0[i].start <= at && at <= self.end_of(i, Lsn::MAX))
    }

    /// Where a log of this history that ends at `end` parts from one of history `other`: the smaller end of the last epoch that
    /// both have. An epoch of `other` that goes on is as long as it needs to be, since its log only grows.
    pub fn fork(&self, end: Lsn, other: &History) -> Fork {
        for (i, epoch) in self.0.iter().enumerate().rev() {
            let there = other.0.iter().position(|e| e.name.is_same(epoch.name));
            if let Some(there) = there {
                let fork = self.end_of(i, end).min(other.end_of(there, Lsn::MAX));
                return Fork::At(fork.min(end));
            }
        }
        match end.is_none() {
            true => Fork::At(Lsn::NONE),
            false => Fork::Nothing,
        }
    }

    fn end_of(&self, index: usize, end: Lsn) -> Lsn {
        self.0.get(index + 1).map_or(end, |next| next.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epoch(number: u64, id: u128, start: u64) -> Epoch {
        let name = EpochId { number, id };
        Epoch {
            name,
            start: Lsn(start),
        }
    }

    fn history(epochs: &[Epoch]) -> History {
        History::new(epochs.to_vec()).expect("a history")
    }

    #[test]
    fn logs_part_at_the_smaller_end_of_the_last_common_epoch() {
        let old = history(&[epoch(1, 10, 0), epoch(2, 20, 100)]);
        let new = history(&[epoch(1, 10, 0), epoch(2, 20, 100), epoch(3, 30, 150)]);
        assert_eq!(old.fork(Lsn(180), &new), Fork::At(Lsn(150)));
        assert_eq!(old.fork(Lsn(120), &new), Fork::At(Lsn(120)));
        assert_eq!(new.fork(Lsn(200), &old), Fork::At(Lsn(150)));
        assert_eq!(old.fork(Lsn(180), &old), Fork::At(Lsn(180)));
    }

    #[test]
    fn equal_numbers_with_other_ids_are_other_epochs() {
        let here = history(&[epoch(1, 10, 0), epoch(2, 20, 100)]);
        let there = history(&[epoch(1, 10, 0), epoch(2, 21, 90)]);
        assert_eq!(here.fork(Lsn(130), &there), Fork::At(Lsn(90)));
        let stranger = history(&[epoch(1, 11, 0)]);
        assert_eq!(here.fork(Lsn(130), &stranger), Fork::Nothing);
        assert!(!here.holds(EpochId { number: 2, id: 21 }, Lsn(110)));
        assert!(here.holds(EpochId { number: 1, id: 10 }, Lsn(100)));
        assert!(!here.holds(EpochId { number: 1, id: 10 }, Lsn(101)));
    }

    #[test]
    fn an_empty_log_parts_from_nobody() {
        let there = history(&[epoch(1, 10, 0)]);
        assert_eq!(
            History::default().fork(Lsn::NONE, &there),
            Fork::At(Lsn::NONE)
        );
    }

    #[test]
    fn a_history_that_does_not_grow_is_refused() {
        assert!(History::new(vec![epoch(2, 1, 0), epoch(1, 2, 5)]).is_none());
        assert!(History::new(vec![epoch(1, 1, 5), epoch(2, 2, 4)]).is_none());
        let many = (0..=HISTORY_MAX as u64).map(|n| epoch(n, 1, n)).collect();
        assert!(History::new(many).is_none());
    }
}
