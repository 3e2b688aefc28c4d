//! `cargo xtask sim`: many seeds, one report; a failing seed is told with the command that repeats it.

use daruma_proof::{Mode, Stats, every_io, run, several};
use std::process::ExitCode;
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
}

const USAGE: &str = "usage: sim [--runs N] [--seed S] [--mode classic|accelerated|both] [--minutes M] [--keep-going] [--trace]
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
            ExitCode::SUCCESS
        }
        Err(violation) => {
            println!("VIOLATION, two databases: {}", violation.0);
            ExitCode::FAILURE
        }
    }
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
    let first = arguments.seed.unwrap_or_else(fresh);
    let started = Instant::now();
    let limit = arguments.minutes.map(|m| Duration::from_secs(60 * m));
    println!(
        "simulating from seed {first}, mode {}",
        mode_name(arguments.mode)
    );
    let (mut total, mut violations, mut told) = (Stats::default(), 0u64, started);
    let mut seed = first;
    while limit.map_or(seed - first < arguments.runs, |l| started.elapsed() < l) {
        let (stats, result) = run(seed, arguments.mode, arguments.trace.then_some(tell));
        total.add(&stats);
        if let Err(violation) = result {
            violations += 1;
            println!("VIOLATION, seed {seed}: {}", violation.0);
            println!(
                "  repeat it: cargo xtask sim --runs 1 --seed {seed} --mode {}",
                mode_name(arguments.mode)
            );
            if !arguments.keep_going {
                break;
            }
        }
        seed += 1;
        if told.elapsed() > Duration::from_secs(30) {
            told = Instant::now();
            println!(
                "{} runs, {} faults, {violations} violations",
                total.runs,
                total.faults_total()
            );
        }
    }
    println!("{total}violations              {violations:>12}");
    println!(
        "seeds {first} to {}, {} s",
        seed.max(first + 1) - 1,
        started.elapsed().as_secs()
    );
    if violations == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
