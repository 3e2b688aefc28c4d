//! `daruma lab isolation`: what concurrent transactions saw, checked against what their isolation level promises.
//!
//! Sessions run random transactions over lists, registers and sets, some are rolled back, some become deadlock victims, in
//! some rounds the server is killed, and in half of them tables, indexes, backups and databases come and go beside them. What they read and wrote makes a graph of who must come before whom; cycles in it are
//! anomalies. A level must show none that it excludes, and those that it permits must be found: a check that never finds
//! anything shows nothing.
//!
//! | module | what it is |
//! |---|---|
//! | `history` | transactions, statements, values |
//! | `session` | random transactions over TDS, recorded |
//! | `versions` | the order of versions, aborted and intermediate reads, lost updates |
//! | `graph` | dependencies |
//! | `cycles` | the search for cycles, after Elle (VLDB 2020) |
//! | `anomaly` | names, and what each level excludes |

mod anomaly;
mod check;
mod cycles;
mod graph;
mod history;
mod session;
#[cfg(test)]
mod tests;
mod versions;

use super::beside::{self, Beside, Target};
use super::context::Crash;
use super::random::Random;
use super::recovery::Mode;
use super::{Ending, Lab, LabError, LabOptions};
use crate::figures::grouped;
use crate::report::{Report, Section, Source, Table, Verdict};
use anomaly::{Anomaly, Level};
use clap::Args;
use history::{History, Outcome, Transaction};
use serde_json::json;
use session::{Shape, Shared};
use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;

const DATABASE: &str = "LabIsolation";
/// Rounds that may be added until a level has shown what it permits.
const MORE_ROUNDS_MAX: u64 = 60;
/// A round in so many has a kill.
const KILL_EVERY: u64 = 4;
/// The table whose indexes come and go.
const INDEXED: Target = Target {
    table: "dbo.members",
    columns: "v",
    sum: "v",
};
/// Names of a round begin with a number of its own.
const NAMES_OF_A_ROUND: u64 = 1_000_000;
/// Violations told in full.
const TOLD_MAX: usize = 20;

/// Options of `daruma lab isolation`.
#[derive(Args, Clone, Debug)]
pub struct IsolationArgs {
    #[command(flatten)]
    pub options: LabOptions,

    /// Rounds at each level, half of them with accelerated recovery [default: 60; quick: 4]
    #[arg(help_heading = "Experiment", long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub rounds: Option<u64>,

    /// Sessions
    #[arg(help_heading = "Experiment", long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u64).range(2..=64))]
    pub sessions: u64,

    /// Transactions of each session in a round
    #[arg(help_heading = "Experiment", long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub transactions: u64,

    /// Start of the random numbers
    #[arg(help_heading = "Experiment", long, value_name = "N")]
    pub seed: Option<u64>,
}

/// What was found at one level.
struct Outcomes {
    level: Level,
    rounds: u64,
    kills: u64,
    committed: u64,
    aborted: u64,
    in_doubt: u64,
    refused: u64,
    beside: BTreeMap<&'static str, beside::Count>,
    anomalies: BTreeMap<Anomaly, u64>,
    examples: BTreeMap<Anomaly, String>,
    violations: Vec<String>,
}

impl Outcomes {
    const fn new(level: Level) -> Outcomes {
        Outcomes {
            level,
            rounds: 0,
            kills: 0,
            committed: 0,
            aborted: 0,
            in_doubt: 0,
            refused: 0,
            beside: BTreeMap::new(),
            anomalies: BTreeMap::new(),
            examples: BTreeMap::new(),
            violations: Vec::new(),
        }
    }

    /// Permitted anomalies that should have been found by now.
    fn owed(&self) -> Vec<Anomaly> {
        let shows = self.level.shows().iter();
        shows
            .filter(|a| !self.anomalies.contains_key(a))
            .copied()
            .collect()
    }

    fn take(&mut self, history: &History) {
        for transaction in &history.transactions {
            *match transaction.outcome {
                Outcome::Committed => &mut self.committed,
                Outcome::Aborted => &mut self.aborted,
                Outcome::InDoubt => &mut self.in_doubt,
            } += 1;
        }
        for (anomaly, text) in check::check(history) {
            *self.anomalies.entry(anomaly).or_default() += 1;
            if self.level.excludes(anomaly) {
                self.violations.push(format!(
                    "round {}: {}: {text}",
                    self.rounds,
                    anomaly.title()
                ));
            }
            self.examples.entry(anomaly).or_insert(text);
        }
    }
}

/// Runs the load at each level, checks its histories, and writes the report. A finding that the level excludes is a
/// failed check.
pub fn run(args: &IsolationArgs) -> Result<Ending, LabError> {
    let report = Report {
        experiment: "isolation".into(),
        title: "What each isolation level excludes, and what it shows".into(),
        lead: "Random transactions, recorded over TDS, make a graph of dependencies; cycles in it are anomalies. A level must \
               not show what it excludes, and is expected to show what it permits."
            .into(),
        source: Source {
            text: "Adya 1999; Kingsbury and Alvaro, Elle, VLDB 2020".into(),
            ..Source::default()
        },
        ..Report::default()
    };
    let mut lab = Lab::start(&args.options, report)?;
    let outcome = steps(&mut lab, args);
    lab.finish(outcome)
}

fn steps(lab: &mut Lab, args: &IsolationArgs) -> Result<(), LabError> {
    let now = jiff::Timestamp::now().as_nanosecond();
    let chosen = u64::try_from(now % i128::from(u64::MAX)).unwrap_or(1);
    let seed = args.seed.unwrap_or(chosen);
    lab.report.fact("Seed", seed.to_string());
    lab.step(format!("seed {seed}"));
    let mut random = Random::new(seed);
    let modes: &[Mode] = match lab.accelerated_recovery()? {
        true => &[Mode::Classic, Mode::Accelerated],
        false => &[Mode::Classic],
    };
    for mode in modes {
        create(lab, *mode)?;
    }
    let mut all = Vec::new();
    for level in Level::ALL {
        all.push(series(lab, args, level, modes, &mut random)?);
    }
    publish(lab, &all);
    Ok(())
}

fn database(mode: Mode) -> String {
    format!("{DATABASE}_{}", mode.title())
}

fn create(lab: &mut Lab, mode: Mode) -> Result<(), LabError> {
    let name = database(mode);
    let mut client = lab.create_database(&name)?;
    client.execute(&format!(
        "ALTER DATABASE {name} SET ALLOW_SNAPSHOT_ISOLATION ON"
    ))?;
    if mode == Mode::Accelerated {
        client.execute(&format!(
            "ALTER DATABASE {name} SET ACCELERATED_DATABASE_RECOVERY = ON"
        ))?;
    }
    Ok(())
}

fn series(
    lab: &mut Lab,
    args: &IsolationArgs,
    level: Level,
    modes: &[Mode],
    random: &mut Random,
) -> Result<Outcomes, LabError> {
    let mut outcomes = Outcomes::new(level);
    let versions = if level == Level::ReadCommittedLocks {
        "OFF"
    } else {
        "ON"
    };
    for mode in modes {
        let name = database(*mode);
        let mut client = lab.client("master")?;
        client.execute(&format!(
            "ALTER DATABASE {name} SET READ_COMMITTED_SNAPSHOT {versions} WITH ROLLBACK IMMEDIATE"
        ))?;
    }
    let rounds = args.rounds.unwrap_or(if lab.quick { 4 } else { 60 });
    let limit = rounds + MORE_ROUNDS_MAX;
    while outcomes.violations.is_empty()
        && (outcomes.rounds < rounds || !outcomes.owed().is_empty() && outcomes.rounds < limit)
    {
        lab.check_interrupt()?;
        lab.step(format!("{}: round {}", level.title(), outcomes.rounds + 1));
        let at = usize::try_from(outcomes.rounds).unwrap_or(0);
        let mode = modes
            .get(at % modes.len())
            .copied()
            .unwrap_or(Mode::Classic);
        let history = round(lab, args, mode, &mut outcomes, random)?;
        outcomes.take(&history);
        outcomes.rounds += 1;
    }
    Ok(outcomes)
}

/// Transactions of all sessions on fresh tables; with a kill in the middle, other sessions go on afterwards.
fn round(
    lab: &mut Lab,
    args: &IsolationArgs,
    mode: Mode,
    outcomes: &mut Outcomes,
    random: &mut Random,
) -> Result<History, LabError> {
    let name = database(mode);
    let shape = Shape::ALL[usize::try_from(random.below(3)).unwrap_or(0)];
    session::create_tables(&mut lab.client(&name)?, shape)?;
    let shared = Shared::default();
    let mut history = History::default();
    let mut beside = beside_load(lab, &name, outcomes.rounds, random)?;
    let with_kill = lab.is_private() && outcomes.rounds % KILL_EVERY == KILL_EVERY - 1;
    if with_kill {
        let moment = random.below(args.sessions * args.transactions);
        history.transactions = leg(
            lab,
            args,
            &name,
            outcomes.level,
            &shared,
            random,
            beside.as_mut(),
            Some(moment),
        )?;
        lab.crash(Crash::Kill)?;
        lab.first_answer(&name, "SELECT 1")?;
        outcomes.kills += 1;
        shared.stop.store(false, Ordering::Relaxed);
        verify_beside(lab, beside.as_mut(), outcomes)?;
    }
    let rest = leg(
        lab,
        args,
        &name,
        outcomes.level,
        &shared,
        random,
        beside.as_mut(),
        None,
    )?;
    verify_beside(lab, beside.as_mut(), outcomes)?;
    if let Some(mut beside) = beside {
        beside.clean(&lab.options_for("master"))?;
        for (name, count) in beside.journal.counts {
            let sum = outcomes.beside.entry(name).or_default();
            sum.done += count.done;
            sum.not_done += count.not_done;
        }
    }
    history.transactions.extend(rest);
    outcomes.refused += shared.refused.load(Ordering::Relaxed);
    outcomes
        .violations
        .extend(shared.surprises.into_inner().unwrap_or_default());
    history.last = session::last_state(&mut lab.client(&name)?)?
        .into_iter()
        .collect();
    Ok(history)
}

/// In half of the rounds, of either recovery and with and without a kill.
fn beside_load(
    lab: &Lab,
    database: &str,
    round: u64,
    random: &mut Random,
) -> Result<Option<Beside>, LabError> {
    // Another server need not see our folders.
    if !lab.is_private() || (round / 2).is_multiple_of(2) {
        return Ok(None);
    }
    let folder = lab.scratch().join("beside");
    let failed = |source| LabError::File {
        path: folder.clone(),
        source,
    };
    fs::create_dir_all(&folder).map_err(failed)?;
    let folder = fs::canonicalize(&folder).map_err(failed)?;
    let first = (round + 1) * NAMES_OF_A_ROUND;
    Ok(Some(Beside::new(
        database,
        INDEXED,
        folder,
        random.next(),
        first,
    )))
}

fn verify_beside(
    lab: &mut Lab,
    beside: Option<&mut Beside>,
    outcomes: &mut Outcomes,
) -> Result<(), LabError> {
    let Some(beside) = beside else {
        return Ok(());
    };
    let data = lab.server_mut().map(|server| server.data_folder());
    let target = lab.options_for("master");
    beside.verify(&target, data.as_deref(), &mut outcomes.violations)
}

/// Sessions side by side to their end, or until so many transactions are over and the server is killed.
fn leg(
    lab: &mut Lab,
    args: &IsolationArgs,
    name: &str,
    level: Level,
    shared: &Shared,
    random: &mut Random,
    beside: Option<&mut Beside>,
    kill_after: Option<u64>,
) -> Result<Vec<Transaction>, LabError> {
    let target = lab.options_for(name);
    let (sender, over) = channel();
    let stop = AtomicBool::new(false);
    let aside = beside::Round {
        target: &target,
        stop: &stop,
        surprises: &shared.surprises,
    };
    thread::scope(|scope| {
        if let Some(beside) = beside {
            scope.spawn(|| beside.work(&aside));
        }
        let sessions: Vec<_> = (0..args.sessions)
            .map(|_| {
                let (seed, sender, target) = (random.next(), sender.clone(), &target);
                scope.spawn(move || {
                    session::work(target, level, seed, args.transactions, shared, &sender)
                })
            })
            .collect();
        drop(sender);
        if let Some(count) = kill_after {
            let reached = over
                .iter()
                .take(usize::try_from(count).unwrap_or(0))
                .count();
            lab.step(format!(
                "{}: killed after {reached} transactions",
                level.title()
            ));
            shared.stop.store(true, Ordering::Relaxed);
            if let Some(server) = lab.server_mut() {
                server.kill();
            }
        }
        let mut all = Vec::new();
        let joined: Vec<_> = sessions.into_iter().map(|s| s.join()).collect();
        stop.store(true, Ordering::Relaxed);
        for session in joined {
            let done = session.map_err(|_| LabError::Unexpected("a session panicked".into()))?;
            match done {
                Ok(transactions) => all.extend(transactions),
                // The kill came before the login.
                Err(_) if kill_after.is_some() => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(all)
    })
}

fn publish(lab: &mut Lab, all: &[Outcomes]) {
    let mut section = Section {
        title: "Anomalies found at each level".into(),
        ..Section::default()
    };
    section.text(
        "Figures are the edges that lie on such a cycle, or the reads and writes concerned. A dash stands for what the level \
         excludes and what was not found.",
    );
    let mut columns = vec!["Anomaly"];
    columns.extend(all.iter().map(|o| o.level.title()));
    let mut table = Table::new("", &columns);
    for anomaly in Anomaly::ALL {
        let cell = |o: &Outcomes| match (o.anomalies.get(&anomaly), o.level.excludes(anomaly)) {
            (Some(count), true) => format!("{count} VIOLATIONS"),
            (Some(count), false) => grouped(*count as f64),
            (None, true) => "-".into(),
            (None, false) => "0".into(),
        };
        let mut cells = vec![anomaly.title().to_string()];
        cells.extend(all.iter().map(cell));
        table.measured(cells);
    }
    section.table(table);
    section.table(counts(all));
    section.table(beside::table(all.iter().map(|o| &o.beside)));
    section.text("One of each, as it was found.");
    section.code(examples(all));
    lab.publish(section);
    for outcomes in all {
        judge(lab, outcomes);
    }
    let data: Vec<_> = all.iter().map(data).collect();
    lab.report.keep("isolation", json!(data));
}

fn counts(all: &[Outcomes]) -> Table {
    let columns = [
        "Level",
        "Rounds",
        "Kills",
        "Committed",
        "Rolled back",
        "of them victims",
        "In doubt",
    ];
    let mut table = Table::new("", &columns);
    for o in all {
        let figures = [
            o.rounds,
            o.kills,
            o.committed,
            o.aborted,
            o.refused,
            o.in_doubt,
        ];
        let mut cells = vec![o.level.title().to_string()];
        cells.extend(figures.iter().map(|figure| grouped(*figure as f64)));
        table.measured(cells);
    }
    table
}

fn examples(all: &[Outcomes]) -> String {
    let told = |o: &Outcomes| {
        let lines: Vec<String> = o
            .examples
            .iter()
            .map(|(anomaly, text)| format!("{}, {}: {text}", o.level.title(), anomaly.title()))
            .collect();
        lines.join("\n")
    };
    all.iter().map(told).collect::<Vec<_>>().join("\n")
}

fn judge(lab: &mut Lab, outcomes: &Outcomes) {
    let title = outcomes.level.title();
    let violations = outcomes.violations.len();
    lab.report.figure(
        format!("{title}: violations"),
        violations.to_string(),
        format!(
            "{} transactions checked",
            grouped(outcomes.committed as f64)
        ),
        Verdict::of(violations == 0),
    );
    lab.report
        .check(format!("{title}: violations"), "0", violations.to_string());
    for violation in outcomes.violations.iter().take(TOLD_MAX) {
        lab.report
            .check(format!("{title}: {violation}"), "", "violated");
    }
    for anomaly in outcomes.level.shows() {
        let is_found = outcomes.anomalies.contains_key(anomaly);
        let found = if is_found { "found" } else { "not found" };
        lab.report.check(
            format!("{title} permits {}", anomaly.title()),
            "found",
            found,
        );
    }
}

fn data(o: &Outcomes) -> serde_json::Value {
    let named = |anomaly: &Anomaly| anomaly.title().to_string();
    let counts: BTreeMap<_, _> = o
        .anomalies
        .iter()
        .map(|(a, count)| (named(a), *count))
        .collect();
    let examples: BTreeMap<_, _> = o
        .examples
        .iter()
        .map(|(a, text)| (named(a), text))
        .collect();
    json!({"level": o.level.title(), "rounds": o.rounds, "kills": o.kills, "committed": o.committed, "aborted": o.aborted,
           "refused": o.refused, "in_doubt": o.in_doubt, "beside": o.beside, "anomalies": counts, "examples": examples,
           "violations": o.violations})
}
