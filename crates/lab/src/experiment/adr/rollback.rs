//! Fifty pairs in one transaction, and ROLLBACK.

use super::super::{Lab, LabError, probe};
use super::databases::{Set, check_sums};
use super::timing::pair;
use super::{AdrArgs, published};
use crate::figures::{self, median, ratio};
use crate::report::chart::{BarSeries, Bars, Kind, Unit};
use crate::report::{Section, Table, Verdict};
use crate::sql::Ask;
use serde_json::json;

/// What the project promises for a rollback of any size.
const ROLLBACK_TARGET_S: f64 = 0.010;
const RATIO_TARGET: f64 = 1.05;

/// Times 50 pairs of updates in one transaction and its ROLLBACK.
pub fn run(lab: &mut Lab, args: &AdrArgs, set: &Set) -> Result<(), LabError> {
    let mut work = vec![Vec::new(); set.databases.len()];
    let mut back = vec![Vec::new(); set.databases.len()];
    // The databases take turns, so that what the machine does besides hits all alike.
    for round in 1..=args.rollback_runs() {
        for (at, database) in set.databases.iter().enumerate() {
            lab.check_interrupt()?;
            lab.step(format!(
                "{} pairs and ROLLBACK in {}, run {round} of {}",
                args.pairs(),
                database.name,
                args.rollback_runs()
            ));
            let (worked, rolled) = one(lab, args, database.name)?;
            work[at].push(worked);
            back[at].push(rolled);
        }
    }
    check_sums(lab, set, "after the rollbacks")?;
    let work: Vec<_> = work.iter().map(|w| median(w)).collect();
    let back: Vec<_> = back.iter().map(|b| median(b)).collect();
    publish(lab, args, set, &work, &back);
    Ok(())
}

fn one(lab: &Lab, args: &AdrArgs, database: &str) -> Result<(f64, f64), LabError> {
    let mut client = lab.client("master")?;
    client.execute("BEGIN TRANSACTION")?;
    let text = pair(database);
    let mut worked = 0.0;
    for _ in 0..args.pairs() {
        worked += client.timed(&text)?.as_secs_f64();
        lab.check_interrupt()?;
    }
    let rolled = client.timed("ROLLBACK")?.as_secs_f64();
    // What runs next must not share the processors with the background revert of this one.
    probe::until_reverted(&mut client, database)?;
    Ok((worked, rolled))
}

fn publish(lab: &mut Lab, args: &AdrArgs, set: &Set, work: &[Option<f64>], back: &[Option<f64>]) {
    let mut section = Section {
        title: "Rollback of a large transaction".into(),
        ..Section::default()
    };
    section.text(format!(
        "{} pairs in one transaction: {} row changes. {}.",
        args.pairs(),
        figures::grouped(args.pairs() as f64 * 2.0 * 121_317.0),
        figures::medians(args.rollback_runs())
    ));
    let mut table = Table::new("", &["Database", "Transaction", "Rollback"]);
    let shown = |value: Option<f64>| value.map_or_else(|| "-".into(), figures::seconds);
    for (at, database) in set.databases.iter().enumerate() {
        table.measured(vec![database.name.into(), shown(work[at]), shown(back[at])]);
    }
    for (name, worked, rolled) in published::ROLLBACK {
        table.published(&[name, &format!("{worked} s"), &format!("{rolled} s")]);
    }
    section.table(table);
    section.chart(chart(set, work, back));
    let data: Vec<_> = set
        .databases
        .iter()
        .enumerate()
        .map(|(at, d)| json!({"database": d.name, "transaction_s": work[at], "rollback_s": back[at]}))
        .collect();
    lab.report
        .keep("rollback", json!({"pairs": args.pairs(), "runs": data}));
    for (off, on) in set.pairs() {
        let name = set.databases[on].name;
        if let Some(measured) = ratio(work[on], work[off]) {
            lab.report.figure(
                format!(
                    "{name}: {} pairs in one transaction, on / off",
                    args.pairs()
                ),
                format!("{measured:.2} ×"),
                format!("published 1.95, target at most {RATIO_TARGET}"),
                Verdict::of(measured <= RATIO_TARGET),
            );
        }
        if let Some(rolled) = back[on] {
            lab.report.figure(
                format!("{name}: ROLLBACK"),
                figures::seconds(rolled),
                format!("off: {}; published 36 s off, 0 s on", shown(back[off])),
                Verdict::of(rolled <= ROLLBACK_TARGET_S),
            );
        }
    }
    lab.publish(section);
}

fn chart(set: &Set, work: &[Option<f64>], back: &[Option<f64>]) -> Bars {
    let names: Vec<String> = published::ROLLBACK
        .iter()
        .map(|r| r.0.to_string())
        .collect();
    let pick = |values: &[Option<f64>]| -> Vec<Option<f64>> {
        let find = |name: &String| {
            let at = set.databases.iter().position(|d| d.name == *name)?;
            values.get(at).copied().flatten()
        };
        names.iter().map(find).collect()
    };
    // Part of the work, so that machines of different speed compare.
    let part = |worked: &[Option<f64>], rolled: &[Option<f64>]| -> Vec<Option<f64>> {
        let both = worked.iter().zip(rolled);
        both.map(|(w, r)| ratio(*r, *w).map(|part| part * 100.0))
            .collect()
    };
    let paper: Vec<_> = published::ROLLBACK
        .iter()
        .map(|r| Some(r.2 / r.1 * 100.0))
        .collect();
    Bars {
        title: "Rollback, as a part of the time the transaction took".into(),
        unit: Unit::Percent,
        log: false,
        series: vec![
            BarSeries::new(
                "measured",
                Kind::Measured,
                1,
                part(&pick(work), &pick(back)),
            ),
            BarSeries::new("published", Kind::Published, 1, paper),
        ],
        names,
        mark: None,
        note: "100 % means that undoing takes as long as doing.".into(),
    }
}
