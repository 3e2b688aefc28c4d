//! Views of features that are not here: present, with their columns, and without rows, because clients ask for them.

use super::define::{Rows, View, nothing};
use super::objects::object_columns;
use super::source::Source;
use crate::error::Result;
use crate::messages;
use daruma_value::Value;

/// Of modules as wholes. What their statements cost is in `dm_exec_query_stats`.
const MODULE_STATS: &str = "
    database_id int; object_id int; type char(2)?; type_desc nvarchar(60)?; sql_handle varbinary(64); plan_handle varbinary(64); cached_time datetime?; last_execution_time datetime?; execution_count bigint; total_worker_time bigint; last_worker_time bigint; min_worker_time bigint; max_worker_time bigint; total_physical_reads bigint; last_physical_reads bigint; min_physical_reads bigint; max_physical_reads bigint; total_logical_writes bigint; last_logical_writes bigint; min_logical_writes bigint; max_logical_writes bigint; total_logical_reads bigint; last_logical_reads bigint; min_logical_reads bigint; max_logical_reads bigint; total_elapsed_time bigint; last_elapsed_time bigint; min_elapsed_time bigint; max_elapsed_time bigint; total_spills bigint; last_spills bigint; min_spills bigint; max_spills bigint; total_num_physical_reads bigint; last_num_physical_reads bigint; min_num_physical_reads bigint; max_num_physical_reads bigint; total_page_server_reads bigint; last_page_server_reads bigint; min_page_server_reads bigint; max_page_server_reads bigint; total_num_page_server_reads bigint; last_num_page_server_reads bigint; min_num_page_server_reads bigint; max_num_page_server_reads bigint";

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
    View::empty(
        "dm_exec_query_memory_grants",
        "session_id smallint?; request_id int?; scheduler_id int?; dop smallint?; request_time datetime?; grant_time datetime?; requested_memory_kb bigint?; granted_memory_kb bigint?; required_memory_kb bigint?; used_memory_kb bigint?; max_used_memory_kb bigint?; query_cost float?; timeout_sec int?; resource_semaphore_id smallint?; queue_id smallint?; wait_order int?; is_next_candidate bit?; wait_time_ms bigint?; plan_handle varbinary(64)?; sql_handle varbinary(64)?; group_id int?; pool_id int?; is_small tinyint?; ideal_memory_kb bigint?; reserved_worker_count int?; used_worker_count int?; max_used_worker_count int?; reserved_node_bitmap bigint?; query_hash binary(8)?; query_plan_hash binary(8)?",
    ),
    View::empty(
        "dm_exec_query_resource_semaphores",
        "resource_semaphore_id smallint?; target_memory_kb bigint?; max_target_memory_kb bigint?; total_memory_kb bigint?; available_memory_kb bigint?; granted_memory_kb bigint?; used_memory_kb bigint?; grantee_count int?; waiter_count int?; timeout_error_count bigint?; forced_grant_count bigint?; pool_id int?",
    ),
    View::empty(
        "dm_exec_query_profiles",
        "session_id smallint?; request_id int?; sql_handle varbinary(64)?; plan_handle varbinary(64)?; physical_operator_name nvarchar(256)?; node_id int?; thread_id int?; task_address varbinary(8)?; row_count bigint?; rewind_count bigint?; rebind_count bigint?; end_of_scan_count bigint?; estimate_row_count bigint?; first_active_time bigint?; last_active_time bigint?; open_time bigint?; first_row_time bigint?; last_row_time bigint?; close_time bigint?; elapsed_time_ms bigint?; cpu_time_ms bigint?; database_id smallint?; object_id int?; index_id int?; scan_count bigint?; logical_read_count bigint?; physical_read_count bigint?; read_ahead_count bigint?; write_page_count bigint?; lob_logical_read_count bigint?; lob_physical_read_count bigint?; lob_read_ahead_count bigint?; segment_read_count int?; segment_skip_count int?; actual_read_row_count bigint?; estimated_read_row_count bigint?",
    ),
    View::empty(
        "dm_db_session_space_usage",
        "session_id smallint?; database_id int?; user_objects_alloc_page_count bigint?; user_objects_dealloc_page_count bigint?; internal_objects_alloc_page_count bigint?; internal_objects_dealloc_page_count bigint?; user_objects_deferred_dealloc_page_count bigint?",
    ),
    View::empty(
        "dm_db_task_space_usage",
        "task_address varbinary(8)?; is_remote_task bit?; session_id smallint?; request_id int?; exec_context_id int?; database_id int?; user_objects_alloc_page_count bigint?; user_objects_dealloc_page_count bigint?; internal_objects_alloc_page_count bigint?; internal_objects_dealloc_page_count bigint?",
    ),
    View::empty(
        "dm_broker_activated_tasks",
        "spid int?; database_id smallint?; queue_id int?; procedure_name nvarchar(650)?; execute_as int?",
    ),
    View::empty(
        "dm_os_ring_buffers",
        "ring_buffer_address varbinary(8); ring_buffer_type nvarchar(60); timestamp bigint; record nvarchar(3072)?",
    ),
    View::empty(
        "dm_os_memory_cache_counters",
        "cache_address varbinary(8); name nvarchar(256); type nvarchar(60); pages_kb bigint; pages_in_use_kb bigint?; entries_count bigint; entries_in_use_count bigint",
    ),
    View::empty(
        "dm_os_memory_cache_hash_tables",
        "cache_address varbinary(8); name nvarchar(256); type nvarchar(60); table_level int; buckets_count int; buckets_in_use_count int; buckets_min_length int; buckets_max_length int; buckets_avg_length int; buckets_max_length_ever int; hits_count bigint; misses_count bigint; buckets_avg_scan_hit_length int; buckets_avg_scan_miss_length int",
    ),
    View::empty(
        "dm_os_memory_health_history",
        "snapshot_time datetime2(7); severity_level tinyint; severity_level_desc nvarchar(60); allocation_potential_memory_mb int; reclaimable_cache_memory_mb int; top_memory_clerks nvarchar(4000)?; out_of_memory_event_count int?; external_cause nvarchar(60)?; pvs_memory_mb int?",
    ),
    View::empty(
        "dm_os_loaded_modules",
        "base_address varbinary(8); file_version varchar(23)?; product_version varchar(23)?; debug bit?; patched bit?; prerelease bit?; private_build bit?; special_build bit?; language int?; company nvarchar(256)?; description nvarchar(256)?; name nvarchar(255)?",
    ),
    View::empty(
        "dm_os_cluster_nodes",
        "NodeName nvarchar(128)?; status int?; status_description nvarchar(20)?; is_current_owner bit?",
    ),
    View::empty(
        "dm_os_job_object",
        "cpu_rate int?; cpu_affinity_mask bigint?; cpu_affinity_group int?; memory_limit_mb bigint?; process_memory_limit_mb bigint?; workingset_limit_mb bigint?; non_sos_mem_gap_mb bigint?; low_mem_signal_threshold_mb bigint?; total_user_time bigint?; total_kernel_time bigint?; write_operation_count bigint?; read_operation_count bigint?; peak_process_memory_used_mb bigint?; peak_job_memory_used_mb bigint?; process_physical_affinity nvarchar(3072)?",
    ),
    View::empty(
        "dm_db_persisted_sku_features",
        "feature_name sysname; feature_id int",
    ),
    View::empty(
        "dm_db_mirroring_auto_page_repair",
        "database_id int; file_id int; page_id bigint; error_type smallint; page_status tinyint; modification_time datetime",
    ),
    View::empty(
        "dm_xtp_transaction_stats",
        "total_count bigint; read_only_count bigint; total_aborts bigint; system_aborts bigint; validation_failures bigint; dependencies_taken bigint; dependencies_failed bigint; savepoint_create bigint; savepoint_rollbacks bigint; savepoint_refreshes bigint; log_bytes_written bigint; log_IO_count bigint; phantom_scans_started bigint; phantom_scans_retries bigint; phantom_rows_touched bigint; phantom_rows_expiring bigint; phantom_rows_expired bigint; phantom_rows_expired_removed bigint; scans_started bigint; scans_retried bigint; rows_returned bigint; rows_touched bigint; rows_expiring bigint; rows_expired bigint; rows_expired_removed bigint; row_insert_attempts bigint; row_update_attempts bigint; row_delete_attempts bigint; write_conflicts bigint; unique_constraint_violations bigint",
    ),
    View::empty(
        "dm_server_audit_status",
        "audit_id int; name sysname; status smallint; status_desc nvarchar(256); status_time datetime2(7); event_session_address varbinary(8)?; audit_file_path nvarchar(260)?; audit_file_size bigint?",
    ),
    View::empty(
        "extended_procedures",
        concat!(object_columns!(), "dll_name nvarchar(260)?"),
    ),
    View::empty(
        "internal_tables",
        concat!(
            object_columns!(),
            "internal_type tinyint?; internal_type_desc nvarchar(60)?; parent_id int?; parent_minor_id int?; lob_data_space_id int; filestream_data_space_id int?"
        ),
    ),
    View::empty(
        "index_resumable_operations",
        "object_id int; index_id int; name sysname; sql_text nvarchar(max)?; last_max_dop_used smallint?; partition_number int?; state tinyint; state_desc nvarchar(60)?; start_time datetime?; last_pause_time datetime?; total_execution_time int?; percent_complete float?; page_count bigint?",
    ),
    View::empty(
        "column_store_dictionaries",
        "hobt_id bigint; column_id int; dictionary_id int; version int; type int; last_id int; entry_count bigint; on_disk_size bigint; partition_id bigint",
    ),
    View::empty(
        "column_store_row_groups",
        "object_id int; index_id int; partition_number int; row_group_id int; delta_store_hobt_id bigint?; state tinyint; state_description nvarchar(60)?; total_rows bigint?; deleted_rows bigint?; size_in_bytes bigint?",
    ),
    View::empty(
        "column_store_segments",
        "partition_id bigint; hobt_id bigint; column_id int; segment_id int; version int; encoding_type int; row_count int; has_nulls int; base_id bigint?; magnitude float?; primary_dictionary_id int; secondary_dictionary_id int; min_data_id bigint; max_data_id bigint; null_value bigint; on_disk_size bigint; collation_id int?; min_deep_data varbinary(18)?; max_deep_data varbinary(18)?",
    ),
    View::empty(
        "dm_db_column_store_row_group_physical_stats",
        "object_id int; index_id int; partition_number int; row_group_id int; delta_store_hobt_id bigint?; state tinyint; state_desc nvarchar(60)?; total_rows bigint?; deleted_rows bigint?; size_in_bytes bigint?; trim_reason tinyint?; trim_reason_desc nvarchar(60)?; transition_to_compressed_state tinyint?; transition_to_compressed_state_desc nvarchar(60)?; has_vertipaq_optimization bit?; generation bigint?; created_time datetime2(7)?; closed_time datetime2(7)?",
    ),
    View::empty(
        "dm_db_missing_index_group_stats_query",
        "group_handle int; query_hash binary(8); query_plan_hash binary(8); last_sql_handle varbinary(64); last_statement_start_offset int?; last_statement_end_offset int?; last_statement_sql_handle varbinary(64)?; user_seeks bigint; user_scans bigint; last_user_seek datetime?; last_user_scan datetime?; avg_total_user_cost float?; avg_user_impact float?; system_seeks bigint; system_scans bigint; last_system_seek datetime?; last_system_scan datetime?; avg_total_system_cost float?; avg_system_impact float?",
    ),
    View::function("fn_trace_gettable", (2, 2), TRACE_ROWS, no_trace_file),
    View::function(
        "dm_exec_query_statistics_xml",
        (1, 1),
        "session_id smallint?; request_id int?; sql_handle varbinary(64)?; plan_handle varbinary(64)?; query_plan xml?",
        nothing,
    ),
    View::function(
        "dm_exec_query_plan_stats",
        (1, 1),
        "dbid smallint?; objectid int?; number smallint?; encrypted bit; query_plan xml?",
        nothing,
    ),
    View::function(
        "dm_db_incremental_stats_properties",
        (2, 2),
        "object_id int; stats_id int; partition_number int; last_updated datetime2(7)?; rows bigint?; rows_sampled bigint?; steps int?; unfiltered_rows bigint?; modification_counter bigint?",
        nothing,
    ),
    View::function(
        "dm_db_index_operational_stats",
        (4, 4),
        "database_id smallint; object_id int; index_id int; partition_number int; hobt_id bigint?; leaf_insert_count bigint; leaf_delete_count bigint; leaf_update_count bigint; leaf_ghost_count bigint; nonleaf_insert_count bigint; nonleaf_delete_count bigint; nonleaf_update_count bigint; leaf_allocation_count bigint; nonleaf_allocation_count bigint; leaf_page_merge_count bigint; nonleaf_page_merge_count bigint; range_scan_count bigint; singleton_lookup_count bigint; forwarded_fetch_count bigint; lob_fetch_in_pages bigint; lob_fetch_in_bytes bigint; lob_orphan_create_count bigint; lob_orphan_insert_count bigint; row_overflow_fetch_in_pages bigint; row_overflow_fetch_in_bytes bigint; column_value_push_off_row_count bigint; column_value_pull_in_row_count bigint; row_lock_count bigint; row_lock_wait_count bigint; row_lock_wait_in_ms bigint; page_lock_count bigint; page_lock_wait_count bigint; page_lock_wait_in_ms bigint; index_lock_promotion_attempt_count bigint; index_lock_promotion_count bigint; page_latch_wait_count bigint; page_latch_wait_in_ms bigint; page_io_latch_wait_count bigint; page_io_latch_wait_in_ms bigint; tree_page_latch_wait_count bigint; tree_page_latch_wait_in_ms bigint; tree_page_io_latch_wait_count bigint; tree_page_io_latch_wait_in_ms bigint; page_compression_attempt_count bigint; page_compression_success_count bigint; version_generated_inrow bigint?; version_generated_offrow bigint?; ghost_version_inrow bigint?; ghost_version_offrow bigint?; insert_over_ghost_version_inrow bigint?; insert_over_ghost_version_offrow bigint?",
        nothing,
    ),
    View::empty("dm_exec_procedure_stats", MODULE_STATS),
    View::empty("dm_exec_trigger_stats", MODULE_STATS),
    View::empty("dm_exec_function_stats", MODULE_STATS),
    View::empty(
        "dm_exec_query_optimizer_info",
        "counter nvarchar(4000); occurrence bigint; value float?",
    ),
    View::empty(
        "dm_os_threads",
        "thread_address varbinary(8); started_by_sqlservr bit; os_thread_id int; status int; instruction_address varbinary(8)?; creation_time datetime; kernel_time bigint; usermode_time bigint; stack_base_address varbinary(8)?; stack_end_address varbinary(8)?; stack_bytes_committed int; stack_bytes_used int; affinity bigint; priority int; locale int?; token varbinary(8)?; is_impersonating int; is_waiting_on_loader_lock int; fiber_data varbinary(8)?; thread_handle varbinary(8)?; event_handle varbinary(8)?; scheduler_address varbinary(8)?; worker_address varbinary(8)?; fiber_context_address varbinary(8)?; self_address varbinary(8)?; processor_group smallint",
    ),
];

const TRACE_ROWS: &str = "
    TextData ntext?; BinaryData image?; DatabaseID int?; TransactionID bigint?; LineNumber int?;
    NTUserName nvarchar(256)?; NTDomainName nvarchar(256)?; HostName nvarchar(256)?; ClientProcessID int?;
    ApplicationName nvarchar(256)?; LoginName nvarchar(256)?; SPID int?; Duration bigint?; StartTime datetime?;
    EndTime datetime?; Reads bigint?; Writes bigint?; CPU int?; Permissions bigint?; Severity int?; EventSubClass int?;
    ObjectID int?; Success int?; IndexID int?; IntegerData int?; ServerName nvarchar(256)?; EventClass int?;
    ObjectType int?; NestLevel int?; State int?; Error int?; Mode int?; Handle int?; ObjectName nvarchar(256)?;
    DatabaseName nvarchar(256)?; FileName nvarchar(256)?; OwnerName nvarchar(256)?; RoleName nvarchar(256)?;
    TargetUserName nvarchar(256)?; DBUserName nvarchar(256)?; LoginSid image?; TargetLoginName nvarchar(256)?;
    TargetLoginSid image?; ColumnPermissions int?; LinkedServerName nvarchar(256)?; ProviderName nvarchar(256)?;
    MethodName nvarchar(256)?; RowCounts bigint?; RequestID int?; XactSequence bigint?; EventSequence bigint?;
    BigintData1 bigint?; BigintData2 bigint?; GUID uniqueidentifier?; IntegerData2 int?; ObjectID2 bigint?; Type int?;
    OwnerID int?; ParentName nvarchar(256)?; IsSystem int?; Offset int?; SourceDatabaseID int?; SqlHandle image?;
    SessionLoginName nvarchar(256)?; PlanHandle image?; GroupID int?";

/// No trace runs, so there are no files of one: error 567 for any that is named.
fn no_trace_file(source: &Source<'_>, _: &mut Rows<'_>) -> Result<()> {
    match source.arguments.first() {
        Some(Value::Str(file)) => Err(messages::error(567, &[&file])),
        _ => Ok(()),
    }
}
