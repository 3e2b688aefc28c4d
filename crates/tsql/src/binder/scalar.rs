//! Calls of the value room's scalar functions: argument counts and result types.

use super::tree::*;
use crate::error::Result;
use daruma_value::functions;
use daruma_value::{DataType, Value, VariantValue};

/// Functions that give a value even when an argument is NULL.
const NEVER_NULL: &[&str] = &[
    "GETDATE",
    "GETUTCDATE",
    "SYSDATETIME",
    "SYSUTCDATETIME",
    "SYSDATETIMEOFFSET",
    "CURRENT_TIMESTAMP",
    "PI",
    "CONCAT",
    "NEWID",
    "CHECKSUM",
    "BINARY_CHECKSUM",
    "ISNUMERIC",
    "ISDATE",
];

/// Functions that give NULL for NULL alone. What is in neither list may give NULL for any arguments.
const TOTAL: &[&str] = &[
    "LEN",
    "DATALENGTH",
    "LEFT",
    "RIGHT",
    "CHARINDEX",
    "PATINDEX",
    "REPLACE",
    "REVERSE",
    "UPPER",
    "LOWER",
    "LTRIM",
    "RTRIM",
    "TRIM",
    "TRANSLATE",
    "CONCAT_WS",
    "SOUNDEX",
    "DIFFERENCE",
    "ABS",
    "SIGN",
    "CEILING",
    "FLOOR",
    "ROUND",
    "POWER",
    "SQRT",
    "SQUARE",
    "EXP",
    "LOG",
    "LOG10",
    "DATEADD",
    "DATEDIFF",
    "DATEDIFF_BIG",
    "DAY",
    "MONTH",
    "YEAR",
    "EOMONTH",
    "GREATEST",
    "LEAST",
    "ISNULL",
    "COALESCE",
];

/// The base type of a decimal literal is numeric. Everywhere else the two names mean one type, called decimal.
fn base_type_of_literal(def: &functions::FunctionDef, args: &[Scalar]) -> Option<Scalar> {
    let [literal, property] = args else {
        return None;
    };
    let is_literal = matches!(literal.kind, Kind::Const(Value::Decimal(_)));
    let asked =
        matches!(&property.kind, Kind::Const(Value::Str(p)) if p.eq_ignore_ascii_case("BaseType"));
    if def.name != "SQL_VARIANT_PROPERTY" || !is_literal || !asked {
        return None;
    }
    let name = VariantValue {
        data_type: DataType::SYSNAME,
        value: Value::str("numeric"),
    };
    let value = Value::Variant(Box::new(name));
    let ty = Type::new(DataType::Variant, true);
    Some(Scalar::new(Kind::Const(value), ty))
}

/// Does the function of this upper-case name give a value even when an argument is NULL?
pub(super) fn is_never_null(name: &str) -> bool {
    NEVER_NULL.contains(&name)
}

/// `None` when there is no such function.
pub(super) fn bind(name: &str, args: &[Scalar]) -> Option<Result<Scalar>> {
    let def = functions::lookup(name)?;
    Some(bind_known(def, args))
}

/// A bare NULL takes the type of the first argument that has one.
fn nulls_typed(args: &[Scalar]) -> Vec<Scalar> {
    let typed = args.iter().find(|a| !a.is_null_literal());
    let data_type = typed.map_or(DataType::Int, |a| a.ty.data_type);
    let retype = |a: &Scalar| match a.is_null_literal() {
        true => Scalar::null(data_type),
        false => a.clone(),
    };
    args.iter().map(retype).collect()
}

fn bind_known(def: &'static functions::FunctionDef, args: &[Scalar]) -> Result<Scalar> {
    if let Some(literal) = base_type_of_literal(def, args) {
        return Ok(literal);
    }
    let retyped;
    let args = match def.name {
        "GREATEST" | "LEAST" => {
            retyped = nulls_typed(args);
            &retyped
        }
        _ => args,
    };
    let types: Vec<DataType> = args.iter().map(|a| a.ty.data_type).collect();
    let data_type = def.result_type(&types)?;
    let mut args = args.to_vec();
    if def.takes_date_part
        && let Some(first) = args.first_mut()
        && let Kind::Const(Value::Str(part)) = &first.kind
    {
        let Some(known) = daruma_value::temporal::DatePart::parse(part) else {
            let function = def.name.to_ascii_lowercase();
            return Err(daruma_value::ValueError::new(155, 1, &[part, &function]).into());
        };
        // One spelling and one type of each part, so that an expression of GROUP BY is found again whatever its abbreviation.
        let name = Value::Str(known.name().into());
        *first = Scalar::constant(name.clone(), name.natural_type());
    }
    let nullable = match def.name {
        name if is_never_null(name) => false,
        name if TOTAL.contains(&name) => args.iter().any(|a| a.ty.nullable),
        _ => true,
    };
    // Text keeps the strongest collation among the arguments.
    let mut ty = Type::new(data_type, nullable);
    for arg in args.iter().filter(|a| a.ty.data_type.is_character()) {
        if arg.ty.coercion > ty.coercion || ty.coercion == Coercion::Default {
            ty.collation = arg.ty.collation;
            ty.coercion = arg.ty.coercion;
        }
    }
    Ok(Scalar::new(
        Kind::Call {
            name: def.name.into(),
            args,
        },
        ty,
    ))
}
