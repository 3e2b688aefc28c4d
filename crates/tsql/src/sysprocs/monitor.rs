//! Procedures that show sessions, locks, space used, databases and files.

use super::define::Procedure;
use crate::error::{Result, SqlError};
use crate::session::SystemCall;
use daruma_value::DataType;

pub(super) const PROCEDURES: &[Procedure] = &[
    Procedure::text("sp_who", "@loginame sysname = NULL", WHO),
    Procedure::text("sp_who2", "@loginame sysname = NULL", WHO2),
    Procedure::text("sp_lock", "@spid1 int = NULL; @spid2 int = NULL", LOCK),
    Procedure::text("sp_helpfile", "@filename sysname = NULL", HELP_FILE),
    Procedure::text(
        "sp_helpfilegroup",
        "@filegroupname sysname = NULL",
        HELP_FILEGROUP,
    ),
    Procedure::native("sp_helpdb", "@dbname sysname = NULL", help_database),
    Procedure::text(
        "sp_helplogins",
        "@LoginNamePattern sysname = NULL",
        HELP_LOGINS,
    ),
    Procedure::text("sp_helpuser", "@name_in_db sysname = NULL", HELP_USER),
    Procedure::text("sp_helprole", "@rolename sysname = NULL", HELP_ROLE),
    Procedure::text(
        "sp_helprolemember",
        "@rolename sysname = NULL",
        HELP_ROLE_MEMBER,
    ),
    Procedure::text(
        "sp_helpsrvrole",
        "@srvrolename sysname = NULL",
        HELP_SERVER_ROLE,
    ),
    Procedure::text(
        "sp_helpsrvrolemember",
        "@srvrolename sysname = NULL",
        HELP_SERVER_ROLE_MEMBER,
    ),
    Procedure::text(
        "sp_helpsort",
        "",
        "SELECT CAST(SERVERPROPERTY('Collation') AS nvarchar(128)) AS [Server default collation]",
    ),
    Procedure::text(
        "sp_helplanguage",
        "@language sysname = NULL",
        "SELECT langid, dateformat, datefirst, upgrade, name, alias, months, shortmonths, days, lcid, msglangid FROM sys.syslanguages WHERE @language IS NULL OR name = @language OR alias = @language",
    ),
    Procedure::text("sp_server_info", "@attribute_id int = NULL", SERVER_INFO),
    Procedure::text(
        "sp_linkedservers",
        "",
        "SELECT name AS SRV_NAME, provider AS SRV_PROVIDERNAME, product AS SRV_PRODUCT, data_source AS SRV_DATASOURCE, provider_string AS SRV_PROVIDERSTRING, location AS SRV_LOCATION, catalog AS SRV_CAT FROM sys.servers",
    ),
    Procedure::text(
        "sp_helpserver",
        "@server sysname = NULL; @optname varchar(35) = NULL; @show_topology varchar(1) = NULL",
        "SELECT name, data_source AS network_name, CAST('' AS varchar(70)) AS status, CAST(server_id AS char(4)) AS id, collation_name, 0 AS connect_timeout, 0 AS query_timeout FROM sys.servers WHERE @server IS NULL OR name = @server",
    ),
];

const HELP_ROLE_MEMBER: &str = "
IF @rolename IS NOT NULL AND NOT EXISTS (SELECT * FROM $.sys.database_principals WHERE type = 'R' AND name = @rolename)
    RAISERROR (15409, 11, 1, @rolename)
ELSE
    SELECT r.name AS DbRole, m.name AS MemberName, m.sid AS MemberSID
    FROM $.sys.database_role_members x
        JOIN $.sys.database_principals r ON r.principal_id = x.role_principal_id
        JOIN $.sys.database_principals m ON m.principal_id = x.member_principal_id
    WHERE @rolename IS NULL OR r.name = @rolename
    ORDER BY 1, 2";

const WHO: &str = "
SELECT p.spid, p.ecid, p.status, p.loginame, p.hostname, CAST(p.blocked AS char(5)) AS blk, d.name AS dbname, p.cmd, p.request_id
FROM sys.sysprocesses p LEFT JOIN sys.databases d ON d.database_id = p.dbid
WHERE @loginame IS NULL OR p.loginame = @loginame OR (@loginame = 'active' AND p.cmd <> 'AWAITING COMMAND')
    OR CAST(p.spid AS nvarchar(10)) = @loginame
ORDER BY p.spid";

const WHO2: &str = "
SELECT CAST(p.spid AS char(5)) AS SPID, p.status AS Status, p.loginame AS Login,
    CASE WHEN p.hostname = '' THEN '  .' ELSE p.hostname END AS HostName,
    CASE WHEN p.blocked = 0 THEN '  .' ELSE CAST(p.blocked AS varchar(5)) END AS BlkBy, d.name AS DBName, p.cmd AS Command,
    CAST(p.cpu AS varchar(20)) AS CPUTime, CAST(p.physical_io AS varchar(20)) AS DiskIO,
    CONVERT(varchar(14), p.last_batch, 1) + ' ' + CONVERT(varchar(8), p.last_batch, 8) AS LastBatch, p.program_name AS ProgramName,
    CAST(p.spid AS char(5)) AS SPID, CAST(p.request_id AS char(5)) AS REQUESTID
FROM sys.sysprocesses p LEFT JOIN sys.databases d ON d.database_id = p.dbid
WHERE @loginame IS NULL OR p.loginame = @loginame OR (@loginame = 'active' AND p.cmd <> 'AWAITING COMMAND')
    OR CAST(p.spid AS nvarchar(10)) = @loginame
ORDER BY p.spid";

const LOCK: &str = "
SELECT CAST(request_session_id AS smallint) AS spid, CAST(resource_database_id AS smallint) AS dbid,
    CAST(CASE WHEN resource_type = 'OBJECT' THEN resource_associated_entity_id ELSE 0 END AS int) AS ObjId, CAST(0 AS smallint) AS IndId,
    CAST(CASE resource_type WHEN 'DATABASE' THEN 'DB' WHEN 'OBJECT' THEN 'TAB' WHEN 'KEY' THEN 'KEY' WHEN 'APPLICATION' THEN 'APP'
        ELSE 'XCT' END AS nvarchar(4)) AS Type,
    CAST(resource_description AS nvarchar(32)) AS Resource, CAST(request_mode AS nvarchar(8)) AS Mode,
    CAST(request_status AS nvarchar(5)) AS Status
FROM sys.dm_tran_locks
WHERE @spid1 IS NULL OR request_session_id IN (@spid1, @spid2)
ORDER BY 1, 2, 3";

/// Columns of a file in `sp_helpfile` and `sp_helpdb`.
macro_rules! file_columns {
    () => {
        "f.name, CAST(f.file_id AS smallint) AS fileid, f.physical_name AS filename, g.name AS filegroup,
        CAST(CAST(f.size AS bigint) * 8 AS nvarchar(12)) + N' KB' AS size,
        CASE WHEN f.max_size IN (-1, 268435456) AND f.type = 0 THEN N'Unlimited'
            ELSE CAST(CAST(f.max_size AS bigint) * 8 AS nvarchar(12)) + N' KB' END AS maxsize,
        CASE WHEN f.is_percent_growth = 1 THEN CAST(f.growth AS nvarchar(12)) + N'%'
            ELSE CAST(CAST(f.growth AS bigint) * 8 AS nvarchar(12)) + N' KB' END AS growth,
        CASE WHEN f.type = 1 THEN 'log only' ELSE 'data only' END AS usage"
    };
}

const HELP_FILE: &str = concat!(
    "SELECT ",
    file_columns!(),
    " FROM $.sys.database_files f LEFT JOIN $.sys.filegroups g ON g.data_space_id = f.data_space_id
    WHERE @filename IS NULL OR f.name = @filename ORDER BY f.file_id"
);

const HELP_FILEGROUP: &str = "
SELECT g.name AS groupname, CAST(g.data_space_id AS smallint) AS groupid,
    (SELECT COUNT(*) FROM $.sys.database_files f WHERE f.data_space_id = g.data_space_id) AS filecount
FROM $.sys.filegroups g WHERE @filegroupname IS NULL OR g.name = @filegroupname ORDER BY 2";

const HELP_DB: &str = concat!(
    "
SELECT d.name,
    CAST(STR(CAST(SUM(CAST(m.size AS bigint)) AS decimal(18, 2)) / 128, 10, 2) + N' MB' AS nvarchar(13)) AS db_size,
    COALESCE(SUSER_SNAME(MAX(d.owner_sid)), N'sa') AS owner, CAST(MAX(d.database_id) AS smallint) AS dbid,
    CONVERT(nvarchar(11), MAX(d.create_date), 106) AS created,
    CAST(N'Status=' + MAX(d.state_desc) + N', Updateability=' + CASE WHEN MAX(CAST(d.is_read_only AS int)) = 1 THEN N'READ_ONLY' ELSE N'READ_WRITE' END
        + N', UserAccess=' + MAX(d.user_access_desc) + N', Recovery=' + MAX(d.recovery_model_desc) + N', Collation=' + MAX(d.collation_name)
        + CASE WHEN MAX(CAST(d.is_auto_create_stats_on AS int)) = 1 THEN N', IsAutoCreateStatistics' ELSE N'' END
        + CASE WHEN MAX(CAST(d.is_auto_update_stats_on AS int)) = 1 THEN N', IsAutoUpdateStatistics' ELSE N'' END AS nvarchar(600)) AS status,
    MAX(d.compatibility_level) AS compatibility_level
FROM sys.databases d LEFT JOIN sys.master_files m ON m.database_id = d.database_id
WHERE @dbname IS NULL OR d.name = @dbname
GROUP BY d.name ORDER BY d.name
IF @dbname IS NOT NULL
    SELECT ",
    file_columns!(),
    " FROM sys.master_files f LEFT JOIN (VALUES (1, N'PRIMARY')) g (id, name) ON g.id = f.data_space_id
    WHERE f.database_id = DB_ID(@dbname) ORDER BY f.file_id"
);

fn help_database(call: &SystemCall<'_, '_>) -> Result<i32> {
    if let Some(name) = call
        .text(0)
        .filter(|name| call.execution.instance().database_named(name).is_none())
    {
        let text = format!(
            "The database '{name}' does not exist. Supply a valid database name. To see available databases, use sys.databases."
        );
        return Err(SqlError::new(15010, 16, 1, text));
    }
    call.run(
        HELP_DB,
        &[("@dbname", DataType::SYSNAME, call.arg(0).clone())],
    )?;
    Ok(0)
}

const HELP_LOGINS: &str = "
SELECT name AS LoginName, sid AS SID, default_database_name AS DefDBName, default_language_name AS DefLangName,
    CAST('yes' AS char(5)) AS AUser, CAST('no' AS char(7)) AS ARemote
FROM sys.sql_logins WHERE @LoginNamePattern IS NULL OR name = @LoginNamePattern ORDER BY name";

const HELP_USER: &str = "
SELECT u.name AS UserName, COALESCE(r.name, N'public') AS RoleName, SUSER_SNAME(u.sid) AS LoginName,
    CAST(NULL AS sysname) AS DefDBName, u.default_schema_name AS DefSchemaName, CAST(u.principal_id AS char(10)) AS UserID, u.sid AS SID
FROM $.sys.database_principals u
    LEFT JOIN $.sys.database_role_members m ON m.member_principal_id = u.principal_id
    LEFT JOIN $.sys.database_principals r ON r.principal_id = m.role_principal_id
WHERE u.type <> 'R' AND (@name_in_db IS NULL OR u.name = @name_in_db) ORDER BY 1, 2";

const HELP_ROLE: &str = "
SELECT name AS RoleName, CAST(principal_id AS smallint) AS RoleId, CAST(0 AS int) AS IsAppRole
FROM $.sys.database_principals WHERE type = 'R' AND (@rolename IS NULL OR name = @rolename) ORDER BY principal_id";

const HELP_SERVER_ROLE: &str = "
SELECT name AS ServerRole, name AS Description FROM sys.server_principals
WHERE type = 'R' AND is_fixed_role = 1 AND (@srvrolename IS NULL OR name = @srvrolename) ORDER BY principal_id";

const HELP_SERVER_ROLE_MEMBER: &str = "
SELECT r.name AS ServerRole, l.name AS MemberName, l.sid AS MemberSID
FROM sys.server_role_members m JOIN sys.server_principals r ON r.principal_id = m.role_principal_id
    JOIN sys.server_principals l ON l.principal_id = m.member_principal_id
WHERE @srvrolename IS NULL OR r.name = @srvrolename ORDER BY 1, 2";

const SERVER_INFO: &str = "
SELECT CAST(a.id AS int) AS attribute_id, CAST(a.name AS varchar(60)) AS attribute_name, CAST(a.value AS varchar(255)) AS attribute_value
FROM (VALUES (1, 'DBMS_NAME', 'Microsoft SQL Server'),
    (2, 'DBMS_VER', 'Microsoft SQL Server 2022 - ' + CAST(SERVERPROPERTY('ProductVersion') AS varchar(60))),
    (10, 'OWNER_TERM', 'owner'), (11, 'TABLE_TERM', 'table'), (12, 'MAX_OWNER_NAME_LENGTH', '128'), (13, 'TABLE_LENGTH', '128'),
    (14, 'MAX_QUAL_LENGTH', '128'), (15, 'COLUMN_LENGTH', '128'), (16, 'IDENTIFIER_CASE', 'MIXED'), (17, 'TX_ISOLATION', '2'),
    (18, 'COLLATION_SEQ', 'charset=iso_1 sort_order=nocase_iso charset_num=1 sort_order_num=52'), (19, 'SAVEPOINT_SUPPORT', 'Y'),
    (20, 'MULTI_RESULT_SETS', 'Y'), (22, 'ACCESSIBLE_TABLES', 'Y'), (100, 'USERID_LENGTH', '128'), (101, 'QUALIFIER_TERM', 'database'),
    (102, 'NAMED_TRANSACTIONS', 'Y'), (103, 'SPROC_AS_LANGUAGE', 'Y'), (104, 'ACCESSIBLE_SPROC', 'Y'), (105, 'MAX_INDEX_COLS', '32'),
    (106, 'RENAME_TABLE', 'Y'), (107, 'RENAME_COLUMN', 'Y'), (108, 'DROP_COLUMN', 'Y'), (109, 'INCREASE_COLUMN_LENGTH', 'Y'),
    (110, 'DDL_IN_TRANSACTION', 'Y'), (111, 'DESCENDING_INDEXES', 'Y'), (112, 'SP_RENAME', 'Y'), (113, 'REMOTE_SPROC', 'N'),
    (500, 'SYS_SPROC_VERSION', CAST(SERVERPROPERTY('ProductVersion') AS varchar(60)))) a (id, name, value)
WHERE @attribute_id IS NULL OR a.id = @attribute_id
ORDER BY 1";
