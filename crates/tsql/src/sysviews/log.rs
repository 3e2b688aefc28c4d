//! The log, file I/O and version store of each database.

use super::counters::milliseconds;
use super::databases::{delayed_setting, files_of, recovery_model};
use super::define::{Rows, View};
use super::source::Source;
use crate::error::Result;
use daruma_base::Lsn;
use daruma_storage::{Database, LogStats, PinKind, VlfInfo};

pub(super) const VIEWS: &[View] = &[
    View::sys("dm_db_log_space_usage", SPACE_USAGE, space_usage),
    View::function("dm_db_log_stats", (1, 1), LOG_STATS, log_stats),
    View::function("dm_db_log_info", (1, 1), LOG_INFO, log_info),
    View::function("dm_io_virtual_file_stats", (2, 2), FILE_STATS, file_stats),
    View::sys("dm_tran_delayed_durability", DELAYED, delayed_durability),
    View::sys(
        "dm_tran_persistent_version_store_stats",
        VERSION_STORE,
        version_store,
    ),
    View::sys("dm_tran_aborted_transactions", ABORTED, aborted),
    View::sys(
        "dm_tran_version_store_space_usage",
        VERSION_SPACE,
        version_space,
    ),
];

const SPACE_USAGE: &str = "
    database_id int; total_log_size_in_bytes bigint; used_log_space_in_bytes bigint; used_log_space_in_percent real;
    log_space_in_bytes_since_last_backup bigint";

fn space_usage(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let storage = source.open()?.storage;
    let log = storage.log_stats();
    rows.add()
        .set("database_id", source.database.0)
        .set("total_log_size_in_bytes", log.size_bytes)
        .set("used_log_space_in_bytes", log.used_bytes)
        .set(
            "used_log_space_in_percent",
            percent(log.used_bytes, log.size_bytes),
        )
        .set(
            "log_space_in_bytes_since_last_backup",
            since_backup(&storage, &log),
        );
    Ok(())
}

/// Log that the next log backup has to save; all of it without a log chain.
fn since_backup(storage: &Database, log: &LogStats) -> u64 {
    match storage.log_backup_start() {
        Lsn::NONE => log.used_bytes,
        from => log.end_lsn.0.saturating_sub(from.0),
    }
}

pub(crate) fn percent(part: u64, whole: u64) -> f64 {
    match whole {
        0 => 0.0,
        whole => part as f64 * 100.0 / whole as f64,
    }
}

const MIB: f64 = 1_048_576.0;

const LOG_STATS: &str = "
    database_id int; recovery_model nvarchar(60)?; log_min_lsn nvarchar(24)?; log_end_lsn nvarchar(24)?;
    current_vlf_sequence_number bigint?; current_vlf_size_mb float?; total_vlf_count bigint?; total_log_size_mb float?;
    active_vlf_count bigint?; active_log_size_mb float?; log_truncation_holdup_reason nvarchar(60)?;
    log_backup_time datetime?; log_backup_lsn nvarchar(24)?; log_since_last_log_backup_mb float?;
    log_checkpoint_lsn nvarchar(24)?; log_since_last_checkpoint_mb float?; log_recovery_lsn nvarchar(24)?;
    log_recovery_size_mb float?; recovery_vlf_count bigint?; log_state int? = 1; log_state_desc nvarchar(60)? = DURABLE";

fn log_stats(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for entry in source.databases_of_argument(0)? {
        let Ok(open) = entry.open() else { continue };
        let log = open.storage.log_stats();
        let vlfs = open.storage.vlfs();
        let current = vlfs.iter().max_by_key(|v| v.sequence);
        let recovery = vlfs
            .iter()
            .filter(|v| v.active && v.start_lsn + v.size > log.recovery_lsn.0)
            .count();
        let since = |lsn: Lsn| log.end_lsn.0.saturating_sub(lsn.0) as f64 / MIB;
        rows.add()
            .set("database_id", entry.id().0)
            .set(
                "recovery_model",
                recovery_model(open.storage.settings().recovery_model).1,
            )
            .set("log_min_lsn", lsn_text(log.min_lsn))
            .set("log_end_lsn", lsn_text(log.end_lsn))
            .set(
                "current_vlf_sequence_number",
                current.map_or(0, |v| v.sequence),
            )
            .set(
                "current_vlf_size_mb",
                current.map_or(0.0, |v| v.size as f64 / MIB),
            )
            .set("total_vlf_count", vlfs.len())
            .set("total_log_size_mb", log.size_bytes as f64 / MIB)
            .set("active_vlf_count", vlfs.iter().filter(|v| v.active).count())
            .set("active_log_size_mb", log.active_bytes as f64 / MIB)
            .set("log_truncation_holdup_reason", log.reuse_wait)
            .set(
                "log_since_last_log_backup_mb",
                since_backup(&open.storage, &log) as f64 / MIB,
            )
            .set("log_checkpoint_lsn", lsn_text(log.checkpoint_lsn))
            .set("log_since_last_checkpoint_mb", since(log.checkpoint_lsn))
            .set("log_recovery_lsn", lsn_text(log.recovery_lsn))
            .set("log_recovery_size_mb", since(log.recovery_lsn))
            .set("recovery_vlf_count", recovery);
        let chain = open.storage.log_backup_start();
        if !chain.is_none() {
            rows.set("log_backup_lsn", lsn_text(chain))
                .set("log_backup_time", source.time(entry.last_log_backup_utc()));
        }
    }
    Ok(())
}

/// `00000001:0000abcd:0001`, the product's form of a log sequence number; all zeros for none.
pub(crate) fn lsn_text(lsn: Lsn) -> String {
    format!("{lsn}:{:04x}", u8::from(!lsn.is_none()))
}

const LOG_INFO: &str = "
    database_id int; file_id smallint; vlf_begin_offset bigint; vlf_size_mb float; vlf_sequence_number bigint;
    vlf_active bit; vlf_status int; vlf_parity tinyint; vlf_first_lsn nvarchar(48)?; vlf_create_lsn nvarchar(48)?;
    vlf_encryptor_thumbprint varbinary(20)?";

/// Status 2: needed; 0: reusable; 1: never used.
fn log_info(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for entry in source.databases_of_argument(0)? {
        let Ok(open) = entry.open() else { continue };
        let file = files_of(&entry)
            .iter()
            .find(|f| f.is_log())
            .map_or(2, |f| f.id);
        for vlf in open.storage.vlfs() {
            let used = vlf.sequence > 0;
            rows.add()
                .set("database_id", entry.id().0)
                .set("file_id", file)
                .set("vlf_begin_offset", vlf.offset)
                .set("vlf_size_mb", vlf.size as f64 / MIB)
                .set("vlf_sequence_number", vlf.sequence)
                .set("vlf_active", vlf.active)
                .set("vlf_status", vlf_status(&vlf))
                .set("vlf_parity", vlf_parity(&vlf))
                .set(
                    "vlf_first_lsn",
                    lsn_text(Lsn(if used { vlf.start_lsn } else { 0 })),
                )
                .set("vlf_create_lsn", lsn_text(Lsn::NONE));
        }
    }
    Ok(())
}

pub(crate) fn vlf_status(vlf: &VlfInfo) -> i32 {
    match (vlf.active, vlf.sequence) {
        (true, _) => 2,
        (false, 0) => 1,
        (false, _) => 0,
    }
}

/// 64 and 128 in turns, 0 before the first use.
pub(crate) fn vlf_parity(vlf: &VlfInfo) -> i32 {
    match vlf.sequence {
        0 => 0,
        n if n % 2 == 1 => 64,
        _ => 128,
    }
}

/// A view of our own: what a crash at this moment would cost.
const DELAYED: &str = "
    database_id int; delayed_durability int; delayed_durability_desc nvarchar(60); pending_transaction_count bigint;
    unhardened_log_bytes bigint; oldest_pending_age_ms float?; max_age_ms int; max_log_kb int;
    delayed_transaction_count bigint; hardened_lsn nvarchar(24); end_lsn nvarchar(24); last_commit_lsn nvarchar(24)?;
    last_commit_time datetime2(7)?";

fn delayed_durability(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for entry in source.instance()?.databases() {
        let Ok(open) = entry.open() else { continue };
        if entry.id() == crate::instance::TEMPDB {
            continue;
        }
        let settings = open.storage.settings();
        let pending = open.storage.delayed_stats();
        let log = open.storage.log_stats();
        let commit = open.storage.last_commit();
        let (setting, description) = delayed_setting(settings.delayed_durability);
        rows.add()
            .set("database_id", entry.id().0)
            .set("delayed_durability", setting)
            .set("delayed_durability_desc", description)
            .set("pending_transaction_count", pending.transactions)
            .set("unhardened_log_bytes", pending.bytes)
            .set(
                "oldest_pending_age_ms",
                pending.oldest_age.map(|age| age.as_secs_f64() * 1_000.0),
            )
            .set("max_age_ms", settings.delayed_milliseconds)
            .set("max_log_kb", settings.delayed_kilobytes)
            .set("delayed_transaction_count", pending.total)
            .set("hardened_lsn", lsn_text(log.hardened_lsn))
            .set("end_lsn", lsn_text(log.end_lsn));
        if !commit.lsn.is_none() {
            rows.set("last_commit_lsn", lsn_text(commit.lsn))
                .set("last_commit_time", source.time(commit.utc_100ns));
        }
    }
    Ok(())
}

const FILE_STATS: &str = "
    database_id smallint?; file_id smallint?; sample_ms bigint; num_of_reads bigint; num_of_bytes_read bigint;
    io_stall_read_ms bigint; io_stall_queued_read_ms bigint; num_of_writes bigint; num_of_bytes_written bigint;
    io_stall_write_ms bigint; io_stall_queued_write_ms bigint; io_stall bigint; size_on_disk_bytes bigint;
    file_handle varbinary(8)";

fn file_stats(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let instance = source.instance()?;
    let running_ms = (instance.now_utc() - instance.started_utc()) / 10_000;
    let wanted = source.integer_argument(1);
    for entry in source.databases_of_argument(0)? {
        for file in files_of(&entry)
            .iter()
            .filter(|f| wanted.is_none_or(|id| id == i64::from(f.id)))
        {
            rows.add()
                .set("database_id", entry.id().0)
                .set("file_id", file.id)
                .set("sample_ms", running_ms)
                .set("num_of_reads", file.io.reads)
                .set("num_of_bytes_read", file.io.bytes_read)
                .set("io_stall_read_ms", milliseconds(file.io.read_time))
                .set("num_of_writes", file.io.writes)
                .set("num_of_bytes_written", file.io.bytes_written)
                .set("io_stall_write_ms", milliseconds(file.io.write_time))
                .set(
                    "io_stall",
                    milliseconds(file.io.read_time + file.io.write_time),
                )
                .set("size_on_disk_bytes", file.size_pages * 8_192);
        }
    }
    Ok(())
}

const VERSION_STORE: &str = "
    database_id int?; pvs_filegroup_id smallint?; persistent_version_store_size_kb bigint? = 0;
    online_index_version_store_size_kb bigint? = 0; current_aborted_transaction_count bigint? = 0;
    oldest_active_transaction_id bigint? = 0; oldest_aborted_transaction_id bigint? = 0; min_transaction_timestamp bigint? = 0;
    online_index_min_transaction_timestamp bigint? = 0; secondary_low_water_mark bigint? = 0;
    offrow_version_cleaner_start_time datetime2(7)?; offrow_version_cleaner_end_time datetime2(7)?;
    aborted_version_cleaner_start_time datetime2(7)?; aborted_version_cleaner_end_time datetime2(7)?;
    pvs_off_row_page_skipped_low_water_mark bigint? = 0; pvs_off_row_page_skipped_transaction_not_cleaned bigint? = 0;
    pvs_off_row_page_skipped_oldest_active_xdesid bigint? = 0; pvs_off_row_page_skipped_min_useful_xts bigint? = 0;
    pvs_off_row_page_skipped_oldest_snapshot bigint? = 0; pvs_off_row_page_skipped_oldest_aborted_xdesid bigint? = 0";

fn version_store(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for entry in source.instance()?.databases() {
        let Ok(open) = entry.open() else { continue };
        let stats = open.storage.version_stats();
        let (pages, aborted) = open.storage.sweep_times();
        let pins = open.storage.version_pins();
        let waiting = |kind| {
            pins.iter()
                .filter(|p| p.kind == kind)
                .map(|p| p.pages)
                .sum::<u64>()
        };
        let id = |txn: Option<daruma_base::TxnId>| txn.map_or(0, |t| t.0);
        rows.add()
            .set("database_id", entry.id().0)
            .set("pvs_filegroup_id", stats.filegroup)
            .set(
                "persistent_version_store_size_kb",
                stats.pages * 8 + stats.memory_bytes / 1_024,
            )
            .set("current_aborted_transaction_count", stats.aborted)
            .set("oldest_active_transaction_id", id(stats.oldest_active))
            .set("oldest_aborted_transaction_id", id(stats.oldest_aborted))
            .set(
                "min_transaction_timestamp",
                stats.oldest_snapshot.unwrap_or(0),
            )
            .set(
                "offrow_version_cleaner_start_time",
                source.time(pages.begun_utc_100ns),
            )
            .set(
                "offrow_version_cleaner_end_time",
                source.time(pages.ended_utc_100ns),
            )
            .set(
                "aborted_version_cleaner_start_time",
                source.time(aborted.begun_utc_100ns),
            )
            .set(
                "aborted_version_cleaner_end_time",
                source.time(aborted.ended_utc_100ns),
            )
            .set(
                "pvs_off_row_page_skipped_oldest_active_xdesid",
                waiting(PinKind::ActiveTransaction),
            )
            .set(
                "pvs_off_row_page_skipped_min_useful_xts",
                waiting(PinKind::Snapshot),
            )
            .set(
                "pvs_off_row_page_skipped_oldest_aborted_xdesid",
                waiting(PinKind::AbortedTransaction),
            );
    }
    Ok(())
}

const ABORTED: &str = "
    transaction_id int; database_id int; begin_xact_lsn numeric(25,0)?; end_xact_lsn numeric(25,0)?; begin_time datetime?;
    nest_aborted bit";
const VERSION_SPACE: &str = "database_id int; reserved_page_count bigint; reserved_space_kb bigint";

fn version_space(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for entry in source.instance()?.databases() {
        let Ok(open) = entry.open() else { continue };
        // Under accelerated recovery the versions are the database's own (dm_tran_persistent_version_store_stats).
        let bytes = match open.storage.settings().accelerated_recovery {
            true => 0,
            false => open.storage.version_stats().memory_bytes,
        };
        rows.add()
            .set("database_id", entry.id().0)
            .set("reserved_page_count", bytes.div_ceil(8_192))
            .set("reserved_space_kb", bytes.div_ceil(8_192) * 8);
    }
    Ok(())
}

fn aborted(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for entry in source.instance()?.databases() {
        let Ok(open) = entry.open() else { continue };
        for txn in open.storage.aborted_transactions() {
            rows.add()
                .set("transaction_id", txn.id.0)
                .set("database_id", entry.id().0)
                .set("begin_xact_lsn", txn.first_lsn.0)
                .set("end_xact_lsn", txn.abort_lsn.0)
                .set("begin_time", source.time(txn.begun_utc_100ns))
                .set("nest_aborted", txn.is_nested);
        }
    }
    Ok(())
}
