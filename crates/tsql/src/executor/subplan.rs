//! Subqueries evaluated for the rows around them.
//!
//! Theory: the row's values become parameters; the result is remembered by the parameters that the subquery reads, so a
//! subquery without any runs once, and one that meets the same values again does not run at all.

use super::context::{Ctx, SubplanState, ValueSet};
use super::expr::{Expr, SubqueryCall, holds};
use crate::error::{Result, SqlError};
use daruma_syntax::ast::CompareOp;
use daruma_value::compare::{compare, write_key};
use daruma_value::{CollationId, Value};

/// Remembered results of one subquery; beyond this it starts anew.
const MEMO_MAX: usize = 65_536;

fn bind(call: &SubqueryCall, row: &[Value], cx: &Ctx<'_>) -> Result<()> {
    for (expr, slot) in &call.bind {
        let value = expr.eval(row, cx)?;
        cx.set_param(*slot, value);
    }
    Ok(())
}

/// Finds or computes a result for the present parameters and `extra`.
fn remembered(
    call: &SubqueryCall,
    extra: Option<&Value>,
    collation: CollationId,
    cx: &Ctx<'_>,
    run: impl FnOnce(&mut SubplanState) -> Result<Value>,
) -> Result<Value> {
    let mut key = Vec::new();
    if let Some(subplan) = cx.plan.subplans.get(call.subplan) {
        for slot in &subplan.reads {
            // Parameters are told apart exactly, not as a collation would.
            write_key(&cx.param(*slot), CollationId::BIN2, &mut key);
        }
    }
    if let Some(extra) = extra {
        write_key(extra, collation, &mut key);
    }
    cx.with_subplan(call.subplan, |state| {
        if let Some(known) = state.memo.get(&key) {
            return Ok(known.clone());
        }
        let value = run(state)?;
        if state.memo.len() >= MEMO_MAX {
            state.memo.clear();
        }
        state.memo.insert(key, value.clone());
        Ok(value)
    })
}

/// The one value of a subquery, NULL without a row; more than one row is error 512.
pub fn scalar(call: &SubqueryCall, row: &[Value], cx: &Ctx<'_>) -> Result<Value> {
    bind(call, row, cx)?;
    remembered(call, None, CollationId::BIN2, cx, |state| {
        cx.restart(call.subplan, state)?;
        let mut found: Option<Value> = None;
        while advance(state, cx)? {
            for row in state.batch.rows() {
                if found.is_some() {
                    return Err(more_than_one());
                }
                found = Some(row.get(call.column).cloned().unwrap_or(Value::Null));
            }
        }
        Ok(found.unwrap_or(Value::Null))
    })
}

/// Has the subquery a row?
pub fn exists(call: &SubqueryCall, row: &[Value], cx: &Ctx<'_>) -> Result<bool> {
    bind(call, row, cx)?;
    let found = remembered(call, None, CollationId::BIN2, cx, |state| {
        cx.restart(call.subplan, state)?;
        Ok(Value::Bit(advance(state, cx)?))
    })?;
    Ok(found == Value::Bit(true))
}

/// `left op ANY (subquery)`.
pub fn any(
    call: &SubqueryCall,
    op: CompareOp,
    left: Value,
    value: &Expr,
    collation: CollationId,
    row: &[Value],
    cx: &Ctx<'_>,
) -> Result<Option<bool>> {
    bind(call, row, cx)?;
    let independent = cx
        .plan
        .subplans
        .get(call.subplan)
        .is_some_and(|s| s.reads.is_empty());
    if independent && op == CompareOp::Equal && !is_float(&left) {
        let found = cx.with_subplan(call.subplan, |state| {
            member(state, call, &left, value, collation, cx)
        })?;
        if let Some(found) = found {
            return Ok(found);
        }
    }
    let found = remembered(call, Some(&left), collation, cx, |state| {
        cx.restart(call.subplan, state)?;
        let mut unknown = false;
        while advance(state, cx)? {
            for row in state.batch.rows() {
                match compare(&left, &*value.get(row, cx)?, collation) {
                    Some(order) if holds(op, order) => return Ok(Value::Bit(true)),
                    Some(_) => {}
                    None => unknown = true,
                }
            }
        }
        Ok(if unknown {
            Value::Null
        } else {
            Value::Bit(false)
        })
    })?;
    Ok(match found {
        Value::Bit(b) => Some(b),
        _ => None,
    })
}

/// Is `left` among the values of a subquery that depends on nothing? `None` when keys cannot tell.
fn member(
    state: &mut SubplanState,
    call: &SubqueryCall,
    left: &Value,
    value: &Expr,
    collation: CollationId,
    cx: &Ctx<'_>,
) -> Result<Option<Option<bool>>> {
    let set = match state.set.take() {
        Some(set) => set,
        None => {
            cx.restart(call.subplan, state)?;
            let mut set = ValueSet::default();
            while advance(state, cx)? {
                for row in state.batch.rows() {
                    let value = value.get(row, cx)?;
                    if value.is_null() {
                        set.has_null = true;
                        continue;
                    }
                    set.has_float |= is_float(&value);
                    let mut key = Vec::new();
                    write_key(&value, collation, &mut key);
                    cx.hold(key.len() + 48)?;
                    set.keys.insert(key);
                }
            }
            set
        }
    };
    let found = if set.has_float {
        None
    } else if left.is_null() {
        Some(if set.keys.is_empty() && !set.has_null {
            Some(false)
        } else {
            None
        })
    } else {
        let mut key = Vec::new();
        write_key(left, collation, &mut key);
        Some(if set.keys.contains(&key) {
            Some(true)
        } else if set.has_null {
            None
        } else {
            Some(false)
        })
    };
    state.set = Some(set);
    Ok(found)
}

fn is_float(value: &Value) -> bool {
    matches!(value, Value::Float(_) | Value::Real(_) | Value::Variant(_))
}

fn advance(state: &mut SubplanState, cx: &Ctx<'_>) -> Result<bool> {
    match &mut state.operator {
        Some(operator) => operator.next(cx, &mut state.batch),
        None => Ok(false),
    }
}

fn more_than_one() -> SqlError {
    SqlError::new(
        512,
        16,
        1,
        "Subquery returned more than 1 value. This is not permitted when the subquery follows =, !=, <, <= , >, >= or when \
         the subquery is used as an expression.",
    )
}
