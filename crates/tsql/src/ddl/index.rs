//! CREATE, ALTER and DROP INDEX.

use super::storage_options::{self, Taker, is_on};
use super::table::{Builder, create_missing_trees, filegroup};
use crate::dml;
use crate::error::Result;
use crate::host::{Host, TableRef};
use crate::messages;
use crate::session::Execution;
use daruma_base::PageId;
use daruma_catalog::{IndexDef, IndexKind, TableDef, names_equal};
use daruma_storage::TreeId;
use daruma_syntax::ast::{self, AlterIndexAction, Ident, OptionItem};

pub(super) fn create(ex: &Execution<'_>, statement: &ast::CreateIndex) -> Result<()> {
    if statement.kind != ast::IndexKind::Rowstore {
        return Err(messages::not_supported(
            "columnstore, XML, spatial and full-text indexes",
        ));
    }
    let table = super::table_named(ex, &statement.table).map_err(|e| match e.number {
        4902 => messages::error_state(1088, 12, &[&statement.table.dotted()]),
        4909 => messages::error(1914, &[&statement.table.dotted()]),
        _ => e,
    })?;
    let table = super::lock_for_change(ex, table)?;
    let mut builder = Builder::of_table(ex, &table)?;
    builder.written = statement.table.dotted();
    // Only constraints add that they could not be made.
    let key = builder
        .key_columns(&statement.columns, "index", &statement.name.text)
        .map_err(|e| crate::error::SqlError { next: None, ..e })?;
    let clustered = statement.clustered == Some(true);
    let mut made = builder.index(Some(statement.name.text.clone()), clustered, key);
    made.unique = statement.unique;
    made.included = builder.included(&statement.include, &made)?;
    storage_options::apply(&mut made, &statement.options, Taker::CreateIndex)?;
    builder.set_filter(&mut made, statement.filter.as_ref())?;
    made.filegroup = match &statement.storage {
        Some(space) => filegroup(ex, table.database.id(), Some(space))?,
        None => table.def.filegroup,
    };
    if is_on(&statement.options, "DROP_EXISTING") {
        let old = remove_existing(ex, &mut builder, &statement.name)?;
        keep_enforcing(ex, &table, &old, &mut made)?;
    }
    dml::options::check_index(ex, &builder.def, &made, "CREATE INDEX")?;
    warn_of_long_key(ex, &builder.def, &made);
    let id = builder.push_index(made)?;
    install(ex, &table, builder.def, id).map(|_| ())
}

/// Puts a definition with a new index in place and fills the index. A new clustered index takes over the table.
pub(super) fn install(
    ex: &Execution<'_>,
    table: &TableRef,
    mut def: TableDef,
    index: i32,
) -> Result<TableRef> {
    let txn = ex.state.txn_in(table.database.id())?;
    if index <= 1 {
        return rebuild(ex, table, def);
    }
    create_missing_trees(&mut def, &txn)?;
    let changed = super::put_table(ex, table, def)?;
    dml::build::build_index(ex, &changed, index)?;
    Ok(changed)
}

/// The new trees of a table count their uses on where the old ones stop.
fn keep_uses(table: &TableRef, def: &TableDef) -> Result<()> {
    let database = &table.database;
    for new in &def.indexes {
        let old = table.def.indexes.iter().find(|i| i.id == new.id);
        if let Some(old) = old.filter(|old| old.tree != new.tree) {
            let old = database.tree(old.tree)?;
            database.tree(new.tree)?.take_over_uses(&old);
        }
    }
    Ok(())
}

/// Moves all rows into new trees: another clustered index, other column types.
pub(super) fn rebuild(ex: &Execution<'_>, table: &TableRef, mut def: TableDef) -> Result<TableRef> {
    let txn = ex.state.txn_in(table.database.id())?;
    for index in &mut def.indexes {
        index.tree = TreeId(PageId::NONE);
    }
    create_missing_trees(&mut def, &txn)?;
    keep_uses(table, &def)?;
    let secondary: Vec<i32> = def
        .indexes
        .iter()
        .skip(1)
        .filter(|i| !i.disabled)
        .map(|i| i.id)
        .collect();
    let changed = super::put_table(ex, table, def)?;
    dml::build::rebuild_rows(ex, table, &changed)?;
    for id in secondary {
        dml::build::build_index(ex, &changed, id)?;
    }
    crate::session::drop_trees(&txn, &table.def)?;
    Ok(changed)
}

/// A new index in the place of `old`, with its number, enforces what that did: foreign keys know it by the number.
fn keep_enforcing(
    ex: &Execution<'_>,
    table: &TableRef,
    old: &IndexDef,
    made: &mut IndexDef,
) -> Result<()> {
    let is_referenced = is_referenced(ex, table, &[old.id])?;
    let is_same_kind = old.kind == made.kind;
    if is_same_kind {
        made.id = old.id;
    }
    if old.constraint.is_none() && !is_referenced {
        return Ok(());
    }
    let columns =
        |index: &IndexDef| -> Vec<i32> { index.key.iter().map(|k| k.column_id).collect() };
    let is_key_kept = columns(old) == columns(made) && made.unique && made.filter.is_none();
    let is_constraint_kept = old.constraint.is_none() || made.included.is_empty();
    if !is_key_kept || !is_constraint_kept || !is_same_kind {
        let name = old.name.clone().unwrap_or_default();
        return Err(messages::error(1907, &[&name]));
    }
    made.constraint.clone_from(&old.constraint);
    Ok(())
}

/// Does a foreign key refer to one of these indexes?
fn is_referenced(ex: &Execution<'_>, table: &TableRef, ids: &[i32]) -> Result<bool> {
    let refers = |(other, at): &(TableRef, usize)| {
        let key = other.def.foreign_keys.get(*at);
        key.is_some_and(|k| ids.contains(&k.referenced_index))
    };
    Ok(ex.referencing(table)?.iter().any(refers))
}

fn remove_existing(
    ex: &Execution<'_>,
    builder: &mut Builder<'_, '_>,
    name: &Ident,
) -> Result<IndexDef> {
    let at = builder.def.indexes.iter().position(|i| {
        i.name
            .as_deref()
            .is_some_and(|n| names_equal(n, &name.text))
    });
    let Some(at) = at else {
        return Err(messages::error_state(
            7999,
            9,
            &[&name.text, &builder.written],
        ));
    };
    let old = builder.def.indexes.remove(at);
    if old.kind == IndexKind::Clustered {
        let heap = builder.heap();
        builder.def.indexes.insert(0, heap);
    } else {
        let txn = ex.state.txn_in(builder.database)?;
        crate::access::drop_tree(&txn, &builder.def, &old)?;
    }
    Ok(old)
}

pub(super) fn alter(ex: &Execution<'_>, statement: &ast::AlterIndex) -> Result<()> {
    let table = super::table_named(ex, &statement.table).map_err(|e| match e.number {
        4902 => messages::error_state(1088, 9, &[&statement.table.dotted()]),
        _ => e,
    })?;
    let table = super::lock_for_change(ex, table)?;
    let ids = chosen(&table, statement)?;
    match &statement.action {
        AlterIndexAction::Rebuild { options, .. } => {
            storage_options::check(options, Taker::Rebuild)?;
            rebuild_chosen(ex, &table, &ids, statement.name.is_none(), options)
        }
        AlterIndexAction::Reorganize { options, .. } => {
            storage_options::check(options, Taker::Reorganize)
        }
        AlterIndexAction::Disable => disable(ex, &table, &ids),
        AlterIndexAction::Set(options) => {
            storage_options::check(options, Taker::Set)?;
            let mut def = (*table.def).clone();
            for index in def.indexes.iter_mut().filter(|i| ids.contains(&i.id)) {
                storage_options::apply(index, options, Taker::Set)?;
            }
            super::put_table(ex, &table, def).map(|_| ())
        }
        AlterIndexAction::Resume(_) | AlterIndexAction::Pause | AlterIndexAction::Abort => {
            Err(messages::not_supported("resumable index operations"))
        }
    }
}

fn chosen(table: &TableRef, statement: &ast::AlterIndex) -> Result<Vec<i32>> {
    match &statement.name {
        None => Ok(table.def.indexes.iter().map(|i| i.id).collect()),
        Some(name) => match named(&table.def, &name.text) {
            Some(index) => Ok(vec![index.id]),
            None => Err(missing(&statement.table.dotted(), &name.text)),
        },
    }
}

fn missing(table: &str, name: &str) -> crate::error::SqlError {
    messages::error_state(2727, 11, &[&format!("{table}.{name}")])
}

fn named<'d>(def: &'d TableDef, name: &str) -> Option<&'d IndexDef> {
    def.indexes
        .iter()
        .find(|i| i.name.as_deref().is_some_and(|n| names_equal(n, name)))
}

fn rebuild_chosen(
    ex: &Execution<'_>,
    table: &TableRef,
    ids: &[i32],
    all: bool,
    options: &[OptionItem],
) -> Result<()> {
    let mut def = (*table.def).clone();
    for index in def.indexes.iter_mut().filter(|i| ids.contains(&i.id)) {
        storage_options::apply(index, options, Taker::Rebuild)?;
        index.disabled = false;
    }
    if all || ids.iter().any(|id| *id <= 1) {
        return rebuild(ex, table, def).map(|_| ());
    }
    let txn = ex.state.txn_in(table.database.id())?;
    for index in def.indexes.iter_mut().filter(|i| ids.contains(&i.id)) {
        crate::access::drop_tree(&txn, &table.def, index)?;
        index.tree = TreeId(PageId::NONE);
    }
    create_missing_trees(&mut def, &txn)?;
    keep_uses(table, &def)?;
    let changed = super::put_table(ex, table, def)?;
    ids.iter()
        .try_for_each(|id| dml::build::build_index(ex, &changed, *id))
}

fn disable(ex: &Execution<'_>, table: &TableRef, ids: &[i32]) -> Result<()> {
    if is_referenced(ex, table, ids)? {
        return Err(messages::not_supported(
            "disabling an index that a foreign key refers to",
        ));
    }
    let mut def = (*table.def).clone();
    for index in def.indexes.iter_mut().filter(|i| ids.contains(&i.id)) {
        if index.id <= 1 {
            return Err(messages::not_supported("disabling a clustered index"));
        }
        index.disabled = true;
    }
    super::put_table(ex, table, def).map(|_| ())
}

pub(super) fn drop(ex: &Execution<'_>, statement: &ast::DropIndex) -> Result<()> {
    for item in &statement.indexes {
        let written = format!("{}.{}", item.table.dotted(), item.name.text);
        match drop_one(ex, item, &written) {
            Err(error) if statement.if_exists && error.number == 3701 => {}
            other => other?,
        }
    }
    Ok(())
}

fn drop_one(ex: &Execution<'_>, item: &ast::DropIndexItem, written: &str) -> Result<()> {
    let absent = || messages::error_state(3701, 7, &[&"drop", &"index", &written]);
    storage_options::check(&item.options, Taker::DropIndex)?;
    let table = super::table_named(ex, &item.table)
        .map_err(|e| if e.number == 4902 { absent() } else { e })?;
    let table = super::lock_for_change(ex, table)?;
    let index = named(&table.def, &item.name.text).ok_or_else(absent)?;
    if let Some(constraint) = &index.constraint {
        let what = if constraint.is_primary_key {
            "PRIMARY KEY"
        } else {
            "UNIQUE KEY"
        };
        return Err(messages::error_state(3723, 4, &[&written, &what]));
    }
    if is_referenced(ex, &table, &[index.id])? {
        return Err(messages::error_state(3723, 6, &[&written, &"FOREIGN KEY"]));
    }
    remove(ex, &table, index.id).map(|_| ())
}

/// Takes an index away; without its clustered index a table becomes a heap.
pub(super) fn remove(ex: &Execution<'_>, table: &TableRef, id: i32) -> Result<TableRef> {
    let mut builder = Builder::of_table(ex, table)?;
    let txn = ex.state.txn_in(table.database.id())?;
    let Some(at) = builder.def.indexes.iter().position(|i| i.id == id) else {
        return Ok(table.clone());
    };
    let old = builder.def.indexes.remove(at);
    if old.kind == IndexKind::Clustered {
        let heap = builder.heap();
        builder.def.indexes.insert(0, heap);
        return rebuild(ex, table, builder.def);
    }
    crate::access::drop_tree(&txn, &table.def, &old)?;
    super::put_table(ex, table, builder.def)
}

/// 1945: keys that may be too long for an entry.
fn warn_of_long_key(ex: &Execution<'_>, def: &TableDef, index: &IndexDef) {
    let bytes: i32 = index
        .key
        .iter()
        .filter_map(|k| def.column(k.column_id))
        .map(|c| i32::from(c.data_type.max_length()).max(0))
        .sum();
    let (limit, kind) = match index.kind {
        IndexKind::Clustered => (900, "clustered"),
        _ => (1_700, "nonclustered"),
    };
    if bytes > limit {
        let name = index.name.clone().unwrap_or_default();
        ex.message(messages::error(1945, &[&kind, &limit, &name, &bytes]));
    }
}
