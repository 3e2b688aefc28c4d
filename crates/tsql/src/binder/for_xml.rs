//! FOR XML: the rows of a query as one text.
//!
//! Theory: the names of the columns say which element or attribute each becomes. They make one tree of elements for all
//! rows when the query is bound; of it comes one expression that gives the text of a row, and all rows are joined in
//! their order by an aggregate. An element that has nothing to show for a row is left out (or, with XSINIL, says so).
//! AUTO and EXPLICIT, which compare rows with each other, are in `for_xml_nested`.
//!
//! The result is `nvarchar(max)`, with TYPE it is `xml`: only that goes into an outer FOR XML as markup.

use super::query::{BoundQuery, OutColumn};
use super::tree::*;
use super::{Binder, types, unsupported};
use crate::error::Result;
use crate::messages;
use daruma_syntax::ast::{ForXmlMode, Literal, OptionItem, OptionValue, XmlNamespace};
use daruma_value::functions::{XML_ASIDE, XML_ATTRIBUTE, XML_BASE64, XML_TEXT};
use daruma_value::types::BinaryOp;
use daruma_value::{DataType, Value, xml};

/// Name of the only column at the top of a statement.
const COLUMN: &str = "XML_F52E2B61-18A1-11d1-B105-00805F49916B";
const NIL_NAMESPACE: &str = " xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\"";

/// Directives behind the mode.
#[derive(Default)]
pub(super) struct Directives {
    root: Option<String>,
    pub(super) elements: bool,
    pub(super) how: How,
    base64: bool,
}

/// How values are shown.
#[derive(Clone, Copy, Default)]
pub(super) struct How {
    /// XSINIL: elements say that there is no value.
    pub nil: bool,
    /// TYPE: only what a document may have.
    pub typed: bool,
}

/// An element of each row.
#[derive(Default)]
pub(super) struct Element {
    pub(super) name: String,
    pub(super) attributes: Vec<(String, ColId)>,
    pub(super) content: Vec<Content>,
}

pub(super) enum Content {
    Text(ColId),
    Comment(ColId),
    /// A processing instruction with its target.
    Instruction(String, ColId),
    Element(Element),
}

impl Content {
    fn columns(&self) -> Vec<ColId> {
        match self {
            Content::Text(id) | Content::Comment(id) | Content::Instruction(_, id) => vec![*id],
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

    /// A column as a child element or as an attribute.
    pub(super) fn add(&mut self, name: String, column: &OutColumn, as_element: bool) -> Result<()> {
        match as_element {
            true => self.content.push(Content::Element(Element {
                name,
                attributes: Vec::new(),
                content: vec![Content::Text(column.id)],
            })),
            false => self.add_attribute(&name, column)?,
        }
        Ok(())
    }

    pub(super) fn add_attribute(&mut self, name: &str, column: &OutColumn) -> Result<()> {
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
        self.check_binary(&bound.columns, mode, &directives)?;
        let declared = self.declarations(directives.how.nil);
        let (of_root, of_row) = match directives.root {
            Some(_) => (declared, String::new()),
            None => (String::new(), declared),
        };
        // Atomic values alone are told apart by blanks.
        let atomic = row.is_empty() && matches!(&bound.columns[..], [c] if c.name == "data()");
        let separator = if atomic { " " } else { "" };
        let columns = &bound.columns;
        let (rel, mut whole) = match mode {
            ForXmlMode::Auto => self.auto_rows(bound.rel, columns, &directives, &of_row, COLUMN)?,
            ForXmlMode::Explicit => {
                self.explicit_rows(bound.rel, columns, directives.how, &of_row, COLUMN)?
            }
            ForXmlMode::Path | ForXmlMode::Raw => {
                let tree = match mode {
                    ForXmlMode::Path => path_tree(columns, row)?,
                    _ => self.raw_tree(columns, row, directives.elements)?,
                };
                let text = self.row(&tree, &of_row, directives.how)?;
                self.joined_rows(bound.rel, text, separator, COLUMN)?
            }
        };
        if let Some(root) = &directives.root {
            check_name("Root tag", root)?;
            let open = literal(&format!("<{root}{of_root}>"));
            whole = join(join(open, whole)?, literal(&format!("</{root}>")))?;
        }
        let name = match directives.how.typed {
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

    /// Errors 6829 for bytes that nobody said how to show.
    fn check_binary(
        &self,
        columns: &[OutColumn],
        mode: ForXmlMode,
        directives: &Directives,
    ) -> Result<()> {
        let is_binary = |c: &&OutColumn| self.columns[c.id as usize].ty.data_type.is_binary();
        match (columns.iter().find(is_binary), mode) {
            (None, _) | (_, ForXmlMode::Path) => Ok(()),
            _ if directives.base64 => Ok(()),
            (_, ForXmlMode::Auto) => Err(unsupported(
                "FOR XML AUTO over binary columns without BINARY BASE64",
            )),
            (Some(column), _) => Err(messages::error(6829, &[&column.name])),
        }
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

    fn raw_tree(&self, columns: &[OutColumn], row: &str, elements: bool) -> Result<Element> {
        let mut tree = Element {
            name: row.to_string(),
            ..Element::default()
        };
        for column in columns {
            self.add_column(&mut tree, column, elements)?;
        }
        Ok(tree)
    }

    /// A column of RAW or AUTO as an attribute, or as a child element: XML always is one, and without a name its nodes stand
    /// by themselves. Error 6809 for others without a name.
    pub(super) fn add_column(
        &self,
        element: &mut Element,
        column: &OutColumn,
        as_element: bool,
    ) -> Result<()> {
        let is_xml = self.columns[column.id as usize].ty.data_type == DataType::Xml;
        match (column.name.is_empty(), is_xml) {
            (true, true) => {
                element.content.push(Content::Text(column.id));
                Ok(())
            }
            (true, false) => Err(messages::error(6809, &[])),
            (false, _) => element.add(encoded(&column.name), column, as_element || is_xml),
        }
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
    fn row(&mut self, tree: &Element, declared: &str, how: How) -> Result<Scalar> {
        if tree.name.is_empty() {
            if !tree.attributes.is_empty() {
                return Err(messages::error(6864, &[]));
            }
            return joined(self.content(tree, declared, how)?);
        }
        self.element(tree, declared, how)
    }

    /// `declared` stands in each of the elements.
    pub(super) fn content(
        &mut self,
        element: &Element,
        declared: &str,
        how: How,
    ) -> Result<Vec<Scalar>> {
        let parts = element.content.iter();
        parts
            .map(|part| match part {
                Content::Text(id) => self.text_of(*id, &element.name, how),
                Content::Comment(id) => {
                    let text = join(literal("<!--"), self.aside(*id, "--")?)?;
                    join(text, literal("-->"))
                }
                Content::Instruction(target, id) => {
                    let text = self.aside(*id, "?>")?;
                    let text = join(literal(&format!("<?{target} ")), text)?;
                    join(text, literal("?>"))
                }
                Content::Element(element) => self.inner(element, declared, how),
            })
            .collect()
    }

    /// An element within the row's: NULL when it has nothing to show.
    fn inner(&mut self, element: &Element, declared: &str, how: How) -> Result<Scalar> {
        let whole = self.element(element, declared, how)?;
        let is_leaf = matches!(&element.content[..], [Content::Text(_)]);
        let missing = match (how.nil, is_leaf && element.attributes.is_empty()) {
            (false, _) => Scalar::null(DataType::NVARCHAR_MAX),
            (true, true) => literal(&format!("<{}{declared} xsi:nil=\"true\"/>", element.name)),
            // Its inner elements are there in any case.
            (true, false) => return Ok(whole),
        };
        let absent = self.all_null(&element.columns());
        Ok(either(absent, missing, whole))
    }

    /// `<name a="1">..</name>`, or `<name a="1"/>` when it is empty.
    fn element(&mut self, element: &Element, declared: &str, how: How) -> Result<Scalar> {
        let name = &element.name;
        let mut open = literal(&format!("<{name}{declared}"));
        for (name, id) in &element.attributes {
            open = join(open, self.shown_attribute(name, *id, how)?)?;
        }
        let parts = self.content(element, "", how)?;
        if parts.is_empty() {
            return join(open, literal("/>"));
        }
        let close = literal(&format!("</{name}>"));
        let full = join(join(literal(">"), joined(parts)?)?, close)?;
        let rest = match how.nil && element.has_elements() {
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

    /// ` name="value"`, nothing for NULL.
    pub(super) fn shown_attribute(&mut self, name: &str, id: ColId, how: How) -> Result<Scalar> {
        let value = self.plain(id)?;
        let value = self.marked_up(XML_ATTRIBUTE, value, name, how)?;
        let shown = join(join(literal(&format!(" {name}=\"")), value)?, literal("\""))?;
        let absent = self.all_null(&[id]);
        Ok(either(absent, literal(""), shown))
    }

    fn all_null(&self, columns: &[ColId]) -> Scalar {
        let is_null = |id: &ColId| Scalar::condition(Kind::IsNull(Box::new(self.column(*id))));
        Scalar::condition(Kind::And(columns.iter().map(is_null).collect()))
    }

    /// The value as text, with the characters of markup replaced; XML stays as it is.
    fn text_of(&mut self, id: ColId, node: &str, how: How) -> Result<Scalar> {
        let data_type = self.columns[id as usize].ty.data_type;
        let text = self.plain(id)?;
        let is_text = data_type.is_character() || data_type == DataType::Variant;
        match is_text && data_type != DataType::Xml {
            true => self.marked_up(XML_TEXT, text, node, how),
            false => Ok(text),
        }
    }

    fn marked_up(&mut self, function: &str, text: Scalar, node: &str, how: How) -> Result<Scalar> {
        let is_typed = if how.typed { "1" } else { "0" };
        self.call_by_name(function, vec![text, literal(node), literal(is_typed)])
    }

    /// The value of a comment or instruction, which `end` must not be in.
    fn aside(&mut self, id: ColId, end: &str) -> Result<Scalar> {
        let text = self.plain(id)?;
        self.call_by_name(XML_ASIDE, vec![text, literal(end)])
    }

    fn plain(&mut self, id: ColId) -> Result<Scalar> {
        let data_type = self.columns[id as usize].ty.data_type;
        if matches!(
            data_type,
            DataType::HierarchyId | DataType::Geography | DataType::Geometry
        ) {
            return Err(unsupported(&format!("FOR XML over {}", data_type.name())));
        }
        if data_type.is_binary() {
            return self.call_by_name(XML_BASE64, vec![self.column(id)]);
        }
        let mut text = types::make_convert(self.column(id), DataType::NVARCHAR_MAX, false);
        text.ty.coercion = Coercion::Implicit;
        // Dates and times as XML has them, floating numbers with all their digits.
        let form = match data_type {
            DataType::Real => Some(1),
            DataType::Float => Some(2),
            // All four decimals, where a text has two.
            DataType::Money | DataType::SmallMoney => Some(2),
            other => other.is_temporal().then_some(126),
        };
        if let (Kind::Convert { style, .. }, Some(form)) = (&mut text.kind, form) {
            let form = Scalar::constant(Value::Int(form), DataType::Int);
            *style = Some(Box::new(form));
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
                "TYPE" => read.how.typed = true,
                "ELEMENTS" | "ELEMENTS ABSENT" => read.elements = true,
                "ELEMENTS XSINIL" => (read.elements, read.how.nil) = (true, true),
                "BINARY BASE64" => read.base64 = true,
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
        let instruction = last
            .strip_prefix("processing-instruction(")
            .and_then(|r| r.strip_suffix(')'));
        let special = match (last, instruction) {
            ("comment()", _) => Some(Content::Comment(column.id)),
            (_, Some(target)) => {
                check_name("Column", target)?;
                Some(Content::Instruction(target.to_string(), column.id))
            }
            _ => None,
        };
        if !plain && attribute.is_none() && special.is_none() {
            if last.ends_with(')') {
                return Err(unsupported(&format!("{last} in FOR XML PATH")));
            }
            path.push(last);
        }
        for name in path.iter().copied().chain(attribute) {
            check_name("Column", name)?;
        }
        put(&mut tree, &path, attribute, special, column)?;
    }
    Ok(tree)
}

/// Puts a column below the elements of the path: into the last element there, if it has the name, or into a new one.
fn put(
    place: &mut Element,
    path: &[&str],
    attribute: Option<&str>,
    special: Option<Content>,
    column: &OutColumn,
) -> Result<()> {
    let Some((step, rest)) = path.split_first() else {
        match attribute {
            Some(_) if !place.content.is_empty() => {
                return Err(messages::error(6852, &[&column.name]));
            }
            Some(name) => place.add_attribute(name, column)?,
            None => place
                .content
                .push(special.unwrap_or(Content::Text(column.id))),
        }
        return Ok(());
    };
    if let Some(Content::Element(last)) = place.content.last_mut()
        && last.name == *step
    {
        return put(last, rest, attribute, special, column);
    }
    let mut made = Element {
        name: (*step).to_string(),
        ..Element::default()
    };
    put(&mut made, rest, attribute, special, column)?;
    place.content.push(Content::Element(made));
    Ok(())
}

/// A name with a prefix at most: error 6850. `of`: what has the name.
pub(super) fn check_name(of: &str, name: &str) -> Result<()> {
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
pub(super) fn encoded(name: &str) -> String {
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
pub(super) fn joined(parts: Vec<Scalar>) -> Result<Scalar> {
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
