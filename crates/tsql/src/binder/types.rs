//! Types where expressions meet: what must be converted, which collation wins.
//!
//! Theory: the value room knows precedence and results; this file puts conversions into trees. A conversion that changes
//! no value (a shorter `varchar` to a longer `nvarchar`) is left out, so that index seeks and fast paths see the column.

use super::tree::{Coercion, Kind, Scalar, Type};
use crate::error::{Result, SqlError};
use daruma_value::types::{self, BinaryOp};
use daruma_value::{CollationId, DataType, Len};

/// Does every value of `from` mean the same in `to` without any change of its representation?
pub fn same_representation(from: DataType, to: DataType) -> bool {
    use DataType::*;
    if from == to {
        return true;
    }
    let fits = |a: Len, b: Len| b.is_max() || (!a.is_max() && a.0 <= b.0);
    match (from, to) {
        (VarChar(a) | Char(a), VarChar(b))
        | (VarChar(a) | NVarChar(a) | Char(a) | NChar(a), NVarChar(b)) => fits(a, b),
        (Text | NText, NVarChar(l)) | (Text, VarChar(l)) => l.is_max(),
        (VarBinary(a) | Binary(a), VarBinary(b)) => fits(a, b),
        _ => false,
    }
}

/// Can values of both types be compared as they are? The value room compares numbers with numbers and old temporal
/// types with each other whatever their precision.
fn compares_directly(a: DataType, b: DataType) -> bool {
    let days = |t| {
        matches!(
            t,
            DataType::Date
                | DataType::SmallDateTime
                | DataType::DateTime
                | DataType::DateTime2 { .. }
        )
    };
    a == b
        || a.is_numeric() && b.is_numeric()
        || a.is_character() && b.is_character()
        || a.is_binary() && b.is_binary()
        || days(a) && days(b)
        || matches!((a, b), (DataType::Time { .. }, DataType::Time { .. }))
        || matches!(
            (a, b),
            (
                DataType::DateTimeOffset { .. },
                DataType::DateTimeOffset { .. }
            )
        )
}

/// Collation of an expression over two operands: the stronger claim wins. `Err` names both when they clash.
pub fn collate(
    a: Type,
    b: Type,
) -> std::result::Result<(CollationId, Coercion), (CollationId, CollationId)> {
    let textual = |t: Type| t.data_type.is_character();
    match (textual(a), textual(b)) {
        (_, false) => return Ok((a.collation, a.coercion)),
        (false, true) => return Ok((b.collation, b.coercion)),
        _ => {}
    }
    if a.collation == b.collation {
        return Ok((a.collation, a.coercion.max(b.coercion)));
    }
    match (a.coercion, b.coercion) {
        (Coercion::Explicit, Coercion::Explicit) => Err((a.collation, b.collation)),
        (x, y) if x > y => Ok((a.collation, x)),
        (x, y) if y > x => Ok((b.collation, y)),
        (Coercion::Default, _) => Ok((b.collation, Coercion::Default)),
        _ => Err((a.collation, b.collation)),
    }
}

/// Implicit conversion, left out where it changes nothing: errors 206, 257.
pub fn convert(scalar: Scalar, to: DataType) -> Result<Scalar> {
    if scalar.is_null_literal() {
        return Ok(Scalar::null(to));
    }
    let from = scalar.ty.data_type;
    if from == to {
        return Ok(scalar);
    }
    types::check_implicit(from, to)?;
    if same_representation(from, to) && !scalar.is_cut_to_type() {
        let ty = scalar.ty.with(to);
        return Ok(Scalar { ty, ..scalar });
    }
    Ok(make_convert(scalar, to, true))
}

/// A conversion that fails at run time with the product's numbers; `implicit` chooses among them.
pub fn make_convert(scalar: Scalar, to: DataType, implicit: bool) -> Scalar {
    let mut ty = scalar.ty.with(to);
    if !scalar.ty.data_type.is_character() {
        ty.collation = CollationId::DEFAULT;
        ty.coercion = Coercion::Default;
    }
    Scalar::new(
        Kind::Convert {
            input: Box::new(scalar),
            style: None,
            is_try: false,
            implicit,
        },
        ty,
    )
}

/// Brings two operands of a comparison together. The collation is that of the left type afterwards: error 468.
pub fn comparable(left: Scalar, right: Scalar, operator: &str) -> Result<(Scalar, Scalar)> {
    let (l, r) = match (left.is_null_literal(), right.is_null_literal()) {
        (true, false) => (Scalar::null(right.ty.data_type), right),
        (false, true) => {
            let data_type = left.ty.data_type;
            (left, Scalar::null(data_type))
        }
        _ => (left, right),
    };
    let (a, b) = (l.ty.data_type, r.ty.data_type);
    let common = types::comparison_type(a, b, operator)?;
    let (mut l, mut r) = if compares_directly(a, b) {
        (l, r)
    } else {
        (convert(l, common)?, convert(r, common)?)
    };
    let (collation, coercion) = collate(l.ty, r.ty).map_err(|(x, y)| conflict(x, y, operator))?;
    // Of two columns with different collations nobody knows which one compares.
    if coercion == Coercion::None {
        return Err(conflict(l.ty.collation, r.ty.collation, operator));
    }
    for side in [&mut l, &mut r] {
        side.ty.collation = collation;
        side.ty.coercion = coercion;
    }
    Ok((l, r))
}

fn conflict(a: CollationId, b: CollationId, operator: &str) -> SqlError {
    SqlError::new(
        468,
        16,
        9,
        format!(
            "Cannot resolve the collation conflict between \"{}\" and \"{}\" in the {operator} operation.",
            a.name(),
            b.name()
        ),
    )
}

/// The error where branches of a set operation have texts of different collations: 468, 451 for UNION ALL.
pub fn branch_conflict(scalars: &[Scalar], operator: &str, column: usize) -> Option<SqlError> {
    let mut texts = scalars
        .iter()
        .filter(|s| s.ty.data_type.is_character() && s.ty.coercion != Coercion::Default);
    let first = texts.next()?.ty.collation;
    let other = texts.map(|s| s.ty.collation).find(|c| *c != first)?;
    Some(match operator {
        "UNION ALL" => crate::messages::error(
            451,
            &[&first.name(), &other.name(), &operator, &"SELECT", &column],
        ),
        _ => conflict(first, other, operator),
    })
}

/// Converts all to their common type, as CASE, COALESCE and VALUES do. NULL literals follow the others.
pub fn unify(scalars: &mut [Scalar]) -> Result<Type> {
    let mut joined: Option<Type> = None;
    let mut nullable = false;
    for scalar in scalars.iter() {
        nullable |= scalar.ty.nullable;
        if scalar.is_null_literal() {
            continue;
        }
        joined = Some(match joined {
            None => scalar.ty,
            Some(so_far) => {
                let data_type = types::common_type(so_far.data_type, scalar.ty.data_type)?;
                let (collation, coercion) =
                    collate(so_far, scalar.ty).unwrap_or((so_far.collation, Coercion::None));
                Type {
                    data_type,
                    collation,
                    coercion,
                    nullable: false,
                }
            }
        });
    }
    let ty = joined
        .unwrap_or(Type::new(DataType::Int, true))
        .nullable(nullable);
    for scalar in scalars {
        let taken = std::mem::replace(scalar, Scalar::null(DataType::Int));
        *scalar = convert(taken, ty.data_type)?;
    }
    Ok(ty)
}

/// `left op right` with conversions: errors 402, 8117, 206.
pub fn binary(op: BinaryOp, left: Scalar, right: Scalar) -> Result<Scalar> {
    let (l, r) = match (left.is_null_literal(), right.is_null_literal()) {
        (true, false) => (Scalar::null(right.ty.data_type), right),
        (false, true) => {
            let data_type = left.ty.data_type;
            (left, Scalar::null(data_type))
        }
        _ => (left, right),
    };
    let (a, b) = (l.ty.data_type, r.ty.data_type);
    let (l, r) = match (a, b) {
        (DataType::Decimal { .. }, _) => (l, digits_only(r)),
        (_, DataType::Decimal { .. }) => (digits_only(l), r),
        _ => (l, r),
    };
    let data_type = types::binary_result_type(op, l.ty.data_type, r.ty.data_type)?;
    let nullable = l.ty.nullable || r.ty.nullable;
    if data_type.is_character() || data_type.is_binary() && op == BinaryOp::Add {
        let (collation, coercion) = collate(l.ty, r.ty).map_err(|(x, y)| conflict(x, y, "add"))?;
        let ty = Type {
            data_type,
            nullable,
            collation,
            coercion,
        };
        return Ok(Scalar::new(Kind::Concat(Box::new(l), Box::new(r)), ty));
    }
    // Text becomes what the other side is; everything else is computed with as it is.
    let adapt = |side: Scalar, other: DataType| {
        if side.ty.data_type.is_character() {
            convert(
                side,
                if other.is_character() {
                    data_type
                } else {
                    other
                },
            )
        } else {
            Ok(side)
        }
    };
    let (l, r) = (adapt(l, b)?, adapt(r, a)?);
    let kind = Kind::Arith {
        op,
        left: Box::new(l),
        right: Box::new(r),
    };
    Ok(Scalar::new(kind, Type::new(data_type, nullable)))
}

/// An integer literal beside a decimal has as many digits as it shows.
fn digits_only(scalar: Scalar) -> Scalar {
    match &scalar.kind {
        Kind::Const(value) if scalar.ty.data_type.is_integer() => match value.as_i64() {
            Some(n) => {
                let decimal = daruma_value::Decimal::from_i64(n);
                Scalar::constant(daruma_value::Value::Decimal(decimal), decimal.data_type())
            }
            None => scalar,
        },
        _ => scalar,
    }
}

/// Declared length for a text or binary of `n` units.
pub fn literal_len(n: usize, bound: u16) -> Len {
    match u16::try_from(n) {
        Ok(n) if n <= bound => Len(n.max(1)),
        _ => Len::MAX,
    }
}
