//! The scripts of two published tests of accelerated recovery, statement by statement as printed, over small data.
//!
//! The texts are those that the parser's tests print (`golden/syntax/articles`). What surrounds them is here: the sample
//! database that they restore, and what must be true after each script. The only change: where a script inserts two million
//! rows, the number is smaller.

mod common;

use common::{Client, Server};
use daruma_tsql::instance::ShutdownRequest;
use std::path::Path;

const DATABASES: [&str; 4] = ["AW2019_150", "AW2019_150_AR", "AW2019_160", "AW2019_160_AR"];
const ROWS: u32 = 400;

fn script(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../golden/syntax/articles")
        .join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Batches of a script, and how often each is to run (`GO n`).
fn batches(script: &str) -> Vec<(String, u32)> {
    let (mut list, mut batch) = (Vec::new(), String::new());
    for line in script.lines().chain(["go"]) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [go, ..] if go.eq_ignore_ascii_case("go") => {
                let count = words.get(1).map_or(1, |n| n.parse().expect("a count"));
                if !batch.trim().is_empty() {
                    list.push((std::mem::take(&mut batch), count));
                }
            }
            _ => {
                batch.push_str(line);
                batch.push('\n');
            }
        }
    }
    list
}

/// Runs a batch as often as the script says; no statement may fail. What the last run shows.
fn run(c: &mut Client, (batch, count): &(String, u32)) -> String {
    let mut out = String::new();
    for _ in 0..*count {
        out = c.run(batch);
        let failed = out.lines().find(|l| {
            l.starts_with("Msg ") && !l.contains(", Level 0,") && !l.contains(", Level 10,")
        });
        assert_eq!(failed, None, "{batch}\n{out}");
    }
    out
}

/// A backup of a database with the table of the scripts, under the name they restore from.
fn server_with_backup() -> Server {
    let server = Server::new();
    let mut c = server.connect();
    let mut run = |batch: &str| {
        let out = c.run(batch);
        assert!(!out.contains("Level 16"), "{batch}\n{out}");
    };
    run("CREATE DATABASE AdventureWorks2019");
    run(
        "ALTER DATABASE AdventureWorks2019 SET RECOVERY SIMPLE; ALTER DATABASE AdventureWorks2019 SET COMPATIBILITY_LEVEL = 150",
    );
    run("USE AdventureWorks2019");
    run("CREATE SCHEMA Sales");
    run("CREATE TABLE Sales.SalesOrderDetail (SalesOrderID int NOT NULL, SalesOrderDetailID int IDENTITY NOT NULL,
         CarrierTrackingNumber nvarchar(25) NULL, OrderQty smallint NOT NULL, ProductID int NOT NULL, UnitPrice money NOT NULL,
         UnitPriceDiscount money NOT NULL CONSTRAINT df_discount DEFAULT 0.0,
         CONSTRAINT pk_detail PRIMARY KEY (SalesOrderID, SalesOrderDetailID))");
    run("CREATE INDEX ix_product ON Sales.SalesOrderDetail (ProductID)");
    run(&format!("INSERT Sales.SalesOrderDetail (SalesOrderID, CarrierTrackingNumber, OrderQty, ProductID, UnitPrice)
         SELECT 43659 + value / 4, CONCAT('4911-403C-', value % 100), 1 + value % 5, value % 30, value * 1.5 FROM GENERATE_SERIES(1, {ROWS})"));
    run(
        "CREATE TRIGGER Sales.iduSalesOrderDetail ON Sales.SalesOrderDetail AFTER INSERT, DELETE, UPDATE AS THROW 50000, 'not disabled', 1",
    );
    run("USE master");
    run("BACKUP DATABASE AdventureWorks2019 TO DISK = N'c:\\Backups\\AdventureWorks2019.bak'");
    c.session.close();
    server
}

fn sums(c: &mut Client, database: &str) -> String {
    c.run(&format!("SELECT COUNT(*), SUM(OrderQty), SUM(UnitPrice), SUM(UnitPriceDiscount), SUM(LEN(CarrierTrackingNumber)) FROM {database}.Sales.SalesOrderDetail"))
}

#[test]
fn the_scripts_of_the_first_article_run_as_printed() {
    let server = server_with_backup();
    let mut c = server.connect();
    let original = sums(&mut c, "AdventureWorks2019");
    let mut shown = String::new();
    for batch in batches(&script("adr_setup.sql")) {
        shown = run(&mut c, &batch);
    }
    // The overview that the set-up ends with, as the article shows it.
    let overview: Vec<&str> = shown.lines().collect();
    assert_eq!(
        overview,
        [
            "name | compatibility_level | recovery_model | is_ADR_on",
            "AW2019_150 | 150 | 1 | 0",
            "AW2019_150_AR | 150 | 1 | 1",
            "AW2019_160 | 160 | 1 | 0",
            "AW2019_160_AR | 160 | 1 | 1",
            "(4 rows affected)"
        ]
    );
    for database in DATABASES {
        assert_eq!(sums(&mut c, database), original, "{database}");
    }
    // The load script: pairs, sizes, cleanup, 50 pairs and ROLLBACK, SHUTDOWN, and the error log after the restart.
    let load = batches(&script("adr_load.sql"));
    let find = |text: &str| {
        load.iter()
            .position(|(b, _)| b.to_lowercase().contains(text))
            .expect(text)
    };
    let (sizes, shutdown) = (find("#temptable"), find("shutdown with nowait"));
    let pairs = run(&mut c, &load[0]);
    assert_eq!(
        pairs.matches(&format!("({ROWS} rows affected)")).count(),
        8,
        "{pairs}"
    );
    run(&mut c, &load[sizes]);
    let listed =
        c.run("SELECT COUNT(DISTINCT FileSize) AS kinds, COUNT(*) AS files FROM #TempTable");
    assert!(!listed.contains("Msg"), "{listed}");
    for batch in &load[sizes + 1..shutdown] {
        run(&mut c, batch);
    }
    assert!(
        load[sizes + 1..shutdown]
            .iter()
            .any(|(_, count)| *count == 50),
        "fifty pairs"
    );
    for database in DATABASES {
        assert_eq!(
            sums(&mut c, database),
            original,
            "{database} after the rollback"
        );
    }
    // All eight statements, over and over, in a transaction that is open when the server goes.
    run(&mut c, &("BEGIN TRANSACTION".to_string(), 1));
    run(&mut c, &(load[0].0.clone(), 10));
    let mut second = server.connect();
    run(&mut second, &load[shutdown]);
    assert_eq!(
        server.instance.shutdown_requested(),
        Some(ShutdownRequest::NoWait)
    );
    server.disk.stop();
    drop((c, second));
    let server = server.crash();
    let mut c = server.connect();
    let log = run(&mut c, &load[shutdown + 1]);
    for database in DATABASES {
        let line = format!("Recovery completed for database {database} (database ID ");
        assert!(log.contains(&line), "{database}: {log}");
        assert_eq!(
            sums(&mut c, database),
            original,
            "{database} after the restart"
        );
    }
}

#[test]
fn the_scripts_of_the_second_article_run_as_printed() {
    const PRINTED: &str = "top 2000000 ";
    let server = Server::new();
    let mut c = server.connect();
    c.run("CREATE DATABASE testrecovery");
    c.run("USE testrecovery");
    let columns: Vec<String> = (1..=20)
        .map(|n| format!("c{n} uniqueidentifier NOT NULL"))
        .collect();
    let made = c.run(&format!("CREATE TABLE t11 ({})", columns.join(", ")));
    assert_eq!(made, "");
    let is_on =
        "SELECT is_accelerated_database_recovery_on FROM sys.databases WHERE name = 'testrecovery'";
    for (at, (batch, count)) in batches(&script("adr_large.sql")).into_iter().enumerate() {
        let out = run(&mut c, &(batch.replace(PRINTED, "top 3000 "), count));
        match at {
            0 => assert_eq!(c.scalar(is_on), "1"),
            1 => {
                assert!(
                    batch.contains(PRINTED) && out.contains("(3000 rows affected)"),
                    "{out}"
                );
                assert_eq!(c.scalar("SELECT COUNT(*) FROM t11"), "0");
                // So that the next script can move the version store, as the documentation asks for.
                c.run("ALTER DATABASE testrecovery SET ACCELERATED_DATABASE_RECOVERY = OFF");
            }
            _ => {}
        }
    }
    assert_eq!(c.scalar(is_on), "1");
    let home = "SELECT f.name FROM sys.dm_tran_persistent_version_store_stats s JOIN sys.filegroups f ON f.data_space_id = s.pvs_filegroup_id WHERE s.database_id = DB_ID()";
    assert_eq!(c.scalar(home), "VersionStoreFG");
    // The log of an open transaction, as the study shows it: nothing waits for it.
    run(&mut c, &("BEGIN TRAN; INSERT INTO t11 SELECT TOP 3000 newid(),newid(),newid(),newid(),newid(),newid(),newid(),newid(),newid(),newid(),newid(),newid(),newid(),newid(),newid(),newid(),newid(),newid(),newid(),newid() FROM sys.columns a CROSS JOIN sys.columns b; CHECKPOINT".to_string(), 1));
    assert_eq!(
        c.scalar("SELECT log_reuse_wait_desc FROM sys.databases WHERE name = 'testrecovery'"),
        "NOTHING"
    );
}
