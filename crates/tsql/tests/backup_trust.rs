//! Backups that are encrypted, and backups of a database that is damaged.

mod common;

use common::rows::{MOVES, content, fill, find, read_file, server_with_rows, write_file};
use daruma_base::Disk;
use std::path::Path;

/// Full, differential and log backups in stripes and mirrors, under a key file: listed without it, used with it only.
#[test]
fn a_key_file_opens_what_it_closed() {
    let (server, mut client) = server_with_rows(60);
    write_file(&server, "/keys/one", &[7; 32]);
    write_file(&server, "/keys/two", &[8; 32]);
    write_file(&server, "/keys/short", &[8; 31]);
    let with = "ENCRYPTION (ALGORITHM = AES_256, KEY FILE = '/keys/one')";
    let full = "DISK = '/b/1', DISK = '/b/2'";
    let out = client.run(&format!(
        "BACKUP DATABASE d TO {full} MIRROR TO DISK = '/m/1', DISK = '/m/2' WITH FORMAT, NO_COMPRESSION, {with}"
    ));
    assert!(out.contains("successfully processed"), "{out}");
    fill(&mut client, 61, 80);
    client.run(&format!(
        "BACKUP DATABASE d TO DISK = '/b/d' WITH DIFFERENTIAL, NO_COMPRESSION, {with}"
    ));
    fill(&mut client, 81, 90);
    let out = client.run(&format!(
        "BACKUP LOG d TO DISK = '/b/l' WITH NO_COMPRESSION, {with}"
    ));
    assert!(out.contains("BACKUP LOG successfully processed"), "{out}");
    let all = content(&mut client, "d");
    client.run("USE master");
    client.run("BACKUP DATABASE d TO DISK = '/b/plain' WITH COPY_ONLY, NO_COMPRESSION");
    let shows = |file: &str| find(&read_file(&server, file), b"row 61 row 61").is_some();
    assert!(shows("/b/plain"));
    for file in ["/b/1", "/b/2", "/b/d", "/b/l", "/m/1"] {
        assert!(!shows(file), "{file} shows what it holds");
    }

    let header = client.run(&format!("RESTORE HEADERONLY FROM {full}"));
    assert!(
        header.contains("AES_256 | 0x") && header.contains("| KEY FILE |"),
        "{header}"
    );
    let history =
        client.run("SELECT DISTINCT key_algorithm, encryptor_type FROM msdb.dbo.backupset WHERE is_copy_only = 0");
    assert!(
        history.contains("AES_256 | KEY FILE\n(1 row affected)"),
        "{history}"
    );

    for (option, number) in [
        ("STATS", "Msg 33111"),
        ("ENCRYPTION (KEY FILE = '/keys/two')", "Msg 33111"),
        ("ENCRYPTION (KEY FILE = '/keys/short')", "Msg 3201"),
        ("ENCRYPTION (KEY FILE = '/keys/none')", "Msg 3201"),
        ("ENCRYPTION (PASSWORD = 'x')", "Msg 33111"),
        ("ENCRYPTION (SERVER CERTIFICATE = c)", "Msg 40517"),
    ] {
        for statement in [
            format!("RESTORE VERIFYONLY FROM {full} WITH {option}"),
            format!("RESTORE DATABASE d FROM {full} WITH REPLACE, {option}"),
        ] {
            let out = client.run(&statement);
            assert!(
                out.contains(number) && out.contains("Msg 3013"),
                "{statement}: {out}"
            );
        }
    }
    assert_eq!(content(&mut client, "d"), all);

    let with = "ENCRYPTION (KEY FILE = '/keys/one')";
    let valid = client.run(&format!("RESTORE VERIFYONLY FROM {full} WITH {with}"));
    assert!(
        valid.contains("The backup set on file 1 is valid."),
        "{valid}"
    );
    client.run(&format!(
        "RESTORE DATABASE e FROM DISK = '/m/2', DISK = '/b/1' WITH {MOVES}, NORECOVERY, {with}"
    ));
    client.run(&format!(
        "RESTORE DATABASE e FROM DISK = '/b/d' WITH NORECOVERY, {with}"
    ));
    let refused = client.run("RESTORE LOG e FROM DISK = '/b/l'");
    assert!(refused.contains("Msg 33111"), "{refused}");
    client.run(&format!("RESTORE LOG e FROM DISK = '/b/l' WITH {with}"));
    assert_eq!(content(&mut client, "e"), all);
}

#[test]
fn a_password_opens_what_it_closed() {
    let (_server, mut client) = server_with_rows(20);
    let all = content(&mut client, "d");
    client.run("USE master");
    let out = client.run(
        "BACKUP DATABASE d TO DISK = '/b/p' WITH ENCRYPTION (ALGORITHM = AES_128, PASSWORD = N'Schlüssel')",
    );
    assert!(out.contains("successfully processed"), "{out}");
    let header = client.run("RESTORE HEADERONLY FROM DISK = '/b/p'");
    assert!(
        header.contains("AES_128") && header.contains("PASSWORD"),
        "{header}"
    );
    let from = "RESTORE DATABASE e FROM DISK = '/b/p'";
    for option in ["", ", ENCRYPTION (PASSWORD = N'schlüssel')"] {
        let out = client.run(&format!("{from} WITH {MOVES}{option}"));
        assert!(
            out.contains("Msg 3279") && out.contains("password failure"),
            "{out}"
        );
    }
    client.run(&format!(
        "{from} WITH {MOVES}, ENCRYPTION (PASSWORD = N'Schlüssel')"
    ));
    assert_eq!(content(&mut client, "e"), all);
    client.run("BACKUP DATABASE d TO DISK = '/b/plain'");
    let out =
        client.run("RESTORE VERIFYONLY FROM DISK = '/b/plain' WITH ENCRYPTION (PASSWORD = 'x')");
    assert!(out.contains("is not encrypted"), "{out}");
    let out = client.run("BACKUP DATABASE d TO DISK = '/b/q' WITH ENCRYPTION (ALGORITHM = TRIPLE_DES_3KEY, PASSWORD = 'x')");
    assert!(out.contains("Msg 40517"), "{out}");
}

/// A damaged page ends a backup, unless it is told to go on; then the set says so and restore wants to be told, too.
#[test]
fn a_damaged_page_stops_a_backup_or_is_kept() {
    let (server, mut client) = server_with_rows(300);
    client.run("USE d CHECKPOINT; USE master");
    let data = Path::new("/data/d.mdf");
    let at = find(&read_file(&server, "/data/d.mdf"), b"row 150 row 150").expect("the row");
    server.disk.flip(data, at as u64, 1);
    let page = at / 8192;

    let out = client.run("BACKUP DATABASE d TO DISK = '/b/x'");
    assert!(
        out.contains("Msg 3043") && out.contains(&format!("page (1:{page}) in file '/data/d.mdf'")),
        "{out}"
    );
    assert!(out.contains("Msg 3013") && !server.disk.exists(Path::new("/b/x")).expect("looks"));
    let out = client.run("BACKUP DATABASE d TO DISK = '/b/x' WITH STOP_ON_ERROR");
    assert!(out.contains("Msg 3043"), "{out}");
    let out = client.run("BACKUP DATABASE d TO DISK = '/b/x' WITH CONTINUE_AFTER_ERROR");
    assert!(
        out.contains("Msg 3042")
            && out.contains("generated a backup of the damaged database")
            && out.contains("successfully processed"),
        "{out}"
    );
    let damaged = client.scalar("SELECT is_damaged FROM msdb.dbo.backupset WHERE is_copy_only = 0");
    assert_eq!(damaged, "1");
    for statement in [
        "RESTORE VERIFYONLY FROM DISK = '/b/x'",
        "RESTORE DATABASE d FROM DISK = '/b/x' WITH REPLACE",
    ] {
        let out = client.run(statement);
        assert!(
            out.contains("Msg 3182") && out.contains("Msg 3013"),
            "{out}"
        );
    }
    let out = client.run("RESTORE VERIFYONLY FROM DISK = '/b/x' WITH CONTINUE_AFTER_ERROR");
    assert!(out.contains("is valid"), "{out}");
    let out = client.run(&format!(
        "RESTORE DATABASE e FROM DISK = '/b/x' WITH {MOVES}, CONTINUE_AFTER_ERROR"
    ));
    assert!(
        out.contains("Msg 3184") && out.contains("some damage was encountered"),
        "{out}"
    );
    let check = client.run("DBCC CHECKDB (e)");
    assert!(check.contains(&format!("(1:{page})")), "{check}");
    let good = client.scalar("SELECT COUNT(*) FROM e.dbo.t WHERE id < 100");
    assert_eq!(good, "99");
    let bad = client.run("SELECT name FROM e.dbo.t WHERE id = 150");
    assert!(bad.contains("Msg 824"), "{bad}");
}

/// Damage of the backup itself is refused whatever is asked: what a lost frame held is not known.
#[test]
fn a_damaged_backup_is_refused_with_continue_after_error_too() {
    let (server, mut client) = server_with_rows(60);
    client.run("BACKUP DATABASE d TO DISK = '/b/f'");
    let before = content(&mut client, "d");
    client.run("USE master");
    let path = Path::new("/b/f");
    let len = server.disk.len_of(path).expect("a backup");
    server.disk.flip(path, len / 2, 4);
    let out =
        client.run("RESTORE DATABASE d FROM DISK = '/b/f' WITH REPLACE, CONTINUE_AFTER_ERROR");
    assert!(
        out.contains("Msg 3203") && out.contains("Msg 3013"),
        "{out}"
    );
    assert_eq!(content(&mut client, "d"), before);
}
