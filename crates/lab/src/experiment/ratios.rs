//! `daruma lab ratios`: what accelerated recovery costs, as on / off ratios of one run.
//!
//! The same work is done in two databases that differ in the option alone. They take turns, and who goes first alternates;
//! figures are medians over the rounds. Besides the time, the server's processor time and the log bytes are compared,
//! since those do not depend on what else the machine does. Where the server does not support the option both databases have it
//! off, and the ratios show the noise of the machine.

use super::context::Crash;
use super::recovery::{Mode, insert_loop, insert_statement};
use super::{Ending, Lab, LabError, LabOptions, adr, probe, recovery_log};
use crate::figures::{self, median, ratio};
use crate::report::chart::{BarSeries, Bars, Kind, Unit};
use crate::report::{Report, Section, Source, Table, Verdict};
use crate::sql::{Ask, quoted};
use crate::stress::load::{self, LoadPlan};
use clap::Args;
use daruma_client::client::Client;
use serde::Serialize;
use serde_json::json;

/// Rows of Sales.SalesOrderDetail: however often a transaction changed them, each is reverted once.
const ROWS_OF_PAIRS: f64 = 121_317.0;
/// Rows a second that one thread of the reverter should manage.
const REVERT_TARGET: f64 = 200_000.0;
const REVERT_THREADS_MAX: f64 = 4.0;
const NAMES: [&str; 2] = ["Ratio_off", "Ratio_on"];

/// Options of `daruma lab ratios`.
#[derive(Args, Clone, Debug)]
pub struct RatiosArgs {
    #[command(flatten)]
    pub options: LabOptions,

    /// Rows of the insert workloads; the study's were 2000000 [default: 200000; quick: 20000]
    #[arg(help_heading = "Experiment", long, value_name = "N", value_parser = clap::value_parser!(u64).range(1000..=100_000_000))]
    pub rows: Option<u64>,

    /// Rounds of which the median is taken [default: 7; quick: 3]
    #[arg(help_heading = "Experiment", long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub rounds: Option<u64>,
}

impl RatiosArgs {
    fn rows(&self) -> u64 {
        self.rows
            .unwrap_or(if self.options.quick { 20_000 } else { 200_000 })
    }

    fn rounds(&self) -> u64 {
        self.rounds
            .unwrap_or(if self.options.quick { 3 } else { 7 })
    }

    /// Sessions, iterations, and pairs in one transaction.
    fn pairs(&self) -> (usize, u64, u64) {
        if self.options.quick {
            (4, 2, 5)
        } else {
            (10, 10, 50)
        }
    }
}

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Sessions,
    Transaction,
    Rollback,
    Revert,
    SmallInserts,
    OneInsert,
    Redo,
}

impl Work {
    const ALL: [Work; 7] = [
        Work::Sessions,
        Work::Transaction,
        Work::Rollback,
        Work::Revert,
        Work::SmallInserts,
        Work::OneInsert,
        Work::Redo,
    ];

    fn title(self, args: &RatiosArgs) -> String {
        let (sessions, iterations, pairs) = args.pairs();
        let rows = figures::grouped(args.rows() as f64);
        match self {
            Work::Sessions => format!("update pairs, {sessions} x {iterations}"),
            Work::Transaction => format!("{pairs} pairs in one transaction"),
            Work::Rollback => format!("rollback of {pairs} pairs"),
            Work::Revert => "background revert of it".into(),
            Work::SmallInserts => format!("{rows} rows by small inserts"),
            Work::OneInsert => format!("{rows} rows by one statement"),
            Work::Redo => "redo after a kill".into(),
        }
    }

    /// For the chart, where labels are short. `None`: there is nothing to compare, for without the option nothing is left
    /// to be reverted.
    const fn label(self) -> Option<&'static str> {
        match self {
            Work::Sessions => Some("update pairs, sessions"),
            Work::Transaction => Some("pairs, one transaction"),
            Work::Rollback => Some("rollback of pairs"),
            Work::Revert => None,
            Work::SmallInserts => Some("small inserts"),
            Work::OneInsert => Some("one large insert"),
            Work::Redo => Some("redo after a kill"),
        }
    }

    /// Promised on / off, and the published one.
    const fn target(self) -> (Option<f64>, &'static str) {
        match self {
            Work::Sessions => (Some(1.05), "1.47 to 1.50"),
            Work::Transaction => (Some(1.05), "1.95"),
            Work::Rollback => (None, "0 s against 36 s"),
            Work::Revert => (None, "-"),
            Work::SmallInserts => (Some(1.05), "3.7"),
            Work::OneInsert => (Some(1.03), "1.36"),
            Work::Redo => (Some(1.0), "1.31 to 1.61"),
        }
    }
}

/// Samples of one work in one database.
#[derive(Clone, Debug, Default, Serialize)]
struct Samples {
    seconds: Vec<f64>,
    cpu_s: Vec<f64>,
    log_bytes: Vec<f64>,
}

/// Measures, writes the report, and tells whether the targets were met.
pub fn run(args: &RatiosArgs) -> Result<Ending, LabError> {
    let report = Report {
        experiment: "ratios".into(),
        title: "The price of accelerated recovery: on / off".into(),
        lead: "The same work in two databases that differ in ACCELERATED_DATABASE_RECOVERY alone, taking turns.".into(),
        source: Source {
            text: "Published ratios: Mainzer Datenfabrik (13 August 2024) for update pairs, transaction and redo; careyson \
                   (18 February 2024) for inserts."
                .into(),
            setting: "Measured there with SQL Server 2022 and 2019.".into(),
        },
        ..Report::default()
    };
    let mut lab = Lab::start(&args.options, report)?;
    let outcome = steps(&mut lab, args);
    lab.finish(outcome)
}

fn steps(lab: &mut Lab, args: &RatiosArgs) -> Result<(), LabError> {
    let accelerated = lab.accelerated_recovery()?;
    create(lab, accelerated)?;
    let mut client = lab.client("master")?;
    let before = [
        adr::sums(&mut client, NAMES[0])?,
        adr::sums(&mut client, NAMES[1])?,
    ];
    let mut samples = vec![[Samples::default(), Samples::default()]; Work::ALL.len()];
    for round in 0..args.rounds() {
        for at in order(round) {
            lab.check_interrupt()?;
            lab.step(format!(
                "round {} of {}, {}",
                round + 1,
                args.rounds(),
                NAMES[at]
            ));
            one_round(lab, args, at, &mut samples)?;
        }
        if lab.is_private() {
            redo_round(lab, round, &mut samples)?;
        }
    }
    let mut client = lab.client("master")?;
    for (name, before) in NAMES.iter().zip(before) {
        let after = adr::sums(&mut client, name)?;
        lab.report.check(
            format!("{name}: sums of SalesOrderDetail at the end"),
            before,
            after,
        );
    }
    publish(lab, args, accelerated, &samples);
    Ok(())
}

/// The two take turns at going first.
fn order(round: u64) -> [usize; 2] {
    if round.is_multiple_of(2) {
        [0, 1]
    } else {
        [1, 0]
    }
}

fn create(lab: &mut Lab, accelerated: bool) -> Result<(), LabError> {
    lab.create_samples(&NAMES)?;
    for (name, mode) in NAMES.iter().zip([Mode::Classic, Mode::Accelerated]) {
        let mut client = lab.client(name)?;
        client.execute(&format!("ALTER DATABASE {name} SET RECOVERY SIMPLE"))?;
        client.execute("ALTER TABLE Sales.SalesOrderDetail DISABLE TRIGGER iduSalesOrderDetail")?;
        recovery_tables(&mut client)?;
        if accelerated && mode == Mode::Accelerated {
            client.execute(&format!(
                "ALTER DATABASE {name} SET ACCELERATED_DATABASE_RECOVERY = ON"
            ))?;
        }
        // Both caches are warm before anything counts.
        client.execute(&adr::pair(name))?;
        client.execute("CHECKPOINT")?;
    }
    Ok(())
}

fn recovery_tables(client: &mut Client) -> Result<(), LabError> {
    for statement in super::recovery::table_statements() {
        client.execute(&statement)?;
    }
    Ok(())
}

fn one_round(
    lab: &Lab,
    args: &RatiosArgs,
    at: usize,
    samples: &mut [[Samples; 2]],
) -> Result<(), LabError> {
    let name = NAMES[at];
    let (sessions, iterations, pairs) = args.pairs();
    let pair = adr::pair(name);
    let plan = LoadPlan {
        statistics: false,
        ..LoadPlan::new(&pair, sessions, iterations)
    };
    let options = lab.options_for("master");
    take(lab, name, &mut samples[0][at], || {
        let result = load::run(&options, &plan, &crate::interrupt::flag(), &|| ())?;
        Ok(result.total.as_secs_f64())
    })?;
    let mut client = lab.client(name)?;
    client.execute("BEGIN TRANSACTION")?;
    take(lab, name, &mut samples[1][at], || {
        let mut seconds = 0.0;
        for _ in 0..pairs {
            seconds += client.timed(&pair)?.as_secs_f64();
        }
        Ok(seconds)
    })?;
    take(lab, name, &mut samples[2][at], || {
        Ok(client.timed("ROLLBACK")?.as_secs_f64())
    })?;
    take(lab, name, &mut samples[3][at], || {
        // Never in time is no figure.
        Ok(probe::until_reverted(&mut client, name)?.unwrap_or(f64::NAN))
    })?;
    for (work, text) in [
        (4, insert_loop(args.rows())),
        (5, insert_statement(args.rows())),
    ] {
        take(lab, name, &mut samples[work][at], || {
            let text = format!("BEGIN TRANSACTION; {text}; COMMIT");
            Ok(client.timed(&text)?.as_secs_f64())
        })?;
        client.execute("TRUNCATE TABLE t11")?;
    }
    client.execute("CHECKPOINT")?;
    Ok(())
}

/// Runs `work`, which gives its seconds, and notes processor time and log bytes beside them.
fn take(
    lab: &Lab,
    name: &str,
    samples: &mut Samples,
    work: impl FnOnce() -> Result<f64, LabError>,
) -> Result<(), LabError> {
    let mut client = lab.client("master")?;
    let (bytes, cpu) = (log_bytes(&mut client, name)?, lab.server_cpu_s());
    samples.seconds.push(work()?);
    if let (Some(before), Some(after)) = (cpu, lab.server_cpu_s()) {
        samples.cpu_s.push(after - before);
    }
    if let (Some(before), Some(after)) = (bytes, log_bytes(&mut client, name)?) {
        samples.log_bytes.push(after - before);
    }
    Ok(())
}

/// Log bytes written so far. What is still in memory is flushed first, or the next work would be charged for it.
fn log_bytes(client: &mut Client, database: &str) -> Result<Option<f64>, LabError> {
    client.execute(&format!("EXEC {database}.sys.sp_flush_log"))?;
    Ok(client.number(&format!(
        "SELECT cntr_value FROM sys.dm_os_performance_counters \
         WHERE RTRIM(counter_name) = N'Log Bytes Flushed/sec' AND RTRIM(instance_name) = {}",
        quoted(database)
    ))?)
}

/// Committed pairs that no checkpoint has seen, in both databases; then a kill, and the redo times of the log.
fn redo_round(lab: &mut Lab, round: u64, samples: &mut [[Samples; 2]]) -> Result<(), LabError> {
    let pairs = if lab.quick { 1 } else { 3 };
    for at in order(round) {
        lab.step(format!("round {}: redo, {}", round + 1, NAMES[at]));
        let mut client = lab.client(NAMES[at])?;
        client.execute("CHECKPOINT")?;
        for _ in 0..pairs {
            client.execute(&adr::pair(NAMES[at]))?;
        }
    }
    lab.crash(Crash::Kill)?;
    let mut client = lab.client("master")?;
    for at in [0, 1] {
        lab.first_answer(NAMES[at], "SELECT COUNT(*) FROM n")?;
        if let Some(times) = recovery_log::last(&mut client, NAMES[at])? {
            samples[6][at].seconds.push(times.redo_ms / 1e3);
        }
    }
    Ok(())
}

fn publish(lab: &mut Lab, args: &RatiosArgs, accelerated: bool, samples: &[[Samples; 2]]) {
    let second = if accelerated { "on" } else { "off again" };
    let mut section = Section {
        title: "Ratios".into(),
        ..Section::default()
    };
    section.text(format!(
        "Medians of {} rounds, the databases taking turns. CPU is the whole server's, log bytes are those flushed.",
        args.rounds()
    ));
    let mut table = Table::new(
        "",
        &[
            "Work",
            "off",
            second,
            "time ×",
            "CPU ×",
            "log bytes ×",
            "target",
            "published",
        ],
    );
    let mut names = Vec::new();
    let (mut times, mut cpus, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
    for (work, [off, on]) in Work::ALL.into_iter().zip(samples) {
        let of = |value: fn(&Samples) -> &Vec<f64>| ratio(median(value(on)), median(value(off)));
        let (time, cpu, log) = (of(|s| &s.seconds), of(|s| &s.cpu_s), of(|s| &s.log_bytes));
        let (target, published) = work.target();
        let shown = |s: &Samples| median(&s.seconds).map_or_else(|| "-".into(), figures::seconds);
        let two = |value: Option<f64>| value.map_or_else(|| "-".into(), |v| format!("{v:.2}"));
        table.measured(vec![
            work.title(args),
            shown(off),
            shown(on),
            two(time.filter(|_| work != Work::Revert)),
            two(cpu.filter(|_| work != Work::Revert)),
            two(log.filter(|_| work != Work::Revert)),
            match (work, target) {
                (_, Some(target)) => format!("at most {target}"),
                (Work::Rollback, None) => "under 10 ms".into(),
                (_, None) => "-".into(),
            },
            published.into(),
        ]);
        if let Some(label) = work.label() {
            names.push(label.to_string());
            times.push(time);
            cpus.push(cpu);
            bytes.push(log);
        }
        if accelerated {
            figure(lab, work, args, time, on);
        }
    }
    section.table(table);
    section.chart(Bars {
        title: format!("{second} / off"),
        unit: Unit::Times,
        log: false,
        names,
        series: vec![
            BarSeries::new("time", Kind::Measured, 0, times),
            BarSeries::new("CPU", Kind::Measured, 2, cpus),
            BarSeries::new("log bytes", Kind::Measured, 3, bytes),
            BarSeries::new(
                "time, published",
                Kind::Published,
                0,
                vec![
                    Some(1.5),
                    Some(1.95),
                    Some(0.0),
                    Some(3.7),
                    Some(1.36),
                    Some(1.61),
                ],
            ),
        ],
        mark: Some(("free".into(), 1.0)),
        note: "1 means that the option costs nothing.".into(),
    });
    let data: Vec<_> = Work::ALL
        .into_iter()
        .zip(samples)
        .map(|(work, [off, on])| json!({"work": work.title(args), "off": off, "on": on}))
        .collect();
    lab.report.keep("accelerated", json!(accelerated));
    lab.report.keep("samples", json!(data));
    lab.publish(section);
}

fn figure(lab: &mut Lab, work: Work, args: &RatiosArgs, time: Option<f64>, on: &Samples) {
    let (target, published) = work.target();
    match (target, time) {
        (Some(target), Some(time)) => lab.report.figure(
            format!("{}, on / off", work.title(args)),
            format!("{time:.2} ×"),
            format!("published {published}, target at most {target}"),
            Verdict::of(time <= target),
        ),
        (None, _) if work == Work::Rollback => {
            if let Some(seconds) = median(&on.seconds) {
                lab.report.figure(
                    format!("{}, on", work.title(args)),
                    figures::seconds(seconds),
                    "target under 10 ms",
                    Verdict::of(seconds < 0.010),
                );
            }
        }
        (None, _) if work == Work::Revert => {
            if let Some(seconds) = median(&on.seconds).filter(|seconds| *seconds > 0.0) {
                let rate = ROWS_OF_PAIRS / seconds;
                lab.report.figure(
                    "Background revert",
                    format!("{} rows/s", figures::grouped(rate)),
                    format!(
                        "{} until no row of {} needs reverting, target at least {} rows/s for each thread",
                        figures::seconds(seconds),
                        figures::grouped(ROWS_OF_PAIRS),
                        figures::grouped(REVERT_TARGET),
                    ),
                    Verdict::of(rate >= REVERT_TARGET * REVERT_THREADS_MAX),
                );
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_databases_take_turns_at_being_first() {
        assert_eq!(order(0), [0, 1]);
        assert_eq!(order(1), [1, 0]);
    }
}
