//! Calls of the value room's scalar functions: argument counts and result types.

use super::tree::*;
use crate::error::Result;
use daruma_value::functions;
use daruma_value::{DataType, Value};

/// Functions that give a value even when an argument is NULL; results of others are NULL then.
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

/// `None` when there is no such function.
pub(super) fn bind(name: &str, args: &[Scalar]) -> Option<Result<Scalar>> {
    let def = functions::lookup(name)?;
    Some(bind_known(def, args))
}

fn bind_known(def: &'static functions::FunctionDef, args: &[Scalar]) -> Result<Scalar> {
    let types: Vec<DataType> = args.iter().map(|a| a.ty.data_type).collect();
    let data_type = def.result_type(&types)?;
    if def.takes_date_part
        && let Some(Kind::Const(Value::Str(part))) = args.first().map(|a| &a.kind)
        && daruma_value::temporal::DatePart::parse(part).is_none()
    {
        let function = def.name.to_ascii_lowercase();
        return Err(daruma_value::ValueError::new(155, 1, &[&part, &function]).into());
    }
    let nullable = !NEVER_NULL.contains(&def.name)
        && (args.is_empty() || args.iter().any(|a| a.ty.nullable))
        || matches!(
            def.name,
            "DATEFROMPARTS"
                | "SUBSTRING"
                | "STUFF"
                | "PARSENAME"
                | "QUOTENAME"
                | "SQL_VARIANT_PROPERTY"
        );
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
            args: args.to_vec(),
        },
        ty,
    ))
}
