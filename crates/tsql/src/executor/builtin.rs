//! Table functions that need nothing but their arguments: STRING_SPLIT, GENERATE_SERIES.

use crate::binder::tree::Type;
use crate::error::{Result, SqlError};
use crate::host::{Host, VirtualTable};
use crate::sink::OutputColumn;
use daruma_base::DatabaseId;
use daruma_value::types::common_type;
use daruma_value::{CollationId, DataType, Value, ValueError};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Rows that one call may give.
const SERIES_ROWS_MAX: i128 = 100_000_000;

/// The function of this name, for a first argument of this type and this many arguments.
pub(crate) fn builtin_table(
    name: &str,
    first: Option<Type>,
    count: usize,
) -> Result<Option<Arc<dyn VirtualTable>>> {
    let table: Arc<dyn VirtualTable> = match name.to_ascii_uppercase().as_str() {
        "STRING_SPLIT" => {
            let ty = first.unwrap_or(Type::new(DataType::NVARCHAR_MAX, true));
            let data_type = if ty.data_type.is_character() {
                ty.data_type
            } else {
                DataType::NVARCHAR_MAX
            };
            let mut columns = vec![column("value", data_type, ty.collation)];
            if count > 2 {
                columns.push(column("ordinal", DataType::BigInt, CollationId::DEFAULT));
            }
            Arc::new(StringSplit { columns })
        }
        "GENERATE_SERIES" => {
            let data_type = first.map_or(DataType::Int, |t| t.data_type);
            let data_type = common_type(data_type, DataType::Int).unwrap_or(DataType::Int);
            Arc::new(Series {
                columns: vec![column("value", data_type, CollationId::DEFAULT)],
            })
        }
        _ => return Ok(None),
    };
    Ok(Some(table))
}

fn column(name: &str, data_type: DataType, collation: CollationId) -> OutputColumn {
    OutputColumn {
        name: name.into(),
        data_type,
        collation,
        nullable: false,
        identity: false,
        computed: true,
    }
}

struct StringSplit {
    columns: Vec<OutputColumn>,
}

impl VirtualTable for StringSplit {
    fn name(&self) -> &str {
        "STRING_SPLIT"
    }

    fn columns(&self) -> &[OutputColumn] {
        &self.columns
    }

    fn arguments(&self) -> RangeInclusive<usize> {
        2..=3
    }

    fn rows(&self, _: &dyn Host, _: DatabaseId, arguments: &[Value]) -> Result<Vec<Vec<Value>>> {
        let [Value::Str(text), Value::Str(separator), ..] = arguments else {
            return Ok(Vec::new());
        };
        let mut chars = separator.chars();
        let (Some(separator), None) = (chars.next(), chars.next()) else {
            return Err(SqlError::new(
                214,
                16,
                11,
                "Procedure expects parameter 'separator' of type 'nchar(1)/nvarchar(1)'.",
            ));
        };
        let row = |(n, part): (usize, &str)| vec![Value::str(part), Value::BigInt(n as i64 + 1)];
        Ok(text.split(separator).enumerate().map(row).collect())
    }
}

struct Series {
    columns: Vec<OutputColumn>,
}

impl VirtualTable for Series {
    fn name(&self) -> &str {
        "GENERATE_SERIES"
    }

    fn columns(&self) -> &[OutputColumn] {
        &self.columns
    }

    fn arguments(&self) -> RangeInclusive<usize> {
        2..=3
    }

    fn rows(&self, _: &dyn Host, _: DatabaseId, arguments: &[Value]) -> Result<Vec<Vec<Value>>> {
        let number = |n: usize| arguments.get(n).and_then(Value::as_i64);
        let (Some(start), Some(stop)) = (number(0), number(1)) else {
            return Ok(Vec::new());
        };
        let step = match arguments.get(2) {
            None => {
                if stop >= start {
                    1
                } else {
                    -1
                }
            }
            Some(_) => number(2).unwrap_or(0),
        };
        if step == 0 {
            return Err(SqlError::new(
                4199,
                16,
                1,
                "Argument value 0 is invalid for argument 3 of generate_series function.",
            ));
        }
        if (i128::from(stop) - i128::from(start)) / i128::from(step) >= SERIES_ROWS_MAX {
            return Err(crate::binder::too_complex());
        }
        let data_type = self.columns.first().map_or(DataType::Int, |c| c.data_type);
        let mut rows = Vec::new();
        let mut n = start;
        while (step > 0 && n <= stop) || (step < 0 && n >= stop) {
            rows.push(vec![
                Value::integer(n, data_type)
                    .ok_or_else(|| ValueError::expression_overflow(data_type))?,
            ]);
            let Some(next) = n.checked_add(step) else {
                break;
            };
            n = next;
        }
        Ok(rows)
    }
}
