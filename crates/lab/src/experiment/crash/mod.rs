//! `daruma lab crash`: the real server under load, killed again and again.
//!
//! Writers commit, roll back and transfer over TDS and keep journals; another session changes a whole table and never
//! commits; sometimes checkpoints run; beside it tables, indexes, backups and databases come and go, and a database in use is
//! restored (see `beside`). At a random moment the server gets SIGKILL, sometimes again while it starts. After
//! each restart the database is compared with the journals (see `verify`), and the time to the first answer is noted.
//! Randomness comes from one seed, which is shown; the moments still differ between runs.
//!
//! A kill of the process keeps what the operating system was given. Power loss is simulated elsewhere: `crates/sim`.

mod verify;
mod writer;

use super::beside::{self, Beside, Target};
use super::context::Crash;
use super::random::Random;
use super::recovery::Mode;
use super::{Ending, Lab, LabError, LabOptions, recovery_log};
use crate::figures::{self, median};
use crate::report::chart::{Kind, LineSeries, Lines, Unit};
use crate::report::{Report, Section, Source, Table, Verdict};
use crate::sql::Ask;
use clap::Args;

use serde_json::json;
use std::collections::BTreeMap;
use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use verify::Found;
use writer::{Round, Writer};

const DATABASE: &str = "LabCrash";
const ACCOUNTS: u64 = 100;
const BALANCE: i64 = 1000;
const UNTOUCHED_ROWS: u64 = 2000;
/// Journals longer than this begin anew.
const JOURNAL_MAX: usize = 100_000;

/// Options of `daruma lab crash`.
#[derive(Args, Clone, Debug)]
pub struct CrashArgs {
    #[command(flatten)]
    pub options: LabOptions,

    /// Kills in each mode [default: 250; quick: 12]
    #[arg(help_heading = "Experiment", long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub kills: Option<u64>,

    /// Writing sessions
    #[arg(help_heading = "Experiment", long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=200))]
    pub writers: u64,

    /// Start of the random numbers
    #[arg(help_heading = "Experiment", long, value_name = "N")]
    pub seed: Option<u64>,
}

impl CrashArgs {
    fn kills(&self) -> u64 {
        self.kills
            .unwrap_or(if self.options.quick { 12 } else { 250 })
    }
}

/// One kill and what followed.
struct Restart {
    load_s: f64,
    answer_s: f64,
    redo_ms: Option<f64>,
    undo_ms: Option<f64>,
    twice: bool,
}

struct Outcome {
    mode: Mode,
    restarts: Vec<Restart>,
    kills: u64,
    found: Found,
    /// Work beside the writers, and how much of it was in doubt.
    beside: BTreeMap<&'static str, beside::Count>,
    beside_in_doubt: u64,
    violations: Vec<String>,
}

/// The table whose indexes come and go.
const INDEXED: Target = Target {
    table: "dbo.entries",
    columns: "part, seq",
    sum: "seq",
};
/// What every backup holds, whenever it was taken.
const UNTOUCHED: &str = "SELECT CONCAT(COUNT(*), ' ', SUM(n)) FROM dbo.untouched";
/// With so many kills each kind of work beside the writers was done at least once.
const KILLS_FOR_ALL: u64 = 10;

/// Runs load, kills and checks in turn, and writes the report. A lost or half-done transaction is a failed check.
pub fn run(args: &CrashArgs) -> Result<Ending, LabError> {
    let report = Report {
        experiment: "crash".into(),
        title: "Killed under load, again and again".into(),
        lead: "After any crash, committed data is there and uncommitted data is not. Clients keep journals, the server is \
               killed, and both are compared."
            .into(),
        source: Source::default(),
        ..Report::default()
    };
    let mut options = args.options.clone();
    if options.connect.server.is_some() {
        eprintln!("daruma: a server that is killed has to be a private one; -S is not used");
        options.private = true;
    }
    let mut lab = Lab::start(&options, report)?;
    let outcome = steps(&mut lab, args);
    lab.finish(outcome)
}

fn steps(lab: &mut Lab, args: &CrashArgs) -> Result<(), LabError> {
    let now = jiff::Timestamp::now().as_nanosecond();
    let seed = args
        .seed
        .unwrap_or(u64::try_from(now % i128::from(u64::MAX)).unwrap_or(1));
    lab.report.fact("Seed", seed.to_string());
    let modes: &[Mode] = if lab.accelerated_recovery()? {
        &[Mode::Classic, Mode::Accelerated]
    } else {
        &[Mode::Classic]
    };
    let mut outcomes = Vec::new();
    for mode in modes {
        outcomes.push(series(lab, args, *mode, seed)?);
    }
    publish(lab, args, &outcomes);
    Ok(())
}

fn series(lab: &mut Lab, args: &CrashArgs, mode: Mode, seed: u64) -> Result<Outcome, LabError> {
    create(lab, mode)?;
    let mut random = Random::new(seed);
    let mut writers: Vec<Writer> = (0..args.writers).map(|id| Writer::new(id, seed)).collect();
    let mut baseline = vec![BALANCE; usize::try_from(ACCOUNTS).unwrap_or(0)];
    let mut beside = beside_load(lab, seed)?;
    let mut outcome = Outcome {
        mode,
        restarts: Vec::new(),
        kills: 0,
        found: Found::default(),
        beside: BTreeMap::new(),
        beside_in_doubt: 0,
        violations: Vec::new(),
    };
    while outcome.kills < args.kills() && outcome.violations.is_empty() {
        lab.check_interrupt()?;
        lab.step(format!(
            "accelerated recovery {}: kill {} of {}, {} commits checked",
            mode.title(),
            outcome.kills + 1,
            args.kills(),
            figures::grouped(outcome.found.acknowledged as f64)
        ));
        let load = load_and_kill(
            lab,
            &mut writers,
            &mut beside,
            &mut random,
            &mut outcome.violations,
        )?;
        outcome.kills += 1;
        let restart = restart(lab, &mut random, load, &mut outcome.kills)?;
        outcome.restarts.push(restart);
        let mut client = lab.client(DATABASE)?;
        let found = verify::run(
            &mut client,
            &mut writers,
            &baseline,
            &mut outcome.violations,
        )?;
        outcome.found.acknowledged += found.acknowledged;
        outcome.found.checks += found.checks;
        outcome.found.in_doubt += found.in_doubt;
        outcome.found.in_doubt_present += found.in_doubt_present;
        verify_beside(lab, &mut beside, &mut outcome.violations)?;
        let server_log = fs::read_to_string(lab.scratch().join("server.log")).unwrap_or_default();
        if let Some(line) = server_log.lines().find(|line| line.contains("panicked at")) {
            outcome
                .violations
                .push(format!("the server panicked: {line}"));
        }
        if writers.iter().map(|w| w.journal.len()).sum::<usize>() > JOURNAL_MAX {
            baseline = forget(&mut client, &mut writers)?;
        }
    }
    let mut client = lab.client(DATABASE)?;
    lab.step("DBCC CHECKDB");
    let checked = client.execute(&format!("DBCC CHECKDB ({DATABASE}) WITH NO_INFOMSGS"));
    if let Err(error) = checked {
        outcome.violations.push(format!("DBCC CHECKDB: {error}"));
    }
    drop(client);
    outcome.beside = std::mem::take(&mut beside.journal.counts);
    outcome.beside_in_doubt = beside.journal.in_doubt;
    beside.clean(&lab.options_for("master"))?;
    lab.client("master")?
        .execute(&format!("DROP DATABASE IF EXISTS {}", beside::RESTORED))?;
    lab.drop_database(DATABASE)?;
    Ok(outcome)
}

fn beside_load(lab: &Lab, seed: u64) -> Result<Beside, LabError> {
    let folder = lab.scratch().join("beside");
    let failed = |source| LabError::File {
        path: folder.clone(),
        source,
    };
    fs::create_dir_all(&folder).map_err(failed)?;
    let folder = fs::canonicalize(&folder).map_err(failed)?;
    let mut beside = Beside::new(DATABASE, INDEXED, folder, seed, 0);
    beside.restores = Some((UNTOUCHED, format!("{UNTOUCHED_ROWS} 0")));
    Ok(beside)
}

fn verify_beside(
    lab: &mut Lab,
    beside: &mut Beside,
    violations: &mut Vec<String>,
) -> Result<(), LabError> {
    let data = lab.server_mut().map(|server| server.data_folder());
    let target = lab.options_for("master");
    beside.verify(&target, data.as_deref(), violations)
}

fn create(lab: &mut Lab, mode: Mode) -> Result<(), LabError> {
    let mut client = lab.create_database(DATABASE)?;
    if mode == Mode::Accelerated {
        client.execute(&format!(
            "ALTER DATABASE {DATABASE} SET ACCELERATED_DATABASE_RECOVERY = ON"
        ))?;
    }
    for text in [
        "CREATE TABLE dbo.accounts (id int NOT NULL PRIMARY KEY, balance bigint NOT NULL)".to_string(),
        "CREATE TABLE dbo.entries (writer int NOT NULL, seq bigint NOT NULL, part int NOT NULL, filler varchar(400) NOT NULL, \
         CONSTRAINT PK_entries PRIMARY KEY (writer, seq, part))"
            .into(),
        "CREATE INDEX IX_entries_seq ON dbo.entries (seq)".into(),
        "CREATE TABLE dbo.transfers (writer int NOT NULL, seq bigint NOT NULL, source int NOT NULL, target int NOT NULL, \
         amount int NOT NULL, PRIMARY KEY (writer, seq))"
            .into(),
        "CREATE TABLE dbo.untouched (id int NOT NULL PRIMARY KEY, n int NOT NULL, filler char(200) NOT NULL)".into(),
        format!("DECLARE @i int = 0; SET NOCOUNT ON; WHILE @i < {ACCOUNTS} BEGIN INSERT dbo.accounts VALUES (@i, {BALANCE}); SET @i += 1 END"),
        format!("DECLARE @i int = 0; SET NOCOUNT ON; BEGIN TRANSACTION; WHILE @i < {UNTOUCHED_ROWS} BEGIN INSERT dbo.untouched VALUES (@i, 0, 'x'); SET @i += 1 END; COMMIT"),
    ] {
        client.execute(&text)?;
    }
    Ok(())
}

/// The load, until the kill; how long it ran.
fn load_and_kill(
    lab: &mut Lab,
    writers: &mut [Writer],
    beside: &mut Beside,
    random: &mut Random,
    violations: &mut Vec<String>,
) -> Result<f64, LabError> {
    let span = if lab.quick { 700 } else { 1500 };
    let moment = Duration::from_millis(100 + random.below(span));
    let with_checkpoints = random.below(3) == 0;
    let target = lab.options_for(DATABASE);
    let (stop, surprises) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    let round = Round {
        target: &target,
        stop: &stop,
        surprises: &surprises,
    };
    let aside = beside::Round {
        target: &target,
        stop: &stop,
        surprises: &surprises,
    };
    let restored = beside.restores.clone();
    let begun = Instant::now();
    thread::scope(|scope| {
        for writer in writers {
            scope.spawn(|| writer.work(&round));
        }
        scope.spawn(|| beside.work(&aside));
        if let Some((query, expected)) = &restored {
            scope.spawn(|| beside::read_restored(&aside, query, expected));
        }
        scope.spawn(|| writer::never_commits(&round));
        if with_checkpoints {
            scope.spawn(|| writer::checkpoints(&round));
        }
        thread::sleep(moment);
        if let Some(server) = lab.server_mut() {
            server.kill();
        }
        stop.store(true, Ordering::Relaxed);
    });
    violations.extend(surprises.into_inner().unwrap_or_default());
    Ok(begun.elapsed().as_secs_f64())
}

/// Starts the server, now and then killing it again while it does; until the database answers.
fn restart(
    lab: &mut Lab,
    random: &mut Random,
    load_s: f64,
    kills: &mut u64,
) -> Result<Restart, LabError> {
    let twice = random.below(4) == 0;
    if twice && let Some(server) = lab.server_mut() {
        server.stumble(Duration::from_millis(random.below(150)))?;
        *kills += 1;
    }
    let begun = Instant::now();
    lab.crash(Crash::Kill)?;
    lab.first_answer(DATABASE, "SELECT balance FROM dbo.accounts WHERE id = 1")?;
    let answer_s = begun.elapsed().as_secs_f64();
    let mut client = lab.client("master")?;
    let times = recovery_log::last(&mut client, DATABASE)?;
    Ok(Restart {
        load_s,
        answer_s,
        redo_ms: times.map(|t| t.redo_ms),
        undo_ms: times.map(|t| t.undo_ms),
        twice,
    })
}

/// Empties tables and journals; the balances are the new beginning.
fn forget(
    client: &mut daruma_client::client::Client,
    writers: &mut [Writer],
) -> Result<Vec<i64>, LabError> {
    client.execute("DELETE dbo.entries; DELETE dbo.transfers")?;
    for writer in writers {
        writer.base += writer.journal.len() as u64;
        writer.journal.clear();
    }
    let rows = client.table("SELECT balance FROM dbo.accounts ORDER BY id")?;
    Ok(rows
        .iter()
        .filter_map(|row| row.first()?.parse().ok())
        .collect())
}

fn publish(lab: &mut Lab, args: &CrashArgs, outcomes: &[Outcome]) {
    let mut section = Section {
        title: "Kills and what came back".into(),
        ..Section::default()
    };
    section.text(format!(
        "{} writing sessions (single rows, several rows in a transaction, transfers, rollbacks), one session that changes a whole \
         table and never commits, checkpoints in every third round; beside them one that makes and drops tables, indexes and \
         databases, takes backups, and restores a database that another one reads. A quarter of the restarts was killed as well.",
        args.writers
    ));
    let mut table = Table::new(
        "",
        &[
            "Accelerated recovery",
            "Kills",
            "Commits checked",
            "Checks",
            "In doubt",
            "of them committed",
            "Restart, median",
            "longest",
            "Violations",
        ],
    );
    for o in outcomes {
        let times: Vec<f64> = o.restarts.iter().map(|r| r.answer_s).collect();
        table.measured(vec![
            o.mode.title().into(),
            o.kills.to_string(),
            figures::grouped(o.found.acknowledged as f64),
            figures::grouped(o.found.checks as f64),
            o.found.in_doubt.to_string(),
            o.found.in_doubt_present.to_string(),
            median(&times).map_or_else(|| "-".into(), figures::seconds),
            figures::range(&times)
                .map_or_else(|| "-".into(), |(_, longest)| figures::seconds(longest)),
            o.violations.len().to_string(),
        ]);
    }
    table.note = "A commit is checked again after every later restart; a transaction is in doubt when the kill came before its answer.".into();
    section.table(table);
    let mut work = beside::table(outcomes.iter().map(|o| &o.beside));
    let doubts: u64 = outcomes.iter().map(|o| o.beside_in_doubt).sum();
    work.note = format!(
        "After each restart what was acknowledged has to be there, whole, or gone with its files; {} in doubt at a kill.",
        if doubts == 1 {
            "1 was".into()
        } else {
            format!("{doubts} were")
        }
    );
    section.table(work);
    section.chart(chart(
        "From the start of the process to the first answer",
        outcomes,
        |r| Some(r.answer_s),
    ));
    section.chart(chart("Redo, from the error log", outcomes, |r| {
        r.redo_ms.map(|ms| ms / 1e3)
    }));
    section.chart(chart("Undo, from the error log", outcomes, |r| {
        r.undo_ms.map(|ms| ms / 1e3)
    }));
    for o in outcomes {
        let name = o.mode.title();
        lab.report.figure(
            format!("Kills survived, accelerated recovery {name}"),
            o.kills.to_string(),
            format!(
                "{} commits checked",
                figures::grouped(o.found.acknowledged as f64)
            ),
            Verdict::of(o.violations.is_empty()),
        );
        lab.report.check(
            format!("accelerated recovery {name}: violations"),
            "0",
            o.violations.len().to_string(),
        );
        if o.kills >= KILLS_FOR_ALL && o.violations.is_empty() {
            let idle: Vec<&str> = beside::NEEDED
                .into_iter()
                .filter(|name| o.beside.get(name).is_none_or(|c| c.done == 0))
                .collect();
            lab.report.check(
                format!("accelerated recovery {name}: work beside the load that was never done"),
                "",
                idle.join(", "),
            );
        }
        for violation in o.violations.iter().take(50) {
            lab.report.check(
                format!("accelerated recovery {name}: {violation}"),
                "",
                "violated",
            );
        }
    }
    let data: Vec<_> = outcomes
        .iter()
        .map(|o| {
            let restarts: Vec<_> = o
                .restarts
                .iter()
                .map(|r| json!({"load_s": r.load_s, "answer_s": r.answer_s, "redo_ms": r.redo_ms, "undo_ms": r.undo_ms, "twice": r.twice}))
                .collect();
            json!({"recovery": o.mode.title(), "kills": o.kills, "acknowledged": o.found.acknowledged, "checks": o.found.checks,
                   "in_doubt": o.found.in_doubt, "beside": o.beside, "beside_in_doubt": o.beside_in_doubt, "violations": o.violations, "restarts": restarts})
        })
        .collect();
    lab.report.keep("crash", json!(data));
    lab.publish(section);
}

fn chart(title: &str, outcomes: &[Outcome], value: fn(&Restart) -> Option<f64>) -> Lines {
    let series = |o: &Outcome| LineSeries {
        name: format!("accelerated recovery {}", o.mode.title()),
        kind: Kind::Measured,
        colour: o.mode.colour(),
        points: (1u32..)
            .zip(&o.restarts)
            .filter_map(|(number, r)| Some((f64::from(number), value(r)?)))
            .collect(),
    };
    Lines {
        title: title.into(),
        x_title: "restart".into(),
        y_title: "time".into(),
        x_unit: Unit::Number,
        y_unit: Unit::Seconds,
        x_log: false,
        y_log: false,
        series: outcomes.iter().map(series).collect(),
        note: "A restart that was killed as well has no point: the one after it has.".into(),
    }
}
