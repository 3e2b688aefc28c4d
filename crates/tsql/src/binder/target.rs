//! Targets of UPDATE and DELETE: a query whose rows also carry the key and stamp of one table's row.
//!
//! Theory: the target is a table of FROM when FROM has one by that alias or name, otherwise one more table joined to it.
//! A common table expression or view may stand for its base table. While FROM is bound, the first scan that fits takes
//! the request and produces the two extra columns, which flow upwards like any others.

use super::scope::NameScope;
use super::tree::*;
use super::{Binder, ColumnInfo, ScopeEntry};
use crate::error::{Result, SqlError};
use crate::executor::TargetSpec;
use crate::host::{Resolved, TableRef, VariableType};
use daruma_catalog::names_equal;
use daruma_syntax::ast::{DmlTarget, ObjectName, TableSource};
use daruma_value::{DataType, Len};

/// What a scan must be to be the target.
pub(super) struct TargetRequest {
    wanted: Wanted,
    taken: Option<Taken>,
}

enum Wanted {
    Alias(String),
    Object(u16, i32),
    /// The first table met: the base of a view or common table expression.
    Any,
}

struct Taken {
    table: TableRef,
    columns: Vec<ColId>,
    key: ColId,
    stamp: ColId,
}

/// A bound target query.
pub struct BoundTarget {
    pub rel: Rel,
    pub table: TableRef,
    /// The target's columns, virtual computed ones included.
    pub columns: Vec<ColId>,
    pub key: ColId,
    pub stamp: ColId,
    pub items: Vec<ColId>,
    /// Names of the other tables of FROM and their columns.
    pub sources: Vec<ScopeEntry>,
    /// Names that the statement knows the target's columns by, when it is a view or common table expression.
    pub exposed: Vec<(String, ColId)>,
}

impl Binder<'_> {
    pub fn target(&mut self, spec: &TargetSpec<'_>) -> Result<BoundTarget> {
        for hint in spec.options {
            self.hint(hint)?;
        }
        self.add_ctes(spec.with)?;
        self.scopes.push(NameScope::default());
        let (mut rel, alias) = self.target_from(spec)?;
        let Some(request) = self.target.take() else {
            return Err(not_updatable(&alias));
        };
        let Some(taken) = request.taken else {
            return Err(not_updatable(&alias));
        };
        if let Some(filter) = spec.filter {
            let condition = self.condition(filter)?;
            super::query::check_where(&condition)?;
            rel = rel.filter(Some(condition));
        }
        if let Some(top) = spec.top {
            rel = self.top(rel, top, Vec::new())?;
        }
        let mut items = Vec::with_capacity(spec.items.len());
        let mut computed = Vec::new();
        for expr in &spec.items {
            let scalar = self.expr(expr)?;
            if scalar.any(&|s| matches!(s.kind, Kind::Aggregate(_))) {
                return Err(crate::messages::error(157, &[]));
            }
            super::query::check_where(&scalar)?;
            let id = match scalar.as_column() {
                Some(id) => id,
                None => {
                    let id = self.new_computed("", &scalar)?;
                    computed.push((id, scalar));
                    id
                }
            };
            items.push(id);
        }
        let (own, sources): (Vec<_>, Vec<_>) = std::mem::take(&mut self.scope().tables)
            .into_iter()
            .partition(|t| names_equal(&t.name, &alias));
        Ok(BoundTarget {
            rel: rel.compute(computed),
            table: taken.table,
            columns: taken.columns,
            key: taken.key,
            stamp: taken.stamp,
            items,
            sources,
            exposed: own
                .into_iter()
                .next()
                .map(|t| t.columns)
                .unwrap_or_default(),
        })
    }

    /// FROM with the target in it, and the alias by which the target is known.
    fn target_from(&mut self, spec: &TargetSpec<'_>) -> Result<(Rel, String)> {
        let (name, hints) = match spec.target {
            DmlTarget::Table { name, hints } => (name, hints.as_slice()),
            DmlTarget::Variable { name, .. } => return self.variable_target(name, spec.from),
            DmlTarget::Rowset(_) => {
                return Err(super::unsupported("A rowset function as a target"));
            }
        };
        let exposed = spec.from.iter().find_map(|s| exposes(s, name));
        if let Some(alias) = exposed {
            self.want(Wanted::Alias(alias.clone()));
            let base = self.base_is_derived(spec.from, &alias);
            if base {
                self.want(Wanted::Any);
            }
            return Ok((self.from(spec.from)?, alias));
        }
        if name.is_bare()
            && self
                .ctes
                .iter()
                .any(|c| names_equal(&c.cte.name.text, &name.name.text))
        {
            self.want(Wanted::Any);
            return self.with_target(name, &[], spec);
        }
        match self.host.resolve(name)? {
            Resolved::Table(table) => {
                let object = (table.database.id().0, table.object_id);
                self.want(Wanted::Object(object.0, object.1));
                if !spec.from.is_empty() {
                    let rel = self.from(spec.from)?;
                    if self.target.as_ref().is_some_and(|t| t.taken.is_some()) {
                        let alias = self.alias_of_target();
                        return Ok((rel, alias));
                    }
                    let alias = name.name.text.clone();
                    let target = self.scan(table, &alias, &name.dotted(), Some(None), hints)?;
                    return Ok((
                        super::from::join(JoinKind::Inner, target, rel, None, None),
                        alias,
                    ));
                }
                let alias = name.name.text.clone();
                Ok((
                    self.scan(table, &alias, &name.dotted(), Some(None), hints)?,
                    alias,
                ))
            }
            Resolved::View { .. } => {
                self.want(Wanted::Any);
                self.with_target(name, hints, spec)
            }
            _ => Err(not_updatable(&name.dotted())),
        }
    }

    fn variable_target(&mut self, name: &str, from: &[TableSource]) -> Result<(Rel, String)> {
        let Some(VariableType::Table(table)) = self.host.variable_type(name) else {
            return Err(SqlError::new(
                1087,
                15,
                2,
                format!("Must declare the table variable \"{name}\"."),
            ));
        };
        self.want(Wanted::Object(table.database.id().0, table.object_id));
        let rel = self.from(from)?;
        if self.target.as_ref().is_some_and(|t| t.taken.is_some()) {
            let alias = self.alias_of_target();
            return Ok((rel, alias));
        }
        let target = self.scan(table, name, name, None, &[])?;
        let rel = if matches!(rel, Rel::One) {
            target
        } else {
            super::from::join(JoinKind::Inner, target, rel, None, None)
        };
        Ok((rel, name.to_string()))
    }

    /// A view or common table expression as the only target.
    fn with_target(
        &mut self,
        name: &ObjectName,
        hints: &[daruma_syntax::ast::TableHint],
        spec: &TargetSpec<'_>,
    ) -> Result<(Rel, String)> {
        let source = TableSource::Table(daruma_syntax::ast::TableRef {
            name: name.clone(),
            alias: None,
            hints: hints.to_vec(),
            sample: None,
            system_time: None,
        });
        let target = self.source(&source)?;
        check_updatable(&target, &name.dotted(), spec.deletes)?;
        let rest = self.from(spec.from)?;
        let rel = if matches!(rest, Rel::One) {
            target
        } else {
            super::from::join(JoinKind::Inner, target, rest, None, None)
        };
        Ok((rel, name.name.text.clone()))
    }

    fn want(&mut self, wanted: Wanted) {
        self.target = Some(TargetRequest {
            wanted,
            taken: None,
        });
    }

    /// Is the source with this alias a view, derived table or common table expression?
    fn base_is_derived(&self, from: &[TableSource], alias: &str) -> bool {
        fn find<'s>(source: &'s TableSource, alias: &str) -> Option<&'s TableSource> {
            match source {
                TableSource::Join(join) => {
                    find(&join.left, alias).or_else(|| find(&join.right, alias))
                }
                TableSource::Apply { left, right, .. } => {
                    find(left, alias).or_else(|| find(right, alias))
                }
                TableSource::Table(t) => names_equal(
                    t.alias.as_ref().map_or(&t.name.name.text, |a| &a.text),
                    alias,
                )
                .then_some(source),
                TableSource::Derived { alias: Some(a), .. } => {
                    names_equal(&a.text, alias).then_some(source)
                }
                _ => None,
            }
        }
        match from.iter().find_map(|s| find(s, alias)) {
            Some(TableSource::Table(t)) => {
                t.name.is_bare()
                    && self
                        .ctes
                        .iter()
                        .any(|c| names_equal(&c.cte.name.text, &t.name.name.text))
                    || matches!(self.host.resolve(&t.name), Ok(Resolved::View { .. }))
            }
            Some(TableSource::Derived { .. }) => true,
            _ => false,
        }
    }

    fn alias_of_target(&mut self) -> String {
        let taken: Vec<ColId> = match self.target.as_ref().and_then(|t| t.taken.as_ref()) {
            Some(taken) => taken.columns.clone(),
            None => Vec::new(),
        };
        let own = |t: &&ScopeEntry| t.columns.iter().any(|(_, id)| taken.contains(id));
        self.scope()
            .tables
            .iter()
            .find(own)
            .map(|t| t.name.clone())
            .unwrap_or_default()
    }

    /// Called by every scan: the columns for key and stamp when it is the target.
    pub(super) fn take_target(
        &mut self,
        table: &TableRef,
        alias: &str,
        columns: &[ColId],
    ) -> Result<Option<(ColId, ColId)>> {
        let fits = self.target.as_ref().is_some_and(|request| {
            request.taken.is_none()
                && match &request.wanted {
                    Wanted::Alias(wanted) => names_equal(wanted, alias),
                    Wanted::Object(database, object) => {
                        table.database.id().0 == *database && table.object_id == *object
                    }
                    Wanted::Any => true,
                }
        });
        if !fits {
            return Ok(None);
        }
        let hidden = |data_type| ColumnInfo {
            ty: Type::new(data_type, true),
            name: String::new(),
            qualified: String::new(),
            identity: false,
            computed: true,
            null_literal: false,
        };
        let key = self.new_column(hidden(DataType::VarBinary(Len(1700))))?;
        let stamp = self.new_column(hidden(DataType::UniqueIdentifier))?;
        if let Some(request) = &mut self.target {
            request.taken = Some(Taken {
                table: table.clone(),
                columns: columns.to_vec(),
                key,
                stamp,
            });
        }
        Ok(Some((key, stamp)))
    }

    /// Replaces the target's columns by those with virtual computed columns.
    pub(super) fn note_target_columns(&mut self, columns: &[ColId]) {
        if let Some(Some(taken)) = self.target.as_mut().map(|t| t.taken.as_mut()) {
            taken.columns = columns.to_vec();
        }
    }
}

/// Does each row of a view or common table expression stand for one row of a table? Errors 4403 and 4405.
fn check_updatable(rel: &Rel, name: &str, deletes: bool) -> Result<()> {
    match rel {
        Rel::Filter { input, .. }
        | Rel::Compute { input, .. }
        | Rel::Sort { input, .. }
        | Rel::Window { input, .. } => check_updatable(input, name, deletes),
        Rel::Top(top) => check_updatable(&top.input, name, deletes),
        // A row goes from one table; which columns an UPDATE may name is found out later.
        Rel::Join(_) if deletes => Err(crate::messages::error(4405, &[&name])),
        Rel::Aggregate(_) | Rel::Distinct { .. } | Rel::Set(_) => {
            Err(crate::messages::error(4403, &[&name]))
        }
        _ => Ok(()),
    }
}

/// Alias of the source that a target name means.
fn exposes(source: &TableSource, name: &ObjectName) -> Option<String> {
    match source {
        TableSource::Table(table) => {
            let shown = table.alias.as_ref().unwrap_or(&table.name.name);
            let same_name =
                table.alias.is_none() && table.name.dotted().eq_ignore_ascii_case(&name.dotted());
            (name.is_bare() && names_equal(&shown.text, &name.name.text) || same_name)
                .then(|| shown.text.clone())
        }
        TableSource::Variable {
            alias: Some(alias), ..
        }
        | TableSource::Derived {
            alias: Some(alias), ..
        } => (name.is_bare() && names_equal(&alias.text, &name.name.text))
            .then(|| alias.text.clone()),
        TableSource::Join(join) => exposes(&join.left, name).or_else(|| exposes(&join.right, name)),
        TableSource::Apply { left, right, .. } => {
            exposes(left, name).or_else(|| exposes(right, name))
        }
        _ => None,
    }
}

fn not_updatable(name: &str) -> SqlError {
    SqlError::new(
        4406,
        16,
        1,
        format!(
            "Update or insert of view or function '{name}' failed because it contains a derived or constant field."
        ),
    )
}
