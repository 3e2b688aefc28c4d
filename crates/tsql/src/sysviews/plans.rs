//! Kept plans: their texts, what their executions cost, and their operators.
//!
//! Theory: a handle is made of a hash of the text, so it finds the text for as long as the cache holds it and tells
//! nothing afterwards, as in the product. The handle of a session stands for the text the session runs now.

use super::define::{Rows, View};
use super::source::Source;
use crate::error::Result;
use crate::instance::query_stats::Figure;
use crate::instance::{Batch, SessionEntry, ShownPlan};
use crate::showplan::{Document, Plans, document, plan_hash, query_hash};
use daruma_base::DatabaseId;
use daruma_syntax::ast::StatementKind;
use daruma_value::Value;
use std::sync::Arc;
use std::sync::atomic::Ordering;

pub(super) const VIEWS: &[View] = &[
    View::sys("dm_exec_query_stats", QUERY_STATS, query_stats),
    View::sys("dm_exec_cached_plans", CACHED_PLANS, cached_plans),
    View::function("dm_exec_sql_text", (1, 1), SQL_TEXT, sql_text),
    View::function(
        "dm_exec_plan_attributes",
        (1, 1),
        PLAN_ATTRIBUTES,
        plan_attributes,
    ),
    View::function("dm_exec_query_plan", (1, 1), QUERY_PLAN, query_plan),
    View::function(
        "dm_exec_text_query_plan",
        (3, 3),
        TEXT_QUERY_PLAN,
        text_query_plan,
    ),
];

const HANDLE_BYTES: usize = 44;
const SESSION: [u8; 4] = [2, 0, 0, 0];
const TEXT: [u8; 4] = [2, 0, 0, 1];

/// Handle of the text that a session runs.
pub(super) fn session_handle(spid: i32) -> Vec<u8> {
    padded(&[SESSION, spid.to_be_bytes()].concat())
}

fn text_handle(batch: &Batch) -> Vec<u8> {
    padded(&[&TEXT[..], &batch.hash.to_be_bytes()].concat())
}

fn plan_handle(batch: &Batch, database: DatabaseId) -> Vec<u8> {
    let kind = [6, 0];
    padded(
        &[
            &kind[..],
            &database.0.to_le_bytes(),
            &batch.hash.to_be_bytes(),
        ]
        .concat(),
    )
}

fn padded(bytes: &[u8]) -> Vec<u8> {
    let mut handle = bytes.to_vec();
    handle.resize(HANDLE_BYTES, 0);
    handle
}

/// Batch or plan that a handle stands for.
enum Found {
    Session(Arc<SessionEntry>),
    /// A text, and the database that the plans meant run in; `None`: the text alone is meant.
    Batch(Arc<Batch>, Option<DatabaseId>),
}

fn found(source: &Source<'_>) -> Result<Option<Found>> {
    let Some(Value::Bytes(handle)) = source.arguments.first() else {
        return Ok(None);
    };
    let instance = source.instance()?;
    let Some((kind, rest)) = handle.split_first_chunk::<4>() else {
        return Ok(None);
    };
    if *kind == SESSION {
        let spid = rest.first_chunk().map(|b| i32::from_be_bytes(*b));
        let entry = spid.and_then(|spid| instance.sessions.get(spid));
        return Ok(entry.map(Found::Session));
    }
    let hash = rest.first_chunk().map(|b| u64::from_be_bytes(*b));
    let database = match *kind {
        TEXT => None,
        [6, 0, low, high] => Some(DatabaseId(u16::from_le_bytes([low, high]))),
        _ => return Ok(None),
    };
    let is_meant = |batch: &Arc<Batch>| {
        let runs_there = |of| batch.shown_plans().iter().any(|p| p.database == of);
        Some(batch.hash) == hash && database.is_none_or(runs_there)
    };
    let batch = instance.plans.all().into_iter().find(is_meant);
    Ok(batch.map(|batch| Found::Batch(batch, database)))
}

/// The plans of a text that run in the database meant.
fn plans_in(batch: &Batch, database: Option<DatabaseId>) -> Vec<ShownPlan> {
    let mut plans = batch.shown_plans();
    plans.retain(|plan| database.is_none_or(|of| plan.database == of));
    plans
}

const SQL_TEXT: &str =
    "dbid smallint?; objectid int?; number smallint?; encrypted bit; text nvarchar(max)?";

fn sql_text(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    match found(source)? {
        Some(Found::Session(entry)) => {
            rows.add().set("text", &*entry.activity.lock().text);
        }
        Some(Found::Batch(batch, _)) => {
            rows.add().set("text", &*batch.text);
        }
        None => {}
    }
    Ok(())
}

const PLAN_ATTRIBUTES: &str = "attribute varchar(128); value sql_variant?; is_cache_key bit";

/// The database that a plan is for; what else it depends on is not told by a handle.
fn plan_attributes(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    if let Some(Found::Batch(_, Some(database))) = found(source)? {
        rows.add()
            .set("attribute", "dbid")
            .set("value", i32::from(database.0))
            .set("is_cache_key", true);
    }
    Ok(())
}

const QUERY_PLAN: &str =
    "dbid smallint?; objectid int?; number smallint?; encrypted bit; query_plan xml?";

/// Plans of all the statements of a text. NULL where the document is deeper than the type `xml` allows.
fn query_plan(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    if let Some(Found::Batch(batch, database)) = found(source)? {
        let plans = plans_in(&batch, database);
        let document = drawn(&batch, &plans, None).filter(Document::is_value);
        let database = plans.first().map(|p| i64::from(p.database.0));
        let row = rows.add();
        row.set("dbid", database);
        row.set("query_plan", document.map(|d| d.text));
    }
    Ok(())
}

fn drawn(batch: &Batch, shown: &[ShownPlan], only: Option<usize>) -> Option<Document> {
    let mut plans = Plans::default();
    for plan in shown {
        plans.add(plan.span.start, plan.plan.clone());
    }
    document(batch, &plans, only)
}

const TEXT_QUERY_PLAN: &str =
    "dbid smallint?; objectid int?; number smallint?; encrypted bit; query_plan nvarchar(max)?";

/// The same as text, however deep: of the statement that begins at the first offset, or of all.
fn text_query_plan(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let Some(Found::Batch(batch, database)) = found(source)? else {
        return Ok(());
    };
    let plans = plans_in(&batch, database);
    let wanted = source.integer_argument(1).filter(|start| *start > 0);
    let start = match wanted {
        None => None,
        Some(wanted) => match plans.iter().find(|p| offsets(&batch, p).0 == wanted) {
            Some(plan) => Some(plan.span.start),
            None => return Ok(()),
        },
    };
    let database = plans.first().map(|p| i64::from(p.database.0));
    let row = rows.add();
    row.set("dbid", database);
    row.set("query_plan", drawn(&batch, &plans, start).map(|d| d.text));
    Ok(())
}

fn offsets(batch: &Batch, shown: &ShownPlan) -> (i64, i64) {
    utf16_offsets(&batch.text, shown.span.start..shown.span.end)
}

/// First byte of a part of a text as UTF-16, and the byte behind it; -1 is the end of the text.
pub(super) fn utf16_offsets(text: &str, part: std::ops::Range<usize>) -> (i64, i64) {
    let bytes = |end: usize| {
        let before = text.get(..end).unwrap_or_default();
        before.encode_utf16().count() as i64 * 2
    };
    let rest = text.get(part.end..).unwrap_or_default();
    let end = match rest.trim().is_empty() || part.is_empty() {
        true => -1,
        false => bytes(part.end),
    };
    (bytes(part.start), end)
}

/// The last four columns are of our own: microseconds that the executions waited.
const QUERY_STATS: &str = "
    sql_handle varbinary(64); statement_start_offset int; statement_end_offset int; plan_generation_num bigint; plan_handle varbinary(64);
    creation_time datetime?; last_execution_time datetime?; execution_count bigint;
    total_worker_time bigint; last_worker_time bigint; min_worker_time bigint; max_worker_time bigint;
    total_physical_reads bigint; last_physical_reads bigint; min_physical_reads bigint; max_physical_reads bigint;
    total_logical_writes bigint; last_logical_writes bigint; min_logical_writes bigint; max_logical_writes bigint;
    total_logical_reads bigint; last_logical_reads bigint; min_logical_reads bigint; max_logical_reads bigint;
    total_clr_time bigint; last_clr_time bigint; min_clr_time bigint; max_clr_time bigint;
    total_elapsed_time bigint; last_elapsed_time bigint; min_elapsed_time bigint; max_elapsed_time bigint;
    query_hash binary(8)?; query_plan_hash binary(8)?;
    total_rows bigint?; last_rows bigint?; min_rows bigint?; max_rows bigint?;
    statement_sql_handle varbinary(64)?; statement_context_id bigint?;
    total_dop bigint? = 0; last_dop bigint? = 0; min_dop bigint? = 0; max_dop bigint? = 0;
    total_grant_kb bigint? = 0; last_grant_kb bigint? = 0; min_grant_kb bigint? = 0; max_grant_kb bigint? = 0;
    total_used_grant_kb bigint? = 0; last_used_grant_kb bigint? = 0; min_used_grant_kb bigint? = 0; max_used_grant_kb bigint? = 0;
    total_ideal_grant_kb bigint? = 0; last_ideal_grant_kb bigint? = 0; min_ideal_grant_kb bigint? = 0; max_ideal_grant_kb bigint? = 0;
    total_reserved_threads bigint? = 0; last_reserved_threads bigint? = 0; min_reserved_threads bigint? = 0; max_reserved_threads bigint? = 0;
    total_used_threads bigint? = 0; last_used_threads bigint? = 0; min_used_threads bigint? = 0; max_used_threads bigint? = 0;
    total_columnstore_segment_reads bigint? = 0; last_columnstore_segment_reads bigint? = 0; min_columnstore_segment_reads bigint? = 0; max_columnstore_segment_reads bigint? = 0;
    total_columnstore_segment_skips bigint? = 0; last_columnstore_segment_skips bigint? = 0; min_columnstore_segment_skips bigint? = 0; max_columnstore_segment_skips bigint? = 0;
    total_spills bigint? = 0; last_spills bigint? = 0; min_spills bigint? = 0; max_spills bigint? = 0;
    total_num_physical_reads bigint? = 0; last_num_physical_reads bigint? = 0; min_num_physical_reads bigint? = 0; max_num_physical_reads bigint? = 0;
    total_page_server_reads bigint? = 0; last_page_server_reads bigint? = 0; min_page_server_reads bigint? = 0; max_page_server_reads bigint? = 0;
    total_num_page_server_reads bigint? = 0; last_num_page_server_reads bigint? = 0; min_num_page_server_reads bigint? = 0; max_num_page_server_reads bigint? = 0;
    total_wait_time bigint; total_log_wait_time bigint; total_lock_wait_time bigint; total_io_wait_time bigint";

fn query_stats(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let clock = &source.instance()?.env().clock;
    let (utc, monotonic) = (clock.utc_100ns(), clock.monotonic());
    for batch in source.instance()?.plans.all() {
        for shown in batch.shown_plans() {
            let Some(stats) = shown.plan.stats() else {
                continue;
            };
            let figures = stats.figures();
            if figures.executions == 0 {
                continue;
            }
            let (start, end) = offsets(&batch, &shown);
            let ago = monotonic.saturating_sub(figures.last_start).as_nanos() / 100;
            let last = utc - i64::try_from(ago).unwrap_or(0);
            let row = rows.add();
            row.set("sql_handle", text_handle(&batch))
                .set("statement_start_offset", start)
                .set("statement_end_offset", end)
                .set("plan_generation_num", shown.generation as i64)
                .set("plan_handle", plan_handle(&batch, shown.database))
                .set("creation_time", source.time(stats.created_utc))
                .set("last_execution_time", source.time(last))
                .set("execution_count", figures.executions as i64)
                .set(
                    "query_hash",
                    hash_bytes(query_hash(shown.span.text(&batch.text))),
                )
                .set(
                    "query_plan_hash",
                    shown.plan.picture().map(|p| hash_bytes(plan_hash(&p))),
                );
            for (name, figure) in [
                ("worker_time", figures.worker_us),
                ("elapsed_time", figures.elapsed_us),
                ("logical_reads", figures.logical_reads),
                ("physical_reads", figures.physical_reads),
                ("logical_writes", figures.logical_writes),
                ("rows", figures.rows),
            ] {
                set_figure(row, name, figure);
            }
            for (name, ns) in [
                ("total_wait_time", figures.waits.all),
                ("total_log_wait_time", figures.waits.log),
                ("total_lock_wait_time", figures.waits.lock),
                ("total_io_wait_time", figures.waits.io),
            ] {
                row.set(name, (ns / 1_000) as i64);
            }
        }
    }
    Ok(())
}

fn hash_bytes(hash: u64) -> Vec<u8> {
    hash.to_be_bytes().to_vec()
}

fn set_figure(row: &mut Rows<'_>, name: &str, figure: Figure) {
    let parts = [
        ("total", figure.total),
        ("last", figure.last),
        ("min", figure.min),
        ("max", figure.max),
    ];
    for (part, value) in parts {
        row.set(&format!("{part}_{name}"), value as i64);
    }
}

const CACHED_PLANS: &str = "
    bucketid int; refcounts int = 2; usecounts int; size_in_bytes int; memory_object_address varbinary(8) = 0x;
    cacheobjtype nvarchar(50) = Compiled Plan; objtype nvarchar(20); plan_handle varbinary(64); pool_id int = 2;
    parent_plan_handle varbinary(64)?";

fn cached_plans(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for batch in source.instance()?.plans.all() {
        let plans = batch.shown_plans();
        let Some(first) = plans.first() else {
            continue;
        };
        let executions = plans.iter().filter_map(|p| p.plan.stats());
        let most = executions.map(|s| s.figures().executions).max();
        rows.add()
            .set("bucketid", (batch.hash % 40_009) as i64)
            .set("usecounts", batch.uses().max(most.unwrap_or(0)) as i64)
            .set("size_in_bytes", batch.text.len() as i64 * 2)
            .set("objtype", object_type(&batch))
            .set("plan_handle", plan_handle(&batch, first.database));
    }
    Ok(())
}

fn object_type(batch: &Batch) -> &'static str {
    match batch.statements.first().map(|s| &s.kind) {
        Some(StatementKind::CreateProcedure(_)) => "Proc",
        Some(StatementKind::CreateTrigger(_)) => "Trigger",
        Some(StatementKind::CreateView(_)) => "View",
        _ if batch.is_prepared.load(Ordering::Relaxed) => "Prepared",
        _ => "Adhoc",
    }
}
