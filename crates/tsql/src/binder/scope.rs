//! Names in reach: the tables of FROM, those of enclosing queries, common table expressions.
//!
//! Theory: each query level has one scope; a name is looked for from the innermost outwards, and the first level where
//! it means something decides. Finding it twice on one level is error 209.

use super::Binder;
use super::tree::{Aggregate, ColId, Kind, Scalar};
use crate::error::{Result, SqlError};
use crate::host::TableRef;
use daruma_base::DatabaseId;
use daruma_catalog::names_equal;
use daruma_syntax::ast::{self, ColumnRef, ObjectName};
use std::sync::Arc;

/// Tables of one query level.
#[derive(Clone, Debug, Default)]
pub struct NameScope {
    pub tables: Vec<ScopeEntry>,
    pub clause: Clause,
    /// Aggregates that subqueries take over columns of this level alone: they belong to it.
    pub aggregates: Vec<(ColId, Aggregate)>,
}

/// Clause of a query that is being bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clause {
    /// No SELECT: the expressions of other statements.
    #[default]
    Other,
    From,
    Where,
    /// Select list, HAVING, ORDER BY: where aggregates may stand.
    Lists,
}

impl NameScope {
    /// A scope with these tables and nothing else.
    pub fn of_tables(tables: Vec<ScopeEntry>) -> NameScope {
        NameScope {
            tables,
            ..NameScope::default()
        }
    }

    fn has(&self, id: ColId) -> bool {
        let mut columns = self.tables.iter().flat_map(|t| &t.columns);
        columns.any(|(_, known)| *known == id)
    }
}

/// One alias or table name, and the columns it stands for.
#[derive(Clone, Debug)]
pub struct ScopeEntry {
    /// Alias, or the table's own name.
    pub name: String,
    pub schema: Option<String>,
    pub database: Option<String>,
    pub columns: Vec<(String, ColId)>,
    /// The stored object that the names stand for: its columns that are read are told to the host.
    pub used: Option<UsedObject>,
}

/// A table or view of a catalog, with the ids of the columns in a scope entry.
#[derive(Clone, Debug)]
pub struct UsedObject {
    pub database: DatabaseId,
    pub object: i32,
    pub columns: Vec<i32>,
}

/// A common table expression in reach.
#[derive(Clone)]
pub struct CteEntry {
    pub cte: Arc<ast::Cte>,
    /// Number of entries before it: those that it may itself use.
    pub visible: usize,
    /// Set while the recursive part is bound: the work table and its columns.
    pub work: Option<(u32, Vec<(String, ColId)>)>,
}

impl ScopeEntry {
    /// The name that a statement has for what it changes, without columns. Parts that are left out are those of the object,
    /// if that has this name and is known.
    pub fn of_target(name: &ObjectName, object: Option<&TableRef>) -> ScopeEntry {
        let object = object.filter(|o| names_equal(&o.name, &name.name.text));
        let part = |written: &Option<ast::Ident>| written.as_ref().map(|p| p.text.clone());
        ScopeEntry {
            name: name.name.text.clone(),
            schema: part(&name.schema).or_else(|| object.map(|o| o.schema_name.clone())),
            database: part(&name.database).or_else(|| object.map(|o| o.database.name())),
            columns: Vec::new(),
            used: None,
        }
    }

    /// Is it meant by this name?
    pub(super) fn matches(&self, qualifier: &ObjectName) -> bool {
        let part = |own: &Option<String>, wanted: &Option<ast::Ident>| match (own, wanted) {
            (_, None) => true,
            (Some(own), Some(wanted)) => names_equal(own, &wanted.text),
            (None, Some(_)) => false,
        };
        !self.name.is_empty()
            && names_equal(&self.name, &qualifier.name.text)
            && part(&self.schema, &qualifier.schema)
            && part(&self.database, &qualifier.database)
    }

    /// Positions and ids of the columns of a name.
    fn find(&self, name: &str) -> impl Iterator<Item = (usize, ColId)> {
        self.columns
            .iter()
            .enumerate()
            .filter(move |(_, (n, _))| names_equal(n, name))
            .map(|(at, (_, id))| (at, *id))
    }
}

impl Binder<'_> {
    pub(super) fn scope(&mut self) -> &mut NameScope {
        if self.scopes.is_empty() {
            self.scopes.push(NameScope::default());
        }
        let last = self.scopes.len() - 1;
        &mut self.scopes[last]
    }

    /// Meaning of a column name, which is told to the host: errors 207, 209, 4104.
    pub(super) fn resolve_column(&self, column: &ColumnRef) -> Result<Scalar> {
        let (table, at, id) = self.find_column(column)?;
        self.check_no_node(id)?;
        self.note_read(table, at);
        Ok(self.column(id))
    }

    /// The same without telling: the table, the column's position in it, and its id.
    pub(super) fn find_column(&self, column: &ColumnRef) -> Result<(&ScopeEntry, usize, ColId)> {
        let mut qualifier_known = false;
        for scope in self.scopes.iter().rev() {
            let mut found: Option<(&ScopeEntry, usize, ColId)> = None;
            for (place, table) in scope.tables.iter().enumerate() {
                if let Some(qualifier) = &column.table {
                    let is_it = match qualifier.name.text.is_empty() {
                        true => self.is_changed_table(place, table),
                        false => table.matches(qualifier),
                    };
                    if !is_it {
                        continue;
                    }
                    qualifier_known = true;
                }
                for (at, id) in table.find(&column.name.text) {
                    if found.is_some() {
                        return Err(ambiguous(&column.name.text));
                    }
                    found = Some((table, at, id));
                }
            }
            if let Some(found) = found {
                return Ok(found);
            }
            if qualifier_known {
                break;
            }
        }
        match &column.table {
            Some(qualifier) if !qualifier_known => Err(unbound_column(qualifier, column)),
            _ => Err(SqlError::new(
                207,
                16,
                1,
                format!("Invalid column name '{}'.", column.name.text),
            )),
        }
    }

    /// Is it the table that the statement changes, which [`changed_column`] means? Where it has no alias it comes first.
    fn is_changed_table(&self, place: usize, table: &ScopeEntry) -> bool {
        match &self.changed_name {
            Some(name) => table.matches(name),
            None => place == 0,
        }
    }

    /// An aggregate over columns of a query around this one, and of no other, is that query's. It is a column here.
    pub(super) fn outer_aggregate(&mut self, aggregate: &Aggregate) -> Result<Option<Scalar>> {
        let mut columns = super::tree::ColSet::new();
        let order = aggregate.order.iter().map(|(key, _)| key);
        let parts = aggregate
            .arg
            .iter()
            .chain(&aggregate.separator)
            .chain(order);
        parts.for_each(|part| part.columns(&mut columns));
        let level_of = |id: &ColId| self.scopes.iter().rposition(|s| s.has(*id));
        let levels: Option<Vec<usize>> = columns.iter().map(level_of).collect();
        let Some(level) = levels.and_then(|l| l.into_iter().max()) else {
            return Ok(None);
        };
        if level + 1 >= self.scopes.len() {
            return Ok(None);
        }
        match self.scopes[level].clause {
            Clause::Lists => {}
            Clause::From => return Err(crate::messages::error(4101, &[])),
            Clause::Where | Clause::Other => return Err(crate::messages::error(147, &[])),
        }
        let ty = self.aggregate_type(aggregate)?;
        let known = self.scopes[level].aggregates.iter();
        let known = known
            .clone()
            .find(|(_, a)| a == aggregate)
            .map(|(id, _)| *id);
        let id = match known {
            Some(id) => id,
            None => {
                let call = Scalar::new(Kind::Aggregate(Box::new(aggregate.clone())), ty);
                let id = self.new_computed("", &call)?;
                self.scopes[level].aggregates.push((id, aggregate.clone()));
                id
            }
        };
        Ok(Some(self.column(id)))
    }

    /// Columns of `*` or `t.*`: errors 107, 263.
    pub(super) fn expand_wildcard(
        &self,
        qualifier: Option<&ObjectName>,
    ) -> Result<Vec<(String, ColId)>> {
        let Some(scope) = self.scopes.last() else {
            return Ok(Vec::new());
        };
        if scope.tables.is_empty() {
            return Err(SqlError::new(
                263,
                16,
                1,
                "Must specify table to select from.",
            ));
        }
        let Some(qualifier) = qualifier else {
            scope.tables.iter().for_each(|t| self.note_all(t));
            return Ok(scope
                .tables
                .iter()
                .flat_map(|t| t.columns.iter().cloned())
                .collect());
        };
        match self
            .scopes
            .iter()
            .rev()
            .flat_map(|s| &s.tables)
            .find(|t| t.matches(qualifier))
        {
            Some(table) => {
                self.note_all(table);
                Ok(table.columns.clone())
            }
            None => Err(SqlError::new(
                107,
                15,
                1,
                format!(
                    "The column prefix '{}' does not match with a table name or alias name used in the query.",
                    qualifier.dotted()
                ),
            )),
        }
    }

    /// Tells the host that a column is read.
    pub(super) fn note_read(&self, table: &ScopeEntry, position: usize) {
        if let Some(used) = &table.used
            && let Some(column) = used.columns.get(position)
        {
            self.host.note_column(used.database, used.object, *column);
        }
    }

    pub(super) fn note_all(&self, table: &ScopeEntry) {
        (0..table.columns.len()).for_each(|at| self.note_read(table, at));
    }

    pub(super) fn column(&self, id: ColId) -> Scalar {
        Scalar::new(Kind::Column(id), self.columns[id as usize].ty)
    }

    /// Adds a table to the innermost scope: error 1013 for a name used twice.
    pub(super) fn add_table(&mut self, entry: ScopeEntry) -> Result<()> {
        let twice = |t: &ScopeEntry| {
            !entry.name.is_empty()
                && names_equal(&t.name, &entry.name)
                && match (&t.schema, &entry.schema) {
                    (Some(a), Some(b)) => names_equal(a, b),
                    (None, None) => true,
                    _ => false,
                }
        };
        if self.scope().tables.iter().any(twice) {
            let name = entry.name;
            if entry.schema.is_some() {
                return Err(SqlError::new(
                    1013,
                    16,
                    1,
                    format!(
                        "The objects \"{name}\" and \"{name}\" in the FROM clause have the same exposed names. Use correlation \
                         names to distinguish them."
                    ),
                ));
            }
            return Err(SqlError::new(
                1011,
                16,
                1,
                format!(
                    "The correlation name '{name}' is specified multiple times in a FROM clause."
                ),
            ));
        }
        self.scope().tables.push(entry);
        Ok(())
    }
}

/// Error 4104 for a column that SET qualifies by a name other than those of the table which is changed.
pub fn check_changed(column: &ColumnRef, known: &[ScopeEntry]) -> Result<()> {
    match &column.table {
        Some(qualifier) if !known.iter().any(|k| k.matches(qualifier)) => {
            Err(unbound_column(qualifier, column))
        }
        _ => Ok(()),
    }
}

/// A column that SET names, which [`check_changed`] has accepted: that of the table which is changed, although others of a
/// `joined` statement may have one of the same name. Its qualifier is empty, as no name is.
pub fn changed_column(column: &ColumnRef, joined: bool) -> ColumnRef {
    let is_told_apart = joined || column.table.is_some();
    ColumnRef {
        table: is_told_apart.then(|| ObjectName::bare(ast::Ident::new(""))),
        ..column.clone()
    }
}

/// Did [`changed_column`] make it?
pub(super) fn means_changed(column: &ColumnRef) -> bool {
    let qualifier = column.table.as_ref();
    qualifier.is_some_and(|q| q.name.text.is_empty())
}

fn ambiguous(name: &str) -> SqlError {
    SqlError::new(209, 16, 1, format!("Ambiguous column name '{name}'."))
}

fn unbound_column(qualifier: &ObjectName, column: &ColumnRef) -> SqlError {
    SqlError::new(
        4104,
        16,
        1,
        format!(
            "The multi-part identifier \"{}.{}\" could not be bound.",
            qualifier.dotted(),
            column.name.text
        ),
    )
}
