//! The monitor over a real server: sampling, storing, pages, who may see them.

mod common;

use common::{Page, eventually, monitor, server};
use daruma_client::client::Client;
use daruma_monitor::figures::index;
use daruma_monitor::page::session::{Role, role_of};
use daruma_monitor::repository::levels::LEVELS;
use daruma_monitor::repository::{Repository, read, store};
use daruma_monitor::sampler::difference::{LATE, Tick};
use daruma_monitor::sampler::live::{Sample, State};
use serde_json::Value;
use std::io::Read;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

#[test]
fn nothing_is_answered_to_strangers() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let program = server(dir.path());
    let watching = monitor(&program);
    let mut page = Page::of(&watching);
    assert_eq!(page.get("/healthz").status, 200);
    assert_eq!(page.get("/login").status, 200);
    let root = page.get("/");
    assert_eq!((root.status, root.header("location")), (303, "/login"));
    for path in [
        "/api/servers",
        "/api/range?server=1&from=0&to=1",
        "/report.html?server=1&from=0&to=1",
        "/metrics",
        "/assets/app.js",
        "/nowhere",
    ] {
        assert_eq!(page.get(path).status, 401, "{path}");
    }
    assert_eq!(
        page.log_in("sa", "wrong").header("location"),
        "/login#wrong"
    );
    assert_eq!(page.get("/api/servers").status, 401);
    page.sign_in();
    assert_eq!(page.get("/api/servers").status, 200);
    let headers = page.get("/");
    assert!(
        headers
            .header("content-security-policy")
            .contains("default-src 'none'")
    );

    // The cookie alone is not enough to change something.
    page.origin = "http://evil.example".into();
    assert_eq!(page.post("/api/baselines", "{}").status, 403);
    page.origin = page.own_origin();
    assert_eq!(page.post("/api/baselines", "{}").status, 422);
    page.host = "evil.example".into();
    assert_eq!(
        page.get("/api/servers").status,
        421,
        "a name bound to this address by others"
    );
    page.host = page.own_host();
    assert_eq!(page.post("/logout", "").status, 200);
    assert_eq!(page.get("/api/servers").status, 401, "the old token");
    for _ in 0..6 {
        page.log_in("sa", "wrong");
    }
    assert_eq!(
        page.log_in("sa", common::PASSWORD).header("location"),
        "/login#often"
    );
    watching.stop();
    program.stop().expect("stops");
}

#[test]
fn a_login_without_a_role_is_refused_and_a_reader_changes_nothing() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let program = server(dir.path());
    let watching = monitor(&program);
    let mut client = common::client(&program);
    for text in [
        "CREATE LOGIN guest1 WITH PASSWORD = 'Guest-1234'; CREATE LOGIN reader1 WITH PASSWORD = 'Reader-1234'",
        "USE DarumaMonitor",
        "CREATE USER reader1 FOR LOGIN reader1; ALTER ROLE monitor_reader ADD MEMBER reader1",
    ] {
        client.execute(text).expect(text);
    }
    let mut page = Page::of(&watching);
    assert_eq!(
        page.log_in("guest1", "Guest-1234").header("location"),
        "/login#wrong"
    );
    assert_eq!(
        page.log_in("reader1", "Reader-1234").header("location"),
        "/"
    );
    assert_eq!(page.get("/api/servers").status, 200);
    let rule = r#"{"name":"x","figure":"blocked","above":1,"for_s":1,"enabled":true}"#;
    assert_eq!(page.post("/api/rules", rule).status, 403);

    // What is asked again while somebody is logged in.
    let repository = Repository::open(&common::options(&program)).expect("opens");
    let mut role = |change: &str, login: &str| {
        client.execute(change).expect(change);
        role_of(&repository, login).expect("answers")
    };
    assert_eq!(role("USE DarumaMonitor", "sa"), Some(Role::Admin));
    assert_eq!(role("SELECT 1", "guest1"), None);
    assert_eq!(role("SELECT 1", "reader1"), Some(Role::Reader));
    let text = "ALTER ROLE monitor_admin ADD MEMBER reader1";
    assert_eq!(role(text, "reader1"), Some(Role::Admin));
    let text = "ALTER ROLE monitor_admin DROP MEMBER reader1; ALTER ROLE monitor_reader DROP MEMBER reader1";
    assert_eq!(role(text, "reader1"), None);
    let text = "ALTER ROLE monitor_reader ADD MEMBER reader1";
    assert_eq!(role(text, "reader1"), Some(Role::Reader));
    assert_eq!(role("ALTER LOGIN reader1 DISABLE", "reader1"), None);
    watching.stop();
    program.stop().expect("stops");
}

#[test]
fn who_says_nothing_holds_no_place() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let program = server(dir.path());
    let watching = monitor(&program);
    let port = watching.address().expect("listens").port();
    let mut silent = TcpStream::connect(("127.0.0.1", port)).expect("connects");
    let patience = Some(Duration::from_secs(300));
    silent.set_read_timeout(patience).expect("takes a timeout");
    let mut bytes = Vec::new();
    silent.read_to_end(&mut bytes).expect("it is closed");
    watching.stop();
    program.stop().expect("stops");
}

#[test]
fn figures_are_those_of_the_server_and_are_stored() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let program = server(dir.path());
    let watching = monitor(&program);
    let mut page = Page::of(&watching);
    page.sign_in();
    let mut client = common::client(&program);
    client
        .execute("CREATE TABLE t (a int NOT NULL PRIMARY KEY)")
        .expect("creates");
    let ticks = |page: &mut Page| {
        page.json("/api/live?server=1")["ticks"]
            .as_array()
            .map_or(0, Vec::len)
    };
    eventually("the first tick", || ticks(&mut page) > 0);
    let before = common::log_flushes(&mut client);
    for n in 0..200 {
        client
            .execute(&format!("INSERT t VALUES ({n})"))
            .expect("inserts");
    }
    let flushes = common::log_flushes(&mut client) - before;
    assert!(flushes >= 200.0);
    // Other threads end most of these commits; their waits are this session's and this statement's all the same.
    let waits = client
        .query("SELECT waiting_tasks_count FROM sys.dm_exec_session_wait_stats WHERE session_id = @@SPID AND wait_type = N'WRITELOG'")
        .expect("answers");
    let waits = read::integer(&waits[0][0]).expect("a number");
    assert!(waits >= 200, "{waits} waits");
    let waited = client
        .query(
            "SELECT SUM(s.total_log_wait_time), SUM(s.total_wait_time), SUM(s.total_elapsed_time) FROM sys.dm_exec_query_stats s \
             CROSS APPLY sys.dm_exec_sql_text(s.sql_handle) x WHERE x.text LIKE N'INSERT t VALUES (%'",
        )
        .expect("answers");
    let waited: Vec<i64> = waited[0].iter().filter_map(read::integer).collect();
    assert!(
        waited.len() == 3 && waited[0] > 0 && waited[0] <= waited[1] && waited[1] <= waited[2],
        "{waited:?}"
    );
    let seen = ticks(&mut page);
    eventually("two ticks more", || ticks(&mut page) >= seen + 2);
    let live = page.json("/api/live?server=1");
    assert_eq!(live["server"]["state"], "up");
    let at = index("log_flushes").expect("a figure");
    let mut sum = 0.0;
    for tick in live["ticks"].as_array().expect("ticks") {
        sum += tick["values"][at].as_f64().expect("a rate") * tick["dt_ms"].as_f64().expect("ms")
            / 1_000.0;
    }
    // The history is kept on the same server, whose own flushes count as well.
    assert!(sum >= 200.0 && sum >= flushes, "{sum} of {flushes}");
    let last = live["ticks"]
        .as_array()
        .and_then(|t| t.last())
        .expect("a tick")["at"]
        .as_i64()
        .expect("ms");
    eventually("stored and hard", || {
        let servers = page.json("/api/servers");
        servers["servers"][0]["stored_until"]
            .as_i64()
            .is_some_and(|until| until >= last)
    });
    let report = page.json(&format!(
        "/api/report?server=1&from={}&to={last}",
        last - 60_000
    ));
    let figure = |name: &str| {
        let all = report["summary"]["figures"]
            .as_array()
            .expect("figures")
            .clone();
        all.into_iter()
            .find(|f| f["name"] == name)
            .expect("the figure")
    };
    let stored = figure("log_flushes")["total"].as_f64().expect("a total");
    assert!(
        (stored - sum).abs() <= sum * 0.5 + 50.0 && stored >= 200.0,
        "{stored} of {sum}"
    );
    assert!(
        figure("send_queue_bytes")["average"].is_null(),
        "absent, not 0"
    );
    assert!(
        report["waits"]
            .as_array()
            .expect("waits")
            .iter()
            .any(|w| w["name"] == "WRITELOG")
    );
    let metrics = page.get("/metrics").body;
    assert!(
        metrics.contains("# TYPE daruma_log_flushes counter")
            && metrics.contains("daruma_log_flushes_total{server="),
        "{metrics}"
    );
    assert!(metrics.ends_with("# EOF\n"));
    watching.stop();
    program.stop().expect("stops");
}

#[test]
fn a_blocked_session_appears_with_its_head_and_goes_and_no_literal_is_kept() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let program = server(dir.path());
    let watching = monitor(&program);
    let mut page = Page::of(&watching);
    page.sign_in();
    let mut holder = common::client(&program);
    holder
        .execute(
            "CREATE TABLE t (a int NOT NULL PRIMARY KEY, b varchar(60)); INSERT t VALUES (1, 'x')",
        )
        .expect("creates");
    holder
        .execute("BEGIN TRAN; UPDATE t SET b = 'planted-secret-7' WHERE a = 1")
        .expect("locks");
    let mut waiter = common::client(&program);
    let waiting = std::thread::spawn(move || {
        waiter.execute("UPDATE t SET b = 'planted-secret-8' WHERE a = 1")
    });
    let blocked = |page: &mut Page| {
        let live = page.json("/api/live?server=1");
        let all = live["requests"].as_array().cloned().unwrap_or_default();
        all.into_iter()
            .filter(|r| r["blocked_by"].as_i64().unwrap_or(0) > 0)
            .collect::<Vec<Value>>()
    };
    eventually("a blocked session", || !blocked(&mut page).is_empty());
    let live = page.json("/api/live?server=1");
    let request = &blocked(&mut page)[0];
    let head = request["blocked_by"].as_i64().expect("a session");
    assert!(
        live["requests"]
            .as_array()
            .expect("requests")
            .iter()
            .any(|r| r["session"] == head && r["command"] == "IDLE IN TRANSACTION"),
        "{live}"
    );
    eventually("its text", || {
        blocked(&mut page)
            .first()
            .is_some_and(|r| r["text"].as_str() == Some("UPDATE t SET b = ? WHERE a = ?"))
    });
    eventually("a second of waiting", || {
        blocked(&mut page)
            .first()
            .is_some_and(|r| r["wait_ms"].as_i64().unwrap_or(0) > 1_200)
    });
    holder.execute("COMMIT").expect("commits");
    waiting.join().expect("ends").expect("updates");
    eventually("nobody blocked", || blocked(&mut page).is_empty());
    let mut client = common::client(&program);
    let count = |client: &mut Client, text: &str| {
        let rows = client.query(text).expect(text);
        read::integer(&rows[0][0]).expect("a number")
    };
    eventually("the statement that waited", || {
        count(
            &mut client,
            "SELECT COUNT(*) FROM DarumaMonitor.dbo.statement WHERE lock_wait_ms > 1000 AND kind = N'request'",
        ) == 1
    });
    eventually("the same by its statement, with what it waited for", || {
        count(
            &mut client,
            "SELECT COUNT(*) FROM DarumaMonitor.dbo.statement WHERE lock_wait_ms > 1000 AND kind = N'statement'",
        ) == 1
    });
    assert!(
        count(
            &mut client,
            "SELECT COUNT(*) FROM DarumaMonitor.dbo.blocking"
        ) > 0
    );
    assert_eq!(
        count(
            &mut client,
            "SELECT COUNT(*) FROM DarumaMonitor.dbo.sql_text WHERE text LIKE N'%secret%'"
        ),
        0
    );
    watching.stop();
    program.stop().expect("stops");
}

#[test]
fn a_deadlock_is_an_event_with_both_statements() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let program = server(dir.path());
    let watching = monitor(&program);
    let mut page = Page::of(&watching);
    page.sign_in();
    let mut first = common::client(&program);
    first
        .execute("CREATE TABLE d (a int NOT NULL PRIMARY KEY, b varchar(60)); INSERT d VALUES (1, 'x'), (2, 'x')")
        .expect("creates");
    eventually("the first tick", || {
        let live = page.json("/api/live?server=1");
        live["ticks"].as_array().is_some_and(|t| !t.is_empty())
    });
    let mut second = common::client(&program);
    first
        .execute("BEGIN TRAN; UPDATE d SET b = 'planted-secret-1' WHERE a = 1")
        .expect("locks");
    second
        .execute(
            "SET DEADLOCK_PRIORITY LOW; BEGIN TRAN; UPDATE d SET b = 'planted-secret-2' WHERE a = 2",
        )
        .expect("locks");
    let waiting = std::thread::spawn(move || {
        first.execute("UPDATE d SET b = 'planted-secret-3' WHERE a = 2; COMMIT")
    });
    let told = second.execute("DELETE d WHERE a = 1");
    assert!(told.is_err_and(|e| e.to_string().contains("1205")));
    waiting.join().expect("ends").expect("goes on");
    let mut words = String::new();
    eventually("the deadlock as an event", || {
        let now = daruma_monitor::sql::now() + 60_000;
        let path = format!("/api/events?server=1&from={}&to={now}", now - 600_000);
        let events = page.json(&path);
        let events = events.as_array().cloned().unwrap_or_default();
        let deadlock = events.iter().find(|e| e["kind"] == "deadlock");
        words = deadlock.map_or(String::new(), |e| e["words"].to_string());
        !words.is_empty()
    });
    assert!(
        words.contains("UPDATE d SET b = ? WHERE a = ?")
            && words.contains("Victim, session")
            && words.contains("DELETE d WHERE a = ?")
            && !words.contains("secret"),
        "{words}"
    );
    watching.stop();
    program.stop().expect("stops");
}

#[test]
fn a_slow_server_is_late_and_its_ticks_are_as_long_as_they_took() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let program = server(dir.path());
    let proxy = common::Proxy::before(program.address());
    let options = daruma_monitor::MonitorOptions {
        servers: vec![daruma_client::client::Options {
            port: proxy.port,
            ..common::options(&program)
        }],
        ..daruma_monitor::MonitorOptions::new(common::options(&program))
    };
    let watching = daruma_monitor::Monitor::start(&options).expect("the monitor starts");
    let server = watching.shared().servers[0].clone();
    eventually("a tick", || server.live().tick().is_some());
    proxy.slow(Duration::from_millis(1_500));
    eventually("late", || {
        let live = server.live();
        let late = live.ticks.iter().rev().take(3);
        live.state() == State::Late
            && late
                .filter(|t| t.flags & LATE != 0 && t.dt_ms >= 1_400)
                .count()
                == 3
    });
    proxy.slow(Duration::ZERO);
    eventually("up again", || server.live().state() == State::Up);
    watching.stop();
    program.stop().expect("stops");
}

#[test]
fn a_monitor_that_starts_again_stores_on_and_tells_no_statement_twice() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let program = server(dir.path());
    let watching = monitor(&program);
    let mut client = common::client(&program);
    let count = |client: &mut Client, text: &str| {
        let rows = client.query(text).expect(text);
        read::integer(&rows[0][0]).expect("a number")
    };
    client
        .execute("WAITFOR DELAY '00:00:00.300'")
        .expect("waits");
    let told = "SELECT COUNT(*) FROM DarumaMonitor.dbo.statement AS s JOIN DarumaMonitor.dbo.sql_text AS t ON t.text_id = s.text_id \
                WHERE s.kind = N'request' AND t.text LIKE N'WAITFOR DELAY%'";
    eventually("the statement", || count(&mut client, told) == 1);
    watching.stop();
    let ticks = "SELECT COUNT(*) FROM DarumaMonitor.dbo.tick_1s";
    let seen = count(&mut client, ticks);
    let watching = monitor(&program);
    eventually("samples of the second monitor", || {
        count(&mut client, ticks) >= seen + 3
    });
    assert_eq!(count(&mut client, told), 1);
    watching.stop();
    program.stop().expect("stops");
}

#[test]
fn tables_of_a_later_release_are_left_alone() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let program = server(dir.path());
    let options = common::options(&program);
    for _ in 0..2 {
        Repository::open(&options).expect("makes the tables, and knows them again");
    }
    let mut client = common::client(&program);
    let later = "UPDATE DarumaMonitor.dbo.setting SET value = N'2' WHERE name = N'schema'; DROP TABLE DarumaMonitor.dbo.purge_run";
    client.execute(later).expect(later);
    let refused = Repository::open(&options).expect_err("is refused");
    let said = refused.to_string();
    assert!(
        said.contains("its tables have version 2, this release has 1"),
        "{said}"
    );
    let made = client
        .query("SELECT OBJECT_ID(N'DarumaMonitor.dbo.purge_run')")
        .expect("answers");
    assert!(
        made[0][0].is_null(),
        "something is made in what is left alone"
    );
    program.stop().expect("stops");
}

/// Seconds with one flush each, as the sampler would bring them.
fn seconds(from: i64, count: i64) -> Vec<Sample> {
    (1..=count)
        .map(|n| {
            let mut tick = Tick {
                at: from + n * 1_000,
                boot: from,
                dt_ms: 1_000,
                flags: 0,
                values: Default::default(),
                waits: Vec::new(),
            };
            tick.values.set("log_flushes", 1.0);
            tick.waits
                .push(daruma_monitor::sampler::difference::WaitDelta {
                    wait_type: "WRITELOG".into(),
                    wait: daruma_monitor::sampler::reading::Wait {
                        tasks: 1,
                        ms: 3,
                        signal_ms: 0,
                    },
                });
            Sample {
                server: 1,
                tick: Some(Arc::new(tick)),
                events: Vec::new(),
                completed: Vec::new(),
                blocking: Vec::new(),
            }
        })
        .collect()
}

#[test]
fn minutes_are_made_again_after_a_stop_and_nothing_is_there_twice() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let program = server(dir.path());
    let repository = Repository::open(&common::options(&program)).expect("opens");
    assert_eq!(repository.server_id("a,1").expect("a number"), 1);
    let hour = daruma_monitor::sql::now() / 3_600_000 * 3_600_000 - 7_200_000;
    let mut writer = store::Writer::start(&repository).expect("starts");
    let first = seconds(hour, 90);
    writer.write(&first).expect("writes");
    // The answer was lost, so they come again; then the writer is a new one, in the middle of a minute.
    let mut writer = store::Writer::start(&repository).expect("starts");
    writer.write(&first).expect("passes over them");
    writer.write(&seconds(hour + 90_000, 211)).expect("writes");
    let sum = |text: &str| {
        let rows = repository.query(text).expect(text);
        rows[0]
            .iter()
            .map(|v| read::integer(v).unwrap_or(0))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        sum("SELECT COUNT(*), SUM(CAST(log_flushes AS bigint)) FROM dbo.tick_1s"),
        [301, 301]
    );
    assert_eq!(
        sum("SELECT COUNT(*), SUM(CAST(log_flushes AS bigint)), MIN(ticks) FROM dbo.tick_1m"),
        [5, 300, 60]
    );
    assert_eq!(
        sum("SELECT COUNT(*), SUM(CAST(log_flushes AS bigint)) FROM dbo.tick_10s"),
        [30, 300]
    );
    assert_eq!(
        sum("SELECT COUNT(*), SUM(tasks), SUM(ms) FROM dbo.wait_1m"),
        [5, 300, 900]
    );
    let stretch = repository.range(1, hour, hour + 400_000).expect("reads");
    assert_eq!(stretch.level, LEVELS[0]);
    assert_eq!(stretch.rows.len(), 301);
    program.stop().expect("stops");
}

#[test]
fn the_purge_takes_what_is_too_old_and_says_what_it_cost() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let program = server(dir.path());
    let repository = Repository::open(&common::options(&program)).expect("opens");
    repository.server_id("a,1").expect("a number");
    let now = daruma_monitor::sql::now();
    let mut writer = store::Writer::start(&repository).expect("starts");
    writer
        .write(&seconds(now - 10 * 86_400_000, 150))
        .expect("writes");
    writer.write(&seconds(now - 60_000, 20)).expect("writes");
    daruma_monitor::repository::purge::all(&repository, 0).expect("purges");
    let runs = repository.purge_runs().expect("reads");
    let run = runs
        .iter()
        .find(|run| run.table == "tick_1s")
        .expect("a run");
    assert_eq!((run.rows, run.delayed), (150, true));
    let left = repository
        .query("SELECT COUNT(*) FROM dbo.tick_1s")
        .expect("counts");
    assert_eq!(read::integer(&left[0][0]), Some(20));
    repository.keep_days("tick_1m", 1).expect("keeps");
    daruma_monitor::repository::purge::all(&repository, 9).expect("purges");
    let runs = repository.purge_runs().expect("reads");
    assert!(
        runs.iter()
            .any(|run| run.table == "tick_1m" && run.rows >= 2 && !run.delayed),
        "{runs:?}"
    );
    program.stop().expect("stops");
}
