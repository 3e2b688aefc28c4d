//! Reading a table for its statistics.
//!
//! Theory: the smallest index that holds the columns is read, whole or by random leaves. Values of the first column are
//! sorted into runs of equal ones, from which the histogram is cut; distinct combinations of several columns are counted
//! by their hashes. From a sample, the number of distinct values is estimated: those seen once stand for as many unseen
//! ones as the square root of the share read tells, those seen again for themselves.

use crate::access::{IndexAccess, TableAccess, corrupt};
use crate::error::Result;
use crate::statistics::histogram;
use daruma_catalog::HistogramStep;
use daruma_storage::{Batch, Bound, Direction, ReadView, ScanSpec};
use daruma_value::column::{Column, Data, Form};
use daruma_value::compare::{hash_bytes, write_key};
use daruma_value::keyenc::encode_key;
use daruma_value::row::RowView;
use daruma_value::{CollationId, DataType, Value};
use std::collections::HashMap;

/// Tables of up to this many rows are read whole.
const WHOLE_ROWS_MAX: u64 = 200_000;
/// Leaves read of larger ones.
const LEAVES: usize = 1_000;
/// Longer keys are cut: their beginnings tell enough.
const KEY_BYTES_MAX: usize = 96;

/// How much of a table is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Share {
    Full,
    Auto,
}

pub(crate) struct Collected {
    pub rows: u64,
    pub rows_sampled: u64,
    pub null_rows: f64,
    pub distinct: Vec<f64>,
    pub steps: Vec<HistogramStep>,
}

/// Equal values: one of them, by its row among those read, and how many there are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub row: usize,
    pub count: u64,
}

/// Values read.
struct Sample {
    /// Of the first column.
    values: Column,
    /// How often each combination of the first two columns, three columns, .. came, by its hash.
    combinations: Vec<HashMap<u64, u64>>,
    rows: u64,
}

pub(crate) fn collect(
    access: &TableAccess,
    ordinals: &[usize],
    share: Share,
    view: &ReadView,
    random: &mut dyn FnMut(usize) -> usize,
) -> Result<Collected> {
    let columns = ordinals
        .iter()
        .filter_map(|o| access.def().columns.get(*o).map(|c| (*o, c)));
    let shapes: Vec<(usize, DataType, CollationId)> = columns
        .map(|(o, c)| (o, c.data_type, c.collation))
        .collect();
    let Some((_, data_type, collation)) = shapes.first().copied() else {
        return Err(crate::access::damaged("statistics without columns"));
    };
    let index = narrowest(access, ordinals)?;
    let tree = access.tree(index)?;
    let total = tree.approximate_count();
    let mut sample = Sample {
        values: Column::new(data_type),
        combinations: vec![HashMap::new(); shapes.len().saturating_sub(1)],
        rows: 0,
    };
    let mut batch = Batch::new();
    if share == Share::Full || total <= WHOLE_ROWS_MAX {
        let mut scan = tree.scan(view, ScanSpec::all());
        while scan.next(&mut batch)? {
            sample.add(access, index, &shapes, &batch)?;
        }
    } else {
        for key in tree.sample_leaves(LEAVES, random)? {
            let spec = ScanSpec {
                low: Bound::Included(key),
                high: Bound::Unbounded,
                direction: Direction::Forward,
            };
            if tree.scan(view, spec).next(&mut batch)? {
                sample.add(access, index, &shapes, &batch)?;
            }
        }
    }
    let whole = share == Share::Full || total <= WHOLE_ROWS_MAX;
    let rows = if whole {
        sample.rows
    } else {
        total.max(sample.rows)
    };
    let scale = rows as f64 / sample.rows.max(1) as f64;
    let runs = runs(&sample.values, data_type, collation);
    let present: u64 = runs.iter().map(|r| r.count).sum();
    let null_rows = (sample.rows - present) as f64;
    let mut distinct = vec![estimated(
        runs.len() as f64 + f64::from(u8::from(null_rows > 0.0)),
        runs.iter().filter(|r| r.count == 1).count() as f64,
        scale,
    )];
    for counts in &sample.combinations {
        let once = counts.values().filter(|n| **n == 1).count() as f64;
        distinct.push(estimated(counts.len() as f64, once, scale));
    }
    Ok(Collected {
        rows,
        rows_sampled: sample.rows,
        null_rows: null_rows * scale,
        distinct: distinct.into_iter().map(|d| d.min(rows as f64)).collect(),
        steps: histogram::steps(&sample.values, &runs, data_type, collation, scale),
    })
}

/// Distinct values of the table from those of the sample, of which `once` were seen once.
fn estimated(seen: f64, once: f64, scale: f64) -> f64 {
    if scale <= 1.0 {
        return seen;
    }
    seen - once + once * scale.sqrt()
}

/// The index with the fewest pages that holds the columns of all rows.
fn narrowest<'a>(access: &'a TableAccess, ordinals: &[usize]) -> Result<&'a IndexAccess> {
    let mut best = access.primary();
    let mut pages = access.tree(best)?.approximate_pages();
    for (_, index) in access.secondary() {
        let holds = ordinals.iter().all(|o| index.position(*o).is_some());
        if !holds || index.def.filter.is_some() {
            continue;
        }
        let its = access.tree(index)?.approximate_pages();
        if its < pages {
            (best, pages) = (index, its);
        }
    }
    Ok(best)
}

impl Sample {
    fn add(
        &mut self,
        access: &TableAccess,
        index: &IndexAccess,
        shapes: &[(usize, DataType, CollationId)],
        batch: &Batch,
    ) -> Result<()> {
        let mut rows = Vec::with_capacity(batch.len());
        for entry in 0..batch.len() {
            rows.push(index.row(batch.payload(entry))?);
        }
        let mut keys: Vec<Vec<u8>> = vec![Vec::new(); rows.len()];
        for (nth, (ordinal, data_type, collation)) in shapes.iter().enumerate() {
            let mut column = Column::new(*data_type);
            match index.position(*ordinal) {
                Some(position) if Form::of(*data_type) != Form::Any => column
                    .read(index.layout(), position, rows.iter().copied())
                    .map_err(corrupt)?,
                Some(position) => {
                    for row in &rows {
                        let view = RowView::new(index.layout(), row).map_err(corrupt)?;
                        column.push(short(access.value_at(&view, position)?));
                    }
                }
                None => rows.iter().for_each(|_| column.push_null()),
            }
            if shapes.len() > 1 {
                for (row, key) in keys.iter_mut().enumerate() {
                    write_key(&column.value(row), *collation, key);
                }
            }
            match nth
                .checked_sub(1)
                .and_then(|n| self.combinations.get_mut(n))
            {
                None => self.values.append(&column),
                Some(counts) => {
                    for key in &keys {
                        *counts.entry(hash_bytes(key)).or_default() += 1;
                    }
                }
            }
        }
        self.rows += rows.len() as u64;
        Ok(())
    }
}

/// Long values by their beginnings.
fn short(value: Value) -> Value {
    match value {
        Value::Str(s) if s.len() > 4 * KEY_BYTES_MAX => {
            Value::str(s.chars().take(KEY_BYTES_MAX).collect::<String>())
        }
        Value::Bytes(mut b) => {
            b.truncate(KEY_BYTES_MAX);
            Value::Bytes(b)
        }
        other => other,
    }
}

/// Runs of equal values, ascending; NULLs are left out.
fn runs(values: &Column, data_type: DataType, collation: CollationId) -> Vec<Run> {
    let rows = (0..values.len()).filter(|row| !values.is_null(*row));
    if let Data::Int(data) = values.data() {
        let number = |row: usize| data.get(row).copied().unwrap_or(0);
        let mut sorted: Vec<(i64, usize)> = rows.map(|row| (number(row), row)).collect();
        sorted.sort_unstable();
        return equal_runs(&sorted);
    }
    let mut sorted: Vec<(Vec<u8>, usize)> = rows
        .map(|row| (key_of(&values.value(row), data_type, collation), row))
        .collect();
    sorted.sort_unstable();
    equal_runs(&sorted)
}

fn equal_runs<K: PartialEq>(sorted: &[(K, usize)]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    let mut before: Option<&K> = None;
    for (key, row) in sorted {
        match runs.last_mut() {
            Some(run) if before == Some(key) => run.count += 1,
            _ => runs.push(Run {
                row: *row,
                count: 1,
            }),
        }
        before = Some(key);
    }
    runs
}

/// Bytes that order as the values do, cut to a bounded length.
pub(super) fn key_of(value: &Value, data_type: DataType, collation: CollationId) -> Vec<u8> {
    let mut key = Vec::new();
    encode_key(value, data_type, collation, false, &mut key);
    key.truncate(KEY_BYTES_MAX);
    key
}
