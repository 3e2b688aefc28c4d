//! A document: its nodes in a table, in document order.
//!
//! Theory: a node's place in the table is its place in the document. After an element come its declarations of namespaces,
//! its attributes, then its children with all that is in them; `end` is where the next node behind it stands. So the
//! descendants of a node are a range, and its next sibling is at its `end`. Nothing is ever changed: who changes a document
//! writes a new text.
//!
//! Invariant: node 0 is the document node; `node < end`, and a parent stands before its children.

use crate::{Error, Meter, Result};
use daruma_value::ValueError;
use daruma_value::xml::{Attribute, DEPTH_MAX, Events, declared, read};
use std::collections::HashMap;
use std::ops::Range;

/// Place of a node in its document.
pub type NodeId = u32;

/// The namespace of `xml:`.
pub(crate) const XML_NAMESPACE: &str = "http://www.w3.org/XML/1998/namespace";
/// The document node.
pub(crate) const ROOT: NodeId = 0;

/// Nodes between two questions to the meter.
const LOOK_NODES: usize = 1 << 12;

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Document,
    Element,
    /// A declaration: no node of the data model, only kept to be written again.
    Namespace,
    Attribute,
    Text,
    Comment,
    Instruction,
}

/// A name with its namespace; the prefix is only a wish of the writer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub(crate) struct Name {
    pub prefix: String,
    pub namespace: String,
    pub local: String,
}

#[derive(Clone, Debug)]
struct Node {
    kind: Kind,
    name: u32,
    parent: NodeId,
    end: NodeId,
    value: Range<usize>,
}

/// A fragment as a tree.
#[derive(Clone, Debug)]
pub struct Document {
    nodes: Vec<Node>,
    names: Vec<Name>,
    text: String,
}

impl Document {
    /// The tree of a fragment: errors 9400 and following.
    pub fn parse(text: &str, meter: &dyn Meter) -> Result<Document> {
        Document::parse_text(text, true, meter)
    }

    /// The same of a text that is not in the normal form, maybe without its blanks between elements.
    pub(crate) fn parse_text(
        text: &str,
        keeps_blanks: bool,
        meter: &dyn Meter,
    ) -> Result<Document> {
        let mut builder = Builder::new();
        let mut listener = Listener {
            builder: &mut builder,
            meter,
            scopes: Vec::new(),
            meanings: HashMap::new(),
            looked_at: 0,
            is_stopped: false,
        };
        let outcome = read(text, true, keeps_blanks, &mut listener);
        match (outcome, listener.is_stopped) {
            (_, true) => Err(Error::Stopped),
            (Err(error), _) => Err(error.into()),
            (Ok(()), _) => Ok(builder.finish()),
        }
    }

    /// Memory that it takes, about.
    pub fn bytes(&self) -> usize {
        let of_name = |n: &Name| n.prefix.capacity() + n.namespace.capacity() + n.local.capacity();
        let names: usize = self.names.iter().map(of_name).sum();
        let nodes = self.nodes.capacity() * size_of::<Node>();
        let table = self.names.capacity() * size_of::<Name>();
        nodes + table + names + self.text.capacity()
    }

    fn node(&self, id: NodeId) -> &Node {
        // Out of range means the document itself: references of another text lead nowhere else.
        self.nodes.get(id as usize).unwrap_or(&self.nodes[0])
    }

    pub(crate) fn len(&self) -> NodeId {
        self.nodes.len() as NodeId
    }

    /// Is there such a node?
    pub(crate) fn has(&self, id: NodeId) -> bool {
        id < self.len()
    }

    pub(crate) fn kind(&self, id: NodeId) -> Kind {
        self.node(id).kind
    }

    pub(crate) fn name(&self, id: NodeId) -> Option<&Name> {
        let node = self.node(id);
        let is_named = matches!(
            node.kind,
            Kind::Element | Kind::Attribute | Kind::Instruction | Kind::Namespace
        );
        self.names.get(node.name as usize).filter(|_| is_named)
    }

    pub(crate) fn parent(&self, id: NodeId) -> Option<NodeId> {
        (id != ROOT).then(|| self.node(id).parent)
    }

    /// Where the next node behind this one and all that is in it stands.
    pub(crate) fn end(&self, id: NodeId) -> NodeId {
        self.node(id).end
    }

    /// Own text of an attribute, text, comment, instruction or declaration.
    pub(crate) fn value(&self, id: NodeId) -> &str {
        self.text
            .get(self.node(id).value.clone())
            .unwrap_or_default()
    }

    /// Children, without attributes.
    pub(crate) fn children(&self, id: NodeId) -> Siblings<'_> {
        let mut next = id + 1;
        let end = self.end(id);
        while next < end && self.is_beside(next) {
            next += 1;
        }
        let has = matches!(self.kind(id), Kind::Document | Kind::Element);
        Siblings {
            document: self,
            next,
            end: if has { end } else { next },
        }
    }

    pub(crate) fn attributes(&self, id: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        self.beside(id).filter(|n| self.kind(*n) == Kind::Attribute)
    }

    pub(crate) fn declarations(&self, id: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        self.beside(id).filter(|n| self.kind(*n) == Kind::Namespace)
    }

    fn beside(&self, id: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        let is_element = self.kind(id) == Kind::Element;
        (id + 1..self.end(id)).take_while(move |n| is_element && self.is_beside(*n))
    }

    /// An attribute or a declaration: no child.
    pub(crate) fn is_beside(&self, id: NodeId) -> bool {
        matches!(self.kind(id), Kind::Attribute | Kind::Namespace)
    }

    /// The text of a node: of an element or a document, all texts in it.
    pub(crate) fn string(&self, id: NodeId) -> String {
        match self.kind(id) {
            Kind::Document | Kind::Element => {
                let texts = (id..self.end(id)).filter(|n| self.kind(*n) == Kind::Text);
                texts.map(|n| self.value(n)).collect()
            }
            _ => self.value(id).to_string(),
        }
    }

    /// Bytes that `string` would have, at most.
    pub(crate) fn string_bytes(&self, id: NodeId) -> usize {
        let first = self.node(id).value.start;
        let last = self
            .nodes
            .get(self.end(id) as usize)
            .map_or(self.text.len(), |n| n.value.start);
        last.saturating_sub(first)
    }
}

/// Children one by one.
pub(crate) struct Siblings<'d> {
    document: &'d Document,
    next: NodeId,
    end: NodeId,
}

impl Iterator for Siblings<'_> {
    type Item = NodeId;

    fn next(&mut self) -> Option<NodeId> {
        if self.next >= self.end {
            return None;
        }
        let found = self.next;
        self.next = self.document.end(found);
        Some(found)
    }
}

/// Makes a document node by node.
#[derive(Debug)]
pub(crate) struct Builder {
    document: Document,
    known: HashMap<Name, u32>,
    open: Vec<NodeId>,
}

impl Builder {
    /// An empty document.
    pub fn new() -> Builder {
        let root = Node {
            kind: Kind::Document,
            name: 0,
            parent: 0,
            end: 1,
            value: 0..0,
        };
        Builder {
            document: Document {
                nodes: vec![root],
                names: vec![Name::default()],
                text: String::new(),
            },
            known: HashMap::from([(Name::default(), 0)]),
            open: vec![ROOT],
        }
    }

    /// Ends what is open.
    pub fn finish(mut self) -> Document {
        while !self.open.is_empty() {
            self.end();
        }
        self.document
    }

    /// Elements that are open.
    pub fn depth(&self) -> usize {
        self.open.len()
    }

    /// Nodes up to now.
    pub fn len(&self) -> usize {
        self.document.nodes.len()
    }

    /// Has the open element a child already?
    pub fn has_content(&self) -> bool {
        let last = self.document.len() - 1;
        let open = self.open.last().copied().unwrap_or(ROOT);
        last != open && !self.document.is_beside(last)
    }

    fn push(&mut self, kind: Kind, name: &Name, value: &str) -> NodeId {
        let name = match self.known.get(name) {
            Some(known) => *known,
            None => {
                let id = self.document.names.len() as u32;
                self.document.names.push(name.clone());
                self.known.insert(name.clone(), id);
                id
            }
        };
        let id = self.document.len();
        let start = self.document.text.len();
        self.document.text.push_str(value);
        let parent = self.open.last().copied().unwrap_or(ROOT);
        let value = start..self.document.text.len();
        self.document.nodes.push(Node {
            kind,
            name,
            parent,
            end: id + 1,
            value,
        });
        id
    }

    /// Begins an element.
    pub fn start(&mut self, name: &Name) {
        let id = self.push(Kind::Element, name, "");
        self.open.push(id);
    }

    /// Ends the innermost element.
    pub fn end(&mut self) {
        let end = self.document.len();
        if let Some(node) = self
            .open
            .pop()
            .and_then(|id| self.document.nodes.get_mut(id as usize))
        {
            node.end = end;
        }
    }

    /// Declares a namespace for the element that is open.
    pub fn declaration(&mut self, prefix: &str, namespace: &str) {
        let name = Name {
            local: prefix.into(),
            ..Name::default()
        };
        self.push(Kind::Namespace, &name, namespace);
    }

    /// `false`: the element has such an attribute.
    pub fn attribute(&mut self, name: &Name, value: &str) -> bool {
        let open = self.open.last().copied().unwrap_or(ROOT);
        let is_it = |n: NodeId| {
            let known = self.document.name(n);
            known.is_some_and(|k| k.local == name.local && k.namespace == name.namespace)
        };
        let beside = open + 1..self.document.len();
        if beside
            .filter(|n| self.document.kind(*n) == Kind::Attribute)
            .any(is_it)
        {
            return false;
        }
        self.push(Kind::Attribute, name, value);
        true
    }

    /// Neighbouring texts are one.
    pub fn text(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        let open = self.open.last().copied().unwrap_or(ROOT);
        if let Some(last) = self.document.nodes.last_mut()
            && last.kind == Kind::Text
            && last.parent == open
        {
            self.document.text.push_str(text);
            last.value.end = self.document.text.len();
            return;
        }
        self.push(Kind::Text, &Name::default(), text);
    }

    /// A comment.
    pub fn comment(&mut self, text: &str) {
        self.push(Kind::Comment, &Name::default(), text);
    }

    /// A processing instruction.
    pub fn instruction(&mut self, target: &str, data: &str) {
        let name = Name {
            local: target.into(),
            ..Name::default()
        };
        self.push(Kind::Instruction, &name, data);
    }

    /// Error 6335 where another element would be too deep. Whoever goes down into a document relies on it.
    pub fn check_depth(&self) -> Result<()> {
        match self.depth() > DEPTH_MAX {
            true => Err(ValueError::new(6335, 1, &[&DEPTH_MAX]).into()),
            false => Ok(()),
        }
    }

    /// Copies a node with all that is in it.
    pub fn copy(&mut self, from: &Document, id: NodeId) -> Result<()> {
        let name = from.name(id).cloned().unwrap_or_default();
        match from.kind(id) {
            Kind::Document => {
                from.children(id)
                    .try_for_each(|child| self.copy(from, child))?;
            }
            Kind::Element => {
                self.check_depth()?;
                self.start(&name);
                for n in from.declarations(id) {
                    let prefix = from.name(n).map_or("", |n| &n.local);
                    self.declaration(prefix, from.value(n));
                }
                for n in from.attributes(id) {
                    let name = from.name(n).cloned().unwrap_or_default();
                    self.push(Kind::Attribute, &name, from.value(n));
                }
                from.children(id)
                    .try_for_each(|child| self.copy(from, child))?;
                self.end();
            }
            Kind::Attribute => {
                self.attribute(&name, from.value(id));
            }
            Kind::Namespace => self.declaration(&name.local, from.value(id)),
            Kind::Text => self.text(from.value(id)),
            Kind::Comment => self.comment(from.value(id)),
            Kind::Instruction => self.instruction(&name.local, from.value(id)),
        }
        Ok(())
    }
}

/// Hears what a text holds, and builds it.
struct Listener<'b> {
    builder: &'b mut Builder,
    meter: &'b dyn Meter,
    /// Declarations of each open element: prefix and namespace.
    scopes: Vec<Vec<(String, String)>>,
    /// What each prefix means, innermost last.
    meanings: HashMap<String, Vec<String>>,
    /// Nodes when the meter was asked last.
    looked_at: usize,
    is_stopped: bool,
}

impl Listener<'_> {
    fn look(&mut self) -> std::result::Result<(), ValueError> {
        let made = self.builder.len() - self.looked_at;
        if made < LOOK_NODES {
            return Ok(());
        }
        self.looked_at += made;
        match self.meter.goes_on(LOOK_NODES * size_of::<Node>()) {
            true => Ok(()),
            false => {
                self.is_stopped = true;
                Err(ValueError::no_memory())
            }
        }
    }

    fn name(&self, written: &str, is_attribute: bool) -> Name {
        let (prefix, local) = written.split_once(':').unwrap_or(("", written));
        let namespace = match (prefix, is_attribute) {
            ("xml", _) => XML_NAMESPACE,
            ("", true) => "",
            _ => self.namespace(prefix),
        };
        Name {
            prefix: prefix.into(),
            namespace: namespace.into(),
            local: local.into(),
        }
    }

    fn namespace(&self, prefix: &str) -> &str {
        let meanings = self.meanings.get(prefix);
        meanings.and_then(|m| m.last()).map_or("", |m| m)
    }
}

impl Events for Listener<'_> {
    fn start(
        &mut self,
        name: &str,
        attributes: &[Attribute<'_>],
    ) -> std::result::Result<(), ValueError> {
        self.look()?;
        let own = attributes.iter().filter_map(|a| {
            let prefix = declared(a.name)?;
            Some((prefix.to_string(), a.value.to_string()))
        });
        let own: Vec<(String, String)> = own.collect();
        for (prefix, namespace) in &own {
            let meanings = self.meanings.entry(prefix.clone()).or_default();
            meanings.push(namespace.clone());
        }
        self.scopes.push(own);
        let name = self.name(name, false);
        self.builder.start(&name);
        for (prefix, namespace) in self.scopes.last().into_iter().flatten() {
            self.builder.declaration(prefix, namespace);
        }
        for attribute in attributes.iter().filter(|a| declared(a.name).is_none()) {
            let name = self.name(attribute.name, true);
            // The text is well-formed: written names are told apart already.
            self.builder.push(Kind::Attribute, &name, &attribute.value);
        }
        debug_assert!(self.builder.depth() <= DEPTH_MAX + 2);
        Ok(())
    }

    fn end(&mut self) -> std::result::Result<(), ValueError> {
        for (prefix, _) in self.scopes.pop().into_iter().flatten() {
            if let Some(meanings) = self.meanings.get_mut(&prefix) {
                meanings.pop();
            }
        }
        self.builder.end();
        Ok(())
    }

    fn text(&mut self, text: &str) -> std::result::Result<(), ValueError> {
        self.look()?;
        self.builder.text(text);
        Ok(())
    }

    fn comment(&mut self, text: &str) -> std::result::Result<(), ValueError> {
        self.look()?;
        self.builder.comment(text);
        Ok(())
    }

    fn instruction(&mut self, target: &str, data: &str) -> std::result::Result<(), ValueError> {
        self.look()?;
        self.builder.instruction(target, data);
        Ok(())
    }
}
