//! Event sessions: what they collect over restarts, deadlocks and calls, and what they never do to those they watch.

mod common;

use common::{Client, Server};
use daruma_tsql::session::{RpcArgument, RpcProcedure, RpcRequest};
use daruma_value::{DataType, Value};
use std::time::{Duration, Instant};

/// The events that the ring of a session holds.
fn ring(client: &mut Client, session: &str) -> String {
    client.run(&format!(
        "SELECT target_data FROM sys.dm_xe_session_targets t JOIN sys.dm_xe_sessions s ON s.address = t.event_session_address \
         WHERE s.name = '{session}' AND t.target_name = 'ring_buffer'"
    ))
}

#[test]
fn a_session_starts_with_the_server_if_it_was_told_to() {
    let server = Server::with_setup(&[
        "CREATE EVENT SESSION kept ON SERVER ADD EVENT sqlserver.error_reported (WHERE error_number = 50000) \
         ADD TARGET package0.ring_buffer, ADD TARGET package0.event_file (SET filename = N'kept') WITH (STARTUP_STATE = ON)",
        "CREATE EVENT SESSION idle ON SERVER ADD EVENT sqlserver.error_reported ADD TARGET package0.ring_buffer",
        "ALTER EVENT SESSION idle ON SERVER STATE = START",
        "DROP EVENT SESSION system_health ON SERVER",
    ]);
    let server = server.restart();
    let mut client = server.connect();
    assert_eq!(
        client.run("SELECT name FROM sys.dm_xe_sessions ORDER BY name"),
        "name\nkept\n(1 row affected)\n"
    );
    client.run("RAISERROR('first life', 16, 1)");
    let server = server.restart_keeping(client);
    let mut client = server.connect();
    client.run("RAISERROR('second life', 16, 1)");
    let held = ring(&mut client, "kept");
    assert!(
        held.contains("second life") && !held.contains("first life"),
        "{held}"
    );
    let written = client.run(
        "SELECT IIF(event_data LIKE N'%<value>first life</value>%', 1, 2) AS life \
         FROM sys.fn_xe_file_target_read_file(N'kept*.xel', NULL, NULL, NULL) ORDER BY life",
    );
    assert_eq!(written, "life\n1\n2\n(2 rows affected)\n");
    // Reading goes on behind a place that was read before.
    let rest = client.run(
        "DECLARE @f nvarchar(260), @o bigint; \
         SELECT TOP (1) @f = file_name, @o = file_offset FROM sys.fn_xe_file_target_read_file(N'kept*.xel', NULL, NULL, NULL); \
         SELECT COUNT(*) AS n FROM sys.fn_xe_file_target_read_file(N'kept*.xel', NULL, @f, @o)",
    );
    assert!(rest.contains("n\n1\n"), "{rest}");
}

#[test]
fn system_health_has_the_graph_of_a_deadlock() {
    let server = Server::with_setup(&[
        "CREATE DATABASE d",
        "USE d; CREATE TABLE a (i int PRIMARY KEY, v int); INSERT a VALUES (1, 0), (2, 0)",
    ]);
    let mut first = server.connect_to("d");
    let mut second = server.connect_to("d");
    first.done("BEGIN TRANSACTION; UPDATE a SET v = 1 WHERE i = 1");
    second.done("SET DEADLOCK_PRIORITY LOW; BEGIN TRANSACTION; UPDATE a SET v = 2 WHERE i = 2");
    let waits = std::thread::spawn(move || {
        let told = first.run("UPDATE a SET v = 1 WHERE i = 2");
        (first, told)
    });
    let until = Instant::now() + Duration::from_secs(300);
    while !server.instance.engine().locks().iter().any(|l| !l.granted) {
        assert!(Instant::now() < until, "nobody waits");
        std::thread::yield_now();
    }
    let told = second.run("-- the victim's\nUPDATE a SET v = 2 WHERE i = 1");
    assert!(told.contains("Msg 1205"), "{told}");
    let (_first, told) = waits.join().expect("the other goes on");
    assert_eq!(told, "(1 row affected)\n");
    let mut third = server.connect();
    let held = ring(&mut third, "system_health");
    for part in [
        "<event name=\"xml_deadlock_report\" package=\"sqlserver\"",
        "<data name=\"xml_report\"><type name=\"xml\" package=\"package0\"/><value><deadlock><victim-list><victimProcess id=\"process",
        "spid=\"52\"",
        "priority=\"-5\"",
        "currentdbname=\"d\"",
        ">UPDATE a SET v = 1 WHERE i = 2</frame>",
        "line=\"2\"",
        ">UPDATE a SET v = 2 WHERE i = 1</frame>",
        "<inputbuf>-- the victim's\nUPDATE a SET v = 2 WHERE i = 1</inputbuf>",
        "<owner-list><owner id=\"process",
        "requestType=\"wait\"/></waiter-list>",
    ] {
        assert!(held.contains(part), "{part} in {held}");
    }
    assert_eq!(held.matches("<process id=").count(), 2, "{held}");
    assert_eq!(
        third.run("SELECT cntr_value FROM sys.dm_os_performance_counters WHERE counter_name = 'Number of Deadlocks/sec' AND instance_name = '_Total'"),
        "cntr_value\n1\n(1 row affected)\n"
    );
    assert_eq!(held.matches("<event ").count(), 1, "{held}");
    let written = third.run(
        "SELECT object_name FROM sys.fn_xe_file_target_read_file(N'system_health*.xel', NULL, NULL, NULL)",
    );
    assert!(written.contains("xml_deadlock_report"), "{written}");
}

#[test]
fn calls_are_told_with_their_names() {
    let server = Server::with_setup(&[
        "CREATE EVENT SESSION calls ON SERVER ADD EVENT sqlserver.rpc_completed (ACTION (sqlserver.client_app_name)) \
         ADD TARGET package0.ring_buffer",
        "ALTER EVENT SESSION calls ON SERVER STATE = START",
    ]);
    let mut client = server.connect();
    client.rpc(RpcRequest {
        procedure: RpcProcedure::Id(10),
        args: vec![RpcArgument {
            name: String::new(),
            value: Some(Value::str("SELECT 7 AS seven")),
            data_type: DataType::NVARCHAR_MAX,
            output: false,
            table: None,
        }],
        no_metadata: false,
    });
    let held = ring(&mut client, "calls");
    for part in [
        "<data name=\"object_name\"><type name=\"unicode_string\" package=\"package0\"/><value>sp_executesql</value>",
        "<value>SELECT 7 AS seven</value>",
        "<data name=\"row_count\"><type name=\"uint64\" package=\"package0\"/><value>1</value>",
        "<action name=\"client_app_name\" package=\"sqlserver\"><type name=\"unicode_string\" package=\"package0\"/><value>tests</value></action>",
    ] {
        assert!(held.contains(part), "{part} in {held}");
    }
}

#[test]
fn targets_stay_within_their_bounds() {
    let server = Server::with_setup(&[
        "CREATE EVENT SESSION small ON SERVER ADD EVENT sqlserver.error_reported (WHERE error_number = 50000) \
         ADD TARGET package0.ring_buffer (SET max_events_limit = 3, max_memory = 64), \
         ADD TARGET package0.event_file (SET filename = N'small', max_file_size = 1, max_rollover_files = 2) \
         WITH (MAX_MEMORY = 32 KB, MAX_DISPATCH_LATENCY = INFINITE)",
        "ALTER EVENT SESSION small ON SERVER STATE = START",
    ]);
    let mut client = server.connect();
    for number in 0..5 {
        client.run(&format!("RAISERROR('number {number}', 16, 1)"));
    }
    let held = ring(&mut client, "small");
    assert!(
        held.contains("totalEventsProcessed=\"5\" eventCount=\"3\""),
        "{held}"
    );
    assert!(
        !held.contains("number 1") && held.contains("number 2"),
        "{held}"
    );
    // Nobody writes the file: what does not fit into 32 KB is dropped and counted, and the errors are told as ever.
    for _ in 0..100 {
        let told = client.run("RAISERROR('more', 16, 1)");
        assert!(told.contains("Msg 50000"), "{told}");
    }
    let dropped = client.run("SELECT IIF(dropped_event_count BETWEEN 20 AND 100, 1, 0) AS d FROM sys.dm_xe_sessions WHERE name = 'small'");
    assert_eq!(dropped, "d\n1\n(1 row affected)\n");
    // Two files of 1 MB at most.
    for _ in 0..150 {
        client.run("DECLARE @i int = 0; WHILE @i < 50 BEGIN RAISERROR('filling the file', 16, 1) SET @i += 1 END");
        server.instance.events.flush();
    }
    let files = client.run(
        "SELECT IIF(COUNT(DISTINCT file_name) <= 2 AND COUNT(*) > 100, 1, 0) AS f FROM sys.fn_xe_file_target_read_file(N'small*.xel', NULL, NULL, NULL)",
    );
    assert_eq!(files, "f\n1\n(1 row affected)\n");
}

#[test]
fn rights() {
    let server = Server::with_setup(&[
        "CREATE LOGIN plain WITH PASSWORD = 'p4ssW0rd!'; CREATE LOGIN maker WITH PASSWORD = 'p4ssW0rd!'",
        "GRANT ALTER ANY EVENT SESSION TO maker",
    ]);
    let create = "CREATE EVENT SESSION s ON SERVER ADD EVENT sqlserver.error_reported ADD TARGET package0.ring_buffer";
    let mut plain = server.connect_as("plain", "master");
    assert!(plain.run(create).contains("Msg 15247"));
    assert!(
        plain
            .run("DROP EVENT SESSION system_health ON SERVER")
            .contains("Msg 15151")
    );
    assert!(
        plain
            .run("SELECT * FROM sys.dm_xe_sessions")
            .contains("Msg 300")
    );
    assert!(
        plain
            .run("SELECT * FROM sys.fn_xe_file_target_read_file('*.xel', NULL, NULL, NULL)")
            .contains("Msg 300")
    );
    assert_eq!(
        plain.run("SELECT name FROM sys.server_event_sessions"),
        "name\n(0 rows affected)\n"
    );
    let mut maker = server.connect_as("maker", "master");
    maker.done(create);
    maker.done("ALTER EVENT SESSION s ON SERVER STATE = START");
    maker.done("DROP EVENT SESSION s ON SERVER");
}

#[test]
fn sessions_are_counted() {
    let server = Server::new();
    let mut client = server.connect();
    for number in 1..100 {
        client.done(&format!(
            "CREATE EVENT SESSION s{number} ON SERVER ADD EVENT sqlserver.error_reported"
        ));
    }
    let more = client.run("CREATE EVENT SESSION more ON SERVER ADD EVENT sqlserver.error_reported");
    assert!(more.contains("Msg 25601"), "{more}");
}

#[test]
fn a_stored_predicate_that_cannot_be_read_is_an_error() {
    let event = daruma_catalog::EventDef {
        id: 1,
        name: "error_reported".to_string(),
        settings: Vec::new(),
        actions: Vec::new(),
        predicate: Some("severity >".to_string()),
    };
    let error = daruma_tsql::instance::events::check_event(&event).expect_err("no predicate");
    assert_eq!(error.number, 25711);
}

#[test]
fn passwords_are_in_no_event() {
    let server = Server::with_setup(&[
        "CREATE EVENT SESSION all_texts ON SERVER ADD EVENT sqlserver.sql_batch_completed (ACTION (sqlserver.sql_text)), \
         ADD EVENT sqlserver.sql_statement_completed, ADD EVENT sqlserver.error_reported (ACTION (sqlserver.sql_text)) \
         ADD TARGET package0.ring_buffer",
        "ALTER EVENT SESSION all_texts ON SERVER STATE = START",
    ]);
    let mut client = server.connect();
    client.run("CREATE LOGIN l WITH Password = 'planted secret 1'; CREATE LOGIN l WITH PASSWORD = N'planted secret 2'");
    client.run("EXEC ('CREATE LOGIN m WITH PASSWORD = ''planted secret 3''')");
    client.run("PRINT 'plain text'");
    let held = ring(&mut client, "all_texts");
    assert!(held.contains("CREATE LOGIN l WITH"), "{held}");
    assert!(held.contains("plain text"), "{held}");
    assert!(!held.contains("planted"), "{held}");
}

#[test]
fn each_wait_is_an_event_where_somebody_asked() {
    let server = Server::with_setup(&[
        "CREATE EVENT SESSION waits ON SERVER \
         ADD EVENT sqlserver.wait_completed (ACTION (sqlserver.session_id, sqlserver.sql_text) \
         WHERE wait_type = N'WAITFOR' AND duration >= 20), \
         ADD EVENT sqlserver.wait_info (WHERE wait_type = N'WAITFOR' AND duration < 20 AND opcode = N'End') \
         ADD TARGET package0.ring_buffer",
        "CREATE PROCEDURE dbo.rest AS WAITFOR DELAY '00:00:00.030'",
    ]);
    let mut client = server.connect();
    client.run("WAITFOR DELAY '00:00:00.040'");
    client.run("ALTER EVENT SESSION waits ON SERVER STATE = START");
    client.run("WAITFOR DELAY '00:00:00.010'; EXEC dbo.rest");
    let held = ring(&mut client, "waits");
    assert_eq!(held.matches("<event ").count(), 2, "{held}");
    for part in [
        "<event name=\"wait_info\" package=\"sqlserver\"",
        "<event name=\"wait_completed\" package=\"sqlserver\"",
        "<data name=\"wait_type\"><type name=\"wait_types\" package=\"sqlserver\"/><value>13</value><text>WAITFOR</text></data>",
        "<data name=\"opcode\"><type name=\"event_opcode\" package=\"sqlserver\"/><value>1</value><text>End</text></data>",
        "<data name=\"duration\"><type name=\"uint64\" package=\"package0\"/><value>3",
        "EXEC dbo.rest</value></action>",
    ] {
        assert!(held.contains(part), "{part} in {held}");
    }
    client.run("ALTER EVENT SESSION waits ON SERVER STATE = STOP");
    client.run("WAITFOR DELAY '00:00:00.040'");
    assert_eq!(
        daruma_base::take_traced_waits(),
        (Vec::new(), 0),
        "nobody asks any more"
    );
}
