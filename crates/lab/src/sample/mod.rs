//! `daruma sample adventureworks`: the sample database, made over an ordinary connection.
//!
//! Steps: create the database, run the first part of the script (tables), load the files in the order of the tables,
//! run the rest (indexes, foreign keys, views, procedures), compare sums with the published ones.
//!
//! Read next: `load`, `data`.

mod data;
mod load;
mod text;

use clap::{Args, Subcommand};
use daruma_client::client::{Client, ClientError};
use daruma_client::connect::{ConnectArgs, ConnectError};
use daruma_value::Value;
use indicatif::{HumanCount, ProgressBar, ProgressState, ProgressStyle};
use load::{LoadError, Loader, Method};
use std::fmt;
use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use thiserror::Error;

const DATABASE_NAME_CHARS_MAX: usize = 128;

/// Create a sample database
#[derive(Args, Clone, Debug)]
pub struct SampleArgs {
    #[command(subcommand)]
    pub sample: Sample,
}

/// The sample databases there are.
#[derive(Subcommand, Clone, Debug)]
pub enum Sample {
    /// Microsoft's bicycle maker: 59 tables, 700,861 rows, orders from 2011 to 2014
    #[command(name = "adventureworks", after_help = EXAMPLES)]
    AdventureWorks(AdventureWorksArgs),
}

/// Options of `daruma sample adventureworks`.
#[derive(Args, Clone, Debug)]
pub struct AdventureWorksArgs {
    #[command(flatten)]
    pub connect: ConnectArgs,

    /// Name of the new database
    #[arg(
        help_heading = "Options",
        long,
        value_name = "NAME",
        default_value = "AdventureWorks2019"
    )]
    pub database: String,

    /// Replace a database of that name
    #[arg(help_heading = "Options", long)]
    pub drop: bool,

    /// Load by INSERT statements instead of bulk load
    #[arg(help_heading = "Options", long)]
    pub insert: bool,

    /// Say nothing but errors
    #[arg(help_heading = "Options", long)]
    pub quiet: bool,
}

const EXAMPLES: &str = "\
Examples:
  daruma sample adventureworks -S localhost -U sa -P secret -C
      create AdventureWorks2019 on this machine's server
  daruma sample adventureworks -C --drop --database Shop
      replace the database Shop (SQLCMDSERVER, SQLCMDUSER and SQLCMDPASSWORD save the flags)
Then:
  daruma sql -C -d AdventureWorks2019 -Q \"SELECT TOP (5) * FROM Sales.vSalesPerson\"";

/// Why the sample was not made, or not made whole.
#[derive(Debug, Error)]
pub enum SampleError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(
        "database {name} exists already. Add --drop to replace it, or choose another name with --database"
    )]
    Exists { name: String },
    #[error("a database name has 1 to {DATABASE_NAME_CHARS_MAX} characters")]
    Name,
    #[error("line {line} of create.sql: {source}")]
    Script { line: usize, source: ClientError },
    #[error("the database is there, but {count} of its sums differ from the published ones")]
    Sums { count: usize },
}

/// Runs the command; messages have been shown when it returns.
pub fn run(args: &SampleArgs) -> ExitCode {
    let Sample::AdventureWorks(args) = &args.sample;
    match create(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("daruma: {error}");
            ExitCode::FAILURE
        }
    }
}

fn create(args: &AdventureWorksArgs) -> Result<(), SampleError> {
    let mut client = args.connect.connect("daruma sample")?;
    let report = Report { quiet: args.quiet };
    fill(&mut client, &args.database, args.drop, args.insert, &report)
}

/// AdventureWorks as a new database, without a word.
pub fn load_into(client: &mut Client, database: &str) -> Result<(), SampleError> {
    fill(client, database, false, false, &Report { quiet: true })
}

fn fill(
    client: &mut Client,
    database: &str,
    drop: bool,
    insert: bool,
    report: &Report,
) -> Result<(), SampleError> {
    if database.is_empty() || database.chars().count() > DATABASE_NAME_CHARS_MAX {
        return Err(SampleError::Name);
    }
    let begun = Instant::now();
    make_database(client, database, drop, report)?;
    let (tables, rest) = data::scripts();
    report.step("Creating tables");
    run_script(client, tables, 1, report)?;
    let method = if insert { Method::Insert } else { Method::Bulk };
    let loading = Instant::now();
    let rows = load_tables(client, method, report)?;
    report.loaded(rows, loading.elapsed());
    report.step("Creating indexes, foreign keys, views and procedures");
    run_script(client, rest, tables.lines().count() + 1, report)?;
    let wrong = check(client, report)?;
    if wrong > 0 {
        return Err(SampleError::Sums { count: wrong });
    }
    report.step(&format!(
        "{database} is ready after {:.1} s.",
        begun.elapsed().as_secs_f64()
    ));
    Ok(())
}

fn make_database(
    client: &mut Client,
    database: &str,
    drop: bool,
    report: &Report,
) -> Result<(), SampleError> {
    let name = format!("[{}]", database.replace(']', "]]"));
    let id = client.query(&format!(
        "SELECT DB_ID(N'{}')",
        database.replace('\'', "''")
    ))?;
    let exists = id
        .first()
        .and_then(|row| row.first())
        .is_some_and(|id| !id.is_null());
    match (exists, drop) {
        (true, false) => {
            return Err(SampleError::Exists {
                name: database.into(),
            });
        }
        (true, true) => {
            report.step(&format!("Dropping {database}"));
            // Others who use it are thrown out; if that is refused, DROP says why it cannot be done.
            let _ = client.execute(&format!(
                "ALTER DATABASE {name} SET SINGLE_USER WITH ROLLBACK IMMEDIATE"
            ));
            client.execute(&format!("DROP DATABASE {name}"))?;
        }
        (false, _) => {}
    }
    report.step(&format!("Creating {database} on {}", client.server_name()));
    client.execute(&format!("CREATE DATABASE {name}"))?;
    for text in options_of_the_backup(&name) {
        client.execute(&text)?;
    }
    for text in files_of_the_backup(database) {
        // A server that sizes files by itself refuses this, and the sample is as good there.
        let _ = client.execute(&text);
    }
    client.execute(&format!("USE {name}"))?;
    Ok(())
}

/// What a restored AdventureWorks2019.bak says of itself.
fn options_of_the_backup(name: &str) -> [String; 2] {
    ["RECOVERY SIMPLE", "COMPATIBILITY_LEVEL = 150"]
        .map(|option| format!("ALTER DATABASE {name} SET {option}"))
}

/// Its files have 25,600 and 9,216 pages.
fn files_of_the_backup(database: &str) -> [String; 2] {
    let quoted = |name: &str| format!("[{}]", name.replace(']', "]]"));
    [("", 204_800), ("_log", 73_728)].map(|(ending, kib)| {
        format!(
            "ALTER DATABASE {} MODIFY FILE (NAME = {}, SIZE = {kib}KB)",
            quoted(database),
            quoted(&format!("{database}{ending}"))
        )
    })
}

/// Runs the batches of a part of the script that begins in line `first_line`.
fn run_script(
    client: &mut Client,
    script: &str,
    first_line: usize,
    report: &Report,
) -> Result<(), SampleError> {
    let batches = batches(script);
    let bar = report.bar("batches", batches.len());
    for (line, batch) in batches {
        let done = client.execute(&batch);
        done.map_err(|source| SampleError::Script {
            line: first_line + line,
            source,
        })
        .inspect_err(|_| bar.finish_and_clear())?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(())
}

/// Batches that hold more than comments, with the lines they begin in. In our script no string holds a GO line.
fn batches(script: &str) -> Vec<(usize, String)> {
    let (mut batches, mut batch, mut first) = (Vec::new(), String::new(), 0);
    for (at, line) in script.lines().chain(["GO"]).enumerate() {
        if !line.trim().eq_ignore_ascii_case("GO") {
            batch.push_str(line);
            batch.push('\n');
            continue;
        }
        let text = std::mem::take(&mut batch);
        let says_something = text
            .lines()
            .map(str::trim)
            .any(|line| !line.is_empty() && !line.starts_with("--"));
        if says_something {
            batches.push((first, text));
        }
        first = at + 1;
    }
    batches
}

fn load_tables(client: &mut Client, method: Method, report: &Report) -> Result<u64, SampleError> {
    let bar = report.bar("rows", usize::try_from(data::ROWS_TOTAL).unwrap_or(0));
    let mut loader = Loader::new(client, method);
    let mut rows = 0;
    for table in data::tables() {
        bar.set_message(format!("{}.{}", table.schema, table.table));
        let loaded = loader.table(&table, &mut |count| bar.inc(count));
        rows += loaded.inspect_err(|_| bar.abandon())?;
    }
    bar.finish_and_clear();
    if loader.method != method {
        report.step("  (the server refused bulk load; INSERT statements were used)");
    }
    Ok(rows)
}

/// What is asked after a load, and the published answer.
const CHECKS: &[(&str, &str, &str)] = &[
    (
        "SalesOrderDetail rows",
        "SELECT COUNT(*) FROM Sales.SalesOrderDetail",
        "121317",
    ),
    (
        "SalesOrderDetail SUM(LineTotal)",
        "SELECT SUM(LineTotal) FROM Sales.SalesOrderDetail",
        "109846381.399888",
    ),
    (
        "SalesOrderHeader rows",
        "SELECT COUNT(*) FROM Sales.SalesOrderHeader",
        "31465",
    ),
    (
        "SalesOrderHeader SUM(TotalDue)",
        "SELECT SUM(TotalDue) FROM Sales.SalesOrderHeader",
        "123216786.1159",
    ),
    ("Person rows", "SELECT COUNT(*) FROM Person.Person", "19972"),
];

/// Shows the sums; the number of those that differ.
fn check(client: &mut Client, report: &Report) -> Result<usize, SampleError> {
    let mut wrong = 0;
    for (name, query, expected) in CHECKS {
        let rows = client.query(query)?;
        let found = rows
            .first()
            .and_then(|row| row.first())
            .unwrap_or(&Value::Null);
        let found = daruma_client::value::text(found);
        let verdict = if found == *expected {
            "ok".to_string()
        } else {
            format!("expected {expected}")
        };
        wrong += usize::from(found != *expected);
        report.step(&format!("  {name:32} {found:>18}  {verdict}"));
    }
    Ok(wrong)
}

/// What the user sees.
struct Report {
    quiet: bool,
}

impl Report {
    fn step(&self, text: &str) {
        if !self.quiet {
            println!("{text}");
        }
    }

    fn loaded(&self, rows: u64, elapsed: Duration) {
        let seconds = elapsed.as_secs_f64().max(0.001);
        let rate = HumanCount((rows as f64 / seconds) as u64);
        self.step(&format!(
            "Loaded {} rows into {} tables in {seconds:.1} s ({rate} rows/s)",
            HumanCount(rows),
            data::tables().len()
        ));
    }

    /// A bar for people at a terminal, nothing for logs.
    fn bar(&self, what: &'static str, count: usize) -> ProgressBar {
        if self.quiet || !io::stderr().is_terminal() {
            return ProgressBar::hidden();
        }
        let bar = ProgressBar::new(u64::try_from(count).unwrap_or(0));
        let template = "{bar:30.green/dim} {percent:>3} %  {human_pos} of {human_len} {rate}  ETA {eta:<4} {wide_msg:.dim}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            let rate = move |state: &ProgressState, out: &mut dyn fmt::Write| {
                // A bar that cannot be drawn is no reason to stop.
                let _ = write!(
                    out,
                    "{:>14}",
                    format!("{} {what}/s", HumanCount(state.per_sec() as u64))
                );
            };
            bar.set_style(style.with_key("rate", rate).progress_chars("━╸─"));
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        bar
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sample_is_laid_like_the_restored_backup() {
        let [rows, log] = files_of_the_backup("A]W");
        assert!(rows.ends_with("MODIFY FILE (NAME = [A]]W], SIZE = 204800KB)"));
        assert!(log.ends_with("MODIFY FILE (NAME = [A]]W_log], SIZE = 73728KB)"));
        assert_eq!(204_800 / 8, 25_600);
        assert_eq!(73_728 / 8, 9_216);
        let [_, level] = options_of_the_backup("[x]");
        assert_eq!(level, "ALTER DATABASE [x] SET COMPATIBILITY_LEVEL = 150");
    }

    #[test]
    fn batches_know_their_lines() {
        let script = "-- head\nGO\nCREATE a\nGO\n\n-- remark\nCREATE b\ngo\n\n";
        let found = batches(script);
        assert_eq!(
            found,
            [
                (2, "CREATE a\n".to_string()),
                (4, "\n-- remark\nCREATE b\n".to_string())
            ]
        );
    }

    #[test]
    fn the_script_falls_into_batches() {
        let (tables, rest) = data::scripts();
        assert!(batches(tables).len() > 59);
        assert!(
            batches(rest)
                .iter()
                .any(|(_, batch)| batch.contains("CREATE TRIGGER"))
        );
    }
}
