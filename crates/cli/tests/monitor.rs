//! The monitor beside servers that hang, die and come back, as processes.

use daruma_client::client::{Client, EncryptionWish, Options};
use daruma_client::value;
use daruma_monitor::figures::index;
use daruma_monitor::sampler::difference::{RESTARTED, SPAN};
use daruma_monitor::sampler::live::{Live, State};
use daruma_monitor::{Monitor, MonitorOptions};
use daruma_tds::login::Secret;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PASSWORD: &str = "Watched-as-a-process-1";
/// What is waited for comes long before.
const PATIENCE: Duration = Duration::from_secs(180);

/// A server that keeps its port over restarts.
struct Server {
    folder: PathBuf,
    port: u16,
    process: Option<Child>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Server {
    fn start(root: &Path, name: &str) -> Server {
        let mut server = Server {
            folder: root.join(name),
            port: daruma_lab::server::free_port(),
            process: None,
        };
        server.run();
        server
    }

    fn run(&mut self) {
        let mut process = Command::new(env!("CARGO_BIN_EXE_daruma"))
            .args(["serve", "--memory", "128M", "--listen"])
            .arg(format!("127.0.0.1:{}", self.port))
            .arg("--data")
            .arg(&self.folder)
            .env("MSSQL_SA_PASSWORD", PASSWORD)
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program runs");
        let output = BufReader::new(process.stderr.take().expect("its output"));
        let mut lines = output.lines().map_while(Result::ok);
        let ready = lines.find(|line| line.starts_with("ready "));
        self.process = Some(process);
        let port = ready.as_deref().and_then(|line| {
            let address = line.split(' ').nth(1)?;
            address.rsplit_once(':')?.1.parse().ok()
        });
        self.port = port.expect("it listens");
        // What it says later must find a reader.
        std::thread::spawn(move || lines.for_each(drop));
    }

    /// As a power failure would end it.
    fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    fn signal(&self, name: &str) {
        let id = self.process.as_ref().expect("it runs").id().to_string();
        let told = Command::new("kill").args(["-s", name, &id]).status();
        assert!(told.expect("kill").success());
    }

    fn options(&self) -> Options {
        Options {
            password: Secret::new(PASSWORD),
            encryption: EncryptionWish::Optional,
            ..Options::new("127.0.0.1", self.port)
        }
    }

    /// The first column of a question, as whole numbers.
    fn numbers(&self, text: &str) -> Vec<i64> {
        let mut client = Client::connect(&self.options()).expect("connects");
        let rows = client.query(text).expect(text);
        let first = rows.iter().filter_map(|row| row.first());
        first
            .map(|v| value::text(v).parse().expect("a number"))
            .collect()
    }
}

fn watch(watched: &Server, repository: &Server) -> Monitor {
    let options = MonitorOptions {
        servers: vec![watched.options()],
        ..MonitorOptions::new(repository.options())
    };
    Monitor::start(&options).expect("the monitor starts")
}

fn eventually(what: &str, mut is: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is() {
        assert!(Instant::now() < end, "{what} did not come");
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

/// A look at the only server.
fn live<T>(monitor: &Monitor, look: impl FnOnce(&Live) -> T) -> T {
    look(&monitor.shared().servers[0].live())
}

fn is_up(live: &Live) -> bool {
    matches!(live.state(), State::Up | State::Late)
}

/// End of the newest tick.
fn newest(live: &Live) -> i64 {
    live.tick().map_or(0, |tick| tick.at)
}

fn goes_on(monitor: &Monitor, after: i64) {
    eventually("another tick", || {
        live(monitor, |live| is_up(live) && newest(live) > after)
    });
}

/// Flushes of the log: the newest total, and the sum of all ticks behind `from`.
fn flushes(live: &Live, from: i64) -> (i64, i64) {
    let at = index("log_flushes").expect("a figure");
    let sum: f64 = live
        .ticks
        .iter()
        .filter(|tick| tick.at > from)
        .map(|tick| tick.values.0[at])
        .sum();
    (live.totals[at].expect("a total"), sum as i64)
}

#[test]
fn a_server_that_hangs_is_called_frozen_and_one_that_died_restarts_its_totals() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let repository = Server::start(dir.path(), "repository");
    let mut watched = Server::start(dir.path(), "watched");
    let monitor = watch(&watched, &repository);
    goes_on(&monitor, 0);

    let (start, (before, _)) = live(&monitor, |live| (newest(live), flushes(live, 0)));
    watched.numbers("CREATE TABLE t (a int); INSERT t VALUES (1); SELECT COUNT(*) FROM t");
    watched.signal("STOP");
    eventually("frozen", || {
        let is_seen = |state| matches!(state, State::Frozen | State::Unreachable);
        live(&monitor, |live| is_seen(live.state()))
    });
    let (last, stood) = live(&monitor, |live| (newest(live), live.ticks.len()));
    eventually("a hole", || {
        live(&monitor, |live| {
            live.last
                .is_some_and(|last| last.elapsed() > Duration::from_secs(10))
        })
    });
    // One answer may still have been on its way; ten seconds without any make no tick.
    let ticks = live(&monitor, |live| live.ticks.len());
    assert!(ticks <= stood + 1, "{} are invented", ticks - stood);
    watched.signal("CONT");
    goes_on(&monitor, last);
    // Answers that were on their way when the server was stopped may still make a short tick before.
    eventually("a tick behind the hole", || {
        live(&monitor, |live| {
            let mut ticks = live.ticks.iter().filter(|tick| tick.at > last);
            ticks.any(|tick| tick.flags & SPAN == SPAN && tick.dt_ms > 3_000)
        })
    });
    live(&monitor, |live| {
        let (total, sum) = flushes(live, start);
        assert_eq!(total - before, sum, "sums hold what came in the hole");
    });

    watched.kill();
    eventually("gone", || {
        live(&monitor, |live| live.state() == State::Unreachable)
    });
    let last = live(&monitor, newest);
    watched.run();
    goes_on(&monitor, last);
    live(&monitor, |live| {
        let first = live.ticks.iter().find(|tick| tick.at > last);
        assert_eq!(
            first.expect("a tick of its new life").flags & RESTARTED,
            RESTARTED
        );
        let values = live.ticks.iter().flat_map(|tick| tick.values.0);
        assert!(values.into_iter().all(|v| v.is_nan() || v >= 0.0));
    });
    let end = live(&monitor, newest);
    eventually("all of it stored", || {
        let until = monitor.shared().stored.get().until;
        until.get(&1).is_some_and(|until| *until >= end)
    });
    let count = |text: &str| repository.numbers(text)[0];
    for kind in ["lost", "seen", "restart"] {
        let text = format!("SELECT COUNT(*) FROM DarumaMonitor.dbo.event WHERE kind = '{kind}'");
        assert!(count(&text) >= 1, "{kind}");
    }
    assert!(count("SELECT COUNT(*) FROM DarumaMonitor.dbo.tick_1s WHERE flags & 2 <> 0") >= 1);
    assert_eq!(
        count("SELECT COUNT(*) FROM DarumaMonitor.dbo.tick_1s WHERE log_flushes < 0"),
        0
    );
    monitor.stop();
}

#[test]
fn a_repository_that_dies_has_what_was_shown_as_stored_and_gets_the_rest() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let mut repository = Server::start(dir.path(), "repository");
    let watched = Server::start(dir.path(), "watched");
    let monitor = watch(&watched, &repository);
    let until = || {
        let stored = monitor.shared().stored.get();
        stored.until.get(&1).copied().unwrap_or(0)
    };
    eventually("something stored", || {
        until() > 0 && live(&monitor, |live| live.ticks.len() > 5)
    });

    let shown = until();
    repository.kill();
    let killed = live(&monitor, newest);
    eventually("the page says so", || {
        monitor.shared().stored.get().error.is_some()
    });
    goes_on(&monitor, killed);
    assert!(monitor.shared().outbox.waiting() > 0, "samples wait");
    repository.run();
    let end = live(&monitor, newest);
    eventually("stored again", || until() >= end);
    assert_eq!(monitor.shared().outbox.dropped(), 0);

    let kept: BTreeSet<i64> = repository
        .numbers(
            "SELECT DATEDIFF_BIG(millisecond, '1970-01-01', at) FROM DarumaMonitor.dbo.tick_1s",
        )
        .into_iter()
        .collect();
    let ticks: Vec<i64> = live(&monitor, |live| {
        live.ticks.iter().map(|tick| tick.at).collect()
    });
    let missing: Vec<i64> = ticks
        .into_iter()
        .filter(|at| *at <= end && !kept.contains(at))
        .collect();
    assert!(
        missing.iter().all(|at| *at > shown && *at <= killed),
        "{missing:?} are missing; stored until {shown}, killed at {killed}"
    );
    monitor.stop();
}
