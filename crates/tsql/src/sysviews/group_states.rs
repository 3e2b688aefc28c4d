//! Availability groups as they are now: roles, connections, how far each database is, seeding and repaired pages.
//!
//! Theory: the service says what it knows ([`crate::instance::hadr::HadrService`]); health follows from that and the definitions.

use super::define::{Rows, View};
use super::groups::guid;
use super::source::Source;
use crate::error::Result;
use crate::instance::hadr::{
    DatabaseReplicaState, ReplicaRole, ReplicaState, SuspendReason, SynchronizationState,
};
use daruma_catalog::{AvailabilityMode, GroupDef, names_equal};
use std::sync::Arc;

pub(super) const VIEWS: &[View] = &[
    View::sys(
        "dm_hadr_availability_group_states",
        DM_HADR_AVAILABILITY_GROUP_STATES,
        group_states,
    ),
    View::sys(
        "dm_hadr_availability_replica_states",
        DM_HADR_AVAILABILITY_REPLICA_STATES,
        replica_states,
    ),
    View::sys(
        "dm_hadr_availability_replica_cluster_states",
        DM_HADR_AVAILABILITY_REPLICA_CLUSTER_STATES,
        cluster_states,
    ),
    View::sys(
        "dm_hadr_database_replica_states",
        DM_HADR_DATABASE_REPLICA_STATES,
        database_states,
    ),
    View::sys(
        "dm_hadr_database_replica_cluster_states",
        DM_HADR_DATABASE_REPLICA_CLUSTER_STATES,
        database_cluster_states,
    ),
    View::sys(
        "dm_hadr_automatic_seeding",
        DM_HADR_AUTOMATIC_SEEDING,
        seedings,
    ),
    View::sys(
        "dm_hadr_physical_seeding_stats",
        DM_HADR_PHYSICAL_SEEDING_STATS,
        seeding_stats,
    ),
    View::sys(
        "dm_hadr_auto_page_repair",
        DM_HADR_AUTO_PAGE_REPAIR,
        page_repairs,
    ),
];

const DM_HADR_AVAILABILITY_GROUP_STATES: &str = "
    group_id uniqueidentifier; primary_replica nvarchar(128)?; primary_recovery_health tinyint?;
    primary_recovery_health_desc nvarchar(60)?; secondary_recovery_health tinyint?;
    secondary_recovery_health_desc nvarchar(60)?; synchronization_health tinyint?;
    synchronization_health_desc nvarchar(60)?";

const DM_HADR_AVAILABILITY_REPLICA_STATES: &str = "
    replica_id uniqueidentifier; group_id uniqueidentifier; is_local bit; role tinyint?; role_desc nvarchar(60)?;
    operational_state tinyint?; operational_state_desc nvarchar(60)?; connected_state tinyint?;
    connected_state_desc nvarchar(60)?; recovery_health tinyint?; recovery_health_desc nvarchar(60)?;
    synchronization_health tinyint?; synchronization_health_desc nvarchar(60)?; last_connect_error_number int?;
    last_connect_error_description nvarchar(1024)?; last_connect_error_timestamp datetime?;
    write_lease_remaining_ticks bigint?; current_configuration_commit_start_time_utc datetime?";

const DM_HADR_AVAILABILITY_REPLICA_CLUSTER_STATES: &str = "
    replica_id uniqueidentifier?; replica_server_name nvarchar(256)?; group_id uniqueidentifier;
    join_state tinyint?; join_state_desc nvarchar(60)?";

const DM_HADR_DATABASE_REPLICA_STATES: &str = "
    database_id int; group_id uniqueidentifier; replica_id uniqueidentifier; group_database_id uniqueidentifier;
    is_local bit?; is_primary_replica bit?; synchronization_state tinyint?;
    synchronization_state_desc nvarchar(60)?; is_commit_participant bit?; synchronization_health tinyint?;
    synchronization_health_desc nvarchar(60)?; database_state tinyint?; database_state_desc nvarchar(60)?;
    is_suspended bit?; suspend_reason tinyint?; suspend_reason_desc nvarchar(60)?; truncation_lsn numeric(25,0)?;
    recovery_lsn numeric(25,0)?; last_sent_lsn numeric(25,0)?; last_sent_time datetime?;
    last_received_lsn numeric(25,0)?; last_received_time datetime?; last_hardened_lsn numeric(25,0)?;
    last_hardened_time datetime?; last_redone_lsn numeric(25,0)?; last_redone_time datetime?;
    log_send_queue_size bigint?; log_send_rate bigint?; redo_queue_size bigint?; redo_rate bigint?;
    filestream_send_rate bigint?; end_of_log_lsn numeric(25,0)?; last_commit_lsn numeric(25,0)?;
    last_commit_time datetime?; low_water_mark_for_ghosts bigint?; secondary_lag_seconds bigint?;
    quorum_commit_lsn numeric(25,0)?; quorum_commit_time datetime?; log_block_bytes bigint?;
    log_block_sent_bytes bigint?";

const DM_HADR_DATABASE_REPLICA_CLUSTER_STATES: &str = "
    replica_id uniqueidentifier; group_database_id uniqueidentifier; database_name sysname?; is_failover_ready bit;
    is_pending_secondary_suspend bit; is_database_joined bit; recovery_lsn numeric(25,0)?;
    truncation_lsn numeric(25,0)?";

const DM_HADR_AUTOMATIC_SEEDING: &str = "
    start_time datetime; completion_time datetime?; ag_id uniqueidentifier; ag_db_id uniqueidentifier;
    ag_remote_replica_id uniqueidentifier; operation_id uniqueidentifier; is_source bit; current_state nvarchar(32);
    performed_seeding bit; failure_state int?; failure_state_desc nvarchar(64)?; error_code int?;
    number_of_attempts int";

const DM_HADR_PHYSICAL_SEEDING_STATS: &str = "
    local_physical_seeding_id uniqueidentifier; remote_physical_seeding_id uniqueidentifier?;
    local_database_id int?; local_database_name sysname?; remote_machine_name sysname?; role_desc nvarchar(30)?;
    internal_state_desc nvarchar(60)?; transfer_rate_bytes_per_second bigint?; transferred_size_bytes bigint?;
    database_size_bytes bigint?; start_time_utc datetime?; end_time_utc datetime?;
    estimate_time_complete_utc datetime?; total_disk_io_wait_time_ms bigint?; total_network_wait_time_ms bigint?;
    failure_code int?; failure_message nvarchar(2000)?; failure_time_utc datetime?; is_compression_enabled bit?;
    transferred_wire_bytes bigint?";

const DM_HADR_AUTO_PAGE_REPAIR: &str = "
    database_id int; file_id int; page_id bigint; error_type int; page_status int; modification_time datetime";

/// NOT_HEALTHY, PARTIALLY_HEALTHY and HEALTHY.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Health {
    Bad,
    Partial,
    Good,
}

impl Health {
    fn name(self) -> &'static str {
        match self {
            Health::Bad => "NOT_HEALTHY",
            Health::Partial => "PARTIALLY_HEALTHY",
            Health::Good => "HEALTHY",
        }
    }

    fn set(self, rows: &mut Rows<'_>) {
        rows.set("synchronization_health", self as u8)
            .set("synchronization_health_desc", self.name());
    }
}

/// Everything known of the groups at one moment.
struct Picture {
    groups: Vec<Arc<GroupDef>>,
    replicas: Vec<ReplicaState>,
    databases: Vec<DatabaseReplicaState>,
    server: String,
}

impl Picture {
    fn new(source: &Source<'_>) -> Result<Picture> {
        let instance = source.instance()?;
        let service = instance.hadr.service();
        Ok(Picture {
            groups: instance.hadr.groups.all(),
            replicas: service.replicas(),
            databases: service.databases(),
            server: instance.options().server_name.clone(),
        })
    }

    fn group(&self, id: [u8; 16]) -> Option<&GroupDef> {
        self.groups.iter().find(|g| g.group_id == id).map(|g| &**g)
    }

    /// The server's own replica of a group.
    fn own_replica(&self, group: &GroupDef) -> Option<[u8; 16]> {
        group.replica(&self.server).map(|r| r.replica_id)
    }

    fn is_own(&self, group: [u8; 16], replica: [u8; 16]) -> bool {
        let group = self.group(group);
        group.and_then(|g| self.own_replica(g)) == Some(replica)
    }

    fn is_synchronous(&self, group: [u8; 16], replica: [u8; 16]) -> bool {
        let group = self.group(group);
        let replica = group.and_then(|g| g.replicas.iter().find(|r| r.replica_id == replica));
        replica.is_some_and(|r| r.availability_mode == AvailabilityMode::Synchronous)
    }

    fn health_of(&self, state: &DatabaseReplicaState) -> Health {
        use SynchronizationState::*;
        let waits = self.is_synchronous(state.group_id, state.replica_id);
        match state.synchronization {
            NotSynchronizing => Health::Bad,
            Synchronized => Health::Good,
            Synchronizing if !waits => Health::Good,
            Synchronizing | Reverting | Initializing => Health::Partial,
        }
    }

    /// The worst of a replica's databases; a replica that is cut off is not healthy.
    fn health_of_replica(&self, replica: &ReplicaState) -> Health {
        let own = |d: &&DatabaseReplicaState| d.replica_id == replica.replica_id;
        let states = self.databases.iter().filter(own);
        match replica.is_connected {
            false => Health::Bad,
            true => states
                .map(|d| self.health_of(d))
                .min()
                .unwrap_or(Health::Good),
        }
    }
}

fn group_states(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let picture = Picture::new(source)?;
    for group in &picture.groups {
        let of_group = |r: &&ReplicaState| r.group_id == group.group_id;
        let known = || picture.replicas.iter().filter(of_group);
        let primary = known().find(|r| r.role == Some(ReplicaRole::Primary));
        let server = primary.and_then(|p| {
            let named = group.replicas.iter().find(|r| r.replica_id == p.replica_id);
            named.map(|r| r.server.clone())
        });
        let here = picture.own_replica(group);
        let is_here = primary.is_some_and(|p| Some(p.replica_id) == here);
        rows.add()
            .set("group_id", guid(group.group_id))
            .set("primary_replica", server);
        // Each side knows of its own only.
        match is_here {
            true => rows
                .set("primary_recovery_health", 1)
                .set("primary_recovery_health_desc", "ONLINE"),
            false => rows
                .set("secondary_recovery_health", 1)
                .set("secondary_recovery_health_desc", "ONLINE"),
        };
        known()
            .map(|r| picture.health_of_replica(r))
            .min()
            .unwrap_or(Health::Bad)
            .set(rows);
    }
    Ok(())
}

fn replica_states(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let picture = Picture::new(source)?;
    for replica in &picture.replicas {
        let is_own = picture.is_own(replica.group_id, replica.replica_id);
        let role = replica.role.map(|role| match role {
            ReplicaRole::Resolving => (0, "RESOLVING"),
            ReplicaRole::Primary => (1, "PRIMARY"),
            ReplicaRole::Secondary => (2, "SECONDARY"),
        });
        rows.add()
            .set("replica_id", guid(replica.replica_id))
            .set("group_id", guid(replica.group_id))
            .set("is_local", is_own)
            .set("role", role.map(|(number, _)| number))
            .set("role_desc", role.map(|(_, name)| name));
        if is_own {
            let (state, name) = match replica.role {
                Some(ReplicaRole::Primary | ReplicaRole::Secondary) => (2, "ONLINE"),
                _ => (1, "PENDING"),
            };
            rows.set("operational_state", state)
                .set("operational_state_desc", name)
                .set("recovery_health", 1)
                .set("recovery_health_desc", "ONLINE");
        }
        let (connected, name) = match replica.is_connected {
            true => (1, "CONNECTED"),
            false => (0, "DISCONNECTED"),
        };
        rows.set("connected_state", connected)
            .set("connected_state_desc", name);
        picture.health_of_replica(replica).set(rows);
        if let Some((number, text, at)) = &replica.last_connect_error {
            rows.set("last_connect_error_number", *number)
                .set("last_connect_error_description", text)
                .set("last_connect_error_timestamp", source.time(*at));
        }
    }
    Ok(())
}

fn cluster_states(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let picture = Picture::new(source)?;
    for group in &picture.groups {
        for replica in &group.replicas {
            let found = |r: &ReplicaState| r.replica_id == replica.replica_id;
            let joined = picture
                .replicas
                .iter()
                .any(|r| found(r) && r.role.is_some());
            let (state, name) = match joined {
                true => (1, "JOINED_STANDALONE"),
                false => (0, "NOT_JOINED"),
            };
            rows.add()
                .set("replica_id", guid(replica.replica_id))
                .set("replica_server_name", &replica.server)
                .set("group_id", guid(group.group_id))
                .set("join_state", state)
                .set("join_state_desc", name);
        }
    }
    Ok(())
}

fn synchronization(state: SynchronizationState) -> (u8, &'static str) {
    match state {
        SynchronizationState::NotSynchronizing => (0, "NOT SYNCHRONIZING"),
        SynchronizationState::Synchronizing => (1, "SYNCHRONIZING"),
        SynchronizationState::Synchronized => (2, "SYNCHRONIZED"),
        SynchronizationState::Reverting => (3, "REVERTING"),
        SynchronizationState::Initializing => (4, "INITIALIZING"),
    }
}

fn suspended(reason: SuspendReason) -> (u8, &'static str) {
    match reason {
        SuspendReason::User => (0, "SUSPEND_FROM_USER"),
        SuspendReason::Partner => (1, "SUSPEND_FROM_PARTNER"),
        SuspendReason::Redo => (2, "SUSPEND_FROM_REDO"),
        SuspendReason::Capture => (3, "SUSPEND_FROM_CAPTURE"),
        SuspendReason::Apply => (4, "SUSPEND_FROM_APPLY"),
        SuspendReason::Restart => (5, "SUSPEND_FROM_RESTART"),
        SuspendReason::Undo => (6, "SUSPEND_FROM_UNDO"),
        SuspendReason::Revalidation => (7, "SUSPEND_FROM_REVALIDATION"),
    }
}

fn kib(bytes: u64) -> u64 {
    bytes / 1_024
}

fn database_states(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let picture = Picture::new(source)?;
    for state in &picture.databases {
        let (number, name) = synchronization(state.synchronization);
        let is_own = picture.is_own(state.group_id, state.replica_id);
        rows.add()
            .set("database_id", state.database_id.0)
            .set("group_id", guid(state.group_id))
            .set("replica_id", guid(state.replica_id))
            .set("group_database_id", guid(state.group_database_id))
            .set("is_local", is_own)
            .set("is_primary_replica", state.is_primary)
            .set("synchronization_state", number)
            .set("synchronization_state_desc", name)
            .set("is_commit_participant", state.is_commit_participant);
        picture.health_of(state).set(rows);
        if is_own {
            rows.set("database_state", 0)
                .set("database_state_desc", "ONLINE");
        }
        let reason = state.suspended.map(suspended);
        rows.set("is_suspended", reason.is_some())
            .set("suspend_reason", reason.map(|(number, _)| number))
            .set("suspend_reason_desc", reason.map(|(_, name)| name))
            .set("truncation_lsn", state.truncation_lsn.map(|l| l.0))
            .set("recovery_lsn", state.recovery_lsn.map(|l| l.0));
        let points = [
            ("last_sent_lsn", "last_sent_time", state.last_sent),
            (
                "last_received_lsn",
                "last_received_time",
                state.last_received,
            ),
            (
                "last_hardened_lsn",
                "last_hardened_time",
                state.last_hardened,
            ),
            ("last_redone_lsn", "last_redone_time", state.last_redone),
            ("last_commit_lsn", "last_commit_time", state.last_commit),
        ];
        for (lsn, time, point) in points {
            if let Some((at, when)) = point {
                rows.set(lsn, at.0).set(time, source.time(when));
            }
        }
        rows.set("log_send_queue_size", kib(state.log_send_queue_bytes))
            .set("log_send_rate", kib(state.log_send_bytes_per_second))
            .set("log_block_bytes", state.log_block_bytes)
            .set("log_block_sent_bytes", state.log_block_sent_bytes)
            .set("redo_queue_size", kib(state.redo_queue_bytes))
            .set("redo_rate", kib(state.redo_bytes_per_second))
            .set("end_of_log_lsn", state.end_of_log.map(|l| l.0))
            .set(
                "secondary_lag_seconds",
                state.secondary_lag_ms.map(|ms| ms / 1_000),
            );
    }
    Ok(())
}

fn database_cluster_states(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let picture = Picture::new(source)?;
    for group in &picture.groups {
        for database in &group.databases {
            for replica in &group.replicas {
                let id = (replica.replica_id, database.group_database_id);
                let is_it = |d: &&DatabaseReplicaState| (d.replica_id, d.group_database_id) == id;
                let state = picture.databases.iter().find(is_it);
                let is_own = names_equal(&replica.server, &picture.server);
                let ready = state.is_some_and(|s| {
                    s.synchronization == SynchronizationState::Synchronized && s.suspended.is_none()
                });
                rows.add()
                    .set("replica_id", guid(replica.replica_id))
                    .set("group_database_id", guid(database.group_database_id))
                    .set("database_name", &database.name)
                    .set("is_failover_ready", ready)
                    .set("is_pending_secondary_suspend", false)
                    .set(
                        "is_database_joined",
                        state.is_some() || is_own && database.is_joined,
                    )
                    .set(
                        "recovery_lsn",
                        state.and_then(|s| s.recovery_lsn).map(|l| l.0),
                    )
                    .set(
                        "truncation_lsn",
                        state.and_then(|s| s.truncation_lsn).map(|l| l.0),
                    );
            }
        }
    }
    Ok(())
}

fn seedings(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for seeding in source.instance()?.hadr.service().seedings() {
        let state = match (&seeding.failure, seeding.completed_utc) {
            (Some(_), _) => "FAILED",
            (None, Some(_)) => "COMPLETED",
            (None, None) => "SEEDING",
        };
        rows.add()
            .set("start_time", source.time(seeding.started_utc))
            .set(
                "completion_time",
                seeding.completed_utc.map(|at| source.time(at)),
            )
            .set("ag_id", guid(seeding.group_id))
            .set("ag_db_id", guid(seeding.group_database_id))
            .set("ag_remote_replica_id", guid(seeding.remote_replica_id))
            .set("operation_id", guid(seeding.operation_id))
            .set("is_source", seeding.is_source)
            .set("current_state", state)
            .set("performed_seeding", seeding.bytes_sent > 0)
            .set(
                "failure_state_desc",
                seeding.failure.as_ref().map(|(_, text)| text.clone()),
            )
            .set(
                "error_code",
                seeding.failure.as_ref().map(|(number, _)| *number),
            )
            .set("number_of_attempts", seeding.attempts);
    }
    Ok(())
}

fn seeding_stats(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let instance = source.instance()?;
    for seeding in instance.hadr.service().seedings() {
        let end = seeding.completed_utc.unwrap_or_else(|| instance.now_utc());
        let tenths = u64::try_from(end - seeding.started_utc).unwrap_or(0) / 1_000_000;
        let rate = seeding.bytes_sent.saturating_mul(10).checked_div(tenths);
        let entry = instance.database_named(&seeding.database);
        let (role, state) = match (seeding.is_source, seeding.completed_utc, &seeding.failure) {
            (_, _, Some(_)) => ("Unknown", "Failure"),
            (true, Some(_), _) => ("Source", "Success"),
            (false, Some(_), _) => ("Destination", "Success"),
            (true, None, _) => ("Source", "WaitingForRestoreToStart"),
            (false, None, _) => ("Destination", "ReadingAndSendingData"),
        };
        rows.add()
            .set("local_physical_seeding_id", guid(seeding.operation_id))
            .set("local_database_id", entry.map(|e| e.id().0))
            .set("local_database_name", &seeding.database)
            .set("role_desc", role)
            .set("internal_state_desc", state)
            .set("transfer_rate_bytes_per_second", rate)
            .set("transferred_size_bytes", seeding.bytes_sent)
            .set("database_size_bytes", seeding.bytes_total)
            .set("start_time_utc", source.utc(seeding.started_utc))
            .set(
                "end_time_utc",
                seeding.completed_utc.map(|at| source.utc(at)),
            )
            .set("is_compression_enabled", seeding.is_compressed)
            .set("transferred_wire_bytes", seeding.wire_bytes)
            .set(
                "failure_code",
                seeding.failure.as_ref().map(|(number, _)| *number),
            )
            .set(
                "failure_message",
                seeding.failure.as_ref().map(|(_, text)| text.clone()),
            );
    }
    Ok(())
}

fn page_repairs(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for repair in source.instance()?.hadr.service().page_repairs() {
        rows.add()
            .set("database_id", repair.database_id.0)
            .set("file_id", repair.file)
            .set("page_id", repair.page)
            .set("error_type", repair.error_type)
            .set("page_status", repair.status)
            .set("modification_time", source.time(repair.modified_utc));
    }
    Ok(())
}
