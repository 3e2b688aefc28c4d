//! The article's shapes: all rows of the source by one statement, by ten, and so on to one row a statement.

use super::pair::{Mode, Pair};
use super::{Link, ReplicationArgs, Variant};
use crate::experiment::{Lab, LabError};
use crate::figures::{counted, median};
use crate::sql::{Ask, quoted};
use daruma_client::client::Client;
use serde::Serialize;

/// So many statements of so many rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Shape {
    pub inserts: u64,
    pub rows: u64,
}

/// One run of a shape in one of the groups.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Run {
    /// Statements that were done when the time was up.
    pub done: u64,
    pub seconds: f64,
    /// Log blocks that were sent to the secondary, before compression and after.
    pub block_bytes: f64,
    pub sent_bytes: f64,
}

/// All runs of a shape with one variant over one link.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    pub shape: Shape,
    pub asynchronous: Vec<Run>,
    pub synchronous: Vec<Run>,
}

impl Measured {
    /// Runs in a group.
    pub fn runs(&self, mode: Mode) -> &[Run] {
        match mode {
            Mode::Asynchronous => &self.asynchronous,
            Mode::Synchronous => &self.synchronous,
        }
    }

    /// What all statements take, in milliseconds, reckoned from those that were done.
    pub fn all_ms(&self, mode: Mode) -> Option<f64> {
        let of = |run: &Run| run.seconds * 1e3 / run.done as f64 * self.shape.inserts as f64;
        median(&self.runs(mode).iter().map(of).collect::<Vec<_>>())
    }

    /// Was a run cut short?
    pub fn is_reckoned(&self) -> bool {
        let runs = || self.asynchronous.iter().chain(&self.synchronous);
        runs().any(|run| run.done < self.shape.inserts)
    }

    /// What synchronous commit costs, in per cent of what asynchronous commit takes.
    pub fn penalty_percent(&self) -> Option<f64> {
        let (a, s) = (
            self.all_ms(Mode::Asynchronous)?,
            self.all_ms(Mode::Synchronous)?,
        );
        (a > 0.0).then(|| (s - a) / a * 100.0)
    }

    /// Bytes on the wire for each byte of log.
    pub fn sent_share(&self, mode: Mode) -> Option<f64> {
        let sum = |of: fn(&Run) -> f64| self.runs(mode).iter().map(of).sum::<f64>();
        let blocks = sum(|run| run.block_bytes);
        (blocks > 0.0).then(|| sum(|run| run.sent_bytes) / blocks)
    }
}

/// One statement, ten, a hundred: as many as divide the rows. `only`: those that were asked for.
pub fn all(rows: u64, only: &[u64]) -> Vec<Shape> {
    let powers = (0..).map_while(|power| 10u64.checked_pow(power));
    let powers = powers.take_while(|inserts| *inserts <= rows);
    let wanted: Vec<u64> = match only.is_empty() {
        true => powers.collect(),
        false => only.iter().map(|inserts| (*inserts).min(rows)).collect(),
    };
    let shape = |inserts: u64| Shape {
        inserts,
        rows: rows / inserts,
    };
    wanted.into_iter().map(shape).collect()
}

/// Every shape, the groups taking turns at being first.
pub fn measure_all(
    lab: &mut Lab,
    pair: &Pair,
    args: &ReplicationArgs,
    (link, variant): (Link, Variant),
    shapes: &[Shape],
) -> Result<Vec<Measured>, LabError> {
    let mut results = Vec::new();
    let (mut wanted, mut found) = (0, 0);
    for shape in shapes {
        let mut measured = Measured {
            shape: *shape,
            asynchronous: Vec::new(),
            synchronous: Vec::new(),
        };
        for round in 0..args.loops() {
            let mut turns = Mode::ALL;
            if !round.is_multiple_of(2) {
                turns.reverse();
            }
            for mode in turns {
                lab.check_interrupt()?;
                lab.step(format!(
                    "{}, {}: {} of {} into {}, loop {} of {}",
                    link.title(),
                    variant.title(),
                    counted(shape.inserts, "insert"),
                    counted(shape.rows, "row"),
                    mode.database(),
                    round + 1,
                    args.loops()
                ));
                let run = measure(lab, pair, args, mode, *shape)?;
                wanted += run.done * shape.rows;
                found += arrived(pair, mode)?;
                match mode {
                    Mode::Asynchronous => measured.asynchronous.push(run),
                    Mode::Synchronous => measured.synchronous.push(run),
                }
            }
        }
        results.push(measured);
    }
    lab.report.check(
        format!(
            "rows on the secondary; {}, {}",
            link.title(),
            variant.title()
        ),
        wanted.to_string(),
        found.to_string(),
    );
    Ok(results)
}

/// Rows of the destination that readers of the secondary see, each with what its source has.
fn arrived(pair: &Pair, mode: Mode) -> Result<u64, LabError> {
    let mut client = pair.reader(mode)?;
    let same = client.number(
        "SELECT COUNT_BIG(*) FROM dbo.destination AS d JOIN dbo.source AS s \
         ON s.id = d.id AND s.name = d.name AND s.street = d.street AND s.note = d.note",
    )?;
    Ok(same.unwrap_or(0.0) as u64)
}

fn measure(
    lab: &Lab,
    pair: &Pair,
    args: &ReplicationArgs,
    mode: Mode,
    shape: Shape,
) -> Result<Run, LabError> {
    let name = mode.database();
    let mut client = lab.client(name)?;
    client.execute("TRUNCATE TABLE dbo.destination")?;
    // The log of the runs before is of no more use.
    client.execute(&format!("BACKUP LOG {name} TO DISK = 'NUL'; CHECKPOINT"))?;
    pair.wait_for_rows(lab, mode, "destination", 0)?;
    let before = shipped(&mut client, mode)?;
    let limit_ms = i32::try_from(args.limit().as_millis()).unwrap_or(i32::MAX);
    let told = client.table(&format!(
        "EXEC dbo.RunInserts {}, {}, {limit_ms}",
        shape.inserts, shape.rows
    ))?;
    let number = |at: usize| -> Option<f64> { told.first()?.get(at)?.parse().ok() };
    let (Some(done), Some(micros)) = (number(0), number(1)) else {
        return Err(LabError::Unexpected(format!("RunInserts gives {told:?}")));
    };
    let done = done as u64;
    pair.wait_for_rows(lab, mode, "destination", done * shape.rows)?;
    let after = shipped(&mut client, mode)?;
    Ok(Run {
        done,
        seconds: micros / 1e6,
        block_bytes: after.0 - before.0,
        sent_bytes: after.1 - before.1,
    })
}

/// Log blocks that were sent, before compression and after.
fn shipped(client: &mut Client, mode: Mode) -> Result<(f64, f64), LabError> {
    let rows = client.table(&format!(
        "SELECT log_block_bytes, log_block_sent_bytes FROM sys.dm_hadr_database_replica_states \
         WHERE is_local = 0 AND database_id = DB_ID({})",
        quoted(mode.database())
    ))?;
    let number = |at: usize| -> Option<f64> { rows.first()?.get(at)?.parse().ok() };
    match (number(0), number(1)) {
        (Some(blocks), Some(sent)) => Ok((blocks, sent)),
        _ => Err(LabError::Unexpected(format!(
            "the view of replicas gives {rows:?}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(done: u64, seconds: f64, block_bytes: f64, sent_bytes: f64) -> Run {
        Run {
            done,
            seconds,
            block_bytes,
            sent_bytes,
        }
    }

    #[test]
    fn there_are_seven_shapes_of_a_million_rows() {
        let shapes = all(1_000_000, &[]);
        assert_eq!(shapes.len(), 7);
        assert!(shapes.iter().all(|s| s.inserts * s.rows == 1_000_000));
        let only = all(4_000, &[40, 1_000_000]);
        let pairs: Vec<_> = only.iter().map(|s| (s.inserts, s.rows)).collect();
        assert_eq!(pairs, [(40, 100), (4_000, 1)]);
    }

    #[test]
    fn what_was_cut_short_is_reckoned() {
        let measured = Measured {
            shape: Shape {
                inserts: 100,
                rows: 10,
            },
            asynchronous: vec![run(100, 2.0, 1000.0, 250.0)],
            synchronous: vec![run(50, 1.5, 1000.0, 1000.0)],
        };
        assert_eq!(measured.all_ms(Mode::Asynchronous), Some(2000.0));
        assert_eq!(measured.all_ms(Mode::Synchronous), Some(3000.0));
        assert_eq!(measured.penalty_percent(), Some(50.0));
        assert_eq!(measured.sent_share(Mode::Asynchronous), Some(0.25));
        assert!(measured.is_reckoned());
    }
}
