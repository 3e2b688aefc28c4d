//! `daruma`: the server and its tools in one program.

mod serve;

use clap::{Parser, Subcommand};
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
    Serve(serve::ServeArgs),
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Serve(args) => serve::run(&args),
    }
}
