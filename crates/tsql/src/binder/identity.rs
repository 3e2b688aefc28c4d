//! IDENTITY(type, seed, increment) in SELECT INTO: a new column that numbers the rows.
//!
//! The call arrives as a function with the type as its first argument. To a plan it is its seed, in a column that is
//! marked; who makes the table counts on from there, in the order in which the rows come.

use super::Numbering;
use super::tree::{Kind, Scalar, Type};
use crate::dml::identity_value;
use crate::error::Result;
use crate::messages;
use daruma_syntax::ast::{Expr, FunctionCall, Literal, UnaryOp};
use daruma_value::DataType;

/// What stands between the parentheses.
pub struct IdentityCall {
    /// `None`: none that numbers rows.
    data_type: Option<DataType>,
    pub seed: i128,
    pub increment: i128,
}

impl IdentityCall {
    /// The call that an item of a select list is, if it is one; error 102 when it is not well written.
    pub fn of(expr: &Expr) -> Option<Result<IdentityCall>> {
        let Expr::Function(call) = expr else {
            return None;
        };
        let is_named = call.name.is_bare() && call.name.name.is("IDENTITY") && call.over.is_none();
        is_named.then(|| IdentityCall::read(call))
    }

    fn read(call: &FunctionCall) -> Result<IdentityCall> {
        let number = |at: usize| call.args.get(at).map_or(Some(1), whole);
        match (&call.args[..], number(1), number(2)) {
            ([_] | [_, _, _], Some(seed), Some(increment)) => Ok(IdentityCall {
                data_type: call.args.first().and_then(type_of),
                seed,
                increment,
            }),
            _ => Err(messages::error(102, &[&"IDENTITY"])),
        }
    }

    pub(super) fn numbering(&self) -> Numbering {
        Numbering {
            seed: self.seed,
            increment: self.increment,
        }
    }

    /// The first value as a constant, for the new column of this name: errors 2749, 2752 and 2753.
    pub(super) fn seed(&self, name: &str) -> Result<Scalar> {
        let Some(data_type) = self.data_type else {
            return Err(messages::error_state(2749, 2, &[&name]));
        };
        if self.increment == 0 {
            return Err(messages::error(2753, &[&name]));
        }
        let seed = identity_value(self.seed, data_type);
        let seed = seed.map_err(|_| messages::error(2752, &[&name]))?;
        Ok(Scalar::new(Kind::Const(seed), Type::new(data_type, false)))
    }
}

fn whole(expr: &Expr) -> Option<i128> {
    match expr {
        Expr::Literal(Literal::Integer(digits)) => digits.parse().ok(),
        Expr::Unary { op, expr } => match op {
            UnaryOp::Minus => whole(expr).map(|n| -n),
            UnaryOp::Plus => whole(expr),
            _ => None,
        },
        _ => None,
    }
}

fn type_of(expr: &Expr) -> Option<DataType> {
    let (name, precision) = match expr {
        Expr::Column(column) if column.table.is_none() => (&column.name, None),
        Expr::Function(call) if call.name.is_bare() => match &call.args[..] {
            [precision] => (&call.name.name, Some(whole(precision)?)),
            [precision, scale] if whole(scale)? == 0 => (&call.name.name, Some(whole(precision)?)),
            _ => return None,
        },
        _ => return None,
    };
    let is_decimal = ["decimal", "dec", "numeric"].iter().any(|n| name.is(n));
    let found = match precision {
        _ if is_decimal => DataType::Decimal {
            precision: u8::try_from(precision.unwrap_or(18)).ok()?,
            scale: 0,
        },
        Some(_) => return None,
        None if name.is("tinyint") => DataType::TinyInt,
        None if name.is("smallint") => DataType::SmallInt,
        None if name.is("int") || name.is("integer") => DataType::Int,
        None if name.is("bigint") => DataType::BigInt,
        None => return None,
    };
    let is_known = |p: u8| (1..=38).contains(&p);
    match found {
        DataType::Decimal { precision, .. } if !is_known(precision) => None,
        found => Some(found),
    }
}
