//! `daruma lab NAME`: an experiment from its beginning to its report.
//!
//! | module | what it reproduces or proves |
//! |---|---|
//! | [`adr`] | accelerated recovery: setup and metrics (article of the Mainzer Datenfabrik, 2024) |
//! | [`backup`] | backups onto a slow disk (article of SE の雑記, 2015) |
//! | [`crash`] | the server killed under load, compared with the clients' journals |
//! | [`durability`] | a purge with delayed durability (article of the SentryOne Team Blog, 2017) |
//! | [`failover`] | how long a group has no primary: killed and planned, with an open transaction; what an idle node costs |
//! | [`isolation`] | anomalies of concurrent transactions at each isolation level |
//! | [`quorum`] | which losses a cluster survives (Dynamic Quorum and Dynamic Witness in Windows 2012 R2, 2017) |
//! | [`ratios`] | on / off ratios of accelerated recovery in one run |
//! | [`replication`] | synchronous commit and compression of the log stream (The Curious Case of Compression, 2017) |
//! | [`soak`] | a day of samples in the monitor's repository |
//! | [`recovery`] | recovery and rollback of large transactions (article of careyson, 2024) |
//!
//! Theory: an experiment asks a [`Lab`] for a server, runs statements over TDS, publishes sections as they are done, and
//! never makes up a figure: what a server does not support is said and left out. Whatever happens, the report of what
//! was found up to then is written.
//!
//! Invariant: databases that were there before are never touched; those an experiment made are dropped at its end.

mod acquaint;
pub mod adr;
pub mod backup;
mod beside;
mod context;
pub mod crash;
pub mod durability;
pub mod failover;
pub mod isolation;
mod machine;
mod probe;
pub mod quorum;
mod random;
pub mod ratios;
pub mod recovery;
mod recovery_log;
pub mod replication;
pub mod soak;

pub use context::{Lab, LabError, LabOptions};

use clap::{Args, Subcommand};
use std::process::ExitCode;

/// Run an experiment and write report.html and results.json
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct LabArgs {
    #[command(subcommand)]
    pub experiment: Experiment,
}

/// The experiments; each has a page of its own in `--help`.
#[derive(Subcommand, Clone, Debug)]
pub enum Experiment {
    /// Accelerated recovery on AdventureWorks: file sizes, 10 x 10 updates, rollback, crash recovery, on and off
    Adr(Box<adr::AdrArgs>),
    /// Recovery and rollback against transaction size, log space, version store space, on and off
    Recovery(Box<recovery::RecoveryArgs>),
    /// Delayed durability on a purge: time, waits, flushes, a kill in the middle, where it pays
    Durability(Box<durability::DurabilityArgs>),
    /// The server under load, killed again and again, compared with the clients' journals
    Crash(Box<crash::CrashArgs>),
    /// Random transactions at each isolation level, their anomalies found and compared with what the level promises
    Isolation(Box<isolation::IsolationArgs>),
    /// Backups onto slow disks: plain and compressed, 1 to 16 files, and the defaults
    Backup(Box<backup::BackupArgs>),
    /// On / off ratios of accelerated recovery: updates, transactions, inserts, redo, rollback, log bytes
    Ratios(Box<ratios::RatiosArgs>),
    /// Two servers: what synchronous commit costs over four links, compressed and not; seeding, readers, failovers
    Replication(Box<replication::ReplicationArgs>),
    /// Clusters of two to five servers: votes after each loss, and which losses are survived, with and without a witness
    Quorum(Box<quorum::QuorumArgs>),
    /// A day of samples of ten servers in the monitor's repository: size, time of the page's questions, memory
    Soak(Box<soak::SoakArgs>),
    /// Three nodes and a group: time to the first accepted write after kill -9 and after a planned failover; cost of an idle node
    Failover(Box<failover::FailoverArgs>),
}

const EXAMPLES: &str = "\
Without -S (and SQLCMDSERVER) a private server is started on a scratch folder and removed at the end.
With -S the parts that need no control of the server process run against that server.
Ends with 0 when every check held and every target was met, with 3 when a target was missed, with 1 when a check failed.
Examples:
  daruma lab adr --quick
  daruma lab recovery --rows 20000000 --out recovery-20m
  daruma lab adr -S db1,1433 -U sa -C";

/// How an experiment ended; worse endings are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ending {
    /// Every check held, every target was met.
    Well,
    /// Every check held, a target was missed.
    Missed,
    /// A check failed, or the experiment ended early.
    Failed,
}

/// The exit code for a missed target; 1 is for failures, 2 for a command line that is not understood.
const MISSED_CODE: u8 = 3;

impl From<Ending> for ExitCode {
    fn from(ending: Ending) -> ExitCode {
        match ending {
            Ending::Well => ExitCode::SUCCESS,
            Ending::Missed => ExitCode::from(MISSED_CODE),
            Ending::Failed => ExitCode::FAILURE,
        }
    }
}

/// Runs the command; messages have been shown when it returns.
pub fn run(args: &LabArgs) -> ExitCode {
    let done = match &args.experiment {
        Experiment::Adr(args) => adr::run(args),
        Experiment::Recovery(args) => recovery::run(args),
        Experiment::Durability(args) => durability::run(args),
        Experiment::Crash(args) => crash::run(args),
        Experiment::Isolation(args) => isolation::run(args),
        Experiment::Backup(args) => backup::run(args),
        Experiment::Ratios(args) => ratios::run(args),
        Experiment::Replication(args) => replication::run(args),
        Experiment::Quorum(args) => quorum::run(args),
        Experiment::Soak(args) => soak::run(args),
        Experiment::Failover(args) => failover::run(args),
    };
    match done {
        Ok(ending) => ending.into(),
        Err(error) => {
            eprintln!("daruma: {error}");
            ExitCode::FAILURE
        }
    }
}
