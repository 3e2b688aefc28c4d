//! Writers of much log wait for a synchronous replica that lacks too much of it, and for no other.

use crate::servers::*;
use daruma_client::client::ClientError;
use std::path::Path;
use std::thread::{self, JoinHandle};

const HELD_BACK: &str = "HADR_THROTTLE_LOG_RATE_SEND_RECV_QUEUE_SIZE";
/// Some 3 MB of log.
const ROWS: u32 = 15_000;

/// Two servers whose sessions time out so late, and a bound of one megabyte.
fn pair(root: &Path, mode: &str, session_timeout_s: u32) -> (Server, Server) {
    let (alfa, bravo) = (Server::start(root, "ALFA"), Server::start(root, "BRAVO"));
    acquaint(root, &[&alfa, &bravo]);
    create_database(&alfa);
    alfa.sql("EXEC sp_configure 'show advanced options', 1 RECONFIGURE");
    alfa.sql("EXEC sp_configure 'unacknowledged log (MB)', 1 RECONFIGURE");
    let timeout = format!("SESSION_TIMEOUT = {session_timeout_s}");
    let replicas =
        [&alfa, &bravo].map(|s| replica(s, mode).replace("SESSION_TIMEOUT = 5", &timeout));
    create_group_of(root, &alfa, &bravo, &replicas.join(", "));
    let state = if mode == "SYNCHRONOUS_COMMIT" {
        "SYNCHRONIZED"
    } else {
        "SYNCHRONIZING"
    };
    alfa.wait_for(OTHER_STATE, state);
    alfa.wait_for(OWN_ROLE, "PRIMARY");
    (alfa, bravo)
}

/// A large insert on a connection of its own; the number of its session.
fn load(server: &Server, from: u32) -> (i32, JoinHandle<Result<(), ClientError>>) {
    let mut client = server.connect("d").expect("connects");
    let rows = client
        .query("SELECT CAST(@@SPID AS int)")
        .expect("a session");
    let session = daruma_client::value::text(&rows[0][0]);
    let text = format!(
        "INSERT t SELECT value, REPLICATE('x', 100) FROM GENERATE_SERIES({from}, {})",
        from + ROWS - 1
    );
    let loading = thread::spawn(move || client.execute(&text).map(drop));
    (session.parse().expect("a number"), loading)
}

fn wait_type(session: i32) -> String {
    format!("SELECT wait_type FROM sys.dm_exec_requests WHERE session_id = {session}")
}

fn times_held_back(server: &Server) -> String {
    server.patient_value(&format!(
        "SELECT waiting_tasks_count FROM sys.dm_os_wait_stats WHERE wait_type = '{HELD_BACK}'"
    ))
}

#[test]
fn a_load_waits_for_a_synchronous_replica_and_can_be_killed_meanwhile() {
    let root = tempfile::tempdir().expect("temporary directory");
    let (mut alfa, bravo) = pair(root.path(), "SYNCHRONOUS_COMMIT", 3600);
    let unsent =
        "SELECT log_send_queue_size FROM sys.dm_hadr_database_replica_states WHERE is_local = 0";
    bravo.signal("STOP");
    let (session, loading) = load(&alfa, 1_000_000);
    alfa.wait_for(&wait_type(session), HELD_BACK);
    let shown = format!("SELECT status FROM sys.dm_exec_requests WHERE session_id = {session}");
    alfa.wait_for(&shown, "suspended");
    let task =
        format!("SELECT wait_type FROM sys.dm_os_waiting_tasks WHERE session_id = {session}");
    alfa.wait_for(&task, HELD_BACK);
    for view in [
        "sys.dm_exec_requests WHERE wait_time",
        "sys.dm_os_waiting_tasks WHERE wait_duration_ms",
    ] {
        let waits = format!("SELECT COUNT(*) FROM {view} > 50 AND session_id = {session}");
        alfa.wait_for(&waits, "1");
    }
    let queue: i64 = alfa.patient_value(unsent).parse().expect("kilobytes");
    assert!(queue < 2_048, "{queue} KB");

    // A small commit waits for the replica as ever, and a load that is killed ends at once.
    let mut small = alfa.connect("d").expect("connects");
    let small = thread::spawn(move || small.execute("INSERT t VALUES (1, 'small')").map(drop));
    alfa.sql(&format!("KILL {session}"));
    loading.join().expect("no panic").expect_err("killed");
    assert!(!small.is_finished());

    // Another goes on as soon as the replica does.
    let (session, loading) = load(&alfa, 2_000_000);
    alfa.wait_for(&wait_type(session), HELD_BACK);
    bravo.signal("CONT");
    small.join().expect("no panic").expect("commits");
    loading.join().expect("no panic").expect("commits");
    bravo.wait_for(COUNT, &(1 + ROWS).to_string());

    // A replica to which nothing is sent is waited for no more.
    bravo.signal("STOP");
    let (session, loading) = load(&alfa, 3_000_000);
    alfa.wait_for(&wait_type(session), HELD_BACK);
    alfa.sql("ALTER DATABASE d SET HADR SUSPEND");
    loading.join().expect("no panic").expect("commits");
    bravo.signal("CONT");
    alfa.sql("ALTER DATABASE d SET HADR RESUME");
    bravo.wait_for(COUNT, &(1 + 2 * ROWS).to_string());

    // A server stops in good order while it waits, and nothing of that load is there afterwards.
    alfa.wait_for(OTHER_STATE, "SYNCHRONIZED");
    bravo.signal("STOP");
    let (session, loading) = load(&alfa, 4_000_000);
    alfa.wait_for(&wait_type(session), HELD_BACK);
    alfa.stop();
    loading.join().expect("no panic").expect_err("ended");
    bravo.signal("CONT");
    alfa.run();
    alfa.wait_for(COUNT, &(1 + 2 * ROWS).to_string());
}

#[test]
fn a_load_goes_on_when_the_replica_is_lost() {
    let root = tempfile::tempdir().expect("temporary directory");
    let (alfa, bravo) = pair(root.path(), "SYNCHRONOUS_COMMIT", 5);
    bravo.signal("STOP");
    let (_, loading) = load(&alfa, 1_000_000);
    loading.join().expect("no panic").expect("commits");
    alfa.wait_for(OTHER_STATE, "NOT SYNCHRONIZING");
    assert_ne!(times_held_back(&alfa), "0");
    bravo.signal("CONT");
    bravo.wait_for(COUNT, &ROWS.to_string());
}

#[test]
fn a_load_does_not_wait_for_an_asynchronous_replica() {
    let root = tempfile::tempdir().expect("temporary directory");
    let (alfa, bravo) = pair(root.path(), "ASYNCHRONOUS_COMMIT", 3600);
    bravo.signal("STOP");
    let (_, loading) = load(&alfa, 1_000_000);
    loading.join().expect("no panic").expect("commits");
    assert_eq!(times_held_back(&alfa), "0");
    bravo.signal("CONT");
    bravo.wait_for(COUNT, &ROWS.to_string());
}
