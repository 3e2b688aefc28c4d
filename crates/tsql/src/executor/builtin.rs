//! Table functions that need nothing but their arguments: STRING_SPLIT, GENERATE_SERIES.

use crate::binder::tree::{Kind, Scalar, Type};
use crate::error::{Result, SqlError};
use crate::host::{Host, LazyRows, VirtualTable, check_cancel};
use crate::messages;
use crate::sink::OutputColumn;
use daruma_base::DatabaseId;
use daruma_value::decimal::{PRECISION_MAX, power_of_ten};
use daruma_value::types::common_type;
use daruma_value::{CollationId, DataType, Decimal, Value, ValueError};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Rows between two looks at the cancel flag and the memory.
const LOOK_ROWS: usize = 1024;

/// The function of this name, for these arguments.
pub(crate) fn builtin_table(name: &str, args: &[Scalar]) -> Result<Option<Arc<dyn VirtualTable>>> {
    let first = args.first().map(|a| a.ty);
    let table: Arc<dyn VirtualTable> = match name.to_ascii_uppercase().as_str() {
        "STRING_SPLIT" => {
            let ty = first.unwrap_or(Type::new(DataType::NVARCHAR_MAX, true));
            let data_type = if ty.data_type.is_character() {
                ty.data_type
            } else {
                DataType::NVARCHAR_MAX
            };
            let mut columns = vec![column("value", data_type, ty.collation)];
            if args.get(2).map_or(Ok(false), has_ordinal)? {
                columns.push(column("ordinal", DataType::BigInt, CollationId::DEFAULT));
            }
            Arc::new(StringSplit { columns })
        }
        "GENERATE_SERIES" => {
            let columns = vec![column("value", series_type(args)?, CollationId::DEFAULT)];
            Arc::new(Series { columns })
        }
        _ => return Ok(None),
    };
    Ok(Some(table))
}

/// Does the third argument of STRING_SPLIT ask for the column of numbers? It has to be known when the query is bound.
fn has_ordinal(argument: &Scalar) -> Result<bool> {
    match &argument.kind {
        Kind::Const(value) => Ok(value.as_i64().is_some_and(|n| n != 0)),
        Kind::Convert { input, .. } => has_ordinal(input),
        _ => Err(SqlError::new(
            8748,
            16,
            1,
            "The enable_ordinal argument for STRING_SPLIT only supports constant values (not variables or columns).",
        )),
    }
}

/// The one type of the numbers of a series; a NULL goes with each. Error 5373 for others, and for several.
fn series_type(args: &[Scalar]) -> Result<DataType> {
    let same = |a, b| match (a, b) {
        (DataType::Decimal { .. }, DataType::Decimal { .. }) => common_type(a, b).ok(),
        _ => (a == b).then_some(a),
    };
    let mut found = None;
    for arg in args.iter().filter(|a| !a.is_null_literal()) {
        let given = arg.ty.data_type;
        let is_number = match given {
            DataType::Bit => false,
            DataType::Decimal { .. } => true,
            other => other.is_integer(),
        };
        let joined = found.map_or(Some(given), |found| same(found, given));
        found = joined.filter(|_| is_number);
        if found.is_none() {
            return Err(messages::error(5373, &[]));
        }
    }
    Ok(found.unwrap_or(DataType::Int))
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

    fn rows(&self, host: &dyn Host, _: DatabaseId, arguments: &[Value]) -> Result<Vec<Vec<Value>>> {
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
        let mut rows = Vec::new();
        for (n, part) in text.split(separator).enumerate() {
            look_at(&rows, host)?;
            rows.push(vec![Value::str(part), Value::BigInt(n as i64 + 1)]);
        }
        Ok(rows)
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

    fn rows(
        &self,
        host: &dyn Host,
        database: DatabaseId,
        arguments: &[Value],
    ) -> Result<Vec<Vec<Value>>> {
        let mut rows = Vec::new();
        for row in self.stream(host, database, arguments)? {
            look_at(&rows, host)?;
            rows.push(row?);
        }
        Ok(rows)
    }

    fn stream(&self, _: &dyn Host, _: DatabaseId, arguments: &[Value]) -> Result<LazyRows> {
        let data_type = self.columns.first().map_or(DataType::Int, |c| c.data_type);
        let (precision, scale) = match data_type {
            DataType::Decimal { precision, scale } => (precision, scale),
            _ => (PRECISION_MAX, 0),
        };
        // Every number is counted in units of the scale.
        let number = |n: usize| match arguments.get(n).and_then(Value::as_decimal) {
            None => Ok(None),
            Some(number) => number.rescale(precision, scale).map(|n| Some(n.unscaled())),
        };
        let (Some(start), Some(stop)) = (number(0)?, number(1)?) else {
            return Ok(Box::new(std::iter::empty()));
        };
        let one = power_of_ten(scale);
        let step = match arguments.len() {
            0..=2 if stop >= start => one,
            0..=2 => -one,
            _ => match number(2)? {
                Some(step) => step,
                None => return Ok(Box::new(std::iter::empty())),
            },
        };
        if step == 0 {
            return Err(SqlError::new(
                4199,
                16,
                1,
                "Argument value 0 is invalid for argument 3 of generate_series function.",
            ));
        }
        let is_within = move |n: &i128| match step > 0 {
            true => *n <= stop,
            false => *n >= stop,
        };
        let numbers = std::iter::successors(Some(start), move |n| n.checked_add(step));
        let value = move |n: i128| {
            let value = match data_type {
                DataType::Decimal { .. } => Some(Value::Decimal(Decimal::new(n, precision, scale))),
                _ => i64::try_from(n)
                    .ok()
                    .and_then(|n| Value::integer(n, data_type)),
            };
            Ok(vec![value.ok_or_else(|| {
                ValueError::expression_overflow(data_type)
            })?])
        };
        Ok(Box::new(numbers.take_while(is_within).map(value)))
    }
}

/// Ends what nobody wants any more, or what takes too much memory, between two rows.
fn look_at(rows: &[Vec<Value>], host: &dyn Host) -> Result<()> {
    match rows.len().is_multiple_of(LOOK_ROWS) {
        true => check_cancel(host),
        false => Ok(()),
    }
}
