//! ALTER DATABASE beside ALTER DATABASE, and beside a transaction that works in the database from outside of it.

mod common;

use common::{Client, Server, errors};
use daruma_tsql::session::RequestEnd;
use std::sync::atomic::{AtomicBool, Ordering};
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
