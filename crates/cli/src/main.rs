//! `daruma`: the server and its tools in one program.

mod cluster;
mod container;
mod init;
mod monitor;
mod serve;

use clap::{Parser, Subcommand};
use daruma_cli::{group, sql};
use daruma_lab::{experiment, sample, stress};
use std::path::Path;
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
    if is_called("sqlcmd") {
        return sql::run_as_sqlcmd();
    }
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

/// Was the program started under this name, by a link or as a copy?
fn is_called(name: &str) -> bool {
    let called = std::env::args_os().next();
    called.is_some_and(|path| Path::new(&path).file_stem() == Some(name.as_ref()))
}
