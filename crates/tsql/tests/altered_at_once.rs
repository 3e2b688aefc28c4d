//! ALTER DATABASE beside ALTER DATABASE, beside RESTORE, and beside a transaction that works in the database from outside of it; and who
//! comes while a database is backed up for the last time, or restored.

mod common;

use common::rows::{MOVES, fill, server_with_rows, write_file};
use common::{Client, Server, TextSink, errors};
use daruma_base::cancel::CancelReason;
use daruma_tsql::error::{Result, SqlError};
use daruma_tsql::session::RequestEnd;
use daruma_tsql::sink::{Done as StatementDone, EnvChange, OutputColumn, Sink};
use daruma_value::Value;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;

/// Tells the other thread when the work is done, or has failed.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Runs `text` again and again until `work` is done.
fn beside(server: &Server, text: &str, work: impl FnOnce()) {
    let is_done = AtomicBool::new(false);
    thread::scope(|threads| {
        threads.spawn(|| {
            let mut other = server.connect();
            while !is_done.load(Ordering::Acquire) {
                other.run(text);
            }
        });
        let _done = Done(&is_done);
        work();
    });
}

#[test]
fn files_that_are_added_beside_changed_options_are_all_known() {
    let server = Server::with_setup(&["CREATE DATABASE d", "ALTER DATABASE d ADD FILEGROUP g"]);
    let mut client = server.connect();
    let options =
        "ALTER DATABASE d SET RECURSIVE_TRIGGERS ON; ALTER DATABASE d SET RECURSIVE_TRIGGERS OFF";
    beside(&server, options, || {
        for n in 0..20 {
            let file = format!(
                "ALTER DATABASE d ADD FILE (NAME = f{n}, FILENAME = 'f{n}.ndf', SIZE = 1MB) TO FILEGROUP g"
            );
            client.done(&file);
        }
    });
    client.done("CREATE TABLE d.dbo.t (id int IDENTITY PRIMARY KEY, x char(7000) NOT NULL) ON g");
    client.done("INSERT d.dbo.t SELECT 'b' FROM GENERATE_SERIES(1, 1000)");
    let files = "SELECT COUNT(*), COUNT(DISTINCT file_id) FROM sys.master_files WHERE database_id = DB_ID('d')";
    let before = client.done(files);
    assert!(before.contains("22 | 22"), "{before}");
    drop(client);
    let server = server.restart();
    let mut client = server.connect();
    assert_eq!(client.done(files), before);
    let rows = client.done("SELECT COUNT(*), SUM(id) FROM d.dbo.t");
    assert!(rows.contains("1000") && rows.contains("500500"), "{rows}");
}

#[test]
fn an_option_that_was_set_stays_set_whatever_others_set() {
    let server = Server::with_setup(&["CREATE DATABASE d"]);
    let mut client = server.connect();
    let options = "ALTER DATABASE d SET RECURSIVE_TRIGGERS ON; ALTER DATABASE d SET DELAYED_DURABILITY = ALLOWED;
        ALTER DATABASE d SET RECURSIVE_TRIGGERS OFF; ALTER DATABASE d SET DELAYED_DURABILITY = DISABLED";
    let shown =
        "SELECT CONCAT(is_trustworthy_on, recovery_model_desc) FROM sys.databases WHERE name = 'd'";
    beside(&server, options, || {
        for n in 0..60 {
            let (on, model) = match n % 2 {
                0 => ("ON", "SIMPLE"),
                _ => ("OFF", "FULL"),
            };
            client.done(&format!("ALTER DATABASE d SET TRUSTWORTHY {on}"));
            client.done(&format!("ALTER DATABASE d SET RECOVERY {model}"));
            thread::yield_now();
            let out = client.done(shown);
            let wanted = format!("{}{model}", i32::from(on == "ON"));
            assert!(out.contains(&wanted), "{n}: {out}");
        }
    });
}

/// A transaction that has written in `d` from another database.
fn writer(server: &Server) -> Client {
    let mut writer = server.connect();
    writer.done("BEGIN TRAN; UPDATE d.dbo.t SET v += 10");
    writer
}

fn written() -> Server {
    Server::with_setup(&[
        "CREATE DATABASE d",
        "USE d; CREATE TABLE dbo.t (v int); INSERT dbo.t VALUES (100)",
    ])
}

#[test]
fn a_database_with_somebodys_open_transaction_is_in_use() {
    let server = written();
    let mut writer = writer(&server);
    let mut client = server.connect();
    for (text, number) in [
        ("DROP DATABASE d", 3702),
        ("ALTER DATABASE d SET OFFLINE WITH NO_WAIT", 5070),
        ("ALTER DATABASE d SET READ_ONLY WITH NO_WAIT", 5070),
        ("ALTER DATABASE d SET SINGLE_USER WITH NO_WAIT", 5070),
        ("ALTER DATABASE d SET RESTRICTED_USER WITH NO_WAIT", 5070),
        ("BACKUP LOG d TO DISK = 'd.trn' WITH NORECOVERY", 3101),
        ("RESTORE DATABASE d FROM DISK = 'd.bak' WITH REPLACE", 3101),
    ] {
        if number == 3101 {
            client.done("BACKUP DATABASE d TO DISK = 'd.bak' WITH INIT");
        }
        let out = client.run(text);
        assert!(out.contains(&format!("Msg {number},")), "{text}: {out}");
    }
    writer.done("COMMIT");
    let out = client.done("SELECT v FROM d.dbo.t");
    assert!(out.contains("110"), "{out}");
    client.done("DROP DATABASE d");
}

#[test]
fn a_database_that_a_transaction_has_left_is_in_use_until_it_ends() {
    let server = written();
    let mut reader = server.connect_to("d");
    reader.done("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; BEGIN TRAN");
    reader.done("SELECT v FROM dbo.t; USE master");
    let mut client = server.connect();
    for (text, number) in [
        ("DROP DATABASE d", 3702),
        ("ALTER DATABASE d SET OFFLINE WITH NO_WAIT", 5070),
    ] {
        let out = client.run(text);
        assert_eq!(errors(&out)[..1], [number], "{text}: {out}");
    }
    reader.done("COMMIT");
    client.done("DROP DATABASE d");
}

#[test]
fn with_rollback_a_transaction_from_another_database_ends() {
    let server = written();
    let mut writer = writer(&server);
    thread::scope(|threads| {
        let altered = threads.spawn(|| {
            let mut client = server.connect();
            // The time that it gives a session to leave is the simulated disk's, which passes at once (5061).
            let text = "ALTER DATABASE d SET READ_ONLY WITH ROLLBACK IMMEDIATE";
            while let [5061, ..] = errors(&client.run(text))[..] {}
        });
        while writer.ended != RequestEnd::Disconnect && !altered.is_finished() {
            writer.run("SELECT @@TRANCOUNT");
        }
        drop(writer);
        altered.join().expect("altered");
    });
    let mut client = server.connect();
    let out = client.done("SELECT v FROM d.dbo.t");
    assert!(out.contains("100"), "{out}");
    let refused = client.run("UPDATE d.dbo.t SET v = 1");
    assert_eq!(errors(&refused), [3906]);
}

/// Sets an option at a moment at which nobody else is in the database.
fn set_alone(client: &mut Client, option: &str) {
    let text = format!("ALTER DATABASE d SET {option} WITH NO_WAIT");
    while let [5070, ..] = errors(&client.run(&text))[..] {
        thread::yield_now();
    }
}

#[test]
fn nothing_changes_in_a_database_that_was_made_read_only() {
    let server = written();
    beside(&server, "UPDATE d.dbo.t SET v += 1", || {
        let mut client = server.connect();
        for _ in 0..40 {
            set_alone(&mut client, "READ_ONLY");
            let before = client.scalar("SELECT v FROM d.dbo.t");
            thread::yield_now();
            assert_eq!(client.scalar("SELECT v FROM d.dbo.t"), before);
            client.done("ALTER DATABASE d SET READ_WRITE");
        }
    });
}

#[test]
fn a_database_goes_offline_beside_those_who_come() {
    let server = written();
    beside(&server, "UPDATE d.dbo.t SET v += 1", || {
        let mut client = server.connect();
        for _ in 0..20 {
            set_alone(&mut client, "OFFLINE");
            client.done("ALTER DATABASE d SET ONLINE");
        }
    });
    server.connect().done("DBCC CHECKDB (d) WITH NO_INFOMSGS");
}

/// Number of the message that tells how far a restore is.
const PROCESSED: i32 = 3211;

/// A client that lets somebody else work when it is told for the first time how far its statement is.
struct Interrupted<F: FnOnce()> {
    sink: TextSink,
    other: Option<F>,
}

impl<F: FnOnce()> Sink for Interrupted<F> {
    fn columns(&mut self, columns: &[OutputColumn]) -> Result<()> {
        self.sink.columns(columns)
    }
    fn row(&mut self, values: &[Value]) -> Result<()> {
        self.sink.row(values)
    }
    fn done(&mut self, done: StatementDone) -> Result<()> {
        self.sink.done(done)
    }
    fn message(&mut self, message: &SqlError) -> Result<()> {
        if message.number == PROCESSED
            && let Some(other) = self.other.take()
        {
            other();
        }
        self.sink.message(message)
    }
    fn env_change(&mut self, change: EnvChange) -> Result<()> {
        self.sink.env_change(change)
    }
    fn return_status(&mut self, status: i32) -> Result<()> {
        self.sink.return_status(status)
    }
    fn return_value(
        &mut self,
        ordinal: u16,
        name: &str,
        column: &OutputColumn,
        value: &Value,
    ) -> Result<()> {
        self.sink.return_value(ordinal, name, column, value)
    }
    fn function_value(&mut self, column: &OutputColumn, value: &Value) -> Result<()> {
        self.sink.function_value(column, value)
    }
    fn flush(&mut self) -> Result<()> {
        self.sink.flush()
    }
}

/// Runs a backup or restore, and in the middle of it something else; at its end where that comes before its progress is looked at.
fn interrupted(client: &mut Client, text: &str, other: impl FnOnce()) {
    let mut sink = Interrupted {
        sink: TextSink::default(),
        other: Some(other),
    };
    client.session.execute_batch(text, &mut sink);
    let out = sink.sink.take();
    assert_eq!(errors(&out), [0; 0], "{text}\n{out}");
    assert!(sink.other.is_none(), "nothing came between: {text}\n{out}");
}

/// A full, a differential and a log backup of `d`, of which the first has been restored as `e`.
fn half_restored() -> (Server, Client) {
    let (server, mut client) = server_with_rows(50);
    client.done("BACKUP DATABASE d TO DISK = '/b/f'");
    fill(&mut client, 51, 100);
    client.done("BACKUP DATABASE d TO DISK = '/b/i' WITH DIFFERENTIAL");
    fill(&mut client, 101, 150);
    client.done("BACKUP LOG d TO DISK = '/b/l'");
    let full = format!("RESTORE DATABASE e FROM DISK = '/b/f' WITH {MOVES}, NORECOVERY");
    client.done(&full);
    (server, client)
}

#[test]
fn an_option_that_is_set_beside_a_restore_stays_set() {
    let (server, mut client) = half_restored();
    for (restore, option) in [
        (
            "RESTORE DATABASE e FROM DISK = '/b/i' WITH NORECOVERY, STATS = 1",
            "TRUSTWORTHY",
        ),
        (
            "RESTORE LOG e FROM DISK = '/b/l' WITH RECOVERY, STATS = 1",
            "DB_CHAINING",
        ),
    ] {
        interrupted(&mut client, restore, || {
            let set = format!("ALTER DATABASE e SET {option} ON");
            server.connect().done(&set);
        });
    }
    let set =
        "SELECT CONCAT(is_trustworthy_on, is_db_chaining_on) FROM sys.databases WHERE name = 'e'";
    assert_eq!(client.scalar(set), "11");
    assert_eq!(client.scalar("SELECT COUNT(*) FROM e.dbo.t"), "150");
    drop(client);
    let server = server.restart();
    assert_eq!(server.connect().scalar(set), "11");
}

/// How a request ends whose client sends attentions until it has ended.
fn ended_by_attention(server: &Server, text: &str) -> RequestEnd {
    let (tell, told) = mpsc::channel();
    thread::scope(|threads| {
        let ended = threads.spawn(move || {
            let mut client = server.connect();
            tell.send(client.session.cancel_flag()).expect("is heard");
            client.run(text);
            client.ended
        });
        let flag = told.recv().expect("a session");
        while !ended.is_finished() {
            flag.set(CancelReason::Attention);
            thread::yield_now();
        }
        ended.join().expect("no panic")
    })
}

#[test]
fn other_databases_are_made_and_dropped_beside_a_restore() {
    let (server, mut client) = half_restored();
    let restore = "RESTORE DATABASE e FROM DISK = '/b/i' WITH RECOVERY, STATS = 1";
    interrupted(&mut client, restore, || {
        let mut other = server.connect();
        other.done("CREATE DATABASE n; CREATE DATABASE m; DROP DATABASE n; CREATE DATABASE n");
        other.done("CREATE CREDENTIAL [s3://h/b] WITH IDENTITY = 'S3 Access Key', SECRET = 'a:b'");
        // The one that is being restored is waited for.
        other.done("SET LOCK_TIMEOUT 0");
        for text in [
            "DROP DATABASE e",
            "CREATE DATABASE E",
            "ALTER DATABASE e MODIFY NAME = f",
            "RESTORE DATABASE e WITH RECOVERY",
        ] {
            let out = other.run(text);
            assert_eq!(errors(&out)[..1], [1222], "{text}: {out}");
        }
        assert_eq!(
            ended_by_attention(&server, "DROP DATABASE e"),
            RequestEnd::Cancelled
        );
    });
    let names = "SELECT STRING_AGG(name, ' ') WITHIN GROUP (ORDER BY name) FROM sys.databases WHERE database_id > 4";
    assert_eq!(client.scalar(names), "d e m n");
    assert_eq!(
        client.scalar("SELECT COUNT(DISTINCT database_id) FROM sys.databases"),
        "8"
    );
    client.done("DROP DATABASE e");
}

const LATE: &str = "INSERT d.dbo.t VALUES (1000, N'late')";

/// Nobody comes: before the database is out of use (952), and when it is (927).
fn assert_refused(server: &Server, text: &str) {
    let out = server.connect().run(text);
    assert!(matches!(errors(&out)[..], [952 | 927]), "{text}: {out}");
}

#[test]
fn nothing_is_committed_behind_the_tail_of_the_log() {
    for ending in ["NORECOVERY", "STANDBY = '/b/undo'"] {
        let (server, mut client) = server_with_rows(50);
        client.done("BACKUP DATABASE d TO DISK = '/b/f'");
        fill(&mut client, 51, 150);
        let tail = format!("BACKUP LOG d TO DISK = '/b/tail' WITH {ending}, STATS = 1");
        interrupted(&mut client, &tail, || {
            for text in [LATE, "USE d", "SELECT COUNT(*) FROM d.dbo.t"] {
                assert_refused(&server, text);
            }
        });
        client.done("RESTORE DATABASE d WITH RECOVERY");
        client.done(LATE);
        assert_eq!(client.scalar("SELECT COUNT(*) FROM d.dbo.t"), "151");
    }
}

#[test]
fn a_backup_of_the_tail_that_fails_lets_others_in_again() {
    let (server, mut client) = server_with_rows(50);
    client.done("BACKUP DATABASE d TO DISK = '/b/f'");
    write_file(&server, "/b/tail", &[7; 9_000]);
    let out = client.run("BACKUP LOG d TO DISK = '/b/tail' WITH NORECOVERY");
    assert_eq!(errors(&out), [3241, 3013], "{out}");
    let mut other = server.connect();
    other.done(LATE);
    assert_eq!(other.scalar("SELECT COUNT(*) FROM d.dbo.t"), "51");
}

#[test]
fn nobody_works_in_a_database_that_is_being_replaced() {
    let (server, mut client) = server_with_rows(50);
    client.done("BACKUP DATABASE d TO DISK = '/b/f'");
    let restore = "RESTORE DATABASE d FROM DISK = '/b/f' WITH REPLACE, STATS = 1";
    interrupted(&mut client, restore, || {
        assert_refused(&server, LATE);
    });
    server.connect().done(LATE);
    assert_eq!(client.scalar("SELECT COUNT(*) FROM d.dbo.t"), "51");
}

#[test]
fn a_database_that_waits_for_a_restore_goes_neither_online_nor_offline() {
    let (_server, mut client) = server_with_rows(10);
    client.done("BACKUP DATABASE d TO DISK = '/b/f'");
    client.done("BACKUP LOG d TO DISK = '/b/tail' WITH NORECOVERY");
    for state in ["ONLINE", "OFFLINE"] {
        let out = client.run(&format!("ALTER DATABASE d SET {state}"));
        assert_eq!(errors(&out), [5052, 5069], "{state}: {out}");
    }
    let state = "SELECT state_desc FROM sys.databases WHERE name = 'd'";
    assert_eq!(client.scalar(state), "RESTORING");
    client.done("RESTORE DATABASE d WITH RECOVERY");
    assert_eq!(client.scalar("SELECT COUNT(*) FROM d.dbo.t"), "10");
}

#[test]
fn a_database_does_not_come_online_beside_its_restore() {
    let (server, mut client) = server_with_rows(50);
    client.done("BACKUP DATABASE d TO DISK = '/b/f'");
    client.done("ALTER DATABASE d SET OFFLINE");
    let restore = "RESTORE DATABASE d FROM DISK = '/b/f' WITH REPLACE, NORECOVERY, STATS = 1";
    interrupted(&mut client, restore, || {
        let mut other = server.connect();
        other.done("SET LOCK_TIMEOUT 0");
        let out = other.run("ALTER DATABASE d SET ONLINE");
        // It waits for the restore, or knows already how that ends.
        assert!(matches!(errors(&out)[..], [1222 | 5052, 5069]), "{out}");
    });
    client.done("RESTORE DATABASE d WITH RECOVERY");
    assert_eq!(client.scalar("SELECT COUNT(*) FROM d.dbo.t"), "50");
}

#[test]
fn a_database_that_is_restored_belongs_to_a_login_that_is_there() {
    let (server, mut client) = server_with_rows(50);
    client.done("BACKUP DATABASE d TO DISK = '/b/f'");
    client.done(
        "CREATE LOGIN maker WITH PASSWORD = 'Daruma-2026', CHECK_POLICY = OFF;
         ALTER SERVER ROLE dbcreator ADD MEMBER maker; EXECUTE AS LOGIN = 'maker'",
    );
    let restore = format!("RESTORE DATABASE e FROM DISK = '/b/f' WITH {MOVES}, STATS = 1");
    interrupted(&mut client, &restore, || {
        let out = server.connect().run("DROP LOGIN maker");
        // It has the database already where the progress is told at the end.
        assert!(matches!(errors(&out)[..], [] | [15174]), "{out}");
    });
    let owned = "SELECT COUNT(*) FROM sys.databases d JOIN sys.server_principals p ON p.sid = d.owner_sid WHERE d.name = 'e'";
    assert_eq!(server.connect().scalar(owned), "1");
    drop(client);
    let server = server.restart();
    assert_eq!(server.connect().scalar(owned), "1");
}

#[test]
fn a_database_that_is_restored_is_not_that_of_a_login_which_is_being_dropped() {
    let (server, mut client) = server_with_rows(10);
    client.done("BACKUP DATABASE d TO DISK = '/b/f'");
    client.done(
        "CREATE LOGIN maker WITH PASSWORD = 'Daruma-2026', CHECK_POLICY = OFF;
         ALTER SERVER ROLE dbcreator ADD MEMBER maker; SET LOCK_TIMEOUT 0; EXECUTE AS LOGIN = 'maker'",
    );
    let mut other = server.connect();
    other.done("BEGIN TRANSACTION; DROP LOGIN maker");
    client.done(&format!(
        "RESTORE DATABASE e FROM DISK = '/b/f' WITH {MOVES}"
    ));
    other.done("COMMIT");
    let owner = "SELECT SUSER_SNAME(owner_sid) FROM sys.databases WHERE name = 'e'";
    assert_eq!(other.scalar(owner), "sa");
}
