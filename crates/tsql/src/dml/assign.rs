//! Conversion of a value to the column it goes into.
//!
//! Theory: whether the types can meet is decided when the statement is prepared; values then convert one by one. Most
//! values have their column's form already and pass untouched.

use super::errors;
use crate::error::Result;
use crate::host::{Host, TableRef};
use daruma_catalog::ColumnDef;
use daruma_value::convert::{ColumnName, ConvertContext, fit_to_column};
use daruma_value::{DataType, Value, types};

/// Converts values to a column's type as an assignment does: what is too long is error 2628.
pub struct Assign {
    from: DataType,
    to: DataType,
    context: ConvertContext,
    /// `database.schema.table` and column, for 2628.
    place: Option<(String, String)>,
    /// Longest ASCII text that fits a column of variable length.
    ascii_max: Option<usize>,
    /// The source is the NULL literal.
    always_null: bool,
}

impl Assign {
    /// Fails with 206 or 257 when no implicit conversion exists.
    pub fn into_column(
        from: DataType,
        table: &TableRef,
        column: &ColumnDef,
        host: &dyn Host,
    ) -> Result<Assign> {
        let mut assign = Assign::new(from, column, host)?;
        assign.place = Some((errors::three_part(table), column.name.clone()));
        Ok(assign)
    }

    /// The type of a value for a column that comes without a type of its own: NULL is of any.
    pub fn type_of(value: &Value, column: &ColumnDef) -> DataType {
        match value.is_null() {
            true => column.data_type,
            false => value.natural_type(),
        }
    }

    /// Without a table to name: truncation is 8152.
    pub fn new(from: DataType, column: &ColumnDef, host: &dyn Host) -> Result<Assign> {
        types::check_implicit(from, column.data_type)?;
        Ok(Assign::unchecked(from, column, host))
    }

    /// From text of a data file, which becomes whatever the column is.
    pub fn from_text(table: &TableRef, column: &ColumnDef, host: &dyn Host) -> Assign {
        let from = if column.data_type.is_binary() {
            DataType::VARBINARY_MAX
        } else {
            DataType::NVARCHAR_MAX
        };
        let mut assign = Assign::unchecked(from, column, host);
        assign.place = Some((errors::three_part(table), column.name.clone()));
        assign
    }

    fn unchecked(from: DataType, column: &ColumnDef, host: &dyn Host) -> Assign {
        let to = column.data_type;
        let ascii_max = match to {
            DataType::VarChar(len) | DataType::NVarChar(len) if len.is_max() => Some(usize::MAX),
            DataType::VarChar(len) | DataType::NVarChar(len) => Some(usize::from(len.0)),
            _ => None,
        };
        let context = ConvertContext {
            date_format: host.settings().dateformat,
            collation: column.collation,
        };
        Assign {
            from,
            to,
            context,
            place: None,
            ascii_max,
            always_null: false,
        }
    }

    /// NULL goes into any column.
    pub fn null() -> Assign {
        Assign {
            from: DataType::Int,
            to: DataType::Int,
            context: ConvertContext::default(),
            place: None,
            ascii_max: None,
            always_null: true,
        }
    }

    /// The value as the column stores it.
    #[inline]
    pub fn convert(&self, value: Value) -> Result<Value> {
        match &value {
            Value::Null => return Ok(Value::Null),
            Value::Str(text)
                if self.ascii_max.is_some_and(|max| text.len() <= max) && text.is_ascii() =>
            {
                return Ok(value);
            }
            _ if self.always_null => return Ok(Value::Null),
            _ => {}
        }
        let place = self
            .place
            .as_ref()
            .map(|(table, column)| ColumnName { table, column });
        Ok(fit_to_column(
            value,
            self.from,
            self.to,
            &self.context,
            place,
        )?)
    }
}
