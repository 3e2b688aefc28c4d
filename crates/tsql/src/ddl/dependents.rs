//! What hangs on a column and keeps it from being altered or dropped: errors 5074 and 4922.
//!
//! Theory: a column that is dropped must be named by nothing. One that is altered may keep what stays true of it: an index and a
//! check where a text only grows, a default where the type stays and only its length, precision or scale is another. Primary keys,
//! foreign keys and computed columns let nothing of its type change, as in the product.

use super::bound;
use crate::error::Result;
use crate::host::{Host, TableKind, TableRef};
use crate::session::Execution;
use daruma_catalog::{ColumnDef, IndexDef};
use daruma_value::DataType;
use std::mem::discriminant;

/// A kind of thing as 5074 calls it, and its name.
type Dependent = (&'static str, String);

/// What becomes of the column.
#[derive(Clone, Copy)]
pub(super) enum Fate<'a> {
    Dropped,
    Altered(&'a ColumnDef),
}

/// How much of its type a column keeps; each includes those before it.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Kept {
    Nothing,
    /// The type, with another length, precision or scale.
    Kind,
    /// The type and every value that it has room for.
    Values,
    All,
}

impl Fate<'_> {
    fn action(self) -> &'static str {
        match self {
            Fate::Dropped => "ALTER TABLE DROP COLUMN",
            Fate::Altered(_) => "ALTER TABLE ALTER COLUMN",
        }
    }

    fn kept(self, old: &ColumnDef) -> Kept {
        let Fate::Altered(new) = self else {
            return Kept::Nothing;
        };
        // Under another collation, keys and constraints that hold may no longer do.
        let compares_alike = new.collation == old.collation || !new.data_type.is_character();
        match discriminant(&old.data_type) == discriminant(&new.data_type) {
            false => Kept::Nothing,
            true if !compares_alike => Kept::Kind,
            true if old.data_type == new.data_type => Kept::All,
            true if is_wider(old.data_type, new.data_type) => Kept::Values,
            true => Kept::Kind,
        }
    }

    fn keeps_index(self, old: &ColumnDef, index: &IndexDef) -> bool {
        let kept = self.kept(old);
        let is_primary = index.constraint.as_ref().is_some_and(|c| c.is_primary_key);
        match self {
            Fate::Altered(new) if is_primary => kept == Kept::All && !new.nullable,
            _ => kept >= Kept::Values,
        }
    }
}

/// A text with more room. One of any length is stored in another way.
fn is_wider(old: DataType, new: DataType) -> bool {
    use DataType::*;
    match (old, new) {
        (VarChar(a), VarChar(b)) | (NVarChar(a), NVarChar(b)) | (VarBinary(a), VarBinary(b)) => {
            b >= a && !b.is_max()
        }
        _ => false,
    }
}

/// 5074 for each thing that hangs on the column, then 4922.
pub(super) fn refuse(
    ex: &Execution<'_>,
    table: &TableRef,
    column: &ColumnDef,
    fate: Fate<'_>,
) -> Result<()> {
    let mut found = of_table(table, column, fate);
    found.extend(foreign_keys(ex, table, column, fate)?);
    found.extend(statistics(ex, table, column, fate));
    if table.kind == TableKind::User {
        let place = (table.database.id(), table.object_id);
        let module = bound::reader_of(ex, place, column.id)?;
        found.extend(module.map(|name| ("object", name)));
    }
    match found.is_empty() {
        true => Ok(()),
        false => Err(bound::dependents(&found, &column.name, fate.action())),
    }
}

/// What of the table's own definition names the column.
fn of_table(table: &TableRef, column: &ColumnDef, fate: Fate<'_>) -> Vec<Dependent> {
    let def = &table.def;
    let kept = fate.kept(column);
    let names_it = |text: &str| bound::names_column(text, &column.name);
    let mut found: Vec<Dependent> = Vec::new();
    if let Some(default) = column.default.as_ref().filter(|_| kept < Kept::Kind) {
        found.push(("object", default.name.clone()));
    }
    let is_of = |index: &&IndexDef| {
        index.key.iter().any(|k| k.column_id == column.id)
            || index.included.contains(&column.id)
            || index.filter.as_deref().is_some_and(names_it)
    };
    let indexes = def.indexes.iter().filter(is_of);
    for index in indexes.filter(|i| !fate.keeps_index(column, i)) {
        let kind = match &index.constraint {
            Some(_) => "object",
            None => "index",
        };
        found.push((kind, index.name.clone().unwrap_or_default()));
    }
    let checks = def.checks.iter().filter(|c| names_it(&c.definition));
    let checks = checks.filter(|_| kept < Kept::Values);
    found.extend(checks.map(|c| ("object", c.name.clone())));
    let computed = def.columns.iter().filter(|c| {
        let definition = c.computed.as_ref().map(|d| &d.definition);
        definition.is_some_and(|d| names_it(d))
    });
    found.extend(computed.map(|c| ("column", c.name.clone())));
    found
}

/// Foreign keys of the table, and those of others that refer to the column.
fn foreign_keys(
    ex: &Execution<'_>,
    table: &TableRef,
    column: &ColumnDef,
    fate: Fate<'_>,
) -> Result<Vec<Dependent>> {
    if fate.kept(column) == Kept::All {
        return Ok(Vec::new());
    }
    let own = table.def.foreign_keys.iter();
    let own = own.filter(|k| k.columns.contains(&column.id));
    let mut found: Vec<Dependent> = own.map(|k| ("object", k.name.clone())).collect();
    for (other, at) in ex.referencing(table)? {
        let key = other.def.foreign_keys.get(at);
        let key = key.filter(|k| k.referenced_columns.contains(&column.id));
        found.extend(key.map(|k| ("object", k.name.clone())));
    }
    Ok(found)
}

/// Statistics that somebody created; those of indexes go with these.
fn statistics(
    ex: &Execution<'_>,
    table: &TableRef,
    column: &ColumnDef,
    fate: Fate<'_>,
) -> Vec<Dependent> {
    if fate.kept(column) >= Kept::Values {
        return Vec::new();
    }
    let catalog = ex.stored_catalog(table.database.id());
    let known = catalog.and_then(|c| c.statistics(table.object_id));
    let all = known.iter().flat_map(|k| &k.statistics);
    all.filter(|s| s.user_created && s.columns.contains(&column.id))
        .filter(|s| table.def.index(s.id).is_none())
        .map(|s| ("statistics", s.name.clone()))
        .collect()
}
