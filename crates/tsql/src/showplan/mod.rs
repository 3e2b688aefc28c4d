//! Plans as people and tools see them: lines of SHOWPLAN_TEXT and SHOWPLAN_ALL, and documents of SHOWPLAN_XML.
//!
//! Theory: a kept plan gives a [`Picture`]: the operator that writes, if the statement changes rows, and the plan that finds them.
//! `words` names columns and expressions, `lines` writes one line for each operator, `operators` one element, `document` puts the
//! statements of a text around them. Operators have the names of the product's nearest ones.
//!
//! Invariants
//! 1. Nothing is run, and nothing is read but the plan: row counts and costs are those that the planner chose by.
//! 2. Elements stand in the order that the product's schema prescribes; every text and name is escaped where it is written (`xml`).
//! 3. A document is bounded (`xml::BYTES_MAX`); one that would be longer is none.
//!
//! Read next: `operators`, `document`.

mod document;
mod hash;
mod lines;
mod operators;
mod scalar;
mod seek;
mod subqueries;
mod words;
mod xml;

pub use document::{Document, Plans, document, type_name};
pub use hash::{plan_hash, query_hash};
pub use lines::ShownLine;

use crate::binder::ColumnInfo;
use crate::binder::tree::ColId;
use crate::executor::ActualRows;
use crate::executor::plan::*;
use crate::host::TableRef;
use daruma_catalog::{IndexDef, IndexKind};
use words::Words;

/// What the planner's unit of cost is in the product's, which once was a second of a desk computer.
const COST_UNIT: f64 = 1e-5;

/// The operators of a statement, for those who show them.
pub struct Picture<'p> {
    change: Option<Change<'p>>,
    source: Option<Words<'p>>,
    actual: Option<&'p ActualRows>,
}

/// The operator that writes the rows of a data change.
struct Change<'p> {
    table: &'p TableRef,
    verb: &'static str,
}

impl<'p> Picture<'p> {
    /// Of a query; `columns` are the binder's, by number.
    pub fn of(plan: &'p Plan, columns: &'p [ColumnInfo]) -> Picture<'p> {
        Picture {
            change: None,
            source: Some(Words { plan, columns }),
            actual: None,
        }
    }

    /// Of INSERT, UPDATE, DELETE or MERGE (`verb`) of a table, whose rows `source` finds.
    pub fn of_change(
        table: &'p TableRef,
        verb: &'static str,
        source: Option<Picture<'p>>,
    ) -> Picture<'p> {
        Picture {
            change: Some(Change { table, verb }),
            source: source.and_then(|s| s.source),
            actual: None,
        }
    }

    /// The same with what its operators did.
    #[must_use]
    pub fn with_actual(self, actual: Option<&'p ActualRows>) -> Picture<'p> {
        Picture { actual, ..self }
    }

    /// Variables that the plan reads.
    fn variables(&self) -> &[std::sync::Arc<str>] {
        self.source.map_or(&[], |words| &words.plan.variables)
    }

    /// Lines of SHOWPLAN_TEXT.
    pub fn text(&self) -> Vec<String> {
        self.lines().into_iter().map(|line| line.text).collect()
    }

    /// Operators as SHOWPLAN_ALL and STATISTICS PROFILE show them.
    pub fn lines(&self) -> Vec<ShownLine> {
        lines::all(self)
    }
}

impl Change<'_> {
    /// The index that is the table.
    fn index(&self) -> Option<&IndexDef> {
        self.table.def.primary()
    }

    /// Physical and logical name.
    fn names(&self) -> [&'static str; 2] {
        let is_heap = self.index().is_none_or(|i| i.kind == IndexKind::Heap);
        let physical = match (self.verb, is_heap) {
            ("Insert", true) => "Table Insert",
            ("Insert", false) => "Clustered Index Insert",
            ("Update", true) => "Table Update",
            ("Update", false) => "Clustered Index Update",
            ("Delete", true) => "Table Delete",
            ("Delete", false) => "Clustered Index Delete",
            (_, true) => "Table Merge",
            (_, false) => "Clustered Index Merge",
        };
        [physical, self.verb]
    }

    fn object(&self) -> String {
        match self.index() {
            Some(index) => table_name(self.table, index),
            None => three_parts(self.table),
        }
    }
}

/// Physical and logical name of an operator.
fn names(node: &Node) -> [&'static str; 2] {
    match &node.op {
        Op::One | Op::Values(_) | Op::Empty => ["Constant Scan"; 2],
        Op::Scan(scan) => [scan_name(scan); 2],
        Op::Virtual(_) => ["Table-valued function"; 2],
        Op::Filter(_) => ["Filter"; 2],
        Op::Compute(_) => ["Compute Scalar"; 2],
        Op::NestedLoop(j) => ["Nested Loops", join_name(j.kind)],
        Op::HashJoin(j) => ["Hash Match", join_name(j.kind)],
        Op::MergeJoin(j) => ["Merge Join", join_name(j.kind)],
        Op::Aggregate(a) if a.stream => ["Stream Aggregate", "Aggregate"],
        Op::Aggregate(_) => ["Hash Match", "Aggregate"],
        Op::Sort(s) if s.limit.is_empty() => ["Sort"; 2],
        Op::Sort(_) => ["Sort", "TopN Sort"],
        Op::Top(_) => ["Top"; 2],
        Op::Window(_) => ["Window Aggregate"; 2],
        Op::Concat(_) => ["Concatenation"; 2],
        Op::SetHash(s) if s.except => ["Hash Match", "Left Anti Semi Join"],
        Op::SetHash(_) => ["Hash Match", "Left Semi Join"],
        Op::Recursive(_) => ["Index Spool", "Lazy Spool"],
        Op::Keep(_) | Op::WorkTable(_) => ["Table Spool", "Lazy Spool"],
    }
}

fn scan_name(scan: &ScanNode) -> &'static str {
    let kind = scan.access.index(scan.index).map(|i| i.def.kind);
    match (kind, scan.seek.is_some()) {
        (Err(_) | Ok(IndexKind::Heap), _) => "Table Scan",
        (Ok(IndexKind::Clustered), false) => "Clustered Index Scan",
        (Ok(IndexKind::Clustered), true) => "Clustered Index Seek",
        (Ok(IndexKind::Nonclustered), false) => "Index Scan",
        (Ok(IndexKind::Nonclustered), true) => "Index Seek",
    }
}

fn join_name(kind: JoinKind) -> &'static str {
    match kind {
        JoinKind::Inner => "Inner Join",
        JoinKind::Left => "Left Outer Join",
        JoinKind::Full => "Full Outer Join",
        JoinKind::Semi => "Left Semi Join",
        JoinKind::Anti => "Left Anti Semi Join",
    }
}

/// Operators whose rows an operator takes, in the order in which they are shown.
fn inputs(node: &Node) -> Vec<&Node> {
    match &node.op {
        Op::Filter(n) => vec![&n.input],
        Op::Compute(n) => vec![&n.input],
        Op::NestedLoop(n) => vec![&n.outer, &n.inner],
        // The product shows the build side first.
        Op::HashJoin(n) => vec![&n.build, &n.probe],
        Op::MergeJoin(n) => vec![&n.left, &n.right],
        Op::Aggregate(n) => vec![&n.input],
        Op::Sort(n) => vec![&n.input],
        Op::Top(n) => vec![&n.input],
        Op::Window(n) => vec![&n.input],
        Op::Concat(n) => n.iter().collect(),
        Op::Keep(n) => vec![&n.input],
        Op::SetHash(n) => vec![&n.left, &n.right],
        Op::Recursive(n) => vec![&n.anchor, &n.step],
        _ => Vec::new(),
    }
}

/// Columns of the outer side that the inner side of a loop reads.
fn outer_references(j: &NestedLoopNode) -> Vec<ColId> {
    let at = j.bind.iter().map(|(position, _)| *position);
    at.filter_map(|p| j.outer.schema.get(p).copied()).collect()
}

/// The row that the condition of a loop is over.
fn joined(j: &NestedLoopNode) -> Vec<ColId> {
    let both = j.outer.schema.iter().chain(&j.inner.schema);
    both.copied().collect()
}

/// Columns at these positions.
fn taken(schema: &[ColId], at: &[usize]) -> Vec<ColId> {
    at.iter().filter_map(|p| schema.get(*p).copied()).collect()
}

/// The aggregates of a grouping with the columns that they fill.
fn defined<'n>(
    a: &'n AggregateNode,
    node: &'n Node,
) -> impl Iterator<Item = (ColId, &'n AggregateCall)> {
    let before = a.keys.len() + usize::from(a.sets.is_some());
    node.schema.iter().copied().skip(before).zip(&a.aggregates)
}

fn three_parts(table: &TableRef) -> String {
    let database = table.database.name();
    format!("[{database}].[{}].[{}]", table.schema_name, table.name)
}

fn table_name(table: &TableRef, index: &IndexDef) -> String {
    let name = index.name.as_ref();
    match name.filter(|_| index.kind != IndexKind::Heap) {
        Some(index) => format!("{}.[{index}]", three_parts(table)),
        None => three_parts(table),
    }
}
