//! Epochs: who went on with the log where.
//!
//! Theory: whoever opens a database for writing, after a crash, a restore or as the new primary of a group, begins an epoch where the
//! log then ends, and gives it a number and a random id. Copies of one database that went different ways have different ids from
//! there on, whatever their numbers and positions say: the place where they parted is the smaller end of the last epoch that
//! both know. The incarnation in blocks stays what it is, a filter against what a crash has left behind the end.
//!
//! The first record of an epoch says that it begins; the boot page has the history, and so has every backup.
//!
//! Invariants
//! 1. An epoch begins behind everything that is in the log: one of which nothing came into the log is forgotten.
//! 2. The history is in the order of positions, and bounded: the oldest epochs are forgotten first. What it does not know it says
//!    so.

use crate::bytes::*;
use crate::log::FIRST_LSN;
use daruma_base::{Lsn, Random};

/// Epochs that are remembered.
pub const EPOCHS_MAX: usize = 128;
/// Number, id, start.
const ENTRY_BYTES: usize = 32;
/// Bytes of a history of the greatest length.
pub const HISTORY_BYTES: usize = 8 + EPOCHS_MAX * ENTRY_BYTES;

/// A stretch of the log that one node made in one go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Epoch {
    /// Grows along a history.
    pub number: u64,
    /// Random: tells it from others of its number.
    pub id: u128,
    /// Position of its first block.
    pub start: Lsn,
}

/// An id that no other epoch has.
pub fn new_id(random: &dyn Random) -> u128 {
    let mut bytes = [0; 16];
    random.fill(&mut bytes);
    u128::from_le_bytes(bytes)
}

/// The epochs of a log, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Epochs(Vec<Epoch>);

impl Epochs {
    /// The history of a new database.
    pub fn new(random: &dyn Random) -> Epochs {
        Epochs(vec![Epoch {
            number: 1,
            id: new_id(random),
            start: Lsn(FIRST_LSN),
        }])
    }

    /// A history as a backup or a peer tells it; `None` for one that none can be.
    pub fn from_list(list: Vec<Epoch>) -> Option<Epochs> {
        let is_history = list
            .windows(2)
            .all(|w| w[0].number < w[1].number && w[0].start < w[1].start);
        (is_history && list.len() <= EPOCHS_MAX).then_some(Epochs(list))
    }

    /// Oldest first.
    pub fn list(&self) -> &[Epoch] {
        &self.0
    }

    /// The present one.
    pub fn last(&self) -> Option<Epoch> {
        self.0.last().copied()
    }

    /// Another one begins.
    pub fn begin(&mut self, epoch: Epoch) {
        self.cut(epoch.start);
        self.0.push(epoch);
        let excess = self.0.len().saturating_sub(EPOCHS_MAX);
        self.0.drain(..excess);
    }

    /// The log ends at `at`: epochs of which nothing is in it are forgotten.
    pub fn cut(&mut self, at: Lsn) {
        self.0.retain(|epoch| epoch.start < at);
    }

    /// The epoch in which the log just before `end` was made, if that is remembered.
    pub fn before(&self, end: Lsn) -> Option<Epoch> {
        self.0.iter().rev().find(|e| e.start < end).copied()
    }

    /// Where two logs part, which end at `end` and `other_end`: up to there they have the same bytes. `None` when no epoch is
    /// remembered on both sides.
    pub fn fork(&self, end: Lsn, other: &Epochs, other_end: Lsn) -> Option<Lsn> {
        let same = |epoch: &Epoch| other.0.iter().position(|o| o.id == epoch.id);
        let (at, there) = (0..self.0.len())
            .rev()
            .find_map(|at| Some((at, same(&self.0[at])?)))?;
        let end_of = |epochs: &Epochs, at: usize, end: Lsn| {
            epochs.0.get(at + 1).map_or(end, |next| next.start)
        };
        Some(end_of(self, at, end).min(end_of(other, there, other_end)))
    }

    /// Writes the history, `HISTORY_BYTES` at most.
    pub fn write(&self, out: &mut [u8]) {
        put_u64(out, 0, self.0.len() as u64);
        for (epoch, entry) in self.0.iter().zip(out[8..].chunks_exact_mut(ENTRY_BYTES)) {
            put_u64(entry, 0, epoch.number);
            entry[8..24].copy_from_slice(&epoch.id.to_le_bytes());
            put_u64(entry, 24, epoch.start.0);
        }
    }

    /// Reads what `write` wrote in a page whose checksum is right.
    pub fn read(bytes: &[u8]) -> Epochs {
        let count = usize::try_from(get_u64(bytes, 0)).unwrap_or(0);
        let entries = bytes[8..].chunks_exact(ENTRY_BYTES);
        let epoch = |entry: &[u8]| {
            let mut id = [0; 16];
            id.copy_from_slice(&entry[8..24]);
            Epoch {
                number: get_u64(entry, 0),
                id: u128::from_le_bytes(id),
                start: Lsn(get_u64(entry, 24)),
            }
        };
        Epochs(entries.take(count.min(EPOCHS_MAX)).map(epoch).collect())
    }
}

/// What the first record of an epoch says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochBegin {
    /// Its start is where it left the one before.
    pub epoch: Epoch,
    /// Id of the one before; zeros when that is not known.
    pub parent: u128,
}

impl EpochBegin {
    /// Appends its fields.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.put_u64(self.epoch.number);
        out.extend_from_slice(&self.epoch.id.to_le_bytes());
        out.extend_from_slice(&self.parent.to_le_bytes());
        out.put_u64(self.epoch.start.0);
    }

    /// `None` for damage.
    pub fn read(r: &mut Reader<'_>) -> Option<EpochBegin> {
        let number = r.u64()?;
        let id = read_id(r)?;
        let parent = read_id(r)?;
        let start = Lsn(r.u64()?);
        let epoch = Epoch { number, id, start };
        Some(EpochBegin { epoch, parent })
    }
}

fn read_id(r: &mut Reader<'_>) -> Option<u128> {
    let (low, high) = (r.u64()?, r.u64()?);
    Some(u128::from(low) | u128::from(high) << 64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epoch(number: u64, id: u128, start: u64) -> Epoch {
        let start = Lsn(start);
        Epoch { number, id, start }
    }

    fn history(epochs: &[Epoch]) -> Epochs {
        Epochs::from_list(epochs.to_vec()).expect("a history")
    }

    #[test]
    fn histories_read_back_and_stay_bounded() {
        let mut epochs = Epochs::default();
        for n in 1..=300 {
            epochs.begin(epoch(n, u128::from(n) << 70, n * 4_096));
            let mut bytes = vec![0; HISTORY_BYTES];
            epochs.write(&mut bytes);
            assert_eq!(Epochs::read(&bytes), epochs);
        }
        assert_eq!(epochs.list().len(), EPOCHS_MAX);
        assert_eq!(epochs.last().map(|e| e.number), Some(300));
        assert_eq!(epochs.before(Lsn(100 * 4_096)), None);
        assert_eq!(
            epochs.before(Lsn(299 * 4_096 + 1)).map(|e| e.number),
            Some(299)
        );
    }

    #[test]
    fn the_fork_is_the_smaller_end_of_the_last_common_epoch_by_id() {
        let (a, b, c) = (epoch(1, 1, 4_096), epoch(2, 2, 8_192), epoch(3, 3, 20_480));
        let ours = history(&[a, b, c]);
        let fork = |other: &[Epoch], end: u64| ours.fork(Lsn(40_960), &history(other), Lsn(end));
        assert_eq!(fork(&[a, b, c], 36_864), Some(Lsn(36_864)));
        assert_eq!(fork(&[a, b, c], 99_999), Some(Lsn(40_960)));
        // It stayed behind within the second, then went on with a third of its own: numbers say nothing.
        assert_eq!(
            fork(&[a, b, epoch(3, 9, 12_288)], 90_112),
            Some(Lsn(12_288))
        );
        assert_eq!(
            fork(&[a, b, epoch(3, 9, 24_576)], 90_112),
            Some(Lsn(20_480))
        );
        assert_eq!(fork(&[a, epoch(2, 8, 8_192)], 90_112), Some(Lsn(8_192)));
        assert_eq!(fork(&[epoch(1, 7, 4_096)], 90_112), None);
    }

    #[test]
    fn an_epoch_without_log_is_forgotten() {
        let mut epochs = history(&[epoch(1, 1, 4_096), epoch(2, 2, 8_192)]);
        epochs.begin(epoch(2, 5, 8_192));
        assert_eq!(epochs, history(&[epoch(1, 1, 4_096), epoch(2, 5, 8_192)]));
        epochs.cut(Lsn(8_193));
        assert_eq!(epochs.list().len(), 2);
        epochs.cut(Lsn(8_192));
        assert_eq!(epochs.last(), Some(epoch(1, 1, 4_096)));
    }

    #[test]
    fn no_history_goes_back() {
        let bad = [
            vec![epoch(2, 1, 4_096), epoch(2, 2, 8_192)],
            vec![epoch(1, 1, 8_192), epoch(2, 2, 8_192)],
            (1..200)
                .map(|n| epoch(n, u128::from(n), n * 4_096))
                .collect(),
        ];
        assert!(
            bad.into_iter()
                .all(|list| Epochs::from_list(list).is_none())
        );
    }
}
