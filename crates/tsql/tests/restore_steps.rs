//! Databases between two restores: readable ones (STANDBY), and ones of which single pages are restored.

mod common;

use common::{Client, Server};
use daruma_base::{Disk, OpenMode};
use std::path::Path;

fn server_with_rows(rows: usize) -> (Server, Client) {
    let server = Server::new();
    let mut client = server.connect();
    client.run("CREATE DATABASE d");
    client.run("CREATE TABLE d.dbo.t (id int NOT NULL PRIMARY KEY, name nvarchar(400) NOT NULL)");
    fill(&mut client, 1, rows);
    (server, client)
}

fn fill(client: &mut Client, from: usize, to: usize) {
    for n in from..=to {
        client.run(&format!(
            "INSERT d.dbo.t VALUES ({n}, REPLICATE(N'row {n} ', 20))"
        ));
    }
}

fn rows(client: &mut Client, database: &str) -> String {
    client.run(&format!(
        "SELECT COUNT(*), SUM(CAST(id AS bigint)), SUM(LEN(name)) FROM {database}.dbo.t"
    ))
}

fn content(client: &mut Client, database: &str) -> String {
    let check = client.run(&format!("DBCC CHECKDB ({database})"));
    assert!(
        check.contains("0 allocation errors and 0 consistency errors"),
        "{check}"
    );
    rows(client, database)
}

fn state(client: &mut Client) -> String {
    client.scalar("SELECT CONCAT(state_desc, ' ', is_in_standby, is_read_only) FROM sys.databases WHERE name = 'e'")
}

/// Full backup and three log backups of a growing table; what it held at the end of each. A transaction is open at the
/// end of the first two.
fn history(server: &Server, client: &mut Client) -> Vec<String> {
    client.run("BACKUP DATABASE d TO DISK = '/b/f'");
    let mut contents = vec![rows(client, "d")];
    let mut open = server.connect();
    open.run("BEGIN TRAN UPDATE d.dbo.t SET name = N'not yet' WHERE id <= 10");
    for n in 0..3 {
        let from = 1_000 + 20 * n;
        fill(client, from, from + 19);
        client.run(&format!("BACKUP LOG d TO DISK = '/b/l{n}'"));
        if n == 2 {
            break;
        }
        let committed = "SELECT COUNT(*), SUM(CAST(id AS bigint)), SUM(LEN(name)) FROM d.dbo.t";
        contents.push(client.run(committed));
    }
    open.run("COMMIT");
    client.run("BACKUP LOG d TO DISK = '/b/l3'");
    contents.push(rows(client, "d"));
    contents
}

const MOVES: &str = "MOVE 'd' TO '/x/e.mdf', MOVE 'd_log' TO '/x/e.ldf'";
const STANDBY: &str = "STANDBY = '/x/e.undo'";

#[test]
fn a_standby_database_is_read_between_restores() {
    let (server, mut client) = server_with_rows(100);
    let contents = history(&server, &mut client);
    let both = client.run(&format!(
        "RESTORE DATABASE e FROM DISK = '/b/f' WITH {MOVES}, NORECOVERY, {STANDBY}"
    ));
    assert!(both.contains("Msg 3031"), "{both}");
    let out = client.run(&format!(
        "RESTORE DATABASE e FROM DISK = '/b/f' WITH {MOVES}, {STANDBY}"
    ));
    assert!(out.contains("RESTORE DATABASE successfully"), "{out}");
    assert_eq!(state(&mut client), "ONLINE 11");
    assert_eq!(content(&mut client, "e"), contents[0]);
    for (statement, number) in [
        ("INSERT e.dbo.t VALUES (0, N'')", "Msg 3906"),
        ("CREATE TABLE e.dbo.u (a int)", "Msg 3906"),
        ("ALTER DATABASE e SET READ_WRITE", "Msg 5004"),
        ("BACKUP DATABASE e TO DISK = '/b/e'", "Msg 3036"),
        ("BACKUP LOG e TO DISK = '/b/e'", "Msg 3036"),
        ("RESTORE LOG e FROM DISK = '/b/l1'", "Msg 4305"),
    ] {
        let out = client.run(statement);
        assert!(out.contains(number), "{statement}: {out}");
    }
    assert_eq!(rows(&mut client, "e"), contents[0]);

    let reader = server.connect_to("e");
    let log = format!("RESTORE LOG e FROM DISK = '/b/l0' WITH {STANDBY}");
    let out = client.run(&log);
    assert!(out.contains("Msg 3101"), "{out}");
    reader.session.close();
    let out = client.run(&log);
    assert!(out.contains("RESTORE LOG successfully"), "{out}");
    assert_eq!(content(&mut client, "e"), contents[1]);

    let server = server.restart_keeping(client);
    let mut client = server.connect();
    assert_eq!(state(&mut client), "ONLINE 11");
    assert_eq!(content(&mut client, "e"), contents[1]);
    drop(client);
    let server = server.crash();
    let mut client = server.connect();
    assert_eq!(content(&mut client, "e"), contents[1]);

    client.run("RESTORE LOG e FROM DISK = '/b/l1' WITH NORECOVERY");
    assert_eq!(state(&mut client), "RESTORING 00");
    client.run(&format!("RESTORE DATABASE e WITH {STANDBY}"));
    assert_eq!(content(&mut client, "e"), contents[2]);
    client.run("RESTORE LOG e FROM DISK = '/b/l2' WITH NORECOVERY");
    let out = client.run("RESTORE LOG e FROM DISK = '/b/l3' WITH RECOVERY");
    assert!(out.contains("RESTORE LOG successfully"), "{out}");
    assert_eq!(state(&mut client), "ONLINE 00");
    assert_eq!(content(&mut client, "e"), contents[3]);
    client.run("INSERT e.dbo.t VALUES (0, N'')");
    assert!(!server.disk.exists(Path::new("/x/e.undo")).expect("looks"));
}

/// A backup of the tail of the log leaves the old database readable; a damaged log backup leaves the standby one so.
#[test]
fn standby_after_the_tail_and_after_a_failure() {
    let (server, mut client) = server_with_rows(30);
    client.run("BACKUP DATABASE d TO DISK = '/b/f'");
    fill(&mut client, 31, 40);
    let all = content(&mut client, "d");
    client.run("USE master");
    let out = client.run("BACKUP LOG d TO DISK = '/b/tail' WITH STANDBY = '/x/d.undo'");
    assert!(out.contains("BACKUP LOG successfully"), "{out}");
    assert_eq!(content(&mut client, "d"), all);
    let out = client.run("INSERT d.dbo.t VALUES (0, N'')");
    assert!(out.contains("Msg 3906"), "{out}");
    client.run(&format!(
        "RESTORE DATABASE e FROM DISK = '/b/f' WITH {MOVES}, {STANDBY}"
    ));
    let before = content(&mut client, "e");
    let tail = Path::new("/b/tail");
    let len = server.disk.len_of(tail).expect("a backup");
    server.disk.flip(tail, len / 3, 1);
    let out = client.run("RESTORE LOG e FROM DISK = '/b/tail'");
    assert!(out.contains("Msg 3013"), "{out}");
    assert_eq!(state(&mut client), "ONLINE 11");
    assert_eq!(content(&mut client, "e"), before);
    server.disk.flip(tail, len / 3, 1);
    client.run("RESTORE LOG e FROM DISK = '/b/tail'");
    assert_eq!(content(&mut client, "e"), all);
    assert_eq!(
        client.scalar("SELECT DATABASEPROPERTYEX('d', 'IsInStandBy')"),
        "1"
    );
    client.run("RESTORE DATABASE d WITH RECOVERY");
    assert_eq!(content(&mut client, "d"), all);
    client.run("INSERT d.dbo.t VALUES (0, N'')");
    assert_ne!(rows(&mut client, "d"), all);
}

/// Where these bytes are last in a data file: its page.
fn page_with(server: &Server, path: &str, wanted: &[u8]) -> u64 {
    let file = server
        .disk
        .open(Path::new(path), OpenMode::ReadOnly)
        .expect("opens");
    let mut bytes = vec![0; file.len().expect("a length") as usize];
    file.read_at(&mut bytes, 0).expect("reads");
    let at = bytes.windows(wanted.len()).rposition(|w| w == wanted);
    at.expect("the row") as u64 / 8192
}

fn damage(server: &Server, page: u64) {
    server
        .disk
        .flip(Path::new("/data/d.mdf"), page * 8192 + 5000, 0x55);
}

#[test]
fn damaged_pages_are_restored_and_rolled_forward() {
    let (server, mut client) = server_with_rows(300);
    client.run("BACKUP DATABASE d TO DISK = '/b/f'");
    client.run("UPDATE d.dbo.t SET name = name + N'!' WHERE id % 3 = 0");
    client.run("BACKUP LOG d TO DISK = '/b/l1'");
    fill(&mut client, 301, 320);
    client.run("BACKUP LOG d TO DISK = '/b/l2'");
    client.run("DELETE d.dbo.t WHERE id % 50 = 0");
    let all = content(&mut client, "d");
    let server = server.restart_keeping(client);
    let (one, two) = (
        page_with(&server, "/data/d.mdf", b"row 40 row 40"),
        page_with(&server, "/data/d.mdf", b"row 311 row 311"),
    );
    damage(&server, one);
    damage(&server, two);
    let mut client = server.connect();
    let bad = client.run("SELECT COUNT(*) FROM d.dbo.t WHERE name LIKE N'row%'");
    assert!(bad.contains("Msg 824"), "{bad}");

    let pages = format!("PAGE = '1:{one}, 1:{two}'");
    for (statement, number) in [
        (
            "RESTORE DATABASE d PAGE = '1:1' FROM DISK = '/b/f'",
            "Msg 3111",
        ),
        (
            "RESTORE DATABASE d PAGE = '1-7' FROM DISK = '/b/f'",
            "Msg 102",
        ),
        (
            "RESTORE DATABASE d PAGE = '1:200' FROM DISK = '/b/l1'",
            "Msg 3117",
        ),
        (
            "RESTORE DATABASE m PAGE = '1:200' FROM DISK = '/b/f'",
            "Msg 3118",
        ),
    ] {
        let out = client.run(statement);
        assert!(out.contains(number), "{statement}: {out}");
    }
    let out = client.run(&format!(
        "RESTORE DATABASE d {pages} FROM DISK = '/b/f' WITH NORECOVERY"
    ));
    assert!(
        out.contains("Processed 2 pages for database 'd', file 'd' on file 1."),
        "{out}"
    );
    assert_eq!(
        client.scalar("SELECT state_desc FROM sys.databases WHERE name = 'd'"),
        "RESTORING"
    );
    let gap = client.run("RESTORE LOG d FROM DISK = '/b/l2' WITH NORECOVERY");
    assert!(gap.contains("Msg 4305"), "{gap}");
    let out = client.run("RESTORE LOG d FROM DISK = '/b/l1' WITH NORECOVERY");
    assert!(out.contains("RESTORE LOG successfully"), "{out}");
    drop(client);
    let server = server.crash();
    let mut client = server.connect();
    let out = client.run("RESTORE LOG d FROM DISK = '/b/l2' WITH RECOVERY");
    assert!(out.contains("RESTORE LOG successfully"), "{out}");
    assert_eq!(content(&mut client, "d"), all);
    // The chain goes on.
    client.run("BACKUP LOG d TO DISK = '/b/l3'");
    for log in [
        "f' WITH NORECOVERY, MOVE 'd' TO '/x/e.mdf', MOVE 'd_log' TO '/x/e.ldf",
        "l1",
        "l2",
        "l3",
    ] {
        match log.len() {
            2 => client.run(&format!(
                "RESTORE LOG e FROM DISK = '/b/{log}' WITH NORECOVERY"
            )),
            _ => client.run(&format!("RESTORE DATABASE e FROM DISK = '/b/{log}'")),
        };
    }
    client.run("RESTORE DATABASE e WITH RECOVERY");
    assert_eq!(content(&mut client, "e"), all);
}
