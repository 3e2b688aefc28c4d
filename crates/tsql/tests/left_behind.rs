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
    let refused = client.run("USE d; BEGIN TRAN; DBCC SHRINKFILE (d2, EMPTYFILE)");
    assert_eq!(errors(&refused), [8920], "{refused}");
    client.done("ROLLBACK; DBCC SHRINKFILE (d2, EMPTYFILE); USE master");
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

/// Tables of every kind with pages in the file: long values, a heap, indexes (one disabled), several levels.
const FILL: &str = "
    ALTER DATABASE d ADD FILE (NAME = d2, FILENAME = '/data/d_2.ndf', SIZE = 8MB, FILEGROWTH = 4MB);
    USE d;
    CREATE TABLE c (id int CONSTRAINT pk_c PRIMARY KEY, v varchar(900), INDEX iv (v), INDEX idle (id));
    ALTER INDEX idle ON c DISABLE;
    INSERT c SELECT TOP 6000 ROW_NUMBER() OVER (ORDER BY a.object_id), REPLICATE(CHAR(65 + a.object_id % 26), 700)
        FROM sys.all_objects a CROSS JOIN (VALUES (1), (2), (3), (4), (5), (6), (7), (8), (9), (10), (11), (12), (13), (14), (15), (16), (17), (18), (19), (20)) n (n);
    CREATE TABLE h (id int, v varchar(7000));
    CREATE TABLE l (id int PRIMARY KEY, v varchar(max));
    INSERT h SELECT TOP 100 id, REPLICATE('h', 6000) FROM c;
    INSERT l SELECT TOP 20 id, REPLICATE(CAST('l' AS varchar(max)), 30000) FROM c;
    USE master";
const SUMS: &str = "SELECT CONCAT((SELECT CHECKSUM_AGG(CHECKSUM(id, v)) FROM d.dbo.c), ' ', (SELECT COUNT(*) FROM d.dbo.c WITH (INDEX (iv)) WHERE v >= ''), ' ',
    (SELECT SUM(id) + SUM(LEN(v)) FROM d.dbo.h), ' ', (SELECT SUM(LEN(v)) FROM d.dbo.l))";

#[test]
fn a_file_is_emptied_and_removed() {
    for accelerated in ["OFF", "ON"] {
        let server = with_d();
        let mut client = server.connect();
        client.done(&format!(
            "ALTER DATABASE d SET ACCELERATED_DATABASE_RECOVERY = {accelerated}"
        ));
        client.done(FILL);
        let sums = client.scalar(SUMS);
        let refused = client.run("ALTER DATABASE d REMOVE FILE d2");
        assert_eq!(errors(&refused), [5042, 5069], "{refused}");
        client.done("USE d; DBCC SHRINKFILE (d2, EMPTYFILE); USE master");
        assert_eq!(client.scalar(SUMS), sums);
        let disabled = "SELECT COUNT(*) FROM d.sys.indexes WHERE is_disabled = 1";
        assert_eq!(client.scalar(disabled), "1");
        assert_eq!(client.run("DBCC CHECKDB (d) WITH NO_INFOMSGS"), "");
        client.done("ALTER DATABASE d REMOVE FILE d2");
        let server = server.crash();
        let mut client = server.connect();
        assert_eq!(client.scalar(SUMS), sums);
        assert_eq!(client.scalar(FILES), "2");
        assert_eq!(client.run("DBCC CHECKDB (d) WITH NO_INFOMSGS"), "");
        client.done("USE d; INSERT c VALUES (0, 'after'); DELETE c WHERE id > 10");
    }
}

#[test]
fn a_file_is_emptied_beside_readers_and_writers() {
    let server = with_d();
    let mut client = server.connect();
    client.done(FILL);
    let (stop, server) = (std::sync::atomic::AtomicBool::new(false), &server);
    std::thread::scope(|threads| {
        for n in 0..3 {
            let stop = &stop;
            threads.spawn(move || {
                let mut client = server.connect_to("d");
                let mut round = 0;
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    round += 1;
                    let key = 10_000 * (n + 1) + round;
                    let out = client.run(&format!(
                        "INSERT c VALUES ({key}, REPLICATE('x', 600)); UPDATE c SET v = 'y' WHERE id = {key}; DELETE c WHERE id = {key}"
                    ));
                    assert!(errors(&out).is_empty(), "{out}");
                    let seen = client.scalar("SELECT COUNT(*) FROM c WITH (INDEX (pk_c)) WHERE id <= 6000");
                    assert_eq!(seen, "6000");
                }
            });
        }
        client.done("USE d; DBCC SHRINKFILE (d2, EMPTYFILE); USE master");
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    client.done("ALTER DATABASE d REMOVE FILE d2");
    assert_eq!(client.run("DBCC CHECKDB (d) WITH NO_INFOMSGS"), "");
}

/// Pages that were moved, or half of them, on disk or in the log only: nothing is lost, and the next attempt ends the work.
#[test]
fn a_stop_while_a_file_is_emptied_keeps_every_row() {
    for accelerated in ["OFF", "ON"] {
        let server = with_d();
        let mut client = server.connect();
        client.done(&format!(
            "ALTER DATABASE d SET ACCELERATED_DATABASE_RECOVERY = {accelerated}"
        ));
        client.done(&FILL.replace("TOP 6000", "TOP 800"));
        let sums = client.scalar(SUMS);
        client.session.close();
        let disk = server.stop();
        let work = "USE d; DBCC SHRINKFILE (d2, EMPTYFILE); CHECKPOINT; USE master";
        stop_everywhere(&disk, work, |server, write| {
            let mut client = server.connect();
            assert_eq!(client.scalar(SUMS), sums, "{write}");
            assert_eq!(
                client.run("DBCC CHECKDB (d) WITH NO_INFOMSGS"),
                "",
                "{write}"
            );
            client.done("USE d; DBCC SHRINKFILE (d2, EMPTYFILE); USE master");
            client.done("ALTER DATABASE d REMOVE FILE d2");
            let server = server.crash();
            let mut client = server.connect();
            assert_eq!(client.scalar(SUMS), sums, "{write}");
            assert_eq!(
                client.run("DBCC CHECKDB (d) WITH NO_INFOMSGS"),
                "",
                "{write}"
            );
        });
    }
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

// --- restores --------------------------------------------------------------------------------------------------------

const RESTORE: &str = "RESTORE DATABASE d FROM DISK = '/b/o.bak' WITH MOVE 'other' TO '/data/d.mdf', MOVE 'other_log' TO '/data/d_log.ldf'";

/// A stopped server with a backup of `other`, and what `more` says.
fn with_backup(more: &str) -> Arc<SimDisk> {
    let server = Server::over(stopped_server());
    let mut client = server.connect();
    client.done("BACKUP DATABASE other TO DISK = '/b/o.bak'");
    client.done(more);
    client.session.close();
    server.stop()
}

fn has_d(server: &Server) -> bool {
    let mut client = server.connect();
    client.scalar("SELECT COUNT(*) FROM sys.databases WHERE name = 'd'") == "1"
}

#[test]
fn a_stop_in_a_restore_of_a_new_database_leaves_the_name_free_or_a_whole_database() {
    for ending in ["", ", NORECOVERY", ", STANDBY = '/data/d_undo'"] {
        let work = format!("{RESTORE}{ending}");
        stop_everywhere(&with_backup("SELECT 1"), &work, |server, write| {
            let mut client = server.connect();
            if has_d(&server) {
                let state = client.scalar("SELECT state_desc FROM sys.databases WHERE name = 'd'");
                if state == "RESTORING" {
                    client.done("RESTORE DATABASE d WITH RECOVERY");
                }
                assert_eq!(
                    client.scalar("SELECT COUNT(*) FROM d.dbo.t"),
                    "1",
                    "{write}"
                );
                client.done("DROP DATABASE d");
            }
            assert_eq!(
                files_of_d(&server.disk),
                Vec::<PathBuf>::new(),
                "{work} {write}"
            );
            client.done(RESTORE);
            assert_eq!(client.scalar("SELECT COUNT(*) FROM d.dbo.t"), "1");
        });
    }
}

fn put(disk: &SimDisk, path: &str, content: &[u8]) {
    let file = disk
        .open(Path::new(path), OpenMode::CreateNew)
        .expect("makes");
    file.write_at(content, 0).expect("writes");
    file.sync_data().expect("syncs");
    disk.sync_dir(Path::new(path).parent().expect("a folder"))
        .expect("syncs");
}

fn content(disk: &SimDisk, path: &str, len: usize) -> Vec<u8> {
    let mut content = vec![0; len];
    let file = disk
        .open(Path::new(path), OpenMode::ReadOnly)
        .expect("is there");
    file.read_at(&mut content, 0).expect("reads");
    content
}

/// What is to be replaced is somebody's until it is.
#[test]
fn a_stop_in_a_restore_over_files_of_nobody_leaves_them_or_a_whole_database() {
    let disk = with_backup("SELECT 1");
    let notes = b"somebody's notes";
    put(&disk, "/data/d.mdf", notes);
    let work = format!("{RESTORE}, REPLACE");
    stop_everywhere(&disk, &work, |server, write| {
        let mut client = server.connect();
        if has_d(&server) {
            client.done("DROP DATABASE d");
            assert_eq!(files_of_d(&server.disk), Vec::<PathBuf>::new(), "{write}");
        } else {
            assert_eq!(
                files_of_d(&server.disk),
                [PathBuf::from("/data/d.mdf")],
                "{write}"
            );
            assert_eq!(
                content(&server.disk, "/data/d.mdf", notes.len()),
                notes,
                "{write}"
            );
        }
        client.done(&work);
    });
}

/// The files move: none of the old ones is left beside the new ones, nor the other way round.
#[test]
fn a_stop_in_a_restore_over_a_database_leaves_the_old_one_or_the_new_one() {
    let disk = with_backup("CREATE DATABASE d; CREATE TABLE d.dbo.old (i int)");
    let work = "RESTORE DATABASE d FROM DISK = '/b/o.bak' WITH MOVE 'other' TO '/data/d_new.mdf', MOVE 'other_log' TO '/data/d_new.ldf', REPLACE";
    stop_everywhere(&disk, work, |server, write| {
        let mut client = server.connect();
        let is_new = client.scalar("SELECT OBJECT_ID('d.dbo.t')") != "NULL";
        let names = match is_new {
            true => ["/data/d_new.ldf", "/data/d_new.mdf"],
            false => ["/data/d.mdf", "/data/d_log.ldf"],
        };
        let table = if is_new { "t" } else { "old" };
        client.done(&format!("SELECT COUNT(*) FROM d.dbo.{table}"));
        assert_eq!(
            files_of_d(&server.disk),
            names.map(PathBuf::from),
            "{write}"
        );
        client.done(work);
        client.done("CREATE TABLE d.dbo.after (i int); DROP DATABASE d");
        assert_eq!(files_of_d(&server.disk), Vec::<PathBuf>::new(), "{write}");
    });
}

/// No crash: writes fail, each in its own run, while files are named in roundabout ways.
#[test]
fn a_restore_that_fails_leaves_what_was_there() {
    let disk = with_backup("CREATE DATABASE d; CREATE TABLE d.dbo.old (i int)");
    let notes = b"somebody's notes";
    put(&disk, "/data/d_log.new", notes);
    let work = "RESTORE DATABASE d FROM DISK = '/b/o.bak' WITH MOVE 'other' TO '/data/../data/d.mdf', MOVE 'other_log' TO '/data/d_log.new', REPLACE";
    let begin = |disk: &Arc<SimDisk>| {
        let server = Server::over(disk.fork(1));
        let client = server.connect();
        (server, client)
    };
    let writes = {
        let (server, mut client) = begin(&disk);
        let before = server.disk.calls();
        client.done(work);
        server.disk.calls() - before
    };
    for write in (0..writes).step_by(writes.div_ceil(40) as usize) {
        let (server, mut client) = begin(&disk);
        server.disk.set_faults(Faults {
            fail_at: Some(server.disk.calls() + write),
            ..Faults::default()
        });
        let out = client.run(work);
        server.disk.set_faults(Faults::default());
        drop(client);
        let Server { disk, instance, .. } = server;
        drop(instance);
        disk.restart();
        let server = Server::over(disk);
        let mut client = server.connect();
        if client.scalar("SELECT OBJECT_ID('d.dbo.old')") == "NULL" {
            assert_eq!(
                client.scalar("SELECT COUNT(*) FROM d.dbo.t"),
                "1",
                "{write}: {out}"
            );
            continue;
        }
        assert!(!errors(&out).is_empty(), "{write}: {out}");
        client.done("SELECT COUNT(*) FROM d.dbo.old");
        assert_eq!(
            content(&server.disk, "/data/d_log.new", notes.len()),
            notes,
            "{write}: {out}"
        );
        let names = ["/data/d.mdf", "/data/d_log.ldf", "/data/d_log.new"];
        assert_eq!(
            files_of_d(&server.disk),
            names.map(PathBuf::from),
            "{write}: {out}"
        );
    }
}

/// Files that came after the full backup come with the log or with a differential.
#[test]
fn a_stop_while_a_restore_adds_files_leaves_none_that_is_in_the_way_of_the_next() {
    const LATER: &str = "
        BACKUP DATABASE other TO DISK = '/b/f.bak';
        ALTER DATABASE other ADD FILE (NAME = o2, FILENAME = '/data/other_2.ndf', SIZE = 2MB);
        INSERT other.dbo.t VALUES (2);
        BACKUP LOG other TO DISK = '/b/o.log';
        BACKUP DATABASE other TO DISK = '/b/o.diff' WITH DIFFERENTIAL;
        RESTORE DATABASE d FROM DISK = '/b/f.bak' WITH MOVE 'other' TO '/data/d.mdf', MOVE 'other_log' TO '/data/d_log.ldf', NORECOVERY";
    let disk = with_backup(LATER);
    for work in [
        "RESTORE LOG d FROM DISK = '/b/o.log' WITH MOVE 'o2' TO '/data/d_2.ndf'",
        "RESTORE DATABASE d FROM DISK = '/b/o.diff' WITH MOVE 'o2' TO '/data/d_2.ndf'",
    ] {
        stop_everywhere(&disk, work, |server, write| {
            let mut client = server.connect();
            let state = "SELECT state_desc FROM sys.databases WHERE name = 'd'";
            if client.scalar(state) == "RESTORING" {
                let out = client.run(work);
                // Its log had been taken in whole.
                if !errors(&out).is_empty() {
                    client.done("RESTORE DATABASE d WITH RECOVERY");
                }
            }
            assert_eq!(
                client.scalar("SELECT COUNT(*) FROM d.dbo.t"),
                "2",
                "{work} {write}"
            );
            assert_eq!(files_of_d(&server.disk).len(), 3, "{work} {write}");
            client.done("DROP DATABASE d");
            assert_eq!(
                files_of_d(&server.disk),
                Vec::<PathBuf>::new(),
                "{work} {write}"
            );
        });
    }
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
