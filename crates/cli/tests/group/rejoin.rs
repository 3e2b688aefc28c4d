//! An old primary whose pages have what nobody else has.

use crate::insert_by;
use crate::seeding::COME;
use crate::servers::*;
use std::path::Path;

const FORCE: &str = "ALTER AVAILABILITY GROUP g FORCE_FAILOVER_ALLOW_DATA_LOSS";
/// Of the newest copy.
const COPY: &str =
    "SELECT TOP (1) current_state FROM sys.dm_hadr_automatic_seeding ORDER BY start_time DESC";

/// How fast a server sends copies, in MB/s; 0 is as fast as it can.
fn seed_at(server: &Server, rate: u32) {
    server.sql("EXEC sp_configure 'show advanced options', 1 RECONFIGURE");
    server.sql(&format!(
        "EXEC sp_configure 'automatic seeding (MB/s)', {rate} RECONFIGURE"
    ));
}

/// BRAVO leads; ALFA led before, and its pages have rows 20 to 39 that nobody else has. A copy takes 16 seconds.
fn parted(root: &Path) -> (Server, Server) {
    let (mut alfa, mut bravo) = (Server::start(root, "ALFA"), Server::start(root, "BRAVO"));
    acquaint(root, &[&alfa, &bravo]);
    create_database(&alfa);
    alfa.sql(
        "EXEC ('USE d; CREATE TABLE p (id int PRIMARY KEY, v char(4000));
            INSERT p SELECT value, value FROM GENERATE_SERIES(1, 4000)')",
    );
    create_group(root, &alfa, &bravo, "ASYNCHRONOUS_COMMIT");
    seed_at(&bravo, 1);
    let mut client = alfa.connect("d").expect("connects");
    insert_by(&mut client, 0..20);
    bravo.wait_for(COUNT, "20");
    bravo.kill();
    insert_by(&mut client, 20..40);
    client.execute("CHECKPOINT").expect("writes one");
    alfa.kill();
    bravo.run();
    bravo.sql(FORCE);
    bravo.wait_for(OWN_ROLE, "PRIMARY");
    bravo.wait_for(COUNT, "20");
    insert_by(&mut bravo.connect("d").expect("connects"), 100..110);
    bravo.sql("ALTER DATABASE d MODIFY FILE (NAME = d, NEWNAME = renamed)");
    alfa.run();
    alfa.wait_for_log("parts from the primary's");
    alfa.wait_for(OWN_ROLE, "SECONDARY");
    (alfa, bravo)
}

/// Gives up what only this server has, and waits until pages come.
fn resume(alfa: &Server) {
    alfa.sql("ALTER DATABASE d SET HADR RESUME");
    let come = COME.replace(
        "transferred_size_bytes",
        "IIF(transferred_size_bytes > 0 AND end_time_utc IS NULL, 1, 0)",
    );
    alfa.wait_for(&come, "1");
    alfa.wait_for_state("REVERTING");
}

#[test]
fn an_old_primary_whose_pages_have_more_takes_the_primarys() {
    let root = tempfile::tempdir().expect("temporary directory");
    let (mut alfa, mut bravo) = parted(root.path());
    // Its pages have what is to be given up. Who suspends has nothing more written to them.
    resume(&alfa);
    alfa.sql("ALTER DATABASE d SET HADR SUSPEND");
    alfa.wait_for(COPY, "FAILED");
    alfa.wait_for(
        "SELECT is_suspended FROM sys.dm_hadr_database_replica_states WHERE is_local = 1",
        "1",
    );
    alfa.wait_for_state("REVERTING");

    // Wherever it is killed, it is never half of each.
    resume(&alfa);
    alfa.kill();
    bravo.kill();
    alfa.run();
    alfa.wait_for_state("REVERTING");
    assert_eq!(alfa.error("master", COUNT), Some(983));
    assert_eq!(alfa.error("master", FORCE), Some(41131));
    bravo.run();
    seed_at(&bravo, 0);
    alfa.wait_for_state("SYNCHRONIZING");
    alfa.wait_for(COUNT, "30");
    alfa.wait_for_log("pages were there already");
    let file = "SELECT name FROM sys.master_files WHERE database_id = DB_ID('d') AND file_id = 1";
    alfa.wait_for(file, "renamed");
    insert_by(&mut bravo.connect("d").expect("connects"), 200..205);
    alfa.wait_for(COUNT, "35");

    // It leads as any other replica does.
    bravo.kill();
    alfa.sql(FORCE);
    alfa.wait_for(OWN_ROLE, "PRIMARY");
    alfa.wait_for(COUNT, "35");
    let found = alfa.value("SELECT COUNT(*) FROM d.dbo.t WHERE id BETWEEN 20 AND 39");
    assert_eq!(found.as_deref(), Some("0"));
}

#[test]
fn who_leaves_while_pages_come_has_its_files_to_itself() {
    let root = tempfile::tempdir().expect("temporary directory");
    let root = root.path();
    let (alfa, bravo) = parted(root);
    let backup = root.join("e.bak");
    bravo.sql(&format!(
        "BACKUP DATABASE d TO DISK = '{}'",
        backup.display()
    ));
    resume(&alfa);
    alfa.sql("ALTER DATABASE d SET HADR OFF");
    let file = |id: u8| {
        alfa.patient_value(&format!(
            "SELECT physical_name FROM sys.master_files WHERE database_id = DB_ID('d') AND file_id = {id}"
        ))
    };
    alfa.sql(&format!(
        "RESTORE DATABASE d FROM DISK = '{}' WITH REPLACE, MOVE 'renamed' TO '{}', MOVE 'd_log' TO '{}'",
        backup.display(),
        file(1),
        file(2)
    ));
    alfa.sql("DBCC CHECKDB (d) WITH NO_INFOMSGS");
    alfa.wait_for(COUNT, "30");
    alfa.wait_for(COPY, "FAILED");
    alfa.sql("DBCC DROPCLEANBUFFERS; DBCC CHECKDB (d) WITH NO_INFOMSGS");
    // Nothing keeps the server from leading what is left of the group.
    drop(bravo);
    alfa.sql(FORCE);
    alfa.wait_for(OWN_ROLE, "PRIMARY");
}
