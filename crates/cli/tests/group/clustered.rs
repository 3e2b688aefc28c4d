//! Groups whose owner the cluster names: nodes are killed, frozen, told to stop, and cut down to less than a quorum.

use super::servers::*;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

pub const NODES: [&str; 3] = ["ALFA", "BRAVO", "CHARLIE"];
/// A client that has no answer by then asks anew.
const PATIENCE: Duration = Duration::from_secs(3);
const PLANNED: &str = "ALTER AVAILABILITY GROUP g FAILOVER";
const FORCED: &str = "ALTER AVAILABILITY GROUP g FORCE_FAILOVER_ALLOW_DATA_LOSS";

/// Three servers that are the nodes of a cluster.
fn cluster(root: &Path) -> [Server; 3] {
    let mut servers = NODES.map(|name| Server::stopped(root, name));
    let token = servers[0].cluster(&["create", "c"]);
    servers[0].run();
    for server in &mut servers[1..] {
        server.cluster(&["join", token.trim()]);
        server.run();
    }
    all_vote(&servers[0]);
    servers
}

/// Group `g` with database `d`: ALFA leads, BRAVO and CHARLIE are synchronized.
pub fn group(root: &Path, mode: &str) -> [Server; 3] {
    group_of(root, mode, "d")
}

fn group_of(root: &Path, mode: &str, databases: &str) -> [Server; 3] {
    let servers = cluster(root);
    let [alfa, bravo, charlie] = &servers;
    acquaint(root, &[alfa, bravo, charlie]);
    create_database(alfa);
    if databases.contains('e') {
        alfa.sql("CREATE DATABASE e; ALTER DATABASE e SET RECOVERY FULL; BACKUP DATABASE e TO DISK = 'e.bak'");
        alfa.sql("EXEC ('USE e; CREATE TABLE t (id int PRIMARY KEY, v varchar(100))')");
    }
    alfa.sql("BACKUP DATABASE d TO DISK = 'd.bak'");
    let replicas = [alfa, bravo, charlie].map(|s| {
        let manual = replica(s, "SYNCHRONOUS_COMMIT");
        manual.replace("MANUAL,", &format!("{mode},"))
    });
    alfa.sql(&format!(
        "CREATE AVAILABILITY GROUP g FOR DATABASE {databases} REPLICA ON {}",
        replicas.join(", ")
    ));
    for server in [bravo, charlie] {
        server.sql("ALTER AVAILABILITY GROUP g JOIN");
        server.sql("ALTER AVAILABILITY GROUP g GRANT CREATE ANY DATABASE");
    }
    alfa.sql("ALTER AVAILABILITY GROUP g GRANT CREATE ANY DATABASE");
    let whole = std::panic::catch_unwind(|| all_in_sync(alfa));
    if let Err(panic) = whole {
        tell(&servers);
        std::panic::resume_unwind(panic);
    }
    servers
}

/// A node votes when it has been there for a while.
fn all_vote(server: &Server) {
    wait("all vote", server, || {
        let nodes = shown(server)["nodes"].clone();
        let votes = |n: &serde_json::Value| n["dynamic_weight"] == 1;
        let all = nodes.as_array();
        all.is_some_and(|all| all.len() == NODES.len() && all.iter().all(votes))
    });
}

/// The cluster lists all three replicas, and every node votes.
pub fn all_in_sync(server: &Server) {
    all_vote(server);
    wait("everything is everywhere", server, || {
        in_sync(server) == NODES.len()
    });
}

/// How many nodes have everything, as the cluster knows.
fn in_sync(server: &Server) -> usize {
    let group = shown(server)["groups"][0]["in_sync"].clone();
    group.as_array().map_or(0, Vec::len)
}

/// What `daruma cluster show` tells.
pub fn shown(server: &Server) -> serde_json::Value {
    serde_json::from_str(&server.cluster(&["show", "--json"])).expect("JSON")
}

pub fn wait(what: &str, server: &Server, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + LONG;
    while !is_so() {
        assert!(Instant::now() < until, "never: {what}\n{}", server.log());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Which of them leads, when one does.
pub fn leader(servers: &[&Server]) -> usize {
    let until = Instant::now() + LONG;
    loop {
        let leads = |s: &&Server| s.value(OWN_ROLE).as_deref() == Some("PRIMARY");
        if let Some(found) = servers.iter().position(leads) {
            return found;
        }
        let logs = servers.iter().map(|s| format!("{}\n{}", s.name, s.log()));
        let logs = logs.collect::<Vec<_>>().join("\n");
        assert!(Instant::now() < until, "nobody leads\n{logs}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A row of one database.
fn into_one(id: u32) -> String {
    format!("INSERT d.dbo.t VALUES ({id}, 'row {id}')")
}

/// A row of each of two, in one transaction: begun in either.
fn into_both(id: u32) -> String {
    let [first, last] = if id.is_multiple_of(2) {
        ["d", "e"]
    } else {
        ["e", "d"]
    };
    format!(
        "SET XACT_ABORT ON; BEGIN TRAN; INSERT {first}.dbo.t VALUES ({id}, 'row {id}'); \
         INSERT {last}.dbo.t VALUES ({id}, 'row {id}'); COMMIT"
    )
}

/// Clients that write wherever they can, and what was acknowledged to them.
pub struct Load {
    statement: fn(u32) -> String,
    stopped: AtomicBool,
    next: AtomicU32,
    /// Clients that have not ended.
    clients: AtomicU32,
    acknowledged: std::sync::Mutex<Vec<u32>>,
}

impl Load {
    fn of(statement: fn(u32) -> String) -> Load {
        Load {
            statement,
            stopped: AtomicBool::default(),
            next: AtomicU32::default(),
            clients: AtomicU32::default(),
            acknowledged: std::sync::Mutex::default(),
        }
    }

    /// One client of one server, which may be frozen while it waits.
    fn run(&self, port: u16) {
        self.write(port);
        self.clients.fetch_sub(1, Ordering::AcqRel);
    }

    fn write(&self, port: u16) {
        while !self.stopped.load(Ordering::Acquire) {
            let Ok(mut client) = connect_within(port, "master", PATIENCE) else {
                std::thread::sleep(Duration::from_millis(20));
                continue;
            };
            while !self.stopped.load(Ordering::Acquire) {
                let id = self.next.fetch_add(1, Ordering::Relaxed);
                if client.execute(&(self.statement)(id)).is_err() {
                    break;
                }
                self.acknowledged.lock().expect("no panic").push(id);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn count(&self) -> usize {
        self.acknowledged.lock().expect("no panic").len()
    }

    /// Waits until more has been acknowledged.
    pub fn goes_on(&self, server: &Server) {
        let before = self.count();
        wait("something is acknowledged", server, || {
            self.count() > before + 20
        });
    }

    /// Everything that was acknowledged is there.
    fn check(&self, server: &Server) {
        wait("the last answers have come", server, || {
            self.clients.load(Ordering::Acquire) == 0
        });
        let acknowledged = self.acknowledged.lock().expect("no panic").clone();
        super::check(server, &acknowledged);
        assert!(acknowledged.len() > 20);
    }
}

/// Clients write while this is done; then everything that was acknowledged is on all three, and the same.
pub fn under_load(servers: &mut [Server; 3], work: impl FnOnce(&mut [Server; 3], &Load)) {
    under_load_of(servers, into_one, work);
}

fn under_load_of(
    servers: &mut [Server; 3],
    statement: fn(u32) -> String,
    work: impl FnOnce(&mut [Server; 3], &Load),
) {
    let load = Load::of(statement);
    let ports = [0, 1, 2].map(|n| servers[n].port);
    std::thread::scope(|scope| {
        for port in ports {
            let load = &load;
            load.clients.fetch_add(2, Ordering::AcqRel);
            scope.spawn(move || load.run(port));
            scope.spawn(move || load.run(port));
        }
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            load.goes_on(&servers[0]);
            work(servers, &load);
            load.stopped.store(true, Ordering::Release);
            compare(servers, &load);
        }));
        load.stopped.store(true, Ordering::Release);
        if let Err(panic) = done {
            tell(servers);
            std::panic::resume_unwind(panic);
        }
    });
}

fn compare(servers: &[Server; 3], load: &Load) {
    let [alfa, bravo, charlie] = servers;
    let first = &servers[leader(&[alfa, bravo, charlie])];
    load.check(first);
    all_in_sync(first);
    let sum = "SELECT CONCAT(COUNT(*), ' ', CHECKSUM_AGG(CHECKSUM(id, v))) FROM d.dbo.t";
    let here = first.patient_value(sum);
    for server in servers {
        server.wait_for(sum, &here);
    }
}

/// What each of them knew, for a test that fails. None runs afterwards: nobody waits for a frozen one.
fn tell(servers: &[Server; 3]) {
    const STATES: &str = "SELECT STRING_AGG(CONCAT(r.replica_server_name, ' ', synchronization_state_desc, ' sent ', last_sent_lsn,
            ' received ', last_received_lsn, ' hard ', last_hardened_lsn, ' end ', end_of_log_lsn), '; ')
        FROM sys.dm_hadr_database_replica_states s JOIN sys.availability_replicas r ON r.replica_id = s.replica_id";
    for server in servers {
        let client = connect_within(server.port, "master", PATIENCE);
        let states = client.and_then(|mut c| c.query(STATES));
        eprintln!("{}\n{states:?}\n{}", server.name, server.log());
    }
    servers.iter().for_each(Server::end);
}

/// The two servers that are not this one.
pub fn others(servers: &[Server; 3], but: usize) -> Vec<&Server> {
    let others = servers.iter().enumerate().filter(|(n, _)| *n != but);
    others.map(|(_, s)| s).collect()
}

fn of(servers: &[Server; 3], name: &str) -> usize {
    let found = servers.iter().position(|s| s.name == name);
    found.expect("one of them")
}

/// Owner after owner is brought down, and comes back as a secondary when another leads.
fn owner_after_owner(
    times: usize,
    down: impl Fn(&mut Server),
    up: impl Fn(&mut Server),
    back: impl Fn(&Server),
) {
    let root = tempfile::tempdir().expect("temporary directory");
    let mut servers = group(root.path(), "AUTOMATIC");
    under_load(&mut servers, |servers, load| {
        let mut owner = 0;
        for _ in 0..times {
            down(&mut servers[owner]);
            let began = Instant::now();
            let left = others(servers, owner);
            let next = left[leader(&left)].name;
            eprintln!("{next} leads after {:?}", began.elapsed());
            load.goes_on(left[0]);
            up(&mut servers[owner]);
            servers[owner].wait_for(OWN_ROLE, "SECONDARY");
            back(&servers[owner]);
            all_in_sync(&servers[of(servers, next)]);
            owner = of(servers, next);
        }
    });
}

#[test]
fn an_owner_that_is_killed_is_replaced_and_comes_back_as_a_secondary() {
    owner_after_owner(3, Server::kill, Server::run, |_| {});
}

#[test]
fn an_owner_that_was_frozen_acknowledges_nothing_that_its_successor_lacks() {
    let cannot_be_written = |server: &Server| {
        wait("what is read cannot be written", server, || {
            server.error("master", "INSERT d.dbo.t VALUES (-1, 'no')") == Some(3906)
        });
    };
    let (stop, go_on) = (
        |s: &mut Server| s.signal("STOP"),
        |s: &mut Server| s.signal("CONT"),
    );
    owner_after_owner(2, stop, go_on, cannot_be_written);
}

#[test]
fn a_server_that_is_told_to_stop_hands_its_group_over() {
    owner_after_owner(2, Server::stop, Server::run, |_| {});
}

#[test]
fn a_transaction_of_two_databases_is_whole_after_every_failover() {
    let root = tempfile::tempdir().expect("temporary directory");
    let mut servers = group_of(root.path(), "AUTOMATIC", "d, e");
    under_load_of(&mut servers, into_both, |servers, load| {
        let mut owner = 0;
        for round in 0..4 {
            match round % 2 {
                0 => {
                    let to = (owner + 1) % NODES.len();
                    servers[to].sql(PLANNED);
                    servers[to].wait_for(OWN_ROLE, "PRIMARY");
                    owner = to;
                }
                _ => {
                    servers[owner].kill();
                    let left = others(servers, owner);
                    let next = left[leader(&left)].name;
                    servers[owner].run();
                    owner = of(servers, next);
                }
            }
            load.goes_on(&servers[owner]);
            all_in_sync(&servers[owner]);
        }
    });
    let halves = "SELECT COUNT(*) FROM d.dbo.t d FULL JOIN e.dbo.t e ON d.id = e.id WHERE d.id IS NULL OR e.id IS NULL";
    for server in &servers {
        server.wait_for(halves, "0");
    }
}

#[test]
fn log_backups_after_failovers_have_no_gap() {
    let root = tempfile::tempdir().expect("temporary directory");
    let servers = group(root.path(), "MANUAL");
    let [alfa, bravo, _] = &servers;
    let path = |name: &str| root.path().join(name).display().to_string();
    let back_up = |n: u32| format!("BACKUP LOG d TO DISK = '{}'", path(&format!("{n}.trn")));
    let lead = |server: &Server| {
        server.sql(PLANNED);
        server.wait_for(OWN_ROLE, "PRIMARY");
        all_in_sync(server);
    };
    alfa.sql(&format!("BACKUP DATABASE d TO DISK = '{}'", path("d.bak")));
    alfa.sql("INSERT d.dbo.t VALUES (1, 'before the failover')");
    lead(bravo);
    // Its copy does not have the log from the full backup on, and no log backup has been taken since it came.
    bravo.sql("INSERT d.dbo.t VALUES (2, 'on the other')");
    assert_eq!(bravo.error("master", &back_up(0)), Some(4214));
    lead(alfa);
    alfa.sql(&back_up(1));
    alfa.sql("INSERT d.dbo.t VALUES (3, 'after a log backup')");
    lead(bravo);
    bravo.sql("INSERT d.dbo.t VALUES (4, 'on the other again')");
    bravo.sql(&back_up(2));
    bravo.sql(&format!(
        "RESTORE DATABASE r FROM DISK = '{}' WITH NORECOVERY, MOVE 'd' TO '{}', MOVE 'd_log' TO '{}';
         RESTORE LOG r FROM DISK = '{}' WITH NORECOVERY; RESTORE LOG r FROM DISK = '{}'",
        path("d.bak"),
        path("r.mdf"),
        path("r.ldf"),
        path("1.trn"),
        path("2.trn")
    ));
    bravo.wait_for("SELECT COUNT(*) FROM r.dbo.t", "4");
}

#[test]
fn an_owner_that_cannot_lead_lets_another() {
    let root = tempfile::tempdir().expect("temporary directory");
    let mut servers = group(root.path(), "AUTOMATIC");
    under_load(&mut servers, |servers, load| {
        // What a server has to write down before it leads cannot be written on the one that comes first.
        let folder = servers[1].folder.join("hadr");
        let files = std::fs::read_dir(&folder).expect("its folder");
        let standings: Vec<_> = files
            .map(|f| f.expect("a file").path())
            .filter(|p| p.extension().is_some_and(|e| e == "standing"))
            .map(|p| p.with_extension("standing.new"))
            .collect();
        assert_eq!(standings.len(), 1);
        for path in &standings {
            std::fs::create_dir(path).expect("in the way");
        }
        servers[0].kill();
        servers[2].wait_for(OWN_ROLE, "PRIMARY");
        load.goes_on(&servers[2]);
        for path in &standings {
            std::fs::remove_dir(path).expect("out of the way");
        }
        servers[0].run();
        servers[1].kill();
        servers[1].run();
        all_in_sync(&servers[2]);
    });
}

#[test]
fn a_group_that_is_dropped_without_the_cluster_leaves_nothing_open() {
    let root = tempfile::tempdir().expect("temporary directory");
    let mut servers = group(root.path(), "AUTOMATIC");
    servers[0].cluster(&["dynamic-quorum", "off"]);
    servers[0].sql("INSERT d.dbo.t VALUES (1, 'one')");
    servers[2].kill();
    servers[1].kill();
    servers[0].wait_for(OWN_ROLE, "RESOLVING");
    servers[0].sql("DROP AVAILABILITY GROUP g");
    servers[0].wait_for(
        "SELECT state_desc FROM sys.databases WHERE name = 'd'",
        "RESTORING",
    );
    servers[0].sql("RESTORE DATABASE d WITH RECOVERY");
    servers[0].wait_for(COUNT, "1");
}

#[test]
fn a_group_goes_where_an_administrator_wants_it() {
    let root = tempfile::tempdir().expect("temporary directory");
    let mut servers = group(root.path(), "MANUAL");
    under_load(&mut servers, |servers, load| {
        for to in [1, 2, 0, 1] {
            servers[to].sql(PLANNED);
            servers[to].wait_for(OWN_ROLE, "PRIMARY");
            assert_eq!(servers[to].error("master", PLANNED), Some(41122));
            load.goes_on(&servers[to]);
            all_in_sync(&servers[to]);
        }
        // Nobody takes it from a dead owner but an administrator.
        servers[1].kill();
        std::thread::sleep(Duration::from_secs(4));
        servers[2].wait_for(OWN_ROLE, "SECONDARY");
        assert_eq!(servers[2].error("master", PLANNED), Some(41142));
        servers[2].sql(FORCED);
        servers[2].wait_for(OWN_ROLE, "PRIMARY");
        load.goes_on(&servers[2]);
        servers[1].run();
        servers[1].wait_for(OWN_ROLE, "SECONDARY");
    });
}

/// `daruma cluster leave` on the owner: refused while nobody may take the group; then another leads, and the server is no node any more.
#[test]
fn an_owner_that_leaves_for_good_hands_its_group_over() {
    const NODE: &str = "SELECT COUNT(*) FROM sys.dm_hadr_cluster";
    let root = tempfile::tempdir().expect("temporary directory");
    let mut servers = group(root.path(), "MANUAL");
    let why = servers[0].cluster_refuses(&["leave"]);
    assert!(why.contains("owns availability group 'g'"), "{why}");
    servers[0].sql("INSERT d.dbo.t VALUES (1, 'before')");
    for name in NODES {
        servers[0].sql(&format!(
            "ALTER AVAILABILITY GROUP g MODIFY REPLICA ON '{name}' WITH (FAILOVER_MODE = AUTOMATIC)"
        ));
    }
    wait("it may go by itself", &servers[0], || {
        let automatic = shown(&servers[0])["groups"][0]["automatic"].clone();
        automatic.as_array().is_some_and(|a| a.len() == NODES.len())
    });
    servers[0].cluster(&["leave"]);
    let next = 1 + leader(&[&servers[1], &servers[2]]);
    servers[next].wait_for("SELECT COUNT(*) FROM d.dbo.t", "1");
    servers[next].sql("INSERT d.dbo.t VALUES (2, 'after')");
    wait("it is no member", &servers[next], || {
        let nodes = shown(&servers[next])["nodes"].clone();
        nodes.as_array().is_some_and(|n| n.len() == 2)
    });
    for again in [false, true] {
        if again {
            servers[0].stop();
            servers[0].run();
        }
        assert_eq!(servers[0].value(NODE).as_deref(), Some("0"));
        assert_ne!(servers[0].value(OWN_ROLE).as_deref(), Some("PRIMARY"));
    }
}

#[test]
fn an_owner_whose_group_goes_nowhere_stops_in_order_and_leads_again() {
    let root = tempfile::tempdir().expect("temporary directory");
    let mut servers = group(root.path(), "MANUAL");
    under_load(&mut servers, |servers, load| {
        servers[0].stop();
        servers[0].run();
        servers[0].wait_for(OWN_ROLE, "PRIMARY");
        load.goes_on(&servers[0]);
    });
    // The others too, and nobody is left who could give a lease, or take a vote.
    for n in [1, 2, 0] {
        servers[n].stop();
    }
}

#[test]
fn an_owner_without_a_quorum_leads_nothing_until_it_has_one() {
    let root = tempfile::tempdir().expect("temporary directory");
    let mut servers = group(root.path(), "AUTOMATIC");
    // One that was missed first would lose its vote.
    servers[0].cluster(&["dynamic-quorum", "off"]);
    under_load(&mut servers, |servers, load| {
        servers[2].kill();
        servers[1].kill();
        servers[0].wait_for(OWN_ROLE, "RESOLVING");
        // From the moment on in which the lease is known to be over, not from when a thread has seen it.
        assert_eq!(servers[0].error("master", COUNT), Some(983));
        servers[2].run();
        servers[0].wait_for(OWN_ROLE, "PRIMARY");
        load.goes_on(&servers[0]);
        servers[1].run();
        servers[1].wait_for(OWN_ROLE, "SECONDARY");
    });
}

#[test]
fn a_database_that_is_added_keeps_those_who_lack_it_from_leading() {
    let root = tempfile::tempdir().expect("temporary directory");
    let servers = group(root.path(), "AUTOMATIC");
    let [alfa, bravo, charlie] = &servers;
    for server in [bravo, charlie] {
        server.sql("ALTER AVAILABILITY GROUP g DENY CREATE ANY DATABASE");
    }
    alfa.sql("CREATE DATABASE e; ALTER DATABASE e SET RECOVERY FULL; BACKUP DATABASE e TO DISK = 'e.bak'");
    alfa.sql("ALTER AVAILABILITY GROUP g ADD DATABASE e");
    assert_eq!(in_sync(alfa), 1);
    assert_eq!(bravo.error("master", PLANNED), Some(41142));
    alfa.sql("ALTER AVAILABILITY GROUP g REMOVE DATABASE e");
    all_in_sync(alfa);
    wait("it hears that the database has gone", bravo, || {
        bravo.try_sql(PLANNED).is_ok()
    });
    bravo.wait_for(OWN_ROLE, "PRIMARY");
    // Ended here, it is the cluster's no more.
    bravo.sql("DROP AVAILABILITY GROUP g");
    assert_eq!(shown(alfa)["groups"].as_array().map(Vec::len), Some(0));
}

#[test]
fn whoever_is_taken_out_is_not_named_from_then_on() {
    let root = tempfile::tempdir().expect("temporary directory");
    let servers = group(root.path(), "AUTOMATIC");
    let [alfa, bravo, charlie] = &servers;
    // Nobody writes, and no connection breaks.
    charlie.sql("ALTER DATABASE d SET HADR OFF");
    wait("one less has everything", alfa, || in_sync(alfa) == 2);
    alfa.sql("ALTER AVAILABILITY GROUP g REMOVE REPLICA ON 'BRAVO'");
    assert_eq!(in_sync(alfa), 1);
    bravo.wait_for_log("has been removed from the group");
    assert!(bravo.error("master", FORCED).is_some());
    alfa.sql("INSERT d.dbo.t VALUES (1, 'alone')");
}

#[test]
fn only_nodes_of_the_cluster_are_replicas() {
    let root = tempfile::tempdir().expect("temporary directory");
    let root = root.path();
    let [alfa, bravo, charlie] = cluster(root);
    acquaint(root, &[&alfa, &bravo, &charlie]);
    create_database(&alfa);
    alfa.sql("BACKUP DATABASE d TO DISK = 'd.bak'");
    let own = replica(&alfa, "SYNCHRONOUS_COMMIT");
    let stranger = own.replace("'ALFA'", "'DELTA'");
    let text = format!("CREATE AVAILABILITY GROUP g FOR DATABASE d REPLICA ON {own}, {stranger}");
    assert_eq!(alfa.error("master", &text), Some(41131));
    alfa.sql(&format!(
        "CREATE AVAILABILITY GROUP g FOR DATABASE d REPLICA ON {own}"
    ));
    alfa.wait_for(OWN_ROLE, "PRIMARY");
    alfa.sql("INSERT d.dbo.t VALUES (1, 'one')");
}

/// Nobody is left who could have what its stop writes.
#[test]
fn an_owner_that_is_alone_stops_in_order_and_leads_again() {
    let root = tempfile::tempdir().expect("temporary directory");
    let mut servers = group(root.path(), "AUTOMATIC");
    for name in ["BRAVO", "CHARLIE"] {
        servers[0].sql(&format!(
            "ALTER AVAILABILITY GROUP g REMOVE REPLICA ON '{name}'"
        ));
    }
    servers[0].sql("INSERT d.dbo.t VALUES (1, 'alone')");
    servers[0].stop();
    servers[0].run();
    servers[0].wait_for(OWN_ROLE, "PRIMARY");
    servers[0].wait_for(COUNT, "1");
}
