//! DBCC CHECKDB and its family: is a database what it should be?
//!
//! Theory: three questions. *Structure* (`structure`): storage walks every tree and value page by page, and compares
//! what it met with the allocation pages. *Logic* (`dml::row_check`): rows and index entries agree, values fit their
//! columns. *Definitions* (`definitions`, `constraints`): the catalog refers to what is there, rows satisfy their
//! constraints. Storage and rows say what is wrong in their own terms; `words` puts it in the product's.
//!
//! It runs beside writers. A table's definition is kept in place while it is checked, its tree is not split while that
//! is walked, its rows are read from a snapshot. Pages that nobody uses can be told only when nothing was written
//! between the beginning and the end of the check; a report says nothing of them otherwise.
//!
//! Nothing is repaired: what is damaged is restored from a backup.
//!
//! | command | allocation | structure | logic | definitions |
//! |---|---|---|---|---|
//! | CHECKDB | yes | all tables | not with PHYSICAL_ONLY | yes |
//! | CHECKALLOC | yes | no report | | |
//! | CHECKTABLE, CHECKFILEGROUP | | yes | not with PHYSICAL_ONLY | |
//! | CHECKCATALOG | | | | yes |
//! | CHECKCONSTRAINTS | | | constraints | |

mod constraints;
mod definitions;
mod options;
mod report;
mod structure;
#[cfg(test)]
mod tests;
mod words;

use super::dbcc::{completed, database};
use super::define::Procedure;
use crate::error::{Result, SqlError};
use crate::instance::DatabaseEntry;
use crate::messages;
use crate::session::{DbccTable, SystemCall};
use daruma_catalog::{Object, ObjectKind};
use daruma_syntax::{ParseOptions, parse_object_name};
use options::Options;
use report::{Report, Subject};
use std::sync::Arc;
use structure::{Check, Progress, Scope};

pub(super) const PROCEDURES: &[Procedure] = &[
    Procedure::native(
        "dbcc CHECKDB",
        "@database nvarchar(128) = NULL; @how nvarchar(128) = NULL",
        checkdb,
    ),
    Procedure::native(
        "dbcc CHECKALLOC",
        "@database nvarchar(128) = NULL; @how nvarchar(128) = NULL",
        checkalloc,
    ),
    Procedure::native(
        "dbcc CHECKCATALOG",
        "@database nvarchar(128) = NULL",
        checkcatalog,
    ),
    Procedure::native(
        "dbcc CHECKFILEGROUP",
        "@filegroup nvarchar(128) = NULL; @how nvarchar(128) = NULL",
        checkfilegroup,
    ),
    Procedure::native(
        "dbcc CHECKTABLE",
        "@table nvarchar(776); @how nvarchar(128) = NULL",
        checktable,
    ),
    Procedure::native(
        "dbcc CHECKCONSTRAINTS",
        "@name nvarchar(776) = NULL",
        constraints::checkconstraints,
    ),
];

fn checkdb(call: &SystemCall<'_, '_>) -> Result<i32> {
    whole_database(call, "CHECKDB", Scope::Database)
}

fn checkalloc(call: &SystemCall<'_, '_>) -> Result<i32> {
    whole_database(call, "CHECKALLOC", Scope::Allocation)
}

fn whole_database(call: &SystemCall<'_, '_>, command: &'static str, scope: Scope) -> Result<i32> {
    let options = Options::new(call, command, call.text(1))?;
    let entry = database(call, command)?;
    let name = entry.name();
    if options.estimate_only {
        return estimate(call, &options, &entry, &format!("database {name}"));
    }
    let mut report = Report::new(call, command, options, &entry);
    report.heading(&name)?;
    let progress = Progress::new(call, &entry, "DBCC")?;
    let mut check = Check::new(&progress, &mut report, scope);
    check.catalog_tree()?;
    for object in tables(&entry)? {
        check.table(&object)?;
    }
    check.finish()?;
    if matches!(scope, Scope::Database) && !report.options.physical_only {
        definitions::check(call, &mut report, &entry)?;
    }
    report.finish(Subject::Database)
}

/// Tables of the database as others see it, in the order of their ids.
fn tables(entry: &DatabaseEntry) -> Result<Vec<Arc<Object>>> {
    let catalog = entry.open()?.catalog.current();
    let is_table = |o: &&Arc<Object>| matches!(o.kind, ObjectKind::Table(_));
    let mut tables: Vec<_> = catalog.objects().filter(is_table).cloned().collect();
    tables.sort_by_key(|o| o.id);
    Ok(tables)
}

fn checkcatalog(call: &SystemCall<'_, '_>) -> Result<i32> {
    let options = Options::new(call, "CHECKCATALOG", None)?;
    let entry = database(call, "CHECKCATALOG")?;
    let mut report = Report::new(call, "CHECKCATALOG", options, &entry);
    definitions::check(call, &mut report, &entry)?;
    report.finish(Subject::Nothing)
}

/// All tables that lie in one filegroup, named or by id; without a name the primary one.
fn checkfilegroup(call: &SystemCall<'_, '_>) -> Result<i32> {
    let options = Options::new(call, "CHECKFILEGROUP", call.text(1))?;
    let instance = call.execution.instance();
    let entry = instance
        .database(call.host().current_database())
        .ok_or_else(|| messages::error(2520, &[&""]))?;
    let wanted = call.text(0).unwrap_or_else(|| "PRIMARY".to_string());
    let def = entry.def();
    let found = match wanted.parse::<u16>() {
        Ok(0) => def.filegroups.first(),
        Ok(id) => def.filegroups.iter().find(|f| f.id == id),
        Err(_) => def.filegroup_named(&wanted),
    };
    let filegroup = found.ok_or_else(|| messages::error(2523, &[&wanted]))?;
    if options.estimate_only {
        return estimate(call, &options, &entry, &format!("filegroup {wanted}"));
    }
    let mut report = Report::new(call, "CHECKFILEGROUP", options, &entry);
    report.heading(&entry.name())?;
    let progress = Progress::new(call, &entry, "DBCC")?;
    let mut check = Check::new(&progress, &mut report, Scope::Filegroup(filegroup.id));
    for object in tables(&entry)? {
        check.table(&object)?;
    }
    check.finish()?;
    report.finish(Subject::Database)
}

fn checktable(call: &SystemCall<'_, '_>) -> Result<i32> {
    let options = Options::new(call, "CHECKTABLE", call.text(1))?;
    let text = call.text(0).unwrap_or_default();
    let missing = || messages::error(2501, &[&text]);
    let name = parse_object_name(&text, &ParseOptions::default()).map_err(|_| missing())?;
    let found = call.execution.find_object(&name)?;
    let (database, object) = found.ok_or_else(missing)?;
    let about = DbccTable {
        command: "checktable",
        state: 3,
        named: &text,
        enough: None,
    };
    call.execution
        .administers_for_dbcc(database, &object, &about)?;
    if !matches!(object.kind, ObjectKind::Table(_)) {
        return Err(messages::error(5239, &[&object.id, &object.name]));
    }
    let instance = call.execution.instance();
    let entry = instance.database(database).ok_or_else(missing)?;
    if options.estimate_only {
        return estimate(call, &options, &entry, &format!("table {}", object.name));
    }
    let mut report = Report::new(call, "CHECKTABLE", options, &entry);
    let progress = Progress::new(call, &entry, "DBCC TABLE CHECK")?;
    let mut check = Check::new(&progress, &mut report, Scope::Table);
    check.table(&object)?;
    check.finish()?;
    report.finish(Subject::Nothing)
}

/// ESTIMATEONLY: a check keeps one bit for each page in memory and nothing in tempdb.
fn estimate(
    call: &SystemCall<'_, '_>,
    options: &Options,
    entry: &DatabaseEntry,
    of: &str,
) -> Result<i32> {
    entry.open()?;
    let text = format!(
        "Estimated TEMPDB space (in KB) needed for {} on {of} = 0.",
        options.command
    );
    call.message(SqlError::new(0, 0, 1, text))?;
    completed(call)
}
