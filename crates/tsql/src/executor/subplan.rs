//! Subqueries evaluated for the rows around them.
//!
//! Theory: the row's values become parameters; the result is remembered by what the subquery reads of them (`planner::remembered`), so a
//! subquery that reads nothing runs once, and one that meets the same values again does not run at all. One that is compared by IN, ANY or ALL
//! and asked for another value under the same parameters gives all its values, once, to a set (`value_set`). One that would give
//! other values each time (NEWID) is not remembered where it looks at the row around it.

use super::context::{Ctx, Known, SubplanState};
use super::expr::{Expr, SubqueryCall, holds};
use super::value_set::ValueSet;
use crate::error::{Result, SqlError};
use daruma_syntax::ast::CompareOp;
use daruma_value::compare::{compare, write_key};
use daruma_value::{CollationId, Value};

/// Sets of values of one subquery; beyond this they begin anew.
const SETS_MAX: usize = 65_536;
/// First bytes of a key that stands for computed values, for the parameters in their place, and of text or bytes in one.
const COMPUTED: u8 = 1;
const AS_READ: u8 = 0;
const SIZED: u8 = u8::MAX;
/// Memory of the sets of one subquery that depends on the rows around it; beyond this they begin anew.
const SETS_BYTES_MAX: usize = 16 << 20;

fn bind(call: &SubqueryCall, row: &[Value], cx: &Ctx<'_>) -> Result<()> {
    for (expr, slot) in &call.bind {
        let value = expr.eval(row, cx)?;
        cx.set_param(*slot, value);
    }
    Ok(())
}

/// What a subquery reads of the rows around it, at present. Values are told apart exactly, not as a collation would.
/// `None`: it runs anew each time.
fn read_key(call: &SubqueryCall, cx: &Ctx<'_>) -> Option<Vec<u8>> {
    let mut key = Vec::new();
    let Some(subplan) = cx.plan.subplans.get(call.subplan) else {
        return Some(key);
    };
    if subplan.is_volatile && !subplan.reads.is_empty() {
        return None;
    }
    if !subplan.key.is_empty() {
        // The two kinds of keys do not meet.
        key.push(COMPUTED);
        if write_computed(&subplan.key, &mut key, cx).is_ok() {
            return Some(key);
        }
        key.clear();
        key.push(AS_READ);
    }
    for slot in &subplan.reads {
        write_exact(&cx.param(*slot), &mut key);
    }
    Some(key)
}

/// Writes the values of expressions over the parameters. Errors are theirs: the subquery may never evaluate what fails here.
fn write_computed(parts: &[Expr], key: &mut Vec<u8>, cx: &Ctx<'_>) -> Result<()> {
    for part in parts {
        write_exact(&part.eval(&[], cx)?, key);
    }
    Ok(())
}

/// Writes a value so that no other one of its type has the same bytes: blanks and zeros at the end count, and what a time's offset and
/// a variant's type are. Keys of several values may be joined.
fn write_exact(value: &Value, key: &mut Vec<u8>) {
    match value {
        // Zero has a sign.
        Value::Float(number) => write_sized(&number.to_bits().to_be_bytes(), key),
        Value::Real(number) => write_sized(&number.to_bits().to_be_bytes(), key),
        Value::Str(text) => write_sized(text.as_bytes(), key),
        Value::Bytes(bytes) => write_sized(bytes, key),
        Value::DateTimeOffset(time) => {
            write_key(value, CollationId::BIN2, key);
            key.extend_from_slice(&time.offset_minutes.to_le_bytes());
        }
        Value::Variant(variant) => {
            write_sized(format!("{:?}", variant.data_type).as_bytes(), key);
            write_exact(&variant.value, key);
        }
        _ => write_key(value, CollationId::BIN2, key),
    }
}

fn write_sized(bytes: &[u8], key: &mut Vec<u8>) {
    // No other key begins so.
    key.push(SIZED);
    key.extend_from_slice(&bytes.len().to_le_bytes());
    key.extend_from_slice(bytes);
}

/// Finds or computes a result for what `key` tells of parameters; without a key it is computed.
fn remembered(
    call: &SubqueryCall,
    key: Option<Vec<u8>>,
    cx: &Ctx<'_>,
    run: impl FnOnce(&mut SubplanState) -> Result<Value>,
) -> Result<Value> {
    cx.with_subplan(call.subplan, |state| {
        let Some(key) = key else {
            return run(state);
        };
        if let Some(known) = state.memo.get(&key) {
            return Ok(known.clone());
        }
        let value = run(state)?;
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
    let is_fixed = parameters.as_ref().is_some_and(Vec::is_empty);
    let among = |state: &mut SubplanState| {
        let set = match &parameters {
            Some(parameters) => {
                let new = || ValueSet::new(op, collation);
                set_under(state, call, parameters, new, value, cx)?
            }
            None => None,
        };
        Ok(set.and_then(|set| set.answer(&left)))
    };
    if is_fixed && let Some(found) = cx.with_subplan(call.subplan, among)? {
        return Ok(found);
    }
    let key = parameters.clone().map(|mut key| {
        write_key(&left, collation, &mut key);
        key
    });
    let found = remembered(call, key, cx, |state| {
        if !is_fixed && let Some(found) = among(state)? {
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
/// perhaps a few, so a set is made when it is asked again. IN without parameters mostly is.
fn set_under<'s>(
    state: &'s mut SubplanState,
    call: &SubqueryCall,
    parameters: &[u8],
    new: impl Fn() -> ValueSet,
    value: &Expr,
    cx: &Ctx<'_>,
) -> Result<Option<&'s ValueSet>> {
    let depends = !parameters.is_empty();
    let known = match state.sets.get(parameters) {
        Some(Known::Values(_) | Known::TooMany) => None,
        None if depends || new().is_of_ends() => Some(Known::Asked),
        None | Some(Known::Asked) => Some(known_values(state, call, depends, new(), value, cx)?),
    };
    if let Some(known) = known {
        let bytes = match &known {
            Known::Values(set) if depends => set.bytes(),
            _ => 0,
        };
        if state.set_bytes + bytes > SETS_BYTES_MAX || state.sets.len() >= SETS_MAX {
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

/// The values of a subquery in a set, unless those of one that depends on the rows around it are too many to be kept.
fn known_values(
    state: &mut SubplanState,
    call: &SubqueryCall,
    depends: bool,
    mut set: ValueSet,
    value: &Expr,
    cx: &Ctx<'_>,
) -> Result<Known> {
    cx.restart(call.subplan, state)?;
    while advance(state, cx)? {
        for row in state.batch.rows() {
            let taken = set.add(&*value.get(row, cx)?);
            cx.hold(taken)?;
            if depends && set.bytes() > SETS_BYTES_MAX / 4 {
                cx.release(set.bytes());
                return Ok(Known::TooMany);
            }
        }
    }
    Ok(Known::Values(set))
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
