//! Aggregate functions over columns: for each call, the accumulators of all groups lying together.
//!
//! Theory: counts, exact and approximate sums and the extremes of numbers are kept as numbers in arrays by group, and a
//! batch is one loop over a column. Everything else (DISTINCT, text, spread) keeps an accumulator for each group and
//! takes value after value (`per_group`).

use super::accumulate::{Accumulator, Sum, exact_units};
use super::columns::ColumnBatch;
use super::context::Ctx;
use super::per_group::PerGroup;
use super::plan::AggregateCall;
use super::vector;
use crate::binder::tree::AggregateFunction as F;
use crate::error::Result;
use daruma_value::column::{Column, Data, Number};
use daruma_value::{DataType, Value, ValueError};

/// Which group each row of a batch belongs to.
#[derive(Clone, Copy)]
pub enum Places<'a> {
    /// All rows to one group.
    One(usize),
    Each(&'a [u32]),
}

impl Places<'_> {
    #[inline]
    fn of(&self, row: usize) -> usize {
        match self {
            Places::One(group) => *group,
            Places::Each(groups) => groups.get(row).map_or(usize::MAX, |g| *g as usize),
        }
    }
}

/// The states of one aggregate in all groups, side by side.
pub enum Tally {
    Count(Vec<i64>),
    Exact {
        sums: Vec<i128>,
        counts: Vec<i64>,
        scale: u8,
    },
    Float {
        sums: Vec<f64>,
        counts: Vec<i64>,
    },
    /// MIN or MAX of numbers that lie as 64-bit integers; the type is known with the first value.
    Extreme {
        best: Vec<Option<i64>>,
        data_type: Option<DataType>,
        largest: bool,
    },
    Each(PerGroup),
}

impl Tally {
    /// Without a group.
    pub fn new(call: &AggregateCall) -> Tally {
        if call.distinct {
            return Tally::Each(PerGroup::default());
        }
        match call.function {
            F::Count | F::CountBig => Tally::Count(Vec::new()),
            F::Sum | F::Avg => match Sum::of(call) {
                Sum::Float => Tally::Float {
                    sums: Vec::new(),
                    counts: Vec::new(),
                },
                Sum::Exact(scale) => Tally::Exact {
                    sums: Vec::new(),
                    counts: Vec::new(),
                    scale,
                },
            },
            F::Min | F::Max => Tally::Extreme {
                best: Vec::new(),
                data_type: None,
                largest: call.function == F::Max,
            },
            _ => Tally::Each(PerGroup::default()),
        }
    }

    /// Makes room for `groups` groups.
    pub fn grow(&mut self, groups: usize, call: &AggregateCall) {
        match self {
            Tally::Count(counts) => counts.resize(groups, 0),
            Tally::Exact { sums, counts, .. } => {
                sums.resize(groups, 0);
                counts.resize(groups, 0);
            }
            Tally::Float { sums, counts } => {
                sums.resize(groups, 0.0);
                counts.resize(groups, 0);
            }
            Tally::Extreme { best, .. } => best.resize(groups, None),
            Tally::Each(all) => all.grow(groups, call),
        }
    }

    /// Gives back the memory of what is kept for each group.
    pub fn clear(&mut self, cx: &Ctx<'_>) {
        if let Tally::Each(all) = self {
            all.clear(cx);
        }
    }

    /// Forgets all groups but the last, which becomes the first.
    pub fn keep_only(&mut self, group: usize, call: &AggregateCall, cx: &Ctx<'_>) -> Result<()> {
        fn keep<T>(all: &mut Vec<T>, group: usize) {
            if group < all.len() {
                all.swap(0, group);
                all.truncate(1);
            }
        }
        match self {
            Tally::Count(counts) => keep(counts, group),
            Tally::Exact { sums, counts, .. } => {
                keep(sums, group);
                keep(counts, group);
            }
            Tally::Float { sums, counts } => {
                keep(sums, group);
                keep(counts, group);
            }
            Tally::Extreme { best, .. } => keep(best, group),
            Tally::Each(all) => return all.keep_only(group, call, cx),
        }
        Ok(())
    }

    /// Takes a batch in; the groups are there already.
    pub fn add(
        &mut self,
        call: &AggregateCall,
        batch: &ColumnBatch,
        places: Places<'_>,
        cx: &Ctx<'_>,
    ) -> Result<()> {
        let Some(arg) = &call.arg else {
            return self.add_rows(call, batch, places, cx);
        };
        let vector = vector::eval(arg, batch, cx)?;
        let column = vector.column(batch.len());
        self.add_column(call, &column, batch, places, cx)
    }

    /// COUNT(*).
    fn add_rows(
        &mut self,
        call: &AggregateCall,
        batch: &ColumnBatch,
        places: Places<'_>,
        cx: &Ctx<'_>,
    ) -> Result<()> {
        match (self, places) {
            (Tally::Count(counts), Places::One(group)) => {
                if let Some(count) = counts.get_mut(group) {
                    *count += batch.len() as i64;
                }
            }
            (Tally::Count(counts), Places::Each(groups)) => {
                for group in groups {
                    if let Some(count) = counts.get_mut(*group as usize) {
                        *count += 1;
                    }
                }
            }
            (Tally::Each(all), places) => {
                for row in 0..batch.len() {
                    all.add(places.of(row), call, None, &[], cx)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn add_column(
        &mut self,
        call: &AggregateCall,
        column: &Column,
        batch: &ColumnBatch,
        places: Places<'_>,
        cx: &Ctx<'_>,
    ) -> Result<()> {
        self.fit(call, column);
        if column.nulls().contains(&true) && call.function != F::Any {
            cx.warn_null_eliminated();
        }
        let nulls = column.nulls();
        let null = |row: usize| nulls.get(row).copied().unwrap_or(false);
        match (self, column.data()) {
            (Tally::Count(counts), Data::Int(_) | Data::Wide(_) | Data::Float(_)) => {
                for row in (0..column.len()).filter(|row| !null(*row)) {
                    if let Some(count) = counts.get_mut(places.of(row)) {
                        *count += 1;
                    }
                }
            }
            (
                Tally::Exact {
                    sums,
                    counts,
                    scale,
                },
                Data::Int(data),
            ) if scale_of(column.data_type()) == Some(*scale) => {
                if let (true, Places::One(group)) = (nulls.is_empty(), places) {
                    // 64 bits hold the sum of a batch of 32-bit numbers.
                    let narrow = matches!(
                        column.data_type(),
                        DataType::TinyInt
                            | DataType::SmallInt
                            | DataType::Int
                            | DataType::SmallMoney
                    ) && data.len() < 1 << 30;
                    let sum: i128 = if narrow {
                        i128::from(data.iter().sum::<i64>())
                    } else {
                        data.iter().map(|n| i128::from(*n)).sum()
                    };
                    if let (Some(total), Some(count)) = (sums.get_mut(group), counts.get_mut(group))
                    {
                        *total = total.checked_add(sum).ok_or_else(|| overflow(call))?;
                        *count += data.len() as i64;
                    }
                    return Ok(());
                }
                for (row, number) in data.iter().enumerate() {
                    if null(row) {
                        continue;
                    }
                    let group = places.of(row);
                    if let (Some(total), Some(count)) = (sums.get_mut(group), counts.get_mut(group))
                    {
                        let sum = total.checked_add(i128::from(*number));
                        *total = sum.ok_or_else(|| overflow(call))?;
                        *count += 1;
                    }
                }
            }
            (
                Tally::Exact {
                    sums,
                    counts,
                    scale,
                },
                Data::Wide(data),
            ) if scale_of(column.data_type()) == Some(*scale) => {
                for (row, number) in data.iter().enumerate() {
                    if null(row) {
                        continue;
                    }
                    let group = places.of(row);
                    if let (Some(total), Some(count)) = (sums.get_mut(group), counts.get_mut(group))
                    {
                        *total = total.checked_add(*number).ok_or_else(|| overflow(call))?;
                        *count += 1;
                    }
                }
            }
            (Tally::Float { sums, counts }, Data::Float(data)) => {
                for (row, number) in data.iter().enumerate() {
                    if null(row) {
                        continue;
                    }
                    let group = places.of(row);
                    if let (Some(total), Some(count)) = (sums.get_mut(group), counts.get_mut(group))
                    {
                        *total += number;
                        *count += 1;
                    }
                }
            }
            (Tally::Extreme { best, largest, .. }, Data::Int(data)) => {
                for (row, number) in data.iter().enumerate() {
                    if null(row) {
                        continue;
                    }
                    if let Some(known) = best.get_mut(places.of(row)) {
                        let better = match known {
                            None => true,
                            Some(known) if *largest => number > known,
                            Some(known) => number < known,
                        };
                        if better {
                            *known = Some(*number);
                        }
                    }
                }
            }
            (tally, _) => tally.add_values(call, column, batch, places, cx)?,
        }
        Ok(())
    }

    /// Value after value, for columns without a loop of their own.
    fn add_values(
        &mut self,
        call: &AggregateCall,
        column: &Column,
        batch: &ColumnBatch,
        places: Places<'_>,
        cx: &Ctx<'_>,
    ) -> Result<()> {
        let whole_row = call.separator.is_some() || !call.order.is_empty();
        let mut rest = Vec::new();
        for row in 0..column.len() {
            let value = column.value(row);
            if value.is_null() {
                if call.function != F::Any {
                    cx.warn_null_eliminated();
                }
                continue;
            }
            let group = places.of(row);
            match self {
                Tally::Count(counts) => {
                    if let Some(count) = counts.get_mut(group) {
                        *count += 1;
                    }
                }
                Tally::Exact {
                    sums,
                    counts,
                    scale,
                } => {
                    let units = exact_units(&value, *scale)
                        .ok_or_else(|| ValueError::invalid_operand(call.arg_type, "sum"))?;
                    if let (Some(total), Some(count)) = (sums.get_mut(group), counts.get_mut(group))
                    {
                        *total = total.checked_add(units).ok_or_else(|| overflow(call))?;
                        *count += 1;
                    }
                }
                Tally::Float { sums, counts } => {
                    if let (Some(total), Some(count)) = (sums.get_mut(group), counts.get_mut(group))
                    {
                        *total += value.as_f64().unwrap_or(0.0);
                        *count += 1;
                    }
                }
                Tally::Each(all) => {
                    if whole_row {
                        batch.row(row, &mut rest);
                    }
                    all.add(group, call, Some(&value), &rest, cx)?;
                }
                Tally::Extreme { .. } => {}
            }
        }
        Ok(())
    }

    /// Extremes stay numbers as long as all of them are of one type.
    fn fit(&mut self, call: &AggregateCall, column: &Column) {
        let Tally::Extreme {
            best, data_type, ..
        } = self
        else {
            return;
        };
        if matches!(column.data(), Data::Int(_)) {
            match data_type {
                None => *data_type = Some(column.data_type()),
                Some(known) if *known == column.data_type() => {}
                _ => *self = loosened(best, *data_type, call),
            }
        } else {
            *self = loosened(best, *data_type, call);
        }
    }

    /// The result of a group; groups are finished in their order.
    pub fn finish(&mut self, group: usize, call: &AggregateCall, cx: &Ctx<'_>) -> Result<Value> {
        match self {
            Tally::Count(counts) => {
                Accumulator::count(counts.get(group).copied().unwrap_or(0)).finish(call)
            }
            Tally::Exact {
                sums,
                counts,
                scale,
            } => {
                let (sum, count) = (sums.get(group), counts.get(group));
                Accumulator::exact(
                    sum.copied().unwrap_or(0),
                    count.copied().unwrap_or(0),
                    *scale,
                )
                .finish(call)
            }
            Tally::Float { sums, counts } => {
                let (sum, count) = (sums.get(group), counts.get(group));
                Accumulator::float(sum.copied().unwrap_or(0.0), count.copied().unwrap_or(0))
                    .finish(call)
            }
            Tally::Extreme {
                best, data_type, ..
            } => Ok(number(best.get(group).copied().flatten(), *data_type)),
            Tally::Each(all) => all.finish(group, call, cx),
        }
    }

    /// Memory of one group, roughly.
    pub fn group_bytes(&self) -> usize {
        match self {
            Tally::Count(_) => 8,
            Tally::Exact { .. } => 24,
            Tally::Float { .. } | Tally::Extreme { .. } => 16,
            Tally::Each(_) => size_of::<Accumulator>(),
        }
    }
}

fn overflow(call: &AggregateCall) -> ValueError {
    ValueError::expression_overflow(call.result)
}

fn number(best: Option<i64>, data_type: Option<DataType>) -> Value {
    match (best, data_type) {
        (Some(n), Some(data_type)) => Number::Int(n).value(data_type),
        _ => Value::Null,
    }
}

fn loosened(best: &[Option<i64>], data_type: Option<DataType>, call: &AggregateCall) -> Tally {
    let extreme = |n: &Option<i64>| Accumulator::extreme(number(*n, data_type), call);
    Tally::Each(PerGroup::of(best.iter().map(extreme).collect()))
}

/// Digits behind the point of an exact number's units.
fn scale_of(data_type: DataType) -> Option<u8> {
    match daruma_value::column::Class::of(data_type)? {
        daruma_value::column::Class::Exact(scale) => Some(scale),
        _ => None,
    }
}
