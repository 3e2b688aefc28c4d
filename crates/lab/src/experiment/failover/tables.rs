//! What is shown of failovers and of idle nodes, beside the targets.

use super::group::Idle;
use super::round::{How, Round};
use crate::experiment::Lab;
use crate::figures::{counted, median, percentile, range, seconds};
use crate::report::{Section, Table, Verdict};
use serde_json::json;
use std::time::Duration;

/// Of one core.
const IDLE_TARGET_PERCENT: f64 = 0.5;

/// Publishes what idle nodes took.
pub fn idle(lab: &mut Lab, length: Duration, nodes: &[Idle]) {
    let percent = |n: &Idle| n.cpu_s / n.wall_s * 100.0;
    let mut table = Table::new("", &["Node", "Leads", "Processor time", "Of one core"]);
    for node in nodes {
        let leads = match (node.leads_cluster, node.leads_group) {
            (true, true) => "the cluster, the group",
            (true, false) => "the cluster",
            (false, true) => "the group",
            (false, false) => "-",
        };
        table.measured(vec![
            node.node.into(),
            leads.into(),
            seconds(node.cpu_s),
            format!("{:.2} %", percent(node)),
        ]);
    }
    table.note = format!(
        "Over {} without a client. The system counts in steps of 10 ms.",
        seconds(length.as_secs_f64())
    );
    let most = range(&nodes.iter().map(percent).collect::<Vec<_>>());
    let most = most.map_or(f64::NAN, |(_, most)| most);
    lab.report.figure(
        "Idle node",
        format!("{most:.2} % of a core"),
        format!("the dearest of three, target under {IDLE_TARGET_PERCENT} %"),
        Verdict::of(most < IDLE_TARGET_PERCENT),
    );
    lab.report.keep("idle", json!(nodes));
    let mut section = Section {
        title: "Nodes that have nothing to do".into(),
        ..Section::default()
    };
    section.table(table);
    lab.publish(section);
}

/// Publishes failovers of one kind, and how many had begun and ended in no write that was accepted.
pub fn failovers(lab: &mut Lab, how: How, rows: u64, rounds: &[Round], failed: u32) {
    if rounds.is_empty() && failed == 0 {
        return;
    }
    lab.report.figure(
        format!("Failed failovers, {}", how.title()),
        failed.to_string(),
        format!(
            "of {} that were begun, target 0",
            rounds.len() as u64 + u64::from(failed)
        ),
        Verdict::of(failed == 0),
    );
    lab.report
        .keep(format!("{}_failed", how.key()), json!(failed));
    if rounds.is_empty() {
        return;
    }
    let accepted: Vec<f64> = rounds.iter().map(|r| r.accepted_s).collect();
    let (_, longest) = range(&accepted).unwrap_or((f64::NAN, f64::NAN));
    lab.report.figure(
        format!("Failover, {}", how.title()),
        seconds(longest),
        format!(
            "longest of {} to the first accepted write, target under {}",
            rounds.len(),
            seconds(how.target_s())
        ),
        Verdict::of(longest < how.target_s()),
    );
    lab.report.keep(how.key(), json!(rounds));
    let mut section = Section {
        title: format!("Failover: {}", how.title()),
        ..Section::default()
    };
    section.text(format!(
        "{}, each beside a transaction with {} open on the primary. Rows that were acknowledged before must be there, and none of the open \
         transaction.",
        counted(rounds.len() as u64, "failover"),
        counted(rows, "row")
    ));
    section.table(stages(how, rounds));
    lab.publish(section);
}

fn stages(how: How, rounds: &[Round]) -> Table {
    let mut table = Table::new("", &["Until", "Median", "99th percentile", "Longest"]);
    let of = |stage: fn(&Round) -> Option<f64>| rounds.iter().filter_map(stage).collect();
    let noticed: Vec<f64> = of(|r| r.noticed_s);
    let leads: Vec<f64> = of(|r| r.leads_s);
    let accepted: Vec<f64> = of(|r| Some(r.accepted_s));
    let mut list = |name: &str, values: &[f64]| {
        let show = |value: Option<f64>| seconds(value.unwrap_or(f64::NAN));
        table.measured(vec![
            name.into(),
            show(median(values)),
            show(percentile(values, 0.99)),
            show(range(values).map(|(_, longest)| longest)),
        ]);
    };
    if how == How::Automatic {
        list("the node is missed", &noticed);
    }
    list("another shows itself as the primary", &leads);
    list("a write is accepted", &accepted);
    table.note = match how {
        How::Automatic => "From SIGKILL on.",
        How::Planned => "From the statement on the replica that is to lead.",
    }
    .into();
    table
}
