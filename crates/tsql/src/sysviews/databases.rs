//! Databases, their files and filegroups.

use super::define::{Rows, View};
use super::source::Source;
use crate::error::Result;
use crate::instance::DatabaseEntry;
use daruma_catalog::{DatabaseDef, FileDef, FileGrowth, UserAccess};
use daruma_storage::{
    DatabaseState, DelayedDurability, FileInfo, Growth, IoStats, RecoveryModel, Settings,
};
use std::sync::Arc;

pub(super) const VIEWS: &[View] = &[
    View::sys("databases", DATABASES, databases),
    View::sys("database_files", DATABASE_FILES, database_files),
    View::sys("master_files", MASTER_FILES, master_files),
    View::sys("filegroups", FILEGROUPS, filegroups),
    View::sys("data_spaces", DATA_SPACES, data_spaces),
    View::sys("database_recovery_status", RECOVERY_STATUS, recovery_status),
    View::sys("database_mirroring", MIRRORING, per_database),
    View::sys(
        "database_scoped_configurations",
        SCOPED_CONFIGURATIONS,
        scoped_configurations,
    ),
    View::sys("database_query_store_options", QUERY_STORE, query_store),
    View::sys("dm_db_file_space_usage", FILE_SPACE, file_space),
];

const DATABASES: &str = "
    name sysname; database_id int; source_database_id int?; owner_sid varbinary(85)?; create_date datetime;
    compatibility_level tinyint; collation_name sysname?; user_access tinyint?; user_access_desc nvarchar(60)?;
    is_read_only bit?; is_auto_close_on bit; is_auto_shrink_on bit?; state tinyint?; state_desc nvarchar(60)?;
    is_in_standby bit?; is_cleanly_shutdown bit? = 0; is_supplemental_logging_enabled bit? = 0;
    snapshot_isolation_state tinyint?; snapshot_isolation_state_desc nvarchar(60)?; is_read_committed_snapshot_on bit?;
    recovery_model tinyint?; recovery_model_desc nvarchar(60)?; page_verify_option tinyint? = 2;
    page_verify_option_desc nvarchar(60)? = CHECKSUM; is_auto_create_stats_on bit?;
    is_auto_create_stats_incremental_on bit? = 0; is_auto_update_stats_on bit?; is_auto_update_stats_async_on bit?;
    is_ansi_null_default_on bit?; is_ansi_nulls_on bit?; is_ansi_padding_on bit?; is_ansi_warnings_on bit?;
    is_arithabort_on bit?; is_concat_null_yields_null_on bit?; is_numeric_roundabort_on bit?;
    is_quoted_identifier_on bit?; is_recursive_triggers_on bit?; is_cursor_close_on_commit_on bit?;
    is_local_cursor_default bit?; is_fulltext_enabled bit? = 0; is_trustworthy_on bit?; is_db_chaining_on bit?;
    is_parameterization_forced bit?; is_master_key_encrypted_by_server bit = 0; is_query_store_on bit? = 0;
    is_published bit = 0; is_subscribed bit = 0; is_merge_published bit = 0; is_distributor bit = 0;
    is_sync_with_backup bit = 0; service_broker_guid uniqueidentifier; is_broker_enabled bit = 0;
    log_reuse_wait tinyint?; log_reuse_wait_desc nvarchar(60)?; is_date_correlation_on bit = 0; is_cdc_enabled bit = 0;
    is_encrypted bit? = 0; is_honor_broker_priority_on bit? = 0; replica_id uniqueidentifier?;
    group_database_id uniqueidentifier?; resource_pool_id int?; default_language_lcid smallint?;
    default_language_name nvarchar(128)?; default_fulltext_language_lcid int?;
    default_fulltext_language_name nvarchar(128)?; is_nested_triggers_on bit?; is_transform_noise_words_on bit?;
    two_digit_year_cutoff smallint?; containment tinyint? = 0; containment_desc nvarchar(60)? = NONE;
    target_recovery_time_in_seconds int?; delayed_durability int?; delayed_durability_desc nvarchar(60)?;
    is_memory_optimized_elevate_to_snapshot_on bit? = 0; is_federation_member bit? = 0;
    is_remote_data_archive_enabled bit? = 0; is_mixed_page_allocation_on bit? = 0;
    is_temporal_history_retention_enabled bit? = 0; catalog_collation_type int = 0;
    catalog_collation_type_desc nvarchar(60)? = DATABASE_DEFAULT; physical_database_name nvarchar(128)?;
    is_result_set_caching_on bit? = 0; is_accelerated_database_recovery_on bit?; is_tempdb_spill_to_remote_store bit? = 0;
    is_stale_page_detection_on bit? = 0; is_memory_optimized_enabled bit? = 0; is_data_retention_enabled bit? = 0;
    is_ledger_on bit? = 0; is_change_feed_enabled bit? = 0; is_data_lake_replication_enabled bit? = 0;
    is_event_stream_enabled bit? = 0; is_optimized_locking_on bit? = 0";

fn databases(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for entry in source.databases()? {
        let def = entry.def();
        rows.add()
            .set("name", &def.name)
            .set("database_id", def.id)
            .set("owner_sid", owner_sid(source, &def)?)
            .set("create_date", source.time(def.created_utc))
            .set("compatibility_level", def.compatibility_level)
            .set("collation_name", def.collation.name());
        let (access, access_name) = user_access(def.user_access);
        let (state, state_name) = state_of(&entry);
        rows.set("user_access", access)
            .set("user_access_desc", access_name);
        rows.set("is_auto_close_on", def.option_is_on("AUTO_CLOSE"))
            .set("is_auto_shrink_on", def.option_is_on("AUTO_SHRINK"))
            .set("state", state)
            .set("state_desc", state_name);
        page_verify(&def, rows);
        for (column, option) in OPTION_COLUMNS {
            rows.set(column, def.option_is_on(option));
        }
        rows.set("is_trustworthy_on", entry.is_trustworthy())
            .set("is_db_chaining_on", entry.is_chaining());
        rows.set("physical_database_name", &def.name);
        match entry.open() {
            Ok(open) => {
                storage_columns(&open.storage.settings(), rows);
                let wait = open.storage.log_stats().reuse_wait;
                rows.set("log_reuse_wait", reuse_wait_number(wait))
                    .set("log_reuse_wait_desc", wait);
            }
            Err(_) => storage_columns(&Settings::default(), rows),
        }
    }
    Ok(())
}

const OPTION_COLUMNS: &[(&str, &str)] = &[
    ("is_auto_create_stats_on", "AUTO_CREATE_STATISTICS"),
    ("is_auto_update_stats_on", "AUTO_UPDATE_STATISTICS"),
    (
        "is_auto_update_stats_async_on",
        "AUTO_UPDATE_STATISTICS_ASYNC",
    ),
    ("is_ansi_null_default_on", "ANSI_NULL_DEFAULT"),
    ("is_ansi_nulls_on", "ANSI_NULLS"),
    ("is_ansi_padding_on", "ANSI_PADDING"),
    ("is_ansi_warnings_on", "ANSI_WARNINGS"),
    ("is_arithabort_on", "ARITHABORT"),
    ("is_concat_null_yields_null_on", "CONCAT_NULL_YIELDS_NULL"),
    ("is_numeric_roundabort_on", "NUMERIC_ROUNDABORT"),
    ("is_quoted_identifier_on", "QUOTED_IDENTIFIER"),
    ("is_recursive_triggers_on", "RECURSIVE_TRIGGERS"),
    ("is_cursor_close_on_commit_on", "CURSOR_CLOSE_ON_COMMIT"),
];

fn page_verify(def: &DatabaseDef, rows: &mut Rows<'_>) {
    let number = match def.option("PAGE_VERIFY") {
        Some("NONE") => 0,
        Some("TORN_PAGE_DETECTION") => 1,
        _ => 2,
    };
    rows.set("page_verify_option", number).set(
        "page_verify_option_desc",
        def.option("PAGE_VERIFY").unwrap_or("CHECKSUM"),
    );
    rows.set(
        "is_parameterization_forced",
        def.option("PARAMETERIZATION") == Some("FORCED"),
    );
    rows.set(
        "is_local_cursor_default",
        def.option("CURSOR_DEFAULT") == Some("LOCAL"),
    );
    rows.set(
        "is_in_standby",
        def.options.contains_key(crate::session::STANDBY),
    );
}

fn storage_columns(settings: &Settings, rows: &mut Rows<'_>) {
    let (model, model_name) = recovery_model(settings.recovery_model);
    let (durability, durability_name) = delayed_setting(settings.delayed_durability);
    rows.set("is_read_only", settings.read_only)
        .set("snapshot_isolation_state", settings.allow_snapshot)
        .set(
            "snapshot_isolation_state_desc",
            if settings.allow_snapshot { "ON" } else { "OFF" },
        )
        .set(
            "is_read_committed_snapshot_on",
            settings.read_committed_snapshot,
        )
        .set("recovery_model", model)
        .set("recovery_model_desc", model_name)
        .set(
            "target_recovery_time_in_seconds",
            settings.target_recovery_seconds,
        )
        .set("delayed_durability", durability)
        .set("delayed_durability_desc", durability_name)
        .set(
            "is_accelerated_database_recovery_on",
            settings.accelerated_recovery,
        )
        .set("is_optimized_locking_on", settings.optimized_locking);
}

pub(super) fn delayed_setting(setting: DelayedDurability) -> (i32, &'static str) {
    match setting {
        DelayedDurability::Disabled => (0, "DISABLED"),
        DelayedDurability::Allowed => (1, "ALLOWED"),
        DelayedDurability::Forced => (2, "FORCED"),
    }
}

pub(super) fn recovery_model(model: RecoveryModel) -> (i32, &'static str) {
    match model {
        RecoveryModel::Full => (1, "FULL"),
        RecoveryModel::BulkLogged => (2, "BULK_LOGGED"),
        RecoveryModel::Simple => (3, "SIMPLE"),
    }
}

fn user_access(access: UserAccess) -> (i32, &'static str) {
    match access {
        UserAccess::Multi => (0, "MULTI_USER"),
        UserAccess::Single => (1, "SINGLE_USER"),
        UserAccess::Restricted => (2, "RESTRICTED_USER"),
    }
}

fn state_of(entry: &DatabaseEntry) -> (i32, &'static str) {
    match entry.state() {
        DatabaseState::Online => (0, "ONLINE"),
        DatabaseState::Restoring => (1, "RESTORING"),
        DatabaseState::Recovering => (2, "RECOVERING"),
        DatabaseState::Suspect => (4, "SUSPECT"),
        DatabaseState::Offline => (6, "OFFLINE"),
    }
}

/// `log_reuse_wait` for its description.
fn reuse_wait_number(description: &str) -> i32 {
    match description {
        "CHECKPOINT" => 1,
        "LOG_BACKUP" => 2,
        "ACTIVE_BACKUP_OR_RESTORE" => 3,
        "ACTIVE_TRANSACTION" => 4,
        "LOG_SCAN" => 8,
        "AVAILABILITY_REPLICA" => 9,
        "OLDEST_PAGE" => 13,
        "OTHER_TRANSIENT" => 14,
        "SLOG_SCAN" => 17,
        _ => 0,
    }
}

fn owner_sid(source: &Source<'_>, def: &DatabaseDef) -> Result<Option<Vec<u8>>> {
    let owner = source.logins()?.owner_of(def);
    Ok(owner.map(|login| login.sid.clone()))
}

const DATABASE_FILES: &str = "
    file_id int; file_guid uniqueidentifier?; type tinyint; type_desc nvarchar(60)?; data_space_id int; name sysname;
    physical_name nvarchar(260)?; state tinyint?; state_desc nvarchar(60)?; size int; max_size int; growth int;
    is_media_read_only bit; is_read_only bit; is_sparse bit; is_percent_growth bit; is_name_reserved bit;
    is_persistent_log_buffer bit; create_lsn numeric(25,0)?; drop_lsn numeric(25,0)?; read_only_lsn numeric(25,0)?;
    read_write_lsn numeric(25,0)?; differential_base_lsn numeric(25,0)?; differential_base_guid uniqueidentifier?;
    differential_base_time datetime?; redo_start_lsn numeric(25,0)?; redo_start_fork_guid uniqueidentifier?;
    redo_target_lsn numeric(25,0)?; redo_target_fork_guid uniqueidentifier?; backup_lsn numeric(25,0)?";

const MASTER_FILES: &str = "
    database_id int; file_id int; file_guid uniqueidentifier?; type tinyint; type_desc nvarchar(60)?; data_space_id int;
    name sysname; physical_name nvarchar(260); state tinyint?; state_desc nvarchar(60)?; size int; max_size int;
    growth int; is_media_read_only bit; is_read_only bit; is_sparse bit; is_percent_growth bit; is_name_reserved bit;
    is_persistent_log_buffer bit; create_lsn numeric(25,0)?; drop_lsn numeric(25,0)?; read_only_lsn numeric(25,0)?;
    read_write_lsn numeric(25,0)?; differential_base_lsn numeric(25,0)?; differential_base_guid uniqueidentifier?;
    differential_base_time datetime?; redo_start_lsn numeric(25,0)?; redo_start_fork_guid uniqueidentifier?;
    redo_target_lsn numeric(25,0)?; redo_target_fork_guid uniqueidentifier?; backup_lsn numeric(25,0)?;
    credential_id int?";

/// A file with its size now.
pub(super) struct FileLine {
    pub id: u16,
    pub filegroup: u16,
    pub name: String,
    pub path: String,
    pub size_pages: u64,
    pub used_pages: u64,
    pub io: IoStats,
    pub max_pages: Option<u64>,
    pub growth: u32,
    pub percent: bool,
}

impl FileLine {
    /// Is it the log file?
    pub fn is_log(&self) -> bool {
        self.filegroup == 0
    }
}

/// Files of a database: as storage has them, or as last recorded when it is not open.
pub(super) fn files_of(entry: &DatabaseEntry) -> Vec<FileLine> {
    let def = entry.def();
    let mut list: Vec<FileLine> = match entry.open() {
        Ok(open) => open
            .storage
            .files()
            .iter()
            .map(|f| live_file(f, &def))
            .collect(),
        Err(_) => def.files.iter().map(recorded_file).collect(),
    };
    list.sort_by_key(|f| f.id);
    list
}

fn live_file(file: &FileInfo, def: &DatabaseDef) -> FileLine {
    let (growth, percent) = match file.spec.growth {
        Growth::Pages(pages) => (pages, false),
        Growth::Percent(percent) => (u32::from(percent), true),
    };
    // Names and limits can change without storage knowing: the definition is right about them.
    let recorded = def.files.iter().find(|f| f.id == file.spec.id);
    FileLine {
        id: file.spec.id,
        filegroup: file.spec.filegroup,
        name: recorded
            .map_or(&file.spec.logical_name, |f| &f.logical_name)
            .clone(),
        path: file.spec.path.display().to_string(),
        size_pages: file.size_pages,
        used_pages: file.used_pages,
        io: file.io,
        max_pages: file.spec.max_pages,
        growth,
        percent,
    }
}

fn recorded_file(file: &FileDef) -> FileLine {
    let (growth, percent) = match file.growth {
        FileGrowth::Pages(pages) => (pages, false),
        FileGrowth::Percent(percent) => (u32::from(percent), true),
    };
    FileLine {
        id: file.id,
        filegroup: file.filegroup,
        name: file.logical_name.clone(),
        path: file.path.display().to_string(),
        size_pages: file.size_pages,
        used_pages: 0,
        io: IoStats::default(),
        max_pages: file.max_pages,
        growth,
        percent,
    }
}

fn database_files(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    file_rows(&source.entry()?, rows);
    Ok(())
}

fn master_files(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    source
        .databases_with_files()?
        .iter()
        .for_each(|entry| file_rows(entry, rows));
    Ok(())
}

/// -1: as far as the disk allows; the product shows 268435456 pages (2 TB) for a log without limit.
const LOG_PAGES_MAX: i64 = 268_435_456;

fn file_rows(entry: &Arc<DatabaseEntry>, rows: &mut Rows<'_>) {
    let (state, state_name) = state_of(entry);
    let def = entry.def();
    let base = crate::session::differential_base(&def);
    for file in files_of(entry) {
        let unlimited = if file.is_log() { LOG_PAGES_MAX } else { -1 };
        let read_only = def
            .filegroups
            .iter()
            .any(|g| g.id == file.filegroup && g.read_only);
        rows.add()
            .set_if_present("database_id", def.id)
            .set("file_id", file.id)
            .set("type", file.is_log())
            .set("type_desc", if file.is_log() { "LOG" } else { "ROWS" })
            .set("data_space_id", file.filegroup)
            .set("name", &file.name)
            .set("physical_name", &file.path)
            .set("state", state)
            .set("state_desc", state_name)
            .set("size", file.size_pages)
            .set(
                "max_size",
                file.max_pages.map_or(unlimited, |pages| pages as i64),
            )
            .set("growth", file.growth)
            .set("is_read_only", read_only)
            .set("is_percent_growth", file.percent);
        if let Some((lsn, _)) = base.as_ref().filter(|(_, ids)| ids.contains(&file.id)) {
            rows.set("differential_base_lsn", *lsn);
        }
    }
}

const FILEGROUPS: &str = "
    name sysname; data_space_id int; type char(2) = FG; type_desc nvarchar(60)? = ROWS_FILEGROUP; is_default bit?;
    is_system bit? = 0; filegroup_guid uniqueidentifier?; log_filegroup_id int?; is_read_only bit?;
    is_autogrow_all_files bit? = 0";

const DATA_SPACES: &str = "
    name sysname; data_space_id int; type char(2) = FG; type_desc nvarchar(60)? = ROWS_FILEGROUP; is_default bit?;
    is_system bit? = 0";

fn filegroups(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    data_spaces(source, rows)
}

fn data_spaces(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for group in &source.entry()?.def().filegroups {
        rows.add()
            .set("name", &group.name)
            .set("data_space_id", group.id)
            .set("is_default", group.is_default)
            .set_if_present("is_read_only", group.read_only);
    }
    Ok(())
}

const RECOVERY_STATUS: &str = "
    database_id int; database_guid uniqueidentifier?; family_guid uniqueidentifier?; last_log_backup_lsn numeric(25,0)?;
    recovery_fork_guid uniqueidentifier?; first_recovery_fork_guid uniqueidentifier?; fork_point_lsn numeric(25,0)?";

/// The log backup that comes next begins where the last one ended, or where the chain began.
fn recovery_status(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for entry in source.databases()? {
        rows.add().set("database_id", entry.id().0);
        let chain = entry.open().ok().map(|o| o.storage.log_backup_start());
        if let Some(chain) = chain.filter(|lsn| !lsn.is_none()) {
            rows.set("last_log_backup_lsn", chain.0);
        }
    }
    Ok(())
}

const MIRRORING: &str = "
    database_id int; mirroring_guid uniqueidentifier?; mirroring_state tinyint?; mirroring_state_desc nvarchar(60)?;
    mirroring_role tinyint?; mirroring_role_desc nvarchar(60)?; mirroring_role_sequence int?;
    mirroring_safety_level tinyint?; mirroring_safety_level_desc nvarchar(60)?; mirroring_safety_sequence int?;
    mirroring_partner_name nvarchar(128)?; mirroring_partner_instance nvarchar(128)?;
    mirroring_witness_name nvarchar(128)?; mirroring_witness_state tinyint?; mirroring_witness_state_desc nvarchar(60)?;
    mirroring_failover_lsn numeric(25,0)?; mirroring_connection_timeout int?; mirroring_redo_queue int?;
    mirroring_redo_queue_type nvarchar(60)?; mirroring_end_of_log_lsn numeric(25,0)?;
    mirroring_replication_lsn numeric(25,0)?";

/// One row for each database with nothing but its id.
fn per_database(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for entry in source.databases()? {
        rows.add().set("database_id", entry.id().0);
    }
    Ok(())
}

const SCOPED_CONFIGURATIONS: &str = "
    configuration_id int; name nvarchar(60); value sql_variant?; value_for_secondary sql_variant?; is_value_default bit = 1";

fn scoped_configurations(_: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    const KNOWN: [(i32, &str, i32); 4] = [
        (1, "MAXDOP", 0),
        (2, "LEGACY_CARDINALITY_ESTIMATION", 0),
        (3, "PARAMETER_SNIFFING", 1),
        (4, "QUERY_OPTIMIZER_HOTFIXES", 0),
    ];
    for (id, name, value) in KNOWN {
        rows.add()
            .set("configuration_id", id)
            .set("name", name)
            .set("value", value);
    }
    Ok(())
}

const QUERY_STORE: &str = "
    desired_state smallint = 0; desired_state_desc nvarchar(60)? = OFF; actual_state smallint = 0;
    actual_state_desc nvarchar(60)? = OFF; readonly_reason int? = 0; current_storage_size_mb bigint? = 0;
    flush_interval_seconds bigint? = 900; interval_length_minutes bigint? = 60; max_storage_size_mb bigint? = 0;
    stale_query_threshold_days bigint? = 0; max_plans_per_query bigint? = 0; query_capture_mode smallint = 2;
    query_capture_mode_desc nvarchar(60)? = NONE; size_based_cleanup_mode smallint = 0;
    size_based_cleanup_mode_desc nvarchar(60)? = OFF; wait_stats_capture_mode smallint? = 0;
    wait_stats_capture_mode_desc nvarchar(60)? = OFF; actual_state_additional_info nvarchar(4000)?";

fn query_store(_: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    rows.add();
    Ok(())
}

const FILE_SPACE: &str = "
    database_id int?; file_id smallint?; filegroup_id smallint?; total_page_count bigint?; allocated_extent_page_count bigint?;
    unallocated_extent_page_count bigint?; version_store_reserved_page_count bigint? = 0;
    user_object_reserved_page_count bigint? = 0; internal_object_reserved_page_count bigint? = 0;
    mixed_extent_page_count bigint? = 0; modified_extent_page_count bigint? = 0; pdw_node_id int?; distribution_id int?";

fn file_space(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for file in files_of(&*source.entry()?).iter().filter(|f| !f.is_log()) {
        rows.add()
            .set("database_id", source.database.0)
            .set("file_id", file.id)
            .set("filegroup_id", file.filegroup)
            .set("total_page_count", file.size_pages)
            .set("allocated_extent_page_count", file.used_pages)
            .set(
                "unallocated_extent_page_count",
                file.size_pages.saturating_sub(file.used_pages),
            )
            .set("user_object_reserved_page_count", file.used_pages);
    }
    Ok(())
}
