//! Which right each system procedure asks for before it runs: one table. Procedures that are named an object, and those
//! whose work is a statement, are checked where they have found it.

use super::views::of_resource;
use super::{Execution, Securable};
use crate::error::Result;
use crate::host::Host;
use crate::messages;

/// Right that a procedure asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcedureRule {
    /// Nothing here: it shows what the session may know of, or asks once it knows what it is about.
    Open,
    /// A permission of the server.
    Server(&'static str),
    /// ALTER on the current database.
    AlterDatabase,
    /// To be db_owner of the current database.
    Owner,
}

use ProcedureRule::{AlterDatabase, Open, Owner, Server};

const RULES: &[(ProcedureRule, &[&str])] = &[
    (
        Open,
        &[
            "sp_addextendedproperty",
            "sp_addlogin",
            "sp_addrolemember",
            "sp_addsrvrolemember",
            "sp_changedbowner",
            "sp_column_privileges",
            "sp_columns",
            "sp_columns_100",
            "sp_columns_90",
            "sp_configure",
            "sp_databases",
            "sp_datatype_info",
            "sp_datatype_info_100",
            "sp_datatype_info_90",
            "sp_depends",
            "sp_describe_first_result_set",
            "sp_describe_undeclared_parameters",
            "sp_dropextendedproperty",
            "sp_droplogin",
            "sp_droprolemember",
            "sp_dropsrvrolemember",
            "sp_fkeys",
            "sp_flush_log",
            "sp_getapplock",
            "sp_help",
            "sp_helpconstraint",
            "sp_helpdb",
            "sp_helpfile",
            "sp_helpfilegroup",
            "sp_helpindex",
            "sp_helplanguage",
            "sp_helprole",
            "sp_helprolemember",
            "sp_helpserver",
            "sp_helpsort",
            "sp_helpsrvrole",
            "sp_helpsrvrolemember",
            "sp_helpstats",
            "sp_helptext",
            "sp_helptrigger",
            "sp_helpuser",
            "sp_invalidate_textptr",
            "sp_linkedservers",
            "sp_lock",
            "sp_MSforeachdb",
            "sp_MSforeachtable",
            "sp_password",
            "sp_persistent_version_cleanup",
            "sp_pkeys",
            "sp_recompile",
            "sp_refreshsqlmodule",
            "sp_refreshview",
            "sp_releaseapplock",
            "sp_rename",
            "sp_sequence_get_range",
            "sp_server_info",
            "sp_set_session_context",
            "sp_spaceused",
            "sp_special_columns",
            "sp_special_columns_100",
            "sp_special_columns_90",
            "sp_sproc_columns",
            "sp_sproc_columns_100",
            "sp_sproc_columns_90",
            "sp_statistics",
            "sp_statistics_100",
            "sp_stored_procedures",
            "sp_table_privileges",
            "sp_tablecollations",
            "sp_tablecollations_100",
            "sp_tablecollations_90",
            "sp_tables",
            "sp_updateextendedproperty",
            "sp_who",
            "sp_who2",
            "sp_xml_preparedocument",
            "sp_xml_removedocument",
            "xp_instance_regread",
            "xp_msver",
            "xp_regread",
        ],
    ),
    (
        Server("ALTER ANY LOGIN"),
        &[
            "sp_enumerrorlogs",
            "sp_helplogins",
            "sp_readerrorlog",
            "xp_enumerrorlogs",
            "xp_readerrorlog",
        ],
    ),
    (
        Server("ALTER SETTINGS"),
        &["sp_addmessage", "sp_altermessage", "sp_dropmessage"],
    ),
    (Server("ALTER ANY DATABASE"), &["sp_renamedb"]),
    (Server("VIEW SERVER STATE"), &["sp_server_diagnostics"]),
    (
        Server("CONTROL SERVER"),
        &[
            "sp_add_job",
            "sp_add_jobschedule",
            "sp_add_jobserver",
            "sp_add_jobstep",
            "sp_cycle_errorlog",
            "sp_delete_backuphistory",
            "sp_MSgetalertinfo",
            "sp_send_dbmail",
            "sp_serveroption",
            "sp_start_job",
            "sp_update_jobstep",
            "sp_validatelogins",
            "xp_create_subdir",
            "xp_delete_file",
            "xp_dirtree",
            "xp_fileexist",
            "xp_fixeddrives",
        ],
    ),
    (
        AlterDatabase,
        &[
            "sp_autostats",
            "sp_createstats",
            "sp_indexoption",
            "sp_settriggerorder",
            "sp_tableoption",
        ],
    ),
    (Owner, &["sp_updatestats"]),
];

/// The rule of a procedure of the registry.
pub fn procedure_rule(name: &str) -> Option<ProcedureRule> {
    let holds = |(_, names): &&(ProcedureRule, &[&str])| names.contains(&name);
    RULES.iter().find(holds).map(|(rule, _)| *rule)
}

impl Execution<'_> {
    /// Errors 15247 and, for extended procedures, 229; one without a rule is for sysadmin.
    pub(crate) fn check_system_procedure(&self, name: &str) -> Result<()> {
        if self.is_unlimited() {
            return Ok(());
        }
        let database = self.current_database();
        let may = match procedure_rule(name).unwrap_or(Server("CONTROL SERVER")) {
            Open => true,
            Server(permission) => self.state.server_rights().has(permission),
            AlterDatabase => self.may(database, "ALTER", Securable::Database),
            Owner => self.state.rights(database)?.all,
        };
        match may {
            true => Ok(()),
            false if name.starts_with("xp_") => Err(of_resource("EXECUTE", name)),
            false => Err(messages::error(15247, &[])),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instance::Registry;
    use std::collections::HashSet;

    #[test]
    fn every_procedure_has_one_rule_and_every_rule_a_procedure() {
        let mut registry = Registry::default();
        crate::sysprocs::register(&mut registry);
        let names: HashSet<&str> = registry.procedures().map(|p| p.name()).collect();
        let mut seen = HashSet::new();
        for name in RULES.iter().flat_map(|(_, names)| *names) {
            assert!(names.contains(name), "no procedure {name}");
            assert!(seen.insert(*name), "{name} twice");
        }
        let without: Vec<&&str> = names.difference(&seen).collect();
        assert!(without.is_empty(), "what do these ask for? {without:?}");
    }
}
