//! Definitions beside definitions: whoever waited for another's change works on what is there then, and what a definition names stays
//! while it is made.

mod common;

use common::{Client, Server, errors, run_until};

/// A change in an open transaction, another one that waits for it, and what holds when both have ended.
struct Case<'a> {
    setup: &'a str,
    first: &'a str,
    second: &'a str,
    /// Errors of the second.
    errors: Vec<i32>,
    /// A query and its one value.
    then: (&'a str, &'a str),
}

/// Runs both; the first one ends so when the second waits for it.
fn both(case: &Case<'_>, end: &str) -> (Server, Client, Vec<i32>) {
    let server = Server::with_setup(&["CREATE DATABASE d"]);
    let mut setup = server.connect_to("d");
    for text in case.setup.split(";;") {
        setup.done(text);
    }
    let mut first = server.connect_to("d");
    first.done("BEGIN TRAN");
    for text in case.first.split(";;") {
        first.done(text);
    }
    let second = server.connect_to("d");
    let (second, out) = run_until(&server, second, case.second, || first.done(end));
    drop((first, second));
    (server, setup, errors(&out))
}

fn check_pages(client: &mut Client) {
    let out = client.run("DBCC CHECKDB (d) WITH NO_INFOMSGS");
    assert!(errors(&out).is_empty(), "{out}");
}

fn check(case: &Case<'_>) {
    let (server, mut client, found) = both(case, "COMMIT");
    let what = format!("{} beside {}", case.second, case.first);
    assert_eq!(found, case.errors, "{what}");
    // New pages would be those that were freed by mistake.
    client.done(
        "CREATE TABLE filler (k int); INSERT filler SELECT value FROM GENERATE_SERIES(1, 3000)",
    );
    let (query, value) = case.then;
    assert_eq!(client.scalar(query), value, "{what}: {query}");
    check_pages(&mut client);
    let server = server.crash_after(client);
    let mut client = server.connect_to("d");
    assert_eq!(client.scalar(query), value, "{what}, crashed: {query}");
    check_pages(&mut client);
    drop(client);

    let (_server, mut client, found) = both(case, "ROLLBACK");
    assert_eq!(found, Vec::<i32>::new(), "{what}, rolled back");
    check_pages(&mut client);
}

const ROWS: &str =
    "CREATE TABLE n (i int PRIMARY KEY); INSERT n SELECT value FROM GENERATE_SERIES(1, 5000)";

#[test]
fn a_name_that_waited_is_given_to_the_table_as_it_is_then() {
    for (first, second, then) in [
        (
            "TRUNCATE TABLE n; INSERT n VALUES (7)",
            "EXEC sp_rename 'n', 'm'",
            ("SELECT SUM(i) FROM m", "7"),
        ),
        (
            "ALTER INDEX ALL ON n REBUILD",
            "EXEC sp_rename 'n', 'm'",
            ("SELECT COUNT(*) FROM m", "5000"),
        ),
        (
            "ALTER TABLE n ADD j int",
            "EXEC sp_rename 'n', 'm'",
            (
                "SELECT COUNT(*) FROM sys.columns WHERE object_id = OBJECT_ID('m')",
                "2",
            ),
        ),
    ] {
        check(&Case {
            setup: ROWS,
            first,
            second,
            errors: Vec::new(),
            then,
        });
    }
    for (first, then) in [
        (
            "TRUNCATE TABLE n; INSERT n VALUES (7)",
            ("SELECT SUM(i) FROM s.n", "7"),
        ),
        (
            "ALTER TABLE n ADD CHECK (i > -5)",
            ("SELECT COUNT(*) FROM sys.check_constraints", "1"),
        ),
    ] {
        check(&Case {
            setup: "CREATE SCHEMA s;;CREATE TABLE n (i int PRIMARY KEY); INSERT n SELECT value FROM GENERATE_SERIES(1, 5000)",
            first,
            second: "ALTER SCHEMA s TRANSFER dbo.n",
            errors: Vec::new(),
            then,
        });
    }
}

#[test]
fn what_was_dropped_does_not_come_back() {
    for (second, number) in [
        ("EXEC sp_rename 'n', 'm'", 15225),
        ("ALTER SCHEMA s TRANSFER dbo.n", 15151),
    ] {
        check(&Case {
            setup: "CREATE SCHEMA s;;CREATE TABLE n (i int PRIMARY KEY); INSERT n VALUES (1)",
            first: "DROP TABLE n",
            second,
            errors: vec![number],
            then: (
                "SELECT COUNT(*) FROM sys.objects WHERE name IN ('n', 'm')",
                "0",
            ),
        });
    }
    check(&Case {
        setup: "CREATE PROCEDURE p AS SELECT 1",
        first: "DROP PROCEDURE p",
        second: "ALTER PROCEDURE p AS SELECT 2",
        errors: vec![208],
        then: ("SELECT COUNT(*) FROM sys.procedures", "0"),
    });
    check(&Case {
        setup: "CREATE TABLE t (i int);;CREATE TRIGGER tr ON t AFTER INSERT AS PRINT 1",
        first: "DROP TRIGGER tr",
        second: "DISABLE TRIGGER tr ON t",
        errors: vec![4920],
        then: ("SELECT COUNT(*) FROM sys.triggers", "0"),
    });
    check(&Case {
        setup: "CREATE SEQUENCE q AS int START WITH 1",
        first: "DROP SEQUENCE q",
        second: "ALTER SEQUENCE q INCREMENT BY 2",
        errors: vec![208],
        then: ("SELECT COUNT(*) FROM sys.sequences", "0"),
    });
}

#[test]
fn a_change_of_a_definition_is_not_undone_by_another() {
    let sequence = "CREATE SEQUENCE q AS int START WITH 1";
    let procedure = "CREATE PROCEDURE p AS SELECT 1";
    let increment = "SELECT CAST(increment AS int) FROM sys.sequences";
    for (setup, first, second, then) in [
        (
            "CREATE TABLE t (a int, b int); EXEC sp_addextendedproperty 'x', 1, 'SCHEMA', 'dbo', 'TABLE', 't', 'COLUMN', 'a'",
            "EXEC sp_addextendedproperty 'y', 1, 'SCHEMA', 'dbo', 'TABLE', 't', 'COLUMN', 'b'",
            "ALTER TABLE t DROP COLUMN a",
            (
                "SELECT COUNT(*) FROM sys.extended_properties WHERE major_id = OBJECT_ID('t')",
                "1",
            ),
        ),
        (
            procedure,
            "ALTER PROCEDURE p AS SELECT 2",
            "EXEC sp_rename 'p', 'r'",
            ("EXEC r", "2"),
        ),
        (
            sequence,
            "ALTER SEQUENCE q INCREMENT BY 7",
            "EXEC sp_rename 'q', 'r'",
            (increment, "7"),
        ),
        (
            sequence,
            "ALTER SEQUENCE q INCREMENT BY 7",
            "ALTER SEQUENCE q MAXVALUE 1000",
            (increment, "7"),
        ),
        (
            "CREATE USER u WITHOUT LOGIN; CREATE TABLE a (i int)",
            "GRANT SELECT ON a TO u",
            "DENY INSERT ON a TO u",
            (
                "SELECT COUNT(*) FROM sys.database_permissions WHERE major_id = OBJECT_ID('a')",
                "2",
            ),
        ),
        (
            "CREATE ROLE r; CREATE USER u WITHOUT LOGIN; CREATE USER v WITHOUT LOGIN",
            "ALTER ROLE r ADD MEMBER u",
            "ALTER ROLE r ADD MEMBER v",
            (
                "SELECT COUNT(*) FROM sys.database_role_members WHERE role_principal_id = USER_ID('r')",
                "2",
            ),
        ),
    ] {
        check(&Case {
            setup,
            first,
            second,
            errors: Vec::new(),
            then,
        });
    }
}

#[test]
fn who_is_named_as_an_owner_stays_or_is_not_found() {
    let owners = "SELECT COUNT(*) FROM sys.schemas WHERE USER_NAME(principal_id) IS NULL";
    for (setup, first, second, number) in [
        (
            "CREATE USER u WITHOUT LOGIN",
            "DROP USER u",
            "CREATE SCHEMA so AUTHORIZATION u",
            15151,
        ),
        (
            "CREATE USER u WITHOUT LOGIN",
            "CREATE SCHEMA so AUTHORIZATION u",
            "DROP USER u",
            15138,
        ),
        (
            "CREATE ROLE r;;CREATE SCHEMA so",
            "DROP ROLE r",
            "ALTER AUTHORIZATION ON SCHEMA::so TO r",
            15151,
        ),
    ] {
        check(&Case {
            setup,
            first,
            second,
            errors: vec![number],
            then: (owners, "0"),
        });
    }
}

#[test]
fn a_name_is_given_once() {
    let names = "SELECT COUNT(*) FROM sys.objects WHERE name = 'dup'";
    for (setup, first, second, number) in [
        (
            "CREATE TABLE k (i int); CREATE TABLE l (i int)",
            "EXEC sp_rename 'k', 'dup'",
            "EXEC sp_rename 'l', 'dup'",
            15335,
        ),
        (
            "CREATE TABLE k (i int)",
            "CREATE TABLE dup (i int)",
            "EXEC sp_rename 'k', 'dup'",
            15335,
        ),
        (
            "CREATE TABLE k (i int)",
            "EXEC sp_rename 'k', 'dup'",
            "CREATE TABLE dup (i int)",
            2714,
        ),
    ] {
        check(&Case {
            setup,
            first,
            second,
            errors: vec![number],
            then: (names, "1"),
        });
    }
    check(&Case {
        setup: "CREATE SCHEMA s;;CREATE TABLE dup (i int)",
        first: "CREATE TABLE s.dup (i int)",
        second: "ALTER SCHEMA s TRANSFER dbo.dup",
        errors: vec![15530],
        then: (names, "2"),
    });
    check(&Case {
        setup: "CREATE TYPE a FROM int",
        first: "CREATE TYPE dup FROM int",
        second: "EXEC sp_rename 'a', 'dup', 'USERDATATYPE'",
        errors: vec![15335],
        then: ("SELECT COUNT(*) FROM sys.types WHERE name = 'dup'", "1"),
    });
}

#[test]
fn what_a_definition_names_stays() {
    for (setup, first, second, number) in [
        (
            "CREATE SCHEMA s",
            "DROP SCHEMA s",
            "CREATE TABLE s.f (i int)",
            2760,
        ),
        (
            "CREATE SCHEMA s",
            "CREATE TABLE s.f (i int)",
            "DROP SCHEMA s",
            3729,
        ),
        (
            "CREATE TYPE ty FROM int",
            "DROP TYPE ty",
            "CREATE TABLE t (i ty)",
            2715,
        ),
        (
            "CREATE TYPE ty FROM int",
            "CREATE TABLE t (i ty)",
            "DROP TYPE ty",
            3732,
        ),
        (
            "CREATE SEQUENCE q AS int",
            "DROP SEQUENCE q",
            "CREATE TABLE t (i int DEFAULT NEXT VALUE FOR q)",
            208,
        ),
        (
            "CREATE SEQUENCE q AS int",
            "EXEC sp_rename 'q', 'r'",
            "CREATE TABLE t (i int DEFAULT NEXT VALUE FOR q)",
            208,
        ),
        (
            "CREATE SEQUENCE q AS int",
            "CREATE TABLE t (i int DEFAULT NEXT VALUE FOR q)",
            "DROP SEQUENCE q",
            3729,
        ),
    ] {
        check(&Case {
            setup,
            first,
            second,
            errors: vec![number],
            then: (
                "SELECT COUNT(*) FROM sys.objects WHERE SCHEMA_NAME(schema_id) IS NULL",
                "0",
            ),
        });
    }
}

/// Their numbers are given one after the other.
#[test]
fn principals_schemas_and_types_are_made_beside_others() {
    for (first, second, then) in [
        (
            "CREATE USER a WITHOUT LOGIN",
            "CREATE USER b WITHOUT LOGIN",
            "SELECT COUNT(DISTINCT principal_id) FROM sys.database_principals WHERE name IN ('a', 'b')",
        ),
        (
            "CREATE SCHEMA a",
            "CREATE SCHEMA b",
            "SELECT COUNT(DISTINCT schema_id) FROM sys.schemas WHERE name IN ('a', 'b')",
        ),
        (
            "CREATE TYPE a FROM int",
            "CREATE TYPE b FROM int",
            "SELECT COUNT(DISTINCT user_type_id) FROM sys.types WHERE name IN ('a', 'b')",
        ),
    ] {
        check(&Case {
            setup: "SELECT 1",
            first,
            second,
            errors: Vec::new(),
            then: (then, "2"),
        });
    }
}

/// Definitions that make and drop no schemas, types, sequences and principals do not wait for each other, nor does what a session has for
/// itself.
#[test]
fn tables_are_made_beside_each_other() {
    let server = Server::with_setup(&["CREATE DATABASE d"]);
    let (mut one, mut two) = (server.connect_to("d"), server.connect_to("d"));
    for client in [&mut one, &mut two] {
        client.done("SET LOCK_TIMEOUT 0");
    }
    one.done("BEGIN TRAN; CREATE TABLE a (i int)");
    one.done("CREATE VIEW v AS SELECT 1 AS c");
    two.done("BEGIN TRAN; CREATE TABLE b (i int)");
    two.done("ALTER TABLE b ADD j int; CREATE INDEX i ON b (i)");
    one.done("COMMIT");
    two.done("COMMIT");
    one.done("BEGIN TRAN; CREATE ROLE r");
    two.done("CREATE TABLE #t (i int); ALTER TABLE #t ADD j int; DROP TABLE #t");
    two.done(
        "SELECT COUNT(*) FROM b; UPDATE STATISTICS b; TRUNCATE TABLE b; ALTER INDEX i ON b REBUILD",
    );
    one.done("COMMIT");
    // A table is loaded and put in the place of another one, with its permissions.
    let swap = "BEGIN TRAN; SELECT 1 AS i INTO %_new; EXEC sp_rename '%', '%_old'; EXEC sp_rename '%_new', '%';
        DROP TABLE %_old; GRANT SELECT ON % TO %_user; EXEC sp_addextendedproperty 'p', 1, 'SCHEMA', 'dbo', 'TABLE', '%'";
    for name in ["a", "b"] {
        one.done(&format!("CREATE USER {name}_user WITHOUT LOGIN"));
    }
    one.done(&swap.replace('%', "a"));
    two.done(&swap.replace('%', "b"));
    two.done("COMMIT");
    one.done("COMMIT");
}

/// Nobody waits for what has failed, nor for what does nothing.
#[test]
fn a_definition_that_fails_keeps_nobody_waiting() {
    let server = Server::with_setup(&[
        "CREATE LOGIN low WITH PASSWORD = 'Str0ng!Passw0rd'",
        "CREATE DATABASE d",
        "USE d; CREATE USER low FOR LOGIN low; CREATE ROLE r; CREATE TABLE t (i int CONSTRAINT c CHECK (i > 0)); CREATE TYPE ty FROM int",
    ]);
    let mut admin = server.connect_to("d");
    admin.done("SET LOCK_TIMEOUT 0");
    let mut low = server.connect_as("low", "d");
    for text in [
        "EXEC sp_rename 'nosuch', 'x'",
        "EXEC sp_rename 'c', 'x'",
        "EXEC sp_rename 'ty', 'x', 'USERDATATYPE'",
        "ALTER ROLE r ADD MEMBER low",
        "ALTER USER low WITH NAME = lower",
        "DROP USER low",
        "ALTER AUTHORIZATION ON SCHEMA::dbo TO low",
        "ALTER SCHEMA nosuch TRANSFER t",
        "DROP SCHEMA nosuch",
        "DROP TYPE nosuch",
        "DROP SEQUENCE nosuch",
        "CREATE SCHEMA s",
        "CREATE USER other WITHOUT LOGIN",
        "GRANT SELECT ON t TO r",
        "EXEC sp_addextendedproperty 'p', 1, 'SCHEMA', 'dbo', 'TABLE', 't'",
        "CREATE TABLE mine (i int)",
    ] {
        low.done("BEGIN TRAN");
        let out = low.run(text);
        assert!(!errors(&out).is_empty(), "{text}: {out}");
        admin.done("CREATE SCHEMA probe");
        admin.done("DROP SCHEMA probe");
        admin.done("REVOKE INSERT ON t FROM r");
        low.run("IF @@TRANCOUNT > 0 ROLLBACK");
    }
    low.done("BEGIN TRAN; DROP TABLE IF EXISTS nosuch; DROP SCHEMA IF EXISTS nosuch");
    low.done("CREATE PROCEDURE #p AS SELECT 1");
    admin.done("CREATE SCHEMA probe");
    low.done("ROLLBACK");
    let mut owner = server.connect_to("d");
    owner.done("BEGIN TRAN");
    for text in ["CREATE TABLE t (i int)", "CREATE TYPE ty FROM int"] {
        let out = owner.run(text);
        assert!(!errors(&out).is_empty(), "{text}: {out}");
        admin.done("DROP SCHEMA probe");
        admin.done("CREATE SCHEMA probe");
    }
}

/// Whoever waited while a table took the place of another one works on the one that has the name now.
#[test]
fn what_waited_for_a_swap_meets_the_table_of_that_name() {
    let swap = "EXEC sp_rename 'n', 'n_old'; EXEC sp_rename 'n_new', 'n'";
    for (second, old, new) in [
        ("TRUNCATE TABLE n", "2", "0"),
        ("DELETE n", "2", "0"),
        ("INSERT n VALUES (9)", "2", "2"),
        (
            "ALTER TABLE n ADD j int; DELETE n WHERE j IS NULL",
            "2",
            "0",
        ),
        ("DROP TABLE n; SELECT 1 AS i INTO n WHERE 1 = 0", "2", "0"),
    ] {
        let server = Server::with_setup(&["CREATE DATABASE d"]);
        let mut first = server.connect_to("d");
        first.done("CREATE TABLE n (i int); INSERT n VALUES (1), (2); CREATE TABLE n_new (i int); INSERT n_new VALUES (3)");
        first.done("BEGIN TRAN");
        first.done(swap);
        let client = server.connect_to("d");
        let (_client, out) = run_until(&server, client, second, || first.done("COMMIT"));
        assert_eq!(errors(&out), Vec::<i32>::new(), "{second}: {out}");
        assert_eq!(first.scalar("SELECT COUNT(*) FROM n_old"), old, "{second}");
        assert_eq!(first.scalar("SELECT COUNT(*) FROM n"), new, "{second}");
        check_pages(&mut first);
    }
}

/// Its number is given again, and what was granted on it is not.
#[test]
fn a_schema_inherits_nothing_from_one_that_was_dropped() {
    let server = Server::with_setup(&["CREATE DATABASE d"]);
    let mut client = server.connect_to("d");
    client.done("CREATE USER u WITHOUT LOGIN");
    client.done("CREATE SCHEMA a");
    client.done("GRANT SELECT ON SCHEMA::a TO u; DROP SCHEMA a");
    client.done("CREATE SCHEMA b");
    client.done("CREATE TABLE b.t (i int)");
    let out = client.run("EXECUTE AS USER = 'u'; SELECT COUNT(*) FROM b.t");
    assert_eq!(errors(&out), [229]);
}

/// What a foreign key refers to is read when nobody else can change it any more.
#[test]
fn a_foreign_key_is_made_of_the_table_as_it_is_when_it_is_locked() {
    let server = Server::with_setup(&["CREATE DATABASE d"]);
    let mut first = server.connect_to("d");
    first.done("CREATE TABLE p (k int NOT NULL CONSTRAINT u UNIQUE); CREATE TABLE c (k int)");
    first.done("BEGIN TRAN; INSERT p VALUES (1)");
    let client = server.connect_to("d");
    let second = "ALTER TABLE c ADD CONSTRAINT f FOREIGN KEY (k) REFERENCES p (k)";
    let end = || first.done("ALTER TABLE p DROP CONSTRAINT u; COMMIT");
    let (_client, out) = run_until(&server, client, second, end);
    assert_eq!(errors(&out), [1776, 1750], "{out}");
    assert_eq!(first.scalar("SELECT COUNT(*) FROM sys.foreign_keys"), "0");
    first.done("DELETE p; INSERT c VALUES (1)");
    check_pages(&mut first);
}

/// Two constraints of a schema never have one name, nor two indexes of a table.
#[test]
fn a_constraint_keeps_its_name_to_itself() {
    let server = Server::with_setup(&["CREATE DATABASE d"]);
    let mut client = server.connect_to("d");
    client.done("CREATE SCHEMA s");
    client.done("CREATE TABLE dbo.a (k int CONSTRAINT c CHECK (k > 0))");
    client.done("CREATE TABLE s.b (k int CONSTRAINT c CHECK (k > 0))");
    let out = client.run("ALTER SCHEMA s TRANSFER dbo.a");
    assert_eq!(errors(&out), [15530], "{out}");
    client.done("CREATE TABLE dbo.t (k int NOT NULL CONSTRAINT pk PRIMARY KEY, j int)");
    client.done("CREATE INDEX i ON dbo.t (j)");
    let out = client.run("EXEC sp_rename 'dbo.pk', 'i'");
    assert_eq!(errors(&out), [15335], "{out}");
    // Other constraints are no indexes.
    client.done("EXEC sp_rename 'dbo.c', 'i'");
    drop(client);

    check(&Case {
        setup: "CREATE SCHEMA s;;CREATE TABLE dbo.a (k int CONSTRAINT c CHECK (k > 0));;CREATE TABLE s.b (k int)",
        first: "ALTER TABLE s.b ADD CONSTRAINT c CHECK (k > 0)",
        second: "ALTER SCHEMA s TRANSFER dbo.a",
        errors: vec![15530],
        then: (
            "SELECT COUNT(*) FROM sys.check_constraints WHERE name = 'c' AND schema_id = SCHEMA_ID('s')",
            "1",
        ),
    });
}

/// Whoever defines something while a trigger of definitions is made waits for it.
#[test]
fn a_trigger_of_definitions_misses_nothing() {
    check(&Case {
        setup: "CREATE TABLE t (k int)",
        first: "EXEC ('CREATE TRIGGER keeps ON DATABASE FOR ALTER_TABLE AS ROLLBACK')",
        second: "ALTER TABLE t ADD c int",
        errors: vec![3609],
        then: ("SELECT COUNT(*) FROM sys.columns WHERE name = 'c'", "0"),
    });
    for (setup, second, event, then) in [
        (
            "CREATE TABLE t (k int)",
            "GRANT SELECT ON t TO public",
            "GRANT_DATABASE",
            "SELECT COUNT(*) FROM sys.database_permissions WHERE major_id = OBJECT_ID('t')",
        ),
        (
            "CREATE TABLE t (k int)",
            "SELECT k INTO u FROM t",
            "CREATE_TABLE",
            "SELECT COUNT(*) FROM sys.tables WHERE name = 'u'",
        ),
        (
            "CREATE TABLE t (k int)",
            "CREATE USER u WITHOUT LOGIN",
            "CREATE_USER",
            "SELECT COUNT(*) FROM sys.database_principals WHERE name = 'u'",
        ),
        (
            "CREATE TABLE t (k int);;CREATE ROLE r",
            "DROP ROLE r",
            "DROP_ROLE",
            "SELECT 1 - COUNT(*) FROM sys.database_principals WHERE name = 'r'",
        ),
    ] {
        check(&Case {
            setup,
            first: &format!(
                "EXEC ('CREATE TRIGGER keeps ON DATABASE FOR {event} AS IF EVENTDATA().exist(''//ObjectName[. = \"filler\"]'') = 0 ROLLBACK')"
            ),
            second,
            errors: vec![3609],
            then: (then, "0"),
        });
    }
}

/// CREATE SCHEMA begins anew when what a key refers to has changed while it waited.
#[test]
fn a_schema_that_is_begun_anew_is_told_of_once() {
    let server = Server::with_setup(&["CREATE DATABASE d"]);
    let mut first = server.connect_to("d");
    first.done("CREATE TABLE dbo.p (a int PRIMARY KEY, b int)");
    first.done("CREATE TRIGGER tells ON DATABASE FOR CREATE_SCHEMA, CREATE_TABLE AS PRINT 'told'");
    first.done("BEGIN TRAN; CREATE INDEX i ON dbo.p (b)");
    let second = "CREATE SCHEMA s CREATE TABLE t (a int REFERENCES dbo.p (a))";
    let client = server.connect_to("d");
    let (_client, out) = run_until(&server, client, second, || first.done("COMMIT"));
    assert_eq!(errors(&out), Vec::<i32>::new(), "{out}");
    assert_eq!(out.matches("told").count(), 2, "{out}");
}

/// The right to make a table is asked for behind the wait as well.
#[test]
fn a_table_of_a_query_is_asked_for_behind_the_wait() {
    let (server, mut admin) = with_low(&[
        "CREATE TABLE dbo.t (i int); GRANT SELECT ON dbo.t TO low",
        "GRANT CREATE TABLE TO low; GRANT ALTER ON SCHEMA::dbo TO low",
        "BEGIN TRAN; REVOKE ALTER ON SCHEMA::dbo FROM low; CREATE ROLE other",
    ]);
    let low = server.connect_as("low", "e");
    let second = "SELECT i INTO dbo.u FROM dbo.t";
    let (_low, out) = run_until(&server, low, second, || admin.done("COMMIT"));
    assert_eq!(errors(&out), [2760], "{out}");
    assert_eq!(admin.scalar("SELECT OBJECT_ID('dbo.u')"), "NULL");
}

const DESCRIBE: &str = "EXEC sp_addextendedproperty 'about', 'x', 'SCHEMA', 'dbo',";

#[test]
fn a_property_goes_with_what_it_describes() {
    let none = ("SELECT COUNT(*) FROM sys.extended_properties", "0");
    for (setup, first, level) in [
        (
            "CREATE PROCEDURE p AS SELECT 1",
            "DROP PROCEDURE p",
            "'PROCEDURE', 'p'",
        ),
        (
            "CREATE VIEW v AS SELECT 1 AS i",
            "DROP VIEW v",
            "'VIEW', 'v'",
        ),
        (
            "CREATE FUNCTION f () RETURNS int AS BEGIN RETURN 1 END",
            "DROP FUNCTION f",
            "'FUNCTION', 'f'",
        ),
    ] {
        check(&Case {
            setup,
            first,
            second: &format!("{DESCRIBE} {level}"),
            errors: vec![15135],
            then: none,
        });
    }
    let first = format!("{DESCRIBE} 'TABLE', 't', 'COLUMN', 'c'");
    check(&Case {
        setup: "CREATE TABLE t (k int, c int)",
        first: &first,
        second: "ALTER TABLE t DROP COLUMN c",
        errors: Vec::new(),
        then: none,
    });
}

/// Numbers of schemas, types and users are given again, without what described those that had them.
#[test]
fn what_gets_a_number_again_gets_no_description_with_it() {
    let server = Server::with_setup(&["CREATE DATABASE d"]);
    let mut client = server.connect_to("d");
    for (create, level, drop) in [
        ("CREATE SCHEMA a", "'SCHEMA', 'a'", "DROP SCHEMA a"),
        (
            "CREATE TYPE a FROM int",
            "'SCHEMA', 'dbo', 'TYPE', 'a'",
            "DROP TYPE a",
        ),
        ("CREATE USER a WITHOUT LOGIN", "'USER', 'a'", "DROP USER a"),
    ] {
        client.done(create);
        client.done(&format!(
            "EXEC sp_addextendedproperty 'about', 'x', {level}"
        ));
        client.done(drop);
        client.done(create);
        let count = "SELECT COUNT(*) FROM sys.extended_properties";
        assert_eq!(client.scalar(count), "0", "{create}");
    }
    let server = server.crash_after(client);
    let mut client = server.connect_to("d");
    let count = "SELECT COUNT(*) FROM sys.extended_properties";
    assert_eq!(client.scalar(count), "0");
}

#[test]
fn a_login_does_not_become_user_and_owner_at_once() {
    let server = Server::with_setup(&[
        "CREATE DATABASE d",
        "CREATE LOGIN l WITH PASSWORD = 'Long1Enough!'",
    ]);
    let mut first = server.connect_to("d");
    first.done("BEGIN TRAN; CREATE USER l FOR LOGIN l");
    let client = server.connect_to("master");
    let second = "ALTER AUTHORIZATION ON DATABASE::d TO l";
    let (_client, out) = run_until(&server, client, second, || first.done("COMMIT"));
    assert_eq!(errors(&out), [15110], "{out}");
    let owner = "SELECT SUSER_SNAME(owner_sid) FROM sys.databases WHERE name = 'd'";
    assert_eq!(first.scalar(owner), "sa");
}

#[test]
fn a_drop_of_nothing_is_no_matter_of_rights() {
    let server = Server::with_setup(&["CREATE DATABASE d"]);
    let mut client = server.connect_to("d");
    client.done("CREATE USER u WITHOUT LOGIN; CREATE TYPE ty FROM int");
    client.done("CREATE SCHEMA s");
    client.done("EXECUTE AS USER = 'u'");
    client.done("DROP TYPE IF EXISTS nothing; DROP TYPE IF EXISTS s.ty");
    assert_eq!(errors(&client.run("DROP TYPE s.ty")), [218]);
    assert_eq!(errors(&client.run("DROP TYPE ty")), [3701]);
}

/// Databases `d` and `e` with a user `low` in both, and what else there is in `e`.
fn with_low(setup: &[&str]) -> (Server, Client) {
    let server = Server::with_setup(&[
        "CREATE LOGIN low WITH PASSWORD = 'Str0ng!Passw0rd'",
        "CREATE DATABASE d",
        "CREATE DATABASE e",
        "USE d; CREATE USER low FOR LOGIN low",
        "USE e; CREATE USER low FOR LOGIN low",
    ]);
    let mut admin = server.connect_to("e");
    for text in setup {
        admin.done(text);
    }
    (server, admin)
}

/// Who may not define something may not when it has come while he waited either.
#[test]
fn rights_are_asked_behind_the_wait_for_what_came_meanwhile() {
    let columns = "SELECT COUNT(*) FROM sys.columns WHERE object_id = OBJECT_ID('dbo.t')";
    for (second, error) in [
        ("ALTER TABLE e.dbo.t DROP COLUMN c", 1088),
        ("DROP TABLE e.dbo.t", 3701),
    ] {
        let (server, mut admin) = with_low(&[]);
        admin.done("BEGIN TRAN; CREATE TYPE ty FROM int; CREATE TABLE dbo.t (k int, c int)");
        let low = server.connect_as("low", "d");
        let (_low, out) = run_until(&server, low, second, || admin.done("COMMIT"));
        assert_eq!(errors(&out), [error], "{second}: {out}");
        assert_eq!(admin.scalar(columns), "2", "{second}");
    }
}

/// A schema that somebody else owns now takes nothing of the one who owned the last one of its name.
#[test]
fn a_schema_is_asked_for_behind_the_wait() {
    let (server, mut admin) = with_low(&[
        "CREATE SCHEMA s AUTHORIZATION low",
        "GRANT CREATE TABLE TO low",
        "BEGIN TRAN; DROP SCHEMA s",
        "CREATE SCHEMA s",
    ]);
    let low = server.connect_as("low", "d");
    let second = "CREATE TABLE e.s.x (i int)";
    let (_low, out) = run_until(&server, low, second, || admin.done("COMMIT"));
    assert_eq!(errors(&out), [2760], "{out}");
    assert_eq!(admin.scalar("SELECT COUNT(*) FROM sys.tables"), "0");
}

#[test]
fn a_transfer_is_asked_for_behind_the_wait() {
    let (server, mut admin) = with_low(&[
        "CREATE SCHEMA s AUTHORIZATION low",
        "CREATE TABLE dbo.t (i int); GRANT CONTROL ON dbo.t TO low",
        "BEGIN TRAN; TRUNCATE TABLE dbo.t; REVOKE CONTROL ON dbo.t FROM low",
    ]);
    let low = server.connect_as("low", "e");
    let second = "ALTER SCHEMA s TRANSFER dbo.t";
    let (_low, out) = run_until(&server, low, second, || admin.done("COMMIT"));
    assert_eq!(errors(&out), [15151], "{out}");
    let moved = "SELECT COUNT(*) FROM sys.tables WHERE schema_id = SCHEMA_ID('s')";
    assert_eq!(admin.scalar(moved), "0");
}

/// What has the name behind the wait is asked for, and not what had it before.
#[test]
fn a_property_is_asked_for_behind_the_wait() {
    let (server, mut admin) = with_low(&[
        "CREATE TABLE dbo.t (i int); CREATE TABLE dbo.hidden (i int); GRANT ALTER ON dbo.t TO low",
        "BEGIN TRAN",
        &format!("{DESCRIBE} 'TABLE', 't'"),
        "EXEC sp_rename 't', 'old'; EXEC sp_rename 'hidden', 't'",
    ]);
    let low = server.connect_as("low", "e");
    let second = "EXEC sp_addextendedproperty 'of low', 'x', 'SCHEMA', 'dbo', 'TABLE', 't'";
    let (_low, out) = run_until(&server, low, second, || admin.done("COMMIT"));
    assert_eq!(errors(&out).len(), 1, "{out}");
    let found = "SELECT COUNT(*) FROM sys.extended_properties WHERE name = 'of low'";
    assert_eq!(admin.scalar(found), "0");
}

/// Nobody waits for the definitions of one that began anew, and failed then, in a transaction that goes on.
#[test]
fn a_definition_that_began_anew_and_fails_keeps_nobody_waiting() {
    let server = Server::with_setup(&["CREATE DATABASE d"]);
    let mut first = server.connect_to("d");
    first.done("CREATE TABLE n (i int); CREATE TABLE n_new (i int, j int); BEGIN TRAN");
    first.done("EXEC sp_rename 'n', 'n_old'; EXEC sp_rename 'n_new', 'n'");
    let client = server.connect_to("d");
    let second = "BEGIN TRAN; ALTER TABLE n ADD j int";
    let (mut client, out) = run_until(&server, client, second, || first.done("COMMIT"));
    assert_eq!(errors(&out), [2705], "{out}");
    assert_eq!(client.scalar("SELECT @@TRANCOUNT"), "1");
    first.done("SET LOCK_TIMEOUT 0");
    first.done("CREATE SCHEMA probe");
    client.done("CREATE TABLE other (i int)");
    assert_eq!(errors(&first.run("DROP SCHEMA probe")), [1222]);
    client.done("ROLLBACK");
}

/// Each is made of a reading of the table, during which the other's came.
#[test]
fn statistics_made_at_once_are_all_kept() {
    const EACH: usize = 20;
    let server = Server::new();
    let mut client = server.connect();
    client.done("CREATE TABLE t (a int, b int)");
    client.done("INSERT t SELECT value, value % 7 FROM GENERATE_SERIES(1, 2000)");
    let make = |begin: &str| {
        let mut client = server.connect();
        for n in 0..EACH {
            client.done(&format!("CREATE STATISTICS {begin}{n} ON t (a, b)"));
        }
    };
    std::thread::scope(|threads| {
        threads.spawn(|| make("left"));
        make("right");
    });
    let count = "SELECT COUNT(*) FROM sys.stats WHERE object_id = OBJECT_ID('t')";
    let expected = (2 * EACH).to_string();
    assert_eq!(client.scalar(count), expected);
    let server = server.restart_keeping(client);
    let mut client = server.connect();
    assert_eq!(client.scalar(count), expected);
    for begin in ["left", "right"] {
        client.done(&format!("DROP STATISTICS t.{begin}1"));
    }
}

#[test]
fn a_grant_is_asked_for_behind_the_wait() {
    let (server, mut admin) = with_low(&[
        "CREATE USER other WITHOUT LOGIN",
        "CREATE TABLE dbo.t (i int); GRANT SELECT ON dbo.t TO low WITH GRANT OPTION",
        "BEGIN TRAN; GRANT INSERT ON dbo.t TO other; REVOKE SELECT ON dbo.t FROM low CASCADE",
    ]);
    let low = server.connect_as("low", "e");
    let second = "GRANT SELECT ON dbo.t TO other";
    let (_low, out) = run_until(&server, low, second, || admin.done("COMMIT"));
    assert_eq!(errors(&out), [15151], "{out}");
    let granted = "SELECT COUNT(*) FROM sys.database_permissions WHERE type = 'SL'";
    assert_eq!(admin.scalar(granted), "0");
}

/// Whoever drops a table has it locked when he comes to the properties of what is in it.
#[test]
fn a_property_is_changed_behind_the_lock_of_its_object() {
    let server = Server::with_setup(&["CREATE DATABASE d"]);
    let mut first = server.connect_to("d");
    for part in ["", ", 'COLUMN', 'i'", ", 'CONSTRAINT', 'few'"] {
        first.done("CREATE TABLE t (i int CONSTRAINT few CHECK (i < 5))");
        first.done(&format!(
            "BEGIN TRAN; EXEC sp_addextendedproperty 'p', 1, 'SCHEMA', 'dbo', 'TABLE', 't'{part}"
        ));
        let other = server.connect_to("d");
        let (_, out) = run_until(&server, other, "DROP TABLE t", || {
            let out = first.run("SELECT i FROM t; COMMIT");
            assert_eq!(errors(&out), Vec::<i32>::new(), "{part}: {out}");
        });
        assert_eq!(errors(&out), Vec::<i32>::new(), "{part}: {out}");
        let left = "SELECT COUNT(*) FROM sys.extended_properties";
        assert_eq!(first.scalar(left), "0", "{part}");
    }
}

#[test]
fn what_is_handed_on_meanwhile_does_not_escape_cascade() {
    let (server, admin) = with_low(&[
        "CREATE USER other WITHOUT LOGIN",
        "CREATE TABLE dbo.t (i int); GRANT SELECT ON dbo.t TO low WITH GRANT OPTION",
    ]);
    let mut low = server.connect_as("low", "e");
    low.done("BEGIN TRAN; GRANT SELECT ON dbo.t TO other");
    let second = "REVOKE SELECT ON dbo.t FROM low CASCADE";
    let (mut admin, out) = run_until(&server, admin, second, || low.done("COMMIT"));
    assert_eq!(errors(&out), Vec::<i32>::new(), "{out}");
    let granted = "SELECT COUNT(*) FROM sys.database_permissions WHERE type = 'SL'";
    assert_eq!(admin.scalar(granted), "0");
}

#[test]
fn a_trigger_of_a_view_is_asked_for_behind_the_wait() {
    let (server, mut admin) = with_low(&["CREATE TABLE dbo.t (i int)"]);
    admin.done("CREATE VIEW dbo.v AS SELECT i FROM dbo.t");
    admin.done("GRANT ALTER ON dbo.v TO low");
    admin.done("BEGIN TRAN; REVOKE ALTER ON dbo.v FROM low");
    admin.done("CREATE OR ALTER VIEW dbo.v AS SELECT i + 1 AS i FROM dbo.t");
    let low = server.connect_as("low", "e");
    let second = "CREATE TRIGGER dbo.r ON dbo.v INSTEAD OF INSERT AS RETURN";
    let (_low, out) = run_until(&server, low, second, || admin.done("COMMIT"));
    assert_eq!(errors(&out), [2104], "{out}");
    assert_eq!(admin.scalar("SELECT COUNT(*) FROM sys.triggers"), "0");
}

/// Two that move sequences wait for a third transaction, and not for each other.
#[test]
fn sequences_that_are_moved_at_once_wait_for_nobody_twice() {
    let server = Server::with_setup(&["CREATE DATABASE d"]);
    let mut first = server.connect_to("d");
    first.done("CREATE SCHEMA s");
    first.done("CREATE SEQUENCE dbo.p AS int; CREATE SEQUENCE dbo.q AS int");
    first.done("BEGIN TRAN; CREATE TABLE t (i int)");
    let (one, other) = (server.connect_to("d"), server.connect_to("d"));
    let (_, out) = run_until(&server, one, "ALTER SCHEMA s TRANSFER dbo.p", || {
        let (_, out) = run_until(&server, other, "ALTER SCHEMA s TRANSFER dbo.q", || {
            first.done("COMMIT");
        });
        assert_eq!(errors(&out), Vec::<i32>::new(), "{out}");
    });
    assert_eq!(errors(&out), Vec::<i32>::new(), "{out}");
    let moved = "SELECT COUNT(*) FROM sys.sequences WHERE schema_id = SCHEMA_ID('s')";
    assert_eq!(first.scalar(moved), "2");
}
