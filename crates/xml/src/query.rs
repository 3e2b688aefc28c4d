//! A query as callers see it: parsed once, checked against the types of what it takes from SQL, run many times.

use crate::ast::{Change, Expr};
use crate::atom::{Atom, AtomType};
use crate::document::{Document, NodeId, ROOT};
use crate::eval::{Item, Run};
use crate::infer::Checker;
use crate::parse::Parser;
use crate::write::Writer;
use crate::{Error, Meter, QUERY_BYTES_MAX, Result, error, modify};
use daruma_value::xml::{is_allowed, with_line_ends};

/// The method that a query is the argument of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Value,
    Query,
    Exist,
    Nodes,
    Modify,
}

impl Method {
    /// The method of this name; names of methods are told apart by case, as in the product.
    pub fn named(name: &str) -> Option<Method> {
        Some(match name {
            "value" => Method::Value,
            "query" => Method::Query,
            "exist" => Method::Exist,
            "nodes" => Method::Nodes,
            "modify" => Method::Modify,
            _ => return None,
        })
    }

    /// As written.
    pub fn name(self) -> &'static str {
        match self {
            Method::Value => "value",
            Method::Query => "query",
            Method::Exist => "exist",
            Method::Nodes => "nodes",
            Method::Modify => "modify",
        }
    }
}

/// A namespace that WITH XMLNAMESPACES declares; the empty prefix is the default of elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    pub prefix: String,
    pub uri: String,
}

/// What a query takes from SQL, by the name that it gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum External {
    /// `sql:variable("@x")`
    Variable(String),
    /// `sql:column("t.c")`
    Column(String),
}

/// A value that SQL hands in.
#[derive(Clone, Debug)]
pub enum Given {
    /// NULL.
    Nothing,
    Atom(Atom),
    /// A value of type `xml`.
    Fragment(Document),
}

#[derive(Clone, Debug)]
enum Body {
    Expr(Expr),
    Change(Change),
}

/// A parsed query.
#[derive(Clone, Debug)]
pub struct Query {
    method: Method,
    body: Body,
    slots: usize,
    externals: Vec<External>,
}

impl Query {
    /// Reads a query: errors 2205 to 2395 and 9303 to 9335.
    pub fn parse(method: Method, text: &str, namespaces: &[Namespace]) -> Result<Query> {
        if text.len() > QUERY_BYTES_MAX {
            return error(2363, &[]);
        }
        if text.trim().is_empty() {
            return error(6306, &[]);
        }
        if let Some(c) = text.chars().find(|c| !is_allowed(*c)) {
            return error(2333, &[&format!("{:02x}", c as u32)]);
        }
        let text = with_line_ends(text);
        let mut parser = Parser::new(&text, namespaces);
        let body = match method {
            Method::Modify => Body::Change(parser.change()?),
            _ => Body::Expr(parser.query()?),
        };
        Ok(Query {
            method,
            body,
            slots: parser.slots,
            externals: parser.externals,
        })
    }

    /// What it takes from SQL, in the order of `check` and of the values it is run with.
    pub fn externals(&self) -> &[External] {
        &self.externals
    }

    /// The method it was read for.
    pub fn method(&self) -> Method {
        self.method
    }

    /// Does it make sense with externals of these types? `is_node`: it is asked of a node that nodes() gave.
    pub fn check(&self, externals: &[AtomType], is_node: bool) -> Result<()> {
        let mut checker = Checker::new(externals, self.slots, is_node);
        match &self.body {
            Body::Expr(expr) => checker.query(self.method, expr),
            Body::Change(change) => checker.change(change),
        }
    }

    pub(crate) fn expr(&self) -> Option<&Expr> {
        match &self.body {
            Body::Expr(expr) => Some(expr),
            Body::Change(_) => None,
        }
    }

    /// A query of a part of this one.
    pub(crate) fn with(&self, expr: Expr) -> Query {
        Query {
            body: Body::Expr(expr),
            ..self.clone()
        }
    }

    fn items(&self, run: &Run<'_>, context: NodeId) -> Result<Vec<Item>> {
        match &self.body {
            Body::Expr(expr) => run.top(expr, context),
            Body::Change(_) => Ok(Vec::new()),
        }
    }

    /// Its value, as one atom; `None` for the empty sequence.
    pub fn value(
        &self,
        document: &Document,
        context: Option<NodeId>,
        given: &[Given],
        meter: &dyn Meter,
    ) -> Result<Option<Atom>> {
        let run = Run::new(document, given, self.slots, meter);
        let items = self.items(&run, context.unwrap_or(ROOT))?;
        match items.first() {
            Some(item) => run.atomized(item).map(Some),
            None => Ok(None),
        }
    }

    /// Does it give anything?
    pub fn exist(
        &self,
        document: &Document,
        context: Option<NodeId>,
        given: &[Given],
        meter: &dyn Meter,
    ) -> Result<bool> {
        let run = Run::new(document, given, self.slots, meter);
        Ok(!self.items(&run, context.unwrap_or(ROOT))?.is_empty())
    }

    /// What it gives, as a fragment.
    pub fn query(
        &self,
        document: &Document,
        context: Option<NodeId>,
        given: &[Given],
        meter: &dyn Meter,
    ) -> Result<String> {
        let run = Run::new(document, given, self.slots, meter);
        let items = self.items(&run, context.unwrap_or(ROOT))?;
        let mut writer = Writer::new(meter);
        let mut is_after_atom = false;
        for item in &items {
            match item {
                Item::Node(of, id) => writer.node(&run.document(*of), *id)?,
                Item::Atom(atom) => writer.atom(&atom.text(), is_after_atom)?,
            }
            is_after_atom = matches!(item, Item::Atom(_));
        }
        writer.finish()
    }

    /// The nodes of the document that it gives.
    pub fn nodes(
        &self,
        document: &Document,
        context: Option<NodeId>,
        given: &[Given],
        meter: &dyn Meter,
    ) -> Result<Vec<NodeId>> {
        let run = Run::new(document, given, self.slots, meter);
        let items = self.items(&run, context.unwrap_or(ROOT))?;
        let own = items.into_iter().map(|item| match item {
            Item::Node(0, id) => Ok(id),
            // A node that the query made has no place in the document.
            _ => error(2373, &[&"nodes()"]),
        });
        own.collect()
    }

    /// The document after the change, as a fragment.
    pub fn modify(
        &self,
        document: &Document,
        given: &[Given],
        meter: &dyn Meter,
    ) -> Result<String> {
        let run = Run::new(document, given, self.slots, meter);
        match &self.body {
            Body::Change(change) => modify::apply(change, &run, meter),
            Body::Expr(_) => Err(Error::Stopped),
        }
    }
}
