//! Which right each system view and table-valued system function asks for: one table.
//!
//! Theory: most views show definitions, and hide the rows of what the session may not know of where the rows are made
//! (`Source::catalog`). Views of what the server does ask for a right before they are planned. A view without a rule asks
//! for the widest one, so that a new view tells too little rather than too much; a test misses its rule.

use super::Execution;
use crate::error::{Result, SqlError};
use crate::host::VirtualTable;
use crate::messages;
use daruma_base::DatabaseId;

/// Right that a view asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViewRule {
    /// Nothing: it tells nothing that could be hidden.
    Public,
    /// Nothing: its rows are those of what the session may know of.
    Filtered,
    /// Nothing: without VIEW SERVER STATE its rows are those of the session itself.
    OwnSession,
    /// VIEW SERVER STATE; errors 300 and 297.
    ServerState,
    /// VIEW DATABASE STATE in the database that it is seen from; errors 262 and 297.
    DatabaseState,
    /// To be db_owner of the database that it is seen from; error 229.
    Owner,
}

use ViewRule::{DatabaseState, Filtered, OwnSession, Owner, Public, ServerState};

/// Views of `sys` and `dbo`; those of INFORMATION_SCHEMA are all filtered.
const RULES: &[(ViewRule, &[&str])] = &[
    (
        Public,
        &[
            "allocation_units",
            "configurations",
            "data_spaces",
            "database_automatic_tuning_options",
            "database_files",
            "database_mirroring",
            "database_query_store_options",
            "database_recovery_status",
            "database_scoped_configurations",
            "destination_data_spaces",
            "dm_os_host_info",
            "endpoints",
            "filegroups",
            "fn_helpcollations",
            "fulltext_languages",
            "linked_logins",
            "login_token",
            "messages",
            "partition_functions",
            "partition_parameters",
            "partition_range_values",
            "partition_schemes",
            "resource_governor_configuration",
            "resource_governor_resource_pools",
            "resource_governor_workload_groups",
            "schemas",
            "servers",
            "spt_datatype_info",
            "spt_values",
            "syscharsets",
            "sysconfigures",
            "syscurconfigs",
            "sysfilegroups",
            "sysfiles",
            "syslanguages",
            "sysservers",
            "system_columns",
            "system_objects",
            "system_parameters",
            "system_sql_modules",
            "system_views",
            "tcp_endpoints",
            "time_zone_info",
            "user_token",
        ],
    ),
    (
        Filtered,
        &[
            "all_columns",
            "all_objects",
            "all_parameters",
            "all_sql_modules",
            "all_views",
            "assemblies",
            "assembly_files",
            "assembly_modules",
            "assembly_types",
            "asymmetric_keys",
            "availability_databases_cluster",
            "availability_group_listener_ip_addresses",
            "availability_group_listeners",
            "availability_groups",
            "availability_read_only_routing_lists",
            "availability_replicas",
            "backup_devices",
            "certificates",
            "change_tracking_databases",
            "change_tracking_tables",
            "check_constraints",
            "column_encryption_key_values",
            "column_encryption_keys",
            "column_master_keys",
            "columns",
            "computed_columns",
            "credentials",
            "database_mirroring_endpoints",
            "server_event_session_actions",
            "server_event_session_events",
            "server_event_session_fields",
            "server_event_session_targets",
            "server_event_sessions",
            "database_mirroring_witnesses",
            "database_permissions",
            "database_principals",
            "database_role_members",
            "databases",
            "default_constraints",
            "events",
            "extended_properties",
            "external_data_sources",
            "external_file_formats",
            "external_tables",
            "column_store_dictionaries",
            "column_store_row_groups",
            "column_store_segments",
            "extended_procedures",
            "index_resumable_operations",
            "internal_tables",
            "fn_listextendedproperty",
            "fn_my_permissions",
            "foreign_key_columns",
            "foreign_keys",
            "fulltext_catalogs",
            "fulltext_index_catalog_usages",
            "fulltext_index_columns",
            "fulltext_indexes",
            "fulltext_stoplists",
            "hash_indexes",
            "identity_columns",
            "index_columns",
            "indexes",
            "key_constraints",
            "masked_columns",
            "master_files",
            "numbered_procedures",
            "objects",
            "parameters",
            "partitions",
            "periods",
            "plan_guides",
            "procedures",
            "registered_search_property_lists",
            "remote_data_archive_databases",
            "rules",
            "security_policies",
            "security_predicates",
            "selective_xml_index_paths",
            "sequences",
            "server_audits",
            "server_permissions",
            "server_principals",
            "server_role_members",
            "server_events",
            "server_sql_modules",
            "server_trigger_events",
            "server_triggers",
            "service_queues",
            "services",
            "spatial_indexes",
            "spt_columns_odbc_view",
            "spt_sproc_columns_odbc_view",
            "sql_dependencies",
            "sql_expression_dependencies",
            "sql_logins",
            "sql_modules",
            "stats",
            "stats_columns",
            "symmetric_keys",
            "synonyms",
            "sysaltfiles",
            "syscolumns",
            "syscomments",
            "sysdatabases",
            "sysforeignkeys",
            "sysindexes",
            "sysindexkeys",
            "syslogins",
            "sysobjects",
            "systypes",
            "sysusers",
            "table_types",
            "tables",
            "traces",
            "trigger_event_types",
            "trigger_events",
            "triggers",
            "types",
            "views",
            "xml_indexes",
            "xml_schema_collections",
            "xml_schema_namespaces",
        ],
    ),
    (
        OwnSession,
        &[
            "dm_exec_input_buffer",
            "dm_exec_requests",
            "dm_exec_sessions",
            "sysprocesses",
        ],
    ),
    (
        ServerState,
        &[
            "dm_broker_activated_tasks",
            "dm_db_index_operational_stats",
            "dm_db_mirroring_auto_page_repair",
            "dm_db_missing_index_group_stats_query",
            "dm_db_session_space_usage",
            "dm_db_task_space_usage",
            "dm_exec_function_stats",
            "dm_exec_procedure_stats",
            "dm_exec_query_memory_grants",
            "dm_exec_query_plan_stats",
            "dm_exec_query_profiles",
            "dm_exec_query_resource_semaphores",
            "dm_exec_query_statistics_xml",
            "dm_exec_trigger_stats",
            "dm_os_cluster_nodes",
            "dm_os_enumerate_fixed_drives",
            "dm_os_file_exists",
            "dm_os_job_object",
            "dm_os_loaded_modules",
            "dm_os_memory_cache_counters",
            "dm_os_memory_cache_hash_tables",
            "dm_os_memory_health_history",
            "dm_os_ring_buffers",
            "dm_os_tasks",
            "dm_os_threads",
            "dm_os_volume_stats",
            "dm_os_workers",
            "dm_server_audit_status",
            "dm_xtp_transaction_stats",
            "dm_exec_plan_attributes",
            "dm_exec_query_optimizer_info",
            "dm_os_buffer_pool_extension_configuration",
            "dm_os_memory_nodes",
            "dm_os_nodes",
            "dm_os_server_diagnostics_log_configurations",
            "dm_database_encryption_keys",
            "dm_db_index_usage_stats",
            "dm_db_missing_index_details",
            "dm_db_missing_index_group_stats",
            "dm_db_missing_index_groups",
            "dm_exec_cached_plans",
            "dm_exec_connections",
            "dm_exec_query_plan",
            "dm_exec_query_stats",
            "dm_exec_sql_text",
            "dm_exec_text_query_plan",
            "dm_exec_completed_requests",
            "dm_exec_session_wait_stats",
            "dm_hadr_auto_page_repair",
            "dm_hadr_automatic_seeding",
            "dm_hadr_availability_group_states",
            "dm_hadr_availability_replica_cluster_nodes",
            "dm_hadr_availability_replica_cluster_states",
            "dm_hadr_availability_replica_states",
            "dm_hadr_cluster",
            "dm_hadr_cluster_members",
            "dm_hadr_cluster_networks",
            "dm_hadr_database_replica_cluster_states",
            "dm_hadr_database_replica_states",
            "dm_hadr_physical_seeding_stats",
            "dm_io_virtual_file_stats",
            "dm_os_memory_clerks",
            "dm_os_performance_counters",
            "dm_os_process_memory",
            "dm_os_schedulers",
            "dm_os_sys_info",
            "dm_os_sys_memory",
            "dm_os_wait_stats",
            "dm_os_waiting_tasks",
            "dm_os_windows_info",
            "dm_server_services",
            "dm_tcp_listener_states",
            "dm_tran_aborted_transactions",
            "dm_tran_active_transactions",
            "dm_tran_current_transaction",
            "dm_tran_database_transactions",
            "dm_tran_delayed_durability",
            "dm_tran_locks",
            "dm_tran_persistent_version_store_stats",
            "dm_tran_session_transactions",
            "dm_tran_version_store_space_usage",
            "dm_xe_map_values",
            "dm_xe_object_columns",
            "dm_xe_objects",
            "dm_xe_packages",
            "dm_xe_session_events",
            "dm_xe_session_targets",
            "dm_xe_sessions",
            "fn_trace_gettable",
            "fn_xe_file_target_read_file",
            "syslockinfo",
        ],
    ),
    (
        DatabaseState,
        &[
            "dm_db_column_store_row_group_physical_stats",
            "dm_db_incremental_stats_properties",
            "dm_db_persisted_sku_features",
            "dm_db_file_space_usage",
            "dm_db_index_physical_stats",
            "dm_db_log_info",
            "dm_db_log_space_usage",
            "dm_db_log_stats",
            "dm_db_partition_stats",
            "dm_db_stats_properties",
            "dm_db_version_store_pins",
            "dm_db_version_store_tables",
        ],
    ),
    (Owner, &["dm_db_stats_histogram", "fn_dblog"]),
];

const SERVER_STATE: &str = "VIEW SERVER STATE";
const DATABASE_STATE: &str = "VIEW DATABASE STATE";

/// The rule of a view; none is known for some names only while a view is being added.
pub fn rule_of(schema: &str, name: &str) -> Option<ViewRule> {
    if schema.eq_ignore_ascii_case("INFORMATION_SCHEMA") {
        return Some(Filtered);
    }
    let holds = |(_, names): &&(ViewRule, &[&str])| names.contains(&name);
    RULES.iter().find(holds).map(|(rule, _)| *rule)
}

impl Execution<'_> {
    /// Fails unless the session may read a system view from a database.
    pub(crate) fn check_system_view(
        &self,
        schema: &str,
        view: &dyn VirtualTable,
        database: DatabaseId,
    ) -> Result<()> {
        if self.is_unlimited() {
            return Ok(());
        }
        match rule_of(schema, view.name()).unwrap_or(ServerState) {
            Public | Filtered | OwnSession => Ok(()),
            ServerState => self.needs_server_state(),
            DatabaseState => self.needs_database_state(database),
            Owner => match self.state.rights(database)?.all {
                true => Ok(()),
                false => Err(of_resource("SELECT", view.name())),
            },
        }
    }

    pub(crate) fn needs_server_state(&self) -> Result<()> {
        if self.state.server_rights().has(SERVER_STATE) {
            return Ok(());
        }
        let first = messages::error(300, &[&SERVER_STATE, &"server", &"master"]);
        Err(first.followed(messages::error(297, &[])))
    }

    pub(crate) fn needs_database_state(&self, database: DatabaseId) -> Result<()> {
        self.needs_in(database, DATABASE_STATE)
            .map_err(|e| e.followed(messages::error(297, &[])))
    }
}

/// Error 229 of an object of the server's own.
pub(super) fn of_resource(permission: &str, name: &str) -> SqlError {
    messages::error_state(
        229,
        5,
        &[&permission, &name, &"mssqlsystemresource", &"sys"],
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instance::Registry;
    use std::collections::HashSet;

    fn registered() -> HashSet<(String, String)> {
        let mut registry = Registry::default();
        crate::sysviews::register(&mut registry);
        let name = |(schema, table): (&str, &std::sync::Arc<dyn VirtualTable>)| {
            (schema.to_string(), table.name().to_string())
        };
        registry.tables().map(name).collect()
    }

    #[test]
    fn every_view_has_a_rule() {
        let without: Vec<_> = registered()
            .into_iter()
            .filter(|(schema, name)| rule_of(schema, name).is_none())
            .collect();
        assert_eq!(without, [], "what do these ask for?");
    }

    #[test]
    fn every_rule_is_of_one_view() {
        let names: HashSet<String> = registered().into_iter().map(|(_, name)| name).collect();
        let mut seen = HashSet::new();
        for name in RULES.iter().flat_map(|(_, names)| *names) {
            assert!(names.contains(*name), "no view {name}");
            assert!(seen.insert(name), "{name} twice");
        }
    }
}
