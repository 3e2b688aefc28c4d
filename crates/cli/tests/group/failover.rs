//! Failovers that are cut short: by a folder that stands where a file of the group is to be written, and by kills.

use super::clustered::wait;
use super::servers::*;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// So long a server waits for somebody else's word.
const JUDGE_TIMEOUT: Duration = Duration::from_secs(30);

/// ALFA leads group `g`, BRAVO is synchronized, and both have these rows.
fn pair(root: &Path, rows: u32) -> (Server, Server) {
    let (alfa, bravo) = (Server::start(root, "ALFA"), Server::start(root, "BRAVO"));
    acquaint(root, &[&alfa, &bravo]);
    create_database(&alfa);
    create_group(root, &alfa, &bravo, "SYNCHRONOUS_COMMIT");
    alfa.wait_for(OTHER_STATE, "SYNCHRONIZED");
    super::insert(&alfa, 0..rows);
    (alfa, bravo)
}

/// Keeps the server from writing the file of this kind (`group`, `standing`) that it has.
fn block(server: &Server, kind: &str) -> PathBuf {
    let files = std::fs::read_dir(server.folder.join("hadr")).expect("its folder");
    let mut files = files.map(|f| f.expect("an entry").path());
    let file = files.find(|f| f.extension().is_some_and(|e| e == kind));
    let beside = file.expect("a file").with_extension(format!("{kind}.new"));
    std::fs::create_dir(&beside).expect("a folder in its place");
    beside
}

/// The same rows on both, as their checksum says.
fn same_rows(servers: [&Server; 2]) {
    let sum = "SELECT CONCAT(COUNT(*), ' ', CHECKSUM_AGG(CHECKSUM(id, v))) FROM d.dbo.t";
    let here = servers[0].patient_value(sum);
    servers[1].wait_for(sum, &here);
}

fn a_failover_that_cannot_be_recorded_does_nothing(statement: &str) {
    let root = tempfile::tempdir().expect("temporary directory");
    let (alfa, bravo) = pair(root.path(), 20);
    let blocked = block(&bravo, "group");
    let text = format!("ALTER AVAILABILITY GROUP g {statement}");
    assert_eq!(bravo.error("master", &text), Some(5123));
    // The group is what it was, on both.
    super::insert(&alfa, 20..40);
    alfa.wait_for(OWN_ROLE, "PRIMARY");
    bravo.wait_for(OWN_ROLE, "SECONDARY");
    alfa.wait_for(OTHER_STATE, "SYNCHRONIZED");
    same_rows([&alfa, &bravo]);
    std::fs::remove_dir(blocked).expect("it is empty");
    bravo.sql(&text);
    bravo.wait_for(OWN_ROLE, "PRIMARY");
    alfa.wait_for(OWN_ROLE, "SECONDARY");
    bravo.wait_for(OTHER_STATE, "SYNCHRONIZED");
    super::insert(&bravo, 40..60);
    same_rows([&bravo, &alfa]);
}

#[test]
fn a_planned_failover_that_cannot_be_recorded_does_nothing() {
    a_failover_that_cannot_be_recorded_does_nothing("FAILOVER");
}

#[test]
fn a_forced_failover_that_cannot_be_recorded_does_nothing() {
    a_failover_that_cannot_be_recorded_does_nothing("FORCE_FAILOVER_ALLOW_DATA_LOSS");
}

#[test]
fn a_forced_failover_that_was_cut_short_goes_on_after_a_restart() {
    let root = tempfile::tempdir().expect("temporary directory");
    let (mut alfa, mut bravo) = pair(root.path(), 20);
    alfa.kill();
    let blocked = block(&bravo, "standing");
    let force = "ALTER AVAILABILITY GROUP g FORCE_FAILOVER_ALLOW_DATA_LOSS";
    let began = Instant::now();
    assert_eq!(bravo.error("master", force), Some(41131));
    let took = began.elapsed();
    assert!(took < JUDGE_TIMEOUT, "nobody answers for {took:?}");
    bravo.kill();
    std::fs::remove_dir(blocked).expect("it is empty");
    bravo.run();
    bravo.wait_for(OWN_ROLE, "PRIMARY");
    super::insert(&bravo, 20..40);
    // The one that was passed over knows of nothing, and follows as soon as it is told.
    alfa.run();
    alfa.wait_for(OWN_ROLE, "SECONDARY");
    bravo.wait_for(OTHER_STATE, "SYNCHRONIZED");
    super::insert(&bravo, 40..60);
    same_rows([&bravo, &alfa]);
    assert_eq!(alfa.error("d", "INSERT t VALUES (-1, 'no')"), Some(3906));
}

/// It is told so on the connection that ends, or when it asks after it was away; nothing that it is told to do makes a second primary.
fn a_removed_replica_cannot_be_forced(was_away: bool) {
    let root = tempfile::tempdir().expect("temporary directory");
    let (alfa, mut bravo) = pair(root.path(), 20);
    if was_away {
        bravo.kill();
    }
    alfa.sql("ALTER AVAILABILITY GROUP g REMOVE REPLICA ON 'BRAVO'");
    super::insert(&alfa, 20..40);
    if was_away {
        bravo.run();
    }
    bravo.wait_for_log("has been removed from the group");
    for statement in ["FORCE_FAILOVER_ALLOW_DATA_LOSS", "FAILOVER"] {
        let text = format!("ALTER AVAILABILITY GROUP g {statement}");
        assert_eq!(bravo.error("master", &text), Some(41131));
    }
    // Nor after a restart.
    bravo.kill();
    bravo.run();
    bravo.wait_for(OWN_ROLE, "RESOLVING");
    let force = "ALTER AVAILABILITY GROUP g FORCE_FAILOVER_ALLOW_DATA_LOSS";
    assert_eq!(bravo.error("master", force), Some(41131));
    assert!(bravo.error("d", "INSERT t VALUES (-1, 'no')").is_some());
    super::insert(&alfa, 40..60);
    // It is taken in again, and its copy goes on where it was.
    alfa.sql(&format!(
        "ALTER AVAILABILITY GROUP g ADD REPLICA ON {}",
        replica(&bravo, "SYNCHRONOUS_COMMIT")
    ));
    bravo.wait_for(OWN_ROLE, "SECONDARY");
    bravo.sql("ALTER DATABASE d SET HADR AVAILABILITY GROUP = g");
    alfa.wait_for(OTHER_STATE, "SYNCHRONIZED");
    same_rows([&alfa, &bravo]);
}

#[test]
fn a_replica_that_is_removed_cannot_be_forced() {
    a_removed_replica_cannot_be_forced(false);
}

#[test]
fn a_replica_that_was_removed_while_it_was_away_cannot_be_forced() {
    a_removed_replica_cannot_be_forced(true);
}

/// The script for a planned failover between servers without a cluster, as it is published: the primary resigns, the other is forced.
#[test]
fn a_primary_that_resigns_loses_nothing_and_stays_a_secondary() {
    let root = tempfile::tempdir().expect("temporary directory");
    let (mut alfa, bravo) = pair(root.path(), 20);
    let load = super::Load::begin([alfa.port, bravo.port], 1000);
    let resign = "ALTER AVAILABILITY GROUP g SET (ROLE = SECONDARY)";
    let force = "ALTER AVAILABILITY GROUP g FORCE_FAILOVER_ALLOW_DATA_LOSS";
    alfa.sql("ALTER AVAILABILITY GROUP g SET (REQUIRED_SYNCHRONIZED_SECONDARIES_TO_COMMIT = 1)");
    alfa.sql("INSERT d.dbo.t VALUES (100, 'before')");
    bravo.sql(resign);
    bravo.wait_for(OWN_ROLE, "SECONDARY");
    alfa.wait_for(OWN_ROLE, "PRIMARY");
    alfa.sql(resign);
    alfa.wait_for(OWN_ROLE, "SECONDARY");
    assert!(alfa.error("d", "INSERT t VALUES (101, 'no')").is_some());
    // Nor does it lead after a restart, whoever is there.
    alfa.kill();
    alfa.run();
    alfa.wait_for(OWN_ROLE, "SECONDARY");
    assert!(alfa.error("d", "INSERT t VALUES (102, 'no')").is_some());
    bravo.wait_for(OWN_ROLE, "SECONDARY");
    bravo.sql(force);
    bravo.wait_for(OWN_ROLE, "PRIMARY");
    alfa.sql("ALTER DATABASE d SET HADR RESUME");
    bravo.wait_for(OTHER_STATE, "SYNCHRONIZED");
    bravo.sql("INSERT d.dbo.t VALUES (103, 'after')");
    let acknowledged = load.end();
    super::check(&bravo, &acknowledged);
    same_rows([&bravo, &alfa]);
    // The one that resigns may be the next primary.
    bravo.sql(resign);
    bravo.wait_for(OWN_ROLE, "SECONDARY");
    bravo.sql(force);
    bravo.wait_for(OWN_ROLE, "PRIMARY");
    bravo.wait_for(OTHER_STATE, "SYNCHRONIZED");
    bravo.sql("INSERT d.dbo.t VALUES (104, 'again')");
    same_rows([&bravo, &alfa]);
}

/// Some megabytes of log, and none of it left to be backed up.
fn more_log(server: &Server, backup: &str) {
    server.sql(
        "INSERT d.dbo.t SELECT 1000000 + value, REPLICATE('x', 100) FROM GENERATE_SERIES(1, 20000)",
    );
    server.sql("DELETE d.dbo.t WHERE id >= 1000000");
    server.sql(backup);
    server.sql("CHECKPOINT");
}

#[test]
fn log_that_a_replica_needed_is_cut_when_it_has_come_back() {
    let root = tempfile::tempdir().expect("temporary directory");
    let (alfa, mut bravo) = pair(root.path(), 20);
    let backup = format!(
        "BACKUP LOG d TO DISK = '{}'",
        root.path().join("d.trn").display()
    );
    let cut = "SELECT truncation_lsn FROM sys.dm_hadr_database_replica_states WHERE is_local = 1";
    for _ in 0..2 {
        bravo.kill();
        alfa.wait_for(OTHER_STATE, "NOT SYNCHRONIZING");
        more_log(&alfa, &backup);
        bravo.run();
        alfa.wait_for(OTHER_STATE, "SYNCHRONIZED");
        let before = alfa.patient_value(cut);
        wait("the log is cut", &alfa, || {
            more_log(&alfa, &backup);
            alfa.patient_value(cut) != before
        });
    }
}

#[test]
fn log_for_a_replica_that_is_away_is_kept_up_to_a_bound() {
    let root = tempfile::tempdir().expect("temporary directory");
    let (alfa, mut bravo) = pair(root.path(), 20);
    let backup = format!(
        "BACKUP LOG d TO DISK = '{}'",
        root.path().join("d.trn").display()
    );
    let keeps = "SELECT log_reuse_wait_desc FROM sys.databases WHERE name = 'd'";
    bravo.kill();
    alfa.wait_for(OTHER_STATE, "NOT SYNCHRONIZING");
    more_log(&alfa, &backup);
    alfa.wait_for(keeps, "AVAILABILITY_REPLICA");
    // What the bound is for: the disk of the primary fills up.
    alfa.sql("EXEC sp_configure 'show advanced options', 1 RECONFIGURE");
    alfa.sql("EXEC sp_configure 'log kept for absent replicas (MB)', 1 RECONFIGURE");
    let cut = "SELECT truncation_lsn FROM sys.dm_hadr_database_replica_states WHERE is_local = 1";
    let before = alfa.patient_value(cut);
    wait("its log goes", &alfa, || {
        more_log(&alfa, &backup);
        alfa.patient_value(cut) != before
    });
    alfa.wait_for_log("is kept no longer for 'BRAVO'");
    bravo.run();
    bravo.wait_for_log("seeded anew");
    let own = "SELECT synchronization_state_desc FROM sys.dm_hadr_database_replica_states WHERE is_local = 1";
    bravo.wait_for(own, "NOT SYNCHRONIZING");
    alfa.wait_for(OWN_ROLE, "PRIMARY");
    super::insert(&alfa, 20..40);
}
