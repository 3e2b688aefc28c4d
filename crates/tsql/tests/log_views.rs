//! What the views of the log say, on a classic and on an accelerated database side by side, in situations that are known.

mod common;

use common::{Client, Server};
use daruma_sim::{Faults, Rates};

const MODES: [&str; 2] = ["OFF", "ON"];

fn run(c: &mut Client, batch: &str) {
    let out = c.run(batch);
    let is_error = |line: &str| {
        line.starts_with("Msg ") && !line.contains(", Level 0,") && !line.contains(", Level 10,")
    };
    assert!(!out.lines().any(is_error), "{batch}\n{out}");
}

fn number(c: &mut Client, query: &str) -> f64 {
    let found = c.scalar(query);
    found.parse().unwrap_or_else(|_| panic!("{query}: {found}"))
}

/// A database `d` in the mode, with a table of so many rows, settled.
fn server(mode: &str, rows: u32) -> (Server, Client) {
    let server = Server::new();
    let mut c = server.connect();
    run(&mut c, "CREATE DATABASE d");
    run(&mut c, "ALTER DATABASE d SET RECOVERY SIMPLE");
    run(
        &mut c,
        &format!("ALTER DATABASE d SET ACCELERATED_DATABASE_RECOVERY = {mode}"),
    );
    c.session.close();
    let mut c = server.connect_to("d");
    run(
        &mut c,
        "CREATE TABLE t (id int NOT NULL CONSTRAINT pk_t PRIMARY KEY, v int NOT NULL, filler char(200) NOT NULL)",
    );
    run(
        &mut c,
        &format!("INSERT t SELECT value, 0, 'x' FROM GENERATE_SERIES(1, {rows})"),
    );
    settle(&server);
    run(&mut c, "CHECKPOINT");
    (server, c)
}

fn settle(server: &Server) {
    let entry = server.instance.database_named("d").expect("is there");
    let storage = entry.open().expect("is open").storage;
    while storage.background_step().expect("no faults") {}
}

/// Are they the same number? Floats are shown with six digits.
fn same(found: f64, expected: f64, what: &str) {
    let close = (found - expected).abs() <= 1e-5 * expected.abs().max(1.0);
    assert!(close, "{what}: {found}, expected {expected}");
}

const STATS: &str = "FROM sys.dm_db_log_stats(DB_ID())";
const SPACE: &str = "FROM sys.dm_db_log_space_usage";

fn stat(c: &mut Client, column: &str) -> f64 {
    number(c, &format!("SELECT {column} {STATS}"))
}

/// Bytes between two positions, of which the second is a column as well.
fn between(c: &mut Client, low: &str, high: &str) -> i64 {
    let position = |c: &mut Client, column: &str| {
        let text = c.scalar(&format!("SELECT {column} {STATS}"));
        let parts: Vec<i64> = text
            .split(':')
            .map(|p| i64::from_str_radix(p, 16).expect("hex"))
            .collect();
        parts[0] << 32 | parts[1]
    };
    position(c, high) - position(c, low)
}

/// Whatever the situation, the views agree with each other and with the file.
fn agree(c: &mut Client) {
    let total = number(c, &format!("SELECT total_log_size_in_bytes {SPACE}"));
    let used = number(c, &format!("SELECT used_log_space_in_bytes {SPACE}"));
    let percent = number(c, &format!("SELECT used_log_space_in_percent {SPACE}"));
    assert!(
        (percent - used * 100.0 / total).abs() < 0.01,
        "{percent} % of {total}: {used}"
    );
    // The file's header is no whole page.
    let pages = number(
        c,
        "SELECT size * 8192.0 FROM sys.database_files WHERE type = 1",
    );
    assert!(
        (0.0..8_192.0).contains(&(total - pages)),
        "{pages} of {total}"
    );
    same(stat(c, "total_log_size_mb"), total / 1_048_576.0, "total");
    assert_eq!(
        between(c, "log_min_lsn", "log_end_lsn") as f64,
        used,
        "used is from the lowest need to the end"
    );
    let rows = c.run("DBCC SQLPERF(LOGSPACE)");
    let line = rows
        .lines()
        .find(|l| l.starts_with("d | "))
        .expect("the database");
    let cells: Vec<&str> = line.split(" | ").collect();
    let close = |cell: &str, to: f64| (cell.parse::<f64>().expect("a number") - to).abs() < 0.01;
    assert!(
        close(cells[1], total / 1_048_576.0) && close(cells[2], percent),
        "{line}"
    );
    assert_eq!(cells[3], "0");
    // Virtual log files.
    let info = "FROM sys.dm_db_log_info(DB_ID())";
    for (column, query) in [
        ("total_vlf_count", "COUNT(*)"),
        (
            "active_vlf_count",
            "SUM(CASE WHEN vlf_active = 1 THEN 1 ELSE 0 END)",
        ),
        ("current_vlf_sequence_number", "MAX(vlf_sequence_number)"),
        (
            "active_log_size_mb",
            "SUM(CASE WHEN vlf_active = 1 THEN vlf_size_mb ELSE 0 END)",
        ),
    ] {
        let listed = number(c, &format!("SELECT {query} {info}"));
        same(stat(c, column), listed, column);
    }
    assert!(
        used <= stat(c, "active_log_size_mb") * 1_048_576.0 + 100.0,
        "{used} bytes in active files"
    );
    let whole = number(
        c,
        &format!("SELECT SUM(vlf_size_mb) + MIN(vlf_begin_offset) / 1048576.0 {info}"),
    );
    assert!(
        (whole - stat(c, "total_log_size_mb")).abs() < 0.001,
        "{whole}"
    );
    for wrong in [
        "(vlf_active = 1 AND vlf_status <> 2) OR (vlf_active = 0 AND vlf_status = 2)",
        "(vlf_sequence_number = 0 AND (vlf_status <> 1 OR vlf_parity <> 0 OR vlf_first_lsn <> '00000000:00000000:0000'))",
        "vlf_sequence_number > 0 AND vlf_parity <> CASE WHEN vlf_sequence_number % 2 = 1 THEN 64 ELSE 128 END",
        "vlf_create_lsn <> '00000000:00000000:0000'",
        "file_id <> 2 OR database_id <> DB_ID()",
    ] {
        assert_eq!(
            number(c, &format!("SELECT COUNT(*) {info} WHERE {wrong}")),
            0.0,
            "{wrong}"
        );
    }
    let held = c.scalar(&format!("SELECT log_truncation_holdup_reason {STATS}"));
    assert_eq!(
        c.scalar("SELECT log_reuse_wait_desc FROM sys.databases WHERE name = 'd'"),
        held
    );
    // What a restart would read.
    let recovery = between(c, "log_recovery_lsn", "log_end_lsn") as f64 / 1_048_576.0;
    same(stat(c, "log_recovery_size_mb"), recovery, "recovery");
    let since = between(c, "log_checkpoint_lsn", "log_end_lsn") as f64 / 1_048_576.0;
    same(
        stat(c, "log_since_last_checkpoint_mb"),
        since,
        "since the checkpoint",
    );
    assert!(
        between(c, "log_min_lsn", "log_recovery_lsn") >= 0,
        "what recovery needs is kept"
    );
}

#[test]
fn an_open_transaction_holds_the_log_of_a_classic_database_only() {
    for mode in MODES {
        let (server, mut c) = server(mode, 4_000);
        agree(&mut c);
        let quiet = number(&mut c, &format!("SELECT used_log_space_in_bytes {SPACE}"));
        assert!(
            quiet < 100_000.0,
            "{mode}: {quiet} bytes used after a checkpoint"
        );
        assert_eq!(
            c.scalar(&format!("SELECT log_truncation_holdup_reason {STATS}")),
            "NOTHING"
        );
        run(
            &mut c,
            "BEGIN TRANSACTION; UPDATE t SET v = v + 1, filler = 'y'",
        );
        agree(&mut c);
        let written = stat(&mut c, "log_since_last_checkpoint_mb");
        assert!(written > 0.1, "{mode}: {written} MB for 4,000 rows");
        let mut other = server.connect_to("d");
        run(&mut other, "CHECKPOINT");
        agree(&mut other);
        let used = number(
            &mut other,
            &format!("SELECT used_log_space_in_bytes {SPACE}"),
        ) / 1_048_576.0;
        let recovery = stat(&mut other, "log_recovery_size_mb");
        let reason = other.scalar("SELECT log_reuse_wait_desc FROM sys.databases WHERE name = 'd'");
        let wait = number(
            &mut other,
            "SELECT log_reuse_wait FROM sys.databases WHERE name = 'd'",
        );
        match mode {
            "OFF" => {
                assert_eq!((reason.as_str(), wait), ("ACTIVE_TRANSACTION", 4.0));
                assert!(
                    used >= written && recovery >= written,
                    "{used} and {recovery} of {written} MB"
                );
            }
            _ => {
                assert_eq!((reason.as_str(), wait), ("NOTHING", 0.0));
                assert!(
                    used < written / 2.0 && recovery < written / 2.0,
                    "{used} and {recovery} of {written} MB"
                );
            }
        }
        run(&mut c, "ROLLBACK; CHECKPOINT");
        settle(&server);
        run(&mut c, "CHECKPOINT");
        agree(&mut c);
        let after = number(&mut c, &format!("SELECT used_log_space_in_bytes {SPACE}"));
        assert!(after < 100_000.0, "{mode}: {after} bytes used in the end");
    }
}

#[test]
fn a_log_chain_holds_the_log_until_it_is_backed_up() {
    for mode in MODES {
        let (_server, mut c) = server(mode, 2_000);
        run(&mut c, "ALTER DATABASE d SET RECOVERY FULL");
        assert_eq!(c.scalar(&format!("SELECT recovery_model {STATS}")), "FULL");
        let since = "log_since_last_log_backup_mb";
        assert_eq!(c.scalar(&format!("SELECT log_backup_lsn {STATS}")), "NULL");
        run(&mut c, "BACKUP DATABASE d TO DISK = '/full.bak'");
        let start = stat(&mut c, since);
        assert!(start < 0.1, "{start} MB right after the backup");
        run(&mut c, "UPDATE t SET v = v + 1, filler = 'y'; CHECKPOINT");
        let log = stat(&mut c, since);
        assert!(
            log > 0.1 && log >= stat(&mut c, "log_since_last_checkpoint_mb"),
            "{log} MB"
        );
        let bytes = number(
            &mut c,
            &format!("SELECT log_space_in_bytes_since_last_backup {SPACE}"),
        );
        assert!(
            (bytes / 1_048_576.0 - log).abs() < 0.01,
            "{bytes} bytes, {log} MB"
        );
        assert_eq!(
            c.scalar("SELECT log_reuse_wait_desc FROM sys.databases WHERE name = 'd'"),
            "LOG_BACKUP"
        );
        agree(&mut c);
        assert_eq!(c.scalar(&format!("SELECT log_backup_time {STATS}")), "NULL");
        run(&mut c, "BACKUP LOG d TO DISK = '/log.bak'");
        assert!(
            stat(&mut c, since) < 0.05,
            "{} MB after a log backup",
            stat(&mut c, since)
        );
        let finished = "(SELECT MAX(backup_finish_date) FROM msdb.dbo.backupset WHERE type = 'L')";
        let late = format!("SELECT ABS(DATEDIFF(second, log_backup_time, {finished})) {STATS}");
        assert!(number(&mut c, &late) <= 1.0);
        // The log says where the next log backup begins: that record is the first of it.
        run(&mut c, "CHECKPOINT");
        agree(&mut c);
        assert_eq!(
            c.scalar("SELECT log_reuse_wait_desc FROM sys.databases WHERE name = 'd'"),
            "LOG_BACKUP"
        );
    }
}

/// The lines of one database in the error log since the last start, oldest first.
fn log_lines(c: &mut Client) -> Vec<String> {
    let out = c.run("CREATE TABLE #log (n int IDENTITY, d datetime, p nvarchar(100), line nvarchar(max));
         INSERT #log EXEC sys.xp_readerrorlog;
         SELECT line FROM #log WHERE line LIKE '%database ''d''%' OR line LIKE '%database d %' OR line LIKE '%DbId:5]%' ORDER BY n;
         DROP TABLE #log");
    let lines = out.lines().filter(|l| !l.starts_with('(') && *l != "line");
    lines.map(str::to_string).collect()
}

#[test]
fn the_error_log_tells_what_recovery_did() {
    for mode in MODES {
        let (server, mut c) = server(mode, 2_000);
        run(
            &mut c,
            "UPDATE t SET v = 1 WHERE id = 1; UPDATE t SET v = 1 WHERE id = 2",
        );
        run(&mut c, "BEGIN TRANSACTION; UPDATE t SET v = 2");
        let mut other = server.connect_to("d");
        run(&mut other, "INSERT t VALUES (0, 0, 'the last commit')");
        server.disk.stop();
        drop((c, other));
        let server = server.crash();
        let mut c = server.connect_to("d");
        let lines = log_lines(&mut c);
        let end = "This is an informational message only. No user action is required.";
        let adr = if mode == "ON" { 1 } else { 0 };
        let mut expected = vec![
            "Starting up database 'd'.".to_string(),
            "Parallel redo is started for database 'd' with worker pool size [1].".to_string(),
            "Phase 2 of 3.".to_string(),
            // The two updates, the insert, and nothing from before the checkpoint.
            format!("3 transactions rolled forward in database 'd' (5:0). {end}"),
        ];
        if mode == "ON" {
            expected.push("[DbId:5] ADR enabled for the database.".to_string());
        }
        expected.extend([
            format!("1 transactions rolled back in database 'd' (5:0). {end}"),
            "is 100% complete (approximately 0 seconds remain). Phase 3 of 3.".to_string(),
            "Database 'd' (5:0) is recovered up to the commit at LSN".to_string(),
            format!(".) ADR-enabled={adr}, Is primary=1, OL-Enabled=0. {end}"),
            "Database 'd' (5) was opened in ".to_string(),
            "Parallel redo is shutdown for database 'd' with worker pool size [1].".to_string(),
            format!("Recovery is writing a checkpoint in database 'd' (5). {end}"),
            "The checkpoint after the recovery of database 'd' (5) took ".to_string(),
        ]);
        assert_eq!(lines.len(), expected.len(), "{mode}: {lines:#?}");
        for (line, part) in lines.iter().zip(&expected) {
            assert!(line.contains(part.as_str()), "{mode}: {line}\nlacks {part}");
        }
        let done = "Recovery completed for database d (database ID 5) in ";
        assert!(
            lines[lines.len() - 5].starts_with(done),
            "{mode}: {lines:#?}"
        );
        assert_eq!(c.scalar("SELECT SUM(v) FROM t"), "2");
        // What waits to be reverted was rolled back by the recovery before: it is not rolled back again.
        let server = server.crash();
        let mut c = server.connect_to("d");
        let lines = log_lines(&mut c);
        let told = lines
            .iter()
            .filter(|l| l.contains("0 transactions rolled back"))
            .count();
        assert_eq!(told, 1, "{mode}: {lines:#?}");
        // After a clean stop there is nothing to tell.
        c.session.close();
        let server = server.restart();
        let mut c = server.connect_to("d");
        assert_eq!(log_lines(&mut c), ["Starting up database 'd'."], "{mode}");
    }
}

/// The numbers of the line of the error log that begins so.
fn numbers_of(lines: &[String], begin: &str) -> Vec<u64> {
    let line = lines.iter().find(|line| line.starts_with(begin));
    let line = line.unwrap_or_else(|| panic!("{begin} is not in {lines:#?}"));
    let words = line[begin.len()..].split(|c: char| !c.is_ascii_digit());
    words.filter_map(|word| word.parse().ok()).collect()
}

/// `Recovery completed for database d (database ID 5) in 6 second(s) (analysis 1001 ms, redo 2002 ms, undo 3003 ms [system undo 1
/// ms, regular undo 3002 ms].)`: undo is the sum of its parts, and the seconds are those of the phases. The other line tells the
/// same time, with parts that are none too long.
#[test]
fn the_times_of_a_recovery_add_up() {
    for mode in MODES {
        let (server, mut c) = server(mode, 2_000);
        run(&mut c, "UPDATE t SET v = 1");
        run(&mut c, "BEGIN TRANSACTION; UPDATE t SET v = 2");
        let mut other = server.connect_to("d");
        run(&mut other, "INSERT t VALUES (0, 0, 'the last commit')");
        server.disk.stop();
        drop((c, other));
        // Each call takes a second or so of the simulated clock.
        let server = server.crash_onto(|disk| {
            disk.set_faults(Faults {
                rates: Rates {
                    slow: 100_000,
                    ..Rates::default()
                },
                ..Faults::default()
            });
        });
        server.disk.set_faults(Faults::default());
        let lines = log_lines(&mut server.connect_to("d"));
        let done = "Recovery completed for database d (database ID 5) in ";
        let phases = numbers_of(&lines, done);
        let [seconds, analysis, redo, undo, system, regular, ..] = phases[..] else {
            panic!("{phases:?}")
        };
        assert!(analysis > 0 && redo > 0 && undo > 0, "{mode}: {phases:?}");
        assert_eq!(undo, system + regular, "{mode}: {phases:?}");
        assert_eq!(
            seconds,
            (analysis + redo + undo) / 1_000,
            "{mode}: {phases:?}"
        );
        let parts = numbers_of(&lines, "Database 'd' (5) was opened in ");
        let [
            total,
            files,
            reading,
            redone,
            _kilobytes,
            undone,
            record,
            definitions,
            ..,
        ] = parts[..]
        else {
            panic!("{parts:?}")
        };
        assert_eq!(
            (files + reading, redone),
            (analysis, redo),
            "{mode}: {parts:?}"
        );
        assert_eq!(total, analysis + redo + undo, "{mode}: {parts:?}");
        assert!(
            files > 0 && reading > 0 && record > 0 && definitions > 0,
            "{mode}: {parts:?}"
        );
        // Steps between the parts have no figure in this line.
        let sum = files + reading + redone + undone + record + definitions;
        assert!(sum <= total, "{mode}: {sum} of {parts:?}");
    }
}

#[test]
fn the_views_of_versions_count_what_is_there() {
    for mode in MODES {
        let (server, mut c) = server(mode, 2_000);
        run(&mut c, "CREATE INDEX ix_v ON t (v)");
        settle(&server);
        let mut old = server.connect_to("d");
        run(&mut old, "ALTER DATABASE d SET ALLOW_SNAPSHOT_ISOLATION ON");
        run(
            &mut old,
            "SET TRANSACTION ISOLATION LEVEL SNAPSHOT; BEGIN TRANSACTION; DECLARE @n int = (SELECT COUNT(*) FROM t)",
        );
        run(
            &mut c,
            "UPDATE t SET v = v + 1 WHERE id <= 500; DELETE t WHERE id > 1900",
        );
        // Under the snapshot: 500 rows with an older version, 100 deleted ones; in the index 500 moved entries as well.
        let physical = |c: &mut Client, column: &str, index: u32| {
            number(
                c,
                &format!(
                    "SELECT {column} FROM sys.dm_db_index_physical_stats(DB_ID(), OBJECT_ID('t'), {index}, NULL, 'DETAILED') WHERE index_level = 0"
                ),
            )
        };
        let index = number(
            &mut c,
            "SELECT index_id FROM sys.indexes WHERE name = 'ix_v'",
        ) as u32;
        for (column, of_table, of_index) in [
            ("record_count", 1_900.0, 1_900.0),
            ("ghost_record_count", 0.0, 0.0),
            ("version_ghost_record_count", 100.0, 600.0),
            ("version_record_count", 600.0, 600.0),
            ("offrow_regular_version_record_count", 600.0, 600.0),
            ("inrow_version_record_count", 0.0, 0.0),
            ("inrow_diff_version_record_count", 0.0, 0.0),
            ("total_inrow_version_payload_size_in_bytes", 0.0, 0.0),
            ("offrow_long_term_version_record_count", 0.0, 0.0),
        ] {
            assert_eq!(physical(&mut c, column, 1), of_table, "{mode}: {column}");
            assert_eq!(
                physical(&mut c, column, index),
                of_index,
                "{mode}: {column} of the index"
            );
        }
        let own = "SELECT index_name, version_count, version_ghost_count, uncommitted_row_count, aborted_row_count FROM sys.dm_db_version_store_tables WHERE table_name = 't' ORDER BY index_id";
        assert_eq!(
            c.run(own).lines().skip(1).take(2).collect::<Vec<_>>(),
            ["pk_t | 600 | 100 | 0 | 0", "ix_v | 600 | 600 | 0 | 0"],
            "{mode}"
        );
        let store = "FROM sys.dm_tran_persistent_version_store_stats WHERE database_id = DB_ID()";
        let size = number(
            &mut c,
            &format!("SELECT persistent_version_store_size_kb {store}"),
        );
        let listed = number(
            &mut c,
            "SELECT SUM(version_bytes) / 1024 FROM sys.dm_db_version_store_tables",
        );
        assert!(
            size >= listed && size < listed * 1.5 + 64.0,
            "{mode}: {size} KB, {listed} KB of versions"
        );
        assert_eq!(
            number(
                &mut c,
                &format!("SELECT current_aborted_transaction_count {store}")
            ),
            0.0
        );
        assert_eq!(
            number(
                &mut c,
                &format!("SELECT oldest_active_transaction_id {store}")
            ),
            0.0
        );
        assert!(number(&mut c, &format!("SELECT min_transaction_timestamp {store}")) > 0.0);
        let temporary = number(
            &mut c,
            "SELECT reserved_space_kb FROM sys.dm_tran_version_store_space_usage WHERE database_id = DB_ID()",
        );
        assert_eq!(
            temporary > 0.0,
            mode == "OFF",
            "{mode}: {temporary} KB outside of the database"
        );
        // An open transaction, by its number.
        run(
            &mut c,
            "BEGIN TRANSACTION; UPDATE t SET filler = 'open' WHERE id = 1",
        );
        let mine = number(
            &mut c,
            "SELECT transaction_id FROM sys.dm_db_version_store_pins WHERE session_id = @@SPID AND pin_type_desc = 'ACTIVE_TRANSACTION' AND database_id = DB_ID()",
        );
        assert_eq!(
            number(
                &mut c,
                &format!("SELECT oldest_active_transaction_id {store}")
            ),
            mine
        );
        run(&mut c, "COMMIT");
        run(&mut old, "COMMIT");
        drop(old);
        settle(&server);
        run(&mut c, "EXEC sys.sp_persistent_version_cleanup NULL, 1");
        assert_eq!(
            number(
                &mut c,
                &format!("SELECT persistent_version_store_size_kb {store}")
            ),
            0.0,
            "{mode}"
        );
        assert_eq!(
            number(&mut c, &format!("SELECT min_transaction_timestamp {store}")),
            0.0,
            "{mode}"
        );
        assert_eq!(physical(&mut c, "version_record_count", 1), 0.0);
        assert_eq!(
            number(
                &mut c,
                "SELECT COUNT(*) FROM sys.dm_db_version_store_tables"
            ),
            0.0
        );
    }
}

#[test]
fn an_aborted_transaction_is_shown_until_it_is_reverted() {
    let (server, mut c) = server("ON", 3_000);
    let aborted = "FROM sys.dm_tran_aborted_transactions WHERE database_id = DB_ID()";
    let store = "FROM sys.dm_tran_persistent_version_store_stats WHERE database_id = DB_ID()";
    run(
        &mut c,
        "BEGIN TRANSACTION; UPDATE t SET v = 7, filler = 'aborted'",
    );
    let id = number(
        &mut c,
        "SELECT transaction_id FROM sys.dm_db_version_store_pins WHERE session_id = @@SPID AND database_id = DB_ID() AND pin_type_desc = 'ACTIVE_TRANSACTION'",
    );
    assert_eq!(number(&mut c, &format!("SELECT COUNT(*) {aborted}")), 0.0);
    let end = "SELECT log_end_lsn FROM sys.dm_db_log_stats(DB_ID())";
    let before = c.scalar(end);
    run(&mut c, "ROLLBACK");
    assert_eq!(
        number(&mut c, &format!("SELECT transaction_id {aborted}")),
        id
    );
    assert_eq!(
        number(&mut c, &format!("SELECT nest_aborted {aborted}")),
        0.0
    );
    assert_eq!(
        number(
            &mut c,
            &format!(
                "SELECT COUNT(*) {aborted} AND begin_time BETWEEN DATEADD(minute, -5, GETDATE()) AND GETDATE()"
            )
        ),
        1.0
    );
    assert!(
        number(&mut c, &format!("SELECT begin_xact_lsn {aborted}"))
            < number(&mut c, &format!("SELECT end_xact_lsn {aborted}"))
    );
    let parts: Vec<u64> = before
        .split(':')
        .map(|p| u64::from_str_radix(p, 16).expect("hex"))
        .collect();
    assert!(
        number(&mut c, &format!("SELECT end_xact_lsn {aborted}"))
            >= (parts[0] << 32 | parts[1]) as f64
    );
    assert_eq!(
        number(
            &mut c,
            &format!("SELECT current_aborted_transaction_count {store}")
        ),
        1.0
    );
    assert_eq!(
        number(
            &mut c,
            &format!("SELECT oldest_aborted_transaction_id {store}")
        ),
        id
    );
    assert_eq!(
        number(
            &mut c,
            "SELECT aborted_row_count FROM sys.dm_db_version_store_tables WHERE table_name = 't' AND index_id = 1"
        ),
        3_000.0
    );
    // The versions were not on pages: nothing is skipped that was never there.
    assert_eq!(
        number(
            &mut c,
            &format!("SELECT pvs_off_row_page_skipped_oldest_aborted_xdesid {store}")
        ),
        0.0
    );
    settle(&server);
    assert_eq!(number(&mut c, &format!("SELECT COUNT(*) {aborted}")), 0.0);
    let swept = format!(
        "SELECT COUNT(*) {store} AND aborted_version_cleaner_start_time <= aborted_version_cleaner_end_time AND oldest_aborted_transaction_id = 0 AND current_aborted_transaction_count = 0"
    );
    assert_eq!(number(&mut c, &swept), 1.0);
}
