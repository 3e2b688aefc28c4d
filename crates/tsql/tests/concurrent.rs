//! Several sessions at once: sums hold, deadlocks have one victim, definitions and rows change side by side.

mod common;

use common::{Client, Server};
use std::thread;
use std::time::{Duration, Instant};

/// Far longer than anything takes here: only what never comes is not there by then.
const LONG: Duration = Duration::from_secs(300);

fn setup(server: &Server, script: &str) {
    let mut c = server.connect();
    c.run("CREATE DATABASE d");
    let mut c = server.connect_to("d");
    let out = c.run(script);
    assert!(!out.contains("Msg"), "{out}");
}

#[test]
fn transfers_keep_the_total() {
    let server = Server::new();
    setup(
        &server,
        "CREATE TABLE account (id int PRIMARY KEY, balance int NOT NULL);
         INSERT account VALUES (1, 100), (2, 100), (3, 100), (4, 100)",
    );
    let worker = |seed: u32, client: &mut Client| {
        let mut x = seed;
        for _ in 0..60 {
            x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let (from, to) = (1 + (x >> 8) % 4, 1 + (x >> 16) % 4);
            let out = client.run(&format!(
                "BEGIN TRY
                     BEGIN TRAN
                     UPDATE account SET balance = balance - 1 WHERE id = {from}
                     UPDATE account SET balance = balance + 1 WHERE id = {to}
                     COMMIT
                 END TRY
                 BEGIN CATCH
                     IF @@TRANCOUNT > 0 ROLLBACK
                     IF ERROR_NUMBER() <> 1205 THROW
                 END CATCH"
            ));
            assert!(!out.contains("Msg"), "{out}");
        }
    };
    thread::scope(|scope| {
        for seed in 1..=4 {
            let mut client = server.connect_to("d");
            scope.spawn(move || worker(seed, &mut client));
        }
        let mut reader = server.connect_to("d");
        for _ in 0..20 {
            assert_eq!(reader.scalar("SELECT SUM(balance) FROM account"), "400");
        }
    });
    let mut c = server.connect_to("d");
    assert_eq!(c.scalar("SELECT SUM(balance) FROM account"), "400");
}

/// Whether a row is there is decided anew when somebody else changed it meanwhile, and HOLDLOCK keeps others from its key.
#[test]
fn merges_of_the_same_rows_lose_nothing() {
    let server = Server::new();
    setup(
        &server,
        "CREATE TABLE counter (k int PRIMARY KEY, n int NOT NULL)",
    );
    let worker = |seed: u32, client: &mut Client| {
        let mut x = seed;
        for _ in 0..40 {
            x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let (k, l) = ((x >> 8) % 8, 8 + (x >> 16) % 8);
            loop {
                let out = client.run(&format!(
                    "MERGE counter WITH (HOLDLOCK) AS t USING (VALUES ({k}, 1), ({l}, 1)) AS s (k, n) ON t.k = s.k
                     WHEN MATCHED THEN UPDATE SET n = t.n + s.n
                     WHEN NOT MATCHED THEN INSERT (k, n) VALUES (s.k, s.n);"
                ));
                if !out.contains("Msg 1205") {
                    assert!(!out.contains("Msg"), "{out}");
                    break;
                }
            }
        }
    };
    thread::scope(|scope| {
        for seed in 1..=4 {
            let mut client = server.connect_to("d");
            scope.spawn(move || worker(seed, &mut client));
        }
    });
    let mut c = server.connect_to("d");
    assert_eq!(c.scalar("SELECT SUM(n) FROM counter"), "320");
}

/// The simulated clock moves as fast as the waiting session looks at it, so the wait is long and made again until it is seen.
#[test]
fn a_session_in_waitfor_shows_it() {
    let server = Server::new();
    let mut c = server.connect();
    let shown = "SELECT COUNT(*) FROM sys.dm_exec_requests
                 WHERE command = 'WAITFOR' AND wait_type = 'WAITFOR' AND status = 'suspended'";
    let seen = (0..100).any(|_| {
        let mut waiting = server.connect();
        thread::scope(|scope| {
            let wait = scope.spawn(move || waiting.run("WAITFOR DELAY '23:59:59'"));
            let mut seen = false;
            while !wait.is_finished() {
                seen |= c.scalar(shown) == "1";
            }
            seen
        })
    });
    assert!(seen);
    assert_eq!(c.scalar(shown), "0");
}

/// A session that waits for a lock within a statement that changes rows says which statement it is.
#[test]
fn a_blocked_change_shows_its_command() {
    let server = Server::new();
    setup(&server, "CREATE TABLE t (id int PRIMARY KEY, v int)");
    let mut holder = server.connect_to("d");
    holder.run("INSERT t VALUES (1, 1)");
    for statement in ["UPDATE t SET v = 3", "INSERT t VALUES (2, 4)", "DELETE t"] {
        holder.run("BEGIN TRAN; UPDATE t SET v = 2; DELETE t WHERE id = 2; INSERT t VALUES (2, 2)");
        let command = statement.split(' ').next().expect("a word");
        let mut blocked = server.connect_to("d");
        let mut watcher = server.connect_to("d");
        let spid = blocked.session.spid();
        let of_blocked = format!("WHERE session_id = {spid}");
        thread::scope(|scope| {
            let change = scope.spawn(move || blocked.run(statement));
            let waits = format!(
                "SELECT COUNT(*) FROM sys.dm_exec_requests {of_blocked} AND wait_type LIKE 'LCK%'"
            );
            while watcher.scalar(&waits) != "1" {
                assert!(!change.is_finished(), "{statement} did not wait");
            }
            let shown = format!("SELECT command FROM sys.dm_exec_requests {of_blocked}");
            assert_eq!(watcher.scalar(&shown), command);
            // The old view says what for and how long as well. Each look moves the simulated clock on by a bit.
            let old = format!(
                "SELECT COUNT(*) FROM sys.sysprocesses WHERE spid = {spid} AND lastwaittype LIKE 'LCK%' AND waittime > 0"
            );
            let seen = (0..10_000).any(|_| watcher.scalar(&old) == "1");
            assert!(seen, "{statement}");
            holder.run("ROLLBACK");
            let out = change.join().expect("no panic");
            assert!(out.contains("affected"), "{out}");
        });
    }
}

#[test]
fn identity_values_are_unique() {
    let server = Server::new();
    setup(
        &server,
        "CREATE TABLE t (id int IDENTITY PRIMARY KEY, who int)",
    );
    thread::scope(|scope| {
        for who in 0..4 {
            let mut client = server.connect_to("d");
            scope.spawn(move || {
                for _ in 0..50 {
                    let out = client.run(&format!("INSERT t (who) VALUES ({who})"));
                    assert_eq!(out, "(1 row affected)\n");
                }
            });
        }
    });
    let mut c = server.connect_to("d");
    assert_eq!(
        c.run("SELECT COUNT(*) AS n, COUNT(DISTINCT id) AS d FROM t"),
        "n | d\n200 | 200\n(1 row affected)\n"
    );
}

#[test]
fn a_deadlock_has_one_victim() {
    let server = Server::new();
    setup(
        &server,
        "CREATE TABLE a (x int); CREATE TABLE b (x int); INSERT a VALUES (1); INSERT b VALUES (1)",
    );
    let mut one = server.connect_to("d");
    let mut two = server.connect_to("d");
    one.run("BEGIN TRAN; UPDATE a SET x = 2");
    two.run("SET DEADLOCK_PRIORITY LOW; BEGIN TRAN; UPDATE b SET x = 2");
    thread::scope(|scope| {
        let waiting = scope.spawn(move || {
            let out = one.run("UPDATE b SET x = 3");
            let end = one.run("COMMIT");
            (out, end)
        });
        let victim = two.run("UPDATE a SET x = 3");
        assert!(
            victim.starts_with("Msg 1205, Level 13, State 51"),
            "{victim}"
        );
        assert!(
            victim.contains("was deadlocked on lock resources with another process"),
            "{victim}"
        );
        assert_eq!(two.scalar("SELECT @@TRANCOUNT"), "0");
        let (out, end) = waiting.join().expect("thread");
        assert_eq!((out.as_str(), end.as_str()), ("(1 row affected)\n", ""));
    });
}

#[test]
fn definitions_change_under_running_statements() {
    let server = Server::new();
    setup(
        &server,
        "CREATE TABLE t (id int IDENTITY PRIMARY KEY, v int)",
    );
    thread::scope(|scope| {
        for _ in 0..2 {
            let mut client = server.connect_to("d");
            scope.spawn(move || {
                for _ in 0..40 {
                    let out = client.run("INSERT t (v) VALUES (1)");
                    assert_eq!(out, "(1 row affected)\n");
                    let out = client.run("SELECT COUNT(v) AS n FROM t");
                    assert!(out.starts_with("n\n"), "{out}");
                }
            });
        }
        let mut changer = server.connect_to("d");
        scope.spawn(move || {
            for n in 0..8 {
                assert_eq!(changer.run(&format!("ALTER TABLE t ADD c{n} int NULL")), "");
                assert_eq!(changer.run(&format!("CREATE INDEX ix{n} ON t (v)")), "");
            }
            assert_eq!(changer.run("DROP INDEX ix0 ON t"), "");
        });
    });
    let mut c = server.connect_to("d");
    assert_eq!(c.scalar("SELECT COUNT(*) FROM t WHERE v = 1"), "80");
    assert_eq!(
        c.scalar("SELECT COUNT(*) FROM sys.columns WHERE object_id = OBJECT_ID('t')"),
        "10"
    );
}

const TABLE: &str = "CREATE TABLE t (id int NOT NULL CONSTRAINT pk_t PRIMARY KEY, v int, w varchar(10), p AS (v * 2) PERSISTED);
    CREATE INDEX ix ON t (v);
    CREATE TABLE o (i int);
    INSERT t (id, v, w) VALUES (1, 10, 'a'), (2, 20, 'b'), (3, 30, 'c')";

/// A database with snapshots, and accelerated recovery or not.
fn with_snapshots(accelerated: bool) -> Server {
    let server = Server::new();
    let mut c = server.connect();
    c.run("CREATE DATABASE d");
    c.run("ALTER DATABASE d SET ALLOW_SNAPSHOT_ISOLATION ON");
    if accelerated {
        c.run("ALTER DATABASE d SET ACCELERATED_DATABASE_RECOVERY = ON");
    }
    let out = server.connect_to("d").run(TABLE);
    assert!(!out.contains("Msg"), "{out}");
    server
}

fn in_snapshot(server: &Server) -> Client {
    let mut client = server.connect_to("d");
    client.run("SET TRANSACTION ISOLATION LEVEL SNAPSHOT; BEGIN TRAN; SELECT * FROM o");
    client
}

fn is_3961(out: &str) -> bool {
    out.lines().any(|l| l.starts_with("Msg 3961, Level 16"))
}

/// Nothing that an old snapshot reads is of a tree made later: right rows, or error 3961.
#[test]
fn a_snapshot_older_than_a_rebuilt_table_never_finds_it_empty() {
    const REMADE: &[&str] = &[
        "ALTER INDEX ALL ON t REBUILD",
        "ALTER INDEX pk_t ON t REBUILD",
        "ALTER TABLE t REBUILD",
        "ALTER TABLE t ALTER COLUMN w nvarchar(20)",
        "ALTER TABLE t DROP CONSTRAINT pk_t",
        "TRUNCATE TABLE t",
        "DROP TABLE t; CREATE TABLE t (id int PRIMARY KEY, v int, w varchar(10))",
        "BEGIN TRAN; TRUNCATE TABLE t; INSERT t (id, v, w) VALUES (1, 10, 'a'); COMMIT",
    ];
    const STILL_READ: &[&str] = &[
        "ALTER TABLE t ADD c int NOT NULL DEFAULT 7",
        "ALTER TABLE t ADD CHECK (v > 0)",
        "ALTER INDEX ix ON t REORGANIZE",
        "BEGIN TRAN; ALTER INDEX ALL ON t REBUILD; ROLLBACK",
        "BEGIN TRAN; TRUNCATE TABLE t; ROLLBACK",
        "BEGIN TRAN; SAVE TRAN s; ALTER TABLE t REBUILD; ROLLBACK TRAN s; COMMIT",
        "CREATE TABLE other (i int PRIMARY KEY); INSERT other VALUES (1)",
        "SELECT v INTO #x FROM t; CREATE INDEX i ON #x (v)",
    ];
    let sum = "SELECT SUM(v) AS s, COUNT(*) AS n FROM t WITH (INDEX (1))";
    for accelerated in [false, true] {
        for ddl in STILL_READ {
            let server = with_snapshots(accelerated);
            let mut old = in_snapshot(&server);
            let out = server.connect_to("d").run(ddl);
            assert!(!out.contains("Msg"), "{ddl}: {out}");
            let out = old.run(sum);
            assert!(out.contains("60 | 3"), "{ddl}: {out}");
            assert!(!old.run("UPDATE t SET v = v + 1; COMMIT").contains("Msg"));
        }
        for ddl in REMADE {
            for statement in [
                "SELECT SUM(v), COUNT(*) FROM t",
                "SELECT v FROM t WHERE id = 2",
                "UPDATE t SET v = 0",
                "DELETE t WHERE id = 1",
                "MERGE t USING (VALUES (1, 9)) AS s (id, v) ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v;",
                "INSERT o SELECT v FROM t",
                "DECLARE c CURSOR LOCAL FOR SELECT v FROM t; OPEN c",
            ] {
                let server = with_snapshots(accelerated);
                let mut old = in_snapshot(&server);
                let out = server.connect_to("d").run(ddl);
                assert!(!out.contains("Msg"), "{ddl}: {out}");
                let out = old.run(statement);
                assert!(is_3961(&out), "{ddl}; {statement}: {out}");
                assert_eq!(old.scalar("SELECT @@TRANCOUNT"), "0", "{ddl}; {statement}");
                // A snapshot of its own is as new as the table.
                let out = old.run(statement);
                assert!(!out.contains("Msg"), "{ddl}; {statement}: {out}");
            }
        }
    }
}

#[test]
fn a_snapshot_does_not_read_an_index_younger_than_itself() {
    const MADE: &[&str] = &[
        "CREATE INDEX young ON t (w)",
        "DROP INDEX ix ON t; CREATE INDEX young ON t (w)",
        "CREATE INDEX young ON t (w) WHERE w IS NOT NULL",
        "CREATE INDEX young ON t (v); ALTER INDEX young ON t REBUILD; DROP INDEX young ON t; CREATE INDEX young ON t (w)",
    ];
    for accelerated in [false, true] {
        for ddl in MADE {
            let server = with_snapshots(accelerated);
            let mut old = in_snapshot(&server);
            let out = server.connect_to("d").run(ddl);
            assert!(!out.contains("Msg"), "{ddl}: {out}");
            let out = old.run("SELECT SUM(v) AS s, COUNT(*) AS n FROM t WITH (INDEX (1))");
            assert!(out.contains("60 | 3"), "{ddl}: {out}");
            let seen = "SELECT COUNT(*) FROM t WITH (INDEX (young)) WHERE w = 'b'";
            let out = old.run(&format!("BEGIN TRY {seen} END TRY BEGIN CATCH SELECT XACT_STATE() AS x, ERROR_NUMBER() AS n END CATCH"));
            assert!(out.contains("-1 | 3961"), "{ddl}: {out}");
            old.run("ROLLBACK");
            assert_eq!(old.scalar(seen), "1", "{ddl}");
        }
    }
}

/// Rows that were found and then changed by somebody else are replaced by the next ones, also where the rows are more than memory
/// holds and are written in parts.
#[test]
fn a_large_delete_top_takes_as_many_rows_as_it_was_told() {
    let server = Server::new();
    setup(
        &server,
        "CREATE TABLE q (id int PRIMARY KEY, status int NOT NULL, w char(1000) NOT NULL); \
         INSERT q SELECT TOP (24000) ROW_NUMBER() OVER (ORDER BY (SELECT 1)), 0, 'w' FROM sys.all_columns a CROSS JOIN sys.all_columns b",
    );
    let mut other = server.connect_to("d");
    other.run("BEGIN TRAN; SELECT id FROM q WITH (REPEATABLEREAD) WHERE id = 1");
    thread::scope(|scope| {
        let taker = scope.spawn(|| {
            let mut c = server.connect_to("d");
            c.run("DELETE TOP (20000) FROM q WHERE status = 0")
        });
        until_waiting(&server, 1);
        assert_eq!(
            other.run("UPDATE q SET status = 1 WHERE id = 19000"),
            "(1 row affected)\n"
        );
        other.run("COMMIT");
        assert_eq!(taker.join().expect("no panic"), "(20000 rows affected)\n");
    });
    assert_eq!(other.scalar("SELECT COUNT(*) FROM q"), "4000");
    assert_eq!(other.scalar("SELECT COUNT(*) FROM q WHERE status = 1"), "1");
}

/// A statement under READ COMMITTED that waits for a definition sees what it finds then, and so does a first statement of a
/// SNAPSHOT transaction; a snapshot of another database is older than nothing here.
#[test]
fn a_statement_that_waited_for_a_definition_sees_the_new_rows() {
    for level in ["READ COMMITTED", "SNAPSHOT", "SERIALIZABLE"] {
        let server = with_snapshots(false);
        let mut ddl = server.connect_to("d");
        ddl.run("BEGIN TRAN; ALTER INDEX ALL ON t REBUILD");
        let mut reader = server.connect_to("d");
        reader.run(&format!("SET TRANSACTION ISOLATION LEVEL {level}"));
        let out = thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                reader.run("BEGIN TRAN; SELECT COUNT(*) AS n FROM o CROSS JOIN t AS x RIGHT JOIN t AS y ON 1 = 1; UPDATE t SET v = v + 1; COMMIT; SELECT SUM(v) AS s FROM t")
            });
            until_waiting(&server, 1);
            ddl.run("COMMIT");
            waiting.join().expect("reader")
        });
        assert!(!out.contains("Msg") && out.contains("63"), "{level}: {out}");
    }
}

#[test]
fn tables_do_not_change_inside_a_snapshot_transaction() {
    let server = with_snapshots(false);
    for ddl in [
        "ALTER TABLE t ADD c int",
        "CREATE INDEX i ON t (w)",
        "ALTER INDEX ix ON t REBUILD",
        "DROP INDEX ix ON t",
    ] {
        let mut old = in_snapshot(&server);
        let out = old.run(ddl);
        assert!(out.starts_with("Msg 3964, Level 16"), "{ddl}: {out}");
        assert_eq!(old.scalar("SELECT @@TRANCOUNT"), "0", "{ddl}");
    }
    let mut old = in_snapshot(&server);
    let out = old.run("CREATE TABLE own (i int PRIMARY KEY); INSERT own VALUES (1), (2); SELECT COUNT(*) AS n FROM own; TRUNCATE TABLE own; SELECT COUNT(*) AS n FROM own; COMMIT");
    assert!(!out.contains("Msg"), "{out}");
    // A statement alone is its own transaction.
    let out = old.run("CREATE INDEX i ON t (w); ALTER TABLE t ADD c int NOT NULL DEFAULT 3; SELECT SUM(c) AS s FROM t");
    assert!(out.contains('9') && !out.contains("Msg"), "{out}");
}

/// Returns when so many sessions wait for a lock.
fn until_waiting(server: &Server, sessions: usize) {
    let until = Instant::now() + LONG;
    loop {
        let locks = server.instance.engine().locks();
        if locks.iter().filter(|l| !l.granted).count() >= sessions {
            return;
        }
        assert!(Instant::now() < until, "nobody waits: {locks:#?}");
        thread::yield_now();
    }
}

/// What an UPDATE moved out of a row that it could not write then is nobody's: it goes.
#[test]
fn large_values_of_rows_that_were_waited_for_leave_no_pages_behind() {
    const CASES: &[(&str, &str, &str)] = &[
        (
            "READ COMMITTED",
            "UPDATE l SET v = 2 WHERE id = 1",
            "COMMIT",
        ),
        (
            "READ COMMITTED",
            "UPDATE l SET d = REPLICATE(CAST('c' AS varchar(max)), 40000) WHERE id = 1",
            "COMMIT",
        ),
        (
            "READ COMMITTED",
            "UPDATE l SET v = 2 WHERE id = 1",
            "ROLLBACK",
        ),
        ("READ COMMITTED", "DELETE l WHERE id = 1", "COMMIT"),
        ("SNAPSHOT", "UPDATE l SET v = 2 WHERE id = 1", "COMMIT"),
        ("SNAPSHOT", "UPDATE l SET v = 2 WHERE id = 1", "ROLLBACK"),
        ("SERIALIZABLE", "UPDATE l SET v = 2 WHERE id = 1", "COMMIT"),
    ];
    const WRITES: &[&str] = &[
        "UPDATE l SET d = REPLICATE(CAST('b' AS varchar(max)), 50000) WHERE id = 1",
        "UPDATE l SET d = REPLICATE(CAST('b' AS varchar(max)), 50000) WHERE v = 1",
        "UPDATE l SET d = REPLICATE(CAST('b' AS varchar(max)), 50000)",
        "UPDATE l SET l.d = REPLICATE(CAST('b' AS varchar(max)), 50000) FROM l JOIN o ON o.i = l.v",
        "MERGE l USING o ON o.i = l.v WHEN MATCHED THEN UPDATE SET d = REPLICATE(CAST('b' AS varchar(max)), 50000);",
        "INSERT l VALUES (1, REPLICATE(CAST('b' AS varchar(max)), 50000), 1)",
    ];
    for options in [
        "ACCELERATED_DATABASE_RECOVERY = OFF",
        "ACCELERATED_DATABASE_RECOVERY = ON",
        "OPTIMIZED_LOCKING = ON",
    ] {
        let server = with_snapshots(options.starts_with("OPT"));
        let mut c = server.connect_to("d");
        c.run(&format!("ALTER DATABASE d SET {options}"));
        c.run("CREATE TABLE l (id int PRIMARY KEY, d varchar(max), v int); INSERT o VALUES (1)");
        for (level, first, end) in CASES {
            for write in WRITES {
                let case = format!("{options}, {level}: {first}, {end}; {write}");
                c.run(
                    "DELETE l; INSERT l VALUES (1, REPLICATE(CAST('z' AS varchar(max)), 50000), 1)",
                );
                let mut one = server.connect_to("d");
                one.run(&format!("BEGIN TRAN; {first}"));
                let mut two = server.connect_to("d");
                two.run(&format!("SET TRANSACTION ISOLATION LEVEL {level}"));
                let (short, start) = (two.run("SET LOCK_TIMEOUT 0"), two.run(write));
                assert!(
                    short.is_empty() && start.contains("Msg 1222"),
                    "{case}: {start}"
                );
                two.run("SET LOCK_TIMEOUT -1");
                let out = thread::scope(|scope| {
                    let waiting = scope.spawn(|| two.run(write));
                    until_waiting(&server, 1);
                    one.run(end);
                    waiting.join().expect("second session")
                });
                let known = ["Msg 3960", "Msg 2627"].iter().any(|m| out.contains(m));
                assert!(known || !out.contains("Msg"), "{case}: {out}");
            }
            let found = c.run("DBCC CHECKDB WITH NO_INFOMSGS");
            assert_eq!(found, "", "{options}, {level}: {first}, {end}");
        }
    }
}

/// Writers of one row have it in the order in which they came, also before the one that wrote it last and comes again.
#[test]
fn writers_of_one_row_are_served_in_the_order_of_arrival() {
    const WAITERS: usize = 6;
    let server = Server::new();
    setup(
        &server,
        "CREATE TABLE q (id int PRIMARY KEY, v int); INSERT q VALUES (1, 0), (2, 0);
         CREATE TABLE served (at int IDENTITY PRIMARY KEY, who int)",
    );
    let mut holder = server.connect_to("d");
    holder.run("BEGIN TRAN; UPDATE q SET v = v + 1");
    thread::scope(|scope| {
        for who in 1..=WAITERS {
            let mut client = server.connect_to("d");
            scope.spawn(move || {
                // Of every second, the row is found by a scan.
                let filter = if who % 2 == 0 { "v >= 0" } else { "id = 1" };
                client.run(&format!(
                    "BEGIN TRAN; UPDATE q SET v = v + 1 WHERE {filter}; INSERT served VALUES ({who}); COMMIT"
                ))
            });
            until_waiting(&server, who);
        }
        let out = holder.run(
            "COMMIT; BEGIN TRAN; UPDATE q SET v = v + 1 WHERE id = 1; INSERT served VALUES (0); COMMIT",
        );
        assert!(!out.contains("Msg"), "{out}");
    });
    let mut c = server.connect_to("d");
    let order = c.run("SELECT STRING_AGG(CAST(who AS varchar(9)), ',') WITHIN GROUP (ORDER BY at) AS o FROM served");
    assert!(order.contains("1,2,3,4,5,6,0"), "{order}");
    assert_eq!(
        c.scalar("SELECT v FROM q WHERE id = 1"),
        (WAITERS + 2).to_string()
    );
}

/// Updates of all rows of a table, by many sessions at once: each waits its turn at the first row.
#[test]
fn full_table_updates_meet_no_deadlock() {
    let server = Server::new();
    setup(
        &server,
        "CREATE TABLE big (id int PRIMARY KEY, v int, w int);
         CREATE INDEX by_w ON big (w);
         INSERT big SELECT value, 0, value FROM GENERATE_SERIES(1, 2000)",
    );
    thread::scope(|scope| {
        for _ in 0..6 {
            let mut client = server.connect_to("d");
            scope.spawn(move || {
                for _ in 0..5 {
                    let out =
                        client.run("UPDATE big SET v = v + 1; UPDATE big SET v = v - 1, w = w + 1");
                    assert!(!out.contains("Msg"), "{out}");
                }
            });
        }
    });
    let mut c = server.connect_to("d");
    let out = c.run("SELECT SUM(v) AS v, MIN(w - id) AS low, MAX(w - id) AS high FROM big");
    assert!(out.contains("0 | 30 | 30"), "{out}");
}

/// A long value lies on pages of its own, which are looked for after its row was read. Without a snapshot nothing but the
/// statement itself kept them from being freed, and used for another value.
#[test]
fn long_values_that_are_replaced_while_they_are_read_are_whole() {
    const ROWS: usize = 40;
    let server = Server::new();
    setup(
        &server,
        "CREATE TABLE long (id int PRIMARY KEY, v varchar(max) NOT NULL);
         CREATE TABLE other (id int PRIMARY KEY, v varchar(max) NOT NULL)",
    );
    let value = |c: char, id: usize| {
        format!(
            "REPLICATE(CONVERT(varchar(max), '{c}'), {})",
            9_000 + 100 * id
        )
    };
    let mut c = server.connect_to("d");
    for id in 0..ROWS {
        c.done(&format!("INSERT long VALUES ({id}, {})", value('a', id)));
        c.done(&format!("INSERT other VALUES ({id}, {})", value('b', id)));
    }
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let over = std::sync::atomic::Ordering::Relaxed;
    thread::scope(|scope| {
        for (table, c) in [("long", 'a'), ("long", 'a'), ("other", 'b')] {
            let (is_over, mut client) = (&is_over, server.connect_to("d"));
            scope.spawn(move || {
                for n in (0..).take_while(|_| !is_over.load(over)) {
                    let id = n * 7 % ROWS;
                    let v = value(c, id);
                    client.done(&format!("UPDATE {table} SET v = {v} WHERE id = {id}"));
                }
            });
        }
        let open = server.instance.databases();
        let open = open.iter().find(|d| d.name() == "d").expect("is there");
        let storage = open.open().expect("is open").storage;
        let is_over = &is_over;
        scope.spawn(move || {
            while !is_over.load(over) {
                storage.background_step().expect("no faults");
            }
        });
        let mut reader = server.connect_to("d");
        let mut seen = Vec::new();
        for round in 0..60 {
            let hint = ["READCOMMITTEDLOCK", "NOLOCK"][round % 2];
            let wrong = "v <> REPLICATE(CONVERT(varchar(max), 'a'), 9000 + 100 * id)";
            let query = format!("SELECT COUNT(*) FROM long WITH ({hint}) WHERE {wrong}");
            seen.push(reader.scalar(&query));
            let changed = reader.run(&format!("UPDATE long SET v = v WHERE id = 3 AND {wrong}"));
            seen.push(changed.replace("(0 rows affected)\n", "0"));
        }
        is_over.store(true, over);
        assert!(seen.iter().all(|s| s == "0"), "{seen:?}");
    });
}
