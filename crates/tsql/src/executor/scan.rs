//! Leaf of a plan: rows of a table or index, by scan or seek, with predicates on encoded rows.
//!
//! Theory: entries come page by page. Comparisons of integer columns with values fixed for the scan look at the encoded
//! row; then the columns that the filter needs are decoded, then, for rows that pass, the rest. A seek turns values into
//! key ranges when the scan starts; a value that the key column cannot hold exactly moves the bound instead.

use super::api::stamp_value;
use super::batch::RowBatch;
use super::context::Ctx;
use super::expr::{Expr, holds};
use super::operator::Operator;
use super::plan::{LeafCond, ScanNode, ScanOutput, Seek, SeekBound, SeekKey};
use crate::access::{IndexAccess, KeyColumn, split_entry};
use crate::error::Result;
use daruma_storage::{Batch, Bound, Direction, ReadView, Scan, ScanSpec, Tree};
use daruma_syntax::ast::CompareOp;
use daruma_value::compare::compare;
use daruma_value::convert::convert;
use daruma_value::row::RowView;
use daruma_value::types::common_type;
use daruma_value::{Decimal, Value};
use std::cmp::Ordering;
use std::collections::VecDeque;
use std::sync::Arc;

pub struct ScanOp {
    node: Arc<ScanNode>,
    view: ReadView,
    tree: Arc<Tree>,
    table: Arc<Tree>,
    ranges: VecDeque<Range>,
    scan: Option<Scan>,
    batch: Batch,
    at: usize,
    leaf: Vec<LeafBound>,
    started: bool,
    reads: u64,
    /// Where the context counts the reads.
    counter: usize,
}

enum Range {
    Point(Vec<u8>),
    Scan(ScanSpec),
}

/// A leaf condition with its value known.
enum LeafBound {
    /// Nothing can pass.
    Never,
    Compare {
        position: usize,
        op: CompareOp,
        value: i64,
    },
    /// The value is no 64-bit integer: the general filter decides.
    Always,
}

impl ScanOp {
    pub fn new(node: Arc<ScanNode>, cx: &Ctx<'_>) -> Result<ScanOp> {
        let access = &node.access;
        let view = cx.host.view(&access.table, node.view)?;
        let tree = access.tree(access.index(node.index)?)?;
        let table = if node.index == 0 {
            tree.clone()
        } else {
            access.tree(access.primary())?
        };
        Ok(ScanOp {
            view,
            tree,
            table,
            ranges: VecDeque::new(),
            scan: None,
            batch: Batch::new(),
            at: 0,
            leaf: Vec::new(),
            started: false,
            reads: 0,
            counter: cx.register_scan(&node.access.table),
            node,
        })
    }

    fn start(&mut self, cx: &Ctx<'_>) -> Result<()> {
        self.started = true;
        self.leaf.clear();
        for condition in &self.node.leaf {
            self.leaf.push(leaf_bound(condition, cx)?);
        }
        self.ranges.clear();
        if self.leaf.iter().any(|l| matches!(l, LeafBound::Never)) {
            return Ok(());
        }
        let index = self.node.access.index(self.node.index)?;
        match &self.node.seek {
            None => self.ranges.push_back(Range::Scan(ScanSpec::all())),
            Some(seek) => self.ranges.extend(key_ranges(seek, index, cx)?),
        }
        if self.node.backward {
            self.ranges.make_contiguous().reverse();
            for range in &mut self.ranges {
                if let Range::Scan(spec) = range {
                    spec.direction = Direction::Backward;
                }
            }
        }
        Ok(())
    }

    /// Brings the next entries into `batch`.
    fn fetch(&mut self) -> Result<bool> {
        loop {
            self.at = 0;
            if let Some(scan) = &mut self.scan {
                self.reads += 1;
                if scan.next(&mut self.batch)? {
                    return Ok(true);
                }
                self.scan = None;
            }
            match self.ranges.pop_front() {
                None => return Ok(false),
                Some(Range::Point(key)) => {
                    self.reads += 1;
                    self.batch.clear();
                    if let Some(entry) = self.tree.get(&self.view, &key)? {
                        self.batch.push(&key, &entry.payload, entry.stamp);
                        return Ok(true);
                    }
                }
                Some(Range::Scan(spec)) => {
                    self.reads += 1;
                    self.scan = Some(self.tree.scan(&self.view, spec));
                }
            }
        }
    }

    /// Appends the row of entry `at` to `out` if it passes.
    fn emit(&mut self, cx: &Ctx<'_>, out: &mut RowBatch) -> Result<()> {
        let node = &*self.node;
        let access = &node.access;
        let index = access.index(node.index)?;
        let payload = self.batch.payload(self.at);
        let row = index.view(payload)?;
        if !self.leaf.iter().all(|l| leaf_passes(l, &row)) {
            return Ok(());
        }
        if node.filter.is_none() && !node.lookup {
            for output in &node.outputs {
                out.put(self.output(Some(output), &row)?);
            }
            out.finish_row();
            return Ok(());
        }
        for _ in &node.outputs {
            out.put(Value::Null);
        }
        let at = out.len();
        for position in &node.early {
            let value = self.output(node.outputs.get(*position), &row)?;
            set(out, at, *position, value);
        }
        if let Some(filter) = &node.filter
            && !filter.accepts(out.open_row(), cx)?
        {
            out.abandon_row();
            return Ok(());
        }
        for position in &node.late {
            let value = self.output(node.outputs.get(*position), &row)?;
            set(out, at, *position, value);
        }
        if node.lookup && !self.look_up(payload, cx, out)? {
            out.abandon_row();
            return Ok(());
        }
        out.finish_row();
        Ok(())
    }

    #[inline]
    fn output(&self, output: Option<&ScanOutput>, row: &RowView<'_>) -> Result<Value> {
        match output {
            Some(ScanOutput::Index(position)) => self.node.access.value_at(row, *position),
            Some(ScanOutput::Key) => Ok(Value::Bytes(self.batch.key(self.at).to_vec())),
            Some(ScanOutput::Stamp) => Ok(stamp_value(self.batch.stamp(self.at))),
            _ => Ok(Value::Null),
        }
    }

    /// Completes the row from the table; false when it is gone or does not pass.
    fn look_up(&self, payload: &[u8], cx: &Ctx<'_>, out: &mut RowBatch) -> Result<bool> {
        let node = &*self.node;
        let (locator, _) = split_entry(payload)?;
        let Some(entry) = self.table.get(&self.view, locator)? else {
            return Ok(false);
        };
        let row = node.access.primary().view(&entry.payload)?;
        let at = out.len();
        for position in &node.looked_up {
            let value = match node.outputs.get(*position) {
                Some(ScanOutput::Table(column)) => node.access.value_at(&row, *column)?,
                Some(ScanOutput::Key) => Value::Bytes(locator.to_vec()),
                Some(ScanOutput::Stamp) => stamp_value(entry.stamp),
                _ => continue,
            };
            set(out, at, *position, value);
        }
        match &node.lookup_filter {
            Some(filter) => filter.accepts(out.open_row(), cx),
            None => Ok(true),
        }
    }

    fn report(&mut self, cx: &Ctx<'_>) {
        cx.count_reads(self.counter, std::mem::take(&mut self.reads));
    }
}

fn set(out: &mut RowBatch, row: usize, position: usize, value: Value) {
    debug_assert_eq!(row, out.len());
    if let Some(place) = out.open_row_mut().get_mut(position) {
        *place = value;
    }
}

impl Operator for ScanOp {
    fn next(&mut self, cx: &Ctx<'_>, out: &mut RowBatch) -> Result<bool> {
        out.reset(self.node.outputs.len());
        if !self.started {
            self.start(cx)?;
        }
        loop {
            while self.at < self.batch.len() {
                if out.is_full() {
                    return Ok(true);
                }
                cx.tick(1)?;
                self.emit(cx, out)?;
                self.at += 1;
            }
            // A page's rows go out at once: TOP and EXISTS above may need no more.
            if !out.is_empty() {
                return Ok(true);
            }
            cx.tick(16)?;
            let more = self.fetch()?;
            self.report(cx);
            if !more {
                self.batch.clear();
                return Ok(false);
            }
        }
    }

    fn rewind(&mut self, _: &Ctx<'_>) -> Result<()> {
        self.started = false;
        self.scan = None;
        self.batch.clear();
        self.at = 0;
        Ok(())
    }
}

fn leaf_bound(condition: &LeafCond, cx: &Ctx<'_>) -> Result<LeafBound> {
    let value = condition.value.eval(&[], cx)?;
    let number = match &value {
        Value::Null => return Ok(LeafBound::Never),
        Value::Money(n) if condition.money => Some(*n),
        Value::SmallMoney(n) if condition.money => Some(i64::from(*n)),
        other if !condition.money => other.as_i64(),
        _ => None,
    };
    Ok(match number {
        Some(value) => LeafBound::Compare {
            position: condition.position,
            op: condition.op,
            value,
        },
        None => LeafBound::Always,
    })
}

#[inline]
fn leaf_passes(bound: &LeafBound, row: &RowView<'_>) -> bool {
    match bound {
        LeafBound::Never => false,
        LeafBound::Always => true,
        LeafBound::Compare {
            position,
            op,
            value,
        } => match row.i64(*position) {
            Some(n) => holds(*op, n.cmp(value)),
            None if row.is_missing(*position) => match units(row.layout().added_default(*position))
            {
                Some(n) => holds(*op, n.cmp(value)),
                None => false,
            },
            None => false,
        },
    }
}

/// An integer or the units of a money value, as `RowView::i64` reads them.
fn units(value: &Value) -> Option<i64> {
    match value {
        Value::Money(n) => Some(*n),
        Value::SmallMoney(n) => Some(i64::from(*n)),
        other => other.as_i64(),
    }
}

/// What a comparand is to the key column.
enum KeyValue {
    Exact(Value),
    /// The column's nearest value, and how the comparand compares to it.
    Near(Value, Ordering),
    /// NULL, or a value no key can be compared with.
    None,
}

fn key_value(expr: &Expr, column: &KeyColumn, cx: &Ctx<'_>) -> Result<KeyValue> {
    let value = expr.eval(&[], cx)?;
    if value.is_null() {
        return Ok(KeyValue::None);
    }
    let from = value.natural_type();
    let same = from.name() == column.data_type.name();
    if same && !matches!(value, Value::Str(_) | Value::Decimal(_) | Value::Bytes(_)) {
        return Ok(KeyValue::Exact(value));
    }
    // Text compares without regard to length, so it need not fit the column.
    if matches!(value, Value::Str(_)) && column.data_type.is_character() {
        return Ok(KeyValue::Exact(value));
    }
    if matches!(value, Value::Bytes(_)) && column.data_type.is_binary() {
        return Ok(KeyValue::Exact(value));
    }
    match convert(&value, from, column.data_type, None, &cx.convert) {
        Ok(near) => Ok(match compare(&value, &near, column.collation) {
            Some(Ordering::Equal) => KeyValue::Exact(near),
            Some(order) => KeyValue::Near(near, order),
            None => KeyValue::None,
        }),
        // Beyond what the column can hold.
        Err(_) => Ok(match extreme(&value, column) {
            Some((near, order)) => KeyValue::Near(near, order),
            None => KeyValue::None,
        }),
    }
}

/// Largest or smallest value of a numeric column, whichever is nearer to `value`.
fn extreme(value: &Value, column: &KeyColumn) -> Option<(Value, Ordering)> {
    use daruma_value::DataType::*;
    let negative = value.as_f64()? < 0.0;
    let order = if negative {
        Ordering::Less
    } else {
        Ordering::Greater
    };
    let pick = |low: Value, high: Value| if negative { low } else { high };
    let near = match column.data_type {
        TinyInt => pick(Value::TinyInt(0), Value::TinyInt(u8::MAX)),
        SmallInt => pick(Value::SmallInt(i16::MIN), Value::SmallInt(i16::MAX)),
        Int => pick(Value::Int(i32::MIN), Value::Int(i32::MAX)),
        BigInt => pick(Value::BigInt(i64::MIN), Value::BigInt(i64::MAX)),
        Money => pick(Value::Money(i64::MIN), Value::Money(i64::MAX)),
        SmallMoney => pick(Value::SmallMoney(i32::MIN), Value::SmallMoney(i32::MAX)),
        Decimal { precision, scale } => {
            let most = daruma_value::decimal::power_of_ten(precision) - 1;
            pick(
                Value::Decimal(self::Decimal::new(-most, precision, scale)),
                Value::Decimal(self::Decimal::new(most, precision, scale)),
            )
        }
        _ => return None,
    };
    common_type(value.natural_type(), column.data_type)
        .ok()
        .map(|_| (near, order))
}

fn key_ranges(seek: &Seek, index: &IndexAccess, cx: &Ctx<'_>) -> Result<Vec<Range>> {
    let mut prefixes: Vec<Vec<u8>> = vec![Vec::new()];
    for (part, column) in seek.equal.iter().zip(&index.key) {
        let mut values = Vec::new();
        match part {
            SeekKey::Null => values.push(Value::Null),
            SeekKey::One(expr) => {
                if let KeyValue::Exact(value) = key_value(expr, column, cx)? {
                    values.push(value);
                }
            }
            SeekKey::List(list) => {
                for expr in list {
                    if let KeyValue::Exact(value) = key_value(expr, column, cx)? {
                        values.push(value);
                    }
                }
            }
        }
        let mut longer = Vec::with_capacity(prefixes.len() * values.len());
        for prefix in &prefixes {
            for value in &values {
                let mut key = prefix.clone();
                column.encode(value, &mut key);
                longer.push(key);
            }
        }
        prefixes = longer;
    }
    prefixes.sort_unstable();
    prefixes.dedup();
    let whole_key = index.def.unique && seek.equal.len() == index.key.len();
    if whole_key {
        return Ok(prefixes.into_iter().map(Range::Point).collect());
    }
    if seek.low.is_none() && seek.high.is_none() {
        return Ok(prefixes
            .into_iter()
            .map(|p| Range::Scan(ScanSpec::prefix(p)))
            .collect());
    }
    let Some(column) = index.key.get(seek.equal.len()) else {
        return Ok(Vec::new());
    };
    let low = seek
        .low
        .as_ref()
        .map(|b| bound_value(b, column, cx, true))
        .transpose()?;
    let high = seek
        .high
        .as_ref()
        .map(|b| bound_value(b, column, cx, false))
        .transpose()?;
    if matches!(low, Some(None)) || matches!(high, Some(None)) {
        return Ok(Vec::new());
    }
    let (low, high) = (low.flatten(), high.flatten());
    Ok(prefixes
        .into_iter()
        .map(|p| Range::Scan(range_spec(&p, column, low.as_ref(), high.as_ref())))
        .collect())
}

/// The bound as a value of the column; `None` when the comparison can never be true.
fn bound_value(
    bound: &SeekBound,
    column: &KeyColumn,
    cx: &Ctx<'_>,
    is_low: bool,
) -> Result<Option<(Value, bool)>> {
    Ok(match key_value(&bound.value, column, cx)? {
        KeyValue::Exact(value) => Some((value, bound.inclusive)),
        // Between two values of the column: the nearest one is inside when it lies on the right side.
        KeyValue::Near(value, order) => Some((value, (order == Ordering::Less) == is_low)),
        KeyValue::None => None,
    })
}

fn range_spec(
    prefix: &[u8],
    column: &KeyColumn,
    low: Option<&(Value, bool)>,
    high: Option<&(Value, bool)>,
) -> ScanSpec {
    let key = |value: &Value| {
        let mut key = prefix.to_vec();
        column.encode(value, &mut key);
        key
    };
    let bound = |end: Option<&(Value, bool)>| match end {
        Some((value, true)) => Some(Bound::PrefixIncluded(key(value))),
        Some((value, false)) => Some(Bound::PrefixExcluded(key(value))),
        None => None,
    };
    let open = || {
        if prefix.is_empty() {
            Bound::Unbounded
        } else {
            Bound::PrefixIncluded(prefix.to_vec())
        }
    };
    let after_null = || Bound::PrefixExcluded(key(&Value::Null));
    // NULL is lowest, so an open low end leaves it out; descending keys run the other way.
    let (low, high) = if column.descending {
        (
            bound(high).unwrap_or_else(open),
            bound(low).unwrap_or_else(after_null),
        )
    } else {
        (
            bound(low).unwrap_or_else(after_null),
            bound(high).unwrap_or_else(open),
        )
    };
    ScanSpec {
        low,
        high,
        direction: Direction::Forward,
    }
}
