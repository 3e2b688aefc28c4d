//! Extended properties go with what they describe: columns, indexes and constraints that a table loses.

use crate::error::Result;
use crate::host::Host;
use crate::session::Execution;
use daruma_base::DatabaseId;
use daruma_catalog::{Change, PropertyClass, PropertySet, Put, TableDef, constraints_of};
use std::collections::BTreeSet;

/// Forgets the properties of the parts that `new` no longer has. A dropped table has none of them.
pub(super) fn forget_removed(
    ex: &Execution<'_>,
    database: DatabaseId,
    table: i32,
    old: &TableDef,
    new: &TableDef,
) -> Result<()> {
    let columns = |def: &TableDef| ids(def.columns.iter().map(|c| c.id));
    let indexes = |def: &TableDef| ids(def.indexes.iter().map(|i| i.id));
    let constraints = |def: &TableDef| ids(constraints_of(table, def).iter().map(|(c, _)| c.id));
    forget(
        ex,
        database,
        PropertyClass::Object,
        table,
        &(&columns(old) - &columns(new)),
    )?;
    forget(
        ex,
        database,
        PropertyClass::Index,
        table,
        &(&indexes(old) - &indexes(new)),
    )?;
    let gone = &constraints(old) - &constraints(new);
    gone.into_iter().try_for_each(|id| {
        forget(
            ex,
            database,
            PropertyClass::Object,
            id,
            &BTreeSet::from([0]),
        )
    })
}

fn ids(list: impl Iterator<Item = i32>) -> BTreeSet<i32> {
    list.collect()
}

fn forget(
    ex: &Execution<'_>,
    database: DatabaseId,
    class: PropertyClass,
    major: i32,
    minors: &BTreeSet<i32>,
) -> Result<()> {
    if minors.is_empty() {
        return Ok(());
    }
    // Also where there are none yet: somebody may be about to add one.
    ex.lock_properties(database, class, major)?;
    let catalog = ex.catalog(database)?;
    let Some(known) = catalog.properties_of(class, major) else {
        return Ok(());
    };
    let mut left = known.list.clone();
    left.retain(|p| !minors.contains(&p.minor));
    if left.len() == known.list.len() {
        return Ok(());
    }
    let set = PropertySet {
        class,
        major,
        list: left,
    };
    ex.state
        .change(database, Change::PutProperties(Put::over(known, set)))
}
