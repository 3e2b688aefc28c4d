//! Queries from syntax tree to rows: the API that the session and `dml` use.
//!
//! Theory: `prepare_*` binds and plans once; the plan is immutable, shared and may be kept while
//! `Host::catalog_version` stays the same. `open` starts one execution; variables, the clock and data are read then.
//! Operators pull batches of rows from each other.
//!
//! * A query: [`prepare_select`], [`SelectPlan::columns`], [`open`], [`RowStream::next`]. `SELECT @v = ..`
//!   ([`SelectPlan::is_assignment`]) runs through [`run_assignment`]. `INTO` is ignored here.
//! * An expression or condition by itself (SET, IF, RETURN, CHECK, DEFAULT, computed columns, OUTPUT):
//!   [`prepare_scalar`], [`prepare_condition`] over a [`Scope`] that says what a row holds.
//! * Rows to update or delete: [`prepare_target`] gives a [`TargetPlan`] whose rows hold the target's columns, its key,
//!   its `Stamp` and the values of further expressions.
//!
//! Read next: `binder`, `planner`, `batch`, `columns`, `expr`, `vector`.

mod accumulate;
mod aggregate;
mod api;
mod batch;
mod builtin;
mod columns;
pub(crate) mod context;
mod counts;
mod cursor;
mod exposed;
pub(crate) mod expr;
pub(crate) mod function;
mod hash_join;
mod keep;
mod kept;
mod kept_rows;
mod key_table;
mod known_rows;
mod memo;
mod merge_join;
mod nested_loop;
mod numbering;
mod open_json;
mod open_xml;
pub(crate) mod operator;
mod per_group;
pub(crate) mod plan;
mod recursive;
mod scan;
mod set_hash;
mod shared_rows;
mod sort;
mod sorter;
mod spill;
mod subplan;
mod tally;
mod top;
mod value_set;
mod vector;
mod window;
mod window_tree;
pub(crate) mod xml;

#[cfg(test)]
mod column_tests;
#[cfg(test)]
mod tests;

pub(crate) use api::with_room;
pub use api::{
    ConditionEvaluator, ConditionPlan, RowStream, ScalarEvaluator, ScalarPlan, Scope, ScopeColumn,
    ScopeTable, SelectPlan, TargetPlan, TargetSpec, gives_the_same, gives_the_same_if,
    literal_value, open, open_target, prepare_condition, prepare_limited_select, prepare_scalar,
    prepare_select, prepare_stored_condition, prepare_stored_scalar, prepare_target,
    run_assignment,
};
pub use batch::RowBatch;
pub(crate) use batch::length_max;
pub(crate) use builtin::builtin_table;
pub(crate) use context::SPILLED_BYTES_MIN;
pub use counts::{Actual, ActualRows};
pub(crate) use cursor::{LivePlan, Rereads, RowPin, pin_target, prepare_cursor};
pub use exposed::{Exposed, ViewTarget, bind_query, function_columns, is_updatable, view_target};
pub use kept::KeptPlan;
pub(crate) use key_table::KeyTable;
pub use open_json::{JsonColumn, OpenJson};
pub use open_xml::{OpenXml, XmlColumn};
pub use shared_rows::{ReadBlock, RowGatherer, SharedRows};
pub(crate) use spill::{PARTITIONS, Partitions, partition_of, scratch_error};
pub use spill::{SpillFile, row_bytes};
