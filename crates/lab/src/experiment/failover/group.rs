//! Three nodes of a cluster, and a synchronous group on two or three of them that fails over by itself.

use crate::experiment::acquaint::{believe, certificate, create_endpoint};
use crate::experiment::quorum::bed::Bed;
use crate::experiment::quorum::seen::{GroupSeen, Seen};
use crate::experiment::{Lab, LabError};
use crate::sql::{Ask, connect_to, quoted};
use daruma_client::client::Client;
use serde::Serialize;
use std::time::{Duration, Instant};

const CLUSTER: &str = "LAB";
const NAMES: [&str; 3] = ["NODE1", "NODE2", "NODE3"];
/// The group's database.
pub const DATABASE: &str = "LabFailover";
/// The group.
pub const GROUP: &str = "lab_failover";
/// What is waited for comes long before: a copy of all rows, also on a machine with much else to do.
const PATIENCE: Duration = Duration::from_secs(3600);
/// What the cluster has agreed on is known to all of its nodes by then.
const HEARD_AFTER: Duration = Duration::from_secs(30);
/// What start-up leaves to be done is done by then.
const SETTLED_AFTER: Duration = Duration::from_secs(5);

/// What a node took while nobody asked it anything.
#[derive(Clone, Debug, Serialize)]
pub struct Idle {
    pub node: &'static str,
    pub leads_cluster: bool,
    pub leads_group: bool,
    pub cpu_s: f64,
    pub wall_s: f64,
}

/// The nodes, of which the first ones hold the group's replicas.
pub struct Group {
    pub bed: Bed,
    replicas: usize,
    /// Ids of rows that were given to writes so far.
    pub ids: u64,
    /// The primary was killed, or another told to lead, and no write has been accepted since.
    pub is_failing_over: bool,
}

impl Group {
    /// Starts the nodes, and makes the group; done when all replicas have everything.
    pub fn start(lab: &Lab, replicas: usize, until: Instant) -> Result<Group, LabError> {
        let mut bed = Bed::new(lab, CLUSTER, until)?.with_memory(lab.memory_bytes());
        for name in NAMES {
            bed.add(lab, name)?;
        }
        let group = Group {
            bed,
            replicas,
            ids: 0,
            is_failing_over: false,
        };
        lab.step("making the group");
        let ports = group.acquaint()?;
        group.create(lab, &ports)?;
        group.await_whole(lab)?;
        Ok(group)
    }

    /// Starts every node that does not run.
    pub fn start_all(&mut self) -> Result<(), LabError> {
        (0..NAMES.len()).try_for_each(|node| self.bed.start(node))
    }

    /// Nodes that hold a replica.
    pub fn replicas(&self) -> std::ops::Range<usize> {
        0..self.replicas
    }

    /// A node's name.
    pub fn name(&self, node: usize) -> &'static str {
        NAMES.get(node).copied().unwrap_or_default()
    }

    /// A new connection to a node.
    pub fn connect(&self, node: usize, database: &str) -> Result<Client, LabError> {
        Ok(connect_to(&self.bed.server(node)?.options(), database)?)
    }

    /// Endpoints that let each other in; their ports.
    fn acquaint(&self) -> Result<Vec<u16>, LabError> {
        let clients = self.replicas().map(|n| self.connect(n, "master"));
        let mut clients: Vec<Client> = clients.collect::<Result<_, _>>()?;
        let ports = clients.iter_mut().map(create_endpoint);
        let ports = ports.collect::<Result<_, _>>()?;
        let certificates = clients.iter_mut().map(certificate);
        let certificates: Vec<String> = certificates.collect::<Result<_, _>>()?;
        for (own, client) in clients.iter_mut().enumerate() {
            for (other, certificate) in certificates.iter().enumerate() {
                if other != own {
                    believe(client, self.name(other), certificate)?;
                }
            }
        }
        Ok(ports)
    }

    fn create(&self, lab: &Lab, ports: &[u16]) -> Result<(), LabError> {
        let mut first = self.connect(0, "master")?;
        first.execute(&format!(
            "CREATE DATABASE {DATABASE}; ALTER DATABASE {DATABASE} SET RECOVERY FULL; BACKUP DATABASE {DATABASE} TO DISK = 'NUL'"
        ))?;
        let mut inside = self.connect(0, DATABASE)?;
        for statement in TABLES {
            inside.execute(statement)?;
        }
        let replicas = ports.iter().enumerate().map(|(node, port)| {
            format!(
                "{} WITH (ENDPOINT_URL = 'TCP://127.0.0.1:{port}', AVAILABILITY_MODE = SYNCHRONOUS_COMMIT, FAILOVER_MODE = AUTOMATIC, \
                 SEEDING_MODE = AUTOMATIC, SECONDARY_ROLE (ALLOW_CONNECTIONS = ALL))",
                quoted(self.name(node))
            )
        });
        let replicas: Vec<String> = replicas.collect();
        first.execute(&format!(
            "CREATE AVAILABILITY GROUP {GROUP} FOR DATABASE {DATABASE} REPLICA ON {}",
            replicas.join(", ")
        ))?;
        let grant = format!("ALTER AVAILABILITY GROUP {GROUP} GRANT CREATE ANY DATABASE");
        first.execute(&grant)?;
        for node in 1..self.replicas {
            let mut client = self.connect(node, "master")?;
            self.join(lab, &mut client)?;
            client.execute(&grant)?;
        }
        Ok(())
    }

    /// The primary's invitation may be on its way.
    fn join(&self, lab: &Lab, client: &mut Client) -> Result<(), LabError> {
        let is_known = format!(
            "SELECT COUNT(*) FROM sys.availability_groups WHERE name = {}",
            quoted(GROUP)
        );
        let until = Instant::now() + PATIENCE;
        while let Err(error) = client.execute(&format!("ALTER AVAILABILITY GROUP {GROUP} JOIN")) {
            if client.text(&is_known)? == "1" {
                break;
            }
            if Instant::now() > until {
                return Err(error.into());
            }
            self.bed.pause(lab)?;
        }
        Ok(())
    }

    /// Waits until every node is up and every replica has everything; who leads then, and lets sessions in.
    pub fn await_whole(&self, lab: &Lab) -> Result<usize, LabError> {
        let until = Instant::now() + PATIENCE;
        loop {
            let seen = self.bed.look();
            if let Some(owner) = seen.as_ref().and_then(|s| self.whole(s))
                && self.is_open(owner)
            {
                return Ok(owner);
            }
            if Instant::now() > until {
                let text = format!("the group did not become whole: {seen:?}");
                return Err(LabError::Unexpected(text));
            }
            self.bed.pause(lab)?;
        }
    }

    /// The group's epoch, which counts its owners.
    pub fn epoch(&self) -> Result<u64, LabError> {
        let seen = self.bed.look();
        let epoch = seen
            .as_ref()
            .and_then(|s| s.groups.first())
            .map(|g| g.epoch);
        epoch.ok_or_else(|| LabError::Unexpected(format!("no node tells of the group: {seen:?}")))
    }

    /// The same, when it has moved on from this one: a node that did not lead the cluster may not have heard yet.
    pub fn epoch_after(&self, lab: &Lab, before: u64) -> Result<u64, LabError> {
        let until = Instant::now() + HEARD_AFTER;
        loop {
            match self.epoch() {
                Ok(epoch) if epoch > before => return Ok(epoch),
                told if Instant::now() > until => return told,
                _ => self.bed.pause(lab)?,
            }
        }
    }

    fn whole(&self, seen: &Seen) -> Option<usize> {
        let GroupSeen { owner, in_sync, .. } = seen.groups.first()?;
        let is_whole = seen.quorum
            && seen.up() == NAMES.len()
            && seen.nodes.iter().all(|n| n.dynamic_weight == 1)
            && in_sync.len() == self.replicas;
        owner
            .as_ref()
            .filter(|_| is_whole)
            .and_then(|name| self.bed.place(name))
    }

    fn is_open(&self, node: usize) -> bool {
        let client = self.connect(node, DATABASE);
        client.is_ok_and(|mut c| c.text("SELECT 1").is_ok())
    }

    /// Processor time of each node while nobody is connected.
    pub fn idle(&self, lab: &Lab, length: Duration) -> Result<Vec<Idle>, LabError> {
        lab.step("nodes that have nothing to do");
        self.wait(lab, SETTLED_AFTER)?;
        let seen = self.bed.look().unwrap_or_default();
        let owner = seen.groups.first().and_then(|g| g.owner.clone());
        let cpu = || {
            let all = (0..NAMES.len()).map(|n| Ok(self.bed.server(n)?.cpu_s()));
            all.collect::<Result<Vec<Option<f64>>, LabError>>()
        };
        let (before, begun) = (cpu()?, Instant::now());
        self.wait(lab, length)?;
        let (after, wall_s) = (cpu()?, begun.elapsed().as_secs_f64());
        let spent = before.iter().zip(&after).zip(NAMES);
        let spent = spent.map(|((before, after), node)| Idle {
            node,
            leads_cluster: seen.leader.as_deref() == Some(node),
            leads_group: owner.as_deref() == Some(node),
            cpu_s: (*after).zip(*before).map_or(f64::NAN, |(a, b)| a - b),
            wall_s,
        });
        Ok(spent.collect())
    }

    fn wait(&self, lab: &Lab, length: Duration) -> Result<(), LabError> {
        let until = Instant::now() + length;
        while Instant::now() < until {
            self.bed.pause(lab)?;
        }
        Ok(())
    }
}

/// Rows that were acknowledged; digits to count with.
const TABLES: [&str; 2] = [
    "CREATE TABLE dbo.ledger (id bigint NOT NULL PRIMARY KEY, written datetime2 NOT NULL DEFAULT SYSUTCDATETIME())",
    "CREATE TABLE dbo.digits (d int NOT NULL PRIMARY KEY); INSERT dbo.digits VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9)",
];
