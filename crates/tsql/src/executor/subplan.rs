//! Subqueries evaluated for the rows around them.
//!
//! Theory: the row's values become parameters; the result is remembered by the parameters that the subquery reads, so a
//! subquery without any runs once, and one that meets the same values again does not run at all. An IN subquery that is asked for
//! another value under the same parameters gives all its values, once, to a set.

use super::context::{Ctx, Known, SubplanState, ValueSet};
use super::expr::{Expr, SubqueryCall, holds};
use crate::error::{Result, SqlError};
use daruma_syntax::ast::CompareOp;
use daruma_value::compare::{compare, write_key};
use daruma_value::{CollationId, Value};

/// Remembered results of one subquery; beyond this it starts anew.
const MEMO_MAX: usize = 65_536;
/// Memory of the sets of one subquery that depends on the rows around it; beyond this they begin anew.
const SETS_BYTES_MAX: usize = 16 << 20;
/// What a key of a set takes beside its bytes.
const KEY_BYTES: usize = 48;

fn bind(call: &SubqueryCall, row: &[Value], cx: &Ctx<'_>) -> Result<()> {
    for (expr, slot) in &call.bind {
        let value = expr.eval(row, cx)?;
        cx.set_param(*slot, value);
    }
    Ok(())
}

/// The present values of the parameters that a subquery reads. They are told apart exactly, not as a collation would.
fn read_key(call: &SubqueryCall, cx: &Ctx<'_>) -> Vec<u8> {
    let mut key = Vec::new();
    if let Some(subplan) = cx.plan.subplans.get(call.subplan) {
        for slot in &subplan.reads {
            write_key(&cx.param(*slot), CollationId::BIN2, &mut key);
        }
    }
    key
}

/// Finds or computes a result for what `key` tells of parameters.
fn remembered(
    call: &SubqueryCall,
    key: Vec<u8>,
    cx: &Ctx<'_>,
    run: impl FnOnce(&mut SubplanState) -> Result<Value>,
) -> Result<Value> {
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
    remembered(call, read_key(call, cx), cx, |state| {
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
    let found = remembered(call, read_key(call, cx), cx, |state| {
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
    let parameters = read_key(call, cx);
    let is_keyed = op == CompareOp::Equal && !is_float(&left);
    let among = |state: &mut SubplanState| {
        let set = match is_keyed {
            true => set_under(state, call, &parameters, value, collation, cx)?,
            false => None,
        };
        // Keys of approximate numbers tell nothing.
        let set = set.filter(|set| !set.has_float);
        Ok(set.map(|set| set.contains(&left, collation)))
    };
    if parameters.is_empty()
        && let Some(found) = cx.with_subplan(call.subplan, among)?
    {
        return Ok(found);
    }
    let mut key = parameters.clone();
    write_key(&left, collation, &mut key);
    let found = remembered(call, key, cx, |state| {
        if !parameters.is_empty()
            && let Some(found) = among(state)?
        {
            return Ok(found.map_or(Value::Null, Value::Bit));
        }
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

/// All values of a subquery under the present parameters. `None` where they are not worth it: a set takes all rows of the subquery, an answer
/// perhaps a few, so one that depends on the rows around it has a set when it is asked again.
fn set_under<'s>(
    state: &'s mut SubplanState,
    call: &SubqueryCall,
    parameters: &[u8],
    value: &Expr,
    collation: CollationId,
    cx: &Ctx<'_>,
) -> Result<Option<&'s ValueSet>> {
    let depends = !parameters.is_empty();
    let known = match state.sets.get(parameters) {
        Some(Known::Values(_) | Known::TooMany) => None,
        None if depends => Some(Known::Asked),
        None | Some(Known::Asked) => {
            Some(known_values(state, call, depends, value, collation, cx)?)
        }
    };
    if let Some(known) = known {
        let bytes = match &known {
            Known::Values(set) if depends => set.bytes,
            _ => 0,
        };
        if state.set_bytes + bytes > SETS_BYTES_MAX || state.sets.len() >= MEMO_MAX {
            state.sets.clear();
            cx.release(std::mem::take(&mut state.set_bytes));
        }
        state.set_bytes += bytes;
        state.sets.insert(parameters.to_vec(), known);
    }
    Ok(match state.sets.get(parameters) {
        Some(Known::Values(set)) => Some(set),
        Some(Known::Asked | Known::TooMany) | None => None,
    })
}

/// The values of a subquery, unless those of one that depends on the rows around it are too many to be kept.
fn known_values(
    state: &mut SubplanState,
    call: &SubqueryCall,
    depends: bool,
    value: &Expr,
    collation: CollationId,
    cx: &Ctx<'_>,
) -> Result<Known> {
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
            let bytes = key.len() + KEY_BYTES;
            if depends && set.bytes + bytes > SETS_BYTES_MAX / 4 {
                cx.release(set.bytes);
                return Ok(Known::TooMany);
            }
            if set.keys.insert(key) {
                cx.hold(bytes)?;
                set.bytes += bytes;
            }
        }
    }
    Ok(Known::Values(set))
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
