//! OPENXML: nodes of a prepared document as rows of columns, or as edges.
//!
//! Theory: patterns are paths like those of the methods. A column is what its pattern finds first from the row's node: its text,
//! for a column of type `xml` its markup, or what a metaproperty says of it. Without patterns a column is the attribute or the
//! child element of its name. The number of a node is its place in the document; that of the root element is 0, and the text
//! of an attribute, which is a node here alone, has one behind all places.
//!
//! Invariant: a pattern takes nothing from SQL, and the prepared document never changes.

use crate::ast::{Axis, Expr};
use crate::document::{Document, Kind, NodeId, ROOT};
use crate::query::{Method, Namespace, Query};
use crate::write::Writer;
use crate::{Meter, Result, error};
use daruma_value::ValueError;
use daruma_value::xml::is_blank_text;

/// Prefix of the metaproperties where no other is declared.
const META_PREFIX: &str = "mp";
const META_NAMESPACE: &str = "urn:schemas-microsoft-com:xml-metaprop";

/// Bytes of edges between two questions to the meter.
const LOOK_BYTES: usize = 1024 * size_of::<Edge>();

/// A document that patterns are asked of, with the namespaces that they may name.
#[derive(Debug)]
pub struct Prepared {
    document: Document,
    namespaces: Vec<Namespace>,
}

/// A path, and maybe what is asked of the node that it finds.
#[derive(Debug)]
pub struct Pattern {
    /// `None`: the row's node.
    path: Option<Query>,
    meta: Option<Meta>,
}

/// What `@mp:..` asks of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meta {
    Id,
    LocalName,
    NamespaceUri,
    ParentId,
    ParentLocalName,
    ParentNamespaceUri,
    ParentPrefix,
    Prefix,
    Prev,
    Text,
}

/// How a column without a pattern is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mapping {
    Attributes,
    Elements,
    /// An attribute, else an element.
    Both,
}

/// Value of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    Number(i64),
    Text(String),
}

/// A row of the edge table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    pub id: i64,
    pub parent: Option<i64>,
    /// The numbers of the document object model: 1 element, 2 attribute, 3 text, 7 instruction, 8 comment.
    pub kind: i32,
    pub local: String,
    pub prefix: Option<String>,
    pub namespace: Option<String>,
    pub previous: Option<i64>,
    pub text: Option<String>,
}

impl Prepared {
    /// A document with one root element: errors 9400 and following. The root element of `declares` declares the prefixes
    /// that patterns may use.
    pub fn parse(text: &str, declares: Option<&str>, meter: &dyn Meter) -> Result<Prepared> {
        let document = Document::parse_text(text, false, meter)?;
        root_element(&document)?;
        let mut namespaces = vec![Namespace {
            prefix: META_PREFIX.into(),
            uri: META_NAMESPACE.into(),
        }];
        if let Some(declares) = declares {
            let declaring = Document::parse_text(declares, false, meter)?;
            let root = root_element(&declaring)?;
            namespaces.extend(declaring.declarations(root).map(|n| Namespace {
                prefix: declaring.name(n).map_or(String::new(), |n| n.local.clone()),
                uri: declaring.value(n).into(),
            }));
        }
        Ok(Prepared {
            document,
            namespaces,
        })
    }

    /// Memory that it takes, about.
    pub fn bytes(&self) -> usize {
        let text = |n: &Namespace| n.prefix.capacity() + n.uri.capacity();
        let texts: usize = self.namespaces.iter().map(text).sum();
        let table = self.namespaces.capacity() * size_of::<Namespace>();
        size_of::<Prepared>() + self.document.bytes() + table + texts
    }

    /// A pattern with the prefixes of this document.
    pub fn pattern(&self, text: &str) -> Result<Pattern> {
        let query = Query::parse(Method::Nodes, text, &self.namespaces)?;
        if !query.externals().is_empty() {
            return error(2395, &[&"{urn:schemas-microsoft-com:xml-sql}", &"variable"]);
        }
        let Some(expr) = query.expr() else {
            return error(9341, &[&text]);
        };
        match meta_of(expr) {
            Some((meta, path)) => Ok(Pattern {
                path: path.map(|path| query.with(path.clone())),
                meta: Some(meta),
            }),
            None => Ok(Pattern {
                path: Some(query),
                meta: None,
            }),
        }
    }

    /// The nodes of a pattern, from a node or the document.
    pub fn nodes(
        &self,
        pattern: &Pattern,
        from: Option<NodeId>,
        meter: &dyn Meter,
    ) -> Result<Vec<NodeId>> {
        match &pattern.path {
            Some(path) => path.nodes(&self.document, from, &[], meter),
            None => Ok(vec![from.unwrap_or(ROOT)]),
        }
    }

    /// What a pattern finds first from the row's node; `as_markup`: as a fragment.
    pub fn cell(
        &self,
        pattern: &Pattern,
        row: NodeId,
        as_markup: bool,
        meter: &dyn Meter,
    ) -> Result<Option<Found>> {
        let found = self.nodes(pattern, Some(row), meter)?;
        match (found.first(), pattern.meta) {
            (None, _) => Ok(None),
            (Some(node), None) => self.shown(*node, as_markup, meter).map(Some),
            (Some(node), Some(meta)) => self.meta(*node, meta, meter),
        }
    }

    /// The attribute or element of a column's name, which may have a prefix of the document's patterns.
    pub fn named(
        &self,
        name: &str,
        row: NodeId,
        mapping: Mapping,
        as_markup: bool,
        meter: &dyn Meter,
    ) -> Result<Option<Found>> {
        let (prefix, local) = name.split_once(':').unwrap_or(("", name));
        let declared = self.namespaces.iter().rev().find(|n| n.prefix == prefix);
        let namespace = match (prefix, declared) {
            ("", _) => "",
            (_, Some(declared)) => &declared.uri,
            (_, None) => return Ok(None),
        };
        let document = &self.document;
        let is_it = |n: &NodeId| {
            let name = document.name(*n);
            name.is_some_and(|k| k.local == local && k.namespace == namespace)
        };
        let is_element = |n: &NodeId| document.kind(*n) == Kind::Element && is_it(n);
        let attribute = || document.attributes(row).find(is_it);
        let element = || document.children(row).find(is_element);
        let found = match mapping {
            Mapping::Attributes => attribute(),
            Mapping::Elements => element(),
            Mapping::Both => attribute().or_else(element),
        };
        found
            .map(|node| self.shown(node, as_markup, meter))
            .transpose()
    }

    fn shown(&self, node: NodeId, as_markup: bool, meter: &dyn Meter) -> Result<Found> {
        Ok(Found::Text(match as_markup {
            true => self.markup(node, meter)?,
            false => self.document.string(node),
        }))
    }

    fn markup(&self, node: NodeId, meter: &dyn Meter) -> Result<String> {
        let mut writer = Writer::new(meter);
        match self.document.kind(node) {
            Kind::Attribute => writer.atom(self.document.value(node), false)?,
            _ => writer.node(&self.document, node)?,
        }
        writer.finish()
    }

    fn meta(&self, node: NodeId, meta: Meta, meter: &dyn Meter) -> Result<Option<Found>> {
        let document = &self.document;
        let parent = document.parent(node);
        let of_name = |node: Option<NodeId>, part: fn(&crate::document::Name) -> &str| {
            let name = node.and_then(|n| document.name(n));
            let part = name.map(part).filter(|part| !part.is_empty());
            part.map(|part| Found::Text(part.into()))
        };
        Ok(match meta {
            Meta::Id => Some(Found::Number(self.number(node))),
            Meta::ParentId => self.parent_number(node).map(Found::Number),
            Meta::Prev => self.previous(node).map(Found::Number),
            Meta::LocalName => of_name(Some(node), |n| &n.local),
            Meta::Prefix => of_name(Some(node), |n| &n.prefix),
            Meta::NamespaceUri => of_name(Some(node), |n| &n.namespace),
            Meta::ParentLocalName => of_name(parent, |n| &n.local),
            Meta::ParentPrefix => of_name(parent, |n| &n.prefix),
            Meta::ParentNamespaceUri => of_name(parent, |n| &n.namespace),
            Meta::Text => Some(Found::Text(self.markup(node, meter)?)),
        })
    }

    fn number(&self, node: NodeId) -> i64 {
        let is_root =
            self.document.parent(node) == Some(ROOT) && self.document.kind(node) == Kind::Element;
        if is_root { 0 } else { i64::from(node) }
    }

    fn parent_number(&self, node: NodeId) -> Option<i64> {
        let parent = self.document.parent(node).filter(|p| *p != ROOT)?;
        Some(self.number(parent))
    }

    /// The node before it in the same parent, which no attribute has.
    fn previous(&self, node: NodeId) -> Option<i64> {
        if self.document.is_beside(node) {
            return None;
        }
        let parent = self.document.parent(node)?;
        // The place before it is the parent's, that of something beside the parent's children, or in the node before it.
        let mut before = node.checked_sub(1).filter(|n| *n != parent)?;
        while let Some(above) = self.document.parent(before).filter(|n| *n != parent) {
            before = above;
        }
        (!self.document.is_beside(before)).then(|| self.number(before))
    }

    /// The nodes in these and they themselves, each once, in the order of the document.
    pub fn edges(&self, of: &[NodeId], meter: &dyn Meter) -> Result<Vec<Edge>> {
        let mut edges: Vec<Edge> = Vec::new();
        // What has been taken since the meter was asked.
        let mut taken = 0;
        let mut next = ROOT;
        // The last child that was passed of each element that is open, by the element's place.
        let mut open: Vec<(NodeId, Option<NodeId>)> = Vec::new();
        for node in 0..self.document.len() {
            while open
                .last()
                .is_some_and(|(at, _)| self.document.end(*at) <= node)
            {
                open.pop();
            }
            let mut previous = None;
            if !self.document.is_beside(node)
                && let Some((_, last)) = open.last_mut()
            {
                previous = last.replace(node);
            }
            if matches!(self.document.kind(node), Kind::Document | Kind::Element) {
                open.push((node, None));
            }
            if of.binary_search(&node).is_ok() {
                next = next.max(self.document.end(node));
            }
            let known = edges.len();
            if node < next {
                self.add_edges(node, previous, &mut edges);
            }
            taken += edges.iter().skip(known).map(Edge::bytes).sum::<usize>();
            if taken >= LOOK_BYTES && !meter.goes_on(std::mem::take(&mut taken)) {
                return Err(crate::Error::Stopped);
            }
        }
        Ok(edges)
    }

    fn add_edges(&self, node: NodeId, previous: Option<NodeId>, edges: &mut Vec<Edge>) {
        let document = &self.document;
        let (kind, own_name) = match document.kind(node) {
            Kind::Document | Kind::Namespace => return,
            Kind::Element => (1, None),
            Kind::Attribute => (2, None),
            Kind::Text => (3, Some("#text")),
            Kind::Instruction => (7, None),
            Kind::Comment => (8, Some("#comment")),
        };
        let name = document.name(node);
        let part = |part: fn(&crate::document::Name) -> &String| {
            let part = name.map(part).filter(|part| !part.is_empty());
            part.cloned()
        };
        let has_text = matches!(kind, 3 | 7 | 8);
        let own = Edge {
            id: self.number(node),
            parent: self.parent_number(node),
            kind,
            local: own_name.map_or_else(|| part(|n| &n.local).unwrap_or_default(), str::to_string),
            prefix: part(|n| &n.prefix),
            namespace: part(|n| &n.namespace),
            previous: previous.map(|n| self.number(n)),
            text: has_text.then(|| document.value(node).to_string()),
        };
        let id = own.id;
        edges.push(own);
        if kind == 2 {
            edges.push(Edge {
                id: i64::from(document.len()) + i64::from(node),
                parent: Some(id),
                kind: 3,
                local: "#text".into(),
                prefix: None,
                namespace: None,
                previous: None,
                text: Some(document.value(node).to_string()),
            });
        }
    }
}

impl Edge {
    /// Memory that it takes.
    fn bytes(&self) -> usize {
        let of = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let texts = of(&self.prefix) + of(&self.namespace) + of(&self.text);
        size_of::<Edge>() + self.local.len() + texts
    }
}

/// The only element at the top, where no text may be.
fn root_element(document: &Document) -> Result<NodeId> {
    let mut roots = document
        .children(ROOT)
        .filter(|n| document.kind(*n) == Kind::Element);
    let has_text = document
        .children(ROOT)
        .any(|n| document.kind(n) == Kind::Text && !is_blank_text(document.value(n)));
    match (roots.next(), roots.next()) {
        (Some(root), None) if !has_text => Ok(root),
        _ => Err(ValueError::new(9400, 1, &[&1, &1]).into()),
    }
}

/// The metaproperty at the end of a path, and the path before it.
fn meta_of(expr: &Expr) -> Option<(Meta, Option<&Expr>)> {
    match expr {
        Expr::Path(left, right) => {
            let (meta, None) = meta_of(right)? else {
                return None;
            };
            Some((meta, Some(left)))
        }
        Expr::Step {
            axis: Axis::Attribute,
            test,
            predicates,
        } if predicates.is_empty() => {
            let local = test.local_in(META_NAMESPACE)?;
            Meta::named(local).map(|meta| (meta, None))
        }
        _ => None,
    }
}

impl Meta {
    fn named(local: &str) -> Option<Meta> {
        Some(match local {
            "id" => Meta::Id,
            "localname" => Meta::LocalName,
            "namespaceuri" => Meta::NamespaceUri,
            "parentid" => Meta::ParentId,
            "parentlocalname" => Meta::ParentLocalName,
            "parentnamespaceuri" => Meta::ParentNamespaceUri,
            "parentprefix" => Meta::ParentPrefix,
            "prefix" => Meta::Prefix,
            "prev" => Meta::Prev,
            "xmltext" => Meta::Text,
            _ => return None,
        })
    }

    /// Is it the markup of a node, of which flag 8 leaves out what other columns take?
    pub fn is_text(self) -> bool {
        self == Meta::Text
    }
}

impl Pattern {
    /// The metaproperty that it ends with.
    pub fn meta(&self) -> Option<Meta> {
        self.meta
    }
}
