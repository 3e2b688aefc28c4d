//! Physical plans: what the planner makes and operators run. Immutable, shared, free of names.
//!
//! Theory: a node gives rows whose values stand in the order of `schema`. Expressions inside name them by position, or
//! parameters that an outer row has set.

use super::cursor::RowPin;
use super::expr::{Cond, Expr};
use crate::access::{IndexAccess, TableAccess};
use crate::binder::tree::{AggregateFunction, ColId, WindowFrame, WindowFunction};
use crate::host::{Access, VirtualTable};
use daruma_base::DatabaseId;
use daruma_storage::LockMode;
use daruma_value::{CollationId, DataType};
use std::sync::Arc;

pub use crate::binder::tree::JoinKind;
use crate::planner::growth::Input;

/// An immutable plan, shared by all sessions that run the statement.
pub struct Plan {
    pub root: Node,
    pub parameters: usize,
    /// Column that each parameter stands for, for SHOWPLAN.
    pub parameter_columns: Vec<ColId>,
    /// Variables read, lower case.
    pub variables: Vec<Arc<str>>,
    pub subplans: Vec<Subplan>,
    /// The tables whose sizes decided.
    pub inputs: Vec<Input>,
}

impl Plan {
    /// Were the tables of quite another size when the plan was made?
    pub fn is_outdated(&self) -> bool {
        self.inputs.iter().any(Input::has_changed)
    }
}

/// A subquery that is evaluated for rows of its surroundings.
pub struct Subplan {
    pub node: Node,
    /// Parameters it reads: the key of its memory.
    pub reads: Vec<usize>,
    /// Expressions over them whose values are the key where none of them fails; empty where the parameters themselves are.
    pub key: Vec<Expr>,
    /// Asked again for the same parameters it may answer otherwise.
    pub is_volatile: bool,
}

/// An operator with the columns of its rows.
#[derive(Clone)]
pub struct Node {
    pub op: Op,
    pub schema: Vec<ColId>,
    /// Estimated rows and cost, for choosing and for SHOWPLAN.
    pub rows: f64,
    pub cost: f64,
    /// Columns the rows are ordered by.
    pub order: Vec<(ColId, bool)>,
}

/// The operators that SHOWPLAN names.
#[derive(Clone)]
pub enum Op {
    One,
    Empty,
    Scan(Arc<ScanNode>),
    Virtual(Arc<VirtualNode>),
    Values(Arc<Vec<Vec<Expr>>>),
    Filter(Arc<FilterNode>),
    Compute(Arc<ComputeNode>),
    NestedLoop(Arc<NestedLoopNode>),
    HashJoin(Arc<HashJoinNode>),
    MergeJoin(Arc<MergeJoinNode>),
    Aggregate(Arc<AggregateNode>),
    Sort(Arc<SortNode>),
    Top(Arc<TopNode>),
    Window(Arc<WindowNode>),
    Concat(Arc<Vec<Node>>),
    /// Rows that are the same whenever the operator starts again.
    Keep(Arc<KeepNode>),
    /// EXCEPT or INTERSECT of two inputs.
    SetHash(Arc<SetHashNode>),
    Recursive(Arc<RecursiveNode>),
    WorkTable(u32),
}

/// Rows that are kept for when they are asked for again.
pub struct KeepNode {
    pub input: Node,
    /// Where what they read has changed the next ones are kept.
    pub follows: bool,
}

/// A scan or seek of one index, with what is evaluated on the encoded row.
pub struct ScanNode {
    pub access: TableAccess,
    /// Position in the definition's indexes.
    pub index: usize,
    pub view: Access,
    pub seek: Option<Seek>,
    pub backward: bool,
    /// For each output position, where its value comes from.
    pub outputs: Vec<ScanOutput>,
    /// Read from the index entry; checked first, on encoded rows.
    pub leaf: Vec<LeafCond>,
    /// Over the output row, of columns in `early`.
    pub filter: Option<Cond>,
    /// Output positions decoded before `filter` runs; the rest only for rows that pass.
    pub early: Vec<usize>,
    pub late: Vec<usize>,
    /// The index lacks columns: fetch the row by its locator.
    pub lookup: bool,
    /// Condition that needs the looked-up row.
    pub lookup_filter: Option<Cond>,
    /// Output positions filled from the looked-up row.
    pub looked_up: Vec<usize>,
    pub alias: String,
    /// UPDLOCK, XLOCK, READPAST.
    pub row_locking: Option<RowLocking>,
    /// The one row that is read, by its key.
    pub pin: Option<Arc<RowPin>>,
}

/// How a scan locks the rows that pass its conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowLocking {
    /// `None`: nothing is kept, rows of others are only passed.
    pub mode: Option<LockMode>,
    /// READPAST: rows that others have locked or changed are passed.
    pub skip: bool,
}

/// Where a value of the output row comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanOutput {
    /// Position in the index's row.
    Index(usize),
    /// Position in the table's own row.
    Table(usize),
    Key,
    Stamp,
}

/// Key range: values of leading columns, then bounds of the next.
pub struct Seek {
    pub equal: Vec<SeekKey>,
    pub low: Option<SeekBound>,
    pub high: Option<SeekBound>,
}

impl Seek {
    /// Does it give whole keys of an index without duplicates?
    pub fn names_keys(&self, index: &IndexAccess) -> bool {
        index.def.unique && self.equal.len() == index.key.len()
    }
}

/// Value or values that one key column must be equal to.
pub enum SeekKey {
    One(Expr),
    /// IN: each value is a seek of its own.
    List(Vec<Expr>),
    /// IS NULL.
    Null,
}

/// An end of the range that the first column after the equal ones is in.
pub struct SeekBound {
    pub value: Expr,
    pub inclusive: bool,
}

/// A comparison of an integer-like column with a value that does not change during the scan.
pub struct LeafCond {
    pub position: usize,
    pub op: daruma_syntax::ast::CompareOp,
    pub value: Expr,
    /// Money columns compare in their own units.
    pub money: bool,
}

/// A system view or function.
pub struct VirtualNode {
    pub table: Arc<dyn VirtualTable>,
    pub database: DatabaseId,
    pub args: Vec<Expr>,
    /// Positions of the table's columns in the output.
    pub columns: Vec<usize>,
}

/// Rows for which a condition is true.
pub struct FilterNode {
    pub input: Node,
    pub condition: Cond,
    /// Checked once before any row is read.
    pub startup: bool,
}

/// Output: `keep` of the input, then the computed values.
pub struct ComputeNode {
    pub input: Node,
    pub keep: Vec<usize>,
    pub items: Vec<Expr>,
    /// What is computed may be long: the rows of one batch may make several.
    pub is_long: bool,
}

/// See [`super::nested_loop`].
pub struct NestedLoopNode {
    pub kind: JoinKind,
    pub outer: Node,
    pub inner: Node,
    /// Outer position and parameter slot it sets before the inner side starts again.
    pub bind: Vec<(usize, usize)>,
    /// Over outer columns, then inner columns.
    pub on: Option<Cond>,
    /// The inner side does not depend on the outer row: its rows are kept.
    pub spool: bool,
    /// Output positions in the joined row.
    pub output: Vec<usize>,
}

/// See [`super::hash_join`].
pub struct HashJoinNode {
    pub kind: JoinKind,
    /// Streamed side; its unmatched rows are kept by Left, Full and Anti.
    pub probe: Node,
    /// Side held in the hash table.
    pub build: Node,
    pub probe_keys: Vec<Expr>,
    pub build_keys: Vec<Expr>,
    pub collations: Vec<CollationId>,
    /// Over probe columns, then build columns.
    pub residual: Option<Cond>,
    pub output: Vec<usize>,
}

/// See [`super::merge_join`].
pub struct MergeJoinNode {
    pub kind: JoinKind,
    pub left: Node,
    pub right: Node,
    pub left_keys: Vec<usize>,
    pub right_keys: Vec<usize>,
    pub collations: Vec<CollationId>,
    pub residual: Option<Cond>,
    pub output: Vec<usize>,
}

/// Groups and their aggregates.
pub struct AggregateNode {
    pub input: Node,
    pub keys: Vec<usize>,
    pub collations: Vec<CollationId>,
    pub aggregates: Vec<AggregateCall>,
    /// Input comes in key order: one group at a time.
    pub stream: bool,
    pub scalar: bool,
    pub sets: Option<Vec<Vec<bool>>>,
    /// This is DISTINCT.
    pub distinct: bool,
}

/// One aggregate, compiled.
pub struct AggregateCall {
    pub function: AggregateFunction,
    pub arg: Option<Expr>,
    pub arg_type: DataType,
    pub collation: CollationId,
    pub result: DataType,
    pub distinct: bool,
    pub separator: Option<Expr>,
    pub order: Vec<(Expr, bool, CollationId)>,
}

/// A position to sort by; NULL is less than every value.
#[derive(Clone, Debug)]
pub struct SortColumn {
    pub position: usize,
    pub descending: bool,
    pub collation: CollationId,
}

/// Rows in the order of the keys.
pub struct SortNode {
    pub input: Node,
    pub keys: Vec<SortColumn>,
    /// Only as many first rows are wanted as these add up to (a TOP above); empty: all.
    pub limit: Vec<Expr>,
}

/// TOP, OFFSET and FETCH.
pub struct TopNode {
    pub input: Node,
    pub count: Option<Expr>,
    pub percent: bool,
    pub ties: Option<Vec<(usize, CollationId)>>,
    pub offset: Option<Expr>,
}

/// All calls share partition and order; the input is sorted by them.
pub struct WindowNode {
    pub input: Node,
    pub partition: Vec<(usize, CollationId)>,
    pub order: Vec<(usize, CollationId)>,
    pub calls: Vec<WindowStep>,
}

/// One window function, compiled; partition and order are those of its node.
pub struct WindowStep {
    pub function: WindowFunction,
    pub args: Vec<Expr>,
    pub arg_type: DataType,
    pub collation: CollationId,
    pub result: DataType,
    pub frame: Option<WindowFrame>,
    pub ignore_nulls: bool,
}

/// INTERSECT, or EXCEPT.
pub struct SetHashNode {
    pub left: Node,
    pub right: Node,
    pub except: bool,
    pub collations: Vec<CollationId>,
}

/// The anchor's rows, then those of the step over the last round's until it gives none.
pub struct RecursiveNode {
    pub id: u32,
    pub anchor: Node,
    pub step: Node,
    pub max_recursion: u32,
}
