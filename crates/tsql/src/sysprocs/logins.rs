//! sp_addlogin, sp_droplogin and sp_password: the old names of CREATE, DROP and ALTER LOGIN.
//!
//! Theory: each makes the statement that took its place, and with it that statement's rights and errors. As in the product a login made
//! this way is without CHECK_POLICY, and none of them runs in a transaction.

use super::define::{Procedure, quoted};
use crate::error::Result;
use crate::messages;
use crate::session::SystemCall;
use daruma_value::{DataType, Value};

pub(super) const PROCEDURES: &[Procedure] = &[
    // Logins of Windows are not made here, so none of them can have gone.
    Procedure::text(
        "sp_validatelogins",
        "",
        "SELECT CAST(NULL AS varbinary(85)) AS SID, CAST(NULL AS sysname) AS [NT Login] WHERE 1 = 0",
    ),
    Procedure::native(
        "sp_addlogin",
        "@loginame sysname; @passwd sysname = NULL; @defdb sysname = master; @deflanguage sysname = NULL; @sid varbinary(16) = NULL; \
         @encryptopt varchar(20) = NULL",
        add,
    ),
    Procedure::native("sp_droplogin", "@loginame sysname", drop),
    Procedure::native(
        "sp_password",
        "@old sysname = NULL; @new sysname; @loginame sysname = NULL",
        change_password,
    ),
];

fn add(call: &SystemCall<'_, '_>) -> Result<i32> {
    refuse_transaction(call, "sys.sp_addlogin")?;
    if call.text(5).is_some() {
        return Err(messages::not_supported("@encryptopt of sp_addlogin"));
    }
    let name = |at: usize| call.text(at).map(|name| quoted(&name));
    let mut text = format!(
        "CREATE LOGIN {} WITH PASSWORD = @passwd, CHECK_POLICY = OFF",
        name(0).unwrap_or_default()
    );
    if let Some(database) = name(2) {
        text.push_str(&format!(", DEFAULT_DATABASE = {database}"));
    }
    if let Some(language) = name(3) {
        text.push_str(&format!(", DEFAULT_LANGUAGE = {language}"));
    }
    if let Value::Bytes(sid) = call.arg(4) {
        let digits: String = sid.iter().map(|byte| format!("{byte:02X}")).collect();
        text.push_str(&format!(", SID = 0x{digits}"));
    }
    let password = Value::str(call.text(1).unwrap_or_default());
    run(call, &text, &[("@passwd", DataType::SYSNAME, password)])
}

fn drop(call: &SystemCall<'_, '_>) -> Result<i32> {
    refuse_transaction(call, "sys.sp_droplogin")?;
    let name = call.text(0).unwrap_or_default();
    let id = call
        .host()
        .system_function("suser_sid", &[Value::str(&name)])?;
    if id.is_null() {
        return Err(messages::error(15007, &[&name]));
    }
    run(call, &format!("DROP LOGIN {}", quoted(&name)), &[])
}

fn change_password(call: &SystemCall<'_, '_>) -> Result<i32> {
    refuse_transaction(call, "sys.sp_password")?;
    let own = call.host().system_function("suser_sname", &[])?;
    let name = match (call.text(2), own) {
        (Some(name), _) => name,
        (None, Value::Str(own)) => own.to_string(),
        (None, _) => String::new(),
    };
    let mut text = format!("ALTER LOGIN {} WITH PASSWORD = @new", quoted(&name));
    if call.text(0).is_some() {
        text.push_str(" OLD_PASSWORD = @old");
    }
    let password = |at| Value::str(call.text(at).unwrap_or_default());
    let passwords = [
        ("@new", DataType::SYSNAME, password(1)),
        ("@old", DataType::SYSNAME, password(0)),
    ];
    run(call, &text, &passwords)
}

fn refuse_transaction(call: &SystemCall<'_, '_>, name: &str) -> Result<()> {
    match call.host().system_function("@@trancount", &[])? {
        Value::Int(0) => Ok(()),
        _ => Err(messages::error(15002, &[&name])),
    }
}

fn run(
    call: &SystemCall<'_, '_>,
    text: &str,
    parameters: &[(&str, DataType, Value)],
) -> Result<i32> {
    call.run(text, parameters)?;
    Ok(0)
}
