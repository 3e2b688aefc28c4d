//! Servers that join a group get to know each of its replicas, so that any of them may lead it.

use super::servers::*;
use super::{command, try_command};

const ALL: &str = "SELECT COUNT(*) FROM sys.dm_hadr_database_replica_states
     WHERE is_local = 0 AND synchronization_state_desc = 'SYNCHRONIZED'";

#[test]
fn a_third_server_follows_the_second_one_that_becomes_the_primary() {
    let root = tempfile::tempdir().expect("temporary directory");
    let [alfa, bravo, charlie] =
        ["ALFA", "BRAVO", "CHARLIE"].map(|name| Server::start(root.path(), name));
    create_database(&alfa);
    let urls = [&alfa, &bravo, &charlie].map(|server| server.endpoint_url());
    let create = ["create", "g", "--database", "d", "--endpoint", &urls[0]];
    let token = command(&alfa, &create);
    command(&bravo, &["join", &token, "--endpoint", &urls[1]]);

    // A server that is no replica is told before anything is changed.
    let there = [bravo.address(), charlie.address()];
    let join = |peer| ["join", &token, "--endpoint", &urls[2], "--peer", peer];
    let said = try_command(&charlie, &join(&there[1])).expect_err("a stranger is taken");
    assert!(
        said.contains("CHARLIE") && said.contains("is no replica"),
        "{said}"
    );
    let replicas = "SELECT COUNT(*) FROM sys.availability_replicas";
    assert_eq!(alfa.value(replicas).as_deref(), Some("2"));

    command(&charlie, &join(&there[0]));
    alfa.wait_for(ALL, "2");
    command(&bravo, &["failover", "g"]);
    bravo.wait_for(OWN_ROLE, "PRIMARY");
    bravo.sql("INSERT d.dbo.t VALUES (1, 'after')");
    bravo.wait_for(ALL, "2");
    command(&charlie, &["failover", "g"]);
    charlie.wait_for(COUNT, "1");
    charlie.wait_for(ALL, "2");
}
