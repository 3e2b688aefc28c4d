//! Messages that need backups, other sessions, a restart or a failing disk to be caused.

mod common;

use common::{Client, Server};
use daruma_storage::StorageError;
use daruma_tsql::error::SqlError;
use daruma_tsql::messages;

/// The numbers of all that is said, information included.
fn numbers(out: &str) -> Vec<i32> {
    let number = |line: &str| line.strip_prefix("Msg ")?.split_once(',')?.0.parse().ok();
    out.lines().filter_map(number).collect()
}

fn each_says(client: &mut Client, cases: &[(&str, &[i32])]) {
    for (text, expected) in cases {
        let out = client.run(text);
        assert_eq!(numbers(&out), *expected, "{text}: {out}");
    }
}

fn prepared() -> (Server, Client) {
    let server = Server::new();
    let mut admin = server.connect();
    admin.done("CREATE DATABASE d; CREATE DATABASE other");
    admin.done("CREATE TABLE d.dbo.t (id int); INSERT d.dbo.t VALUES (1)");
    (server, admin)
}

const BACKED_UP: &[i32] = &[4035, 4035, 3014];
const COPY: &str = "MOVE 'd' TO '/data/copy.mdf', MOVE 'd_log' TO '/data/copy.ldf'";

#[test]
fn backups_that_do_not_fit() {
    let (_server, mut c) = prepared();
    let copy = format!("RESTORE DATABASE copy FROM DISK = '/b/full' WITH NORECOVERY, {COPY}");
    let early =
        format!("RESTORE DATABASE copy FROM DISK = '/b/full' WITH STOPAT = '1990-01-01', {COPY}");
    each_says(
        &mut c,
        &[
            (
                "BACKUP DATABASE d TO DISK = '/b/full' WITH STATS = 50",
                &[3211, 4035, 3211, 4035, 3014],
            ),
            ("BACKUP DATABASE d TO DISK = '/b/later'", BACKED_UP),
            (
                "BACKUP DATABASE d TO DISK = '/b/diff' WITH DIFFERENTIAL",
                BACKED_UP,
            ),
        ],
    );
    c.run("WAITFOR DELAY '00:00:05'");
    let moment = c.scalar("SELECT CONVERT(varchar(30), SYSDATETIME(), 121)");
    c.run("WAITFOR DELAY '00:00:05'");
    let stops =
        format!("RESTORE LOG copy FROM DISK = '/b/log' WITH STOPAT = '{moment}', NORECOVERY");
    each_says(
        &mut c,
        &[
            ("INSERT d.dbo.t VALUES (2)", &[]),
            ("BACKUP LOG d TO DISK = '/b/log'", &[4035, 3014]),
            ("BACKUP LOG d TO DISK = '/b/log2'", &[4035, 3014]),
            ("RESTORE VERIFYONLY FROM DISK = '/b/full'", &[3262]),
            (
                "RESTORE DATABASE master FROM DISK = '/b/full'",
                &[3108, 3013],
            ),
            (
                "RESTORE DATABASE other FROM DISK = '/b/full'",
                &[3154, 3013],
            ),
            ("RESTORE DATABASE copy FROM DISK = '/b/log'", &[3135, 3013]),
            (
                "RESTORE DATABASE copy FROM DISK = '/data/d.mdf'",
                &[3241, 3013],
            ),
            (
                "RESTORE DATABASE copy FROM DISK = '/b/full' WITH MOVE 'no' TO '/data/n.mdf'",
                &[3234, 3013],
            ),
            (&early, &[4338, 3013]),
            (&copy, BACKED_UP),
            ("RESTORE DATABASE copy FROM DISK = '/b/diff'", &[3136, 3013]),
            (
                "RESTORE LOG copy FROM DISK = '/b/log' WITH STOPAT = '1990-01-01', NORECOVERY",
                &[4335, 3013],
            ),
            (&stops, &[4035, 3014]),
            ("RESTORE LOG copy FROM DISK = '/b/log2'", &[4335, 3013]),
            (
                "CREATE DATABASE third ON (NAME = third, FILENAME = '/b/full')",
                &[5170, 1802],
            ),
        ],
    );
}

#[test]
fn devices_that_do_not_belong_together() {
    let (_server, mut c) = prepared();
    each_says(
        &mut c,
        &[
            (
                "BACKUP DATABASE d TO DISK = '/b/1', DISK = '/b/2'",
                BACKED_UP,
            ),
            (
                "BACKUP DATABASE d TO DISK = '/b/x1', DISK = '/b/x2'",
                BACKED_UP,
            ),
            (
                "RESTORE VERIFYONLY FROM DISK = '/b/1', DISK = '/b/1'",
                &[3227, 3013],
            ),
            (
                "RESTORE VERIFYONLY FROM DISK = '/b/1', DISK = '/b/x2'",
                &[3258, 3013],
            ),
        ],
    );
}

#[test]
fn a_shutdown_is_told_in_the_error_log() {
    let (server, mut c) = prepared();
    c.run("SHUTDOWN WITH NOWAIT");
    let text = messages::find(6006).expect("in the table").text;
    let (start, _) = text.split_once('%').expect("names who did it");
    let log = server.instance.log.read(0).expect("log");
    assert!(log.iter().any(|l| l.text.starts_with(start)), "{start}");
}

#[test]
fn backups_are_told_in_the_error_log() {
    let (server, mut c) = prepared();
    c.run("BACKUP DATABASE d TO DISK = '/b/full'; BACKUP DATABASE d TO DISK = '/b/diff' WITH DIFFERENTIAL; BACKUP LOG d TO DISK = '/b/log'");
    let log = server.instance.log.read(0).expect("log");
    for number in [18264, 18265, 18270] {
        let text = messages::find(number).expect("in the table").text;
        let (start, _) = text.split_once("%s").expect("names the database");
        let told = format!("{start}d,");
        assert!(log.iter().any(|l| l.text.starts_with(&told)), "{told}");
    }
}

#[test]
fn a_start_is_told_in_the_error_log() {
    let (server, mut c) = prepared();
    c.done("ALTER DATABASE d SET ACCELERATED_DATABASE_RECOVERY = ON");
    let id: i32 = c.scalar("SELECT DB_ID('d')").parse().expect("an id");
    let server = server.crash();
    let log = server.instance.log.read(0).expect("log");
    let started = messages::error(17137, &[&"d"]).message;
    assert!(log.iter().any(|l| l.text == started), "{started}");
    let redo = messages::error(49930, &[&"started", &"d", &1]).message;
    assert!(log.iter().any(|l| l.text == redo), "{redo}");
    let accelerated = messages::error(12123, &[&id]).message;
    assert!(log.iter().any(|l| l.text == accelerated), "{accelerated}");
}

#[test]
fn what_others_use_is_kept_from_one() {
    let (server, mut c) = prepared();
    c.done("CREATE LOGIN ann WITH PASSWORD = 'Daruma-2026', CHECK_POLICY = OFF");
    let ann = server.connect_as("ann", "");
    assert_eq!(numbers(&c.run("DROP LOGIN ann")), [15434]);
    drop(ann);
    c.done("ALTER DATABASE other SET SINGLE_USER");
    let _there = server.connect_to("other");
    assert_eq!(numbers(&c.run("USE other")), [924]);
}

#[test]
fn what_storage_says_has_a_number() {
    let io = StorageError::Io {
        action: "read",
        path: "/data/d.mdf".into(),
        source: std::io::Error::other("gone"),
    };
    let fenced = StorageError::Fenced {
        cause: "a failed sync".to_string(),
    };
    let full = StorageError::VersionStoreFull {
        database: "d".to_string(),
        bytes_max: 5 << 20,
        pin: None,
        is_memory: false,
    };
    let many = StorageError::TooManyDatabases { max: 1000 };
    let cases = [
        (io, 823, 24),
        (fenced, 9001, 21),
        (full, 12190, 17),
        (many, 925, 19),
    ];
    for (error, number, class) in cases {
        let shown = error.to_string();
        let told = SqlError::from(error);
        assert_eq!((told.number, told.class), (number, class), "{shown}");
        assert!(!told.message.contains('%'), "{}", told.message);
    }
}
