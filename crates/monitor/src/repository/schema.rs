//! Tables and procedures of the repository.
//!
//! Theory: wide rows in plain SQL, for people who query them: a column for each figure of [`crate::figures`], and at the coarser
//! levels its least and most. A figure that came later is added as a column when the monitor starts; any other change gives the tables
//! another [`VERSION`], and a monitor leaves alone what a later release has made. The database commits
//! durably by default; collection and purge ask for delayed durability where a loss of a second does no harm.

use super::levels::{LEVELS, WAIT_LEVELS};
use crate::figures::FIGURES;
use daruma_client::client::{Client, ClientError};
use std::fmt::Write;

/// Name of the repository's database.
pub const DATABASE: &str = "DarumaMonitor";

/// Version of the tables, kept as the setting `schema`.
pub const VERSION: u32 = 1;

/// Role that may look.
pub const READER: &str = "monitor_reader";
/// Role that may also make baselines and rules.
pub const ADMIN: &str = "monitor_admin";

const TABLES: &[(&str, &str)] = &[
    (
        "server",
        "server_id smallint NOT NULL CONSTRAINT PK_server PRIMARY KEY, name nvarchar(128) NOT NULL, \
         endpoint nvarchar(256) NOT NULL CONSTRAINT UQ_server UNIQUE, added datetime2(3) NOT NULL",
    ),
    (
        "boot",
        "server_id smallint NOT NULL, started datetime2(3) NOT NULL, version nvarchar(300) NOT NULL, \
         CONSTRAINT PK_boot PRIMARY KEY (server_id, started)",
    ),
    (
        "wait_type",
        "wait_type_id int NOT NULL CONSTRAINT PK_wait_type PRIMARY KEY, name nvarchar(60) NOT NULL \
         CONSTRAINT UQ_wait_type UNIQUE, class tinyint NOT NULL, is_idle bit NOT NULL",
    ),
    (
        "sql_text",
        "text_id bigint NOT NULL CONSTRAINT PK_sql_text PRIMARY KEY, text nvarchar(max) NOT NULL",
    ),
    (
        "query_plan",
        "server_id smallint NOT NULL, text_id bigint NOT NULL, plan_id bigint NOT NULL, seen datetime2(3) NOT NULL, \
         tree nvarchar(max) NOT NULL, CONSTRAINT PK_query_plan PRIMARY KEY (server_id, text_id, plan_id)",
    ),
    (
        "statement",
        "server_id smallint NOT NULL, ended datetime2(3) NOT NULL, seq int NOT NULL, started datetime2(3) NOT NULL, \
         kind nvarchar(20) NOT NULL, session_id int NOT NULL, executions bigint NOT NULL, duration_us bigint NOT NULL, \
         cpu_us bigint NOT NULL, reads bigint NOT NULL, writes bigint NOT NULL, row_count bigint NOT NULL, \
         wait_ms bigint NOT NULL, log_wait_ms bigint NOT NULL, lock_wait_ms bigint NOT NULL, io_wait_ms bigint NOT NULL, \
         error int NOT NULL, database_name nvarchar(128) NOT NULL, login_name nvarchar(128) NOT NULL, \
         application nvarchar(128) NOT NULL, text_id bigint NULL, CONSTRAINT PK_statement PRIMARY KEY (server_id, ended, seq), INDEX IX_statement_text (text_id)",
    ),
    (
        "blocking",
        "server_id smallint NOT NULL, at datetime2(3) NOT NULL, session_id int NOT NULL, blocked_by int NOT NULL, \
         wait_type nvarchar(60) NOT NULL, wait_ms bigint NOT NULL, status nvarchar(30) NOT NULL, command nvarchar(32) NOT NULL, \
         started datetime2(3) NOT NULL, elapsed_ms bigint NOT NULL, open_transactions int NOT NULL, resource nvarchar(256) NOT NULL, \
         database_name nvarchar(128) NOT NULL, login_name nvarchar(128) NOT NULL, application nvarchar(128) NOT NULL, \
         text_id bigint NULL, CONSTRAINT PK_blocking PRIMARY KEY (server_id, at, session_id), INDEX IX_blocking_text (text_id)",
    ),
    (
        "event",
        "event_id bigint IDENTITY NOT NULL, server_id smallint NOT NULL, at datetime2(3) NOT NULL, until datetime2(3) NULL, \
         kind nvarchar(30) NOT NULL, severity tinyint NOT NULL, words nvarchar(1000) NOT NULL, \
         CONSTRAINT PK_event PRIMARY KEY (server_id, at, event_id)",
    ),
    (
        "baseline",
        "baseline_id int IDENTITY NOT NULL CONSTRAINT PK_baseline PRIMARY KEY, server_id smallint NOT NULL, \
         name nvarchar(128) NOT NULL, from_utc datetime2(3) NOT NULL, to_utc datetime2(3) NOT NULL, \
         made_by nvarchar(128) NOT NULL, made_utc datetime2(3) NOT NULL, step_ms int NOT NULL, covered_ms bigint NOT NULL",
    ),
    (
        "baseline_value",
        "baseline_id int NOT NULL, figure nvarchar(60) NOT NULL, n int NOT NULL, total float NULL, average float NULL, \
         least float NULL, most float NULL, deviation float NULL, p95 float NULL, \
         CONSTRAINT PK_baseline_value PRIMARY KEY (baseline_id, figure)",
    ),
    (
        "alert_rule",
        "rule_id int IDENTITY NOT NULL CONSTRAINT PK_alert_rule PRIMARY KEY, name nvarchar(128) NOT NULL, \
         figure nvarchar(60) NOT NULL, above float NOT NULL, for_s int NOT NULL, is_enabled bit NOT NULL",
    ),
    (
        "alert",
        "alert_id bigint IDENTITY NOT NULL CONSTRAINT PK_alert PRIMARY KEY, server_id smallint NOT NULL, \
         rule_id int NOT NULL, name nvarchar(128) NOT NULL, raised datetime2(3) NOT NULL, cleared datetime2(3) NULL, \
         value float NULL, words nvarchar(1000) NOT NULL",
    ),
    (
        "purge_run",
        "run_id int IDENTITY NOT NULL CONSTRAINT PK_purge_run PRIMARY KEY, level_name nvarchar(30) NOT NULL, \
         started datetime2(3) NOT NULL, ended datetime2(3) NOT NULL, rows_deleted bigint NOT NULL, commits int NOT NULL, \
         is_delayed bit NOT NULL, log_flushes bigint NULL, log_wait_ms bigint NULL",
    ),
    (
        "setting",
        "name nvarchar(60) NOT NULL CONSTRAINT PK_setting PRIMARY KEY, value nvarchar(1000) NOT NULL",
    ),
];

/// The purge: pieces from the old end of a key, each a transaction of its own. A purge that is lost runs again, so that a
/// delayed commit costs nothing; what it saves is in `purge_run`, beside a durable run now and then.
const PURGE: &str = "CREATE OR ALTER PROCEDURE dbo.purge_samples @level sysname, @before datetime2(3), @rows int = 2000,
    @delayed bit = 1, @budget_ms int = 5000 AS
BEGIN
    SET NOCOUNT ON;
    DECLARE @started datetime2(3) = SYSUTCDATETIME(), @deleted bigint = 0, @commits int = 0, @n int, @server smallint;
    DECLARE @key sysname = CASE @level WHEN N'statement' THEN N'ended' ELSE N'at' END;
    DECLARE @sql nvarchar(max) = N'DELETE TOP (@rows) FROM dbo.' + QUOTENAME(@level) + N' WHERE server_id = @server AND '
        + QUOTENAME(@key) + N' < @before; SET @n = @@ROWCOUNT;';
    DECLARE @flushes bigint, @waits bigint;
    SELECT @flushes = cntr_value FROM sys.dm_os_performance_counters
        WHERE counter_name = 'Log Flushes/sec' AND instance_name = DB_NAME();
    SELECT @waits = wait_time_ms FROM sys.dm_os_wait_stats WHERE wait_type = N'WRITELOG';
    DECLARE servers CURSOR LOCAL FAST_FORWARD FOR SELECT server_id FROM dbo.server;
    OPEN servers;
    FETCH NEXT FROM servers INTO @server;
    WHILE @@FETCH_STATUS = 0
    BEGIN
        SET @n = @rows;
        WHILE @n = @rows AND DATEDIFF_BIG(millisecond, @started, SYSUTCDATETIME()) < @budget_ms
        BEGIN
            BEGIN TRANSACTION PurgeChunk;
            EXEC sp_executesql @sql, N'@rows int, @server smallint, @before datetime2(3), @n int OUTPUT',
                @rows, @server, @before, @n OUTPUT;
            IF @delayed = 1 COMMIT TRANSACTION PurgeChunk WITH (DELAYED_DURABILITY = ON);
            ELSE COMMIT TRANSACTION PurgeChunk;
            SET @deleted += @n;
            SET @commits += 1;
        END;
        FETCH NEXT FROM servers INTO @server;
    END;
    CLOSE servers;
    DEALLOCATE servers;
    IF @delayed = 1 EXEC sys.sp_flush_log;
    SELECT @flushes = cntr_value - @flushes FROM sys.dm_os_performance_counters
        WHERE counter_name = 'Log Flushes/sec' AND instance_name = DB_NAME();
    SELECT @waits = wait_time_ms - @waits FROM sys.dm_os_wait_stats WHERE wait_type = N'WRITELOG';
    IF @deleted > 0
        INSERT dbo.purge_run (level_name, started, ended, rows_deleted, commits, is_delayed, log_flushes, log_wait_ms)
        VALUES (@level, @started, SYSUTCDATETIME(), @deleted, @commits, @delayed, @flushes, @waits);
    SELECT @deleted, @commits;
END;";

/// Columns that every tick has before its figures.
const TICK_HEAD: &str = "server_id smallint NOT NULL, at datetime2(3) NOT NULL, dt_ms bigint NOT NULL, ticks int NOT NULL, \
     flags tinyint NOT NULL";

/// Makes the database and everything in it that is not there yet.
pub fn create(client: &mut Client) -> Result<(), ClientError> {
    client.execute(&refuse_later())?;
    client.execute(&format!(
        "IF DB_ID(N'{DATABASE}') IS NULL EXEC (N'CREATE DATABASE {DATABASE}; ALTER DATABASE {DATABASE} SET RECOVERY SIMPLE;');"
    ))?;
    client.execute(&format!(
        "ALTER DATABASE {DATABASE} SET DELAYED_DURABILITY = ALLOWED; "
    ))?;
    client.execute(&format!("USE {DATABASE};"))?;
    for (name, columns) in TABLES {
        table(client, name, columns)?;
    }
    for level in WAIT_LEVELS {
        table(
            client,
            level.table,
            &format!(
                "server_id smallint NOT NULL, at datetime2(3) NOT NULL, wait_type_id int NOT NULL, tasks bigint NOT NULL, \
                 ms bigint NOT NULL, signal_ms bigint NOT NULL, \
                 CONSTRAINT PK_{} PRIMARY KEY (server_id, at, wait_type_id)",
                level.table
            ),
        )?;
    }
    for level in LEVELS {
        ticks(client, level.table, level == LEVELS[0])?;
    }
    client.execute(&format!(
        "IF NOT EXISTS (SELECT * FROM dbo.setting WHERE name = N'schema') \
         INSERT dbo.setting (name, value) VALUES (N'schema', N'{VERSION}');"
    ))?;
    client.execute(PURGE)?;
    for role in [READER, ADMIN] {
        client.execute(&format!(
            "IF DATABASE_PRINCIPAL_ID(N'{role}') IS NULL EXEC (N'CREATE ROLE {role}');"
        ))?;
    }
    first_rules(client)
}

/// An error where a later release has made the tables: it may mean other things by them. The inner batch is compiled only where they are.
fn refuse_later() -> String {
    format!(
        "IF OBJECT_ID(N'{DATABASE}.dbo.setting') IS NOT NULL EXEC (N'\
         DECLARE @found int = (SELECT TRY_CAST(value AS int) FROM {DATABASE}.dbo.setting WHERE name = N''schema''); \
         IF @found > {VERSION} BEGIN \
         DECLARE @words nvarchar(400) = CONCAT(N''a later release of the monitor made the database {DATABASE}: its tables have version '', \
         @found, N'', this release has {VERSION}. Run the later one, or name another server for the repository''); \
         THROW 50000, @words, 1; END;');"
    )
}

fn table(client: &mut Client, name: &str, columns: &str) -> Result<(), ClientError> {
    client.execute(&format!(
        "IF OBJECT_ID(N'dbo.{name}') IS NULL CREATE TABLE dbo.{name} ({columns});"
    ))
}

/// A table of ticks; figures that came after it was made are added.
fn ticks(client: &mut Client, name: &str, is_raw: bool) -> Result<(), ClientError> {
    let names = figure_columns(is_raw);
    let mut columns = String::from(TICK_HEAD);
    for column in &names {
        // Writing to a string cannot fail.
        let _ = write!(columns, ", {column} float NULL");
    }
    let _ = write!(
        columns,
        ", CONSTRAINT PK_{name} PRIMARY KEY (server_id, at)"
    );
    table(client, name, &columns)?;
    let known = client.query(&format!(
        "SELECT name FROM sys.columns WHERE object_id = OBJECT_ID(N'dbo.{name}')"
    ))?;
    let known: Vec<String> = known
        .iter()
        .filter_map(|row| row.first().map(daruma_client::value::text))
        .collect();
    for column in names.iter().filter(|name| !known.contains(name)) {
        client.execute(&format!("ALTER TABLE dbo.{name} ADD {column} float NULL;"))?;
    }
    Ok(())
}

/// Names of the columns that figures take, in the order in which they are written.
pub fn figure_columns(is_raw: bool) -> Vec<String> {
    let mut names: Vec<String> = FIGURES.iter().map(|f| f.name.to_string()).collect();
    if !is_raw {
        for figure in FIGURES {
            names.push(format!("{}_min", figure.name));
        }
        for figure in FIGURES {
            names.push(format!("{}_max", figure.name));
        }
    }
    names
}

/// Rules that a new repository begins with.
fn first_rules(client: &mut Client) -> Result<(), ClientError> {
    client.execute(
        "IF NOT EXISTS (SELECT * FROM dbo.setting WHERE name = N'rules') BEGIN \
         INSERT dbo.alert_rule (name, figure, above, for_s, is_enabled) VALUES \
         (N'Blocked for 30 s', N'blocked_longest_ms', 30000, 5, 1), \
         (N'Log almost full', N'log_used_percent', 85, 30, 1), \
         (N'Commits at risk for 1 s', N'risk_age_ms', 1000, 5, 1), \
         (N'Old versions kept for an hour', N'version_pin_ms', 3600000, 60, 1), \
         (N'No worker left', N'wait_threads', 100, 10, 1); \
         INSERT dbo.setting (name, value) VALUES (N'rules', N'1'); END;",
    )
}
