//! RESTRICTED_USER and SINGLE_USER: who may enter a database, by every way that leads into one.

mod common;

use common::{Client, Server, TextSink, errors};
use daruma_tsql::error::SqlError;
use daruma_tsql::instance::LoginInfo;
use daruma_tsql::session::{RequestEnd, Session};

/// The login's session, or the number that refused it and the one behind.
fn connect_as(server: &Server, login: &str, database: &str) -> Result<Client, Vec<i32>> {
    let info = LoginInfo {
        login: login.to_string(),
        database: database.to_string(),
        ansi_defaults: true,
        ..LoginInfo::default()
    };
    let numbers = |e: SqlError| -> Vec<i32> {
        std::iter::successors(Some(&e), |e| e.next.as_deref())
            .map(|e| e.number)
            .collect()
    };
    let session = Session::new(&server.instance, info).map_err(numbers)?;
    Ok(Client {
        session,
        sink: TextSink::default(),
        ended: RequestEnd::Completed,
    })
}

fn prepared() -> Server {
    Server::with_setup(&[
        "CREATE DATABASE d; CREATE DATABASE other",
        "CREATE LOGIN ann WITH PASSWORD = 'Daruma-2026', CHECK_POLICY = OFF;
         CREATE LOGIN maker WITH PASSWORD = 'Daruma-2026', CHECK_POLICY = OFF;
         CREATE LOGIN keeper WITH PASSWORD = 'Daruma-2026', CHECK_POLICY = OFF;
         ALTER SERVER ROLE dbcreator ADD MEMBER maker",
        "USE d; CREATE USER ann FOR LOGIN ann; CREATE USER maker FOR LOGIN maker;
         CREATE USER keeper FOR LOGIN keeper; ALTER ROLE db_owner ADD MEMBER keeper;
         CREATE TABLE dbo.t (id int); INSERT dbo.t VALUES (1); GRANT SELECT ON dbo.t TO public",
        "USE d; EXEC ('CREATE PROCEDURE dbo.p AS SELECT id FROM dbo.t'); GRANT EXECUTE ON dbo.p TO public",
        "USE other; CREATE USER ann FOR LOGIN ann; CREATE SYNONYM dbo.far FOR d.dbo.t",
    ])
}

/// Ways into `d` from outside of it, without making it the current database.
const WAYS: &[&str] = &[
    "SELECT id FROM d.dbo.t",
    "SELECT name FROM d.sys.tables",
    "EXEC d.dbo.p",
    "EXEC d..sp_executesql N'SELECT id FROM dbo.t'",
    "SELECT id FROM other.dbo.far",
];

#[track_caller]
fn refused(client: &mut Client, number: i32) {
    for way in WAYS.iter().chain(&["USE d"]) {
        let out = client.run(way);
        assert!(out.contains(&format!("Msg {number},")), "{way}: {out}");
    }
}

#[track_caller]
fn enters(client: &mut Client) {
    for way in WAYS {
        let out = client.run(way);
        assert!(
            out.contains("1 row") && !out.contains("Msg"),
            "{way}: {out}"
        );
    }
}

#[test]
fn a_restricted_database_is_closed_to_plain_users() {
    let server = prepared();
    let mut admin = server.connect();
    let mut ann = connect_as(&server, "ann", "other").expect("login");
    enters(&mut ann);
    admin.done("ALTER DATABASE d SET RESTRICTED_USER");
    refused(&mut ann, 923);
    assert_eq!(ann.scalar("SELECT HAS_DBACCESS('d')"), "0");
    assert_eq!(connect_as(&server, "ann", "d").err(), Some(vec![4060]));
    let out = admin.run("EXECUTE AS LOGIN = 'ann'; SELECT id FROM d.dbo.t");
    assert!(out.contains("Msg 923,"), "{out}");
    admin.done("REVERT");
    admin.done("ALTER LOGIN ann WITH DEFAULT_DATABASE = d");
    assert_eq!(connect_as(&server, "ann", "").err(), Some(vec![4060]));
    let server = server.crash();
    assert_eq!(connect_as(&server, "ann", "d").err(), Some(vec![4060]));
    server.connect().done("ALTER DATABASE d SET MULTI_USER");
    enters(&mut connect_as(&server, "ann", "other").expect("login"));
    assert!(connect_as(&server, "ann", "d").is_ok());
}

#[test]
fn a_restricted_database_is_open_to_those_who_keep_it() {
    let server = prepared();
    server
        .connect()
        .done("ALTER DATABASE d SET RESTRICTED_USER");
    for login in ["maker", "keeper", "sa"] {
        assert!(connect_as(&server, login, "d").is_ok(), "{login}");
    }
    let mut maker = connect_as(&server, "maker", "").expect("login");
    assert!(maker.run("SELECT id FROM d.dbo.t").contains("1 row"));
    // One of them who acts as a plain user of it has come in.
    let mut keeper = connect_as(&server, "keeper", "d").expect("login");
    assert!(
        keeper
            .run("EXECUTE AS USER = 'ann'; SELECT id FROM dbo.t")
            .contains("1 row")
    );
}

#[test]
fn a_restore_can_leave_the_database_restricted() {
    let server = prepared();
    let mut admin = server.connect();
    admin.run("BACKUP DATABASE d TO DISK = '/b/d'");
    let out = admin.run("RESTORE DATABASE d FROM DISK = '/b/d' WITH REPLACE, RESTRICTED_USER");
    assert!(out.contains("Msg 3014,"), "{out}");
    let shown = "SELECT user_access_desc FROM sys.databases WHERE name = 'd'";
    assert_eq!(admin.scalar(shown), "RESTRICTED_USER");
    assert_eq!(connect_as(&server, "ann", "d").err(), Some(vec![4060]));
}

const BUSY: &[i32] = &[924, 4060];

#[test]
fn the_session_that_sets_single_user_has_it_for_itself() {
    let server = prepared();
    let mut first = server.connect_to("d");
    let mut second = server.connect_to("other");
    enters(&mut second);
    first.done("ALTER DATABASE d SET SINGLE_USER");
    refused(&mut second, 924);
    assert_eq!(connect_as(&server, "sa", "d").err(), Some(BUSY.to_vec()));
    for change in [
        "ALTER DATABASE d SET MULTI_USER",
        "ALTER AUTHORIZATION ON DATABASE::d TO maker",
        "ALTER AUTHORIZATION ON DATABASE::d TO ann",
    ] {
        let out = second.run(change);
        assert!(out.starts_with("Msg 5064,"), "{change}: {out}");
    }
    enters(&mut first);
    first.done("USE other");
    enters(&mut second);
    second.done("USE d");
    refused(&mut first, 924);
    second
        .session
        .reset(false, &mut second.sink)
        .expect("reset");
    second.sink.take();
    first.done("USE d");
    refused(&mut second, 924);
    drop(first);
    second.done("ALTER DATABASE d SET MULTI_USER");
    let _both = (server.connect_to("d"), server.connect_to("d"));
}

#[test]
fn the_first_that_comes_has_a_single_user_database() {
    let server = prepared();
    let mut admin = server.connect();
    admin.done("ALTER DATABASE d SET SINGLE_USER");
    let server = server.crash();
    let mut first = server.connect_to("d");
    let mut second = server.connect();
    refused(&mut second, 924);
    first.done("ALTER DATABASE d SET MULTI_USER");
    enters(&mut second);
}

#[test]
fn who_works_in_a_single_user_database_has_it_until_the_transaction_ends() {
    let server = prepared();
    let mut first = server.connect();
    let mut second = server.connect_to("other");
    first.done("ALTER DATABASE d SET SINGLE_USER");
    enters(&mut first);
    enters(&mut second);
    first.done("BEGIN TRANSACTION");
    assert!(first.run("SELECT id FROM d.dbo.t").contains("1 row"));
    refused(&mut second, 924);
    assert_eq!(connect_as(&server, "sa", "d").err(), Some(BUSY.to_vec()));
    first.done("COMMIT");
    enters(&mut second);
    // Plans that were kept while it was free are no way in.
    let _holder = server.connect_to("d");
    refused(&mut second, 924);
    refused(&mut first, 924);
}

#[test]
fn what_was_opened_before_single_user_is_no_way_in() {
    let server = prepared();
    let mut first = server.connect();
    let mut second = server.connect_to("other");
    second.done("DECLARE c CURSOR GLOBAL KEYSET FOR SELECT id FROM d.dbo.t; OPEN c");
    second.done("FETCH NEXT FROM c");
    assert_eq!(second.scalar("SELECT HAS_DBACCESS('d')"), "1");
    let figures =
        "SELECT COUNT(*) FROM sys.dm_db_index_physical_stats(DB_ID('d'), NULL, NULL, NULL, NULL)";
    second.done(figures);
    first.done("USE d; ALTER DATABASE d SET SINGLE_USER WITH ROLLBACK IMMEDIATE");
    let out = second.run("FETCH FIRST FROM c");
    assert_eq!(errors(&out), [924], "{out}");
    let out = second.run(figures);
    assert_eq!(errors(&out), [924], "{out}");
    assert_eq!(second.scalar("SELECT HAS_DBACCESS('d')"), "0");
    assert_eq!(
        second.scalar("SELECT CONCAT('<', OBJECT_ID('d.dbo.t'), '>')"),
        "<>"
    );
    let all = "SELECT COUNT(*) FROM sys.dm_db_index_physical_stats(NULL, NULL, NULL, NULL, NULL) WHERE database_id = DB_ID('d')";
    assert_eq!(second.scalar(all), "0");
    assert_eq!(first.scalar("SELECT HAS_DBACCESS('d')"), "1");
    first.done("ALTER DATABASE d SET MULTI_USER");
    second.done("FETCH FIRST FROM c");
}

#[test]
fn who_was_authenticated_is_known_by_the_sid() {
    let server = prepared();
    let mut admin = server.connect();
    let known = server.instance.logins.get("ann").expect("a login");
    let come = || {
        let info = LoginInfo {
            login: "ann".to_string(),
            sid: Some(known.sid.clone()),
            database: "d".to_string(),
            ansi_defaults: true,
            ..LoginInfo::default()
        };
        Session::new(&server.instance, info)
    };
    // It has another name by now.
    admin.done("ALTER LOGIN ann WITH NAME = anna");
    let session = come().expect("is still a login");
    assert_eq!(errors(&admin.run("DROP LOGIN anna")), [15434]);
    drop(session);
    // Another one has its name, and the number that is its in master.
    admin.done(
        "DROP LOGIN anna; CREATE LOGIN ann WITH PASSWORD = 'Daruma-2026', CHECK_POLICY = OFF",
    );
    admin.done("USE d; ALTER USER ann WITH LOGIN = ann");
    assert_eq!(come().err().map(|e| e.number), Some(18456));
}
