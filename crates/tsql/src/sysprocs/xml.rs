//! sp_xml_preparedocument and sp_xml_removedocument: documents for OPENXML.

use super::define::Procedure;
use crate::error::{Result, SqlError};
use crate::executor::xml::{HostMeter, told};
use crate::messages;
use crate::session::SystemCall;
use daruma_value::Value;
use daruma_xml::{Error, Prepared};

/// Its document may be of type `xml`.
pub(super) const PREPARE: &str = "sp_xml_preparedocument";

pub(super) const PROCEDURES: &[Procedure] = &[
    Procedure::native(
        PREPARE,
        "@hdoc int = NULL output; @xmltext nvarchar(max) = NULL; @xpath_namespaces nvarchar(max) = NULL",
        prepare,
    ),
    Procedure::native("sp_xml_removedocument", "@hdoc int", remove),
];

/// What a document is where none is given.
const EMPTY: &str = "<root xmlns:mp=\"urn:schemas-microsoft-com:xml-metaprop\"/>";

/// Errors 6602 for what is no document, and 6624.
fn prepare(call: &SystemCall<'_, '_>) -> Result<i32> {
    if call.host().memory_is_short() {
        return Err(messages::error(6624, &[]));
    }
    let (text, namespaces) = (call.text(1), call.text(2));
    let meter = HostMeter::new(call.host());
    let text = text.as_deref().unwrap_or(EMPTY);
    let document = Prepared::parse(text, namespaces.as_deref(), &meter);
    let document = document.map_err(|e| match e {
        Error::Document(_) => refused(e),
        other => meter.told(other, ""),
    })?;
    let handle = call.execution.keep_document(document)?;
    call.set_output(0, Value::Int(handle));
    Ok(0)
}

fn refused(error: Error) -> SqlError {
    let error = told(error, "");
    messages::error_state(6602, 2, &[&error.message])
}

fn remove(call: &SystemCall<'_, '_>) -> Result<i32> {
    let handle = call.arg(0).as_i64().unwrap_or(0);
    call.execution.remove_document(handle)?;
    Ok(0)
}
