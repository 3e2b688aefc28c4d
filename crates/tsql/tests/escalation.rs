//! Ways to more than one was given. Each of them begins with a right that somebody may really have.

mod common;

use common::{Server, errors};
use daruma_tsql::dml::bulk::BulkColumn;
use daruma_tsql::error::Result;
use daruma_tsql::session::BulkRows;
use daruma_value::{DataType, Value};

/// What the cases are about.
const SETUP: &[&str] = &[
    "CREATE DATABASE d; CREATE DATABASE other",
    "CREATE LOGIN ann WITH PASSWORD = 'Daruma-2026'; CREATE LOGIN ben WITH PASSWORD = 'Daruma-2026'; \
     CREATE LOGIN cat WITH PASSWORD = 'Daruma-2026'; CREATE LOGIN boss WITH PASSWORD = 'Daruma-2026'; \
     GRANT CONTROL SERVER TO boss",
    "USE other; CREATE TABLE dbo.away (id int); INSERT dbo.away VALUES (1)",
    "USE d; CREATE USER ann FOR LOGIN ann; CREATE USER ben FOR LOGIN ben; CREATE ROLE staff; ALTER ROLE staff ADD MEMBER ann; \
     CREATE TABLE dbo.t (id int PRIMARY KEY, v int); CREATE TABLE dbo.u (id int); CREATE TABLE dbo.i (id int IDENTITY); \
     INSERT dbo.t VALUES (1, 10), (2, 20); INSERT dbo.u VALUES (1); CREATE SEQUENCE dbo.s AS int START WITH 1; \
     CREATE SYNONYM dbo.syn FOR dbo.t",
    "CREATE SCHEMA app",
    "CREATE VIEW dbo.vt AS SELECT id FROM dbo.t",
    "CREATE PROCEDURE dbo.p AS SELECT 1 AS one",
    "CREATE TRIGGER dbo.tr ON dbo.t AFTER INSERT AS PRINT 'x'",
];

fn prepared() -> Server {
    Server::with_setup(SETUP)
}

/// `ann` has the right, says the statements, and still must not read `dbo.t`.
fn leads_nowhere(give: &[&str], attempts: &[&str]) {
    let server = prepared();
    let mut admin = server.connect_to("d");
    for text in give {
        admin.done(text);
    }
    let mut ann = server.connect_as("ann", "d");
    for text in attempts {
        ann.run(text);
    }
    let out = ann.run("SELECT id FROM dbo.t");
    assert_eq!(errors(&out), [229], "{give:?} {attempts:?}: {out}");
    let out = server.connect_as("ann", "d").run("USE other");
    assert_eq!(errors(&out), [916], "{give:?} {attempts:?}: {out}");
}

/// The last of `attempts` is refused with these errors.
fn refused(give: &[&str], attempts: &[&str], expected: &[i32]) {
    let server = prepared();
    let mut admin = server.connect_to("d");
    for text in give {
        admin.done(text);
    }
    let mut ann = server.connect_as("ann", "d");
    let last = attempts.iter().fold(String::new(), |_, text| ann.run(text));
    assert_eq!(errors(&last), expected, "{give:?} {attempts:?}: {last}");
}

#[test]
fn nobody_becomes_the_owner_by_asking() {
    for text in [
        "EXECUTE AS OWNER",
        "EXECUTE AS SELF",
        "EXEC AS USER = 'dbo'",
        "EXECUTE AS 'dbo'",
        "SETUSER 'dbo'",
        "EXECUTE AS LOGIN = 'sa'",
        "EXECUTE AS LOGIN = 'boss'",
    ] {
        leads_nowhere(&[], &[text]);
    }
}

#[test]
fn altering_a_database_is_not_acting_as_its_owner() {
    refused(
        &["GRANT ALTER TO ann"],
        &["EXECUTE AS USER = 'dbo'"],
        &[15517],
    );
    refused(
        &["GRANT ALTER TO ann"],
        &["EXECUTE AS USER = 'ben'"],
        &[15517],
    );
    refused(
        &["GRANT ALTER ANY USER TO ann"],
        &["EXECUTE AS USER = 'ben'"],
        &[15517],
    );
}

#[test]
fn a_module_runs_as_nobody_whom_its_author_may_not_be() {
    let define = &["GRANT CREATE PROCEDURE TO ann; GRANT ALTER, EXECUTE ON SCHEMA::app TO ann"];
    for context in ["OWNER", "SELF", "'dbo'", "'ben'"] {
        let create = format!(
            "CREATE PROCEDURE app.p WITH EXECUTE AS {context} AS EXEC ('SELECT id FROM dbo.t')"
        );
        refused(define, &[&create], &[15517]);
        leads_nowhere(define, &[&create, "EXEC app.p"]);
        let alter = create.replace("CREATE", "ALTER");
        refused(
            define,
            &["CREATE PROCEDURE app.p AS SELECT 1", &alter],
            &[15517],
        );
    }
    // In a schema of one's own that is oneself.
    refused(
        &["GRANT CREATE PROCEDURE, CREATE SCHEMA TO ann"],
        &[
            "CREATE SCHEMA mine",
            "CREATE PROCEDURE mine.p WITH EXECUTE AS OWNER AS EXEC ('SELECT id FROM dbo.t')",
            "EXEC mine.p",
        ],
        &[229],
    );
    let trigger =
        "CREATE TRIGGER mine.tr ON mine.t WITH EXECUTE AS 'dbo' AFTER INSERT AS PRINT 'x'";
    refused(
        &["GRANT CREATE TABLE, CREATE SCHEMA TO ann"],
        &[
            "CREATE SCHEMA mine",
            "CREATE TABLE mine.t (id int)",
            trigger,
        ],
        &[15517],
    );
}

#[test]
fn an_ownership_chain_cannot_be_forged() {
    let define = "GRANT CREATE PROCEDURE, CREATE VIEW, CREATE SCHEMA TO ann";
    // A schema of dbo's would chain to dbo's tables.
    refused(
        &[define],
        &["CREATE SCHEMA mine AUTHORIZATION dbo"],
        &[15151],
    );
    refused(
        &[define],
        &[
            "CREATE SCHEMA mine",
            "CREATE PROCEDURE mine.p AS SELECT id FROM dbo.t",
            "ALTER AUTHORIZATION ON SCHEMA::mine TO dbo",
        ],
        &[15151],
    );
    let steps = [
        "CREATE SCHEMA mine",
        "CREATE VIEW mine.v AS SELECT id FROM dbo.t",
        "SELECT id FROM mine.v",
    ];
    refused(&[define], &steps, &[229]);
    refused(
        &[define],
        &[
            "CREATE SCHEMA mine",
            "CREATE PROCEDURE mine.p AS SELECT id FROM dbo.t",
            "EXEC mine.p",
        ],
        &[229],
    );
}

#[test]
fn who_manages_users_takes_nobodys_place() {
    let give = &[
        "GRANT ALTER ANY USER TO ann; CREATE USER chief WITHOUT LOGIN; ALTER ROLE db_owner ADD MEMBER chief",
    ];
    refused(give, &["ALTER USER chief WITH LOGIN = ann"], &[15151]);
    refused(give, &["ALTER ROLE db_owner ADD MEMBER ann"], &[15151]);
    let roles = &["GRANT ALTER ANY ROLE TO ann"];
    refused(roles, &["ALTER ROLE db_owner ADD MEMBER ann"], &[15151]);
    leads_nowhere(roles, &["ALTER ROLE db_datareader ADD MEMBER ann"]);
}

#[test]
fn who_manages_logins_does_not_take_the_servers_owners() {
    let give = &["USE master; GRANT ALTER ANY LOGIN TO ann"];
    for text in [
        "ALTER LOGIN sa WITH PASSWORD = 'Daruma-2027'",
        "ALTER LOGIN boss WITH PASSWORD = 'Daruma-2027'",
        "ALTER LOGIN boss WITH NAME = other_boss",
        "DROP LOGIN boss",
        "ALTER SERVER ROLE sysadmin ADD MEMBER ann",
        "USE master; GRANT IMPERSONATE ON LOGIN::sa TO ben",
        "USE master; GRANT IMPERSONATE ON LOGIN::boss TO ben",
    ] {
        refused(give, &[text], &[15151]);
    }
    refused(give, &["USE master; GRANT CONTROL SERVER TO ann"], &[4613]);
    refused(
        give,
        &["USE master; GRANT IMPERSONATE ON LOGIN::ben TO ann"],
        &[4624],
    );
}

#[test]
fn who_creates_databases_owns_only_those() {
    let give = &["USE master; GRANT CREATE ANY DATABASE TO ann"];
    refused(
        give,
        &[
            "CREATE DATABASE mine",
            "ALTER AUTHORIZATION ON DATABASE::mine TO sa",
        ],
        &[15151],
    );
    leads_nowhere(
        give,
        &[
            "CREATE DATABASE mine",
            "USE mine",
            "CREATE SYNONYM dbo.x FOR d.dbo.t",
            "USE d",
        ],
    );
    refused(
        give,
        &[
            "CREATE DATABASE mine",
            "USE mine",
            "CREATE PROCEDURE dbo.p AS SELECT id FROM d.dbo.t",
            "EXEC dbo.p",
        ],
        &[229],
    );
}

#[test]
fn members_of_db_owner_can_be_denied_but_its_owner_cannot() {
    let server = prepared();
    let mut admin = server.connect_to("d");
    admin.done("ALTER ROLE db_owner ADD MEMBER ann; DENY SELECT ON dbo.t TO ann");
    let mut ann = server.connect_as("ann", "d");
    assert_eq!(errors(&ann.run("SELECT id FROM dbo.t")), [229]);
    assert_eq!(errors(&ann.run("SELECT id FROM dbo.u")), [0; 0]);
    assert_eq!(
        errors(&ann.run("CREATE TABLE dbo.n (id int); DROP TABLE dbo.n")),
        [0; 0]
    );
    admin.done("ALTER ROLE db_denydatareader ADD MEMBER ann");
    assert_eq!(errors(&ann.run("SELECT id FROM dbo.u")), [229]);
    admin.done("DENY SELECT ON dbo.t TO public");
    assert_eq!(errors(&admin.run("SELECT id FROM dbo.t")), [0; 0]);
}

#[test]
fn rights_end_with_what_gave_them() {
    let server = prepared();
    let mut admin = server.connect_to("d");
    admin.done("GRANT SELECT ON dbo.t TO staff");
    let mut ann = server.connect_as("ann", "d");
    let text = "SELECT id FROM dbo.t";
    assert_eq!(errors(&ann.run(text)), [0; 0]);
    admin.done("ALTER ROLE staff DROP MEMBER ann");
    assert_eq!(errors(&ann.run(text)), [229]);
    admin.done("ALTER ROLE staff ADD MEMBER ann");
    assert_eq!(errors(&ann.run(text)), [0; 0]);
    // The table of another name, and a new one of the old name.
    admin.done("EXEC sp_rename 'dbo.t', 't2'; CREATE TABLE dbo.t (id int)");
    assert_eq!(errors(&ann.run(text)), [229]);
    assert_eq!(errors(&ann.run("SELECT id FROM dbo.t2")), [0; 0]);
    admin.done("DROP USER ben; USE master; DROP LOGIN cat");
    admin.done("USE d; DROP TABLE dbo.t2; CREATE TABLE dbo.t2 (id int)");
    assert_eq!(errors(&ann.run("SELECT id FROM dbo.t2")), [229]);
}

#[test]
fn a_table_is_not_changed_under_another_name() {
    let give = &[
        "GRANT SELECT ON dbo.t TO ann; GRANT SELECT, INSERT, UPDATE, DELETE ON dbo.u TO ann; GRANT SELECT, UPDATE ON dbo.vt TO ann",
    ];
    for text in [
        "UPDATE d SET v = 0 FROM (SELECT id, v FROM dbo.t) AS d",
        "DELETE d FROM (SELECT id, v FROM dbo.t) AS d",
        "UPDATE d SET v = 0 FROM dbo.u JOIN (SELECT id, v FROM dbo.t) AS d ON u.id = d.id",
        "WITH c AS (SELECT id, v FROM dbo.t) UPDATE c SET v = 0",
        "WITH c AS (SELECT id, v FROM dbo.t) UPDATE x SET v = 0 FROM dbo.u JOIN c AS x ON u.id = x.id",
        "WITH c AS (SELECT id, v FROM dbo.t) DELETE x FROM dbo.u JOIN c AS x ON u.id = x.id",
        "WITH c AS (SELECT t.id, t.v FROM dbo.u JOIN dbo.t ON u.id = t.id) UPDATE c SET v = 0",
        "WITH u AS (SELECT id, v FROM dbo.t) UPDATE u SET v = 0",
        "UPDATE t SET v = 0 FROM dbo.u JOIN dbo.t ON u.id = t.id",
        "UPDATE x SET v = 0 FROM dbo.u JOIN dbo.syn AS x ON u.id = x.id",
        "UPDATE x SET v = 0 FROM dbo.vt JOIN dbo.t AS x ON vt.id = x.id",
        "UPDATE vt SET v = 0 FROM dbo.vt JOIN dbo.t AS vt2 ON vt.id = vt2.id",
        "WITH c AS (SELECT id, v FROM dbo.t) INSERT c VALUES (9, 9)",
        "DELETE d FROM (VALUES (1)) AS d (id) JOIN dbo.t ON t.id = d.id",
    ] {
        let server = prepared();
        let mut admin = server.connect_to("d");
        give.iter().for_each(|g| drop(admin.done(g)));
        let before = admin.run("SELECT id, v FROM dbo.t ORDER BY id");
        let out = server.connect_as("ann", "d").run(text);
        assert!(!errors(&out).is_empty(), "{text}: {out}");
        assert_eq!(
            admin.run("SELECT id, v FROM dbo.t ORDER BY id"),
            before,
            "{text}"
        );
    }
}

#[test]
fn output_goes_only_where_one_may_insert() {
    let give =
        &["GRANT SELECT ON dbo.u TO ann; GRANT INSERT, UPDATE, DELETE, SELECT ON dbo.t TO ann"];
    for text in [
        "INSERT dbo.t OUTPUT inserted.id INTO dbo.u VALUES (9, 9)",
        "UPDATE dbo.t SET v = 0 OUTPUT inserted.id INTO dbo.u",
        "DELETE dbo.t OUTPUT deleted.id INTO dbo.u",
        "CREATE TABLE #m (id int); INSERT #m OUTPUT inserted.id INTO dbo.u VALUES (9)",
    ] {
        refused(give, &[text], &[229]);
    }
    let server = prepared();
    let mut admin = server.connect_to("d");
    admin.done("GRANT INSERT ON dbo.u TO ann; GRANT INSERT, SELECT ON dbo.t TO ann");
    let mut ann = server.connect_as("ann", "d");
    ann.done("INSERT dbo.t OUTPUT inserted.id INTO dbo.u VALUES (9, 9)");
    assert_eq!(admin.scalar("SELECT COUNT(*) FROM dbo.u WHERE id = 9"), "1");
}

#[test]
fn a_column_is_not_changed_under_another_name() {
    let give = &["GRANT SELECT ON dbo.t TO ann; GRANT UPDATE (id) ON dbo.t TO ann"];
    for text in [
        "WITH c AS (SELECT v AS id FROM dbo.t) UPDATE c SET id = 0",
        "UPDATE d SET id = 0 FROM (SELECT v AS id FROM dbo.t) AS d",
        "UPDATE x SET id = 0 FROM (SELECT v AS id FROM dbo.t) AS x",
    ] {
        refused(give, &[text], &[230]);
    }
}

#[test]
fn text_run_as_somebody_stays_with_him() {
    let server = prepared();
    let mut admin = server.connect_to("d");
    let text = "EXEC ('SELECT id FROM dbo.t') AS USER = 'ann'; SELECT USER_NAME() AS me";
    let out = admin.run(text);
    assert_eq!(errors(&out), [229], "{out}");
    assert!(out.contains("dbo"), "{out}");
    let out = admin.run("EXEC ('REVERT; SELECT id FROM dbo.t') AS USER = 'ann'");
    assert_eq!(errors(&out), [229], "{out}");
    let out = admin.run("EXEC ('SELEC') AS USER = 'ann'");
    assert_eq!(errors(&out), [2812], "{out}");
    assert_eq!(admin.scalar("SELECT USER_NAME() AS me"), "dbo");
    let out = admin.run("EXEC ('EXEC (''SELECT SUSER_SNAME() AS me'')') AS LOGIN = 'ben'");
    assert!(out.contains("ben"), "{out}");
}

#[test]
fn rights_in_ones_own_database_are_none_in_another() {
    let server = prepared();
    let mut admin = server.connect();
    admin.done("CREATE DATABASE mine; ALTER AUTHORIZATION ON DATABASE::mine TO ann");
    let mut ann = server.connect_as("ann", "mine");
    for (text, number) in [
        ("DBCC CHECKDB (d)", 7983),
        ("DBCC CHECKDB (other)", 916),
        ("DBCC LOGINFO (d)", 7983),
        ("DBCC OPENTRAN (d)", 7983),
        ("DBCC CHECKTABLE ('d.dbo.t')", 2501),
        ("DBCC CHECKIDENT ('d.dbo.i', RESEED, 7)", 2501),
        ("DBCC SHOW_STATISTICS ('d.dbo.t', id)", 2501),
        ("SELECT * FROM d.sys.dm_db_partition_stats", 262),
        ("SELECT * FROM sys.dm_db_log_info(DB_ID('d'))", 262),
        ("SELECT IDENT_CURRENT('d.dbo.i') / 0", 0),
    ] {
        let out = ann.run(text);
        match number {
            0 => assert!(out.contains("NULL"), "{text}: {out}"),
            _ => assert_eq!(errors(&out).first(), Some(&number), "{text}: {out}"),
        }
    }
}

#[test]
fn dbcc_commands_are_no_procedures() {
    for text in [
        "EXEC [dbcc SHRINKFILE] 'd'",
        "EXEC sys.[dbcc LOGINFO]",
        "EXEC [DBCC checkdb]",
    ] {
        refused(&[], &[text], &[2812]);
    }
}

#[test]
fn a_trigger_is_put_on_a_table_by_those_who_may_alter_it() {
    let give = &[
        "ALTER AUTHORIZATION ON SCHEMA::app TO ann; ALTER USER ann WITH DEFAULT_SCHEMA = app; CREATE TABLE app.own (id int)",
    ];
    // Its name is that of a trigger of her own.
    let own = "CREATE TRIGGER app.tr2 ON app.own AFTER INSERT AS PRINT 'own'";
    let text =
        "TRIGGER tr2 ON dbo.t AFTER INSERT AS EXEC ('ALTER SERVER ROLE sysadmin ADD MEMBER ann')";
    for mode in ["CREATE OR ALTER", "ALTER"] {
        let last = format!("{mode} {text}");
        let server = prepared();
        let mut admin = server.connect_to("d");
        give.iter().for_each(|text| drop(admin.done(text)));
        let mut ann = server.connect_as("ann", "d");
        ann.done(own);
        let out = ann.run(&last);
        assert!(!errors(&out).is_empty(), "{last}: {out}");
        admin.run("INSERT dbo.t VALUES (7, 7)");
        let is_admin = ann.scalar("SELECT IS_SRVROLEMEMBER('sysadmin')");
        assert_eq!(is_admin, "0", "{last}: {out}");
    }
}

#[test]
fn who_may_alter_one_module_may_not_create_another() {
    // What she may alter is of the name, what she would create is in a schema where she may nothing.
    for (existing, text) in [
        (
            "CREATE PROCEDURE dbo.mine AS SELECT 1 AS one",
            "CREATE OR ALTER PROCEDURE mine AS SELECT id FROM app.secret",
        ),
        (
            "CREATE VIEW dbo.mine AS SELECT 1 AS one",
            "CREATE OR ALTER VIEW mine AS SELECT id FROM app.secret",
        ),
        (
            "CREATE FUNCTION dbo.mine() RETURNS TABLE AS RETURN SELECT 1 AS one",
            "CREATE OR ALTER FUNCTION mine() RETURNS TABLE AS RETURN SELECT id FROM app.secret",
        ),
    ] {
        let server = prepared();
        let mut admin = server.connect_to("d");
        admin.done("CREATE TABLE app.secret (id int); ALTER USER ann WITH DEFAULT_SCHEMA = app");
        admin.done(existing);
        admin.done("GRANT ALTER ON dbo.mine TO ann");
        let mut ann = server.connect_as("ann", "d");
        ann.run(text);
        assert_eq!(admin.scalar("SELECT COUNT(*) FROM sys.objects WHERE name = 'mine' AND schema_id = SCHEMA_ID('app')"), "0", "{text}");
    }
}

/// What the statement names becomes another thing while it waits for its lock.
#[test]
fn a_statement_that_waited_is_checked_for_what_it_finds_then() {
    let server = prepared();
    let mut admin = server.connect_to("d");
    admin.done(
        "ALTER AUTHORIZATION ON SCHEMA::app TO ann; GRANT CREATE SYNONYM, CREATE TABLE TO ann",
    );
    for (n, statement) in [
        "TRUNCATE TABLE app.x",
        "ALTER TABLE app.x ADD planted int",
        "CREATE TRIGGER app.planted ON app.x AFTER INSERT AS PRINT 'planted'",
        "CREATE INDEX planted ON app.x (id)",
        "DELETE app.x",
        "UPDATE app.x SET id = 99",
        "INSERT app.x (id) VALUES (98)",
    ]
    .into_iter()
    .enumerate()
    {
        let mut ann = server.connect_as("ann", "d");
        ann.run("DROP SYNONYM app.x");
        ann.done("CREATE TABLE app.x (id int)");
        let before = admin.run("SELECT * FROM dbo.t");
        let mut other = server.connect_as("ann", "d");
        let spid = other.session.spid();
        ann.done("BEGIN TRAN; ALTER TABLE app.x ADD swapped int");
        let out = std::thread::scope(|scope| {
            let waits = scope.spawn(|| other.run(statement));
            let blocked = format!(
                "SELECT COUNT(*) FROM sys.dm_tran_locks WHERE request_session_id = {spid} AND request_status = 'WAIT'"
            );
            while admin.scalar(&blocked) == "0" && !waits.is_finished() {
                std::thread::yield_now();
            }
            ann.done("DROP TABLE app.x; CREATE SYNONYM app.x FOR dbo.t; COMMIT");
            waits.join().expect("no panic")
        });
        assert!(!errors(&out).is_empty(), "{n} {statement}: {out}");
        assert_eq!(
            admin.run("SELECT * FROM dbo.t"),
            before,
            "{statement}: {out}"
        );
        let planted = "SELECT COUNT(*) FROM sys.indexes AS i FULL JOIN sys.triggers AS t ON 1 = 0 WHERE i.name = 'planted' OR t.name = 'planted'";
        assert_eq!(admin.scalar(planted), "0", "{statement}: {out}");
    }
}

#[test]
fn a_type_is_dropped_by_those_who_may_alter_its_schema() {
    let server = prepared();
    let mut admin = server.connect_to("d");
    admin.done("CREATE TYPE dbo.ty FROM int; ALTER AUTHORIZATION ON SCHEMA::app TO ann; ALTER USER ann WITH DEFAULT_SCHEMA = app");
    let mut ann = server.connect_as("ann", "d");
    assert_eq!(errors(&ann.run("DROP TYPE ty")), [3701]);
    assert_eq!(
        admin.scalar("SELECT COUNT(*) FROM sys.types WHERE name = 'ty'"),
        "1"
    );
}

#[test]
fn a_module_keeps_its_database() {
    let server = prepared();
    let mut admin = server.connect_to("d");
    admin.done("CREATE TABLE other.dbo.secret (id int); INSERT other.dbo.secret VALUES (41470099); GRANT CREATE PROCEDURE TO ann; GRANT ALTER, EXECUTE ON SCHEMA::dbo TO ann");
    admin.done("USE other; CREATE USER ann FOR LOGIN ann");
    let mut ann = server.connect_as("ann", "d");
    for text in [
        "CREATE PROCEDURE dbo.q AS USE other; SELECT id FROM dbo.secret",
        "CREATE PROCEDURE dbo.q AS EXEC ('USE other; SELECT id FROM dbo.secret')",
        "CREATE PROCEDURE dbo.q AS EXEC ('USE other'); SELECT id FROM dbo.secret",
        "CREATE PROCEDURE dbo.q AS SELECT id FROM other.dbo.secret",
        "CREATE PROCEDURE dbo.q AS EXEC other.sys.sp_executesql N'SELECT id FROM dbo.secret'",
        "CREATE PROCEDURE dbo.q AS IF 1 = 0 SELECT 1 ELSE USE other; SELECT id FROM secret",
    ] {
        ann.run("DROP PROCEDURE IF EXISTS dbo.q");
        let made = ann.run(text);
        let out = ann.run("EXEC dbo.q");
        assert!(!out.contains("41470099"), "{text}: {made} {out}");
    }
}

#[test]
fn opening_a_database_to_others_is_for_sysadmin() {
    let server = prepared();
    let mut admin = server.connect();
    admin.done("CREATE LOGIN owns WITH PASSWORD = 'Daruma-2026'; ALTER SERVER ROLE dbcreator ADD MEMBER owns");
    let mut owns = server.connect_as("owns", "master");
    owns.done("CREATE DATABASE mine");
    for option in ["TRUSTWORTHY", "DB_CHAINING"] {
        for value in ["ON", "OFF"] {
            let out = owns.run(&format!("ALTER DATABASE mine SET {option} {value}"));
            assert_eq!(errors(&out), [15247, 5069], "{option}: {out}");
            let out = owns.run(&format!("CREATE DATABASE another WITH {option} {value}"));
            assert_eq!(errors(&out), [15247], "{option}: {out}");
        }
        admin.done(&format!("ALTER DATABASE mine SET {option} ON"));
    }
    let shown = "SELECT CONCAT(is_trustworthy_on, is_db_chaining_on) FROM sys.databases WHERE name = 'mine'";
    assert_eq!(admin.scalar(shown), "11");
}

/// Names that would be commands if they were put into one as they are.
#[test]
fn no_name_is_a_command() {
    let server = prepared();
    let mut admin = server.connect();
    admin.done("CREATE LOGIN owns WITH PASSWORD = 'Daruma-2026'; ALTER SERVER ROLE dbcreator ADD MEMBER owns");
    let mut owns = server.connect_as("owns", "master");
    let attack = "; ALTER SERVER ROLE sysadmin ADD MEMBER owns;--";
    let names = ["z]", "z'", "z''", "z\"", "master", "*/"].map(|start| format!("{start}{attack}"));
    for name in &names {
        owns.done(&format!("CREATE DATABASE [{}]", name.replace(']', "]]")));
    }
    let words = "master ALTER SERVER ROLE sysadmin ADD MEMBER owns";
    owns.done(&format!("CREATE DATABASE [{words}]"));
    admin.done("USE d");
    for name in names.iter().map(String::as_str).chain([words]) {
        admin.done(&format!(
            "CREATE TABLE dbo.[{}] (id int)",
            name.replace(']', "]]")
        ));
    }
    for command in [
        "USE [?]; PRINT ''x''",
        "USE ?; PRINT ''x''",
        "PRINT ''?''",
        "PRINT ''in ? now''",
        "PRINT N''?''",
        "/* ? */ PRINT 1",
        "EXEC (''USE [?]; PRINT 1'')",
        "EXEC (''USE ?; PRINT 1'')",
        "EXEC (''PRINT ?'')",
        "SELECT DB_ID(''?'')",
        "SELECT COUNT(*) FROM [?].sys.tables",
        "SELECT COUNT(*) FROM ?.sys.tables",
    ] {
        admin.run(&format!("USE master; EXEC sp_MSforeachdb '{command}'"));
        admin.run(&format!("USE d; EXEC sp_MSforeachtable '{command}'"));
        let out = admin.run("SELECT IS_SRVROLEMEMBER('sysadmin', 'owns')");
        assert!(out.contains("\n0\n"), "{command}: {out}");
    }
    admin.done("USE master; EXEC sp_MSforeachdb 'USE [?]; IF DB_NAME() <> ''?'' RAISERROR (''%s'', 16, 1, ''?'')'");
    admin.done("USE d; EXEC sp_MSforeachtable 'IF OBJECT_ID(''?'') IS NULL RAISERROR (''%s'', 16, 1, ''?'')'");
}

/// Ids and names are given out again; what was somebody's does not become another's with them.
#[test]
fn nobody_is_who_came_after_him() {
    let server = prepared();
    let mut admin = server.connect_to("d");
    admin.done("CREATE LOGIN tmp WITH PASSWORD = 'Daruma-2026'; CREATE USER tmp FOR LOGIN tmp; CREATE USER fleeting WITHOUT LOGIN; \
                GRANT IMPERSONATE ON USER::fleeting TO ann; USE master; GRANT IMPERSONATE ON LOGIN::tmp TO ann");
    let mut as_login = server.connect_as("ann", "d");
    as_login.done("EXECUTE AS LOGIN = 'tmp'");
    let mut as_user = server.connect_as("ann", "d");
    as_user.done("EXECUTE AS USER = 'fleeting'");
    admin.done("USE d; REVOKE IMPERSONATE ON USER::fleeting FROM ann; DROP USER fleeting; DROP USER tmp; DROP LOGIN tmp");
    admin.done("CREATE LOGIN after WITH PASSWORD = 'Daruma-2026'; CREATE USER after FOR LOGIN after; CREATE USER later WITHOUT LOGIN; \
                GRANT SELECT ON dbo.t TO later, after; ALTER SERVER ROLE sysadmin ADD MEMBER after");
    for client in [&mut as_login, &mut as_user] {
        let out = client.run("SELECT id FROM dbo.t");
        assert_eq!(errors(&out), [916], "{out}");
        assert_ne!(client.scalar("SELECT IS_SRVROLEMEMBER('sysadmin')"), "1");
    }
}

#[test]
fn a_name_that_is_free_again_owns_nothing() {
    let server = prepared();
    let mut admin = server.connect();
    admin.done("ALTER SERVER ROLE dbcreator ADD MEMBER ben; ALTER SERVER ROLE securityadmin ADD MEMBER cat");
    server
        .connect_as("ben", "master")
        .done("CREATE DATABASE bens");
    admin.done("USE bens; CREATE TABLE dbo.secret (id int)");
    let mut cat = server.connect_as("cat", "master");
    cat.done(
        "ALTER LOGIN ben WITH NAME = benjamin; CREATE LOGIN ben WITH PASSWORD = 'Daruma-2026'",
    );
    admin.done("USE master; ALTER LOGIN sa WITH NAME = root");
    cat.done("CREATE LOGIN sa WITH PASSWORD = 'Daruma-2026'");
    for name in ["ben", "sa"] {
        let mut new = server.connect_as(name, "master");
        for database in ["bens", "d", "other"] {
            assert_eq!(
                errors(&new.run(&format!("USE {database}"))),
                [916],
                "{name} {database}"
            );
        }
        assert_eq!(new.scalar("SELECT IS_MEMBER('db_owner')"), "0", "{name}");
    }
    assert_eq!(
        server
            .connect_as("benjamin", "bens")
            .scalar("SELECT USER_NAME()"),
        "dbo"
    );
}

#[test]
fn nobody_is_renamed_to_what_every_database_has() {
    let server = prepared();
    let mut admin = server.connect_to("d");
    for name in ["dbo", "guest", "sys", "public", "db_owner", "DB_DataReader"] {
        assert_eq!(
            errors(&admin.run(&format!("ALTER USER ben WITH NAME = [{name}]"))),
            [15023],
            "{name}"
        );
        assert_eq!(
            errors(&admin.run(&format!("ALTER ROLE staff WITH NAME = [{name}]"))),
            [15023],
            "{name}"
        );
    }
}

/// One column `id`, one row.
struct OneRow(Option<i32>);

impl BulkRows for OneRow {
    fn columns(&mut self) -> Result<Vec<BulkColumn>> {
        Ok(vec![BulkColumn {
            name: "id".to_string(),
            data_type: DataType::Int,
        }])
    }

    fn next(&mut self) -> Result<Option<Vec<Value>>> {
        Ok(self.0.take().map(|n| vec![Value::Int(n)]))
    }
}

#[test]
fn rows_that_come_later_go_where_they_may_go_then() {
    let server = prepared();
    let mut admin = server.connect_to("d");
    admin.done(
        "ALTER AUTHORIZATION ON SCHEMA::app TO ann; GRANT CREATE SYNONYM, CREATE TABLE TO ann",
    );
    let mut ann = server.connect_as("ann", "d");
    ann.done("CREATE TABLE app.x (id int)");
    let mut load = server.connect_as("ann", "d");
    for swap in [false, true] {
        load.done("INSERT BULK app.x (id int)");
        if swap {
            ann.done("DROP TABLE app.x; CREATE SYNONYM app.x FOR dbo.u");
        }
        load.session
            .execute_bulk(&mut OneRow(Some(77)), &mut load.sink);
        let out = load.sink.take();
        let expected: &[i32] = if swap { &[229] } else { &[] };
        assert_eq!(errors(&out), expected, "{out}");
    }
    assert_eq!(
        admin.scalar("SELECT COUNT(*) FROM dbo.u WHERE id = 77"),
        "0"
    );
}

#[test]
fn a_trigger_runs_as_whom_it_says() {
    let server = prepared();
    let mut admin = server.connect_to("d");
    admin.done("CREATE USER mild WITHOUT LOGIN");
    admin.done("CREATE TRIGGER dbo.mild ON dbo.u WITH EXECUTE AS 'mild' AFTER INSERT AS SELECT USER_NAME(); EXEC ('SELECT id FROM dbo.t')");
    let out = admin.run("INSERT dbo.u VALUES (5)");
    assert!(out.contains("\nmild\n"), "{out}");
    assert_eq!(errors(&out).first(), Some(&229), "{out}");
    assert_eq!(admin.scalar("SELECT USER_NAME()"), "dbo");
}

#[test]
fn a_credential_is_not_sent_where_it_does_not_belong() {
    let server = prepared();
    let mut admin = server.connect();
    admin.done("CREATE CREDENTIAL [s3://good/bucket] WITH IDENTITY = 'S3 Access Key', SECRET = 'a:b'; CREATE CREDENTIAL plain WITH IDENTITY = 'i', SECRET = 's'");
    admin.done("USE d; ALTER ROLE db_backupoperator ADD MEMBER ann");
    let mut ann = server.connect_as("ann", "d");
    for (credential, url) in [
        ("s3://good/bucket", "s3://evil/bucket/x"),
        ("s3://good/bucket", "s3://good/bucket2/x"),
        ("plain", "https://evil/x"),
    ] {
        let out = ann.run(&format!(
            "BACKUP DATABASE d TO URL = '{url}' WITH CREDENTIAL = '{credential}'"
        ));
        assert_eq!(errors(&out), [15151, 3013], "{out}");
    }
}

#[test]
fn a_system_procedure_of_another_database_asks_there() {
    let server = prepared();
    let mut admin = server.connect();
    admin.done(
        "USE other; CREATE USER ann FOR LOGIN ann; USE d; ALTER ROLE db_owner ADD MEMBER ann",
    );
    let mut ann = server.connect_as("ann", "d");
    for call in [
        "sp_updatestats",
        "sp_autostats 'dbo.away', 'OFF'",
        "sp_tableoption 'dbo.away', 'text in row', 'OFF'",
    ] {
        let out = ann.run(&format!("EXEC other.sys.{call}"));
        assert_eq!(errors(&out).first(), Some(&15247), "{call}: {out}");
    }
}

/// Whoever manages the definitions of a database would otherwise write what an administrator runs there.
#[test]
fn nobody_defines_what_a_system_procedure_does() {
    let server = prepared();
    let mut admin = server.connect_to("d");
    admin.done("ALTER ROLE db_ddladmin ADD MEMBER ann");
    let mut ann = server.connect_as("ann", "d");
    for name in ["sp_help", "sp_addrolemember", "sp_executesql"] {
        ann.done(&format!(
            "CREATE PROCEDURE dbo.{name} @a nvarchar(99) = '', @b nvarchar(99) = '' AS \
             ALTER SERVER ROLE sysadmin ADD MEMBER ann"
        ));
    }
    for call in [
        "EXEC sp_help",
        "EXEC dbo.sp_help 'dbo.t'",
        "EXEC d..sp_help",
        "EXEC sp_addrolemember 'staff', 'ben'",
        "EXEC d.dbo.sp_help 'dbo.t'",
        "EXEC sp_executesql N'SELECT 1'",
    ] {
        admin.done(call);
    }
    let member = "SELECT IS_SRVROLEMEMBER('sysadmin', 'ann'), IS_ROLEMEMBER('staff', 'ben')";
    assert_eq!(admin.scalar(member), "0 | 1");
    // In a schema of one's own the name is free.
    admin.done("CREATE PROCEDURE app.sp_help AS SELECT 'mine' AS whose");
    assert_eq!(admin.scalar("EXEC app.sp_help"), "mine");
}

#[test]
fn a_login_that_is_not_renamed_keeps_what_it_owns() {
    let server = prepared();
    let mut admin = server.connect();
    admin.done("ALTER SERVER ROLE dbcreator ADD MEMBER ben");
    server
        .connect_as("ben", "master")
        .done("CREATE DATABASE bens");
    let out = admin.run("ALTER LOGIN ben WITH NAME = benjamin, PASSWORD = 'weak'");
    assert_eq!(errors(&out), [15116], "{out}");
    admin.done("CREATE LOGIN benjamin WITH PASSWORD = 'Daruma-2026'");
    let mut other = server.connect_as("benjamin", "master");
    assert_eq!(errors(&other.run("USE bens")), [916]);
    let mut ben = server.connect_as("ben", "bens");
    assert_eq!(ben.scalar("SELECT USER_NAME()"), "dbo");
}
