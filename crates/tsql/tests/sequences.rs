//! Sequences across a crash: no value is given twice, and what is lost is the rest of a block, whose size is that of CACHE.

mod common;

use common::Server;
use daruma_tsql::error::{Result, SqlError};
use daruma_tsql::sink::{Done, EnvChange, OutputColumn, Sink};
use daruma_value::Value;

const RANGE: &str = "DECLARE @first sql_variant;
    EXEC sys.sp_sequence_get_range @sequence_name = N'wide', @range_size = 3000000, @range_first_value = @first OUTPUT;
    SELECT CAST(@first AS bigint)";

#[test]
fn a_crash_loses_no_more_of_a_sequence_than_its_cache() {
    let server = Server::new();
    let mut client = server.connect();
    client.done("CREATE TABLE t (i int)");
    client.done("CREATE SEQUENCE wide AS int START WITH 1");
    client.done("CREATE SEQUENCE few AS int START WITH 1 MAXVALUE 100");
    client.done("CREATE SEQUENCE down AS int START WITH 5 INCREMENT BY -2 MINVALUE -1000 MAXVALUE 5 CACHE 10");
    client.done("CREATE SEQUENCE exact AS int START WITH 1 NO CACHE");
    assert_eq!(client.scalar("SELECT NEXT VALUE FOR wide"), "1");
    for first in ["2", "3000002"] {
        assert_eq!(client.scalar(RANGE), first);
    }
    for _ in 0..3 {
        client.done("SELECT NEXT VALUE FOR few, NEXT VALUE FOR down, NEXT VALUE FOR exact");
    }
    client.done("INSERT t VALUES (1)");
    client.session.close();
    let server = server.crash();
    let mut client = server.connect();
    let next = |client: &mut common::Client, name: &str| {
        client.scalar(&format!("SELECT NEXT VALUE FOR {name}"))
    };
    assert_eq!(next(&mut client, "wide"), "6000051");
    assert_eq!(next(&mut client, "few"), "51");
    assert_eq!(next(&mut client, "down"), "-15");
    assert_eq!(next(&mut client, "exact"), "4");
}

/// Values stored ahead end where those of the type end, and a crash loses few of a small one.
#[test]
fn a_crash_loses_a_small_part_of_what_an_identity_column_can_hold() {
    let columns = [
        ("a", "tinyint IDENTITY", "20"),
        ("b", "tinyint IDENTITY(255, -1)", "236"),
        ("c", "tinyint IDENTITY(1, 100)", "201"),
        ("d", "smallint IDENTITY(32767, -1)", "30767"),
        ("e", "int IDENTITY(2147483646, 1)", "none"),
        ("f", "decimal(3, 0) IDENTITY", "78"),
    ];
    let server = Server::new();
    let mut client = server.connect();
    client.done("CREATE TABLE u (i int)");
    for (name, written, _) in columns {
        client.done(&format!("CREATE TABLE {name} (id {written}, v int)"));
    }
    let mut server = server;
    for v in 0..2 {
        for (name, _, _) in columns {
            client.done(&format!("INSERT {name} VALUES ({v})"));
        }
        client.done("INSERT u VALUES (1)");
        server = server.crash_after(client);
        client = server.connect();
    }
    for (name, written, expected) in columns {
        let insert = format!("BEGIN TRY INSERT {name} VALUES (2) END TRY BEGIN CATCH END CATCH");
        client.done(&insert);
        let id = client.scalar(&format!(
            "SELECT ISNULL(MAX(CAST(id AS varchar(12))), 'none') FROM {name} WHERE v = 2"
        ));
        assert_eq!((written, id.as_str()), (written, expected));
    }
}

/// The rows come back, and their numbers are not given to others. So it is with the first value of all, which tells no direction.
#[test]
fn a_crash_in_a_transaction_that_truncates_keeps_the_numbers_of_its_rows() {
    for (begin, step) in [(1, 1), (-1, -1)] {
        let server = Server::new();
        let mut client = server.connect();
        client.done(&format!(
            "CREATE TABLE t (id int IDENTITY({begin}, {step}), v int);
             CREATE TABLE one (id int IDENTITY({begin}, {step}), v int);
             CREATE TABLE u (i int)"
        ));
        client.done("INSERT t VALUES (1), (2), (3); INSERT one VALUES (1)");
        client.done("BEGIN TRANSACTION; TRUNCATE TABLE t; INSERT t VALUES (4)");
        server.connect().done("INSERT u VALUES (1)");
        let server = server.crash_after(client);
        let mut client = server.connect();
        client.done("INSERT t VALUES (5); INSERT one VALUES (2)");
        for table in ["t", "one"] {
            let twice = client.scalar(&format!(
                "SELECT COUNT(*) - COUNT(DISTINCT id) FROM {table}"
            ));
            assert_eq!(twice, "0", "{table}, {step}");
            let ordered = format!(
                "SELECT COUNT(*) FROM {table} a, {table} b WHERE (a.id - b.id) * {step} > 0 AND a.v < b.v"
            );
            assert_eq!(client.scalar(&ordered), "0", "{table}, {step}");
        }
        client.done("TRUNCATE TABLE t; INSERT t VALUES (6)");
        let server = server.crash_after(client);
        let mut client = server.connect();
        assert_eq!(client.scalar("SELECT id FROM t"), begin.to_string());
        client.done("INSERT t VALUES (7)");
        assert_eq!(client.scalar("SELECT COUNT(DISTINCT id) FROM t"), "2");
        client.done("TRUNCATE TABLE t");
        let server = server.crash_after(client);
        let mut client = server.connect();
        client.done("INSERT t VALUES (8)");
        assert_eq!(client.scalar("SELECT id FROM t"), begin.to_string());
    }
}

/// The same where something stores the counters before the transaction ends: a backup, or a rollback to a savepoint.
#[test]
fn what_a_truncating_transaction_has_set_is_not_stored_before_its_end() {
    let backup = "BACKUP DATABASE app TO DISK = '/app.bak' WITH INIT";
    for (inside, beside) in [
        ("INSERT t VALUES (4), (5)", backup),
        (
            "SAVE TRANSACTION s; TRUNCATE TABLE t; ROLLBACK TRANSACTION s",
            "",
        ),
    ] {
        let server = Server::new();
        let mut client = server.connect();
        client.done("CREATE DATABASE app");
        client.done("USE app; CREATE TABLE t (id int IDENTITY, v int); CREATE TABLE u (i int)");
        client.done("INSERT t VALUES (1), (2), (3)");
        client.done(backup);
        client.done(&format!("BEGIN TRANSACTION; TRUNCATE TABLE t; {inside}"));
        let mut other = server.connect();
        if !beside.is_empty() {
            other.done(beside);
        }
        other.done("INSERT app.dbo.u VALUES (1)");
        drop(other);
        let server = server.crash_after(client);
        let mut client = server.connect();
        client.done("USE app; INSERT t VALUES (6)");
        let twice = client.scalar("SELECT COUNT(*) - COUNT(DISTINCT id) FROM t");
        assert_eq!((twice.as_str(), inside), ("0", inside));
    }
}

#[test]
fn a_sequence_that_begins_again_goes_on_after_a_crash() {
    let server = Server::new();
    let mut client = server.connect();
    client.done("CREATE TABLE t (i int)");
    client.done("CREATE SEQUENCE s AS int START WITH 1 MINVALUE 1 MAXVALUE 3 CYCLE NO CACHE");
    for expected in ["1", "2", "3", "1", "2"] {
        assert_eq!(client.scalar("SELECT NEXT VALUE FOR s"), expected);
    }
    client.done("INSERT t VALUES (1)");
    client.session.close();
    let server = server.crash();
    let mut client = server.connect();
    for expected in ["3", "1"] {
        assert_eq!(client.scalar("SELECT NEXT VALUE FOR s"), expected);
    }
}

/// No commit of the same database follows that would bring the sequence's mark to the disk.
#[test]
fn a_value_that_left_its_database_is_not_given_again_after_a_crash() {
    let server = Server::new();
    let mut client = server.connect();
    client.done("CREATE DATABASE elsewhere");
    client.done("CREATE TABLE elsewhere.dbo.t (v int)");
    let sequences = [
        "told",
        "in_another",
        "in_a_variable",
        "ranged",
        "in_an_error",
    ];
    for name in sequences {
        client.done(&format!(
            "CREATE SEQUENCE {name} AS int START WITH 1 NO CACHE"
        ));
    }
    client.done("CHECKPOINT");
    assert_eq!(client.scalar("SELECT NEXT VALUE FOR told"), "1");
    let server = server.crash_after(client);
    let mut client = server.connect();
    client.done("USE elsewhere");
    client.done("INSERT elsewhere.dbo.t VALUES (NEXT VALUE FOR master.dbo.in_another)");
    let server = server.crash_after(client);
    let mut client = server.connect();
    let set = "DECLARE @v int; SET @v = NEXT VALUE FOR in_a_variable; SELECT @v";
    assert_eq!(client.scalar(set), "1");
    let server = server.crash_after(client);
    let mut client = server.connect();
    let range = RANGE.replace("wide", "ranged").replace("3000000", "1");
    assert_eq!(client.scalar(&range), "1");
    let server = server.crash_after(client);
    let mut client = server.connect();
    let out = client
        .run("SELECT NEXT VALUE FOR in_an_error, 1 / (1 - i) FROM (VALUES (0), (1)) AS t (i)");
    assert_eq!(common::errors(&out), [8134]);
    let server = server.crash_after(client);
    let mut client = server.connect();
    for name in sequences {
        let next: i32 = (client
            .scalar(&format!("SELECT NEXT VALUE FOR {name}"))
            .parse())
        .expect("a number");
        assert!(next > 1, "{name} gives {next} again");
    }
}

/// Tells nothing to anybody, and does something when the first row or text comes: in the middle of the statement.
struct AtFirst<F>(Option<F>);

impl<F: FnOnce(Option<&Value>)> Sink for AtFirst<F> {
    fn columns(&mut self, _: &[OutputColumn]) -> Result<()> {
        Ok(())
    }

    fn row(&mut self, row: &[Value]) -> Result<()> {
        if let Some(then) = self.0.take() {
            then(row.first());
        }
        Ok(())
    }

    fn done(&mut self, _: Done) -> Result<()> {
        Ok(())
    }

    fn message(&mut self, _: &SqlError) -> Result<()> {
        if let Some(then) = self.0.take() {
            then(None);
        }
        Ok(())
    }

    fn env_change(&mut self, _: EnvChange) -> Result<()> {
        Ok(())
    }

    fn return_status(&mut self, _: i32) -> Result<()> {
        Ok(())
    }

    fn return_value(&mut self, _: u16, _: &str, _: &OutputColumn, _: &Value) -> Result<()> {
        Ok(())
    }

    fn function_value(&mut self, _: &OutputColumn, _: &Value) -> Result<()> {
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

/// The statement that has moved the mark has not come to its wait for it.
#[test]
fn a_value_of_a_block_that_another_has_begun_is_not_given_again_after_a_crash() {
    let server = Server::new();
    let (mut client, mut other) = (server.connect(), server.connect());
    client.done("CREATE SEQUENCE s AS int START WITH 1 CACHE 10");
    client.done("CREATE TABLE t (i int)");
    client.done(
        "CREATE TRIGGER takes ON t AFTER INSERT AS
            DECLARE @v int; SET @v = NEXT VALUE FOR s; PRINT 'taken'",
    );
    client.done("CHECKPOINT");
    let mut told = String::new();
    let mut sink = AtFirst(Some(|_: Option<&Value>| {
        told = other.scalar("SELECT NEXT VALUE FOR s");
        server.disk.stop();
    }));
    let _ = (client.session).execute_batch("INSERT t VALUES (1)", &mut sink);
    drop((client, other));
    let server = server.crash();
    let next = server.connect().scalar("SELECT NEXT VALUE FOR s");
    let [told, next] = [told, next].map(|n| n.parse::<i32>().expect("a number"));
    assert!(told > 1 && next > told, "{next} after {told}");
}

#[test]
fn a_value_in_a_row_that_goes_out_before_its_statement_ends_is_not_given_again_after_a_crash() {
    for text in [
        "SELECT NEXT VALUE FOR s FROM (VALUES (1), (2), (3)) AS t (i)",
        "INSERT t OUTPUT inserted.v SELECT NEXT VALUE FOR s FROM (VALUES (1), (2), (3)) AS t (i)",
        "EXEC p",
    ] {
        let server = Server::new();
        let mut client = server.connect();
        client.done("CREATE SEQUENCE s AS int START WITH 1 NO CACHE");
        client.done("CREATE TABLE t (v int)");
        client
            .done("CREATE PROCEDURE p AS SELECT NEXT VALUE FOR s FROM (VALUES (1), (2)) AS t (i)");
        client.done("CHECKPOINT");
        let mut told = Value::Null;
        let mut sink = AtFirst(Some(|value: Option<&Value>| {
            told = value.cloned().unwrap_or(Value::Null);
            server.disk.stop();
        }));
        let _ = client.session.execute_batch(text, &mut sink);
        drop(client);
        let server = server.crash();
        let next = server.connect().scalar("SELECT NEXT VALUE FOR s");
        let next = next.parse::<i32>().expect("a number");
        assert_eq!(told, Value::Int(1), "{text}");
        assert!(next > 1, "{text}: {next} is given again");
    }
}

/// A commit within a trigger that waits for no disk, or that commits nothing, brings no mark there.
#[test]
fn a_value_in_a_row_of_a_trigger_behind_its_commit_is_not_given_again_after_a_crash() {
    for commit in [
        "COMMIT WITH (DELAYED_DURABILITY = ON)",
        "BEGIN TRAN; COMMIT",
    ] {
        let server = Server::with_setup(&[
            "CREATE DATABASE d",
            "ALTER DATABASE d SET DELAYED_DURABILITY = ALLOWED",
        ]);
        let mut client = server.connect_to("d");
        client.done("CREATE SEQUENCE s AS int START WITH 1 NO CACHE");
        client.done("CREATE TABLE t (v int)");
        client.done(&format!(
            "CREATE TRIGGER tr ON t AFTER INSERT AS {commit}; SELECT v FROM t"
        ));
        client.done("CHECKPOINT");
        let mut told = Value::Null;
        let mut sink = AtFirst(Some(|value: Option<&Value>| {
            told = value.cloned().unwrap_or(Value::Null);
            server.disk.stop();
        }));
        let _ = (client.session).execute_batch("INSERT t VALUES (NEXT VALUE FOR s)", &mut sink);
        drop(client);
        let server = server.crash();
        let next = server.connect_to("d").scalar("SELECT NEXT VALUE FOR s");
        let next = next.parse::<i32>().expect("a number");
        assert_eq!(told, Value::Int(1), "{commit}");
        assert!(next > 1, "{commit}: {next} is given again");
    }
}

/// RESEED and RESTART are part of their transaction, as TRUNCATE is: neither a crash nor a rollback leaves anything of one that did
/// not commit, nobody takes a value meanwhile, and what was committed is there after a crash, of a counter never used before too.
#[test]
fn what_a_transaction_has_set_of_a_counter_is_there_from_its_commit_on() {
    let ways = [
        (
            "CREATE TABLE t (id int IDENTITY)",
            "INSERT t DEFAULT VALUES; SELECT MAX(id) FROM t",
            "DBCC CHECKIDENT ('t', RESEED, 0) WITH NO_INFOMSGS",
            ["1", "1001", "1"],
        ),
        (
            "CREATE SEQUENCE s AS int START WITH 1 NO CACHE",
            "SELECT NEXT VALUE FOR s",
            "ALTER SEQUENCE s RESTART",
            ["1", "2", "1"],
        ),
        (
            "CREATE SEQUENCE s AS int START WITH 1 NO CACHE",
            "DECLARE @first sql_variant; EXEC sp_sequence_get_range 's', 1, @first OUTPUT; SELECT CAST(@first AS int)",
            "ALTER SEQUENCE s RESTART",
            ["1", "2", "1"],
        ),
    ];
    for (make, take, set, [first, behind, again]) in ways {
        let take = format!("SET NOCOUNT ON; {take}");
        let server = Server::new();
        let mut client = server.connect();
        client.done(&format!("{make}; CREATE TABLE u (i int)"));
        assert_eq!(client.scalar(&take), first, "{take}");
        client.done(&format!("BEGIN TRANSACTION; {set}"));
        let mut other = server.connect();
        let out = other.run(&format!("SET LOCK_TIMEOUT 0; {take}"));
        assert_eq!(common::errors(&out).first(), Some(&1222), "{set}: {out}");
        other.done("INSERT u VALUES (1)");
        drop(other);
        let server = server.crash_after(client);
        let mut client = server.connect();
        let taken = client.scalar(&take);
        assert_eq!((taken.as_str(), set), (behind, set));
        client.done(&format!("BEGIN TRANSACTION; {set}; COMMIT"));
        let server = server.crash_after(client);
        let mut client = server.connect();
        if set.starts_with("DBCC") {
            client.done("DELETE t");
        }
        let taken = client.scalar(&take);
        assert_eq!((taken.as_str(), set), (again, set));
    }
}

#[test]
fn the_first_value_that_a_committed_transaction_has_set_is_the_first_after_a_crash() {
    let server = Server::new();
    let mut client = server.connect();
    client.done("CREATE TABLE t (id int IDENTITY)");
    let reseed = "DBCC CHECKIDENT ('t', RESEED, 30) WITH NO_INFOMSGS";
    client.done(&format!(
        "BEGIN TRANSACTION; {reseed}; ROLLBACK; BEGIN TRANSACTION; {reseed}; COMMIT"
    ));
    let server = server.crash_after(client);
    let mut client = server.connect();
    client.done("INSERT t DEFAULT VALUES");
    assert_eq!(client.scalar("SELECT id FROM t"), "30");
}

/// It would wait for the transaction with all counters in hand, and the transaction for them.
#[test]
fn a_backup_beside_an_open_drop_waits_for_no_counter() {
    let server = Server::new();
    let mut client = server.connect();
    client.done("CREATE DATABASE app");
    client
        .done("USE app; CREATE TABLE t (id int IDENTITY, v int); CREATE TABLE u (id int IDENTITY)");
    client.done("INSERT t VALUES (1), (2); BEGIN TRANSACTION; DROP TABLE t");
    let mut other = server.connect();
    let (ends, ended) = std::sync::mpsc::channel();
    // No scope: one that stands still is left behind.
    std::thread::spawn(move || {
        let out = other.run("BACKUP DATABASE app TO DISK = '/app.bak'");
        ends.send(common::errors(&out)).unwrap();
    });
    let errors = ended.recv_timeout(std::time::Duration::from_secs(20));
    if errors.is_err() {
        std::mem::forget((client, server));
        panic!("the backup waits");
    }
    assert_eq!(errors, Ok(vec![]));
    client.done("INSERT u DEFAULT VALUES; ROLLBACK; INSERT t VALUES (3)");
    assert_eq!(client.scalar("SELECT COUNT(DISTINCT id) FROM t"), "3");
}
