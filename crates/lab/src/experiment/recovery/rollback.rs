//! Two million rows by many small statements and by one, each rolled back.

use super::{
    Lab, LabError, Mode, RecoveryArgs, check_nothing_left, fresh, insert_loop, insert_statement,
};
use crate::figures::{self, median, ratio};
use crate::report::chart::{BarSeries, Bars, Kind, Unit};
use crate::report::{Section, Table, Verdict};
use crate::sql::Ask;
use crate::statement_stats::{Measured, SET_ON, run_measured};
use serde_json::json;

/// How the rows get in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Small,
    One,
}

impl Way {
    const fn title(self) -> &'static str {
        match self {
            Way::Small => "many small statements",
            Way::One => "one statement",
        }
    }
}

/// The study's seconds: insert and rollback.
const PUBLISHED: [(Way, Mode, f64, f64); 4] = [
    (Way::Small, Mode::Classic, 88.0, 18.0),
    (Way::Small, Mode::Accelerated, 324.0, 0.0),
    (Way::One, Mode::Classic, 14.0, 15.0),
    (Way::One, Mode::Accelerated, 19.0, 0.0),
];

struct Case {
    way: Way,
    mode: Mode,
    insert_s: Vec<f64>,
    rollback_s: Vec<f64>,
    statement: Option<Measured>,
}

/// Times ROLLBACK of two million rows, written by many statements and by one.
pub fn run(lab: &mut Lab, args: &RecoveryArgs, modes: &[Mode]) -> Result<(), LabError> {
    let mut cases: Vec<Case> = Vec::new();
    for way in [Way::Small, Way::One] {
        for mode in modes {
            cases.push(Case {
                way,
                mode: *mode,
                insert_s: Vec::new(),
                rollback_s: Vec::new(),
                statement: None,
            });
        }
    }
    for round in 1..=args.runs() {
        for case in &mut cases {
            lab.check_interrupt()?;
            lab.step(format!(
                "accelerated recovery {}: {} rows by {} and rollback, run {round} of {}",
                case.mode.title(),
                figures::grouped(args.rollback_rows() as f64),
                case.way.title(),
                args.runs()
            ));
            one(lab, args.rollback_rows(), case)?;
        }
    }
    publish(lab, args, &cases);
    Ok(())
}

fn one(lab: &mut Lab, rows: u64, case: &mut Case) -> Result<(), LabError> {
    let mut client = fresh(lab, case.mode, false)?;
    let text = match case.way {
        Way::Small => insert_loop(rows),
        Way::One => {
            client.execute(SET_ON)?;
            insert_statement(rows)
        }
    };
    client.execute("BEGIN TRANSACTION")?;
    let measured = run_measured(&mut client, &text)?;
    case.insert_s.push(measured.client.as_secs_f64());
    if case.way == Way::One {
        client.execute("SET STATISTICS TIME OFF; SET STATISTICS IO OFF")?;
        case.statement = Some(measured);
    }
    case.rollback_s
        .push(client.timed("ROLLBACK")?.as_secs_f64());
    check_nothing_left(
        lab,
        case.mode,
        &format!("after the rollback of {}", case.way.title()),
    )?;
    drop(client);
    lab.drop_database(case.mode.database())
}

fn publish(lab: &mut Lab, args: &RecoveryArgs, cases: &[Case]) {
    let rows = figures::grouped(args.rollback_rows() as f64);
    let mut section = Section {
        title: "Rollback of many rows".into(),
        ..Section::default()
    };
    section.text(format!(
        "{rows} rows of {} columns in one transaction, then ROLLBACK. {}, taking turns. The published run \
         had 2,000,000 rows.",
        super::COLUMNS,
        figures::medians(args.runs())
    ));
    let mut table = Table::new("", &["Rows by", "Recovery", "Insert", "Rollback", "Rows/s"]);
    let shown = |value: Option<f64>| value.map_or_else(|| "-".into(), figures::seconds);
    for case in cases {
        let insert = median(&case.insert_s);
        table.measured(vec![
            case.way.title().into(),
            case.mode.title().into(),
            shown(insert),
            shown(median(&case.rollback_s)),
            figures::optional(insert.map(|s| args.rollback_rows() as f64 / s)),
        ]);
    }
    for (way, mode, insert, rollback) in PUBLISHED {
        table.published(&[
            way.title(),
            mode.title(),
            &format!("{insert} s"),
            &format!("{rollback} s"),
            &figures::number(2e6 / insert),
        ]);
    }
    section.table(table);
    section.table(statement_table(cases));
    section.chart(ratio_chart(cases));
    section.chart(rollback_chart(cases));
    key_figures(lab, cases);
    let data: Vec<_> = cases
        .iter()
        .map(|c| json!({"way": c.way.title(), "recovery": c.mode.title(), "insert_s": c.insert_s, "rollback_s": c.rollback_s}))
        .collect();
    lab.report.keep(
        "rollback",
        json!({"rows": args.rollback_rows(), "cases": data}),
    );
    lab.publish(section);
}

/// CPU, duration and reads of the single statement, beside the study's rerun.
fn statement_table(cases: &[Case]) -> Table {
    let mut table = Table::new(
        "The single statement, as SET STATISTICS tells",
        &["Recovery", "CPU (ms)", "Elapsed (ms)", "Logical reads"],
    );
    for case in cases {
        let Some(measured) = &case.statement else {
            continue;
        };
        let stats = measured.stats;
        let cells = [stats.cpu_ms, stats.elapsed_ms, stats.logical_reads];
        let mut row = vec![case.mode.title().to_string()];
        row.extend(cells.map(|value| figures::grouped(value as f64)));
        table.measured(row);
    }
    table.published(&["off", "13,406", "16,154", "2,095,238"]);
    table.published(&["on", "14,109", "16,553", "2,099,999"]);
    table
}

fn insert_ratio(cases: &[Case], way: Way) -> Option<f64> {
    let of = |mode| {
        let case = cases.iter().find(|c| c.way == way && c.mode == mode)?;
        median(&case.insert_s)
    };
    ratio(of(Mode::Accelerated), of(Mode::Classic))
}

fn ratio_chart(cases: &[Case]) -> Bars {
    let ways = [Way::Small, Way::One];
    Bars {
        title: "Insert time with recovery on, divided by the time with it off".into(),
        unit: Unit::Times,
        log: false,
        names: ways.map(|way| way.title().to_string()).to_vec(),
        series: vec![
            BarSeries::new(
                "measured",
                Kind::Measured,
                0,
                ways.map(|way| insert_ratio(cases, way)).to_vec(),
            ),
            BarSeries::new(
                "published",
                Kind::Published,
                0,
                vec![Some(324.0 / 88.0), Some(19.0 / 14.0)],
            ),
        ],
        mark: Some(("free".into(), 1.0)),
        note: "1 means that the option costs nothing.".into(),
    }
}

fn rollback_chart(cases: &[Case]) -> Bars {
    let keys = PUBLISHED.map(|(way, mode, _, _)| (way, mode));
    let measured = |(way, mode): (Way, Mode)| {
        let case = cases.iter().find(|c| c.way == way && c.mode == mode)?;
        let part = ratio(median(&case.rollback_s), median(&case.insert_s))?;
        Some(part * 100.0)
    };
    Bars {
        title: "Rollback, as a part of the time the inserts took".into(),
        unit: Unit::Percent,
        log: false,
        names: keys
            .map(|(way, mode)| format!("{}, {}", way.title(), mode.title()))
            .to_vec(),
        series: vec![
            BarSeries::new("measured", Kind::Measured, 1, keys.map(measured).to_vec()),
            BarSeries::new(
                "published",
                Kind::Published,
                1,
                PUBLISHED
                    .iter()
                    .map(|(_, _, insert, back)| Some(back / insert * 100.0))
                    .collect(),
            ),
        ],
        mark: None,
        note: String::new(),
    }
}

fn key_figures(lab: &mut Lab, cases: &[Case]) {
    for (way, published, target) in [(Way::Small, 3.7, 1.05), (Way::One, 1.36, 1.03)] {
        if let Some(measured) = insert_ratio(cases, way) {
            lab.report.figure(
                format!("Inserts by {}, on / off", way.title()),
                format!("{measured:.2} ×"),
                format!("published {published}, target at most {target}"),
                Verdict::of(measured <= target),
            );
        }
    }
    let on = cases.iter().filter(|c| c.mode == Mode::Accelerated);
    let slowest = on.filter_map(|c| median(&c.rollback_s)).reduce(f64::max);
    if let Some(slowest) = slowest {
        lab.report.figure(
            "Slowest rollback, recovery on",
            figures::seconds(slowest),
            "published 0 s (18 s off), target under 10 ms",
            Verdict::of(slowest < 0.010),
        );
    }
}
