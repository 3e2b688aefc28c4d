//! Availability groups as they are defined: groups, replicas, databases, listeners, routing.

use super::define::{Rows, View};
use super::source::Source;
use crate::error::Result;
use crate::sysviews::define::Cell;
use daruma_catalog::*;
use std::sync::Arc;

pub(super) const VIEWS: &[View] = &[
    View::sys("availability_groups", AVAILABILITY_GROUPS, groups),
    View::sys("availability_replicas", AVAILABILITY_REPLICAS, replicas),
    View::sys(
        "availability_databases_cluster",
        AVAILABILITY_DATABASES_CLUSTER,
        databases,
    ),
    View::sys(
        "availability_group_listeners",
        AVAILABILITY_GROUP_LISTENERS,
        listeners,
    ),
    View::sys(
        "availability_group_listener_ip_addresses",
        AVAILABILITY_GROUP_LISTENER_IP_ADDRESSES,
        addresses,
    ),
    View::sys(
        "availability_read_only_routing_lists",
        AVAILABILITY_READ_ONLY_ROUTING_LISTS,
        routing,
    ),
];

const AVAILABILITY_GROUPS: &str = "
    group_id uniqueidentifier; name sysname?; resource_id nvarchar(40)?; resource_group_id nvarchar(40)?;
    failure_condition_level int?; health_check_timeout int?; automated_backup_preference tinyint?;
    automated_backup_preference_desc nvarchar(60)?; version smallint?; basic_features bit?; dtc_support bit?;
    db_failover bit?; is_distributed bit?; cluster_type tinyint?; cluster_type_desc nvarchar(60)?;
    required_synchronized_secondaries_to_commit int?; sequence_number bigint?; is_contained bit?";

const AVAILABILITY_REPLICAS: &str = "
    replica_id uniqueidentifier; group_id uniqueidentifier?; replica_metadata_id int?;
    replica_server_name nvarchar(256)?; owner_sid varbinary(85)?; endpoint_url nvarchar(256)?;
    availability_mode tinyint?; availability_mode_desc nvarchar(60)?; failover_mode tinyint?;
    failover_mode_desc nvarchar(60)?; session_timeout int?; primary_role_allow_connections tinyint?;
    primary_role_allow_connections_desc nvarchar(60)?; secondary_role_allow_connections tinyint?;
    secondary_role_allow_connections_desc nvarchar(60)?; create_date datetime?; modify_date datetime?;
    backup_priority int?; read_only_routing_url nvarchar(256)?; seeding_mode tinyint?;
    seeding_mode_desc nvarchar(60)?; read_write_routing_url nvarchar(256)?";

const AVAILABILITY_DATABASES_CLUSTER: &str = "
    group_id uniqueidentifier; group_database_id uniqueidentifier; database_name sysname?;
    truncation_lsn numeric(25,0)?";

const AVAILABILITY_GROUP_LISTENERS: &str = "
    group_id uniqueidentifier; listener_id nvarchar(36)?; dns_name nvarchar(63)?; port int?; is_conformant bit;
    ip_configuration_string_from_cluster nvarchar(max)?; is_distributed_network_name bit?";

const AVAILABILITY_GROUP_LISTENER_IP_ADDRESSES: &str = "
    listener_id nvarchar(36)?; ip_address nvarchar(48)?; ip_subnet_mask nvarchar(15)?; is_dhcp bit;
    network_subnet_ip nvarchar(48)?; network_subnet_prefix_length int?; network_subnet_ipv4_mask nvarchar(15)?;
    state tinyint?; state_desc nvarchar(60)?";

const AVAILABILITY_READ_ONLY_ROUTING_LISTS: &str = "
    replica_id uniqueidentifier; routing_priority int; read_only_replica_id uniqueidentifier";

/// Definitions for those who may see them.
pub(super) fn visible_groups(source: &Source<'_>) -> Result<Vec<Arc<GroupDef>>> {
    let may = ["VIEW ANY DEFINITION", "ALTER ANY AVAILABILITY GROUP"];
    match may.iter().any(|p| source.host.has_server_permission(p)) {
        true => Ok(source.instance()?.hadr.groups.all()),
        false => Ok(Vec::new()),
    }
}

pub(super) fn guid(id: [u8; 16]) -> Vec<u8> {
    id.to_vec()
}

/// A GUID as views of listeners write it.
fn guid_text(id: [u8; 16]) -> String {
    let [a, b, c, d, e, f, g, h, rest @ ..] = id;
    // The first three groups are little-endian.
    let digits = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02X}")).collect::<String>();
    let (clock, node) = rest.split_at(2);
    format!(
        "{}-{}-{}-{}-{}",
        digits(&[d, c, b, a]),
        digits(&[f, e]),
        digits(&[h, g]),
        digits(clock),
        digits(node)
    )
}

fn groups(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let groups = visible_groups(source)?;
    let service = match groups.is_empty() {
        true => None,
        false => Some(source.instance()?.hadr.service()),
    };
    for group in groups {
        let options = &group.options;
        let voted = service.as_ref();
        let voted = voted.and_then(|s| s.sequence_number(group.group_id));
        let (preference, preference_name) = match options.backup_preference {
            BackupPreference::Primary => (0, "PRIMARY"),
            BackupPreference::SecondaryOnly => (1, "SECONDARY_ONLY"),
            BackupPreference::Secondary => (2, "SECONDARY"),
            BackupPreference::None => (3, "NONE"),
        };
        let (cluster, cluster_name) = match options.cluster_type {
            ClusterType::Wsfc => (0, "WSFC"),
            ClusterType::External => (1, "EXTERNAL"),
            ClusterType::None => (2, "NONE"),
        };
        rows.add()
            .set("group_id", guid(group.group_id))
            .set("name", &group.name)
            .set("failure_condition_level", options.failure_condition_level)
            .set("health_check_timeout", options.health_check_timeout_ms)
            .set("automated_backup_preference", preference)
            .set("automated_backup_preference_desc", preference_name)
            .set("version", 1)
            .set("basic_features", false)
            .set("dtc_support", false)
            .set("db_failover", options.db_failover)
            .set("is_distributed", false)
            .set("cluster_type", cluster)
            .set("cluster_type_desc", cluster_name)
            .set(
                "required_synchronized_secondaries_to_commit",
                options.required_synchronized_secondaries,
            )
            .set("sequence_number", voted.unwrap_or(group.sequence_number))
            .set("is_contained", false);
    }
    Ok(())
}

fn replicas(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for group in visible_groups(source)? {
        for (replica, id) in group.replicas.iter().zip(1..) {
            rows.add()
                .set("replica_id", guid(replica.replica_id))
                .set("group_id", guid(group.group_id))
                .set("replica_metadata_id", id)
                .set("replica_server_name", &replica.server)
                .set("owner_sid", replica.owner_sid.clone())
                .set("endpoint_url", &replica.endpoint_url);
            modes(replica, rows);
            rows.set("session_timeout", replica.session_timeout_s)
                .set("create_date", source.time(replica.created_utc))
                .set("modify_date", source.time(replica.modified_utc))
                .set("backup_priority", replica.backup_priority)
                .set(
                    "read_only_routing_url",
                    replica.read_only_routing_url.clone(),
                )
                .set(
                    "read_write_routing_url",
                    replica.read_write_routing_url.clone(),
                );
        }
    }
    Ok(())
}

fn modes(replica: &ReplicaDef, rows: &mut Rows<'_>) {
    let (availability, availability_name) = match replica.availability_mode {
        AvailabilityMode::Asynchronous => (0, "ASYNCHRONOUS_COMMIT"),
        AvailabilityMode::Synchronous => (1, "SYNCHRONOUS_COMMIT"),
        AvailabilityMode::ConfigurationOnly => (4, "CONFIGURATION_ONLY"),
    };
    let (failover, failover_name) = match replica.failover_mode {
        FailoverMode::Automatic => (0, "AUTOMATIC"),
        FailoverMode::Manual => (1, "MANUAL"),
        FailoverMode::External => (2, "EXTERNAL"),
    };
    let (primary, primary_name) = match replica.primary_connections {
        PrimaryConnections::All => (2, "ALL"),
        PrimaryConnections::ReadWrite => (3, "READ_WRITE"),
    };
    let (secondary, secondary_name) = match replica.secondary_connections {
        SecondaryConnections::No => (0, "NO"),
        SecondaryConnections::ReadOnly => (1, "READ_ONLY"),
        SecondaryConnections::All => (2, "ALL"),
    };
    let (seeding, seeding_name) = match replica.seeding_mode {
        SeedingMode::Automatic => (0, "AUTOMATIC"),
        SeedingMode::Manual => (1, "MANUAL"),
    };
    rows.set("availability_mode", availability)
        .set("availability_mode_desc", availability_name)
        .set("failover_mode", failover)
        .set("failover_mode_desc", failover_name)
        .set("primary_role_allow_connections", primary)
        .set("primary_role_allow_connections_desc", primary_name)
        .set("secondary_role_allow_connections", secondary)
        .set("secondary_role_allow_connections_desc", secondary_name)
        .set("seeding_mode", seeding)
        .set("seeding_mode_desc", seeding_name);
}

fn databases(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for group in visible_groups(source)? {
        for database in &group.databases {
            rows.add()
                .set("group_id", guid(group.group_id))
                .set("group_database_id", guid(database.group_database_id))
                .set("database_name", &database.name);
        }
    }
    Ok(())
}

fn listeners(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for group in visible_groups(source)? {
        let Some(listener) = &group.listener else {
            continue;
        };
        rows.add()
            .set("group_id", guid(group.group_id))
            .set("listener_id", guid_text(listener.listener_id))
            .set("dns_name", &listener.dns_name)
            .set("port", listener.port)
            .set("is_conformant", true)
            .set("is_distributed_network_name", false);
        let addresses = listener.addresses.iter();
        let shown: Vec<String> = addresses
            .map(|a| format!("'IP Address: {}'", a.address))
            .collect();
        if !shown.is_empty() {
            rows.set(
                "ip_configuration_string_from_cluster",
                format!("({})", shown.join(" or ")),
            );
        }
    }
    Ok(())
}

fn addresses(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let service = source.instance()?.hadr.service();
    for group in visible_groups(source)? {
        let Some(listener) = &group.listener else {
            continue;
        };
        for address in &listener.addresses {
            rows.add()
                .set("listener_id", guid_text(listener.listener_id))
                .set("ip_address", &address.address)
                .set("ip_subnet_mask", address.subnet_mask.clone())
                .set("is_dhcp", false)
                .set("network_subnet_ipv4_mask", address.subnet_mask.clone())
                .set("state", Cell::Null);
            // Known of the primary's own addresses only.
            match service.listener_is_open(group.group_id, &address.address) {
                Some(true) => rows.set("state", 1).set("state_desc", "ONLINE"),
                Some(false) => rows.set("state", 3).set("state_desc", "FAILED"),
                None => rows,
            };
        }
    }
    Ok(())
}

fn routing(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for group in visible_groups(source)? {
        for replica in &group.replicas {
            for (place, priority) in replica.read_only_routing.iter().zip(1..) {
                for target in place.iter().filter_map(|server| group.replica(server)) {
                    rows.add()
                        .set("replica_id", guid(replica.replica_id))
                        .set("routing_priority", priority)
                        .set("read_only_replica_id", guid(target.replica_id));
                }
            }
        }
    }
    Ok(())
}
