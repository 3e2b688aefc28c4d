//! Ways to more than one was given. Each of them begins with a right that somebody may really have.

mod common;

use common::{Server, errors};

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
    let server = Server::new();
    let mut admin = server.connect();
    for text in SETUP {
        admin.done(text);
    }
    drop(admin);
    server
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
