//! Procedures of options that have one value here: who asks for what is so is told yes, and everything else is refused.

use super::define::Procedure;
use crate::error::Result;
use crate::messages;
use crate::session::SystemCall;
use daruma_catalog::{Object, ObjectKind, names_equal};
use daruma_syntax::ast::ObjectName;
use daruma_syntax::{ParseOptions, parse_object_name};
use std::sync::Arc;

pub(super) const PROCEDURES: &[Procedure] = &[
    Procedure::native(
        "sp_createstats",
        "@indexonly char(9) = NO; @fullscan char(9) = NO; @norecompute char(12) = NO; @incremental char(12) = NO",
        |_| Err(messages::not_supported("sp_createstats")),
    ),
    Procedure::native(
        "sp_autostats",
        "@tblname nvarchar(776); @flagc varchar(10) = NULL; @indname sysname = NULL",
        |_| Err(messages::not_supported("sp_autostats")),
    ),
    Procedure::native(
        "sp_tableoption",
        "@TableNamePattern nvarchar(776); @OptionName varchar(35); @OptionValue varchar(12)",
        table_option,
    ),
    Procedure::native(
        "sp_indexoption",
        "@IndexNamePattern nvarchar(1035); @OptionName varchar(35); @OptionValue varchar(12)",
        index_option,
    ),
    Procedure::native(
        "sp_settriggerorder",
        "@triggername nvarchar(517); @order varchar(10); @stmttype varchar(50); @namespace varchar(10) = NULL",
        trigger_order,
    ),
    Procedure::native(
        "sp_serveroption",
        "@server sysname; @optname varchar(35); @optvalue nvarchar(128)",
        server_option,
    ),
];

/// Options of tables and the value that each has.
const OF_TABLES: &[(&str, bool)] = &[
    ("insert row lock", true),
    ("large value types out of row", false),
    ("table lock on bulk load", false),
    ("text in row", false),
    ("vardecimal storage format", false),
];

/// As [`OF_TABLES`], of indexes.
const OF_INDEXES: &[(&str, bool)] = &[
    ("allowpagelocks", true),
    ("allowrowlocks", true),
    ("disallowpagelocks", false),
    ("disallowrowlocks", false),
];

fn table_option(call: &SystemCall<'_, '_>) -> Result<i32> {
    let name = call.text(0).unwrap_or_default();
    match parsed(&name).map(|n| table(call, &n)).transpose()? {
        Some(Some(_)) => as_it_is(call, "sp_tableoption", OF_TABLES),
        _ => Err(messages::error(15388, &[&name])),
    }
}

/// Of a table, or of one of its indexes: `table.index`.
fn index_option(call: &SystemCall<'_, '_>) -> Result<i32> {
    let name = call.text(0).unwrap_or_default();
    let missing = || messages::error(15388, &[&name]);
    let whole = parsed(&name).ok_or_else(missing)?;
    if table(call, &whole)?.is_none() {
        let of = owner(&whole).ok_or_else(missing)?;
        let found = table(call, &of)?.ok_or_else(missing)?;
        if !has_index(&found, &whole.name.text) {
            return Err(missing());
        }
    }
    as_it_is(call, "sp_indexoption", OF_INDEXES)
}

fn trigger_order(call: &SystemCall<'_, '_>) -> Result<i32> {
    const PROCEDURE: &str = "sp_settriggerorder";
    let wrong = || messages::error(15600, &[&PROCEDURE]);
    let word = |at: usize| call.text(at).unwrap_or_default().to_ascii_lowercase();
    match word(3).as_str() {
        "" => {}
        // Triggers of definitions.
        space @ ("database" | "server") => {
            return Err(messages::not_supported(&format!("{PROCEDURE} '{space}'")));
        }
        _ => return Err(wrong()),
    }
    let name = call.text(0).unwrap_or_default();
    let trigger = trigger(call, &name)?;
    let ObjectKind::Trigger(def) = &trigger.kind else {
        return Err(messages::error(15165, &[&name]));
    };
    let statement = word(2);
    let is_its = match statement.as_str() {
        "insert" => def.on_insert,
        "update" => def.on_update,
        "delete" => def.on_delete,
        _ => return Err(wrong()),
    };
    match word(1).as_str() {
        "none" | "first" | "last" if !is_its => {
            Err(messages::error(15125, &[&name, &statement.to_uppercase()]))
        }
        "none" => Ok(0),
        order @ ("first" | "last") => {
            Err(messages::not_supported(&format!("{PROCEDURE} '{order}'")))
        }
        _ => Err(wrong()),
    }
}

/// The object of a name that the session may change; error 15165.
fn trigger(call: &SystemCall<'_, '_>, name: &str) -> Result<Arc<Object>> {
    let missing = || messages::error(15165, &[&name]);
    let found = parsed(name).map(|n| call.execution.find_object(&n));
    let (database, object) = found.transpose()?.flatten().ok_or_else(missing)?;
    call.execution
        .check_alter(database, &object)
        .map_err(|_| missing())?;
    Ok(object)
}

/// There are no other servers, and this one has no such options.
fn server_option(call: &SystemCall<'_, '_>) -> Result<i32> {
    let name = call.text(0).unwrap_or_default();
    match names_equal(&name, &call.execution.instance().options().server_name) {
        true => Err(messages::not_supported("sp_serveroption")),
        false => Err(messages::error(15015, &[&name])),
    }
}

/// Error 15600 for an option or value that there is not, 40517 for a value that the option does not have.
fn as_it_is(call: &SystemCall<'_, '_>, procedure: &str, known: &[(&str, bool)]) -> Result<i32> {
    let wrong = || messages::error(15600, &[&procedure]);
    let option = call.text(1).unwrap_or_default().trim().to_ascii_lowercase();
    let value = call.text(2).unwrap_or_default().trim().to_ascii_lowercase();
    let (name, is_on) = known.iter().find(|(n, _)| *n == option).ok_or_else(wrong)?;
    let wanted = match value.as_str() {
        "on" | "true" | "1" => true,
        "off" | "false" | "0" => false,
        // The product takes a number of bytes there.
        number if *name == "text in row" && number.parse::<u32>().is_ok() => true,
        _ => return Err(wrong()),
    };
    match wanted == *is_on {
        true => Ok(0),
        false => Err(messages::not_supported(&format!(
            "{procedure} '{name}', '{value}'"
        ))),
    }
}

fn parsed(name: &str) -> Option<ObjectName> {
    parse_object_name(name, &ParseOptions::default()).ok()
}

/// `schema.table.index` without its last part.
fn owner(name: &ObjectName) -> Option<ObjectName> {
    Some(ObjectName {
        server: None,
        database: name.server.clone(),
        schema: name.database.clone(),
        name: name.schema.clone()?,
        span: name.span,
    })
}

/// The user table of the name that the session may change.
fn table(call: &SystemCall<'_, '_>, name: &ObjectName) -> Result<Option<Arc<Object>>> {
    let Some((database, object)) = call.execution.find_object(name)? else {
        return Ok(None);
    };
    if !matches!(object.kind, ObjectKind::Table(_)) {
        return Ok(None);
    }
    let may = call.execution.check_alter(database, &object).is_ok();
    Ok(may.then_some(object))
}

fn has_index(object: &Object, name: &str) -> bool {
    let ObjectKind::Table(def) = &object.kind else {
        return false;
    };
    let mut names = def.indexes.iter().filter_map(|i| i.name.as_deref());
    names.any(|n| names_equal(n, name))
}
