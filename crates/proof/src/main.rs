//! `cargo xtask sim`: many seeds, one report; a failing seed is told with the command that repeats it.

use daruma_proof::{Copies, Mode, Stats, Violation, copies, every_io, run, several};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

struct Arguments {
    runs: u64,
    seed: Option<u64>,
    mode: Mode,
    minutes: Option<u64>,
    keep_going: bool,
    trace: bool,
    /// Instead of random runs: each call of one scenario goes wrong.
    every_io: bool,
    stride: u64,
    threads: u64,
}

const USAGE: &str = "usage: sim [--runs N] [--seed S] [--mode classic|accelerated|both] [--minutes M] [--threads T] [--keep-going] [--trace]
       sim --every-io [--stride N] [--seed S] [--mode classic|accelerated|both]";

fn arguments() -> Option<Arguments> {
    let mut parsed = Arguments {
        runs: 100,
        seed: None,
        mode: Mode::Both,
        minutes: None,
        keep_going: false,
        trace: false,
        every_io: false,
        stride: 1,
        threads: 1,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--runs" => parsed.runs = words.next()?.parse().ok()?,
            "--seed" => parsed.seed = Some(words.next()?.parse().ok()?),
            "--minutes" => parsed.minutes = Some(words.next()?.parse().ok()?),
            "--trace" => parsed.trace = true,
            "--every-io" => parsed.every_io = true,
            "--stride" => parsed.stride = words.next()?.parse().ok()?,
            "--threads" => parsed.threads = words.next()?.parse().ok()?,
            "--keep-going" => parsed.keep_going = true,
            "--mode" => {
                parsed.mode = match words.next()?.as_str() {
                    "classic" => Mode::Classic,
                    "accelerated" => Mode::Accelerated,
                    "both" => Mode::Both,
                    _ => return None,
                }
            }
            _ => return None,
        }
    }
    Some(parsed)
}

fn mode_name(mode: Mode) -> &'static str {
    match mode {
        Mode::Classic => "classic",
        Mode::Accelerated => "accelerated",
        Mode::Both => "both",
    }
}

fn tell(text: &str) {
    println!("  {text}");
}

/// After every `RECOVERIES`th of the power losses, the recovery is stopped at each of as many calls.
const RECOVERIES: u64 = 20;

fn each_call(arguments: &Arguments) -> ExitCode {
    let seed = arguments.seed.unwrap_or(1);
    let modes = match arguments.mode {
        Mode::Both => vec![Mode::Classic, Mode::Accelerated],
        mode => vec![mode],
    };
    for mode in modes {
        match every_io(mode, seed, arguments.stride, RECOVERIES) {
            Ok(done) => println!(
                "{}: {} calls, {} runs with one of them going wrong, {} recoveries stopped and done again, {} commits checked, 0 violations",
                mode_name(mode),
                done.calls,
                done.runs,
                done.recoveries_twice,
                done.commits_checked
            ),
            Err(violation) => {
                println!(
                    "VIOLATION, {}, seed {seed}: {}",
                    mode_name(mode),
                    violation.0
                );
                return ExitCode::FAILURE;
            }
        }
    }
    over_two_databases(arguments.stride)
}

fn over_two_databases(stride: u64) -> ExitCode {
    match several(stride, RECOVERIES) {
        Ok(done) => {
            println!(
                "two databases: {} calls, {} runs with one of them going wrong, {} recoveries stopped and done again, {} prepared transactions committed and {} rolled back by recovery, 0 violations",
                done.calls, done.runs, done.recoveries_twice, done.committed, done.rolled_back
            );
            beside_copies(stride)
        }
        Err(violation) => {
            println!("VIOLATION, two databases: {}", violation.0);
            ExitCode::FAILURE
        }
    }
}

/// Seeds of the histories in which restored copies stand beside their origins.
const COPIES_SEEDS: u64 = 60;

fn beside_copies(stride: u64) -> ExitCode {
    let mut all = Copies::default();
    let seeds = COPIES_SEEDS.div_ceil(stride.max(1));
    for seed in 0..seeds {
        match copies(seed) {
            Ok(done) => all.add(&done),
            Err(violation) => {
                println!("VIOLATION, restored copies: {}", violation.0);
                return ExitCode::FAILURE;
            }
        }
    }
    println!(
        "restored copies: {seeds} histories, {} commits, {} copies of databases at rest and {} of crashed ones, {} dropped, {} recoveries, {} prepared transactions committed and {} rolled back by recovery, 0 violations",
        all.commits,
        all.copies,
        all.copies_of_crashed,
        all.drops,
        all.recoveries,
        all.committed,
        all.rolled_back
    );
    ExitCode::SUCCESS
}

fn main() -> ExitCode {
    let Some(arguments) = arguments() else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    // The message of a panic is part of the violation that is printed.
    std::panic::set_hook(Box::new(|_| {}));
    let fresh = || {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(1, |d| d.as_nanos() as u64 % 1_000_000_000)
    };
    if arguments.every_io {
        return each_call(&arguments);
    }
    let campaign = Campaign {
        first: arguments.seed.unwrap_or_else(fresh),
        runs: AtomicU64::new(0),
        started: Instant::now(),
        found: Mutex::default(),
        arguments,
    };
    println!(
        "simulating from seed {}, mode {}",
        campaign.first,
        mode_name(campaign.arguments.mode)
    );
    std::thread::scope(|scope| {
        for _ in 0..campaign.arguments.threads.max(1) {
            scope.spawn(|| campaign.work());
        }
    });
    campaign.conclude()
}

/// Seeds one after the other, dealt out to threads. A run is one thread, whichever.
struct Campaign {
    arguments: Arguments,
    first: u64,
    /// Runs given out.
    runs: AtomicU64,
    started: Instant,
    found: Mutex<Found>,
}

#[derive(Default)]
struct Found {
    total: Stats,
    violations: u64,
    /// When the counts were told last, since the start.
    told: Duration,
}

impl Campaign {
    fn work(&self) {
        while let Some(seed) = self.next() {
            let trace = self.arguments.trace.then_some(tell as fn(&str));
            let (stats, result) = run(seed, self.arguments.mode, trace);
            self.take(seed, &stats, result);
        }
    }

    fn next(&self) -> Option<u64> {
        let is_over = {
            let found = self.found();
            found.violations > 0 && !self.arguments.keep_going
        };
        let number = self.runs.load(Ordering::Relaxed);
        let limit = self.arguments.minutes.map(|m| Duration::from_secs(60 * m));
        let goes_on = limit.map_or(number < self.arguments.runs, |l| self.started.elapsed() < l);
        if is_over || !goes_on {
            return None;
        }
        let number = self.runs.fetch_add(1, Ordering::Relaxed);
        (limit.is_some() || number < self.arguments.runs).then_some(self.first + number)
    }

    fn found(&self) -> std::sync::MutexGuard<'_, Found> {
        self.found.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn take(&self, seed: u64, stats: &Stats, result: Result<(), Violation>) {
        let mut found = self.found();
        found.total.add(stats);
        if let Err(violation) = result {
            found.violations += 1;
            println!("VIOLATION, seed {seed}: {}", violation.0);
            println!(
                "  repeat it: cargo xtask sim --runs 1 --seed {seed} --mode {}",
                mode_name(self.arguments.mode)
            );
        }
        let elapsed = self.started.elapsed();
        if elapsed > found.told + Duration::from_secs(30) {
            found.told = elapsed;
            println!(
                "{} runs, {} stops on pictures, {} faults, {} violations",
                found.total.runs,
                found.total.pictures,
                found.total.faults_total(),
                found.violations
            );
        }
    }

    fn conclude(&self) -> ExitCode {
        let found = self.found();
        let runs = found.total.runs;
        println!(
            "{}violations              {:>12}",
            found.total, found.violations
        );
        println!(
            "seeds {} to {}, {} s",
            self.first,
            self.first + runs.max(1) - 1,
            self.started.elapsed().as_secs()
        );
        match found.violations {
            0 => ExitCode::SUCCESS,
            _ => ExitCode::FAILURE,
        }
    }
}
