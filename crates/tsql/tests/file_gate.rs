//! What statements may let the server write: never a file of a database or of the server itself, by whatever path, and a
//! backup takes the place of nothing but a backup.

mod common;

use common::rows::{read_file, server_with_rows, write_file};
use common::{Server, errors};
use daruma_base::Disk;
use std::path::Path;

/// Databases in every state beside `d`, and files of the server.
const SETUP: &[&str] = &[
    "CREATE DATABASE shut; CREATE DATABASE waits; ALTER DATABASE shut SET OFFLINE",
    "CREATE CREDENTIAL c WITH IDENTITY = 'i', SECRET = 's'",
    "BACKUP DATABASE d TO DISK = '/b/d.bak' WITH FORMAT",
    "BACKUP DATABASE waits TO DISK = '/b/waits.bak' WITH FORMAT",
    "RESTORE DATABASE waits FROM DISK = '/b/waits.bak' WITH NORECOVERY, REPLACE",
];

fn prepared() -> Server {
    let (server, client) = server_with_rows(20);
    drop(client);
    server.set_up(SETUP);
    write_file(&server, "/other/notes.txt", b"somebody's notes");
    write_file(&server, "/other/empty", b"");
    server
}

/// Files that are somebody's, by paths of several kinds.
fn owned(server: &Server) -> Vec<String> {
    let mut admin = server.connect();
    let out = admin.run("SELECT physical_name FROM sys.master_files");
    let files: Vec<String> = out
        .lines()
        .filter(|l| l.starts_with('/'))
        .map(str::to_string)
        .collect();
    assert!(files.len() >= 12, "{out}");
    let mut list = Vec::new();
    for file in files {
        let (folder, name) = file.rsplit_once('/').expect("a folder");
        list.push(format!(
            "{folder}/../{}/./{name}",
            folder.trim_start_matches('/')
        ));
        list.push(file);
    }
    for own in [
        "service_master.key",
        "log/errorlog",
        "log/errorlog.3",
        "spill/x",
    ] {
        list.push(format!("/data/{own}"));
    }
    list
}

#[test]
fn a_backup_never_replaces_a_file_of_a_database_or_of_the_server() {
    let server = prepared();
    let mut admin = server.connect();
    for path in owned(&server) {
        for statement in [
            format!("BACKUP DATABASE d TO DISK = '{path}' WITH FORMAT"),
            format!("BACKUP DATABASE d TO DISK = '{path}' WITH INIT"),
            format!("BACKUP DATABASE d TO DISK = '/b/one' MIRROR TO DISK = '{path}' WITH FORMAT"),
            format!("BACKUP DATABASE d TO DISK = '/b/one', DISK = '{path}' WITH FORMAT"),
            format!("BACKUP LOG d TO DISK = '{path}' WITH FORMAT"),
        ] {
            let out = admin.run(&statement);
            assert_eq!(errors(&out), [3201, 3013], "{statement}: {out}");
        }
    }
    let server = server.restart_keeping(admin);
    let mut admin = server.connect();
    admin.done("ALTER DATABASE shut SET ONLINE; RESTORE DATABASE waits WITH RECOVERY; DBCC CHECKDB (d) WITH NO_INFOMSGS");
}

#[test]
fn a_backup_replaces_nothing_but_a_backup() {
    let server = prepared();
    let mut admin = server.connect();
    for with in ["FORMAT", "INIT", "NOINIT"] {
        let out = admin.run(&format!(
            "BACKUP DATABASE d TO DISK = '/other/notes.txt' WITH {with}"
        ));
        assert_eq!(errors(&out), [3241, 3013], "{out}");
    }
    assert_eq!(read_file(&server, "/other/notes.txt"), b"somebody's notes");
    admin.done("BACKUP DATABASE d TO DISK = '/other/empty' WITH FORMAT");
    admin.done("BACKUP DATABASE d TO DISK = '/other/empty' WITH FORMAT");
    // A damaged one may be replaced: it was a backup.
    server.disk.flip(Path::new("/other/empty"), 100, 0x55);
    admin.done("BACKUP DATABASE d TO DISK = '/other/empty' WITH FORMAT");
    // What lies where the backup is made before it has its name.
    write_file(&server, "/other/b.partial", b"somebody's notes");
    let out = admin.run("BACKUP DATABASE d TO DISK = '/other/b' WITH FORMAT");
    assert_eq!(errors(&out), [3201, 3013], "{out}");
    assert_eq!(read_file(&server, "/other/b.partial"), b"somebody's notes");
}

#[test]
fn a_file_in_the_place_of_a_half_backup_is_nobodys_or_stays() {
    let server = prepared();
    let mut admin = server.connect();
    admin.done("CREATE DATABASE e ON (NAME = e, FILENAME = '/x/e.partial') LOG ON (NAME = l, FILENAME = '/x/l'); ALTER DATABASE e SET OFFLINE");
    let out = admin.run("BACKUP DATABASE d TO DISK = '/x/e' WITH FORMAT");
    assert_eq!(errors(&out), [3201, 3013], "{out}");
    admin.done("ALTER DATABASE e SET ONLINE");
}

#[test]
fn a_restore_puts_files_where_nobodys_are() {
    let server = prepared();
    let mut admin = server.connect();
    for path in owned(&server) {
        let out = admin.run(&format!(
            "RESTORE DATABASE z FROM DISK = '/b/d.bak' WITH MOVE 'd' TO '{path}', MOVE 'd_log' TO '/z/z.ldf', REPLACE"
        ));
        let first = errors(&out).first().copied();
        assert!(matches!(first, Some(1834 | 5170)), "{path}: {out}");
    }
    let twice = "RESTORE DATABASE z FROM DISK = '/b/d.bak' WITH MOVE 'd' TO '/z/z', MOVE 'd_log' TO '/z/../z/z'";
    assert_eq!(errors(&admin.run(twice)).first(), Some(&1834));
    let over = "RESTORE DATABASE z FROM DISK = '/b/d.bak' WITH MOVE 'd' TO '/b/d.bak', MOVE 'd_log' TO '/z/z.ldf', REPLACE";
    assert_eq!(errors(&admin.run(over)).first(), Some(&5170));
    let beside = "RESTORE DATABASE z FROM DISK = '/b/d.bak' WITH MOVE 'd' TO '/x/e', MOVE 'd_log' TO '/z/z.ldf'";
    admin.done("CREATE DATABASE e ON (NAME = e, FILENAME = '/x/e.restoring') LOG ON (NAME = l, FILENAME = '/x/l')");
    assert_eq!(errors(&admin.run(beside)).first(), Some(&1834));
    admin.done("DBCC CHECKDB (e) WITH NO_INFOMSGS; DBCC CHECKDB (d) WITH NO_INFOMSGS");
}

#[test]
fn an_undo_file_is_nobodys() {
    let server = prepared();
    let mut admin = server.connect();
    let mut paths = owned(&server);
    paths.push("/b/d.bak".to_string());
    for path in paths {
        let before = server.disk.exists(Path::new(&path)).unwrap_or(false);
        for statement in [
            format!(
                "RESTORE DATABASE z FROM DISK = '/b/d.bak' WITH MOVE 'd' TO '/z/z.mdf', MOVE 'd_log' TO '/z/z.ldf', STANDBY = '{path}'"
            ),
            format!(
                "RESTORE DATABASE waits FROM DISK = '/b/waits.bak' WITH REPLACE, STANDBY = '{path}'"
            ),
            format!("BACKUP LOG d TO DISK = '/b/tail' WITH STANDBY = '{path}'"),
        ] {
            let out = admin.run(&statement);
            assert_eq!(errors(&out).first(), Some(&3201), "{statement}: {out}");
        }
        assert_eq!(
            server.disk.exists(Path::new(&path)).unwrap_or(false),
            before,
            "{path}"
        );
    }
    admin.done("ALTER DATABASE shut SET ONLINE");
}

#[test]
fn a_database_is_made_where_nobodys_files_are() {
    let server = prepared();
    let mut admin = server.connect();
    // The file of a database that is offline is gone; its place is its own.
    let gone = admin.scalar("SELECT physical_name FROM sys.master_files WHERE name = 'shut'");
    server.disk.remove(Path::new(&gone)).expect("removes");
    for path in [
        gone.as_str(),
        "/data/log/errorlog.5",
        "/data/service_master.key",
    ] {
        let create = format!("CREATE DATABASE f ON (NAME = f, FILENAME = '{path}')");
        let first = errors(&admin.run(&create)).first().copied();
        assert!(matches!(first, Some(1834 | 5170)), "{path}");
        let add = format!("ALTER DATABASE d ADD FILE (NAME = f, FILENAME = '{path}')");
        let first = errors(&admin.run(&add)).first().copied();
        assert!(matches!(first, Some(1834 | 5170)), "{path}");
        let backup = format!("BACKUP DATABASE d TO DISK = '{path}'");
        let first = errors(&admin.run(&backup)).first().copied();
        assert_eq!(first, Some(3201), "{path}");
    }
}

#[test]
fn loading_files_is_not_reading_databases_or_keys() {
    let server = prepared();
    let mut admin = server.connect();
    admin.done("CREATE TABLE tempdb.dbo.lines (line varchar(max))");
    write_file(&server, "/other/lines", b"one\ntwo\n");
    for path in owned(&server) {
        for statement in [
            format!("BULK INSERT tempdb.dbo.lines FROM '{path}'"),
            format!(
                "BULK INSERT tempdb.dbo.lines FROM '/other/lines' WITH (FORMATFILE = '{path}')"
            ),
            format!("BULK INSERT tempdb.dbo.lines FROM '/other/lines' WITH (ERRORFILE = '{path}')"),
        ] {
            let out = admin.run(&statement);
            let is_refused = matches!(errors(&out).first(), Some(4860 | 4861));
            assert!(is_refused, "{statement}: {out}");
        }
    }
}

#[test]
fn a_backup_does_not_say_where_another_database_waits() {
    // The definition of a database that stands by, as somebody may have written it into a backup.
    let server = prepared();
    let mut admin = server.connect();
    admin.done("RESTORE DATABASE s FROM DISK = '/b/d.bak' WITH MOVE 'd' TO '/s/s.mdf', MOVE 'd_log' TO '/s/s.ldf', STANDBY = '/s/undo'");
    admin.done("RESTORE DATABASE s WITH RECOVERY");
    admin.done("BACKUP DATABASE s TO DISK = '/b/s.bak'");
    admin.done("RESTORE DATABASE s2 FROM DISK = '/b/s.bak' WITH MOVE 'd' TO '/s/2.mdf', MOVE 'd_log' TO '/s/2.ldf'");
    write_file(&server, "/s/undo", b"somebody's notes");
    admin.done("DROP DATABASE s2; DROP DATABASE s");
    assert!(server.disk.exists(Path::new("/s/undo")).unwrap_or(false));
}
