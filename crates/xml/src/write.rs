//! Nodes as text again: the normal form, with the declarations that names need.
//!
//! Theory: declarations that a document holds are written where they stand. What a part of a document inherits from above, or
//! what a constructor says of names alone, is declared at the first element that needs it.

use crate::document::{Document, Kind, Name, NodeId, XML_NAMESPACE};
use crate::{Error, Meter, Result};
use daruma_value::ValueError;
use daruma_value::xml::{DEPTH_MAX, escape_attribute, escape_text};

/// Bytes written between two questions to the meter.
const LOOK_BYTES: usize = 64 << 10;
/// Prefixes looked at between two questions.
const LOOK_COMPARED: usize = 1 << 20;

/// Writes nodes into one text.
pub(crate) struct Writer<'m> {
    out: String,
    meter: &'m dyn Meter,
    looked_at: usize,
    /// Prefixes looked at since.
    compared: usize,
    /// Prefix and namespace, innermost last.
    scope: Vec<(String, String)>,
    made: u32,
    /// Prefixes that the element being begun has taken from around it.
    used: Vec<String>,
    depth: usize,
}

/// What takes the place of nodes, or stands beside them, while a document is written: what modify asked for.
pub(crate) trait Changes {
    fn is_deleted(&self, node: NodeId) -> bool;
    /// The value of a text or attribute.
    fn value(&self, node: NodeId) -> Option<&str>;
    fn before(&self, node: NodeId) -> Option<(&Document, NodeId)>;
    fn after(&self, node: NodeId) -> Option<(&Document, NodeId)>;
    /// Put into an element: attributes come by themselves.
    fn first_in(&self, node: NodeId) -> Option<(&Document, NodeId)>;
    fn last_in(&self, node: NodeId) -> Option<(&Document, NodeId)>;
    fn attributes_of(&self, node: NodeId) -> Option<(&Document, NodeId)>;
}

impl<'m> Writer<'m> {
    /// A text that is empty yet.
    pub fn new(meter: &'m dyn Meter) -> Writer<'m> {
        Writer {
            out: String::new(),
            meter,
            looked_at: 0,
            compared: 0,
            scope: Vec::new(),
            made: 0,
            used: Vec::new(),
            depth: 0,
        }
    }

    fn look(&mut self) -> Result<()> {
        if self.out.len() < self.looked_at + LOOK_BYTES && self.compared < LOOK_COMPARED {
            return Ok(());
        }
        self.check_bytes()
    }

    fn check_bytes(&mut self) -> Result<()> {
        self.compared = 0;
        self.looked_at = self.out.len();
        if self.out.len() > daruma_value::LARGE_BYTES_MAX {
            return Err(Error::Document(ValueError::too_large()));
        }
        match self.meter.goes_on(self.out.len()) {
            true => Ok(()),
            false => Err(Error::Stopped),
        }
    }

    /// The whole text, when it may be that large.
    pub fn finish(mut self) -> Result<String> {
        self.check_bytes()?;
        Ok(self.out)
    }

    /// A value that is no node; a blank tells it from another before it.
    pub fn atom(&mut self, text: &str, is_after_atom: bool) -> Result<()> {
        self.look()?;
        if is_after_atom {
            self.out.push(' ');
        }
        escape_text(text, &mut self.out);
        Ok(())
    }

    /// A node with all that is in it, as it is.
    pub fn node(&mut self, document: &Document, id: NodeId) -> Result<()> {
        self.changed(document, id, None)
    }

    /// The same with changes.
    pub fn changed(
        &mut self,
        document: &Document,
        id: NodeId,
        changes: Option<&dyn Changes>,
    ) -> Result<()> {
        self.look()?;
        if changes.is_some_and(|c| c.is_deleted(id)) {
            return Ok(());
        }
        let value = changes
            .and_then(|c| c.value(id))
            .unwrap_or(document.value(id));
        match document.kind(id) {
            Kind::Document => self.content(document, id, changes),
            Kind::Element => self.element(document, id, changes),
            Kind::Text => {
                escape_text(value, &mut self.out);
                Ok(())
            }
            Kind::Comment => {
                self.out.push_str(&format!("<!--{value}-->"));
                Ok(())
            }
            Kind::Instruction => {
                let target = document.name(id).map_or("", |n| &n.local);
                let gap = if value.is_empty() { "" } else { " " };
                self.out.push_str(&format!("<?{target}{gap}{value}?>"));
                Ok(())
            }
            Kind::Attribute | Kind::Namespace => Ok(()),
        }
    }

    fn content(
        &mut self,
        document: &Document,
        id: NodeId,
        changes: Option<&dyn Changes>,
    ) -> Result<()> {
        if let Some((of, first)) = changes.and_then(|c| c.first_in(id)) {
            self.all_in(of, first)?;
        }
        for child in document.children(id) {
            if let Some((of, before)) = changes.and_then(|c| c.before(child)) {
                self.all_in(of, before)?;
            }
            self.changed(document, child, changes)?;
            if let Some((of, after)) = changes.and_then(|c| c.after(child)) {
                self.all_in(of, after)?;
            }
        }
        match changes.and_then(|c| c.last_in(id)) {
            Some((of, last)) => self.all_in(of, last),
            None => Ok(()),
        }
    }

    /// The children of a node.
    fn all_in(&mut self, document: &Document, id: NodeId) -> Result<()> {
        document
            .children(id)
            .try_for_each(|child| self.node(document, child))
    }

    fn element(
        &mut self,
        document: &Document,
        id: NodeId,
        changes: Option<&dyn Changes>,
    ) -> Result<()> {
        if self.depth >= DEPTH_MAX {
            return Err(Error::Document(ValueError::new(6335, 1, &[&DEPTH_MAX])));
        }
        self.depth += 1;
        self.used.clear();
        let outer = self.scope.len();
        let mut declared = Vec::new();
        for n in document.declarations(id) {
            let prefix = document.name(n).map_or("", |n| &n.local);
            if self.namespace(prefix) != document.value(n) {
                declared.push((prefix.to_string(), document.value(n).to_string()));
            }
        }
        self.scope.extend(declared.iter().cloned());
        let empty = Name::default();
        let name = self.qualified(document.name(id).unwrap_or(&empty), false, &mut declared);
        let mut attributes = Vec::new();
        for n in document.attributes(id) {
            if changes.is_some_and(|c| c.is_deleted(n)) {
                continue;
            }
            let name = self.qualified(document.name(n).unwrap_or(&empty), true, &mut declared);
            self.look()?;
            let value = changes
                .and_then(|c| c.value(n))
                .unwrap_or(document.value(n));
            attributes.push((name, value.to_string()));
        }
        if let Some((of, holder)) = changes.and_then(|c| c.attributes_of(id)) {
            // The product puts each of the new ones behind one of the old; declarations count as such.
            let before = declared.len();
            for (at, n) in of.attributes(holder).enumerate() {
                let name = self.qualified(of.name(n).unwrap_or(&empty), true, &mut declared);
                let place = (2 * at + 1).saturating_sub(before).min(attributes.len());
                attributes.insert(place, (name, of.value(n).to_string()));
            }
        }
        self.out.push('<');
        self.out.push_str(&name);
        for (prefix, namespace) in declared {
            let name = if prefix.is_empty() {
                "xmlns".to_string()
            } else {
                format!("xmlns:{prefix}")
            };
            self.attribute(&name, &namespace);
        }
        for (name, value) in attributes {
            self.attribute(&name, &value);
        }
        self.out.push('>');
        let before = self.out.len();
        self.content(document, id, changes)?;
        if self.out.len() == before {
            self.out.pop();
            self.out.push_str("/>");
        } else {
            self.out.push_str("</");
            self.out.push_str(&name);
            self.out.push('>');
        }
        self.scope.truncate(outer);
        self.depth -= 1;
        Ok(())
    }

    fn attribute(&mut self, name: &str, value: &str) {
        self.out.push(' ');
        self.out.push_str(name);
        self.out.push_str("=\"");
        escape_attribute(value, &mut self.out);
        self.out.push('"');
    }

    fn namespace(&self, prefix: &str) -> &str {
        let found = self.scope.iter().rev().find(|(known, _)| known == prefix);
        found.map_or("", |(_, namespace)| namespace)
    }

    /// The name with a prefix that means its namespace here; declares one where none does.
    fn qualified(
        &mut self,
        name: &Name,
        is_attribute: bool,
        declared: &mut Vec<(String, String)>,
    ) -> String {
        self.compared += self.scope.len();
        if name.namespace == XML_NAMESPACE {
            return format!("xml:{}", name.local);
        }
        if name.namespace.is_empty() && (is_attribute || self.namespace("").is_empty()) {
            return name.local.clone();
        }
        let fits = |prefix: &str| {
            self.namespace(prefix) == name.namespace && !(is_attribute && prefix.is_empty())
        };
        let known = fits(&name.prefix).then(|| name.prefix.clone());
        let prefix = known.unwrap_or_else(|| {
            // A prefix that this very element declares or uses otherwise cannot be taken again.
            let is_taken = |p: &str| {
                declared.iter().any(|(known, _)| known == p)
                    || self.used.iter().any(|known| known == p)
                    || is_attribute && p.is_empty()
            };
            let mut prefix = name.prefix.clone();
            while is_taken(&prefix) {
                self.made += 1;
                prefix = format!("p{}", self.made);
            }
            let entry = (prefix.clone(), name.namespace.clone());
            declared.push(entry.clone());
            self.scope.push(entry);
            prefix
        });
        self.used.push(prefix.clone());
        match prefix.is_empty() {
            true => name.local.clone(),
            false => format!("{prefix}:{}", name.local),
        }
    }
}
