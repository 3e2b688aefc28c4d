//! Files of databases that come and go: whatever stops the server in CREATE DATABASE, DROP DATABASE or while files are added
//! and removed, the next start leaves no file behind that nobody owns, and deletes none that might be somebody's.

mod common;

use common::{Server, errors};
use daruma_base::{Disk, OpenMode};
use daruma_sim::{Faults, SimDisk};
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn stopped_server() -> Arc<SimDisk> {
    let server = Server::new();
    let mut client = server.connect();
    client.done(
        "CREATE DATABASE other; CREATE TABLE other.dbo.t (i int); INSERT other.dbo.t VALUES (1)",
    );
    client.session.close();
    server.stop()
}

/// Files in the data folder that belong to a database of the name `d`.
fn files_of_d(disk: &SimDisk) -> Vec<PathBuf> {
    let mut files = disk.list(Path::new("/data")).expect("lists");
    files.retain(|f| {
        let name = f.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("d.") || name.starts_with("d_")
    });
    files.sort();
    files
}

/// Stops of a statement that are tried: more take too long for what they add.
const STOPS: u64 = 12;

/// After stops all over the writes of `work`, by power failure and by a kill in turn, `check` looks at the server that starts
/// again.
fn stop_everywhere(disk: &Arc<SimDisk>, work: &str, check: impl Fn(Server, u64)) {
    let writes = {
        let server = Server::over(disk.fork(1));
        let mut client = server.connect();
        let begin = server.disk.calls();
        client.done(work);
        server.disk.calls() - begin
    };
    assert!(writes > 2, "{writes}");
    let step = writes.div_ceil(STOPS) as usize;
    // The last ones are those after which something is left to be done.
    let stops = (0..writes.saturating_sub(4)).step_by(step);
    for write in stops.chain(writes.saturating_sub(4)..writes) {
        let server = Server::over(disk.fork(write + 1));
        let mut client = server.connect();
        server.disk.set_faults(Faults {
            stop_at: Some(server.disk.calls() + write),
            ..Faults::default()
        });
        client.run(work);
        drop(client);
        let Server { disk, instance, .. } = server;
        drop(instance);
        match (write / step as u64).is_multiple_of(2) {
            true => disk.crash(),
            false => disk.restart(),
        }
        check(Server::over(disk), write);
    }
}

#[test]
fn a_stop_in_create_database_leaves_the_name_free_or_a_whole_database() {
    stop_everywhere(&stopped_server(), "CREATE DATABASE d", |server, write| {
        let mut client = server.connect();
        if client.scalar("SELECT COUNT(*) FROM sys.databases WHERE name = 'd'") == "1" {
            client.done("CREATE TABLE d.dbo.t (i int); DROP TABLE d.dbo.t; DROP DATABASE d");
        }
        assert_eq!(files_of_d(&server.disk), Vec::<PathBuf>::new(), "{write}");
        client.done("CREATE DATABASE d; CREATE TABLE d.dbo.t (i int)");
        assert_eq!(client.scalar("SELECT COUNT(*) FROM other.dbo.t"), "1");
    });
}

#[test]
fn a_stop_in_drop_database_leaves_the_database_or_nothing_of_it() {
    let server = Server::over(stopped_server());
    let mut client = server.connect();
    client.done(
        "CREATE DATABASE d; ALTER DATABASE d ADD FILE (NAME = d2, FILENAME = '/data/d_2.ndf')",
    );
    client.session.close();
    let disk = server.stop();
    stop_everywhere(&disk, "DROP DATABASE d", |server, write| {
        let mut client = server.connect();
        if client.scalar("SELECT COUNT(*) FROM sys.databases WHERE name = 'd'") == "1" {
            client.done("CREATE TABLE d.dbo.t (i int); DROP DATABASE d");
        }
        assert_eq!(files_of_d(&server.disk), Vec::<PathBuf>::new(), "{write}");
        client.done("CREATE DATABASE d");
    });
}

#[test]
fn a_disk_that_is_full_in_create_database_leaves_no_file() {
    let server = Server::over(stopped_server());
    let mut client = server.connect();
    client.done("CREATE TABLE space_for_master (i int)");
    server.disk.set_faults(Faults {
        no_space: true,
        ..Faults::default()
    });
    let out = client.run("CREATE DATABASE d");
    assert!(!errors(&out).is_empty(), "{out}");
    server.disk.set_faults(Faults::default());
    assert_eq!(files_of_d(&server.disk), Vec::<PathBuf>::new());
    let server = server.restart_keeping(client);
    server.connect().done("CREATE DATABASE d");
}

/// Writes of the creation fail, each in its own run.
#[test]
fn a_write_that_fails_in_create_database_leaves_no_file() {
    let disk = stopped_server();
    for write in (0..1_000).step_by(5) {
        let server = Server::over(disk.fork(1));
        let mut client = server.connect();
        server.disk.set_faults(Faults {
            fail_at: Some(server.disk.calls() + write),
            ..Faults::default()
        });
        let out = client.run("CREATE DATABASE d");
        server.disk.set_faults(Faults::default());
        if errors(&out).is_empty() {
            assert!(write > 5, "{write}");
            return;
        }
        drop(client);
        let Server { disk, instance, .. } = server;
        drop(instance);
        disk.restart();
        let server = Server::over(disk);
        let mut client = server.connect();
        if client.scalar("SELECT COUNT(*) FROM sys.databases WHERE name = 'd'") == "1" {
            client.done("DROP DATABASE d");
        }
        assert_eq!(files_of_d(&server.disk), Vec::<PathBuf>::new(), "{write}");
        client.done("CREATE DATABASE d");
    }
    panic!("never created");
}

fn put_file(disk: &Arc<SimDisk>, path: &str, bytes: &[u8]) {
    let file = disk
        .open(Path::new(path), OpenMode::CreateNew)
        .expect("creates");
    file.write_at(bytes, 0).expect("writes");
    file.sync_data().expect("syncs");
    disk.sync_dir(Path::new("/data")).expect("syncs");
}

/// Between the kill and the next start somebody puts files of his own where the new database was to be.
#[test]
fn somebody_elses_files_at_the_places_of_a_database_cut_short_are_kept() {
    let disk = stopped_server();
    let other = disk
        .content_of(Path::new("/data/other.mdf"))
        .expect("is there");
    let mut seen = 0;
    for write in (0..30).step_by(4) {
        let server = Server::over(disk.fork(1));
        let mut client = server.connect();
        server.disk.set_faults(Faults {
            stop_at: Some(server.disk.calls() + write),
            ..Faults::default()
        });
        client.run("CREATE DATABASE d");
        drop(client);
        let Server { disk, instance, .. } = server;
        drop(instance);
        disk.restart();
        for file in files_of_d(&disk) {
            disk.remove(&file).expect("removes");
        }
        put_file(&disk, "/data/d.mdf", &other);
        put_file(&disk, "/data/d_log.ldf", b"notes of the administrator");
        let server = Server::over(disk);
        let mut client = server.connect();
        if client.scalar("SELECT COUNT(*) FROM sys.databases WHERE name = 'd'") == "0" {
            assert_eq!(files_of_d(&server.disk).len(), 2, "{write}");
            assert_eq!(errors(&client.run("CREATE DATABASE d")), [5170, 1802]);
            seen += 1;
        }
    }
    assert!(seen > 1, "{seen}");
}

// --- files that are added and removed -----------------------------------------------------------------------------

const ADD: &str = "ALTER DATABASE d ADD FILE (NAME = d2, FILENAME = '/data/d_2.ndf', SIZE = 2MB)";
const FILES: &str = "SELECT COUNT(*) FROM d.sys.database_files";

fn with_d() -> Server {
    let server = Server::over(stopped_server());
    server.connect().done(
        "CREATE DATABASE d; CREATE TABLE d.dbo.t (i int PRIMARY KEY, v char(4000)); INSERT d.dbo.t VALUES (1, 'kept')",
    );
    server
}

#[test]
fn an_added_file_without_rows_is_removed() {
    for model in ["SIMPLE", "FULL"] {
        let server = with_d();
        let mut client = server.connect();
        client.done(&format!("ALTER DATABASE d SET RECOVERY {model}"));
        client.done(ADD);
        client.done("ALTER DATABASE d REMOVE FILE d2");
        assert_eq!(client.scalar(FILES), "2");
        assert_eq!(files_of_d(&server.disk).len(), 2);
        client.done("INSERT d.dbo.t VALUES (2, 'after')");
        // Its place and its name are free.
        client.done(ADD);
        client.done("USE d; DBCC SHRINKFILE (d2, EMPTYFILE); USE master");
        client.done("ALTER DATABASE d REMOVE FILE d2");
        client.done("DBCC CHECKDB (d) WITH NO_INFOMSGS");
        let server = server.crash();
        let mut client = server.connect();
        assert_eq!(client.scalar("SELECT COUNT(*) FROM d.dbo.t"), "2");
        assert_eq!(client.run("DBCC CHECKDB (d) WITH NO_INFOMSGS"), "");
        client.done(ADD);
    }
}

#[test]
fn a_file_with_rows_stays_until_they_are_elsewhere() {
    let server = with_d();
    let mut client = server.connect();
    client.done("ALTER DATABASE d ADD FILEGROUP g");
    client.done("ALTER DATABASE d ADD FILE (NAME = d2, FILENAME = '/data/d_2.ndf', SIZE = 2MB) TO FILEGROUP g");
    client.done("ALTER DATABASE d ADD FILE (NAME = d3, FILENAME = '/data/d_3.ndf', SIZE = 2MB) TO FILEGROUP g");
    client.done("CREATE TABLE d.dbo.u (i int PRIMARY KEY, v char(4000)) ON g");
    client.done("INSERT d.dbo.u SELECT TOP 50 ROW_NUMBER() OVER (ORDER BY object_id), 'u' FROM sys.all_objects");
    let refused = client.run("ALTER DATABASE d REMOVE FILE d2");
    assert_eq!(errors(&refused), [5042, 5069], "{refused}");
    // Of its pages none can be moved by the command itself, which says so; an index that is rebuilt leaves the file.
    let refused = client.run("USE d; DBCC SHRINKFILE (d2, EMPTYFILE)");
    assert_eq!(errors(&refused), [2555], "{refused}");
    client.done("USE d; ALTER INDEX ALL ON u REBUILD; USE master");
    client.done("ALTER DATABASE d REMOVE FILE d2");
    assert_eq!(client.scalar("SELECT COUNT(*) FROM d.dbo.u"), "50");
    // The last file of a filegroup that is in use has nowhere to move its pages to.
    let refused = client.run("USE d; DBCC SHRINKFILE (d3, EMPTYFILE)");
    assert_eq!(errors(&refused), [2556], "{refused}");
    client.done("INSERT d.dbo.u VALUES (100, 'more')");
    let server = server.crash();
    let mut client = server.connect();
    assert_eq!(client.scalar("SELECT COUNT(*) FROM d.dbo.u"), "51");
    assert_eq!(client.run("DBCC CHECKDB (d) WITH NO_INFOMSGS"), "");
}

/// A restore of the log would meet changes of a file that no backup knows.
#[test]
fn a_file_whose_changes_wait_for_a_log_backup_stays_until_then() {
    let server = with_d();
    let mut client = server.connect();
    client.done("ALTER DATABASE d SET RECOVERY FULL; BACKUP DATABASE d TO DISK = '/data/full.bak'");
    client.done("ALTER DATABASE d ADD FILEGROUP g");
    client.done("ALTER DATABASE d ADD FILE (NAME = d2, FILENAME = '/data/d_2.ndf', SIZE = 2MB) TO FILEGROUP g");
    client.done("CREATE TABLE d.dbo.u (i int PRIMARY KEY) ON g; INSERT d.dbo.u VALUES (1); DROP TABLE d.dbo.u");
    let refused = client.run("ALTER DATABASE d REMOVE FILE d2");
    assert_eq!(errors(&refused), [5042, 5069], "{refused}");
    client.done("BACKUP LOG d TO DISK = '/data/log1.bak'");
    client.done("ALTER DATABASE d REMOVE FILE d2; INSERT d.dbo.t VALUES (2, 'after')");
    client.done("BACKUP LOG d TO DISK = '/data/log2.bak'");
    let diff = client.run("BACKUP DATABASE d TO DISK = '/data/diff.bak' WITH DIFFERENTIAL");
    assert_eq!(errors(&diff).first(), Some(&3035), "{diff}");
    client.done("DROP DATABASE d; RESTORE DATABASE d FROM DISK = '/data/full.bak' WITH NORECOVERY");
    client.done("RESTORE LOG d FROM DISK = '/data/log1.bak' WITH NORECOVERY; RESTORE LOG d FROM DISK = '/data/log2.bak'");
    assert_eq!(client.scalar("SELECT COUNT(*) FROM d.dbo.t"), "2");
}

#[test]
fn a_stop_while_a_file_is_added_leaves_it_whole_or_not_at_all() {
    let server = with_d();
    let disk = server.stop();
    stop_everywhere(&disk, ADD, |server, write| {
        let mut client = server.connect();
        assert_eq!(client.scalar("SELECT COUNT(*) FROM d.dbo.t"), "1");
        if client.scalar(FILES) == "2" {
            assert_eq!(files_of_d(&server.disk).len(), 2, "{write}");
            client.done(ADD);
        }
        assert_eq!(client.scalar(FILES), "3");
        let server = server.restart_keeping(client);
        assert_eq!(server.connect().scalar(FILES), "3");
    });
}

#[test]
fn a_stop_while_a_file_is_removed_leaves_it_whole_or_not_at_all() {
    let server = with_d();
    server.connect().done(ADD);
    let disk = server.stop();
    stop_everywhere(&disk, "ALTER DATABASE d REMOVE FILE d2", |server, write| {
        let mut client = server.connect();
        assert_eq!(client.scalar("SELECT COUNT(*) FROM d.dbo.t"), "1");
        if client.scalar(FILES) == "3" {
            client.done("ALTER DATABASE d REMOVE FILE d2");
        }
        assert_eq!(client.scalar(FILES), "2");
        assert_eq!(files_of_d(&server.disk).len(), 2, "{write}");
        client.done(ADD);
    });
}

// --- files that were exchanged ------------------------------------------------------------------------------------

fn exchange(disk: &SimDisk, one: &str, other: &str) {
    let (one, other, aside) = (Path::new(one), Path::new(other), Path::new("/data/aside"));
    for (from, to) in [(one, aside), (other, one), (aside, other)] {
        disk.rename(from, to).expect("renames");
    }
}

#[test]
fn files_of_two_databases_that_were_exchanged_open_under_neither_name() {
    let server = with_d();
    server.connect().done("CREATE TABLE other.dbo.mine (i int)");
    let disk = server.stop();
    exchange(&disk, "/data/d.mdf", "/data/other.mdf");
    exchange(&disk, "/data/d_log.ldf", "/data/other_log.ldf");
    let server = Server::over(disk);
    let mut client = server.connect();
    for name in ["d", "other"] {
        let state = client.scalar(&format!(
            "SELECT state_desc FROM sys.databases WHERE name = '{name}'"
        ));
        assert_eq!(state, "SUSPECT", "{name}");
    }
    let log = client.run("EXEC xp_readerrorlog");
    assert!(log.contains("belong to another database"), "{log}");
    // Put right again, all is as it was.
    let disk = server.stop();
    exchange(&disk, "/data/d.mdf", "/data/other.mdf");
    exchange(&disk, "/data/d_log.ldf", "/data/other_log.ldf");
    let server = Server::over(disk);
    let mut client = server.connect();
    assert_eq!(client.scalar("SELECT COUNT(*) FROM d.dbo.t"), "1");
    assert_eq!(client.scalar("SELECT COUNT(*) FROM other.dbo.t"), "1");
}

/// A copy has the same content and the same history, and is another database all the same.
#[test]
fn files_of_a_restored_copy_do_not_pass_for_those_of_its_source() {
    let server = with_d();
    let mut client = server.connect();
    client.done("BACKUP DATABASE d TO DISK = '/data/x.bak'");
    client.done("RESTORE DATABASE e FROM DISK = '/data/x.bak' WITH MOVE 'd' TO '/data/e.mdf', MOVE 'd_log' TO '/data/e_log.ldf'");
    client.done("INSERT e.dbo.t VALUES (2, 'of e')");
    let server = server.restart_keeping(client);
    let mut client = server.connect();
    assert_eq!(client.scalar("SELECT COUNT(*) FROM e.dbo.t"), "2");
    // And over an existing database.
    client.done("RESTORE DATABASE d FROM DISK = '/data/x.bak' WITH REPLACE");
    client.session.close();
    let disk = server.stop();
    exchange(&disk, "/data/d.mdf", "/data/e.mdf");
    exchange(&disk, "/data/d_log.ldf", "/data/e_log.ldf");
    let server = Server::over(disk);
    let states =
        "SELECT COUNT(*) FROM sys.databases WHERE name IN ('d', 'e') AND state_desc = 'SUSPECT'";
    assert_eq!(server.connect().scalar(states), "2");
}
