//! Statements about the server: KILL, DBCC, endpoints, availability groups.

use super::{Expr, Ident, OptionItem};

/// `KILL session [WITH STATUSONLY]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Kill {
    pub target: KillTarget,
    pub status_only: bool,
    /// `WITH COMMIT` or `WITH ROLLBACK` of a distributed transaction.
    pub outcome: Option<KillOutcome>,
}

/// What a KILL ends.
#[derive(Clone, Debug, PartialEq)]
pub enum KillTarget {
    /// A session number (maybe negative) or a unit-of-work string.
    Session(Expr),
    /// `KILL QUERY NOTIFICATION SUBSCRIPTION {ALL | n}`.
    QueryNotification(Option<Expr>),
    /// `KILL STATS JOB n`.
    StatsJob(Expr),
}

/// How a KILL resolves a distributed transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KillOutcome {
    Commit,
    Rollback,
}

/// `DBCC name (args) WITH options`. The name is upper case.
#[derive(Clone, Debug, PartialEq)]
pub struct Dbcc {
    pub name: String,
    /// Bare words arrive as unqualified columns, object names as columns or strings.
    pub args: Vec<Expr>,
    pub options: Vec<OptionItem>,
}

/// `CREATE` and `ALTER ENDPOINT`.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateEndpoint {
    pub alter: bool,
    pub name: Ident,
    pub owner: Option<Ident>,
    /// `STARTED`, `STOPPED`, `DISABLED`.
    pub state: Option<String>,
    /// `TCP` or `HTTP` with its options.
    pub transport: Option<OptionItem>,
    /// `DATABASE_MIRRORING`, `TSQL`, `SERVICE_BROKER` with its options.
    pub payload: Option<OptionItem>,
}

/// `CREATE AVAILABILITY GROUP`.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateAvailabilityGroup {
    pub name: Ident,
    pub options: Vec<OptionItem>,
    pub databases: Vec<Ident>,
    pub replicas: Vec<ReplicaSpec>,
    pub listener: Option<ListenerSpec>,
}

/// `'server' WITH (options)`.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplicaSpec {
    pub server: String,
    pub options: Vec<OptionItem>,
}

/// `'dns' (WITH IP (..), PORT = n)`.
#[derive(Clone, Debug, PartialEq)]
pub struct ListenerSpec {
    pub name: String,
    pub options: Vec<OptionItem>,
}

/// `ALTER AVAILABILITY GROUP`.
#[derive(Clone, Debug, PartialEq)]
pub struct AlterAvailabilityGroup {
    pub name: Ident,
    pub action: AvailabilityGroupAction,
}

/// What an ALTER AVAILABILITY GROUP does.
#[derive(Clone, Debug, PartialEq)]
pub enum AvailabilityGroupAction {
    Set(Vec<OptionItem>),
    AddDatabases(Vec<Ident>),
    RemoveDatabases(Vec<Ident>),
    AddReplicas(Vec<ReplicaSpec>),
    ModifyReplicas(Vec<ReplicaSpec>),
    RemoveReplicas(Vec<String>),
    Join(Vec<OptionItem>),
    /// `JOIN AVAILABILITY GROUP ON ..` and `CREATE .. AVAILABILITY GROUP ON ..` of distributed groups.
    JoinGroups(Vec<ReplicaSpec>),
    GrantCreateAnyDatabase,
    DenyCreateAnyDatabase,
    Failover,
    ForceFailoverAllowDataLoss,
    Offline,
    Online,
    AddListener(ListenerSpec),
    ModifyListener(ListenerSpec),
    RestartListener(String),
    RemoveListener(String),
}
