//! Samples of servers that do not exist, the same in each run: for tests, and to measure what a repository takes.

use crate::figures::{FIGURES, Kind};
use crate::repository::Repository;
use crate::repository::store::Writer;
use crate::sampler::difference::{Tick, WaitDelta};
use crate::sampler::live::Sample;
use crate::sampler::reading::{Completed, Wait};
use daruma_client::client::ClientError;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// An hour.
pub const HOUR_MS: i64 = 3_600_000;
/// One completed statement in so many seconds: 10,000 a day.
pub const STATEMENT_EVERY: i64 = 9;
/// Flushes of every sample, so that sums can be foretold.
pub const FLUSHES: f64 = 7.0;
/// Samples of one transaction, as the writer takes them when many wait.
const SAMPLES_MAX: usize = 200;
/// Questions of each width.
const QUESTIONS: usize = 20;
const WAIT_TYPES: [&str; 5] = [
    "WRITELOG",
    "PAGEIOLATCH_SH",
    "LCK_M_X",
    "ASYNC_NETWORK_IO",
    "RESOURCE_SEMAPHORE",
];

/// Numbers that look like a server's, the same in each run.
#[derive(Debug)]
pub struct Dice(pub u64);

impl Dice {
    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end.max(1)
    }
}

/// What a server did in the second that ended at `at`.
pub fn sample(server: i16, at: i64, dice: &mut Dice) -> Sample {
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
    tick.values.set("log_flushes", FLUSHES);
    for name in WAIT_TYPES {
        let wait = Wait {
            tasks: 1 + i64::try_from(dice.below(50)).unwrap_or(0),
            ms: i64::try_from(dice.below(900)).unwrap_or(0),
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
            duration_us: 100_000 + i64::try_from(dice.below(800_000)).unwrap_or(0),
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

/// Writes so many seconds of so many servers behind `from`; gives the time it took. `goes_on` is asked with each second that is
/// written, and ends it early.
pub fn write(
    repository: &Repository,
    servers: i16,
    from: i64,
    seconds: i64,
    mut goes_on: impl FnMut(i64) -> bool,
) -> Result<Duration, ClientError> {
    for id in 1..=servers {
        repository.server_id(&format!("server{id},1433"))?;
    }
    let mut writer = Writer::start(repository)?;
    let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
    let begun = Instant::now();
    let mut batch = Vec::new();
    for second in 1..=seconds {
        for server in 1..=servers {
            batch.push(sample(server, from + second * 1_000, &mut dice));
        }
        if batch.len() >= SAMPLES_MAX || second == seconds {
            writer.write(&batch)?;
            batch.clear();
            if !goes_on(second) {
                break;
            }
        }
    }
    Ok(begun.elapsed())
}

/// How long questions of any width take, the shortest first. A stretch with fewer rows than a minute of seconds has counts as
/// an error of whoever wrote it.
pub fn questions(
    repository: &Repository,
    servers: i16,
    from: i64,
    to: i64,
) -> Result<Vec<Duration>, ClientError> {
    let mut dice = Dice(7);
    let mut times = Vec::new();
    let widths = [60_000, 900_000, HOUR_MS, 6 * HOUR_MS, 24 * HOUR_MS];
    for width in widths.into_iter().filter(|width| *width <= to - from) {
        for _ in 0..QUESTIONS {
            let room = u64::try_from(to - from - width + 1).unwrap_or(1);
            let start = from + i64::try_from(dice.below(room)).unwrap_or(0);
            let server = dice.below(u64::try_from(servers).unwrap_or(1));
            let server = 1 + i16::try_from(server).unwrap_or(0);
            let begun = Instant::now();
            let stretch = repository.range(server, start, start + width)?;
            times.push(begun.elapsed());
            assert!(
                stretch.rows.len() >= 59,
                "{} rows of {width} ms",
                stretch.rows.len()
            );
        }
    }
    times.sort();
    Ok(times)
}
