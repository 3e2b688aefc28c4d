//! How log and copies travel: `--log-compression`, and trace flags 9592, 1462 and 9567 while they flow.

use super::command;
use super::servers::*;

/// Bytes of the log blocks that were sent to the other replica, and what they were on the wire.
const SHIPPED: &str = "SELECT CONCAT(log_block_bytes, ' ', log_block_sent_bytes) FROM sys.dm_hadr_database_replica_states WHERE is_local = 0";

fn shipped(primary: &Server) -> (u64, u64) {
    let text = primary.value(SHIPPED).expect("a replica");
    let figures = text.split_once(' ').expect("two figures");
    let number = |text: &str| text.parse().expect("bytes");
    (number(figures.0), number(figures.1))
}

/// Text that packs well goes to the other side; does it travel packed?
fn is_packed(primary: &Server, secondary: &Server, rows: &mut u32) -> bool {
    let count = rows.to_string();
    primary.wait_for(COUNT, &count);
    secondary.wait_for(COUNT, &count);
    let before = shipped(primary);
    for _ in 0..20 {
        *rows += 1;
        primary.sql(&format!(
            "INSERT d.dbo.t VALUES ({rows}, REPLICATE('the same ', 11))"
        ));
    }
    let count = rows.to_string();
    secondary.wait_for(COUNT, &count);
    let after = shipped(primary);
    let (plain, sent) = (after.0 - before.0, after.1 - before.1);
    assert!(plain > 20 * 99 && sent > 0, "{plain} bytes, {sent} sent");
    assert!(sent == plain || sent * 10 < plain * 9, "{sent} of {plain}");
    sent < plain
}

#[test]
fn log_travels_as_the_defaults_and_the_trace_flags_say() {
    let root = tempfile::tempdir().expect("temporary directory");
    let root = root.path();
    let mut alfa = Server::stopped(root, "ALFA");
    alfa.arguments = &["--log-compression", "2016"];
    alfa.run();
    let bravo = Server::start(root, "BRAVO");
    acquaint(root, &[&alfa, &bravo]);
    create_database(&alfa);
    create_group(root, &alfa, &bravo, "SYNCHRONOUS_COMMIT");
    alfa.wait_for(OTHER_STATE, "SYNCHRONIZED");
    let mut rows = 0;
    let mut is_packed = |primary: &Server| is_packed(primary, &bravo, &mut rows);

    assert!(!is_packed(&alfa), "2016: to nobody synchronous");
    alfa.sql("DBCC TRACEON (9592, -1)");
    assert!(is_packed(&alfa), "9592: to synchronous ones as well");
    alfa.sql("DBCC TRACEOFF (9592, -1)");
    assert!(!is_packed(&alfa), "off again");
    alfa.sql("ALTER AVAILABILITY GROUP g MODIFY REPLICA ON 'BRAVO' WITH (AVAILABILITY_MODE = ASYNCHRONOUS_COMMIT)");
    assert!(is_packed(&alfa), "2016: to asynchronous ones");
    alfa.sql("DBCC TRACEON (1462, -1)");
    assert!(!is_packed(&alfa), "1462: not to asynchronous ones");

    // The other defaults, and a flag from the start.
    alfa.kill();
    alfa.arguments = &["--log-compression", "2014"];
    alfa.run();
    alfa.wait_for(OWN_ROLE, "PRIMARY");
    assert!(is_packed(&alfa), "2014: to everybody");
    alfa.kill();
    alfa.arguments = &["--log-compression", "2014", "-T", "1462"];
    alfa.run();
    alfa.wait_for(OWN_ROLE, "PRIMARY");
    assert!(!is_packed(&alfa), "1462 from the start");
}

/// Bytes of the newest copy that was received, what they were on the wire, and were any packed?
fn copied(secondary: &Server) -> (u64, u64, bool) {
    let text = secondary
        .value(
            "SELECT TOP (1) CONCAT(transferred_size_bytes, ' ', transferred_wire_bytes, ' ', is_compression_enabled)
             FROM sys.dm_hadr_physical_seeding_stats ORDER BY start_time_utc DESC",
        )
        .expect("a copy");
    let mut figures = text.split(' ').map(|t| t.parse().expect("a number"));
    let mut next = || figures.next().expect("three figures");
    (next(), next(), next() == 1)
}

#[test]
fn a_copy_travels_as_the_trace_flag_says() {
    let root = tempfile::tempdir().expect("temporary directory");
    let root = root.path();
    let mut alfa = Server::stopped(root, "ALFA");
    alfa.arguments = &["--log-compression", "2016"];
    alfa.run();
    let bravo = Server::start(root, "BRAVO");
    create_database(&alfa);
    alfa.sql(
        "INSERT d.dbo.t SELECT TOP 20000 ROW_NUMBER() OVER (ORDER BY a.object_id), REPLICATE('x', 80)
         FROM sys.all_objects AS a CROSS JOIN sys.all_objects AS b",
    );
    let (here, there) = (alfa.endpoint_url(), bravo.endpoint_url());
    let create = ["create", "g", "--database", "d", "--endpoint", &here];
    let token = command(&alfa, &create);
    command(
        &bravo,
        &["join", &token, "--endpoint", &there, "--readable"],
    );
    let seeded =
        "SELECT TOP (1) current_state FROM sys.dm_hadr_automatic_seeding ORDER BY start_time DESC";
    bravo.wait_for(COUNT, "20000");
    bravo.wait_for(seeded, "COMPLETED");
    let (plain, wire, is_packed) = copied(&bravo);
    assert!(plain > 1_600_000 && !is_packed, "2016 packs no copy");
    assert_eq!(plain, wire);

    alfa.sql("DBCC TRACEON (9567, -1)");
    alfa.sql("EXEC sp_configure 'show advanced options', 1 RECONFIGURE");
    alfa.sql("EXEC sp_configure 'automatic seeding (MB/s)', 2 RECONFIGURE");
    bravo.sql("ALTER DATABASE d SET HADR OFF");
    bravo.sql("DROP DATABASE d");
    let copies = "SELECT IIF(COUNT(*) > 1, 1, 0) FROM sys.dm_hadr_automatic_seeding WHERE current_state = 'COMPLETED'";
    bravo.wait_for(copies, "1");
    bravo.wait_for(COUNT, "20000");
    let (plain, wire, is_packed) = copied(&bravo);
    assert!(is_packed && wire * 4 < plain, "{plain} bytes, {wire} sent");
    // The last part leaves when all before it would have gone at that rate, packed or not.
    let took = bravo.patient_value(
        "SELECT TOP (1) DATEDIFF(ms, start_time_utc, end_time_utc) FROM sys.dm_hadr_physical_seeding_stats ORDER BY start_time_utc DESC",
    );
    let took_ms: u64 = took.parse().expect("milliseconds");
    let least_ms = (plain - (64 << 10)) * 1000 / (2 << 20);
    assert!(took_ms >= least_ms, "{plain} bytes in {took_ms} ms");
    bravo.wait_for(
        "SELECT COUNT(*) FROM d.dbo.t WHERE v = REPLICATE('x', 80)",
        "20000",
    );
}
