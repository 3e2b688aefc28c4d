//! Single rows by many sessions: commits that wait for the secondary share its syncs.

use super::pair::{Mode, Pair};
use crate::experiment::{Lab, LabError};
use crate::figures::{self, median};
use crate::report::chart::{BarSeries, Bars, Kind, Unit};
use crate::report::{Section, Table, Verdict};
use crate::sql::{Ask, connect_to};
use daruma_client::client::{ClientError, Options};
use serde_json::json;
use std::thread;

/// Sessions at a time; the last number is the one that is judged.
const SESSIONS: [usize; 3] = [1, 4, 16];
/// What the project promises for it.
const TARGET_PERCENT: f64 = 10.0;

/// Rows a second in each group, by how many sessions insert them.
pub fn run(lab: &mut Lab, pair: &Pair) -> Result<(), LabError> {
    let (loops, stretch_ms) = if lab.quick { (1, 1_000) } else { (3, 10_000) };
    let mut rates = Vec::new();
    for sessions in SESSIONS {
        let mut of = [Vec::new(), Vec::new()];
        for round in 0..loops {
            let mut turns = [0, 1];
            if round % 2 == 1 {
                turns.reverse();
            }
            for at in turns {
                lab.check_interrupt()?;
                let mode = Mode::ALL[at];
                lab.step(format!(
                    "{} with single rows into {}, loop {} of {loops}",
                    figures::counted(sessions as u64, "session"),
                    mode.database(),
                    round + 1
                ));
                of[at].push(rate(
                    &lab.options_for(mode.database()),
                    sessions,
                    stretch_ms,
                )?);
            }
        }
        rates.push((sessions, of));
    }
    for mode in Mode::ALL {
        let written = lab
            .client(mode.database())?
            .number("SELECT COUNT_BIG(*) FROM dbo.tracer")?;
        // Nobody writes any more, so they become equal, or this is never left.
        pair.wait_for_rows(lab, mode, "tracer", written.unwrap_or(0.0) as u64)?;
    }
    publish(lab, loops, &rates);
    Ok(())
}

/// Rows that so many sessions insert together in a second.
fn rate(target: &Options, sessions: usize, stretch_ms: u32) -> Result<f64, LabError> {
    let one = || -> Result<f64, ClientError> {
        let mut client = connect_to(target, &target.database)?;
        let done = client.number(&format!("EXEC dbo.RunSingles {stretch_ms}"))?;
        Ok(done.unwrap_or(0.0))
    };
    let rows = thread::scope(|scope| {
        let running: Vec<_> = (0..sessions).map(|_| scope.spawn(one)).collect();
        let mut rows = 0.0;
        for session in running {
            rows += session
                .join()
                .map_err(|_| LabError::Unexpected("a session failed".into()))??;
        }
        Ok::<_, LabError>(rows)
    })?;
    Ok(rows * 1e3 / f64::from(stretch_ms))
}

fn publish(lab: &mut Lab, loops: usize, rates: &[(usize, [Vec<f64>; 2])]) {
    let mut section = Section {
        title: "Single rows by several sessions".into(),
        ..Section::default()
    };
    section.text(format!(
        "Each session inserts one row after the other for as long, each row a transaction; loopback, automatic compression. {}.",
        figures::medians(loops)
    ));
    let mut table = Table::new(
        "",
        &["Sessions", "Async rows/s", "Sync rows/s", "Penalty %"],
    );
    let (mut names, mut percents) = (Vec::new(), Vec::new());
    for (sessions, [asynchronous, synchronous]) in rates {
        let (a, s) = (median(asynchronous), median(synchronous));
        let percent = match (a, s) {
            // By the time that a row takes, as in the tables above.
            (Some(a), Some(s)) if s > 0.0 => Some((a / s - 1.0) * 100.0),
            _ => None,
        };
        table.measured(vec![
            sessions.to_string(),
            figures::optional(a),
            figures::optional(s),
            percent.map_or_else(|| "-".into(), |p| format!("{p:.0}%")),
        ]);
        names.push(figures::counted(*sessions as u64, "session"));
        percents.push(percent);
    }
    section.table(table);
    if let Some(percent) = percents.last().copied().flatten() {
        let sessions = names.last().cloned().unwrap_or_default();
        lab.report.figure(
            format!("Penalty: single rows by {sessions}, loopback"),
            format!("{percent:.0} %"),
            format!("target at most {TARGET_PERCENT:.0} %"),
            match lab.quick {
                // A second is too short to be judged.
                true => Verdict::Plain,
                false => Verdict::of(percent <= TARGET_PERCENT),
            },
        );
    }
    section.chart(Bars {
        title: "Penalty of synchronous commit for single rows".into(),
        unit: Unit::Percent,
        log: false,
        names,
        series: vec![BarSeries::new("penalty", Kind::Measured, 0, percents)],
        mark: Some(("target".into(), TARGET_PERCENT)),
        note: "Less is better.".into(),
    });
    let data: Vec<_> = rates
        .iter()
        .map(|(sessions, [a, s])| json!({"sessions": sessions, "asynchronous_per_s": a, "synchronous_per_s": s}))
        .collect();
    lab.report.keep("sessions", json!(data));
    lab.publish(section);
}
