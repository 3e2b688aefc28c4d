//! Databases between two restores: readable ones (STANDBY), and ones of which single pages are restored.

mod common;

use common::rows::{
    MOVES, content, damage, fill, page_with, read_file, rows, server_with_rows, write_file,
};
use common::{Client, Server};
use daruma_base::Disk;
use daruma_sim::Faults;
use std::path::Path;

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
        page_with(&server, b"row 40 row 40"),
        page_with(&server, b"row 311 row 311"),
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

/// `1:PAGE | event type | errors` of every row.
fn suspects(client: &mut Client) -> String {
    client.run(
        "SELECT CONCAT(d.name, ' ', file_id, ':', page_id, ' ', event_type, ' ', error_count)
         FROM msdb.dbo.suspect_pages s JOIN sys.databases d ON d.database_id = s.database_id ORDER BY page_id",
    )
}

/// A stopped server whose page with row 40 is damaged, started again.
fn with_damaged_page(server: Server, client: Client) -> (Server, Client, usize) {
    let server = server.restart_keeping(client);
    let page = page_with(&server, b"row 40 row 40");
    damage(&server, page);
    let client = server.connect();
    (server, client, page)
}

const NONE: &str = "(no name)\n(0 rows affected)\n";

#[test]
fn suspect_pages_are_noted_restored_and_forgotten() {
    let (server, mut client) = server_with_rows(300);
    client.run("BACKUP DATABASE d TO DISK = '/b/f'");
    assert_eq!(suspects(&mut client), NONE);
    let (_server, mut client, page) = with_damaged_page(server, client);
    let one = |event, errors| format!("(no name)\nd 1:{page} {event} {errors}\n(1 row affected)\n");

    let bad = client.run("SELECT name FROM d.dbo.t WHERE id = 40");
    assert!(bad.contains("Msg 824"), "{bad}");
    assert_eq!(suspects(&mut client), one(2, 1));
    let check = client.run("DBCC CHECKDB (d) WITH NO_INFOMSGS");
    assert!(check.contains("Msg 8928"), "{check}");
    assert_eq!(suspects(&mut client), one(2, 2));
    let stopped = client.run("BACKUP DATABASE d TO DISK = '/b/g'");
    assert!(stopped.contains("Msg 3043"), "{stopped}");
    assert_eq!(suspects(&mut client), one(2, 3));
    let kept =
        client.run("BACKUP DATABASE d TO DISK = '/b/g' WITH CONTINUE_AFTER_ERROR, COPY_ONLY");
    assert!(kept.contains("Msg 3042"), "{kept}");
    assert_eq!(suspects(&mut client), one(2, 4));

    let out = client.run(&format!(
        "RESTORE DATABASE d PAGE = '1:{page}' FROM DISK = '/b/f' WITH RECOVERY"
    ));
    assert!(out.contains("successfully processed"), "{out}");
    assert_eq!(suspects(&mut client), one(4, 4));
    client.run("DROP DATABASE d");
    let left = client.scalar("SELECT COUNT(*) FROM msdb.dbo.suspect_pages");
    assert_eq!(left, "0");
}

/// A lock on the table does not keep the error from being told.
#[test]
fn a_locked_table_of_suspect_pages_delays_no_error() {
    let (server, client) = server_with_rows(300);
    let (server, mut client, page) = with_damaged_page(server, client);
    client.run("BEGIN TRAN SELECT COUNT(*) FROM msdb.dbo.suspect_pages WITH (TABLOCKX, HOLDLOCK)");
    let bad = client.run("SELECT name FROM d.dbo.t WHERE id = 40");
    assert!(bad.contains("Msg 824"), "{bad}");
    client.run("IF @@TRANCOUNT > 0 ROLLBACK");
    client.session.close();
    let mut client = server.connect();
    let log = client.run("EXEC xp_readerrorlog");
    assert!(
        log.contains("msdb.dbo.suspect_pages could not be written"),
        "{log}"
    );
    client.run("SELECT name FROM d.dbo.t WHERE id = 40");
    assert!(suspects(&mut client).contains(&format!("1:{page} 2 1")));
}

fn files_of_pages(server: &Server) -> Vec<std::path::PathBuf> {
    let all = server.disk.list(Path::new("/data")).expect("lists");
    let is_one = |path: &std::path::PathBuf| path.to_string_lossy().contains(".pages");
    all.into_iter().filter(is_one).collect()
}

#[test]
fn a_database_dropped_or_replaced_while_pages_are_restored_leaves_no_file() {
    let (server, mut client) = server_with_rows(300);
    client.run("BACKUP DATABASE d TO DISK = '/b/f'");
    let before = content(&mut client, "d");
    let (server, mut client, page) = with_damaged_page(server, client);
    let begin = format!("RESTORE DATABASE d PAGE = '1:{page}' FROM DISK = '/b/f' WITH NORECOVERY");
    let bad = client.run("SELECT name FROM d.dbo.t WHERE id = 40");
    assert!(bad.contains("Msg 824"), "{bad}");
    client.run(&begin);
    assert_eq!(files_of_pages(&server).len(), 1);
    let out = client.run("RESTORE DATABASE d FROM DISK = '/b/f' WITH REPLACE");
    assert!(out.contains("RESTORE DATABASE successfully"), "{out}");
    assert_eq!(content(&mut client, "d"), before);
    assert!(files_of_pages(&server).is_empty());
    assert!(suspects(&mut client).contains(&format!("d 1:{page} 4 1")));

    client.run(&begin);
    assert_eq!(files_of_pages(&server).len(), 1);
    client.run("DROP DATABASE d");
    assert!(files_of_pages(&server).is_empty());
}

/// The database's own log begins too late: the log backup in between is asked for, and then it goes on.
#[test]
fn pages_want_the_log_that_the_database_no_longer_has() {
    let (server, mut client) = server_with_rows(300);
    client.run("BACKUP DATABASE d TO DISK = '/b/f'");
    client.run("CREATE TABLE d.dbo.long (a nvarchar(4000))");
    // The second time the log goes on in what the backup and the checkpoint have freed.
    for _ in 0..2 {
        client.run(
            "SET NOCOUNT ON DECLARE @i int = 0
             WHILE @i < 3000 BEGIN INSERT d.dbo.long VALUES (REPLICATE(N'x', 3500)) SET @i += 1 END
             SET NOCOUNT OFF",
        );
        client.run("BACKUP LOG d TO DISK = '/b/l'");
        client.run("USE d CHECKPOINT; USE master");
    }
    fill(&mut client, 301, 310);
    let all = content(&mut client, "d");
    let (_server, mut client, page) = with_damaged_page(server, client);
    let out = client.run(&format!(
        "RESTORE DATABASE d PAGE = '1:{page}' FROM DISK = '/b/f' WITH RECOVERY"
    ));
    assert!(
        out.contains("Msg 4303")
            && out.contains("roll forward past LSN")
            && out.contains("Msg 3013"),
        "{out}"
    );
    for log in ["FILE = 1, NORECOVERY", "FILE = 2, RECOVERY"] {
        let out = client.run(&format!("RESTORE LOG d FROM DISK = '/b/l' WITH {log}"));
        assert!(out.contains("RESTORE LOG successfully"), "{out}");
    }
    assert_eq!(content(&mut client, "d"), all);
}

fn state_of_d(client: &mut Client) -> String {
    client.scalar("SELECT state_desc FROM sys.databases WHERE name = 'd'")
}

fn pages_of_file(server: &Server) -> usize {
    read_file(server, "/data/d.mdf").len() / 8_192
}

const OFFLINE: &str = "ALTER DATABASE d SET OFFLINE WITH ROLLBACK IMMEDIATE";

/// A page that is neither in the backup nor in use: nothing could ever bring it.
#[test]
fn a_page_that_nobody_has_is_refused_before_anything_changes() {
    for is_offline in [false, true] {
        let (server, mut client) = server_with_rows(300);
        client.run("BACKUP DATABASE d TO DISK = '/b/f'");
        fill(&mut client, 301, 310);
        let all = content(&mut client, "d");
        if is_offline {
            client.run(OFFLINE);
        }
        let before = state_of_d(&mut client);
        let pages = pages_of_file(&server);
        for page in [pages - 10, pages + 10] {
            let out = client.run(&format!(
                "RESTORE DATABASE d PAGE = '1:{page}' FROM DISK = '/b/f' WITH NORECOVERY"
            ));
            let refused = format!("Page (1:{page}) was not backed up in file 1 on device '/b/f'");
            assert!(
                out.contains("Msg 3144") && out.contains(&refused),
                "{is_offline}: {out}"
            );
            assert_eq!(state_of_d(&mut client), before);
            assert!(files_of_pages(&server).is_empty());
        }
        client.run("ALTER DATABASE d SET ONLINE");
        assert_eq!(content(&mut client, "d"), all);
    }
}

/// The log has all of a page that was free when the backup was made.
#[test]
fn a_page_that_came_after_the_backup_is_brought_by_the_log() {
    let (server, mut client) = server_with_rows(10);
    client.run("BACKUP DATABASE d TO DISK = '/b/f'");
    fill(&mut client, 11, 300);
    client.run("BACKUP LOG d TO DISK = '/b/l1'");
    let all = content(&mut client, "d");
    let server = server.restart_keeping(client);
    let page = page_with(&server, b"row 290 row 290");
    damage(&server, page);
    let mut client = server.connect();
    let out = client.run(&format!(
        "RESTORE DATABASE d PAGE = '1:{page}' FROM DISK = '/b/f' WITH NORECOVERY
         RESTORE LOG d FROM DISK = '/b/l1' WITH RECOVERY"
    ));
    assert!(out.contains("RESTORE LOG successfully"), "{out}");
    assert_eq!(content(&mut client, "d"), all);
}

/// Whether the page is in use cannot be read when the restore begins. At its end it is known that it needs nothing.
#[test]
fn a_page_that_needs_nothing_keeps_nobody_from_recovery() {
    let (server, mut client) = server_with_rows(300);
    client.run("BACKUP DATABASE d TO DISK = '/b/f'");
    let all = rows(&mut client, "d");
    let server = server.restart_keeping(client);
    let (page, allocation) = (pages_of_file(&server) - 10, 1);
    damage(&server, allocation);
    let mut client = server.connect();
    let out = client.run(&format!(
        "RESTORE DATABASE d PAGE = '1:{page}' FROM DISK = '/b/f' WITH NORECOVERY"
    ));
    assert!(out.contains("successfully processed"), "{out}");
    let out = client.run("RESTORE DATABASE d WITH RECOVERY");
    assert!(
        out.contains(&format!("Page (1:{page}) was left as it is"))
            && out.contains("successfully processed"),
        "{out}"
    );
    assert_eq!(state_of_d(&mut client), "ONLINE");
    assert_eq!(rows(&mut client, "d"), all);
}

/// What holds for a database in use holds for one that is offline.
#[test]
fn pages_of_another_database_or_without_a_log_are_refused_offline_too() {
    let (server, mut client) = server_with_rows(300);
    client.run("BACKUP DATABASE d TO DISK = '/b/f'");
    client.run("CREATE DATABASE other");
    client.run("SELECT * INTO other.dbo.t FROM d.dbo.t");
    client.run("BACKUP DATABASE other TO DISK = '/b/other'");
    let all = content(&mut client, "d");
    client.run("USE other CHECKPOINT; USE d CHECKPOINT; USE master");
    let page = page_with(&server, b"row 40 row 40");
    for before in ["", OFFLINE] {
        client.run(before);
        let out = client.run(&format!(
            "RESTORE DATABASE d PAGE = '1:{page}' FROM DISK = '/b/other' WITH NORECOVERY"
        ));
        assert!(out.contains("Msg 3154"), "{before}: {out}");
        assert_ne!(state_of_d(&mut client), "RESTORING");
        client.run("ALTER DATABASE d SET ONLINE; ALTER DATABASE d SET RECOVERY SIMPLE");
        client.run(before);
        let out = client.run(&format!(
            "RESTORE DATABASE d PAGE = '1:{page}' FROM DISK = '/b/f' WITH NORECOVERY"
        ));
        assert!(out.contains("Msg 4208"), "{before}: {out}");
        assert_ne!(state_of_d(&mut client), "RESTORING");
        client.run("ALTER DATABASE d SET ONLINE; ALTER DATABASE d SET RECOVERY FULL");
    }
    assert_eq!(content(&mut client, "d"), all);
}

#[test]
fn an_offline_database_is_online_for_good_after_its_pages_are_restored() {
    let (server, mut client) = server_with_rows(300);
    client.run("BACKUP DATABASE d TO DISK = '/b/f'");
    let (server, mut client, page) = with_damaged_page(server, client);
    client.run(OFFLINE);
    let out = client.run(&format!(
        "RESTORE DATABASE d PAGE = '1:{page}' FROM DISK = '/b/f' WITH RECOVERY"
    ));
    assert!(out.contains("successfully processed"), "{out}");
    fill(&mut client, 301, 310);
    let all = content(&mut client, "d");
    let server = server.restart_keeping(client);
    let mut client = server.connect();
    assert_eq!(state_of_d(&mut client), "ONLINE");
    assert_eq!(content(&mut client, "d"), all);
}

/// The log in between is lost: the restore of the page can be given up, and nothing else is.
#[test]
fn a_page_restore_that_cannot_go_on_is_taken_back() {
    let (server, mut client) = server_with_rows(300);
    client.run("BACKUP DATABASE d TO DISK = '/b/f'");
    fill(&mut client, 301, 310);
    let all = content(&mut client, "d");
    let page = page_with(&server, b"row 40 row 40");
    for is_unreadable in [false, true] {
        client.run(&format!(
            "RESTORE DATABASE d PAGE = '1:{page}' FROM DISK = '/b/f' WITH NORECOVERY"
        ));
        assert_eq!(state_of_d(&mut client), "RESTORING");
        let kept = files_of_pages(&server);
        assert_eq!(kept.len(), 1);
        if is_unreadable {
            // Nor can these be read any more.
            server.disk.flip(&kept[0], 1_000, 1);
        }
        let out = client.run("ALTER DATABASE d SET OFFLINE");
        assert!(out.contains("Msg 5052"), "{out}");
        let out = client.run("ALTER DATABASE d SET ONLINE");
        assert!(!out.contains("Msg"), "{out}");
        assert_eq!(state_of_d(&mut client), "ONLINE");
        assert!(files_of_pages(&server).is_empty());
        assert_eq!(content(&mut client, "d"), all);
    }
    let server = server.restart_keeping(client);
    let mut client = server.connect();
    assert_eq!(state_of_d(&mut client), "ONLINE");
    assert_eq!(content(&mut client, "d"), all);
}

/// What a stop at some call of the disk leaves of a page restore.
#[derive(Clone, Copy, Debug)]
enum Way {
    GoOn,
    TakeBack,
}

/// The statements of a page restore; a crash may come in each.
fn steps(page: usize) -> [String; 3] {
    [
        format!("RESTORE DATABASE d PAGE = '1:{page}' FROM DISK = '/b/f' WITH NORECOVERY"),
        "RESTORE LOG d FROM DISK = '/b/l1' WITH NORECOVERY".into(),
        "RESTORE DATABASE d WITH RECOVERY".into(),
    ]
}

/// A database with a damaged page, and what it held before.
fn with_history_and_damage(seed: u64) -> (Server, Client, usize, String) {
    let server = Server::with_seed(seed);
    let mut client = server.connect();
    client.run("CREATE DATABASE d");
    client.run("CREATE TABLE d.dbo.t (id int NOT NULL PRIMARY KEY, name nvarchar(400) NOT NULL)");
    fill(&mut client, 1, 60);
    client.run("BACKUP DATABASE d TO DISK = '/b/f'");
    client.run("UPDATE d.dbo.t SET name = name + N'!' WHERE id % 3 = 0");
    client.run("BACKUP LOG d TO DISK = '/b/l1'");
    client.run("DELETE d.dbo.t WHERE id % 50 = 0");
    let all = content(&mut client, "d");
    let (server, client, page) = with_damaged_page(server, client);
    (server, client, page, all)
}

/// Wherever the machine stops, the restore goes on or begins anew, and every commit is there at its end.
#[test]
fn a_stop_in_a_page_restore_leaves_a_way_forward() {
    let (server, mut client, page, all) = with_history_and_damage(1);
    let calls = steps(page).map(|step| {
        let begin = server.disk.ios();
        let out = client.run(&step);
        assert!(out.contains("successfully processed"), "{out}");
        server.disk.ios() - begin
    });
    assert_eq!(content(&mut client, "d"), all);
    for (stopped, calls) in calls.into_iter().enumerate() {
        let every = (calls / 8).max(1) as usize;
        for (n, moment) in (0..calls).step_by(every).enumerate() {
            let way = [Way::GoOn, Way::TakeBack][n % 2];
            let at = format!("step {stopped}, call {moment} of {calls}, {way:?}");
            let (server, mut client, page, all) = with_history_and_damage(moment);
            for step in &steps(page)[..stopped] {
                client.run(step);
            }
            server.disk.set_faults(Faults {
                stop_io_at: Some(server.disk.ios() + moment),
                ..Faults::default()
            });
            client.run(&steps(page)[stopped]);
            drop(client);
            server.disk.set_faults(Faults::default());
            let server = server.crash();
            let mut client = server.connect();
            let is_under_way = state_of_d(&mut client) == "RESTORING";
            assert_eq!(
                files_of_pages(&server).len(),
                usize::from(is_under_way),
                "{at}"
            );
            finish(&mut client, page, way, &at);
            assert_eq!(content(&mut client, "d"), all, "{at}");
            client.run("INSERT d.dbo.t VALUES (0, N'')");
            let server = server.crash_after(client);
            let mut client = server.connect();
            assert_eq!(
                client.scalar("SELECT COUNT(*) FROM d.dbo.t WHERE id = 0"),
                "1",
                "{at}"
            );
            assert!(files_of_pages(&server).is_empty(), "{at}");
        }
    }
}

/// Somebody's own file is where the pages would go.
#[test]
fn a_file_at_the_place_of_the_pages_is_left() {
    let (server, mut client) = server_with_rows(60);
    client.run("BACKUP DATABASE d TO DISK = '/b/f'");
    let page = page_with(&server, b"row 40 row 40");
    write_file(&server, "/data/d.mdf.pages1", b"somebody's notes");
    let begin = format!("RESTORE DATABASE d PAGE = '1:{page}' FROM DISK = '/b/f' WITH NORECOVERY");
    let out = client.run(&begin);
    assert!(out.contains("Msg 3202"), "{out}");
    let server = server.restart_keeping(client);
    let mut client = server.connect();
    assert_eq!(state_of_d(&mut client), "ONLINE");
    assert_eq!(
        read_file(&server, "/data/d.mdf.pages1"),
        b"somebody's notes"
    );
}

/// Brings the page back after a crash, on one of two ways.
fn finish(client: &mut Client, page: usize, way: Way, at: &str) {
    if let (Way::TakeBack, "RESTORING") = (way, &*state_of_d(client)) {
        let out = client.run("ALTER DATABASE d SET ONLINE");
        assert!(!out.contains("Msg"), "{at}: {out}");
    }
    let [begin, log, recovery] = steps(page);
    if state_of_d(client) != "RESTORING" {
        client.run(&begin);
    }
    // It may have been applied: 4326.
    client.run(&log);
    let out = client.run(&recovery);
    assert!(out.contains("successfully processed"), "{at}: {out}");
    assert_eq!(state_of_d(client), "ONLINE", "{at}");
}
