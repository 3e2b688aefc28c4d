//! `daruma lab recovery`: large transactions that are killed or rolled back, with accelerated recovery and without.
//!
//! After careyson's study (February 2024): recovery with an open transaction of 20 million rows, two million rows by many
//! small statements and by one with the rollback of each, log space while a transaction stays open, and the space of the
//! version store. The table is the study's: a heap of twenty columns filled by NEWID().
//!
//! Every run begins with a new database, so that nothing left over from another one is measured.

mod crash;
mod log_space;
mod rollback;
mod version_space;

use super::{Ending, Lab, LabError, LabOptions};
use crate::report::chart::{Kind, LineSeries};
use crate::report::{Report, Source};
use crate::sql::{Ask, bracketed, quoted};
use clap::Args;
use daruma_client::client::Client;

const COLUMNS: usize = 20;
const ROWS_QUICK: u64 = 100_000;
const ROWS_FULL: u64 = 2_000_000;
/// What the study inserted.
const ROWS_PUBLISHED: u64 = 20_000_000;

/// Options of `daruma lab recovery`.
#[derive(Args, Clone, Debug)]
pub struct RecoveryArgs {
    #[command(flatten)]
    pub options: LabOptions,

    /// Rows of the largest transaction that is killed; the study's was 20000000 [default: 2000000; quick: 100000]
    #[arg(help_heading = "Experiment", long, value_name = "N", value_parser = clap::value_parser!(u64).range(1000..=1_000_000_000))]
    pub rows: Option<u64>,

    /// Rows of the transactions that are rolled back [default: 2000000; quick: 50000]
    #[arg(help_heading = "Experiment", long, value_name = "N", value_parser = clap::value_parser!(u64).range(1000..=1_000_000_000))]
    pub rollback_rows: Option<u64>,
}

impl RecoveryArgs {
    fn rows(&self) -> u64 {
        let normal = if self.options.quick {
            ROWS_QUICK
        } else {
            ROWS_FULL
        };
        self.rows.unwrap_or(normal)
    }

    fn rollback_rows(&self) -> u64 {
        let normal = if self.options.quick {
            ROWS_QUICK / 2
        } else {
            ROWS_FULL
        };
        self.rollback_rows.unwrap_or(normal)
    }

    fn runs(&self) -> usize {
        if self.options.quick { 1 } else { 3 }
    }
}

/// Runs each part in the modes there are and writes the report.
pub fn run(args: &RecoveryArgs) -> Result<Ending, LabError> {
    let report = Report {
        experiment: "recovery".into(),
        title: "Recovery and rollback of large transactions".into(),
        lead: "How long does a database stay away when it dies with a large transaction open, how long does a rollback \
               take, and what does an open transaction do to the log?"
            .into(),
        source: Source {
            text: "Published figures: study of accelerated database recovery, careyson.github.io, 18 February 2024.".into(),
            setting: "Measured there with SQL Server on a test instance that is not described; compare shapes and ratios."
                .into(),
        },
        ..Report::default()
    };
    let mut lab = Lab::start(&args.options, report)?;
    let outcome = steps(&mut lab, args);
    lab.finish(outcome)
}

fn steps(lab: &mut Lab, args: &RecoveryArgs) -> Result<(), LabError> {
    let modes: &[Mode] = if lab.accelerated_recovery()? {
        &[Mode::Classic, Mode::Accelerated]
    } else {
        &[Mode::Classic]
    };
    crash::run(lab, args, modes)?;
    rollback::run(lab, args, modes)?;
    log_space::run(lab, args, modes)?;
    if modes.contains(&Mode::Accelerated) {
        version_space::run(lab, args)?;
    }
    Ok(())
}

/// Is accelerated recovery on?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Classic,
    Accelerated,
}

impl Mode {
    /// As reports name the mode.
    pub const fn title(self) -> &'static str {
        match self {
            Mode::Classic => "off",
            Mode::Accelerated => "on",
        }
    }

    const fn database(self) -> &'static str {
        match self {
            Mode::Classic => "TestRecovery_off",
            Mode::Accelerated => "TestRecovery_on",
        }
    }

    /// Red for off, blue for on, in all charts.
    pub const fn colour(self) -> usize {
        match self {
            Mode::Classic => 1,
            Mode::Accelerated => 0,
        }
    }
}

/// A new database with the empty table, numbers to multiply rows with, and a little committed data.
fn fresh(lab: &mut Lab, mode: Mode, store_filegroup: bool) -> Result<Client, LabError> {
    let name = mode.database();
    let mut client = lab.create_database(name)?;
    client.execute(&format!("ALTER DATABASE {name} SET RECOVERY SIMPLE"))?;
    if mode == Mode::Accelerated {
        accelerate(lab, &mut client, name, store_filegroup)?;
    }
    for statement in table_statements() {
        client.execute(&statement)?;
    }
    client.execute("CREATE TABLE kept (k int NOT NULL PRIMARY KEY, amount int NOT NULL)")?;
    client.execute("INSERT kept SELECT n, 7 * n FROM n WHERE n < 1000")?;
    client.execute("CHECKPOINT")?;
    Ok(client)
}

/// The study's table, and ten thousand numbers to multiply rows with.
pub fn table_statements() -> [String; 3] {
    let columns: Vec<String> = (1..=COLUMNS)
        .map(|n| format!("c{n} uniqueidentifier"))
        .collect();
    let digits = "(VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9))";
    [
        format!("CREATE TABLE t11 ({})", columns.join(", ")),
        "CREATE TABLE n (n int NOT NULL PRIMARY KEY)".into(),
        format!(
            "INSERT n SELECT 1000 * a.d + 100 * b.d + 10 * c.d + e.d FROM {digits} AS a (d), {digits} AS b (d), \
             {digits} AS c (d), {digits} AS e (d)"
        ),
    ]
}

fn accelerate(
    lab: &Lab,
    client: &mut Client,
    name: &str,
    store_filegroup: bool,
) -> Result<(), LabError> {
    let mut clause = "";
    if store_filegroup {
        let file = quoted(&format!("{}VersionStore.ndf", lab.data_folder()?));
        client.execute(&format!(
            "ALTER DATABASE {name} ADD FILEGROUP [VersionStoreFG]"
        ))?;
        client.execute(&format!(
            "ALTER DATABASE {name} ADD FILE (NAME = N'VersionStoreFG', FILENAME = {file}, SIZE = 8192KB, \
             FILEGROWTH = 65536KB) TO FILEGROUP [VersionStoreFG]"
        ))?;
        clause = " (PERSISTENT_VERSION_STORE_FILEGROUP = [VersionStoreFG])";
    }
    client.execute(&format!(
        "ALTER DATABASE {name} SET ACCELERATED_DATABASE_RECOVERY = ON{clause}"
    ))?;
    Ok(())
}

/// `rows` rows by one statement.
pub fn insert_statement(rows: u64) -> String {
    let values = vec!["NEWID()"; COLUMNS].join(", ");
    let sources = if rows > 10_000 {
        "n AS a, n AS b"
    } else {
        "n AS a"
    };
    let sources = if rows > 100_000_000 {
        "n AS a, n AS b, n AS c"
    } else {
        sources
    };
    format!("INSERT INTO t11 SELECT TOP ({rows}) {values} FROM {sources}")
}

/// `rows` rows, each by a statement of its own.
pub fn insert_loop(rows: u64) -> String {
    let values = vec!["NEWID()"; COLUMNS].join(", ");
    format!(
        "SET NOCOUNT ON; DECLARE @i bigint = 0; WHILE @i < {rows} BEGIN INSERT INTO t11 VALUES ({values}); SET @i += 1; END"
    )
}

/// Nothing of the transaction is left, and what was committed before is.
fn check_nothing_left(lab: &mut Lab, mode: Mode, when: &str) -> Result<(), LabError> {
    let mut client = lab.client(mode.database())?;
    let rows = client.text("SELECT COUNT_BIG(*) FROM t11")?;
    lab.report.check(
        format!(
            "accelerated recovery {}: rows of the lost transaction {when}",
            mode.title()
        ),
        "0",
        rows,
    );
    let kept = client.text(
        "SELECT CONCAT(COUNT_BIG(*), ' / ', SUM(CAST(k AS bigint)), ' / ', SUM(CAST(amount AS bigint))) FROM kept",
    )?;
    lab.report.check(
        format!(
            "accelerated recovery {}: sums of committed rows {when}",
            mode.title()
        ),
        "1000 / 499500 / 3496500",
        kept,
    );
    Ok(())
}

fn line(name: impl Into<String>, kind: Kind, colour: usize, points: Vec<(f64, f64)>) -> LineSeries {
    LineSeries {
        name: name.into(),
        kind,
        colour,
        points,
    }
}

/// Pages of a file, by its logical name.
fn file_pages(client: &mut Client, database: &str, file: &str) -> Result<f64, LabError> {
    let query = format!(
        "SELECT size FROM {}.sys.database_files WHERE name = {}",
        bracketed(database),
        quoted(file)
    );
    Ok(client.number(&query)?.unwrap_or(f64::NAN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn enough_numbers_are_joined() {
        assert!(insert_statement(10_000).ends_with("FROM n AS a"));
        assert!(insert_statement(2_000_000).contains("TOP (2000000)"));
        assert!(insert_statement(2_000_000).ends_with("FROM n AS a, n AS b"));
        assert!(insert_statement(200_000_000).ends_with("n AS c"));
        assert_eq!(insert_statement(5).matches("NEWID()").count(), COLUMNS);
    }
}
