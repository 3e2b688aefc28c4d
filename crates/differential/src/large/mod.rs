//! Large tables, little memory, several sessions at once: where rows go to disk and memory comes back meanwhile.
//!
//! Theory: the ordinary rounds have small tables and ample memory, so nothing in them spills. Here each round starts a server whose memory its
//! seed draws, and several sessions ask it at the same time, each over tables of its own, so that memory is taken and given back
//! beside each other. What they ask is asked of PostgreSQL too, and answers are compared whole. A statement that gets error 701 is
//! counted and listed: it should have spilled. In some rounds tempdb may not grow; what finds no room there is listed apart.
//!
//! | module | what it is |
//! |---|---|
//! | `tables` | rows as a function of their number |
//! | `queries`, `changes` | statements in both dialects |
//! | `session` | one session of a round, and what it found |
//!
//! A difference that memory given back by a neighbour made may need the whole round to show itself again: `--seed` alone repeats that.

mod changes;
mod queries;
mod session;
mod tables;

use crate::Options;
use crate::draw::{Random, seed_of};
use crate::peers::Daruma;
use daruma_lab::server::{PrivateServer, ServerSpec};
use session::{Session, Stop};
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;
/// Sessions of one server, without `--workers`.
const SESSIONS: usize = 3;
/// Statements of a session in one round.
const STATEMENTS: u64 = 40;

/// A line of progress comes after so many results.
const TOLD_RESULTS: u64 = 50;

/// What a round's server is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shortage {
    /// `--memory`, in MiB.
    memory_mib: u64,
    /// `max server memory`, in MiB.
    max_server_memory_mib: Option<u64>,
    /// tempdb's file may not grow beyond this, in MiB.
    tempdb_mib: Option<u64>,
}

impl Shortage {
    fn of(seed: u64) -> Shortage {
        let mut random = Random::new(seed_of(seed, 10));
        let memory_mib = [64, 64, 96, 128, 192, 256][random.below(6) as usize];
        let is_lowered = random.below(4) == 0;
        let has_small_tempdb = random.below(4) == 0;
        Shortage {
            memory_mib: if is_lowered { 1024 } else { memory_mib },
            max_server_memory_mib: is_lowered.then(|| memory_mib.max(128)),
            tempdb_mib: has_small_tempdb.then(|| 16 + u64::from(random.below(48))),
        }
    }
}

/// What all sessions counted.
#[derive(Debug, Default)]
pub struct Counts {
    results: u64,
    differences: u64,
    without_rows: u64,
    left_out: u64,
    by_kind: BTreeMap<&'static str, u64>,
    /// Errors that memory or room explains, by number: how many, and where the first was.
    refusals: BTreeMap<String, (u64, String)>,
    /// Longest answers: seconds of Daruma, of PostgreSQL, and where.
    slow: Vec<(Duration, Duration, String)>,
}

/// A run of rounds.
struct Run<'o> {
    options: &'o Options,
    begun: Instant,
    end: AtomicBool,
    counts: Mutex<Counts>,
}

/// Runs rounds until the options say that it is enough.
pub fn run(options: &Options, seed: u64) -> ExitCode {
    let run = Run {
        options,
        begun: Instant::now(),
        end: AtomicBool::new(false),
        counts: Mutex::default(),
    };
    let mut rounds = 0;
    while !run.is_over() {
        if let Err(error) = run.round(seed + rounds) {
            eprintln!("round {}: {error}", seed + rounds);
            return ExitCode::FAILURE;
        }
        rounds += 1;
    }
    run.summary(seed, rounds)
}

impl Run<'_> {
    fn round(&self, seed: u64) -> Result<(), String> {
        let shortage = Shortage::of(seed);
        let folder = self.options.scratch.join(format!("large{seed}"));
        let spec = ServerSpec {
            program: self.options.server.clone(),
            folder: folder.clone(),
            memory_bytes: shortage.memory_mib * MIB,
            arguments: Vec::new(),
        };
        println!("round {seed}: {shortage:?}");
        let server = PrivateServer::start(spec).map_err(|error| error.to_string())?;
        self.prepare(&server, shortage);
        let sessions = match self.options.statement {
            Some(_) => self.options.session..self.options.session + 1,
            None => 0..self.options.workers.unwrap_or(SESSIONS),
        };
        thread::scope(|scope| {
            for number in sessions {
                let server = &server;
                scope.spawn(move || self.session(server, seed, number));
            }
        });
        drop(server);
        // A round leaves hundreds of megabytes.
        std::fs::remove_dir_all(&folder).map_err(|error| error.to_string())
    }

    fn prepare(&self, server: &PrivateServer, shortage: Shortage) {
        let mut master = Daruma::new(&server.options(), "master");
        if let Some(mib) = shortage.max_server_memory_mib {
            master.must("EXEC sp_configure 'show advanced options', 1; RECONFIGURE");
            master.must(&format!(
                "EXEC sp_configure 'max server memory (MB)', {mib}; RECONFIGURE"
            ));
        }
        if let Some(mib) = shortage.tempdb_mib {
            master.must(&format!(
                "ALTER DATABASE tempdb MODIFY FILE (NAME = tempdb, MAXSIZE = {mib}MB)"
            ));
        }
    }

    fn session(&self, server: &PrivateServer, seed: u64, number: usize) {
        // Whatever ends one session ends the run.
        let mut ends = Ends(Some(&self.end));
        let mut session = Session::new(self.options, server, seed, number);
        let statements = match self.options.statement {
            Some(only) => only..only + 1,
            None => 0..STATEMENTS,
        };
        for statement in statements {
            if self.is_over() {
                break;
            }
            let found = session.statement(statement);
            let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(text) = found.add_to(&mut counts) {
                println!("\n{text}");
                if counts.differences >= self.options.differences || self.options.plant {
                    self.end.store(true, Ordering::Relaxed);
                }
            }
            if counts.results.is_multiple_of(TOLD_RESULTS) {
                println!(
                    "{:.0} s: {} results, {} differences",
                    self.begun.elapsed().as_secs_f64(),
                    counts.results,
                    counts.differences
                );
            }
            if self.options.results.is_some_and(|r| counts.results >= r) {
                self.end.store(true, Ordering::Relaxed);
            }
        }
        if let Stop::Damaged(text) = session.end() {
            println!("\n{text}");
            let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
            counts.differences += 1;
        }
        if self.options.statement.is_none() {
            ends.0 = None;
        }
    }

    fn is_over(&self) -> bool {
        let late = self
            .options
            .minutes
            .is_some_and(|m| self.begun.elapsed().as_secs_f64() > m * 60.0);
        late || self.end.load(Ordering::Relaxed)
    }

    fn summary(&self, seed: u64, rounds: u64) -> ExitCode {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let seconds = self.begun.elapsed().as_secs_f64();
        let last = seed + rounds.saturating_sub(1);
        println!(
            "\nlarge tables, seeds {seed} to {last}: {} results in {seconds:.0} s, {} differences",
            counts.results, counts.differences
        );
        for (kind, count) in &counts.by_kind {
            println!("  {kind}: {count}");
        }
        println!(
            "  without rows: {}, left out: {}",
            counts.without_rows, counts.left_out
        );
        for (name, (count, place)) in &counts.refusals {
            println!("  refused with {name}: {count}, first {place}");
        }
        let mut slow: Vec<_> = counts.slow.iter().collect();
        slow.sort_by_key(|(daruma, _, _)| std::cmp::Reverse(*daruma));
        for (daruma, postgres, place) in slow.iter().take(10) {
            println!(
                "  slow: {:.1} s beside {:.2} s: {place}",
                daruma.as_secs_f64(),
                postgres.as_secs_f64()
            );
        }
        match (self.options.plant, counts.differences) {
            (true, 0) => {
                println!("the planted fault was not noticed");
                ExitCode::FAILURE
            }
            (false, 1..) => ExitCode::FAILURE,
            _ => ExitCode::SUCCESS,
        }
    }
}

/// Ends the run unless it was told not to, so that a session that panics takes the others with it.
struct Ends<'a>(Option<&'a AtomicBool>);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        if let Some(end) = self.0 {
            end.store(true, Ordering::Relaxed);
        }
    }
}
