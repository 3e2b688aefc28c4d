//! BACKUP and RESTORE as statements: messages, chain, histories, and databases that come back whole.

mod common;

use common::rows::{self, MOVES, content, fill};
use common::{Client, Server};
use daruma_base::{Disk, OpenMode};
use daruma_sim::SimDisk;
use std::path::Path;

/// With an index, which is checked and comes back, too.
fn server_with_rows(count: usize) -> (Server, Client) {
    let (server, mut client) = rows::server_with_rows(count);
    client.run("USE d CREATE INDEX n ON t (name)");
    (server, client)
}

/// `12 pages ... in 0.001 seconds (1.234 MB/sec)` differs from run to run: numbers become `n`.
fn without_numbers(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c.is_ascii_digit() {
            true if out.ends_with('n') => {}
            true => out.push('n'),
            false => out.push(c),
        }
    }
    out
}

#[test]
fn a_full_backup_says_what_the_product_says_and_comes_back() {
    let (_server, mut client) = server_with_rows(200);
    let before = content(&mut client, "d");
    let out = client
        .run("BACKUP DATABASE d TO DISK = '/b/d.bak' WITH INIT, STATS = 50, CHECKSUM, COMPRESSION");
    let said = out.lines().filter(|line| !line.starts_with("Msg "));
    let lines: Vec<String> = said.map(without_numbers).collect();
    assert!(out.contains("100 percent processed."), "{out}");
    let tail = &lines[lines.len() - 4..];
    assert_eq!(
        tail,
        [
            "Processed n pages for database 'd', file 'd' on file n.",
            "n percent processed.",
            "Processed n pages for database 'd', file 'd_log' on file n.",
            "BACKUP DATABASE successfully processed n pages in n.n seconds (n.n MB/sec).",
        ]
    );
    fill(&mut client, 201, 260);
    client.run("USE master");
    let refused = client.run("RESTORE DATABASE d FROM DISK = '/b/d.bak'");
    assert!(
        refused.contains("Msg 3159") && refused.contains("Msg 3013"),
        "{refused}"
    );
    let out = client.run("RESTORE DATABASE d FROM DISK = '/b/d.bak' WITH REPLACE");
    assert!(
        out.contains("RESTORE DATABASE successfully processed"),
        "{out}"
    );
    assert_eq!(content(&mut client, "d"), before);
    let valid = client.run("RESTORE VERIFYONLY FROM DISK = '/b/d.bak'");
    assert!(
        valid.ends_with("The backup set on file 1 is valid.\n"),
        "{valid}"
    );
}

#[test]
fn a_copy_beside_the_original_needs_move() {
    let (server, mut client) = server_with_rows(50);
    client.run(
        "BACKUP DATABASE d TO DISK = '/b/1.bak', DISK = '/b/2.bak' WITH FORMAT, NO_COMPRESSION",
    );
    let out = client.run("RESTORE DATABASE e FROM DISK = '/b/2.bak', DISK = '/b/1.bak'");
    for number in ["Msg 1834", "Msg 3156", "Msg 3119", "Msg 3013"] {
        assert!(out.contains(number), "{out}");
    }
    let one = client.run("RESTORE DATABASE e FROM DISK = '/b/1.bak'");
    assert!(
        one.contains("Msg 3132") && one.contains("2 media families but only 1 are provided"),
        "{one}"
    );
    let out = client.run(
        "RESTORE DATABASE e FROM DISK = '/b/2.bak', DISK = '/b/1.bak'
         WITH MOVE 'd' TO '/x/e.mdf', MOVE 'd_log' TO '/x/e.ldf'",
    );
    assert!(out.contains("successfully processed"), "{out}");
    let (a, b) = (content(&mut client, "d"), content(&mut client, "e"));
    assert_eq!(a, b);
    let files = client.run("SELECT physical_name FROM e.sys.database_files ORDER BY file_id");
    assert!(
        files.contains("/x/e.mdf") && files.contains("/x/e.ldf"),
        "{files}"
    );
    let server = server.restart_keeping(client);
    let mut client = server.connect();
    assert_eq!(content(&mut client, "e"), a);
}

#[test]
fn triggers_of_definitions_go_with_the_database() {
    let (server, mut client) = server_with_rows(1);
    let made = client.run("CREATE TRIGGER keeps ON DATABASE FOR DROP_TABLE AS ROLLBACK");
    assert_eq!(made, "");
    client.run("BACKUP DATABASE d TO DISK = '/b/f.bak'");
    client.run("DROP TRIGGER keeps ON DATABASE");
    client.run(
        "RESTORE DATABASE e FROM DISK = '/b/f.bak' WITH MOVE 'd' TO '/x/e.mdf', MOVE 'd_log' TO '/x/e.ldf'",
    );
    let kept = |client: &mut Client| {
        let refused = client.run("USE e DROP TABLE t");
        assert!(refused.contains("Msg 3609"), "{refused}");
        let there = client.run("SELECT OBJECT_ID('e.dbo.t') - OBJECT_ID('e.dbo.t') AS there");
        assert!(there.contains("\n0\n"), "{there}");
    };
    kept(&mut client);
    let server = server.restart_keeping(client);
    let mut client = server.connect();
    kept(&mut client);
    let gone = client.run("USE d DROP TABLE t SELECT COUNT(*) AS n FROM sys.triggers");
    assert!(gone.contains("\n0\n"), "{gone}");
}

#[test]
fn the_log_chain_is_checked_and_rolls_forward() {
    let (_server, mut client) = server_with_rows(20);
    let none = client.run("BACKUP LOG d TO DISK = '/b/l.trn'");
    assert!(none.contains("Msg 4214"), "{none}");
    client.run("BACKUP DATABASE d TO DISK = '/b/f.bak'");
    fill(&mut client, 21, 40);
    let out = client.run("BACKUP LOG d TO DISK = '/b/l.trn'");
    assert!(out.contains("BACKUP LOG successfully processed"), "{out}");
    fill(&mut client, 41, 60);
    let diff = client.run("BACKUP DATABASE d TO DISK = '/b/d.bak' WITH DIFFERENTIAL");
    assert!(
        diff.contains("BACKUP DATABASE WITH DIFFERENTIAL successfully processed"),
        "{diff}"
    );
    fill(&mut client, 61, 80);
    client.run("BACKUP LOG d TO DISK = '/b/l.trn'");
    let last = content(&mut client, "d");
    client.run("USE master");

    client.run(&format!(
        "RESTORE DATABASE e FROM DISK = '/b/f.bak' WITH {MOVES}, NORECOVERY"
    ));
    assert_eq!(
        client.scalar("SELECT state_desc FROM sys.databases WHERE name = 'e'"),
        "RESTORING"
    );
    let used = client.run("USE e");
    assert!(used.contains("Msg 927"), "{used}");
    let gap = client.run("RESTORE LOG e FROM DISK = '/b/l.trn' WITH FILE = 2");
    assert!(gap.contains("Msg 4305"), "{gap}");
    let one = client.run("RESTORE LOG e FROM DISK = '/b/l.trn' WITH NORECOVERY");
    assert!(one.contains("RESTORE LOG successfully processed"), "{one}");
    let again = client.run("RESTORE LOG e FROM DISK = '/b/l.trn' WITH NORECOVERY");
    assert!(again.contains("Msg 4326"), "{again}");
    client.run("RESTORE LOG e FROM DISK = '/b/l.trn' WITH FILE = 2, NORECOVERY");
    client.run("RESTORE DATABASE e WITH RECOVERY");
    assert_eq!(content(&mut client, "e"), last);
    let over = client.run("RESTORE LOG e FROM DISK = '/b/l.trn' WITH FILE = 2");
    assert!(over.contains("Msg 3117"), "{over}");

    // The same by way of the differential.
    client.run("DROP DATABASE e");
    client.run(&format!(
        "RESTORE DATABASE e FROM DISK = '/b/f.bak' WITH {MOVES}, NORECOVERY"
    ));
    let diff = client.run("RESTORE DATABASE e FROM DISK = '/b/d.bak' WITH NORECOVERY");
    assert!(diff.contains("successfully processed"), "{diff}");
    client.run("RESTORE LOG e FROM DISK = '/b/l.trn' WITH FILE = 2, RECOVERY");
    assert_eq!(content(&mut client, "e"), last);
}

/// A point in time between two commits, out of one log backup.
#[test]
fn stopat_ends_before_the_first_later_commit() {
    let (_server, mut client) = server_with_rows(10);
    client.run("BACKUP DATABASE d TO DISK = '/b/f.bak'");
    fill(&mut client, 11, 20);
    let there = content(&mut client, "d");
    client.run("WAITFOR DELAY '00:00:05'");
    let moment = client.scalar("SELECT CONVERT(varchar(30), SYSDATETIME(), 121)");
    client.run("WAITFOR DELAY '00:00:05'");
    fill(&mut client, 21, 30);
    client.run("BACKUP LOG d TO DISK = '/b/l.trn'");
    client.run("USE master");
    client.run(&format!(
        "RESTORE DATABASE e FROM DISK = '/b/f.bak' WITH {MOVES}, NORECOVERY"
    ));
    let out = client.run(&format!(
        "RESTORE LOG e FROM DISK = '/b/l.trn' WITH STOPAT = '{moment}'"
    ));
    assert!(out.contains("RESTORE LOG successfully"), "{out}");
    assert_eq!(content(&mut client, "e"), there);
    // A new recovery path: log backups of the old one do not fit.
    client.run("BACKUP LOG e TO DISK = '/b/e.trn'");
    client.run("DROP DATABASE e");
    client.run(&format!(
        "RESTORE DATABASE e FROM DISK = '/b/f.bak' WITH {MOVES}, NORECOVERY"
    ));
    client.run("RESTORE LOG e FROM DISK = '/b/l.trn' WITH NORECOVERY");
    let other = client.run("RESTORE LOG e FROM DISK = '/b/e.trn'");
    assert!(other.contains("Msg 43"), "{other}");
}

/// A point in time before what is restored already: the step is refused, and another one is possible.
#[test]
fn stopat_before_what_is_there_is_too_early() {
    let (_server, mut client) = server_with_rows(10);
    let mut moments = Vec::new();
    let mut pass = |client: &mut Client| {
        client.run("WAITFOR DELAY '00:00:05'");
        moments.push(client.scalar("SELECT CONVERT(varchar(30), SYSDATETIME(), 121)"));
        client.run("WAITFOR DELAY '00:00:05'");
    };
    pass(&mut client);
    client.run("BACKUP DATABASE d TO DISK = '/b/f.bak'");
    fill(&mut client, 11, 20);
    pass(&mut client);
    fill(&mut client, 21, 30);
    client.run("BACKUP DATABASE d TO DISK = '/b/d.bak' WITH DIFFERENTIAL");
    client.run("BACKUP LOG d TO DISK = '/b/l1.trn'");
    let there = content(&mut client, "d");
    pass(&mut client);
    fill(&mut client, 31, 40);
    client.run("BACKUP LOG d TO DISK = '/b/l2.trn'");
    client.run("USE master");
    client.run(&format!(
        "RESTORE DATABASE e FROM DISK = '/b/f.bak' WITH {MOVES}, NORECOVERY"
    ));
    let mut says = |statement: &str, number: &str| {
        let out = client.run(statement);
        assert!(out.contains(number), "{statement}: {out}");
    };
    let stop = |kind: &str, file: &str, moment: &str| {
        format!("RESTORE {kind} e FROM DISK = '/b/{file}' WITH NORECOVERY, STOPAT = '{moment}'")
    };
    says(&stop("LOG", "l1.trn", &moments[0]), "Msg 4335");
    says(&stop("DATABASE", "d.bak", &moments[1]), "Msg 4338");
    says(
        "RESTORE LOG e FROM DISK = '/b/l1.trn' WITH NORECOVERY",
        "successfully",
    );
    says(&stop("LOG", "l2.trn", &moments[1]), "Msg 4335");
    says(&stop("LOG", "l2.trn", &moments[2]), "successfully");
    says("RESTORE DATABASE e WITH RECOVERY", "successfully");
    assert_eq!(content(&mut client, "e"), there);
}

#[test]
fn the_tail_of_the_log_goes_with_norecovery() {
    let (_server, mut client) = server_with_rows(10);
    client.run("BACKUP DATABASE d TO DISK = '/b/f.bak'");
    fill(&mut client, 11, 30);
    let all = content(&mut client, "d");
    client.run("USE master");
    let out = client.run("BACKUP LOG d TO DISK = '/b/tail.trn' WITH NORECOVERY");
    assert!(out.contains("BACKUP LOG successfully"), "{out}");
    assert_eq!(
        client.scalar("SELECT state_desc FROM sys.databases WHERE name = 'd'"),
        "RESTORING"
    );
    client.run("RESTORE DATABASE d FROM DISK = '/b/f.bak' WITH NORECOVERY");
    let out = client.run("RESTORE LOG d FROM DISK = '/b/tail.trn'");
    assert!(out.contains("RESTORE LOG successfully"), "{out}");
    assert_eq!(content(&mut client, "d"), all);
}

#[test]
fn a_failed_restore_leaves_the_old_database_alone() {
    let (server, mut client) = server_with_rows(60);
    client.run("BACKUP DATABASE d TO DISK = '/b/f.bak' WITH FORMAT");
    fill(&mut client, 61, 70);
    let before = content(&mut client, "d");
    client.run("USE master");
    let path = std::path::Path::new("/b/f.bak");
    let len = server.disk.len_of(path).expect("a backup");
    server.disk.flip(path, len / 2, 4);
    let verify = client.run("RESTORE VERIFYONLY FROM DISK = '/b/f.bak'");
    assert!(
        verify.contains("Msg 3203")
            && verify.contains("VERIFY DATABASE is terminating abnormally."),
        "{verify}"
    );
    let restore = client.run("RESTORE DATABASE d FROM DISK = '/b/f.bak' WITH REPLACE");
    assert!(
        restore.contains("Msg 3203") && restore.contains("Msg 3013"),
        "{restore}"
    );
    assert_eq!(content(&mut client, "d"), before);
    let missing = client.run("RESTORE DATABASE d FROM DISK = '/b/none.bak' WITH REPLACE");
    assert!(
        missing.contains("Msg 3201") && missing.contains("Operating system error 2("),
        "{missing}"
    );
    assert_eq!(content(&mut client, "d"), before);
}

#[test]
fn a_restoring_database_survives_a_restart_and_a_crash() {
    let (server, mut client) = server_with_rows(30);
    client.run("BACKUP DATABASE d TO DISK = '/b/f.bak'");
    fill(&mut client, 31, 50);
    client.run("BACKUP LOG d TO DISK = '/b/l.trn'");
    let all = content(&mut client, "d");
    client.run(&format!(
        "RESTORE DATABASE e FROM DISK = '/b/f.bak' WITH {MOVES}, NORECOVERY"
    ));
    let server = server.restart_keeping(client);
    let client = server.connect();
    drop(client);
    let server = server.crash();
    let mut client = server.connect();
    assert_eq!(
        client.scalar("SELECT state_desc FROM sys.databases WHERE name = 'e'"),
        "RESTORING"
    );
    client.run("RESTORE LOG e FROM DISK = '/b/l.trn'");
    assert_eq!(content(&mut client, "e"), all);
}

#[test]
fn headers_files_labels_and_histories() {
    let (_server, mut client) = server_with_rows(5);
    client.run("BACKUP DATABASE d TO DISK = '/b/h.bak' WITH NAME = N'first', DESCRIPTION = 'one', MEDIANAME = 'm'");
    client.run("BACKUP DATABASE d TO DISK = '/b/h.bak' WITH NAME = 'second', COPY_ONLY");
    client.run("BACKUP LOG d TO DISK = '/b/h.bak'");
    let header = client.run("RESTORE HEADERONLY FROM DISK = '/b/h.bak'");
    assert!(header.starts_with(
        "BackupName | BackupDescription | BackupType | ExpirationDate | Compressed | Position"
    ));
    assert!(
        header.contains("first | one | 1 | NULL | 1 | 1 | 2 | sa | DARUMA | d"),
        "{header}"
    );
    assert!(header.contains("(3 rows affected)"), "{header}");
    let files = client.run("RESTORE FILELISTONLY FROM DISK = '/b/h.bak' WITH FILE = 2");
    assert!(
        files.starts_with("LogicalName | PhysicalName | Type | FileGroupName | Size"),
        "{files}"
    );
    assert!(
        files.contains("d | /data/d.mdf | D | PRIMARY")
            && files.contains("d_log | /data/d_log.ldf | L | NULL"),
        "{files}"
    );
    let label = client.run("RESTORE LABELONLY FROM DISK = '/b/h.bak'");
    assert!(
        label.contains("m | 0x") || label.contains("m | "),
        "{label}"
    );
    let absent = client.run("RESTORE HEADERONLY FROM DISK = '/b/h.bak' WITH FILE = 9");
    assert!(absent.contains("Msg 4038"), "{absent}");
    let sets = client.run(
        "SELECT s.position, s.type, s.name, s.is_copy_only, f.physical_device_name, f.device_type
         FROM msdb.dbo.backupset s JOIN msdb.dbo.backupmediafamily f ON f.media_set_id = s.media_set_id ORDER BY s.backup_set_id",
    );
    assert!(sets.contains("1 | D | first | 0 | /b/h.bak | 2"), "{sets}");
    assert!(sets.contains("2 | D | second | 1 | /b/h.bak | 2"), "{sets}");
    assert!(sets.contains("3 | L | NULL | 0 | /b/h.bak | 2"), "{sets}");
    client.run("RESTORE DATABASE e FROM DISK = '/b/h.bak' WITH MOVE 'd' TO '/x/e.mdf', MOVE 'd_log' TO '/x/e.ldf'");
    let restores = client.run("SELECT destination_database_name, restore_type, recovery, backup_set_id FROM msdb.dbo.restorehistory");
    assert!(restores.contains("e | D | 1 | 1"), "{restores}");
}

#[test]
fn a_backup_that_has_not_expired_is_not_overwritten() {
    let (_server, mut client) = server_with_rows(5);
    let refused = "Msg 4030, Level 16";
    for (at, kept) in [
        ("RETAINDAYS = 30", "expires on"),
        (
            "EXPIREDATE = '2099-01-02 03:04'",
            "expires on Jan  2 2099  3:04:00:000AM and cannot be overwritten",
        ),
    ] {
        client.run("BACKUP DATABASE d TO DISK = '/b/k.bak' WITH FORMAT");
        client.run(&format!(
            "BACKUP DATABASE d TO DISK = '/b/k.bak' WITH INIT, NAME = 'kept', {at}"
        ));
        for again in ["INIT", "INIT, NOSKIP"] {
            let answer = client.run(&format!(
                "BACKUP DATABASE d TO DISK = '/b/k.bak' WITH {again}"
            ));
            assert!(
                answer.contains(refused) && answer.contains(kept),
                "{answer}"
            );
            let answer = client.run(&format!("BACKUP LOG d TO DISK = '/b/k.bak' WITH {again}"));
            assert!(answer.contains(refused), "{answer}");
        }
        // Another one behind it does no harm, and does not make it fall due.
        client.run("BACKUP DATABASE d TO DISK = '/b/k.bak'");
        let header = client.run("RESTORE HEADERONLY FROM DISK = '/b/k.bak'");
        assert!(header.contains("kept | NULL | 1 | 20"), "{header}");
        let answer = client.run("BACKUP DATABASE d TO DISK = '/b/k.bak' WITH INIT");
        assert!(answer.contains(refused), "{answer}");
        let answer = client.run("BACKUP DATABASE d TO DISK = '/b/k.bak' WITH INIT, SKIP");
        assert!(!answer.contains("Msg 4030"), "{answer}");
        let header = client.run("RESTORE HEADERONLY FROM DISK = '/b/k.bak'");
        assert!(header.contains("(1 row affected)"), "{header}");
    }
    // What has fallen due is overwritten.
    client.run("BACKUP DATABASE d TO DISK = '/b/o.bak' WITH EXPIREDATE = '2001-01-01'");
    let answer = client.run("BACKUP DATABASE d TO DISK = '/b/o.bak' WITH INIT");
    assert!(!answer.contains("Msg 4030"), "{answer}");
}

#[test]
fn what_cannot_be_is_refused_in_the_products_words() {
    let (_server, mut client) = server_with_rows(5);
    for (statement, number) in [
        ("BACKUP DATABASE nope TO DISK = '/b/x'", "Msg 911"),
        ("BACKUP DATABASE tempdb TO DISK = '/b/x'", "Msg 3147"),
        (
            "BEGIN TRAN BACKUP DATABASE d TO DISK = '/b/x' ROLLBACK",
            "Msg 3021",
        ),
        (
            "BACKUP DATABASE d TO DISK = '/b/x' WITH DIFFERENTIAL",
            "Msg 3035",
        ),
        ("BACKUP LOG master TO DISK = '/b/x'", "Msg 4212"),
        ("BACKUP LOG msdb TO DISK = '/b/x'", "Msg 4208"),
        ("BACKUP DATABASE d TO dev", "Msg 3206"),
        ("RESTORE DATABASE master FROM DISK = '/b/x'", "Msg 3201"),
        ("RESTORE DATABASE d WITH RECOVERY", "Msg 3153"),
    ] {
        let out = client.run(statement);
        assert!(out.contains(number), "{statement}: {out}");
    }
    client.run("BACKUP DATABASE d TO DISK = '/b/one'");
    let two = client.run("BACKUP DATABASE d TO DISK = '/b/one', DISK = '/b/two' WITH INIT");
    assert!(two.contains("Msg 3231"), "{two}");
    let used = client.run("USE d RESTORE DATABASE d FROM DISK = '/b/one' WITH REPLACE");
    assert!(used.contains("Msg 3102"), "{used}");
    client.run("USE master");
    let nul = client.run("BACKUP DATABASE d TO DISK = 'NUL' WITH COPY_ONLY");
    assert!(nul.contains("successfully processed"), "{nul}");
}

/// Secrets of credentials are not in master's files, but behind a key of the server's own.
#[test]
fn a_credentials_secret_is_encrypted() {
    let (server, mut client) = server_with_rows(1);
    client.run("CREATE CREDENTIAL [s3://h/b] WITH IDENTITY = 'S3 Access Key', SECRET = 'access:GeheimesWort'");
    client.run(
        "ALTER CREDENTIAL [s3://h/b] WITH IDENTITY = 'S3 Access Key', SECRET = 'access:NeuesWort'",
    );
    let server = server.restart_keeping(client);
    for path in ["/data/master.mdf", "/data/master_log.ldf"] {
        let path = std::path::Path::new(path);
        let file =
            daruma_base::Disk::open(server.disk.as_ref(), path, daruma_base::OpenMode::ReadOnly);
        // The server holds a lock against writers only.
        let file = file.expect("opens");
        let mut bytes = vec![0; file.len().expect("a length") as usize];
        file.read_at(&mut bytes, 0).expect("reads");
        for word in ["GeheimesWort", "NeuesWort"] {
            assert!(
                !bytes.windows(word.len()).any(|w| w == word.as_bytes()),
                "{path:?}"
            );
        }
        assert!(
            path.ends_with("master_log.ldf") || bytes.windows(13).any(|w| w == b"S3 Access Key")
        );
    }
    let mut client = server.connect();
    assert_eq!(
        client.scalar("SELECT credential_identity FROM sys.credentials"),
        "S3 Access Key"
    );
}

/// No device is ever made of it.
struct Unreachable;

impl daruma_backup::UrlDevices for Unreachable {
    fn device(
        &self,
        url: &str,
        _: Option<&daruma_backup::Credential>,
    ) -> daruma_backup::Result<std::sync::Arc<dyn daruma_backup::Device>> {
        panic!("a device for {url} without its secret");
    }
}

/// Without the server's key a secret cannot be read, and the server says so instead of using something else.
#[test]
fn a_lost_master_key_is_told() {
    let (server, mut client) = server_with_rows(1);
    client.run("CREATE CREDENTIAL [s3://h/b] WITH IDENTITY = 'S3 Access Key', SECRET = 'access:GeheimesWort'");
    let server = server.restart_keeping(client);
    let key = std::path::Path::new("/data/service_master.key");
    daruma_base::Disk::remove(server.disk.as_ref(), key).expect("is there");
    let devices = server
        .instance
        .url_devices
        .set(std::sync::Arc::new(Unreachable));
    assert!(devices.is_ok());
    let mut client = server.connect();
    let out = client.run("BACKUP DATABASE d TO URL = 's3://h/b/x'");
    assert!(
        out.contains("Msg 15466")
            && out.contains("An error occurred during decryption.")
            && out.contains("Msg 3013"),
        "{out}"
    );
}

/// It has no changes, and its counters are in it already: saving them must not stand in the way.
#[test]
fn a_read_only_database_is_backed_up_and_goes_offline() {
    let (_server, mut client) = server_with_rows(20);
    client.run("CREATE TABLE i (id int IDENTITY, v int) INSERT i (v) VALUES (1)");
    let before = content(&mut client, "d");
    client.run("USE master ALTER DATABASE d SET READ_ONLY");
    let out = client.run("BACKUP DATABASE d TO DISK = '/b/d.bak' WITH INIT");
    assert!(out.contains("BACKUP DATABASE successfully"), "{out}");
    let out = client.run("BACKUP LOG d TO DISK = '/b/l.bak' WITH INIT");
    assert!(out.contains("BACKUP LOG successfully"), "{out}");
    let out = client.run("ALTER DATABASE d SET OFFLINE ALTER DATABASE d SET ONLINE");
    assert!(!out.contains("Msg "), "{out}");
    assert_eq!(content(&mut client, "d"), before);
    let out = client.run("RESTORE DATABASE d FROM DISK = '/b/d.bak' WITH REPLACE");
    assert!(out.contains("RESTORE DATABASE successfully"), "{out}");
    assert_eq!(content(&mut client, "d"), before);
    client.run("ALTER DATABASE d SET READ_WRITE");
    client.run("INSERT d.dbo.i (v) VALUES (2)");
    assert_eq!(client.scalar("SELECT MAX(id) FROM d.dbo.i"), "2");
}

/// An option of another statement would be ignored.
#[test]
fn an_option_of_another_statement_is_refused() {
    let (_server, mut client) = server_with_rows(5);
    client.done("BACKUP DATABASE d TO DISK = '/b/d'");
    for (statement, number) in [
        (
            "BACKUP DATABASE d TO DISK = '/b/x' WITH REPLACE, STOPAT = '2026-01-01'",
            3032,
        ),
        ("BACKUP DATABASE d TO DISK = '/b/x' WITH NORECOVERY", 3032),
        ("BACKUP LOG d TO DISK = '/b/x' WITH DIFFERENTIAL", 3032),
        ("RESTORE DATABASE e FROM DISK = '/b/d' WITH COPY_ONLY", 3032),
        ("RESTORE HEADERONLY FROM DISK = '/b/d' WITH REPLACE", 3032),
        (
            "BACKUP DATABASE d TO DISK = '/b/x' WITH COMPRESSION (ALGORITHM = ZSTD, WINDOW = 5)",
            40517,
        ),
        (
            "BACKUP DATABASE d TO DISK = '/b/x' WITH ENCRYPTION (ALGORITHM = AES_256, PASSWORD = 'p', SERVER CERTIFICATE = c)",
            40517,
        ),
    ] {
        let out = client.run(statement);
        assert_eq!(
            common::errors(&out).first(),
            Some(&number),
            "{statement}: {out}"
        );
    }
}

/// What it keeps can be backed up once more.
#[test]
fn a_backup_of_the_log_without_truncation_leaves_it() {
    let (_server, mut client) = server_with_rows(5);
    client.done("BACKUP DATABASE d TO DISK = '/b/d'");
    client.done("BACKUP LOG d TO DISK = '/b/kept' WITH NO_TRUNCATE; BACKUP LOG d TO DISK = '/b/l'");
    let first = |client: &mut Client, file: &str| {
        let out = client.run(&format!("RESTORE HEADERONLY FROM DISK = '{file}'"));
        let mut lines = out.lines();
        let at = lines
            .next()
            .and_then(|l| l.split(" | ").position(|name| name == "FirstLSN"));
        let cells = lines.next().and_then(|l| l.split(" | ").nth(at.unwrap()));
        cells.unwrap_or(&out).to_string()
    };
    assert_eq!(first(&mut client, "/b/kept"), first(&mut client, "/b/l"));
}

/// The files of the database as they were before its full backup, under a server that knows of that.
#[test]
fn a_database_that_was_cut_back_before_its_full_backup_has_no_base() {
    let (server, client) = server_with_rows(20);
    client.session.close();
    let disk = server.stop();
    let paths = ["/data/d.mdf", "/data/d_log.ldf"].map(Path::new);
    let before = paths.map(|path| read(&disk, path));
    let server = Server::over(disk);
    let mut client = server.connect();
    fill(&mut client, 21, 400);
    client.done("USE master; BACKUP DATABASE d TO DISK = '/b/d'");
    client.done("BACKUP DATABASE d TO DISK = '/b/good' WITH DIFFERENTIAL");
    client.session.close();
    let disk = server.stop();
    for (path, bytes) in paths.iter().zip(&before) {
        disk.remove(path).expect("removes");
        let file = disk.open(path, OpenMode::CreateNew).expect("creates");
        file.write_at(bytes, 0).expect("writes");
        file.sync_data().expect("syncs");
    }
    // Opened twice: the first server has the random numbers of the one before.
    let server = Server::over(disk).restart();
    let mut client = server.connect();
    let out = client.run("BACKUP DATABASE d TO DISK = '/b/bad' WITH DIFFERENTIAL");
    assert_eq!(common::errors(&out).first(), Some(&3035), "{out}");
    client.done("BACKUP DATABASE d TO DISK = '/b/again'");
    client.done("BACKUP DATABASE d TO DISK = '/b/good' WITH DIFFERENTIAL, INIT");
}

fn read(disk: &SimDisk, path: &Path) -> Vec<u8> {
    let file = disk.open(path, OpenMode::ReadOnly).expect("opens");
    let mut bytes = vec![0; disk.len_of(path).expect("a file") as usize];
    file.read_at(&mut bytes, 0).expect("reads");
    bytes
}

/// Nothing was written between the two: the log backup ends where the full one does, and is the next of the chain.
#[test]
fn a_log_backup_at_once_behind_a_full_one_is_restored() {
    let server = Server::new();
    let mut client = server.connect();
    client.run("CREATE DATABASE d");
    client.run("BACKUP DATABASE d TO DISK = '/b/a.bak'");
    client.run("USE d; CREATE TABLE t (i int); INSERT t VALUES (1); USE master");
    client.run("BACKUP DATABASE d TO DISK = '/b/f.bak'");
    client.run("BACKUP LOG d TO DISK = '/b/l.trn'");
    client.run("INSERT d.dbo.t VALUES (2)");
    client.run("BACKUP LOG d TO DISK = '/b/m.trn'");
    client.run(&format!(
        "RESTORE DATABASE e FROM DISK = '/b/f.bak' WITH {MOVES}, NORECOVERY"
    ));
    for log in ["l", "m"] {
        let out = client.run(&format!(
            "RESTORE LOG e FROM DISK = '/b/{log}.trn' WITH NORECOVERY"
        ));
        assert!(out.contains("RESTORE LOG successfully processed"), "{out}");
    }
    client.run("RESTORE DATABASE e WITH RECOVERY");
    assert_eq!(client.scalar("SELECT SUM(i) FROM e.dbo.t"), "3");
}
