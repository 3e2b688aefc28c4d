//! `daruma lab durability`: a purge with durable and with delayed commits.
//!
//! After the article of the SentryOne Team Blog: the same purge durable and delayed from the same rows, and the saving in
//! time, disk waits, log waits and log flushes. Then a kill in the middle of each and what came back. Then a sweep over chunk
//! size and sessions: where the feature pays and where it does not.
//!
//! A run that deletes the same rows must leave the same sums; a delayed purge that was killed must come back as a prefix
//! of what it did, in whole chunks.

mod kill;
mod monitored;
mod purge;
mod sweep;
mod waits;

use super::{Ending, Lab, LabError, LabOptions};
use crate::figures::{self, median};
use crate::report::chart::{BarSeries, Bars, Kind, Unit};
use crate::report::{Report, Section, Source, Table, Verdict};
use crate::sql::{Ask, quoted};
use clap::Args;
use daruma_client::client::ClientError;
use monitored::Watch;
use purge::Volume;
use serde_json::json;
use std::time::Instant;
use waits::Reading;

const DATABASE: &str = "LabPurge";

/// Savings in per cent: duration, disk waits, log waits, log flushes per second.
const PUBLISHED: [f64; 4] = [26.0, 25.0, 48.0, 48.0];

/// Options of `daruma lab durability`.
#[derive(Args, Clone, Debug)]
pub struct DurabilityArgs {
    #[command(flatten)]
    pub options: LabOptions,

    /// Measurements in the tables; half of them are purged [default: 1000000; quick: 40000]
    #[arg(help_heading = "Experiment", long, value_name = "N", value_parser = clap::value_parser!(u64).range(1000..=20_000_000))]
    pub rows: Option<u64>,

    /// Rows deleted by one transaction
    #[arg(help_heading = "Experiment", long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub chunk: u64,

    /// Watch the purge with the monitor, whose page is at ADDR:PORT meanwhile, and compare as the page does
    #[arg(help_heading = "Experiment", long, value_name = "ADDR:PORT", num_args = 0..=1, default_missing_value = "127.0.0.1:0")]
    pub monitor: Option<String>,
}

impl DurabilityArgs {
    fn volume(&self) -> Volume {
        let normal = if self.options.quick {
            40_000
        } else {
            1_000_000
        };
        Volume {
            measurements: self.rows.unwrap_or(normal),
        }
    }

    fn runs(&self) -> usize {
        if self.options.quick { 1 } else { 3 }
    }
}

/// Runs the purge both ways, the kill and the sweep, and writes the report.
pub fn run(args: &DurabilityArgs) -> Result<Ending, LabError> {
    let report = Report {
        experiment: "durability".into(),
        title: "Delayed durability while purging data".into(),
        lead: "How much time does a purge save when its commits need not wait for the log, what does a crash cost then, and \
               where does the feature pay?"
            .into(),
        source: Source {
            text: "Published figures: \"Delayed Durability while Purging Data\", SentryOne Team Blog, January 2017: 90 \
                   minutes durable, 66 delayed."
                .into(),
            setting: "Measured there with SQL Server on a test server that is not described; savings compare, times do not."
                .into(),
        },
        ..Report::default()
    };
    let mut lab = Lab::start(&args.options, report)?;
    let outcome = steps(&mut lab, args);
    lab.finish(outcome)
}

fn steps(lab: &mut Lab, args: &DurabilityArgs) -> Result<(), LabError> {
    lab.step("creating the purge database");
    let mut client = lab.create_database(DATABASE)?;
    // Small transactions are what is measured, not a server's choice of recovery model.
    client.execute(&format!("ALTER DATABASE {DATABASE} SET RECOVERY SIMPLE"))?;
    if !allow_delayed(lab)? {
        return Ok(());
    }
    purge::create(&mut client)?;
    drop(client);
    compare(lab, args)?;
    kill::run(lab, args)?;
    sweep::run(lab, args)
}

/// Switches the option on; false, with a notice, where it is refused or has no effect.
fn allow_delayed(lab: &mut Lab) -> Result<bool, LabError> {
    let mut client = lab.client(DATABASE)?;
    match client.execute(&format!(
        "ALTER DATABASE {DATABASE} SET DELAYED_DURABILITY = ALLOWED"
    )) {
        Ok(()) => {}
        Err(error @ ClientError::Server { .. }) => {
            lab.notice(format!(
                "This server does not support delayed durability: {error}"
            ));
            return Ok(false);
        }
        Err(error) => return Err(error.into()),
    }
    let is = client.text(&format!(
        "SELECT delayed_durability_desc FROM sys.databases WHERE name = {}",
        quoted(DATABASE)
    ))?;
    if is != "ALLOWED" {
        lab.notice(format!(
            "This server does not support delayed durability: the option stays {is}."
        ));
        return Ok(false);
    }
    Ok(true)
}

/// One run of the purge.
struct Measured {
    seconds: f64,
    waits: Reading,
    deleted: f64,
    sums: String,
}

impl Measured {
    fn flushes_per_s(&self) -> f64 {
        self.waits.flushes / self.seconds
    }
}

fn one(
    lab: &Lab,
    args: &DurabilityArgs,
    delayed: bool,
    watch: Option<&mut Watch>,
) -> Result<Measured, LabError> {
    let mut client = lab.client(DATABASE)?;
    purge::fill(&mut client, args.volume())?;
    let mut watcher = lab.client("master")?;
    let before = Reading::take(&mut watcher, DATABASE)?;
    let from = daruma_monitor::sql::now();
    let begun = Instant::now();
    let deleted = client.number(&purge::call(delayed, args.volume(), args.chunk))?;
    let seconds = begun.elapsed().as_secs_f64();
    if let Some(watch) = watch {
        watch.note(delayed, from);
    }
    let waits = Reading::take(&mut watcher, DATABASE)?.since(&before);
    Ok(Measured {
        seconds,
        waits,
        deleted: deleted.unwrap_or(f64::NAN),
        sums: purge::sums(&mut client)?,
    })
}

fn compare(lab: &mut Lab, args: &DurabilityArgs) -> Result<(), LabError> {
    let listen = args.monitor.as_deref();
    let mut watch = listen.map(|listen| Watch::start(lab, listen)).transpose()?;
    let (mut durable, mut delayed) = (Vec::new(), Vec::new());
    for round in 1..=args.runs() {
        for (is_delayed, runs) in [(false, &mut durable), (true, &mut delayed)] {
            lab.check_interrupt()?;
            let how = if is_delayed { "delayed" } else { "durable" };
            lab.step(format!("purge, {how}, run {round} of {}", args.runs()));
            runs.push(one(lab, args, is_delayed, watch.as_mut())?);
        }
    }
    let (Some(first), Some(last)) = (durable.first(), delayed.last()) else {
        return Ok(());
    };
    let (first, last) = (first.sums.clone(), last.sums.clone());
    lab.report.check(
        "sums after the delayed purge are those after the durable one",
        first,
        last,
    );
    publish(lab, args, &durable, &delayed);
    watch.map_or(Ok(()), |watch| watch.publish(lab))
}

fn publish(lab: &mut Lab, args: &DurabilityArgs, durable: &[Measured], delayed: &[Measured]) {
    let of = |runs: &[Measured], value: fn(&Measured) -> f64| {
        median(&runs.iter().map(value).collect::<Vec<_>>())
    };
    let rows: [(&str, fn(&Measured) -> f64, fn(f64) -> String); 6] = [
        ("Duration", |m| m.seconds, figures::seconds),
        ("Disk waits", |m| m.waits.disk_ms() / 1e3, figures::seconds),
        ("Log waits", |m| m.waits.log_ms() / 1e3, figures::seconds),
        ("Log flushes/s", Measured::flushes_per_s, figures::number),
        ("Log flushes", |m| m.waits.flushes, figures::number),
        ("Log written", |m| m.waits.flushed_bytes, figures::bytes),
    ];
    let mut section = Section {
        title: "The purge, durable and delayed".into(),
        ..Section::default()
    };
    let deleted = of(durable, |m| m.deleted).unwrap_or(f64::NAN);
    section.text(format!(
        "{} rows deleted in chunks of {}, one session. {} from the same rows, taking turns. Waits are \
         differences of sys.dm_os_wait_stats, flushes of sys.dm_os_performance_counters.",
        figures::grouped(deleted),
        args.chunk,
        figures::medians(args.runs())
    ));
    let mut table = Table::new("", &["", "Durable", "Delayed", "Saved", "Published saving"]);
    let mut savings = Vec::new();
    for (at, (name, value, show)) in rows.into_iter().enumerate() {
        let (a, b) = (of(durable, value), of(delayed, value));
        let saved = match (a, b) {
            (Some(a), Some(b)) if a > 0.0 => Some((1.0 - b / a) * 100.0),
            _ => None,
        };
        savings.push(saved);
        let percent =
            |value: Option<f64>| value.map_or_else(|| "-".into(), |v| format!("{v:.0} %"));
        table.measured(vec![
            name.into(),
            a.map_or_else(|| "-".into(), show),
            b.map_or_else(|| "-".into(), show),
            percent(saved),
            percent(PUBLISHED.get(at).copied()),
        ]);
    }
    section.table(table);
    section.chart(Bars {
        title: "Saved by delayed durability".into(),
        unit: Unit::Percent,
        log: false,
        names: ["Duration", "Disk waits", "Log waits", "Log flushes/s"].map(String::from).to_vec(),
        series: vec![
            BarSeries::new("measured", Kind::Measured, 0, savings.iter().copied().take(4).collect()),
            BarSeries::new("published", Kind::Published, 0, PUBLISHED.map(Some).to_vec()),
        ],
        mark: None,
        note: "More is better. Flushes per second count the shorter run, so their number falls even more.".into(),
    });
    section.code(purge::procedure("PurgeDelayed", true));
    for (name, at, target) in [
        ("Time saved", 0, 26.0),
        ("Log waits saved", 2, 48.0),
        ("Log flushes/s saved", 3, 48.0),
    ] {
        if let Some(saved) = savings.get(at).copied().flatten() {
            lab.report.figure(
                name,
                format!("{saved:.0} %"),
                format!("published {target:.0} %, target at least that"),
                Verdict::of(saved >= target),
            );
        }
    }
    let keep = |runs: &[Measured]| -> Vec<_> {
        runs.iter()
            .map(|m| json!({"seconds": m.seconds, "waits": m.waits, "log_waits": m.waits.log_waits(), "deleted": m.deleted}))
            .collect()
    };
    lab.report.keep(
        "purge",
        json!({"durable": keep(durable), "delayed": keep(delayed)}),
    );
    lab.publish(section);
}
