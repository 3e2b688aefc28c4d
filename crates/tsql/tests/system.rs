//! System views and procedures as a whole: every one answers, and lists of things are complete.

mod common;

use common::{Client, Server};

fn prepared() -> (Server, Client) {
    let server = Server::new();
    let mut client = server.connect();
    client.run("CREATE DATABASE shop");
    client.run("USE shop");
    let setup = [
        "CREATE TABLE dbo.parent (id int NOT NULL IDENTITY(1, 1) PRIMARY KEY, name nvarchar(20) NOT NULL DEFAULT (N'x'))",
        "CREATE TABLE dbo.child (id int NOT NULL PRIMARY KEY, parent_id int NULL REFERENCES dbo.parent (id), CHECK (id > 0))",
        "CREATE INDEX ix_child ON dbo.child (parent_id)",
        "CREATE VIEW dbo.v AS SELECT id FROM dbo.parent",
        "CREATE PROCEDURE dbo.p @a int AS SELECT @a",
        "CREATE SEQUENCE dbo.s AS bigint START WITH 1",
        "CREATE TYPE dbo.code FROM varchar(10) NOT NULL",
        "INSERT INTO dbo.parent (name) VALUES (N'one'), (N'two')",
    ];
    for statement in setup {
        let out = client.run(statement);
        assert!(!out.contains("Msg "), "{statement}: {out}");
    }
    (server, client)
}

#[test]
fn every_view_answers_from_every_database() {
    let (server, mut client) = prepared();
    let mut names: Vec<(String, String, usize)> = server
        .instance
        .registry()
        .tables()
        .map(|(schema, table)| {
            (
                schema.to_string(),
                table.name().to_string(),
                *table.arguments().end(),
            )
        })
        .collect();
    names.sort();
    for database in ["shop", "tempdb", "master"] {
        for (schema, name, arguments) in &names {
            let is_function = *arguments > 0 || name.starts_with("fn_");
            let call = match is_function {
                true => format!("({})", vec!["NULL"; *arguments].join(", ")),
                false => String::new(),
            };
            let out = client.run(&format!("SELECT * FROM {database}.{schema}.{name}{call}"));
            assert!(
                !out.lines().any(|line| line.starts_with("Msg ")) && out.contains("affected)"),
                "{database}.{schema}.{name}: {out}"
            );
        }
    }
}

#[test]
fn tables_of_a_session_show_in_tempdb_with_their_columns() {
    let (_server, mut client) = prepared();
    client.run("CREATE TABLE #work (a int, b nvarchar(10))");
    let query = "SELECT LEFT(t.name, 6) AS t, c.name FROM tempdb.sys.tables t JOIN tempdb.sys.columns c ON c.object_id = t.object_id WHERE t.object_id = OBJECT_ID('tempdb..#work') ORDER BY c.column_id";
    assert_eq!(
        client.run(query),
        "t | name\n#work_ | a\n#work_ | b\n(2 rows affected)\n"
    );
}

#[test]
fn definitions_of_an_open_transaction_are_seen_by_it_alone() {
    let (server, mut client) = prepared();
    client.run("BEGIN TRANSACTION CREATE TABLE dbo.fresh (id int)");
    let count = "SELECT COUNT(*) FROM sys.tables WHERE name = 'fresh'";
    assert_eq!(client.scalar(count), "1");
    let mut other = server.connect_to("shop");
    assert_eq!(other.scalar(count), "0");
    client.run("ROLLBACK");
    assert_eq!(client.scalar(count), "0");
}

/// Procedures whose rows hold times, paths or sizes: what they have in common is checked.
#[test]
fn reports_name_what_they_are_about() {
    let (_server, mut client) = prepared();
    for (batch, expected) in [
        (
            "EXEC sp_help 'dbo.child'",
            &[
                "Column_name | Type",
                "user table",
                "ix_child",
                "FOREIGN KEY",
                "CHECK",
                "No identity column defined.",
            ][..],
        ),
        (
            "EXEC sp_help",
            &[
                "Name | Owner | Object_type",
                "child | dbo | user table",
                "code | varchar",
            ],
        ),
        ("EXEC sp_help 'dbo.v'", &["view", "Column_name"]),
        ("EXEC sp_help 'dbo.p'", &["stored procedure", "@a | int"]),
        ("EXEC sp_helpdb", &["name | db_size", "shop", "Recovery="]),
        ("EXEC sp_helpdb shop", &["shop", "log only", "data only"]),
        ("EXEC sp_who", &["spid | ecid", "sa", "shop"]),
        ("EXEC sp_who2", &["SPID | Status", "sa", "tests"]),
        ("EXEC sp_lock", &["spid | dbid", "DB"]),
        (
            "EXEC sp_spaceused",
            &["database_name | database_size", "shop", "reserved | data"],
        ),
        (
            "EXEC sp_spaceused 'dbo.parent'",
            &["name | rows", "parent", " KB"],
        ),
        ("EXEC sp_databases", &["DATABASE_NAME", "shop", "tempdb"]),
        ("EXEC xp_msver 'ProductName'", &["Microsoft SQL Server"]),
        ("EXEC xp_msver", &["Index | Name", "ProcessorCount"]),
        (
            "EXEC sp_readerrorlog",
            &["LogDate | ProcessInfo | Text", "Server name is 'DARUMA'"],
        ),
        ("EXEC sp_enumerrorlogs", &["Archive #"]),
        (
            "EXEC sp_updatestats",
            &[
                "Updating [dbo].[parent]",
                "Statistics for all tables have been updated.",
            ],
        ),
        ("EXEC sp_helpuser", &["UserName", "dbo | db_owner"]),
        ("EXEC sp_helpsrvrolemember", &["sysadmin | sa"]),
        (
            "EXEC sp_configure 'show advanced options', 1 RECONFIGURE EXEC sp_configure",
            &[
                "max server memory (MB)",
                "show advanced options | 0 | 1 | 1 | 1",
            ],
        ),
        (
            "DBCC CHECKDB",
            &[
                "There are 2 rows in 1 pages for object \"parent\".",
                "CHECKDB found 0 allocation errors and 0 consistency errors in database 'shop'.",
            ],
        ),
        ("DBCC LOGINFO", &["FileId | FileSize"]),
        (
            "DBCC SQLPERF(LOGSPACE)",
            &[
                "Database Name | Log Size (MB) | Log Space Used (%) | Status",
                "shop",
            ],
        ),
    ] {
        let out = client.run(batch);
        for text in expected {
            assert!(out.contains(text), "{batch} lacks {text}: {out}");
        }
        assert!(!out.contains(", Level 16"), "{batch}: {out}");
    }
}

#[test]
fn the_oldest_writer_is_found() {
    let (server, mut client) = prepared();
    client.run("BEGIN TRANSACTION INSERT INTO dbo.child VALUES (1, NULL)");
    let mut other = server.connect_to("shop");
    let out = other.run("DBCC OPENTRAN");
    let spid = client.session.spid();
    assert!(
        out.contains(&format!("SPID (server process ID): {spid}")),
        "{out}"
    );
}

#[test]
fn application_locks_are_taken_once_and_end_with_their_owner() {
    let (server, mut client) = prepared();
    let take = "DECLARE @r int EXEC @r = sp_getapplock 'job', 'Exclusive', 'Session', 0 SELECT @r";
    assert_eq!(client.scalar(take), "0");
    let mut other = server.connect_to("shop");
    assert_eq!(other.scalar(take), "-1");
    client.run("BEGIN TRANSACTION COMMIT");
    assert_eq!(other.scalar(take), "-1");
    drop(client);
    assert_eq!(other.scalar(take), "0");
}

#[test]
fn a_configured_value_survives_a_restart() {
    let (server, mut client) = prepared();
    client.run("EXEC sp_configure 'backup compression default', 1 RECONFIGURE");
    drop(client);
    let server = server.restart();
    let mut client = server.connect();
    let query = "SELECT CAST(value_in_use AS int) FROM sys.configurations WHERE name = 'backup compression default'";
    assert_eq!(client.scalar(query), "1");
}

#[test]
fn a_log_that_cannot_shrink_says_so_unless_that_is_not_wanted() {
    let (server, mut client) = prepared();
    client.run(
        "SET NOCOUNT ON CREATE TABLE dbo.long (a nvarchar(4000))
         BEGIN TRAN DECLARE @i int = 0
         WHILE @i < 2000 BEGIN INSERT dbo.long VALUES (REPLICATE(N'x', 3500)) SET @i += 1 END",
    );
    let mut other = server.connect_to("shop");
    let loud = other.run("DBCC SHRINKFILE (shop_log, 1)");
    assert!(
        loud.contains("Msg 9008") && loud.contains("DBCC execution completed"),
        "{loud}"
    );
    let quiet = other.run("DBCC SHRINKFILE (shop_log, 1) WITH NO_INFOMSGS");
    assert!(
        quiet.starts_with("DbId | FileId") && !quiet.contains("Msg") && !quiet.contains("DBCC"),
        "{quiet}"
    );
}

/// Counted once for a statement, whatever it does to how many rows; an index that nobody used has no row.
#[test]
fn uses_of_indexes_are_counted() {
    let server = Server::new();
    let mut client = server.connect();
    client.done("CREATE DATABASE u");
    let mut client = server.connect_to("u");
    client.done(
        "CREATE TABLE p (id int CONSTRAINT pk_p PRIMARY KEY, v int, w int);
         CREATE INDEX iv ON p (v); CREATE INDEX iw ON p (w); CREATE INDEX unused ON p (w, v);
         CREATE TABLE c (id int CONSTRAINT pk_c PRIMARY KEY, p int REFERENCES p)",
    );
    const USES: &str = "SELECT CONCAT(i.name, ' ', s.user_seeks, ' ', s.user_scans, ' ', s.user_lookups, ' ', s.user_updates,
        IIF(s.last_user_seek IS NULL, ' ', 'S'), IIF(s.last_user_scan IS NULL, ' ', 'C'), IIF(s.last_user_update IS NULL, ' ', 'U'))
        FROM sys.dm_db_index_usage_stats s JOIN sys.indexes i ON i.object_id = s.object_id AND i.index_id = s.index_id
        WHERE s.database_id = DB_ID() AND OBJECTPROPERTY(s.object_id, 'IsUserTable') = 1 ORDER BY i.name";
    let uses = |client: &mut common::Client| {
        let out = client.run(USES);
        let is_use = |l: &&str| {
            ["iv ", "iw ", "pk_", "unused "]
                .iter()
                .any(|n| l.starts_with(n))
        };
        out.lines()
            .filter(is_use)
            .map(|l| l.trim_end().to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(uses(&mut client), [""; 0]);
    client.done("INSERT p SELECT TOP 500 ROW_NUMBER() OVER (ORDER BY object_id), 1, 2 FROM sys.all_columns; UPDATE p SET v = id, w = id");
    let written = [
        "iv 0 0 0 2  U",
        "iw 0 0 0 2  U",
        "pk_p 0 1 0 2 CU",
        "unused 0 0 0 2  U",
    ];
    assert_eq!(uses(&mut client), written);
    client.done("DECLARE @w int; SELECT @w = w FROM p WHERE id = 7");
    client.done("DECLARE @w int; SELECT @w = w FROM p WITH (INDEX (iv)) WHERE v IN (7, 8)");
    client.done("DECLARE @w int; SELECT @w = COUNT(w) FROM p WITH (INDEX (iw))");
    client.done("UPDATE p SET w = 0 WHERE id = 7; DELETE p WHERE id = 8");
    client.done("INSERT c VALUES (1, 1), (2, 2), (3, 1)");
    let all = [
        "iv 1 0 0 3S U",
        "iw 0 1 0 4 CU",
        "pk_c 0 1 0 1 CU",
        "pk_p 4 1 1 4SCU",
        "unused 0 0 0 4  U",
    ];
    let found = uses(&mut client);
    assert_eq!(found, all);
    // A rebuild is no use, and takes the counts along.
    client.done("ALTER INDEX ALL ON p REBUILD; ALTER INDEX iv ON p REBUILD");
    assert_eq!(uses(&mut client), all);
    let server = server.restart_keeping(client);
    assert_eq!(uses(&mut server.connect_to("u")), [""; 0]);
}
