//! What the threads of requests do, in the product's words: a task and a worker for each request that runs.
//!
//! A request here is one thread, so the addresses of its task and its worker are one number, that of its session.

use super::activity::{SessionLine, session_lines, task_address};
use super::define::{Rows, View};
use super::source::Source;
use crate::error::Result;

pub(super) const VIEWS: &[View] = &[
    View::sys("dm_os_tasks", TASKS, tasks),
    View::sys("dm_os_workers", WORKERS, workers),
];

const TASKS: &str = "
    task_address varbinary(8); task_state nvarchar(60)?; context_switches_count int?; pending_io_count int?;
    pending_io_byte_count bigint?; pending_io_byte_average int?; scheduler_id int; session_id smallint?;
    exec_context_id int?; request_id int?; worker_address varbinary(8)?; host_address varbinary(8);
    parent_task_address varbinary(8)?";

fn running(source: &Source<'_>) -> Result<Vec<SessionLine>> {
    let mut lines = session_lines(source)?;
    lines.retain(SessionLine::is_running);
    Ok(lines)
}

fn state(line: &SessionLine) -> &'static str {
    match line.status() {
        "suspended" => "SUSPENDED",
        _ => "RUNNING",
    }
}

fn tasks(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for line in running(source)? {
        rows.add()
            .set("task_address", task_address(line.spid()))
            .set("task_state", state(&line))
            .set("session_id", line.spid())
            .set("exec_context_id", 0)
            .set("request_id", 0)
            .set("worker_address", task_address(line.spid()));
    }
    Ok(())
}

const WORKERS: &str = "
    worker_address varbinary(8); status int; is_preemptive bit? = 1; is_fiber bit? = 0; is_sick bit? = 0;
    is_in_cc_exception bit? = 0; is_fatal_exception bit? = 0; is_inside_catch bit? = 0; is_in_polling_io_completion_routine bit? = 0;
    context_switch_count int; pending_io_count int; pending_io_byte_count bigint; pending_io_byte_average int;
    wait_started_ms_ticks bigint; wait_resumed_ms_ticks bigint; task_bound_ms_ticks bigint; worker_created_ms_ticks bigint;
    exception_num int; exception_severity int; exception_address varbinary(8)?; affinity bigint; state nvarchar(60)?;
    start_quantum bigint; end_quantum bigint; last_wait_type nvarchar(60)?; return_code int; quantum_used bigint;
    max_quantum bigint; boost_count int; tasks_processed_count int; fiber_address varbinary(8)?; task_address varbinary(8)?;
    memory_object_address varbinary(8)?; thread_address varbinary(8)?; signal_worker_address varbinary(8)?;
    scheduler_address varbinary(8)?; processor_group smallint; worker_migration_count int";

fn workers(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let started = source.instance()?.started_utc();
    for line in running(source)? {
        let bound_ms = (line.request_start_utc() - started) / 10_000;
        rows.add()
            .set("worker_address", task_address(line.spid()))
            .set("wait_resumed_ms_ticks", bound_ms)
            .set("task_bound_ms_ticks", bound_ms)
            .set("state", state(&line))
            .set("task_address", task_address(line.spid()));
    }
    Ok(())
}
