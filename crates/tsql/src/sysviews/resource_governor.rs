//! Resource governor: it cannot be configured here, so its two pools and two groups are those that are always there.

use super::define::{Rows, View};
use super::source::Source;
use crate::error::Result;

pub(super) const VIEWS: &[View] = &[
    View::sys("resource_governor_resource_pools", POOLS, pools),
    View::sys("resource_governor_workload_groups", GROUPS, groups),
];

/// Of the server itself, and of everybody else.
const NAMES: [(i32, &str); 2] = [(1, "internal"), (2, "default")];

const POOLS: &str = "
    pool_id int; name sysname; min_cpu_percent int; max_cpu_percent int = 100; min_memory_percent int;
    max_memory_percent int = 100; cap_cpu_percent int = 100; min_iops_per_volume int; max_iops_per_volume int";

fn pools(_: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for (id, name) in NAMES {
        rows.add().set("pool_id", id).set("name", name);
    }
    Ok(())
}

const GROUPS: &str = "
    group_id int; name sysname; importance sysname = Medium; request_max_memory_grant_percent int = 25;
    request_max_cpu_time_sec int; request_memory_grant_timeout_sec int; max_dop int; group_max_requests int; pool_id int;
    external_pool_id int = 2; request_max_memory_grant_percent_numeric float = 25";

fn groups(_: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for (id, name) in NAMES {
        rows.add()
            .set("group_id", id)
            .set("name", name)
            .set("pool_id", id);
    }
    Ok(())
}
