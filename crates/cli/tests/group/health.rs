//! Owners that are too ill to lead: their files may not grow any more, as on a disk that fails.

use super::clustered::{NODES, all_in_sync, group, leader, others, shown, under_load, wait};
use super::servers::*;

/// Files of the cluster and of groups are smaller, logs and data files are not.
const SMALL: u64 = 16 << 10;

/// Commits go on elsewhere, and the server follows when it is well again.
fn is_led_by_another(servers: &mut [Server; 3], load: &super::clustered::Load) {
    let left = others(servers, 0);
    let next = leader(&left);
    load.goes_on(left[next]);
    let next = NODES.iter().position(|n| *n == left[next].name);
    servers[0].kill();
    servers[0].run();
    servers[0].wait_for(OWN_ROLE, "SECONDARY");
    all_in_sync(&servers[next.expect("one of them")]);
}

#[test]
fn an_owner_whose_log_fails_has_another_lead() {
    let root = tempfile::tempdir().expect("temporary directory");
    let mut servers = group(root.path(), "AUTOMATIC");
    servers[0].sql("ALTER AVAILABILITY GROUP g SET (DB_FAILOVER = ON)");
    servers[0].sql("ALTER AVAILABILITY GROUP g SET (FAILURE_CONDITION_LEVEL = 1)");
    under_load(&mut servers, |servers, load| {
        servers[0].limit_files(SMALL);
        is_led_by_another(servers, load);
    });
}

#[test]
fn an_owner_without_its_system_databases_has_another_lead() {
    let root = tempfile::tempdir().expect("temporary directory");
    let mut servers = group(root.path(), "AUTOMATIC");
    under_load(&mut servers, |servers, load| {
        servers[0].limit_files(SMALL);
        // What is written to master's log, and cannot be.
        let text = "CREATE LOGIN l WITH PASSWORD = 'Nobody-needs-it-1'";
        assert!(servers[0].try_sql(text).is_err());
        is_led_by_another(servers, load);
    });
}

/// Nobody is given up, so that whoever is asked to lead by hand can.
#[test]
fn an_owner_whose_log_fails_stays_where_nobody_asked_for_more() {
    let root = tempfile::tempdir().expect("temporary directory");
    let servers = group(root.path(), "AUTOMATIC");
    let [alfa, bravo, _] = &servers;
    alfa.sql("ALTER AVAILABILITY GROUP g SET (FAILURE_CONDITION_LEVEL = 1)");
    alfa.sql("INSERT d.dbo.t VALUES (1, 'acknowledged')");
    alfa.limit_files(SMALL);
    wait("the log fails", alfa, || {
        alfa.try_sql("INSERT d.dbo.t VALUES (2, 'not acknowledged')")
            .is_err()
            && alfa.log().contains("database 'd'")
    });
    assert_eq!(shown(bravo)["groups"][0]["owner"], "ALFA");
    wait("all go on having everything", bravo, || {
        shown(bravo)["groups"][0]["in_sync"]
            .as_array()
            .map_or(0, Vec::len)
            == NODES.len()
    });
    wait("another leads when it is told to", bravo, || {
        bravo.try_sql("ALTER AVAILABILITY GROUP g FAILOVER").is_ok()
            || bravo.value(OWN_ROLE).as_deref() == Some("PRIMARY")
    });
    bravo.wait_for(OWN_ROLE, "PRIMARY");
    bravo.wait_for("SELECT COUNT(*) FROM d.dbo.t WHERE id = 1", "1");
}
