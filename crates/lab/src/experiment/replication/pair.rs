//! Two servers on this machine, the groups between them, and the links that their log takes.
//!
//! The lab's own server is the primary, a second one beside it the secondary. Each endpoint has a relay in front of it; over loopback the
//! group's URLs name the endpoints, over a slow link the relays. A new URL counts for the next connection, so the primary is
//! restarted for it.

use super::relay::{Model, Relay};
use super::{Link, Variant};
use crate::experiment::acquaint::{believe, certificate, create_endpoint};
use crate::experiment::{Lab, LabError};
use crate::figures::{counted, grouped};
use crate::server::{PrivateServer, ServerSpec};
use crate::sql::{Ask, connect_to, quoted};
use daruma_client::client::{Client, ClientError, Options};
use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// Name of the lab's own server.
pub const PRIMARY: &str = "PRIMARY";
/// What each calls the other's certificate and login.
const PEER: &str = "lab_peer";
/// Name of the one beside it.
pub const SECONDARY: &str = "SECONDARY";

/// What is waited for comes long before, also on a machine with much else to do.
const PATIENCE: Duration = Duration::from_secs(3600);
const POLL_MIN: Duration = Duration::from_millis(5);
const POLL_MAX: Duration = Duration::from_millis(250);
/// Longer than a busy machine keeps a process waiting.
const SESSION_TIMEOUT_S: u32 = 60;
/// Rows of the source that one statement makes.
const FILL_ROWS: u64 = 100_000;

/// The two groups, each with one database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Asynchronous,
    Synchronous,
}

impl Mode {
    /// In the order of the article's columns.
    pub const ALL: [Mode; 2] = [Mode::Asynchronous, Mode::Synchronous];

    /// Name of its database.
    pub const fn database(self) -> &'static str {
        match self {
            Mode::Asynchronous => "LabAsync",
            Mode::Synchronous => "LabSync",
        }
    }

    /// Name of its group.
    pub const fn group(self) -> &'static str {
        match self {
            Mode::Asynchronous => "lab_async",
            Mode::Synchronous => "lab_sync",
        }
    }

    const fn availability(self) -> &'static str {
        match self {
            Mode::Asynchronous => "ASYNCHRONOUS_COMMIT",
            Mode::Synchronous => "SYNCHRONOUS_COMMIT",
        }
    }

    /// State of a secondary that is as it should be.
    pub const fn good_state(self) -> &'static str {
        match self {
            Mode::Asynchronous => "SYNCHRONIZING",
            Mode::Synchronous => "SYNCHRONIZED",
        }
    }
}

/// How long a copy took to come by itself.
#[derive(Clone, Copy, Debug)]
pub struct Seeded {
    pub mode: Mode,
    pub seconds: f64,
    pub bytes: f64,
}

/// Both servers; the primary is the lab's own.
pub struct Pair {
    pub secondary: PrivateServer,
    endpoints: [u16; 2],
    relays: [Relay; 2],
    pub seeded: Vec<Seeded>,
}

/// Arguments of `daruma serve`.
pub fn arguments(name: &str, variant: Variant) -> Vec<String> {
    let named = ["--server-name", name];
    let all = named.iter().chain(variant.arguments());
    all.map(|argument| (*argument).to_string()).collect()
}

impl Pair {
    /// Starts the secondary, and lets the two servers believe each other.
    pub fn start(lab: &Lab) -> Result<Pair, LabError> {
        lab.step("starting the second server");
        let folder = lab.scratch().join("secondary");
        if folder.exists() {
            // Left by a run that was killed; the name is ours.
            fs::remove_dir_all(&folder).map_err(|source| LabError::File {
                path: folder.clone(),
                source,
            })?;
        }
        let secondary = PrivateServer::start(ServerSpec {
            program: std::env::current_exe().map_err(|source| LabError::File {
                path: Path::new("this program").into(),
                source,
            })?,
            folder,
            memory_bytes: lab.memory_bytes(),
            arguments: arguments(SECONDARY, Variant::Automatic),
        })?;
        let (mut one, mut two) = (lab.client("master")?, secondary.connect()?);
        let endpoints = [create_endpoint(&mut one)?, create_endpoint(&mut two)?];
        believe(&mut one, PEER, &certificate(&mut two)?)?;
        believe(&mut two, PEER, &certificate(&mut one)?)?;
        let relay = |port| {
            let model = Model {
                bytes_per_s: 1e9,
                delay: Duration::ZERO,
            };
            Relay::start(port, model).map_err(|e| LabError::Unexpected(format!("relay: {e}")))
        };
        Ok(Pair {
            secondary,
            endpoints,
            relays: [relay(endpoints[0])?, relay(endpoints[1])?],
            seeded: Vec::new(),
        })
    }

    /// Databases, their rows, and a group for each; done when the secondary has everything.
    pub fn create_groups(&mut self, lab: &mut Lab, rows: u64) -> Result<(), LabError> {
        for mode in Mode::ALL {
            self.create_database(lab, mode, rows)?;
            lab.step(format!("seeding {} on the secondary", mode.database()));
            self.create_group(lab, mode)?;
            let seeded = self.seed(lab, mode, rows)?;
            self.seeded.push(seeded);
        }
        self.wait_synchronized(lab)
    }

    fn create_database(&self, lab: &mut Lab, mode: Mode, rows: u64) -> Result<(), LabError> {
        let name = mode.database();
        let mut client = lab.create_database(name)?;
        client.execute(&format!(
            "ALTER DATABASE {name} SET RECOVERY FULL; BACKUP DATABASE {name} TO DISK = 'NUL'"
        ))?;
        for statement in TABLES {
            client.execute(statement)?;
        }
        for from in (0..rows).step_by(usize::try_from(FILL_ROWS).unwrap_or(usize::MAX)) {
            lab.check_interrupt()?;
            lab.step(format!(
                "filling {name}: {} of {}",
                grouped(from as f64),
                counted(rows, "row")
            ));
            client.execute(&format!(
                "EXEC dbo.Fill {from}, {}",
                rows.min(from + FILL_ROWS)
            ))?;
        }
        Ok(())
    }

    fn create_group(&self, lab: &Lab, mode: Mode) -> Result<(), LabError> {
        let replicas = [(PRIMARY, self.endpoints[0]), (SECONDARY, self.endpoints[1])].map(|(name, port)| {
            format!(
                "{} WITH (ENDPOINT_URL = 'TCP://127.0.0.1:{port}', AVAILABILITY_MODE = {}, FAILOVER_MODE = MANUAL, SEEDING_MODE = AUTOMATIC, \
                 SESSION_TIMEOUT = {SESSION_TIMEOUT_S}, SECONDARY_ROLE (ALLOW_CONNECTIONS = ALL))",
                quoted(name),
                mode.availability()
            )
        });
        lab.client("master")?.execute(&format!(
            "CREATE AVAILABILITY GROUP {} WITH (CLUSTER_TYPE = NONE) FOR DATABASE {} REPLICA ON {}",
            mode.group(),
            mode.database(),
            replicas.join(", ")
        ))?;
        lab.client("master")?.execute(&grant(mode))?;
        Ok(())
    }

    /// Joins the secondary, and waits until the copy has come that it asks for.
    fn seed(&self, lab: &Lab, mode: Mode, rows: u64) -> Result<Seeded, LabError> {
        let join = format!(
            "ALTER AVAILABILITY GROUP {} JOIN WITH (CLUSTER_TYPE = NONE)",
            mode.group()
        );
        let mut client = self.secondary.connect()?;
        let until = Instant::now() + PATIENCE;
        // The primary's invitation may be on its way.
        while let Err(error) = client.execute(&join) {
            let is_known = format!(
                "SELECT COUNT(*) FROM sys.availability_groups WHERE name = {}",
                quoted(mode.group())
            );
            if client.text(&is_known)? == "1" {
                break;
            }
            if error.is_fatal() || Instant::now() > until {
                return Err(error.into());
            }
            lab.check_interrupt()?;
        }
        let begun = Instant::now();
        client.execute(&grant(mode))?;
        self.wait_for_rows(lab, mode, "source", rows)?;
        let seconds = begun.elapsed().as_secs_f64();
        let bytes = lab.client("master")?.number(&format!(
            "SELECT TOP (1) transferred_size_bytes FROM sys.dm_hadr_physical_seeding_stats WHERE local_database_name = {} \
             ORDER BY start_time_utc DESC",
            quoted(mode.database())
        ))?;
        Ok(Seeded {
            mode,
            seconds,
            bytes: bytes.unwrap_or(f64::NAN),
        })
    }

    /// The log takes this link from the next connections on.
    pub fn set_link(&self, lab: &Lab, link: Link) -> Result<(), LabError> {
        let ports = match link.model() {
            None => self.endpoints,
            Some(model) => {
                self.relays.iter().for_each(|relay| relay.set_model(model));
                [self.relays[0].port(), self.relays[1].port()]
            }
        };
        let mut client = lab.client("master")?;
        for mode in Mode::ALL {
            for (name, port) in [PRIMARY, SECONDARY].into_iter().zip(ports) {
                client.execute(&format!(
                    "ALTER AVAILABILITY GROUP {} MODIFY REPLICA ON {} WITH (ENDPOINT_URL = 'TCP://127.0.0.1:{port}')",
                    mode.group(),
                    quoted(name)
                ))?;
            }
        }
        Ok(())
    }

    /// Stops the primary in good order and starts it with another variant; done when it leads both groups again.
    pub fn restart_primary(&self, lab: &mut Lab, variant: Variant) -> Result<(), LabError> {
        lab.step(format!("restarting the primary: {}", variant.title()));
        let server = own_server(lab)?;
        server.set_arguments(arguments(PRIMARY, variant));
        server.stop()?;
        server.launch()?;
        lab.find_server_again();
        self.wait_synchronized(lab)
    }

    /// Waits until both groups are led by the lab's server and followed by the other one.
    pub fn wait_synchronized(&self, lab: &Lab) -> Result<(), LabError> {
        for mode in Mode::ALL {
            let (primary, secondary) = (lab.target(), self.secondary.options());
            wait_for(
                lab,
                primary,
                "master",
                &state(mode, false),
                mode.good_state(),
            )?;
            wait_for(
                lab,
                &secondary,
                "master",
                &state(mode, true),
                mode.good_state(),
            )?;
            // Sessions may come, too.
            wait_for(lab, primary, mode.database(), "SELECT 1", "1")?;
        }
        Ok(())
    }

    /// Waits until a table has so many rows on the secondary.
    pub fn wait_for_rows(
        &self,
        lab: &Lab,
        mode: Mode,
        table: &str,
        rows: u64,
    ) -> Result<(), LabError> {
        let query = format!("SELECT COUNT_BIG(*) FROM dbo.{table}");
        wait_for(
            lab,
            &self.secondary.options(),
            mode.database(),
            &query,
            &rows.to_string(),
        )
    }

    /// A connection to the secondary.
    pub fn reader(&self, mode: Mode) -> Result<Client, ClientError> {
        connect_to(&self.secondary.options(), mode.database())
    }
}

/// The lab's server as one that may be stopped.
pub fn own_server(lab: &mut Lab) -> Result<&mut PrivateServer, LabError> {
    lab.server_mut().ok_or(LabError::OwnServersOnly)
}

/// The state of the group's secondary, asked at the primary or at itself.
pub fn state(mode: Mode, is_own: bool) -> String {
    format!(
        "SELECT synchronization_state_desc FROM sys.dm_hadr_database_replica_states WHERE is_local = {} AND database_id = DB_ID({})",
        u8::from(is_own),
        quoted(mode.database())
    )
}

/// Asks until the answer is this; a server that starts refuses at first.
pub fn wait_for(
    lab: &Lab,
    target: &Options,
    database: &str,
    query: &str,
    wanted: &str,
) -> Result<(), LabError> {
    let (begun, mut pause) = (Instant::now(), POLL_MIN);
    let mut client = None;
    loop {
        let found = ask(&mut client, target, database, query);
        if found.as_deref() == Ok(wanted) {
            return Ok(());
        }
        lab.check_interrupt()?;
        if begun.elapsed() > PATIENCE {
            return Err(LabError::Unexpected(format!(
                "{query}\nin {database} gives {found:?} and never {wanted}"
            )));
        }
        thread::sleep(pause);
        pause = (pause * 2).min(POLL_MAX);
    }
}

/// The answer over a connection that is kept, or made anew after an error.
fn ask(
    kept: &mut Option<Client>,
    target: &Options,
    database: &str,
    query: &str,
) -> Result<String, String> {
    let mut client = match kept.take() {
        Some(client) => client,
        None => connect_to(target, database).map_err(|e| e.to_string())?,
    };
    let answer = client.text(query).map_err(|e| e.to_string())?;
    *kept = Some(client);
    Ok(answer)
}

fn grant(mode: Mode) -> String {
    format!(
        "ALTER AVAILABILITY GROUP {} GRANT CREATE ANY DATABASE",
        mode.group()
    )
}

/// The article's three tables, digits to count with, and the procedures: one fills the source with text as people write it, one
/// inserts and notes how long that took, one inserts single rows until time is up.
const TABLES: [&str; 7] = [
    "CREATE TABLE dbo.source (id int NOT NULL PRIMARY KEY, name char(40) NOT NULL, street char(60) NOT NULL, note char(100) NOT NULL)",
    "CREATE TABLE dbo.destination (id int NOT NULL PRIMARY KEY, name char(40) NOT NULL, street char(60) NOT NULL, note char(100) NOT NULL)",
    "CREATE TABLE dbo.tracer (id int IDENTITY NOT NULL PRIMARY KEY, inserts int NOT NULL, rows_per_insert int NOT NULL, done int NOT NULL, \
     started datetime2 NOT NULL, ended datetime2 NOT NULL)",
    "CREATE TABLE dbo.digits (d int NOT NULL PRIMARY KEY); INSERT dbo.digits VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9)",
    "CREATE PROCEDURE dbo.Fill @from int, @to int AS \
     INSERT dbo.source (id, name, street, note) SELECT n + 1, \
     CONCAT(CHOOSE(1 + n % 11, 'Anna', 'Bertil', 'Clara', 'David', 'Elena', 'Felix', 'Greta', 'Hugo', 'Ines', 'Jonas', 'Karin'), ' ', \
     CHOOSE(1 + n / 7 % 13, 'Abel', 'Berger', 'Costa', 'Dahl', 'Engel', 'Falk', 'Gruber', 'Hansen', 'Ito', 'Jansen', 'Keller', 'Lund', 'Moreau')), \
     CONCAT(CHOOSE(1 + n / 3 % 9, 'Bahnhofstrasse', 'Church Lane', 'Rue du Moulin', 'Via Roma', 'Station Road', 'Hauptstrasse', 'Park Avenue', \
     'Kirkeveien', 'Calle Mayor'), ' ', 1 + n * 17 % 397), \
     CONCAT('Order ', n * 13 % 99991, CHOOSE(1 + n % 5, ' was sent, and the invoice with it', ' waits for the customer', ' came back unopened', \
     ' is paid', ' needs a call before it leaves')) \
     FROM (SELECT @from + a.d + 10 * b.d + 100 * c.d + 1000 * e.d + 10000 * f.d AS n \
     FROM dbo.digits AS a CROSS JOIN dbo.digits AS b CROSS JOIN dbo.digits AS c CROSS JOIN dbo.digits AS e CROSS JOIN dbo.digits AS f) AS numbers \
     WHERE n < @to",
    "CREATE PROCEDURE dbo.RunInserts @inserts int, @rows int, @limit_ms int AS \
     BEGIN \
     SET NOCOUNT ON; \
     DECLARE @done int = 0, @first int = 1, @started datetime2 = SYSUTCDATETIME(), @ended datetime2; \
     DECLARE @until datetime2 = DATEADD(millisecond, @limit_ms, @started); \
     WHILE @done < @inserts AND SYSUTCDATETIME() < @until \
     BEGIN \
     INSERT dbo.destination (id, name, street, note) \
     SELECT id, name, street, note FROM dbo.source WHERE id BETWEEN @first AND @first + @rows - 1; \
     SET @done += 1; SET @first += @rows; \
     END; \
     SET @ended = SYSUTCDATETIME(); \
     INSERT dbo.tracer (inserts, rows_per_insert, done, started, ended) VALUES (@inserts, @rows, @done, @started, @ended); \
     SELECT @done, DATEDIFF_BIG(microsecond, @started, @ended); \
     END",
    "CREATE PROCEDURE dbo.RunSingles @limit_ms int AS \
     BEGIN \
     SET NOCOUNT ON; \
     DECLARE @done int = 0, @until datetime2 = DATEADD(millisecond, @limit_ms, SYSUTCDATETIME()); \
     WHILE SYSUTCDATETIME() < @until \
     BEGIN \
     INSERT dbo.tracer (inserts, rows_per_insert, done, started, ended) VALUES (1, 1, 1, SYSUTCDATETIME(), SYSUTCDATETIME()); \
     SET @done += 1; \
     END; \
     SELECT @done; \
     END",
];
