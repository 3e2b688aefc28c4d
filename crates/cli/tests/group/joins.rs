//! Servers that join groups: at once, in another order, and beside databases that are in none.

use super::servers::*;
use std::path::Path;

const PRIORITY: &str = "SELECT r.backup_priority FROM sys.availability_replicas r JOIN sys.availability_groups g ON g.group_id = r.group_id
     WHERE g.name = 'h' AND r.replica_server_name = 'BRAVO'";

/// Two servers that believe each other; the first has these databases, which may come into groups.
fn servers(root: &Path, databases: &[&str]) -> [Server; 2] {
    let (alfa, bravo) = (Server::start(root, "ALFA"), Server::start(root, "BRAVO"));
    acquaint(root, &[&alfa, &bravo]);
    for name in databases {
        alfa.sql(&format!(
            "CREATE DATABASE {name}; ALTER DATABASE {name} SET RECOVERY FULL; BACKUP DATABASE {name} TO DISK = '{name}.bak';
             EXEC ('USE {name}; CREATE TABLE t (id int PRIMARY KEY, v varchar(100))')"
        ));
    }
    [alfa, bravo]
}

fn create(servers: &[Server; 2], group: &str, databases: &str) {
    let replicas = servers
        .each_ref()
        .map(|s| replica(s, "SYNCHRONOUS_COMMIT"))
        .join(", ");
    servers[0].sql(&format!(
        "CREATE AVAILABILITY GROUP {group} WITH (CLUSTER_TYPE = NONE) FOR DATABASE {databases} REPLICA ON {replicas};
         ALTER AVAILABILITY GROUP {group} GRANT CREATE ANY DATABASE"
    ));
}

fn join(server: &Server, group: &str) {
    server.sql(&format!(
        "ALTER AVAILABILITY GROUP {group} JOIN WITH (CLUSTER_TYPE = NONE);
         ALTER AVAILABILITY GROUP {group} GRANT CREATE ANY DATABASE"
    ));
}

/// An invitation that was sent before the group had its databases must not be the last word.
#[test]
fn a_server_that_joins_while_the_group_is_made_gets_all_databases() {
    let root = tempfile::tempdir().expect("temporary directory");
    let names = ["a", "b", "c", "d", "e", "f"];
    let servers = servers(root.path(), &names);
    std::thread::scope(|scope| {
        scope.spawn(|| join(&servers[1], "g"));
        create(&servers, "g", &names.join(", "));
    });
    let synchronized = "SELECT COUNT(*) FROM sys.dm_hadr_database_replica_states
         WHERE is_local = 0 AND synchronization_state_desc = 'SYNCHRONIZED'";
    servers[0].wait_for(synchronized, &names.len().to_string());
}

/// A group has another number in the catalog of every server.
#[test]
fn groups_that_are_joined_in_another_order_keep_their_definitions() {
    let root = tempfile::tempdir().expect("temporary directory");
    let servers = servers(root.path(), &["d", "e"]);
    let [alfa, bravo] = &servers;
    create(&servers, "g", "d");
    create(&servers, "h", "e");
    join(bravo, "h");
    alfa.sql("ALTER AVAILABILITY GROUP h MODIFY REPLICA ON 'BRAVO' WITH (BACKUP_PRIORITY = 7)");
    bravo.wait_for(PRIORITY, "7");
    join(bravo, "g");
    alfa.sql("ALTER AVAILABILITY GROUP h MODIFY REPLICA ON 'BRAVO' WITH (BACKUP_PRIORITY = 9)");
    bravo.wait_for(PRIORITY, "9");
    let names =
        "SELECT STRING_AGG(name, ' ') WITHIN GROUP (ORDER BY name) FROM sys.availability_groups";
    bravo.wait_for(names, "g h");
}

/// After a failover nobody could tell the halves how it ended.
#[test]
fn a_transaction_over_a_groups_database_and_another_is_refused() {
    let root = tempfile::tempdir().expect("temporary directory");
    let servers = servers(root.path(), &["d", "e", "f"]);
    let [alfa, _] = &servers;
    create(&servers, "g", "d");
    alfa.wait_for(OWN_ROLE, "PRIMARY");
    let both = |first: &str, last: &str| {
        format!(
            "BEGIN TRAN; INSERT {first}.dbo.t VALUES (1, 'half'); INSERT {last}.dbo.t VALUES (1, 'half'); COMMIT"
        )
    };
    for (first, last) in [("d", "e"), ("e", "d")] {
        assert_eq!(alfa.error("master", &both(first, last)), Some(40517));
    }
    let count = "SELECT (SELECT COUNT(*) FROM d.dbo.t) + (SELECT COUNT(*) FROM e.dbo.t)";
    alfa.wait_for(count, "0");
    // Reading the other, and tempdb, are no harm; nor are two that are in no group.
    alfa.sql("SELECT * INTO #t FROM e.dbo.t; BEGIN TRAN; INSERT d.dbo.t SELECT 2, 'whole' FROM (SELECT COUNT(*) n FROM e.dbo.t) n; INSERT #t VALUES (3, 'n'); COMMIT");
    alfa.sql(&both("e", "f"));
    alfa.wait_for(count, "2");
}
