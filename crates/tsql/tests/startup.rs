//! A server that comes back: at once, database by database, also when some of them do not.

mod common;

use common::{Server, errors};
use daruma_sim::{Faults, Rates, SimDisk};
use daruma_tsql::instance::LoginInfo;
use daruma_tsql::session::Session;
use std::path::Path;
use std::sync::Arc;

const STATES: &str = "SELECT STRING_AGG(CONCAT(name, ' ', state_desc), ', ') WITHIN GROUP (ORDER BY database_id) \
                      FROM sys.databases WHERE database_id > 4";

fn crashed() -> Arc<SimDisk> {
    let server = Server::new();
    let mut client = server.connect();
    for name in ["a", "b"] {
        client.done(&format!(
            "CREATE DATABASE {name}; CREATE TABLE {name}.dbo.t (i int PRIMARY KEY)"
        ));
        client.done(&format!("INSERT {name}.dbo.t VALUES (1)"));
    }
    drop(client);
    let Server { disk, instance, .. } = server;
    drop(instance);
    disk.restart();
    disk
}

#[test]
fn each_database_can_be_used_when_it_is_ready() {
    let server = Server::begun_over(crashed());
    let mut client = server.connect();
    assert_eq!(client.scalar(STATES), "a RECOVERING, b RECOVERING");
    for text in [
        "USE a",
        "SELECT * FROM a.dbo.t",
        "EXEC a.sys.sp_help",
        "DROP DATABASE a",
        "ALTER DATABASE a SET RECOVERY SIMPLE",
        "ALTER DATABASE a SET OFFLINE",
        "BACKUP DATABASE a TO DISK = '/data/a.bak'",
    ] {
        let out = client.run(text);
        assert_eq!(errors(&out).first(), Some(&922), "{text}: {out}");
    }
    assert_eq!(errors(&client.run("CREATE DATABASE a")), [1801]);
    let login = LoginInfo {
        login: "sa".to_string(),
        database: "a".to_string(),
        ..LoginInfo::default()
    };
    let refused = Session::new(&server.instance, login)
        .map(|_| ())
        .map_err(|e| e.number);
    assert_eq!(refused, Err(4060));
    // What does not need them works.
    client
        .done("CREATE DATABASE c; CREATE TABLE c.dbo.t (i int); SELECT * FROM msdb.dbo.backupset");
    assert!(server.instance.recover_next());
    assert_eq!(client.scalar(STATES), "a ONLINE, b RECOVERING, c ONLINE");
    assert_eq!(client.scalar("SELECT COUNT(*) FROM a.dbo.t"), "1");
    assert_eq!(errors(&client.run("SELECT * FROM b.dbo.t")), [922]);
    while server.instance.recover_next() {}
    assert_eq!(client.scalar(STATES), "a ONLINE, b ONLINE, c ONLINE");
    assert_eq!(client.scalar("SELECT COUNT(*) FROM b.dbo.t"), "1");
    let log = client.run("EXEC xp_readerrorlog");
    assert_eq!(
        log.matches("The checkpoint after the recovery").count(),
        2,
        "{log}"
    );
    assert_eq!(log.matches("Recovery is complete.").count(), 1, "{log}");
}

#[test]
fn a_server_that_is_told_to_stop_does_not_begin_with_the_next_database() {
    let server = Server::begun_over(crashed());
    assert!(server.instance.recover_next());
    server.instance.stop_recovery();
    assert!(!server.instance.recover_next());
    let server = Server::over(server.stop());
    assert_eq!(server.connect().scalar("SELECT COUNT(*) FROM b.dbo.t"), "1");
}

/// Three databases in one transaction, stopped all over its commit, and recovered side by side, in whatever order: all or
/// nothing, and nobody waits for ever.
#[test]
fn databases_that_ask_each_other_are_recovered_side_by_side() {
    let server = Server::new();
    let mut client = server.connect();
    for name in ["a", "b", "c"] {
        client.done(&format!(
            "CREATE DATABASE {name}; CREATE TABLE {name}.dbo.t (i int PRIMARY KEY)"
        ));
    }
    client.session.close();
    let disk = server.stop();
    // Two transactions under way; of one another database coordinates than of the other.
    let work = "BEGIN TRAN; INSERT a.dbo.t VALUES (1); INSERT b.dbo.t VALUES (1); INSERT c.dbo.t VALUES (1)";
    let other = "BEGIN TRAN; INSERT b.dbo.t VALUES (2); INSERT c.dbo.t VALUES (2)";
    let mut seen = [0, 0];
    for call in 0..24 {
        let server = Server::over(disk.fork(1));
        let (mut one, mut two) = (server.connect(), server.connect());
        one.done(work);
        two.done(other);
        server.disk.set_faults(Faults {
            stop_io_at: Some(server.disk.ios() + call),
            ..Faults::default()
        });
        let told = [one.run("COMMIT").is_empty(), two.run("COMMIT").is_empty()];
        drop((one, two));
        let Server { disk, instance, .. } = server;
        drop(instance);
        disk.restart();
        disk.set_faults(Faults::default());
        let server = Server::begun_over(disk);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| while server.instance.recover_next() {});
            }
        });
        let mut client = server.connect();
        let found = client.scalar(
            "SELECT CONCAT((SELECT COUNT(*) FROM a.dbo.t), (SELECT SUM(i) FROM b.dbo.t), (SELECT SUM(i) FROM c.dbo.t))",
        );
        let expected: &[&str] = match told {
            [true, true] => &["133"],
            [true, false] => &["111", "133"],
            _ => &["0", "111", "133"],
        };
        assert!(
            expected.contains(&found.as_str()),
            "call {call}, told {told:?}: {found}"
        );
        assert!(
            !client
                .run("EXEC xp_readerrorlog")
                .contains("assumed to be committed")
        );
        seen[usize::from(found != "0")] += 1;
    }
    assert!(seen[0] > 0 && seen[1] > 0, "{seen:?}");
}

#[test]
fn the_server_starts_without_msdb() {
    for is_missing in [true, false] {
        let disk = crashed();
        let path = Path::new("/data/msdb.mdf");
        match is_missing {
            true => daruma_base::Disk::remove(&*disk, path).expect("removes"),
            false => disk.flip(path, 414, 1),
        }
        let server = Server::over(disk);
        let mut client = server.connect();
        let state = client.scalar("SELECT state_desc FROM sys.databases WHERE name = 'msdb'");
        assert_eq!(state, "SUSPECT");
        assert_eq!(
            errors(&client.run("SELECT * FROM msdb.dbo.backupset")),
            [926]
        );
        assert_eq!(client.scalar("SELECT COUNT(*) FROM a.dbo.t"), "1");
        client.done("BACKUP DATABASE a TO DISK = '/data/a.bak'; DROP DATABASE b");
        let log = client.run("EXEC xp_readerrorlog");
        assert!(
            log.contains("The backup history in msdb could not be written"),
            "{log}"
        );
    }
}

/// On a disk that is full otherwise it would not get again what it gave back.
#[test]
fn tempdb_is_made_anew_in_the_space_that_it_has() {
    let disk = crashed();
    disk.set_faults(Faults {
        rates: Rates {
            grow_error: 100_000,
            ..Rates::default()
        },
        ..Faults::default()
    });
    let server = Server::over(disk);
    let mut client = server.connect();
    client.done(
        "CREATE TABLE #t (i int PRIMARY KEY); INSERT #t SELECT i FROM a.dbo.t; SELECT * FROM #t",
    );
    assert_eq!(client.run("DBCC CHECKDB (tempdb) WITH NO_INFOMSGS"), "");
}
