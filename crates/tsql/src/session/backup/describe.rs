//! RESTORE HEADERONLY, FILELISTONLY, LABELONLY and VERIFYONLY.

use super::options::{self, Options};
use super::{Watch, say};
use crate::error::Result;
use crate::instance::format_local;
use crate::messages;
use crate::session::Execution;
use crate::sysviews::{Rows, Shape};
use daruma_backup::{BackupKind, MediaInfo, MediaSet, SetInfo};
use daruma_catalog::DatabaseDef;
use daruma_storage::RecoveryModel;
use daruma_syntax::ast;
use daruma_value::temporal::{Moment, TICKS_PER_DAY};

const HEADER: &str = "
    BackupName nvarchar(128)?; BackupDescription nvarchar(255)?; BackupType smallint; ExpirationDate datetime?;
    Compressed bit; Position smallint; DeviceType tinyint = 2; UserName nvarchar(128)?; ServerName nvarchar(128)?;
    DatabaseName nvarchar(128)?; DatabaseVersion int = 957; DatabaseCreationDate datetime?; BackupSize numeric(20,0);
    FirstLSN numeric(25,0)?; LastLSN numeric(25,0)?; CheckpointLSN numeric(25,0)?; DatabaseBackupLSN numeric(25,0)?;
    BackupStartDate datetime?; BackupFinishDate datetime?; SortOrder smallint = 52; CodePage smallint;
    UnicodeLocaleId int = 1033; UnicodeComparisonStyle int = 196609; CompatibilityLevel tinyint; SoftwareVendorId int = 4608;
    SoftwareVersionMajor int = 16; SoftwareVersionMinor int; SoftwareVersionBuild int = 4100; MachineName nvarchar(128)?;
    Flags int; BindingID uniqueidentifier; RecoveryForkID uniqueidentifier?; Collation nvarchar(128)?;
    FamilyGUID uniqueidentifier; HasBulkLoggedData bit; IsSnapshot bit; IsReadOnly bit; IsSingleUser bit;
    HasBackupChecksums bit = 1; IsDamaged bit; BeginsLogChain bit; HasIncompleteMetaData bit; IsForceOffline bit;
    IsCopyOnly bit; FirstRecoveryForkID uniqueidentifier?; ForkPointLSN numeric(25,0)?; RecoveryModel nvarchar(60);
    DifferentialBaseLSN numeric(25,0)?; DifferentialBaseGUID uniqueidentifier?; BackupTypeDescription nvarchar(60)?;
    BackupSetGUID uniqueidentifier?; CompressedBackupSize bigint; Containment tinyint; KeyAlgorithm nvarchar(32)?;
    EncryptorThumbprint varbinary(20)?; EncryptorType nvarchar(32)?; LastValidRestoreTime datetime?; TimeZone nvarchar(32)?;
    CompressionAlgorithm nvarchar(32)?";

const FILE_LIST: &str = "
    LogicalName nvarchar(128)?; PhysicalName nvarchar(260)?; Type char(1); FileGroupName nvarchar(128)?; Size numeric(20,0)?;
    MaxSize numeric(20,0)?; FileId bigint; CreateLSN numeric(25,0) = 0; DropLSN numeric(25,0)? = 0; UniqueId uniqueidentifier;
    ReadOnlyLSN numeric(25,0)? = 0; ReadWriteLSN numeric(25,0)? = 0; BackupSizeInBytes bigint; SourceBlockSize int = 4096;
    FileGroupId int; LogGroupGUID uniqueidentifier?; DifferentialBaseLSN numeric(25,0)?; DifferentialBaseGUID uniqueidentifier?;
    IsReadOnly bit; IsPresent bit = 1; TDEThumbprint varbinary(32)?; SnapshotUrl nvarchar(360)?";

const LABEL: &str = "
    MediaName nvarchar(128)?; MediaSetId uniqueidentifier; FamilyCount int; FamilySequenceNumber int;
    MediaFamilyId uniqueidentifier; MediaSequenceNumber int = 1; MediaLabelPresent tinyint; MediaDescription nvarchar(255)?;
    SoftwareName nvarchar(128)?; SoftwareVendorId int = 4608; MediaDate datetime?; Mirror_Count int; IsCompressed bit";

pub(super) fn describe(ex: &Execution<'_>, statement: &ast::Restore) -> Result<()> {
    let options = Options::evaluate(ex, &statement.options)?;
    options.check(options::OF_DESCRIPTION)?;
    let devices = options::devices(ex, &statement.devices, &options)?;
    let position = options.number("FILE").map(|n| n as u32);
    if statement.kind == ast::RestoreKind::VerifyOnly {
        return verify(ex, &options, &devices, position.unwrap_or(1));
    }
    let media = MediaSet::open_any(&devices).map_err(super::sql_error)?;
    let info = |position| media.set_info(position).map_err(super::sql_error);
    match statement.kind {
        ast::RestoreKind::LabelOnly => show(ex, LABEL, |rows| {
            label(ex, rows, media.info());
            Ok(())
        }),
        ast::RestoreKind::HeaderOnly => show(ex, HEADER, |rows| {
            let positions = position.map_or_else(|| media.positions(), |p| vec![p]);
            for position in positions {
                header(ex, rows, &info(position)?);
            }
            Ok(())
        }),
        ast::RestoreKind::FileListOnly => {
            let info = info(position.unwrap_or(1))?;
            show(ex, FILE_LIST, |rows| {
                file_list(rows, &info);
                Ok(())
            })
        }
        _ => Err(messages::not_supported("RESTORE REWINDONLY")),
    }
}

fn show(
    ex: &Execution<'_>,
    columns: &'static str,
    fill: impl FnOnce(&mut Rows<'_>) -> Result<()>,
) -> Result<()> {
    let shape = Shape::new(columns);
    let rows = shape.fill(fill)?;
    ex.send_columns(&shape.columns)?;
    rows.iter().try_for_each(|row| ex.send_row(row))?;
    let done = ex.done(
        crate::session::query::COMMAND_SELECT,
        Some(rows.len() as u64),
        false,
    );
    done.map_err(|_| crate::session::query::client_gone())
}

fn verify(
    ex: &Execution<'_>,
    options: &Options,
    devices: &[std::sync::Arc<dyn daruma_backup::Device>],
    position: u32,
) -> Result<()> {
    let watch = Watch::new(ex, "RESTORE VERIFYON", options.stats());
    let media = MediaSet::open(devices).map_err(super::sql_error)?;
    let secret = options.secret(ex)?;
    let set = media.unlock(position, secret.as_ref());
    let set = options.with_damage(set.map_err(super::sql_error)?);
    let processors = std::thread::available_parallelism().map_or(2, |n| n.get());
    daruma_backup::verify(&set, processors, &mut |p| watch.tick(p))
        .map_err(|e| watch.explain(e))?;
    watch.tell_all()?;
    say(ex, messages::error(3262, &[&position]))
}

/// Local time of an instant; 0 is "never".
pub(super) fn local(ex: &Execution<'_>, utc_100ns: i64) -> Option<Moment> {
    let offset = ex.instance().env().clock.local_offset_minutes();
    let local = i128::from(utc_100ns) + i128::from(offset) * 600_000_000;
    match utc_100ns {
        0 => None,
        _ => Moment::from_total_ticks(719_162 * i128::from(TICKS_PER_DAY) + local),
    }
}

/// `2026-11-22 01:02:03.00` for statements of our own.
pub(super) fn local_text(ex: &Execution<'_>, utc_100ns: i64) -> String {
    format_local(utc_100ns, ex.instance().env().clock.local_offset_minutes())
}

pub(super) fn guid_of(number: u64) -> Vec<u8> {
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.resize(16, 0);
    bytes
}

fn definition(info: &SetInfo) -> Option<DatabaseDef> {
    serde_json::from_str(&info.definition).ok()
}

pub(super) fn recovery_model(info: &SetInfo) -> &'static str {
    match info.recovery_model {
        n if n == RecoveryModel::Full as u8 => "FULL",
        n if n == RecoveryModel::BulkLogged as u8 => "BULK-LOGGED",
        _ => "SIMPLE",
    }
}

fn header(ex: &Execution<'_>, rows: &mut Rows<'_>, info: &SetInfo) {
    let (kind, words) = match info.kind {
        BackupKind::Full => (1, "Database"),
        BackupKind::Log => (2, "Transaction Log"),
        BackupKind::Differential => (5, "Database Differential"),
    };
    let def = definition(info);
    let lsn = |n: u64| (n != 0).then_some(n);
    let flags =
        16 + 512 * u32::from(info.kind == BackupKind::Full) + 1024 * u32::from(info.copy_only);
    rows.add()
        .set("BackupName", info.name.as_ref())
        .set("BackupDescription", info.description.as_ref())
        .set("BackupType", kind)
        .set("ExpirationDate", cell(ex, info.expires_utc.unwrap_or(0)))
        .set("Compressed", info.compression.is_some())
        .set("Position", info.position)
        .set("UserName", &info.user)
        .set("ServerName", &info.server)
        .set("DatabaseName", &info.database)
        .set("DatabaseCreationDate", cell(ex, info.database_created_utc))
        .set("BackupSize", info.plain_bytes)
        .set("FirstLSN", info.first_lsn)
        .set("LastLSN", info.last_lsn)
        .set("CheckpointLSN", info.checkpoint_lsn)
        .set("DatabaseBackupLSN", info.database_backup_lsn)
        .set("BackupStartDate", cell(ex, info.started_utc))
        .set("BackupFinishDate", cell(ex, info.finished_utc))
        .set(
            "CompatibilityLevel",
            def.as_ref().map_or(160, |d| d.compatibility_level),
        )
        .set("MachineName", &info.server)
        .set("Flags", flags)
        .set("BindingID", guid_of(info.database_guid))
        .set("RecoveryForkID", guid_of(info.fork))
        .set("Collation", def.map(|d| d.collation.name().to_string()))
        .set("FamilyGUID", guid_of(info.database_guid))
        .set("IsDamaged", info.damaged)
        .set("BeginsLogChain", info.begins_chain)
        .set("IsCopyOnly", info.copy_only)
        .set("FirstRecoveryForkID", guid_of(info.fork))
        .set("ForkPointLSN", lsn(info.fork_lsn))
        .set("RecoveryModel", recovery_model(info))
        .set("DifferentialBaseLSN", lsn(info.base_lsn))
        .set("DifferentialBaseGUID", info.base_set.map(|s| s.0.to_vec()))
        .set("BackupTypeDescription", words)
        .set("BackupSetGUID", info.set.0.to_vec())
        .set("CompressedBackupSize", info.stored_bytes)
        .set("LastValidRestoreTime", cell(ex, info.finished_utc))
        .set("CompressionAlgorithm", info.compression.as_ref())
        .set(
            "KeyAlgorithm",
            info.encryption.as_ref().map(|e| e.algorithm.name()),
        )
        .set(
            "EncryptorThumbprint",
            info.encryption.as_ref().map(|e| e.thumbprint.to_vec()),
        )
        .set(
            "EncryptorType",
            info.encryption.as_ref().map(|e| e.encryptor()),
        );
}

fn cell(ex: &Execution<'_>, utc: i64) -> crate::sysviews::Cell {
    crate::sysviews::Cell::Moment(local(ex, utc))
}

fn file_list(rows: &mut Rows<'_>, info: &SetInfo) {
    let Some(def) = definition(info) else { return };
    for file in &def.files {
        let meta = info.files.iter().find(|m| m.id == file.id);
        let is_log = file.filegroup == 0;
        let group = def.filegroups.iter().find(|g| g.id == file.filegroup);
        let pages = match is_log {
            true => info.log_pages,
            false => meta.map_or(0, |m| m.pages),
        };
        rows.add()
            .set("LogicalName", &file.logical_name)
            .set("PhysicalName", file.path.display().to_string())
            .set("Type", if is_log { "L" } else { "D" })
            .set("FileGroupName", group.map(|g| &g.name))
            .set(
                "Size",
                meta.map_or(file.size_pages, |m| m.size_pages) * 8_192,
            )
            .set(
                "MaxSize",
                file.max_pages.map_or(35_184_372_080_640, |p| p * 8_192),
            )
            .set("FileId", file.id)
            .set("UniqueId", guid_of(info.database_guid ^ u64::from(file.id)))
            .set("BackupSizeInBytes", pages * 8_192)
            .set("FileGroupId", file.filegroup)
            .set("DifferentialBaseLSN", info.database_backup_lsn)
            .set("DifferentialBaseGUID", info.base_set.map(|s| s.0.to_vec()))
            .set("IsReadOnly", group.is_some_and(|g| g.read_only));
    }
}

fn label(ex: &Execution<'_>, rows: &mut Rows<'_>, info: &MediaInfo) {
    rows.add()
        .set("MediaName", info.name.as_ref())
        .set("MediaSetId", info.media.0.to_vec())
        .set("FamilyCount", info.families)
        .set("FamilySequenceNumber", info.family)
        .set(
            "MediaFamilyId",
            guid_of(info.media.short() ^ u64::from(info.family)),
        )
        .set("MediaLabelPresent", info.name.is_some())
        .set("MediaDescription", info.description.as_ref())
        .set("SoftwareName", &info.software)
        .set("MediaDate", cell(ex, info.created_utc))
        .set("Mirror_Count", info.mirrors + 1)
        .set("IsCompressed", info.compressed);
}
