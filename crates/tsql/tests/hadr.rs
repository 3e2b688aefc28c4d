//! Availability groups over a service that does what it is told: what statements ask of it, what they store and refuse, what
//! views show, and what sessions may do with a database by its role.

mod common;

use common::{Client, Server, TextSink, errors, run_until};
use daruma_base::Lsn;
use daruma_catalog::{ClusterType, EndpointDef, GroupDef};
use daruma_tsql::error::Result;
use daruma_tsql::instance::hadr::*;
use daruma_tsql::instance::{Instance, LoginInfo};
use daruma_tsql::session::Session;
use std::sync::{Arc, Mutex, Weak, mpsc};
use std::thread::{JoinHandle, spawn};
use std::time::Duration;

/// A service that notes what it was asked, and has one secondary, `B`, that is always there.
struct Told {
    asked: Mutex<Vec<String>>,
    /// Batch that another session begins while an endpoint is told or a group ends.
    meanwhile: Mutex<Option<String>>,
    begun: Mutex<Vec<JoinHandle<String>>>,
    role: Mutex<ReplicaRole>,
    instance: Weak<Instance>,
}

impl Told {
    fn note(&self, what: String) {
        self.asked.lock().expect("whole").push(what);
    }

    fn taken(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock().expect("whole"))
    }

    fn begin_meanwhile(&self) {
        let text = self.meanwhile.lock().expect("whole").take();
        if let Some(text) = text {
            self.begin(text);
        }
    }

    /// Begins a batch of sa, and goes on when it has ended or cannot end before this thread has let go of something.
    fn begin(&self, text: String) {
        let instance = self.instance.upgrade().expect("there");
        let (ended, end) = mpsc::channel();
        let batch = move || {
            let login = LoginInfo {
                login: "sa".to_string(),
                ansi_defaults: true,
                ..LoginInfo::default()
            };
            let mut session = Session::new(&instance, login).expect("login");
            let mut sink = TextSink::default();
            session.execute_batch(&text, &mut sink);
            let seen = sink.take();
            // Nobody listens any more when it had to wait.
            let _ = ended.send(());
            seen
        };
        self.begun.lock().expect("whole").push(spawn(batch));
        let _ = end.recv_timeout(Duration::from_millis(200));
    }

    fn groups(&self) -> Vec<Arc<GroupDef>> {
        let instance = self.instance.upgrade();
        instance.map_or_else(Vec::new, |i| i.hadr.groups.all())
    }
}

impl HadrService for Told {
    fn is_enabled(&self) -> bool {
        true
    }
    fn set_endpoint(&self, endpoint: Option<(&EndpointDef, EndpointIdentity)>) -> Result<()> {
        self.note(match endpoint {
            Some((e, identity)) => format!(
                "endpoint {} {:?} port {} peers {}",
                e.name,
                e.state,
                e.port,
                identity.peers.len()
            ),
            None => "no endpoint".to_string(),
        });
        self.begin_meanwhile();
        Ok(())
    }
    fn set_peers(&self, peers: &[Vec<u8>]) {
        self.note(format!("peers {}", peers.len()));
    }
    fn create_group(&self, group: &GroupDef) -> Result<()> {
        self.note(format!("create {} of {}", group.name, group.replicas.len()));
        Ok(())
    }
    fn alter_group(&self, before: &GroupDef, after: &GroupDef) -> Result<()> {
        let changes = [
            ("options", before.options != after.options),
            ("replicas", before.replicas != after.replicas),
            ("databases", before.databases != after.databases),
            ("listener", before.listener != after.listener),
        ];
        let changed = changes.iter().filter(|(_, is)| *is).map(|(name, _)| *name);
        self.note(format!("alter {:?}", changed.collect::<Vec<_>>()));
        Ok(())
    }
    fn settle_group(&self, _: &GroupDef, after: &GroupDef, is_stored: bool) {
        let stored = self.groups().iter().any(|g| **g == *after);
        assert_eq!(stored, is_stored, "what counts is stored");
    }
    fn drop_group(&self, group: &GroupDef) -> Result<()> {
        self.note(format!("drop {}", group.name));
        self.begin_meanwhile();
        Ok(())
    }
    fn join_group(&self, name: &str, cluster_type: ClusterType) -> Result<GroupDef> {
        self.note(format!("join {name} {cluster_type:?}"));
        let mut group = (*self.groups().remove(0)).clone();
        group.name = name.to_string();
        group.group_id = [9; 16];
        group.databases.iter_mut().for_each(|d| d.is_joined = false);
        Ok(group)
    }
    fn act_on_group(&self, group: &GroupDef, act: GroupAct) -> Result<()> {
        self.note(format!("{act:?} {}", group.name));
        Ok(())
    }
    fn act_on_database(&self, group: &GroupDef, database: &str, act: DatabaseAct) -> Result<()> {
        self.note(format!("{act:?} {database} of {}", group.name));
        Ok(())
    }
    fn role(&self, _: [u8; 16]) -> ReplicaRole {
        *self.role.lock().expect("whole")
    }
    fn replicas(&self) -> Vec<ReplicaState> {
        let state = |group: &GroupDef, at: usize| ReplicaState {
            group_id: group.group_id,
            replica_id: group.replicas.get(at).map_or([0; 16], |r| r.replica_id),
            role: Some(match at {
                0 => ReplicaRole::Primary,
                _ => ReplicaRole::Secondary,
            }),
            is_connected: at == 0,
            last_connect_error: (at == 1).then(|| (35250, "gone".to_string(), 0)),
        };
        let groups = self.groups();
        groups
            .iter()
            .flat_map(|g| [state(g, 0), state(g, 1)])
            .collect()
    }
    fn databases(&self) -> Vec<DatabaseReplicaState> {
        let Some(instance) = self.instance.upgrade() else {
            return Vec::new();
        };
        let mut list = Vec::new();
        for group in instance.hadr.groups.all() {
            for database in &group.databases {
                for (at, replica) in group.replicas.iter().enumerate() {
                    let entry = instance.database_named(&database.name).expect("there");
                    list.push(DatabaseReplicaState {
                        group_id: group.group_id,
                        replica_id: replica.replica_id,
                        group_database_id: database.group_database_id,
                        database_id: entry.id(),
                        is_primary: at == 0,
                        synchronization: match at {
                            0 => SynchronizationState::Synchronized,
                            _ => SynchronizationState::Synchronizing,
                        },
                        is_commit_participant: at == 0,
                        suspended: (at == 1).then_some(SuspendReason::User),
                        recovery_lsn: None,
                        truncation_lsn: None,
                        last_sent: None,
                        last_received: None,
                        last_hardened: Some((Lsn(77), 0)),
                        last_redone: None,
                        last_commit: None,
                        end_of_log: None,
                        log_send_queue_bytes: 4_096,
                        log_send_bytes_per_second: 0,
                        log_block_bytes: (at == 1).then_some(60_000),
                        log_block_sent_bytes: (at == 1).then_some(9_000),
                        redo_queue_bytes: 0,
                        redo_bytes_per_second: 0,
                        secondary_lag_ms: Some(1_500),
                    });
                }
            }
        }
        list
    }
    fn seedings(&self) -> Vec<Seeding> {
        vec![Seeding {
            group_id: [1; 16],
            group_database_id: [2; 16],
            remote_replica_id: [3; 16],
            operation_id: [4; 16],
            started_utc: 1,
            completed_utc: Some(20_000_001),
            is_source: true,
            database: "d".to_string(),
            bytes_sent: 4_000,
            wire_bytes: 1_500,
            is_compressed: true,
            bytes_total: 4_000,
            failure: None,
            attempts: 1,
        }]
    }
    fn page_repairs(&self) -> Vec<PageRepair> {
        vec![PageRepair {
            database_id: daruma_base::DatabaseId(5),
            file: 1,
            page: 88,
            error_type: 1,
            status: 5,
            modified_utc: 1,
        }]
    }
}

const CREATE: &str = "CREATE AVAILABILITY GROUP g WITH (CLUSTER_TYPE = NONE, DB_FAILOVER = ON) FOR DATABASE d REPLICA ON \
    'DARUMA' WITH (ENDPOINT_URL = 'TCP://a:5022', AVAILABILITY_MODE = SYNCHRONOUS_COMMIT, FAILOVER_MODE = MANUAL, SEEDING_MODE = AUTOMATIC, \
        PRIMARY_ROLE (READ_ONLY_ROUTING_LIST = (('B', 'C'), 'DARUMA')), SECONDARY_ROLE (ALLOW_CONNECTIONS = ALL, READ_ONLY_ROUTING_URL = 'TCP://a:1433')), \
    'B' WITH (ENDPOINT_URL = 'TCP://b:5022', AVAILABILITY_MODE = SYNCHRONOUS_COMMIT, FAILOVER_MODE = MANUAL, \
        SECONDARY_ROLE (ALLOW_CONNECTIONS = READ_ONLY, READ_ONLY_ROUTING_URL = 'TCP://b:1433')), \
    'C' WITH (ENDPOINT_URL = 'TCP://c:5022', AVAILABILITY_MODE = ASYNCHRONOUS_COMMIT, FAILOVER_MODE = MANUAL) \
    LISTENER 'sales' (WITH IP (('10.0.0.9', '255.255.255.0')), PORT = 14330)";

fn joined() -> (Server, Arc<Told>, Client) {
    let server = Server::with_setup(&["CREATE DATABASE d; CREATE DATABASE e; CREATE DATABASE f"]);
    let told = Arc::new(Told {
        asked: Mutex::default(),
        meanwhile: Mutex::default(),
        begun: Mutex::default(),
        role: Mutex::new(ReplicaRole::Primary),
        instance: Arc::downgrade(&server.instance),
    });
    server.instance.hadr.join(told.clone());
    let mut admin = server.connect();
    admin.done(CREATE);
    assert_eq!(told.taken(), ["create g of 3"]);
    (server, told, admin)
}

fn group(server: &Server) -> Arc<GroupDef> {
    server.instance.hadr.group("G").expect("there")
}

#[test]
fn a_group_is_stored_and_shown() {
    let (server, _, mut admin) = joined();
    assert_eq!(errors(&admin.run(CREATE)), [35244]);
    assert_eq!(
        errors(&admin.run(&CREATE.replace("DATABASE d", ""))),
        [41042]
    );
    let server = {
        admin.session.close();
        server.restart()
    };
    let mut admin = server.connect();
    let shown = admin.run(
        "SELECT name, failure_condition_level AS l, health_check_timeout AS t, automated_backup_preference_desc AS p, db_failover AS f, cluster_type_desc AS c FROM sys.availability_groups",
    );
    assert!(
        shown.contains("g | 3 | 30000 | SECONDARY | 1 | NONE"),
        "{shown}"
    );
    let shown = admin.run(
        "SELECT replica_server_name AS s, endpoint_url AS u, availability_mode_desc AS m, failover_mode_desc AS f, session_timeout AS t, \
         secondary_role_allow_connections_desc AS c, backup_priority AS b, seeding_mode_desc AS e FROM sys.availability_replicas ORDER BY 1",
    );
    for line in [
        "B | TCP://b:5022 | SYNCHRONOUS_COMMIT | MANUAL | 10 | READ_ONLY | 50 | MANUAL",
        "C | TCP://c:5022 | ASYNCHRONOUS_COMMIT | MANUAL | 10 | NO | 50 | MANUAL",
        "DARUMA | TCP://a:5022 | SYNCHRONOUS_COMMIT | MANUAL | 10 | ALL | 50 | AUTOMATIC",
    ] {
        assert!(shown.contains(line), "{shown}");
    }
    let shown = admin.run("SELECT database_name FROM sys.availability_databases_cluster");
    assert!(shown.contains("\nd\n"), "{shown}");
    let shown = admin.run(
        "SELECT l.dns_name, l.port, a.ip_address, a.ip_subnet_mask AS m FROM sys.availability_group_listeners AS l \
         JOIN sys.availability_group_listener_ip_addresses AS a ON a.listener_id = l.listener_id",
    );
    assert!(
        shown.contains("sales | 14330 | 10.0.0.9 | 255.255.255.0"),
        "{shown}"
    );
    let shown = admin.run(
        "SELECT r.routing_priority AS p, t.replica_server_name AS s FROM sys.availability_read_only_routing_lists AS r \
         JOIN sys.availability_replicas AS t ON t.replica_id = r.read_only_replica_id ORDER BY 1, 2",
    );
    assert!(shown.contains("1 | B\n1 | C\n2 | DARUMA"), "{shown}");
}

#[test]
fn states_of_the_service_are_shown() {
    let (_server, _, mut admin) = joined();
    let shown = admin.run(
        "SELECT is_local AS l, role_desc AS r, operational_state_desc AS o, connected_state_desc AS c, synchronization_health_desc AS h, last_connect_error_number AS e FROM sys.dm_hadr_availability_replica_states ORDER BY 1 DESC",
    );
    for line in [
        "1 | PRIMARY | ONLINE | CONNECTED | HEALTHY | NULL",
        "0 | SECONDARY | NULL | DISCONNECTED | NOT_HEALTHY | 35250",
    ] {
        assert!(shown.contains(line), "{shown}");
    }
    let shown = admin.run(
        "SELECT primary_replica AS p, primary_recovery_health_desc AS r, synchronization_health_desc AS h FROM sys.dm_hadr_availability_group_states",
    );
    assert!(shown.contains("DARUMA | ONLINE | NOT_HEALTHY"), "{shown}");
    let shown = admin.run(
        "SELECT is_primary_replica AS p, synchronization_state_desc AS s, synchronization_health_desc AS h, is_suspended AS u, suspend_reason_desc AS w, \
         last_hardened_lsn AS l, log_send_queue_size AS q, secondary_lag_seconds AS g, log_block_bytes AS b, log_block_sent_bytes AS t FROM sys.dm_hadr_database_replica_states ORDER BY 1 DESC, 3",
    );
    for line in [
        "1 | SYNCHRONIZED | HEALTHY | 0 | NULL | 77 | 4 | 1 | NULL | NULL",
        "0 | SYNCHRONIZING | HEALTHY | 0 | NULL | 77 | 4 | 1",
        "0 | SYNCHRONIZING | PARTIALLY_HEALTHY | 1 | SUSPEND_FROM_USER | 77 | 4 | 1 | 60000 | 9000",
    ] {
        assert!(shown.contains(line), "{shown}");
    }
    let shown = admin.run(
        "SELECT r.replica_server_name AS s, is_failover_ready AS f, is_database_joined AS j FROM sys.dm_hadr_database_replica_cluster_states AS d \
         JOIN sys.availability_replicas AS r ON r.replica_id = d.replica_id ORDER BY 1",
    );
    assert!(
        shown.contains("B | 0 | 1\nC | 0 | 1\nDARUMA | 1 | 1"),
        "{shown}"
    );
    let shown =
        admin.run("SELECT current_state AS s, is_source AS i FROM sys.dm_hadr_automatic_seeding");
    assert!(shown.contains("COMPLETED | 1"), "{shown}");
    let shown = admin.run(
        "SELECT transfer_rate_bytes_per_second AS r, transferred_size_bytes AS t, transferred_wire_bytes AS w, is_compression_enabled AS c \
         FROM sys.dm_hadr_physical_seeding_stats",
    );
    assert!(shown.contains("2000 | 4000 | 1500 | 1"), "{shown}");
    let shown = admin
        .run("SELECT file_id, page_id, error_type, page_status FROM sys.dm_hadr_auto_page_repair");
    assert!(shown.contains("1 | 88 | 1 | 5"), "{shown}");
    let shown = admin.run(
        "SELECT SERVERPROPERTY('IsHadrEnabled') AS e, SERVERPROPERTY('HadrManagerStatus') AS s",
    );
    assert!(shown.contains("1 | 1"), "{shown}");
    let mut ann = {
        admin.done("CREATE LOGIN ann WITH PASSWORD = 'Daruma-2026'");
        _server.connect_as("ann", "master")
    };
    assert!(
        !ann.run("SELECT name FROM sys.availability_groups")
            .contains('g')
    );
    assert_eq!(
        errors(&ann.run("SELECT * FROM sys.dm_hadr_database_replica_states")),
        [300, 297]
    );
}

#[test]
fn the_best_replica_for_backups_is_known() {
    let (_server, told, mut admin) = joined();
    let ask = "SELECT sys.fn_hadr_backup_is_preferred_replica('d') AS b, sys.fn_hadr_backup_is_preferred_replica('e') AS o, \
               sys.fn_hadr_is_primary_replica('d') AS p, sys.fn_hadr_is_primary_replica('e') AS n";
    // B, the only secondary, is not connected, so the primary takes them.
    assert!(admin.run(ask).contains("1 | 1 | 1 | NULL"));
    admin.done("ALTER AVAILABILITY GROUP g SET (AUTOMATED_BACKUP_PREFERENCE = PRIMARY)");
    *told.role.lock().expect("whole") = ReplicaRole::Secondary;
    assert!(admin.run(ask).contains("1 | 1 | 0 | NULL"));
    let shown = admin.run("SELECT CERT_ID('nothing') AS i, CERTENCODED(256) AS e");
    assert!(shown.contains("NULL | NULL"), "{shown}");
}

#[test]
fn changes_reach_the_service_and_the_definition() {
    let (server, told, mut admin) = joined();
    let replica = "WITH (ENDPOINT_URL = 'TCP://x:5022', AVAILABILITY_MODE = ASYNCHRONOUS_COMMIT, FAILOVER_MODE = MANUAL)";
    for (text, expected) in [
        (
            "SET (HEALTH_CHECK_TIMEOUT = 60000)".to_string(),
            "alter [\"options\"]",
        ),
        ("ADD DATABASE e".to_string(), "alter [\"databases\"]"),
        ("REMOVE DATABASE e".to_string(), "alter [\"databases\"]"),
        (
            format!("ADD REPLICA ON 'D' {replica}"),
            "alter [\"replicas\"]",
        ),
        (
            "MODIFY REPLICA ON 'd' WITH (SESSION_TIMEOUT = 2, BACKUP_PRIORITY = 0)".to_string(),
            "alter [\"replicas\"]",
        ),
        ("REMOVE REPLICA ON 'B'".to_string(), "alter [\"replicas\"]"),
        (
            "MODIFY LISTENER 'sales' (PORT = 1433)".to_string(),
            "alter [\"listener\"]",
        ),
        ("RESTART LISTENER 'sales'".to_string(), "RestartListener g"),
        (
            "REMOVE LISTENER 'sales'".to_string(),
            "alter [\"listener\"]",
        ),
        (
            "ADD LISTENER 'l' (WITH IP (('::1')))".to_string(),
            "alter [\"listener\"]",
        ),
        ("FAILOVER".to_string(), "Failover g"),
        (
            "FORCE_FAILOVER_ALLOW_DATA_LOSS".to_string(),
            "ForceFailover g",
        ),
        ("SET (ROLE = SECONDARY)".to_string(), "BecomeSecondary g"),
        ("OFFLINE".to_string(), "Offline g"),
    ] {
        admin.done(&format!("ALTER AVAILABILITY GROUP g {text}"));
        assert_eq!(told.taken(), [expected], "{text}");
    }
    let group = group(&server);
    assert_eq!(group.options.health_check_timeout_ms, 60_000);
    let d = group.replica("D").expect("there");
    assert_eq!((d.session_timeout_s, d.backup_priority), (5, 0));
    let own = group.replica("daruma").expect("there");
    assert_eq!(
        own.read_only_routing,
        [vec!["C"], vec!["DARUMA"]],
        "B is gone"
    );
    assert!(!group.creates_databases);
    admin.done("ALTER AVAILABILITY GROUP g GRANT CREATE ANY DATABASE");
    assert!(self::group(&server).creates_databases);
    admin.done("DROP AVAILABILITY GROUP g");
    assert_eq!(told.taken(), ["drop g"]);
    assert!(server.instance.hadr.group("g").is_none());
}

#[test]
fn what_does_not_fit_changes_nothing() {
    let (server, told, mut admin) = joined();
    let replica = "WITH (ENDPOINT_URL = 'TCP://x:5022', AVAILABILITY_MODE = ASYNCHRONOUS_COMMIT, FAILOVER_MODE = MANUAL)";
    let many: Vec<String> = (0..7).map(|n| format!("'r{n}' {replica}")).collect();
    let before = group(&server);
    for (text, expected) in [
        ("ADD DATABASE d".to_string(), 35280),
        ("REMOVE DATABASE e".to_string(), 35281),
        ("ADD DATABASE nothing".to_string(), 35238),
        ("ADD DATABASE tempdb".to_string(), 35249),
        (format!("ADD REPLICA ON 'b' {replica}"), 35282),
        (format!("ADD REPLICA ON {}", many.join(", ")), 35223),
        ("REMOVE REPLICA ON 'x'".to_string(), 35283),
        ("REMOVE REPLICA ON 'daruma'".to_string(), 35284),
        (
            "MODIFY REPLICA ON 'x' WITH (SESSION_TIMEOUT = 20)".to_string(),
            15151,
        ),
        (
            "MODIFY REPLICA ON 'B' WITH (FAILOVER_MODE = AUTOMATIC)".to_string(),
            40517,
        ),
        (
            "MODIFY REPLICA ON 'B' WITH (BACKUP_PRIORITY = 101)".to_string(),
            155,
        ),
        ("SET (CLUSTER_TYPE = EXTERNAL)".to_string(), 155),
        ("ADD LISTENER 'l' (PORT = 1433)".to_string(), 40517),
        ("REMOVE LISTENER 'l'".to_string(), 15151),
        ("RESTART LISTENER 'l'".to_string(), 15151),
        ("JOIN".to_string(), 41042),
    ] {
        let out = admin.run(&format!("ALTER AVAILABILITY GROUP g {text}"));
        assert_eq!(errors(&out), [expected], "{text}: {out}");
    }
    *told.role.lock().expect("whole") = ReplicaRole::Secondary;
    let out = admin.run("ALTER AVAILABILITY GROUP g ADD DATABASE e");
    assert_eq!(errors(&out), [35251]);
    assert_eq!(told.taken(), [""; 0]);
    assert_eq!(group(&server), before);
    let create = CREATE
        .replace("GROUP g", "GROUP big")
        .replace("DATABASE d", "");
    let create = create.replace("LISTENER", &format!(", {} LISTENER", many.join(", ")));
    assert_eq!(errors(&admin.run(&create)), [35233]);
}

/// CLUSTER_TYPE = EXTERNAL: who promotes says that it is the manager.
#[test]
fn a_manager_outside_says_that_it_is_one() {
    let (_server, told, mut admin) = joined();
    let bare = "WITH (ENDPOINT_URL = 'TCP://x:5022', AVAILABILITY_MODE = CONFIGURATION_ONLY)";
    let create = |mode: &str| {
        format!(
            "CREATE AVAILABILITY GROUP x WITH (CLUSTER_TYPE = EXTERNAL) FOR REPLICA ON 'DARUMA' WITH
                (ENDPOINT_URL = 'TCP://a:5022', AVAILABILITY_MODE = SYNCHRONOUS_COMMIT, FAILOVER_MODE = {mode}), 'x' {bare}"
        )
    };
    assert_eq!(errors(&admin.run(&create("MANUAL"))), [40517]);
    // A lease is for managers outside, and they have none here.
    for (kind, number) in [("NONE", 47116), ("EXTERNAL", 40517)] {
        let lease = format!("(WRITE_LEASE_VALIDITY = 20, CLUSTER_TYPE = {kind})");
        let text = create("EXTERNAL").replace("(CLUSTER_TYPE = EXTERNAL)", &lease);
        assert_eq!(errors(&admin.run(&text)), [number], "{kind}");
    }
    admin.done(&create("EXTERNAL"));
    let modes = admin.run(
        "SELECT g.cluster_type_desc, r.availability_mode, r.failover_mode_desc FROM sys.availability_groups g
         JOIN sys.availability_replicas r ON r.group_id = g.group_id WHERE g.name = 'x' ORDER BY r.replica_server_name",
    );
    let shown = modes.lines().filter(|line| line.starts_with("EXTERNAL"));
    assert_eq!(
        shown.collect::<Vec<_>>(),
        ["EXTERNAL | 1 | EXTERNAL", "EXTERNAL | 4 | EXTERNAL"],
        "{modes}"
    );
    let lease = admin.run("ALTER AVAILABILITY GROUP x SET (WRITE_LEASE_VALIDITY = 20)");
    assert_eq!(errors(&lease), [40517]);
    told.taken();
    for act in ["FAILOVER", "FORCE_FAILOVER_ALLOW_DATA_LOSS"] {
        let out = admin.run(&format!("ALTER AVAILABILITY GROUP x {act}"));
        assert_eq!(errors(&out), [47104], "{out}");
    }
    admin.done("EXEC sp_set_session_context @key = N'external_cluster', @value = N'no'");
    let out = admin.run("ALTER AVAILABILITY GROUP x FAILOVER");
    assert_eq!(errors(&out), [47104]);
    assert_eq!(told.taken(), [""; 0]);
    admin.done(
        "EXEC sp_set_session_context @key = N'external_cluster', @value = N'yes'
         ALTER AVAILABILITY GROUP x FAILOVER",
    );
    admin.done("ALTER AVAILABILITY GROUP x SET (ROLE = SECONDARY)");
    admin.done("ALTER AVAILABILITY GROUP x OFFLINE");
    assert_eq!(
        told.taken(),
        ["Failover x", "BecomeSecondary x", "Offline x"]
    );
}

/// CONFIGURATION_ONLY is refused where it is set anew and makes no sense; what an earlier build took can be changed in other ways, and ended.
#[test]
fn a_replica_without_data_is_one_from_the_beginning() {
    let (_server, _, mut admin) = joined();
    let bare = "WITH (ENDPOINT_URL = 'TCP://x:5022', AVAILABILITY_MODE = CONFIGURATION_ONLY)";
    let modify = |group: &str, server: &str, option: &str| {
        format!("ALTER AVAILABILITY GROUP {group} MODIFY REPLICA ON '{server}' WITH ({option})")
    };
    let without = "AVAILABILITY_MODE = CONFIGURATION_ONLY";
    // CLUSTER_TYPE = NONE
    admin.done(&format!(
        "ALTER AVAILABILITY GROUP g ADD REPLICA ON 'x' {bare}"
    ));
    admin.done(&modify("g", "x", "SESSION_TIMEOUT = 20"));
    admin.done(&modify("g", "x", "AVAILABILITY_MODE = ASYNCHRONOUS_COMMIT"));
    admin.done(&modify("g", "x", without));
    let own = admin.run(&modify("g", "DARUMA", without));
    assert_eq!(errors(&own), [40517], "{own}");
    // CLUSTER_TYPE = EXTERNAL
    let create = |own: &str| {
        format!(
            "CREATE AVAILABILITY GROUP x WITH (CLUSTER_TYPE = EXTERNAL) FOR REPLICA ON 'DARUMA' WITH
                (ENDPOINT_URL = 'TCP://a:5022', AVAILABILITY_MODE = {own}, FAILOVER_MODE = EXTERNAL), 'x' {bare}"
        )
    };
    assert_eq!(errors(&admin.run(&create("CONFIGURATION_ONLY"))), [40517]);
    admin.done(&create("SYNCHRONOUS_COMMIT"));
    admin.done(&modify("x", "x", "SESSION_TIMEOUT = 20"));
    for (server, option) in [
        ("x", "AVAILABILITY_MODE = SYNCHRONOUS_COMMIT"),
        ("DARUMA", without),
    ] {
        let out = admin.run(&modify("x", server, option));
        assert_eq!(errors(&out), [40517], "{server}: {out}");
    }
    // CLUSTER_TYPE = WSFC
    let create = create("SYNCHRONOUS_COMMIT")
        .replace("GROUP x", "GROUP w")
        .replace("= EXTERNAL)", "= WSFC)")
        .replace("WSFC), 'x'", "MANUAL), 'x'");
    let out = admin.run(&create);
    assert_eq!(errors(&out), [40517], "{out}");
}

#[test]
fn databases_join_leave_and_rest() {
    let (server, told, mut admin) = joined();
    let hadr = |what: &str| format!("ALTER DATABASE d SET HADR {what}");
    assert_eq!(errors(&admin.run(&hadr("OFF"))), [35240, 5069]);
    assert_eq!(
        errors(&admin.run(&hadr("AVAILABILITY GROUP = g"))),
        [35240, 5069]
    );
    admin.done(&hadr("SUSPEND"));
    admin.done(&hadr("RESUME"));
    assert_eq!(told.taken(), ["Suspend d of g", "Resume d of g"]);
    *told.role.lock().expect("whole") = ReplicaRole::Secondary;
    admin.done(&hadr("OFF"));
    assert_eq!(errors(&admin.run(&hadr("RESUME"))), [35242, 5069]);
    admin.done(&hadr("AVAILABILITY GROUP = g"));
    assert_eq!(told.taken(), ["Leave d of g", "Join d of g"]);
    assert!(group(&server).database("d").expect("there").is_joined);
    assert_eq!(
        errors(&admin.run("ALTER DATABASE e SET HADR AVAILABILITY GROUP = h")),
        [15151, 5069]
    );
    admin.done("ALTER AVAILABILITY GROUP h JOIN WITH (CLUSTER_TYPE = NONE)");
    assert_eq!(told.taken(), ["join h None"]);
    assert_eq!(
        errors(&admin.run("ALTER DATABASE d SET HADR AVAILABILITY GROUP = h")),
        [35244, 5069]
    );
}

#[test]
fn a_database_of_a_group_stays_as_its_group_needs_it() {
    let (_server, _, mut admin) = joined();
    for text in [
        "ALTER DATABASE d SET RECOVERY SIMPLE",
        "ALTER DATABASE d SET READ_ONLY",
        "ALTER DATABASE d SET OFFLINE",
        "ALTER DATABASE d MODIFY NAME = x",
    ] {
        assert_eq!(errors(&admin.run(text)), [1468, 5069], "{text}");
    }
    assert_eq!(errors(&admin.run("DROP DATABASE d")), [3752]);
    admin.done("ALTER AVAILABILITY GROUP g REMOVE DATABASE d; DROP DATABASE d");
}

#[test]
fn sessions_see_a_role_at_once() {
    let (server, _, mut admin) = joined();
    admin.done("USE d; CREATE TABLE dbo.t (id int); INSERT dbo.t VALUES (1); USE master");
    let entry = server.instance.database_named("d").expect("there");
    let login = |read_only_intent: bool| LoginInfo {
        login: "sa".to_string(),
        database: "d".to_string(),
        read_only_intent,
        ..LoginInfo::default()
    };
    let login = |intent: bool| Session::new(&server.instance, login(intent)).map(Session::close);
    let numbers = |e: daruma_tsql::error::SqlError| {
        let next = e.next.map(|n| n.number);
        (e.number, next)
    };
    let entry_is = |availability| server.instance.set_availability(&entry, availability);
    // Readers are sent to the first of the list that is there, and be it the primary.
    entry_is(Availability::PrimaryForWriters);
    let reader = LoginInfo {
        login: "sa".to_string(),
        database: "d".to_string(),
        read_only_intent: true,
        ..LoginInfo::default()
    };
    let session = Session::new(&server.instance, reader).expect("is let in");
    assert_eq!(
        session.route().map(|r| (r.host.as_str(), r.port)),
        Some(("a", 1_433))
    );
    session.close();
    admin.done("ALTER AVAILABILITY GROUP g MODIFY REPLICA ON 'DARUMA' WITH (PRIMARY_ROLE (READ_ONLY_ROUTING_LIST = NONE))");
    use Availability::*;
    for (availability, select, writer, reader) in [
        (Primary, None, None, None),
        (PrimaryForWriters, None, None, Some((979, Some(4060)))),
        (Readable, None, None, None),
        (ReadableWithIntent, Some(978), Some((978, Some(4060))), None),
        (
            Closed,
            Some(976),
            Some((976, Some(4060))),
            Some((976, Some(4060))),
        ),
        (
            Resolving,
            Some(983),
            Some((983, Some(4060))),
            Some((983, Some(4060))),
        ),
    ] {
        server.instance.set_availability(&entry, availability);
        for text in ["USE d", "SELECT id FROM d.dbo.t"] {
            let found = errors(&admin.run(text));
            assert_eq!(found.first().copied(), select, "{availability:?} {text}");
        }
        admin.run("USE master");
        assert_eq!(login(false).err().map(numbers), writer, "{availability:?}");
        assert_eq!(login(true).err().map(numbers), reader, "{availability:?}");
    }
    server.instance.set_availability(&entry, Readable);
    for text in [
        "INSERT d.dbo.t VALUES (2)",
        "UPDATE d.dbo.t SET id = 3",
        "DELETE d.dbo.t",
        "USE d; CREATE TABLE dbo.u (id int)",
        "USE d; TRUNCATE TABLE dbo.t",
        "USE d; CREATE ROLE r",
    ] {
        assert_eq!(errors(&admin.run(text)), [3906], "{text}");
    }
    server.instance.set_availability(&entry, Primary);
    // Whoever was in the database under the other role is gone.
    server.connect().done("INSERT d.dbo.t VALUES (2)");
}

/// A login `peer` of a certificate, and an endpoint `e`.
fn with_peer() -> (Server, Arc<Told>, Client) {
    let (server, told, mut admin) = joined();
    admin.done("CREATE MASTER KEY ENCRYPTION BY PASSWORD = 'Daruma-2026'; CREATE CERTIFICATE own WITH SUBJECT = 'own'");
    let other = Server::with_setup(&[
        "CREATE MASTER KEY ENCRYPTION BY PASSWORD = 'Daruma-2026'; CREATE CERTIFICATE own WITH SUBJECT = 'other'",
    ]);
    let der = &other.instance.hadr.certificate("own").expect("there").der;
    let digits: String = der.iter().map(|b| format!("{b:02X}")).collect();
    admin.done(&format!(
        "CREATE CERTIFICATE peer FROM BINARY = 0x{digits}; CREATE LOGIN peer FROM CERTIFICATE peer; \
         CREATE ENDPOINT e STATE = STARTED AS TCP (LISTENER_PORT = 5022) FOR DATABASE_MIRRORING (AUTHENTICATION = CERTIFICATE own, ROLE = ALL)"
    ));
    assert_eq!(told.taken(), ["endpoint e Started port 5022 peers 0"]);
    (server, told, admin)
}

/// The service opened the key before, and lets in whom it knows.
#[test]
fn an_endpoint_whose_key_does_not_open_any_more_knows_its_peers_all_the_same() {
    let (_server, told, mut admin) = with_peer();
    admin.done("GRANT CONNECT ON ENDPOINT::e TO peer; ALTER MASTER KEY DROP ENCRYPTION BY SERVICE MASTER KEY");
    told.taken();
    for (text, expected) in [
        ("REVOKE CONNECT ON ENDPOINT::e FROM peer", "peers 0"),
        ("GRANT CONNECT ON ENDPOINT::e TO peer", "peers 1"),
        ("DROP LOGIN peer", "peers 0"),
    ] {
        admin.done(text);
        assert_eq!(told.taken(), [expected], "{text}");
    }
}

/// Wherever the power fails in the middle: their numbers are given out again.
#[test]
fn nobody_has_permissions_on_what_is_gone() {
    const STATES: &str = "SELECT CONCAT(
        (SELECT COUNT(*) FROM sys.endpoints WHERE name = 'e'), (SELECT COUNT(*) FROM sys.server_permissions WHERE class = 105 AND major_id > 65535), ' ',
        (SELECT COUNT(*) FROM sys.availability_groups), (SELECT COUNT(*) FROM sys.server_permissions WHERE class = 108))";
    let (server, _told, mut admin) = with_peer();
    admin.done(CLERK);
    admin.done(
        "GRANT CONNECT ON ENDPOINT::e TO peer; GRANT ALTER ON AVAILABILITY GROUP::g TO clerk",
    );
    server.disk.take_images(1, 1);
    admin.done("DROP ENDPOINT e; DROP AVAILABILITY GROUP g");
    server.disk.take_images(0, 1);
    assert_eq!(admin.scalar(STATES), "00 00");
    let mut seen = Vec::new();
    for (n, image) in (0..).zip(server.disk.images()) {
        let disk = image.into_disk(n);
        disk.crash();
        let state = Server::over(disk).connect().scalar(STATES);
        if !seen.contains(&state) {
            seen.push(state);
        }
    }
    let possible = ["11 11", "10 11", "00 11", "00 10", "00 00"];
    assert!(
        seen.iter().all(|s| possible.contains(&s.as_str())),
        "{seen:?}"
    );
    assert!(seen.contains(&"10 11".to_string()), "{seen:?}");
    assert!(seen.contains(&"00 10".to_string()), "{seen:?}");
}

#[test]
fn an_endpoint_tells_its_peers() {
    let (server, told, mut admin) = with_peer();
    for (text, expected) in [
        (
            "GRANT CONNECT ON ENDPOINT::e TO peer",
            "endpoint e Started port 5022 peers 1",
        ),
        (
            "ALTER LOGIN peer DISABLE",
            "endpoint e Started port 5022 peers 0",
        ),
        (
            "ALTER LOGIN peer ENABLE",
            "endpoint e Started port 5022 peers 1",
        ),
        (
            "DENY CONNECT ON ENDPOINT::e TO peer",
            "endpoint e Started port 5022 peers 0",
        ),
        (
            "GRANT CONNECT ON ENDPOINT::e TO peer",
            "endpoint e Started port 5022 peers 1",
        ),
        (
            "ALTER ENDPOINT e STATE = STOPPED",
            "endpoint e Stopped port 5022 peers 1",
        ),
        ("DROP LOGIN peer", "endpoint e Stopped port 5022 peers 0"),
        ("DROP ENDPOINT e", "no endpoint"),
    ] {
        admin.done(text);
        assert_eq!(told.taken(), [expected], "{text}");
    }
    let identity = |server: &Server| {
        let endpoint = EndpointDef {
            certificate_id: server.instance.hadr.certificate("own").expect("there").id,
            ..endpoint_def()
        };
        server.instance.endpoint_identity(&endpoint)
    };
    assert!(!identity(&server).expect("opens").private_key.is_empty());
    // What is encrypted by a password opens for no service.
    admin.done("ALTER CERTIFICATE own WITH PRIVATE KEY (ENCRYPTION BY PASSWORD = 'Daruma-2026')");
    assert_eq!(identity(&server).err().map(|e| e.number), Some(15556));
}

#[test]
fn a_certificate_is_not_dropped_under_the_statement_that_begins_to_use_it() {
    let (server, told, mut admin) = joined();
    admin.done("CREATE MASTER KEY ENCRYPTION BY PASSWORD = 'Daruma-2026'; CREATE CERTIFICATE a WITH SUBJECT = 'a'; CREATE CERTIFICATE b WITH SUBJECT = 'b'");
    let dropped = |name: &str, use_it: &str, admin: &mut Client| {
        let text = format!("DROP CERTIFICATE {name}");
        *told.meanwhile.lock().expect("whole") = Some(text);
        admin.done(use_it);
        let begun = told.begun.lock().expect("whole").pop().expect("begun");
        begun.join().expect("ends")
    };
    let seen = dropped(
        "a",
        "CREATE ENDPOINT e STATE = STARTED AS TCP (LISTENER_PORT = 5022) FOR DATABASE_MIRRORING (AUTHENTICATION = CERTIFICATE a, ROLE = ALL)",
        &mut admin,
    );
    assert!(seen.starts_with("Msg 15352"), "{seen}");
    let seen = dropped(
        "b",
        "ALTER ENDPOINT e FOR DATABASE_MIRRORING (AUTHENTICATION = CERTIFICATE b)",
        &mut admin,
    );
    assert!(seen.starts_with("Msg 15352"), "{seen}");
    let endpoint = server.instance.hadr.endpoint("e").expect("there");
    assert!(server.instance.endpoint_identity(&endpoint).is_ok());
}

const ENDPOINT: &str = "CREATE MASTER KEY ENCRYPTION BY PASSWORD = 'Daruma-2026'; CREATE CERTIFICATE a WITH SUBJECT = 'a'; \
    CREATE CERTIFICATE b WITH SUBJECT = 'b'; CREATE ENDPOINT e STATE = STARTED AS TCP (LISTENER_PORT = 5022) \
    FOR DATABASE_MIRRORING (AUTHENTICATION = CERTIFICATE a, ROLE = ALL)";
const CLERK: &str = "CREATE LOGIN clerk WITH PASSWORD = 'Daruma-2026', CHECK_POLICY = OFF";

/// A drop that waited for somebody who changed logins looks again at what it may.
#[test]
fn what_is_dropped_is_looked_at_again_after_a_wait() {
    let (server, _, mut admin) = joined();
    admin.done(ENDPOINT);
    admin.done(CLERK);
    for (text, right) in [
        ("DROP ENDPOINT e", "ALTER ANY ENDPOINT"),
        ("DROP AVAILABILITY GROUP g", "ALTER ANY AVAILABILITY GROUP"),
        ("DROP CERTIFICATE b", "CONTROL SERVER"),
    ] {
        admin.done(&format!("GRANT {right} TO clerk"));
        admin.done(&format!("BEGIN TRANSACTION; REVOKE {right} FROM clerk"));
        let clerk = server.connect_as("clerk", "master");
        let (_, out) = run_until(&server, clerk, text, || admin.done("COMMIT"));
        assert_eq!(errors(&out), [15151], "{text}: {out}");
    }
    let hadr = &server.instance.hadr;
    assert!(hadr.endpoint("e").is_some() && hadr.group("g").is_some());
    assert!(hadr.certificate("b").is_some());
}

/// Permissions on a group are gone before it is, nobody gets new ones, and nobody waits for logins until it has ended.
#[test]
fn a_group_that_ends_holds_up_no_logins() {
    let (_server, told, mut admin) = joined();
    admin.done(CLERK);
    admin.done("GRANT ALTER ON AVAILABILITY GROUP::g TO clerk; CREATE TABLE d.dbo.t (i int)");
    let meanwhile = |what: &str| {
        let late =
            "CREATE LOGIN late WITH PASSWORD = 'Daruma-2026', CHECK_POLICY = OFF; DROP LOGIN late";
        let count = "SELECT COUNT(*) AS left_over FROM sys.server_permissions WHERE permission_name = 'ALTER'";
        let text = format!("SET LOCK_TIMEOUT 0; {late}; {count}; GRANT ALTER ON {what} TO clerk");
        *told.meanwhile.lock().expect("whole") = Some(text);
    };
    let seen = || {
        let begun = told.begun.lock().expect("whole").pop().expect("begun");
        begun.join().expect("ends")
    };
    // Nor does a statement around it, which commits later.
    let out = admin.run("INSERT d.dbo.t EXEC ('DROP AVAILABILITY GROUP g')");
    assert_eq!(errors(&out), [226], "{out}");
    meanwhile("AVAILABILITY GROUP::g");
    admin.done("DROP AVAILABILITY GROUP g");
    let out = seen();
    assert_eq!(errors(&out), [15151], "{out}");
    assert!(out.contains("left_over\n0\n"), "{out}");
    admin.done(ENDPOINT);
    meanwhile("ENDPOINT::e");
    admin.done("DROP ENDPOINT e");
    let out = seen();
    assert_eq!(errors(&out), [15151], "{out}");
    assert_eq!(told.taken().last().map(String::as_str), Some("no endpoint"));
}

fn endpoint_def() -> EndpointDef {
    EndpointDef {
        id: 65_536,
        name: "e".to_string(),
        owner: 1,
        state: daruma_catalog::EndpointState::Started,
        port: 5_022,
        address: None,
        role: daruma_catalog::EndpointRole::All,
        certificate_id: 0,
    }
}

#[test]
fn readers_are_sent_to_the_first_that_can_be_read() {
    let (server, ..) = joined();
    let group = group(&server);
    let id = |name: &str| group.replica(name).expect("there").replica_id;
    let to = |turn, ready: &[&str]| {
        let ready: Vec<[u8; 16]> = ready.iter().map(|name| id(name)).collect();
        route(&group, "DARUMA", turn, |r| ready.contains(&r)).map(|r| r.host)
    };
    assert_eq!(to(0, &["B", "C"]).as_deref(), Some("b"));
    // C may not be read, so its turn is B's.
    assert_eq!(to(1, &["B", "C"]).as_deref(), Some("b"));
    assert_eq!(to(0, &["DARUMA"]).as_deref(), Some("a"));
    assert_eq!(to(0, &[]), None);
    assert_eq!(route(&group, "B", 0, |_| true), None, "it has no list");
}

#[test]
fn sessions_in_a_database_end_when_its_role_changes() {
    let (server, _, mut admin) = joined();
    let entry = server.instance.database_named("d").expect("there");
    server
        .instance
        .set_availability(&entry, Availability::Primary);
    let mut inside = server.connect_to("d");
    inside.done("BEGIN TRAN; CREATE TABLE dbo.t (id int)");
    server
        .instance
        .set_availability(&entry, Availability::Readable);
    inside.run("SELECT 1 AS one");
    assert_eq!(inside.ended, daruma_tsql::session::RequestEnd::Disconnect);
    admin.done("SELECT 1 AS one");
}

/// A master key that came from another server opens by its password.
#[test]
fn a_master_key_without_its_service_key_opens_by_password() {
    let server = Server::with_setup(&[
        "CREATE MASTER KEY ENCRYPTION BY PASSWORD = 'Daruma-2026'; CREATE CERTIFICATE own WITH SUBJECT = 'own'; \
         ALTER MASTER KEY ADD ENCRYPTION BY PASSWORD = 'Daruma-2027'",
    ]);
    let mut admin = server.connect();
    admin.done("ALTER MASTER KEY DROP ENCRYPTION BY PASSWORD = 'Daruma-2026'");
    assert_eq!(
        errors(&admin.run("ALTER MASTER KEY DROP ENCRYPTION BY PASSWORD = 'Daruma-2027'")),
        [15313]
    );
    admin.done("ALTER MASTER KEY DROP ENCRYPTION BY SERVICE MASTER KEY");
    let backup = |n: u32| {
        format!(
            "BACKUP CERTIFICATE own TO FILE = '/{n}.cer' WITH PRIVATE KEY (FILE = '/{n}.key', ENCRYPTION BY PASSWORD = 'Daruma-2026')"
        )
    };
    assert_eq!(errors(&admin.run(&backup(1))), [15581]);
    assert_eq!(
        errors(&admin.run("OPEN MASTER KEY DECRYPTION BY PASSWORD = 'Daruma-2026'")),
        [15313]
    );
    admin.done("OPEN MASTER KEY DECRYPTION BY PASSWORD = 'Daruma-2027'");
    admin.done(&backup(2));
    assert_eq!(
        errors(&server.connect().run(&backup(3))),
        [15581],
        "for one session"
    );
    admin.done("ALTER MASTER KEY ADD ENCRYPTION BY SERVICE MASTER KEY; CLOSE MASTER KEY");
    admin.done(&backup(4));
    assert_eq!(
        errors(
            &admin.run("ALTER MASTER KEY REGENERATE WITH ENCRYPTION BY PASSWORD = 'Daruma-2028'")
        ),
        [40517]
    );
}
