//! Groups whose primary a manager outside names: here a test plays the manager, with the statements that Pacemaker's agent for SQL Server uses.

use super::servers::*;
use super::{Load, check, insert};
use daruma_client::client::ClientError;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const SEQUENCE_NUMBER: &str = "SELECT sequence_number FROM sys.availability_groups";
const FAILOVER: &str = "EXEC sp_set_session_context @key = N'external_cluster', @value = N'yes';
     ALTER AVAILABILITY GROUP g FAILOVER";
const FORCED: &str = "EXEC sp_set_session_context @key = N'external_cluster', @value = N'yes';
     ALTER AVAILABILITY GROUP g FORCE_FAILOVER_ALLOW_DATA_LOSS";
/// What the error log says of a replica that was refused for what it lacks.
const LACKS: &str = "does not have this one";
const ROLE_SECONDARY: &str = "ALTER AVAILABILITY GROUP g SET (ROLE = SECONDARY)";

/// A replica of such a group; one without data names no failover mode. Sessions that a busy machine ends seldom.
fn member(server: &Server, mode: &str) -> String {
    match mode {
        "CONFIGURATION_ONLY" => format!(
            "'{}' WITH (ENDPOINT_URL = 'TCP://127.0.0.1:{}', AVAILABILITY_MODE = {mode}, SESSION_TIMEOUT = 15)",
            server.name, server.endpoint
        ),
        _ => replica(server, mode)
            .replace("MANUAL,", "EXTERNAL,")
            .replace("SESSION_TIMEOUT = 5", "SESSION_TIMEOUT = 15"),
    }
}

/// Group `g` with database `d`: ALFA leads, whoever has data is synchronized, and all have heard of it.
fn group(root: &Path, third: &str) -> [Server; 3] {
    group_of(root, third, 15)
}

/// The same, with the session timeout of ALFA in seconds: for so long its commits wait for one that is away, before it asks to go on without.
fn group_of(root: &Path, third: &str, timeout_s: u32) -> [Server; 3] {
    let servers = ["ALFA", "BRAVO", "CHARLIE"].map(|name| Server::start(root, name));
    let [alfa, bravo, charlie] = &servers;
    acquaint(root, &[alfa, bravo, charlie]);
    create_database(alfa);
    alfa.sql("BACKUP DATABASE d TO DISK = 'd.bak'");
    alfa.sql(&format!(
        "CREATE AVAILABILITY GROUP g WITH (CLUSTER_TYPE = EXTERNAL) FOR DATABASE d REPLICA ON {}, {}, {}",
        member(alfa, "SYNCHRONOUS_COMMIT").replace(
            "SESSION_TIMEOUT = 15",
            &format!("SESSION_TIMEOUT = {timeout_s}")
        ),
        member(bravo, "SYNCHRONOUS_COMMIT"),
        member(charlie, third)
    ));
    for server in [bravo, charlie] {
        if server.name == charlie.name {
            is_called_on(charlie);
        }
        server.sql("ALTER AVAILABILITY GROUP g JOIN WITH (CLUSTER_TYPE = EXTERNAL)");
        server.sql("ALTER AVAILABILITY GROUP g GRANT CREATE ANY DATABASE");
    }
    alfa.sql("ALTER AVAILABILITY GROUP g GRANT CREATE ANY DATABASE");
    leads(alfa);
    match third {
        "SYNCHRONOUS_COMMIT" => all_know(&servers, 3),
        "CONFIGURATION_ONLY" => all_know(&servers, 2),
        // It has no vote.
        _ => all_know(&servers[..2], 2),
    }
    servers
}

/// Waits until a replica that has joined is connected to one that has not: that may not take the place of the connection of the group's. The primary
/// connects as well, and is sent away each time.
fn is_called_on(server: &Server) {
    let until = Instant::now() + LONG;
    let mut known = Vec::new();
    loop {
        let now = peers(server.endpoint);
        if now.iter().any(|peer| known.contains(peer)) {
            return;
        }
        assert!(Instant::now() < until, "{}", server.log());
        known = now;
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// Ports from which somebody on this machine is connected to this one (proc(5): addresses in hexadecimal digits, 01 is established).
fn peers(port: u16) -> Vec<String> {
    let table = std::fs::read_to_string("/proc/net/tcp").expect("the table of connections");
    let own = format!(":{port:04X}");
    let lines = table.lines().map(str::split_whitespace);
    let of_it = lines.filter_map(|mut fields| {
        let (local, remote, state) = (fields.nth(1)?, fields.next()?, fields.next()?);
        (local.ends_with(&own) && state == "01").then(|| remote.to_string())
    });
    of_it.collect()
}

fn sequence_number(server: &Server) -> i64 {
    let number = server.patient_value(SEQUENCE_NUMBER);
    number.parse().expect("a number")
}

/// Waits until it has heard of a list that comes after, or is of, this number.
fn hears_of(server: &Server, number: i64) {
    let until = Instant::now() + LONG;
    while sequence_number(server) < number {
        assert!(Instant::now() < until, "{number}\n{}", server.log());
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// So many of the servers have everything, and all of them have heard of it: a server that lacks something shows one less.
fn all_know(servers: &[Server], complete: usize) {
    let synchronized = format!(
        "SELECT COUNT(*) FROM sys.dm_hadr_database_replica_states WHERE is_local = 0 AND synchronization_state_desc = 'SYNCHRONIZED'
         HAVING COUNT(*) = {}",
        complete - 1
    );
    let until = Instant::now() + LONG;
    loop {
        let numbers: Vec<i64> = servers.iter().map(sequence_number).collect();
        let highest = numbers.iter().copied().max().unwrap_or(0);
        let having = numbers.iter().filter(|n| **n == highest).count();
        let is_known = numbers.iter().all(|n| *n >= highest - 1);
        let is_seen = servers
            .iter()
            .any(|server| server.value(&synchronized).is_some());
        if highest % 2 == 1 && having == complete && is_known && is_seen {
            return;
        }
        let logs = servers.iter().map(|s| format!("{}\n{}", s.name, s.log()));
        let logs = logs.collect::<Vec<_>>().join("\n");
        assert!(Instant::now() < until, "{numbers:?}\n{logs}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Has the server promoted; `true`: it leads now, or did before. It may not yet be what it says, and may be passed over again before.
fn is_promoted(server: &Server) -> Result<bool, ClientError> {
    match server.try_sql(FAILOVER) {
        Ok(_) => Ok(true),
        Err(error) => match error.server_message().map(|m| m.number) {
            Some(41122) => Ok(true),
            Some(_) => Ok(false),
            None => Err(error),
        },
    }
}

/// What a manager does after a loss: of these, whoever has the highest number is promoted, as often as it takes.
fn promote<'a>(able: &[&'a Server]) -> &'a Server {
    let until = Instant::now() + LONG;
    loop {
        let best = highest(able);
        let promoted = is_promoted(best);
        if is_primary(best) {
            leads(best);
            return best;
        }
        assert!(Instant::now() < until, "{promoted:?}\n{}", best.log());
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// A move to this one. Where it lacks something for now, whoever has everything leads meanwhile, so that it can catch up.
fn move_to(wanted: &Server, others: &[&Server]) {
    let until = Instant::now() + LONG;
    loop {
        let promoted = is_promoted(wanted);
        if is_primary(wanted) {
            break;
        }
        assert!(Instant::now() < until, "{promoted:?}\n{}", wanted.log());
        if matches!(promoted, Ok(false)) {
            // One that leads refuses.
            let _ = highest(others).try_sql(FAILOVER);
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    leads(wanted);
}

fn is_primary(server: &Server) -> bool {
    server.value(OWN_ROLE).as_deref() == Some("PRIMARY")
}

/// By force, as often as it takes: a database may be about to give up what another primary has not.
fn force(server: &Server) {
    let until = Instant::now() + LONG;
    while let Err(error) = server.try_sql(FORCED) {
        assert!(Instant::now() < until, "{error}\n{}", server.log());
        std::thread::sleep(Duration::from_millis(200));
    }
    leads(server);
}

/// Waits until its copy has everything. One that is refused is made anew, as the error log asks: pages that it wrote may have what nobody else has.
fn catches_up(server: &Server) {
    let own = "SELECT synchronization_state_desc FROM sys.dm_hadr_database_replica_states WHERE is_local = 1";
    let until = Instant::now() + LONG;
    let mut is_anew = false;
    while server.value(own).as_deref() != Some("SYNCHRONIZED") {
        assert!(Instant::now() < until, "{}", server.log());
        if !is_anew && server.log().contains("follows no more") {
            // It may be out of the group already.
            let _ = server.try_sql("ALTER DATABASE d SET HADR OFF");
            is_anew = server.try_sql("DROP DATABASE d").is_ok();
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// It is the primary, and lets sessions come.
fn leads(server: &Server) {
    server.wait_for(OWN_ROLE, "PRIMARY");
    server.patient_value(COUNT);
}

fn highest<'a>(able: &[&'a Server]) -> &'a Server {
    let able = able.iter().copied();
    let best = able.max_by_key(|server| sequence_number(server));
    best.expect("a server")
}

/// Nobody writes there, whatever it says.
fn takes_nothing(server: &Server) {
    let text = "INSERT t VALUES (-1, 'no')";
    let taken = server.connect("d").and_then(|mut c| c.execute(text));
    assert!(taken.is_err(), "{}", server.log());
}

#[test]
fn whoever_is_promoted_after_a_kill_has_every_acknowledged_row_and_the_old_primary_follows() {
    let root = tempfile::tempdir().expect("temporary directory");
    let mut servers = group(root.path(), "SYNCHRONOUS_COMMIT");
    let [alfa, bravo, charlie] = &mut servers;
    assert_eq!(
        bravo.error("master", "ALTER AVAILABILITY GROUP g FAILOVER"),
        Some(47104)
    );
    assert_eq!(alfa.error("master", FAILOVER), Some(41122));
    insert(alfa, 0..30);

    let load = Load::begin([alfa.port, alfa.port], 1_000);
    alfa.wait_for(
        "SELECT 1 FROM d.dbo.t WHERE v = 'load' HAVING COUNT(*) > 50",
        "1",
    );
    alfa.kill();
    let acknowledged = load.end();
    let primary = promote(&[bravo, charlie]);
    check(primary, &acknowledged);
    insert(primary, 30..60);

    // It comes back, and leads nothing by itself.
    alfa.run();
    assert_ne!(alfa.patient_value(OWN_ROLE), "PRIMARY");
    alfa.wait_for(OWN_ROLE, "SECONDARY");
    catches_up(alfa);
    let name = primary.name;
    all_know(&servers, 3);

    // A move that the manager plans: demoted first, then promoted.
    let [alfa, ..] = &servers;
    let primary = servers.iter().find(|s| s.name == name).expect("it");
    primary.sql(ROLE_SECONDARY);
    takes_nothing(primary);
    move_to(alfa, &[primary]);
    primary.wait_for(OWN_ROLE, "SECONDARY");
    catches_up(primary);
    check(alfa, &acknowledged);
    check(alfa, &(0..60).collect::<Vec<u32>>());
    insert(alfa, 60..70);
    all_know(&servers, 3);
}

#[test]
fn a_replica_without_data_votes_and_a_replica_alone_is_not_promoted() {
    let root = tempfile::tempdir().expect("temporary directory");
    let mut servers = group(root.path(), "CONFIGURATION_ONLY");
    let [alfa, bravo, charlie] = &mut servers;
    assert_eq!(charlie.error("master", FAILOVER), Some(41142));
    assert_eq!(
        charlie.error("master", FORCED),
        Some(41142),
        "it has no data"
    );
    insert(alfa, 0..20);

    // What the secondary lacks is agreed with the one that has no data, so the secondary is not promoted.
    bravo.kill();
    insert(alfa, 20..40);
    alfa.kill();
    bravo.run();
    // At first because nobody answers it; when it is connected, because of what it hears.
    let until = Instant::now() + LONG;
    while !bravo.log().contains(LACKS) {
        assert_eq!(bravo.error("master", FAILOVER), Some(41142));
        assert!(Instant::now() < until, "{}", bravo.log());
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(bravo.error("master", FAILOVER), Some(41142));
    bravo.wait_for(OWN_ROLE, "SECONDARY");
    assert!(sequence_number(bravo) < sequence_number(charlie));

    // The old primary does not begin by itself, nor without another voter.
    charlie.kill();
    alfa.run();
    let role = alfa.patient_value(OWN_ROLE);
    assert_ne!(role, "PRIMARY");
    charlie.run();
    let primary = promote(&[alfa]);
    check(primary, &(0..40).collect::<Vec<u32>>());
    insert(primary, 40..50);
    all_know(&servers, 2);

    // OFFLINE, and nobody leads until the manager says who.
    let [alfa, bravo, _] = &servers;
    alfa.sql("ALTER AVAILABILITY GROUP g OFFLINE");
    alfa.wait_for(OWN_ROLE, "RESOLVING");
    move_to(bravo, &[alfa]);
    check(bravo, &(0..50).collect::<Vec<u32>>());
    alfa.sql(ROLE_SECONDARY);
    alfa.wait_for(OWN_ROLE, "SECONDARY");
    catches_up(alfa);

    // The last one of three is promoted by force alone.
    all_know(&servers, 2);
    let [alfa, bravo, charlie] = &mut servers;
    bravo.kill();
    charlie.kill();
    assert_eq!(alfa.error("master", FAILOVER), Some(41142));
    force(alfa);
    check(alfa, &(0..50).collect::<Vec<u32>>());
    insert(alfa, 50..60);

    // One that comes back hears of it, and from then on nobody is promoted who lacks what it acknowledged.
    charlie.run();
    hears_of(charlie, sequence_number(alfa) - 1);
    bravo.run();
    catches_up(bravo);
    move_to(bravo, &[alfa]);
    check(bravo, &(0..60).collect::<Vec<u32>>());
}

#[test]
fn a_replica_with_asynchronous_commits_is_led_by_force_is_heard_and_yields_to_the_next() {
    let root = tempfile::tempdir().expect("temporary directory");
    let mut servers = group(root.path(), "ASYNCHRONOUS_COMMIT");
    let [alfa, bravo, charlie] = &mut servers;
    insert(alfa, 0..20);
    charlie.wait_for(COUNT, "20");
    let before = sequence_number(alfa).max(sequence_number(bravo));
    alfa.kill();
    assert_eq!(charlie.error("master", FAILOVER), Some(41142));
    force(charlie);
    check(charlie, &(0..20).collect::<Vec<u32>>());
    insert(charlie, 20..30);

    // Those that vote hear who has everything, also from one that has no vote.
    alfa.run();
    for server in [&*alfa, &*bravo] {
        hears_of(server, before + 1);
    }

    // Both that vote agree that another leads: this one, which has no vote to promise, follows.
    force(bravo);
    charlie.wait_for(OWN_ROLE, "SECONDARY");
    takes_nothing(charlie);
    insert(bravo, 30..40);
}

/// Row 20, which is there, and of which nobody has heard that it is.
fn begin(server: &Server) -> JoinHandle<Result<(), ClientError>> {
    let mut client = server.connect("d").expect("connects");
    let text = "INSERT t VALUES (20, 'nowhere else')";
    let begun = std::thread::spawn(move || client.execute(text));
    let is_there = "SELECT COUNT(*) FROM d.dbo.t WITH (NOLOCK) WHERE id = 20";
    server.wait_for(is_there, "1");
    begun
}

#[test]
fn a_primary_that_was_passed_over_acknowledges_nothing_as_its_group_ends() {
    const REMOVE: &str = "ALTER AVAILABILITY GROUP g REMOVE DATABASE d";
    const STATE: &str = "SELECT state_desc FROM sys.databases WHERE name = 'd'";
    let root = tempfile::tempdir().expect("temporary directory");
    let mut servers = group_of(root.path(), "SYNCHRONOUS_COMMIT", 3_600);
    let [alfa, bravo, charlie] = &mut servers;
    insert(alfa, 0..20);
    // Nobody lets it in any more, so that it hears of nothing.
    for server in [&mut *bravo, &mut *charlie] {
        server.sql("REVOKE CONNECT ON ENDPOINT::hadr FROM ALFA_login");
        server.kill();
    }
    bravo.run();
    charlie.run();
    let primary = promote(&[bravo, charlie]);

    let waits = begin(alfa);
    assert_eq!(alfa.error("master", REMOVE), Some(41131));
    assert!(!waits.is_finished(), "{}", alfa.log());
    alfa.sql("DROP AVAILABILITY GROUP g");
    let ended = waits.join().expect("the session's thread");
    assert!(ended.is_err(), "{}", alfa.log());
    alfa.wait_for(STATE, "RESTORING");
    takes_nothing(alfa);
    primary.wait_for(COUNT, "20");

    // The one that leads may do both, and its databases stay open. Nobody else gets the second one, so that it is listed alone from then on.
    for server in [&*bravo, &*charlie] {
        server.sql("ALTER AVAILABILITY GROUP g DENY CREATE ANY DATABASE");
    }
    primary.sql("CREATE DATABASE e; ALTER DATABASE e SET RECOVERY FULL; BACKUP DATABASE e TO DISK = 'e.bak'");
    let until = Instant::now() + LONG;
    while let Err(error) = primary.try_sql("ALTER AVAILABILITY GROUP g ADD DATABASE e") {
        // The other one may not be connected for the moment.
        assert!(Instant::now() < until, "{error}\n{}", primary.log());
        std::thread::sleep(Duration::from_millis(200));
    }
    primary.sql(REMOVE);
    insert(primary, 20..30);
    primary.sql("DROP AVAILABILITY GROUP g");
    primary.sql("CREATE TABLE e.dbo.t (i int); INSERT e.dbo.t VALUES (1)");
}

/// The example of a manager, while this lives.
struct Manager(Child);

impl Manager {
    fn start(servers: &[Server]) -> Manager {
        let addresses: Vec<String> = servers.iter().map(Server::address).collect();
        Manager::of(&addresses, |command| {
            command.env("DARUMA", DARUMA).env("FLAGS", "-C");
            command.env("SQLCMDUSER", "sa");
            command.env("SQLCMDPASSWORD", PASSWORD);
        })
    }

    fn of(servers: &[String], with: impl FnOnce(&mut Command)) -> Manager {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/manager.sh");
        let mut command = Command::new("sh");
        command.args([script, "g"]).args(servers);
        with(&mut command);
        let process = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Manager(process.expect("sh"))
    }
}

/// What a server is to the script: an address, a sequence number, and whether it refuses.
const ANSWERS: &str = r#"# Stands for `daruma sql`: the server is behind -S, the statement behind -Q.
while [ $# -gt 0 ]; do
    case $1 in -S) server=$2 ;; -Q) text=$2 ;; esac
    shift
done
case $text in
*FAILOVER*)
    echo "$server" >>"$ASKED"
    [ "$server" = able ]
    ;;
*)
    case $server in
    best) echo "SECONDARY 9" ;;
    able) echo "SECONDARY 7" ;;
    *) echo "SECONDARY 5" ;;
    esac
    ;;
esac
"#;

/// The highest number comes first; who refuses does not keep the others from it, and has its turn again.
#[test]
fn the_example_of_a_manager_goes_on_to_another_when_one_refuses() {
    let root = tempfile::tempdir().expect("temporary directory");
    let asked = root.path().join("asked");
    // Run as `sh sql`: a file that was just written cannot be run itself while another test makes a process.
    std::fs::write(root.path().join("sql"), ANSWERS).expect("a script");
    let servers = ["least", "able", "best"].map(String::from);
    let _manager = Manager::of(&servers, |command| {
        command.current_dir(root.path());
        command.env("DARUMA", "sh").env("ASKED", &asked);
        command.env("ROUNDS", "1").env("PAUSE", "0");
    });
    let until = Instant::now() + LONG;
    loop {
        let said = std::fs::read_to_string(&asked).unwrap_or_default();
        let said: Vec<&str> = said.lines().collect();
        // It is promoted and yet nobody leads, so that everybody is asked anew.
        if let [first, second, third, ..] = said[..] {
            assert_eq!([first, second, third], ["best", "able", "best"]);
            return;
        }
        assert!(Instant::now() < until, "{said:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// On a busy machine it may promote while nobody has died: that loses nothing, and the load goes on with whoever leads.
#[test]
fn the_example_of_a_manager_promotes_whoever_has_everything() {
    let root = tempfile::tempdir().expect("temporary directory");
    let mut servers = group(root.path(), "CONFIGURATION_ONLY");
    let [alfa, bravo, _] = &mut servers;
    let load = Load::begin([alfa.port, bravo.port], 1_000);
    let more = |server: &Server, than: u32| {
        let text = format!("SELECT 1 FROM d.dbo.t HAVING COUNT(*) > {than}");
        server.wait_for(&text, "1");
    };
    more(alfa, 50);
    all_know(&servers, 2);
    let _manager = Manager::start(&servers);
    let [alfa, bravo, _] = &mut servers;
    alfa.kill();
    bravo.wait_for(OWN_ROLE, "PRIMARY");
    let known = bravo.patient_value(COUNT);
    more(bravo, known.parse().expect("a number"));
    alfa.run();
    catches_up(alfa);
    let acknowledged = load.end();
    catches_up(bravo);
    let until = Instant::now() + LONG;
    loop {
        let counts = [alfa.patient_value(COUNT), bravo.patient_value(COUNT)];
        if counts[0] == counts[1] {
            break;
        }
        assert!(Instant::now() < until, "{counts:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
    check(alfa, &acknowledged);
    check(bravo, &acknowledged);
}
