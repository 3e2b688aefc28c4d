//! SET options under which tables with filtered indexes, or indexes on computed columns, may be changed: error 1934.
//!
//! The entries of such indexes depend on how expressions are evaluated, so every writer must evaluate them the same way.

use crate::error::Result;
use crate::host::{Host, SessionSettings};
use crate::messages;
use daruma_catalog::{IndexDef, TableDef};

/// Refuses `statement` on a table whose indexes do not go with the session's settings.
pub(crate) fn check(host: &dyn Host, def: &TableDef, statement: &str) -> Result<()> {
    match def.indexes.iter().any(|index| is_particular(def, index)) {
        true => check_settings(host, statement),
        false => Ok(()),
    }
}

/// As `check`, for an UPDATE that changes the indexes at the marked positions.
pub(super) fn check_touched(host: &dyn Host, def: &TableDef, touched: &[bool]) -> Result<()> {
    let mut indexes = def.indexes.iter().zip(touched);
    match indexes.any(|(index, touched)| *touched && is_particular(def, index)) {
        true => check_settings(host, "UPDATE"),
        false => Ok(()),
    }
}

/// As `check`, for the one index that is being made.
pub(crate) fn check_index(
    host: &dyn Host,
    def: &TableDef,
    index: &IndexDef,
    statement: &str,
) -> Result<()> {
    match is_particular(def, index) {
        true => check_settings(host, statement),
        false => Ok(()),
    }
}

fn check_settings(host: &dyn Host, statement: &str) -> Result<()> {
    match incorrect(&host.settings()).as_slice() {
        [] => Ok(()),
        names => Err(messages::error(1934, &[&statement, &names.join(", ")])),
    }
}

fn is_particular(def: &TableDef, index: &IndexDef) -> bool {
    let is_computed = |id: &i32| def.column(*id).is_some_and(|c| c.computed.is_some());
    let mut keys = index.key.iter().map(|k| &k.column_id);
    index.filter.is_some() || keys.any(is_computed) || index.included.iter().any(is_computed)
}

/// Names of the options that are not as they must be. ANSI_WARNINGS ON implies ARITHABORT.
fn incorrect(settings: &SessionSettings) -> Vec<&'static str> {
    let required = [
        ("ANSI_NULLS", settings.ansi_nulls),
        ("QUOTED_IDENTIFIER", settings.quoted_identifier),
        ("CONCAT_NULL_YIELDS_NULL", settings.concat_null_yields_null),
        ("ANSI_WARNINGS", settings.ansi_warnings),
        ("ANSI_PADDING", settings.ansi_padding),
        ("ARITHABORT", settings.arithabort || settings.ansi_warnings),
        ("NUMERIC_ROUNDABORT", !settings.numeric_roundabort),
    ];
    let wrong = required.into_iter().filter(|(_, right)| !right);
    wrong.map(|(name, _)| name).collect()
}
