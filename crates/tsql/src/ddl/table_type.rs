//! Table types: the shape that CREATE TYPE .. AS TABLE defines, and tables made after it.
//!
//! Theory: a type keeps a table definition without trees. A variable or parameter of the type is a copy of it with trees
//! of its own in tempdb, as if the definition stood in DECLARE.

use super::storage_options::{Taker, check_table};
use super::table::{Builder, create_missing_trees};
use crate::error::Result;
use crate::host::{TableKind, TableRef, TypeKey};
use crate::instance::TEMPDB;
use crate::messages;
use crate::session::Execution;
use daruma_base::DatabaseId;
use daruma_catalog::{SCHEMA_DBO, TableDef, TypeDef};
use daruma_syntax::ast::{self, ColumnConstraintKind, TableConstraintKind, TableDefinition};
use daruma_syntax::takes_next_value;
use std::sync::Arc;

/// The definition of a type that is created in `database`.
pub(super) fn shape(
    ex: &Execution<'_>,
    database: DatabaseId,
    name: &str,
    definition: &TableDefinition,
    options: &[ast::OptionItem],
) -> Result<TableDef> {
    check_table(options, "CREATE TYPE")?;
    refuse_names(definition)?;
    let mut builder = Builder::new(ex, TEMPDB, SCHEMA_DBO, TableKind::Variable, name)?;
    builder.taker = Taker::CreateType;
    builder.define(definition)?;
    let mut def = builder.def;
    refuse_next_value(ex, &def)?;
    number_constraints(ex, database, &mut def)?;
    Ok(def)
}

/// 11719: whoever fills a variable of the type would have to know the sequence.
fn refuse_next_value(ex: &Execution<'_>, def: &TableDef) -> Result<()> {
    let mut defaults = def.columns.iter().filter_map(|c| c.default.as_ref());
    let takes = |text: &str| takes_next_value(&format!("SELECT {text}"), &ex.parse_options());
    match defaults.any(|d| takes(&d.definition)) {
        true => Err(messages::error(11719, &[])),
        false => Ok(()),
    }
}

/// Constraints of a type have no names of their own, and none of them is about another table: 156.
fn refuse_names(definition: &TableDefinition) -> Result<()> {
    let columns = &definition.columns;
    let at_columns = columns.iter().flat_map(|c| &c.constraints);
    let named = columns
        .iter()
        .any(|c| c.default.as_ref().is_some_and(|d| d.name.is_some()))
        || at_columns.clone().any(|c| c.name.is_some())
        || definition.constraints.iter().any(|c| c.name.is_some());
    let refers = at_columns
        .clone()
        .any(|c| matches!(c.kind, ColumnConstraintKind::References(_)));
    let foreign = definition
        .constraints
        .iter()
        .any(|c| matches!(c.kind, TableConstraintKind::ForeignKey { .. }));
    let word = match () {
        () if named => "CONSTRAINT",
        () if refers => "REFERENCES",
        () if foreign => "FOREIGN",
        () => return Ok(()),
    };
    Err(messages::error(156, &[&word]))
}

/// Constraints are objects of the type's database.
fn number_constraints(ex: &Execution<'_>, database: DatabaseId, def: &mut TableDef) -> Result<()> {
    let defaults = def.columns.iter_mut().filter_map(|c| c.default.as_mut());
    let keys = def.indexes.iter_mut().filter_map(|i| i.constraint.as_mut());
    let ids = defaults
        .map(|d| &mut d.id)
        .chain(keys.map(|k| &mut k.id))
        .chain(def.checks.iter_mut().map(|c| &mut c.id));
    for id in ids {
        *id = super::new_id(ex, database)?;
    }
    Ok(())
}

/// A new empty table of a type; whoever asks for it drops it.
pub(crate) fn table_of_type(
    ex: &Execution<'_>,
    name: &str,
    database: DatabaseId,
    def: &TypeDef,
) -> Result<TableRef> {
    let mut shape = shape_of(def)?;
    let made = |txn: &daruma_storage::Txn| create_missing_trees(&mut shape, txn);
    ex.state.autonomous(made)?;
    place(ex, name, (database, def.id), shape)
}

/// A table of a type that is only bound, and never opened: it has no trees.
pub(crate) fn bare_table_of_type(
    ex: &Execution<'_>,
    name: &str,
    database: DatabaseId,
    def: &TypeDef,
) -> Result<TableRef> {
    place(ex, name, (database, def.id), shape_of(def)?)
}

fn shape_of(def: &TypeDef) -> Result<TableDef> {
    let shape = def.table.as_deref().cloned();
    shape.ok_or_else(|| messages::error(2715, &[&1, &def.name]))
}

fn place(ex: &Execution<'_>, name: &str, of: TypeKey, def: TableDef) -> Result<TableRef> {
    Ok(TableRef {
        database: ex.instance().open_database(TEMPDB)?.storage,
        object_id: ex.instance().next_temp_object_id(),
        schema_name: "dbo".to_string(),
        name: name.to_string(),
        def: Arc::new(def),
        kind: TableKind::Variable,
        table_type: Some(of),
    })
}
