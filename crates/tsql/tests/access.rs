//! Access through connections of several logins: who gets in, what kept plans allow, and what survives a restart.

mod common;

use common::{Client, Server, run_until};
use daruma_tsql::instance::{LoginInfo, LoginRefusal};
use daruma_tsql::session::{RequestEnd, Session};

fn connect_as(server: &Server, login: &str, database: &str) -> Result<Client, i32> {
    let info = LoginInfo {
        login: login.to_string(),
        database: database.to_string(),
        ansi_defaults: true,
        ..LoginInfo::default()
    };
    let session = Session::new(&server.instance, info).map_err(|e| e.number)?;
    Ok(Client {
        session,
        sink: common::TextSink::default(),
        ended: RequestEnd::Completed,
    })
}

fn prepared() -> Server {
    let server = Server::new();
    let mut c = server.connect();
    let out = c.run(
        "CREATE DATABASE d; CREATE LOGIN ann WITH PASSWORD = 'Daruma-2026'; CREATE LOGIN ben WITH PASSWORD = 'Daruma-2026'",
    );
    assert_eq!(out, "");
    let mut c = server.connect_to("d");
    let out = c.run(
        "CREATE USER ann FOR LOGIN ann; CREATE USER ben FOR LOGIN ben; CREATE TABLE dbo.t (id int); INSERT dbo.t VALUES (1); GRANT SELECT ON dbo.t TO ann",
    );
    assert!(!out.contains("Msg"), "{out}");
    server
}

#[test]
fn a_login_enters_only_where_it_is_a_user() {
    let server = prepared();
    assert!(connect_as(&server, "ann", "d").is_ok());
    assert!(
        connect_as(&server, "ann", "master").is_ok(),
        "guest of master"
    );
    let mut admin = server.connect();
    admin.run("CREATE DATABASE closed");
    assert_eq!(connect_as(&server, "ann", "closed").err(), Some(4060));
    let mut c = server.connect_to("d");
    c.run("REVOKE CONNECT FROM ann");
    assert_eq!(connect_as(&server, "ann", "d").err(), Some(4060));
    c.run("GRANT CONNECT TO ann");
    assert!(connect_as(&server, "ann", "d").is_ok());
}

#[test]
fn a_plan_kept_for_one_is_not_run_by_another() {
    let server = prepared();
    let mut admin = server.connect_to("d");
    let mut ann = connect_as(&server, "ann", "d").expect("login");
    let mut ben = connect_as(&server, "ben", "d").expect("login");
    let text = "SELECT id FROM dbo.t";
    for _ in 0..3 {
        assert!(admin.run(text).contains("1 row"));
        assert!(ann.run(text).contains("1 row"));
        assert!(ben.run(text).contains("Msg 229"), "denied each time");
    }
    admin.run("REVOKE SELECT ON dbo.t FROM ann; GRANT SELECT ON dbo.t TO ben");
    assert!(ann.run(text).contains("Msg 229"), "at once, though planned");
    assert!(ben.run(text).contains("1 row"));
    let dbo = server.connect();
    drop(dbo);
    admin.run("ALTER SERVER ROLE sysadmin ADD MEMBER ann");
    assert!(ann.run(text).contains("1 row"));
    admin.run("ALTER SERVER ROLE sysadmin DROP MEMBER ann");
    assert!(ann.run(text).contains("Msg 229"));
}

#[test]
fn permissions_survive_a_crash() {
    let server = prepared().crash();
    let mut ann = connect_as(&server, "ann", "d").expect("login");
    assert!(ann.run("SELECT id FROM dbo.t").contains("1 row"));
    assert!(ann.run("DELETE dbo.t").contains("Msg 229"));
    let mut ben = connect_as(&server, "ben", "d").expect("login");
    assert!(ben.run("SELECT id FROM dbo.t").contains("Msg 229"));
}

#[test]
fn a_dropped_user_leaves_no_permission_behind() {
    let server = prepared();
    let mut admin = server.connect_to("d");
    let out = admin.run("DROP USER ben; DROP USER ann; CREATE USER ben FOR LOGIN ben");
    assert_eq!(out, "");
    let mut ben = connect_as(&server, "ben", "d").expect("login");
    assert!(ben.run("SELECT id FROM dbo.t").contains("Msg 229"));
}

#[test]
fn a_reset_connection_is_its_login_again() {
    let server = prepared();
    let mut c = server.connect_to("d");
    c.run("EXECUTE AS USER = 'ben'");
    assert_eq!(c.scalar("SELECT USER_NAME()"), "ben");
    c.session.reset(false, &mut c.sink).expect("reset");
    c.sink.take();
    assert_eq!(
        c.scalar("SELECT USER_NAME() + ' ' + SUSER_SNAME()"),
        "dbo sa"
    );
}

#[test]
fn the_administrator_may_be_renamed_and_disabled() {
    let server = prepared();
    let mut c = server.connect();
    c.run("ALTER LOGIN sa WITH PASSWORD = 'Daruma-2026'");
    let out = c.run("ALTER LOGIN sa WITH NAME = boss");
    assert_eq!(out, "");
    assert_eq!(c.scalar("SELECT SUSER_SNAME()"), "boss");
    let logins = &server.instance.logins;
    assert_eq!(
        logins.authenticate("sa", "Daruma-2026", None, 0).err(),
        Some(LoginRefusal::Unknown)
    );
    assert!(logins.authenticate("boss", "Daruma-2026", None, 0).is_ok());
    assert!(
        c.run("CREATE DATABASE still; DROP DATABASE still")
            .is_empty()
    );
    c.run("ALTER LOGIN boss DISABLE");
    assert_eq!(
        logins.authenticate("boss", "Daruma-2026", None, 0).err(),
        Some(LoginRefusal::Disabled {
            password_was_right: true
        })
    );
}

#[test]
fn passwords_are_changed_expire_and_lock() {
    let server = prepared();
    let logins = &server.instance.logins;
    let mut c = server.connect();
    c.run("ALTER LOGIN ann WITH PASSWORD = 'Another-2026' MUST_CHANGE, CHECK_EXPIRATION = ON");
    let now = server.instance.now_utc();
    assert_eq!(
        logins.authenticate("ann", "Another-2026", None, now).err(),
        Some(LoginRefusal::MustChange)
    );
    assert_eq!(
        logins
            .authenticate("ann", "Another-2026", Some("weak"), now)
            .err(),
        Some(LoginRefusal::MustChange)
    );
    assert!(
        logins
            .authenticate("ann", "Another-2026", Some("Third-2026!"), now)
            .is_ok()
    );
    assert!(logins.authenticate("ann", "Third-2026!", None, now).is_ok());
    let later = now + 100 * 24 * 3_600 * 10_000_000;
    assert_eq!(
        logins.authenticate("ann", "Third-2026!", None, later).err(),
        Some(LoginRefusal::Expired)
    );
    // Its owner changes a password with the old one.
    let mut ben = connect_as(&server, "ben", "d").expect("login");
    assert!(
        ben.run("ALTER LOGIN ben WITH PASSWORD = 'New-Word-1'")
            .contains("Msg 15151")
    );
    assert!(
        ben.run("ALTER LOGIN ben WITH PASSWORD = 'New-Word-1' OLD_PASSWORD = 'wrong'")
            .contains("Msg 15151")
    );
    assert_eq!(
        ben.run("ALTER LOGIN ben WITH PASSWORD = 'New-Word-1' OLD_PASSWORD = 'Daruma-2026'"),
        ""
    );
    for _ in 0..10 {
        assert_eq!(
            logins.authenticate("ben", "guess", None, now).err(),
            Some(LoginRefusal::WrongPassword)
        );
    }
    assert_eq!(
        logins.authenticate("ben", "New-Word-1", None, now).err(),
        Some(LoginRefusal::LockedOut)
    );
    let after = now + 16 * 60 * 10_000_000;
    assert!(
        logins
            .authenticate("ben", "New-Word-1", None, after)
            .is_ok()
    );
    for _ in 0..10 {
        let _ = logins.authenticate("ben", "guess", None, after);
    }
    c.run("ALTER LOGIN ben WITH PASSWORD = 'New-Word-2' UNLOCK");
    assert!(
        logins
            .authenticate("ben", "New-Word-2", None, after)
            .is_ok()
    );
    // A new login may get the number of one that was locked, and is not locked with it.
    c.run("CREATE LOGIN cid WITH PASSWORD = 'Daruma-2026'");
    let id = logins.get("cid").map(|l| l.id);
    for _ in 0..10 {
        let _ = logins.authenticate("cid", "guess", None, after);
    }
    assert_eq!(
        c.run("DROP LOGIN cid; CREATE LOGIN dora WITH PASSWORD = 'Daruma-2026'"),
        ""
    );
    assert_eq!(logins.get("dora").map(|l| l.id), id);
    assert!(
        logins
            .authenticate("dora", "Daruma-2026", None, after)
            .is_ok()
    );
}

#[test]
fn a_trigger_belongs_to_its_table() {
    let server = prepared();
    let mut admin = server.connect_to("d");
    admin.run("CREATE TABLE dbo.audit (n int); GRANT INSERT ON dbo.t TO ann");
    admin.run(
        "CREATE TRIGGER dbo.tr ON dbo.t AFTER INSERT AS INSERT dbo.audit SELECT id FROM inserted",
    );
    let mut ann = connect_as(&server, "ann", "d").expect("login");
    let out = ann.run("INSERT dbo.t VALUES (2)");
    assert!(!out.contains("Msg"), "{out}");
    assert!(ann.run("SELECT * FROM dbo.audit").contains("Msg 229"));
    assert_eq!(admin.scalar("SELECT COUNT(*) FROM dbo.audit"), "1");
}

#[test]
fn the_owner_of_a_database_is_its_dbo() {
    let server = prepared();
    let mut admin = server.connect();
    assert_eq!(admin.run("ALTER SERVER ROLE dbcreator ADD MEMBER ben"), "");
    let mut ben = connect_as(&server, "ben", "master").expect("login");
    assert_eq!(ben.run("CREATE DATABASE mine"), "");
    let mut ben = connect_as(&server, "ben", "mine").expect("login");
    let out =
        ben.run("CREATE TABLE dbo.t (id int); INSERT dbo.t VALUES (1); SELECT USER_NAME() AS me");
    assert!(out.contains("dbo"), "{out}");
    assert_eq!(connect_as(&server, "ann", "mine").err(), Some(4060));
}

#[test]
fn a_backup_does_not_say_who_owns_what_is_restored() {
    let server = prepared();
    let mut admin = server.connect();
    admin.run("ALTER SERVER ROLE dbcreator ADD MEMBER ben");
    admin.run("ALTER AUTHORIZATION ON DATABASE::d TO sa; ALTER DATABASE d SET TRUSTWORTHY ON");
    admin.run("CREATE DATABASE anns; ALTER AUTHORIZATION ON DATABASE::anns TO ann");
    for database in ["d", "anns"] {
        let out = admin.run(&format!(
            "BACKUP DATABASE {database} TO DISK = '/b/{database}'"
        ));
        assert!(out.contains("successfully processed"), "{out}");
    }
    let mut ben = connect_as(&server, "ben", "master").expect("login");
    for (database, copy) in [("d", "d2"), ("anns", "a2")] {
        let out = ben.run(&format!(
            "RESTORE DATABASE {copy} FROM DISK = '/b/{database}' \
             WITH MOVE '{database}' TO '/x/{copy}', MOVE '{database}_log' TO '/x/{copy}_log'"
        ));
        assert!(
            out.contains("RESTORE DATABASE successfully processed"),
            "{out}"
        );
    }
    let owner = |client: &mut Client, name: &str| {
        client.scalar(&format!(
            "SELECT SUSER_SNAME(owner_sid) + STR(is_trustworthy_on, 2) FROM sys.databases WHERE name = '{name}'"
        ))
    };
    assert_eq!(owner(&mut admin, "d2"), "ben 0");
    assert_eq!(owner(&mut admin, "a2"), "ben 0");
    assert_eq!(connect_as(&server, "ann", "a2").err(), Some(4060));
    // Who has it goes on having it.
    let out = admin.run(
        "RESTORE DATABASE anns FROM DISK = '/b/d' WITH REPLACE, \
         MOVE 'd' TO '/x/a3', MOVE 'd_log' TO '/x/a3_log'",
    );
    assert!(
        out.contains("RESTORE DATABASE successfully processed"),
        "{out}"
    );
    assert_eq!(owner(&mut admin, "anns"), "ann 0");
}

#[test]
fn backup_and_restore_ask_for_rights_on_the_database_they_name() {
    let server = prepared();
    let mut admin = server.connect();
    admin.run("CREATE DATABASE other");
    admin.run("USE d GRANT BACKUP DATABASE TO ann");
    let mut c = connect_as(&server, "ann", "d").expect("a user");
    let own = c.run("BACKUP DATABASE d TO DISK = '/b/own'");
    assert!(own.contains("successfully processed"), "{own}");
    for statement in [
        "BACKUP DATABASE other TO DISK = '/b/x'",
        "DECLARE @n sysname = N'other' BACKUP DATABASE @n TO DISK = '/b/x'",
    ] {
        let out = c.run(statement);
        assert!(out.contains("Msg 262") || out.contains("Msg 916"), "{out}");
    }
    let said = "User does not have permission to RESTORE database 'other'.";
    for statement in [
        "RESTORE DATABASE other FROM DISK = '/b/own'",
        "DECLARE @n sysname = N'other' RESTORE DATABASE @n FROM DISK = '/b/own'",
        "RESTORE LOG other FROM DISK = '/b/own'",
    ] {
        let out = c.run(statement);
        assert!(out.contains("Msg 3110") && out.contains(said), "{out}");
    }
    let out = c.run("RESTORE HEADERONLY FROM DISK = '/b/own'");
    assert!(
        out.contains("CREATE DATABASE permission denied in database 'master'."),
        "{out}"
    );
}

/// What a transaction does to logins is its own until it commits, and leaves nothing when it does not.
#[test]
fn logins_are_part_of_the_transaction() {
    let server = Server::new();
    let mut c = server.connect();
    let create = create_login;
    c.done(&create("kept"));
    c.done("CREATE DATABASE owned; ALTER AUTHORIZATION ON DATABASE::owned TO kept");
    c.done(&format!(
        "BEGIN TRANSACTION; {} ALTER LOGIN kept WITH PASSWORD = 'Other-2026', NAME = renamed; \
         ALTER SERVER ROLE sysadmin ADD MEMBER renamed; GRANT VIEW SERVER STATE TO gone; ALTER LOGIN renamed DISABLE",
        create("gone")
    ));
    let own = "SELECT CONCAT(SUSER_ID('gone') - SUSER_ID('renamed'), ' ', IS_SRVROLEMEMBER('sysadmin', 'renamed'), ' ', \
               (SELECT COUNT(*) FROM sys.server_principals WHERE name IN ('gone', 'renamed', 'kept')), ' ', \
               (SELECT COUNT(*) FROM sys.server_permissions WHERE grantee_principal_id = SUSER_ID('gone')))";
    assert_eq!(c.scalar(own), "1 1 2 2");
    let logins = &server.instance.logins;
    let check_before = || {
        assert!(logins.get("gone").is_none() && logins.get("renamed").is_none());
        assert!(logins.authenticate("kept", "Kept-2026!", None, 0).is_ok());
        let mut other = server.connect();
        let roles = "SELECT CONCAT(SUSER_ID('gone'), '-', IS_SRVROLEMEMBER('sysadmin', 'kept'))";
        assert_eq!(other.scalar(roles), "-0");
    };
    check_before();
    // Whoever changes them as well waits.
    let mut other = server.connect();
    let out = other.run(&format!("SET LOCK_TIMEOUT 0; {}", create("other")));
    assert_eq!(common::errors(&out), [1222], "{out}");
    c.done("ROLLBACK");
    check_before();
    let owner = "SELECT SUSER_SNAME(owner_sid) FROM sys.databases WHERE name = 'owned'";
    assert_eq!(c.scalar(owner), "kept");
    other.done(&create("other"));
    c.done(&format!(
        "BEGIN TRANSACTION; {} SAVE TRANSACTION s; DROP LOGIN one; {} ROLLBACK TRANSACTION s; COMMIT",
        create("one"),
        create("two")
    ));
    assert!(logins.get("one").is_some() && logins.get("two").is_none());
    // A statement that fails takes back what it did, and not the transaction.
    c.done("BEGIN TRANSACTION; ALTER LOGIN one WITH DEFAULT_LANGUAGE = German");
    let out = c.run("GRANT VIEW SERVER STATE TO one, nobody");
    assert_eq!(common::errors(&out), [15151], "{out}");
    c.done("COMMIT");
    let language = logins.get("one").map(|l| l.default_language.clone());
    assert_eq!(language.as_deref(), Some("Deutsch"));
    c.done(&format!(
        "BEGIN TRANSACTION; {} DROP LOGIN one",
        create("lost")
    ));
    let server = fall(server, [c, other]);
    let logins = &server.instance.logins;
    assert!(logins.get("one").is_some() && logins.get("lost").is_none());
    server.connect().done("DROP LOGIN one");
    let server = server.crash();
    assert!(server.instance.logins.get("one").is_none());
}

/// Power failure while these are connected. Nothing of theirs reaches the disk any more.
fn fall<const N: usize>(server: Server, clients: [Client; N]) -> Server {
    server.disk.stop();
    drop(clients);
    server.crash()
}

fn create_login(name: &str) -> String {
    format!("CREATE LOGIN {name} WITH PASSWORD = 'Kept-2026!', CHECK_POLICY = OFF; ")
}

fn owner_of(server: &Server, database: &str) -> String {
    server.connect().scalar(&format!(
        "SELECT ISNULL(SUSER_SNAME(owner_sid), CASE WHEN owner_sid IS NULL THEN 'nobody' END) FROM sys.databases WHERE name = '{database}'"
    ))
}

/// Databases know their owner whatever it is called, and its old name is anybody's.
#[test]
fn a_renamed_login_keeps_its_databases() {
    let server = Server::new();
    let mut c = server.connect();
    c.done(&create_login("ann"));
    c.done("CREATE DATABASE owned; ALTER AUTHORIZATION ON DATABASE::owned TO ann");
    c.done("ALTER LOGIN ann WITH NAME = eve");
    c.done(&create_login("ann"));
    let check = |server: &Server| {
        assert_eq!(owner_of(server, "owned"), "eve");
        let mut eve = server.connect_as("eve", "owned");
        assert_eq!(eve.scalar("SELECT USER_NAME()"), "dbo");
        assert_eq!(connect_as(server, "ann", "owned").err(), Some(4060));
    };
    check(&server);
    let out = c.run("DROP LOGIN eve");
    assert_eq!(common::errors(&out), [15174], "{out}");
    // A name that is free until a transaction is rolled back, and one that a crash ends.
    c.done("BEGIN TRANSACTION; DROP LOGIN ann; ALTER LOGIN eve WITH NAME = ann");
    assert_eq!(
        c.scalar("SELECT SUSER_SNAME(owner_sid) FROM sys.databases WHERE name = 'owned'"),
        "ann"
    );
    c.done("ROLLBACK");
    check(&server);
    c.done("BEGIN TRANSACTION; DROP LOGIN ann; ALTER LOGIN eve WITH NAME = ann");
    let server = fall(server, [c]);
    check(&server);
    server.connect().done("DROP LOGIN ann");
}

/// Definitions of earlier builds have names of owners alone; the start of the server looks for the login.
#[test]
fn owners_that_are_known_by_name_get_their_sid() {
    let server = Server::new();
    let mut c = server.connect();
    c.done(&create_login("ann"));
    c.done("CREATE DATABASE owned; ALTER AUTHORIZATION ON DATABASE::owned TO ann; CREATE DATABASE lost");
    let catalog = server.instance.master_catalog().expect("master");
    for mut def in catalog.databases().expect("definitions") {
        assert!(def.owner_sid.take().is_some(), "{def:?}");
        if def.name == "lost" {
            def.owner = "ghost".to_string();
        }
        catalog.put_database(&def).expect("stored");
    }
    drop(catalog);
    let server = fall(server, [c]);
    server.connect().done("ALTER LOGIN ann WITH NAME = eve");
    let server = server.crash();
    assert_eq!(owner_of(&server, "owned"), "eve");
    assert_eq!(owner_of(&server, "master"), "sa");
    assert_eq!(owner_of(&server, "lost"), "nobody");
    let as_dbo = |database: &str| {
        let mut c = server.connect_to(database);
        c.done("EXECUTE AS USER = 'dbo'");
        c.scalar("SELECT CONCAT('<', SUSER_SNAME(), '>')")
    };
    assert_eq!(as_dbo("owned"), "<eve>");
    assert_eq!(as_dbo("lost"), "<>");
    // Not even whoever gets that name.
    server.connect().done(&create_login("ghost"));
    let server = server.crash();
    assert_eq!(owner_of(&server, "lost"), "nobody");
    assert_eq!(connect_as(&server, "ghost", "lost").err(), Some(4060));
    let mut c = server.connect();
    c.done("ALTER AUTHORIZATION ON DATABASE::lost TO ghost");
    assert_eq!(owner_of(&server, "lost"), "ghost");
    let mut ghost = server.connect_as("ghost", "lost");
    assert_eq!(ghost.scalar("SELECT USER_NAME()"), "dbo");
}

/// The owner of a database is stored at once, so it is a login that a rollback does not take away.
#[test]
fn a_login_that_is_not_committed_owns_no_database() {
    let server = Server::new();
    let mut c = server.connect();
    c.done("CREATE DATABASE owned");
    c.done(&format!("BEGIN TRANSACTION; {}", create_login("ann")));
    let out = c.run("ALTER AUTHORIZATION ON DATABASE::owned TO ann");
    assert_eq!(common::errors(&out), [15151], "{out}");
    c.done("COMMIT; ALTER AUTHORIZATION ON DATABASE::owned TO ann");
    assert_eq!(owner_of(&server, "owned"), "ann");
    // Nor does one that is about to be dropped. Who makes a database waits for those who change its own login alone.
    c.done(&create_login("ben"));
    c.done("BEGIN TRANSACTION; DROP LOGIN ben");
    let mut other = server.connect();
    other.done("SET LOCK_TIMEOUT 0; CREATE DATABASE free");
    c.done("ALTER LOGIN sa WITH CHECK_POLICY = OFF");
    for text in [
        "ALTER AUTHORIZATION ON DATABASE::owned TO ben",
        "CREATE DATABASE other",
    ] {
        let out = other.run(&format!("SET LOCK_TIMEOUT 0; {text}"));
        assert_eq!(common::errors(&out), [1222], "{out}");
    }
    c.done("COMMIT");
    other.done("CREATE DATABASE other");
}

/// Whoever may change nothing but a password of its own keeps nobody from changing others, and whoever may nothing keeps nobody from anything.
#[test]
fn those_who_may_not_change_logins_keep_nobody_from_it() {
    let server = prepared();
    let mut admin = server.connect();
    admin.done("SET LOCK_TIMEOUT 0");
    let mut ann = server.connect_as("ann", "master");
    ann.done("BEGIN TRANSACTION; ALTER LOGIN ann WITH PASSWORD = 'New-Word-1' OLD_PASSWORD = 'Daruma-2026'");
    for (text, error) in [
        ("DROP LOGIN ben", 15151),
        ("ALTER LOGIN ben DISABLE", 15151),
        ("CREATE LOGIN cid WITH PASSWORD = 'Daruma-2026'", 15247),
        ("ALTER SERVER ROLE sysadmin ADD MEMBER ann", 15151),
        ("GRANT ALTER ANY LOGIN TO ben", 4613),
        ("ALTER AUTHORIZATION ON DATABASE::d TO ann", 15151),
    ] {
        let out = ann.run(text);
        assert_eq!(common::errors(&out), [error], "{text}: {out}");
    }
    assert_eq!(ann.scalar("SELECT @@TRANCOUNT"), "1");
    admin.done(
        "CREATE LOGIN cid WITH PASSWORD = 'Daruma-2026'; GRANT VIEW SERVER STATE TO cid; ALTER LOGIN ben WITH DEFAULT_LANGUAGE = German; \
         ALTER SERVER ROLE dbcreator ADD MEMBER cid; DROP LOGIN cid; CREATE DATABASE more",
    );
    let logins = &server.instance.logins;
    let now = server.instance.now_utc();
    let changed = logins.authenticate("ben", "Daruma-2026", Some("New-Word-2"), now);
    assert!(changed.is_ok(), "{:?}", changed.err());
    let out = admin.run("ALTER LOGIN ann DISABLE");
    assert_eq!(common::errors(&out), [1222], "{out}");
    ann.done("COMMIT");
    admin.done("ALTER LOGIN ann DISABLE");
    let login = logins.get("ann").expect("ann");
    assert!(login.disabled && logins.verify(&login, "New-Word-1"));
}

/// Whoever waited for somebody who changed logins goes on with what has become of them.
#[test]
fn those_who_change_the_same_logins_take_turns() {
    let server = prepared();
    let mut c = server.connect();
    let mut other = server.connect();
    for (end, errors) in [("COMMIT", vec![15025]), ("ROLLBACK", vec![])] {
        let name = format!("after_{end}");
        c.done(&format!("BEGIN TRANSACTION; {}", create_login(&name)));
        let (back, out) = run_until(&server, other, &create_login(&name), || c.done(end));
        assert_eq!(common::errors(&out), errors, "{out}");
        assert!(server.instance.logins.get(&name).is_some());
        other = back;
    }
    // Another password than the one that it had before the wait.
    let mut ann = server.connect_as("ann", "master");
    ann.done("BEGIN TRANSACTION; ALTER LOGIN ann WITH PASSWORD = 'New-Word-1' OLD_PASSWORD = 'Daruma-2026'");
    let disable = "ALTER LOGIN ann DISABLE";
    let (mut other, out) = run_until(&server, other, disable, || ann.done("COMMIT"));
    assert_eq!(out, "");
    let login = server.instance.logins.get("ann").expect("ann");
    assert!(login.disabled && server.instance.logins.verify(&login, "New-Word-1"));
    // Locks of logins and of rows are of one kind to whoever looks for deadlocks.
    c.done("CREATE TABLE d.dbo.one (i int); INSERT d.dbo.one VALUES (1)");
    c.done("SET DEADLOCK_PRIORITY LOW; BEGIN TRANSACTION; UPDATE d.dbo.one SET i = 2");
    other.done("BEGIN TRANSACTION; EXEC sp_addsrvrolemember 'ben', 'dbcreator'");
    let mut told = String::new();
    let update = "UPDATE d.dbo.one SET i = 3";
    let (mut other, out) = run_until(&server, other, update, || {
        told = c.run("ALTER LOGIN ben DISABLE");
    });
    assert_eq!(common::errors(&told), [1205], "{told}");
    assert_eq!(out, "(1 row affected)\n");
    other.done("ROLLBACK");
    let ben = server.instance.logins.get("ben").expect("ben");
    assert!(!ben.disabled && ben.roles.is_empty());
}

/// What a statement was allowed to do when it began to wait counts for nothing when it goes on.
#[test]
fn rights_are_those_of_the_moment_of_the_change() {
    let server = Server::new();
    let mut admin = server.connect();
    for name in ["clerk", "ben", "cid"] {
        admin.done(&create_login(name));
    }
    let may = "GRANT ALTER ANY LOGIN TO clerk; GRANT CREATE ANY DATABASE TO clerk; ALTER SERVER ROLE serveradmin ADD MEMBER clerk";
    let may_not = "REVOKE ALTER ANY LOGIN FROM clerk; REVOKE CREATE ANY DATABASE FROM clerk; ALTER SERVER ROLE serveradmin DROP MEMBER clerk";
    for (text, error) in [
        ("DROP LOGIN ben", 15151),
        ("ALTER LOGIN ben DISABLE", 15151),
        ("CREATE LOGIN dan WITH PASSWORD = 'Daruma-2026'", 15247),
        ("ALTER SERVER ROLE serveradmin ADD MEMBER ben", 15151),
        ("GRANT ALTER ON LOGIN::ben TO cid", 4613),
        ("CREATE DATABASE more", 262),
    ] {
        admin.done(may);
        admin.done(&format!("BEGIN TRANSACTION; {may_not}"));
        let clerk = server.connect_as("clerk", "master");
        let (_, out) = run_until(&server, clerk, text, || admin.done("COMMIT"));
        assert_eq!(common::errors(&out), [error], "{text}: {out}");
    }
    let logins = &server.instance.logins;
    let ben = logins.get("ben").expect("ben");
    assert!(!ben.disabled && ben.roles.is_empty() && logins.get("dan").is_none());
}

/// Whoever gives a database away holds up changes of its new owner alone, and nothing where there is none.
#[test]
fn a_database_that_changes_hands_holds_up_its_new_owner_alone() {
    let server = prepared();
    let mut admin = server.connect();
    admin.done(
        "CREATE DATABASE anns; ALTER AUTHORIZATION ON DATABASE::anns TO ann; SET LOCK_TIMEOUT 0",
    );
    let mut ann = server.connect_as("ann", "master");
    ann.done("BEGIN TRANSACTION");
    for to in ["nobody", "ben"] {
        let out = ann.run(&format!("ALTER AUTHORIZATION ON DATABASE::anns TO {to}"));
        assert_eq!(common::errors(&out), [15151], "{to}: {out}");
    }
    assert_eq!(ann.scalar("SELECT @@TRANCOUNT"), "1");
    let change = |name: &str| {
        format!(
            "{} ALTER LOGIN ben WITH DEFAULT_LANGUAGE = German; DROP LOGIN {name}",
            create_login(name)
        )
    };
    admin.done(&change("cid"));
    ann.done("ALTER AUTHORIZATION ON DATABASE::anns TO ann");
    admin.done(&change("dan"));
    let out = admin.run("ALTER LOGIN ann DISABLE");
    assert_eq!(common::errors(&out), [1222], "{out}");
    ann.done("COMMIT");
    admin.done("ALTER LOGIN ann DISABLE");
    assert_eq!(owner_of(&server, "anns"), "ann");
}

/// A login that waits with its own new password is looked at again as well.
#[test]
fn who_is_disabled_meanwhile_does_not_get_in_with_a_new_password() {
    let server = prepared();
    let logins = &server.instance.logins;
    let now = server.instance.now_utc();
    let mut admin = server.connect();
    admin.done("BEGIN TRANSACTION; ALTER LOGIN ann DISABLE");
    let mut watcher = server.connect();
    let refused = std::thread::scope(|threads| {
        let new = Some("New-Word-1");
        let waiting =
            threads.spawn(move || logins.authenticate("ann", "Daruma-2026", new, now).err());
        let waits = "SELECT COUNT(*) FROM sys.dm_tran_locks WHERE request_status = 'WAIT'";
        while watcher.scalar(waits) == "0" && !waiting.is_finished() {
            std::thread::yield_now();
        }
        admin.done("COMMIT");
        waiting.join().expect("no panic")
    });
    assert!(refused.is_some());
    let ann = logins.get("ann").expect("ann");
    assert!(ann.disabled && logins.verify(&ann, "Daruma-2026"));
}

/// Failures are counted for a login until it is gone, and not until somebody thought of dropping it.
#[test]
fn a_drop_that_is_taken_back_unlocks_nobody() {
    let server = prepared();
    let logins = &server.instance.logins;
    let now = server.instance.now_utc();
    for _ in 0..10 {
        let _ = logins.authenticate("ann", "guess", None, now);
    }
    let mut c = server.connect();
    c.done("BEGIN TRANSACTION; DROP LOGIN ann; ROLLBACK");
    let refused = logins.authenticate("ann", "Daruma-2026", None, now).err();
    assert_eq!(refused, Some(LoginRefusal::LockedOut));
}

/// A change outside of any session gives its lock back, whatever ends it.
#[test]
fn a_panic_leaves_no_lock_on_logins() {
    let server = Server::new();
    let logins = &server.instance.logins;
    let make = || logins.create(|_| panic!("on purpose"));
    let made = std::panic::catch_unwind(std::panic::AssertUnwindSafe(make));
    assert!(made.is_err());
    let mut c = server.connect();
    c.done(&format!("SET LOCK_TIMEOUT 0; {}", create_login("ann")));
}

/// A session stays that of the login it came in with, whoever has that one's name by now.
#[test]
fn sessions_show_the_sid_of_their_login() {
    let server = prepared();
    let mut ann = server.connect_as("ann", "master");
    let spid = ann.scalar("SELECT @@SPID");
    let mut admin = server.connect();
    admin.done("ALTER LOGIN ann WITH NAME = anna; CREATE LOGIN ann WITH PASSWORD = 'Daruma-2026', CHECK_POLICY = OFF");
    let shown = format!(
        "SELECT CONCAT(SUSER_SNAME(security_id), ' ', SUSER_SNAME(original_security_id)) FROM sys.dm_exec_sessions WHERE session_id = {spid}"
    );
    assert_eq!(admin.scalar(&shown), "anna anna");
}
