//! OPENJSON: the members of an object or the elements of an array as rows.
//!
//! Without WITH a row is key, value and kind. With it, each row is an object whose columns are looked for along paths; an
//! object at the top is one row.

use crate::error::Result;
use crate::host::{Host, VirtualTable, check_cancel};
use crate::messages;
use crate::sink::OutputColumn;
use daruma_base::DatabaseId;
use daruma_value::convert::{ConvertContext, convert};
use daruma_value::functions::json::{container_of, scalar_of};
use daruma_value::json::{self, Kind, Node, Path, base64};
use daruma_value::{CollationId, DataType, Len, Value, ValueError};
use std::ops::RangeInclusive;

/// Rows between two looks at the cancel flag and the memory.
const LOOK_ROWS: usize = 256;

/// A column of the WITH clause.
pub struct JsonColumn {
    pub output: OutputColumn,
    /// From the row's value.
    pub path: Path,
    pub is_json: bool,
}

/// OPENJSON with the columns of its WITH clause, if it has one.
pub struct OpenJson {
    columns: Vec<OutputColumn>,
    schema: Vec<JsonColumn>,
}

impl OpenJson {
    /// `schema` is empty without WITH.
    pub fn new(schema: Vec<JsonColumn>) -> OpenJson {
        let column = |name: &str, data_type, collation, nullable| OutputColumn {
            name: name.into(),
            data_type,
            collation,
            nullable,
            identity: false,
            computed: true,
        };
        let binary = CollationId::from_name("Latin1_General_BIN2").unwrap_or(CollationId::DEFAULT);
        let columns = match schema.is_empty() {
            true => vec![
                column("key", DataType::NVarChar(Len(4000)), binary, false),
                column("value", DataType::NVARCHAR_MAX, CollationId::DEFAULT, true),
                column("type", DataType::TinyInt, CollationId::DEFAULT, false),
            ],
            false => schema.iter().map(|c| c.output.clone()).collect(),
        };
        OpenJson { columns, schema }
    }

    fn typed_row(&self, node: Node<'_>, host: &dyn Host) -> Result<Vec<Value>> {
        let cell = |column: &JsonColumn| {
            let found = column.path.look(node)?;
            let is_strict = column.path.is_strict;
            let text = match column.is_json {
                true => container_of(found, is_strict)?.map(str::to_string),
                false => scalar_of(found, is_strict)?,
            };
            match text {
                Some(text) => Ok(typed(&text, &column.output, host)?),
                None => Ok(Value::Null),
            }
        };
        self.schema.iter().map(cell).collect()
    }
}

/// The text as a value of the column.
pub(super) fn typed(
    text: &str,
    column: &OutputColumn,
    host: &dyn Host,
) -> std::result::Result<Value, ValueError> {
    let context = ConvertContext {
        date_format: host.settings().dateformat,
        collation: column.collation,
    };
    if let (DataType::NVarChar(Len::MAX), text) = (column.data_type, text) {
        return Ok(Value::str(text));
    }
    let (value, from) = match column.data_type.is_binary() {
        true => {
            let bytes = base64::decode(text);
            let refused = || ValueError::conversion(DataType::NVARCHAR_MAX, column.data_type);
            let binary = DataType::VarBinary(Len::MAX);
            (Value::Bytes(bytes.ok_or_else(refused)?), binary)
        }
        false => (Value::str(text), DataType::NVARCHAR_MAX),
    };
    convert(&value, from, column.data_type, None, &context)
}

fn plain_row(key: Value, node: Node<'_>) -> Vec<Value> {
    let value = match node.kind {
        Kind::Null => Value::Null,
        _ => Value::str(node.content()),
    };
    vec![key, value, Value::TinyInt(node.kind as u8)]
}

impl VirtualTable for OpenJson {
    fn name(&self) -> &str {
        "OPENJSON"
    }

    fn columns(&self) -> &[OutputColumn] {
        &self.columns
    }

    fn arguments(&self) -> RangeInclusive<usize> {
        1..=2
    }

    fn rows(&self, host: &dyn Host, _: DatabaseId, arguments: &[Value]) -> Result<Vec<Vec<Value>>> {
        let Some(Value::Str(text)) = arguments.first() else {
            return Ok(Vec::new());
        };
        let path = match arguments.get(1) {
            None => Path::default(),
            Some(Value::Str(path)) => Path::parse(path)?,
            Some(_) => return Ok(Vec::new()),
        };
        let Some(node) = path.look(json::parse_container(text)?)? else {
            return Ok(Vec::new());
        };
        if !node.is_container() {
            return match path.is_strict {
                true => Err(messages::error(13611, &[])),
                false => Ok(Vec::new()),
            };
        }
        let mut rows = Vec::new();
        let mut add = |row: Vec<Value>| {
            if rows.len().is_multiple_of(LOOK_ROWS) {
                check_cancel(host)?;
            }
            let held: usize = row.iter().map(Value::outside_bytes).sum();
            host.check_memory(held)?;
            rows.push(row);
            Ok::<(), crate::error::SqlError>(())
        };
        match (node.kind, self.schema.is_empty()) {
            (Kind::Object, true) => {
                for (key, value) in node.members() {
                    add(plain_row(Value::str(key), value))?;
                }
            }
            (_, true) => {
                for (at, value) in node.elements().enumerate() {
                    add(plain_row(Value::str(at.to_string()), value))?;
                }
            }
            (Kind::Object, false) => add(self.typed_row(node, host)?)?,
            (_, false) => {
                for value in node.elements() {
                    add(self.typed_row(value, host)?)?;
                }
            }
        }
        Ok(rows)
    }
}
