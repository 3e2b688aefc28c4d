//! Compiled expressions and conditions over a row of values.
//!
//! Theory: an expression tree is made once for each plan. Where two integers, money values or a column and a constant
//! meet, a short way answers without the general operators; everything else goes to the value room. `get` lends values
//! that exist already, so comparing columns copies nothing.
//!
//! Invariants
//! 1. Conditions have three values; `None` is unknown.
//! 2. No evaluation panics: a column that is not there reads as NULL.

use super::context::Ctx;
use super::function::ScalarFunction;
use super::subplan;
use crate::error::Result;
use crate::host::{UserFunction, cancelled};
use daruma_syntax::ast::{CompareOp, ObjectName};
use daruma_value::collation::LikePattern;
use daruma_value::compare::{compare, write_key};
use daruma_value::convert::{ConvertContext, convert, try_convert};
use daruma_value::types::BinaryOp;
use daruma_value::{CollationId, DataType, Value, ValueError, arithmetic};
use std::borrow::Cow;
use std::cell::Cell;
use std::cmp::Ordering;
use std::collections::HashSet;
use std::sync::Arc;

/// A compiled scalar: columns are positions of the input row.
pub enum Expr {
    Const(Value),
    Slot(usize),
    Param(usize),
    Variable(usize),
    Convert {
        input: Box<Expr>,
        from: DataType,
        to: DataType,
        style: Option<Box<Expr>>,
        is_try: bool,
        collation: CollationId,
    },
    Arith {
        op: BinaryOp,
        left: Box<Expr>,
        right: Box<Expr>,
        result: DataType,
    },
    Concat {
        left: Box<Expr>,
        right: Box<Expr>,
        result: DataType,
    },
    Negate(Box<Expr>, DataType),
    BitNot(Box<Expr>, DataType),
    Case {
        whens: Vec<(Cond, Expr)>,
        otherwise: Option<Box<Expr>>,
    },
    Coalesce(Vec<Expr>),
    Call {
        function: ScalarFunction,
        args: Vec<Expr>,
    },
    System {
        name: Arc<str>,
        args: Vec<Expr>,
    },
    UserFunction {
        function: Arc<UserFunction>,
        name: Arc<ObjectName>,
        args: Vec<Expr>,
    },
    NextValue(Arc<ObjectName>),
    /// The value is computed once; `Local` stands for it in the body.
    Let {
        value: Box<Expr>,
        body: Box<Expr>,
    },
    Local,
    Subquery(Box<SubqueryCall>),
    /// A condition as a bit.
    Cond(Box<Cond>),
    /// Deep in a tree: looks for stack first.
    Deep(Box<Expr>),
}

/// A subquery and the values it needs from the row around it.
pub struct SubqueryCall {
    pub subplan: usize,
    pub bind: Vec<(Expr, usize)>,
    /// Position of the wanted column.
    pub column: usize,
}

/// A compiled condition.
pub enum Cond {
    Const(Option<bool>),
    Compare {
        op: CompareOp,
        left: Expr,
        right: Expr,
        collation: CollationId,
    },
    And(Vec<Cond>),
    Or(Vec<Cond>),
    Not(Box<Cond>),
    IsNull(Expr),
    IsDistinct(Expr, Expr, CollationId),
    Like {
        expr: Expr,
        pattern: Expr,
        escape: Option<Expr>,
        collation: CollationId,
        /// The pattern when it is constant.
        compiled: Option<LikePattern>,
        trailing_blanks_ignored: bool,
    },
    InList {
        expr: Expr,
        list: Vec<Expr>,
        collation: CollationId,
    },
    /// IN over many constants.
    InSet {
        expr: Expr,
        keys: HashSet<Vec<u8>>,
        has_null: bool,
        collation: CollationId,
    },
    Exists(SubqueryCall),
    Any {
        call: SubqueryCall,
        op: CompareOp,
        expr: Expr,
        /// Over the subquery's row.
        value: Expr,
        collation: CollationId,
    },
    /// As [`Expr::Let`].
    Let {
        value: Expr,
        body: Box<Cond>,
    },
}

impl Expr {
    /// The value, lent where it exists already.
    #[inline]
    pub fn get<'a>(&'a self, row: &'a [Value], cx: &Ctx<'_>) -> Result<Cow<'a, Value>> {
        match self {
            Expr::Slot(slot) => Ok(Cow::Borrowed(row.get(*slot).unwrap_or(&Value::Null))),
            Expr::Const(value) => Ok(Cow::Borrowed(value)),
            other => other.eval(row, cx).map(Cow::Owned),
        }
    }

    /// The value over a row. Errors are the product's: 8134 for a division by zero, 8115, 245 and so on.
    pub fn eval(&self, row: &[Value], cx: &Ctx<'_>) -> Result<Value> {
        match self {
            Expr::Const(value) => Ok(value.clone()),
            Expr::Slot(slot) => Ok(row.get(*slot).cloned().unwrap_or(Value::Null)),
            Expr::Param(slot) => Ok(cx.param(*slot)),
            Expr::Variable(slot) => Ok(cx.variable(*slot)),
            Expr::Convert {
                input,
                from,
                to,
                style,
                is_try,
                collation,
            } => {
                let value = input.get(row, cx)?;
                let _promise = cx.promise(value.outside_bytes())?;
                let style = match style {
                    None => None,
                    Some(style) => match style.eval(row, cx)?.as_i64() {
                        Some(n) => Some(i32::try_from(n).unwrap_or(-1)),
                        None => return Ok(Value::Null),
                    },
                };
                let context = ConvertContext {
                    collation: *collation,
                    ..cx.convert
                };
                Ok(if *is_try {
                    try_convert(&value, *from, *to, style, &context)?
                } else {
                    convert(&value, *from, *to, style, &context)?
                })
            }
            Expr::Arith {
                op,
                left,
                right,
                result,
            } => {
                let (left, right) = (left.get(row, cx)?, right.get(row, cx)?);
                Ok(arith(*op, &left, &right, *result)?)
            }
            Expr::Concat {
                left,
                right,
                result,
            } => {
                let (left, right) = (left.get(row, cx)?, right.get(row, cx)?);
                concat(&left, &right, *result, cx)
            }
            Expr::Negate(input, data_type) => {
                Ok(arithmetic::negate(&*input.get(row, cx)?, *data_type)?)
            }
            Expr::BitNot(input, data_type) => {
                Ok(arithmetic::bitwise_not(&*input.get(row, cx)?, *data_type)?)
            }
            Expr::Case { whens, otherwise } => {
                for (when, then) in whens {
                    if when.eval(row, cx)? == Some(true) {
                        return then.eval(row, cx);
                    }
                }
                otherwise
                    .as_ref()
                    .map_or(Ok(Value::Null), |e| e.eval(row, cx))
            }
            Expr::Coalesce(list) => {
                for expr in list {
                    let value = expr.eval(row, cx)?;
                    if !value.is_null() {
                        return Ok(value);
                    }
                }
                Ok(Value::Null)
            }
            Expr::Call { function, args } => function.eval(args, row, cx),
            Expr::System { name, args } => {
                let args = args
                    .iter()
                    .map(|a| a.eval(row, cx))
                    .collect::<Result<Vec<_>>>()?;
                cx.note_volatile();
                cx.host.system_function(name, &args)
            }
            Expr::UserFunction { function, args, .. } => {
                let args = args
                    .iter()
                    .map(|a| a.eval(row, cx))
                    .collect::<Result<Vec<_>>>()?;
                cx.tick(1)?;
                cx.note_volatile();
                cx.host.call_function(function, args)
            }
            Expr::NextValue(name) => {
                cx.note_volatile();
                cx.host.next_sequence_value(name)
            }
            Expr::Let { value, body } => {
                let value = value.eval(row, cx)?;
                cx.with_local(value, || body.eval(row, cx))
            }
            Expr::Local => Ok(cx.local()),
            Expr::Subquery(call) => subplan::scalar(call, row, cx),
            Expr::Cond(cond) => Ok(cond.eval(row, cx)?.map_or(Value::Null, Value::Bit)),
            Expr::Deep(inner) => crate::binder::with_stack(|| inner.eval(row, cx)),
        }
    }
}

/// Integer and money sums without the general way round.
#[inline]
pub fn arith(
    op: BinaryOp,
    left: &Value,
    right: &Value,
    result: DataType,
) -> std::result::Result<Value, ValueError> {
    let overflow = || ValueError::expression_overflow(result);
    match (left, right, op) {
        (Value::Int(a), Value::Int(b), BinaryOp::Add) => {
            a.checked_add(*b).map(Value::Int).ok_or_else(overflow)
        }
        (Value::Int(a), Value::Int(b), BinaryOp::Subtract) => {
            a.checked_sub(*b).map(Value::Int).ok_or_else(overflow)
        }
        (Value::Int(a), Value::Int(b), BinaryOp::Multiply) => {
            a.checked_mul(*b).map(Value::Int).ok_or_else(overflow)
        }
        (Value::BigInt(a), Value::BigInt(b), BinaryOp::Add) => {
            a.checked_add(*b).map(Value::BigInt).ok_or_else(overflow)
        }
        (Value::Money(a), Value::Money(b), BinaryOp::Add) => {
            a.checked_add(*b).map(Value::Money).ok_or_else(overflow)
        }
        (Value::Money(a), Value::Money(b), BinaryOp::Subtract) => {
            a.checked_sub(*b).map(Value::Money).ok_or_else(overflow)
        }
        _ => arithmetic::evaluate(op, left, right, result),
    }
}

/// LIKE, which may take long.
pub(super) fn like(pattern: &LikePattern, text: &str, cx: &Ctx<'_>) -> Result<bool> {
    let stopped = Cell::new(false);
    let goes_on = || {
        stopped.set(cancelled(cx.host.cancel()).is_err());
        !stopped.get()
    };
    let found = pattern.matches(text, &goes_on);
    if stopped.get() {
        cancelled(cx.host.cancel())?;
    }
    Ok(found)
}

fn concat(left: &Value, right: &Value, result: DataType, cx: &Ctx<'_>) -> Result<Value> {
    let _promise = cx.promise(left.outside_bytes() + right.outside_bytes())?;
    let joined = match (left.is_null(), right.is_null()) {
        (true, true) => return Ok(Value::Null),
        (true, false) if !cx.settings.concat_null_yields_null => right.clone(),
        (false, true) if !cx.settings.concat_null_yields_null => left.clone(),
        (false, false) => arithmetic::concatenate(left, right)?.ok_or_else(|| {
            ValueError::incompatible_operands(left.natural_type(), right.natural_type(), "add")
        })?,
        _ => return Ok(Value::Null),
    };
    let length = match &joined {
        Value::Str(s) => s.len(),
        Value::Bytes(b) => b.len(),
        _ => 0,
    };
    match result.declared_len() {
        // Only a sum of lengths beyond the type's limit can be too long.
        Some(len) if !len.is_max() && length > usize::from(len.0) => {
            Ok(
                convert(&joined, DataType::NVARCHAR_MAX, result, None, &cx.convert)
                    .unwrap_or(joined),
            )
        }
        _ => Ok(joined),
    }
}

/// Does the comparison hold for operands in this order?
#[inline]
pub fn holds(op: CompareOp, order: Ordering) -> bool {
    match op {
        CompareOp::Equal => order == Ordering::Equal,
        CompareOp::NotEqual => order != Ordering::Equal,
        CompareOp::Less => order == Ordering::Less,
        CompareOp::LessOrEqual | CompareOp::NotGreater => order != Ordering::Greater,
        CompareOp::Greater => order == Ordering::Greater,
        CompareOp::GreaterOrEqual | CompareOp::NotLess => order != Ordering::Less,
    }
}

impl Cond {
    /// Does the condition accept the row? Unknown does not.
    #[inline]
    pub fn accepts(&self, row: &[Value], cx: &Ctx<'_>) -> Result<bool> {
        Ok(self.eval(row, cx)? == Some(true))
    }

    /// True, false, or `None` for unknown.
    pub fn eval(&self, row: &[Value], cx: &Ctx<'_>) -> Result<Option<bool>> {
        match self {
            Cond::Const(value) => Ok(*value),
            Cond::Compare {
                op,
                left,
                right,
                collation,
            } => {
                let (left, right) = (left.get(row, cx)?, right.get(row, cx)?);
                Ok(compare(&left, &right, *collation).map(|order| holds(*op, order)))
            }
            Cond::And(parts) => {
                let mut result = Some(true);
                for part in parts {
                    match part.eval(row, cx)? {
                        Some(false) => return Ok(Some(false)),
                        None => result = None,
                        Some(true) => {}
                    }
                }
                Ok(result)
            }
            Cond::Or(parts) => {
                let mut result = Some(false);
                for part in parts {
                    match part.eval(row, cx)? {
                        Some(true) => return Ok(Some(true)),
                        None => result = None,
                        Some(false) => {}
                    }
                }
                Ok(result)
            }
            Cond::Not(inner) => Ok(inner.eval(row, cx)?.map(|b| !b)),
            Cond::IsNull(expr) => Ok(Some(expr.get(row, cx)?.is_null())),
            Cond::IsDistinct(left, right, collation) => {
                let (left, right) = (left.get(row, cx)?, right.get(row, cx)?);
                Ok(Some(match (left.is_null(), right.is_null()) {
                    (true, true) => false,
                    (false, false) => compare(&left, &right, *collation) != Some(Ordering::Equal),
                    _ => true,
                }))
            }
            Cond::Like {
                expr,
                pattern,
                escape,
                collation,
                compiled,
                trailing_blanks_ignored,
            } => {
                let text = expr.get(row, cx)?;
                let Value::Str(text) = &*text else {
                    return Ok(None);
                };
                if let Some(compiled) = compiled {
                    return like(compiled, text, cx).map(Some);
                }
                let pattern = pattern.get(row, cx)?;
                let Value::Str(pattern) = &*pattern else {
                    return Ok(None);
                };
                let escape = escape.as_ref().map(|e| e.get(row, cx)).transpose()?;
                let escape = match escape.as_deref() {
                    None => None,
                    Some(Value::Str(s)) => Some(s.as_str()),
                    Some(_) => return Ok(None),
                };
                let pattern =
                    LikePattern::new(pattern, escape, *collation, *trailing_blanks_ignored)?;
                like(&pattern, text, cx).map(Some)
            }
            Cond::InList {
                expr,
                list,
                collation,
            } => {
                let value = expr.get(row, cx)?;
                if value.is_null() {
                    return Ok(None);
                }
                let mut result = Some(false);
                for member in list {
                    match compare(&value, &*member.get(row, cx)?, *collation) {
                        Some(Ordering::Equal) => return Ok(Some(true)),
                        None => result = None,
                        Some(_) => {}
                    }
                }
                Ok(result)
            }
            Cond::InSet {
                expr,
                keys,
                has_null,
                collation,
            } => {
                let value = expr.get(row, cx)?;
                if value.is_null() {
                    return Ok(None);
                }
                let mut key = Vec::with_capacity(32);
                write_key(&value, *collation, &mut key);
                Ok(if keys.contains(&key) {
                    Some(true)
                } else if *has_null {
                    None
                } else {
                    Some(false)
                })
            }
            Cond::Exists(call) => subplan::exists(call, row, cx).map(Some),
            Cond::Any {
                call,
                op,
                expr,
                value,
                collation,
            } => {
                let left = expr.eval(row, cx)?;
                subplan::any(call, *op, left, value, *collation, row, cx)
            }
            Cond::Let { value, body } => {
                let value = value.eval(row, cx)?;
                cx.with_local(value, || body.eval(row, cx))
            }
        }
    }
}
