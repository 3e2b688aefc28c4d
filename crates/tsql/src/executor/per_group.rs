//! An accumulator for each group, and what they keep of the rows: in memory, or on disk beyond the grant.
//!
//! Theory: DISTINCT keeps the values that it has seen, STRING_AGG its pieces. When they outgrow the grant, all of them go to a
//! [`Sorter`], and so do those that come later. At the end they come back group after group, equal values side by side and pieces in
//! their order, so that each group needs nothing but its result.
//!
//! Invariants: groups are finished in the order of their numbers, each once; after the first, no row is added before `keep_only`.

use super::accumulate::{Accumulator, is_distinct};
use super::batch::RowBatch;
use super::context::Ctx;
use super::plan::{AggregateCall, SortColumn};
use super::sorter::Sorter;
use crate::binder::tree::AggregateFunction as F;
use crate::error::Result;
use daruma_value::compare::write_key;
use daruma_value::{CollationId, Value};

/// Less than this stays in memory, however small the grant.
const KEPT_MIN: usize = 64 << 10;

/// Accumulators by the numbers of their groups.
#[derive(Default)]
pub struct PerGroup {
    all: Vec<Accumulator>,
    /// Memory of keys and pieces, taken from the grant.
    kept_bytes: usize,
    aside: Option<Box<Aside>>,
    /// Groups that were forgotten: the first one here has this number in `aside`.
    before: i64,
}

impl PerGroup {
    /// Groups that have these accumulators already.
    pub fn of(all: Vec<Accumulator>) -> PerGroup {
        PerGroup {
            all,
            ..PerGroup::default()
        }
    }

    /// Makes room for `groups` groups.
    pub fn grow(&mut self, groups: usize, call: &AggregateCall) {
        self.all.resize_with(groups, || Accumulator::new(call));
    }

    /// Forgets everything.
    pub fn clear(&mut self, cx: &Ctx<'_>) {
        cx.release(std::mem::take(&mut self.kept_bytes));
        if let Some(mut aside) = self.aside.take() {
            aside.sorter.clear(cx);
        }
        self.all.clear();
        self.before = 0;
    }

    /// Forgets all groups but one, which becomes the first. It is the last, and those before it were finished.
    pub fn keep_only(&mut self, group: usize, call: &AggregateCall, cx: &Ctx<'_>) -> Result<()> {
        if group >= self.all.len() {
            return Ok(());
        }
        self.all.swap(0, group);
        self.all.truncate(1);
        self.before += i64::try_from(group).unwrap_or(i64::MAX);
        let kept = self.all.first().map_or(0, Accumulator::kept_bytes);
        cx.release(self.kept_bytes.saturating_sub(kept));
        self.kept_bytes = kept;
        self.take_back(call, cx)
    }

    /// Takes into memory what is left of the last group; that is less than a batch.
    fn take_back(&mut self, call: &AggregateCall, cx: &Ctx<'_>) -> Result<()> {
        let (Some(mut aside), Some(last)) = (self.aside.take(), self.all.first_mut()) else {
            return Ok(());
        };
        aside.start(cx)?;
        let mut kept = 0;
        while let Some(row) = aside.peek(cx)? {
            kept += match row {
                [_, Value::Bytes(key), Value::Bit(is_in), value] if is_distinct(call) => {
                    let new = last.see_again(key.strip_suffix(END).unwrap_or(key));
                    if !*is_in && new.is_some() {
                        last.take(call, value)?;
                    }
                    new.unwrap_or(0)
                }
                [_, order @ .., Value::Str(piece)] => {
                    last.keep_piece(order.to_vec(), piece.clone())
                }
                _ => 0,
            };
            aside.pass();
        }
        self.kept_bytes += kept;
        cx.reserve(kept);
        aside.sorter.clear(cx);
        Ok(())
    }

    /// Takes a row of a group in. `value` is `None` for COUNT(*).
    pub fn add(
        &mut self,
        group: usize,
        call: &AggregateCall,
        value: Option<&Value>,
        row: &[Value],
        cx: &Ctx<'_>,
    ) -> Result<()> {
        let Some(accumulator) = self.all.get_mut(group) else {
            return Ok(());
        };
        let number = number(self.before, group);
        match (&mut self.aside, value) {
            (Some(aside), Some(value)) if !value.is_null() => {
                return aside.add(number, accumulator, call, value, row, cx);
            }
            _ => {}
        }
        let kept = accumulator.add(call, value, row, cx)?;
        if kept == 0 {
            return Ok(());
        }
        self.kept_bytes += kept;
        // An extreme stays with its group; that its memory is counted keeps further groups away.
        let can_go = is_distinct(call) || call.function == F::StringAgg;
        if !cx.reserve(kept) && can_go && self.kept_bytes >= KEPT_MIN {
            self.set_aside(call, cx)?;
        }
        Ok(())
    }

    /// Everything that is kept goes to disk, in time.
    fn set_aside(&mut self, call: &AggregateCall, cx: &Ctx<'_>) -> Result<()> {
        let mut aside = Box::new(Aside::new(call));
        for (group, accumulator) in self.all.iter_mut().enumerate() {
            let number = Value::BigInt(number(self.before, group));
            for key in accumulator.give_up_keys() {
                let row = [
                    number.clone(),
                    Value::Bytes(ended(key)),
                    Value::Bit(true),
                    Value::Null,
                ];
                aside.sorter.add(&row, cx)?;
            }
            for (order, piece) in accumulator.give_up_pieces() {
                aside.add_piece(number.clone(), order, Value::Str(piece), cx)?;
            }
        }
        cx.release(std::mem::take(&mut self.kept_bytes));
        self.aside = Some(aside);
        Ok(())
    }

    /// The result of a group.
    pub fn finish(&mut self, group: usize, call: &AggregateCall, cx: &Ctx<'_>) -> Result<Value> {
        let Some(accumulator) = self.all.get_mut(group) else {
            return Ok(Value::Null);
        };
        if let Some(aside) = &mut self.aside {
            aside.start(cx)?;
            aside.give(number(self.before, group), accumulator, call, cx)?;
            let result = accumulator.finish(call)?;
            // The text is the reader's now.
            cx.release(accumulator.kept_bytes());
            return Ok(result);
        }
        let _promise = cx.promise(accumulator.unjoined_bytes())?;
        accumulator.finish(call)
    }
}

/// Behind each key: sorted, binary values that differ by zeros at their ends are equal.
const END: &[u8] = &[1];

fn ended(mut key: Vec<u8>) -> Vec<u8> {
    key.extend_from_slice(END);
    key
}

fn number(before: i64, group: usize) -> i64 {
    before.saturating_add(i64::try_from(group).unwrap_or(i64::MAX))
}

/// What found no room. A row of DISTINCT: group, key, whether the value is in already, value. Of STRING_AGG: group, what it is
/// ordered by, piece.
struct Aside {
    sorter: Sorter,
    batch: RowBatch,
    at: usize,
    started: bool,
}

impl Aside {
    fn new(call: &AggregateCall) -> Aside {
        let column = |position, descending, collation| SortColumn {
            position,
            descending,
            collation,
        };
        let mut keys = vec![column(0, false, CollationId::BIN2)];
        let width = match is_distinct(call) {
            true => {
                keys.push(column(1, false, CollationId::BIN2));
                4
            }
            false => {
                let order = call.order.iter().zip(1..);
                keys.extend(order.map(|((_, down, collation), at)| column(at, *down, *collation)));
                call.order.len() + 2
            }
        };
        Aside {
            sorter: Sorter::new(keys, width),
            batch: RowBatch::new(),
            at: 0,
            started: false,
        }
    }

    fn add(
        &mut self,
        number: i64,
        accumulator: &mut Accumulator,
        call: &AggregateCall,
        value: &Value,
        row: &[Value],
        cx: &Ctx<'_>,
    ) -> Result<()> {
        let number = Value::BigInt(number);
        if call.function == F::StringAgg {
            return match accumulator.piece(call, value, row, cx)? {
                Some((order, piece)) => self.add_piece(number, order, Value::Str(piece), cx),
                None => Ok(()),
            };
        }
        let mut key = Vec::with_capacity(32);
        write_key(value, call.collation, &mut key);
        let key = Value::Bytes(ended(key));
        let row = [number, key, Value::Bit(false), value.clone()];
        self.sorter.add(&row, cx).map(|_| ())
    }

    fn add_piece(
        &mut self,
        number: Value,
        order: Vec<Value>,
        piece: Value,
        cx: &Ctx<'_>,
    ) -> Result<()> {
        let row: Vec<Value> = [number].into_iter().chain(order).chain([piece]).collect();
        self.sorter.add(&row, cx).map(|_| ())
    }

    /// All rows were added: they come from the first group on.
    fn start(&mut self, cx: &Ctx<'_>) -> Result<()> {
        if !self.started {
            self.started = true;
            self.sorter.finish(None, cx)?;
        }
        Ok(())
    }

    /// The next row, which stays the next until `pass`.
    fn peek(&mut self, cx: &Ctx<'_>) -> Result<Option<&[Value]>> {
        if self.at >= self.batch.len() {
            self.at = 0;
            self.batch.reset(self.sorter.width());
            self.sorter.fill(&mut self.batch, cx)?;
        }
        Ok((self.at < self.batch.len()).then(|| self.batch.row(self.at)))
    }

    fn pass(&mut self) {
        self.at += 1;
    }

    /// Hands a group's rows to its accumulator.
    fn give(
        &mut self,
        number: i64,
        accumulator: &mut Accumulator,
        call: &AggregateCall,
        cx: &Ctx<'_>,
    ) -> Result<()> {
        let mut last: Option<Vec<u8>> = None;
        while let Some(row) = self.peek(cx)? {
            match row {
                [Value::BigInt(group), ..] if *group > number => break,
                [_, Value::Bytes(key), Value::Bit(is_in), value] if is_distinct(call) => {
                    // Of equal keys one that is in comes first: it was added first.
                    let is_first = last.as_ref() != Some(key);
                    if is_first && !*is_in {
                        accumulator.take(call, value)?;
                    }
                    if is_first {
                        last = Some(key.clone());
                    }
                }
                [.., Value::Str(piece)] => accumulator.join_piece(piece, cx)?,
                _ => {}
            }
            self.pass();
        }
        Ok(())
    }
}
