//! What a server did, as events on the axis, and how it ran its statements, over a real server.

mod common;

use common::{Page, Proxy, eventually, monitor, server};
use daruma_client::client::{Client, Options};
use daruma_monitor::figures::index;
use daruma_monitor::sampler::live::State;
use daruma_monitor::{Monitor, MonitorOptions};
use serde_json::Value;
use std::time::{Duration, Instant};

/// Events of the last hour, of one kind.
fn events(page: &mut Page, kind: &str) -> Vec<Value> {
    let now = daruma_monitor::sql::now() + 60_000;
    let path = format!("/api/events?server=1&from={}&to={now}", now - 3_600_000);
    let all = page.json(&path).as_array().cloned().unwrap_or_default();
    all.into_iter().filter(|e| e["kind"] == kind).collect()
}

fn words(event: &Value) -> &str {
    event["words"].as_str().unwrap_or_default()
}

/// The first sample has come, so that what follows is seen as new.
fn first_tick(page: &mut Page) {
    eventually("the first tick", || {
        let live = page.json("/api/live?server=1");
        live["ticks"].as_array().is_some_and(|t| !t.is_empty())
    });
}

#[test]
fn starts_backups_errors_growths_and_settings_are_events_and_told_once() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let program = server(dir.path());
    let watching = monitor(&program);
    let mut page = Page::of(&watching);
    page.sign_in();
    first_tick(&mut page);
    let mut client = common::client(&program);
    let mut run = |text: &str| client.execute(text).expect(text);
    let file = |name: &str| dir.path().join(name).display().to_string();
    run(&format!(
        "CREATE DATABASE shop ON (NAME = d, FILENAME = '{}', SIZE = 8MB) LOG ON (NAME = l, FILENAME = '{}', SIZE = 1MB, \
         FILEGROWTH = 1MB)",
        file("shop.mdf"),
        file("shop.ldf")
    ));
    run("CREATE TABLE shop.dbo.big (a int IDENTITY, b char(8000))");
    run(&format!(
        "BACKUP DATABASE shop TO DISK = '{}'",
        file("shop.bak")
    ));
    run(
        "BEGIN TRAN; DECLARE @n int = 0; WHILE @n < 600 BEGIN INSERT shop.dbo.big VALUES ('x'); SET @n += 1; END; COMMIT",
    );
    run("EXEC sp_configure 'show advanced options', 1; RECONFIGURE");
    let raised = client.execute("RAISERROR ('planted-secret-9', 19, 1) WITH LOG");
    assert!(raised.is_err());

    for kind in ["restart", "backup", "log growth", "configuration", "error"] {
        eventually(kind, || !events(&mut page, kind).is_empty());
    }
    let backup = &events(&mut page, "backup")[0];
    assert!(
        words(backup).starts_with("Full backup of shop: "),
        "{backup}"
    );
    assert!(
        backup["until"].as_i64() >= backup["at"].as_i64(),
        "{backup}"
    );
    let error = &events(&mut page, "error")[0];
    assert_eq!(error["severity"], 19);
    assert!(
        words(error).starts_with("Error 50000, severity 19, state 1:")
            && !words(error).contains("secret"),
        "{error}"
    );
    let configured = events(&mut page, "configuration");
    assert!(
        words(&configured[0]).contains("show advanced options"),
        "{configured:?}"
    );

    // Another monitor with the same history looks an hour back, and tells nothing twice.
    let told = |page: &mut Page| ["restart", "backup", "error"].map(|k| events(page, k).len());
    assert_eq!(told(&mut page), [1, 1, 1]);
    watching.stop();
    let watching = monitor(&program);
    let mut page = Page::of(&watching);
    page.sign_in();
    let raised = client.execute("RAISERROR ('again', 18, 7) WITH LOG");
    assert!(raised.is_err());
    eventually("the next error", || {
        let all = events(&mut page, "error");
        all.iter()
            .any(|e| words(e).contains("severity 18, state 7"))
    });
    assert_eq!(told(&mut page), [1, 1, 2]);
    watching.stop();
    program.stop().expect("stops");
}

#[test]
fn a_slow_statement_has_its_plan_and_no_literal() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let program = server(dir.path());
    let watching = monitor(&program);
    let mut page = Page::of(&watching);
    page.sign_in();
    first_tick(&mut page);
    let mut client = common::client(&program);
    let run = |client: &mut Client, text: &str| {
        client.query(text).map(drop).expect(text);
    };
    run(
        &mut client,
        "CREATE TABLE p (a int NOT NULL PRIMARY KEY, b varchar(60)); DECLARE @n int = 0; WHILE @n < 700 BEGIN INSERT p VALUES \
         (@n, 'x'); SET @n += 1; END",
    );
    let slow = "SELECT COUNT(*) FROM p AS l CROSS JOIN p AS r WHERE l.b <> 'planted-secret-5' AND l.a + r.a > 3";
    let mut found = None;
    eventually("the statement with its plan", || {
        run(&mut client, slow);
        let now = daruma_monitor::sql::now() + 60_000;
        let path = format!(
            "/api/statements?server=1&from={}&to={now}&least_ms=0",
            now - 600_000
        );
        let rows = page.json(&path);
        let is_it = |r: &&Value| {
            r["has_plan"] == true
                && r["text"]
                    .as_str()
                    .is_some_and(|t| t.contains("CROSS JOIN p"))
        };
        found = rows
            .as_array()
            .and_then(|rows| rows.iter().find(is_it).cloned());
        found.is_some()
    });
    let id = found.as_ref().and_then(|row| row["text_id"].as_str());
    let plans = page.json(&format!(
        "/api/plans?server=1&text={}",
        id.expect("a number")
    ));
    let tree = plans[0]["tree"].as_str().expect("a plan");
    assert!(
        tree.contains("Nested Loops") && tree.contains("[p]") && tree.contains(" rows, cost "),
        "{tree}"
    );
    assert!(!tree.contains("secret"), "{tree}");
    watching.stop();
    program.stop().expect("stops");
}

#[test]
fn a_deadlock_whose_graph_never_comes_costs_no_tick() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let program = server(dir.path());
    let proxy = Proxy::before(program.address());
    proxy.silence("dm_xe_session_targets");
    let options = MonitorOptions {
        servers: vec![Options {
            port: proxy.port,
            ..common::options(&program)
        }],
        ..MonitorOptions::new(common::options(&program))
    };
    let watching = Monitor::start(&options).expect("the monitor starts");
    let server = watching.shared().servers[0].clone();
    eventually("a tick", || server.live().tick().is_some());
    let mut first = common::client(&program);
    let made = first.execute(
        "CREATE TABLE d (a int NOT NULL PRIMARY KEY, b int); INSERT d VALUES (1, 0), (2, 0)",
    );
    made.expect("creates");
    let mut second = common::client(&program);
    let locked = first.execute("BEGIN TRAN; UPDATE d SET b = 1 WHERE a = 1");
    locked.expect("locks");
    let locked =
        second.execute("SET DEADLOCK_PRIORITY LOW; BEGIN TRAN; UPDATE d SET b = 1 WHERE a = 2");
    locked.expect("locks");
    let waiting =
        std::thread::spawn(move || first.execute("UPDATE d SET b = 2 WHERE a = 2; COMMIT"));
    let told = second.execute("DELETE d WHERE a = 1");
    assert!(told.is_err_and(|e| e.to_string().contains("1205")));
    waiting.join().expect("ends").expect("goes on");
    let at = index("deadlocks").expect("a figure");
    let counted = |t: &std::sync::Arc<daruma_monitor::sampler::difference::Tick>| {
        t.values.at(at).is_some_and(|n| n > 0.0) && t.dt_ms < 3_000
    };
    let patience = Instant::now() + Duration::from_secs(60);
    let wait = |what: &str, is: &dyn Fn() -> bool| {
        while !is() {
            assert!(Instant::now() < patience, "{what} did not come");
            std::thread::park_timeout(Duration::from_millis(50));
        }
    };
    wait("the tick of the deadlock", &|| {
        server.live().ticks.iter().any(counted)
    });
    // The connection that asked for the graph is given up; the next one does not ask again.
    let seen = server.live().ticks.len();
    wait("eight ticks more", &|| {
        let live = server.live();
        live.ticks.len() >= seen + 8 && live.state() == State::Up
    });
    watching.stop();
    program.stop().expect("stops");
}
