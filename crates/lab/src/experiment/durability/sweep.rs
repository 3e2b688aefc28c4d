//! Chunk size times sessions: where delayed durability pays.

use super::{DATABASE, DurabilityArgs, Lab, LabError};
use crate::figures::{self, ratio};
use crate::report::chart::{Kind, LineSeries, Lines, Unit};
use crate::report::{Section, Table};
use crate::sql::connect_to;
use serde_json::json;
use std::thread;
use std::time::Instant;

/// A gain worth the name.
const GAIN: f64 = 1.2;

struct Point {
    chunk: u64,
    sessions: u64,
    durable: Option<f64>,
    delayed: Option<f64>,
}

impl Point {
    fn times_faster(&self) -> Option<f64> {
        ratio(self.delayed, self.durable)
    }
}

/// Purges in chunks of several sizes from several sessions, delayed and not.
pub fn run(lab: &mut Lab, args: &DurabilityArgs) -> Result<(), LabError> {
    let (chunks, sessions): (&[u64], &[u64]) = if args.options.quick {
        (&[1, 100], &[1, 8])
    } else {
        (&[1, 10, 100, 1000, 10_000], &[1, 4, 16, 64])
    };
    let transactions_max = if args.options.quick { 300 } else { 3000 };
    let mut points = Vec::new();
    for sessions in sessions {
        for chunk in chunks {
            lab.check_interrupt()?;
            lab.step(format!("sweep: chunks of {chunk}, {sessions} sessions"));
            // Enough transactions to count, but no more rows than a moment's work.
            let transactions =
                (400_000 / (chunk * sessions)).clamp(5, transactions_max / sessions + 5);
            let durable = one(lab, *chunk, *sessions, transactions, false)?;
            let delayed = one(lab, *chunk, *sessions, transactions, true)?;
            points.push(Point {
                chunk: *chunk,
                sessions: *sessions,
                durable: Some(durable),
                delayed: Some(delayed),
            });
        }
    }
    publish(lab, &points);
    Ok(())
}

/// Rows deleted per second when each session deletes its own rows, chunk by chunk.
fn one(
    lab: &Lab,
    chunk: u64,
    sessions: u64,
    transactions: u64,
    delayed: bool,
) -> Result<f64, LabError> {
    let mut client = lab.client(DATABASE)?;
    client.execute("DROP TABLE IF EXISTS Sweep")?;
    client.execute(
        "CREATE TABLE Sweep (Session int NOT NULL, N int NOT NULL, Note char(60) NOT NULL, PRIMARY KEY (Session, N))",
    )?;
    let rows = chunk * transactions;
    let digits = "(VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9))";
    let power = "a.d + 10 * b.d + 100 * c.d + 1000 * e.d + 10000 * f.d + 100000 * g.d";
    client.execute(&format!(
        "INSERT Sweep SELECT 0, {power}, 'x' FROM {digits} AS a (d), {digits} AS b (d), {digits} AS c (d), {digits} AS e (d), \
         {digits} AS f (d), {digits} AS g (d) WHERE {power} < {rows}"
    ))?;
    for session in 1..sessions {
        client.execute(&format!(
            "INSERT Sweep SELECT {session}, N, Note FROM Sweep WHERE Session = 0"
        ))?;
    }
    client.execute("CHECKPOINT")?;
    let with = if delayed {
        " WITH (DELAYED_DURABILITY = ON)"
    } else {
        ""
    };
    let mut clients = Vec::new();
    for _ in 0..sessions {
        clients.push(connect_to(&lab.options_for(DATABASE), DATABASE)?);
    }
    let begun = Instant::now();
    thread::scope(|scope| {
        let workers: Vec<_> = clients
            .into_iter()
            .zip(0..sessions)
            .map(|(mut client, session)| {
                scope.spawn(move || {
                    client.execute(&format!(
                        "SET NOCOUNT ON; DECLARE @at int = 0; WHILE @at < {rows} BEGIN BEGIN TRANSACTION; \
                         DELETE Sweep WHERE Session = {session} AND N >= @at AND N < @at + {chunk}; \
                         COMMIT TRANSACTION{with}; SET @at += {chunk}; END"
                    ))
                })
            })
            .collect();
        workers
            .into_iter()
            .try_for_each(|worker| match worker.join() {
                Ok(done) => Ok(done?),
                Err(_) => Err(LabError::Unexpected("a session of the sweep failed".into())),
            })
    })?;
    let seconds = begun.elapsed().as_secs_f64();
    Ok((rows * sessions) as f64 / seconds)
}

fn publish(lab: &mut Lab, points: &[Point]) {
    let mut section = Section {
        title: "Where it pays: chunk size and sessions".into(),
        ..Section::default()
    };
    section.text(
        "Each session deletes its own rows in chunks, every chunk a transaction. The line shows how many times more rows per \
         second go when commits are delayed.",
    );
    let mut table = Table::new(
        "",
        &[
            "Sessions",
            "Rows by transaction",
            "Durable, rows/s",
            "Delayed, rows/s",
            "Times faster",
        ],
    );
    for p in points {
        table.measured(vec![
            p.sessions.to_string(),
            figures::grouped(p.chunk as f64),
            figures::optional(p.durable),
            figures::optional(p.delayed),
            figures::optional(p.times_faster()),
        ]);
    }
    section.table(table);
    let mut sessions: Vec<u64> = points.iter().map(|p| p.sessions).collect();
    sessions.dedup();
    let series = sessions.iter().enumerate().map(|(colour, sessions)| {
        let own = points.iter().filter(|p| p.sessions == *sessions);
        LineSeries {
            name: match sessions {
                1 => "1 session".into(),
                many => format!("{many} sessions"),
            },
            kind: Kind::Measured,
            colour,
            points: own
                .filter_map(|p| Some((p.chunk as f64, p.times_faster()?)))
                .collect(),
        }
    });
    section.chart(Lines {
        title: "Delayed / durable throughput".into(),
        x_title: "rows deleted by one transaction".into(),
        y_title: "times faster".into(),
        x_unit: Unit::Number,
        y_unit: Unit::Times,
        x_log: true,
        y_log: true,
        series: series.collect(),
        note: "Both axes logarithmic. 1 means that it makes no difference.".into(),
    });
    section.text(advice(points));
    let data: Vec<_> = points
        .iter()
        .map(|p| json!({"chunk": p.chunk, "sessions": p.sessions, "durable_rows_s": p.durable, "delayed_rows_s": p.delayed}))
        .collect();
    lab.report.keep("sweep", json!(data));
    lab.publish(section);
}

/// What a DBA takes home, from the figures.
fn advice(points: &[Point]) -> String {
    let Some(best) = points
        .iter()
        .filter(|p| p.times_faster().is_some())
        .max_by(|a, b| {
            a.times_faster()
                .unwrap_or(0.0)
                .total_cmp(&b.times_faster().unwrap_or(0.0))
        })
    else {
        return String::new();
    };
    let mut sessions: Vec<u64> = points.iter().map(|p| p.sessions).collect();
    sessions.dedup();
    let gains: Vec<String> = sessions.iter().map(|s| gain(points, *s)).collect();
    let slower = slower(points);
    format!(
        "It pays most with {} in a transaction and {}: {} times faster. A gain of 20 % or more: {}.{slower} Larger chunks \
         amortise the wait for the log by themselves: try those first, they cost no durability.",
        figures::counted(best.chunk, "row"),
        figures::counted(best.sessions, "session"),
        figures::optional(best.times_faster()),
        gains.join("; ")
    )
}

/// For so many sessions: up to which chunk it pays.
fn gain(points: &[Point], sessions: u64) -> String {
    let own = points.iter().filter(|p| p.sessions == sessions);
    let pays = own.filter(|p| p.times_faster().is_some_and(|t| t >= GAIN));
    let with = figures::counted(sessions, "session");
    match pays.map(|p| p.chunk).max() {
        None => format!("with {with} nowhere"),
        Some(chunk) => format!("with {with} up to {}", figures::counted(chunk, "row")),
    }
}

/// Where delayed commits were slower by as much.
fn slower(points: &[Point]) -> String {
    let list: Vec<String> = points
        .iter()
        .filter_map(|p| Some((p, p.times_faster()?)))
        .filter(|(_, times)| *times <= 1.0 / GAIN)
        .map(|(p, times)| {
            format!(
                "{} and {} ({} times)",
                figures::counted(p.chunk, "row"),
                figures::counted(p.sessions, "session"),
                figures::number(times)
            )
        })
        .collect();
    match list.is_empty() {
        true => String::new(),
        false => format!(" It was slower with {}.", list.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(chunk: u64, sessions: u64, durable: f64, delayed: f64) -> Point {
        Point {
            chunk,
            sessions,
            durable: Some(durable),
            delayed: Some(delayed),
        }
    }

    #[test]
    fn the_advice_follows_the_figures() {
        let text = advice(&[
            point(1, 1, 100.0, 900.0),
            point(100, 1, 1000.0, 1300.0),
            point(1000, 1, 5000.0, 5100.0),
        ]);
        assert!(
            text.contains("most with 1 row in a transaction and 1 session:")
                && text.contains("with 1 session up to 100 rows"),
            "{text}"
        );
        let text = advice(&[point(1, 1, 100.0, 101.0)]);
        assert!(text.contains("with 1 session nowhere"), "{text}");
    }

    #[test]
    fn the_advice_holds_for_every_number_of_sessions() {
        let text = advice(&[
            point(1, 1, 100.0, 900.0),
            point(100, 1, 1000.0, 1300.0),
            point(1, 8, 1000.0, 1300.0),
            point(100, 8, 345_000.0, 208_000.0),
        ]);
        assert!(
            text.contains("with 1 session up to 100 rows; with 8 sessions up to 1 row."),
            "{text}"
        );
        assert!(
            text.contains("slower with 100 rows and 8 sessions (0.603 times)"),
            "{text}"
        );
    }
}
