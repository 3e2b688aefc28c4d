//! FOR XML AUTO and EXPLICIT: rows whose elements lie in each other.
//!
//! Theory: of each row comes a text of its levels, as [`daruma_value::functions::XML_NESTED`] takes them; that function compares
//! rows with each other. AUTO: a level for each table, in the order in which the select list names them; what is computed
//! belongs to the table named before. EXPLICIT: the names of the columns say it all, and the row says which tag it is.

use super::for_xml::{
    Content, Directives, Element, How, check_name, encoded, join, joined, literal,
};
use super::query::OutColumn;
use super::tree::*;
use super::{Binder, compare, unsupported};
use crate::error::Result;
use crate::messages;
use daruma_syntax::ast::CompareOp;
use daruma_value::functions::{XML_LEVEL, XML_NESTED, XML_PART, XML_ROW};
use daruma_value::{DataType, Value};

impl Binder<'_> {
    /// All rows as one text, by a select list of AUTO.
    pub(super) fn auto_rows(
        &mut self,
        rel: Rel,
        columns: &[OutColumn],
        directives: &Directives,
        declared: &str,
        name: &str,
    ) -> Result<(Rel, Scalar)> {
        let levels = self.auto_levels(columns, directives)?;
        let mut row = literal("");
        for (at, level) in levels.iter().enumerate() {
            let declared = if at == 0 { declared } else { "" };
            row = join(row, literal(&XML_LEVEL.to_string()))?;
            row = join(row, self.level(level, declared, directives.how)?)?;
        }
        self.nested(rel, row, name, "0")
    }

    /// Tables in the order of their first columns: error 6803 without any.
    fn auto_levels(&self, columns: &[OutColumn], directives: &Directives) -> Result<Vec<Element>> {
        let mut levels: Vec<Element> = Vec::new();
        let mut last = 0;
        let first = columns.iter().find_map(|c| self.table_of(c.id));
        let first = first.ok_or_else(|| messages::error(6803, &[]))?;
        for column in columns {
            let table = self.table_of(column.id);
            let table = table.or(levels.is_empty().then(|| first.clone()));
            if let Some(table) = table {
                let name = encoded(&table);
                last = match levels.iter().position(|l| l.name == name) {
                    Some(known) => known,
                    None => {
                        levels.push(Element {
                            name,
                            ..Element::default()
                        });
                        levels.len() - 1
                    }
                };
            }
            if let Some(level) = levels.get_mut(last) {
                self.add_column(level, column, directives.elements)?;
            }
        }
        Ok(levels)
    }

    /// The name in FROM of the table that a column comes from.
    pub(super) fn table_of(&self, id: ColId) -> Option<String> {
        let info = self.columns.get(id as usize)?;
        let table = info.qualified.strip_suffix(&info.name)?.strip_suffix('.')?;
        (!table.is_empty()).then(|| table.to_string())
    }

    /// Name, attributes and content of an element.
    fn level(&mut self, element: &Element, declared: &str, how: How) -> Result<Scalar> {
        let mut text = literal(&format!("{}{XML_PART}{declared}", element.name));
        for (name, id) in &element.attributes {
            let shown = self.shown_attribute(name, *id, how)?;
            text = join(text, shown)?;
        }
        let parts = self.content(element, "", how)?;
        text = join(text, literal(&XML_PART.to_string()))?;
        join(text, joined(parts)?)
    }

    fn nested(
        &mut self,
        rel: Rel,
        row: Scalar,
        name: &str,
        is_explicit: &str,
    ) -> Result<(Rel, Scalar)> {
        let (rel, rows) = self.joined_rows(rel, row, &XML_ROW.to_string(), name)?;
        let mut whole = self.call_by_name(XML_NESTED, vec![rows, literal(is_explicit)])?;
        whole.ty.collation = self.own_collation();
        whole.ty.coercion = Coercion::Default;
        Ok((rel, whole))
    }

    /// All rows as one text, by a universal table: errors 6801, 6802.
    pub(super) fn explicit_rows(
        &mut self,
        rel: Rel,
        columns: &[OutColumn],
        how: How,
        declared: &str,
        name: &str,
    ) -> Result<(Rel, Scalar)> {
        let [tag, parent, rest @ ..] = columns else {
            return Err(messages::error(6801, &[]));
        };
        let named = |c: &OutColumn, wanted: &str| c.name.eq_ignore_ascii_case(wanted);
        if rest.is_empty() || !named(tag, "Tag") || !named(parent, "Parent") {
            return Err(messages::error(6801, &[]));
        }
        let mut tags: Vec<(i32, Element)> = Vec::new();
        for column in rest {
            self.explicit_column(column, &mut tags)?;
        }
        let mut whens = Vec::with_capacity(tags.len());
        for (at, (number, element)) in tags.iter().enumerate() {
            let declared = if at == 0 { declared } else { "" };
            let number = Scalar::constant(Value::Int(*number), DataType::Int);
            let is_it = compare(CompareOp::Equal, self.column(tag.id), number)?;
            whens.push((is_it, self.level(element, declared, how)?));
        }
        let text = super::expr::case_of(whens, Some(literal("")))?;
        let mut row = joined(vec![self.text_of_number(tag.id)])?;
        row = join(row, literal(&XML_PART.to_string()))?;
        row = join(row, joined(vec![self.text_of_number(parent.id)])?)?;
        row = join(row, literal(&XML_PART.to_string()))?;
        self.nested(rel, join(row, text)?, name, "1")
    }

    fn text_of_number(&self, id: ColId) -> Scalar {
        super::types::make_convert(self.column(id), DataType::NVARCHAR_MAX, false)
    }

    /// `Element!Tag!Attribute!Directive`: error 6802.
    fn explicit_column(&self, column: &OutColumn, tags: &mut Vec<(i32, Element)>) -> Result<()> {
        let wrong = || messages::error(6802, &[&column.name]);
        let mut parts = column.name.split('!');
        let element = parts.next().filter(|e| !e.is_empty()).ok_or_else(wrong)?;
        let number: i32 = parts
            .next()
            .and_then(|n| n.parse().ok())
            .filter(|n| *n > 0)
            .ok_or_else(wrong)?;
        let (attribute, directive) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
        if parts.next().is_some() {
            return Err(wrong());
        }
        check_name("Row tag", element)?;
        let at = match tags.iter().position(|(known, _)| *known == number) {
            Some(known) => known,
            None => {
                tags.push((
                    number,
                    Element {
                        name: element.to_string(),
                        ..Element::default()
                    },
                ));
                tags.len() - 1
            }
        };
        let Some((_, tag)) = tags.get_mut(at) else {
            return Ok(());
        };
        if !attribute.is_empty() {
            check_name("Column", attribute)?;
        }
        match directive.to_ascii_lowercase().as_str() {
            "hide" => Ok(()),
            "" if attribute.is_empty() => {
                tag.content.push(Content::Text(column.id));
                Ok(())
            }
            "" | "id" | "idref" | "idrefs" => tag.add_attribute(attribute, column),
            "element" if !attribute.is_empty() => tag.add(attribute.to_string(), column, true),
            other => Err(unsupported(&format!(
                "The {other} directive of FOR XML EXPLICIT"
            ))),
        }
    }
}
