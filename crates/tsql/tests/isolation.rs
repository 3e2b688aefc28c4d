//! Isolation specs: `golden/isolation/*.spec` plays one anomaly at every level.
//!
//! A spec holds set-up statements, a line `steps`, and steps of the form `a: text`: which session runs what, in this
//! order. The runner plays it at each level and appends what every step answered. Sessions never wait (LOCK_TIMEOUT 0),
//! so a step that would have to is shown as `waits`, and the order stays the one written: no threads, no time.
//! `DARUMA_BLESS=1` rewrites the answers.

mod common;

use common::{Client, Server};
use std::collections::BTreeMap;
use std::path::Path;

/// Level as shown, as set, and whether the database reads committed rows by versions.
const LEVELS: &[(&str, &str, bool)] = &[
    ("READ UNCOMMITTED", "READ UNCOMMITTED", true),
    ("READ COMMITTED, locking", "READ COMMITTED", false),
    ("READ COMMITTED, row versions", "READ COMMITTED", true),
    ("REPEATABLE READ", "REPEATABLE READ", true),
    ("SNAPSHOT", "SNAPSHOT", true),
    ("SERIALIZABLE", "SERIALIZABLE", true),
];

#[test]
fn specs_hold() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/isolation");
    let bless = std::env::var("DARUMA_BLESS").is_ok();
    let mut files: Vec<_> = std::fs::read_dir(&root)
        .expect("read golden/isolation")
        .flatten()
        .map(|entry| entry.path())
        .collect();
    files.retain(|path| path.extension().is_some_and(|e| e == "spec"));
    files.sort();
    assert!(files.len() > 5, "few specs under {}", root.display());
    let server = Server::new();
    let mut failures = Vec::new();
    for (number, file) in files.iter().enumerate() {
        let text = std::fs::read_to_string(file).expect("read spec");
        let found = play(&server, number, &text);
        match bless {
            true => std::fs::write(file, &found).expect("write spec"),
            false if found != text => failures.push(format!("{}\n{found}", file.display())),
            false => {}
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// The spec with the answers of all levels.
fn play(server: &Server, number: usize, text: &str) -> String {
    let source = text.split("\n--- ").next().unwrap_or(text).trim_end();
    let (setup, steps) = source.split_once("\nsteps\n").expect("a line `steps`");
    let mut out = format!("{source}\n");
    for (at, (shown, level, versions)) in LEVELS.iter().enumerate() {
        out.push_str(&format!("\n--- {shown}\n"));
        let database = format!("iso_{number}_{at}");
        prepare(server, &database, setup, *versions);
        let mut sessions: BTreeMap<&str, Client> = BTreeMap::new();
        for step in steps.lines().filter(|l| !l.trim().is_empty()) {
            let (name, statement) = step.split_once(": ").expect("session: statement");
            let client = sessions
                .entry(name)
                .or_insert_with(|| open(server, &database, level));
            out.push_str(&format!(
                "{name}: {statement}\n{}",
                answer(client, statement)
            ));
        }
    }
    out
}

fn prepare(server: &Server, database: &str, setup: &str, versions: bool) {
    let mut c = server.connect();
    c.run(&format!("CREATE DATABASE {database}"));
    if !versions {
        let out = c.run(&format!(
            "ALTER DATABASE {database} SET READ_COMMITTED_SNAPSHOT OFF"
        ));
        assert_eq!(out, "");
    }
    let statements: Vec<&str> = setup.lines().filter(|l| !l.starts_with("##")).collect();
    let mut c = server.connect_to(database);
    let out = c.run(&statements.join("\n"));
    assert!(!out.contains("Msg"), "{out}");
}

fn open(server: &Server, database: &str, level: &str) -> Client {
    let mut client = server.connect_to(database);
    client.run(&format!(
        "SET LOCK_TIMEOUT 0; SET NOCOUNT ON; SET TRANSACTION ISOLATION LEVEL {level}"
    ));
    client
}

/// Rows on one line, errors by number.
fn answer(client: &mut Client, statement: &str) -> String {
    let out = client.run(statement);
    if out.contains("Msg 1222,") {
        return "   waits\n".to_string();
    }
    if let Some(error) = out.lines().find(|l| l.starts_with("Msg ")) {
        let number = error.split(',').next().unwrap_or(error);
        return format!("   {number}\n");
    }
    // The first line names the columns.
    let rows: Vec<&str> = out.lines().skip(1).collect();
    match out.is_empty() {
        true => String::new(),
        false => format!("   [{}]\n", rows.join("; ")),
    }
}
