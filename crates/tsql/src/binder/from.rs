//! FROM: tables, views, joins, derived tables and everything else that gives rows.
//!
//! Theory: a source adds its names to the scope of its query and returns an operator. RIGHT JOIN becomes LEFT with its
//! sides exchanged, but names stay in the order written. APPLY is a join whose right side may use columns of its left;
//! the planner sees that from the column numbers.

use super::next_value::{NESTED, TABLE_FUNCTION};
use super::scope::{CteEntry, NameScope, ScopeEntry, UsedObject};
use super::tree::*;
use super::{Binder, BoundQuery, ColumnInfo, OutColumn, types, unsupported};
use crate::error::{Result, SqlError};
use crate::executor::{JsonColumn, OpenJson};
use crate::host::{Resolved, VariableType, VirtualTable};
use crate::messages;
use crate::sink::OutputColumn;
use daruma_base::DatabaseId;
use daruma_catalog::{ModuleDef, Object, ObjectKind, ParameterDef, names_equal};
use daruma_syntax::ast::{self, Ident, ObjectName, StatementKind, TableHint, TableSource};
use daruma_syntax::{ParseOptions, SyntaxError, parse_batch};
use daruma_value::json::{Path, Step};
use daruma_value::{CollationId, DataType};
use std::sync::Arc;

/// Most tables of one FROM: what older versions of the product allowed.
const TABLES_MAX: usize = 256;

impl Binder<'_> {
    /// Sources separated by commas.
    pub(super) fn from(&mut self, sources: &[TableSource]) -> Result<Rel> {
        let mut joined = Rel::One;
        for source in sources {
            let right = self.source(source)?;
            joined = if matches!(joined, Rel::One) {
                right
            } else {
                join(JoinKind::Inner, joined, right, None, None)
            };
        }
        Ok(joined)
    }

    pub(super) fn source(&mut self, source: &TableSource) -> Result<Rel> {
        // Joins nest, and everything that is done with a tree goes down into it.
        if self
            .scopes
            .last()
            .is_some_and(|s| s.tables.len() >= TABLES_MAX)
        {
            return Err(messages::error(106, &[&TABLES_MAX]));
        }
        match source {
            TableSource::Join(join) => self.join(join),
            TableSource::Apply { left, right, outer } => self.apply(left, right, *outer),
            _ => self.with_request(source, |b| b.single_source(source)),
        }
    }

    fn apply(&mut self, left: &TableSource, right: &TableSource, outer: bool) -> Result<Rel> {
        let left = self.source(left)?;
        let lateral = std::mem::replace(&mut self.lateral, true);
        let right = self.source(right);
        self.lateral = lateral;
        let right = right?;
        if outer {
            self.make_nullable(&right);
        }
        let kind = match outer {
            true => JoinKind::Left,
            false => JoinKind::Inner,
        };
        Ok(join(kind, left, right, None, None))
    }

    /// Anything but joins.
    fn single_source(&mut self, source: &TableSource) -> Result<Rel> {
        match source {
            TableSource::Table(table) => self.table(table),
            TableSource::Variable {
                name, alias, hints, ..
            } => self.table_variable(name, alias.as_ref(), hints),
            TableSource::Derived {
                query,
                alias,
                columns,
                ..
            } => {
                let bound = self.hidden(|b| b.query(query, true))?;
                self.named(bound, alias.as_ref(), columns)
            }
            TableSource::Values {
                rows,
                alias,
                columns,
                ..
            } => {
                let bound = self.hidden(|b| b.values(rows))?;
                self.named(bound, alias.as_ref(), columns)
            }
            TableSource::Join(_) | TableSource::Apply { .. } => self.source(source),
            TableSource::Function(function) => self.table_function(function),
            TableSource::Pivot(pivot) => self.pivot(pivot),
            TableSource::Unpivot(unpivot) => self.unpivot(unpivot),
            TableSource::MethodRows {
                target,
                method,
                args,
                alias,
                columns,
            } => self.method_rows(target, method, args, alias.as_ref(), columns),
            TableSource::Modification { .. } => Err(unsupported(
                "A nested INSERT, UPDATE, DELETE, or MERGE statement",
            )),
            TableSource::Rowset(rowset) => self.rowset(rowset),
        }
    }

    fn table_variable(
        &mut self,
        name: &str,
        alias: Option<&Ident>,
        hints: &[ast::TableHint],
    ) -> Result<Rel> {
        match self.variable_table(name) {
            Some(VariableType::Table(table) | VariableType::Parameter(table)) => {
                let alias = alias.map_or(name, |a| &a.text);
                self.scan(table, alias, alias, None, hints)
            }
            _ => Err(messages::error_state(1087, 2, &[&name])),
        }
    }

    /// The table variable or parameter that the name means here: in the text of an inline function its own only.
    pub(super) fn variable_table(&self, name: &str) -> Option<VariableType> {
        match &self.table_parameters {
            Some(own) => {
                let key = daruma_catalog::name_key(name);
                let found = own.iter().find(|(k, _)| *k == key);
                found.map(|(_, table)| VariableType::Parameter(table.clone()))
            }
            None => self.host.variable_type(name),
        }
    }

    /// Runs `f` where the tables of the query being built cannot be seen, unless they may: in APPLY.
    fn hidden<T>(&mut self, f: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.lateral {
            let lateral = std::mem::replace(&mut self.lateral, false);
            let result = f(self);
            self.lateral = lateral;
            return result;
        }
        let own = self.scopes.pop();
        let result = f(self);
        self.scopes.extend(own);
        result
    }

    /// Runs `f` as if at the start of a statement: views and common table expressions see nothing around them.
    pub(super) fn isolated<T>(
        &mut self,
        ctes: Vec<CteEntry>,
        f: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        self.deeper()?;
        let scopes = std::mem::take(&mut self.scopes);
        let windows = std::mem::take(&mut self.windows);
        let ctes = std::mem::replace(&mut self.ctes, ctes);
        let lateral = std::mem::replace(&mut self.lateral, false);
        let result = f(self);
        self.scopes = scopes;
        self.windows = windows;
        self.ctes = ctes;
        self.lateral = lateral;
        self.nesting -= 1;
        result
    }

    /// The same for a text that is stored: of the statement around it nothing counts, its namespaces neither.
    pub(super) fn of_stored_text<T>(
        &mut self,
        f: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let namespaces = std::mem::take(&mut self.xml_namespaces);
        let result = self.isolated(Vec::new(), f);
        self.xml_namespaces = namespaces;
        result
    }

    fn join(&mut self, ast: &ast::Join) -> Result<Rel> {
        let left = self.source(&ast.left)?;
        let right = self.source(&ast.right)?;
        if matches!(ast.kind, ast::JoinKind::Left | ast::JoinKind::Full) {
            self.make_nullable(&right);
        }
        if matches!(ast.kind, ast::JoinKind::Right | ast::JoinKind::Full) {
            self.make_nullable(&left);
        }
        let on = ast.on.as_ref().map(|c| self.condition(c)).transpose()?;
        if let Some(on) = &on {
            super::query::check_where(on)?;
        }
        Ok(match ast.kind {
            ast::JoinKind::Inner | ast::JoinKind::Cross => {
                join(JoinKind::Inner, left, right, on, ast.hint)
            }
            ast::JoinKind::Left => join(JoinKind::Left, left, right, on, ast.hint),
            ast::JoinKind::Right => join(JoinKind::Left, right, left, on, ast.hint),
            ast::JoinKind::Full => join(JoinKind::Full, left, right, on, ast.hint),
        })
    }

    /// Columns on the side of an outer join that may have no row.
    fn make_nullable(&mut self, rel: &Rel) {
        for id in rel.produced() {
            self.columns[id as usize].ty.nullable = true;
        }
    }

    fn table(&mut self, table: &ast::TableRef) -> Result<Rel> {
        if table.system_time.is_some() {
            return Err(unsupported("FOR SYSTEM_TIME"));
        }
        if table.sample.is_some() {
            return Err(unsupported("TABLESAMPLE"));
        }
        if table.name.is_bare()
            && let Some(position) = self
                .ctes
                .iter()
                .rposition(|c| names_equal(&c.cte.name.text, &table.name.name.text))
        {
            let name = &table.name.name.text;
            return self.hinted(&table.hints, name, |b| {
                b.cte(position, table.alias.as_ref())
            });
        }
        let written = table.name.dotted();
        let alias = table
            .alias
            .as_ref()
            .map_or(table.name.name.text.as_str(), |a| &a.text)
            .to_string();
        let qualified = if table.alias.is_some() {
            alias.clone()
        } else {
            written
        };
        let schema = if table.alias.is_some() {
            None
        } else {
            Some(table.name.schema.as_ref().map(|s| s.text.clone()))
        };
        match self.resolve(&table.name)? {
            Resolved::Table(found) => self.scan(found, &alias, &qualified, schema, &table.hints),
            Resolved::View { database, object } => self.hinted(&table.hints, &object.name, |b| {
                b.exposed_view(database, &object, &alias, &qualified, schema.is_some())
            }),
            Resolved::Virtual(found) => {
                let database = self.database_of(&table.name);
                self.virtual_table(
                    found,
                    database,
                    &alias,
                    &qualified,
                    (schema.flatten(), &table.name),
                    Vec::new(),
                )
            }
            Resolved::Function { object, .. } if object.type_code() == "FN" => {
                Err(messages::error(208, &[&table.name.dotted()]))
            }
            Resolved::Function { .. } => Err(SqlError::new(
                216,
                16,
                1,
                format!(
                    "Parameters were not supplied for the function '{}'.",
                    table.name.dotted()
                ),
            )),
        }
    }

    pub(super) fn resolve(&self, name: &ObjectName) -> Result<Resolved> {
        match self.database {
            Some(database) if name.database.is_none() && !name.is_temporary() => {
                self.host.resolve_in(database, name)
            }
            _ => self.host.resolve(name),
        }
    }

    /// Database whose view of the system a virtual table shows.
    fn database_of(&self, name: &ObjectName) -> DatabaseId {
        if let Some(database) = &name.database {
            let named = [daruma_value::Value::str(&database.text)];
            if let Ok(id) = self.host.system_function("DB_ID", &named)
                && let Some(id) = id.as_i64().and_then(|n| u16::try_from(n).ok())
            {
                return DatabaseId(id);
            }
        }
        self.database
            .unwrap_or_else(|| self.host.current_database())
    }

    fn virtual_table(
        &mut self,
        table: Arc<dyn VirtualTable>,
        database: DatabaseId,
        alias: &str,
        qualified: &str,
        (schema, written): (Option<String>, &ObjectName),
        args: Vec<Scalar>,
    ) -> Result<Rel> {
        let mut columns = Vec::new();
        let mut names = Vec::new();
        // Names in catalog views compare as their database does; dynamic views are the server's.
        let of_catalog = written.schema.as_ref().is_some_and(|s| {
            s.is("sys") && !table.name().starts_with("dm_") || s.is("INFORMATION_SCHEMA")
        });
        let of_names = of_catalog.then(|| self.host.collation(database));
        for column in table.columns() {
            let collation = match of_names {
                Some(collation) if column.data_type == DataType::SYSNAME => collation,
                _ => column.collation,
            };
            let id = self.new_column(ColumnInfo {
                ty: Type {
                    data_type: column.data_type,
                    nullable: column.nullable,
                    collation,
                    coercion: Coercion::Implicit,
                },
                name: column.name.clone(),
                qualified: format!("{qualified}.{}", column.name),
                identity: None,
                rowguid: false,
                computed: false,
                null_literal: false,
            })?;
            columns.push(id);
            names.push((column.name.clone(), id));
        }
        self.add_table(ScopeEntry {
            name: alias.to_string(),
            schema,
            database: written.database.as_ref().map(|d| d.text.clone()),
            columns: names,
            used: None,
        })?;
        Ok(Rel::Virtual(Box::new(VirtualScan {
            table,
            database,
            args,
            columns,
            alias: alias.to_string(),
        })))
    }

    fn table_function(&mut self, function: &ast::TableFunction) -> Result<Rel> {
        let name = &function.call.name;
        if let Some(rows) = self.column_nodes(function)? {
            return Ok(rows);
        }
        if let Ok(Resolved::Function { database, object }) = self.resolve(name) {
            let alias = function.alias.as_ref().unwrap_or(&name.name);
            return match object.type_code() {
                "IF" => self.inline_function(function, database, &object, &alias.text),
                "TF" => self.statement_function(function, database, &object, alias),
                _ => Err(messages::error(208, &[&name.dotted()])),
            };
        }
        let args = function
            .call
            .args
            .iter()
            .map(|a| self.table_argument(a))
            .collect::<Result<Vec<_>>>()?;
        let alias = function
            .alias
            .as_ref()
            .map_or(name.name.text.as_str(), |a| &a.text)
            .to_string();
        if name.is_bare() && name.name.is("OPENJSON") {
            let bound = self.open_json(function, args)?;
            return self.named(bound, Some(&Ident::new(&alias)), &function.columns);
        }
        if let Some(bound) = self.builtin_rows(name, &args)? {
            return self.named(bound, Some(&Ident::new(&alias)), &function.columns);
        }
        match self.resolve(name)? {
            Resolved::Virtual(found) => {
                let (low, high) = found.arguments().into_inner();
                if args.len() < low {
                    return Err(super::user_function::too_few(name, 3));
                }
                if args.len() > high {
                    return Err(super::user_function::too_many(name, 3));
                }
                let database = self.database_of(name);
                self.virtual_table(found, database, &alias, &alias, (None, name), args)
            }
            Resolved::Function { .. } => Err(unsupported("A user-defined table-valued function")),
            Resolved::Table(_) | Resolved::View { .. } => Err(SqlError::new(
                215,
                16,
                1,
                format!(
                    "Parameters supplied for object '{}' which is not a function. If the parameters are intended as a table \
                     hint, a WITH keyword is required.",
                    name.name.text
                ),
            )),
        }
    }

    fn open_json(
        &mut self,
        function: &ast::TableFunction,
        args: Vec<Scalar>,
    ) -> Result<BoundQuery> {
        let mut schema = Vec::with_capacity(function.schema.len());
        for column in &function.schema {
            let name = &column.name.text;
            let data_type = self.type_name(&column.data_type, 1)?;
            if column.as_json && data_type != DataType::NVARCHAR_MAX {
                return Err(messages::error(13618, &[]));
            }
            let collation = match &column.collation {
                Some(name) => CollationId::from_name(&name.text)
                    .ok_or_else(|| messages::error(448, &[&name.text]))?,
                None => self.host.collation(self.host.current_database()),
            };
            let path = match &column.path {
                Some(path) => Path::parse(path)?,
                None => Path {
                    steps: vec![Step::Key(name.clone())],
                    ..Path::default()
                },
            };
            schema.push(JsonColumn {
                output: OutputColumn {
                    name: name.clone(),
                    data_type,
                    collation,
                    nullable: true,
                    identity: false,
                    computed: true,
                },
                path,
                is_json: column.as_json,
            });
        }
        let name = &function.call.name;
        let texts = args.into_iter().map(|arg| match arg.is_null_literal() {
            true => Ok(Scalar::null(DataType::NVARCHAR_MAX)),
            false => types::convert(arg, DataType::NVARCHAR_MAX),
        });
        let texts = texts.collect::<Result<Vec<_>>>()?;
        self.rows_of_builtin(name, Arc::new(OpenJson::new(schema)), &texts)
    }

    /// Arguments of a table function; DEFAULT and NULL mean the same to system functions.
    pub(super) fn table_argument(&mut self, expr: &ast::Expr) -> Result<Scalar> {
        self.without_next_value(TABLE_FUNCTION, |b| match expr {
            ast::Expr::Default => Ok(Scalar::null(daruma_value::DataType::Int)),
            expr if b.lateral => b.expr(expr),
            expr => {
                let own = b.scopes.pop();
                let bound = b.expr(expr);
                b.scopes.extend(own);
                bound
            }
        })
    }

    fn values(&mut self, rows: &[Vec<ast::Expr>]) -> Result<BoundQuery> {
        let width = rows.first().map_or(0, Vec::len);
        if rows.iter().any(|r| r.len() != width) {
            return Err(SqlError::new(
                10709,
                16,
                1,
                "The number of columns for each row in a table value constructor must be the same.",
            ));
        }
        let mut bound: Vec<Vec<Scalar>> = Vec::with_capacity(rows.len());
        for row in rows {
            // Rows of values are a level of their own, which has no columns.
            self.scopes.push(NameScope::default());
            let row = row.iter().map(|e| self.expr(e)).collect::<Result<_>>();
            self.scopes.pop();
            bound.push(row?);
        }
        let mut columns = Vec::with_capacity(width);
        for position in 0..width {
            let mut scalars: Vec<Scalar> = bound.iter().map(|r| r[position].clone()).collect();
            let ty = types::unify(&mut scalars)?;
            for (row, scalar) in bound.iter_mut().zip(scalars) {
                row[position] = scalar;
            }
            let sample = Scalar::new(Kind::Const(daruma_value::Value::Bit(false)), ty);
            columns.push(OutColumn {
                name: String::new(),
                id: self.new_computed("", &sample)?,
            });
        }
        let ids = columns.iter().map(|c| c.id).collect();
        Ok(BoundQuery {
            rel: Rel::Values {
                rows: bound,
                columns: ids,
            },
            columns,
            assignments: Vec::new(),
        })
    }

    /// Gives a derived table its alias and column names: errors 8155, 8156, 8158, 8159.
    pub(super) fn named(
        &mut self,
        bound: BoundQuery,
        alias: Option<&Ident>,
        columns: &[Ident],
    ) -> Result<Rel> {
        let alias = alias.map_or("", |a| &a.text).to_string();
        let bound = self.renamed(bound, &alias, columns)?;
        self.exposed(bound, &alias, &alias, None)
    }

    pub(super) fn renamed(
        &mut self,
        mut bound: BoundQuery,
        alias: &str,
        names: &[Ident],
    ) -> Result<BoundQuery> {
        if names.is_empty() {
            return Ok(bound);
        }
        if names.len() != bound.columns.len() {
            let (number, word) = if names.len() < bound.columns.len() {
                (8158, "more")
            } else {
                (8159, "fewer")
            };
            return Err(SqlError::new(
                number,
                16,
                1,
                format!("'{alias}' has {word} columns than were specified in the column list."),
            ));
        }
        for (column, name) in bound.columns.iter_mut().zip(names) {
            column.name.clone_from(&name.text);
        }
        Ok(bound)
    }

    pub(super) fn exposed(
        &mut self,
        bound: BoundQuery,
        alias: &str,
        qualified: &str,
        schema: Option<String>,
    ) -> Result<Rel> {
        let bound = self.told_apart(bound)?;
        let mut names: Vec<(String, ColId)> = Vec::with_capacity(bound.columns.len());
        for (position, column) in bound.columns.iter().enumerate() {
            if column.name.is_empty() {
                return Err(SqlError::new(
                    8155,
                    16,
                    2,
                    format!(
                        "No column name was specified for column {} of '{alias}'.",
                        position + 1
                    ),
                ));
            }
            if names.iter().any(|(n, _)| names_equal(n, &column.name)) {
                return Err(SqlError::new(
                    8156,
                    16,
                    1,
                    format!(
                        "The column '{}' was specified multiple times for '{alias}'.",
                        column.name
                    ),
                ));
            }
            names.push((column.name.clone(), column.id));
            let info = &mut self.columns[column.id as usize];
            info.name.clone_from(&column.name);
            info.qualified = format!("{qualified}.{}", column.name);
        }
        self.add_table(ScopeEntry {
            name: alias.to_string(),
            schema,
            database: None,
            columns: names,
            used: None,
        })?;
        Ok(bound.rel)
    }

    /// A column that comes twice is two columns of the table: each has its own name, and its own place in grouping sets.
    fn told_apart(&mut self, mut bound: BoundQuery) -> Result<BoundQuery> {
        let mut seen = ColSet::default();
        let mut copies = Vec::new();
        for column in &mut bound.columns {
            if seen.insert(column.id) {
                continue;
            }
            let original = self.column(column.id);
            let info = self.columns[column.id as usize].clone();
            column.id = self.new_column(info)?;
            copies.push((column.id, original));
        }
        bound.rel = bound.rel.compute(copies);
        Ok(bound)
    }

    /// Binds what stands behind the name of a view or common table expression: its hints are those of all tables in it.
    /// Error 8171 for those that only a table has.
    pub(super) fn hinted<T>(
        &mut self,
        hints: &[TableHint],
        name: &str,
        work: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let of_a_table = |hint: &TableHint| match hint {
            TableHint::Word(word) => match word.to_ascii_uppercase().as_str() {
                "NOEXPAND" => Some("noexpand"),
                "FORCESEEK" => Some("forceseek"),
                _ => None,
            },
            TableHint::Index(_) => Some("index"),
            TableHint::ForceSeek { .. } => Some("forceseek"),
            TableHint::SpatialWindowMaxCells(_) => Some("spatial_window_max_cells"),
        };
        if let Some(hint) = hints.iter().find_map(of_a_table) {
            return Err(messages::error(8171, &[&hint, &name]));
        }
        let outer = self.outer_hints.len();
        self.outer_hints.extend_from_slice(hints);
        let result = work(self);
        self.outer_hints.truncate(outer);
        result
    }

    /// A view as a source of FROM, under its own name or an alias.
    pub(super) fn exposed_view(
        &mut self,
        database: DatabaseId,
        object: &Arc<Object>,
        alias: &str,
        qualified: &str,
        is_own_name: bool,
    ) -> Result<Rel> {
        let bound = self.view(database, object)?;
        let (mut schema, mut owner) = (None, None);
        if is_own_name {
            let catalog = self.host.catalog(database)?;
            schema = catalog.schema(object.schema_id).map(|s| s.name.clone());
            let entry = self.host.instance().and_then(|i| i.database(database));
            owner = entry.map(|e| e.name());
        }
        let rel = self.exposed(bound, alias, qualified, schema)?;
        if let Some(entry) = self.scope().tables.last_mut() {
            entry.used = used_view(database, object);
            entry.database = owner;
        }
        Ok(rel)
    }

    /// The query of a view of the database.
    pub fn bind_query(
        &mut self,
        query: &ast::Query,
        parameters: &[ParameterDef],
        database: DatabaseId,
        schema_bound: bool,
    ) -> Result<()> {
        self.database = Some(database);
        self.declare_parameters(parameters)?;
        self.schema_bound = schema_bound;
        self.next_value_error = Some(NESTED);
        self.statement(query).map(|_| ())
    }

    fn view(&mut self, database: DatabaseId, object: &Arc<Object>) -> Result<BoundQuery> {
        let ObjectKind::View(module) = &object.kind else {
            return Err(SqlError::new(
                208,
                16,
                1,
                format!("Invalid object name '{}'.", object.name),
            ));
        };
        let view = defined_view(module).map_err(stored_text)?;
        let view = view.ok_or_else(|| messages::error(208, &[&object.name]))?;
        let outer = self.database.replace(database);
        let schema_bound = std::mem::replace(&mut self.schema_bound, false);
        let ansi_nulls = std::mem::replace(&mut self.ansi_nulls, module.ansi_nulls);
        self.host.enter_view(database, object);
        let (checked, candidates) = (self.checked_views(), self.target_candidates());
        let bound = self.of_stored_text(|b| b.query(&view.query, true));
        self.host.leave_view();
        self.database = outer;
        self.schema_bound = schema_bound;
        self.ansi_nulls = ansi_nulls;
        let bound = bound?;
        self.note_view(candidates, database, object.id);
        if view.check_option {
            self.note_checked(checked, &bound.rel);
        }
        self.renamed(bound, &object.name, &view.columns)
    }
}

/// The statement that a view was defined by.
pub(crate) fn defined_view(
    module: &ModuleDef,
) -> std::result::Result<Option<Box<ast::CreateView>>, Vec<SyntaxError>> {
    let options = ParseOptions {
        quoted_identifier: module.quoted_identifier,
    };
    let batch = parse_batch(&module.definition, &options)?;
    Ok(batch.into_iter().find_map(|s| match s.kind {
        StatementKind::CreateView(view) => Some(view),
        _ => None,
    }))
}

pub(super) fn join(
    kind: JoinKind,
    left: Rel,
    right: Rel,
    on: Option<Scalar>,
    hint: Option<ast::JoinHint>,
) -> Rel {
    let mut conditions = Vec::new();
    if let Some(on) = on {
        on.conjuncts(&mut conditions);
    }
    Rel::Join(Box::new(Join {
        kind,
        left,
        right,
        on: conditions,
        hint,
    }))
}

fn used_view(database: DatabaseId, object: &Object) -> Option<UsedObject> {
    let ObjectKind::View(module) = &object.kind else {
        return None;
    };
    Some(UsedObject {
        database,
        object: object.id,
        columns: module.columns.iter().map(|c| c.id).collect(),
    })
}

pub(super) fn stored_text(errors: Vec<daruma_syntax::SyntaxError>) -> SqlError {
    match errors.into_iter().next() {
        Some(e) => SqlError::new(e.number as i32, e.severity, e.state, e.message),
        None => SqlError::new(102, 15, 1, "Incorrect syntax."),
    }
}
