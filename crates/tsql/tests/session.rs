//! Sessions end to end over the simulated disk.

mod common;

use common::{Server, errors};

#[test]
fn a_table_is_created_filled_and_read() {
    let server = Server::new();
    let mut c = server.connect();
    assert_eq!(c.run("CREATE DATABASE shop"), "");
    assert_eq!(
        c.run("USE shop"),
        "Msg 5701, Level 10, State 2, Line 1\nChanged database context to 'shop'.\n"
            .replace("State 2", "State 1")
    );
    assert_eq!(
        c.run("CREATE TABLE t (id int NOT NULL PRIMARY KEY, name nvarchar(20))"),
        ""
    );
    assert_eq!(
        c.run("INSERT INTO t VALUES (1, N'one'), (2, N'two')"),
        "(2 rows affected)\n"
    );
    assert_eq!(
        c.run("SELECT id, name FROM t ORDER BY id"),
        "id | name\n1 | one\n2 | two\n(2 rows affected)\n"
    );
    let duplicate = c.run("INSERT INTO t VALUES (1, N'again')");
    assert!(
        duplicate.starts_with(
            "Msg 2627, Level 14, State 1, Line 1\nViolation of PRIMARY KEY constraint 'PK__t__"
        ),
        "{duplicate}"
    );
    assert!(
        duplicate.contains("The statement has been terminated."),
        "{duplicate}"
    );
}

#[test]
fn committed_rows_and_definitions_survive_a_crash() {
    let server = Server::new();
    let mut c = server.connect();
    c.run("CREATE DATABASE d");
    c.run("USE d");
    c.run("CREATE SCHEMA s");
    c.run("CREATE TABLE s.t (id int IDENTITY PRIMARY KEY, v varchar(20))");
    c.run("CREATE PROC p AS SELECT COUNT(*) AS n FROM s.t");
    c.run("CREATE SEQUENCE q START WITH 1");
    c.run("INSERT s.t (v) VALUES ('a'), ('b')");
    c.run("BEGIN TRAN; INSERT s.t (v) VALUES ('lost'); CREATE TABLE lost (a int)");
    std::mem::forget(c);
    let server = server.crash();
    let mut c = server.connect_to("d");
    assert_eq!(c.run("EXEC p"), "n\n2\n(1 row affected)\n");
    assert_eq!(c.scalar("SELECT OBJECT_ID('lost')"), "NULL");
    c.run("INSERT s.t (v) VALUES ('c')");
    let id: i64 = c.scalar("SELECT MAX(id) FROM s.t").parse().unwrap();
    assert!(id > 2, "{id}");
    let log = server.instance.log.read(0).unwrap();
    assert!(log.iter().any(|l| {
        l.text
            .starts_with("Recovery completed for database d (database ID 5)")
    }));
    assert!(log.iter().any(|l| l.text == "Recovery is complete. This is an informational message only. No user action is required."));
    assert!(server.instance.log.archives().contains(&1));
}

#[test]
fn a_clean_restart_keeps_exact_counters() {
    let server = Server::new();
    let mut c = server.connect();
    c.run("CREATE DATABASE d");
    c.run("USE d");
    c.run("CREATE TABLE t (id int IDENTITY, v int); CREATE SEQUENCE q AS int START WITH 7");
    c.run("INSERT t (v) VALUES (1), (2); SELECT NEXT VALUE FOR q");
    c.session.close();
    let server = server.restart();
    let mut c = server.connect_to("d");
    c.run("INSERT t (v) VALUES (3)");
    assert_eq!(c.scalar("SELECT MAX(id) FROM t"), "3");
    assert_eq!(c.scalar("SELECT NEXT VALUE FOR q"), "8");
}

#[test]
fn readers_with_row_versions_do_not_wait_for_writers() {
    let server = Server::new();
    let mut a = server.connect();
    a.run("CREATE DATABASE d");
    let mut a = server.connect_to("d");
    let mut b = server.connect_to("d");
    a.run("CREATE TABLE t (id int PRIMARY KEY, v int); INSERT t VALUES (1, 10)");
    a.run("BEGIN TRAN; UPDATE t SET v = 11");
    assert_eq!(b.scalar("SELECT v FROM t"), "10");
    assert_eq!(
        b.scalar("SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED; SELECT v FROM t"),
        "11"
    );
    b.run("SET TRANSACTION ISOLATION LEVEL READ COMMITTED; SET LOCK_TIMEOUT 0");
    let blocked = b.run("UPDATE t SET v = 12");
    assert!(blocked.starts_with("Msg 1222, Level 16"), "{blocked}");
    a.run("COMMIT");
    assert_eq!(b.scalar("SELECT v FROM t"), "11");
}

#[test]
fn the_hint_nowait_waits_for_no_lock_of_its_table() {
    let server = Server::new();
    let mut a = server.connect();
    a.run("CREATE DATABASE d");
    let (mut a, mut b) = (server.connect_to("d"), server.connect_to("d"));
    a.run("CREATE TABLE t (id int PRIMARY KEY, v int); INSERT t VALUES (1, 10), (2, 20); CREATE TABLE o (id int); INSERT o VALUES (1)");
    a.run("BEGIN TRAN; UPDATE t SET v = 11 WHERE id = 1");
    for statement in [
        "SELECT v FROM t WITH (NOWAIT, READCOMMITTEDLOCK) WHERE id = 1",
        "SELECT v FROM t WITH (REPEATABLEREAD, NOWAIT)",
        "SELECT o.id FROM o JOIN t WITH (NOWAIT, UPDLOCK) ON t.id = o.id",
        "UPDATE t WITH (NOWAIT) SET v = 12 WHERE id = 1",
        "UPDATE t SET v = 12 FROM t WITH (NOWAIT) WHERE id = 1",
        "DELETE FROM t WITH (NOWAIT) WHERE id = 1",
        "MERGE t WITH (NOWAIT) USING o ON t.id = o.id WHEN MATCHED THEN UPDATE SET v = 12;",
    ] {
        let out = b.run(statement);
        assert!(
            out.contains("Msg 1222, Level 16, State 51"),
            "{statement}: {out}"
        );
    }
    // Row versions need no lock, and of other rows there is none.
    assert_eq!(b.scalar("SELECT v FROM t WITH (NOWAIT) WHERE id = 1"), "10");
    assert_eq!(
        b.scalar("SELECT v FROM t WITH (NOWAIT, READCOMMITTEDLOCK) WHERE id = 2"),
        "20"
    );
    // The next statement waits again as its session says.
    assert_eq!(b.scalar("SELECT @@LOCK_TIMEOUT"), "-1");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| b.run("UPDATE t SET v = v + 1 WHERE id = 1"));
        let mut c = server.connect_to("d");
        let waits = "SELECT COUNT(*) FROM sys.dm_tran_locks WHERE request_status = 'WAIT'";
        while c.scalar(waits) == "0" {
            assert!(!waiting.is_finished(), "it should wait");
            std::thread::yield_now();
        }
        a.run("COMMIT");
        assert_eq!(waiting.join().expect("no panic"), "(1 row affected)\n");
    });
    assert_eq!(a.scalar("SELECT v FROM t WHERE id = 1"), "12");
}

/// Beside a writer, who of these statements waits, and who is refused?
#[test]
fn hints_hold_wherever_the_name_of_a_table_stands() {
    let server = Server::new();
    let mut a = server.connect();
    a.run("CREATE DATABASE d");
    let (mut a, mut b) = (server.connect_to("d"), server.connect_to("d"));
    a.run(
        "CREATE TABLE t (id int PRIMARY KEY, v int); INSERT t VALUES (1, 10), (2, 20);
         CREATE TABLE p (id int PRIMARY KEY); CREATE TABLE c (id int REFERENCES p); INSERT p VALUES (1), (2)",
    );
    a.run("CREATE VIEW w AS SELECT id, v FROM t");
    a.run("CREATE VIEW ww AS SELECT id, v FROM w");
    a.run("BEGIN TRAN; UPDATE t SET v = 11 WHERE id = 1; DELETE p WHERE id = 1");
    for statement in [
        // The parent of the row is being deleted, and of the same key one is being inserted or changed.
        "INSERT c WITH (NOWAIT) VALUES (1)",
        "INSERT t WITH (NOWAIT) VALUES (1, 10)",
        "INSERT t WITH (TABLOCK, NOWAIT) VALUES (3, 30)",
        "INSERT w WITH (TABLOCKX, NOWAIT) VALUES (3, 30)",
        // Views and common table expressions pass theirs on.
        "SELECT v FROM w WITH (READCOMMITTEDLOCK, NOWAIT) WHERE id = 1",
        "SELECT v FROM ww WITH (UPDLOCK, NOWAIT) WHERE id = 1",
        "WITH x AS (SELECT id, v FROM t) SELECT v FROM x WITH (XLOCK, NOWAIT) WHERE id = 1",
        "UPDATE w WITH (NOWAIT) SET v = 12 WHERE id = 1",
        "WITH x AS (SELECT id, v FROM t) UPDATE x WITH (NOWAIT) SET v = 12 WHERE id = 1",
        // The target's hold where it stands in FROM once more.
        "UPDATE t WITH (NOWAIT) SET v = 12 FROM t WHERE id = 1",
        "UPDATE x WITH (NOWAIT) SET v = 12 FROM t AS x WHERE id = 1",
        "DELETE x WITH (TABLOCKX, NOWAIT) FROM t AS x WHERE id = 2",
    ] {
        let out = b.run(statement);
        assert!(out.contains("Msg 1222, Level 16"), "{statement}: {out}");
    }
    let by_nolock = "SELECT v FROM ww WITH (NOLOCK) WHERE id = 1";
    assert_eq!(b.scalar(by_nolock), "11");
    // What READ COMMITTED promises, in a session that asks for more.
    b.run("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE");
    let by_version = "SELECT v FROM t WITH (READCOMMITTED, NOWAIT) WHERE id = 1";
    assert_eq!(b.scalar(by_version), "10");
    b.run("SET TRANSACTION ISOLATION LEVEL READ COMMITTED");
    for (statement, error) in [
        ("INSERT t WITH (NOLOCK) VALUES (4, 40)", "Msg 1065"),
        ("INSERT t WITH (READPAST) VALUES (4, 40)", "Msg 40517"),
        ("INSERT t WITH (INDEX(0)) VALUES (4, 40)", "Msg 40517"),
        ("INSERT t WITH (KEEPIDENTITY) VALUES (4, 40)", "Msg 40517"),
        (
            "INSERT t WITH (IGNORE_TRIGGERS) VALUES (4, 40)",
            "Msg 40517",
        ),
        ("SELECT v FROM t WITH (SNAPSHOT)", "Msg 40517"),
        ("SELECT v FROM t WITH (NOEXPAND)", "Msg 8171"),
        ("SELECT v FROM w WITH (INDEX(0))", "Msg 8171"),
        ("SELECT v FROM w WITH (FORCESEEK)", "Msg 8171"),
        ("UPDATE x WITH (NOLOCK) SET v = 1 FROM t AS x", "Msg 1065"),
    ] {
        let out = b.run(statement);
        assert!(out.starts_with(error), "{statement}: {out}");
    }
    a.run("ROLLBACK");
    // A statement without the hint waits again as its session says; the table's lock is the transaction's.
    assert_eq!(b.scalar("SELECT @@LOCK_TIMEOUT"), "-1");
    b.run("BEGIN TRAN; INSERT t WITH (TABLOCKX) VALUES (3, 30)");
    let out = a.run("SELECT v FROM t WITH (READCOMMITTEDLOCK, NOWAIT) WHERE id = 1");
    assert!(out.contains("Msg 1222"), "{out}");
    b.run("COMMIT");
    assert_eq!(a.scalar("SELECT COUNT(*) FROM t"), "3");
}

#[test]
fn snapshot_writers_meet_conflicts() {
    let server = Server::new();
    let mut a = server.connect();
    a.run("CREATE DATABASE d");
    let mut a = server.connect_to("d");
    let mut b = server.connect_to("d");
    a.run("CREATE TABLE t (id int PRIMARY KEY, v int); INSERT t VALUES (1, 10)");
    b.run("SET TRANSACTION ISOLATION LEVEL SNAPSHOT; BEGIN TRAN; SELECT v FROM t");
    a.run("UPDATE t SET v = 11");
    assert_eq!(b.scalar("SELECT v FROM t"), "10");
    let conflict = b.run("UPDATE t SET v = 12");
    assert!(conflict.starts_with("Msg 3960, Level 16"), "{conflict}");
    assert_eq!(b.scalar("SELECT @@TRANCOUNT"), "0");
}

#[test]
fn definitions_wait_for_those_who_use_them() {
    let server = Server::new();
    let mut a = server.connect();
    a.run("CREATE DATABASE d");
    let mut a = server.connect_to("d");
    let mut b = server.connect_to("d");
    a.run("CREATE TABLE t (id int PRIMARY KEY)");
    a.run("BEGIN TRAN; INSERT t VALUES (1)");
    let blocked = b.run("SET LOCK_TIMEOUT 0; ALTER TABLE t ADD v int");
    assert!(blocked.starts_with("Msg 1222"), "{blocked}");
    a.run("COMMIT");
    assert_eq!(b.run("ALTER TABLE t ADD v int"), "");
    assert_eq!(
        a.run("SELECT * FROM t"),
        "id | v\n1 | NULL\n(1 row affected)\n"
    );
}

#[test]
fn logins_are_kept_and_checked() {
    let server = Server::new();
    let mut c = server.connect();
    c.run("CREATE LOGIN bob WITH PASSWORD = 'secret', CHECK_POLICY = OFF");
    let server = server.restart_keeping(c);
    let logins = &server.instance.logins;
    assert!(logins.authenticate("bob", "secret", None, 0).is_ok());
    assert!(logins.authenticate("bob", "wrong", None, 0).is_err());
    assert!(logins.authenticate("nobody", "secret", None, 0).is_err());
    assert!(logins.authenticate("sa", "", None, 0).is_err());
}

/// Batches of a script, separated by GO lines.
fn batches(script: &str) -> Vec<String> {
    let mut list = vec![String::new()];
    for line in script.lines() {
        match line.trim().eq_ignore_ascii_case("GO") {
            true => list.push(String::new()),
            false => {
                if let Some(batch) = list.last_mut() {
                    batch.push_str(line);
                    batch.push('\n');
                }
            }
        }
    }
    list.retain(|b| !b.trim().is_empty());
    list
}

#[test]
fn the_sample_schema_is_created_whole() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../lab/data/adventureworks/create.sql");
    let script = std::fs::read_to_string(path).expect("read create.sql");
    let server = Server::new();
    let mut c = server.connect();
    c.run("CREATE DATABASE AdventureWorks2019");
    c.run("USE AdventureWorks2019");
    let mut failures = Vec::new();
    for batch in batches(&script) {
        let out = c.run(&batch);
        let failed = out
            .lines()
            .any(|l| l.starts_with("Msg ") && !l.contains("Level 10") && !l.contains("Level 0,"));
        if failed {
            failures.push(format!(
                "{}\n  -> {out}",
                batch.lines().take(3).collect::<Vec<_>>().join("\n")
            ));
        }
    }
    assert!(
        failures.is_empty(),
        "{} failures\n{}",
        failures.len(),
        failures.join("\n")
    );
    let tables: i64 = c.scalar("SELECT COUNT(*) FROM sys.tables").parse().unwrap();
    assert_eq!(tables, 60);
}

#[test]
fn a_full_disk_or_file_is_told_and_loses_nothing() {
    let server = Server::new();
    let mut c = server.connect();
    c.run("CREATE DATABASE d ON (NAME = d, FILENAME = 'd.mdf', SIZE = 2MB, MAXSIZE = 4MB)");
    let mut c = server.connect_to("d");
    c.run("CREATE TABLE t (id int IDENTITY PRIMARY KEY, v varchar(4000))");
    assert_eq!(c.run("INSERT t (v) VALUES ('kept')"), "(1 row affected)\n");
    server.disk.set_faults(daruma_sim::Faults {
        capacity_bytes: Some(1),
        ..daruma_sim::Faults::default()
    });
    let out = c.run("CREATE DATABASE e");
    assert!(out.starts_with("Msg 5123, Level 16"), "{out}");
    assert!(out.contains("Msg 1802"), "{out}");
    server.disk.set_faults(daruma_sim::Faults::default());
    assert_eq!(c.scalar("SELECT DB_ID('e')"), "NULL");
    let mut last = String::new();
    for _ in 0..200 {
        last = c.run("INSERT t (v) SELECT TOP 200 REPLICATE('x', 4000) FROM sys.all_columns");
        if last.contains("Msg") {
            break;
        }
    }
    assert!(last.starts_with("Msg 1105, Level 17"), "{last}");
    assert_eq!(c.scalar("SELECT COUNT(*) FROM t WHERE v = 'kept'"), "1");
    c.run("DELETE t WHERE v <> 'kept'");
    assert_eq!(c.scalar("SELECT COUNT(*) FROM t"), "1");
}

#[test]
fn messages_of_users_survive_a_crash() {
    let server = Server::new();
    let mut c = server.connect();
    c.run("CREATE DATABASE d");
    c.run("USE d");
    c.run("EXEC sp_addmessage 60000, 16, N'Kept %d'");
    c.run("EXEC sp_addmessage 60001, 16, N'Dropped'");
    c.run("EXEC sp_addmessage 60000, 16, N'%1! bleibt', @lang = 'German'");
    c.run("EXEC sp_dropmessage 60001");
    c.run("BEGIN TRAN; EXEC sp_addmessage 60002, 16, N'Lost'");
    std::mem::forget(c);
    let server = server.crash();
    let mut c = server.connect();
    let count = "SELECT COUNT(*) FROM sys.messages WHERE message_id > 50000";
    assert_eq!(c.scalar(count), "2");
    assert_eq!(c.scalar("SELECT FORMATMESSAGE(60000, 7)"), "Kept 7");
    c.run("SET LANGUAGE German");
    assert_eq!(c.scalar("SELECT FORMATMESSAGE(60000, 7)"), "7 bleibt");
}

#[test]
fn a_row_that_another_session_changed_is_not_changed_through_a_cursor() {
    let server = Server::with_setup(&[
        "CREATE DATABASE d",
        "CREATE TABLE d.dbo.t (id int PRIMARY KEY, a int); INSERT d.dbo.t VALUES (1, 10), (2, 20), (3, 30)",
    ]);
    let (mut own, mut other) = (server.connect_to("d"), server.connect_to("d"));
    own.done("DECLARE c CURSOR FOR SELECT id, a FROM t ORDER BY id; OPEN c; FETCH c");
    other.done("UPDATE t SET a = 11 WHERE id = 1; DELETE t WHERE id = 2");
    let refused = own.run("UPDATE t SET a = 0 WHERE CURRENT OF c");
    assert!(refused.contains("Msg 16947"), "{refused}");
    // The next row is gone; the one after it is as the other session leaves it.
    other.done("UPDATE t SET a = 31 WHERE id = 3");
    let fetched = own.done("FETCH c");
    assert!(fetched.contains("3 | 31"), "{fetched}");
    own.done("UPDATE t SET a += 1 WHERE CURRENT OF c");
    let rows = own.scalar("SELECT STRING_AGG(CONCAT(id, '=', a), ' ') FROM t");
    assert_eq!(rows, "1=11 3=32");
    // A row that SCROLL_LOCKS has locked cannot be changed by others before the transaction ends.
    own.done("DEALLOCATE c; DECLARE c CURSOR SCROLL_LOCKS FOR SELECT id FROM t ORDER BY id; OPEN c; BEGIN TRANSACTION; FETCH c");
    let waits = other.run("SET LOCK_TIMEOUT 0; UPDATE t SET a = 0 WHERE id = 1");
    assert!(waits.contains("Msg 1222"), "{waits}");
    own.done("UPDATE t SET a = 12 WHERE CURRENT OF c; COMMIT");
    other.done("UPDATE t SET a = 13 WHERE id = 1");
}

#[test]
fn a_cursor_sees_that_another_session_changed_its_table() {
    let server = Server::with_setup(&[
        "CREATE DATABASE d",
        "CREATE TABLE d.dbo.t (id int PRIMARY KEY, a int); INSERT d.dbo.t VALUES (1, 10), (2, 20), (3, 30)",
    ]);
    let (mut own, mut other) = (server.connect_to("d"), server.connect_to("d"));
    own.done("DECLARE c CURSOR KEYSET FOR SELECT id, a FROM t ORDER BY id; OPEN c; FETCH c");
    other.done("BEGIN TRANSACTION; ALTER TABLE t ADD b int");
    let waits = own.run("SET LOCK_TIMEOUT 0; FETCH c");
    assert_eq!(errors(&waits), [1222], "{waits}");
    other.done("ROLLBACK");
    // The row that could not be read is still the next one.
    assert_eq!(own.run("FETCH c"), "id | a\n2 | 20\n(1 row affected)\n");
    other.done("TRUNCATE TABLE t; INSERT t VALUES (3, 33)");
    assert_eq!(own.run("FETCH c"), "id | a\n3 | 33\n(1 row affected)\n");
    own.done("CLOSE c; OPEN c");
    other
        .done("DROP TABLE t; CREATE TABLE t (id int PRIMARY KEY, a int); INSERT t VALUES (3, 333)");
    let refused = own.run("FETCH c");
    assert_eq!(errors(&refused), [16943], "{refused}");
    own.done("CLOSE c; OPEN c");
    assert_eq!(own.run("FETCH c"), "id | a\n3 | 333\n(1 row affected)\n");
}

/// Global-only flags too: only -1 and `-T` count for the server.
#[test]
fn a_trace_flag_without_minus_one_is_the_sessions_own() {
    let server = Server::new();
    let (mut c, mut other) = (server.connect(), server.connect());
    let status = "DBCC TRACESTATUS (9592) WITH NO_INFOMSGS";
    let shown = |line: &str| {
        format!("TraceFlag | Status | Global | Session\n9592 | {line}\n(1 row affected)\n")
    };
    c.run("DBCC TRACEON (9592)");
    assert_eq!(c.run(status), shown("1 | 0 | 1"));
    assert_eq!(other.run(status), shown("0 | 0 | 0"));
    assert!(server.instance.trace_flags.lock().is_empty());
    c.session.reset(false, &mut c.sink).unwrap();
    c.sink.take();
    assert_eq!(c.run(status), shown("0 | 0 | 0"));
    c.run("DBCC TRACEON (9592, -1)");
    assert_eq!(other.run(status), shown("1 | 1 | 0"));
    other.run("DBCC TRACEOFF (9592)");
    assert_eq!(other.run(status), shown("1 | 1 | 0"));
    assert_eq!(*server.instance.trace_flags.lock(), [9592]);
}

/// Drivers of ODBC's kind turn the option off when they connect, so that the database's counts for the others.
#[test]
fn the_database_says_whether_cursors_close_where_the_session_does_not() {
    let server = Server::with_setup(&["CREATE DATABASE d"]);
    let mut odbc = server.connect_to("d");
    odbc.run("ALTER DATABASE d SET CURSOR_CLOSE_ON_COMMIT ON");
    let info = daruma_tsql::instance::LoginInfo {
        login: "sa".to_string(),
        database: "d".to_string(),
        ..Default::default()
    };
    let mut plain = server.connect_with(info);
    let work =
        "DECLARE c CURSOR GLOBAL FOR SELECT 1; BEGIN TRAN; OPEN c; COMMIT; FETCH NEXT FROM c";
    assert!(errors(&odbc.run(work)).is_empty());
    assert_eq!(errors(&plain.run(work)), [16917]);
    let kept = plain.run("SET CURSOR_CLOSE_ON_COMMIT OFF; BEGIN TRAN; OPEN c; COMMIT; CLOSE c");
    assert_eq!(kept, "");
}
