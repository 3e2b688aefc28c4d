//! Backup and restore history: tables of msdb, written by a session of the server's own.
//!
//! A history that cannot be written is told in the error log and is no reason to call a good backup a failed one.

use super::describe::{guid_of, local_text, recovery_model};
use crate::error::Result;
use crate::instance::{Instance, MSDB};
use crate::session::{Execution, run_as_administrator};
use daruma_backup::{BackupKind, Destination, Envelope, SetInfo};
use std::sync::Arc;

/// Each with the table that is made last: where that is, the others are.
const TABLES: [(&str, &str); 4] = [
    ("restorehistory", HISTORY),
    ("suspect_pages", SUSPECT_PAGES),
    ("log_shipping_secondary_databases", super::msdb::TABLES),
    ("sysssispackages", super::msdb::PACKAGES),
];

const SUSPECT_PAGES: &str = "
CREATE TABLE dbo.suspect_pages (database_id int NOT NULL, file_id int NOT NULL, page_id bigint NOT NULL, event_type int NOT NULL,
    error_count int NOT NULL, last_update_date datetime NOT NULL DEFAULT GETDATE(), PRIMARY KEY (database_id, file_id, page_id));
";

const HISTORY: &str = "
CREATE TABLE dbo.backupmediaset (media_set_id int IDENTITY NOT NULL PRIMARY KEY, media_uuid uniqueidentifier NULL,
    media_family_count tinyint NULL, name nvarchar(128) NULL, description nvarchar(255) NULL, software_name nvarchar(128) NULL,
    software_vendor_id int NULL, MTF_major_version tinyint NULL, mirror_count tinyint NULL, is_password_protected bit NULL,
    is_compressed bit NULL, is_encrypted bit NULL);
CREATE TABLE dbo.backupmediafamily (media_set_id int NOT NULL, family_sequence_number tinyint NOT NULL,
    media_family_id uniqueidentifier NULL, media_count int NULL, logical_device_name nvarchar(128) NULL,
    physical_device_name nvarchar(260) NULL, device_type tinyint NULL, physical_block_size int NULL, mirror tinyint NOT NULL,
    PRIMARY KEY (media_set_id, family_sequence_number, mirror));
CREATE TABLE dbo.backupset (backup_set_id int IDENTITY NOT NULL PRIMARY KEY, backup_set_uuid uniqueidentifier NOT NULL,
    media_set_id int NOT NULL, first_family_number tinyint NULL, first_media_number smallint NULL, last_family_number tinyint NULL,
    last_media_number smallint NULL, catalog_family_number tinyint NULL, catalog_media_number smallint NULL, position int NULL,
    expiration_date datetime NULL, software_vendor_id int NULL, name nvarchar(128) NULL, description nvarchar(255) NULL,
    user_name nvarchar(128) NULL, software_major_version tinyint NULL, software_minor_version tinyint NULL,
    software_build_version smallint NULL, time_zone smallint NULL, mtf_minor_version tinyint NULL, first_lsn numeric(25, 0) NULL,
    last_lsn numeric(25, 0) NULL, checkpoint_lsn numeric(25, 0) NULL, database_backup_lsn numeric(25, 0) NULL,
    database_creation_date datetime NULL, backup_start_date datetime NULL, backup_finish_date datetime NULL, type char(1) NULL,
    sort_order smallint NULL, code_page smallint NULL, compatibility_level tinyint NULL, database_version int NULL,
    backup_size numeric(20, 0) NULL, database_name nvarchar(128) NULL, server_name nvarchar(128) NULL,
    machine_name nvarchar(128) NULL, flags int NULL, unicode_locale int NULL, unicode_compare_style int NULL,
    collation_name nvarchar(128) NULL, is_password_protected bit NULL, recovery_model nvarchar(60) NULL,
    has_bulk_logged_data bit NULL, is_snapshot bit NULL, is_readonly bit NULL, is_single_user bit NULL,
    has_backup_checksums bit NULL, is_damaged bit NULL, begins_log_chain bit NULL, has_incomplete_metadata bit NULL,
    is_force_offline bit NULL, is_copy_only bit NULL, first_recovery_fork_guid uniqueidentifier NULL,
    last_recovery_fork_guid uniqueidentifier NULL, fork_point_lsn numeric(25, 0) NULL, database_guid uniqueidentifier NULL,
    family_guid uniqueidentifier NULL, differential_base_lsn numeric(25, 0) NULL, differential_base_guid uniqueidentifier NULL,
    compressed_backup_size numeric(20, 0) NULL, key_algorithm nvarchar(32) NULL, encryptor_thumbprint varbinary(20) NULL,
    encryptor_type nvarchar(32) NULL, last_valid_restore_time datetime NULL, compression_algorithm nvarchar(32) NULL);
CREATE TABLE dbo.backupfile (backup_set_id int NOT NULL, first_family_number tinyint NULL, first_media_number smallint NULL,
    filegroup_name nvarchar(128) NULL, page_size int NULL, file_number numeric(10, 0) NOT NULL, backed_up_page_count numeric(10, 0) NULL,
    file_type char(1) NULL, source_file_block_size numeric(10, 0) NULL, file_size numeric(20, 0) NULL, logical_name nvarchar(128) NULL,
    physical_drive nvarchar(260) NULL, physical_name nvarchar(260) NULL, state tinyint NULL, state_desc nvarchar(64) NULL,
    backup_size numeric(20, 0) NULL, is_present bit NULL, PRIMARY KEY (backup_set_id, file_number));
CREATE TABLE dbo.restorehistory (restore_history_id int IDENTITY NOT NULL PRIMARY KEY, restore_date datetime NULL,
    destination_database_name nvarchar(128) NULL, user_name nvarchar(128) NULL, backup_set_id int NOT NULL, restore_type char(1) NULL,
    replace bit NULL, recovery bit NULL, restart bit NULL, stop_at datetime NULL, device_count tinyint NULL,
    stop_at_mark_name nvarchar(128) NULL, stop_before bit NULL);
";

/// Creates the tables in msdb that are not there yet.
pub(crate) fn prepare(instance: &Arc<Instance>) -> Result<()> {
    let msdb = instance.open_database(MSDB)?;
    let there = msdb.catalog.current();
    for (last, tables) in TABLES {
        if !there.objects().any(|o| o.name == last) {
            run(instance, &format!("BEGIN TRANSACTION {tables} COMMIT"))?;
        }
    }
    Ok(())
}

/// Runs a batch in msdb. The first error is the result.
pub(super) fn run(instance: &Arc<Instance>, batch: &str) -> Result<()> {
    run_as_administrator(instance, "msdb", batch)
}

fn record(ex: &Execution<'_>, batch: &str) {
    if let Err(error) = run(&ex.state.instance, batch) {
        let source = format!("spid{}", ex.spid());
        let text = format!("The backup history in msdb could not be written: {error}");
        ex.instance().log.write(&source, &text);
    }
}

fn text(value: &str) -> String {
    format!("N'{}'", value.replace('\'', "''"))
}

fn optional(value: Option<&String>) -> String {
    value.map_or("NULL".into(), |v| text(v))
}

fn hex(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().map(|b| format!("{b:02X}")).collect();
    format!("0x{digits}")
}

fn guid(bytes: &[u8]) -> String {
    format!("CAST({} AS uniqueidentifier)", hex(bytes))
}

fn moment(ex: &Execution<'_>, utc: i64) -> String {
    match utc {
        0 => "NULL".into(),
        utc => format!("CAST('{}' AS datetime)", local_text(ex, utc)),
    }
}

fn kind_letter(kind: BackupKind) -> &'static str {
    match kind {
        BackupKind::Full => "D",
        BackupKind::Differential => "I",
        BackupKind::Log => "L",
    }
}

/// A backup that succeeded.
pub(super) fn backup(ex: &Execution<'_>, info: &SetInfo, destination: &Destination) {
    let mut batch = format!(
        "SET NOCOUNT ON DECLARE @media int, @set int BEGIN TRANSACTION
        INSERT dbo.backupmediaset (media_uuid, media_family_count, software_name, software_vendor_id, mirror_count, is_password_protected, is_compressed, is_encrypted)
        VALUES ({}, {}, N'Daruma', 4608, {}, 0, {}, {})
        SET @media = SCOPE_IDENTITY()\n",
        guid(&info.set.0),
        destination.devices.len(),
        destination.mirrors.len() + 1,
        u8::from(info.compression.is_some()),
        u8::from(info.encryption.is_some()),
    );
    let copies = std::iter::once(&destination.devices).chain(&destination.mirrors);
    for (mirror, devices) in copies.enumerate() {
        for (at, device) in devices.iter().enumerate() {
            batch.push_str(&format!(
                "INSERT dbo.backupmediafamily (media_set_id, family_sequence_number, media_family_id, media_count, physical_device_name, device_type, physical_block_size, mirror) VALUES (@media, {}, {}, 1, {}, {}, 4096, {mirror})\n",
                at + 1,
                guid(&guid_of(info.set.short() ^ at as u64)),
                text(device.name()),
                device.device_type(),
            ));
        }
    }
    batch.push_str(&set_row(ex, info));
    batch.push_str("SET @set = SCOPE_IDENTITY()\n");
    for file in &info.files {
        let is_log = file.filegroup == 0;
        let pages = if is_log { info.log_pages } else { file.pages };
        batch.push_str(&format!(
            "INSERT dbo.backupfile (backup_set_id, page_size, file_number, backed_up_page_count, file_type, file_size, logical_name, physical_name, state, state_desc, backup_size, is_present) VALUES (@set, 8192, {}, {pages}, '{}', {}, {}, {}, 0, N'ONLINE', {}, 1)\n",
            file.id,
            if is_log { 'L' } else { 'D' },
            file.size_pages * 8_192,
            text(&file.logical_name),
            text(&file.path),
            pages * 8_192,
        ));
    }
    batch.push_str("COMMIT");
    record(ex, &batch);
}

fn set_row(ex: &Execution<'_>, info: &SetInfo) -> String {
    let encryption = |show: fn(&Envelope) -> String| {
        let envelope = info.encryption.as_ref();
        envelope.map_or("NULL".to_string(), show)
    };
    let cells: Vec<(&str, String)> = vec![
        ("backup_set_uuid", guid(&info.set.0)),
        ("media_set_id", "@media".into()),
        ("position", info.position.to_string()),
        ("expiration_date", moment(ex, info.expires_utc.unwrap_or(0))),
        ("software_vendor_id", "4608".into()),
        ("name", optional(info.name.as_ref())),
        ("description", optional(info.description.as_ref())),
        ("user_name", text(&info.user)),
        ("software_major_version", "16".into()),
        ("first_lsn", info.first_lsn.to_string()),
        ("last_lsn", info.last_lsn.to_string()),
        ("checkpoint_lsn", info.checkpoint_lsn.to_string()),
        ("database_backup_lsn", info.database_backup_lsn.to_string()),
        (
            "database_creation_date",
            moment(ex, info.database_created_utc),
        ),
        ("backup_start_date", moment(ex, info.started_utc)),
        ("backup_finish_date", moment(ex, info.finished_utc)),
        ("type", format!("'{}'", kind_letter(info.kind))),
        ("compatibility_level", "160".into()),
        ("database_version", "957".into()),
        ("backup_size", info.plain_bytes.to_string()),
        ("compressed_backup_size", info.stored_bytes.to_string()),
        ("database_name", text(&info.database)),
        ("server_name", text(&info.server)),
        ("machine_name", text(&info.server)),
        ("recovery_model", text(recovery_model(info))),
        ("is_password_protected", "0".into()),
        ("is_snapshot", "0".into()),
        ("is_readonly", "0".into()),
        ("is_single_user", "0".into()),
        ("has_backup_checksums", "1".into()),
        ("is_damaged", u8::from(info.damaged).to_string()),
        ("begins_log_chain", u8::from(info.begins_chain).to_string()),
        ("has_incomplete_metadata", "0".into()),
        ("is_force_offline", u8::from(info.tail).to_string()),
        ("is_copy_only", u8::from(info.copy_only).to_string()),
        ("first_recovery_fork_guid", guid(&guid_of(info.fork))),
        ("last_recovery_fork_guid", guid(&guid_of(info.fork))),
        ("database_guid", guid(&guid_of(info.database_guid))),
        ("family_guid", guid(&guid_of(info.database_guid))),
        (
            "differential_base_lsn",
            match info.kind {
                BackupKind::Differential => info.base_lsn.to_string(),
                _ => "NULL".into(),
            },
        ),
        (
            "differential_base_guid",
            info.base_set.map_or("NULL".into(), |s| guid(&s.0)),
        ),
        ("key_algorithm", encryption(|e| text(e.algorithm.name()))),
        ("encryptor_thumbprint", encryption(|e| hex(&e.thumbprint))),
        ("encryptor_type", encryption(|e| text(e.encryptor()))),
        ("compression_algorithm", optional(info.compression.as_ref())),
    ];
    let names: Vec<&str> = cells.iter().map(|(name, _)| *name).collect();
    let values: Vec<&str> = cells.iter().map(|(_, value)| value.as_str()).collect();
    format!(
        "INSERT dbo.backupset ({}) VALUES ({})\n",
        names.join(", "),
        values.join(", ")
    )
}

pub(super) struct RestoreOptions {
    pub replace: bool,
    pub recovery: bool,
    pub stop_at: Option<i64>,
}

/// A restore that succeeded.
pub(super) fn restore(
    ex: &Execution<'_>,
    database: &str,
    info: &SetInfo,
    options: &RestoreOptions,
) {
    let set = guid(&info.set.0);
    let batch = format!(
        "SET NOCOUNT ON INSERT dbo.restorehistory (restore_date, destination_database_name, user_name, backup_set_id, restore_type, replace, recovery, restart, stop_at, device_count)
        VALUES (GETDATE(), {}, {}, COALESCE((SELECT MAX(backup_set_id) FROM dbo.backupset WHERE backup_set_uuid = {set}), 0), '{}', {}, {}, 0, {}, {})",
        text(database),
        text(&ex.state.entry.login.login),
        kind_letter(info.kind),
        u8::from(options.replace),
        u8::from(options.recovery),
        moment(ex, options.stop_at.unwrap_or(0)),
        info.manifest.len(),
    );
    record(ex, &batch);
}
