//! FOR XML PATH and RAW: the rows of a query as one text.
//!
//! Theory: the names of the columns say which element or attribute each becomes. They make one tree of elements for all
//! rows when the query is bound; of it comes one expression that gives the text of a row, and all rows are joined in
//! their order by an aggregate. An element that has nothing to show for a row is left out (or, with XSINIL, says so).
//! AUTO and EXPLICIT, which compare rows with each other, are refused, as is what would need another form than text.
//!
//! The result is `nvarchar(max)`, with TYPE it is `xml`: only that goes into an outer FOR XML as markup.

use super::query::{BoundQuery, OutColumn};
use super::tree::*;
use super::{Binder, types, unsupported};
use crate::error::Result;
use crate::messages;
use daruma_syntax::ast::{ForXmlMode, Literal, OptionItem, OptionValue, XmlNamespace};
use daruma_value::types::BinaryOp;
use daruma_value::{DataType, Value, xml};

/// Name of the only column at the top of a statement.
const COLUMN: &str = "XML_F52E2B61-18A1-11d1-B105-00805F49916B";
const NIL_NAMESPACE: &str = " xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\"";

/// Directives behind the mode.
#[derive(Default)]
struct Directives {
    root: Option<String>,
    typed: bool,
    elements: bool,
    nil: bool,
}

/// An element of each row.
#[derive(Default)]
struct Element {
    name: String,
    attributes: Vec<(String, ColId)>,
    content: Vec<Content>,
}

enum Content {
    Text(ColId),
    Element(Element),
}

impl Content {
    fn columns(&self) -> Vec<ColId> {
        match self {
            Content::Text(id) => vec![*id],
            Content::Element(element) => element.columns(),
        }
    }
}

impl Element {
    fn columns(&self) -> Vec<ColId> {
        let own = self.attributes.iter().map(|(_, id)| *id);
        own.chain(self.content.iter().flat_map(Content::columns))
            .collect()
    }

    fn add_attribute(&mut self, name: &str, column: &OutColumn) -> Result<()> {
        match self.attributes.iter().any(|(known, _)| known == name) {
            true => Err(messages::error(6810, &[&column.name])),
            false => {
                self.attributes.push((name.to_string(), column.id));
                Ok(())
            }
        }
    }

    fn has_elements(&self) -> bool {
        let is_element = |c: &Content| matches!(c, Content::Element(_));
        self.content.iter().any(is_element)
    }
}

impl Binder<'_> {
    pub(super) fn for_xml(
        &mut self,
        bound: BoundQuery,
        mode: ForXmlMode,
        element: Option<&str>,
        directives: &[OptionItem],
    ) -> Result<BoundQuery> {
        let directives = Directives::read(directives)?;
        let row = element.unwrap_or("row");
        if !row.is_empty() {
            check_name("Row tag", row)?;
        }
        let tree = match mode {
            ForXmlMode::Path => path_tree(&bound.columns, row)?,
            ForXmlMode::Raw => raw_tree(&bound.columns, row, directives.elements)?,
            ForXmlMode::Auto | ForXmlMode::Explicit => {
                return Err(unsupported("FOR XML AUTO or EXPLICIT"));
            }
        };
        let declared = self.declarations(directives.nil);
        let (of_root, of_row) = match directives.root {
            Some(_) => (declared, String::new()),
            None => (String::new(), declared),
        };
        let text = self.row(&tree, &of_row, directives.nil)?;
        // Atomic values alone are told apart by blanks.
        let atomic = row.is_empty() && matches!(&bound.columns[..], [c] if c.name == "data()");
        let separator = if atomic { " " } else { "" };
        let (rel, mut whole) = self.joined_rows(bound.rel, text, separator, COLUMN)?;
        if let Some(root) = &directives.root {
            check_name("Root tag", root)?;
            let open = literal(&format!("<{root}{of_root}>"));
            whole = join(join(open, whole)?, literal(&format!("</{root}>")))?;
        }
        let name = match directives.typed {
            true => {
                whole = types::make_convert(whole, DataType::Xml, true);
                ""
            }
            false => COLUMN,
        };
        let outer = self.new_computed(name, &whole)?;
        Ok(BoundQuery {
            rel: rel.compute(vec![(outer, whole)]),
            columns: vec![OutColumn {
                name: name.into(),
                id: outer,
            }],
            assignments: Vec::new(),
        })
    }

    /// One row with the texts of all rows, in the column of this name.
    pub(super) fn joined_rows(
        &mut self,
        rel: Rel,
        text: Scalar,
        separator: &str,
        name: &str,
    ) -> Result<(Rel, Scalar)> {
        let item = self.new_computed("", &text)?;
        let aggregate = Aggregate {
            function: AggregateFunction::StringAgg,
            arg: Some(self.column(item)),
            distinct: false,
            separator: Some(literal(separator)),
            order: Vec::new(),
        };
        let all = Scalar::new(
            Kind::Const(Value::Null),
            Type::new(DataType::NVARCHAR_MAX, true),
        );
        let id = self.new_computed(name, &all)?;
        let joined = Rel::Aggregate(Box::new(Grouping {
            input: rel.compute(vec![(item, text)]),
            keys: Vec::new(),
            aggregates: vec![(id, aggregate)],
            sets: None,
            scalar: true,
        }));
        Ok((joined, self.column(id)))
    }

    /// Namespaces that the outermost elements declare.
    fn declarations(&self, nil: bool) -> String {
        let mut text = String::new();
        for XmlNamespace { uri, prefix } in &self.xml_namespaces {
            let name = prefix
                .as_ref()
                .map_or("xmlns".to_string(), |p| format!("xmlns:{}", p.text));
            text += &format!(" {name}=\"{}\"", escape(uri));
        }
        if nil {
            text += NIL_NAMESPACE;
        }
        text
    }

    /// The text of a row: never NULL.
    fn row(&mut self, tree: &Element, declared: &str, nil: bool) -> Result<Scalar> {
        if tree.name.is_empty() {
            if !tree.attributes.is_empty() {
                return Err(messages::error(6864, &[]));
            }
            return joined(self.content(&tree.content, declared, nil)?);
        }
        self.element(tree, declared, nil)
    }

    /// `declared` stands in each of the elements.
    fn content(&mut self, content: &[Content], declared: &str, nil: bool) -> Result<Vec<Scalar>> {
        content
            .iter()
            .map(|part| match part {
                Content::Text(id) => self.text_of(*id),
                Content::Element(element) => self.inner(element, declared, nil),
            })
            .collect()
    }

    /// An element within the row's: NULL when it has nothing to show.
    fn inner(&mut self, element: &Element, declared: &str, nil: bool) -> Result<Scalar> {
        let whole = self.element(element, declared, nil)?;
        let is_leaf = matches!(&element.content[..], [Content::Text(_)]);
        let missing = match (nil, is_leaf && element.attributes.is_empty()) {
            (false, _) => Scalar::null(DataType::NVARCHAR_MAX),
            (true, true) => literal(&format!("<{}{declared} xsi:nil=\"true\"/>", element.name)),
            // Its inner elements are there in any case.
            (true, false) => return Ok(whole),
        };
        let absent = self.all_null(&element.columns());
        Ok(either(absent, missing, whole))
    }

    /// `<name a="1">..</name>`, or `<name a="1"/>` when it is empty.
    fn element(&mut self, element: &Element, declared: &str, nil: bool) -> Result<Scalar> {
        let name = &element.name;
        let mut open = literal(&format!("<{name}{declared}"));
        for (name, id) in &element.attributes {
            let value = self.attribute_of(*id)?;
            let shown = join(join(literal(&format!(" {name}=\"")), value)?, literal("\""))?;
            let absent = self.all_null(&[*id]);
            open = join(open, either(absent, literal(""), shown))?;
        }
        let parts = self.content(&element.content, "", nil)?;
        if parts.is_empty() {
            return join(open, literal("/>"));
        }
        let close = literal(&format!("</{name}>"));
        let full = join(join(literal(">"), joined(parts)?)?, close)?;
        let rest = match nil && element.has_elements() {
            true => full,
            false => {
                let columns: Vec<ColId> =
                    element.content.iter().flat_map(Content::columns).collect();
                let empty = self.all_null(&columns);
                either(empty, literal("/>"), full)
            }
        };
        join(open, rest)
    }

    fn all_null(&self, columns: &[ColId]) -> Scalar {
        let is_null = |id: &ColId| Scalar::condition(Kind::IsNull(Box::new(self.column(*id))));
        Scalar::condition(Kind::And(columns.iter().map(is_null).collect()))
    }

    /// The value as text, with the characters of markup replaced; XML stays as it is.
    fn text_of(&mut self, id: ColId) -> Result<Scalar> {
        let data_type = self.columns[id as usize].ty.data_type;
        let text = self.plain(id)?;
        let is_text = data_type.is_character() || data_type == DataType::Variant;
        match is_text && data_type != DataType::Xml {
            true => self.replaced(
                text,
                &[
                    ("&", "&amp;"),
                    ("<", "&lt;"),
                    (">", "&gt;"),
                    ("\r", "&#x0D;"),
                ],
            ),
            false => Ok(text),
        }
    }

    fn attribute_of(&mut self, id: ColId) -> Result<Scalar> {
        let text = self.plain(id)?;
        let marks = [
            ("&", "&amp;"),
            ("<", "&lt;"),
            (">", "&gt;"),
            ("\"", "&quot;"),
            ("\t", "&#x09;"),
            ("\n", "&#x0A;"),
            ("\r", "&#x0D;"),
        ];
        self.replaced(text, &marks)
    }

    fn plain(&mut self, id: ColId) -> Result<Scalar> {
        let data_type = self.columns[id as usize].ty.data_type;
        if data_type.is_binary() {
            return Err(unsupported("FOR XML over binary columns"));
        }
        let mut text = types::make_convert(self.column(id), DataType::NVARCHAR_MAX, false);
        text.ty.coercion = Coercion::Implicit;
        // Dates and times as XML has them, floating numbers with all their digits.
        let form = match data_type {
            DataType::Real => Some(1),
            DataType::Float => Some(2),
            other => other.is_temporal().then_some(126),
        };
        if let (Kind::Convert { style, .. }, Some(form)) = (&mut text.kind, form) {
            let form = Scalar::constant(Value::Int(form), DataType::Int);
            *style = Some(Box::new(form));
        }
        Ok(text)
    }

    fn replaced(&mut self, mut text: Scalar, marks: &[(&str, &str)]) -> Result<Scalar> {
        for (from, to) in marks {
            text = self.call_by_name("REPLACE", vec![text, literal(from), literal(to)])?;
        }
        Ok(text)
    }
}

impl Directives {
    fn read(items: &[OptionItem]) -> Result<Directives> {
        let mut read = Directives::default();
        for item in items {
            match item.name.as_str() {
                "ROOT" => {
                    read.root = Some(match &item.value {
                        OptionValue::Expr(daruma_syntax::ast::Expr::Literal(Literal::String {
                            text,
                            ..
                        })) => text.clone(),
                        _ => "root".to_string(),
                    });
                }
                "TYPE" => read.typed = true,
                "ELEMENTS" | "ELEMENTS ABSENT" => read.elements = true,
                "ELEMENTS XSINIL" => (read.elements, read.nil) = (true, true),
                // Binary columns are refused where they come up.
                "BINARY BASE64" => {}
                other => return Err(unsupported(&format!("FOR XML with {other}"))),
            }
        }
        Ok(read)
    }
}

/// The tree that `a/b`, `a/@c`, `@d`, `text()` and plain names describe. Neighbours share the elements they have in common.
fn path_tree(columns: &[OutColumn], row: &str) -> Result<Element> {
    let mut tree = Element {
        name: row.to_string(),
        ..Element::default()
    };
    for column in columns {
        let mut path: Vec<&str> = column.name.split('/').collect();
        let last = path.pop().unwrap_or_default();
        let plain = matches!(last, "" | "*" | "text()" | "data()" | "node()");
        let attribute = last.strip_prefix('@');
        if !plain && attribute.is_none() {
            if last.ends_with(')') {
                return Err(unsupported(&format!("{last} in FOR XML PATH")));
            }
            path.push(last);
        }
        for name in path.iter().copied().chain(attribute) {
            check_name("Column", name)?;
        }
        put(&mut tree, &path, attribute, column)?;
    }
    Ok(tree)
}

/// Puts a column below the elements of the path: into the last element there, if it has the name, or into a new one.
fn put(
    place: &mut Element,
    path: &[&str],
    attribute: Option<&str>,
    column: &OutColumn,
) -> Result<()> {
    let Some((step, rest)) = path.split_first() else {
        match attribute {
            Some(_) if !place.content.is_empty() => {
                return Err(messages::error(6852, &[&column.name]));
            }
            Some(name) => place.add_attribute(name, column)?,
            None => place.content.push(Content::Text(column.id)),
        }
        return Ok(());
    };
    if let Some(Content::Element(last)) = place.content.last_mut()
        && last.name == *step
    {
        return put(last, rest, attribute, column);
    }
    let mut made = Element {
        name: (*step).to_string(),
        ..Element::default()
    };
    put(&mut made, rest, attribute, column)?;
    place.content.push(Content::Element(made));
    Ok(())
}

fn raw_tree(columns: &[OutColumn], row: &str, elements: bool) -> Result<Element> {
    let mut tree = Element {
        name: row.to_string(),
        ..Element::default()
    };
    for column in columns {
        if column.name.is_empty() {
            return Err(messages::error(6809, &[]));
        }
        let name = encoded(&column.name);
        match elements {
            true => tree.content.push(Content::Element(Element {
                name,
                attributes: Vec::new(),
                content: vec![Content::Text(column.id)],
            })),
            false => tree.add_attribute(&name, column)?,
        }
    }
    Ok(tree)
}

/// A name with a prefix at most: error 6850. `of`: what has the name.
fn check_name(of: &str, name: &str) -> Result<()> {
    let fault = |part: &str| {
        let misfit = |(at, c): &(usize, char)| match at {
            0 => !xml::starts_name(*c),
            _ => !xml::is_name(*c),
        };
        part.chars().enumerate().find(misfit).map(|(_, c)| c)
    };
    let (prefix, local) = name.split_once(':').unwrap_or(("_", name));
    let fault = match prefix.is_empty() || local.is_empty() {
        true => Some(':'),
        false => fault(prefix).or_else(|| fault(local)),
    };
    match fault {
        Some(c) => {
            let code = format!("0x{:04X}", c as u32);
            Err(messages::error(6850, &[&of, &name, &c, &code]))
        }
        None => Ok(()),
    }
}

/// Characters that a name cannot have, as `_x0020_`.
fn encoded(name: &str) -> String {
    let mut out = String::new();
    for (at, c) in name.chars().enumerate() {
        let fits = if at == 0 {
            xml::starts_name(c)
        } else {
            xml::is_name(c)
        };
        match fits {
            true => out.push(c),
            false => out += &format!("_x{:04X}_", c as u32),
        }
    }
    out
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('"', "&quot;")
}

/// A text that stands as it is.
pub(super) fn literal(text: &str) -> Scalar {
    Scalar::constant(Value::str(text), DataType::NVARCHAR_MAX)
}

/// One text behind the other; NULL if one is.
pub(super) fn join(a: Scalar, b: Scalar) -> Result<Scalar> {
    types::binary(BinaryOp::Add, a, b)
}

/// Parts one after the other; those that are NULL show nothing.
fn joined(parts: Vec<Scalar>) -> Result<Scalar> {
    let mut whole = literal("");
    for part in parts {
        whole = join(whole, or_empty(part))?;
    }
    Ok(whole)
}

fn either(condition: Scalar, then: Scalar, otherwise: Scalar) -> Scalar {
    let nullable = then.ty.nullable || otherwise.ty.nullable;
    let kind = Kind::Case {
        whens: vec![(condition, then)],
        otherwise: Some(Box::new(otherwise)),
    };
    Scalar::new(kind, Type::new(DataType::NVARCHAR_MAX, nullable))
}

fn or_empty(part: Scalar) -> Scalar {
    let ty = part.ty.nullable(false);
    let empty = Box::new(literal(""));
    Scalar::new(Kind::IsNullFn(Box::new(part), empty), ty)
}
