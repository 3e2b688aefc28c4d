//! FROM: tables, views, joins, derived tables and everything else that gives rows.
//!
//! Theory: a source adds its names to the scope of its query and returns an operator. RIGHT JOIN becomes LEFT with its
//! sides exchanged, but names stay in the order written. APPLY is a join whose right side may use columns of its left;
//! the planner sees that from the column numbers.

use super::scope::{CteEntry, NameScope, ScopeEntry};
use super::tree::*;
use super::{Binder, BoundQuery, ColumnInfo, OutColumn, types, unsupported};
use crate::access::TableAccess;
use crate::error::{Result, SqlError};
use crate::host::{LockHints, Resolved, TableRef, VariableType, VirtualTable};
use daruma_base::DatabaseId;
use daruma_catalog::{Object, ObjectKind, names_equal};
use daruma_syntax::ast::{
    self, Ident, ObjectName, QueryBody, SetOp, StatementKind, TableHint, TableSource,
};
use daruma_syntax::{ParseOptions, parse_batch, parse_expression};
use std::sync::Arc;

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
        match source {
            TableSource::Table(table) => self.table(table),
            TableSource::Variable {
                name, alias, hints, ..
            } => match self.host.variable_type(name) {
                Some(VariableType::Table(table)) => {
                    let alias = alias.as_ref().map_or(name.as_str(), |a| &a.text);
                    self.scan(table, alias, alias, None, hints)
                }
                _ => Err(SqlError::new(
                    1087,
                    15,
                    2,
                    format!("Must declare the table variable \"{name}\"."),
                )),
            },
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
            TableSource::Join(join) => self.join(join),
            TableSource::Apply { left, right, outer } => {
                let left = self.source(left)?;
                let lateral = std::mem::replace(&mut self.lateral, true);
                let right = self.source(right);
                self.lateral = lateral;
                let right = right?;
                if *outer {
                    self.make_nullable(&right);
                }
                Ok(join(
                    if *outer {
                        JoinKind::Left
                    } else {
                        JoinKind::Inner
                    },
                    left,
                    right,
                    None,
                    None,
                ))
            }
            TableSource::Function(function) => self.table_function(function),
            TableSource::Pivot(pivot) => self.pivot(pivot),
            TableSource::Unpivot(unpivot) => self.unpivot(unpivot),
            TableSource::MethodRows { .. } => Err(unsupported("The nodes() method")),
            TableSource::Modification { .. } => Err(unsupported(
                "A nested INSERT, UPDATE, DELETE, or MERGE statement",
            )),
            TableSource::Rowset(_) => Err(unsupported("A rowset function")),
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
    fn isolated<T>(
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
        if table.name.is_bare()
            && let Some(position) = self
                .ctes
                .iter()
                .rposition(|c| names_equal(&c.cte.name.text, &table.name.name.text))
        {
            return self.cte(position, table.alias.as_ref());
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
            Resolved::View { database, object } => {
                let bound = self.view(database, &object)?;
                self.exposed(bound, &alias, &qualified, schema.flatten())
            }
            Resolved::Virtual(found) => {
                let database = self.database_of(&table.name);
                self.virtual_table(
                    found,
                    database,
                    &alias,
                    &qualified,
                    schema.flatten(),
                    Vec::new(),
                )
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

    fn resolve(&self, name: &ObjectName) -> Result<Resolved> {
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

    /// A stored table. `schema` is `None` when the table is known by its alias only.
    pub(super) fn scan(
        &mut self,
        table: TableRef,
        alias: &str,
        qualified: &str,
        schema: Option<Option<String>>,
        hints: &[TableHint],
    ) -> Result<Rel> {
        let access = TableAccess::new(&table)?;
        let mut columns = Vec::with_capacity(table.def.columns.len());
        for column in &table.def.columns {
            let ty = Type {
                data_type: column.data_type,
                nullable: column.nullable,
                collation: column.collation,
                coercion: Coercion::Implicit,
            };
            columns.push(self.new_column(ColumnInfo {
                ty,
                name: column.name.clone(),
                qualified: format!("{qualified}.{}", column.name),
                identity: column.is_identity,
                computed: column.computed.is_some(),
                null_literal: false,
            })?);
        }
        let (locks, forced_index, force_seek) = table_hints(&table, hints)?;
        let target = self.take_target(&table, alias, &columns)?;
        if target.is_some() && locks.nolock {
            return Err(crate::messages::error(1065, &[]));
        }
        let scan = TableScan {
            access,
            alias: alias.to_string(),
            columns: columns.clone(),
            hints: locks,
            forced_index,
            force_seek,
            target,
        };
        let names = |c: &[ColId]| {
            table
                .def
                .columns
                .iter()
                .zip(c)
                .map(|(d, id)| (d.name.clone(), *id))
                .collect::<Vec<_>>()
        };
        let is_target = scan.target.is_some();
        let (rel, columns) = self.add_computed(scan, columns)?;
        if is_target {
            self.note_target_columns(&columns);
        }
        let database = schema.as_ref().map(|_| table.database.name());
        let schema = schema.map(|s| s.unwrap_or_else(|| table.schema_name.clone()));
        self.add_table(ScopeEntry {
            name: alias.to_string(),
            schema,
            database,
            columns: names(&columns),
        })?;
        Ok(rel)
    }

    /// Virtual computed columns are computed above the scan, under numbers of their own.
    fn add_computed(
        &mut self,
        scan: TableScan,
        mut columns: Vec<ColId>,
    ) -> Result<(Rel, Vec<ColId>)> {
        let def = scan.access.table.def.clone();
        let mut items = Vec::new();
        for (ordinal, column) in def.columns.iter().enumerate() {
            let Some(computed) = column.computed.as_ref().filter(|c| !c.persisted) else {
                continue;
            };
            let inner: Vec<_> = def
                .columns
                .iter()
                .zip(&columns)
                .map(|(d, id)| (d.name.clone(), *id))
                .collect();
            let expr = parse_expression(&computed.definition, &ParseOptions::default())
                .map_err(stored_text)?;
            let entry = ScopeEntry {
                name: def_name(&scan),
                schema: None,
                database: None,
                columns: inner,
            };
            let scalar = self.isolated(Vec::new(), |b| {
                b.scalar_in(
                    NameScope {
                        tables: vec![entry],
                    },
                    &expr,
                )
            })?;
            let scalar = types::convert(scalar, column.data_type)?;
            let mut info = self.columns[columns[ordinal] as usize].clone();
            info.ty.nullable = scalar.ty.nullable;
            let id = self.new_column(info)?;
            columns[ordinal] = id;
            items.push((id, scalar));
        }
        Ok((Rel::Table(Box::new(scan)).compute(items), columns))
    }

    fn virtual_table(
        &mut self,
        table: Arc<dyn VirtualTable>,
        database: DatabaseId,
        alias: &str,
        qualified: &str,
        schema: Option<String>,
        args: Vec<Scalar>,
    ) -> Result<Rel> {
        let mut columns = Vec::new();
        let mut names = Vec::new();
        for column in table.columns() {
            let id = self.new_column(ColumnInfo {
                ty: Type {
                    data_type: column.data_type,
                    nullable: column.nullable,
                    collation: column.collation,
                    coercion: Coercion::Implicit,
                },
                name: column.name.clone(),
                qualified: format!("{qualified}.{}", column.name),
                identity: false,
                computed: false,
                null_literal: false,
            })?;
            columns.push(id);
            names.push((column.name.clone(), id));
        }
        self.add_table(ScopeEntry {
            name: alias.to_string(),
            schema,
            database: None,
            columns: names,
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
        if let Some(bound) = self.builtin_rows(name, &args)? {
            return self.named(bound, Some(&Ident::new(&alias)), &function.columns);
        }
        match self.resolve(name)? {
            Resolved::Virtual(found) => {
                let (low, high) = found.arguments().into_inner();
                if args.len() < low {
                    return Err(SqlError::new(
                        313,
                        16,
                        3,
                        format!(
                            "An insufficient number of arguments were supplied for the procedure or function {}.",
                            name.dotted()
                        ),
                    ));
                }
                if args.len() > high {
                    return Err(SqlError::new(
                        8144,
                        16,
                        3,
                        format!(
                            "Procedure or function {} has too many arguments specified.",
                            name.dotted()
                        ),
                    ));
                }
                let database = self.database_of(name);
                self.virtual_table(found, database, &alias, &alias, None, args)
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

    /// Arguments of a table function; DEFAULT and NULL mean the same to system functions.
    fn table_argument(&mut self, expr: &ast::Expr) -> Result<Scalar> {
        match expr {
            ast::Expr::Default => Ok(Scalar::null(daruma_value::DataType::Int)),
            expr if self.lateral => self.expr(expr),
            expr => {
                let own = self.scopes.pop();
                let bound = self.expr(expr);
                self.scopes.extend(own);
                bound
            }
        }
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
            bound.push(row.iter().map(|e| self.expr(e)).collect::<Result<_>>()?);
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

    fn renamed(
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

    fn exposed(
        &mut self,
        bound: BoundQuery,
        alias: &str,
        qualified: &str,
        schema: Option<String>,
    ) -> Result<Rel> {
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
        })?;
        Ok(bound.rel)
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
        let options = ParseOptions {
            quoted_identifier: module.quoted_identifier,
        };
        let batch = parse_batch(&module.definition, &options).map_err(stored_text)?;
        let view = batch.into_iter().find_map(|s| match s.kind {
            StatementKind::CreateView(view) => Some(view),
            _ => None,
        });
        let Some(view) = view else {
            return Err(SqlError::new(
                208,
                16,
                1,
                format!("Invalid object name '{}'.", object.name),
            ));
        };
        let outer = self.database.replace(database);
        self.host.enter_view(database, object);
        let bound = self.isolated(Vec::new(), |b| b.query(&view.query, true));
        self.host.leave_view();
        self.database = outer;
        self.renamed(bound?, &object.name, &view.columns)
    }

    fn cte(&mut self, position: usize, alias: Option<&Ident>) -> Result<Rel> {
        let entry = self.ctes[position].clone();
        let alias = alias.unwrap_or(&entry.cte.name).clone();
        if let Some((id, columns)) = entry.work {
            let mut bound = Vec::new();
            for (name, old) in &columns {
                let info = self.columns[*old as usize].clone();
                bound.push(OutColumn {
                    name: name.clone(),
                    id: self.new_column(info)?,
                });
            }
            let rel = Rel::WorkTable {
                id,
                columns: bound.iter().map(|c| c.id).collect(),
            };
            let bound = BoundQuery {
                rel,
                columns: bound,
                assignments: Vec::new(),
            };
            return self.exposed(bound, &alias.text, &alias.text, None);
        }
        let visible = self.ctes[..entry.visible].to_vec();
        let cte = entry.cte;
        let bound = match &cte.query.body {
            QueryBody::Set { op, branches }
                if branches.iter().any(|b| mentions(b, &cte.name.text)) =>
            {
                if *op != SetOp::UnionAll {
                    return Err(SqlError::new(
                        252,
                        16,
                        1,
                        format!(
                            "Recursive common table expression '{}' does not contain a top-level UNION ALL operator.",
                            cte.name.text
                        ),
                    ));
                }
                self.isolated(visible, |b| b.recursive(&cte, branches))?
            }
            _ => self.isolated(visible, |b| b.query(&cte.query, true))?,
        };
        self.check_select(&bound)?;
        let bound = self.renamed(bound, &cte.name.text, &cte.columns)?;
        self.exposed(bound, &alias.text, &alias.text, None)
    }

    fn check_select(&self, bound: &BoundQuery) -> Result<()> {
        if bound.assignments.is_empty() {
            return Ok(());
        }
        Err(SqlError::new(
            141,
            15,
            1,
            "A SELECT statement that assigns a value to a variable must not be combined with data-retrieval operations.",
        ))
    }

    fn recursive(&mut self, cte: &Arc<ast::Cte>, branches: &[QueryBody]) -> Result<BoundQuery> {
        let name = &cte.name.text;
        let query = |body: &QueryBody| ast::Query {
            with: ast::With::default(),
            body: body.clone(),
            order_by: Vec::new(),
            offset: None,
            fetch: None,
            for_clause: None,
            options: Vec::new(),
        };
        let (steps, anchors): (Vec<_>, Vec<_>) = branches.iter().partition(|b| mentions(b, name));
        if anchors.is_empty() {
            return Err(SqlError::new(
                246,
                16,
                1,
                format!("No anchor member was specified for recursive query \"{name}\"."),
            ));
        }
        let mut bound = Vec::new();
        for anchor in anchors {
            bound.push(self.query(&query(anchor), true)?);
        }
        let anchor = if bound.len() == 1 {
            bound.remove(0)
        } else {
            self.combine(SetOp::UnionAll, bound)?
        };
        let anchor = self.renamed(anchor, name, &cte.columns)?;
        let mut columns = Vec::new();
        for column in &anchor.columns {
            let mut info = self.columns[column.id as usize].clone();
            info.ty.nullable = true;
            info.identity = false;
            columns.push(OutColumn {
                name: column.name.clone(),
                id: self.new_column(info)?,
            });
        }
        self.next_work += 1;
        let id = self.next_work;
        let names: Vec<_> = columns.iter().map(|c| (c.name.clone(), c.id)).collect();
        let visible = self.ctes.len();
        self.ctes.push(CteEntry {
            cte: cte.clone(),
            visible,
            work: Some((id, names)),
        });
        let mut bound = Vec::new();
        for step in steps {
            let step = self.query(&query(step), true)?;
            bound.push(self.step_types(name, step, &columns)?);
        }
        self.ctes.pop();
        let step = if bound.len() == 1 {
            bound.remove(0)
        } else {
            self.combine(SetOp::UnionAll, bound)?
        };
        let ids = |q: &BoundQuery| q.columns.iter().map(|c| c.id).collect::<Vec<_>>();
        let (anchor_ids, step_ids) = (ids(&anchor), ids(&step));
        let rel = Rel::Recursive(Box::new(Recursive {
            id,
            anchor: (anchor.rel, anchor_ids),
            step: (step.rel, step_ids),
            columns: columns.iter().map(|c| c.id).collect(),
            max_recursion: self.max_recursion,
        }));
        Ok(BoundQuery {
            rel,
            columns,
            assignments: Vec::new(),
        })
    }

    /// Brings a recursive member to the anchor's types: errors 205, 240.
    fn step_types(
        &mut self,
        name: &str,
        step: BoundQuery,
        anchor: &[OutColumn],
    ) -> Result<BoundQuery> {
        if step.columns.len() != anchor.len() {
            return Err(SqlError::new(
                205,
                16,
                1,
                "All queries combined using a UNION, INTERSECT or EXCEPT operator must have an equal number of expressions \
                 in their target lists.",
            ));
        }
        let mut items = Vec::new();
        let mut columns = Vec::new();
        for (column, wanted) in step.columns.into_iter().zip(anchor) {
            let to = self.columns[wanted.id as usize].ty.data_type;
            let info = &self.columns[column.id as usize];
            if info.ty.data_type.name() != to.name() && !info.null_literal {
                return Err(SqlError::new(
                    240,
                    16,
                    1,
                    format!(
                        "Types don't match between the anchor and the recursive part in column \"{}\" of recursive query \
                         \"{name}\".",
                        wanted.name
                    ),
                ));
            }
            let scalar = types::convert(self.branch_scalar(column.id), to)?;
            let id = match scalar.as_column() {
                Some(id) => id,
                None => {
                    let id = self.new_computed(&column.name, &scalar)?;
                    items.push((id, scalar));
                    id
                }
            };
            columns.push(OutColumn {
                name: column.name,
                id,
            });
        }
        Ok(BoundQuery {
            rel: step.rel.compute(items),
            columns,
            assignments: Vec::new(),
        })
    }

    fn branch_scalar(&self, id: ColId) -> Scalar {
        if self.columns[id as usize].null_literal {
            Scalar::null(daruma_value::DataType::Int)
        } else {
            self.column(id)
        }
    }
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

fn def_name(scan: &TableScan) -> String {
    scan.access.table.name.clone()
}

pub(super) fn stored_text(errors: Vec<daruma_syntax::SyntaxError>) -> SqlError {
    match errors.into_iter().next() {
        Some(e) => SqlError::new(e.number as i32, e.severity, e.state, e.message),
        None => SqlError::new(102, 15, 1, "Incorrect syntax."),
    }
}

/// Does FROM of a query body name the table `name`? That makes a common table expression recursive.
fn mentions(body: &QueryBody, name: &str) -> bool {
    match body {
        QueryBody::Select(select) => select.from.iter().any(|s| source_mentions(s, name)),
        QueryBody::Set { branches, .. } => branches.iter().any(|b| mentions(b, name)),
    }
}

fn source_mentions(source: &TableSource, name: &str) -> bool {
    match source {
        TableSource::Table(table) => {
            table.name.is_bare() && names_equal(&table.name.name.text, name)
        }
        TableSource::Join(join) => {
            source_mentions(&join.left, name) || source_mentions(&join.right, name)
        }
        TableSource::Apply { left, right, .. } => {
            source_mentions(left, name) || source_mentions(right, name)
        }
        TableSource::Derived { query, .. } => mentions(&query.body, name),
        TableSource::Pivot(pivot) => source_mentions(&pivot.source, name),
        TableSource::Unpivot(unpivot) => source_mentions(&unpivot.source, name),
        _ => false,
    }
}

fn table_hints(table: &TableRef, hints: &[TableHint]) -> Result<(LockHints, Option<usize>, bool)> {
    let mut locks = LockHints::default();
    let (mut forced, mut seek) = (None, false);
    for hint in hints {
        match hint {
            TableHint::Word(word) => match word.to_ascii_uppercase().as_str() {
                "NOLOCK" | "READUNCOMMITTED" => locks.nolock = true,
                "UPDLOCK" => locks.updlock = true,
                "XLOCK" => locks.xlock = true,
                "HOLDLOCK" | "SERIALIZABLE" => locks.holdlock = true,
                "REPEATABLEREAD" => locks.repeatableread = true,
                "TABLOCK" => locks.tablock = true,
                "TABLOCKX" => locks.tablockx = true,
                "READPAST" => locks.readpast = true,
                "READCOMMITTEDLOCK" => locks.readcommittedlock = true,
                "NOWAIT" => locks.nowait = true,
                "FORCESEEK" => seek = true,
                _ => {}
            },
            TableHint::Index(names) => {
                if let Some(name) = names.first() {
                    forced = Some(index_named(table, name)?);
                }
            }
            TableHint::ForceSeek { index, .. } => {
                forced = Some(index_named(table, index)?);
                seek = true;
            }
            TableHint::SpatialWindowMaxCells(_) => {}
        }
    }
    // Contradictions: no locks and locks, or passing rows while the whole table is locked.
    let locking = locks.holdlock || locks.repeatableread || locks.updlock || locks.xlock;
    if locks.nolock && (locking || locks.readpast || locks.tablock || locks.tablockx) {
        return Err(crate::messages::error(1047, &[]));
    }
    Ok((locks, forced, seek))
}

/// Index hint: a name or a number, where 0 means the table itself. Error 308.
fn index_named(table: &TableRef, name: &Ident) -> Result<usize> {
    if !name.quoted && name.text == "0" {
        return Ok(0);
    }
    let number = if name.quoted {
        None
    } else {
        name.text.parse::<i32>().ok()
    };
    let matches = |i: &daruma_catalog::IndexDef| match number {
        Some(n) => i.id == n,
        None => i.name.as_ref().is_some_and(|n| names_equal(n, &name.text)),
    };
    table.def.indexes.iter().position(matches).ok_or_else(|| {
        SqlError::new(
            308,
            16,
            1,
            format!(
                "Index '{}' on table '{}.{}' (specified in the FROM clause) does not exist.",
                name.text, table.schema_name, table.name
            ),
        )
    })
}
