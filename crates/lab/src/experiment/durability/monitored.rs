//! The purge as the monitor saw it: baselines of a durable and of a delayed run, and figures 5 to 8 of the article from them.
//!
//! The monitor runs beside the lab and keeps its history on the server under test, like anybody's would. What is compared are
//! its own samples of the two stretches, not the lab's readings; its seconds end on the second, so that a stretch is right to a
//! second at either end.

use super::super::{Lab, LabError};
use super::PUBLISHED;
use crate::figures;
use crate::report::{Section, Table};
use daruma_monitor::compare::{self, Summary};
use daruma_monitor::sql::now;
use daruma_monitor::{Monitor, MonitorOptions};
use serde_json::json;
use std::thread;
use std::time::{Duration, Instant};

/// How long samples may take to be stored.
const PATIENCE: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(50);

/// A stretch in which one purge ran: UTC, ms.
#[derive(Clone, Copy, Debug)]
pub struct Stretch {
    pub from: i64,
    pub to: i64,
}

/// A monitor of the server under test.
pub struct Watch {
    monitor: Monitor,
    runs: [Vec<Stretch>; 2],
}

impl Watch {
    /// Starts the monitor and waits for its first sample.
    pub fn start(lab: &Lab, listen: &str) -> Result<Watch, LabError> {
        let options = MonitorOptions {
            listen: listen.to_string(),
            ..MonitorOptions::new(lab.target().clone())
        };
        let monitor = Monitor::start(&options)
            .map_err(|error| LabError::Unexpected(format!("monitor: {error}")))?;
        if let Some(address) = monitor.address() {
            lab.step(format!("the monitor's page is http://{address}/"));
        }
        let watch = Watch {
            monitor,
            runs: Default::default(),
        };
        watch.wait_for("a first sample", |until| until > 0)?;
        Ok(watch)
    }

    /// Notes a run that began at this moment and ends now.
    pub fn note(&mut self, delayed: bool, from: i64) {
        let [durable, late] = &mut self.runs;
        let runs = if delayed { late } else { durable };
        runs.push(Stretch { from, to: now() });
    }

    fn wait_for(&self, what: &str, is: impl Fn(i64) -> bool) -> Result<(), LabError> {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            let stored = self.monitor.shared().stored.get();
            if is(stored.until.values().copied().max().unwrap_or(0)) {
                return Ok(());
            }
            thread::sleep(POLL);
        }
        let why = self.monitor.shared().stored.get().error.unwrap_or_default();
        Err(LabError::Unexpected(format!(
            "the monitor did not store {what}: {why}"
        )))
    }

    /// Keeps the first run of each kind as a baseline, compares them, and stops the monitor.
    pub fn publish(self, lab: &mut Lab) -> Result<(), LabError> {
        let [durable, delayed] = &self.runs;
        let (Some(a), Some(b)) = (durable.first().copied(), delayed.first().copied()) else {
            return Ok(());
        };
        self.wait_for("the last run", |until| until >= a.to.max(b.to))?;
        let shared = self.monitor.shared().clone();
        let server = shared.servers.first().map_or(1, |server| server.id);
        let mut summaries = Vec::new();
        for (name, run) in [("purge, durable", a), ("purge, delayed", b)] {
            let stretch = shared.repository.stretch(server, run.from, run.to)?;
            let summary = compare::summary(&stretch, run.from, run.to);
            shared
                .repository
                .make_baseline(server, name, "daruma lab", &summary)?;
            summaries.push(summary);
        }
        self.monitor.stop();
        if let [a, b] = summaries.as_slice() {
            section(lab, a, b);
        }
        Ok(())
    }
}

fn total(summary: &Summary, names: &[&str]) -> f64 {
    let of = |name: &&str| {
        let figure = summary.figures.iter().find(|figure| figure.name == **name);
        figure.and_then(|figure| figure.total).unwrap_or(0.0)
    };
    names.iter().map(of).sum()
}

fn section(lab: &mut Lab, a: &Summary, b: &Summary) {
    let seconds = |summary: &Summary| (summary.to - summary.from) as f64 / 1e3;
    let flushes = |s: &Summary| {
        let figure = s.figures.iter().find(|f| f.name == "log_flushes");
        figure.and_then(|f| f.average).unwrap_or(f64::NAN)
    };
    let disk = ["wait_log", "wait_data_read", "wait_other_disk"];
    let rows: [(&str, f64, f64, fn(f64) -> String); 4] = [
        (
            "Figure 5: duration",
            seconds(a),
            seconds(b),
            figures::seconds,
        ),
        (
            "Figure 6: disk waits",
            total(a, &disk) / 1e3,
            total(b, &disk) / 1e3,
            figures::seconds,
        ),
        (
            "Figure 7: log waits",
            total(a, &["wait_log"]) / 1e3,
            total(b, &["wait_log"]) / 1e3,
            figures::seconds,
        ),
        (
            "Figure 8: log flushes/s",
            flushes(a),
            flushes(b),
            figures::number,
        ),
    ];
    let mut table = Table::new("", &["", "Durable", "Delayed", "Saved", "Published saving"]);
    let mut kept = Vec::new();
    for ((name, durable, delayed, show), published) in rows.into_iter().zip(PUBLISHED) {
        let saved = (durable > 0.0).then(|| (1.0 - delayed / durable) * 100.0);
        table.measured(vec![
            name.into(),
            show(durable),
            show(delayed),
            saved.map_or_else(|| "-".into(), |saved| format!("{saved:.0} %")),
            format!("{published:.0} %"),
        ]);
        kept.push(json!({"figure": name, "durable": durable, "delayed": delayed, "saved_percent": saved, "published_percent": published}));
    }
    let mut section = Section {
        title: "The same, as the monitor saw it".into(),
        ..Section::default()
    };
    section.text(format!(
        "One durable and one delayed run, from the samples that daruma monitor took of the server each second and kept in its database \
         DarumaMonitor, as its page compares them (Compare, baselines \"purge, durable\" and \"purge, delayed\"). Samples: {} and {}.",
        a.samples, b.samples
    ));
    section.table(table);
    section.text("Waits are totals of the stretch, flushes are by second; whether the published waits are totals or rates the article does not say.");
    lab.report.keep("monitor", json!(kept));
    lab.publish(section);
}
