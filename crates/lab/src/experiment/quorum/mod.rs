//! `daruma lab quorum`: which losses a cluster survives, and what becomes of the votes.
//!
//! After the article "Dynamic Quorum and Dynamic Witness in Windows 2012 R2": two nodes and a share, of which one and then the other goes, with
//! both nodes voting and with one; its two tables after each step, beside what it says. Then Microsoft's table of losses for two to
//! five nodes, with and without a witness, and the orders in which a share and a node may go.
//!
//! | module | what it is |
//! |---|---|
//! | `article` | the two scenarios |
//! | `bed` | the servers of a cluster, and their losses |
//! | `losses` | the table of losses |
//! | `published` | what is published, and where this cluster does otherwise |
//! | `seen` | what a node shows |
//!
//! Invariant: a difference that is not known beforehand, with its reason, is missed, and the exit code says so.

mod article;
pub(super) mod bed;
mod losses;
mod published;
pub(super) mod seen;

use super::{Ending, Lab, LabError, LabOptions};
use crate::report::Report;
use bed::Bed;
use clap::Args;
use std::time::{Duration, Instant};

/// Options of `daruma lab quorum`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct QuorumArgs {
    #[command(flatten)]
    pub options: LabOptions,

    /// Play the article by Windows' rules: a node that stops in order keeps its vote beside a witness
    #[arg(help_heading = "Experiment", long)]
    pub windows_rules: bool,

    /// Play the article alone, and no table of losses
    #[arg(help_heading = "Experiment", long)]
    pub article_only: bool,

    /// Clusters of up to so many nodes lose some of them [default: 5; quick: 3]
    #[arg(help_heading = "Experiment", long, value_name = "N", value_parser = clap::value_parser!(u8).range(2..=5))]
    pub nodes: Option<u8>,

    /// Time that the last node sits alone, as for five minutes in the article [default: 10; quick: 1]
    #[arg(help_heading = "Experiment", long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(0..=86_400))]
    pub sit: Option<u64>,

    /// The experiment ends after so many minutes, with what it has found
    #[arg(help_heading = "Experiment", long, value_name = "MINUTES", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=1440))]
    pub limit: u64,
}

const EXAMPLES: &str = "\
Servers are started on scratch folders of this machine as nodes of a cluster, stopped, killed and cut off from their witness, and removed
at the end: it takes no -S.

Verdicts: matches; differs, where this cluster is known to do otherwise, with the reason; missed. Missed is exit code 3.

Examples:
  daruma lab quorum --quick
  daruma lab quorum --windows-rules --article-only --sit 300
  daruma lab quorum --nodes 2";

/// Plays the article's scenarios and the table of losses, and writes the report.
pub fn run(args: &QuorumArgs) -> Result<Ending, LabError> {
    if args.options.connect.server.is_some() && !args.options.private {
        return Err(LabError::OwnServersOnly);
    }
    let report = Report {
        experiment: "quorum".into(),
        title: "Dynamic quorum and dynamic witness".into(),
        lead: "Who has a vote after each loss, and which losses does a cluster of two to five nodes survive, with and without a witness?".into(),
        source: published::source(),
        ..Report::default()
    };
    let mut lab = Lab::start(&args.options, report)?;
    let outcome = steps(&mut lab, args);
    lab.finish(outcome)
}

fn steps(lab: &mut Lab, args: &QuorumArgs) -> Result<(), LabError> {
    let until = Instant::now() + Duration::from_secs(args.limit * 60);
    // It has told what it is, and no cluster needs it.
    lab.server_mut().ok_or(LabError::OwnServersOnly)?.stop()?;
    let rules = match args.windows_rules {
        true => "those of Windows",
        false => "a node that stops in order gives its vote away",
    };
    lab.report.fact("Rules", rules);
    let quick = args.options.quick;
    let sit_s = args.sit.unwrap_or(if quick { 1 } else { 10 });
    article::play(lab, args.windows_rules, sit_s, until)?;
    if args.article_only {
        return Ok(());
    }
    let nodes = args.nodes.unwrap_or(if quick { 3 } else { 5 });
    losses::play(lab, usize::from(nodes), until)
}

/// Lets time go by.
fn sit(lab: &Lab, bed: &Bed, seconds: u64) -> Result<(), LabError> {
    let until = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < until {
        bed.pause(lab)?;
    }
    Ok(())
}
