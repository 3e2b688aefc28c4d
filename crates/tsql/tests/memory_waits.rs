//! Requests that wait for memory: whose turn it is, how long they wait, what others see of it. And memory that is given back when
//! somebody asks for that.

mod common;

use common::{Client, Server};
use daruma_tsql::instance::{Asking, Promise};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// Far more than this process allocates itself.
const WORK_BYTES: u64 = 100 << 30;
/// A session that the server does not know.
const SOMEBODY: i32 = 9_999;
/// Wants more than a little.
const LARGE: &str =
    "DECLARE @x varchar(max) = REPLICATE(CAST('x' AS varchar(max)), 3000000) SELECT LEN(@x) AS n";

/// Takes nearly all memory and has the turn, which is never over.
fn crowd(server: &Server) -> [Promise; 2] {
    let asking = Asking {
        session: SOMEBODY,
        held: 0,
        now: &|| Duration::MAX,
    };
    [70, 20].map(|gib| {
        let promise = server.instance.memory.promise(asking, gib << 30);
        promise.expect("there is room")
    })
}

#[test]
fn a_wait_that_takes_too_long_is_an_error() {
    let server = Server::with_memory(WORK_BYTES);
    server.set_up(&[
        "EXEC sp_configure 'show advanced options', 1 RECONFIGURE EXEC sp_configure 'query wait (s)', 7 RECONFIGURE",
        "CREATE TABLE t (a int)",
    ]);
    let mut client = server.connect();
    let held = crowd(&server);
    assert_eq!(
        client.run(LARGE),
        "Msg 8645, Level 17, State 1, Line 1\n\
         A timeout occurred while waiting for memory resources to execute the query in resource pool 'default' (2). Rerun the query.\n\
         n\nNULL\n(1 row affected)\n"
    );
    assert_eq!(
        client.scalar(
            "SELECT CONCAT(waiting_tasks_count, ' ', wait_time_ms / 1000) FROM sys.dm_os_wait_stats WHERE wait_type = 'RESOURCE_SEMAPHORE'"
        ),
        "1 7"
    );
    // Who holds little does not wait.
    client.done("INSERT t VALUES (1), (2) SELECT * FROM t ORDER BY a");
    // Somebody's turn is over: what he holds leaves enough for one at a time.
    server.instance.memory.leave(SOMEBODY);
    assert_eq!(client.scalar(LARGE), "3000000");
    drop(held);
}

#[test]
fn a_request_that_waits_is_suspended_and_goes_on_when_there_is_room() {
    let server = Server::with_memory(WORK_BYTES);
    server.set_up(&[
        "EXEC sp_configure 'show advanced options', 1 RECONFIGURE EXEC sp_configure 'query wait (s)', 2147483647 RECONFIGURE",
    ]);
    let (mut client, mut other) = (server.connect(), server.connect());
    assert_eq!(other.scalar("SELECT 'kept' AS k"), "kept");
    let held = crowd(&server);
    thread::scope(|scope| {
        let waiting = scope.spawn(move || client.scalar(LARGE));
        while other.scalar(
            "SELECT CONCAT(status, ' ', wait_type) FROM sys.dm_exec_requests WHERE wait_type LIKE 'RES%'",
        ) != "suspended RESOURCE_SEMAPHORE"
        {
            assert!(!waiting.is_finished(), "it does not wait");
            thread::yield_now();
        }
        // Who waits leaves the plans of others.
        assert_eq!(
            other.scalar(
                "SELECT COUNT(*) FROM sys.dm_exec_cached_plans CROSS APPLY sys.dm_exec_sql_text(plan_handle) WHERE text = 'SELECT ''kept'' AS k'"
            ),
            "1"
        );
        drop(held);
        assert_eq!(waiting.join().expect("ends"), "3000000");
    });
}

/// How often the system was given memory back.
static GIVEN_BACK: AtomicUsize = AtomicUsize::new(0);

fn give_back() {
    GIVEN_BACK.fetch_add(1, Ordering::Relaxed);
}

#[test]
fn caches_that_are_cleared_are_empty_and_the_system_gets_their_memory() {
    let server = Server::new();
    let first = server.instance.give_back_memory.set(give_back);
    first.expect("nobody else has set it");
    let mut c = server.connect();
    c.done("CREATE DATABASE d");
    let mut c = server.connect_to("d");
    c.done(
        "CREATE TABLE t (id int PRIMARY KEY, w char(4000) NOT NULL); INSERT t SELECT value, 'w' FROM GENERATE_SERIES(1, 200); CHECKPOINT",
    );
    let sum = "SELECT SUM(id) FROM t";
    let kept = "SELECT COUNT(*) FROM sys.dm_exec_cached_plans CROSS APPLY sys.dm_exec_sql_text(plan_handle) WHERE text = 'SELECT SUM(id) FROM t'";
    assert_eq!(c.scalar(sum), "20100");
    assert_eq!(c.scalar(kept), "1");
    c.done("DBCC FREEPROCCACHE");
    assert_eq!(GIVEN_BACK.load(Ordering::Relaxed), 1);
    assert_eq!(c.scalar(kept), "0");

    let reads = |c: &mut Client| {
        let before = server.disk.ios();
        assert_eq!(c.scalar(sum), "20100");
        server.disk.ios() - before
    };
    assert_eq!(reads(&mut c), 0, "all pages are in memory");
    c.done("DBCC DROPCLEANBUFFERS");
    assert_eq!(GIVEN_BACK.load(Ordering::Relaxed), 2);
    assert!(reads(&mut c) >= 100, "two rows of a page");
}
