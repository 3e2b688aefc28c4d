//! System procedures and the DBCC commands that answer with rows.
//!
//! Map: `define` (how a procedure is described), `as_is` (options with one value), `catalog` (ODBC catalogue), `help` (sp_help and family), `monitor`
//! (sp_who and family), `server` (configuration, error log and the rest), `locks` (application locks), `messages` (those
//! of users), `cleanup` (row versions), `properties` (extended properties), `foreach`, `describe` (columns and parameters of a text), `dbcc`, `diagnostics`,
//! `agent` (jobs, mail, history of backups), `files` (folders and backups on disk),
//! `check` (DBCC CHECKDB and family), `show_statistics`, `xml` (documents for OPENXML).

mod agent;
mod as_is;
mod catalog;
mod check;
mod cleanup;
mod dbcc;
mod define;
mod describe;
mod diagnostics;
mod files;
mod foreach;
mod help;
mod locks;
mod logins;
mod messages;
mod monitor;
mod properties;
mod sequence;
mod server;
mod show_statistics;
mod xml;

use crate::instance::Registry;
pub(crate) use agent::is_of_msdb;
use define::{Procedure, Registered};
pub(crate) use files::{Found, look_at, path_of};
pub(crate) use properties::text_style;
use std::sync::Arc;

const ALL: &[&[Procedure]] = &[
    as_is::PROCEDURES,
    agent::PROCEDURES,
    catalog::PROCEDURES,
    check::PROCEDURES,
    cleanup::PROCEDURES,
    dbcc::PROCEDURES,
    describe::PROCEDURES,
    diagnostics::PROCEDURES,
    files::PROCEDURES,
    foreach::PROCEDURES,
    help::PROCEDURES,
    locks::PROCEDURES,
    logins::PROCEDURES,
    messages::PROCEDURES,
    monitor::PROCEDURES,
    properties::PROCEDURES,
    sequence::PROCEDURES,
    server::PROCEDURES,
    show_statistics::PROCEDURES,
    xml::PROCEDURES,
];

/// Adds every procedure to the registry.
pub fn register(registry: &mut Registry) {
    for procedure in ALL.iter().copied().flatten() {
        registry.add_procedure(Arc::new(Registered::new(procedure)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instance::SystemProcedure;
    use std::collections::HashSet;

    /// Parsing panics (debug builds) on a description it does not understand.
    #[test]
    fn every_description_parses_and_names_are_unique() {
        let mut names = HashSet::new();
        for procedure in ALL.iter().copied().flatten() {
            assert!(
                names.insert(procedure.name.to_lowercase()),
                "{} twice",
                procedure.name
            );
            let registered = Registered::new(procedure);
            let declared = procedure.parameters.matches('@').count();
            assert_eq!(
                registered.parameters().len(),
                declared,
                "{}",
                procedure.name
            );
            assert!(
                registered
                    .parameters()
                    .iter()
                    .all(|p| p.name.starts_with('@')),
                "{}",
                procedure.name
            );
        }
    }
}
