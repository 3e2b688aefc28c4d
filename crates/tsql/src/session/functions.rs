//! Session and system functions: one table of names and result types, and their values.
//!
//! Names come in any case; `@@` variables carry their `@@`. Functions that answer about definitions are in `metadata`,
//! those with many named properties in `properties`.

use super::execution::Execution;
use crate::error::{Result, SqlError};
use crate::host::{Host, Images};
use crate::instance::PRODUCT_VERSION;
use crate::messages;
use daruma_value::{DataType, Decimal, Len, Value};

const NAME: DataType = DataType::SYSNAME;
const INT: DataType = DataType::Int;
const TEXT: DataType = DataType::NVarChar(Len(4_000));
const IDENTITY: DataType = DataType::Decimal {
    precision: 38,
    scale: 0,
};

/// Functions known here, lower case, with their result types.
const FUNCTIONS: &[(&str, DataType)] = &[
    ("@@connections", INT),
    ("@@cpu_busy", INT),
    ("@@cursor_rows", INT),
    ("@@datefirst", DataType::TinyInt),
    ("@@dbts", DataType::VarBinary(Len(8))),
    ("@@def_sortorder_id", INT),
    ("@@error", INT),
    ("@@fetch_status", INT),
    ("@@identity", IDENTITY),
    ("@@idle", INT),
    ("@@io_busy", INT),
    ("@@langid", DataType::SmallInt),
    ("@@language", NAME),
    ("@@lock_timeout", INT),
    ("@@max_connections", INT),
    ("@@max_precision", DataType::TinyInt),
    ("@@microsoftversion", INT),
    ("@@nestlevel", INT),
    ("@@options", INT),
    ("@@pack_received", INT),
    ("@@pack_sent", INT),
    ("@@packet_errors", INT),
    ("@@procid", INT),
    ("@@remserver", NAME),
    ("@@rowcount", INT),
    ("@@servername", NAME),
    ("@@servicename", NAME),
    ("@@spid", DataType::SmallInt),
    ("@@textsize", INT),
    ("@@timeticks", INT),
    ("@@total_errors", INT),
    ("@@total_read", INT),
    ("@@total_write", INT),
    ("@@trancount", INT),
    ("@@transtate", INT),
    ("@@version", DataType::NVarChar(Len(300))),
    ("app_name", NAME),
    ("cert_id", INT),
    ("certencoded", DataType::VARBINARY_MAX),
    ("col_length", DataType::SmallInt),
    ("col_name", NAME),
    ("columnproperty", INT),
    ("columns_updated", DataType::VarBinary(Len(128))),
    ("connectionproperty", DataType::Variant),
    ("context_info", DataType::VarBinary(Len(128))),
    ("current_request_id", DataType::SmallInt),
    ("current_transaction_id", DataType::BigInt),
    ("cursor_status", DataType::SmallInt),
    ("database_principal_id", INT),
    ("databaseproperty", INT),
    ("databasepropertyex", DataType::Variant),
    ("db_id", INT),
    ("db_name", NAME),
    ("error_line", INT),
    ("error_message", TEXT),
    ("error_number", INT),
    ("error_procedure", NAME),
    ("error_severity", INT),
    ("error_state", INT),
    ("eventdata", DataType::Xml),
    ("file_id", DataType::SmallInt),
    ("file_idex", INT),
    ("file_name", NAME),
    ("filegroup_id", INT),
    ("filegroup_name", NAME),
    ("fileproperty", INT),
    ("fn_hadr_backup_is_preferred_replica", DataType::Bit),
    (
        "fn_hadr_distributed_ag_database_replica",
        DataType::UniqueIdentifier,
    ),
    ("fn_hadr_distributed_ag_replica", DataType::UniqueIdentifier),
    ("fn_hadr_is_primary_replica", DataType::Bit),
    ("formatmessage", TEXT),
    ("fulltextserviceproperty", INT),
    (
        "get_filestream_transaction_context",
        DataType::VARBINARY_MAX,
    ),
    ("getansinull", INT),
    ("has_dbaccess", INT),
    ("has_perms_by_name", INT),
    ("host_id", DataType::Char(Len(10))),
    ("host_name", NAME),
    ("ident_current", IDENTITY),
    ("ident_incr", IDENTITY),
    ("ident_seed", IDENTITY),
    ("index_col", NAME),
    ("indexkey_property", INT),
    ("indexproperty", INT),
    ("is_member", INT),
    ("is_rolemember", INT),
    ("is_srvrolemember", INT),
    ("loginproperty", DataType::Variant),
    ("min_active_rowversion", DataType::Binary(Len(8))),
    ("object_definition", DataType::NVARCHAR_MAX),
    ("object_id", INT),
    ("object_name", NAME),
    ("object_schema_name", NAME),
    ("objectproperty", INT),
    ("objectpropertyex", DataType::Variant),
    ("original_db_name", NAME),
    ("original_login", NAME),
    ("permissions", INT),
    ("pwdcompare", INT),
    ("rowcount_big", DataType::BigInt),
    ("schema_id", INT),
    ("schema_name", NAME),
    ("scope_identity", IDENTITY),
    ("serverproperty", DataType::Variant),
    ("session_context", DataType::Variant),
    ("session_id", INT),
    ("sessionproperty", DataType::Variant),
    ("stats_date", DataType::DateTime),
    ("suser_id", INT),
    ("suser_name", NAME),
    ("suser_sid", DataType::VarBinary(Len(85))),
    ("suser_sname", NAME),
    ("trigger_nestlevel", INT),
    ("type_id", INT),
    ("type_name", NAME),
    ("typeproperty", INT),
    ("update()", DataType::Bit),
    ("user_id", INT),
    ("user_name", NAME),
    ("xact_state", DataType::SmallInt),
];

pub(crate) fn result_type(name: &str) -> Option<DataType> {
    let name = name.to_ascii_lowercase();
    let at = FUNCTIONS
        .binary_search_by(|(n, _)| (*n).cmp(name.as_str()))
        .ok()?;
    FUNCTIONS.get(at).map(|(_, data_type)| *data_type)
}

/// `@@VERSION`.
pub fn version_text(host_description: &str) -> String {
    format!(
        "Microsoft SQL Server 2022 (RTM) - {PRODUCT_VERSION} (X64) \n\tDaruma {}: compatible server, not a Microsoft product\n\tDeveloper Edition (64-bit) on {host_description}",
        env!("CARGO_PKG_VERSION")
    )
}

impl Execution<'_> {
    pub(crate) fn call_system_function(&self, name: &str, args: &[Value]) -> Result<Value> {
        let name = name.to_ascii_lowercase();
        let name = name.as_str();
        if let Some(variable) = name.strip_prefix("@@") {
            return self
                .global(variable)
                .ok_or_else(|| messages::error_state(137, 2, &[&format!("@@{variable}")]));
        }
        let value = self
            .session_function(name, args)
            .or_else(|| self.error_function(name))
            .or_else(|| self.principal_function(name, args))
            .or_else(|| self.hadr_function(name, args));
        if let Some(value) = value {
            return Ok(value);
        }
        if let Some(value) = self.metadata_function(name, args)? {
            return Ok(value);
        }
        match self.property_function(name, args)? {
            Some(value) => Ok(value),
            None => Err(messages::error(195, &[&name, &"built-in function name"])),
        }
    }

    fn global(&self, name: &str) -> Option<Value> {
        let s = self.state;
        let settings = s.settings.borrow();
        Some(match name {
            "datefirst" => Value::TinyInt(settings.datefirst),
            "dbts" => Value::Bytes(self.database_timestamp().to_be_bytes().to_vec()),
            "error" => Value::Int(s.last_error.get()),
            "fetch_status" => Value::Int(s.cursors.fetch_status.get()),
            "cursor_rows" => Value::Int(s.cursors.rows.get()),
            "identity" => identity(s.last_identity.get()),
            "langid" => Value::SmallInt(0),
            "language" => Value::str(settings.language),
            "lock_timeout" => {
                Value::Int(settings.lock_timeout_ms.clamp(-1, i64::from(i32::MAX)) as i32)
            }
            "max_connections" => Value::Int(32_767),
            "max_precision" => Value::TinyInt(38),
            "microsoftversion" => Value::Int((16 << 24) | 4_100),
            "nestlevel" => Value::Int(s.frames.borrow().len() as i32 - 1),
            "options" => {
                drop(settings);
                Value::Int(s.options_mask())
            }
            "procid" => Value::Int(self.top(|f| f.object_id)),
            "remserver" => Value::Null,
            "rowcount" => Value::Int(i32::try_from(s.row_count.get()).unwrap_or(i32::MAX)),
            "servername" => Value::str(&s.instance.options().server_name),
            "servicename" => Value::str("MSSQLSERVER"),
            "spid" => Value::SmallInt(s.entry.spid as i16),
            "textsize" => Value::Int(settings.textsize),
            "timeticks" => Value::Int(31_250),
            "trancount" => Value::Int(s.trancount.get() as i32),
            "version" => Value::str(version_text(&s.instance.options().host_description)),
            "connections" => Value::Int(s.instance.sessions.count() as i32),
            "cpu_busy" | "idle" | "io_busy" | "def_sortorder_id" | "pack_received"
            | "pack_sent" | "packet_errors" | "total_errors" | "total_read" | "total_write"
            | "transtate" => Value::Int(0),
            _ => return None,
        })
    }

    fn database_timestamp(&self) -> u64 {
        let open = self.state.instance.open_database(self.current_database());
        let last = open
            .ok()
            .and_then(|o| o.catalog.last_value(daruma_catalog::CounterId::RowVersion));
        last.unwrap_or(0) as u64 + 2_000
    }

    fn session_function(&self, name: &str, args: &[Value]) -> Option<Value> {
        let s = self.state;
        Some(match name {
            "app_name" => Value::str(&s.entry.login.program),
            "host_name" => Value::str(&s.entry.login.host),
            "host_id" => Value::str(format!("{:<10}", s.entry.login.client_process_id)),
            "context_info" => match s.context_info.borrow().as_slice() {
                [] => Value::Null,
                bytes => Value::Bytes(bytes.to_vec()),
            },
            "cursor_status" => match args {
                [Value::Str(scope), Value::Str(name)] => {
                    Value::SmallInt(self.cursor_status(scope, name) as i16)
                }
                _ => Value::SmallInt(-3),
            },
            "session_context" => {
                let key = text(args, 0)?.to_lowercase();
                s.session_context
                    .borrow()
                    .get(&key)
                    .map_or(Value::Null, |(v, _)| v.clone())
            }
            "session_id" => Value::Int(s.entry.spid),
            "current_request_id" => Value::SmallInt(0),
            "current_transaction_id" => Value::BigInt(s.transaction_id().unwrap_or(0) as i64),
            "scope_identity" => identity(self.top(|f| f.scope_identity)),
            "xact_state" => Value::SmallInt(match (s.trancount.get(), s.is_doomed()) {
                (0, _) => 0,
                (_, true) => -1,
                (_, false) => 1,
            }),
            "rowcount_big" => Value::BigInt(s.row_count.get() as i64),
            "getansinull" => Value::Int(i32::from(s.settings.borrow().ansi_null_dflt_on)),
            "trigger_nestlevel" => Value::Int(self.trigger_depth()),
            "columns_updated" => self.updated_columns_mask(),
            "eventdata" => self
                .event_data()
                .map_or(Value::Null, |text| Value::str(&*text)),
            "update()" => self.updates_column(text(args, 0)?),
            "formatmessage" => self.format_message_function(args),
            "min_active_rowversion" => {
                Value::Bytes((self.database_timestamp() + 1).to_be_bytes().to_vec())
            }
            "get_filestream_transaction_context" | "stats_date" => Value::Null,
            "fulltextserviceproperty" | "permissions" => Value::Int(0),
            _ => return None,
        })
    }

    fn trigger_depth(&self) -> i32 {
        let frames = self.state.frames.borrow();
        frames
            .iter()
            .filter(|f| f.kind == super::frame::FrameKind::Trigger)
            .count() as i32
    }

    /// UPDATE(column): does the statement that fired the trigger set the column? INSERT sets all.
    fn updates_column(&self, name: &str) -> Value {
        let frames = self.state.frames.borrow();
        let Some(rows) = frames.last().and_then(|f| f.trigger.as_ref()) else {
            return Value::Bit(false);
        };
        let Images { inserted, deleted } = &rows.images;
        let inserted_only =
            deleted.is_empty() && !inserted.is_empty() && rows.updated_columns.is_empty();
        let column = rows.table.def.column_named(name);
        Value::Bit(column.is_some_and(|c| inserted_only || rows.updated_columns.contains(&c.id)))
    }

    /// COLUMNS_UPDATED(): a bit for each column by id.
    fn updated_columns_mask(&self) -> Value {
        let frames = self.state.frames.borrow();
        let Some(rows) = frames.last().and_then(|f| f.trigger.as_ref()) else {
            return Value::Null;
        };
        let columns = rows.table.def.columns.len();
        let mut mask = vec![0_u8; columns.div_ceil(8)];
        for id in &rows.updated_columns {
            let bit = (*id - 1).max(0) as usize;
            if let Some(byte) = mask.get_mut(bit / 8) {
                *byte |= 1 << (bit % 8);
            }
        }
        Value::Bytes(mask)
    }

    fn format_message_function(&self, args: &[Value]) -> Value {
        let typed = |v: &Value| (v.clone(), super::convert::natural_type(v));
        let rest: Vec<_> = args.iter().skip(1).map(typed).collect();
        if let Some(Value::Int(number)) = args.first()
            && let Ok(Some(user)) = self.user_message(*number)
        {
            return user.format(&rest).map_or(Value::Null, Value::str);
        }
        let template = match args.first() {
            Some(Value::Str(text)) => text.to_string(),
            Some(Value::Int(number)) => match messages::find(*number) {
                Some(message) => message.text.to_string(),
                None => return Value::Null,
            },
            _ => return Value::Null,
        };
        super::raise::format_message(&template, &rest).map_or(Value::Null, Value::str)
    }

    fn error_function(&self, name: &str) -> Option<Value> {
        if !name.starts_with("error_") {
            return None;
        }
        let caught = self.state.caught.borrow();
        let Some(error) = caught.last() else {
            return Some(Value::Null);
        };
        let error: &SqlError = error;
        Some(match name {
            "error_number" => Value::Int(error.number),
            "error_message" => Value::str(&error.message),
            "error_severity" => Value::Int(i32::from(error.class)),
            "error_state" => Value::Int(i32::from(error.state)),
            "error_line" => Value::Int(error.line),
            "error_procedure" => error.procedure.as_ref().map_or(Value::Null, Value::str),
            _ => return None,
        })
    }
}

pub(crate) fn identity(value: Option<i128>) -> Value {
    value.map_or(Value::Null, |v| Value::Decimal(Decimal::new(v, 38, 0)))
}

/// Argument as text, `None` for NULL and others.
pub(crate) fn text(args: &[Value], index: usize) -> Option<&str> {
    match args.get(index) {
        Some(Value::Str(text)) => Some(text.as_str()),
        Some(Value::Variant(v)) => match &v.value {
            Value::Str(text) => Some(text.as_str()),
            _ => None,
        },
        _ => None,
    }
}

/// Argument as int, `None` for NULL and others.
pub(crate) fn int(args: &[Value], index: usize) -> Option<i32> {
    let value = args.get(index)?;
    match super::convert::to_int(value, super::convert::natural_type(value)) {
        Ok(number) if !value.is_null() => Some(number),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_found() {
        assert!(
            FUNCTIONS.windows(2).all(|w| w[0].0 < w[1].0),
            "{:?}",
            FUNCTIONS.windows(2).find(|w| w[0].0 >= w[1].0)
        );
        assert_eq!(result_type("@@SPID"), Some(DataType::SmallInt));
        assert_eq!(result_type("Object_Id"), Some(INT));
        assert_eq!(result_type("nope"), None);
    }
}
