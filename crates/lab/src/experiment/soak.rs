//! `daruma lab soak`: a day of samples of ten servers in the monitor's repository, faster than it passes.
//!
//! The samples are made up, the same in each run; the monitor's own writer stores them, so that tables, levels of detail and texts are those
//! of a day. Then the page's own questions are asked, of a minute to a day. What it takes on disk and in memory is the repository's:
//! a private server with as much memory as the one inside `daruma monitor` has.
//!
//! Targets: 0.77 GB a day of ten servers, 200 ms at the 99th percentile, 100 MiB.

use super::{Ending, Lab, LabError, LabOptions};
use crate::figures;
use crate::report::{Report, Section, Table, Verdict};
use clap::Args;
use daruma_monitor::repository::Repository;
use daruma_monitor::simulated::{FLUSHES, HOUR_MS, questions, write};
use daruma_monitor::sql::now;
use serde_json::json;
use std::fs;
use std::time::Duration;

/// Bytes of a sample with all that is made of it: 0.77 GB a day of ten servers.
const SAMPLE_BYTES_MAX: f64 = 0.77e9 / 864_000.0;
const QUESTION_MS_MAX: f64 = 200.0;
const MEMORY_MIB_MAX: u64 = 100;
/// The server inside `daruma monitor` has this.
const MEMORY_MIB: u64 = 96;
/// Seconds between two words about progress.
const TELL_EVERY: i64 = 600;

/// Options of `daruma lab soak`.
#[derive(Args, Clone, Debug)]
pub struct SoakArgs {
    #[command(flatten)]
    pub options: LabOptions,

    /// Servers whose samples are stored
    #[arg(help_heading = "Experiment", long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(i16).range(1..=1000))]
    pub servers: i16,

    /// Hours of samples [default: 24; quick: 1]
    #[arg(help_heading = "Experiment", long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..=72))]
    pub hours: Option<i64>,

    /// Memory of the repository's server in MiB, in the place of --memory
    #[arg(help_heading = "Experiment", long, value_name = "MIB", default_value_t = MEMORY_MIB)]
    pub repository_memory: u64,
}

/// Writes the samples, asks the questions, and measures.
pub fn run(args: &SoakArgs) -> Result<Ending, LabError> {
    let hours = args
        .hours
        .unwrap_or(if args.options.quick { 1 } else { 24 });
    let options = LabOptions {
        memory: args.repository_memory,
        ..args.options.clone()
    };
    if !options.private && options.connect.server.is_some() {
        return Err(LabError::OwnServersOnly);
    }
    let report = Report {
        experiment: "soak".into(),
        title: "A day of samples in the monitor's repository".into(),
        lead: format!(
            "What do {hours} hours of samples of {} servers, one each second, take on disk and in memory, and how long do the page's \
             questions take?",
            args.servers
        ),
        ..Report::default()
    };
    let mut lab = Lab::start(&options, report)?;
    let outcome = steps(&mut lab, args.servers, hours);
    lab.finish(outcome)
}

fn steps(lab: &mut Lab, servers: i16, hours: i64) -> Result<(), LabError> {
    let repository = Repository::open(lab.target())?;
    let to = now() / HOUR_MS * HOUR_MS;
    let from = to - hours * HOUR_MS;
    let took = write(&repository, servers, from, hours * 3_600, |second| {
        if second % TELL_EVERY == 0 {
            lab.step(format!("{} of {hours} hours are written", second / 3_600));
        }
        lab.check_interrupt().is_ok()
    })?;
    lab.check_interrupt()?;
    let samples = f64::from(servers) * hours as f64 * 3_600.0;
    let sum = "SELECT CAST(SUM(log_flushes) AS bigint) FROM dbo.tick_1s";
    let mut client = repository.connect()?;
    let stored = first(&client.query(sum)?);
    lab.report.check(
        "Sum of a figure over all samples",
        format!("{:.0}", samples * FLUSHES),
        format!("{stored:.0}"),
    );
    let pages = "SELECT SUM(used_page_count) FROM sys.dm_db_partition_stats";
    let bytes = first(&client.query(pages)?) * 8_192.0;
    lab.step("asking the page's questions");
    let times = questions(&repository, servers, from, to)?;
    publish(lab, samples, took, bytes, &times);
    Ok(())
}

/// The first value of an answer; NaN without one.
fn first(rows: &[Vec<daruma_value::Value>]) -> f64 {
    let value = rows.first().and_then(|row| row.first());
    value.map_or(f64::NAN, daruma_monitor::sampler::number)
}

fn publish(lab: &mut Lab, samples: f64, took: Duration, bytes: f64, times: &[Duration]) {
    let last = times.len().saturating_sub(1) as f64;
    let at = |part: f64| {
        let time = times.get((last * part).round() as usize);
        time.map_or(f64::NAN, |time| time.as_secs_f64() * 1e3)
    };
    let each = bytes / samples;
    let rate = samples / took.as_secs_f64();
    let memory = lab
        .server_mut()
        .and_then(|server| server.process_id())
        .and_then(memory_mib);
    let report = &mut lab.report;
    report.figure(
        "On disk, a day of ten servers",
        figures::bytes(each * 864_000.0),
        "at most 0.77 GB",
        Verdict::of(each <= SAMPLE_BYTES_MAX),
    );
    report.figure(
        "99th percentile of the questions",
        format!("{:.0} ms", at(0.99)),
        "at most 200 ms",
        Verdict::of(at(0.99) <= QUESTION_MS_MAX),
    );
    if let Some(memory) = memory {
        report.figure(
            "Most memory of the repository's process",
            format!("{memory} MiB"),
            "at most 100 MiB",
            Verdict::of(memory <= MEMORY_MIB_MAX),
        );
    }
    let mut table = Table::new("", &["", "Measured"]);
    for (name, value) in [
        ("samples", figures::grouped(samples)),
        ("written, samples/s", figures::number(rate)),
        ("tables, bytes for each sample", figures::number(each)),
        ("questions, median ms", figures::number(at(0.5))),
        ("questions, 99th percentile ms", figures::number(at(0.99))),
        ("questions, longest ms", figures::number(at(1.0))),
    ] {
        table.measured(vec![name.into(), value]);
    }
    report.keep(
        "soak",
        json!({"samples": samples, "samples_per_s": rate, "bytes_per_sample": each, "question_ms": {"p50": at(0.5), "p99": at(0.99),
            "max": at(1.0)}, "memory_mib": memory}),
    );
    let mut section = Section {
        title: "What the samples take".into(),
        ..Section::default()
    };
    section.table(table);
    lab.publish(section);
}

/// The most memory that a process of this machine had, in MiB, where the system tells it.
fn memory_mib(process: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib / 1_024)
}
