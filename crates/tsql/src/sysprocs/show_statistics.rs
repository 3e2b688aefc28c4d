//! DBCC SHOW_STATISTICS: what the planner knows of a column's values, as three result sets.

use super::define::{Procedure, send};
use crate::access::TableAccess;
use crate::error::Result;
use crate::host::{Host, Resolved, TableRef};
use crate::messages;
use crate::session::{DbccTable, SystemCall};
use crate::statistics::{Share, define, keep, refresh};
use daruma_catalog::{StatisticsDef, names_equal};
use daruma_syntax::{ParseOptions, parse_object_name};

pub(super) const PROCEDURES: &[Procedure] = &[Procedure::native(
    "dbcc SHOW_STATISTICS",
    "@table nvarchar(776); @target nvarchar(128)",
    show_statistics,
)];

const HEADER: &str = "
    Name sysname?; Updated datetime?; Rows bigint?; Rows~Sampled bigint?; Steps smallint?; Density real? = 1;
    Average~key~length real? = 0; String~Index nvarchar(3)? = NO; Filter~Expression nvarchar(max)?;
    Unfiltered~Rows bigint?; Persisted~Sample~Percent float? = 0";
const DENSITIES: &str = "All~density real?; Average~Length real? = 0; Columns nvarchar(max)?";
const HISTOGRAM: &str = "
    RANGE_HI_KEY nvarchar(256)?; RANGE_ROWS real?; EQ_ROWS real?; DISTINCT_RANGE_ROWS bigint?; AVG_RANGE_ROWS real?";

fn show_statistics(call: &SystemCall<'_, '_>) -> Result<i32> {
    let (text, target) = (
        call.text(0).unwrap_or_default(),
        call.text(1).unwrap_or_default(),
    );
    let missing = || messages::error(2501, &[&text]);
    let name = parse_object_name(&text, &ParseOptions::default()).map_err(|_| missing())?;
    let Ok(Resolved::Table(table)) = call.host().resolve(&name) else {
        return Err(missing());
    };
    let about = DbccTable {
        command: "SHOW_STATISTICS",
        state: 1,
        named: &text,
        enough: Some("SELECT"),
    };
    call.execution.check_table_for_dbcc(&table, &about)?;
    let found = find(call.host(), &table, &target)?;
    let found = found.ok_or_else(|| messages::error(2767, &[&target]))?;
    show(call, &table, &found)?;
    Ok(0)
}

/// The statistics of this name, or those that begin with this column; those of an index are made now if need be.
fn find(host: &dyn Host, table: &TableRef, target: &str) -> Result<Option<StatisticsDef>> {
    let catalog = host.stored_catalog(table.database.id());
    let known = catalog.and_then(|c| c.statistics(table.object_id));
    let column = table.def.column_named(target).map(|c| c.id);
    let fits = |s: &&StatisticsDef| {
        names_equal(&s.name, target) || column.is_some() && s.columns.first().copied() == column
    };
    if let Some(found) = known.iter().flat_map(|k| &k.statistics).find(fits) {
        return Ok(Some(found.clone()));
    }
    let of_indexes: Vec<StatisticsDef> = table
        .def
        .indexes
        .iter()
        .filter_map(define::of_index)
        .collect();
    let Some(mut made) = of_indexes.iter().find(fits).cloned() else {
        return Ok(None);
    };
    let access = TableAccess::new(table)?;
    let ordinal = |id: &i32| table.def.ordinal(*id);
    let ordinals: Vec<usize> = made.columns.iter().filter_map(ordinal).collect();
    refresh(host, &access, &ordinals, Share::Auto, &mut made)?;
    keep(host, &access, made.clone())?;
    Ok(Some(made))
}

fn show(call: &SystemCall<'_, '_>, table: &TableRef, found: &StatisticsDef) -> Result<()> {
    send(call, HEADER, |source, rows| {
        rows.add()
            .set("Name", &found.name)
            .set("Updated", source.time(found.updated_utc))
            .set("Rows", found.rows)
            .set("Rows Sampled", found.rows_sampled)
            .set("Steps", found.steps.len())
            .set("Unfiltered Rows", found.rows);
        Ok(())
    })?;
    send(call, DENSITIES, |_, rows| {
        let mut names = String::new();
        for (id, distinct) in found.columns.iter().zip(&found.distinct) {
            if !names.is_empty() {
                names.push_str(", ");
            }
            names.push_str(table.def.column(*id).map_or("", |c| c.name.as_str()));
            rows.add()
                .set("All density", 1.0 / distinct.max(1.0))
                .set("Columns", &names);
        }
        Ok(())
    })?;
    send(call, HISTOGRAM, |_, rows| {
        for step in &found.steps {
            let average = if step.distinct_range_rows > 0.0 {
                step.range_rows / step.distinct_range_rows
            } else {
                1.0
            };
            rows.add()
                .set("RANGE_HI_KEY", &step.text)
                .set("RANGE_ROWS", step.range_rows)
                .set("EQ_ROWS", step.equal_rows)
                .set("DISTINCT_RANGE_ROWS", step.distinct_range_rows as i64)
                .set("AVG_RANGE_ROWS", average);
        }
        Ok(())
    })
}
