//! Isolation specs: `golden/isolation/*.spec` plays one anomaly at every level.
//!
//! A spec holds set-up statements, a line `steps`, and steps of the form `a: text`: which session runs what, in this
//! order. The runner plays it at each level and appends what every step answered. Sessions never wait (LOCK_TIMEOUT 0),
//! so a step that would have to is shown as `waits`, and the order stays the one written: no threads, no time.
//!
//! After `steps that wait` they do: each session runs in a thread, and the next step comes when everybody else is done or
//! waits for a lock that somebody holds. What a step that waited answers stands where it came, as `goes on`.
//! `DARUMA_BLESS=1` rewrites the answers.

mod common;

use common::{Client, Server};
use daruma_storage::LockInfo;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Far longer than any step takes: only a spec that hangs is not settled by then.
const LONG: Duration = Duration::from_secs(300);

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
    let waits = source.split_once("\nsteps that wait\n");
    let may_wait = waits.is_some();
    let (setup, steps) = waits
        .or_else(|| source.split_once("\nsteps\n"))
        .expect("a line `steps`");
    let mut out = format!("{source}\n");
    for (at, (shown, level, versions)) in LEVELS.iter().enumerate() {
        out.push_str(&format!("\n--- {shown}\n"));
        let database = format!("iso_{number}_{at}");
        prepare(server, &database, setup, *versions);
        if may_wait {
            out.push_str(&play_waiting(server, &database, level, steps));
            continue;
        }
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

/// A session of a spec whose steps wait.
struct Seat {
    name: String,
    client: Option<Client>,
    /// A step that has not been told yet.
    running: Option<JoinHandle<(Client, String)>>,
    waits: bool,
}

impl Seat {
    fn start(&mut self, statement: &str) {
        let Some(mut client) = self.client.take() else {
            return;
        };
        let statement = statement.to_string();
        self.running = Some(std::thread::spawn(move || {
            let said = answer(&mut client, &statement);
            (client, said)
        }));
    }

    fn is_running(&self) -> bool {
        self.running.as_ref().is_some_and(|r| !r.is_finished())
    }

    /// What the step said, if it is over.
    fn finish(&mut self) -> Option<String> {
        let handle = self.running.take_if(|r| r.is_finished())?;
        let (client, said) = handle.join().expect("a step");
        self.client = Some(client);
        Some(said)
    }
}

fn play_waiting(server: &Server, database: &str, level: &str, steps: &str) -> String {
    let mut out = String::new();
    let mut seats: Vec<Seat> = Vec::new();
    for step in steps.lines().filter(|l| !l.trim().is_empty()) {
        let (name, statement) = step.split_once(": ").expect("session: statement");
        let at = seats.iter().position(|s| s.name == name);
        let at = at.unwrap_or_else(|| {
            let mut client = open(server, database, level);
            client.run("SET LOCK_TIMEOUT -1");
            seats.push(Seat {
                name: name.to_string(),
                client: Some(client),
                running: None,
                waits: false,
            });
            seats.len() - 1
        });
        out.push_str(&format!("{name}: {statement}\n"));
        if seats[at].waits {
            out.push_str("   still waits\n");
            continue;
        }
        seats[at].start(statement);
        settle(server, &seats);
        for seat in &mut seats {
            let waited = std::mem::take(&mut seat.waits);
            match seat.finish() {
                Some(said) if waited => {
                    out.push_str(&format!("   {} goes on\n{said}", seat.name));
                }
                Some(said) => out.push_str(&said),
                None => {
                    seat.waits = seat.running.is_some();
                    if seat.waits && !waited {
                        out.push_str("   waits\n");
                    }
                }
            }
        }
    }
    let waiting = seats.iter().filter(|s| s.waits).count();
    assert_eq!(waiting, 0, "a spec ends with a step that waits:\n{out}");
    out
}

/// Returns when nobody can go on before another step comes.
fn settle(server: &Server, seats: &[Seat]) {
    let until = Instant::now() + LONG;
    loop {
        // Counted first: what a step that is over has released is seen to be free.
        let running = seats.iter().filter(|s| s.is_running()).count();
        let locks = server.instance.engine().locks();
        let blocked = blocked(&locks);
        if running == blocked.len() && !has_cycle(&blocked) {
            return;
        }
        assert!(Instant::now() < until, "nobody waits or ends: {locks:#?}");
        std::thread::yield_now();
    }
}

/// Owners that wait, each with those that hold what it wants or came before it for that.
fn blocked(locks: &[LockInfo]) -> BTreeMap<u64, BTreeSet<u64>> {
    let mut found: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
    for (at, waiting) in locks.iter().enumerate().filter(|(_, l)| !l.granted) {
        let resource = format!("{:?}", waiting.resource);
        let before = locks.iter().enumerate().filter(|(other, l)| {
            (l.granted || *other < at)
                && l.owner != waiting.owner
                && excludes(waiting.mode, l.mode)
                && format!("{:?}", l.resource) == resource
        });
        let before: BTreeSet<u64> = before.map(|(_, l)| l.owner).collect();
        if !before.is_empty() {
            found.insert(waiting.owner, before);
        }
    }
    found
}

/// Of the modes that rows, ranges and transactions are locked in.
fn excludes(a: &str, b: &str) -> bool {
    !matches!((a, b), ("S", "S") | ("S", "U") | ("U", "S") | ("IX", "IX"))
}

fn has_cycle(blocked: &BTreeMap<u64, BTreeSet<u64>>) -> bool {
    let mut left = blocked.clone();
    loop {
        let free: Vec<u64> = left
            .iter()
            .filter(|(_, holders)| holders.iter().all(|h| !left.contains_key(h)))
            .map(|(owner, _)| *owner)
            .collect();
        if free.is_empty() {
            return !left.is_empty();
        }
        free.iter().for_each(|owner| {
            left.remove(owner);
        });
    }
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
