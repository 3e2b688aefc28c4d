//! Damage on disk, and what DBCC says of it. Bytes are flipped in the files of a stopped server; then it starts again.

mod common;

use common::{Client, Server};
use daruma_catalog::{ObjectKind, TableDef};
use daruma_sim::{Faults, SimDisk};
use daruma_storage::{Batch, Database, Durability, Isolation, Owner, ScanSpec, Txn};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

const DATA: &str = "/data/d.mdf";
const LOG: &str = "/data/d_log.ldf";
const PAGE_BYTES: usize = 8_192;
const SOUND: &str = "CHECKDB found 0 allocation errors and 0 consistency errors in database";

/// A database with every kind of page: tables with and without a clustered index, indexes of two levels, filtered and
/// computed ones, values outside of rows, a long definition, and traces of what was dropped.
fn fill(c: &mut Client) {
    for batch in [
        "CREATE TABLE t (id int NOT NULL CONSTRAINT pk_t PRIMARY KEY, name varchar(400) NOT NULL, n int NULL,
             big nvarchar(max) NULL, twice AS n * 2, CONSTRAINT ck_n CHECK (n < 100000))",
        "CREATE TABLE h (a int NOT NULL, b varchar(50) NULL)",
        "CREATE INDEX ix_h ON h (a)",
        "CREATE TABLE other (id int NOT NULL CONSTRAINT pk_other PRIMARY KEY, t_id int NULL
             CONSTRAINT fk_t REFERENCES t (id))",
        "WITH n AS (SELECT TOP 600 ROW_NUMBER() OVER (ORDER BY (SELECT 1)) AS i FROM sys.all_columns)
         INSERT t (id, name, n) SELECT i, REPLICATE('x', 300) + CAST(i AS varchar(10)), i % 50 FROM n",
        "INSERT h (a, b) SELECT id, 'row' FROM t",
        "INSERT other SELECT id, id FROM t WHERE id < 20",
        "UPDATE t SET big = REPLICATE(CAST(N'b' AS nvarchar(max)), 20000) WHERE id IN (7, 300)",
        "CREATE INDEX ix_name ON t (name) INCLUDE (n)",
        "CREATE UNIQUE INDEX ix_filtered ON t (id DESC) WHERE n < 10",
        "CREATE INDEX ix_twice ON t (twice)",
        "DELETE t WHERE id BETWEEN 400 AND 450",
        "UPDATE t SET n = n + 1, name = 'short' WHERE id BETWEEN 500 AND 550",
        "CREATE TABLE gone (id int PRIMARY KEY, v nvarchar(max)); INSERT gone SELECT id, REPLICATE(N'g', 9000) FROM other",
        "DROP TABLE gone",
    ] {
        let out = c.run(batch);
        assert!(!out.contains("Level 1"), "{batch}: {out}");
    }
    let long = format!("CREATE PROC p AS SELECT 1 -- {}", "long ".repeat(2_000));
    assert_eq!(c.run(&long), "");
}

fn filled() -> Server {
    let server = Server::new();
    let mut c = server.connect();
    c.run("CREATE DATABASE d; CREATE DATABASE healthy");
    let mut c = server.connect_to("d");
    fill(&mut c);
    c.session.close();
    server
}

/// The disk of a server that was stopped cleanly. Little was written last, so that the doublewrite area holds copies of
/// few pages.
fn stopped() -> Arc<SimDisk> {
    let server = Server::over(filled().stop());
    let mut c = server.connect_to("d");
    assert_eq!(
        c.run("UPDATE other SET t_id = 1 WHERE id = 1"),
        "(1 row affected)\n"
    );
    c.session.close();
    server.stop()
}

fn check(server: &Server) -> String {
    let mut c = server.connect_to("master");
    c.run("DBCC CHECKDB (d) WITH NO_INFOMSGS")
}

#[test]
fn a_sound_server_has_no_errors() {
    let server = filled();
    let mut c = server.connect();
    for database in ["master", "model", "msdb", "tempdb", "d", "healthy"] {
        let out = c.run(&format!("DBCC CHECKDB ({database})"));
        assert!(out.contains(SOUND), "{database}: {out}");
        assert!(!out.contains("Level 16"), "{database}: {out}");
        let quiet = c.run(&format!("DBCC CHECKDB ({database}) WITH NO_INFOMSGS"));
        assert_eq!(quiet, "", "{database}");
    }
    let server = server.restart_keeping(c);
    assert_eq!(check(&server), "");
}

// --- what is wrong inside a database that can be read ------------------------------------------------------------

fn storage(server: &Server) -> Arc<Database> {
    let entry = server.instance.database_named("d").expect("is there");
    entry.open().expect("is open").storage
}

fn definition(server: &Server, name: &str) -> Arc<TableDef> {
    let entry = server.instance.database_named("d").expect("is there");
    let catalog = entry.open().expect("is open").catalog.current();
    let object = catalog.objects().find(|o| o.name == name).expect("exists");
    match &object.kind {
        ObjectKind::Table(def) => def.clone(),
        _ => panic!("{name} is no table"),
    }
}

/// Changes something behind the back of everyone who keeps tables and indexes in step.
fn behind_the_back(server: &Server, change: impl FnOnce(&Txn)) {
    let txn = storage(server).begin(&Owner::new(7_777, Default::default()));
    change(&txn);
    txn.commit(Durability::Full).expect("commits");
}

/// The entries of an index.
fn entries(server: &Server, txn: &Txn, table: &str, index: usize) -> Batch {
    let tree = definition(server, table).indexes[index].tree;
    let view = txn.view(Isolation::Current);
    let mut batch = Batch::new();
    let mut scan = storage(server)
        .tree(tree)
        .expect("tree")
        .scan(&view, ScanSpec::all());
    assert!(scan.next(&mut batch).expect("reads"));
    batch
}

fn assert_all(out: &str, parts: &[&str]) {
    for part in parts {
        assert!(out.contains(part), "{part} is missing:\n{out}");
    }
}

#[test]
fn a_row_without_its_index_entry_is_named() {
    let server = filled();
    behind_the_back(&server, |txn| {
        let found = entries(&server, txn, "h", 1);
        let tree = storage(&server).tree(definition(&server, "h").indexes[1].tree);
        tree.expect("tree")
            .delete(txn, found.key(0), found.stamp(0))
            .expect("deletes");
    });
    let out = check(&server);
    assert_all(
        &out,
        &[
            "Msg 8951, Level 16, State 1, Line 1\nTable error: table 'h' (ID ",
            "Data row does not have a matching index row in the index 'ix_h' (ID 2).",
            "Msg 8955, Level 16",
            "identified by (HEAP RID = 1) with index values 'a = 1'.",
            "Msg 8990, Level 10, State 1, Line 1\nCHECKDB found 0 allocation errors and 1 consistency errors in table 'h' (object ID",
            "CHECKDB found 0 allocation errors and 1 consistency errors in database 'd'.",
        ],
    );
    let mut c = server.connect_to("d");
    assert_all(
        &c.run("DBCC CHECKTABLE ('h')"),
        &["Msg 8951", "There are 600 rows in "],
    );
    assert!(!c.run("DBCC CHECKTABLE ('t')").contains("Msg 8"));
    // Scripts of maintenance ask @@ERROR; what was found is caught by nobody.
    let check = "DBCC CHECKDB (d) WITH NO_INFOMSGS";
    for (statement, found) in [
        (check.to_string(), 8955),
        (format!("EXEC sp_executesql N'{check}'"), 8955),
        (format!("EXEC ('{check}')"), 8955),
        (
            format!("BEGIN TRY {check} END TRY BEGIN CATCH END CATCH"),
            8955,
        ),
        ("SELECT 1 / 0; DBCC CHECKTABLE ('t')".into(), 0),
    ] {
        let out = c.run(&format!(
            "{statement}; PRINT CONCAT('last error ', @@ERROR, '.')"
        ));
        let told = format!("last error {found}.");
        assert!(out.contains(&told), "{statement}: {out}");
    }
    let physical = c.run("DBCC CHECKDB WITH PHYSICAL_ONLY, NO_INFOMSGS");
    assert_eq!(physical, "");
    let rows = c.run("DBCC CHECKTABLE ('h') WITH TABLERESULTS, NO_INFOMSGS");
    assert_all(
        &rows,
        &[
            "Error | Level | State | MessageText | RepairLevel",
            "8951 | 16 | 1 | Table error",
        ],
    );
    let log = server.instance.log.read(0).expect("log");
    let args: [&dyn std::fmt::Display; 8] = [&"CHECKDB", &"d", &"sa", &1, &0, &0, &0, &0];
    let told = daruma_tsql::messages::error(8957, &args).message;
    assert!(log.iter().any(|l| l.text == told), "{told}");
}

#[test]
fn an_index_entry_without_its_row_is_named() {
    let server = filled();
    behind_the_back(&server, |txn| {
        let found = entries(&server, txn, "t", 0);
        let tree = storage(&server).tree(definition(&server, "t").indexes[0].tree);
        tree.expect("tree")
            .delete(txn, found.key(3), found.stamp(3))
            .expect("deletes");
    });
    let mut c = server.connect_to("d");
    let out = c.run("DBCC CHECKTABLE ('t') WITH NO_INFOMSGS");
    assert_all(
        &out,
        &[
            "Msg 8952, Level 16, State 1, Line 1\nTable error: table 't' (ID ",
            "Index row in index 'ix_name'",
            "Index row in index 'ix_twice'",
            "Msg 8956, Level 16",
            "identified by (id = 4)",
        ],
    );
}

#[test]
fn a_value_that_its_column_cannot_have_is_named() {
    let server = filled();
    behind_the_back(&server, |txn| {
        let found = entries(&server, txn, "h", 0);
        let tree = storage(&server).tree(definition(&server, "h").indexes[0].tree);
        let mut row = found.payload(5).to_vec();
        row.truncate(3);
        tree.expect("tree")
            .update(txn, found.key(5), found.stamp(5), &row)
            .expect("updates");
    });
    let out = check(&server);
    assert_all(
        &out,
        &[
            "Msg 2570, Level 16, State 2",
            "in object ID",
            "Column \"a\" value is out of range for data type \"int\".",
        ],
    );
}

#[test]
fn pages_that_nobody_uses_are_named() {
    let server = filled();
    let mut lost = None;
    behind_the_back(&server, |txn| {
        lost = Some(storage(&server).create_tree(txn, 1).expect("creates"));
    });
    let lost = lost.expect("was made").0;
    for command in ["DBCC CHECKDB (d)", "DBCC CHECKALLOC (d)"] {
        let out = server.connect().run(command);
        let told = format!("Page {lost} in database ID 5 is allocated in the SGAM");
        assert_all(
            &out,
            &[
                "Msg 8906, Level 16",
                &told,
                "Msg 8954, Level 10",
                "found 1 allocation errors and 0 consistency errors in database 'd'",
            ],
        );
    }
}

#[test]
fn a_check_runs_beside_writers() {
    let server = filled();
    let mut writer = server.connect_to("d");
    writer.run("BEGIN TRAN; UPDATE t SET name = 'changed', n = 7, big = REPLICATE(N'n', 50000) WHERE id < 100; INSERT h VALUES (-1, 'new'); DELETE other");
    assert_eq!(check(&server), "");
    let mut reader = server.connect_to("d");
    assert!(
        reader
            .run("DBCC CHECKTABLE ('other')")
            .contains("There are 19 rows")
    );
    writer.run("ROLLBACK");
    assert_eq!(check(&server), "");
    writer.run("DELETE other");
    assert_eq!(check(&server), "");
}

#[test]
fn violated_constraints_are_listed() {
    let server = filled();
    let mut c = server.connect_to("d");
    assert_eq!(c.run("DBCC CHECKCONSTRAINTS WITH NO_INFOMSGS"), "");
    c.run("ALTER TABLE t NOCHECK CONSTRAINT ck_n; UPDATE t SET n = 100001 WHERE id = 5");
    c.run("ALTER TABLE other NOCHECK CONSTRAINT fk_t; UPDATE other SET t_id = 10000 WHERE id = 6");
    assert_eq!(c.run("DBCC CHECKCONSTRAINTS WITH NO_INFOMSGS"), "");
    assert_eq!(
        c.run("DBCC CHECKCONSTRAINTS WITH ALL_CONSTRAINTS, NO_INFOMSGS"),
        "Table | Constraint | Where\n\
         [dbo].[t] | [ck_n] | [n] = '100001'\n\
         [dbo].[other] | [fk_t] | [t_id] = '10000'\n(2 rows affected)\n"
    );
    c.run("ALTER TABLE t WITH NOCHECK CHECK CONSTRAINT ck_n");
    let one = c.run("DBCC CHECKCONSTRAINTS ('t') WITH NO_INFOMSGS");
    assert_all(
        &one,
        &["[dbo].[t] | [ck_n] | [n] = '100001'\n(1 row affected)"],
    );
    let named = c.run("DBCC CHECKCONSTRAINTS (fk_t)");
    assert_all(
        &named,
        &["[dbo].[other] | [fk_t] | [t_id] = '10000'", "Msg 2528"],
    );
}

// --- bytes that changed on disk ----------------------------------------------------------------------------------

/// A page of a data file, from its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    page_type: u8,
    level: u8,
    tree: u64,
}

const BOOT: u8 = 2;
const TREE: u8 = 4;

fn kind(page: &[u8]) -> Kind {
    let mut tree = [0; 8];
    tree[..6].copy_from_slice(&page[24..30]);
    Kind {
        page_type: page[4],
        level: page[5],
        tree: u64::from_le_bytes(tree),
    }
}

/// The first and the last page of each kind. Kinds are page type, level, and tree.
fn samples(file: &[u8]) -> BTreeMap<Kind, Vec<usize>> {
    let mut found: BTreeMap<Kind, Vec<usize>> = BTreeMap::new();
    for (at, page) in file.chunks(PAGE_BYTES).enumerate() {
        let kind = kind(page);
        // Pages that were freed keep their old content; values lie on pages of one tree each.
        if page.iter().all(|b| *b == 0) {
            continue;
        }
        let pages = found.entry(kind).or_default();
        pages.truncate(1);
        pages.push(at);
    }
    found
}

const QUERIES: [(&str, &str); 5] = [
    (
        "'dbo.t'",
        "SELECT COUNT(*), SUM(id), SUM(CAST(n AS bigint)), SUM(LEN(big)) FROM t WITH (INDEX(1))",
    ),
    ("'dbo.t'", "SELECT COUNT(*) FROM t WHERE name LIKE 'x%'"),
    ("'dbo.h'", "SELECT COUNT(*), SUM(a), MAX(b) FROM h"),
    ("'dbo.other'", "SELECT COUNT(*), SUM(t_id) FROM other"),
    ("", "SELECT LEN(OBJECT_DEFINITION(OBJECT_ID('p')))"),
];

fn answers(server: &Server) -> Vec<String> {
    let ask = |(_, query): &(&str, &str)| server.connect_to("d").run(query);
    QUERIES.iter().map(ask).collect()
}

/// What came of one flipped byte.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    /// The database is not there; the others are.
    Suspect,
    /// DBCC names the page, and queries give what they should or error 824 with the object.
    Found,
    /// Nothing needs the page, or there was a second copy.
    Repaired,
}

fn flipped(disk: &SimDisk, page: usize, offset: usize, expected: &[String]) -> Outcome {
    let disk = disk.fork(1);
    disk.flip(Path::new(DATA), (page * PAGE_BYTES + offset) as u64, 0x10);
    let server = Server::over(disk);
    let mut c = server.connect();
    assert_eq!(c.scalar("SELECT COUNT(*) FROM healthy.sys.tables"), "0");
    if c.scalar("SELECT state_desc FROM sys.databases WHERE name = 'd'") == "SUSPECT" {
        assert!(c.run("USE d").starts_with("Msg 926, Level 14"));
        let log = server.instance.log.read(0).expect("log");
        assert!(
            log.iter()
                .any(|l| l.text.contains("Error: 3414, Severity: 21"))
        );
        assert!(
            log.iter()
                .any(|l| l.text.contains("Error: 824, Severity: 24")
                    || l.text.contains("Error: 5171, Severity: 16")),
            "{log:?}"
        );
        return Outcome::Suspect;
    }
    for ((object, query), expected) in QUERIES.iter().zip(expected) {
        let found = server.connect_to("d").run(query);
        let is_told = found.contains("Msg 824, Level 24, State 2")
            && found.contains(&format!("page (1:{page}) in database ID 5"))
            && found.contains(object);
        assert!(
            found == *expected || is_told,
            "page {page}, byte {offset}, {query}: {found}"
        );
    }
    let out = check(&server);
    if out.is_empty() {
        assert_eq!(answers(&server), expected, "page {page}, byte {offset}");
        return Outcome::Repaired;
    }
    assert_all(
        &out,
        &[
            "Msg 8939, Level 16",
            "Msg 8928, Level 16",
            &format!("page (1:{page})."),
        ],
    );
    Outcome::Found
}

#[test]
fn every_flipped_byte_of_a_data_page_is_noticed() {
    let disk = stopped();
    let file = disk.content_of(Path::new(DATA)).expect("is there");
    let expected = answers(&Server::over(disk.fork(1)));
    let offsets = [0, 4, 20, 30, 70, 4_000, 8_191];
    let mut outcomes: BTreeMap<(u8, Outcome), u32> = BTreeMap::new();
    for (n, (kind, pages)) in samples(&file).into_iter().enumerate() {
        for (m, page) in pages.into_iter().enumerate() {
            let offset = offsets[(2 * n + m) % offsets.len()];
            let outcome = flipped(&disk, page, offset, &expected);
            *outcomes.entry((kind.page_type, outcome)).or_default() += 1;
        }
    }
    println!("{outcomes:?}");
    let count = |kind, outcome| outcomes.get(&(kind, outcome)).copied().unwrap_or(0);
    assert!(count(TREE, Outcome::Found) >= 6, "{outcomes:?}");
    assert!(
        count(TREE, Outcome::Suspect) >= 1,
        "the catalog: {outcomes:?}"
    );
    assert_eq!(count(BOOT, Outcome::Suspect), 0, "there are two boot pages");
}

/// A server that lost power right after three commits, and where the text of each lies in the log.
fn crashed() -> (Arc<SimDisk>, [usize; 3]) {
    let server = filled();
    let mut c = server.connect_to("d");
    c.run("CHECKPOINT");
    let marks = ["first mark", "second mark", "third mark"];
    for mark in marks {
        c.run(&format!("INSERT h VALUES (-5, '{mark}')"));
    }
    std::mem::forget(c);
    let Server { disk, instance, .. } = server;
    disk.crash();
    drop(instance);
    let log = disk.content_of(Path::new(LOG)).expect("is there");
    let place = |mark: &str| log.windows(mark.len()).rposition(|w| w == mark.as_bytes());
    (disk, marks.map(|mark| place(mark).expect("was logged")))
}

#[test]
fn a_damaged_end_of_the_log_ends_it() {
    let (disk, places) = crashed();
    disk.flip(Path::new(LOG), places[2] as u64, 1);
    let server = Server::over(disk);
    let mut c = server.connect_to("d");
    assert_eq!(c.scalar("SELECT COUNT(*) FROM h WHERE a = -5"), "2");
    assert_eq!(check(&server), "");
}

#[test]
fn a_damaged_middle_of_the_log_stops_the_database_alone() {
    let (disk, places) = crashed();
    disk.flip(Path::new(LOG), places[0] as u64, 1);
    let server = Server::over(disk);
    let mut c = server.connect();
    let state = "SELECT state_desc FROM sys.databases WHERE name = 'd'";
    assert_eq!(c.scalar(state), "SUSPECT");
    assert!(c.run("SELECT * FROM d.dbo.h").contains("Msg 926, Level 14"));
    assert!(c.run("DBCC CHECKDB (d)").contains("Msg 926, Level 14"));
    assert_eq!(
        c.run("CREATE TABLE healthy.dbo.x (a int); INSERT healthy.dbo.x VALUES (1)"),
        "(1 row affected)\n"
    );
    let log = server.instance.log.read(0).expect("log");
    let has = |text: &str| log.iter().any(|l| l.text.contains(text));
    assert!(has("Error: 9004, Severity: 21"), "{log:?}");
    assert!(has(
        "An error occurred while processing the log for database 'd'."
    ));
    assert!(has("Error: 3414, Severity: 21"));
    drop(log);
    let server = server.restart_keeping(c);
    assert_eq!(server.connect().scalar(state), "SUSPECT");
}

/// Values outside of rows are freed by whoever drops what refers to them, at the latest when the background has run.
#[test]
fn every_page_is_given_back() {
    let server = Server::new();
    let mut c = server.connect();
    c.run("CREATE DATABASE d");
    let mut c = server.connect_to("d");
    for batch in [
        "CREATE TABLE i (k int NOT NULL, v nvarchar(max) NULL); CREATE INDEX ix ON i (k)",
        "INSERT i (k, v) SELECT TOP 20 ROW_NUMBER() OVER (ORDER BY (SELECT 1)), REPLICATE(CAST(N'v' AS nvarchar(max)), 9000) FROM sys.all_columns",
        "CREATE INDEX carries ON i (k DESC) INCLUDE (v)",
        "UPDATE i SET v = REPLICATE(CAST(N'w' AS nvarchar(max)), 12000) WHERE k < 5",
        "UPDATE i SET v = N'short' WHERE k IN (5, 6)",
        "UPDATE i SET k = 100 WHERE k = 7",
        "DELETE i WHERE k = 8",
        "BEGIN TRAN; INSERT i VALUES (30, REPLICATE(CAST(N'x' AS nvarchar(max)), 12000)); ROLLBACK",
        "BEGIN TRAN; CREATE INDEX other ON i (k) INCLUDE (v); ROLLBACK",
        "BEGIN TRAN; SAVE TRAN s; UPDATE i SET v = REPLICATE(CAST(N'y' AS nvarchar(max)), 12000) WHERE k < 9; ROLLBACK TRAN s; COMMIT",
        "ALTER INDEX carries ON i REBUILD",
        "DROP INDEX carries ON i",
        "ALTER TABLE i ADD n int NOT NULL CONSTRAINT df DEFAULT 7",
        "DROP INDEX ix ON i; ALTER TABLE i ALTER COLUMN k bigint NOT NULL",
        "ALTER TABLE i ADD CONSTRAINT pk PRIMARY KEY (k)",
        "ALTER TABLE i DROP COLUMN v",
        "ALTER TABLE i ADD v nvarchar(max) NULL",
        "UPDATE i SET v = REPLICATE(CAST(N'w' AS nvarchar(max)), 12000)",
        "TRUNCATE TABLE i",
        "INSERT i (k, v) VALUES (1, REPLICATE(CAST(N'z' AS nvarchar(max)), 12000)); CREATE INDEX carries ON i (n) INCLUDE (v)",
        "DROP TABLE i",
    ] {
        let out = c.run(batch);
        assert!(!out.contains("Level 1"), "{batch}: {out}");
        let storage = storage(&server);
        while storage.background_step().expect("no faults") {}
        let lost = check(&server);
        assert_eq!(lost, "", "{batch}");
    }
}

/// A value stays in its row or moves out of it, whatever the length: keys and locators count as well.
#[test]
fn rows_of_every_length_around_a_page_are_stored() {
    let server = Server::new();
    let mut c = server.connect();
    c.run("CREATE DATABASE d");
    let mut c = server.connect_to("d");
    c.run(
        "CREATE TABLE i (k varchar(40) NOT NULL PRIMARY KEY, n int NOT NULL, v nvarchar(max) NULL)",
    );
    c.run("CREATE INDEX carries ON i (n) INCLUDE (v)");
    for bytes in (7_860..8_000).step_by(3) {
        let value = format!("REPLICATE(CAST(N'v' AS nvarchar(max)), {bytes})");
        let out = c.run(&format!(
            "INSERT i VALUES ('key of {bytes} bytes', {bytes}, {value})"
        ));
        assert_eq!(out, "(1 row affected)\n", "{bytes}");
    }
    assert_eq!(c.scalar("SELECT COUNT(*) FROM i WHERE LEN(v) = n"), "47");
    c.run("DELETE i WHERE n % 2 = 0; UPDATE i SET v = N'short'");
    let storage = storage(&server);
    while storage.background_step().expect("no faults") {}
    assert_eq!(check(&server), "");
}

#[test]
fn an_index_built_under_an_old_snapshot_has_every_row() {
    let server = filled();
    let mut a = server.connect_to("d");
    let mut b = server.connect_to("d");
    a.run("ALTER DATABASE d SET ALLOW_SNAPSHOT_ISOLATION ON");
    a.run("SET TRANSACTION ISOLATION LEVEL SNAPSHOT; BEGIN TRAN; SELECT COUNT(*) FROM h");
    assert_eq!(b.run("INSERT h VALUES (-9, 'new')"), "(1 row affected)\n");
    a.run("CREATE INDEX late ON h (b)");
    a.run("COMMIT");
    assert_eq!(check(&server), "");
}

/// Errors that 3013 follows are in the product's words too.
#[test]
fn a_backup_of_a_damaged_log_names_the_database() {
    let server = Server::new();
    let mut c = server.connect();
    c.run("CREATE DATABASE d; BACKUP DATABASE d TO DISK = '/b/full'");
    let mark = b"a mark in the log";
    c.run("CREATE TABLE d.dbo.t (v varchar(50)); INSERT d.dbo.t VALUES ('a mark in the log')");
    let log = server.disk.content_of(Path::new(LOG)).expect("is there");
    let place = log.windows(mark.len()).rposition(|w| w == mark);
    let place = place.expect("was logged") as u64;
    server.disk.flip(Path::new(LOG), place, 1);
    let out = c.run("BACKUP LOG d TO DISK = '/b/log'");
    let words = "Msg 9004, Level 21, State 4, Line 1\nAn error occurred while processing the log for database 'd'.";
    assert!(out.starts_with(words) && out.contains("Msg 3013"), "{out}");
    let log = server.instance.log.read(0).expect("log");
    assert!(
        log.iter().any(|l| l.text.contains("is damaged at")),
        "{log:?}"
    );
}

#[test]
fn a_log_that_failed_is_named_from_another_database() {
    let server = Server::new();
    let mut c = server.connect();
    c.run("CREATE DATABASE d; CREATE TABLE d.dbo.a (id int PRIMARY KEY)");
    server.disk.set_faults(Faults {
        fail_at: Some(server.disk.calls()),
        ..Faults::default()
    });
    let out = c.run("INSERT d.dbo.a VALUES (1)");
    server.disk.set_faults(Faults::default());
    let words = "Msg 9001, Level 21, State 4, Line 1\nThe log for database 'd' is not available.";
    assert!(out.starts_with(words), "{out}");
}

/// The log fails under another session's commit: nobody is shown that commit, nor what could not be taken back; the database can
/// be left, looked at from outside, and comes back with what was acknowledged.
#[test]
fn a_database_whose_log_failed_answers_nobody_until_it_is_recovered() {
    for recovery in ["ON", "OFF"] {
        let server = Server::new();
        let mut c = server.connect();
        c.run(&format!(
            "CREATE DATABASE d; ALTER DATABASE d SET ACCELERATED_DATABASE_RECOVERY = {recovery}"
        ));
        let [mut reader, mut transfer, mut other] = ["d"; 3].map(|name| server.connect_to(name));
        reader
            .run("CREATE TABLE a (id int PRIMARY KEY, v int); INSERT a VALUES (1, 100), (2, 100)");
        transfer.run("BEGIN TRAN; UPDATE a SET v = v - 50 WHERE id = 1");
        server.disk.set_faults(Faults {
            fail_at: Some(server.disk.calls()),
            ..Faults::default()
        });
        let out = other.run("INSERT a VALUES (3, 0)");
        server.disk.set_faults(Faults::default());
        assert!(out.contains("Msg 9001"), "{out}");
        let out = transfer.run("UPDATE a SET v = v + 50 WHERE id = 2");
        assert!(out.contains("Msg 9"), "{out}");
        for isolation in [
            "READ UNCOMMITTED",
            "READ COMMITTED",
            "SERIALIZABLE",
            "SNAPSHOT",
        ] {
            let out = reader.run(&format!(
                "SET TRANSACTION ISOLATION LEVEL {isolation}; SELECT SUM(v) FROM a"
            ));
            assert!(out.contains("Msg 926,"), "{isolation}: {out}");
        }
        transfer.session.close();
        other.session.close();
        let out = reader.run("SELECT * FROM a");
        assert!(out.contains("Msg 926,"), "{out}");
        let state = "SELECT state_desc FROM sys.databases WHERE name = 'd'";
        let out = reader.run("USE master");
        assert!(out.contains("Msg 5701"), "{out}");
        assert!(c.run(state).contains("SUSPECT"));
        assert!(c.run("USE d").contains("Msg 926,"));
        let out = c.run("ALTER DATABASE d SET ONLINE");
        assert_eq!(out, "");
        assert!(c.run(state).contains("ONLINE"));
        let out = c.run("SELECT SUM(v), COUNT(*) FROM d.dbo.a");
        assert!(out.contains("200 | 2"), "{out}");
    }
}
