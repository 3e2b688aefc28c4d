//! Procedures of msdb around jobs, mail and the history of backups.
//!
//! There is no agent that would run a job and no mail that would be sent: what makes either is refused, so that nobody
//! waits for it. The tables of msdb that tell of jobs are there and empty.
//!
//! Tests: golden/sql/system/agent.

use super::define::Procedure;
use crate::error::Result;
use crate::messages;
use crate::session::SystemCall;

pub(super) const PROCEDURES: &[Procedure] = &[
    Procedure::native("sp_add_job", ADD_JOB, no_agent),
    Procedure::native("sp_add_jobstep", JOB_STEP, no_agent),
    Procedure::native("sp_update_jobstep", JOB_STEP, no_agent),
    Procedure::native(
        "sp_add_jobserver",
        "@job_id uniqueidentifier = NULL; @job_name sysname = NULL; @server_name sysname = NULL; @automatic_post bit = 1",
        no_agent,
    ),
    Procedure::native("sp_add_jobschedule", JOB_SCHEDULE, no_agent),
    Procedure::native(
        "sp_start_job",
        "@job_name sysname = NULL; @job_id uniqueidentifier = NULL; @error_flag int = 1; @server_name sysname = NULL; @step_name sysname = NULL; @output_flag int = 1",
        no_agent,
    ),
    Procedure::native("sp_send_dbmail", MAIL, no_mail),
    Procedure::text(
        "sp_delete_backuphistory",
        "@oldest_date datetime",
        DELETE_HISTORY,
    ),
];

/// Is it one that msdb alone has? Elsewhere the name is a user's.
pub(crate) fn is_of_msdb(name: &str) -> bool {
    let mut names = PROCEDURES.iter().map(|p| p.name);
    names.any(|known| known.eq_ignore_ascii_case(name))
}

const ADD_JOB: &str = "
    @job_name sysname; @enabled tinyint = 1; @description nvarchar(512) = NULL; @start_step_id int = 1;
    @category_name sysname = NULL; @category_id int = NULL; @owner_login_name sysname = NULL; @notify_level_eventlog int = 2;
    @notify_level_email int = 0; @notify_level_netsend int = 0; @notify_level_page int = 0;
    @notify_email_operator_name sysname = NULL; @notify_netsend_operator_name sysname = NULL;
    @notify_page_operator_name sysname = NULL; @delete_level int = 0; @job_id uniqueidentifier = NULL output;
    @originating_server sysname = NULL";

const JOB_STEP: &str = "
    @job_id uniqueidentifier = NULL; @job_name sysname = NULL; @step_id int = NULL; @step_name sysname = NULL;
    @subsystem nvarchar(40) = NULL; @command nvarchar(max) = NULL; @additional_parameters nvarchar(max) = NULL;
    @cmdexec_success_code int = 0; @on_success_action tinyint = 1; @on_success_step_id int = 0; @on_fail_action tinyint = 2;
    @on_fail_step_id int = 0; @server sysname = NULL; @database_name sysname = NULL; @database_user_name sysname = NULL;
    @retry_attempts int = 0; @retry_interval int = 0; @os_run_priority int = 0; @output_file_name nvarchar(200) = NULL;
    @flags int = 0; @proxy_id int = NULL; @proxy_name sysname = NULL; @step_uid uniqueidentifier = NULL output";

const JOB_SCHEDULE: &str = "
    @job_id uniqueidentifier = NULL; @job_name sysname = NULL; @name sysname; @enabled tinyint = 1; @freq_type int = 1;
    @freq_interval int = 0; @freq_subday_type int = 0; @freq_subday_interval int = 0; @freq_relative_interval int = 0;
    @freq_recurrence_factor int = 0; @active_start_date int = NULL; @active_end_date int = 99991231;
    @active_start_time int = 0; @active_end_time int = 235959; @schedule_id int = NULL output; @automatic_post bit = 1;
    @schedule_uid uniqueidentifier = NULL output";

const MAIL: &str = "
    @profile_name sysname = NULL; @recipients nvarchar(max) = NULL; @copy_recipients nvarchar(max) = NULL;
    @blind_copy_recipients nvarchar(max) = NULL; @subject nvarchar(255) = NULL; @body nvarchar(max) = NULL;
    @body_format varchar(20) = NULL; @importance varchar(6) = NORMAL; @sensitivity varchar(12) = NORMAL;
    @file_attachments nvarchar(max) = NULL; @query nvarchar(max) = NULL; @execute_query_database sysname = NULL;
    @attach_query_result_as_file bit = 0; @query_attachment_filename nvarchar(260) = NULL; @query_result_header bit = 1;
    @query_result_width int = 256; @query_result_separator char(1) = NULL; @exclude_query_output bit = 0;
    @append_query_error bit = 0; @query_no_truncate bit = 0; @query_result_no_padding bit = 0;
    @mailitem_id int = NULL output; @from_address varchar(max) = NULL; @reply_to varchar(max) = NULL";

fn no_agent(_: &SystemCall<'_, '_>) -> Result<i32> {
    Err(messages::not_supported("SQL Server Agent"))
}

fn no_mail(_: &SystemCall<'_, '_>) -> Result<i32> {
    Err(messages::not_supported("Database Mail"))
}

/// Sets that ended before the date, what was restored of them, and media that no set is left of.
const DELETE_HISTORY: &str = "
    SET NOCOUNT ON;
    SET XACT_ABORT ON;
    DECLARE @sets TABLE (backup_set_id int NOT NULL PRIMARY KEY, media_set_id int NOT NULL);
    INSERT @sets SELECT backup_set_id, media_set_id FROM msdb.dbo.backupset WHERE backup_finish_date < @oldest_date;
    BEGIN TRANSACTION;
    DELETE msdb.dbo.restorehistory WHERE backup_set_id IN (SELECT backup_set_id FROM @sets);
    DELETE msdb.dbo.backupfile WHERE backup_set_id IN (SELECT backup_set_id FROM @sets);
    DELETE msdb.dbo.backupset WHERE backup_set_id IN (SELECT backup_set_id FROM @sets);
    DELETE msdb.dbo.backupmediafamily WHERE media_set_id IN (SELECT media_set_id FROM @sets)
        AND media_set_id NOT IN (SELECT media_set_id FROM msdb.dbo.backupset);
    DELETE msdb.dbo.backupmediaset WHERE media_set_id IN (SELECT media_set_id FROM @sets)
        AND media_set_id NOT IN (SELECT media_set_id FROM msdb.dbo.backupset);
    COMMIT;";
