//! Log space while a transaction stays open and checkpoints go on.

use super::{Kind, Lab, LabError, Mode, RecoveryArgs, fresh, insert_statement, line};
use crate::figures;
use crate::report::chart::{LineSeries, Lines, Unit};
use crate::report::{Section, Table, Verdict};
use crate::sql::Ask;
use serde_json::json;

const STEPS: u64 = 10;

struct Sample {
    rows: u64,
    used_bytes: f64,
    total_bytes: f64,
    wait: String,
}

/// Measures the log that an open transaction holds while others commit.
pub fn run(lab: &mut Lab, args: &RecoveryArgs, modes: &[Mode]) -> Result<(), LabError> {
    let mut found = Vec::new();
    for mode in modes {
        found.push((*mode, one(lab, *mode, args.rows() / STEPS)?));
    }
    publish(lab, &found);
    Ok(())
}

fn one(lab: &mut Lab, mode: Mode, rows_step: u64) -> Result<Vec<Sample>, LabError> {
    let mut open = fresh(lab, mode, false)?;
    let mut watcher = lab.client(mode.database())?;
    let mut samples = Vec::new();
    open.execute("BEGIN TRANSACTION")?;
    for step in 0..=STEPS {
        lab.check_interrupt()?;
        lab.step(format!(
            "accelerated recovery {}: log space with a transaction open, {step} of {STEPS}",
            mode.title()
        ));
        if step > 0 {
            open.execute(&insert_statement(rows_step))?;
        }
        watcher.execute("CHECKPOINT; CHECKPOINT")?;
        let row = watcher.table(
            "SELECT used_log_space_in_bytes, total_log_size_in_bytes FROM sys.dm_db_log_space_usage",
        )?;
        let cell = |at: usize| {
            let text = row.first().and_then(|row| row.get(at));
            text.and_then(|text| text.parse().ok()).unwrap_or(f64::NAN)
        };
        samples.push(Sample {
            rows: step * rows_step,
            used_bytes: cell(0),
            total_bytes: cell(1),
            wait: watcher.text(
                "SELECT log_reuse_wait_desc FROM sys.databases WHERE database_id = DB_ID()",
            )?,
        });
    }
    open.execute("ROLLBACK")?;
    super::check_nothing_left(lab, mode, "after the log space run")?;
    drop((open, watcher));
    lab.drop_database(mode.database())?;
    Ok(samples)
}

fn publish(lab: &mut Lab, found: &[(Mode, Vec<Sample>)]) {
    let mut section = Section {
        title: "Log space while a transaction stays open".into(),
        ..Section::default()
    };
    section.text(
        "One transaction inserts and stays open; after each step another session makes checkpoints and reads how much of \
         the log is in use. Recovery model SIMPLE.",
    );
    let mut table = Table::new(
        "",
        &[
            "Recovery",
            "Rows open",
            "Log in use",
            "Log file",
            "log_reuse_wait_desc",
        ],
    );
    for (mode, samples) in found {
        for sample in [
            samples.first(),
            samples.get(samples.len() / 2),
            samples.last(),
        ] {
            let Some(sample) = sample else { continue };
            table.measured(vec![
                mode.title().into(),
                figures::grouped(sample.rows as f64),
                figures::bytes(sample.used_bytes),
                figures::bytes(sample.total_bytes),
                sample.wait.clone(),
            ]);
        }
    }
    table.published(&["off", "2,000,000", "-", "-", "ACTIVE_TRANSACTION"]);
    table.published(&["on", "2,000,000", "-", "-", "NOTHING"]);
    section.table(table);
    section.chart(chart(found));
    for (mode, samples) in found {
        let Some(last) = samples.last() else { continue };
        let good = match mode {
            Mode::Classic => Verdict::Plain,
            Mode::Accelerated => Verdict::of(last.wait == "NOTHING"),
        };
        lab.report.figure(
            format!(
                "Log in use, {} open rows, {}",
                figures::grouped(last.rows as f64),
                mode.title()
            ),
            figures::bytes(last.used_bytes),
            format!("log_reuse_wait_desc {}", last.wait),
            good,
        );
    }
    let data: Vec<_> = found
        .iter()
        .map(|(mode, samples)| {
            let samples: Vec<_> = samples
                .iter()
                .map(|s| json!({"rows": s.rows, "used_bytes": s.used_bytes, "total_bytes": s.total_bytes, "wait": s.wait}))
                .collect();
            json!({"recovery": mode.title(), "samples": samples})
        })
        .collect();
    lab.report.keep("log_space", json!(data));
    lab.publish(section);
}

fn chart(found: &[(Mode, Vec<Sample>)]) -> Lines {
    let used = |(mode, samples): &(Mode, Vec<Sample>)| -> LineSeries {
        let points = samples
            .iter()
            .map(|s| (s.rows as f64, s.used_bytes))
            .collect();
        line(mode.title(), Kind::Measured, mode.colour(), points)
    };
    Lines {
        title: "Log in use while the transaction grows".into(),
        x_title: "rows inserted and not committed".into(),
        y_title: "log in use".into(),
        x_unit: Unit::Number,
        y_unit: Unit::Bytes,
        x_log: false,
        y_log: false,
        series: found.iter().map(used).collect(),
        note: String::new(),
    }
}
