//! Expressions and conditions over columns.
//!
//! Theory: an expression is walked once for a batch, not for each row. Columns, constants, arithmetic, numeric
//! conversions and CASE work on whole columns by the kernels of `daruma_value::column`; whatever has no kernel, and every
//! batch with an error in it, is evaluated row by row by [`Expr::eval`], on the columns it looks at.
//!
//! Invariants
//! 1. The values are those that `Expr::eval` gives; an expression that would fail for a row fails here.
//! 2. A branch of CASE, and a later part of AND and OR, is evaluated for those rows alone that get there.

use super::columns::ColumnBatch;
use super::context::Ctx;
use super::expr::{Cond, Expr, SubqueryCall, arith};
use crate::error::Result;
use daruma_syntax::ast::CompareOp;
use daruma_value::Value;
use daruma_value::column::compare::{Relation, retain};
use daruma_value::column::{Column, Data, NO_ROW, Operand, arithmetic, convert};
use std::borrow::Cow;

/// A column lent or made, or one value for all rows.
pub enum Vector<'a> {
    Lent(&'a Column),
    Made(Column),
    One(Cow<'a, Value>),
}

impl Vector<'_> {
    /// The values as an operand of a kernel.
    pub fn operand(&self) -> Operand<'_> {
        match self {
            Vector::Lent(column) => Operand::Column(column),
            Vector::Made(column) => Operand::Column(column),
            Vector::One(value) => Operand::Constant(value),
        }
    }

    /// One value.
    pub fn value(&self, row: usize) -> Value {
        match self {
            Vector::Lent(column) => column.value(row),
            Vector::Made(column) => column.value(row),
            Vector::One(value) => value.clone().into_owned(),
        }
    }

    fn is_null(&self, row: usize) -> bool {
        match self {
            Vector::Lent(column) => column.is_null(row),
            Vector::Made(column) => column.is_null(row),
            Vector::One(value) => value.is_null(),
        }
    }

    /// As a column of `len` rows.
    pub fn column(&self, len: usize) -> Cow<'_, Column> {
        match self {
            Vector::Lent(column) => Cow::Borrowed(*column),
            Vector::Made(column) => Cow::Borrowed(column),
            Vector::One(value) => Cow::Owned(Column::repeat(value, len)),
        }
    }

    /// The values as a column of `len` rows.
    pub fn into_column(self, len: usize) -> Column {
        match self {
            Vector::Lent(column) => column.clone(),
            Vector::Made(column) => column,
            Vector::One(value) => Column::repeat(&value, len),
        }
    }
}

/// The values of an expression for all rows.
pub fn eval<'a>(expr: &'a Expr, batch: &'a ColumnBatch, cx: &Ctx<'_>) -> Result<Vector<'a>> {
    match expr {
        Expr::Slot(slot) => Ok(match batch.column(*slot) {
            Some(column) => Vector::Lent(column),
            None => Vector::One(Cow::Owned(Value::Null)),
        }),
        Expr::Const(value) => Ok(Vector::One(Cow::Borrowed(value))),
        Expr::Param(slot) => Ok(Vector::One(Cow::Owned(cx.param(*slot)))),
        Expr::Variable(slot) => Ok(Vector::One(Cow::Owned(cx.variable(*slot)))),
        Expr::Convert {
            input,
            to,
            style: None,
            is_try: false,
            ..
        } if to.is_numeric() && vectorised(input) => {
            let given = eval(input, batch, cx)?;
            let made = match &given {
                Vector::Lent(column) => convert::convert(column, *to),
                Vector::Made(column) => convert::convert(column, *to),
                Vector::One(_) => None,
            };
            match made {
                Some(column) => Ok(Vector::Made(column)),
                None => row_by_row(expr, batch, cx),
            }
        }
        Expr::Arith {
            op,
            left,
            right,
            result,
        } if vectorised(left) && vectorised(right) => {
            let (left, right) = (eval(left, batch, cx)?, eval(right, batch, cx)?);
            let len = batch.len();
            if let (Vector::One(_), Vector::One(_)) = (&left, &right) {
                return row_by_row(expr, batch, cx);
            }
            if let Some(column) =
                arithmetic::evaluate(*op, left.operand(), right.operand(), *result, len)
            {
                return Ok(Vector::Made(column));
            }
            let mut made = Column::new(*result);
            for row in 0..len {
                made.push(arith(*op, &left.value(row), &right.value(row), *result)?);
            }
            Ok(Vector::Made(made))
        }
        Expr::Negate(input, _) if vectorised(input) => {
            let given = eval(input, batch, cx)?;
            let made = match &given {
                Vector::Lent(column) => arithmetic::negate(column),
                Vector::Made(column) => arithmetic::negate(column),
                Vector::One(_) => None,
            };
            match made {
                Some(column) => Ok(Vector::Made(column)),
                None => row_by_row(expr, batch, cx),
            }
        }
        Expr::Case { whens, otherwise } => case(whens, otherwise.as_deref(), batch, cx),
        Expr::Deep(inner) => crate::binder::with_stack(|| eval(inner, batch, cx)),
        _ => row_by_row(expr, batch, cx),
    }
}

/// Is it worth evaluating for all rows before the kernel is known to fit? Evaluating it twice must change nothing.
fn vectorised(expr: &Expr) -> bool {
    match expr {
        Expr::Slot(_) | Expr::Const(_) | Expr::Param(_) | Expr::Variable(_) => true,
        Expr::Convert {
            input, style: None, ..
        }
        | Expr::Negate(input, _) => vectorised(input),
        Expr::Arith { left, right, .. } => vectorised(left) && vectorised(right),
        Expr::Case { whens, otherwise } => {
            whens
                .iter()
                .all(|(when, then)| pure(when) && vectorised(then))
                && otherwise.as_deref().is_none_or(vectorised)
        }
        _ => false,
    }
}

fn pure(cond: &Cond) -> bool {
    match cond {
        Cond::Const(_) => true,
        Cond::Compare { left, right, .. } => vectorised(left) && vectorised(right),
        Cond::And(parts) | Cond::Or(parts) => parts.iter().all(pure),
        Cond::Not(inner) => pure(inner),
        Cond::IsNull(expr) => vectorised(expr),
        Cond::Like { expr, compiled, .. } => vectorised(expr) && compiled.is_some(),
        Cond::InList { expr, list, .. } => vectorised(expr) && list.iter().all(vectorised),
        _ => false,
    }
}

fn row_by_row<'a>(expr: &Expr, batch: &ColumnBatch, cx: &Ctx<'_>) -> Result<Vector<'a>> {
    let mut slots = Vec::new();
    expr_slots(expr, &mut slots);
    let mut row = vec![Value::Null; batch.width()];
    let mut made = Column::default();
    for index in 0..batch.len() {
        fill(&mut row, &slots, batch, index);
        made.push(expr.eval(&row, cx)?);
    }
    Ok(Vector::Made(made))
}

/// Puts the values that an expression looks at in their places.
fn fill(row: &mut [Value], slots: &[usize], batch: &ColumnBatch, index: usize) {
    for slot in slots {
        if let Some(place) = row.get_mut(*slot) {
            *place = batch.value(*slot, index);
        }
    }
}

fn case<'a>(
    whens: &[(Cond, Expr)],
    otherwise: Option<&Expr>,
    batch: &ColumnBatch,
    cx: &Ctx<'_>,
) -> Result<Vector<'a>> {
    let len = batch.len();
    let mut left: Vec<u32> = (0..len as u32).collect();
    // The rows of each branch, one branch after the other, and where each row's value lies then.
    let mut values = Column::default();
    let mut places = vec![NO_ROW; len];
    let mut branch = |then: &Expr, rows: &[u32]| -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let mut slots = Vec::new();
        expr_slots(then, &mut slots);
        let part = batch.part(rows, &slots);
        let base = values.len();
        let made = eval(then, &part, cx)?;
        values.append(&made.column(rows.len()));
        for (offset, row) in rows.iter().enumerate() {
            if let Some(place) = places.get_mut(*row as usize) {
                *place = (base + offset) as u32;
            }
        }
        Ok(())
    };
    for (when, then) in whens {
        let mut rows = left.clone();
        filter(when, batch, cx, &mut rows)?;
        branch(then, &rows)?;
        left = without(&left, &rows);
    }
    if let Some(otherwise) = otherwise {
        branch(otherwise, &left)?;
    }
    let mut made = Column::default();
    made.gather(&values, &places);
    Ok(Vector::Made(made))
}

/// The rows of `all` that are not in `some`; both ascend.
fn without(all: &[u32], some: &[u32]) -> Vec<u32> {
    let mut some = some.iter().peekable();
    let mut rest = Vec::with_capacity(all.len());
    for row in all {
        if some.peek() == Some(&row) {
            some.next();
        } else {
            rest.push(*row);
        }
    }
    rest
}

/// Keeps those of `rows` that the condition accepts.
pub fn filter(cond: &Cond, batch: &ColumnBatch, cx: &Ctx<'_>, rows: &mut Vec<u32>) -> Result<()> {
    match cond {
        Cond::Const(value) => {
            if *value != Some(true) {
                rows.clear();
            }
            Ok(())
        }
        Cond::And(parts) => {
            for part in parts {
                if rows.is_empty() {
                    break;
                }
                filter(part, batch, cx, rows)?;
            }
            Ok(())
        }
        Cond::Or(parts) => {
            let mut left = std::mem::take(rows);
            for part in parts {
                if left.is_empty() {
                    break;
                }
                let mut accepted = left.clone();
                filter(part, batch, cx, &mut accepted)?;
                left = without(&left, &accepted);
                rows.append(&mut accepted);
            }
            rows.sort_unstable();
            Ok(())
        }
        Cond::IsNull(expr) if vectorised(expr) && cheap(expr) => {
            let vector = eval(expr, batch, cx)?;
            rows.retain(|row| vector.is_null(*row as usize));
            Ok(())
        }
        Cond::Not(inner) => match &**inner {
            Cond::IsNull(expr) if vectorised(expr) && cheap(expr) => {
                let vector = eval(expr, batch, cx)?;
                rows.retain(|row| !vector.is_null(*row as usize));
                Ok(())
            }
            _ => each_row(cond, batch, cx, rows),
        },
        Cond::Compare {
            op, left, right, ..
        } if cheap(left) && cheap(right) => {
            let (left, right) = (eval(left, batch, cx)?, eval(right, batch, cx)?);
            if retain(relation(*op), left.operand(), right.operand(), rows) {
                return Ok(());
            }
            each_row(cond, batch, cx, rows)
        }
        Cond::Compare {
            op, left, right, ..
        } if vectorised(left) && vectorised(right) && rows.len() == batch.len() => {
            // Arithmetic may fail for rows that were sorted out before, so it waits for full batches.
            let (left, right) = (eval(left, batch, cx)?, eval(right, batch, cx)?);
            if retain(relation(*op), left.operand(), right.operand(), rows) {
                return Ok(());
            }
            each_row(cond, batch, cx, rows)
        }
        Cond::Like {
            expr: Expr::Slot(slot),
            compiled: Some(pattern),
            ..
        } => {
            if let Some(Data::Any(values)) = batch.column(*slot).map(Column::data) {
                let mut failed = Ok(());
                rows.retain(|row| match values.get(*row as usize) {
                    Some(Value::Str(text)) if failed.is_ok() => {
                        let found = super::expr::like(pattern, text, cx);
                        found.unwrap_or_else(|error| {
                            failed = Err(error);
                            false
                        })
                    }
                    _ => false,
                });
                return failed;
            }
            each_row(cond, batch, cx, rows)
        }
        _ => each_row(cond, batch, cx, rows),
    }
}

/// Needs no work and cannot fail.
fn cheap(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::Slot(_) | Expr::Const(_) | Expr::Param(_) | Expr::Variable(_)
    )
}

fn each_row(cond: &Cond, batch: &ColumnBatch, cx: &Ctx<'_>, rows: &mut Vec<u32>) -> Result<()> {
    let mut slots = Vec::new();
    cond_slots(cond, &mut slots);
    let mut values = vec![Value::Null; batch.width()];
    let mut kept = Vec::with_capacity(rows.len());
    for row in rows.iter() {
        fill(&mut values, &slots, batch, *row as usize);
        if cond.accepts(&values, cx)? {
            kept.push(*row);
        }
    }
    *rows = kept;
    Ok(())
}

fn relation(op: CompareOp) -> Relation {
    match op {
        CompareOp::Equal => Relation::Equal,
        CompareOp::NotEqual => Relation::NotEqual,
        CompareOp::Less => Relation::Less,
        CompareOp::LessOrEqual | CompareOp::NotGreater => Relation::LessOrEqual,
        CompareOp::Greater => Relation::Greater,
        CompareOp::GreaterOrEqual | CompareOp::NotLess => Relation::GreaterOrEqual,
    }
}

/// Columns that an expression looks at.
pub fn expr_slots(expr: &Expr, out: &mut Vec<usize>) {
    match expr {
        Expr::Slot(slot) => {
            if !out.contains(slot) {
                out.push(*slot);
            }
        }
        Expr::Const(_) | Expr::Param(_) | Expr::Variable(_) | Expr::Local | Expr::NextValue(_) => {}
        Expr::Let { value, body } => {
            expr_slots(value, out);
            expr_slots(body, out);
        }
        Expr::Convert { input, style, .. } => {
            expr_slots(input, out);
            style.iter().for_each(|s| expr_slots(s, out));
        }
        Expr::Arith { left, right, .. } | Expr::Concat { left, right, .. } => {
            expr_slots(left, out);
            expr_slots(right, out);
        }
        Expr::Negate(input, _) | Expr::BitNot(input, _) => expr_slots(input, out),
        Expr::Deep(input) => crate::binder::with_stack(|| expr_slots(input, out)),
        Expr::Case { whens, otherwise } => {
            for (when, then) in whens {
                cond_slots(when, out);
                expr_slots(then, out);
            }
            otherwise.iter().for_each(|o| expr_slots(o, out));
        }
        Expr::Coalesce(list)
        | Expr::Call { args: list, .. }
        | Expr::System { args: list, .. }
        | Expr::UserFunction { args: list, .. } => list.iter().for_each(|e| expr_slots(e, out)),
        Expr::Subquery(call) => call_slots(call, out),
        Expr::Cond(cond) => cond_slots(cond, out),
    }
}

fn call_slots(call: &SubqueryCall, out: &mut Vec<usize>) {
    call.bind.iter().for_each(|(e, _)| expr_slots(e, out));
}

/// Adds the positions that a condition reads.
pub fn cond_slots(cond: &Cond, out: &mut Vec<usize>) {
    match cond {
        Cond::Const(_) => {}
        Cond::Compare { left, right, .. } | Cond::IsDistinct(left, right, _) => {
            expr_slots(left, out);
            expr_slots(right, out);
        }
        Cond::And(parts) | Cond::Or(parts) => parts.iter().for_each(|p| cond_slots(p, out)),
        Cond::Not(inner) => cond_slots(inner, out),
        Cond::IsNull(expr) | Cond::InSet { expr, .. } => expr_slots(expr, out),
        Cond::Like {
            expr,
            pattern,
            escape,
            ..
        } => {
            expr_slots(expr, out);
            expr_slots(pattern, out);
            escape.iter().for_each(|e| expr_slots(e, out));
        }
        Cond::InList { expr, list, .. } => {
            expr_slots(expr, out);
            list.iter().for_each(|e| expr_slots(e, out));
        }
        Cond::Exists(call) => call_slots(call, out),
        Cond::Any { call, expr, .. } => {
            call_slots(call, out);
            expr_slots(expr, out);
        }
        Cond::Let { value, body } => {
            expr_slots(value, out);
            cond_slots(body, out);
        }
    }
}
