//! Definitions of certificates, endpoints and availability groups: rows of master.
//!
//! A secret in a row is ciphertext; who wrote it knows the key.

use serde::{Deserialize, Serialize};

/// A row of master with a number of its own.
pub trait ServerRow: Serialize + serde::de::DeserializeOwned {
    /// First byte of its key.
    const KIND: u8;
    /// The rest of its key.
    fn id(&self) -> i32;
}

/// The master key of master: what private keys are encrypted with. There is one, with id 1.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatabaseKeyDef {
    pub guid: [u8; 16],
    /// The key, encrypted by the service master key.
    pub by_service: Option<String>,
    /// The key, encrypted by each of the passwords.
    pub by_password: Vec<String>,
    pub created_utc: i64,
    pub modified_utc: i64,
}

/// A certificate, maybe with its private key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CertificateDef {
    /// From 256.
    pub id: i32,
    pub name: String,
    /// `principal_id` of the owner.
    pub owner: i32,
    /// The certificate in DER.
    pub der: Vec<u8>,
    pub private_key: Option<PrivateKeyDef>,
    pub active_for_begin_dialog: bool,
    /// 0 when it was not backed up.
    pub key_backed_up_utc: i64,
}

/// A private key (PKCS #8), encrypted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrivateKeyDef {
    pub sealed: String,
    pub by: KeyEncryption,
}

/// What a private key is encrypted with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum KeyEncryption {
    MasterKey,
    Password,
}

/// The endpoint over which replicas speak to each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndpointDef {
    /// From 65536, as the product counts.
    pub id: i32,
    pub name: String,
    /// `principal_id` of the login that owns it.
    pub owner: i32,
    pub state: EndpointState,
    pub port: u16,
    /// Address to listen on; `None` for all.
    pub address: Option<String>,
    pub role: EndpointRole,
    pub certificate_id: i32,
}

/// Does an endpoint listen?
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EndpointState {
    Started,
    /// It listens, and closes what connects.
    Stopped,
    Disabled,
}

/// What an endpoint of replicas may serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EndpointRole {
    Partner,
    Witness,
    All,
}

/// An availability group, as one of its servers knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupDef {
    /// Number of the row.
    pub id: i32,
    pub group_id: [u8; 16],
    pub name: String,
    pub options: GroupOptions,
    /// In the order in which they were added.
    pub replicas: Vec<ReplicaDef>,
    pub databases: Vec<GroupDatabaseDef>,
    pub listener: Option<ListenerDef>,
    /// Grows with each change.
    pub sequence_number: i64,
    pub created_utc: i64,
    pub modified_utc: i64,
    /// May the group make databases here (GRANT CREATE ANY DATABASE)?
    pub creates_databases: bool,
}

/// WITH of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupOptions {
    pub backup_preference: BackupPreference,
    /// 1 to 5.
    pub failure_condition_level: u8,
    pub health_check_timeout_ms: u32,
    pub db_failover: bool,
    pub cluster_type: ClusterType,
    pub required_synchronized_secondaries: u8,
}

/// AUTOMATED_BACKUP_PREFERENCE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BackupPreference {
    Primary,
    SecondaryOnly,
    Secondary,
    None,
}

/// CLUSTER_TYPE: who decides which replica is the primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClusterType {
    /// A cluster of the operating system's; here the cluster service.
    Wsfc,
    /// A manager of its own, by statements.
    External,
    /// Nobody: failover is by hand.
    None,
}

/// A replica of a group: one server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplicaDef {
    pub replica_id: [u8; 16],
    /// Its place in the group, by which replicas call each other: 0 to 8.
    #[serde(default)]
    pub number: u8,
    pub server: String,
    pub owner_sid: Vec<u8>,
    pub endpoint_url: String,
    pub availability_mode: AvailabilityMode,
    pub failover_mode: FailoverMode,
    pub seeding_mode: SeedingMode,
    /// 0 to 100.
    pub backup_priority: u8,
    pub session_timeout_s: u32,
    pub secondary_connections: SecondaryConnections,
    pub primary_connections: PrimaryConnections,
    pub read_only_routing_url: Option<String>,
    pub read_write_routing_url: Option<String>,
    /// Servers for readers, best first; those that share a place take turns.
    pub read_only_routing: Vec<Vec<String>>,
    pub created_utc: i64,
    pub modified_utc: i64,
}

/// AVAILABILITY_MODE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AvailabilityMode {
    Asynchronous,
    Synchronous,
    ConfigurationOnly,
}

/// FAILOVER_MODE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FailoverMode {
    Automatic,
    Manual,
    External,
}

/// SEEDING_MODE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SeedingMode {
    Automatic,
    Manual,
}

/// ALLOW_CONNECTIONS of a secondary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SecondaryConnections {
    No,
    ReadOnly,
    All,
}

/// ALLOW_CONNECTIONS of a primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PrimaryConnections {
    All,
    ReadWrite,
}

/// A database of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupDatabaseDef {
    /// The same on all servers.
    pub group_database_id: [u8; 16],
    pub name: String,
    /// Is the database of this name, on this server, one of the group?
    pub is_joined: bool,
}

/// The name and port by which clients find the primary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListenerDef {
    pub listener_id: [u8; 16],
    pub dns_name: String,
    pub port: u16,
    pub addresses: Vec<ListenerAddress>,
}

/// An address of a listener.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListenerAddress {
    pub address: String,
    /// Of an IPv4 address.
    pub subnet_mask: Option<String>,
}

impl ServerRow for DatabaseKeyDef {
    const KIND: u8 = crate::rows::KIND_DATABASE_KEY;
    fn id(&self) -> i32 {
        1
    }
}

impl ServerRow for CertificateDef {
    const KIND: u8 = crate::rows::KIND_CERTIFICATE;
    fn id(&self) -> i32 {
        self.id
    }
}

impl ServerRow for EndpointDef {
    const KIND: u8 = crate::rows::KIND_ENDPOINT;
    fn id(&self) -> i32 {
        self.id
    }
}

impl ServerRow for GroupDef {
    const KIND: u8 = crate::rows::KIND_GROUP;
    fn id(&self) -> i32 {
        self.id
    }
}

impl GroupDef {
    /// The replica of a server, whatever the case of its name.
    pub fn replica(&self, server: &str) -> Option<&ReplicaDef> {
        self.replicas
            .iter()
            .find(|r| crate::names_equal(&r.server, server))
    }

    /// The database of this name, whatever its case.
    pub fn database(&self, name: &str) -> Option<&GroupDatabaseDef> {
        self.databases
            .iter()
            .find(|d| crate::names_equal(&d.name, name))
    }
}
