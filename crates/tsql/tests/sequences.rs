//! Sequences across a crash: no value is given twice, and what is lost is the rest of a block, whose size is that of CACHE.

mod common;

use common::{Server, run_until};
use daruma_base::CancelFlag;
use daruma_catalog::Change;
use daruma_storage::{Owner, Txn};
use daruma_tsql::error::{Result, SqlError};
use daruma_tsql::sink::{Done, EnvChange, OutputColumn, Sink};
use daruma_value::Value;
use std::sync::Arc;

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

/// What a restart finds of a transaction that had dropped a table and is rolled back: it has the rows of the table's counters, and no lock
/// on the table.
struct Loser {
    txn: Txn,
    owner: Arc<Owner>,
}

impl Loser {
    fn of(server: &Server, table: &str, wait_ms: i64) -> Result<Loser> {
        let entry = server.instance.database_named("master").expect("is there");
        let open = entry.open()?;
        let catalog = open.catalog.current();
        let mut objects = catalog.objects();
        let object = objects.find(|o| o.name == table).expect("is there");
        let owner = Owner::new(9, CancelFlag::new());
        (owner.lock_timeout_ms).store(wait_ms, std::sync::atomic::Ordering::Relaxed);
        let txn = open.storage.begin(&owner);
        let loser = Loser { txn, owner };
        let dropped = Change::DropObject(object.clone());
        match open.catalog.write(&loser.txn, &dropped) {
            Ok(()) => Ok(loser),
            Err(error) => {
                loser.end(server);
                Err(error.into())
            }
        }
    }

    fn end(self, server: &Server) {
        self.txn.rollback().expect("rolls back");
        server.instance.engine().release_locks(&self.owner);
    }
}

/// A value that needs the row of its counter waits for a loser that has it, without the others', and nobody waits for it afterwards.
#[test]
fn a_value_whose_row_a_loser_has_waits_without_all_counters_and_leaves_nothing() {
    let server = Server::new();
    let mut client = server.connect();
    client.done("CREATE TABLE t (id int IDENTITY, v int); CREATE TABLE u (id int IDENTITY, v int)");
    client.done("INSERT t VALUES (1); TRUNCATE TABLE t");
    let loser = Loser::of(&server, "t", -1).expect("has the row");
    let insert = |text: &'static str| {
        let (ends, ended) = std::sync::mpsc::channel();
        let mut client = server.connect();
        let thread = std::thread::spawn(move || {
            let out = client.run(text);
            ends.send(common::errors(&out)).unwrap();
        });
        (thread, ended)
    };
    let (waiting, waited) = insert("INSERT t VALUES (1)");
    while server.instance.engine().locks().iter().all(|l| l.granted) {
        assert!(!waiting.is_finished(), "it did not wait");
        std::thread::yield_now();
    }
    let (passing, passed) = insert("INSERT u VALUES (1)");
    let errors = passed.recv_timeout(std::time::Duration::from_secs(20));
    loser.end(&server);
    assert_eq!(waited.recv(), Ok(vec![]));
    waiting.join().and(passing.join()).unwrap();
    assert_eq!(errors, Ok(vec![]), "all counters wait");
    let later = Loser::of(&server, "t", 0).map(|l| l.end(&server));
    assert_eq!(later.map_err(|e| e.number), Ok(()), "its turn stays");
    client.done("DROP TABLE t");
}

/// A value behind it is told, so the commit of a RESTART waits for the disk whatever it asks for: it changes a definition.
#[test]
fn a_value_behind_a_restart_whose_commit_is_late_is_not_given_again_after_a_crash() {
    let server = Server::with_setup(&[
        "CREATE DATABASE d",
        "ALTER DATABASE d SET DELAYED_DURABILITY = ALLOWED",
    ]);
    let mut client = server.connect_to("d");
    client.done("CREATE SEQUENCE s AS int START WITH 1 NO CACHE");
    client.done("BEGIN TRANSACTION; ALTER SEQUENCE s RESTART; SELECT NEXT VALUE FOR s; COMMIT WITH (DELAYED_DURABILITY = ON)");
    assert_eq!(client.scalar("SELECT NEXT VALUE FOR s"), "2");
    let server = server.crash_after(client);
    let next = server.connect_to("d").scalar("SELECT NEXT VALUE FOR s");
    let next = next.parse::<i32>().expect("a number");
    assert!(next > 2, "{next} is given again");
}

/// Behind its wait the name may be another table's, and the session may have lost what let it.
#[test]
fn a_reseed_that_waited_is_of_the_table_of_that_name_and_of_one_who_may() {
    let server = Server::new();
    server.set_up(&[
        "CREATE LOGIN ann WITH PASSWORD = 'Str0ng!Passw0rd'",
        "CREATE DATABASE d",
        "USE d; CREATE USER ann; CREATE TABLE t (id int IDENTITY, v int); INSERT t VALUES (1), (2); ALTER ROLE db_ddladmin ADD MEMBER ann",
    ]);
    let reseed = "DBCC CHECKIDENT ('dbo.t', RESEED, 100) WITH NO_INFOMSGS";
    let mut admin = server.connect_to("d");
    let mut ann = server.connect_as("ann", "d");
    let mut run = |before: &str, meanwhile: &str| {
        admin.done(&format!("BEGIN TRANSACTION; {before}"));
        let user = server.connect_as("ann", "d");
        let (_, out) = run_until(&server, user, reseed, || {
            admin.done(&format!("{meanwhile}; COMMIT"))
        });
        common::errors(&out)
    };
    let exchange = |old: &str| {
        format!("EXEC sp_rename 'dbo.t', '{old}'; CREATE TABLE t (id int IDENTITY, v int)")
    };
    assert_eq!(run("INSERT t VALUES (3)", &exchange("first")), [0; 0]);
    assert_eq!(run(&exchange("second"), "INSERT t VALUES (1)"), [0; 0]);
    let leave = "ALTER ROLE db_ddladmin DROP MEMBER ann";
    let refused = run("INSERT t VALUES (2)", leave);
    assert_eq!(refused, common::errors(&ann.run(reseed)));
    assert_eq!(refused, [2501]);
    let mut admin = server.connect_to("d");
    admin.done("INSERT first VALUES (1); INSERT second VALUES (1); INSERT t VALUES (1)");
    let last = "SELECT CONCAT(IDENT_CURRENT('first'), ' ', IDENT_CURRENT('second'), ' ', IDENT_CURRENT('t'))";
    assert_eq!(admin.scalar(last), "4 100 102");
}

/// The INSERT around it goes on with the definition that it has read.
#[test]
fn a_reseed_within_an_insert_lets_nobody_change_the_table_meanwhile() {
    let server = Server::new();
    let mut admin = server.connect();
    admin.done("CREATE TABLE gate (i int); INSERT gate VALUES (1); CREATE TABLE t (id int IDENTITY, v int)");
    let mut user = server.connect();
    user.done("BEGIN TRANSACTION; INSERT t VALUES (1)");
    admin.done("BEGIN TRANSACTION; UPDATE gate SET i = 2");
    let text = "INSERT t EXEC ('UPDATE gate SET i = 3; DBCC CHECKIDENT (''t'', RESEED, 50) WITH NO_INFOMSGS; SELECT 7')";
    let change = "ALTER TABLE t ADD w int NOT NULL DEFAULT 5, CONSTRAINT few CHECK (v < 5)";
    let (inserter, changer) = (server.connect(), server.connect());
    let (_, out) = run_until(&server, inserter, text, || {
        let (_, out) = run_until(&server, changer, change, || {
            admin.done("COMMIT");
            user.done("COMMIT");
        });
        // What was inserted before it breaks the constraint.
        assert_eq!(common::errors(&out), [547], "{out}");
    });
    assert_eq!(common::errors(&out), [0; 0], "{out}");
    let rows = admin
        .scalar("SELECT STRING_AGG(CONCAT(id, ':', v), ' ') WITHIN GROUP (ORDER BY id) FROM t");
    assert_eq!(rows, "1:1 51:7");
}
