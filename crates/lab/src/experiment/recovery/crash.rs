//! Recovery time against the size of the transaction that was open.

use super::super::context::Crash;
use super::super::recovery_log::{self, RecoveryTimes};
use super::{
    Client, Lab, LabError, Mode, RecoveryArgs, check_nothing_left, fresh, insert_statement, line,
};
use super::{Kind, ROWS_PUBLISHED};
use crate::figures;
use crate::report::chart::{Lines, Unit};
use crate::report::{Section, Table, Verdict};
use crate::sql::Ask;
use serde_json::json;
use std::time::Instant;

/// Published phases with the 20 million rows, accelerated recovery off: analysis, redo and undo in ms, as its text has them.
const PUBLISHED_OFF_MS: (f64, f64, f64) = (9.0, 156_000.0, 209_000.0);
/// As the study's table has it; its text says 364.
const PUBLISHED_OFF_S: f64 = 365.0;
const PUBLISHED_ON_S: f64 = 1.0;
/// Updates have versions outside of their rows, which inserts have not: the study has none, and so many are enough.
const UPDATED_ROWS_MAX: u64 = 2_000_000;

/// What the lost transaction had done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Inserts,
    Updates,
}

struct Measured {
    work: Work,
    rows: u64,
    mode: Mode,
    statement_s: f64,
    times: Option<RecoveryTimes>,
    /// From the start of the process to the first answer of the database.
    answer_s: f64,
}

/// Crashes the server with an open transaction of growing size, and times the restart and the first answer.
pub fn run(lab: &mut Lab, args: &RecoveryArgs, modes: &[Mode]) -> Result<(), LabError> {
    if !lab.is_private() {
        lab.notice("Recovery after a kill is left out: killing a server needs a private one (leave out -S).");
        return Ok(());
    }
    for (work, rows_max) in [
        (Work::Inserts, args.rows()),
        (Work::Updates, args.rows().min(UPDATED_ROWS_MAX)),
    ] {
        let mut found = Vec::new();
        for rows in sizes(rows_max) {
            for mode in modes {
                found.push(one(lab, *mode, work, rows)?);
            }
        }
        publish(lab, work, &found);
    }
    Ok(())
}

impl Work {
    const fn title(self) -> &'static str {
        match self {
            Work::Inserts => "inserted",
            Work::Updates => "updated",
        }
    }

    /// What is committed before.
    fn prepare(self, client: &mut Client, rows: u64) -> Result<(), LabError> {
        if self == Work::Updates {
            client.execute("CREATE TABLE u (k int NOT NULL PRIMARY KEY, v int NOT NULL, filler char(100) NOT NULL)")?;
            client.execute(&format!(
                "INSERT u SELECT TOP ({rows}) 10000 * a.n + b.n, 0, 'old' FROM n AS a, n AS b"
            ))?;
            client.execute("CHECKPOINT")?;
        }
        Ok(())
    }

    fn statement(self, rows: u64) -> String {
        match self {
            Work::Inserts => insert_statement(rows),
            Work::Updates => "UPDATE u SET v = v + 1, filler = REPLICATE('new', 33)".into(),
        }
    }

    fn check(self, lab: &mut Lab, mode: Mode, rows: u64) -> Result<(), LabError> {
        let when = format!("after a kill with {rows} rows {}", self.title());
        check_nothing_left(lab, mode, &when)?;
        if self == Work::Updates {
            let sums = lab.client(mode.database())?.text(
                "SELECT CONCAT(COUNT_BIG(*), ' / ', SUM(v), ' / ', MIN(RTRIM(filler)), ' / ', MAX(RTRIM(filler))) FROM u",
            )?;
            lab.report.check(
                format!("accelerated recovery {}: rows {when}", mode.title()),
                format!("{rows} / 0 / old / old"),
                sums,
            );
        }
        Ok(())
    }
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

fn one(lab: &mut Lab, mode: Mode, work: Work, rows: u64) -> Result<Measured, LabError> {
    lab.check_interrupt()?;
    lab.step(format!(
        "accelerated recovery {}: {} rows {} and not committed, then kill -9",
        mode.title(),
        figures::grouped(rows as f64),
        work.title()
    ));
    let mut client = fresh(lab, mode, false)?;
    work.prepare(&mut client, rows)?;
    client.execute("BEGIN TRANSACTION")?;
    let begun = Instant::now();
    client.execute(&work.statement(rows))?;
    let statement_s = begun.elapsed().as_secs_f64();
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
    work.check(lab, mode, rows)?;
    lab.drop_database(mode.database())?;
    Ok(Measured {
        work,
        rows,
        mode,
        statement_s,
        times,
        answer_s,
    })
}

fn publish(lab: &mut Lab, work: Work, found: &[Measured]) {
    let title = work.title();
    let is_published = work == Work::Inserts;
    let mut section = Section {
        title: format!("Recovery after kill -9 with rows {title} and not committed"),
        ..Section::default()
    };
    section.text(format!(
        "Rows are {title} by one statement and not committed; the server process is killed and started again. The phases \
         are those of the error log; the last column counts from the start of the process until the database answered a query.",
    ));
    section.table(table(work, found));
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
    let both = |value: fn(&Measured) -> Option<f64>| {
        let of = |mode: Mode| {
            line(
                mode.title(),
                Kind::Measured,
                mode.colour(),
                series(value, mode),
            )
        };
        vec![of(Mode::Classic), of(Mode::Accelerated)]
    };
    let mut answers = both(answer);
    let mut undos = both(|m| m.times.map(|t| t.undo_ms / 1e3));
    if is_published {
        answers.extend([
            published("off, published recovery", Mode::Classic, PUBLISHED_OFF_S),
            published("on, published recovery", Mode::Accelerated, PUBLISHED_ON_S),
        ]);
        undos.push(published(
            "off, published",
            Mode::Classic,
            PUBLISHED_OFF_MS.2 / 1e3,
        ));
    }
    section.chart(lines(
        "From the start of the process to the first answer",
        answers,
    ));
    section.chart(lines("Undo phase", undos));
    figures_of(lab, work, found);
    let data: Vec<_> = found
        .iter()
        .map(|m| json!({"rows": m.rows, "recovery": m.mode.title(), "work": m.work.title(), "statement_s": m.statement_s, "times": m.times, "answer_s": m.answer_s}))
        .collect();
    lab.report.keep(
        match work {
            Work::Inserts => "crash",
            Work::Updates => "crash_updates",
        },
        json!(data),
    );
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

fn table(work: Work, found: &[Measured]) -> Table {
    let mut table = Table::new(
        "",
        &[
            "Rows",
            "Recovery",
            "Statement",
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
            figures::seconds(m.statement_s),
            cell(|t| t.analysis_ms),
            cell(|t| t.redo_ms),
            cell(|t| t.undo_ms),
            figures::seconds(m.answer_s),
        ]);
    }
    if work == Work::Updates {
        return table;
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

fn figures_of(lab: &mut Lab, work: Work, found: &[Measured]) {
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
        format!(
            "Restart with {rows} rows {}, accelerated recovery off",
            work.title()
        ),
        figures::seconds(off.answer_s),
        match work {
            Work::Inserts => "published 365 s with 20,000,000 rows",
            Work::Updates => "not published",
        },
        Verdict::Plain,
    );
    let Some(on) = on else {
        return;
    };
    lab.report.figure(
        format!(
            "Restart with {rows} rows {}, accelerated recovery on",
            work.title()
        ),
        figures::seconds(on.answer_s),
        match work {
            Work::Inserts => "published 1 s; target under 1 s for any size",
            Work::Updates => "target under 1 s for any size",
        },
        Verdict::of(on.answer_s < 1.0),
    );
    let undo: Vec<f64> = found
        .iter()
        .filter(|m| m.mode == Mode::Accelerated)
        .filter_map(|m| Some(m.times?.undo_ms))
        .collect();
    if let Some((low, high)) = figures::range(&undo) {
        lab.report.figure(
            format!("Undo phase over all sizes {}, recovery on", work.title()),
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
