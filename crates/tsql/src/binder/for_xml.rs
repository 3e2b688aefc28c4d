//! FOR XML PATH and RAW: the rows of a query as one text.
//!
//! Theory: each row becomes a text by concatenation, all rows are joined in their order by an aggregate without
//! separator. There is no XML type behind it: the result is `nvarchar(max)`. AUTO and EXPLICIT need a tree of elements
//! and are refused, as are nested paths in column names.

use super::query::{BoundQuery, OutColumn};
use super::tree::*;
use super::{Binder, types, unsupported};
use crate::error::Result;
use daruma_syntax::ast::{ForXmlMode, Literal, OptionItem, OptionValue};
use daruma_value::types::BinaryOp;
use daruma_value::{DataType, Value};

/// Name of the only column at the top of a statement.
const COLUMN: &str = "XML_F52E2B61-18A1-11d1-B105-00805F49916B";

impl Binder<'_> {
    pub(super) fn for_xml(
        &mut self,
        bound: BoundQuery,
        mode: ForXmlMode,
        element: Option<&str>,
        directives: &[OptionItem],
    ) -> Result<BoundQuery> {
        let row = element.unwrap_or("row");
        let text = match mode {
            ForXmlMode::Path => self.path_row(&bound.columns, row)?,
            ForXmlMode::Raw => self.raw_row(&bound.columns, row)?,
            ForXmlMode::Auto | ForXmlMode::Explicit => {
                return Err(unsupported("FOR XML AUTO or EXPLICIT"));
            }
        };
        let item = self.new_computed("", &text)?;
        let arg = self.column(item);
        let aggregate = Aggregate {
            function: AggregateFunction::StringAgg,
            arg: Some(arg),
            distinct: false,
            separator: Some(literal("")),
            order: Vec::new(),
        };
        let all = Scalar::new(
            Kind::Const(Value::Null),
            Type::new(DataType::NVARCHAR_MAX, true),
        );
        let id = self.new_computed(COLUMN, &all)?;
        let rel = Rel::Aggregate(Box::new(Grouping {
            input: bound.rel.compute(vec![(item, text)]),
            keys: Vec::new(),
            aggregates: vec![(id, aggregate)],
            sets: None,
            scalar: true,
        }));
        let root = directives
            .iter()
            .find(|d| d.is("ROOT"))
            .map(|d| match &d.value {
                OptionValue::Expr(daruma_syntax::ast::Expr::Literal(Literal::String {
                    text,
                    ..
                })) => text.clone(),
                _ => "root".to_string(),
            });
        let Some(root) = root else {
            return Ok(BoundQuery {
                rel,
                columns: vec![OutColumn {
                    name: COLUMN.into(),
                    id,
                }],
                assignments: Vec::new(),
            });
        };
        let wrapped = self.element(&root, self.column(id))?;
        let outer = self.new_computed(COLUMN, &wrapped)?;
        let columns = vec![OutColumn {
            name: COLUMN.into(),
            id: outer,
        }];
        Ok(BoundQuery {
            rel: rel.compute(vec![(outer, wrapped)]),
            columns,
            assignments: Vec::new(),
        })
    }

    /// `<row><name>value</name>..</row>`; NULL columns are left out, unnamed ones are plain text.
    fn path_row(&mut self, columns: &[OutColumn], row: &str) -> Result<Scalar> {
        let (mut attributes, mut content) = (literal(""), literal(""));
        for column in columns {
            let value = self.escaped(column.id)?;
            match column.name.strip_prefix('@') {
                Some(name) => {
                    let part = self.attribute(name, value)?;
                    attributes = join(attributes, or_empty(part))?;
                }
                None => {
                    let plain = column.name.is_empty()
                        || matches!(column.name.as_str(), "*" | "text()" | "data()" | "node()");
                    let part = if plain {
                        value
                    } else {
                        self.element(&column.name, value)?
                    };
                    content = join(content, or_empty(part))?;
                }
            }
        }
        if row.is_empty() {
            return Ok(content);
        }
        let open = join(join(literal(&format!("<{row}")), attributes)?, literal(">"))?;
        join(join(open, content)?, literal(&format!("</{row}>")))
    }

    /// `<row name="value" .. />`.
    fn raw_row(&mut self, columns: &[OutColumn], row: &str) -> Result<Scalar> {
        let mut text = literal(&format!("<{row}"));
        for column in columns {
            let value = self.escaped(column.id)?;
            let part = self.attribute(&column.name, value)?;
            text = join(text, or_empty(part))?;
        }
        join(text, literal("/>"))
    }

    fn element(&self, name: &str, content: Scalar) -> Result<Scalar> {
        join(
            join(literal(&format!("<{name}>")), content)?,
            literal(&format!("</{name}>")),
        )
    }

    fn attribute(&self, name: &str, value: Scalar) -> Result<Scalar> {
        join(join(literal(&format!(" {name}=\"")), value)?, literal("\""))
    }

    /// The value as text with the characters of markup replaced.
    fn escaped(&mut self, id: ColId) -> Result<Scalar> {
        let mut text = types::make_convert(self.column(id), DataType::NVARCHAR_MAX, false);
        text.ty.coercion = Coercion::Implicit;
        if !self.columns[id as usize].ty.data_type.is_character() {
            return Ok(text);
        }
        for (from, to) in [("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")] {
            text = self.call_by_name("REPLACE", vec![text, literal(from), literal(to)])?;
        }
        Ok(text)
    }
}

fn literal(text: &str) -> Scalar {
    Scalar::constant(Value::str(text), DataType::NVARCHAR_MAX)
}

fn join(a: Scalar, b: Scalar) -> Result<Scalar> {
    types::binary(BinaryOp::Add, a, b)
}

fn or_empty(part: Scalar) -> Scalar {
    let ty = part.ty.nullable(false);
    Scalar::new(Kind::IsNullFn(Box::new(part), Box::new(literal(""))), ty)
}
