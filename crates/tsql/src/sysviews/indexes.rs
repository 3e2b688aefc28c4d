//! Indexes, their columns, and where their rows lie.

use super::define::{Rows, View, nothing};
use super::source::{Source, Table, shown_text};
use crate::error::Result;
use daruma_catalog::{IndexDef, IndexKind, ObjectKind, StatisticsDef};
use daruma_storage::{Database, FiguresMode, LevelFigures, TreeUse};
use daruma_value::Value;

pub(super) const VIEWS: &[View] = &[
    View::sys("indexes", INDEXES, indexes),
    View::sys("xml_indexes", XML_INDEXES, nothing),
    View::sys("spatial_indexes", SPATIAL_INDEXES, nothing),
    View::sys("hash_indexes", HASH_INDEXES, nothing),
    View::sys("index_columns", INDEX_COLUMNS, index_columns),
    View::sys("partitions", PARTITIONS, partitions),
    View::sys("allocation_units", ALLOCATION_UNITS, allocation_units),
    View::sys("stats", STATS, stats),
    View::sys("stats_columns", STATS_COLUMNS, stats_columns),
    View::function(
        "dm_db_stats_properties",
        (2, 2),
        STATS_PROPERTIES,
        stats_properties,
    ),
    View::function("dm_db_stats_histogram", (2, 2), HISTOGRAM, histogram),
    View::sys("dm_db_partition_stats", PARTITION_STATS, partition_stats),
    View::sys("dm_db_index_usage_stats", USAGE_STATS, usage_stats),
    View::function(
        "dm_db_index_physical_stats",
        (5, 5),
        PHYSICAL_STATS,
        physical_stats,
    ),
];

/// Error of a database in SINGLE_USER that is another session's.
const IN_USE: i32 = 924;

macro_rules! index_columns_list {
    () => {
        "object_id int; name sysname?; index_id int; type tinyint; type_desc nvarchar(60)?; is_unique bit?;
        data_space_id int?; ignore_dup_key bit?; is_primary_key bit?; is_unique_constraint bit?; fill_factor tinyint;
        is_padded bit? = 0; is_disabled bit?; is_hypothetical bit? = 0; is_ignored_in_optimization bit? = 0;
        allow_row_locks bit? = 1; allow_page_locks bit? = 1; has_filter bit?; filter_definition nvarchar(max)?;"
    };
}

const INDEXES: &str = concat!(
    index_columns_list!(),
    "compression_delay int?; suppress_dup_key_messages bit? = 0; auto_created bit? = 0; optimize_for_sequential_key bit? = 0"
);
const XML_INDEXES: &str = concat!(
    index_columns_list!(),
    "using_xml_index_id int?; secondary_type char(1)?; secondary_type_desc nvarchar(60)?; xml_index_type tinyint?;
    xml_index_type_description nvarchar(60)?; path_id int?; auto_created bit?"
);
const SPATIAL_INDEXES: &str = concat!(
    index_columns_list!(),
    "spatial_index_type tinyint; spatial_index_type_desc nvarchar(60)?; tessellation_scheme sysname?; auto_created bit?"
);
const HASH_INDEXES: &str = concat!(index_columns_list!(), "bucket_count int; auto_created bit?");

pub(super) fn each_index(
    source: &Source<'_>,
    mut visit: impl FnMut(&Table, &IndexDef),
) -> Result<()> {
    for table in source.tables()? {
        table
            .def
            .indexes
            .iter()
            .for_each(|index| visit(&table, index));
    }
    Ok(())
}

fn kind(index: &IndexDef) -> (i32, &'static str) {
    match index.kind {
        IndexKind::Heap => (0, "HEAP"),
        IndexKind::Clustered => (1, "CLUSTERED"),
        IndexKind::Nonclustered => (2, "NONCLUSTERED"),
    }
}

fn indexes(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    each_index(source, |table, index| {
        let (number, description) = kind(index);
        let primary = index.constraint.as_ref().is_some_and(|c| c.is_primary_key);
        rows.add()
            .set("object_id", table.id)
            .set("name", index.name.as_ref())
            .set("index_id", index.id)
            .set("type", number)
            .set("type_desc", description)
            .set("is_unique", index.unique)
            .set("data_space_id", index.filegroup)
            .set("ignore_dup_key", index.ignore_dup_key)
            .set("is_primary_key", primary)
            .set(
                "is_unique_constraint",
                index.constraint.is_some() && !primary,
            )
            .set("fill_factor", index.fill_factor)
            .set("is_disabled", index.disabled)
            .set("has_filter", index.filter.is_some())
            .set("filter_definition", filter_text(index));
    })
}

const INDEX_COLUMNS: &str = "
    object_id int; index_id int; index_column_id int; column_id int; key_ordinal tinyint; partition_ordinal tinyint;
    is_descending_key bit?; is_included_column bit?; column_store_order_ordinal tinyint = 0; data_clustering_ordinal tinyint = 0";

fn index_columns(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    each_index(source, |table, index| {
        let keys = index.key.iter().map(|k| (k.column_id, k.descending, false));
        let included = index.included.iter().map(|id| (*id, false, true));
        for (at, (column, descending, included)) in keys.chain(included).enumerate() {
            rows.add()
                .set("object_id", table.id)
                .set("index_id", index.id)
                .set("index_column_id", at + 1)
                .set("column_id", column)
                .set("key_ordinal", if included { 0 } else { at + 1 })
                .set("is_descending_key", descending)
                .set("is_included_column", included);
        }
    })
}

/// Ids of partitions and allocation units start at 2^56, as the product's do.
const FIRST_ID: u64 = 1 << 56;

pub(crate) fn partition_id(index: &IndexDef) -> u64 {
    FIRST_ID | index.tree.0.to_u64()
}

/// Of all databases that are open; an index that was not used has no row.
fn usage_stats(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    const KINDS: [(TreeUse, &str, &str); 4] = [
        (TreeUse::Seek, "user_seeks", "last_user_seek"),
        (TreeUse::Scan, "user_scans", "last_user_scan"),
        (TreeUse::Lookup, "user_lookups", "last_user_lookup"),
        (TreeUse::Update, "user_updates", "last_user_update"),
    ];
    for entry in source.databases()? {
        let Ok(open) = entry.open() else { continue };
        for object in open.catalog.current().objects() {
            let ObjectKind::Table(table) = &object.kind else {
                continue;
            };
            for index in &table.indexes {
                let tree = open.storage.tree(index.tree)?;
                let uses = KINDS.map(|(kind, _, _)| tree.uses(kind));
                if uses.iter().all(|(count, _)| *count == 0) {
                    continue;
                }
                let row = rows.add();
                row.set("database_id", entry.id().0)
                    .set("object_id", object.id)
                    .set("index_id", index.id);
                for ((_, count, last), (times, at)) in KINDS.iter().zip(uses) {
                    row.set(count, times)
                        .set(last, source.time(at.unwrap_or_default()));
                }
            }
        }
    }
    Ok(())
}

/// Rows and pages of an index; nothing when its tree cannot be opened.
fn sizes(database: &Database, index: &IndexDef) -> (u64, u64) {
    database.tree(index.tree).map_or((0, 0), |tree| {
        (tree.approximate_count(), tree.approximate_pages())
    })
}

const PARTITIONS: &str = "
    partition_id bigint; object_id int; index_id int; partition_number int = 1; hobt_id bigint; rows bigint?;
    filestream_filegroup_id smallint; data_compression tinyint; data_compression_desc nvarchar(60)? = NONE;
    xml_compression bit? = 0; xml_compression_desc varchar(3)? = OFF";

fn partitions(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let open = source.open()?;
    each_index(source, |table, index| {
        rows.add()
            .set("partition_id", partition_id(index))
            .set("object_id", table.id)
            .set("index_id", index.id)
            .set("hobt_id", partition_id(index))
            .set("rows", sizes(&open.storage, index).0);
    })
}

const ALLOCATION_UNITS: &str = "
    allocation_unit_id bigint; type tinyint = 1; type_desc nvarchar(60)? = IN_ROW_DATA; container_id bigint;
    data_space_id int; total_pages bigint; used_pages bigint; data_pages bigint";

fn allocation_units(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let open = source.open()?;
    each_index(source, |_, index| {
        let pages = sizes(&open.storage, index).1;
        rows.add()
            .set("allocation_unit_id", partition_id(index))
            .set("container_id", partition_id(index))
            .set("data_space_id", index.filegroup)
            .set("total_pages", pages)
            .set("used_pages", pages)
            .set("data_pages", pages);
    })
}

const STATS: &str = "
    object_id int; name nvarchar(128)?; stats_id int; auto_created bit? = 0; user_created bit? = 0; no_recompute bit? = 0;
    has_filter bit?; filter_definition nvarchar(max)?; is_temporary bit? = 0; is_incremental bit? = 0;
    has_persisted_sample bit? = 0; stats_generation_method int = 0;
    stats_generation_method_desc varchar(80) = Sort based statistics; auto_drop bit? = 0";

/// Every index has statistics; a heap has none. Those of columns are listed apart.
fn each_statistic(source: &Source<'_>, mut visit: impl FnMut(&Table, &IndexDef)) -> Result<()> {
    each_index(source, |table, index| {
        if index.kind != IndexKind::Heap {
            visit(table, index);
        }
    })
}

fn filter_text(index: &IndexDef) -> Option<&str> {
    index.filter.as_deref().and_then(shown_text)
}

fn stats(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    each_statistic(source, |table, index| {
        rows.add()
            .set("object_id", table.id)
            .set("name", index.name.as_ref())
            .set("stats_id", index.id)
            .set("has_filter", index.filter.is_some())
            .set("filter_definition", filter_text(index));
    })?;
    each_of_columns(source, |table, statistics| {
        rows.add()
            .set("object_id", table.id)
            .set("name", &statistics.name)
            .set("stats_id", statistics.id)
            .set("auto_created", statistics.auto_created)
            .set("user_created", statistics.user_created)
            .set("no_recompute", statistics.no_recompute)
            .set("has_filter", false);
    })
}

/// Statistics that belong to no index.
fn each_of_columns(
    source: &Source<'_>,
    mut visit: impl FnMut(&Table, &StatisticsDef),
) -> Result<()> {
    let open = source.open()?;
    for table in source.tables()? {
        if let Some(known) = open.catalog.statistics(table.id) {
            let own = |s: &&StatisticsDef| table.def.index(s.id).is_none();
            known
                .statistics
                .iter()
                .filter(own)
                .for_each(|s| visit(&table, s));
        }
    }
    Ok(())
}

const STATS_COLUMNS: &str = "object_id int; stats_id int; stats_column_id int?; column_id int?";

fn stats_columns(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    each_statistic(source, |table, index| {
        for (at, key) in index.key.iter().enumerate() {
            rows.add()
                .set("object_id", table.id)
                .set("stats_id", index.id)
                .set("stats_column_id", at + 1)
                .set("column_id", key.column_id);
        }
    })?;
    each_of_columns(source, |table, statistics| {
        for (at, column) in statistics.columns.iter().enumerate() {
            rows.add()
                .set("object_id", table.id)
                .set("stats_id", statistics.id)
                .set("stats_column_id", at + 1)
                .set("column_id", *column);
        }
    })
}

const STATS_PROPERTIES: &str = "
    object_id int; stats_id int; last_updated datetime2(7)?; rows bigint?; rows_sampled bigint?; steps int?;
    unfiltered_rows bigint?; modification_counter bigint?; persisted_sample_percent float? = 0";

/// Statistics by the ids of their table and their own. Changes are counted as the planner counts them: by how many rows there are
/// more, or fewer.
fn stats_properties(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let (object, id) = (source.integer_argument(0), source.integer_argument(1));
    let open = source.open()?;
    let mut tables = source.tables()?.into_iter();
    let Some(table) = tables.find(|t| Some(i64::from(t.id)) == object) else {
        return Ok(());
    };
    let known = open.catalog.statistics(table.id);
    let mut known = known.iter().flat_map(|k| &k.statistics);
    let made = known.find(|s| Some(i64::from(s.id)) == id);
    let mut indexes = table.def.indexes.iter();
    let index = indexes.find(|i| i.kind != IndexKind::Heap && Some(i64::from(i.id)) == id);
    let Some(id) = made.map(|s| s.id).or(index.map(|i| i.id)) else {
        return Ok(());
    };
    rows.add().set("object_id", table.id).set("stats_id", id);
    if let Some(made) = made {
        let primary = table.def.primary();
        let now = primary.map_or(made.rows, |index| sizes(&open.storage, index).0);
        rows.set("last_updated", source.time(made.updated_utc))
            .set("rows", made.rows)
            .set("rows_sampled", made.rows_sampled)
            .set("steps", made.steps.len())
            .set("unfiltered_rows", made.rows)
            .set("modification_counter", now.abs_diff(made.rows));
    }
    Ok(())
}

const HISTOGRAM: &str = "
    object_id int; stats_id int; step_number int; range_high_key sql_variant?; range_rows real?; equal_rows real?;
    distinct_range_rows bigint?; average_range_rows real?";

/// The steps of one statistics, their values as texts.
fn histogram(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let (object, id) = (source.integer_argument(0), source.integer_argument(1));
    let open = source.open()?;
    let mut tables = source.tables()?.into_iter();
    let Some(table) = tables.find(|t| Some(i64::from(t.id)) == object) else {
        return Ok(());
    };
    let known = open.catalog.statistics(table.id);
    let mut known = known.iter().flat_map(|k| &k.statistics);
    let Some(made) = known.find(|s| Some(i64::from(s.id)) == id) else {
        return Ok(());
    };
    for (number, step) in made.steps.iter().enumerate() {
        let average = match step.distinct_range_rows > 0.0 {
            true => step.range_rows / step.distinct_range_rows,
            false => 1.0,
        };
        rows.add()
            .set("object_id", table.id)
            .set("stats_id", made.id)
            .set("step_number", number + 1)
            .set("range_high_key", &step.text)
            .set("range_rows", step.range_rows)
            .set("equal_rows", step.equal_rows)
            .set("distinct_range_rows", step.distinct_range_rows as i64)
            .set("average_range_rows", average);
    }
    Ok(())
}

const PARTITION_STATS: &str = "
    partition_id bigint?; object_id int; index_id int; partition_number int = 1; in_row_data_page_count bigint?;
    in_row_used_page_count bigint?; in_row_reserved_page_count bigint?; lob_used_page_count bigint? = 0;
    lob_reserved_page_count bigint? = 0; row_overflow_used_page_count bigint? = 0;
    row_overflow_reserved_page_count bigint? = 0; used_page_count bigint?; reserved_page_count bigint?; row_count bigint?";

fn partition_stats(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let open = source.open()?;
    each_index(source, |table, index| {
        let (count, pages) = sizes(&open.storage, index);
        rows.add()
            .set("partition_id", partition_id(index))
            .set("object_id", table.id)
            .set("index_id", index.id)
            .set("in_row_data_page_count", pages)
            .set("in_row_used_page_count", pages)
            .set("in_row_reserved_page_count", pages)
            .set("used_page_count", pages)
            .set("reserved_page_count", pages)
            .set("row_count", count);
    })
}

const USAGE_STATS: &str = "
    database_id smallint; object_id int; index_id int; user_seeks bigint; user_scans bigint; user_lookups bigint;
    user_updates bigint; last_user_seek datetime?; last_user_scan datetime?; last_user_lookup datetime?;
    last_user_update datetime?; system_seeks bigint = 0; system_scans bigint = 0; system_lookups bigint = 0;
    system_updates bigint = 0;
    last_system_seek datetime?; last_system_scan datetime?; last_system_lookup datetime?; last_system_update datetime?";

const PHYSICAL_STATS: &str = "
    database_id smallint?; object_id int?; index_id int?; partition_number int? = 1; index_type_desc nvarchar(60)?;
    alloc_unit_type_desc nvarchar(60)? = IN_ROW_DATA; index_depth tinyint?; index_level tinyint? = 0;
    avg_fragmentation_in_percent float?; fragment_count bigint?; avg_fragment_size_in_pages float?; page_count bigint?;
    avg_page_space_used_in_percent float?; record_count bigint?; ghost_record_count bigint?;
    version_ghost_record_count bigint?; min_record_size_in_bytes int?; max_record_size_in_bytes int?;
    avg_record_size_in_bytes float?; forwarded_record_count bigint?; compressed_page_count bigint?; hobt_id bigint?;
    columnstore_delete_buffer_state tinyint?; columnstore_delete_buffer_state_desc nvarchar(60)?;
    version_record_count bigint?; inrow_version_record_count bigint?; inrow_diff_version_record_count bigint?;
    total_inrow_version_payload_size_in_bytes bigint?; offrow_regular_version_record_count bigint?;
    offrow_long_term_version_record_count bigint?";

/// Arguments: database, object, index, partition, mode; NULL or 0 stand for all (index 0 is the heap itself).
fn physical_stats(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let object = source.integer_argument(1).filter(|id| *id != 0);
    let wanted_index = source.integer_argument(2).filter(|id| *id >= 0);
    let mode = figures_mode(source.arguments.get(4));
    let is_named = source.integer_argument(0).is_some_and(|id| id != 0);
    for entry in source.databases_of_argument(0)? {
        let Ok(open) = entry.open() else { continue };
        let inside = Source::new(source.host, entry.id(), &[]);
        // The state of a database may be seen, and the database not entered.
        match inside.catalog() {
            Err(error) if error.number == IN_USE && is_named => return Err(error),
            Err(_) => continue,
            Ok(_) => {}
        }
        each_index(&inside, |table, index| {
            let other_object = object.is_some_and(|id| id != i64::from(table.id));
            let other_index = wanted_index.is_some_and(|id| id != i64::from(index.id));
            if other_object || other_index {
                return;
            }
            let Ok(figures) = open.storage.tree(index.tree).and_then(|t| t.figures(mode)) else {
                return;
            };
            let (_, description) = kind(index);
            let suffix = if description == "HEAP" { "" } else { " INDEX" };
            let levels = if mode == FiguresMode::Detailed {
                figures.levels.len()
            } else {
                1
            };
            for (level, of_level) in figures.levels.iter().take(levels).enumerate() {
                rows.add()
                    .set("database_id", entry.id().0)
                    .set("object_id", table.id)
                    .set("index_id", index.id)
                    .set("index_type_desc", format!("{description}{suffix}"))
                    .set("index_depth", figures.levels.len())
                    .set("index_level", level)
                    .set("hobt_id", partition_id(index));
                level_columns(of_level, level, rows);
            }
        })?;
    }
    Ok(())
}

/// The mode as text; LIMITED unless said otherwise.
fn figures_mode(argument: Option<&Value>) -> FiguresMode {
    let text = match argument {
        Some(Value::Str(text)) => text.as_str(),
        _ => "",
    };
    match text.to_ascii_uppercase().as_str() {
        "DETAILED" => FiguresMode::Detailed,
        "SAMPLED" => FiguresMode::Sampled,
        _ => FiguresMode::Limited,
    }
}

/// Counts of a level; of a sample, scaled up. Versions are those off the row: there are no others.
fn level_columns(level: &LevelFigures, number: usize, rows: &mut Rows<'_>) {
    let share = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
    let breaks = level.fragments.saturating_sub(1);
    rows.set(
        "avg_fragmentation_in_percent",
        100.0 * share(breaks, level.pages),
    )
    .set("fragment_count", level.fragments)
    .set(
        "avg_fragment_size_in_pages",
        share(level.pages, level.fragments),
    )
    .set("page_count", level.pages);
    if level.pages_read == 0 {
        return;
    }
    let scaled = |n: u64| (n as f64 * share(level.pages, level.pages_read)).round() as u64;
    rows.set(
        "avg_page_space_used_in_percent",
        100.0 * share(level.used_bytes, level.pages_read * 8_192),
    )
    .set("record_count", scaled(level.entries))
    .set("ghost_record_count", scaled(level.ghosts))
    .set("version_ghost_record_count", scaled(level.version_ghosts))
    .set("min_record_size_in_bytes", level.entry_bytes_min)
    .set("max_record_size_in_bytes", level.entry_bytes_max)
    .set(
        "avg_record_size_in_bytes",
        share(level.entry_bytes, level.entries),
    )
    .set("compressed_page_count", 0);
    if number == 0 {
        rows.set("version_record_count", scaled(level.versions))
            .set("inrow_version_record_count", 0)
            .set("inrow_diff_version_record_count", 0)
            .set("total_inrow_version_payload_size_in_bytes", 0)
            .set(
                "offrow_regular_version_record_count",
                scaled(level.versions),
            )
            .set("offrow_long_term_version_record_count", 0);
    }
}
