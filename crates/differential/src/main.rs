//! Random statements asked of Daruma and of PostgreSQL, over the same rows.
//!
//! Theory: differential testing (McKeeman 1998; Slutz, VLDB 1998; SQLsmith, SQLancer). A statement is made in both dialects at once
//! (`generate`); PostgreSQL says what is right, and Daruma has to say the same over every layout of the tables, with
//! literals, with parameters, with other values over the cached plan, and under hints. Changes run in a transaction, and the table is
//! read back through each index. A difference is reduced (`reduce`) and printed with the command that repeats it.
//!
//! Both servers are private ones: tests/differential/run.sh starts PostgreSQL, this program starts Daruma.

mod compare;
mod draw;
mod generate;
mod large;
mod peers;
mod reduce;
mod round;
mod tables;
mod text;

use clap::Parser;
use compare::Pair;
use daruma_lab::server::{PrivateServer, ServerSpec};
use peers::{Daruma, Postgres};
use round::{Counts, Round};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Compares Daruma with PostgreSQL by random statements.
#[derive(Clone, Debug, Parser)]
struct Options {
    /// Daruma's program.
    #[arg(long)]
    server: PathBuf,
    /// Folder of PostgreSQL's socket.
    #[arg(long)]
    postgres: PathBuf,
    /// Folder for Daruma's data.
    #[arg(long)]
    scratch: PathBuf,
    /// Seed of the first round; the next ones follow. By chance without it.
    #[arg(long)]
    seed: Option<u64>,
    /// Only this statement of the first round.
    #[arg(long)]
    statement: Option<u64>,
    /// Ends after so many minutes.
    #[arg(long)]
    minutes: Option<f64>,
    /// Ends after so many compared results.
    #[arg(long)]
    results: Option<u64>,
    /// Ends after so many differences.
    #[arg(long, default_value_t = 10)]
    differences: u64,
    /// Connections of each kind that work side by side; as many as there are processors without it.
    #[arg(long)]
    workers: Option<usize>,
    /// Plants a fault in what Daruma is asked, and ends well only if it is noticed.
    #[arg(long)]
    plant: bool,
    /// Large tables, little memory, several sessions at once.
    #[arg(long)]
    large: bool,
    /// Rows of the largest table of a round of --large.
    #[arg(long, default_value_t = 200_000)]
    rows: u32,
    /// The session of --large whose --statement is meant.
    #[arg(long, default_value_t = 0)]
    session: usize,
}

/// When to end, and what was counted so far.
struct Run {
    options: Options,
    seed: u64,
    begun: Instant,
    next_round: AtomicU64,
    end: AtomicBool,
    counts: Mutex<Counts>,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let seed = options.seed.unwrap_or_else(seed_by_time);
    println!("seed {seed}");
    if options.large {
        return large::run(&options, seed);
    }
    let spec = ServerSpec {
        program: options.server.clone(),
        folder: options.scratch.clone(),
        memory_bytes: 1 << 30,
        arguments: Vec::new(),
    };
    let server = match PrivateServer::start(spec) {
        Ok(server) => server,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let workers = match options.statement {
        Some(_) => 1,
        None => options
            .workers
            .unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from)),
    };
    let run = Run {
        options,
        seed,
        begun: Instant::now(),
        next_round: AtomicU64::new(0),
        end: AtomicBool::new(false),
        counts: Mutex::default(),
    };
    thread::scope(|scope| {
        for worker in 0..workers {
            let (run, server) = (&run, &server);
            scope.spawn(move || run.work(worker, server));
        }
        run.watch();
    });
    run.summary()
}

fn seed_by_time() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    // Room for the rounds that follow, and few enough digits to type.
    since.map_or(1, |d| d.as_micros() as u64 % 1_000_000 * 1000)
}

impl Run {
    fn work(&self, worker: usize, server: &PrivateServer) {
        // Whatever ends one worker ends the run.
        let _end = Ends(&self.end);
        let mut pair = self.pair(worker, server);
        while !self.is_over() {
            let seed = self.seed + self.next_round.fetch_add(1, Ordering::Relaxed);
            let mut counts = Counts::default();
            let mut round = Round::new(seed, &mut pair, &mut counts);
            self.add(counts);
            match self.options.statement {
                Some(number) => {
                    println!("{}", round.texts(number));
                    self.one(&mut round, number);
                    self.end.store(true, Ordering::Relaxed);
                    return;
                }
                None => {
                    for number in 0..round.statements() {
                        if self.is_over() {
                            return;
                        }
                        self.one(&mut round, number);
                    }
                }
            }
        }
    }

    fn pair(&self, worker: usize, server: &PrivateServer) -> Pair {
        let options = server.options();
        let mut master = Daruma::new(&options, "master");
        let daruma = tables::LAYOUTS
            .iter()
            .map(|layout| {
                let name = format!("w{worker}_{layout}");
                // Binary, like the C collation of the reference.
                master.must(&format!(
                    "CREATE DATABASE {name} COLLATE Latin1_General_BIN2"
                ));
                master.must(&format!(
                    "ALTER DATABASE {name} SET RECOVERY SIMPLE; ALTER DATABASE {name} SET DELAYED_DURABILITY = FORCED"
                ));
                Daruma::new(&options, &name)
            })
            .collect();
        let postgres = Postgres::connect(&self.options.postgres, worker);
        Pair {
            daruma,
            postgres: postgres.expect("PostgreSQL answers"),
            planted: self
                .options
                .plant
                .then_some(|text: String| text.replace("LEFT JOIN", "JOIN")),
        }
    }

    fn one(&self, round: &mut Round<'_>, number: u64) {
        let mut counts = Counts::default();
        let found = round.statement(number, &mut counts);
        let (results, differences) = self.add(counts);
        if let Some(found) = found {
            println!("\n{}", found);
            if differences >= self.options.differences || self.options.plant {
                self.end.store(true, Ordering::Relaxed);
            }
        }
        if self.options.results.is_some_and(|r| results >= r) {
            self.end.store(true, Ordering::Relaxed);
        }
    }

    /// Adds to what all workers counted, and gives the results and differences so far.
    fn add(&self, counts: Counts) -> (u64, u64) {
        let mut all = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        all.add(counts);
        (all.results, all.differences)
    }

    fn is_over(&self) -> bool {
        let late = self
            .options
            .minutes
            .is_some_and(|m| self.begun.elapsed().as_secs_f64() > m * 60.0);
        late || self.end.load(Ordering::Relaxed)
    }

    /// A line of progress now and then, until the run is over.
    fn watch(&self) {
        let mut told = Instant::now();
        while !self.is_over() {
            thread::sleep(Duration::from_millis(100));
            if told.elapsed() > Duration::from_secs(20) {
                told = Instant::now();
                let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
                println!(
                    "{:.0} s: {} results of {} statements, {} differences",
                    self.begun.elapsed().as_secs_f64(),
                    counts.results,
                    counts.statements,
                    counts.differences
                );
            }
        }
    }

    fn summary(&self) -> ExitCode {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let seconds = self.begun.elapsed().as_secs_f64();
        let rounds = self.next_round.load(Ordering::Relaxed);
        println!(
            "\nseeds {} to {}: {} results of {} statements in {seconds:.0} s, {:.0} a second",
            self.seed,
            self.seed + rounds.saturating_sub(1),
            counts.results,
            counts.statements,
            counts.results as f64 / seconds
        );
        for (name, count) in &counts.by_variant {
            println!("  {name}: {count}");
        }
        println!(
            "  waited for Daruma {:.0} s, for PostgreSQL {:.0} s, for tables {:.0} s",
            counts.daruma.as_secs_f64(),
            counts.postgres.as_secs_f64(),
            counts.laying.as_secs_f64()
        );
        println!(
            "  without rows: {}, left out: {}, refused alike: {}, for another reason: {}",
            counts.empty, counts.left_out, counts.refused_alike, counts.both_refuse
        );
        for (name, (count, place)) in &counts.refusals {
            println!("    {name}: {count}, first {place}");
        }
        let mut slow = counts.slow.clone();
        slow.sort_by_key(|s| std::cmp::Reverse(s.daruma.unwrap_or(Duration::MAX)));
        println!("  slow: {}", slow.len());
        for one in slow.iter().take(10) {
            let took = one.daruma.map_or("no end".to_string(), |d| {
                format!("{:.2} s", d.as_secs_f64())
            });
            println!(
                "    {took} beside {:.1} ms, {}: --seed {} --statement {}",
                one.postgres.as_secs_f64() * 1000.0,
                one.variant,
                one.seed,
                one.number
            );
        }
        println!("  differences: {}", counts.differences);
        match (counts.differences > 0) == self.options.plant && self.is_sound(&counts) {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        }
    }

    /// A generator of statements that nobody takes, or that find nothing, tests nothing.
    fn is_sound(&self, counts: &Counts) -> bool {
        if counts.results < 2000 {
            return true;
        }
        let refused = counts.both_refuse * 100 > counts.results;
        let empty = counts.empty * 2 > counts.results;
        if refused {
            println!("more than 1 % of the statements were refused by both");
        }
        if empty {
            println!("more than half of the results had no rows");
        }
        !refused && !empty
    }
}

/// Sets the flag when it goes, also when a thread panics.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}
