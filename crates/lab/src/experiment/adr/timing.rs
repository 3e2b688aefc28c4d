//! Ten sessions, ten iterations: the pair of updates in each database, and what it does to the files.

use super::super::{Lab, LabError};
use super::databases::{self, Database, FileSize, Set, Variant, check_sums, file_sizes, pages};
use super::{AdrArgs, published};
use crate::figures::{self, ratio};
use crate::report::chart::{BarSeries, Bars, Kind, Unit};
use crate::report::{Section, Table, Verdict};
use crate::sql::{Ask, bracketed, quoted};
use crate::stress::load::{self, LoadPlan, LoadResult};
use serde_json::json;
use std::thread;
use std::time::{Duration, Instant};

/// What the project promises: on / off.
const RATIO_TARGET: f64 = 1.05;
/// How long the version store gets to become small again.
const SETTLE_LIMIT: Duration = Duration::from_secs(10);
const SETTLE_POLL: Duration = Duration::from_millis(100);

/// The article's two statements.
pub fn pair(database: &str) -> String {
    let name = bracketed(database);
    format!(
        "update {name}.Sales.SalesOrderDetail\n  set CarrierTrackingNumber = 'x' + CarrierTrackingNumber\n    , OrderQty = \
         OrderQty + 1\n    , UnitPrice = UnitPrice + 1\n    , UnitPriceDiscount = UnitPriceDiscount + 1\n\
         update {name}.Sales.SalesOrderDetail\n  set CarrierTrackingNumber = substring(CarrierTrackingNumber, 2, 100)\n    , \
         OrderQty = OrderQty - 1\n    , UnitPrice = UnitPrice - 1\n    , UnitPriceDiscount = UnitPriceDiscount - 1"
    )
}

/// Times 10 sessions that each update a table there and back 10 times.
pub fn run(lab: &mut Lab, args: &AdrArgs, set: &Set) -> Result<(), LabError> {
    let mut client = lab.client("master")?;
    let before = set.at_first(file_sizes(&mut client, set)?);
    let mut results = Vec::new();
    for (at, database) in in_turn(set) {
        lab.check_interrupt()?;
        lab.step(format!(
            "{} x {} pairs of updates in {}",
            args.threads(),
            args.iterations(),
            database.name
        ));
        let plan = LoadPlan::new(pair(database.name), args.threads(), args.iterations());
        let options = lab.options_for("master");
        let result = load::run(&options, &plan, &crate::interrupt::flag(), &|| ())?;
        results.push((at, result));
    }
    results.sort_by_key(|(at, _)| *at);
    let results: Vec<LoadResult> = results.into_iter().map(|(_, result)| result).collect();
    let after = file_sizes(&mut client, set)?;
    check_sums(
        lab,
        set,
        &format!("after the timing runs ({})", set.variant.title()),
    )?;
    for (database, result) in set.databases.iter().zip(&results) {
        lab.report.check(
            format!(
                "{}: failed iterations ({})",
                database.name,
                set.variant.title()
            ),
            "0",
            result.failed.to_string(),
        );
    }
    let settled = settle(lab, set)?;
    times_section(lab, args, set, &results);
    sizes_section(lab, set, &before, &after, settled.as_ref());
    Ok(())
}

/// The databases in the order of their runs. A later run meets a buffer pool with more pages of the others, so each second pair begins
/// with the accelerated one.
fn in_turn(set: &Set) -> impl Iterator<Item = (usize, &Database)> {
    let mut order: Vec<usize> = (0..set.databases.len()).collect();
    for (off, on) in set.pairs().into_iter().skip(1).step_by(2) {
        order.swap(off, on);
    }
    order
        .into_iter()
        .filter_map(|at| Some((at, set.databases.get(at)?)))
}

fn times_section(lab: &mut Lab, args: &AdrArgs, set: &Set, results: &[LoadResult]) {
    let mut section = Section {
        title: format!("Timing, {}", set.variant.title()),
        ..Section::default()
    };
    section.text(format!(
        "{} sessions run the pair of updates {} times each; every statement changes all 121,317 rows. Of the second pair of databases the \
         accelerated one runs first: whatever runs later meets a fuller buffer pool.",
        args.threads(),
        args.iterations()
    ));
    section.table(times_table(set, results));
    section.chart(ratio_chart(set, results));
    section.chart(seconds_chart(set, results));
    section.code(pair("AW2019_150"));
    for (off, on) in set.pairs() {
        let measured = ratio(
            results.get(on).and_then(LoadResult::actual_s),
            results.get(off).and_then(LoadResult::actual_s),
        );
        let (Some(measured), Some(name)) = (measured, set.databases.get(on).map(|d| d.name)) else {
            continue;
        };
        let beside = published_ratio(name).map_or_else(String::new, |p| {
            format!("published {p:.2}, target at most {RATIO_TARGET}")
        });
        lab.report.figure(
            format!("{name}: updates, on / off; {}", set.variant.title()),
            format!("{measured:.2} ×"),
            beside,
            Verdict::of(measured <= RATIO_TARGET),
        );
    }
    let data: Vec<_> = set
        .databases
        .iter()
        .zip(results)
        .map(|(database, r)| {
            json!({
                "database": database.name, "cpu_s": r.cpu_s(), "actual_s": r.actual_s(),
                "client_s": r.client_s(), "total_s": r.total.as_secs_f64(),
                "logical_reads": r.logical_reads(), "p50_s": r.percentile_s(50.0),
                "p99_s": r.percentile_s(99.0), "failed": r.failed,
            })
        })
        .collect();
    lab.report
        .keep(format!("timing_{}", set.variant.key()), json!(data));
    lab.publish(section);
}

fn times_table(set: &Set, results: &[LoadResult]) -> Table {
    let mut table = Table::new(
        "",
        &[
            "Database",
            "CPU s/iteration",
            "Actual s/iteration",
            "Total",
            "Client s/iteration",
            "Logical reads",
            "p99",
        ],
    );
    let four = |value: Option<f64>| value.map_or_else(|| "-".into(), |v| format!("{v:.4}"));
    for (database, r) in set.databases.iter().zip(results) {
        table.measured(vec![
            database.name.into(),
            four(r.cpu_s()),
            four(r.actual_s()),
            figures::clock(r.total),
            four(r.client_s()),
            figures::optional(r.logical_reads()),
            figures::seconds(r.percentile_s(99.0)),
        ]);
    }
    for p in published::TIMINGS {
        table.published(&[
            p.database,
            &format!("{:.4}", p.cpu_s),
            &format!("{:.4}", p.actual_s),
            p.total,
            &format!("{:.4}", p.client_s),
            published::LOGICAL_READS,
            "-",
        ]);
    }
    table
}

fn published_ratio(name: &str) -> Option<f64> {
    let at = published::TIMINGS.iter().position(|t| t.database == name)?;
    let (off, on) = (
        published::TIMINGS.get(at.checked_sub(1)?)?,
        published::TIMINGS.get(at)?,
    );
    Some(on.actual_s / off.actual_s)
}

fn ratio_chart(set: &Set, results: &[LoadResult]) -> Bars {
    let of = |value: fn(&LoadResult) -> Option<f64>| -> Vec<Option<f64>> {
        let levels = [
            ("AW2019_150", "AW2019_150_AR"),
            ("AW2019_160", "AW2019_160_AR"),
        ];
        let find = |name: &str| {
            let at = set.databases.iter().position(|d| d.name == name)?;
            value(results.get(at)?)
        };
        levels
            .iter()
            .map(|(off, on)| ratio(find(on), find(off)))
            .collect()
    };
    let paper = |value: fn(&published::Timing) -> f64| -> Vec<Option<f64>> {
        let [off150, on150, off160, on160] = &published::TIMINGS;
        vec![
            Some(value(on150) / value(off150)),
            Some(value(on160) / value(off160)),
        ]
    };
    Bars {
        title: "What the option costs: time with it on, divided by time with it off".into(),
        unit: Unit::Times,
        log: false,
        names: vec!["Level 150".into(), "Level 160".into()],
        series: vec![
            BarSeries::new(
                "Actual s/iteration",
                Kind::Measured,
                0,
                of(LoadResult::actual_s),
            ),
            BarSeries::new(
                "Actual, published",
                Kind::Published,
                0,
                paper(|t| t.actual_s),
            ),
            BarSeries::new("CPU s/iteration", Kind::Measured, 2, of(LoadResult::cpu_s)),
            BarSeries::new("CPU, published", Kind::Published, 2, paper(|t| t.cpu_s)),
        ],
        mark: Some(("free".into(), 1.0)),
        note: "1 means that the option costs nothing.".into(),
    }
}

fn seconds_chart(set: &Set, results: &[LoadResult]) -> Bars {
    let names = published::TIMINGS.map(|t| t.database.to_string()).to_vec();
    let measured = |name: &String| {
        let at = set.databases.iter().position(|d| d.name == *name)?;
        Some(results.get(at)?.total.as_secs_f64())
    };
    Bars {
        title: "Total of a run".into(),
        unit: Unit::Seconds,
        log: true,
        series: vec![
            BarSeries::new(
                "measured",
                Kind::Measured,
                0,
                names.iter().map(measured).collect(),
            ),
            BarSeries::new(
                "published (10 x 10)",
                Kind::Published,
                0,
                published::TIMINGS.iter().map(|t| Some(t.total_s)).collect(),
            ),
        ],
        names,
        mark: None,
        note: "Logarithmic. Another machine, so compare the shape.".into(),
    }
}

/// What is left of the version store when it has been cleaned.
struct Settled {
    sizes: Vec<FileSize>,
    /// Kilobytes of the store by database, and how long that took.
    store_kb: Vec<(&'static str, f64, f64)>,
}

/// Cleans up and waits until the version stores are small again.
fn settle(lab: &mut Lab, set: &Set) -> Result<Option<Settled>, LabError> {
    if !set.databases.iter().any(|d| d.accelerated) {
        return Ok(None);
    }
    lab.step("cleaning the version stores");
    let mut client = lab.client("master")?;
    let mut store_kb = Vec::new();
    for database in set.databases.iter().filter(|d| d.accelerated) {
        let begun = Instant::now();
        client.execute(&format!(
            "EXEC sys.sp_persistent_version_cleanup {}",
            quoted(database.name)
        ))?;
        let query = format!(
            "SELECT persistent_version_store_size_kb FROM sys.dm_tran_persistent_version_store_stats \
             WHERE database_id = DB_ID({})",
            quoted(database.name)
        );
        let mut kb = client.number(&query)?;
        while kb.is_some_and(|kb| kb > 0.0) && begun.elapsed() < SETTLE_LIMIT {
            thread::sleep(SETTLE_POLL);
            kb = client.number(&query)?;
        }
        let seconds = begun.elapsed().as_secs_f64();
        store_kb.push((database.name, kb.unwrap_or(f64::NAN), seconds));
    }
    let sizes = file_sizes(&mut client, set)?;
    Ok(Some(Settled { sizes, store_kb }))
}

fn sizes_section(
    lab: &mut Lab,
    set: &Set,
    before: &[FileSize],
    after: &[FileSize],
    settled: Option<&Settled>,
) {
    let mut section = Section {
        title: format!("File sizes, {}", set.variant.title()),
        ..Section::default()
    };
    let mut table = Table::new(
        "",
        &["File", "At first (8 KiB pages)", "After the runs", "Growth"],
    );
    for (was, is) in before.iter().zip(after) {
        table.measured(vec![
            was.file.clone(),
            pages(was.pages),
            pages(is.pages),
            growth(was.pages, is.pages),
        ]);
    }
    let paper: &[_] = match set.variant {
        Variant::NoFilegroup => &published::SIZES_WITHOUT_FILEGROUP,
        Variant::AsPrinted | Variant::AsMeant => &published::SIZES_WITH_FILEGROUP,
    };
    for (file, was, is) in paper {
        table.published(&[file, &pages(*was), &pages(*is), &growth(*was, *is)]);
    }
    section.table(table);
    section.chart(growth_chart(set, before, after));
    if let Some(settled) = settled {
        section.table(settled_table(settled));
    }
    for (off, on) in set.pairs() {
        figure_growth(lab, set, before, after, (off, on));
    }
    let files: Vec<_> = before
        .iter()
        .zip(after)
        .map(|(b, a)| json!({"file": a.file, "pages_before": b.pages, "pages_after": a.pages}))
        .collect();
    lab.report
        .keep(format!("files_{}", set.variant.key()), json!(files));
    lab.publish(section);
}

fn growth(was: u64, is: u64) -> String {
    format!("{:.2} ×", is as f64 / (was.max(1)) as f64)
}

/// All files of a database but its log, in pages.
fn data_pages(sizes: &[FileSize], database: &str) -> u64 {
    let own = sizes.iter().filter(|s| s.database == database && !s.is_log);
    own.map(|s| s.pages).sum()
}

fn figure_growth(
    lab: &mut Lab,
    set: &Set,
    before: &[FileSize],
    after: &[FileSize],
    pair: (usize, usize),
) {
    let Some(on) = set
        .databases
        .get(pair.1)
        .map(|d: &databases::Database| d.name)
    else {
        return;
    };
    let grown = data_pages(after, on) as f64 / data_pages(before, on).max(1) as f64;
    lab.report.figure(
        format!(
            "{on}: growth of data and version store; {}",
            set.variant.title()
        ),
        format!("{grown:.2} ×"),
        "published 4.5, target at most 1.5",
        Verdict::of(grown <= 1.5),
    );
}

fn growth_chart(set: &Set, before: &[FileSize], after: &[FileSize]) -> Bars {
    let names: Vec<String> = set.databases.iter().map(|d| d.name.to_string()).collect();
    let measured = |name: &String| {
        let was = data_pages(before, name);
        Some(data_pages(after, name) as f64 / was.max(1) as f64)
    };
    let paper = |name: &String| {
        let row = published::SIZES_WITHOUT_FILEGROUP
            .iter()
            .find(|(file, _, _)| *file == format!("{name}.mdf"))?;
        Some(row.2 as f64 / row.1 as f64)
    };
    Bars {
        title: "Growth of the data files during the runs".into(),
        unit: Unit::Times,
        log: false,
        series: vec![
            BarSeries::new(
                "measured",
                Kind::Measured,
                3,
                names.iter().map(measured).collect(),
            ),
            BarSeries::new(
                "published",
                Kind::Published,
                3,
                names.iter().map(paper).collect(),
            ),
        ],
        names,
        mark: Some(("as before".into(), 1.0)),
        note: "Data and version store files together; files grow in steps.".into(),
    }
}

fn settled_table(settled: &Settled) -> Table {
    let mut table = Table::new(
        "After sys.sp_persistent_version_cleanup",
        &[
            "Database",
            "Version store (KB)",
            "Seconds until then",
            "Data files (pages)",
        ],
    );
    for (name, kb, seconds) in &settled.store_kb {
        table.measured(vec![
            (*name).into(),
            figures::number(*kb),
            figures::number(*seconds),
            pages(data_pages(&settled.sizes, name)),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_ratios_are_the_articles() {
        let text = |name| published_ratio(name).map(|r| format!("{r:.2}"));
        assert_eq!(text("AW2019_150_AR").as_deref(), Some("1.50"));
        assert_eq!(text("AW2019_160_AR").as_deref(), Some("1.47"));
    }

    #[test]
    fn the_log_is_no_data() {
        let size = |file: &str, is_log, pages| FileSize {
            database: "d",
            file: file.into(),
            is_log,
            pages,
        };
        let sizes = [
            size("d.mdf", false, 5),
            size("d.ldf", true, 9),
            size("v.ndf", false, 2),
        ];
        assert_eq!(data_pages(&sizes, "d"), 7);
    }
}
