//! The seam: what statements and views ask of whoever ships logs and elects primaries.

use super::not_enabled;
use crate::error::Result;
use daruma_base::{DatabaseId, Lsn, PageId};
use daruma_catalog::{ClusterType, EndpointDef, GroupDef};

/// Role of a server in a group (`dm_hadr_availability_replica_states.role`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaRole {
    Resolving,
    Primary,
    Secondary,
}

/// How far a database of a replica is (`synchronization_state`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SynchronizationState {
    NotSynchronizing,
    Synchronizing,
    Synchronized,
    Reverting,
    Initializing,
}

/// Why data movement rests (`suspend_reason`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SuspendReason {
    User,
    Partner,
    Redo,
    Capture,
    Apply,
    Restart,
    Undo,
    Revalidation,
}

/// A replica of a group as this server sees it now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaState {
    pub group_id: [u8; 16],
    pub replica_id: [u8; 16],
    /// `None` for one that this server cannot know of.
    pub role: Option<ReplicaRole>,
    pub is_connected: bool,
    /// Error of the last attempt to connect that failed: number, words, UTC in 100 ns.
    pub last_connect_error: Option<(i32, String, i64)>,
}

/// A database of a replica as this server sees it now. LSNs and times (UTC in 100 ns) are `None` where they are not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseReplicaState {
    pub group_id: [u8; 16],
    pub replica_id: [u8; 16],
    pub group_database_id: [u8; 16],
    pub database_id: DatabaseId,
    pub is_primary: bool,
    pub synchronization: SynchronizationState,
    /// Do commits wait for it?
    pub is_commit_participant: bool,
    pub suspended: Option<SuspendReason>,
    pub recovery_lsn: Option<Lsn>,
    pub truncation_lsn: Option<Lsn>,
    pub last_sent: Option<(Lsn, i64)>,
    pub last_received: Option<(Lsn, i64)>,
    pub last_hardened: Option<(Lsn, i64)>,
    pub last_redone: Option<(Lsn, i64)>,
    pub last_commit: Option<(Lsn, i64)>,
    pub end_of_log: Option<Lsn>,
    /// Log that is not sent yet, in bytes, and bytes sent each second.
    pub log_send_queue_bytes: u64,
    pub log_send_bytes_per_second: u64,
    /// Bytes of the log blocks that were sent, and what they were on the wire; `None` where this server sends nothing.
    pub log_block_bytes: Option<u64>,
    pub log_block_sent_bytes: Option<u64>,
    /// Log that is hard and not redone yet, in bytes, and bytes redone each second.
    pub redo_queue_bytes: u64,
    pub redo_bytes_per_second: u64,
    pub secondary_lag_ms: Option<u64>,
}

/// A database on its way to a new replica (`dm_hadr_automatic_seeding`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seeding {
    pub group_id: [u8; 16],
    pub group_database_id: [u8; 16],
    pub remote_replica_id: [u8; 16],
    pub operation_id: [u8; 16],
    /// UTC in 100 ns.
    pub started_utc: i64,
    pub completed_utc: Option<i64>,
    pub is_source: bool,
    /// Name of the database, here.
    pub database: String,
    pub bytes_sent: u64,
    /// The same as they travelled, packed or not.
    pub wire_bytes: u64,
    /// Some of them were packed.
    pub is_compressed: bool,
    pub bytes_total: u64,
    /// Number and words of what ended it.
    pub failure: Option<(i32, String)>,
    pub attempts: u32,
}

/// A page that another replica gave back (`dm_hadr_auto_page_repair`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageRepair {
    pub database_id: DatabaseId,
    pub file: u16,
    pub page: u32,
    /// As `sys.dm_hadr_auto_page_repair.error_type`: -1 to 3.
    pub error_type: i16,
    /// As `page_status`: 2 queued, 3 asked, 4 in transit, 5 repaired, 6 failed.
    pub status: u8,
    pub modified_utc: i64,
}

/// Who is expected at a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortKind {
    Sessions,
    Mirroring,
}

/// A port at which the server listens (`dm_tcp_listener_states`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenPort {
    pub address: std::net::SocketAddr,
    pub kind: PortKind,
    /// UTC in 100 ns.
    pub since_utc: i64,
}

/// What a statement wants of a whole group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupAct {
    /// This server is to become the primary, and nothing is to be lost.
    Failover,
    /// This server is to become the primary whatever is lost.
    ForceFailover,
    /// This server gives up its role.
    BecomeSecondary,
    Offline,
    Online,
    RestartListener,
}

/// What a statement wants of a database of a group, on this server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatabaseAct {
    /// A restored copy becomes the group's.
    Join,
    /// The copy leaves the group and stays as it is, restoring.
    Leave,
    Suspend,
    Resume,
}

/// How an endpoint proves who it is, and whom it believes. Certificates are X.509 in DER, the key is PKCS #8.
#[derive(Clone)]
pub struct EndpointIdentity {
    pub certificate: Vec<u8>,
    pub private_key: Vec<u8>,
    /// Certificates of logins that may connect.
    pub peers: Vec<Vec<u8>>,
}

/// Whoever ships logs, keeps roles and moves databases. Each call returns when its work is done or refused; an error
/// changed nothing.
pub trait HadrService: Send + Sync {
    /// Is the feature there (`SERVERPROPERTY('IsHadrEnabled')`)?
    fn is_enabled(&self) -> bool;
    /// The endpoint is to be as defined; `None`: it was dropped. Peers are those that may connect from now on.
    fn set_endpoint(&self, endpoint: Option<(&EndpointDef, EndpointIdentity)>) -> Result<()>;
    /// Peers that may connect to the endpoint from now on, by their certificates, where the rest of it stays.
    fn set_peers(&self, peers: &[Vec<u8>]);
    /// A group with this server as its primary.
    fn create_group(&self, group: &GroupDef) -> Result<()>;
    /// Its definition is about to change, on the primary: nothing leaves the group yet, and nobody else is told. Followed by
    /// [`HadrService::settle_group`].
    fn alter_group(&self, before: &GroupDef, after: &GroupDef) -> Result<()>;
    /// The change is stored, and counts; or it could not be, and the group is what it was.
    fn settle_group(&self, before: &GroupDef, after: &GroupDef, is_stored: bool);
    /// The group ends, here. Its definition is gone.
    fn drop_group(&self, group: &GroupDef) -> Result<()>;
    /// This server becomes a secondary: the definition comes from the primary.
    fn join_group(&self, name: &str, cluster_type: ClusterType) -> Result<GroupDef>;
    /// Failover and the like.
    fn act_on_group(&self, group: &GroupDef, act: GroupAct) -> Result<()>;
    /// A database joins, leaves, rests or goes on, here.
    fn act_on_database(&self, group: &GroupDef, database: &str, act: DatabaseAct) -> Result<()>;
    /// Does this service open the database at the start of the server, because it is one of a group?
    fn opens(&self, database: &str) -> bool {
        let _ = database;
        false
    }
    /// Role of this server in a group.
    fn role(&self, group_id: [u8; 16]) -> ReplicaRole;
    /// What a manager outside compares before it promotes, where there is one. `None`: the definition's own number.
    fn sequence_number(&self, group_id: [u8; 16]) -> Option<i64> {
        let _ = group_id;
        None
    }
    /// Replicas of all groups, as seen from here.
    fn replicas(&self) -> Vec<ReplicaState>;
    /// Databases of the replicas, as seen from here.
    fn databases(&self) -> Vec<DatabaseReplicaState>;
    /// Databases that were or are being sent whole.
    fn seedings(&self) -> Vec<Seeding>;
    /// Pages that were or are being repaired, the newest hundred of each database.
    fn page_repairs(&self) -> Vec<PageRepair>;
    /// A page could not be read: another replica may have it. Called while an error is on its way to its session: it waits for
    /// nothing. `error_type` as in [`PageRepair`].
    fn page_is_damaged(&self, database: DatabaseId, page: PageId, error_type: i16) {
        let _ = (database, page, error_type);
    }
    /// Ports at which the server listens: its own, those of listeners, the endpoint's.
    fn open_ports(&self) -> Vec<OpenPort> {
        Vec::new()
    }
    /// Is a group's listener reached at this address, here? `None`: it is not this server's to listen there.
    fn listener_is_open(&self, group_id: [u8; 16], ip: &str) -> Option<bool> {
        let _ = (group_id, ip);
        None
    }
    /// The cluster that this server is a node of.
    fn cluster(&self) -> Option<ClusterSeen> {
        None
    }
}

/// The cluster, as its leader sees it, or this server where nobody leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterSeen {
    pub name: String,
    /// Is there a quorum?
    pub quorum: bool,
    /// Nodes, then the witness.
    pub members: Vec<ClusterMemberSeen>,
}

/// What a member of the cluster is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterMemberKind {
    Node,
    /// A disk that the nodes share.
    DiskWitness,
    /// A folder that the nodes share.
    ShareWitness,
    /// An object in S3 or Azure.
    CloudWitness,
}

/// A node of the cluster, or its witness.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterMemberSeen {
    pub name: String,
    pub kind: ClusterMemberKind,
    pub is_up: bool,
    /// What it counts for just now.
    pub votes: u8,
}

/// A server without the feature: everything is refused with 35221.
pub struct NotEnabled;

impl HadrService for NotEnabled {
    fn is_enabled(&self) -> bool {
        false
    }
    fn set_endpoint(&self, endpoint: Option<(&EndpointDef, EndpointIdentity)>) -> Result<()> {
        use daruma_catalog::EndpointState::Started;
        match endpoint {
            // One that does not listen is no more than its definition.
            Some((endpoint, _)) if endpoint.state == Started => Err(not_enabled()),
            _ => Ok(()),
        }
    }
    fn set_peers(&self, _: &[Vec<u8>]) {}
    fn create_group(&self, _: &GroupDef) -> Result<()> {
        Err(not_enabled())
    }
    fn alter_group(&self, _: &GroupDef, _: &GroupDef) -> Result<()> {
        Err(not_enabled())
    }
    fn settle_group(&self, _: &GroupDef, _: &GroupDef, _: bool) {}
    fn drop_group(&self, _: &GroupDef) -> Result<()> {
        Err(not_enabled())
    }
    fn join_group(&self, _: &str, _: ClusterType) -> Result<GroupDef> {
        Err(not_enabled())
    }
    fn act_on_group(&self, _: &GroupDef, _: GroupAct) -> Result<()> {
        Err(not_enabled())
    }
    fn act_on_database(&self, _: &GroupDef, _: &str, _: DatabaseAct) -> Result<()> {
        Err(not_enabled())
    }
    fn role(&self, _: [u8; 16]) -> ReplicaRole {
        ReplicaRole::Resolving
    }
    fn replicas(&self) -> Vec<ReplicaState> {
        Vec::new()
    }
    fn databases(&self) -> Vec<DatabaseReplicaState> {
        Vec::new()
    }
    fn seedings(&self) -> Vec<Seeding> {
        Vec::new()
    }
    fn page_repairs(&self) -> Vec<PageRepair> {
        Vec::new()
    }
}
