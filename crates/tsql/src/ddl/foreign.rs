//! Foreign keys: what they may reference, and that cascades have one path only.

use super::names;
use super::table::{Builder, could_not_create};
use crate::error::Result;
use crate::host::{Host, Resolved, TableKind};
use crate::messages;
use daruma_catalog::{
    ColumnDef, DatabaseCatalog, ForeignKeyDef, IndexDef, ObjectId, ObjectKind, ReferentialAction,
    TableDef, TriggerDef,
};
use daruma_syntax::ast::{self, Ident, References};
use std::collections::HashSet;
use std::sync::Arc;

/// The table a foreign key references.
struct Parent {
    id: ObjectId,
    name: String,
    def: Arc<TableDef>,
}

/// Adds a foreign key; gives its position.
pub(super) fn add(
    builder: &mut Builder<'_, '_>,
    name: Option<&Ident>,
    columns: &[Ident],
    references: &References,
) -> Result<usize> {
    let id = builder.new_id()?;
    let text = match name {
        Some(name) => builder.constraint_name(&name.text)?,
        None => {
            let first = columns.first().map_or("", |c| c.text.as_str());
            names::column("FK", &builder.table_name, first, id)
        }
    };
    if builder.kind != TableKind::User {
        builder.ex.message(messages::error(1756, &[&text]));
        return Ok(0);
    }
    let key =
        make(builder, id, &text, name.is_none(), columns, references).map_err(could_not_create)?;
    builder.def.foreign_keys.push(key);
    Ok(builder.def.foreign_keys.len() - 1)
}

fn make(
    builder: &Builder<'_, '_>,
    id: i32,
    name: &str,
    system_named: bool,
    columns: &[Ident],
    references: &References,
) -> Result<ForeignKeyDef> {
    let parent = parent(builder, name, references)?;
    let own = own_columns(builder, name, columns)?;
    let referenced = referenced_columns(&parent, name, references)?;
    if own.len() != referenced.len() {
        return Err(messages::error(1774, &[&name, &parent.name]));
    }
    for (child, target) in own.iter().zip(&referenced) {
        check_types(builder, name, child, &parent, target)?;
    }
    let referenced_ids: Vec<i32> = referenced.iter().map(|c| c.id).collect();
    let index = candidate_key(&parent.def, &referenced_ids)
        .ok_or_else(|| messages::error(1776, &[&parent.name, &name]))?;
    let key = ForeignKeyDef {
        id,
        name: name.to_string(),
        is_system_named: system_named,
        columns: own.iter().map(|c| c.id).collect(),
        referenced_table: parent.id,
        referenced_columns: referenced_ids,
        referenced_index: index.id,
        on_delete: action(references.on_delete),
        on_update: action(references.on_update),
        disabled: false,
        not_trusted: false,
    };
    check_set_null(builder, &key)?;
    check_paths(builder, &key)?;
    Ok(key)
}

fn parent(builder: &Builder<'_, '_>, name: &str, references: &References) -> Result<Parent> {
    let written = references.table.dotted();
    if references.table.database.as_ref().is_some_and(|d| {
        !d.is(&builder
            .ex
            .instance()
            .database(builder.database)
            .map_or(String::new(), |e| e.name()))
    }) {
        return Err(messages::error(1763, &[&name]));
    }
    let catalog = builder.ex.catalog(builder.database)?;
    let schema = references.table.schema.as_ref();
    let own_schema = catalog
        .schema(builder.schema_id)
        .map(|s| s.name.clone())
        .unwrap_or_default();
    let is_self = daruma_catalog::names_equal(&references.table.name.text, &builder.table_name)
        && schema.map_or(builder.schema_id == daruma_catalog::SCHEMA_DBO, |s| {
            s.is(&own_schema)
        });
    if is_self {
        return Ok(Parent {
            id: builder.table_id,
            name: written,
            def: Arc::new(builder.def.clone()),
        });
    }
    match builder.ex.resolve_in(builder.database, &references.table) {
        Ok(Resolved::Table(table)) => {
            // Keys that exist can be learned by referencing them.
            if let Some(object) = catalog.object(table.object_id) {
                let named = |c: &Ident| table.def.column_named(&c.text).map(|c| c.id);
                let ids = references.columns.iter().map(named).collect();
                builder.ex.check_references(builder.database, object, ids)?;
            }
            super::lock_referenced(builder.ex, &table)?;
            Ok(Parent {
                id: table.object_id,
                name: written,
                def: table.def,
            })
        }
        Ok(_) => Err(messages::error(1768, &[&name, &written])),
        Err(error) if error.number == 208 => Err(messages::error(1767, &[&name, &written])),
        Err(error) => Err(error),
    }
}

fn own_columns(builder: &Builder<'_, '_>, name: &str, columns: &[Ident]) -> Result<Vec<ColumnDef>> {
    let find = |c: &Ident| {
        let found = builder.def.column_named(&c.text).cloned();
        found.ok_or_else(|| messages::error(1769, &[&name, &c.text, &builder.written]))
    };
    columns.iter().map(find).collect()
}

fn referenced_columns(
    parent: &Parent,
    name: &str,
    references: &References,
) -> Result<Vec<ColumnDef>> {
    if references.columns.is_empty() {
        let key = parent
            .def
            .indexes
            .iter()
            .find(|i| i.constraint.as_ref().is_some_and(|c| c.is_primary_key));
        let key = key.ok_or_else(|| messages::error(1773, &[&name, &parent.name]))?;
        return Ok(key
            .key
            .iter()
            .filter_map(|k| parent.def.column(k.column_id).cloned())
            .collect());
    }
    let find = |c: &Ident| {
        let found = parent.def.column_named(&c.text).cloned();
        found.ok_or_else(|| messages::error(1770, &[&name, &c.text, &parent.name]))
    };
    references.columns.iter().map(find).collect()
}

fn check_types(
    builder: &Builder<'_, '_>,
    name: &str,
    child: &ColumnDef,
    parent: &Parent,
    target: &ColumnDef,
) -> Result<()> {
    if std::mem::discriminant(&child.data_type) != std::mem::discriminant(&target.data_type) {
        return Err(messages::error(
            1778,
            &[
                &parent.name,
                &target.name,
                &builder.written,
                &child.name,
                &name,
            ],
        ));
    }
    if child.data_type != target.data_type {
        return Err(messages::error(
            1753,
            &[
                &parent.name,
                &target.name,
                &builder.written,
                &child.name,
                &name,
            ],
        ));
    }
    if child.data_type.is_character() && child.collation != target.collation {
        return Err(messages::error(
            1757,
            &[
                &parent.name,
                &target.name,
                &builder.written,
                &child.name,
                &name,
            ],
        ));
    }
    Ok(())
}

/// A unique index on exactly these columns, in any order; constraints first.
fn candidate_key<'d>(def: &'d TableDef, columns: &[i32]) -> Option<&'d IndexDef> {
    let wanted: HashSet<i32> = columns.iter().copied().collect();
    let fits = |index: &&IndexDef| {
        let key: HashSet<i32> = index.key.iter().map(|k| k.column_id).collect();
        index.unique
            && index.filter.is_none()
            && !index.disabled
            && key == wanted
            && index.key.len() == columns.len()
    };
    let mut found: Vec<&IndexDef> = def.indexes.iter().filter(fits).collect();
    found.sort_by_key(|i| {
        i.constraint
            .as_ref()
            .map_or(2, |c| i32::from(!c.is_primary_key))
    });
    found.first().copied()
}

fn action(written: Option<ast::ReferentialAction>) -> ReferentialAction {
    match written {
        None | Some(ast::ReferentialAction::NoAction) => ReferentialAction::NoAction,
        Some(ast::ReferentialAction::Cascade) => ReferentialAction::Cascade,
        Some(ast::ReferentialAction::SetNull) => ReferentialAction::SetNull,
        Some(ast::ReferentialAction::SetDefault) => ReferentialAction::SetDefault,
    }
}

/// SET NULL needs columns that can be NULL.
fn check_set_null(builder: &Builder<'_, '_>, key: &ForeignKeyDef) -> Result<()> {
    let sets_null =
        key.on_delete == ReferentialAction::SetNull || key.on_update == ReferentialAction::SetNull;
    let rigid = key
        .columns
        .iter()
        .any(|id| builder.def.column(*id).is_some_and(|c| !c.nullable));
    match sets_null && rigid {
        true => Err(crate::error::SqlError::new(
            1761,
            16,
            1,
            format!(
                "Cannot create the foreign key \"{}\" with the SET NULL referential action, because one or more referencing columns are not nullable.",
                key.name
            ),
        )),
        false => Ok(()),
    }
}

/// 1785: no cycles of cascades, and no table reached by two paths.
fn check_paths(builder: &Builder<'_, '_>, key: &ForeignKeyDef) -> Result<()> {
    if !cascades(key) {
        return Ok(());
    }
    let refuse = || messages::error(1785, &[&key.name, &builder.written]);
    if key.referenced_table == builder.table_id {
        return Err(refuse());
    }
    let catalog = builder.ex.catalog(builder.database)?;
    let stands_for = |t: &TriggerDef| {
        t.instead_of
            && (t.on_delete && key.on_delete != ReferentialAction::NoAction
                || t.on_update && key.on_update != ReferentialAction::NoAction)
    };
    let mut triggers = catalog.triggers_of(builder.table_id);
    if triggers.any(|o| matches!(&o.kind, ObjectKind::Trigger(t) if stands_for(t))) {
        return Err(messages::error(1787, &[&key.name, &builder.written]));
    }
    let below = reach(&catalog, builder.table_id, &children);
    if below.contains(&key.referenced_table) {
        return Err(refuse());
    }
    // No table from which cascades reach the parent may reach the child by another way already.
    let above = reach(&catalog, key.referenced_table, &parents);
    let own_parents: Vec<i32> = builder
        .def
        .foreign_keys
        .iter()
        .filter(|k| cascades(k))
        .map(|k| k.referenced_table)
        .collect();
    let other_way = own_parents.iter().any(|p| {
        let over = reach(&catalog, *p, &parents);
        over.iter().any(|id| above.contains(id))
    });
    match other_way {
        true => Err(refuse()),
        false => Ok(()),
    }
}

fn cascades(key: &ForeignKeyDef) -> bool {
    key.on_delete != ReferentialAction::NoAction || key.on_update != ReferentialAction::NoAction
}

/// A table and all that `step` leads to.
fn reach(
    catalog: &DatabaseCatalog,
    from: ObjectId,
    step: &dyn Fn(&DatabaseCatalog, ObjectId) -> Vec<ObjectId>,
) -> HashSet<ObjectId> {
    let mut seen = HashSet::from([from]);
    let mut open = vec![from];
    while let Some(id) = open.pop() {
        for next in step(catalog, id) {
            if seen.insert(next) {
                open.push(next);
            }
        }
    }
    seen
}

fn cascading_keys(catalog: &DatabaseCatalog, table: ObjectId) -> Vec<ForeignKeyDef> {
    match catalog.object(table).map(|o| &o.kind) {
        Some(ObjectKind::Table(def)) => def
            .foreign_keys
            .iter()
            .filter(|k| cascades(k))
            .cloned()
            .collect(),
        _ => Vec::new(),
    }
}

fn parents(catalog: &DatabaseCatalog, table: ObjectId) -> Vec<ObjectId> {
    cascading_keys(catalog, table)
        .iter()
        .map(|k| k.referenced_table)
        .collect()
}

fn children(catalog: &DatabaseCatalog, table: ObjectId) -> Vec<ObjectId> {
    let points_here = |id: &&ObjectId| {
        cascading_keys(catalog, **id)
            .iter()
            .any(|k| k.referenced_table == table)
    };
    catalog
        .referencing(table)
        .iter()
        .filter(points_here)
        .copied()
        .collect()
}
