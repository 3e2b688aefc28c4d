//! One text, many sessions, many times: the load of `daruma stress` and of the experiments.
//!
//! All sessions connect first, say SET STATISTICS, and begin together. Each runs the text its number of times and
//! records the client's time of every iteration. An error is counted and the session goes on; a session whose
//! connection breaks connects again once for every such iteration. What a failed iteration measured is not counted.

use crate::statement_stats::{SET_ON, run_measured};
use daruma_client::client::{Client, ClientError, Options, message_text};
use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Sessions of one load.
pub const THREADS_MAX: usize = 1000;
/// Different errors that are remembered; others are counted only.
const ERROR_KINDS_MAX: usize = 20;
/// Longest time that the histogram tells apart.
const HOUR_US: u64 = 3_600_000_000;

/// What each session runs, and how often.
#[derive(Clone, Debug)]
pub struct LoadPlan {
    pub text: String,
    pub threads: usize,
    /// Of every session.
    pub iterations: u64,
    /// Pause of a session between two iterations.
    pub delay: Duration,
    /// Ask for statistics; without them a server has less to send.
    pub statistics: bool,
}

impl LoadPlan {
    /// `threads` sessions (1 to [`THREADS_MAX`]) without pauses, with statistics.
    pub fn new(text: impl Into<String>, threads: usize, iterations: u64) -> LoadPlan {
        LoadPlan {
            text: text.into(),
            threads: threads.clamp(1, THREADS_MAX),
            iterations,
            delay: Duration::ZERO,
            statistics: true,
        }
    }
}

/// What a load came to.
#[derive(Clone, Debug)]
pub struct LoadResult {
    pub threads: usize,
    pub completed: u64,
    pub failed: u64,
    /// Error texts with how often each was seen.
    pub errors: BTreeMap<String, u64>,
    pub rows: u64,
    /// From the common beginning to the end of the last session.
    pub total: Duration,
    client: Duration,
    cpu_ms: u64,
    elapsed_ms: u64,
    logical_reads: u64,
    /// Completed iterations for which the server sent statistics.
    with_stats: u64,
    latency_us: Histogram<u64>,
}

impl LoadResult {
    fn new(threads: usize) -> LoadResult {
        LoadResult {
            threads,
            completed: 0,
            failed: 0,
            errors: BTreeMap::new(),
            rows: 0,
            total: Duration::ZERO,
            client: Duration::ZERO,
            cpu_ms: 0,
            elapsed_ms: 0,
            logical_reads: 0,
            with_stats: 0,
            latency_us: histogram(),
        }
    }

    /// Mean processor time of an iteration in the server, in seconds; `None` if the server does not tell.
    pub fn cpu_s(&self) -> Option<f64> {
        self.per_told(self.cpu_ms as f64 / 1e3)
    }

    /// Mean duration of an iteration as the server measured it.
    pub fn actual_s(&self) -> Option<f64> {
        self.per_told(self.elapsed_ms as f64 / 1e3)
    }

    /// Mean of an iteration, in pages; `None` if the server does not tell.
    pub fn logical_reads(&self) -> Option<f64> {
        self.per_told(self.logical_reads as f64)
    }

    fn per_told(&self, sum: f64) -> Option<f64> {
        (self.with_stats > 0).then(|| sum / self.with_stats as f64)
    }

    /// Mean duration of an iteration as the client measured it.
    pub fn client_s(&self) -> Option<f64> {
        (self.completed > 0).then(|| self.client.as_secs_f64() / self.completed as f64)
    }

    /// Client time of which `percent` per cent of the iterations stayed below, in seconds.
    pub fn percentile_s(&self, percent: f64) -> f64 {
        self.latency_us.value_at_percentile(percent) as f64 / 1e6
    }

    /// The slowest iteration as a client measured it, in seconds.
    pub fn max_s(&self) -> f64 {
        self.latency_us.max() as f64 / 1e6
    }

    /// Completed iterations of all sessions in a second.
    pub fn per_second(&self) -> f64 {
        self.completed as f64 / self.total.as_secs_f64().max(1e-9)
    }

    fn add(&mut self, other: &LoadResult) {
        self.completed += other.completed;
        self.failed += other.failed;
        self.rows += other.rows;
        self.client += other.client;
        self.cpu_ms += other.cpu_ms;
        self.elapsed_ms += other.elapsed_ms;
        self.logical_reads += other.logical_reads;
        self.with_stats += other.with_stats;
        // Both histograms have the same bounds, so nothing can be out of them.
        let _ = self.latency_us.add(&other.latency_us);
        for (text, count) in &other.errors {
            self.count_error(text, *count);
        }
    }

    fn count_error(&mut self, text: &str, count: u64) {
        if self.errors.len() < ERROR_KINDS_MAX || self.errors.contains_key(text) {
            *self.errors.entry(text.into()).or_default() += count;
        }
    }
}

fn histogram() -> Histogram<u64> {
    // These bounds are valid: the lowest is at least 1, the highest at least twice that, the digits at most 5.
    Histogram::new_with_bounds(1, HOUR_US, 3).unwrap_or_else(|_| unreachable!("bounds are valid"))
}

/// Runs the load. `progress` hears of every iteration; when `stop` is set no session begins another one.
pub fn run(
    options: &Options,
    plan: &LoadPlan,
    stop: &AtomicBool,
    progress: &(dyn Fn() + Sync),
) -> Result<LoadResult, ClientError> {
    let mut clients = Vec::with_capacity(plan.threads);
    for _ in 0..plan.threads {
        clients.push(connect(options, plan)?);
    }
    let sum = Mutex::new(LoadResult::new(plan.threads));
    let (start, begun) = (Barrier::new(plan.threads + 1), Mutex::new(Instant::now()));
    thread::scope(|scope| {
        for client in clients {
            scope.spawn(|| {
                let mut session = Session {
                    options,
                    plan,
                    client,
                    result: LoadResult::new(1),
                };
                start.wait();
                session.run(stop, progress);
                lock(&sum).add(&session.result);
            });
        }
        *lock(&begun) = Instant::now();
        start.wait();
    });
    let mut sum = sum.into_inner().unwrap_or_else(PoisonError::into_inner);
    sum.total = lock(&begun).elapsed();
    Ok(sum)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn connect(options: &Options, plan: &LoadPlan) -> Result<Client, ClientError> {
    let mut client = Client::connect(options)?;
    if plan.statistics {
        client.execute(SET_ON)?;
    }
    Ok(client)
}

struct Session<'a> {
    options: &'a Options,
    plan: &'a LoadPlan,
    client: Client,
    result: LoadResult,
}

impl Session<'_> {
    fn run(&mut self, stop: &AtomicBool, progress: &(dyn Fn() + Sync)) {
        for iteration in 0..self.plan.iterations {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            if iteration > 0 && !self.plan.delay.is_zero() {
                thread::sleep(self.plan.delay);
            }
            self.iterate();
            progress();
        }
    }

    fn iterate(&mut self) {
        match run_measured(&mut self.client, &self.plan.text) {
            Ok(measured) => {
                let result = &mut self.result;
                result.completed += 1;
                result.rows += measured.rows;
                result.client += measured.client;
                result.cpu_ms += measured.stats.cpu_ms;
                result.elapsed_ms += measured.stats.elapsed_ms;
                result.logical_reads += measured.stats.logical_reads;
                result.with_stats += u64::from(measured.stats.messages > 0);
                let us = u64::try_from(measured.client.as_micros()).unwrap_or(HOUR_US);
                result.latency_us.saturating_record(us.max(1));
            }
            Err(error) => self.fail(&error),
        }
    }

    fn fail(&mut self, error: &ClientError) {
        self.result.failed += 1;
        let text = error
            .server_message()
            .map_or_else(|| error.to_string(), message_text);
        self.result.count_error(&text, 1);
        if error.is_fatal()
            && let Ok(client) = connect(self.options, self.plan)
        {
            self.client = client;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use daruma_client::client::EncryptionWish;
    use daruma_client::client::fake::{Answer, PASSWORD, Request, serve};
    use daruma_tds::login::Secret;
    use std::sync::atomic::AtomicU64;

    fn options(answer: impl FnMut(Request) -> Answer + Send + 'static) -> Options {
        Options {
            password: Secret::new(PASSWORD),
            encryption: EncryptionWish::Optional,
            ..Options::new("localhost", serve(None, answer))
        }
    }

    #[test]
    fn figures_are_means_over_the_iterations() {
        let mut n = 0;
        let options = options(move |request| {
            let Request::Batch(text) = request else {
                return Answer::default();
            };
            if text.starts_with("SET") {
                return Answer::default();
            }
            n += 1;
            match n {
                3 => Answer::default().message(1205, 13, "deadlock"),
                _ => Answer::default()
                    .message(3613, 0, "CPU time = 20 ms,  elapsed time = 30 ms.")
                    .message(
                        3615,
                        0,
                        "Table 't'. Scan count 1, logical reads 7, physical reads 0",
                    ),
            }
        });
        let seen = AtomicU64::new(0);
        let count = || {
            seen.fetch_add(1, Ordering::Relaxed);
        };
        let result = run(
            &options,
            &LoadPlan::new("x", 1, 4),
            &AtomicBool::new(false),
            &count,
        )
        .expect("runs");
        assert_eq!((result.completed, result.failed), (3, 1));
        assert_eq!(seen.load(Ordering::Relaxed), 4);
        assert_eq!(result.cpu_s(), Some(0.02));
        assert_eq!(result.actual_s(), Some(0.03));
        assert_eq!(result.logical_reads(), Some(7.0));
        assert!(result.max_s() >= result.percentile_s(50.0) && result.client_s().is_some());
        let texts: Vec<_> = result.errors.keys().collect();
        assert!(
            texts.len() == 1 && texts[0].contains("deadlock"),
            "{texts:?}"
        );
    }

    #[test]
    fn a_stopped_load_ends_at_once() {
        let options = options(|_| Answer::default());
        let result = run(
            &options,
            &LoadPlan::new("x", 1, 1_000_000_000),
            &AtomicBool::new(true),
            &|| (),
        )
        .expect("runs");
        assert_eq!((result.completed, result.cpu_s()), (0, None));
    }
}
