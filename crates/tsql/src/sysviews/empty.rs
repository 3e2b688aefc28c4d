//! Views of features that are not here: present, with their columns, and without rows, because clients ask for them.

use super::define::View;
use super::objects::object_columns;

pub(super) const VIEWS: &[View] = &[
    View::empty(
        "xml_schema_collections",
        "xml_collection_id int; schema_id int; principal_id int?; name sysname; create_date datetime; modify_date datetime",
    ),
    View::empty(
        "xml_schema_namespaces",
        "xml_collection_id int; name nvarchar(4000); xml_namespace_id int",
    ),
    View::empty(
        "fulltext_catalogs",
        "fulltext_catalog_id int; name sysname; path nvarchar(260)?; is_default bit; is_accent_sensitivity_on bit; data_space_id int?; file_id int?; principal_id int?; is_importing bit",
    ),
    View::empty(
        "fulltext_indexes",
        "object_id int; unique_index_id int; fulltext_catalog_id int?; is_enabled bit; change_tracking_state char(1)?; change_tracking_state_desc nvarchar(60)?; has_crawl_completed bit; crawl_type char(1); crawl_type_desc nvarchar(60)?; crawl_start_date datetime?; crawl_end_date datetime?; incremental_timestamp binary(8)?; stoplist_id int?; property_list_id int?; data_space_id int",
    ),
    View::empty(
        "fulltext_index_columns",
        "object_id int; column_id int; type_column_id int?; language_id int; statistical_semantics int",
    ),
    View::empty(
        "fulltext_index_catalog_usages",
        "object_id int; index_id int; fulltext_catalog_id int",
    ),
    View::empty(
        "fulltext_stoplists",
        "stoplist_id int; name sysname; create_date datetime; modify_date datetime; principal_id int?",
    ),
    View::empty("fulltext_languages", "lcid int; name sysname"),
    View::empty(
        "registered_search_property_lists",
        "property_list_id int; name sysname; create_date datetime; modify_date datetime; principal_id int?",
    ),
    View::empty(
        "assemblies",
        "name sysname; principal_id int?; assembly_id int; clr_name nvarchar(4000)?; permission_set tinyint?; permission_set_desc nvarchar(60)?; is_visible bit; create_date datetime; modify_date datetime; is_user_defined bit?",
    ),
    View::empty(
        "assembly_files",
        "assembly_id int; name nvarchar(260)?; file_id int; content varbinary(max)?",
    ),
    View::empty(
        "assembly_modules",
        "object_id int; assembly_id int; assembly_class sysname?; assembly_method sysname?; null_on_null_input bit?; execute_as_principal_id int?",
    ),
    View::empty(
        "assembly_types",
        "name sysname; system_type_id tinyint; user_type_id int; schema_id int; principal_id int?; max_length smallint; precision tinyint; scale tinyint; collation_name sysname?; is_nullable bit?; is_user_defined bit; is_assembly_type bit; default_object_id int; rule_object_id int; assembly_id int; assembly_class sysname?; is_binary_ordered bit?; is_fixed_length bit?; prog_id nvarchar(40)?; assembly_qualified_name nvarchar(4000)?; is_table_type bit",
    ),
    View::empty(
        "column_master_keys",
        "name sysname; column_master_key_id int; create_date datetime; modify_date datetime; key_store_provider_name sysname?; key_path nvarchar(4000)?; allow_enclave_computations bit?; signature varbinary(max)?",
    ),
    View::empty(
        "column_encryption_keys",
        "name sysname; column_encryption_key_id int; create_date datetime; modify_date datetime",
    ),
    View::empty(
        "column_encryption_key_values",
        "column_encryption_key_id int; column_master_key_id int; encrypted_value varbinary(8000)?; encryption_algorithm_name sysname?",
    ),
    View::empty(
        "partition_functions",
        "name sysname; function_id int; type char(2); type_desc nvarchar(60)?; fanout int; boundary_value_on_right bit; is_system bit?; create_date datetime; modify_date datetime",
    ),
    View::empty(
        "partition_schemes",
        "name sysname; data_space_id int; type char(2); type_desc nvarchar(60)?; is_default bit?; is_system bit?; function_id int",
    ),
    View::empty(
        "partition_range_values",
        "function_id int; boundary_id int; parameter_id int; value sql_variant?",
    ),
    View::empty(
        "partition_parameters",
        "function_id int; parameter_id int; system_type_id tinyint; max_length smallint; precision tinyint; scale tinyint; collation_name sysname?; user_type_id int",
    ),
    View::empty(
        "destination_data_spaces",
        "partition_scheme_id int; destination_id int; data_space_id int",
    ),
    View::empty(
        "dm_hadr_cluster_networks",
        "member_name nvarchar(128); network_subnet_ip nvarchar(48)?; network_subnet_ipv4_mask nvarchar(45)?; network_subnet_prefix_length int?; is_public bit?; is_ipv4 bit?",
    ),
    View::empty(
        "dm_hadr_availability_replica_cluster_nodes",
        "group_name nvarchar(256)?; replica_server_name nvarchar(256)?; node_name nvarchar(256)?",
    ),
    View::empty(
        "database_mirroring_witnesses",
        "database_name sysname; principal_server_name sysname?; mirror_server_name sysname?; safety_level tinyint; safety_level_desc nvarchar(60)?; safety_sequence_number int; role_sequence_number int; mirroring_guid uniqueidentifier; family_guid uniqueidentifier; is_suspended bit?; is_suspended_sequence_number int; partner_sync_state tinyint?; partner_sync_state_desc nvarchar(60)?",
    ),
    View::empty(
        "asymmetric_keys",
        "name sysname; principal_id int?; asymmetric_key_id int; pvt_key_encryption_type char(2); pvt_key_encryption_type_desc nvarchar(60)?; thumbprint varbinary(32); algorithm char(2); algorithm_desc nvarchar(60)?; key_length int; sid varbinary(85)?; string_sid nvarchar(128)?; public_key varbinary(max)?; attested_by nvarchar(260)?; provider_type nvarchar(120)?; cryptographic_provider_guid uniqueidentifier?; cryptographic_provider_algid sql_variant?",
    ),
    View::empty(
        "dm_database_encryption_keys",
        "database_id int; encryption_state int; create_date datetime; regenerate_date datetime; modify_date datetime; set_date datetime; opened_date datetime; key_algorithm nvarchar(32); key_length int; encryptor_thumbprint varbinary(20); encryptor_type nvarchar(32); percent_complete real; encryption_state_desc nvarchar(32); encryption_scan_state int; encryption_scan_state_desc nvarchar(32); encryption_scan_modify_date datetime",
    ),
    View::empty(
        "security_policies",
        "name sysname; object_id int; principal_id int?; schema_id int; parent_object_id int; type char(2)?; type_desc nvarchar(60)?; create_date datetime; modify_date datetime; is_ms_shipped bit; is_enabled bit; is_not_for_replication bit; uses_database_collation bit?; is_schema_bound bit",
    ),
    View::empty(
        "security_predicates",
        "object_id int; security_predicate_id int; target_object_id int; predicate_definition nvarchar(max)?; predicate_type int?; predicate_type_desc nvarchar(60)?; operation int?; operation_desc nvarchar(60)?",
    ),
    View::empty(
        "external_tables",
        concat!(
            object_columns!(),
            "max_column_id_used int; uses_ansi_nulls bit?; data_source_id int; file_format_id int?; location nvarchar(4000)?; reject_type nvarchar(20)?; reject_value float?; reject_sample_value float?; distribution_type tinyint?; distribution_desc nvarchar(120)?; sharding_col_id int?; remote_schema_name sysname?; remote_object_name sysname?"
        ),
    ),
    View::empty(
        "external_data_sources",
        "data_source_id int; name sysname; location nvarchar(4000); type_desc nvarchar(255)?; type tinyint; resource_manager_location nvarchar(4000)?; credential_id int; database_name sysname?; shard_map_name sysname?; connection_options nvarchar(4000)?; pushdown nvarchar(256)",
    ),
    View::empty(
        "external_file_formats",
        "file_format_id int; name sysname; format_type nvarchar(100); field_terminator nvarchar(10)?; string_delimiter nvarchar(10)?; date_format nvarchar(50)?; use_type_default bit?; serde_method nvarchar(255)?; row_terminator nvarchar(10)?; encoding nvarchar(10)?; data_compression nvarchar(255)?; first_row int?",
    ),
    View::empty(
        "periods",
        "name sysname; period_type tinyint?; period_type_desc nvarchar(60)?; object_id int; start_column_id int; end_column_id int",
    ),
    View::empty(
        "change_tracking_databases",
        "database_id int; is_auto_cleanup_on tinyint?; retention_period int?; retention_period_units tinyint?; retention_period_units_desc nvarchar(60)?; max_cleanup_version bigint?",
    ),
    View::empty(
        "change_tracking_tables",
        "object_id int; is_track_columns_updated_on bit; min_valid_version bigint?; begin_version bigint?; cleanup_version bigint?",
    ),
    View::empty(
        "numbered_procedures",
        "object_id int; procedure_number smallint?; definition nvarchar(max)?",
    ),
    View::empty("rules", object_columns!()),
    View::empty(
        "plan_guides",
        "plan_guide_id int; name sysname; create_date datetime; modify_date datetime; is_disabled bit; query_text nvarchar(max)?; scope_type tinyint; scope_type_desc nvarchar(60)?; scope_object_id int?; scope_batch nvarchar(max)?; parameters nvarchar(max)?; hints nvarchar(max)?",
    ),
    View::empty(
        "service_queues",
        concat!(
            object_columns!(),
            "max_readers smallint?; activation_procedure nvarchar(776)?; execute_as_principal_id int?; is_activation_enabled bit; is_receive_enabled bit; is_enqueue_enabled bit; is_retention_enabled bit; is_poison_message_handling_enabled bit?"
        ),
    ),
    View::empty(
        "services",
        "name sysname; service_id int; principal_id int?; service_queue_id int",
    ),
    View::empty(
        "server_triggers",
        "name sysname; object_id int; parent_class tinyint; parent_class_desc nvarchar(60)?; parent_id int; type char(2); type_desc nvarchar(60)?; create_date datetime; modify_date datetime; is_ms_shipped bit; is_disabled bit",
    ),
    View::empty(
        "server_audits",
        "audit_id int; name sysname; audit_guid uniqueidentifier?; create_date datetime; modify_date datetime; principal_id int?; type char(2); type_desc nvarchar(60)?; on_failure tinyint?; on_failure_desc nvarchar(60)?; is_state_enabled bit?; queue_delay int?; predicate nvarchar(3000)?",
    ),
    View::empty(
        "traces",
        "id int; status int; path nvarchar(260)?; max_size bigint?; stop_time datetime?; max_files int?; is_rowset bit?; is_rollover bit?; is_shutdown bit?; is_default bit?; buffer_count int?; buffer_size int?; file_position bigint?; reader_spid int?; start_time datetime?; last_event_time datetime?; event_count bigint?; dropped_event_count int?",
    ),
    View::empty(
        "selective_xml_index_paths",
        "object_id int; index_id int; path_id int; path nvarchar(4000)?; name sysname?; path_type tinyint?; path_type_desc sysname?",
    ),
    View::empty(
        "dm_db_missing_index_details",
        "index_handle int; database_id smallint; object_id int; equality_columns nvarchar(4000)?; inequality_columns nvarchar(4000)?; included_columns nvarchar(4000)?; statement nvarchar(4000)?",
    ),
    View::empty(
        "dm_db_missing_index_groups",
        "index_group_handle int; index_handle int",
    ),
    View::empty(
        "dm_db_missing_index_group_stats",
        "group_handle int; unique_compiles bigint; user_seeks bigint; user_scans bigint; last_user_seek datetime?; last_user_scan datetime?; avg_total_user_cost float?; avg_user_impact float?; system_seeks bigint; system_scans bigint; last_system_seek datetime?; last_system_scan datetime?; avg_total_system_cost float?; avg_system_impact float?",
    ),
    View::empty(
        "resource_governor_configuration",
        "classifier_function_id int; is_enabled bit; max_outstanding_io_per_volume int",
    ),
    View::empty(
        "backup_devices",
        "name sysname; type tinyint?; type_desc nvarchar(60)?; physical_name nvarchar(260)?",
    ),
    View::empty(
        "remote_data_archive_databases",
        "remote_database_id int; remote_database_name sysname; data_source_id int; federated_service_account bit",
    ),
];
