//! Availability groups as this room sees them: definitions in master, and a service that makes them true.
//!
//! Theory: a statement is checked here, then the [`HadrService`] is asked, and what it accepted is stored. The service tells
//! databases what sessions may do with them ([`Availability`]), so that no statement asks it on its way. Without a service
//! ([`NotEnabled`]) everything that would need one is refused as the product does where the feature is off.
//!
//! Invariants
//! 1. A definition is stored after the service has accepted it, never before.
//! 2. Sessions learn a role from [`Availability`] alone: it changes before the service tells anybody else of the role. A primary whose right
//!    to lead is a [`Lease`] is one as long as the lease stands, which each statement asks, not the service's threads.
//!
//! Map: `rows` (stored definitions), `service` (the seam), `routing` (where readers are sent), `databases` (what the service does
//! with a database's files).

mod databases;
mod routing;
mod rows;
mod service;

pub(crate) use routing::is_url;
pub use routing::{Route, route};
pub(crate) use rows::Leaving;
pub use rows::ServerRows;
pub use service::{
    ClusterMemberKind, ClusterMemberSeen, ClusterSeen, DatabaseAct, DatabaseReplicaState,
    EndpointIdentity, GroupAct, HadrService, NotEnabled, OpenPort, PageRepair, PortKind,
    ReplicaRole, ReplicaState, Seeding, SuspendReason, SynchronizationState,
};

use super::{DatabaseEntry, Instance};
use crate::error::{Result, SqlError};
use crate::messages;
use daruma_catalog::{Catalog, CertificateDef, DatabaseKeyDef, EndpointDef, GroupDef, names_equal};
use parking_lot::RwLock;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What sessions may do with a database, by the role of this server in its group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Availability {
    /// It is in no group.
    #[default]
    Alone,
    /// The primary, for everybody.
    Primary,
    /// The primary, for those who mean to write (PRIMARY_ROLE (ALLOW_CONNECTIONS = READ_WRITE)).
    PrimaryForWriters,
    /// A secondary that everybody may read.
    Readable,
    /// A secondary that those may read who said that they only read.
    ReadableWithIntent,
    /// A secondary that nobody may read.
    Closed,
    /// Neither primary nor secondary.
    Resolving,
}

impl Availability {
    /// The value that `as u8` made a number of.
    pub fn from_number(number: u8) -> Availability {
        use Availability::*;
        let all = [
            Alone,
            Primary,
            PrimaryForWriters,
            Readable,
            ReadableWithIntent,
            Closed,
            Resolving,
        ];
        let found = all.into_iter().find(|a| *a as u8 == number);
        found.unwrap_or(Resolving)
    }

    /// Fails with 976 or 983 where nobody may look at the database.
    pub fn check_open(self, name: &str) -> Result<()> {
        match self {
            Availability::Closed => Err(messages::error(976, &[&name])),
            Availability::Resolving => Err(messages::error(983, &[&name])),
            _ => Ok(()),
        }
    }

    /// Fails with 978 or 979 where the session's intent does not fit.
    pub fn check_intent(self, name: &str, reads_only: bool) -> Result<()> {
        match self {
            Availability::ReadableWithIntent if !reads_only => Err(messages::error(978, &[&name])),
            Availability::PrimaryForWriters if reads_only => Err(messages::error(979, &[&name])),
            _ => Ok(()),
        }
    }

    /// Is it a secondary's, which nothing but redo changes?
    pub fn is_secondary(self) -> bool {
        use Availability::*;
        matches!(self, Readable | ReadableWithIntent | Closed | Resolving)
    }
}

/// The right to lead a database, where it ends by itself. Asked by every statement that comes to the database: nothing here waits.
pub trait Lease: Send + Sync {
    /// Does it hold, at this moment?
    fn stands(&self) -> bool;
}

/// Keys, endpoints and groups of the server.
pub struct Hadr {
    pub master_key: ServerRows<DatabaseKeyDef>,
    pub certificates: ServerRows<CertificateDef>,
    pub endpoints: ServerRows<EndpointDef>,
    pub groups: ServerRows<GroupDef>,
    service: RwLock<Arc<dyn HadrService>>,
    /// Readers that were sent elsewhere: servers that share a place of a routing list take turns.
    routed: AtomicUsize,
}

impl Hadr {
    /// Reads the definitions from `master`. No service is there yet.
    pub fn load(master: &Arc<Catalog>) -> Result<Hadr> {
        Ok(Hadr {
            master_key: ServerRows::load(master.clone())?,
            certificates: ServerRows::load(master.clone())?,
            endpoints: ServerRows::load(master.clone())?,
            groups: ServerRows::load(master.clone())?,
            service: RwLock::new(Arc::new(NotEnabled)),
            routed: AtomicUsize::new(0),
        })
    }

    /// Gives statements a service: whoever joins the rooms calls it once, before the first session.
    pub fn join(&self, service: Arc<dyn HadrService>) {
        *self.service.write() = service;
    }

    /// Whom statements ask.
    pub fn service(&self) -> Arc<dyn HadrService> {
        self.service.read().clone()
    }

    /// The certificate of this name, in any case.
    pub fn certificate(&self, name: &str) -> Option<Arc<CertificateDef>> {
        self.certificates.find(|c| names_equal(&c.name, name))
    }

    /// The endpoint of this name, in any case.
    pub fn endpoint(&self, name: &str) -> Option<Arc<EndpointDef>> {
        self.endpoints.find(|e| names_equal(&e.name, name))
    }

    /// The group of this name, in any case.
    pub fn group(&self, name: &str) -> Option<Arc<GroupDef>> {
        self.groups.find(|g| names_equal(&g.name, name))
    }

    /// The group that a database of this server is one of.
    pub fn group_of_database(&self, name: &str) -> Option<Arc<GroupDef>> {
        self.groups
            .find(|g| g.database(name).is_some_and(|d| d.is_joined))
    }
}

impl Instance {
    /// Where a reader of a database is sent from its primary; `None`: it is served here.
    pub(crate) fn route_reader(&self, database: &DatabaseEntry) -> Option<Route> {
        let is_primary = matches!(
            database.availability(),
            Availability::Primary | Availability::PrimaryForWriters
        );
        let name = database.name();
        let group = self.hadr.group_of_database(&name).filter(|_| is_primary)?;
        let service = self.hadr.service();
        let (replicas, databases) = (service.replicas(), service.databases());
        let is_ready = |id: [u8; 16]| {
            use SynchronizationState::{Synchronized, Synchronizing};
            let connected = replicas
                .iter()
                .any(|r| r.replica_id == id && r.is_connected);
            connected
                && databases.iter().any(|d| {
                    d.replica_id == id
                        && d.database_id == database.id()
                        && d.suspended.is_none()
                        && matches!(d.synchronization, Synchronized | Synchronizing)
                })
        };
        let turn = self.hadr.routed.fetch_add(1, Ordering::Relaxed);
        route(&group, &self.options().server_name, turn, is_ready)
    }
}

/// Error 35221: the feature is off.
pub(crate) fn not_enabled() -> SqlError {
    messages::error(35221, &[])
}
