//! Accelerated recovery through T-SQL: DDL of any size is taken back in one step, the version store moves between
//! filegroups, a failed statement in a transaction holds no log.

mod common;

use common::{Client, Server};

fn accelerated() -> Server {
    let server = Server::new();
    let mut c = server.connect();
    assert_eq!(
        c.run("CREATE DATABASE d; ALTER DATABASE d SET ACCELERATED_DATABASE_RECOVERY = ON"),
        ""
    );
    server
}

fn run(client: &mut Client, text: &str) {
    let out = client.run(text);
    assert!(!out.contains("Msg"), "{text}: {out}");
}

/// Tables of so many rows. `made` is what the changes below begin with.
fn fill(client: &mut Client, rows: u32) {
    for table in ["dropped", "truncated", "indexed", "altered"] {
        run(
            client,
            &format!(
                "CREATE TABLE {table} (id int NOT NULL PRIMARY KEY, v int NOT NULL, w int NOT NULL, filler char(60) NOT NULL);
                 INSERT {table} SELECT value, value % 100, 5, 'x' FROM GENERATE_SERIES(1, {rows});
                 CREATE INDEX ix ON {table} (v)"
            ),
        );
    }
}

/// One of each: what makes or drops trees of any size.
const CHANGES: [&str; 7] = [
    "SELECT * INTO made FROM altered",
    "CREATE INDEX other ON indexed (filler, v)",
    "DROP INDEX ix ON indexed",
    "DROP TABLE dropped",
    "TRUNCATE TABLE truncated",
    "ALTER TABLE altered ALTER COLUMN w bigint NOT NULL",
    "ALTER TABLE altered ADD more int NOT NULL DEFAULT 7",
];

fn state(client: &mut Client) -> String {
    client.run(
        "SELECT t.name, c.name, TYPE_NAME(c.system_type_id) FROM sys.tables t JOIN sys.columns c ON c.object_id = t.object_id ORDER BY t.name, c.column_id;
         SELECT OBJECT_NAME(object_id), name FROM sys.indexes WHERE OBJECTPROPERTY(object_id, 'IsUserTable') = 1 ORDER BY 1, 2;
         SELECT COUNT(*), SUM(v) FROM dropped; SELECT COUNT(*), SUM(v) FROM truncated; SELECT COUNT(*), SUM(v) FROM indexed WITH (INDEX(ix)) WHERE v >= 0; SELECT COUNT(*), SUM(v) FROM altered",
    )
}

/// Log records of the rollback of one change.
fn rollback_records(client: &mut Client, change: &str) -> u32 {
    run(client, "BEGIN TRANSACTION");
    run(client, change);
    run(client, "EXEC sys.sp_flush_log");
    let last = client.scalar("SELECT MAX([Current LSN]) FROM sys.fn_dblog(NULL, NULL)");
    run(client, "ROLLBACK; EXEC sys.sp_flush_log");
    let count = client.scalar(&format!(
        "SELECT COUNT(*) FROM sys.fn_dblog('{last}', NULL) WHERE Description LIKE '%compensation%' OR Operation = 'LOP_ABORT_XACT'"
    ));
    count
        .parse()
        .unwrap_or_else(|_| panic!("{change}: {count}"))
}

#[test]
fn ddl_of_any_size_is_rolled_back_with_the_same_few_records() {
    let counts = |rows| {
        let server = accelerated();
        let mut c = server.connect_to("d");
        fill(&mut c, rows);
        let before = state(&mut c);
        let counts = CHANGES.map(|change| rollback_records(&mut c, change));
        assert_eq!(state(&mut c), before);
        counts
    };
    let (small, large) = (counts(3_000), counts(9_000));
    for (change, (small, large)) in CHANGES.iter().zip(small.into_iter().zip(large)) {
        assert!(
            small > 0 && large <= small + 2 && large < 10,
            "{change}: {small} records for 3000 rows, {large} for 9000"
        );
    }
}

#[test]
fn ddl_of_any_size_that_a_crash_cut_off_is_not_there_afterwards() {
    let server = accelerated();
    let mut c = server.connect_to("d");
    fill(&mut c, 3_000);
    let before = state(&mut c);
    run(&mut c, "CHECKPOINT; BEGIN TRANSACTION");
    for (at, change) in CHANGES.iter().enumerate() {
        run(&mut c, change);
        if at % 2 == 0 {
            run(&mut c, "CHECKPOINT");
        }
    }
    drop(c);
    let server = server.crash();
    let mut c = server.connect_to("d");
    assert_eq!(state(&mut c), before);
    run(&mut c, "EXEC sys.sp_persistent_version_cleanup");
    assert_eq!(state(&mut c), before);
    assert_eq!(
        c.scalar(
            "SELECT COUNT(*) FROM sys.dm_tran_aborted_transactions WHERE database_id = DB_ID()"
        ),
        "0"
    );
    // Whatever was left of them is gone: the same changes can be made for good.
    for change in CHANGES {
        run(&mut c, change);
    }
}

#[test]
fn the_version_store_moves_when_it_is_drained() {
    let server = accelerated();
    let mut c = server.connect_to("d");
    fill(&mut c, 2_000);
    run(
        &mut c,
        "ALTER DATABASE d ADD FILEGROUP versions;
         ALTER DATABASE d ADD FILE (NAME = versions, FILENAME = '/versions.ndf', SIZE = 8 MB) TO FILEGROUP versions;
         ALTER DATABASE d SET ALLOW_SNAPSHOT_ISOLATION ON",
    );
    let mut reader = server.connect_to("d");
    run(
        &mut reader,
        "SET TRANSACTION ISOLATION LEVEL SNAPSHOT; BEGIN TRANSACTION; SELECT COUNT(*) FROM altered",
    );
    // Versions on pages, kept by the reader.
    run(
        &mut c,
        "BEGIN TRANSACTION; UPDATE altered SET filler = 'y'; CHECKPOINT; COMMIT",
    );
    let switch = "ALTER DATABASE d SET ACCELERATED_DATABASE_RECOVERY = ON (PERSISTENT_VERSION_STORE_FILEGROUP = versions)";
    let refused = c.run(switch);
    assert!(refused.contains("Msg 12125"), "{refused}");
    run(
        &mut c,
        "ALTER DATABASE d SET ACCELERATED_DATABASE_RECOVERY = OFF",
    );
    let refused = c.run(switch);
    assert!(refused.contains("Msg 12120"), "{refused}");
    run(&mut reader, "COMMIT");
    run(&mut c, "EXEC sys.sp_persistent_version_cleanup 'd'");
    run(&mut c, switch);
    let home = "SELECT f.name FROM sys.dm_tran_persistent_version_store_stats s JOIN sys.filegroups f ON f.data_space_id = s.pvs_filegroup_id WHERE s.database_id = DB_ID()";
    assert_eq!(c.scalar(home), "versions");
    // And there they go.
    let used = "SELECT FILEPROPERTY('versions', 'SpaceUsed')";
    let before: u32 = c.scalar(used).parse().expect("pages");
    run(
        &mut c,
        "BEGIN TRANSACTION; UPDATE altered SET filler = 'z'; CHECKPOINT",
    );
    let with: u32 = c.scalar(used).parse().expect("pages");
    assert!(with > before, "{before} pages, then {with}");
    run(&mut c, "ROLLBACK; EXEC sys.sp_persistent_version_cleanup");
    drop((c, reader));
    let server = server.crash();
    let mut c = server.connect_to("d");
    assert_eq!(c.scalar(home), "versions");
    assert_eq!(
        c.scalar("SELECT COUNT(*) FROM altered WHERE filler = 'y'"),
        "2000"
    );
}

/// The second statement of a transaction fails after many rows: the log is free meanwhile, and it leaves nothing.
#[test]
fn a_failed_statement_in_a_transaction_leaves_nothing() {
    let server = accelerated();
    let mut c = server.connect_to("d");
    fill(&mut c, 3_000);
    run(
        &mut c,
        "CREATE TRIGGER late ON altered AFTER UPDATE AS
         BEGIN
             SAVE TRANSACTION inside; UPDATE indexed SET v = v + 1; ROLLBACK TRANSACTION inside;
             UPDATE dropped SET v = v + 1;
             THROW 50001, 'too late', 1;
         END",
    );
    let before = state(&mut c);
    run(
        &mut c,
        "SET XACT_ABORT OFF; BEGIN TRANSACTION; UPDATE truncated SET v = v + 1 WHERE id = 1",
    );
    let failed = c.run("UPDATE altered SET filler = 'n', v = v + 1");
    assert!(failed.contains("Msg 50001"), "{failed}");
    run(&mut c, "IF @@TRANCOUNT > 0 ROLLBACK");
    assert_eq!(state(&mut c), before);
}

#[test]
fn the_level_and_the_option_decide_how_many_threads_revert() {
    let server = accelerated();
    let mut c = server.connect_to("d");
    let reverters = || {
        let entry = server.instance.database_named("d").expect("is there");
        server.instance.reverters_of(&entry)
    };
    assert_eq!(reverters(), 4);
    c.run("ALTER DATABASE d SET COMPATIBILITY_LEVEL = 150");
    assert_eq!(reverters(), 0, "the background thread alone");
    c.run("ALTER DATABASE d SET COMPATIBILITY_LEVEL = 160");
    c.run("EXEC sp_configure 'show advanced options', 1; RECONFIGURE");
    c.run("EXEC sp_configure 'ADR Cleaner Thread Count', 2");
    assert_eq!(reverters(), 4, "not before RECONFIGURE");
    c.run("RECONFIGURE");
    assert_eq!(reverters(), 2);
    c.run("EXEC sp_configure 'ADR Cleaner Thread Count', 300; RECONFIGURE");
    assert_eq!(reverters(), 4, "there are no more");
}
