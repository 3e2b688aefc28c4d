//! Every kind of statement: what it answers without the right it needs, the least that lets it pass, and that it passes
//! then. A kind of statement without a case does not compile (`visit`) or fails (`every_kind_of_statement_has_a_case`).

mod common;

use common::{Client, Server, errors};
use daruma_syntax::ast::{Statement, StatementKind};
use daruma_syntax::{ParseOptions, parse_batch};
use std::collections::BTreeSet;

/// `{u}` in texts is the login and user who tries.
struct Case {
    text: &'static str,
    /// Errors without the right.
    refused: &'static [i32],
    /// What sa runs in `d` so that it passes.
    give: &'static str,
    /// Errors that it then has for other reasons.
    then: &'static [i32],
    /// It cannot run in a transaction that is rolled back: what takes it back.
    undo: Option<&'static str>,
}

const fn case(text: &'static str, refused: &'static [i32], give: &'static str) -> Case {
    Case {
        text,
        refused,
        give,
        then: &[],
        undo: None,
    }
}

impl Case {
    /// Not in a transaction.
    const fn undo(self, text: &'static str) -> Case {
        Case {
            undo: Some(text),
            ..self
        }
    }

    const fn then(self, errors: &'static [i32]) -> Case {
        Case {
            then: errors,
            ..self
        }
    }
}

const SCENE: &[&str] = &[
    "CREATE DATABASE d; CREATE DATABASE closed; CREATE LOGIN cat WITH PASSWORD = 'Daruma-2026'; CREATE LOGIN ben WITH PASSWORD = 'Daruma-2026'",
    "USE d; CREATE USER ben FOR LOGIN ben; CREATE ROLE staff; CREATE ROLE empty_role; CREATE USER nobody WITHOUT LOGIN; \
     CREATE TABLE dbo.t (id int IDENTITY PRIMARY KEY, v int); CREATE TABLE dbo.u (id int); INSERT dbo.t VALUES (10), (20); \
     CREATE INDEX ix ON dbo.t (v); CREATE STATISTICS st ON dbo.t (v); CREATE SEQUENCE dbo.s AS int START WITH 1; \
     CREATE TYPE dbo.alias FROM int; CREATE SYNONYM dbo.syn FOR dbo.t",
    "CREATE SCHEMA app",
    "CREATE SCHEMA spare",
    "CREATE VIEW dbo.v AS SELECT id FROM dbo.t",
    "CREATE PROCEDURE dbo.p AS SELECT 1 AS one",
    "CREATE PROCEDURE dbo.next AS SELECT NEXT VALUE FOR dbo.s AS n",
    "CREATE TRIGGER dbo.tr ON dbo.u AFTER INSERT AS PRINT 'x'",
];

const ROWS: &[Case] = &[
    case(
        "SELECT id FROM dbo.t",
        &[229],
        "GRANT SELECT ON dbo.t TO {u}",
    ),
    case(
        "SELECT id FROM dbo.t",
        &[229],
        "GRANT SELECT ON SCHEMA::dbo TO {u}",
    ),
    case("SELECT id FROM dbo.t", &[229], "GRANT SELECT TO {u}"),
    case(
        "SELECT id FROM dbo.t",
        &[229],
        "ALTER ROLE db_datareader ADD MEMBER {u}",
    ),
    case(
        "SELECT id FROM dbo.v",
        &[229],
        "GRANT SELECT ON dbo.v TO {u}",
    ),
    case(
        "SELECT id FROM dbo.syn",
        &[229],
        "GRANT SELECT ON dbo.t TO {u}",
    ),
    case(
        "SELECT id FROM closed.dbo.t",
        &[916],
        "USE closed; CREATE USER {u} FOR LOGIN {u}",
    )
    .then(&[208]),
    case(
        "SELECT NEXT VALUE FOR dbo.s AS n",
        &[229],
        "GRANT UPDATE ON dbo.s TO {u}",
    ),
    case("EXEC dbo.next", &[229], "GRANT EXECUTE ON dbo.next TO {u}"),
    case(
        "SELECT * INTO dbo.n FROM (VALUES (1)) AS x (a)",
        &[262],
        "GRANT CREATE TABLE TO {u}; GRANT ALTER ON SCHEMA::dbo TO {u}",
    ),
    case(
        "INSERT dbo.t (v) VALUES (1)",
        &[229],
        "GRANT INSERT ON dbo.t TO {u}",
    ),
    case(
        "INSERT dbo.t (v) OUTPUT inserted.id VALUES (1)",
        &[229],
        "GRANT INSERT, SELECT ON dbo.t TO {u}",
    ),
    case(
        "MERGE dbo.t USING dbo.u ON 1 = 0 WHEN NOT MATCHED THEN INSERT (v) VALUES (1);",
        &[229],
        "GRANT INSERT, SELECT ON dbo.t TO {u}; GRANT SELECT ON dbo.u TO {u}",
    ),
    case(
        "MERGE dbo.t USING (SELECT 1 AS id) AS s ON dbo.t.id = s.id WHEN MATCHED AND v = 7 THEN DELETE
         WHEN MATCHED THEN UPDATE SET v = 2;",
        &[229],
        "GRANT UPDATE, SELECT, DELETE ON dbo.t TO {u}",
    ),
    case(
        "INSERT dbo.u SELECT id FROM dbo.t",
        &[229],
        "GRANT INSERT ON dbo.u TO {u}; GRANT SELECT ON dbo.t TO {u}",
    ),
    case(
        "INSERT dbo.u EXEC dbo.p",
        &[229],
        "GRANT INSERT ON dbo.u TO {u}; GRANT EXECUTE ON dbo.p TO {u}",
    ),
    case(
        "UPDATE dbo.t SET v = 1",
        &[229],
        "GRANT UPDATE ON dbo.t TO {u}",
    ),
    case(
        "UPDATE dbo.t SET v = 1 WHERE id = 1",
        &[229],
        "GRANT UPDATE, SELECT ON dbo.t TO {u}",
    ),
    case("DELETE dbo.t", &[229], "GRANT DELETE ON dbo.t TO {u}"),
    case(
        "DELETE dbo.t WHERE id = 1",
        &[229],
        "GRANT DELETE, SELECT ON dbo.t TO {u}",
    ),
    case(
        "TRUNCATE TABLE dbo.t",
        &[1088],
        "GRANT ALTER ON dbo.t TO {u}",
    ),
    case(
        "BULK INSERT dbo.t FROM '/none'",
        &[4834],
        "GRANT INSERT ON dbo.t TO {u}; USE master; GRANT ADMINISTER BULK OPERATIONS TO {u}",
    )
    .then(&[4860]),
    case(
        "BULK INSERT dbo.t FROM '/none'",
        &[4834],
        "USE master; GRANT ADMINISTER BULK OPERATIONS TO {u}",
    )
    .then(&[229]),
    case(
        "INSERT BULK dbo.u (id int)",
        &[229],
        "GRANT INSERT ON dbo.u TO {u}",
    ),
];

const CONTROL: &[Case] = &[
    case(
        "IF EXISTS (SELECT * FROM dbo.t) PRINT 'x'",
        &[229],
        "GRANT SELECT ON dbo.t TO {u}",
    ),
    case(
        "WHILE EXISTS (SELECT * FROM dbo.t WHERE 1 = 0) PRINT 'x'",
        &[229],
        "GRANT SELECT ON dbo.t TO {u}",
    ),
    case(
        "DECLARE @n int = (SELECT COUNT(*) FROM dbo.t)",
        &[229],
        "GRANT SELECT ON dbo.t TO {u}",
    ),
    case(
        "BEGIN ATOMIC WITH (TRANSACTION ISOLATION LEVEL = SNAPSHOT, LANGUAGE = N'us_english') SELECT id FROM dbo.t END",
        &[229],
        "GRANT SELECT ON dbo.t TO {u}",
    ),
    case(
        "BEGIN SELECT id FROM dbo.t END",
        &[229],
        "GRANT SELECT ON dbo.t TO {u}",
    ),
    case(
        "BEGIN TRY SELECT id FROM dbo.t END TRY BEGIN CATCH THROW END CATCH",
        &[229],
        "GRANT SELECT ON dbo.t TO {u}",
    ),
    case(
        "SET IDENTITY_INSERT dbo.t ON",
        &[1088],
        "GRANT ALTER ON dbo.t TO {u}",
    ),
    case("SET SHOWPLAN_TEXT ON", &[], "").undo("SELECT 1 AS one"),
    case("EXEC dbo.p", &[229], "GRANT EXECUTE ON dbo.p TO {u}"),
    case(
        "EXEC ('SELECT id FROM dbo.t')",
        &[229],
        "GRANT SELECT ON dbo.t TO {u}",
    ),
    case(
        "EXEC sp_executesql N'SELECT id FROM dbo.t'",
        &[229],
        "GRANT SELECT ON dbo.t TO {u}",
    ),
    case(
        "EXEC ('SELECT 1 AS one') AS USER = 'ben'",
        &[15517],
        "GRANT IMPERSONATE ON USER::ben TO {u}",
    ),
    case(
        "EXEC ('SELECT id FROM dbo.t') AS LOGIN = 'sa'",
        &[15406],
        "ALTER SERVER ROLE sysadmin ADD MEMBER {u}",
    ),
    case(
        "EXEC ('REVERT') AS USER = 'ben'",
        &[15517],
        "ALTER ROLE db_owner ADD MEMBER {u}",
    ),
    case(
        "EXECUTE AS USER = 'ben'",
        &[15517],
        "GRANT IMPERSONATE ON USER::ben TO {u}",
    )
    .undo("SELECT 1 AS one"),
    case(
        "RAISERROR ('x', 10, 1) WITH LOG",
        &[2778],
        "ALTER SERVER ROLE sysadmin ADD MEMBER {u}",
    ),
    case(
        "USE closed",
        &[916],
        "USE closed; CREATE USER {u} FOR LOGIN {u}",
    )
    .undo("SELECT 1 AS one"),
];

const TABLES: &[Case] = &[
    case(
        "CREATE TABLE dbo.n (id int)",
        &[262],
        "GRANT CREATE TABLE TO {u}; GRANT ALTER ON SCHEMA::dbo TO {u}",
    ),
    case(
        "CREATE TABLE dbo.n (id int)",
        &[262],
        "GRANT CREATE TABLE TO {u}",
    )
    .then(&[2760]),
    case(
        "CREATE TABLE dbo.n (id int)",
        &[262],
        "ALTER ROLE db_ddladmin ADD MEMBER {u}",
    ),
    case(
        "CREATE TABLE app.n (id int REFERENCES dbo.t)",
        &[262],
        "GRANT CREATE TABLE TO {u}; GRANT ALTER ON SCHEMA::app TO {u}; GRANT REFERENCES ON dbo.t TO {u}",
    ),
    case(
        "ALTER TABLE dbo.t ADD n int",
        &[1088],
        "GRANT ALTER ON dbo.t TO {u}",
    ),
    case(
        "CREATE INDEX n ON dbo.t (v)",
        &[1088],
        "GRANT ALTER ON dbo.t TO {u}",
    ),
    case(
        "ALTER INDEX ix ON dbo.t REBUILD",
        &[1088],
        "GRANT ALTER ON dbo.t TO {u}",
    ),
    case(
        "DROP INDEX ix ON dbo.t",
        &[3701],
        "GRANT ALTER ON dbo.t TO {u}",
    ),
    case(
        "CREATE STATISTICS n ON dbo.t (v)",
        &[1088],
        "GRANT ALTER ON dbo.t TO {u}",
    )
    .undo("DROP STATISTICS dbo.t.n"),
    case(
        "UPDATE STATISTICS dbo.t",
        &[1088],
        "GRANT ALTER ON dbo.t TO {u}",
    ),
    case(
        "DROP STATISTICS dbo.t.st",
        &[3701],
        "GRANT ALTER ON dbo.t TO {u}",
    )
    .undo("CREATE STATISTICS st ON dbo.t (v)"),
    case(
        "DISABLE TRIGGER dbo.tr ON dbo.u",
        &[1088],
        "GRANT ALTER ON dbo.u TO {u}",
    ),
    case("DROP TABLE dbo.u", &[3701], "GRANT CONTROL ON dbo.u TO {u}"),
    case(
        "DROP TABLE dbo.u",
        &[3701],
        "GRANT ALTER ON SCHEMA::dbo TO {u}",
    ),
    case(
        "EXEC sp_rename 'dbo.u', 'u2'",
        &[15247],
        "GRANT ALTER ON dbo.u TO {u}; GRANT ALTER ON SCHEMA::dbo TO {u}",
    ),
];

const OBJECTS: &[Case] = &[
    case("CREATE SCHEMA n", &[262], "GRANT CREATE SCHEMA TO {u}"),
    case(
        "ALTER SCHEMA app TRANSFER dbo.u",
        &[15151],
        "GRANT ALTER ON SCHEMA::app TO {u}; GRANT CONTROL ON dbo.u TO {u}",
    ),
    case(
        "DROP SCHEMA spare",
        &[15151],
        "GRANT CONTROL ON SCHEMA::spare TO {u}",
    ),
    case(
        "CREATE TYPE dbo.n FROM int",
        &[262],
        "GRANT CREATE TYPE TO {u}; GRANT ALTER ON SCHEMA::dbo TO {u}",
    ),
    case(
        "DROP TYPE dbo.alias",
        &[3701],
        "GRANT ALTER ON SCHEMA::dbo TO {u}",
    ),
    case(
        "CREATE SEQUENCE dbo.n AS int",
        &[2760],
        "GRANT ALTER ON SCHEMA::dbo TO {u}",
    ),
    case(
        "ALTER SEQUENCE dbo.s RESTART",
        &[15151],
        "GRANT ALTER ON dbo.s TO {u}",
    ),
    case(
        "DROP SEQUENCE dbo.s",
        &[3701],
        "GRANT CONTROL ON dbo.s TO {u}",
    ),
    case(
        "CREATE SYNONYM dbo.n FOR dbo.t",
        &[262],
        "GRANT CREATE SYNONYM TO {u}; GRANT ALTER ON SCHEMA::dbo TO {u}",
    ),
    case(
        "DROP SYNONYM dbo.syn",
        &[3701],
        "GRANT ALTER ON SCHEMA::dbo TO {u}",
    ),
    case(
        "CREATE VIEW dbo.n AS SELECT 1 AS one",
        &[262],
        "GRANT CREATE VIEW TO {u}; GRANT ALTER ON SCHEMA::dbo TO {u}",
    ),
    case(
        "ALTER VIEW dbo.v AS SELECT 1 AS one",
        &[3701],
        "GRANT ALTER ON dbo.v TO {u}",
    ),
    case("DROP VIEW dbo.v", &[3701], "GRANT CONTROL ON dbo.v TO {u}"),
    case(
        "CREATE PROCEDURE dbo.n AS SELECT 1 AS one",
        &[262],
        "GRANT CREATE PROCEDURE TO {u}; GRANT ALTER ON SCHEMA::dbo TO {u}",
    ),
    case(
        "ALTER PROCEDURE dbo.p AS SELECT 1 AS one",
        &[3701],
        "GRANT ALTER ON dbo.p TO {u}",
    ),
    case(
        "CREATE OR ALTER PROCEDURE dbo.p AS SELECT 1 AS one",
        &[3701],
        "GRANT ALTER ON dbo.p TO {u}",
    ),
    case(
        "DROP PROCEDURE dbo.p",
        &[3701],
        "GRANT CONTROL ON dbo.p TO {u}",
    ),
    case(
        "CREATE FUNCTION dbo.n () RETURNS int AS BEGIN RETURN 1 END",
        &[262],
        "GRANT CREATE FUNCTION TO {u}; GRANT ALTER ON SCHEMA::dbo TO {u}",
    )
    .undo("DROP FUNCTION dbo.n"),
    case(
        "CREATE TRIGGER dbo.n ON dbo.u AFTER INSERT AS PRINT 'n'",
        &[2104],
        "GRANT ALTER ON dbo.u TO {u}",
    ),
    case(
        "DROP TRIGGER dbo.tr",
        &[3701],
        "GRANT ALTER ON dbo.u TO {u}",
    ),
];

const PRINCIPALS: &[Case] = &[
    case(
        "GRANT SELECT ON dbo.t TO staff",
        &[15151],
        "GRANT SELECT ON dbo.t TO {u} WITH GRANT OPTION",
    ),
    case(
        "GRANT SELECT ON dbo.t TO staff",
        &[15151],
        "GRANT CONTROL ON dbo.t TO {u}",
    ),
    case(
        "DENY SELECT ON dbo.t TO staff",
        &[15151],
        "GRANT CONTROL ON dbo.t TO {u}",
    ),
    case(
        "REVOKE SELECT ON dbo.t FROM staff",
        &[15151],
        "GRANT CONTROL ON dbo.t TO {u}",
    ),
    case(
        "GRANT CREATE TABLE TO staff",
        &[4613],
        "ALTER ROLE db_securityadmin ADD MEMBER {u}",
    ),
    case(
        "GRANT IMPERSONATE ON USER::ben TO staff",
        &[15151],
        "GRANT CONTROL ON USER::ben TO {u}",
    ),
    case(
        "CREATE LOGIN n WITH PASSWORD = 'Daruma-2026'",
        &[15247],
        "USE master; GRANT ALTER ANY LOGIN TO {u}",
    )
    .undo("DROP LOGIN n"),
    case(
        "ALTER LOGIN ben WITH DEFAULT_DATABASE = d",
        &[15151],
        "USE master; GRANT ALTER ON LOGIN::ben TO {u}",
    )
    .undo("ALTER LOGIN ben WITH DEFAULT_DATABASE = master"),
    case(
        "DROP LOGIN cat",
        &[15151],
        "USE master; GRANT ALTER ANY LOGIN TO {u}",
    )
    .undo("CREATE LOGIN cat WITH PASSWORD = 'Daruma-2026'"),
    case(
        "ALTER SERVER ROLE dbcreator ADD MEMBER ben",
        &[15151],
        "ALTER SERVER ROLE dbcreator ADD MEMBER {u}",
    )
    .undo("ALTER SERVER ROLE dbcreator DROP MEMBER ben"),
    case(
        "EXEC sp_addsrvrolemember 'ben', 'dbcreator'",
        &[15151],
        "ALTER SERVER ROLE dbcreator ADD MEMBER {u}",
    )
    .undo("ALTER SERVER ROLE dbcreator DROP MEMBER ben"),
    case(
        "CREATE USER n WITHOUT LOGIN",
        &[15247],
        "GRANT ALTER ANY USER TO {u}",
    ),
    case(
        "ALTER USER ben WITH DEFAULT_SCHEMA = app",
        &[15151],
        "GRANT ALTER ON USER::ben TO {u}",
    ),
    case("DROP USER nobody", &[15151], "GRANT ALTER ANY USER TO {u}"),
    case("CREATE ROLE n", &[15247], "GRANT CREATE ROLE TO {u}"),
    case(
        "ALTER ROLE staff ADD MEMBER ben",
        &[15151],
        "GRANT ALTER ON ROLE::staff TO {u}",
    ),
    case(
        "ALTER ROLE db_datareader ADD MEMBER ben",
        &[15151],
        "ALTER ROLE db_owner ADD MEMBER {u}",
    ),
    case(
        "EXEC sp_addrolemember 'staff', 'ben'",
        &[15151],
        "GRANT ALTER ON ROLE::staff TO {u}",
    ),
    case(
        "DROP ROLE empty_role",
        &[15151],
        "GRANT CONTROL ON ROLE::empty_role TO {u}",
    ),
    case(
        "CREATE CREDENTIAL n WITH IDENTITY = 'x', SECRET = 'y'",
        &[15247],
        "USE master; GRANT ALTER ANY CREDENTIAL TO {u}",
    )
    .undo("DROP CREDENTIAL n"),
    case(
        "ALTER CREDENTIAL n WITH IDENTITY = 'x', SECRET = 'y'",
        &[15151],
        "CREATE CREDENTIAL n WITH IDENTITY = 'x'; USE master; GRANT ALTER ANY CREDENTIAL TO {u}",
    )
    .undo("DROP CREDENTIAL n"),
    case(
        "DROP CREDENTIAL n",
        &[15151],
        "CREATE CREDENTIAL n WITH IDENTITY = 'x'; USE master; GRANT ALTER ANY CREDENTIAL TO {u}",
    )
    .undo("SELECT 1 AS one"),
    case(
        "ALTER AUTHORIZATION ON SCHEMA::app TO ben",
        &[15151],
        "GRANT TAKE OWNERSHIP ON SCHEMA::app TO {u}; GRANT IMPERSONATE ON USER::ben TO {u}",
    ),
    case(
        "EXEC sp_changedbowner 'ben'",
        &[15151],
        "ALTER SERVER ROLE sysadmin ADD MEMBER {u}",
    )
    .then(&[15110]),
];

const DATABASES: &[Case] = &[
    case(
        "CREATE DATABASE n",
        &[262],
        "USE master; GRANT CREATE ANY DATABASE TO {u}",
    )
    .undo("DROP DATABASE n"),
    case(
        "ALTER DATABASE d SET RECOVERY SIMPLE",
        &[5011, 5069],
        "GRANT ALTER TO {u}",
    )
    .undo("ALTER DATABASE d SET RECOVERY FULL"),
    case(
        "ALTER DATABASE closed SET RECOVERY SIMPLE",
        &[5011, 5069],
        "USE master; GRANT ALTER ANY DATABASE TO {u}",
    )
    .undo("ALTER DATABASE closed SET RECOVERY FULL"),
    case(
        "ALTER DATABASE closed MODIFY NAME = open2",
        &[5011, 5069],
        "ALTER SERVER ROLE dbcreator ADD MEMBER {u}",
    )
    .undo("ALTER DATABASE open2 MODIFY NAME = closed"),
    case(
        "DROP DATABASE closed",
        &[3701],
        "USE master; GRANT ALTER ANY DATABASE TO {u}",
    )
    .undo("CREATE DATABASE closed"),
    case(
        "BACKUP DATABASE d TO DISK = '/d.bak'",
        &[262, 3013],
        "GRANT BACKUP DATABASE TO {u}",
    )
    .undo("SELECT 1 AS one"),
    case(
        "BACKUP LOG d TO DISK = '/d.trn'",
        &[262, 3013],
        "ALTER ROLE db_backupoperator ADD MEMBER {u}",
    )
    .undo("SELECT 1 AS one"),
    case(
        "RESTORE DATABASE n FROM DISK = '/none'",
        &[3110, 3013],
        "USE master; GRANT CREATE ANY DATABASE TO {u}",
    )
    .then(&[3201, 3013])
    .undo("SELECT 1 AS one"),
    case(
        "RESTORE HEADERONLY FROM DISK = '/none'",
        &[262, 3013],
        "USE master; GRANT CREATE ANY DATABASE TO {u}",
    )
    .then(&[3201, 3013])
    .undo("SELECT 1 AS one"),
    case("CHECKPOINT", &[262], "GRANT CHECKPOINT TO {u}").undo("SELECT 1 AS one"),
];

const SERVER: &[Case] = &[
    case(
        "KILL 9999",
        &[6102],
        "USE master; GRANT ALTER ANY CONNECTION TO {u}",
    )
    .then(&[6106])
    .undo("SELECT 1 AS one"),
    case(
        "RECONFIGURE",
        &[5812],
        "USE master; GRANT ALTER SETTINGS TO {u}",
    )
    .undo("SELECT 1 AS one"),
    case(
        "EXEC sp_configure 'show advanced options', 1",
        &[15247],
        "USE master; GRANT ALTER SETTINGS TO {u}",
    )
    .undo("EXEC sp_configure 'show advanced options', 0"),
    case(
        "EXEC sp_addmessage 60000, 16, N'x'",
        &[15247],
        "ALTER SERVER ROLE serveradmin ADD MEMBER {u}",
    )
    .undo("EXEC sp_dropmessage 60000"),
    case(
        "EXEC xp_readerrorlog",
        &[229],
        "USE master; GRANT ALTER ANY LOGIN TO {u}",
    ),
    case(
        "EXEC sp_cycle_errorlog",
        &[15247],
        "ALTER SERVER ROLE sysadmin ADD MEMBER {u}",
    ),
    case(
        "DBCC CHECKDB (d) WITH NO_INFOMSGS",
        &[7983],
        "ALTER ROLE db_owner ADD MEMBER {u}",
    )
    .undo("SELECT 1 AS one"),
    case(
        "DBCC CHECKDB (closed) WITH NO_INFOMSGS",
        &[916],
        "USE closed; CREATE USER {u} FOR LOGIN {u}; ALTER ROLE db_owner ADD MEMBER {u}",
    )
    .undo("SELECT 1 AS one"),
    case(
        "DBCC CHECKALLOC WITH NO_INFOMSGS",
        &[7983],
        "ALTER ROLE db_owner ADD MEMBER {u}",
    )
    .undo("SELECT 1 AS one"),
    case(
        "DBCC CHECKCATALOG WITH NO_INFOMSGS",
        &[7983],
        "ALTER ROLE db_owner ADD MEMBER {u}",
    ),
    case(
        "DBCC CHECKCONSTRAINTS WITH NO_INFOMSGS",
        &[7983],
        "ALTER ROLE db_owner ADD MEMBER {u}",
    ),
    case(
        "DBCC CHECKFILEGROUP WITH NO_INFOMSGS",
        &[7983],
        "ALTER ROLE db_owner ADD MEMBER {u}",
    )
    .undo("SELECT 1 AS one"),
    case(
        "DBCC CHECKTABLE ('dbo.t') WITH NO_INFOMSGS",
        &[2501],
        "ALTER ROLE db_ddladmin ADD MEMBER {u}",
    )
    .undo("SELECT 1 AS one"),
    case(
        "DBCC CHECKTABLE ('dbo.t') WITH NO_INFOMSGS",
        &[2501],
        "GRANT SELECT ON dbo.t TO {u}",
    )
    .then(&[2557]),
    case(
        "DBCC CHECKIDENT ('dbo.t', RESEED, 5)",
        &[2501],
        "ALTER ROLE db_ddladmin ADD MEMBER {u}",
    ),
    case(
        "DBCC SHOW_STATISTICS ('dbo.t', st)",
        &[2501],
        "GRANT SELECT ON dbo.t TO {u}",
    ),
    case(
        "DBCC LOGINFO (d)",
        &[7983],
        "ALTER ROLE db_owner ADD MEMBER {u}",
    ),
    case(
        "DBCC OPENTRAN (d)",
        &[7983],
        "ALTER ROLE db_owner ADD MEMBER {u}",
    ),
    case(
        "DBCC SHRINKFILE ('d_log')",
        &[7983],
        "ALTER ROLE db_owner ADD MEMBER {u}",
    )
    .undo("SELECT 1 AS one"),
    case(
        "DBCC UPDATEUSAGE (0)",
        &[7983],
        "ALTER ROLE db_owner ADD MEMBER {u}",
    ),
    case(
        "DBCC SQLPERF (LOGSPACE)",
        &[2571],
        "USE master; GRANT VIEW SERVER STATE TO {u}",
    ),
    case(
        "DBCC SQLPERF ('sys.dm_os_wait_stats', CLEAR)",
        &[2571],
        "USE master; GRANT ALTER SERVER STATE TO {u}",
    ),
    case(
        "DBCC SQLPERF ('sys.dm_os_wait_stats', CLEAR)",
        &[2571],
        "USE master; GRANT VIEW SERVER STATE TO {u}",
    )
    .then(&[2571]),
    case(
        "DBCC INPUTBUFFER (1)",
        &[2571],
        "USE master; GRANT VIEW SERVER STATE TO {u}",
    )
    .then(&[7955]),
    case(
        "DBCC FREEPROCCACHE",
        &[2571],
        "USE master; GRANT ALTER SERVER STATE TO {u}",
    ),
    case(
        "DBCC DROPCLEANBUFFERS",
        &[2571],
        "USE master; GRANT ALTER SERVER STATE TO {u}",
    ),
    case(
        "DBCC TRACEON (3625, -1)",
        &[2571],
        "ALTER SERVER ROLE sysadmin ADD MEMBER {u}",
    )
    .undo("DBCC TRACEOFF (3625, -1)"),
    case(
        "CREATE MASTER KEY ENCRYPTION BY PASSWORD = 'Daruma-2026'",
        &[15247],
        "ALTER ROLE db_owner ADD MEMBER {u}",
    )
    // In master alone.
    .then(&[40517]),
    case(
        "DROP MASTER KEY",
        &[15247],
        "ALTER ROLE db_owner ADD MEMBER {u}",
    )
    .then(&[40517]),
    case(
        "CREATE CERTIFICATE c WITH SUBJECT = 'c'",
        &[15247],
        "GRANT CONTROL TO {u}",
    )
    .then(&[40517]),
    case(
        "ALTER CERTIFICATE c REMOVE PRIVATE KEY",
        &[15151],
        "GRANT CONTROL TO {u}",
    )
    .then(&[40517]),
    case(
        "BACKUP CERTIFICATE c TO FILE = '/c.cer'",
        &[15151],
        "GRANT CONTROL TO {u}",
    )
    .then(&[40517]),
    case("DROP CERTIFICATE c", &[15151], "GRANT CONTROL TO {u}").then(&[40517]),
    case(
        "CREATE LOGIN l FROM CERTIFICATE c",
        &[15247],
        "USE master; GRANT ALTER ANY LOGIN TO {u}",
    )
    .then(&[15151]),
    case(
        "CREATE ENDPOINT x STATE = STARTED AS TCP (LISTENER_PORT = 5022) FOR DATABASE_MIRRORING (AUTHENTICATION = CERTIFICATE c)",
        &[15247],
        "USE master; GRANT CREATE ENDPOINT TO {u}",
    )
    .then(&[15151])
    .undo("SELECT 1 AS one"),
    case(
        "ALTER ENDPOINT x STATE = STOPPED",
        &[15151],
        "USE master; GRANT ALTER ANY ENDPOINT TO {u}",
    )
    .then(&[15151])
    .undo("SELECT 1 AS one"),
    case(
        "DROP ENDPOINT x",
        &[15151],
        "USE master; GRANT ALTER ANY ENDPOINT TO {u}",
    )
    .then(&[15151])
    .undo("SELECT 1 AS one"),
    case(
        "CREATE EVENT SESSION x ON SERVER ADD EVENT sqlserver.error_reported",
        &[15247],
        "USE master; GRANT ALTER ANY EVENT SESSION TO {u}",
    )
    .undo("DROP EVENT SESSION x ON SERVER"),
    case(
        "ALTER EVENT SESSION x ON SERVER STATE = START",
        &[15151],
        "USE master; GRANT ALTER ANY EVENT SESSION TO {u}",
    )
    .then(&[15151])
    .undo("SELECT 1 AS one"),
    case(
        "CREATE AVAILABILITY GROUP x WITH (CLUSTER_TYPE = NONE) FOR REPLICA ON 'DARUMA' WITH (ENDPOINT_URL = 'tcp://a:1', AVAILABILITY_MODE = SYNCHRONOUS_COMMIT, FAILOVER_MODE = MANUAL)",
        &[15247],
        "USE master; GRANT CREATE AVAILABILITY GROUP TO {u}",
    )
    .then(&[35221])
    .undo("SELECT 1 AS one"),
    case(
        "ALTER AVAILABILITY GROUP x JOIN",
        &[15151],
        "USE master; GRANT ALTER ANY AVAILABILITY GROUP TO {u}",
    )
    .then(&[35221])
    .undo("SELECT 1 AS one"),
    case(
        "ALTER AVAILABILITY GROUP x OFFLINE",
        &[15151],
        "USE master; GRANT ALTER ANY AVAILABILITY GROUP TO {u}",
    )
    .then(&[15151])
    .undo("SELECT 1 AS one"),
    case(
        "DROP AVAILABILITY GROUP x",
        &[15151],
        "USE master; GRANT ALTER ANY AVAILABILITY GROUP TO {u}",
    )
    .then(&[15151])
    .undo("SELECT 1 AS one"),
    case(
        "ALTER DATABASE d SET HADR OFF",
        &[5011, 5069],
        "GRANT ALTER TO {u}",
    )
    .then(&[35242, 5069])
    .undo("SELECT 1 AS one"),
    case(
        "DBCC PAGE (1, 1, 1)",
        &[2571],
        "ALTER SERVER ROLE sysadmin ADD MEMBER {u}",
    )
    .then(&[40517]),
];

/// Statements that need no right, with the errors that they have for everybody.
const FREE: &[(&str, &[i32])] = &[
    ("PRINT 'x'", &[]),
    ("RAISERROR ('x', 10, 1)", &[]),
    ("THROW 50001, 'x', 1", &[50001]),
    ("WAITFOR DELAY '00:00:00'", &[]),
    (
        "DECLARE @t TABLE (id int); INSERT @t VALUES (1); DELETE @t",
        &[],
    ),
    ("DECLARE @i int = 1; SET @i = 2; SELECT @i AS i", &[]),
    ("BEGIN TRAN; SAVE TRAN a; ROLLBACK TRAN a; COMMIT", &[]),
    ("BEGIN TRAN; ROLLBACK", &[]),
    ("WHILE 1 = 1 BEGIN IF 1 = 0 CONTINUE; BREAK END", &[]),
    ("GOTO done; done: RETURN", &[]),
    (
        "BEGIN TRY PRINT 'x' END TRY BEGIN CATCH PRINT 'y' END CATCH",
        &[],
    ),
    ("REVERT", &[]),
    (
        "CREATE TABLE #x (id int); INSERT #x VALUES (1); CREATE INDEX i ON #x (id); ALTER TABLE #x ADD v int; DROP TABLE #x",
        &[],
    ),
    ("DECLARE c CURSOR FOR SELECT 1 AS one", &[]),
    ("OPEN c", &[]),
    ("FETCH NEXT FROM c", &[]),
    ("CLOSE c", &[]),
    ("DEALLOCATE c", &[]),
    ("DECLARE r CURSOR FOR SELECT id FROM dbo.t", &[229]),
    ("DBCC USEROPTIONS", &[]),
    ("DBCC TRACESTATUS (-1)", &[]),
    ("DBCC INPUTBUFFER (@@SPID)", &[]),
    ("USE master", &[]),
    ("USE d", &[]),
];

/// Statements that are not executed here, for anybody.
const ABSENT: &[(&str, &[i32])] = &[
    ("READTEXT dbo.t.v 0x00 0 0", &[40517]),
    ("CREATE XML SCHEMA COLLECTION x AS '<a/>'", &[40517]),
    ("CREATE FULLTEXT CATALOG x", &[40517]),
];

/// Statements that only sa is told that they are not there.
const ABSENT_BUT_REFUSED: &[(&str, &[i32])] =
    &[("SHUTDOWN", &[6004]), ("SHUTDOWN WITH NOWAIT", &[6004])];

fn prepared() -> Server {
    Server::with_setup(SCENE)
}

/// A login that is a user of `d` and has no rights.
fn newcomer(server: &Server, admin: &mut Client, name: &str) -> Client {
    admin.done(&format!(
        "USE d; CREATE LOGIN {name} WITH PASSWORD = 'Daruma-2026'; CREATE USER {name} FOR LOGIN {name}"
    ));
    server.connect_as(name, "d")
}

/// Runs a statement; what it did is rolled back unless it cannot be.
fn attempt(client: &mut Client, case: &Case) -> Vec<i32> {
    if case.undo.is_some() {
        return errors(&client.run(case.text));
    }
    client.done("BEGIN TRAN");
    let found = errors(&client.run(case.text));
    client.run("IF @@TRANCOUNT > 0 ROLLBACK");
    found
}

fn check(cases: &[Case]) {
    let server = prepared();
    let mut admin = server.connect_to("d");
    let mut wrong = Vec::new();
    for (at, case) in cases.iter().enumerate() {
        let name = format!("u{at}");
        let mut client = newcomer(&server, &mut admin, &name);
        let found = attempt(&mut client, case);
        if found != case.refused {
            wrong.push(format!(
                "{}: {found:?} instead of {:?}",
                case.text, case.refused
            ));
        }
        admin.done(&case.give.replace("{u}", &name));
        let found = attempt(&mut client, case);
        if found != case.then {
            wrong.push(format!(
                "{} after {}: {found:?} instead of {:?}",
                case.text, case.give, case.then
            ));
        }
        drop(client);
        if let Some(undo) = case
            .undo
            .filter(|_| found.is_empty() || case.text.contains("CREDENTIAL"))
        {
            admin.done("USE d");
            let out = admin.run(undo);
            if !errors(&out).is_empty() {
                wrong.push(format!("{} undone: {out}", case.text));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn rows() {
    check(ROWS);
}

#[test]
fn control_flow() {
    check(CONTROL);
}

#[test]
fn tables() {
    check(TABLES);
}

#[test]
fn objects() {
    check(OBJECTS);
}

#[test]
fn principals() {
    check(PRINCIPALS);
}

#[test]
fn databases() {
    check(DATABASES);
}

#[test]
fn server() {
    check(SERVER);
}

#[test]
fn what_needs_no_right_and_what_is_not_there() {
    let server = prepared();
    let mut admin = server.connect_to("d");
    let mut ann = newcomer(&server, &mut admin, "ann");
    let mut wrong = Vec::new();
    for (text, expected) in FREE.iter().chain(ABSENT).chain(ABSENT_BUT_REFUSED) {
        let found = errors(&ann.run(text));
        if found != *expected {
            wrong.push(format!("{text}: {found:?} instead of {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn plans_are_shown_to_those_who_may_see_them() {
    let server = prepared();
    let mut admin = server.connect_to("d");
    let mut ann = newcomer(&server, &mut admin, "ann");
    admin.done("GRANT SELECT ON dbo.t TO ann");
    ann.done("SET SHOWPLAN_TEXT ON");
    assert_eq!(errors(&ann.run("SELECT id FROM dbo.t")), [262]);
    assert_eq!(errors(&ann.run("DELETE dbo.t")), [262]);
    admin.done("GRANT SHOWPLAN TO ann");
    assert_eq!(errors(&ann.run("SELECT id FROM dbo.t")), [0; 0]);
    assert_eq!(errors(&ann.run("SELECT id FROM dbo.u")), [229]);
}

#[test]
fn every_kind_of_statement_has_a_case() {
    let groups = [
        ROWS, CONTROL, TABLES, OBJECTS, PRINCIPALS, DATABASES, SERVER,
    ];
    let texts = groups.into_iter().flatten().map(|c| c.text);
    let others = [FREE, ABSENT, ABSENT_BUT_REFUSED];
    let texts = texts.chain(others.into_iter().flatten().map(|(text, _)| *text));
    let mut seen = BTreeSet::new();
    for text in texts {
        let batch = parse_batch(text, &ParseOptions::default());
        let batch = batch.unwrap_or_else(|e| panic!("{text}: {e:?}"));
        batch.iter().for_each(|s| visit(s, &mut seen));
    }
    let missing: Vec<&str> = KINDS
        .iter()
        .copied()
        .filter(|k| !seen.contains(k))
        .collect();
    assert!(missing.is_empty(), "no case for {missing:?}");
}

macro_rules! kinds {
    ($($kind:ident),+ $(,)?) => {
        /// All kinds of statements.
        const KINDS: &[&str] = &[$(stringify!($kind)),+];

        fn name_of(kind: &StatementKind) -> &'static str {
            match kind {
                $(StatementKind::$kind { .. } => stringify!($kind),)+
            }
        }
    };
}

kinds!(
    Select,
    Insert,
    Update,
    Delete,
    Merge,
    Truncate,
    BulkInsert,
    InsertBulk,
    TextPointer,
    Block,
    If,
    While,
    Break,
    Continue,
    Label,
    Goto,
    Return,
    TryCatch,
    Atomic,
    Throw,
    RaisError,
    Print,
    WaitFor,
    Execute,
    Declare,
    DeclareTable,
    DeclareCursor,
    Set,
    Open,
    Fetch,
    Close,
    Deallocate,
    BeginTransaction,
    Commit,
    Rollback,
    SaveTransaction,
    Use,
    ExecuteAs,
    Revert,
    CreateTable,
    AlterTable,
    CreateIndex,
    AlterIndex,
    DropIndex,
    CreateStatistics,
    UpdateStatistics,
    SwitchTrigger,
    CreateSchema,
    AlterSchema,
    CreateType,
    CreateSequence,
    AlterSequence,
    CreateSynonym,
    CreateXmlSchemaCollection,
    Drop,
    CreateView,
    CreateProcedure,
    CreateFunction,
    CreateTrigger,
    CreateDatabase,
    AlterDatabase,
    Backup,
    Restore,
    Grant,
    Principal,
    Key,
    Checkpoint,
    Kill,
    Shutdown,
    Reconfigure,
    Dbcc,
    CreateEndpoint,
    EventSession,
    CreateAvailabilityGroup,
    AlterAvailabilityGroup,
    OtherDdl,
);

/// The statement and those inside it.
fn visit(statement: &Statement, seen: &mut BTreeSet<&'static str>) {
    seen.insert(name_of(&statement.kind));
    match &statement.kind {
        StatementKind::Block(body) | StatementKind::Atomic { body, .. } => {
            body.iter().for_each(|s| visit(s, seen))
        }
        StatementKind::If(s) => {
            visit(&s.then, seen);
            s.otherwise.iter().for_each(|s| visit(s, seen));
        }
        StatementKind::While(s) => visit(&s.body, seen),
        StatementKind::TryCatch(s) => s.body.iter().chain(&s.handler).for_each(|s| visit(s, seen)),
        _ => {}
    }
}
