//! ALTER TABLE.
//!
//! A column is added without touching rows when it is nullable or its default is a plain constant: the definition says
//! what old rows show. Everything else moves the rows into new trees.

use super::dependents::{self, Fate};
use super::storage_options::{self, Taker};
use super::table::{Builder, could_not_create};
use super::{foreign, index, nullability, put_table};
use crate::dml;
use crate::error::{Result, SqlError};
use crate::host::{Host, TableRef};
use crate::messages;
use crate::session::Execution;
use crate::statistics;
use daruma_catalog::{ColumnDef, ComputedDef, IndexKind, TableDef, names_equal};
use daruma_storage::{Batch, LockMode, ScanSpec};
use daruma_syntax::ast::{
    self, AlterColumn, AlterColumnChange, AlterTableAction, AlterTableDrop, ColumnConstraintKind,
    Expr, Ident, Literal, TableConstraintKind, TableDefinition, UnaryOp,
};
use daruma_syntax::{ParseOptions, parse_expression};
use daruma_value::DataType;

pub(super) fn alter(ex: &Execution<'_>, statement: &ast::AlterTable) -> Result<()> {
    match super::other_database(ex, &statement.name) {
        Some(other) => ex.under_definitions(other, LockMode::Shared, || alter_named(ex, statement)),
        None => alter_named(ex, statement),
    }
}

fn alter_named(ex: &Execution<'_>, statement: &ast::AlterTable) -> Result<()> {
    let table = super::table_named(ex, &statement.name)?;
    let table = super::lock_for_change(ex, table)?;
    match &statement.action {
        AlterTableAction::Add { check, definition } => {
            add(ex, table, definition, check.unwrap_or(true))
        }
        AlterTableAction::AlterColumn(change) => alter_column(ex, &table, change),
        AlterTableAction::Drop(drops) => drop_parts(ex, table, drops),
        AlterTableAction::CheckConstraint {
            validate,
            enable,
            names,
        } => switch_constraints(ex, &table, names, *enable, *validate),
        AlterTableAction::Trigger { enable, names } => {
            super::module::switch_table_triggers(ex, &table, names, *enable)
        }
        AlterTableAction::Rebuild { options, .. } => {
            storage_options::check(options, Taker::AlterTable)?;
            index::rebuild(ex, &table, (*table.def).clone()).map(|_| ())
        }
        AlterTableAction::Set(options) => storage_options::check_table(options, "ALTER TABLE"),
        AlterTableAction::ChangeTracking { .. } => Err(messages::not_supported("CHANGE_TRACKING")),
        AlterTableAction::Switch { .. } => Err(messages::not_supported("SWITCH")),
        AlterTableAction::AlterIndex { .. } => {
            Err(messages::not_supported("ALTER INDEX in ALTER TABLE"))
        }
    }
}

fn add(
    ex: &Execution<'_>,
    table: TableRef,
    definition: &TableDefinition,
    check: bool,
) -> Result<()> {
    super::table::refuse_period(definition)?;
    let mut table = table;
    if !definition.columns.is_empty() {
        table = add_columns(ex, &table, definition)?;
    }
    for column in &definition.columns {
        for constraint in &column.constraints {
            let name = constraint.name.as_ref();
            table = match &constraint.kind {
                ColumnConstraintKind::Key(key) => {
                    add_key(ex, &table, name, key, Some(&column.name))?
                }
                ColumnConstraintKind::Check { condition, .. } => {
                    add_check(ex, &table, name, condition, Some(&column.name), check)?
                }
                ColumnConstraintKind::References(references) => add_foreign(
                    ex,
                    &table,
                    name,
                    std::slice::from_ref(&column.name),
                    references,
                    check,
                )?,
            };
        }
    }
    for constraint in &definition.constraints {
        let name = constraint.name.as_ref();
        table = match &constraint.kind {
            TableConstraintKind::Key(key) => add_key(ex, &table, name, key, None)?,
            TableConstraintKind::Check { condition, .. } => {
                add_check(ex, &table, name, condition, None, check)?
            }
            TableConstraintKind::ForeignKey {
                columns,
                references,
            } => add_foreign(ex, &table, name, columns, references, check)?,
            TableConstraintKind::Default { expr, column, .. } => {
                add_default(ex, &table, name, expr, column)?
            }
            TableConstraintKind::Connection(_) => {
                return Err(messages::not_supported("CONNECTION"));
            }
        };
    }
    let inline = definition.indexes.iter().map(|i| (i, None));
    let at_columns = definition
        .columns
        .iter()
        .filter_map(|c| c.index.as_ref().map(|i| (i, Some(&c.name))));
    for (inline_index, column) in inline.chain(at_columns) {
        let mut builder = Builder::of_table(ex, &table)?;
        let id = builder.add_inline_index(inline_index, column)?;
        table = index::install(ex, &table, builder.def, id)?;
    }
    Ok(())
}

fn add_columns(
    ex: &Execution<'_>,
    table: &TableRef,
    definition: &TableDefinition,
) -> Result<TableRef> {
    let mut builder = Builder::of_table(ex, table)?;
    let first = builder.def.columns.len();
    builder.add_columns(&definition.columns)?;
    let empty = is_empty(ex, table)?;
    let mut moves_rows = false;
    for at in first..builder.def.columns.len() {
        let written = definition.columns.get(at - first);
        let with_values = written
            .and_then(|c| c.default.as_ref())
            .is_some_and(|d| d.with_values);
        let default_literal = written
            .and_then(|c| c.default.as_ref())
            .and_then(|d| literal_text(&d.expr));
        let Some(column) = builder.def.columns.get_mut(at) else {
            continue;
        };
        let needs_value = !column.nullable || with_values;
        match (&column.computed, needs_value, column.default.is_some()) {
            (Some(computed), ..) => moves_rows |= computed.persisted,
            (None, false, _) => {}
            // Kept for an empty table as well: older snapshots may still see rows.
            (None, true, true) => match default_literal {
                Some(text) if can_be_stored(column, &text) => column.missing_value = Some(text),
                _ => moves_rows = true,
            },
            _ if empty => {}
            (None, true, false)
                if column.is_identity || column.data_type == DataType::RowVersion =>
            {
                moves_rows = true
            }
            (None, true, false) => {
                let name = column.name.clone();
                return Err(messages::error(4901, &[&name, &table.name]));
            }
        }
    }
    match moves_rows && !empty {
        true => index::rebuild(ex, table, builder.def),
        false => put_table(ex, table, builder.def),
    }
}

/// Only values that need no conversion beyond reading the literal are left to the definition.
fn can_be_stored(column: &ColumnDef, text: &str) -> bool {
    let quoted = text.ends_with('\'');
    match column.data_type {
        DataType::Bit
        | DataType::TinyInt
        | DataType::SmallInt
        | DataType::Int
        | DataType::BigInt => !quoted && !text.contains('.'),
        DataType::VarChar(len) | DataType::NVarChar(len) => {
            quoted && (len.is_max() || text.chars().count() <= usize::from(len.0) + 2)
        }
        _ => false,
    }
}

fn literal_text(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Literal(Literal::Integer(digits)) => Some(digits.clone()),
        Expr::Literal(Literal::String { text, national }) => {
            let prefix = if *national { "N" } else { "" };
            Some(format!("{prefix}'{}'", text.replace('\'', "''")))
        }
        Expr::Unary {
            op: UnaryOp::Minus,
            expr,
        } => match &**expr {
            Expr::Literal(Literal::Integer(digits)) => Some(format!("-{digits}")),
            _ => None,
        },
        _ => None,
    }
}

/// Has the table no rows now, whatever this transaction's snapshot shows?
fn is_empty(ex: &Execution<'_>, table: &TableRef) -> Result<bool> {
    let Some(primary) = table.def.primary() else {
        return Ok(true);
    };
    let view = dml::build::newest(ex, table)?;
    let tree = table.database.tree(primary.tree)?;
    let mut scan = tree.scan(&view, ScanSpec::all());
    let mut batch = Batch::new();
    Ok(!scan.next(&mut batch)?)
}

fn add_key(
    ex: &Execution<'_>,
    table: &TableRef,
    name: Option<&Ident>,
    key: &ast::KeyConstraint,
    column: Option<&Ident>,
) -> Result<TableRef> {
    let mut builder = Builder::of_table(ex, table)?;
    let has_clustered = table
        .def
        .indexes
        .first()
        .is_some_and(|i| i.kind == IndexKind::Clustered);
    let clustered = key.clustered.unwrap_or(key.primary && !has_clustered);
    let id = builder.add_key(name, key, column, clustered)?;
    index::install(ex, table, builder.def, id).map_err(|e| {
        if e.number == 1505 {
            could_not_create(e)
        } else {
            e
        }
    })
}

fn add_check(
    ex: &Execution<'_>,
    table: &TableRef,
    name: Option<&Ident>,
    condition: &ast::Condition,
    column: Option<&Ident>,
    validate: bool,
) -> Result<TableRef> {
    let mut builder = Builder::of_table(ex, table)?;
    let at = builder.add_check(name, condition, column)?;
    if let Some(check) = builder.def.checks.get_mut(at) {
        check.not_trusted = !validate;
    }
    let changed = put_table(ex, table, builder.def)?;
    if validate {
        dml::build::validate_check(ex, &changed, at)?;
    }
    Ok(changed)
}

fn add_foreign(
    ex: &Execution<'_>,
    table: &TableRef,
    name: Option<&Ident>,
    columns: &[Ident],
    references: &ast::References,
    validate: bool,
) -> Result<TableRef> {
    let mut builder = Builder::of_table(ex, table)?;
    let at = foreign::add(&mut builder, name, columns, references)?;
    let Some(key) = builder.def.foreign_keys.get_mut(at) else {
        return Ok(table.clone());
    };
    key.not_trusted = !validate;
    let changed = put_table(ex, table, builder.def)?;
    if validate {
        dml::build::validate_foreign_key(ex, &changed, at)?;
    }
    Ok(changed)
}

fn add_default(
    ex: &Execution<'_>,
    table: &TableRef,
    name: Option<&Ident>,
    expr: &Expr,
    column: &Ident,
) -> Result<TableRef> {
    let mut builder = Builder::of_table(ex, table)?;
    let found = builder.def.column_named(&column.text).cloned();
    let found = found
        .ok_or_else(|| could_not_create(messages::error(1752, &[&column.text, &table.name])))?;
    if found.default.is_some() {
        return Err(could_not_create(messages::error(1781, &[])));
    }
    if found.is_identity {
        return Err(could_not_create(messages::error(
            1754,
            &[&table.name, &column.text],
        )));
    }
    let default = builder.default_constraint(&found, name, expr)?;
    if let Some(target) = builder.def.columns.iter_mut().find(|c| c.id == found.id) {
        target.default = Some(default);
    }
    put_table(ex, table, builder.def)
}

fn alter_column(ex: &Execution<'_>, table: &TableRef, change: &AlterColumn) -> Result<()> {
    let name = &change.name.text;
    storage_options::check(&change.options, Taker::AlterTable)?;
    let mut builder = Builder::of_table(ex, table)?;
    let old = builder.def.column_named(name).cloned();
    let old = old
        .ok_or_else(|| messages::error(4924, &[&"ALTER TABLE ALTER COLUMN", name, &table.name]))?;
    let AlterColumnChange::Type {
        data_type,
        collation,
        nullable,
        ..
    } = &change.change
    else {
        return alter_property(ex, table, builder.def, &old, &change.change);
    };
    if old.computed.is_some() {
        return Err(messages::error(4928, &[name, &"COMPUTED"]));
    }
    let (new_type, alias_nullable, user_type_id) = ex.type_of(data_type)?;
    if matches!(new_type, DataType::RowVersion) || matches!(old.data_type, DataType::RowVersion) {
        return Err(messages::error(4927, &[name, &new_type.name()]));
    }
    daruma_value::types::check_implicit(old.data_type, new_type)?;
    let nullable = nullable.or(alias_nullable).unwrap_or(true);
    let mut made = old.clone();
    made.data_type = new_type;
    made.user_type_id = user_type_id;
    made.nullable = nullable && !old.is_identity;
    made.collation = match collation {
        Some(_) => builder.collation(collation.as_ref(), new_type)?,
        None if old.data_type.is_character() => old.collation,
        None => builder.collation(None, new_type)?,
    };
    if made.data_type != old.data_type {
        builder.check_padding(&made)?;
    }
    dependents::refuse(ex, table, &old, Fate::Altered(&made))?;
    let ordinal = builder.def.ordinal(old.id).unwrap_or(0);
    if !made.nullable && old.nullable {
        ex.note_planned();
        dml::build::validate_not_null(ex, table, ordinal)?;
    }
    let moves = made.data_type != old.data_type || made.collation != old.collation;
    if let Some(column) = builder.def.columns.get_mut(ordinal) {
        *column = made;
    }
    match moves {
        true => {
            statistics::define::forget_column(ex, table, old.id)?;
            index::rebuild(ex, table, builder.def).map(|_| ())
        }
        false => put_table(ex, table, builder.def).map(|_| ()),
    }
}

fn alter_property(
    ex: &Execution<'_>,
    table: &TableRef,
    mut def: TableDef,
    old: &ColumnDef,
    change: &AlterColumnChange,
) -> Result<()> {
    let AlterColumnChange::Property { add, property, .. } = change else {
        return Ok(());
    };
    let Some(column) = def.columns.iter_mut().find(|c| c.id == old.id) else {
        return Ok(());
    };
    match property.as_str() {
        "ROWGUIDCOL" => column.is_rowguid = *add,
        "SPARSE" => column.is_sparse = *add,
        "PERSISTED" => {
            let computed = old.computed.as_ref().ok_or_else(not_computed)?;
            let def = match add {
                true => persisted(ex, table, def, (old, computed))?,
                false => not_persisted(ex, table, def, (old, computed))?,
            };
            return index::rebuild(ex, table, def).map(|_| ());
        }
        "NOT FOR REPLICATION" => {}
        other => return Err(messages::not_supported(other)),
    }
    put_table(ex, table, def).map(|_| ())
}

fn persisted(
    ex: &Execution<'_>,
    table: &TableRef,
    mut def: TableDef,
    (old, computed): (&ColumnDef, &ComputedDef),
) -> Result<TableDef> {
    if !Builder::of_table(ex, table)?.is_deterministic(computed)? {
        return Err(messages::error(4936, &[&old.name, &table.name]));
    }
    set_computed(&mut def, old, true, old.nullable);
    Ok(def)
}

/// Nobody holds a column that is not stored to NOT NULL; its expression decides from now on. What needs the promise keeps it.
fn not_persisted(
    ex: &Execution<'_>,
    table: &TableRef,
    mut def: TableDef,
    (old, computed): (&ColumnDef, &ComputedDef),
) -> Result<TableDef> {
    let expr = parse_expression(&computed.definition, &ParseOptions::default());
    let mut made = old.clone();
    made.nullable = nullability::may_be_null(&crate::instance::parsed(expr)?, &def);
    dependents::refuse(ex, table, old, Fate::Altered(&made))?;
    set_computed(&mut def, old, false, made.nullable);
    Ok(def)
}

fn set_computed(def: &mut TableDef, column: &ColumnDef, persisted: bool, nullable: bool) {
    let mut columns = def.columns.iter_mut();
    if let Some(column) = columns.find(|c| c.id == column.id) {
        column.nullable = nullable;
        if let Some(computed) = &mut column.computed {
            computed.persisted = persisted;
        }
    }
}

fn not_computed() -> SqlError {
    messages::not_supported("PERSISTED of a column that is not computed")
}

fn drop_parts(ex: &Execution<'_>, table: TableRef, drops: &[AlterTableDrop]) -> Result<()> {
    let mut table = table;
    for part in drops {
        table = match part {
            AlterTableDrop::Column { name, if_exists } => {
                drop_column(ex, &table, name, *if_exists)?
            }
            AlterTableDrop::Constraint {
                name,
                if_exists,
                options,
            } => {
                storage_options::check(options, Taker::DropIndex)?;
                drop_constraint(ex, &table, name, *if_exists)?
            }
            AlterTableDrop::Period => return Err(messages::not_supported("PERIOD")),
        };
    }
    Ok(())
}

/// The column leaves the definition; its bytes stay in old rows until they are rewritten, so the rows move.
fn drop_column(
    ex: &Execution<'_>,
    table: &TableRef,
    name: &Ident,
    if_exists: bool,
) -> Result<TableRef> {
    let Some(column) = table.def.column_named(&name.text) else {
        return match if_exists {
            true => Ok(table.clone()),
            false => Err(messages::error(
                4924,
                &[&"ALTER TABLE DROP COLUMN", &name.text, &table.name],
            )),
        };
    };
    dependents::refuse(ex, table, column, Fate::Dropped)?;
    let data_columns = table
        .def
        .columns
        .iter()
        .filter(|c| c.computed.is_none())
        .count();
    if data_columns == 1 && column.computed.is_none() {
        return Err(messages::error(4923, &[&name.text, &table.name]));
    }
    let mut def = (*table.def).clone();
    if def.identity.is_some_and(|i| i.column_id == column.id) {
        def.identity = None;
    }
    def.columns.retain(|c| c.id != column.id);
    statistics::define::forget_column(ex, table, column.id)?;
    match column.computed.as_ref().is_some_and(|c| !c.persisted) {
        true => put_table(ex, table, def),
        false => index::rebuild(ex, table, def),
    }
}

fn drop_constraint(
    ex: &Execution<'_>,
    table: &TableRef,
    name: &Ident,
    if_exists: bool,
) -> Result<TableRef> {
    let mut def = (*table.def).clone();
    let same = |n: &str| names_equal(n, &name.text);
    if let Some(at) = def.checks.iter().position(|c| same(&c.name)) {
        def.checks.remove(at);
        return put_table(ex, table, def);
    }
    if let Some(at) = def.foreign_keys.iter().position(|k| same(&k.name)) {
        def.foreign_keys.remove(at);
        return put_table(ex, table, def);
    }
    if let Some(column) = def
        .columns
        .iter_mut()
        .find(|c| c.default.as_ref().is_some_and(|d| same(&d.name)))
    {
        column.default = None;
        return put_table(ex, table, def);
    }
    let key = def
        .indexes
        .iter()
        .find(|i| i.constraint.is_some() && i.name.as_deref().is_some_and(same));
    match key {
        Some(index) => {
            refuse_referenced(ex, table, index.id, &name.text)?;
            index::remove(ex, table, index.id)
        }
        None if if_exists => Ok(table.clone()),
        None => Err(unknown_constraint(ex, table, &name.text)),
    }
}

/// There is no such constraint, or it is another table's.
fn unknown_constraint(ex: &Execution<'_>, table: &TableRef, name: &str) -> SqlError {
    let of_another = ex.catalog(table.database.id()).is_ok_and(|catalog| {
        let schema = catalog.object(table.object_id).map(|o| o.schema_id);
        schema.is_some_and(|schema| {
            catalog.name_in_use(schema, name) && catalog.object_named(schema, name).is_none()
        })
    });
    let first = match of_another {
        true => messages::error(3733, &[&name, &table.name]),
        false => messages::error(3728, &[&name]),
    };
    first.followed(messages::error(3727, &[]))
}

fn refuse_referenced(ex: &Execution<'_>, table: &TableRef, index: i32, name: &str) -> Result<()> {
    for (other, at) in ex.referencing(table)? {
        if let Some(key) = other
            .def
            .foreign_keys
            .get(at)
            .filter(|k| k.referenced_index == index)
        {
            let first = messages::error(3725, &[&name, &other.name, &key.name]);
            return Err(first.followed(messages::error(3727, &[])));
        }
    }
    Ok(())
}

fn switch_constraints(
    ex: &Execution<'_>,
    table: &TableRef,
    names: &[Ident],
    enable: bool,
    validate: Option<bool>,
) -> Result<()> {
    let mut def = (*table.def).clone();
    let chosen = |name: &str| names.is_empty() || names.iter().any(|n| names_equal(&n.text, name));
    for name in names {
        let known = def.checks.iter().any(|c| names_equal(&c.name, &name.text))
            || def
                .foreign_keys
                .iter()
                .any(|k| names_equal(&k.name, &name.text));
        if !known {
            return Err(messages::error(4917, &[&name.text]));
        }
    }
    let validate = enable && validate == Some(true);
    for check in def.checks.iter_mut().filter(|c| chosen(&c.name)) {
        check.disabled = !enable;
        check.not_trusted = !validate;
    }
    for key in def.foreign_keys.iter_mut().filter(|k| chosen(&k.name)) {
        key.disabled = !enable;
        key.not_trusted = !validate;
    }
    let changed = put_table(ex, table, def)?;
    if validate {
        for (at, _) in changed
            .def
            .checks
            .iter()
            .enumerate()
            .filter(|(_, c)| chosen(&c.name))
        {
            dml::build::validate_check(ex, &changed, at)?;
        }
        for (at, _) in changed
            .def
            .foreign_keys
            .iter()
            .enumerate()
            .filter(|(_, k)| chosen(&k.name))
        {
            dml::build::validate_foreign_key(ex, &changed, at)?;
        }
    }
    Ok(())
}
