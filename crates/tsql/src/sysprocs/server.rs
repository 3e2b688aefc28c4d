//! Procedures about the server: configuration, error log, log flush, renaming, roles, and the many
//! that scripts call for features that keep nothing here.

use super::define::{Procedure, database_name, integer, quoted, send};
use crate::error::{Result, SqlError};
use crate::instance::{LogEntry, OPTIONS, PRODUCT_VERSION};
use crate::messages;
use crate::session::SystemCall;
use daruma_base::DatabaseId;
use daruma_syntax::{ParseOptions, parse_object_name};
use daruma_value::convert::{ConvertContext, convert};
use daruma_value::{DataType, DateTime, Value};

pub(super) const PROCEDURES: &[Procedure] = &[
    Procedure::native(
        "sp_configure",
        "@configname varchar(35) = NULL; @configvalue int = NULL",
        configure,
    ),
    Procedure::native(
        "sp_readerrorlog",
        "@p1 int = 0; @p2 int = NULL; @p3 nvarchar(4000) = NULL; @p4 nvarchar(4000) = NULL",
        read_error_log,
    ),
    Procedure::native("xp_readerrorlog", XP_READ_ERROR_LOG, read_error_log),
    Procedure::native("sp_enumerrorlogs", "@p1 int = 1", list_error_logs),
    Procedure::native("xp_enumerrorlogs", "@p1 int = 1", list_error_logs),
    Procedure::native("sp_cycle_errorlog", "", cycle_error_log),
    Procedure::native("sp_flush_log", "", flush_log),
    Procedure::native(
        "sp_rename",
        "@objname nvarchar(1035); @newname sysname; @objtype varchar(13) = NULL",
        rename,
    ),
    Procedure::native(
        "sp_renamedb",
        "@dbname sysname; @newname sysname",
        rename_database,
    ),
    Procedure::native("xp_msver", "@optname nvarchar(128) = NULL", version_table),
    Procedure::native("xp_instance_regread", REGISTRY_PARAMETERS, read_registry),
    Procedure::native("xp_regread", REGISTRY_PARAMETERS, read_registry),
    Procedure::native(
        "sp_updatestats",
        "@resample char(8) = NO",
        update_statistics,
    ),
    Procedure::native(
        "sp_set_session_context",
        "@key sysname; @value sql_variant; @read_only bit = 0",
        set_session_context,
    ),
    Procedure::native(
        "sp_addrolemember",
        "@rolename sysname; @membername sysname",
        add_role_member,
    ),
    Procedure::native(
        "sp_droprolemember",
        "@rolename sysname; @membername sysname",
        drop_role_member,
    ),
    Procedure::native(
        "sp_addsrvrolemember",
        "@loginame sysname; @rolename sysname",
        add_server_role_member,
    ),
    Procedure::native(
        "sp_dropsrvrolemember",
        "@loginame sysname; @rolename sysname",
        drop_server_role_member,
    ),
    Procedure::text("sp_MSgetalertinfo", "@includeaddresses bit = 0", ALERTS),
    Procedure::native("sp_recompile", "@objname nvarchar(776)", recompile),
    Procedure::native("sp_refreshview", "@viewname nvarchar(776)", recompile),
    Procedure::native(
        "sp_refreshsqlmodule",
        "@name nvarchar(776); @namespace nvarchar(20) = OBJECT",
        recompile,
    ),
    Procedure::native(
        "sp_changedbowner",
        "@loginame sysname; @map varchar(5) = NULL",
        change_database_owner,
    ),
    Procedure::native(
        "sp_invalidate_textptr",
        "@TextPtrValue varbinary(16) = NULL",
        nothing,
    ),
];

const XP_READ_ERROR_LOG: &str = "
    @p1 int = 0; @p2 int = 1; @p3 nvarchar(4000) = NULL; @p4 nvarchar(4000) = NULL; @p5 datetime = NULL; @p6 datetime = NULL;
    @p7 nvarchar(10) = NULL; @p8 nvarchar(128) = NULL";
const REGISTRY_PARAMETERS: &str = "
    @rootkey nvarchar(256) = NULL; @key nvarchar(1000) = NULL; @value_name nvarchar(256) = NULL; @value nvarchar(4000) = NULL output;
    @no_output nvarchar(20) = NULL";

/// There is no registry. Values that scripts look for because the server has no other place for them are told from where it
/// has them; of all others there are none.
fn read_registry(call: &SystemCall<'_, '_>) -> Result<i32> {
    let key = call.text(1).unwrap_or_default().to_lowercase();
    let name = call.text(2).unwrap_or_default();
    let is_servers = key.trim_end_matches('\\').ends_with("\\mssqlserver");
    let Some(value) = registry_value(call, &name).filter(|_| is_servers) else {
        return Ok(0);
    };
    if call.wants_output(3) {
        call.set_output(3, Value::str(value));
        return Ok(0);
    }
    send(
        call,
        "Value nvarchar(256)?; Data nvarchar(4000)?",
        |_, rows| {
            rows.add().set("Value", name).set("Data", value);
            Ok(())
        },
    )?;
    Ok(0)
}

fn registry_value(call: &SystemCall<'_, '_>, name: &str) -> Option<String> {
    let instance = call.execution.instance();
    let folder = |path: &std::path::Path| Some(path.display().to_string());
    match name.to_lowercase().as_str() {
        "backupdirectory" => folder(instance.backup_dir()),
        "defaultdata" => folder(instance.data_dir()),
        "defaultlog" => folder(instance.log_dir()),
        // Logins of Windows and of SQL Server; here the latter alone.
        "loginmode" => Some("2".to_string()),
        _ => None,
    }
}

/// What the agent would do with alerts: there is none, so nobody is told of any.
const ALERTS: &str = "
DECLARE @text nvarchar(255), @number int
IF @includeaddresses = 0
    SELECT @text AS AlertFailSafeOperator, @number AS AlertNotificationMethod, @text AS AlertForwardingServer,
        @number AS AlertForwardingSeverity, @text AS AlertPagerToTemplate, @text AS AlertPagerCCTemplate,
        @text AS AlertPagerSubjectTemplate, @number AS AlertPagerSendSubjectOnly, @number AS AlertForwardAlways
ELSE
    SELECT @text AS AlertFailSafeOperator, @number AS AlertNotificationMethod, @text AS AlertForwardingServer,
        @number AS AlertForwardingSeverity, @text AS AlertPagerToTemplate, @text AS AlertPagerCCTemplate,
        @text AS AlertPagerSubjectTemplate, @number AS AlertPagerSendSubjectOnly, @number AS AlertForwardAlways,
        @text AS AlertFailSafeEmailAddress, @text AS AlertFailSafePagerAddress, @text AS AlertFailSafeNetSendAddress
";

/// Accepted without effect: there is nothing here that the procedure could change or find.
fn nothing(_: &SystemCall<'_, '_>) -> Result<i32> {
    Ok(0)
}

fn source_name(call: &SystemCall<'_, '_>) -> String {
    call.host()
        .session_entry()
        .map_or("spid0".to_string(), |s| format!("spid{}", s.spid))
}

fn configure(call: &SystemCall<'_, '_>) -> Result<i32> {
    let instance = call.execution.instance();
    let configuration = &instance.configuration;
    let name = call.text(0);
    if let (Some(name), Some(value)) = (&name, integer(call, 1)) {
        if !call.host().has_server_permission("ALTER SETTINGS") {
            return Err(messages::error(15247, &[]));
        }
        let advanced = crate::instance::find_prefix(name)?.is_advanced;
        if advanced && configuration.in_use("show advanced options") == 0 {
            return Err(messages::error(15123, &[name]));
        }
        check_configuration(crate::instance::find_prefix(name)?.name, value)?;
        let (option, old) = configuration.set(name, value)?;
        instance
            .master_catalog()?
            .put_configuration(option.name, value)?;
        let told = messages::error(15457, &[&option.name, &old, &value]);
        instance.log.write(&source_name(call), &told.message);
        call.message(told)?;
        return Ok(0);
    }
    let wanted = match &name {
        Some(name) => Some(crate::instance::find_prefix(name)?.name),
        None => None,
    };
    let advanced = configuration.in_use("show advanced options") != 0;
    let shown = OPTIONS
        .iter()
        .filter(|o| wanted.is_none_or(|w| w == o.name) && (advanced || !o.is_advanced));
    let mut shown: Vec<_> = shown.collect();
    if shown.is_empty() {
        return Err(messages::error(15123, &[&wanted.unwrap_or_default()]));
    }
    shown.sort_by_key(|o| o.name.to_lowercase());
    send(
        call,
        "name nvarchar(35); minimum int?; maximum int?; config_value int?; run_value int?",
        |_, rows| {
            for option in shown {
                let values = configuration.get(option.name);
                rows.add()
                    .set("name", option.name)
                    .set("minimum", option.minimum)
                    .set("maximum", option.maximum)
                    .set("config_value", values.map(|v| v.value))
                    .set("run_value", values.map(|v| v.value_in_use));
            }
            Ok(())
        },
    )?;
    Ok(0)
}

/// Options that turn on what this server does not have. Being off is what they are.
const NOT_BEHIND: [&str; 3] = [
    "contained database authentication",
    "query governor cost limit",
    "xp_cmdshell",
];

/// NUMERIC_ROUNDABORT, as a bit of `user options`.
const ROUNDABORT: i64 = 8_192;

/// Error 40517 for a value that nothing here would obey, 15129 for a language that is not known.
fn check_configuration(option: &str, value: i64) -> Result<()> {
    match option {
        _ if NOT_BEHIND.contains(&option) && value != 0 => Err(messages::not_supported(option)),
        "user options" if value & ROUNDABORT != 0 => {
            Err(messages::not_supported("NUMERIC_ROUNDABORT ON"))
        }
        "default language" if crate::session::language_of_id(value).is_none() => {
            Err(messages::error(15129, &[&value, &option]))
        }
        _ => Ok(()),
    }
}

/// Selection of `xp_readerrorlog` from a log.
struct LogFilter {
    words: Vec<String>,
    from: Option<DateTime>,
    to: Option<DateTime>,
}

impl LogFilter {
    fn takes(&self, entry: &LogEntry, at: Option<DateTime>) -> bool {
        let text = entry.text.to_lowercase();
        self.words.iter().all(|word| text.contains(word))
            && self.from.is_none_or(|from| at.is_some_and(|at| at >= from))
            && self.to.is_none_or(|to| at.is_some_and(|at| at <= to))
    }
}

/// Arguments: log number, product (1 the server, 2 the agent), two words, start, end, order.
fn read_error_log(call: &SystemCall<'_, '_>) -> Result<i32> {
    let number = integer(call, 0)
        .and_then(|n| u32::try_from(n).ok())
        .unwrap_or(0);
    let date = |index| match call.arg(index) {
        Value::DateTime(at) => Some(*at),
        _ => None,
    };
    let words = [call.text(2), call.text(3)]
        .into_iter()
        .flatten()
        .filter(|w| !w.is_empty());
    let filter = LogFilter {
        words: words.map(|w| w.to_lowercase()).collect(),
        from: date(4),
        to: date(5),
    };
    let mut entries = match integer(call, 1) {
        // There is no agent, so its log is empty.
        Some(2) => Vec::new(),
        _ => call
            .execution
            .instance()
            .log
            .read(number)
            .map_err(|error| no_log(&error))?,
    };
    if call
        .text(6)
        .is_some_and(|order| order.eq_ignore_ascii_case("desc"))
    {
        entries.reverse();
    }
    send(
        call,
        "LogDate datetime?; ProcessInfo nvarchar(50)?; Text nvarchar(max)?",
        |_, rows| {
            for entry in &entries {
                let at = log_date(&entry.date);
                if filter.takes(entry, at) {
                    let value = at.map_or(Value::Null, Value::DateTime);
                    rows.add()
                        .set("LogDate", (DataType::DateTime, value))
                        .set("ProcessInfo", &entry.source)
                        .set("Text", &entry.text);
                }
            }
            Ok(())
        },
    )?;
    Ok(0)
}

fn no_log(error: &std::io::Error) -> SqlError {
    let code = error.raw_os_error().unwrap_or(2);
    SqlError::new(
        22004,
        12,
        1,
        format!(
            "xp_readerrorlog() returned error {code}, 'The system cannot find the file specified.'"
        ),
    )
}

fn log_date(text: &str) -> Option<DateTime> {
    let value = convert(
        &Value::str(text),
        DataType::NVARCHAR_MAX,
        DataType::DateTime,
        None,
        &ConvertContext::default(),
    );
    match value {
        Ok(Value::DateTime(at)) => Some(at),
        _ => None,
    }
}

fn list_error_logs(call: &SystemCall<'_, '_>) -> Result<i32> {
    let log = &call.execution.instance().log;
    send(
        call,
        "Archive~# nvarchar(10); Date nvarchar(30)?; Log~File~Size~(Byte) bigint",
        |_, rows| {
            for number in log.archives() {
                let entries = log.read(number).unwrap_or_default();
                let bytes: usize = entries
                    .iter()
                    .map(|e| e.date.len() + e.source.len() + e.text.len() + 3)
                    .sum();
                rows.add()
                    .set("Archive #", number.to_string())
                    .set("Date", entries.last().map(|e| &e.date))
                    .set("Log File Size (Byte)", bytes);
            }
            Ok(())
        },
    )?;
    Ok(0)
}

fn cycle_error_log(call: &SystemCall<'_, '_>) -> Result<i32> {
    let log = &call.execution.instance().log;
    log.cycle().map_err(|error| no_log(&error))?;
    log.write(
        &source_name(call),
        "The error log has been reinitialized. See the previous log for older entries.",
    );
    Ok(0)
}

/// Makes every delayed commit of the database durable.
fn flush_log(call: &SystemCall<'_, '_>) -> Result<i32> {
    call.execution
        .instance()
        .open_database(call.database)?
        .storage
        .flush_log()?;
    Ok(0)
}

fn rename(call: &SystemCall<'_, '_>) -> Result<i32> {
    let (name, new_name) = (
        call.text(0).unwrap_or_default(),
        call.text(1).unwrap_or_default(),
    );
    let kind = call.text(2);
    if kind
        .as_deref()
        .is_some_and(|k| k.eq_ignore_ascii_case("DATABASE"))
    {
        return alter_database_name(call, &name, &new_name);
    }
    crate::ddl::rename::rename(call.execution, &name, &new_name, kind.as_deref())?;
    call.message(messages::error(15477, &[]))?;
    Ok(0)
}

fn rename_database(call: &SystemCall<'_, '_>) -> Result<i32> {
    alter_database_name(
        call,
        &call.text(0).unwrap_or_default(),
        &call.text(1).unwrap_or_default(),
    )
}

fn alter_database_name(call: &SystemCall<'_, '_>, name: &str, new_name: &str) -> Result<i32> {
    call.run(
        &format!(
            "ALTER DATABASE {} MODIFY NAME = {}",
            quoted(name),
            quoted(new_name)
        ),
        &[],
    )?;
    Ok(0)
}

fn version_table(call: &SystemCall<'_, '_>) -> Result<i32> {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let memory_mb = call.execution.instance().options().buffer_pool_pages / 128;
    let lines: [(i32, &str, Option<usize>, String); 8] = [
        (1, "ProductName", None, "Microsoft SQL Server".to_string()),
        (
            2,
            "ProductVersion",
            Some(16 << 16),
            PRODUCT_VERSION.to_string(),
        ),
        (
            3,
            "Language",
            Some(1_033),
            "English (United States)".to_string(),
        ),
        (
            4,
            "Platform",
            None,
            if cfg!(target_arch = "aarch64") {
                "NT ARM64"
            } else {
                "NT x64"
            }
            .to_string(),
        ),
        (6, "CompanyName", None, "Daruma".to_string()),
        (
            16,
            "ProcessorCount",
            Some(processors),
            processors.to_string(),
        ),
        (
            19,
            "PhysicalMemory",
            Some(memory_mb),
            format!("{memory_mb} ({})", memory_mb * 1_048_576),
        ),
        (20, "Product ID", None, String::new()),
    ];
    let wanted = call.text(0);
    send(
        call,
        "Index smallint?; Name nvarchar(128)?; Internal_Value int?; Character_Value nvarchar(256)?",
        |_, rows| {
            for (index, name, internal, text) in lines {
                if wanted.as_ref().is_none_or(|w| w.eq_ignore_ascii_case(name)) {
                    rows.add()
                        .set("Index", index)
                        .set("Name", name)
                        .set("Internal_Value", internal);
                    rows.set("Character_Value", text);
                }
            }
            Ok(())
        },
    )?;
    Ok(0)
}

fn update_statistics(call: &SystemCall<'_, '_>) -> Result<i32> {
    let print = |text: String| call.message(SqlError::new(0, 0, 1, text));
    let catalog = call.host().catalog(call.database)?;
    for object in catalog
        .objects()
        .filter(|o| matches!(o.kind, daruma_catalog::ObjectKind::Table(_)))
    {
        let schema = catalog
            .schema(object.schema_id)
            .map_or("dbo", |s| s.name.as_str());
        print(format!(
            "Updating {}.{}",
            quoted(schema),
            quoted(&object.name)
        ))?;
    }
    print(" ".to_string())?;
    print("Statistics for all tables have been updated.".to_string())?;
    Ok(0)
}

/// Longest total of keys and values a session may keep.
const CONTEXT_ENTRIES_MAX: usize = 4_096;

fn set_session_context(call: &SystemCall<'_, '_>) -> Result<i32> {
    let key = daruma_catalog::name_key(&call.text(0).unwrap_or_default());
    let read_only = integer(call, 2) == Some(1);
    let mut context = call.execution.state.session_context.borrow_mut();
    if context.get(&key).is_some_and(|(_, fixed)| *fixed) {
        let text = format!(
            "Cannot set key '{key}' in the session context. The key has been set as read_only for this session."
        );
        return Err(SqlError::new(15664, 16, 1, text));
    }
    if context.len() >= CONTEXT_ENTRIES_MAX {
        return Err(SqlError::new(
            15665,
            16,
            1,
            "The value was not set for key because the total size of keys and values in the session context would exceed the limit.",
        ));
    }
    context.insert(key, (call.arg(1).clone(), read_only));
    Ok(0)
}

fn alter_role(
    call: &SystemCall<'_, '_>,
    server: &str,
    role: usize,
    verb: &str,
    member: usize,
) -> Result<i32> {
    let name = |index| quoted(&call.text(index).unwrap_or_default());
    call.run(
        &format!(
            "ALTER {server}ROLE {} {verb} MEMBER {}",
            name(role),
            name(member)
        ),
        &[],
    )?;
    Ok(0)
}

fn add_role_member(call: &SystemCall<'_, '_>) -> Result<i32> {
    known_member(call)?;
    alter_role(call, "", 0, "ADD", 1)
}

fn drop_role_member(call: &SystemCall<'_, '_>) -> Result<i32> {
    known_member(call)?;
    alter_role(call, "", 0, "DROP", 1)
}

/// Error 15410, where ALTER ROLE says 15151.
fn known_member(call: &SystemCall<'_, '_>) -> Result<()> {
    let name = call.text(1).unwrap_or_default();
    match call.execution.database_principal(&name) {
        Some(_) => Ok(()),
        None => Err(messages::error(15410, &[&name])),
    }
}

fn add_server_role_member(call: &SystemCall<'_, '_>) -> Result<i32> {
    alter_role(call, "SERVER ", 1, "ADD", 0)
}

fn drop_server_role_member(call: &SystemCall<'_, '_>) -> Result<i32> {
    alter_role(call, "SERVER ", 1, "DROP", 0)
}

fn change_database_owner(call: &SystemCall<'_, '_>) -> Result<i32> {
    let database = database_name(call, current(call));
    let owner = call.text(0).unwrap_or_default();
    call.execution.change_database_owner(&database, &owner)?;
    Ok(0)
}

/// Plans are made anew when definitions change, so only the name is checked.
fn recompile(call: &SystemCall<'_, '_>) -> Result<i32> {
    let name = call.text(0).unwrap_or_default();
    let known = call
        .host()
        .system_function("object_id", &[Value::str(&name)])?;
    if known.is_null() {
        return Err(messages::error(
            15009,
            &[&name, &database_name(call, current(call))],
        ));
    }
    let named = parse_object_name(&name, &ParseOptions::default()).ok();
    let found = named.map(|n| call.execution.find_object(&n)).transpose()?;
    match found.flatten() {
        Some((database, object)) if !call.execution.is_unlimited() => {
            call.execution.check_alter(database, &object)?
        }
        _ => {}
    }
    Ok(0)
}

fn current(call: &SystemCall<'_, '_>) -> DatabaseId {
    call.host().current_database()
}
