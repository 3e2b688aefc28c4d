//! Settings of the server, of databases and of logins: each is obeyed, or refused with a number.

mod common;

use common::{Client, Server};

fn refused(client: &mut Client, number: i32, texts: &[&str]) {
    for text in texts {
        let out = client.run(text);
        assert!(out.contains(&format!("Msg {number},")), "{text}: {out}");
    }
}

/// `sp_configure` and RECONFIGURE, which say what they changed.
fn configure(client: &mut Client, name: &str, value: i64) {
    let out = client.run(&format!(
        "EXEC sp_configure 'show advanced options', 1; RECONFIGURE; EXEC sp_configure '{name}', {value}; RECONFIGURE"
    ));
    let errors = out
        .lines()
        .filter(|l| l.starts_with("Msg") && !l.contains("Msg 15457,"));
    assert_eq!(errors.collect::<Vec<_>>(), Vec::<&str>::new(), "{out}");
}

#[test]
fn after_triggers_do_not_cascade_without_nested_triggers() {
    let server = Server::with_setup(&[
        "CREATE DATABASE d",
        "USE d; CREATE TABLE a (id int); CREATE TABLE b (id int); CREATE TABLE c (id int); CREATE TABLE e (id int)",
        "USE d; EXEC ('CREATE TRIGGER ta ON a AFTER INSERT AS INSERT b SELECT id FROM inserted');
         EXEC ('CREATE TRIGGER tb ON b AFTER INSERT AS INSERT c SELECT id FROM inserted');
         EXEC ('CREATE TRIGGER te ON e INSTEAD OF INSERT AS INSERT a SELECT id FROM inserted')",
    ]);
    let mut c = server.connect_to("d");
    let counts = "SELECT CONCAT((SELECT COUNT(*) FROM a), (SELECT COUNT(*) FROM b), (SELECT COUNT(*) FROM c))";
    c.done("INSERT a VALUES (1)");
    assert_eq!(c.scalar(counts), "111");
    configure(&mut c, "nested triggers", 0);
    c.done("INSERT a VALUES (2)");
    assert_eq!(c.scalar(counts), "221");
    // Out of an INSTEAD OF trigger the first AFTER trigger is fired.
    c.done("INSERT e VALUES (3)");
    assert_eq!(c.scalar(counts), "331");
    configure(&mut c, "nested triggers", 1);
    c.done("INSERT a VALUES (4)");
    assert_eq!(c.scalar(counts), "442");
}

#[test]
fn instead_of_triggers_are_fired_without_nested_triggers() {
    let server = Server::with_setup(&[
        "CREATE DATABASE d",
        "USE d; CREATE TABLE a (id int); CREATE TABLE b (id int); CREATE TABLE c (id int)",
        "USE d; EXEC ('CREATE TRIGGER ta ON a AFTER INSERT AS INSERT b SELECT id FROM inserted');
         EXEC ('CREATE TRIGGER tb ON b INSTEAD OF INSERT AS INSERT c SELECT id FROM inserted')",
    ]);
    let mut c = server.connect_to("d");
    configure(&mut c, "nested triggers", 0);
    c.done("INSERT a VALUES (1)");
    assert_eq!(c.scalar("SELECT COUNT(*) FROM c"), "1");
}

#[test]
fn triggers_of_definitions_count_among_nested_triggers() {
    let server = Server::with_setup(&[
        "CREATE DATABASE d",
        "USE d; CREATE TABLE a (id int); CREATE TABLE b (id int); CREATE TABLE e (id int)",
        "USE d; EXEC ('CREATE TRIGGER ta ON a AFTER INSERT AS INSERT b SELECT id FROM inserted');
         EXEC ('CREATE TRIGGER te ON e INSTEAD OF INSERT AS EXEC (''CREATE TABLE f (id int)'')');
         EXEC ('CREATE TRIGGER of_tables ON DATABASE FOR CREATE_TABLE AS INSERT a VALUES (1)')",
    ]);
    let mut c = server.connect_to("d");
    let counts = "SELECT CONCAT((SELECT COUNT(*) FROM a), (SELECT COUNT(*) FROM b))";
    configure(&mut c, "nested triggers", 0);
    c.done("CREATE TABLE g (id int)");
    assert_eq!(
        c.scalar(counts),
        "10",
        "a trigger of definitions fires none"
    );
    c.done("INSERT e VALUES (1)");
    assert_eq!(c.scalar(counts), "20", "an INSTEAD OF trigger fires it");
    configure(&mut c, "nested triggers", 1);
    c.done("CREATE TABLE h (id int)");
    assert_eq!(c.scalar(counts), "31");
}

#[test]
fn new_sessions_begin_with_the_user_options_of_the_server() {
    let server = Server::new();
    let mut c = server.connect();
    // NOCOUNT and XACT_ABORT.
    configure(&mut c, "user options", 512 + 16_384);
    assert_eq!(
        c.scalar("SELECT @@OPTIONS & 16896"),
        "0",
        "not of those that are there"
    );
    assert_eq!(server.connect().scalar("SELECT @@OPTIONS & 16896"), "16896");
    c.session.reset(false, &mut c.sink).expect("reset");
    c.sink.take();
    assert_eq!(c.scalar("SELECT @@OPTIONS & 16896"), "16896");
    configure(&mut c, "user options", 0);
    assert_eq!(server.connect().scalar("SELECT @@OPTIONS & 16896"), "0");
}

#[test]
fn new_logins_speak_the_default_language_of_the_server() {
    let server = Server::new();
    let mut c = server.connect();
    c.done("CREATE LOGIN early WITH PASSWORD = 'Daruma-2026', CHECK_POLICY = OFF");
    configure(&mut c, "default language", 1);
    c.done("CREATE LOGIN late WITH PASSWORD = 'Daruma-2026', CHECK_POLICY = OFF");
    assert_eq!(
        server.connect_as("late", "").scalar("SELECT @@LANGUAGE"),
        "Deutsch"
    );
    refused(
        &mut c,
        15129,
        &["EXEC sp_configure 'default language', 400"],
    );
}

#[test]
fn loss_of_precision_is_no_error_and_cannot_be_made_one() {
    let server = Server::new();
    let mut c = server.connect();
    refused(&mut c, 40517, &["SET NUMERIC_ROUNDABORT ON"]);
    c.done("SET NUMERIC_ROUNDABORT OFF");
    assert_eq!(c.scalar("SELECT @@OPTIONS & 8192"), "0");
    refused(&mut c, 40517, &["EXEC sp_configure 'user options', 8192"]);
}

#[test]
fn no_statistics_are_made_where_they_are_off() {
    let server = Server::with_setup(&[
        "CREATE DATABASE d",
        "ALTER DATABASE d SET AUTO_CREATE_STATISTICS OFF",
        "USE d; CREATE TABLE t (id int PRIMARY KEY, a int);
         INSERT t SELECT value, value % 10 FROM GENERATE_SERIES(1, 2000)",
    ]);
    let mut c = server.connect_to("d");
    let made = "SELECT COUNT(*) FROM sys.stats WHERE auto_created = 1";
    c.run("SELECT COUNT(*) FROM t WHERE a = 3");
    assert_eq!(c.scalar(made), "0");
    c.done("ALTER DATABASE d SET AUTO_CREATE_STATISTICS ON");
    c.run("SELECT COUNT(*) FROM t WHERE a = 3");
    assert_eq!(c.scalar(made), "1");
}

#[test]
fn logins_are_made_with_what_can_be_obeyed() {
    let server = Server::new();
    let mut c = server.connect();
    refused(
        &mut c,
        15122,
        &[
            "CREATE LOGIN ann WITH PASSWORD = 'Daruma-2026', CHECK_EXPIRATION = ON, CHECK_POLICY = OFF",
        ],
    );
    refused(
        &mut c,
        15010,
        &["CREATE LOGIN ann WITH PASSWORD = 'Daruma-2026', DEFAULT_DATABASE = nowhere"],
    );
    c.done("CREATE LOGIN ann WITH PASSWORD = 'Daruma-2026', CHECK_POLICY = OFF");
    refused(
        &mut c,
        15122,
        &["ALTER LOGIN ann WITH CHECK_EXPIRATION = ON"],
    );
    refused(
        &mut c,
        15010,
        &["ALTER LOGIN ann WITH DEFAULT_DATABASE = nowhere"],
    );
}

#[test]
fn options_with_nothing_behind_them_are_refused() {
    let server = Server::with_setup(&["CREATE DATABASE d"]);
    let mut c = server.connect();
    refused(
        &mut c,
        40517,
        &[
            "ALTER DATABASE d SET ENABLE_BROKER",
            "ALTER DATABASE d SET NEW_BROKER",
            "ALTER DATABASE d SET DATA_RETENTION ON",
            "ALTER DATABASE d SET AUTOMATIC_TUNING (FORCE_LAST_GOOD_PLAN = ON)",
            "ALTER DATABASE d SET SUPPLEMENTAL_LOGGING ON",
        ],
    );
    for text in [
        "ALTER DATABASE d SET DISABLE_BROKER",
        "ALTER DATABASE d SET DATA_RETENTION OFF",
        "ALTER DATABASE d SET SUPPLEMENTAL_LOGGING OFF",
    ] {
        c.done(text);
    }
    refused(
        &mut c,
        40517,
        &[
            "ALTER DATABASE d SET NESTED_TRIGGERS = OFF",
            "ALTER DATABASE d SET TWO_DIGIT_YEAR_CUTOFF = 2049",
            "ALTER DATABASE d SET DEFAULT_LANGUAGE = Deutsch",
        ],
    );
    refused(
        &mut c,
        40517,
        &["ALTER DATABASE d MODIFY FILEGROUP [PRIMARY] AUTOGROW_ALL_FILES"],
    );
    c.done("ALTER DATABASE d MODIFY FILEGROUP [PRIMARY] AUTOGROW_SINGLE_FILE");
    c.run("EXEC sp_configure 'show advanced options', 1; RECONFIGURE");
    for name in [
        "xp_cmdshell",
        "contained database authentication",
        "query governor cost limit",
    ] {
        refused(&mut c, 40517, &[&format!("EXEC sp_configure '{name}', 1")]);
        configure(&mut c, name, 0);
    }
}

/// Triggers have no order, and only those of tables and views are known by name.
#[test]
fn the_order_of_triggers_is_theirs_or_refused() {
    let server = Server::with_setup(&[
        "CREATE DATABASE d",
        "USE d; CREATE TABLE a (id int); EXEC ('CREATE TRIGGER ta ON a AFTER INSERT AS RETURN')",
    ]);
    let mut c = server.connect_to("d");
    c.done("EXEC sp_settriggerorder 'ta', 'none', 'insert'");
    refused(
        &mut c,
        40517,
        &[
            "EXEC sp_settriggerorder 'ta', 'first', 'insert'",
            "EXEC sp_settriggerorder 'ta', 'none', 'CREATE_TABLE', 'DATABASE'",
            "EXEC sp_settriggerorder 'ta', 'none', 'insert', 'SERVER'",
        ],
    );
    refused(
        &mut c,
        15125,
        &[
            "EXEC sp_settriggerorder 'ta', 'none', 'delete'",
            "EXEC sp_settriggerorder 'ta', 'last', 'update'",
        ],
    );
    refused(
        &mut c,
        15165,
        &["EXEC sp_settriggerorder 'a', 'none', 'insert'"],
    );
    refused(
        &mut c,
        15600,
        &[
            "EXEC sp_settriggerorder 'ta', 'none', 'merge'",
            "EXEC sp_settriggerorder 'ta', 'none', 'insert', 'x'",
        ],
    );
}

#[test]
fn of_several_database_options_none_is_set_where_one_cannot_be() {
    let server = Server::with_setup(&["CREATE DATABASE d"]);
    let mut c = server.connect();
    let model = "SELECT recovery_model_desc FROM sys.databases WHERE name = 'd'";
    for (second, number) in [
        ("COMPATIBILITY_LEVEL = 155", 15048),
        ("DELAYED_DURABILITY_KILOBYTES = 5", 5057),
        ("PARAMETERIZATION SOMETIMES", 102),
        ("ENCRYPTION ON", 40517),
    ] {
        refused(
            &mut c,
            number,
            &[&format!("ALTER DATABASE d SET RECOVERY SIMPLE, {second}")],
        );
        assert_eq!(c.scalar(model), "FULL", "{second}");
    }
}
