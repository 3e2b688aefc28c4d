//! Statistics of columns: made when a plan first asks, kept in the catalog, made anew when the table has grown or shrunk.
//!
//! Theory: a histogram of up to a hundred steps with about equally many rows, and the number of distinct values. Small
//! tables are read whole, large ones by random leaves. The planner asks through `facts`; CREATE, UPDATE and DROP
//! STATISTICS are in `define`. Reading takes no locks and waits for nobody: a dirty row more or less changes no plan.
//!
//! Invariants
//! 1. Statistics never make a statement fail: whatever goes wrong while they are made, the planner guesses instead.
//! 2. Table variables and temporary tables have none.
//!
//! Read next: `collect`, `histogram`, `crate::planner::estimate`.

mod collect;
pub(crate) mod define;
mod histogram;
mod options;

pub(crate) use collect::{Share, collect};
pub(crate) use histogram::Facts;

use crate::access::TableAccess;
use crate::error::Result;
use crate::host::{Host, TableKind, TableRef};
use crate::planner::growth;
use daruma_catalog::{FIRST_STATISTICS_ID, StatisticsDef, TableStatistics, names_equal};

/// Smaller tables need no statistics: every plan over them is quick.
const ROWS_MIN: u64 = 200;

/// Knowledge of a column's values; `None` when there is none and none can be had.
pub(crate) fn facts(host: &dyn Host, access: &TableAccess, ordinal: usize) -> Option<Facts> {
    let table = &access.table;
    if table.kind != TableKind::User {
        return None;
    }
    let catalog = host.stored_catalog(table.database.id())?;
    let column = table.def.columns.get(ordinal)?;
    let rows = access.tree(access.primary()).ok()?.approximate_count();
    let known = catalog.statistics(table.object_id);
    let of_column = known.as_ref().and_then(|k| k.of_column(column.id));
    let keeps =
        |s: &&StatisticsDef| s.updated_utc != 0 && !is_on(host, access, "AUTO_UPDATE_STATISTICS");
    let current = of_column.filter(|s| s.no_recompute || !is_stale(s, rows) || keeps(s));
    if let Some(current) = current {
        return Some(Facts::new(current.clone(), column, rows));
    }
    if rows < ROWS_MIN {
        return None;
    }
    let mut made = of_column
        .cloned()
        .unwrap_or_else(|| automatic(access, ordinal, known.as_deref()));
    // Those of an index come with it.
    if of_column.is_none() && made.auto_created && !is_on(host, access, "AUTO_CREATE_STATISTICS") {
        return None;
    }
    let ordinals: Vec<usize> = (made.columns.iter())
        .map(|id| table.def.ordinal(*id))
        .collect::<Option<_>>()?;
    refresh(host, access, &ordinals, Share::Auto, &mut made).ok()?;
    // Nothing is written to a read-only database; and a plan needs no statistics that last.
    if !table.database.settings().read_only {
        let _ = match of_column {
            Some(_) => replace(host, table, made.clone()),
            None => keep(host, access, made.clone()),
        };
    }
    Some(Facts::new(made, column, rows))
}

/// An option of the table's database.
fn is_on(host: &dyn Host, access: &TableAccess, option: &str) -> bool {
    let instance = host.instance();
    let entry = instance.and_then(|i| i.database(access.table.database.id()));
    entry.is_none_or(|e| e.def().option(option) != Some("OFF"))
}

/// Statistics that the planner makes: under the name of an index that begins with the column, or one of their own.
fn automatic(
    access: &TableAccess,
    ordinal: usize,
    known: Option<&TableStatistics>,
) -> StatisticsDef {
    let table = &access.table;
    let column = table.def.columns.get(ordinal).map_or(0, |c| c.id);
    let leads =
        |i: &&daruma_catalog::IndexDef| i.key.first().is_some_and(|k| k.column_id == column);
    let index = table.def.indexes.iter().find(leads);
    let (id, name) = match index.and_then(|i| i.name.as_ref().map(|n| (i.id, n.clone()))) {
        Some(named) => named,
        None => (
            next_id(known),
            format!("_WA_Sys_{column:08X}_{:08X}", table.object_id),
        ),
    };
    StatisticsDef {
        auto_created: id >= FIRST_STATISTICS_ID,
        ..empty(id, name, vec![column])
    }
}

fn empty(id: i32, name: String, columns: Vec<i32>) -> StatisticsDef {
    StatisticsDef {
        id,
        name,
        columns,
        auto_created: false,
        user_created: false,
        no_recompute: false,
        updated_utc: 0,
        rows: 0,
        rows_sampled: 0,
        null_rows: 0.0,
        distinct: Vec::new(),
        steps: Vec::new(),
    }
}

fn next_id(known: Option<&TableStatistics>) -> i32 {
    let ids = known.iter().flat_map(|k| &k.statistics).map(|s| s.id);
    ids.max().unwrap_or(0).max(FIRST_STATISTICS_ID - 1) + 1
}

fn is_stale(statistics: &StatisticsDef, rows: u64) -> bool {
    statistics.updated_utc == 0 || growth::has_changed(statistics.rows, rows)
}

/// Reads the table and fills `statistics`.
pub(crate) fn refresh(
    host: &dyn Host,
    access: &TableAccess,
    ordinals: &[usize],
    share: Share,
    statistics: &mut StatisticsDef,
) -> Result<()> {
    let Some(catalog) = host.stored_catalog(access.table.database.id()) else {
        return Ok(());
    };
    let mut random = |below: usize| {
        let mut bytes = [0; 8];
        host.random_bytes(&mut bytes);
        (u64::from_le_bytes(bytes) % below.max(1) as u64) as usize
    };
    let found = catalog.read_now(|view| collect(access, ordinals, share, view, &mut random))?;
    statistics.updated_utc = host.now().0;
    statistics.rows = found.rows;
    statistics.rows_sampled = found.rows_sampled;
    statistics.null_rows = found.null_rows;
    statistics.distinct = found.distinct;
    statistics.steps = found.steps;
    Ok(())
}

/// Puts statistics in the place of those with the same name; ones that are new get a number of their own.
pub(crate) fn keep(host: &dyn Host, access: &TableAccess, made: StatisticsDef) -> Result<()> {
    change(host, &access.table, |table| {
        put(table, &access.table, made);
        Ok(())
    })
}

/// Puts statistics in the place of those that they were made of, unless somebody has dropped these meanwhile.
fn replace(host: &dyn Host, table: &TableRef, made: StatisticsDef) -> Result<()> {
    change(host, table, |known| {
        put_again(known, made);
        Ok(())
    })
}

/// Others may have the number by now, or the name.
fn put_again(known: &mut TableStatistics, made: StatisticsDef) {
    let is_it = |s: &&mut StatisticsDef| {
        s.id == made.id && s.name == made.name && s.columns == made.columns
    };
    if let Some(place) = known.statistics.iter_mut().find(is_it) {
        *place = made;
    }
}

/// Changes what is stored of a table's statistics, as it is now.
fn change(
    host: &dyn Host,
    table: &TableRef,
    change: impl FnOnce(&mut TableStatistics) -> Result<()>,
) -> Result<()> {
    match host.stored_catalog(table.database.id()) {
        Some(catalog) => catalog.change_statistics(table.object_id, change),
        None => Ok(()),
    }
}

fn put(known: &mut TableStatistics, table: &TableRef, mut made: StatisticsDef) {
    let is_of_index = table.def.index(made.id).is_some();
    let is_it = |s: &StatisticsDef| match is_of_index {
        true => s.id == made.id,
        false => names_equal(&s.name, &made.name),
    };
    let before = known.statistics.iter().position(is_it);
    if !is_of_index {
        let id = before.map(|at| known.statistics[at].id);
        made.id = id.unwrap_or_else(|| next_id(Some(&*known)));
    }
    match before {
        Some(at) => known.statistics[at] = made,
        None => known.statistics.push(made),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(id: i32, name: &str, column: i32) -> StatisticsDef {
        empty(id, name.to_string(), vec![column])
    }

    /// One made anew while somebody dropped it does not come back, and takes nobody's place.
    #[test]
    fn what_was_dropped_while_it_was_made_stays_away() {
        let made = StatisticsDef {
            rows: 7,
            ..named(1001, "b", 2)
        };
        for others in [
            vec![named(1000, "a", 1)],
            vec![named(1000, "a", 1), named(1001, "c", 2)],
            vec![named(1001, "b", 1)],
        ] {
            let mut known = TableStatistics {
                statistics: others.clone(),
                ..TableStatistics::default()
            };
            put_again(&mut known, made.clone());
            assert_eq!(known.statistics, others);
        }
        let mut known = TableStatistics {
            statistics: vec![named(1000, "a", 1), named(1001, "b", 2)],
            ..TableStatistics::default()
        };
        put_again(&mut known, made.clone());
        assert_eq!(known.statistics, [named(1000, "a", 1), made]);
    }
}
