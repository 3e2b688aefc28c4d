//! CREATE TABLE, table variables, TRUNCATE: from a written table definition to a stored one.
//!
//! Order of work: columns, then computed columns (they see the others), keys and indexes, checks, foreign keys, trees.

use super::storage_options::{Taker, check_table};
use super::{definition, foreign, names, nullability};
use crate::dml::Watch;
use crate::error::{Result, SqlError};
use crate::executor::{
    Scope, ScopeColumn, ScopeTable, prepare_stored_condition, prepare_stored_scalar,
};
use crate::host::{Host, TableKind, TableRef};
use crate::instance::TEMPDB;
use crate::messages;
use crate::session::Execution;
use daruma_base::DatabaseId;
use daruma_catalog::{
    CheckDef, ColumnDef, ComputedDef, DefaultDef, IdentityDef, ObjectKind, Put, TableDef,
    names_equal,
};
use daruma_syntax::ast::{
    self, ColumnConstraintKind, ColumnKind, Condition, CreateTable, Expr, Ident, Literal,
    ObjectName, TableConstraintKind, TableDefinition, UnaryOp,
};
use daruma_syntax::{ParseOptions, parse_expression};
use daruma_value::{CollationId, DataType};
use std::fmt::Display;
use std::sync::Arc;

/// Error of a filegroup without a free page.
const FILEGROUP_FULL: i32 = 1105;

/// Columns of a table.
const COLUMNS_MAX: usize = 1_024;

/// A table definition under construction.
pub(super) struct Builder<'e, 'a> {
    pub ex: &'e Execution<'a>,
    pub database: DatabaseId,
    pub schema_id: i32,
    pub kind: TableKind,
    pub table_id: i32,
    pub table_name: String,
    /// As messages show it.
    pub written: String,
    /// Whose options keys and indexes have.
    pub taker: Taker,
    pub def: TableDef,
}

pub(super) fn create(ex: &Execution<'_>, statement: &CreateTable) -> Result<()> {
    if let Some(kind) = &statement.as_kind {
        return Err(messages::not_supported(kind));
    }
    check_table(&statement.options, "CREATE TABLE")?;
    let name = &statement.name;
    if name.is_temporary() {
        let table = create_temporary(
            ex,
            &name.name.text,
            &statement.definition,
            TableKind::Temporary,
        )?;
        ex.state.add_temp(table);
        return Ok(());
    }
    let (database, schema_id) = super::place_for(ex, name)?;
    super::reserve_name(ex, database, schema_id, &name.name.text)?;
    let mut builder = Builder::new(ex, database, schema_id, TableKind::User, &name.name.text)?;
    builder.written = name.name.text.clone();
    builder.def.filegroup = filegroup(ex, database, statement.storage.as_ref())?;
    let large = statement.text_image_on.as_ref();
    if large.is_some() && named_filegroup(ex, database, large)? != builder.def.filegroup {
        let what = "TEXTIMAGE_ON a filegroup that is not the table's";
        return Err(messages::not_supported(what));
    }
    builder.define(&statement.definition)?;
    builder.create_trees()?;
    let Builder { table_id, def, .. } = builder;
    let object = super::new_object(
        ex,
        table_id,
        schema_id,
        &name.name.text,
        ObjectKind::Table(Arc::new(def)),
    );
    super::put_object(ex, database, Put::new(object))
}

/// A column option that does not exist here is refused: the data it should protect or keep would not be.
fn refuse_promises(column: &ast::ColumnDefinition) -> Result<()> {
    let promised = [
        (column.masked.is_some(), "MASKED WITH"),
        (!column.encrypted.is_empty(), "ENCRYPTED WITH"),
        (column.generated.is_some(), "GENERATED ALWAYS"),
        (column.column_set, "COLUMN_SET"),
    ];
    match promised.iter().find(|(is, _)| *is) {
        Some((_, what)) => Err(messages::not_supported(what)),
        None => Ok(()),
    }
}

pub(super) fn refuse_period(definition: &TableDefinition) -> Result<()> {
    match definition.period {
        Some(_) => Err(messages::not_supported("PERIOD FOR SYSTEM_TIME")),
        None => Ok(()),
    }
}

/// DECLARE @t TABLE: lives outside transactions.
pub(crate) fn create_table_variable(
    ex: &Execution<'_>,
    name: &str,
    definition: &TableDefinition,
) -> Result<TableRef> {
    create_temporary(ex, name, definition, TableKind::Variable)
}

fn create_temporary(
    ex: &Execution<'_>,
    name: &str,
    definition: &TableDefinition,
    kind: TableKind,
) -> Result<TableRef> {
    if kind == TableKind::Temporary && ex.state.temp_name_in_use(name) {
        return Err(messages::error_state(2714, 6, &[&name]));
    }
    let mut builder = Builder::new(ex, TEMPDB, daruma_catalog::SCHEMA_DBO, kind, name)?;
    builder.define(definition)?;
    builder.finish_temporary()
}

/// Filegroup id of `ON filegroup`; the default one without it. Error 1921.
pub(super) fn filegroup(
    ex: &Execution<'_>,
    database: DatabaseId,
    space: Option<&ast::DataSpace>,
) -> Result<u16> {
    if space.is_some_and(|space| space.column.is_some()) {
        return Err(messages::not_supported("partition schemes"));
    }
    named_filegroup(ex, database, space.map(|space| &space.name))
}

/// The same, for what names a filegroup alone.
pub(super) fn named_filegroup(
    ex: &Execution<'_>,
    database: DatabaseId,
    name: Option<&ast::Ident>,
) -> Result<u16> {
    let entry = ex
        .instance()
        .database(database)
        .ok_or_else(|| messages::error(2520, &[&database.0]))?;
    let def = entry.def();
    let group = match name.filter(|name| !name.is("default")) {
        None => def.default_filegroup(),
        Some(name) => def
            .filegroup_named(&name.text)
            .map(|group| group.id)
            .ok_or_else(|| messages::error_state(1921, 1, &[&"filegroup", &name.text]))?,
    };
    let mut groups = def.filegroups.iter();
    match groups.find(|g| g.id == group && g.keeps_out()) {
        Some(group) => Err(messages::error(1924, &[&group.name])),
        None => Ok(group),
    }
}

impl<'e, 'a> Builder<'e, 'a> {
    /// A table that has no columns yet.
    pub fn new(
        ex: &'e Execution<'a>,
        database: DatabaseId,
        schema_id: i32,
        kind: TableKind,
        name: &str,
    ) -> Result<Builder<'e, 'a>> {
        let table_id = match kind {
            TableKind::User => super::new_id(ex, database)?,
            _ => ex.instance().next_temp_object_id(),
        };
        Ok(Builder {
            ex,
            database,
            schema_id,
            kind,
            table_id,
            table_name: name.to_string(),
            written: name.to_string(),
            taker: Taker::CreateTable,
            def: TableDef {
                next_column_id: 1,
                filegroup: 1,
                ansi_nulls: true,
                ..TableDef::default()
            },
        })
    }

    /// A builder that goes on with an existing table.
    pub fn of_table(ex: &'e Execution<'a>, table: &TableRef) -> Result<Builder<'e, 'a>> {
        let database = table.database.id();
        let catalog = ex.catalog(database)?;
        let schema_id = catalog
            .object(table.object_id)
            .map_or(daruma_catalog::SCHEMA_DBO, |o| o.schema_id);
        Ok(Builder {
            ex,
            database,
            schema_id,
            kind: table.kind,
            table_id: table.object_id,
            table_name: table.name.clone(),
            written: table.name.clone(),
            taker: Taker::AlterTable,
            def: (*table.def).clone(),
        })
    }

    /// A free object id; temporary tables count in their own range.
    pub fn new_id(&self) -> Result<i32> {
        match self.kind {
            TableKind::User => super::new_id(self.ex, self.database),
            _ => Ok(self.ex.instance().next_temp_object_id()),
        }
    }

    /// Takes in everything of a definition; trees apart.
    pub fn define(&mut self, definition: &TableDefinition) -> Result<()> {
        refuse_period(definition)?;
        self.add_columns(&definition.columns)?;
        if self.def.columns.iter().all(|c| c.computed.is_some()) {
            return Err(SqlError::new(
                1730,
                16,
                1,
                "Creating or altering table failed because it would have no data columns.",
            ));
        }
        self.check_row_size()?;
        self.add_keys(definition)?;
        self.add_storage()?;
        self.add_plain_indexes(definition)?;
        self.add_checks(definition)?;
        self.add_foreign_keys(definition)
    }

    /// Error 1701: columns of fixed length that never fit a page together.
    fn check_row_size(&self) -> Result<()> {
        const HEAD_BYTES: usize = 6;
        const ROW_BYTES_MAX: usize = 8_060;
        let stored = |c: &&ColumnDef| c.computed.as_ref().is_none_or(|c| c.persisted);
        let fixed = |c: &ColumnDef| match c.data_type {
            t if t.is_character() || t.is_binary() => match t {
                DataType::Char(_) | DataType::NChar(_) | DataType::Binary(_) => t.max_length(),
                _ => 0,
            },
            DataType::Variant | DataType::HierarchyId => 0,
            t => t.max_length(),
        };
        let columns = self.def.columns.iter().filter(stored);
        let bytes: usize = columns
            .map(|c| usize::try_from(fixed(c)).unwrap_or(0))
            .sum();
        let overhead = HEAD_BYTES + self.def.columns.len().div_ceil(8);
        match bytes + overhead > ROW_BYTES_MAX {
            true => Err(messages::error(
                1701,
                &[
                    &self.written,
                    &(bytes + overhead),
                    &overhead,
                    &ROW_BYTES_MAX,
                ],
            )),
            false => Ok(()),
        }
    }

    // --- Columns

    /// Adds columns with their constraints; more than 1,024 are error 1702.
    pub fn add_columns(&mut self, columns: &[ast::ColumnDefinition]) -> Result<()> {
        let statement = match self.def.columns.is_empty() {
            true => "CREATE TABLE",
            false => "ALTER TABLE",
        };
        let room = COLUMNS_MAX.saturating_sub(self.def.columns.len());
        if let Some(column) = columns.get(room) {
            let name = &column.name.text;
            return Err(messages::error(1702, &[name, &self.written, &COLUMNS_MAX]));
        }
        for (position, column) in columns.iter().enumerate() {
            if self.def.column_named(&column.name.text).is_some() {
                return Err(messages::error_state(
                    2705,
                    3,
                    &[&column.name.text, &self.written],
                ));
            }
            let made = self.column(column, position)?;
            self.def.columns.push(made);
            self.def.next_column_id += 1;
        }
        for column in columns {
            if let ColumnKind::Computed { expr, persisted } = &column.kind {
                self.type_computed(&column.name.text, expr, *persisted, statement)?;
                self.computed_nullability(column, expr, *persisted)?;
            }
        }
        Ok(())
    }

    fn column(&mut self, column: &ast::ColumnDefinition, position: usize) -> Result<ColumnDef> {
        refuse_promises(column)?;
        let name = column.name.text.clone();
        let id = self.def.next_column_id;
        let (data_type, alias_nullable, user_type_id) = match &column.kind {
            ColumnKind::Data(type_name) => self
                .ex
                .type_of(type_name)
                .map_err(|e| numbered(e, position + 1))?,
            ColumnKind::Untyped if column.name.is("timestamp") => {
                (DataType::RowVersion, None, None)
            }
            ColumnKind::Untyped => return Err(messages::error(173, &[&name])),
            ColumnKind::Computed { .. } => (DataType::Int, None, None),
        };
        let mut made = ColumnDef {
            id,
            name: name.clone(),
            data_type,
            user_type_id,
            nullable: self.nullability(column, data_type, alias_nullable),
            collation: self.collation(column.collation.as_ref(), data_type)?,
            default: None,
            computed: None,
            is_identity: false,
            is_rowguid: column.rowguidcol,
            is_sparse: column.sparse,
            missing_value: None,
        };
        if let ColumnKind::Computed { expr, persisted } = &column.kind {
            made.computed = Some(ComputedDef {
                definition: definition::expression(expr),
                persisted: *persisted,
            });
            made.nullable = true;
        }
        self.check_rowversion(&made)?;
        self.check_padding(&made)?;
        if let Some(identity) = &column.identity {
            self.identity(&mut made, column, identity)?;
        }
        if let Some(default) = &column.default {
            made.default =
                Some(self.default_constraint(&made, default.name.as_ref(), &default.expr)?);
        }
        Ok(made)
    }

    fn nullability(
        &self,
        column: &ast::ColumnDefinition,
        data_type: DataType,
        alias: Option<bool>,
    ) -> bool {
        let in_key = column
            .constraints
            .iter()
            .any(|c| matches!(&c.kind, ColumnConstraintKind::Key(k) if k.primary));
        match column.nullable {
            Some(nullable) => nullable,
            None if in_key || column.identity.is_some() || data_type == DataType::RowVersion => {
                false
            }
            None => alias.unwrap_or(
                self.ex.settings().ansi_null_dflt_on || self.kind == TableKind::Variable,
            ),
        }
    }

    /// Collation of a text column: written, or the database's.
    pub fn collation(&self, written: Option<&Ident>, data_type: DataType) -> Result<CollationId> {
        match written {
            Some(name) if name.is("database_default") => {
                Ok(self.ex.collation(self.ex.current_database()))
            }
            Some(name) => CollationId::from_name(&name.text)
                .ok_or_else(|| messages::error(448, &[&name.text])),
            None if data_type.is_character() => Ok(self.ex.collation(self.home())),
            None => Ok(CollationId::DEFAULT),
        }
    }

    /// The database whose collation columns take: temporary tables live in tempdb, table variables where they are declared,
    /// others in the database that their name says.
    fn home(&self) -> DatabaseId {
        match self.kind {
            TableKind::Temporary => TEMPDB,
            TableKind::Variable => self.ex.current_database(),
            TableKind::User => self.database,
        }
    }

    /// Error 40517 for a column whose values SET ANSI_PADDING OFF trims: they are kept as they are given, or padded.
    pub fn check_padding(&self, column: &ColumnDef) -> Result<()> {
        let is_trimmed = match column.data_type {
            DataType::Char(_) | DataType::Binary(_) => column.nullable,
            DataType::VarChar(len) | DataType::VarBinary(len) => !len.is_max(),
            _ => false,
        };
        let is_kept = self.kind == TableKind::Variable || self.ex.settings().ansi_padding;
        match is_trimmed && !is_kept {
            true => Err(messages::not_supported(
                "SET ANSI_PADDING OFF for a column of char, varchar, binary or varbinary",
            )),
            false => Ok(()),
        }
    }

    fn check_rowversion(&self, column: &ColumnDef) -> Result<()> {
        let second = column.data_type == DataType::RowVersion
            && self
                .def
                .columns
                .iter()
                .any(|c| c.data_type == DataType::RowVersion);
        match second {
            true => Err(messages::error(2738, &[&self.written, &column.name])),
            false => Ok(()),
        }
    }

    fn identity(
        &mut self,
        made: &mut ColumnDef,
        column: &ast::ColumnDefinition,
        identity: &ast::Identity,
    ) -> Result<()> {
        let name = &made.name;
        if self.def.identity.is_some() {
            return Err(messages::error_state(2744, 2, &[&self.written]));
        }
        let integral = match made.data_type {
            DataType::Decimal { scale, .. } => scale == 0,
            DataType::Bit => false,
            other => other.is_integer(),
        };
        if !integral {
            return Err(messages::error_state(2749, 2, &[name]));
        }
        if column.nullable == Some(true) {
            return Err(messages::error(8147, &[name, &self.written]));
        }
        if column.default.is_some() {
            return Err(messages::error(1754, &[&self.written, name]));
        }
        let seed = identity.seed.as_ref().map_or(Some(1), signed_integer);
        let seed = seed
            .filter(|s| fits(*s, made.data_type))
            .ok_or_else(|| messages::error(2752, &[name]))?;
        let increment = identity
            .increment
            .as_ref()
            .map_or(Some(1), signed_integer)
            .filter(|i| *i != 0);
        let increment = increment.ok_or_else(|| messages::error(2753, &[name]))?;
        made.is_identity = true;
        made.nullable = false;
        self.def.identity = Some(IdentityDef {
            column_id: made.id,
            seed,
            increment,
            not_for_replication: identity.not_for_replication,
        });
        Ok(())
    }

    /// A DEFAULT for a column; its expression must stand alone and convert.
    pub fn default_constraint(
        &self,
        column: &ColumnDef,
        name: Option<&Ident>,
        expr: &Expr,
    ) -> Result<DefaultDef> {
        if column.data_type == DataType::RowVersion {
            return Err(messages::error(1755, &[&self.written, &column.name]));
        }
        if column.computed.is_some() {
            return Err(messages::error(1752, &[&column.name, &self.written]));
        }
        let names = self.names();
        let bind = |watch: &Watch| prepare_stored_scalar(expr, None, names, watch);
        let plan = self.bound(bind).map_err(|e| match e.number {
            207 | 4104 => column_in_default(expr, e),
            _ => e,
        })?;
        if !matches!(expr, Expr::Literal(Literal::Null)) {
            daruma_value::types::check_implicit(plan.data_type(), column.data_type)?;
        }
        let id = self.new_id()?;
        let text = match name {
            Some(name) => self.constraint_name(&name.text)?,
            None => names::column("DF", &self.table_name, &column.name, id),
        };
        Ok(DefaultDef {
            id,
            name: text,
            is_system_named: name.is_none(),
            definition: definition::expression(expr),
        })
    }

    /// A written constraint name, checked to be free.
    pub fn constraint_name(&self, name: &str) -> Result<String> {
        let own = daruma_catalog::constraints_of(self.table_id, &self.def);
        let taken_here =
            own.iter().any(|(_, n)| names_equal(n, name)) || names_equal(name, &self.table_name);
        if self.kind == TableKind::User && !taken_here {
            super::reserve_name(self.ex, self.database, self.schema_id, name)
                .map_err(|e| constraint_taken(e, name))?;
        } else if taken_here {
            return Err(constraint_taken(
                messages::error_state(2714, 5, &[&name]),
                name,
            ));
        }
        Ok(name.to_string())
    }

    /// Type and nullability of a computed column from its expression. Methods of XML stand in none: errors 424, 435.
    fn type_computed(
        &mut self,
        name: &str,
        expr: &Expr,
        persisted: bool,
        statement: &str,
    ) -> Result<()> {
        let (scope, names) = (self.scope(), self.names());
        let bind = |watch: &Watch| prepare_stored_scalar(expr, Some(&scope), names, watch);
        let plan = self.bound(bind)?;
        if plan.asks_xml() {
            let number = match self.kind {
                TableKind::Variable => 424,
                TableKind::User | TableKind::Temporary => 435,
            };
            let of = &[&name as &dyn Display, &self.written, &statement];
            return Err(messages::error_state(number, 16, of));
        }
        if persisted && !plan.is_deterministic() {
            return Err(messages::error(4936, &[&name, &self.written]));
        }
        let column = plan.column().clone();
        if let Some(made) = self
            .def
            .columns
            .iter_mut()
            .find(|c| names_equal(&c.name, name))
        {
            made.data_type = column.data_type;
            made.collation = column.collation;
            made.nullable = column.nullable;
        }
        Ok(())
    }

    /// PERSISTED NOT NULL is a promise that each row is held to; without PERSISTED it is error 8183. Otherwise the expression decides.
    fn computed_nullability(
        &mut self,
        column: &ast::ColumnDefinition,
        expr: &Expr,
        persisted: bool,
    ) -> Result<()> {
        let nullable = match (column.nullable, persisted) {
            (Some(false), false) => return Err(messages::error(8183, &[])),
            (Some(false), true) => false,
            _ => nullability::may_be_null(expr, &self.def),
        };
        let columns = &mut self.def.columns;
        let made = columns
            .iter_mut()
            .find(|c| names_equal(&c.name, &column.name.text));
        if let Some(made) = made {
            made.nullable = nullable;
        }
        Ok(())
    }

    /// Whether an index may hold the column: what is computed afresh must come out the same each time.
    pub fn check_indexable(&self, column: &ColumnDef) -> Result<()> {
        match &column.computed {
            Some(computed) if !computed.persisted && !self.is_deterministic(computed)? => Err(
                messages::error(2729, &[&column.name, &"table", &self.written]),
            ),
            _ => Ok(()),
        }
    }

    /// Whether a computed column gives the same value each time.
    pub fn is_deterministic(&self, computed: &ComputedDef) -> Result<bool> {
        let expr = parse_expression(&computed.definition, &ParseOptions::default());
        let expr = crate::instance::parsed(expr)?;
        let (scope, names) = (self.scope(), self.names());
        let bind = || prepare_stored_scalar(&expr, Some(&scope), names, self.ex);
        Ok(self.ex.unasked(bind)?.is_deterministic())
    }

    /// Binds an expression of the definition. The functions that it calls are locked, so that none of them is dropped or
    /// changed by somebody who does not see the definition yet.
    fn bound<T>(&self, bind: impl Fn(&Watch) -> Result<T>) -> Result<T> {
        let watch = Watch::new(self.ex);
        let made = self.ex.with_references(|| bind(&watch))?;
        let called = watch.functions();
        if called.is_empty() {
            return Ok(made);
        }
        for (database, function) in called {
            super::lock_object(self.ex, database, function)?;
        }
        self.ex.with_references(|| bind(&watch))
    }

    /// Where names in the definition are looked up.
    fn names(&self) -> Option<DatabaseId> {
        (self.kind == TableKind::User).then_some(self.database)
    }

    /// The columns by name, for expressions over rows of the table. Computed columns cannot be named by others.
    pub fn scope(&self) -> Scope {
        let column = |c: &ColumnDef| ScopeColumn {
            name: c.name.clone(),
            data_type: c.data_type,
            collation: c.collation,
            nullable: c.nullable,
        };
        let columns = self
            .def
            .columns
            .iter()
            .filter(|c| c.computed.is_none())
            .map(column);
        Scope {
            tables: vec![ScopeTable {
                name: self.table_name.clone(),
                schema: None,
                columns: columns.collect(),
            }],
            ..Scope::default()
        }
    }

    /// As `scope`, with computed columns.
    pub fn full_scope(&self) -> Scope {
        let column = |c: &ColumnDef| ScopeColumn {
            name: c.name.clone(),
            data_type: c.data_type,
            collation: c.collation,
            nullable: c.nullable,
        };
        let columns = self.def.columns.iter().map(column).collect();
        Scope {
            tables: vec![ScopeTable {
                name: self.table_name.clone(),
                schema: None,
                columns,
            }],
            ..Scope::default()
        }
    }

    // --- Checks and foreign keys

    fn add_checks(&mut self, definition: &TableDefinition) -> Result<()> {
        for column in &definition.columns {
            for constraint in &column.constraints {
                if let ColumnConstraintKind::Check { condition, .. } = &constraint.kind {
                    self.add_check(constraint.name.as_ref(), condition, Some(&column.name))?;
                }
            }
        }
        for constraint in &definition.constraints {
            if let TableConstraintKind::Check { condition, .. } = &constraint.kind {
                self.add_check(constraint.name.as_ref(), condition, None)?;
            }
        }
        Ok(())
    }

    /// Adds a CHECK constraint; gives its position.
    pub fn add_check(
        &mut self,
        name: Option<&Ident>,
        condition: &Condition,
        column: Option<&Ident>,
    ) -> Result<usize> {
        let (scope, names) = (self.full_scope(), self.names());
        let bind = |watch: &Watch| prepare_stored_condition(condition, &scope, names, watch);
        let plan = self.bound(bind).map_err(could_not_create)?;
        if plan.asks_xml() {
            let refused = messages::error_state(423, 16, &[&self.written]);
            return Err(could_not_create(refused));
        }
        let id = self.new_id()?;
        let text = match (name, column) {
            (Some(name), _) => self.constraint_name(&name.text)?,
            (None, Some(column)) => names::column("CK", &self.table_name, &column.text, id),
            (None, None) => names::table("CK", &self.table_name, id),
        };
        let written = definition::condition(condition);
        self.def.checks.push(CheckDef {
            id,
            name: text,
            is_system_named: name.is_none(),
            column_id: self.only_column(&written),
            definition: written,
            disabled: false,
            not_trusted: false,
        });
        Ok(self.def.checks.len() - 1)
    }

    /// The column a check is about, when it names just one.
    fn only_column(&self, definition: &str) -> Option<i32> {
        let lower = definition.to_lowercase();
        let mut named = self
            .def
            .columns
            .iter()
            .filter(|c| lower.contains(&format!("[{}]", c.name.to_lowercase())));
        match (named.next(), named.next()) {
            (Some(column), None) => Some(column.id),
            _ => None,
        }
    }

    fn add_foreign_keys(&mut self, definition: &TableDefinition) -> Result<()> {
        for column in &definition.columns {
            for constraint in &column.constraints {
                if let ColumnConstraintKind::References(references) = &constraint.kind {
                    foreign::add(
                        self,
                        constraint.name.as_ref(),
                        std::slice::from_ref(&column.name),
                        references,
                    )?;
                }
            }
        }
        for constraint in &definition.constraints {
            if let TableConstraintKind::ForeignKey {
                columns,
                references,
            } = &constraint.kind
            {
                foreign::add(self, constraint.name.as_ref(), columns, references)?;
            }
        }
        Ok(())
    }

    // --- Trees

    /// Gives every index without a tree an empty one, in the session's transaction.
    pub fn create_trees(&mut self) -> Result<()> {
        let txn = self.ex.state.txn_in(self.database)?;
        create_missing_trees(&mut self.def, &txn)
    }

    fn finish_temporary(mut self) -> Result<TableRef> {
        match self.kind {
            TableKind::Variable => self
                .ex
                .state
                .autonomous(|txn| create_missing_trees(&mut self.def, txn))?,
            _ => self.create_trees()?,
        }
        let open = self.ex.instance().open_database(self.database)?;
        Ok(TableRef {
            database: open.storage,
            object_id: self.table_id,
            schema_name: "dbo".to_string(),
            name: self.table_name,
            def: Arc::new(self.def),
            kind: self.kind,
            table_type: None,
        })
    }
}

pub(super) fn create_missing_trees(def: &mut TableDef, txn: &daruma_storage::Txn) -> Result<()> {
    for index in def.indexes.iter_mut().filter(|i| i.tree.0.is_none()) {
        index.tree = txn.database().create_tree(txn, index.filegroup)?;
    }
    Ok(())
}

/// TRUNCATE TABLE: new empty trees; the old ones go when nobody can see them any more. Where no page is free for the new ones, nor
/// room on the disk, the old ones stay and lose their entries; that asks for memory, or pages, for the versions of these.
pub(crate) fn truncate(ex: &Execution<'_>, statement: &ast::Truncate) -> Result<()> {
    let name: &ObjectName = &statement.table;
    let table = super::table_named(ex, name).map_err(|e| match e.number {
        4902 => messages::error(4701, &[&name.name.text]),
        4909 => messages::error(4714, &[&name.name.text]),
        _ => e,
    })?;
    if !statement.partitions.is_empty() {
        return Err(messages::not_supported("PARTITIONS"));
    }
    let table = super::lock_for_change(ex, table)?;
    let others = ex.referencing(&table)?;
    if others
        .iter()
        .any(|(other, _)| other.object_id != table.object_id)
    {
        return Err(messages::error(4712, &[&name.name.text]));
    }
    match ex.atomic(|| renew_trees(ex, &table)) {
        // The pages of the old trees are not free before the transaction has ended.
        Err(error) if error.number == FILEGROUP_FULL => {
            let txn = ex.state.txn_in(table.database.id())?;
            let go_on = || ex.state.check_cancel();
            let mut indexes = table.def.indexes.iter();
            indexes.try_for_each(|i| crate::access::empty_tree(&txn, &table.def, i, go_on))?;
        }
        renewed => renewed?,
    }
    if table.def.identity.is_some() {
        ex.state.restart_identity(&table)?;
    }
    Ok(())
}

/// Gives every index a new, empty tree in the place of its own.
fn renew_trees(ex: &Execution<'_>, table: &TableRef) -> Result<()> {
    let txn = ex.state.txn_in(table.database.id())?;
    crate::session::drop_trees(&txn, &table.def)?;
    let mut def = (*table.def).clone();
    for index in def.indexes.iter_mut() {
        index.tree = txn.database().create_tree_instead(&txn, index.filegroup)?;
    }
    super::put_table(ex, table, def).map(|_| ())
}

fn numbered(mut error: SqlError, position: usize) -> SqlError {
    if matches!(error.number, 2715 | 2716 | 2750 | 2751) {
        error.message = error.message.replacen("#1", &format!("#{position}"), 1);
    }
    error
}

/// 1750 follows the reason.
pub(super) fn could_not_create(error: SqlError) -> SqlError {
    match error.next {
        Some(_) => error,
        None => error.followed(messages::error(1750, &[])),
    }
}

fn constraint_taken(error: SqlError, name: &str) -> SqlError {
    match error.number {
        2714 => could_not_create(messages::error_state(2714, 5, &[&name])),
        _ => error,
    }
}

fn column_in_default(expr: &Expr, error: SqlError) -> SqlError {
    match expr {
        Expr::Column(column) => messages::error(128, &[&column.name.text]),
        _ => error,
    }
}

fn fits(value: i128, data_type: DataType) -> bool {
    crate::session::integer_fits(value, data_type)
}

/// A literal with sign.
pub(super) fn signed_integer(expr: &Expr) -> Option<i128> {
    match expr {
        Expr::Literal(Literal::Integer(digits)) => digits.parse().ok(),
        Expr::Literal(Literal::Decimal(digits)) => digits.split('.').next()?.parse().ok(),
        Expr::Unary {
            op: UnaryOp::Minus,
            expr,
        } => signed_integer(expr).map(|n| -n),
        Expr::Unary {
            op: UnaryOp::Plus,
            expr,
        } => signed_integer(expr),
        _ => None,
    }
}
