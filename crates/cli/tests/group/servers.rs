//! Servers as processes, and the statements that make a group of them.

use daruma_client::client::{Client, ClientError, EncryptionWish, Options};
use daruma_lab::server::free_port;
use daruma_tds::login::Secret;
use daruma_value::Value;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub const DARUMA: &str = env!("CARGO_BIN_EXE_daruma");
pub const PASSWORD: &str = "Group-of-processes-1";
/// What is waited for comes long before; a test that waits so long has failed.
pub const LONG: Duration = Duration::from_secs(300);
const POLL: Duration = Duration::from_millis(20);

/// One server of a group: its folder, and its process while it runs.
pub struct Server {
    pub name: &'static str,
    pub folder: PathBuf,
    pub endpoint: u16,
    pub port: u16,
    /// Of its cluster service, if it is a node.
    cluster: u16,
    /// More arguments of `daruma serve`.
    pub arguments: &'static [&'static str],
    process: Option<Child>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Server {
    pub fn start(root: &Path, name: &'static str) -> Server {
        let mut server = Server::stopped(root, name);
        server.run();
        server
    }

    /// One that does not run yet.
    pub fn stopped(root: &Path, name: &'static str) -> Server {
        Server {
            name,
            folder: root.join(name),
            endpoint: free_port(),
            port: 0,
            cluster: free_port(),
            arguments: &[],
            process: None,
        }
    }

    /// A command of `daruma cluster` that must not fail; what it prints.
    pub fn cluster(&self, arguments: &[&str]) -> String {
        let mut command = Command::new(DARUMA);
        command.arg("cluster").args(arguments);
        if let ["create" | "join", ..] = arguments {
            let address = format!("127.0.0.1:{}", self.cluster);
            command.args(["--node", self.name, "--address", &address]);
        }
        let output = command
            .arg("--data")
            .arg(&self.folder)
            .output()
            .expect("the program runs");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {error}");
        String::from_utf8(output.stdout).expect("text")
    }

    /// A command of `daruma cluster` that must fail; what it says.
    pub fn cluster_refuses(&self, arguments: &[&str]) -> String {
        let output = Command::new(DARUMA)
            .arg("cluster")
            .args(arguments)
            .arg("--data")
            .arg(&self.folder)
            .output()
            .expect("the program runs");
        assert!(!output.status.success(), "{arguments:?}");
        String::from_utf8(output.stderr).expect("text")
    }

    /// Sends the process a signal.
    pub fn signal(&self, name: &str) {
        let process = self.process.as_ref().expect("it runs");
        let told = Command::new("kill")
            .args(["-s", name, &process.id().to_string()])
            .status();
        assert!(told.expect("kill").success());
    }

    /// Runs a script that stops the threads of this name, until it ends.
    pub fn freeze(&self, script: &str, name: &str) -> Child {
        let process = self.process.as_ref().expect("it runs");
        Command::new("python3")
            .args(["-c", script, &process.id().to_string(), name])
            .stderr(Stdio::piped())
            .spawn()
            .expect("python3")
    }

    /// No file of the process may be longer from now on: what is written behind that fails.
    pub fn limit_files(&self, bytes: u64) {
        let process = self.process.as_ref().expect("it runs");
        let limited = Command::new("prlimit")
            .args([
                "--pid",
                &process.id().to_string(),
                &format!("--fsize={bytes}"),
            ])
            .status();
        assert!(limited.expect("prlimit").success());
    }

    /// Its end while somebody else looks at it, so that nobody waits for a frozen one.
    pub fn end(&self) {
        if self.process.is_some() {
            self.signal("KILL");
        }
    }

    /// SIGTERM, and its end in good order.
    pub fn stop(&mut self) {
        self.signal("TERM");
        let mut process = self.process.take().expect("it runs");
        assert!(process.wait().expect("its end").success());
    }

    /// Starts the process, again after a kill.
    pub fn run(&mut self) {
        let listen = format!("127.0.0.1:{}", self.port);
        let mut process = Command::new(DARUMA)
            .args(["serve", "--listen", &listen, "--server-name", self.name])
            .args(["--memory", "128M", "--data"])
            .arg(&self.folder)
            .args(self.arguments)
            .env("MSSQL_SA_PASSWORD", PASSWORD)
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program runs");
        let output = process.stderr.take().expect("its output");
        let mut lines = BufReader::new(output).lines().map_while(Result::ok);
        let ready = lines.find(|l| l.starts_with("ready "));
        let address = ready.as_deref().and_then(|l| l.split(' ').nth(1));
        let port = address.and_then(|a| a.rsplit(':').next());
        self.port = port.and_then(|p| p.parse().ok()).expect("an address");
        // Somebody has to read what it says until it ends.
        std::thread::spawn(move || lines.for_each(drop));
        self.process = Some(process);
    }

    /// As a power failure of the process.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    pub fn connect(&self, database: &str) -> Result<Client, ClientError> {
        connect(self.port, database)
    }

    /// `host,port` for the program's commands.
    pub fn address(&self) -> String {
        format!("127.0.0.1,{}", self.port)
    }

    /// Where other servers reach it.
    pub fn endpoint_url(&self) -> String {
        format!("tcp://127.0.0.1:{}", self.endpoint)
    }

    /// Runs a batch in master that must not fail.
    pub fn sql(&self, text: &str) -> Vec<Vec<Value>> {
        self.try_sql(text)
            .unwrap_or_else(|e| panic!("{}: {e}\n{text}\n{}", self.name, self.log()))
    }

    pub fn try_sql(&self, text: &str) -> Result<Vec<Vec<Value>>, ClientError> {
        self.connect("master")?.query(text)
    }

    /// The first value of an answer; `None` when there is none, or an error.
    pub fn value(&self, text: &str) -> Option<String> {
        let rows = self.try_sql(text).ok()?;
        let value = rows.first()?.first()?;
        Some(daruma_client::value::text(value))
    }

    /// The same, asked until there is an answer: a database may be about to change its role.
    pub fn patient_value(&self, text: &str) -> String {
        let until = Instant::now() + LONG;
        loop {
            if let Some(found) = self.value(text) {
                return found;
            }
            assert!(
                Instant::now() < until,
                "{}: {text}\nis never answered\n{}",
                self.name,
                self.log()
            );
            std::thread::sleep(POLL);
        }
    }

    /// Number of the error that a batch ends with.
    pub fn error(&self, database: &str, text: &str) -> Option<i32> {
        let failed = self.connect(database).and_then(|mut c| c.query(text));
        failed
            .err()
            .and_then(|e| e.server_message().map(|m| m.number))
    }

    /// Asks until the answer is this.
    pub fn wait_for(&self, text: &str, wanted: &str) {
        let until = Instant::now() + LONG;
        loop {
            let found = self.value(text);
            if found.as_deref() == Some(wanted) {
                return;
            }
            assert!(
                Instant::now() < until,
                "{}: {text}\ngives {found:?} and never {wanted}\n{}",
                self.name,
                self.log()
            );
            std::thread::sleep(POLL);
        }
    }

    /// Waits until the database here is in this state.
    pub fn wait_for_state(&self, wanted: &str) {
        let own = "SELECT synchronization_state_desc FROM sys.dm_hadr_database_replica_states WHERE is_local = 1";
        self.wait_for(own, wanted);
    }

    /// Waits until the error log says so.
    pub fn wait_for_log(&self, text: &str) {
        let until = Instant::now() + LONG;
        while !self.log().contains(text) {
            assert!(
                Instant::now() < until,
                "{text} is never said:\n{}",
                self.log()
            );
            std::thread::sleep(POLL);
        }
    }

    /// The error log, for a test that fails.
    pub fn log(&self) -> String {
        let log = self.folder.join("log");
        let newest = std::fs::read_dir(log).ok().and_then(|files| {
            let files = files.filter_map(|f| f.ok().map(|f| f.path()));
            files.filter(|p| p.is_file()).min()
        });
        let bytes = newest.and_then(|p| std::fs::read(p).ok());
        let text = String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned();
        let of_interest = |line: &&str| !line.contains("informational message");
        let lines: Vec<&str> = text.lines().filter(of_interest).collect();
        lines.join("\n")
    }
}

/// A connection of `sa`.
pub fn connect(port: u16, database: &str) -> Result<Client, ClientError> {
    connect_as(port, database, false, LONG)
}

/// A connection of `sa` that says that it only reads.
pub fn connect_to_read(port: u16, database: &str) -> Result<Client, ClientError> {
    connect_as(port, database, true, LONG)
}

/// One that waits no longer for an answer.
pub fn connect_within(port: u16, database: &str, limit: Duration) -> Result<Client, ClientError> {
    connect_as(port, database, false, limit)
}

fn connect_as(
    port: u16,
    database: &str,
    read_only: bool,
    limit: Duration,
) -> Result<Client, ClientError> {
    let mut options = Options::new("127.0.0.1", port);
    options.user = "sa".into();
    options.password = Secret::new(PASSWORD);
    options.database = database.into();
    options.read_only = read_only;
    options.encryption = EncryptionWish::Optional;
    options.login_timeout = Some(limit.min(Duration::from_secs(60)));
    options.query_timeout = Some(limit);
    Client::connect(&options)
}

/// Certificates and endpoints, so that the servers believe each other.
pub fn acquaint(root: &Path, servers: &[&Server]) {
    for server in servers {
        let (name, file) = (server.name, root.join(format!("{}.cer", server.name)));
        server.sql(&format!(
            "CREATE MASTER KEY ENCRYPTION BY PASSWORD = 'Master-Key-1';
             CREATE CERTIFICATE {name}_cert WITH SUBJECT = '{name}', EXPIRY_DATE = '20400101';
             BACKUP CERTIFICATE {name}_cert TO FILE = '{}';
             CREATE ENDPOINT hadr STATE = STARTED AS TCP (LISTENER_PORT = {}, LISTENER_IP = ('127.0.0.1'))
                FOR DATABASE_MIRRORING (ROLE = ALL, AUTHENTICATION = CERTIFICATE {name}_cert, ENCRYPTION = REQUIRED ALGORITHM AES)",
            file.display(),
            server.endpoint
        ));
    }
    for server in servers {
        for other in servers.iter().filter(|o| o.name != server.name) {
            let (name, file) = (other.name, root.join(format!("{}.cer", other.name)));
            server.sql(&format!(
                "CREATE CERTIFICATE {name}_cert FROM FILE = '{}';
                 CREATE LOGIN {name}_login FROM CERTIFICATE {name}_cert;
                 GRANT CONNECT ON ENDPOINT::hadr TO {name}_login",
                file.display()
            ));
        }
    }
}

/// A replica as statements describe it.
pub fn replica(server: &Server, mode: &str) -> String {
    format!(
        "'{}' WITH (ENDPOINT_URL = 'TCP://127.0.0.1:{}', AVAILABILITY_MODE = {mode}, FAILOVER_MODE = MANUAL,
            SEEDING_MODE = AUTOMATIC, SESSION_TIMEOUT = 5, SECONDARY_ROLE (ALLOW_CONNECTIONS = ALL))",
        server.name, server.endpoint
    )
}

/// A copy of the database on another server, by backups.
pub fn copy_by_backup(root: &Path, from: &Server, to: &Server) {
    let (full, log) = (root.join("d.bak"), root.join("d.trn"));
    from.sql(&format!(
        "BACKUP DATABASE d TO DISK = '{}' WITH INIT; BACKUP LOG d TO DISK = '{}' WITH INIT",
        full.display(),
        log.display()
    ));
    let data = to.folder.join("d.mdf");
    let log_file = to.folder.join("d_log.ldf");
    to.sql(&format!(
        "RESTORE DATABASE d FROM DISK = '{}' WITH NORECOVERY, REPLACE, MOVE 'd' TO '{}', MOVE 'd_log' TO '{}';
         RESTORE LOG d FROM DISK = '{}' WITH NORECOVERY",
        full.display(),
        data.display(),
        log_file.display(),
        log.display()
    ));
}

/// A database on the first server.
pub fn create_database(server: &Server) {
    server.sql(
        "CREATE DATABASE d; ALTER DATABASE d SET RECOVERY FULL;
         EXEC ('USE d; CREATE TABLE t (id int PRIMARY KEY, v varchar(100))')",
    );
}

/// Group `g` with database `d`, led by the first of two servers and synchronized.
pub fn create_group(root: &Path, primary: &Server, secondary: &Server, mode: &str) {
    let replicas = [primary, secondary].map(|server| replica(server, mode));
    create_group_of(root, primary, secondary, &replicas.join(", "));
}

/// The same with replicas that are described so.
pub fn create_group_of(root: &Path, primary: &Server, secondary: &Server, replicas: &str) {
    primary.sql(&format!(
        "CREATE AVAILABILITY GROUP g WITH (CLUSTER_TYPE = NONE) FOR DATABASE d REPLICA ON {replicas}"
    ));
    copy_by_backup(root, primary, secondary);
    secondary.sql("ALTER AVAILABILITY GROUP g JOIN WITH (CLUSTER_TYPE = NONE)");
    for server in [primary, secondary] {
        server.sql("ALTER AVAILABILITY GROUP g GRANT CREATE ANY DATABASE");
    }
    secondary.sql("ALTER DATABASE d SET HADR AVAILABILITY GROUP = g");
}

/// What the primary says of its other replica's database.
pub const OTHER_STATE: &str =
    "SELECT synchronization_state_desc FROM sys.dm_hadr_database_replica_states WHERE is_local = 0";
/// What a server says of its own role.
pub const OWN_ROLE: &str =
    "SELECT role_desc FROM sys.dm_hadr_availability_replica_states WHERE is_local = 1";
/// Rows of the table.
pub const COUNT: &str = "SELECT COUNT(*) FROM d.dbo.t";
