//! SHUTDOWN WITH NOWAIT in the middle of a transaction over all databases, and what the error log says after the restart.

use super::super::context::Crash;
use super::super::recovery_log::{self, RecoveryTimes};
use super::super::{Lab, LabError};
use super::databases::{Set, check_sums};
use super::timing::pair;
use super::{AdrArgs, published};
use crate::figures;
use crate::report::chart::{BarSeries, Bars, Kind, Unit};
use crate::report::{Section, Table, Verdict};
use serde_json::json;
use std::time::Instant;

/// Stops the server in the middle of a transaction over all databases, and reads the times of recovery from the error
/// log.
pub fn run(lab: &mut Lab, args: &AdrArgs, set: &Set) -> Result<(), LabError> {
    if !lab.is_private() {
        lab.notice(
            "Crash recovery is left out: stopping a server needs a private one (leave out -S).",
        );
        return Ok(());
    }
    let mut open = lab.client("master")?;
    open.execute("BEGIN TRANSACTION")?;
    for database in &set.databases {
        lab.step(format!(
            "{} pairs in the open transaction, {}",
            args.crash_pairs(),
            database.name
        ));
        for _ in 0..args.crash_pairs() {
            open.execute(&pair(database.name))?;
            lab.check_interrupt()?;
        }
    }
    lab.step("SHUTDOWN WITH NOWAIT and restart");
    let begun = Instant::now();
    let ready = lab.crash(Crash::ShutdownNoWait)?;
    drop(open);
    for database in &set.databases {
        lab.first_answer(
            database.name,
            "SELECT TOP (1) SalesOrderID FROM Sales.SalesOrderDetail",
        )?;
    }
    let all_answer = begun.elapsed().as_secs_f64();
    let mut client = lab.client("master")?;
    let mut times = Vec::new();
    for database in &set.databases {
        times.push(recovery_log::last(&mut client, database.name)?);
    }
    check_sums(lab, set, "after the crash")?;
    publish(lab, args, set, &times, (ready.as_secs_f64(), all_answer));
    Ok(())
}

fn publish(
    lab: &mut Lab,
    args: &AdrArgs,
    set: &Set,
    times: &[Option<RecoveryTimes>],
    (ready, all_answer): (f64, f64),
) {
    let mut section = Section {
        title: "Recovery after SHUTDOWN WITH NOWAIT".into(),
        ..Section::default()
    };
    section.text(
        "How much a database has to redo depends on when its last checkpoint was, and the databases were changed one after the \
         other; `daruma lab ratios` compares the redo of the same work.",
    );
    section.text(format!(
        "One transaction holds {} pairs in each database when the server is stopped. From the start of the new process \
         to its readiness {}; from the shutdown until every database answered {}.",
        args.crash_pairs(),
        figures::seconds(ready),
        figures::seconds(all_answer)
    ));
    let mut table = Table::new(
        "From the error log",
        &[
            "Database",
            "Analysis (ms)",
            "Redo (ms)",
            "Undo (ms)",
            "Recovery (s)",
        ],
    );
    for (database, times) in set.databases.iter().zip(times) {
        let cell = |value: fn(&RecoveryTimes) -> f64| figures::optional(times.as_ref().map(value));
        table.measured(vec![
            database.name.into(),
            cell(|t| t.analysis_ms),
            cell(|t| t.redo_ms),
            cell(|t| t.undo_ms),
            cell(RecoveryTimes::sum_s),
        ]);
    }
    for (name, analysis, redo, undo, seconds) in published::RECOVERY {
        let cells = [analysis, redo, undo, seconds].map(figures::number);
        let [analysis, redo, undo, seconds] = &cells;
        table.published(&[name, analysis, redo, undo, seconds]);
    }
    section.table(table);
    section.chart(chart(set, times));
    section.chart(parts_chart(set, times));
    for (off, on) in set.pairs() {
        let (Some(off), Some(Some(on_times)), Some(database)) =
            (times.get(off), times.get(on), set.databases.get(on))
        else {
            continue;
        };
        let off_text = off.map_or_else(|| "-".into(), |t| figures::seconds(t.undo_ms / 1e3));
        lab.report.figure(
            format!("{}: undo phase", database.name),
            figures::seconds(on_times.undo_ms / 1e3),
            format!("off: {off_text}; published 0.1 to 0.2 s on, 26 to 32 s off"),
            Verdict::of(on_times.undo_ms <= 10.0),
        );
        if let Some(off) = off.filter(|off| off.redo_ms > 0.0) {
            let redo = on_times.redo_ms / off.redo_ms;
            lab.report.figure(
                format!("{}: redo, on / off", database.name),
                format!("{redo:.2} ×"),
                "published 1.61 and 1.31",
                // Not the same work: see the text.
                Verdict::Plain,
            );
        }
    }
    let data: Vec<_> = set
        .databases
        .iter()
        .zip(times)
        .map(|(d, t)| json!({"database": d.name, "times": t}))
        .collect();
    lab.report.keep(
        "crash_recovery",
        json!({"ready_s": ready, "all_answer_s": all_answer, "databases": data}),
    );
    lab.publish(section);
}

fn of(set: &Set, times: &[Option<RecoveryTimes>], name: &str) -> Option<RecoveryTimes> {
    let at = set.databases.iter().position(|d| d.name == name)?;
    times.get(at).copied().flatten()
}

fn chart(set: &Set, times: &[Option<RecoveryTimes>]) -> Bars {
    let names: Vec<String> = published::RECOVERY
        .iter()
        .map(|r| r.0.to_string())
        .collect();
    let measured: Vec<_> = names
        .iter()
        .map(|name| of(set, times, name).map(|t| t.sum_s().max(0.001)))
        .collect();
    let paper: Vec<_> = published::RECOVERY.iter().map(|r| Some(r.4)).collect();
    Bars {
        title: "Recovery: analysis, redo and undo".into(),
        unit: Unit::Seconds,
        log: true,
        names,
        series: vec![
            BarSeries::new("measured", Kind::Measured, 1, measured),
            BarSeries::new("published", Kind::Published, 1, paper),
        ],
        mark: None,
        note: "Logarithmic.".into(),
    }
}

fn parts_chart(set: &Set, times: &[Option<RecoveryTimes>]) -> Bars {
    let names: Vec<String> = published::RECOVERY
        .iter()
        .map(|r| r.0.to_string())
        .collect();
    let values = |value: fn(&RecoveryTimes) -> f64| -> Vec<Option<f64>> {
        names
            .iter()
            .map(|name| of(set, times, name).map(|t| value(&t) / 1e3))
            .collect()
    };
    Bars {
        title: "Where recovery spends its time (measured)".into(),
        unit: Unit::Seconds,
        log: false,
        series: vec![
            BarSeries::new("analysis", Kind::Measured, 5, values(|t| t.analysis_ms)),
            BarSeries::new("redo", Kind::Measured, 0, values(|t| t.redo_ms)),
            BarSeries::new("undo", Kind::Measured, 1, values(|t| t.undo_ms)),
        ],
        names,
        mark: None,
        note: String::new(),
    }
}
