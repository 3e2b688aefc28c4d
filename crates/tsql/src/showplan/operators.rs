//! Operators as `RelOp` elements, from the root.
//!
//! Theory: what the planner knows of an operator is how many rows it gives and what it and all below cost. An operator's own cost is
//! the difference; all of it is called processor time, because pages are no part of it. An operator below a loop is shown as
//! the product shows it: rows of one execution, the cost of all.
//!
//! Subqueries that are evaluated in place stand as the inner side of a loop below the operator that asks them (or above one
//! that has no single input), a lookup as that of a loop over its index: that is how the product runs them.

use super::scalar::Columns;
use super::subqueries::{Call, calls};
use super::words::{Words, column_at};
use super::xml::Writer;
use super::{COST_UNIT, Change, Picture, defined, inputs, joined, names, outer_references, taken};
use crate::access::IndexAccess;
use crate::binder::tree::ColId;
use crate::binder::with_stack;
use crate::executor::expr::{Cond, Expr};
use crate::executor::plan::*;
use crate::executor::{Actual, ActualRows};
use crate::host::TableRef;
use crate::planner::LOOKUP_COST;
use daruma_catalog::{IndexDef, IndexKind};
use daruma_value::{DataType, Len};
use std::collections::{HashMap, HashSet};

/// Bytes of a row besides its columns.
const ROW_HEAD_BYTES: f64 = 7.0;
/// Bytes expected of a column whose length has no bound.
const LONG_VALUE_BYTES: f64 = 4_000.0;

/// Draws the operators of one plan.
pub(super) struct Drawer<'p, 'w> {
    pub words: Words<'p>,
    pub w: &'w mut Writer,
    actual: Option<&'p ActualRows>,
    /// Tables' columns by number.
    origins: HashMap<ColId, (&'p ScanNode, &'p str)>,
    /// Cost of one execution with all that is drawn below, by the operator's address.
    totals: HashMap<usize, f64>,
    /// Operators drawn.
    drawn: u32,
    /// Subplans drawn: each stands in one place.
    subplans: HashSet<usize>,
    /// Subqueries of expressions that are no operator's: of a condition, or of variables that a query assigns.
    others: Vec<Call>,
}

/// What a `RelOp` says of itself before its own element.
struct Head<'s> {
    names: [&'s str; 2],
    columns: &'s [ColId],
    rows: f64,
    own_cost: f64,
    total_cost: f64,
    executions: f64,
    /// What it did, where that is counted and it is an operator of its own.
    actual: Option<Actual>,
}

/// Rows and cost of the whole.
pub(super) fn estimate(picture: &Picture<'_>) -> (f64, f64) {
    let Some(words) = picture.source else {
        return (1.0, 0.0);
    };
    let mut unread = Writer::default();
    let total = Drawer::new(words, None, &mut unread).whole();
    (words.plan.root.rows, total * COST_UNIT)
}

/// Writes the operators of a statement: one `RelOp` that holds the others.
pub(super) fn draw(picture: &Picture<'_>, w: &mut Writer) {
    match (&picture.change, picture.source) {
        (Some(change), Some(words)) => Drawer::new(words, picture.actual, w).change(change),
        (None, Some(words)) => Drawer::new(words, picture.actual, w).root(),
        (Some(change), None) => insert_of_values(change, picture.actual, w),
        (None, None) => {}
    }
}

/// An INSERT without a plan below it.
fn insert_of_values(change: &Change<'_>, actual: Option<&ActualRows>, w: &mut Writer) {
    let size = ROW_HEAD_BYTES;
    head_attributes(
        w,
        0,
        change.names(),
        &Estimates {
            size,
            rows: 1.0,
            ..Estimates::default()
        },
    );
    w.empty("OutputList", &[]);
    run_time(w, actual.map(ActualRows::of_change));
    w.open("ScalarInsert");
    object(w, change.table, change.index(), None);
    w.close();
    w.close();
}

#[derive(Default)]
struct Estimates {
    size: f64,
    rows: f64,
    own: f64,
    total: f64,
    rebinds: f64,
}

/// Begins a `RelOp`.
fn head_attributes(w: &mut Writer, id: u32, [physical, logical]: [&str; 2], e: &Estimates) {
    w.open("RelOp");
    w.number("AvgRowSize", e.size);
    w.number("EstimateCPU", e.own);
    w.number("EstimateIO", 0.0);
    w.number("EstimateRebinds", e.rebinds);
    w.number("EstimateRewinds", 0.0);
    w.number("EstimateRows", e.rows);
    w.attribute("LogicalOp", logical);
    w.attribute("NodeId", &id.to_string());
    w.flag("Parallel", false);
    w.attribute("PhysicalOp", physical);
    w.number("EstimatedTotalSubtreeCost", e.total);
}

/// What an operator did; one thread does all.
fn run_time(w: &mut Writer, actual: Option<Actual>) {
    let Some(actual) = actual else {
        return;
    };
    w.open("RunTimeInformation");
    w.open("RunTimeCountersPerThread");
    w.attribute("Thread", "0");
    w.attribute("ActualRows", &actual.rows.to_string());
    w.attribute("ActualEndOfScans", &actual.ends.to_string());
    w.attribute("ActualExecutions", &actual.executions.to_string());
    w.close();
    w.close();
}

fn bracketed(name: &str) -> String {
    format!("[{}]", name.replace(']', "]]"))
}

/// A table or one of its indexes.
fn object(w: &mut Writer, table: &TableRef, index: Option<&IndexDef>, alias: Option<&str>) {
    w.open("Object");
    w.attribute("Database", &bracketed(&table.database.name()));
    w.attribute("Schema", &bracketed(&table.schema_name));
    w.attribute("Table", &bracketed(&table.name));
    let kind = index.map_or(IndexKind::Heap, |i| i.kind);
    if let Some(name) = index.and_then(|i| i.name.as_ref())
        && kind != IndexKind::Heap
    {
        w.attribute("Index", &bracketed(name));
    }
    if let Some(alias) = alias {
        w.attribute("Alias", &bracketed(alias));
    }
    let kind = match kind {
        IndexKind::Heap => "Heap",
        IndexKind::Clustered => "Clustered",
        IndexKind::Nonclustered => "NonClustered",
    };
    w.attribute("IndexKind", kind);
    w.close();
}

impl<'p, 'w> Drawer<'p, 'w> {
    fn new(words: Words<'p>, actual: Option<&'p ActualRows>, w: &'w mut Writer) -> Drawer<'p, 'w> {
        let mut drawer = Drawer {
            words,
            w,
            actual,
            origins: HashMap::new(),
            totals: HashMap::new(),
            drawn: 0,
            subplans: HashSet::new(),
            others: Vec::new(),
        };
        let mut asked = HashSet::new();
        drawer.find_origins(&words.plan.root, &mut asked);
        for subplan in &words.plan.subplans {
            drawer.find_origins(&subplan.node, &mut asked);
        }
        let others = (0..words.plan.subplans.len()).filter(|s| !asked.contains(s));
        drawer.others = others.map(Call::of).collect();
        drawer
    }

    /// Notes where columns come from, and the subplans that operators ask.
    fn find_origins(&mut self, node: &'p Node, asked: &mut HashSet<usize>) {
        asked.extend(calls(node).iter().map(|c| c.subplan));
        if let Op::Scan(scan) = &node.op
            && let Ok(index) = scan.access.index(scan.index)
        {
            let primary = scan.access.primary();
            for (id, output) in node.schema.iter().zip(&scan.outputs) {
                let name = match output {
                    ScanOutput::Index(p) => column_at(scan, index, *p),
                    ScanOutput::Table(p) => column_at(scan, primary, *p),
                    ScanOutput::Key | ScanOutput::Stamp => continue,
                };
                self.origins.insert(*id, (scan, name));
            }
        }
        with_stack(|| {
            inputs(node)
                .into_iter()
                .for_each(|i| self.find_origins(i, asked));
        });
    }

    // --- Costs

    /// Executions of an input for each of the operator's.
    fn executions(node: &Node, input: usize) -> f64 {
        match &node.op {
            Op::NestedLoop(j) if input == 1 && !j.spool => j.outer.rows,
            _ => 1.0,
        }
    }

    fn own_cost(node: &Node) -> f64 {
        let below = inputs(node).into_iter().enumerate();
        let below: f64 = below.map(|(i, n)| n.cost * Self::executions(node, i)).sum();
        (node.cost - below).max(0.0)
    }

    /// Cost of one execution of the operator and all below it.
    fn total(&mut self, node: &'p Node) -> f64 {
        let place = std::ptr::from_ref(node) as usize;
        if let Some(known) = self.totals.get(&place) {
            return *known;
        }
        let mut total = Self::own_cost(node);
        with_stack(|| {
            for (i, input) in inputs(node).into_iter().enumerate() {
                total += self.total(input) * Self::executions(node, i);
            }
            for call in calls(node) {
                total += self.subplan_total(call, asked_for(node).rows);
            }
        });
        self.totals.insert(place, total);
        total
    }

    /// Cost of a subquery that is asked for so many rows.
    fn subplan_total(&mut self, call: Call, rows: f64) -> f64 {
        match self.words.plan.subplans.get(call.subplan) {
            Some(subplan) => self.total(&subplan.node) * subplan_executions(subplan, rows),
            None => 0.0,
        }
    }

    /// Cost of the root and of the subqueries that stand beside it.
    fn whole(&mut self) -> f64 {
        let root = &self.words.plan.root;
        let beside = self.others.clone().into_iter();
        let beside: f64 = beside.map(|c| self.subplan_total(c, root.rows)).sum();
        self.total(root) + beside
    }

    // --- Elements

    /// The whole plan.
    fn root(&mut self) {
        let others = self.others.clone();
        self.with_calls(&self.words.plan.root, &others, 1.0, Self::node);
    }

    /// The element of an operator and all below it.
    pub fn node(&mut self, node: &'p Node, executions: f64) {
        with_stack(|| {
            let calls = self.fresh_calls(node);
            match single_input(node) {
                Some(_) => self.operator(node, &calls, executions),
                None => self.with_calls(node, &calls, executions, Self::bare),
            }
        });
    }

    fn fresh_calls(&mut self, node: &'p Node) -> Vec<Call> {
        let mut calls = calls(node);
        calls.retain(|c| self.subplans.insert(c.subplan));
        calls
    }

    fn bare(&mut self, node: &'p Node, executions: f64) {
        self.operator(node, &[], executions);
    }

    /// Loops over the operator's rows that evaluate subqueries, one within the other.
    fn with_calls(
        &mut self,
        node: &'p Node,
        calls: &[Call],
        executions: f64,
        draw: fn(&mut Self, &'p Node, f64),
    ) {
        let Some((last, rest)) = calls.split_last() else {
            return draw(self, node, executions);
        };
        let Some(subplan) = self.words.plan.subplans.get(last.subplan) else {
            return self.with_calls(node, rest, executions, draw);
        };
        let given = taken(&subplan.node.schema, &[last.column]);
        let columns: Vec<ColId> = node.schema.iter().copied().chain(given).collect();
        let mut total = self.total(node);
        for call in calls {
            total += self.subplan_total(*call, node.rows);
        }
        let logical = if last.is_test {
            "Left Semi Join"
        } else {
            "Left Outer Join"
        };
        self.head(&Head {
            names: ["Nested Loops", logical],
            columns: &columns,
            rows: node.rows,
            own_cost: 0.0,
            total_cost: total,
            executions,
            actual: None,
        });
        self.w.open("NestedLoops");
        self.w.flag("Optimized", false);
        self.with_calls(node, rest, executions, draw);
        self.node(
            &subplan.node,
            executions * subplan_executions(subplan, node.rows),
        );
        self.w.close();
        self.w.close();
    }

    fn head(&mut self, head: &Head<'_>) {
        let factor = head.executions * COST_UNIT;
        let estimates = Estimates {
            size: self.row_size(head.columns),
            rows: head.rows,
            own: head.own_cost * factor,
            total: head.total_cost * factor,
            rebinds: (head.executions - 1.0).max(0.0),
        };
        head_attributes(self.w, self.drawn, head.names, &estimates);
        self.drawn += 1;
        self.column_list("OutputList", head.columns);
        run_time(self.w, head.actual);
    }

    fn row_size(&self, columns: &[ColId]) -> f64 {
        let size = |id: &ColId| match self.words.columns.get(*id as usize) {
            Some(info) => value_size(info.ty.data_type),
            None => 4.0,
        };
        ROW_HEAD_BYTES + columns.iter().map(size).sum::<f64>()
    }

    /// The operator; `below` are the subqueries that its input's rows are asked for.
    fn operator(&mut self, node: &'p Node, below: &[Call], executions: f64) {
        if let Op::Scan(scan) = &node.op
            && scan.lookup
            && let Ok(index) = scan.access.index(scan.index)
        {
            return self.lookup(node, scan, index, executions);
        }
        let total_cost = self.total(node);
        self.head(&Head {
            names: names(node),
            columns: &node.schema,
            rows: node.rows,
            own_cost: Self::own_cost(node),
            total_cost,
            executions,
            actual: self.actual.map(|a| a.of(node)),
        });
        self.element(node);
        for (i, input) in inputs(node).into_iter().enumerate() {
            let executions = executions * Self::executions(node, i);
            match &node.op {
                // Its condition stands behind its input.
                Op::Filter(f) => {
                    self.with_calls(input, below, executions, Self::node);
                    self.predicate("Predicate", &f.condition, Columns::Row(&f.input.schema));
                }
                Op::Recursive(_) if i == 0 => {
                    self.round(node, executions);
                    break;
                }
                _ => self.with_calls(input, below, executions, Self::node),
            }
        }
        self.w.close();
        self.w.close();
    }

    /// Anchor and step of a recursive query, one after the other.
    fn round(&mut self, node: &'p Node, executions: f64) {
        let total_cost = self.total(node);
        self.head(&Head {
            names: ["Concatenation"; 2],
            columns: &node.schema,
            rows: node.rows,
            own_cost: 0.0,
            total_cost,
            executions,
            actual: None,
        });
        self.w.open("Concat");
        for input in inputs(node) {
            self.node(input, executions);
        }
        self.w.close();
        self.w.close();
    }

    /// Opens the element that an operator is, and writes what stands in it before its inputs.
    fn element(&mut self, node: &'p Node) {
        match &node.op {
            Op::One | Op::Empty => self.w.open("ConstantScan"),
            Op::Values(rows) => self.values(rows),
            Op::Scan(scan) => self.scan(node, scan),
            Op::Virtual(v) => self.virtual_table(node, v),
            Op::Filter(f) => {
                self.w.open("Filter");
                self.w.flag("StartupExpression", f.startup);
            }
            Op::Compute(c) => {
                self.w.open("ComputeScalar");
                self.defined_values(node.schema.iter().zip(&c.items), |d, e| {
                    d.operand(e, Columns::Row(&c.input.schema));
                });
            }
            Op::NestedLoop(j) => self.nested_loop(j),
            Op::HashJoin(j) => self.hash_join(j),
            Op::MergeJoin(j) => self.merge_join(j),
            Op::Aggregate(a) => self.aggregate(a, node),
            Op::Sort(s) => self.sort(s),
            Op::Top(t) => self.top(t),
            Op::Window(_) => self.w.open("WindowAggregate"),
            Op::Concat(_) => self.w.open("Concat"),
            Op::SetHash(s) => {
                self.w.open("Hash");
                self.column_list("HashKeysBuild", &s.left.schema);
                self.column_list("HashKeysProbe", &s.right.schema);
            }
            Op::Recursive(_) => {
                self.w.open("Spool");
                self.w.flag("Stack", true);
            }
            Op::Keep(_) | Op::WorkTable(_) => self.w.open("Spool"),
        }
    }

    fn values(&mut self, rows: &[Vec<Expr>]) {
        self.w.open("ConstantScan");
        let rows = rows.iter().filter(|row| !row.is_empty());
        if rows.clone().next().is_none() {
            return;
        }
        self.w.open("Values");
        for row in rows {
            self.w.open("Row");
            row.iter().for_each(|e| self.operand(e, Columns::Row(&[])));
            self.w.close();
        }
        self.w.close();
    }

    fn virtual_table(&mut self, node: &Node, v: &VirtualNode) {
        self.w.open("TableValuedFunction");
        self.given_values(&node.schema);
        self.w
            .empty("Object", &[("Table", &bracketed(v.table.name()))]);
        if !v.args.is_empty() {
            self.w.open("ParameterList");
            v.args
                .iter()
                .for_each(|e| self.operand(e, Columns::Row(&[])));
            self.w.close();
        }
    }

    fn nested_loop(&mut self, j: &NestedLoopNode) {
        self.w.open("NestedLoops");
        self.w.flag("Optimized", false);
        if let Some(on) = &j.on {
            self.predicate("Predicate", on, Columns::Row(&joined(j)));
        }
        let outer = outer_references(j);
        if !outer.is_empty() {
            self.column_list("OuterReferences", &outer);
        }
    }

    fn hash_join(&mut self, j: &HashJoinNode) {
        self.w.open("Hash");
        self.key_list("HashKeysBuild", &j.build_keys, &j.build.schema);
        self.key_list("HashKeysProbe", &j.probe_keys, &j.probe.schema);
        if let Some(residual) = &j.residual {
            let row = [&j.probe.schema[..], &j.build.schema].concat();
            self.predicate("ProbeResidual", residual, Columns::Row(&row));
        }
    }

    fn merge_join(&mut self, j: &MergeJoinNode) {
        self.w.open("Merge");
        self.column_list(
            "InnerSideJoinColumns",
            &taken(&j.right.schema, &j.right_keys),
        );
        self.column_list("OuterSideJoinColumns", &taken(&j.left.schema, &j.left_keys));
        if let Some(residual) = &j.residual {
            let row = [&j.left.schema[..], &j.right.schema].concat();
            self.predicate("Residual", residual, Columns::Row(&row));
        }
    }

    fn aggregate(&mut self, a: &AggregateNode, node: &Node) {
        let (element, keys) = match a.stream {
            true => ("StreamAggregate", "GroupBy"),
            false => ("Hash", "HashKeysBuild"),
        };
        self.w.open(element);
        if !a.aggregates.is_empty() {
            let calls: Vec<(ColId, &AggregateCall)> = defined(a, node).collect();
            self.defined_values(calls.iter().map(|(id, c)| (id, *c)), |d, call| {
                d.aggregate_call(call, &a.input.schema);
            });
        }
        if !a.keys.is_empty() {
            self.column_list(keys, &taken(&a.input.schema, &a.keys));
        }
    }

    fn sort(&mut self, s: &SortNode) {
        let rows = sorted_rows(&s.limit);
        self.w.open(if rows.is_some() { "TopSort" } else { "Sort" });
        self.w.flag("Distinct", false);
        if let Some(rows) = rows {
            self.w.attribute("Rows", &rows.to_string());
        }
        self.w.open("OrderBy");
        for key in &s.keys {
            if let Some(id) = s.input.schema.get(key.position) {
                self.w.open("OrderByColumn");
                self.w.flag("Ascending", !key.descending);
                self.column(*id);
                self.w.close();
            }
        }
        self.w.close();
    }

    fn top(&mut self, t: &TopNode) {
        self.w.open("Top");
        self.w.flag("RowCount", false);
        self.w.flag("IsPercent", t.percent);
        self.w.flag("WithTies", t.ties.is_some());
        if let Some(ties) = &t.ties {
            let at: Vec<usize> = ties.iter().map(|(position, _)| *position).collect();
            self.column_list("TieColumns", &taken(&t.input.schema, &at));
        }
        for (element, expr) in [("OffsetExpression", &t.offset), ("TopExpression", &t.count)] {
            if let Some(expr) = expr {
                self.w.open(element);
                self.operand(expr, Columns::Row(&[]));
                self.w.close();
            }
        }
    }

    // --- Tables

    /// A scan or seek that finds all it needs in its index.
    fn scan(&mut self, node: &Node, scan: &'p ScanNode) {
        let Ok(index) = scan.access.index(scan.index) else {
            return self.w.open("ConstantScan");
        };
        let conds: Vec<&Cond> = scan.filter.iter().chain(&scan.lookup_filter).collect();
        self.rowset(scan, index, &node.schema, index.def.kind == IndexKind::Heap);
        let names = self.words.output_names(scan, index);
        if let Some(seek) = &scan.seek {
            self.seek_predicates(scan, seek, index);
        }
        self.conditions(
            scan,
            &scan.leaf,
            &conds,
            Columns::Scan(&node.schema, &names),
        );
    }

    /// Begins the element of a table or index, with its columns and its name.
    fn rowset(&mut self, scan: &ScanNode, index: &IndexAccess, columns: &[ColId], is_heap: bool) {
        let is_ordered = scan.seek.is_some() || scan.backward;
        self.w.open(if is_heap { "TableScan" } else { "IndexScan" });
        self.w.flag("Ordered", is_ordered);
        if is_ordered && !is_heap {
            let direction = if scan.backward { "BACKWARD" } else { "FORWARD" };
            self.w.attribute("ScanDirection", direction);
        }
        self.given_values(columns);
        self.object_of(scan, Some(&index.def));
    }

    fn object_of(&mut self, scan: &ScanNode, index: Option<&IndexDef>) {
        let alias = (scan.alias != scan.access.table.name).then_some(&*scan.alias);
        object(self.w, &scan.access.table, index, alias);
    }

    /// An index that lacks columns: a loop over its entries fetches the rows.
    fn lookup(&mut self, node: &'p Node, scan: &'p ScanNode, index: &IndexAccess, executions: f64) {
        let (own, lookups) = (node.cost, (node.rows * LOOKUP_COST).min(node.cost));
        let all: Vec<usize> = (0..node.schema.len()).collect();
        let fetched = taken(&node.schema, &scan.looked_up);
        let found: Vec<usize> = all
            .into_iter()
            .filter(|p| !scan.looked_up.contains(p))
            .collect();
        let found = taken(&node.schema, &found);
        let mut head = Head {
            names: ["Nested Loops", "Inner Join"],
            columns: &node.schema,
            rows: node.rows,
            own_cost: 0.0,
            total_cost: own,
            executions,
            actual: self.actual.map(|a| a.of(node)),
        };
        self.head(&head);
        self.w.open("NestedLoops");
        self.w.flag("Optimized", false);
        let texts = self.words.output_names(scan, index);
        let columns = Columns::Scan(&node.schema, &texts);

        // Entries and rows are not counted apart.
        head.actual = None;
        (head.names, head.columns) = (names(node), &found);
        (head.own_cost, head.total_cost) = (own - lookups, own - lookups);
        self.head(&head);
        self.rowset(scan, index, &found, false);
        if let Some(seek) = &scan.seek {
            self.seek_predicates(scan, seek, index);
        }
        let filter: Vec<&Cond> = scan.filter.iter().collect();
        self.conditions(scan, &scan.leaf, &filter, columns);
        self.w.close();
        self.w.close();

        let primary = scan.access.primary();
        let is_heap = primary.def.kind == IndexKind::Heap;
        head.names = [if is_heap { "RID Lookup" } else { "Key Lookup" }; 2];
        (head.columns, head.rows) = (&fetched, 1.0);
        head.executions = executions * node.rows.max(1.0);
        let each = lookups / node.rows.max(1.0);
        (head.own_cost, head.total_cost) = (each, each);
        self.head(&head);
        self.w.open("IndexScan");
        self.w.flag("Lookup", true);
        self.w.flag("Ordered", true);
        self.w.attribute("ScanDirection", "FORWARD");
        self.given_values(&fetched);
        self.object_of(scan, Some(&primary.def));
        let filter: Vec<&Cond> = scan.lookup_filter.iter().collect();
        self.conditions(scan, &[], &filter, columns);
        self.w.close();
        self.w.close();

        self.w.close();
        self.w.close();
    }

    /// The operator that writes, over the plan that finds the rows.
    fn change(&mut self, change: &Change<'_>) {
        let root = &self.words.plan.root;
        let total_cost = self.whole();
        self.head(&Head {
            names: change.names(),
            columns: &[],
            rows: root.rows,
            own_cost: 0.0,
            total_cost,
            executions: 1.0,
            actual: self.actual.map(ActualRows::of_change),
        });
        self.w.open("Update");
        object(self.w, change.table, change.index(), None);
        self.root();
        self.w.close();
        self.w.close();
    }

    // --- Columns

    /// `ColumnReference`: a table's column with its table, others by their name.
    pub fn column(&mut self, id: ColId) {
        match self.origins.get(&id) {
            Some((scan, name)) => self.scan_column(scan, name),
            None => {
                let name = self.words.short_name(id);
                self.w.empty("ColumnReference", &[("Column", &name)]);
            }
        }
    }

    /// A column of the table that is scanned.
    pub fn scan_column(&mut self, scan: &ScanNode, name: &str) {
        let table = &scan.access.table;
        self.w.open("ColumnReference");
        self.w
            .attribute("Database", &bracketed(&table.database.name()));
        self.w.attribute("Schema", &bracketed(&table.schema_name));
        self.w.attribute("Table", &bracketed(&table.name));
        if scan.alias != table.name {
            self.w.attribute("Alias", &bracketed(&scan.alias));
        }
        self.w.attribute("Column", name);
        self.w.close();
    }

    fn column_list(&mut self, element: &'static str, ids: &[ColId]) {
        self.w.open(element);
        ids.iter().for_each(|id| self.column(*id));
        self.w.close();
    }

    /// Keys that are columns, or expressions under their text.
    fn key_list(&mut self, element: &'static str, keys: &[Expr], schema: &[ColId]) {
        self.w.open(element);
        for key in keys {
            match key {
                Expr::Slot(slot) if let Some(id) = schema.get(*slot) => self.column(*id),
                key => {
                    self.w.open("ColumnReference");
                    self.w.attribute("Column", &self.words.expr(key, schema));
                    self.operand(key, Columns::Row(schema));
                    self.w.close();
                }
            }
        }
        self.w.close();
    }

    /// `DefinedValues`: columns with what they are.
    fn defined_values<'i, T>(
        &mut self,
        items: impl Iterator<Item = (&'i ColId, T)>,
        value: impl Fn(&mut Self, T),
    ) {
        self.w.open("DefinedValues");
        for (id, item) in items {
            self.w.open("DefinedValue");
            self.column(*id);
            value(self, item);
            self.w.close();
        }
        self.w.close();
    }

    /// Columns that an operator reads from what it stands for.
    fn given_values(&mut self, ids: &[ColId]) {
        self.defined_values(ids.iter().map(|id| (id, ())), |_, ()| {});
    }
}

/// The one input of an operator that evaluates its expressions over that input's rows.
fn single_input(node: &Node) -> Option<&Node> {
    match inputs(node).as_slice() {
        [input] => Some(input),
        _ => None,
    }
}

/// The rows for which an operator asks its subqueries.
fn asked_for(node: &Node) -> &Node {
    single_input(node).unwrap_or(node)
}

/// One that reads nothing of the row is evaluated once.
fn subplan_executions(subplan: &Subplan, rows: f64) -> f64 {
    match subplan.reads.is_empty() {
        true => 1.0,
        false => rows,
    }
}

/// Rows that a sort keeps, if that is known.
fn sorted_rows(limit: &[Expr]) -> Option<i32> {
    if limit.is_empty() {
        return None;
    }
    let number = |e: &Expr| match e {
        Expr::Const(value) => value.as_i64(),
        _ => None,
    };
    let sum = limit
        .iter()
        .map(number)
        .try_fold(0i64, |sum, n| sum.checked_add(n?));
    sum.and_then(|n| i32::try_from(n).ok())
}

/// Bytes expected of a value: half of what a bounded one may have.
fn value_size(data_type: DataType) -> f64 {
    let half = |len: Len, each: f64| match len.is_max() {
        true => LONG_VALUE_BYTES,
        false => f64::from(len.0) * each / 2.0,
    };
    match data_type {
        DataType::Bit | DataType::TinyInt => 1.0,
        DataType::SmallInt => 2.0,
        DataType::Int | DataType::Real | DataType::SmallMoney | DataType::SmallDateTime => 4.0,
        DataType::BigInt
        | DataType::Float
        | DataType::Money
        | DataType::DateTime
        | DataType::RowVersion => 8.0,
        DataType::Date => 3.0,
        DataType::Time { .. } => 5.0,
        DataType::DateTime2 { .. } => 8.0,
        DataType::DateTimeOffset { .. } => 10.0,
        DataType::UniqueIdentifier => 16.0,
        DataType::Decimal { precision, .. } => match precision {
            0..=9 => 5.0,
            10..=19 => 9.0,
            20..=28 => 13.0,
            _ => 17.0,
        },
        DataType::Char(len) | DataType::Binary(len) => half(len, 2.0),
        DataType::NChar(len) => half(len, 4.0),
        DataType::VarChar(len) | DataType::VarBinary(len) => half(len, 1.0),
        DataType::NVarChar(len) => half(len, 2.0),
        DataType::Text
        | DataType::NText
        | DataType::Image
        | DataType::Xml
        | DataType::Variant
        | DataType::HierarchyId
        | DataType::Geography
        | DataType::Geometry => LONG_VALUE_BYTES,
    }
}
