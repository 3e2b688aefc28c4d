//! DBCC commands that answer with rows or texts. Registered like procedures as `dbcc NAME`; their arguments are the
//! command's, without names.

use super::define::{Procedure, integer, send};
use crate::error::{Result, SqlError};
use crate::host::IsolationLevel;
use crate::instance::DatabaseEntry;
use crate::messages;
use crate::session::SystemCall;
use crate::sysviews::{lsn_text, percent, vlf_parity, vlf_status};
use daruma_base::Lsn;
use daruma_catalog::FileDef;
use daruma_storage::Database;
use daruma_value::DataType;
use daruma_value::temporal::format;
use std::sync::Arc;

pub(super) const PROCEDURES: &[Procedure] = &[
    Procedure::native(
        "dbcc SQLPERF",
        "@what nvarchar(128); @clear nvarchar(128) = NULL",
        sqlperf,
    ),
    Procedure::native("dbcc DBINFO", "@database nvarchar(128) = NULL", dbinfo),
    Procedure::native("dbcc LOGINFO", "@database nvarchar(128) = NULL", loginfo),
    Procedure::native(
        "dbcc SHRINKFILE",
        "@file nvarchar(128); @size nvarchar(128) = NULL; @how nvarchar(128) = NULL",
        shrinkfile,
    ),
    Procedure::native("dbcc OPENTRAN", "@database nvarchar(128) = NULL", opentran),
    Procedure::native("dbcc USEROPTIONS", "", useroptions),
    Procedure::native(
        "dbcc TRACESTATUS",
        "@flag int = NULL; @more int = NULL; @most int = NULL",
        tracestatus,
    ),
    Procedure::native(
        "dbcc INPUTBUFFER",
        "@session int; @request int = NULL",
        inputbuffer,
    ),
];

/// Are messages that are no errors unwanted?
fn is_quiet(call: &SystemCall<'_, '_>) -> bool {
    call.options.iter().any(|o| o.is("NO_INFOMSGS"))
}

/// The last line of a command, unless it is not wanted.
pub(super) fn completed(call: &SystemCall<'_, '_>) -> Result<i32> {
    if is_quiet(call) {
        return Ok(0);
    }
    call.message(messages::error(2528, &[]))?;
    Ok(0)
}

/// The database that an argument names (by name or id); 0 and NULL mean the current one. Error 7983 unless the session
/// owns it.
pub(super) fn database(call: &SystemCall<'_, '_>, command: &str) -> Result<Arc<DatabaseEntry>> {
    let instance = call.execution.instance();
    let current = || instance.database(call.host().current_database());
    let named = call.text(0);
    let entry = match &named {
        None => current(),
        Some(text) => match text.parse::<u16>() {
            Ok(0) => current(),
            Ok(id) => instance.database(daruma_base::DatabaseId(id)),
            Err(_) => instance.database_named(text),
        },
    };
    let entry = entry.ok_or_else(|| messages::error(2520, &[&named.unwrap_or_default()]))?;
    call.execution.owns_for_dbcc(entry.id(), command)?;
    call.execution.state.visit(&entry)?;
    Ok(entry)
}

fn sqlperf(call: &SystemCall<'_, '_>) -> Result<i32> {
    let what = call.text(0).unwrap_or_default().to_ascii_lowercase();
    let clear = call
        .text(1)
        .is_some_and(|word| word.eq_ignore_ascii_case("CLEAR"));
    match what.as_str() {
        "logspace" => log_space(call)?,
        "waitstats" | "sys.dm_os_wait_stats" | "dm_os_wait_stats" if clear => {
            call.execution
                .needs_for_dbcc("ALTER SERVER STATE", "SQLPERF")?;
            call.execution.instance().engine().waits().clear()
        }
        "waitstats" => wait_statistics(call)?,
        _ => {
            return Err(SqlError::new(
                2526,
                16,
                1,
                "Incorrect DBCC statement. Check the documentation for the correct DBCC syntax and options.",
            ));
        }
    }
    completed(call)
}

const MIB: f64 = 1_048_576.0;

fn log_space(call: &SystemCall<'_, '_>) -> Result<()> {
    send(
        call,
        "Database~Name nvarchar(128)?; Log~Size~(MB) real?; Log~Space~Used~(%) real?; Status int? = 0",
        |source, rows| {
            for entry in source.instance()?.databases() {
                let Ok(open) = entry.open() else { continue };
                let log = open.storage.log_stats();
                rows.add()
                    .set("Database Name", entry.name())
                    .set("Log Size (MB)", log.size_bytes as f64 / MIB)
                    .set(
                        "Log Space Used (%)",
                        percent(log.used_bytes, log.size_bytes),
                    );
            }
            Ok(())
        },
    )
}

fn wait_statistics(call: &SystemCall<'_, '_>) -> Result<()> {
    send(
        call,
        "Wait~Type nvarchar(80); Requests real; Wait~Time real; Signal~Wait~Time real",
        |source, rows| {
            for stat in source.instance()?.engine().waits().stats() {
                rows.add()
                    .set("Wait Type", stat.kind.name())
                    .set("Requests", stat.count)
                    .set("Wait Time", stat.total.as_millis() as f64);
            }
            Ok(())
        },
    )
}

/// Style of CONVERT with which times are written.
const ODBC_STYLE: i32 = 121;

const DATABASE_INFO: &str = "
    ParentObject nvarchar(128); Object nvarchar(128); Field nvarchar(128); VALUE nvarchar(256)?";

/// What the product reads off the first page of a database, as far as it is known here. Rows come with TABLERESULTS; the
/// product's other form goes to its trace.
fn dbinfo(call: &SystemCall<'_, '_>) -> Result<i32> {
    let entry = database(call, "DBINFO")?;
    if !call.options.iter().any(|o| o.is("TABLERESULTS")) {
        return completed(call);
    }
    let def = entry.def();
    send(call, DATABASE_INFO, |source, rows| {
        let time = |utc: i64| {
            let moment = source.moment(utc).filter(|_| utc != 0);
            let value = moment.and_then(|m| m.to_value(DataType::DateTime));
            let text = value.and_then(|v| format(&v, Some(ODBC_STYLE)));
            text.unwrap_or_else(|| "1900-01-01 00:00:00.000".to_string())
        };
        let fields = [
            ("dbi_dbid", def.id.to_string()),
            ("dbi_dbname", def.name.clone()),
            ("dbi_crdate", time(def.created_utc)),
            ("dbi_cmptlevel", def.compatibility_level.to_string()),
            ("dbi_dbccLastKnownGood", time(entry.last_good_check_utc())),
        ];
        for (field, value) in fields {
            rows.add()
                .set("ParentObject", "DBINFO STRUCTURE:")
                .set("Object", "DBINFO")
                .set("Field", field)
                .set("VALUE", value);
        }
        Ok(())
    })?;
    completed(call)
}

const LOG_INFO: &str = "
    RecoveryUnitId int; FileId int; FileSize bigint; StartOffset bigint; FSeqNo int; Status int; Parity tinyint;
    CreateLSN numeric(25,0)";

fn loginfo(call: &SystemCall<'_, '_>) -> Result<i32> {
    let storage = database(call, "LOGINFO")?.open()?.storage;
    let file = storage
        .files()
        .iter()
        .find(|f| f.spec.filegroup == 0)
        .map_or(2, |f| f.spec.id);
    send(call, LOG_INFO, |_, rows| {
        for vlf in storage.vlfs() {
            // Unlike the view, the command shows a log file that was never used as reusable.
            let status = if vlf_status(&vlf) == 2 { 2 } else { 0 };
            rows.add()
                .set("FileId", file)
                .set("FileSize", vlf.size)
                .set("StartOffset", vlf.offset)
                .set("FSeqNo", vlf.sequence)
                .set("Status", status)
                .set("Parity", vlf_parity(&vlf));
        }
        Ok(())
    })?;
    completed(call)
}

const SHRUNK: &str = "
    DbId smallint; FileId int; CurrentSize int; MinimumSize int; UsedPages int; EstimatedPages int";

/// `SHRINKFILE (name or id [, megabytes] [, TRUNCATEONLY | EMPTYFILE])`: the log gives back what is free at its end. A data file
/// can be emptied, so that it can be removed; it cannot be made smaller.
fn shrinkfile(call: &SystemCall<'_, '_>) -> Result<i32> {
    let instance = call.execution.instance();
    let current = call.host().current_database();
    let entry = instance
        .database(current)
        .ok_or_else(|| messages::error(2520, &[&current.0]))?;
    let wanted = call.text(0).unwrap_or_default();
    let storage = entry.open()?.storage;
    let find = || {
        let is_it = |f: &FileDef| {
            f.logical_name.eq_ignore_ascii_case(&wanted) || f.id.to_string() == wanted
        };
        entry.def().files.iter().find(|f| is_it(f)).cloned()
    };
    let file = find().ok_or_else(|| {
        let text = format!("Could not locate file '{wanted}' for database '{}' in sys.database_files. The file either does not exist, or was dropped.", entry.name());
        SqlError::new(8985, 16, 1, text)
    })?;
    let megabytes = target_size(call)?;
    if file.filegroup != 0 && !empties(call) {
        refuse_to_shrink(call, &storage, &file, megabytes)?;
    }
    if file.filegroup != 0 && empties(call) {
        let run = |text: &str| call.run(text, &[]);
        crate::ddl::database::empty_file(call.execution, &entry, &file, &run)?;
    }
    if file.filegroup == 0 {
        let is_shrunk = storage.shrink_log(megabytes.saturating_mul(1 << 20))?;
        if !is_shrunk && !is_quiet(call) {
            let text = format!(
                "Cannot shrink log file {} ({}) because the logical log file located at the end of the file is in use.",
                file.id, file.logical_name
            );
            call.message(SqlError::new(9008, 10, 1, text))?;
        }
    }
    let files = storage.files();
    send(call, SHRUNK, |_, rows| {
        for info in files.iter().filter(|f| f.spec.id == file.id) {
            rows.add()
                .set("DbId", entry.id().0)
                .set("FileId", file.id)
                .set("CurrentSize", info.size_pages)
                .set("MinimumSize", 65)
                .set("UsedPages", info.used_pages)
                .set("EstimatedPages", info.used_pages);
        }
        Ok(())
    })?;
    completed(call)
}

/// Error 40517 for a data file that would have to give space back: it cannot, and says so.
fn refuse_to_shrink(
    call: &SystemCall<'_, '_>,
    storage: &Database,
    file: &FileDef,
    megabytes: u64,
) -> Result<()> {
    let files = storage.files();
    let Some(info) = files.iter().find(|f| f.spec.id == file.id) else {
        return Ok(());
    };
    let target = match call.text(1) {
        None => file.size_pages,
        Some(word) if is_shrink_word(&word) => 0,
        Some(_) => megabytes.saturating_mul(PAGES_PER_MB),
    };
    match target.max(info.used_pages) < info.size_pages {
        true => Err(messages::not_supported("DBCC SHRINKFILE of a data file")),
        false => Ok(()),
    }
}

const PAGES_PER_MB: u64 = 128;

/// The second argument: megabytes, or a word in their place. 0 without one.
fn target_size(call: &SystemCall<'_, '_>) -> Result<u64> {
    let wrong = || messages::error_state(2560, 9, &[&2]);
    match call.text(1) {
        None => Ok(0),
        Some(word) if is_shrink_word(&word) => Ok(0),
        Some(number) => number.parse().map_err(|_| wrong()),
    }
}

/// Is EMPTYFILE among the arguments?
fn empties(call: &SystemCall<'_, '_>) -> bool {
    (1..3).any(|at| {
        call.text(at)
            .is_some_and(|w| w.eq_ignore_ascii_case("EMPTYFILE"))
    })
}

fn is_shrink_word(word: &str) -> bool {
    let words = ["EMPTYFILE", "NOTRUNCATE", "TRUNCATEONLY"];
    words.iter().any(|w| w.eq_ignore_ascii_case(word))
}

/// The oldest transaction that has written and not ended.
fn opentran(call: &SystemCall<'_, '_>) -> Result<i32> {
    let entry = database(call, "OPENTRAN")?;
    let active = entry.open()?.storage.active_transactions();
    let text = match active.iter().min_by_key(|(_, first)| *first) {
        None => "No active open transactions.".to_string(),
        Some((id, first)) => {
            let name = entry.name();
            let session = writer_of(call, &entry);
            format!(
                "Transaction information for database '{name}'.\n\nOldest active transaction:\n    SPID (server process ID): {session}\n    UID (user ID) : -1\n    Name          : user_transaction\n    LSN           : ({})\n    Transaction ID: {}",
                lsn_text(Lsn(*first)),
                id.0
            )
        }
    };
    call.message(SqlError::new(0, 0, 1, text))?;
    completed(call)
}

/// Session with the oldest open transaction in the database.
fn writer_of(call: &SystemCall<'_, '_>, entry: &DatabaseEntry) -> i32 {
    let sessions = call.execution.instance().sessions.all();
    let open = sessions.iter().filter_map(|s| {
        let activity = s.activity.lock();
        let here = activity.database == Some(entry.id()) && activity.transaction_id != 0;
        here.then_some((activity.transaction_start_utc, s.spid))
    });
    open.min().map_or(0, |(_, spid)| spid)
}

fn useroptions(call: &SystemCall<'_, '_>) -> Result<i32> {
    let s = call.host().settings();
    let level = match s.isolation {
        IsolationLevel::ReadUncommitted => "read uncommitted",
        IsolationLevel::ReadCommitted => "read committed",
        IsolationLevel::RepeatableRead => "repeatable read",
        IsolationLevel::Serializable => "serializable",
        IsolationLevel::Snapshot => "snapshot",
    };
    let flags = [
        ("quoted_identifier", s.quoted_identifier),
        ("arithabort", s.arithabort),
        ("nocount", s.nocount),
        ("xact_abort", s.xact_abort),
        ("implicit_transactions", s.implicit_transactions),
        (
            "cursor_close_on_commit",
            s.cursor_close_on_commit == Some(true),
        ),
        ("ansi_null_dflt_on", s.ansi_null_dflt_on),
        ("ansi_warnings", s.ansi_warnings),
        ("ansi_padding", s.ansi_padding),
        ("ansi_nulls", s.ansi_nulls),
        ("concat_null_yields_null", s.concat_null_yields_null),
    ];
    send(
        call,
        "Set~Option nvarchar(128); Value nvarchar(128)",
        |_, rows| {
            let mut line = |name: &str, value: String| {
                rows.add().set("Set Option", name).set("Value", value);
            };
            line("textsize", s.textsize.to_string());
            line("language", s.language.to_string());
            line("dateformat", s.dateformat.name().to_string());
            line("datefirst", s.datefirst.to_string());
            line("lock_timeout", s.lock_timeout_ms.to_string());
            for (name, _) in flags.iter().filter(|(_, on)| *on) {
                line(name, "SET".to_string());
            }
            line("isolation level", level.to_string());
            Ok(())
        },
    )?;
    completed(call)
}

/// -1 means all flags, as no argument does.
fn tracestatus(call: &SystemCall<'_, '_>) -> Result<i32> {
    let asked: Vec<i64> = (0..3).filter_map(|at| integer(call, at)).collect();
    let listed = call.execution.trace_flags(&asked)?;
    if !listed.is_empty() {
        send(
            call,
            "TraceFlag smallint; Status smallint; Global smallint; Session smallint",
            |_, rows| {
                for flag in listed {
                    rows.add()
                        .set("TraceFlag", flag.number)
                        .set("Status", flag.in_server || flag.in_session)
                        .set("Global", flag.in_server)
                        .set("Session", flag.in_session);
                }
                Ok(())
            },
        )?;
    }
    completed(call)
}

fn inputbuffer(call: &SystemCall<'_, '_>) -> Result<i32> {
    let spid = integer(call, 0)
        .and_then(|id| i32::try_from(id).ok())
        .unwrap_or(0);
    if spid != call.execution.spid() {
        call.execution
            .needs_for_dbcc("VIEW SERVER STATE", "INPUTBUFFER")?;
    }
    let entry = call.execution.instance().sessions.get(spid);
    let entry = entry
        .ok_or_else(|| SqlError::new(7955, 16, 2, format!("Invalid SPID {spid} specified.")))?;
    let text = entry.activity.lock().text.to_string();
    send(
        call,
        "EventType nvarchar(30) = Language Event; Parameters smallint; EventInfo nvarchar(4000)?",
        |_, rows| {
            rows.add().set("EventInfo", text);
            Ok(())
        },
    )?;
    completed(call)
}
