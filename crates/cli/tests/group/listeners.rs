//! The port of a group's listener is where its primary is.

use crate::servers::*;
use std::net::TcpListener;
use std::time::Instant;

fn add_listener(server: &Server, port: u16) -> Option<i32> {
    server.error(
        "master",
        &format!(
            "ALTER AVAILABILITY GROUP g ADD LISTENER 'shop' (WITH IP (('127.0.0.1', '255.0.0.0'), ('203.0.113.7', '255.255.255.0')), PORT = {port})"
        ),
    )
}

/// Waits until whoever connects there is at this server.
fn wait_until_at(port: u16, server: &str) {
    let until = Instant::now() + LONG;
    loop {
        let name = connect(port, "master").and_then(|mut c| c.query("SELECT @@SERVERNAME"));
        let name = name.ok().and_then(|rows| {
            let value = rows.first()?.first()?;
            Some(daruma_client::value::text(value))
        });
        if name.as_deref() == Some(server) {
            return;
        }
        assert!(
            Instant::now() < until,
            "{name:?} is at the port, not {server}"
        );
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

fn wait_until_closed(port: u16) {
    let until = Instant::now() + LONG;
    while connect(port, "master").is_ok() {
        assert!(Instant::now() < until, "the port stays open");
    }
}

const STATES: &str = "SELECT STRING_AGG(CONCAT(ip_address, ' ', state_desc), ', ') WITHIN GROUP (ORDER BY ip_address)
     FROM sys.availability_group_listener_ip_addresses";

fn is_listed(port: u16) -> String {
    format!(
        "SELECT COUNT(*) FROM sys.dm_tcp_listener_states WHERE port = {port} AND type_desc = 'TSQL' AND state_desc = 'ONLINE'"
    )
}

#[test]
fn a_listener_is_where_the_primary_is() {
    let root = tempfile::tempdir().expect("temporary directory");
    let root = root.path();
    let (alfa, mut bravo) = (Server::start(root, "ALFA"), Server::start(root, "BRAVO"));
    acquaint(root, &[&alfa, &bravo]);
    create_database(&alfa);
    create_group(root, &alfa, &bravo, "SYNCHRONOUS_COMMIT");
    alfa.wait_for(OTHER_STATE, "SYNCHRONIZED");

    // Somebody else's port is none to listen at.
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = taken.local_addr().expect("its address").port();
    assert_eq!(add_listener(&alfa, port), Some(19452));
    assert_eq!(
        alfa.value("SELECT COUNT(*) FROM sys.availability_group_listeners")
            .as_deref(),
        Some("0")
    );
    drop(taken);
    assert_eq!(add_listener(&alfa, port), None);
    wait_until_at(port, "ALFA");
    alfa.wait_for(STATES, "127.0.0.1 ONLINE, 203.0.113.7 FAILED");
    alfa.wait_for(&is_listed(port), "1");
    alfa.wait_for_log("cannot listen on [ 203.0.113.7:");
    let mirroring =
        "SELECT port FROM sys.dm_tcp_listener_states WHERE type_desc = 'Database Mirroring'";
    assert_eq!(alfa.value(mirroring), Some(alfa.endpoint.to_string()));
    assert_eq!(bravo.value(&is_listed(port)).as_deref(), Some("0"));
    alfa.sql("ALTER AVAILABILITY GROUP g RESTART LISTENER 'shop'");
    wait_until_at(port, "ALFA");

    // It goes with the primary, planned and forced, and stays over a restart.
    bravo.wait_for("SELECT COUNT(*) FROM sys.availability_group_listeners", "1");
    bravo.sql("ALTER AVAILABILITY GROUP g FAILOVER");
    wait_until_at(port, "BRAVO");
    bravo.wait_for(STATES, "127.0.0.1 ONLINE, 203.0.113.7 FAILED");
    alfa.wait_for(&is_listed(port), "0");
    bravo.kill();
    bravo.run();
    wait_until_at(port, "BRAVO");
    bravo.kill();
    alfa.sql("ALTER AVAILABILITY GROUP g FORCE_FAILOVER_ALLOW_DATA_LOSS");
    wait_until_at(port, "ALFA");

    // Its port changes, it is removed, the group ends.
    let next = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let other = next.local_addr().expect("its address").port();
    drop(next);
    alfa.sql(&format!(
        "ALTER AVAILABILITY GROUP g MODIFY LISTENER 'shop' (PORT = {other})"
    ));
    wait_until_at(other, "ALFA");
    wait_until_closed(port);
    alfa.sql("ALTER AVAILABILITY GROUP g REMOVE LISTENER 'shop'");
    wait_until_closed(other);
    assert_eq!(add_listener(&alfa, port), None);
    wait_until_at(port, "ALFA");
    alfa.sql("DROP AVAILABILITY GROUP g");
    wait_until_closed(port);
}

#[test]
fn readers_at_the_listener_are_sent_to_the_secondary() {
    let root = tempfile::tempdir().expect("temporary directory");
    let root = root.path();
    let (alfa, bravo) = (Server::start(root, "ALFA"), Server::start(root, "BRAVO"));
    acquaint(root, &[&alfa, &bravo]);
    create_database(&alfa);
    create_group(root, &alfa, &bravo, "SYNCHRONOUS_COMMIT");
    alfa.wait_for(OTHER_STATE, "SYNCHRONIZED");
    let (own, others) = (alfa.port, bravo.port);
    alfa.sql(&format!(
        "ALTER AVAILABILITY GROUP g MODIFY REPLICA ON 'BRAVO' WITH (SECONDARY_ROLE (READ_ONLY_ROUTING_URL = 'TCP://127.0.0.1:{others}'));
         ALTER AVAILABILITY GROUP g MODIFY REPLICA ON 'ALFA' WITH (PRIMARY_ROLE (READ_ONLY_ROUTING_LIST = ('BRAVO')))"
    ));
    // The server listens there already, for that address.
    assert_eq!(add_listener(&alfa, own), None);
    alfa.wait_for(STATES, "127.0.0.1 ONLINE, 203.0.113.7 FAILED");
    alfa.sql("ALTER AVAILABILITY GROUP g REMOVE LISTENER 'shop'");
    let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = free.local_addr().expect("its address").port();
    drop(free);
    assert_eq!(add_listener(&alfa, port), None);
    wait_until_at(port, "ALFA");
    let until = Instant::now() + LONG;
    loop {
        let name = connect_to_read(port, "d").and_then(|mut c| c.query("SELECT @@SERVERNAME"));
        let name = name.ok().and_then(|rows| {
            let value = rows.first()?.first()?;
            Some(daruma_client::value::text(value))
        });
        if name.as_deref() == Some("BRAVO") {
            break;
        }
        assert!(Instant::now() < until, "{name:?} answers readers");
    }
}
