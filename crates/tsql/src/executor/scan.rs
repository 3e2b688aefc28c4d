//! Leaf of a plan: rows of a table or index, by scan or seek, with predicates on encoded rows.
//!
//! Theory: entries come page by page. Comparisons of integer columns with values fixed for the scan look at the encoded
//! row; then the columns that the filter needs are decoded, then, for rows that pass, the rest. A seek turns values into
//! key ranges when the scan starts; a value that the key column cannot hold exactly moves the bound instead.

use super::api::stamp_value;
use super::batch::{BATCH_ROWS, LONG_BATCH_BYTES, RowBatch, length_max};
use super::columns::ColumnBatch;
use super::context::Ctx;
use super::expr::{Expr, holds};
use super::operator::Operator;
use super::plan::{LeafCond, RowLocking, ScanNode, ScanOutput, Seek, SeekBound, SeekKey};
use super::vector;
use crate::access::{IndexAccess, KeyColumn, corrupt, split_entry};
use crate::error::Result;
use daruma_storage::{
    Batch, Bound, Direction, IoCounters, Isolation, ReadView, RowLock, Scan, ScanSpec, Tree,
    TreeUse, thread_io,
};
use daruma_syntax::ast::CompareOp;
use daruma_value::column::{Column, Form};
use daruma_value::compare::compare;
use daruma_value::convert::convert;
use daruma_value::row::RowView;
use daruma_value::types::common_type;
use daruma_value::{DataType, DateTimeOffset, Decimal, Value};
use std::cmp::Ordering;
use std::collections::VecDeque;
use std::sync::Arc;

/// Rows that may be longer are read row by row: one page may lead to many bytes.
const LONG_ROW_BYTES: usize = 64 << 10;
/// Rows that may be longer than a page holds are measured as batches of columns are filled.
const PAGE_ROW_BYTES: usize = 8060;

/// Reads an index, in ranges when the plan seeks.
pub struct ScanOp {
    node: Arc<ScanNode>,
    view: ReadView,
    tree: Arc<Tree>,
    table: Arc<Tree>,
    /// The one key that is to be looked up: most seeks by a whole key need no list of ranges.
    point: Option<Vec<u8>>,
    ranges: VecDeque<Range>,
    scan: Option<Scan>,
    batch: Batch,
    at: usize,
    leaf: Vec<LeafBound>,
    started: bool,
    /// Pages touched and not told to the context yet.
    reads: IoCounters,
    /// Where the context counts the reads.
    counter: usize,
    /// Columns that the filter looks at.
    early: ColumnBatch,
    /// A batch of columns has been given.
    gave: bool,
    /// A page's rows may be more than is wanted at once.
    is_long: bool,
    /// A batch of rows may be.
    is_measured: bool,
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
    /// The operator before its first row; its view is taken here.
    pub fn new(node: Arc<ScanNode>, cx: &Ctx<'_>) -> Result<ScanOp> {
        let access = &node.access;
        let view = cx.host.view(&access.table, node.view)?;
        let tree = access.tree(access.index(node.index)?)?;
        let table = if node.index == 0 {
            tree.clone()
        } else {
            access.tree(access.primary())?
        };
        tree.check_age(&view)?;
        table.check_age(&view)?;
        let what = match node.seek {
            Some(_) => TreeUse::Seek,
            None => TreeUse::Scan,
        };
        let now = access.database().clock().utc_100ns();
        tree.note_use(what, now);
        if node.lookup {
            table.note_use(TreeUse::Lookup, now);
        }
        let row_bytes_max = row_bytes_max(&node)?;
        Ok(ScanOp {
            view,
            tree,
            table,
            point: None,
            ranges: VecDeque::new(),
            scan: None,
            batch: Batch::new(),
            at: 0,
            leaf: Vec::new(),
            started: false,
            reads: IoCounters::default(),
            counter: cx.register_scan(&node.access.table),
            early: ColumnBatch::default(),
            gave: false,
            is_long: row_bytes_max > LONG_ROW_BYTES,
            is_measured: row_bytes_max > PAGE_ROW_BYTES,
            node,
        })
    }

    fn start(&mut self, cx: &Ctx<'_>) -> Result<()> {
        self.started = true;
        self.leaf.clear();
        for condition in &self.node.leaf {
            self.leaf.push(leaf_bound(condition, cx)?);
        }
        self.point = None;
        self.ranges.clear();
        if self.leaf.iter().any(|l| matches!(l, LeafBound::Never)) {
            return Ok(());
        }
        if let Some(pin) = &self.node.pin {
            self.point = pin.key();
            return Ok(());
        }
        let index = self.node.access.index(self.node.index)?;
        match &self.node.seek {
            None => self.ranges.push_back(Range::Scan(ScanSpec::all())),
            Some(seek) => match one_key(seek, index, cx)? {
                Some(key) => self.point = Some(key),
                None => self.ranges.extend(key_ranges(seek, index, cx)?),
            },
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

    /// Brings the next entries into `batch`, and counts the pages that takes.
    fn fetch(&mut self) -> Result<bool> {
        let before = thread_io();
        let more = self.fetch_entries();
        self.count_since(before);
        more
    }

    fn count_since(&mut self, before: IoCounters) {
        let now = thread_io();
        self.reads.logical_reads += now.logical_reads - before.logical_reads;
        self.reads.physical_reads += now.physical_reads - before.physical_reads;
    }

    fn fetch_entries(&mut self) -> Result<bool> {
        loop {
            self.at = 0;
            if let Some(scan) = &mut self.scan {
                if scan.next(&mut self.batch)? {
                    return Ok(true);
                }
                self.scan = None;
            }
            if let Some(key) = self.point.take() {
                return self.fetch_point(&key);
            }
            match self.ranges.pop_front() {
                None => return Ok(false),
                Some(Range::Point(key)) => {
                    if self.fetch_point(&key)? {
                        return Ok(true);
                    }
                }
                Some(Range::Scan(spec)) => {
                    self.scan = Some(self.tree.scan(&self.view, spec));
                }
            }
        }
    }

    fn fetch_point(&mut self, key: &[u8]) -> Result<bool> {
        self.batch.clear();
        self.lock_absent(key)?;
        Ok(self.tree.get_into(&self.view, key, &mut self.batch)?)
    }

    /// A serializable read that locks a single key locks it before it knows whether there is an entry: of two who mean
    /// to insert it, one waits here.
    fn lock_absent(&self, key: &[u8]) -> Result<()> {
        match self.node.row_locking.and_then(|l| l.mode) {
            Some(mode) if self.view.isolation() == Isolation::Serializable => {
                self.tree.lock_row(&self.view, key, Some(mode), true)?;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// As `emit`, for a row that is locked, or passed, when it is found to pass the conditions: they are looked at
    /// before the lock, so that no other row is locked, and again under it.
    fn emit_locked(&mut self, locking: RowLocking, cx: &Ctx<'_>, out: &mut RowBatch) -> Result<()> {
        let before = out.len();
        self.emit(cx, out)?;
        if out.len() == before {
            return Ok(());
        }
        out.truncate(before);
        let is_index = self.node.index != 0;
        let row_key = match is_index {
            true => split_entry(self.batch.payload(self.at))?.0.to_vec(),
            false => self.batch.key(self.at).to_vec(),
        };
        let locked = self
            .table
            .lock_row(&self.view, &row_key, locking.mode, !locking.skip)?;
        let RowLock::Locked(Some(row)) = locked else {
            return Ok(());
        };
        let key = self.batch.key(self.at).to_vec();
        let entry = match is_index {
            false => row,
            // Nobody else changes the row's entries now.
            true => match self.tree.get(&self.view, &key)? {
                Some(entry) if split_entry(&entry.payload)?.0 == row_key => entry,
                _ => return Ok(()),
            },
        };
        let mut one = Batch::new();
        one.push(&key, &entry.payload, entry.stamp);
        std::mem::swap(&mut self.batch, &mut one);
        let at = std::mem::take(&mut self.at);
        let emitted = self.emit(cx, out);
        self.batch = one;
        self.at = at;
        emitted
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
        if node.lookup {
            let before = thread_io();
            let found = self.look_up(payload, cx, out);
            self.count_since(before);
            if !found? {
                out.abandon_row();
                return Ok(());
            }
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

    /// Appends the columns of the entries left in `batch` that pass.
    fn emit_columns(&mut self, cx: &Ctx<'_>, out: &mut ColumnBatch) -> Result<()> {
        let node = self.node.clone();
        let index = node.access.index(node.index)?;
        let mut entries: Vec<u32> = Vec::with_capacity(self.batch.len());
        let mut rows: Vec<&[u8]> = Vec::with_capacity(self.batch.len());
        for at in self.at..self.batch.len() {
            let row = index.row(self.batch.payload(at))?;
            if !self.leaf.is_empty() {
                let view = RowView::new(index.layout(), row).map_err(corrupt)?;
                if !self.leaf.iter().all(|l| leaf_passes(l, &view)) {
                    continue;
                }
            }
            entries.push(at as u32);
            rows.push(row);
        }
        cx.tick((self.batch.len() - self.at) as u32)?;
        self.at = self.batch.len();
        let mut late: &[usize] = &node.late;
        let all: Vec<usize>;
        if let Some(filter) = &node.filter {
            let early = &mut self.early;
            early.reset(node.outputs.len());
            for position in &node.early {
                if let Some(column) = early.column_mut(*position) {
                    let source = node.outputs.get(*position);
                    read_column(&node, index, source, &self.batch, &entries, &rows, column)?;
                }
            }
            early.set_len(rows.len());
            let mut passed: Vec<u32> = (0..rows.len() as u32).collect();
            vector::filter(filter, early, cx, &mut passed)?;
            let mut kept = Column::default();
            for position in &node.early {
                if let (Some(from), Some(to)) = (early.column(*position), out.column_mut(*position))
                {
                    kept.gather(from, &passed);
                    to.append(&kept);
                }
            }
            let pick = |i: &u32| {
                (
                    entries.get(*i as usize).copied(),
                    rows.get(*i as usize).copied(),
                )
            };
            let (e, r): (Vec<_>, Vec<_>) = passed.iter().map(pick).unzip();
            entries = e.into_iter().flatten().collect();
            rows = r.into_iter().flatten().collect();
        } else {
            all = (0..node.outputs.len()).collect();
            late = &all;
        }
        let len = out.len() + rows.len();
        for position in late {
            if let Some(column) = out.column_mut(*position) {
                let source = node.outputs.get(*position);
                read_column(&node, index, source, &self.batch, &entries, &rows, column)?;
            }
        }
        out.set_len(len);
        Ok(())
    }

    /// Completes the row from the table; false when it is gone or does not pass.
    fn look_up(&self, payload: &[u8], cx: &Ctx<'_>, out: &mut RowBatch) -> Result<bool> {
        let node = &*self.node;
        let (locator, _) = split_entry(payload)?;
        let Some(entry) = self.table.get(&self.view, locator)? else {
            return Ok(false);
        };
        // The row may have changed since its entry was read. If it has, so has the entry, or the row was changed by a
        // transaction that has ended now, and its entries with it.
        let is_certain =
            self.view.knows(entry.stamp) || self.view.isolation() == Isolation::ReadUncommitted;
        if !is_certain && !self.still_leads_to(locator)? {
            return Ok(false);
        }
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

    /// Is the index entry that is being looked up still there, for the same row?
    fn still_leads_to(&self, locator: &[u8]) -> Result<bool> {
        let entry = self.tree.get(&self.view, self.batch.key(self.at))?;
        match entry {
            Some(entry) => Ok(split_entry(&entry.payload)?.0 == locator),
            None => Ok(false),
        }
    }

    fn report(&mut self, cx: &Ctx<'_>) {
        cx.count_reads(self.counter, std::mem::take(&mut self.reads));
    }
}

/// Appends one output column of these entries.
fn read_column(
    node: &ScanNode,
    index: &IndexAccess,
    source: Option<&ScanOutput>,
    batch: &Batch,
    entries: &[u32],
    rows: &[&[u8]],
    column: &mut Column,
) -> Result<()> {
    match source {
        Some(ScanOutput::Index(position)) => {
            let layout = index.layout();
            let data_type = layout.data_type(*position).unwrap_or(DataType::Int);
            if column.is_empty() {
                column.start(data_type);
            }
            if Form::of(data_type) != Form::Any {
                return column
                    .read(layout, *position, rows.iter().copied())
                    .map_err(corrupt);
            }
            for row in rows {
                let view = RowView::new(layout, row).map_err(corrupt)?;
                column.push(node.access.value_at(&view, *position)?);
            }
        }
        Some(ScanOutput::Key) => {
            for entry in entries {
                column.push(Value::Bytes(batch.key(*entry as usize).to_vec()));
            }
        }
        Some(ScanOutput::Stamp) => {
            for entry in entries {
                column.push(stamp_value(batch.stamp(*entry as usize)));
            }
        }
        _ => entries.iter().for_each(|_| column.push(Value::Null)),
    }
    Ok(())
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
                match self.node.row_locking {
                    None => self.emit(cx, out)?,
                    Some(locking) => self.emit_locked(locking, cx, out)?,
                }
                self.at += 1;
                // The operators above may need no more rows, and then no more locks.
                if self.node.row_locking.is_some() && !out.is_empty() {
                    return Ok(true);
                }
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

    fn next_columns(&mut self, cx: &Ctx<'_>, out: &mut ColumnBatch) -> Result<bool> {
        if self.node.lookup || self.node.row_locking.is_some() || self.is_long {
            return self.next_turned(cx, out);
        }
        out.reset(self.node.outputs.len());
        if !self.started {
            self.start(cx)?;
        }
        // The first page goes out at once: the reader may need no more.
        let enough = if self.gave { BATCH_ROWS } else { 1 };
        let has_room = |out: &ColumnBatch, is_measured: bool| {
            out.len() < enough && !(is_measured && out.outside_bytes() >= LONG_BATCH_BYTES)
        };
        while has_room(out, self.is_measured) {
            cx.tick(16)?;
            let more = self.fetch()?;
            self.report(cx);
            if !more {
                self.batch.clear();
                break;
            }
            self.emit_columns(cx, out)?;
        }
        self.gave = true;
        Ok(!out.is_empty())
    }

    fn rewind(&mut self, _: &Ctx<'_>) -> Result<()> {
        self.started = false;
        self.gave = false;
        self.scan = None;
        self.batch.clear();
        self.at = 0;
        Ok(())
    }
}

/// The most that the values of a row may take, by their declared types.
fn row_bytes_max(node: &ScanNode) -> Result<usize> {
    let (own, table) = (node.access.index(node.index)?, node.access.primary());
    let data_type = |output: &ScanOutput| match output {
        ScanOutput::Index(position) => own.layout().data_type(*position),
        ScanOutput::Table(position) => table.layout().data_type(*position),
        _ => None,
    };
    let types = node.outputs.iter().filter_map(data_type);
    Ok(types.map(length_max).sum())
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

/// Relation of a comparand to the key column.
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
    if let Some(beyond) = beyond_ends(&value, column) {
        return Ok(beyond);
    }
    // A day is cut from an instant in UTC, as comparisons see it, not from the time that its offset shows.
    let value = match value {
        Value::DateTimeOffset(at) => Value::DateTimeOffset(DateTimeOffset {
            offset_minutes: 0,
            ..at
        }),
        value => value,
    };
    // Whatever is not 0 becomes 1 as a bit, so the nearest bit of a negative number is not what it is converted to.
    if column.data_type == daruma_value::DataType::Bit && value.as_f64().is_some_and(|n| n < 0.0) {
        return Ok(KeyValue::Near(Value::Bit(false), Ordering::Less));
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

/// A point in time before or after all that a temporal column can hold: its first or last value is the nearest.
fn beyond_ends(value: &Value, column: &KeyColumn) -> Option<KeyValue> {
    let (first, last) = daruma_value::temporal::ends(column.data_type)?;
    if compare(value, &first, column.collation)? == Ordering::Less {
        return Some(KeyValue::Near(first, Ordering::Less));
    }
    (compare(value, &last, column.collation)? == Ordering::Greater)
        .then_some(KeyValue::Near(last, Ordering::Greater))
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
        Real => pick(Value::Real(f32::MIN), Value::Real(f32::MAX)),
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

/// The one key of a seek that names all key columns by one value each; `None` for any other seek and for values that
/// are not the column's own.
fn one_key(seek: &Seek, index: &IndexAccess, cx: &Ctx<'_>) -> Result<Option<Vec<u8>>> {
    if !seek.names_keys(index) {
        return Ok(None);
    }
    let mut key = Vec::with_capacity(16 * seek.equal.len());
    for (part, column) in seek.equal.iter().zip(&index.key) {
        let SeekKey::One(expr) = part else {
            return Ok(None);
        };
        let KeyValue::Exact(value) = key_value(expr, column, cx)? else {
            return Ok(None);
        };
        column.encode(&value, &mut key);
    }
    Ok(Some(key))
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
    if seek.names_keys(index) {
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
