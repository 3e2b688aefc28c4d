//! `daruma`: the server and its tools in one program.

mod cluster;
mod monitor;
mod serve;

use clap::{Parser, Subcommand};
use daruma_cli::{group, sql};
use daruma_lab::{experiment, sample, stress};
use std::process::ExitCode;

/// A SQL Server-compatible database server that stands up again at once.
#[derive(Parser)]
#[command(name = "daruma", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Serve(Box<serve::ServeArgs>),
    Sql(Box<sql::SqlArgs>),
    Sample(sample::SampleArgs),
    Cluster(Box<cluster::ClusterArgs>),
    Group(Box<group::GroupArgs>),
    Stress(Box<stress::StressArgs>),
    Lab(experiment::LabArgs),
    Monitor(Box<monitor::MonitorArgs>),
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Serve(args) => serve::run(&args),
        Command::Sql(args) => sql::run(&args),
        Command::Sample(args) => sample::run(&args),
        Command::Cluster(args) => cluster::run(&args),
        Command::Group(args) => group::run(&args),
        Command::Stress(args) => stress::run(&args),
        Command::Lab(args) => experiment::run(&args),
        Command::Monitor(args) => monitor::run(&args),
    }
}
