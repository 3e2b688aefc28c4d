//! OPENXML: nodes of a document that the session has prepared, as rows.
//!
//! Theory: the row pattern gives the rows; a column is found by its own pattern or, without one, as the attribute or element
//! of its name. Without WITH the nodes and all that is in them are edges. Patterns are read when the rows are asked for,
//! since their prefixes are those of the document: what is wrong with one is error 6603.

use super::open_json::typed;
use super::xml::{HostMeter, told};
use crate::error::{Result, SqlError};
use crate::host::{Host, VirtualTable, check_cancel};
use crate::messages;
use crate::sink::OutputColumn;
use daruma_base::DatabaseId;
use daruma_value::{CollationId, DataType, Value};
use daruma_xml::{Edge, Error, Found, Mapping, NodeId, Pattern, Prepared};
use std::ops::RangeInclusive;

/// Rows between two looks at the cancel flag and the memory.
const LOOK_ROWS: usize = 256;
/// The flag that leaves out of `@mp:xmltext` what other columns have taken.
const REST_ONLY: i64 = 8;

/// A column of the WITH clause, or of the table that it names.
pub struct XmlColumn {
    pub output: OutputColumn,
    /// Without one the column is found by this name.
    pub pattern: Option<String>,
    pub name: String,
}

/// OPENXML with its columns, of which an edge table has none.
pub struct OpenXml {
    columns: Vec<OutputColumn>,
    schema: Vec<XmlColumn>,
}

impl OpenXml {
    /// `schema` is empty without WITH.
    pub fn new(schema: Vec<XmlColumn>, collation: CollationId) -> OpenXml {
        let column = |name: &str, data_type, nullable| OutputColumn {
            name: name.into(),
            data_type,
            collation,
            nullable,
            identity: false,
            computed: true,
        };
        let columns = match schema.is_empty() {
            true => vec![
                column("id", DataType::BigInt, false),
                column("parentid", DataType::BigInt, true),
                column("nodetype", DataType::Int, false),
                column("localname", DataType::NVARCHAR_MAX, false),
                column("prefix", DataType::NVARCHAR_MAX, true),
                column("namespaceuri", DataType::NVARCHAR_MAX, true),
                column("datatype", DataType::NVARCHAR_MAX, true),
                column("prev", DataType::BigInt, true),
                column("text", DataType::NText, true),
            ],
            false => schema.iter().map(|c| c.output.clone()).collect(),
        };
        OpenXml { columns, schema }
    }

    /// What each column is found by: errors 6603.
    fn patterns(&self, document: &Prepared, flags: i64) -> Result<Vec<Option<Pattern>>> {
        let pattern = |column: &XmlColumn| {
            let Some(text) = &column.pattern else {
                return Ok(None);
            };
            let pattern = document.pattern(text).map_err(|e| refused(&e))?;
            let is_text = pattern.meta().is_some_and(|meta| meta.is_text());
            match is_text && flags & REST_ONLY != 0 {
                true => Err(messages::not_supported(
                    "@mp:xmltext with the flag 8 of OPENXML",
                )),
                false => Ok(Some(pattern)),
            }
        };
        self.schema.iter().map(pattern).collect()
    }

    fn row(
        &self,
        document: &Prepared,
        node: NodeId,
        patterns: &[Option<Pattern>],
        mapping: Mapping,
        host: &dyn Host,
    ) -> Result<Vec<Value>> {
        let meter = HostMeter::new(host);
        let cell = |(column, pattern): (&XmlColumn, &Option<Pattern>)| {
            let as_markup = column.output.data_type == DataType::Xml;
            let found = match pattern {
                Some(pattern) => document.cell(pattern, node, as_markup, &meter),
                None => document.named(&column.name, node, mapping, as_markup, &meter),
            };
            match found.map_err(|e| meter.told(e, "OPENXML"))? {
                None => Ok(Value::Null),
                Some(Found::Number(n)) => Ok(typed(&n.to_string(), &column.output, host)?),
                Some(Found::Text(text)) => Ok(typed(&text, &column.output, host)?),
            }
        };
        self.schema.iter().zip(patterns).map(cell).collect()
    }
}

/// Error 6603 for a pattern.
fn refused(error: &Error) -> SqlError {
    let error = told(error.clone(), "OPENXML");
    let words = error
        .message
        .split_once("]: ")
        .map_or(&*error.message, |(_, words)| words);
    messages::error_state(6603, 2, &[&words])
}

fn mapping(flags: i64) -> Mapping {
    match flags & 3 {
        2 => Mapping::Elements,
        3 => Mapping::Both,
        _ => Mapping::Attributes,
    }
}

fn edge_row(edge: Edge) -> Vec<Value> {
    let number = |n: Option<i64>| n.map_or(Value::Null, Value::BigInt);
    let text = |t: Option<String>| t.map_or(Value::Null, Value::str);
    vec![
        Value::BigInt(edge.id),
        number(edge.parent),
        Value::Int(edge.kind),
        Value::str(edge.local),
        text(edge.prefix),
        text(edge.namespace),
        Value::Null,
        number(edge.previous),
        text(edge.text),
    ]
}

impl VirtualTable for OpenXml {
    fn name(&self) -> &str {
        "OPENXML"
    }

    fn columns(&self) -> &[OutputColumn] {
        &self.columns
    }

    fn arguments(&self) -> RangeInclusive<usize> {
        2..=3
    }

    fn rows(&self, host: &dyn Host, _: DatabaseId, arguments: &[Value]) -> Result<Vec<Vec<Value>>> {
        let handle = arguments.first().and_then(Value::as_i64).unwrap_or(0);
        let document = host.xml_document(handle)?;
        let Some(Value::Str(pattern)) = arguments.get(1) else {
            return Ok(Vec::new());
        };
        let flags = arguments.get(2).and_then(Value::as_i64).unwrap_or(0);
        let meter = HostMeter::new(host);
        let pattern = document.pattern(pattern).map_err(|e| refused(&e))?;
        let nodes = document.nodes(&pattern, None, &meter);
        let nodes = nodes.map_err(|e| match e {
            Error::Query { .. } => refused(&e),
            other => meter.told(other, "OPENXML"),
        })?;
        let mut rows = Vec::new();
        let mut add = |row: Vec<Value>| {
            if rows.len().is_multiple_of(LOOK_ROWS) {
                check_cancel(host)?;
            }
            host.check_memory(row.iter().map(Value::outside_bytes).sum())?;
            rows.push(row);
            Ok::<(), SqlError>(())
        };
        if self.schema.is_empty() {
            let edges = document.edges(&nodes, &meter);
            for edge in edges.map_err(|e| meter.told(e, "OPENXML"))? {
                add(edge_row(edge))?;
            }
            return Ok(rows);
        }
        let patterns = self.patterns(&document, flags)?;
        for node in nodes {
            add(self.row(&document, node, &patterns, mapping(flags), host)?)?;
        }
        Ok(rows)
    }
}
