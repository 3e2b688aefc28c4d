//! The cluster that the server is a node of. No rows where it is none, or has no quorum.

use super::define::{Rows, View};
use super::source::Source;
use crate::error::Result;
use crate::instance::hadr::{ClusterMemberKind, ClusterSeen};

pub(super) const VIEWS: &[View] = &[
    View::sys("dm_hadr_cluster", DM_HADR_CLUSTER, cluster),
    View::sys("dm_hadr_cluster_members", DM_HADR_CLUSTER_MEMBERS, members),
];

const DM_HADR_CLUSTER: &str = "
    cluster_name nvarchar(128); quorum_type tinyint; quorum_type_desc nvarchar(60); quorum_state tinyint;
    quorum_state_desc nvarchar(60)";

const DM_HADR_CLUSTER_MEMBERS: &str = "
    member_name nvarchar(128); member_type tinyint; member_type_desc nvarchar(60); member_state tinyint;
    member_state_desc nvarchar(60); number_of_quorum_votes tinyint?";

fn seen(source: &Source<'_>) -> Result<Option<ClusterSeen>> {
    let cluster = source.instance()?.hadr.service().cluster();
    Ok(cluster.filter(|c| c.quorum))
}

fn cluster(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let Some(cluster) = seen(source)? else {
        return Ok(());
    };
    let mut kinds = cluster.members.iter().map(|m| m.kind);
    let witness = kinds.find(|k| *k != ClusterMemberKind::Node);
    let (kind, kind_desc) = match witness {
        Some(ClusterMemberKind::DiskWitness) => (1u8, "NODE_AND_DISK_MAJORITY"),
        Some(ClusterMemberKind::ShareWitness) => (2, "NODE_AND_FILE_SHARE_MAJORITY"),
        Some(ClusterMemberKind::CloudWitness) => (5, "CLOUD_WITNESS"),
        Some(ClusterMemberKind::Node) | None => (0, "NODE_MAJORITY"),
    };
    rows.add()
        .set("cluster_name", cluster.name)
        .set("quorum_type", kind)
        .set("quorum_type_desc", kind_desc)
        .set("quorum_state", 1u8)
        .set("quorum_state_desc", "NORMAL_QUORUM");
    Ok(())
}

fn members(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let members = seen(source)?.map(|c| c.members).unwrap_or_default();
    for member in members {
        let (kind, kind_desc) = match member.kind {
            ClusterMemberKind::Node => (0u8, "CLUSTER_NODE"),
            ClusterMemberKind::DiskWitness => (1, "DISK_WITNESS"),
            ClusterMemberKind::ShareWitness => (2, "FILE_SHARE_WITNESS"),
            ClusterMemberKind::CloudWitness => (3, "CLOUD_WITNESS"),
        };
        let state_desc = match member.is_up {
            true => "UP",
            false => "DOWN",
        };
        rows.add()
            .set("member_name", member.name)
            .set("member_type", kind)
            .set("member_type_desc", kind_desc)
            .set("member_state", u8::from(member.is_up))
            .set("member_state_desc", state_desc)
            .set("number_of_quorum_votes", member.votes);
    }
    Ok(())
}
