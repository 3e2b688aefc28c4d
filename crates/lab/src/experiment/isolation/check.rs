//! All anomalies of a history.

use super::history::History;
use super::versions::{self, Finding, Versions};
use super::{cycles, graph};

/// Every anomaly in the history, whether its level excludes it or not.
pub fn check(history: &History) -> Vec<Finding> {
    let mut findings = Vec::new();
    let versions = Versions::of(history, &mut findings);
    versions::check_reads(history, &versions, &mut findings);
    let transactions = graph::of_transactions(history, &versions);
    graph::stale_reads(&transactions, history, &mut findings);
    cycles::search(&transactions, &mut findings);
    let statements = graph::of_statements(history, &versions);
    cycles::split_statements(&statements, history.transactions.len(), &mut findings);
    findings
}
