//! Plans kept with their text: for whom they are right, and what must not take a session out of the shared cache.

mod common;

use common::{Client, Server, errors};
use daruma_tsql::session::{RpcArgument, RpcProcedure, RpcRequest};
use daruma_value::{DataType, Value};

/// A table `t` in each of three schemas says whose it is; `one` and `two` are at home in a schema each.
const SETUP: &[&str] = &[
    "CREATE DATABASE d",
    "CREATE LOGIN one WITH PASSWORD = 'Daruma-2026'; CREATE LOGIN two WITH PASSWORD = 'Daruma-2026'",
    "USE d; CREATE TABLE dbo.t (id int, who varchar(10)); INSERT dbo.t VALUES (1, 'dbo')",
    "CREATE SCHEMA s1",
    "CREATE SCHEMA s2",
    "CREATE SCHEMA s3",
    "CREATE TABLE s1.t (id int, who varchar(10)); INSERT s1.t VALUES (1, 'one'); \
     CREATE TABLE s2.t (id int, who varchar(10)); INSERT s2.t VALUES (1, 'two'); \
     CREATE SYNONYM s1.syn FOR s1.t; CREATE SYNONYM s2.syn FOR s2.t; CREATE SYNONYM dbo.syn FOR dbo.t; \
     CREATE USER one FOR LOGIN one WITH DEFAULT_SCHEMA = s1; CREATE USER two FOR LOGIN two WITH DEFAULT_SCHEMA = s2; \
     GRANT SELECT, DELETE, UPDATE ON SCHEMA::s1 TO one; GRANT SELECT, DELETE, UPDATE ON SCHEMA::s2 TO two; \
     GRANT SHOWPLAN TO one",
    "CREATE VIEW s1.v AS SELECT who FROM t",
    "CREATE VIEW s2.v AS SELECT who FROM t",
    "CREATE VIEW dbo.v AS SELECT who FROM t",
];

fn prepared() -> Server {
    Server::with_setup(SETUP)
}

struct Three {
    one: Client,
    two: Client,
    admin: Client,
}

fn three(server: &Server) -> Three {
    Three {
        one: server.connect_as("one", "d"),
        two: server.connect_as("two", "d"),
        admin: server.connect_to("d"),
    }
}

/// Everybody runs the text, in every order, and sees his own.
fn each_his_own(clients: &mut Three, text: &str) {
    for order in [[0, 1, 2], [1, 0, 2], [2, 1, 0], [0, 2, 1]] {
        for who in order {
            let (client, expected) = match who {
                0 => (&mut clients.one, "one"),
                1 => (&mut clients.two, "two"),
                _ => (&mut clients.admin, "dbo"),
            };
            assert_eq!(client.scalar(text), expected, "{text}");
        }
    }
}

#[test]
fn a_kept_plan_never_reads_what_the_names_of_another_mean() {
    let server = prepared();
    let mut clients = three(&server);
    for text in [
        "SELECT who FROM t",
        "SELECT who FROM syn",
        "SELECT who FROM v",
        "EXEC sp_executesql N'SELECT who FROM t'",
        "EXEC ('SELECT who FROM t')",
        "DECLARE @w varchar(10) = (SELECT who FROM t); SELECT @w",
        "DECLARE @w varchar(10); SET @w = (SELECT who FROM t); SELECT @w",
        "IF EXISTS (SELECT 1 FROM t WHERE who = 'one') SELECT 'one' ELSE IF EXISTS (SELECT 1 FROM t WHERE who = 'two') SELECT 'two' ELSE SELECT 'dbo'",
        "UPDATE t SET id = id + 1 OUTPUT inserted.who",
        "BEGIN TRAN; DELETE t OUTPUT deleted.who; ROLLBACK",
        "WITH c AS (SELECT who FROM t) SELECT who FROM c",
        "SELECT a.who FROM t AS a WHERE a.who IN (SELECT who FROM t)",
    ] {
        each_his_own(&mut clients, text);
    }
}

#[test]
fn a_prepared_statement_reads_what_its_session_means() {
    let server = prepared();
    let mut clients = three(&server);
    let argument = |value, data_type, output| RpcArgument {
        name: String::new(),
        value: Some(value),
        data_type,
        output,
        table: None,
    };
    let text = |text: &str| argument(Value::str(text), DataType::NVARCHAR_MAX, false);
    let handle = |value| argument(value, DataType::Int, true);
    let call = |id, args| RpcRequest {
        procedure: RpcProcedure::Id(id),
        args,
        no_metadata: false,
    };
    let prepare = || {
        call(
            11,
            vec![handle(Value::Null), text(""), text("SELECT who FROM t")],
        )
    };
    let execute = || call(12, vec![argument(Value::Int(1), DataType::Int, false)]);
    let mut clients = [
        (&mut clients.one, "one"),
        (&mut clients.two, "two"),
        (&mut clients.admin, "dbo"),
    ];
    for (client, _) in &mut clients {
        client.rpc(prepare());
    }
    for _ in 0..3 {
        for (client, who) in &mut clients {
            let out = client.rpc(execute());
            assert_eq!(out.lines().nth(1), Some(*who), "{out}");
        }
    }
}

#[test]
fn a_user_cannot_plant_a_table_for_the_administrator() {
    let server = prepared();
    let Three {
        mut one, mut admin, ..
    } = three(&server);
    assert_eq!(
        one.run("DELETE FROM t WHERE who = 'nobody'"),
        "(0 rows affected)\n"
    );
    assert_eq!(one.run("DELETE FROM t"), "(1 row affected)\n");
    assert_eq!(admin.run("DELETE FROM t"), "(1 row affected)\n");
    assert_eq!(admin.scalar("SELECT COUNT(*) FROM dbo.t"), "0");
}

#[test]
fn acting_as_somebody_else_changes_what_names_mean() {
    let server = prepared();
    let mut admin = server.connect_to("d");
    let text = "SELECT who FROM t";
    for _ in 0..2 {
        for who in ["one", "two"] {
            assert_eq!(admin.scalar(text), "dbo");
            admin.done(&format!("EXECUTE AS USER = '{who}'"));
            assert_eq!(admin.scalar(text), who);
            admin.done("REVERT");
            let inside = format!("EXECUTE AS USER = '{who}'; EXEC sp_executesql N'{text}'; REVERT");
            assert_eq!(admin.scalar(&inside), who);
        }
    }
}

#[test]
fn equal_texts_of_two_procedures_are_two_procedures() {
    let server = prepared();
    let Three {
        mut one,
        mut two,
        mut admin,
    } = three(&server);
    admin.done("ALTER AUTHORIZATION ON SCHEMA::s1 TO one; ALTER AUTHORIZATION ON SCHEMA::s2 TO two; GRANT CREATE PROCEDURE TO one, two");
    let text = "CREATE PROCEDURE p AS SELECT who FROM t";
    for client in [&mut one, &mut two, &mut admin] {
        client.done(text);
    }
    for _ in 0..2 {
        for (schema, who) in [("s1", "one"), ("s2", "two"), ("dbo", "dbo")] {
            assert_eq!(admin.scalar(&format!("EXEC {schema}.p")), who);
        }
        assert_eq!(one.scalar("EXEC p"), "one");
        assert_eq!(two.scalar("EXEC p"), "two");
    }
}

#[test]
fn bare_names_in_a_module_are_its_own_and_not_its_callers() {
    let server = prepared();
    let Three {
        mut one, mut admin, ..
    } = three(&server);
    admin.done("CREATE PROCEDURE dbo.p AS SELECT who FROM t");
    admin.done("CREATE PROCEDURE s2.p AS SELECT who FROM t");
    admin.done("CREATE TABLE dbo.fired (id int)");
    admin.done("CREATE TRIGGER dbo.tr ON dbo.fired AFTER INSERT AS SELECT who FROM t");
    admin.done("CREATE FUNCTION dbo.f() RETURNS TABLE AS RETURN SELECT who FROM t");
    admin.done("GRANT EXECUTE ON dbo.p TO one; GRANT EXECUTE ON s2.p TO one; GRANT SELECT ON dbo.v TO one; GRANT INSERT ON dbo.fired TO one; GRANT SELECT ON dbo.f TO one");
    for _ in 0..2 {
        assert_eq!(one.scalar("EXEC dbo.p"), "dbo");
        assert_eq!(one.scalar("EXEC s2.p"), "two");
        assert_eq!(one.scalar("SELECT who FROM dbo.v"), "dbo");
        assert_eq!(one.scalar("SELECT who FROM dbo.f()"), "dbo");
        assert_eq!(one.scalar("INSERT dbo.fired VALUES (1)"), "dbo");
        assert_eq!(one.scalar("SELECT who FROM t"), "one");
    }
}

#[test]
fn a_table_made_later_hides_the_one_that_was_meant() {
    let server = prepared();
    let mut admin = server.connect_to("d");
    admin.done("GRANT SELECT ON dbo.t TO one; ALTER USER one WITH DEFAULT_SCHEMA = s3; ALTER USER two WITH DEFAULT_SCHEMA = later; GRANT SELECT ON dbo.t TO two; GRANT SELECT ON SCHEMA::s3 TO one");
    let Three {
        mut one, mut two, ..
    } = three(&server);
    let text = "SELECT who FROM t";
    assert_eq!(one.scalar(text), "dbo");
    assert_eq!(two.scalar(text), "dbo");
    admin.done("CREATE TABLE s3.t (id int, who varchar(10)); INSERT s3.t VALUES (1, 'three')");
    assert_eq!(one.scalar(text), "three");
    assert_eq!(two.scalar(text), "dbo");
    admin.done("CREATE SCHEMA later");
    admin.done("CREATE TABLE later.t (id int, who varchar(10)); INSERT later.t VALUES (1, 'later'); GRANT SELECT ON SCHEMA::later TO two");
    assert_eq!(one.scalar(text), "three");
    assert_eq!(two.scalar(text), "later");
    admin.done("DROP TABLE s3.t");
    assert_eq!(one.scalar(text), "dbo");
}

#[test]
fn a_name_of_another_database_is_found_as_its_user_finds_it() {
    let server = prepared();
    let mut admin = server.connect();
    admin.done("CREATE DATABASE other");
    admin.done("USE other; CREATE TABLE dbo.t (who varchar(10)); INSERT dbo.t VALUES ('odbo')");
    for (login, schema) in [("one", "x1"), ("two", "x2")] {
        admin.done(&format!("CREATE SCHEMA {schema}"));
        admin.done(&format!(
            "CREATE TABLE {schema}.t (who varchar(10)); INSERT {schema}.t VALUES ('o{login}'); \
             CREATE USER {login} FOR LOGIN {login} WITH DEFAULT_SCHEMA = {schema}; GRANT SELECT ON SCHEMA::{schema} TO {login}"
        ));
    }
    // At home where the schemas of `d` say nothing about those of `other`.
    admin.done("USE d; ALTER USER two WITH DEFAULT_SCHEMA = s1");
    let Three {
        mut one, mut two, ..
    } = three(&server);
    let text = "SELECT who FROM other..t";
    for _ in 0..2 {
        assert_eq!(one.scalar(text), "oone");
        assert_eq!(two.scalar(text), "otwo");
        assert_eq!(admin.scalar(text), "odbo");
    }
}

#[test]
fn a_batch_that_changes_its_database_has_plans_for_each() {
    let server = Server::new();
    let mut c = server.connect();
    for (name, alias) in [("a", "int"), ("b", "varchar(5)"), ("c", "bigint")] {
        c.done(&format!("CREATE DATABASE {name}"));
        c.done(&format!("USE {name}; CREATE TYPE dbo.ty FROM {alias}; CREATE TABLE dbo.t (who varchar(10)); INSERT dbo.t VALUES ('{name}')"));
    }
    let text = "DECLARE @v dbo.ty = 12; USE c; SELECT who + CAST(SQL_VARIANT_PROPERTY(@v, 'BaseType') AS varchar(20)) FROM t";
    for _ in 0..2 {
        for (name, base) in [("a", "int"), ("b", "varchar")] {
            c.done(&format!("USE {name}"));
            assert_eq!(c.scalar("SELECT who FROM t"), name);
            let out = c.run(text);
            assert!(out.contains(&format!("\nc{base}\n")), "{name}: {out}");
        }
    }
}

#[test]
fn tables_of_one_temporary_name_are_the_sessions_own() {
    let server = prepared();
    let (mut a, mut b) = (server.connect_to("d"), server.connect_to("d"));
    a.done("CREATE TABLE #x (v int); INSERT #x VALUES (1)");
    b.done("CREATE TABLE #x (v varchar(5)); INSERT #x VALUES ('b')");
    let text = "SELECT v FROM #x; IF EXISTS (SELECT * FROM #x) PRINT 'rows'";
    for _ in 0..2 {
        assert_eq!(a.scalar(text), "1");
        assert_eq!(b.scalar(text), "b");
    }
    a.done("DROP TABLE #x");
    assert_eq!(errors(&a.run(text)), [208]);
    assert_eq!(b.scalar(text), "b");
}

#[test]
fn tables_of_a_trigger_are_not_those_of_the_catalog() {
    let server = prepared();
    let mut c = server.connect_to("d");
    c.done("CREATE TABLE dbo.inserted (id int); INSERT dbo.inserted VALUES (77); CREATE TABLE dbo.fired (id int)");
    c.done("CREATE TRIGGER dbo.tr ON dbo.fired AFTER INSERT AS SELECT id FROM inserted EXEC ('SELECT id FROM inserted')");
    let outside = "EXEC ('SELECT id FROM inserted')";
    for _ in 0..2 {
        assert_eq!(c.scalar(outside), "77");
        let inside = c.run("INSERT dbo.fired VALUES (5)");
        let numbers: Vec<&str> = inside
            .lines()
            .filter(|l| l.parse::<i32>().is_ok())
            .collect();
        assert_eq!(
            numbers,
            ["5", "77"],
            "the trigger's rows, and a text's table"
        );
    }
}

#[test]
fn a_plan_that_may_be_run_may_not_be_seen() {
    let server = prepared();
    let mut admin = server.connect();
    admin.done("CREATE DATABASE other");
    admin.done("USE other; CREATE TABLE dbo.t (id int); CREATE USER one FOR LOGIN one; GRANT SELECT ON dbo.t TO one");
    let mut one = server.connect_as("one", "d");
    one.done("SELECT id FROM other.dbo.t");
    one.done("SET SHOWPLAN_TEXT ON");
    assert_eq!(errors(&one.run("SELECT id FROM other.dbo.t")), [262]);
}

#[test]
fn texts_with_passwords_are_not_kept() {
    let server = prepared();
    let mut admin = server.connect();
    admin.done("CREATE LOGIN secret WITH PASSWORD = 'Hidden1!hidden'");
    admin.done("IF 1 = 1 BEGIN ALTER LOGIN secret WITH PASSWORD = 'Hidden1!again' END");
    admin.done("SELECT 'Hidden2!' AS known");
    let kept = |with: &str| {
        format!(
            "SELECT COUNT(*) FROM sys.dm_exec_cached_plans CROSS APPLY sys.dm_exec_sql_text(plan_handle) \
             WHERE text LIKE '%Hid' + 'den{with}%'"
        )
    };
    assert_eq!(admin.scalar(&kept("2!")), "1");
    assert_eq!(admin.scalar(&kept("1!")), "0");
}

#[test]
fn what_was_granted_in_a_transaction_goes_with_it() {
    let server = prepared();
    let mut admin = server.connect_to("d");
    admin.done("ALTER ROLE db_securityadmin ADD MEMBER one");
    let mut one = server.connect_as("one", "d");
    let text = "SELECT who FROM dbo.t";
    assert_eq!(errors(&one.run(text)), [229]);
    one.done("BEGIN TRAN; GRANT SELECT ON dbo.t TO public");
    assert_eq!(one.scalar(text), "dbo");
    one.done("ROLLBACK");
    assert_eq!(errors(&one.run(text)), [229]);
    one.done("BEGIN TRAN; SAVE TRAN s; GRANT SELECT ON dbo.t TO public");
    assert_eq!(one.scalar(text), "dbo");
    one.done("ROLLBACK TRAN s");
    assert_eq!(errors(&one.run(text)), [229]);
    one.done("ROLLBACK");
}

/// Runs the query in both sessions by turns, and says how often a plan was made for it.
fn generations(server: &Server, a: &mut Client, b: &mut Client) -> (String, String) {
    for _ in 0..3 {
        for client in [&mut *a, &mut *b] {
            assert_eq!(
                client.scalar(
                    "EXEC sp_executesql N'SELECT who FROM dbo.t WHERE id = @id', N'@id int', 1"
                ),
                "dbo"
            );
        }
    }
    let about = "FROM sys.dm_exec_query_stats AS s CROSS APPLY sys.dm_exec_sql_text(s.sql_handle) AS x \
                 WHERE x.text LIKE 'SELECT who FROM dbo.t WHERE%'";
    let mut admin = server.connect_to("d");
    (
        admin.scalar(&format!("SELECT plan_generation_num {about}")),
        admin.scalar(&format!("SELECT execution_count {about}")),
    )
}

#[test]
fn what_a_session_did_does_not_take_it_out_of_the_shared_cache() {
    for (setup, before) in [
        ("nothing", ""),
        (
            "a temporary table",
            "CREATE TABLE #a (i int); ALTER TABLE #a ADD j int; CREATE INDEX ix ON #a (i)",
        ),
        (
            "a temporary table that went",
            "CREATE TABLE #a (i int); DROP TABLE #a",
        ),
        (
            "a statement that failed in a transaction",
            "BEGIN TRAN; INSERT dbo.k VALUES (1); COMMIT",
        ),
        (
            "a savepoint",
            "BEGIN TRAN; SAVE TRAN s; INSERT dbo.k VALUES (2); ROLLBACK TRAN s; COMMIT",
        ),
        (
            "definitions taken back",
            "BEGIN TRAN; CREATE TABLE dbo.gone (id int); ROLLBACK",
        ),
        (
            "an open transaction after a failure",
            "BEGIN TRAN; INSERT dbo.k VALUES (1)",
        ),
    ] {
        let server = prepared();
        let mut admin = server.connect_to("d");
        admin.done("CREATE TABLE dbo.k (id int PRIMARY KEY); INSERT dbo.k VALUES (1)");
        let (mut a, mut b) = (server.connect_to("d"), server.connect_to("d"));
        a.run(before);
        let (generation, executions) = generations(&server, &mut a, &mut b);
        assert_eq!((&*generation, &*executions), ("1", "6"), "after {setup}");
    }
}

#[test]
fn users_to_whom_names_mean_the_same_share_a_plan() {
    let server = prepared();
    let mut admin = server.connect_to("d");
    admin.done("GRANT SELECT ON dbo.t TO one, two; ALTER USER two WITH DEFAULT_SCHEMA = s1");
    let Three {
        mut one, mut two, ..
    } = three(&server);
    let (generation, executions) = generations(&server, &mut one, &mut two);
    assert_eq!((&*generation, &*executions), ("1", "6"));
}

/// The nodes of EXEC lie in the plan of the INSERT, and such a plan is made for each execution.
#[test]
fn arguments_of_insert_exec_are_those_of_the_statement() {
    let server = prepared();
    let mut c = server.connect_to("d");
    c.done("CREATE PROCEDURE dbo.p @n int AS SELECT @n");
    c.done("CREATE TABLE #n (n int)");
    let text = "DECLARE @a int = 10, @b int = 20; DELETE #n; \
                INSERT #n EXEC dbo.p 1; INSERT #n EXEC dbo.p 2; INSERT #n EXEC dbo.p @a; INSERT #n EXEC dbo.p @b; \
                INSERT #n EXEC ('SELECT 3'); INSERT #n EXEC ('SELECT 4'); SELECT STRING_AGG(n, ' ') WITHIN GROUP (ORDER BY n) FROM #n";
    for _ in 0..3 {
        let out = c.run(text);
        assert!(out.contains("\n1 2 3 4 10 20\n"), "{out}");
    }
}
