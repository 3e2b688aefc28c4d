//! sp_sequence_get_range: several values of a sequence, taken at once; and what values of sequences wait for.
//!
//! Theory: the mark behind which a sequence goes on after a crash is written without a wait for the disk. A value that is
//! committed in the same database hardens after it. One that goes to a client or into another database does not: its
//! statement waits for the mark before it commits, or ends, whoever has moved it, and before a row goes to the client, which
//! may be long before that. A text of a trigger (PRINT) has not waited.
//!
//! Invariants: a range is taken whole or not at all, and the next value is the one behind it. No value of a statement that has
//! ended is given again, whenever the server crashes.

use super::Execution;
use super::types::integer_value;
use crate::error::Result;
use crate::host::cancelled;
use crate::instance::OpenDatabase;
use crate::messages;
use daruma_base::{DatabaseId, Lsn};
use daruma_catalog::{ObjectId, ObjectKind, SequenceDef};
use daruma_storage::Database;
use daruma_syntax::ast::ObjectName;
use daruma_value::convert::{ConvertContext, convert};
use daruma_value::{DataType, Value};
use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

/// How long is waited for the other replicas before it is seen whether the client still wants to.
const PATIENCE: Duration = Duration::from_millis(100);

/// Marks that cover values which the running statement has taken, and were not hard then: the last of each database.
#[derive(Default)]
pub(crate) struct UnhardMarks(RefCell<Vec<(Arc<Database>, Lsn)>>);

impl UnhardMarks {
    fn note(&self, database: &Arc<Database>, at: Lsn) {
        let mut marks = self.0.borrow_mut();
        match marks.iter_mut().find(|(d, _)| d.id() == database.id()) {
            Some((_, last)) => *last = at.max(*last),
            None => marks.push((database.clone(), at)),
        }
    }
}

/// What was taken.
pub(crate) struct SequenceRange {
    pub sequence: std::sync::Arc<SequenceDef>,
    pub first: i128,
    pub last: i128,
    /// How often the sequence began anew within the range.
    pub cycles: i128,
}

impl SequenceRange {
    /// A number of the sequence's type as `sql_variant`.
    pub fn variant(&self, number: i128) -> Result<Value> {
        let data_type = self.sequence.data_type;
        let value = integer_value(number, data_type)?;
        let context = ConvertContext::default();
        Ok(convert(
            &value,
            data_type,
            DataType::Variant,
            None,
            &context,
        )?)
    }
}

impl Execution<'_> {
    /// Before a statement commits or ends, and its values leave it: waits for the marks that its commit does not bring to the disk.
    #[inline]
    pub(super) fn harden_marks(&self) -> Result<()> {
        match self.depth.get() > 0 {
            true => Ok(()),
            false => self.harden_noted_marks(false),
        }
    }

    /// The same where the statement around this one has not come to its end, and a commit does not wait for that. `delayed`: the
    /// commit asks not to wait for the disk.
    #[inline]
    pub(super) fn harden_noted_marks(&self, delayed: bool) -> Result<()> {
        let has_none = self.state.unhard_marks.0.borrow().is_empty();
        match has_none {
            true => Ok(()),
            false => self.wait_for_marks(|database| self.state.will_harden(database, delayed)),
        }
    }

    /// The same for a row that goes to the client now: its statement's commit comes later.
    #[inline]
    pub(super) fn harden_marks_of_row(&self) -> Result<()> {
        let has_none = self.state.unhard_marks.0.borrow().is_empty();
        match has_none {
            true => Ok(()),
            false => self.wait_for_marks(|_| false),
        }
    }

    /// Waits for all but those of databases that are waited for otherwise.
    #[cold]
    fn wait_for_marks(&self, is_awaited: impl Fn(DatabaseId) -> bool) -> Result<()> {
        for (database, at) in self.state.unhard_marks.0.take() {
            if is_awaited(database.id()) {
                continue;
            }
            while !database.harden_within(at, PATIENCE)? {
                cancelled(&self.state.entry.cancel)?;
            }
        }
        Ok(())
    }

    /// The value that `next` computes from the last one of a sequence. Before anybody hears of it the statement comes to
    /// [`Execution::harden_marks`].
    pub(super) fn advance_sequence(
        &self,
        open: &OpenDatabase,
        id: ObjectId,
        sequence: &SequenceDef,
        next: impl FnMut(Option<i128>) -> Result<i128>,
    ) -> Result<i128> {
        let cancel = &self.state.entry.cancel;
        let (value, mark) = open.catalog.next_in_sequence(id, sequence, cancel, next)?;
        if let Some(at) = mark
            && !open.storage.is_hard(at)
        {
            self.state.unhard_marks.note(&open.storage, at);
        }
        Ok(value)
    }

    /// Takes `size` values; errors 208, 11726, 229, and 11732 where there are not so many any more.
    pub(crate) fn take_sequence_range(
        &self,
        name: &ObjectName,
        size: i64,
    ) -> Result<SequenceRange> {
        let (database, object) = self.retry_on_change(|| self.sequence_to_use(name))?;
        let ObjectKind::Sequence(sequence) = &object.kind else {
            return Err(messages::error(11726, &[&name.dotted()]));
        };
        if !self.is_unlimited() && !self.is_chained(database, &object)? {
            self.check_object(database, &object, "UPDATE")?;
        }
        let open = self.instance().open_database(database)?;
        let mut taken = None;
        self.advance_sequence(&open, object.id, sequence, |before| {
            let first = super::execution::next_of(sequence, before, &object.name)?;
            let range = range_from(sequence, first, i128::from(size));
            let (last, cycles) = range.ok_or_else(|| messages::error(11732, &[&object.name]))?;
            taken = Some((first, last, cycles));
            Ok(last)
        })?;
        // The procedure is no statement that would do so at its end.
        self.harden_marks()?;
        let (first, last, cycles) = taken.ok_or_else(|| messages::error(208, &[&name.dotted()]))?;
        Ok(SequenceRange {
            sequence: sequence.clone(),
            first,
            last,
            cycles,
        })
    }
}

/// The last of `size` values from `first` on, and how often the sequence begins anew before it; `None` where it ends sooner.
fn range_from(sequence: &SequenceDef, first: i128, size: i128) -> Option<(i128, i128)> {
    let step = sequence.increment.checked_abs()?;
    let (begin, room) = match sequence.increment > 0 {
        true => (sequence.minimum, sequence.maximum.checked_sub(first)?),
        false => (sequence.maximum, first.checked_sub(sequence.minimum)?),
    };
    let left = room.checked_div(step)? + 1;
    if size <= left {
        return Some((first + (size - 1) * sequence.increment, 0));
    }
    if !sequence.cycle {
        return None;
    }
    let whole = sequence.maximum.checked_sub(sequence.minimum)? / step + 1;
    let behind = size - left - 1;
    Some((
        begin + behind % whole * sequence.increment,
        1 + behind / whole,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sequence(increment: i128, cycle: bool) -> SequenceDef {
        SequenceDef {
            data_type: DataType::Int,
            start: 1,
            increment,
            minimum: 1,
            maximum: 10,
            cycle,
            cache: None,
        }
    }

    /// By taking one value after the other.
    fn slowly(sequence: &SequenceDef, first: i128, size: i128) -> (i128, i128) {
        let (mut at, mut cycles) = (first, 0);
        for _ in 1..size {
            let next = at + sequence.increment;
            at = match (sequence.minimum..=sequence.maximum).contains(&next) {
                true => next,
                false => {
                    cycles += 1;
                    match sequence.increment > 0 {
                        true => sequence.minimum,
                        false => sequence.maximum,
                    }
                }
            };
        }
        (at, cycles)
    }

    #[test]
    fn ranges_end_where_single_values_would() {
        for increment in [1, 3, 9, -1, -4] {
            for first in 1..=10 {
                for size in 1..50 {
                    let sequence = sequence(increment, true);
                    assert_eq!(
                        range_from(&sequence, first, size),
                        Some(slowly(&sequence, first, size)),
                        "{increment} {first} {size}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_sequence_that_does_not_cycle_ends() {
        assert_eq!(range_from(&sequence(1, false), 4, 7), Some((10, 0)));
        assert_eq!(range_from(&sequence(1, false), 4, 8), None);
        assert_eq!(range_from(&sequence(-3, false), 10, 4), Some((1, 0)));
        assert_eq!(range_from(&sequence(-3, false), 10, i128::MAX), None);
    }
}
