//! Full-table UPDATE of columns that no index, key or trigger depends on: page by page, without a thought for each row.
//!
//! Theory: a batch of the scan is one leaf page. For each row the columns that the statement reads are decoded into
//! one reused row of values, the new values are computed and checked, and the changed columns are patched into a copy
//! of the stored row. One call then writes the page. What the common forms of SET and CHECK need is known when the
//! statement is prepared ([`Kernel`], `guard`); they answer plain cases alone and leave every other (NULL, overflow,
//! truncation, a check that fails) to the general expression, so results and errors are the same by construction.
//!
//! Invariant: nothing is allocated for a row, except for texts over 24 bytes.

use super::apply::{Applier, Change, OldRow};
use super::assign::Assign;
use super::errors::{self, Verb};
use super::expr::Evaluators;
use super::modify::HotFacts;
use super::target::{Writable, overlap};
use crate::access::{IndexAccess, damaged};
use crate::binder::changed_column;
use crate::error::{Result, SqlError};
use crate::executor::{ScalarPlan, Scope, prepare_scalar};
use crate::host::{Access, Host};
use compact_str::CompactString;
use daruma_catalog::{ColumnDef, TableDef, names_equal};
use daruma_storage::{
    Batch, ENTRY_BYTES_MAX, ReadView, ScanSpec, Stamp, Tree, TreeUse, Txn, UpdateBatch,
    WriteOutcome,
};
use daruma_syntax::ast::{self, Assignment, BinaryOp, Expr, Literal};
use daruma_value::row::{Cell, RowView};
use daruma_value::{DataType, Value};
use std::sync::Arc;

/// An UPDATE of all rows that changes fixed places of the encoded row, in place: no keys, no triggers, no foreign
/// keys.
pub struct HotUpdate {
    items: Vec<Item>,
    /// Columns to decode: what expressions and checks read.
    reads: Vec<Read>,
    /// Positions in `Writable::checks`.
    checks: Vec<usize>,
    width: usize,
}

struct Read {
    ordinal: usize,
    /// Position in the stored row.
    position: usize,
    data_type: DataType,
}

struct Item {
    ordinal: usize,
    /// Position in the stored row.
    position: usize,
    kernel: Option<Kernel>,
    plan: ScalarPlan,
    assign: Assign,
    /// Set when the column refuses NULL.
    not_null: bool,
}

/// The plain case of a SET expression over one column.
#[derive(Debug, PartialEq)]
enum Kernel {
    /// `column + delta` of the column's own integer or money type.
    Add { column: usize, delta: i64 },
    /// `'text' + column` or `column + 'text'`; the result must have at most `units_max` ASCII characters.
    Concat {
        column: usize,
        text: CompactString,
        before: bool,
        units_max: usize,
    },
    /// `SUBSTRING(column, start, length)` of ASCII text; `start` counts from 0.
    Substring {
        column: usize,
        start: usize,
        length: usize,
    },
}

impl HotUpdate {
    /// `None` when the statement needs the general way.
    pub fn prepare(
        ast: &ast::Update,
        table: &Writable,
        facts: &HotFacts,
        host: &dyn Host,
    ) -> Result<Option<HotUpdate>> {
        let plain = facts.simple
            && facts.from_stream
            && !facts.gather
            && !facts.has_output
            && !facts.touches_index;
        let computes = table
            .computed
            .iter()
            .any(|c| c.persisted && overlap(&c.reads, &facts.changed));
        if !plain
            || computes
            || ast.filter.is_some()
            || ast.top.is_some()
            || table.rowversion.is_some()
        {
            return Ok(None);
        }
        let mut items = Vec::with_capacity(ast.assignments.len());
        let mut reads = vec![false; table.width()];
        for assignment in &ast.assignments {
            let Assignment::Column { column, op, value } = assignment else {
                return Ok(None);
            };
            if matches!(value, Expr::Default) {
                return Ok(None);
            }
            let own = Expr::Column(changed_column(column, false));
            let value = super::modify::compound(op, own, value);
            items.push(Item::prepare(table, &column.name.text, &value, host)?);
            note_columns(table.access.def(), &value, &mut reads);
        }
        let mut checks = Vec::new();
        for (check, known) in table
            .checks
            .iter()
            .enumerate()
            .filter(|(_, c)| overlap(&c.reads, &facts.changed))
        {
            reads
                .iter_mut()
                .zip(&known.reads)
                .for_each(|(r, k)| *r |= *k);
            checks.push(check);
        }
        if table
            .computed
            .iter()
            .any(|c| reads.get(c.ordinal) == Some(&true) && !c.persisted)
        {
            return Ok(None);
        }
        let columns = table.access.def().columns.iter().enumerate();
        let read = |(ordinal, column): (usize, &ColumnDef)| {
            let position = table.access.primary().position(ordinal)?;
            Some(Read {
                ordinal,
                position,
                data_type: column.data_type,
            })
        };
        let reads = columns
            .filter(|(ordinal, _)| reads.get(*ordinal).copied().unwrap_or(false))
            .filter_map(read)
            .collect();
        Ok(Some(HotUpdate {
            items,
            reads,
            checks,
            width: table.width(),
        }))
    }

    /// Updates every row; gives their number.
    pub fn run(&self, table: &Writable, host: &dyn Host, txn: &Txn) -> Result<u64> {
        let tree = table.access.tree(table.access.primary())?;
        let view = host.view(table.table(), Access::Target)?;
        table.access.note_use(0, TreeUse::Scan)?;
        let mut scan = tree.scan(&view, ScanSpec::all());
        let mut work = Work::new(self, table, host);
        let (mut batch, mut updates, mut refused) = (Batch::new(), UpdateBatch::new(), Vec::new());
        let (mut count, mut pages) = (0, 0);
        while scan.next(&mut batch)? {
            super::check_cancel(host)?;
            pages += 1;
            updates.clear();
            for i in 0..batch.len() {
                if work.renew(batch.payload(i))? {
                    updates.push(batch.key(i), batch.stamp(i), &work.patched);
                } else {
                    count += work.write_long(
                        txn,
                        &view,
                        batch.key(i),
                        batch.stamp(i),
                        batch.payload(i),
                    )?;
                }
            }
            refused.clear();
            tree.update_batch(txn, &updates, &mut refused)?;
            count += updates.len() as u64;
            for (i, outcome) in &refused {
                let written = *outcome == WriteOutcome::Changed
                    && work.retry(&tree, txn, &view, updates.key(*i))?;
                count -= u64::from(!written);
            }
        }
        host.count_scan(table.table(), pages, 0);
        Ok(count)
    }
}

/// Buffers of one execution.
struct Work<'a> {
    hot: &'a HotUpdate,
    table: &'a Writable,
    index: &'a IndexAccess,
    host: &'a dyn Host,
    row: Vec<Value>,
    new: Vec<Value>,
    patched: Vec<u8>,
    /// SET CONCAT_NULL_YIELDS_NULL.
    null_concat: bool,
    evaluators: Evaluators<'a>,
}

impl<'a> Work<'a> {
    fn new(hot: &'a HotUpdate, table: &'a Writable, host: &'a dyn Host) -> Work<'a> {
        Work {
            hot,
            table,
            index: table.access.primary(),
            host,
            row: vec![Value::Null; hot.width],
            new: vec![Value::Null; hot.items.len()],
            patched: Vec::with_capacity(ENTRY_BYTES_MAX),
            null_concat: host.settings().concat_null_yields_null,
            evaluators: Evaluators::new(host),
        }
    }

    /// Makes the new version of a stored row in `patched`. False if it has to move values to blobs or free some.
    fn renew(&mut self, payload: &[u8]) -> Result<bool> {
        let view = self.index.view(payload)?;
        for read in &self.hot.reads {
            if let Some(place) = self.row.get_mut(read.ordinal) {
                *place = match read.quick(&view) {
                    Some(value) => value,
                    None => self.table.access.value_at(&view, read.position)?,
                };
            }
        }
        for (item, new) in self.hot.items.iter().zip(&mut self.new) {
            *new = match item
                .kernel
                .as_ref()
                .and_then(|k| k.eval(&self.row, self.null_concat))
            {
                Some(value) => value,
                None => item
                    .assign
                    .convert(self.evaluators.eval(&item.plan, &self.row)?)?,
            };
        }
        for (item, new) in self.hot.items.iter().zip(&self.new) {
            if item.not_null && new.is_null() {
                return Err(self.null_refused(item));
            }
            if let Some(place) = self.row.get_mut(item.ordinal) {
                place.clone_from(new);
            }
        }
        for check in &self.hot.checks {
            let known = self
                .table
                .checks
                .get(*check)
                .ok_or_else(|| damaged("no such check"))?;
            if known.test(&self.evaluators, &self.row)? == Some(false) {
                return Err(self.table.violation(known, Verb::Update));
            }
        }
        if self.table.has_movable_columns
            && self
                .hot
                .items
                .iter()
                .any(|item| view.is_overflow(item.position))
        {
            return Ok(false);
        }
        self.patch(&view)?;
        Ok(self.patched.len() <= ENTRY_BYTES_MAX)
    }

    fn null_refused(&self, item: &Item) -> SqlError {
        let column = self
            .table
            .access
            .def()
            .columns
            .get(item.ordinal)
            .map(|c| c.name.as_str())
            .unwrap_or_default();
        errors::null_not_allowed(self.table.table(), column, Verb::Update)
    }

    fn patch(&mut self, view: &RowView<'_>) -> Result<()> {
        const INLINE: usize = 8;
        let mut few = [(0, Cell::Value(&Value::Null)); INLINE];
        let many: Vec<_>;
        let cells = self
            .hot
            .items
            .iter()
            .zip(&self.new)
            .map(|(item, new)| (item.position, Cell::Value(new)));
        let changes = match few.get_mut(..self.hot.items.len()) {
            Some(few) => {
                few.iter_mut()
                    .zip(cells)
                    .for_each(|(place, cell)| *place = cell);
                &*few
            }
            None => {
                many = cells.collect();
                &many
            }
        };
        self.index
            .layout()
            .encode_patch(view, changes, &mut self.patched)
            .map_err(|e| damaged(&e.to_string()))
    }

    /// A row with values in blobs, before or after: written the general way. Gives 1, or 0 if it is gone.
    fn write_long(
        &mut self,
        txn: &Txn,
        view: &ReadView,
        key: &[u8],
        stamp: Stamp,
        payload: &[u8],
    ) -> Result<u64> {
        let change = self.long_change(key, stamp, payload.to_vec())?;
        let untouched = vec![false; self.table.access.layouts.indexes.len()];
        let tree = self.table.access.tree(self.index)?;
        let done = Applier::new(self.host, self.table, txn.clone(), &untouched).apply(
            vec![change].into(),
            &mut |key| {
                let Some(entry) = tree.get(view, key)? else {
                    return Ok(None);
                };
                self.renew(&entry.payload)?;
                self.long_change(key, entry.stamp, entry.payload).map(Some)
            },
        )?;
        Ok(done.len() as u64)
    }

    fn long_change(&self, key: &[u8], stamp: Stamp, payload: Vec<u8>) -> Result<Change> {
        let values = self.table.decode(&self.evaluators, &payload)?;
        let mut new = values.clone();
        for (item, value) in self.hot.items.iter().zip(&self.new) {
            *new.get_mut(item.ordinal)
                .ok_or_else(|| damaged("row too short"))? = value.clone();
        }
        let old = OldRow {
            key: key.to_vec(),
            stamp,
            payload,
            values,
        };
        Ok(Change {
            old: Some(old),
            new: Some(new),
            ..Change::default()
        })
    }

    /// A row that someone else changed: read again, renewed and written until it is done or gone.
    fn retry(&mut self, tree: &Arc<Tree>, txn: &Txn, view: &ReadView, key: &[u8]) -> Result<bool> {
        loop {
            super::check_cancel(self.host)?;
            let Some(entry) = tree.get(view, key)? else {
                return Ok(false);
            };
            if !self.renew(&entry.payload)? {
                return Ok(self.write_long(txn, view, key, entry.stamp, &entry.payload)? == 1);
            }
            match tree.update(txn, key, entry.stamp, &self.patched)? {
                WriteOutcome::Done => return Ok(true),
                WriteOutcome::Gone => return Ok(false),
                WriteOutcome::Changed => {}
            }
        }
    }
}

impl Read {
    /// Values of the types that change most; `None` also for NULL and for rows older than the column.
    #[inline]
    fn quick(&self, view: &RowView<'_>) -> Option<Value> {
        match self.data_type {
            DataType::SmallInt => view.i64(self.position).map(|n| Value::SmallInt(n as i16)),
            DataType::Int => view.i64(self.position).map(|n| Value::Int(n as i32)),
            DataType::BigInt => view.i64(self.position).map(Value::BigInt),
            DataType::Money => view.i64(self.position).map(Value::Money),
            DataType::VarChar(_) | DataType::NVarChar(_) => {
                view.str(self.position).map(|s| Value::Str(s.into()))
            }
            _ => None,
        }
    }
}

impl Item {
    fn prepare(table: &Writable, name: &str, value: &Expr, host: &dyn Host) -> Result<Item> {
        let columns = &table.access.def().columns;
        let ordinal = columns
            .iter()
            .position(|c| names_equal(&c.name, name))
            .ok_or_else(|| errors::unknown_column(name))?;
        let column = columns
            .get(ordinal)
            .ok_or_else(|| damaged("no such column"))?;
        let scope = {
            let mut scope = Scope::of_table(table.table(), &table.table().name);
            scope
                .tables
                .iter_mut()
                .for_each(|t| t.schema = Some(table.table().schema_name.clone()));
            scope
        };
        let plan = prepare_scalar(value, &scope, host)?;
        let assign = match value {
            Expr::Literal(Literal::Null) => Assign::null(),
            _ => Assign::into_column(plan.data_type(), table.table(), column, host)?,
        };
        let position = table
            .access
            .primary()
            .position(ordinal)
            .ok_or_else(|| damaged("column is not stored"))?;
        Ok(Item {
            ordinal,
            position,
            kernel: Kernel::of(value, table.access.def(), ordinal),
            plan,
            assign,
            not_null: !column.nullable,
        })
    }
}

impl Kernel {
    /// The kernel of an expression assigned to the column `target`, which must read a column of the same type.
    fn of(value: &Expr, def: &TableDef, target: usize) -> Option<Kernel> {
        let data_type = def.columns.get(target)?.data_type;
        match value {
            Expr::Binary {
                op, left, right, ..
            } => match (op, integer(right), column(left, def, data_type)) {
                (BinaryOp::Add, Some(n), Some(column)) => add(column, n, data_type),
                (BinaryOp::Subtract, Some(n), Some(column)) => {
                    add(column, n.checked_neg()?, data_type)
                }
                (BinaryOp::Add, None, Some(column)) => concat(column, right, false, data_type),
                (BinaryOp::Add, None, None) => {
                    concat(self::column(right, def, data_type)?, left, true, data_type)
                }
                _ => None,
            },
            Expr::Function(call)
                if call.name.is_bare() && call.name.name.is("SUBSTRING") && call.over.is_none() =>
            {
                let [text, start, length] = call.args.as_slice() else {
                    return None;
                };
                if !data_type.is_character() || fixed_length(data_type) {
                    return None;
                }
                let start = usize::try_from(integer(start)?.checked_sub(1)?).ok()?;
                let length = usize::try_from(integer(length)?).ok()?;
                Some(Kernel::Substring {
                    column: column(text, def, data_type)?,
                    start,
                    length,
                })
            }
            _ => None,
        }
    }

    #[inline]
    fn eval(&self, row: &[Value], null_concat: bool) -> Option<Value> {
        match self {
            Kernel::Add { column, delta } => match row.get(*column)? {
                Value::TinyInt(n) => u8::try_from(i64::from(*n) + delta).ok().map(Value::TinyInt),
                Value::SmallInt(n) => i16::try_from(i64::from(*n) + delta)
                    .ok()
                    .map(Value::SmallInt),
                Value::Int(n) => i32::try_from(i64::from(*n) + delta).ok().map(Value::Int),
                Value::BigInt(n) => n.checked_add(*delta).map(Value::BigInt),
                Value::Money(n) => n.checked_add(*delta).map(Value::Money),
                Value::Null => Some(Value::Null),
                _ => None,
            },
            Kernel::Concat {
                column,
                text,
                before,
                units_max,
            } => {
                let old = match row.get(*column)? {
                    Value::Str(old) => old,
                    Value::Null if null_concat => return Some(Value::Null),
                    _ => return None,
                };
                if old.len() + text.len() > *units_max || !old.is_ascii() {
                    return None;
                }
                let (first, second) = if *before { (text, old) } else { (old, text) };
                let mut joined = CompactString::with_capacity(first.len() + second.len());
                joined.push_str(first);
                joined.push_str(second);
                Some(Value::Str(joined))
            }
            Kernel::Substring {
                column,
                start,
                length,
            } => {
                let old = match row.get(*column)? {
                    Value::Str(old) => old,
                    Value::Null => return Some(Value::Null),
                    _ => return None,
                };
                if !old.is_ascii() {
                    return None;
                }
                let start = (*start).min(old.len());
                let end = start.saturating_add(*length).min(old.len());
                Some(Value::Str(CompactString::new(old.get(start..end)?)))
            }
        }
    }
}

/// `column + n` in the column's units. `int` arithmetic may overflow where the column does not, so only sums that a
/// 32-bit result surely holds are taken: every operand but `bigint` and `money` is small.
fn add(column: usize, n: i64, data_type: DataType) -> Option<Kernel> {
    let n = i64::from(i32::try_from(n).ok()?);
    match data_type {
        DataType::TinyInt | DataType::SmallInt | DataType::Int | DataType::BigInt => {
            Some(Kernel::Add { column, delta: n })
        }
        DataType::Money => Some(Kernel::Add {
            column,
            delta: n * 10_000,
        }),
        _ => None,
    }
}

fn concat(column: usize, text: &Expr, before: bool, data_type: DataType) -> Option<Kernel> {
    let Expr::Literal(Literal::String { text, .. }) = text else {
        return None;
    };
    let len = data_type.declared_len()?;
    if !text.is_ascii() || len.is_max() || fixed_length(data_type) || !data_type.is_character() {
        return None;
    }
    Some(Kernel::Concat {
        column,
        text: CompactString::new(text),
        before,
        units_max: usize::from(len.0),
    })
}

fn fixed_length(data_type: DataType) -> bool {
    matches!(data_type, DataType::Char(_) | DataType::NChar(_))
}

/// Ordinal of a stored column of just this type.
fn column(expr: &Expr, def: &TableDef, data_type: DataType) -> Option<usize> {
    let Expr::Column(named) = expr else {
        return None;
    };
    let columns = def.columns.iter();
    let (ordinal, found) = columns
        .enumerate()
        .find(|(_, c)| names_equal(&c.name, &named.name.text))?;
    (found.data_type == data_type && found.computed.is_none()).then_some(ordinal)
}

fn integer(expr: &Expr) -> Option<i64> {
    match expr {
        Expr::Literal(Literal::Integer(digits)) => digits.parse().ok(),
        _ => None,
    }
}

/// Marks the columns an expression reads. Forms beyond the usual ones mark all: decoding more does no harm.
fn note_columns(def: &TableDef, expr: &Expr, reads: &mut [bool]) {
    match expr {
        Expr::Literal(_) | Expr::Variable { .. } | Expr::Global { .. } | Expr::Niladic(_) => {}
        Expr::Column(named) => {
            let found = def
                .columns
                .iter()
                .position(|c| names_equal(&c.name, &named.name.text));
            match found.and_then(|ordinal| reads.get_mut(ordinal)) {
                Some(read) => *read = true,
                None => reads.fill(true),
            }
        }
        Expr::Unary { expr, .. } | Expr::Cast { expr, .. } | Expr::Collate { expr, .. } => {
            note_columns(def, expr, reads)
        }
        Expr::Binary { left, right, .. } => {
            note_columns(def, left, reads);
            note_columns(def, right, reads);
        }
        Expr::Coalesce(list) => list.iter().for_each(|e| note_columns(def, e, reads)),
        Expr::Function(call) if call.over.is_none() && call.within_group.is_empty() => {
            call.args.iter().for_each(|e| note_columns(def, e, reads));
        }
        _ => reads.fill(true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dml::tests::TableBuilder;
    use daruma_syntax::{ParseOptions, parse_expression};
    use daruma_value::Len;

    /// Columns: small smallint, cash money, name nvarchar(6), fixed nchar(6).
    fn kernel(text: &str, target: usize) -> Option<Kernel> {
        let def = TableBuilder::new("t")
            .column("small", DataType::SmallInt, true)
            .column("cash", DataType::Money, true)
            .column("name", DataType::NVarChar(Len(6)), true)
            .column("fixed", DataType::NChar(Len(6)), true)
            .definition();
        Kernel::of(
            &parse_expression(text, &ParseOptions::default()).unwrap(),
            &def,
            target,
        )
    }

    fn row(small: i16, cash: i64, name: &str) -> Vec<Value> {
        vec![
            Value::SmallInt(small),
            Value::Money(cash),
            Value::str(name),
            Value::Null,
        ]
    }

    #[test]
    fn plain_cases_are_answered() {
        let eval = |text, target, row: &[Value]| kernel(text, target).unwrap().eval(row, true);
        assert_eq!(
            eval("small + 1", 0, &row(7, 0, "")),
            Some(Value::SmallInt(8))
        );
        assert_eq!(
            eval("small - 10", 0, &row(7, 0, "")),
            Some(Value::SmallInt(-3))
        );
        assert_eq!(
            eval("cash + 2", 1, &row(0, 5, "")),
            Some(Value::Money(20_005))
        );
        assert_eq!(
            eval("'x' + name", 2, &row(0, 0, "abc")),
            Some(Value::str("xabc"))
        );
        assert_eq!(
            eval("name + N'yz'", 2, &row(0, 0, "abc")),
            Some(Value::str("abcyz"))
        );
        assert_eq!(
            eval("substring(name, 2, 100)", 2, &row(0, 0, "abc")),
            Some(Value::str("bc"))
        );
        assert_eq!(
            eval("substring(name, 9, 1)", 2, &row(0, 0, "abc")),
            Some(Value::str(""))
        );
        let nulls = vec![Value::Null; 4];
        for (text, target) in [
            ("small + 1", 0),
            ("'x' + name", 2),
            ("substring(name, 2, 1)", 2),
        ] {
            assert_eq!(eval(text, target, &nulls), Some(Value::Null));
        }
    }

    #[test]
    fn doubtful_cases_are_left_to_the_expression() {
        assert_eq!(
            kernel("small + 1", 0)
                .unwrap()
                .eval(&row(i16::MAX, 0, ""), true),
            None
        );
        assert_eq!(
            kernel("cash + 1", 1)
                .unwrap()
                .eval(&row(0, i64::MAX, ""), true),
            None
        );
        assert_eq!(
            kernel("'x' + name", 2)
                .unwrap()
                .eval(&row(0, 0, "abcdef"), true),
            None
        );
        assert_eq!(
            kernel("'x' + name", 2)
                .unwrap()
                .eval(&row(0, 0, "\u{e4}"), true),
            None
        );
        assert_eq!(
            kernel("'x' + name", 2)
                .unwrap()
                .eval(&[Value::Null, Value::Null, Value::Null], false),
            None
        );
        for (text, target) in [
            ("small * 2", 0),
            ("cash + 1", 0),
            ("1 - small", 0),
            ("small + 99999999999", 0),
            ("'x' + fixed", 3),
            ("substring(name, 0, 2)", 2),
            ("substring(name, small, 2)", 2),
            ("upper(name)", 2),
        ] {
            assert_eq!(kernel(text, target), None, "{text}");
        }
    }
}
