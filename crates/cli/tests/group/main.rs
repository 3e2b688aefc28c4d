//! An availability group of two servers, each a process, over loopback.

mod ahead;
mod clustered;
mod compression;
mod external;
mod failover;
mod health;
mod introduced;
mod joins;
mod listeners;
mod pages;
mod rejoin;
mod rounds;
mod seeding;
mod servers;

use daruma_client::client::Client;
use servers::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn what_is_committed_on_the_primary_is_read_on_the_secondary() {
    let root = tempfile::tempdir().expect("temporary directory");
    let root = root.path();
    let (alfa, bravo) = (Server::start(root, "ALFA"), Server::start(root, "BRAVO"));
    acquaint(root, &[&alfa, &bravo]);
    create_database(&alfa);
    alfa.sql("INSERT d.dbo.t VALUES (1, 'before the backup')");
    create_group(root, &alfa, &bravo, "SYNCHRONOUS_COMMIT");
    alfa.wait_for(OTHER_STATE, "SYNCHRONIZED");
    alfa.wait_for(OWN_ROLE, "PRIMARY");
    bravo.wait_for(OWN_ROLE, "SECONDARY");
    bravo.wait_for(COUNT, "1");

    let mut writer = alfa.connect("d").expect("connects");
    for n in 2..=50 {
        writer
            .execute(&format!("INSERT t VALUES ({n}, 'row {n}')"))
            .expect("commits");
    }
    bravo.wait_for(COUNT, "50");

    // A synchronous commit is hard on both when it returns.
    let hard =
        "SELECT last_hardened_lsn FROM sys.dm_hadr_database_replica_states WHERE is_local = 1";
    writer
        .execute("INSERT t VALUES (51, 'both')")
        .expect("commits");
    let here = bravo.patient_value(hard);
    let there = alfa.value(
        "SELECT last_commit_lsn FROM sys.dm_hadr_database_replica_states WHERE is_local = 1",
    );
    let number = |text: &str| text.parse::<u128>().expect("a position");
    assert!(number(&here) > number(&there.expect("a position")));

    // Nothing but redo changes it, and what is not readable says why.
    assert_eq!(bravo.error("d", "INSERT t VALUES (99, 'no')"), Some(3906));
    assert_eq!(bravo.error("d", "CREATE TABLE u (i int)"), Some(3906));
    let backup = format!("BACKUP LOG d TO DISK = '{}'", root.join("no.trn").display());
    assert_eq!(bravo.error("master", &backup), Some(3059));
    assert_eq!(
        bravo.error("master", "ALTER DATABASE d SET RECOVERY SIMPLE"),
        Some(1468)
    );
    assert_eq!(bravo.error("master", "DROP DATABASE d"), Some(3752));
    for refused in [
        "CHECKPOINT",
        "UPDATE STATISTICS t",
        "DBCC SHRINKFILE (2, 1)",
    ] {
        assert!(bravo.error("d", refused).is_some(), "{refused}");
    }
    // Statistics that a reader would make are not kept here.
    bravo.wait_for("SELECT COUNT(*) FROM d.dbo.t WHERE v = 'row 7'", "1");
    writer
        .execute("CREATE TABLE u (i int); INSERT u VALUES (7)")
        .expect("commits");
    bravo.wait_for("SELECT i FROM d.dbo.u", "7");
    // One that is redone before its commit comes.
    writer
        .execute("BEGIN TRANSACTION; CREATE TABLE w (i int); INSERT w VALUES (8)")
        .expect("is made");
    alfa.sql("INSERT d.dbo.t VALUES (52, 'beside')");
    bravo.wait_for(COUNT, "52");
    writer.execute("COMMIT").expect("commits");
    bravo.wait_for("SELECT i FROM d.dbo.w", "8");
    alfa.sql("ALTER AVAILABILITY GROUP g MODIFY REPLICA ON 'BRAVO' WITH (SECONDARY_ROLE (ALLOW_CONNECTIONS = NO))");
    let closed = || bravo.error("master", COUNT);
    let until = std::time::Instant::now() + LONG;
    while closed() != Some(976) {
        assert!(std::time::Instant::now() < until, "{:?}", closed());
    }
    alfa.sql("ALTER AVAILABILITY GROUP g MODIFY REPLICA ON 'BRAVO' WITH (SECONDARY_ROLE (ALLOW_CONNECTIONS = READ_ONLY))");
    while closed() != Some(978) {
        assert!(std::time::Instant::now() < until, "{:?}", closed());
    }
}

/// Commits as many rows as are asked for; those that were acknowledged.
fn insert(server: &Server, ids: std::ops::Range<u32>) -> u32 {
    insert_by(&mut server.connect("d").expect("connects"), ids)
}

fn insert_by(client: &mut Client, ids: std::ops::Range<u32>) -> u32 {
    let count = ids.len() as u32;
    for id in ids {
        let text = format!("INSERT t VALUES ({id}, 'row {id}')");
        client.execute(&text).expect("commits");
    }
    count
}

#[test]
fn a_killed_server_comes_back_into_its_role_and_a_forced_failover_keeps_what_was_acknowledged() {
    let root = tempfile::tempdir().expect("temporary directory");
    let root = root.path();
    let (mut alfa, mut bravo) = (Server::start(root, "ALFA"), Server::start(root, "BRAVO"));
    acquaint(root, &[&alfa, &bravo]);
    create_database(&alfa);
    create_group(root, &alfa, &bravo, "SYNCHRONOUS_COMMIT");
    alfa.wait_for(OTHER_STATE, "SYNCHRONIZED");
    insert(&alfa, 0..50);

    // The secondary is killed: its connections are closed by its machine, and commits go on without it.
    bravo.kill();
    insert(&alfa, 50..100);
    alfa.wait_for(OTHER_STATE, "NOT SYNCHRONIZING");
    bravo.run();
    alfa.wait_for(OTHER_STATE, "SYNCHRONIZED");
    bravo.wait_for(COUNT, "100");

    // The primary is killed and comes back: it leads on when its participants have its epoch.
    insert(&alfa, 100..120);
    alfa.kill();
    alfa.run();
    alfa.wait_for(OWN_ROLE, "PRIMARY");
    alfa.wait_for(COUNT, "120");
    insert(&alfa, 120..150);
    alfa.wait_for(OTHER_STATE, "SYNCHRONIZED");
    insert(&alfa, 150..170);

    // The primary is killed for good.
    alfa.kill();
    assert_eq!(
        bravo.error("master", "ALTER AVAILABILITY GROUP g FAILOVER"),
        Some(41142)
    );
    bravo.sql("ALTER AVAILABILITY GROUP g FORCE_FAILOVER_ALLOW_DATA_LOSS");
    bravo.wait_for(OWN_ROLE, "PRIMARY");
    bravo.wait_for(COUNT, "170");
    insert(&bravo, 170..200);

    // The one that was passed over follows: all it had was acknowledged, and is on the other side.
    alfa.run();
    alfa.wait_for(OWN_ROLE, "SECONDARY");
    bravo.wait_for(OTHER_STATE, "SYNCHRONIZED");
    alfa.wait_for(COUNT, "200");
    assert_eq!(alfa.error("d", "INSERT t VALUES (-1, 'no')"), Some(3906));
}

/// Writers that go on with whoever is the primary, each with ids of its own.
pub struct Load {
    stop: Arc<AtomicBool>,
    writers: Vec<std::thread::JoinHandle<Vec<u32>>>,
}

impl Load {
    pub fn begin(ports: [u16; 2], first: u32) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let writer = |n: u32| {
            let stop = stop.clone();
            std::thread::spawn(move || write(&ports, &stop, first + n))
        };
        let writers = (0..WRITERS).map(writer).collect();
        Load { stop, writers }
    }

    /// Ids of the commits that were acknowledged.
    pub fn end(self) -> Vec<u32> {
        self.stop.store(true, Ordering::Relaxed);
        let written = self.writers.into_iter().map(|w| w.join().expect("writes"));
        written.flatten().collect()
    }
}

const WRITERS: u32 = 4;

fn write(ports: &[u16; 2], stop: &AtomicBool, first: u32) -> Vec<u32> {
    let (mut id, mut acknowledged, mut turn) = (first, Vec::new(), 0);
    while !stop.load(Ordering::Relaxed) {
        turn += 1;
        let Ok(mut client) = connect(ports[turn % 2], "d") else {
            std::thread::sleep(std::time::Duration::from_millis(10));
            continue;
        };
        while !stop.load(Ordering::Relaxed) {
            // One whose outcome is not known keeps its id.
            id += WRITERS;
            match client.execute(&format!("INSERT t VALUES ({id}, 'load')")) {
                Ok(()) => acknowledged.push(id),
                Err(_) => break,
            }
        }
    }
    acknowledged
}

/// Every acknowledged row is there.
pub fn check(server: &Server, acknowledged: &[u32]) {
    let until = std::time::Instant::now() + LONG;
    let rows = loop {
        let connected = server.connect("d");
        match connected.and_then(|mut client| client.query("SELECT id FROM t")) {
            Ok(rows) => break rows,
            // It may be about to change its role.
            Err(e) => assert!(
                std::time::Instant::now() < until,
                "{}: {e}\n{}",
                server.name,
                server.log()
            ),
        }
        std::thread::sleep(std::time::Duration::from_millis(200));
    };
    let found: std::collections::HashSet<String> = rows
        .iter()
        .map(|row| daruma_client::value::text(&row[0]))
        .collect();
    let lost: Vec<_> = acknowledged
        .iter()
        .filter(|id| !found.contains(&id.to_string()))
        .collect();
    assert!(
        lost.is_empty(),
        "lost of {}: {lost:?}\n{}",
        acknowledged.len(),
        server.log()
    );
}

#[test]
fn a_planned_failover_there_and_back_under_load_loses_nothing() {
    let root = tempfile::tempdir().expect("temporary directory");
    let root = root.path();
    let (alfa, bravo) = (Server::start(root, "ALFA"), Server::start(root, "BRAVO"));
    acquaint(root, &[&alfa, &bravo]);
    create_database(&alfa);
    create_group(root, &alfa, &bravo, "SYNCHRONOUS_COMMIT");
    alfa.wait_for(OTHER_STATE, "SYNCHRONIZED");
    let load = Load::begin([alfa.port, bravo.port], 1);
    let (mut primary, mut secondary) = (&alfa, &bravo);
    for _ in 0..4 {
        std::thread::sleep(std::time::Duration::from_millis(500));
        primary.wait_for(OTHER_STATE, "SYNCHRONIZED");
        secondary.sql("ALTER AVAILABILITY GROUP g FAILOVER");
        secondary.wait_for(OWN_ROLE, "PRIMARY");
        primary.wait_for(OWN_ROLE, "SECONDARY");
        // The deposed one accepts nothing.
        assert!(primary.error("d", "INSERT t VALUES (0, 'no')").is_some());
        std::mem::swap(&mut primary, &mut secondary);
    }
    primary.wait_for(OTHER_STATE, "SYNCHRONIZED");
    let moves = |rates: &str, local: u8| {
        format!(
            "SELECT CASE WHEN {rates} > 0 THEN 'moves' END FROM sys.dm_hadr_database_replica_states WHERE is_local = {local}"
        )
    };
    primary.wait_for(&moves("log_send_rate", 0), "moves");
    primary.wait_for(&moves("redo_rate", 0), "moves");
    secondary.wait_for(&moves("redo_rate", 1), "moves");
    let acknowledged = load.end();
    assert!(acknowledged.len() > 100, "{} commits", acknowledged.len());
    check(primary, &acknowledged);
    let count = primary.patient_value(COUNT);
    secondary.wait_for(COUNT, &count);
    check(secondary, &acknowledged);
}

#[test]
fn an_old_primary_with_more_log_is_refused_until_it_gives_that_up() {
    let root = tempfile::tempdir().expect("temporary directory");
    let root = root.path();
    let (mut alfa, mut bravo) = (Server::start(root, "ALFA"), Server::start(root, "BRAVO"));
    acquaint(root, &[&alfa, &bravo]);
    create_database(&alfa);
    create_group(root, &alfa, &bravo, "ASYNCHRONOUS_COMMIT");
    let mut client = alfa.connect("d").expect("connects");
    insert_by(&mut client, 0..10);
    // What is before a checkpoint is not given up: one is written while the other side is there, and the next is not due soon.
    client.execute("CHECKPOINT").expect("writes one");
    insert_by(&mut client, 10..20);
    bravo.wait_for(COUNT, "20");
    // Commits that were acknowledged by one side alone.
    bravo.kill();
    insert_by(&mut client, 20..40);
    alfa.kill();
    bravo.run();
    bravo.sql("ALTER AVAILABILITY GROUP g FORCE_FAILOVER_ALLOW_DATA_LOSS");
    bravo.wait_for(OWN_ROLE, "PRIMARY");
    bravo.wait_for(COUNT, "20");
    insert(&bravo, 100..110);
    alfa.run();
    alfa.wait_for(OWN_ROLE, "SECONDARY");
    let own = "SELECT synchronization_state_desc FROM sys.dm_hadr_database_replica_states WHERE is_local = 1";
    alfa.wait_for(own, "NOT SYNCHRONIZING");
    alfa.wait_for_log("parts from the primary's");
    assert_eq!(
        bravo.value(OTHER_STATE).as_deref(),
        Some("NOT SYNCHRONIZING")
    );
    // Nor does it after a restart.
    alfa.kill();
    alfa.run();
    alfa.wait_for_log("parts from the primary's");
    alfa.wait_for(own, "NOT SYNCHRONIZING");
    // The administrator gives up what only the old primary has.
    alfa.sql("ALTER DATABASE d SET HADR RESUME");
    alfa.wait_for(own, "SYNCHRONIZING");
    alfa.wait_for(COUNT, "30");
}

/// `daruma group`: what it prints.
fn command(server: &Server, arguments: &[&str]) -> String {
    try_command(server, arguments)
        .unwrap_or_else(|said| panic!("{arguments:?}: {said}\n{}", server.log()))
}

/// `Err` is all that it said when it failed.
fn try_command(server: &Server, arguments: &[&str]) -> Result<String, String> {
    let run = std::process::Command::new(DARUMA)
        .arg("group")
        .args(arguments)
        .args(["-C", "-U", "sa", "-S", &server.address()])
        .env("SQLCMDPASSWORD", PASSWORD)
        .output()
        .expect("the program runs");
    let (out, err) = (run.stdout, run.stderr);
    let (out, err) = (String::from_utf8_lossy(&out), String::from_utf8_lossy(&err));
    match run.status.success() {
        true => Ok(out.trim().to_string()),
        false => Err(format!("{out}{err}")),
    }
}

#[test]
fn two_commands_make_a_group_whose_databases_come_by_themselves() {
    let root = tempfile::tempdir().expect("temporary directory");
    let root = root.path();
    let (alfa, bravo) = (Server::start(root, "ALFA"), Server::start(root, "BRAVO"));
    create_database(&alfa);
    alfa.sql(
        "INSERT d.dbo.t SELECT TOP 20000 ROW_NUMBER() OVER (ORDER BY a.object_id), REPLICATE('x', 80)
         FROM sys.all_objects AS a CROSS JOIN sys.all_objects AS b",
    );
    let (here, there) = (alfa.endpoint_url(), bravo.endpoint_url());
    let create = [
        "create",
        "g",
        "--database",
        "d",
        "--endpoint",
        &here,
        "--readable",
    ];
    let token = command(&alfa, &create);
    // Somebody writes while the copy is made.
    let load = Load::begin([alfa.port, alfa.port], 1_000_000);
    command(
        &bravo,
        &["join", &token, "--endpoint", &there, "--readable"],
    );
    bravo.wait_for_state("SYNCHRONIZED");
    alfa.wait_for(OTHER_STATE, "SYNCHRONIZED");
    let acknowledged = load.end();
    let count = alfa.patient_value(COUNT);
    bravo.wait_for(COUNT, &count);
    check(&bravo, &acknowledged);
    let seeded = "SELECT current_state FROM sys.dm_hadr_automatic_seeding";
    bravo.wait_for(seeded, "COMPLETED");
    alfa.wait_for(seeded, "COMPLETED");
    assert!(command(&alfa, &["status"]).contains("SYNCHRONIZED"));

    // A database that comes later, and roles that change.
    alfa.sql("CREATE DATABASE e; ALTER DATABASE e SET RECOVERY FULL; ALTER AVAILABILITY GROUP g ADD DATABASE e");
    let all = "SELECT COUNT(*) FROM sys.dm_hadr_database_replica_states WHERE is_local = 0 AND synchronization_state_desc = 'SYNCHRONIZED'";
    alfa.wait_for(all, "2");
    command(&bravo, &["failover", "g"]);
    bravo.wait_for(OWN_ROLE, "PRIMARY");
    bravo.sql("INSERT d.dbo.t VALUES (-1, 'after'); CREATE TABLE e.dbo.u (i int)");
    alfa.wait_for("SELECT v FROM d.dbo.t WHERE id = -1", "after");
    bravo.wait_for(all, "2");
    // The server that made the group gets what it lacks as well.
    bravo.sql("CREATE DATABASE f; ALTER DATABASE f SET RECOVERY FULL; ALTER AVAILABILITY GROUP g ADD DATABASE f");
    bravo.wait_for(all, "3");
}

#[test]
fn what_cannot_be_done_is_refused_and_leaves_nothing_behind() {
    let root = tempfile::tempdir().expect("temporary directory");
    let root = root.path();
    let (alfa, bravo) = (Server::start(root, "ALFA"), Server::start(root, "BRAVO"));
    acquaint(root, &[&alfa, &bravo]);
    let held = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = held.local_addr().expect("its address").port();
    let elsewhere = format!("ALTER ENDPOINT hadr AS TCP (LISTENER_PORT = {taken})");
    assert_eq!(alfa.error("master", &elsewhere), Some(9692));
    alfa.sql(&format!(
        "ALTER ENDPOINT hadr AS TCP (LISTENER_PORT = {})",
        alfa.endpoint
    ));
    let join = "ALTER AVAILABILITY GROUP g JOIN WITH (CLUSTER_TYPE = NONE)";
    assert_eq!(bravo.error("master", join), Some(47106));
    create_database(&alfa);
    create_group(root, &alfa, &bravo, "SYNCHRONOUS_COMMIT");
    alfa.wait_for(OTHER_STATE, "SYNCHRONIZED");
    assert_eq!(
        alfa.error("master", "ALTER AVAILABILITY GROUP g FAILOVER"),
        Some(41122)
    );

    // A database of this name that is another one, in use or restoring, does not become the group's.
    alfa.sql("CREATE DATABASE e; ALTER DATABASE e SET RECOVERY FULL");
    bravo.sql("ALTER AVAILABILITY GROUP g DENY CREATE ANY DATABASE; CREATE DATABASE e; ALTER DATABASE e SET RECOVERY FULL");
    alfa.sql("ALTER AVAILABILITY GROUP g ADD DATABASE e");
    let hadr = "ALTER DATABASE e SET HADR AVAILABILITY GROUP = g";
    bravo.wait_for(
        "SELECT COUNT(*) FROM sys.availability_databases_cluster",
        "2",
    );
    assert_eq!(bravo.error("master", hadr), Some(1464));
    let backup = root.join("e.bak");
    bravo.sql(&format!(
        "BACKUP DATABASE e TO DISK = '{0}'; RESTORE DATABASE e FROM DISK = '{0}' WITH NORECOVERY, REPLACE",
        backup.display()
    ));
    assert_eq!(bravo.error("master", hadr), Some(1412));
    bravo.sql("RESTORE DATABASE e WITH RECOVERY; DROP DATABASE e");

    // The group ends on either side; what was led stays open.
    bravo.sql("DROP AVAILABILITY GROUP g");
    alfa.sql("DROP AVAILABILITY GROUP g; INSERT d.dbo.t VALUES (1, 'alone')");
    bravo.sql("RESTORE DATABASE d WITH RECOVERY; INSERT d.dbo.t VALUES (2, 'alone')");
}
