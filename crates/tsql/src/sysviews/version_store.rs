//! Row versions by table, who keeps them, and the log in words.
//!
//! The two views of versions are of our own: the product tells how large its version store is, not whose versions are
//! in it nor who keeps them. `sys.fn_dblog` has the product's leading columns and, at the end, a sentence per operation.

use super::define::{Cell, Rows, View};
use super::indexes::each_index;
use super::log::lsn_text;
use super::names::fixed_schema_name;
use super::source::Source;
use crate::error::{Result, SqlError};
use crate::instance::spid_of_owner;
use daruma_base::{Lsn, PageId};
use daruma_catalog::{DatabaseCatalog, IndexKind};
use daruma_storage::{FiguresMode, LogLine, PinKind, TreeId};
use daruma_value::Value;
use std::collections::HashMap;

pub(super) const VIEWS: &[View] = &[
    View::sys("dm_db_version_store_tables", TABLES, tables),
    View::sys("dm_db_version_store_pins", PINS, pins),
    View::function("fn_dblog", (2, 2), DBLOG, dblog),
];

/// Operations that one call lists; it says where to go on.
const LINES_MAX: usize = 200_000;

const TABLES: &str = "
    database_id int; object_id int; schema_name sysname?; table_name sysname?; index_id int; index_name sysname?;
    version_count bigint; version_bytes bigint; version_ghost_count bigint; uncommitted_row_count bigint;
    aborted_row_count bigint";

/// Tables and indexes that have versions, or rows not yet settled, of the current database. Every leaf is read.
fn tables(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let open = source.open()?;
    let storage = &open.storage;
    if storage.version_pins().is_empty() && storage.version_store_bytes() == 0 {
        return Ok(());
    }
    let catalog = source.catalog()?;
    each_index(source, |table, index| {
        let figures = storage
            .tree(index.tree)
            .and_then(|t| t.figures(FiguresMode::Detailed));
        let Some(leaves) = figures.ok().and_then(|f| f.levels.first().copied()) else {
            return;
        };
        let unsettled = leaves.version_ghosts + leaves.uncommitted_entries + leaves.aborted_entries;
        if leaves.versions + unsettled == 0 {
            return;
        }
        rows.add()
            .set("database_id", source.database.0)
            .set("object_id", table.id)
            .set("schema_name", schema_name(&catalog, table.schema_id))
            .set("table_name", &table.name)
            .set("index_id", index.id)
            .set("index_name", index.name.as_ref())
            .set("version_count", leaves.versions)
            .set("version_bytes", leaves.version_bytes)
            .set("version_ghost_count", leaves.version_ghosts)
            .set("uncommitted_row_count", leaves.uncommitted_entries)
            .set("aborted_row_count", leaves.aborted_entries);
    })
}

const PINS: &str = "
    database_id int; pin_type tinyint; pin_type_desc nvarchar(60); transaction_id bigint?; session_id int?;
    session_count int; begin_time datetime2(7)?; snapshot_timestamp bigint?; version_kb bigint; version_pages bigint";

/// Keepers of versions in every database whose state is seen: active transactions, snapshots, aborted transactions; the largest first.
fn pins(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for entry in source.databases_with_state()? {
        let Ok(open) = entry.open() else { continue };
        for pin in open.storage.version_pins() {
            let (number, description) = match pin.kind {
                PinKind::ActiveTransaction => (1, "ACTIVE_TRANSACTION"),
                PinKind::Snapshot => (2, "SNAPSHOT"),
                PinKind::AbortedTransaction => (3, "ABORTED_TRANSACTION"),
            };
            rows.add()
                .set("database_id", entry.id().0)
                .set("pin_type", number)
                .set("pin_type_desc", description)
                .set("session_count", pin.owners)
                .set("begin_time", source.time(pin.begun_utc_100ns))
                .set("version_kb", pin.bytes().div_ceil(1_024))
                .set("version_pages", pin.pages);
            if pin.owner != 0 {
                rows.set("session_id", spid_of_owner(pin.owner));
            }
            match pin.kind {
                PinKind::Snapshot => rows.set("snapshot_timestamp", pin.timestamp),
                _ => rows.set("transaction_id", pin.txn.0),
            };
        }
    }
    Ok(())
}

const DBLOG: &str = "
    Current~LSN nvarchar(23); Operation nvarchar(31); Context nvarchar(31); Transaction~ID nvarchar(14);
    LogBlockGeneration bigint; Tag~Bits binary(2); Log~Record~Fixed~Length smallint = 20; Log~Record~Length int;
    Previous~LSN nvarchar(23); Flag~Bits binary(2); Log~Reserve int; AllocUnitId bigint?; AllocUnitName nvarchar(387)?;
    Page~ID nvarchar(14)?; Slot~ID int?; Previous~Page~LSN nvarchar(23)?; PartitionId bigint?; RowFlags smallint?;
    Num~Elements smallint?; RowLog~Contents~0 varbinary(8000)?; RowLog~Contents~1 varbinary(8000)?;
    RowLog~Contents~2 varbinary(8000)?; End~Time datetime?; Description nvarchar(4000)";

/// Name of a tree, and whether it is a nonclustered index.
struct TreeName {
    name: String,
    context: &'static str,
}

/// Contents 0 is what was there before, 1 what is there after, 2 the key.
fn dblog(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let (start, end) = (position(source, 0)?, position(source, 1)?);
    let names = tree_names(source)?;
    let listing = source.open()?.storage.describe_log(start, end, LINES_MAX)?;
    for line in &listing.lines {
        log_line(source, &names, line, rows);
    }
    if let Some(next) = listing.next {
        let lsn = lsn_text(next);
        let text = format!("The listing ends here. It goes on with fn_dblog('{lsn}', NULL).");
        rows.add()
            .set("Current LSN", lsn)
            .set("Operation", "LISTING_ENDS")
            .set("Context", "LCX_NULL")
            .set("Transaction ID", "0000:00000000")
            .set("Previous LSN", lsn_text(Lsn::NONE))
            .set("Description", text);
    }
    Ok(())
}

fn log_line(
    source: &Source<'_>,
    names: &HashMap<TreeId, TreeName>,
    line: &LogLine,
    rows: &mut Rows<'_>,
) {
    let known = line.tree.and_then(|tree| names.get(&tree));
    let context = line
        .context
        .or(known.map(|k| k.context))
        .unwrap_or("LCX_LEAF");
    rows.add()
        .set("Current LSN", format!("{}:{:04x}", line.lsn, line.number))
        .set("Operation", line.operation)
        .set("Context", context)
        .set(
            "Transaction ID",
            format!("{:04x}:{:08x}", line.txn.0 >> 32, line.txn.0 as u32),
        )
        .set("Log Record Length", line.record_bytes)
        .set("Previous LSN", lsn_text(line.previous))
        .set("Flag Bits", vec![u8::from(line.accelerated), 0])
        .set("Description", &line.description);
    if let Some(tree) = line.tree {
        rows.set("AllocUnitId", tree.0.to_u64())
            .set("PartitionId", tree.0.to_u64());
        let unknown = || format!("tree {}", page_text(tree.0));
        rows.set(
            "AllocUnitName",
            known.map_or_else(unknown, |k| k.name.clone()),
        );
    }
    if !line.page.is_none() {
        rows.set("Page ID", page_text(line.page));
    }
    if let Some(slot) = line.slot {
        rows.set("Slot ID", slot);
    }
    let contents = [
        ("RowLog Contents 0", &line.before),
        ("RowLog Contents 1", &line.after),
        ("RowLog Contents 2", &line.key),
    ];
    for (column, bytes) in contents {
        if !bytes.is_empty() {
            rows.set(column, Cell::Bytes(bytes.clone()));
        }
    }
    if line.utc_100ns != 0 {
        rows.set("End Time", source.time(line.utc_100ns));
    }
}

fn page_text(page: PageId) -> String {
    format!("{:04x}:{:08x}", page.file, page.page)
}

/// An argument as a log position: `hhhhhhhh:hhhhhhhh:nnnn`, with or without 0x before it; NULL is none.
fn position(source: &Source<'_>, argument: usize) -> Result<Option<Lsn>> {
    let text = match source.arguments.get(argument) {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Str(text)) => text.as_str().trim(),
        Some(_) => "",
    };
    let mut parts = text.strip_prefix("0x").unwrap_or(text).split(':');
    let mut part = || u64::from_str_radix(parts.next()?, 16).ok();
    match (part(), part()) {
        (Some(high), Some(low)) if high <= u64::from(u32::MAX) && low <= u64::from(u32::MAX) => {
            Ok(Some(Lsn(high << 32 | low)))
        }
        _ => Err(SqlError::new(
            9005,
            16,
            3,
            "Either start LSN or end LSN specified in OpenRowset(DBLog, ...) is invalid.",
        )),
    }
}

fn schema_name(catalog: &DatabaseCatalog, id: i32) -> String {
    let named = catalog.schema(id).map(|s| s.name.clone());
    named.unwrap_or_else(|| fixed_schema_name(id).to_string())
}

fn tree_names(source: &Source<'_>) -> Result<HashMap<TreeId, TreeName>> {
    let catalog = source.catalog()?;
    let mut names = HashMap::new();
    let own = TreeName {
        name: "sys.catalog".to_string(),
        context: "LCX_CLUSTERED",
    };
    names.insert(source.open()?.storage.catalog_tree(), own);
    each_index(source, |table, index| {
        let schema = schema_name(&catalog, table.schema_id);
        let suffix = index
            .name
            .as_ref()
            .map_or(String::new(), |n| format!(".{n}"));
        let context = match index.kind {
            IndexKind::Heap => "LCX_HEAP",
            IndexKind::Clustered => "LCX_CLUSTERED",
            IndexKind::Nonclustered => "LCX_INDEX_LEAF",
        };
        let name = format!("{schema}.{}{suffix}", table.name);
        names.insert(index.tree, TreeName { name, context });
    })?;
    Ok(names)
}
