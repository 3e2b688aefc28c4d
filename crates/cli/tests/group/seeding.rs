//! Copies to new replicas that break off.

use crate::command;
use crate::servers::*;

/// Bytes that have come of the newest copy.
pub const COME: &str = "SELECT TOP (1) transferred_size_bytes FROM sys.dm_hadr_physical_seeding_stats ORDER BY start_time_utc DESC";

#[test]
fn a_copy_that_breaks_off_goes_on_with_what_has_come() {
    let root = tempfile::tempdir().expect("temporary directory");
    let root = root.path();
    let (mut alfa, mut bravo) = (Server::start(root, "ALFA"), Server::start(root, "BRAVO"));
    create_database(&alfa);
    alfa.sql("INSERT d.dbo.t SELECT value, CONCAT(value, REPLICATE('x', 90)) FROM GENERATE_SERIES(1, 20000)");
    alfa.sql("EXEC sp_configure 'show advanced options', 1 RECONFIGURE");
    alfa.sql("EXEC sp_configure 'automatic seeding (MB/s)', 1 RECONFIGURE");
    let (here, there) = (alfa.endpoint_url(), bravo.endpoint_url());
    let token = command(
        &alfa,
        &["create", "g", "--database", "d", "--endpoint", &here],
    );
    command(
        &bravo,
        &["join", &token, "--endpoint", &there, "--readable"],
    );
    let most = COME.replace(
        "transferred_size_bytes",
        "IIF(transferred_size_bytes > 1500000, 1, 0)",
    );
    bravo.wait_for(&most, "1");
    // Either server may go.
    bravo.stop();
    bravo.run();
    alfa.kill();
    bravo.wait_for_log("Automatic seeding of database 'd' of availability group 'g' has failed");
    alfa.run();
    bravo.wait_for(COUNT, "20000");
    bravo.wait_for(
        "SELECT COUNT(*) FROM d.dbo.t WHERE v = CONCAT(id, REPLICATE('x', 90))",
        "20000",
    );
    bravo.wait_for_log("pages were there already");
    let come: u64 = bravo.value(COME).expect("a copy").parse().expect("bytes");
    assert!(come < 1_500_000, "{come} bytes came again");
}
