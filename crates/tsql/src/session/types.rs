//! Names of data types: built in and alias types.

use super::execution::Execution;
use crate::error::Result;
use crate::host::Host;
use crate::messages;
use daruma_catalog::{SCHEMA_DBO, SCHEMA_SYS};
use daruma_syntax::ast::{TypeArg, TypeName};
use daruma_value::{DataType, Decimal, Len, Value};

/// `user_type_id` of `sysname`.
pub(crate) const SYSNAME_TYPE_ID: i32 = 256;

/// A built-in type by name with its arguments; -1 stands for `max`. `None` when there is no such type.
pub fn named_type(name: &str, args: &[i64]) -> Option<Result<DataType>> {
    let lower = name.to_ascii_lowercase();
    Some(match lower.as_str() {
        "bit" => plain(DataType::Bit, &lower, args),
        "tinyint" => plain(DataType::TinyInt, &lower, args),
        "smallint" => plain(DataType::SmallInt, &lower, args),
        "int" | "integer" => plain(DataType::Int, &lower, args),
        "bigint" => plain(DataType::BigInt, &lower, args),
        "decimal" | "numeric" | "dec" => decimal(args),
        "money" => plain(DataType::Money, &lower, args),
        "smallmoney" => plain(DataType::SmallMoney, &lower, args),
        "real" => plain(DataType::Real, &lower, args),
        "float" => float(args),
        "date" => plain(DataType::Date, &lower, args),
        "time" => scaled(args, |scale| DataType::Time { scale }),
        "datetime" => plain(DataType::DateTime, &lower, args),
        "smalldatetime" => plain(DataType::SmallDateTime, &lower, args),
        "datetime2" => scaled(args, |scale| DataType::DateTime2 { scale }),
        "datetimeoffset" => scaled(args, |scale| DataType::DateTimeOffset { scale }),
        "char" | "character" => length(args, 8_000, false, DataType::Char, &lower),
        "varchar" => length(args, 8_000, true, DataType::VarChar, &lower),
        "nchar" => length(args, 4_000, false, DataType::NChar, &lower),
        "nvarchar" => length(args, 4_000, true, DataType::NVarChar, &lower),
        "binary" => length(args, 8_000, false, DataType::Binary, &lower),
        "varbinary" => length(args, 8_000, true, DataType::VarBinary, &lower),
        "text" => plain(DataType::Text, &lower, args),
        "ntext" => plain(DataType::NText, &lower, args),
        "image" => plain(DataType::Image, &lower, args),
        "uniqueidentifier" => plain(DataType::UniqueIdentifier, &lower, args),
        "rowversion" | "timestamp" => plain(DataType::RowVersion, &lower, args),
        "sql_variant" => plain(DataType::Variant, &lower, args),
        "xml" => Ok(DataType::Xml),
        "hierarchyid" => plain(DataType::HierarchyId, &lower, args),
        "geography" => plain(DataType::Geography, &lower, args),
        "geometry" => plain(DataType::Geometry, &lower, args),
        "sysname" => plain(DataType::SYSNAME, &lower, args),
        _ => return None,
    })
}

fn plain(data_type: DataType, name: &str, args: &[i64]) -> Result<DataType> {
    match args {
        [] => Ok(data_type),
        _ => Err(messages::error(2716, &[&1, &name])),
    }
}

fn decimal(args: &[i64]) -> Result<DataType> {
    let (precision, scale) = match args {
        [] => (18, 0),
        [p] => (*p, 0),
        [p, s, ..] => (*p, *s),
    };
    if !(1..=38).contains(&precision) {
        return Err(messages::error(2750, &[&1, &precision, &38]));
    }
    if !(0..=precision).contains(&scale) {
        return Err(messages::error(2751, &[&1, &scale, &precision]));
    }
    Ok(DataType::Decimal {
        precision: precision as u8,
        scale: scale as u8,
    })
}

fn float(args: &[i64]) -> Result<DataType> {
    match args {
        [] | [25..=53] => Ok(DataType::Float),
        [1..=24] => Ok(DataType::Real),
        [n, ..] => Err(messages::error(2750, &[&1, n, &53])),
    }
}

fn scaled(args: &[i64], make: impl Fn(u8) -> DataType) -> Result<DataType> {
    match args {
        [] => Ok(make(7)),
        [n @ 0..=7] => Ok(make(*n as u8)),
        [n, ..] => Err(messages::error(1002, &[&1, n])),
    }
}

fn length(
    args: &[i64],
    max: i64,
    large: bool,
    make: impl Fn(Len) -> DataType,
    name: &str,
) -> Result<DataType> {
    match args {
        [] => Ok(make(Len(1))),
        [-1] if large => Ok(make(Len::MAX)),
        [0] => Err(messages::error(1001, &[&1, &0])),
        [n] if (1..=max).contains(n) => Ok(make(Len(*n as u16))),
        [n, ..] => Err(messages::error(131, &[n, &"type", &name, &max])),
    }
}

/// Integer `value` of an identity column or sequence as a value of its type.
pub(crate) fn integer_value(value: i128, data_type: DataType) -> Result<Value> {
    let overflow = || messages::error(8115, &[&"numeric", &data_type.error_name()]);
    Ok(match data_type {
        DataType::TinyInt => Value::TinyInt(value.try_into().map_err(|_| overflow())?),
        DataType::SmallInt => Value::SmallInt(value.try_into().map_err(|_| overflow())?),
        DataType::Int => Value::Int(value.try_into().map_err(|_| overflow())?),
        DataType::Decimal { precision, .. } => {
            checked_integer(value, data_type, "numeric")?;
            Value::Decimal(Decimal::new(value, precision, 0))
        }
        _ => Value::BigInt(value.try_into().map_err(|_| overflow())?),
    })
}

/// Does the type hold `value`? Error 8115 names what was being converted.
pub(crate) fn checked_integer(value: i128, data_type: DataType, what: &str) -> Result<i128> {
    let (low, high) = integer_range(data_type);
    match (low..=high).contains(&value) {
        true => Ok(value),
        false => Err(messages::error(8115, &[&what, &data_type.error_name()])),
    }
}

/// Does the type hold `value`?
pub(crate) fn integer_fits(value: i128, data_type: DataType) -> bool {
    checked_integer(value, data_type, "").is_ok()
}

/// Smallest and largest integer that a type can hold.
pub(crate) fn integer_range(data_type: DataType) -> (i128, i128) {
    match data_type {
        DataType::TinyInt => (0, 255),
        DataType::SmallInt => (i128::from(i16::MIN), i128::from(i16::MAX)),
        DataType::Int => (i128::from(i32::MIN), i128::from(i32::MAX)),
        DataType::Decimal { precision, .. } => {
            let high = 10_i128.pow(u32::from(precision.min(38))) - 1;
            (-high, high)
        }
        _ => (i128::from(i64::MIN), i128::from(i64::MAX)),
    }
}

/// Arguments as [`named_type`] takes them.
pub(crate) fn type_arguments(name: &TypeName) -> Vec<i64> {
    name.args
        .iter()
        .filter_map(|a| match a {
            TypeArg::Number(n) => Some(i64::from(*n)),
            TypeArg::Max => Some(-1),
            TypeArg::XmlSchema { .. } => None,
        })
        .collect()
}

impl Execution<'_> {
    /// A type as written, with the nullability and id of an alias type.
    pub(crate) fn type_of(&self, name: &TypeName) -> Result<(DataType, Option<bool>, Option<i32>)> {
        // Schema collections cannot be made, so none exists.
        let collection = |a: &TypeArg| match a {
            TypeArg::XmlSchema { collection, .. } => Some(collection.dotted()),
            _ => None,
        };
        if let Some(collection) = name.args.iter().find_map(collection) {
            return Err(messages::error(6314, &[&collection]));
        }
        let args = type_arguments(name);
        let schema = name.schema.as_ref().map(|s| s.text.as_str());
        self.resolve_type_name(schema, &name.name.text, &args)
    }

    pub(crate) fn resolve_type_name(
        &self,
        schema: Option<&str>,
        name: &str,
        args: &[i64],
    ) -> Result<(DataType, Option<bool>, Option<i32>)> {
        let builtin = schema.is_none_or(|s| s.eq_ignore_ascii_case("sys"));
        if builtin && let Some(found) = named_type(name, args) {
            let alias = name.eq_ignore_ascii_case("sysname");
            return found.map(|t| (t, alias.then_some(false), alias.then_some(SYSNAME_TYPE_ID)));
        }
        let catalog = self.state.catalog(self.current_database())?;
        let schema_id = match schema {
            Some(schema) => catalog.schema_named(schema).map(|s| s.id),
            None => Some(SCHEMA_DBO),
        };
        let found = schema_id.and_then(|id| catalog.type_named(id, name));
        let found = found.or_else(|| {
            catalog
                .type_named(SCHEMA_SYS, name)
                .filter(|_| schema.is_none())
        });
        match found {
            Some(def) if def.table.is_none() => {
                Ok((def.data_type, Some(def.nullable), Some(def.id)))
            }
            _ => {
                let full = schema.map_or(name.to_string(), |s| format!("{s}.{name}"));
                Err(messages::error(2715, &[&1, &full]))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_limits() {
        let t = |name: &str, args: &[i64]| named_type(name, args).unwrap();
        assert_eq!(t("NVarChar", &[-1]).unwrap(), DataType::NVARCHAR_MAX);
        assert_eq!(
            t("numeric", &[]).unwrap(),
            DataType::Decimal {
                precision: 18,
                scale: 0
            }
        );
        assert_eq!(t("float", &[24]).unwrap(), DataType::Real);
        assert_eq!(
            t("datetime2", &[3]).unwrap(),
            DataType::DateTime2 { scale: 3 }
        );
        assert_eq!(t("decimal", &[39, 0]).unwrap_err().number, 2750);
        assert_eq!(t("decimal", &[10, 11]).unwrap_err().number, 2751);
        assert_eq!(t("varchar", &[9_000]).unwrap_err().number, 131);
        assert_eq!(t("int", &[4]).unwrap_err().number, 2716);
        assert!(named_type("no_such", &[]).is_none());
    }

    #[test]
    fn integers_fit_or_overflow() {
        assert_eq!(
            integer_value(255, DataType::TinyInt).unwrap(),
            Value::TinyInt(255)
        );
        assert_eq!(
            integer_value(256, DataType::TinyInt).unwrap_err().number,
            8115
        );
        assert_eq!(
            checked_integer(
                10,
                DataType::Decimal {
                    precision: 1,
                    scale: 0
                },
                "x"
            )
            .unwrap_err()
            .number,
            8115
        );
    }
}
