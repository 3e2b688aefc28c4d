//! A day of ten servers in the repository, faster than it passes.
//!
//! `cargo test --release -p daruma-monitor --test soak -- --ignored --nocapture` writes a whole day and prints what it took: size
//! on disk, time of questions of any width, memory of the process, which is the monitor with its own repository. The test that
//! always runs writes half an hour of two servers and looks whether what is read is what was written.

mod common;

use daruma_monitor::figures::{COUNT, FIGURES, Kind, index};
use daruma_monitor::repository::{Repository, store};
use daruma_monitor::sampler::difference::{Tick, WaitDelta};
use daruma_monitor::sampler::live::Sample;
use daruma_monitor::sampler::reading::{Completed, Wait};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const HOUR_MS: i64 = 3_600_000;
/// One completed statement in so many seconds: 10,000 a day.
const STATEMENT_EVERY: i64 = 9;
const WAIT_TYPES: [&str; 5] = [
    "WRITELOG",
    "PAGEIOLATCH_SH",
    "LCK_M_X",
    "ASYNC_NETWORK_IO",
    "RESOURCE_SEMAPHORE",
];

/// Numbers that look like a server's, the same in each run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// What a server did in the second that ended at `at`.
fn sample(server: i16, at: i64, dice: &mut Dice) -> Sample {
    let mut tick = Tick {
        at,
        boot: 0,
        dt_ms: 1_000,
        flags: 0,
        values: Default::default(),
        waits: Vec::new(),
    };
    for figure in FIGURES {
        let value = match figure.kind {
            Kind::Gauge => dice.below(1 << 30) as f64,
            _ => dice.below(5_000) as f64,
        };
        tick.values.set(figure.name, value);
    }
    tick.values.set("log_flushes", 7.0);
    for name in WAIT_TYPES {
        let wait = Wait {
            tasks: 1 + dice.below(50) as i64,
            ms: dice.below(900) as i64,
            signal_ms: 0,
        };
        tick.waits.push(WaitDelta {
            wait_type: name.into(),
            wait,
        });
    }
    let mut completed = Vec::new();
    if at / 1_000 % STATEMENT_EVERY == 0 {
        let text = format!("SELECT a, b, c FROM dbo.t{} WHERE id = ?", dice.below(200));
        completed.push(Completed {
            kind: "request".into(),
            started: at - 900,
            duration_us: 100_000 + dice.below(800_000) as i64,
            executions: 1,
            database: "shop".into(),
            login: "web".into(),
            application: "shop".into(),
            text: Some(text.into()),
            ..Completed::default()
        });
    }
    Sample {
        server,
        tick: Some(Arc::new(tick)),
        events: Vec::new(),
        completed,
        blocking: Vec::new(),
    }
}

/// Writes so many seconds of so many servers behind `from`; gives the time it took.
fn write(repository: &Repository, servers: i16, from: i64, seconds: i64) -> Duration {
    for id in 1..=servers {
        let made = repository.server_id(&format!("server{id},1433"));
        assert_eq!(made.expect("a number"), id);
    }
    let mut writer = store::Writer::start(repository).expect("starts");
    let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
    let begun = Instant::now();
    let mut batch = Vec::new();
    for second in 1..=seconds {
        for server in 1..=servers {
            batch.push(sample(server, from + second * 1_000, &mut dice));
        }
        if batch.len() >= 200 || second == seconds {
            writer.write(&batch).expect("writes");
            batch.clear();
        }
    }
    begun.elapsed()
}

/// How long questions of any width take, the shortest first.
fn questions(repository: &Repository, servers: i16, from: i64, to: i64) -> Vec<Duration> {
    let mut dice = Dice(7);
    let mut times = Vec::new();
    let widths = [60_000, 900_000, HOUR_MS, 6 * HOUR_MS, 24 * HOUR_MS];
    for width in widths.into_iter().filter(|width| *width <= to - from) {
        for _ in 0..20 {
            let start = from + dice.below((to - from - width + 1) as u64) as i64;
            let server = 1 + dice.below(servers as u64) as i16;
            let begun = Instant::now();
            let stretch = repository.range(server, start, start + width);
            times.push(begun.elapsed());
            let rows = stretch.expect("reads").rows;
            assert!(rows.len() >= 59, "{} rows of {width} ms", rows.len());
        }
    }
    times.sort();
    times
}

fn bytes_below(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let sizes = entries.filter_map(Result::ok).map(|entry| {
        let about = entry.metadata().expect("about it");
        match about.is_dir() {
            true => bytes_below(&entry.path()),
            false => about.len(),
        }
    });
    sizes.sum()
}

/// A line of `/proc/self/status`, in MiB.
fn memory_mib(line: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("about the process");
    let found = status.lines().find_map(|l| l.strip_prefix(line));
    let number = found.and_then(|l| l.split_whitespace().next());
    number.and_then(|n| n.parse::<u64>().ok()).expect("a size") / 1_024
}

#[test]
fn what_is_read_is_what_was_written_at_every_width() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let program = common::server(dir.path());
    let repository = Repository::open(&common::options(&program)).expect("opens");
    let from = daruma_monitor::sql::now() / HOUR_MS * HOUR_MS - 2 * HOUR_MS;
    write(&repository, 2, from, 1_800);
    let at = index("log_flushes").expect("a figure");
    for (start, end) in [(0, 1_800), (60, 960), (7, 1_234), (600, 601)] {
        let stretch = repository
            .stretch(2, from + start * 1_000, from + end * 1_000)
            .expect("reads");
        let sum: f64 = stretch.rows.iter().map(|row| row.value[at]).sum();
        assert_eq!(sum, 7.0 * (end - start) as f64, "{start} to {end}");
        assert!(
            stretch
                .rows
                .iter()
                .all(|row| row.value.len() == COUNT && row.value[at] > 0.0)
        );
    }
    let asked = questions(&repository, 2, from, from + 1_800_000);
    assert_eq!(asked.len(), 40);
    let statements = repository.statements(1, from, from + 1_800_000, 0);
    assert_eq!(
        statements.expect("reads").len() as i64,
        1_800 / STATEMENT_EVERY
    );
    program.stop().expect("stops");
}

#[test]
#[ignore = "a day of ten servers takes minutes; its figures are in docs/benchmarks.md"]
fn a_day_of_ten_servers() {
    let set = |name: &str, otherwise: i64| {
        let given = std::env::var(name).ok().and_then(|v| v.parse().ok());
        given.unwrap_or(otherwise)
    };
    let (servers, hours) = (set("SOAK_SERVERS", 10) as i16, set("SOAK_HOURS", 24));
    let dir = tempfile::tempdir().expect("temporary directory");
    let program = common::server(dir.path());
    let repository = Repository::open(&common::options(&program)).expect("opens");
    let to = daruma_monitor::sql::now() / HOUR_MS * HOUR_MS;
    let from = to - hours * HOUR_MS;
    let empty = bytes_below(dir.path());
    let took = write(&repository, servers, from, hours * 3_600);
    let used = repository
        .query(
            "SELECT CAST(SUM(used_page_count) * 8 / 1024 AS bigint) FROM sys.dm_db_partition_stats",
        )
        .expect("counts");
    let used = used[0]
        .first()
        .map_or(String::new(), daruma_client::value::text);
    let times = questions(&repository, servers, from, to);
    let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize].as_secs_f64() * 1e3;
    println!(
        "{servers} servers, {hours} h: written in {:.0} s ({:.0} samples/s); tables {used} MB, files {} MB; questions p50 {:.0} ms, \
         p99 {:.0} ms, longest {:.0} ms; memory now {} MiB, at most {} MiB",
        took.as_secs_f64(),
        f64::from(servers) * hours as f64 * 3_600.0 / took.as_secs_f64(),
        (bytes_below(dir.path()) - empty) >> 20,
        at(0.5),
        at(0.99),
        at(1.0),
        memory_mib("VmRSS:"),
        memory_mib("VmHWM:"),
    );
    program.stop().expect("stops");
}
