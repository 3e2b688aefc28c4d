//! Several sessions at once: sums hold, deadlocks have one victim, definitions and rows change side by side.

mod common;

use common::{Client, Server};
use std::thread;

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
            let wait = scope.spawn(move || waiting.run("WAITFOR DELAY '01:00:00'"));
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
