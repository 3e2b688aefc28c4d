//! CREATE, UPDATE and DROP STATISTICS.

use super::options::{self, Wanted};
use super::{change, empty, keep, next_id, put, refresh, replace};
use crate::access::TableAccess;
use crate::error::Result;
use crate::host::{Host, TableRef};
use crate::messages;
use daruma_catalog::{ColumnId, StatisticsDef, TableStatistics, names_equal};
use daruma_syntax::ast::{CreateStatistics, UpdateStatistics};

fn known(host: &dyn Host, table: &TableRef) -> Option<std::sync::Arc<TableStatistics>> {
    host.stored_catalog(table.database.id())?
        .statistics(table.object_id)
}

fn ordinals(access: &TableAccess, columns: &[ColumnId]) -> Option<Vec<usize>> {
    let ordinal = |id: &ColumnId| access.def().ordinal(*id);
    columns.iter().map(ordinal).collect()
}

pub(crate) fn create(host: &dyn Host, table: &TableRef, s: &CreateStatistics) -> Result<()> {
    if s.filter.is_some() {
        return Err(messages::not_supported("Filtered statistics"));
    }
    let options = options::read(&s.options, "CREATE STATISTICS")?;
    let name = &s.name.text;
    let known = known(host, table);
    known.iter().try_for_each(|k| check_free(k, table, name))?;
    let mut columns = Vec::with_capacity(s.columns.len());
    for column in &s.columns {
        let found = table.def.column_named(&column.text);
        let found = found.ok_or_else(|| messages::error(1911, &[&column.text]))?;
        columns.push(found.id);
    }
    let access = TableAccess::new(table)?;
    let mut made = StatisticsDef {
        user_created: true,
        no_recompute: options.no_recompute,
        ..empty(next_id(known.as_deref()), name.to_string(), columns)
    };
    let ordinals = ordinals(&access, &made.columns).unwrap_or_default();
    refresh(host, &access, &ordinals, options.share, &mut made)?;
    change(host, table, |known| {
        // Another may have made some meanwhile.
        check_free(known, table, name)?;
        put(known, table, made);
        Ok(())
    })
}

/// Error 1927 for a name that statistics or an index of the table have.
fn check_free(known: &TableStatistics, table: &TableRef, name: &str) -> Result<()> {
    let of_indexes = table.def.indexes.iter().filter_map(|i| i.name.as_ref());
    let mut taken = known.statistics.iter().map(|s| &s.name).chain(of_indexes);
    match taken.any(|n| names_equal(n, name)) {
        true => Err(messages::error(1927, &[&table.name, &name])),
        false => Ok(()),
    }
}

/// Makes the named statistics anew, or all of the table: those of its indexes too.
pub(crate) fn update(host: &dyn Host, table: &TableRef, s: &UpdateStatistics) -> Result<()> {
    let options = options::read(&s.options, "UPDATE STATISTICS")?;
    let access = TableAccess::new(table)?;
    let mut all: Vec<StatisticsDef> = table.def.indexes.iter().filter_map(of_index).collect();
    if let Some(known) = known(host, table) {
        let own = known
            .statistics
            .iter()
            .filter(|k| table.def.index(k.id).is_none());
        all.extend(own.cloned());
    }
    for name in &s.names {
        if !all.iter().any(|k| names_equal(&k.name, &name.text)) {
            return Err(messages::error(2767, &[&name.text]));
        }
    }
    for mut statistics in all {
        let wanted = |n: &daruma_syntax::ast::Ident| names_equal(&n.text, &statistics.name);
        if !s.names.is_empty() && !s.names.iter().any(wanted) {
            continue;
        }
        let is_of_index = table.def.index(statistics.id).is_some();
        match options.wanted {
            Wanted::Columns if is_of_index => continue,
            Wanted::Index if !is_of_index => continue,
            _ => {}
        }
        statistics.no_recompute = options.no_recompute;
        if let Some(ordinals) = ordinals(&access, &statistics.columns) {
            refresh(host, &access, &ordinals, options.share, &mut statistics)?;
            match is_of_index {
                true => keep(host, &access, statistics)?,
                false => replace(host, table, statistics)?,
            }
        }
    }
    Ok(())
}

/// Statistics of an index, not made yet.
pub(crate) fn of_index(index: &daruma_catalog::IndexDef) -> Option<StatisticsDef> {
    let columns: Vec<ColumnId> = index.key.iter().map(|k| k.column_id).collect();
    if columns.is_empty() || index.filter.is_some() {
        return None;
    }
    Some(empty(index.id, index.name.clone()?, columns))
}

/// Forgets statistics that belong to no index.
pub(crate) fn drop(host: &dyn Host, table: &TableRef, name: &str) -> Result<()> {
    let missing = || messages::error(3701, &[&"drop", &"statistics", &name]);
    let own = |s: &StatisticsDef| names_equal(&s.name, name) && table.def.index(s.id).is_none();
    if !known(host, table).is_some_and(|k| k.statistics.iter().any(own)) {
        return Err(missing());
    }
    change(host, table, |known| {
        known.statistics.retain(|s| !own(s));
        Ok(())
    })
}

/// Forgets what the server gathered of a column whose values are no longer those.
pub(crate) fn forget_column(host: &dyn Host, table: &TableRef, column: ColumnId) -> Result<()> {
    let is_of = |s: &StatisticsDef| !s.user_created && s.columns.contains(&column);
    if !known(host, table).is_some_and(|k| k.statistics.iter().any(is_of)) {
        return Ok(());
    }
    change(host, table, |known| {
        known.statistics.retain(|s| !is_of(s));
        Ok(())
    })
}
