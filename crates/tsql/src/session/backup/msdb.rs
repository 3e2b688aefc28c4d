//! Tables of msdb about jobs, alerts, operators, log shipping and packages. Nothing here writes them: there is no agent, so they are
//! empty, and who asks which jobs there are is told the truth.

/// All of them; the last one's name stands for their being there.
pub(super) const TABLES: &str = "
CREATE TABLE dbo.syscategories (category_id int NOT NULL PRIMARY KEY, category_class int NOT NULL, category_type tinyint NOT NULL,
    name sysname NOT NULL);
CREATE TABLE dbo.sysjobs (job_id uniqueidentifier NOT NULL PRIMARY KEY, originating_server_id int NOT NULL, name sysname NOT NULL,
    enabled tinyint NOT NULL, description nvarchar(512) NULL, start_step_id int NOT NULL, category_id int NOT NULL,
    owner_sid varbinary(85) NOT NULL, notify_level_eventlog int NOT NULL, notify_level_email int NOT NULL,
    notify_level_netsend int NOT NULL, notify_level_page int NOT NULL, notify_email_operator_id int NOT NULL,
    notify_netsend_operator_id int NOT NULL, notify_page_operator_id int NOT NULL, delete_level int NOT NULL,
    date_created datetime NOT NULL, date_modified datetime NOT NULL, version_number int NOT NULL);
CREATE TABLE dbo.sysjobsteps (job_id uniqueidentifier NOT NULL, step_id int NOT NULL, step_name sysname NOT NULL,
    subsystem nvarchar(40) NOT NULL, command nvarchar(max) NULL, flags int NOT NULL, additional_parameters nvarchar(max) NULL,
    cmdexec_success_code int NOT NULL, on_success_action tinyint NOT NULL, on_success_step_id int NOT NULL,
    on_fail_action tinyint NOT NULL, on_fail_step_id int NOT NULL, server sysname NULL, database_name sysname NULL,
    database_user_name sysname NULL, retry_attempts int NOT NULL, retry_interval int NOT NULL, os_run_priority int NOT NULL,
    output_file_name nvarchar(200) NULL, last_run_outcome int NOT NULL, last_run_duration int NOT NULL,
    last_run_retries int NOT NULL, last_run_date int NOT NULL, last_run_time int NOT NULL, proxy_id int NULL,
    step_uid uniqueidentifier NULL, PRIMARY KEY (job_id, step_id));
CREATE TABLE dbo.sysjobhistory (instance_id int IDENTITY NOT NULL PRIMARY KEY, job_id uniqueidentifier NOT NULL, step_id int NOT NULL,
    step_name sysname NOT NULL, sql_message_id int NOT NULL, sql_severity int NOT NULL, message nvarchar(4000) NULL,
    run_status int NOT NULL, run_date int NOT NULL, run_time int NOT NULL, run_duration int NOT NULL,
    operator_id_emailed int NOT NULL, operator_id_netsent int NOT NULL, operator_id_paged int NOT NULL,
    retries_attempted int NOT NULL, server sysname NOT NULL);
CREATE TABLE dbo.sysjobactivity (session_id int NOT NULL, job_id uniqueidentifier NOT NULL, run_requested_date datetime NULL,
    run_requested_source sysname NULL, queued_date datetime NULL, start_execution_date datetime NULL, last_executed_step_id int NULL,
    last_executed_step_date datetime NULL, stop_execution_date datetime NULL, job_history_id int NULL,
    next_scheduled_run_date datetime NULL);
CREATE TABLE dbo.sysjobservers (job_id uniqueidentifier NOT NULL, server_id int NOT NULL, last_run_outcome tinyint NOT NULL,
    last_outcome_message nvarchar(4000) NULL, last_run_date int NOT NULL, last_run_time int NOT NULL, last_run_duration int NOT NULL);
CREATE TABLE dbo.sysschedules (schedule_id int IDENTITY NOT NULL PRIMARY KEY, schedule_uid uniqueidentifier NOT NULL,
    originating_server_id int NOT NULL, name sysname NOT NULL, owner_sid varbinary(85) NOT NULL, enabled int NOT NULL,
    freq_type int NOT NULL, freq_interval int NOT NULL, freq_subday_type int NOT NULL, freq_subday_interval int NOT NULL,
    freq_relative_interval int NOT NULL, freq_recurrence_factor int NOT NULL, active_start_date int NOT NULL,
    active_end_date int NOT NULL, active_start_time int NOT NULL, active_end_time int NOT NULL, date_created datetime NOT NULL,
    date_modified datetime NOT NULL, version_number int NOT NULL);
CREATE TABLE dbo.sysjobschedules (schedule_id int NULL, job_id uniqueidentifier NULL, next_run_date int NOT NULL,
    next_run_time int NOT NULL);
CREATE TABLE dbo.syssessions (session_id int IDENTITY NOT NULL PRIMARY KEY, agent_start_date datetime NOT NULL);
CREATE TABLE dbo.sysoperators (id int NOT NULL PRIMARY KEY, name sysname NOT NULL, enabled tinyint NOT NULL,
    email_address nvarchar(100) NULL, last_email_date int NOT NULL, last_email_time int NOT NULL, pager_address nvarchar(100) NULL,
    last_pager_date int NOT NULL, last_pager_time int NOT NULL, weekday_pager_start_time int NOT NULL,
    weekday_pager_end_time int NOT NULL, saturday_pager_start_time int NOT NULL, saturday_pager_end_time int NOT NULL,
    sunday_pager_start_time int NOT NULL, sunday_pager_end_time int NOT NULL, pager_days tinyint NOT NULL,
    netsend_address nvarchar(100) NULL, last_netsend_date int NOT NULL, last_netsend_time int NOT NULL, category_id int NOT NULL);
CREATE TABLE dbo.sysalerts (id int NOT NULL PRIMARY KEY, name sysname NOT NULL, event_source nvarchar(100) NOT NULL,
    event_category_id int NULL, event_id int NULL, message_id int NOT NULL, severity int NOT NULL, enabled tinyint NOT NULL,
    delay_between_responses int NOT NULL, last_occurrence_date int NOT NULL, last_occurrence_time int NOT NULL,
    last_response_date int NOT NULL, last_response_time int NOT NULL, notification_message nvarchar(512) NULL,
    include_event_description tinyint NOT NULL, database_name nvarchar(512) NULL, event_description_keyword nvarchar(100) NULL,
    occurrence_count int NOT NULL, count_reset_date int NOT NULL, count_reset_time int NOT NULL, job_id uniqueidentifier NOT NULL,
    has_notification int NOT NULL, flags int NOT NULL, performance_condition nvarchar(512) NULL, category_id int NOT NULL);
CREATE TABLE dbo.sysmaintplan_subplans (subplan_id uniqueidentifier NOT NULL PRIMARY KEY, subplan_name sysname NOT NULL,
    subplan_description nvarchar(512) NULL, plan_id uniqueidentifier NOT NULL, job_id uniqueidentifier NOT NULL,
    msx_job_id uniqueidentifier NULL, schedule_id int NULL, msx_plan bit NOT NULL);
CREATE TABLE dbo.log_shipping_primary_databases (primary_id uniqueidentifier NOT NULL PRIMARY KEY, primary_database sysname NOT NULL,
    backup_directory nvarchar(500) NOT NULL, backup_share nvarchar(500) NOT NULL, backup_retention_period int NOT NULL,
    backup_job_id uniqueidentifier NOT NULL, monitor_server sysname NOT NULL, user_specified_monitor bit NULL,
    monitor_server_security_mode bit NOT NULL, last_backup_file nvarchar(500) NULL, last_backup_date datetime NULL,
    backup_compression tinyint NOT NULL);
CREATE TABLE dbo.log_shipping_secondary_databases (secondary_database sysname NOT NULL PRIMARY KEY,
    secondary_id uniqueidentifier NOT NULL, restore_delay int NOT NULL, restore_all bit NOT NULL, restore_mode bit NOT NULL,
    disconnect_users bit NOT NULL, block_size int NULL, buffer_count int NULL, max_transfer_size int NULL,
    last_restored_file nvarchar(500) NULL, last_restored_date datetime NULL);
";

/// Packages of Integration Services: scripts look for maintenance plans in them.
pub(super) const PACKAGES: &str = "
CREATE TABLE dbo.sysssispackages (name sysname NOT NULL, id uniqueidentifier NOT NULL, description nvarchar(1024) NULL,
    createdate datetime NOT NULL, folderid uniqueidentifier NOT NULL, ownersid varbinary(85) NOT NULL, packagedata image NOT NULL,
    packageformat int NOT NULL, packagetype int NOT NULL, vermajor int NOT NULL, verminor int NOT NULL, verbuild int NOT NULL,
    vercomments nvarchar(1024) NULL, verid uniqueidentifier NOT NULL, isencrypted bit NOT NULL, readrolesid varbinary(85) NULL,
    writerolesid varbinary(85) NULL, PRIMARY KEY (folderid, name));
";
