//! A change of an availability group that a kill cuts short, before each write of it: the server starts again, and the database works.

use daruma_base::{Disk, OpenMode};
use daruma_server::LogCompression;
use daruma_server::hadr::Availability;
use daruma_server::password::Argon2Hasher;
use daruma_sim::SimDisk;
use daruma_tsql::instance::{Instance, InstanceOptions, LoginInfo};
use daruma_tsql::session::Session;
use daruma_tsql::sink::Discard;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What is waited for comes long before.
const LONG: Duration = Duration::from_secs(300);
const POLL: Duration = Duration::from_millis(5);

struct Server {
    disk: Arc<SimDisk>,
    instance: Arc<Instance>,
    availability: Availability,
}

impl Server {
    fn start(disk: Arc<SimDisk>, seed: u64) -> Server {
        let options = InstanceOptions {
            work_memory_bytes: None,
            server_name: "ALFA".into(),
            buffer_pool_pages: 1024,
            password_hasher: Arc::new(Argon2Hasher::new([0; 32])),
            host_description: "test".into(),
        };
        let env = daruma_sim::env(&disk, seed);
        let instance = Instance::begin(env, Path::new("/data"), options).expect("starts");
        let availability = Availability::start(&instance, None, LogCompression::default());
        while instance.recover_next() {}
        Server {
            disk,
            instance,
            availability,
        }
    }

    fn run(&self, text: &str) -> Discard {
        let login = LoginInfo {
            login: "sa".into(),
            ansi_defaults: true,
            ..LoginInfo::default()
        };
        let mut seen = Discard::default();
        let mut session = Session::new(&self.instance, login).expect("logs in");
        session.execute_batch(text, &mut seen);
        session.close();
        seen
    }

    fn done(&self, text: &str) {
        let error = self.run(text).first_error;
        assert!(error.is_none(), "{text}: {error:?}");
    }

    /// Runs it until it gives a row.
    fn wait_for_row(&self, text: &str, told: &str) {
        let until = Instant::now() + LONG;
        loop {
            let seen = self.run(text);
            if seen.rows > 0 && seen.first_error.is_none() {
                return;
            }
            assert!(
                Instant::now() < until,
                "{told}: {text} gives {} rows and {:?}",
                seen.rows,
                seen.first_error
            );
            std::thread::sleep(POLL);
        }
    }
}

const LEADS: &str =
    "SELECT role FROM sys.dm_hadr_availability_replica_states WHERE is_local = 1 AND role = 1";
const READ: &str = "SELECT id FROM d.dbo.t";

/// A server with database `d`, and group `g`, whose other replica is not there.
fn server(databases: &str) -> Server {
    let server = Server::start(SimDisk::new(1), 1);
    for text in [
        "CREATE DATABASE d; ALTER DATABASE d SET RECOVERY FULL",
        "CREATE TABLE d.dbo.t (id int PRIMARY KEY); INSERT d.dbo.t VALUES (1)",
    ] {
        server.done(text);
    }
    let replica = "WITH (ENDPOINT_URL = 'TCP://127.0.0.1:1', AVAILABILITY_MODE = SYNCHRONOUS_COMMIT, FAILOVER_MODE = MANUAL)";
    server.done(&format!(
        "CREATE AVAILABILITY GROUP g WITH (CLUSTER_TYPE = NONE) {databases} REPLICA ON 'ALFA' {replica}, 'BRAVO' {replica}"
    ));
    server.wait_for_row(LEADS, "at the beginning");
    server
}

/// The server is killed before each write of the statement.
fn cut_short(databases: &str, statement: &str) {
    let server = server(databases);
    server.disk.take_images(1, 1);
    server.done(statement);
    server.disk.take_images(0, 0);
    let images = server.disk.images();
    server.availability.stop();
    assert!(images.len() >= 2, "{} writes are no test", images.len());
    for image in images {
        let call = image.call;
        let told = format!("killed before call {call}");
        let disk = image.into_disk(call);
        disk.restart();
        let server = Server::start(disk, 2);
        server.wait_for_row(READ, &told);
        server.wait_for_row("INSERT d.dbo.t OUTPUT inserted.id VALUES (2)", &told);
        // It has been done or not; done once more, it has been.
        let _ = server.run(statement);
        server.wait_for_row(READ, &told);
        server.availability.stop();
    }
}

#[test]
fn a_database_that_is_removed_works_whenever_that_is_cut_short() {
    cut_short(
        "FOR DATABASE d",
        "ALTER AVAILABILITY GROUP g REMOVE DATABASE d",
    );
}

#[test]
fn a_database_that_is_added_works_whenever_that_is_cut_short() {
    cut_short("", "ALTER AVAILABILITY GROUP g ADD DATABASE d");
}

#[test]
fn a_database_of_a_group_that_is_dropped_works_whenever_that_is_cut_short() {
    cut_short("FOR DATABASE d", "DROP AVAILABILITY GROUP g");
}

/// A server that is a secondary, with database `d` in a group whose other replica is not there, and this in the group's file as the databases
/// whose pages come. Its disk and the path of that file.
fn reverting(mark: impl Fn(&str) -> String) -> (Arc<SimDisk>, PathBuf) {
    let server = server("FOR DATABASE d");
    server.done("ALTER AVAILABILITY GROUP g SET (ROLE = SECONDARY)");
    server.availability.stop();
    let disk = server.disk.clone();
    drop(server);
    disk.restart();
    let of = |end: &str| {
        let names = names(&disk);
        let mut found = names.iter().filter_map(|n| n.strip_suffix(end));
        found.next().expect("a file").to_string()
    };
    let path = Path::new(FOLDER).join(format!("{}.group", of(".group")));
    let text = String::from_utf8(disk.content_of(&path).expect("content")).expect("JSON");
    let marked = text.replace(
        r#""reverting":[]"#,
        &format!(r#""reverting":[{}]"#, mark(&of(".standing"))),
    );
    assert_ne!(marked, text, "{text}");
    disk.remove(&path).expect("goes");
    let file = disk.open(&path, OpenMode::CreateNew).expect("comes");
    file.write_at(marked.as_bytes(), 0).expect("written");
    file.sync_data().expect("synced");
    disk.sync_dir(Path::new(FOLDER)).expect("synced");
    (disk, path)
}

const FOLDER: &str = "/data/hadr";

/// Of what the server keeps of its groups.
fn names(disk: &SimDisk) -> Vec<String> {
    let files = disk.list(Path::new(FOLDER)).expect("its files");
    let name = |path: &PathBuf| path.file_name().map(|n| n.to_string_lossy().into_owned());
    files.iter().filter_map(name).collect()
}

/// An id as the group's file has it.
fn listed(hex: &str) -> String {
    let bytes = (0..16).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16));
    let bytes: Vec<String> = bytes.map(|b| b.expect("digits").to_string()).collect();
    format!("[{}]", bytes.join(","))
}

/// Whatever a crash has left of it.
#[test]
fn a_mark_of_a_database_that_has_left_keeps_nobody_from_leading() {
    let (disk, _) = reverting(|_| listed(&"09".repeat(16)));
    let server = Server::start(disk, 2);
    server.done("ALTER AVAILABILITY GROUP g FORCE_FAILOVER_ALLOW_DATA_LOSS");
    server.wait_for_row(LEADS, "forced");
    server.wait_for_row(READ, "forced");
    server.availability.stop();
}

/// Without its standing, whose promises count, no copy could follow: pages would come again and again.
#[test]
fn a_database_that_leaves_while_its_pages_come_keeps_no_mark_without_its_standing() {
    let (disk, path) = reverting(listed);
    let server = Server::start(disk, 2);
    let state = "SELECT 1 FROM sys.dm_hadr_database_replica_states WHERE synchronization_state_desc = 'REVERTING'";
    server.wait_for_row(state, "started");
    server.disk.take_images(1, 1);
    server.done("ALTER DATABASE d SET HADR OFF");
    server.disk.take_images(0, 0);
    let images = server.disk.images();
    server.availability.stop();
    let mut marked = 0;
    for image in images {
        let call = image.call;
        let disk = image.into_disk(call);
        disk.restart();
        let text = String::from_utf8(disk.content_of(&path).expect("content")).expect("JSON");
        let is_marked = !text.contains(r#""reverting":[]"#);
        let stands = names(&disk).iter().any(|n| n.ends_with(".standing"));
        assert!(stands || !is_marked, "killed before call {call}");
        marked += u32::from(is_marked);
    }
    assert!(marked > 0);
}

/// Halves of a kilobyte of log that are in use.
fn log_in_use(server: &Server, told: &str) -> u64 {
    let text = "USE d; SELECT value FROM GENERATE_SERIES(1, (SELECT CAST(used_log_space_in_bytes / 512 AS int) FROM sys.dm_db_log_space_usage))";
    server.wait_for_row(text, told);
    server.run(text).rows
}

/// A primary begins an epoch of its log at each start: no more than some sectors, and a backup of the log gives them back.
#[test]
fn a_primary_takes_little_log_for_each_start() {
    const STARTS: u64 = 12;
    const SECTORS_MAX: u64 = 64;
    let mut server = server("FOR DATABASE d");
    server.done("BACKUP DATABASE d TO DISK = '/d.bak'");
    server.done("BACKUP LOG d TO DISK = '/d0.trn'");
    let mut used = vec![log_in_use(&server, "before")];
    for start in 0..STARTS {
        server.availability.stop();
        let disk = server.disk.clone();
        drop(server);
        disk.restart();
        server = Server::start(disk, 2 + start);
        server.wait_for_row(READ, "started again");
        used.push(log_in_use(&server, "started again"));
    }
    let grown = used.windows(2).map(|two| two[1].saturating_sub(two[0]));
    assert!(grown.max() <= Some(SECTORS_MAX), "{used:?}");
    server.done("BACKUP LOG d TO DISK = '/d1.trn'");
    let left = log_in_use(&server, "backed up");
    assert!(left <= used[0] + 2 * SECTORS_MAX, "{left}, {used:?}");
    server.availability.stop();
}
