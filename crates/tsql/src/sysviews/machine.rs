//! The machine and the server's habits in the product's words: one node of processors and memory, no extension of the pool
//! on disk, no tuning that changes plans by itself, diagnostics beside the error log.

use super::define::{Rows, View};
use super::source::Source;
use crate::error::Result;
use daruma_base::memory;

pub(super) const VIEWS: &[View] = &[
    View::sys("dm_os_nodes", NODES, nodes),
    View::sys("dm_os_memory_nodes", MEMORY_NODES, memory_nodes),
    View::sys(
        "dm_os_buffer_pool_extension_configuration",
        POOL_EXTENSION,
        one_row,
    ),
    View::sys(
        "dm_os_server_diagnostics_log_configurations",
        DIAGNOSTICS,
        diagnostics,
    ),
    View::sys("database_automatic_tuning_options", TUNING, one_row),
];

fn one_row(_: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    rows.add();
    Ok(())
}

const NODES: &str = "
    node_id smallint; node_state_desc nvarchar(256) = ONLINE; memory_object_address varbinary(8) = 0x;
    memory_clerk_address varbinary(8) = 0x; io_completion_worker_address varbinary(8)?; memory_node_id smallint;
    cpu_affinity_mask bigint; online_scheduler_count smallint; idle_scheduler_count smallint; active_worker_count int;
    avg_load_balance int; timer_task_affinity_mask bigint; permanent_task_affinity_mask bigint; resource_monitor_state bit;
    online_scheduler_mask bigint; processor_group smallint; cpu_count int";

fn nodes(_: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    rows.add()
        .set("online_scheduler_count", processors)
        .set("cpu_count", processors);
    Ok(())
}

const MEMORY_NODES: &str = "
    memory_node_id smallint; virtual_address_space_reserved_kb bigint; virtual_address_space_committed_kb bigint;
    locked_page_allocations_kb bigint; pages_kb bigint; shared_memory_reserved_kb bigint; shared_memory_committed_kb bigint;
    cpu_affinity_mask bigint; online_scheduler_mask bigint; processor_group smallint; foreign_committed_kb bigint;
    target_kb bigint";

fn memory_nodes(_: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let kib = memory::total_bytes().max(0) / 1_024;
    rows.add()
        .set("virtual_address_space_committed_kb", kib)
        .set("pages_kb", kib);
    Ok(())
}

const POOL_EXTENSION: &str = "
    path nvarchar(256)?; file_id int?; state int? = 0; state_description nvarchar(60)? = BUFFER POOL EXTENSION DISABLED;
    current_size_in_kb bigint? = 0";

const DIAGNOSTICS: &str = "is_enabled bit? = 0; path nvarchar(260)?; max_size int?; max_files int?";

/// The folder of the error log; nothing is written but what that has.
fn diagnostics(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let log = source.instance()?.log.path(0);
    let folder = log.parent().map(|p| p.display().to_string());
    rows.add().set("path", folder);
    Ok(())
}

const TUNING: &str = "
    name nvarchar(128)? = FORCE_LAST_GOOD_PLAN; desired_state smallint? = 0; desired_state_desc nvarchar(60)? = OFF;
    actual_state smallint? = 0; actual_state_desc nvarchar(60)? = OFF; reason smallint?; reason_desc nvarchar(60)?";
