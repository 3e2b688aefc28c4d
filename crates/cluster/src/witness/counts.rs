//! The highest counts of witnesses' records that a node has seen: a record with a lower one was restored from an old copy.
//!
//! Several witnesses have one each. While another witness is made, or waits to be agreed on, the one in office must not be forgotten: it stays in office
//! if that comes to nothing.

/// A cluster that was agreed on has one witness; others are of changes that came to nothing.
const COUNTS_MAX: usize = 8;

/// See the module. In the order in which they were noted last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts(Vec<(u128, u64)>);

impl Counts {
    /// Of these witnesses. `None`: there are too many.
    pub fn of(counts: Vec<(u128, u64)>) -> Option<Counts> {
        (counts.len() <= COUNTS_MAX).then_some(Counts(counts))
    }

    /// All of them, witness and count.
    pub fn all(&self) -> &[(u128, u64)] {
        &self.0
    }

    /// The highest that was seen of this witness; 0: none was.
    pub fn highest(&self, witness: u128) -> u64 {
        let found = self.0.iter().find(|(id, _)| *id == witness);
        found.map_or(0, |(_, n)| *n)
    }

    /// This was seen. `true`: it was not known.
    pub fn note(&mut self, witness: u128, n: u64) -> bool {
        if self.highest(witness) == n {
            return false;
        }
        self.0.retain(|(id, _)| *id != witness);
        if self.0.len() >= COUNTS_MAX {
            self.0.remove(0);
        }
        self.0.push((witness, n));
        true
    }
}
