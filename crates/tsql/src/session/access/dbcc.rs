//! Rights that each DBCC command asks for: one table, and the checks of those that are told in time what they are about.
//!
//! Theory: an argument may be an expression, so a command that names a database or a table is checked when it has found it,
//! not before it runs.

use super::{Execution, Securable};
use crate::error::{Result, SqlError};
use crate::host::{Host, TableKind, TableRef};
use crate::messages;
use daruma_base::DatabaseId;
use daruma_catalog::Object;

enum DbccRule {
    /// Everybody; or the command itself asks once it knows what it is about.
    Later,
    /// db_owner of the current database; error 7983.
    DatabaseOwner,
    /// A permission of the server; error 2571.
    Server(&'static str),
    /// ALTER SERVER STATE; error 2571 with this state and the command in lower case, as the product shows it.
    Cache(u8),
}

const RULES: &[(DbccRule, &[&str])] = &[
    (DbccRule::Later, &["HELP", "TRACESTATUS", "USEROPTIONS"]),
    (
        DbccRule::Later,
        &[
            "CHECKALLOC",
            "CHECKCATALOG",
            "CHECKDB",
            "CHECKIDENT",
            "CHECKTABLE",
            "DBINFO",
            "INPUTBUFFER",
            "LOGINFO",
            "OPENTRAN",
            "SHOW_STATISTICS",
        ],
    ),
    (
        DbccRule::DatabaseOwner,
        &[
            "CHECKCONSTRAINTS",
            "CHECKFILEGROUP",
            "SHRINKDATABASE",
            "SHRINKFILE",
            "UPDATEUSAGE",
        ],
    ),
    (DbccRule::Server("VIEW SERVER STATE"), &["SQLPERF"]),
    (DbccRule::Cache(1), &["FREESESSIONCACHE"]),
    (DbccRule::Cache(9), &["FREEPROCCACHE"]),
    (DbccRule::Cache(11), &["FREESYSTEMCACHE"]),
    (DbccRule::Cache(16), &["DROPCLEANBUFFERS"]),
];

/// A command that is about one table.
pub(crate) struct DbccTable<'n> {
    /// As error 2557 shows it, with its state.
    pub command: &'static str,
    pub state: u8,
    /// The table as it was named.
    pub named: &'n str,
    /// Permission on the table that is enough.
    pub enough: Option<&'static str>,
}

impl Execution<'_> {
    /// Before a command runs; those without a rule are for sysadmin.
    pub(super) fn may_run_dbcc(&self, command: &str) -> Result<()> {
        let rule = RULES.iter().find(|(_, names)| names.contains(&command));
        match rule.map(|(rule, _)| rule) {
            Some(DbccRule::Later) => Ok(()),
            Some(DbccRule::DatabaseOwner) => self.owns_for_dbcc(self.current_database(), command),
            Some(DbccRule::Server(permission)) => self.needs_for_dbcc(permission, command),
            Some(DbccRule::Cache(state)) => self
                .needs_for_dbcc("ALTER SERVER STATE", &command.to_ascii_lowercase())
                .map_err(|e| SqlError { state: *state, ..e }),
            None => self.needs_for_dbcc("CONTROL SERVER", command),
        }
    }

    /// Error 2571 without a permission of the server.
    pub(crate) fn needs_for_dbcc(&self, permission: &str, command: &str) -> Result<()> {
        match self.state.server_rights().has(permission) {
            true => Ok(()),
            false => Err(messages::error(2571, &[&self.user_text()?, &command])),
        }
    }

    /// Error 7983 unless the session is db_owner of the database.
    pub(crate) fn owns_for_dbcc(&self, database: DatabaseId, command: &str) -> Result<()> {
        if self.is_unlimited() || self.state.rights(database)?.all {
            return Ok(());
        }
        let command = command.to_ascii_lowercase();
        let database = self.database_text(database);
        Err(messages::error(
            7983,
            &[&self.user_text()?, &command, &database],
        ))
    }

    /// Error 2557 unless the session administers the table (its owner, db_owner, db_ddladmin), or has the permission
    /// that is enough; 2501 when it must not know of it.
    pub(crate) fn administers_for_dbcc(
        &self,
        database: DatabaseId,
        object: &Object,
        about: &DbccTable<'_>,
    ) -> Result<()> {
        if self.is_unlimited() {
            return Ok(());
        }
        let rights = self.state.rights(database)?;
        let catalog = self.state.catalog(database)?;
        let on = Securable::of(object);
        let enough = about.enough.is_some_and(|p| rights.may(&catalog, p, on));
        if enough || rights.administers(&catalog, on) {
            return Ok(());
        }
        Err(match rights.sees(&catalog, on) {
            true => {
                let user = self.user_text()?;
                messages::error_state(2557, about.state, &[&user, &about.command, &object.name])
            }
            false => messages::error(2501, &[&about.named]),
        })
    }

    /// The same; temporary tables are their session's own.
    pub(crate) fn check_table_for_dbcc(
        &self,
        table: &TableRef,
        about: &DbccTable<'_>,
    ) -> Result<()> {
        let database = table.database.id();
        let catalog = self.state.catalog(database)?;
        match catalog.object(table.object_id) {
            Some(object) if table.kind == TableKind::User => {
                self.administers_for_dbcc(database, object, about)
            }
            _ => Ok(()),
        }
    }

    fn user_text(&self) -> Result<String> {
        let rights = self.state.rights(self.current_database())?;
        Ok(rights.user_name.clone())
    }
}
