//! Methods of the type `xml`: value, query, exist and nodes; modify where SET says so.
//!
//! Theory: a query is a literal, so it is parsed and checked when the statement is bound. Variables and columns that it names
//! become arguments of the call. A row of nodes() is a node of the document that nodes() was asked of: its column holds the
//! number of the document and the node's place, and who uses the column is given the expression of the document beside it.
//! Such a column therefore never leaves the query that has it, which is the product's rule too (493).

use super::Binder;
use super::scope::means_changed;
use super::tree::*;
use crate::error::Result;
use crate::executor::xml::{XmlMethod, XmlNodes, atom_type, told};
use crate::messages;
use daruma_syntax::ast::{
    self, ColumnRef, Expr, FunctionCall, Ident, Literal, ObjectName, QueryBody, SelectItem, Span,
    StatementKind,
};
use daruma_syntax::{ParseOptions, parse_batch};
use daruma_value::{DataType, ValueError};
use daruma_xml::{External, Method, Namespace, Query};
use std::sync::Arc;

/// What a method is called on.
struct Target {
    document: Scalar,
    /// Place of the node, for a column of nodes().
    node: Option<Scalar>,
    /// As messages name it.
    name: String,
    /// Before the method's name in errors of queries.
    owner: String,
}

impl Binder<'_> {
    /// `t.c.method(..)`, which is written as a call; `None` where the name before the method is no column.
    pub(super) fn column_method(&mut self, call: &FunctionCall) -> Result<Option<Scalar>> {
        let name = &call.name;
        let Some(column) = column_before(name) else {
            return Ok(None);
        };
        if self.find_column(&column).is_err() {
            return Ok(None);
        }
        self.method(&Expr::Column(column), &name.name, &call.args)
            .map(Some)
    }

    /// A method of an expression: errors 227, 258, 8137.
    pub(super) fn method(
        &mut self,
        target: &Expr,
        method: &Ident,
        args: &[Expr],
    ) -> Result<Scalar> {
        let mutates = matches!(target, Expr::Column(column) if means_changed(column));
        let target = self.method_target(target)?;
        let Some(found) = Method::named(&method.text).filter(|m| *m != Method::Nodes) else {
            return Err(messages::error(227, &[&method.text]));
        };
        match (found, mutates) {
            (Method::Modify, false) => return Err(messages::error(8137, &[&method.text])),
            (Method::Modify, true) | (_, false) => {}
            (_, true) => return Err(messages::error(8113, &[&method.text])),
        }
        let (text, rest) = literal_arguments(found, args)?;
        let to = match (found, rest) {
            (Method::Value, Some(name)) => self.value_type(name)?,
            (Method::Exist, _) => DataType::Bit,
            _ => DataType::Xml,
        };
        let (call, args) = self.xml_method(found, target, text, to)?;
        let kind = Kind::XmlMethod {
            call: Arc::new(call),
            args,
        };
        Ok(Scalar::new(kind, Type::new(to, true)))
    }

    /// `column.nodes('..') AS t(c)` as a source; `None` where the name is no column.
    pub(super) fn column_nodes(&mut self, function: &ast::TableFunction) -> Result<Option<Rel>> {
        let call = &function.call;
        let Some(column) = column_before(&call.name).filter(|_| call.name.name.text == "nodes")
        else {
            return Ok(None);
        };
        if self.with_visible(|b| Ok(b.find_column(&column).is_err()))? {
            return Ok(None);
        }
        let (alias, columns) = (function.alias.as_ref(), &function.columns);
        let target = Expr::Column(column);
        self.method_rows(&target, &call.name.name, &call.args, alias, columns)
            .map(Some)
    }

    /// Rows of nodes(): error 318 without an alias for the table and its column.
    pub(super) fn method_rows(
        &mut self,
        target: &Expr,
        method: &Ident,
        args: &[Expr],
        alias: Option<&Ident>,
        columns: &[Ident],
    ) -> Result<Rel> {
        if method.text != "nodes" {
            return Err(messages::error(227, &[&method.text]));
        }
        let (Some(alias), [column]) = (alias, columns) else {
            return Err(messages::error_state(318, 0, &[]));
        };
        let (text, _) = literal_arguments(Method::Nodes, args)?;
        let (call, args, document) = self.with_visible(|b| {
            let target = b.method_target(target)?;
            let document = target.document.clone();
            let (call, args) = b.xml_method(Method::Nodes, target, text, DataType::Xml)?;
            Ok((call, args, document))
        })?;
        let name = ObjectName::bare(method.clone());
        let rows = Arc::new(XmlNodes::new(call, &column.text, args.len()));
        let bound = self.rows_of_builtin(&name, rows, &args)?;
        let ids: Vec<ColId> = bound.columns.iter().map(|c| c.id).collect();
        for id in ids {
            self.node_columns.push((id, document.clone()));
        }
        self.named(bound, Some(alias), columns)
    }

    /// Runs `f` with what a source of FROM may see: the tables beside it in APPLY only.
    fn with_visible<T>(&mut self, f: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.lateral {
            return f(self);
        }
        let own = self.scopes.pop();
        let result = f(self);
        self.scopes.extend(own);
        result
    }

    /// The document of a column that nodes() gave.
    pub(super) fn node_document(&self, id: ColId) -> Option<&Scalar> {
        let found = self.node_columns.iter().find(|(known, _)| *known == id);
        found.map(|(_, document)| document)
    }

    /// Error 493 for a column of nodes(), which only methods may use.
    pub(super) fn check_no_node(&self, id: ColId) -> Result<()> {
        match self.node_document(id) {
            Some(_) => Err(messages::error(493, &[&self.columns[id as usize].name])),
            None => Ok(()),
        }
    }

    /// The place of a node, where only its being there is asked for.
    pub(super) fn node_column(&self, expr: &Expr) -> Option<Scalar> {
        let Expr::Column(column) = expr else {
            return None;
        };
        let (_, _, id) = self.find_column(column).ok()?;
        self.node_document(id).map(|_| self.column(id))
    }

    fn sees_no_table(&self) -> bool {
        self.scopes.iter().all(|scope| scope.tables.is_empty())
    }

    fn method_target(&mut self, target: &Expr) -> Result<Target> {
        let (document, node, name, owner) = match target {
            // What SET names and no scope has is a variable.
            Expr::Column(column) if means_changed(column) && self.sees_no_table() => {
                let name = column.name.text.clone();
                let variable = Expr::Variable {
                    name: name.clone(),
                    span: column.span,
                };
                (self.expr(&variable)?, None, name, String::new())
            }
            Expr::Column(column) => {
                let (table, at, id) = self.find_column(column)?;
                self.note_read(table, at);
                let name = column.name.text.clone();
                match self.node_document(id) {
                    Some(document) => {
                        (document.clone(), Some(self.column(id)), name, String::new())
                    }
                    None => {
                        let owner = format!("{}.", self.columns[id as usize].qualified);
                        (self.column(id), None, name, owner)
                    }
                }
            }
            Expr::Variable { name, .. } => (self.expr(target)?, None, name.clone(), String::new()),
            other => (self.expr(other)?, None, String::new(), String::new()),
        };
        match document.ty.data_type {
            DataType::Xml => Ok(Target {
                document,
                node,
                name,
                owner,
            }),
            other => Err(messages::error(258, &[&other.name()])),
        }
    }

    /// The call with its arguments: document, node, and what the query takes from SQL.
    fn xml_method(
        &mut self,
        method: Method,
        target: Target,
        text: &str,
        to: DataType,
    ) -> Result<(XmlMethod, Vec<Scalar>)> {
        let namespaces: Vec<Namespace> = self
            .xml_namespaces
            .iter()
            .map(|n| Namespace {
                prefix: n.prefix.as_ref().map_or(String::new(), |p| p.text.clone()),
                uri: n.uri.clone(),
            })
            .collect();
        let owner = format!("{}{}()", target.owner, method.name());
        let query = Query::parse(method, text, &namespaces).map_err(|e| told(e, &owner))?;
        let has_node = target.node.is_some();
        // What may be something else by the time that a node is asked.
        let is_pinned = method == Method::Nodes && !target.document.is_deterministic();
        let mut args = vec![target.document];
        args.extend(target.node);
        let mut given = Vec::with_capacity(query.externals().len());
        for external in query.externals() {
            let scalar = self.external(external)?;
            given.push(scalar.ty.data_type);
            args.push(scalar);
        }
        let mut atoms = Vec::with_capacity(given.len());
        for data_type in &given {
            let atom = atom_type(*data_type);
            atoms.push(atom.ok_or_else(|| {
                messages::error(9344, &[&format!("XQuery [{owner}]: "), &data_type.name()])
            })?);
        }
        query.check(&atoms, has_node).map_err(|e| told(e, &owner))?;
        let call = XmlMethod {
            query,
            text: text.to_string(),
            namespaces,
            owner,
            target: target.name,
            has_node,
            given,
            to,
            is_pinned,
        };
        Ok((call, args))
    }

    /// Errors 9501 and 9519 for a variable that is none.
    fn external(&mut self, external: &External) -> Result<Scalar> {
        match external {
            External::Variable(name) => {
                let variable = Expr::Variable {
                    name: name.clone(),
                    span: Span::default(),
                };
                if !name.starts_with('@') || name.len() < 2 {
                    return Err(messages::error(9519, &[name]));
                }
                let found = self.expr(&variable);
                found.map_err(|_| messages::error_state(9501, 2, &[name]))
            }
            External::Column(name) => {
                let mut parts: Vec<Ident> = name
                    .split('.')
                    .map(|p| Ident::new(p.trim_matches(['[', ']'])))
                    .collect();
                let column = parts.pop().unwrap_or(Ident::new(""));
                let table = parts.pop().map(|table| ObjectName {
                    schema: parts.pop(),
                    database: parts.pop(),
                    ..ObjectName::bare(table)
                });
                let column = ColumnRef {
                    table,
                    name: column,
                    span: Span::default(),
                };
                self.resolve_column(&column)
            }
        }
    }

    /// The type that value() names: error 9500.
    fn value_type(&mut self, name: &str) -> Result<DataType> {
        let wrong = || messages::error(9500, &[&name]);
        let named = type_named(name).ok_or_else(wrong)?;
        let found = self.type_name(&named, 30).map_err(|_| wrong())?;
        let is_refused = matches!(
            found,
            DataType::Xml
                | DataType::Text
                | DataType::NText
                | DataType::Image
                | DataType::RowVersion
                | DataType::Variant
                | DataType::HierarchyId
                | DataType::Geography
                | DataType::Geometry
        );
        match is_refused {
            true => Err(wrong()),
            false => Ok(found),
        }
    }
}

/// The column that a call's name has before the method.
fn column_before(name: &ObjectName) -> Option<ColumnRef> {
    Method::named(&name.name.text)?;
    let table = name.database.clone().map(|table| ObjectName {
        schema: name.server.clone(),
        span: name.span,
        ..ObjectName::bare(table)
    });
    Some(ColumnRef {
        table,
        name: name.schema.clone()?,
        span: name.span,
    })
}

/// The query, and the type for value(): errors 174, 8172.
fn literal_arguments(method: Method, args: &[Expr]) -> Result<(&str, Option<&str>)> {
    let wanted = if method == Method::Value { 2 } else { 1 };
    if args.len() != wanted {
        return Err(ValueError::new(174, 1, &[&method.name(), &wanted]).into());
    }
    let mut texts = Vec::with_capacity(wanted);
    for (at, arg) in args.iter().enumerate() {
        match arg {
            Expr::Literal(Literal::String { text, .. }) => texts.push(text.as_str()),
            _ => return Err(messages::error(8172, &[&(at + 1), &method.name()])),
        }
    }
    let mut texts = texts.into_iter();
    let query = texts.next().unwrap_or_default();
    Ok((query, texts.next()))
}

/// A type as it would be written in CAST.
fn type_named(text: &str) -> Option<ast::TypeName> {
    let options = ParseOptions {
        quoted_identifier: true,
    };
    let batch = parse_batch(&format!("SELECT CAST(NULL AS {text})"), &options).ok()?;
    let [statement] = &batch[..] else {
        return None;
    };
    let StatementKind::Select(query) = &statement.kind else {
        return None;
    };
    let QueryBody::Select(select) = &query.body else {
        return None;
    };
    match &select.items[..] {
        [
            SelectItem::Expr {
                expr: Expr::Cast { to, .. },
                alias: None,
            },
        ] if select.from.is_empty() => Some(to.clone()),
        _ => None,
    }
}
