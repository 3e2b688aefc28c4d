//! A kill in the middle of the purge: what had been reported as committed, and what came back.
//!
//! The client deletes chunk after chunk itself, each its own transaction, and notes each acknowledgement. Chunk k of counter 0
//! takes the stamps from k x chunk on, so the stamps that survive tell which chunks did.

use super::super::context::Crash;
use super::purge;
use super::{DATABASE, DurabilityArgs, Lab, LabError};
use crate::figures;
use crate::report::{Section, Table, Verdict};
use crate::sql::connect_to;
use serde_json::json;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

struct Outcome {
    delayed: bool,
    acknowledged: u64,
    came_back: u64,
    first_answer_s: f64,
}

/// Kills the server in the middle of the purge, and compares the chunks that are there with those acknowledged.
pub fn run(lab: &mut Lab, args: &DurabilityArgs) -> Result<(), LabError> {
    if !lab.is_private() {
        lab.notice("The kill in the middle of the purge is left out: it needs a private server (leave out -S).");
        return Ok(());
    }
    let kills = if lab.quick { 2 } else { 10 };
    let mut outcomes = Vec::new();
    for number in 0..kills {
        for delayed in [false, true] {
            lab.check_interrupt()?;
            let how = if delayed { "delayed" } else { "durable" };
            lab.step(format!(
                "kill {} of {kills} in the middle of the {how} purge",
                number + 1
            ));
            outcomes.push(one(lab, args, delayed, number)?);
        }
    }
    publish(lab, args, &outcomes);
    Ok(())
}

fn one(
    lab: &mut Lab,
    args: &DurabilityArgs,
    delayed: bool,
    number: u64,
) -> Result<Outcome, LabError> {
    let mut client = lab.client(DATABASE)?;
    purge::fill(&mut client, args.volume())?;
    drop(client);
    // One row at a time, so that there are commits to lose even in small tables.
    let chunk = 1;
    let chunks = purge::boundary(args.volume()) / chunk;
    let acknowledged = AtomicU64::new(0);
    let target = lab.options_for(DATABASE);
    // Somewhere in the middle, another place each time.
    let wanted = (chunks / 4 + number * 37 % (chunks / 2).max(1)).max(1);
    thread::scope(|scope| -> Result<(), LabError> {
        let worker = scope.spawn(|| {
            let Ok(mut client) = connect_to(&target, DATABASE) else { return };
            let with = if delayed { " WITH (DELAYED_DURABILITY = ON)" } else { "" };
            for at in 0..chunks {
                let (from, to) = (at * chunk, (at + 1) * chunk);
                let done = client.execute(&format!(
                    "BEGIN TRANSACTION; DELETE PerformanceAnalysisData WHERE CounterID = 0 AND Timestamp >= {from} AND \
                     Timestamp < {to}; COMMIT TRANSACTION{with}"
                ));
                if done.is_err() {
                    return;
                }
                acknowledged.store(at + 1, Ordering::SeqCst);
            }
        });
        while acknowledged.load(Ordering::SeqCst) < wanted && !worker.is_finished() {
            thread::sleep(Duration::from_micros(200));
        }
        if let Some(server) = lab.server_mut() {
            server.kill();
        }
        Ok(())
    })?;
    let ready = lab.crash(Crash::Kill)?;
    let answer = lab.first_answer(
        DATABASE,
        "SELECT CONCAT(COUNT_BIG(*), ' ', MIN(Timestamp)) FROM PerformanceAnalysisData WHERE CounterID = 0",
    )?;
    let mut parts = answer
        .split(' ')
        .map(|part| part.parse::<u64>().unwrap_or(0));
    let (left, first) = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    let acknowledged = acknowledged.into_inner();
    let came_back = first / chunk;
    let all = purge::boundary(args.volume()) * 2;
    let what = if delayed { "delayed" } else { "durable" };
    lab.report.check(
        format!(
            "{what} purge, kill {}: what survived is a prefix in whole chunks",
            number + 1
        ),
        (all - came_back * chunk).to_string(),
        left.to_string(),
    );
    if !delayed {
        lab.report.check(
            format!(
                "durable purge, kill {}: nothing acknowledged was lost",
                number + 1
            ),
            "true",
            (came_back >= acknowledged).to_string(),
        );
    }
    Ok(Outcome {
        delayed,
        acknowledged,
        came_back,
        first_answer_s: ready.as_secs_f64(),
    })
}

fn publish(lab: &mut Lab, args: &DurabilityArgs, outcomes: &[Outcome]) {
    let mut section = Section {
        title: "A kill in the middle".into(),
        ..Section::default()
    };
    section.text(
        "The process is killed while chunks of one row are deleted and committed one by one. A durable commit that was acknowledged \
         must be there; delayed ones may be missing, but only the last ones, and never in part.",
    );
    let mut table = Table::new(
        "",
        &["Commits", "Acknowledged", "Came back", "Lost", "Restart"],
    );
    for o in outcomes {
        table.measured(vec![
            if o.delayed { "delayed" } else { "durable" }.into(),
            figures::grouped(o.acknowledged as f64),
            figures::grouped(o.came_back as f64),
            o.acknowledged.saturating_sub(o.came_back).to_string(),
            figures::seconds(o.first_answer_s),
        ]);
    }
    table.note = "A chunk whose acknowledgement was under way may have come back too.".into();
    section.table(table);
    section.text(
        "A process that is killed leaves what it has given to the operating system; a power cut takes more. The bound of what a \
         delayed commit can lose holds for both, and the simulation of the storage engine tests the power cut.",
    );
    let lost = |delayed: bool| {
        let own = outcomes.iter().filter(|o| o.delayed == delayed);
        own.map(|o| o.acknowledged.saturating_sub(o.came_back))
            .max()
            .unwrap_or(0)
    };
    lab.report.figure(
        "Durable commits lost by a kill",
        lost(false).to_string(),
        "must be 0",
        Verdict::of(lost(false) == 0),
    );
    lab.report.figure(
        "Delayed commits lost by a kill, at most",
        figures::grouped(lost(true) as f64),
        "the last ones, whole",
        Verdict::Plain,
    );
    let data: Vec<_> = outcomes
        .iter()
        .map(|o| json!({"delayed": o.delayed, "acknowledged": o.acknowledged, "came_back": o.came_back}))
        .collect();
    lab.report.keep(
        "kills",
        json!({"rows": args.volume().measurements, "kills": data}),
    );
    lab.publish(section);
}
