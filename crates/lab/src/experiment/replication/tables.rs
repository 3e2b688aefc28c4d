//! What is shown of the shapes over one link: the article's ten columns, its figures beside them, and the bytes.

use super::pair::Mode;
use super::shapes::Measured;
use super::{Link, Variant, published};
use crate::experiment::Lab;
use crate::figures;
use crate::report::chart::{BarSeries, Bars, Kind, Unit};
use crate::report::{Section, Table, Verdict};
use serde_json::json;

/// What the project promises on loopback: by statements of this many rows and more, and by single rows.
const LARGE_ROWS: u64 = 1_000;
const LARGE_TARGET: f64 = 5.0;
const SINGLE_TARGET: f64 = 25.0;
/// Automatic compression is at most so much slower than the better of always and never.
const AUTOMATIC_TARGET: f64 = 1.05;
/// Runs shorter than this say nothing about a few per cent.
const JUDGED_MS_MIN: f64 = 500.0;

/// A variant's measurements, by shape.
pub type Results = [(Variant, Vec<Measured>)];

/// The section of a link.
pub fn publish(lab: &mut Lab, link: Link, results: &Results) {
    let mut section = Section {
        title: format!("Asynchronous and synchronous, {}", link.title()),
        ..Section::default()
    };
    section.text(match link.model() {
        None => "Both servers on one machine, connected by its loopback: the wait for the secondary is its disk and its processor, nearly no network. \
                 Pale rows are the article's, of statements with as many rows."
            .to_string(),
        Some(model) => format!(
            "A relay between the servers takes {} a second in each direction and hands them on {} later. The servers share one machine, and \
             the relay runs on it, too.",
            figures::bytes(model.bytes_per_s),
            figures::seconds(model.delay.as_secs_f64())
        ),
    });
    for (variant, measured) in results {
        section.table(table(*variant, measured, link == Link::Loopback));
    }
    section.chart(penalties(link, results));
    section.table(bytes_table(results));
    section.chart(shares(results));
    judge(lab, link, results);
    let data: Vec<_> = results
        .iter()
        .map(|(variant, measured)| json!({"variant": variant, "shapes": measured}))
        .collect();
    let mut all = lab.report.data.remove("links").unwrap_or_else(|| json!([]));
    if let Some(list) = all.as_array_mut() {
        list.push(json!({"link": link, "variants": data}));
    }
    lab.report.keep("links", all);
    lab.publish(section);
}

fn table(variant: Variant, measured: &[Measured], beside: bool) -> Table {
    let mut table = Table::new(variant.title(), &published::COLUMNS);
    for shape in measured {
        table.measured(cells(shape));
        if let Some(row) = published::row(variant, shape.shape.rows).filter(|_| beside) {
            table.published(&row.cells);
        }
    }
    if measured.iter().any(Measured::is_reckoned) {
        table.note = "Where ~ stands, time was up before all inserts were done: what all of them take is reckoned from those.".into();
    }
    table
}

fn cells(measured: &Measured) -> Vec<String> {
    let inserts = measured.shape.inserts as f64;
    let (a, s) = (
        measured.all_ms(Mode::Asynchronous),
        measured.all_ms(Mode::Synchronous),
    );
    let rate = |ms: Option<f64>| ms.map(|ms| inserts * 1e3 / ms);
    let difference = |a: Option<f64>, b: Option<f64>| Some(a? - b?);
    let penalty = difference(s, a);
    let mark = if measured.is_reckoned() { "~" } else { "" };
    let marked = |value: Option<f64>| format!("{mark}{}", figures::optional(value));
    let percent = measured.penalty_percent();
    vec![
        figures::grouped(inserts),
        figures::grouped(measured.shape.rows as f64),
        marked(a),
        marked(s),
        marked(penalty),
        figures::optional(penalty.map(|ms| ms / inserts)),
        percent.map_or_else(|| "-".into(), |p| format!("{p:.0}%")),
        figures::optional(rate(a)),
        figures::optional(rate(s)),
        figures::optional(difference(rate(a), rate(s))),
    ]
}

fn names(results: &Results) -> Vec<String> {
    let first = results.first().map_or(&[][..], |(_, measured)| measured);
    let name = |m: &Measured| {
        format!(
            "{} x {}",
            figures::grouped(m.shape.inserts as f64),
            figures::counted(m.shape.rows, "row")
        )
    };
    first.iter().map(name).collect()
}

fn penalties(link: Link, results: &Results) -> Bars {
    let mut series = Vec::new();
    for (colour, (variant, measured)) in results.iter().enumerate() {
        let values = measured.iter().map(Measured::penalty_percent).collect();
        series.push(BarSeries::new(
            variant.title(),
            Kind::Measured,
            colour,
            values,
        ));
        let printed: Vec<Option<f64>> = measured
            .iter()
            .map(|m| published::row(*variant, m.shape.rows)?.penalty_percent())
            .collect();
        if link == Link::Loopback && printed.iter().any(Option::is_some) {
            let name = format!("{}, published", variant.title());
            series.push(BarSeries::new(&name, Kind::Published, colour, printed));
        }
    }
    Bars {
        title: "Penalty of synchronous commit".into(),
        unit: Unit::Percent,
        log: false,
        names: names(results),
        series,
        mark: None,
        note: "Less is better; below 0 the synchronous group was faster, which is chance.".into(),
    }
}

fn bytes_table(results: &Results) -> Table {
    let mut table = Table::new(
        "Bytes of the log stream",
        &[
            "",
            "Log, async",
            "Sent, async",
            "Share",
            "Log, sync",
            "Sent, sync",
            "Share",
        ],
    );
    for (variant, measured) in results {
        for m in measured {
            let mut row = vec![format!(
                "{}, {} x {}",
                variant.title(),
                m.shape.inserts,
                m.shape.rows
            )];
            for mode in Mode::ALL {
                let sum =
                    |of: fn(&super::shapes::Run) -> f64| m.runs(mode).iter().map(of).sum::<f64>();
                row.push(figures::bytes(sum(|run| run.block_bytes)));
                row.push(figures::bytes(sum(|run| run.sent_bytes)));
                let share = m.sent_share(mode);
                row.push(share.map_or_else(|| "-".into(), |s| format!("{:.0}%", s * 100.0)));
            }
            table.measured(row);
        }
    }
    table.note = "Of all loops: log blocks before compression and as they were sent (log_block_bytes and log_block_sent_bytes of \
                  sys.dm_hadr_database_replica_states)."
        .into();
    table
}

fn shares(results: &Results) -> Bars {
    let series = results
        .iter()
        .enumerate()
        .map(|(colour, (variant, measured))| {
            let share = |m: &Measured| m.sent_share(Mode::Synchronous).map(|s| s * 100.0);
            let values = measured.iter().map(share).collect();
            BarSeries::new(variant.title(), Kind::Measured, colour, values)
        });
    Bars {
        title: "Bytes on the wire for 100 of log, to the synchronous replica".into(),
        unit: Unit::Percent,
        log: false,
        names: names(results),
        series: series.collect(),
        mark: Some(("as it is".into(), 100.0)),
        note: String::new(),
    }
}

/// Targets, as far as runs are long enough to be judged.
fn judge(lab: &mut Lab, link: Link, results: &Results) {
    let find = |variant: Variant| results.iter().find(|(v, _)| *v == variant).map(|(_, m)| m);
    let Some(automatic) = find(Variant::Automatic) else {
        return;
    };
    for (at, measured) in automatic.iter().enumerate() {
        let Some(ms) = measured
            .all_ms(Mode::Synchronous)
            .filter(|ms| *ms >= JUDGED_MS_MIN)
        else {
            continue;
        };
        let name = format!(
            "{} x {}, {}",
            figures::grouped(measured.shape.inserts as f64),
            figures::counted(measured.shape.rows, "row"),
            link.title()
        );
        let target = match measured.shape.rows {
            LARGE_ROWS.. => Some(LARGE_TARGET),
            1 => Some(SINGLE_TARGET),
            _ => None,
        };
        if let (Link::Loopback, Some(target), Some(penalty)) =
            (link, target, measured.penalty_percent())
        {
            lab.report.figure(
                format!("Penalty: {name}"),
                format!("{penalty:.0} %"),
                format!("target at most {target:.0} %"),
                Verdict::of(penalty <= target),
            );
        }
        let of = |variant| find(variant)?.get(at)?.all_ms(Mode::Synchronous);
        if let (Some(always), Some(never)) = (of(Variant::Of2014), of(Variant::Of2016)) {
            let best = always.min(never);
            lab.report.figure(
                format!("Automatic beside always and never: {name}"),
                format!("{:.2} ×", ms / best),
                format!("of the better one, target at most {AUTOMATIC_TARGET}"),
                Verdict::of(ms <= best * AUTOMATIC_TARGET),
            );
        }
    }
}
