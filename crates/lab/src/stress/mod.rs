//! `daruma stress`: a load tool in the manner of SQLQueryStress.
//!
//! The table names what is measured as that tool does: processor time and duration as the server tells them with
//! SET STATISTICS, the client's own time, the whole run, logical reads; and the percentiles it does not have.

pub mod load;

use crate::figures;
use crate::interrupt;
use clap::Args;
use daruma_client::client::{ClientError, Options};
use daruma_client::connect::{ConnectArgs, ConnectError, seconds};
use indicatif::{ProgressBar, ProgressStyle};
use load::{LoadPlan, LoadResult};
use serde_json::json;
use std::io::{self, IsTerminal, Read};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use thiserror::Error;

const QUERY_BYTES_MAX: u64 = 64 << 20;

/// Run a query many times from many sessions and show what it costs
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct StressArgs {
    #[command(flatten)]
    pub connect: ConnectArgs,

    /// Query to run, as one batch
    #[arg(
        help_heading = "Load",
        value_name = "QUERY",
        conflicts_with = "input_file",
        allow_hyphen_values = true
    )]
    pub query_text: Option<String>,

    /// The same as QUERY
    #[arg(help_heading = "Load", short = 'Q', long, value_name = "QUERY", conflicts_with_all = ["query_text", "input_file"], allow_hyphen_values = true)]
    pub query: Option<String>,

    /// Read the query from this file; - is standard input
    #[arg(help_heading = "Load", short = 'i', long, value_name = "FILE")]
    pub input_file: Option<PathBuf>,

    /// Sessions
    #[arg(help_heading = "Load", short = 't', long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=load::THREADS_MAX as u64))]
    pub threads: u64,

    /// Iterations of every session
    #[arg(help_heading = "Load", short = 'n', long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub iterations: u64,

    /// Database to begin in
    #[arg(
        help_heading = "Load",
        short = 'd',
        long,
        value_name = "DATABASE",
        env = "SQLCMDDBNAME",
        hide_env_values = true
    )]
    pub database: Option<String>,

    /// Milliseconds between a session's iterations
    #[arg(help_heading = "Load", long, value_name = "MS", default_value_t = 0)]
    pub delay: u64,

    /// Seconds after which an iteration is cancelled and counted as failed, 0 for never
    #[arg(
        help_heading = "Load",
        long,
        value_name = "SECONDS",
        default_value_t = 0
    )]
    pub timeout: u64,

    /// Do not ask for statistics: no CPU s, actual s and logical reads, a little less work
    #[arg(help_heading = "Load", long)]
    pub no_statistics: bool,

    /// Print the result as JSON
    #[arg(help_heading = "Load", long)]
    pub json: bool,
}

const EXAMPLES: &str = "\
Examples:
  daruma stress -C \"select count(*) from sys.objects\" --threads 8 --iterations 100
  daruma stress -S db1,1433 -U sa -C -d Shop -i update_pair.sql -t 10 -n 10
  daruma stress -C -i query.sql -t 32 -n 1000 --json > result.json
Ctrl-C ends the run after the iterations under way and shows what was measured.";

#[derive(Debug, Error)]
enum StressError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("say what to run: daruma stress \"SELECT ...\", or -i FILE")]
    NoQuery,
    #[error("cannot read {}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
}

/// Runs the command; messages have been shown when it returns. Failed iterations make it fail.
pub fn run(args: &StressArgs) -> ExitCode {
    match stress(args) {
        Ok(result) if result.failed == 0 => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("daruma: {error}");
            ExitCode::FAILURE
        }
    }
}

fn stress(args: &StressArgs) -> Result<LoadResult, StressError> {
    let plan = LoadPlan {
        delay: Duration::from_millis(args.delay),
        statistics: !args.no_statistics,
        ..LoadPlan::new(
            query_text(args)?,
            usize::try_from(args.threads).unwrap_or(load::THREADS_MAX),
            args.iterations,
        )
    };
    let options = Options {
        database: args.database.clone().unwrap_or_default(),
        query_timeout: seconds(args.timeout),
        ..args.connect.options("daruma stress")?
    };
    let bar = progress_bar(args, &plan);
    let result = load::run(&options, &plan, &interrupt::flag(), &|| bar.inc(1));
    bar.finish_and_clear();
    let result = result?;
    if args.json {
        println!("{:#}", json_result(&plan, &options, &result));
    } else {
        print!("{}", table(&plan, &result));
    }
    for (text, count) in &result.errors {
        eprintln!("{count} times: {text}");
    }
    Ok(result)
}

fn query_text(args: &StressArgs) -> Result<String, StressError> {
    if let Some(text) = args.query.as_ref().or(args.query_text.as_ref()) {
        return Ok(text.clone());
    }
    let path = args.input_file.clone().ok_or(StressError::NoQuery)?;
    let failed = |source| StressError::File {
        path: path.clone(),
        source,
    };
    let mut input: Box<dyn Read> = if path.as_os_str() == "-" {
        Box::new(io::stdin())
    } else {
        Box::new(std::fs::File::open(&path).map_err(failed)?)
    };
    let mut text = String::new();
    input
        .by_ref()
        .take(QUERY_BYTES_MAX)
        .read_to_string(&mut text)
        .map_err(failed)?;
    Ok(text.trim_start_matches('\u{feff}').to_string())
}

fn progress_bar(args: &StressArgs, plan: &LoadPlan) -> ProgressBar {
    if args.json || !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(plan.iterations.saturating_mul(plan.threads as u64));
    let template =
        "{bar:30.green/dim} {percent:>3} %  {human_pos} of {human_len}  {per_sec}  ETA {eta}";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("━╸─"));
    }
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// The rows of the table: name and value.
pub fn rows(result: &LoadResult) -> Vec<(&'static str, String)> {
    let four = |value: Option<f64>| value.map_or_else(|| "-".into(), |v| format!("{v:.4}"));
    let ms = |seconds: f64| format!("{:.3} ms", seconds * 1e3);
    vec![
        (
            "Iterations completed",
            figures::grouped(result.completed as f64),
        ),
        ("Total exceptions", figures::grouped(result.failed as f64)),
        ("CPU s/iteration (avg)", four(result.cpu_s())),
        ("Actual s/iteration (avg)", four(result.actual_s())),
        ("Client s/iteration (avg)", four(result.client_s())),
        (
            "Logical reads/iteration (avg)",
            four(result.logical_reads()),
        ),
        ("Total", figures::clock(result.total)),
        ("Iterations/s", figures::number(result.per_second())),
        ("p50", ms(result.percentile_s(50.0))),
        ("p95", ms(result.percentile_s(95.0))),
        ("p99", ms(result.percentile_s(99.0))),
        ("max", ms(result.max_s())),
    ]
}

fn table(plan: &LoadPlan, result: &LoadResult) -> String {
    let mut text = format!(
        "{} threads x {} iterations\n",
        plan.threads, plan.iterations
    );
    for (name, value) in rows(result) {
        text.push_str(&format!("  {name:<30}{value:>16}\n"));
    }
    text
}

fn json_result(plan: &LoadPlan, options: &Options, result: &LoadResult) -> serde_json::Value {
    json!({
        "server": options.server(),
        "threads": plan.threads,
        "iterations": plan.iterations,
        "completed": result.completed,
        "exceptions": result.failed,
        "errors": result.errors,
        "cpu_s_per_iteration": result.cpu_s(),
        "actual_s_per_iteration": result.actual_s(),
        "client_s_per_iteration": result.client_s(),
        "logical_reads_per_iteration": result.logical_reads(),
        "total_s": result.total.as_secs_f64(),
        "iterations_per_s": result.per_second(),
        "rows": result.rows,
        "p50_s": result.percentile_s(50.0),
        "p95_s": result.percentile_s(95.0),
        "p99_s": result.percentile_s(99.0),
        "max_s": result.max_s(),
    })
}
