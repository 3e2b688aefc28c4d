//! Recovery time against the size of the transaction that was open.

use super::super::context::Crash;
use super::super::recovery_log::{self, RecoveryTimes};
use super::{Kind, ROWS_PUBLISHED};
use super::{Lab, LabError, Mode, RecoveryArgs, check_nothing_left, fresh, insert_statement, line};
use crate::figures;
use crate::report::chart::{Lines, Unit};
use crate::report::{Section, Table, Verdict};
use serde_json::json;
use std::time::Instant;

/// Published phases with the 20 million rows, recovery off: analysis, redo and undo in ms, as its text has them.
const PUBLISHED_OFF_MS: (f64, f64, f64) = (9.0, 156_000.0, 209_000.0);
/// As the study's table has it; its text says 364.
const PUBLISHED_OFF_S: f64 = 365.0;
const PUBLISHED_ON_S: f64 = 1.0;

struct Measured {
    rows: u64,
    mode: Mode,
    insert_s: f64,
    times: Option<RecoveryTimes>,
    /// From the start of the process to the first answer of the database.
    answer_s: f64,
}

pub fn run(lab: &mut Lab, args: &RecoveryArgs, modes: &[Mode]) -> Result<(), LabError> {
    if !lab.is_private() {
        lab.notice("Recovery after a kill is left out: killing a server needs a private one (leave out -S).");
        return Ok(());
    }
    let mut found = Vec::new();
    for rows in sizes(args.rows()) {
        for mode in modes {
            found.push(one(lab, *mode, rows)?);
        }
    }
    publish(lab, &found);
    Ok(())
}

/// Powers of ten times two thousand, and the largest.
fn sizes(rows_max: u64) -> Vec<u64> {
    let mut sizes: Vec<u64> = (0..10)
        .map(|power| 2000 * 10u64.pow(power))
        .take_while(|size| *size < rows_max)
        .collect();
    sizes.push(rows_max);
    sizes
}

fn one(lab: &mut Lab, mode: Mode, rows: u64) -> Result<Measured, LabError> {
    lab.check_interrupt()?;
    lab.step(format!(
        "recovery {}: {} rows inserted and not committed, then kill -9",
        mode.title(),
        figures::grouped(rows as f64)
    ));
    let mut client = fresh(lab, mode, false)?;
    client.execute("BEGIN TRANSACTION")?;
    let begun = Instant::now();
    client.execute(&insert_statement(rows))?;
    let insert_s = begun.elapsed().as_secs_f64();
    // Its log has to be hard, or there would be nothing to recover: a commit elsewhere in the database sees to that.
    lab.client(mode.database())?
        .execute("UPDATE kept SET amount = amount WHERE k = 1")?;
    // The end of the killed process is the system's business: its memory is given back, its writes under way end.
    let ready = lab.crash(Crash::Kill)?;
    let begun = Instant::now();
    lab.first_answer(mode.database(), "SELECT COUNT(*) FROM kept")?;
    let answer_s = (ready + begun.elapsed()).as_secs_f64();
    let mut client = lab.client("master")?;
    let times = recovery_log::last(&mut client, mode.database())?;
    check_nothing_left(lab, mode, &format!("after a kill with {rows} rows open"))?;
    lab.drop_database(mode.database())?;
    Ok(Measured {
        rows,
        mode,
        insert_s,
        times,
        answer_s,
    })
}

fn publish(lab: &mut Lab, found: &[Measured]) {
    let mut section = Section {
        title: "Recovery after kill -9 with a transaction open".into(),
        ..Section::default()
    };
    section.text(
        "Rows are inserted by one statement and not committed; the server process is killed and started again. The phases \
         are those of the error log; the last column counts from the start of the process until the database answered a query.",
    );
    section.table(table(found));
    let series = |value: fn(&Measured) -> Option<f64>, mode: Mode| -> Vec<(f64, f64)> {
        let own = found.iter().filter(|m| m.mode == mode);
        own.filter_map(|m| Some((m.rows as f64, value(m)?.max(1e-3))))
            .collect()
    };
    let published = |name: &str, mode: Mode, value: f64| {
        line(
            name,
            Kind::Published,
            mode.colour(),
            vec![(ROWS_PUBLISHED as f64, value)],
        )
    };
    let answer = |m: &Measured| Some(m.answer_s);
    section.chart(lines(
        "From the start of the process to the first answer",
        vec![
            line(
                "off",
                Kind::Measured,
                Mode::Classic.colour(),
                series(answer, Mode::Classic),
            ),
            line(
                "on",
                Kind::Measured,
                Mode::Accelerated.colour(),
                series(answer, Mode::Accelerated),
            ),
            published("off, published recovery", Mode::Classic, PUBLISHED_OFF_S),
            published("on, published recovery", Mode::Accelerated, PUBLISHED_ON_S),
        ],
    ));
    let undo = |m: &Measured| m.times.map(|t| t.undo_ms / 1e3);
    section.chart(lines(
        "Undo phase",
        vec![
            line(
                "off",
                Kind::Measured,
                Mode::Classic.colour(),
                series(undo, Mode::Classic),
            ),
            line(
                "on",
                Kind::Measured,
                Mode::Accelerated.colour(),
                series(undo, Mode::Accelerated),
            ),
            published("off, published", Mode::Classic, PUBLISHED_OFF_MS.2 / 1e3),
        ],
    ));
    figures_of(lab, found);
    let data: Vec<_> = found
        .iter()
        .map(|m| json!({"rows": m.rows, "recovery": m.mode.title(), "insert_s": m.insert_s, "times": m.times, "answer_s": m.answer_s}))
        .collect();
    lab.report.keep("crash", json!(data));
    lab.publish(section);
}

fn lines(title: &str, series: Vec<crate::report::chart::LineSeries>) -> Lines {
    Lines {
        title: title.into(),
        x_title: "rows in the open transaction".into(),
        y_title: "seconds".into(),
        x_unit: Unit::Number,
        y_unit: Unit::Seconds,
        x_log: true,
        y_log: true,
        series,
        note: "Both axes logarithmic. Values under a millisecond are drawn at a millisecond."
            .into(),
    }
}

fn table(found: &[Measured]) -> Table {
    let mut table = Table::new(
        "",
        &[
            "Rows",
            "Recovery",
            "Insert",
            "Analysis (ms)",
            "Redo (ms)",
            "Undo (ms)",
            "To first answer",
        ],
    );
    for m in found {
        let cell =
            |value: fn(&RecoveryTimes) -> f64| figures::optional(m.times.as_ref().map(value));
        table.measured(vec![
            figures::grouped(m.rows as f64),
            m.mode.title().into(),
            figures::seconds(m.insert_s),
            cell(|t| t.analysis_ms),
            cell(|t| t.redo_ms),
            cell(|t| t.undo_ms),
            figures::seconds(m.answer_s),
        ]);
    }
    let rows = figures::grouped(ROWS_PUBLISHED as f64);
    let (analysis, redo, undo) = PUBLISHED_OFF_MS;
    table.published(&[
        &rows,
        "off",
        "-",
        &figures::number(analysis),
        &figures::number(redo),
        &figures::number(undo),
        &format!("{PUBLISHED_OFF_S} s (recovery)"),
    ]);
    table.published(&[
        &rows,
        "on",
        "-",
        "-",
        "-",
        "-",
        &format!("{PUBLISHED_ON_S} s (recovery)"),
    ]);
    table
}

fn figures_of(lab: &mut Lab, found: &[Measured]) {
    let largest = |mode: Mode| {
        found
            .iter()
            .filter(|m| m.mode == mode)
            .max_by_key(|m| m.rows)
    };
    let Some(off) = largest(Mode::Classic) else {
        return;
    };
    let rows = figures::grouped(off.rows as f64);
    let on = largest(Mode::Accelerated);
    lab.report.figure(
        format!("Restart with {rows} open rows, recovery off"),
        figures::seconds(off.answer_s),
        "published 365 s with 20,000,000 rows",
        Verdict::Plain,
    );
    let Some(on) = on else {
        return;
    };
    lab.report.figure(
        format!("Restart with {rows} open rows, recovery on"),
        figures::seconds(on.answer_s),
        "published 1 s; target under 1 s for any size",
        Verdict::of(on.answer_s < 1.0),
    );
    let undo: Vec<f64> = found
        .iter()
        .filter(|m| m.mode == Mode::Accelerated)
        .filter_map(|m| Some(m.times?.undo_ms))
        .collect();
    if let Some((low, high)) = figures::range(&undo) {
        lab.report.figure(
            "Undo phase over all sizes, recovery on",
            format!("{} to {} ms", figures::number(low), figures::number(high)),
            "target: flat",
            Verdict::of(high - low <= 10.0),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_end_with_the_largest() {
        assert_eq!(sizes(100_000), [2000, 20_000, 100_000]);
        assert_eq!(sizes(2_000_000), [2000, 20_000, 200_000, 2_000_000]);
        assert_eq!(sizes(1500), [1500]);
    }
}
