//! `daruma lab adr`: what accelerated recovery costs and gives, as the Mainzer Datenfabrik measured it.
//!
//! Four databases from AdventureWorks (compatibility level 150 and 160, each with the option off and on); ten sessions
//! with ten pairs of updates that cancel out; fifty pairs in one transaction and ROLLBACK; SHUTDOWN WITH NOWAIT in the
//! middle of a transaction over all of them, and the recovery times of the error log. The version store's filegroup comes in
//! three variants: none, as the article prints it (the ON statement does not name it), and as it is meant.
//!
//! Pairs cancel out, so the sums of the table must be what they were after every step.

mod databases;
mod published;
mod recovery;
mod rollback;
mod timing;

use super::{Ending, Lab, LabError, LabOptions};
use crate::report::Report;
use clap::Args;
use databases::Variant;
pub use databases::sums;
pub use timing::pair;

/// Options of `daruma lab adr`.
#[derive(Args, Clone, Debug)]
pub struct AdrArgs {
    #[command(flatten)]
    pub options: LabOptions,

    /// Sessions of the timing runs [default: 10; quick: 4]
    #[arg(help_heading = "Experiment", long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub threads: Option<u64>,

    /// Pairs of each session [default: 10; quick: 3]
    #[arg(help_heading = "Experiment", long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub iterations: Option<u64>,

    /// Pairs in the transaction that is rolled back [default: 50; quick: 5]
    #[arg(help_heading = "Experiment", long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub pairs: Option<u64>,
}

impl AdrArgs {
    fn threads(&self) -> usize {
        let quick = if self.options.quick { 4 } else { 10 };
        usize::try_from(self.threads.unwrap_or(quick)).unwrap_or(1)
    }

    fn iterations(&self) -> u64 {
        self.iterations
            .unwrap_or(if self.options.quick { 3 } else { 10 })
    }

    fn pairs(&self) -> u64 {
        self.pairs
            .unwrap_or(if self.options.quick { 5 } else { 50 })
    }

    /// Pairs of each database in the transaction that the crash hits.
    fn crash_pairs(&self) -> u64 {
        if self.options.quick { 3 } else { 10 }
    }

    fn rollback_runs(&self) -> usize {
        if self.options.quick { 1 } else { 3 }
    }
}

/// Runs the article's steps on the four databases and writes the report beside its figures.
pub fn run(args: &AdrArgs) -> Result<Ending, LabError> {
    let report = Report {
        experiment: "adr".into(),
        title: "Accelerated database recovery: setup and metrics".into(),
        lead: "What does ACCELERATED_DATABASE_RECOVERY = ON cost when many sessions update, and what does it give when a \
               transaction is rolled back or the server dies in the middle of it?"
            .into(),
        source: published::source(),
        ..Report::default()
    };
    let mut lab = Lab::start(&args.options, report)?;
    let outcome = steps(&mut lab, args);
    lab.finish(outcome)
}

fn steps(lab: &mut Lab, args: &AdrArgs) -> Result<(), LabError> {
    let variants: &[Variant] = match (lab.accelerated_recovery()?, lab.quick) {
        // Without the feature a filegroup for it changes nothing.
        (false, _) => &[Variant::NoFilegroup],
        (true, true) => &[Variant::AsMeant],
        (true, false) => &[Variant::NoFilegroup, Variant::AsPrinted, Variant::AsMeant],
    };
    for variant in variants {
        let set = databases::create(lab, *variant)?;
        timing::run(lab, args, &set)?;
        if variants.last() == Some(variant) {
            rollback::run(lab, args, &set)?;
            recovery::run(lab, args, &set)?;
        }
    }
    Ok(())
}
