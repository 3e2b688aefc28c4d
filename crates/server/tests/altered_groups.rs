//! A change of an availability group that a kill cuts short, before each write of it: the server starts again, and the database works.

use daruma_server::LogCompression;
use daruma_server::hadr::Availability;
use daruma_server::password::Argon2Hasher;
use daruma_sim::SimDisk;
use daruma_tsql::error::{Result, SqlError};
use daruma_tsql::instance::{Instance, InstanceOptions, LoginInfo};
use daruma_tsql::session::Session;
use daruma_tsql::sink::{Done, EnvChange, OutputColumn, Sink};
use daruma_value::Value;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What is waited for comes long before.
const LONG: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(5);

/// Rows and errors of a batch.
#[derive(Default)]
struct Seen {
    rows: usize,
    errors: Vec<String>,
}

impl Sink for Seen {
    fn columns(&mut self, _: &[OutputColumn]) -> Result<()> {
        Ok(())
    }
    fn row(&mut self, _: &[Value]) -> Result<()> {
        self.rows += 1;
        Ok(())
    }
    fn done(&mut self, _: Done) -> Result<()> {
        Ok(())
    }
    fn message(&mut self, message: &SqlError) -> Result<()> {
        if message.class > 10 {
            self.errors.push(message.to_string());
        }
        Ok(())
    }
    fn env_change(&mut self, _: EnvChange) -> Result<()> {
        Ok(())
    }
    fn return_status(&mut self, _: i32) -> Result<()> {
        Ok(())
    }
    fn return_value(&mut self, _: u16, _: &str, _: &OutputColumn, _: &Value) -> Result<()> {
        Ok(())
    }
    fn function_value(&mut self, _: &OutputColumn, _: &Value) -> Result<()> {
        Ok(())
    }
    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

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

    fn run(&self, text: &str) -> Seen {
        let login = LoginInfo {
            login: "sa".into(),
            ansi_defaults: true,
            ..LoginInfo::default()
        };
        let mut seen = Seen::default();
        let mut session = Session::new(&self.instance, login).expect("logs in");
        session.execute_batch(text, &mut seen);
        session.close();
        seen
    }

    fn done(&self, text: &str) {
        let errors = self.run(text).errors;
        assert!(errors.is_empty(), "{text}: {errors:?}");
    }

    /// Runs it until it gives a row.
    fn wait_for_row(&self, text: &str, told: &str) {
        let until = Instant::now() + LONG;
        loop {
            let seen = self.run(text);
            if seen.rows > 0 && seen.errors.is_empty() {
                return;
            }
            assert!(
                Instant::now() < until,
                "{told}: {text} gives {} rows and {:?}",
                seen.rows,
                seen.errors
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
