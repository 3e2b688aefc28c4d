//! `daruma lab failover`: how long a group has no primary, and what a node costs that has nothing to do.
//!
//! Theory: what clients feel is the time from the loss to the first write that is acknowledged again, so that is what counts; when the loss was
//! noticed and when another led says where the time went. Real processes, a real SIGKILL, and a transaction of many rows that is open on the primary each
//! time: it must be gone afterwards, and everything that was acknowledged must be there.
//!
//! | module | what it is |
//! |---|---|
//! | `group` | three nodes, and a group on two or three of them |
//! | `round` | one failover, measured |
//! | `tables` | what is shown of them |

mod group;
mod round;
mod tables;

use super::{Ending, Lab, LabError, LabOptions};
use crate::report::{Report, Source};
use clap::Args;
use group::Group;
use round::{How, Round};
use std::time::{Duration, Instant};

/// Options of `daruma lab failover`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct FailoverArgs {
    #[command(flatten)]
    pub options: LabOptions,

    /// Failovers of each kind [default: 100; quick: 2]
    #[arg(help_heading = "Experiment", long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub rounds: Option<u32>,

    /// Rows of the transaction that is open on the primary each time [default: 10000000; quick: 10000]
    #[arg(help_heading = "Experiment", long, value_name = "N", value_parser = clap::value_parser!(u64).range(0..=100_000_000))]
    pub rows: Option<u64>,

    /// Replicas of the group; the third node votes in any case
    #[arg(help_heading = "Experiment", long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(2..=3))]
    pub replicas: u8,

    /// Seconds over which the processor time of idle nodes is taken [default: 60; quick: 5]
    #[arg(help_heading = "Experiment", long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub idle: Option<u64>,

    /// The experiment ends after so many minutes, with what it has found
    #[arg(help_heading = "Experiment", long, value_name = "MINUTES", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..=10_080))]
    pub limit: u64,
}

/// A round that could not be played is played again, so many times in all.
const TRIES_MAX: u32 = 3;

const EXAMPLES: &str = "\
Three servers are started on scratch folders of this machine as nodes of a cluster, with a synchronous group that fails over by itself, and removed at
the end: it takes no -S. --memory is for each of them.

Examples:
  daruma lab failover --quick
  daruma lab failover --rounds 20 --rows 1000000
  daruma lab failover --replicas 2 --idle 300";

impl FailoverArgs {
    fn rounds(&self) -> u32 {
        let quick = if self.options.quick { 2 } else { 100 };
        self.rounds.unwrap_or(quick)
    }

    fn rows(&self) -> u64 {
        let quick = if self.options.quick {
            10_000
        } else {
            10_000_000
        };
        self.rows.unwrap_or(quick)
    }

    fn idle(&self) -> Duration {
        let quick = if self.options.quick { 5 } else { 60 };
        Duration::from_secs(self.idle.unwrap_or(quick))
    }
}

/// Starts the nodes, measures them idle, then failovers of both kinds, and writes the report.
pub fn run(args: &FailoverArgs) -> Result<Ending, LabError> {
    if args.options.connect.server.is_some() && !args.options.private {
        return Err(LabError::OwnServersOnly);
    }
    let report = Report {
        experiment: "failover".into(),
        title: "Failover, and a cluster that is idle".into(),
        lead: "How long does a group acknowledge no write when its primary is killed, or another is to lead? What does a node cost that has nothing to do?"
            .into(),
        source: Source {
            text: "No article: the project's own targets.".into(),
            setting: "Three nodes on one machine; silence is a loss after 0.6 s, a lease lasts 1 s (docs/quorum.md, Times).".into(),
        },
        ..Report::default()
    };
    let mut lab = Lab::start(&args.options, report)?;
    let outcome = steps(&mut lab, args);
    lab.finish(outcome)
}

fn steps(lab: &mut Lab, args: &FailoverArgs) -> Result<(), LabError> {
    let until = Instant::now() + Duration::from_secs(args.limit * 60);
    // It has told what it is, and no cluster needs it.
    lab.server_mut().ok_or(LabError::OwnServersOnly)?.stop()?;
    lab.report.fact("Replicas", args.replicas.to_string());
    let mut group = Group::start(lab, usize::from(args.replicas), until)?;
    let idle = group.idle(lab, args.idle())?;
    tables::idle(lab, args.idle(), &idle);
    for how in How::ALL {
        let mut rounds = Vec::new();
        let mut failed = 0;
        let outcome = play(lab, &mut group, args, how, (&mut rounds, &mut failed));
        // What was measured is told also when there was no time for all.
        tables::failovers(lab, how, args.rows(), &rounds, failed);
        outcome?;
    }
    Ok(())
}

fn play(
    lab: &mut Lab,
    group: &mut Group,
    args: &FailoverArgs,
    how: How,
    (rounds, failed): (&mut Vec<Round>, &mut u32),
) -> Result<(), LabError> {
    for number in 1..=args.rounds() {
        let which = format!("failover {number} of {}, {}", args.rounds(), how.title());
        let played = patiently(lab, group, args, how, &which, failed);
        // One that was given up has failed as well.
        *failed += u32::from(std::mem::take(&mut group.is_failing_over));
        rounds.push(played?);
    }
    Ok(())
}

/// A busy machine may keep the owner from answering for so long that another leads before the round has begun: it is played again then. One that
/// had begun is counted as failed.
fn patiently(
    lab: &mut Lab,
    group: &mut Group,
    args: &FailoverArgs,
    how: How,
    which: &str,
    failed: &mut u32,
) -> Result<Round, LabError> {
    let mut tries = 1;
    loop {
        match round::play(lab, group, how, args.rows(), which) {
            Err(LabError::Client(why)) if tries < TRIES_MAX => {
                lab.notice(format!("Played again: {which}, which ended by {why}"));
                *failed += u32::from(std::mem::take(&mut group.is_failing_over));
                group.start_all()?;
                tries += 1;
            }
            ended => return ended,
        }
    }
}
