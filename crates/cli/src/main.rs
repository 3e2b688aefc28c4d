//! `daruma`: the server and its tools in one program.

mod cluster;
mod conf;
mod init;
mod manual;
mod monitor;
mod notify;
mod serve;
mod settings;

use clap::{Parser, Subcommand};
use daruma_cli::{group, sql};
use daruma_lab::{experiment, sample, stress};
use settings::Defaults;
use std::ffi::OsString;
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
    Conf(conf::ConfArgs),
    Sql(Box<sql::SqlArgs>),
    Sample(sample::SampleArgs),
    Cluster(Box<cluster::ClusterArgs>),
    Group(Box<group::GroupArgs>),
    Stress(Box<stress::StressArgs>),
    Lab(experiment::LabArgs),
    Monitor(Box<monitor::MonitorArgs>),
    Completion(manual::CompletionArgs),
    #[command(hide = true)]
    Manual(manual::ManualArgs),
}

fn main() -> ExitCode {
    if is_called("sqlcmd") {
        return sql::run_as_sqlcmd();
    }
    let (cli, defaults) = match is_called("sqlservr") {
        true => (Cli::parse_from(as_sqlservr()), Defaults::PRODUCT),
        false => (Cli::parse(), Defaults::OWN),
    };
    match cli.command {
        Command::Serve(args) => serve::run(&args, &defaults),
        Command::Conf(args) => conf::run(&args),
        Command::Sql(args) => sql::run(&args),
        Command::Sample(args) => sample::run(&args),
        Command::Cluster(args) => cluster::run(&args),
        Command::Group(args) => group::run(&args),
        Command::Stress(args) => stress::run(&args),
        Command::Lab(args) => experiment::run(&args),
        Command::Monitor(args) => monitor::run(&args),
        Command::Completion(args) => manual::complete::<Cli>(&args),
        Command::Manual(args) => manual::write::<Cli>(&args),
    }
}

/// The arguments of the program under the name of SQL Server's: it serves, and shows its error log.
fn as_sqlservr() -> impl Iterator<Item = OsString> {
    let serve = ["daruma", "serve", "--print-log"].map(OsString::from);
    serve.into_iter().chain(std::env::args_os().skip(1))
}

/// Was the program started under this name, by a link or as a copy?
fn is_called(name: &str) -> bool {
    let called = std::env::args_os().next();
    called.is_some_and(|path| Path::new(&path).file_stem() == Some(name.as_ref()))
}
