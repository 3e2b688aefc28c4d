//! Functions of users where statements meet: what a call costs the session, and what hostile ones cannot do.

mod common;

use common::Server;

/// A client with a table `t` of the numbers from 1 to `rows`.
fn client_with(server: &Server, rows: u32) -> common::Client {
    let mut client = server.connect();
    client.run("CREATE DATABASE f");
    client.run("USE f");
    client.run("CREATE TABLE t (id int PRIMARY KEY, v int)");
    let filled = format!("INSERT t SELECT value, value FROM GENERATE_SERIES(1, {rows})");
    assert!(!client.run(&filled).contains("Msg"));
    client
}

#[test]
fn deep_recursion_ends_at_the_bound_whatever_its_statements_need_of_the_stack() {
    // The stack that a connection's thread has.
    let thread = std::thread::Builder::new().stack_size(8 << 20);
    let ended = thread.spawn(recurse_deeply).expect("a thread").join();
    assert!(ended.is_ok());
}

fn recurse_deeply() {
    let server = Server::new();
    let mut client = client_with(&server, 3);
    let opened = "BEGIN ".repeat(150);
    let closed = " END".repeat(150);
    let (mut query, mut cases) = (
        "SELECT dbo.e(@n + 1) AS n".to_string(),
        "dbo.g(@n + 1)".to_string(),
    );
    for depth in 0..40 {
        query = format!(
            "SELECT TOP (5) MAX(q{depth}.n) AS n FROM ({query}) q{depth} CROSS JOIN t GROUP BY q{depth}.n ORDER BY n"
        );
        cases = format!("ABS({cases} + {depth})");
    }
    let texts = [
        format!(
            "CREATE FUNCTION dbo.e (@n int) RETURNS int AS BEGIN RETURN (SELECT TOP (1) n FROM ({query}) q) END"
        ),
        format!(
            "CREATE FUNCTION dbo.g (@n int) RETURNS int AS BEGIN DECLARE @r int = {cases} RETURN @r END"
        ),
        "CREATE FUNCTION dbo.a (@n int) RETURNS int AS BEGIN RETURN dbo.a(@n + 1) END".to_string(),
        "CREATE FUNCTION dbo.b (@n int) RETURNS int AS BEGIN \
         DECLARE @x int = (SELECT MAX(dbo.b(id)) FROM t WHERE dbo.b(v) = @n) RETURN @x END"
            .to_string(),
        format!(
            "CREATE FUNCTION dbo.c (@n int) RETURNS int AS BEGIN DECLARE @x int \
             {opened} EXEC @x = dbo.c @n {closed} RETURN @x END"
        ),
        "CREATE FUNCTION dbo.d (@n int) RETURNS @r TABLE (i int) AS BEGIN \
         INSERT @r SELECT x.i FROM t CROSS APPLY dbo.d(t.id) x RETURN END"
            .to_string(),
    ];
    for text in &texts {
        assert_eq!(client.run(text), "", "{text}");
    }
    for call in [
        "SELECT dbo.a(1)",
        "SELECT dbo.b(1)",
        "SELECT dbo.c(1)",
        "SELECT * FROM dbo.d(1)",
        "SELECT dbo.e(100)",
        "SELECT dbo.g(100)",
        "DECLARE @x int EXEC @x = dbo.a 1",
        "IF dbo.a(1) = 1 PRINT 'x'",
        "UPDATE t SET v = dbo.b(id)",
    ] {
        let answer = client.run(call);
        assert!(answer.contains("Msg 217"), "{call}: {answer}");
    }
    assert_eq!(
        client.run("SELECT COUNT(*) AS n FROM t"),
        "n\n3\n(1 row affected)\n"
    );
}

#[test]
fn calls_leave_nothing_behind_in_the_database_for_temporary_things() {
    let server = Server::new();
    let mut client = client_with(&server, 300);
    client.run(
        "CREATE FUNCTION dbo.rows_of (@n int) RETURNS @r TABLE (i int PRIMARY KEY) AS BEGIN \
         INSERT @r VALUES (@n), (@n + 1) RETURN END",
    );
    client.run(
        "CREATE FUNCTION dbo.fails (@n int) RETURNS int AS BEGIN \
         DECLARE @x TABLE (i int PRIMARY KEY) INSERT @x VALUES (1), (@n) RETURN 1 END",
    );
    let size = "SELECT SUM(size) AS n FROM tempdb.sys.database_files WHERE type = 0";
    client.run("SELECT SUM(x.i) FROM t CROSS APPLY dbo.rows_of(t.id) x");
    let before = client.run(size);
    for _ in 0..20 {
        let sum = client.run("SELECT SUM(x.i) AS n FROM t CROSS APPLY dbo.rows_of(t.id) x");
        assert_eq!(sum, "n\n90600\n(1 row affected)\n");
        assert!(client.run("SELECT dbo.fails(1)").contains("Msg 2627"));
        let tempdb = server.instance.database_named("tempdb").expect("is there");
        let storage = tempdb.open().expect("is open").storage;
        while storage.background_step().expect("no faults") {}
    }
    assert_eq!(client.run(size), before);
}

#[test]
fn a_function_in_place_gives_what_its_call_gives() {
    let server = Server::new();
    let mut client = client_with(&server, 40);
    let bodies = [
        ("int", "@n * 2 + ISNULL(@n, 0)"),
        (
            "varchar(3)",
            "CASE WHEN @n % 3 = 0 THEN 'abcdef' ELSE CONVERT(varchar(9), @n) END",
        ),
        ("decimal(4,1)", "@n / 3.0"),
        ("bit", "CASE WHEN @n > 20 THEN 1 ELSE 0 END"),
        ("bigint", "NULLIF(@n, 5)"),
        ("date", "DATEADD(day, @n, '20200101')"),
    ];
    for (at, (kind, body)) in bodies.iter().enumerate() {
        for (name, option) in [("i", "INLINE = ON"), ("c", "INLINE = OFF")] {
            let text = format!(
                "CREATE FUNCTION dbo.{name}{at} (@n int) RETURNS {kind} WITH {option} AS BEGIN RETURN {body} END"
            );
            assert_eq!(client.run(&text), "", "{text}");
        }
        let of = |name: &str| {
            format!(
                "SELECT id, dbo.{name}{at}(v) AS x, dbo.{name}{at}(NULL) AS y FROM t \
                 WHERE dbo.{name}{at}(id) IS NOT NULL ORDER BY dbo.{name}{at}(id) DESC, id"
            )
        };
        assert_eq!(client.run(&of("i")), client.run(&of("c")), "{body}");
        let of = |name: &str| {
            format!(
                "SELECT dbo.{name}{at}(v / 4) AS x, COUNT(*) AS n FROM t \
                 GROUP BY dbo.{name}{at}(v / 4) HAVING COUNT(*) > 1 ORDER BY x"
            )
        };
        assert_eq!(client.run(&of("i")), client.run(&of("c")), "{body}");
    }
    let plan = client.run("SET SHOWPLAN_TEXT ON");
    assert_eq!(plan, "");
    let plan = client.run("SELECT dbo.i0(v), dbo.c0(v) FROM t");
    assert!(
        plan.contains("dbo.c0(") && !plan.contains("dbo.i0(["),
        "{plan}"
    );
}

#[test]
fn a_change_of_a_function_is_seen_by_plans_that_call_it() {
    let server = Server::new();
    let mut client = client_with(&server, 2);
    let mut other = server.connect();
    other.run("USE f");
    client.run(
        "CREATE FUNCTION dbo.x (@n int) RETURNS int AS BEGIN DECLARE @r int = @n RETURN @r END",
    );
    client.run("CREATE PROCEDURE p AS SELECT dbo.x(id) AS x FROM t ORDER BY id");
    for n in 2..5 {
        assert_eq!(other.run("EXEC p"), client.run("EXEC p"));
        let text = format!(
            "ALTER FUNCTION dbo.x (@n int) RETURNS int AS BEGIN DECLARE @r int = @n * {n} RETURN @r END"
        );
        client.run(&text);
        let wanted = format!("x\n{n}\n{}\n(2 rows affected)\n", 2 * n);
        assert_eq!(other.run("EXEC p"), wanted);
    }
    // One that is not committed is seen by nobody else, and by no plan that stays.
    client.run("BEGIN TRAN");
    client
        .run("ALTER FUNCTION dbo.x (@n int) RETURNS int AS BEGIN DECLARE @r int = 0 RETURN @r END");
    assert_eq!(client.run("EXEC p"), "x\n0\n0\n(2 rows affected)\n");
    assert_eq!(other.run("EXEC p"), "x\n4\n8\n(2 rows affected)\n");
    client.run("ROLLBACK");
    assert_eq!(client.run("EXEC p"), "x\n4\n8\n(2 rows affected)\n");
    client.run("DROP FUNCTION dbo.x");
    assert!(other.run("EXEC p").contains("Msg 4121"));
}

#[test]
fn a_statement_reads_all_its_rows_before_functions_of_it_can_see_what_it_writes() {
    let server = Server::new();
    let mut client = client_with(&server, 50);
    client.run(
        "CREATE FUNCTION dbo.total () RETURNS int AS BEGIN RETURN (SELECT SUM(v) FROM dbo.t) END",
    );
    client.run("UPDATE t SET v = dbo.total()");
    let one = client.run("SELECT MIN(v) AS a, MAX(v) AS b FROM t");
    assert_eq!(one, "a | b\n1275 | 1275\n(1 row affected)\n");
    client.run("INSERT t SELECT id + 100, dbo.total() FROM t");
    let two = client.run("SELECT MIN(v) AS a, MAX(v) AS b FROM t WHERE id > 100");
    assert_eq!(two, "a | b\n63750 | 63750\n(1 row affected)\n");
    client.run("DELETE t WHERE dbo.total() > 63750");
    assert_eq!(
        client.run("SELECT COUNT(*) AS n FROM t"),
        "n\n0\n(1 row affected)\n"
    );
}

#[test]
fn functions_that_call_others_many_times_are_bound_with_bounded_work() {
    let server = Server::new();
    let mut client = client_with(&server, 1);
    client.run("CREATE FUNCTION dbo.f0 (@n int) RETURNS int AS BEGIN RETURN @n + 1 END");
    for level in 1..9 {
        let call = format!("dbo.f{}(@n)", level - 1);
        let calls = vec![call; 30].join(" + ");
        let text = format!(
            "CREATE FUNCTION dbo.f{level} (@n int) RETURNS int AS BEGIN RETURN {calls} END"
        );
        assert_eq!(client.run(&text), "");
    }
    client.run("SET SHOWPLAN_TEXT ON");
    let plan = client.run("SELECT dbo.f8(id), dbo.f0(id) FROM t");
    assert!(plan.contains("dbo.f8("), "{plan}");
}

#[test]
fn a_default_that_calls_a_function_is_asked_before_the_statement_writes() {
    let server = Server::new();
    let mut client = client_with(&server, 1);
    client.run("CREATE TABLE d (id int PRIMARY KEY, seen bit)");
    client.run(
        "CREATE FUNCTION dbo.has_rows () RETURNS bit AS BEGIN \
         IF EXISTS (SELECT * FROM dbo.d WHERE id > 0) RETURN 1 RETURN 0 END",
    );
    client.run("ALTER TABLE d ADD DEFAULT dbo.has_rows() FOR seen");
    client.run("INSERT d (id) SELECT value FROM GENERATE_SERIES(1, 17000)");
    let seen = "SELECT COUNT(*) AS n FROM d WHERE seen = 1";
    assert_eq!(client.scalar(seen), "0");
    client.run("UPDATE d SET seen = NULL");
    client.run("UPDATE d SET id = -id, seen = DEFAULT");
    assert_eq!(client.scalar(seen), "17000");
}

#[test]
fn a_function_is_not_dropped_while_somebody_defines_a_table_by_it() {
    let server = Server::new();
    let mut client = client_with(&server, 1);
    let mut other = server.connect();
    other.run("USE f");
    other.run("SET LOCK_TIMEOUT 0");
    let definitions = [
        "ALTER TABLE t ADD CONSTRAINT c CHECK (dbo.x(v) > 0)",
        "ALTER TABLE t ADD CONSTRAINT c DEFAULT dbo.x(1) FOR v",
        "ALTER TABLE t ADD c AS dbo.x(v)",
    ];
    for text in definitions {
        client.run("CREATE FUNCTION dbo.x (@n int) RETURNS int AS BEGIN RETURN @n END");
        client.run("BEGIN TRAN");
        assert_eq!(client.run(text), "");
        let dropped = other.run("DROP FUNCTION dbo.x");
        assert!(dropped.contains("Msg 1222"), "{text}: {dropped}");
        client.run("COMMIT");
        let dropped = other.run("DROP FUNCTION dbo.x");
        assert!(dropped.contains("Msg 3729"), "{text}: {dropped}");
        client.run("ALTER TABLE t DROP CONSTRAINT IF EXISTS c");
        client.run("ALTER TABLE t DROP COLUMN IF EXISTS c");
        assert_eq!(other.run("DROP FUNCTION dbo.x"), "");
    }
}
