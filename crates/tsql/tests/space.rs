//! No more room: a log, a filegroup, a disk that is full. The statement is refused with the product's error, nothing that was
//! committed is lost, and work goes on as soon as there is room again.

mod common;

use common::{Client, Server};
use daruma_base::{Disk, OpenMode};
use daruma_sim::Faults;
use std::path::Path;

/// A database with small files that may not grow.
fn small(server: &Server, options: &str) -> Client {
    let out = server.connect().run(&format!(
        "CREATE DATABASE d ON (NAME = d, FILENAME = 'd.mdf', SIZE = 8MB, MAXSIZE = 16MB) \
         LOG ON (NAME = d_log, FILENAME = 'd_log.ldf', SIZE = 2MB, MAXSIZE = 2MB); {options}"
    ));
    assert_eq!(out, "");
    let mut c = server.connect_to("d");
    let out = c.run("CREATE TABLE t (id int IDENTITY PRIMARY KEY, v varchar(4000)); INSERT t (v) VALUES ('kept')");
    assert_eq!(out, "(1 row affected)\n");
    c
}

/// Repeats a statement until it fails; what it then says.
fn until_refused(c: &mut Client, text: &str) -> String {
    for _ in 0..2_000 {
        let out = c.run(text);
        if out.contains("Msg") {
            return out;
        }
    }
    panic!("never refused: {text}");
}

const INSERT: &str = "INSERT t (v) SELECT TOP 20 REPLICATE('x', 2000) FROM sys.all_columns";
/// Changes that need no more room in the data files.
const UPDATE: &str = "UPDATE t SET v = REPLICATE(CHAR(65 + id % 20 + LEN(v) % 2), 2000)";

#[test]
fn an_open_transaction_holds_the_log_of_the_classic_mode_only() {
    for accelerated in [false, true] {
        let server = Server::new();
        let on = if accelerated { "ON" } else { "OFF" };
        let mut c = small(
            &server,
            &format!(
                "ALTER DATABASE d SET RECOVERY SIMPLE; ALTER DATABASE d SET ACCELERATED_DATABASE_RECOVERY = {on}"
            ),
        );
        c.run("INSERT t (v) SELECT TOP 40 REPLICATE('x', 2000) FROM sys.all_columns");
        let mut holder = server.connect_to("d");
        holder.run("BEGIN TRAN; UPDATE t SET v = 'held' WHERE id = 1");
        let update = UPDATE.to_string() + " WHERE id > 1";
        if accelerated {
            for _ in 0..100 {
                let out = c.run(&update);
                assert_eq!(out, "(40 rows affected)\n");
                c.run("CHECKPOINT");
            }
        } else {
            let out = until_refused(&mut c, &update);
            assert!(out.starts_with("Msg 9002, Level 17, State 2"), "{out}");
            assert!(out.contains("'ACTIVE_TRANSACTION'"), "{out}");
        }
        assert_eq!(holder.run("ROLLBACK"), "");
        assert_eq!(c.scalar("SELECT v FROM t WHERE id = 1"), "kept");
        assert_eq!(c.run(&update), "(40 rows affected)\n");
    }
}

#[test]
fn a_transaction_too_large_for_the_log_rolls_back_whole() {
    let server = Server::new();
    let mut c = small(&server, "ALTER DATABASE d SET RECOVERY SIMPLE");
    c.run("BEGIN TRAN");
    let out = until_refused(&mut c, INSERT);
    assert!(out.contains("Msg 9002"), "{out}");
    // The statement alone is gone; the transaction's end is the client's.
    assert_eq!(c.scalar("SELECT @@TRANCOUNT"), "1");
    assert_eq!(c.run("ROLLBACK"), "");
    assert_eq!(c.scalar("SELECT COUNT(*) FROM t"), "1");
    assert_eq!(c.run("INSERT t (v) VALUES ('after')"), "(1 row affected)\n");
    assert_eq!(c.run("DBCC CHECKDB WITH NO_INFOMSGS"), "");
}

#[test]
fn definitions_that_find_no_room_name_their_table() {
    let server = Server::new();
    let mut c = small(&server, "ALTER DATABASE d SET RECOVERY SIMPLE");
    let refused = until_refused(&mut c, INSERT);
    assert!(refused.starts_with("Msg 1105"), "{refused}");
    until_refused(&mut c, "INSERT t (v) VALUES (REPLICATE('x', 2000))");
    for statement in [
        "ALTER TABLE t REBUILD",
        "CREATE INDEX i ON t (id) INCLUDE (v)",
    ] {
        // What a session wrote before says nothing.
        let out = server.connect_to("d").run(statement);
        assert!(
            out.starts_with("Msg 1105, Level 17, State 2") && out.contains("'dbo.t'"),
            "{statement}: {out}"
        );
    }
}

#[test]
fn a_table_in_a_full_filegroup_is_emptied() {
    for accelerated in ["OFF", "ON"] {
        let server = Server::new();
        let options = format!(
            "ALTER DATABASE d SET RECOVERY SIMPLE; ALTER DATABASE d SET ACCELERATED_DATABASE_RECOVERY = {accelerated}; \
             ALTER DATABASE d MODIFY FILE (NAME = d_log, MAXSIZE = 32MB)"
        );
        let mut c = small(&server, &options);
        c.done("CREATE INDEX i ON t (id); CREATE TABLE outside (v varchar(8000), w varchar(8000))");
        let outside = "INSERT outside VALUES (REPLICATE('v', 6000), REPLICATE('w', 6000))";
        (0..20).for_each(|_| drop(c.done(outside)));
        until_refused(&mut c, INSERT);
        until_refused(&mut c, "INSERT t (v) VALUES (REPLICATE('x', 2000))");
        until_refused(&mut c, outside);
        let count = "SELECT CONCAT((SELECT COUNT(*) FROM t), ' ', (SELECT COUNT(*) FROM t WITH (INDEX(i))), \
                     ' ', (SELECT COUNT(*) FROM outside WHERE v + w LIKE 'v%w'))";
        let before = c.scalar(count);
        assert!(
            !before.starts_with("0 ") && !before.ends_with(" 0"),
            "{before}"
        );
        let truncate = "TRUNCATE TABLE t; TRUNCATE TABLE outside";
        c.done(&format!("BEGIN TRANSACTION; {truncate}"));
        assert_eq!(c.scalar(count), "0 0 0");
        c.done("ROLLBACK");
        assert_eq!(c.scalar(count), before);
        c.done(&format!("BEGIN TRANSACTION; {truncate}"));
        let server = server.crash();
        let mut c = server.connect_to("d");
        assert_eq!(c.scalar(count), before);
        let storage = server.instance.database_named("d").expect("there");
        let storage = storage.open().expect("open").storage;
        while storage.background_step().expect("no faults") {}
        c.done(truncate);
        assert_eq!(c.scalar(count), "0 0 0");
        while storage.background_step().expect("no faults") {}
        assert_eq!(c.run(INSERT), "(20 rows affected)\n");
        assert_eq!(
            c.scalar("SELECT CONCAT(MIN(id), ' ', MAX(id)) FROM t"),
            "1 20"
        );
        (0..20).for_each(|_| drop(c.done(outside)));
        assert_eq!(c.run("DBCC CHECKDB WITH NO_INFOMSGS"), "");
    }
}

/// No root for a new tree can be had: the rows are deleted one by one, as long as their versions find room in memory.
#[test]
fn a_small_table_in_a_full_filegroup_is_emptied_on_a_full_disk() {
    let server = Server::new();
    let mut c = small(&server, "ALTER DATABASE d SET RECOVERY SIMPLE");
    c.done("CREATE TABLE u (id int PRIMARY KEY, v varchar(100)); CREATE INDEX i ON u (v)");
    c.done("INSERT u SELECT value, REPLICATE('u', 50) FROM GENERATE_SERIES(1, 300)");
    until_refused(&mut c, INSERT);
    until_refused(&mut c, "INSERT t (v) VALUES (REPLICATE('x', 2000))");
    let count =
        "SELECT CONCAT((SELECT COUNT(*) FROM u), ' ', (SELECT COUNT(*) FROM u WITH (INDEX(i))))";
    assert_eq!(c.scalar(count), "300 300");
    server.disk.set_faults(Faults {
        capacity_bytes: Some(1),
        ..Faults::default()
    });
    c.done("BEGIN TRANSACTION; TRUNCATE TABLE u");
    assert_eq!(c.scalar(count), "0 0");
    c.done("ROLLBACK");
    assert_eq!(c.scalar(count), "300 300");
    c.done("TRUNCATE TABLE u");
    assert_eq!(c.scalar(count), "0 0");
    server.disk.set_faults(Faults::default());
    let server = server.crash();
    let mut c = server.connect_to("d");
    assert_eq!(c.scalar(count), "0 0");
    assert_eq!(c.run("DBCC CHECKDB WITH NO_INFOMSGS"), "");
}

#[test]
fn a_disk_that_fills_up_during_a_checkpoint_costs_nothing_committed() {
    let server = Server::new();
    let mut c = small(&server, "ALTER DATABASE d SET RECOVERY SIMPLE");
    assert_eq!(c.run(INSERT), "(20 rows affected)\n");
    server.disk.set_faults(Faults {
        no_space: true,
        ..Faults::default()
    });
    let out = c.run("CHECKPOINT");
    assert!(
        out.contains("Msg"),
        "a checkpoint cannot end without room: {out}"
    );
    // Pages in memory and on disk can no longer be told apart: nothing is answered before recovery.
    let out = c.run("SELECT COUNT(*) FROM t");
    assert!(out.contains("Msg 926,"), "{out}");
    let out = c.run("INSERT t (v) VALUES ('too late')");
    assert!(out.contains("Msg"), "{out}");
    server.disk.set_faults(Faults::default());
    let server = server.crash();
    let mut c = server.connect_to("d");
    assert_eq!(
        c.scalar("SELECT COUNT(*) FROM t WHERE v <> 'too late'"),
        "21"
    );
    assert_eq!(c.run("CHECKPOINT"), "");
    assert_eq!(c.run("DBCC CHECKDB WITH NO_INFOMSGS"), "");
    assert_eq!(
        c.run("INSERT t (v) VALUES ('in time')"),
        "(1 row affected)\n"
    );
}

#[test]
fn a_full_disk_under_scratch_files_ends_the_statement_alone() {
    let server = Server::new();
    let mut c = server.connect();
    server.disk.set_faults(Faults {
        capacity_bytes: Some(1),
        ..Faults::default()
    });
    let rows = "SELECT TOP (3000) REPLICATE('x', 8000) AS v FROM sys.all_columns a CROSS JOIN sys.all_columns b";
    c.run(&format!("DECLARE c CURSOR STATIC FOR {rows}"));
    let out = c.run("OPEN c");
    assert!(out.starts_with("Msg 1105, Level 17, State 2"), "{out}");
    assert!(out.contains("in database 'tempdb'"), "{out}");
    server.disk.set_faults(Faults::default());
    assert_eq!(c.run("OPEN c"), "");
    assert_eq!(c.scalar("SELECT @@CURSOR_ROWS"), "3000");
}

const SCRATCH: &str = "/data/spill";

fn scratch_files(server: &Server) -> usize {
    server
        .disk
        .list(Path::new(SCRATCH))
        .expect("the folder")
        .len()
}

#[test]
fn scratch_files_of_a_server_that_was_killed_are_removed() {
    let server = Server::new();
    let open = "DECLARE c CURSOR FOR SELECT TOP (3000) REPLICATE('x', 8000) AS v \
                FROM sys.all_columns a CROSS JOIN sys.all_columns b; OPEN c";
    assert_eq!(server.connect().run(open), "");
    assert_eq!(scratch_files(&server), 0, "a session that has ended");
    let mut c = server.connect();
    assert_eq!(c.run(open), "");
    assert_eq!(scratch_files(&server), 1);
    c.session.close();
    let disk = server.stop();
    // The name that the next server's first file gets.
    for number in 0..4 {
        let path = Path::new(SCRATCH).join(format!("spill-{number}-0.tmp"));
        disk.open(&path, OpenMode::CreateNew).expect("a file");
    }
    let server = Server::over(disk);
    assert_eq!(scratch_files(&server), 0, "a server that was killed");
    assert_eq!(server.connect().run(open), "");
}

#[test]
fn open_cursors_of_a_session_have_bounds_in_memory_and_on_disk() {
    let server = Server::new();
    let mut c = server.connect();
    let mut opened = 0;
    let refused = loop {
        let out = c.run(&format!(
            "DECLARE c{opened} CURSOR FOR SELECT TOP (100) REPLICATE('x', 1000) AS v FROM sys.all_columns; OPEN c{opened}"
        ));
        match out.is_empty() {
            true => opened += 1,
            false => break out,
        }
        assert!(opened < 1_000, "no bound");
    };
    assert!(refused.starts_with("Msg 701,"), "{refused}");
    assert_eq!(scratch_files(&server), 256);
    assert!(opened > 256, "the first ones lie in memory: {opened}");
    let last = opened - 1;
    assert_eq!(c.run(&format!("CLOSE c{last}; OPEN c{opened}")), "");
    c.run(&format!("FETCH NEXT FROM c{opened}; FETCH NEXT FROM c0"));
}

#[test]
fn as_many_cursors_are_open_as_there_may_be() {
    let server = Server::new();
    let mut c = server.connect();
    let open = "DECLARE @n int = 0, @text nvarchar(200)
        WHILE @n < 4097
        BEGIN
            SET @text = REPLACE(N'DECLARE c# CURSOR GLOBAL FOR SELECT 1 AS one; OPEN c#', N'#', @n)
            EXEC (@text)
            SET @n += 1
        END";
    let out = c.run(open);
    assert_eq!(common::errors(&out), [701], "{out}");
    assert_eq!(c.run("CLOSE c0; OPEN c4096"), "");
    assert_eq!(c.run("FETCH c4096"), "one\n1\n(1 row affected)\n");
}

#[test]
fn what_cursors_of_a_session_are_declared_with_has_a_bound() {
    let server = Server::new();
    let mut c = server.connect();
    c.done("CREATE TABLE t (id int PRIMARY KEY, v nvarchar(max)); INSERT t VALUES (1, N'x')");
    let mut declared = 0;
    let refused = loop {
        let out = c.run(&format!(
            "DECLARE @v nvarchar(max) = REPLICATE(CAST(N'v' AS nvarchar(max)), 5000000); \
             DECLARE v{declared} CURSOR GLOBAL FOR SELECT id FROM t WHERE v <> @v; OPEN v{declared}; FETCH v{declared}"
        ));
        match common::errors(&out).as_slice() {
            [] => declared += 1,
            _ => break out,
        }
        assert!(declared < 100, "no bound");
    };
    assert!(refused.starts_with("Msg 701,"), "{refused}");
    assert!(declared > 3, "{declared}");
    assert_eq!(
        c.run("FETCH FIRST FROM v0"),
        "Msg 16911, Level 16, State 1, Line 1\nfetch: The fetch type first cannot be used with forward only cursors.\n"
    );
    c.done("DEALLOCATE v1");
    // A variable that the query does not name is not kept.
    for n in 0..40 {
        c.done(&format!(
            "DECLARE @v nvarchar(max) = REPLICATE(CAST(N'v' AS nvarchar(max)), 5000000), @id int = 1; \
             DECLARE u{n} CURSOR GLOBAL FOR SELECT id FROM t WHERE id >= @ID; OPEN u{n}"
        ));
    }
    assert_eq!(c.run("FETCH u39"), "id\n1\n(1 row affected)\n");
}

#[test]
fn a_full_disk_under_tempdb_ends_the_statement_alone() {
    let server = Server::new();
    let mut c = server.connect();
    c.run("CREATE TABLE #kept (id int); INSERT #kept VALUES (1)");
    server.disk.set_faults(Faults {
        capacity_bytes: Some(1),
        ..Faults::default()
    });
    let mut last = String::new();
    for n in 0..400 {
        let rows = "SELECT TOP 2000 REPLICATE('x', 4000) AS v FROM sys.all_columns a CROSS JOIN sys.all_columns b";
        last = c.run(&format!("SELECT v INTO #t{n} FROM ({rows}) x"));
        if last.contains("Msg") {
            break;
        }
    }
    assert!(
        last.contains("Msg 1105, Level 17") || last.contains("Msg 9002, Level 17"),
        "{last}"
    );
    assert_eq!(c.scalar("SELECT COUNT(*) FROM #kept"), "1");
    server.disk.set_faults(Faults::default());
    assert_eq!(c.run("SELECT 1 AS one INTO #after"), "(1 row affected)\n");
}
