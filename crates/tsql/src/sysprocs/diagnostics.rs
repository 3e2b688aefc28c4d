//! `sp_server_diagnostics`: how well the server is, for those who decide whether it may go on.
//!
//! A row for each of five components and one for each availability group; `data` is XML. States: 0 unknown, 1 clean, 2 warning, 3 error.
//!
//! | component | error | warning |
//! |---|---|---|
//! | system | master or tempdb is suspect | |
//! | resource | | memory is refused, or about to be |
//! | query_processing | | |
//! | io_subsystem | | another database is suspect |
//! | events | unknown always: event sessions have them | |
//! | a group | this server neither leads nor follows it | |
//!
//! It looks at what is in memory and waits for no lock of a table.

use super::define::Procedure;

pub(super) const PROCEDURES: &[Procedure] = &[Procedure::text(
    "sp_server_diagnostics",
    "@repeat_interval int = 0",
    SERVER_DIAGNOSTICS,
)];

const SERVER_DIAGNOSTICS: &str = "
IF @repeat_interval <> 0 AND @repeat_interval NOT BETWEEN 5 AND 86399
    RAISERROR (15600, 16, 1, N'sys.sp_server_diagnostics')
ELSE BEGIN
    DECLARE @pause varchar(8) = CONVERT(varchar(8), DATEADD(second, @repeat_interval, CAST('00:00:00' AS time(0))), 108), @again bit = 1
    WHILE @again = 1 BEGIN
        SELECT CAST(SYSDATETIME() AS datetime) AS create_time, component_type, component_name, state,
            CASE state WHEN 0 THEN N'unknown' WHEN 1 THEN N'clean' WHEN 2 THEN N'warning' ELSE N'error' END AS state_desc, data
        FROM (
            SELECT 1 AS place, N'instance' AS component_type, N'system' AS component_name,
                IIF(EXISTS (SELECT * FROM sys.databases WHERE database_id IN (1, 2) AND state = 4), 3, 1) AS state,
                (SELECT cpu_count AS systemCpuCount, (SELECT COUNT(*) FROM sys.dm_exec_sessions WHERE is_user_process = 1) AS sessions,
                    (SELECT COUNT(*) FROM sys.databases WHERE database_id IN (1, 2) AND state = 4) AS suspectDatabases
                 FROM sys.dm_os_sys_info FOR XML RAW('system')) AS data
            UNION ALL SELECT 2, N'instance', N'resource',
                (SELECT IIF(process_physical_memory_low = 1 OR memory_utilization_percentage >= 98, 2, 1) FROM sys.dm_os_process_memory),
                (SELECT physical_memory_in_use_kb AS workingSetKb, memory_utilization_percentage AS memoryUtilization,
                    process_physical_memory_low AS processPhysicalMemoryLow
                 FROM sys.dm_os_process_memory FOR XML RAW('resource'))
            UNION ALL SELECT 3, N'instance', N'query_processing', 1,
                (SELECT (SELECT COUNT(*) FROM sys.dm_exec_requests) AS requests,
                    (SELECT COUNT(*) FROM sys.dm_exec_requests WHERE blocking_session_id <> 0) AS blockedRequests,
                    (SELECT TOP (10) wait_type AS waitType, waiting_tasks_count AS waits, wait_time_ms AS waitTimeMs
                     FROM sys.dm_os_wait_stats WHERE waiting_tasks_count > 0 ORDER BY wait_time_ms DESC FOR XML RAW('wait'), TYPE) AS topWaits
                 FOR XML PATH('queryProcessing'))
            UNION ALL SELECT 4, N'instance', N'io_subsystem',
                IIF(EXISTS (SELECT * FROM sys.databases WHERE database_id > 2 AND state = 4), 2, 1),
                (SELECT SUM(num_of_reads) AS reads, SUM(num_of_writes) AS writes, SUM(io_stall_read_ms) AS readStallMs,
                    SUM(io_stall_write_ms) AS writeStallMs,
                    (SELECT COUNT(*) FROM sys.databases WHERE database_id > 2 AND state = 4) AS suspectDatabases
                 FROM sys.dm_io_virtual_file_stats(NULL, NULL) FOR XML RAW('ioSubsystem'))
            UNION ALL SELECT 5, N'instance', N'events', 0, N'<events/>'
            UNION ALL SELECT 6, N'Always On:AvailabilityGroup', g.name,
                IIF(s.role IN (1, 2), 1, 3),
                (SELECT g.name AS [name], s.role_desc AS role, s.synchronization_health_desc AS synchronizationHealth
                 FOR XML RAW('availabilityGroup'))
            FROM sys.availability_groups g LEFT JOIN sys.dm_hadr_availability_replica_states s ON s.group_id = g.group_id AND s.is_local = 1
        ) c
        ORDER BY place, component_name
        SET @again = IIF(@repeat_interval > 0, 1, 0)
        IF @again = 1 WAITFOR DELAY @pause
    END
END";
